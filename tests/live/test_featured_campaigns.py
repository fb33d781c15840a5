"""Campaigns whose requests have features: tickets, the log, replays, changes, erasure."""

from __future__ import annotations

import math
import random
import sqlite3
from contextlib import closing
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tightrope import (
    Controller,
    Features,
    FullTable,
    Limit,
    LyOn,
    Resolve,
    Task,
    open_campaign,
    read_log,
)
from tightrope.errors import ConflictError, InputError, LogWarning, ReportError
from tightrope.live import turns
from tightrope.live.archive import archive_events, backup_store, exported, restore_store
from tightrope.live.calls import Background
from tightrope.live.core import Core
from tightrope.live.events import event_of, row_of_line
from tightrope.live.stores.memory import MemoryStore
from tightrope.live.stores.sqlite import SQLiteStore
from tightrope.live.vectors import BLOCK, FIRST, FeatureMeans
from tightrope.problem.features import Mixed

LIMITS = {"bad": Limit(0.5, per="pull")}
PLAIN = Features(["size", "hard"])
ERASABLE = Features(["size", "hard"], erasable=True)
MIXED = Mixed(["x", "y"], ["size"])


def start(store, contexts=PLAIN, policy="resolve", name="one", **options):
    task = Task(["a", "b"], LIMITS, costs=1, contexts=contexts)
    return open_campaign(store, name, task=task, budget=500, policy=policy, **options)


def request(rng, contexts):
    size = rng.lognormvariate(3, 1)
    if isinstance(contexts, Mixed):
        return rng.choice("xy"), [size]
    return [size, float(rng.random() < 0.3)]


def work(campaign, pulls, seed=0):
    """Random requests, of which some are in flight, void or wrong."""
    rng, flying = random.Random(seed), []
    contexts = campaign.refreshed().types
    for _ in range(pulls):
        flying.append(campaign.ask(context=request(rng, contexts)))
        if len(flying) > 3 or rng.random() < 0.5:
            ticket = flying.pop(rng.randrange(len(flying)))
            if rng.random() < 0.1:
                campaign.void(ticket)
            elif rng.random() < 0.05:
                with pytest.raises(ReportError):
                    campaign.tell(ticket, reward=7, penalty=0)
            else:
                campaign.tell(ticket, reward=rng.random(), penalty=float(rng.random() < 0.3))
    return flying


def replayed(campaign):
    """The state that the log gives, with the features outside of it."""
    core = Core(campaign._follower.policy)
    core.vectors.find = partial(campaign.store.vectors, campaign.name)
    for event in campaign.events():
        core.follow(event)
    return core


def agrees(campaign):
    now, again = campaign.refreshed(), replayed(campaign)
    assert again.controller == now.controller
    assert again.ledger == now.ledger
    assert again.means is None or again.means.table() == now.means.table()
    found = campaign.verify()
    assert found.good, found.wrong
    assert found.to_the_bit + found.money_only == found.snapshots


# Tickets and the log.


@pytest.mark.parametrize("contexts", [PLAIN, ERASABLE, MIXED], ids=["plain", "erasable", "mixed"])
def test_a_ticket_remembers_its_features(any_store, contexts):
    campaign = start(any_store, contexts)
    rng = random.Random(5)
    one, other = request(rng, contexts), request(rng, contexts)
    ticket = campaign.ask("one", context=one)
    assert campaign.ask("one", context=one) == ticket
    with pytest.raises(ConflictError, match="id = 'one': was created with "):
        campaign.ask("one", context=other)
    campaign.tell("one", reward=1, penalty=0)
    campaign.amend("one", penalty={"bad": 0.5})
    assert campaign.ask("one", context=one).state == "told"
    shown = campaign.why("one").context
    size = one[1][0] if contexts is MIXED else one[0]
    assert shown["size"] == np.float32(size)
    work(campaign, 40)
    agrees(campaign)
    if contexts is MIXED:
        assert sum(row["asked"] for row in campaign.status()["types"]) == 41


def test_a_campaign_decides_as_a_controller():
    for policy in (Resolve(risk=0.05), LyOn()):
        campaign = start(MemoryStore(), policy=policy, seed=3)
        controller = Controller(campaign.refreshed().controller.task, policy, 500, seed=3)
        rng = random.Random(1)
        for _ in range(80):
            context = request(rng, PLAIN)
            ticket, arm = campaign.ask(context=context), controller.ask(context=context)
            assert ticket.number == arm
            outcome = rng.random(), float(rng.random() < 0.3)
            campaign.tell(ticket, None, *outcome)
            controller.tell(arm, None, *outcome)


def test_wrong_features_are_one_line_and_nothing_is_decided(any_store):
    campaign = start(any_store)
    for wrong, message in (
        ([1.0], "context: 1 numbers must be 2, one for each feature"),
        ([1.0, math.nan], "feature 'hard' = nan: must be a finite number"),
        ({"size": 1, "hrd": 2}, "feature 'hrd' is unknown; did you mean 'hard'"),
        (None, "context is missing; must be 2 numbers"),
        ("x", "context = 'x': must be 2 numbers"),
    ):
        with pytest.raises(InputError, match=message):
            campaign.ask(context=wrong)
        with pytest.raises(InputError, match=message):
            campaign.ask_many(2, contexts=[[1, 2], wrong])
    assert campaign.status()["events"] == 1
    assert len(campaign.ask_many(2, contexts=[[1, 2], {"hard": 1, "size": 2}])) == 2


def test_late_reports_corrections_and_another_arm(store, clock):
    campaign = start(store, ERASABLE, expire_after=60, shadow=True)
    tickets = campaign.ask_many(4, contexts=[[n, n % 2] for n in range(4)])
    campaign.tell(tickets[0], reward=1, penalty=0, arm=1 - tickets[0].number)
    with pytest.raises(ReportError) as refused:
        campaign.tell(tickets[1], reward=7, penalty=0)
    campaign.correct(refused.value.quarantine, reward=1, penalty=0)
    clock.at += 61_000_000
    campaign.ask(context=[9, 1])  # the others expire
    campaign.tell(tickets[2], reward=1, penalty=1)
    status = campaign.status()
    assert (status["told"], status["late"], status["expired"]) == (3, 1, 1)
    agrees(campaign)


numbers = st.one_of(
    st.floats(width=32), st.sampled_from([0.1, 1e300, -1e-300, math.nan, math.inf, 3.4e38, "1", ""])
)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(numbers, min_size=1, max_size=3), max_size=12), st.booleans())
def test_odd_vectors_are_refused_or_decided_the_same_again(vectors, erasable):
    campaign = start(MemoryStore(), ERASABLE if erasable else PLAIN)
    for number, vector in enumerate(vectors):
        before = campaign.status()["events"]
        try:
            ticket = campaign.ask(context=vector)
        except InputError:
            assert campaign.status()["events"] == before
        else:
            campaign.tell(ticket, reward=number % 2, penalty=(number // 2) % 2)
    agrees(campaign)
    block = campaign.refreshed().controller._state.scratch
    assert np.isfinite(block.models.slopes).all()


@pytest.mark.parametrize("contexts", [PLAIN, ERASABLE], ids=["plain", "erasable"])
def test_restored_is_as_never_stopped(tmp_path, monkeypatch, contexts):
    monkeypatch.setattr(turns, "SNAPSHOT_EVERY", 13)
    path = str(tmp_path / "all.db")
    whole = start(MemoryStore(), contexts)
    rng = random.Random(2)
    one, two = start(path, contexts, name="two"), open_campaign(path, "two")
    for number in range(60):
        context, outcome = request(rng, contexts), (rng.random(), float(rng.random() < 0.2))
        campaign = (one, two)[number % 2]
        ticket, same = campaign.ask(context=context), whole.ask(context=context)
        assert ticket.number == same.number
        if number % 5:
            (two, one)[number % 2].tell(ticket, None, *outcome)
            whole.tell(same, None, *outcome)
        if number == 30:
            two.disconnect()
            two = open_campaign(path, "two")
    assert two.verify().to_the_bit > 3
    agrees(one)
    one.disconnect()
    two.disconnect()


# Changes, logs and files.


@pytest.mark.parametrize("contexts", [PLAIN, MIXED])
def test_a_policy_that_uses_types_ignores_features(tmp_path, contexts):
    store = f"{tmp_path}/store.db"
    campaign = start(store, contexts, policy="ucb-alp")
    flying = work(campaign, 30)
    campaign.disconnect()
    campaign = start(store, contexts, policy="ucb-alp")
    campaign.void(flying[0])
    assert campaign.verify().good
    campaign.change(policy="resolve")
    work(campaign, 5)
    assert campaign.verify().good
    campaign.disconnect()


def test_a_new_policy_learns_from_all_requests(any_store):
    campaign = start(any_store, ERASABLE)
    work(campaign, 30)
    campaign.change(policy="lyon")
    work(campaign, 10, seed=1)
    campaign.change(policy="resolve")
    agrees(campaign)
    assert sum(campaign.refreshed().controller._state.scratch.models.pulls) == sum(
        campaign.refreshed().controller.pulls
    )


@pytest.mark.parametrize("contexts", [PLAIN, MIXED], ids=["plain", "mixed"])
def test_a_campaign_learns_from_a_log(contexts):
    rng = np.random.default_rng(1)
    outcomes = np.dstack([np.ones((40, 2)), rng.random((40, 2)), rng.random((40, 2)) < 0.3])
    vectors = rng.random((40, 2))
    given = (
        vectors if contexts is PLAIN else [("xy"[n % 2], [one[0]]) for n, one in enumerate(vectors)]
    )
    log = FullTable(["a", "b"], ["bad"], outcomes, contexts=given)
    campaign = start(MemoryStore(), contexts, learn_from=log, weight=0.5)
    controller = Controller(
        campaign.refreshed().controller.task, Resolve(), 500, learn_from=log, weight=0.5
    )
    mine = campaign.refreshed().controller
    assert (mine._state.scratch.models.slopes == controller._state.scratch.models.slopes).all()
    campaign.change(policy=Resolve(risk=0.2))
    again = campaign.refreshed().controller._state.scratch.models.slopes
    assert (again == controller._state.scratch.models.slopes).all()
    campaign.change(contexts=["u", "v"])  # each of which the log counts for
    assert sum(campaign.refreshed().controller._state.record.pulls) == pytest.approx(40)
    if contexts is PLAIN:
        private = start(MemoryStore(), ERASABLE, learn_from=log)
        Background.wait()  # a compiler in another thread sets the filters of warnings, too
        with pytest.warns(LogWarning, match="the log of learn_from is not kept; the policy learns"):
            private.change(policy=Resolve(risk=0.2))
    with pytest.raises(InputError, match="learn_from: has no contexts, which the task needs"):
        start(MemoryStore(), learn_from=FullTable(["a", "b"], ["bad"], outcomes))


def test_archives_and_backups(tmp_path):
    path = str(tmp_path / "all.db")
    campaign = start(path, ERASABLE)
    for ticket in work(campaign, 30):
        campaign.void(ticket)
    for report in campaign.quarantine():
        campaign.discard(report["number"])
    upto = campaign.status()["events"] - 5
    archive = str(tmp_path / "old.jsonl")
    archive_events(campaign, archive, upto)
    agrees_later = campaign.verify()
    assert agrees_later.good, agrees_later.wrong
    campaign.change(policy="lyon", archives=[archive])
    campaign.change(policy="resolve", archives=[archive])
    backup_store(path, str(tmp_path / "copy.db"))
    restore_store(str(tmp_path / "copy.db"), str(tmp_path / "new.db"))
    with open_campaign(str(tmp_path / "new.db"), "one") as restored:
        restored.resume()
        restored.ask(context=[1, 2])
        assert restored.verify().good
    campaign.disconnect()


@pytest.mark.parametrize("contexts", [PLAIN, ERASABLE, MIXED], ids=["plain", "erasable", "mixed"])
def test_an_export_with_and_without_features(tmp_path, contexts):
    campaign = start(MemoryStore(), contexts)
    vectors = [("y", [0.1 * n]) if contexts is MIXED else [0.1 * n, n % 2] for n in range(1, 4)]
    for ticket in campaign.ask_many(3, contexts=vectors):
        campaign.tell(ticket, reward=1, penalty=0)
    campaign.change(policy=Resolve(risk=0.3))  # the state is in an event, too
    for features in (True, False):
        lines = list(exported(campaign.store, "one", features=features))
        (tmp_path / "log.jsonl").write_text("\n".join(lines))
        if features:
            found = read_log(str(tmp_path / "log.jsonl")).contexts
            rows = campaign.refreshed().types.rows(vectors)
            assert (campaign.refreshed().types.rows(found) == rows).all()
        else:
            with pytest.warns(LogWarning, match="of 3 of 3 reports were erased or not exported"):
                assert read_log(str(tmp_path / "log.jsonl")).contexts is None
            state = Controller.restore(event_of(row_of_line(lines[-1])).body.snapshot)
            models = state._state.scratch.models
            window = np.append(models.recent, models.waiting).astype(np.float32)
            assert np.float32(0.1) not in window


def test_types_in_place_of_features():
    campaign = start(MemoryStore())
    work(campaign, 12)
    campaign.change(contexts=["x", "y"])
    campaign.tell(campaign.ask(context="y"), reward=1, penalty=0)
    for ticket in list(campaign.refreshed().ledger.tickets):
        campaign.tell(ticket, reward=1, penalty=0)
    agrees(campaign)


# Erasure.


def test_erased_features_are_gone_and_the_campaign_goes_on(any_store, tmp_path):
    campaign, behind = start(any_store, ERASABLE), open_campaign(any_store, "one")
    secret = 123.456
    campaign.tell(campaign.ask("first", context=[secret, 1]), reward=1, penalty=0)
    campaign.ask("flying", context=[2 * secret, 1])
    work(campaign, 30)
    events = campaign.status()["events"]
    erased = campaign.erase_contexts()
    kept = campaign.store.vectors("one", 1, 10**6)
    assert set(kept) == {one.seq for one in campaign.refreshed().ledger.tickets.values()}
    assert erased == campaign.status()["asked"] - len(kept)
    work(campaign, 10, seed=3)
    assert behind.ask("behind", context=[1, 1]).state == "open"
    campaign.tell("flying", reward=1, penalty=0)
    found = campaign.verify()
    assert found.good, found.wrong
    assert (found.erased, found.learned_from) == (erased, events + 1)
    assert behind.refreshed().controller == campaign.refreshed().controller
    assert campaign.why("first").context is None
    with pytest.raises(InputError, match=r"cannot be explained; .* its request were erased"):
        campaign.why("flying")
    with pytest.warns(
        LogWarning, match="the features of .* reports were erased; the policy learns"
    ):
        campaign.change(policy=Resolve(risk=0.1))
    models = campaign.refreshed().controller._state.scratch.models
    window = np.append(models.recent, models.waiting)
    assert np.float32(secret) not in window.astype(np.float32)
    assert campaign.verify().good


def test_only_what_is_older_is_erased(store, clock):
    campaign = start(store, ERASABLE, expire_after=60)
    old = campaign.ask_many(3, contexts=[[1, 1]] * 3)
    campaign.tell(old[0], reward=1, penalty=0)
    clock.at += 61_000_000
    campaign.tell(campaign.ask(context=[2, 2]), reward=1, penalty=0)  # the old ones expire
    when = campaign.ticket(old[1]).expires_at
    assert campaign.erase_contexts(before=when) == 3
    spent = campaign.status()["spent"]
    campaign.tell(old[1], reward=1, penalty=1)  # late: charged, and not learned from
    assert campaign.status()["spent"] == spent
    assert campaign.status()["late"] == 1
    assert sum(campaign.refreshed().controller.pulls) == 2
    assert campaign.verify().good
    with pytest.raises(InputError, match="before = '1999-01-01': must be after the first event"):
        campaign.erase_contexts(before="1999-01-01")
    with pytest.raises(InputError, match="its features are not erasable; must be created with"):
        start(store, name="other").erase_contexts()


def test_no_byte_of_them_stays_in_the_file(tmp_path):
    path = tmp_path / "all.db"
    campaign = start(str(path), ERASABLE)
    vector = np.array([123.456, 654.321], np.float32)
    text = campaign.refreshed().types.parted(vector)[1].encode()
    for by in (1, 2, 4):
        campaign.tell(campaign.ask(context=by * vector), reward=1, penalty=0)
    campaign.erase_contexts()
    campaign.disconnect()
    for file in tmp_path.iterdir():
        content = file.read_bytes()
        assert text not in content, file
        assert vector.tobytes() not in content, file
        assert vector.astype(float)[:1].tobytes() not in content, file


def test_tampering_with_features_is_found(tmp_path):
    path = str(tmp_path / "all.db")
    campaign = start(path, ERASABLE)
    campaign.ask_many(2, contexts=[[1, 2], [3, 4]])
    campaign.disconnect()
    for change, message in (
        ("UPDATE vectors SET text = substr(text, 1, 30) || 'QAAAgEA=' WHERE seq = 3", "event 3: "),
        ("DELETE FROM vectors WHERE seq = 2", "event 2: the features of its request are missing"),
    ):
        with closing(sqlite3.connect(path)) as file:
            file.execute(change)
            file.commit()
        with closing(SQLiteStore(path)) as store:
            from tightrope.live.verification import verified

            assert any(message in one for one in verified(store, "one").wrong)


# Drift.


def test_drift_is_noticed_and_noise_is_not():
    rng = np.random.default_rng(1)
    means, alarms = FeatureMeans(20), 0
    for count in range(FIRST + 60 * BLOCK):
        means.add(np.exp(rng.normal(size=20)).astype(np.float32))
        if count % BLOCK == 0:
            alarms += any(one[3] for one in means.drift())
    assert alarms == 0
    for _ in range(BLOCK + BLOCK // 2):
        means.add(np.exp(rng.normal(size=20) + np.eye(20)[7]).astype(np.float32))
    assert [one[3] for one in means.drift()] == [n == 7 for n in range(20)]
    assert FeatureMeans.of_table(means.table()).drift() == means.drift()


def test_what_features_do_to_each_arm(store):
    campaign = start(store)
    rng = random.Random(1)
    for _ in range(60):
        size = rng.random()
        ticket = campaign.ask(context=[size, 7.0])
        good = size if ticket.number else 1 - size
        campaign.tell(ticket, reward=good, penalty=0)
    found = campaign.refreshed().controller.effects()
    effects = {one.arm: one for one in found if (one.feature, one.outcome) == ("size", "reward")}
    assert effects["a"].effect + effects["a"].band < 0 < effects["b"].effect - effects["b"].band
    assert {one.outcome for one in found} == {"reward", "bad"}
    assert not any(one.effect or one.band for one in found if one.feature == "hard")
    status = campaign.status()
    assert [one["feature"] for one in status["features"]] == ["size", "hard"]
    assert status["features_changed"] is False


def test_a_late_report_during_an_erasure_keeps_its_features(store, clock, monkeypatch):
    """Between the snapshot and the erasure, another process takes the report."""
    campaign, other = start(store, ERASABLE, expire_after=60), open_campaign(store, "one")
    old = campaign.ask_many(2, contexts=[[1, 1], [2, 2]])
    clock.at += 61_000_000
    campaign.ask(context=[3, 3])  # the old ones expire
    save = type(campaign).save_snapshot

    def save_and_tell(self):
        found = save(self)
        other.tell(old[0], reward=1, penalty=0)
        return found

    monkeypatch.setattr(type(campaign), "save_snapshot", save_and_tell)
    assert campaign.erase_contexts() == 1
    campaign.tell(old[1], reward=1, penalty=0)  # its features are in the memory here, and erased
    assert campaign.verify().good
    assert open_campaign(store, "one").refreshed().controller == other.refreshed().controller
    assert sum(other.refreshed().controller.pulls) == 1


def test_few_erasable_features_are_held_in_memory(store, monkeypatch):
    monkeypatch.setattr("tightrope.live.vectors.MANY", 5)
    campaign = start(store, ERASABLE)
    old = campaign.ask("old", context=[1, 1])
    work(campaign, 80)
    vectors = campaign.refreshed().vectors
    assert (len(vectors._known) <= 25, vectors.fresh) == (True, {})
    campaign.tell(old, reward=1, penalty=0)  # read from the store
    agrees(campaign)
