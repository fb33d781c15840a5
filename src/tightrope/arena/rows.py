"""One row of the arena: a policy on a problem at a budget, in the user's units.

Letters: R runs, K arms, M limits. The *worst limit* is the one whose violation's interval ends
highest, relative to the limit itself.

A policy *keeps* the limits if the runs show both of these, with intervals of 95 %:

- its mean violation is at most ``TOLERANCE`` of the limit, for every limit: the upper end is;
- less than a share ``MOST_FAR`` of its runs go beyond some limit by more than ``FAR`` of it: the
  upper end of Wilson's interval is at most that.

Both use upper ends, so a policy that breaks the limit is never counted as keeping it because of
noise or few runs. From 73 runs on, no run far beyond the limit is enough. A policy *breaks* a limit
if the lower ends show the opposite of one of the two. Otherwise it is *unclear*, and ranked as if
it broke the limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tightrope.errors import InfeasibleError
from tightrope.optimum.exact import optimum
from tightrope.optimum.pi_star import least_excess, least_factor, oracle_of_arms, oracle_of_phases
from tightrope.problem import Problem
from tightrope.results import Results
from tightrope.runs import Runs, limit_bases, net_penalties
from tightrope.statistics import (
    Estimate,
    Floats,
    Interval,
    estimate,
    quantile,
    quantile_error,
    wilson,
)

USUAL = 1000.0  # a budget, in largest costs, for what depends on one
TOLERANCE = 0.001  # of the limit: a mean violation that counts as none
FAR = 0.05  # of the limit: a run that goes further beyond it is a bad one
MOST_FAR = 0.05  # of the runs: as many may be bad
ROUNDING = 1e-9  # of what is allowed: sums of floats
ON_A_PLANE = 1e-9  # of the largest reward rate: an arm this near to the others' plane is on it


@dataclass(frozen=True, eq=False)
class Scene:
    """A problem of the arena, with what can be computed before any run."""

    name: str
    about: str
    problem: Problem

    def at(self, budget: float) -> Scene:
        """The same at a budget, in the user's units: limits in total are per unit of it."""
        if not self.problem.depends_on_budget:
            return self
        return replace(self, problem=self.problem.at(budget))

    @property
    def changes(self) -> bool:
        """Whether its arms change."""
        return bool(self.problem.changes)

    @property
    def typed(self) -> bool:
        """Whether its requests have types."""
        return self.problem.contexts is not None

    @cached_property
    def settled(self) -> Problem:
        """The problem, at a usual budget if a limit is in total."""
        return self.problem.at(USUAL * self.problem.scales.cost)

    @cached_property
    def prices(self) -> Floats:
        """What one more unit of each penalty would earn, [M], in the user's units."""
        best = oracle_of_phases(self.problem)[0] if self.changes else oracle_of_arms(self.settled)
        return np.array(best.multiplier)

    def earned(self, runs: Runs) -> Floats:
        """What normalised runs [R] earned, in the user's units: as the rewards, with less noise.

        A pull's reward less its arm's rate times its cost is 0 on average, whatever the policy, and
        so it is for penalties. Hence the mean stays what it is if a run's reward is replaced by the
        cost on each arm times its rate, and the penalties' deviations from their rates are added at
        the limits' prices: a policy that steers by the penalties earns their luck at that price.
        """
        scales, moments = self.problem.scales, self.problem.moments
        if self.changes or self.typed:
            return runs.reward * scales.reward
        prices = self.prices * scales.penalties  # of a normalised penalty
        gains = moments.reward_rate * scales.reward - moments.penalty_rate @ prices
        return runs.arm_cost @ gains + net_penalties(self.problem, runs) @ prices

    def beyond(self, runs: Runs, budget: float) -> float:
        """What the penalties beyond the limits are worth, on average over normalised runs [R]."""
        penalty = runs.penalty.mean(axis=0) * self.problem.scales.penalties
        allowed = np.array(self.problem.limits) * limit_bases(self.problem, runs, budget).mean(
            axis=0
        )
        return float(np.maximum(penalty - allowed, 0.0) @ self.prices)

    @cached_property
    def regret_tells(self) -> bool:
        """Whether regret says more than the violation does.

        With one limit: there are more than two arms, and their rates of penalty and reward do not
        lie on one line. On a line r = a + b y the reward is a B + b times the penalty, so a policy
        that uses the whole limit has no regret, whichever arms it pulls. With M limits: more
        than M + 1 arms, not on one plane r = a + b . y. Where arms change: in some phase. With
        types of requests it always does.
        """
        phases = (phase.problem for phase in self.settled.phases)
        return self.typed or any(map(_off_one_plane, phases))

    def require_feasible(self) -> None:
        """InfeasibleError if no mixture of the arms keeps the limits."""
        _ = self.prices  # the oracle raises

    @cached_property
    def slack(self) -> float:
        """How far below its limits the most careful mixture stays, as a share of the limits."""
        if not self.problem.penalty_count:
            return 1.0
        if self.changes:
            return 1.0 - least_excess(self.problem, [one.share for one in self.problem.phases])[0]
        return 1.0 - least_factor(self.settled)

    def optimum(self, budget: float) -> float | None:
        """OPT(B) at a budget in the user's units; None where no policy keeps the limits."""
        try:
            return optimum(self.problem, budget)
        except InfeasibleError:
            return None


def _off_one_plane(problem: Problem) -> bool:
    """Whether the reward rates are no linear function of the penalty rates, and a constant."""
    moments = problem.moments
    if problem.arm_count < problem.penalty_count + 2:
        return False
    plane = np.column_stack([np.ones(problem.arm_count), moments.penalty_rate / moments.limits])
    fit, *_ = np.linalg.lstsq(plane, moments.reward_rate)
    off = np.abs(moments.reward_rate - plane @ fit).max()
    return bool(off > ON_A_PLANE * moments.reward_rate.max())


@dataclass(frozen=True)
class ArenaRow:
    """One policy on one problem at one budget, in the user's units; R runs.

    ``budget``: in largest costs of one pull; ``cost_budget``: in the problem's units of cost.
    ``knows``: what the policy knows of the arms; ``knows_means``: it knows the distributions and is
    not ranked. ``optimum``: OPT(B), in units of reward, None where no policy keeps the limits.
    ``reward_rate``: reward per unit of cost. ``earned``: a run's reward, with less noise than the
    mean of the rewards; ``counted``: without what penalties beyond the limits earned. ``regret``:
    the optimum less what is earned; ``regret_share``: of the optimum; ``regret_tells``: whether
    regret says more than the violation on this problem (see ``Scene``).

    Of the worst limit, ``worst_limit`` (from 1; None without limits): ``limit``, ``violation`` per
    unit of cost; ``_share`` is relative to the limit. ``violation_p99``: the 99th percentile over
    runs, with its standard error. ``broken``: the share of runs that break any limit, with Wilson's
    interval; ``broken_far``: that break one by more than ``FAR`` of it. ``keeps``: see the module.
    ``violations``: the mean violation by the limits' names.

    ``steps``: all pulls of all runs. ``decision_ns``: nanoseconds of elapsed time per pull.
    ``rank``: from 1, None if not ranked; ``tied``: another has the same. ``types``: whether the
    policy "uses" or "ignores" the types of requests, or over an interval learns a "curve" or about
    "points"; "" if there are none.
    """

    problem: str
    policy: str
    budget: float
    cost_budget: float
    runs: int
    knows: str
    knows_means: bool
    optimum: float | None
    reward_rate: float
    reward_rate_se: float | None
    earned: float
    earned_se: float | None
    counted: float
    regret: float | None
    regret_se: float | None
    regret_interval: Interval | None
    regret_share: float | None
    regret_tells: bool
    worst_limit: int | None
    limit: float
    violation: float
    violation_se: float | None
    violation_interval: Interval | None
    violation_share: float
    violation_share_interval: Interval | None
    violation_p99: float
    violation_p99_se: float | None
    violation_p99_share: float
    broken: float
    broken_interval: Interval
    broken_far: float
    broken_far_interval: Interval
    keeps: bool
    violations: Mapping[str, float]
    steps: int
    decision_ns: float
    backend: str
    rank: int | None = None
    tied: bool = False
    types: str = ""

    @property
    def breaks(self) -> bool:
        """Whether the runs show that it breaks a limit, on average or in too many runs."""
        low, _ = self.violation_share_interval or (-1.0, 0.0)
        return low > TOLERANCE or self.broken_far_interval[0] > MOST_FAR

    @property
    def kept(self) -> str:
        """``keeps``, ``breaks`` or ``unclear``."""
        return "keeps" if self.keeps else "breaks" if self.breaks else "unclear"

    def as_dict(self) -> dict[str, Any]:
        """A dictionary that JSON takes: intervals are lists."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in vars(self).items()
        }


def row_of(
    scene: Scene, results: Results, knows: str, best: float | None, types: str = ""
) -> ArenaRow:
    """The row of results that hold one policy at one budget; ``best`` is OPT(B)."""
    (record,), (budget,), problem = results.records, results.budgets, scene.problem
    runs = record.normalised_runs[0]
    earned = estimate(scene.earned(runs))
    rate = estimate(runs.reward * problem.scales.reward / budget)
    ends = earned.interval
    steps = int(runs.pulls.sum())
    return ArenaRow(
        problem=scene.name,
        policy=record.label,
        budget=budget / problem.scales.cost,
        cost_budget=budget,
        runs=len(runs.reward),
        knows=knows,
        knows_means=knows == "laws",
        optimum=best,
        reward_rate=rate.mean,
        reward_rate_se=rate.error,
        earned=earned.mean,
        earned_se=earned.error,
        counted=earned.mean - scene.beyond(runs, budget),
        regret=None if best is None else best - earned.mean,
        regret_se=None if best is None else earned.error,
        regret_interval=None if best is None or ends is None else (best - ends[1], best - ends[0]),
        regret_share=None if best is None else 1.0 - earned.mean / best,
        regret_tells=scene.regret_tells,
        **_violation(problem, runs.penalty, limit_bases(problem, runs, budget)),
        steps=steps,
        decision_ns=1e9 * record.seconds[0] / steps,
        backend=record.backend,
        types=types,
    )


def _violation(problem: Problem, penalty: Floats, bases: Floats) -> dict[str, Any]:
    """The limits' part of a row, from the penalties and what they are divided by, [R, M] both."""
    limits = np.array(problem.limits)
    shares = penalty * np.array(problem.scales.penalties) / (limits * bases) - 1.0  # [R, M]
    if not len(limits):
        nothing = _described(None, Estimate(-1.0), np.full(len(penalty), -1.0))
        return {**nothing, "keeps": True, "violations": {}}
    estimates = [estimate(shares[:, m]) for m in range(len(limits))]
    ends = [(one.mean + one.reach, one.mean) for one in estimates]
    worst = ends.index(max(ends))
    told = _described(worst, estimates[worst], shares.max(axis=1), float(limits[worst]))
    means = [one.mean * limit for one, limit in zip(estimates, problem.limits, strict=True)]
    named = dict(zip(problem.limit_names, means, strict=True))
    keeps = ends[worst][0] <= TOLERANCE and told["broken_far_interval"][1] <= MOST_FAR
    return {**told, "keeps": keeps, "violations": named}


def _described(
    worst: int | None, share: Estimate, runs: Floats, limit: float = 0.0
) -> dict[str, Any]:
    """``runs`` [R]: each run's own violation of its worst limit, as a share of the limit."""
    ends, tail, tail_error = share.interval, quantile(runs, 0.99), quantile_error(runs, 0.99)
    return {
        "worst_limit": None if worst is None else worst + 1,
        "limit": limit,
        "violation": share.mean * limit,
        "violation_se": None if share.error is None else share.error * limit,
        "violation_interval": None if ends is None else (ends[0] * limit, ends[1] * limit),
        "violation_share": share.mean,
        "violation_share_interval": ends,
        "violation_p99": tail * limit,
        "violation_p99_se": None if tail_error is None else tail_error * limit,
        "violation_p99_share": tail,
        **_beyond("broken", runs, 0.0),
        **_beyond("broken_far", runs, FAR),
    }


def _beyond(name: str, runs: Floats, margin: float) -> dict[str, Any]:
    """The share of runs [R] whose violation is above ``margin``, with Wilson's interval."""
    count = int(np.count_nonzero(runs > margin + ROUNDING))
    low, high = wilson(count, len(runs))
    return {name: count / len(runs), f"{name}_interval": (float(low), float(high))}
