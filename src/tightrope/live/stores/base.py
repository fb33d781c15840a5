"""What a store of campaigns does: it keeps logs, one turn at a time.

Promises kept here:

P1 *Durable.* What a turn appended is on the disk, or in the database's log, when the turn has ended
   without an error; a turn that ended with one left nothing, or it is not known: then the next turn
   tells.
P9 *Fair turns.* One holder of a campaign's turn at a time; whoever waits is served in order, or
   gets a ``StoreBusyError`` after the deadline. Correctness never depends on the queue: the log's
   primary key (campaign, seq) refuses a second event of a number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from tightrope.errors import HaltedError, StoreError
from tightrope.live.events import Row, new

__all__ = [
    "COLUMNS", "DEADLINE", "FORMAT", "Saved", "Store", "Turn", "as_rows", "require_known_format",
    "require_next",
]  # fmt: skip

DEADLINE = 10.0  # seconds that one waits for a turn
FORMAT = 1  # of the tables; a newer one is not opened
COLUMNS = ", ".join(Row._fields)


class Saved(NamedTuple):
    """A snapshot of a campaign's state."""

    seq: int  # of the last event in it
    hash: bytes  # of that event
    body: bytes


class Turn(ABC):
    """A campaign's turn: a transaction that sees the whole log and that nobody else is in."""

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
        """Remove the events up to this number, which were archived, and snapshots before it."""


class Store(ABC):
    """Keeps campaigns by name. Handles may be used from several threads, and after a fork."""

    url: str
    deadline: float = DEADLINE

    @abstractmethod
    def names(self) -> list[str]:
        """The campaigns that there are."""

    @abstractmethod
    def turn(
        self, name: str, waiting: Callable[[], int] | None = None
    ) -> AbstractContextManager[Turn]:
        """The turn of a campaign, new or not: committed at the end, undone after an exception.

        ``waiting`` may be called while others have it: it follows what is committed already, and
        returns the number of the last event that it knows.
        """

    @abstractmethod
    def read(
        self, name: str, after: int = 0, count: int = 1000, tickets: Sequence[str] | None = None
    ) -> list[Row]:
        """Committed events, outside of any turn; of some tickets only, if these are given."""

    @abstractmethod
    def notes(self, name: str, forget: Sequence[int] = ()) -> dict[int, str]:
        """The notes by number of event, after those to ``forget`` were deleted."""

    @abstractmethod
    def save(self, name: str, saved: Saved) -> None:
        """Keep a snapshot."""

    @abstractmethod
    def saved(self, name: str, upto: int | None = None) -> Saved | None:
        """The last snapshot, or the last one of an event up to this number."""

    def head(self, name: str) -> tuple[int, bytes] | None:
        """Number and hash of a log's last event, as recorded beside the log; None: not recorded.

        The log may have later events, which a version before 0.3 appended.
        """
        return None

    def faults(self) -> list[str]:
        """What the database's own check finds wrong with its files, a few lines at most."""
        return []

    @abstractmethod
    def backup(self, path: str) -> None:
        """Copy everything to a new SQLite file, as of one moment, while others go on."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections; what was committed stays."""


def as_rows(found: Iterable[tuple[Any, ...]]) -> list[Row]:
    """Events as a database gives them."""
    return [new(Row, one) for one in found]


def require_next(rows: Sequence[Row], head: int | None) -> None:
    """Raise unless events follow the last one, which has number ``head``; None: there is none."""
    for number, row in enumerate(
        rows, start=rows[0].seq if head is None and rows else (head or 0) + 1
    ):
        if row.seq != number:
            raise StoreError(f"event {row.seq}: must have number {number}")


def require_known_format(store: str, version: int) -> None:
    """Raise if a newer program made a store's tables."""
    if version > FORMAT:
        raise HaltedError(
            f"store {store!r}: its format is {version}; must be at most {FORMAT}: a newer"
            " program wrote it, so upgrade this one"
        )
