"""The changes of a campaign, each described once: its fields, what it does, how it reads.

A change is a class of ``CHANGES``. HTTP decodes and documents its fields and has it done in a turn;
the pages make its forms; the client sends it by its name; the shell makes its commands. Another
change is another class there. This module imports only errors and forms: the client needs no more.

Unknown fields are refused: a misspelled one would be a silent default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from tightrope.change_forms import (
    AnyCost,
    AnyPenalty,
    AnyReward,
    FieldInput,
    Form,
    KnownCost,
    KnownPenalty,
    Note,
    ShellForm,
    said_of,
)  # fmt: skip
from tightrope.errors import InputError, NotFoundError, nearest

TICKET_SCHEMA = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]{1,128}$"}
Writer: TypeAlias = Any  # ``tightrope.live.writer.Writer``, in a turn


class TurnAct(Struct, forbid_unknown_fields=True):
    """Something that is done in a turn."""

    path: ClassVar[str] = ""  # below the campaign's; may name an arm, or a report's number
    summary: ClassVar[str] = ""
    roles: ClassVar[tuple[str, ...]] = ("admin",)  # of those who may do it over HTTP
    forms: ClassVar[tuple[Form, ...]] = ()

    def do(self, writer: Writer, place: str = "") -> Any:
        """Do it."""
        raise NotImplementedError

    @classmethod
    def place(cls) -> str:
        """What the path names besides the campaign: an arm, or a report's number."""
        return cls.path.partition("{")[2].partition("}")[0]


def inputs_of(kind: type[TurnAct]) -> Iterator[tuple[msgspec.inspect.Field, FieldInput]]:
    """The fields that are described, and how they are filled in."""
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    for one in info.fields:
        extra = getattr(one.type, "extra", None) or {}
        if "input" in extra:
            yield one, extra["input"]


class CampaignChange(TurnAct):
    """A change of a campaign; over HTTP the answer is the status after it."""

    method: ClassVar[str] = "POST"
    operation: ClassVar[str] = ""  # its name, if not the last word of the path
    commands: ClassVar[tuple[ShellForm, ...]] = ()
    some_of: ClassVar[tuple[str, ...]] = ()  # fields of which one is needed
    learns: ClassVar[bool] = False  # whether the log is read before the turn, by ``prepared``
    repeats: ClassVar[bool] = False  # whether doing it twice is harmless

    def said(self, place: str, status: Mapping[str, Any]) -> str:
        """What was done, in words; "" if the campaign's state says it."""
        return ""

    def prepared(self, campaign: Any) -> Callable[[Writer], Any]:
        """What is done in a turn, after the campaign's log was read."""
        raise NotImplementedError

    def given(self) -> dict[str, Any]:
        """The fields that are not null."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    def require_some(self, place: str = "body", mark: str = "") -> None:
        """Raise if it says nothing; ``mark``: before the names of fields."""
        if self.some_of and not self.given():
            *most, last = [
                f"{mark}{one.replace('_', '-') if mark else one}" for one in self.some_of
            ]
            raise InputError(f"{place}: must have {', '.join(most)} or {last}")


class Pause(CampaignChange):
    """Why no decisions are made; harmless if it is paused."""

    path = "pause"
    summary = "Make no decisions until the campaign is resumed; reports are taken"
    repeats = True
    commands = (ShellForm("pause"),)
    forms = (
        Form(
            "pause",
            "Pause {name}?",
            "No decisions are made until it is resumed. Reports are still taken.",
            "Pause",
            "The campaign is paused.",
        ),
    )
    why: Annotated[str, said_of("the reason", "Reason", hint="Kept in the log.")] = "by hand"
    note: Annotated[str | None, said_of("kept beside the log, for people")] = None

    def do(self, writer: Writer, place: str = "") -> Any:
        writer.pause(self.why, self.note)


class Drain(CampaignChange):
    """No new decisions; what is in flight may be told."""

    path = "drain"
    summary = "As pause, with the reason 'drained'"
    repeats = True

    def do(self, writer: Writer, place: str = "") -> Any:
        writer.pause("drained")


class Resume(CampaignChange):
    """Harmless if it is not paused."""

    path = "resume"
    summary = "Decide again after a pause"
    repeats = True
    commands = (ShellForm("resume"),)
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
    summary = "Make no more decisions, for good; reports are still taken"
    repeats = True
    commands = (ShellForm("close"),)

    def do(self, writer: Writer, place: str = "") -> Any:
        writer.close()


class Pin(CampaignChange):
    """The arm to be pulled until further notice; null lets the policy decide again."""

    path = "pin"
    summary = "Pull one arm until further notice; none lets the policy decide again"
    repeats = True
    commands = (ShellForm("pin"),)
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
    arm: Annotated[
        int | float | str | None,
        said_of("an arm's name or number, or none", "Arm", kind="arm", metavar="ARM|none"),
    ]

    def do(self, writer: Writer, place: str = "") -> Any:
        writer.pin(self.arm)

    def said(self, place: str, status: Mapping[str, Any]) -> str:
        return "no arm is pinned" if self.arm is None else f"arm {status['pinned']!r} is pinned"


class Budget(CampaignChange):
    """So much more budget, or another budget: at least what is spent and reserved.

    ``amount`` is not idempotent: look at the status before it is repeated; ``budget`` is.
    """

    path = "budget"
    summary = "Add so much to the budget, or set it"
    commands = (
        ShellForm("add-budget", "amount", "Add to the budget; limits in total stay"),
        ShellForm(
            "set-budget",
            "budget",
            "Raise or lower the budget; it must cover what is spent and reserved."
            " Limits in total stay",
        ),
    )
    forms = (
        Form(
            "budget",
            "Add budget?",
            "The budget is {budget} now. The campaign can spend the amount from the next decision"
            " on. Limits in total stay as they are.",
            "Add budget",
            "The budget was added.",
            fixed={"budget": None},
            some_of=("amount",),
        ),
        Form(
            "set-budget",
            "Set the budget?",
            "The budget is {budget} now. The least is {used}, which is spent or reserved: with it,"
            " no further decision is made. Limits per unit of cost apply to the new budget, so a"
            " lower budget can end a promise.",
            "Set budget",
            "The budget was set.",
            fixed={"amount": None},
            some_of=("budget",),
        ),
    )
    amount: Annotated[
        float | None, said_of("so much more, in the task's cost units", "Amount", kind="number")
    ] = None
    budget: Annotated[
        float | None, said_of("the whole budget from here on", "Budget", kind="number")
    ] = None

    def do(self, writer: Writer, place: str = "") -> Any:
        if (self.amount is None) == (self.budget is None):
            raise InputError("body: must have either amount, to add, or budget, to set")
        if self.amount is not None:
            writer.add_budget(self.amount)
        if self.budget is not None:
            writer.set_budget(self.budget)

    def said(self, place: str, status: Mapping[str, Any]) -> str:
        if self.amount is not None:
            return f"{self.amount:,g} is added"
        promise = f"; {status['promise']}" if status["promise"] else ""
        return f"the budget is {self.budget:,g}{promise}"


class NewArm(CampaignChange):
    """A new arm, and what is known of it: nothing but what is said here."""

    path = "arms"
    summary = "Add an arm; nothing is known of it but what is said here"
    commands = (ShellForm("add-arm"),)
    forms = (
        Form(
            "add-arm",
            "Add an arm?",
            "The policy can pull it from the next decision on, and pulls it more often at first to"
            " learn about it. Your system must know the name. An arm cannot be removed, only"
            " retired.",
            "Add arm",
            "The arm was added.",
        ),
    )
    name: Annotated[str, said_of("its name", "Name", metavar="ARM")]
    like: Annotated[
        int | str | None,
        said_of("another arm, whose mean outcomes are expected of it", "Similar arm", kind="arm",
                hint="Optional. Its mean outcomes are expected of the new arm."),
    ] = None  # fmt: skip
    weight: Annotated[
        float | None,
        said_of("as if seen in so many pulls; default 10", "Weight", kind="number",
                hint="Optional. How many pulls that expectation counts as; default 10."),
    ] = None  # fmt: skip
    cost: KnownCost = None
    penalty: KnownPenalty = None

    def do(self, writer: Writer, place: str = "") -> Any:
        writer.add_arm(**self.given())

    def said(self, place: str, status: Mapping[str, Any]) -> str:
        return f"arm {self.name!r} is added"


class Retirement(CampaignChange):
    """By the arm's name; its tickets in flight may still be told."""

    path = "arms/{arm}"
    method = "DELETE"
    operation = "retire"
    summary = "Never pull an arm again; its tickets in flight may still be told"
    repeats = True
    commands = (ShellForm("retire-arm"),)
    forms = (
        Form(
            "retire",
            "Retire an arm?",
            "It is never pulled again, and this cannot be undone. The other arms get its share."
            " Reports of its tickets in flight are taken.",
            "Retire",
            "The arm is retired.",
            "bad",
        ),
    )

    def do(self, writer: Writer, place: str = "") -> Any:
        writer.retire_arm(_known_arm(writer, place))

    def said(self, place: str, status: Mapping[str, Any]) -> str:
        return f"arm {place!r} is retired"


class Reprice(CampaignChange):
    """By the arm's name; tickets in flight keep the prices they were asked for at."""

    path = "arms/{arm}/price"
    operation = "reprice"
    summary = "Give an arm another known cost, or other known penalties, from here on"
    repeats = True
    commands = (ShellForm("reprice"),)
    some_of = ("cost", "penalty")
    cost: KnownCost = None
    penalty: KnownPenalty = None

    def do(self, writer: Writer, place: str = "") -> Any:
        writer.reprice(arm=_known_arm(writer, place), **self.given())

    def said(self, place: str, status: Mapping[str, Any]) -> str:
        return f"arm {place!r} has another price"


class MergeTypes(CampaignChange):
    """Requests of one type count for another one, also those before."""

    path = "merge-types"
    summary = "Count requests of one type for another one, also those before"
    repeats = True
    commands = (ShellForm("merge-types", example="code math"),)
    forms = (
        Form(
            "merge-types",
            "Merge two types of requests?",
            "Requests of the first type count for the second one from now on, and so do all earlier"
            " ones. The policy learns about both together. This cannot be undone.",
            "Merge",
            "The types are merged.",
            "bad",
        ),
    )
    type: Annotated[str, said_of("the type that ends", "Type", kind="type")]
    into: Annotated[str, said_of("the type that its requests count for", "Into", kind="type")]

    def do(self, writer: Writer, place: str = "") -> Any:
        writer.merge_types(self.type, self.into)

    def said(self, place: str, status: Mapping[str, Any]) -> str:
        return f"type {self.type!r} is merged into {self.into!r}"


class ChangeRequest(CampaignChange):
    """A new policy learns again from every report in the log; decisions go on meanwhile."""

    path = "change"
    summary = "Other limits, another policy, expiry, on_overrun or types from here on"
    learns = True
    some_of = ("limits", "policy", "expire_after", "per_day", "on_overrun", "contexts")
    forms = (
        Form(
            "limits",
            "Change a limit?",
            "So far: {rates}. A new limit counts for the whole campaign, also for what has"
            " happened. The policy learns again from every report in the log, and decisions go on"
            " meanwhile. A promise for the old limit ends.",
            "Change limits",
            "The limits were changed.",
            some_of=("limits",),
        ),
    )
    limits: Annotated[
        dict[str, Any] | None, said_of("", "", kind="limits", hint="Such as 5 % or 0.05.")
    ] = None
    policy: str | None = None
    expire_after: float | None = None
    per_day: float | None = None
    on_overrun: str | None = None  # pause, alert
    contexts: list[str] | dict[str, Any] | None = None  # types of requests, as in a task's table

    def prepared(self, campaign: Any) -> Callable[[Writer], Any]:
        made: Callable[[Writer], Any] = campaign.prepared_change(**self.given())
        return made


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
    id: Annotated[str | None, said_of("", "Ticket", name="ticket")] = None
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
    Pause, Drain, Resume, Close, Pin, Budget, NewArm, Retirement, Reprice, MergeTypes,
    ChangeRequest, Correction, Discard,
)  # fmt: skip
Action: TypeAlias = Literal[  # the names of these, for type checkers
    "pause", "drain", "resume", "close", "pin", "budget", "arms", "retire", "reprice",
    "merge-types", "change", "correct", "discard",
]  # fmt: skip


def name_of(kind: type[CampaignChange]) -> str:
    """The name of a change, in the API and the client."""
    return kind.operation or kind.path.rpartition("/")[2]


def change_named(name: str) -> type[CampaignChange]:
    """The change with this name."""
    known = {name_of(kind): kind for kind in CHANGES}
    if name not in known:
        raise InputError(f"action {name!r:.80} is unknown; {nearest(str(name), known)}")
    return known[name]


def _known_arm(writer: Writer, arm: str) -> str:
    """An arm that is in the path, by its name."""
    names = writer.core.controller.task.names
    if arm not in names:
        raise NotFoundError(f"arm {arm!r:.80}: is unknown; known: {', '.join(names[:20])}")
    return arm


def _quarantined(writer: Writer, place: str) -> int:
    """The number of a refused report that is in the path."""
    for number in writer.ledger.quarantine:
        if str(number) == str(place):
            return int(number)
    raise NotFoundError(f"report {place!r:.80}: is not in the quarantine")
