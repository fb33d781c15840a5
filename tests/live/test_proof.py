"""Campaigns under attack: simulated at random, killed, starved of disk, stopped, crowded."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.live import kills, simulation
from tests.live.cheap import Rotation
from tests.live.ledger_model import Model, follow
from tightrope import Limit, Task, open_campaign
from tightrope.errors import StoreBusyError, StoreError
from tightrope.live.campaign import Campaign
from tightrope.live.stores.sqlite import SQLiteStore

TASK = Task(["a", "b"], {"bad": Limit(0.4)})


def unit(amount):
    return round(amount * 1000)


def require_whole(campaign, asked, told, budget=100):
    """Each of these ids is in the log once, and the money is the model's."""
    events = list(campaign.events())
    for kind, names in (("asked", asked), ("told", told)):
        found = [event.ticket for event in events if event.kind == kind]
        assert sorted(found) == sorted(names), kind
    model = Model([unit(budget)], [(1000,)] * 2)
    for event in events[1:]:
        follow(model, event, unit)
    status = campaign.status()
    assert [unit(status[key]) for key in ("spent", "reserved")] == [*model.spent, *model.reserved]
    assert campaign.verify().wrong == []


def forked(act, *arguments):
    """The number of a process that does this, and ends with status 0 if that went well."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            act(*arguments)
            status = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(status)
    return pid


def require_ended(*pids):
    for pid in pids:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("seed", [1, 2])
def test_a_simulated_campaign_is_the_model_after_every_event(seed):
    found = simulation.simulate(120_000, seed)
    assert found["events"] >= 120_000
    assert min(found[key] for key in ("voided", "expired", "late", "overruns", "refused")) > 100


def test_kill_9_under_load_loses_and_doubles_nothing(tmp_path):
    found = kills.run(str(tmp_path / "campaigns.db"), tmp_path, cycles=20)
    assert (found["lost"], found["doubled"], found["overspent"]) == (0, 0, 0)
    assert found["verified"]
    assert found["asks"] > 50


def test_kill_9_under_load_with_types_of_requests(tmp_path):
    task = replace(kills.TASK, contexts={"most": 3})
    found = kills.run(str(tmp_path / "campaigns.db"), tmp_path, cycles=8, task=task)
    assert (found["lost"], found["doubled"], found["overspent"]) == (0, 0, 0)
    assert found["verified"]
    assert found["asks"] > 20


def test_kill_9_under_load_with_features_that_are_erased(tmp_path):
    task = replace(kills.TASK, contexts=kills.FEATURES)
    found = kills.run(str(tmp_path / "campaigns.db"), tmp_path, cycles=8, task=task)
    assert (found["lost"], found["doubled"], found["overspent"]) == (0, 0, 0)
    assert found["verified"]
    assert found["asks"] > 20


def test_kill_9_under_load_on_postgresql(postgres_url, tmp_path):
    found = kills.run(postgres_url, tmp_path, cycles=12, workers=4)
    assert (found["lost"], found["doubled"], found["overspent"]) == (0, 0, 0)
    assert found["verified"]
    assert found["asks"] > 30


# Errors of the disk.


class Faulty:
    """A connection whose n-th statement that writes fails, before or after it was done."""

    left, after, failed = 0, False, 0

    def __init__(self, connection):
        self._connection = connection

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def _run(self, method, statement, *rest):
        kind = Faulty
        counts = not statement.startswith(("SELECT", "PRAGMA"))
        kind.left -= counts
        failing = counts and kind.left == 0
        if failing and not kind.after:
            kind.failed += 1
            raise sqlite3.OperationalError("disk I/O error")
        found = method(statement, *rest)
        if failing:
            kind.failed += 1
            raise sqlite3.OperationalError("disk I/O error")
        return found

    def execute(self, statement, *rest):
        return self._run(self._connection.execute, statement, *rest)

    def executemany(self, statement, *rest):
        return self._run(self._connection.executemany, statement, *rest)


def insist(act, *arguments):
    """Repeat a call until it is answered, as P3 says one may."""
    for _ in range(5):
        try:
            return act(*arguments)
        except StoreError as error:
            last = error
    raise last


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_an_error_at_every_nth_write_sync_and_commit(tmp_path, monkeypatch, after):
    original = SQLiteStore._connect
    monkeypatch.setattr(SQLiteStore, "_connect", lambda self: Faulty(original(self)))
    names = [f"t{number}" for number in range(4)]
    for nth in range(1, 38):
        Faulty.left = Faulty.failed = 0
        Faulty.after = after
        store = SQLiteStore(str(tmp_path / f"{after}-{nth}.db"))
        campaign = open_campaign(store, "one", task=TASK, budget=100, policy=Rotation())
        Faulty.left = nth
        for name in names:
            insist(campaign.ask, name)
            insist(campaign.tell, name, 0.5, 1, 0)
        assert Faulty.failed == (nth <= 32), nth  # begin, events, head, commit of eight turns
        require_whole(campaign, names, names)
        store.close()


@contextmanager
def tmpfs(folder, size):
    """A file system of so many kilobytes."""
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(folder)], capture_output=True
    )
    if made.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {made.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def ask_until_it_fails(campaign):
    asked = []
    for number in range(100_000):
        name = f"t{number}"
        try:
            campaign.ask(name)
        except StoreError:
            return asked, name
        asked.append(name)
    raise AssertionError("the disk was never full")


def test_a_full_disk_and_recovery(tmp_path):
    """Nothing is decided without storage; afterwards the campaign goes on."""
    with tmpfs(tmp_path, 600):
        path = tmp_path / "campaigns.db"
        campaign = open_campaign(path, "one", task=TASK, budget=10_000, policy=Rotation())
        filler = tmp_path / "filler"
        filler.write_bytes(b"x" * 300_000)
        asked, failed = ask_until_it_fails(campaign)
        with pytest.raises(StoreError):
            campaign.ask_many(ids=[f"many{n}" for n in range(200)])
        filler.unlink()
        campaign.ask(failed)
        require_whole(campaign, [*asked, failed], [], 10_000)
        campaign.disconnect()
        with open_campaign(path, "one") as again:
            assert again.verify().good


def limited(path):
    """In a process of its own: files may not grow, then they may again."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    campaign = open_campaign(path, "one", task=TASK, budget=10_000, policy=Rotation())
    campaign.ask("first")
    size = os.path.getsize(path + "-wal")
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50_000, most))
    asked, failed = ask_until_it_fails(campaign)
    try:
        campaign.tell("first", 1, 1, 0)
        raise AssertionError("told without storage")
    except StoreError:
        pass
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    campaign.ask(failed)
    campaign.tell("first", 1, 1, 0)
    require_whole(campaign, ["first", *asked, failed], ["first"], 10_000)


def test_a_file_that_may_not_grow_and_recovery(tmp_path):
    require_ended(forked(limited, str(tmp_path / "campaigns.db")))


# Several processes.


def test_one_process_stopped_in_its_turn_and_continued(tmp_path):
    """Four on one file: the others get an error at their deadline, and go on afterwards."""
    path = str(tmp_path / "campaigns.db")
    open_campaign(path, "one", task=TASK, budget=100, policy=Rotation()).disconnect()

    def stop_in_turn():
        campaign = open_campaign(path, "one")

        def act(writer):
            found = writer.ask("stopped", None)
            os.kill(os.getpid(), signal.SIGSTOP)
            return found

        campaign.do(act)
        campaign.tell("stopped", 1, 1, 0)

    holder = forked(stop_in_turn)
    os.waitpid(holder, os.WUNTRACED)

    def wait(number):
        store = SQLiteStore.__new__(SQLiteStore)
        store.deadline = 0.3
        began = time.monotonic()
        try:
            store.__init__(path, create=False)
            raise AssertionError("it was opened without a turn")
        except StoreBusyError:
            assert time.monotonic() - began < 2.0

    waiting = [forked(wait, number) for number in range(3)]
    require_ended(*waiting)

    def go_on(number):
        with open_campaign(path, "one") as campaign:
            for one in range(5):
                campaign.ask(f"p{number}-{one}")

    going = [forked(go_on, number) for number in range(3)]
    time.sleep(0.2)
    os.kill(holder, signal.SIGCONT)
    require_ended(holder, *going)
    with open_campaign(path, "one") as campaign:
        names = [f"p{number}-{one}" for number in range(3) for one in range(5)]
        require_whole(campaign, ["stopped", *names], ["stopped"])


def test_an_open_handle_waits_no_longer_than_its_deadline(tmp_path):
    path = str(tmp_path / "campaigns.db")
    campaign = open_campaign(path, "one", task=TASK, budget=100, policy=Rotation())
    other = open_campaign(path, "one")
    other.store.deadline = 0.3
    with campaign.store.turn("one"):
        for _ in range(2):  # the second finds the first still in line
            began = time.monotonic()
            with pytest.raises(StoreBusyError, match=r"no turn within 0.3 s"):
                other.ask("x")
            assert 0.2 < time.monotonic() - began < 2.0
    assert other.ask("x").state == "open"
    campaign.disconnect()
    other.disconnect()


def test_turns_are_fair(tmp_path):
    """Four processes as fast as they can: each has its share, and none waits long."""
    path, seconds, crowd = str(tmp_path / "campaigns.db"), 2.0, 4
    open_campaign(path, "one", task=TASK, budget=1e6, policy=Rotation()).disconnect()
    read, write = os.pipe()

    def work(number):
        count, longest = 0, 0.0
        with open_campaign(path, "one") as campaign:
            until = time.monotonic() + seconds
            while (began := time.monotonic()) < until:
                campaign.void(campaign.ask().id)
                longest, count = max(longest, time.monotonic() - began), count + 1
        os.write(write, f"{count} {longest}\n".encode())

    require_ended(*[forked(work, number) for number in range(crowd)])
    os.close(write)
    with os.fdopen(read) as lines:
        counts, waits = zip(*(map(float, line.split()) for line in lines), strict=True)
    assert len(counts) == crowd
    assert min(counts) > 0.3 * sum(counts) / crowd, counts
    assert max(waits) < 1.0, waits


def test_a_forked_child_and_its_parent_use_one_handle(tmp_path):
    path = str(tmp_path / "campaigns.db")
    campaign = open_campaign(path, "one", task=TASK, budget=100, policy=Rotation())
    campaign.ask("before")

    def work(who):
        for number in range(10):
            campaign.ask(f"{who}-{number}")
            campaign.tell(f"{who}-{number}", 0.5, 1, 0)

    children = [forked(work, "child"), forked(work, "other")]
    work("parent")
    require_ended(*children)
    names = [f"{who}-{number}" for who in ("child", "other", "parent") for number in range(10)]
    require_whole(campaign, ["before", *names], names)
    campaign.disconnect()


def test_sixteen_threads_share_turns_and_lose_nothing(tmp_path):
    campaign = open_campaign(
        tmp_path / "campaigns.db", "one", task=TASK, budget=1000, policy=Rotation()
    )
    turns, errors = [], []
    original = campaign.store.turn

    def counted(name, waiting=None):
        turns.append(name)
        return original(name, waiting)

    campaign.store.turn = counted

    def work(thread):
        try:
            for number in range(20):
                ticket = campaign.ask(f"{thread}-{number}")
                campaign.tell(ticket.id, 0.5, 1, 0)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    names = [f"{thread}-{number}" for thread in range(16) for number in range(20)]
    require_whole(campaign, names, names, 1000)
    assert len(turns) < 640 / 3  # requests that wait are done together
    campaign.disconnect()


def test_a_dead_holder_leaves_its_turn_to_others(tmp_path):
    path = str(tmp_path / "campaigns.db")
    campaign = open_campaign(path, "one", task=TASK, budget=100, policy=Rotation())
    read, write = os.pipe()

    def hold():
        own = Campaign(SQLiteStore(path), "one")

        def act(writer):
            writer.ask("lost", None)
            os.write(write, b"1")
            time.sleep(60)

        own.do(act)

    pid = forked(hold)
    os.read(read, 1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    campaign.ask("next")
    require_whole(campaign, ["next"], [])
    for end in (read, write):
        os.close(end)
    campaign.disconnect()
