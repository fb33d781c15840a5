"""Confidence intervals for the mean of outcomes in [0, 1], as the literature uses them."""

from __future__ import annotations

import math

from tightrope.policies.state import State

__all__ = [
    "kl_high",
    "kl_low",
    "knapsack_radius",
    "log_term",
    "rate_radius",
    "spread",
    "unpulled",
    "untried",
    "wilson_high",
    "wilson_low",
]

FEW = 30.0  # pulls below which a variance is not trusted
STEPS = 20  # of Newton's method, at most; most often 4 are taken
CLOSE = 1e-13  # a step of it that ends it
LEAST = 1e-9  # of a lower bound where the mean is above 0: quotients stay finite


def unpulled(state: State) -> int:
    """The first arm without a pull; -1 if none."""
    for arm in range(len(state.pulls)):
        if state.pulls[arm] == 0.0:
            return arm
    return -1


def untried(state: State) -> int:
    """The first arm without a pull, else without a cost: its rates are not known. -1 if none."""
    channels, first = len(state.remaining) + 1, unpulled(state)
    if first >= 0:
        return first
    for arm in range(len(state.pulls)):
        if state.totals[arm * channels] <= 0.0:
            return arm
    return -1


def log_term(scale: float, arms: int, resources: int, budget: float) -> float:
    """``scale`` log(arms * resources * budget), at least ``scale``: the radius's gamma below."""
    return scale * max(math.log(arms * resources * budget), 1.0)


def knapsack_radius(mean: float, pulls: float, gamma: float) -> float:
    """sqrt(gamma mean / pulls) + gamma / pulls (Kleinberg, Slivkins and Upfal, STOC 2008)."""
    return math.sqrt(gamma * mean / pulls) + gamma / pulls


def rate_radius(mean: float, cost: float, pulls: float, gamma: float) -> float:
    """The same for the rate ``mean`` / ``cost``, as eqn:ly-index has it: a first-order bound."""
    above, below = knapsack_radius(mean, pulls, gamma), knapsack_radius(cost, pulls, gamma)
    return (above + below * mean / cost) / cost


def spread(pulls: float, total: float, squares: float) -> float:
    """eta: the variance seen, relative to that of a coin with the same mean; in [0, 1].

    1 for zeros and ones, and 1 where fewer than 30 pulls or a mean of 0 or 1 say too little.
    """
    mean = total / pulls
    coin = mean * (1.0 - mean)
    if pulls < FEW or coin <= 0.0:
        return 1.0
    return min(max((squares / pulls - mean * mean) / coin, 0.0), 1.0)


def wilson_low(mean: float, pulls: float, width: float) -> float:
    """The smaller m with pulls (mean - m)^2 = width m (1 - m); ``width`` is eta z^2.

    Above 0 where the mean is: by the product of the two, mean^2 pulls / (pulls + width).
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


def kl_high(mean: float, width: float) -> float:
    """The largest q with kl(mean, q) <= ``width``, kl being Bernoulli laws' relative entropy.

    By Newton's method from above: kl is convex in q, so no step goes beyond the root. It starts at
    the smaller of two bounds, Pinsker's mean + sqrt(width / 2), and the q at which
    -entropy(mean) - (1 - mean) log(1 - q), which is below kl, reaches ``width``.
    """
    if mean <= 0.0:
        return -math.expm1(-width)
    if mean >= 1.0 or width <= 0.0:
        return mean
    entropy = _entropy(mean)
    high = -math.expm1(-(width + entropy) / (1.0 - mean))
    high = min(mean + math.sqrt(0.5 * width), high)
    for _ in range(STEPS):
        if not mean < high < 1.0:
            break
        step = _newton(mean, high, width + entropy)
        high -= step
        if step <= CLOSE:
            break
    return min(max(high, mean), 1.0)


def kl_low(mean: float, width: float) -> float:
    """The smallest q with kl(mean, q) <= ``width``, likewise from below.

    Where the mean is above 0, so is it: at least ``LEAST``, or the mean where that is less.
    """
    if mean >= 1.0:
        return max(math.exp(-width), LEAST)
    if mean <= 0.0 or width <= 0.0:
        return mean
    entropy = _entropy(mean)
    low = max(mean - math.sqrt(0.5 * width), math.exp(-(width + entropy) / mean))
    for _ in range(STEPS):
        if not LEAST < low < mean:
            break
        step = _newton(mean, low, width + entropy)
        low -= step
        if -step <= CLOSE * low:
            break
    return min(max(low, LEAST), mean)


def _entropy(mean: float) -> float:
    return -mean * math.log(mean) - (1.0 - mean) * math.log(1.0 - mean)


def _newton(mean: float, at: float, wanted: float) -> float:
    """(kl(mean, at) - width) over its slope; ``wanted`` is the width and the mean's entropy."""
    cross = -mean * math.log(at) - (1.0 - mean) * math.log(1.0 - at)
    return (cross - wanted) * at * (1.0 - at) / (at - mean)
