"""The forms of the pages: those of ``tightrope.changes`` and ``acts``, and that of a campaign."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from tightrope import changes
from tightrope.change_forms import FieldInput, Form
from tightrope.changes import CHANGES, TurnAct
from tightrope.errors import InputError, NotFoundError, nearest
from tightrope.formats import Money
from tightrope.live.writer import Writer
from tightrope.problem.values import shown
from tightrope.service.acts import ITEMS
from tightrope.service.pages.answers import path_of
from tightrope.service.pages.history import View
from tightrope.service.pages.limit_words import limits_of
from tightrope.service.pages.mixture import types_of
from tightrope.service.pages.rate_words import RateWords
from tightrope.service.values import BoundedText, Query, whole_of
from tightrope.service.wire import NewCampaign

ENTRIES = ("penalty", "limit")  # of which a form has one for each limit
LONGEST = 500  # characters of what is typed
LONGEST_REPORT = 8000  # characters of a refused report in an address
Values = Mapping[str, str]
FORMS: dict[str, tuple[type[TurnAct], Form]] = {
    form.action: (kind, form) for kind in (*ITEMS, *CHANGES) for form in kind.forms
}


@dataclass(frozen=True)
class FormField:
    """A field of a form."""

    name: str
    label: str
    value: str = ""
    kind: str = "text"  # number, select, lines, hidden
    hint: str = ""
    options: Sequence[str] = ()
    required: bool = False


@dataclass(frozen=True)
class FilledForm:
    """A form to confirm an action; ``to``: where it is sent, ``back``: where Cancel leads."""

    to: str
    back: str
    title: str
    text: str
    button: str
    tone: str
    fields: list[FormField]


def inputs_of(
    kind: type[TurnAct], form: Form
) -> Iterator[tuple[msgspec.inspect.Field, FieldInput]]:
    """The fields of a form, and how they are filled in."""
    for field, how in changes.inputs_of(kind):
        if how.label is not None and field.name not in form.fixed:
            yield field, how


def known_of(kind: type[TurnAct], form: Form, view: View) -> Query:
    """The fields that a form's URL may fill in."""
    limits = range(len(view.task.limit_names))
    names = {kind.place(), "report", *(f"{what}-{i}" for i in limits for what in ENTRIES)}
    names |= {how.name or field.name for field, how in inputs_of(kind, form)}
    return {name: BoundedText(LONGEST_REPORT) for name in sorted(names - {""})}


# What is shown.


def filled(kind: type[TurnAct], form: Form, view: View, values: Values, unit: str) -> FilledForm:
    """A form with the values typed before or known; ``unit``: the unit of costs."""
    place, money = kind.place(), Money(view.status["budget"], unit)
    where = {"arm": _arm_field, "number": _number_field}
    fields = [where[place](view, values)] if place else []
    before = _reported(values)
    if place == "number":
        before["ticket"] = view.quarantine[int(fields[0].value)] or ""
    for field, how in inputs_of(kind, form):
        default = field.default if isinstance(field.default, str) else ""
        needed = field.required or form.some_of == (field.name,)
        fields += _fields(how, field.name, needed, view, {**before, **values}, default)
    status = view.status
    told = {"name": view.name, "status": status, "place": values.get(place, "")}
    told["budget"] = money(status["budget"])
    told["used"] = money(status["spent"] + status["reserved"])
    rates = [one.words.against(one.running) for one in limits_of(view, unit)]
    told["rates"] = "; ".join(rates) or "no limits"
    title, text = form.title.format(**told), form.text.format(**told)
    to, back = path_of(view.name, f"act/{form.action}"), path_of(view.name)
    return FilledForm(to, back, title, text, form.button, form.tone, fields)


def _fields(
    how: FieldInput,
    field: str,
    needed: bool,
    view: View,
    known: Mapping[str, Any],
    default: str,
) -> list[FormField]:
    if how.when and not getattr(view.task, how.when):
        return []
    if how.kind == "arm":
        return [_arm_field(view, known, field, how, needed)]
    if how.kind == "type":
        return [_select_field(field, how, known, [one["type"] for one in types_of(view)])]
    if how.kind == "limits":
        return _limit_fields(view, known, how)
    if how.kind == "penalties":
        return [
            FormField(place, name, known.get(place, _penalty(known, name)), "number")
            for place, name in _penalties_of(how, view)
        ]
    name = how.name or field
    value = known.get(name, default)
    return [FormField(name, how.label or "", value, how.kind, how.hint, required=needed)]


THE_ARM = FieldInput("", "Arm", kind="arm")


def _arm_field(
    view: View,
    values: Mapping[str, Any],
    name: str = "arm",
    how: FieldInput = THE_ARM,
    needed: bool = True,
) -> FormField:
    left = [arm["arm"] for arm in view.status["arms"] if not arm["retired"]]
    return _select_field(name, how, values, left if needed else ["", *left])


def _select_field(
    name: str, how: FieldInput, values: Mapping[str, Any], options: Sequence[str]
) -> FormField:
    return FormField(
        name, how.label or "", values.get(name, ""), "select", how.hint, options=options
    )


def _limit_fields(view: View, known: Mapping[str, Any], how: FieldInput) -> list[FormField]:
    """A field for each limit, with its current number."""
    fields = []
    for m, name in enumerate(view.task.limit_names):
        words, place = RateWords(view.task, m), f"limit-{m}"
        label = f"{name}, {words.bound} ({words.per or 'share of pulls'})"
        fields.append(FormField(place, label, known.get(place, words.now), hint=how.hint))
    return fields


def _number_field(view: View, values: Values) -> FormField:
    return FormField("number", "", str(_number(view, values)), "hidden")


def _penalties_of(how: FieldInput, view: View) -> list[tuple[str, str]]:
    """The penalties of a form: their fields and names."""
    names = view.task.limit_names
    return [(f"penalty-{names.index(name)}", name) for name in getattr(view.task, how.of)]


def _reported(values: Values) -> dict[str, Any]:
    """The values of a refused report as text; penalties unchanged."""
    try:
        found = json.loads(values.get("report", "") or "{}")
    except ValueError:
        found = {}
    said = found if isinstance(found, dict) else {}
    return {key: one if key == "penalty" else _text_of(one) for key, one in said.items()}


def _penalty(known: Mapping[str, Any], name: str) -> str:
    penalty = known.get("penalty")
    return _text_of(penalty.get(name) if isinstance(penalty, dict) else penalty)


def _text_of(value: Any) -> str:
    sound = not isinstance(value, list | dict) and str(value).lower() not in ("inf", "-inf", "nan")
    return str(value) if sound and value is not None else ""


# What was typed.


def act_of(kind: type[TurnAct], form: Form, view: View, values: Values) -> TurnAct:
    """The act of a form that was sent; raises if a field is not valid."""
    place, given = kind.place(), dict(form.fixed)
    if place:
        (_arm if place == "arm" else _number)(view, values)
    for field, how in inputs_of(kind, form):
        value = _typed(how, how.name or field.name, view, values, field.required)
        if value is not None:
            given[field.name] = value
        elif field.required:
            raise InputError(f"{how.name or field.name}: is missing")
    if form.some_of and not any(one in given for one in form.some_of):
        raise InputError(f"{form.some_of[0]}: is missing; must have {' or '.join(form.some_of)}")
    return msgspec.convert(given, kind)


def turn_of(act: TurnAct, form: Form, place: str) -> Callable[[Writer], Any]:
    """The function that does an act in a turn."""
    done, ticket = partial(act.do, place=place), getattr(act, "id", None)
    return partial(_with_known, ticket, done) if form.known and ticket is not None else done


def _with_known(ticket: str, act: Callable[[Writer], Any], writer: Writer) -> Any:
    """Do an act for a ticket; raises if the ticket is unknown."""
    if ticket not in writer.ledger.tickets and writer.past(ticket) is None:
        raise NotFoundError(f"ticket = {shown(ticket)}: is unknown")
    return act(writer)


def _typed(how: FieldInput, name: str, view: View, values: Values, needed: bool) -> Any:
    """The value typed for a field; None if it is empty."""
    if how.kind == "arm":
        return _arm(view, values, name) if needed or values.get(name) else None
    if how.kind == "limits":
        return _limits(view, values)
    if how.kind == "penalties":
        found = [(told, typed_number(values, at, told)) for at, told in _penalties_of(how, view)]
        return {told: value for told, value in found if value is not None} or None
    return (
        typed_number(values, name, name)
        if how.kind == "number"
        else typed_text(values, name) or None
    )


def typed_text(values: Values, name: str) -> str:
    """The text typed in a field, stripped; raises if it is too long."""
    found = values.get(name, "").strip()
    if len(found) > LONGEST:
        raise InputError(f"{name}: {len(found)} characters; must be at most {LONGEST}")
    return found


def typed_number(values: Values, name: str, label: str) -> float | None:
    """The number typed in a field, None if it is empty; ``label``: its name in errors."""
    text = typed_text(values, name)
    if not text:
        return None
    try:
        return float(text.replace(",", "").replace("_", ""))
    except ValueError:
        raise InputError(f"{label} = {shown(text)}: must be a number") from None


def _arm(view: View, values: Values, name: str = "arm") -> str:
    arm = values.get(name, "")
    if arm not in view.task.names:
        raise InputError(f"{name} = {shown(arm)}: {nearest(arm, list(view.task.names)[:20])}")
    return arm


def _limits(view: View, values: Values) -> dict[str, Any] | None:
    """The changed limits by name; None if no limit was changed."""
    found = dict[str, Any]()
    for m, name in enumerate(view.task.limit_names):
        text = typed_text(values, f"limit-{m}")
        if text and text != RateWords(view.task, m).now:
            found[name] = text
    return found or None


def _number(view: View, values: Values) -> int:
    text = values.get("number", "")
    number = whole_of(text)
    if number is None or number not in view.quarantine:
        raise InputError(f"quarantine = {shown(text)}: is not, or no longer, a kept report")
    return number


PATH = "/new"
TEXT = (
    "The campaign can decide at once. Your system asks it for an arm, acts, and reports what the"
    " pull cost, earned and incurred. Arms, limits and the budget can be changed later; the name"
    " and the largest cost cannot."
)
FIELDS = (
    FormField("name", "Name", required=True),
    FormField("arms", "Arms", kind="lines", required=True, hint="One per line, such as haiku."),
    FormField(
        "limits",
        "Limits",
        kind="lines",
        hint="One per line, such as bad: 5% per pull, complaints: 30 in total or late: 0.02 per"
        " cost. Empty: no limits.",
    ),
    FormField(
        "types",
        "Types of requests",
        hint="Optional, comma-separated, such as math, code, chat. Each decision then needs a"
        " context: its type.",
    ),
    FormField("budget", "Budget", kind="number", required=True),
    FormField(
        "cost",
        "Largest cost of a pull",
        kind="number",
        required=True,
        hint="Reserved for each decision until its report comes.",
    ),
    FormField(
        "safe",
        "Safe arm",
        hint="Optional. An arm that keeps every limit by itself. With it, a risk can be proved.",
    ),
    FormField(
        "policy",
        "Policy",
        "resolve",
        hint="resolve:risk=0.01 aims at ending above a limit in at most 1 % of campaigns;"
        " resolve:risk=0.01,watch=0.01 also detects arms that change.",
    ),
    FormField(
        "hours",
        "Hours until a ticket expires",
        "24",
        kind="number",
        hint="A decision without a report is then charged its largest cost.",
    ),
)


def creation_form(values: Mapping[str, str]) -> FilledForm:
    """The form with the values typed before."""
    fields = [
        FormField(f.name, f.label, values.get(f.name, f.value), f.kind, f.hint, (), f.required)
        for f in FIELDS
    ]
    return FilledForm(PATH, "/", "Create a campaign", TEXT, "Create", "", fields)


def new_campaign(values: Mapping[str, str]) -> tuple[str, NewCampaign]:
    """The name and settings from the form; raises if a field is not valid."""
    name, numbers = typed_text(values, "name"), dict[str, float]()
    if not name:
        raise InputError("name: is missing")
    for key in ("budget", "cost", "hours"):
        value = typed_number(values, key, key)
        if value is None:
            raise InputError(f"{key}: is missing")
        numbers[key] = value
    task: dict[str, Any] = {
        "arms": [{"name": arm} for arm in _lines(values, "arms")],
        "limits": dict(map(_limit, _lines(values, "limits"))),
        "scales": {"cost": numbers["cost"]},
    }
    if safe := typed_text(values, "safe"):
        task["safe"] = safe
    if types := [name.strip() for name in typed_text(values, "types").split(",") if name.strip()]:
        task["contexts"] = {"types": types}
    if not task["arms"]:
        raise InputError("arms: is missing; must have one per line")
    policy = typed_text(values, "policy") or None
    given = NewCampaign(task, numbers["budget"], policy, expire_after=3600.0 * numbers["hours"])
    return name, given


def _lines(values: Mapping[str, str], name: str) -> list[str]:
    return [line.strip() for line in values.get(name, "").splitlines() if line.strip()]


def _limit(line: str) -> tuple[str, str]:
    """The name and the text of a limit."""
    name, colon, limit = (part.strip() for part in line.rpartition(":"))
    if not colon or not name or not limit:
        raise InputError(f"limits = {shown(line)}: must be NAME: LIMIT, such as bad: 5% per pull")
    return name, limit
