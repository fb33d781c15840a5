"""Features of requests in the service: over HTTP, with the client, on the pages."""

from __future__ import annotations

import re
import threading
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.live.conftest import postgres_server, postgres_url  # noqa: F401, fixtures
from tests.service.browser import Said, axe_script, barriers, chromium, missing, serving
from tests.service.conftest import Api
from tests.service.samples import SimulatedClock, featured
from tests.service.test_pages import get, opened_all
from tightrope import open_campaign
from tightrope.client import Client
from tightrope.errors import ConflictError, InputError
from tightrope.live.stores import open_store
from tightrope.live.stores.memory import MemoryStore
from tightrope.service.keys import made_key, write_keys
from tightrope.service.server import Running

TASK = {
    "arms": [{"name": "haiku"}, {"name": "opus"}],
    "limits": {"bad": {"at_most": 0.2, "per": "pull"}},
    "contexts": {"features": ["length", "code"], "erasable": True},
}
MIXED = {**TASK, "contexts": {"types": ["math", "chat"], "features": ["length"]}}
REPORT = {"cost": 0.5, "reward": 1, "penalty": {"bad": 0}}


def test_a_decision_has_features(api):
    api.create("features", task=TASK, policy="lyon")
    path = "/v1/campaigns/features"
    status, ticket, _ = api("POST", f"{path}/decisions", {"id": "a", "context": [0.1, 1]})
    assert (status, "context" in ticket) == (201, False)
    by_name = {"id": "a", "context": {"code": 1, "length": 0.1}}
    assert api("POST", f"{path}/decisions", by_name)[:2] == (200, ticket)
    assert api("POST", f"{path}/decisions", {"id": "a", "context": [0.2, 1]})[0] == 409
    assert api("POST", f"{path}/reports", {"id": "a", **REPORT})[0] == 200
    why = api("GET", f"{path}/decisions/a/why")[1]
    assert why["context"] == {"length": pytest.approx(0.1), "code": 1.0}
    lines = api("GET", f"{path}/events")[1]
    assert "zczMPQ" not in str(lines)  # no features in the events: only their digest


@pytest.mark.parametrize(
    ("context", "said"),
    [
        ([1], "context: 1 numbers must be 2, one for each feature"),
        ([1, "x"], "context = [1.0, 'x']: must be 2 numbers"),
        ([1, 1e39], "feature 'code' = 1e+39: must be a finite number, at most 3.4e38 in size"),
        ({"length": 1, "cod": 2}, "feature 'cod' is unknown; did you mean 'code'?"),
        ({"length": 1}, "feature 'code' is missing; the context must have a number"),
        ("math", "context = 'math': must be 2 numbers"),
        (None, "context is missing; must be 2 numbers"),
        (True, "context = True: must be text or an object or a list or null"),
    ],
)
def test_wrong_features_are_refused_in_one_line(api, context, said):
    api.create("wrong", task=TASK, policy="lyon")
    status, problem, _ = api("POST", "/v1/campaigns/wrong/decisions", {"context": context})
    assert (status, problem["code"], problem["detail"]) == (422, "invalid", said)
    assert api("GET", "/v1/campaigns/wrong")[1]["asked"] == 0


def test_the_client_asks_with_features(server, tmp_path):
    with Client(server.url, spool=str(tmp_path / "spool.db"), spare=2) as client:
        client.create("mixed", MIXED, budget=100, policy="lyon")
        first = client.ask("mixed", "one", context=("math", np.array([0.1])))
        assert first.context == "math"
        assert client.ask("mixed", "one", context={"type": "math", "length": 0.1}) == first
        with pytest.raises(ConflictError, match="was created with other features"):
            client.ask("mixed", "one", context=("math", [0.2]))
        many = client.ask_many("mixed", contexts=[("math", [1]), ("chat", [2])])
        assert [one.context for one in many] == ["math", "chat"]
        with client.decide("mixed", context=("chat", [3.0])) as decision:
            decision.report(**REPORT)
        with pytest.raises(InputError, match="context: must be a type; an arm is decided for"):
            client.spares("mixed", ("math", [1]))  # type: ignore[arg-type]
        with pytest.raises(InputError, match="must be text and finite numbers"):
            client.ask("mixed", context=("math", [float("nan")]))
        assert client.status("mixed")["asked"] == 4  # no spare was reserved


# Hostile vectors: what JSON can say, and what it cannot.
odd_numbers = st.one_of(
    st.floats(width=32).map(repr),
    st.sampled_from(
        ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1e39", "3.4e38", "1e-320", "-0.0",
         "9" * 400, "1" + "0" * 30, "true", "null", '"1"', '""', '"nan"', "[1]", "{}", "01", "0x1"]
    ),
)  # fmt: skip
odd_names = st.sampled_from(['"length"', '"code"', '"Length"', '""', '"\\u0000"', '"length "', "1"])
odd_contexts = st.one_of(
    st.lists(odd_numbers, max_size=4).map(lambda some: f"[{','.join(some)}]"),
    st.lists(st.tuples(odd_names, odd_numbers), max_size=3).map(
        lambda some: "{" + ",".join(f"{name}:{number}" for name, number in some) + "}"
    ),
    st.integers(3, 3000).map(lambda size: f"[{','.join(['1'] * size)}]"),
    odd_numbers,
)


@settings(max_examples=60, deadline=None)
@given(
    contexts=st.lists(odd_contexts, min_size=1, max_size=8),
    erasable=st.booleans(),
    batch=st.booleans(),
)
@example(contexts=["[1,2]", "[3.4e38,-3.4e38]", "[1e-40,0]", '{"code":1,"length":2}'] * 2,
         erasable=True, batch=False)  # fmt: skip
@example(contexts=["0x1"], erasable=False, batch=False)
@example(contexts=["0x1"], erasable=False, batch=True)
def test_odd_vectors_over_http_are_decided_or_refused_in_one_line(odd, contexts, erasable, batch):
    api, told = odd
    path = f"/v1/campaigns/{'erasable' if erasable else 'kept'}"
    before = api("GET", path)[1]["asked"]
    texts = [f'{{"context": {one}}}' for one in contexts]
    if batch:
        body = f'{{"decisions": [{", ".join(texts)}]}}'
        status, found, _ = api("POST", f"{path}/decisions/batch", raw=body.encode())
        found = found["results"] if status == 200 else [found]
    else:
        answers = [api("POST", f"{path}/decisions", raw=one.encode()) for one in texts]
        found = [{"status": status, **one} for status, one, _ in answers]
    good = [one for one in found if one["status"] == 201]
    for one in found:
        if one not in good:
            assert (one["status"], one["code"]) in ((422, "invalid"), (400, "malformed")), one
            assert "\n" not in one["detail"]
            assert len(one["detail"]) < 600
    assert api("GET", path)[1]["asked"] == before + len(good)
    for one in good:
        told.append(one["id"])
        report = {"id": one["id"], **REPORT, "penalty": {"bad": len(told) % 2}}
        assert api("POST", f"{path}/reports", report)[0] == 200


@pytest.fixture(scope="module", name="odd")
def _odd(tmp_path_factory):
    """Campaigns that get odd vectors; in the end their states are finite, and a replay agrees."""
    store, told = tmp_path_factory.mktemp("odd") / "all.db", []
    with Running(store) as server:
        api = Api(server.url)
        for name, erasable in (("erasable", True), ("kept", False)):
            contexts = {**TASK["contexts"], "erasable": erasable}
            api.create(name, task={**TASK, "contexts": contexts}, policy="resolve", budget=10_000)
        yield api, told
    assert "Traceback" not in server.said
    assert len(told) > 8
    for name in ("erasable", "kept"):
        with open_campaign(str(store), name) as campaign:
            found = campaign.verify()
            assert found.good, found.wrong
            models = campaign.refreshed().controller._state.scratch.models
            assert all(np.isfinite(one).all() for one in models)


# Erasure.


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request, tmp_path):
    postgres = request.param == "postgres"
    return request.getfixturevalue("postgres_url") if postgres else str(tmp_path / "all.db")


def kept(store_url, name="visits"):
    with closing(open_store(store_url)) as store:
        return sorted(store.vectors(name, 1, 10**6))


def test_features_are_erased_over_http(store_url, tmp_path):
    secret, key = made_key("officer", ["admin"], ["visits"])
    write_keys(tmp_path / "keys.jsonl", [key])
    with (
        Running(store_url, "--keys", str(tmp_path / "keys.jsonl")) as server,
        Client(server.url, secret) as client,
    ):
        client.create("visits", TASK, budget=100, policy="resolve")
        assert client.erase_contexts("visits") == 0  # before the first request
        for number in range(3):
            ticket = client.ask("visits", f"r{number}", context=[123.5 + number, 1])
            client.report("visits", ticket, **REPORT)
        client.ask("visits", "flying", context=[7, 1])
        with pytest.raises(InputError, match="before = 'soon': must be a date such as 2026"):
            client.erase_contexts("visits", "soon")
        with pytest.raises(InputError, match="must be after the first event in the store"):
            client.erase_contexts("visits", datetime.now(UTC) - timedelta(days=1))
        assert len(kept(store_url)) == 4
        assert client.erase_contexts("visits", datetime.now(UTC) + timedelta(days=1)) == 3
        assert client.erase_contexts("visits") == 0
        assert len(kept(store_url)) == 1  # that of the ticket in flight
        client.report("visits", "flying", **REPORT)
        assert client.erase_contexts("visits") == 1
        assert client.ask("visits", "r0", context=[9, 9]).state == "told"  # nothing to compare with
        client.report("visits", client.ask("visits", context=[1, 0]), **REPORT)
        events = client.events("visits")
    assert '"campaign": "visits", "who": "officer"' in server.said
    assert "/contexts" in server.said
    erased = [one for one in events if one["kind"] == "contexts_erased"]
    assert [one["who"] for one in erased] == ["officer"] * 4
    with open_campaign(store_url, "visits") as campaign:
        found = campaign.verify()
        assert found.good, found.wrong
        assert found.erased == 4


def test_what_cannot_be_erased_is_one_line(api):
    api.create("kept", task={**TASK, "contexts": {"features": ["length"]}}, policy="lyon")
    api.create("plain", policy="lyon")
    for name in ("kept", "plain"):
        status, problem, _ = api("DELETE", f"/v1/campaigns/{name}/contexts")
        assert (status, problem["code"]) == (422, "invalid")
        assert problem["detail"].endswith("must be created with Features(..., erasable=True)")
        assert api("GET", f"/v1/campaigns/{name}")[1]["events"] == 1
    assert api("DELETE", "/v1/campaigns/nobody/contexts")[0] == 404
    assert api("DELETE", "/v1/campaigns/kept/contexts?befor=2026-01-01")[0] == 400


def test_requests_are_decided_while_others_are_erased(store_url):
    with Running(store_url) as server, Client(server.url) as client:
        client.create("visits", TASK, budget=10_000, policy="resolve")
        failed, stop = [], threading.Event()

        def work():
            try:
                while not stop.is_set():
                    ids = [one.id for one in client.ask_many("visits", contexts=[[1.5, 1]] * 8)]
                    failed.extend(client.report_many("visits", [{"id": i, **REPORT} for i in ids]))
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for one in threads:
            one.start()
        erased = sum(client.erase_contexts("visits") for _ in range(8))
        stop.set()
        for one in threads:
            one.join()
        erased += client.erase_contexts("visits")
        assert failed == []
        assert erased == client.status("visits")["told"] > 0
    assert kept(store_url) == []
    with open_campaign(store_url, "visits") as campaign:
        found = campaign.verify()
        assert found.good, found.wrong


# The page.


@pytest.fixture(scope="module")
def routed():
    """A service of a router with features, of which one drifts: its address, its store."""
    store = MemoryStore(clock := SimulatedClock(time.time() - 43200))
    featured(store, clock)
    clock.at = None
    with serving(store, unit="$") as url:
        opened_all(url, store)
        yield url, store


def test_the_page_shows_what_features_do_and_that_one_drifts(routed):
    page = get(routed[0] + "/campaigns/router-features").text
    table = re.search(r'<section id="features".*?</section>', page, re.DOTALL)[0]
    rows = re.findall(r'<tr>\s*<th scope="row">(\w+)</th>(.*?)</tr>', table, re.DOTALL)
    assert rows[0][0] == "length"
    labels = re.findall(r'data-label="([^"]+)"', rows[0][1])
    assert labels == ["mean at first", "recent mean", "effect on cost", "effect on reward",
                      "effect on bad"]  # fmt: skip
    assert "has changed" in rows[0][1]
    assert not any("has changed" in row for _, row in rows[1:])
    assert re.search(r"<div>haiku -[\d.]+ ", dict(rows)["has_code"])
    assert "Add an arm" not in page  # a campaign with features refuses it
    assert not re.search(r"\de-\d", table)  # as many digits as the band has
    assert "The best arm depends on the features of each request" in page
    assert "the best by itself" not in page  # an arm's mean is that of the requests it was given
    banner = re.search(r"<strong>The requests have changed\..*?</p>", page)[0]
    assert re.search(r"length [\d.]+ \([\d.]+ at first\)", banner)


def test_the_page_shows_the_estimate_of_the_end(routed):
    url = routed[0]
    outlook = get(url + "/v1/campaigns/router-features/outlook?estimate=true").json()
    [limit] = outlook["limits"]
    assert 0.0 <= limit["estimate"] <= 1.0
    until = time.monotonic() + 30
    shown = r"[Cc]hance of ending above (?:it|the limit).{0,80}?(?:about|below|above) [\d.]+ ?%"
    while not re.search(shown, get(url + "/campaigns/router-features").text, re.DOTALL):
        assert time.monotonic() < until
        time.sleep(0.2)


def test_the_page_of_a_campaign_whose_features_were_erased():
    store = MemoryStore(clock := SimulatedClock(time.time() - 43200))
    campaign = featured(store, clock, pulls=40, erasable=True)
    campaign.erase_contexts()
    clock.at = None
    with serving(store) as url:
        opened_all(url, store)
        page = get(url + "/campaigns/router-features").text
        assert 'id="features"' in page
        assert get(url + "/campaigns/router-features/why?ticket=req-000000").status_code == 200
        lost = get(url + "/campaigns/router-features/why?ticket=req-000030").text
        assert "cannot be explained; event " in lost


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_features_fit_and_axe_finds_no_barrier(routed, scheme):
    if (why := missing()) is not None:
        pytest.skip(why)
    script = axe_script()
    with chromium() as browser:
        context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme=scheme)
        page = context.new_page()
        heard = Said(page)
        page.goto(routed[0] + "/campaigns/router-features", wait_until="load")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert script is None or barriers(page, script) == []
        context.close()
    assert heard.errors == []
