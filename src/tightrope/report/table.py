"""Tables of simulated rows, of the oracle and of the theory; rows as CSV files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from tightrope.files import write_text
from tightrope.formats import NOTHING, amounts, estimates, number
from tightrope.names import csv_text, in_table, in_text
from tightrope.report.model import Column, Table, names, print_table, rich_table, texts
from tightrope.report.rows import (
    AnyRow,
    ReportRow,
    Row,
    entries,
    known_words,
    of_limits,
    optimum_rate,
    part,
    typed,
)
from tightrope.report.tones import ORDER, breaking, estimate_tone, limits_tone, red, worst

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from tightrope.problem import Problem

OUTSIDE = "* delta is not below the limit, so no theorem covers this row"
MOST_SHARES = 4  # with more arms than this, only the largest shares are shown
LARGEST_SHARES = 2
MOST_ARMS = 20  # up to this many, the oracle's table lists all arms
NO_REGRET = "regret –: undefined, because no policy keeps the limits on average at this budget"


def rows_table(rows: Sequence[AnyRow], title: str = "") -> Table:
    """The table of the rows; ± is half of the 95 % interval. Those that break a limit are last."""
    known = in_order(typed(rows))
    policies = [row.policy + " *" * row.outside_theory for row in known]
    found = [
        names("policy", policies, tones=red(limits_tone(row.violation) for row in known)),
        Column("budget", amounts([row.budget for row in known])),
        Column("reward rate", _estimates(known, "reward_rate"), bars=_of_best(known)),
        *_violations(known),
        Column("regret", _estimates(known, "regret")),
        _shares(known),
        Column("pulls", [row.pulls for row in known], "{:,.1f}".format),
    ]
    if any(row.knows for row in known):
        found.append(names("knows", [known_words(row.knows) or NOTHING for row in known]))
    if len({row.problem for row in known}) > 1:
        found.insert(0, names("problem", [row.problem for row in known]))
    runs = ", ".join(f"{count:,}" for count in sorted({row.runs for row in known}))
    notes = [f"{runs} runs per policy and budget; ± is half of the 95 % interval"]
    return Table(found, title, notes=[*notes, *footnotes(known)], ends=_ends(known))


def footnotes(rows: Sequence[AnyRow]) -> list[str]:
    """Explanations of the marks that occur in the table."""
    known = typed(rows)
    return [
        *breaking([row.policy for row in known], [limits_tone(row.violation) for row in known]),
        *[OUTSIDE] * any(row.outside_theory for row in known),
        *[NO_REGRET] * any(row.regret is None for row in known),
    ]


def in_order(rows: Sequence[ReportRow]) -> list[ReportRow]:
    """The rows of each problem: policies that keep the limits first, those that break one last."""
    problems = list(dict.fromkeys(row.problem for row in rows))
    tones: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        tones.setdefault((row.problem, row.policy), []).append(limits_tone(row.violation))
    places = {key: ORDER.index(worst(some)) for key, some in tones.items()}
    return sorted(
        rows, key=lambda row: (problems.index(row.problem), places[row.problem, row.policy])
    )


def table(
    rows: Sequence[AnyRow], title: str | None = None, without: Sequence[str] = ()
) -> RichTable:
    """A rich table; ``rich.print`` shows it. ``without``: headings to leave out.

    >>> row = dict(policy="lyon", budget=100.0, runs=9, reward_rate=1.25, violation=0.5,
    ...            reward_rate_se=0.01, violation_se=0.005, regret=None,
    ...            pull_share=[0.75, 0.25], pulls=210.0)
    >>> [str(column.header) for column in table([row]).columns][:4]
    ['policy', 'budget', 'reward rate', 'violation']
    """
    return rich_table(rows_table(rows, title or "").without(without))


def print_rows(rows: Sequence[AnyRow], file: IO[str] | None = None) -> None:
    """Print the table to standard output, or to ``file``.

    On a narrow terminal some columns are left out, and a line names them; a pipe gets all.

    >>> from tightrope import LyOff, print_rows, ready_problem, simulate
    >>> results = simulate(ready_problem("paper"), LyOff(), budgets=[100, 400], runs=50, seed=1)
    >>> print_rows(results.summary())  # doctest: +SKIP
    """
    shown = rows_table(rows)
    print_table(shown, file, [column.heading for column in shown.columns][-1:3:-1])


def print_oracle(problem: Problem, row: Row, budget: float | None = None) -> None:
    """Print pi*: the arms with their shares, the rates, the limits' multipliers, the optimum.

    If the arms change: the best mixture of each phase, and the rates over all phases. If requests
    have types: also the best mixture of each type. Over an interval or a box: its numbers, and a
    bound on what others may add.
    """
    phases = row.get("phases", [])
    if "numbers" in row:
        some = row.get("numbers_by_type") or {"": row["numbers"]}
        shares = {x: {one["value"]: one["pull_share"] for one in some[x]} for x in some}
        print_table(numbers_table(shares, _title(problem)))
    else:
        print_table(_phases_table(problem, phases) if phases else _oracle_table(problem, row))
        if "by_type" in row:
            print_table(types_table(problem.names, row["by_type"]))
    facts = {
        "upper bound": row.get("bound", ""),
        "reward rate": number(row["reward_rate"], 6),
        "other numbers earn more by at most": number(row["error"], 3) if "error" in row else "",
        "penalty rate": _by_limit(problem, row["penalty_rate"], 6),
        "limit": _limits(problem),
        "multiplier": _by_limit(problem, row["multiplier"], 6),
    }
    if "optimum" in row:
        bounded = problem.hard or problem.features is not None
        what = "upper bound on the optimum" if bounded else "optimum"
        facts[f"{what} at budget {number(budget, 6)}"] = number(row["optimum"], 6)
    for name, text in facts.items():
        if text:
            print(in_text(f"{name}: {text}"))


def _by_limit(problem: Problem, values: float | Sequence[float], digits: int) -> str:
    """A number per limit as text, with the limits' names if they have names."""
    numbers = values if isinstance(values, list | tuple) else [values]
    return ", ".join(
        f"{name}{number(one, digits)}" for name, one in zip(_names(problem), numbers, strict=True)
    )


def _names(problem: Problem) -> list[str]:
    """The limits' names, to stand before their numbers, if they have names."""
    return [f"{in_table(name)} " * problem.task.has_named_limits for name in problem.limit_names]


def _limits(problem: Problem) -> str:
    """The limits with their names, and per what they are unless it is the cost."""
    return ", ".join(
        f"{name}{number(limit.number, 6)}{limit.suffix}"
        for name, limit in zip(_names(problem), problem.limit_kinds, strict=True)
    )


def print_theory(rows: Sequence[Row], budget: float, file: IO[str] | None = None) -> None:
    """Print the paper's bounds at a budget, with fewer columns on a narrow terminal."""
    columns = [
        names("bound", [row["name"] for row in rows]),
        names("paper", [row["label"] for row in rows]),
        Column(f"at budget {number(budget, 6)}", [row["value"] for row in rows], number),
        Column("as printed", [row["printed"] for row in rows], number),
        Column("bites from", [_bite(row) for row in rows]),
        texts("note", [row["obstacle"] or row["note"] for row in rows]),
    ]
    notes = [
        "bites from: the smallest budget from which the bound is below the trivial one",
        "as printed: the paper's own expression, which may be wrong; see docs/theory.md",
    ]
    print_table(Table(columns, notes=notes), file, ["note", "as printed", "paper"])


def _bite(row: Row) -> str:
    if row["trivial"] is None:
        return NOTHING
    return "never" if row["bites_from"] is None else number(row["bites_from"])


def write_csv(rows: Sequence[AnyRow], path: str | os.PathLike[str]) -> None:
    """Write the rows as CSV in full precision, atomically.

    Text that a spreadsheet would read as a formula gets an apostrophe in front.
    """
    lines = [flat(row) for row in rows]
    names = list(dict.fromkeys(name for line in lines for name in line))
    write_text(path, csv_text([names, *([line.get(name, "") for name in names] for line in lines)]))


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


def _estimates(
    rows: Sequence[ReportRow], key: str, m: int | None = None, sign: str = ""
) -> list[str]:
    return estimates([part(row, key, m) for row in rows], sign)


def _of_best(rows: Sequence[ReportRow]) -> list[float]:
    """The reward rates as shares of the largest of them or of the optimum."""
    rates = [row.reward_rate.mean for row in rows]
    best = [rate for row in rows if (rate := optimum_rate(row)) is not None]
    top = max([*rates, *best], default=0.0) or 1.0
    return [rate / top for rate in rates]


def _violations(rows: Sequence[ReportRow]) -> list[Column]:
    """One column per limit."""
    headings = of_limits("violation", rows[0].limit_names if rows else ["penalty"])
    return [
        Column(
            heading,
            _estimates(rows, "violation", m, "+"),
            tones=[estimate_tone(row.violation[m]) for row in rows],
        )
        for m, heading in enumerate(headings)
    ]


def _shares(rows: Sequence[ReportRow]) -> Column:
    """Every arm's share of the pulls, or the largest ones."""
    shares = [row.pull_share for row in rows]
    if max(map(len, shares), default=0) <= MOST_SHARES:
        return Column("pull share", [" / ".join(f"{s:.3f}" for s in share) for share in shares])
    return Column("largest pull shares", shares, _largest)


def _largest(shares: Sequence[float]) -> str:
    arms = sorted(range(len(shares)), key=lambda arm: -shares[arm])[:LARGEST_SHARES]
    return ", ".join(f"arm {arm + 1}: {shares[arm]:.3f}" for arm in arms)


def _ends(rows: Sequence[ReportRow]) -> list[bool]:
    """Whether each row is its policy's last; False if policies have only one row."""
    policies = [(row.problem, row.policy) for row in rows]
    several = len(set(policies)) < len(policies)
    return [several and one != other for one, other in pairwise([*policies, None])]


def _oracle_table(problem: Problem, row: Row) -> Table:
    """The arms with their rates, in the user's units, and shares."""
    few = problem.arm_count <= MOST_ARMS
    arms = [k for k in range(problem.arm_count) if few or row["pull_share"][k] > 0.0]
    scale = problem.scales.reward / problem.scales.cost
    rates = [problem.moments.reward_rate * scale, *problem.own_rates.T]
    headings = ["reward rate", *of_limits("penalty rate", problem.limit_names)]
    columns = [names("arm", [problem.names[k] for k in arms])]
    for heading, values in zip(headings, rates, strict=True):
        columns.append(Column(heading, [values[k] for k in arms], partial(number, digits=5)))
    for key in ("pull_share", "cost_share"):
        shares = [row[key][k] for k in arms]
        columns.append(Column(key.replace("_", " "), shares, "{:.4f}".format))
    others = problem.arm_count - len(arms)
    notes = [f"and {others:,} arms that are never pulled"] if others else []
    if problem.contexts is not None:
        notes.append("an arm's rates are means over all types of requests")
    return Table(columns, _title(problem), notes=notes)


def _title(problem: Problem) -> str:
    return f"pi* of {in_table(problem.name) or 'the problem'}"


def numbers_table(by_type: Mapping[str, Mapping[Any, float]], title: str) -> Table:
    """The numbers of the best mixture and their shares of the pulls; without types, of type ""."""
    lines = [(name, *one) for name, some in by_type.items() for one in some.items()]
    shown = [", ".join(number(one, 6) for one in np.atleast_1d(value)) for _, value, _ in lines]
    columns = [] if "" in by_type else [names("type", [name for name, *_ in lines])]
    columns.append(Column("number", shown))
    columns.append(Column("share of pulls", [share for *_, share in lines], "{:.4f}".format))
    return Table(columns, title)


def _phases_table(problem: Problem, phases: Sequence[Row]) -> Table:
    """A row per phase: its rates, in the user's units, and the arms' shares of its cost."""
    pulled = [_pulled(problem.names, one["cost_share"]) for one in phases]
    columns = [
        Column("from", [one["start"] for one in phases], "{:g}".format),
        Column("reward rate", [one["reward_rate"] for one in phases], partial(number, digits=5)),
        Column("penalty rate", [_by_limit(problem, one["penalty_rate"], 5) for one in phases]),
        texts("cost shares", pulled),
    ]
    return Table(columns, f"the best of each phase of {in_table(problem.name) or 'the problem'}")


def types_table(arms: Sequence[str], shares: Mapping[str, Sequence[float]]) -> Table:
    """A row per type of request: the arms' shares of its pulls."""
    pulled = [_pulled(arms, one) for one in shares.values()]
    columns = [names("type", list(shares)), texts("pull shares", pulled)]
    return Table(columns, "the best of each type")


def _pulled(arms: Sequence[str], shares: Sequence[float]) -> str:
    """The arms with a share, and their shares."""
    both = zip(arms, shares, strict=True)
    return ", ".join(f"{in_table(name)} {share:.3f}" for name, share in both if share > 0.0)
