"""How a change is asked for: on a page, and in the shell; the fields that several changes have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta


@dataclass(frozen=True)
class Form:
    """How the page asks before it acts.

    ``text`` states the consequence. It and ``title`` may name the campaign's ``name``, ``status``,
    ``budget``, what is ``used`` of it and its ``rates`` so far, and the ``place`` in the path.
    ``done`` is shown afterwards.
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
class ShellForm:
    """A command of the shell; ``takes``: the one field that it takes, if not all of them."""

    name: str
    takes: str = ""
    text: str = ""  # if not the summary
    example: str = ""  # the words after the campaign's name, if not made of the fields


@dataclass(frozen=True)
class FieldInput:
    """How a field is filled in, on a page if it has a label, and in the shell."""

    text: str  # what it is, in words
    label: str | None = None
    kind: str = "text"  # number, arm, type, penalties, limits
    hint: str = ""
    name: str = ""  # in the form, if not as the field's
    of: str = ""  # of penalties: where a task has their names
    when: str = ""  # what a task must have for the field to be on the page
    metavar: str = ""  # in the shell, if not as its kind's


def said_of(text: str = "", label: str | None = None, schema: Any = None, **how: str) -> Meta:
    """What is said of a field to those who document it, and to those who fill it in."""
    filled = {"input": FieldInput(text, label, **how)}
    return Meta(description=text or None, extra_json_schema=schema, extra=filled)


PENALTY_SCHEMA = {
    "anyOf": [{"type": "number"}, {"type": "object", "additionalProperties": {"type": "number"}},
              {"type": "array", "items": {"type": "number"}}, {"type": "null"}],
    "description": "by the limits' names; a number alone if there is one limit",
}  # fmt: skip
NUMBER_SCHEMA = {"anyOf": [{"type": "number"}, {"type": "null"}]}
AnyCost = Annotated[Any, said_of("what it cost", "Cost", NUMBER_SCHEMA, kind="number")]
AnyReward = Annotated[Any, said_of("what it earned", "Reward", NUMBER_SCHEMA, kind="number")]
AnyPenalty = Annotated[Any, said_of("", "", PENALTY_SCHEMA, kind="penalties", of="told_names")]
Note = Annotated[
    str | None,
    said_of("kept beside the log, for people", "Note", hint="Kept beside the log; optional."),
]
KnownCost = Annotated[
    float | None,
    said_of("where the task knows costs", "Cost of a pull", kind="number", when="costs"),
]
KnownPenalty = Annotated[
    dict[str, float] | None,
    said_of("one that the task knows; X alone if there is one limit", "", kind="penalties",
            of="known"),
]  # fmt: skip
