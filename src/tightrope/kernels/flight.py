"""Decisions with pulls in flight, or with arms that cannot be pulled, on a copy of the memory.

The *view* is a copy of a run's memory. In it, pulls in flight have their expected outcomes (see
``policies.parts.flight``), and an arm that cannot be pulled has the numbers of another arm, its
*stand-in*, which is pulled if the policy chooses the arm. No array changes its size, so every
policy decides in a view as usual. With nothing in flight and all arms available, the view is the
memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tightrope.policies.parts.flight import assume, least_pulled


class Views(NamedTuple):
    """Functions over a memory and its view."""

    look: Any  # (memory, view, flight, stand_ins, counting): make the view
    keep: Any  # (memory, view, stand_ins): copy the carried fields that ``choose`` changed
    unexplored: Any  # (view, stand_ins, enough) -> an arm with fewer pulls, or -1


def views(target: Any, part: Any, learn: Any, shared: Any) -> Views:
    """The functions for memories with a ``State``; ``learn`` is that of the policy."""
    expect, move, number = part(assume), shared.move, target.number
    copy, copy_row, copy_terms = part(_copy), part(_copy_row), part(_copy_terms)
    keep = part(_keep)

    def look(memory, view, flight, stand_ins, counting):
        copy(view.state_numbers, memory.state_numbers)
        copy(view.own_numbers, memory.own_numbers)
        copy(view.terms, memory.terms)
        copy(view.run.queues, memory.run.queues)
        for channel in range(2 + memory.penalties):
            view.run.outcome[channel] = number(0.0)
        flying = 0.0
        for row in range(len(flight)):
            count = flight[row]
            if count > 0.0:
                expect(view.state, memory.state, row, count, view.run.outcome)
                learn(view, row)
                flying += count
        if counting and flying > 0.0:
            move(view, number(flying))
        keep(view.own_numbers, memory.own_numbers, memory.carried, stand_ins, True)
        for row in range(len(flight)):
            other = int(stand_ins[row])
            if other != row:
                copy_row(view.state_numbers, memory.state_rows, row, other)
                copy_row(view.own_numbers, memory.own_rows, row, other)
                copy_terms(view.terms, 2 * memory.penalties + 3, row, other)

    def keep_chosen(memory, view, stand_ins):
        keep(memory.own_numbers, view.own_numbers, memory.carried, stand_ins, False)

    return Views(part(look), part(keep_chosen), part(least_pulled))


def _copy(to, source):
    for at in range(len(source)):
        to[at] = source[at]


def _keep(to, source, carried, stand_ins, whole):
    """Copy the carried fields; if not ``whole``, only for rows that can be pulled."""
    for field in range(0, len(carried), 3):
        start, size, per_row = carried[field], carried[field + 1], carried[field + 2]
        for at in range(size):
            row = at // per_row if per_row > 0 else 0
            if whole or per_row == 0 or int(stand_ins[row]) == row:
                to[start + at] = source[start + at]


def _copy_row(numbers, rows, row, other):
    """Give a row the numbers of another."""
    for field in range(0, len(rows), 2):
        start, size = rows[field], rows[field + 1]
        for at in range(size):
            numbers[start + row * size + at] = numbers[start + other * size + at]


def _copy_terms(terms, rows, row, other):
    """Give a row the terms of another, except for its number, which is the last of them."""
    stride = len(terms) // rows
    if stride > 0:
        for at in range(rows - 1):
            terms[at * stride + row] = terms[at * stride + other]
