"""What can be asked of a campaign, each in one place: its fields, what it does, its form.

HTTP decodes and documents the fields, and calls ``do`` within a turn. The page makes its form of
the fields that have a ``FormInput``, and calls the same ``do``. The client sends them by name.
Unknown fields are refused: a misspelled one would be a silent default.

A report's numbers may be anything: what a campaign cannot take it refuses and keeps in its
quarantine, so that a report of money that was spent is not lost because of a wrong type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta, Struct
from msgspec.structs import asdict

from tightrope.errors import InputError, NotFoundError
from tightrope.live.writer import Writer
from tightrope.policies.naming import known_policies
from tightrope.problem.values import shown
from tightrope.service.values import whole_of
from tightrope.service.wire import DecisionAnswer, ReportAnswer

if TYPE_CHECKING:
    from tightrope.service.desk import Service

__all__ = [
    "CHANGES", "FORMS", "ITEMS", "TICKET_SCHEMA", "CampaignChange", "Form", "FormInput",
    "RequestItem", "TurnAct", "form_input", "require_installed",
]  # fmt: skip

LONGEST_TTL = 100 * 365 * 86400.0  # seconds
TICKET_SCHEMA = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]{1,128}$"}


@dataclass(frozen=True)
class Form:
    """How the page asks before it acts.

    ``title`` and ``text`` may name the campaign's ``name``, ``status``, ``budget`` and what is
    ``used`` of it, and the ``place`` in the path. ``done`` is said afterwards.
    """

    action: str  # its name in the page's paths
    title: str
    text: str
    button: str
    done: str
    tone: str = ""  # bad: it cannot be undone
    roles: tuple[str, ...] = ()  # of those who may send it, besides admin
    fixed: Mapping[str, Any] = field(default_factory=dict)  # fields that nobody fills in
    some_of: tuple[str, ...] = ()  # fields of which one is needed
    known: bool = False  # whether its ticket must be there: else the report would be quarantined


@dataclass(frozen=True)
class FormInput:
    """How a field is filled in; ``name``: in the form, if not as the field's."""

    label: str
    kind: str = "text"  # number, arm, penalties
    hint: str = ""
    name: str = ""
    of: str = ""  # of penalties: where a task has their names


def form_input(label: str, kind: str = "text", schema: Any = None, **more: str) -> Meta:
    """What is said of a field to those who document it, and to those who fill it in."""
    return Meta(extra_json_schema=schema, extra={"form": FormInput(label, kind, **more)})


PENALTY_SCHEMA = {
    "anyOf": [
        {"type": "number"},
        {"type": "object", "additionalProperties": {"type": "number"}},
        {"type": "array", "items": {"type": "number"}},
        {"type": "null"},
    ],
    "description": "by the limits' names; a number alone if there is one limit",
}
NUMBER_SCHEMA = {"anyOf": [{"type": "number"}, {"type": "null"}]}
TicketId = Annotated[str, form_input("Ticket", schema=TICKET_SCHEMA, name="ticket")]
AnyCost = Annotated[Any, form_input("Cost", "number", NUMBER_SCHEMA)]
AnyReward = Annotated[Any, form_input("Reward", "number", NUMBER_SCHEMA)]
AnyPenalty = Annotated[Any, form_input("", "penalties", PENALTY_SCHEMA, of="told_names")]
Note = Annotated[str | None, form_input("Note", hint="Kept beside the log; optional.")]
OneTtl = Annotated[
    float, Meta(extra_json_schema={"exclusiveMinimum": 0, "maximum": LONGEST_TTL})
]  # seconds


class TurnAct(Struct, forbid_unknown_fields=True):
    """Something that is done in a turn."""

    path: ClassVar[str] = ""  # below the campaign's; may name an arm, or a report's number
    summary: ClassVar[str] = ""
    roles: ClassVar[tuple[str, ...]] = ("admin",)  # of those who may do it over HTTP
    forms: ClassVar[tuple[Form, ...]] = ()

    def do(self, writer: Writer, place: str = "") -> Any:
        """Do it."""
        raise NotImplementedError


# What is asked for often: alone or in batches, each with an answer of its own.


class RequestItem(TurnAct):
    """A decision, a report, a void or an amendment."""

    answers: ClassVar[type[Struct]] = ReportAnswer
    state: ClassVar[str] = ""  # of its ticket afterwards

    def check(self) -> None:
        """Raise if it need not be tried."""

    def answer(self, result: Any) -> tuple[int, Any]:
        """The status and the answer, from what ``do`` has returned."""
        return 200, ReportAnswer(self.id, self.state)  # type: ignore[attr-defined]


class DecisionRequest(RequestItem):
    """Which arm now? The same ``id`` again gives the same ticket."""

    path = "decisions"
    summary = "Which arm to pull now"
    roles = ("decide",)
    answers = DecisionAnswer
    id: TicketId | None = None
    eligible: list[int | str] | None = None  # arms by name or number; all if left out
    ttl_s: OneTtl | None = None  # seconds after which this ticket expires

    def check(self) -> None:
        ttl = self.ttl_s
        if ttl is not None and not (isfinite(ttl) and ttl <= LONGEST_TTL and round(ttl * 1e6) > 0):
            allowed = f"at least a microsecond, and at most {LONGEST_TTL:g} seconds"
            raise InputError(f"ttl_s = {shown(ttl)}: must be {allowed}")

    def do(self, writer: Writer, place: str = "") -> Any:
        """The ticket, and whether it is new."""
        before = writer.ledger.asked
        ttl = None if self.ttl_s is None else round(self.ttl_s * 1e6)
        ticket = writer.ask(self.id, self.eligible, ttl)
        return ticket, writer.ledger.asked != before

    def answer(self, result: Any) -> tuple[int, Any]:
        ticket, new = result
        return (201 if new else 200), DecisionAnswer(*ticket)


class ReportRequest(RequestItem):
    """What came of a ticket."""

    path = "reports"
    summary = "What came of a ticket"
    roles = ("report",)
    state = "told"
    forms = (
        Form(
            "tell",
            "Report a ticket",
            "A ticket that expired was charged in full. What is told now corrects that, once.",
            "Report",
            "The report was taken.",
            roles=("report",),
            known=True,
        ),
    )
    id: Annotated[Any, form_input("Ticket", schema=TICKET_SCHEMA, name="ticket")]
    cost: AnyCost = None
    reward: AnyReward = None
    penalty: AnyPenalty = None
    arm: int | str | None = None  # the arm that was pulled, where another system acts

    def do(self, writer: Writer, place: str = "") -> Any:
        writer.tell(self.id, self.cost, self.reward, self.penalty, self.arm)


class Void(RequestItem):
    """Nothing was done for this ticket."""

    path = "voids"
    summary = "Nothing was done for a ticket"
    roles = ("decide", "report")
    state = "voided"
    id: TicketId

    def do(self, writer: Writer, place: str = "") -> Any:
        writer.void(self.id)


class Amendment(RequestItem):
    """Other money for a ticket that was told."""

    path = "amendments"
    summary = "Other money for a ticket that was told"
    roles = ("report",)
    state = "told"
    forms = (
        Form(
            "amend",
            "Amend a ticket",
            "Other money for a ticket that was told, from a bill. What was learned from it stays.",
            "Amend",
            "The ticket was amended.",
            some_of=("cost", "penalty"),
        ),
    )
    id: TicketId
    cost: Annotated[
        float | None, form_input("Cost", "number", hint="Empty leaves it as it is.")
    ] = None
    penalty: Annotated[dict[str, float] | None, form_input("", "penalties", of="limit_names")] = (
        None
    )
    note: Note = None

    def do(self, writer: Writer, place: str = "") -> Any:
        writer.amend(self.id, self.cost, self.penalty, self.note)


# Changes: each is answered by the campaign's status after it.


class CampaignChange(TurnAct):
    """A change of a campaign."""

    method: ClassVar[str] = "POST"
    operation: ClassVar[str] = ""  # its name in the API, if not the last word of the path

    async def carry_out(self, service: Service, campaign: str, who: str, place: str) -> None:
        """Have it done in a turn."""
        await service.do(campaign, partial(self.do, place=place), who)


class Pause(CampaignChange):
    """Why no decisions are made; harmless if it is paused."""

    path = "pause"
    summary = "Make no decisions until it is resumed; reports are taken"
    forms = (
        Form(
            "pause",
            "Pause {name}?",
            "No decisions are made until it is resumed. Reports are still taken.",
            "Pause",
            "The campaign is paused.",
        ),
    )
    why: Annotated[str, form_input("Reason", hint="Kept in the log.")] = "by hand"
    note: str | None = None

    def do(self, writer: Writer, place: str = "") -> Any:
        writer.pause(self.why, self.note)


class Drain(CampaignChange):
    """No new decisions; what is in flight may be told."""

    path = "drain"
    summary = "As pause, with the reason 'drained'"

    def do(self, writer: Writer, place: str = "") -> Any:
        writer.pause("drained")


class Resume(CampaignChange):
    """Harmless if it is not paused."""

    path = "resume"
    summary = "Decide again"
    forms = (
        Form(
            "resume",
            "Resume {name}?",
            "It is paused: {status[why]}. Decisions are made again from now on.",
            "Resume",
            "The campaign decides again.",
        ),
    )

    def do(self, writer: Writer, place: str = "") -> Any:
        writer.resume()


class Close(CampaignChange):
    """Harmless if it is closed."""

    path = "close"
    summary = "Make no more decisions, for good; reports are taken"

    def do(self, writer: Writer, place: str = "") -> Any:
        writer.close()


class Pin(CampaignChange):
    """The arm to be pulled until further notice; null lets the policy decide again."""

    path = "pin"
    summary = "Pull one arm until further notice; null lets the policy decide again"
    forms = (
        Form(
            "pin",
            "Pin an arm?",
            "Every decision is this arm until it is unpinned. The limits are not looked after.",
            "Pin",
            "The arm is pinned.",
        ),
        Form(
            "unpin",
            "Unpin?",
            "The policy decides again, instead of {status[pinned]}.",
            "Unpin",
            "The policy decides again.",
            fixed={"arm": None},
        ),
    )
    arm: Annotated[int | str | None, form_input("Arm", "arm")]

    def do(self, writer: Writer, place: str = "") -> Any:
        writer.pin(self.arm)


class Budget(CampaignChange):
    """So much more budget, or another budget: at least what is spent and reserved.

    ``amount`` is not idempotent: look at the status before it is repeated; ``budget`` is.
    """

    path = "budget"
    summary = "Add so much to the budget, or set it"
    forms = (
        Form(
            "budget",
            "Add budget?",
            "The budget is {budget} now.",
            "Add budget",
            "The budget was added.",
            fixed={"budget": None},
            some_of=("amount",),
        ),
        Form(
            "set-budget",
            "Set the budget?",
            "The budget is {budget} now, and {used} of it is spent or reserved: it cannot be lower"
            " than that. Limits per unit of cost are kept over the new budget, so that a lower"
            " budget may end a promise.",
            "Set budget",
            "The budget was set.",
            fixed={"amount": None},
            some_of=("budget",),
        ),
    )
    amount: Annotated[float | None, form_input("Amount", "number")] = None
    budget: Annotated[float | None, form_input("Budget", "number")] = None

    def do(self, writer: Writer, place: str = "") -> Any:
        if (self.amount is None) == (self.budget is None):
            raise InputError("body: must have either amount, to add, or budget, to set")
        if self.amount is not None:
            writer.add_budget(self.amount)
        if self.budget is not None:
            writer.set_budget(self.budget)


class NewArm(CampaignChange):
    """A new arm, and what is known of it: nothing but what is said here."""

    path = "arms"
    summary = "Add an arm"
    name: str
    like: int | str | None = None  # an arm whose mean outcomes are expected of it
    weight: float | None = None  # as if seen in so many pulls
    cost: float | None = None  # its price, where the task knows costs
    penalty: dict[str, float] | None = None  # those that the task knows

    def do(self, writer: Writer, place: str = "") -> Any:
        writer.add_arm(**_given(self))


class Retirement(CampaignChange):
    """By the arm's name; its tickets in flight may still be told."""

    path = "arms/{arm}"
    method = "DELETE"
    operation = "retire"
    summary = "Never pull an arm again"
    forms = (
        Form(
            "retire",
            "Retire an arm?",
            "It is never pulled again, and this cannot be undone."
            " Reports of its tickets in flight are taken.",
            "Retire",
            "The arm is retired.",
            "bad",
        ),
    )

    def do(self, writer: Writer, place: str = "") -> Any:
        names = writer.core.controller.task.names
        if place not in names:
            raise NotFoundError(f"arm {shown(place)}: is unknown; known: {', '.join(names[:20])}")
        writer.retire_arm(place)


class ChangeRequest(CampaignChange):
    """A new policy learns again from every report in the log; decisions go on meanwhile."""

    path = "change"
    summary = "Other limits, another policy, another expiry or on_overrun from here on"
    limits: dict[str, Any] | None = None
    policy: str | None = None
    expire_after: float | None = None
    per_day: float | None = None
    on_overrun: str | None = None  # pause, alert

    async def carry_out(self, service: Service, campaign: str, who: str, place: str) -> None:
        given = _given(self)
        if not given:
            fields = "limits, policy, expire_after, per_day or on_overrun"
            raise InputError(f"body: must have {fields}")
        if self.policy is not None:
            require_installed(self.policy)
        await service.change(campaign, who, **given)


class Correction(CampaignChange):
    """A quarantined report as it should have been; ``id`` where the report's own is wrong."""

    path = "quarantine/{number}/correct"
    summary = "Tell a refused report as it should have been"
    forms = (
        Form(
            "correct",
            "Correct report {place}",
            "Report {place} was refused. It is taken as it stands here, and its ticket settled.",
            "Take the report",
            "The report was taken.",
            roles=("report",),
            known=True,
        ),
    )
    id: Annotated[str | None, form_input("Ticket", name="ticket")] = None
    cost: AnyCost = None
    reward: AnyReward = None
    penalty: AnyPenalty = None

    def do(self, writer: Writer, place: str = "") -> Any:
        number = _quarantined(writer, place)
        id = writer.ledger.quarantine[number] if self.id is None else self.id
        if id is None:
            raise InputError("id: is missing; the report's own is none")
        writer.correct(number, id, self.cost, self.reward, self.penalty)


class Discard(CampaignChange):
    """What a refused report charged stays charged."""

    path = "quarantine/{number}/discard"
    summary = "Close a refused report that nobody will correct"
    forms = (
        Form(
            "discard",
            "Discard report {place}?",
            "Nobody will correct it. If its ticket was charged in full, it stays charged.",
            "Discard",
            "The report was discarded.",
            "bad",
        ),
    )
    note: Note = None

    def do(self, writer: Writer, place: str = "") -> Any:
        writer.discard(_quarantined(writer, place), self.note)


CHANGES: tuple[type[CampaignChange], ...] = (
    Pause, Drain, Resume, Close, Pin, Budget, NewArm, Retirement, ChangeRequest, Correction,
    Discard,
)  # fmt: skip
ITEMS: tuple[type[RequestItem], ...] = (DecisionRequest, ReportRequest, Void, Amendment)
FORMS: dict[str, tuple[type[TurnAct], Form]] = {
    form.action: (kind, form) for kind in (*ITEMS, *CHANGES) for form in kind.forms
}


def require_installed(policy: str) -> None:
    """Raise unless a policy is one that is installed: a file or a module would be run here."""
    name = policy.partition(":")[0]
    if ".py:" in policy or name not in known_policies():
        known = ", ".join(sorted(known_policies()))
        raise InputError(f"policy = {shown(policy)}: must be one of {known}")


def _given(one: Struct) -> dict[str, Any]:
    return {key: value for key, value in asdict(one).items() if value is not None}


def _quarantined(writer: Writer, place: str) -> int:
    """The number of a refused report that is in the path."""
    number = whole_of(place)
    if number is None or number not in writer.ledger.quarantine:
        raise NotFoundError(f"report {shown(place)}: is not in the quarantine")
    return number
