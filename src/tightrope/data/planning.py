"""``plan``: the reward of a budget, its risk, and the value of more budget.

Everything is measured by simulation, except for the value of one more unit of budget or limit,
which is exact: the multipliers of pi*. If the arms are observed rows, the runs are spread over
draws of the Bayesian bootstrap (``bootstrap``), so quantiles and chances include the uncertainty of
the log. Letters: D draws, n runs per draw, M limits, Q quantiles.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from typing import Any

from tightrope.callers import also_called, warn_caller
from tightrope.data.draws import (
    DRAWS,
    FEWEST_RUNS,
    Chance,
    Draws,
    Sample,
    arms_with_rows,
    log_notes,
    split,
)
from tightrope.data.multipliers import worth
from tightrope.data.plans import OFTEN, QUANTILES, Plan, PlanRow, Worth
from tightrope.data.searches import PROMISE_RUNS, Planner, guessed_budget, neat
from tightrope.engine.arguments import Policies, budget_list, named_policies
from tightrope.engine.caveats import warn_infeasible, warn_out_of_reach
from tightrope.engine.progress import Progress, reporting
from tightrope.engine.simulation import SimulationSettings
from tightrope.errors import (
    InfeasibleLimitsWarning,
    InputError,
    LogWarning,
    OutsideTheoryWarning,
    nearest,
)
from tightrope.policies import Policy, parse_policy
from tightrope.problem import Limit, Problem
from tightrope.problem.ready import as_problem
from tightrope.problem.values import number
from tightrope.statistics import quantile

DEFAULT = ("resolve", "resolve:risk=0.01", "ts-lp:update=true", "lyon")
RUNS = 1000
FAN_POINTS, FAN_SPAN = 11, 32.0  # budgets of a fan chart, from the largest down to this share
FAN_SHARE = 4  # budgets added for the chart get a fourth of the runs
EXPECTED_ROUNDS = 7  # for the progress bar
LEAST_RISK = 1e-4  # measurable in a reasonable number of runs


def default_policies(problem: Problem) -> dict[str, Policy]:
    """The default policies of a plan; without limits there is none with a risk.

    >>> from tightrope import ready_problem
    >>> list(default_policies(ready_problem("paper")))
    ['resolve', 'resolve:risk=0.01', 'ts-lp:update=true', 'lyon']
    """
    names = DEFAULT if problem.penalty_count else tuple(x for x in DEFAULT if "risk" not in x)
    return {name: parse_policy(name) for name in names}


@also_called("budget", "budgets")
def plan(
    problem: str | Problem,
    policies: Policies | None = None,
    *,
    budgets: float | Iterable[float],
    runs: int = RUNS,
    draws: int = DRAWS,
    seed: int = 0,
    earn: float | None = None,
    chance: float = 0.9,
    promise: float | None = None,
    limit_name: str | None = None,
    backend: str = "auto",
    progress: Progress = None,
    fan: bool = True,
    unit: str = "",
) -> Plan:
    """What each policy earns with a budget, how often it breaks a limit, and the value of more.

    ``budgets``: in the problem's cost units. ``runs``: of every policy at every budget; if arms
    have rows, they are spread over ``draws`` of the bootstrap (0: the log counts as the truth).
    ``earn``: also find the smallest budget that earns this reward with a ``chance`` between 0 and
    1. ``promise``: also find the tightest value of the limit ``limit_name`` that
    ``resolve:risk=PROMISE`` breaks with at most this chance, from 1e-4 on. ``fan``: also rows at
    smaller budgets, for charts. ``unit``: of costs, such as $, in reports. Raises
    KeyboardInterrupt after Ctrl-C.

    There are many parameters because each is an independent choice.

    >>> from tightrope import LyOn, ready_problem
    >>> found = plan(ready_problem("paper"), LyOn(), budgets=100, runs=50, fan=False)
    >>> found.worth[0].budget_unit.mean.__round__(6)
    1.3
    >>> [round(one.per_unit.mean, 6) for one in found.worth[0].limits]
    [100.0]
    """
    problem = as_problem(problem)
    listed = budget_list(budgets, problem)
    named = default_policies(problem) if policies is None else named_policies(policies)
    made = Draws.of(problem, draws, seed, runs)
    target = None if earn is None else _target(earn, chance)
    promised = None if promise is None else _promised_limit(problem, promise, limit_name)
    warn_infeasible(problem, listed)
    warn_out_of_reach(problem, named, listed)
    if problem.caveat:
        warn_caller(f"{problem.title}: {problem.caveat}", LogWarning)
    grid = [b for b in fan_budgets(problem, listed) if b not in listed] if fan else []
    settings = SimulationSettings(seed=made.seed, backend=backend, title="planning")
    each = len(named) * runs
    searched = 0.0 if target is None else guessed_budget(problem, target, listed) * each
    searched += 0.0 if promise is None else sum(listed) * PROMISE_RUNS / promise
    work = (sum(listed) + sum(grid) / FAN_SHARE) * each + EXPECTED_ROUNDS * searched
    with _quiet(), reporting(progress, work, "planning") as tell:
        search = Planner(made, runs, settings, tell, silent=progress is False)
        rows = [_row(one) for one in search.samples([(named, listed)], runs)]
        fan_rows = []
        if grid:
            parts = search.samples([(named, grid)], max(runs // FAN_SHARE, FEWEST_RUNS))
            order = list(named)
            fan_rows = [*rows, *map(_row, parts)]
            fan_rows.sort(key=lambda row: (order.index(row.policy), row.budget))
        earned = [] if target is None else search.earn(named, target, chance, max(listed))
        promises = []
        if promise is not None and promised is not None:
            promises = [search.promise(promised, promise, budget) for budget in listed]
    values = [worth(made, budget) for budget in listed]
    return Plan(
        problem=problem,
        budgets=tuple(listed),
        runs=rows[0].runs,
        draws=made.count if made.vary else 0,
        seed=made.seed,
        rows=tuple(rows),
        worth=tuple(one for one in values if one is not None),
        earned=tuple(earned),
        promises=tuple(promises),
        fan=tuple(fan_rows),
        notes=tuple(_notes(made, rows, values)),
        unit=unit,
    )


def _notes(draws: Draws, rows: Sequence[PlanRow], values: Sequence[Worth | None]) -> list[str]:
    lost = max((one.infeasible for one in values if one is not None), default=0.0)
    told = log_notes(draws.problem, arms_with_rows(draws.problem), draws.count, lost)
    if None in values:
        told.append("No mixture of the arms keeps the limits, so there is no optimum.")
    best = {one.budget: one.optimum.mean for one in values if one is not None}
    above = [
        row.policy
        for row in rows
        if row.any_broken.share > OFTEN and row.median > best.get(row.budget, math.inf)
    ]
    if above:
        names = ", ".join(dict.fromkeys(above))
        told.append(f"A reward above the optimum ({names}) comes from broken limits.")
    return told


def _target(earn: float, chance: float) -> float:
    """The reward to earn; raises if it or the chance is out of range."""
    if not number(earn, "earn") > 0.0:
        raise InputError(f"earn = {earn!r} must be above 0, in units of reward")
    if not 0.0 < number(chance, "chance") < 1.0:
        raise InputError(f"chance = {chance!r} must lie between 0 and 1")
    return float(earn)


def _promised_limit(problem: Problem, risk: float, name: str | None) -> int:
    """The number of the limit to tighten; raises if none can be changed."""
    if not LEAST_RISK <= number(risk, "promise") < 1.0:
        raise InputError(f"promise = {risk!r} must be a risk from {LEAST_RISK:g} to below 1")
    names = problem.limit_names
    if not names:
        raise InputError(f"promise = {risk!r} must come with a limit; {problem.title} has none")
    if name is None and len(names) > 1:
        raise InputError(f"promise = {risk!r} must come with a limit's name: {', '.join(names)}")
    if name is not None and name not in names:
        raise InputError(f"limit name {name!r} is unknown; {nearest(name, names)}")
    m = 0 if name is None else names.index(name)
    kind = problem.limit_kinds[m]
    if not isinstance(kind, Limit) or kind.hard:
        why = "ends the run" if kind.hard else "is a share of arms"
        raise InputError(f"{problem.limit_text(m)}: cannot be tightened, because it {why}")
    return m


def fan_budgets(problem: Problem, listed: Sequence[float]) -> list[float]:
    """The budgets of the fan charts: those that are listed, and a grid below the largest."""
    most = max(listed)
    span = max(FAN_SPAN, 2.0 * most / min(listed))
    grid = [neat(most * span ** -(i / (FAN_POINTS - 1)), 2) for i in range(FAN_POINTS)]
    least = problem.scales.cost  # one pull may spend it all
    return sorted({*listed, *(budget for budget in grid if least <= budget < most)})


def _row(one: Sample) -> PlanRow:
    limits, broken = range(one.violation.shape[2]), one.broken
    rates = one.violation + one.limits
    return PlanRow(
        policy=one.policy,
        knows=one.knows,
        budget=one.budget,
        runs=one.runs,
        mean=split(one.reward),
        reward=_quantiles(one.reward),
        pulls=_quantiles(one.pulls),
        rate=tuple(_quantiles(rates[:, :, m]) for m in limits),
        broken=tuple(Chance.of(broken[:, :, m]) for m in limits),
        any_broken=Chance.of(broken.any(axis=2)),
        limit_names=tuple(one.limit_names),
        by_type=one.by_type,
    )


def _quantiles(values: Any) -> tuple[float, ...]:
    return tuple(quantile(values, share) for share in QUANTILES)


@contextmanager
def _quiet() -> Any:
    """Suppress warnings that were already given, or that concern limits a search tries."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideTheoryWarning)
        warnings.simplefilter("ignore", InfeasibleLimitsWarning)
        yield
