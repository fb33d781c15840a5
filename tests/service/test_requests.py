"""Every request of the corpus gets its answer, however its bytes arrive; nothing is unlimited."""

from __future__ import annotations

import contextlib
import re
import socket
from pathlib import Path

import httptools
import pytest

from tests.service.conftest import Api
from tests.service.requests_corpus import BODY_BYTES, ENTRIES, Entry, chunked, get, sized
from tightrope.service.http.answers import RefusalError
from tightrope.service.http.reading import RequestReader
from tightrope.service.http.server import Limits
from tightrope.service.server import Running

LIMITS = Limits(body_bytes=BODY_BYTES)
NAMES = [entry.name for entry in ENTRIES]
SHORT = [entry for entry in ENTRIES if len(entry.data) < 300][::4]
ANSWER = re.compile(rb"HTTP/1\.1 (\d\d\d) [A-Za-z ]+\r\n")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    options = ("--body-bytes", str(BODY_BYTES))
    with Running(tmp_path_factory.mktemp("requests") / "a.db", *options) as running:
        Api(running.url).create("n", budget=1e6)
        yield running
    assert "Traceback" not in running.said


def answered(server: Running, entry: Entry, pieces: list[bytes]) -> tuple[tuple[int, ...], bool]:
    """The statuses that some bytes get, and whether the connection is kept."""
    address = ("127.0.0.1", server.port)
    with socket.create_connection(address, 8.0) as connection:  # less than a late request gets
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found = b""
        try:
            for piece in pieces:
                connection.sendall(piece)
            if entry.kept:
                connection.sendall(get(b"Connection: close", line=b"GET /kept HTTP/1.1"))
        except OSError:
            pass  # it was closed meanwhile; the answer is there all the same
        try:
            while piece := connection.recv(65536):
                found += piece
        except ConnectionResetError:
            pass
    statuses = tuple(int(status) for status in ANSWER.findall(found) if status != b"100")
    return (statuses[:-1], True) if entry.kept and statuses[-1:] == (404,) else (statuses, False)


@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_an_entry_gets_its_answer(server, entry):
    assert answered(server, entry, [entry.data]) == (entry.statuses, entry.kept)


@pytest.mark.parametrize("entry", SHORT, ids=[entry.name for entry in SHORT])
def test_an_entry_gets_its_answer_byte_by_byte(server, entry):
    pieces = [entry.data[at : at + 1] for at in range(len(entry.data))]
    assert answered(server, entry, pieces) == (entry.statuses, entry.kept)


def test_the_corpus_is_large():
    assert len(ENTRIES) >= 300
    assert len(set(NAMES)) == len(NAMES)
    assert sum(not entry.kept for entry in ENTRIES) >= 300
    assert len(SHORT) > 100


def read(pieces):
    """The requests that pieces of bytes are, and the status of what ends them."""
    reader, found = RequestReader(LIMITS), []
    try:
        for piece in pieces:
            reader.feed(piece)
            while (request := reader.next()) is not None:
                found.append(request)
    except RefusalError as error:
        return found, error.status
    return found, None


@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_where_the_bytes_are_divided_makes_no_difference(entry):
    data = entry.data
    whole = read([data])
    step = max(1, len(data) // 200)
    for at in range(1, len(data), step):
        assert read([data[:at], data[at:]]) == whole
    for size in (1, 2, 3, 7) if len(data) < 30_000 else (1000, 4096):
        assert read([data[at : at + size] for at in range(0, len(data), size)]) == whole


class Other:
    """The requests that httptools reads."""

    def __init__(self):
        self.found = []
        self.parser = httptools.HttpRequestParser(self)

    def on_message_begin(self):
        self.url, self.body, self.headers, self.in_head = b"", b"", [], True

    def on_url(self, url):
        self.url += url

    def on_header(self, name, value):
        if self.in_head:
            self.headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self):
        self.in_head = False

    def on_body(self, body):
        self.body += body

    def on_message_complete(self):
        self.found.append((self.parser.get_method(), self.url, self.headers, self.body))


@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_another_parser_reads_nothing_else_in_what_is_read(entry):
    mine = [(r.method, r.url, r.headers, r.body) for r in read([entry.data])[0]]
    other = Other()
    with contextlib.suppress(httptools.HttpParserError):  # it refuses some extensions
        try:
            other.parser.feed_data(entry.data)
        except httptools.HttpParserUpgrade:
            return  # what follows is not read as HTTP
    for (method, url, headers, body), theirs in zip(mine, other.found, strict=False):
        assert (method, body) == (theirs[0], theirs[3])
        if theirs[1].startswith(b"/"):
            assert (url, headers) == theirs[1:3]


def test_trailers_change_no_header():
    trailer = b"2\r\n{}\r\n0\r\nAuthorization: x\r\nHost: y\r\nConnection: close\r\n\r\n"
    (request,), status = read([chunked(trailer, b"Authorization: mine")])
    assert status is None
    assert request.keep_alive
    assert dict(request.headers)[b"authorization"] == b"mine"
    assert [name for name, _ in request.headers] == [
        b"host",
        b"transfer-encoding",
        b"authorization",
    ]


def resident(process: int) -> int:
    """Bytes of memory of a process."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * 4096


ENDLESS = {
    "a trailer's value": (chunked(b"0\r\na: "), b"b" * 10_000),
    "trailers": (chunked(b"0\r\n"), b"a: b\r\n" * 1000),
    "a chunk extension": (chunked(b"1;a="), b"b" * 10_000),
    "chunk sizes": (chunked(b""), b"1\r\n \r\n" * 1000),
    "zeros of a chunk size": (chunked(b""), b"0" * 10_000),
    "a target": (b"GET /", b"a" * 10_000),
    "a header's name": (get()[:-2], b"a" * 10_000),
    "a header's value": (get()[:-2] + b"a: ", b"b" * 10_000),
    "headers": (get()[:-2], b"a: b\r\n" * 1000),
    "blank lines": (get(), b"\r\n" * 5000),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_what_has_no_end_is_refused_and_takes_no_memory(server, what):
    start, more = ENDLESS[what]
    before = resident(server.process.pid)
    with socket.create_connection(("127.0.0.1", server.port), 10.0) as connection:
        connection.sendall(start)
        try:
            for _ in range(2000):  # 20 MB
                connection.sendall(more)
        except OSError:
            pass
        else:
            raise AssertionError("20 MB were taken")
    assert resident(server.process.pid) - before < 4 << 20
    assert Api(server.url)("GET", "/healthz")[0] == 200


def test_a_body_in_small_pieces_takes_the_memory_of_a_body():
    import tracemalloc

    data, reader = sized(b" " * 90_000), RequestReader(LIMITS)
    tracemalloc.start()
    for at in range(0, len(data) - 10, 2):
        reader.feed(data[at : at + 2])
        assert reader.next() is None
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken < 200_000


def test_heads_that_are_remembered_are_few():
    reader = RequestReader(LIMITS)
    for number in range(1000):
        reader.feed(get(b"a: %d" % number) + get(b"a: b"))
        requests = [reader.next(), reader.next()]
        assert requests[0].headers[1] == (b"a", b"%d" % number)
        assert requests[1].headers[1] == (b"a", b"b")
    assert len(reader._heads) <= 16


EARLY = {
    b"\x16\x03\x01\x02": 400,  # TLS
    b"<html>": 400,
    b" GET / HTTP/1.1": 400,
    b"GET\t/": 400,
    b"\r\n\r\n(": 400,
    b"GET / HTTP/1.1 \r\n": 400,
    b"GET\r\nHost: a\r\n": 400,
    b"GET / HTTP/1.1\r\nHost: a\r\n": None,  # well-formed so far
    b"PRI * HTTP/2.0\r\n": 505,
    b"BREW /pot HTTP/1.1\r\n": 501,
    b"BREW": None,
    b"M" * 100: None,
    b"\r": None,
    b"\r\n\r": None,
    b"GET /long": None,
}


@pytest.mark.parametrize("data", EARLY)
def test_a_malformed_first_line_is_refused_before_the_head_ends(data):
    """In one piece, and byte by byte."""
    for pieces in ([data], [data[at : at + 1] for at in range(len(data))]):
        assert read(pieces) == ([], EARLY[data])


def test_a_malformed_first_line_gets_its_answer_at_once(server):
    """Less than the time that a request has to arrive: the socket waits no longer than that."""
    with socket.create_connection(("127.0.0.1", server.port), 8.0) as connection:
        connection.sendall(b"<hello>")
        found = b""
        while piece := connection.recv(65536):
            found += piece
    assert found.startswith(b"HTTP/1.1 400 ")
