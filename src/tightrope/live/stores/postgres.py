"""Campaigns in a PostgreSQL database, for any number of machines.

A turn is a transaction that has locked the campaign's row. PostgreSQL's own queue serves waiting
processes in order. A later statement reads the log, so that it sees the commits of the previous
turn (READ COMMITTED).

If several processes write, a process first waits for an advisory lock. Its holder is next and reads
the log while another process has the turn; correctness never depends on it. Each message is a list
of statements that the server receives as a whole: one to begin (lock, clock, the end of the log),
one to end (append, commit). So a stopped process holds the lock only while the server waits for its
next message, and ``idle_in_transaction_session_timeout`` ends it after half the deadline. If a
stopped process does not read a long answer, a process that waits in vain terminates it.

The tables are in the schema that the connection's ``search_path`` gives. Sessions hold prepared
statements and settings, so a connection pooler must assign whole sessions, not single transactions.
Needs ``pip install 'tightrope[postgres]'``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from tightrope.errors import InputError, StoreBusyError, StoreError
from tightrope.live.events import Row
from tightrope.live.stores.base import (
    Saved,
    Store,
    Turn,
    as_rows,
    require_known_format,
    require_next,
)
from tightrope.live.stores.copies import copy_into_file
from tightrope.live.stores.sessions import (  # before psycopg: names what to install
    PatientConnection,
    Session,
    asked,
    kept_sessions,
    numbers,
    open_connections,
    parted,
    shown_address,
    texts,
)
from tightrope.live.stores.statements import (
    BEGIN,
    DEAF,
    GIVEN,
    HAS_VECTORS,
    KEY,
    MOMENT,
    PLANS,
    STATEMENTS,
    TABLES,
    VECTORS,
)

# isort: split
import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus as State

TAIL = 1000  # events that a turn reads as it begins
CHUNK = 50_000  # events that one statement deletes
HAS_TRANSACTION_TIMEOUT = 170000  # the first version of the server
Found = TypeVar("Found")


class PostgresTurn(Turn):
    """A turn: a transaction that has locked the campaign's row."""

    def __init__(
        self,
        connection: PatientConnection,
        name: str,
        after: int | None,
        waiting: Callable[[], int] | None = None,
    ) -> None:
        """Lock the row; ``after`` is where the log will be read from, if known.

        With ``waiting``, wait in the queue first.
        """
        self._connection, self._name, self._after = connection, name, after
        first, self._unlock = BEGIN, ""
        if waiting is not None:
            asked(connection, f"{BEGIN} EXECUTE tr_queue(%(name)s)", name=name)
            known = waiting()
            self._after = known - 1 if known else after
            first, self._unlock = "", "EXECUTE tr_next(%(name)s);"
        answers = self._begin(first)
        if not answers[0]:
            new = "INSERT INTO tightrope_campaigns (name) VALUES (%(name)s) ON CONFLICT DO NOTHING;"
            answers = self._begin(new)
        if waiting is not None:
            del answers[1]
        (self._clock, head), self._since = answers[1][0], time.monotonic_ns()
        self.head: int | None = head  # the last event's number
        self._end = head or 0  # the same, before anything is appended
        self._tail = None if self._after is None else as_rows(answers[2])
        self._pending: list[Row] = []
        self._notes: dict[int, str] = {}
        self._written = False

    def _begin(self, first: str) -> list[list[tuple[Any, ...]]]:
        message = f"{first} EXECUTE tr_lock(%(name)s); {self._unlock} EXECUTE tr_state(%(name)s);"
        if self._after is None:
            return asked(self._connection, message, name=self._name)
        message += f"EXECUTE tr_read(%(name)s, %(after)s, {TAIL})"
        return asked(self._connection, message, name=self._name, after=self._after)

    def now(self) -> int:
        return int(self._clock) + (time.monotonic_ns() - self._since) // 1000

    def read(self, after: int, count: int = 1000) -> list[Row]:
        # A process that knows of later events than the turn learns that the turn was lost.
        if self._tail is not None and self._after is not None and self._after <= after < self._end:
            found = [row for row in self._tail if row.seq > after]
            if len(self._tail) < TAIL or len(found) >= count:
                return found[:count]
        self._send()
        message = "EXECUTE tr_read(%(name)s, %(after)s, %(count)s)"
        given = {"name": self._name, "after": after, "count": count}
        return as_rows(asked(self._connection, message, **given)[0])

    def find(self, tickets: Sequence[str]) -> list[Row]:
        self._send()
        return found_events(self._connection, self._name, tickets)

    def append(self, rows: Sequence[Row], notes: Mapping[int, str]) -> None:
        require_next(rows, self.head)
        if rows:
            self.head = rows[-1].seq
        self._pending.extend(rows)
        self._notes.update(notes)

    def keep(self, vectors: Mapping[int, str]) -> None:
        self._send()
        self._written = True
        if not asked(self._connection, HAS_VECTORS)[0][0][0]:
            asked(self._connection, f"SELECT pg_advisory_xact_lock({KEY}); {VECTORS}")
        mine = "SELECT (SELECT id FROM tightrope_campaigns WHERE name = %(name)s), *"
        given = {"numbers": numbers(list(vectors)), "texts": texts(list(vectors.values()))}
        values = "unnest(%(numbers)s::bigint[], %(texts)s::text[])"
        message = f"INSERT INTO tightrope_vectors {mine} FROM {values}"
        asked(self._connection, message, name=self._name, **given)

    def erase(self, upto: int, but: Sequence[int], before: int) -> int:
        self._send()
        self._written = True
        given = {"name": self._name, "upto": upto, "before": before, "but": numbers(but)}
        gone = (
            f"DELETE FROM tightrope_vectors WHERE {GIVEN} AND seq <= %(upto)s"
            " AND NOT seq = ANY (%(but)s::bigint[]) RETURNING seq"
        )
        old = f"DELETE FROM tightrope_snapshots WHERE {GIVEN} AND seq < %(before)s"
        message = f"WITH gone AS ({gone}) SELECT count(*) FROM gone; {old}"
        return int(asked(self._connection, message, **given)[0][0][0])

    def drop(self, upto: int) -> None:
        self._send()
        first = asked(self._connection, "EXECUTE tr_read(%(name)s, 0, 1)", name=self._name)[0]
        self._tail, self._written = None, True
        last = first[0][0] - 1 if first else upto
        while last < upto:
            last = min(last + CHUNK, upto)
            asked(
                self._connection,
                f"DELETE FROM tightrope_events WHERE {GIVEN} AND seq <= %(upto)s",
                name=self._name,
                upto=last,
            )
        old = f"DELETE FROM tightrope_snapshots WHERE {GIVEN} AND seq < %(upto)s"
        asked(self._connection, old, name=self._name, upto=upto)

    def _send(self, end: str = "") -> None:
        """Send the appended events, at the end of the turn if possible."""
        message, given = end, dict[str, Any](name=self._name)
        if self._notes:
            message = f"EXECUTE tr_note(%(name)s, %(numbers)s, %(texts)s); {message}"
            given["numbers"] = numbers(list(self._notes))
            given["texts"] = texts(list(self._notes.values()))
        if self._pending:
            marks = ", ".join(f"%({name})s" for name in Row._fields)
            message = f"EXECUTE tr_append(%(name)s, {marks}); {message}"
            seq, at, kind, ticket, who, version, body, hashes = zip(*self._pending, strict=True)
            given |= {"seq": numbers(seq), "at": numbers(at), "version": numbers(version)}
            given |= {"kind": parted(kind), "ticket": parted([one or "" for one in ticket])}
            given |= {"who": parted(who), "body": parted(body)}
            given["hash"] = ",".join([one.hex() for one in hashes])
        if message:
            self._written = self._written or bool(self._pending or self._notes)
            self._tail, self._pending, self._notes = None, [], {}
            asked(self._connection, message, **given)

    def finish(self) -> None:
        """Commit; an empty turn is rolled back, which needs no write."""
        if not (self._pending or self._notes or self._written):
            with suppress(psycopg.OperationalError):  # the reads were valid
                asked(self._connection, "ROLLBACK")
            return
        if self._connection.info.transaction_status is not State.INTRANS:
            raise errors.InFailedSqlTransaction("an earlier statement of the turn failed")
        self._send("COMMIT")


def found_events(connection: PatientConnection, name: str, tickets: Sequence[str]) -> list[Row]:
    """All events of these tickets, in order."""
    if not tickets:
        return []
    message = "EXECUTE tr_find(%(name)s, %(tickets)s)"
    found = asked(connection, message, name=name, tickets=texts(tickets))[0]
    return sorted(as_rows(found))


class PostgresStore(Store):
    """Campaigns in a PostgreSQL database."""

    def __init__(self, url: str, *, create: bool = True) -> None:
        try:
            self._address: dict[str, Any] = conninfo_to_dict(url)
        except psycopg.Error:  # its message may hold the password
            must = "must be postgresql://user@host:port/database"
            raise InputError(f"store = 'postgresql://...': cannot be read; {must}") from None
        self.url = shown_address(self._address)
        self._create, self._closed, self._heads = create, False, dict[str, int]()
        self._shared = set[str]()  # campaigns to which other processes write too
        self._begin()
        self._do(self._writer, "opened", lambda connection: None)
        self._create = False

    def _begin(self) -> None:
        """Set up the state of one process."""
        self._pid, self._writer, self._reader = os.getpid(), Session(), Session()

    def _require_own(self) -> None:
        """Reconnect in a forked process."""
        if self._pid != os.getpid():
            kept_sessions.append((self._writer, self._reader))
            self._begin()
        if self._closed:
            raise StoreError(f"store {self.url!r}: is closed")

    def _connect(self) -> PatientConnection:
        """A new connection with its settings; it notices a vanished server in time."""
        seconds = max(int(self.deadline), 2)
        usual: dict[str, Any] = {
            "application_name": "tightrope",
            "connect_timeout": seconds,
            "keepalives_idle": max(seconds // 2, 1),
            "keepalives_interval": max(seconds // 5, 1),
            "keepalives_count": 3,
            "tcp_user_timeout": 1000 * seconds,
        }
        if "," in str(self._address.get("host")):  # one host leads, and another one may later
            usual["target_session_attrs"] = "read-write"
        made = PatientConnection.connect(
            **{**usual, **self._address, "client_encoding": "UTF8"},
            autocommit=True,
            prepare_threshold=None,
            cursor_factory=psycopg.ClientCursor,
        )
        open_connections.add(made)
        try:
            self._tune(made)
            self._require_tables(made)
            asked(made, STATEMENTS)
        except BaseException:
            made.close()
            raise
        return made

    def _tune(self, connection: PatientConnection) -> None:
        """The settings of a session; timeouts are shares of the deadline, which can change."""
        if connection.tuned == self.deadline:
            return
        thousandths = max(int(1000 * self.deadline), 2)
        times = {
            "lock_timeout": thousandths,
            "statement_timeout": thousandths,
            "idle_in_transaction_session_timeout": thousandths // 2,
            "tcp_user_timeout": thousandths,
            "tcp_keepalives_idle": max(thousandths // 2000, 1),
            "tcp_keepalives_interval": max(thousandths // 5000, 1),
            "tcp_keepalives_count": 3,
        }
        if connection.info.server_version >= HAS_TRANSACTION_TIMEOUT:
            times["transaction_timeout"] = 2 * thousandths  # includes the wait for the lock
        settings = " ".join(f"SET {name} = {value};" for name, value in times.items())
        asked(
            connection,
            f"{settings} {PLANS} SELECT set_config('synchronous_commit', 'on', false)"
            " WHERE current_setting('synchronous_commit') <> 'remote_apply'",
        )
        connection.patience = 2.0 * self.deadline + 1.0
        connection.tuned = self.deadline

    def _require_tables(self, connection: PatientConnection) -> None:
        """Create missing tables; refuse those of a newer program."""
        there = "SELECT to_regclass('tightrope_format') IS NOT NULL"
        if not asked(connection, there)[0][0][0]:
            if not self._create:
                raise InputError(f"store {self.url!r}: there are no campaigns in it")
            asked(connection, f"SELECT pg_advisory_lock({KEY})")
            if not asked(connection, there)[0][0][0]:
                asked(connection, f"{BEGIN} {TABLES} COMMIT")
            asked(connection, f"SELECT pg_advisory_unlock({KEY})")
        version = asked(connection, "SELECT max(number) FROM tightrope_format")[0][0][0]
        require_known_format(self.url, version or 0)

    def _failed(self, what: str, error: psycopg.Error) -> StoreError:
        canceled = what == "begun" and isinstance(error, errors.QueryCanceled)
        if canceled or isinstance(error, errors.LockNotAvailable):
            return self._busy()
        told = error.diag.message_primary or next(iter(str(error).splitlines()), "no reason given")
        if password := self._address.get("password"):
            told = told.replace(str(password), "***")
        done = "written" if what == "begun" else what
        return StoreError(f"store {self.url!r}: cannot be {done} ({told})")

    def _busy(self) -> StoreBusyError:
        return StoreBusyError(f"store {self.url!r}: no turn within {self.deadline:g} s")

    @contextmanager
    def _held(self, session: Session) -> Iterator[None]:
        """Serve one thread at a time."""
        if not session.lock.acquire(timeout=self.deadline):
            raise self._busy()
        try:
            yield
        finally:
            session.lock.release()

    def _do(self, session: Session, what: str, act: Callable[[PatientConnection], Found]) -> Found:
        """Act on a session; retry once if its connection has ended meanwhile."""
        while True:
            fresh = session.connection is None
            try:
                connection = session.connection = session.connection or self._connect()
                self._tune(connection)
                return act(connection)
            except psycopg.Error as error:
                lost = session.is_lost(error)
                session.undo()
                if fresh or not lost:
                    failed = self._failed(what, error)
                    if isinstance(failed, StoreBusyError) and session.connection is not None:
                        self._end_deaf(session.connection)
                    raise failed from error
            except BaseException:
                session.undo()
                raise

    def _end_deaf(self, connection: PatientConnection) -> None:
        """Terminate the holder of the turn that does not read; no server timeout does."""
        with suppress(psycopg.Error):
            before = set(asked(connection, DEAF)[0])
            time.sleep(min(0.2, self.deadline / 4) if before else 0.0)
            for process, _ in before & set(asked(connection, DEAF)[0]):
                asked(connection, "SELECT pg_terminate_backend(%(process)s)", process=process)

    def _look(self, text: str, **given: Any) -> list[tuple[Any, ...]]:
        """Committed rows."""
        self._require_own()
        with self._held(self._reader):
            return self._do(self._reader, "read", lambda one: asked(one, text, **given)[0])

    def _write(self, text: str, **given: Any) -> None:
        """Execute one statement that may be repeated."""
        self._require_own()
        with self._held(self._writer):
            self._do(self._writer, "written", lambda one: asked(one, text, **given))

    def names(self) -> list[str]:
        any_event = "SELECT 1 FROM tightrope_events WHERE campaign = id"
        found = self._look(
            f"SELECT name FROM tightrope_campaigns WHERE EXISTS ({any_event}) ORDER BY id"
        )
        return [name for (name,) in found]

    @contextmanager
    def turn(self, name: str, waiting: Callable[[], int] | None = None) -> Iterator[Turn]:
        self._require_own()
        with self._held(self._writer):
            head = self._heads.get(name)
            after = None if head is None else head - 1  # as the campaign will read them
            others = waiting if name in self._shared else None
            turn = self._do(
                self._writer, "begun", lambda one: PostgresTurn(one, name, after, others)
            )
            if head is not None:  # whether others have written since our last turn
                (self._shared.discard if turn.head == head else self._shared.add)(name)
            try:
                yield turn
                turn.finish()
            except psycopg.Error as error:
                self._writer.undo()
                raise self._failed("written", error) from error
            except BaseException:
                self._writer.undo()
                raise
            if turn.head is not None:
                self._heads[name] = turn.head

    def read(
        self, name: str, after: int = 0, count: int = 1000, tickets: Sequence[str] | None = None
    ) -> list[Row]:
        if tickets is not None:
            wanted = texts(tickets)
            found = self._look("EXECUTE tr_find(%(name)s, %(tickets)s)", name=name, tickets=wanted)
            return sorted(as_rows(found))
        message = "EXECUTE tr_read(%(name)s, %(after)s, %(count)s)"
        return as_rows(self._look(message, name=name, after=after, count=count))

    def notes(self, name: str, forget: Sequence[int] = ()) -> dict[int, str]:
        if forget:
            self._write(
                f"DELETE FROM tightrope_notes WHERE {GIVEN} AND seq = ANY (%(forget)s::bigint[])",
                name=name,
                forget=numbers(forget),
            )
        message = f"SELECT seq, text FROM tightrope_notes WHERE {GIVEN} ORDER BY seq"
        return dict(self._look(message, name=name))

    def vectors(self, name: str, first: int, last: int) -> dict[int, str]:
        if not self._look(HAS_VECTORS)[0][0]:
            return {}
        message = (
            f"SELECT seq, text FROM tightrope_vectors WHERE {GIVEN}"
            " AND seq BETWEEN %(first)s AND %(last)s"
        )
        return dict(self._look(message, name=name, first=first, last=last))

    def save(self, name: str, saved: Saved) -> None:
        number, digest, body = saved
        self._write(
            "INSERT INTO tightrope_snapshots SELECT id, %(seq)s, %(digest)s, %(body)s"
            " FROM tightrope_campaigns WHERE name = %(name)s ON CONFLICT (campaign, seq)"
            " DO UPDATE SET hash = excluded.hash, body = excluded.body",
            name=name,
            seq=number,
            digest=digest,
            body=body,
        )

    def saved(self, name: str, upto: int | None = None) -> Saved | None:
        found = self._look(
            f"SELECT seq, hash, body FROM tightrope_snapshots WHERE {GIVEN} AND seq <= %(upto)s"
            " ORDER BY seq DESC LIMIT 1",
            name=name,
            upto=2**62 if upto is None else upto,
        )
        return Saved(*found[0]) if found else None

    def backup(self, path: str) -> None:
        self._require_own()
        moment = Moment(self._address, self.deadline)
        try:
            copy_into_file(moment, path)
        finally:
            moment.close()

    def close(self) -> None:
        if self._pid != os.getpid():
            return
        with self._writer.lock, self._reader.lock:
            self._closed = True
            self._writer.end()
            self._reader.end()


class Moment(PostgresStore):
    """A store's current state for one reader, in one transaction, so nothing is retried."""

    def __init__(self, address: Mapping[str, Any], deadline: float) -> None:
        self.url, self.deadline, self._address = shown_address(address), deadline, dict(address)
        self._create, self._closed = False, False
        self._begin()
        self._do(self._reader, "read", self._stop_time)

    def _stop_time(self, connection: PatientConnection) -> None:
        unhurried = "SET idle_in_transaction_session_timeout = 0;"
        if connection.info.server_version >= HAS_TRANSACTION_TIMEOUT:
            unhurried += " SET transaction_timeout = 0;"
        asked(connection, f"{unhurried} {MOMENT}")

    def _look(self, text: str, **given: Any) -> list[tuple[Any, ...]]:
        try:
            if self._reader.connection is None:
                raise StoreError(f"store {self.url!r}: is closed")
            return asked(self._reader.connection, text, **given)[0]
        except psycopg.Error as error:
            raise self._failed("read", error) from error
