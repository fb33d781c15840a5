"""The dashboard: what its pages say and refuse, and how they behave in a real Chromium."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from urllib.parse import quote

import httpx
import pytest

from tests.live.conftest import postgres_server  # noqa: F401, a fixture
from tests.service.browser import Said, axe_script, barriers, chromium, missing, serving
from tests.service.samples import SimulatedClock, answer, samples
from tests.service.test_history import VARIANTS
from tightrope import Limit, Scales, Task, open_campaign
from tightrope.live.events import line_of
from tightrope.live.stores import open_store
from tightrope.live.stores.copies import copy_campaign
from tightrope.live.stores.memory import MemoryStore
from tightrope.policies import UniformRandom
from tightrope.service.keys import KeyRing, made_key, write_keys

ROUTER = "/campaigns/router-november"


def opened_all(url, store):
    """Wait until every campaign is followed to its end: the first look takes its time."""
    until = time.monotonic() + 60
    for name in store.names():
        while re.search("being opened", get(f"{url}/campaigns/{quote(name)}").text):
            assert time.monotonic() < until


@pytest.fixture(scope="module")
def shown():
    """A service of the samples that no test changes: its address, its store."""
    store = MemoryStore(clock := SimulatedClock(0.0))
    samples(store, clock)
    with serving(store, unit="$") as url:
        opened_all(url, store)
        yield url, store


@pytest.fixture
def small():
    """A service of one small campaign: its address, its store, the campaign."""
    store = MemoryStore()
    task = Task(["haiku", "opus"], {"bad": Limit(0.3, per="pull")}, Scales(cost=1.0))
    campaign = open_campaign(store, "small", task=task, budget=500.0, policy=UniformRandom())
    with serving(store) as url:
        opened_all(url, store)
        yield url, store, campaign


def pull(campaign, luck, count=1):
    for ticket in campaign.ask_many(count):
        bad = float(luck.random() < 0.2)
        campaign.tell(ticket.id, cost=luck.uniform(0.1, 0.9), reward=luck.random(), penalty=bad)


def get(url, **more):
    return httpx.get(url, follow_redirects=False, timeout=30, **more)


def post(url, values, origin=True, **more):
    headers = {"origin": re.match(r"https?://[^/]+", url).group(), **more.pop("headers", {})}
    if origin is not True:
        headers.pop("origin")
        headers.update({} if origin is None else {"origin": origin})
    return httpx.post(url, data=values, headers=headers, timeout=30, **more)


# What is said.


def test_a_page_does_not_wait_for_a_campaign_that_takes_long_to_open(small, monkeypatch):
    url, store, _ = small
    task = Task(["a", "b"], {"bad": Limit(0.3)})
    open_campaign(store, "slow", task=task, budget=50, policy=UniformRandom())
    slow, saved = threading.Event(), store.saved

    def waiting(name, upto=None):
        if name == "slow":
            assert slow.wait(30)
        return saved(name, upto)

    monkeypatch.setattr(store, "saved", waiting)
    page = get(url + "/campaigns/slow")
    assert page.status_code == 200
    assert "is being opened" in page.text
    assert '<meta http-equiv="refresh"' in page.text
    assert "Opening" in get(url + "/").text
    slow.set()
    opened_all(url, store)
    assert "No reports yet" in get(url + "/campaigns/slow").text


def test_opening_says_what_is_done_and_how_far(small, monkeypatch):
    url, store, _ = small
    task = Task(["a", "b"], {"bad": Limit(0.3)})
    slow = open_campaign(store, "slow", task=task, budget=50, policy=UniformRandom())
    pull(slow, random.Random(1), 20)
    stop, read = threading.Event(), store.read

    def waiting(name, after=0, *more, **named):
        if name == "slow" and after >= 1:  # the campaign's first event can be read
            assert stop.wait(30)
        return read(name, after, *more, **named)

    monkeypatch.setattr(store, "read", waiting)
    monkeypatch.setattr(store, "head", lambda name: (41, b"") if name == "slow" else None)
    until, wanted = time.monotonic() + 20, "its log is read"
    while wanted not in (page := get(url + "/campaigns/slow").text):
        assert time.monotonic() < until, page
    assert re.search(r"its log is read[a-z ]*: 1 of 41 events, [\d.]+ s so far", page)
    assert '<progress aria-label="Events read" value="1" max="41">' in page
    assert "of 41 events" in get(url + "/").text
    stop.set()
    opened_all(url, store)


def test_what_may_still_be_spent_is_not_called_spent(small):
    url, store, _ = small
    task = Task(["a", "b"], {"bad": Limit(0.3)}, scales=Scales(cost=0.2))
    with open_campaign(store, "tight", task=task, budget=1, policy=UniformRandom()) as tight:
        first, *others = tight.ask_many(5)
        tight.tell(first.id, cost=0.4, reward=1, penalty=0)
        opened_all(url, store)
        page = get(url + "/campaigns/tight").text
        assert "May overspend" in page
        assert "Overspent" not in page
        for one in others:
            tight.tell(one.id, cost=0.2, reward=1, penalty=0)
        until = time.monotonic() + 20
        while "Overspent" not in get(url + "/campaigns/tight").text:
            assert time.monotonic() < until
            time.sleep(0.1)


def test_the_list_has_what_is_wrong_first(shown):
    page = get(shown[0] + "/").text
    names = re.findall(r'<th scope="row"[^>]*><a[^>]*>([^<]+)', page)
    assert names[0] == "router-eu"
    assert names[-1] == "pilot"
    assert set(names) == {"router-eu", "router-november", "sales-spring", "labels", "pilot"}
    assert "Paused" in page
    assert "the chance of ending above it is at most 1 %" in page
    assert "5 campaigns · " in page


def listed(url, query=""):
    return re.findall(r'<th scope="row"[^>]*><a[^>]*>([^<]+)', get(f"{url}/{query}").text)


def test_the_list_is_searched_filtered_and_sorted(shown):
    url = shown[0]
    assert set(listed(url, "?q=ROUTER")) == {"router-eu", "router-november"}
    assert listed(url, "?state=paused") == ["router-eu"]
    assert listed(url, "?state=ended") == ["pilot"]
    assert listed(url, "?sort=name") == sorted(listed(url))
    assert listed(url, "?sort=last")[-1] == "sales-spring"
    assert listed(url, "?sort=spent&state=running&q=r") == ["router-november", "sales-spring"]
    assert listed(url, "now?state=paused&q=&sort=") == ["router-eu"]
    assert "No campaign matches" in get(url + "/?q=nothing").text
    assert get(url + "/?state=odd").status_code == 400


def test_a_campaign_says_what_its_status_says(shown):
    url, store = shown
    status = open_campaign(store, "router-november").status()
    page = get(url + ROUTER).text
    assert f"${status['spent']:.2f}" in page
    assert f"{status['asked']:,}" in page
    assert f"{status['told']:,} reported" in page
    assert "at most 5 % of pulls" in page
    assert "aims at a risk of 1 %, not proved" in page
    assert re.search(r"[\d.]+ % bad of 5 % allowed", page)
    assert f"${status['reserved']:.2f} reserved" in page


def test_curves_are_bounded_and_come_in_parts(shown):
    url = shown[0] + ROUTER + "/curves"
    whole = get(url).json()
    count = len(whole["t"])
    assert 100 < count <= 2000
    for chart in whole["charts"].values():
        assert {len(one["values"]) for one in chart["series"]} == {count}
    more = get(f"{url}?generation={whole['generation']}&have={count}").json()
    assert more["start"] == count - 1
    assert len(more["t"]) == 1
    other = get(f"{url}?generation=1&have={count}").json()
    assert other["start"] == 0
    shares = whole["charts"]["shares"]["series"]
    assert sum(one["values"][-1] for one in shares) == pytest.approx(1.0, abs=1e-4)


def test_of_a_postgresql_store_the_same_is_said_and_done(shown, postgres_server):  # noqa: F811
    url, store = shown
    other = open_store(postgres_server.url())
    for name in store.names():
        copy_campaign(store, other, name)

    def without_times(text):  # of the moment, and of the address
        text = re.sub(r"https?://[^/]+|-?[\d ]+(d|h|min|s)\b( ago)?|just now", "", text)
        return re.sub(r"(<time)[^>]*>|data-now=\"[^\"]*\"", r"\1", text)

    with serving(other, unit="$") as address:
        opened_all(address, other)
        for path in ("/curves.csv", "/data", "/events", "/reports", "/why?ticket=req-001500"):
            there, here = (get(one + ROUTER + path) for one in (address, url))
            assert there.status_code == here.status_code == 200, path
            assert without_times(there.text) == without_times(here.text), path
        assert get(address + ROUTER + "/export").text == get(url + ROUTER + "/export").text
        page = get(address + "/").text
        assert all(f">{name}<" in page for name in store.names())
        assert post(address + ROUTER + "/act/pause", {"why": "lunch"}).status_code in (200, 303)
        assert "lunch" in get(address + ROUTER).text
        assert open_campaign(other, "router-november").status()["why"] == "lunch"
        assert open_campaign(store, "router-november").status()["state"] == "open"
    other.close()


def test_the_charts_are_there_as_a_table_and_as_csv(shown):
    page = get(shown[0] + ROUTER + "/data").text
    assert "<caption" in page
    assert "bad: rate" in page
    lines = get(shown[0] + ROUTER + "/curves.csv").text.splitlines()
    assert lines[0].startswith("time,budget,spent and reserved,spent,bad: low,bad: high,bad: limit")
    assert len(lines) == 1 + len(get(shown[0] + ROUTER + "/curves").json()["t"])


def test_events_are_paged_from_the_newest(shown):
    url, store = shown
    head = open_campaign(store, "router-november").status()["events"]

    def numbers(page):
        found = re.findall(r'<tr><td class="number">([\d,]+)</td>', page)
        return [int(one.replace(",", "")) for one in found]

    page = get(url + ROUTER + "/events").text
    assert numbers(page) == list(range(head, head - 50, -1))
    older = re.search(r'rel="next" href="([^"]+)"', page).group(1)
    assert numbers(get(url + older).text) == list(range(head - 50, head - 100, -1))
    assert numbers(get(url + ROUTER + "/events?before=3").text) == [2, 1]


def test_the_log_is_exported_whole(shown):
    url, store = shown
    rows = store.read("router-november", 0, 10**6)
    lines = get(url + ROUTER + "/export").text.splitlines()
    assert lines == [line_of(row) for row in rows]
    assert json.loads(lines[-1])["body"] == json.loads(rows[-1].body)
    table = get(url + ROUTER + "/export?format=csv")
    assert len(table.text.splitlines()) == 1 + len(rows)
    assert "router-november-events.csv" in table.headers["content-disposition"]
    assert get(url + ROUTER + "/export?format=xml").status_code == 400


def test_why_shows_what_was_known(shown):
    url, store = shown
    why = open_campaign(store, "router-november").why("req-000500")
    page = get(url + ROUTER + "/why?ticket=req-000500").text
    assert f"<strong>{why.arm}</strong> was chosen" in page
    assert f"{why.arms[0]['pulls']:,}" in page
    unknown = get(url + ROUTER + "/why?ticket=nobody")
    assert unknown.status_code in (404, 422)
    assert "&#39;nobody&#39;: is unknown" in unknown.text


def test_names_are_only_text(small):
    """A campaign's, an arm's and a ticket's name are shown as they are, wherever they appear."""
    url, store, _ = small
    name = 'a/b "<script>alert(1)</script>" ü?#%'
    task = Task(["<img src=x>", "b&b"], {"<b>": Limit(0.3, per="pull")}, Scales(cost=1.0))
    campaign = open_campaign(store, name, task=task, budget=10.0, policy=UniformRandom())
    campaign.ask("<i>'\"&")
    with pytest.raises(ValueError, match="nan"):
        campaign.tell("<i>'\"&", cost=float("nan"), reward=0, penalty=0)
    listed = get(url + "/").text
    path = next(p for p in re.findall(r'href="(/campaigns/[^"]+)"', listed) if "script" in p)
    while "being opened" in get(url + path).text:
        pass
    for rest in ("", "/events", "/data", "/why?ticket=%3Ci%3E'%22%26", "/act/retire"):
        answer = get(url + path + rest)
        assert answer.status_code == 200, rest
        assert "<script>alert" not in answer.text
        assert "<img src=x>" not in answer.text
        assert "<i>" not in answer.text
        assert "<b>" not in answer.text.replace("<b></b>", "")


def test_pages_that_do_not_exist(shown):
    url = shown[0]
    for path in ("/nothing", "/campaigns/nothing", ROUTER + "/nothing", ROUTER + "/act/explode",
                 "/static/../routes.py", "/static/nothing.js", "/campaigns/%ff"):  # fmt: skip
        assert get(url + path).status_code == 404, path


# Headers and who may do what.


def test_every_page_has_the_strict_headers_and_nothing_inline(shown):
    url = shown[0]
    paths = ["/", "/new", ROUTER, ROUTER + "/events", ROUTER + "/data", ROUTER + "/act/pause",
             ROUTER + "/why?ticket=req-000500", "/nothing", ROUTER + "/now", ROUTER + "/reports",
             "/static/app.js"]  # fmt: skip
    for path in paths:
        answer = get(url + path)
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        if "html" in answer.headers["content-type"]:
            assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", answer.text), (
                path
            )
            for source in re.findall(r'(?:src|href|action|hx-\w+)="([^"]*)"', answer.text):
                assert not re.match(r"(https?:)?//|javascript:", source)


def test_files_stay_in_the_browser_as_long_as_they_are_the_same(shown):
    page = get(shown[0] + "/").text
    path = re.search(r'src="(/static/htmx[^"]+)"', page).group(1)
    assert "immutable" in get(shown[0] + path).headers["cache-control"]
    assert "immutable" not in get(shown[0] + "/static/htmx.min.js?v=old").headers["cache-control"]
    assert get(shown[0] + "/").headers["cache-control"] == "no-store"


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", "http://127.0.0.1:1"])
def test_forms_are_taken_from_our_own_pages_only(small, origin):
    url, _, campaign = small
    answer = post(f"{url}/campaigns/small/act/pause", {"why": "x"}, origin)
    assert answer.status_code == 403
    assert "must be a page of this service" in answer.text
    assert campaign.status()["state"] == "open"


def test_without_keys_it_answers_to_the_names_of_loopback_only(small):
    url = small[0]
    assert get(url + "/", headers={"host": "localhost:8321"}).status_code == 200
    for host in ("evil.example", "evil.example:8321", "127.0.0.1.evil.example"):
        assert get(url + "/", headers={"host": host}).status_code == 403
        assert get(url + "/campaigns/small", headers={"host": host}).status_code == 403


@pytest.fixture
def locked(tmp_path):
    """A service with keys: its address, the secrets by name, its keys file, its campaign."""
    store = MemoryStore()
    task = Task(["haiku", "opus"], {"bad": Limit(0.3, per="pull")}, Scales(cost=1.0))
    campaigns = [
        open_campaign(store, name, task=task, budget=500.0, policy=UniformRandom())
        for name in ("mine", "other")
    ]
    made = {
        "boss": made_key("boss", ["admin"]),
        "reader": made_key("reader", ["read"]),
        "clerk": made_key("clerk", ["read", "report"], ["mine"]),
        "machine": made_key("machine", ["decide"]),
    }
    write_keys(tmp_path / "keys", [key for _, key in made.values()])
    with serving(store, KeyRing(tmp_path / "keys")) as url:
        yield (
            url,
            {name: secret for name, (secret, _) in made.items()},
            tmp_path / "keys",
            campaigns,
        )


@pytest.fixture
def signed_in():
    """What signs in with a key: a client, which is closed at the end."""
    clients = []

    def sign_in(url, secret):
        client = httpx.Client(base_url=url, headers={"origin": url}, timeout=30)
        clients.append(client)
        answer = client.post("/login", data={"key": secret})
        assert answer.status_code == 303, answer.text
        return client

    yield sign_in
    for client in clients:
        client.close()


def test_with_keys_nothing_is_seen_before_signing_in(locked):
    url = locked[0]
    for path in ("/", "/campaigns/mine", "/campaigns/mine/events", "/campaigns/nothing"):
        answer = get(url + path)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/login")
    for path in ("/now", "/campaigns/mine/now"):
        answer = get(url + path, headers={"hx-request": "true"})
        assert answer.headers["hx-redirect"] == "/login"
    assert post(url + "/campaigns/mine/act/pause", {}).status_code == 401
    assert get(url + "/campaigns/mine/export").status_code == 303
    assert get(url + "/static/app.js").status_code == 200


def test_signing_in_and_out(locked, signed_in):
    url, secrets, _, _ = locked
    wrong = post(url + "/login", {"key": "tr_wrong"})
    assert wrong.status_code == 401
    assert "set-cookie" not in wrong.headers
    assert "This key is not valid" in wrong.text
    assert post(url + "/login", {"key": secrets["boss"]}, None).status_code == 403
    client = signed_in(url, secrets["boss"])
    cookie = next(iter(client.cookies.jar))
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.get_nonstandard_attr("SameSite") == "strict"
    assert secrets["boss"] not in cookie.value
    assert client.get("/").status_code == 200
    assert client.post("/logout").status_code == 303
    client.cookies.jar.set_cookie(cookie)
    assert client.get("/").status_code == 303  # the word alone is worth nothing any more


@pytest.mark.parametrize("after", ["//evil.example", "https://evil.example", "/\\evil.example"])
def test_signing_in_leads_to_our_own_pages_only(locked, after):
    url, secrets, _, _ = locked
    answer = post(f"{url}/login", {"key": secrets["boss"]}, params={"next": after})
    assert answer.headers["location"] == "/"


def test_a_key_that_is_removed_ends_its_sessions(locked, signed_in):
    url, secrets, path, _ = locked
    client = signed_in(url, secrets["reader"])
    assert client.get("/").status_code == 200
    _, key = made_key("another", ["admin"])
    write_keys(path, [key])
    time.sleep(1.2)
    assert client.get("/").status_code == 303


def test_roles_and_campaigns_of_a_key(locked, signed_in):
    url, secrets, _, (mine, _) = locked
    reader = signed_in(url, secrets["reader"])
    page = reader.get("/campaigns/mine").text
    assert "/act/" not in page
    for action in ("pause", "budget", "tell", "discard"):
        assert reader.get(f"/campaigns/mine/act/{action}").status_code == 403
        assert reader.post(f"/campaigns/mine/act/{action}", data={}).status_code == 403
    clerk = signed_in(url, secrets["clerk"])
    assert "/campaigns/other" not in clerk.get("/").text
    assert clerk.get("/campaigns/other").status_code == 403
    assert clerk.get("/campaigns/other/export").status_code == 403
    page = clerk.get("/campaigns/mine").text
    assert "/act/tell" in page
    assert "/act/pause" not in page
    machine = signed_in(url, secrets["machine"])
    assert machine.get("/campaigns/mine").status_code == 403
    boss = signed_in(url, secrets["boss"])
    assert boss.post("/campaigns/mine/act/pause", data={"why": "lunch"}).status_code == 303
    last = list(mine.events())[-1]
    assert (last.kind, last.who, last.body.why) == ("paused", "boss", "lunch")


# Acting, without any script.


def test_every_action_is_asked_for_and_done(small):
    url, _, campaign = small
    pull(campaign, random.Random(1), 20)
    path = f"{url}/campaigns/small/act/"
    steps = [
        ("pause", {"why": "lunch"}, "state", "paused"),
        ("resume", {}, "state", "open"),
        ("pin", {"arm": "opus"}, "pinned", "opus"),
        ("unpin", {}, "pinned", None),
        ("budget", {"amount": "1,000.5"}, "budget", 1500.5),
        ("set-budget", {"budget": "80"}, "budget", 80.0),
        ("limits", {"limit-0": "40 %"}, "limits", {"bad": {"at_most": 0.4, "per": "pull"}}),
    ]
    for action, values, key, wanted in steps:
        form = get(path + action)
        assert form.status_code == 200
        assert '<form class="act" method="post"' in form.text
        answer = post(path + action, values)
        assert answer.status_code == 303, answer.text
        assert answer.headers["location"] == f"/campaigns/small?done={action}"
        assert campaign.status()[key] == wanted
        assert 'role="status"' in get(url + answer.headers["location"]).text
    assert post(path + "add-arm", {"name": "sonnet", "like": "opus"}).status_code == 303
    assert [arm["arm"] for arm in campaign.status()["arms"]] == ["haiku", "opus", "sonnet"]
    post(path + "retire", {"arm": "haiku"})
    assert campaign.status()["arms"][0]["retired"]
    assert ">opus</option>" in get(path + "pin").text
    assert ">haiku</option>" not in get(path + "pin").text


NEW = {"name": "made here", "arms": "haiku\nopus\n", "limits": "bad: 5% per pull", "budget": "50",
       "cost": "0.2", "safe": "", "policy": "resolve", "hours": "2"}  # fmt: skip


def test_a_campaign_is_created_by_a_form(small):
    url, store, _ = small
    assert "Largest cost of a pull" in get(url + "/new").text
    answer = post(url + "/new", NEW)
    assert answer.status_code == 303, answer.text
    assert answer.headers["location"] == "/campaigns/made%20here?done=create"
    status = open_campaign(store, "made here").status()
    assert (status["budget"], status["policy"]) == (50.0, "resolve")
    assert status["limits"] == {"bad": {"at_most": 0.05, "per": "pull"}}
    opened_all(url, store)
    page = get(url + answer.headers["location"]).text
    assert "The campaign was created." in page
    assert "No reports yet" in page


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"name": "small"}, "limit"),
        ({"name": ""}, "name: is missing"),
        ({"budget": "much"}, "budget = &#39;much&#39;: must be a number"),
        ({"arms": " "}, "arms: is missing"),
        ({"arms": "a\na"}, "must differ"),
        ({"limits": "bad"}, "must be NAME: LIMIT"),
        ({"limits": "bad: 500% per pull"}, "can never bind"),
        ({"policy": "mine.py:Own"}, "policy = &#39;mine.py:Own&#39;: must be an installed one"),
        ({"safe": "nobody"}, "nobody"),
        ({"cost": "-1"}, "must be positive"),
    ],
)
def test_a_campaign_that_cannot_be_is_refused_in_place(small, values, said):
    url, store, _ = small
    answer = post(url + "/new", {**NEW, **values})
    assert answer.status_code in (409, 422)
    assert said in answer.text
    assert 'value="2"' in answer.text
    assert store.names() == ["small"]


def test_only_an_admin_creates(locked, signed_in):
    url, secrets, _, _ = locked
    assert get(url + "/new").headers["location"].startswith("/login")
    reader = signed_in(url, secrets["reader"])
    assert "/new" not in reader.get("/").text
    assert reader.get("/new").status_code == 403
    assert reader.post("/new", data=NEW).status_code == 403
    assert "/new" in signed_in(url, secrets["boss"]).get("/").text


def test_reports_are_settled(small):
    url, _, campaign = small
    path = f"{url}/campaigns/small/act/"
    first, second, third = (campaign.ask(f"t{i}") for i in range(3))
    for ticket in (first, second):
        with pytest.raises(ValueError, match="kept in quarantine"):
            campaign.tell(ticket.id, cost=0.5, reward=7.0, penalty={"bad": 1})
    numbers = [one["number"] for one in campaign.quarantine()]
    link, until = None, time.monotonic() + 20
    while link is None:  # a page may be a second old
        assert time.monotonic() < until
        page = get(f"{url}/campaigns/small").text
        link = re.search(rf'href="([^"]+correct\?number={numbers[0]}[^"]*)"', page)
    form = get(url + link.group(1).replace("&amp;", "&")).text
    assert 'name="cost" value="0.5"' in form
    assert 'name="penalty-0" value="1"' in form
    values = {
        "number": numbers[0],
        "ticket": "t0",
        "cost": "0.5",
        "reward": "0.7",
        "penalty-0": "1",
    }
    assert post(path + "correct", values).status_code == 303
    assert campaign.ticket("t0").state == "told"
    assert post(path + "discard", {"number": numbers[1], "note": "gone"}).status_code == 303
    assert campaign.quarantine() == []
    assert list(campaign.notes().values()) == ["gone"]
    told = {"ticket": third.id, "cost": "0.25", "reward": "1", "penalty-0": "0"}
    assert post(path + "tell", told).status_code == 303
    before = campaign.status()["spent"]
    assert post(path + "amend", {"ticket": third.id, "cost": "0.75"}).status_code == 303
    assert campaign.status()["spent"] == pytest.approx(before + 0.5)


@pytest.mark.parametrize(
    ("action", "values", "said"),
    [
        ("budget", {"amount": "much"}, "amount = &#39;much&#39;: must be a number"),
        ("budget", {"amount": "-5"}, "must be a positive number"),
        ("budget", {}, "amount: is missing"),
        ("budget", {"amount": "nan"}, "amount = nan"),
        ("set-budget", {}, "budget: is missing"),
        ("set-budget", {"budget": "-5"}, "budget = -5.0: must be a positive, finite number"),
        ("pin", {"arm": "nobody"}, "arm = &#39;nobody&#39;"),
        ("limits", {"limit-0": "few"}, "&#39;few&#39; must be a number or a percentage"),
        ("limits", {"limit-0": "30 %"}, "limits: is missing"),
        ("limits", {"limit-0": "400 %"}, "can never bind"),
        ("add-arm", {"name": "opus"}, "an arm has this name already"),
        ("add-arm", {"name": ""}, "name: is missing"),
        ("pause", {"why": "x" * 501}, "must be at most 500"),
        ("tell", {"ticket": "nobody", "cost": "1"}, "is unknown"),
        ("amend", {"ticket": "nobody"}, "cost: is missing"),
        ("amend", {"ticket": "nobody", "cost": "1"}, "is unknown; must be a reported ticket"),
    ],
)
def test_a_wrong_value_is_said_in_place_and_kept(small, action, values, said):
    url, _, campaign = small
    before = campaign.status()["events"]
    answer = post(f"{url}/campaigns/small/act/{action}", values)
    assert answer.status_code in (404, 422)
    assert said in answer.text
    assert 'role="alert"' in answer.text
    for value in values.values():
        if action != "pin":
            assert f'value="{value}"' in answer.text
    assert campaign.status()["events"] == before


def test_a_form_is_bounded(small):
    answer = post(small[0] + "/campaigns/small/act/pause", {"why": "x" * 100_000})
    assert answer.status_code == 413


# In a browser.


@pytest.fixture(scope="module")
def browser():
    if (why := missing()) is not None:
        pytest.skip(why)
    with chromium() as one:
        yield one


@pytest.fixture
def page(browser):
    """A page; at the end of a test it must not have complained."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    one = context.new_page()
    one.set_default_timeout(20_000)
    heard = Said(one)
    one.heard = heard
    yield one
    context.close()
    assert heard.errors == []


def opened(page, url):
    page.goto(url, wait_until="load")
    return page


OTHER = "old => document.querySelector('#numbers').innerText !== old"
EVERY = ["/", ROUTER, "/campaigns/sales-spring", "/campaigns/router-eu", "/campaigns/labels",
         "/campaigns/pilot", ROUTER + "/events", ROUTER + "/data", ROUTER + "/reports",
         ROUTER + "/why?ticket=req-001000", ROUTER + "/act/budget", ROUTER + "/act/limits",
         "/new", "/?q=router"]  # fmt: skip


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_pages_fit_and_do_not_complain(shown, page, width, scheme):
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)
    for path in EVERY:
        opened(page, shown[0] + path)
        if path == ROUTER:
            page.wait_for_selector("figure[data-chart=shares] canvas")
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{path} is {wide} wide"
        back = page.evaluate("getComputedStyle(document.body).backgroundColor")
        light = sum(map(int, re.findall(r"\d+", back)[:3])) > 380
        assert light == (scheme == "light"), path


def test_every_kind_of_campaign_fits_a_phone(page):
    """Many arms, long names, hard limits, several limits: nothing is wider than the screen."""
    store, luck = MemoryStore(), random.Random(1)
    long = "the-name-of-a-campaign-that-nobody-could-shorten-" * 2
    for name, (task, settings) in {**VARIANTS, long: VARIANTS["several bases"]}.items():
        campaign = open_campaign(
            store, name, task=task, budget=100.0, policy=UniformRandom(), **settings
        )
        for _ in range(5):
            ticket = campaign.ask()
            cost = None if name == "known price" else luck.random()
            penalty = {one: luck.random() for one in task.told_names}
            campaign.tell(ticket.id, cost=cost, reward=luck.random(), penalty=penalty)
    page.set_viewport_size({"width": 390, "height": 844})
    with serving(store) as url:
        opened_all(url, store)
        for path in ["/", *(f"/campaigns/{quote(name)}" for name in store.names())]:
            opened(page, url + path)
            if path != "/":
                page.wait_for_selector("figure[data-chart=spend] canvas")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 390, f"{path} is {wide} wide"
        page.goto("about:blank")


def test_the_theme_is_switched_and_kept(shown, page):
    opened(page, shown[0] + ROUTER)
    button = page.locator("#theme")
    assert "system" in button.get_attribute("aria-label")
    colours = []
    for _ in range(2):
        button.click()
        colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(set(colours)) == 2
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == colours[1]


def luminance(colour):
    def linear(part):
        part /= 255
        return part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(one)) for one in re.findall(r"\d+", colour)[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read(shown, page, scheme):
    """Every text has a contrast of 4.5 to what is behind it (WCAG AA)."""
    page.emulate_media(color_scheme=scheme)
    for path in ("/", ROUTER, "/campaigns/router-eu", ROUTER + "/act/retire"):
        opened(page, shown[0] + path)
        found = page.evaluate(
            """() => {
              const rows = [];
              for (const one of document.querySelectorAll("main *, header *")) {
                const own = [...one.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
                if (!own || !one.offsetParent || one.closest(".hidden, .retired")) continue;
                let back = one;
                while (back && /, 0\\)$|transparent/.test(getComputedStyle(back).backgroundColor))
                  back = back.parentElement;
                rows.push([one.textContent.trim().slice(0, 40), getComputedStyle(one).color,
                           getComputedStyle(back || document.body).backgroundColor]);
              }
              return rows;
            }"""
        )
        assert len(found) > 8
        for text, front, back in found:
            if back.startswith("rgb("):
                light, dark = sorted([luminance(front), luminance(back)], reverse=True)
                ratio = (light + 0.05) / (dark + 0.05)
                assert ratio >= 4.5, f"{path}: {text!r} {front} on {back}: {ratio:.2f}"


def test_a_campaign_under_load_updates_by_itself(small, page):
    url, _, campaign = small
    luck, stop = random.Random(1), threading.Event()
    pull(campaign, luck, 30)

    def load():
        while not stop.wait(0.05):
            pull(campaign, luck)

    opened(page, url + "/campaigns/small")
    page.wait_for_selector("figure[data-chart=spend] canvas")
    worker = threading.Thread(target=load)
    worker.start()
    try:
        numbers = page.locator("#numbers")
        first = numbers.inner_text()
        page.wait_for_function(
            "old => document.querySelector('#numbers').innerText !== old", arg=first
        )
        key = "figure[data-chart=spend] .key"
        spent = page.locator(key).inner_text()
        page.wait_for_function(
            f"old => document.querySelector('{key}').innerText !== old", arg=spent
        )
    finally:
        stop.set()
        worker.join()
    page.wait_for_function(
        "told => document.querySelector('#numbers').innerText.includes(told + ' reported')",
        arg=f"{campaign.status()['told']:,}",
    )
    assert page.locator("#fresh").get_attribute("data-state") == "on"


def test_pausing_is_confirmed_and_said(small, page):
    url, _, campaign = small
    opened(page, url + "/campaigns/small")
    page.get_by_role("button", name="Pause").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Cancel").click()
    page.wait_for_selector("dialog:not([open])", state="attached")
    assert campaign.status()["state"] == "open"
    page.get_by_role("button", name="Pause").click()
    dialog.get_by_label("Reason").fill("maintenance")
    dialog.get_by_role("button", name="Pause").click()
    page.wait_for_selector("text=Paused: maintenance")
    assert campaign.status()["why"] == "maintenance"
    assert "paused" in page.locator(".banner.good").inner_text()
    page.get_by_role("button", name="Resume").click()
    dialog.get_by_role("button", name="Resume").click()
    page.wait_for_selector("text=decides again")
    assert campaign.status()["state"] == "open"


def test_the_keyboard_is_enough(small, page):
    """Pause with nothing but keys; the focus is seen, held by the dialog, and comes back."""
    url, _, campaign = small
    opened(page, url + "/campaigns/small")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "act-pause":
            break
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Space")
    page.wait_for_selector("dialog[open]")
    assert page.evaluate("document.activeElement.id") == "f-why"
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog:not([open])", state="attached")
    assert page.evaluate("document.activeElement.id") == "act-pause"
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Control+A")
    page.keyboard.type("by key")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Paused: by key")
    assert campaign.status()["why"] == "by key"


def test_focus_stays_while_the_page_is_refreshed(small, page):
    url, _, campaign = small
    opened(page, url + "/campaigns/small")
    page.locator("#ticket").fill("half typed")
    page.locator("#act-budget").focus()
    for seed in range(2):
        before = page.locator("#numbers").inner_text()
        pull(campaign, random.Random(seed), 3)
        page.wait_for_function(
            "old => document.querySelector('#numbers').innerText !== old", arg=before
        )
    assert page.evaluate("document.activeElement.id") == "act-budget"
    assert page.locator("#ticket").input_value() == "half typed"


def test_a_wrong_value_is_said_in_the_dialog(small, page):
    url, _, campaign = small
    opened(page, url + "/campaigns/small")
    page.get_by_role("button", name="Add budget").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Amount").fill("plenty")
    dialog.get_by_role("button", name="Add budget").click()
    dialog.get_by_role("alert").wait_for()
    assert "must be a number" in dialog.get_by_role("alert").inner_text()
    assert dialog.get_by_label("Amount").input_value() == "plenty"
    dialog.get_by_label("Amount").fill("500")
    dialog.get_by_role("button", name="Add budget").click()
    page.wait_for_selector("text=The budget was added")
    assert campaign.status()["budget"] == 1000.0
    page.heard.errors[:] = [one for one in page.heard.errors if "422" not in one]


def test_why_is_answered_in_place(shown, page):
    opened(page, shown[0] + ROUTER)
    page.get_by_role("textbox", name="Ticket").fill("req-000700")
    page.get_by_role("button", name="Look up").click()
    page.wait_for_selector("#why-answer >> text=was chosen for")
    assert page.locator("#why-answer .chosen").count() == 1
    assert page.url.endswith(ROUTER)


def test_a_paused_campaign_is_announced(small, page):
    url, _, campaign = small
    opened(page, url + "/campaigns/small")
    assert page.locator("#said").inner_text() == ""
    campaign.pause("out of coffee")
    page.wait_for_function("() => document.querySelector('#said').textContent.includes('Paused')")


def test_a_service_that_is_away_is_said(browser):
    store = MemoryStore()
    task = Task(["a", "b"], {"bad": Limit(0.3)})
    open_campaign(store, "gone", task=task, budget=50, policy=UniformRandom())
    context = browser.new_context()
    page = context.new_page()
    with serving(store) as url:
        opened_all(url, store)
        opened(page, url + "/campaigns/gone")
        assert page.locator("#offline").is_hidden()
    page.wait_for_selector("#offline:not([hidden])", timeout=20_000)
    assert "does not answer" in page.locator("#offline").inner_text()
    context.close()


def test_the_list_is_searched_in_place_and_stays_so(shown, page):
    opened(page, shown[0] + "/")
    page.get_by_label("Search").fill("router")
    page.wait_for_function("() => document.querySelectorAll('.campaigns tbody tr').length === 2")
    assert page.url.endswith("/?q=router")
    with page.expect_response(re.compile("/now")):  # it is refreshed
        pass
    page.get_by_label("State").select_option("paused")
    page.wait_for_function("() => document.querySelectorAll('.campaigns tbody tr').length === 1")
    assert "1 shown" in page.locator(".summary").inner_text()
    page.reload()
    assert page.locator(".campaigns tbody tr").count() == 1


def test_a_campaign_is_created_in_a_dialog(small, page):
    url, store, _ = small
    opened(page, url + "/")
    page.get_by_role("button", name="New campaign").click()
    dialog = page.get_by_role("dialog")
    for label, text in (("Name", "fresh"), ("Arms", "a\nb"), ("Limits", "bad: 5%"),
                        ("Budget", "50"), ("Largest cost of a pull", "none")):  # fmt: skip
        dialog.get_by_label(label, exact=True).fill(text)
    dialog.get_by_role("button", name="Create").click()
    dialog.get_by_role("alert").wait_for()
    assert "cost = 'none': must be a number" in dialog.get_by_role("alert").inner_text()
    dialog.get_by_label("Largest cost of a pull").fill("0.5")
    dialog.get_by_role("button", name="Create").click()
    page.wait_for_selector("text=The campaign was created")
    assert "fresh" in store.names()
    page.heard.errors[:] = [one for one in page.heard.errors if "422" not in one]


def test_pages_work_without_script(shown, browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    opened(page, shown[0] + "/")
    page.get_by_role("link", name="router-november").click()
    assert page.locator("#numbers").is_visible()
    page.get_by_role("button", name="Add budget").click()
    assert page.url.endswith("/act/budget")
    page.get_by_label("Amount").fill("x")
    page.get_by_role("button", name="Add budget").click()
    assert "must be a number" in page.get_by_role("alert").first.inner_text()
    context.close()


def test_everything_has_a_name(shown, page):
    """Buttons, links, fields, tables, regions and pictures say what they are."""
    for path in EVERY:
        opened(page, shown[0] + path)
        unnamed = page.evaluate(
            """() => {
              const said = (one, what) => (one.getAttribute(what) || "").trim();
              const named = (one) => said(one, "aria-label") || one.textContent.trim()
                || document.getElementById(said(one, "aria-labelledby"))?.textContent;
              const wrong = [];
              for (const one of document.querySelectorAll("a, button, [role=img], [role=region]"))
                if (!named(one)) wrong.push(one.outerHTML.slice(0, 100));
              for (const one of document.querySelectorAll("input:not([type=hidden]), select"))
                if (!one.labels.length) wrong.push(one.outerHTML.slice(0, 100));
              for (const one of document.querySelectorAll("table"))
                if (!one.caption) wrong.push("a table without caption");
              const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
              const twice = ids.filter((id) => ids.indexOf(id) !== ids.lastIndexOf(id));
              wrong.push(...twice.map((id) => "twice: " + id));
              if (document.querySelectorAll("h1").length !== 1) wrong.push("not one h1");
              return wrong;
            }"""
        )
        assert unnamed == [], path


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_axe_finds_no_barrier(shown, page, width, scheme):
    script = axe_script()
    if script is None:
        pytest.skip("axe is not installed: pip install axe-playwright-python")
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)
    for path in EVERY:
        opened(page, shown[0] + path)
        assert barriers(page, script) == [], path


def test_opening_reads_nothing_from_elsewhere(shown, page):
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    opened(page, shown[0] + ROUTER)
    page.wait_for_selector("figure[data-chart=shares] canvas")
    assert asked
    assert all(one.startswith(shown[0]) for one in asked)


def test_sample_answers_are_possible():
    """The samples that the pages show: their numbers are within the scales of their task."""
    luck = random.Random(1)
    for _ in range(100):
        told = answer("opus", luck, 2.0)
        assert 0 < told["cost"] < 0.04
        assert set(told["penalty"]) == {"bad", "slow"}
