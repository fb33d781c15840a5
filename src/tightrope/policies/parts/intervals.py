"""Confidence intervals for the mean of outcomes in [0, 1], as the literature uses them."""

from __future__ import annotations

import math

from tightrope.policies.state import State, rows

FEW = 30.0  # with fewer pulls the empirical variance is not used
STEPS = 20  # largest number of Newton steps; usually 4 are enough
CLOSE = 1e-13  # Newton's method stops after a step of at most this size
LEAST = 1e-9  # smallest lower bound of a mean above 0, so that quotients stay finite


def unpulled(state: State) -> int:
    """The first arm without a pull; -1 if there is none."""
    for row in rows(state):
        if state.pulls[row] == 0.0:
            return row
    return -1


def untried(state: State) -> int:
    """The first arm without a pull, or the first whose cost so far is 0; -1 if there is none."""
    channels, first = len(state.remaining) + 1, unpulled(state)
    if first >= 0:
        return first
    for row in rows(state):
        if state.totals[row * channels] <= 0.0:
            return row
    return -1


def log_term(scale: float, arms: int, resources: int, budget: float) -> float:
    """Gamma of :func:`knapsack_radius`: ``scale`` * max(log(arms * resources * budget), 1)."""
    return scale * max(math.log(arms * resources * budget), 1.0)


def knapsack_radius(mean: float, pulls: float, gamma: float) -> float:
    """sqrt(gamma mean / pulls) + gamma / pulls (Kleinberg, Slivkins and Upfal, STOC 2008)."""
    return math.sqrt(gamma * mean / pulls) + gamma / pulls


def if_unknown(state: State, at: int, width: float) -> float:
    """The ``width`` of the outcome at ``at`` [K, C] of the state; 0 if the outcome is known."""
    return 0.0 if state.known[at] >= 0.0 else width


def rate_radius(state: State, row: int, channel: int, gamma: float) -> float:
    """The radius of an arm's mean in a channel over its cost, to first order as in eqn:ly-index."""
    pulls, first = state.pulls[row], row * (len(state.remaining) + 1)
    mean, cost = state.totals[first + channel] / pulls, state.totals[first] / pulls
    above = if_unknown(state, first + channel, knapsack_radius(mean, pulls, gamma))
    below = if_unknown(state, first, knapsack_radius(cost, pulls, gamma))
    return (above + below * mean / cost) / cost  # type: ignore[no-any-return]


def spread(pulls: float, total: float, squares: float) -> float:
    """Eta in [0, 1]: the empirical variance / that of a Bernoulli variable with the same mean.

    It is 1 for zeros and ones, and also for fewer than 30 pulls or a mean of 0 or 1.
    """
    mean = total / pulls
    coin = mean * (1.0 - mean)
    if pulls < FEW or coin <= 0.0:
        return 1.0
    return min(max((squares / pulls - mean * mean) / coin, 0.0), 1.0)


def mean_and_width(
    state: State, pulls: float, at: int, squared: float, estimated: bool
) -> tuple[float, float]:
    """The mean and eta z^2 of the channel whose total is ``state.totals[at]``; eta may be 1."""
    total = state.totals[at]
    eta = spread(pulls, total, state.squares[at]) if estimated else 1.0
    return total / pulls, if_unknown(state, at, eta * squared)


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


def kl_high(mean: float, width: float) -> float:
    """The largest q with kl(mean, q) <= ``width``, the relative entropy of Bernoulli variables.

    By Newton's method from above: kl is convex in q, so no step passes the root. It starts at the
    smaller of two upper bounds: Pinsker's, mean + sqrt(width / 2), and the q at which
    -entropy(mean) - (1 - mean) log(1 - q), which is at most kl, equals ``width``.
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
    """The smallest q with kl(mean, q) <= ``width``, by Newton's method from below.

    If the mean is above 0, so is the bound: at least ``LEAST``, or the mean if that is smaller.
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
    """(kl(mean, at) - width) / its slope; ``wanted`` is the width + the entropy of the mean."""
    cross = -mean * math.log(at) - (1.0 - mean) * math.log(1.0 - at)
    return (cross - wanted) * at * (1.0 - at) / (at - mean)
