"""Searches of a plan: the smallest budget that earns a target, the tightest limit that holds.

Letters: D draws, n runs per draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tightrope.data.draws import Draws, Sample, sample
from tightrope.data.multipliers import slopes_of
from tightrope.data.plans import Earned, Promise
from tightrope.engine.simulation import SimulationSettings
from tightrope.errors import InfeasibleError, ProblemError
from tightrope.policies import Policy, Resolve
from tightrope.problem import Problem
from tightrope.statistics import quantile, quantile_error

NEAR = 0.005  # of a budget or limit: relative precision of its search
MOST_EARNED = 64.0  # times the largest budget: where the search for a budget ends
MOST_ROUNDS = 16  # of a search
SURE = 0.05  # the tightest limit is measured with this chance of being wrong
PROMISE_RUNS = 30.0  # over the risk: how many runs the tightest limit is measured with
FIRST_SHARE = 4  # a hopeless limit is dropped after a fourth of them
ATTEMPTS = 4  # to confirm a limit on new runs, which share the chance of being wrong
FRESH = 2**32  # first run number of the runs that confirm it
WIDER = 1.5  # the first growth of a limit that is broken too often
MOST_WIDER = 5  # how often it does
Tell = Callable[[float], None]


def neat(value: float, digits: int = 4) -> float:
    """The value rounded to a number of significant digits."""
    return float(f"{value:.{digits}g}")


def guessed_budget(problem: Problem, target: float, budgets: Sequence[float]) -> float:
    """A budget that earns about the target, from pi*'s rate or the best arm's."""
    try:
        rate = slopes_of(problem, max(budgets))[0]
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
        """The search after the runs at one more budget."""
        value = quantile(one.reward, 1.0 - chance)
        tried = max(self.tried, one.budget)
        if float(np.mean(one.reward >= target)) >= chance:
            return replace(self, high=one.budget, high_value=value, best=one, tried=tried)
        return replace(self, low=one.budget, low_value=value, tried=tried)

    def next(self, target: float, guess: float, most: float) -> float | None:
        """The budget to try next; None at the end.

        Rewards are nearly proportional to the budget, so it is where the line through both ends
        meets the target, shifted a little towards the farther end.
        """
        if self.high is None:
            if self.low >= most:
                return None
            rise = target / self.low_value if self.low_value > 0.0 else 2.0
            start = guess if self.low == 0.0 else self.low * min(max(1.02 * rise, 1.0 + NEAR), 8.0)
            return neat(min(start, most))
        width = self.high - self.low
        if width <= NEAR * self.high:
            return None
        slope = (self.high_value - self.low_value) / width
        middle = self.low + (target - self.low_value) / slope if slope > 0.0 else self.low
        side = 1.0 if self.high - middle > middle - self.low else -1.0
        chosen = middle + side * 0.3 * NEAR * self.high
        chosen = neat(min(max(chosen, self.low + 0.1 * width), self.high - 0.1 * width))
        return chosen if self.low < chosen < self.high else None


@dataclass(frozen=True, eq=False)
class Planner:
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
        guess = guessed_budget(self.draws.problem, target, [largest])
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
        """The tightest limit number ``m`` that is kept at the budget, up to the risk."""
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
            middle = neat(0.5 * (low + high))
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

    search: Planner
    m: int
    policy: Policy
    risk: float
    budget: float
    least: float

    def at(self, limit: float, first: int = 0) -> Promise:
        """Try the limit: a fourth of the runs first, and the rest if it is not hopeless."""
        runs = max(self.search.runs, math.ceil(PROMISE_RUNS / self.risk))
        found = self._runs(limit, -(-runs // FIRST_SHARE), first)
        if _at_least(found.broken, found.runs) > self.risk:
            return found
        return self._runs(limit, runs, first)

    def confirmed(self, limit: float) -> Promise:
        """The limit on new runs: the tightest of many estimates is too good on its own runs."""
        for attempt in range(ATTEMPTS):
            found = self.at(limit, FRESH * (1 + attempt))
            if found.kept:
                return found
            limit = neat(limit * (1.0 + NEAR * 2.0 ** (1 + attempt)))
        return found.refused("no limit was confirmed on new runs")

    def _runs(self, limit: float, runs: int, first: int) -> Promise:
        problem, label = self.search.draws.problem, self.policy.label
        name, words = problem.limit_names[self.m], problem.limit_kinds[self.m].words
        found = Promise(name, words, label, self.budget, self.risk, limit, self.least)
        try:
            there = ({label: self.policy}, [self.budget])
            (one,) = self.search.samples([there], runs, first, problem.with_limits({name: limit}))
        except ProblemError:  # beyond the range of limits
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
    confidence for all attempts to confirm a limit together.
    """
    from scipy.special import betaincinv

    share, runs = float(np.mean(happened)), _runs_worth(happened)
    if share >= 1.0:
        return 1.0
    return float(betaincinv(share * runs + 1.0, (1.0 - share) * runs, 1.0 - SURE / ATTEMPTS))


def _runs_worth(happened: Any) -> float:
    """The number of independent runs with the information of the runs [D, n] of D draws."""
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
