"""Run chunks as Ray tasks, on this machine's CPUs or on a cluster.

The jobs are sent to the cluster once; a task names a few chunks by number. The worker makes the
runs with its machine's engine, so the bits are the same as here, on every worker and after any
number of lost workers. Ray is imported only in this module, and only when used.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import time
import warnings
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from tightrope.engine.backend import BackendPlan, Numbers, plan_of
from tightrope.engine.job import Job
from tightrope.engine.work import Chunk, Compile, Keep
from tightrope.errors import BackendError, InputError
from tightrope.interrupts import not_dropped
from tightrope.policies.naming import OF_A_FILE
from tightrope.runs import Runs
from tightrope.version import __version__

TASK_SECONDS = 0.5  # target per task: far above its overhead of a millisecond, cheap to lose
TASK_BYTES = 2**24  # most bytes of results per task, except for a single larger chunk
ATTEMPTS = 5  # after a chunk has lost this many workers, the chunk is the cause
ANSWER_SECONDS = 5.0  # how long to wait until an address answers
PATIENCE = 60.0  # seconds without any worker before giving up
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # 0 avoids a warning about this setting
}
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # empty SETTINGS


@contextmanager
def joined(address: str | None, processors: int) -> Iterator[Any]:
    """The connected ``ray`` module: the caller's cluster, the one at ``address``, or a new one.

    A connection or cluster that was made here is closed at the end.
    """
    ray = _import_ray()
    if ray.is_initialized():
        yield ray
        return
    if address is None:
        settings = {"address": "local", "num_cpus": processors, "include_dashboard": False}
    else:
        _require_answer(address)
        settings = {"address": address}
    handler = signal.getsignal(signal.SIGTERM)  # Ray replaces it
    _connect(ray, settings)
    with suppress(ValueError):  # not in the main thread, where Ray replaces none
        signal.signal(signal.SIGTERM, handler)
    # Otherwise Ray reports lost machines on standard output, which may be meant for JSON.
    ray._private.worker._worker_logs_enabled = False
    try:
        yield ray
    finally:
        with _silence():
            ray.shutdown()
        ray._private.worker._worker_logs_enabled = True


def run_chunks(
    ray: Any,
    chunks: Sequence[Chunk],
    todo: Sequence[int],
    keep: Keep,
    compile: Compile,
    most: int | None,
) -> None:
    """Same as ``work.run_chunks``, on Ray, with at most ``most`` tasks at once.

    Tasks that run at an error or Ctrl-C are not stopped: they end with the connection, or by
    themselves if the caller owns the connection. They are not cancelled, because ``ray.cancel`` can
    abort this process if the task ends at that moment (a race as in ray-project/ray#54798; seen
    here with Ray 2.60).
    """
    for job in dict.fromkeys(chunks[at].job for at in todo):
        compile(job)
    tasks = _Tasks(ray, chunks, todo, keep, most)
    try:
        with not_dropped() as check:
            while tasks.unfinished:
                tasks.submit()
                tasks.gather(timeout=1.0)
                check()
    except KeyboardInterrupt:
        tasks.gather(timeout=0.0)
        raise


class _Tasks:
    """Waiting chunks and running tasks; a lost worker's chunks go to the front of the queue."""

    def __init__(
        self,
        ray: Any,
        chunks: Sequence[Chunk],
        todo: Sequence[int],
        keep: Keep,
        most: int | None,
    ) -> None:
        self._ray, self._chunks, self._keep, self._most = ray, chunks, keep, most
        self._waiting = deque(todo)
        self._flying: dict[Any, list[int]] = {}
        self._lost: Counter[int] = Counter()
        self._pace = _Pace(chunks, todo)
        self._slots = _Slots(ray, "GPU" if chunks[0].job.engine == "gpu" else "CPU")
        jobs = list(dict.fromkeys(chunk.job for chunk in chunks))
        self._numbers = {job: number for number, job in enumerate(jobs)}
        self._jobs = ray.put(_packed(ray, [replace(job) for job in jobs]))  # without plans
        gpus = {"num_gpus": 1} if self._slots.kind == "GPU" else {}
        # Retry here, not in Ray, which cannot tell a lost machine from a chunk that kills workers.
        self._remote = ray.remote(max_retries=0, num_cpus=1, **gpus)(_work)

    @property
    def unfinished(self) -> bool:
        return bool(self._waiting or self._flying)

    def submit(self) -> None:
        """Send just enough tasks that no worker has to wait."""
        slots = self._slots.count()
        most = self._most or 2 * max(slots, 1)
        while self._waiting and len(self._flying) < most:
            places = self._take(slots)
            pieces = [(self._numbers[self._chunks[at].job], self._chunks[at].runs) for at in places]
            self._flying[self._remote.remote([self._jobs], pieces)] = places

    def gather(self, timeout: float) -> None:
        """Store finished chunks; wait up to ``timeout`` seconds for the first."""
        if not self._flying:
            return
        wait, flying = self._ray.wait, list(self._flying)
        if wait(flying, num_returns=1, timeout=timeout)[0]:
            for ref in wait(flying, num_returns=len(flying), timeout=0)[0]:
                self._receive(ref, self._flying[ref])
                del self._flying[ref]

    def _take(self, slots: int) -> list[int]:
        """The places of the next task: half a second of work, less near the end.

        A chunk that was lost before goes alone.
        """
        goal = min(TASK_SECONDS, self._pace.left() / (2 * max(slots, 1)))
        places, seconds, size = [self._waiting.popleft()], 0.0, 0
        while self._waiting and not (self._lost[places[0]] or self._lost[self._waiting[0]]):
            last, following = self._chunks[places[-1]], self._chunks[self._waiting[0]]
            seconds += self._pace.expected(last)
            size += _bytes(last)
            if seconds + self._pace.expected(following) > goal:
                break
            if size + _bytes(following) > TASK_BYTES:
                break
            places.append(self._waiting.popleft())
        return places

    def _receive(self, ref: Any, places: Sequence[int]) -> None:
        lost = self._ray.exceptions.RayError
        try:
            finished = self._ray.get(ref)
        except self._ray.exceptions.RayTaskError as error:
            if not isinstance(error.cause, lost):
                raise _own(error) from error  # caused by the policy or the caller
            self._again(places, error.cause)
        except lost as error:
            self._again(places, error)
        else:
            for at, (runs, seconds) in zip(places, finished, strict=True):
                self._pace.learn(self._chunks[at], seconds)
                self._keep(at, _copied(runs), seconds)

    def _again(self, places: Sequence[int], error: Exception) -> None:
        """Put a lost worker's chunks back into the queue."""
        self._waiting.extendleft(reversed(places))
        self._lost.update(places)
        if self._lost[places[0]] >= ATTEMPTS:
            chunk = self._chunks[places[0]]
            raise BackendError(
                f"{ATTEMPTS} workers were lost at policy {chunk.job.label!r}, budget"
                f" {chunk.job.user_budget:g}, runs {chunk.runs[0]} to {chunk.runs[-1]}:"
                f" {_line(error)}"
            ) from error


class _Pace:
    """Estimates how long chunks take: seconds per unit of weight, from finished chunks."""

    def __init__(self, chunks: Sequence[Chunk], todo: Sequence[int]) -> None:
        self._seconds: defaultdict[Job, float] = defaultdict(float)
        self._weight: defaultdict[Job, float] = defaultdict(float)
        self._left: defaultdict[Job, float] = defaultdict(float)
        for at in todo:
            self._left[chunks[at].job] += chunks[at].weight

    def learn(self, chunk: Chunk, seconds: float) -> None:
        self._seconds[chunk.job] += seconds
        self._weight[chunk.job] += chunk.weight
        self._left[chunk.job] -= chunk.weight

    def expected(self, chunk: Chunk) -> float:
        """The chunk's expected seconds; infinite until one of its job is finished."""
        return chunk.weight * self._rate(chunk.job)

    def left(self) -> float:
        """The expected seconds of all unfinished work."""
        return sum(weight * self._rate(job) for job, weight in self._left.items() if weight > 0)

    def _rate(self, job: Job) -> float:
        known = self._weight[job]
        return self._seconds[job] / known if known else float("inf")


class _Slots:
    """The cluster's current number of CPUs or GPUs, which may change."""

    def __init__(self, ray: Any, kind: str) -> None:
        self.kind = kind
        self._ray = ray
        self._count, self._asked = self._ask(), time.monotonic()
        self._seen = self._asked  # the last time that there was one
        if not self._count:
            raise BackendError(
                f"no machine of the Ray cluster has a {kind}; at least one is needed"
            )

    def count(self) -> int:
        now = time.monotonic()
        if now - self._asked >= 1.0:
            self._count, self._asked = self._ask(), now
        if self._count:
            self._seen = now
        elif now - self._seen > PATIENCE:
            raise BackendError(
                f"the Ray cluster has had no {self.kind} for {PATIENCE:g} seconds; all its workers"
                " are gone"
            )
        return self._count

    def _ask(self) -> int:
        return int(self._ray.cluster_resources().get(self.kind, 0))


def _work(jobs: list[Any], pieces: Sequence[tuple[int, Numbers]]) -> list[tuple[Runs, float]]:
    """The task on a worker: returns the chunks' runs and seconds."""
    return [_run(_plan(jobs[0], number), numbers) for number, numbers in pieces]


def _run(plan: BackendPlan, numbers: Numbers) -> tuple[Runs, float]:
    """Make the runs in steps of the plan's chunk, which depends on the worker's GPU memory."""
    start, stop, parts = time.perf_counter(), np.zeros(1, np.uint8), []
    for first in range(0, len(numbers), plan.chunk):
        runs, _ = plan.run(numbers[first : first + plan.chunk], stop)
        assert runs is not None  # stop is never set here
        parts.append(runs)
    return Runs.join(parts, axis=0), time.perf_counter() - start


@lru_cache(maxsize=256)
def _plan(jobs: Any, number: int) -> BackendPlan:
    """A job's compiled plan, cached in this worker."""
    plan = plan_of(_unpacked(jobs)[number])
    plan.compile()
    return plan


@lru_cache(maxsize=4)
def _unpacked(jobs: Any) -> list[Job]:
    ray = _import_ray()
    version, text = ray.get(jobs)
    if version != __version__:
        raise BackendError(
            f"machine {socket.gethostname()!r} has tightrope {__version__}; it must be {version},"
            " as on the machine that called simulate"
        )
    try:
        read: list[Job] = ray.cloudpickle.loads(text)
    except (ImportError, AttributeError) as error:
        raise BackendError(
            f"machine {socket.gethostname()!r} cannot read a policy ({error}); its module must be"
            " installed there, or sent by ray.init(runtime_env=...)"
        ) from error
    return read


def _packed(ray: Any, jobs: Sequence[Job]) -> tuple[str, bytes]:
    """The jobs, pickled; a policy from a file is pickled with its code, unknown on workers."""
    for job in jobs:
        module = type(job.policy).__module__
        if module.startswith(OF_A_FILE):
            ray.cloudpickle.register_pickle_by_value(sys.modules[module])
    try:
        return __version__, ray.cloudpickle.dumps(jobs)
    except Exception as error:  # pickling a user's class can raise anything
        raise InputError(
            f"policies: cannot be sent to other machines ({_line(error)}); they must be picklable"
        ) from error


def _copied(runs: Runs) -> Runs:
    """A copy: Ray's arrays are in its object store, which is small and temporary."""
    return Runs(*(np.array(getattr(runs, field.name), order="C") for field in fields(Runs)))


def _bytes(chunk: Chunk) -> int:
    return chunk.job.run_bytes * len(chunk.runs)


def _own(error: Any) -> BaseException:
    """The error raised in the worker, without Ray's wrapper."""
    return error.cause if isinstance(error.cause, BaseException) else error


def _line(error: BaseException) -> str:
    """The first line of an error's message."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), repr(error))


def _import_ray() -> Any:
    try:
        with _silence():
            import ray
    except ImportError as error:
        raise BackendError(
            f"backend 'ray' cannot be used here ({error}); pip install \"tightrope[ray]\""
        ) from error
    return ray


def _connect(ray: Any, settings: dict[str, Any]) -> None:
    with _silence(), _environment(QUIET):
        try:
            ray.init(log_to_driver=False, logging_level=logging.CRITICAL, **settings)
        except Exception as error:  # no cluster, another version, no memory, ...
            ray.shutdown()
            raise BackendError(f"Ray at {settings['address']!r}: {_line(error)}") from error


def _require_answer(address: str) -> None:
    """Raise within seconds unless a Ray server answers; Ray itself would try for minutes."""
    if address in ("auto", "local"):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise InputError(
            f"address = {address!r} must be HOST:PORT, such as 10.0.0.1:6379, or ray://HOST:PORT,"
            " or auto"
        )
    try:
        with socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS) as found:
            if os.environ.get("RAY_USE_TLS") == "1":
                return
            found.sendall(HTTP2)
            answer = found.recv(9)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BackendError(f"address = {address!r}: no Ray cluster answers ({reason})") from error
    if answer[3:4] != b"\x04":  # the first frame of a gRPC server is its settings
        raise BackendError(f"address = {address!r}: the server there is not a Ray cluster")


@contextmanager
def _silence() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set environment variables for child processes, except those that the user has set."""
    new = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            del os.environ[name]
