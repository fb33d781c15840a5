"""The events of one turn, and changes: pause, budget, arms, policy."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from operator import neg
from typing import Any

from tightrope.errors import (
    CampaignError,
    InputError,
)
from tightrope.live.change import Relearning
from tightrope.live.core import CampaignSettings, Core
from tightrope.live.events import VERSION, Event, Row, encode, stored, text_of
from tightrope.live.kinds import (
    ArmAdded,
    ArmRetired,
    Body,
    BudgetSet,
    Changed,
    Closed,
    Expired,
    Paused,
    Pinned,
    Repriced,
    Resumed,
    TypesMerged,
)
from tightrope.live.ledger import MOST_TICKS, Account, Open, hard_totals, known_amount, moved
from tightrope.live.log import events_of
from tightrope.live.stores import Turn
from tightrope.live.tickets import Past, good_id
from tightrope.problem import check_budget
from tightrope.problem.values import shown

MOST_EXPIRIES = 256  # in one turn


class ChangeWriter:
    """The events of one turn: applies them and collects the rows to store."""

    def __init__(
        self, core: Core, before: bytes, turn: Turn, who: str, wanted: Iterable[str] = ()
    ) -> None:
        """``wanted``: tickets of the turn; those not in flight are looked up together."""
        self.core, self.ledger, self.hash, self.who = core, core.ledger, before, who
        self.turn, self.clock = turn, turn.now()
        self.now = max(self.clock, self.ledger.at)
        self.rows: list[Row] = []
        self.notes: dict[int, str] = {}
        self.drop = 0  # the last event to remove, because it is archived
        self._known: dict[str, list[Row]] = {}  # all rows of tickets that were looked up
        flying = self.ledger.tickets
        if past := sorted({one for one in wanted if one not in flying and good_id(one)}):
            self._known = {ticket: [] for ticket in past}
            for row in turn.find(past):
                self._known[row.ticket or ""].append(row)
        self.overflow = 0  # refused reports that were not stored

    def emit(
        self,
        body: Body,
        ticket: str | None = None,
        *,
        note: str | None = None,
        chosen: Mapping[str, Any] | None = None,
    ) -> int:
        """Apply an event, then keep it for the log; returns its number."""
        seq, at, kind, who = self.ledger.seq + 1, self.now, body.kind, self.who
        row = stored(self.hash, seq, at, kind, ticket, who, VERSION, text_of(body))
        own = row.hash
        self.core.follow(Event(seq, at, kind, ticket, who, VERSION, body, own), chosen)
        self.rows.append(row)
        if ticket in self._known:
            self._known[ticket].append(row)
        self.hash = own
        if note:
            self.notes[seq] = note
        return seq

    def expire(self) -> None:
        """Expire tickets that are due, in the order of their expiry."""
        for _ in range(MOST_EXPIRIES):
            name = self.ledger.first_due(self.now)
            if name is None:
                return
            self.emit(Expired(moves=self._charged(self.ledger.tickets[name])), name)

    def _charged(self, one: Open) -> list[int]:
        """The money moved when a reservation is charged in full."""
        return moved(spent=one.reserved, reserved=map(neg, one.reserved))

    def past(self, ticket: str) -> Past | None:
        """A ticket that is not in flight, from the log and from this turn."""
        rows = self._known.get(ticket)
        if rows is None:
            if not good_id(ticket):
                return None
            mine = [row for row in self.rows if row.ticket == ticket]
            rows = self._known[ticket] = [*self.turn.find([ticket]), *mine]
        return Past.of_rows(rows)

    # Changes.

    def pause(self, why: str, note: str | None = None) -> None:
        """Stop decisions; harmless if the campaign is paused."""
        if not why or not isinstance(why, str):
            raise InputError(f"why = {shown(why)}: must be a reason in words")
        require_text(why, "why")
        require_text(note, "note")
        if self.ledger.paused is None:
            self.emit(Paused(why), note=note)

    def resume(self) -> None:
        """Decide again."""
        if self.ledger.closed:
            raise CampaignError("the campaign is closed; it cannot be resumed", "closed")
        if self.ledger.paused is not None:
            self.now = max(self.now, self.clock)  # log time stood still if the clock had jumped
            self.emit(Resumed())

    def close(self) -> None:
        """Stop decisions for good; reports are still accepted."""
        if not self.ledger.closed:
            self.emit(Closed())

    def pin(self, arm: Any) -> None:
        """Always pull one arm, or let the policy decide."""
        controller = self.core.controller
        if self.ledger.closed:
            raise CampaignError("the campaign is closed; no arm can be pinned", "closed")
        number = None if arm is None else controller.given_number(arm)
        if number is not None and controller.arm_name(number) in controller.retired:
            raise InputError(f"arm = {shown(arm)}: is retired; must be an arm that can be pulled")
        if number != self.ledger.pinned:
            self.emit(Pinned(number))

    def add_budget(self, amount: float) -> None:
        """Add to the budget; limits in total stay the same."""
        account = self.ledger.accounts[0]
        if isinstance(amount, int | float) and amount > account.amount(MOST_TICKS):
            most = account.amount(MOST_TICKS - 1 - account.budget)
            raise InputError(f"amount = {amount!r}: must be at most {most:g} for this campaign")
        allowed = "a positive number"
        if not known_amount(amount, "amount", allowed):
            raise InputError(f"amount = {shown(amount)}: must be {allowed}")
        ticks = account.ticks(amount)
        if not ticks:
            least = account.amount(1)
            raise InputError(f"amount = {amount!r}: must be at least {least:g} for this campaign")
        if account.budget + ticks >= MOST_TICKS:
            most = account.amount(MOST_TICKS - 1 - account.budget)
            raise InputError(f"amount = {amount!r}: must be at most {most:g} for this campaign")
        self._set_budget(self.core.controller.budget + float(amount), account.budget + ticks)

    def set_budget(self, budget: float) -> None:
        """Change the budget, to at least what is spent and reserved; limits in total stay."""
        account = self.ledger.accounts[0]
        wanted, least, most = check_budget(budget), account.amount(1), account.amount(MOST_TICKS)
        if not least <= wanted < most:
            allowed = f"lie between {least:g} and {most:g} for this campaign"
            raise InputError(f"budget = {budget!r}: must {allowed}")
        if wanted != self.core.controller.budget:
            self._set_budget(wanted, account.ticks(wanted))

    def _set_budget(self, budget: float, ticks: int) -> None:
        accounts, task = self.ledger.accounts, self.core.controller.task
        hard = map(Account.ticks, accounts[1:], hard_totals(task, budget))
        changes = []
        for account, total in zip(accounts, [ticks, *hard], strict=True):
            if total < min(account.budget, account.spent + account.reserved):
                raise InputError(
                    f"budget = {budget:.15g}: {self._at_least(account, budget, total)}"
                )
            changes.append(total - account.budget)
        self._try(BudgetSet(budget, moves=moved(changes)))

    def _at_least(self, account: Account, budget: float, total: int) -> str:
        """The smallest budget, for a message; this account would have ``total`` ticks."""
        spent, reserved = account.amount(account.spent), account.amount(account.reserved)
        used, least = account.amount(account.spent + account.reserved), ""
        if account is not self.ledger.accounts[0]:
            least = f" of hard limit {account.name!r}"
            used *= budget / account.amount(total)
        text = f"{spent:.15g}{least} is spent and {reserved:.15g} is reserved"
        return f"must be at least {used:.15g}, because {text}"

    def add_arm(self, **facts: Any) -> int:
        """Add an arm; see :meth:`Controller.add_arm`."""
        self._try(ArmAdded(_plain_facts("arm_added", facts)))
        return self.core.controller.task.arm_count - 1

    def reprice(self, **facts: Any) -> None:
        """Change the known prices of an arm; see :meth:`Controller.reprice`."""
        self._try(Repriced(_plain_facts("repriced", facts)))

    def retire_arm(self, arm: int | str) -> None:
        """Never pull an arm again."""
        number = self.core.controller.given_number(arm)
        if number == self.ledger.pinned:
            raise InputError(f"arm = {shown(arm)}: is pinned; must be unpinned first")
        if self.core.controller.arm_name(number) not in self.core.controller.retired:
            self._try(ArmRetired(number))

    def merge_types(self, name: str, into: str) -> None:
        """Count requests of one type for another one; harmless if they are already."""
        typed = self.core.typed
        if typed is None:
            raise InputError(f"type = {shown(name)}: is unknown; the task has no contexts")
        if typed.types.merged.get(name) != into:
            self._try(TypesMerged(name, into))

    def change(
        self,
        learning: Relearning | None,
        rest: Sequence[Row],
        text: str,
        settings: CampaignSettings,
        digest: str,
    ) -> None:
        """Continue with a policy that has learned from the log, or with other settings."""
        core, ledger = self.core, self.ledger
        trial = Core(core.given)
        trial.controller, trial.policy_text, trial.digest = core.controller, text, digest
        trial.settings = settings
        moves = [0] * (3 * len(ledger.accounts))
        if learning is not None:
            learning.follow(events_of([*rest, *self.rows]))
            trial.controller = learning.finish(core)
            totals = hard_totals(trial.controller.task, trial.controller.budget)
            for i, total in enumerate(totals, start=1):
                moves[3 * i] = ledger.accounts[i].ticks(total) - ledger.accounts[i].budget
        self.emit(Changed(**trial.state(), moves=moves))

    def _try(self, body: Body) -> None:
        """Emit an event after a copy of the controller has checked its arguments."""
        if self.ledger.closed:
            raise CampaignError("the campaign is closed; it cannot be changed", "closed")
        trial = ChangeWriter(
            Core.restore(self.core.snapshot(), self.core.given), self.hash, self.turn, ""
        )
        try:
            trial.emit(body)
        except CampaignError as error:
            if isinstance(error.__cause__, InputError):
                raise error.__cause__ from None
            raise
        self.emit(body)


def _plain_facts(kind: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as plain JSON values."""
    try:
        made = dict(json.loads(json.dumps(facts, default=lambda value: value.item())))
        encode(made)  # raises for half of a surrogate pair
    except (TypeError, ValueError, AttributeError):
        what = {"arm": dict(facts)}
        raise InputError(f"{kind}: {shown(what)}: must be plain numbers and words") from None
    return made


def require_text(note: str | None, place: str) -> None:
    """Raise unless every store can keep a note."""
    if note is not None and not (isinstance(note, str) and storable(note)):
        raise InputError(f"{place} = {shown(note)}: must be text")


def storable(text: str) -> bool:
    """Whether every store can keep a text."""
    return "\0" not in text and not any("\ud800" <= one <= "\udfff" for one in text)
