"""HTTP on one connection: reads requests, enforces time limits, writes answers.

A request that the application answers directly needs no task and no framework; every other one
becomes an ASGI call.

A request is read after the one before it was answered. The time limits are for a request to arrive,
for a client to read its answer, and between two requests.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tightrope.service.http.answers import (
    CLOSE,
    STATUS,
    Answer,
    HttpRequest,
    RefusalError,
    failure_of,
    refusal_of,
    written,
)
from tightrope.service.http.reading import RequestReader

if TYPE_CHECKING:
    from tightrope.service.http.server import HttpServer

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
FOREVER = float("inf")
LINGER, MOST_DISCARDED = 2.0, 1 << 20  # seconds and bytes that may come after a refused request
HIGH_WATER = 1 << 18  # bytes of answers that a client has not read, before more are made


class HttpConnection(asyncio.Protocol):
    """The connection of one client. Its requests are answered in order."""

    def __init__(self, server: HttpServer, accepted: socket.socket) -> None:
        self._server, self._limits = server, server.limits
        self._accepted = accepted  # until its handshake is done
        self._reader = RequestReader(server.limits)
        self._transport: asyncio.Transport = None  # type: ignore[assignment]
        self._busy: HttpRequest | None = None  # the request that is answered
        self._paused = self._closed = self._ended = self._in_next = False
        self._discarded = 0  # bytes that came after a refused request
        self._time = 0.0  # that is allowed for what is waited for: a request, or its first byte
        self.deadline = FOREVER
        self._writable: asyncio.Event | None = None

    @property
    def made(self) -> bool:
        """Whether the connection is established, including its TLS handshake."""
        return self._transport is not None

    # The transport's calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start."""
        self._transport = transport  # type: ignore[assignment]
        self._transport.set_write_buffer_limits(HIGH_WATER)
        self.deadline = time.monotonic() + self._limits.request_time

    def connection_lost(self, error: Exception | None) -> None:
        """Release the connection; the work of its requests is still finished."""
        self._closed = self._ended = True
        self._server.open.discard(self)
        if self._writable is not None:
            self._writable.set()

    def pause_writing(self) -> None:
        """Called when the client does not read its answers."""
        self.deadline = time.monotonic() + self._limits.read_time
        self._writable = asyncio.Event()

    def resume_writing(self) -> None:
        """Called when the client reads again."""
        if not self._ended:
            self.deadline = FOREVER
        if self._writable is not None:
            self._writable.set()
            self._writable = None
        if self._busy is None:
            self._next()

    def data_received(self, data: bytes) -> None:
        """Read new bytes, unless a request is being answered."""
        if self._ended:
            self._discarded += len(data)
            if self._discarded > MOST_DISCARDED:
                self._transport.abort()
            return
        self._reader.feed(data)
        if self._busy is None and self._writable is None:
            self._next()
        elif not self._paused:
            self._paused = True
            self._transport.pause_reading()

    # Answers.

    def _next(self) -> None:
        """Answer the requests that have arrived."""
        self._in_next = True  # an answer that is given at once goes on from here
        try:
            while self._busy is None and self._writable is None and not self._ended:
                request = self._reader.next()
                if request is None:
                    break
                self._busy, self._time, self.deadline = request, 0.0, FOREVER
                if request.url == b"*":
                    self._answered((200, b"", []))
                elif not self._server.app.answer_directly(request, self._answered):
                    self._start(request)
        except RefusalError as error:
            self._refuse(error)
        self._in_next = False
        if self._busy is None and self._writable is None and not self._ended:
            self._wait()

    def _wait(self) -> None:
        """Wait for a request or the rest of it; more bytes do not extend the time."""
        if self._server.ending:
            self._close()
            return
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        if self._reader.waits:
            self._reader.waits = False
            self.write(CONTINUE)
        limits = self._limits
        allowed = limits.request_time if self._reader.begun else limits.idle_time
        if allowed != self._time:
            self._time = allowed
            self.deadline = time.monotonic() + allowed

    def _answered(self, answer: Answer) -> None:
        """Write the answer to the current request."""
        request, self._busy = self._busy, None
        if self._closed or request is None:
            return
        keep = request.keep_alive and not self._server.ending
        self._transport.write(written(answer, keep, request.method != b"HEAD"))
        if not keep:
            self._close()
        elif not self._in_next:
            self._next()

    def _refuse(self, error: RefusalError) -> None:
        """Answer a request that cannot be parsed, and close."""
        self._busy = None
        if not self._closed:
            self._transport.write(written(refusal_of(error), keep=False))
            self._linger()
        if error.status >= 500:
            self._server.failed(b"", b"", error.status, error)

    def _linger(self) -> None:
        """Close this side, and discard input until the client closes its own or sends too much.

        A socket that is closed with unread input sends a reset, which can destroy an answer that
        the client has not read yet. A TLS connection cannot be closed on one side.
        """
        if self._server.ending or not self._transport.can_write_eof():
            self._close()
            return
        self._ended, self.deadline = True, time.monotonic() + LINGER
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        self._transport.write_eof()

    def _close(self) -> None:
        self._ended = True
        self.deadline = time.monotonic() + self._limits.read_time
        self._transport.close()

    def late(self) -> None:
        """Called when the current step has taken too long."""
        if self._writable is not None or self._ended:
            self._transport.abort()
        elif self._reader.begun:
            text = f"the request must arrive within {self._limits.request_time:g} seconds"
            self._refuse(RefusalError(408, "too_slow", text))
        else:
            self._close()

    def end(self) -> None:
        """Close the connection after the current answer."""
        if not self.made:
            self.abort()
        elif self._busy is None:
            self._close()

    def abort(self) -> None:
        """Close the connection now."""
        if self.made:
            self._transport.abort()
        else:  # in the handshake, which fails now
            with suppress(OSError):
                self._accepted.shutdown(socket.SHUT_RDWR)

    # What is not answered directly, as ASGI.

    def _start(self, request: HttpRequest) -> None:
        task = asyncio.get_running_loop().create_task(self._run(request))
        self._server.tasks.add(task)
        task.add_done_callback(self._server.tasks.discard)

    async def _run(self, request: HttpRequest) -> None:
        call = AsgiCall(self, request, self._scope(request))
        try:
            await self._server.app(call.scope, call.receive, call.send)
        except Exception as error:
            self._server.failed(request.method, request.url, 500, error)
            if not call.started:
                self._answered(refusal_of(failure_of(error)))
                return
        if not call.finished:
            self._transport.abort()

    def _scope(self, request: HttpRequest) -> dict[str, Any]:
        path, _, query = request.url.partition(b"?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": request.version,
            "method": request.method.decode("ascii"),
            "scheme": "https" if self._transport.get_extra_info("sslcontext") else "http",
            "path": unquote(path.decode("ascii", "replace")),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": list(request.headers),  # the reader remembers them
            "client": self._transport.get_extra_info("peername"),
            "server": self._transport.get_extra_info("sockname"),
            "state": {},
        }

    def write(self, data: bytes) -> None:
        """Write a piece of an answer."""
        if not self._closed:
            self._transport.write(data)

    async def writable(self) -> None:
        """Wait until the client has read enough of the answer."""
        if self._writable is not None:
            await self._writable.wait()

    def finish(self, keep: bool) -> None:
        """Called when a streamed answer was written."""
        self._busy = None
        if self._closed:
            return
        if keep and not self._server.ending:
            self._next()
        else:
            self._close()


class AsgiCall:
    """One ASGI call."""

    def __init__(
        self, connection: HttpConnection, request: HttpRequest, scope: dict[str, Any]
    ) -> None:
        self._connection, self._request, self.scope = connection, request, scope
        self.started = self.finished = False
        self._chunked = False
        self._read = False
        self._gone = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        """The whole body first; then the end of the connection."""
        if not self._read:
            self._read = True
            return {"type": "http.request", "body": self._request.body, "more_body": False}
        if not self.finished:
            await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        """Write an application's answer."""
        if message["type"] == "http.response.start":
            self._start(message["status"], message.get("headers", ()))
        elif message["type"] == "http.response.body" and not self.finished:
            await self._connection.writable()
            self._piece(message.get("body", b""), message.get("more_body", False))

    def _start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self.started = True
        head = [STATUS.get(status, f"HTTP/1.1 {status} \r\n".encode())]
        names = {name.lower() for name, _ in headers}
        for name, value in headers:
            head += (name, b": ", value, b"\r\n")
        if b"content-length" not in names and status not in (204, 304):
            if self._request.version == "1.1":
                self._chunked = True
                head.append(b"transfer-encoding: chunked\r\n")
            else:
                self._request.keep_alive = False
        if not self._request.keep_alive:
            head.append(CLOSE)
        head.append(b"\r\n")
        self._connection.write(b"".join(head))

    def _piece(self, body: bytes, more: bool) -> None:
        if self._request.method == b"HEAD":
            body = b""
        elif self._chunked:
            last = b"" if more else b"0\r\n\r\n"
            body = (b"%x\r\n" % len(body) + body + b"\r\n" if body else b"") + last
        if body:
            self._connection.write(body)
        if not more:
            self.finished = True
            self._gone.set()
            self._connection.finish(self._request.keep_alive)
