"""Bytes for the service: requests of the corpus, damaged, and what a server must do about them.

After each input another connection must be answered within a second. The server gives as many
answers as the reader finds requests, however the bytes are divided, and no answer is 500. The
server's memory stays bounded, and its log has no traceback.
"""

from __future__ import annotations

import re
import socket
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import httptools

from tests.fuzz.running import Outcome
from tests.service.conftest import Api
from tests.service.requests_corpus import BODY_BYTES, ENTRIES, get
from tightrope.service.http.answers import HttpRequest, RefusalError
from tightrope.service.http.reading import RequestReader
from tightrope.service.http.server import Limits
from tightrope.service.server import Running

__all__ = ["Bytes", "Target", "request"]

SECONDS = 1.0
ROOM = 64 << 20  # bytes that the server may grow by
TICKET = 2 << 10  # and by for each decision in flight
REFUSALS = {400, 413, 417, 431, 501, 505}
ALLOWED = {501, 503, 505}  # of the statuses from 500 on
LIMITS = Limits(body_bytes=BODY_BYTES)
SOUND = [entry for entry in ENTRIES if entry.kept]
ANSWER = re.compile(rb"HTTP/1\.1 (\d\d\d) [A-Za-z ]+\r\n")
WORDS = [
    *(
        b"\r\n",
        b"\r\n\r\n",
        b"\n",
        b"\r",
        b"\x00",
        b" ",
        b"\t",
        b":",
        b";",
        b",",
        b"=",
        b'"',
        b"\\",
    ),
    *(
        b"0\r\n\r\n",
        b"1\r\n",
        b"ffffffff\r\n",
        b"-1",
        b"0x",
        b"9" * 30,
        b"\xff",
        b"\x80",
        b"#",
        b"%",
    ),
    *(b"Content-Length: 2\r\n", b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n", b"*"),
    *(
        b"Host: localhost\r\n",
        b"Host: a\r\n",
        b"Expect: 100-continue\r\n",
        b"Connection: close\r\n",
    ),
    *(b"Transfer-Encoding: gzip\r\n", b"Upgrade: h2c\r\n", b"Connection: upgrade\r\n", b"HTTP/1.0"),
    *(
        b"GET / HTTP/1.1\r\n",
        b"http://localhost",
        b"HTTP/1.1",
        b"HTTP/2.0",
        b"CONNECT",
        b"{}",
        b"/",
    ),
]


class Bytes(NamedTuple):
    """An input: pieces that are sent one after the other."""

    pieces: tuple[bytes, ...]

    def __str__(self) -> str:
        whole = repr(b"".join(self.pieces))
        shown = whole if len(whole) < 2000 else f"{whole[:1000]} ... {whole[-900:]}"
        return f"{len(self.pieces)} pieces, {sum(map(len, self.pieces))} bytes: {shown}"


def request(seed: int, number: int) -> Bytes:
    """Input ``number`` of a seed: always the same."""
    draw = Random(f"http {seed} {number}")
    entries = draw.choice([SOUND, SOUND, ENTRIES])
    data = b"".join(draw.choice(entries).data for _ in range(draw.choice([1, 1, 1, 2, 3])))
    for _ in range(draw.choice([0, 1, 1, 2, 3, 10])):
        data = draw.choice(CHANGES)(draw, data)
    return Bytes(tuple(_pieces(draw, data)))


def _pieces(draw: Random, data: bytes) -> list[bytes]:
    way = draw.random()
    if way < 0.5 or len(data) < 2:
        return [data]
    if way < 0.9 or len(data) > 400:
        cuts = sorted({0, len(data), *(draw.randrange(len(data)) for _ in range(3))})
        return [data[a:b] for a, b in pairwise(cuts)]
    return [data[at : at + 1] for at in range(len(data))]


def _place(draw: Random, data: bytes) -> int:
    """A place, mostly near the beginning: there is more to break there."""
    return draw.randrange(min(len(data), draw.choice([60, 300, len(data)])) + 1)


def _flipped(draw: Random, data: bytes) -> bytes:
    at = _place(draw, data)
    return (
        data[:at]
        + bytes(one ^ (1 << draw.randrange(8)) for one in data[at : at + 1])
        + data[at + 1 :]
    )


def _replaced(draw: Random, data: bytes) -> bytes:
    at = _place(draw, data)
    return data[:at] + draw.randbytes(1) + data[at + 1 :]


def _with_word(draw: Random, data: bytes) -> bytes:
    at = _place(draw, data)
    return data[:at] + draw.choice(WORDS) + data[at + draw.choice([0, 0, 1, 2]) :]


def _without(draw: Random, data: bytes) -> bytes:
    at = _place(draw, data)
    return data[:at] + data[at + draw.choice([1, 1, 2, 5, 20]) :]


def _doubled(draw: Random, data: bytes) -> bytes:
    at, size = _place(draw, data), draw.choice([1, 2, 10, 40, 200])
    return data[:at] + data[at : at + size] * draw.choice([2, 3, 50]) + data[at + size :]


def _cut(draw: Random, data: bytes) -> bytes:
    return data[: _place(draw, data)]


def _spliced(draw: Random, data: bytes) -> bytes:
    other = draw.choice(ENTRIES).data
    return data[: _place(draw, data)] + other[_place(draw, other) :]


def _line_moved(draw: Random, data: bytes) -> bytes:
    lines = data.split(b"\r\n")
    draw.shuffle(lines[: draw.randrange(len(lines)) + 1])
    lines.insert(draw.randrange(len(lines)), draw.choice(lines))
    return b"\r\n".join(lines)


def _long(draw: Random, data: bytes) -> bytes:
    at = _place(draw, data)
    return data[:at] + draw.choice([b"a", b" ", b"0", b"\r\n", b"a: b\r\n"]) * 9000 + data[at:]


CHANGES: list[Callable[[Random, bytes], bytes]] = [
    *(_flipped, _replaced, _replaced, _with_word, _with_word, _with_word, _without, _doubled),
    *(_cut, _spliced, _line_moved, _long),
]


def expected(pieces: tuple[bytes, ...]) -> tuple[list[HttpRequest], bool]:
    """The requests to be answered, and whether the rest is refused.

    The status may depend on the pieces: of two faults the one is answered that comes first.
    """
    reader, found = RequestReader(LIMITS), list[HttpRequest]()
    try:
        for piece in pieces:
            reader.feed(piece)
            while (one := reader.next()) is not None:
                found.append(one)
                if not one.keep_alive:
                    return found, False
    except RefusalError:
        return found, True
    return found, False


class _Other:
    """The methods and bodies that httptools reads."""

    def __init__(self) -> None:
        self.found: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.parser: Any = httptools.HttpRequestParser(self)

    def on_message_begin(self) -> None:
        self.body = b""

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.found.append((self.parser.get_method(), self.body))


class Target:
    """A server that inputs are sent to; ``seconds``: in which another connection is answered."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds

    def __enter__(self) -> Target:
        self._folder = tempfile.TemporaryDirectory()
        options = ("--body-bytes", str(BODY_BYTES))
        self._server = Running(Path(self._folder.name) / "a.db", *options)
        Api(self._server.url).create("n", budget=1e7)
        for _ in range(50):
            self._is_served()
        self._before, self.grown = self._settled(), 0
        return self

    def __exit__(self, *error: object) -> None:
        self._server.__exit__(*error)
        self._folder.cleanup()

    def run(self, one: Bytes) -> Outcome:
        """Send an input; what is wrong with what the server did, and its last status."""
        start = time.perf_counter()
        requests, refused = expected(one.pieces)
        complaint = self._reading_complaint(one, requests, refused)
        ends = refused or any(not one.keep_alive for one in requests)
        statuses, closed = self._answers(one, len(requests) + refused, ends)
        complaint = complaint or _answer_complaint(statuses, len(requests), refused)
        if not complaint and closed != ends:
            complaint = f"the connection is {'closed' if closed else 'kept'} after {statuses}"
        complaint = complaint or self._server_complaint()
        status = statuses[-1] if statuses else None
        return Outcome.of(complaint, status, time.perf_counter() - start)

    def _reading_complaint(self, one: Bytes, requests: list[HttpRequest], refused: bool) -> str:
        whole = b"".join(one.pieces)
        if expected((whole,)) != (requests, refused):
            return "whole it is read otherwise than in pieces"
        other = _Other()
        try:
            other.parser.feed_data(whole)
        except httptools.HttpParserUpgrade:
            return ""  # what follows is not read by it
        except httptools.HttpParserError:
            pass  # it refuses what it does not know
        for mine, (method, body) in zip(requests, other.found, strict=False):
            if (mine.method, mine.body) != (method, body):
                return f"httptools reads {method!r} {body!r} where {mine} was read"
        return ""

    def _answers(self, one: Bytes, count: int, ends: bool) -> tuple[list[int], bool]:
        """The statuses of as many answers, or of all until the end; whether it was closed."""
        address, found, closed = ("127.0.0.1", self._server.port), b"", False
        with socket.create_connection(address, 10.0) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with suppress(ConnectionError):  # closed while this was being sent
                for piece in one.pieces:
                    connection.sendall(piece)
            connection.settimeout(5.0)
            with suppress(TimeoutError):
                while not closed and (ends or len(_statuses(found)) < count):
                    piece = self._received(connection)
                    found, closed = found + piece, not piece
        return _statuses(found), closed

    def _received(self, connection: socket.socket) -> bytes:
        with suppress(ConnectionError):
            return connection.recv(1 << 18)
        return b""

    def _server_complaint(self) -> str:
        seconds = self._is_served()
        if seconds > self._seconds:
            return f"another connection was answered after {seconds:.1f} s"
        self.grown = max(self.grown, self._resident() - self._before)
        if self.grown > ROOM and self.grown > ROOM + TICKET * (tickets := self._in_flight()):
            return f"the server has grown by {self.grown:,} bytes, with {tickets:,} in flight"
        if "Traceback" in self._server.said:
            said, self._server.said = self._server.said, ""
            return f"a traceback in the log:\n{said[-3000:]}"
        return ""

    def _in_flight(self) -> int:
        return int(Api(self._server.url)("GET", "/v1/campaigns/n")[1]["in_flight"])

    def _is_served(self) -> float:
        """The seconds that another connection waits for its answer."""
        start = time.perf_counter()
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", self._server.port), 15.0) as connection,
        ):
            connection.sendall(get(b"Connection: close"))
            if connection.recv(1000).startswith(b"HTTP/1.1 200"):
                return time.perf_counter() - start
        return float("inf")

    def _settled(self) -> int:
        """Its memory once the policy is compiled, which happens beside the first requests."""
        before = 0
        for _ in range(60):
            now = self._resident()
            if now - before < 2**20:
                return now
            before = now
            time.sleep(3.0)
        return now

    def _resident(self) -> int:
        statm = Path(f"/proc/{self._server.process.pid}/statm").read_text()
        return int(statm.split()[1]) * 4096


def _answer_complaint(statuses: list[int], answered: int, refused: bool) -> str:
    if len(statuses) != answered + refused:
        return f"{len(statuses)} answers instead of {answered + refused}: {statuses}"
    if refused and statuses[-1] not in REFUSALS:
        return f"{statuses[-1]} for what must be refused"
    failures = [one for one in statuses if one >= 500 and one not in ALLOWED]
    return f"statuses {failures}" if failures else ""


def _statuses(found: bytes) -> list[int]:
    return [int(status) for status in ANSWER.findall(found) if status != b"100"]
