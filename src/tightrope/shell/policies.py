"""Describe a policy: each parameter's meaning, default and allowed values.

The meaning is taken from the sentences of the class's docstring that name the parameter, the
allowed values from the policy's error message for a wrong value.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from typing import Any

from tightrope.errors import PolicyError
from tightrope.policies import POLICIES, Policy
from tightrope.report.rows import known_words
from tightrope.theory.citations import cited

SENTENCE = re.compile(r"(?<=\.)\s+(?=[A-Z`])")
ELSEWHERE = re.compile(r"as in :class:`~tightrope\.policies\.(\w+)`")
FORGETTING = (  # a reference to the code, and its meaning for users
    "see ``forgetting``",
    "only the last ones for window0, with less weight on older ones for discount0",
)
OR_NONE = ", or none"
WRONG: tuple[Any, ...] = (float("nan"), -1.5, 1e9, "?")  # wrong values that provoke messages


def describe(kind: type[Policy]) -> dict[str, Any]:
    """A policy's summary, docstring, what it knows, and its parameters by name."""
    facts = facts_of(kind)
    parameters = {
        name: {"default": default, "allowed": allowed(kind, name), "meaning": meaning(kind, name)}
        for name, default in facts["parameters"].items()
    }
    about = {"name": kind.name, "summary": kind.summary, "meaning": _plain(_sentences(kind)[0])}
    return {**about, "knows": facts["knows"], "parameters": parameters}


def facts_of(kind: type[Policy]) -> dict[str, Any]:
    """A policy's summary, what it knows, and the defaults of its parameters, None if required."""
    parameters = {
        field.name: None if field.default is MISSING else field.default
        for field in fields(kind)  # type: ignore[arg-type]
    }
    return {"summary": kind.summary, "knows": _knows(kind), "parameters": parameters}


def list_lines(policies: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The facts of several policies as lines of text."""
    for name, facts in policies.items():
        yield f"{name}: {facts['summary']}"
        if facts["knows"]:
            yield f"    knows the {known_words(facts['knows'])}"
        for parameter, default in facts["parameters"].items():
            yield f"    {parameter} = {'none' if default is None else default}"


def lines(kind: type[Policy]) -> Iterator[str]:
    """The description as lines of text."""
    facts = describe(kind)
    yield f"{facts['name']}: {facts['summary']}"
    yield f"    {facts['meaning']}"
    if facts["knows"]:
        yield f"    knows the {known_words(facts['knows'])}"
    if not facts["parameters"]:
        yield "    no parameters"
    for name, one in facts["parameters"].items():
        default = "none" if one["default"] is None else one["default"]
        yield f"\n  {name} = {default}"
        if one["allowed"]:
            yield f"    must be {one['allowed']}"
        if one["meaning"]:
            yield f"    {one['meaning']}"


def allowed(kind: type[Policy], parameter: str) -> str:
    """The allowed values of a parameter, from the policy's error messages."""
    told = []
    for value in WRONG:
        try:
            kind(**{parameter: value})
        except PolicyError as error:
            told.append(str(error).partition(" must be ")[2])
        except (TypeError, ValueError):
            continue
    plain = dict.fromkeys(text.removesuffix(OR_NONE) for text in told if text)
    return ", and ".join(plain) + OR_NONE * any(text.endswith(OR_NONE) for text in told)


def meaning(kind: type[Policy], parameter: str) -> str:
    """The sentences of the docstring that name a parameter, or those of the class it refers to."""
    text = " ".join(one for one in _sentences(kind) if f"``{parameter}``" in one)
    reference = ELSEWHERE.search(text)
    if reference:
        other = next(one for one in POLICIES.values() if one.__name__ == reference[1])
        return meaning(other, parameter)
    return _plain(text.removeprefix(f"``{parameter}``: "))


def _sentences(kind: type[Policy]) -> list[str]:
    """The sentences of the class's docstring, or of the nearest base class that has one."""
    for one in kind.__mro__:
        text = vars(one).get("__doc__") or ""
        if text and not text.startswith(f"{one.__name__}("):
            told = inspect.cleandoc(text).partition("\n\n>>>")[0]  # without its example
            return SENTENCE.split(" ".join(told.split()))
    return [""]


def _knows(kind: type[Policy]) -> str:
    """What the policy knows of the arms; "" if it needs parameters."""
    try:
        return kind().knows
    except (TypeError, PolicyError):
        return ""


def _plain(text: str) -> str:
    """The text without docstring markup, with the paper's numbers in place of labels."""
    told = text.replace(*FORGETTING)
    return cited(re.sub(r":class:`~?(?:[\w.]*\.)?(\w+)`", r"\1", told).replace("``", ""))
