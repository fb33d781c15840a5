"""A bootstrap as text and in notebooks: the rows with the two parts of their errors."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from tightrope.data.bootstraps import Bootstrap, SureRow
from tightrope.formats import number
from tightrope.report.html import block
from tightrope.report.model import Column, Table, names, print_table
from tightrope.report.plan import chance_text, exact, print_lines, split_columns
from tightrope.report.rows import of_limits
from tightrope.report.tones import ORDER, breaking, estimate_tone, limits_tone, red
from tightrope.showing import html_of, text_of

six = partial(number, digits=6)


@html_of.register
def _html(found: Bootstrap) -> str:
    """The rows with the two parts of their errors."""
    title = f"How sure: {found.problem.name}" if found.problem.name else "How sure"
    table = _sure(found, title)
    notes = [*table.notes, *_bounds(found), *found.notes]
    facts = [f"runs {found.runs:,}", f"draws {found.draws}"]
    return block(replace(table, notes=notes), facts)


@text_of.register
def _text(found: Bootstrap) -> str:
    """The rows with the two parts of their errors."""
    file = io.StringIO()
    print_table(_sure(found, "How sure it is"), file)
    print_lines([*_bounds(found), *found.notes], file)
    return file.getvalue().rstrip("\n")


def _sure(found: Bootstrap, title: str) -> Table:
    rows, log = sorted(found.rows, key=_order), bool(found.draws)
    kept = [limits_tone(row.violation) for row in rows]
    columns = [
        names("policy", [row.policy for row in rows], tones=red(kept)),
        Column("budget", [row.budget for row in rows], six),
        *split_columns("reward rate", [row.reward_rate for row in rows], log),
    ]
    for m, heading in enumerate(of_limits("violation", found.problem.limit_names)):
        above = [row.violation[m] for row in rows]
        whole, _, of_log = split_columns(heading, above, log)
        columns.append(replace(whole, tones=list(map(estimate_tone, above))))
        columns += [of_log, Column("broken", [row.broken[m] for row in rows], chance_text)]
    return Table(columns, title, notes=breaking([row.policy for row in rows], kept))


def _order(row: SureRow) -> int:
    return ORDER.index(limits_tone(row.violation))


def _bounds(found: Bootstrap) -> Iterator[str]:
    if found.oracle is not None:
        yield f"Best stationary policy: {exact(found.oracle)} of reward per unit of cost."
    for budget, one in zip(found.budgets, found.optimum, strict=True):
        if one is not None:
            yield f"OPT({six(budget)}): {exact(one)}."
