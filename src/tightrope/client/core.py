"""The logic of a client without input and output: coroutines over a driver that waits.

``AsyncClient`` awaits them. The driver of ``Client`` waits in the calling thread, so its coroutines
end without a pause; nothing else differs.

Repeating a request is safe because of ids: the same id gives the same ticket, and repeating a
report changes nothing. A request without an id (more budget, a new arm) is repeated only if the
service cannot have received it.
"""

from __future__ import annotations

import json
import random
import time
import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from math import inf
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeAlias, TypeVar
from urllib.parse import quote, urlsplit

from tightrope.client.answers import (
    AccessError,
    Reply,
    SpoolWarning,
    Ticket,
    UnreachableError,
    decoded,
    error_of,
    error_of_reply,
    id_of,
    retry_after,
)
from tightrope.client.ids import new_id
from tightrope.client.spool import Entry, Spool, UnansweredDecision, has_spares
from tightrope.errors import HaltedError, InputError, StoreError, TightropeError, WaitError

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds between two tries
FIRST_AWAY, LONGEST_AWAY = 0.5, 5.0  # seconds in which an unreachable service is not tried
SHORTEST_TIMEOUT = 0.1
MOST_TOGETHER = 1000  # items of one batch
REFUSED_PAUSE = 5.0  # seconds after a refusal in which no spares are asked for
TRY_AGAIN = frozenset([408, 429, 502, 503, 504])
AWAY = (StoreError, HaltedError)  # nobody could answer: another process may, or the same one later
UNDECIDED = (*AWAY, AccessError)  # the same request may get another answer later

NO_REPLY = Reply(0, {}, b"")

P = ParamSpec("P")
T = TypeVar("T")
TransportT = TypeVar("TransportT")
Table: TypeAlias = dict[str, Any]
Answer: TypeAlias = Table | TightropeError
Items: TypeAlias = Sequence[Mapping[str, Any]]
Penalty: TypeAlias = float | Mapping[str, float] | Sequence[float] | None
# (method, address, body, seconds) -> reply; raises Unreached.
Send: TypeAlias = Callable[[str, str, bytes | None, float], Awaitable[Reply]]


class Driver(NamedTuple):
    """How a client waits."""

    send: Send
    sleep: Callable[[float], Awaitable[None]]
    work: Callable[..., Awaitable[Any]]  # calls a function that waits for the disk
    lock: AbstractAsyncContextManager[Any]
    close: Callable[[], Awaitable[None]]


class Unreached(Exception):  # noqa: N818, a driver's message to the core
    """No answer came; ``sent``: whether the service may have received the request."""

    def __init__(self, why: str, sent: bool) -> None:
        super().__init__(why)
        self.sent = sent


class ClientCore(Generic[TransportT]):
    """The state and the methods of a client; its driver does the waiting."""

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
        transport: TransportT | None = None,
    ) -> None:
        self._urls = _known_urls(url)
        self._driver = self._connect(key, transport)
        self._timeout = _positive(timeout, "timeout")
        self._deadline = _positive(deadline, "deadline")
        self._wait = self._deadline if wait is None else _positive(wait, "wait")
        if not isinstance(spare, int) or not 0 <= spare <= MOST_TOGETHER:
            raise InputError(f"spare = {spare!r}: must be a whole number from 0 to {MOST_TOGETHER}")
        if spare and spool is None:
            raise InputError(f"spare = {spare}: must come with a spool, the path of a file")
        self._spare, self._spare_ttl = spare, _positive(spare_ttl, "spare_ttl")
        self._spool = None if spool is None else Spool(str(spool), self._urls[0])
        self._patience = min(self._deadline, 2.0)  # seconds, if there is an alternative
        self._at = 0  # the service that is tried first
        self._away_until, self._away_pause = -inf, FIRST_AWAY
        self._refill_at: dict[str, float] = {}
        self._waited: set[int] = set()  # entries of the spool with a waiting caller
        self._verdicts: dict[int, TightropeError | None] = {}

    def _connect(self, key: str | None, transport: TransportT | None) -> Driver:
        raise NotImplementedError

    # One request.

    async def _call(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        deadline: float | None = None,
        wait: float | None = None,
        repeat: bool = True,
    ) -> Reply:
        """Send a request until it is answered, or the deadline passes; if that is 0, once.

        ``repeat``: whether it can be sent again even if it may have been done.
        """
        content = None if body is None else _encoded(body)
        began, pauses = time.monotonic(), _pauses()
        ends = began + (self._deadline if deadline is None else deadline)
        least = SHORTEST_TIMEOUT if ends > began else self._timeout
        wait_ends = began + (self._wait if wait is None else wait)
        while True:
            timeout = max(min(self._timeout, ends - time.monotonic()), least)
            reply, failure = await self._try(method, target, content, timeout, repeat)
            if failure is None:
                return reply
            rest = max(next(pauses), retry_after(reply) * random.uniform(1.0, 1.1))
            limit = wait_ends if isinstance(failure, WaitError) else ends
            if time.monotonic() + rest > limit:
                raise failure
            await self._driver.sleep(rest)

    async def _try(
        self, method: str, target: str, content: bytes | None, timeout: float, repeat: bool
    ) -> tuple[Reply, TightropeError | None]:
        """Send a request once: the reply, and the failure after which it may be sent again."""
        url = self._url()
        try:
            reply = await self._driver.send(method, url + target, content, timeout)
        except Unreached as why:
            self._leave(url)
            failure: TightropeError = UnreachableError(f"{url}: {why}")
            if why.sent and not repeat:
                what = "it is unknown whether this was done; check before you repeat it"
                raise UnreachableError(f"{failure}; {what}") from why
            return NO_REPLY, failure
        if reply.status < 300:
            return reply, None
        failure = error_of_reply(reply)
        halted = isinstance(failure, HaltedError)  # such as the older service during an upgrade
        if halted:
            self._leave(url)
        undone = halted or isinstance(failure, WaitError) or failure.code == "overloaded"
        if not (halted or reply.status in TRY_AGAIN) or not (repeat or undone):
            raise failure
        return reply, failure

    def _url(self) -> str:
        """The current address."""
        return self._urls[self._at % len(self._urls)]

    def _leave(self, url: str) -> None:
        """Switch to the next address, if no other thread has done so."""
        if url == self._url():
            self._at += 1

    async def _json(self, method: str, target: str, body: Any = None, **how: Any) -> Table:
        """Send a request; returns the JSON of its answer."""
        found: Table | None = decoded(await self._call(method, target, body, **how))
        if found is None:
            raise UnreachableError(
                f"{target}: the answer is not JSON; is this a tightrope service?"
            )
        return found

    async def _many(
        self, name: str, kind: str, items: Items, deadline: float | None = None
    ) -> list[Answer]:
        """Send items in batches; each ends with its answer or its error.

        Items that the service could not process now are sent again until the deadline.
        """
        ends = time.monotonic() + (self._deadline if deadline is None else deadline)
        found: list[Answer] = []
        for start in range(0, len(items), MOST_TOGETHER):
            found += await self._batch(name, kind, items[start : start + MOST_TOGETHER], ends)
        return found

    async def _batch(self, name: str, kind: str, items: Items, ends: float) -> list[Answer]:
        results: list[Any] = [None] * len(items)
        left, pauses = list(range(len(items))), _pauses()
        while left:
            body, url = {kind: [items[i] for i in left]}, self._url()
            rest = max(ends - time.monotonic(), 0.0)
            answer = await self._json("POST", path(name, kind, "batch"), body, deadline=rest)
            for i, one in zip(left, answer["results"], strict=True):
                status = one.get("status", 200)
                results[i] = error_of(one, status) if status >= 300 else one
            left = [i for i in left if isinstance(results[i], AWAY)]
            if any(isinstance(results[i], HaltedError) for i in left):
                self._leave(url)
            pause = next(pauses)
            if time.monotonic() + pause > ends:
                break
            if left:
                await self._driver.sleep(pause)
        return results

    # Decisions.

    async def _ask(self, name: str, body: Table, wait: float | None = None) -> Ticket:
        """A decision; while the service is unreachable, a spare ticket if one fits."""
        context, spares = body.get("context"), 0
        own, plain = "id" in body, not body.keys() - {"context"} and has_spares(context)
        body = {**body, "id": body.get("id") or new_id()}
        if self._spare and plain:
            if self._is_away() and (spare := await self._on_disk(Spool.take, name, context)):
                return spare
            spares = await self._on_disk(Spool.ready, name, context)
        limit = self._patience if spares else None
        try:
            target = path(name, "decisions")
            found = await self._json("POST", target, body, deadline=limit, wait=wait)
        except AWAY as error:
            self._is_gone()
            if self._spool is None or own:
                known = f"repeat it with id {body['id']!r}, in case it was decided"
                raise _said_more(error, known) from error
            await self._on_disk(Spool.want, name, [body], spare=False)  # void it if it was decided
            if spares and (spare := await self._on_disk(Spool.take, name, context)):
                return spare
            raise
        self._is_back()
        await self._tend(name, context)
        return Ticket.of_table(found)

    async def _ask_many(self, name: str, bodies: Sequence[Table]) -> list[Ticket]:
        """Many decisions; fewer if the budget does not allow more."""
        found = await self._many(name, "decisions", bodies)
        tickets = [Ticket.of_table(one) for one in found if not isinstance(one, TightropeError)]
        wrong = [one for one in found if isinstance(one, InputError)]
        if wrong or (not tickets and found):
            raise next(one for one in wrong or found if isinstance(one, TightropeError))
        return tickets

    # Reports.

    async def _tell(self, name: str, kind: str, body: Table) -> None:
        """A report, a void or an amendment; with a spool it may be sent later."""
        made = _given({**body, "id": id_of(body.get("id"))})
        if not isinstance(made.get("id"), str):
            raise InputError(f"id = {body.get('id')!r}: must be a ticket, or its id")
        if self._spool is None or kind == "amendments":
            await self._json("POST", path(name, kind), made)
            return
        _encoded(made)  # a bad report is refused before it is stored
        number = await self._on_disk(Spool.put, name, kind, made, self._waited)
        try:
            if not self._is_away():
                await self._send_spooled(number)
                self._is_back()
        except AWAY:
            self._is_gone()
        finally:
            self._waited.discard(number)
            verdict = self._verdicts.pop(number, None)
        if verdict is not None:
            raise verdict

    async def _tell_many(self, name: str, kind: str, items: Items) -> list[TightropeError]:
        """Many of them; returns the errors of refused ones."""
        made = [{key: id_of(value) for key, value in one.items()} for one in items]
        found = await self._many(name, kind, made)
        errors = [one for one in found if isinstance(one, TightropeError)]
        for one in errors:
            if isinstance(one, AWAY):
                raise one
        return errors

    # The spool.

    async def _on_disk(
        self, act: Callable[Concatenate[Spool, P], T], *given: P.args, **named: P.kwargs
    ) -> T:
        """Call a method of the spool."""
        found: T = await self._driver.work(act, self._spool, *given, **named)
        return found

    async def _empty_spool(self, spool: Spool) -> None:
        """Send the spool's content and return spare tickets, if the service answers."""
        try:
            if not self._is_away():
                await self._ask_again(0)
                await self._on_disk(Spool.give_back, inf)
                await self._send_spooled()
        except UNDECIDED:
            pass  # they stay in the spool
        finally:
            spool.close()

    async def _tend(self, name: str, context: Any) -> None:
        """After an answer, send waiting entries and ask for spares."""
        if self._spool is None:
            return
        try:
            if await self._on_disk(Spool.waiting):
                await self._send_spooled()
            due = time.monotonic() >= self._refill_at.get(name, -inf)
            if self._spare and due and has_spares(context):
                await self._refill(name, self._spare, context)
        except AWAY:
            self._is_gone()
        except TightropeError as error:  # the caller has a ticket anyway
            warnings.warn(f"campaign {name!r}: {error}", SpoolWarning, stacklevel=2)

    async def _send_spooled(self, number: int | None = None) -> None:
        """Send entries in their order, up to one with this number, or all of them."""
        async with self._driver.lock:
            while number is None or number not in self._verdicts:
                some = await self._on_disk(Spool.next_entries, MOST_TOGETHER)
                if not some:
                    return
                await self._send_some(some)

    async def _send_some(self, some: Sequence[Entry]) -> None:
        bodies = [one.body for one in some]
        try:
            found = await self._many(some[0].campaign, some[0].kind, bodies, self._patience)
        except InputError as wrong:  # the campaign is unknown, or one of them cannot be read
            if len(some) > 1:
                for one in some:
                    await self._send_some([one])
                return
            found = [wrong]
        done, refused, late = list[Entry](), list[tuple[Entry, str]](), list[str]()
        for entry, result in zip(some, found, strict=True):
            if isinstance(result, UNDECIDED):
                continue
            done.append(entry)
            error = result if isinstance(result, TightropeError) else None
            if error is not None and not entry.quiet and not getattr(error, "quarantine", None):
                refused.append((entry, str(error)))
            if entry.number in self._waited:
                self._verdicts[entry.number] = error
            elif error is not None and not entry.quiet:
                late.append(f"campaign {entry.campaign!r}: {error}")
        await self._on_disk(Spool.settle, done, refused)
        for text in late:
            warnings.warn(text, SpoolWarning, stacklevel=2)
        for result in found:
            if isinstance(result, UNDECIDED):
                raise result

    async def _ask_again(self, most: int) -> None:
        """Find out about every unanswered request for a decision."""
        for name in await self._on_disk(Spool.campaigns):
            await self._refill(name, most, new=False)

    async def _refill(
        self, name: str, most: int, context: str | None = None, *, new: bool = True
    ) -> None:
        """Ask for spare tickets of a type if ``new``, and repeat unanswered requests."""
        async with self._driver.lock:
            ageing = time.time() + self._spare_ttl / 2
            if most:
                await self._on_disk(Spool.give_back, ageing)
            wanted = await self._on_disk(Spool.wanted, name)
            ready = await self._on_disk(Spool.ready, name, context)
            same = [one for one in wanted if one.spare and one.asked.get("context") == context]
            missing = most - ready - len(same)
            if new and missing > 0:
                made = [asked(new_id(), None, self._spare_ttl, context) for _ in range(missing)]
                await self._on_disk(Spool.want, name, made, spare=True)
                wanted = await self._on_disk(Spool.wanted, name)
            if wanted:
                bodies = [one.asked for one in wanted]
                found = await self._many(name, "decisions", bodies, self._patience)
                answers = zip(wanted, found, strict=True)
                await self._keep(name, answers, ageing if most else inf)

    async def _keep(
        self, name: str, answers: Iterable[tuple[UnansweredDecision, Answer]], ageing: float
    ) -> None:
        """Store the answers; tickets that live longer than ``ageing`` become spares."""
        kept, voided, refused = list[tuple[Ticket, float]](), list[str](), list[str]()
        for one, result in answers:
            if isinstance(result, UNDECIDED):
                continue
            if isinstance(result, TightropeError):
                refused.append(one.id)
                self._refill_at[name] = time.monotonic() + REFUSED_PAUSE
            elif result.get("state", "open") != "open":
                refused.append(one.id)
            elif one.spare and (until := one.at + one.asked["ttl_s"]) > ageing:
                known = {**result, "context": one.asked.get("context")}  # the name it is found by
                kept.append((Ticket.of_table(known), until))
            else:
                voided.append(one.id)
        await self._on_disk(Spool.answered, name, kept, voided, refused)

    # Whether the service is reachable.

    def _is_away(self) -> bool:
        return time.monotonic() < self._away_until

    def _is_gone(self) -> None:
        self._away_until = time.monotonic() + random.uniform(0.5, 1.0) * self._away_pause
        self._away_pause = min(2 * self._away_pause, LONGEST_AWAY)

    def _is_back(self) -> None:
        self._away_until, self._away_pause = -inf, FIRST_AWAY


def _pauses() -> Iterator[float]:
    """Seconds between tries: they double, and half of each is random."""
    pause = FIRST_PAUSE
    while True:
        yield random.uniform(pause / 2, pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _given(table: Table) -> Table:
    return {key: value for key, value in table.items() if value is not None}


def asked(
    id: str | None,
    eligible: Any,
    ttl: float | None,
    context: Any,
) -> Table:
    """The body of a request for a decision."""
    arms = eligible if eligible is None or isinstance(eligible, Mapping) else list(eligible)
    return _given({"id": id, "eligible": arms, "ttl_s": ttl, "context": _listed(context)})


def _listed(context: Any) -> Any:
    """A context as JSON has it: arrays as lists."""
    if isinstance(context, tuple):
        return [_listed(one) for one in context]
    return context.tolist() if hasattr(context, "tolist") else context


def path(name: str, *parts: str) -> str:
    """The path of a campaign, and of its resources."""
    if not isinstance(name, str) or not name:
        raise InputError(f"name = {name!r}: must be a campaign's name")
    return "/".join(["/v1/campaigns", *(quote(one, safe="") for one in (name, *parts))])


def _encoded(body: Any) -> bytes:
    try:
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"{body!r:.200}: must be text and finite numbers ({error})") from None


def _known_urls(url: str | Sequence[str]) -> list[str]:
    found = [url] if isinstance(url, str) else list(url)
    for one in found:
        parts = urlsplit(one) if isinstance(one, str) else None
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"url = {one!r}: must be such as 'http://127.0.0.1:8321'")
    if not found:
        raise InputError("url = []: must be one address or several")
    return [one.rstrip("/") for one in found]


def _positive(value: Any, place: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < inf:
        return float(value)
    raise InputError(f"{place} = {value!r}: must be a number of seconds")


def _said_more(error: TightropeError, more: str) -> TightropeError:
    made = type(error)(f"{error}; {more}")
    made.code = error.code
    return made
