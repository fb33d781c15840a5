"""The value of a little more budget or a looser limit: exact, from the multipliers of pi*."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tightrope.data.best_rates import best_rate
from tightrope.data.draws import Draws
from tightrope.data.plans import LimitWorth, Worth
from tightrope.errors import InfeasibleError
from tightrope.optimum.exact import optimum
from tightrope.optimum.pi_star import Oracle, oracle_of_arms, oracle_of_phases
from tightrope.problem import Problem


def worth(draws: Draws, budget: float) -> Worth | None:
    """The value of the budget and of a little more budget or limit; None if limits cannot hold.

    OPT(B) is nearly B times pi*'s rate. So a unit of budget is worth that rate, minus the cost of
    spreading a limit in total over more budget. A unit of a limit is worth its multiplier times the
    total of its base: the budget, the pulls, the reward, or 1 for a limit in total.
    """
    try:  # [1 + D, 2 + 2 M]: pi*'s rate, budget, then limits, multipliers
        slopes = draws.values(lambda one: slopes_of(one, budget))
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
    if (rate := best_rate(draws, budget)) is not None:
        best_of_all = rate.of(budget, best)
        unit = budget_unit.mean + rate.rate.mean - rate.own.mean
        budget_unit = replace(budget_unit, mean=unit, log=max(budget_unit.log, rate.rate.log))
    return Worth(budget, best_of_all, budget_unit, 1.0 - kept, limits)


def slopes_of(problem: Problem, budget: float) -> list[float]:
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
        best, phases = [oracle_of_arms(problem.blind, budget)], problem.phases
    return [
        (phase.share, one, _pulls(phase.problem, one))
        for phase, one in zip(phases, best, strict=True)
    ]


def _pulls(problem: Problem, best: Oracle) -> float:
    """pi*'s pulls per unit of cost."""
    cost = problem.row_moments.cost * problem.scales.cost
    if best.by_type is None:
        return float((best.cost_share / cost).sum())
    shares = np.array(list(problem.shares.values()))
    return 1.0 / float(shares @ (best.by_type * cost.reshape(best.by_type.shape)).sum(axis=1))


def _step(limit: float) -> float:
    """A small step of a limit, a power of ten: about a hundredth of it.

    >>> _step(0.8), _step(0.05), _step(500)
    (0.01, 0.001, 10.0)
    """
    return float(f"1e{round(math.log10(limit)) - 2}")
