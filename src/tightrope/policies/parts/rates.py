"""Empirical rates, their confidence widths, initial exploration, and schedules of V and delta."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tightrope.errors import PolicyError
from tightrope.policies.base import Constants, Terms, limits_of
from tightrope.problem import Known, Task

INFINITY = math.inf
# The lower bound on mean costs if none is declared, relative to the largest cost. Exploration
# depends on its log: a bound ten times too small adds beta0 * 2.3 pulls of every arm.
UNDECLARED_COST = 0.1


def rate_terms(constants: Constants, pulls: float, cost: float, earned: float) -> Terms:
    """An arm's empirical rate, and the width of its confidence interval per unit of the clock.

    An arm that has cost nothing so far gets an infinite rate: its index is -infinity, so it is
    pulled again.
    """
    return rate_and_width(pulls, cost, earned, INFINITY, 1.0, 1.0)


def rate_and_width(
    pulls: float, cost: float, earned: float, unknown: float, own: float, noise: float
) -> Terms:
    """The rate, or ``unknown`` if the arm has cost nothing so far, and its width.

    The width is (1 + rate) / (sqrt(pulls) * mean cost), so that clock * width is the bonus of
    eqn:ly-index with rad_k of def:cradius, for clock = sqrt(2 alpha log n). In a quotient's width
    (1 + rate) / cost, the 1 comes from the numerator (``own``) and the rate from the cost
    (``noise``); each factor is 0 if it is known. ``earned`` is at least 0.
    """
    if cost > 0.0:
        per_cost = 1.0 / cost
        rate = earned * per_cost
        return rate, math.sqrt(pulls) * per_cost * (own + noise * rate)
    return unknown, 0.0


def net_rate_and_width(
    pulls: float, cost: float, net: float, unknown: float, own: float, noise: float
) -> Terms:
    """The same for a net penalty, which may be negative."""
    if cost > 0.0:
        per_cost = 1.0 / cost
        rate = net * per_cost
        return rate, math.sqrt(pulls) * per_cost * (own + noise * abs(rate))
    return unknown, 0.0


def known_facts(task: Known) -> tuple[float, float]:
    """Whether all costs are known (1 or 0), and 0 if all penalties are known too, otherwise 1."""
    known = task.stated.known_outcomes
    costs, penalties = not np.isnan(known[:, 0]).any(), not np.isnan(known[:, 2:]).any()
    return float(costs), 0.0 if costs and penalties else 1.0


def exploration(beta0: float, budget: float, smallest_cost: float) -> int:
    """How often each arm is pulled before the first decision."""
    # alg:LyOn, line 3.
    return max(0, math.ceil(beta0 * math.log(2.0 * budget / smallest_cost)))


def smallest_cost(mu_min: float | None, task: Task) -> float:
    """A lower bound on the mean costs: ``mu_min``, the task's, or the default."""
    declared = task.normal_smallest_cost if mu_min is None else mu_min
    return UNDECLARED_COST if declared is None else declared


@dataclass(frozen=True)
class Schedule:
    """V = v0 * sqrt(B g(B)) and delta = delta0 * sqrt(g(B) / B), for g = 1 or log.

    ``v`` and ``delta`` override them with plain numbers.
    """

    policy: str
    growth: Callable[[float], float]
    v0: float
    delta0: float
    v: float | None
    delta: float | None

    def at(self, budget: float, unit: float = 1.0) -> tuple[float, float]:
        """V and delta at a normalised budget; ``unit``, the largest cost, is for the message."""
        growth = self.growth(budget)
        if growth <= 0.0 and (self.v is None or self.delta is None):
            raise PolicyError(
                f"policy {self.policy}: budget = {budget * unit:g} is too small for its schedules;"
                f" must be above {unit:g}, the largest cost of one pull, or give v and delta as"
                " numbers"
            )
        v = self.v0 * math.sqrt(budget * growth) if self.v is None else self.v
        delta = self.delta0 * math.sqrt(growth / budget) if self.delta is None else self.delta
        return v, delta

    def outside(self, budget: float, known: Known) -> str | None:
        """A warning, in the user's units, if delta is not below the tightest limit, or None.

        The theorems assume that it is. ``budget`` is normalised.
        """
        limits = limits_of(known)
        delta, tightest = self.at(budget)[1], min(limits, default=math.inf)
        if delta < tightest:
            return None
        m, unit = limits.index(tightest), known.scales.cost
        text = f"policy {self.policy}: delta = {delta * known.scales.penalties[m] / unit:.4g}"
        text += f" is not below {known.limit_text(m)}"
        if self.delta is not None:
            return f"{text}, so no theorem covers it; the value is used unchanged"
        smallest = math.ceil(self._smallest_budget(tightest) * unit)
        return (
            f"{text} at budget {budget * unit:g}, so no theorem covers it; the value is used "
            f"unchanged. The smallest budget inside the theory is about {smallest:,.0f}"
        )

    def _smallest_budget(self, limit: float) -> float:
        """The budget from which delta0 * sqrt(g(B) / B) stays below ``limit``, by bisection."""
        low = high = math.e  # log(B) / B decreases from here on
        while self.delta0 * math.sqrt(self.growth(high) / high) >= limit:
            low, high = high, 2.0 * high
        while high - low > 1e-9 * high:
            middle = 0.5 * (low + high)
            inside = self.delta0 * math.sqrt(self.growth(middle) / middle) < limit
            low, high = (low, middle) if inside else (middle, high)
        return high
