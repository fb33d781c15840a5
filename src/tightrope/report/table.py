"""Tables of rows, for the terminal, HTML pages and CSV files."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Any

from tightrope.files import write_text
from tightrope.names import in_csv, in_table, in_text
from tightrope.report.rows import (
    AnyRow,
    ReportRow,
    Row,
    entries,
    mean,
    of_limits,
    part,
    typed,
)
from tightrope.statistics import Estimate

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from tightrope.problem import Problem

__all__ = [
    "OUTSIDE",
    "Column",
    "columns",
    "empty_table",
    "estimate_texts",
    "flat",
    "footnotes",
    "full_width",
    "is_limited",
    "print_oracle",
    "print_rows",
    "print_table",
    "print_theory",
    "pulls_text",
    "section_ends",
    "table",
    "verbatim",
    "write_csv",
]

OUTSIDE = "* delta is not below the limit: no theorem covers it, the number is used all the same"
MOST_SHARES = 4  # with more arms than this, only the largest shares are shown
LARGEST_SHARES = 2
MOST_ARMS = 20  # up to this many, the oracle's table lists all arms
NOTHING = "–"
NO_REGRET = "regret –: undefined, because no policy keeps the limits on average at this budget"


@dataclass(frozen=True)
class Column:
    """A heading and a text per row, escaped for tables."""

    heading: str
    cells: Sequence[str]
    number: bool = True  # whether to right-align

    def __post_init__(self) -> None:
        object.__setattr__(self, "heading", in_table(self.heading))
        object.__setattr__(self, "cells", [in_table(cell) for cell in self.cells])


def columns(rows: Sequence[AnyRow]) -> list[Column]:
    """The columns of the printed table; ± is half of the 95 % interval."""
    known = typed(rows)
    names = [row.policy + " *" * row.outside_theory for row in known]
    found = [
        Column("policy", names, number=False),
        Column("budget", _numbers([row.budget for row in known])),
        _estimate("reward rate", known, "reward_rate"),
        *_violations(known),
        _estimate("regret", known, "regret"),
        _shares(known),
        Column("pulls", [pulls_text(row.pulls) for row in known]),
    ]
    if any(row.knows for row in known):
        found.append(Column("knows", [row.knows or NOTHING for row in known], number=False))
    problems = [row.problem for row in known]
    return [Column("problem", problems, number=False)] * (len(set(problems)) > 1) + found


def pulls_text(pulls: float) -> str:
    """The mean pulls per run, formatted the same way in every table.

    >>> pulls_text(210.0), pulls_text(12345.678)
    ('210.0', '12,345.7')
    """
    return f"{pulls:,.1f}"


def footnotes(rows: Sequence[AnyRow]) -> list[str]:
    """Explanations of the marks that occur in the table."""
    known = typed(rows)
    outside = [OUTSIDE] * any(row.outside_theory for row in known)
    return outside + [NO_REGRET] * any(row.regret is None for row in known)


def table(rows: Sequence[AnyRow], title: str | None = None, without: Sequence[str] = ()) -> Table:
    """A rich table; ``rich.print`` shows it. ``without``: headings to leave out.

    >>> row = dict(policy="lyon", budget=100.0, runs=9, reward_rate=1.25, violation=0.5,
    ...            reward_rate_se=0.01, violation_se=0.005, regret=None,
    ...            pull_share=[0.75, 0.25], pulls=210.0)
    >>> [str(column.header) for column in table([row]).columns][:4]
    ['policy', 'budget', 'reward rate', 'violation']
    """
    shown, known = empty_table(title), typed(rows)
    shown.caption = verbatim("\n".join(_caption(known, without)))
    listed, ends = columns(known), section_ends(known)
    listed = [column for column in listed if column.heading not in without]
    for column in listed:
        justify: Any = "right" if column.number else "left"
        shown.add_column(verbatim(column.heading), justify=justify, overflow="fold")
    for i, texts in enumerate(zip(*(column.cells for column in listed), strict=True)):
        shown.add_row(*map(verbatim, texts), end_section=ends[i])
    return shown


def print_rows(rows: Sequence[AnyRow], file: IO[str] | None = None) -> None:
    """Print the table to standard output, or to ``file``.

    On a narrow terminal some columns are left out, and a line names them; a pipe gets all.

    >>> from tightrope import LyOff, print_rows, ready_problem, simulate
    >>> results = simulate(ready_problem("paper"), LyOff(), budgets=[100, 400], runs=50, seed=1)
    >>> print_rows(results.summary())  # doctest: +SKIP
    """
    from rich.console import Console

    console, without = Console(file=file), [column.heading for column in columns(rows)][-1:3:-1]
    for dropped in range(len(without) + 1):
        shown = table(rows, without=without[:dropped])
        if not is_limited(console) or full_width(shown) <= console.width:
            break
    print_table(shown, file)


def print_oracle(problem: Problem, row: Row, budget: float | None = None) -> None:
    """Print pi*: the arms with their shares, the rates, the limits' multipliers, the optimum.

    If the arms change: the best mixture of each phase, and the rates over all phases.
    """
    phases = row.get("phases", [])
    print_table(_phases_table(problem, phases) if phases else _oracle_table(problem, row), None)
    facts = {
        "reward rate": f"{row['reward_rate']:,.6g}",
        "penalty rate": _by_limit(problem, row["penalty_rate"], 6),
        "limit": _limits(problem),
        "multiplier": _by_limit(problem, row["multiplier"], 6),
    }
    if "optimum" in row:
        facts[f"optimum at budget {budget:,g}"] = f"{row['optimum']:,.6g}"
    for name, text in facts.items():
        if text:
            print(in_text(f"{name}: {text}"))


def _by_limit(problem: Problem, values: float | Sequence[float], digits: int) -> str:
    """A number per limit as text, with the limits' names if they have names."""
    numbers = values if isinstance(values, list | tuple) else [values]
    named = [f"{in_table(name)} " * problem.task.has_named_limits for name in problem.limit_names]
    return ", ".join(f"{a}{one:,.{digits}g}" for a, one in zip(named, numbers, strict=True))


def _limits(problem: Problem) -> str:
    """The limits with their names, and per what they are unless it is the cost."""
    told = []
    for name, limit in zip(problem.limit_names, problem.limit_kinds, strict=True):
        named = f"{in_table(name)} " * problem.task.has_named_limits
        told.append(f"{named}{limit.number:,.6g}{limit.suffix}")
    return ", ".join(told)


def print_theory(rows: Sequence[Row], budget: float, file: IO[str] | None = None) -> None:
    """Print the paper's bounds at a budget, with fewer columns on a narrow terminal."""
    from rich.console import Console

    console, without = Console(file=file), ["note", "as printed", "paper"]
    for dropped in range(len(without) + 1):
        shown = _theory_table(rows, budget, without[:dropped])
        if not is_limited(console) or full_width(shown) <= console.width:
            break
    print_table(shown, file)


def _theory_table(rows: Sequence[Row], budget: float, without: Sequence[str]) -> Table:
    shown = empty_table()
    cells = {
        "bound": [row["name"] for row in rows],
        "paper": [row["label"] for row in rows],
        f"at budget {budget:,g}": [_amount(row["value"]) for row in rows],
        "as printed": [_amount(row["printed"]) for row in rows],
        "bites from": [_bite(row) for row in rows],
        "note": [row["obstacle"] or row["note"] for row in rows],
    }
    listed = {heading: texts for heading, texts in cells.items() if heading not in without}
    for heading in listed:
        left = heading in ("bound", "paper", "note")
        shown.add_column(verbatim(heading), justify="left" if left else "right", overflow="fold")
    for texts in zip(*listed.values(), strict=True):
        shown.add_row(*map(verbatim, texts))
    lines = [
        "bites from: the smallest budget from which the bound is below the trivial one",
        "as printed: the paper's own expression, which may be wrong; see docs/theory.md",
    ]
    lines += [f"not shown, too little width: {', '.join(without)}"] * bool(without)
    shown.caption = verbatim("\n".join(lines))
    return shown


def _amount(value: float | None) -> str:
    if value is None:
        return NOTHING
    if value and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.2e}"
    return f"{value:z,.0f}" if abs(value) >= 1e4 else f"{value:z,.4g}"


def _bite(row: Row) -> str:
    if row["trivial"] is None:
        return NOTHING
    return "never" if row["bites_from"] is None else _amount(row["bites_from"])


def write_csv(rows: Sequence[AnyRow], path: str | os.PathLike[str]) -> None:
    """Write the rows as CSV in full precision, atomically.

    Text that a spreadsheet would read as a formula gets an apostrophe in front.
    """
    lines = [flat(row) for row in rows]
    names = list(dict.fromkeys(name for line in lines for name in line))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: in_csv(value) for name, value in line.items()} for line in lines)
    write_text(path, text.getvalue())


def _caption(rows: Sequence[ReportRow], without: Sequence[str]) -> list[str]:
    runs = ", ".join(f"{count:,}" for count in sorted({row.runs for row in rows}))
    lines = [f"{runs} runs per policy and budget; ± is half of the 95 % interval"]
    if without:
        lines.append(f"not shown, too little width: {', '.join(without)}")
    return lines + footnotes(rows)


def flat(row: AnyRow) -> dict[str, Any]:
    """A row with plain values only: intervals as ``_low`` and ``_high``, parts numbered from 1.

    >>> flat({"violation": 0.1, "violation_interval": [0.0, 0.2], "pull_share": [0.75, 0.25]})
    {'violation': 0.1, 'violation_low': 0.0, 'violation_high': 0.2, \
'pull_share_1': 0.75, 'pull_share_2': 0.25}
    """
    line: dict[str, Any] = {}
    for key, value in entries(row).items():
        if key.endswith("_interval"):
            line |= _flat_interval(key.removesuffix("_interval"), value)
        elif isinstance(value, dict):
            continue  # the same numbers are in ``violation``
        elif isinstance(value, list | tuple):
            line |= {f"{key}_{i}": one for i, one in enumerate(value, start=1)}
        else:
            line[key] = value
    return line


def _flat_interval(name: str, value: Any) -> dict[str, Any]:
    """The entries of one interval or a list of them; None if unknown."""
    if value is None or (value and isinstance(value[0], float)):
        low, high = value or (None, None)
        return {f"{name}_low": low, f"{name}_high": high}
    line: dict[str, Any] = {}
    for i, pair in enumerate(value, start=1):
        line[f"{name}_low_{i}"], line[f"{name}_high_{i}"] = pair or (None, None)
    return line


def _violations(rows: Sequence[ReportRow]) -> list[Column]:
    """One column per limit."""
    headings = of_limits("violation", rows[0].limit_names if rows else ["penalty"])
    return [
        _estimate(heading, rows, "violation", m, sign="+") for m, heading in enumerate(headings)
    ]


def _estimate(
    heading: str, rows: Sequence[ReportRow], key: str, number: int | None = None, sign: str = ""
) -> Column:
    """A column of numbers ± half of their intervals, rounded up, with the same decimals."""
    values = [mean(row, key, number) for row in rows]
    reaches = [_half_width(part(row, key, number)) for row in rows]
    return Column(heading, _with_reaches(values, reaches, sign))


def estimate_texts(values: Sequence[Estimate]) -> list[str]:
    """Means with half of their 95 % intervals, all with the same decimals.

    >>> estimate_texts([Estimate(0.512, 0.01), Estimate(2.0, 0.0)])
    ['0.512 ± 0.020', '2.000 ± 0.000']
    """
    return _with_reaches([one.mean for one in values], [_half_width(one) for one in values], "")


def _with_reaches(
    values: Sequence[float | None], reaches: Sequence[float | None], sign: str
) -> list[str]:
    decimals = _decimals(values, reaches)
    cells = []
    for value, reach in zip(values, reaches, strict=True):
        text = NOTHING if value is None else f"{value:{sign}z,.{decimals}f}"
        cells.append(text if reach is None else f"{text} ± {_rounded_up(reach, decimals)}")
    return cells


def _half_width(value: Estimate | None) -> float | None:
    return None if value is None or value.error is None else value.reach


def _rounded_up(reach: float, decimals: int) -> str:
    """Half of an interval, rounded up so that it is never shown too narrow."""
    step = 10.0**-decimals
    return f"{math.ceil(reach / step - 1e-6) * step:,.{decimals}f}"


def _decimals(values: Sequence[float | None], reaches: Sequence[float | None]) -> int:
    """Decimals at which most intervals are not 0; without intervals, five significant digits."""
    size = max((abs(value) for value in values if value is not None), default=0.0)
    known = sorted(reach for reach in reaches if reach is not None and reach > 1e-9 * size)
    if known:
        return min(12, max(0, math.ceil(-math.log10(known[len(known) // 4] / 3.0))))
    return 4 if size == 0.0 else min(12, max(0, 4 - math.floor(math.log10(size))))


def _shares(rows: Sequence[ReportRow]) -> Column:
    """Every arm's share of the pulls, or the largest ones."""
    shares = [row.pull_share for row in rows]
    if max(map(len, shares), default=0) <= MOST_SHARES:
        return Column("pull share", [" / ".join(f"{s:.3f}" for s in share) for share in shares])
    return Column("largest pull shares", [_largest(share) for share in shares])


def _largest(shares: Sequence[float]) -> str:
    arms = sorted(range(len(shares)), key=lambda arm: -shares[arm])[:LARGEST_SHARES]
    return ", ".join(f"arm {arm + 1}: {shares[arm]:.3f}" for arm in arms)


def _numbers(values: Sequence[float]) -> list[str]:
    whole = all(value == round(value) for value in values) or max(values, default=0.0) >= 1000
    return [f"{value:,.0f}" if whole else f"{value:,.5g}" for value in values]


def section_ends(rows: Sequence[AnyRow]) -> list[bool]:
    """Whether each row is its policy's last; False if policies have only one row."""
    policies = [(row.problem, row.policy) for row in typed(rows)]
    several = len(set(policies)) < len(policies)
    return [several and one != other for one, other in pairwise([*policies, None])]


def _oracle_table(problem: Problem, row: Row) -> Table:
    """The arms with their rates, in the user's units, and shares."""
    shown = empty_table(f"pi* of {in_table(problem.name) or 'the problem'}")
    rates = of_limits("penalty rate", problem.limit_names)
    shown.add_column("arm")
    for heading in ["reward rate", *rates, "pull share", "cost share"]:
        shown.add_column(verbatim(in_table(heading)), justify="right")
    moments, scales = problem.moments, problem.scales
    few = problem.arm_count <= MOST_ARMS
    for k, name in enumerate(problem.names):
        if few or row["pull_share"][k] > 0.0:
            penalties = problem.own_rates[k]
            numbers = [moments.reward_rate[k] * scales.reward / scales.cost, *penalties]
            shares = row["pull_share"][k], row["cost_share"][k]
            texts = *(f"{x:,.5g}" for x in numbers), *(f"{s:.4f}" for s in shares)
            shown.add_row(*map(verbatim, (in_table(name), *texts)))
    others = problem.arm_count - shown.row_count
    shown.caption = f"and {others:,} arms that are never pulled" if others else None
    return shown


def _phases_table(problem: Problem, phases: Sequence[Row]) -> Table:
    """A row per phase: its rates, in the user's units, and the arms' shares of its cost."""
    shown = empty_table(f"the best of each phase of {in_table(problem.name) or 'the problem'}")
    for heading in ("from", "reward rate", "penalty rate"):
        shown.add_column(heading, justify="right")
    shown.add_column("cost shares")
    for one in phases:
        pulled = [
            f"{in_table(name)} {share:.3f}"
            for name, share in zip(problem.names, one["cost_share"], strict=True)
            if share > 0.0
        ]
        rates = f"{one['reward_rate']:,.5g}", _by_limit(problem, one["penalty_rate"], 5)
        shown.add_row(*map(verbatim, (f"{one['start']:g}", *rates, ", ".join(pulled))))
    return shown


def print_table(shown: Table, file: IO[str] | None = None) -> None:
    """Print a table, in full width unless a terminal or COLUMNS limits it."""
    from rich.console import Console

    console = Console(file=file, highlight=False)
    if not is_limited(console):
        console = Console(file=file, width=full_width(shown), highlight=False)
    console.print(shown)


def is_limited(console: Console) -> bool:
    """Whether the width is limited, by a terminal or by COLUMNS."""
    return console.is_terminal or os.environ.get("COLUMNS", "").isdigit()


def full_width(shown: Table) -> int:
    """The unlimited width of a table, in characters."""
    from rich.console import Console

    return Console(width=10_000).measure(shown).maximum


def empty_table(title: str | None = None) -> Table:
    """A table in the style of them all."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    title_text = None if title is None else verbatim(in_text(title))
    return Table(title=title_text, caption_justify="left", box=SIMPLE_HEAD, pad_edge=False)


def verbatim(text: str) -> Text:
    """A text for rich that is not parsed as markup."""
    from rich.text import Text

    return Text(text)
