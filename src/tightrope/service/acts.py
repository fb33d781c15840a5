"""Decisions, reports, voids and amendments: one at a time, and in batches with a result per item.

What is said here of one kind of act is used by the path without ASGI and by ASGI.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import msgspec

from tightrope.errors import (
    CampaignError,
    HaltedError,
    InputError,
    PolicyError,
    StoreError,
    TightropeError,
)
from tightrope.live.campaign import Request
from tightrope.live.writing import Writer
from tightrope.problem.laws import shown
from tightrope.service import wire
from tightrope.service.desk import named_code
from tightrope.service.wire import Answer, RefusalError, answer_of, decoded, encode, problem_of

__all__ = ["ACTS", "Act", "answer_to", "answers_to", "batch_of", "items_of", "request_of"]

LONGEST_TTL = 100 * 365 * 86400.0  # seconds


class Doing:
    """Something to be done in a turn, in the name of whoever asked for it."""

    __slots__ = ("one", "who")

    def __init__(self, one: Any, who: str) -> None:
        self.one, self.who = one, who

    def __call__(self, writer: Writer) -> Any:
        """Do it, within a turn."""
        before, writer.who = writer.who, self.who
        try:
            return self.done(writer)
        except CampaignError as error:
            named_code(error, writer.ledger)
            raise
        finally:
            writer.who = before

    def done(self, writer: Writer) -> Any:
        """What it is."""
        raise NotImplementedError


class Asking(Doing):
    """A decision; its result is the ticket, and whether it is new."""

    __slots__ = ()

    def done(self, writer: Writer) -> Any:
        """Decide."""
        one, before = self.one, writer.ledger.asked
        ttl = None if one.ttl_s is None else round(one.ttl_s * 1e6)
        ticket = writer.ask(one.id, one.eligible, ttl)
        return ticket, writer.ledger.asked != before


class Telling(Doing):
    """A report."""

    __slots__ = ()

    def done(self, writer: Writer) -> Any:
        """Take it."""
        one = self.one
        writer.tell(one.id, one.cost, one.reward, one.penalty, one.arm)


class Voiding(Doing):
    """A ticket that was not carried out."""

    __slots__ = ()

    def done(self, writer: Writer) -> Any:
        """Take it back."""
        writer.void(self.one.id)


class Amending(Doing):
    """Other money for a ticket."""

    __slots__ = ()

    def done(self, writer: Writer) -> Any:
        """Move it."""
        one = self.one
        writer.amend(one.id, one.cost, one.penalty, one.note)


class Together:
    """Several of one kind in one turn; the result is a list of results and errors."""

    __slots__ = ("doing", "items", "who")

    def __init__(self, doing: type[Doing], items: Sequence[Any], who: str) -> None:
        self.doing, self.items, self.who = doing, items, who

    def __call__(self, writer: Writer) -> list[Any]:
        """Do them, within a turn."""
        before, writer.who = writer.who, self.who
        doing = self.doing(None, self.who)
        done, results = doing.done, list[Any]()
        try:
            for item in self.items:
                doing.one = item
                try:
                    results.append(done(writer))
                except (HaltedError, PolicyError, StoreError):
                    raise  # as of one request: nothing of this turn is kept
                except TightropeError as error:
                    if isinstance(error, CampaignError):
                        named_code(error, writer.ledger)
                    results.append(error)
        finally:
            writer.who = before
        return results


@dataclass(frozen=True)
class Act:
    """One kind of act: its name in paths, its shapes, who may do it."""

    name: str
    item: type[msgspec.Struct]
    batch: type[msgspec.Struct]
    answer: type[msgspec.Struct]
    doing: type[Doing]
    roles: tuple[str, ...]
    summary: str
    state: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "one", msgspec.json.Decoder(self.item))
        object.__setattr__(self, "many", msgspec.json.Decoder(self.batch))
        pieces = msgspec.json.Decoder(dict[str, list[msgspec.Raw]])
        object.__setattr__(self, "pieces", pieces)

    one: Any = None  # decoders
    many: Any = None
    pieces: Any = None


ACTS = {
    act.name: act
    for act in (
        Act("decisions", wire.DecisionRequest, wire.Decisions, wire.DecisionAnswer, Asking,
            ("decide",), "Which arm to pull now"),
        Act("reports", wire.ReportRequest, wire.Reports, wire.ReportAnswer, Telling, ("report",),
            "What came of a ticket", "told"),
        Act("voids", wire.Void, wire.Voids, wire.ReportAnswer, Voiding, ("decide", "report"),
            "Nothing was done for a ticket", "voided"),
        Act("amendments", wire.Amendment, wire.Amendments, wire.ReportAnswer, Amending, ("report",),
            "Other money for a ticket that was told", "told"),
    )
}  # fmt: skip


def request_of(act: Act, one: Any, who: str) -> Request:
    """What is to be done in a turn for one item."""
    id = one.id
    if act.doing is Asking and one.ttl_s is not None:
        check_ttl(one.ttl_s)
    return Request(act.doing(one, who), () if id.__class__ is not str else (id,))


def check_ttl(ttl: float) -> None:
    """Raise unless a ticket can be waited for so long."""
    if not (isfinite(ttl) and ttl <= LONGEST_TTL and round(ttl * 1e6) > 0):
        allowed = f"at least a microsecond, and at most {LONGEST_TTL:g} seconds"
        raise InputError(f"ttl_s = {shown(ttl)}: must be {allowed}")


def items_of(act: Act, body: bytes) -> list[Any]:
    """The items of a batch; one that has another shape is its own error."""
    try:
        found: list[Any] = getattr(act.many.decode(body), act.name)
    except msgspec.ValidationError:
        pieces = decoded(act.pieces, body)
        if list(pieces) != [act.name]:
            raise InputError(f"body: must be {{{act.name!r}: [...]}}") from None
        found = [_item(act, piece) for piece in pieces[act.name]]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        found = decoded(act.many, body)  # raises, in words
    if not 0 < len(found) <= wire.BATCH:
        what = f"{act.name} = {len(found)} items: must be 1 to {wire.BATCH}"
        raise RefusalError(413, "too_large", what) if found else InputError(what)
    return found


def _item(act: Act, piece: bytes) -> Any:
    try:
        return decoded(act.one, piece)
    except TightropeError as error:
        return error


def batch_of(act: Act, items: Sequence[Any], who: str) -> tuple[Request | None, list[Any]]:
    """One request for all items that can be tried, and of each item its error, if it has one."""
    errors = [_error(act, item) for item in items]
    good = [item for item, error in zip(items, errors, strict=True) if error is None]
    if not good:
        return None, errors
    ids = [item.id for item in good if item.id.__class__ is str]
    return Request(Together(act.doing, good, who), ids), errors


def _error(act: Act, item: Any) -> TightropeError | None:
    """Why an item cannot be tried."""
    if isinstance(item, TightropeError):
        return item
    if act.doing is Asking and item.ttl_s is not None:
        try:
            check_ttl(item.ttl_s)
        except InputError as error:
            return error
    return None


def answer_to(act: Act, one: Any, request: Request) -> Answer:
    """The answer to one item."""
    if request.error is not None:
        return answer_of(request.error)
    if act.doing is Asking:
        ticket, new = request.result
        return (201 if new else 200), encode(wire.DecisionAnswer(*ticket)), None
    return 200, encode(wire.ReportAnswer(one.id, act.state)), None


def answers_to(
    act: Act,
    items: Sequence[Any],
    errors: Sequence[TightropeError | None],
    request: Request | None,
    outcomes: Counter[str],
) -> Answer:
    """The answer to a batch, a result per item; ``outcomes`` counts how they ended."""
    failed = None if request is None else request.error
    found = iter(() if request is None or failed is not None else request.result)
    results: list[Any] = []
    for item, error in zip(items, errors, strict=True):
        result = error or failed or next(found)
        if isinstance(result, BaseException):
            problem = problem_of(result)[0]
            outcomes[problem.code] += 1
            results.append(problem)
        elif act.doing is Asking:
            ticket, new = result
            results.append(wire.DecisionAnswer.of(ticket, 201 if new else 200))
        else:
            results.append(wire.ReportAnswer(item.id, act.state, 200))
    outcomes["ok"] += sum(not isinstance(one, wire.ProblemDetails) for one in results)
    return 200, encode({"results": results}), None
