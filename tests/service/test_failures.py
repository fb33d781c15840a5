"""What fails is in the log: every answer of 500 and above, every outage of the store, its end."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from contextlib import contextmanager

import pytest

from tests.service.conftest import TASK, Api
from tests.service.test_values import PLACES, Connection
from tightrope.errors import StoreError
from tightrope.live import open_campaign
from tightrope.live.stores import Store
from tightrope.live.stores.memory import MemoryStore
from tightrope.problem import Task
from tightrope.service import failures
from tightrope.service.acts import ACTS
from tightrope.service.app import make_app
from tightrope.service.campaigns import TABLE
from tightrope.service.desk import Service
from tightrope.service.failures import FailureLog, Outage, WatchedStore
from tightrope.service.http import HttpServer, Limits, RefusalError
from tightrope.service.keys import KeyRing, made_key, write_keys
from tightrope.service.server import Running
from tightrope.service.signins import RateLimit


def test_a_watched_store_hides_nothing_of_its_store():
    methods = {name for name in vars(Store) if callable(getattr(Store, name)) and name[0] != "_"}
    assert methods <= vars(WatchedStore).keys()


class Failing(MemoryStore):
    """A store that raises whatever it is told to."""

    error: BaseException | None = None

    def _check(self):
        if self.error is not None:
            raise self.error

    def names(self):
        self._check()
        return super().names()

    def read(self, *arguments, **more):
        self._check()
        return super().read(*arguments, **more)

    def saved(self, *arguments, **more):
        self._check()
        return super().saved(*arguments, **more)

    def notes(self, *arguments, **more):
        self._check()
        return super().notes(*arguments, **more)

    @contextmanager
    def turn(self, *arguments, **more):
        self._check()
        with super().turn(*arguments, **more) as turn:
            yield turn
            self._check()


class Serving:
    """A service in a thread of this process, with all that it writes to its log."""

    def __init__(self, store, keys=None, rate=None, limits=None):
        self.store, self.lines = store, []
        self._keys, self._rate, self._limits = keys, rate, limits
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    async def _run(self):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        service = Service(self.store)
        service.log = lambda message, **facts: self.lines.append({"message": message, **facts})
        service.rate = self._rate
        app = make_app(service, self._keys)
        http = HttpServer(app, self._limits)
        http.failed = app.failed
        await service.start()
        self.url = await http.start("127.0.0.1", 0)
        self.port = int(self.url.rpartition(":")[2])
        self._ready.set()
        await self._stop.wait()
        await http.end(5)
        await service.drain()

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *error):
        self.store.error = None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    def said(self, message):
        return [line for line in self.lines if line["message"] == message]

    def failed(self):
        """How many answers the lines of failures are about."""
        return sum(line["times"] or 1 for line in self.said("a request failed"))


@pytest.fixture
def store():
    made = Failing()
    open_campaign(made, "n", task=Task.from_table(TASK), budget=1e6, policy="uniform-random")
    return made


def after(seconds, good):
    until = time.monotonic() + seconds
    while not good() and time.monotonic() < until:
        time.sleep(0.02)
    return good()


@pytest.mark.parametrize(
    "error", [StoreError("store: the disk is gone"), RuntimeError("a mistake"), OSError(5, "I/O")]
)
def test_every_answer_of_500_and_above_has_a_line_with_its_cause(store, error, monkeypatch):
    monkeypatch.setattr(failures, "AGAIN", 0.2)
    with Serving(store) as serving:
        send, counted = Connection(serving), 0
        assert send("POST", "/v1/campaigns/n/decisions")[0] == 201
        store.error = error
        for method, path, known in PLACES:
            query = f"?{known[0]}=1" if known and method == "GET" else ""
            body = b'{"decisions": [{}]}' if path.endswith("/batch") else b'{"id": "t1"}'
            try:
                status = send(method, path + query, body=body)[0]
            except AssertionError:  # a download that was broken off
                assert path.endswith("export")
                send.close()
                status = 500
            if path.endswith("/decisions/batch"):
                assert status == 200
                status = 500  # of its items
            counted += status >= 500
        send.close()
        assert counted > 20
        assert after(5, lambda: serving.failed() == counted), (counted, serving.lines)
        for line in serving.said("a request failed"):
            assert line["status"] >= 500
            assert "?" not in line["path"]
            assert line["method"] in ("GET", "POST", "PUT", "DELETE")
            assert line["error"]
        causes = {line["error"] for line in serving.said("a request failed")}
        assert any(str(error) in cause for cause in causes), causes


def test_what_the_http_server_refuses_itself_has_a_line(store):
    with Serving(store, limits=Limits(connections=1)) as serving:
        with socket.create_connection(("127.0.0.1", serving.port)) as first:
            first.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert first.recv(100).startswith(b"HTTP/1.1 200")
            with socket.create_connection(("127.0.0.1", serving.port)) as second:
                assert second.recv(100).startswith(b"HTTP/1.1 503")
        assert after(5, lambda: serving.said("a request failed"))
        (line,) = serving.said("a request failed")
        assert line["status"] == 503
        assert "1 connections" in line["error"]


def test_an_outage_is_two_lines(store, monkeypatch):
    monkeypatch.setattr(failures, "SETTLED", 0.2)
    with Serving(store) as serving:
        api = Api(serving.url)
        for _ in range(2):
            serving.lines.clear()
            assert api("POST", "/v1/campaigns/n/decisions")[0] == 201
            store.error = StoreError("store: the disk is gone")
            for _ in range(5):
                assert api("POST", "/v1/campaigns/n/decisions")[0] == 503
            assert api("GET", "/readyz")[0] in (200, 503)  # it is asked twice a second at most
            store.error = None
            assert api("POST", "/v1/campaigns/n/decisions")[0] == 201
            assert after(5, lambda: serving.said("the store answers again"))
            (begun,), (over,) = (serving.said(f"the store {what}") for what in
                                 ("does not answer", "answers again"))  # fmt: skip
            assert begun["error"] == "store: the disk is gone"
            assert over["refused"] >= 5
            assert 0 < over["seconds"] < 60


def test_a_store_file_that_goes_and_comes_back_is_in_the_log_of_a_real_server(tmp_path):
    path = tmp_path / "a.db"
    with Running(path) as server:
        api = Api(server.url)
        api.create("n")
        path.rename(tmp_path / "away.db")
        assert api("POST", "/v1/campaigns/n/decisions")[0] == 503
        (tmp_path / "away.db").rename(path)
        assert after(15, lambda: api("POST", "/v1/campaigns/n/decisions")[0] == 201)
        time.sleep(failures.SETTLED + 0.5)
        server.stop()
    lines = [json.loads(line) for line in server.said.splitlines()]
    said = [line["message"] for line in lines]
    assert said.count("the store does not answer") == 1
    assert said.count("the store answers again") == 1
    assert any(line["message"] == "a request failed" and line["status"] == 503
               and line["path"] == "/v1/campaigns/n/decisions" for line in lines)  # fmt: skip


def test_reads_do_not_end_an_outage_of_commits():
    lines = []
    outage = Outage(lambda message, **facts: lines.append(message))
    outage.failed("turn", StoreError("full"))
    outage.failed("read", StoreError("full"))
    outage.worked("read")
    assert lines == ["the store does not answer"]
    outage.worked("turn")
    assert lines == ["the store does not answer", "the store answers again"]
    outage.failed("read", StoreError("again"))
    outage.worked("read")
    assert len(lines) == 4


def test_the_same_failure_many_times_is_few_lines(monkeypatch):
    monkeypatch.setattr(failures, "AGAIN", 0.05)
    lines = []

    async def flood():
        log = FailureLog(lambda message, **facts: lines.append(facts))
        for number in range(1000):
            log("GET", f"/v1/campaigns/{number}?key=secret", 503, StoreError("gone"))
        log("GET", "/v1/campaigns/x", 500, StoreError("other"))
        await asyncio.sleep(0.2)
        log("GET", "/v1/campaigns/y", 503, StoreError("gone"))
        log.flush()

    asyncio.run(flood())
    assert [(one["path"], one["times"]) for one in lines] == [
        ("/v1/campaigns/0", None), ("/v1/campaigns/x", None), ("/v1/campaigns/999", 999),
        ("/v1/campaigns/y", None),
    ]  # fmt: skip


# Fields that are not known.


def bodies():
    for route in TABLE:
        if route.takes is not None:
            path = route.path.replace("{campaign}", "n").replace("{number}", "1")
            yield route.method, path, route.takes.__struct_encode_fields__
    for act in ACTS.values():
        yield "POST", f"/v1/campaigns/n/{act.name}", act.item.__struct_encode_fields__
        yield "POST", f"/v1/campaigns/n/{act.name}/batch", (act.name,)


def test_a_field_that_is_not_known_is_told_the_known_ones(store):
    with Serving(store) as serving:
        api = Api(serving.url)
        for method, path, fields in bodies():
            status, found, _ = api(method, path, {"zzz": 1})
            known = ", ".join(fields) or "none"
            assert status == 422
            assert found["detail"] == f"body: field 'zzz' is unknown; known: {known}"
            if fields and len(fields[0]) > 2:
                status, found, _ = api(method, path, {f"{fields[0]}x": 1})
                hint = f"did you mean '{fields[0]}'? known: {known}"
                assert found["detail"] == f"body: field '{fields[0]}x' is unknown; {hint}"
        items = {"decisions": [{"id": "a"}, {"idd": "b"}]}
        results = api("POST", "/v1/campaigns/n/decisions/batch", items)[1]["results"]
        assert [one["status"] for one in results] == [201, 422]
        assert "known: id, eligible, ttl_s" in results[1]["detail"]
        both = {"decisions": [{}], "more": 1}
        status, found, _ = api("POST", "/v1/campaigns/n/decisions/batch", both)
        assert (status, found["detail"]) == (422, "body: field 'more' is unknown; known: decisions")
        assert api("POST", "/v1/campaigns/n/voids", {"x" * 500_000: 1})[0] == 422


# A rate for each key.


def test_a_bucket_fills_with_time_and_each_key_has_its_own():
    now = [0.0]
    rate = RateLimit(2.0, 3.0, lambda: now[0])

    def taken(key, count):
        refused = []
        for _ in range(count):
            try:
                rate.take(key)
            except RefusalError as error:
                refused.append((error.status, error.code, *error.headers))
        assert set(refused) <= {(429, "rate_limited", (b"retry-after", b"1"))}
        return count - len(refused)

    assert taken("a", 10) == 3
    assert taken("b", 2) == 2
    now[0] = 1.0
    assert taken("a", 10) == 2
    now[0] = 1000.0
    assert taken("a", 10) == taken("b", 10) == 3
    assert rate.refused == 7 + 8 + 7 + 7
    slow = RateLimit(0.01, 1.0, lambda: now[0])
    slow.take("a")
    with pytest.raises(RefusalError, match=r"0\.01 requests a second") as caught:
        slow.take("a")
    assert dict(caught.value.headers)[b"retry-after"] == b"100"


def test_a_key_that_sends_too_much_is_429_and_others_are_served(store, tmp_path):
    made = [made_key(name, ["admin"]) for name in ("greedy", "modest")]
    secrets, keys = zip(*made, strict=True)
    write_keys(tmp_path / "keys", keys)
    with Serving(store, KeyRing(tmp_path / "keys"), RateLimit(0.01, 5.0)) as serving:
        greedy, modest = (Api(serving.url, one) for one in secrets)
        paths = [("POST", "/v1/campaigns/n/decisions"), ("GET", "/v1/campaigns/n")] * 4
        found = [greedy(method, path) for method, path in paths]
        assert [status for status, _, _ in found] == [201, 200, 201, 200, 201, 429, 429, 429]
        for status, body, headers in found:
            if status == 429:
                assert (body["code"], body["title"]) == ("rate_limited", "try again later")
                assert int(headers["retry-after"]) > 90
        assert greedy("GET", "/healthz")[0] == 200
        assert modest("POST", "/v1/campaigns/n/decisions")[0] == 201
        text = modest("GET", "/metrics")[1]
        assert "tightrope_rate_limited_total 3" in text
        assert 'tightrope_requests_total{campaign="n",outcome="rate_limited"} 1' in text
