"""Campaigns in memory, for tests and studies; they end with the process."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from tightrope.errors import StoreBusyError
from tightrope.live.events import Row
from tightrope.live.stores.base import Saved, Store, Turn, require_next


def wall_clock() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


class MemoryLog:
    """One campaign's log."""

    def __init__(self) -> None:
        self.rows: list[Row] = []  # event seq is at seq - first
        self.first = 1
        self.by_ticket: dict[str, list[int]] = defaultdict(list)
        self.notes: dict[int, str] = {}
        self.saved: list[Saved] = []
        self.vectors: dict[int, str] = {}  # by event
        self.lock = threading.Lock()


class MemoryTurn(Turn):
    """A turn that holds its events back until it ends."""

    def __init__(self, store: MemoryStore, name: str) -> None:
        self._store, self._name, self._log = store, name, store._logs[name]
        self.rows: list[Row] = []
        self.notes: dict[int, str] = {}
        self.vectors: dict[int, str] = {}
        self.dropped = 0
        self.erased = (0, set[int](), 0)

    def now(self) -> int:
        return self._store.clock()

    def read(self, after: int, count: int = 1000) -> list[Row]:
        start = max(after + 1 - self._log.first, 0)
        return self._log.rows[start : start + count]

    def find(self, tickets: Sequence[str]) -> list[Row]:
        log = self._log
        found = {seq for one in tickets for seq in log.by_ticket.get(one, ()) if seq >= log.first}
        return [log.rows[seq - log.first] for seq in sorted(found)]

    def append(self, rows: Sequence[Row], notes: Mapping[int, str]) -> None:
        if rows and not self._log.rows and not self.rows:
            self._log.first = rows[0].seq  # a copy of a log whose first events are archived
        head = self._log.first + len(self._log.rows) + len(self.rows) - 1
        require_next(rows, head)
        self.rows.extend(rows)
        self.notes.update(notes)

    def drop(self, upto: int) -> None:
        self.dropped = upto

    def keep(self, vectors: Mapping[int, str]) -> None:
        self.vectors.update(vectors)

    def erase(self, upto: int, but: Sequence[int], before: int) -> int:
        self.erased = upto, set(but), before
        return sum(seq <= upto and seq not in self.erased[1] for seq in self._log.vectors)

    def __enter__(self) -> MemoryTurn:
        if not self._log.lock.acquire(timeout=self._store.deadline):
            deadline = self._store.deadline
            raise StoreBusyError(f"campaign {self._name!r}: no turn within {deadline:g} s")
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        if kind is None:
            self._commit()
        self._log.lock.release()

    def _commit(self) -> None:
        """Add the held events to the log."""
        log = self._log
        log.rows.extend(self.rows)
        log.notes.update(self.notes)
        for row in self.rows:
            if row.ticket is not None:
                log.by_ticket[row.ticket].append(row.seq)
        if self.dropped >= log.first:
            del log.rows[: self.dropped + 1 - log.first]
            log.saved = [one for one in log.saved if one.seq >= self.dropped]
            log.first = self.dropped + 1
        log.vectors.update(self.vectors)
        upto, but, before = self.erased
        if upto:
            left = log.vectors.items()
            log.vectors = {seq: one for seq, one in left if seq > upto or seq in but}
            log.saved = [one for one in log.saved if one.seq >= before]


class MemoryStore(Store):
    """Campaigns in memory."""

    def __init__(self, clock: Callable[[], int] = wall_clock) -> None:
        self.url, self.clock = "memory:", clock
        self._logs: dict[str, MemoryLog] = defaultdict(MemoryLog)

    def names(self) -> list[str]:
        return [name for name, log in self._logs.items() if log.rows]

    def turn(self, name: str, waiting: Callable[[], int] | None = None) -> MemoryTurn:
        return MemoryTurn(self, name)

    def read(
        self, name: str, after: int = 0, count: int = 1000, tickets: Sequence[str] | None = None
    ) -> list[Row]:
        turn = MemoryTurn(self, name)
        return turn.read(after, count) if tickets is None else turn.find(tickets)

    def notes(self, name: str, forget: Sequence[int] = ()) -> dict[int, str]:
        notes = self._logs[name].notes
        for seq in forget:
            notes.pop(seq, None)
        return dict(notes)

    def vectors(self, name: str, first: int, last: int) -> dict[int, str]:
        found = self._logs[name].vectors
        wanted = found if last - first > len(found) else range(first, last + 1)
        return {seq: found[seq] for seq in wanted if seq in found and first <= seq <= last}

    def save(self, name: str, saved: Saved) -> None:
        log = self._logs[name]
        log.saved = sorted([*(one for one in log.saved if one.seq != saved.seq), saved])

    def saved(self, name: str, upto: int | None = None) -> Saved | None:
        found = self._logs[name].saved
        fits = [one for one in found if upto is None or one.seq <= upto]
        return fits[-1] if fits else None

    def backup(self, path: str) -> None:
        from tightrope.live.stores.copies import copy_into_file

        copy_into_file(self, path)

    def close(self) -> None:
        """Do nothing."""
