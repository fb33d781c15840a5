"""The interface of stores, which keep the logs of campaigns, one turn at a time.

Promises kept here:

P1 *Durable.* A turn that ends without an error has written its events to the disk or the database's
   log. A turn that ends with an error has written nothing, or its outcome is unknown; the next turn
   finds out.
P9 *Fair turns.* A campaign's turn has one holder at a time. Waiting processes are served in order;
   one that waits past the deadline raises ``StoreBusyError``. Correctness never depends on the
   queue: the log's primary key (campaign, seq) rejects a second event with the same number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from tightrope.errors import HaltedError, InputError, StoreError
from tightrope.live.events import Row, new

DEADLINE = 10.0  # seconds to wait for a turn
FORMAT = 1  # of the tables; a newer one is not opened
COLUMNS = ", ".join(Row._fields)
EVENT = {  # the types of an event's columns
    (int, int, str, ticket, str, int, str, bytes) for ticket in (str, type(None))
}


class Saved(NamedTuple):
    """A snapshot of a campaign's state."""

    seq: int  # of the last event in it
    hash: bytes  # of that event
    body: bytes


class Turn(ABC):
    """A campaign's turn: an exclusive transaction that sees the whole log."""

    @abstractmethod
    def now(self) -> int:
        """The store's clock, in microseconds since 1970."""

    @abstractmethod
    def read(self, after: int, count: int = 1000) -> list[Row]:
        """The first ``count`` events with a number above ``after``, in order."""

    @abstractmethod
    def find(self, tickets: Sequence[str]) -> list[Row]:
        """All events of these tickets, in order."""

    @abstractmethod
    def append(self, rows: Sequence[Row], notes: Mapping[int, str]) -> None:
        """Add events, and notes to some of them by number."""

    @abstractmethod
    def drop(self, upto: int) -> None:
        """Remove the archived events up to this number, and the snapshots before it."""

    def keep(self, vectors: Mapping[int, str]) -> None:
        """Keep features outside of the log, by the number of their event; none makes room."""
        raise InputError("contexts: this store cannot keep erasable features")

    def erase(self, upto: int, but: Sequence[int], before: int) -> int:
        """Erase features of events up to a number, ``but`` some; returns how many there were.

        Snapshots of events ``before`` a number are deleted: they have features too.
        """
        return 0


class Store(ABC):
    """Keeps campaigns by name. Handles are thread-safe and work after a fork."""

    url: str
    deadline: float = DEADLINE

    @abstractmethod
    def names(self) -> list[str]:
        """The names of the campaigns."""

    @abstractmethod
    def turn(
        self, name: str, waiting: Callable[[], int] | None = None
    ) -> AbstractContextManager[Turn]:
        """The turn of a campaign, new or not: committed at the end, rolled back after an exception.

        ``waiting`` may be called while others hold the turn. It reads the committed events and
        returns the number of the last one.
        """

    @abstractmethod
    def read(
        self, name: str, after: int = 0, count: int = 1000, tickets: Sequence[str] | None = None
    ) -> list[Row]:
        """Committed events, outside of any turn; only those of ``tickets``, if given."""

    @abstractmethod
    def notes(self, name: str, forget: Sequence[int] = ()) -> dict[int, str]:
        """The notes by number of event, after deleting those to ``forget``."""

    def vectors(self, name: str, first: int, last: int) -> dict[int, str]:
        """The features of the events from ``first`` to ``last`` that are kept outside the log."""
        return {}

    @abstractmethod
    def save(self, name: str, saved: Saved) -> None:
        """Keep a snapshot."""

    @abstractmethod
    def saved(self, name: str, upto: int | None = None) -> Saved | None:
        """The last snapshot, or the last one of an event up to this number."""

    def head(self, name: str) -> tuple[int, bytes] | None:
        """Number and hash of a log's last event, as recorded separately; None if not recorded.

        The log may have later events, appended by a version before 0.3.
        """
        return None

    def faults(self) -> list[str]:
        """The faults that the database's own check finds, a few lines at most."""
        return []

    @abstractmethod
    def backup(self, path: str) -> None:
        """Copy a consistent state to a new SQLite file, while others go on."""

    @abstractmethod
    def close(self) -> None:
        """Close files and connections."""


def as_rows(found: Iterable[tuple[Any, ...]]) -> list[Row]:
    """Events from rows of a database."""
    return [new(Row, one) for one in found]


def sound(found: Iterable[Any], store: str, table: str, *kinds: type) -> list[Any]:
    """Rows of a SQLite table; raises if a value has another type, which SQLite allows."""
    rows = list(found)
    for row in rows:
        if tuple(map(type, row)) != kinds:
            told = ", ".join(f"{value!r:.40}" for value in row)
            raise StoreError(f"store {store!r}: is damaged: the table {table} has a row ({told})")
    return rows


def sound_rows(found: Iterable[Any], after: int | None = None) -> list[Row]:
    """Events from rows of a SQLite table; raises if a type is wrong, or their order.

    ``after``: the number before the first event, if they are to be in order.
    """
    rows = as_rows(found)
    for row in rows:
        if tuple(map(type, row)) not in EVENT:
            raise HaltedError(f"event {row.seq!r:.40}: has a value of a wrong type")
        if after is not None:
            if row.seq <= after:
                raise HaltedError(f"event {row.seq}: follows {after}; the order is wrong")
            after = row.seq
    return rows


def require_next(rows: Sequence[Row], head: int | None) -> None:
    """Raise unless events follow the last one, number ``head``; None if there is none."""
    for number, row in enumerate(
        rows, start=rows[0].seq if head is None and rows else (head or 0) + 1
    ):
        if row.seq != number:
            raise StoreError(f"event {row.seq}: must have number {number}")


def require_known_format(store: str, version: int) -> None:
    """Raise if a newer program created a store's tables."""
    if version > FORMAT:
        raise HaltedError(
            f"store {store!r}: its format is {version}; must be at most {FORMAT}: a newer"
            " program wrote it, so upgrade this one"
        )
