"""How sure is it? A log is finite, and so is a simulation: two kinds of error, told apart.

The Bayesian bootstrap (Rubin 1981) gives the rows of each arm random weights, Dirichlet(1, ..., 1):
a draw from what the laws may be, given the rows. Every draw is a problem with the same rows and
other weights, so every engine runs it with the kernels it has. The runs are spread over the draws.
The variance of the draws' means, less what their few runs explain, is the part of the log.

Letters: D draws, n runs per draw, M limits, G budgets.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.engine.arguments import (
    Policies,
    budget_list,
    named_policies,
    require_problem,
    run_numbers,
    seed_number,
)
from tightrope.engine.caveats import warn_infeasible
from tightrope.engine.progress import Progress
from tightrope.engine.simulation import SimulationRequest, SimulationSettings, make
from tightrope.errors import InfeasibleError, InfeasibleLimitsWarning, InputError
from tightrope.optimum.exact import optimum
from tightrope.optimum.pi_star import oracle
from tightrope.policies.base import Policy
from tightrope.problem import Arm, Problem
from tightrope.problem.distributions import Empirical
from tightrope.problem.values import shown
from tightrope.results import Floats, Results, violations
from tightrope.showing import html_of, text_of
from tightrope.statistics import Estimate, entries, wilson

__all__ = [
    "Bootstrap",
    "Chance",
    "Draws",
    "Sample",
    "Split",
    "SureRow",
    "bootstrap",
    "sample",
    "split",
]

DRAWS, MOST_DRAWS = 50, 10_000  # by default, and at most
FEWEST_RUNS = 2  # of a draw: one run has no variance
MOST_BYTES = 2**28  # of the tables that one call of the engine holds
BROKEN = 1e-9  # of a limit: what rounding may add to a run's rate


@dataclass(frozen=True)
class Split(Estimate):
    """A value and its two errors, all in its own unit; ``error`` is both together.

    ``simulation``: the standard error that the finite number of runs leaves, 0 if the value is
    exact. ``log``: the standard deviation that the finite number of rows leaves, 0 if the arms have
    laws. The variances add up.

    >>> value = Split(1.3, simulation=0.003, log=0.004)
    >>> round(value.error, 6), round(value.log_share, 2)
    (0.005, 0.64)
    """

    error: float = field(init=False, repr=False)
    simulation: float = 0.0
    log: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "error", math.hypot(self.simulation, self.log))

    @property
    def log_share(self) -> float:
        """The share of the variance that more rows would take away, from 0 to 1."""
        return self.log**2 / self.error**2 if self.error else 0.0

    def described(self, name: str) -> dict[str, Any]:
        """JSON-ready entries under ``name``: value, standard error, its parts, 95 % interval."""
        *whole, interval = super().described(name).items()
        parts = {f"{name}_se_simulation": self.simulation, f"{name}_se_log": self.log}
        return dict([*whole, *parts.items(), interval])


def split(values: npt.ArrayLike) -> Split:
    """The mean of values [D, n], one per run, and its errors; n is at least 2.

    With one draw there is no part of the log, and the part of the simulation is the usual standard
    error of the mean.

    >>> split([[1.0, 3.0]])
    Split(mean=2.0, simulation=1.0, log=0.0)
    """
    samples = np.asarray(values, np.float64)
    draws, runs = samples.shape
    within = float(samples.var(axis=1, ddof=1).mean())
    part = 0.0
    if draws > 1:
        between = float(samples.mean(axis=1).var(ddof=1))
        part = max(between - within / runs, 0.0) * (1.0 + 1.0 / draws)  # the mean is of D draws
    return Split(float(samples.mean()), math.sqrt(within / samples.size), math.sqrt(part))


@dataclass(frozen=True)
class Chance:
    """The probability of an event in a run, with its 95 % interval (Wilson's).

    The interval includes the part of the log: it is that of as many runs as would leave the error
    of both parts together.
    """

    share: float
    low: float
    high: float
    runs: int

    @classmethod
    def of(cls, happened: npt.ArrayLike) -> Chance:
        """From whether it happened in each run, [D, n].

        >>> Chance.of([[False] * 100]).high.__round__(3)
        0.037
        """
        events = np.asarray(happened, np.float64)
        parts = split(events)
        variance, spread = parts.error**2, parts.mean * (1.0 - parts.mean)
        runs = min(spread / variance, events.size) if variance > 0.0 else float(events.size)
        low, high = wilson(parts.mean * runs, runs)
        return cls(parts.mean, float(low), float(high), events.size)

    def as_dict(self) -> dict[str, Any]:
        """The share, its interval and the number of runs, for JSON."""
        return {"share": self.share, "interval": [self.low, self.high], "runs": self.runs}


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws from what the laws of a problem may be, given its arms' rows.

    ``count`` is 1, and the problem itself the only draw, where no arm has rows. A draw depends only
    on ``seed`` and its number.
    """

    problem: Problem
    count: int
    seed: int

    @classmethod
    def of(cls, problem: Problem, draws: int, seed: int, runs: int = FEWEST_RUNS) -> Draws:
        """So many draws; one where there are no rows, or where ``draws`` is 0.

        Raises also for a number of ``runs`` that is invalid, or too small for an interval.
        """
        if len(run_numbers(runs)) < FEWEST_RUNS:
            raise InputError(f"runs = {runs!r} must be at least 2: one run has no interval")
        whole = isinstance(draws, int | np.integer) and not isinstance(draws, bool)
        if not whole or not (draws == 0 or 2 <= draws <= MOST_DRAWS):
            allowed = f"0, or a whole number from 2 to {MOST_DRAWS:,}"
            raise InputError(f"draws = {shown(draws)} must be {allowed}")
        rows = draws > 1 and bool(arms_with_rows(problem))
        return cls(problem, int(draws) if rows else 1, seed_number(seed))

    @property
    def vary(self) -> bool:
        """Whether the draws differ."""
        return self.count > 1

    def of_problem(self, problem: Problem) -> Draws:
        """The same draws of the rows for another problem with them, such as one with new limits."""
        return replace(self, problem=problem)

    def problems(self) -> Iterator[Problem]:
        """The problem of each draw, one after the other."""
        for number in range(self.count):
            yield self._draw(number) if self.vary else self.problem

    def _draw(self, number: int) -> Problem:
        """Draw ``number``, from 0."""
        stream = np.random.default_rng([self.seed, number])

        def drawn(arms: Sequence[Arm]) -> list[Arm]:
            return [_reweighted(arm, stream) for arm in arms]

        arms = drawn(self.problem.arms)
        changes = [replace(one, arms=drawn(one.arms)) for one in self.problem.changes]
        return replace(self.problem, arms=arms, changes=changes)

    @cached_property
    def tables(self) -> int:
        """About how many bytes a draw's tables take, for one policy at one budget."""
        cells = self.problem.row_count * len(self.problem.told_channels)
        return 1 + 32 * cells if self.vary else 1

    def values(self, measure: Callable[[Problem], npt.ArrayLike]) -> Floats:
        """A measure of the problem itself and of every draw, [1 + D, ...].

        nan where no mixture keeps the limits of a draw; InfeasibleError if none does in the log.
        """
        own = np.asarray(measure(self.problem), np.float64)
        found = np.full((1 + self.count, *own.shape), np.nan)
        found[0] = own
        for number, problem in enumerate(self.problems(), start=1):
            with suppress(InfeasibleError):
                found[number] = measure(problem) if self.vary else own
        return found

    def spread(self, values: Floats) -> Split:
        """The problem's own value, and the spread of the draws', of ``values`` [1 + D]."""
        kept = values[1:][~np.isnan(values[1:])]
        several = self.vary and len(kept) > 1
        return Split(float(values[0]), 0.0, float(kept.std(ddof=1)) if several else 0.0)


def arms_with_rows(problem: Problem) -> tuple[str, ...]:
    """The names of the arms that have rows; the others have laws, which are taken as known."""
    if problem.bernoulli() is not None and not problem.changes:
        return ()
    found = {arm.name for arms in problem.arms_by_phase for arm in arms if _rows(arm)}
    return tuple(name for name in problem.names if name in found)


def _rows(arm: Arm) -> int:
    """How many rows an arm has; 0 if it has laws."""
    return len(arm.cost.chances) if isinstance(arm.cost, Empirical) else 0


def _reweighted(arm: Arm, stream: np.random.Generator) -> Arm:
    """The arm with Dirichlet weights on top of those that its rows have; as it is without rows."""
    if not isinstance(arm.cost, Empirical):
        return arm
    weights = stream.standard_exponential(_rows(arm))
    if arm.cost.weights is not None:
        weights *= arm.cost.chances
    return arm.weighted(weights)


@dataclass(frozen=True, eq=False)
class Sample:
    """The runs of one policy at one budget over all draws, in the user's units."""

    policy: str
    knows: str
    budget: float
    reward: Floats  # [D, n]
    pulls: Floats  # [D, n]
    cost: Floats  # [D, n]
    violation: Floats  # [D, n, M] in each limit's own terms, less the limit
    limits: Floats  # [M]
    limit_names: tuple[str, ...]

    @property
    def runs(self) -> int:
        """How many in all."""
        return self.reward.size

    @property
    def broken(self) -> npt.NDArray[np.bool_]:
        """Whether each run ends above each limit, [D, n, M]."""
        return np.asarray(self.violation > BROKEN * self.limits)


def sample(
    draws: Draws,
    groups: Sequence[tuple[Mapping[str, Policy], Sequence[float]]],
    runs: int,
    settings: SimulationSettings,
    first: int = 0,
) -> list[Sample]:
    """Runs of every group (policies, budgets) on every draw; at least ``runs`` of each in all.

    All draws are one call of the engine, as far as their tables fit into memory. Draw d has its own
    run numbers, from ``first`` on; without rows they are 0, 1, ... as ``simulate`` has them. Raises
    ``Interrupted`` after Ctrl-C.
    """
    each = max(FEWEST_RUNS, -(-runs // draws.count))
    jobs = sum(len(policies) * len(budgets) for policies, budgets in groups)
    at_once = max(1, MOST_BYTES // (draws.tables * jobs))
    found: list[list[Results]] = []
    numbered = enumerate(draws.problems())
    told, done = settings.progress, 0
    while some := list(islice(numbered, at_once)):
        requests = [
            SimulationRequest(problem, policies, budgets, _numbers(first, number, each))
            for number, problem in some
            for policies, budgets in groups
        ]
        part = settings
        if callable(told):
            part = replace(settings, progress=_within(told, done, len(some), draws.count))
        with warnings.catch_warnings():
            if draws.vary:  # the caller says so once, of the log itself
                warnings.simplefilter("ignore", InfeasibleLimitsWarning)
            made = make(requests, part, whole=True)
        size = len(groups)
        found += [made[at : at + size] for at in range(0, len(made), size)]
        done += len(some)
    return [
        _pooled([results[at] for results in found], label, g)
        for at, (policies, budgets) in enumerate(groups)
        for label in policies
        for g in range(len(budgets))
    ]


def _numbers(first: int, draw: int, each: int) -> npt.NDArray[np.int64]:
    return np.arange(first + draw * each, first + (draw + 1) * each)


def _within(told: Callable[[float], None], done: int, part: int, count: int) -> Progress:
    """The progress of a part, as a fraction of the whole."""
    return lambda fraction: told((done + fraction * part) / count)


def _pooled(results: Sequence[Results], label: str, g: int) -> Sample:
    """The runs of a policy at budget number ``g``, from the results of every draw."""
    runs = [one[label].normalised_runs[g] for one in results]
    problem, budget = results[0].problem, results[0].budgets[g]
    scales = problem.scales
    return Sample(
        policy=label,
        knows=results[0][label].knows,
        budget=budget,
        reward=np.array([one.reward for one in runs]) * scales.reward,
        pulls=np.array([one.pulls.sum(axis=1) for one in runs], np.float64),
        cost=np.array([one.cost for one in runs]) * scales.cost,
        violation=np.array([violations(problem, one, budget) for one in runs]),
        limits=np.array(problem.limits, np.float64),
        limit_names=problem.limit_names,
    )


@dataclass(frozen=True)
class SureRow:
    """One policy at one budget, in the user's units, with both kinds of error.

    ``reward_rate``: reward per unit of budget. ``violation`` [M]: as in a summary row. ``broken``
    [M]: the chance that a run ends above the limit. ``regret``: OPT(B) of a draw minus its reward;
    None where no policy keeps the limits. ``pulls``: per run.
    """

    policy: str
    knows: str
    budget: float
    runs: int
    reward_rate: Split
    violation: tuple[Split, ...]
    broken: tuple[Chance, ...]
    regret: Split | None
    pulls: Split
    limit_names: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The row as a JSON-ready dictionary; what belongs to a limit is by its name."""
        each = zip(self.limit_names, self.violation, self.broken, strict=True)
        limits = {
            name: {**one.described("violation"), "broken": chance.as_dict()}
            for name, one, chance in each
        }
        return entries(self, violation={}, broken={}, limit_names={"limits": limits})


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """What the runs and the log leave open: see :func:`bootstrap`.

    ``varied``: the arms with rows; the others have laws, which count as known. ``oracle``: pi*'s
    reward per unit of cost; ``optimum`` [G]: OPT(B), in units of reward; None where no mixture
    keeps the limits. ``infeasible``: the share of draws in which none does; these have no part in
    ``oracle``, ``optimum`` and regret.
    """

    problem: Problem
    budgets: tuple[float, ...]
    runs: int
    draws: int
    seed: int
    varied: tuple[str, ...]
    oracle: Split | None
    optimum: tuple[Split | None, ...]
    infeasible: float
    rows: tuple[SureRow, ...]

    def summary(self) -> list[dict[str, Any]]:
        """The rows as JSON-ready dictionaries."""
        return [row.as_dict() for row in self.rows]

    @property
    def notes(self) -> list[str]:
        """What the errors include, in sentences."""
        return log_notes(self.problem, self.varied, self.draws, self.infeasible)

    _repr_html_ = html_of

    def __str__(self) -> str:
        return text_of(self)


def log_notes(
    problem: Problem, varied: Sequence[str], draws: int, infeasible: float = 0.0
) -> list[str]:
    """Sentences on the part of the log: which arms it is about, and how it was found."""
    if not varied:
        return ["The arms have laws, not rows: the errors are of the simulation alone."]
    if draws < 2:
        return ["No draws were asked for: the errors are of the simulation alone."]
    told = [f"The part of the log is from {draws} draws of the Bayesian bootstrap over rows."]
    others = [name for name in problem.names if name not in varied]
    if others:
        told.append(f"Arms with laws count as known: {', '.join(others)}.")
    if infeasible:
        told.append(f"In {infeasible:.0%} of the draws no mixture of the arms keeps the limits.")
    return told


def bootstrap(
    problem: Problem,
    policies: Policies,
    *,
    budgets: float | Iterable[float],
    runs: int = 1000,
    draws: int = DRAWS,
    seed: int = 0,
    backend: str = "auto",
    progress: Progress = None,
) -> Bootstrap:
    """Simulate with errors that include the finite log, for arms made of observed rows.

    ``runs`` in all are spread over ``draws`` problems with random weights on the rows (at least 2
    runs each). The rows' means are over all draws, so that they differ slightly from those of
    ``simulate``, which takes the log as the truth. ``budgets`` are in the problem's cost units.

    >>> seen = Arm.from_rows("seen", [(1, 0, 0.2), (1, 1, 0.4), (1, 1, 0.1), (1, 0, 0.3)])
    >>> from tightrope.policies import FixedArm
    >>> found = bootstrap(Problem([seen], limit=0.5), FixedArm(1), budgets=20, runs=100, seed=1)
    >>> row = found.rows[0]
    >>> row.reward_rate.log > row.reward_rate.simulation > 0
    True
    """
    listed = budget_list(budgets, require_problem(problem))
    named = named_policies(policies)
    made = Draws.of(problem, draws, seed, runs)
    if made.vary:
        warn_infeasible(problem, listed)
    settings = SimulationSettings(seed=seed, backend=backend, progress=progress)
    samples = sample(made, [(named, listed)], runs, settings)
    best = {budget: optima(made, budget) for budget in listed}
    rates = pi_star_rates(made, listed[-1])
    return Bootstrap(
        problem=problem,
        budgets=tuple(listed),
        runs=samples[0].runs,
        draws=made.count if made.vary else 0,
        seed=made.seed,
        varied=arms_with_rows(problem),
        oracle=None if rates is None else made.spread(rates),
        optimum=tuple(None if one is None else made.spread(one) for one in map(best.get, listed)),
        infeasible=0.0 if rates is None else float(np.isnan(rates[1:]).mean()),
        rows=tuple(_row(problem, one, best[one.budget]) for one in samples),
    )


def pi_star_rates(draws: Draws, budget: float) -> Floats | None:
    """pi*'s reward per unit of cost of the log itself and of every draw, [1 + D].

    nan where no mixture keeps the limits; None if that is so for the log, or if the arms change.
    """
    if draws.problem.changes:
        return None

    try:
        return draws.values(lambda one: oracle(one, budget).reward_rate)
    except InfeasibleError:
        return None


def optima(draws: Draws, budget: float) -> Floats | None:
    """OPT(B) of the log itself and of every draw, [1 + D]; nan and None as ``pi_star_rates``.

    A draw's OPT(B) is pi*'s rate times B, plus what is beside that in the log's own OPT(B): the end
    of the budget, worth about a pull. Computing it exactly takes a fifth of a second a draw where
    costs are not whole steps.
    """
    rates = None
    if draws.vary and not draws.problem.hard:
        rates = pi_star_rates(draws, budget)
    try:
        if rates is None:
            return draws.values(lambda one: optimum(one, budget))
        return np.asarray(optimum(draws.problem, budget) + budget * (rates - rates[0]))
    except InfeasibleError:
        return None


def _row(problem: Problem, one: Sample, best: Floats | None) -> SureRow:
    regret = None
    if best is not None:
        kept = ~np.isnan(best[1:])
        if kept.sum() > len(kept) / 2:
            regret = split(best[1:][kept, np.newaxis] - one.reward[kept])
    limits = range(problem.penalty_count)
    return SureRow(
        policy=one.policy,
        knows=one.knows,
        budget=one.budget,
        runs=one.runs,
        reward_rate=split(one.reward / one.budget),
        violation=tuple(split(one.violation[:, :, m]) for m in limits),
        broken=tuple(Chance.of(one.broken[:, :, m]) for m in limits),
        regret=regret,
        pulls=split(one.pulls),
        limit_names=problem.limit_names,
    )
