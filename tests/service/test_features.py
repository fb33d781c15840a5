"""Features of requests in the service: over HTTP, with the client, on the pages."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest

from tests.service.browser import Said, axe_script, barriers, chromium, missing, serving
from tests.service.samples import SimulatedClock, featured
from tests.service.test_pages import get, opened_all
from tightrope.client import Client
from tightrope.errors import ConflictError, InputError
from tightrope.live.stores.memory import MemoryStore

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
        (True, "body: Expected `str | object | array | null`, got `bool` - at `$.context`"),
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
