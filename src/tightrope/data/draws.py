"""Draws of the Bayesian bootstrap (problems with random weights on the same rows) and their runs.

Letters: D draws, n runs per draw, M limits.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tightrope.data.by_type import TypeRow, rows_of_types
from tightrope.data.completion import completed, rows_again
from tightrope.engine.arguments import run_numbers, seed_number
from tightrope.engine.progress import Progress
from tightrope.engine.simulation import SimulationRequest, SimulationSettings, make
from tightrope.errors import InfeasibleError, InfeasibleLimitsWarning, InputError
from tightrope.policies.base import Policy
from tightrope.problem import Arm, Moments, Problem, Space
from tightrope.problem.arms import row_columns
from tightrope.problem.curves import PointArms, arms_over, shares_over, stated_arms
from tightrope.problem.distributions import Empirical
from tightrope.problem.features import RowFeatures
from tightrope.problem.values import Floats, shown
from tightrope.results import Results
from tightrope.runs import violations
from tightrope.statistics import Estimate, wilson

DRAWS, MOST_DRAWS = 50, 10_000  # by default, and at most
FEWEST_RUNS = 2  # of a draw: one run has no variance
MOST_BYTES = 2**28  # of the tables that one call of the engine holds
BROKEN = 1e-9  # of a limit: rounding of a run's rate


@dataclass(frozen=True)
class Split(Estimate):
    """A value and its two errors, all in its own unit; ``error`` is both together.

    ``simulation``: the standard error from the finite number of runs, 0 if the value is exact.
    ``log``: the standard deviation from the finite number of rows, 0 if the arms have
    distributions. The variances add up.

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
        """The share of the variance that more rows would remove, from 0 to 1."""
        return self.log**2 / self.error**2 if self.error else 0.0

    def described(self, name: str) -> dict[str, Any]:
        """JSON-ready entries under ``name``: value, standard error, its parts, 95 % interval."""
        *whole, interval = super().described(name).items()
        parts = {f"{name}_se_simulation": self.simulation, f"{name}_se_log": self.log}
        return dict([*whole, *parts.items(), interval])


def split(values: npt.ArrayLike) -> Split:
    """The mean of values [D, n], one per run, and its errors; n is at least 2.

    With one draw, the log's part is 0 and the simulation's part is the usual standard error of the
    mean.

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

    The interval includes the log's error: it is the interval for the number of runs that gives the
    error of both parts.
    """

    share: float
    low: float
    high: float
    runs: int

    @classmethod
    def of(cls, happened: npt.ArrayLike) -> Chance:
        """The chance from indicators of the event in each run, [D, n].

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
    """Posterior draws of a problem's distributions, given its arms' rows.

    If no arm has rows, ``count`` is 1 and the problem itself is the only draw. A draw depends only
    on ``seed`` and its number.
    """

    problem: Problem
    count: int
    seed: int
    _kept: dict[int, Problem] = field(default_factory=dict, repr=False)  # where rows have features

    @classmethod
    def of(cls, problem: Problem, draws: int, seed: int, runs: int = FEWEST_RUNS) -> Draws:
        """The wanted draws; one if there are no rows, or if ``draws`` is 0.

        Also raises if the number of ``runs`` is invalid or too small for an interval.
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
        """The same draws for another problem with these rows, such as one with new limits."""
        return replace(self, problem=problem)

    def problems(self) -> Iterator[Problem]:
        """The problem of each draw, one after the other."""
        for number in range(self.count):
            yield self._draw(number) if self.vary else self.problem

    def _draw(self, number: int) -> Problem:
        """Draw ``number``, from 0."""
        stream = np.random.default_rng([self.seed, number])
        if self.problem.features is not None:
            found = self._kept.get(number)
            if found is None:
                found = _with_other_rows(self.problem, self.problem.features, stream)
                if self.tables * self.count <= 2 * MOST_BYTES:
                    self._kept[number] = found
            return replace(self.problem, arms=found.arms, features=found.features)

        def drawn(arms: Sequence[Arm]) -> Sequence[Arm]:
            made = [_reweighted(arm, stream) for arm in stated_arms(arms)]
            if not isinstance(arms, PointArms):
                return made
            return arms_over(
                cast(Space, self.problem.space), {float(one.name): one for one in made}
            )

        arms = drawn(self.problem.arms)
        changes = [replace(one, arms=drawn(one.arms)) for one in self.problem.changes]
        further = tuple(drawn(some) for some in self.problem.further)
        return replace(self.problem, arms=arms, changes=changes, further=further)

    def moments(self) -> Iterator[Moments]:
        """The moments of each draw's rows, if the arms do not change: faster than ``problems``."""
        if self.problem.features is not None:
            yield from (one.row_moments for one in self.problems() if self.vary)
            return
        types = (self.problem.arms, *self.problem.further)
        for number in range(self.count if self.vary else 0):
            stream = np.random.default_rng([self.seed, number])
            yield self.problem.row_moments_of([self._means_drawn(arms, stream) for arms in types])

    def _means_drawn(self, arms: Sequence[Arm], stream: np.random.Generator) -> Floats:
        """Means of reported outcomes [K, C] of one draw; over numbers from those of the knots."""
        means: Floats = np.array([_drawn_means(arm, stream) for arm in stated_arms(arms)])
        if isinstance(arms, PointArms):
            means = shares_over(cast(Space, self.problem.space), arms.points) @ means
        return means

    @cached_property
    def tables(self) -> int:
        """The approximate bytes of a draw's tables, for one policy at one budget."""
        rows = sum(_rows(arm) for arms in self.problem.arms_by_phase for arm in arms)
        return 1 + 32 * rows * len(self.problem.told_channels) if self.vary else 1

    def values(self, measure: Callable[[Problem], npt.ArrayLike]) -> Floats:
        """A measure of the problem itself and of every draw, [1 + D, ...].

        nan if no mixture keeps the limits of a draw; InfeasibleError if none does in the log.
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
    """The names of the arms with rows; the others' distributions count as known."""
    if problem.bernoulli() is not None and not problem.changes and problem.contexts is None:
        return ()
    found = {arm.name for arms in problem.arms_by_phase for arm in arms if _rows(arm)}
    return tuple(name for name in problem.names if name in found)


def _with_other_rows(
    problem: Problem, features: RowFeatures, stream: np.random.Generator
) -> Problem:
    """The problem with as many of its rows, drawn with replacement, the same for all arms.

    The outcomes of arms that a log did not pull are found again from the rows that were drawn.
    """
    told = np.array([[one.values for one in row_columns(arm)] for arm in problem.arms])  # [K, C, n]
    pulled = features.pulled
    if pulled is None:
        rows = stream.integers(len(features.rows), size=len(features.rows))
        told, drawn = told[:, :, rows], replace(features, rows=features.rows[rows])
    else:
        rows = rows_again(pulled, stream)
        drawn = replace(features, rows=features.rows[rows], pulled=pulled[rows])
        seen = told[pulled[rows], :, rows]
        found = completed(drawn.rows, pulled[rows], seen, len(told), stream, problem.space)
        told = found.transpose(1, 2, 0)
    arms = [
        Arm.from_columns(name, list(columns))
        for name, columns in zip(problem.names, told, strict=True)
    ]
    return replace(problem, arms=arms, features=drawn)


def _rows(arm: Arm) -> int:
    """The number of rows of an arm; 0 if it has distributions."""
    return len(arm.cost.chances) if isinstance(arm.cost, Empirical) else 0


def _reweighted(arm: Arm, stream: np.random.Generator) -> Arm:
    """The arm with Dirichlet weights times its rows' own; unchanged without rows."""
    weights = _weights(arm, stream)
    return arm if weights is None else arm.weighted(weights)


def _drawn_means(arm: Arm, stream: np.random.Generator) -> list[float]:
    """The means of the same arm's outcomes."""
    weights = _weights(arm, stream)
    if weights is None:
        return [law.mean for law in arm.marginals()]
    weights /= weights.sum()
    return [float(weights @ column.values) for column in row_columns(arm)]


def _weights(arm: Arm, stream: np.random.Generator) -> Floats | None:
    """Weights of an arm's rows, in any unit; None if it has none."""
    if not isinstance(arm.cost, Empirical):
        return None
    weights = stream.standard_exponential(_rows(arm))
    if arm.cost.weights is not None:
        weights *= arm.cost.chances
    return weights


@dataclass(frozen=True, eq=False)
class Sample:
    """The runs of one policy at one budget over all draws, in the user's units."""

    policy: str
    knows: str
    budget: float
    reward: Floats  # [D, n]
    pulls: Floats  # [D, n]
    cost: Floats  # [D, n]
    violation: Floats  # [D, n, M] in each limit's own unit, minus the limit
    limits: Floats  # [M]
    limit_names: tuple[str, ...]
    by_type: tuple[TypeRow, ...] = ()

    @property
    def runs(self) -> int:
        """The total number of runs."""
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

    All draws are one call of the engine, if their tables fit into memory. Draw d has its own run
    numbers, from ``first`` on; without rows they are 0, 1, ... as in ``simulate``. Raises
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
            if draws.vary:  # the caller warns once, about the log itself
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
        by_type=rows_of_types(results, label, g),
    )


def log_notes(
    problem: Problem, varied: Sequence[str], draws: int, infeasible: float = 0.0
) -> list[str]:
    """Sentences on the log's part of the error: which arms it covers, and how it was found."""
    told = [f"About the log: {problem.caveat}."] if problem.caveat else []
    if not varied:
        return [
            *told,
            "The arms have distributions, not rows: the errors are those of the simulation.",
        ]
    if draws < 2:
        return [*told, "No draws were requested: the errors are those of the simulation."]
    told += [
        f"The log's part of the errors is from {draws} draws of the Bayesian bootstrap over rows."
    ]
    if problem.contexts is not None:
        told.append("How often each type of request comes counts as known.")
    others = [name for name in problem.names if name not in varied]
    if others:
        told.append(f"Arms with distributions count as known: {', '.join(others)}.")
    if infeasible:
        told.append(f"In {infeasible:.0%} of the draws no mixture of the arms keeps the limits.")
    return told
