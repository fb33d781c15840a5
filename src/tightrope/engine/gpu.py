"""The GPU engine: one thread per run, thousands of runs per launch (CUDA, through numba-cuda).

Draws are the same bits as on the CPU. Divisions and roots in single precision are approximate on a
GPU, so runs have the same distribution as on the CPU but differ in their bits; the same device and
seed give the same bits again. Needs ``pip install "tightrope[gpu]"`` and an NVIDIA device, or
``NUMBA_ENABLE_CUDASIM=1``, which runs the same kernels slowly in Python.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tightrope.compiled.functions import FAILED, tables_in_global_memory
from tightrope.engine.backend import BackendPlan
from tightrope.engine.job import Job
from tightrope.engine.laws import phase_laws, requests_of
from tightrope.engine.python import repeat
from tightrope.engine.single import SingleRunPlan, plan_single, runs_of
from tightrope.errors import BackendError
from tightrope.kernels.actions import Uses
from tightrope.kernels.rng import LATE, OUTCOMES, POLICY, seed_words
from tightrope.kernels.run_state import first_terms
from tightrope.kernels.single_run import Ends
from tightrope.kernels.spec import Spec, stateful
from tightrope.policies.base import IndexPolicy
from tightrope.policies.choice import WORDS
from tightrope.policies.faults import wrong_arm
from tightrope.runs import Runs

if TYPE_CHECKING:
    from tightrope.kernels.cuda_few import DeviceKernel
    from tightrope.kernels.cuda_group import Shape
    from tightrope.kernels.cuda_thread import Numbers

BLOCK = 128  # threads per block; a quarter for few runs, so that every multiprocessor gets some
FEWEST_BLOCKS = 128  # numba warns if there are fewer; blocks beyond the last run do nothing
MOST_RUNS = 2**19  # runs per launch: fills any device, yet copies and launches overlap
MOST_COUNTS = 2**21  # runs times arms per launch: half or twice as many were slower (H200)
MOST_BYTES = 2**30  # per launch, of results and of runs in global memory
LONGEST_TABLE = 2**24  # steps in the table of clocks
MOST_STEPS = 2**32 - 1


def available() -> bool:
    """Whether there is a GPU; numba's CUDA simulator does not count."""
    if find_spec("numba_cuda") is None:
        return False
    from numba import cuda

    return bool(cuda.is_available()) and not _simulated()


def require_device() -> None:
    """Raise a :class:`BackendError` unless numba-cuda and a device are there."""
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


def plan(job: Job) -> BackendPlan:
    """A plan over terms in registers or shared memory if possible, or over the whole state."""
    require_device()
    if job.side_by_side:
        index = IndexPlan(job)
        if index.spec.arms or index.shape is not None:
            return index
    return ThreadPlan(job)


class _DevicePlan:
    """Common part of both plans: launch, and repeat with more steps if a run was too long."""

    job: Job

    def compile(self) -> float:
        """Compile the kernel if necessary; returns the seconds of compiling."""
        if self._kernel.overloads:
            return 0.0
        start = time.perf_counter()
        with _compiling, tables_in_global_memory():
            self._launch(np.array([0]), budget=-1.0, steps=1)
        return time.perf_counter() - start

    @property
    def _kernel(self) -> Any:
        raise NotImplementedError

    def _launch(self, runs: Any, budget: float, steps: int) -> tuple[Any, Any]:
        """Each arm's pulls and cost [R, 2, K], and the runs' final numbers [rows, R]."""
        raise NotImplementedError

    @property
    def _columns(self) -> Ends:
        """The columns of the runs' final numbers; an index policy's end before ``step``."""
        return Ends.of(max(self.job.penalty_count, 1))

    def _read(self, runs: Any, counts: Any, ends: Any) -> Runs:
        """The launch's output as ``Runs``."""
        for run in runs[np.isnan(ends[self._columns.queue])]:  # the policy's index was nan
            repeat(self.job, int(run))
        return runs_of(self.job, ends, counts, self._columns)

    def run(
        self, runs: npt.NDArray[np.int64], stop: npt.NDArray[np.uint8]
    ) -> tuple[Runs | None, float]:
        """The runs and the seconds they took; None once ``stop[0]`` is set."""
        if stop[0]:
            return None, 0.0
        job = self.job
        start, steps = time.perf_counter(), _steps(job)
        counts, ends = self._launch(runs, job.last_spent, steps)
        while self._unfinished(ends, steps) and not self._failed(ends):
            steps *= 2
            counts, ends = self._launch(runs, job.last_spent, steps)
        return self._read(runs, counts, ends), time.perf_counter() - start

    def _unfinished(self, ends: Any, steps: int) -> bool:
        """Whether a run needs more steps."""
        return bool((ends[0] <= self.job.last_spent).any())

    def _failed(self, ends: Any) -> bool:
        """Whether a run ended for a reason other than its budget."""
        return False


@dataclass(frozen=True)
class IndexPlan(_DevicePlan):
    """The shared data of the launches of an index policy's job."""

    job: Job

    @cached_property
    def spec(self) -> DeviceKernel:
        """Which kernel: single precision if exact; terms in registers if arms are few."""
        from tightrope.kernels.cuda_few import DeviceKernel, fits

        job, penalties = self.job, max(self.job.penalty_count, 1)
        policy = job.policy
        assert isinstance(policy, IndexPolicy)
        few = fits(job.arm_count, penalties)
        return DeviceKernel(
            policy=type(policy),
            penalties=penalties,
            arms=job.arm_count if few else 0,
            bits=_deciding_bits(job),
            dtype=job.dtype,
            bases=job.setup.bases,
            tabled=type(policy).clock is not IndexPolicy.clock and _steps(job) <= LONGEST_TABLE,
        )

    @cached_property
    def shape(self) -> Shape | None:
        """How a group of threads shares a run, if arms are not few; None if they are too many."""
        from tightrope.kernels.cuda_group import shape_for

        return shape_for(self.job.arm_count, self.spec.penalties, self.spec.dtype)

    @property
    def chunk(self) -> int:
        """Runs per launch: enough to fill the device, few enough that copies overlap."""
        return min(MOST_RUNS, max(BLOCK, MOST_COUNTS // self.job.arm_count))

    @property
    def _kernel(self) -> Any:
        return _index_kernel(self.spec, None if self.spec.arms else self.shape)

    def _launch(self, runs: Any, budget: float, steps: int) -> tuple[Any, Any]:
        from numba import cuda

        spec, job, arms, count = self.spec, self.job, self.job.arm_count, len(runs)
        setup = job.setup
        with _launch_slot():
            stream = cuda.stream()
            give, room = _device_memory(stream, spec.dtype)
            seeds = give(seed_words(job.seed, OUTCOMES, runs))
            counts, ends = room(arms, 2, count), room(spec.end_rows, count)
            wide = tuple(map(float, setup.constants)) or (0.0,)  # numba takes no empty tuple
            clocks = room(steps + 1 if spec.tabled else 1)
            if spec.tabled:
                _clocks(spec)[(*_grid(1), stream)](clocks, wide)
            self._kernel[self._shape(count, stream)](
                seeds,
                give(seed_words(job.seed, POLICY, runs)) if spec.policy.random else seeds,
                self._law(give),
                give(self._starting_terms()),
                counts,
                ends,
                clocks,
                (
                    wide,
                    tuple(spec.dtype(value) for value in wide),
                    give(self._allowance()),
                    spec.dtype(budget),
                    np.int32(arms),
                    np.uint32(setup.explore * arms),
                    np.uint32(steps),
                ),
            )
            found = counts.copy_to_host(stream=stream), ends.copy_to_host(stream=stream)
            stream.synchronize()
        made = found[0].reshape(arms, 2, count).T if spec.arms else found[0].reshape(count, 2, arms)
        return made, found[1].reshape(-1, count)

    def _shape(self, count: int, stream: Any) -> tuple[Any, ...]:
        """The launch configuration: blocks, threads, stream and, for groups, shared memory."""
        if self.spec.arms or self.shape is None:
            return (*_grid(count), stream)
        blocks = max(self.shape.blocks(count), 1 if _simulated() else FEWEST_BLOCKS)
        return blocks, self.shape.block, stream, self.shape.shared

    def _law(self, give: Callable[[Any], Any]) -> Any:
        """The outcomes' distributions; for zero-one outcomes, the thresholds of words."""
        law = phase_laws(self.job.problem)
        if not self.spec.bits:
            return tuple(map(give, law))
        return give((law.astype(np.int64) + 1 << self.spec.bits - 31).astype(np.uint32))

    def _starting_terms(self) -> Any:
        """The arms' terms at the start [K * rows]."""
        spec = self.spec
        known = first_terms(spec.policy, spec.penalties, spec.dtype, self.job.setup)
        terms: Any = np.zeros((self.job.arm_count, spec.term_rows), spec.dtype)
        terms[:, : known.shape[1]] = known
        return terms.reshape(-1)

    def _allowance(self) -> Any:
        allowance: Any = np.zeros(self.spec.penalties, self.spec.dtype)
        allowance[: len(self.job.setup.allowance)] = self.job.setup.allowance
        return allowance


@dataclass(frozen=True)
class ThreadPlan(_DevicePlan):
    """The shared data of the launches of any other job: a thread per run, double precision."""

    job: Job

    @cached_property
    def _single(self) -> SingleRunPlan:
        """The plan of the same runs on a CPU, which has the initial state."""
        plan = plan_single(self.job)
        return replace(plan, spec=stateful(plan.spec))

    @property
    def spec(self) -> Spec:
        """Which kernel."""
        return self._single.spec

    @cached_property
    def _numbers(self) -> Numbers:
        """A run's initial numbers, and their layout in memory."""
        from tightrope.kernels.cuda_thread import Numbers

        slots = self.job.delays.slots if self.job.moving else 0
        return Numbers(self.spec, self._single.fresh, slots)

    @property
    def chunk(self) -> int:
        """Runs per launch: as many as the memory for results allows."""
        size = 8 * (2 * self.job.arm_count + self._columns.size)
        return max(BLOCK, min(MOST_RUNS, MOST_BYTES // size // BLOCK * BLOCK))

    @property
    def _kernel(self) -> Any:
        from tightrope.kernels.cuda_thread import build_thread

        job = self.job
        layout = self._numbers.layout
        penalties = self._single.fresh.penalties
        fresh, forgets = self._single.fresh, job.setup.forgets
        apart = forgets or job.moving or fresh.limited != penalties
        uses = Uses(forgets, bool(job.problem.hard), any(job.problem.net_bases), apart)
        return build_thread(
            self.spec,
            job.bernoulli,
            job.arm_count,
            penalties,
            layout,
            uses,
            job.moving,
            self._typed,
        )

    @property
    def _typed(self) -> int:
        """The number of words that a policy sees, where requests have types; 0 elsewhere."""
        return 0 if self.job.problem.contexts is None else WORDS + self.job.aware

    def _launch(self, runs: Any, budget: float, steps: int) -> tuple[Any, Any]:
        from numba import cuda

        from tightrope.kernels.cuda import TILE

        job, arms, count = self.job, self.job.arm_count, len(runs)
        layout, fresh = self._numbers.layout, self._numbers.at(budget)
        columns = self._columns.size
        blocks, threads = _grid(count, layout.threads)
        tiles = 0
        if not layout.own:
            blocks = min(blocks, max(MOST_BYTES // (8 * layout.beyond * threads), 1))
            tiles = -(-blocks * threads // TILE)
        with _launch_slot():
            stream = cuda.stream()
            give, room = _device_memory(stream, np.float64)
            law = phase_laws(job.problem)
            counts, ends = room(arms, 2, count), room(columns, count)
            game: tuple[Any, ...] = (
                give(seed_words(job.seed, OUTCOMES, runs)),
                give(seed_words(job.seed, POLICY, runs)),
                give(law) if job.bernoulli else tuple(map(give, law)),
                give(job.problem.phase_starts(job.budget)),
                give(requests_of(job.problem, job.policy) if self._typed else np.ones(1)),
                give(fresh),
                (*map(float, job.setup.constants), 0.0)[: self.spec.constants or None],
                counts,
                ends,
                np.int64(job.setup.explore * arms),
                np.int64(steps),
                give(np.zeros(1, np.uint8)),
            )
            if job.moving:
                rules = job.delays.rules(job.problem, job.arm_count)
                tables = {name: give(getattr(rules, name)) for name in ("delays", "stand_ins")}
                game += (rules._replace(**tables), give(seed_words(job.seed, LATE, runs)[0]))
                state = self._single.fresh
                game += tuple(give(state[n]) for n in ("state_rows", "own_rows", "carried"))
            memory = room(tiles, layout.beyond, TILE).reshape(tiles, layout.beyond, TILE)
            self._kernel[blocks, threads, stream](memory, game)
            found = counts.copy_to_host(stream=stream), ends.copy_to_host(stream=stream)
            stream.synchronize()
        return found[0].reshape(arms, 2, count).T, found[1].reshape(columns, count)

    def _unfinished(self, ends: Any, steps: int) -> bool:
        return bool((ends[self._columns.step] >= steps).any())

    def _failed(self, ends: Any) -> bool:
        return bool(ends[self._columns.wrong].any())

    def _read(self, runs: Any, counts: Any, ends: Any) -> Runs:
        job, at = self.job, self._columns
        if self._failed(ends):
            first = int(np.flatnonzero(ends[at.wrong])[0])
            arm, step = int(ends[at.wrong_arm, first]), int(ends[at.step, first])
            if arm == FAILED:
                repeat(job, int(runs[first]))
            raise wrong_arm(job.policy, arm, step, job.arm_count)
        return super()._read(runs, counts, ends)


def _device_memory(stream: Any, dtype: type) -> tuple[Callable[[Any], Any], Callable[..., Any]]:
    """Two functions: one copies an array to the device, one allocates numbers there."""
    from numba import cuda

    def give(values: Any) -> Any:
        return cuda.to_device(np.ascontiguousarray(values), stream=stream)

    def room(*shape: int) -> Any:
        return cuda.device_array(math.prod(shape), dtype, stream=stream)

    return give, room


def _steps(job: Job) -> int:
    """An upper bound on a run's pulls: about twice those of a run of the cheapest arm."""
    parts = [phase.problem for phase in job.problem.phases]
    if job.problem.contexts is not None:
        parts = list(job.problem.by_type)
    cheapest = min(one.moments.smallest_cost for one in parts)
    return min(MOST_STEPS, int(2.0 * (job.budget + 512.0) / cheapest))


def _grid(threads: int, block: int = 0) -> tuple[int, int]:
    """The number of blocks, and of threads per block."""
    block = block or (BLOCK if threads >= 512 * BLOCK else BLOCK // 4)
    return max(-(-threads // block), 1 if _simulated() else FEWEST_BLOCKS), block


def _simulated() -> bool:
    from numba import config

    return bool(config.ENABLE_CUDASIM)


def _deciding_bits(job: Job) -> int:
    """The number of compared bits of a word for zero-one outcomes; 0 for other distributions.

    Comparing 32 bits saves a shift, but cannot represent probability 1.
    """
    odds = job.problem.bernoulli()
    if odds is None:
        return 0
    return 31 if (np.rint(odds * 2.0**31) >= 2.0**31).any() else 32


@lru_cache(maxsize=256)
def _index_kernel(spec: DeviceKernel, shape: Shape | None) -> Any:
    from tightrope.kernels.cuda_few import build_few
    from tightrope.kernels.cuda_group import build_group

    return build_few(spec) if shape is None else build_group(spec, shape)


@lru_cache(maxsize=256)
def _clocks(spec: DeviceKernel) -> Any:
    from tightrope.kernels.cuda_few import build_clocks

    return build_clocks(spec)


_compiling = threading.Lock()
_alone, _beside_another = threading.Semaphore(1), threading.Semaphore(2)


def _launch_slot() -> AbstractContextManager[Any]:
    """A semaphore: two launches at a time keep a device busy; the simulator allows only one."""
    return _alone if _simulated() else _beside_another
