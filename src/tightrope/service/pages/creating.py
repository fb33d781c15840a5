"""The form that creates a campaign, with the checks of the HTTP API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tightrope.errors import InputError
from tightrope.problem.values import shown
from tightrope.service.pages.actions import FilledForm, FormField, typed_number, typed_text
from tightrope.service.wire import NewCampaign

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
