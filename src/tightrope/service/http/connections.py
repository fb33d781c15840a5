"""HTTP on one connection: httptools parses, limits are kept, answers are written.

A request that the application answers directly goes from the parser to it, and back, without a
task or a framework between them; every other one becomes an ASGI call. Measured with 64 connections
(docs/service.md): less than half of the processor time of uvicorn's connection for such a request.

Limits kept here: connections, bytes of headers and of a body, the time that a request may take to
arrive, the time that a client may take to read its answer, the time between two requests.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import httptools

from tightrope.service.http.answers import Answer, RefusalError, failure_of, refusal_of
from tightrope.service.http.requests import HttpRequest

if TYPE_CHECKING:
    from tightrope.service.http.server import HttpServer

__all__ = ["HttpConnection"]

STATUS = {one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in HTTPStatus}
JSON_HEAD = b"content-type: application/json\r\ncontent-length: "
CLOSE = b"connection: close\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
FOREVER = float("inf")
HIGH_WATER = 1 << 18  # bytes of answers that a client has not read, before more are made


class HttpConnection(asyncio.Protocol):
    """One client's connection. Its requests are answered one after the other."""

    def __init__(self, server: HttpServer) -> None:
        self._server, self._limits = server, server.limits
        self._parser: Any = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport = None  # type: ignore[assignment]
        self._waiting: deque[HttpRequest] = deque()  # read, behind the one that is answered
        self._busy: HttpRequest | None = None
        self._paused = self._closed = self._ended = self._in_next = False
        self._in_head = self._reading = self._begun = False
        self._head_bytes = 0
        self._url, self._headers = b"", list[tuple[bytes, bytes]]()
        self._body: list[bytes] = []
        self._body_bytes = 0
        self.deadline = time.monotonic() + self._limits.request_time
        self._writable: asyncio.Event | None = None

    # The transport's calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, or refuse a connection beyond the most."""
        self._transport = transport  # type: ignore[assignment]
        self._transport.set_write_buffer_limits(HIGH_WATER)
        server = self._server
        if len(server.open) >= self._limits.connections or server.ending:
            server.refused += 1
            most = self._limits.connections
            text = f"the service has {most} connections; come back in a second"
            self._refuse(RefusalError(503, "overloaded", text, retry_after="1"))
            return
        server.open.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        """Forget it; what its requests have begun is finished without it."""
        self._closed = True
        self._server.open.discard(self)
        self._waiting.clear()
        self._parser = None
        if self._writable is not None:
            self._writable.set()

    def pause_writing(self) -> None:
        """The client does not read its answers."""
        self.deadline = time.monotonic() + self._limits.read_time
        self._writable = asyncio.Event()

    def resume_writing(self) -> None:
        """It reads again."""
        self.deadline = FOREVER
        if self._writable is not None:
            self._writable.set()
            self._writable = None
        if self._busy is None:
            self._next()

    def data_received(self, data: bytes) -> None:
        """Parse what has come."""
        if self._closed or self._ended:
            return
        in_head, self._begun = self._in_head, False
        if not self._reading:
            self._reading = True
            if self._busy is None:
                self.deadline = time.monotonic() + self._limits.request_time
        try:
            self._parser.feed_data(data)
        except RefusalError as error:
            self._refuse(error)
            return
        except httptools.HttpParserUpgrade:
            self._ended = True  # answered as if it had not been asked for, and closed
        except httptools.HttpParserError as error:
            cause = error.__context__
            if isinstance(cause, RefusalError):
                self._refuse(cause)
            else:
                self._refuse(RefusalError(400, "malformed", "the request is not HTTP/1.1"))
            return
        if in_head and not self._begun and self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > self._limits.header_bytes:
                self._refuse(self._headers_error())
                return
        if self._busy is None:
            if self._waiting or self._ended:  # a piece of a request gives it no more time
                self._next()
        elif self._waiting and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    # The parser's calls.

    def on_message_begin(self) -> None:
        """A request begins."""
        self._url, self._headers, self._body = b"", [], []
        self._body_bytes = self._head_bytes = 0
        self._in_head = self._reading = self._begun = True

    def on_url(self, url: bytes) -> None:
        """A piece of the target."""
        self._url += url
        if len(self._url) > self._limits.header_bytes:
            raise self._headers_error()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self._head_bytes += len(name) + len(value)
        self._headers.append((name.lower(), value))
        most = self._limits
        if self._head_bytes > most.header_bytes or len(self._headers) > most.headers:
            raise self._headers_error()

    def on_headers_complete(self) -> None:
        """A body may follow."""
        self._in_head = False
        for name, value in self._headers:
            if name == b"content-length":
                if int(value) > self._limits.body_bytes:
                    raise self._body_error()
            elif name == b"expect" and value.lower() == b"100-continue" and self._busy is None:
                self._transport.write(CONTINUE)

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._body_bytes += len(body)
        if self._body_bytes > self._limits.body_bytes:
            raise self._body_error()
        self._body.append(body)

    def on_message_complete(self) -> None:
        """A whole request."""
        parser, pieces = self._parser, self._body
        self._reading = False
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._waiting.append(
            HttpRequest(
                parser.get_method(),
                self._url,
                self._headers,
                body,
                parser.should_keep_alive(),
                parser.get_http_version(),
            )
        )

    def _headers_error(self) -> RefusalError:
        most = self._limits
        text = f"headers: must be at most {most.headers}, of {most.header_bytes} bytes together"
        return RefusalError(431, "too_large", text)

    def _body_error(self) -> RefusalError:
        text = f"body: must be at most {self._limits.body_bytes} bytes"
        return RefusalError(413, "too_large", text)

    # Answers.

    def _next(self) -> None:
        """Begin with the next request, if there is one."""
        self._in_next = True  # an answer that is given at once goes on from here
        while self._waiting and self._busy is None and not self._closed:
            if self._writable is not None:
                break  # not before the client has read what it has
            request = self._busy = self._waiting.popleft()
            self.deadline = FOREVER
            if not self._server.app.answer_directly(request, self._answered):
                self._start(request)
        self._in_next = False
        if self._busy is not None or self._closed or self._writable is not None:
            return
        if self._ended or self._server.ending:
            self._transport.close()
            return
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        limits = self._limits
        wait = limits.request_time if self._reading else limits.idle_time
        self.deadline = time.monotonic() + wait

    def _answered(self, answer: Answer) -> None:
        """Write the answer to the request that is answered now."""
        request, self._busy = self._busy, None
        if self._closed or request is None:
            return
        status, body, headers = answer
        keep = request.keep_alive and not self._server.ending
        head = [STATUS[status]]
        if headers is None:
            head += (JSON_HEAD, str(len(body)).encode(), b"\r\n")
        else:
            for name, value in headers:
                head += (name, b": ", value, b"\r\n")
            head += (b"content-length: ", str(len(body)).encode(), b"\r\n")
        if not keep:
            head.append(CLOSE)
        head.append(b"\r\n")
        if request.method != b"HEAD":
            head.append(body)
        self._transport.write(b"".join(head))
        if not keep:
            self._close()
        elif self._in_next:
            pass
        elif self._waiting or self._paused or self._ended:
            self._next()
        elif self._writable is None:
            limits = self._limits
            self.deadline = time.monotonic() + (
                limits.request_time if self._reading else limits.idle_time
            )

    def _refuse(self, error: RefusalError) -> None:
        """Answer what cannot be read on with, and close."""
        if self._closed or self._transport.is_closing():
            return
        self._ended = True
        if self._busy is not None:  # its answer comes first; then the connection ends
            self._waiting.clear()
            self._busy.keep_alive = False
            return
        self._busy = HttpRequest(b"", b"", [], b"", False, "1.1")
        self._answered(refusal_of(error))
        if error.status >= 500:
            self._server.failed(b"", b"", error.status, error)

    def _close(self) -> None:
        self._ended = True
        self._waiting.clear()
        self.deadline = time.monotonic() + self._limits.read_time
        self._transport.close()

    def late(self) -> None:
        """The time for what it does is over."""
        if self._busy is None and self._reading and not self._ended:
            text = f"the request must arrive within {self._limits.request_time:g} seconds"
            self._refuse(RefusalError(408, "too_slow", text))
        elif self._writable is not None or self._transport.is_closing():
            self._transport.abort()
        else:
            self._close()

    def end(self) -> None:
        """Close it, after the answer that is being made."""
        if self._busy is None and not self._waiting:
            self._close()

    def abort(self) -> None:
        """Close it now."""
        self._transport.abort()

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
        if not path.startswith(b"/"):  # an absolute address, as for a proxy
            path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
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
            "headers": request.headers,
            "client": self._transport.get_extra_info("peername"),
            "server": self._transport.get_extra_info("sockname"),
            "state": {},
        }

    def write(self, data: bytes) -> None:
        """Write a piece of an answer."""
        if not self._closed:
            self._transport.write(data)

    async def writable(self) -> None:
        """Wait until the client has read enough."""
        if self._writable is not None:
            await self._writable.wait()

    def finish(self, keep: bool) -> None:
        """A streamed answer was written."""
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
        """The body, whole; then the end of the connection, when it comes."""
        if not self._read:
            self._read = True
            return {"type": "http.request", "body": self._request.body, "more_body": False}
        if not self.finished:
            await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        """Write what an application answers."""
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
