"""Parses the bytes of a connection into requests, strictly by RFC 9112.

Bytes of a body count against ``body_bytes``, all other bytes (blank lines, heads, chunk sizes,
trailers) against ``header_bytes``, so every part of a request is limited. One grammar matches a
whole head or trailer section. Nothing is repaired: a request that two servers could read in
different ways is refused, and its connection is closed.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from tightrope.service.http.answers import HttpRequest, RefusalError

if TYPE_CHECKING:
    from tightrope.service.http.server import Limits

METHODS = frozenset([b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"])
READ_HERE = frozenset([b"host", b"content-length", b"transfer-encoding", b"expect", b"connection"])
MOST_HEADS, MOST_BYTES = 16, 1024  # that are remembered of a connection, and of each of them
LONGEST_START = 64  # bytes of a line that are looked at before it is whole
END, BLANK = b"\r\n", b"\r\n\r\n"

# Possessive quantifiers (*+, ++) never go back: the time is proportional to the bytes.
TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
HOST = rb"(?:\[[0-9A-Fa-f:.]++\]|(?:[\w\-.~!$&'()*+,;=]|%[0-9A-Fa-f]{2})++)(?::[0-9]{0,5})?"
QUOTED = rb"\"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*+\""
EXTENSION = (
    rb"[ \t]*+;[ \t]*+" + TOKEN + rb"(?:[ \t]*+=[ \t]*+(?:" + TOKEN + rb"|" + QUOTED + rb"))?"
)
START = re.compile(TOKEN + rb"(?: |\r?+\Z)|\r?+\Z")  # of a line that has not come whole
REQUEST_LINE = re.compile(rb"(" + TOKEN + rb") (\S++) HTTP/([0-9]\.[0-9])")
FIELD = re.compile(rb"(" + TOKEN + rb"):[ \t]*+([^\x00-\x08\n-\x1f\x7f]*+)")
VISIBLE, AUTHORITY = re.compile(rb"[!\"$-~]++"), re.compile(HOST)
ABSOLUTE_FORM = re.compile(rb"(?i:https?)://(" + HOST + rb")([/?].*+)?")
CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]++)(?:" + EXTENSION + rb")*+\r\n")
BLANK_LINES = re.compile(rb"(?:\r\n)*+")
NOT_IN_LINES = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n|\Z)|(?<!\r)\n")

Fields = list[tuple[bytes, bytes]]
Head = tuple[bytes, bytes, Fields, bool, str, "int | None", bool]  # see head_of


class RequestReader:
    """The requests of one connection."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.waits = False  # whether the client waits for "100 Continue"
        self._data, self._at = b"", 0  # what has come, and how far it was taken
        self._searched = 0  # how far the end of a head or a line was looked for
        self._counted = 0  # bytes of this request that are no body
        self._checked = False  # whether the first line is well-formed, of a head that is not whole
        self._heads: dict[bytes, Head] = {}  # that were read before
        self._request: HttpRequest | None = None  # whose body is read
        self._chunked = False
        self._wanted: int | None = None  # bytes of the body, or of the chunk; None: a chunk's size
        self._body = bytearray()

    @property
    def begun(self) -> bool:
        """Whether bytes have arrived that were not returned as a request."""
        return self._at < len(self._data) or self._request is not None

    def feed(self, data: bytes) -> None:
        """Add bytes that have arrived."""
        self._data = self._data[self._at :] + data if self._at < len(self._data) else data
        self._searched = max(self._searched - self._at, 0)
        self._at = 0

    def next(self) -> HttpRequest | None:
        """The next request; None if it is incomplete. Raises a :class:`RefusalError`."""
        if self._request is None and not self._read_head():
            return None
        body = self._read_chunks() if self._chunked else self._read_body()
        if body is None:
            return None
        request, self._request, self._counted = self._request, None, 0
        request.body = body  # type: ignore[union-attr]
        return request

    def _read_head(self) -> bool:
        """Read a head; returns whether it is complete."""
        if self._at == len(self._data):
            return False
        if self._data.startswith(END, self._at):
            blank = BLANK_LINES.match(self._data, self._at)
            assert blank is not None
            self._count(blank.end() - self._at)
            self._at = blank.end()
        text = self._up_to(BLANK)
        if text is None:
            self._check_line()
            return False
        self._checked = False
        head = self._heads.get(text)
        if head is None:
            head = self._remembered(text, head_of(text, self._limits))
        method, target, fields, keep_alive, version, self._wanted, waits = head
        self._request = HttpRequest(method, target, fields, b"", keep_alive, version)
        self._chunked = self._wanted is None
        self.waits = waits and self._at == len(self._data)
        return True

    def _check_line(self) -> None:
        """Raise if the first line is malformed, before the rest arrives."""
        if self._checked:
            return
        end = self._data.find(END, self._at)
        if end >= 0:
            request_line_of(self._data[self._at : end])
            self._checked = True
        elif not START.match(self._data, self._at, self._at + LONGEST_START):
            start = self._data[self._at : self._at + LONGEST_START]
            raise malformed(f"request line {shown(start)}: must be METHOD TARGET HTTP/1.1")

    def _remembered(self, text: bytes, head: Head) -> Head:
        """A parsed head; cached, because clients send the same few heads."""
        if len(text) <= MOST_BYTES:
            if len(self._heads) >= MOST_HEADS:
                self._heads.clear()
            self._heads[text] = head
        return head

    def _read_body(self) -> bytes | None:
        wanted, at = self._wanted, self._at
        if not self._body and wanted <= len(self._data) - at:  # type: ignore[operator]
            self._at = at + wanted  # type: ignore[operator]
            return self._data[at : self._at]
        return self._whole() if self._gathered() else None

    def _read_chunks(self) -> bytes | None:
        """A chunked body, once it and its trailers are complete."""
        while self._wanted != 0:
            if self._wanted is None:
                line = self._up_to(END)
                if line is None:
                    return None
                size = self._chunk_size(line)
                self._wanted = size + 2 if size else 0
                if not size:  # the end of this line may be that of the trailers, too
                    self._at, self._counted = self._at - 2, self._counted - 2
                continue
            if not self._gathered():
                return None
            if not self._body.endswith(END):
                raise malformed("chunk: must have as many bytes as its size says")
            del self._body[-2:]
            self._count(2)
            self._wanted = None
        trailers = self._up_to(BLANK)
        if trailers is None:
            return None
        lines = trailers.split(END)[1:-1]
        fields_of(lines, self._limits)  # they must be well-formed, and are not used
        return self._whole()

    def _chunk_size(self, line: bytes) -> int:
        found = CHUNK_SIZE.fullmatch(line)
        if found is None:
            raise malformed(f"chunk size {shown(line)}: must be a hexadecimal number")
        size = int(found[1], 16)
        if len(self._body) + size > self._limits.body_bytes:
            raise body_error(self._limits)
        return size

    def _gathered(self) -> bool:
        """Add bytes to the body; returns whether it is complete."""
        piece = self._data[self._at : self._at + self._wanted]  # type: ignore[operator]
        self._body += piece
        self._at += len(piece)
        self._wanted -= len(piece)  # type: ignore[operator]
        return self._wanted == 0

    def _whole(self) -> bytes:
        body, self._body = bytes(self._body), bytearray()
        return body

    def _up_to(self, mark: bytes) -> bytes | None:
        """Take the bytes up to a mark, with one line end; None if the mark has not arrived."""
        data, at = self._data, self._at
        end = data.find(mark, max(at, self._searched - len(mark) + 1))
        if end < 0:
            if self._counted + len(data) - at > self._limits.header_bytes:
                raise headers_error(self._limits)
            wrong = NOT_IN_LINES.search(data, max(at, self._searched - 1))
            if wrong or data.startswith(b"\n", at):  # the CR before may belong to a body
                raise malformed("request: must be HTTP/1.1, with lines that end in CR LF")
            self._searched = len(data)
            return None
        self._at = self._searched = end + len(mark)
        self._count(self._at - at)
        return data[at : end + 2]

    def _count(self, size: int) -> None:
        """Count bytes outside a body."""
        self._counted += size
        if self._counted > self._limits.header_bytes:
            raise headers_error(self._limits)


def head_of(text: bytes, limits: Limits) -> Head:
    """The method, the target, the headers, whether the connection is kept, the version, the bytes
    of the body (None: it comes in chunks), whether the client waits before it sends them.
    """
    line, *lines, _ = text.split(END)
    method, target, version = request_line_of(line)
    fields = fields_of(lines, limits)
    read: dict[bytes, bytes] = {}
    for name, value in fields:
        if name in READ_HERE:  # repeated fields are one list (RFC 9110, 5.3)
            read[name] = read[name] + b", " + value if name in read else value
    host = read.get(b"host")
    if not (version == "1.0" if host is None else is_authority(host)):
        given = "" if host is None else f" {shown(host)}"
        raise malformed(f"Host{given}: must be given once, as NAME or NAME:PORT")
    length = length_of(read, version, limits)
    waits = b"expect" in read and waits_of(read[b"expect"]) and version == "1.1" and length != 0
    kept = is_kept(read.get(b"connection"), version)
    if not target.startswith(b"/"):
        target, fields = target_of(method, target, fields)
    return method, target, fields, kept, version, length, waits


@lru_cache(128)
def request_line_of(line: bytes) -> tuple[bytes, bytes, str]:
    """The method, the target and the version of a request."""
    found = REQUEST_LINE.fullmatch(line)
    if found is None:
        raise malformed(f"request line {shown(line)}: must be METHOD TARGET HTTP/1.1")
    method, target, version = found[1], found[2], found[3].decode()
    if version not in ("1.0", "1.1"):
        raise RefusalError(505, "version", f"HTTP/{version}: must be HTTP/1.1 or HTTP/1.0")
    if method not in METHODS:
        known = b", ".join(sorted(METHODS)).decode()
        raise RefusalError(501, "not_implemented", f"method {shown(method)}: must be {known}")
    if VISIBLE.fullmatch(target) is None:
        raise malformed(f"target {shown(target)}: must be visible ASCII without #")
    return method, target, version


def fields_of(lines: list[bytes], limits: Limits) -> Fields:
    """Headers or trailers, with names in lower case."""
    if len(lines) > limits.headers:
        raise headers_error(limits)
    return [field_of(line) for line in lines]


@lru_cache(256)
def field_of(line: bytes) -> tuple[bytes, bytes]:
    """A parsed header; cached, because clients repeat most headers."""
    found = FIELD.fullmatch(line)
    if found is None:
        raise malformed(f"header {shown(line)}: must be NAME: VALUE on one line")
    return found[1].lower(), found[2].rstrip(b" \t")


@lru_cache(64)
def is_authority(host: bytes) -> bool:
    """Whether a value is a name or an address, with or without a port."""
    return AUTHORITY.fullmatch(host) is not None


@lru_cache(64)
def is_kept(connection: bytes | None, version: str) -> bool:
    """Whether the client keeps the connection open after this request."""
    if connection is None:
        return version == "1.1"
    options = [one.strip(b" \t").lower() for one in connection.split(b",")]
    return b"close" not in options and (version == "1.1" or b"keep-alive" in options)


def length_of(read: dict[bytes, bytes], version: str, limits: Limits) -> int | None:
    """The number of bytes of a body; None for a chunked body."""
    length, coding = read.get(b"content-length"), read.get(b"transfer-encoding")
    if coding is not None:
        check_coding(coding, length, version)
        return None
    if length is None:
        return 0
    if not length.isdigit():
        raise malformed(f"Content-Length {shown(length)}: must be one whole number")
    digits = length.lstrip(b"0")
    if len(digits) > 18 or int(digits or b"0") > limits.body_bytes:
        raise body_error(limits)
    return int(digits or b"0")


def check_coding(coding: bytes, length: bytes | None, version: str) -> None:
    """Raise unless ``chunked`` is the only transfer coding."""
    if version == "1.0" or length is not None:
        other = "HTTP/1.0" if length is None else "Content-Length"
        raise malformed(f"Transfer-Encoding: must not be used with {other}")
    codings = [one.strip(b" \t").lower() for one in coding.split(b",")]
    if codings.count(b"chunked") != 1 or codings[-1] != b"chunked":
        raise malformed(f"Transfer-Encoding {shown(coding)}: must end with chunked, once")
    if len(codings) > 1:
        text = f"Transfer-Encoding {shown(coding)}: must be chunked alone"
        raise RefusalError(501, "not_implemented", text)


def waits_of(expect: bytes) -> bool:
    """Whether a client sends its body only after ``100 Continue``."""
    if expect.lower() != b"100-continue":
        raise RefusalError(417, "expectation", f"Expect {shown(expect)}: must be 100-continue")
    return True


def target_of(method: bytes, target: bytes, fields: Fields) -> tuple[bytes, Fields]:
    """A target that is not a path: a URL, whose host replaces the Host header, or ``*``."""
    if target == b"*" and method == b"OPTIONS":
        return target, fields
    found = ABSOLUTE_FORM.fullmatch(target)
    if found is None:
        raise malformed(f"target {shown(target)}: must be a path, or an http address")
    path = found[2] or b"/"
    path = path if path.startswith(b"/") else b"/" + path
    return path, [(b"host", found[1]), *(one for one in fields if one[0] != b"host")]


def malformed(text: str) -> RefusalError:
    """The refusal of bytes that are not HTTP."""
    return RefusalError(400, "malformed", text)


def headers_error(limits: Limits) -> RefusalError:
    """The refusal of headers that are too large."""
    text = f"headers: must be at most {limits.headers}, and {limits.header_bytes} bytes together"
    return RefusalError(431, "too_large", f"{text} with the request line, chunk sizes and trailers")


def body_error(limits: Limits) -> RefusalError:
    """The refusal of a body that is too large."""
    return RefusalError(413, "too_large", f"body: must be at most {limits.body_bytes} bytes")


def shown(value: bytes) -> str:
    """A value as shown in a message."""
    return repr(value[:80].decode("latin-1"))
