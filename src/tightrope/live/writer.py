"""What happens to a campaign within one turn: decisions, reports and changes become events.

Promises kept here:

P2 *Conservation*, in part: a decision is made only if its reservation is free. A report or an
   amendment above the reservation is recorded in full and pauses the campaign, unless the campaign
   was created to go on (``on_overrun="alert"``).
P3 *Exactly once.* A client's id is looked up, among the tickets in flight and in the log, before
   anything is decided or recorded.
P4 *Nothing lost.* A report that cannot be taken is refused and kept, up to a bound.
P5 *Expiry.* Due tickets expire by events, at most 256 in one turn, before anything else happens.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from operator import neg, sub
from typing import Any

from tightrope.errors import (
    CampaignError,
    ConflictError,
    InputError,
    ReportError,
    nearest,
)
from tightrope.live.change import Relearning
from tightrope.live.core import CampaignSettings, Core, hard_totals, known_amount
from tightrope.live.events import VERSION, Event, Row, encode, stored, text_of
from tightrope.live.kinds import (
    Amended,
    ArmAdded,
    ArmRetired,
    Asked,
    Body,
    BudgetSet,
    Changed,
    Closed,
    Discarded,
    Expired,
    Paused,
    Pinned,
    Quarantined,
    Repriced,
    Resumed,
    Told,
    Voided,
)
from tightrope.live.ledger import MOST_TICKS, Account, Open, moved
from tightrope.live.log import events_of
from tightrope.live.stores import Turn
from tightrope.live.tickets import OWN_ID, Past, Ticket, good_id
from tightrope.problem import check_budget
from tightrope.problem.values import shown

__all__ = ["MOST_EXPIRIES", "Writer"]

MOST_EXPIRIES = 256  # in one turn
LONGEST = 2000  # characters of a refused report that are kept


class Writer:
    """One turn's work: it chooses, follows its own events, and keeps the rows to be stored."""

    def __init__(
        self, core: Core, before: bytes, turn: Turn, who: str, wanted: Iterable[str] = ()
    ) -> None:
        """``wanted``: tickets that will be met; those not in flight are looked up together."""
        self.core, self.ledger, self.hash, self.who = core, core.ledger, before, who
        self.turn, self.clock = turn, turn.now()
        self.now = max(self.clock, self.ledger.at)
        self.rows: list[Row] = []
        self.notes: dict[int, str] = {}
        self.drop = 0  # the last event to be removed, as it is archived
        self._known: dict[str, list[Row]] = {}  # all rows of tickets that were looked up
        flying = self.ledger.tickets
        if past := sorted({one for one in wanted if one not in flying and good_id(one)}):
            self._known = {ticket: [] for ticket in past}
            for row in turn.find(past):
                self._known[row.ticket or ""].append(row)
        self.overflow = 0  # refused reports that were not kept

    def emit(
        self,
        body: Body,
        ticket: str | None = None,
        *,
        note: str | None = None,
        chosen: bool = False,
    ) -> int:
        """Follow an event, then keep it for the log; returns its number."""
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
        """Expire tickets that are due, in the order of their times."""
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

    # Decisions.

    def ask(
        self,
        ticket: str | None,
        eligible: Sequence[int | str] | None,
        ttl: int | None = None,
    ) -> Ticket:
        """A decision, or the one that was made for the same id before.

        ``ttl``: how long it is waited for, in microseconds, if not as long as usual.
        """
        allowed = None if eligible is None else self._numbers(eligible)
        if ticket is not None:
            found = self._repeated(ticket, allowed, ttl)
            if found is not None:
                return found
            ticket = str(ticket)
        core, ledger = self.core, self.ledger
        arm, among = core.choose(self.now, allowed)
        if ticket is None:
            ticket = f"{ledger.epoch}-{ledger.asked + 1:08d}"
        expires = self.now + (core.settings.expire_after if ttl is None else ttl)
        body = Asked(
            arm,
            expires,
            ttl,
            None if allowed is None else list(allowed),
            None if among is None or among == allowed else list(among),
            ledger.pinned is not None,
            moves=core.reserving[arm],
        )
        self.emit(body, ticket, chosen=not body.pinned)
        return Ticket.of(core, ticket, ledger.tickets[ticket])

    def _repeated(
        self, ticket: str, allowed: tuple[int, ...] | None, ttl: int | None
    ) -> Ticket | None:
        """The ticket that an id was given before, if its arguments are the same."""
        if not good_id(ticket):
            allowed_ids = "1 to 128 visible ASCII characters"
            raise InputError(f"id = {shown(ticket)}: must be {allowed_ids}")
        found = self.ledger.tickets.get(ticket) or self.past(ticket)
        if found is None:
            if OWN_ID.fullmatch(ticket):
                raise InputError(f"id = {ticket!r}: must not look like an id that is given here")
            return None
        if found.eligible != allowed:
            raise ConflictError(f"id = {ticket!r}: was asked for with other eligible arms")
        if found.ttl != ttl:
            raise ConflictError(f"id = {ticket!r}: was asked for with another expiry")
        return Ticket.of(self.core, ticket, found)

    def check_ids(
        self,
        ids: Iterable[str | None],
        eligible: Sequence[int | str] | None,
        ttl: int | None = None,
    ) -> None:
        """Raise unless all of these ids can be asked for."""
        allowed = None if eligible is None else self._numbers(eligible)
        for one in ids:
            if one is not None:
                self._repeated(one, allowed, ttl)

    def _numbers(self, eligible: Sequence[int | str]) -> tuple[int, ...]:
        if isinstance(eligible, str) or not isinstance(eligible, Iterable) or not len(eligible):
            raise InputError(f"eligible = {shown(eligible)}: must be a list of arms")
        return tuple(sorted({self.core.controller.number_of(arm) for arm in eligible}))

    # Reports.

    def tell(
        self, ticket: str, cost: Any, reward: Any, penalty: Any, arm: int | str | None = None
    ) -> None:
        """Take the outcome of a ticket, once."""
        ledger, given, ticket = self.ledger, ticket, _plain(ticket)
        one = ledger.tickets.get(ticket)
        past = None if one is not None else self.past(ticket)
        found = one or past
        if found is None:
            hint = f"; {nearest(ticket, ledger.tickets)}" if len(ledger.tickets) < 100 else ""
            error = f"ticket = {shown(given)}: is unknown{hint if 'mean' in hint else ''}"
            raise self._refused(ReportError, None, error, given, cost, reward, penalty)
        try:
            number = found.arm if arm is None else self._acted(arm, found.arm)
            reserved = found.reserved if number == found.arm else ()
            body = self.core.outcome(number, cost, reward, penalty, reserved, found.seq)
        except InputError as error:
            if past is not None and past.state == "told":
                error = InputError(f"ticket {ticket!r}: was told otherwise; {error}")
                raise self._refused(
                    ConflictError, None, str(error), ticket, cost, reward, penalty
                ) from None
            text = f"ticket {ticket!r}: {error}"
            raise self._refused(ReportError, one, text, ticket, cost, reward, penalty) from None
        if past is not None and past.state == "told":
            self._told_again(ticket, past, body, (cost, reward, penalty))
        else:
            self._take(ticket, found, past, body)

    def _acted(self, arm: int | str, decided: int) -> int:
        """The arm that was pulled; it may be another one where another system acts."""
        number = int(self.core.controller.number_of(arm))  # True is a number too
        if number != decided and not self.core.settings.shadow:
            name = self.core.controller.arm_name(decided)
            raise InputError(f"arm = {shown(arm)}: must be {name!r}, which was decided")
        return number

    def _told_again(self, ticket: str, past: Past, body: Told, report: tuple[Any, ...]) -> None:
        assert past.told is not None
        if past.told.values == body.values and past.arm == body.arm:
            return
        text = f"ticket {ticket!r}: was told {_said(past.told.values)}, now {_said(body.values)}"
        raise self._refused(ConflictError, None, text, ticket, *report)

    def _take(self, ticket: str, found: Open, past: Past | None, body: Told) -> None:
        reserves, moves = self.core.settings.reserves, list[int]()
        reserved = found.reserved or (0,) * len(body.settled)
        for account, spent in enumerate(body.settled):
            held = reserved[account]
            moves += 0, spent, -held
            if spent > held and reserves:
                body.over = True
        body.moves = moves
        if past is not None:  # nothing is reserved for it any more
            paid: Iterable[int] = body.settled
            body.was, body.over = past.state, body.over or past.state == "voided"
            if past.state in ("expired", "quarantined"):
                body.undone, body.corrected = list(reserved), list(past.refused)
                paid = map(sub, paid, reserved)
            body.moves = moved(spent=paid)
        self.emit(body, ticket)
        if body.over:
            self._act_on_overrun(body, ticket)

    def _act_on_overrun(self, body: Told | Amended, ticket: str) -> None:
        """Pause after an overrun, unless the campaign goes on at one."""
        if self.core.settings.on_overrun == "pause" and self.ledger.paused is None:
            short = any(account.free < 0 for account in self.ledger.accounts)
            if short or getattr(body, "was", None) != "voided":
                self.emit(Paused("overrun"), ticket)

    def _refused(
        self,
        kind: type[ReportError],
        one: Open | None,
        why: str,
        ticket: object,
        cost: Any,
        reward: Any,
        penalty: Any,
    ) -> ReportError:
        """Keep a refused report, charge its ticket if it is in flight; returns the error."""
        ledger, name = self.ledger, good_id(ticket)
        if len(ledger.quarantine) >= self.core.settings.quarantine_most and one is None:
            self.overflow += 1
            return kind(f"{why} (refused; the quarantine is full)")
        report = _as_json({"cost": cost, "reward": reward, "penalty": penalty})
        moves = [] if one is None else self._charged(one)
        seq = self.emit(Quarantined(why[:LONGEST], report[:LONGEST], moves=moves), name)
        return kind(f"{why} (refused; kept in quarantine as {seq})", seq)

    def discard(self, number: int, note: str | None) -> None:
        """Close a quarantined report that nobody will correct."""
        self._require_quarantined(number)
        _require_text(note, "note")
        self.emit(Discarded(number), self.ledger.quarantine[number], note=note)

    def _require_quarantined(self, number: int) -> None:
        if number not in self.ledger.quarantine:
            known = ", ".join(map(str, list(self.ledger.quarantine)[:20])) or "none"
            raise InputError(f"quarantine = {shown(number)}: must be a kept report: {known}")

    def correct(self, number: int, ticket: str, cost: Any, reward: Any, penalty: Any) -> None:
        """Take a quarantined report in its corrected form."""
        self._require_quarantined(number)
        self.tell(ticket, cost, reward, penalty)
        if number in self.ledger.quarantine:
            self.emit(Discarded(number), ticket)

    def void(self, ticket: str) -> None:
        """Take back a ticket that was not carried out; harmless if it was taken back already."""
        given, ticket = ticket, _plain(ticket)
        one = self.ledger.tickets.get(ticket)
        if one is None:
            past = self.past(ticket)
            if past is None:
                raise InputError(f"ticket = {shown(given)}: is unknown")
            if past.state == "voided":
                return
            raise ConflictError(f"ticket {ticket!r}: is {past.state}; must be open to be voided")
        self.emit(Voided(moves=moved(reserved=map(neg, one.reserved))), ticket)

    def amend(
        self, ticket: str, cost: Any, penalty: Mapping[str, float] | None, note: str | None
    ) -> None:
        """Correct the money of a report that was taken; what was learned from it stays."""
        _require_text(note, "note")
        body = self._amendment(ticket, cost, penalty)
        if body is not None:
            self.emit(body, _plain(ticket), note=note)
            if body.over:
                self._act_on_overrun(body, _plain(ticket))

    def _amendment(self, ticket: str, cost: Any, penalty: Any) -> Amended | None:
        """What an amendment moves; None if nothing."""
        given, ticket = ticket, _plain(ticket)
        past = self.past(ticket)
        if past is None or past.state != "told":
            state = "open" if ticket in self.ledger.tickets else past and past.state
            raise InputError(f"ticket = {shown(given)}: is {state or 'unknown'}; must be told")
        if not isinstance(penalty, Mapping | None):
            raise InputError(f"penalty = {shown(penalty)}: must be by name")
        task, accounts = self.core.controller.task, self.ledger.accounts
        amounts = {} if cost is None else {"cost": known_amount(cost, "cost")}
        for name, value in (penalty or {}).items():
            if name not in task.limit_names:
                hint = nearest(str(name), task.limit_names)
                raise InputError(f"penalty {name!r}: is unknown; {hint}")
            amounts[name] = known_amount(value, f"penalty {name}")
        changes = [
            account.ticks(amounts[account.name]) - settled if account.name in amounts else 0
            for account, settled in zip(accounts, past.settled, strict=True)
        ]
        shifts = {
            m: amounts[name] - past.incurred[m]
            for m, name in enumerate(task.limit_names)
            if name in amounts
        }
        if not any(changes) and not any(shifts.values()):
            return None
        over = any(
            change > 0
            and self.core.overruns(past.arm, i, amounts[account.name], past.reserved, past.seq)
            for i, (account, change) in enumerate(zip(accounts, changes, strict=True))
        )
        return Amended(shifts, over, moves=moved(spent=changes))

    def check_amend(self, row: Mapping[str, Any]) -> None:
        """Raise unless a row of a bill can be taken."""
        unknown = sorted(set(row) - {"id", "cost", "penalty"})
        try:
            if unknown:
                raise InputError(f"{unknown[0]!r} is unknown; must have id, cost, penalty")
            self._amendment(row.get("id", ""), row.get("cost"), row.get("penalty"))
        except InputError as error:
            raise InputError(f"bill: row {shown(dict(row))}: {error}") from None

    # Changes.

    def pause(self, why: str, note: str | None = None) -> None:
        """Make no more decisions; harmless if it is paused."""
        if not why or not isinstance(why, str):
            raise InputError(f"why = {shown(why)}: must be a reason in words")
        _require_text(why, "why")
        _require_text(note, "note")
        if self.ledger.paused is None:
            self.emit(Paused(why), note=note)

    def resume(self) -> None:
        """Decide again."""
        if self.ledger.closed:
            raise CampaignError("the campaign is closed; it cannot be resumed", "closed")
        if self.ledger.paused is not None:
            self.now = max(self.now, self.clock)  # it stood still if the clock had jumped
            self.emit(Resumed())

    def close(self) -> None:
        """Make no more decisions, for good; reports are still taken."""
        if not self.ledger.closed:
            self.emit(Closed())

    def pin(self, arm: int | str | None) -> None:
        """Pull one arm until further notice, or none in particular."""
        controller = self.core.controller
        number = None if arm is None else controller.number_of(arm)
        if number is not None and controller.arm_name(number) in controller.retired:
            raise InputError(f"arm = {shown(arm)}: is retired; must be one that may be pulled")
        if number != self.ledger.pinned:
            self.emit(Pinned(number))

    def add_budget(self, amount: float) -> None:
        """More budget; limits in total stay."""
        account = self.ledger.accounts[0]
        if not known_amount(amount, "amount"):
            raise InputError(f"amount = {shown(amount)}: must be positive")
        ticks = account.ticks(amount)
        if account.budget + ticks >= MOST_TICKS:
            most = account.amount(MOST_TICKS - 1 - account.budget)
            raise InputError(f"amount = {amount!r}: must be at most {most:g} for this campaign")
        self._set_budget(self.core.controller.budget + float(amount), account.budget + ticks)

    def set_budget(self, budget: float) -> None:
        """Another budget, at least what is spent and reserved; limits in total stay."""
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
        """The least budget, if an account would have ``total`` ticks at this one."""
        spent, reserved = account.amount(account.spent), account.amount(account.reserved)
        used, least = account.amount(account.spent + account.reserved), ""
        if account is not self.ledger.accounts[0]:
            least = f" of hard limit {account.name!r}"
            used *= budget / account.amount(total)
        text = f"{spent:.15g}{least} is spent and {reserved:.15g} is reserved"
        return f"must be at least {used:.15g}, because {text}"

    def add_arm(self, **facts: Any) -> int:
        """A new arm; as :meth:`Controller.add_arm`."""
        self._try(ArmAdded(_plain_facts("arm_added", facts)))
        return self.core.controller.task.arm_count - 1

    def reprice(self, **facts: Any) -> None:
        """Other known prices of an arm; as :meth:`Controller.reprice`."""
        self._try(Repriced(_plain_facts("repriced", facts)))

    def retire_arm(self, arm: int | str) -> None:
        """Never pull an arm again."""
        number = self.core.controller.number_of(arm)
        if number == self.ledger.pinned:
            raise InputError(f"arm = {shown(arm)}: is pinned; must be unpinned first")
        if self.core.controller.arm_name(number) not in self.core.controller.retired:
            self._try(ArmRetired(number))

    def change(
        self,
        learning: Relearning | None,
        rest: Sequence[Row],
        text: str,
        settings: CampaignSettings,
        digest: str,
    ) -> None:
        """Go on with a policy that has learned again, or with other settings."""
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
        """Emit an event whose arguments the controller checks: first on a copy."""
        trial = Writer(
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
    """Arguments as others will read them."""
    try:
        made = dict(json.loads(json.dumps(facts, default=lambda value: value.item())))
        encode(made)  # raises at half a character
    except (TypeError, ValueError, AttributeError):
        what = {"arm": dict(facts)}
        raise InputError(f"{kind}: {shown(what)}: must be plain numbers and words") from None
    return made


def _plain(ticket: object) -> str:
    """An id as plain text: numpy has its own; nothing for what is no text."""
    return ticket if ticket.__class__ is str else str(ticket) if isinstance(ticket, str) else ""


def _require_text(note: str | None, place: str) -> None:
    """Raise unless every store can keep a note."""
    if note is not None and not (isinstance(note, str) and _storable(note)):
        raise InputError(f"{place} = {shown(note)}: must be text")


def _storable(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= one <= "\udfff" for one in text)


def _as_json(report: dict[str, Any]) -> str:
    """A report that was refused, whatever it was."""
    try:
        return json.dumps(report, default=repr)
    except (TypeError, ValueError, RecursionError):
        return json.dumps({name: shown(value) for name, value in report.items()})


def _said(values: Sequence[float]) -> str:
    cost, reward, *penalties = values
    rest = f", penalties {', '.join(f'{one:g}' for one in penalties)}" if penalties else ""
    return f"cost {cost:g}, reward {reward:g}{rest}"
