"""What a user should hear before a run: limits out of reach, numbers outside the theorems."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

from tightrope.optimum.pi_star import infeasible
from tightrope.policies.base import Policy, set_up
from tightrope.problem import Problem

__all__ = [
    "InfeasibleLimitsWarning",
    "OutsideTheoryWarning",
    "caveats",
    "outside_theory",
    "warn_infeasible",
    "warn_outside_theory",
]


class InfeasibleLimitsWarning(UserWarning):
    """No mixture of a problem's arms keeps its limits, so no policy can for long."""


def warn_infeasible(problem: Problem, stacklevel: int = 3) -> None:
    """Warn whoever called the function that calls this, if no mixture keeps the limits."""
    reason = infeasible(problem)
    if reason:
        text = f"no mixture of the arms keeps the limits of {problem.title}: {reason}"
        warnings.warn(text, InfeasibleLimitsWarning, stacklevel=stacklevel)


class OutsideTheoryWarning(UserWarning):
    """A policy's numbers lie outside what the paper's theorems cover."""


def outside_theory(
    problem: Problem, policies: Mapping[str, Policy], budgets: Iterable[float]
) -> dict[tuple[str, float], str]:
    """What the paper's theorems do not cover, by policy and budget: the policy's own words."""
    found = {}
    for budget in budgets:
        for label, policy in policies.items():
            warning = set_up(policy, problem, budget / problem.scales.cost).warning
            if warning:
                found[label, budget] = warning
    return found


def caveats(outside: Mapping[tuple[str, float], str]) -> list[str]:
    """What lies outside the theory: a sentence per policy, not one per budget."""
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
    """Warn whoever called the function that calls this, once per policy; skips None."""
    for caveat in caveats({place: text for place, text in outside.items() if text}):
        warnings.warn(caveat, OutsideTheoryWarning, stacklevel=5)
