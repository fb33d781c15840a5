"""The GPU engine: one thread a run, thousands of runs a launch (CUDA, through numba-cuda).

Draws are the same bits as on the CPU. Divisions and roots in single precision are approximate on
a GPU, so runs agree with the CPU's in law, not bit for bit; with the same device and seed they
are the same again. Needs ``pip install "tightrope[gpu]"`` and an NVIDIA device, or
``NUMBA_ENABLE_CUDASIM=1``, which runs the same kernels slowly in Python.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tightrope.decision.memory import first_terms
from tightrope.engine.cpu import law_arrays, number_type
from tightrope.engine.rng import LUCK, OUTCOMES, seed_words
from tightrope.errors import BackendError
from tightrope.policies.base import IndexPolicy, Setup
from tightrope.problem import Problem
from tightrope.results import Runs

if TYPE_CHECKING:
    from tightrope.engine.threads import Kernel

__all__ = ["Plan", "available", "plan_threads", "require_device"]

BLOCK = 128  # threads; a quarter of it for few runs, so that they reach every multiprocessor
FEWEST_BLOCKS = 128  # numba warns of fewer; those past the last run do nothing
MOST_RUNS = 2**19  # of a launch: enough to fill any device, few enough to overlap with copies
MOST_BYTES = 2**31  # of a launch's arms in global memory
CACHE_BYTES = 2**24  # of a launch's arms that stay in the device's cache, with another beside it
ENOUGH_RUNS = 4096  # to keep a device busy from its cache
LONGEST_TABLE = 2**24  # steps of the clock
MOST_STEPS = 2**32 - 1


def available() -> bool:
    """Whether there is a device to run on; the simulator is none."""
    if find_spec("numba_cuda") is None:
        return False
    from numba import cuda

    return bool(cuda.is_available()) and not _simulated()


def require_device() -> None:
    """Raise a :class:`BackendError` that says what is missing."""
    if find_spec("numba_cuda") is None:
        raise BackendError(
            "backend 'gpu' needs numba-cuda, which is not installed:"
            " pip install \"tightrope[gpu]\"; backend 'cpu' needs nothing more"
        )
    from numba import cuda

    if not cuda.is_available():
        raise BackendError(
            "backend 'gpu' found no NVIDIA device or driver (nvidia-smi shows what is there);"
            " backend 'cpu' needs none"
        )


@dataclass(frozen=True)
class Plan:
    """All that the launches of one policy and one budget share (budget normalised)."""

    problem: Problem
    setup: Setup
    budget: float
    seed: int
    spec: Kernel
    backend: str = "gpu"

    @property
    def chunk(self) -> int:
        """How many runs a launch takes: all that fill the device and fit into its memory."""
        if self.spec.arms:
            return MOST_RUNS
        rows = self.spec.term_rows + self.spec.book_rows
        size = self.problem.arm_count * rows * np.dtype(self.spec.dtype).itemsize
        room = CACHE_BYTES if CACHE_BYTES // size >= ENOUGH_RUNS else MOST_BYTES
        return max(BLOCK, min(MOST_RUNS, room // size // BLOCK * BLOCK))

    def compile(self) -> float:
        """Compile the kernel if it is not yet; the seconds of compiling."""
        if _kernel(self.spec).overloads:
            return 0.0
        start = time.perf_counter()
        self._launch(np.array([0]), budget=-1.0, steps=1)
        return time.perf_counter() - start

    def run(
        self, runs: npt.NDArray[np.int64], stop: npt.NDArray[np.uint8]
    ) -> tuple[Runs | None, float]:
        """The runs and the seconds they took; None once ``stop[0]`` is set."""
        if stop[0]:
            return None, 0.0
        start, steps = time.perf_counter(), _steps(self.problem, self.budget)
        counts, ends = self._launch(runs, self.budget, steps)
        while (ends[0] <= self._limit(self.budget)).any():  # a run longer than there was room for
            steps *= 2
            counts, ends = self._launch(runs, self.budget, steps)
        return self._read(counts, ends), time.perf_counter() - start

    def _limit(self, budget: float) -> Any:
        return self.spec.dtype(math.floor(budget) if self.spec.bits else budget)

    def _launch(self, runs: Any, budget: float, steps: int) -> tuple[Any, Any]:
        """Each arm's pulls and cost [K, 2, R], and what the runs ended with [rows, R]."""
        from numba import cuda

        from tightrope.engine.threads import TILE

        spec, setup, arms, count = self.spec, self.setup, self.problem.arm_count, len(runs)
        with _turn():
            stream = cuda.stream()

            def give(values: Any) -> Any:
                return cuda.to_device(np.ascontiguousarray(values), stream=stream)

            def room(*shape: int) -> Any:
                return cuda.device_array(math.prod(shape), spec.dtype, stream=stream)

            seeds = give(seed_words(self.seed, OUTCOMES, runs))
            tiles = -(-count // TILE)
            counts, ends = room(arms, 2, count), room(spec.end_rows, count)
            wide = (*map(float, setup.constants), 0.0)  # never an empty tuple
            clocks = room(steps + 1 if spec.tabled else 1)
            if spec.tabled:
                _clocks(spec)[(*_grid(steps + 1), stream)](clocks, wide)
            _kernel(spec)[(*_grid(count), stream)](
                seeds,
                give(seed_words(self.seed, LUCK, runs)) if spec.policy.random else seeds,
                self._law(give),
                give(self._starting_terms()),
                ends if spec.arms else room(tiles, arms, spec.term_rows, TILE),
                ends if spec.arms else room(tiles, arms, spec.book_rows, TILE),
                counts,
                ends,
                clocks,
                (
                    wide,
                    tuple(spec.dtype(value) for value in wide),
                    give(self._allowance()),
                    self._limit(budget),
                    np.int32(arms),
                    np.uint32(setup.explore * arms),
                    np.uint32(steps),
                ),
            )
            found = counts.copy_to_host(stream=stream), ends.copy_to_host(stream=stream)
            stream.synchronize()
        return found[0].reshape(arms, 2, count), found[1].reshape(-1, count)

    def _law(self, give: Callable[[Any], Any]) -> Any:
        """The outcomes' laws; for 0 and 1 the words below which an outcome is 1."""
        law = law_arrays(self.problem)
        if not self.spec.bits:
            return tuple(map(give, law))
        return give((law.astype(np.int64) + 1 << self.spec.bits - 31).astype(np.uint32))

    def _starting_terms(self) -> Any:
        """What is known of the arms at first [K * rows]."""
        spec, known = self.spec, self.setup.terms
        if known is None:
            known = first_terms(spec.policy, spec.penalties, spec.dtype, self.setup)
        terms: Any = np.zeros((self.problem.arm_count, spec.term_rows), spec.dtype)
        flat = known.reshape(len(known), -1)
        terms[:, : flat.shape[1]] = flat
        return terms.reshape(-1)

    def _allowance(self) -> Any:
        allowance: Any = np.zeros(self.spec.penalties, self.spec.dtype)
        allowance[: len(self.setup.allowance)] = self.setup.allowance
        return allowance

    def _read(self, counts: Any, ends: Any) -> Runs:
        """The runs as the engine wants them."""
        penalties, padded = self.problem.penalty_count, self.spec.penalties
        cost, reward, *rest = ends.astype(np.float64)
        totals, queues, peaks = (
            np.reshape(rest[first : first + penalties], (penalties, len(cost))).T
            for first in range(0, 3 * padded, padded)
        )
        return Runs(
            reward=reward,
            cost=cost,
            penalty=totals,
            pulls=counts[:, 0].T.astype(np.int64),
            arm_cost=counts[:, 1].T.astype(np.float64),
            queue=queues,
            queue_max=peaks,
        )


def plan_threads(
    problem: Problem, policy: IndexPolicy, setup: Setup, budget: float, seed: int, precision: str
) -> Plan:
    """Choose the kernel: single precision where that is exact, few arms in registers."""
    require_device()
    from tightrope.engine.threads import Kernel, in_registers

    timed = type(policy).clock is not IndexPolicy.clock
    penalties = max(problem.penalty_count, 1)
    spec = Kernel(
        policy=type(policy),
        penalties=penalties,
        arms=in_registers(problem.arm_count, penalties),
        bits=_deciding_bits(problem),
        dtype=number_type(problem, budget, precision),
        tabled=timed and _steps(problem, budget) <= LONGEST_TABLE,
    )
    return Plan(problem, setup, budget, seed, spec)


def _steps(problem: Problem, budget: float) -> int:
    """More pulls than a run can need: twice what the cheapest arm would take, and some."""
    return min(MOST_STEPS, int(2.0 * (budget + 512.0) / problem.moments.smallest_cost))


def _grid(threads: int) -> tuple[int, int]:
    """How many blocks of how many threads."""
    block = BLOCK if threads >= 512 * BLOCK else BLOCK // 4
    return max(-(-threads // block), 1 if _simulated() else FEWEST_BLOCKS), block


def _simulated() -> bool:
    from numba import config

    return bool(config.ENABLE_CUDASIM)


def _deciding_bits(problem: Problem) -> int:
    """How many bits of a word decide outcomes of 0 or 1; 0 if there are others.

    A 32-bit comparison saves a shift, but cannot say that something is certain.
    """
    odds = problem.bernoulli()
    if odds is None:
        return 0
    return 31 if (np.rint(odds * 2.0**31) >= 2.0**31).any() else 32


@lru_cache(maxsize=256)
def _kernel(spec: Kernel) -> Any:
    from tightrope.engine.threads import build

    return build(spec)


@lru_cache(maxsize=256)
def _clocks(spec: Kernel) -> Any:
    from tightrope.engine.threads import build_clocks

    return build_clocks(spec)


_alone, _beside_another = threading.Semaphore(1), threading.Semaphore(2)


def _turn() -> AbstractContextManager[Any]:
    """Two launches at once fill a device's gaps; the simulator takes one after another."""
    return _alone if _simulated() else _beside_another
