"""The work in chunks, and the threads that do it.

A chunk is one policy, one budget, some runs. All policies and budgets of the first runs come first,
so that an interrupted simulation keeps whole runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np

from tightrope.engine.backend import Numbers, Plan
from tightrope.results import Runs

__all__ = ["Chunk", "Finished", "Work", "cut", "run_chunks"]


@dataclass(frozen=True, eq=False)
class Work:
    """One policy at one budget (in the user's units)."""

    label: str
    budget: float
    plan: Plan


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


def cut(numbers: Numbers, work: Sequence[Work]) -> list[Chunk]:
    """Chunks by groups of runs, each group with every policy and budget."""
    width = max(one.plan.chunk for one in work)
    groups = [numbers[first : first + width] for first in range(0, len(numbers), width)]
    return [
        Chunk(one, group[at : at + one.plan.chunk])
        for group in groups
        for one in work
        for at in range(0, len(group), one.plan.chunk)
    ]


def run_chunks(chunks: Sequence[Chunk], threads: int, tell: Callable[[float], None]) -> Finished:
    """All chunks, or those finished when Ctrl-C comes."""
    done: Finished = {}
    stop = np.zeros(1, np.uint8)
    pending: dict[Future[tuple[Runs | None, float]], int] = {}
    todo = iter(range(len(chunks)))
    pool = ThreadPoolExecutor(threads)

    def submit() -> None:
        at = next(todo, None)
        if at is not None:
            pending[pool.submit(chunks[at].work.plan.run, chunks[at].runs, stop)] = at

    def gather(futures: Iterable[Future[tuple[Runs | None, float]]]) -> None:
        for future in futures:
            at = pending.pop(future)
            runs, seconds = future.result()
            if runs is not None:
                done[at] = (runs, seconds)
                tell(chunks[at].weight)

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
        if not done:
            raise
    finally:
        stop[0] = 1
        pool.shutdown(cancel_futures=True)
    return done
