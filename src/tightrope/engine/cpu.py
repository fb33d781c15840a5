"""The CPU engine: chunks of runs, one chunk to a kernel call, as many at once as threads.

A chunk is as many runs as the kernel has lanes, for one policy and one budget. Each run depends on
(seed, run number) alone, so the split into chunks and threads changes nothing. With many arms a
policy may have a faster kernel that takes one run at a time (``crowd``), to the same bits.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.decision import ENVELOPE, SCAN, SIEVE, way_for
from tightrope.decision.memory import first_terms
from tightrope.engine import backend
from tightrope.engine.crowd import plan_crowd
from tightrope.engine.lanes import FEW_ARMS, Kernel, build
from tightrope.engine.rng import LUCK, OUTCOMES, seed_words
from tightrope.policies.base import IndexPolicy, Setup
from tightrope.problem import Problem, Tables
from tightrope.results import Runs

__all__ = ["Lanes", "Plan", "law_arrays", "number_type", "plan_lanes", "plan_side_by_side"]

Words = npt.NDArray[np.uint32]
Numbers = npt.NDArray[Any]  # of the kernel's precision

EXACT_IN_SINGLE = 2**24  # whole numbers up to here are exact in single precision
WORTHWHILE = 2_000_000  # steps of a chunk: some milliseconds
FOREVER = 2**62
CACHE_LINE = 64  # bytes
# Arms from which on one run at a time is faster than lanes, by the way to decide: as measured.
CROWDED: dict[tuple[str, type], float] = {
    (SCAN, np.float32): math.inf,
    (SCAN, np.float64): math.inf,
    (ENVELOPE, np.float32): 256,
    (ENVELOPE, np.float64): 128,
    (SIEVE, np.float32): 1024,
    (SIEVE, np.float64): 512,
}


@dataclass(frozen=True)
class Plan:
    """All that the chunks of one policy and one budget share (budget normalised)."""

    problem: Problem
    setup: Setup
    budget: float
    seed: int
    spec: Kernel
    kernel: Any
    law: Any
    backend: str = "cpu"

    def run(
        self, runs: npt.NDArray[np.int64], stop: npt.NDArray[np.uint8]
    ) -> tuple[Runs | None, float]:
        """The runs and the seconds they took; None if ``stop[0]`` was set before the end."""
        start = time.perf_counter()
        words, luck = self.seeds(runs)
        finished = []
        for first in range(0, len(runs), self.spec.lanes):
            some = slice(first, first + self.spec.lanes)
            lanes = Lanes(self, runs[some], words[:, some], luck[:, some])
            lanes.advance(FOREVER, stop)
            if lanes.running:
                return None, 0.0
            finished.append(lanes.read())
        return Runs.join(finished, axis=0), time.perf_counter() - start

    def seeds(self, runs: npt.NDArray[np.int64]) -> tuple[Words, Words]:
        """The runs' generators [4, R]: for the outcomes, and for the policy if it needs one."""
        words = seed_words(self.seed, OUTCOMES, runs)
        return words, seed_words(self.seed, LUCK, runs) if self.spec.policy.random else words

    def compile(self) -> float:
        """Compile the kernel or read it from the disk; the seconds of compiling."""
        misses = sum(self.kernel.stats.cache_misses.values())
        start, runs = time.perf_counter(), np.array([0])
        Lanes(self, runs, *self.seeds(runs)).advance(0, np.zeros(1, np.uint8))
        compiled = sum(self.kernel.stats.cache_misses.values()) > misses
        return time.perf_counter() - start if compiled else 0.0

    @property
    def chunk(self) -> int:
        """How many runs make a unit of work: whole lanes, enough to be worth a thread's while."""
        steps = self.spec.lanes * self.budget / self.problem.moments.smallest_cost
        return self.spec.lanes * max(1, round(WORTHWHILE / steps))


def plan_lanes(
    problem: Problem, policy: IndexPolicy, setup: Setup, budget: float, seed: int, precision: str
) -> backend.Plan:
    """Choose the kernel: runs side by side, or with many arms one at a time; the same runs."""
    dtype = number_type(problem, budget, precision)
    if problem.arm_count >= CROWDED[way_for(type(policy), setup), dtype]:
        law = law_arrays(problem)
        return plan_crowd(problem, policy, setup, budget, seed, dtype, law)
    return plan_side_by_side(problem, policy, setup, budget, seed, precision)


def plan_side_by_side(
    problem: Problem, policy: IndexPolicy, setup: Setup, budget: float, seed: int, precision: str
) -> Plan:
    """Choose the lanes' kernel: single precision and constant K where that is safe and fast."""
    odds, arms = problem.bernoulli(), problem.arm_count
    few = arms if odds is not None and arms <= FEW_ARMS else 0
    spec = Kernel(
        policy=type(policy),
        penalties=max(problem.penalty_count, 1),
        lanes=128 if few else 32 if arms <= 4096 else 8,
        arms=few,
        bernoulli=odds is not None,
        dtype=number_type(problem, budget, precision),
    )
    return Plan(problem, setup, budget, seed, spec, _kernel(spec), law_arrays(problem))


@lru_cache(maxsize=256)
def _kernel(spec: Kernel) -> Any:
    return build(spec)


def number_type(problem: Problem, budget: float, precision: str) -> type:
    """Single precision if asked for, or where outcomes are 0 or 1 and every count is exact."""
    steps = 4.0 * (budget + 1.0) / problem.moments.smallest_cost  # more has no chance to happen
    exact = problem.bernoulli() is not None and steps < EXACT_IN_SINGLE
    single = precision == "single" or (precision == "auto" and exact)
    return np.float32 if single else np.float64


def law_arrays(problem: Problem) -> Any:
    """The outcomes' laws as kernels take them: thresholds if all are 0 or 1, else tables."""
    odds = problem.bernoulli()
    return _cells(problem.tables()) if odds is None else _thresholds(odds)


def _thresholds(odds: npt.NDArray[np.float64]) -> npt.NDArray[np.int32]:
    """31-bit thresholds [K * channels]: a word at or below one is a 1. Never for probability 0."""
    if odds.shape[1] == 2:
        odds = np.column_stack([odds, np.zeros(len(odds))])
    whole = np.rint(odds * 2.0**31).astype(np.int64) - 1
    return whole.astype(np.int32).reshape(-1)


def _cells(tables: Tables) -> tuple[npt.NDArray[Any], ...]:
    """The tables as the kernel takes them; a penalty of nothing where the problem has none."""
    count, offset, source = tables.count, tables.offset, tables.source
    flat = [tables.split, tables.first, tables.second, tables.slope]
    if count.shape[1] == 2:
        nothing = np.full((len(count), 1), len(tables.split))
        count = np.hstack([count, np.ones_like(nothing)])
        offset = np.hstack([offset, nothing])
        source = np.hstack([source, np.full_like(nothing, 2)])
        flat = [np.append(column, 0.0) for column in flat]
    return count, offset, source, *flat


class Lanes:
    """One chunk of a plan's runs in its buffers, ready to advance."""

    def __init__(self, plan: Plan, runs: npt.NDArray[np.int64], words: Words, luck: Words) -> None:
        """Lanes past the number of ``runs`` start as done."""
        spec, layout = plan.spec, plan.spec.layout
        self.plan, self.runs, self.step = plan, runs, 0
        width, arms = spec.lanes, plan.problem.arm_count
        self._budget = spec.dtype(math.floor(plan.budget) if spec.bernoulli else plan.budget)
        self._arms = _zeros((arms, layout.arm_rows, width), spec.dtype)
        self._lanes = _zeros((layout.lane_rows, width), spec.dtype)
        self._lanes[layout.alive, : len(runs)] = 1
        self._lanes[layout.spent, len(runs) :] = self._budget + 1
        terms = plan.setup.terms
        if terms is None:
            terms = first_terms(spec.policy, spec.penalties, spec.dtype, plan.setup)
        flat = terms.reshape(len(terms), -1, 1)
        self._arms[:, : flat.shape[1]] = flat
        self._words, self._luck = _zeros((4, width), np.uint32), _zeros((4, width), np.uint32)
        self._words[:, : len(runs)], self._luck[:, : len(runs)] = words, luck
        self._picked = _zeros((3 + spec.penalties, width), np.int32)  # the arms, their thresholds

    @property
    def running(self) -> bool:
        """Whether some run has not spent its budget yet."""
        return bool(self._lanes[self.plan.spec.layout.alive].any())

    def advance(self, until: int, stop: npt.NDArray[np.uint8]) -> None:
        """Run until step ``until``, or all runs are done, or ``stop[0]`` is set."""
        plan, number = self.plan, self.plan.spec.dtype
        setup = plan.setup
        allowance: Numbers = np.zeros(plan.spec.penalties, number)
        allowance[: len(setup.allowance)] = setup.allowance
        wide = (*map(float, setup.constants), 0.0)  # never an empty tuple
        self.step = plan.kernel(
            self._arms.reshape(-1) if plan.spec.arms else self._arms.reshape(len(self._arms), -1),
            self._lanes.reshape(-1),
            self._words.reshape(-1),
            self._luck.reshape(-1),
            self._picked.reshape(-1),
            plan.law,
            plan.problem.arm_count,
            setup.explore * plan.problem.arm_count,
            wide,
            tuple(number(value) for value in wide),
            allowance,
            self._budget,
            self.step,
            until,
            stop,
        )

    def read(self) -> Runs:
        """What the runs have earned, spent and pulled so far."""
        layout, used = self.plan.spec.layout, len(self.runs)
        penalties = self.plan.problem.penalty_count
        arms = self._arms[:, :, :used].astype(np.float64)
        # One row more than needed: numpy would add up a single column in another order.
        totals = arms[:, layout.cost : layout.totals + 1 + penalties].sum(axis=0)[1:]
        lanes = self._lanes[:, :used].astype(np.float64)
        return Runs(
            reward=totals[0],
            cost=lanes[layout.spent],
            penalty=totals[1:].T,
            pulls=arms[:, layout.pulls].T.astype(np.int64),
            arm_cost=arms[:, layout.cost].T,
            queue=lanes[layout.queue : layout.queue + penalties].T,
            queue_max=lanes[layout.peak : layout.peak + penalties].T,
        )


def _zeros(shape: tuple[int, ...], dtype: type) -> Numbers:
    """Zeros that start on a cache line: a vector across two of them takes twice as long."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.zeros(size + CACHE_LINE, np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start : start + size].view(dtype).reshape(shape)
