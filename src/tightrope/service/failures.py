"""Failures in the log: answers of 500 and above, and outages of the store."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from traceback import extract_tb
from types import TracebackType
from typing import Any, TypeVar

from tightrope.errors import StoreError, TightropeError
from tightrope.live.events import Row
from tightrope.live.stores import Store
from tightrope.live.stores.base import Turn
from tightrope.names import one_line

AGAIN = 1.0  # seconds in which failures with the same cause are counted for one line
SETTLED = 1.0  # seconds without a failure until an outage is over
Log = Callable[..., None]
Value = TypeVar("Value")


class FailureLog:
    """Logs every answer of 500 and above. Call its methods in the event loop.

    The first failure is logged at once. Further failures with the same cause are logged together
    after a second, with their number as ``times``.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._more: dict[tuple[str, int, str], tuple[str, int]] = {}  # path, further failures

    def __call__(self, method: str, path: str, status: int, error: BaseException | None) -> None:
        """Record an answer; a query in ``path`` is left out."""
        key, path = (method, status, cause_of(error)), path.partition("?")[0][:200]
        if key in self._more:
            self._more[key] = path, self._more[key][1] + 1
            return
        self._line(key, path)
        with suppress(RuntimeError):  # no loop runs: each is logged at once
            asyncio.get_running_loop().call_later(AGAIN, self._tell, key)
            self._more[key] = path, 0

    def _line(self, key: tuple[str, int, str], path: str, times: int | None = None) -> None:
        method, status, cause = key
        facts = {"method": method or None, "path": path or None, "status": status}
        self._log("a request failed", **facts, error=cause, times=times)

    def _tell(self, key: tuple[str, int, str]) -> None:
        path, times = self._more.pop(key, ("", 0))
        if times:
            self._line(key, path, times)

    def flush(self) -> None:
        """Log the failures that were counted and not logged yet."""
        for key in list(self._more):
            self._tell(key)


def cause_of(error: BaseException | None) -> str:
    """An error as one line; an unexpected one with the place where it was raised."""
    if error is None or isinstance(error, TightropeError):
        return one_line(error or "its cause is not known")
    place = "".join(f" at {one.name}:{one.lineno}" for one in extract_tb(error.__traceback__)[-1:])
    return one_line(repr(error)) + place


class Outage:
    """Logs a line when the store stops working, and one when it works again.

    A commit ends every outage; a read ends one in which only reads have failed. The methods are
    thread-safe.
    """

    def __init__(self, log: Log) -> None:
        self._log, self._mutex = log, threading.Lock()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.failing: frozenset[str] = frozenset()
        self._began: float | None = None
        self._ended = 0.0
        self._refused = 0

    def failed(self, kind: str, error: BaseException) -> None:
        """Record that a ``read`` or a ``turn`` has failed."""
        with self._mutex:
            self.failing |= {kind}
            if self._began is not None:
                return
            self._began, self._refused = time.monotonic(), 0
        self._log("the store does not answer", error=one_line(error))

    def worked(self, kind: str) -> None:
        """Record a success; called only during an outage."""
        with self._mutex:
            left = self.failing - {kind} if kind == "read" else frozenset[str]()
            if not self.failing or left:
                self.failing = left
                return
            self.failing, self._ended = left, time.monotonic()
        try:
            assert self.loop is not None
            self.loop.call_soon_threadsafe(self.loop.call_later, SETTLED, self.tell)
        except (AssertionError, RuntimeError):  # no loop runs: it is logged at once
            self.tell()

    def refused(self) -> None:
        """Count a request that was refused because of the store."""
        self._refused += 1

    def tell(self) -> None:
        """Log the end of an outage, unless it continues."""
        with self._mutex:
            if self._began is None or self.failing:
                return
            seconds, self._began = self._ended - self._began, None
        self._log("the store answers again", seconds=round(seconds, 3), refused=self._refused)


def _noted_as(kind: str, method: str) -> Any:
    """A method of a store whose failure or success counts as that of a ``kind``."""

    def noted(self: WatchedStore, *given: Any, **named: Any) -> Any:
        return self._noted(kind, partial(getattr(self.inner, method), *given, **named))

    return noted


class WatchedStore(Store):
    """A store that reports its failures and successes to an :class:`Outage`."""

    def __init__(self, store: Store, outage: Outage) -> None:
        self.inner, self.url, self.deadline = store, store.url, store.deadline
        self._outage, self._closed = outage, False

    def _noted(self, kind: str, function: Callable[..., Value], *arguments: Any) -> Value:
        try:
            found = function(*arguments)
        except BaseException as error:
            self.note(kind, error)
            raise
        self.note(kind, None)
        return found

    def note(self, kind: str, error: BaseException | None) -> None:
        """Record a failure or a success; errors that are not the store's do not count."""
        if error is None:
            if self._outage.failing:
                self._outage.worked(kind)
        elif isinstance(error, StoreError) and not self._closed:
            self._outage.failed(kind, error)

    names: Any = _noted_as("read", "names")
    notes: Any = _noted_as("read", "notes")
    vectors: Any = _noted_as("read", "vectors")
    save: Any = _noted_as("turn", "save")
    saved: Any = _noted_as("read", "saved")
    head: Any = _noted_as("read", "head")
    faults: Any = _noted_as("read", "faults")

    def read(
        self, name: str, after: int = 0, count: int = 1000, tickets: Sequence[str] | None = None
    ) -> list[Row]:
        if count <= 0:
            return []  # a negative count means all rows to a database
        return self._noted("read", self.inner.read, name, after, count, tickets)

    def turn(
        self, name: str, waiting: Callable[[], int] | None = None
    ) -> AbstractContextManager[Turn]:
        return WatchedTurn(self, self.inner.turn(name, waiting))

    def backup(self, path: str) -> None:
        self.inner.backup(path)

    def close(self) -> None:
        self._closed = True
        self.inner.close()


class WatchedTurn(AbstractContextManager[Turn]):
    """A turn that reports its failure or success to an outage."""

    def __init__(self, store: WatchedStore, turn: AbstractContextManager[Turn]) -> None:
        self._store, self._turn = store, turn

    def __enter__(self) -> Turn:
        try:
            return self._turn.__enter__()
        except BaseException as failure:
            self._store.note("turn", failure)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        try:
            swallowed = self._turn.__exit__(kind, error, trace)
        except BaseException as failure:
            self._store.note("turn", failure)
            raise
        self._store.note("turn", error)
        return swallowed
