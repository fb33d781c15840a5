"""The cluster: chunks as Ray tasks, on this machine's processors or on many machines.

The problem, the policies and their numbers go to the cluster once; a task is a few chunks by
number. Its worker makes the runs with the engine of that machine, so the bits are those of a run
here, whichever worker made them and however often one was lost. Ray is imported here alone, and
only when it is used.
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

from tightrope.engine.backend import Numbers, Plan, plan_of
from tightrope.engine.job import Job
from tightrope.engine.work import Chunk, Compile, Keep
from tightrope.errors import BackendError, InputError
from tightrope.interrupts import not_dropped
from tightrope.policies.naming import OF_A_FILE
from tightrope.results import Runs
from tightrope.version import __version__

__all__ = ["joined", "run_chunks"]

TASK_SECONDS = 0.5  # aimed at: far above the millisecond that a task costs, a moment to lose
TASK_BYTES = 2**24  # of results, at most, beyond one chunk
ATTEMPTS = 5  # workers that one chunk may take along; then it is the chunk
ANSWER_SECONDS = 5.0  # for an address to answer
PATIENCE = 60.0  # seconds without any worker
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # asks for a decision that does not matter here
}
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # and no settings


@contextmanager
def joined(address: str | None, processors: int) -> Iterator[Any]:
    """Ray, connected: as the caller has it, to the cluster at ``address``, or to one of its own.

    What was connected or started here is left or shut down again at the end.
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
    handler = signal.getsignal(signal.SIGTERM)  # Ray sets its own
    _connect(ray, settings)
    with suppress(ValueError):  # not in the main thread: Ray has set none
        signal.signal(signal.SIGTERM, handler)
    # A machine's death is printed to standard output otherwise, which may be meant for JSON.
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
    """Run the chunks at the places ``todo``, at most ``most`` tasks at once; else as threads do.

    What is on its way at an error or Ctrl-C is left alone: it ends with the connection, or by
    itself where the connection is the caller's. It is not cancelled, because ``ray.cancel`` can
    abort this process if the task ends at that moment (a race as in ray-project/ray#54798; met
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
    """Chunks waiting and chunks on their way. Those of a lost worker wait again, first in line."""

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
        # Retried here, not by Ray: it cannot tell a machine that went from a chunk that kills.
        self._remote = ray.remote(max_retries=0, num_cpus=1, **gpus)(_work)

    @property
    def unfinished(self) -> bool:
        return bool(self._waiting or self._flying)

    def submit(self) -> None:
        """Send tasks: enough that no worker waits for the next, no more."""
        slots = self._slots.count()
        most = self._most or 2 * max(slots, 1)
        while self._waiting and len(self._flying) < most:
            places = self._take(slots)
            pieces = [(self._numbers[self._chunks[at].job], self._chunks[at].runs) for at in places]
            self._flying[self._remote.remote([self._jobs], pieces)] = places

    def gather(self, timeout: float) -> None:
        """Keep what is finished; wait up to ``timeout`` seconds for the first."""
        if not self._flying:
            return
        wait, flying = self._ray.wait, list(self._flying)
        if wait(flying, num_returns=1, timeout=timeout)[0]:
            for ref in wait(flying, num_returns=len(flying), timeout=0)[0]:
                self._receive(ref, self._flying[ref])
                del self._flying[ref]

    def _take(self, slots: int) -> list[int]:
        """The next task: half a second of chunks, less towards the end; one lost before, alone."""
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
                raise _own(error) from error  # the policy's doing, or the caller's
            self._again(places, error.cause)
        except lost as error:
            self._again(places, error)
        else:
            for at, (runs, seconds) in zip(places, finished, strict=True):
                self._pace.learn(self._chunks[at], seconds)
                self._keep(at, _copied(runs), seconds)

    def _again(self, places: Sequence[int], error: Exception) -> None:
        """Put a lost worker's chunks back in line."""
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
    """How long chunks take, learned from those finished: the seconds a unit of weight."""

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
        """Its seconds; endless before the first of its kind is known, so it goes alone."""
        return chunk.weight * self._rate(chunk.job)

    def left(self) -> float:
        """Seconds of work to do."""
        return sum(weight * self._rate(job) for job, weight in self._left.items() if weight > 0)

    def _rate(self, job: Job) -> float:
        known = self._weight[job]
        return self._seconds[job] / known if known else float("inf")


class _Slots:
    """How many processors or GPUs the cluster has; machines come and go."""

    def __init__(self, ray: Any, kind: str) -> None:
        self.kind = kind
        self._ray = ray
        self._count, self._asked = self._ask(), time.monotonic()
        self._seen = self._asked  # when there was one
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
    """A task, on a worker: the chunks' runs and seconds."""
    return [_run(_plan(jobs[0], number), numbers) for number, numbers in pieces]


def _run(plan: Plan, numbers: Numbers) -> tuple[Runs, float]:
    """In steps that the engine likes: a GPU's memory is not known where chunks are cut."""
    start, stop, parts = time.perf_counter(), np.zeros(1, np.uint8), []
    for first in range(0, len(numbers), plan.chunk):
        runs, _ = plan.run(numbers[first : first + plan.chunk], stop)
        assert runs is not None  # nobody sets stop
        parts.append(runs)
    return Runs.join(parts, axis=0), time.perf_counter() - start


@lru_cache(maxsize=256)
def _plan(jobs: Any, number: int) -> Plan:
    """A plan that this worker keeps, compiled: a chunk does not make it again."""
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
            " as where simulate was called"
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
    """The jobs, to be sent; a policy of a file goes with its code, which no module there has."""
    for job in jobs:
        module = type(job.policy).__module__
        if module.startswith(OF_A_FILE):
            ray.cloudpickle.register_pickle_by_value(sys.modules[module])
    try:
        return __version__, ray.cloudpickle.dumps(jobs)
    except Exception as error:  # whatever a class raises that cannot be pickled
        raise InputError(
            f"policies: cannot be sent to other machines ({_line(error)}); they must be picklable"
        ) from error


def _copied(runs: Runs) -> Runs:
    """In memory of its own: what Ray gives lies in its store, which is small and goes away."""
    return Runs(*(np.array(getattr(runs, field.name), order="C") for field in fields(Runs)))


def _bytes(chunk: Chunk) -> int:
    return chunk.job.run_bytes * len(chunk.runs)


def _own(error: Any) -> BaseException:
    """The error that a worker met, as it would have been raised here."""
    return error.cause if isinstance(error.cause, BaseException) else error


def _line(error: BaseException) -> str:
    """An error's first line."""
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
        except Exception as error:  # of many kinds: no cluster, another version, no memory
            ray.shutdown()
            raise BackendError(f"Ray at {settings['address']!r}: {_line(error)}") from error


def _require_answer(address: str) -> None:
    """Complain within seconds, where Ray would try for minutes, unless a Ray server answers."""
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
        raise BackendError(f"address = {address!r}: what answers there is not a Ray cluster")


@contextmanager
def _silence() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Variables for the processes started in the meantime, unless the user has set them."""
    new = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            del os.environ[name]
