"""The work of one turn: decisions, reports and changes become events.

Promises kept here:

P2 *Conservation*, in part: a decision is made only if its reservation is free. A report or an
   amendment above the reservation is recorded in full and pauses the campaign, except with
   ``on_overrun="alert"``.
P3 *Exactly once.* A client's id is looked up, among the tickets in flight and in the log, before
   anything is decided or recorded.
P4 *Nothing lost.* A report with an error is refused and kept in quarantine, up to a bound.
P5 *Expiry.* Due tickets expire by events, at most 256 in one turn, before anything else happens.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from operator import neg, sub
from typing import Any

from tightrope.errors import (
    ConflictError,
    InputError,
    ReportError,
    nearest,
)
from tightrope.live.change_writer import ChangeWriter, require_text, storable
from tightrope.live.kinds import (
    Amended,
    Asked,
    Discarded,
    Paused,
    Quarantined,
    Told,
    TypeAdded,
    Voided,
)
from tightrope.live.ledger import Open, known_amount, moved
from tightrope.live.tickets import OWN_ID, Past, Ticket, good_id
from tightrope.live.vectors import ErasedError, request_of
from tightrope.problem.features import Features, Mixed
from tightrope.problem.values import shown

LONGEST = 2000  # stored characters of a refused report
MOST_NAME = 128  # characters of a type's name
NO_CONTEXT: tuple[str | None, str | None, Mapping[str, Any]] = None, None, {}


class Writer(ChangeWriter):
    """The work of one turn: chooses, applies its own events, and collects the rows to store."""

    # Decisions.

    def ask(
        self,
        ticket: str | None,
        eligible: Any,
        ttl: int | None = None,
        context: Any = None,
    ) -> Ticket:
        """Make a decision, or return the earlier one for the same id.

        ``ttl``: microseconds until it expires; default: the campaign's. ``context``: the type of
        the request, or its features.
        """
        allowed = None if eligible is None else self.core.controller.numbers_of(eligible)
        core, ledger = self.core, self.ledger
        kind, features, request = NO_CONTEXT
        if context is not None or core.types is not None:
            kind, features, request = self._context(context)
        if ticket is not None:
            found = self._repeated(ticket, allowed, ttl, kind, features)
            if found is not None:
                return found
            ticket = str(ticket)
        arm, among = core.choose(self.now, allowed, request)
        if kind is not None and core.is_new_type(kind):
            self.emit(TypeAdded(kind))
        if features is not None and core.vectors.kept:
            features = core.vectors.sealed(ledger.seq + 1, features)
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
            kind,
            features,
            moves=core.reserving[arm],
        )
        self.emit(body, ticket, chosen=None if body.pinned else request)
        return Ticket.of(core, ticket, ledger.tickets[ticket])

    def _context(self, context: Any) -> tuple[str | None, str | None, Mapping[str, Any]]:
        """A request's type and features as an event has them; the controller's argument."""
        contexts = self.core.types
        if not isinstance(contexts, Features | Mixed):
            name = self._type_name(context)
            return name, None, {"context": name}
        row = contexts.row(context)
        contextual = self.core.controller.policy.contextual
        return *contexts.parted(row), {"context": row} if contextual else {}

    def _type_name(self, context: str | None) -> str:
        """The name of a request's type, checked."""
        controller = self.core.typed
        if controller is None:
            what = "must be left out, because the task has no contexts"
            raise InputError(f"context = {shown(context)}: {what}")
        name = controller.type_name(context)
        if not storable(name) or len(name) > MOST_NAME:
            allowed = f"text of at most {MOST_NAME} characters"
            raise InputError(f"context = {shown(context)}: must be {allowed}")
        return name

    def _repeated(
        self,
        ticket: str,
        allowed: tuple[int, ...] | None,
        ttl: int | None,
        context: str | None,
        features: str | None,
    ) -> Ticket | None:
        """The existing ticket of an id, if its arguments are the same."""
        if not good_id(ticket):
            allowed_ids = "1 to 128 visible ASCII characters"
            raise InputError(f"id = {shown(ticket)}: must be {allowed_ids}")
        found = self.ledger.tickets.get(ticket) or self.past(ticket)
        if found is None:
            if OWN_ID.fullmatch(ticket):
                raise InputError(f"id = {ticket!r}: must not have the form of a generated id")
            return None
        if found.eligible != allowed:
            raise ConflictError(f"id = {ticket!r}: was created with other eligible arms")
        if found.ttl != ttl:
            raise ConflictError(f"id = {ticket!r}: was created with another expiry")
        if found.context not in (None, context) and (
            features is not None or self._type_name(found.context) != context
        ):
            raise ConflictError(f"id = {ticket!r}: was created with context {found.context!r}")
        if found.features and self._unsealed(found.features) not in ("", features):
            raise ConflictError(f"id = {ticket!r}: was created with other features")
        return Ticket.of(self.core, ticket, found)

    def _unsealed(self, features: str) -> str:
        """The features of an earlier request; "" if they were erased."""
        try:
            return self.core.vectors.text(features)
        except ErasedError:
            return ""

    def _has(self, features: str) -> bool:
        """Whether the features of an earlier request are in this turn's log or in the store."""
        if ":" not in features:
            return True
        seq, _ = request_of(features)
        vectors = self.core.vectors
        return seq in vectors.fresh or seq in vectors.find(seq, seq)

    def check_ids(
        self,
        ids: Iterable[str | None],
        eligible: Any,
        ttl: int | None = None,
        contexts: Sequence[Any] | None = None,
    ) -> None:
        """Raise if one of these ids is not valid."""
        allowed = None if eligible is None else self.core.controller.numbers_of(eligible)
        for at, one in enumerate(ids):
            context = None if contexts is None else contexts[at]
            kind, features, _ = NO_CONTEXT
            if context is not None or self.core.types is not None:
                kind, features, _ = self._context(context)
            if one is not None:
                self._repeated(one, allowed, ttl, kind, features)

    # Reports.

    def tell(self, ticket: str, cost: Any, reward: Any, penalty: Any, arm: Any = None) -> None:
        """Record the outcome of a ticket, once."""
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
            body.context = self.core.context_of(found)
        except InputError as error:
            if past is not None and past.state == "told":
                error = InputError(f"ticket {ticket!r}: was reported with other values; {error}")
                raise self._refused(
                    ConflictError, None, str(error), ticket, cost, reward, penalty
                ) from None
            text = f"ticket {ticket!r}: {error}"
            raise self._refused(ReportError, one, text, ticket, cost, reward, penalty) from None
        if past is not None and past.state == "told":
            self._told_again(ticket, past, body, (cost, reward, penalty))
        else:
            self._take(ticket, found, past, body)

    def _acted(self, arm: Any, decided: int) -> int:
        """The arm that was pulled; it can differ if another system decides."""
        number = int(self.core.controller.given_number(arm))  # True is an integer too
        if number != decided and not self.core.settings.shadow:
            name = self.core.controller.arm_name(decided)
            raise InputError(f"arm = {shown(arm)}: must be {name!r}, the arm of the decision")
        return number

    def _told_again(self, ticket: str, past: Past, body: Told, report: tuple[Any, ...]) -> None:
        assert past.told is not None
        if past.told.values == body.values and past.arm == body.arm:
            return
        text = (
            f"ticket {ticket!r}: was reported as {_said(past.told.values)}, now "
            f"{_said(body.values)}"
        )
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
        if past is not None:  # its reservation is already free
            paid: Iterable[int] = body.settled
            body.was, body.over = past.state, body.over or past.state == "voided"
            if past.features is not None:
                body.features = past.features if self._has(past.features) else ""
            if past.state in ("expired", "quarantined"):
                body.undone, body.corrected = list(reserved), list(past.refused)
                paid = map(sub, paid, reserved)
            body.moves = moved(spent=paid)
        self.emit(body, ticket)
        if body.over:
            self._act_on_overrun(body, ticket)

    def _act_on_overrun(self, body: Told | Amended, ticket: str) -> None:
        """Pause after an overrun if the campaign is set to."""
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
        """Store a refused report and charge its ticket if it is in flight; returns the error."""
        ledger, name = self.ledger, good_id(ticket)
        if len(ledger.quarantine) >= self.core.settings.quarantine_most and one is None:
            self.overflow += 1
            return kind(f"{why} (refused; the quarantine is full)")
        report = _as_json({"cost": cost, "reward": reward, "penalty": penalty})
        moves = [] if one is None else self._charged(one)
        seq = self.emit(Quarantined(why[:LONGEST], report[:LONGEST], moves=moves), name)
        return kind(f"{why} (refused; kept in quarantine as {seq})", seq)

    def discard(self, number: int, note: str | None) -> None:
        """Discard a quarantined report."""
        self._require_quarantined(number)
        require_text(note, "note")
        self.emit(Discarded(number), self.ledger.quarantine[number], note=note)

    def _require_quarantined(self, number: int) -> None:
        if number not in self.ledger.quarantine:
            known = ", ".join(map(str, list(self.ledger.quarantine)[:20])) or "none"
            raise InputError(
                f"quarantine = {shown(number)}: must be a report in quarantine: {known}"
            )

    def correct(self, number: int, ticket: str, cost: Any, reward: Any, penalty: Any) -> None:
        """Record a quarantined report in its corrected form."""
        self._require_quarantined(number)
        self.tell(ticket, cost, reward, penalty)
        if number in self.ledger.quarantine:
            self.emit(Discarded(number), ticket)

    def void(self, ticket: str) -> None:
        """Cancel a ticket that was not used; harmless if it is cancelled already."""
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
        """Correct the money of a report; what the policy learned from it stays."""
        require_text(note, "note")
        body = self._amendment(ticket, cost, penalty)
        if body is not None:
            self.emit(body, _plain(ticket), note=note)
            if body.over:
                self._act_on_overrun(body, _plain(ticket))

    def _amendment(self, ticket: str, cost: Any, penalty: Any) -> Amended | None:
        """The money that an amendment moves; None if nothing changes."""
        given, ticket = ticket, _plain(ticket)
        past = self.past(ticket)
        if past is None or past.state != "told":
            state = "open" if ticket in self.ledger.tickets else past and past.state
            raise InputError(
                f"ticket = {shown(given)}: is {state or 'unknown'}; must be a reported ticket"
            )
        if not isinstance(penalty, Mapping | None):
            raise InputError(f"penalty = {shown(penalty)}: must be a mapping by name")
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
        context = None if past.told is None else past.told.context
        return Amended(shifts, over, context, moves=moved(spent=changes))

    def check_amend(self, row: Mapping[str, Any]) -> None:
        """Raise if a row of a bill is not valid."""
        unknown = sorted(set(row) - {"id", "cost", "penalty"})
        try:
            if unknown:
                raise InputError(f"{unknown[0]!r} is unknown; must have id, cost, penalty")
            self._amendment(row.get("id", ""), row.get("cost"), row.get("penalty"))
        except InputError as error:
            raise InputError(f"bill: row {shown(dict(row))}: {error}") from None


def _plain(ticket: object) -> str:
    """An id as plain text, also from numpy's own type; "" for anything else."""
    return ticket if ticket.__class__ is str else str(ticket) if isinstance(ticket, str) else ""


def _as_json(report: dict[str, Any]) -> str:
    """A refused report as JSON, of any form."""
    try:
        return json.dumps(report, default=repr)
    except (TypeError, ValueError, RecursionError):
        return json.dumps({name: shown(value) for name, value in report.items()})


def _said(values: Sequence[float]) -> str:
    cost, reward, *penalties = values
    rest = f", penalties {', '.join(f'{one:g}' for one in penalties)}" if penalties else ""
    return f"cost {cost:g}, reward {reward:g}{rest}"
