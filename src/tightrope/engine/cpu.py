"""The CPU engine: many runs at once in SIMD lanes, the host side of ``kernels.simd``.

Policies and arms that do not fit into lanes, and very many arms, go one run at a time (``single``).

A chunk is as many runs as the kernel has lanes, for one policy and one budget. Each run depends
only on (seed, run number), so the split into chunks and threads does not matter.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.engine.backend import BackendPlan, first_seconds
from tightrope.engine.job import Job
from tightrope.engine.laws import phase_laws
from tightrope.engine.python import repeat
from tightrope.engine.single import plan_single
from tightrope.kernels.aligned import aligned_zeros
from tightrope.kernels.rng import OUTCOMES, POLICY, seed_words
from tightrope.kernels.run_state import first_terms
from tightrope.kernels.simd import FEW_ARMS, Kernel, build
from tightrope.kernels.spec import SCAN, SIEVE, argmin_method
from tightrope.policies.base import IndexPolicy
from tightrope.runs import Runs

Words = npt.NDArray[np.uint32]
Numbers = npt.NDArray[Any]  # of the kernel's precision

STEPS_PER_CHUNK = 2_000_000  # a few milliseconds
FOREVER = 2**62
FEW_RUNS = 16  # for at most this many runs, narrow lanes are faster than wide ones
# Bytes of a number for each arm, and the lanes that fit into 32 KB of cache up to there.
WIDE = ((16, 128), (24, 96), (math.inf, 64))
MANY = 128  # from this many arms on, a decision for one run does not compute every index
# Number of arms from which one run at a time is faster than lanes, by method: measured.
CROWDED: dict[tuple[str, type], float] = {
    (SCAN, np.float32): math.inf,
    (SCAN, np.float64): math.inf,
    (SIEVE, np.float32): 1024,
    (SIEVE, np.float64): 512,
}


def plan(job: Job) -> BackendPlan:
    """A plan in SIMD lanes if they are possible and faster, or with one run at a time."""
    if job.side_by_side:
        assert isinstance(job.policy, IndexPolicy)
        method = argmin_method(type(job.policy), job.setup)
        if job.arm_count < CROWDED[method, job.dtype]:
            return LanesPlan(job)
    return plan_single(job, many_arms=job.arm_count >= MANY)


@dataclass(frozen=True)
class LanesPlan:
    """The shared data of a job's chunks."""

    job: Job

    @cached_property
    def spec(self) -> Kernel:
        """Which kernel: K is a compile-time constant if arms are few and outcomes 0 or 1."""
        job, arms = self.job, self.job.arm_count
        few = arms if job.bernoulli and arms <= FEW_ARMS and not job.any_arms else 0
        wide = next(lanes for size, lanes in WIDE if few * np.dtype(job.dtype).itemsize <= size)
        return Kernel(
            policy=type(job.policy),  # type: ignore[arg-type]
            penalties=max(job.penalty_count, 1),
            lanes=wide if few else 64 if arms <= 4096 and len(job.numbers) > FEW_RUNS else 16,
            arms=few,
            bernoulli=job.bernoulli,
            dtype=job.dtype,
            bases=job.setup.bases,
        )

    @cached_property
    def law(self) -> Any:
        """The outcomes' distributions in the form that the kernel reads."""
        return phase_laws(self.job.problem)

    def run(
        self, runs: npt.NDArray[np.int64], stop: npt.NDArray[np.uint8]
    ) -> tuple[Runs | None, float]:
        """The runs and the seconds they took; None if ``stop[0]`` was set before the end."""
        start = time.perf_counter()
        words, policy_words = self.seeds(runs)
        finished = []
        for first in range(0, len(runs), self.spec.lanes):
            some = slice(first, first + self.spec.lanes)
            lanes = Lanes(self, runs[some], words[:, some], policy_words[:, some])
            lanes.advance(FOREVER, stop)
            if lanes.running:
                return None, 0.0
            finished.append(lanes.read())
        return Runs.join(finished, axis=0), time.perf_counter() - start

    def seeds(self, runs: npt.NDArray[np.int64]) -> tuple[Words, Words]:
        """The runs' generators [4, R]: for the outcomes, and for the policy if it needs one."""
        words = seed_words(self.job.seed, OUTCOMES, runs)
        return words, seed_words(self.job.seed, POLICY, runs) if self.spec.policy.random else words

    def compile(self) -> float:
        """Compile the kernel or load it from the disk; returns the seconds that took."""
        runs = np.array([0])
        lanes = Lanes(self, runs, *self.seeds(runs))
        return first_seconds(self.spec, lambda: lanes.advance(0, np.zeros(1, np.uint8)))

    @property
    def chunk(self) -> int:
        """The number of runs per unit of work: all lanes filled, and enough steps for a thread."""
        return self.spec.lanes * max(1, round(STEPS_PER_CHUNK / self.spec.lanes / self.job.steps))


@lru_cache(maxsize=256)
def _kernel(spec: Kernel) -> Any:
    return build(spec)


class Lanes:
    """The buffers of one chunk of runs."""

    def __init__(
        self, plan: LanesPlan, runs: npt.NDArray[np.int64], words: Words, policy_words: Words
    ) -> None:
        """Initialise the buffers; lanes beyond the number of ``runs`` start as done."""
        spec, layout, used = plan.spec, plan.spec.layout, len(runs)
        self.plan, self.runs, self.step = plan, runs, 0
        lanes, arms, number = spec.lanes, plan.job.arm_count, spec.dtype
        self._budget = number(plan.job.last_spent)
        self._terms = aligned_zeros((arms, spec.term_rows, lanes), number)
        flat = first_terms(spec.policy, spec.penalties, number, plan.job.setup)
        self._terms[:, : flat.shape[1]] = flat[:, :, np.newaxis]
        shape = (spec.book_rows, lanes) if spec.arms else (lanes, spec.width)
        self._book = aligned_zeros((arms, *shape), number)
        self._lanes = aligned_zeros((layout.rows, lanes), number)
        self._lanes[layout.alive, :used] = 1
        self._lanes[layout.spent, used:] = self._budget + 1
        self._words, self._policy_words = (aligned_zeros((4, lanes), np.uint32) for _ in range(2))
        self._words[:, :used], self._policy_words[:, :used] = words, policy_words
        self._picked: Any = aligned_zeros((lanes,), np.int32)
        if not spec.arms:
            limits = aligned_zeros((lanes * (2 + spec.penalties),), np.int32)
            self._picked = self._picked, limits

    @property
    def running(self) -> bool:
        """Whether some run has not spent its budget yet."""
        return bool(self._lanes[self.plan.spec.layout.alive].any())

    def advance(self, until: int, stop: npt.NDArray[np.uint8]) -> None:
        """Run until step ``until``, until all runs are done, or until ``stop[0]`` is set."""
        spec, setup, arms = self.plan.spec, self.plan.job.setup, self.plan.job.arm_count
        number = spec.dtype
        allowance: Numbers = np.zeros(spec.penalties, number)
        allowance[: len(setup.allowance)] = setup.allowance
        wide = tuple(map(float, setup.constants)) or (0.0,)  # numba cannot take an empty tuple
        rows = (-1,) if spec.arms else (arms, -1)
        self.step = _kernel(spec)(
            self._terms.reshape(rows),
            self._book.reshape(rows),
            self._lanes.reshape(-1),
            self._words.reshape(-1),
            self._policy_words.reshape(-1),
            self._picked,
            self.plan.law,
            arms,
            setup.explore * arms,
            wide,
            tuple(number(value) for value in wide),
            allowance,
            self._budget,
            self.step,
            until,
            stop,
        )

    def read(self) -> Runs:
        """The runs' totals so far."""
        spec, used = self.plan.spec, len(self.runs)
        book = self._book if spec.arms else self._book.transpose(0, 2, 1)
        lanes = self._lanes[:, :used].astype(np.float64)
        for run in self.runs[np.isnan(lanes[0])]:  # the policy's index was nan
            repeat(self.plan.job, int(run))
        layout, penalties = spec.layout, self.plan.job.penalty_count
        book = np.ascontiguousarray(book[:, : 3 + penalties, :used], np.float64)
        # Sum one row more than needed: numpy sums a single column in another order.
        totals = book[:, 1:].sum(axis=0)[1:]
        return Runs(
            reward=totals[0],
            cost=lanes[layout.spent],
            penalty=totals[1:].T,
            pulls=book[:, 0].T.astype(np.int64),
            arm_cost=book[:, 1].T,
            queue=lanes[:penalties].T,
            queue_max=lanes[2 * spec.penalties :][:penalties].T,
        )
