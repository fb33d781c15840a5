"""Share turns among the threads of a process: one thread does the work of all.

A thread puts its requests in the queue and checks whether the desk is free. If it is, the thread
does all waiting requests in one turn and wakes their threads. If not, the thread is woken when its
own request is done, or when it is the first that still waits.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from tightrope.errors import HaltedError, PolicyError, StoreError, TightropeError
from tightrope.live.writer import Writer

MOST_TOGETHER = 256  # requests of one turn


class UnexpectedError(StoreError):
    """A request failed with an error from outside this package; nothing was recorded."""


class TurnRequest:
    """A request for a turn, and its result.

    ``tickets``: the tickets that it reads. ``who``: its author; default: the campaign's.
    """

    __slots__ = ("act", "done", "error", "result", "tickets", "wake", "who")

    def __init__(
        self, act: Callable[[Writer], Any], tickets: Sequence[str] = (), who: str | None = None
    ) -> None:
        self.act, self.tickets, self.who = act, tickets, who
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False
        self.wake: threading.Lock | None = None  # locked while its thread waits


class BrokenError(Exception):
    """A request failed within a turn, and the turn cannot continue; the cause is the failure."""

    def __init__(self, request: TurnRequest) -> None:
        super().__init__()
        self.request = request


def act_all(requests: Iterable[TurnRequest], writer: Writer) -> None:
    """Act for each request; a refused request gets its own error, and the others continue."""
    own = writer.who
    for request in requests:
        writer.who = request.who or own
        try:
            request.result = request.act(writer)
        except (HaltedError, StoreError):
            raise
        except PolicyError as error:  # it may have drawn random numbers
            raise BrokenError(request) from error
        except TightropeError as error:
            request.error = error
        except Exception as error:
            raise BrokenError(request) from error
    writer.who = own


def fail(requests: Iterable[TurnRequest], error: BaseException, name: str) -> None:
    """End requests of the campaign ``name`` with the error that their threads will raise."""
    told = error
    if not isinstance(error, Exception):
        told = StoreError(
            f"campaign {name!r}: interrupted; it is unknown whether this was recorded. Repeat "
            "it with the same id"
        )
    elif not isinstance(error, TightropeError):
        told = UnexpectedError(f"campaign {name!r}: {type(error).__name__}: {error}")
        told.__cause__ = error
    for request in requests:
        request.error, request.done = told, True


class Desk:
    """One thread at a time holds the desk and does the work of all queued requests."""

    def __init__(self, name: str, work: Callable[[Sequence[TurnRequest]], None]) -> None:
        """``work`` does requests of the campaign ``name``, and marks them as done."""
        self.queue: deque[TurnRequest] = deque()
        self._name, self._work = name, work
        self._lock = threading.RLock()

    def leave(self) -> None:
        """Release the desk."""
        self._lock.release()
        self._call_first()

    def __enter__(self) -> Desk:
        """Take the desk for work other than requests; one thread can take it twice."""
        self._lock.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self.leave()

    def perform(self, requests: Sequence[TurnRequest]) -> None:
        """Submit requests together with those of other threads, and wait for them."""
        last, wake = requests[-1], threading.Lock()
        for request in requests:
            request.wake = wake
        wake.acquire()
        self.queue.extend(requests)
        try:
            while not last.done:
                if not self._lock.acquire(blocking=False):
                    wake.acquire()  # until this is done, or first in the queue
                    continue
                try:
                    if not last.done:
                        self._serve(max(MOST_TOGETHER, len(requests)))
                finally:
                    self.leave()
        except BaseException:
            self._withdraw(requests)
            raise

    def _serve(self, most: int) -> None:
        """Do the queued requests in one turn, and wake their threads."""
        batch: list[TurnRequest] = []
        queue = self.queue
        try:
            while queue and len(batch) < most:
                batch.append(queue.popleft())
            self._work(batch)
        except BaseException as error:  # others must not wait for work that nobody does
            fail([one for one in batch if not one.done], error, self._name)
            raise
        finally:
            for wake in {one.wake for one in batch if one.done}:
                call(wake)

    def _withdraw(self, requests: Sequence[TurnRequest]) -> None:
        """Remove requests that a thread no longer waits for."""
        for request in requests:
            with suppress(ValueError):
                self.queue.remove(request)
        self._call_first()

    def _call_first(self) -> None:
        if self.queue:
            with suppress(IndexError):
                call(self.queue[0].wake)


def call(wake: threading.Lock | None) -> None:
    """Wake a waiting thread."""
    try:
        if wake is not None:
            wake.release()
    except RuntimeError:  # it was woken already
        pass
