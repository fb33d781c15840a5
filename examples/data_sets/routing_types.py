"""What the type of a request is worth to a router: resolve with and without contexts.

    python examples/data_sets/routing_types.py --orders 200

The table is that of ``routing.py``. The type of a prompt is the benchmark that it comes from. The
cases "after a log" learn from the other table of the wheel first, each row with the weight 0.3.
Prints the mean reward of a request [dollars over the limit; share of orders that broke the limit].
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from routing import LIMITS, MODELS, columns_of
from wheels import PARETOBANDIT, Columns, default_cache, fetch

from tightrope import FullTable, Limit, Scales, Task, replay
from tightrope.errors import TightropeError

POLICY, WEIGHT = "resolve:risk=0.01", 0.3
LARGEST_PRICE = 0.15  # dollars of one answer; rare larger ones in the log count as this
TABLES = ("test_holdout", "val")  # the one that is replayed, and the log that is learned from
Cases = dict[str, tuple[bool, bool]]  # by name: with types, after a log
Made = Callable[[bool], tuple[list[FullTable], Any]]
CASES: Cases = {
    "no types": (False, False),
    "no types, after a log": (False, True),
    "types": (True, False),
    "types, after a log": (True, True),
}


def table_of(columns: Columns, types: bool) -> FullTable:
    """A table of the wheel, with or without the types of its prompts."""
    rows = len(columns["prompt"]) // len(MODELS)
    answers = np.column_stack([np.ones(rows * len(MODELS)), columns["reward"], columns["dollars"]])
    kinds = columns["benchmark"][:: len(MODELS)] if types else None
    names = list(MODELS.values())
    return FullTable(names, ["dollars"], answers.reshape(rows, len(MODELS), 3), contexts=kinds)


def kinds_of(tables: Sequence[FullTable]) -> list[str]:
    """The types of all tables."""
    return sorted({kind for table in tables for kind in table.contexts or ()})


def cell(
    tables: Sequence[FullTable], contexts: Any, limit: float, learns: bool, **orders: int
) -> str:
    """The results at a limit, in a few characters."""
    table, other = tables
    task = Task(
        table.arms,
        {"dollars": Limit(limit, per="pull")},
        Scales(penalty={"dollars": LARGEST_PRICE}),
        costs=1,
        contexts=contexts,
    )
    past = other if learns else None
    budget = len(table) - 1
    found = replay(table, task, POLICY, budget=budget, learn_from=past, weight=WEIGHT, **orders)
    (row,) = found.rows
    reward = row.reward_rate.mean * budget / len(table)
    spend = 1.0 + row.violation[0].mean / limit
    return f"{reward:.4f} [{spend:.2f}; {row.broken[0][0]:.1%}]"


def compare(
    about: str, cases: Cases, made: Callable[[Path], Made], arguments: Sequence[str] | None
) -> int:
    """Print a line for each case and a column for each limit.

    ``made``: from the wheel, a function from a case to its two tables and the task's contexts.
    """
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("--orders", type=int, default=20, help="shuffles of the prompts")
    parser.add_argument("--seed", type=int, default=0, help="of the shuffles")
    options, width = parser.parse_args(arguments), max(map(len, cases))
    try:
        tables_of = made(fetch(PARETOBANDIT, default_cache()))
        print(f"{'dollars per request':{width}}", *(f"{limit:<20.3g}" for limit in LIMITS))
        for name, (types, learns) in cases.items():
            tables, contexts = tables_of(types)
            cells = [cell(tables, contexts, limit, learns, **vars(options)) for limit in LIMITS]
            print(f"{name:{width}}", *(f"{one:20}" for one in cells), flush=True)
    except TightropeError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 0


def typed(wheel: Path) -> Made:
    """The tables of a wheel with or without types."""
    sources = [columns_of(wheel, name) for name in TABLES]

    def made(types: bool) -> tuple[list[FullTable], list[str] | None]:
        tables = [table_of(columns, types) for columns in sources]
        return tables, kinds_of(tables) or None

    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the router with and without types."""
    return compare(__doc__ or "", CASES, typed, arguments)


if __name__ == "__main__":
    sys.exit(main())
