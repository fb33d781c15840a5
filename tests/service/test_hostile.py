"""Slow, broken and hostile clients: each is refused or closed, and others are served meanwhile."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time

import pytest

from tests.service.conftest import Api
from tightrope.service.server import Running

BODY = 100_000


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with small limits and a campaign."""
    options = ("--connections", "60", "--body-bytes", str(BODY))
    with Running(tmp_path_factory.mktemp("hostile") / "a.db", *options) as running:
        Api(running.url).create("n", budget=1e6)
        yield running


@pytest.fixture
def api(server):
    return Api(server.url)


@pytest.fixture(autouse=True)
def _others_are_served(server):
    yield
    api = Api(server.url)
    until = time.monotonic() + 20
    while api("GET", "/healthz")[0] != 200:
        assert time.monotonic() < until
        time.sleep(0.1)
    assert api("POST", "/v1/campaigns/n/decisions")[0] == 201
    for account in api("GET", "/v1/campaigns/n/ledger")[1]["accounts"]:
        ticks = account["ticks"]
        assert ticks["budget"] == ticks["spent"] + ticks["reserved"] + ticks["free"]


def connected(server, seconds=30.0):
    return socket.create_connection(("127.0.0.1", server.port), seconds)


def all_of(connection):
    found = b""
    try:
        while piece := connection.recv(65536):
            found += piece
    except ConnectionResetError:
        pass
    return found


def closed(connection, seconds=20.0):
    """Whether the server closes a connection on which its client goes on sending."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            connection.sendall(b"z")
        except OSError:
            return True
        time.sleep(0.05)
    return False


def said(server, data):
    """What the server answers to some bytes, until it closes the connection."""
    with connected(server) as connection:
        connection.sendall(data)
        return all_of(connection)


def head(path="/v1/campaigns/n/decisions", *headers, method="POST"):
    lines = [f"{method} {path} HTTP/1.1", "host: localhost", *headers, "", ""]
    return "\r\n".join(lines).encode()


def problem(answer):
    first, _, rest = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in first
    found = json.loads(rest)
    assert int(first.split()[1]) == found["status"]
    return found["status"], found["code"]


def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_sent(server):
    answer = said(server, head("/v1/campaigns/n/reports", f"content-length: {BODY + 1}"))
    assert problem(answer) == (413, "too_large")


def test_a_body_that_turns_out_too_large_is_refused(server):
    data = head("/v1/campaigns/n/reports", "transfer-encoding: chunked")
    chunk = b"%x\r\n" % 10_000 + b" " * 10_000 + b"\r\n"
    assert problem(said(server, data + chunk * 11)) == (413, "too_large")
    asgi = head("/v1/campaigns/n/pause", "transfer-encoding: chunked")
    assert problem(said(server, asgi + chunk * 11)) == (413, "too_large")


def test_a_body_that_is_just_small_enough_is_read(api):
    report = {"id": "x" * 10, "cost": 1, "reward": 1, "penalty": {"bad": "y" * (BODY - 200)}}
    assert len(json.dumps(report)) < BODY
    assert api("POST", "/v1/campaigns/n/reports", report)[0] == 422


@pytest.mark.parametrize(
    "headers",
    [
        [f"x{number}: y" for number in range(100)],
        ["x: " + "y" * 20_000],
        ["authorization: Bearer " + "y" * 20_000],
    ],
)
def test_too_many_and_too_long_headers_are_refused(server, headers):
    found = problem(said(server, head("/healthz", *headers, method="GET")))
    assert found == (431, "too_large")


def test_a_header_without_end_and_a_target_without_end_are_refused(server):
    for start in (b"GET /healthz HTTP/1.1\r\nx: ", b"GET /"):
        with connected(server) as connection:
            connection.sendall(start)
            try:
                for _ in range(100):
                    connection.sendall(b"y" * 10_000)
                    time.sleep(0.001)
            except OSError:
                pass
            answer = all_of(connection)
        assert answer[:12] in (b"HTTP/1.1 431", b"")  # or it is reset while still sending


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"nonsense\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: a\r\nbad header\r\n\r\n",
        b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
        b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST /x HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_not_http_is_400_and_closed(server, data):
    assert problem(said(server, data))[0] == 400


def test_a_request_that_comes_slowly_is_closed_and_others_are_served(tmp_path):
    with Running(tmp_path / "a.db") as server:
        api = Api(server.url)
        api.create("n")
        slow = [connected(server) for _ in range(50)]
        body = head("/v1/campaigns/n/decisions", "content-length: 100")
        for number, one in enumerate(slow):
            one.sendall(b"GET /hea" if number % 2 else body + b"{")
        stop = threading.Event()

        def drip():
            while not stop.wait(0.5):
                for one in slow:
                    with contextlib.suppress(OSError):
                        one.sendall(b" ")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            for _ in range(10):
                assert api("POST", "/v1/campaigns/n/decisions")[0] == 201
            answers = [all_of(one) for one in slow]
        finally:
            stop.set()
            thread.join()
            for one in slow:
                one.close()
        assert {answer[:12] for answer in answers} <= {b"HTTP/1.1 408", b"HTTP/1.1 400", b""}
        assert sum(answer[:12] == b"HTTP/1.1 408" for answer in answers) >= 20
        assert api("GET", "/v1/campaigns/n")[1]["asked"] == 10


def test_a_thousand_connections_get_an_answer_or_503(server):
    open_ones = []
    try:
        refused = 0
        for _ in range(1000):
            try:
                open_ones.append(connected(server, 5.0))
            except OSError:
                refused += 1
        full = [one for one in open_ones[70:] if b"503" in _peek(one)]
        assert len(full) + refused > 800
        kept = open_ones[0]  # those that were there first are served
        kept.sendall(head("/healthz", "connection: close", method="GET"))
        assert all_of(kept).startswith(b"HTTP/1.1 200")
    finally:
        for one in open_ones:
            one.close()


def _peek(connection):
    connection.settimeout(5)
    try:
        return connection.recv(65536)
    except OSError:
        return b""


def test_a_refusal_reaches_a_client_that_goes_on_sending(server):
    """The server closes its side and reads on for a while, so that no reset destroys the answer."""
    good, bad = head("/healthz", method="GET"), b"nonsense\r\n\r\n"
    with connected(server) as connection:
        connection.sendall(good + bad + b"x" * 100_000)
        time.sleep(0.3)
        connection.sendall(b"y" * 100_000)
        time.sleep(0.2)
        answer = b""
        while piece := connection.recv(65536):  # a reset would raise
            answer += piece
        assert answer.startswith(b"HTTP/1.1 200")
        assert problem(answer[answer.index(b"HTTP/1.1 400") :]) == (400, "malformed")
        assert closed(connection)


def test_requests_behind_each_other_are_answered_in_order(server):
    ids = [f"p{number}" for number in range(200)]
    data = b""
    for id in ids:
        body = json.dumps({"id": id}).encode()
        data += head("/v1/campaigns/n/decisions", f"content-length: {len(body)}") + body
        data += head("/healthz", method="GET")
    data += head("/healthz", "connection: close", method="GET")
    answer = said(server, data)
    assert answer.count(b"HTTP/1.1 201") == 200
    assert answer.count(b"HTTP/1.1 200") == 201
    places = [answer.index(b'"id":"%s"' % id.encode()) for id in ids]
    assert places == sorted(places)


def test_many_bad_requests_behind_each_other_do_not_nest(server):
    bad = head("/v1/campaigns/n/decisions", "content-length: 1") + b"{"
    answer = said(server, bad * 3000 + head("/healthz", "connection: close", method="GET"))
    assert answer.count(b"HTTP/1.1 400") == 3000
    assert answer.endswith(b'{"status":"alive"}')


def test_a_client_that_goes_before_its_answer_has_its_decision_recorded(server, api):
    body = b'{"id": "gone"}'
    with connected(server) as connection:
        connection.sendall(head("/v1/campaigns/n/decisions", f"content-length: {len(body)}") + body)
    until = time.monotonic() + 20
    while api("GET", "/v1/campaigns/n/decisions/gone")[0] != 200:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert api("POST", "/v1/campaigns/n/decisions", {"id": "gone"})[0] == 200


def test_a_client_that_does_not_read_is_not_waited_for(server, api):
    request = head("/openapi.json", "x: " + "y" * 8000, method="GET")
    with connected(server) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(0.5)
        try:
            for _ in range(2000):
                connection.sendall(request * 10)
        except TimeoutError:
            pass  # the server reads no more of it
        else:
            raise AssertionError("the server read on")
        assert api("POST", "/v1/campaigns/n/decisions")[0] == 201


@pytest.mark.parametrize(
    "cost",
    ["[" * 40_000 + "]" * 40_000, '{"a":' * 10_000 + "1" + "}" * 10_000, "1e999", "9" * 5000],
)
def test_deep_and_long_json_is_refused(server, api, cost):
    before = api("GET", "/v1/campaigns/n")[1]
    raw = b'{"id": "deep", "reward": 1, "cost": %s}' % cost.encode()
    for path, body in (("reports", raw), ("reports/batch", b'{"reports": [%s]}' % raw[:90_000])):
        status, found, _ = api("POST", f"/v1/campaigns/n/{path}", raw=body)
        if path == "reports":
            assert status in (400, 422), found
        assert status < 500
    assert api("GET", "/v1/campaigns/n")[1]["told"] == before["told"]


def test_expect_continue_and_upgrades(server):
    body = b'{"id": "continued"}'
    with connected(server) as connection:
        length = f"content-length: {len(body)}"
        connection.sendall(
            head("/v1/campaigns/n/decisions", length, "expect: 100-continue", "connection: close")
        )
        assert connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert all_of(connection).startswith(b"HTTP/1.1 201")
    upgrade = ("connection: upgrade, close", "upgrade: websocket", "sec-websocket-version: 13")
    assert said(server, head("/healthz", *upgrade, method="GET")).startswith(b"HTTP/1.1 200")


def test_old_http_and_a_head_without_a_body(server):
    assert said(server, b"GET /healthz HTTP/1.0\r\n\r\n").endswith(b'{"status":"alive"}')
    answer = said(server, head("/healthz", "connection: close", method="HEAD"))
    assert answer.endswith(b"\r\n\r\n")
    assert b"content-length: 18" in answer


def test_what_waits_is_bounded_and_what_is_refused_leaves_nothing(tmp_path):
    with Running(tmp_path / "a.db", "--waiting", "100") as server:
        api = Api(server.url)
        api.create("n", budget=1e6)
        found = []

        def work(number):
            items = [{"id": f"{number}-{item}x"} for item in range(60)]
            found.append(api("POST", "/v1/campaigns/n/decisions/batch", {"decisions": items}))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        statuses = [status for status, _, _ in found]
        assert set(statuses) <= {200, 503}
        for status, body, headers in found:
            if status == 503:
                assert (body["code"], headers["retry-after"]) == ("overloaded", "1")
        assert api("GET", "/v1/campaigns/n")[1]["asked"] == 60 * statuses.count(200)
        too_many = [{} for _ in range(101)]
        body = {"decisions": too_many}
        assert api("POST", "/v1/campaigns/n/decisions/batch", body)[0] == 503
