"""Connections to PostgreSQL: they time out, reconnect and survive a fork."""

from __future__ import annotations

import os
import select
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from tightrope.errors import TightropeError

try:
    import psycopg
    from psycopg import errors
    from psycopg.pq import TransactionStatus as State
except ImportError as error:
    raise TightropeError(
        f"PostgreSQL needs psycopg ({error}); pip install 'tightrope[postgres]'"
    ) from error

open_connections: weakref.WeakSet[PatientConnection] = weakref.WeakSet()
kept_sessions: list[Any] = []  # of the parent process: closing them here would end its sessions


class PatientConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that times out if the server does not answer."""

    patience = 60.0  # seconds
    tuned: float | None = None  # the deadline that its session was set up for

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Run one of psycopg's generators to its end, until the timeout."""
        until = time.monotonic() + (self.patience if timeout is None else timeout)
        poll, file = select.poll(), self.pgconn.socket
        try:
            wanted = next(gen)
            while True:
                poll.register(file, wanted_events(wanted))
                found = poll.poll(max(1000.0 * (until - time.monotonic()), 0.0))
                if not found:
                    gen.close()
                    self.close()
                    raise errors.ConnectionTimeout(f"no answer within {self.patience:g} s")
                wanted = gen.send(ready_for(found[0][1], wanted))
        except StopIteration as end:
            return end.value


def wanted_events(wanted: int) -> int:
    """What to poll for: psycopg waits for 1 to read, 2 to write."""
    return (select.POLLIN if wanted & 1 else 0) | (select.POLLOUT if wanted & 2 else 0)


def ready_for(event: int, wanted: int) -> int:
    """What psycopg can do now; after an error, what it wanted, so that it raises."""
    ready = (1 if event & select.POLLIN else 0) | (2 if event & select.POLLOUT else 0)
    return (ready & wanted) or wanted


def _let_go() -> None:
    """Close the parent's sockets in a forked process, or they would outlive the parent."""
    for connection in list(open_connections):
        with suppress(psycopg.Error, OSError):
            os.close(connection.pgconn.socket)
    open_connections.clear()


os.register_at_fork(after_in_child=_let_go)


def asked(connection: PatientConnection, text: str, **given: Any) -> list[list[tuple[Any, ...]]]:
    """The rows of each statement of a message that returns rows."""
    with connection.cursor() as cursor:
        cursor.execute(text, given or None)
        answers = []
        while True:
            if cursor.description is not None:
                answers.append(cursor.fetchall())
            if not cursor.nextset():
                return answers


def numbers(values: Sequence[int]) -> str:
    """An array of numbers as PostgreSQL reads it."""
    return "{" + ",".join(map(str, values)) + "}"


def texts(values: Sequence[str | None]) -> str:
    """An array of texts as PostgreSQL reads it."""
    marked = (
        "NULL" if one is None else '"' + one.replace("\\", "\\\\").replace('"', '\\"') + '"'
        for one in values
    )
    return "{" + ",".join(marked) + "}"


def parted(values: Sequence[str]) -> str:
    """Join texts; none has a control character, and PostgreSQL rejects a wrong number."""
    return "\x1f".join(values)


class Session:
    """A connection that opens when it is needed, and reopens after it was lost."""

    def __init__(self) -> None:
        self.connection: PatientConnection | None = None
        self.lock = threading.Lock()

    def is_lost(self, error: psycopg.Error) -> bool:
        """Whether the connection has ended, and not only a statement or the timeout."""
        if self.connection is None or isinstance(error, errors.ConnectionTimeout):
            return False
        return self.connection.closed or error.diag.severity_nonlocalized == "FATAL"

    def undo(self) -> None:
        """End a failed transaction, or the connection if that is not possible."""
        connection = self.connection
        if connection is None:
            return
        if connection.info.transaction_status in (State.INTRANS, State.INERROR):
            with suppress(psycopg.Error):
                asked(connection, "ROLLBACK; SELECT pg_advisory_unlock_all()")
        if connection.info.transaction_status is not State.IDLE:
            self.end()

    def end(self) -> None:
        """Close the connection in any state."""
        if self.connection is not None:
            with suppress(psycopg.Error):
                self.connection.close()
        self.connection = None


def shown_address(address: Mapping[str, Any]) -> str:
    """Host, port and database, without names and passwords."""
    host = str(address.get("host") or address.get("hostaddr") or os.environ.get("PGHOST") or "")
    port = address.get("port") or os.environ.get("PGPORT")
    place = quote(host, safe=":,[]/") + (f":{port}" if port else "")
    return f"postgresql://{place}/{address.get('dbname') or os.environ.get('PGDATABASE') or ''}"
