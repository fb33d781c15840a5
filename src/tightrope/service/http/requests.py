"""A parsed request and the parts of its path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from tightrope.service.http.answers import RefusalError

BODY = 1 << 20  # bytes of a request, at most
LOOPBACK = frozenset(["localhost", "127.0.0.1", "[::1]"])


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
