"""The beliefs of ``resolve`` about every arm's mean outcomes, and draws from them.

A belief about a mean is a *scale* and a *width*, two numbers that :func:`sampled` turns into a
draw. It comes from sums of the outcomes and of their squares, and a prior worth two pulls. Once an
outcome other than 0 has been observed, it does not depend on the declared largest outcome:

- *Size.* The prior's outcomes are 0 and the usual size u of the arm's outcomes other than 0, their
  average weighted by size, (sum of V^2) / (sum of V). While an arm has shown only zeros, u is that
  of all arms together. For outcomes that are 0 or 1, u = 1. A guess of a mean counts as two
  outcomes, so an arm without pulls has the size of its guess.
- *Two priors for a penalty.* If its limit c allows fewer penalties than one in ``RARE`` pulls, a
  penalty is either *common*, with the prior Beta(1, 1) on its frequency, or *rare*, with Beta(1, N
  - 1), N = u / (c x) and x the arm's mean cost: as frequent as the limit allows. The odds start
  even and follow Bayes' rule. A draw uses the rare belief with its posterior probability.

``docs/resolve-algorithm.md`` derives the formulas. Everything is in normalised units.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Annotated, Any, NamedTuple

import numpy as np

from tightrope.policies.base import Constants, net_penalty
from tightrope.policies.choice import hashed
from tightrope.policies.state import Array, State, rows

# Places in the policy's constants.
KAPPA = 1  # deviations by which a cautious rate is higher than the expected one
LEAST_COST = 2  # a lower bound on every mean cost

BITS = 10  # of a random word, for one normal number
CELLS = 1 << BITS
DRAWS = 3  # normal numbers from one word of 32 bits
COIN = 2.0**-32  # turns a word into a number in [0, 1)
WHETHER_RARE, OF_RARE = 0x5BD1E995, 0x1B873593  # derive two more random words from one

PRIOR = 2.0  # pulls that a prior is worth
FLOOR = 0.02  # a drawn cost is at least this part of its expectation
RARE = 4.0  # pulls per allowed penalty from which a penalty may be rare
RAREST = 1e9  # of the same: guards logarithms against limits that allow nothing
LEAST_SIZE = 1e-9  # of the largest outcome: guards squares against rounding to 0
LEAST_VARIANCE = 1e-12  # of a squared size: guards a quotient against rounding
LEAST_BASE = 1e-6  # the least distance of a mean from 1: the same
CERTAIN = 1e15  # the cost behind a belief that nothing can change
NOTHING = -1.0  # if a mean is neither expected nor known
NOT_NEGATIVE = 0x7FFFFFFF  # numba need not check whether a number with these bits is below 0


def _normals() -> Any:
    """CELLS equally likely normal numbers, in order, with mean 0 and variance 1."""
    quantile = NormalDist().inv_cdf
    numbers = np.array([quantile((cell + 0.5) / CELLS) for cell in range(CELLS)])
    return numbers / numbers.std()


NORMAL = _normals()


class Arms(NamedTuple):
    """Beliefs about every arm, and draws from them.

    Every step reads all fields except the last one for every arm.
    """

    any_rare: Annotated[Array, 1]  # whether some penalty may be rare, see below
    any_part: Annotated[Array, 1]  # 0 while every cost was 0 or the largest
    pooled: Annotated[Array, "C"]  # the usual size of an outcome other than 0, over all arms
    cost_scale: Annotated[Array, "K"]
    cost_width: Annotated[Array, "K"]
    reward_scale: Annotated[Array, "K"]
    reward_width: Annotated[Array, "K"]
    penalty_scale: Annotated[Array, "K", "M"]  # if common
    penalty_width: Annotated[Array, "K", "M"]
    rate: Annotated[Array, "K", "M"]  # expected net penalty rate
    spread: Annotated[Array, "K", "M"]  # variance of the net penalty - rate X, per unit of cost
    cautious: Annotated[Array, "K", "M"]  # net penalty rate, higher with more uncertainty
    cost: Annotated[Array, "K"]  # drawn mean
    reward: Annotated[Array, "K"]  # drawn rate
    penalty: Annotated[Array, "K", "M"]  # drawn net rates
    more: Annotated[Array, "K", "M", 5]  # more about a penalty, see below


# Places in a row of ``more``.
SIZE = 0  # the usual size of a penalty other than 0
KNOWN = 1  # the cost behind the belief, the prior's included
CHANCE, SCALE, WIDTH = 2, 3, 4  # the probability that the penalty is rare; the belief if it is
MORE = 5

# ``any_rare`` is 0 while no penalty can be rare, 1 if some may be, and -K if none could be at the
# last draw for K arms. After an arm joins, -K no longer matches their number.
MAYBE = 1.0


# From outcomes to beliefs.


def believe(constants: Constants, state: State, arms: Arms) -> None:
    """Compute the beliefs about all arms."""
    limited = len(state.limits)
    look_at_all(state, arms, limited)
    for row in rows(state):
        renew(constants, state, arms, row, limited)


def learn(constants: Constants, state: State, arms: Arms, row: int, limited: int) -> None:
    """Compute the beliefs about the arm just pulled, or about all arms at steps 1, 2, 4, 8, ..."""
    steps = int(state.steps[0])
    everyone = steps & (steps - 1) == 0
    if everyone:
        look_at_all(state, arms, limited)
    for turn in range(len(rows(state)) if everyone else 1):  # numba inlines every call
        one = turn if everyone else row
        renew(constants, state, arms, one & NOT_NEGATIVE, limited)


def mean_of(scale: float) -> float:
    """The expectation of a mean."""
    return scale if scale > 0.0 else 1.0 + scale


def look_at_all(state: State, arms: Arms, limited: int) -> None:
    """Compute the usual size of each channel's outcomes over all arms; 1 if all were 0."""
    channels = 2 + limited
    for channel in range(channels):
        total = square = 0.0
        for row in rows(state):
            total += state.totals[row * channels + channel]
            square += state.squares[row * channels + channel]
        arms.pooled[channel] = size_of_sums(total, square, 1.0)


def size_of_sums(total: float, square: float, pooled: float) -> float:
    """The usual size of an outcome other than 0; ``pooled`` if there was none."""
    if total <= 0.0:
        return pooled
    return 1.0 if square == total else max(square / total, LEAST_SIZE)


def renew(constants: Constants, state: State, arms: Arms, row: int, limited: int) -> None:
    """Compute the beliefs about an arm."""
    first, stated = row * (2 + limited), state.stated[0] > 0.0
    if state.totals[first] != state.squares[first]:
        arms.any_part[0] = 1.0
    cost, width = _renewed(state, arms, row, first, 0, stated)
    arms.cost_scale[row], arms.cost_width[row] = cost, width
    reward, width = _renewed(state, arms, row, first, 1, stated)
    arms.reward_scale[row], arms.reward_width[row] = reward, width
    for m in range(limited):
        _renew_penalty(
            constants, state, arms, row, m, limited, mean_of(cost), mean_of(reward), stated
        )


def _renewed(
    state: State, arms: Arms, row: int, first: int, channel: int, stated: bool
) -> tuple[float, float]:
    """The belief about an arm's mean cost or reward."""
    at, expected = first + channel, NOTHING
    if stated:
        if state.known[at] >= 0.0:
            return certain(state.known[at])
        expected = state.expected[at]
        if channel == 0 and expected < 0.0:
            expected = _cost_beside_guesses(state, row)
    total, square, pooled = state.totals[at], state.squares[at], arms.pooled[channel]
    scale, width, _ = _usual_belief(state.pulls[row], total, square, pooled, expected)
    return scale, width


def _cost_beside_guesses(state: State, row: int) -> float:
    """The mean cost of all pulls, for an arm with guesses but no guess of its cost; otherwise -1.

    A guess of a penalty or reward is then also a guess of its rate.
    """
    channels, guess = len(state.remaining) + 1, NOTHING
    for channel in range(1, channels):
        guess = max(guess, state.expected[row * channels + channel])
    pulls = total = 0.0
    if guess >= 0.0:
        for other in rows(state):
            pulls += state.pulls[other]
            total += state.totals[other * channels]
    return total / pulls if pulls > 0.0 else NOTHING


def _renew_penalty(
    constants: Constants,
    state: State,
    arms: Arms,
    row: int,
    m: int,
    limited: int,
    mean_cost: float,
    reward: float,
    stated: bool,
) -> None:
    """Compute the beliefs about one of an arm's penalties."""
    first, at = row * (2 + limited), row * limited + m
    pulls, cost, total = state.pulls[row], state.totals[first], state.totals[first + 2 + m]
    square, pooled, usual_cost = state.squares[first + 2 + m], arms.pooled[2 + m], arms.pooled[0]
    expected = given = NOTHING
    if stated:
        expected = state.expected[first + 2 + m]
        given = given_penalty(state, row, m, limited, mean_cost, reward)
    scale, width, size = _usual_belief(pulls, total, square, pooled, expected)
    mean = mean_of(scale)
    if given >= 0.0:
        mean = given
        scale, width = certain(given)
    arms.penalty_scale[at], arms.penalty_width[at] = scale, width
    base, limit, place = state.bases[m], state.limits[m], MORE * at
    rare, prior_cost = 0.0, usual_cost
    per_pull = mean_cost if base == 0.0 else base if base > 0.0 else -base * reward
    allowed = limit * per_pull  # penalty per pull
    if size > RARE * allowed and expected < 0.0 and given < 0.0:
        prior = min(size / max(allowed, size / RAREST), RAREST)
        rare = _chance_of_rare(pulls, total / size, prior)
        scale, width = _belief(pulls, prior, total, square, size, NOTHING)
        arms.more[place + SCALE], arms.more[place + WIDTH], arms.any_rare[0] = scale, width, MAYBE
        mean += rare * (mean_of(scale) - mean)
        prior_cost += rare * (prior * mean_cost - prior_cost)
    net, known = mean, cost + prior_cost
    if base != 0.0:
        net = net_penalty(base, limit, 1.0, mean_cost, reward, mean)
    rate = net / mean_cost
    taken = 0.0 if base == 0.0 else allowed  # of every pull's penalty
    slope = rate if base == 0.0 else rate - limit
    squares = state.net_squares[at] + size * size + taken * (taken - size)
    squares += slope * slope * (state.squares[first] + usual_cost * usual_cost)
    squares -= 2.0 * slope * (state.products[at] + (0.5 * size - taken) * usual_cost)
    each = 1.0 / known
    spread = squares * each
    if given >= 0.0 and _is_certain(state, row, m, limited):  # no noise, nothing to learn
        known, each, spread, size = CERTAIN, 1.0 / CERTAIN, 1.0 / CERTAIN, given
    arms.rate[at], arms.spread[at], arms.more[place + CHANCE] = rate, spread, rare
    arms.more[place + SIZE], arms.more[place + KNOWN] = size, known
    arms.cautious[at] = rate + constants[KAPPA] * math.sqrt(spread * each)


def certain(mean: float) -> tuple[float, float]:
    """The belief about a mean that is known."""
    return (max(mean, LEAST_SIZE) if mean <= 0.5 else -max(1.0 - mean, 0.0)), 0.0


def given_penalty(
    state: State, row: int, m: int, limited: int, mean_cost: float, reward: float
) -> float:
    """A mean penalty that is known, or a share of the mean cost or reward; -1 if it is learned."""
    weight = state.weights[row * limited + m]
    if weight < 0.0:
        return state.known[row * (2 + limited) + 2 + m]  # type: ignore[no-any-return]
    return weight * (mean_cost if state.sources[m] == 0.0 else reward)  # type: ignore[no-any-return]


def _is_certain(state: State, row: int, m: int, limited: int) -> bool:
    """Whether the rate of a net penalty is fully known."""
    first, base = row * (2 + limited), state.bases[m]
    derived = state.weights[row * limited + m] >= 0.0
    if derived and base == 0.0 and state.sources[m] == 0.0:
        return True  # a share of the cost, per unit of cost
    needs_reward = base < 0.0 or (derived and state.sources[m] == 1.0)
    if needs_reward and state.known[first + 1] < 0.0:
        return False
    return state.known[first] >= 0.0  # type: ignore[no-any-return]


def _usual_belief(
    pulls: float, total: float, square: float, pooled: float, expected: float
) -> tuple[float, float, float]:
    """The belief about a mean with a prior of ``PRIOR`` pulls, and the usual size.

    If all outcomes are 0 or 1, which is common, it needs fewer operations for the same numbers.
    """
    weight = pulls + PRIOR
    each = 1.0 / weight
    if square == total and total > 0.0 and expected < 0.0:
        size = 1.0
        mean = (total + 1.0) * each
        second = mean
    else:
        size = size_of_sums(total, square, pooled)
        if expected > 0.0:
            high, low = _guessed(expected)
            size = max((square + high * high + low * low) / (total + high + low), LEAST_SIZE)
        mean, second = _moments(each, total, square, size, expected)
    scale, width = shape_of(weight, mean, second, size)
    return scale, width, size


def _belief(
    pulls: float, prior: float, total: float, square: float, size: float, expected: float
) -> tuple[float, float]:
    """The belief about a mean, as scale and width; both are negative if it is nearer to 1.

    The prior is worth ``prior`` pulls: one with an outcome of ``size`` and the others with 0. If a
    mean is ``expected``, it is worth two pulls with that mean. If all outcomes are 0 or 1, mean and
    variance are those of Beta(1 + total, prior - 1 + pulls - total); otherwise the variance is
    empirical.
    """
    weight = pulls + prior
    mean, second = _moments(1.0 / weight, total, square, size, expected)
    return shape_of(weight, mean, second, size)


def _moments(
    each: float, total: float, square: float, size: float, expected: float
) -> tuple[float, float]:
    """The expectations of a mean and of a squared outcome, if a pull has the weight ``each``."""
    if expected >= 0.0:
        high, low = _guessed(expected)
        return (total + high + low) * each, (square + high * high + low * low) * each
    mean = (total + size) * each
    return mean, (mean if square == total and size == 1.0 else (square + size * size) * each)


def _guessed(expected: float) -> tuple[float, float]:
    """The outcomes of the two pulls that a guess of a mean is worth: 0 and twice the mean.

    If twice the mean is too large: the largest outcome and the rest.
    """
    high = min(2.0 * expected, 1.0)
    return high, 2.0 * expected - high


def shape_of(weight: float, mean: float, second: float, size: float) -> tuple[float, float]:
    """Scale and width of a belief with these moments of an outcome."""
    variance = max(second - mean * mean, LEAST_VARIANCE * size * size) * (1.0 / (weight + 1.0))
    return shape_with(variance, mean)


def shape_with(variance: float, mean: float) -> tuple[float, float]:
    """Scale and width of a belief with this variance.

    The shape is a gamma distribution's, seen from the nearer end of [0, 1], by its cube root, which
    is nearly normal (Wilson and Hilferty).
    """
    least = LEAST_SIZE if mean <= 0.5 else LEAST_BASE
    base = max(min(mean, 1.0 - mean), least)  # without a branch, which would often be mispredicted
    scale = math.copysign(base, 0.5 - mean)
    return scale, math.sqrt(variance) * (1.0 / (3.0 * scale))


def _chance_of_rare(pulls: float, events: float, prior: float) -> float:
    """The probability that a penalty is rare, after some events; the odds start even.

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


def draw_for_one(constants: Constants, state: State, arms: Arms, word: int, noise: float) -> None:
    """Draw every arm's means under one limit; ``noise`` multiplies the normal numbers.

    A random word serves ``DRAWS`` channels of an arm. One loop over the arms with one hash for each
    is faster than a loop for each channel, which compilers turn into vectors: for 50 arms a step
    takes 0.64 us in place of 0.69 (AVX-512, where reading a table at 8 places takes long).
    """
    for arm in range(len(arms.cost)):
        random = hashed(word, arm)
        cost = _draw_cost(constants, arms, arm, noise, random)
        reward = _sampled(arms.reward_scale[arm], arms.reward_width[arm], noise, random >> BITS)
        scale, width = arms.penalty_scale[arm], arms.penalty_width[arm]
        penalty = _sampled(scale, width, noise, random >> (2 * BITS))
        each = 1.0 / cost  # one quotient: they take most of a step's time
        arms.cost[arm], arms.reward[arm], arms.penalty[arm] = cost, reward * each, penalty * each
    _draw_others(state, arms, word, noise, 1, 0, len(arms.cost))


def draw_for_many(
    constants: Constants,
    state: State,
    arms: Arms,
    word: int,
    noise: float,
    limited: int,
    first: int,
    last: int,
) -> None:
    """The same, under any number of limits, of the arms from ``first`` to before ``last``."""
    words = (1 + limited) // DRAWS + 1  # per arm
    for arm in range(first, last):
        random = hashed(word, arm * words)
        cost = _draw_cost(constants, arms, arm, noise, random)
        reward = _sampled(arms.reward_scale[arm], arms.reward_width[arm], noise, random >> BITS)
        each = 1.0 / cost
        arms.cost[arm], arms.reward[arm] = cost, reward * each
        for m in range(limited):
            at, channel = arm * limited + m, 2 + m
            random = hashed(word, arm * words + channel // DRAWS) >> (channel % DRAWS * BITS)
            drawn = _sampled(arms.penalty_scale[at], arms.penalty_width[at], noise, random)
            arms.penalty[at] = drawn * each
    _draw_others(state, arms, word, noise, limited, first, last)


def _draw_cost(constants: Constants, arms: Arms, arm: int, noise: float, random: int) -> float:
    """A mean cost, not below its least."""
    scale = arms.cost_scale[arm]
    drawn = _sampled(scale, arms.cost_width[arm], noise, random)
    return max(drawn, max(FLOOR * mean_of(scale), constants[LEAST_COST]))


def _draw_others(
    state: State, arms: Arms, word: int, noise: float, limited: int, first: int, last: int
) -> None:
    """Redraw rare penalties and shares of other outcomes; turn penalties into net penalties."""
    if arms.any_rare[0] != 0.0 and arms.any_rare[0] != -len(arms.cost):
        _draw_rare(arms, word, noise, limited)
    for m in range(limited):
        if state.weights[m] >= 0.0:
            _draw_share(state, arms, m, limited, first, last)
        if state.bases[m] != 0.0:
            _draw_net(state, arms, m, limited, first, last)


def _draw_share(state: State, arms: Arms, m: int, limited: int, first: int, last: int) -> None:
    """The rates of a penalty that is a share of the cost or of the reward."""
    for arm in range(first, last):
        rate = 1.0 if state.sources[m] == 0.0 else arms.reward[arm]
        arms.penalty[arm * limited + m] = state.weights[arm * limited + m] * rate


def _draw_net(state: State, arms: Arms, m: int, limited: int, first: int, last: int) -> None:
    """Turn the drawn rates of a penalty into those of its net penalty Y - c (base - X)."""
    limit, base = state.limits[m], state.bases[m]
    for arm in range(first, last):
        per_cost = base / arms.cost[arm] if base > 0.0 else -base * arms.reward[arm]
        arms.penalty[arm * limited + m] -= limit * (per_cost - 1.0)


def _draw_rare(arms: Arms, word: int, noise: float, limited: int) -> None:
    """Redraw, from the rare belief, each penalty that is drawn as rare.

    Records whether any penalty can be rare.
    """
    any_rare = -float(len(arms.cost))
    for at in range(len(arms.cost) * limited):
        row = MORE * at
        chance = arms.more[row + CHANCE]
        if chance > 0.0:
            any_rare = MAYBE
            if hashed(word ^ WHETHER_RARE, at) * COIN < chance:
                random = hashed(word ^ OF_RARE, at)
                drawn = _sampled(arms.more[row + SCALE], arms.more[row + WIDTH], noise, random)
                arms.penalty[at] = drawn / arms.cost[at // limited]
    arms.any_rare[0] = any_rare


def _sampled(scale: float, width: float, noise: float, random: int) -> float:
    """A draw of a mean, in [0, 1], by the last ``BITS`` of a random word."""
    normal = noise * NORMAL[random & (CELLS - 1)]
    root = max((1.0 - width * width) + width * normal, 0.0)
    drawn: float = (0.0 if scale > 0.0 else 1.0) + scale * root * root * root
    return min(max(drawn, 0.0), 1.0)
