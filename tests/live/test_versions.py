"""Versions of the program on one log: who may go on from what another has written."""

from __future__ import annotations

import pytest

from tests.live.cheap import Rotation
from tightrope import Limit, Task, open_campaign
from tightrope.errors import HaltedError
from tightrope.live import follower, turns
from tightrope.live.stores.memory import MemoryStore


@pytest.fixture
def program(monkeypatch):
    """What makes this process one of another version."""

    def become(version):
        for module in (turns, follower):
            monkeypatch.setattr(module, "__version__", version)
            monkeypatch.setattr(module, "digest_of", lambda _, version=version: f"of {version}")

    return become


@pytest.fixture
def store():
    made = MemoryStore()
    open_campaign(
        made, "x", task=Task(["a", "b"], {"bad": Limit(0.4)}), budget=100, policy=Rotation()
    )
    return made


def work(opened, pulls=3):
    for _ in range(pulls):
        opened.tell(opened.ask().id, 0.5, 1.0, 0.0)


def programs(store):
    events = open_campaign(store, "x").events()
    return [one.body.program for one in events if one.kind == "upgraded"]


def test_one_version_after_the_other_goes_on(store, program):
    """Also the third, though the second's takeover is in no snapshot that it could start from."""
    for version in ("0.4.0", "0.5.0", "0.10.0"):
        program(version)
        opened = open_campaign(store, "x")
        work(opened)
    assert programs(store) == ["0.4.0", "0.5.0", "0.10.0"]
    assert opened.status()["told"] == 9
    assert opened.verify().good


@pytest.mark.parametrize("saved", [False, True])
def test_a_process_halts_for_good_when_another_version_takes_over(store, program, saved):
    program("0.4.0")
    old = open_campaign(store, "x")
    work(old)
    program("0.5.0")
    new = open_campaign(store, "x")
    work(new)
    for _ in range(2):  # it must not take it back
        program("0.4.0")
        with pytest.raises(HaltedError, match=r"version 0\.5\.0 of the program took over"):
            old.ask()
        program("0.5.0")
        if saved:
            core = new.refreshed()
            store.save("x", following_saved(new, core))
    program("0.4.0")
    with pytest.raises(HaltedError, match=r"this is 0\.4\.0, so upgrade it"):
        open_campaign(store, "x").ask()
    program("0.5.0")
    work(new)
    assert programs(store) == ["0.4.0", "0.5.0"]


def following_saved(opened, core):
    from tightrope.live.stores import Saved

    return Saved(core.ledger.seq, opened._follower.hash, core.snapshot())


def test_a_campaign_of_a_newer_version_is_refused(program, monkeypatch):
    from tightrope.live import creation

    store = MemoryStore()
    program("0.3.0")
    monkeypatch.setattr(creation, "__version__", "0.3.0")
    monkeypatch.setattr(creation, "digest_of", lambda _: "of 0.3.0")
    task = Task(["a", "b"], {"bad": Limit(0.4)})
    work(open_campaign(store, "new", task=task, budget=100, policy=Rotation()))
    program("0.2.0")
    with pytest.raises(HaltedError, match=r"version 0\.3\.0 .* this is 0\.2\.0, so upgrade it"):
        open_campaign(store, "new")


def test_of_two_builds_of_one_version_the_one_that_started_last_goes_on(
    store, program, monkeypatch
):
    program("0.4.0.dev0")
    old = open_campaign(store, "x")
    work(old)
    monkeypatch.setattr(follower, "digest_of", lambda _: "another build")
    monkeypatch.setattr(turns, "digest_of", lambda _: "another build")
    work(open_campaign(store, "x"))
    program("0.4.0.dev0")
    for _ in range(2):
        with pytest.raises(HaltedError, match="another version of the program took over"):
            old.ask()
    work(open_campaign(store, "x"))  # a restart
    assert len(programs(store)) == 3


def test_versions_that_decide_alike_work_side_by_side(store, monkeypatch):
    """Their number of decisions is the same: neither halts, and no takeover is written."""
    one, other = open_campaign(store, "x"), open_campaign(store, "x")
    for _ in range(3):
        for version, opened in (("0.3.1", one), ("0.4.0", other)):
            for module in (turns, follower):
                monkeypatch.setattr(module, "__version__", version)
            work(opened, 1)
    assert programs(store) == []
    assert one.status()["told"] == other.status()["told"] == 6
    assert one.verify().good
