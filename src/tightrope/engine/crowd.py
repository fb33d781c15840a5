"""The CPU's kernel for many arms: one run at a time, a decision without a look at every arm.

The lanes (``lanes``) look at all arms of many runs side by side; from some hundreds of arms on,
the ways of ``decision`` are faster for the policies that allow them. Draws, totals, queues and
decisions are the same to the bit.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import int32, uint32

from tightrope.compiled import compile_function, compile_kernel, fingerprint
from tightrope.decision import (
    ENVELOPE,
    Field,
    Run,
    Sizes,
    Spec,
    Store,
    decider,
    envelope_of,
    learner,
    settler,
    view,
    way_for,
)
from tightrope.decision.envelope import Envelope
from tightrope.decision.memory import ARMS, EXPLORE
from tightrope.engine import rng
from tightrope.engine.rng import OUTCOMES, seed_words
from tightrope.policies.base import IndexPolicy, Setup
from tightrope.problem import Problem
from tightrope.results import Runs

__all__ = ["Crowd", "CrowdPlan", "plan_crowd"]

SOURCE = Path(__file__).read_bytes()
CHECK_EVERY = 1024  # steps between looks at whether to stop
FOREVER = 2**62
SIZES = Sizes()


@dataclass(frozen=True)
class CrowdPlan:
    """All that the runs of one policy at one (normalised) budget share."""

    problem: Problem
    setup: Setup
    budget: float
    seed: int
    spec: Spec
    law: Any
    sizes: Sizes = SIZES
    chunk: int = 1  # runs in a unit of work
    backend: str = "cpu"

    @property
    def bernoulli(self) -> bool:
        """Whether outcomes are drawn from thresholds, not tables."""
        return not isinstance(self.law, tuple)

    def store(self, budget: float) -> Store:
        """The memory of a run."""
        return Store(self.spec, self.problem.arm_count, self.setup, budget, sizes=self.sizes)

    @cached_property
    def envelope(self) -> Envelope | None:
        """What all runs read their decisions off, where the policy does not learn."""
        return envelope_of(self.store(self.budget)) if self.spec.way == ENVELOPE else None

    def compile(self) -> float:
        """Compile the kernel or read it from the disk; the seconds of compiling."""
        start, kernel = time.perf_counter(), _kernel(self.spec, self.bernoulli)
        misses = sum(kernel.stats.cache_misses.values())
        Crowd(self, 0).advance(0, np.zeros(1, np.uint8))
        compiled = sum(kernel.stats.cache_misses.values()) > misses
        return time.perf_counter() - start if compiled else 0.0

    def run(
        self, runs: npt.NDArray[np.int64], stop: npt.NDArray[np.uint8]
    ) -> tuple[Runs | None, float]:
        """The runs and the seconds they took; None if ``stop[0]`` was set before the end."""
        start = time.perf_counter()
        finished = []
        for run in runs.tolist():
            crowd = Crowd(self, run)
            crowd.advance(FOREVER, stop)
            if crowd.running:
                return None, 0.0
            finished.append(crowd.read())
        return Runs.stack(finished), time.perf_counter() - start


def plan_crowd(
    problem: Problem,
    policy: IndexPolicy,
    setup: Setup,
    budget: float,
    seed: int,
    dtype: type,
    law: Any,
) -> CrowdPlan:
    """A plan by the way that suits the policy."""
    spec = Spec(
        policy=type(policy),
        penalties=max(problem.penalty_count, 1),
        dtype=dtype,
        way=way_for(type(policy), setup),
        constants=len(setup.constants) + 1,
    )
    return CrowdPlan(problem, setup, budget, seed, spec, law)


class Crowd:
    """One run of a plan in its memory, ready to advance."""

    def __init__(self, plan: CrowdPlan, run: int) -> None:
        self.plan, self.step = plan, 0
        budget = math.floor(plan.budget) if plan.bernoulli else plan.budget
        self.store = plan.store(budget)
        if plan.envelope is not None:
            self.store.use(plan.envelope)
        self._words = seed_words(plan.seed, OUTCOMES, np.array([run]))[:, 0].copy()

    @property
    def running(self) -> bool:
        """Whether the run has not spent its budget yet."""
        layout, numbers = self.store.layout, self.store.run
        return bool(numbers[layout.spent] <= numbers[layout.budget])

    def advance(self, until: int, stop: npt.NDArray[np.uint8]) -> None:
        """Run until step ``until``, or the run is done, or ``stop[0]`` is set."""
        kernel = _kernel(self.plan.spec, self.plan.bernoulli)
        self.step = kernel(self.store.address, self._words, self.plan.law, self.step, until, stop)

    def read(self) -> Runs:
        """What the run has earned, spent and pulled so far."""
        layout, penalties = self.store.layout, self.plan.problem.penalty_count
        totals, numbers = self.store.totals.astype(np.float64), self.store.run.astype(np.float64)
        sums = totals.sum(axis=0)  # arm after arm, as the lanes add them up
        return Runs(
            reward=sums[2],
            cost=numbers[layout.spent],
            penalty=sums[3 : 3 + penalties],
            pulls=totals[:, 0].astype(np.int64),
            arm_cost=totals[:, 1].copy(),
            queue=numbers[:penalties].copy(),
            queue_max=numbers[layout.peak : layout.peak + penalties].copy(),
        )


@lru_cache(maxsize=64)
def _kernel(spec: Spec, bernoulli: bool) -> Any:
    digest = fingerprint([], (SOURCE, rng.SOURCE), (spec.digest, bernoulli))
    return compile_kernel(_crowd(spec, bernoulli, digest), digest)


def _crowd(spec: Spec, bernoulli: bool, digest: str) -> Any:
    decide, learn, settle = decider(spec), learner(spec), settler(spec)
    draw, counts_of, luck = (
        _draw(spec, bernoulli, digest),
        view(spec, Field.COUNTS),
        spec.dtype(0),
    )

    def crowd(address, words, law, step, until, stop):
        """Run from ``step`` until the budget is spent, or ``until``, or ``stop[0]`` is set."""
        counts = counts_of(address)
        explore, count, going = counts[EXPLORE], counts[ARMS], True
        while going and step < until:
            arm = step % count if step < explore else decide(address, step, luck)
            draw(address, words, law, arm, step)
            learn(address, arm)
            going = settle(address, step >= explore)
            step += 1
            if step % CHECK_EVERY == 0 and stop[0]:
                break
        return step

    return crowd


def _draw(spec: Spec, bernoulli: bool, digest: str) -> Any:
    """The outcomes of a pull, one word each, as the lanes draw them."""
    number, channels, run_of = spec.dtype, 2 + spec.penalties, view(spec, Field.RUN)
    outcome, weyl_step = Run.of(spec.penalties).outcome, (2 + spec.penalties) * rng.WEYL
    zero, one, sample_of = spec.dtype(0), spec.dtype(1), view(spec, Field.SAMPLE)

    def next_word(words, weyl, channel):
        newest = rng.scramble(words[0], words[3])
        words[0], words[1], words[2], words[3] = words[1], words[2], words[3], newest
        return uint32(uint32(newest + weyl) + uint32((channel + 1) * rng.WEYL))

    word_of = compile_function(next_word, digest)

    def draw_bernoulli(address, words, law, arm, step):
        run, weyl = run_of(address), uint32(step * weyl_step)
        for channel in range(channels):
            hit = int32(word_of(words, weyl, channel) >> uint32(1)) <= law[arm * channels + channel]
            run[outcome + channel] = one if hit else zero

    def draw_cells(address, words, law, arm, step):
        count, offset, source, split, first, second, slope = law
        run, weyl, uniforms = run_of(address), uint32(step * weyl_step), sample_of(address)
        for channel in range(channels):
            uniforms[channel] = float(word_of(words, weyl, channel) >> uint32(1)) * 2.0**-31
        for channel in range(channels):
            place = uniforms[source[arm, channel]] * count[arm, channel]
            cell = int(place)
            part = place - cell
            at = offset[arm, channel] + cell
            value = (first[at] if part < split[at] else second[at]) + slope[at] * (part - 0.5)
            run[outcome + channel] = number(value)

    return compile_function(draw_bernoulli if bernoulli else draw_cells, digest)
