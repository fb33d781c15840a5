"""Decisions with pulls in flight, or with arms that may not be pulled: on a copy of the memory.

The *view* is a copy of a run's memory in which pulls in flight have come out as expected (see
``policies.parts.flight``), and in which an arm that may not be pulled has the numbers of another
one, its *stand-in*: whoever chooses the arm means its stand-in. No array changes its size, so that
every policy decides in a view as it always does. With nothing in flight and all arms to choose
from, the view is the memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tightrope.kernels.single_run import queue_mover
from tightrope.kernels.spec import CHOICE
from tightrope.policies.parts.flight import assume, least_pulled
from tightrope.policies.state import State, record_fields

__all__ = ["Views", "carried_fields", "views"]


class Views(NamedTuple):
    """Compiled functions over a memory and its view."""

    look: Any  # (memory, view, flight, stand_ins, counting): make the view
    keep: Any  # (memory, view, stand_ins): take over what ``choose`` wrote to carried fields
    unexplored: Any  # (view, stand_ins, enough) -> an arm with fewer pulls, or -1


def views(spec: Any, target: Any, part: Any, wrap: Any, learn: Any) -> Views:
    """The functions for a spec with a ``State``; ``learn`` is that of the policy."""
    expect, move, number = part(assume), queue_mover(spec, target, part), target.number
    copy, keep, copy_arm = (
        part(made) for made in (_copier(spec), _keeper(spec), _arm_copier(spec))
    )  # fmt: skip
    copy_terms, indexed = part(_copy_terms), spec.method != CHOICE
    penalties, term_rows = spec.penalties, 2 * spec.penalties + 3

    def look(memory, view, flight, stand_ins, counting):
        copy(view, memory)
        for channel in range(2 + penalties):
            view.outcome[channel] = number(0.0)
        flying = 0.0
        for arm in range(len(flight)):
            count = flight[arm]
            if count > 0.0:
                expect(view.state, memory.state, arm, count, view.outcome)
                learn(view.wide, view.state, view.scratch, arm)
                flying += count
        if counting and flying > 0.0:
            move(view, number(flying))
        keep(view, memory, stand_ins, True)
        for arm in range(len(flight)):
            other = int(stand_ins[arm])
            if other != arm:
                copy_arm(view, arm, other)
                if indexed:
                    copy_terms(view.terms, term_rows, arm, other)

    def keep_chosen(memory, view, stand_ins):
        keep(memory, view, stand_ins, False)

    return Views(part(look), part(keep_chosen), part(least_pulled))


def _copy_terms(terms, rows, arm, other):
    """Give an arm the terms of another, but for its number, which is the last row."""
    stride = len(terms) // rows
    for row in range(rows - 1):
        terms[row * stride + arm] = terms[row * stride + other]


def _fields(spec: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The fields of a memory that a view has of its own, with their shapes."""
    yield "run", ("",)
    if spec.method != CHOICE:
        yield "terms", ("",)
    yield from ((f"state.{name}", shape) for name, shape in record_fields(State))
    if spec.method == CHOICE:
        yield from ((f"scratch.{n}", shape) for n, shape in record_fields(spec.policy.Scratch))


def carried_fields(policy: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """The fields of a choice policy's scratch that ``choose`` may change, with their shapes."""
    return [
        (name, shape)
        for name, shape in record_fields(policy.Scratch)
        if any(name == one or name.startswith(one + ".") for one in policy.carried)
    ]


def _function(name: str, arguments: str, lines: list[str]) -> Any:
    """A function made of source text."""
    names: dict[str, Any] = {"__name__": __name__}
    exec("\n    ".join([f"def {name}({arguments}):", *(lines or ["pass"])]), names)
    return names[name]


def _copier(spec: Any) -> Any:
    """``copy(to, source)``: all that a view has of its own."""
    lines = []
    for name, _ in _fields(spec):
        lines += [f"for i in range(len(source.{name})):", f"    to.{name}[i] = source.{name}[i]"]
    return _function("copy", "to, source", lines)


def _keeper(spec: Any) -> Any:
    """``keep(to, source, stand_ins, whole)``: the carried fields.

    If not ``whole``, only those of arms that may be pulled.
    """
    lines = []
    for name, shape in carried_fields(spec.policy) if spec.method == CHOICE else ():
        field, per_arm = f"scratch.{name}", shape[0] == "K"
        lines += [f"for i in range(len(source.{field})):"]
        if per_arm:
            lines += [
                f"    arm = i // (len(source.{field}) // len(stand_ins))",
                "    if whole or int(stand_ins[arm]) == arm:",
                f"        to.{field}[i] = source.{field}[i]",
            ]
        else:
            lines += [f"    to.{field}[i] = source.{field}[i]"]
    return _function("keep", "to, source, stand_ins, whole", lines)


def _arm_copier(spec: Any) -> Any:
    """``copy_arm(view, arm, other)``: give an arm the numbers of another."""
    lines = []
    for name, shape in _fields(spec):
        if shape[0] == "K" and name != "state.flight":
            lines += [
                f"size = len(view.{name}) // len(view.state.pulls)",
                "for i in range(size):",
                f"    view.{name}[arm * size + i] = view.{name}[other * size + i]",
            ]
    return _function("copy_arm", "view, arm, other", lines)
