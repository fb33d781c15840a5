"""The promises of live campaigns, P1 to P10, each with its own tests."""

from __future__ import annotations

import os
import random
import signal
import warnings

import pytest

from tests.live.cheap import Rotation
from tightrope import Limit, Scales, Task, open_campaign, parse_policy
from tightrope.engine.python import play
from tightrope.errors import (
    CampaignError,
    ConflictError,
    ExhaustedError,
    HaltedError,
    InputError,
    ReportError,
    SoftBudgetWarning,
    StoreBusyError,
    StoreError,
    WaitError,
)
from tightrope.live import turns
from tightrope.live.calls import Background
from tightrope.live.campaign import Campaign
from tightrope.live.core import CampaignSettings, Core
from tightrope.live.follower import Follower
from tightrope.live.stores import Saved
from tightrope.live.stores.memory import MemoryStore
from tightrope.live.stores.sqlite import SQLiteStore
from tightrope.policies import POLICIES
from tightrope.policies.base import set_up

TASK = Task(["a", "b"], {"bad": Limit(0.4)})
WAIT = 600  # seconds until a ticket expires
LATER = WAIT * 1_000_000  # microseconds


def start(store, budget=100, task=TASK, name="one", **options):
    options = {"policy": Rotation(), "expire_after": WAIT, **options}
    return open_campaign(store, name, task=task, budget=budget, **options)


def money(campaign, name="cost"):
    """Ticks of an account: budget, spent, reserved, free."""
    for account in campaign.refreshed().ledger.accounts:
        if account.name == name:
            return account.budget, account.spent, account.reserved, account.free
    raise KeyError(name)


def change_row(store, seq, **columns):
    """Change an event in a store, as nobody should."""
    if isinstance(store, MemoryStore):
        rows = store._logs["one"].rows
        rows[seq - 1] = rows[seq - 1]._replace(**columns)
    else:
        for name, value in columns.items():
            store._writer.execute(f"UPDATE events SET {name} = ? WHERE seq = ?", (value, seq))


def test_without_campaigns_it_is_told_how_one_is_created(tmp_path):
    path = str(tmp_path / "campaigns.db")
    SQLiteStore(path, create=True).close()
    with pytest.raises(InputError, match="there is none yet; task= and budget= create it"):
        open_campaign(path, "one")


# P1, durable.


def test_p1_durable_what_was_answered_survives_kill_9(tmp_path):
    path = str(tmp_path / "campaigns.db")
    open_campaign(path, "one", task=TASK, budget=100, policy=Rotation()).disconnect()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            campaign = open_campaign(path, "one")
            ticket = campaign.ask("x")
            campaign.tell(campaign.ask("y").id, 0.5, 1, 0)
            os.write(write, ticket.arm.encode())
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    arm = os.read(read, 10).decode()
    os.close(read)
    os.close(write)
    with open_campaign(path, "one") as campaign:
        assert campaign.ask("x")[1] == arm
        assert campaign.ticket("x").state == "open"
        assert campaign.ticket("y").state == "told"
        assert campaign.status()["asked"] == 2


def test_p1_durable_every_commit_is_synced(tmp_path):
    store = SQLiteStore(str(tmp_path / "campaigns.db"))
    start(store)
    for connection in (store._writer, store._reader):
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


# P2, conservation.


def test_p2_conservation_after_every_event_in_whole_ticks(store, clock):
    campaign = start(store, budget=27.3)
    rng, held = random.Random(2), []
    for _ in range(150):
        clock.at += rng.choice((1, LATER // 2))
        what = rng.choice("ask ask tell tell bad void".split())
        try:
            if what == "ask":
                held.append(campaign.ask().id)
            elif held:
                name = held.pop(rng.randrange(len(held)))
                if what == "void":
                    campaign.void(name)
                else:
                    campaign.tell(name, rng.random() if what == "tell" else -1, 1, 0)
        except (CampaignError, ExhaustedError, ReportError):
            pass
        budget, spent, reserved, free = money(campaign)
        assert all(isinstance(ticks, int) for ticks in (budget, spent, reserved, free))
        assert budget == spent + reserved + free
        assert reserved == sum(
            one.reserved[0] for one in campaign.refreshed().ledger.tickets.values()
        )
        assert free >= 0  # never overspent, whatever is in flight
    assert campaign.status()["expired"] > 0
    assert money(campaign)[1] > 0


def test_p2_conservation_hard_reserves_the_largest_cost_or_the_known_price(store):
    task = Task(["a", "b"], {"bad": Limit(0.4)}, costs={"a": 0.3, "b": 0.7})
    campaign = start(store, budget=1.5, task=task)
    assert [campaign.ask().reserved for _ in range(2)] == [0.3, 0.7]
    assert campaign.ask().arm == "a"  # the other one does not fit any more
    with pytest.raises(WaitError, match="3 pulls in flight"):
        campaign.ask()
    assert start(store, name="two").ask().reserved == 1.0
    hard = Task(["a"], {"harm": Limit(total=2, hard=True)})
    campaign = start(store, name="three", task=hard)
    campaign.ask_many(2)
    message = "^the rest of the hard limit 'harm' is reserved for 2 pulls in flight; ask again"
    with pytest.raises(WaitError, match=message):
        campaign.ask()


def test_p2_conservation_an_overrun_is_recorded_in_full_and_pauses(store):
    campaign = start(store)
    campaign.tell(campaign.ask().id, 2.5, 1, 0)
    status = campaign.status()
    assert (status["spent"], status["overruns"]) == (2.5, 1)
    assert (status["state"], status["why"]) == ("paused", "overrun")
    with pytest.raises(CampaignError, match="paused"):
        campaign.ask()
    campaign.resume()
    assert campaign.ask().state == "open"


def test_p2_conservation_a_growing_cost_without_a_cap_is_soft_and_says_so(store):
    with pytest.warns(SoftBudgetWarning, match="may overspend"):
        campaign = start(store, task=Task(["a"], {"bad": Limit(0.4)}, Scales(grow=["cost"])))
    assert (campaign.status()["stop"], campaign.ask().reserved) == ("soft", 0.0)
    capped = Task(["a"], {"bad": Limit(0.4)}, Scales(grow={"cost": 10.0}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        campaign = start(store, task=capped, name="two")
    assert (campaign.status()["stop"], campaign.ask().reserved) == ("hard", 10.0)


def test_p2_conservation_paper_ends_after_the_first_crossing(store):
    campaign = start(store, budget=2.5, stop="paper")
    for _ in range(3):
        campaign.tell(campaign.ask().id, 1, 1, 0)
    with pytest.raises(ExhaustedError):
        campaign.ask()
    assert campaign.status()["spent"] == 3.0


def test_p2_conservation_hard_limits_are_reserved_and_settled_too(store):
    task = Task(["a", "b"], {"bad": Limit(total=2.5, hard=True)})
    campaign = start(store, task=task)
    tickets = campaign.ask_many(10)
    assert len(tickets) == 2
    campaign.tell(tickets[0].id, 1, 1, 0.25)
    assert campaign.ask().state == "open"
    hard = campaign.status()["hard"]["bad"]
    assert hard == {"budget": 2.5, "spent": 0.25, "reserved": 2.0, "free": 0.25}


# P3, exactly once.


def test_p3_exactly_once_the_same_ask_is_the_same_ticket(store):
    campaign = start(store)
    first = campaign.ask("x", eligible=["b"])
    for one in (campaign, Campaign(store, "one")):
        assert one.ask("x", eligible=[1]) == first
        with pytest.raises(ConflictError, match="other eligible arms"):
            one.ask("x")
    campaign.tell("x", 1, 1, 0)
    assert campaign.ask("x", eligible=["b"]).state == "told"
    assert campaign.status()["asked"] == 1


def test_p3_exactly_once_the_same_report_is_harmless_another_is_refused_and_kept(store):
    campaign = start(store)
    campaign.ask("x")
    campaign.tell("x", 0.5, 1, 0)
    events = campaign.status()["events"]
    campaign.tell("x", 0.5, 1, {"bad": 0})
    assert campaign.status()["events"] == events
    with pytest.raises(ConflictError, match=r"was reported as cost 0.5.*now cost 0.25") as caught:
        campaign.tell("x", 0.25, 1, 0)
    assert [one["number"] for one in campaign.quarantine()] == [caught.value.quarantine]
    assert campaign.status()["spent"] == 0.5
    assert campaign.status()["told"] == 1


def test_p3_exactly_once_a_closed_campaign_takes_reports(store):
    campaign = start(store)
    campaign.ask("x")
    campaign.close()
    with pytest.raises(CampaignError, match="closed"):
        campaign.ask()
    campaign.tell("x", 1, 1, 0)
    assert campaign.ask("x").state == "told"
    with pytest.raises(CampaignError, match="closed"):
        campaign.resume()
    assert campaign.status()["state"] == "closed"


# P4, nothing lost.

BAD = [
    (float("nan"), 1, 0), (float("inf"), 1, 0), (-0.1, 1, 0), (1, 2, 0), (1, 1, -1), (1, 1, 1.5),
    (None, 1, 0), ("1", 1, 0), (1, 1, None), (1, 1, [0, 0]), (1, 1, {"bda": 0}), (1e31, 1, 0),
]  # fmt: skip


@pytest.mark.parametrize("report", BAD, ids=str)
def test_p4_nothing_lost_a_bad_report_is_kept_charged_and_can_be_corrected(store, report):
    campaign = start(store)
    ticket = campaign.ask()
    with pytest.raises(ReportError, match="kept in quarantine as 3") as caught:
        campaign.tell(ticket.id, *report)
    (kept,) = campaign.quarantine()
    assert (
        (kept["number"], kept["ticket"]) == (caught.value.quarantine, ticket.id) == (3, ticket.id)
    )
    assert campaign.status()["spent"] == ticket.reserved == 1.0
    assert campaign.ticket(ticket.id).state == "quarantined"
    assert campaign.status()["arms"][0]["pulls"] == 0  # nothing was learned
    campaign.correct(3, 0.25, 1, 0)
    status = campaign.status()
    assert (status["spent"], status["told"], status["quarantined"]) == (0.25, 1, 0)
    assert status["arms"][0]["pulls"] == 1
    assert campaign.verify().good


def test_p4_nothing_lost_an_unknown_id_is_kept_and_replayed_under_the_right_one(store):
    campaign = start(store)
    campaign.ask("right")
    with pytest.raises(ReportError, match="'rihgt': is unknown; did you mean 'right'"):
        campaign.tell("rihgt", 0.5, 1, 0)
    (kept,) = campaign.quarantine()
    assert kept["ticket"] == "rihgt"
    assert kept["report"] == '{"cost": 0.5, "reward": 1, "penalty": 0}'
    campaign.correct(kept["number"], 0.5, 1, 0, id="right")
    assert campaign.quarantine() == []
    assert campaign.ticket("right").state == "told"


def test_p4_nothing_lost_the_quarantine_is_bounded_and_counts_beyond(store, monkeypatch):
    monkeypatch.setattr(CampaignSettings, "quarantine_most", 3)
    campaign = start(store)
    core = campaign.refreshed()
    object.__setattr__(core.settings, "quarantine_most", 3)
    for number in range(5):
        with pytest.raises(ReportError, match="is unknown") as caught:
            campaign.tell(f"x{number}", 1, 1, 0)
        assert (caught.value.quarantine is None) == (number >= 3)
    assert len(campaign.quarantine()) == 3
    campaign.ask("y")
    with pytest.raises(ReportError, match="kept in quarantine"):  # one in flight is always kept
        campaign.tell("y", -1, 1, 0)
    assert campaign.status()["refused"] == 2
    campaign.discard(campaign.quarantine()[0]["number"], note="not ours")
    assert len(campaign.quarantine()) == 3
    assert "not ours" in campaign.notes().values()


# P5, expiry.


def test_p5_expiry_is_an_event_and_a_late_report_corrects_once(store, clock):
    campaign = start(store)
    first, second = campaign.ask("x"), campaign.ask("y")
    clock.at += LATER
    assert campaign.ticket("x").state == "open"  # the clock alone changes nothing
    assert campaign.status()["reserved"] == 2.0
    campaign.pause()  # any turn
    status = campaign.status()
    assert (status["expired"], status["spent"], status["reserved"]) == (2, 2.0, 0.0)
    assert [one["pulls"] for one in status["arms"]] == [0, 0]
    assert [campaign.ticket(name).state for name in "xy"] == ["expired", "expired"]
    for _ in range(2):  # the second time is harmless
        campaign.tell("x", 0.25, 1, 0)
    status = campaign.status()
    assert (status["expired"], status["late"], status["spent"]) == (1, 1, 1.25)
    assert status["arms"][first.number]["pulls"] == 1
    assert status["arms"][second.number]["pulls"] == 0
    assert campaign.refreshed().controller.spent == 1.25
    assert campaign.verify().good


def test_p5_expiry_a_report_at_the_last_moment_is_not_late(store, clock):
    campaign = start(store)
    campaign.ask("x")
    clock.at += LATER - 1
    campaign.tell("x", 0.25, 1, 0)
    assert campaign.status()["late"] == 0


def test_p5_expiry_charges_nothing_where_nothing_is_reserved(store, clock):
    campaign = start(store, stop="paper")
    campaign.ask()
    clock.at += LATER
    campaign.pause()
    assert (campaign.status()["expired"], campaign.status()["spent"]) == (1, 0.0)


def test_p5_expiry_takes_at_most_256_in_one_turn(store, clock):
    campaign = start(store, budget=1000)
    campaign.ask_many(300)
    clock.at += LATER
    campaign.pause()
    assert campaign.status()["expired"] == 256
    campaign.resume()
    assert campaign.status()["expired"] == 300


def test_p5_expiry_void_gives_back_and_a_report_after_it_is_an_overrun(store):
    campaign = start(store)
    campaign.ask("x")
    for _ in range(2):
        campaign.void("x")
    status = campaign.status()
    assert (status["voided"], status["reserved"], status["spent"]) == (1, 0.0, 0.0)
    campaign.tell("x", 0.5, 1, 0)
    status = campaign.status()
    assert (status["voided"], status["told"], status["overruns"]) == (0, 1, 1)
    assert status["spent"] == 0.5
    with pytest.raises(ConflictError, match="is told"):
        campaign.void("x")


# P6, replay.


def busy(store, monkeypatch):
    """A campaign with several snapshots."""
    monkeypatch.setattr(turns, "SNAPSHOT_EVERY", 10)
    campaign = start(store)
    for number in range(12):
        campaign.ask(f"t{number}")
        campaign.tell(f"t{number}", 0.5, 1, 0)
    campaign.amend("t3", 0.75)
    return campaign


def test_p6_replay_rebuilds_every_snapshot(store, monkeypatch):
    campaign = busy(store, monkeypatch)
    found = campaign.verify()
    assert found.good
    assert (found.events, found.snapshots, found.to_the_bit) == (26, 3, 3)


CHANGES = [
    (5, {"body": '{"arm":0,"v":[0.4,1.0,0.0],"s":[1],"m":[0,1,0]}'}, "its hash does not follow"),
    (4, {"ticket": "other"}, "its hash does not follow"),
    (4, {"at": 5}, "its hash does not follow"),
    (4, {"who": "me"}, "its hash does not follow"),
    (26, {"hash": bytes(16)}, "its hash does not follow"),
    (7, {"kind": "gifted"}, "kind 'gifted' of version 2"),
    (7, {"version": 99}, "of version 99"),
]


@pytest.mark.parametrize(("seq", "columns", "wrong"), CHANGES, ids=str)
def test_p6_replay_notices_every_change_of_the_log(store, monkeypatch, seq, columns, wrong):
    campaign = busy(store, monkeypatch)
    change_row(store, seq, **columns)
    (found,) = campaign.verify().wrong
    assert found.startswith(f"event {seq}: ")
    assert wrong in found


@pytest.mark.parametrize("what", ["money", "learned", "hash"])
def test_p6_replay_notices_a_snapshot_that_is_wrong(store, monkeypatch, what):
    campaign = busy(store, monkeypatch)
    saved = store.saved("one")
    core = Core.restore(saved.body)
    if what == "money":
        core.ledger.accounts[0].spent += 1
    elif what == "learned":
        core.controller.tell(0, 1, 1, 0)
    seen = bytes(16) if what == "hash" else saved.hash
    store.save("one", Saved(saved.seq, seen, core.snapshot()))
    (found,) = campaign.verify().wrong
    assert found.startswith(f"snapshot {saved.seq}: ")


# P7, constant cost.


def test_p7_constant_cost_a_turn_reads_as_much_after_many_events(store, monkeypatch):
    monkeypatch.setattr(turns, "SNAPSHOT_EVERY", 100)
    campaign, read = start(store, budget=10_000), []
    kind = type(store)
    original, original_turn = kind.read, Follower.current

    def counted(self, *arguments, **options):
        found = original(self, *arguments, **options)
        read.append(len(found))
        return found

    def current(self, turn):
        inner = turn.read

        def counted_turn(*arguments, **options):
            found = inner(*arguments, **options)
            read.append(len(found))
            return found

        turn.read = counted_turn
        return original_turn(self, turn)

    monkeypatch.setattr(kind, "read", counted)
    monkeypatch.setattr(Follower, "current", current)

    def cost():
        read.clear()
        campaign.tell(campaign.ask().id, 0.5, 1, 0)
        return sum(read)

    early = cost()
    for _ in range(500):
        campaign.tell(campaign.ask().id, 0.5, 1, 0)
    assert cost() == early == 2  # its own last event, twice
    read.clear()
    assert Campaign(store, "one").status()["asked"] == 502
    assert sum(read) <= 101  # the events since the last snapshot
    assert len(campaign.refreshed().ledger.tickets) == 0


# P8, fail closed.


def test_p8_fail_closed_no_storage_no_decision(tmp_path):
    campaign = open_campaign(tmp_path / "x.db", "one", task=TASK, budget=10, policy=Rotation())
    campaign.store._writer.execute("PRAGMA query_only = 1")
    for act in (lambda: campaign.ask("x"), lambda: campaign.tell("x", 1, 1, 0), campaign.pause):
        with pytest.raises(StoreError):
            act()
    campaign.store._writer.execute("PRAGMA query_only = 0")
    assert campaign.status()["asked"] == 0
    assert campaign.ask("x").state == "open"
    campaign.disconnect()


def test_p8_fail_closed_a_log_that_cannot_be_followed_halts_that_campaign_alone(store):
    campaign, other = start(store), start(store, name="two")
    campaign.ask()
    change_row(store, 2, kind="gifted")
    fresh = None
    for _ in range(2):
        with pytest.raises(HaltedError, match="event 2: kind 'gifted'"):
            fresh = Campaign(store, "one")
    assert fresh is None
    assert other.ask().state == "open"


def test_p8_fail_closed_a_state_that_was_not_stored_is_thrown_away(clock):
    """Decisions are those of a twin that never failed."""

    class Failing(MemoryStore):
        fails = False

        def turn(self, name, waiting=None):
            return self._failing(name) if self.fails else super().turn(name)

        from contextlib import contextmanager

        @contextmanager
        def _failing(self, name):
            with MemoryStore.turn(self, name) as turn:
                yield turn
                raise StoreError("no")

    store = Failing(clock)
    campaign = start(store, policy="uniform-random")
    twin = start(MemoryStore(clock), policy="uniform-random")
    for number in range(40):
        if number % 3 == 0:
            store.fails = True
            with pytest.raises(StoreError):
                campaign.ask()
            store.fails = False
        ticket, wanted = campaign.ask(), twin.ask()
        assert (ticket.id, ticket.arm) == (wanted.id, wanted.arm)
        for one in (campaign, twin):
            one.tell(ticket.id, 0.5, 1, 0)
    assert campaign.refreshed().controller == twin.refreshed().controller


# P9, no leader.


def test_p9_no_leader_any_handle_goes_on_where_another_stopped(store):
    first = start(store)
    handles = [first, Campaign(store, "one"), Campaign(store, "one")]
    for number in range(30):
        handles[number % 3].ask(f"t{number}")
        handles[(number + 1) % 3].tell(f"t{number}", 0.5, 1, 0)
    states = [one.refreshed() for one in handles]
    assert states[0].ledger == states[1].ledger == states[2].ledger
    assert states[0].controller == states[1].controller == states[2].controller
    assert first.status()["told"] == 30


def test_p9_no_leader_who_waits_too_long_is_told_so(store):
    campaign = start(store)
    store.deadline = 0.2
    with store.turn("one"), pytest.raises(StoreBusyError, match=r"no turn within 0.2 s"):
        campaign.ask()
    assert campaign.ask().state == "open"


# P10, same decisions.

LABELS = sorted(
    {label for kind in POLICIES.values() for label in (kind.name, *kind.contestants)} - {"fixed"}
)


def arms_of(campaign, steps):
    """The arms that a campaign pulls with the outcomes of a simulated run."""
    for arm, (cost, reward, *penalty), _ in steps:
        try:
            ticket = campaign.ask()
        except (ExhaustedError, WaitError):
            return
        yield ticket.number, arm
        campaign.tell(ticket.id, cost, reward, penalty)


@pytest.mark.parametrize("label", LABELS)
def test_p10_same_decisions_as_the_simulator(paper, label, monkeypatch):
    """Every policy, without compiled code: that this decides alike is tested elsewhere."""
    monkeypatch.setattr(Background, "wanted", False)
    policy = parse_policy(label)
    campaign = start(MemoryStore(), 40.0, paper, policy=policy, seed=3, stop="paper")
    steps = list(play(paper, policy, set_up(policy, paper, 40.0), 40.0, 3, 0))
    arms = list(arms_of(campaign, steps))
    assert len(arms) == len(steps) > 40
    assert [arm for arm, _ in arms] == [wanted for _, wanted in arms]
    with pytest.raises(ExhaustedError):
        campaign.ask()
    assert campaign.verify().good


@pytest.mark.parametrize("label", ["lyon", "resolve", "uniform-random"])
def test_p10_same_decisions_compiled_and_through_restarts(paper, label, store):
    """With ``hard`` the last pulls are among those that are sure to be paid for."""
    policy = parse_policy(label)
    start(store, 30.0, paper, policy=policy, seed=3)
    steps = play(paper, policy, set_up(policy, paper, 30.0), 30.0, 3, 0)
    pulled = 0
    for arm, (cost, reward, *penalty), _ in steps:
        campaign = Campaign(store, "one")
        try:
            ticket = campaign.ask()
        except ExhaustedError:
            break
        assert ticket.number == arm
        campaign.tell(ticket.id, cost, reward, penalty)
        pulled += 1
    assert pulled > 40
    assert campaign.status()["spent"] == 30.0


def test_p10_same_decisions_wrong_input_is_no_decision(store):
    """What is refused leaves a policy's coins as they were."""
    campaign = start(store, policy="uniform-random", seed=5)
    twin = start(MemoryStore(), policy="uniform-random", seed=5)
    for number in range(20):
        with pytest.raises(InputError):
            campaign.ask(eligible=["no"])
        with pytest.raises(InputError):
            campaign.ask("not good")
        tickets = campaign.ask(f"t{number}"), twin.ask(f"t{number}")
        assert tickets[0].arm == tickets[1].arm
        for one in (campaign, twin):
            one.tell(f"t{number}", 0.5, 1, 0)
