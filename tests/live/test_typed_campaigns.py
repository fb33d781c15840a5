"""Campaigns whose requests have types: tickets, the log, replays, changes."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from tests.live.cheap import Rotation
from tightrope import Controller, FullTable, Limit, LyOn, Resolve, Task, Types, open_campaign
from tightrope.errors import ConflictError, InputError, ReportError, WaitError
from tightrope.live import turns
from tightrope.live.archive import archive_events, backup_store, restore_store
from tightrope.live.core import Core
from tightrope.live.stores.memory import MemoryStore

LIMITS = {"bad": Limit(0.5, per="pull")}
TASK = Task(["a", "b"], LIMITS, costs=1, contexts=["x", "y"])
OPEN = Task(["a", "b"], LIMITS, costs=1, contexts=Types(most=2))
PLAIN = Task(["a", "b"], LIMITS, costs=1)


def start(store, task=TASK, budget=200, policy=None, **options):
    return open_campaign(store, "one", task=task, budget=budget, policy=policy, **options)


def work(campaign, pulls, names="xy", seed=0):
    """Requests of random types, of which some are in flight, void, late or wrong."""
    rng, flying = random.Random(seed), []
    for _ in range(pulls):
        name = rng.choice(names)
        flying.append((campaign.ask(context=name), name))
        if len(flying) > 3 or rng.random() < 0.5:
            ticket, name = flying.pop(rng.randrange(len(flying)))
            assert ticket.context == name
            if rng.random() < 0.1:
                campaign.void(ticket)
            elif rng.random() < 0.05:
                with pytest.raises(ReportError):
                    campaign.tell(ticket, reward=7, penalty=0)
            else:
                good = (ticket.number == 0) == (name == "x")
                campaign.tell(ticket, reward=float(good), penalty=float(rng.random() < 0.3))


def replayed(campaign):
    """The state that the log alone gives."""
    core = Core(campaign._follower.policy)
    for event in campaign.events():
        core.follow(event)
    return core


def agrees(campaign):
    now, again = campaign.refreshed(), replayed(campaign)
    assert again.controller == now.controller
    assert again.ledger == now.ledger
    found = campaign.verify()
    assert found.good, found.wrong
    assert found.to_the_bit + found.money_only == found.snapshots


# Tickets.


@pytest.mark.parametrize("policy", ["resolve", "lyon", "uniform-random"])
def test_a_ticket_remembers_its_context(any_store, policy):
    campaign = start(any_store, policy=policy)
    ticket = campaign.ask("one", context="y")
    assert ticket.context == "y"
    assert ticket.table()["context"] == "y"
    assert campaign.ask("one", context="y") == ticket
    with pytest.raises(ConflictError, match="id = 'one': was created with context 'y'"):
        campaign.ask("one", context="x")
    campaign.tell("one", reward=1, penalty=0)
    campaign.amend("one", penalty={"bad": 0.5})
    assert campaign.ticket("one").context == "y"
    status = campaign.status()
    assert [one["asked"] for one in status["types"]] == [0, 1]
    assert status["types"][1]["penalties"] == {"bad": 0.5}
    assert status["types"][1]["pulls"][ticket.arm] == 1
    work(campaign, 30)
    agrees(campaign)


def test_what_a_context_must_be(any_store):
    campaign = start(any_store)
    with pytest.raises(InputError, match="context is missing; must be one of 'x', 'y'"):
        campaign.ask()
    with pytest.raises(InputError, match="context 'xx' is unknown; "):
        campaign.ask(context="xx")
    with pytest.raises(InputError, match="contexts: 1 must be 2, one for each decision"):
        campaign.ask_many(2, contexts=["x"])
    with pytest.raises(InputError, match="context 'z' is unknown"):
        campaign.ask_many(2, contexts=["x", "z"])
    assert campaign.status()["events"] == 1  # and nothing was decided
    plain = open_campaign(any_store, "plain", task=PLAIN, budget=10, policy=Rotation())
    message = "context = 'x': must be left out, because the task has no contexts"
    with pytest.raises(InputError, match=message):
        plain.ask(context="x")
    assert "context" not in plain.ask().table()
    assert "types" not in plain.status()


def test_a_campaign_decides_as_a_controller(tmp_path):
    for policy in (Resolve(), Resolve(risk=0.05), LyOn()):
        campaign = start(MemoryStore(), policy=policy, seed=3)
        controller = Controller(TASK, policy, budget=200, seed=3)
        rng = random.Random(1)
        for _ in range(60):
            context = rng.choice("xxy")
            ticket, arm = campaign.ask(context=context), controller.ask(context=context)
            assert ticket.number == arm
            outcome = float(rng.random() < 0.6), float(rng.random() < 0.3)
            campaign.tell(ticket, None, *outcome)
            controller.tell(arm, None, *outcome, context=context)


def test_many_at_once_eligible_arms_and_late_reports(store, clock):
    campaign = start(store, expire_after=60)
    tickets = campaign.ask_many(4, contexts=["x", "y", "y", "x"])
    assert [one.context for one in tickets] == ["x", "y", "y", "x"]
    assert campaign.ask(context="y", eligible=["b"]).arm == "b"
    campaign.retire_arm("a")
    assert campaign.ask(context="x").arm == "b"
    clock.at += 61_000_000
    campaign.ask(context="x")  # the others expire
    campaign.tell(tickets[1], reward=1, penalty=1)  # late
    status = campaign.status()
    assert (status["expired"], status["late"], status["in_flight"]) == (5, 1, 1)
    assert {one["type"]: one["told"] for one in status["types"]} == {"x": 0, "y": 1}
    agrees(campaign)


def test_in_shadow_mode_another_arm_may_be_pulled(store):
    campaign = start(store, shadow=True)
    ticket = campaign.ask(context="y")
    other = "ab"[1 - ticket.number]
    campaign.tell(ticket, reward=1, penalty=0, arm=other)
    assert campaign.status()["types"][1]["pulls"][other] == 1
    campaign.retire_arm("a")
    with pytest.raises(InputError, match="must name an arm that is not retired"):
        campaign.ask(context="x", eligible=["a"])
    campaign.ask(context="y")
    agrees(campaign)


def test_a_corrected_report_counts_for_its_type(store):
    campaign = start(store)
    with pytest.raises(ReportError) as told:
        campaign.tell(campaign.ask(context="y"), reward=9, penalty=0)
    campaign.correct(told.value.quarantine, reward=1, penalty=0)
    assert campaign.status()["types"][1]["reward"] == 1
    agrees(campaign)


# Types that are added as they come.


def test_a_new_type_is_an_event_of_its_own(any_store):
    campaign = start(any_store, OPEN)
    for name in ("u", "v", "u", "w", "z"):
        ticket = campaign.ask(context=name)
        campaign.tell(ticket, reward=1, penalty=0)
    assert ticket.context == "(other)"
    added = [event.body.name for event in campaign.events() if event.kind == "type_added"]
    assert added == ["u", "v", "(other)"]
    types = {one["type"]: one["asked"] for one in campaign.status()["types"]}
    assert types == {"u": 2, "v": 1, "(other)": 2}
    work(campaign, 30, "uvwz"[:2])
    agrees(campaign)


def test_a_request_that_is_refused_adds_no_type(store):
    campaign = start(store, OPEN, budget=1)
    with pytest.raises(InputError, match="must be the name of a type"):
        campaign.ask(context="")
    with pytest.raises(InputError, match="must be text of at most 128 characters"):
        campaign.ask(context="u" * 129)
    campaign.ask(context="u")
    with pytest.raises(WaitError):
        campaign.ask(context="v")
    assert [one["type"] for one in campaign.status()["types"]] == ["u"]
    agrees(campaign)


def test_requests_without_a_context_may_have_a_type_of_their_own(store):
    task = Task(["a", "b"], LIMITS, costs=1, contexts=Types(["x"], missing="none"))
    campaign = start(store, task)
    assert campaign.ask("one").context == "none"
    assert campaign.ask("one").context == "none"
    campaign.tell("one", reward=1, penalty=0)
    agrees(campaign)


# The log.


def test_several_processes_and_restarts(tmp_path, monkeypatch):
    monkeypatch.setattr(turns, "SNAPSHOT_EVERY", 20)
    url = str(tmp_path / "all.db")
    first = start(url, OPEN)
    second = open_campaign(url, "one")
    for number in range(30):
        campaign = (first, second)[number % 2]
        ticket = campaign.ask(context="uvw"[number % 3])
        (second, first)[number % 3 % 2].tell(ticket, reward=1, penalty=0)
    third = open_campaign(url, "one")
    assert third.refreshed().controller == first.refreshed().controller
    assert third.status()["types"] == second.status()["types"]
    agrees(third)


def test_archives_backups_and_exports(tmp_path):
    url, old = str(tmp_path / "all.db"), str(tmp_path / "old.jsonl")
    campaign = start(url, OPEN)
    work(campaign, 40, "uv")
    for ticket in list(campaign.refreshed().ledger.tickets):
        campaign.tell(ticket, reward=1, penalty=0)
    before = campaign.status()["types"]
    archive_events(campaign, old, 30)
    assert open_campaign(url, "one").status()["types"] == before
    assert campaign.verify().good
    ticket = campaign.ask(context="v")
    backup_store(url, str(tmp_path / "backup.db"))
    restore_store(str(tmp_path / "backup.db"), str(tmp_path / "new.db"))
    restored = open_campaign(str(tmp_path / "new.db"), "one")
    restored.resume()
    restored.tell(ticket, reward=1, penalty=0)
    assert restored.verify().good


def test_why_names_the_type(store):
    campaign = start(store)
    work(campaign, 40)
    ticket = campaign.ask(context="y")
    why = campaign.why(ticket)
    assert why.context == why.table()["context"] == "y"
    pulls = {one["type"]: list(one["pulls"].values()) for one in campaign.status()["types"]}
    assert [one["pulls"] for one in why.arms] == pulls["y"]
    plain = open_campaign(store, "plain", task=PLAIN, budget=10, policy=Rotation())
    assert "context" not in plain.why(plain.ask()).table()


def test_the_status_shows_what_each_type_gets():
    campaign = start(MemoryStore(), budget=2000, policy=Rotation())
    for number in range(400):
        ticket = campaign.ask(context="xxxy"[number % 4])
        campaign.tell(ticket, reward=float(ticket.context == "x"), penalty=0.25)
    status = campaign.status()
    x, y = status["types"]
    assert (x["share"], y["share"]) == (0.75, 0.25)
    assert (x["reward"], y["reward"]) == (300, 0)
    assert (x["penalties"], y["penalties"]) == ({"bad": 75.0}, {"bad": 25.0})
    assert sum(x["pulls"].values()) == 300


def test_a_change_of_the_mix_of_types_is_noticed():
    campaign = start(MemoryStore(), budget=1e6, policy=Rotation())
    for shares, changed in (("xxxy", False), ("xxxy", False), ("xyyy", True)):
        for number in range(250):
            kinds = [shares[one % 4] for one in range(number, number + 4)]
            for ticket in campaign.ask_many(4, contexts=kinds):
                campaign.void(ticket)
        assert campaign.status()["mix_changed"] is changed
    agrees(campaign)


def test_an_outlook_is_about_all_types(store):
    campaign = start(store)
    work(campaign, 60)
    found = campaign.outlook()
    assert found.pulls == campaign.status()["told"]
    assert found.limits[0].name == "bad"


# Changes.


@pytest.mark.parametrize("policy", ["resolve", "resolve:window0=1", "resolve:watch=0.01", "lyon"])
def test_arms_come_and_go(policy):
    campaign = start(MemoryStore(), replace(TASK, contexts=["u", "v", "w"]), policy=policy)
    work(campaign, 60, "uvw")
    before = {one["type"]: list(one["pulls"].values()) for one in campaign.status()["types"]}
    controller = campaign.refreshed().controller
    flying, totals = controller.in_flight, controller._state.record.totals.reshape(3, 2, -1).copy()
    assert campaign.add_arm("c", cost=1, like="b", weight=5) == 2
    after = campaign.refreshed().controller
    assert after.in_flight == [*flying, 0]
    moved = after._state.record.totals.reshape(3, 3, -1)
    assert (moved[:, :2] == totals).all()
    assert moved[:, 2].any()
    types = {one["type"]: list(one["pulls"].values()) for one in campaign.status()["types"]}
    assert types == {name: [*pulls, 0] for name, pulls in before.items()}
    assert after.pulls_by_type == types
    work(campaign, 60, "uvw", seed=1)
    campaign.reprice("c", cost=0.5)
    campaign.retire_arm("a")
    assert {campaign.ask(context="u").arm for _ in range(10)} <= {"b", "c"}
    agrees(campaign)


@pytest.mark.parametrize("policy", ["resolve", "resolve:window0=1", "lyon", "uniform-random"])
def test_two_types_are_merged(any_store, policy):
    task = Task(["a", "b"], LIMITS, costs=1, contexts=["x", "y", "z"])
    campaign = start(any_store, task, policy=policy)
    work(campaign, 40, "xyz")
    held = campaign.ask("held", context="z")
    before = {one["type"]: one for one in campaign.status()["types"]}
    campaign.merge_types("z", "y")
    campaign.merge_types("z", "y")  # harmless
    after = {one["type"]: one for one in campaign.status()["types"]}
    assert list(after) == ["x", "y"]
    for key in ("asked", "told", "reward"):
        assert after["y"][key] == before["y"][key] + before["z"][key]
    assert campaign.ask("held", context="z") == held
    campaign.tell(held, reward=1, penalty=0)
    assert campaign.ask(context="z").context == "y"
    assert campaign.status()["types"][1]["told"] == after["y"]["told"] + 1
    if policy != "uniform-random":
        assert sum(campaign.refreshed().controller.pulls_by_type["z"]) == 0
    work(campaign, 20, "xy")
    with pytest.raises(InputError, match="type = 'q': is unknown"):
        campaign.merge_types("q", "x")
    with pytest.raises(InputError, match="into = 'q': is unknown"):
        campaign.merge_types("x", "q")
    with pytest.raises(InputError, match="into = 'z': is merged into 'y' already"):
        campaign.merge_types("x", "z")
    agrees(campaign)


def test_a_plain_campaign_is_given_contexts(any_store):
    campaign = start(any_store, PLAIN, seed=4)
    tickets = [campaign.ask() for _ in range(12)]
    for ticket in tickets[:8]:
        campaign.tell(ticket, reward=1, penalty=0)
    campaign.void(tickets[8])
    campaign.change(contexts=["x", "y"])
    assert open_campaign(any_store, "one", task=PLAIN, budget=200)  # as it was created
    pulls = campaign.refreshed().controller.pulls_by_type
    assert [sum(one) for one in pulls.values()] == [4, 4]
    assert campaign.status()["in_flight"] == 3
    campaign.tell(tickets[9], reward=1, penalty=0)
    campaign.tell(tickets[8], reward=1, penalty=0)  # after a void
    campaign.void(tickets[10])
    with pytest.raises(ReportError):
        campaign.tell(tickets[11], reward=-1, penalty=0)
    assert sum(campaign.refreshed().controller.in_flight) == 0
    with pytest.raises(InputError, match="context is missing"):
        campaign.ask()
    work(campaign, 30)
    agrees(campaign)
    campaign.change(policy="lyon")
    campaign.change(contexts=["x", "y", "z"])
    work(campaign, 10, "xyz")
    agrees(campaign)


def test_types_that_a_campaign_cannot_be_given():
    campaign = start(MemoryStore(), PLAIN, policy=Rotation())
    campaign.tell(campaign.ask(), reward=1, penalty=0)
    with pytest.raises(InputError, match="must have names, or missing"):
        campaign.change(contexts=Types())
    campaign.change(contexts=Types(missing="none"))
    assert [one["type"] for one in campaign.status()["types"]] == ["none"]
    typed = start(MemoryStore(), policy=Rotation())
    typed.tell(typed.ask(context="x"), reward=1, penalty=0)
    with pytest.raises(InputError, match="context 'x' is unknown"):
        typed.change(contexts=["p", "q"])
    assert typed.status()["events"] == 3


# Learning from a log.


def past(task, seed=0, rows=200):
    rng = np.random.default_rng(seed)
    outcomes = rng.random((rows, 2, 3)) * [0.0, 1.0, 0.8] + [1.0, 0.0, 0.0]
    kinds = rng.choice(["x", "y"], rows).tolist() if task.contexts is not None else None
    return FullTable(["a", "b"], ["bad"], outcomes, contexts=kinds)


@pytest.mark.parametrize("task", [PLAIN, TASK, OPEN], ids=["plain", "types", "open"])
def test_a_campaign_learns_from_a_log(any_store, task):
    campaign = start(any_store, task, learn_from=past(task), weight=0.5, policy="resolve")
    controller = Controller(task, Resolve(), budget=200, learn_from=past(task), weight=0.5)
    record = campaign.refreshed().controller._state.record
    assert record.pulls.sum() == pytest.approx(200.0)
    assert (record.totals == controller._state.record.totals).all()
    assert campaign.status()["told"] == 0
    contexts = [{}] if task is PLAIN else [{"context": name} for name in "xy"]
    for number in range(20):
        ticket = campaign.ask(**contexts[number % len(contexts)])
        campaign.tell(ticket, reward=1, penalty=0)
    agrees(campaign)
    limit = Limit(0.4, per="pull")
    campaign.change(limits={"bad": limit}, policy="resolve")
    other = Task(["a", "b"], {"bad": limit}, costs=1, contexts=task.contexts)
    again = Controller(other, Resolve(), budget=200, learn_from=past(task), weight=0.5)
    for event in campaign.events():
        if event.kind == "told":
            given = {} if task is PLAIN else {"context": event.body.context}
            again.tell(event.body.arm, None, 1.0, 0.0, **given)
    now = campaign.refreshed().controller._state.record
    for name in ("pulls", "totals", "squares", "products", "net_squares"):
        assert (getattr(now, name) == getattr(again._state.record, name)).all(), name
    agrees(campaign)


def test_what_was_learned_without_types_counts_for_each_of_them():
    campaign = start(MemoryStore(), PLAIN, learn_from=past(PLAIN), weight=0.5)
    before = campaign.refreshed().controller._state.record
    campaign.change(contexts=["x", "y"])
    after = campaign.refreshed().controller._state.record
    assert after.pulls.tolist() == pytest.approx([50.0] * 4)
    totals = after.totals.reshape(2, -1)
    assert totals[0] == pytest.approx(before.totals / 2)
    assert totals[1] == pytest.approx(before.totals / 2)
    agrees(campaign)


@pytest.mark.parametrize("limit", [Limit(0.4), Limit(0.4, per="pull"), Limit(0.4, per="reward")])
def test_the_sums_of_a_log_are_those_of_its_lines(limit):
    """Pulls, totals and squares in the state are as if each line were reported."""
    task = Task(["a", "b"], {"bad": limit}, costs=1)
    data = past(task, rows=50)
    learned = Controller(task, Resolve(), budget=200, learn_from=data, weight=1.0)
    told = Controller(task, Resolve(), budget=200)
    for row in data.outcomes:
        for arm in (0, 1):
            told.tell(arm, *row[arm])
    for name in ("pulls", "totals", "squares", "products", "net_squares"):
        one, other = (getattr(made._state.record, name) for made in (learned, told))
        assert one == pytest.approx(other, abs=1e-12), name


def test_a_promise_holds_for_every_type(store):
    """The safe arm is reserved and needed as without types."""
    task = replace(TASK, safe="b", safe_rates={"bad": 0.1})
    campaign = start(store, task, budget=400, policy="resolve:risk=0.05")
    assert campaign.status()["promise"].startswith("risk = 0.05")
    with pytest.raises(InputError, match="arm = 'b': must keep the safe arm 'b'"):
        campaign.retire_arm("b")
    with pytest.raises(InputError, match="must keep the safe arm 'b'"):
        campaign.ask(context="x", eligible=["a"])
    work(campaign, 60)
    campaign.add_arm("c", cost=1)
    campaign.merge_types("x", "y")
    work(campaign, 30, "y")
    agrees(campaign)


def test_contexts_say_how_many_tickets_there_are():
    campaign = start(MemoryStore())
    assert [one.context for one in campaign.ask_many(contexts=["x", "y", "x"])] == ["x", "y", "x"]
    with pytest.raises(InputError, match=r"^count = 0: must be positive"):
        campaign.ask_many(contexts=[])
