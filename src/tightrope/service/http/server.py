"""The server: its socket, its limits, how it ends."""

from __future__ import annotations

import asyncio
import ipaddress
import resource
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from tightrope.errors import InputError
from tightrope.service.http.answers import Answer
from tightrope.service.http.connections import HttpConnection
from tightrope.service.http.requests import HttpRequest

__all__ = ["Application", "HttpServer", "Limits", "is_loopback", "tls_context"]

BACKLOG = 1024


@dataclass(frozen=True)
class Limits:
    """What a client may take; times in seconds."""

    connections: int = 1000
    header_bytes: int = 16_384
    headers: int = 64
    body_bytes: int = 1 << 20
    request_time: float = 10.0  # from its first byte to its last
    idle_time: float = 75.0  # between two requests
    read_time: float = 30.0  # for an answer to be read


class Application(Protocol):
    """What answers requests."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer as ASGI has it."""

    def answer_directly(self, request: HttpRequest, done: Callable[[Answer], None]) -> bool:
        """Whether this request is answered by one call of ``done``, now or later, without ASGI."""


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
        """Listen, or raise an ``OSError``; returns the address, as a browser takes it."""
        loop, limits = asyncio.get_running_loop(), self.limits
        allow_files(limits.connections)
        self._listening = await loop.create_server(
            lambda: HttpConnection(self),
            host,
            port,
            ssl=tls,
            backlog=BACKLOG,
            ssl_handshake_timeout=None if tls is None else limits.request_time,
        )
        self._watching = loop.create_task(self._watch())
        return address(self._listening.sockets[0], tls is not None)

    async def _watch(self) -> None:
        """Close connections that take too long, until this is cancelled."""
        while True:
            await asyncio.sleep(0.5)
            now = time.monotonic()
            for one in [one for one in self.open if one.deadline < now]:
                one.late()

    async def end(self, seconds: float) -> bool:
        """Close everything, a connection after its answer; whether all were answered by then."""
        self._listening.close()
        self.ending = True
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
    """Where a socket listens, as a browser takes it."""
    host, port = listening.getsockname()[:2]
    return f"http{'s' * encrypted}://{f'[{host}]' if ':' in host else host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise InputError(f"--host {host!r}: is no address here ({error.strerror})") from None
    return all(ipaddress.ip_address(str(one[4][0]).partition("%")[0]).is_loopback for one in found)


def tls_context(certificate: str | None, private_key: str | None) -> ssl.SSLContext | None:
    """How connections are encrypted; None if they are not."""
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


def allow_files(connections: int) -> None:
    """Have as many open files as connections need, if the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + 200
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
