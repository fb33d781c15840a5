"""What the pages can do to a campaign: each a form that is shown before anything happens."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tightrope.errors import InputError, NotFoundError, nearest
from tightrope.formats import Money
from tightrope.live.writer import Writer
from tightrope.problem.laws import shown
from tightrope.service.pages.history import View

__all__ = ["ACTIONS", "Action", "Form", "FormField"]

LONGEST = 500  # characters of what is typed
Values = Mapping[str, str]


@dataclass(frozen=True)
class FormField:
    """Something to fill in."""

    name: str
    label: str
    value: str = ""
    kind: str = "text"  # number, select, hidden
    hint: str = ""
    options: Sequence[str] = ()
    required: bool = False


@dataclass(frozen=True)
class Form:
    """An action before it is confirmed."""

    action: str
    title: str
    text: str
    button: str
    fields: list[FormField] = field(default_factory=list)
    tone: str = ""  # bad: it cannot be undone


@dataclass(frozen=True)
class Action:
    """How an action asks, and what it does: an act of a turn, and the tickets it looks at."""

    form: Callable[[View, Values, Money], Form]
    act: Callable[[View, Values], tuple[Callable[[Writer], Any], Sequence[str]]]
    roles: tuple[str, ...] = ()  # besides admin


# What was typed.


def _text(values: Values, name: str) -> str:
    found = values.get(name, "").strip()
    if len(found) > LONGEST:
        raise InputError(f"{name}: {len(found)} characters; must be at most {LONGEST}")
    return found


def _amount(values: Values, name: str, label: str) -> float | None:
    text = _text(values, name)
    if not text:
        return None
    try:
        return float(text.replace(",", "").replace("_", ""))
    except ValueError:
        raise InputError(f"{label} = {shown(text)}: must be a number") from None


def _arm(view: View, values: Values) -> str:
    arm = values.get("arm", "")
    if arm not in view.task.names:
        raise InputError(f"arm = {shown(arm)}: {nearest(arm, list(view.task.names)[:20])}")
    return arm


def _number(view: View, values: Values) -> int:
    text = values.get("number", "")
    if not text.isdigit() or int(text) not in view.quarantine:
        raise InputError(f"quarantine = {shown(text)}: is not, or no longer, a kept report")
    return int(text)


def _penalties(view: View, values: Values) -> dict[str, float] | None:
    found = {}
    for m, name in zip(view.task.told, view.task.told_names, strict=True):
        value = _amount(values, f"penalty-{m}", name)
        if value is not None:
            found[name] = value
    return found or None


def _left(view: View) -> list[str]:
    return [arm["arm"] for arm in view.status["arms"] if not arm["retired"]]


# The forms.


def _pause_form(view: View, values: Values, money: Money) -> Form:
    why = FormField("why", "Reason", values.get("why", "by hand"), hint="Kept in the log.")
    text = "No decisions are made until it is resumed. Reports are still taken."
    return Form("pause", f"Pause {view.name}?", text, "Pause", [why])


def _resume_form(view: View, values: Values, money: Money) -> Form:
    text = f"It is paused: {view.status['why']}. Decisions are made again from now on."
    return Form("resume", f"Resume {view.name}?", text, "Resume")


def _pin_form(view: View, values: Values, money: Money) -> Form:
    arms = FormField("arm", "Arm", values.get("arm", ""), "select", options=_left(view))
    text = "Every decision is this arm until it is unpinned. The limits are not looked after."
    return Form("pin", "Pin an arm?", text, "Pin", [arms])


def _unpin_form(view: View, values: Values, money: Money) -> Form:
    text = f"The policy decides again, instead of {view.status['pinned']}."
    return Form("unpin", "Unpin?", text, "Unpin")


def _budget_form(view: View, values: Values, money: Money) -> Form:
    amount = FormField("amount", "Amount", values.get("amount", ""), "number", required=True)
    text = f"The budget is {money(view.status['budget'])} now. It cannot be taken back."
    return Form("budget", "Add budget?", text, "Add budget", [amount])


def _retire_form(view: View, values: Values, money: Money) -> Form:
    arm = FormField("arm", "Arm", values.get("arm", ""), "select", options=_left(view))
    text = (
        "It is never pulled again, and this cannot be undone."
        " Reports of its tickets in flight are taken."
    )
    return Form("retire", "Retire an arm?", text, "Retire", [arm], "bad")


def _outcome_fields(view: View, values: Values, given: Mapping[str, Any]) -> list[FormField]:
    """Cost, reward and penalties, with what was reported before."""

    def before(name: str, value: Any) -> str:
        if name in values:
            return values[name]
        sound = value is not None and str(value).lower() not in ("nan", "inf", "-inf")
        return str(value) if sound else ""

    penalty = given.get("penalty")
    fields = [
        FormField("cost", "Cost", before("cost", given.get("cost")), "number"),
        FormField("reward", "Reward", before("reward", given.get("reward")), "number"),
    ]
    for m, name in zip(view.task.told, view.task.told_names, strict=True):
        value = penalty.get(name) if isinstance(penalty, dict) else penalty
        if isinstance(value, list):
            value = None
        fields.append(FormField(f"penalty-{m}", name, before(f"penalty-{m}", value), "number"))
    return fields


def _correct_form(view: View, values: Values, money: Money) -> Form:
    number = _number(view, values)
    try:
        given = json.loads(values.get("report", "") or "{}")
    except ValueError:
        given = {}
    ticket = values.get("ticket") or view.quarantine[number] or ""
    fields = [
        FormField("number", "", str(number), "hidden"),
        FormField("ticket", "Ticket", ticket, required=True),
        *_outcome_fields(view, values, given if isinstance(given, dict) else {}),
    ]
    text = f"Report {number} was refused. It is taken as it stands here, and its ticket settled."
    return Form("correct", f"Correct report {number}", text, "Take the report", fields)


def _discard_form(view: View, values: Values, money: Money) -> Form:
    number = _number(view, values)
    fields = [
        FormField("number", "", str(number), "hidden"),
        FormField("note", "Note", values.get("note", ""), hint="Kept beside the log; optional."),
    ]
    text = "Nobody will correct it. If its ticket was charged in full, it stays charged."
    return Form("discard", f"Discard report {number}?", text, "Discard", fields, "bad")


def _tell_form(view: View, values: Values, money: Money) -> Form:
    fields = [
        FormField("ticket", "Ticket", values.get("ticket", ""), required=True),
        *_outcome_fields(view, values, {}),
    ]
    text = "A ticket that expired was charged in full. What is told now corrects that, once."
    return Form("tell", "Report a ticket", text, "Report", fields)


def _amend_form(view: View, values: Values, money: Money) -> Form:
    fields = [
        FormField("ticket", "Ticket", values.get("ticket", ""), required=True),
        FormField("cost", "Cost", values.get("cost", ""), "number", "Empty leaves it as it is."),
    ]
    for m, name in enumerate(view.task.limit_names):
        fields.append(FormField(f"amount-{m}", name, values.get(f"amount-{m}", ""), "number"))
    fields.append(FormField("note", "Note", values.get("note", ""), hint="Kept beside the log."))
    text = "Other money for a ticket that was told, from a bill. What was learned from it stays."
    return Form("amend", "Amend a ticket", text, "Amend", fields)


# What they do.


def _pause(view: View, values: Values) -> Any:
    why = _text(values, "why") or "by hand"
    return lambda writer: writer.pause(why), ()


def _pin(view: View, values: Values) -> Any:
    arm = _arm(view, values)
    return lambda writer: writer.pin(arm), ()


def _budget(view: View, values: Values) -> Any:
    amount = _amount(values, "amount", "amount")
    if amount is None:
        raise InputError("amount: is missing; must be a positive number")
    return lambda writer: writer.add_budget(amount), ()


def _retire(view: View, values: Values) -> Any:
    arm = _arm(view, values)
    return lambda writer: writer.retire_arm(arm), ()


def _report(values: Values, view: View) -> tuple[str, list[Any]]:
    ticket = _text(values, "ticket")
    numbers = [_amount(values, "cost", "cost"), _amount(values, "reward", "reward")]
    return ticket, [*numbers, _penalties(view, values)]


def _correct(view: View, values: Values) -> Any:
    number, (ticket, report) = _number(view, values), _report(values, view)
    return lambda writer: writer.correct(number, ticket, *report), (ticket,)


def _discard(view: View, values: Values) -> Any:
    number, note = _number(view, values), _text(values, "note") or None
    return lambda writer: writer.discard(number, note), ()


def _tell(view: View, values: Values) -> Any:
    ticket, report = _report(values, view)
    if not ticket:
        raise InputError("ticket: is missing")

    def act(writer: Writer) -> None:
        if ticket not in writer.ledger.tickets and writer.past(ticket) is None:
            raise NotFoundError(f"ticket = {shown(ticket)}: is unknown")  # nothing to be kept
        writer.tell(ticket, *report)

    return act, (ticket,)


def _amend(view: View, values: Values) -> Any:
    ticket, note = _text(values, "ticket"), _text(values, "note") or None
    cost, penalty = _amount(values, "cost", "cost"), {}
    for m, name in enumerate(view.task.limit_names):
        value = _amount(values, f"amount-{m}", name)
        if value is not None:
            penalty[name] = value
    if cost is None and not penalty:
        raise InputError("cost: is missing, as are the penalties; must have one of them")
    return lambda writer: writer.amend(ticket, cost, penalty or None, note), (ticket,)


ACTIONS = {
    "pause": Action(_pause_form, _pause),
    "resume": Action(_resume_form, lambda view, values: (lambda writer: writer.resume(), ())),
    "pin": Action(_pin_form, _pin),
    "unpin": Action(_unpin_form, lambda view, values: (lambda writer: writer.pin(None), ())),
    "budget": Action(_budget_form, _budget),
    "retire": Action(_retire_form, _retire),
    "correct": Action(_correct_form, _correct, ("report",)),
    "discard": Action(_discard_form, _discard),
    "tell": Action(_tell_form, _tell, ("report",)),
    "amend": Action(_amend_form, _amend),
}
