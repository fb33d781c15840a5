"""Rows: the input of reports, one per policy and budget.

All reports accept rows of any origin: those of ``Results.rows()``, dictionaries of
``Results.summary()``, or the :class:`ReportRow` of an experiment. Letters: K arms.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tightrope.problem import channel_names
from tightrope.problem.values import Floats
from tightrope.results import Results
from tightrope.runs import SummaryRow
from tightrope.statistics import Estimate, Interval, mean_intervals

Row = Mapping[str, Any]
AnyRow = SummaryRow | Row
Intervals = tuple[Interval | None, ...]
TIMINGS = ("seconds", "compile_seconds")  # they differ between identical runs


@dataclass(frozen=True)
class ReportRow(SummaryRow):
    """A summary row with further columns for reports.

    ``problem``: its name; empty if there is only one. ``outside_theory``: delta is not below the
    limit. ``pull_share_interval``, ``cost_share_interval`` [K]: 95 %; None for a single run.
    """

    problem: str = ""
    outside_theory: bool = False
    pull_share_interval: Intervals = ()
    cost_share_interval: Intervals = ()

    def as_dict(self) -> dict[str, Any]:
        """As ``SummaryRow.as_dict``, without timings, so that the same runs give the same rows."""
        whole = super().as_dict()
        lasting = {key: value for key, value in whole.items() if key not in TIMINGS}
        return {
            "problem": self.problem,
            **lasting,
            "pull_share_interval": list(map(_listed, self.pull_share_interval)),
            "cost_share_interval": list(map(_listed, self.cost_share_interval)),
            "outside_theory": self.outside_theory,
        }


def typed(rows: Sequence[AnyRow]) -> list[ReportRow]:
    """Rows of any kind as :class:`ReportRow`; dictionaries have no intervals of the shares."""
    return [row if isinstance(row, ReportRow) else _typed(row) for row in rows]


def _typed(row: AnyRow) -> ReportRow:
    own: dict[str, Any] = {}
    if not isinstance(row, SummaryRow):
        own = {key: row[key] for key in ("problem", "outside_theory") if key in row}
        row = SummaryRow.from_dict(row)
    return ReportRow(**{one.name: getattr(row, one.name) for one in fields(SummaryRow)}, **own)


def entries(row: AnyRow) -> Mapping[str, Any]:
    """A row of any kind as a dictionary."""
    return row.as_dict() if isinstance(row, SummaryRow) else row


def detailed(
    results: Results, problem: str = "", outside: Collection[tuple[str, float]] = ()
) -> list[ReportRow]:
    """The results' rows with the intervals of the shares.

    ``outside``: the pairs of policy and budget that the theory does not cover.
    """
    budgets = range(len(results.budgets))
    runs = [record.normalised_runs[g] for record in results.records for g in budgets]
    return [
        ReportRow(
            **vars(row),
            problem=problem,
            outside_theory=(row.policy, row.budget) in outside,
            pull_share_interval=_share_intervals(made.pulls.astype(np.float64)),
            cost_share_interval=_share_intervals(made.arm_cost),
        )
        for row, made in zip(results.rows(), runs, strict=True)
    ]


def part(row: SummaryRow, metric: str, number: int | None = None) -> Any:
    """A row's value of a metric, a number or an estimate.

    If there are several, ``number``, from 0, picks one; by default the first.
    """
    value = getattr(row, metric)
    return value[number or 0] if isinstance(value, tuple) else value


def mean(row: SummaryRow, metric: str, number: int | None = None) -> float | None:
    """As :func:`part`, but the mean of an estimate."""
    value = part(row, metric, number)
    return value.mean if isinstance(value, Estimate) else value


def interval(row: SummaryRow, metric: str, number: int | None = None) -> Interval | None:
    """The 95 % interval of the value of :func:`part`, or None."""
    value = part(row, metric, number)
    if isinstance(value, Estimate):
        return value.interval
    pairs: Intervals = getattr(row, f"{metric}_interval", ())
    return pairs[number or 0] if pairs else None


def of_limits(what: str, names: Sequence[str]) -> list[str]:
    """Headings for a number per limit: with the limit's name, or its number if it has none.

    >>> of_limits("violation", ["penalty"]), of_limits("violation", ["penalty 1", "penalty 2"])
    (['violation'], ['violation 1', 'violation 2'])
    >>> of_limits("violation", ["bad"])
    ['violation of bad']
    """
    if tuple(names) != channel_names(len(names))[2:]:
        return [f"{what} of {name}" for name in names]
    return [what] if len(names) == 1 else [f"{what} {m + 1}" for m in range(len(names))]


def titled(policy: str, knows: str) -> str:
    """A policy with what it knows of the arms.

    >>> titled("lyon", "smallest cost"), titled("lyoff", "laws"), titled("resolve", "")
    ('lyon (knows the smallest cost)', 'lyoff (knows the distributions)', 'resolve')
    """
    return f"{policy} (knows the {known_words(knows)})" if knows else policy


def known_words(knows: str) -> str:
    """What a policy knows of the arms, in words."""
    return "distributions" if knows == "laws" else knows


def optimum_rate(row: AnyRow) -> float | None:
    """OPT(B) / B, the best causal policy's reward per unit of budget; None if infeasible."""
    (known,) = typed([row])
    if known.regret is None:
        return None
    return known.reward_rate.mean + known.regret.mean / known.budget


def _share_intervals(amounts: Floats) -> Intervals:
    """95 % intervals of the mean share [K], from each run's amounts [R, K]."""
    found = mean_intervals(amounts / amounts.sum(axis=1, keepdims=True))
    return (None,) * amounts.shape[1] if found is None else tuple(map(tuple, found.tolist()))


def _listed(pair: Interval | None) -> list[float] | None:
    return None if pair is None else list(pair)
