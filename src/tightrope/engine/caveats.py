"""Warnings before a run: infeasible limits, and parameters that the theorems do not cover."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tightrope.callers import warn_caller
from tightrope.errors import InfeasibleLimitsWarning, OutsideTheoryWarning
from tightrope.optimum.pi_star import infeasible
from tightrope.policies.base import Policy, set_up
from tightrope.problem import Problem

__all__ = [
    "caveats",
    "outside_theory",
    "warn_infeasible",
    "warn_outside_theory",
]


def warn_infeasible(problem: Problem, budgets: Iterable[float]) -> None:
    """Warn if no mixture keeps the limits.

    Of the ``budgets`` the largest counts: the more there is to spend, the less of a limit in total
    there is per unit of it.
    """
    reason = infeasible(problem.at(max(budgets)))
    if reason:
        text = f"no mixture of the arms keeps the limits of {problem.title}: {reason}"
        warn_caller(text, InfeasibleLimitsWarning)


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
