"""The arena's runs in several processes, so that kernels are compiled side by side too.

numba compiles one kernel at a time in a process. Each process here has one thread and takes the
*pieces*, some runs of a job, of one kernel after another, those that take longest first; when all
kernels are taken, it helps with one that another has compiled, which it loads from the disk. What
is kept, and the progress shown, are as with threads. A run depends only on the seed and its number,
so that the results do not depend on the number of processes.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from tightrope.compiled import announced
from tightrope.engine import gpu
from tightrope.engine.arguments import thread_count
from tightrope.engine.backend import Numbers
from tightrope.engine.caveats import warn_infeasible
from tightrope.engine.job import Job
from tightrope.engine.planning import GPU_RUNS, plan_jobs
from tightrope.engine.progress import percent
from tightrope.engine.simulation import Interrupted, Request, Settings
from tightrope.engine.store import Store
from tightrope.engine.work import Chunk, Compile, Keep, Work
from tightrope.errors import BackendError, InputError
from tightrope.interrupts import not_dropped
from tightrope.results import Record, Results, Runs
from tightrope.version import __version__

__all__ = ["make_in_processes", "worthwhile_processes"]

FEW_KERNELS = 8  # up to here, starting processes may take longer than they save
MOST_PROCESSES = 16  # unless more are asked for: each takes up to 1 GB
PIECE_SECONDS = 1.0  # of a piece, estimated
GPU_SECONDS = 5.0  # of a CPU: a GPU takes longer to compile a kernel, but not by much

Kernel = tuple[Any, ...]


def worthwhile_processes(requests: Sequence[Request], settings: Settings) -> int:
    """As many processes as CPUs where there are many kernels, for CPUs, of our own policies."""
    policies = [policy for request in requests for policy in request.policies.values()]
    if not all(type(one).__module__.startswith("tightrope.") for one in policies):
        return 1  # other processes may not find them
    jobs = [_job(request, settings) for request in requests]
    if {job.backend for job in jobs} != {"cpu"}:
        return 1
    many = len(set(map(_kernel, jobs))) > FEW_KERNELS
    return min(thread_count(None), MOST_PROCESSES) if many else 1


def make_in_processes(
    requests: Sequence[Request], settings: Settings, store: Store | None, processes: int
) -> list[Results]:
    """The results of requests, each for one policy at one budget; raises if interrupted."""
    jobs = [_job(request, settings) for request in requests]
    for request in requests:
        warn_infeasible(request.problem, request.budgets, stacklevel=5)
    if settings.backend == "auto":
        jobs = _on_devices(jobs)
    work = Pieces(jobs, store, processes)
    if work.todo:
        tell = settings.progress is not False
        runner = partial(_run_pieces, processes=processes, tell=tell, noted=work.compile_seconds)
        work.run(runner, settings.progress, settings.title)
    if work.todo:
        raise Interrupted(_interruption_text(work))
    return [
        _results(work, request, job, settings.seed)
        for request, job in zip(requests, jobs, strict=True)
    ]


def _job(request: Request, settings: Settings) -> Job:
    (job,) = plan_jobs(
        request.problem,
        request.policies,
        request.budgets,
        request.numbers,
        seed=settings.seed,
        backend=settings.backend,
    ).values()
    return job


def _on_devices(jobs: Sequence[Job]) -> list[Job]:
    """The jobs for a GPU, if there is one, where it saves more than its compiling takes.

    For a GPU a kernel is compiled for each policy, number of arms and number of limits. Few runs
    leave most of it idle.
    """

    def shape(job: Job) -> Kernel:
        return job.label, job.arm_count, job.penalty_count

    seconds: dict[Kernel, float] = defaultdict(float)
    for job in jobs:
        seconds[shape(job)] += job.on("cpu").seconds * len(job.numbers)
    few = max(len(job.numbers) for job in jobs) < GPU_RUNS
    if few or max(seconds.values()) <= GPU_SECONDS or not gpu.available():
        return list(jobs)
    return [
        job
        if job.engine == "python"
        else job.on("gpu" if seconds[shape(job)] > GPU_SECONDS else "cpu")
        for job in jobs
    ]


def _kernel(job: Job) -> Kernel:
    """Jobs for which it is the same share a kernel."""
    if job.engine != "cpu":
        return job.engine, type(job.policy), job.arm_count, job.penalty_count
    plan: Any = job.plan
    return type(plan), plan.spec, getattr(plan, "by_bits", None), job.moving


class Pieces(Work):
    """Work that is cut into larger chunks: each is a message to another process and back."""

    def __init__(self, jobs: Sequence[Job], store: Store | None, processes: int) -> None:
        self.jobs, self.store, self._processes = jobs, store, processes
        self.chunks = [piece for job in jobs for piece in _cut(job)]
        self.done, self.elapsed, self.compile_seconds = {}, 0.0, {}
        if store and any(store.folder.glob("part-*")):  # digests of all jobs take long
            found = store.load(jobs)
            places = [piece.place for piece in self.chunks]
            self.done = {at: found[place] for at, place in enumerate(places) if place in found}
            self.elapsed = store.elapsed

    def seconds_of(self, job: Job) -> float:
        """A job's share of the time in which all processes are busy, in seconds."""
        return sum(self.done[at][1] for at in self._finished[job]) / self._processes


def _cut(job: Job) -> list[Chunk]:
    """The job's pieces."""
    count = len(job.numbers)
    if job.engine == "cpu":
        count = max(job.chunk, round(PIECE_SECONDS / job.seconds))
    return [Chunk(job, job.numbers[at : at + count]) for at in range(0, len(job.numbers), count)]


class _Queue:
    """Hands out pieces: those of a kernel to one process, until it is compiled."""

    def __init__(self, pieces: Sequence[Chunk], todo: Sequence[int]) -> None:
        self._pieces = pieces
        self._left: dict[Kernel, deque[int]] = defaultdict(deque)
        for at in sorted(todo, key=lambda at: -pieces[at].weight):
            self._left[_kernel(pieces[at].job)].append(at)
        self._free = deque(sorted(self._left, key=lambda kernel: -self._weight(kernel)))
        self._ready: set[Kernel] = set()  # compiled
        self._held: dict[int, Kernel] = {}  # by process

    def next(self, process: int) -> int | None:
        """A piece for a process: of its kernel, of a new one, or of the one with most to do."""
        if not self._left.get(self._held.get(process, ())):
            ready = [kernel for kernel in self._ready if self._left[kernel]]
            if self._free:
                self._held[process] = self._free.popleft()
            elif ready:
                self._held[process] = max(ready, key=self._weight)
            else:
                return None
        return self._left[self._held[process]].popleft()

    def finished(self, process: int) -> None:
        """A process has finished a piece, so its kernel is compiled."""
        self._ready.add(self._held[process])

    def _weight(self, kernel: Kernel) -> float:
        return sum(self._pieces[at].weight for at in self._left[kernel])


def _run_pieces(
    pieces: Sequence[Chunk],
    todo: Sequence[int],
    keep: Keep,
    _compile: Compile,
    processes: int,
    tell: bool,
    noted: dict[Job, float],
) -> None:
    """Run the pieces at the places ``todo``; ``noted`` gets each job's seconds of compiling."""
    queue, busy = _Queue(pieces, todo), dict[int, int]()
    with _started(min(processes, len(todo)), tell) as workers, not_dropped() as check:

        def hand_out() -> None:
            for number, worker in enumerate(workers):
                at = None if number in busy else queue.next(number)
                if at is not None:
                    worker.send(pieces[at])
                    busy[number] = at

        hand_out()
        while busy:
            heard = wait([workers[number].pipe for number in busy], timeout=1.0)
            made = []
            for number in [number for number in busy if workers[number].pipe in heard]:
                at = busy.pop(number)
                made.append((at, *workers[number].receive(pieces[at])))
                queue.finished(number)
            hand_out()  # before the rest, which takes this process some time
            for at, runs, seconds, compiling in made:
                noted[pieces[at].job] = noted.get(pieces[at].job, 0.0) + compiling
                keep(at, runs, seconds)
            check()


class _Worker:
    """Another process, seen from here."""

    def __init__(self, context: Any, tell: bool) -> None:
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, tell), daemon=True)
        self._process.start()
        theirs.close()
        self._known: Job | None = None  # the last job sent there

    def send(self, piece: Chunk) -> None:
        """Have a piece made there."""
        new = None if piece.job is self._known else replace(piece.job)  # without a plan
        try:
            self.pipe.send((new, piece.runs))
        except OSError:
            raise self._lost(piece) from None
        except Exception as error:  # pickling a user's class can raise anything
            text = f"policy {piece.job.label!r} cannot be sent to another process ({error})"
            raise InputError(f"{text}; use one process") from error
        self._known = piece.job

    def receive(self, piece: Chunk) -> tuple[Runs, float, float]:
        """A piece's runs, their seconds and those of compiling; raises what was raised there."""
        try:
            answer = self.pipe.recv()
        except (EOFError, OSError):
            raise self._lost(piece) from None
        if isinstance(answer, Exception):
            raise answer
        made: tuple[Runs, float, float] = answer
        return made

    def _lost(self, piece: Chunk) -> BackendError:
        self._process.join(1.0)
        return BackendError(
            f"a process was lost (status {self._process.exitcode}) at policy {piece.job.label!r},"
            f" budget {piece.job.user_budget:g}, runs {piece.runs[0]} to {piece.runs[-1]}"
        )

    def end(self) -> None:
        """End the process, whatever it is doing: what it has not sent is not kept."""
        self._process.kill()
        self._process.join()
        self.pipe.close()


@contextmanager
def _started(count: int, tell: bool) -> Iterator[list[_Worker]]:
    """So many processes; the first says, if it has to, that it compiles."""
    context, workers = multiprocessing.get_context("spawn"), list[_Worker]()
    try:
        with _later_signals():
            for number in range(count):
                workers.append(_Worker(context, tell and number == 0))
        yield workers
    finally:
        for worker in workers:
            worker.end()


@contextmanager
def _later_signals() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until the end of the block: no process is left half started.

    Processes that are started in it never get Ctrl-C: the one that started them ends them.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # it lets signals in again when it is started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: Connection, tell: bool) -> None:
    """Another process: make the pieces that are sent, until it is ended."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    threading.Thread(target=_end_with_parent, daemon=True).start()
    job: Any = None
    with announced() if tell else nullcontext():
        while True:
            new, numbers = pipe.recv()
            job = new or job
            try:
                answer: Any = _made(job, numbers)
            except Exception as error:
                answer = error
            try:
                pipe.send(answer)
            except Exception as error:  # an error of a user's policy that cannot be pickled
                pipe.send(BackendError(f"policy {job.label!r}: {answer!r} ({error})"))


def _end_with_parent() -> None:
    """Also if the parent is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _made(job: Job, numbers: Numbers) -> tuple[Runs, float, float]:
    """The runs, their seconds, and the seconds of compiling."""
    compiling, start, stop = job.compile(), time.perf_counter(), np.zeros(1, np.uint8)
    plan, parts = job.plan, []
    for first in range(0, len(numbers), plan.chunk):
        runs, _ = plan.run(numbers[first : first + plan.chunk], stop)
        assert runs is not None  # stop is never set here
        parts.append(runs)
    return Runs.join(parts, axis=0), time.perf_counter() - start, compiling


def _interruption_text(work: Work) -> str:
    if not work.done:
        return "interrupted before anything was finished"
    if work.store is None:
        return "interrupted before all runs were finished"
    return (
        f"interrupted: {percent(work.share_done)} is done and kept in {work.store.folder}; run the"
        " same command again to continue"
    )


def _results(work: Work, request: Request, job: Job, seed: int) -> Results:
    record = Record(
        label=job.label,
        normalised_runs=Runs.stack([work.runs_of(job, job.numbers)]),
        seconds=(work.seconds_of(job),),
        compile_seconds=work.compile_seconds.get(job, 0.0),
        backend=job.backend,
        knows=job.policy.knows,
        policy=repr(job.policy),
    )
    return Results(
        problem=request.problem,
        budgets=tuple(request.budgets),
        seed=seed,
        run_numbers=job.numbers,
        records=(record,),
        version=__version__,
        complete=True,
    )
