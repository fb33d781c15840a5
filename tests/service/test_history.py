"""The read replica of the pages: it agrees with the campaign, is bounded, and blocks nobody."""

from __future__ import annotations

import random
import threading
import time

import numpy as np
import pytest

from tests.service.samples import SimulatedClock, routing, samples
from tightrope import (
    Arm,
    Bernoulli,
    Limit,
    Problem,
    Resolve,
    Scales,
    Share,
    Task,
    open_campaign,
    oracle,
)
from tightrope.errors import NotFoundError, ReportError
from tightrope.live.archive import archive_events
from tightrope.live.campaign import Campaign
from tightrope.live.core import Core
from tightrope.live.events import event_of
from tightrope.live.status import state_before
from tightrope.live.stores import Saved
from tightrope.live.stores.memory import MemoryStore
from tightrope.live.stores.sqlite import SQLiteStore
from tightrope.policies import UniformRandom
from tightrope.service.pages import history as module
from tightrope.service.pages import watch as watching
from tightrope.service.pages.curves import Totals, charts_of, mean_band, rate_band, shares
from tightrope.service.pages.facts import Facts, pace_of
from tightrope.service.pages.history import History, Point, SparseCurve, point_of
from tightrope.service.pages.mixture import MOST_ARMS, best_of, colours_of, ranking
from tightrope.service.pages.rate_words import RateWords
from tightrope.service.pages.watch import Watch

NOW = 1_700_000_000.0


def plain_campaign(store, name="plain", budget=1e6, **more):
    task = Task(["a", "b"], {"bad": Limit(0.3, per="pull")}, Scales(cost=2.0))
    return open_campaign(store, name, task=task, budget=budget, policy=UniformRandom(), **more)


def pull(campaign, count, luck):
    for ticket in campaign.ask_many(count):
        campaign.tell(
            ticket.id,
            cost=luck.uniform(0.5, 1.5),
            reward=luck.random(),
            penalty=float(luck.random() < 0.2),
        )


def looking(store):
    """Looks at the states of campaigns that are opened once, as a service has them."""
    opened = {}

    def look(name, function):
        if name not in opened:
            opened[name] = Campaign(store, name)
        return function(opened[name].refreshed())

    return look


def followed(store, name):
    """A history that has seen everything."""
    found = History(store, name, looking(store))
    found.follow()
    while found.refine():
        pass
    return found


def keep_snapshots_every(store, name, step):
    """Snapshots as a log many times as long would have them."""
    core, seq = Core(), 0
    for row in store.read(name, 0, 10**6):
        core.follow(event_of(row))
        if row.seq % step == 0 and row.seq > seq:
            store.save(name, Saved(row.seq, row.hash, core.snapshot()))
            seq = row.seq


def test_view_is_the_campaigns_own_status_and_outlook():
    store = MemoryStore(clock := SimulatedClock(NOW))
    campaign = routing(store, clock, pulls=300, days=0.1)
    view = followed(store, campaign.name).view()
    assert view.status == campaign.status()
    assert view.outlook == campaign.outlook()
    assert view.oldest[0] == next(iter(campaign.refreshed().ledger.tickets))


def test_points_are_the_states_at_their_events():
    store = MemoryStore(SimulatedClock(NOW))
    campaign = plain_campaign(store)
    pull(campaign, 200, random.Random(1))
    points = followed(store, "plain").view().points
    assert [point.seq for point in points] == list(range(1, 402))
    for point in points[::57]:
        assert point == point_of(state_before(store, "plain", None, point.seq + 1))


def test_it_begins_at_the_end_and_refines_to_the_same_curve(monkeypatch):
    monkeypatch.setattr(module, "FIRST_POINTS", 100)
    store = MemoryStore(SimulatedClock(NOW))
    pull(plain_campaign(store), 1000, random.Random(1))
    keep_snapshots_every(store, "plain", 300)
    found = History(store, "plain", looking(store))
    found.follow()
    first = found.view()
    assert [point.seq for point in first.points] == [2001]  # the first look: nothing before it
    assert not first.whole
    assert first.status["events"] == 2001
    while found.refine():
        pass
    view = found.view()
    assert view.whole
    seqs = [point.seq for point in view.points]
    assert seqs == sorted(set(seqs))
    assert seqs[0] == 1
    assert max(np.diff(seqs)) <= 2 * found.curve.stride
    by_seq = {point.seq: point for point in view.points}
    slow = History(store, "plain", looking(store))
    slow.follow()
    slow.curve.stride = 1
    monkeypatch.setattr(module, "MOST_POINTS", 5000)  # every event
    store.saved = lambda name, upto=None: None  # as if there were no snapshot at all
    while slow.refine():
        pass
    every = {point.seq: point for point in slow.curve.points}
    assert sorted(every) == list(range(1, 2002))
    for seq in seqs:
        assert every[seq] == by_seq[seq]


def test_a_curve_is_bounded_and_keeps_its_ends():
    def point(seq):
        return Point(seq, float(seq), 1.0, 0.0, 0.0, 0, 0, 0.0, (), (), ())

    curve = SparseCurve()
    for seq in range(1, 50_001):
        if curve.due(seq):
            curve.add(point(seq))
    seqs = [one.seq for one in curve.points]
    assert 400 <= len(seqs) <= module.MOST_POINTS
    assert seqs[0] == 1
    assert seqs[-1] > 50_000 - curve.stride
    assert min(np.diff(seqs)) >= curve.stride
    before = curve.generation
    curve.insert([point(7)])
    assert curve.generation > before


@pytest.mark.parametrize("snapshots", [False, True])
def test_what_came_while_nobody_looked_is_refined(monkeypatch, snapshots):
    store = MemoryStore(SimulatedClock(NOW))
    campaign = plain_campaign(store)
    pull(campaign, 50, random.Random(1))
    found = followed(store, "plain")
    pull(campaign, 250, random.Random(2))
    found.follow()
    assert not found.refine()  # a moment later: a point, and nothing is followed again
    assert [point.seq for point in found.view().points] == [*range(1, 102), 601]
    monkeypatch.setattr(module, "AWAY", -1.0)
    pull(campaign, 200, random.Random(2))
    if snapshots:
        keep_snapshots_every(store, "plain", 300)
    found.follow()
    while found.refine():
        pass
    view = found.view()
    assert view.status == campaign.status()
    assert [point.seq for point in view.points] == [*range(1, 102), *range(601, 1002)]
    for point in view.points[::57]:
        assert point == point_of(state_before(store, "plain", None, point.seq + 1))


@pytest.mark.parametrize("away", [-1.0, 60.0])
def test_troubles_of_later_looks_are_those_of_the_first(monkeypatch, away):
    """They are found whether what came between two looks is followed or only read."""
    monkeypatch.setattr(module, "AWAY", away)
    store = MemoryStore(clock := SimulatedClock(NOW))
    campaign = plain_campaign(store, expire_after=60.0)
    found = followed(store, "plain")
    for step in range(5):
        late, _ = campaign.ask_many(2)
        clock.at += 61.0
        pull(campaign, 3, random.Random(step))
        campaign.tell(late.id, cost=1, reward=1, penalty=0)
        with pytest.raises(ReportError):
            campaign.tell(campaign.ask().id, cost=-1.0)
        found.follow()
        while found.refine():
            pass
    troubles = found.view().troubles
    assert {one.kind for one in troubles} == {"expired", "late", "quarantined"}
    assert troubles == followed(store, "plain").view().troubles


def test_troubles_are_noticed_and_late_ones_take_the_place_of_expired_ones():
    store = MemoryStore(clock := SimulatedClock(NOW))
    samples(store, clock)
    view = followed(store, "router-november").view()
    kinds = {one.kind for one in view.troubles}
    assert kinds == {"quarantined", "expired", "late"}
    late = [one.ticket for one in view.troubles if one.kind == "late"]
    assert late == ["odd-1"]
    expired = [one.ticket for one in view.troubles if one.kind == "expired"]
    assert len(expired) == view.status["expired"]
    assert "odd-1" not in expired
    assert [one.seq for one in view.troubles] == sorted(
        (one.seq for one in view.troubles), reverse=True
    )
    over = followed(store, "router-eu").view()
    assert [one.ticket for one in over.troubles if one.kind == "overrun"] == ["over-1"]


def test_archived_events_are_skipped(tmp_path):
    store = MemoryStore(SimulatedClock(NOW))
    campaign = plain_campaign(store)
    pull(campaign, 100, random.Random(1))
    found = History(store, "plain", looking(store))
    found.follow()
    archive_events(campaign, str(tmp_path / "old"), 150)
    pull(campaign, 10, random.Random(2))
    found.follow()
    while found.refine():
        pass
    assert found.view().status == campaign.status()
    assert followed(store, "plain").view().status == campaign.status()


def test_a_log_that_cannot_be_followed_is_said_and_then_forgotten():
    store = MemoryStore(SimulatedClock(NOW))
    campaign = plain_campaign(store)
    pull(campaign, 5, random.Random(1))
    watch = Watch(store, looking(store))
    assert watch.look("plain", 5.0, True).error is None
    broken, read = True, store.read

    def reading(name, after=0, count=1000, tickets=None):
        rows = read(name, after, count, tickets)
        return (
            [row._replace(hash=b"?" * 16, body=row.body + " ") for row in rows] if broken else rows
        )

    store.read = reading
    pull(campaign, 5, random.Random(2))
    assert "hash" in watch.look("plain", 5.0, True).error
    broken = False
    view = watch.look("plain", 5.0, True)
    assert view.error is None
    assert view.status == campaign.status()
    watch.end()


def test_an_unknown_campaign_is_not_found():
    with pytest.raises(NotFoundError, match="'nothing': does not exist"):
        Watch(MemoryStore(), looking(None)).look("nothing")


def test_it_takes_no_turn_and_no_lock_of_the_writers(tmp_path):
    """A writer that holds its turn, and its desk, for as long as it likes: the page goes on."""
    store = SQLiteStore(str(tmp_path / "campaigns.db"))
    campaign = plain_campaign(store)
    pull(campaign, 10, random.Random(1))
    watch = Watch(store, looking(store))
    held, let = threading.Event(), threading.Event()

    def hold(writer):
        held.set()
        assert let.wait(30)

    writer = threading.Thread(target=campaign.do, args=(hold,))
    writer.start()
    assert held.wait(30)
    view = watch.look("plain", 10.0, True)
    assert view.status["told"] == 10
    let.set()
    writer.join()
    watch.end()
    store.close()


def test_only_what_is_looked_at_is_followed(monkeypatch):
    monkeypatch.setattr(watching, "LOOKED_AT", 0.5)
    store = MemoryStore()
    pull(plain_campaign(store), 10, random.Random(1))
    watch = Watch(store, looking(store))
    watch.look("plain", 5.0, True)
    until = time.monotonic() + 20
    while watch._thread is not None and time.monotonic() < until:
        time.sleep(0.05)
    assert watch._thread is None
    pull(open_campaign(store, "plain"), 10, random.Random(1))
    assert watch.look("plain", 5.0, True).status["told"] == 20


def test_a_fresh_look_has_all_that_was_committed():
    store = MemoryStore()
    campaign = plain_campaign(store)
    watch = Watch(store, looking(store))
    for told in range(1, 30):
        pull(campaign, 1, random.Random(told))
        assert watch.look("plain", 10.0, True).status["told"] == told
    watch.end()


# Curves.


def test_mean_band_holds_at_all_times_at_once():
    """In 400 runs of a changing mean, the average of the means leaves its band in few of them."""
    rng = np.random.default_rng(1)
    steps, out = 400, 0
    for _ in range(400):
        means = np.where(rng.random(steps) < 0.5, 0.05, 0.4) * np.linspace(0.5, 1.5, steps)
        outcomes = (rng.random(steps) < means).astype(float)
        count = np.arange(1, steps + 1.0)
        low, high = mean_band(outcomes.cumsum(), count)
        average = means.cumsum() / count
        out += bool(np.any((average < low) | (average > high)))
    assert out <= 0.05 * 400


def test_mean_band_is_narrow_where_much_was_seen_and_all_where_nothing_was():
    low, high = mean_band(np.array([0.0, 50_000.0]), np.array([0.0, 1e6]))
    assert (low[0], high[0]) == (0.0, 1.0)
    assert 0.048 < low[1] < 0.05 < high[1] < 0.052


def test_the_rate_is_per_what_its_limit_is_per():
    limits = {
        "a": Limit(0.5),
        "b": Limit(0.3, per="pull"),
        "c": Limit(2, per="reward"),
        "d": Limit(total=9),
    }
    task = Task(
        ["x"], limits, Scales(cost=4.0, reward=2.0, penalty={"a": 1, "b": 1, "c": 1, "d": 1})
    )
    point = Point(9, NOW, 100.0, 8.0, 0.0, 0, 10, 5.0, (2.0, 3.0, 4.0, 5.0), (0.0,) * 4, (10,))
    totals = Totals([point], 1)
    assert [totals.rate(task, m)[0] for m in range(4)] == [2 / 8, 3 / 10, 4 / 5, 5.0]
    for m in range(4):
        low, high = rate_band(task, totals, m)
        assert low[0] <= totals.rate(task, m)[0] <= high[0]


def test_shares_are_of_recent_pulls():
    points = [
        Point(k, float(k), 1.0, 0.0, 0.0, 0, k, 0.0, (), (), (min(k, 500), max(k - 500, 0)))
        for k in range(0, 1001, 10)
    ]
    found = shares(Totals(points, 2), 0)
    assert found[50].tolist() == [1.0, 0.0]
    assert found[100].tolist() == [0.0, 1.0]


def test_charts_from_a_point_on_are_the_end_of_all_charts():
    store = MemoryStore(clock := SimulatedClock(NOW))
    view = followed(store, routing(store, clock, pulls=400, days=0.2).name).view()
    at, whole = charts_of(view)
    later, some = charts_of(view, 700)
    assert at[700:].tolist() == later.tolist()
    for one, other in zip(whole, some, strict=True):
        for a, b in zip(one.series, other.series, strict=True):
            np.testing.assert_allclose(a.values[700:], b.values, equal_nan=True)


def test_best_mixture_is_the_oracles():
    limits = {"bad": Limit(0.1, per="pull")}
    numbers = {"a": (0.5, 0.4, 0.05), "b": (0.8, 0.9, 0.2), "c": (0.3, 0.3, 0.15)}
    store = MemoryStore()
    campaign = open_campaign(store, "x", task=Task(list(numbers), limits), budget=1e5,
                             policy=UniformRandom())  # fmt: skip
    for arm, (cost, reward, bad) in numbers.items():
        for i in range(100):
            ticket = campaign.ask(eligible=[arm])
            campaign.tell(ticket.id, cost=cost, reward=reward, penalty=float(i < 100 * bad))
    view = followed(store, "x").view()
    reward_rate, pulls = best_of(view)
    problem = Problem(
        [Arm(name, *map(Bernoulli, means)) for name, means in numbers.items()], limits=limits
    )
    best = oracle(problem)
    assert reward_rate == pytest.approx(best.reward_rate)
    assert pulls == pytest.approx(best.pull_share.tolist())


def test_pace_leads_to_the_end_of_the_budget():
    points = tuple(
        Point(k, NOW + 60 * k, 100.0, 0.5 * k, 0.0, 0, k, 0.0, (), (), (k,)) for k in range(101)
    )
    pace, end = pace_of(points, NOW + 6000)
    assert pace == pytest.approx(0.5 / 60)
    assert end == pytest.approx(NOW + 6000 + 6000)
    assert pace_of(points, NOW + 6000 + 3600) == (None, None)


def two_arms(limits=None, **more):
    return Task(["a", "b"], limits or {}, Scales(cost=1.0, **more))


VARIANTS = {
    "no limits": (two_arms(), {}),
    "share": (two_arms({"most": Share(["a"], at_most=0.6)}), {}),
    "of the cost": (two_arms({"price": Limit(3, of="cost", per="reward")}), {}),
    "total": (two_arms({"bad": Limit(total=30)}), {}),
    "hard": (two_arms({"bad": Limit(total=30, hard=True)}), {}),
    "several bases": (
        two_arms({"x": Limit(0.5), "y": Limit(0.5, per="pull"), "z": Limit(0.9, per="reward")}),
        {},
    ),
    "impossible": (two_arms({"bad": Limit(1e-6, per="pull")}), {}),
    "paper": (two_arms({"bad": Limit(0.5)}), {"stop": "paper"}),
    "shadow": (two_arms({"bad": Limit(0.5)}), {"shadow": True}),
    "paced": (two_arms({"bad": Limit(0.5)}), {"per_day": 60.0}),
    "known price": (Task(["a", "b"], {"bad": Limit(0.5)}, costs={"a": 0.25, "b": 0.5}), {}),
    "many arms": (Task([f"arm-{k}" for k in range(120)], {"bad": Limit(0.5)}), {}),
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("pulls", [0, 1, 40])
def test_every_kind_of_campaign_can_be_shown(variant, pulls):
    task, settings = VARIANTS[variant]
    store, luck = MemoryStore(), random.Random(1)
    campaign = open_campaign(
        store, "x", task=task, budget=100.0, policy=UniformRandom(), **settings
    )
    for _ in range(pulls):
        ticket = campaign.ask()
        cost = None if variant == "known price" else luck.random()
        penalty = {name: float(luck.random() < 0.2) for name in task.told_names}
        campaign.tell(ticket.id, cost=cost, reward=luck.random(), penalty=penalty)
    campaign.ask("in-flight")
    view = followed(store, "x").view()
    facts = Facts(view, time.time(), "$")
    assert len(facts.limits) == task.penalty_count
    assert len(facts.arms) == min(task.arm_count, 24)
    assert facts.promise.word
    _, charts = charts_of(view)
    for chart in charts:
        assert {len(one.values) for one in chart.series} == {len(view.points)}
    if variant == "impossible" and pulls == 40:
        assert facts.promise.word in ("Cannot be kept", "Above the limit")


def test_facts_of_every_sample():
    store = MemoryStore(clock := SimulatedClock(NOW))
    samples(store, clock)
    found = {name: Facts(followed(store, name).view(), time.time()) for name in store.names()}
    assert found["router-eu"].state.word == "Paused"
    assert found["router-eu"].alerts[0].tone == "bad"
    assert found["sales-spring"].promise.word == "Within the promise"
    assert found["sales-spring"].risk == "promises a risk of at most 1 %, proved"
    assert (
        "Proved: the chance of ending above it is at most 1 %."
        in found["sales-spring"].promise.text
    )
    assert found["router-november"].risk == "aims at a risk of 1 %, not proved"
    assert found["labels"].promise.text == "No limits."
    assert found["pilot"].state.word == "Closed"
    assert found["router-november"].status["quarantined"] == 2


@pytest.mark.parametrize(
    ("limit", "scales", "allowed", "against"),
    [
        ("5% per pull", Scales(), "at most 5 % of pulls", "3.4 % bad of 5 % allowed"),
        (Limit(0.05), Scales(), "at most 0.05 per $", "0.034 bad of 0.05 allowed per $"),
        ("0.2% per pull", Scales(), "at most 0.2 % of pulls", "3.4 % bad of 0.2 % allowed"),
        (Limit(5, per="pull"), Scales(penalty=50.0), "at most 5 per pull",
         "0.034 bad of 5 allowed per pull"),
        (Limit(total=30), Scales(), "at most 30 in total", "0.034 bad of 30 allowed in total"),
        (Limit(3, of="cost", per="reward"), Scales(), "at most $3.00 per unit of reward",
         "$0.034 bad of $3.00 allowed per unit of reward"),
        (Share(["a"], at_most=0.6), Scales(), "at most 60 % of pulls",
         "3.4 % bad of 60 % allowed of pulls"),
    ],
)  # fmt: skip
def test_rates_are_written_as_shares_money_or_numbers(limit, scales, allowed, against):
    words = RateWords(Task(["a", "b"], {"bad": limit}, scales), 0, "$")
    assert words.allowed == allowed
    assert words.against(0.034) == against
    assert words(1.085) == ("100 %" if words.is_share else words(1.085))


def test_the_best_arms_come_first_and_keep_their_colours():
    store, names = MemoryStore(), [f"arm-{k}" for k in range(40)]
    campaign = open_campaign(store, "x", task=Task(names, {}), budget=1e4, policy=UniformRandom())
    for k in range(40):
        ticket = campaign.ask(eligible=[names[k]])
        campaign.tell(ticket.id, cost=0.5, reward=0.01 * k)
    view = followed(store, "x").view()
    order = ranking(view)
    assert order[0] == 39
    facts = Facts(view, time.time())
    assert facts.arms[0].name == facts.best.name == "arm-39"
    assert facts.arms[0].colour != "rest"
    colours = colours_of(order)
    assert sorted(colours.values()) == list(range(1, MOST_ARMS + 1))
    again = colours_of([*order[:2], *reversed(order[2:])])
    assert [again[arm] for arm in order[:2]] == [colours[arm] for arm in order[:2]]


def test_a_change_is_a_banner_and_a_notice_too():
    store = MemoryStore()
    task = Task(["a", "b"], {"bad": Limit(0.3, per="pull")})
    campaign = open_campaign(store, "x", task=task, budget=1e4, policy=Resolve(watch=0.05))
    assert (
        "reserves 1 per decision" in Facts(followed(store, "x").view(), time.time()).alerts[0].text
    )
    for pulls, bad in ((300, 0.0), (300, 1.0)):
        for _ in range(pulls):
            ticket = campaign.ask()
            campaign.tell(ticket.id, cost=0.5, reward=0.5, penalty=bad)
    facts = Facts(followed(store, "x").view(), time.time())
    assert facts.alerts[0].word == "Change detected"
    assert "behaves differently since pull" in facts.alerts[0].text
