"""The work in chunks, and the threads that do it.

A chunk is one policy, one budget, some runs. All policies and budgets of the first runs come first,
so that an interrupted simulation keeps whole runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tightrope.engine.backend import Numbers, Plan, plan_of
from tightrope.engine.job import Job
from tightrope.results import Runs

__all__ = ["Chunk", "Finished", "Keep", "Runner", "Work", "cut", "run_chunks"]

GPU_RUNS = 2**17  # a chunk for a GPU elsewhere, whose plan this machine may be unable to make
GPU_BYTES = 2**27  # of its results, at most


@dataclass(frozen=True, eq=False)
class Work:
    """One policy at one budget (in the user's units)."""

    label: str
    budget: float
    job: Job
    backend: str  # its name in the results

    @cached_property
    def plan(self) -> Plan:
        """Ready to run on this machine."""
        return plan_of(self.job)

    @property
    def chunk(self) -> int:
        """How many runs make a unit of work."""
        if self.backend == "ray:gpu":
            return max(1, min(GPU_RUNS, GPU_BYTES // self.run_bytes))
        return self.plan.chunk

    @property
    def run_bytes(self) -> int:
        """How large a run's results are."""
        problem = self.job.problem
        return 8 * (2 + 3 * problem.penalty_count + 2 * problem.arm_count)

    def compile(self) -> float:
        """Compile what is not compiled yet; the seconds of compiling.

        Also for a cluster: its workers on this machine then find the kernels on the disk. Those
        elsewhere, and GPUs, compile for themselves at their first task, which is not counted.
        """
        return 0.0 if self.backend == "ray:gpu" else self.plan.compile()


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some runs of it."""

    work: Work
    runs: Numbers

    @property
    def weight(self) -> float:
        """How long it takes, relative to other chunks."""
        return self.work.budget * len(self.runs)


Finished = dict[int, tuple[Runs, float]]  # runs and seconds by the chunk's place in the list
Keep = Callable[[int, Runs, float], None]  # takes a chunk just finished: its place, runs, seconds
Runner = Callable[[Sequence[Chunk], Sequence[int], Keep], None]  # all chunks, and which are to do


def cut(numbers: Numbers, work: Sequence[Work]) -> list[Chunk]:
    """Chunks by groups of runs, each group with every policy and budget."""
    width = max(one.chunk for one in work)
    groups = [numbers[first : first + width] for first in range(0, len(numbers), width)]
    return [
        Chunk(one, group[at : at + one.chunk])
        for group in groups
        for one in work
        for at in range(0, len(group), one.chunk)
    ]


def run_chunks(chunks: Sequence[Chunk], todo: Sequence[int], keep: Keep, threads: int) -> None:
    """Run the chunks at the places ``todo``; Ctrl-C is raised once the finished ones are kept."""
    stop = np.zeros(1, np.uint8)
    pending: dict[Future[tuple[Runs | None, float]], int] = {}
    places = iter(todo)
    pool = ThreadPoolExecutor(threads)

    def submit() -> None:
        at = next(places, None)
        if at is not None:
            pending[pool.submit(chunks[at].work.plan.run, chunks[at].runs, stop)] = at

    def gather(futures: Iterable[Future[tuple[Runs | None, float]]]) -> None:
        for future in futures:
            at = pending.pop(future)
            runs, seconds = future.result()
            if runs is not None:
                keep(at, runs, seconds)

    try:
        for _ in range(2 * threads):
            submit()
        while pending:
            finished = wait(pending, return_when=FIRST_COMPLETED).done
            gather(finished)
            for _ in finished:
                submit()
    except KeyboardInterrupt:
        stop[0] = 1
        gather(list(pending))
        raise
    finally:
        stop[0] = 1
        pool.shutdown(cancel_futures=True)
