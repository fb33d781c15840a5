"""Hostile values in every query and header: refused in words, never a failure of the service."""

from __future__ import annotations

import json
import re
import socket
from urllib.parse import quote

import pytest

from tests.service.conftest import Api
from tightrope.service.http import RefusalError
from tightrope.service.keys import made_key, write_keys
from tightrope.service.openapi import document_of
from tightrope.service.pages.actions import FORMS, inputs_of
from tightrope.service.pages.routes import QUERIES
from tightrope.service.server import Running
from tightrope.service.values import (
    BoundedText,
    DecimalNumber,
    OneOf,
    Sender,
    WholeNumber,
    query_of,
)

NAME = "n"
LARGEST_ANSWER = 1 << 19  # bytes; the log of this campaign has more
RAW = [  # as they stand in an address
    "", "0", "-0", "-1", "+1", "00", "1_0", "1,000", "1.5", "1e3", "1e400", "1E-400", "0x10", "0b1",
    "nan", "NaN", "inf", "-inf", "Infinity", "true", "null", "None", "[]", "{}", "9" * 20,
    "9" * 5000, "0" * 5000, "9007199254740993", "18446744073709551616", "%00", "1%00", "%0d%0aX: y",
    "%ff", "%c0%ae", "%ed%a0%80", "%", "%zz", "%u0031", "..%2f..%2fetc", "%3Cscript%3E", "%20", "+",
    "1%20", "%0a1", "';--", "a=b", "==",
]  # fmt: skip
TYPED = ["²", "１", "٣", "೬", "½", "Ⅷ", "一", "\u200b1", "\ufeff1", "\u202e1", "é", "😀"]
HOSTILE = [*RAW, *map(quote, TYPED)]
HEADERS = [
    b"", b" ", b"http://[", b"http://]", b"http://[::1", b"http://[::1]:99999999",
    b"http://[::::]", b"[::::]", b"[1.2.3.4]",
    b"//", b"://",
    b"http://", b"http://a:b:c", b"http://a@b", b"http://a/b?c#d", b"null", b"NULL",
    b"[", b"]", b"[::",
    b":", b":80", b"a:-1", b"a b", b"\xff\xfe", b"\xed\xa0\x80", b"\xc2\xb2", b"%00", b"x" * 5000,
    b"9" * 5000, b",", b";", b"=", b"a=b; a=b", b'"', b"\\", b"Bearer", b"Bearer ", b"bearer \xff",
    b"Basic !!!", b"Bearer " + b"x" * 5000, b"application/json\xff",
    b"application/json; charset=\xff",
    b"application/jsonx", b"/", b"application/", b"multipart/form-data; boundary=",
    b"localhost:80:80",
    b"tightrope_session=\xff", b'tightrope_session="\\777"', b"tightrope_session=" + b"=" * 3000,
    b"tightrope_session=a.b.c", b"tightrope_session=" + b"." * 100, b"nan", b"-1", b"1e400",
]  # fmt: skip
READ = [b"origin", b"host", b"content-type", b"authorization", b"cookie", b"hx-request"]
HEADER_NAMES = [
    *READ, b"idempotency-key", b"x-idempotency-key", b"accept", b"x-forwarded-for",
    b"x-forwarded-proto", b"forwarded", b"referer",
]  # fmt: skip


def places():
    """Every path of the API and of the pages, with the names that its query may hold."""
    for path, methods in document_of()["paths"].items():
        for method, operation in methods.items():
            known = [one["name"] for one in operation["parameters"] if one["in"] == "query"]
            filled = path.replace("{campaign}", NAME).replace("{ticket}", "t1")
            filled = filled.replace("{arm}", "nobody").replace("{number}", "1")
            yield method.upper(), filled, known
    for path in ("/", "/now", "/favicon.ico", "/nowhere"):
        yield "GET", path, []
    yield "GET", "/login", ["next"]
    yield "GET", "/static/app.js", ["v"]
    for path in ("", "now", "curves", "curves.csv", "data", "events", "reports", "why", "export"):
        yield "GET", f"/campaigns/{NAME}/{path}".rstrip("/"), list(QUERIES.get(path, ()))
    for action, (kind, form) in FORMS.items():
        fields = {kind.place(), *(how.name or field.name for field, how in inputs_of(kind, form))}
        yield "GET", f"/campaigns/{NAME}/act/{action}", [*sorted(fields - {""}), "report"]


PLACES = list(places())


class Connection:
    """Requests written byte by byte, on one connection."""

    def __init__(self, server):
        self._server, self._socket = server, None

    def __call__(self, method, target, *headers, body=b"{}"):
        """The status, the head and the body of the answer; raises if there is none."""
        names = {name for name, _ in headers}
        lines = [f"{method} {target} HTTP/1.1".encode()]
        if b"host" not in names:
            lines.append(b"host: localhost")
        lines += [b"%s: %s" % header for header in headers]
        if method in ("GET", "HEAD"):
            body = b""
        lines += [b"content-length: %d" % len(body), b"", body]
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._server.port), 30)
            self._file = self._socket.makefile("rb")
        self._socket.sendall(b"\r\n".join(lines))
        return self._read()

    def _read(self):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self._file.readline(100_000)
            assert line, f"the connection was dropped after {head!r}"
            head += line
        status, length = int(head.split()[1]), re.search(rb"content-length: (\d+)", head)
        if length is not None:
            body = self._file.read(int(length[1]))
        else:
            body = b"" if status in (204, 304) else self._chunks()
        if b"connection: close" in head:
            self.close()
        return status, head, body

    def _chunks(self):
        body = b""
        while size := int(self._file.readline(), 16):
            body += self._file.read(size + 2)[:-2]
        self._file.readline()
        return body

    def close(self):
        if self._socket is not None:
            self._file.close()
            self._socket.close()
            self._socket = None


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A service whose log is longer than an answer may be."""
    with Running(tmp_path_factory.mktemp("values") / "a.db") as running:
        api = Api(running.url)
        api.create(NAME, budget=1e6)
        for start in range(0, 5000, 1000):
            items = [{"id": f"t{start + i}"} for i in range(1000)]
            assert (
                api("POST", f"/v1/campaigns/{NAME}/decisions/batch", {"decisions": items})[0] < 300
            )
        api("POST", f"/v1/campaigns/{NAME}/reports", {"id": "t1", "cost": -1, "reward": 1})
        yield running


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A service with keys, and a key of it."""
    folder = tmp_path_factory.mktemp("guarded")
    secret, key = made_key("ops", ["admin"])
    write_keys(folder / "keys", [key])
    with Running(folder / "a.db", "--keys", str(folder / "keys")) as running:
        Api(running.url, secret).create(NAME)
        yield running, secret


@pytest.fixture
def send(server):
    connection = Connection(server)
    yield connection
    connection.close()


def fine(found, at_most=LARGEST_ANSWER):
    """Hold an answer to what every answer must be."""
    status, head, body = found
    assert status < 500, (head, body)
    assert len(body) < at_most, len(body)
    if b"application/problem+json" in head:
        detail = json.loads(body)["detail"]
        assert detail
        assert "\n" not in detail
        assert len(detail) < 600
    return status


@pytest.mark.parametrize(("method", "path", "known"), PLACES, ids=lambda one: str(one)[:60])
def test_every_query_of_every_path_is_read_or_refused(send, method, path, known):
    changes = method in ("PUT", "DELETE") or "close" in path or "pause" in path or "drain" in path
    if changes:  # a query is refused before anything is done
        assert fine(send(method, f"{path}?x=1")) in (400, 404)
        return
    most = 1 << 24 if path.endswith("export") else LARGEST_ANSWER
    form = "/act/" in path  # each looks at the store, which takes its time
    for name in [*known, "unknown"]:
        numeric = name in known and (name == "number" or not form)
        for value in HOSTILE if numeric else HOSTILE[::8]:
            fine(send(method, f"{path}?{name}={value}"), most)
        first = fine(send(method, f"{path}?{name}=1&{name}=1"), 1 << 24)
        assert first in (303, 400, 401, 404), (name, first)
    for whole in ("?", "&&&", "=", "=1", "%00=1", "%ff=1", "a" * 5000, "a=1&" * 3000, "²=1"):
        fine(send(method, f"{path}?{quote(whole, safe='?&=%')}"), 1 << 24)


@pytest.mark.parametrize("value", HOSTILE, ids=lambda one: one[:20] or "empty")
def test_every_part_of_a_path_is_found_or_refused(send, value):
    base = f"/v1/campaigns/{NAME}"
    for path in (f"/v1/campaigns/{value}", f"{base}/decisions/{value}", f"{base}/{value}",
                 f"{base}/decisions/{value}/why", f"/campaigns/{value}",
                 f"/campaigns/{NAME}/{value}",
                 f"/campaigns/{NAME}/act/{value}", f"/static/{value}", f"/{value}"):  # fmt: skip
        fine(send("GET", path), 1 << 20)
    for path in (f"{base}/quarantine/{value}/discard", f"/v1/campaigns/{value}x/decisions"):
        fine(send("POST", path))
    fine(send("DELETE", f"{base}/arms/{value}"))


@pytest.mark.parametrize("name", HEADER_NAMES, ids=lambda one: one.decode())
def test_every_header_is_read_or_refused(send, name):
    base = f"/v1/campaigns/{NAME}"
    targets = [("GET", base), ("POST", f"{base}/decisions"), ("POST", f"{base}/voids"),
               ("GET", "/"),
               ("POST", f"{base}/resume"), ("POST", f"/campaigns/{NAME}/act/resume"),
               ("GET", f"/campaigns/{NAME}"), ("POST", "/logout"), ("GET", "/healthz")]  # fmt: skip
    for number, value in enumerate(HEADERS):
        for method, target in targets if name in READ else targets[:3]:
            fine(send(method, target, (name, value)))
            if number % 8 == 0:
                fine(send(method, target, (name, value), (name, value)))


@pytest.mark.parametrize("name", [b"authorization", b"cookie", b"origin", b"host"])
def test_headers_of_strangers_are_refused_where_keys_are(guarded, name):
    send = Connection(guarded[0])
    base = f"/v1/campaigns/{NAME}"
    for value in HEADERS:
        for method, target in (("GET", base), ("POST", f"{base}/decisions"), ("GET", "/"),
                               ("GET", f"/campaigns/{NAME}"), ("POST", "/login")):  # fmt: skip
            assert fine(send(method, target, (name, value))) in (303, 400, 401, 403)
    send.close()


def test_an_origin_that_is_none_is_refused_in_words(send):
    for target in (f"/v1/campaigns/{NAME}/decisions", f"/campaigns/{NAME}/act/resume"):
        status, _, body = send("POST", target, (b"origin", b"http://["))
        assert status == 400
        assert (
            json.loads(body)["detail"] == "Origin = 'http://[': must be scheme://host:port, or null"
        )


def test_a_page_of_the_log_is_bounded(send):
    """The number before which events are shown may be anything; there are never more than 50."""
    for before, rows in ((0, 0), (1, 0), (2, 1), (30, 29), (1000, 50), (2**53, 50)):
        status, _, body = send("GET", f"/campaigns/{NAME}/events?before={before}")
        assert (status, body.count(b"<tr><td")) == (200, rows)
    for value in ("²", "9" * 5000, "-1", "1_0", "", "%D9%A3"):
        status, _, body = send("GET", f"/campaigns/{NAME}/events?before={quote(value, safe='%')}")
        assert status == 400
        assert b"query before" in body
        assert b"must be a whole number from 0 to 9007199254740992" in body


def test_lists_have_pages(server):
    api = Api(server.url)
    for name in ("second", "third"):
        api.create(name)
    listed = api("GET", "/v1/campaigns")[1]["campaigns"]
    names = [one["name"] for one in listed]
    assert names == [NAME, "second", "third"]
    first = api("GET", "/v1/campaigns?limit=1")[1]["campaigns"]
    rest = api("GET", f"/v1/campaigns?after={NAME}&limit=1")[1]["campaigns"]
    assert [one["name"] for one in first + rest] == names[:2]
    assert api("GET", "/v1/campaigns?after=third")[1]["campaigns"] == []
    assert api("GET", "/v1/campaigns?after=nobody")[0] == 404
    assert api("GET", "/v1/campaigns?limit=1001")[0] == 400


def test_the_events_of_an_answer_are_bounded_in_bytes(server, monkeypatch):
    from tightrope.live.stores import open_store
    from tightrope.service import campaigns

    store = open_store(str(server._options[0]))
    whole = campaigns._lines(store, NAME, 0, 1000)
    monkeypatch.setattr(campaigns, "MOST_BYTES", 5000)
    part = campaigns._lines(store, NAME, 0, 1000)
    assert 5000 < len(part) < 7000
    assert whole.startswith(part)
    store.close()


# The parser alone.


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (b"limit=0", "query limit = '0': must be a whole number from 1 to 10, in digits 0 to 9"),
        (
            b"limit=1_0",
            "query limit = '1_0': must be a whole number from 1 to 10, in digits 0 to 9",
        ),
        (b"doubt=nan", "query doubt = 'nan': must be a number from 0 to 0.5"),
        (b"form=xml", "query form = 'xml': must be 'csv' or 'ndjson'"),
        (b"name=%00", r"query name = '\x00': must be at most 5 characters, without NUL"),
        (b"name=a&name=b", "query name: must be given once"),
        (b"nam=a", "query 'nam': is unknown; known: limit, doubt, form, name"),
        (b"name=%ff", "query = '%ff': must be percent-encoded UTF-8"),
    ],
)
def test_a_refusal_names_the_value_the_place_and_what_is_allowed(query, message):
    known = {"limit": WholeNumber(1, 10), "doubt": DecimalNumber(0, 0.5),
             "form": OneOf(["csv", "ndjson"]), "name": BoundedText(5)}  # fmt: skip
    with pytest.raises(RefusalError) as caught:
        query_of(query, known)
    assert (caught.value.status, str(caught.value)) == (400, message)


def test_values_that_are_allowed_are_read():
    known = {"limit": WholeNumber(1, 10), "doubt": DecimalNumber(0, 0.5), "name": BoundedText(5)}
    found = query_of(b"limit=007&doubt=1e-2&name=a+%C3%A9", known)
    assert found == {"limit": 7, "doubt": 0.01, "name": "a é"}
    assert query_of(b"&&", known) == {}
    sender = Sender([(b"host", b"[::1]:80"), (b"origin", b"http://[::1]:80"),
                     (b"content-type", b"Application/JSON; charset=utf-8")])  # fmt: skip
    assert (sender.origin, sender.content_type) == (sender.host, b"application/json")
