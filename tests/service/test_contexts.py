"""Contexts in the service: over HTTP, with the client, on the pages, through a crash."""

from __future__ import annotations

import asyncio
import re
import time

import httpx
import pytest

from tests.service.between import ForThreads
from tests.service.browser import Said, axe_script, barriers, chromium, missing, serving
from tests.service.samples import KINDS, SimulatedClock, typed
from tests.service.test_pages import NEW, get, opened_all, post
from tightrope import Limit, Scales, Task, Types, open_campaign
from tightrope.client import AsyncClient, Client, UnreachableError, new_id
from tightrope.errors import ConflictError, InputError
from tightrope.live.stores.memory import MemoryStore
from tightrope.policies import UniformRandom
from tightrope.service.server import Running

TASK = {
    "arms": [{"name": "haiku"}, {"name": "opus"}],
    "limits": {"bad": {"at_most": 0.2, "per": "pull"}},
    "contexts": {"types": ["math", "code"]},
}
REPORT = {"cost": 0.5, "reward": 1, "penalty": {"bad": 0}}


@pytest.fixture
def path(api, request):
    """The path of a new campaign with two types."""
    name = re.sub(r"\W+", "-", request.node.name)[:100]
    api.create(name, task=TASK)
    return f"/v1/campaigns/{name}"


# HTTP.


def test_a_ticket_keeps_its_context_and_the_status_counts_it(api, path):
    status, ticket, _ = api("POST", f"{path}/decisions", {"id": "a", "context": "math"})
    assert (status, ticket["context"]) == (201, "math")
    assert api("POST", f"{path}/decisions", {"id": "a", "context": "math"})[:2] == (200, ticket)
    assert api("GET", f"{path}/decisions/a")[1] == ticket
    assert api("POST", f"{path}/decisions", {"id": "a", "context": "code"})[0] == 409
    assert api("POST", f"{path}/reports", {"id": "a", **REPORT})[0] == 200
    math, code = api("GET", path)[1]["types"]
    assert (math["type"], math["asked"], math["told"], math["reward"]) == ("math", 1, 1, 1.0)
    assert math["pulls"][ticket["arm"]] == 1
    assert (math["recent"], code["recent"], code["asked"]) == (1.0, 0.0, 0)
    assert [repr(one["penalties"]["bad"]) for one in (math, code)] == ["0.0", "0.0"]
    assert api("GET", f"{path}/decisions/a/why")[1]["context"] == "math"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"context": "maht"}, "context 'maht' is unknown; did you mean 'math'?"),
        ({}, "context is missing; must be one of 'math', 'code'"),
        ({"context": ""}, "context = '': must be the name of a type"),
        (
            {"context": 3},
            "context = 3: must be text or an object or a list or null",
        ),
    ],
)
def test_a_wrong_context_is_refused_in_one_line(api, path, body, said):
    status, problem, _ = api("POST", f"{path}/decisions", body)
    assert (status, problem["code"], problem["detail"]) == (422, "invalid", said)
    assert api("GET", path)[1]["asked"] == 0


def test_a_campaign_without_contexts_refuses_one(api):
    api.create("plain")
    status, problem, _ = api("POST", "/v1/campaigns/plain/decisions", {"context": "math"})
    assert (status, problem["code"]) == (422, "invalid")
    assert problem["detail"].startswith("context = 'math': must be left out")
    _, ticket, _ = api("POST", "/v1/campaigns/plain/decisions", {})
    assert "context" not in ticket
    assert "types" not in api("GET", "/v1/campaigns/plain")[1]


def test_a_batch_has_a_context_per_item(api, path):
    items = [{"context": "math"}, {"context": "chat"}, {"context": "code"}, {}]
    _, found, _ = api("POST", f"{path}/decisions/batch", {"decisions": items})
    assert [one["status"] for one in found["results"]] == [201, 422, 201, 422]
    assert [one.get("context") for one in found["results"]] == ["math", None, "code", None]


def test_types_are_given_and_merged_over_http(api):
    path = "/v1/campaigns/given"
    api.create("given", task={**TASK, "contexts": {"most": 2}})
    for kind in ("math", "maths", "code", "chat"):
        assert api("POST", f"{path}/decisions", {"context": kind})[0] == 201
    assert [one["type"] for one in api("GET", path)[1]["types"]] == ["math", "maths", "(other)"]
    status, found, _ = api("POST", f"{path}/merge-types", {"type": "maths", "into": "math"})
    assert (status, found["types"][0]["asked"]) == (200, 2)
    _, ticket, _ = api("POST", f"{path}/decisions", {"context": "maths"})
    assert ticket["context"] == "math"
    _, problem, _ = api("POST", f"{path}/merge-types", {"type": "mat", "into": "math"})
    assert problem["status"] == 422


def test_metrics_by_type(api, path):
    for id, kind in (("a", "math"), ("b", "math"), ("c", "code")):
        arm = api("POST", f"{path}/decisions", {"id": id, "context": kind})[1]["arm"]
    api("POST", f"{path}/reports", {"id": "c", **REPORT})
    text = api("GET", "/metrics")[1]
    campaign = f'campaign="{path.rpartition("/")[2]}"'
    for line in (
        f'asked_by_type_total{{{campaign},type="math"}} 2',
        f'pulls_by_type_total{{{campaign},type="code",arm="{arm}"}} 1',
        f'outcome_by_type_sum{{{campaign},type="code",outcome="reward"}} 1',
        f"mix_changed{{{campaign}}} 0",
    ):
        assert f"tightrope_{line}\n" in text


# The client.


def test_the_client_asks_with_contexts(server):
    with Client(server.url) as client:
        client.create("client", TASK, budget=100, policy="lyon")
        assert client.ask("client", context="code").context == "code"
        with client.decide("client", context="math") as decision:
            decision.report(**REPORT)
        assert decision.ticket.context == "math"
        many = client.ask_many("client", contexts=["math", "code", "code"])
        assert [one.context for one in many] == ["math", "code", "code"]
        assert client.ask_many("client", ids=["x"], contexts=["math"])[0].id == "x"
        assert client.ticket("client", "x").context == "math"
        with pytest.raises(InputError, match="contexts: 1 must be 2"):
            client.ask_many("client", 2, contexts=["math"])
        with pytest.raises(InputError, match="did you mean 'math'"):
            client.ask("client", context="mat")
        with pytest.raises(ConflictError, match="context 'math'"):
            client.ask("client", "x", context="code")
        counts = {one["type"]: one["asked"] for one in client.status("client")["types"]}
        assert counts == {"math": 3, "code": 3}


def test_the_client_for_asyncio_asks_with_contexts(server):
    async def work():
        async with AsyncClient(server.url) as client:
            task = Task(["a", "b"], contexts=Types(["math", "code"]))
            await client.create("tasks", task, budget=10, policy="lyon")
            async with client.decide("tasks", context="code") as decision:
                await decision.report(cost=0.5, reward=1)
            return decision.ticket.context

    assert asyncio.run(work()) == "code"


def test_spares_are_kept_for_each_type(server, tmp_path):
    between = ForThreads()
    name = f"spares-{new_id()}"
    with Client(
        server.url, spool=str(tmp_path / "s.db"), spare=2, transport=between, timeout=30
    ) as client:
        client.create(name, TASK, budget=100, policy="lyon")
        assert client.spares(name, "math") == 2
        asked = client.ask(name, context="math")
        assert not asked.spare
        between.mode = "down"
        spare = client.ask(name, context="math")
        assert (spare.spare, spare.context) == (True, "math")
        with pytest.raises(UnreachableError):
            client.ask(name, context="code")
        client.report(name, spare, **REPORT)
        between.mode = "up"
        assert client.flush() == 0
        assert client.ticket(name, spare).state == "told"
        types = {one["type"]: one["asked"] for one in client.status(name)["types"]}
        assert types["code"] <= 1  # the decision that was lost is voided; no spare replaced it


def test_spares_of_requests_without_a_context_are_not_asked_for_again(server, tmp_path):
    name = f"missing-{new_id()}"
    task = {**TASK, "contexts": {"types": ["math"], "missing": "none"}}
    with Client(server.url, spool=str(tmp_path / "s.db"), spare=2, timeout=30) as client:
        client.create(name, task, budget=100, policy="lyon")
        for _ in range(3):
            assert client.ask(name).context == "none"
        assert client.status(name)["in_flight"] == 5


def test_contexts_survive_a_killed_service(tmp_path):
    store = tmp_path / "campaigns.db"
    service = Running(store)
    with Client(service.url, spool=str(tmp_path / "spool.db"), deadline=60) as client:
        client.create("crash", TASK, budget=100, policy="lyon")
        kinds = ["math", "code", "code"] * 4
        tickets = client.ask_many("crash", contexts=kinds)
        client.report_many("crash", [{"id": one, **REPORT} for one in tickets[:6]])
        before = client.status("crash")
        service.kill()
        client.report("crash", tickets[6], **REPORT)  # waits in the spool
        service = Running(store, port=service.port)
        try:
            assert [client.ticket("crash", one).context for one in tickets] == kinds
            assert client.status("crash")["types"] == before["types"]
            assert client.flush() == 0
            again = client.ask("crash", tickets[7].id, context="code")
            assert (again.id, again.context) == (tickets[7].id, "code")
            client.void("crash", tickets[8])
            client.report_many("crash", [{"id": one, **REPORT} for one in tickets[9:]])
            found = {one["type"]: one for one in client.status("crash")["types"]}
            assert (found["math"]["told"], found["code"]["told"]) == (4, 6)
            assert client.ask("crash", context="math").context == "math"
        finally:
            client.close()
            service.stop(120)
    campaign = open_campaign(store, "crash")
    assert campaign.verify().good
    campaign.disconnect()


# The pages.


@pytest.fixture(scope="module")
def routed():
    """A service of a router with types, whose mix has changed: its address, its store."""
    store = MemoryStore(clock := SimulatedClock(time.time() - 43200))
    typed(store, clock)
    clock.at = None
    with serving(store, unit="$") as url:
        opened_all(url, store)
        yield url, store


def test_the_page_shows_what_each_type_gets_earns_and_breaks(routed):
    url, store = routed
    page = get(url + "/campaigns/router-types").text
    table = re.search(r'<section id="types".*?</section>', page, re.DOTALL)[0]
    rows = re.findall(r'<tr>\s*<th scope="row">(\w+)</th>(.*?)</tr>', table, re.DOTALL)
    status = open_campaign(store, "router-types").status()
    most = sorted(status["types"], key=lambda one: -one["asked"])
    assert [name for name, _ in rows] == [one["type"] for one in most]
    for (_, row), one in zip(rows, most, strict=True):
        assert f"{one['asked']:,} requests" in row
        cells = re.findall(r'data-label="([^"]+)">(.*?)</td>', row, re.DOTALL)
        labels = [label for label, _ in cells]
        assert labels == ["share of requests", "recent share", "best mixture", "arms", "cost",
                          "reward", "bad"]  # fmt: skip
    chat = dict(rows)["chat"]
    assert "100 % haiku" in chat.partition('data-label="best mixture"')[2]
    banner = re.search(r"<strong>The mix of requests has changed\..*?</p>", page)[0]
    assert re.search(r"math [\d.]+ % \([\d.]+ % of all requests\)", banner)


def test_why_names_the_type(routed):
    url, store = routed
    ticket = open_campaign(store, "router-types").ticket("req-000900")
    page = get(f"{url}/campaigns/router-types/why?ticket=req-000900").text
    assert f"a request of the type <strong>{ticket.context}</strong>" in page


def test_two_types_are_merged_by_a_form():
    store = MemoryStore()
    task = Task(["a", "b"], {"bad": Limit(0.5)}, contexts=Types(["math", "maths", "code"]))
    campaign = open_campaign(store, "merging", task=task, budget=100, policy=UniformRandom())
    campaign.ask_many(3, contexts=["math", "maths", "maths"])
    with serving(store) as url:
        opened_all(url, store)
        assert "act/merge-types" in get(f"{url}/campaigns/merging").text
        form = get(f"{url}/campaigns/merging/act/merge-types").text
        assert re.findall(r"<option[^>]*>(\w+)</option>", form) == ["maths", "math", "code"] * 2
        values = {"type": "maths", "into": "math"}
        assert post(f"{url}/campaigns/merging/act/merge-types", values).status_code in (200, 303)
        same = post(f"{url}/campaigns/merging/act/merge-types", {"type": "math", "into": "math"})
        assert "must be two types" in same.text
    assert [one["type"] for one in campaign.status()["types"]] == ["math", "code"]


def test_a_policy_that_ignores_types_still_shows_their_requests():
    store = MemoryStore()
    task = Task(["a", "b"], {"bad": Limit(0.3, per="pull")}, Scales(cost=1.0), contexts=list(KINDS))
    campaign = open_campaign(store, "blind", task=task, budget=50.0, policy=UniformRandom())
    for kind in ("math", "math", "code"):
        campaign.tell(campaign.ask(context=kind).id, cost=0.5, reward=1, penalty=0)
    with serving(store) as url:
        opened_all(url, store)
        page = get(url + "/campaigns/blind").text
    table = re.search(r'<section id="types".*?</section>', page, re.DOTALL)[0]
    assert "2 requests" in table
    assert "66.7 %" in table


def test_without_contexts_the_page_has_no_types():
    store = MemoryStore()
    open_campaign(store, "plain", task=Task(["a", "b"]), budget=50.0, policy=UniformRandom())
    with serving(store) as url:
        opened_all(url, store)
        assert 'id="types"' not in get(url + "/campaigns/plain").text


def test_a_campaign_with_types_is_created_by_a_form():
    store = MemoryStore()
    with serving(store) as url:
        answer = post(url + "/new", {**NEW, "types": "math, code,chat"})
        assert answer.status_code == 303, answer.text
        wrong = post(url + "/new", {**NEW, "name": "twice", "types": "math, math"})
        assert wrong.status_code == 422
        assert "names must differ" in wrong.text
        assert store.names() == ["made here"]
        types = httpx.get(f"{url}/v1/campaigns/made%20here").json()["types"]
    assert [one["type"] for one in types] == ["math", "code", "chat"]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_the_types_fit_and_axe_finds_no_barrier(routed, width, scheme):
    if (why := missing()) is not None:
        pytest.skip(why)
    script = axe_script()
    with chromium() as browser:
        context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
        page = context.new_page()
        heard = Said(page)
        for path in ("/campaigns/router-types", "/campaigns/router-types/why?ticket=req-000900"):
            page.goto(routed[0] + path, wait_until="load")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert script is None or barriers(page, script) == []
        context.close()
    assert heard.errors == []
