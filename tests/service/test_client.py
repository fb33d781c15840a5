"""The client: what it sends, repeats, raises, keeps on the disk, and never does twice."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from mypy import api

from tests.service.between import ForTasks, ForThreads
from tests.service.conftest import TASK
from tightrope.client import (
    AccessError,
    AsyncClient,
    AsyncDecision,
    Client,
    Decision,
    NotExecuted,
    SpoolWarning,
    UnreachableError,
    UnreportedWarning,
    new_id,
)
from tightrope.client.answers import Reply, error_of, retry_after
from tightrope.client.spool import Spool
from tightrope.errors import (
    CampaignError,
    ConflictError,
    ExhaustedError,
    HaltedError,
    InputError,
    NotFoundError,
    ReportError,
    StoreError,
    TightropeError,
    WaitError,
)
from tightrope.problem import Limit, Scales, Task

OUTCOME = {"cost": 0.25, "reward": 1.0, "penalty": {"bad": 0.0}}
BODY = {"id": "a", "arm": "haiku", "number": 0, "reserved": 1.0,
        "expires_at": "2026-11-16T12:00:00Z", "state": "open"}  # fmt: skip

TYPED = """
from collections.abc import Coroutine
from typing import Any, assert_type
from tightrope.client import AsyncClient, AsyncDecision, Client, Decision, Ticket
from tightrope.errors import TightropeError

def threads(client: Client) -> None:
    assert_type(client.ask("n", "id", eligible=[0, "opus"], ttl=1.0), Ticket)
    assert_type(client.ask_many("n", 3), list[Ticket])
    assert_type(client.report_many("n", [{"id": "a"}]), list[TightropeError])
    assert_type(client.status("n"), dict[str, Any])
    assert_type(client.flush(), int)
    assert_type(client.decide("n"), Decision)
    client.ask("n", 3)  # type: ignore[arg-type]
    client.ask()  # type: ignore[call-arg]
    client.report("n", client.ask("n"), cost=1)
    client.report("n", "id", coast=1)  # type: ignore[call-arg]
    client.act("n", "sleep")  # type: ignore[arg-type]
    with client as same, same.decide("n") as decision:
        assert_type(same, Client)
        assert_type(decision.arm, str)
        decision.report(cost=1, penalty={"bad": 0})
        decision.report(coast=1)  # type: ignore[call-arg]

async def tasks(client: AsyncClient) -> None:
    waiting: Coroutine[Any, Any, Ticket] = client.ask("n")
    assert_type(await waiting, Ticket)
    assert_type(await client.ask("n", "id", eligible=[0, "opus"], ttl=1.0), Ticket)
    assert_type(await client.ask_many("n", 3), list[Ticket])
    assert_type(await client.flush(), int)
    assert_type(client.refused(), list[dict[str, Any]])
    assert_type(client.decide("n"), AsyncDecision)
    client.ask("n")  # type: ignore[unused-coroutine]
    async with client as same, same.decide("n") as decision:
        assert_type(same, AsyncClient)
        await decision.report(cost=1, penalty={"bad": 0})
        decision.void()  # type: ignore[unused-coroutine]

class Counting(Client):
    def ask(self, campaign: str, id: str | None = None, **more: Any) -> Ticket:
        return super().ask(campaign, id, **more)
"""


def scripted(*answers):
    """A client whose service gives these answers, one after the other, and what it was sent."""
    left, seen = list(answers), []

    def handle(request):
        seen.append((request.method, request.url.raw_path.decode(), request.content))
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    client = Client("http://127.0.0.1:1", transport=httpx.MockTransport(handle), deadline=5)
    return client, seen


def problem(status, code, **more):
    headers = {"retry-after": str(more.pop("after"))} if "after" in more else {}
    body = {"code": code, "detail": f"it is {code}", "status": status, **more}
    return httpx.Response(status, json=body, headers=headers)


@pytest.fixture
def name(server):
    """A new campaign on the module's server."""
    made = f"c-{new_id()}"
    with Client(server.url) as client:
        client.create(made, TASK, 20, policy="uniform-random")
    return made


DECLARED = [  # tasks with every kind of declaration
    Task(["haiku", "opus"], {"bad": Limit(0.2, per="pull")}),
    Task(["a", "b"], limit=0.8),
    Task(["a", "b"], {"bad": Limit(0.2, per="pull"), "slow": Limit(0.5)},
         Scales(cost=2.0, reward=3.0, penalty={"bad": 1.0, "slow": 4.0}), smallest_cost=0.5),
    Task(["a", "b"], {"bad": Limit(0.5)}, safe="a", safe_rates={"bad": 0.1}),
    Task(["\u00e9", 'quo"te\n'], {"b\u00e4d": Limit(0.5)}, name="n\u00e4me"),
]  # fmt: skip


@pytest.mark.parametrize("task", DECLARED)
def test_a_campaign_is_created_from_a_task_as_from_its_table(server, task):
    made = f"c-{new_id()}"
    with Client(server.url) as client:
        found = client.create(made, task, 20, policy="uniform-random")
        again = client.create(made, tomllib.loads(task.to_toml()), 20, policy="uniform-random")
        assert (found["name"], found["state"]) == (made, "open")
        assert again["limits"] == found["limits"]
        with pytest.raises(ConflictError):
            client.create(made, Task(["x", "y"], limit=0.8), 20, policy="uniform-random")


@pytest.mark.parametrize("task", [None, 7, "task.toml", ["a", "b"], Task])
def test_what_is_no_task_is_refused_before_anything_is_sent(task):
    client, seen = scripted()
    with pytest.raises(InputError, match=r"task = .*: must be a tightrope.Task, or a mapping"):
        client.create("november", task, 20)
    assert seen == []


@pytest.fixture
def between():
    return ForThreads()


class Spooled(Client):
    """A client with something between it and the service."""

    def lose(self, mode="down"):
        """The service is away; it is not tried for long."""
        self.between.mode, self._deadline, self._patience = mode, 0.2, 0.2

    def find(self):
        """It is there again."""
        self.between.mode, self._deadline, self._patience = "up", 30.0, 30.0
        self._is_back()


@pytest.fixture
def spooled(server, tmp_path, between):
    """Makes clients with a spool and something between them and the service."""
    made = []

    def make(spare=0, **more):
        spool = str(tmp_path / "spool.db")
        client = Spooled(
            server.url, spool=spool, spare=spare, transport=between, timeout=30, deadline=30, **more
        )
        client.between = between
        client.find()
        made.append(client)
        return client

    yield make
    for one in made:
        one.lose()
        one.close()


class TestIds:
    def test_they_grow_and_are_of_version_7(self):
        made = [new_id() for _ in range(20_000)]
        assert made == sorted(made)
        assert len(set(made)) == len(made)
        found = uuid.UUID(made[0])
        assert (found.version, found.variant) == (7, uuid.RFC_4122)
        assert abs((found.int >> 80) / 1000 - time.time()) < 60

    def test_of_threads_none_is_the_same(self):
        with ThreadPoolExecutor(8) as pool:
            found = [one for some in pool.map(lambda _: [new_id() for _ in range(2000)], range(8))
                     for one in some]  # fmt: skip
        assert len(set(found)) == len(found)


class TestErrors:
    @pytest.mark.parametrize(
        ("status", "code", "kind"),
        [
            (402, "exhausted", ExhaustedError), (409, "paused", CampaignError),
            (409, "closed", CampaignError), (409, "conflict", ConflictError),
            (422, "invalid", InputError), (400, "malformed", InputError),
            (401, "unauthorized", AccessError), (403, "forbidden", AccessError),
            (404, "not_found", NotFoundError), (413, "too_large", InputError),
            (401, "", AccessError), (418, "", InputError), (500, "internal", TightropeError),
        ],
    )  # fmt: skip
    def test_a_code_has_its_class_and_is_not_tried_again(self, status, code, kind):
        client, seen = scripted(problem(status, code))
        with pytest.raises(kind, match=f"it is {code}") as caught:
            client.ask("november")
        assert type(caught.value) is kind
        assert caught.value.code == code or not code
        assert len(seen) == 1

    def test_a_process_that_is_halted_is_left_for_the_next_address(self):
        """As in an upgrade: the new version has taken over, and this process cannot follow."""
        hosts = []

        def handle(request):
            hosts.append(request.url.host)
            if request.url.host == "old":
                return problem(500, "halted")
            if request.url.path.endswith("batch"):
                return httpx.Response(200, json={"results": [{}, {}]})
            return httpx.Response(201, json=BODY)

        urls = ["http://old", "http://new"]
        client = Client(urls, transport=httpx.MockTransport(handle), deadline=5)
        assert client.ask("november").id == BODY["id"]
        assert client.ask("november").id == BODY["id"]
        assert hosts == ["old", "new", "new"]
        client = Client(urls, transport=httpx.MockTransport(handle), deadline=5)
        assert client.report_many("november", [{"id": "a"}, {"id": "b"}]) == []
        assert hosts[3:] == ["old", "new"]
        client.act("november", "budget", amount=1)  # has no id, and was not done: repeated too

    def test_items_that_were_halted_are_sent_to_the_next_address(self):
        halted = {"status": 500, "code": "halted", "detail": "it is halted"}
        client, seen = scripted(
            httpx.Response(200, json={"results": [{}, halted]}),
            httpx.Response(200, json={"results": [{}]}),
        )
        assert client.report_many("november", [{"id": "a"}, {"id": "b"}]) == []
        assert json.loads(seen[1][2]) == {"reports": [{"id": "b"}]}

    def test_a_campaign_that_stays_halted_is_said(self):
        client, seen = scripted(*[problem(500, "halted") for _ in range(50)])
        client._deadline = 0.3
        with pytest.raises(HaltedError, match="it is halted"):
            client.ask("november")
        assert len(seen) > 1

    def test_a_report_to_a_halted_campaign_stays_in_the_spool(self, tmp_path):
        halted, seen = [True], []

        def handle(request):
            seen.append(request.url.path)
            one = {"status": 500, "code": "halted", "detail": "it is halted"}
            items = next(iter(json.loads(request.content).values()))
            return httpx.Response(200, json={"results": [one if halted[0] else {}] * len(items)})

        client = Client("http://127.0.0.1:1", transport=httpx.MockTransport(handle),
                        spool=tmp_path / "spool.db")  # fmt: skip
        client.report("november", "a", cost=1)
        halted[0] = False
        assert client.flush() == 0
        assert len(seen) >= 2
        client.close()

    def test_a_report_in_quarantine_has_its_number(self):
        client, _ = scripted(problem(422, "invalid", quarantine=7))
        with pytest.raises(ReportError) as caught:
            client.report("november", "a", cost=-1)
        assert caught.value.quarantine == 7

    def test_a_wait_has_its_time_and_is_not_waited_for_beyond_the_deadline(self):
        at = datetime.now(UTC) + timedelta(hours=1)
        client, seen = scripted(problem(429, "not_released", after=3600, retry_at=at.isoformat()))
        with pytest.raises(WaitError) as caught:
            client.ask("november")
        assert caught.value.retry_at == at
        assert len(seen) == 1

    def test_an_answer_that_is_no_json_is_said(self):
        client, _ = scripted(httpx.Response(200, text="<html>"))
        with pytest.raises(UnreachableError, match="no JSON"):
            client.status("november")

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ({"url": "127.0.0.1:8321"}, "url = '127.0.0.1:8321'"), ({"url": []}, "url"),
            ({"url": "file:///x"}, "url"), ({"timeout": -1}, "timeout = -1"),
            ({"deadline": float("nan")}, "deadline = nan"), ({"spare": 3}, "spool"),
            ({"spare": -1}, "spare = -1"), ({"key": "a\nb"}, "key: must be"),
        ],
    )  # fmt: skip
    def test_bad_arguments_are_named(self, arguments, said):
        with pytest.raises(InputError) as caught:
            Client(**arguments)
        assert said in str(caught.value)

    def test_numbers_that_json_does_not_have_are_refused_here(self):
        client, seen = scripted()
        with pytest.raises(InputError, match="finite"):
            client.report("november", "a", cost=float("nan"))
        assert seen == []

    def test_dates_in_retry_after_are_read(self):
        later = datetime.now(UTC) + timedelta(seconds=100)
        text = later.strftime("%a, %d %b %Y %H:%M:%S GMT")
        assert 95 < retry_after(Reply(503, {"retry-after": text}, b"")) <= 100
        assert retry_after(Reply(503, {"retry-after": "soon"}, b"")) == 0

    def test_a_proxy_that_fails_is_a_service_that_is_away(self):
        assert isinstance(error_of({}, 502), UnreachableError)


class TestTrying:
    def test_a_decision_is_repeated_with_the_same_id(self):
        client, seen = scripted(
            httpx.ConnectError("refused"), httpx.ReadTimeout("late"),
            problem(503, "overloaded", after=0), problem(503, "store"), problem(502, ""),
            problem(429, "fully_reserved", after=0), httpx.Response(201, json=BODY),
        )  # fmt: skip
        assert client.ask("november").arm == "haiku"
        assert len(seen) == 7
        assert len({content for *_, content in seen}) == 1
        assert json.loads(seen[0][2])["id"]

    def test_it_ends_at_the_deadline_and_says_which_id(self):
        client, seen = scripted(*[httpx.ConnectError("refused")] * 100)
        client._deadline = 0.5
        began = time.monotonic()
        with pytest.raises(UnreachableError, match=r"repeat it with id '[0-9a-f-]{36}'"):
            client.ask("november")
        assert time.monotonic() - began < 2
        assert 3 <= len(seen) < 20, "it waits longer each time"

    def test_waiting_for_budget_has_its_own_bound(self):
        client, seen = scripted(problem(429, "fully_reserved", after=1))
        with pytest.raises(WaitError):
            client.ask("november", wait=0)
        assert len(seen) == 1

    @pytest.mark.parametrize("failure", [httpx.ReadTimeout("late"), problem(503, "store")])
    def test_what_has_no_id_is_not_repeated_if_it_may_have_been_done(self, failure):
        client, seen = scripted(failure)
        with pytest.raises(StoreError):
            client.act("november", "budget", amount=10)
        assert len(seen) == 1

    def test_what_has_no_id_is_repeated_if_it_cannot_have_been_done(self):
        client, seen = scripted(
            httpx.ConnectError("refused"), problem(503, "overloaded"), httpx.Response(200, json={})
        )
        client.act("november", "budget", amount=10)
        assert len(seen) == 3

    def test_items_of_a_batch_that_could_not_be_taken_are_sent_again(self):
        busy = {"status": 503, "code": "overloaded", "detail": "busy"}
        wrong = {"status": 422, "code": "invalid", "detail": "no", "quarantine": 3}
        client, seen = scripted(
            httpx.Response(200, json={"results": [{"status": 200}, busy, wrong]}),
            httpx.Response(200, json={"results": [{"status": 200}]}),
        )
        (error,) = client.report_many("n", [{"id": one} for one in "abc"])
        assert isinstance(error, ReportError)
        assert json.loads(seen[1][2]) == {"reports": [{"id": "b"}]}

    def test_large_batches_are_split(self):
        answers = [httpx.Response(200, json={"results": [{"status": 200}] * n}) for n in (1000, 1)]
        client, seen = scripted(*answers)
        assert client.void_many("n", [str(i) for i in range(1001)]) == []
        assert [len(json.loads(content)["voids"]) for *_, content in seen] == [1000, 1]

    def test_if_one_service_does_not_answer_the_next_is_tried(self, server, name):
        with Client(["http://127.0.0.1:9", server.url]) as client:
            assert client.ask(name).state == "open"
            assert client._urls[client._at % 2] == server.url

    def test_names_are_quoted(self):
        client, seen = scripted(httpx.Response(200, json={}))
        client.status("a/b?c d")
        assert seen[0][1] == "/v1/campaigns/a%2Fb%3Fc%20d"


class TestDeciding:
    @pytest.mark.parametrize("spool", [False, True])
    def test_a_ticket_is_taken_wherever_its_id_is(self, server, name, tmp_path, spool):
        more = {"spool": str(tmp_path / "spool.db")} if spool else {}
        with Client(server.url, **more) as client:
            told, voided, many, gone = client.ask_many(name, 4)
            client.report(name, told, **OUTCOME)
            client.void(name, voided)
            assert client.report_many(name, [{"id": many, **OUTCOME}]) == []
            assert client.void_many(name, [gone]) == []
            client.amend(name, told, 0.5)
            states = [client.ticket(name, one).state for one in (told, voided, many, gone)]
            assert states == ["told", "voided", "told", "voided"]
            with pytest.raises(InputError, match="must be a ticket, or its id"):
                client.report(name, 7, **OUTCOME)

    def test_a_report_settles_a_decision(self, server, name):
        with Client(server.url) as client, client.decide(name) as decision:
            assert decision.arm in ("haiku", "opus")
            decision.report(**OUTCOME)
            assert client.ticket(name, decision.id).state == "told"

    def test_an_exception_leaves_it_in_flight(self, server, name):
        with Client(server.url) as client:
            with pytest.raises(TimeoutError), client.decide(name) as decision:
                raise TimeoutError
            assert client.ticket(name, decision.id).state == "open"

    def test_only_void_and_not_executed_void(self, server, name):
        with Client(server.url) as client:
            with client.decide(name) as first:
                first.void()
            with pytest.raises(NotExecuted), client.decide(name) as second:
                raise NotExecuted("the model is not deployed")
            for one in (first, second):
                assert client.ticket(name, one.id).state == "voided"
            assert client.status(name)["reserved"] == 0

    def test_leaving_without_a_report_warns(self, server, name):
        with Client(server.url) as client:
            with (
                pytest.warns(UnreportedWarning, match="without a report"),
                client.decide(name) as d,
            ):
                pass
            assert client.ticket(name, d.id).state == "open"

    def test_an_exception_after_the_report_changes_nothing(self, server, name):
        with Client(server.url) as client:
            decision = client.decide(name)

            def work():
                with decision:
                    decision.report(**OUTCOME)
                    raise NotExecuted

            with pytest.raises(NotExecuted):
                work()
            assert client.ticket(name, decision.id).state == "told"

    def test_if_it_cannot_be_voided_the_exception_says_so(self, server, name, between):
        def work(client):
            with client.decide(name):
                between.mode = "down"
                raise NotExecuted

        with (
            Client(server.url, transport=between, deadline=0) as client,
            pytest.raises(NotExecuted) as caught,
        ):
            work(client)
        assert "could not be voided" in caught.value.__notes__[0]

    def test_a_decision_is_made_when_the_block_begins(self, server, name):
        with Client(server.url) as client, pytest.raises(InputError, match="with"):
            client.decide(name).ticket  # noqa: B018

    def test_answers_that_are_lost_decide_and_settle_once(self, server, name, between):
        with Client(server.url, transport=between) as client:
            for _ in range(5):
                between.plan = ["cut", "cut", "up", "cut", "up"]
                with client.decide(name) as decision:
                    decision.report(**OUTCOME)
            status = client.status(name)
        assert (status["asked"], status["told"], status["spent"]) == (5, 5, 1.25)

    def test_the_same_id_is_the_same_ticket_and_other_reports_conflict(self, server, name):
        with Client(server.url) as client:
            first = client.ask(name, "mine")
            assert client.ask(name, "mine") == first
            client.report(name, "mine", **OUTCOME)
            client.report(name, "mine", **OUTCOME)
            with pytest.raises(ConflictError):
                client.report(name, "mine", cost=0.5, reward=1, penalty=0)

    def test_batches(self, server, name):
        with Client(server.url) as client:
            tickets = client.ask_many(name, 30)
            assert len(tickets) == 20, "each reserves 1 of the budget of 20"
            reports = [{"id": one.id, **OUTCOME} for one in tickets[:10]]
            (error,) = client.report_many(name, [*reports, {"id": "nobody's", **OUTCOME}])
            assert error.quarantine
            assert client.void_many(name, [one.id for one in tickets[10:]]) == []
            status = client.status(name)
            assert [status[key] for key in ("told", "voided", "in_flight")] == [10, 10, 0]
            with pytest.raises(InputError, match="arm"):
                client.ask_many(name, 2, eligible=["nobody"])

    def test_campaigns_are_listed_to_the_last_page(self, server, name, monkeypatch):
        with Client(server.url) as client:
            whole = [one["name"] for one in client.campaigns()]
            monkeypatch.setattr("tightrope.client.drivers.MOST_LISTED", 1)  # each page looks full
            assert [one["name"] for one in client.campaigns()] == whole

    def test_the_rest_of_the_surface(self, server, name):
        with Client(server.url) as client:
            assert name in [one["name"] for one in client.campaigns()]
            client.ask(name, "t")
            client.report(name, "t", **OUTCOME)
            client.amend(name, "t", cost=0.5, note="from the bill")
            assert client.status(name)["spent"] == 0.5
            client.act(name, "pause", why="lunch")
            with pytest.raises(CampaignError) as caught:
                client.ask(name)
            assert caught.value.code == "paused"
            client.act(name, "resume")
            client.act(name, "budget", amount=5)
            assert client.status(name)["budget"] == 25
            with pytest.raises(ReportError) as refused:
                client.report(name, "nobody", **OUTCOME)
            client.act(name, "discard", number=refused.value.quarantine, note="a typing error")
            with pytest.raises(InputError, match="has no known costs"):
                client.act(name, "reprice", arm="opus", cost=0.5)
            retired = client.act(name, "retire", arm="opus")["arms"]
            assert [one["arm"] for one in retired if one["retired"]] == ["opus"]
            with pytest.raises(NotFoundError, match="arm 'nobody': is unknown"):
                client.act(name, "retire", arm="nobody")
            assert client.outlook(name)
            assert client.ledger(name)
            kinds = [event["kind"] for event in client.events(name)]
            assert kinds[:3] == ["created", "asked", "told"]
            assert len(client.events(name, after=1, limit=2)) == 2
        assert "secret" not in repr(Client("http://127.0.0.1:1", "secret"))

    def test_threads_may_share_a_client(self, server, name):
        with Client(server.url) as client:

            def work(_):
                with client.decide(name) as decision:
                    decision.report(**OUTCOME)

            with ThreadPoolExecutor(16) as pool:
                list(pool.map(work, range(40)))
            assert client.status(name)["told"] == 40


class TestTasks:
    """The same for asyncio."""

    def test_decisions_and_batches(self, server, name):
        between = ForTasks()

        async def work():
            async with AsyncClient(server.url, transport=between) as client:

                async def one():
                    async with client.decide(name) as decision:
                        await decision.report(**OUTCOME)

                await asyncio.gather(*(one() for _ in range(20)))
                between.plan = ["cut", "up", "down", "cut", "up"]
                await one()
                with pytest.raises(NotExecuted):
                    async with client.decide(name):
                        raise NotExecuted
                with pytest.warns(UnreportedWarning):
                    async with client.decide(name):
                        pass
                tickets = await client.ask_many(name, 2)
                await client.void_many(name, [one.id for one in tickets])
                return await client.status(name)

        status = asyncio.run(work())
        found = [status[key] for key in ("told", "voided", "in_flight")]
        assert found == [21, 3, 1]

    def test_a_spool(self, server, name, tmp_path):
        between = ForTasks()

        async def work():
            client = AsyncClient(
                server.url, transport=between, spool=str(tmp_path / "s.db"), spare=2, timeout=30
            )
            async with client:
                client._patience = 30.0
                assert await client.spares(name) == 2
                between.mode, client._patience = "down", 0.2
                async with client.decide(name) as decision:
                    assert decision.ticket.spare
                    await decision.report(**OUTCOME)
                between.mode, client._patience = "up", 30.0
                assert await client.flush() == 0
                return await client.ticket(name, decision.id)

        assert asyncio.run(work()).state == "told"

    def test_a_task_that_is_cancelled_leaves_the_lock(self, server, name, tmp_path):
        between = ForTasks()

        async def work():
            path = str(tmp_path / "s.db")
            async with AsyncClient(server.url, transport=between, spool=path) as client:
                ticket = await client.ask(name)
                between.mode = "down"
                task = asyncio.create_task(client.report(name, ticket.id, **OUTCOME))
                await asyncio.sleep(0.1)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                between.mode = "up"
                assert await asyncio.wait_for(client.flush(), 10) == 0
                return await client.ticket(name, ticket.id)

        assert asyncio.run(work()).state == "told"

    @pytest.mark.parametrize(("one", "other"), [(Client, AsyncClient), (Decision, AsyncDecision)])
    def test_both_have_the_same_methods(self, one, other):
        def surface(kind):
            methods = {
                name: f
                for name, f in inspect.getmembers(kind, inspect.isfunction)
                if not name.startswith("_") or name == "__init__"
            }
            assert all(inspect.getdoc(f) for name, f in methods.items() if name != "__init__")
            return {name: inspect.signature(f) for name, f in methods.items()}

        found = surface(one)
        assert found == surface(other)
        waits = {name for name in found if inspect.iscoroutinefunction(getattr(other, name))}
        assert waits == found.keys() - {"__init__", "decide", "refused"}
        assert not any(inspect.iscoroutinefunction(getattr(one, name)) for name in found)

    def test_a_type_checker_sees_what_is_awaited(self, tmp_path):
        program = tmp_path / "program.py"
        program.write_text(TYPED)
        found, wrong, status = api.run([str(program)])  # strict, as pyproject.toml says
        assert (status, wrong) == (0, ""), found


class TestSpool:
    def test_without_one_nothing_is_decided_while_the_service_is_away(self, server, name, between):
        with Client(server.url, transport=between, deadline=0.2) as client:
            between.mode = "down"
            with pytest.raises(UnreachableError):
                client.ask(name)
            with pytest.raises(UnreachableError):
                client.report(name, "t", **OUTCOME)

    def test_spares_are_used_and_reported_later(self, server, name, spooled, between):
        client = spooled(spare=3)
        assert client.spares(name) == 3
        client.lose()
        told = []
        for _ in range(3):
            with client.decide(name) as decision:
                assert decision.ticket.spare
                decision.report(**OUTCOME)
                told.append(decision.id)
        with pytest.raises(UnreachableError):
            client.ask(name)
        client.find()
        assert client.flush() == 0
        with Client(server.url) as plain:
            assert {plain.ticket(name, one).state for one in told} == {"told"}
            assert len(set(told)) == 3
            status = plain.status(name)
        assert (status["told"], status["in_flight"]) == (3, 0), "what was not answered is voided"

    def test_an_unanswered_decision_is_asked_for_again_and_voided(self, name, spooled, between):
        client = spooled()
        client.lose("cut")
        with pytest.raises(UnreachableError):
            client.ask(name)
        client.find()
        client.flush()
        status = client.status(name)
        assert (status["asked"], status["voided"], status["reserved"]) == (1, 1, 0)

    def test_reports_are_sent_in_order_by_the_next_call(self, name, spooled, between):
        client = spooled()
        tickets = client.ask_many(name, 5)
        client.lose()
        for ticket in tickets:
            client.report(name, ticket.id, **OUTCOME)
        client.find()
        client.ask(name)
        told = [one["ticket"] for one in client.events(name) if one["kind"] == "told"]
        assert told == [one.id for one in tickets]

    def test_a_service_that_is_away_is_not_tried_each_time(self, name, spooled, between):
        client = spooled(spare=20, spare_ttl=60)
        client.spares(name)
        client.lose()
        client.ask(name)
        tries, began = len(between.seen), time.monotonic()
        for _ in range(10):
            client.report(name, client.ask(name).id, **OUTCOME)
        if time.monotonic() - began < 0.2:
            assert len(between.seen) == tries

    def test_a_spool_survives_kill_9(self, server, name, tmp_path):
        program = f"""
import os, signal, httpx
from tests.service.between import ForThreads
from tightrope.client import Client
between = ForThreads()
client = Client({server.url!r}, spool={str(tmp_path / "s.db")!r}, spare=3, transport=between,
                timeout=30, deadline=30)
assert client.spares({name!r}) == 3
between.mode, client._patience, client._deadline = "down", 0.2, 0.2
client.report({name!r}, client.ask({name!r}).id, cost=0.5, reward=1.0, penalty=0.0)
used = client.ask({name!r})
print(used.id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=os.getcwd()
        )
        assert done.returncode == -signal.SIGKILL
        with Client(server.url, spool=str(tmp_path / "s.db"), spare=3) as client:
            assert client.status(name)["told"] == 0
            client.flush()
            status = client.status(name)
            assert (status["told"], status["spent"]) == (1, 0.5)
            left = client._spool.take(name)
            assert left.id != done.stdout.strip(), "a spare that was used is not used again"
            assert client._spool.take(name) is None
            assert client.ticket(name, done.stdout.strip()).state == "open"

    def test_reservations_whose_answer_is_lost_are_not_forgotten(self, name, spooled):
        client = spooled(spare=3)
        client.lose("cut")
        with pytest.raises(UnreachableError):
            client.spares(name)
        client.find()
        assert client._spool.ready(name) == 0
        assert client.spares(name) == 3
        assert client.status(name)["asked"] == 3, "the same ids, the same tickets"

    def test_a_spare_that_expires_is_not_used(self, name, spooled, between):
        client = spooled(spare=2, spare_ttl=1.4)
        assert client.spares(name) == 2
        time.sleep(0.6)
        client.lose()
        with pytest.raises(UnreachableError):
            client.ask(name)

    def test_spares_that_age_are_given_back_and_replaced(self, name, spooled):
        client = spooled(spare=2, spare_ttl=4)
        client.spares(name)
        time.sleep(2.2)
        client.report(name, client.ask(name).id, **OUTCOME)
        client.flush()
        status = client.status(name)
        found = [status[key] for key in ("asked", "told", "voided", "in_flight", "expired")]
        assert found == [5, 1, 2, 2, 0]

    def test_spares_are_given_back_at_the_end(self, server, name, tmp_path):
        with Client(server.url, spool=str(tmp_path / "s.db"), spare=4) as client:
            client.report(name, client.ask(name).id, **OUTCOME)
            assert client.status(name)["in_flight"] == 4
        with Client(server.url) as client:
            status = client.status(name)
            assert (status["voided"], status["in_flight"], status["reserved"]) == (4, 0, 0)

    def test_a_spare_stands_for_nothing_else(self, name, spooled, between):
        client = spooled(spare=2)
        client.spares(name)
        client.lose()
        for asked in ({"id": "mine"}, {"eligible": ["opus"]}, {"ttl": 5}):
            with pytest.raises(UnreachableError):
                client.ask(name, **asked)

    def test_no_spares_are_reserved_where_nothing_is_free(self, server, spooled):
        client, tight = spooled(spare=5), f"tight-{new_id()}"
        client.create(tight, TASK, 2, policy="uniform-random")
        assert client.ask(tight).state == "open"
        assert client.spares(tight) == 1
        assert client.status(tight)["free"] == 0

    def test_one_own_refused_report_is_raised_and_another_is_warned_of(
        self, name, spooled, between
    ):
        client = spooled()
        first, second = client.ask_many(name, 2)
        with pytest.raises(ReportError) as caught:
            client.report(name, first.id, cost=-1, reward=0, penalty=0)
        assert caught.value.quarantine
        client.lose()
        client.report(name, second.id, cost=-1, reward=0, penalty=0)
        client.find()
        with pytest.warns(SpoolWarning, match="cost"):
            client.flush()
        assert client.flush() == 0
        assert client.refused() == [], "the service has them in its quarantine"

    def test_what_the_service_does_not_keep_is_kept_here(self, spooled):
        client = spooled()
        with pytest.raises(InputError, match="does not exist"):
            client.report("nobody", "t", **OUTCOME)
        (kept,) = client.refused()
        assert kept["body"] == {"id": "t", **OUTCOME}

    def test_what_may_not_be_sent_stays(self, name, spooled, between, monkeypatch):
        client = spooled()
        ticket = client.ask(name)
        monkeypatch.setattr(between, "_answer", lambda *_: problem(403, "forbidden"))
        between.mode = 403
        with pytest.raises(AccessError):
            client.report(name, ticket.id, **OUTCOME)
        client.find()
        client.flush()
        assert client.ticket(name, ticket.id).state == "told"

    def test_it_belongs_to_one_process_and_one_service(
        self, server, name, spooled, between, tmp_path
    ):
        client = spooled()
        with pytest.raises(InputError, match="another client"):
            Client(server.url, spool=str(tmp_path / "spool.db"))
        client.lose()
        client.report(name, "t", **OUTCOME)
        client.close()
        with pytest.raises(InputError, match="has reports"):
            Client("http://127.0.0.1:9", spool=str(tmp_path / "spool.db"))
        with pytest.raises(InputError, match="cannot be opened"):
            Client(server.url, spool=str(tmp_path / "no" / "spool.db"))

    def test_a_forked_process_may_not_use_it(self, tmp_path, monkeypatch):
        spool = Spool(str(tmp_path / "s.db"), "http://127.0.0.1:1")
        assert spool.put("n", "reports", {"id": "t"}, waited := set()) in waited
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(InputError, match="fork"):
            spool.waiting()
        monkeypatch.undo()
        spool.close()

    def test_threads_share_one(self, name, spooled, between):
        client = spooled()
        tickets = client.ask_many(name, 20)
        stop = threading.Event()

        def disturb():
            while not stop.is_set():
                between.mode = "cut"
                time.sleep(0.01)
                between.mode = "up"
                time.sleep(0.05)

        thread = threading.Thread(target=disturb)
        thread.start()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda one: client.report(name, one.id, **OUTCOME), tickets))
        stop.set()
        thread.join()
        client.find()
        assert client.flush() == 0
        assert client.status(name)["told"] == 20


def test_importing_it_needs_nothing_of_the_rest():
    heavy = "numpy numba scipy tightrope.live tightrope.engine uvicorn starlette msgspec".split()
    program = f"import sys, tightrope.client; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
