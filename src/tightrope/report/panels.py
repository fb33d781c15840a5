"""Figures as data: panels of curves with intervals, and of reference lines.

An experiment describes panels; ``figures`` draws them. Letters: N points per curve.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tightrope.errors import InfeasibleError, InputError, nearest
from tightrope.optimum.pi_star import Oracle, oracle
from tightrope.problem import Problem, channel_names
from tightrope.problem.values import Floats
from tightrope.report.rows import ReportRow, interval, mean, of_limits, optimum_rate
from tightrope.report.styles import Style
from tightrope.statistics import quantile

if TYPE_CHECKING:
    from tightrope.engine import Trajectory

METRICS = {
    "reward_rate": "reward / budget",
    "violation": "penalty / budget − limit",
    "regret": "regret: optimum − reward",
    "pull_share": "share of pulls",
    "cost_share": "share of cost",
    "pulls": "pulls per run",
    "queue_max": "largest queue of a run",
}
OVER_TIME = {  # metrics of a trajectory
    "reward": "reward so far",
    "cost": "cost so far",
    "penalty": "penalty so far",
    "queue": "queue",
}
MOST_LINES = 12  # up to this many runs of a trajectory are drawn one by one
MIDDLE = (0.05, 0.95)  # of more runs, the quantiles between which the band lies
INTERVAL = "95 % interval"
OUTSIDE = "hollow: δ ≥ c, outside the theory"
MOST_PARTS = 6  # panels of a metric with a number per arm: the arms with the largest values
WIDE = 20.0  # budgets that span this factor get a logarithmic axis


@dataclass(frozen=True, eq=False)
class PolicyCurve:
    """A policy's values: ``label`` determines the colour, ``name`` is shown in the legend."""

    label: str
    name: str
    x: Floats  # [N]
    y: Floats  # [N]
    low: Floats | None  # [N] lower end of the 95 % interval; None if unknown
    high: Floats | None  # [N]
    hollow: npt.NDArray[np.bool_]  # [N] whether to draw the point hollow
    line: bool = True  # whether to join the points
    points: bool = True  # whether to mark the points
    style: Style | None = None  # replaces the label's style


@dataclass(frozen=True, eq=False)
class Reference:
    """A reference line; ``role``, a key of ``styles.REFERENCES``, determines its style."""

    role: str
    name: str
    y: Floats  # [N], or [1] for a horizontal line
    x: Floats | None = None  # [N]


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes."""

    title: str
    y_label: str
    curves: Sequence[PolicyCurve]
    references: Sequence[Reference] = ()
    x_label: str = "budget B"
    x_unit: float = 1.0  # ticks show x / x_unit
    x_log: bool = False
    y_log: bool = False
    x_names: Sequence[str] = ()  # tick labels for x = 0, 1, ...
    x_ticks: int | None = None  # most ticks, if numbers are long; powers of ten if x_log; 0: none
    x_limits: tuple[float, float] | None = None  # fixed limits, the same in several panels
    from_zero: bool = False  # whether to start at x = 0
    y_share: float | None = None  # show y in per cent, logarithmic beyond this share
    y_limits: tuple[float, float] | None = None  # fixed limits, to compare several panels
    hollow: str = OUTSIDE  # the legend's text for hollow points
    band: str = INTERVAL  # the legend's text for bands


def curve(
    rows: Sequence[ReportRow],
    metric: str,
    number: int | None = None,
    *,
    name: str | None = None,
    line: bool = True,
) -> PolicyCurve:
    """A policy's ``metric`` against the budget; ``number``, from 0, picks one of several parts."""
    pairs = [interval(row, metric, number) for row in rows]
    known = all(pair is not None for pair in pairs)
    ends = np.array(pairs, float).T if known else (None, None)
    return PolicyCurve(
        label=rows[0].policy,
        name=name or rows[0].policy,
        x=np.array([row.budget for row in rows], float),
        y=np.array([mean(row, metric, number) for row in rows], float),
        low=ends[0],
        high=ends[1],
        hollow=np.array([row.outside_theory for row in rows], bool),
        line=line,
    )


def optimum_line(rows: Sequence[ReportRow]) -> list[Reference]:
    """OPT(B) / B at the rows' budgets, if it is known."""
    rates = {row.budget: optimum_rate(row) for row in rows}
    known = sorted((budget, rate) for budget, rate in rates.items() if rate is not None)
    if not known:
        return []
    budgets, values = np.array(known).T
    return [Reference("optimum", "exact optimum OPT(B)/B", values, budgets)]


def stationary_line(problem: Problem, metric: str, number: int | None = None) -> list[Reference]:
    """pi*'s exact reward rate or share, if the problem is feasible and pi* has the metric."""
    best = _feasible_oracle(problem)
    if best is None or metric not in ("reward_rate", "pull_share", "cost_share"):
        return []
    value = getattr(best, metric)
    height = float(value if number is None else value[number])
    return [Reference("stationary", "π*, exact", np.array([height]))]


def limit_line(metric: str) -> list[Reference]:
    """The line at violation 0, if the metric is the violation."""
    if metric != "violation":
        return []
    return [Reference("limit", "limit: violation 0", np.zeros(1))]


def metric_panels(problem: Problem, rows: Sequence[ReportRow], metric: str) -> list[Panel]:
    """``metric`` of every policy against the budget, with a panel per part of the metric."""
    _require_metric(problem, rows, metric)
    labels = list(dict.fromkeys(row.policy for row in rows))
    panels = []
    for number, title in _parts(problem, rows, metric):
        curves = [
            curve([row for row in rows if row.policy == label], metric, number) for label in labels
        ]
        references = [*stationary_line(problem, metric, number), *limit_line(metric)]
        if metric == "reward_rate":
            references = [*optimum_line(rows), *references]
        panels.append(_placed(Panel(title, _y_label(problem, metric), curves, references)))
    return panels


def trajectory_panels(paths: Mapping[str, Trajectory], metric: str) -> list[Panel]:
    """``metric`` of each trajectory's runs against the pulls, with a panel per limit.

    A few runs are drawn one by one; many as their median with a 5 % to 95 % band.
    """
    if metric not in OVER_TIME:
        raise InputError(f"metric = {metric!r} is unknown; {nearest(str(metric), OVER_TIME)}")
    counts = {path.penalty.shape[2] for path in paths.values()}
    by_limit = metric in ("penalty", "queue")
    if not paths or (by_limit and (len(counts) > 1 or 0 in counts)):
        raise InputError(
            f"metric = {metric!r}: the trajectories must all have it, for the same limits; choose"
            " another, such as 'reward'"
        )
    titles = _limit_titles(metric, paths.values()) if by_limit else [metric]
    band = f"{MIDDLE[0]:.0%} to {MIDDLE[1]:.0%} of the runs".replace("%", " %")
    panels = []
    for m, title in enumerate(titles):
        curves = [one for name, path in paths.items() for one in _over_time(name, path, metric, m)]
        title = title if len(titles) > 1 else ""
        panels.append(Panel(title, OVER_TIME[metric], curves, x_label="pulls", band=band))
    return panels


def _limit_titles(metric: str, paths: Iterable[Trajectory]) -> list[str]:
    """A title for each limit: by its name where all trajectories have the same, else by order."""
    known = {path.limit_names or channel_names(path.penalty.shape[2])[2:] for path in paths}
    names = next(iter(known))
    return of_limits(metric, names if len(known) == 1 else channel_names(len(names))[2:])


def _over_time(name: str, path: Trajectory, metric: str, m: int) -> list[PolicyCurve]:
    """A curve per run if there are few, else one curve of the median."""
    values = getattr(path, metric)
    runs: Floats = values[:, :, m] if values.ndim == 3 else values  # [R, T]
    x = path.step.astype(np.float64)
    plain = np.zeros(len(x), bool)
    if len(runs) <= MOST_LINES:
        return [PolicyCurve(name, name, x, y, None, None, plain, points=False) for y in runs]
    low, middle, high = (quantile(runs, share, axis=0) for share in (MIDDLE[0], 0.5, MIDDLE[1]))
    return [PolicyCurve(name, f"{name}: median", x, middle, low, high, plain, points=False)]


def _y_label(problem: Problem, metric: str) -> str:
    """The axis label; with a single named limit, it has the limit's name."""
    if metric != "violation":
        return METRICS[metric]
    name = problem.limit_names[0] if problem.penalty_count == 1 else "penalty"
    rates = dict.fromkeys(limit.quotient for limit in problem.limit_kinds)
    return f"{name}{' or'.join(rates)} − limit"


def _placed(panel: Panel) -> Panel:
    """The panel with a suitable axis for budgets; if there is one budget, policies on the axis."""
    budgets = np.unique(np.concatenate([one.x for one in panel.curves]))
    if len(budgets) > 1:
        return replace(panel, x_log=bool(budgets[-1] >= WIDE * budgets[0]))
    curves = [replace(one, x=np.array([float(i)])) for i, one in enumerate(panel.curves)]
    return replace(
        panel,
        curves=curves,
        references=[replace(line, x=None) for line in panel.references],
        x_label=f"policy, at budget {budgets[0]:,g}",
        x_names=[one.name for one in curves],
    )


def _require_metric(problem: Problem, rows: Sequence[ReportRow], metric: str) -> None:
    if metric not in METRICS:
        raise InputError(f"metric = {metric!r} is unknown; {nearest(str(metric), METRICS)}")
    values = [getattr(row, metric) for row in rows]
    if not values or any(value is None or value == () for value in values):
        raise InputError(
            f"metric = {metric!r}: problem {problem.name!r} does not have it at these budgets;"
            " choose another, such as 'reward_rate'"
        )


def _parts(
    problem: Problem, rows: Sequence[ReportRow], metric: str
) -> list[tuple[int | None, str]]:
    """The parts of a metric (numbers from 0) and their titles; None if it is a single number."""
    first = getattr(rows[0], metric)
    of_arms = metric.endswith("_share")
    if not isinstance(first, tuple) or (len(first) == 1 and not of_arms):
        return [(None, "")]
    numbers = range(len(first))
    values = np.array([[mean(row, metric, number) for number in numbers] for row in rows], float)
    chosen = np.sort(np.argsort(-values.max(axis=0), kind="stable")[:MOST_PARTS])
    if of_arms:
        return [(int(k), f"arm {k + 1}: {problem.names[k]}") for k in chosen]
    return [(int(m), f"{problem.limit_names[m]}, limit {problem.limits[m]:g}") for m in chosen]


def _feasible_oracle(problem: Problem) -> Oracle | None:
    """pi*; None if no mixture keeps the limits or the arms change."""
    if problem.changes:
        return None
    try:
        return oracle(problem)
    except InfeasibleError:
        return None
