"""Decisions, reports, voids and amendments, alone or in batches, each with its own answer.

The numbers of a report are not checked here. The campaign refuses a report with a wrong type and
keeps it in quarantine, so that no report of spent money is lost.
"""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from tightrope.change_forms import AnyCost, AnyPenalty, AnyReward, Form, Note, said_of
from tightrope.changes import TICKET_SCHEMA, TurnAct
from tightrope.errors import InputError
from tightrope.live.writer import Writer
from tightrope.problem.values import shown
from tightrope.service.wire import DecisionAnswer, ReportAnswer

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
