"""Misuse and bad luck that once broke a campaign: each has its test."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

from tests.live.cheap import Rotation
from tightrope import Limit, Scales, Task, open_campaign
from tightrope.errors import (
    CampaignError,
    ConflictError,
    ExhaustedError,
    InputError,
    PolicyError,
    ReportError,
    StoreError,
    WaitError,
)
from tightrope.live import calls as background
from tightrope.live import turns
from tightrope.live.archive import archive_events
from tightrope.live.campaign import Campaign
from tightrope.live.stores import Saved
from tightrope.live.stores.locks import Locks
from tightrope.live.stores.memory import MemoryStore
from tightrope.live.stores.sqlite import SQLiteStore

TASK = Task(["a", "b"], {"bad": Limit(0.4)})
DAY = 86_400_000_000


def start(store, budget=100, task=TASK, **options):
    return open_campaign(store, "one", task=task, budget=budget, policy=Rotation(), **options)


def require_good(campaign):
    """The log can be followed by a stranger, and leads to the same ledger."""
    found = campaign.verify()
    assert found.wrong == []
    again = Campaign(campaign.store, campaign.name)
    assert again.status() == campaign.status()
    for account in again.refreshed().ledger.accounts:
        held = sum(one.reserved[0] for one in again.refreshed().ledger.tickets.values())
        assert account.name != "cost" or account.reserved == held


# Ids.


@pytest.mark.parametrize("odd", [5, np.str_("5"), "5" * 128 + "x", b"5", None, ["5"], "\ud800", ""])
def test_a_report_under_an_odd_id_changes_no_ticket(store, odd):
    campaign = start(store)
    campaign.ask("5")
    campaign.ask("5" * 128)
    before = campaign.status()
    if odd == "5":
        campaign.tell(odd, 1, 1, 0)  # it is the id
        assert campaign.ticket("5").state == "told"
    else:
        with pytest.raises(InputError, match="ticket = "):
            campaign.tell(odd, 1, 1, 0)
        after = campaign.status()
        assert (after["in_flight"], after["reserved"]) == (2, before["reserved"])
        assert after["quarantined"] == 1
    require_good(campaign)


@pytest.mark.parametrize("odd", [5, "\ud800", "a b", "x" * 129, "", ["5"], "1-00000007"])
def test_an_ask_with_an_odd_id_is_refused(store, odd):
    campaign = start(store)
    campaign.ask("5")
    with pytest.raises(InputError, match="id = "):
        campaign.ask(odd)
    for act in (campaign.void, campaign.ticket, campaign.amend, campaign.why):
        with pytest.raises(InputError, match="is unknown"):
            act(odd)
    assert campaign.status()["asked"] == 1
    require_good(campaign)


def test_an_ask_with_a_word_of_numpy(store):
    campaign = start(store)
    campaign.ask(np.str_("x"))
    campaign.ask("y", eligible=np.array(["a", "b"]))
    campaign.tell(np.str_("y"), np.float32(0.5), np.int64(1), [np.float64(0)])
    assert campaign.ask("y", eligible=["b", "a"]).state == "told"
    require_good(campaign)


def test_one_bad_id_among_many_leaves_no_ticket_behind(store):
    campaign = start(store)
    campaign.ask("old", eligible=["a"])
    for ids in (["x", "y", "no good"], ["x", "y", "old"]):
        with pytest.raises(InputError):
            campaign.ask_many(ids=ids)
    assert campaign.status()["asked"] == 1


@pytest.mark.parametrize("eligible", [5, [], ["c"], [None], "ab"])
def test_wrong_words_for_eligible(store, eligible):
    campaign = start(store)
    with pytest.raises(InputError, match=r"arm|eligible"):
        campaign.ask(eligible=eligible)


# Reports.


@pytest.mark.parametrize("cost", [1e308, 10**400, 1e20, np.float32("inf"), "1", None, float("nan")])
def test_a_cost_beyond_all_numbers_is_kept_in_quarantine(store, cost):
    campaign = start(store)
    ticket = campaign.ask()
    with pytest.raises(ReportError, match="kept in quarantine"):
        campaign.tell(ticket.id, cost, 1, 0)
    status = campaign.status()
    assert (status["quarantined"], status["spent"], status["reserved"]) == (1, 1.0, 0.0)
    require_good(campaign)


def looped():
    found = {}
    found["bad"] = found
    return found


@pytest.mark.parametrize("penalty", [{("a", 1): 2}, {1: 2}, looped(), object(), {"bad": b"1"}])
def test_a_report_that_is_no_json_is_kept_in_quarantine(store, penalty):
    campaign = start(store)
    ticket = campaign.ask()
    with pytest.raises(ReportError, match="kept in quarantine"):
        campaign.tell(ticket.id, 1, 1, penalty)
    assert campaign.quarantine()[0]["ticket"] == ticket.id
    require_good(campaign)


@pytest.mark.parametrize("above", [np.float32(2.0), np.float64(2.0), 2])
def test_a_cost_above_the_largest_is_an_overrun_whatever_number_it_is(store, above):
    campaign = start(store)
    campaign.tell(campaign.ask().id, above, 1, 0)
    status = campaign.status()
    assert (status["spent"], status["overruns"], status["why"]) == (2.0, 1, "overrun")
    require_good(campaign)


def test_a_known_price_with_the_noise_of_floats_is_no_overrun(store):
    task = Task(["a", "b"], {"bad": Limit(0.4)}, costs={"a": 0.3, "b": 0.7})
    campaign = start(store, task=task)
    ticket = campaign.ask()
    assert ticket.arm == "a"
    campaign.tell(ticket.id, 0.1 + 0.2, 1, 0)
    status = campaign.status()
    assert (status["overruns"], status["state"], status["spent"]) == (0, "open", 0.3)
    campaign.tell(ticket.id, 0.1 + 0.2, 1, 0)  # again
    require_good(campaign)


def test_a_bill_is_taken_whole_or_not_at_all(store):
    campaign = start(store)
    for name in ("x", "y"):
        campaign.ask(name)
        campaign.tell(name, 0.5, 1, 0)
    good = {"id": "x", "cost": 0.25}
    for bad in (
        {"id": "y", "cost": 1e300},
        {"id": "y", "cost": ""},
        {"id": "y", "cost": False},
        {"id": "y", "penalty": {"bda": 1}},
        {"id": "y", "penalty": 3},
        {"id": "y", "cost": float("nan")},
        {"id": ["y"], "cost": 1},
        {"cost": 1},
    ):
        with pytest.raises(InputError):
            campaign.amend_many([good, bad])
        assert campaign.status()["spent"] == 1.0, bad
    assert campaign.amend_many([good, {"id": "x", "cost": 0.75}, {"id": "y"}]) == 3
    assert campaign.status()["spent"] == 1.25
    require_good(campaign)


# Words.


@pytest.mark.parametrize("why", [None, "", 5])
def test_a_pause_needs_a_reason(store, why):
    campaign = start(store)
    with pytest.raises(InputError, match="why = "):
        campaign.pause(why)
    assert campaign.status()["state"] == "open"


@pytest.mark.parametrize("note", ["\ud800", 5, "a\0b"])
def test_a_note_is_text(store, note):
    campaign = start(store)
    with pytest.raises(InputError, match="note = "):
        campaign.pause(note=note)
    assert campaign.status()["state"] == "open"


@pytest.mark.parametrize("who", ["a\nb", "\ud800", 5, "", "x" * 129])
def test_a_name_is_printable(store, who):
    with pytest.raises(InputError, match="who = "):
        start(store, who=who)
    assert store.names() == []


def test_the_arm_that_was_pulled_may_be_true(store):
    campaign = start(store, shadow=True)
    ticket = campaign.ask()
    campaign.tell(ticket.id, 1, 1, 0, arm=True)
    assert campaign.status()["arms"][1]["pulls"] == 1
    require_good(campaign)


def test_arms_may_come_with_numbers_of_numpy(store):
    task = Task(["a", "b"], {"bad": Limit(0.4)}, costs={"a": 0.3, "b": 0.7})
    campaign = start(store, task=task)
    campaign.add_arm(np.str_("c"), cost=np.float32(0.5))
    campaign.reprice(np.int64(2), cost=np.float64(0.25))
    campaign.add_budget(np.int64(5))
    assert campaign.status()["budget"] == 105.0
    with pytest.raises(InputError):
        campaign.add_arm("d", cost=object())
    require_good(campaign)


@pytest.mark.parametrize("seconds", [1e12, 0, -1, float("nan"), "x"])
def test_an_expiry_has_a_date(store, seconds):
    with pytest.raises(InputError, match="expire_after"):
        start(store, expire_after=seconds)
    assert store.names() == []


def test_a_day_must_pay_for_a_pull(store):
    with pytest.raises(InputError, match=r"per_day = 0.5: must be at least 1"):
        start(store, per_day=0.5)
    assert store.names() == []
    assert start(store, per_day=1).ask().state == "open"


@dataclasses.dataclass(frozen=True)
class Lost(Rotation):
    """Chooses an arm that there is not, at its fourth pull."""

    name = "lost"

    def decide(self, setup, step, statistics, queues, uniform):
        return 99 if sum(statistics.pulls) == 3 else 0


def test_a_policy_that_fails_leaves_no_trace(store):
    campaign = open_campaign(store, "one", task=TASK, budget=100, policy=Lost())
    for _ in range(3):
        campaign.tell(campaign.ask().id, 1, 1, 0)
    for _ in range(2):
        with pytest.raises(PolicyError, match="chose arm 99"):
            campaign.ask()
    assert campaign.refreshed().controller == Campaign(store, "one").refreshed().controller


# Arms that are retired.


def test_a_retired_arm_buys_no_hope(store):
    task = Task(["a", "b"], {"bad": Limit(0.4)}, costs={"a": 0.1, "b": 1.0})
    campaign = start(store, task=task, budget=1.5)
    campaign.retire_arm("a")
    ticket = campaign.ask()
    with pytest.raises(WaitError, match="1 pull in flight"):
        campaign.ask()
    campaign.tell(ticket.id, reward=1, penalty=0)
    with pytest.raises(ExhaustedError):
        campaign.ask()
    assert campaign.status()["state"] == "exhausted"
    with pytest.raises(InputError, match="retired"):
        campaign.ask(eligible=["a"])


def test_a_price_is_the_one_of_the_ask(store):
    """What is in flight when a price changes is paid as it was reserved; so is what is repeated."""
    task = Task(["a", "b"], {"bad": Limit(0.4)}, costs={"a": 0.3, "b": 0.7})
    for price, name in ((0.5, "dearer"), (0.2, "cheaper")):
        campaign = open_campaign(store, name, task=task, budget=10, policy=Rotation())
        for ticket in "xyz":
            campaign.ask(ticket, eligible=["a"])
        campaign.tell("x", 0.3, 1, 0)
        campaign.reprice("a", cost=price)
        campaign.tell("x", 0.3, 1, 0)
        campaign.tell("x", reward=1, penalty=0)
        campaign.tell("y", 0.3, 1, 0)
        campaign.tell("z", reward=1, penalty=0)
        campaign.tell(campaign.ask("w", eligible=["a"]).id, price, 1, 0)
        status = campaign.status()
        assert (status["spent"], status["overruns"]) == (pytest.approx(0.9 + price), 0)
        assert (status["state"], status["quarantined"]) == ("open", 0)
        controller = campaign.refreshed().controller
        assert controller.spent == pytest.approx(0.9 + price)
        learned = (0.3 + 3 * price) / 4  # from then on at the new price
        assert controller.means[0][0] == pytest.approx(learned)
        with pytest.raises(ReportError, match="must be the known value"):
            campaign.tell(campaign.ask("v", eligible=["a"]).id, 0.1, 1, 0)
        require_good(campaign)


@pytest.mark.parametrize("how", [{"stop": "paper"}, {"shadow": True}], ids=str)
def test_a_price_is_the_one_of_the_ask_where_nothing_is_reserved(store, how):
    task = Task(["a", "b"], {"bad": Limit(0.4)}, costs={"a": 0.3, "b": 0.7})
    campaign = open_campaign(
        store, "one", task=task, budget=10, policy=Rotation(), expire_after=60, **how
    )
    for ticket in "uvwxyz":
        campaign.ask(ticket, eligible=["a"])
    campaign.reprice("a", cost=0.5)
    campaign.tell("x", 0.3, 1, 0)
    again = Campaign(store, "one")  # from the log
    again.tell("y", reward=1, penalty=0)
    with pytest.raises(ReportError, match="must be the known value"):
        again.tell("z", 0.4, 1, 0)
    core = again.refreshed()
    store.save("one", Saved(core.ledger.seq, again._follower.hash, core.snapshot()))
    later = Campaign(store, "one")  # from the snapshot
    later.ask("t", eligible=["a"])
    later.reprice("a", cost=0.2)
    later.tell("t", 0.5, 1, 0)
    later.tell("v", 0.3, 1, 0)
    later.tell("w", 0.2, 1, 0)  # as it is now: taken as it was told
    status = later.status()
    assert (status["spent"], status["overruns"]) == (pytest.approx(3 * 0.3 + 0.5 + 0.2), 0)
    assert (status["state"], status["quarantined"]) == ("open", 1)
    require_good(later)


def test_a_promise_without_its_safe_arm_is_exhausted(store):
    task = Task(["a", "b"], {"bad": Limit(0.4)}, costs={"a": 0.1, "b": 1.0}, safe="b", slack=0.2)
    options = {"task": task, "budget": 1.5, "policy": "resolve:risk=0.05"}
    campaign = open_campaign(store, "one", **options)
    with pytest.raises(InputError, match="must keep the safe arm 'b'"):
        campaign.ask(eligible=["a"])
    campaign.pin("b")
    ticket = campaign.ask()
    campaign.pin(None)
    with pytest.raises(WaitError, match="1 pull in flight"):
        campaign.ask()
    campaign.tell(ticket.id, reward=1, penalty=0)
    with pytest.raises(ExhaustedError):  # the other arm could be paid for
        campaign.ask()
    assert campaign.status()["state"] == "exhausted"


# The clock.


def test_a_jump_of_the_clock_expires_nothing(store, clock):
    campaign = start(store)
    tickets = campaign.ask_many(4)
    other = Campaign(store, "one")
    other.tell(tickets[0].id, 1, 1, 0)
    clock.at += 3 * DAY  # in no time
    campaign.tell(tickets[1].id, 1, 1, 0)
    assert campaign.status()["why"] == "the clock jumped"
    for one, ticket in ((campaign, tickets[2]), (other, tickets[3])):
        one.tell(ticket.id, 1, 1, 0)
        assert one.status()["expired"] == one.status()["late"] == 0
    with pytest.raises(CampaignError, match="the clock jumped"):
        other.ask()
    other.resume()  # the clock is right, somebody says
    for one in (campaign, other, Campaign(store, "one")):
        assert one.ask().expires_at.timestamp() * 1e6 == clock.at + DAY
    require_good(campaign)


def test_a_clock_that_is_set_right_again_was_never_followed(store, clock):
    campaign = start(store)
    campaign.ask()
    at = clock.at
    clock.at += 30 * DAY
    campaign.pause("x")
    clock.at = at + 1
    campaign.resume()
    assert campaign.ask().expires_at.timestamp() * 1e6 == pytest.approx(at + DAY + 1)
    assert campaign.status()["expired"] == 0


def test_a_machine_that_slept_has_no_jump_of_the_clock(store, clock, monkeypatch):
    campaign, hours = start(store), 3
    campaign.ask()
    awake = turns.uptime()
    monkeypatch.setattr(turns.time, "clock_gettime", lambda _: awake + hours * 3600)
    clock.at += hours * 3600 * 1_000_000
    assert campaign.ask().state == "open"


# Failing stores, threads, interrupts, forks.


class Failing(MemoryStore):
    """Commits fail, before or after they are made, and so do the next turns."""

    def __init__(self, clock):
        super().__init__(clock)
        self.plan = []

    @contextmanager
    def turn(self, name, waiting=None):
        step = self.plan.pop(0) if self.plan else ""
        if step == "refuse":
            raise StoreError("no turn")
        with super().turn(name) as turn:
            yield turn
            if step == "before":
                raise StoreError("commit failed")
            if step == "interrupt":
                raise KeyboardInterrupt
        if step == "after":
            raise StoreError("commit failed, or did it?")
        if step == "interrupt after":
            raise KeyboardInterrupt


def test_a_commit_that_failed_after_all_was_made(clock):
    store = Failing(clock)
    campaign = start(store)
    store.plan = ["after"]
    assert campaign.ask("x").state == "open"
    store.plan = ["before"]
    with pytest.raises(StoreError, match="commit failed"):
        campaign.ask("y")
    assert campaign.status()["asked"] == 1
    store.plan = ["after", "refuse"]
    with pytest.raises(StoreError, match="Repeat it with the same id"):
        campaign.ask("z")
    assert campaign.ask("z").state == "open"
    assert campaign.status()["asked"] == 2
    require_good(campaign)


@pytest.mark.parametrize(
    "plan", [["after", "refuse"], ["interrupt"], ["interrupt after"], ["before"]], ids=str
)
def test_threads_whose_turn_failed_do_not_wait_for_ever(clock, plan):
    """One thread does the work of others: its failure is theirs, its interrupt is not."""
    store = Failing(clock)
    campaign = start(store)
    found = {}

    def ask(name):
        try:
            found[name] = campaign.ask(name)
        except BaseException as error:
            found[name] = error

    with campaign._desk:  # all line up behind this
        threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in "xyz"]
        for thread in threads:
            thread.start()
        while len(campaign._desk.queue) < 3:
            time.sleep(0.001)
        store.plan = list(plan)
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    interrupted = [one for one in found.values() if isinstance(one, KeyboardInterrupt)]
    assert len(interrupted) == ("interrupt" in plan[0])
    stored = campaign.status()["asked"]
    assert stored == (3 if "after" in plan[0] else 0)
    for name, one in found.items():
        if isinstance(one, Exception):
            assert isinstance(one, StoreError)
        assert campaign.ask(name).state == "open"
    assert campaign.status()["asked"] == 3
    require_good(campaign)


def test_one_callers_mistake_is_not_the_others(store):
    """A turn is shared: what one request breaks must not break the rest."""
    campaign = start(store)
    found = {}

    def act(name, **options):
        try:
            found[name] = campaign.ask(name, **options)
        except Exception as error:
            found[name] = error

    def break_it():
        try:
            campaign.do(lambda writer: [writer.ask("half", None), 1 / 0])
        except Exception as error:
            found["broken"] = error

    with campaign._desk:
        threads = [
            threading.Thread(target=break_it, daemon=True),
            threading.Thread(target=act, args=("good",), daemon=True),
            threading.Thread(target=act, args=("bad",), kwargs={"eligible": 3}, daemon=True),
            threading.Thread(target=act, args=("\ud800",), daemon=True),
        ]
        for thread in threads:
            thread.start()
        while len(campaign._desk.queue) < 4:
            time.sleep(0.001)
    for thread in threads:
        thread.join(10)
    assert isinstance(found["broken"], StoreError)
    assert found["good"].state == "open"
    assert campaign.status()["asked"] == 1
    assert isinstance(found["bad"], InputError)
    assert isinstance(found["\ud800"], InputError)


def test_a_thread_that_is_interrupted_in_the_queue_holds_up_nobody(store):
    campaign, busy, go_on, found = start(store), threading.Event(), threading.Event(), []

    def hold():
        with campaign._desk:
            busy.set()
            go_on.wait(10)

    holder = threading.Thread(target=hold, daemon=True)
    holder.start()
    busy.wait(10)
    second = threading.Thread(target=lambda: found.append(campaign.ask("second")), daemon=True)

    def interrupt(*_):
        second.start()  # in the queue behind the first
        while len(campaign._desk.queue) < 2:
            time.sleep(0.001)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            campaign.ask("first")
    finally:
        signal.signal(signal.SIGALRM, before)
    go_on.set()
    second.join(10)
    assert [ticket.id for ticket in found] == ["second"]
    assert campaign.status()["asked"] == 1


def test_an_interrupted_wait_leaves_the_turn_to_others(tmp_path):
    path = str(tmp_path / "x")
    one, two, three = Locks(path), Locks(path), Locks(path)
    assert one.acquire(1)
    before = signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            two.acquire(5)
    finally:
        signal.signal(signal.SIGALRM, before)
    one.release()
    assert three.acquire(1)
    three.release()
    for locks in (one, two, three):
        locks.close()


def test_who_is_next_in_line_is_told_so_before_the_turn_is_given(tmp_path):
    path = str(tmp_path / "x")
    one, two = Locks(path), Locks(path)
    done = []
    assert one.acquire(1, lambda: done.append("not in line"))
    thread = threading.Thread(
        target=lambda: done.append(two.acquire(10, lambda: done.append("next")))
    )
    thread.start()
    while not done:
        time.sleep(0.001)
    assert done == ["next"]
    one.release()
    thread.join(10)
    assert done == ["next", True]
    assert not one.acquire(0.05)
    two.release()
    assert one.acquire(5), "it is still in line, and has the turn when it is free"
    one.release()
    for locks in (one, two):
        locks.close()


def test_locks_that_are_closed_while_a_thread_waits(tmp_path):
    path = str(tmp_path / "x")
    one, two = Locks(path), Locks(path)
    assert one.acquire(1)
    assert not two.acquire(0.05)
    waiting = two._thread
    two.close()
    again = Locks(path)  # would be given the numbers of the closed files
    one.release()
    waiting.join(5)
    assert not waiting.is_alive()
    assert again.acquire(1)
    assert not one.acquire(0.05)
    again.release()
    one.close()
    again.close()


def test_a_child_goes_on_after_its_parent_has_let_go(tmp_path):
    """Both write; the parent closes; what the child writes then is not lost."""
    path = str(tmp_path / "campaigns.db")
    campaign = open_campaign(path, "one", task=TASK, budget=100, policy=Rotation())
    campaign.ask("parent 1".replace(" ", "-"))
    (read, write), (read_back, write_back) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            campaign.ask("child-1")
            os.write(write, b"1")
            os.read(read_back, 1)
            for number in range(2, 5):
                campaign.ask(f"child-{number}")
            status = 0
        finally:
            os._exit(status)
    os.read(read, 1)
    campaign.ask("parent-2")
    campaign.disconnect()
    os.write(write_back, b"1")
    assert os.waitpid(pid, 0)[1] == 0
    for end in (read, write, read_back, write_back):
        os.close(end)
    with open_campaign(path, "one") as again:
        assert again.status()["asked"] == 6
        assert again.verify().good


def test_a_fork_waits_for_what_is_being_compiled(monkeypatch):
    """The child would have numba's locks, and not the thread that lets go of them."""
    monkeypatch.setattr(background, "native", lambda *_: time.sleep(0.2))
    monkeypatch.setattr(background, "live_calls", lambda: None)
    background.Background("a spec", False)
    pid = os.fork()
    if pid == 0:
        os._exit(len(background.Background.running))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_file_that_is_gone_takes_no_decision(tmp_path, how):
    """Otherwise they would go to a file that nobody can open any more."""
    path = tmp_path / "x.db"
    campaign = open_campaign(path, "one", task=TASK, budget=100, policy=Rotation())
    campaign.ask()
    campaign.store.backup(str(tmp_path / "copy.db"))
    path.rename(tmp_path / "away.db")
    if how == "replaced":
        (tmp_path / "copy.db").rename(path)
    with pytest.raises(StoreError, match=r"the file is gone|another file is in its place"):
        campaign.ask()
    (tmp_path / "away.db").rename(path)
    assert campaign.ask().state == "open"
    campaign.disconnect()


def test_a_store_that_is_busy_leaves_no_file_open(tmp_path, monkeypatch):
    path = str(tmp_path / "x.db")
    holder = SQLiteStore(path)
    monkeypatch.setattr(SQLiteStore, "deadline", 0.02)
    with holder.turn("x"):
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            with pytest.raises(StoreError, match="no turn within"):
                SQLiteStore(path)
    deadline = time.monotonic() + 5
    while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < deadline:
        time.sleep(0.01)  # the threads that were in line have to end
    assert len(os.listdir("/proc/self/fd")) <= before
    holder.close()


@pytest.mark.parametrize("act", ["status", "ask", "quarantine"])
def test_a_child_does_not_wait_for_a_thread_of_its_parent(tmp_path, act):
    campaign = open_campaign(tmp_path / "x.db", "one", task=TASK, budget=100, policy=Rotation())
    busy, go_on = threading.Event(), threading.Event()

    def hold():
        with campaign._desk:
            busy.set()
            go_on.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    busy.wait(10)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            signal.alarm(5)
            getattr(campaign, act)()
            status = 0
        finally:
            os._exit(status)
    go_on.set()
    holder.join()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    campaign.disconnect()


def test_a_closed_store_says_so(tmp_path):
    campaign = open_campaign(tmp_path / "x.db", "one", task=TASK, budget=100, policy=Rotation())
    campaign.disconnect()
    campaign.disconnect()
    for act in (campaign.ask, campaign.status):
        with pytest.raises(StoreError, match="closed"):
            act()


def test_verify_notices_a_log_that_was_cut(store):
    campaign = start(store)
    for _ in range(4):
        campaign.ask()
    core = campaign.refreshed()
    store.save("one", Saved(core.ledger.seq, campaign._follower.hash, core.snapshot()))
    assert campaign.verify().good
    if isinstance(store, MemoryStore):
        del store._logs["one"].rows[-2:]
    else:
        store._writer.execute("DELETE FROM events WHERE seq > 3")
    assert not campaign.verify().good


def test_an_archive_does_not_halt_who_slept_meanwhile(store, tmp_path):
    campaign = start(store)
    idle, looking = Campaign(store, "one"), Campaign(store, "one")
    for number in range(20):
        campaign.ask(f"t{number}")
        campaign.tell(f"t{number}", 0.5, 1, 0)
    archive_events(campaign, str(tmp_path / "old.jsonl"), 30)
    assert looking.status()["asked"] == 20
    assert idle.ask().state == "open"
    assert campaign.status() == idle.status() == looking.status()
    assert idle.verify().good


def test_a_long_bill_takes_no_longer_than_its_length(clock):
    campaign, calls = start(MemoryStore(clock), budget=10_000), []
    names = [f"t{number}" for number in range(4000)]
    campaign.ask_many(ids=names)
    campaign.tell_many({"id": name, "cost": 0.5, "reward": 1, "penalty": 0} for name in names)
    background.Background.wait()
    for count in (500, 4000):
        calls.append(0)

        def counted(*_):
            calls[-1] += 1

        sys.setprofile(counted)  # calls and returns of functions, not time
        campaign.amend_many({"id": name, "cost": 0.25 * count / 500} for name in names[:count])
        sys.setprofile(None)
    assert calls[1] < 10 * calls[0]


def test_hard_limits_are_reserved_to_the_last_pull(store):
    task = Task(["a", "b"], {"bad": Limit(total=3, hard=True)}, Scales(penalty=2.0))
    campaign = start(store, task=task, budget=100)
    asked = campaign.ask_many(10)
    assert len(asked) == 1
    campaign.tell(asked[0].id, 1, 1, 1.5)
    with pytest.raises(ExhaustedError, match="hard limit 'bad'"):
        campaign.ask()
    assert campaign.status()["hard"]["bad"]["spent"] == 1.5
    with pytest.raises(ConflictError):
        campaign.tell(asked[0].id, 1, 1, 1.25)
    require_good(campaign)


class Explodes(float):
    """A number that cannot be compared."""

    def __ge__(self, other):
        raise RuntimeError("no comparison today")

    __le__ = __gt__ = __lt__ = __ge__


def test_a_report_that_breaks_a_turn_does_not_take_the_others_with_it(store):
    campaign = start(store)
    names = [one.id for one in campaign.ask_many(3)]
    reports = [{"id": name, "cost": 0.5, "reward": 1, "penalty": 0} for name in names]
    reports[1]["cost"] = Explodes(0.5)
    with pytest.raises(StoreError, match="no comparison today"):
        campaign.tell_many(reports)
    assert [campaign.ticket(name).state for name in names] == ["told", "open", "told"]
    require_good(campaign)
