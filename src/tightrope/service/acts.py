"""Decisions, reports, voids and amendments: one at a time, and in batches with a result per item.

The numbers of a report are not checked here. The campaign refuses a report with a wrong type and
keeps it in quarantine, so that no report of spent money is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
from msgspec import Meta, Struct

from tightrope.change_forms import AnyCost, AnyPenalty, AnyReward, Form, Note, said_of
from tightrope.changes import TICKET_SCHEMA, TurnAct
from tightrope.errors import HaltedError, InputError, PolicyError, StoreError, TightropeError
from tightrope.live.writer import Writer
from tightrope.problem.values import shown
from tightrope.service import wire
from tightrope.service.desk import ServiceRequest
from tightrope.service.http.answers import Answer, RefusalError
from tightrope.service.wire import (
    DecisionAnswer,
    ReportAnswer,
    decoded,
    encode,
    problem_of,
    unknown_field,
)

LONGEST_TTL = 100 * 365 * 86400.0  # seconds
ELIGIBLE = Meta(
    description="arms by name or number; over an interval its lowest and highest number, over a box"
    " such pairs by name; all if left out"
)
# The type of a request, its features in order or by name, or a pair of a type and features.
AnyContext = Annotated[
    str | list[float | str | list[float]] | dict[str, float | str],
    Meta(
        description="the type of the request, or its features: numbers in order, or by name; only"
        " in a campaign with contexts"
    ),
]
TICKET = said_of("", "Ticket", TICKET_SCHEMA, name="ticket")
OneTtl = Annotated[
    float, Meta(extra_json_schema={"exclusiveMinimum": 0, "maximum": LONGEST_TTL})
]  # seconds


class RequestItem(TurnAct):
    """A decision, a report, a void or an amendment."""

    answers: ClassVar[type[Struct]] = ReportAnswer
    state: ClassVar[str] = ""  # of the ticket afterwards

    def check(self) -> None:
        """Raise if a value is not allowed."""

    def answer(self, result: Any) -> tuple[int, Any]:
        """The status and the answer for the result of ``do``."""
        return 200, ReportAnswer(self.id, self.state)  # type: ignore[attr-defined]


class DecisionRequest(RequestItem):
    """A decision: which arm to pull now. The same ``id`` again returns the same ticket."""

    path = "decisions"
    summary = "Decide which arm to pull now"
    roles = ("decide",)
    answers = DecisionAnswer
    id: Annotated[str, TICKET] | None = None
    eligible: Annotated[list[int | float | str] | dict[str, list[float]], ELIGIBLE] | None = None
    ttl_s: OneTtl | None = None  # seconds after which this ticket expires
    context: AnyContext | None = None

    def check(self) -> None:
        ttl = self.ttl_s
        if ttl is not None and not (isfinite(ttl) and ttl <= LONGEST_TTL and round(ttl * 1e6) > 0):
            allowed = f"at least a microsecond, and at most {LONGEST_TTL:g} seconds"
            raise InputError(f"ttl_s = {shown(ttl)}: must be {allowed}")

    def do(self, writer: Writer, place: str = "") -> Any:
        """The ticket, and whether it is new."""
        before = writer.ledger.asked
        ttl = None if self.ttl_s is None else round(self.ttl_s * 1e6)
        ticket = writer.ask(self.id, self.eligible, ttl, self.context)
        return ticket, writer.ledger.asked != before

    def answer(self, result: Any) -> tuple[int, Any]:
        ticket, new = result
        return (201 if new else 200), DecisionAnswer(*ticket)


class ReportRequest(RequestItem):
    """The outcome of a ticket."""

    path = "reports"
    summary = "Report the outcome of a ticket"
    roles = ("report",)
    state = "told"
    forms = (
        Form(
            "tell",
            "Report a ticket",
            "A ticket that expired was charged in full. This report corrects the charge, once.",
            "Report",
            "The report was taken.",
            roles=("report",),
            known=True,
        ),
    )
    id: Annotated[Any, TICKET]
    cost: AnyCost = None
    reward: AnyReward = None
    penalty: AnyPenalty = None
    # The arm that was pulled, where another system acts; its number in an interval or a box.
    arm: int | float | str | list[float] | None = None

    def do(self, writer: Writer, place: str = "") -> Any:
        writer.tell(self.id, self.cost, self.reward, self.penalty, self.arm)


class Void(RequestItem):
    """A ticket whose arm was not pulled."""

    path = "voids"
    summary = "Void a ticket whose arm was not pulled"
    roles = ("decide", "report")
    state = "voided"
    id: Annotated[str, TICKET]

    def do(self, writer: Writer, place: str = "") -> Any:
        writer.void(self.id)


class Amendment(RequestItem):
    """Another cost or other penalties for a ticket that was reported."""

    path = "amendments"
    summary = "Another cost or other penalties for a ticket that was reported"
    roles = ("report",)
    state = "told"
    forms = (
        Form(
            "amend",
            "Amend a ticket",
            "Corrects the cost or the penalties of a reported ticket, as from a bill. The budget"
            " changes; what the policy learned from the report does not.",
            "Amend",
            "The ticket was amended.",
            some_of=("cost", "penalty"),
        ),
    )
    id: Annotated[str, TICKET]
    cost: Annotated[
        float | None, said_of("", "Cost", kind="number", hint="Empty leaves it as it is.")
    ] = None
    penalty: Annotated[
        dict[str, float] | None, said_of("", "", kind="penalties", of="limit_names")
    ] = None
    note: Note = None

    def do(self, writer: Writer, place: str = "") -> Any:
        writer.amend(self.id, self.cost, self.penalty, self.note)


ITEMS: tuple[type[RequestItem], ...] = (DecisionRequest, ReportRequest, Void, Amendment)


Refused = Callable[[BaseException], Answer]  # makes the answer to an error


class ActCall(NamedTuple):
    """The caller of an act, the function that queues it, and the callbacks for its answer."""

    who: str
    submit: Callable[[ServiceRequest, Callable[[ServiceRequest], None]], None]
    outcomes: Counter[str]
    refused: Refused
    done: Callable[[Answer], None]


class Act:
    """One kind of act: its items, and batches of them."""

    def __init__(self, item: type[RequestItem]) -> None:
        self.name, self.item = item.path, item
        several = f"Several {item.path}, each with a result of its own."
        self.batch = msgspec.defstruct(
            item.path.capitalize(),
            [(item.path, list[item])],  # type: ignore[valid-type]
            forbid_unknown_fields=True,
            namespace={"__doc__": several},
        )
        self._one, self._many = msgspec.json.Decoder(item), msgspec.json.Decoder(self.batch)
        self._pieces = msgspec.json.Decoder(dict[str, msgspec.Raw])
        self._list = msgspec.json.Decoder(list[msgspec.Raw])

    def start(self, body: bytes, call: ActCall) -> None:
        """Queue one item; raises if it is refused before it is queued."""
        optional = not body and self.name == "decisions"
        one: RequestItem = self.item() if optional else decoded(self._one, body)
        one.check()

        def finish(request: ServiceRequest) -> None:
            error: Any = request.error
            call.outcomes["ok" if error is None else getattr(error, "code", "internal")] += 1
            if error is not None:
                call.done(call.refused(error))
                return
            status, found = one.answer(request.result)
            call.done((status, encode(found), None))

        call.submit(ServiceRequest(one.do, ids_of([one]), call.who), finish)

    def start_batch(self, body: bytes, call: ActCall) -> None:
        """Queue a batch as one request; the answer has a result per item."""
        items = [_checked(item) for item in self.items_of(body)]
        good: list[RequestItem] = [item for item in items if not isinstance(item, TightropeError)]

        def finish(request: ServiceRequest | None) -> None:
            if request is not None and request.error is not None:
                call.refused(request.error)  # the log has it once, not once for each item
            call.done(answer_to_all(items, request, call.outcomes))

        if good:
            together = ServiceRequest(partial(do_all, good), ids_of(good), call.who, len(items))
            call.submit(together, finish)
        else:
            finish(None)

    def items_of(self, body: bytes) -> list[Any]:
        """The items of a batch; a malformed item is replaced by its error."""
        try:
            found: list[Any] = getattr(self._many.decode(body), self.name)
        except msgspec.ValidationError:
            pieces = decoded(self._pieces, body)
            for key in pieces:
                if key != self.name:
                    raise unknown_field(key, [self.name]) from None
            if not pieces:
                raise InputError(f"body: must be {{{self.name!r}: [...]}}") from None
            found = [self._item(piece) for piece in decoded(self._list, pieces[self.name])]
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            found = decoded(self._many, body)  # raises, in words
        if not 0 < len(found) <= wire.BATCH:
            what = f"{self.name} = {len(found)} items: must be 1 to {wire.BATCH}"
            raise RefusalError(413, "too_large", what) if found else InputError(what)
        return found

    def _item(self, piece: bytes) -> Any:
        try:
            return decoded(self._one, piece)
        except TightropeError as error:
            return error


ACTS = {item.path: Act(item) for item in ITEMS}


def _checked(item: Any) -> Any:
    """The item, or the error if its values are not allowed."""
    try:
        if not isinstance(item, TightropeError):
            item.check()
    except TightropeError as error:
        return error
    return item


def ids_of(items: Sequence[Any]) -> list[str]:
    """The ids of the tickets of some items."""
    return [item.id for item in items if item.id.__class__ is str]


def do_all(items: Sequence[RequestItem], writer: Writer) -> list[Any]:
    """Do several items in one turn; returns a list of results and errors."""
    results: list[Any] = []
    for item in items:
        try:
            results.append(item.do(writer))
        except (HaltedError, PolicyError, StoreError):
            raise  # as of one request: nothing of this turn is kept
        except TightropeError as error:
            results.append(error)
    return results


def answer_to_all(
    items: Sequence[Any], request: ServiceRequest | None, outcomes: Counter[str]
) -> Answer:
    """The answer to a batch, with a result per item; ``outcomes`` counts the results by code."""
    failed = None if request is None else request.error
    found = iter(() if request is None or failed is not None else request.result)
    results: list[Any] = []
    for item in items:
        result = item if isinstance(item, TightropeError) else failed or next(found)
        if isinstance(result, BaseException):
            answer: Any = problem_of(result)[0]
            outcomes[answer.code] += 1
        else:
            status, answer = item.answer(result)
            answer.status = status
            outcomes["ok"] += 1
        results.append(answer)
    return 200, encode({"results": results}), None
