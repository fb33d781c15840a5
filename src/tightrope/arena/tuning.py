"""Tuning: find parameters of a policy for a problem by simulation.

A coarse grid is followed by two finer ones around the best setting so far. All settings use the
same draws (common random numbers), so differences between settings have smaller errors than the
settings themselves. By default v0 and delta0 are searched, delta as a share of the tightest limit,
because the theory requires it to be below the limit. The chosen setting earns the most among those
whose violation is below the allowed one with 95 % confidence. It is then run again on new draws,
because the best of many estimates is biased upwards.
"""

from __future__ import annotations

import itertools
import math
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from tightrope.callers import also_called
from tightrope.engine.arguments import budget_list, run_numbers
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
    nearest,
)
from tightrope.policies import LyOn, parse_policy
from tightrope.policies.base import limits_of, set_up
from tightrope.problem import Problem
from tightrope.problem.ready import as_problem
from tightrope.problem.values import number
from tightrope.report.panels import Panel, PolicyCurve, Reference
from tightrope.report.rows import optimum_rate
from tightrope.report.styles import graded, styles
from tightrope.runs import SummaryRow

V0 = (1 / 64, 1 / 16, 1 / 4, 1.0, 4.0)
SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)  # values of delta, relative to the tightest limit
FACTORS = ((0.5, 1.0, 2.0), (0.7, 1.0, 1.4))  # factors of v0 and delta in the two finer grids
LARGEST_SHARE = 0.95
CURVES = 4  # most curves of the second panel
MARGIN = 0.05  # of an axis, beyond its points
COARSE = 4  # the coarse grid uses a fourth of the runs
FRESH = 2**32  # first run number of the final runs: draws not used in the search
TRIED, CHOSEN = "uniform-random", "stationary"  # the policies whose styles the points get

RANGE = 7  # values of a range in the coarse grid
SMALLEST = 1 / 64  # of a range from 0: its smallest other value, relative to the largest
MOST_SETTINGS = 1000
ALSO_FIXED = {"v0": "v", "delta0": "delta"}  # parameters that would take precedence: set to None

Tunable = Any  # a policy that is a dataclass
Setting = tuple[float, ...]  # a value of each parameter, unrounded
Grid = Mapping[str, str | Iterable[float]]


@dataclass(frozen=True)
class Axis:
    """The values of a parameter in the coarse grid, and how the finer grids go on.

    They multiply the best value by factors, or ``least`` if that is larger, and stay from ``low``
    to ``high``. Where ``exact``, they keep the best value.
    """

    name: str
    values: tuple[float, ...]
    least: float = 0.0
    low: float = 0.0
    high: float = math.inf
    exact: bool = False
    whole: bool = False  # whether only whole numbers are possible

    def around(self, best: float, factors: Sequence[float]) -> set[float]:
        """The values around the best one."""
        if self.exact:
            return {best}
        base, low, high = max(best, self.least), self.low, self.high
        more = {min(high, max(low, base * factor)) for factor in factors}
        return {best, *(map(round, more) if self.whole else more)}

    def shown(self, value: float) -> float:
        """The value that the policy gets: to three digits, which are easy to read and type."""
        return int(value) if self.whole else value if self.exact else float(f"{value:.3g}")


@dataclass(frozen=True)
class TunedRow(SummaryRow):
    """A setting's summary row, with its parameters as the policy gets them."""

    parameters: Mapping[str, float] = field(default_factory=dict)
    setting: Setting = ()  # unrounded

    def __getattr__(self, name: str) -> float:
        """A parameter by its name, such as ``v0``."""
        try:
            return self.__dict__["parameters"][name]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(f"a tuned row has no {name!r}") from None

    @property
    def worst(self) -> float:
        """The largest violation; 0 if there is no limit."""
        return max((one.mean for one in self.violation), default=0.0)

    def keeps(self, max_violation: float) -> bool:
        """Whether every violation is below the allowed one with 95 % confidence."""
        return all(one.mean + one.reach <= max_violation for one in self.violation)

    def as_dict(self) -> dict[str, Any]:
        """The row as a JSON-ready dictionary."""
        return {**super().as_dict(), **self.parameters}


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
    def settings(self) -> int:
        """The number of settings that were tried, also those of the first grid alone."""
        return len({row.setting for row in (*self.coarse, *self.rows)})

    @property
    def _allowed(self) -> str:
        return f"allowed: violation {self.max_violation:g}"

    @property
    def _above(self) -> str:
        """What a violation is, in the units of the limits."""
        rates = dict.fromkeys(limit.quotient for limit in self.problem.limit_kinds)
        return f"penalty{' or'.join(rates)} − limit"

    def panels(self) -> list[Panel]:
        """Two panels: reward against violation, and the violation by setting."""
        return [self._trade_off(), self._settings()]

    def _trade_off(self) -> Panel:
        """Reward against violation; with two arms, all policies lie on one line."""
        given = ",".join(f"{name}={x:g}" for name, x in self.chosen.parameters.items())
        curves = [
            _points(TRIED, "settings tried", [*self.coarse, *self.rows], line=False),
            _points(self.policy.name, f"frontier of {self.policy.name}", self.frontier),
            _points(CHOSEN, f"chosen, new runs: {given}", [self.chosen]),
        ]
        rate, references = optimum_rate(self.chosen), list[Reference]()
        if rate is not None:
            references.append(Reference("optimum", "exact optimum OPT(B)/B", np.array([rate])))
        ends = _with_margins(
            [*(y for one in curves for y in one.y), *(one.y[0] for one in references)]
        )
        line = np.array(ends), np.full(2, self.max_violation)
        references.append(Reference("limit", self._allowed, *line))
        return Panel(
            f"Trade-off, budget {self.budget:,g}",
            "reward / budget",
            curves,
            references,
            x_label=self._above,
            x_ticks=5,
            y_limits=ends,
        )

    def _settings(self) -> Panel:
        """The violation against the first parameter; a curve for some values of the others."""
        others = list(dict.fromkeys(row.setting[1:] for row in self.coarse))
        others = others[:: -(-len(others) // CURVES)]
        curves = []
        beside = styles([TRIED, self.policy.name, CHOSEN])  # of the other panel, in the same legend
        for other, style in zip(others, graded(len(others), list(beside.values())), strict=True):
            rows = [row for row in self.coarse if row.setting[1:] == other]
            x_label, *names = rows[0].parameters
            given = [f"{name} = {rows[0].parameters[name]:g}" for name in names]
            name = ", ".join(given) or self.policy.name
            shown = _points(f"{self.policy.name}:{name}", name, rows)
            values = np.array([row.parameters[x_label] for row in rows])
            curves.append(replace(shown, x=values, y=shown.x, style=style))
        references = [Reference("limit", self._allowed, np.array([self.max_violation]))]
        title, positive = "Violation by setting", bool(values.min() > 0)
        return Panel(title, self._above, curves, references, x_label=x_label, x_log=positive)


@also_called("budgets", "budget")
def tune(
    problem: str | Problem,
    policy: Tunable | str | None = None,
    *,
    budget: float,
    grid: Grid | None = None,
    max_violation: float = 0.0,
    runs: int = 1000,
    seed: int = 0,
    progress: Progress = None,
    checkpoint: str | os.PathLike[str] | None = None,
    fresh: bool = False,
) -> Tuning:
    """Find the parameters that earn the most with a violation of at most ``max_violation``.

    ``policy`` gives the other parameters; by default it is ``LyOn()``. ``grid`` names the
    parameters to tune: a list of values each, and no others are tried, or a range ``"LOW:HIGH"``;
    by default v0 and delta0, for policies that have them. ``max_violation`` is above the limit, in
    the limit's own unit: penalty per unit of budget, pull or reward, or in total; negative values
    demand a margin. ``checkpoint`` is a folder for finished runs: after an interruption, the same
    call continues from there; ``fresh`` starts again. It has many parameters because it simulates,
    and takes what ``simulate`` takes.

    >>> from tightrope import ready_problem, tune
    >>> tuned = tune(ready_problem("paper"), budget=1000, runs=200)  # doctest: +SKIP
    >>> tuned.chosen.policy, tuned.feasible  # doctest: +SKIP
    """
    given: Any = LyOn() if policy is None else policy
    given = parse_policy(given) if isinstance(given, str) else given
    problem = as_problem(problem)
    if not problem.penalty_count and not grid:
        raise ProblemError("the problem has no limit, so there is nothing to tune")
    if len(run_numbers(runs)) < 2:
        raise InputError(f"runs = {runs!r} must be at least 2: one run has no interval")
    max_violation = number(max_violation, "max_violation")
    [budget] = budget_list([budget], problem)
    axes = _axes(given, grid) if grid else _default_axes(given, problem, budget)
    free = {ALSO_FIXED[one.name]: None for one in axes if one.name in ALSO_FIXED}
    base = replace(given, **{name: None for name in free if hasattr(given, name)})
    first = list(itertools.product(*(axis.values for axis in axes)))
    if len(first) > MOST_SETTINGS:
        raise InputError(f"grid: {len(first)} settings; at most {MOST_SETTINGS} are possible")
    work = len(first) * (1 / COARSE + 1) + sum(len(f) ** len(axes) for f in FACTORS) + 1
    warn_infeasible(problem, [budget])
    with ExitStack() as stack:
        store = None
        if checkpoint is not None:
            store = stack.enter_context(Checkpoint(checkpoint, fresh=fresh))
        tell = stack.enter_context(reporting(progress, work, "tuning"))
        search = _Search(problem, base, axes, budget, seed, store)
        coarse = search.rows(first, max(2, runs // COARSE))
        tell(len(first) / COARSE)
        promising = [*_frontier(coarse), _best(coarse, max_violation)]
        rows = search.rows([row.setting for row in promising], runs)
        tell(len(first))
        for factors in FACTORS:
            best = _best(rows, max_violation)
            rows += search.rows(_around(axes, best.setting, factors, rows), runs)
            tell(len(factors) ** len(axes))
        best = _best(rows, max_violation)
        chosen = search.rows([best.setting], runs, first=FRESH)[0]
        tell(1)
    return Tuning(
        problem=problem,
        budget=search.budget,
        max_violation=max_violation,
        policy=search.policy(best.setting),
        rows=rows,
        coarse=coarse,
        chosen=chosen,
        feasible=best.keeps(max_violation),
    )


def _default_axes(policy: Tunable, problem: Problem, budget: float) -> list[Axis]:
    """v0, and delta0 such that delta is a share of the tightest limit."""
    known = [one.name for one in fields(policy)]
    if not {"v0", "delta0"} <= {*known}:
        has = f"it has {', '.join(known)}" if known else "it has none"
        raise PolicyError(
            f"policy {policy.label} has no v0 and delta0; name the parameters to tune in a grid"
            f" ({has})"
        )
    free = replace(policy, delta0=1.0, **{"delta": None} if hasattr(policy, "delta") else {})
    with_unit = set_up(free, problem, budget / problem.scales.cost)
    limits = limits_of(problem)  # what delta is subtracted from
    unit = min(limits) / (limits[0] - with_unit.allowance[0])
    shares = tuple(share * unit for share in SHARES)
    return [Axis("v0", V0), Axis("delta0", shares, least=shares[1], high=LARGEST_SHARE * unit)]


def _axes(policy: Tunable, grid: Grid) -> list[Axis]:
    """The axes that a user's grid names."""
    if not isinstance(grid, Mapping):
        raise InputError(
            f"grid = {grid!r:.80}: must be values by parameter, such as {{'v0': [1, 2]}}"
        )
    kinds = {one.name: str(one.type) for one in fields(policy)}
    axes = []
    for name, given in grid.items():
        if name not in kinds:
            hint = nearest(name, list(kinds)) if kinds else "the policy has none"
            raise PolicyError(f"policy {policy.label}: parameter {name!r} is unknown; {hint}")
        if not isinstance(given, Iterable):
            raise InputError(f"grid: {name} = {given!r:.80}: must be a list or a range LOW:HIGH")
        whole = "int" in kinds[name] and "float" not in kinds[name]
        text = given if isinstance(given, str) else ",".join(map(str, given))
        axes.append(_axis(name, text, whole))
    return axes


def _axis(name: str, text: str, whole: bool) -> Axis:
    """The axis of a parameter from ``A,B,C`` or ``LOW:HIGH``."""
    place = f"grid: {name} = {text}"
    low, is_range, high = text.partition(":")
    try:
        values = [float(part) for part in ([low, high] if is_range else text.split(","))]
    except ValueError as error:
        raise InputError(f"{place}: must be numbers A,B,C or a range LOW:HIGH") from error
    if not all(map(math.isfinite, values)) or (whole and any(one % 1.0 for one in values)):
        raise InputError(f"{place}: must be {'whole' if whole else 'finite'} numbers")
    if not is_range:
        return Axis(name, tuple(dict.fromkeys(values)), exact=True, whole=whole)
    first, last = values
    if not 0.0 <= first < last:
        raise InputError(f"{place}: a range must be LOW:HIGH with 0 <= LOW < HIGH")
    spread = np.geomspace(first or last * SMALLEST, last, RANGE - (first == 0.0)).tolist()
    spread = [first, *spread[first > 0.0 :]]
    found = dict.fromkeys(map(round, spread) if whole else spread)
    least = max(first, min(one for one in found if one > 0.0))
    return Axis(name, tuple(found), least=least, low=first, high=last, whole=whole)


@dataclass(frozen=True)
class _Search:
    problem: Problem
    base: Tunable
    axes: Sequence[Axis]
    budget: float
    seed: int
    store: Checkpoint | None

    def parameters(self, setting: Setting) -> dict[str, float]:
        """The parameters of a setting, as the policy gets them."""
        return {
            axis.name: axis.shown(value) for axis, value in zip(self.axes, setting, strict=True)
        }

    def policy(self, setting: Setting) -> Tunable:
        """The policy with the parameters of a setting."""
        return replace(self.base, **self.parameters(setting))

    def rows(self, settings: Iterable[Setting], runs: int, first: int = 0) -> list[TunedRow]:
        """A summary row for each setting, all on the same draws."""
        wanted = list(dict.fromkeys(settings))
        if not wanted:
            return []
        policies = {f"{setting}": self.policy(setting) for setting in wanted}
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
                parameters=self.parameters(setting),
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


def _around(
    axes: Sequence[Axis], best: Setting, factors: Sequence[float], rows: Sequence[TunedRow]
) -> list[Setting]:
    """The settings around ``best`` that have not been tried."""
    tried = {row.setting for row in rows}
    values = (axis.around(value, factors) for axis, value in zip(axes, best, strict=True))
    return [setting for setting in sorted(itertools.product(*values)) if setting not in tried]


def _with_margins(values: Sequence[float]) -> tuple[float, float]:
    """The ends of an axis that shows all values, with room beside them."""
    low, high = min(values), max(values)
    room = MARGIN * (high - low or abs(high) or 1.0)
    return low - room, high + room


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
