"""Rows: what a report knows of each policy at each budget.

A row is a dictionary of ``Results.summary()``; :func:`detailed` adds the intervals of the shares.
Everything in the report reads rows and none of it cares where they came from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tightrope.problem import channel_names
from tightrope.results import NORMAL_95, Floats, Results

__all__ = ["Row", "detailed", "half_width", "of_limits", "optimum_rate", "part"]

Row = Mapping[str, Any]


def detailed(results: Results) -> list[dict[str, Any]]:
    """The summary, with ``pull_share_interval`` and ``cost_share_interval`` [K][2] (95 %)."""
    rows = results.summary()
    runs = [record.runs[g] for record in results.records for g in range(len(results.budgets))]
    for row, made in zip(rows, runs, strict=True):
        row["pull_share_interval"] = _share_intervals(made.pulls.astype(np.float64))
        row["cost_share_interval"] = _share_intervals(made.arm_cost)
    return rows


def part(row: Row, key: str, number: int | None) -> Any:
    """A row's value, or the part ``number`` (from 0) of one that is a list."""
    value = row[key]
    return value if number is None else value[number]


def of_limits(what: str, names: Sequence[str]) -> list[str]:
    """What to call a number of each limit: by its name, or by its order where it has none.

    >>> of_limits("violation", ["penalty"]), of_limits("violation", ["penalty 1", "penalty 2"])
    (['violation'], ['violation 1', 'violation 2'])
    >>> of_limits("violation", ["bad"])
    ['violation of bad']
    """
    if tuple(names) != channel_names(len(names))[2:]:
        return [f"{what} of {name}" for name in names]
    return [what] if len(names) == 1 else [f"{what} {m + 1}" for m in range(len(names))]


def half_width(interval: Sequence[float] | None) -> float | None:
    """Half of an interval's width; None where there is none."""
    return None if interval is None else (interval[1] - interval[0]) / 2.0


def optimum_rate(row: Row) -> float | None:
    """OPT(B) / B: what the best causal policy earns per unit of budget; None if infeasible."""
    if row["regret"] is None:
        return None
    return float(row["reward_rate"] + row["regret"] / row["budget"])


def _share_intervals(amounts: Floats) -> list[list[float] | None]:
    """95 % intervals of the mean share [K], from each run's amounts [R, K]."""
    shares = amounts / amounts.sum(axis=1, keepdims=True)
    if len(shares) < 2:
        return [None] * shares.shape[1]
    mean = shares.mean(axis=0)
    reach = NORMAL_95 * shares.std(axis=0, ddof=1) / np.sqrt(len(shares))
    pairs: list[list[float] | None] = np.column_stack([mean - reach, mean + reach]).tolist()
    return pairs
