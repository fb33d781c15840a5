"""Warnings before a run: infeasible limits, risks out of reach, parameters outside the theorems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import cast

import numpy as np
import numpy.typing as npt

from tightrope.callers import warn_caller
from tightrope.errors import InfeasibleLimitsWarning, OutsideTheoryWarning, RiskWarning
from tightrope.optimum.pi_star import infeasible, least_factor
from tightrope.policies.aim import Usual, aim_of
from tightrope.policies.base import Policy, set_up
from tightrope.problem import Problem
from tightrope.problem.outcomes import ContinuousLaw, FiniteLaw, Law

QUANTILES = 100  # of a continuous distribution

Floats = npt.NDArray[np.float64]


def warn_infeasible(problem: Problem, budgets: Iterable[float]) -> None:
    """Warn if no mixture keeps the limits.

    It checks the largest of the ``budgets``: a limit in total allows less per unit of a larger
    budget.
    """
    reason = infeasible(problem.at(max(budgets)))
    if reason:
        text = f"no mixture of the arms keeps the limits of {problem.title}: {reason}"
        warn_caller(text, InfeasibleLimitsWarning)


def warn_out_of_reach(
    problem: Problem, policies: Mapping[str, Policy], budgets: Iterable[float]
) -> None:
    """Warn about each policy whose risk is out of reach at the smallest of the budgets."""
    asked = {label: one for label, one in policies.items() if getattr(one, "risk", None)}
    if not asked:
        return
    there = problem.at(least := min(budgets))
    task = replace(there.declared(slack=False), slack=_slack(there))
    for label, policy in asked.items():
        aim = aim_of(policy, task, least / problem.scales.cost, _usual(there))
        if aim:
            warn_caller(f"policy {label}: {aim} ({problem.title}, budget {least:g})", RiskWarning)


def _slack(problem: Problem) -> float | None:
    """The slack of the best mixture; None without limits."""
    return min(1.0 - least_factor(problem), 1.0) if problem.penalty_count else None


def _usual(problem: Problem) -> Usual:
    """The mean costs and rewards, and the usual penalty of each limit's safest arm."""
    means = problem.moments
    plain = all(one.told_odds is not None for one in problem.by_type)
    sizes = [
        1.0 if plain or m not in problem.told else _usual_size(problem, m)
        for m in range(problem.penalty_count)
    ]
    return Usual(float(means.cost.mean()), max(float(means.reward.mean()), 1e-300), sizes)


def _usual_size(problem: Problem, m: int) -> float:
    """E[V^2] / E[V] of a penalty of the safest arm, of each type; 1 if it is always 0."""
    mean = square = 0.0
    for one, share in zip(problem.by_type, problem.shares.values() or [1.0], strict=True):
        safest = int(one.moments.penalty_rate[:, m].argmin())
        law = one.arms[safest].marginals()[2 + problem.told.index(m)]
        points, chances = _points(law)
        mean += share * float(points @ chances)
        square += share * float(points * points @ chances)
    return square / mean / problem.scales.penalties[m] if mean > 0.0 else 1.0


def _points(law: Law) -> tuple[Floats, Floats]:
    """The values of a distribution and their probabilities; quantiles if it is continuous."""
    if isinstance(law, FiniteLaw):
        points, chances = map(np.asarray, law.points())
        return points, chances
    points = cast(ContinuousLaw, law).quantile((np.arange(QUANTILES) + 0.5) / QUANTILES)
    return points, np.full(QUANTILES, 1.0 / QUANTILES)


def outside_theory(
    problem: Problem, policies: Mapping[str, Policy], budgets: Iterable[float]
) -> dict[tuple[str, float], str]:
    """The policies' warnings, by label and budget, about numbers outside the paper's theorems."""
    found = {}
    for budget in budgets:
        for label, policy in policies.items():
            warning = set_up(policy, problem, budget / problem.scales.cost).warning
            if warning:
                found[label, budget] = warning
    return found


def caveats(outside: Mapping[tuple[str, float], str]) -> list[str]:
    """The warnings merged into one sentence per policy for all its budgets."""
    told = []
    for label in dict.fromkeys(label for label, _ in outside):
        first, *others = sorted(budget for name, budget in outside if name == label)
        text = outside[label, first]
        if others:
            listed = ", ".join(f"{budget:g}" for budget in others)
            text += f". The same holds at budget{'s' * (len(others) > 1)} {listed}"
        told.append(text)
    return told


def warn_outside_theory(outside: Mapping[tuple[str, float], str | None]) -> None:
    """Issue one warning per policy, skipping None."""
    for caveat in caveats({place: text for place, text in outside.items() if text}):
        warn_caller(caveat, OutsideTheoryWarning)
