"""Clients: ``Client`` for threads, ``AsyncClient`` for asyncio; both carry out ``core``'s steps."""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit

import httpx

from tightrope.client.answers import NotExecuted, Reply, Ticket, UnreportedWarning
from tightrope.client.core import (
    Core,
    Penalty,
    Send,
    Sleep,
    Step,
    Steps,
    Take,
    Unreached,
    path,
)
from tightrope.errors import InputError, TightropeError

__all__ = ["AsyncClient", "AsyncDecision", "Client", "Decision"]

T = TypeVar("T")
Arms: TypeAlias = Sequence[int | str] | None
Table: TypeAlias = dict[str, Any]
Action: TypeAlias = Literal["pause", "resume", "pin", "drain", "close", "budget", "arms", "change"]
REPEATABLE = frozenset(["pause", "resume", "pin", "drain", "close"])
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


def _headers(key: str | None) -> dict[str, str]:
    made = {"accept": "application/json", "user-agent": "tightrope-client"}
    if key is not None:
        if not isinstance(key, str) or not key.isascii() or not key.isprintable() or not key:
            raise InputError("key: must be a key that `tightrope keys` made")  # it is not shown
        made["authorization"] = f"Bearer {key}"
    return made


def _options(core: Core, headers: dict[str, str]) -> dict[str, Any]:
    """How httpx is to work; what is on loopback is not behind a proxy."""
    hosts = {urlsplit(one).hostname for one in core.urls}
    return {
        "headers": headers,
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=64),
        "trust_env": not hosts <= {"127.0.0.1", "::1", "localhost"},
    }


def _unreached(error: httpx.TransportError) -> Unreached:
    if isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError):
        raise InputError(f"{error}") from error
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return Unreached(text, sent=not isinstance(error, UNSENT))


def _reply(answer: httpx.Response) -> Reply:
    return Reply(answer.status_code, answer.headers, answer.content)


def _request(step: Send) -> dict[str, Any]:
    made: dict[str, Any] = {"method": step.method, "url": step.url, "timeout": step.timeout}
    if step.content is not None:
        made |= {"content": step.content, "headers": {"content-type": "application/json"}}
    return made


def _report(
    id: str, cost: float | None, reward: float | None, penalty: Penalty, arm: int | str | None
) -> Table:
    return {"id": id, "cost": cost, "reward": reward, "penalty": penalty, "arm": arm}


class _Decided:
    """What decisions of both clients are: a ticket, and whether it was settled."""

    def __init__(self, campaign: str) -> None:
        self.campaign = campaign
        self._ticket: Ticket | None = None
        self._settled = False

    @property
    def ticket(self) -> Ticket:
        """The ticket; there is one inside the ``with`` block."""
        if self._ticket is None:
            raise InputError("a decision: is made when its `with` block begins")
        return self._ticket

    @property
    def id(self) -> str:
        """The ticket's id."""
        return self.ticket.id

    @property
    def arm(self) -> str:
        """The name of the arm to pull."""
        return self.ticket.arm

    def _left(self, error: BaseException | None) -> bool:
        """At the end of the block: whether the ticket is to be voided; warns if it is forgotten."""
        if self._settled or self._ticket is None:
            return False
        if error is None:
            warnings.warn(
                f"ticket {self.id!r} of campaign {self.campaign!r} was left without a report: it"
                f" stays in flight until {self.ticket.expires_at:%Y-%m-%d %H:%M:%S %Z}, then it is"
                " charged in full",
                UnreportedWarning,
                stacklevel=3,
            )
        return isinstance(error, NotExecuted)


def _not_voided(error: BaseException, why: TightropeError) -> None:
    error.add_note(f"its ticket could not be voided, and stays in flight: {why}")


class Decision(_Decided):
    """A decision of :meth:`Client.decide`, inside its ``with`` block.

    >>> with client.decide("spring") as decision:  # doctest: +SKIP
    ...     decision.report(cost=price(decision.arm), reward=1, penalty={"complaints": 0})
    """

    def __init__(self, client: Client, campaign: str, asked: Mapping[str, Any]) -> None:
        super().__init__(campaign)
        self._client, self._asked = client, asked

    def __enter__(self) -> Decision:
        self._ticket = self._client.ask(self.campaign, **self._asked)
        return self

    def report(
        self,
        cost: float | None = None,
        reward: float | None = None,
        penalty: Penalty = None,
        *,
        arm: int | str | None = None,
    ) -> None:
        """What came of it."""
        self._client.report(self.campaign, self.id, cost, reward, penalty, arm=arm)
        self._settled = True

    def void(self) -> None:
        """Nothing was done for it: what is reserved for it is free again."""
        self._client.void(self.campaign, self.id)
        self._settled = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._left(error):
            try:
                self.void()
            except TightropeError as why:
                _not_voided(error, why)  # type: ignore[arg-type]


class AsyncDecision(_Decided):
    """A decision of :meth:`AsyncClient.decide`, inside its ``async with`` block.

    >>> async with client.decide("spring") as decision:  # doctest: +SKIP
    ...     await decision.report(cost=price(decision.arm), reward=1, penalty={"complaints": 0})
    """

    def __init__(self, client: AsyncClient, campaign: str, asked: Mapping[str, Any]) -> None:
        super().__init__(campaign)
        self._client, self._asked = client, asked

    async def __aenter__(self) -> AsyncDecision:
        self._ticket = await self._client.ask(self.campaign, **self._asked)
        return self

    async def report(
        self,
        cost: float | None = None,
        reward: float | None = None,
        penalty: Penalty = None,
        *,
        arm: int | str | None = None,
    ) -> None:
        """As :meth:`Decision.report`."""
        await self._client.report(self.campaign, self.id, cost, reward, penalty, arm=arm)
        self._settled = True

    async def void(self) -> None:
        """As :meth:`Decision.void`."""
        await self._client.void(self.campaign, self.id)
        self._settled = True

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._left(error):
            try:
                await self.void()
            except TightropeError as why:
                _not_voided(error, why)  # type: ignore[arg-type]


class Client:
    """A client of a service; its methods may be called from threads.

    ``url``: the service's address, or several of services on one database: if one does not answer
    the next is tried. ``key``: as ``tightrope keys`` made it. ``timeout``: seconds of one try;
    ``deadline``: of all tries of a call; ``wait``: how long a decision is waited for while the
    budget is fully reserved or not released yet, if not as long. ``spool``: a file that keeps
    reports which could not be sent; ``spare``: so many tickets of each campaign are reserved
    beforehand, for ``spare_ttl`` seconds, and used while the service is away.

    >>> from tightrope.service.server import Running
    >>> task = {"arms": [{"name": "mail"}, {"name": "call"}], "limits": {"complaints": 0.5}}
    >>> with Running("memory:") as service, Client(service.url) as client:
    ...     made = client.create("spring", task, budget=20)
    ...     with client.decide("spring") as decision:
    ...         decision.report(cost=0.25, reward=1, penalty={"complaints": 0})
    ...     client.status("spring")["spent"]
    0.25
    """

    def __init__(
        self,
        url: str | Sequence[str] = "http://127.0.0.1:8321",
        key: str | None = None,
        *,
        timeout: float = 5.0,
        deadline: float = 15.0,
        wait: float | None = None,
        spare: int = 0,
        spare_ttl: float = 3600.0,
        spool: str | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = _headers(key)
        self._core = Core(
            url, lock=threading.Lock(), timeout=timeout, deadline=deadline, wait=wait,
            spare=spare, spare_ttl=spare_ttl, spool=spool,
        )  # fmt: skip
        self._http = httpx.Client(transport=transport, **_options(self._core, headers))

    def _run(self, steps: Steps[T]) -> T:
        try:
            step = next(steps)
            while True:
                try:
                    result = self._do(step)
                except BaseException as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _do(self, step: Step) -> Any:
        if isinstance(step, Send):
            try:
                return _reply(self._http.request(**_request(step)))
            except httpx.TransportError as error:
                raise _unreached(error) from error
        if isinstance(step, Sleep):
            return time.sleep(step.seconds)
        if isinstance(step, Take):
            return step.lock.acquire()
        return step.act()

    def decide(
        self,
        campaign: str,
        id: str | None = None,
        *,
        eligible: Arms = None,
        ttl: float | None = None,
        wait: float | None = None,
    ) -> Decision:
        """A decision for a ``with`` block, which reports what came of it.

        An exception leaves the ticket in flight, as a call that failed may still be billed. Only
        ``void()``, or raising :class:`NotExecuted`, says that nothing was done.
        """
        return Decision(self, campaign, {"id": id, "eligible": eligible, "ttl": ttl, "wait": wait})

    def ask(
        self,
        campaign: str,
        id: str | None = None,
        *,
        eligible: Arms = None,
        ttl: float | None = None,
        wait: float | None = None,
    ) -> Ticket:
        """Which arm to pull now. The same ``id`` again gives the same ticket, and its state.

        ``eligible``: the arms that may be pulled. ``ttl``: seconds until the ticket expires, if not
        as the campaign's. ``wait``: seconds to wait while nothing can be decided.
        """
        return self._run(self._core.ask(campaign, id, eligible, ttl, wait))

    def ask_many(
        self,
        campaign: str,
        count: int | None = None,
        *,
        ids: Sequence[str] | None = None,
        eligible: Arms = None,
        ttl: float | None = None,
    ) -> list[Ticket]:
        """So many tickets, or one for each of ``ids``; fewer if the budget does not allow more."""
        return self._run(self._core.ask_many(campaign, count, ids, eligible, ttl))

    def report(
        self,
        campaign: str,
        id: str,
        cost: float | None = None,
        reward: float | None = None,
        penalty: Penalty = None,
        *,
        arm: int | str | None = None,
    ) -> None:
        """What came of a ticket. Reporting the same again is harmless."""
        body = _report(id, cost, reward, penalty, arm)
        self._run(self._core.tell(campaign, "reports", body))

    def report_many(
        self, campaign: str, reports: Sequence[Mapping[str, Any]]
    ) -> list[TightropeError]:
        """Many reports, ``{"id": ..., "cost": ..., ...}``; returns the errors of those refused."""
        return self._run(self._core.tell_many(campaign, "reports", reports))

    def void(self, campaign: str, id: str) -> None:
        """Nothing was done for this ticket: what is reserved for it is free again."""
        self._run(self._core.tell(campaign, "voids", {"id": id}))

    def void_many(self, campaign: str, ids: Sequence[str]) -> list[TightropeError]:
        """Void many tickets; returns the errors of those refused."""
        return self._run(self._core.tell_many(campaign, "voids", [{"id": one} for one in ids]))

    def amend(
        self,
        campaign: str,
        id: str,
        cost: float | None = None,
        penalty: Mapping[str, float] | None = None,
        *,
        note: str | None = None,
    ) -> None:
        """Other money for a ticket that was reported, as from a bill."""
        body = {"id": id, "cost": cost, "penalty": penalty, "note": note}
        self._run(self._core.tell(campaign, "amendments", body))

    def ticket(self, campaign: str, id: str) -> Ticket:
        """A ticket and its state, without any change."""
        return Ticket.of_table(self.request("GET", path(campaign, "decisions", id)))

    def create(self, campaign: str, task: Mapping[str, Any], budget: float, **more: Any) -> Table:
        """Create a campaign, or go on with it; ``task`` as a task's TOML file has it.

        ``more``: policy, seed, stop, expire_after, release, starts, ends, per_day, shadow.
        """
        body = {"task": task, "budget": budget, **more}
        return self.request("PUT", path(campaign), body)  # type: ignore[no-any-return]

    def campaigns(self) -> list[Table]:
        """The status of every campaign."""
        return self.request("GET", "/v1/campaigns")["campaigns"]  # type: ignore[no-any-return]

    def status(self, campaign: str) -> Table:
        """Where a campaign stands."""
        return self.request("GET", path(campaign))  # type: ignore[no-any-return]

    def ledger(self, campaign: str) -> Table:
        """A campaign's accounts."""
        return self.request("GET", path(campaign, "ledger"))  # type: ignore[no-any-return]

    def outlook(self, campaign: str) -> Table:
        """What can be said now about a campaign's end."""
        return self.request("GET", path(campaign, "outlook"))  # type: ignore[no-any-return]

    def events(self, campaign: str, after: int = 0, limit: int = 1000) -> list[Table]:
        """The log from number ``after`` + 1 on, so many events at most."""
        target = f"{path(campaign, 'events')}?after={after:d}&limit={limit:d}"
        return self._run(self._core.lines(target))

    def act(self, campaign: str, action: Action, **arguments: Any) -> Any:
        """Pause, resume, pin, drain, close; more budget, a new arm, other limits or policy."""
        target = path(campaign, action)
        return self.request("POST", target, arguments, repeat=action in REPEATABLE)

    def request(self, method: str, target: str, body: Any = None, *, repeat: bool = True) -> Any:
        """Any request of the API; ``repeat``: whether doing it twice is harmless."""
        return self._run(self._core.json(method, target, body, repeat=repeat))

    def spares(self, campaign: str) -> int:
        """Reserve spare tickets now; returns how many there are."""
        return self._run(self._core.spares(campaign))

    def flush(self) -> int:
        """Send what is in the spool; returns how many reports are left in it."""
        return self._run(self._core.flush())

    def refused(self) -> list[Table]:
        """Spooled reports that the service refused later, and does not keep either."""
        return [] if self._core.spool is None else self._core.spool.refused()

    def close(self) -> None:
        """Send what is in the spool, give spare tickets back if the service answers, and end."""
        try:
            self._run(self._core.close())
        finally:
            self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({', '.join(self._core.urls)})"


class AsyncClient:
    """A client of a service for asyncio; arguments and methods as of :class:`Client`.

    >>> import asyncio
    >>> from tightrope.service.server import Running
    >>> task = {"arms": [{"name": "mail"}, {"name": "call"}], "limits": {"complaints": 0.5}}
    >>> async def work(url):
    ...     async with AsyncClient(url) as client:
    ...         await client.create("spring", task, budget=20)
    ...         async with client.decide("spring") as decision:
    ...             await decision.report(cost=0.25, reward=1, penalty={"complaints": 0})
    ...         return (await client.status("spring"))["spent"]
    >>> with Running("memory:") as service:
    ...     asyncio.run(work(service.url))
    0.25
    """

    def __init__(
        self,
        url: str | Sequence[str] = "http://127.0.0.1:8321",
        key: str | None = None,
        *,
        timeout: float = 5.0,
        deadline: float = 15.0,
        wait: float | None = None,
        spare: int = 0,
        spare_ttl: float = 3600.0,
        spool: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        headers = _headers(key)
        self._core = Core(
            url, lock=asyncio.Lock(), timeout=timeout, deadline=deadline, wait=wait,
            spare=spare, spare_ttl=spare_ttl, spool=spool,
        )  # fmt: skip
        self._http = httpx.AsyncClient(transport=transport, **_options(self._core, headers))

    async def _run(self, steps: Steps[T]) -> T:
        try:
            step = next(steps)
            while True:
                try:
                    result = await self._do(step)
                except BaseException as error:  # also if this task is cancelled
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def _do(self, step: Step) -> Any:
        if isinstance(step, Send):
            try:
                return _reply(await self._http.request(**_request(step)))
            except httpx.TransportError as error:
                raise _unreached(error) from error
        if isinstance(step, Sleep):
            return await asyncio.sleep(step.seconds)
        if isinstance(step, Take):
            return await step.lock.acquire()
        return await asyncio.to_thread(step.act)

    def decide(
        self,
        campaign: str,
        id: str | None = None,
        *,
        eligible: Arms = None,
        ttl: float | None = None,
        wait: float | None = None,
    ) -> AsyncDecision:
        """As :meth:`Client.decide`, for an ``async with`` block."""
        asked = {"id": id, "eligible": eligible, "ttl": ttl, "wait": wait}
        return AsyncDecision(self, campaign, asked)

    async def ask(
        self,
        campaign: str,
        id: str | None = None,
        *,
        eligible: Arms = None,
        ttl: float | None = None,
        wait: float | None = None,
    ) -> Ticket:
        """As :meth:`Client.ask`."""
        return await self._run(self._core.ask(campaign, id, eligible, ttl, wait))

    async def ask_many(
        self,
        campaign: str,
        count: int | None = None,
        *,
        ids: Sequence[str] | None = None,
        eligible: Arms = None,
        ttl: float | None = None,
    ) -> list[Ticket]:
        """As :meth:`Client.ask_many`."""
        return await self._run(self._core.ask_many(campaign, count, ids, eligible, ttl))

    async def report(
        self,
        campaign: str,
        id: str,
        cost: float | None = None,
        reward: float | None = None,
        penalty: Penalty = None,
        *,
        arm: int | str | None = None,
    ) -> None:
        """As :meth:`Client.report`."""
        body = _report(id, cost, reward, penalty, arm)
        await self._run(self._core.tell(campaign, "reports", body))

    async def report_many(
        self, campaign: str, reports: Sequence[Mapping[str, Any]]
    ) -> list[TightropeError]:
        """As :meth:`Client.report_many`."""
        return await self._run(self._core.tell_many(campaign, "reports", reports))

    async def void(self, campaign: str, id: str) -> None:
        """As :meth:`Client.void`."""
        await self._run(self._core.tell(campaign, "voids", {"id": id}))

    async def void_many(self, campaign: str, ids: Sequence[str]) -> list[TightropeError]:
        """As :meth:`Client.void_many`."""
        items = [{"id": one} for one in ids]
        return await self._run(self._core.tell_many(campaign, "voids", items))

    async def amend(
        self,
        campaign: str,
        id: str,
        cost: float | None = None,
        penalty: Mapping[str, float] | None = None,
        *,
        note: str | None = None,
    ) -> None:
        """As :meth:`Client.amend`."""
        body = {"id": id, "cost": cost, "penalty": penalty, "note": note}
        await self._run(self._core.tell(campaign, "amendments", body))

    async def ticket(self, campaign: str, id: str) -> Ticket:
        """As :meth:`Client.ticket`."""
        return Ticket.of_table(await self.request("GET", path(campaign, "decisions", id)))

    async def create(
        self, campaign: str, task: Mapping[str, Any], budget: float, **more: Any
    ) -> Table:
        """As :meth:`Client.create`."""
        body = {"task": task, "budget": budget, **more}
        return await self.request("PUT", path(campaign), body)  # type: ignore[no-any-return]

    async def campaigns(self) -> list[Table]:
        """As :meth:`Client.campaigns`."""
        found = await self.request("GET", "/v1/campaigns")
        return found["campaigns"]  # type: ignore[no-any-return]

    async def status(self, campaign: str) -> Table:
        """As :meth:`Client.status`."""
        return await self.request("GET", path(campaign))  # type: ignore[no-any-return]

    async def ledger(self, campaign: str) -> Table:
        """As :meth:`Client.ledger`."""
        return await self.request("GET", path(campaign, "ledger"))  # type: ignore[no-any-return]

    async def outlook(self, campaign: str) -> Table:
        """As :meth:`Client.outlook`."""
        return await self.request("GET", path(campaign, "outlook"))  # type: ignore[no-any-return]

    async def events(self, campaign: str, after: int = 0, limit: int = 1000) -> list[Table]:
        """As :meth:`Client.events`."""
        target = f"{path(campaign, 'events')}?after={after:d}&limit={limit:d}"
        return await self._run(self._core.lines(target))

    async def act(self, campaign: str, action: Action, **arguments: Any) -> Any:
        """As :meth:`Client.act`."""
        target = path(campaign, action)
        return await self.request("POST", target, arguments, repeat=action in REPEATABLE)

    async def request(
        self, method: str, target: str, body: Any = None, *, repeat: bool = True
    ) -> Any:
        """As :meth:`Client.request`."""
        return await self._run(self._core.json(method, target, body, repeat=repeat))

    async def spares(self, campaign: str) -> int:
        """As :meth:`Client.spares`."""
        return await self._run(self._core.spares(campaign))

    async def flush(self) -> int:
        """As :meth:`Client.flush`."""
        return await self._run(self._core.flush())

    def refused(self) -> list[Table]:
        """As :meth:`Client.refused`."""
        return [] if self._core.spool is None else self._core.spool.refused()

    async def close(self) -> None:
        """As :meth:`Client.close`."""
        try:
            await self._run(self._core.close())
        finally:
            await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient({', '.join(self._core.urls)})"
