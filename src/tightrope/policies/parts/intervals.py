"""Confidence intervals for the mean of outcomes in [0, 1], as the literature uses them."""

from __future__ import annotations

import math

from tightrope.policies.state import State

__all__ = [
    "knapsack_radius",
    "log_term",
    "rate_radius",
    "spread",
    "untried",
    "wilson_high",
    "wilson_low",
]

FEW = 30.0  # with fewer pulls the empirical variance is not used


def untried(state: State) -> int:
    """The first arm without a pull, else the first whose cost so far is 0; -1 if there is none."""
    channels = len(state.remaining) + 1
    for arm in range(len(state.pulls)):
        if state.pulls[arm] == 0.0:
            return arm
    for arm in range(len(state.pulls)):
        if state.totals[arm * channels] <= 0.0:
            return arm
    return -1


def log_term(scale: float, arms: int, resources: int, budget: float) -> float:
    """Gamma of :func:`knapsack_radius`: ``scale`` * max(log(arms * resources * budget), 1)."""
    return scale * max(math.log(arms * resources * budget), 1.0)


def knapsack_radius(mean: float, pulls: float, gamma: float) -> float:
    """sqrt(gamma mean / pulls) + gamma / pulls (Kleinberg, Slivkins and Upfal, STOC 2008)."""
    return math.sqrt(gamma * mean / pulls) + gamma / pulls


def rate_radius(mean: float, cost: float, pulls: float, gamma: float) -> float:
    """The radius of the rate ``mean`` / ``cost``, to first order as in eqn:ly-index."""
    above, below = knapsack_radius(mean, pulls, gamma), knapsack_radius(cost, pulls, gamma)
    return (above + below * mean / cost) / cost


def spread(pulls: float, total: float, squares: float) -> float:
    """Eta in [0, 1]: the empirical variance / that of a Bernoulli variable with the same mean.

    It is 1 for zeros and ones, and also for fewer than 30 pulls or a mean of 0 or 1.
    """
    mean = total / pulls
    coin = mean * (1.0 - mean)
    if pulls < FEW or coin <= 0.0:
        return 1.0
    return min(max((squares / pulls - mean * mean) / coin, 0.0), 1.0)


def wilson_low(mean: float, pulls: float, width: float) -> float:
    """The smaller m with pulls (mean - m)^2 = width m (1 - m); ``width`` is eta z^2.

    It is above 0 where the mean is: the product of both roots is mean^2 pulls / (pulls + width).
    """
    if mean <= 0.0:
        return 0.0
    return mean * mean / _wilson_sum(mean, width / pulls)


def wilson_high(mean: float, pulls: float, width: float) -> float:
    """The larger m with pulls (mean - m)^2 = width m (1 - m)."""
    return min(_wilson_sum(mean, width / pulls) / (1.0 + width / pulls), 1.0)


def _wilson_sum(mean: float, share: float) -> float:
    inside = share * mean * (1.0 - mean) + 0.25 * share * share
    return mean + 0.5 * share + math.sqrt(max(inside, 0.0))
