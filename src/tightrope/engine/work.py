"""Work: the runs of several jobs, cut into chunks and made by threads or on a cluster.

The first runs of all jobs come first, so that interrupted work has finished runs of every policy.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from queue import SimpleQueue

import numpy as np

from tightrope.engine.backend import Numbers
from tightrope.engine.checkpoint import Checkpoint, Place
from tightrope.engine.job import Job
from tightrope.engine.progress import Progress, reporting
from tightrope.formats import percent
from tightrope.interrupts import not_dropped
from tightrope.runs import Runs

ROUNDS = 4  # in which every job gets its share of runs
WAITING = 300.0  # estimated seconds of queued work per thread while kernels are compiled


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some runs of a job: a unit of work."""

    job: Job
    runs: Numbers

    @property
    def weight(self) -> float:
        """The estimated seconds on one CPU."""
        return self.job.seconds * len(self.runs)

    @property
    def place(self) -> Place:
        """Its key in the store."""
        return self.job.digest, int(self.runs[0]), len(self.runs)


Keep = Callable[[int, Runs, float], None]  # receives a finished chunk: its place, runs, seconds
Compile = Callable[[Job], bool]  # called before each chunk: whether it took time
Runner = Callable[[Sequence[Chunk], Sequence[int], Keep, Compile], None]  # chunks, places to do


def cut(jobs: Sequence[Job]) -> list[Chunk]:
    """All jobs' chunks in ``ROUNDS`` rounds: every job's first runs come in the first one.

    In a round, the jobs of a policy follow one another, and the policies with the most work come
    first: they keep the threads busy while other kernels are compiled.
    """
    work: dict[type, float] = {}
    for job in jobs:
        kind = type(job.policy)
        work[kind] = work.get(kind, 0.0) + job.seconds * len(job.numbers)
    rounds: list[list[Chunk]] = [[] for _ in range(ROUNDS)]
    for job in sorted(jobs, key=lambda job: -work[type(job.policy)]):
        for at in range(0, len(job.numbers), job.chunk):
            chunk = Chunk(job, job.numbers[at : at + job.chunk])
            rounds[ROUNDS * at // len(job.numbers)].append(chunk)
    return [chunk for one in rounds for chunk in one]


class Work:
    """The chunks of some jobs, finished or not; those found in the store count as finished."""

    def __init__(self, jobs: Sequence[Job], store: Checkpoint | None) -> None:
        self.jobs, self.chunks, self.store = jobs, cut(jobs), store
        self.done: dict[int, tuple[Runs, float]] = {}  # runs and seconds by place in ``chunks``
        self.elapsed = 0.0  # seconds of simulating, before and now
        self.compile_seconds: dict[Job, float] = {}
        if store:
            found = store.load(jobs)
            places = [chunk.place for chunk in self.chunks]
            self.done = {at: found[place] for at, place in enumerate(places) if place in found}
            self.elapsed = store.elapsed

    @property
    def todo(self) -> list[int]:
        """The places of the chunks that are not finished."""
        return [at for at in range(len(self.chunks)) if at not in self.done]

    @property
    def share_done(self) -> float:
        """The finished share of the work, by weight."""
        total = sum(chunk.weight for chunk in self.chunks)
        return sum(self.chunks[at].weight for at in self.done) / total

    def run(self, runner: Runner, progress: Progress, title: str) -> bool:
        """Run the unfinished chunks; returns whether all are finished. Ctrl-C ends it early."""
        total = sum(chunk.weight for chunk in self.chunks)
        before = total * self.share_done
        if before and self.store and progress is not False:
            share = percent(before / total, 0)
            print(f"continuing from {share}, kept in {self.store.folder}", file=sys.stderr)
        start = time.perf_counter()
        if self.store:
            self.store.start()
        with reporting(progress, total, title) as tell:

            def keep(at: int, runs: Runs, seconds: float) -> None:
                if at in self.done:  # stored already, before an interruption
                    return
                self.done[at] = (runs, seconds)
                if self.store:
                    self.store.add(self.chunks[at].place, runs, seconds)
                tell(self.chunks[at].weight)

            try:
                if before:
                    tell(before)
                runner(self.chunks, self.todo, keep, self._compile)
            except KeyboardInterrupt:
                pass
            finally:
                if self.store:
                    self.store.flush()
                self.elapsed += time.perf_counter() - start - sum(self.compile_seconds.values())
        return not self.todo

    def _compile(self, job: Job) -> bool:
        if job in self.compile_seconds:
            return False
        self.compile_seconds[job] = job.compile()
        return self.compile_seconds[job] > 0.0

    def finished_runs(self, jobs: Iterable[Job]) -> Numbers:
        """The numbers of the runs that all of these jobs have finished."""
        mine = set(jobs)
        missing = [one.runs for one in self._unfinished if one.job in mine]
        numbers = next(iter(mine)).numbers
        return np.setdiff1d(numbers, np.concatenate(missing)) if missing else numbers

    def runs_of(self, job: Job, kept: Numbers) -> Runs:
        """A job's runs with the numbers ``kept``, in run order."""
        parts = [
            self.done[at][0][np.isin(self.chunks[at].runs, kept)] for at in self._finished[job]
        ]
        return Runs.join(parts, axis=0)

    def seconds_of(self, job: Job) -> float:
        """A job's share of the elapsed time, in seconds."""
        mine = sum(self.done[at][1] for at in self._finished[job])
        return mine * max(self.elapsed, 0.0) / self._busy if self._busy else 0.0

    @cached_property
    def _busy(self) -> float:
        """The seconds of all finished chunks, over all threads; like ``_finished``, for the end."""
        return sum(seconds for _, seconds in self.done.values())

    @cached_property
    def _unfinished(self) -> list[Chunk]:
        """The unfinished chunks at the end."""
        return [self.chunks[at] for at in self.todo]

    @cached_property
    def _finished(self) -> dict[Job, list[int]]:
        """The places of each job's finished chunks; cached, so use it after the work has ended."""
        found: dict[Job, list[int]] = {job: [] for job in self.jobs}
        for at in sorted(self.done):
            found[self.chunks[at].job].append(at)
        return found


def run_chunks(
    chunks: Sequence[Chunk], todo: Sequence[int], keep: Keep, compile: Compile, threads: int
) -> None:
    """Run the chunks at the places ``todo``; on Ctrl-C, keep the finished ones and raise it.

    Some seconds of work are queued, so that threads are busy while a kernel is compiled.
    """
    stop = np.zeros(1, np.uint8)
    pending: dict[Future[tuple[Runs | None, float]], int] = {}
    ended: SimpleQueue[Future[tuple[Runs | None, float]]] = SimpleQueue()
    places, waiting = iter(todo), 0.0
    pool = ThreadPoolExecutor(threads)

    def submit() -> None:
        """Fill the queue until it holds enough work."""
        nonlocal waiting
        while len(pending) < 2 * threads or waiting < WAITING * threads:
            at = next(places, None)
            if at is None:
                return
            job = chunks[at].job
            new = compile(job)  # in this thread, because Ctrl-C interrupts only the main thread
            future = pool.submit(job.plan.run, chunks[at].runs, stop)
            pending[future] = at
            waiting += chunks[at].weight
            future.add_done_callback(ended.put)
            if new:
                return  # look at what has finished meanwhile

    def gather(futures: Iterable[Future[tuple[Runs | None, float]]]) -> None:
        nonlocal waiting
        for future in futures:
            at = pending.pop(future)
            waiting -= chunks[at].weight
            runs, seconds = future.result()
            if runs is not None:
                keep(at, runs, seconds)

    try:
        with not_dropped() as check:
            submit()
            while pending:
                finished = [ended.get()]
                while not ended.empty():
                    finished.append(ended.get())
                gather(finished)
                check()
                submit()
    except KeyboardInterrupt:
        stop[0] = 1
        gather([future for future in list(pending) if not future.cancel()])
        raise
    finally:
        stop[0] = 1
        pool.shutdown(cancel_futures=True)
