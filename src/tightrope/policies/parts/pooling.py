"""What ``resolve`` believes about rows: an arm's mean for each type of request.

The mean of a row leans on a_k f_x, the arm's mean times the type's factor, with a weight of tau
pulls (partial pooling). The factor f_x is the mean of V / a_k over the type's pulls of all arms,
and leans on 1. Both weights are variances within over variances between, estimated from the reports
of all arms by the method of moments, and from a prior of ``PRIOR_RATIO`` worth ``PRIOR_PULLS``
pulls. With types that do not differ, the weights grow, and rows are believed to be their arms.

Letters: T types, K arms, R = T K rows, row = type * K + arm, M limits, C = 2 + M channels.
Everything is in normalised units; ``docs/contexts.md`` derives the formulas.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

from tightrope.policies.base import Constants, net_penalty
from tightrope.policies.parts.beliefs import (
    KAPPA,
    KNOWN,
    MORE,
    SIZE,
    Arms,
    certain,
    draw_for_many,
    given_penalty,
    mean_of,
    shape_with,
    size_of_sums,
)
from tightrope.policies.state import Array, State

ARMS = 3  # the place of K in the policy's constants

# The variance between types over that within, before the reports: of a cost, a penalty or a type's
# factor, and of a reward.
PRIOR_RATIO, PRIOR_REWARD, PRIOR_PULLS = 1.0 / 6.0, 1.0 / 12.0, 20.0
MOST_PULLS = 1e4  # that the arm's mean is worth in a row
GUESS = 1.0  # pulls that the prior of an arm's mean is worth
DECLARED = 2.0  # the same of a declared guess
# Of the variance of a belief, in draws: of the row's own part, and of all of a penalty's. Chosen by
# measurement: types and penalties are explored along with the arms.
OWN, PENALTY = 0.15, 0.2
FEW = 4.0  # pulls of an arm per type: below, a report renews all rows of the arm
OUTLIER = 4.0  # times 1 + its pulls: the most that a row adds to the variance between types
LEAST = 1e-12  # guards quotients


class Pool(NamedTuple):
    """What is known over all types."""

    tau: Annotated[Array, "C"]  # pulls that a_k f_x is worth in a row
    lean: Annotated[Array, "C"]  # pulls that a factor of 1 is worth in a type
    factor: Annotated[Array, "K", "C"]  # of the row's type
    worth: Annotated[Array, "K", "C"]  # of every arm: the sum of its pulls times their factors
    sums: Annotated[Array, "K", "C"]  # of every arm, over types; in its row of the first type
    squares: Annotated[Array, "K", "C"]
    added: Annotated[Array, "K", "C", 3]  # of every row: its part of the arm's three sums
    counted: Annotated[Array, "K"]  # the same of the arm's pulls
    inverse: Annotated[Array, "K", "C"]  # 1 / a_k; 0 if all outcomes were 0
    guess: Annotated[Array, "K", "C", 3]  # of a row with the factor 1, see below
    pulls: Annotated[Array, "K"]
    seen: Annotated[Array, "K"]  # requests of the row's type
    safest: Annotated[Array, "K"]  # the safest row of the row's type
    requests: Annotated[Array, 1]  # of all types
    average: Annotated[Array, 1]  # reward of a pull
    weights: Annotated[Array, "M"]  # of the limits, where an arm is safest for several together


# Places in ``guess``: the expectations of an outcome and of its square, with a prior, and the part
# of an outcome's variance that a_k has.
MEAN, SQUARE, PART = range(3)
GUESSES = 3
SUMS = 3  # of an arm: outcomes, their squares, pulls times factors


def pool_all(constants: Constants, state: State, arms: Arms, pool: Pool, limited: int) -> None:
    """Compute all that is believed, from the totals of the state."""
    count, channels = int(constants[ARMS]), 2 + limited
    types = len(state.pulls) // count
    for m in range(limited):
        if pool.weights[m] == 0.0:
            pool.weights[m] = 1.0 / limited
    for kind in range(types):
        _count_type(state, pool, kind, count)
        if pool.factor[kind * count * channels] == 0.0:
            for at in range(kind * count * channels, (kind + 1) * count * channels):
                pool.factor[at] = 1.0
    for arm in range(count):
        _sum_arm(state, pool, arm, count, types, channels)
    for channel in range(channels):
        total = square = 0.0
        for arm in range(count):
            total += pool.sums[arm * channels + channel]
            square += pool.squares[arm * channels + channel]
        arms.pooled[channel] = size_of_sums(total, square, 1.0)
        if channel == 1:
            pool.average[0] = total / max(pool.requests[0], 1.0)
        _find_leans(state, pool, channel, count, types, channels)
    for arm in range(count):
        _guess_arm(state, arms, pool, arm, limited)
    for kind in range(types):
        _find_factors(state, pool, kind, count, channels)
    for row in range(len(state.pulls)):
        _believe(constants, state, arms, pool, row, row % count, limited)
    draw_for_many(constants, state, arms, 0, 0.0, limited, 0, len(state.pulls))  # what is expected
    for kind in range(types):
        find_safest(state, arms, pool, kind * count, count, limited)


def learn_row(
    constants: Constants, state: State, arms: Arms, pool: Pool, row: int, limited: int
) -> None:
    """Renew what is believed of a row and of others of its arm, after a report.

    Every second report renews one more row in turn, and each report all rows of an arm with few of
    them, whose mean changes fast. Everything is renewed at steps 1, 2, 4, 8, ..., and after every
    256 of them.
    """
    steps, count = int(state.steps[0]), int(constants[ARMS])
    if steps & (steps - 1) == 0 or steps & 255 == 0:
        pool_all(constants, state, arms, pool, limited)
        return
    arm, types, channels = row % count, len(state.pulls) // count, 2 + limited
    _count_type(state, pool, row // count, count)
    _add_row(state, pool, row, arm, channels)
    _guess_arm(state, arms, pool, arm, limited)
    _find_factors(state, pool, row // count, count, channels)
    _believe(constants, state, arms, pool, row, arm, limited)
    find_safest(state, arms, pool, row // count * count, count, limited)
    for turn in range(types if pool.pulls[arm] < FEW * types else steps & 1):
        kind = (steps // 2 + turn) % types
        other = kind * count + arm
        if other != row:
            _believe(constants, state, arms, pool, other, arm, limited)
            find_safest(state, arms, pool, kind * count, count, limited)


def excess_over(state: State, m: int, rate: float) -> float:
    """By how much a net penalty rate exceeds limit m, relative to it.

    It is per unit of cost, also for a limit per reward: a row that has neither penalties nor
    rewards makes up for nothing.
    """
    return rate / state.limits[m] - 1.0  # type: ignore[no-any-return]


def safest_of(
    state: State, rates: Array, weights: Array, first: int, last: int, limited: int
) -> int:
    """The row whose penalty rates [K, M], relative to their limits, are least together."""
    found, least = first, math.inf
    for row in range(first, last):
        above = 0.0
        for m in range(limited):
            above += weights[m] * excess_over(state, m, rates[row * limited + m])
        if above < least:
            found, least = row, above
    return found


def find_safest(state: State, arms: Arms, pool: Any, first: int, count: int, limited: int) -> None:
    """Note the safest row of the type whose rows begin at ``first``."""
    found = safest_of(state, arms.cautious, pool.weights, first, first + count, limited)
    for row in range(first, first + count):
        pool.safest[row] = found


def _find_factors(state: State, pool: Pool, kind: int, count: int, channels: int) -> None:
    """The factors of a type: the mean of V / a_k over its pulls, which leans on 1."""
    for channel in range(channels):
        pulls, total = pool.lean[channel], pool.lean[channel]
        for arm in range(count):
            inverse, row = pool.inverse[arm * channels + channel], kind * count + arm
            if inverse > 0.0:
                pulls += state.pulls[row]
                total += state.totals[row * channels + channel] * inverse
        factor = total / pulls
        for row in range(kind * count, (kind + 1) * count):
            pool.factor[row * channels + channel] = factor


def _count_type(state: State, pool: Pool, kind: int, count: int) -> None:
    total = 0.0
    for row in range(kind * count, (kind + 1) * count):
        total += state.pulls[row]
    pool.requests[0] += total - pool.seen[kind * count]
    for row in range(kind * count, (kind + 1) * count):
        pool.seen[row] = total


def _sum_arm(state: State, pool: Pool, arm: int, count: int, types: int, channels: int) -> None:
    """Sums of an arm's outcomes over the types."""
    pool.pulls[arm] = 0.0
    for at in range(arm * channels, (arm + 1) * channels):
        pool.sums[at] = pool.squares[at] = pool.worth[at] = 0.0
    for row in range(arm, count * types, count):
        pool.counted[row] = 0.0
        for at in range(SUMS * row * channels, SUMS * (row + 1) * channels):
            pool.added[at] = 0.0
        _add_row(state, pool, row, arm, channels)


def _add_row(state: State, pool: Pool, row: int, arm: int, channels: int) -> None:
    """Add to the sums of an arm what is new of one of its rows."""
    pulls, added = state.pulls[row], pool.added
    pool.pulls[arm] += pulls - pool.counted[row]
    pool.counted[row] = pulls
    for channel in range(channels):
        own, at = row * channels + channel, arm * channels + channel
        total, square, worth = state.totals[own], state.squares[own], pulls * pool.factor[own]
        sums = pool.sums[at] + (total - added[SUMS * own])
        worths = pool.worth[at] + (worth - added[SUMS * own + 2])
        pool.sums[at], pool.worth[at] = sums, worths
        pool.squares[at] += square - added[SUMS * own + 1]
        added[SUMS * own], added[SUMS * own + 1], added[SUMS * own + 2] = total, square, worth
        pool.inverse[at] = worths / sums if sums > 0.0 else 0.0


def _guess_arm(state: State, arms: Arms, pool: Pool, arm: int, limited: int) -> None:
    """What is guessed of an arm's rows: its sums, and a prior of few pulls."""
    stated, pulls = state.stated[0] > 0.0, pool.pulls[arm]
    first = arm * (2 + limited)
    for channel in range(2 + limited):
        at, usual, most = first + channel, arms.pooled[channel], 1.0
        if channel >= 2:  # what the limit allows is guessed at most
            most = state.limits[channel - 2] * _per_pull(state, channel - 2, pool.guess, first)
        total, square = pool.sums[at], pool.squares[at]
        wide = size_of_sums(total, square, usual)
        guess, worth = min(0.5 * wide, most), GUESS
        second = guess * wide
        if channel == 1 and pool.average[0] > guess:  # a new arm earns the average, as uncertain
            guess = pool.average[0]
            second = guess * guess + 0.25 * wide * wide
        if stated and state.expected[at] >= 0.0:
            guess, worth = state.expected[at], DECLARED
            second = guess * wide
        weight = pulls + worth
        inverse = 1.0 / (pool.worth[at] + worth)
        pool.guess[GUESSES * at + MEAN] = (total + worth * guess) * inverse
        pool.guess[GUESSES * at + SQUARE] = (square + worth * second) * weight * inverse * inverse
        pool.guess[GUESSES * at + PART] = 1.0 / (weight + 1.0)


def _per_pull(state: State, m: int, guess: Array, first: int) -> float:
    """What limit m is per, for a pull of an arm whose guesses begin at ``first``."""
    base = state.bases[m]
    if base > 0.0:
        return base  # type: ignore[no-any-return]
    if base == 0.0:
        return guess[GUESSES * first + MEAN]  # type: ignore[no-any-return]
    return -base * guess[GUESSES * (first + 1) + MEAN]  # type: ignore[no-any-return]


def _ratio(apart: float, pulls: float, prior: float) -> float:
    """The variance between over that within, with the prior; as pulls that a guess is worth."""
    ratio = (prior * PRIOR_PULLS + max(apart, 0.0)) / (PRIOR_PULLS + pulls)
    return min(1.0 / ratio, MOST_PULLS)


def _find_leans(
    state: State, pool: Pool, channel: int, count: int, types: int, channels: int
) -> None:
    """How many pulls a_k f_x is worth in a row, and 1 in a type's factor, by moments."""
    apart = rows = arms_seen = types_seen = 0.0
    noise = total = 0.0  # of V / a_k, over all pulls
    for arm in range(count):
        inverse = pool.inverse[arm * channels + channel]
        within = _within(state, pool, arm, channel, count, types, channels)
        if inverse > 0.0 and within > 0.0:
            n_arm, mean = pool.pulls[arm], 1.0 / inverse
            for kind in range(types):
                row = kind * count + arm
                n = state.pulls[row]
                if n > 0.0:
                    at = row * channels + channel
                    away = state.totals[at] / n - mean * pool.factor[at]
                    apart += min(n * away * away / within, OUTLIER * (1.0 + n))
                    rows += 1.0
            arms_seen += 1.0
            noise += n_arm * within / (mean * mean)
            total += n_arm
    common = each_type = 0.0
    pulls = 0.0  # of other arms than the one that a type has most of
    for kind in range(types):
        n = ratios = most = 0.0
        for arm in range(count):
            most = max(most, state.pulls[kind * count + arm])
            inverse, row = pool.inverse[arm * channels + channel], kind * count + arm
            if inverse > 0.0:
                n += state.pulls[row]
                ratios += state.totals[row * channels + channel] * inverse
        pulls += max(n - most, 0.0)
        if n > 0.0:
            common += n * (ratios / n - 1.0) * (ratios / n - 1.0)
            each_type += n * n
            types_seen += 1.0
    prior, chance = PRIOR_REWARD if channel == 1 else PRIOR_RATIO, rows - arms_seen - types_seen
    pool.tau[channel] = _ratio(apart - max(chance + 1.0, 0.0), pulls, prior)
    pool.lean[channel] = 1.0 / PRIOR_RATIO
    if noise > 0.0 and total > 0.0:
        common = common * total / noise - max(types_seen - 1.0, 0.0)
        pool.lean[channel] = _ratio(common, max(total - each_type / total, 0.0), PRIOR_RATIO)


def _within(
    state: State, pool: Pool, arm: int, channel: int, count: int, types: int, channels: int
) -> float:
    """The variance of an arm's outcomes within a type; 0 if there is none to be seen.

    It divides: without the last 2 degrees of freedom its inverse has no bias (of normal outcomes).
    """
    square, used = pool.squares[arm * channels + channel], 0.0
    for kind in range(types):
        row = kind * count + arm
        if state.pulls[row] > 0.0:
            mean = state.totals[row * channels + channel] / state.pulls[row]
            square -= state.pulls[row] * mean * mean
            used += 1.0
    left = pool.pulls[arm] - used
    return square / (left - 2.0) if left > 2.0 and square > LEAST * left else 0.0


def _believe(
    constants: Constants, state: State, arms: Arms, pool: Pool, row: int, arm: int, limited: int
) -> None:
    """The beliefs about a row."""
    stated = state.stated[0] > 0.0
    first = row * (2 + limited)
    if state.totals[first] != state.squares[first]:
        arms.any_part[0] = 1.0
    channels = 2 + limited
    cost, width, _, _ = _mean_of_row(state, arms, pool, row, arm, 0, channels, stated)
    arms.cost_scale[row], arms.cost_width[row] = cost, width
    reward, width, _, _ = _mean_of_row(state, arms, pool, row, arm, 1, channels, stated)
    arms.reward_scale[row], arms.reward_width[row] = reward, width
    for m in range(limited):
        _believe_penalty(constants, state, arms, pool, row, arm, m, limited, stated)


def _mean_of_row(
    state: State,
    arms: Arms,
    pool: Pool,
    row: int,
    arm: int,
    channel: int,
    channels: int,
    stated: bool,
) -> tuple[float, float, float, float]:
    """Scale and width of the belief about a row's mean; the usual size; pulls that it is worth."""
    at, over = row * channels + channel, GUESSES * (arm * channels + channel)
    if stated and state.known[at] >= 0.0:
        scale, width = certain(state.known[at])
        return scale, width, mean_of(scale), 1e15
    mean, second = _guess_of(pool, over, pool.factor[at])
    tau = pool.tau[channel]
    weight = state.pulls[row] + tau
    inverse, least = 1.0 / weight, LEAST * arms.pooled[channel] * arms.pooled[channel]
    here = (state.totals[at] + tau * mean) * inverse
    there = (state.squares[at] + tau * second) * inverse
    lean = tau * inverse
    variance = max(there - here * here, least)
    ours = variance / (weight + 1.0)
    arms_part = lean * lean * max(second - mean * mean, least) * pool.guess[over + PART]
    drawn = (OWN * ours + arms_part) * (PENALTY if channel >= 2 else 1.0)
    scale, width = shape_with(drawn, here)
    size = there / max(here, least)
    return scale, width, size, variance / (ours + arms_part)


def _guess_of(pool: Pool, place: int, factor: float) -> tuple[float, float]:
    """The guessed means of an outcome and of its square, for a type with this factor.

    The second is at least the square of the first, and at most the first: outcomes are in [0, 1].
    """
    mean = min(pool.guess[place + MEAN] * factor, 1.0)
    return mean, min(pool.guess[place + SQUARE] * factor * factor, mean)


def _believe_penalty(
    constants: Constants,
    state: State,
    arms: Arms,
    pool: Pool,
    row: int,
    arm: int,
    m: int,
    limited: int,
    stated: bool,
) -> None:
    """The beliefs about one of a row's penalties; see ``beliefs`` for the net penalty."""
    mean_cost, reward = mean_of(arms.cost_scale[row]), mean_of(arms.reward_scale[row])
    first, at, over = row * (2 + limited), row * limited + m, GUESSES * arm * (2 + limited)
    base, limit = state.bases[m], state.limits[m]
    per_pull = mean_cost if base == 0.0 else base if base > 0.0 else -base * reward
    allowed = limit * per_pull
    scale, width, size, worth = _mean_of_row(
        state, arms, pool, row, arm, 2 + m, 2 + limited, stated
    )
    mean = mean_of(scale)
    given = -1.0
    if stated:
        given = given_penalty(state, row, m, limited, mean_cost, reward)
    if given >= 0.0:
        mean = given
        scale, width = certain(given)
    arms.penalty_scale[at], arms.penalty_width[at] = scale, width
    net = mean
    if base != 0.0:
        net = net_penalty(base, limit, 1.0, mean_cost, reward, mean)
    rate = net / mean_cost
    # The variance of the net penalty - rate X, per cost: of the row's pulls, and tau of the arm's.
    tau, own = pool.tau[2 + m], state.pulls[row]
    taken = 0.0 if base == 0.0 else allowed
    slope = rate if base == 0.0 else rate - limit
    ours = state.net_squares[at] + slope * slope * state.squares[first]
    ours -= 2.0 * slope * state.products[at]
    paid, paid_square = _guess_of(pool, over, pool.factor[first])
    incurred, mixed = _guess_of(pool, over + GUESSES * (2 + m), pool.factor[first + 2 + m])
    incurred -= taken
    mixed -= taken * (2.0 * incurred + taken)
    mixed += slope * (slope * paid_square - 2.0 * paid * incurred)
    mixed = max(mixed, LEAST * size * size)
    spread = (ours + tau * mixed) / ((own + tau) * mean_cost)
    known = worth * mean_cost
    if given >= 0.0 and width == 0.0 and state.known[first] >= 0.0:
        known, spread, size = 1e15, 1e-15, given
    place = MORE * at
    arms.rate[at], arms.spread[at] = rate, max(spread, 1e-15)
    arms.more[place + SIZE], arms.more[place + KNOWN], arms.more[place + 2] = size, known, 0.0
    arms.cautious[at] = rate + constants[KAPPA] * math.sqrt(arms.spread[at] / known)
