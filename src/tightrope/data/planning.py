"""What will this budget earn, at what risk, and what would more of it be worth? ``plan``.

Everything is measured by simulation, but for the worth of one more unit of budget or limit, which
is exact: the multipliers of pi*. Where the arms are observed rows, the runs are spread over draws
of the Bayesian bootstrap (``bootstrap``), so that quantiles and chances include what the log leaves
open. Letters: D draws, n runs per draw, M limits, Q quantiles.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tightrope.data.bootstraps import (
    DRAWS,
    FEWEST_RUNS,
    Chance,
    Draws,
    Sample,
    Split,
    arms_with_rows,
    log_notes,
    sample,
    split,
)
from tightrope.engine.arguments import (
    Policies,
    budget_list,
    named_policies,
    require_problem,
)
from tightrope.engine.caveats import warn_infeasible
from tightrope.engine.progress import Progress, reporting
from tightrope.engine.simulation import SimulationSettings
from tightrope.errors import (
    InfeasibleError,
    InfeasibleLimitsWarning,
    InputError,
    OutsideTheoryWarning,
    ProblemError,
    nearest,
)
from tightrope.optimum.exact import optimum
from tightrope.optimum.pi_star import Oracle, oracle, oracle_of_phases
from tightrope.policies import Policy, Resolve, parse_policy
from tightrope.problem import Limit, Problem
from tightrope.problem.values import number
from tightrope.showing import html_of, text_of, write_report
from tightrope.statistics import entries, quantile, quantile_error

__all__ = [
    "QUANTILES",
    "Earned",
    "LimitWorth",
    "Plan",
    "PlanRow",
    "Promise",
    "Worth",
    "default_policies",
    "plan",
    "worth",
]

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
DEFAULT = ("resolve", "resolve:risk=0.01", "ts-lp:update=true", "lyon")
RUNS = 1000

FAN_POINTS, FAN_SPAN = 11, 32.0  # budgets of a fan chart, from the largest down to a part of it
FAN_SHARE = 4  # the budgets that were not asked for get a fourth of the runs

NEAR = 0.005  # of a budget or limit: how near its search comes
MOST_EARNED = 64.0  # times the largest budget: where the search for a budget gives up
MOST_ROUNDS = 16  # of a search
EXPECTED_ROUNDS = 7  # for the progress bar

OFTEN = 0.5  # a limit that is broken in more runs than this is not kept

SURE = 0.05  # a promise is measured with this chance of being wrong
LEAST_RISK = 1e-4  # that can be measured in a reasonable number of runs
PROMISE_RUNS = 30.0  # over the risk: how many runs a promise is measured with
FIRST_SHARE = 4  # a hopeless limit is given up after a fourth of them
ATTEMPTS = 4  # to confirm a promise on new runs, which share the chance of being wrong
FRESH = 2**32  # first run number of the runs that confirm it
WIDER = 1.5  # by how much a limit that is broken too often grows at first
MOST_WIDER = 5  # how often it does

Tell = Callable[[float], None]


@dataclass(frozen=True)
class PlanRow:
    """One policy at one budget, in the user's units.

    ``mean``: the reward of a run. ``reward``, ``pulls`` [Q]: quantiles over runs of what a run
    earns, and of the pulls after which its budget ends. ``rate`` [M][Q]: quantiles of the penalty
    in each limit's own terms. ``broken`` [M]: the chance to end above each limit; ``any_broken``:
    above any of them. ``runs``: over all draws.
    """

    policy: str
    knows: str
    budget: float
    runs: int
    mean: Split
    reward: tuple[float, ...]
    pulls: tuple[float, ...]
    rate: tuple[tuple[float, ...], ...]
    broken: tuple[Chance, ...]
    any_broken: Chance
    limit_names: tuple[str, ...]

    @property
    def median(self) -> float:
        """The median reward."""
        return self.reward[QUANTILES.index(0.5)]

    def as_dict(self) -> dict[str, Any]:
        """The row as a JSON-ready dictionary; quantiles are by their percentage."""
        limits = {
            name: {"rate": _by_share(rate), "broken": chance.as_dict()}
            for name, rate, chance in zip(self.limit_names, self.rate, self.broken, strict=True)
        }
        return entries(
            self,
            reward={"reward": _by_share(self.reward)},
            pulls={"pulls": _by_share(self.pulls)},
            rate={"limits": limits},
            broken={},
            limit_names={},
        )


def _by_share(values: Sequence[float]) -> dict[str, float]:
    """Quantiles by percentage: "5", "25", "50", "75", "95"."""
    return {f"{100 * share:g}": value for share, value in zip(QUANTILES, values, strict=True)}


@dataclass(frozen=True)
class LimitWorth:
    """What a little more of one limit is worth.

    ``multiplier``: reward per unit of penalty. ``per_unit``: reward at the budget per unit of the
    limit, the slope; it holds as long as the same arms stay best. ``step``: a small amount, in the
    limit's unit, and what it is worth: ``per_step``.
    """

    name: str
    limit: float
    words: str
    multiplier: Split
    per_unit: Split
    step: float

    @property
    def per_step(self) -> Split:
        """What ``step`` more of the limit is worth, in reward."""
        return _times(self.per_unit, self.step)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready entries."""
        return entries(
            self,
            name={},
            words={"per": self.words},
            per_unit=self.per_unit.described("reward_per_unit"),
            step={"step": self.step, **self.per_step.described("reward_per_step")},
        )


@dataclass(frozen=True)
class Worth:
    """What the budget, and one more unit of it or of a limit, is worth to who knows the laws.

    ``optimum``: OPT(B). ``budget_unit``: reward per additional unit of budget, the slope of OPT at
    this budget for large budgets. Errors are of the log alone, from the draws in which some mixture
    keeps the limits: all but the share ``infeasible``.
    """

    budget: float
    optimum: Split
    budget_unit: Split
    infeasible: float
    limits: tuple[LimitWorth, ...]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready entries."""
        unit = self.budget_unit.described("reward_per_budget_unit")
        limits = {one.name: one.as_dict() for one in self.limits}
        return entries(self, budget_unit=unit, limits={"limits": limits})


@dataclass(frozen=True)
class Earned:
    """The smallest budget at which a policy earns the target with the chance that was asked for.

    ``budget`` is None if even ``tried``, the largest budget tried, does not. ``error``: standard
    error of the budget, from the runs and draws. ``share``: of the runs at ``budget`` that reach
    the target; ``below``: the largest budget tried at which too few do.
    """

    policy: str
    target: float
    chance: float
    budget: float | None
    error: float | None
    share: float
    below: float
    tried: float
    runs: int

    as_dict = entries


@dataclass(frozen=True)
class Promise:
    """The tightest limit that ``policy`` keeps at a budget, but for a ``risk``.

    ``limit`` is None if none was found; ``reason`` says why. It was measured: in ``broken`` of
    ``runs`` new runs the limit was broken, so that the chance is at most ``bound`` with 95 %
    confidence. ``least``: the smallest limit that some arm keeps in the mean. ``median``: reward of
    a run under the limit.
    """

    limit_name: str
    words: str
    policy: str
    budget: float
    risk: float
    limit: float | None
    least: float
    broken: int = 0
    runs: int = 0
    bound: float = 1.0
    median: float | None = None
    reason: str = ""

    @property
    def kept(self) -> bool:
        """Whether the runs show that the limit is broken with at most the risk."""
        return self.bound <= self.risk

    def refused(self, reason: str) -> Promise:
        """As it was measured, but without a limit, for a reason."""
        return replace(self, limit=None, median=None, reason=reason)

    as_dict = entries


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """The answers of :func:`plan`: rows per policy and budget, worth, searches, fan charts.

    ``fan``: rows at a grid of budgets, those asked for among them. ``draws``: of the bootstrap, 0
    without rows. ``notes``: what the numbers include.
    """

    problem: Problem
    budgets: tuple[float, ...]
    runs: int
    draws: int
    seed: int
    rows: tuple[PlanRow, ...]
    worth: tuple[Worth, ...]
    earned: tuple[Earned, ...]
    promises: tuple[Promise, ...]
    fan: tuple[PlanRow, ...]
    notes: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        """Everything as a JSON-ready dictionary."""
        return entries(
            self,
            problem={"problem": self.problem.name},
            earned={"earn": [one.as_dict() for one in self.earned]},
            promises={"promise": [one.as_dict() for one in self.promises]},
        )

    def __repr__(self) -> str:
        budgets = ", ".join(f"{budget:g}" for budget in self.budgets)
        labels = ", ".join(dict.fromkeys(row.policy for row in self.rows))
        return f"Plan({self.problem!r}; budgets: {budgets}; policies: {labels}; runs: {self.runs})"

    _repr_html_ = html_of

    def __str__(self) -> str:
        return text_of(self)

    def write(self, folder: str) -> tuple[str, ...]:
        """Write plan.html, plan.json, plan.csv, plan.png and plan.svg; returns their paths."""
        return write_report(self, folder)


def default_policies(problem: Problem) -> dict[str, Policy]:
    """The policies of a plan that names none; without limits there is no risk to ask for.

    >>> from tightrope import ready_problem
    >>> list(default_policies(ready_problem("paper")))
    ['resolve', 'resolve:risk=0.01', 'ts-lp:update=true', 'lyon']
    """
    names = DEFAULT if problem.penalty_count else tuple(x for x in DEFAULT if "risk" not in x)
    return {name: parse_policy(name) for name in names}


def plan(
    problem: Problem,
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
) -> Plan:
    """What each policy earns with a budget, how often it breaks a limit, and what more is worth.

    ``budgets``: in the problem's cost units. ``runs`` of every policy at every budget; where arms
    have rows they are spread over ``draws`` of the bootstrap (0: the log counts as the truth).
    ``earn``: also the smallest budget that earns so much, in units of reward, with a ``chance``
    between 0 and 1. ``promise``: also the tightest limit, the one called ``limit_name``, that
    ``resolve:risk=PROMISE`` breaks with at most this chance, from 1e-4 on. ``fan``: also rows at
    smaller budgets, for charts. Raises KeyboardInterrupt after Ctrl-C.

    There are many parameters because each is an independent question.

    >>> from tightrope import LyOn, ready_problem
    >>> found = plan(ready_problem("paper"), LyOn(), budgets=100, runs=50, fan=False)
    >>> found.worth[0].budget_unit.mean.__round__(6)
    1.3
    >>> [round(one.per_unit.mean, 6) for one in found.worth[0].limits]
    [100.0]
    """
    listed = budget_list(budgets, require_problem(problem))
    named = default_policies(problem) if policies is None else named_policies(policies)
    made = Draws.of(problem, draws, seed, runs)
    target = None if earn is None else _target(earn, chance)
    promised = None if promise is None else _promised_limit(problem, promise, limit_name)
    warn_infeasible(problem, listed)
    grid = [b for b in fan_budgets(problem, listed) if b not in listed] if fan else []
    settings = SimulationSettings(seed=made.seed, backend=backend, title="planning")
    each = len(named) * runs
    searched = 0.0 if target is None else _guess(problem, target, listed) * each
    searched += 0.0 if promise is None else sum(listed) * PROMISE_RUNS / promise
    work = (sum(listed) + sum(grid) / FAN_SHARE) * each + EXPECTED_ROUNDS * searched
    with _quiet(), reporting(progress, work, "planning") as tell:
        search = _Planner(made, runs, settings, tell, silent=progress is False)
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
    )


def _notes(draws: Draws, rows: Sequence[PlanRow], values: Sequence[Worth | None]) -> list[str]:
    lost = max((one.infeasible for one in values if one is not None), default=0.0)
    told = log_notes(draws.problem, arms_with_rows(draws.problem), draws.count, lost)
    if None in values:
        told.append("No mixture of the arms keeps the limits, so that there is no optimum.")
    best = {one.budget: one.optimum.mean for one in values if one is not None}
    above = [
        row.policy
        for row in rows
        if row.any_broken.share > OFTEN and row.median > best.get(row.budget, math.inf)
    ]
    if above:
        names = ", ".join(dict.fromkeys(above))
        told.append(f"Reward beyond the optimum ({names}) is that of limits that were broken.")
    return told


def _target(earn: float, chance: float) -> float:
    """The reward to earn; raises unless it and the chance are numbers that make sense."""
    if not number(earn, "earn") > 0.0:
        raise InputError(f"earn = {earn!r} must be above 0, in units of reward")
    if not 0.0 < number(chance, "chance") < 1.0:
        raise InputError(f"chance = {chance!r} must lie between 0 and 1")
    return float(earn)


def _promised_limit(problem: Problem, risk: float, name: str | None) -> int:
    """The number of the limit to promise; raises unless there is one that can be moved."""
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
        raise InputError(f"{problem.limit_text(m)}: cannot be promised anew, because it {why}")
    return m


def fan_budgets(problem: Problem, listed: Sequence[float]) -> list[float]:
    """The budgets of the fan charts: those that are listed, and a grid below the largest."""
    most = max(listed)
    span = max(FAN_SPAN, 2.0 * most / min(listed))
    grid = [_neat(most * span ** -(i / (FAN_POINTS - 1)), 2) for i in range(FAN_POINTS)]
    least = problem.scales.cost  # one pull may take it all
    return sorted({*listed, *(budget for budget in grid if least <= budget < most)})


def _neat(value: float, digits: int = 4) -> float:
    """The value rounded to so many significant digits."""
    return float(f"{value:.{digits}g}")


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
    )


def _quantiles(values: Any) -> tuple[float, ...]:
    return tuple(quantile(values, share) for share in QUANTILES)


# --- what one more unit is worth ----------------------------------------------------------


def worth(draws: Draws, budget: float) -> Worth | None:
    """What the budget and a little more of it or of a limit is worth; None if limits cannot hold.

    OPT(B) is nearly B times pi*'s rate. So a unit of budget is worth that rate, less what a limit
    in total costs when it is spread over more; a unit of a limit is worth its multiplier times what
    the limit is per: the budget, the pulls, the reward, or 1 for a limit in total.
    """
    try:  # [1 + D, 2 + 2 M]: pi*'s rate, budget, then limits, multipliers
        slopes = draws.values(lambda one: _slopes(one, budget))
        best = optimum(draws.problem, budget)
    except InfeasibleError:
        return None
    budget_unit, *each = (draws.spread(column) for column in slopes.T[1:])
    problem, count = draws.problem, draws.problem.penalty_count
    limits = tuple(
        LimitWorth(
            name=problem.limit_names[m],
            limit=problem.limits[m],
            words=kind.words,
            multiplier=each[count + m],
            per_unit=each[m],
            step=_step(problem.limits[m]),
        )
        for m, kind in enumerate(problem.limit_kinds)
    )
    kept = np.count_nonzero(~np.isnan(slopes[1:, 0])) / draws.count
    best_of_all = replace(draws.spread(slopes[:, 0] * budget), mean=best)
    return Worth(budget, best_of_all, budget_unit, 1.0 - kept, limits)


def _slopes(problem: Problem, budget: float) -> list[float]:
    """pi*'s rate, then the slopes of OPT in the budget and in each limit, then the multipliers."""
    parts = _parts(problem, budget)
    rate = sum(share * best.reward_rate for share, best, _ in parts)
    pulls = sum(share * per_cost for share, _, per_cost in parts)
    multipliers = parts[0][1].multiplier
    budget_unit, by_limit = rate, []
    for kind, multiplier in zip(problem.limit_kinds, multipliers, strict=True):
        if kind.total is not None:
            budget_unit -= multiplier * kind.total / budget
        by_limit.append(multiplier * kind.base(budget, budget * pulls, budget * rate))
    return [rate, budget_unit, *by_limit, *multipliers]


def _parts(problem: Problem, budget: float) -> list[tuple[float, Oracle, float]]:
    """Each phase's share of the budget, its pi*, and its pulls per unit of cost."""
    if problem.changes:
        there = problem.at(budget)
        best, phases = oracle_of_phases(there), there.phases
    else:
        best, phases = [oracle(problem, budget)], problem.phases
    costs = [one.problem.moments.cost * problem.scales.cost for one in phases]
    return [
        (phase.share, one, float((one.cost_share / cost).sum()))
        for phase, one, cost in zip(phases, best, costs, strict=True)
    ]


def _step(limit: float) -> float:
    """A small step of a limit, a power of ten: about a hundredth of it.

    >>> _step(0.8), _step(0.05), _step(500)
    (0.01, 0.001, 10.0)
    """
    return float(f"1e{round(math.log10(limit)) - 2}")


def _times(value: Split, factor: float) -> Split:
    return Split(value.mean * factor, value.simulation * factor, value.log * factor)


# --- searches -----------------------------------------------------------------------------


@contextmanager
def _quiet() -> Any:
    """Without warnings that were given once, or are about limits that a search only tries."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideTheoryWarning)
        warnings.simplefilter("ignore", InfeasibleLimitsWarning)
        yield


def _guess(problem: Problem, target: float, budgets: Sequence[float]) -> float:
    """A budget that about earns the target, from pi*'s rate or the best arm's."""
    try:
        rate = _slopes(problem, max(budgets))[0]
    except InfeasibleError:
        scales = problem.scales
        rate = float(problem.moments.reward_rate.max()) * scales.reward / scales.cost
    most = MOST_EARNED * max(budgets)
    return min(target / rate, most) if rate > 0.0 else most


@dataclass(frozen=True, eq=False)
class _Bracket:
    """A search for the smallest budget: too few runs earn the target at ``low``, enough at high."""

    low: float
    low_value: float  # the quantile of the reward there
    high: float | None = None
    high_value: float = 0.0
    best: Sample | None = None  # at ``high``
    tried: float = 0.0

    def seen(self, one: Sample, target: float, chance: float) -> _Bracket:
        """With the runs at one more budget."""
        value = quantile(one.reward, 1.0 - chance)
        tried = max(self.tried, one.budget)
        if float(np.mean(one.reward >= target)) >= chance:
            return replace(self, high=one.budget, high_value=value, best=one, tried=tried)
        return replace(self, low=one.budget, low_value=value, tried=tried)

    def next(self, target: float, guess: float, most: float) -> float | None:
        """The budget to try next; None at the end.

        Rewards are nearly proportional to the budget, so it is where the straight line through the
        ends meets the target, and a little to the side of the end that is farther away.
        """
        if self.high is None:
            if self.low >= most:
                return None
            rise = target / self.low_value if self.low_value > 0.0 else 2.0
            start = guess if self.low == 0.0 else self.low * min(max(1.02 * rise, 1.0 + NEAR), 8.0)
            return _neat(min(start, most))
        width = self.high - self.low
        if width <= NEAR * self.high:
            return None
        slope = (self.high_value - self.low_value) / width
        middle = self.low + (target - self.low_value) / slope if slope > 0.0 else self.low
        side = 1.0 if self.high - middle > middle - self.low else -1.0
        chosen = middle + side * 0.3 * NEAR * self.high
        chosen = _neat(min(max(chosen, self.low + 0.1 * width), self.high - 0.1 * width))
        return chosen if self.low < chosen < self.high else None


@dataclass(frozen=True, eq=False)
class _Planner:
    """Simulations on all draws, with their progress."""

    draws: Draws
    runs: int
    settings: SimulationSettings
    tell: Tell
    silent: bool

    def samples(
        self,
        groups: Sequence[tuple[Mapping[str, Policy], Sequence[float]]],
        runs: int,
        first: int = 0,
        problem: Problem | None = None,
    ) -> list[Sample]:
        """Runs of every group, of a problem with the same rows."""
        weight = sum(len(policies) * sum(budgets) for policies, budgets in groups) * runs
        done = 0.0

        def told(fraction: float) -> None:
            nonlocal done
            self.tell((fraction - done) * weight)
            done = fraction

        settings = replace(self.settings, progress=False if self.silent else told)
        draws = self.draws if problem is None else self.draws.of_problem(problem)
        return sample(draws, groups, runs, settings, first)

    def earn(
        self, policies: Mapping[str, Policy], target: float, chance: float, largest: float
    ) -> list[Earned]:
        """For every policy, the smallest budget that earns the target; all on the same draws."""
        most = MOST_EARNED * largest
        guess = _guess(self.draws.problem, target, [largest])
        brackets = dict.fromkeys(policies, _Bracket(0.0, 0.0))
        for _ in range(MOST_ROUNDS):
            wanted = {
                label: budget
                for label, one in brackets.items()
                if (budget := one.next(target, guess, most)) is not None
            }
            if not wanted:
                break
            groups = [({label: policies[label]}, [budget]) for label, budget in wanted.items()]
            for one in self.samples(groups, self.runs):
                brackets[one.policy] = brackets[one.policy].seen(one, target, chance)
        return [_earned(label, one, target, chance) for label, one in brackets.items()]

    def promise(self, m: int, risk: float, budget: float) -> Promise:
        """The tightest limit number ``m`` that is kept at the budget, but for the risk."""
        problem = self.draws.problem
        rates = problem.at(budget).own_rates[:, m] * problem.limit_kinds[m].spread(budget)
        low, high = float(rates.min()), max(float(rates.max()), problem.limits[m])
        trial = _Trial(self, m, Resolve(risk=risk), risk, budget, least=low)
        for _ in range(1 + MOST_WIDER):
            found = trial.at(high)
            if found.kept:
                break
            high *= WIDER
        else:
            reason = f"even a limit of {found.limit:.4g} is broken too often at this budget"
            return found.refused(reason)
        for _ in range(MOST_ROUNDS):
            middle = _neat(0.5 * (low + high))
            if high - low <= NEAR * high or not low < middle < high:
                break
            if trial.at(middle).kept:
                high = middle
            else:
                low = middle
        return trial.confirmed(high)


def _earned(label: str, one: _Bracket, target: float, chance: float) -> Earned:
    found = Earned(label, target, chance, None, None, 0.0, one.low, one.tried, 0)
    if one.best is None or one.high is None:
        return found
    reward, error = one.best.reward, quantile_error(one.best.reward.ravel(), 1.0 - chance)
    if error is not None:
        error *= math.sqrt(one.best.runs / _runs_worth(reward >= target))
        error *= one.high / max(one.high_value, target * 1e-9)
    share = float(np.mean(reward >= target))
    return replace(found, budget=one.high, error=error, share=share, runs=one.best.runs)


@dataclass(frozen=True, eq=False)
class _Trial:
    """Runs of ``resolve`` with a risk under one limit after the other."""

    search: _Planner
    m: int
    policy: Policy
    risk: float
    budget: float
    least: float

    def at(self, limit: float, first: int = 0) -> Promise:
        """The limit tried: a fourth of the runs first, and the rest unless that is hopeless."""
        runs = max(self.search.runs, math.ceil(PROMISE_RUNS / self.risk))
        found = self._runs(limit, -(-runs // FIRST_SHARE), first)
        if _at_least(found.broken, found.runs) > self.risk:
            return found
        return self._runs(limit, runs, first)

    def confirmed(self, limit: float) -> Promise:
        """The promise on new runs: the tightest of many estimates is too good on its own runs."""
        for attempt in range(ATTEMPTS):
            found = self.at(limit, FRESH * (1 + attempt))
            if found.kept:
                return found
            limit = _neat(limit * (1.0 + NEAR * 2.0 ** (1 + attempt)))
        return found.refused("no limit was confirmed on new runs")

    def _runs(self, limit: float, runs: int, first: int) -> Promise:
        problem, label = self.search.draws.problem, self.policy.label
        name, words = problem.limit_names[self.m], problem.limit_kinds[self.m].words
        found = Promise(name, words, label, self.budget, self.risk, limit, self.least)
        try:
            there = ({label: self.policy}, [self.budget])
            (one,) = self.search.samples([there], runs, first, problem.with_limits({name: limit}))
        except ProblemError:  # beyond what a limit may be
            return found
        broken = one.broken[:, :, self.m]
        return replace(
            found,
            broken=int(broken.sum()),
            runs=one.runs,
            bound=_at_most(broken),
            median=quantile(one.reward, 0.5),
        )


def _at_most(happened: Any) -> float:
    """An upper bound on the chance, from events [D, n].

    Clopper and Pearson's; draws whose chances differ count as fewer runs. It holds with 95 %
    confidence for all attempts to confirm a promise together.
    """
    from scipy.special import betaincinv

    share, runs = float(np.mean(happened)), _runs_worth(happened)
    if share >= 1.0:
        return 1.0
    return float(betaincinv(share * runs + 1.0, (1.0 - share) * runs, 1.0 - SURE / ATTEMPTS))


def _runs_worth(happened: Any) -> float:
    """How many independent runs say as much of a chance as the runs [D, n] of D draws do."""
    events = np.asarray(happened, np.float64)
    share, runs = float(events.mean()), float(events.size)
    if len(events) < 2 or not 0.0 < share < 1.0:
        return runs
    of_mean = float(events.mean(axis=1).var(ddof=1)) / len(events)
    return min(runs, share * (1.0 - share) / of_mean) if of_mean > 0.0 else runs


def _at_least(count: int, runs: int) -> float:
    """A lower bound on the chance, with 95 % confidence."""
    from scipy.special import betaincinv

    if count == 0:
        return 0.0 if runs else 1.0
    return float(betaincinv(count, runs - count + 1.0, SURE))
