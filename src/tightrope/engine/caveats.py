"""Warnings before a run: infeasible limits, risks out of reach, parameters outside the theorems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import cast

import numpy as np

from tightrope.callers import warn_caller
from tightrope.errors import InfeasibleLimitsWarning, OutsideTheoryWarning, RiskWarning
from tightrope.optimum.pi_star import infeasible
from tightrope.policies.aim import Usual, aim_of
from tightrope.policies.base import Policy, set_up
from tightrope.problem import Problem
from tightrope.problem.outcomes import ContinuousLaw, FiniteLaw, Law

__all__ = [
    "caveats",
    "outside_theory",
    "warn_infeasible",
    "warn_out_of_reach",
    "warn_outside_theory",
]

QUANTILES = 100  # of a continuous distribution


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
    """The slack of the best mixture or, for limits not per unit of cost, of the best arm."""
    if not problem.penalty_count or not problem.not_per_cost:
        return problem.task.slack
    rates = problem.moments.penalty / np.maximum(problem.moments.base, 1e-300)
    return float(min(1.0 - (rates / problem.normal_limits).max(axis=1).min(), 1.0))


def _usual(problem: Problem) -> Usual:
    """The mean costs and rewards, and the usual penalty of each limit's safest arm."""
    means, sizes = problem.moments, []
    for m in range(problem.penalty_count):
        safest = int((means.penalty_rate[:, m]).argmin())
        size = 1.0
        if problem.told_odds is None and m in problem.told:
            law = problem.arms[safest].marginals()[2 + problem.told.index(m)]
            size = _usual_size(law) / problem.scales.penalties[m] or 1.0
        sizes.append(size)
    return Usual(float(means.cost.mean()), max(float(means.reward.mean()), 1e-300), sizes)


def _usual_size(law: Law) -> float:
    """E[V^2] / E[V]; 0 if the outcome is always 0."""
    if isinstance(law, FiniteLaw):
        points, chances = map(np.asarray, law.points())
    else:
        points = cast(ContinuousLaw, law).quantile((np.arange(QUANTILES) + 0.5) / QUANTILES)
        chances = np.full(QUANTILES, 1.0 / QUANTILES)
    mean = float(points @ chances)
    return float(points * points @ chances) / mean if mean > 0.0 else 0.0


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
