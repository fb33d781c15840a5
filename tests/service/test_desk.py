"""The desk: many requests in one turn, bounded, none of them dropped."""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import contextmanager

import pytest

from tests.service.conftest import TASK
from tightrope.cli import main
from tightrope.errors import CampaignError, NotFoundError, StoreError
from tightrope.live import open_campaign
from tightrope.live.stores.memory import MemoryStore
from tightrope.problem import Task
from tightrope.service.desk import Service, ServiceRequest
from tightrope.service.http.answers import RefusalError


class Gate(MemoryStore):
    """A store whose turns wait for a gate, and fail when they are told to."""

    def __init__(self):
        super().__init__()
        self.gate, self.failing = threading.Event(), False
        self.gate.set()

    @contextmanager
    def turn(self, name, *more, **others):
        self.gate.wait(30)
        with super().turn(name, *more, **others) as turn:
            if self.failing:
                raise StoreError("store: the disk is full")
            yield turn


@pytest.fixture
def store():
    made = Gate()
    open_campaign(made, "n", task=Task.from_table(TASK), budget=1e6, policy="lyon", who="test")
    return made


def ask(service, *ids):
    """Ask for tickets, each in a request of its own; a task per id."""
    acts = [(id, lambda writer, id=id: writer.ask(id, None)) for id in ids]
    return [asyncio.ensure_future(service.do("n", act, "me", id)) for id, act in acts]


def run(store, test, **options):
    """Run a test with a service, and drain it."""

    async def inner():
        service = Service(store, **options)
        await service.start()
        try:
            await test(service)
        finally:
            store.gate.set()
            await service.drain()

    asyncio.run(inner())


def test_what_waits_is_done_in_one_turn(store):
    async def test(service):
        await service.look("n", lambda core: None)
        store.gate.clear()
        tasks = ask(service, *(f"r{number}" for number in range(300)))
        await asyncio.sleep(0.1)
        assert service.waiting == {"n": 300}
        store.gate.set()
        assert len({ticket.id for ticket in await asyncio.gather(*tasks)}) == 300
        assert service.counts.of("n").turns <= 3
        assert service.waiting == {"n": 0}

    run(store, test)
    whos = {event.who for event in open_campaign(store, "n").events() if event.kind == "asked"}
    assert whos == {"me"}


def test_more_than_may_wait_is_refused_and_nothing_is_done_for_it(store):
    async def test(service):
        await service.look("n", lambda core: None)
        store.gate.clear()
        first, committer = ask(service, "a", "b"), await service.committer("n")
        await asyncio.sleep(0.05)
        with pytest.raises(RefusalError, match="2 items wait") as refused:
            committer.submit(ServiceRequest(lambda writer: None, items=2), print)
        assert (refused.value.status, refused.value.code) == (503, "overloaded")
        store.gate.set()
        await asyncio.gather(*first)
        assert await service.look("n", lambda core: core.ledger.asked) == 2

    run(store, test, most_waiting=3)


def test_a_store_that_fails_is_an_error_and_then_it_goes_on(store):
    async def test(service):
        store.failing = True
        with pytest.raises(StoreError, match="the disk is full"):
            await service.do("n", lambda writer: writer.ask("a", None), "me", "a")
        store.failing = False
        ticket = await service.do("n", lambda writer: writer.ask("a", None), "me", "a")
        assert (ticket.id, await service.look("n", lambda core: core.ledger.asked)) == ("a", 1)

    run(store, test)


def test_errors_say_whether_a_campaign_is_paused_or_closed(store):
    async def test(service):
        await service.do("n", lambda writer: writer.pause("why"), "me")
        with pytest.raises(CampaignError) as paused:
            await service.do("n", lambda writer: writer.ask("a", None), "me")
        assert paused.value.code == "paused"
        await service.do("n", lambda writer: writer.close(), "me")
        with pytest.raises(CampaignError) as closed:
            await service.do("n", lambda writer: writer.ask("a", None), "me")
        assert closed.value.code == "closed"
        with pytest.raises(NotFoundError, match="did you mean"):
            await service.do("nn", lambda writer: writer.close(), "me")

    run(store, test)


def test_a_caller_that_goes_away_has_its_request_done(store):
    async def test(service):
        await service.look("n", lambda core: None)
        store.gate.clear()
        (task,) = ask(service, "gone")
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        store.gate.set()
        assert await service.look("n", lambda core: "gone" in core.ledger.tickets)

    run(store, test)


def test_draining_finishes_what_was_taken_and_takes_nothing_more(store):
    tickets = []

    async def test(service):
        await service.look("n", lambda core: None)
        store.gate.clear()
        tasks = ask(service, *(f"r{number}" for number in range(50)))
        await asyncio.sleep(0.05)
        ending = asyncio.ensure_future(service.drain())
        await asyncio.sleep(0.05)
        with pytest.raises(RefusalError, match="the service is shutting down"):
            await asyncio.gather(*ask(service, "late"))
        assert not ending.done()
        store.gate.set()
        tickets.extend(await asyncio.gather(*tasks))
        await ending

    run(store, test)
    assert [one.state for one in tickets] == ["open"] * 50
    assert open_campaign(store, "n").status()["asked"] == 50


def test_those_who_look_for_the_same_share_a_look(store):
    calls = []

    def look(core):
        calls.append(core)
        return core.ledger.seq

    async def test(service):
        await service.look("n", lambda core: None)
        store.gate.clear()
        (turn,) = ask(service, "a")
        await asyncio.sleep(0.05)
        looks = [asyncio.ensure_future(service.look("n", look)) for _ in range(20)]
        await asyncio.sleep(0.05)
        store.gate.set()
        await turn
        assert await asyncio.gather(*looks) == [2] * 20
        assert len(calls) == 1

    run(store, test)


def test_a_look_that_fails_is_that_callers_error(store):
    async def test(service):
        with pytest.raises(ZeroDivisionError):
            await service.look("n", lambda core: 1 / 0)
        assert await service.look("n", lambda core: core.ledger.seq) == 1

    run(store, test)


def test_without_the_extra_one_line_says_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "msgspec", None)
    assert main(["serve", str(tmp_path / "a.db")]) == 1
    error = capsys.readouterr().err
    assert "pip install 'tightrope[serve]'" in error
    assert error.count("\n") == 1
