"""The server: its sockets and limits, and how it accepts connections and shuts down."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import resource
import socket
import ssl
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from tightrope.errors import InputError
from tightrope.service.http.answers import Answer, HttpRequest, RefusalError, refusal_of, written
from tightrope.service.http.connections import HttpConnection

BACKLOG = 1024  # connections that wait to be accepted
AT_ONCE = 64  # of them, before others have their turn
PAUSE = 0.2  # seconds without accepting, after it has failed
OTHER_FILES = 200  # open files that are no connections: stores, modules, pages


@dataclass(frozen=True)
class Limits:
    """Limits for a client; times in seconds."""

    connections: int = 1000
    header_bytes: int = 16_384
    headers: int = 64
    body_bytes: int = 1 << 20
    request_time: float = 10.0  # from its first byte to its last
    idle_time: float = 75.0  # between two requests
    read_time: float = 30.0  # for an answer to be read


class Application(Protocol):
    """The application that answers requests."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """The call of ASGI."""

    def answer_directly(self, request: HttpRequest, done: Callable[[Answer], None]) -> bool:
        """Answer by one call of ``done``, now or later; returns False to use ASGI."""


class HttpServer:
    """One listening socket and its connections."""

    def __init__(self, app: Application, limits: Limits | None = None) -> None:
        self.app, self.limits = app, limits or Limits()
        self.open: set[HttpConnection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.ending = False
        self.refused = 0  # connections beyond the most
        # Called with method, target, status and error of what is answered here with 500 or above.
        self.failed: Callable[[bytes, bytes, int, BaseException], None] = lambda *_: None

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> str:
        """Listen, or raise an ``OSError``; returns the URL."""
        loop = asyncio.get_running_loop()
        self._most, self._tls = connections_within(self.limits.connections), tls
        self._listening = await listening_sockets(host, port)
        for one in self._listening:
            loop.add_reader(one, self._accept, one)
        self._watching = loop.create_task(self._watch())
        return address(self._listening[0], tls is not None)

    def _accept(self, listening: socket.socket) -> None:
        """Accept waiting connections. They count from here, before a handshake."""
        loop = asyncio.get_running_loop()
        for _ in range(AT_ONCE):
            try:
                accepted = listening.accept()[0]
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:  # such as no more file handles: the loop would call again at once
                loop.remove_reader(listening)
                loop.call_later(PAUSE, self._accept_again, listening)
                return
            accepted.setblocking(False)
            if len(self.open) < self._most:
                self._take(accepted)
            else:
                self._turn_away(accepted)

    def _accept_again(self, listening: socket.socket) -> None:
        if not self.ending:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _take(self, accepted: socket.socket) -> None:
        connection = HttpConnection(self, accepted)
        self.open.add(connection)
        task = asyncio.get_running_loop().create_task(self._connect(connection, accepted))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _connect(self, connection: HttpConnection, accepted: socket.socket) -> None:
        """Start a connection after its handshake."""
        timeout = None if self._tls is None else self.limits.request_time
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, accepted, ssl=self._tls, ssl_handshake_timeout=timeout
            )
        except OSError:
            pass  # the client has gone, or does not speak TLS
        finally:
            if not connection.made:
                self.open.discard(connection)

    def _turn_away(self, accepted: socket.socket) -> None:
        """Close a connection above the limit, with 503 unless it uses TLS."""
        self.refused += 1
        if self._tls is None:
            text = f"the service has {self._most} connections; try again in a second"
            error = RefusalError(503, "overloaded", text, retry_after="1")
            with suppress(OSError):
                accepted.send(written(refusal_of(error), keep=False))
            self.failed(b"", b"", error.status, error)
        accepted.close()

    async def _watch(self) -> None:
        """Close connections that take too long; runs until cancelled."""
        while True:
            await asyncio.sleep(0.5)
            now = time.monotonic()
            for one in [one for one in self.open if one.deadline < now]:
                one.late()

    async def end(self, seconds: float) -> bool:
        """Close all connections after their answers; whether all were answered in time."""
        self.ending = True
        for listening in self._listening:
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()
        for one in list(self.open):
            one.end()
        until = time.monotonic() + seconds
        while (self.open or self.tasks) and time.monotonic() < until:
            await asyncio.sleep(0.01)
        self._watching.cancel()
        done = not self.open and not self.tasks
        for one in list(self.open):
            one.abort()
        for task in list(self.tasks):
            task.cancel()
        return done


def address(listening: Any, encrypted: bool) -> str:
    """The URL of a listening socket."""
    host, port = listening.getsockname()[:2]
    return f"http{'s' * encrypted}://{f'[{host}]' if ':' in host else host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether an address can be reached only from this machine."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise InputError(f"--host {host!r}: is not a known address ({error.strerror})") from None
    return all(ipaddress.ip_address(str(one[4][0]).partition("%")[0]).is_loopback for one in found)


def tls_context(certificate: str | None, private_key: str | None) -> ssl.SSLContext | None:
    """The TLS settings; None without TLS."""
    if certificate is None:
        if private_key is not None:
            raise InputError("--private-key: must come with --certificate")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, private_key)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or str(error)
        raise InputError(f"--certificate {certificate!r}: cannot be used ({reason})") from None
    return context


async def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """A socket for every address of a host, or an ``OSError``."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    made: list[socket.socket] = []
    for family, _, _, _, place in dict.fromkeys(found):
        try:
            made.append(socket.create_server(place[:2], family=family, backlog=BACKLOG))
        except OSError as error:
            missing = error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # such as IPv6
            if not missing or (not made and place == found[-1][4]):
                for one in made:
                    one.close()
                raise
    for one in made:
        one.setblocking(False)
    return made


def connections_within(most: int) -> int:
    """At most this many connections, and fewer if the system allows fewer open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most + OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return most
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft = allowed
    fitting = min(most, max(soft - OTHER_FILES, soft // 2))
    if fitting < most:
        text = f"connections: at most {fitting} instead of {most}, because the system allows"
        warnings.warn(f"{text} {soft} open files (ulimit -n)", stacklevel=2)
    return fitting
