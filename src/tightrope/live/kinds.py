"""The kinds of events: their fields, and how the ledger, the policy and readers use them.

A kind is a class: its fields are the body of the event in JSON, ``enter`` changes the ledger
besides money, ``learn`` changes the policy's state, ``words`` describes the event. ``KINDS`` lists
them. Amounts of money are in ticks, per account; times are in microseconds.
"""

from __future__ import annotations

from base64 import b85decode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from tightrope.errors import InputError
from tightrope.live.ledger import Account, Open
from tightrope.live.past import PastSums

if TYPE_CHECKING:
    from tightrope.live.core import Core
    from tightrope.live.events import Event
    from tightrope.live.ledger import Ledger
    from tightrope.problem import Task

Amount = Callable[[float], str]  # money as text


class Body(Struct, omit_defaults=True, kw_only=True, gc=False):
    """The content of an event."""

    kind: ClassVar[str] = ""
    closes: ClassVar[bool] = False  # its ticket, if it is in flight
    moves: list[int] = []  # money: budget, spent, reserved of each account

    def enter(self, ledger: Ledger, event: Event) -> None:
        """Change the ledger, besides money and the ticket that the event closes."""

    def learn(self, core: Core, event: Event, closed: Open | None) -> None:
        """Change the policy's state, after the ledger."""

    def words(self, task: Task | None, amount: Amount) -> str:
        """The event in a few words; ``task`` has the names of the arms."""
        return ""


class Stateful(Body, kw_only=True):
    """An event with the policy's state, from which learning starts anew."""

    policy: str
    digest: str  # of the program that wrote the state
    settings: dict[str, Any]
    state: str  # a snapshot of the controller, in base 85
    program: str = ""  # the version that took over
    code: str = ""  # the SHA-256 of the policy's code, if it is not tightrope's

    @property
    def snapshot(self) -> bytes:
        """The policy's state."""
        return b85decode(self.state)

    def learn(self, core: Core, event: Event, closed: Open | None) -> None:
        core.take_state(self)

    def words(self, task: Task | None, amount: Amount) -> str:
        return f"policy {self.policy}"


class Created(Stateful, kw_only=True):
    """A campaign's task, policy, budget and settings."""

    kind: ClassVar[str] = "created"
    name: str
    budget: float
    seed: int = 0
    penalties: int  # how many
    accounts: list[tuple[str, int]]  # names, and the decimals of their ticks
    past: list[PastSums] = []  # of the log that was learned from, if there was one
    lines: str = ""  # of that log, where its lines have features; see ``PastLines``

    def enter(self, ledger: Ledger, event: Event) -> None:
        ledger.accounts = [Account(*account) for account in self.accounts]
        ledger.penalties = [0.0] * self.penalties

    def words(self, task: Task | None, amount: Amount) -> str:
        return f"budget {amount(self.budget)}, policy {self.policy}"


class Changed(Stateful):
    """Other limits, another policy or other settings."""

    kind: ClassVar[str] = "changed"


class Upgraded(Stateful):
    """Another version of the program."""

    kind: ClassVar[str] = "upgraded"

    def words(self, task: Task | None, amount: Amount) -> str:
        return f"program {self.program}, policy {self.policy}"


class Asked(Body):
    """A decision: a ticket, its arm, its reservation."""

    kind: ClassVar[str] = "asked"
    arm: int
    expires_at: int
    ttl: int | None = None  # time until it expires, if it was given
    eligible: list[int] | None = None  # the eligible arms, if they were given
    among: list[int] | None = None  # the arms it was chosen from, if they differ
    pinned: bool = False
    context: str | None = None  # the type of the request, where the task has contexts
    features: str | None = None  # of the request, or their digest; see ``vectors``

    @property
    def allowed(self) -> list[int] | None:
        """The arms that it was chosen from; None for all."""
        return self.eligible if self.among is None else self.among

    def enter(self, ledger: Ledger, event: Event) -> None:
        assert event.ticket is not None
        ledger.open(event.ticket, self.opened(event, len(ledger.accounts)))
        if self.context is not None:
            ledger.ask_of_type(self.context)

    def opened(self, event: Event, accounts: int = 0) -> Open:
        """The ticket that the event puts in flight; ``accounts``: how many there are."""
        eligible = None if self.eligible is None else tuple(self.eligible)
        reserved = tuple(self.moves[2::3]) or (0,) * accounts
        return Open(
            event.seq, self.arm, reserved, event.at, self.expires_at, eligible, self.ttl, "open",
            self.context, self.features,
        )  # fmt: skip

    def learn(self, core: Core, event: Event, closed: Open | None) -> None:
        request = core.in_context(self.context, self.features)
        if not self.pinned:
            try:  # noqa: SIM105, a context takes longer than what is in it
                core.controller.pass_over(self.allowed, **request)
            except InputError:  # arms that another machine's arithmetic allowed
                pass
        core.launch(self.arm, request)

    def words(self, task: Task | None, amount: Amount) -> str:
        of_type = "" if self.context is None else f", {self.context}"
        return _arm(self.arm, task) + of_type + ", pinned" * self.pinned


class Told(Body):
    """The outcome of a ticket."""

    kind: ClassVar[str] = "told"
    closes: ClassVar[bool] = True
    arm: int
    values: list[float]  # as they were reported: cost, reward, penalties
    settled: list[int]  # money spent on the ticket
    penalties: list[float] | None = None  # [M], if they differ from the reported ones
    kept: list[float] | None = None  # the part of the values to learn from, if not all
    was: str | None = None  # the state of the ticket before
    undone: list[int] | None = None  # what it had been charged then
    corrected: list[int] = []  # refused reports of the ticket that this one replaces
    over: bool = False  # whether it is above the reservation or the largest value
    context: str | None = None  # the type of the request, where the task has contexts
    features: str | None = None  # of the request, if the ticket is not in flight; "" if erased

    @property
    def incurred(self) -> list[float]:
        """The penalties of all limits [M]."""
        return self.penalties or self.values[2:]

    @property
    def learned(self) -> list[float]:
        """The part of the values that is learned from."""
        return self.kept or self.values

    def enter(self, ledger: Ledger, event: Event) -> None:
        ledger.told += 1
        ledger.reward += self.values[1]
        for m, penalty in enumerate(self.incurred):
            ledger.penalties[m] += penalty
        if self.was is not None:
            ledger.expired -= self.was == "expired"
            ledger.late += self.was == "expired"
            ledger.voided -= self.was == "voided"
            for number in self.corrected:
                ledger.quarantine.pop(number, None)
        ledger.overruns += self.over
        if self.context is not None:
            ledger.report_of_type(self.context, self.arm, self.values[1], self.incurred)

    def learn(self, core: Core, event: Event, closed: Open | None) -> None:
        controller, learned = core.controller, self.kept or self.values
        if closed is None:  # late, or after a refused report or a void
            core.charge([-ticks for ticks in self.undone or ()])
            if self.features == "" and controller.policy.contextual:
                core.charge_report(self.values)
                return
        request = core.in_context(self.context, (closed or self).features)
        if closed is not None and closed.arm != self.arm:  # in shadow mode another arm was pulled
            controller.void(closed.arm, **request)
        if closed is None or closed.arm != self.arm:
            controller.launch(self.arm, **request)
        penalty = learned[2] if len(learned) == 3 else learned[2:]
        controller.tell(self.arm, learned[0], learned[1], penalty, **request)
        if self.kept is not None:
            pairs = zip(self.values, learned, strict=True)
            core.charge_report([value - part for value, part in pairs])

    def words(self, task: Task | None, amount: Amount) -> str:
        cost, reward, *penalties = self.values
        names = task.told_names if task else [f"penalty {m + 1}" for m in range(len(penalties))]
        parts = [f"cost {amount(cost)}", f"reward {reward:g}"]
        parts += [f"{name} {value:g}" for name, value in zip(names, penalties, strict=False)]
        parts += [f"was {self.was}"] * (self.was is not None) + ["overrun"] * self.over
        return f"{_arm(self.arm, task)}: {', '.join(parts)}"


class Voided(Body):
    """A ticket that was not used."""

    kind: ClassVar[str] = "voided"
    closes: ClassVar[bool] = True

    def enter(self, ledger: Ledger, event: Event) -> None:
        ledger.voided += 1

    def learn(self, core: Core, event: Event, closed: Open | None) -> None:
        if closed is not None:
            core.void(closed)


class Expired(Body):
    """A ticket without a report in time."""

    kind: ClassVar[str] = "expired"
    closes: ClassVar[bool] = True

    def enter(self, ledger: Ledger, event: Event) -> None:
        ledger.expired += 1

    def learn(self, core: Core, event: Event, closed: Open | None) -> None:
        core.forfeit(closed)


class Quarantined(Body):
    """A report that was refused."""

    kind: ClassVar[str] = "quarantined"
    closes: ClassVar[bool] = True
    why: str
    report: str = ""  # as JSON

    def enter(self, ledger: Ledger, event: Event) -> None:
        ledger.quarantine[event.seq] = event.ticket

    def learn(self, core: Core, event: Event, closed: Open | None) -> None:
        core.forfeit(closed)

    def words(self, task: Task | None, amount: Amount) -> str:
        return self.why


class Discarded(Body):
    """A discarded report, or a number of refused reports that were not stored."""

    kind: ClassVar[str] = "discarded"
    of: int = 0  # the number of its event
    refused: int = 0

    def enter(self, ledger: Ledger, event: Event) -> None:
        ledger.quarantine.pop(self.of, None)
        ledger.refused += self.refused

    def words(self, task: Task | None, amount: Amount) -> str:
        return f"report {self.of}" if self.of else f"{self.refused} refused and not kept"


class Amended(Body):
    """Other money for a ticket that was reported."""

    kind: ClassVar[str] = "amended"
    shifts: dict[int, float] = {}  # of penalties, by the limits' numbers
    over: bool = False  # whether it raises the money above the reservation or the largest value
    context: str | None = None  # the type of the request, where the task has contexts

    def enter(self, ledger: Ledger, event: Event) -> None:
        for m, shift in self.shifts.items():
            ledger.penalties[m] += shift
            if self.context is not None:
                ledger.types[self.context].penalties[m] += shift
        ledger.overruns += self.over

    def learn(self, core: Core, event: Event, closed: Open | None) -> None:
        core.charge(self.moves[1::3])

    def words(self, task: Task | None, amount: Amount) -> str:
        return "other money" + ", overrun" * self.over


class Paused(Body):
    """Decisions stop until the campaign is resumed."""

    kind: ClassVar[str] = "paused"
    why: str

    def enter(self, ledger: Ledger, event: Event) -> None:
        ledger.paused = self.why

    def words(self, task: Task | None, amount: Amount) -> str:
        return self.why


class Resumed(Body):
    """Decisions resume."""

    kind: ClassVar[str] = "resumed"

    def enter(self, ledger: Ledger, event: Event) -> None:
        ledger.paused, ledger.doubtful = None, []


class Closed(Body):
    """Decisions stop for good."""

    kind: ClassVar[str] = "closed"

    def enter(self, ledger: Ledger, event: Event) -> None:
        ledger.closed = True


class Pinned(Body):
    """All decisions are one arm, or the policy decides again."""

    kind: ClassVar[str] = "pinned"
    arm: int | None = None

    def enter(self, ledger: Ledger, event: Event) -> None:
        ledger.pinned = self.arm

    def words(self, task: Task | None, amount: Amount) -> str:
        return "none" if self.arm is None else _arm(self.arm, task)


class TypeAdded(Body):
    """A new type of requests, where they are added as they come."""

    kind: ClassVar[str] = "type_added"
    name: str

    def learn(self, core: Core, event: Event, closed: Open | None) -> None:
        if core.typed is not None:
            core.typed.kind_of(self.name)

    def words(self, task: Task | None, amount: Amount) -> str:
        return self.name


class TypesMerged(Body):
    """A type whose requests count for another one."""

    kind: ClassVar[str] = "types_merged"
    name: str
    into: str

    def learn(self, core: Core, event: Event, closed: Open | None) -> None:
        if core.typed is not None:
            core.typed.merge_types(self.name, self.into)

    def words(self, task: Task | None, amount: Amount) -> str:
        return f"{self.name} into {self.into}"


class ArmEvent(Body):
    """A change of an arm."""

    facts: dict[str, Any]  # the arguments of ``Controller.add_arm`` or ``Controller.reprice``

    def words(self, task: Task | None, amount: Amount) -> str:
        return ", ".join(f"{key} {value}" for key, value in self.facts.items())


class ArmAdded(ArmEvent):
    """A new arm."""

    kind: ClassVar[str] = "arm_added"

    def learn(self, core: Core, event: Event, closed: Open | None) -> None:
        core.add_arm(self.facts)


class ArmRetired(Body):
    """An arm that is never pulled again."""

    kind: ClassVar[str] = "arm_retired"
    arm: int

    def learn(self, core: Core, event: Event, closed: Open | None) -> None:
        core.controller.retire_arm(self.arm)

    def words(self, task: Task | None, amount: Amount) -> str:
        return _arm(self.arm, task)


class Repriced(ArmEvent):
    """Other known prices of an arm."""

    kind: ClassVar[str] = "repriced"

    def learn(self, core: Core, event: Event, closed: Open | None) -> None:
        core.reprice(event.seq, self.facts)


class BudgetSet(Body):
    """Another budget."""

    kind: ClassVar[str] = "budget_set"
    budget: float

    def learn(self, core: Core, event: Event, closed: Open | None) -> None:
        core.controller.set_budget(self.budget)

    def words(self, task: Task | None, amount: Amount) -> str:
        return f"budget {amount(self.budget)}"


class BudgetAdded(Body):
    """More budget, as versions before 0.3 wrote it."""

    kind: ClassVar[str] = "budget_added"
    amount: float

    def learn(self, core: Core, event: Event, closed: Open | None) -> None:
        core.controller.add_budget(self.amount)

    def words(self, task: Task | None, amount: Amount) -> str:
        return f"amount {amount(self.amount)}"


class ContextsErased(Body):
    """The features of requests were erased; the policy forgets its latest requests."""

    kind: ClassVar[str] = "contexts_erased"
    upto: int  # the event of the last request, except those in flight

    def learn(self, core: Core, event: Event, closed: Open | None) -> None:
        core.vectors.forget()
        core.forget_requests()

    def words(self, task: Task | None, amount: Amount) -> str:
        return f"up to event {self.upto}"


class Restored(Body):
    """The store was restored from a backup: a new epoch."""

    kind: ClassVar[str] = "restored"
    epoch: int
    doubtful: list[str]  # tickets of uncertain state

    def enter(self, ledger: Ledger, event: Event) -> None:
        ledger.epoch, ledger.paused = self.epoch, "restored from a backup"
        ledger.doubtful = list(self.doubtful)

    def words(self, task: Task | None, amount: Amount) -> str:
        return f"epoch {self.epoch}"


class Archived(Body):
    """Older events were moved to a file."""

    kind: ClassVar[str] = "archived"
    upto: int  # the last one
    hash: str  # of that event
    file: str  # SHA-256

    def words(self, task: Task | None, amount: Amount) -> str:
        return f"up to event {self.upto}"


KINDS: dict[str, type[Body]] = {
    one.kind: one
    for one in (
        Created, Asked, Told, Voided, Expired, Quarantined, Discarded, Amended, Paused, Resumed,
        Closed, Pinned, ArmAdded, ArmRetired, Repriced, BudgetSet, BudgetAdded, Changed, Upgraded,
        Restored, Archived, TypeAdded, TypesMerged, ContextsErased,
    )
}  # fmt: skip


def _arm(number: int, task: Task | None) -> str:
    return str(task.names[number]) if task else f"arm {number}"
