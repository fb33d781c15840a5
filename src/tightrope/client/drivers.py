"""Clients: ``Client`` for threads, ``AsyncClient`` for asyncio, from one description of methods.

Each method is written once, as a coroutine. ``AsyncClient`` uses it unchanged. ``Client`` runs it
to its end in the calling thread.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
import tomllib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, Self, TypeAlias, TypeVar
from urllib.parse import quote, urlsplit

import httpx

from tightrope.client.answers import Reply, Ticket, id_of
from tightrope.client.core import (
    ClientCore,
    Driver,
    Penalty,
    Send,
    Table,
    Unreached,
    asked,
    path,
)
from tightrope.client.decisions import AsyncDecision, Decision, DecisionMethods
from tightrope.client.ids import new_id
from tightrope.client.operations import Async, Awaiting, Blocking, Operation
from tightrope.client.spool import Spool, has_spares
from tightrope.errors import InputError, TightropeError

if TYPE_CHECKING:
    from datetime import datetime

    from tightrope.changes import Action

P = ParamSpec("P")
T = TypeVar("T")
Arms: TypeAlias = Sequence[int | float | str] | Mapping[str, Sequence[float]] | None
MOST_LISTED = 1000  # campaigns of one answer
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


TransportT = TypeVar("TransportT")
DecisionT = TypeVar("DecisionT", bound=DecisionMethods)


class TaskText(Protocol):
    """A ``tightrope.Task``, or any object with its ``to_toml``."""

    def to_toml(self) -> str:
        """The task as TOML."""


class ClientMethods(ClientCore[TransportT], Generic[TransportT, DecisionT]):
    """The methods of both clients."""

    _decision: type[DecisionT]

    def decide(
        self,
        campaign: str,
        id: str | None = None,
        *,
        context: Any = None,
        eligible: Arms = None,
        ttl: float | None = None,
        wait: float | None = None,
    ) -> DecisionT:
        """A decision for a ``with`` block, which reports the outcome.

        An exception leaves the ticket in flight, because a failed call may still be billed. To
        cancel the ticket, call ``void()`` or raise :class:`NotExecuted`.
        """
        asked = {"id": id, "context": context, "eligible": eligible, "ttl": ttl, "wait": wait}
        return self._decision(self, campaign, asked)

    @Operation
    async def ask(
        self,
        campaign: str,
        id: str | None = None,
        *,
        context: Any = None,
        eligible: Arms = None,
        ttl: float | None = None,
        wait: float | None = None,
    ) -> Ticket:
        """Decide which arm to pull. The same ``id`` returns the same ticket and its state.

        ``context``: the type of the request, or its features as a list or by name, in a campaign
        with contexts. Spare tickets do not serve requests with features, because an arm is decided
        for the features of one request. ``eligible``: the arms that can be pulled, or in an
        interval the lowest and the highest number. ``ttl``: seconds
        until the ticket expires; default: the campaign's. ``wait``: seconds to wait while no
        decision is possible.
        """
        return await self._ask(campaign, asked(id, eligible, ttl, context), wait)

    @Operation
    async def ask_many(
        self,
        campaign: str,
        count: int | None = None,
        *,
        ids: Sequence[str] | None = None,
        contexts: Sequence[Any] | None = None,
        eligible: Arms = None,
        ttl: float | None = None,
    ) -> list[Ticket]:
        """Several tickets, by ``count`` or ``ids``; fewer if the budget does not allow more.

        ``contexts``: the type or the features of each request, in a campaign with contexts.
        """
        if ids is None:
            if count is None and contexts is not None:
                count = len(contexts)
            if not isinstance(count, int) or count < 1:
                raise InputError(f"count = {count!r}: must be a positive whole number, or give ids")
            ids = [new_id() for _ in range(count)]
        kinds = [None] * len(ids) if contexts is None else list(contexts)
        if len(kinds) != len(ids):
            raise InputError(f"contexts: {len(kinds)} must be {len(ids)}, one for each decision")
        pairs = zip(ids, kinds, strict=True)
        return await self._ask_many(campaign, [asked(i, eligible, ttl, kind) for i, kind in pairs])

    @Operation
    async def report(
        self,
        campaign: str,
        id: str | Ticket,
        cost: float | None = None,
        reward: float | None = None,
        penalty: Penalty = None,
        *,
        arm: Any = None,
    ) -> None:
        """Report the outcome of a ticket. Repeating the same report is harmless."""
        body = {"id": id, "cost": cost, "reward": reward, "penalty": penalty, "arm": arm}
        await self._tell(campaign, "reports", body)

    @Operation
    async def report_many(
        self, campaign: str, reports: Sequence[Mapping[str, Any]]
    ) -> list[TightropeError]:
        """Many reports, ``{"id": ..., "cost": ..., ...}``; returns the errors of those refused."""
        return await self._tell_many(campaign, "reports", reports)

    @Operation
    async def void(self, campaign: str, id: str | Ticket) -> None:
        """Cancel a ticket because nothing was done; its reservation is free again."""
        await self._tell(campaign, "voids", {"id": id})

    @Operation
    async def void_many(self, campaign: str, ids: Sequence[str | Ticket]) -> list[TightropeError]:
        """Void many tickets; returns the errors of refused ones."""
        return await self._tell_many(campaign, "voids", [{"id": one} for one in ids])

    @Operation
    async def amend(
        self,
        campaign: str,
        id: str | Ticket,
        cost: float | None = None,
        penalty: Mapping[str, float] | None = None,
        *,
        note: str | None = None,
    ) -> None:
        """Correct the money of a reported ticket, for example from a bill."""
        body = {"id": id, "cost": cost, "penalty": penalty, "note": note}
        await self._tell(campaign, "amendments", body)

    @Operation
    async def ticket(self, campaign: str, id: str | Ticket) -> Ticket:
        """Look up a ticket and its state."""
        return Ticket.of_table(await self._json("GET", path(campaign, "decisions", id_of(id))))

    @Operation
    async def create(
        self, /, campaign: str, task: Mapping[str, Any] | TaskText, budget: float, **more: Any
    ) -> Table:
        """Create a campaign, or open the existing one.

        ``task``: a ``tightrope.Task``, or a mapping like a task's TOML file. ``more``: policy,
        seed, stop, expire_after, release, starts, ends, per_day, shadow, on_overrun; learn_from, a
        ``tightrope.Log``, a ``FullTable`` or a mapping of columns, and weight.
        """
        body = {"task": _task_table(task), "budget": budget, **more}
        if callable(getattr(more.get("learn_from"), "lines", None)):
            body["learn_from"] = _columns_of(more["learn_from"])
        return await self._json("PUT", path(campaign), body)

    @Operation
    async def campaigns(self) -> list[Table]:
        """The status of every campaign."""
        found, rest = list[Table](), ""
        while True:
            page = (await self._json("GET", f"/v1/campaigns{rest}"))["campaigns"]
            found += page
            if len(page) < MOST_LISTED:
                return found
            rest = f"?after={quote(page[-1]['name'], safe='')}"

    @Operation
    async def status(self, campaign: str) -> Table:
        """The status of a campaign."""
        return await self._json("GET", path(campaign))

    @Operation
    async def ledger(self, campaign: str) -> Table:
        """A campaign's accounts."""
        return await self._json("GET", path(campaign, "ledger"))

    @Operation
    async def outlook(self, campaign: str, *, estimate: bool = False) -> Table:
        """Bounds and projections for a campaign's end; ``estimate``: also a recent estimate."""
        asked = "?estimate=true" if estimate else ""
        return await self._json("GET", path(campaign, "outlook") + asked)

    @Operation
    async def events(self, campaign: str, after: int = 0, limit: int = 1000) -> list[Table]:
        """At most ``limit`` events of the log, from number ``after`` + 1 on."""
        target = f"{path(campaign, 'events')}?after={after:d}&limit={limit:d}"
        reply = await self._call("GET", target)
        return [json.loads(line) for line in reply.content.splitlines() if line]

    @Operation
    async def act(self, /, campaign: str, action: Action, **arguments: Any) -> Any:
        """Make a change, by its name in the API: pause, resume, budget, retire and so on.

        ``arguments``: the fields of its body, and the ``arm`` or ``number`` in its path. It is sent
        again only if that is harmless.
        """
        from tightrope.changes import change_named  # loads msgspec, which others do not need

        kind = change_named(action)
        if kind.place() and kind.place() not in arguments:
            raise InputError(f"{action}: {kind.place()} is missing")
        place = str(arguments.pop(kind.place(), ""))
        parts = [place if part.startswith("{") else part for part in kind.path.split("/")]
        body = None if kind.method == "DELETE" else arguments
        return await self._json(kind.method, path(campaign, *parts), body, repeat=kind.repeats)

    @Operation
    async def erase_contexts(self, campaign: str, before: datetime | str | None = None) -> int:
        """Erase the features of requests, in a campaign whose features are erasable.

        ``before``: only those of requests before this time, in ISO 8601. Tickets in flight keep
        theirs. Returns how many were erased; a repeated call counts the rest.
        """
        rest = "" if before is None else f"?before={quote(str(before), safe='')}"
        found = await self._json("DELETE", path(campaign, "contexts") + rest)
        return int(found["erased"])

    @Operation
    async def request(
        self, method: str, target: str, body: Any = None, *, repeat: bool = True
    ) -> Any:
        """Send any request of the API; ``repeat``: whether doing it twice is harmless."""
        return await self._json(method, target, body, repeat=repeat)

    @Operation
    async def spares(self, campaign: str, context: str | None = None) -> int:
        """Reserve spare tickets now; returns their number. ``context``: the type of requests."""
        if self._spool is None:
            raise InputError("spares: must come with a spool, the path of a file")
        if not has_spares(context):
            raise InputError("context: must be a type; an arm is decided for given features only")
        await self._refill(campaign, self._spare, context)
        await self._send_spooled()
        self._is_back()
        return await self._on_disk(Spool.ready, campaign, context)

    @Operation
    async def flush(self) -> int:
        """Send the spool's content; returns the number of reports left in it."""
        if self._spool is None:
            return 0
        await self._ask_again(self._spare)
        await self._send_spooled()
        self._is_back()
        return await self._on_disk(Spool.waiting)

    def refused(self) -> list[Table]:
        """Spooled reports that the service refused later and did not put in quarantine."""
        return [] if self._spool is None else self._spool.refused()

    @Operation
    async def close(self) -> None:
        """Send the spool's content, return spare tickets if the service answers, and close."""
        try:
            if self._spool is not None and not self._spool.closed:
                await self._empty_spool(self._spool)
        finally:
            await self._driver.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._urls)})"


class Client(ClientMethods[httpx.BaseTransport, Decision], Blocking):
    """A client of a service; its methods are thread-safe.

    ``url``: the service's address, or several addresses of services on one database: if one does
    not answer, the next is tried. ``key``: a key from ``tightrope keys``. ``timeout``: seconds of
    one try; ``deadline``: seconds of all tries of a call; ``wait``: seconds to wait for a decision
    while the budget is fully reserved or not released yet, default: the deadline. ``spool``: a file
    for reports that could not be sent. ``spare``: the number of tickets of each campaign, and of
    each type of its requests, to reserve in advance, for ``spare_ttl`` seconds; they are used while
    the service is unreachable.

    >>> from tightrope.service.server import Running
    >>> task = {"arms": [{"name": "mail"}, {"name": "call"}], "limits": {"complaints": 0.5}}
    >>> with Running("memory:") as service, Client(service.url) as client:
    ...     made = client.create("spring", task, budget=20)
    ...     with client.decide("spring") as decision:
    ...         decision.report(cost=0.25, reward=1, penalty={"complaints": 0})
    ...     client.status("spring")["spent"]
    0.25
    """

    _decision = Decision

    def _connect(self, key: str | None, transport: httpx.BaseTransport | None) -> Driver:
        http = httpx.Client(transport=transport, **_options(self._urls, key))
        send, sleep = _sent(_at_once(http.request)), _at_once(time.sleep)
        work = _at_once(lambda act, *given, **named: act(*given, **named))
        return Driver(send, sleep, work, _Lock(), _at_once(http.close))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class AsyncClient(ClientMethods[httpx.AsyncBaseTransport, AsyncDecision], Awaiting):
    """A client of a service for asyncio; arguments and methods are those of :class:`Client`.

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

    _decision = AsyncDecision

    def _connect(self, key: str | None, transport: httpx.AsyncBaseTransport | None) -> Driver:
        http = httpx.AsyncClient(transport=transport, **_options(self._urls, key))
        work = asyncio.to_thread
        return Driver(_sent(http.request), asyncio.sleep, work, asyncio.Lock(), http.aclose)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


def _task_table(task: Mapping[str, Any] | TaskText) -> Mapping[str, Any]:
    if isinstance(task, Mapping):
        return task
    if isinstance(task, type) or not callable(getattr(task, "to_toml", None)):
        what = "must be a tightrope.Task, or a mapping like its TOML file"
        raise InputError(f"task = {task!r:.200}: {what}")
    return tomllib.loads(task.to_toml())


def _columns_of(past: Any) -> Table:
    """The columns of a log or a table, as the body of a request has them."""
    arms, outcomes, contexts, propensity = past.lines()
    found = dict(zip(["cost", "reward", *past.penalties], outcomes.T.tolist(), strict=True))
    space = getattr(past, "space", None)
    if space is None:
        found["arm"] = [past.arms[arm] for arm in arms.tolist()]
    else:
        points = [space.grid[arm] for arm in arms.tolist()]
        found |= dict(zip(space.ranges, map(list, zip(*points, strict=True)), strict=True))
    if propensity is not None:
        found["propensity"] = propensity.tolist()
    vectors = contexts
    if contexts is not None and not hasattr(contexts, "shape"):
        paired = isinstance(contexts[0], tuple)
        found["context"], vectors = zip(*contexts, strict=True) if paired else (contexts, None)
    if vectors is not None:
        columns = list(zip(*(map(float, one) for one in vectors), strict=True))
        names = past.features or [f"x{place + 1}" for place in range(len(columns))]
        found |= dict(zip(names, columns, strict=True))
    return found


class _Lock:
    """A thread lock for ``async with``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *error: object) -> None:
        self._lock.release()


def _at_once(act: Callable[P, T]) -> Async[P, T]:
    """A coroutine function that waits in its thread."""

    async def done(*given: P.args, **named: P.kwargs) -> T:
        return act(*given, **named)

    return done


def _sent(request: Callable[..., Awaitable[httpx.Response]]) -> Send:
    """Send a request with one of httpx's clients."""

    async def send(method: str, url: str, content: bytes | None, timeout: float) -> Reply:
        headers = None if content is None else {"content-type": "application/json"}
        try:
            answer = await request(method, url, content=content, headers=headers, timeout=timeout)
        except (httpx.UnsupportedProtocol, httpx.LocalProtocolError) as error:
            raise InputError(f"{error}") from error
        except httpx.TransportError as error:
            text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise Unreached(text, sent=not isinstance(error, UNSENT)) from error
        return Reply(answer.status_code, answer.headers, answer.content)

    return send


def _options(urls: Sequence[str], key: str | None) -> dict[str, Any]:
    """The settings of httpx; addresses on loopback use no proxy."""
    headers = {"accept": "application/json", "user-agent": "tightrope-client"}
    if key is not None:
        if not isinstance(key, str) or not key.isascii() or not key.isprintable() or not key:
            raise InputError("key: must be a key that `tightrope keys` made")  # it is not shown
        headers["authorization"] = f"Bearer {key}"
    hosts = {urlsplit(one).hostname for one in urls}
    return {
        "headers": headers,
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=64),
        "trust_env": not hosts <= {"127.0.0.1", "::1", "localhost"},
    }
