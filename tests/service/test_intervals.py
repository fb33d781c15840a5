"""Numbers as arms in the service: over HTTP, with the client, on the page of a campaign."""

from __future__ import annotations

import re

import pytest

from tests.service.browser import Said, axe_script, barriers, chromium, missing, serving
from tests.service.samples import SimulatedClock, auctions, prices
from tests.service.test_pages import get, opened_all
from tightrope import Features, Interval, Task, open_campaign
from tightrope.client import Client
from tightrope.errors import InputError
from tightrope.live.stores.memory import MemoryStore
from tightrope.problem import Box

BIDS = {
    "space": {"bid": [0.0, 5.0], "points": 11},
    "costs": 1,
    "limits": {"dollars": {"at_most": 0.5, "per": "pull"}},
}
BOX = {**BIDS, "space": {"bid": [0.0, 5.0], "rate": [0.0, 1.0], "points": 7}}
REPORT = {"reward": 1, "penalty": {"dollars": 0.2}}


@pytest.fixture
def path(api, request):
    """The path of a new campaign over bids, in which another system may decide."""
    name = re.sub(r"\W+", "-", request.node.name)[:100]
    api.create(name, task=BIDS, policy="uniform-random", shadow=True)
    return f"/v1/campaigns/{name}"


def test_a_decision_has_its_number_and_the_status_the_curve(api, path):
    status, ticket, _ = api("POST", f"{path}/decisions", {"id": "a", "eligible": [1, 2.5]})
    assert (status, float(ticket["arm"])) == (201, ticket["value"])
    assert 1.0 <= ticket["value"] <= 2.5
    assert api("POST", f"{path}/decisions", {"id": "a", "eligible": [1, 2.5]})[:2] == (200, ticket)
    assert api("POST", f"{path}/decisions", {"id": "a", "eligible": [1, 3]})[0] == 409
    assert api("GET", f"{path}/decisions/a")[1]["value"] == ticket["value"]
    assert api("POST", f"{path}/reports", {"id": "a", "arm": 2, **REPORT})[0] == 200
    curve = api("GET", path)[1]["curve"]
    assert [one["value"] for one in curve] == [0.5 * k for k in range(11)]
    assert [one["value"] for one in curve if one["pulls"]] == [2.0]
    mean, low, high = curve[4]["outcomes"]["dollars"]
    assert 0.0 <= low <= mean <= high <= 1.0
    listed = api("GET", "/v1/campaigns")[1]["campaigns"]
    assert not any("curve" in one for one in listed)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"eligible": 3}, "eligible = 3: must be an object or a list or null"),
        ({"eligible": [3]}, "eligible: bid = [3]: must be two numbers, low and high"),
        ({"eligible": [2, 1]}, "eligible: bid = [2, 1]: must be two numbers, low and high"),
        ({"eligible": [1.1, 1.2]}, "eligible = [1.1, 1.2]: must hold a point of the grid, whose "),
        ({"eligible": {"bit": [1, 2]}}, "eligible = {'bit': [1.0, 2.0]}: must be ranges by name"),
    ],
)
def test_a_wrong_range_is_refused_in_one_line(api, path, body, said):
    status, problem, _ = api("POST", f"{path}/decisions", body)
    assert (status, problem["code"]) == (422, "invalid")
    assert problem["detail"].startswith(said)


def test_a_number_is_pinned(api, path):
    assert api("POST", f"{path}/pin", {"arm": 2.5})[1]["pinned"] == "2.5"
    assert api("POST", f"{path}/decisions")[1]["value"] == 2.5
    api.create("named")
    detail = api("POST", "/v1/campaigns/named/pin", {"arm": 0.5})[1]["detail"]
    assert detail == "arm = 0.5: must be a number from 0 to 1, or a name"


def test_names_of_arms_stay_names(api):
    api.create("named")
    path = "/v1/campaigns/named/decisions"
    assert api("POST", path, {"eligible": [1]})[1]["arm"] == "opus"
    assert "value" not in api("POST", path, {"eligible": ["haiku"]})[1]
    detail = api("POST", path, {"eligible": [1.5]})[1]["detail"]
    assert detail == "arm = 1.5: must be a number from 0 to 1, or a name"
    detail = api("POST", path, {"eligible": {"haiku": [0, 1]}})[1]["detail"]
    assert detail == "eligible = {'haiku': [0.0, 1.0]}: must be a list of arms"
    assert "curve" not in api("GET", "/v1/campaigns/named")[1]


def test_a_box_takes_ranges_by_name(api):
    api.create("box", task=BOX, policy="uniform-random")
    body = {"eligible": {"rate": [0.5, 1.0]}}
    bid, rate = api("POST", "/v1/campaigns/box/decisions", body)[1]["value"]
    assert 0.0 <= bid <= 5.0
    assert 0.5 <= rate <= 1.0
    curve = api("GET", "/v1/campaigns/box")[1]["curve"]
    assert len(curve) == 49
    assert curve[8]["value"] == [0.8333333333, 0.1666666667]


def test_numbers_cannot_be_retired_or_added(api, path):
    status, problem, _ = api("DELETE", f"{path}/arms/2.5")
    assert (status, problem["detail"][:8]) == (422, "Interval")
    assert "no number can be retired" in problem["detail"]
    status, problem, _ = api("POST", f"{path}/arms", {"name": "six"})
    assert status == 422
    assert "cannot be added" in problem["detail"]


def test_a_client_gets_numbers_and_spares_have_them(server, api, tmp_path):
    api.create("clients", task=BIDS, policy="uniform-random")
    with Client(server.url, spare=2, spool=tmp_path / "spool.db") as client:
        with client.decide("clients", eligible=(1.0, 2.0)) as decision:
            assert 1.0 <= decision.value <= 2.0
            decision.report(**REPORT)
        ticket = client.ask("clients")
        assert ticket.value == float(ticket.arm)
        taken = client._spool.take("clients")
        assert taken.spare
        assert taken.value == float(taken.arm)
        with pytest.raises(InputError, match=r"eligible: bid = .*: must be two numbers"):
            client.ask("clients", eligible=[1.0])
        client.close()
    api.create("boxes", task=BOX, policy="uniform-random")
    with Client(server.url) as client:
        bid, rate = client.ask("boxes", eligible={"bid": (4.0, 5.0)}).value
        assert bid >= 4.0
        assert 0.0 <= rate <= 1.0


def test_a_decision_over_numbers_takes_features(api):
    task = {**BIDS, "contexts": {"features": ["age", "visits"]}}
    api.create("aged", task=task, policy="resolve")
    path = "/v1/campaigns/aged"
    for number in range(3):
        body = {"context": [20 + number, 1], "eligible": [1, 2.5]}
        status, ticket, _ = api("POST", f"{path}/decisions", body)
        assert status == 201
        assert 1.0 <= ticket["value"] <= 2.5
        assert api("POST", f"{path}/reports", {"id": ticket["id"], **REPORT})[0] == 200
    found = api("GET", path)[1]
    assert len(found["curve"]) == 11
    assert [one["feature"] for one in found["features"]] == ["age", "visits"]


# The page.


def filled(reports):
    """A store with a campaign of second-price auctions."""
    store = MemoryStore(clock := SimulatedClock(1.79e9))
    auctions(store, clock, reports, "uniform-random")
    return store


def test_the_page_shows_curves_in_place_of_arms():
    with serving(store := filled(200)) as url:
        opened_all(url, store)
        text = get(f"{url}/campaigns/auctions").text
        now = get(f"{url}/campaigns/auctions/now").text
        assert 'id="curve"' in text
        assert 'id="arms"' not in text
        assert text.count("<polyline") == 3  # two curves, and what the limit allows
        assert text.count("<polygon") == 2
        assert "dollars by bid" in text
        assert 'id="curve-table"' in text
        assert "Add an arm" not in text
        assert 'id="curve" class="panels" hx-swap-oob="true"' in now
        assert re.search(r"Best arm</dt><dd>bid [\d.]+<", text)


def test_the_page_of_numbers_and_features_has_curves():
    store = MemoryStore(SimulatedClock(1.79e9))
    task = Task(Interval(0, 1, name="bid"), {"bad": "20% per pull"}, costs=1, contexts=Features(1))
    campaign = open_campaign(store, "aged", task=task, budget=400)
    for number in range(30):
        ticket = campaign.ask(context=[number % 7])
        campaign.tell(ticket, reward=ticket.value, penalty=0.0)
    with serving(store) as url:
        opened_all(url, store)
        text = get(f"{url}/campaigns/aged").text
    assert text.count("<polygon") == 2
    assert 'id="arms"' not in text


def test_a_box_with_features_is_decided_and_has_maps():
    store = MemoryStore(SimulatedClock(1.79e9))
    box = Box({"price": (0, 1), "effort": (0, 1)}, points=7)
    task = Task(box, {"bad": "20% per pull"}, costs=1, contexts=Features(1))
    campaign = open_campaign(store, "both", task=task, budget=400)
    for number in range(20):
        ticket = campaign.ask(context=[number % 7], eligible={"effort": (0.5, 1.0)})
        assert ticket.value[1] >= 0.5
        campaign.tell(ticket, reward=ticket.value[0], penalty=0.0)
    assert len(campaign.status()["curve"]) == 49
    assert campaign.verify().good
    with serving(store) as url:
        opened_all(url, store)
        text = get(f"{url}/campaigns/both").text
    assert "Outcomes by price and effort" in text


def test_before_the_first_report_the_page_waits_for_it():
    with serving(store := filled(0)) as url:
        opened_all(url, store)
        text = get(f"{url}/campaigns/auctions").text
    assert 'id="curve"' in text
    assert "No reports yet." in text


def test_the_page_of_a_box_has_maps():
    store = MemoryStore(clock := SimulatedClock(1.79e9))
    prices(store, clock, 150, "uniform-random")
    with serving(store) as url:
        opened_all(url, store)
        text = get(f"{url}/campaigns/prices").text
    assert "Outcomes by price and effort" in text
    captions = re.findall(r"<figcaption>(\w+) <span class=\"soft\">up to", text)
    assert captions == ["reward", "complaints", "pulls"]
    pulled = text.partition("pulls by price and effort")[2].partition("</figure>")[0]
    status = open_campaign(store, "prices").status()
    assert pulled.count('class="cell"') == sum(one["pulls"] > 0 for one in status["curve"])
    assert 'id="arms"' not in text
    assert re.search(r"Best arm</dt><dd>price [\d.]+, effort [\d.]+<", text)


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_the_curves_have_no_barriers_in_a_browser():
    with serving(filled(100)) as url, chromium() as browser:
        page = browser.new_page(color_scheme="dark")
        said = Said(page)
        page.goto(f"{url}/campaigns/auctions")
        page.get_by_role("img", name="dollars by bid").wait_for()
        page.locator("summary", has_text="The same as a table").click()
        page.locator("#curve-table table").wait_for()
        if (script := axe_script()) is not None:
            assert barriers(page, script) == []
        assert said.errors == []
