"""What ``resolve`` believes about every arm's mean outcomes, and draws from these beliefs.

A belief about a mean is a *scale* and a *width*, two numbers that :func:`sampled` turns into a
draw. It comes from sums of the outcomes and of their squares, and a prior worth two pulls. Nothing
in it depends on the declared largest outcome once an outcome other than 0 has been seen:

- *Size.* The prior's outcomes are 0 and the usual size u of the arm's outcomes other than 0, their
  average weighted by size, (sum of V^2) / (sum of V). While an arm has shown only zeros, u is that
  of all arms together. For outcomes that are 0 or 1, u = 1.
- *Two priors for a penalty.* Where its limit c allows fewer penalties than one in ``RARE`` pulls, a
  penalty is believed to be either *common*, with the prior Beta(1, 1) on its frequency, or *rare*,
  with Beta(1, N - 1), N = u / (c x) and x the arm's mean cost: as frequent as the limit allows. The
  odds start even and follow Bayes' rule. A draw takes the rare belief with its probability.

``docs/resolve.md`` derives the formulas. Everything is in normalised units.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Annotated, Any, NamedTuple

import numpy as np

from tightrope.policies.base import Constants, net_penalty
from tightrope.policies.choice import hashed
from tightrope.policies.state import Array, State

__all__ = ["COIN", "EXPECTED", "KAPPA", "LEAST_COST", "Arms", "believe", "draw", "learn", "mean_of"]

# Places in the policy's constants.
KAPPA = 1  # deviations by which a cautious rate is higher than the expected one
LEAST_COST = 2  # a lower bound on every mean cost
EXPECTED = 3  # the place of K (2 + M) expected mean outcomes, -1 where unknown; 0: there are none

BITS = 10  # of a random word, for one normal number
CELLS = 1 << BITS
DRAWS = 3  # normal numbers from one word of 32 bits
COIN = 2.0**-32  # turns a word into a number in [0, 1)
WHETHER_RARE, OF_RARE = 0x5BD1E995, 0x1B873593  # make two more random words of one

PRIOR = 2.0  # pulls that a prior is worth
FLOOR = 0.02  # a drawn cost is at least this part of its expectation
RARE = 4.0  # pulls per allowed penalty from which a penalty may be rare
RAREST = 1e9  # of the same: guards logarithms against limits that allow nothing
LEAST_SIZE = 1e-9  # of the largest outcome: guards squares against rounding to 0
LEAST_VARIANCE = 1e-12  # of a squared size: guards a quotient against rounding
LEAST_BASE = 1e-6  # the least distance of a mean from 1: the same
CERTAIN = 1e15  # the cost behind a belief that nothing can change


def _normals() -> Any:
    """CELLS equally likely normal numbers, in order, with mean 0 and variance 1."""
    quantile = NormalDist().inv_cdf
    numbers = np.array([quantile((cell + 0.5) / CELLS) for cell in range(CELLS)])
    return numbers / numbers.std()


NORMAL = _normals()


class Arms(NamedTuple):
    """Beliefs about every arm, and what was drawn from them."""

    limits: Annotated[Array, "M"]  # c_m
    bases: Annotated[Array, "M"]  # what each limit is per, see ``State``
    shared: Annotated[Array, "M"]  # 1 for a penalty that is a share of the cost, 2 of the reward
    weights: Annotated[Array, "K", "M"]  # its arms' weights
    pooled: Annotated[Array, "C"]  # the usual size of an outcome other than 0, over all arms
    cost_scale: Annotated[Array, "K"]
    cost_width: Annotated[Array, "K"]
    reward_scale: Annotated[Array, "K"]
    reward_width: Annotated[Array, "K"]
    penalty_scale: Annotated[Array, "K", "M"]  # if common
    penalty_width: Annotated[Array, "K", "M"]
    rare: Annotated[Array, "K", "M"]  # the probability that the penalty is rare
    rare_scale: Annotated[Array, "K", "M"]
    rare_width: Annotated[Array, "K", "M"]
    any_rare: Annotated[Array, 1]  # 0 as long as every ``rare`` has been 0
    size: Annotated[Array, "K", "M"]  # the usual size of a penalty other than 0
    known: Annotated[Array, "K", "M"]  # the cost behind the belief, the prior's included
    rate: Annotated[Array, "K", "M"]  # expected net penalty rate
    spread: Annotated[Array, "K", "M"]  # variance of the net penalty - rate X, per unit of cost
    cautious: Annotated[Array, "K", "M"]  # net penalty rate, the higher the less is known
    cost: Annotated[Array, "K"]  # drawn mean
    reward: Annotated[Array, "K"]  # drawn rate
    penalty: Annotated[Array, "K", "M"]  # drawn net rates


# From outcomes to beliefs.


def believe(constants: Constants, state: State, arms: Arms) -> None:
    """Compute the beliefs about all arms."""
    _pool(state, arms)
    for arm in range(len(state.pulls)):
        _renew(constants, state, arms, arm)


def learn(constants: Constants, state: State, arms: Arms, arm: int) -> None:
    """Compute the beliefs about the arm just pulled; those about all at steps 1, 2, 4, 8, ..."""
    steps = int(state.steps[0])
    if steps & (steps - 1) == 0:
        believe(constants, state, arms)
    else:
        _renew(constants, state, arms, arm)


def mean_of(scale: float) -> float:
    """The expectation of a mean."""
    return scale if scale > 0.0 else 1.0 + scale


def _pool(state: State, arms: Arms) -> None:
    """Compute the usual size of each channel's outcomes over all arms; 1 if all were 0."""
    channels = len(arms.pooled)
    for channel in range(channels):
        total = square = 0.0
        for arm in range(len(state.pulls)):
            total += state.totals[arm * channels + channel]
            square += state.squares[arm * channels + channel]
        arms.pooled[channel] = _size(total, square, 1.0)


def _size(total: float, square: float, pooled: float) -> float:
    """The usual size of an outcome other than 0; ``pooled`` if there was none."""
    if total <= 0.0:
        return pooled
    return 1.0 if square == total else max(square / total, LEAST_SIZE)


def _renew(constants: Constants, state: State, arms: Arms, arm: int) -> None:
    """Compute the beliefs about an arm."""
    pulls, first = state.pulls[arm], arm * len(arms.pooled)
    cost, square = state.totals[first], state.squares[first]
    usual = _size(cost, square, arms.pooled[0])
    expected = _expected(constants, arms, arm, 0)
    scale, width = _belief(pulls, PRIOR, cost, square, usual, expected)
    if state.known[first] >= 0.0:
        scale, width = _certain(state.known[first])
    arms.cost_scale[arm], arms.cost_width[arm] = scale, width
    reward, square = state.totals[first + 1], state.squares[first + 1]
    usual = _size(reward, square, arms.pooled[1])
    expected = _expected(constants, arms, arm, 1)
    scale, width = _belief(pulls, PRIOR, reward, square, usual, expected)
    if state.known[first + 1] >= 0.0:
        scale, width = _certain(state.known[first + 1])
    arms.reward_scale[arm], arms.reward_width[arm] = scale, width
    for m in range(len(arms.limits)):
        _renew_penalty(constants, state, arms, arm, m)


def _renew_penalty(constants: Constants, state: State, arms: Arms, arm: int, m: int) -> None:
    """Compute the beliefs about one of an arm's penalties."""
    first, at = arm * len(arms.pooled), arm * len(arms.limits) + m
    pulls, cost, total = state.pulls[arm], state.totals[first], state.totals[first + 2 + m]
    square, mean_cost = state.squares[first + 2 + m], mean_of(arms.cost_scale[arm])
    size = _size(total, square, arms.pooled[2 + m])
    expected = _expected(constants, arms, arm, 2 + m)
    scale, width = _belief(pulls, PRIOR, total, square, size, expected)
    mean, given = mean_of(scale), _given(state, arms, arm, m)
    if given >= 0.0:
        mean = given
        scale, width = _certain(given)
    arms.penalty_scale[at], arms.penalty_width[at], arms.size[at] = scale, width, size
    rare, prior_cost = 0.0, arms.pooled[0]
    base, limit, reward = arms.bases[m], arms.limits[m], mean_of(arms.reward_scale[arm])
    per_pull = mean_cost if base == 0.0 else base if base > 0.0 else -base * reward
    allowed = limit * per_pull  # penalty per pull
    if size > RARE * allowed and expected < 0.0 and given < 0.0:
        prior = min(size / max(allowed, size / RAREST), RAREST)
        rare = _chance_of_rare(pulls, total / size, prior)
        scale, width = _belief(pulls, prior, total, square, size, expected)
        arms.rare_scale[at], arms.rare_width[at], arms.any_rare[0] = scale, width, 1.0
        mean += rare * (mean_of(scale) - mean)
        prior_cost += rare * (prior * mean_cost - prior_cost)
    net = net_penalty(base, limit, 1.0, mean_cost, reward, mean)
    rate, known = net / mean_cost, cost + prior_cost
    taken = 0.0 if base == 0.0 else limit * per_pull  # of every pull's penalty
    slope = rate if base == 0.0 else rate - limit
    squares = state.net_squares[at] + size * size + taken * (taken - size)
    squares += slope * slope * (state.squares[first] + arms.pooled[0] * arms.pooled[0])
    squares -= 2.0 * slope * (state.products[at] + (0.5 * size - taken) * arms.pooled[0])
    spread = squares / known
    if given >= 0.0 and _is_certain(state, arms, arm, m):  # no noise, nothing to learn
        known, spread, arms.size[at] = CERTAIN, 1.0 / CERTAIN, given
    arms.rare[at], arms.rate[at], arms.spread[at], arms.known[at] = rare, rate, spread, known
    arms.cautious[at] = rate + constants[KAPPA] * math.sqrt(spread / known)


def _certain(mean: float) -> tuple[float, float]:
    """The belief about a mean that is known."""
    return (max(mean, LEAST_SIZE) if mean <= 0.5 else -max(1.0 - mean, 0.0)), 0.0


def _given(state: State, arms: Arms, arm: int, m: int) -> float:
    """A mean penalty that is known, or a share of the mean cost or reward; -1 if it is learned."""
    limited = len(arms.limits)
    weight = state.weights[arm * limited + m]
    if weight < 0.0:
        return state.known[arm * (2 + limited) + 2 + m]  # type: ignore[no-any-return]
    source = arms.cost_scale[arm] if state.sources[m] == 0.0 else arms.reward_scale[arm]
    return weight * mean_of(source)  # type: ignore[no-any-return]


def _is_certain(state: State, arms: Arms, arm: int, m: int) -> bool:
    """Whether nothing is left to learn about the rate of a net penalty that is given."""
    limited, first = len(arms.limits), arm * len(arms.pooled)
    base, derived = arms.bases[m], state.weights[arm * limited + m] >= 0.0
    if derived and base == 0.0 and state.sources[m] == 0.0:
        return True  # a share of the cost, per unit of cost
    needs_reward = base < 0.0 or (derived and state.sources[m] == 1.0)
    if needs_reward and state.known[first + 1] < 0.0:
        return False
    return state.known[first] >= 0.0  # type: ignore[no-any-return]


def _expected(constants: Constants, arms: Arms, arm: int, channel: int) -> float:
    """The declared guess of a mean outcome; -1 if there is none."""
    first = int(constants[EXPECTED])
    return constants[first + arm * len(arms.pooled) + channel] if first > 0 else -1.0


def _belief(
    pulls: float, prior: float, total: float, square: float, size: float, expected: float
) -> tuple[float, float]:
    """The belief about a mean, as scale and width; both are negative where it is nearer to 1.

    The prior is worth ``prior`` pulls, of which one had an outcome of ``size`` and the others 0; if
    a mean is ``expected``, two pulls with that mean. Where all outcomes are 0 or 1, mean and
    variance are those of Beta(1 + total, prior - 1 + pulls - total); elsewhere the variance is the
    empirical one. The shape is a gamma law's, seen from the nearer end of [0, 1], by its cube root,
    which is nearly normal (Wilson and Hilferty).
    """
    weight = pulls + prior
    mean = (total + size) / weight
    second = mean if square == total and size == 1.0 else (square + size * size) / weight
    if expected >= 0.0:
        high = min(2.0 * expected, 1.0)  # the other is 0, or what is left to 2 expected
        low = 2.0 * expected - high
        mean = (total + high + low) / weight
        second = (square + high * high + low * low) / weight
    variance = max(second - mean * mean, LEAST_VARIANCE * size * size) / (weight + 1.0)
    near = mean <= 0.5
    base = max(mean, LEAST_SIZE) if near else max(1.0 - mean, LEAST_BASE)
    width = math.sqrt(variance) / (3.0 * base)
    return (base if near else -base), (width if near else -width)


def _chance_of_rare(pulls: float, events: float, prior: float) -> float:
    """The probability that a penalty is rare, after so many events; the odds start even.

    Events of a frequency with the prior Beta(1, N - 1) have the likelihood
    (N - 1) Gamma(1 + e) Gamma(N - 1 + n - e) / Gamma(N + n); N = 2 if common, ``prior`` if rare.
    """
    without, after = max(pulls - events, 0.0), events + 1.0
    odds = math.log(prior - 1.0) + _log_rising(without + 1.0, after)
    odds -= _log_rising(without + prior - 1.0, after)
    return 1.0 / (1.0 + math.exp(-min(max(odds, -50.0), 50.0)))


def _log_rising(start: float, count: float) -> float:
    """log(Gamma(start + count) / Gamma(start)), by Stirling's series; start of at least 1."""
    end = start + count
    series = (1.0 / end - 1.0 / start) / 12.0
    return (start - 0.5) * math.log1p(count / start) + count * (math.log(end) - 1.0) + series


# From beliefs to draws.


def draw(constants: Constants, arms: Arms, word: int, noise: float) -> None:
    """Draw every arm's means, and from them its rates; ``noise`` multiplies the normal numbers.

    A loop for each channel, so that the compiler makes vectors of them: for 50 arms a step takes
    0.53 us in place of 0.90. A random word serves ``DRAWS`` channels of an arm.
    """
    limited, count = len(arms.limits), len(arms.cost)
    words = (1 + limited) // DRAWS + 1  # per arm
    for arm in range(count):
        scale = arms.cost_scale[arm]
        drawn = _sampled(scale, arms.cost_width[arm], noise, hashed(word, arm * words))
        arms.cost[arm] = max(drawn, max(FLOOR * mean_of(scale), constants[LEAST_COST]))
    for arm in range(count):
        random = hashed(word, arm * words) >> BITS
        drawn = _sampled(arms.reward_scale[arm], arms.reward_width[arm], noise, random)
        arms.reward[arm] = drawn / arms.cost[arm]
    if limited == 1:
        for arm in range(count):
            random = hashed(word, arm * words) >> (2 * BITS)
            drawn = _sampled(arms.penalty_scale[arm], arms.penalty_width[arm], noise, random)
            arms.penalty[arm] = drawn / arms.cost[arm]
    else:
        for at in range(count * limited):
            arm, channel = at // limited, 2 + at % limited
            random = hashed(word, arm * words + channel // DRAWS) >> (channel % DRAWS * BITS)
            drawn = _sampled(arms.penalty_scale[at], arms.penalty_width[at], noise, random)
            arms.penalty[at] = drawn / arms.cost[arm]
    if arms.any_rare[0] > 0.0:
        _draw_rare(arms, word, noise)
    for m in range(limited):
        if arms.shared[m] > 0.0:
            _draw_share(arms, m)
        if arms.bases[m] != 0.0:
            _draw_net(arms, m)


def _draw_share(arms: Arms, m: int) -> None:
    """The rates of a penalty that is a share of the cost (1) or of the reward (2)."""
    limited = len(arms.limits)
    for arm in range(len(arms.cost)):
        rate = 1.0 if arms.shared[m] == 1.0 else arms.reward[arm]
        arms.penalty[arm * limited + m] = arms.weights[arm * limited + m] * rate


def _draw_net(arms: Arms, m: int) -> None:
    """Turn the drawn rates of a penalty into those of its net penalty Y - c (base - X)."""
    limited, limit, base = len(arms.limits), arms.limits[m], arms.bases[m]
    for arm in range(len(arms.cost)):
        per_cost = base / arms.cost[arm] if base > 0.0 else -base * arms.reward[arm]
        arms.penalty[arm * limited + m] -= limit * (per_cost - 1.0)


def _draw_rare(arms: Arms, word: int, noise: float) -> None:
    """Draw again, from the rare belief, each penalty that is found to be rare this time."""
    limited = len(arms.limits)
    for at in range(len(arms.rare)):
        if hashed(word ^ WHETHER_RARE, at) * COIN < arms.rare[at]:
            random = hashed(word ^ OF_RARE, at)
            drawn = _sampled(arms.rare_scale[at], arms.rare_width[at], noise, random)
            arms.penalty[at] = drawn / arms.cost[at // limited]


def _sampled(scale: float, width: float, noise: float, random: int) -> float:
    """A draw of a mean, in [0, 1], by the last ``BITS`` of a random word."""
    normal = noise * NORMAL[random & (CELLS - 1)]
    root = max((1.0 - width * width) + width * normal, 0.0)
    drawn: float = (0.0 if scale > 0.0 else 1.0) + scale * root * root * root
    return min(max(drawn, 0.0), 1.0)
