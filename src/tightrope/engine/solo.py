"""The CPU's kernel for policies that weigh all arms at once: one run at a time, from end to end.

Letters: K arms, M penalties, R runs of a call. Everything is in double precision.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import uint32

from tightrope.compiled import compile_function, compile_kernel, fingerprint
from tightrope.engine import rng
from tightrope.engine.rng import LUCK, OUTCOMES, seed_words
from tightrope.policies.base import Setup, advance
from tightrope.policies.choice import WORDS, ChoicePolicy, Seen, record
from tightrope.problem import Problem, Tables
from tightrope.results import Runs

__all__ = ["Plan"]

SOURCE = Path(__file__).read_bytes()
WORTHWHILE = 200_000  # arms looked at in a unit of work: some tens of milliseconds
CHECK_EVERY = 256  # steps between looks at whether to stop


@dataclass(frozen=True)
class Plan:
    """All that the runs of one policy at one (normalised) budget share."""

    problem: Problem
    policy: ChoicePolicy
    setup: Setup
    budget: float
    seed: int
    backend: str = "cpu"

    @property
    def chunk(self) -> int:
        """How many runs make a unit of work."""
        steps = self.budget / self.problem.moments.smallest_cost
        return max(1, round(WORTHWHILE / steps / (10 + self.problem.arm_count)))

    def compile(self) -> float:
        """Compile the kernel or read it from the disk; the seconds of compiling."""
        kernel, start = _kernel(type(self.policy)), time.perf_counter()
        misses = sum(kernel.stats.cache_misses.values())
        self._play(np.array([0]), -1.0, np.zeros(1, np.uint8))
        compiled = sum(kernel.stats.cache_misses.values()) > misses
        return time.perf_counter() - start if compiled else 0.0

    def run(
        self, runs: npt.NDArray[np.int64], stop: npt.NDArray[np.uint8]
    ) -> tuple[Runs | None, float]:
        """The runs and the seconds they took; None if ``stop[0]`` was set before the end."""
        start = time.perf_counter()
        made = self._play(runs, self.budget, stop)
        return made, time.perf_counter() - start

    @cached_property
    def _tables(self) -> Tables:
        return self.problem.tables()  # slow for continuous laws: once a plan, not once a call

    def _play(self, runs: Any, budget: float, stop: Any) -> Runs | None:
        arms, penalties, count = self.problem.arm_count, self.problem.penalty_count, len(runs)
        tables = self._tables
        totals, counts = np.zeros((count, 2 + 3 * penalties)), np.zeros((count, arms, 2))
        finished = _kernel(type(self.policy))(
            seed_words(self.seed, OUTCOMES, runs),
            seed_words(self.seed, LUCK, runs),
            (tables.count, tables.offset, tables.source),
            (tables.split, tables.first, tables.second, tables.slope),
            (*map(float, self.setup.constants), 0.0),
            np.asarray(self.setup.allowance, float),
            np.asarray(self.problem.moments.limits, float) * self.budget,
            budget,
            np.zeros((arms, Seen.of(penalties).columns)),
            np.zeros(max(self.policy.scratch(arms, penalties), 1)),
            totals,
            counts,
            stop,
        )
        if not finished:
            return None
        reward, cost, *_ = totals.T
        penalty, queue, peak = np.split(totals[:, 2:], 3, axis=1)
        return Runs(
            reward=reward.copy(),
            cost=cost.copy(),
            penalty=penalty.copy(),
            pulls=counts[:, :, 0].astype(np.int64),
            arm_cost=counts[:, :, 1].copy(),
            queue=queue.copy(),
            queue_max=peak.copy(),
        )


@lru_cache(maxsize=64)
def _kernel(policy: type[ChoicePolicy]) -> Any:
    functions = (policy.begin, policy.choose, policy.learn, record, advance)
    digest = fingerprint(functions, (SOURCE, rng.SOURCE), ())
    return compile_kernel(_solo(policy, digest), digest)


def _solo(policy: type[ChoicePolicy], digest: str) -> Any:
    def compiled(function: Any) -> Any:
        return compile_function(function, digest)

    begin, choose, learn = map(compiled, (policy.begin, policy.choose, policy.learn))
    count_in, move, word_of, draw = map(compiled, (record, advance, _word, _draw))

    def solo(
        seeds,
        lucks,
        cells,
        values,
        constants,
        drain,
        allowance,
        budget,
        arms,
        own,
        totals,
        counts,
        stop,
    ):
        """Every run from its first step to its last; False if ``stop[0]`` was set before."""
        penalties = len(allowance)
        left, outcomes = np.zeros(2 + penalties), np.zeros(2 + penalties)
        uniforms = np.zeros(max(2 + penalties, 3))
        queue, lost, peak = np.zeros(penalties), np.zeros(penalties), np.zeros(penalties)
        words, chances = np.zeros(5, np.uint32), np.zeros(5, np.uint32)
        luck = np.zeros(WORDS, np.int64)
        for run in range(seeds.shape[1]):
            arms[:], own[:], queue[:], lost[:], peak[:] = 0.0, 0.0, 0.0, 0.0, 0.0
            words[:4], chances[:4] = seeds[:, run], lucks[:, run]
            words[4], chances[4] = 0, 0
            left[0], left[1], left[2:] = budget, 0.0, allowance
            begin(constants, arms, left, own)
            spent, step = 0.0, 0
            while spent <= budget:
                for at in range(WORDS):
                    luck[at] = word_of(chances)
                arm = choose(constants, arms, left, own, luck)
                draw(cells, values, arm, words, uniforms, outcomes)
                count_in(arms, left, arm, outcomes)
                learn(constants, arms, left, own, arm)
                spent += outcomes[0]
                for m in range(penalties):
                    length, rest = move(queue[m], lost[m], drain[m], outcomes[0], outcomes[2 + m])
                    queue[m], lost[m], peak[m] = length, rest, max(peak[m], length)
                step += 1
                if step % CHECK_EVERY == 0 and stop[0]:
                    return False
            totals[run, 1] = spent
            for m in range(penalties):
                totals[run, 2 + penalties + m] = queue[m]
                totals[run, 2 + 2 * penalties + m] = peak[m]
            for arm in range(arms.shape[0]):
                totals[run, 0] += arms[arm, 2]
                counts[run, arm, 0], counts[run, arm, 1] = arms[arm, 0], arms[arm, 1]
                for m in range(penalties):
                    totals[run, 2 + m] += arms[arm, 3 + m]
        return True

    return solo


def _word(words):
    """The generator's next 32 bits; ``words`` are its state and the Weyl sequence's."""
    newest = rng.scramble(words[0], words[3])
    words[0], words[1], words[2], words[3] = words[1], words[2], words[3], newest
    words[4] = uint32(words[4] + uint32(rng.WEYL))
    return uint32(newest + words[4])


def _draw(cells, values, arm, words, uniforms, outcomes):
    """What the arm gives: one word a channel, whatever the arm, as every engine draws."""
    count, offset, source = cells
    split, first, second, slope = values
    for channel in range(len(uniforms)):
        uniforms[channel] = float(_word(words) >> uint32(1)) * 2.0**-31
    for channel in range(len(outcomes)):
        place = uniforms[source[arm, channel]] * count[arm, channel]
        cell = int(place)
        part = place - cell
        at = offset[arm, channel] + cell
        value = first[at] if part < split[at] else second[at]
        outcomes[channel] = value + slope[at] * (part - 0.5)
