"""Clients: ``Client`` for threads, ``AsyncClient`` for asyncio, from one description of methods.

Each method is written once, as a coroutine. ``AsyncClient`` has it as it is. ``Client`` runs it to
its end in the thread that calls, which waits where a task would be paused.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
import tomllib
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import wraps
from types import MethodType
from typing import (
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    overload,
)
from urllib.parse import quote, urlsplit

import httpx

from tightrope.client.answers import NotExecuted, Reply, Ticket, UnreportedWarning, id_of
from tightrope.client.core import ClientCore, Driver, Penalty, Send, Table, Unreached, asked, path
from tightrope.client.ids import new_id
from tightrope.client.spool import Spool
from tightrope.errors import InputError, TightropeError

__all__ = ["AsyncClient", "AsyncDecision", "Client", "Decision"]

P = ParamSpec("P")
T = TypeVar("T")
Async: TypeAlias = Callable[P, Coroutine[Any, Any, T]]
Arms: TypeAlias = Sequence[int | str] | None
Action: TypeAlias = Literal["pause", "resume", "pin", "drain", "close", "budget", "arms", "change"]
REPEATABLE = frozenset(["pause", "resume", "pin", "drain", "close"])  # what may be done twice
MOST_LISTED = 1000  # campaigns of one answer
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class Operation(Generic[P, T]):
    """A method of both clients, or of both decisions: a coroutine function, and its blocking form.

    >>> import inspect
    >>> inspect.iscoroutinefunction(AsyncClient.ask), inspect.iscoroutinefunction(Client.ask)
    (True, False)
    """

    def __init__(self, written: Async[Concatenate[Any, P], T]) -> None:
        @wraps(written)
        def blocking(*given: Any, **named: Any) -> T:
            return _finished(written(*given, **named))

        self._written, self._blocking = written, blocking

    @overload
    def __get__(self, of: Client | Decision, kind: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, of: AsyncClient | AsyncDecision, kind: Any) -> Async[P, T]: ...
    @overload
    def __get__(
        self, of: None, kind: type[Client | Decision]
    ) -> Callable[Concatenate[Any, P], T]: ...
    @overload
    def __get__(self, of: None, kind: Any) -> Async[Concatenate[Any, P], T]: ...
    def __get__(self, of: Any, kind: Any) -> Any:
        made = self._blocking if issubclass(kind, Client | Decision) else self._written
        return made if of is None else MethodType(made, of)


def _finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits in its thread, and so ends without a pause."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError(f"{coroutine!r} is paused")


async def _result(found: T | Awaitable[T]) -> T:
    """What a method of either client gives."""
    return await found if isinstance(found, Awaitable) else found


class DecisionMethods:
    """What decisions of both clients are: a ticket, and whether it was settled."""

    def __init__(self, client: Any, campaign: str, asked: Mapping[str, Any]) -> None:
        self._client: Client | AsyncClient = client
        self.campaign, self._asked = campaign, asked
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

    @Operation
    async def report(
        self,
        cost: float | None = None,
        reward: float | None = None,
        penalty: Penalty = None,
        *,
        arm: int | str | None = None,
    ) -> None:
        """What came of it."""
        await _result(self._client.report(self.campaign, self.id, cost, reward, penalty, arm=arm))
        self._settled = True

    @Operation
    async def void(self) -> None:
        """Nothing was done for it: what is reserved for it is free again."""
        await _result(self._client.void(self.campaign, self.id))
        self._settled = True

    async def _begin(self) -> Self:
        self._ticket = await _result(self._client.ask(self.campaign, **self._asked))
        return self

    async def _end(self, error: BaseException | None) -> None:
        """At the end of the block: void the ticket if nothing was done."""
        if isinstance(error, NotExecuted) and self._ticket is not None and not self._settled:
            try:
                await DecisionMethods.void(self)
            except TightropeError as why:
                error.add_note(f"its ticket could not be voided, and stays in flight: {why}")

    def _warn(self, error: BaseException | None) -> None:
        """At the end of the block: warn if its ticket is forgotten."""
        if error is None and self._ticket is not None and not self._settled:
            warnings.warn(
                f"ticket {self.id!r} of campaign {self.campaign!r} was left without a report: it"
                f" stays in flight until {self.ticket.expires_at:%Y-%m-%d %H:%M:%S %Z}, then it is"
                " charged in full",
                UnreportedWarning,
                stacklevel=3,
            )


class Decision(DecisionMethods):
    """A decision of :meth:`Client.decide`, inside its ``with`` block.

    >>> with client.decide("spring") as decision:  # doctest: +SKIP
    ...     decision.report(cost=price(decision.arm), reward=1, penalty={"complaints": 0})
    """

    def __enter__(self) -> Self:
        return _finished(self._begin())

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._warn(error)
        _finished(self._end(error))


class AsyncDecision(DecisionMethods):
    """A decision of :meth:`AsyncClient.decide`, inside its ``async with`` block.

    >>> async with client.decide("spring") as decision:  # doctest: +SKIP
    ...     await decision.report(cost=price(decision.arm), reward=1, penalty={"complaints": 0})
    """

    async def __aenter__(self) -> Self:
        return await self._begin()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._warn(error)
        await self._end(error)


TransportT = TypeVar("TransportT")
DecisionT = TypeVar("DecisionT", bound=DecisionMethods)


class TaskText(Protocol):
    """A ``tightrope.Task``, or whatever else has the text of one."""

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
        eligible: Arms = None,
        ttl: float | None = None,
        wait: float | None = None,
    ) -> DecisionT:
        """A decision for a ``with`` block, which reports what came of it.

        An exception leaves the ticket in flight, as a call that failed may still be billed. Only
        ``void()``, or raising :class:`NotExecuted`, says that nothing was done.
        """
        asked = {"id": id, "eligible": eligible, "ttl": ttl, "wait": wait}
        return self._decision(self, campaign, asked)

    @Operation
    async def ask(
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
        return await self._ask(campaign, asked(id, eligible, ttl), wait)

    @Operation
    async def ask_many(
        self,
        campaign: str,
        count: int | None = None,
        *,
        ids: Sequence[str] | None = None,
        eligible: Arms = None,
        ttl: float | None = None,
    ) -> list[Ticket]:
        """So many tickets, or one for each of ``ids``; fewer if the budget does not allow more."""
        if ids is None:
            if not isinstance(count, int) or count < 1:
                raise InputError(f"count = {count!r}: must be a positive whole number, or give ids")
            ids = [new_id() for _ in range(count)]
        return await self._ask_many(campaign, [asked(one, eligible, ttl) for one in ids])

    @Operation
    async def report(
        self,
        campaign: str,
        id: str | Ticket,
        cost: float | None = None,
        reward: float | None = None,
        penalty: Penalty = None,
        *,
        arm: int | str | None = None,
    ) -> None:
        """What came of a ticket. Reporting the same again is harmless."""
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
        """Nothing was done for this ticket: what is reserved for it is free again."""
        await self._tell(campaign, "voids", {"id": id})

    @Operation
    async def void_many(self, campaign: str, ids: Sequence[str | Ticket]) -> list[TightropeError]:
        """Void many tickets; returns the errors of those refused."""
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
        """Other money for a ticket that was reported, as from a bill."""
        body = {"id": id, "cost": cost, "penalty": penalty, "note": note}
        await self._tell(campaign, "amendments", body)

    @Operation
    async def ticket(self, campaign: str, id: str | Ticket) -> Ticket:
        """A ticket and its state, without any change."""
        return Ticket.of_table(await self._json("GET", path(campaign, "decisions", id_of(id))))

    @Operation
    async def create(
        self, /, campaign: str, task: Mapping[str, Any] | TaskText, budget: float, **more: Any
    ) -> Table:
        """Create a campaign, or go on with it.

        ``task``: a ``tightrope.Task``, or a mapping as a task's TOML file has it. ``more``: policy,
        seed, stop, expire_after, release, starts, ends, per_day, shadow,
        on_overrun.
        """
        body = {"task": _task_table(task), "budget": budget, **more}
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
        """Where a campaign stands."""
        return await self._json("GET", path(campaign))

    @Operation
    async def ledger(self, campaign: str) -> Table:
        """A campaign's accounts."""
        return await self._json("GET", path(campaign, "ledger"))

    @Operation
    async def outlook(self, campaign: str, *, estimate: bool = False) -> Table:
        """What can be said now about a campaign's end; with an ``estimate``, of half a minute."""
        asked = "?estimate=true" if estimate else ""
        return await self._json("GET", path(campaign, "outlook") + asked)

    @Operation
    async def events(self, campaign: str, after: int = 0, limit: int = 1000) -> list[Table]:
        """The log from number ``after`` + 1 on, so many events at most."""
        target = f"{path(campaign, 'events')}?after={after:d}&limit={limit:d}"
        reply = await self._call("GET", target)
        return [json.loads(line) for line in reply.content.splitlines() if line]

    @Operation
    async def act(self, /, campaign: str, action: Action, **arguments: Any) -> Any:
        """A change that the service knows: pause, resume, pin, drain, close, budget, arms, change.

        ``arguments``: the fields of its body. It is sent again only if that is harmless.
        """
        repeat = action in REPEATABLE
        return await self._json("POST", path(campaign, action), arguments, repeat=repeat)

    @Operation
    async def request(
        self, method: str, target: str, body: Any = None, *, repeat: bool = True
    ) -> Any:
        """Any request of the API; ``repeat``: whether doing it twice is harmless."""
        return await self._json(method, target, body, repeat=repeat)

    @Operation
    async def spares(self, campaign: str) -> int:
        """Reserve spare tickets now; returns how many there are."""
        if self._spool is None:
            raise InputError("spares: must come with a spool, the path of a file")
        await self._refill(campaign, self._spare)
        await self._send_spooled()
        self._is_back()
        return await self._on_disk(Spool.ready, campaign)

    @Operation
    async def flush(self) -> int:
        """Send what is in the spool; returns how many reports are left in it."""
        if self._spool is None:
            return 0
        await self._ask_again(self._spare)
        await self._send_spooled()
        self._is_back()
        return await self._on_disk(Spool.waiting)

    def refused(self) -> list[Table]:
        """Spooled reports that the service refused later, and does not keep either."""
        return [] if self._spool is None else self._spool.refused()

    @Operation
    async def close(self) -> None:
        """Send what is in the spool, give spare tickets back if the service answers, and end."""
        try:
            if self._spool is not None and not self._spool.closed:
                await self._empty_spool(self._spool)
        finally:
            await self._driver.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._urls)})"


class Client(ClientMethods[httpx.BaseTransport, Decision]):
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


class AsyncClient(ClientMethods[httpx.AsyncBaseTransport, AsyncDecision]):
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
        what = "must be a tightrope.Task, or a mapping as its TOML file has it"
        raise InputError(f"task = {task!r:.200}: {what}")
    return tomllib.loads(task.to_toml())


class _Lock:
    """A lock of threads for ``async with``."""

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
    """How a request is sent by one of httpx's clients."""

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
    """How httpx is to work; what is on loopback is not behind a proxy."""
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
