"""Decisions, reports, voids and amendments: one at a time, and in batches with a result per item.

What is said here of one kind of act is used by the path without ASGI and by ASGI.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any

import msgspec

from tightrope.errors import (
    HaltedError,
    InputError,
    PolicyError,
    StoreError,
    TightropeError,
)
from tightrope.live.tickets import Ticket
from tightrope.live.writer import Writer
from tightrope.problem.laws import shown
from tightrope.service import wire
from tightrope.service.desk import ServiceRequest
from tightrope.service.wire import Answer, RefusalError, answer_of, decoded, encode, problem_of

__all__ = ["ACTS", "Act", "answer_to", "answers_to", "batch_of", "items_of", "request_of"]

LONGEST_TTL = 100 * 365 * 86400.0  # seconds


def ask(one: wire.DecisionRequest, writer: Writer) -> tuple[Ticket, bool]:
    """Decide, within a turn; the ticket, and whether it is new."""
    before = writer.ledger.asked
    ttl = None if one.ttl_s is None else round(one.ttl_s * 1e6)
    ticket = writer.ask(one.id, one.eligible, ttl)
    return ticket, writer.ledger.asked != before


def tell(one: wire.ReportRequest, writer: Writer) -> None:
    """Take a report."""
    writer.tell(one.id, one.cost, one.reward, one.penalty, one.arm)


def void(one: wire.Void, writer: Writer) -> None:
    """Take back a ticket that was not carried out."""
    writer.void(one.id)


def amend(one: wire.Amendment, writer: Writer) -> None:
    """Move other money for a ticket."""
    writer.amend(one.id, one.cost, one.penalty, one.note)


def do_all(do: Callable[[Any, Writer], Any], items: Sequence[Any], writer: Writer) -> list[Any]:
    """Do several of one kind in one turn; a list of results and errors."""
    results: list[Any] = []
    for item in items:
        try:
            results.append(do(item, writer))
        except (HaltedError, PolicyError, StoreError):
            raise  # as of one request: nothing of this turn is kept
        except TightropeError as error:
            results.append(error)
    return results


@dataclass(frozen=True)
class Act:
    """One kind of act: its name in paths, its shapes, who may do it."""

    name: str
    item: type[msgspec.Struct]
    batch: type[msgspec.Struct]
    answer: type[msgspec.Struct]
    do: Callable[[Any, Writer], Any]  # within a turn
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
        Act("decisions", wire.DecisionRequest, wire.Decisions, wire.DecisionAnswer, ask,
            ("decide",), "Which arm to pull now"),
        Act("reports", wire.ReportRequest, wire.Reports, wire.ReportAnswer, tell, ("report",),
            "What came of a ticket", "told"),
        Act("voids", wire.Void, wire.Voids, wire.ReportAnswer, void, ("decide", "report"),
            "Nothing was done for a ticket", "voided"),
        Act("amendments", wire.Amendment, wire.Amendments, wire.ReportAnswer, amend, ("report",),
            "Other money for a ticket that was told", "told"),
    )
}  # fmt: skip


def request_of(act: Act, one: Any, who: str) -> ServiceRequest:
    """What is to be done in a turn for one item."""
    id = one.id
    if act.do is ask and one.ttl_s is not None:
        check_ttl(one.ttl_s)
    return ServiceRequest(partial(act.do, one), () if id.__class__ is not str else (id,), who)


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


def batch_of(act: Act, items: Sequence[Any], who: str) -> tuple[ServiceRequest | None, list[Any]]:
    """One request for all items that can be tried, and of each item its error, if it has one."""
    errors = [_error(act, item) for item in items]
    good = [item for item, error in zip(items, errors, strict=True) if error is None]
    if not good:
        return None, errors
    ids = [item.id for item in good if item.id.__class__ is str]
    return ServiceRequest(partial(do_all, act.do, good), ids, who, len(items)), errors


def _error(act: Act, item: Any) -> TightropeError | None:
    """Why an item cannot be tried."""
    if isinstance(item, TightropeError):
        return item
    if act.do is ask and item.ttl_s is not None:
        try:
            check_ttl(item.ttl_s)
        except InputError as error:
            return error
    return None


def answer_to(act: Act, one: Any, request: ServiceRequest) -> Answer:
    """The answer to one item."""
    if request.error is not None:
        return answer_of(request.error)
    if act.do is ask:
        ticket, new = request.result
        return (201 if new else 200), encode(wire.DecisionAnswer(*ticket)), None
    return 200, encode(wire.ReportAnswer(one.id, act.state)), None


def answers_to(
    act: Act,
    items: Sequence[Any],
    errors: Sequence[TightropeError | None],
    request: ServiceRequest | None,
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
        elif act.do is ask:
            ticket, new = result
            results.append(wire.DecisionAnswer.of(ticket, 201 if new else 200))
        else:
            results.append(wire.ReportAnswer(item.id, act.state, 200))
    outcomes["ok"] += sum(not isinstance(one, wire.ProblemDetails) for one in results)
    return 200, encode({"results": results}), None
