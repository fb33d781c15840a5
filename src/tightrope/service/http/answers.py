"""Parsed requests, complete answers, and refusals as ``problem+json`` (RFC 9457)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from tightrope.errors import TightropeError

Answer = tuple[int, bytes, "list[tuple[bytes, bytes]] | None"]  # None: the headers of plain JSON
JSON = (b"content-type", b"application/json")
JSON_HEAD = b"content-type: application/json\r\ncontent-length: "
STATUS = {one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in HTTPStatus}
CLOSE = b"connection: close\r\n"
PROBLEM = (b"content-type", b"application/problem+json")
BODY = 1 << 20  # bytes of a request, at most
LOOPBACK = frozenset(["localhost", "127.0.0.1", "[::1]"])
TITLES = {  # of what is refused here; an application has more
    400: "malformed request",
    408: "request too slow",
    413: "too large",
    417: "expectation not met",
    431: "headers too large",
    500: "failure",
    501: "not implemented",
    503: "not available",
    505: "HTTP version not supported",
}


class RefusalError(TightropeError):
    """A request that is refused before it has any effect."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status  # type: ignore[misc]
        self.code = code
        self.headers = [
            (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
        ]


def failure_of(error: BaseException) -> RefusalError:
    """An unexpected error as it is shown to a client."""
    return RefusalError(500, "internal", f"an error in the service: {type(error).__name__}")


def refusal_of(error: RefusalError) -> Answer:
    """A refusal as a complete answer."""
    told = {"status": error.status, "detail": str(error), "code": error.code}
    body = json.dumps({"title": TITLES[error.status], **told}).encode()
    return error.status, body, [PROBLEM, *error.headers]


def written(answer: Answer, keep: bool, with_body: bool = True) -> bytes:
    """A complete answer as bytes; ``keep``: whether the connection stays open."""
    status, body, headers = answer
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
    if with_body:
        head.append(body)
    return b"".join(head)


@dataclass(slots=True)
class HttpRequest:
    """A parsed request."""

    method: bytes
    url: bytes
    headers: list[tuple[bytes, bytes]]  # names in lower case
    body: bytes
    keep_alive: bool
    version: str


def require_local(host: bytes) -> None:
    """Raise unless a Host header names this machine, with or without a port."""
    text = host.decode("latin-1")
    name = text if text.endswith("]") or ":" not in text else text.rpartition(":")[0]
    if name.lower() not in LOOPBACK:
        allowed = "must be localhost, 127.0.0.1 or [::1]"
        raise RefusalError(403, "forbidden", f"Host {text[:80]!r}: {allowed}")


def decoded_part(part: bytes) -> str:
    """A part of a path as text."""
    try:
        return unquote(part.decode("ascii"), errors="strict")
    except UnicodeDecodeError:
        raise RefusalError(400, "malformed", "path: must be percent-encoded UTF-8") from None


async def body_of(receive: Any) -> bytes:
    """The body of a request."""
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
        if len(body) > BODY:
            raise RefusalError(413, "too_large", f"body: must be at most {BODY} bytes")
    return body
