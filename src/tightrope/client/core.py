"""What a client does, without input or output: steps that a driver carries out.

An operation is a generator. It yields a step (send this, sleep so long, take the lock, do this work
on the disk), gets its result or its failure, and returns what the caller asked for. ``Client``
carries the steps out one after the other, ``AsyncClient`` awaits them; nothing else differs.

Repeating a request is safe because ids are: the same id gives the same ticket, and the same report
again changes nothing. What has no id (more budget, a new arm) is repeated only if the service
cannot have got it.
"""

from __future__ import annotations

import json
import random
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol, TypeAlias, TypeVar
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
    retry_after,
)
from tightrope.client.ids import new_id
from tightrope.client.spool import Entry, Spool
from tightrope.errors import HaltedError, InputError, StoreError, TightropeError, WaitError

__all__ = ["Core", "Penalty", "Send", "Sleep", "Step", "Steps", "Take", "Unreached", "Work"]

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds between two tries
FIRST_AWAY, LONGEST_AWAY = 0.5, 5.0  # seconds in which a service that is away is not tried
SHORTEST_TIMEOUT = 0.1
MOST_TOGETHER = 1000  # items of one batch
REFUSED_PAUSE = 5.0  # seconds after a refusal in which no spares are asked for
TRY_AGAIN = frozenset([408, 429, 502, 503, 504])
AWAY = (StoreError, HaltedError)  # nobody could answer: another process may, or this one later

T = TypeVar("T")
Penalty: TypeAlias = float | Mapping[str, float] | Sequence[float] | None


@dataclass(frozen=True)
class Send:
    """Send a request; its result is a Reply, its failure is Unreached."""

    url: str
    method: str
    content: bytes | None
    timeout: float


@dataclass(frozen=True)
class Sleep:
    """Wait so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Take:
    """Take a lock; whoever yields this releases it."""

    lock: Any


@dataclass(frozen=True)
class Work:
    """Call something that waits for the disk; its result is the step's."""

    act: Callable[[], Any]


class Unreached(Exception):  # noqa: N818, a driver's message to the core
    """No answer came; ``sent``: whether the service may have got the request."""

    def __init__(self, why: str, sent: bool) -> None:
        super().__init__(why)
        self.sent = sent


class Lock(Protocol):
    """Of threads or of asyncio."""

    def release(self) -> None: ...


Step: TypeAlias = Send | Sleep | Take | Work
Steps: TypeAlias = Generator[Step, Any, T]


class Core:
    """The state and the operations of a client."""

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        lock: Lock,
        timeout: float,
        deadline: float,
        wait: float | None,
        spare: int,
        spare_ttl: float,
        spool: str | None,
    ) -> None:
        self.urls = _known_urls(url)
        self.timeout = _positive(timeout, "timeout")
        self.deadline = _positive(deadline, "deadline")
        self.wait = self.deadline if wait is None else _positive(wait, "wait")
        if not isinstance(spare, int) or not 0 <= spare <= MOST_TOGETHER:
            raise InputError(f"spare = {spare!r}: must be a whole number from 0 to {MOST_TOGETHER}")
        if spare and spool is None:
            raise InputError(f"spare = {spare}: must come with a spool, the path of a file")
        self.spare, self.spare_ttl = spare, _positive(spare_ttl, "spare_ttl")
        self.spool = None if spool is None else Spool(str(spool), self.urls[0])
        self.patience = min(self.deadline, 2.0)  # seconds, where there is another way
        self._lock = lock  # of sending what is in the spool, and of refilling it
        self._at = 0  # the service that is tried first
        self._away_until, self._away_pause = -inf, FIRST_AWAY
        self._refill_at: dict[str, float] = {}
        self._waited: set[int] = set()  # entries of the spool that somebody waits for
        self._verdicts: dict[int, TightropeError | None] = {}

    # One request.

    def call(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        deadline: float | None = None,
        wait: float | None = None,
        repeat: bool = True,
    ) -> Steps[Reply]:
        """Send a request until it is answered, or the deadline passes; if that is 0, once.

        ``repeat``: whether it may be sent again although it may have been done.
        """
        content = None if body is None else _encoded(body)
        began, pause = time.monotonic(), FIRST_PAUSE
        ends = began + (self.deadline if deadline is None else deadline)
        least = SHORTEST_TIMEOUT if ends > began else self.timeout
        wait_ends = began + (self.wait if wait is None else wait)
        while True:
            limit, rest = ends, random.uniform(pause / 2, pause)
            timeout = max(min(self.timeout, ends - time.monotonic()), least)
            url = self.urls[self._at % len(self.urls)]
            try:
                reply: Reply = yield Send(url + target, method, content, timeout)
            except Unreached as why:
                self._leave(url)
                failure: TightropeError = UnreachableError(f"{url}: {why}")
                if why.sent and not repeat:
                    what = "it is not known whether this was done; look before you repeat it"
                    raise UnreachableError(f"{failure}; {what}") from why
            else:
                if reply.status < 300:
                    return reply
                failure = error_of_reply(reply)
                halted = isinstance(failure, HaltedError)  # as the older one in an upgrade
                if halted:
                    self._leave(url)
                undone = halted or isinstance(failure, WaitError) or failure.code == "overloaded"
                if not (halted or reply.status in TRY_AGAIN) or not (repeat or undone):
                    raise failure
                if isinstance(failure, WaitError):
                    limit = wait_ends
                rest = max(rest, retry_after(reply) * random.uniform(1.0, 1.1))
            if time.monotonic() + rest > limit:
                raise failure
            yield Sleep(rest)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _leave(self, url: str) -> None:
        """Try the next address from now on, unless another thread has found it out before."""
        if url == self.urls[self._at % len(self.urls)]:
            self._at += 1

    def json(self, method: str, target: str, body: Any = None, **how: Any) -> Steps[Any]:
        """Send a request; returns the JSON of its answer."""
        reply = yield from self.call(method, target, body, **how)
        found = decoded(reply)
        if found is None:
            raise UnreachableError(f"{target}: the answer is no JSON; is this a tightrope service?")
        return found

    def lines(self, target: str) -> Steps[list[dict[str, Any]]]:
        """The JSON of an answer's lines."""
        reply = yield from self.call("GET", target)
        return [json.loads(line) for line in reply.content.splitlines() if line]

    def many(
        self,
        name: str,
        kind: str,
        items: Sequence[Mapping[str, Any]],
        deadline: float | None = None,
    ) -> Steps[list[dict[str, Any] | TightropeError]]:
        """Send items in batches; each ends with its answer or its error.

        Items that the service could not take now are sent again until the deadline.
        """
        ends = time.monotonic() + (self.deadline if deadline is None else deadline)
        found: list[dict[str, Any] | TightropeError] = []
        for start in range(0, len(items), MOST_TOGETHER):
            some = items[start : start + MOST_TOGETHER]
            found += yield from self._batch(name, kind, some, ends)
        return found

    def _batch(
        self, name: str, kind: str, items: Sequence[Mapping[str, Any]], ends: float
    ) -> Steps[list[dict[str, Any] | TightropeError]]:
        results: list[Any] = [None] * len(items)
        left, pause = list(range(len(items))), FIRST_PAUSE
        while left:
            body, url = {kind: [items[i] for i in left]}, self.urls[self._at % len(self.urls)]
            rest = max(ends - time.monotonic(), 0.0)
            answer = yield from self.json("POST", _path(name, kind, "batch"), body, deadline=rest)
            for i, one in zip(left, answer["results"], strict=True):
                status = one.get("status", 200)
                results[i] = error_of(one, status) if status >= 300 else one
            left = [i for i in left if isinstance(results[i], AWAY)]
            if any(isinstance(results[i], HaltedError) for i in left):
                self._leave(url)
            if time.monotonic() + pause > ends:
                break
            if left:
                yield Sleep(random.uniform(pause / 2, pause))
                pause = min(2 * pause, LONGEST_PAUSE)
        return results

    # Decisions.

    def ask(
        self,
        name: str,
        id: str | None = None,
        eligible: Sequence[int | str] | None = None,
        ttl: float | None = None,
        wait: float | None = None,
    ) -> Steps[Ticket]:
        """A decision; while the service is away a spare one, if it may stand for it."""
        spool, body = self.spool, _asked(id or new_id(), eligible, ttl)
        spares, spare = 0, None
        if spool is not None and self.spare and id is None and eligible is None and ttl is None:
            if self._is_away():
                spare = yield from self._use_spare(name)
                if spare is not None:
                    return spare
            spares = yield Work(lambda: spool.ready(name))
        limit = self.patience if spares else None
        try:
            found = yield from self.json(
                "POST", _path(name, "decisions"), body, deadline=limit, wait=wait
            )
        except AWAY as error:
            self._is_gone()
            if spool is None or id is not None:
                known = f"repeat it with id {body['id']!r}, in case it was decided"
                raise _said_more(error, known) from error
            yield Work(lambda: spool.want(name, [body], spare=False))  # to be voided, if it is
            if spares:
                spare = yield from self._use_spare(name)
            if spare is None:
                raise
            return spare
        self._is_back()
        yield from self._tend(name)
        return Ticket.of_table(found)

    def _use_spare(self, name: str) -> Steps[Ticket | None]:
        spool = self.spool
        assert spool is not None
        found: Ticket | None = yield Work(lambda: spool.take(name))
        return found

    def ask_many(
        self,
        name: str,
        count: int | None = None,
        ids: Sequence[str] | None = None,
        eligible: Sequence[int | str] | None = None,
        ttl: float | None = None,
    ) -> Steps[list[Ticket]]:
        """So many decisions; fewer if the budget does not allow more."""
        if ids is None and (not isinstance(count, int) or count < 1):
            raise InputError(f"count = {count!r}: must be a positive whole number, or give ids")
        names = [new_id() for _ in range(count or 0)] if ids is None else list(ids)
        found = yield from self.many(
            name, "decisions", [_asked(one, eligible, ttl) for one in names]
        )
        tickets = [Ticket.of_table(one) for one in found if not isinstance(one, TightropeError)]
        wrong = [one for one in found if isinstance(one, InputError)]
        if wrong or (not tickets and found):
            raise next(one for one in wrong or found if isinstance(one, TightropeError))
        return tickets

    # Reports.

    def tell(self, name: str, kind: str, body: Mapping[str, Any]) -> Steps[None]:
        """A report, a void or an amendment; with a spool it may be sent later."""
        if not isinstance(body.get("id"), str):
            raise InputError(f"id = {body.get('id')!r}: must be a ticket's id")
        made = {key: value for key, value in body.items() if value is not None}
        spool = self.spool
        if spool is None or kind == "amendments":
            yield from self.json("POST", _path(name, kind), made)
            return
        _encoded(made)  # or it is refused before it is kept
        number: int = yield Work(lambda: spool.put(name, kind, made, self._waited))
        try:
            if not self._is_away():
                yield from self._send_spooled(number)
                self._is_back()
        except AWAY:
            self._is_gone()
        finally:
            self._waited.discard(number)
            verdict = self._verdicts.pop(number, None)
        if verdict is not None:
            raise verdict

    def tell_many(
        self, name: str, kind: str, items: Sequence[Mapping[str, Any]]
    ) -> Steps[list[TightropeError]]:
        """Many of them; returns the errors of those refused."""
        found = yield from self.many(name, kind, items)
        errors = [one for one in found if isinstance(one, TightropeError)]
        for one in errors:
            if isinstance(one, AWAY):
                raise one
        return errors

    # The spool.

    def flush(self) -> Steps[int]:
        """Send what is in the spool; returns how many entries are left in it."""
        spool = self.spool
        if spool is None:
            return 0
        yield from self._ask_again(self.spare)
        yield from self._send_spooled(None)
        self._is_back()
        left: int = yield Work(spool.waiting)
        return left

    def spares(self, name: str) -> Steps[int]:
        """Reserve spare tickets now; returns how many there are."""
        spool = self.spool
        if spool is None:
            raise InputError("spares: must come with a spool, the path of a file")
        yield from self._refill(name, self.spare)
        yield from self._send_spooled(None)
        self._is_back()
        found: int = yield Work(lambda: spool.ready(name))
        return found

    def close(self) -> Steps[None]:
        """Send what is in the spool and give spare tickets back, if the service answers."""
        spool = self.spool
        if spool is None:
            return
        try:
            if not self._is_away():
                yield from self._ask_again(0)
                yield Work(lambda: spool.give_back(inf))
                yield from self._send_spooled(None)
        except (*AWAY, AccessError):
            pass  # they stay in the spool
        finally:
            spool.close()

    def _tend(self, name: str) -> Steps[None]:
        """After an answer: send what waits, and see that there are spares."""
        spool = self.spool
        if spool is None:
            return
        try:
            if (yield Work(spool.waiting)):
                yield from self._send_spooled(None)
            if self.spare and time.monotonic() >= self._refill_at.get(name, -inf):
                yield from self._refill(name, self.spare)
        except AWAY:
            self._is_gone()
        except TightropeError as error:  # the caller has a ticket all the same
            warnings.warn(f"campaign {name!r}: {error}", SpoolWarning, stacklevel=2)

    def _send_spooled(self, number: int | None) -> Steps[None]:
        """Send entries in their order, up to one with this number, or all of them."""
        spool = self.spool
        assert spool is not None
        yield Take(self._lock)
        try:
            while number is None or number not in self._verdicts:
                some: list[Entry] = yield Work(lambda: spool.next_entries(MOST_TOGETHER))
                if not some:
                    return
                yield from self._send_some(some)
        finally:
            self._lock.release()

    def _send_some(self, some: Sequence[Entry]) -> Steps[None]:
        spool, first = self.spool, some[0]
        assert spool is not None
        bodies = [one.body for one in some]
        try:
            found = yield from self.many(first.campaign, first.kind, bodies, self.patience)
        except InputError as wrong:  # the campaign is unknown, or one of them cannot be read
            if len(some) > 1:
                for one in some:
                    yield from self._send_some([one])
                return
            found = [wrong]
        done, refused, late = list[Entry](), list[tuple[Entry, str]](), list[str]()
        failure: TightropeError | None = None
        for entry, result in zip(some, found, strict=True):
            if isinstance(result, (*AWAY, AccessError)):
                failure = failure or result
                continue
            done.append(entry)
            error = result if isinstance(result, TightropeError) else None
            if error is not None and not entry.quiet and not getattr(error, "quarantine", None):
                refused.append((entry, str(error)))
            if entry.number in self._waited:
                self._verdicts[entry.number] = error
            elif error is not None and not entry.quiet:
                late.append(f"campaign {entry.campaign!r}: {error}")
        yield Work(lambda: spool.settle(done, refused))
        for text in late:
            warnings.warn(text, SpoolWarning, stacklevel=2)
        if failure is not None:
            raise failure

    def _ask_again(self, most: int) -> Steps[None]:
        """Find out about every decision whose answer did not come."""
        spool = self.spool
        assert spool is not None
        for name in (yield Work(spool.campaigns)):
            yield from self._refill(name, most, new=False)

    def _refill(self, name: str, most: int, *, new: bool = True) -> Steps[None]:
        """Ask for spare tickets if ``new``, and again for decisions whose answer did not come."""
        spool = self.spool
        assert spool is not None
        yield Take(self._lock)
        try:
            ageing = time.time() + self.spare_ttl / 2
            if most:
                yield Work(lambda: spool.give_back(ageing))
            wanted = yield Work(lambda: spool.wanted(name))
            there: int = yield Work(lambda: spool.ready(name))
            missing = most - there - sum(one.spare for one in wanted)
            if new and missing > 0:
                made = [_asked(new_id(), None, self.spare_ttl) for _ in range(missing)]
                yield Work(lambda: spool.want(name, made, spare=True))
                wanted = yield Work(lambda: spool.wanted(name))
            if not wanted:
                return
            bodies = [one.asked for one in wanted]
            found = yield from self.many(name, "decisions", bodies, self.patience)
            kept, voided, refused = list[tuple[Ticket, float]](), list[str](), list[str]()
            for one, result in zip(wanted, found, strict=True):
                if isinstance(result, (*AWAY, AccessError)):
                    continue
                if isinstance(result, TightropeError):
                    refused.append(one.id)
                    self._refill_at[name] = time.monotonic() + REFUSED_PAUSE
                elif result.get("state", "open") != "open":
                    refused.append(one.id)
                elif one.spare and most and (until := one.at + one.asked["ttl_s"]) > ageing:
                    kept.append((Ticket.of_table(result), until))
                else:
                    voided.append(one.id)
            yield Work(lambda: spool.answered(name, kept, voided, refused))
        finally:
            self._lock.release()

    # Whether the service is there.

    def _is_away(self) -> bool:
        return time.monotonic() < self._away_until

    def _is_gone(self) -> None:
        self._away_until = time.monotonic() + random.uniform(0.5, 1.0) * self._away_pause
        self._away_pause = min(2 * self._away_pause, LONGEST_AWAY)

    def _is_back(self) -> None:
        self._away_until, self._away_pause = -inf, FIRST_AWAY


def _asked(id: str, eligible: Sequence[int | str] | None, ttl: float | None) -> dict[str, Any]:
    """The body of a request for a decision."""
    body: dict[str, Any] = {"id": id}
    if eligible is not None:
        body["eligible"] = list(eligible)
    if ttl is not None:
        body["ttl_s"] = ttl
    return body


def _path(name: str, *parts: str) -> str:
    """The path of a campaign, and of what is below it."""
    if not isinstance(name, str) or not name:
        raise InputError(f"name = {name!r}: must be a campaign's name")
    return "/".join(["/v1/campaigns", *(quote(one, safe="") for one in (name, *parts))])


path = _path


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
