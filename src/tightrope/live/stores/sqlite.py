"""Campaigns in one SQLite file, for any number of processes on one machine.

Every process queues with two kernel locks beside the file before it begins a transaction. A process
waits for the second lock while it holds the first, so that the last holder cannot overtake it.
Without them SQLite retries blindly and a busy process starves the others. Checkpoints and the last
close happen in a turn too. The database uses a write-ahead log (WAL) and syncs at every commit.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

from tightrope.errors import InputError, StoreBusyError, StoreError
from tightrope.files import require_file
from tightrope.live.events import Row
from tightrope.live.stores.base import (
    COLUMNS,
    FORMAT,
    Saved,
    Store,
    Turn,
    require_known_format,
    require_next,
    sound,
    sound_rows,
)
from tightrope.live.stores.copies import copy_file
from tightrope.live.stores.locks import BESIDE, Locks, identity
from tightrope.live.stores.memory import wall_clock
from tightrope.live.stores.statements import MORE_SQLITE_TABLES, SQLITE_TABLES

APPLICATION = 0x74727065  # "trpe", SQLite's application_id of our files
CHECKPOINT, ROW = 4000, 12_000  # rows until the log is moved into the file; bytes of each, about
MOST_NUMBER = 2**63 - 1  # of SQLite
MOST_FAULTS = 5  # faults of a damaged file to show, at most
LONGEST_VALUE = 2**28  # bytes; no event and no snapshot is as long
ERRORS = sqlite3.Error, UnicodeDecodeError  # SQLite quotes damaged text in its errors
_kept: list[Any] = []  # connections of a parent process: closing them could break its transactions
_stores: weakref.WeakSet[SQLiteStore] = weakref.WeakSet()
_forking = threading.Lock()


def _before_fork() -> None:
    _forking.acquire()
    for store in list(_stores):
        store.suspend()


def _after_fork(child: bool) -> None:
    for store in list(_stores):
        store.go_on(child)
    _forking.release()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=lambda: _after_fork(child=False),
    after_in_child=lambda: _after_fork(child=True),
)


class SQLiteLog:
    """A campaign's log, as a connection sees it."""

    def __init__(self, connection: sqlite3.Connection, campaign: int | None) -> None:
        self._connection, self._campaign = connection, campaign

    def read(self, after: int, count: int = 1000) -> list[Row]:
        found = self._connection.execute(
            f"SELECT {COLUMNS} FROM events WHERE campaign = ? AND seq > ? ORDER BY seq LIMIT ?",
            (self._campaign, min(after, MOST_NUMBER), count),
        )
        return sound_rows(found, after)

    def find(self, tickets: Sequence[str]) -> list[Row]:
        rows: list[Row] = []
        wanted = list(dict.fromkeys(tickets))
        for start in range(0, len(wanted), 500):
            some = wanted[start : start + 500]
            found = self._connection.execute(  # or SQLite would look through the whole log
                f"SELECT {COLUMNS} FROM events INDEXED BY events_of_tickets"
                f" WHERE campaign = ? AND ticket IN ({', '.join('?' * len(some))})",
                (self._campaign, *some),
            )
            rows += sound_rows(found)
        return sorted(rows)


class SQLiteTurn(SQLiteLog, Turn):
    """A turn: a transaction of SQLite."""

    def __init__(
        self, store: SQLiteStore, name: str, waiting: Callable[[], object] | None = None
    ) -> None:
        self._store, self._name, self._waiting = store, name, waiting

    def __enter__(self) -> SQLiteTurn:
        self._connection, self._campaign = self._store.begin(self._name, self._waiting)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._store.end(error)

    def now(self) -> int:
        return int(self._store.clock())

    def append(self, rows: Sequence[Row], notes: Mapping[int, str]) -> None:
        execute, campaign = self._connection.execute, self._campaign
        if rows:
            first, last = rows[0].seq, rows[-1]
            moved = execute(
                "UPDATE heads SET seq = ?, hash = ? WHERE campaign = ? AND seq = ?",
                (last.seq, last.hash, campaign, first - 1),
            )
            head = first - 1
            if not moved.rowcount:  # a new log, or one that version 0.2 has written to
                find = "SELECT max(seq) FROM events WHERE campaign = ?"
                (head,) = execute(find, (campaign,)).fetchone()
                added = campaign, last.seq, last.hash
                execute("INSERT OR REPLACE INTO heads VALUES (?, ?, ?)", added)
            require_next(rows, head)
            self._connection.executemany(
                f"INSERT INTO events VALUES ({campaign:d}, ?, ?, ?, ?, ?, ?, ?, ?)", rows
            )
            self._store._since += len(rows)
        if notes:
            self.write("INSERT INTO notes VALUES (?, ?, ?)", notes.items())

    def write(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Execute a statement for each row, preceded by the campaign's number."""
        self._connection.executemany(statement, [(self._campaign, *row) for row in rows])

    def keep(self, vectors: Mapping[int, str]) -> None:
        self.write("INSERT INTO vectors VALUES (?, ?, ?)", vectors.items())

    def erase(self, upto: int, but: Sequence[int], before: int) -> int:
        execute, campaign = self._connection.execute, self._campaign
        execute("PRAGMA secure_delete = ON")  # overwrite what is deleted
        gone = execute(
            "DELETE FROM vectors WHERE campaign = ? AND seq <= ?"
            " AND seq NOT IN (SELECT value FROM json_each(?))",
            (campaign, upto, json.dumps(list(but))),
        )
        execute("DELETE FROM snapshots WHERE campaign = ? AND seq < ?", (campaign, before))
        self._store._since = CHECKPOINT  # the write-ahead log has them too
        return gone.rowcount

    def drop(self, upto: int) -> None:
        for table, which in (("events", "<="), ("snapshots", "<"), ("heads", "<=")):
            self._connection.execute(
                f"DELETE FROM {table} WHERE campaign = ? AND seq {which} ?", (self._campaign, upto)
            )


class SQLiteStore(Store):
    """Campaigns in a SQLite file."""

    def __init__(
        self, path: str, *, create: bool = True, clock: Callable[[], int] = wall_clock
    ) -> None:
        self.url = self._path = os.path.realpath(path)  # SQLite's log is beside the real file
        self.clock, self._create = clock, create
        self._mutex, self._reading = threading.Lock(), threading.Lock()
        self._suspended: list[threading.Lock] = []
        self._closed = False
        self._locks: Any = None
        self._writer: Any = None  # connections; None after a fork, until they are needed
        self._reader: Any = None
        self._open()
        _stores.add(self)

    def _open(self) -> None:
        path, exists = self._path, os.path.exists(self._path)
        if not exists and not self._create:
            raise InputError(f"store {path!r}: there is no such file")
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            raise InputError(f"store {path!r}: the folder {folder!r} must exist")
        if exists:
            require_file(path, "store")
        new = [path + end for end in BESIDE if not os.path.exists(path + end)]
        try:
            self._open_in_turn(path)
        except BaseException as error:
            self._hang_up()
            if self._locks is not None:
                self._locks.close()
            for one in new if isinstance(error, InputError) else ():
                with suppress(OSError):  # another program's file: leave nothing beside it
                    os.remove(one)
            raise
        self._ids = dict[str, int]()
        log = os.path.getsize(f"{path}-wal") if self._log else 0
        self._since = log // ROW  # since the last checkpoint, also by killed processes

    def _open_in_turn(self, path: str) -> None:
        try:
            self._locks = Locks(path)
            if not self._locks.acquire(self.deadline):
                raise self._busy()
            try:
                self._writer, self._reader = self._connect(), self._connect()
                self._prepare()
                self._file, self._log = identity(path), identity(f"{path}-wal")
            finally:
                self._locks.release()
        except (*ERRORS, OSError) as error:
            raise self._failed("opened", error) from error

    def _require_own_files(self) -> None:
        """Raise if the file or its WAL was deleted or replaced: writes would be lost."""
        for path, mine in ((self._path, self._file), (f"{self._path}-wal", self._log)):
            found = identity(path)
            if found != mine:
                what = "the file is gone" if found is None else "another file is in its place"
                if path != self._path:
                    what = f"its log {path!r} was deleted or replaced while it was open"
                raise StoreError(f"store {self._path!r}: {what}; open it again")

    def _connect_again(self) -> sqlite3.Connection:
        if self._closed:
            raise sqlite3.ProgrammingError("it was closed")
        if not os.path.exists(self._path):
            raise sqlite3.OperationalError("the file is gone")
        made = self._connect()
        if self._writer is None and self._reader is None:  # the WAL may be a new one
            made.execute("SELECT count(*) FROM campaigns").fetchone()
            self._log = identity(f"{self._path}-wal")
        return made

    def _connect(self) -> sqlite3.Connection:
        made = sqlite3.connect(
            self._path, timeout=self.deadline, isolation_level=None, check_same_thread=False
        )
        made.execute("PRAGMA synchronous = FULL")
        made.execute("PRAGMA wal_autocheckpoint = 0")
        made.execute("PRAGMA trusted_schema = OFF")
        made.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        return made

    def _prepare(self) -> None:
        """Create the tables of a new file; refuse other programs' files."""
        one = self._writer
        facts = ("application_id", "user_version")
        mine, version = (one.execute(f"PRAGMA {fact}").fetchone()[0] for fact in facts)
        tables = [kind for (kind,) in one.execute("SELECT type FROM sqlite_master")]
        if tables and mine != APPLICATION:
            raise InputError(f"store {self._path!r}: must be a file of campaigns, or a new one")
        if not {"trigger", "view"}.isdisjoint(tables):  # which would run with every statement
            raise InputError(f"store {self._path!r}: has triggers or views; must have none")
        require_known_format(self._path, version)
        if not tables:
            one.execute("PRAGMA journal_mode = WAL")
            one.executescript(
                f"BEGIN IMMEDIATE; {SQLITE_TABLES} PRAGMA application_id = {APPLICATION};"
                f" PRAGMA user_version = {FORMAT}; COMMIT;"
            )
        one.executescript(MORE_SQLITE_TABLES)

    def _failed(self, what: str, error: Exception) -> StoreError:
        told = " ".join((getattr(error, "strerror", None) or str(error)).split())[:200]
        if isinstance(error, sqlite3.DatabaseError) and "not a database" in told:
            raise InputError(
                f"store {self._path!r}: must be a file of campaigns, or a new one"
            ) from error
        kind = StoreError
        if isinstance(error, sqlite3.OperationalError) and "locked" in told:
            kind = StoreBusyError
        return kind(f"store {self._path!r}: cannot be {what} ({told})")

    def suspend(self) -> None:
        """Close connections before a fork, because SQLite counts its locks in memory.

        In the child, the copied counts would be wrong: it would not lock, and the WAL could be
        deleted while in use.
        """
        wanted = (self._mutex, self._reading)
        self._suspended = [one for one in wanted if one.acquire(timeout=self.deadline)]
        if len(self._suspended) == len(wanted):
            self._hang_up()

    def go_on(self, child: bool) -> None:
        """Reopen the store after a fork; a child has its own locks."""
        if child:
            if self._writer is not None or self._reader is not None:
                _kept.append((self._writer, self._reader))
            self._writer = self._reader = None
            self._mutex, self._reading = threading.Lock(), threading.Lock()
            if not self._closed:
                self._locks.close_forked()
                with suppress(OSError):
                    self._locks = Locks(self._path)
        else:
            for one in self._suspended:
                one.release()
        self._suspended = []

    def _hang_up(self) -> None:
        for connection in (self._reader, self._writer):
            if connection is not None:
                with suppress(sqlite3.Error):
                    connection.close()
        self._writer = self._reader = None

    def names(self) -> list[str]:
        with self._reads() as connection:
            found = connection.execute(
                "SELECT name FROM campaigns WHERE EXISTS"
                " (SELECT 1 FROM events WHERE campaign = id) ORDER BY id"
            ).fetchall()
        return [name for (name,) in sound(found, self._path, "campaigns", str)]

    @contextmanager
    def _reads(self) -> Iterator[sqlite3.Connection]:
        with self._reading:
            try:
                if self._reader is None:
                    self._reader = self._connect_again()
                yield self._reader
                self._require_own_files()
            except ERRORS as error:
                raise self._failed("read", error) from error

    def begin(
        self, name: str, waiting: Callable[[], object] | None
    ) -> tuple[sqlite3.Connection, int]:
        """Begin a transaction in this store's turn, to be closed by ``end``; adds the campaign."""
        if self._closed:
            raise StoreError(f"store {self._path!r}: was closed")
        until = time.monotonic() + self.deadline
        if not self._mutex.acquire(timeout=self.deadline):
            raise self._busy()
        try:
            if not self._locks.acquire(max(until - time.monotonic(), 0.0), waiting):
                raise self._busy()
        except BaseException:
            self._mutex.release()
            raise
        try:
            if self._writer is None:
                self._writer = self._connect_again()
            self._writer.execute("BEGIN IMMEDIATE")
            return self._writer, self._number(name)
        except BaseException as error:
            self.end(error)
            raise

    def end(self, error: BaseException | None = None) -> None:
        """Commit a transaction, or roll it back and raise the ``error``; then release the turn."""
        try:
            if error is not None:
                raise error
            self._writer.execute("COMMIT")
            self._require_own_files()  # after the commit, before any answer
            if self._since >= CHECKPOINT:
                self._checkpoint("PASSIVE")
        except BaseException as failed:
            self._undo()
            if isinstance(failed, ERRORS):
                raise self._failed("written", failed) from failed
            raise
        finally:
            self._locks.release()
            self._mutex.release()

    def _busy(self) -> StoreBusyError:
        return StoreBusyError(f"store {self._path!r}: no turn within {self.deadline:g} s")

    def _undo(self) -> None:
        """End a failed transaction; a connection that cannot do that is replaced."""
        self._ids.clear()  # the creation of a campaign may be rolled back too
        try:
            if self._writer is not None and self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        except sqlite3.Error:
            with suppress(sqlite3.Error):
                self._writer.close()
            self._writer = None

    def _checkpoint(self, how: str) -> None:
        self._since = 0
        with suppress(sqlite3.Error):  # a full disk: the WAL stays as it is
            self._writer.execute(f"PRAGMA wal_checkpoint({how})")

    def turn(self, name: str, waiting: Callable[[], int] | None = None) -> SQLiteTurn:
        return SQLiteTurn(self, name, waiting)

    def _number(self, name: str) -> int:
        """The number of a campaign, new or not."""
        found = self._ids.get(name)
        if found is None:
            found = self._known_number(self._writer, name)
            if found is None:
                made = self._writer.execute("INSERT INTO campaigns (name) VALUES (?)", (name,))
                found = int(made.lastrowid or 0)
            self._ids[name] = found
        return found

    def _known_number(self, connection: sqlite3.Connection, name: str) -> int | None:
        row = connection.execute("SELECT id FROM campaigns WHERE name = ?", (name,)).fetchone()
        if row is not None and not isinstance(row[0], int):
            raise sqlite3.DatabaseError("database disk image is malformed")  # damaged unnoticed
        return None if row is None else int(row[0])

    def read(
        self, name: str, after: int = 0, count: int = 1000, tickets: Sequence[str] | None = None
    ) -> list[Row]:
        with self._reads() as connection:
            number = self._known_number(connection, name)
            if number is None:
                return []
            log = SQLiteLog(connection, number)
            return log.read(after, count) if tickets is None else log.find(tickets)

    def notes(self, name: str, forget: Sequence[int] = ()) -> dict[int, str]:
        if forget:
            with self.turn(name) as turn:
                wanted = "DELETE FROM notes WHERE campaign = ? AND seq = ?"
                turn.write(wanted, [(seq,) for seq in forget])
        with self._reads() as connection:
            number_now = self._known_number(connection, name)
            found = connection.execute(
                "SELECT seq, text FROM notes WHERE campaign = ? ORDER BY seq", (number_now,)
            )
            return dict(sound(found, self._path, "notes", int, str))

    def vectors(self, name: str, first: int, last: int) -> dict[int, str]:
        with self._reads() as connection:
            found = connection.execute(
                "SELECT seq, text FROM vectors WHERE campaign = ? AND seq BETWEEN ? AND ?",
                (self._known_number(connection, name), first, min(last, MOST_NUMBER)),
            )
            return dict(sound(found, self._path, "vectors", int, str))

    def save(self, name: str, saved: Saved) -> None:
        with self.turn(name) as turn:
            turn.write("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)", [saved])

    def saved(self, name: str, upto: int | None = None) -> Saved | None:
        with self._reads() as connection:
            most = 2**62 if upto is None else upto
            found = connection.execute(
                "SELECT seq, hash, body FROM snapshots WHERE campaign = ? AND seq <= ?"
                " ORDER BY seq DESC LIMIT 1",
                (self._known_number(connection, name), most),
            )
            rows = sound(found, self._path, "snapshots", int, bytes, bytes)
        return Saved(*rows[0]) if rows else None

    def head(self, name: str) -> tuple[int, bytes] | None:
        with self._reads() as connection:
            number = self._known_number(connection, name)
            found = connection.execute("SELECT seq, hash FROM heads WHERE campaign = ?", (number,))
            rows = sound(found, self._path, "heads", int, bytes)
        return rows[0] if rows else None

    def faults(self) -> list[str]:
        try:
            with closing(self._connect()) as one:  # a connection of its own: nobody waits
                found = one.execute(f"PRAGMA integrity_check({MOST_FAULTS})").fetchall()
        except ERRORS as error:
            raise self._failed("read", error) from error
        told = [" ".join(str(text).split())[:200] for (text,) in found]
        return (
            [] if told == ["ok"] else [f"store {self._path!r}: is damaged: {one}" for one in told]
        )

    def backup(self, path: str) -> None:
        try:
            copy_file(self._path, path)
        except (*ERRORS, OSError) as error:
            raise self._failed("copied", error) from error

    def close(self) -> None:
        with self._mutex, self._reading:
            if self._closed:
                return
            self._closed = True
            gotten = self._locks.acquire(self.deadline)
            try:
                if gotten and self._writer is not None:
                    self._checkpoint("TRUNCATE")
                self._hang_up()
            finally:
                if gotten:
                    self._locks.release()
                self._locks.close()
