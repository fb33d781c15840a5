"""A client's file for outages of the service: spare tickets and unsent reports.

A SQLite file, synced at every commit, so that it survives ``kill -9`` and power loss. It belongs to
one process at a time and to one service. Promises:

- A report is written to the file before it is sent, and deleted after the service has answered.
- A ticket's id is in the file before it is asked for, so that no reservation is forgotten.
- A spare leaves the file before it is used, so that it is not used twice.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any, NamedTuple

from tightrope.client.answers import Ticket
from tightrope.errors import InputError, StoreError

ERRORS = sqlite3.Error, UnicodeDecodeError  # SQLite quotes damaged text in its errors
LATEST = 1.0  # seconds before a spare expires in which it is not used
TABLES = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS outbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT, campaign TEXT NOT NULL, kind TEXT NOT NULL,
    body TEXT NOT NULL, quiet INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS refused (
    number INTEGER PRIMARY KEY, campaign TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
    why TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS wanted (
    id TEXT PRIMARY KEY, campaign TEXT NOT NULL, asked TEXT NOT NULL, spare INTEGER NOT NULL,
    at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS spares (
    id TEXT PRIMARY KEY, campaign TEXT NOT NULL, ticket TEXT NOT NULL, until REAL NOT NULL);
"""


USABLE = "campaign = ? AND until > ? AND json_extract(ticket, '$.context') IS ?"


def _brief(error: Exception) -> str:
    """An error in one short line."""
    return " ".join(str(error).split())[:200]


def has_spares(context: Any) -> bool:
    """Whether tickets can be reserved in advance: features are not known before the request."""
    return context is None or isinstance(context, str)


class Entry(NamedTuple):
    """A report or a void to be sent."""

    number: int
    campaign: str
    kind: str  # reports or voids
    body: dict[str, Any]
    quiet: bool  # no error is shown if it is refused


class UnansweredDecision(NamedTuple):
    """A request for a decision without an answer so far."""

    id: str
    asked: dict[str, Any]  # the request's body
    spare: bool  # whether to keep it as a spare or to void it
    at: float  # when it was written here; a spare was not decided before


class Spool:
    """The file; its methods are thread-safe. All times are from this machine's clock."""

    def __init__(self, path: str, service: str) -> None:
        self.path, self._pid = path, os.getpid()
        self._lock, self.closed = threading.Lock(), False
        try:
            self._file = sqlite3.connect(
                path, timeout=0.5, isolation_level=None, check_same_thread=False
            )
            self._file.execute("PRAGMA locking_mode = EXCLUSIVE")
            if {
                name
                for (name,) in self._file.execute("SELECT name FROM sqlite_master")
                if not name.startswith("sqlite_")
            } - {"about", "outbox", "refused", "wanted", "spares"}:
                self._file.close()
                raise InputError(f"spool {path!r}: is another program's file; must be a new one")
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute("PRAGMA synchronous = FULL")
            self._file.executescript(f"BEGIN IMMEDIATE; {TABLES} COMMIT;")
        except ERRORS as error:
            busy = "locked" in str(error)
            why = "another client uses it; each needs its own" if busy else _brief(error)
            raise InputError(f"spool {path!r}: cannot be opened: {why}") from error
        self._require_service(service)

    def _require_service(self, service: str) -> None:
        """Raise if the file has reports or tickets of another service."""
        with self._transaction() as file:
            file.execute("INSERT OR IGNORE INTO about VALUES ('service', ?)", [service])
            ((known,),) = file.execute("SELECT value FROM about WHERE name = 'service'")
            if known != service and any(
                file.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()
                for table in ("outbox", "spares", "wanted")
            ):
                what = f"has reports or tickets of {known!r:.200}"
                raise InputError(
                    f"spool {self.path!r}: {what}; send them first, or use another file"
                )
            file.execute("UPDATE about SET value = ? WHERE name = 'service'", [service])

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is on the disk when the block ends."""
        if os.getpid() != self._pid:
            raise InputError(
                f"spool {self.path!r}: belongs to the parent process; open a client after the fork"
            )
        with self._lock:
            try:
                self._file.execute("BEGIN IMMEDIATE")
                yield self._file
                self._file.execute("COMMIT")
            except ERRORS as error:
                raise StoreError(f"spool {self.path!r}: {_brief(error)}") from error
            finally:
                if self._file.in_transaction:
                    self._file.execute("ROLLBACK")

    def _rows(self, query: str, *given: object, kinds: Sequence[type]) -> list[Any]:
        """Rows of these types, where ``dict`` stands for a JSON object; SQLite allows others."""
        with self._transaction() as file:
            rows = file.execute(query, given).fetchall()
        return [self._sound(row, kinds) for row in rows]

    def _sound(self, row: Sequence[Any], kinds: Sequence[type]) -> list[Any]:
        pairs = zip(row, kinds, strict=True)
        try:
            made = [json.loads(one) if kind is dict else one for one, kind in pairs]
        except (ValueError, TypeError, RecursionError):
            made = []
        if [type(one) for one in made] != list(kinds):
            told = ", ".join(f"{one!r:.40}" for one in row)
            raise StoreError(f"spool {self.path!r}: is damaged: it has a row ({told})")
        return made

    # Reports and voids.

    def put(self, campaign: str, kind: str, body: dict[str, Any], waited: set[int]) -> int:
        """Store an entry to send; returns its number.

        The number is added to ``waited`` before another thread can see the entry.
        """
        with self._transaction() as file:
            number = self._put(file, campaign, kind, body, quiet=False)
            waited.add(number)
            return number

    def _put(
        self, file: sqlite3.Connection, campaign: str, kind: str, body: dict[str, Any], quiet: bool
    ) -> int:
        made = file.execute(
            "INSERT INTO outbox (campaign, kind, body, quiet) VALUES (?, ?, ?, ?)",
            [campaign, kind, json.dumps(body), quiet],
        )
        return int(made.lastrowid or 0)

    def next_entries(self, most: int) -> list[Entry]:
        """The first waiting entries, all of one campaign and kind."""
        kinds = int, str, str, dict, int
        rows = self._rows("SELECT * FROM outbox ORDER BY number LIMIT ?", most, kinds=kinds)
        found = [Entry(n, name, kind, body, bool(q)) for n, name, kind, body, q in rows]
        return list(takewhile(lambda one: one[1:3] == found[0][1:3], found))

    def waiting(self) -> int:
        """The number of reports and voids to be sent."""
        return int(self._rows("SELECT count(*) FROM outbox", kinds=[int])[0][0])

    def settle(self, entries: Sequence[Entry], refused: Sequence[tuple[Entry, str]] = ()) -> None:
        """Delete answered entries; store those that the service refused and did not keep."""
        with self._transaction() as file:
            file.executemany("DELETE FROM outbox WHERE number = ?", [[one[0]] for one in entries])
            file.executemany(
                "INSERT OR REPLACE INTO refused VALUES (?, ?, ?, ?, ?)",
                [[*one[:3], json.dumps(one.body), why] for one, why in refused],
            )

    def refused(self) -> list[dict[str, Any]]:
        """Reports that were refused when sent and are not in the service's quarantine."""
        kinds = {"number": int, "campaign": str, "kind": str, "body": dict, "why": str}
        rows = self._rows("SELECT * FROM refused ORDER BY number", kinds=[*kinds.values()])
        return [dict(zip(kinds, row, strict=True)) for row in rows]

    # Spare tickets.

    def want(self, campaign: str, bodies: Sequence[dict[str, Any]], *, spare: bool) -> None:
        """Store requests for decisions before they are sent, or if no answer came."""
        with self._transaction() as file:
            file.executemany(
                "INSERT OR REPLACE INTO wanted VALUES (?, ?, ?, ?, ?)",
                [[one["id"], campaign, json.dumps(one), spare, time.time()] for one in bodies],
            )

    def wanted(self, campaign: str) -> list[UnansweredDecision]:
        """The unanswered requests of a campaign, oldest first."""
        query = "SELECT id, asked, spare, at FROM wanted WHERE campaign = ? ORDER BY id"
        rows = self._rows(query, campaign, kinds=(str, dict, int, float))
        return [UnansweredDecision(n, body, bool(s), at) for n, body, s, at in rows]

    def answered(
        self,
        campaign: str,
        kept: Sequence[tuple[Ticket, float]],
        voided: Sequence[str],
        refused: Sequence[str],
    ) -> None:
        """Record the answers: spares with their expiry, tickets to void, and refusals."""
        with self._transaction() as file:
            gone = [*(ticket.id for ticket, _ in kept), *voided, *refused]
            file.executemany("DELETE FROM wanted WHERE id = ?", [[name] for name in gone])
            file.executemany(
                "INSERT OR REPLACE INTO spares VALUES (?, ?, ?, ?)",
                [[one.id, campaign, json.dumps(one.table()), until] for one, until in kept],
            )
            for name in voided:
                self._put(file, campaign, "voids", {"id": name}, quiet=True)

    def ready(self, campaign: str, context: str | None = None) -> int:
        """The number of usable spares of a type."""
        query = f"SELECT count(*) FROM spares WHERE {USABLE}"
        return int(self._rows(query, campaign, time.time() + LATEST, context, kinds=[int])[0][0])

    def take(self, campaign: str, context: str | None = None) -> Ticket | None:
        """Take the spare of a type that expires first; None if there is none."""
        with self._transaction() as file:
            row = file.execute(
                f"SELECT id, ticket FROM spares WHERE {USABLE} ORDER BY until, id LIMIT 1",
                [campaign, time.time() + LATEST, context],
            ).fetchone()
            if row is None:
                return None
            file.execute("DELETE FROM spares WHERE id = ?", [row[0]])
        (_, table) = self._sound(row, (str, dict))
        try:
            return Ticket.of_table(table, spare=True)
        except (ValueError, TypeError, LookupError):
            what = f"is damaged: it has the ticket {row[1]:.200}"
            raise StoreError(f"spool {self.path!r}: {what}") from None

    def give_back(self, before: float) -> None:
        """Void spares that expire before this time; delete those that have expired."""
        with self._transaction() as file:
            file.execute("DELETE FROM spares WHERE until <= ?", [time.time()])
            rows = file.execute(
                "SELECT id, campaign FROM spares WHERE until < ?", [before]
            ).fetchall()
            for name, of in (self._sound(row, (str, str)) for row in rows):
                file.execute("DELETE FROM spares WHERE id = ?", [name])
                self._put(file, of, "voids", {"id": name}, quiet=True)

    def campaigns(self) -> list[str]:
        """The campaigns with unanswered requests for decisions."""
        rows = self._rows("SELECT DISTINCT campaign FROM wanted", kinds=[str])
        return [name for (name,) in rows]

    def close(self) -> None:
        """Close the file; its content stays."""
        with self._lock:
            self._file.close()
            self.closed = True
