"""Tuning: find v0 and delta0 for a problem by simulation.

A coarse grid is followed by two finer ones around the best setting so far. All settings use the
same draws (common random numbers), so differences between settings have smaller errors than the
settings themselves. delta is searched as a share of the tightest limit, because the theory requires
it to be below the limit. The chosen setting earns the most among those whose violation is below the
allowed one with 95 % confidence. It is then run again on new draws, because the best of many
estimates is biased upwards.
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from tightrope.callers import also_called
from tightrope.engine.arguments import budget_list, require_problem, run_numbers
from tightrope.engine.caveats import warn_infeasible
from tightrope.engine.checkpoint import Checkpoint
from tightrope.engine.progress import Progress, reporting
from tightrope.engine.simulation import SimulationRequest, SimulationSettings, make
from tightrope.errors import (
    InfeasibleLimitsWarning,
    InputError,
    OutsideTheoryWarning,
    PolicyError,
    ProblemError,
)
from tightrope.policies import LyOn, Policy
from tightrope.policies.base import set_up
from tightrope.problem import Problem
from tightrope.problem.values import number
from tightrope.report.panels import Panel, PolicyCurve, Reference
from tightrope.report.rows import optimum_rate
from tightrope.report.styles import graded, styles
from tightrope.summary import SummaryRow

__all__ = ["TunedRow", "Tuning", "tune"]

V0 = (1 / 64, 1 / 16, 1 / 4, 1.0, 4.0)
SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)  # values of delta, relative to the tightest limit
FACTORS = ((0.5, 1.0, 2.0), (0.7, 1.0, 1.4))  # factors of v0 and delta in the two finer grids
LARGEST_SHARE = 0.95
COARSE = 4  # the coarse grid uses a fourth of the runs
FRESH = 2**32  # first run number of the final runs: draws not used in the search
TRIED, CHOSEN = "uniform-random", "stationary"  # the policies whose styles the points get

# The work for the progress bar, in settings at the full number of runs: a rough guess.
WORK = len(V0) * len(SHARES) * (1 / COARSE + 1) + sum(len(f) ** 2 for f in FACTORS) + 1

Tunable = Any  # a policy with v0 and delta0
Setting = tuple[float, float]  # v0, delta as a share of the tightest limit


@dataclass(frozen=True)
class TunedRow(SummaryRow):
    """A setting's summary row, with ``v0`` and ``delta0`` to three digits."""

    v0: float = 0.0
    delta0: float = 0.0
    setting: Setting = (0.0, 0.0)  # unrounded

    @property
    def worst(self) -> float:
        """The largest violation."""
        return max(one.mean for one in self.violation)

    def keeps(self, max_violation: float) -> bool:
        """Whether every violation is below the allowed one with 95 % confidence."""
        return all(one.mean + one.reach <= max_violation for one in self.violation)

    def as_dict(self) -> dict[str, Any]:
        """The row as a JSON-ready dictionary."""
        return {**super().as_dict(), "v0": self.v0, "delta0": self.delta0}


@dataclass(frozen=True, eq=False)
class Tuning:
    """The result of tuning: all settings tried, the frontier, and the chosen one, run again.

    ``coarse`` are the rows of the first grid, with fewer runs; ``chosen`` is on new draws.
    ``feasible`` is False if no setting kept ``max_violation``; the least violating one is then
    chosen.
    """

    problem: Problem
    budget: float
    max_violation: float
    policy: Tunable
    rows: Sequence[TunedRow]
    coarse: Sequence[TunedRow]
    chosen: TunedRow
    feasible: bool

    @property
    def frontier(self) -> list[TunedRow]:
        """The settings that no other beats in both reward and violation, sorted by violation."""
        return _frontier(self.rows)

    @property
    def _allowed(self) -> str:
        return f"allowed: violation {self.max_violation:g}"

    def panels(self) -> list[Panel]:
        """Two panels: reward against violation, and the violation by setting."""
        return [self._trade_off(), self._settings()]

    def _trade_off(self) -> Panel:
        """Reward against violation; with two arms, all policies lie on one line."""
        curves = [
            _points(TRIED, "settings tried", [*self.coarse, *self.rows], line=False),
            _points(self.policy.name, f"frontier of {self.policy.name}", self.frontier),
            _points(CHOSEN, f"chosen: {self.policy.label}", [self.chosen]),
        ]
        heights = [row.reward_rate.mean for row in self.coarse]
        edge = np.array([min(heights), max(heights)]), np.full(2, self.max_violation)
        references = [Reference("limit", self._allowed, *edge)]
        rate = optimum_rate(self.chosen)
        if rate is not None:
            references.insert(0, Reference("optimum", "exact optimum OPT(B)/B", np.array([rate])))
        title = f"Trade-off, budget {self.budget:,g}"
        x_label = "penalty / budget − limit"
        return Panel(title, "reward / budget", curves, references, x_label=x_label, x_ticks=5)

    def _settings(self) -> Panel:
        """The violation against v0, with a curve for some values of delta0 of the first grid."""
        curves, shares = [], SHARES[::2]
        beside = styles([TRIED, self.policy.name, CHOSEN])  # of the other panel, in the same legend
        for share, style in zip(shares, graded(len(shares), list(beside.values())), strict=True):
            rows = [row for row in self.coarse if row.setting[1] == share]
            name = f"delta0 = {rows[0].delta0:g}"
            shown = _points(f"{self.policy.name}:{name}", name, rows)
            v0 = np.array([row.v0 for row in rows])
            curves.append(replace(shown, x=v0, y=shown.x, style=style))
        references = [Reference("limit", self._allowed, np.array([self.max_violation]))]
        y_label = "penalty / budget − limit"
        return Panel("Violation by setting", y_label, curves, references, x_label="v0", x_log=True)


@also_called("budgets", "budget")
def tune(
    problem: Problem,
    policy: Tunable | None = None,
    *,
    budget: float,
    max_violation: float = 0.0,
    runs: int = 1000,
    seed: int = 0,
    progress: Progress = None,
    checkpoint: str | os.PathLike[str] | None = None,
    fresh: bool = False,
) -> Tuning:
    """Find the v0 and delta0 that earn the most with a violation of at most ``max_violation``.

    ``policy`` gives the other parameters; by default it is ``LyOn()``. ``max_violation`` is in
    penalty per unit of budget above the limit; negative values demand a margin. ``checkpoint`` is a
    folder for finished runs: after an interruption, the same call continues from there; ``fresh``
    starts again.

    >>> from tightrope import ready_problem, tune
    >>> tuned = tune(ready_problem("paper"), budget=1000, runs=200)  # doctest: +SKIP
    >>> tuned.chosen.policy, tuned.feasible  # doctest: +SKIP
    """
    base = _tunable(LyOn() if policy is None else policy)
    if not require_problem(problem).penalty_count:
        raise ProblemError("the problem has no limit, so there is nothing to tune")
    if len(run_numbers(runs)) < 2:
        raise InputError(f"runs = {runs!r} must be at least 2: one run has no interval")
    max_violation = number(max_violation, "max_violation")
    [budget] = budget_list([budget], problem)
    warn_infeasible(problem, [budget])
    with ExitStack() as stack:
        store = None
        if checkpoint is not None:
            store = stack.enter_context(Checkpoint(checkpoint, fresh=fresh))
        tell = stack.enter_context(reporting(progress, WORK, "tuning"))
        search = _Search(problem, base, budget, seed, store)
        coarse = search.rows(itertools.product(V0, SHARES), max(2, runs // COARSE))
        tell(len(V0) * len(SHARES) / COARSE)
        promising = [*_frontier(coarse), _best(coarse, max_violation)]
        rows = search.rows([row.setting for row in promising], runs)
        tell(len(V0) * len(SHARES))
        for factors in FACTORS:
            best = _best(rows, max_violation)
            rows += search.rows(_around(best.setting, factors, rows), runs)
            tell(len(factors) ** 2)
        best = _best(rows, max_violation)
        chosen = search.rows([best.setting], runs, first=FRESH)[0]
        tell(1)
    return Tuning(
        problem=problem,
        budget=search.budget,
        max_violation=max_violation,
        policy=search.policy(*best.setting),
        rows=rows,
        coarse=coarse,
        chosen=chosen,
        feasible=best.keeps(max_violation),
    )


def _tunable(policy: Policy) -> Any:
    """``policy`` without fixed V and delta; raises unless it has v0 and delta0."""
    known = {one.name for one in fields(policy)} if is_dataclass(policy) else set[str]()
    if not {"v0", "delta0"} <= known:
        raise PolicyError(f"policy {policy.label} cannot be tuned; it has no v0 and delta0")
    return replace(policy, **dict.fromkeys({"v", "delta"} & known))  # type: ignore[type-var]


@dataclass(frozen=True)
class _Search:
    problem: Problem
    base: Tunable
    budget: float
    seed: int
    store: Checkpoint | None

    def policy(self, v0: float, share: float) -> Tunable:
        """The policy with this v0, and with delta equal to ``share`` of the tightest limit."""
        scaled = self.budget / self.problem.scales.cost
        limits = self.problem.moments.limits
        with_unit = set_up(replace(self.base, delta0=1.0), self.problem, scaled)
        unit, limit = float(limits[0] - with_unit.allowance[0]), float(limits.min())
        return replace(self.base, v0=_short(v0), delta0=_short(share * limit / unit))

    def rows(self, settings: Iterable[Setting], runs: int, first: int = 0) -> list[TunedRow]:
        """A summary row for each setting, all on the same draws."""
        wanted = list(dict.fromkeys(settings))
        if not wanted:
            return []
        policies = {f"{v0:g} {share:g}": self.policy(v0, share) for v0, share in wanted}
        numbers = np.arange(first, first + runs)
        request = SimulationRequest(self.problem, policies, [self.budget], numbers)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutsideTheoryWarning)  # the search tries any setting
            warnings.simplefilter("ignore", InfeasibleLimitsWarning)  # already issued once
            quiet = SimulationSettings(self.seed, progress=False)
            (results,) = make([request], quiet, self.store, whole=True)
        return [
            TunedRow(
                **{**vars(row), "policy": policy.label},
                v0=policy.v0,
                delta0=policy.delta0,
                setting=setting,
            )
            for setting, policy, row in zip(wanted, policies.values(), results.rows(), strict=True)
        ]


def _best(rows: Sequence[TunedRow], max_violation: float) -> TunedRow:
    """The row with the highest reward among those that keep it; else the least violating one."""
    kept = [row for row in rows if row.keeps(max_violation)]
    if kept:
        return max(kept, key=lambda row: row.reward_rate.mean)
    return min(rows, key=lambda row: row.worst)


def _frontier(rows: Sequence[TunedRow]) -> list[TunedRow]:
    """The rows that no other beats in both reward and violation, sorted by violation."""
    kept: list[TunedRow] = []
    for row in sorted(rows, key=lambda row: (row.worst, -row.reward_rate.mean)):
        if not kept or row.reward_rate.mean > kept[-1].reward_rate.mean:
            kept.append(row)
    return kept


def _around(best: Setting, factors: Sequence[float], rows: Sequence[TunedRow]) -> list[Setting]:
    """The settings around ``best`` that have not been tried."""
    v0, share = best
    shares = [min(LARGEST_SHARE, max(share, SHARES[1]) * factor) for factor in factors]
    tried = {row.setting for row in rows}
    about = itertools.product([v0 * factor for factor in factors], {share, *shares})
    return [setting for setting in sorted(about) if setting not in tried]


def _short(value: float) -> float:
    """The value rounded to three significant digits, easy to read and type."""
    return float(f"{value:.3g}")


def _points(label: str, name: str, rows: Sequence[TunedRow], *, line: bool = True) -> PolicyCurve:
    return PolicyCurve(
        label=label,
        name=name,
        x=np.array([row.worst for row in rows]),
        y=np.array([row.reward_rate.mean for row in rows]),
        low=None,
        high=None,
        hollow=np.zeros(len(rows), bool),
        line=line,
    )
