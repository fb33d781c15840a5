"""Smooth beliefs about arms that are numbers: a curve for every channel, and draws of it.

A curve is m + sum_j w_j phi_j(x), with cubic B-splines phi_j (products of them in a box) and a
normal prior on the weights: second differences along each side have the deviation ``bend``, the
weights themselves the deviation ``height`` (P-splines, Eilers and Marx 1996). Both are chosen from
a few values by the marginal likelihood of the reports, so smoothness comes from the data. The
variance of an outcome is estimated from residuals near its number.

The channels are the cost, the reward and the *net* penalty of each limit, see ``State.bases``.
Everything follows from the totals of the state; ``bend``, ``height`` and the variances of outcomes
are renewed at steps 1, 2, 4, ... and every 256. Where requests have types, each has a curve, around
one over all types in the place of m (``typed_curves``); ``bend`` and ``height`` are those of all
types. Letters: K points (rows, with types), C = 2 + M channels, at most 64 splines.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from tightrope.policies.base import Constants, net_penalty
from tightrope.policies.choice import hashed
from tightrope.policies.parts.bands import decompose, divide, divide_transposed, invert_band
from tightrope.policies.parts.beliefs import (
    CELLS,
    FLOOR,
    KAPPA,
    KNOWN,
    LEAST_COST,
    MORE,
    NORMAL,
    SIZE,
    Arms,
    size_of_sums,
)
from tightrope.policies.parts.curve_sums import (
    net_square,
    pulls_at,
    square_at,
    stays,
    total_at,
    value_known,
)
from tightrope.policies.state import Array, State, rows

SIDES, POINTS, SPLINES = 4, 5, 6  # places in the policy's constants

HEIGHTS = (0.5, 0.15, 0.05, 0.015)  # deviations of a weight, over the usual size of an outcome
BENDS = (1.0, 0.3, 0.1, 0.03)  # deviations of a second difference, over that of a weight
# Times log height and log bend: added to the log likelihood, so that few reports leave room.
HIGH, ROUGH = 4.0, 1.0
ALIKE = 3.0  # pulls that the variance over all points is worth at a point
SEEN = 0.25  # squared sizes that are added to the squares seen near a point
LEAST = 1e-6  # of a squared size: the least variance of an outcome
TINY = 1e-30  # guards quotients
# Of the deviation of a draw, with types: of the type's own part, and of all of a penalty's.
OWN, PENALTY = math.sqrt(0.3), math.sqrt(0.2)


class Curves(NamedTuple):
    """The curves of all channels, and working memory."""

    first: Annotated[Array, "K"]  # the first spline at a point
    parts: Annotated[Array, "K", 64]  # the values of the splines there: 4, 16 or 64 of them
    apart: Annotated[Array, 64]  # by how much the number of each is above the first one's
    centre: Annotated[Array, "K", "C"]  # m, or the curve over all types
    lean: Annotated[Array, "K", "C"]  # the share of an error of the centre that is in the mean
    before: Annotated[Array, "K", "C"]  # of the curves of types: the variance without reports
    noise: Annotated[Array, "K", "C"]  # the variance of an outcome
    mean: Annotated[Array, "K", "C"]  # the expected curve
    unsure: Annotated[Array, "K", "C"]  # its variance
    level: Annotated[Array, "C"]  # m
    size: Annotated[Array, "C"]  # the usual size of an outcome other than 0
    square: Annotated[Array, "C"]  # the mean squared outcome
    height: Annotated[Array, "C"]
    bend: Annotated[Array, "C"]
    likely: Annotated[Array, 16]  # the log likelihood of the reports under each pair of these
    weights: Annotated[Array, "C", "K"]  # those of a block of rows begin at its first row
    factor: Annotated[Array, "C", "K", 7]  # the Cholesky factor of their precision; likewise
    matrix: Annotated[Array, "K", 7]
    sums: Annotated[Array, "K"]  # by spline
    counts: Annotated[Array, "K"]


# The number of splines, the width of the band + 1, how many splines there are at a point, and the
# number of splines along a side.
Shape = tuple[int, int, int, int]
# The first row of a curve, the one after its last, and the distance of rows that count as one.
Block = tuple[int, int, int]


def shape_of_grid(constants: Constants) -> Shape:
    """The shape of the splines."""
    s = int(constants[SPLINES])
    if constants[SIDES] == 1.0:
        return s, 4, 4, s
    if constants[SIDES] == 2.0:
        return s * s, 3 * s + 4, 16, s
    return s * s * s, 3 * s * s + 3 * s + 4, 64, s


def begin_curves(constants: Constants, curves: Curves) -> None:
    """Compute the splines at every point, for each type."""
    sides, points = int(constants[SIDES]), int(constants[POINTS])
    near, s = shape_of_grid(constants)[2:]
    for i in range(near):
        curves.apart[i], rest, step = 0.0, i, 1
        for _ in range(sides):
            curves.apart[i] += rest % 4 * step
            rest //= 4
            step *= s
    for row in range(len(curves.first)):
        curves.first[row] = 0.0
        for i in range(near):
            curves.parts[row * near + i] = 1.0
        rest, step = row, 1
        for side in range(sides):
            far = rest % points * (s - 3.0) / (points - 1.0)
            cell = min(int(far), s - 4)
            curves.first[row] += cell * step
            for i in range(near):
                curves.parts[row * near + i] *= _spline(far - cell, i // 4**side % 4)
            rest //= points
            step *= s


def _spline(t: float, which: int) -> float:
    """The value of one of the four cubic splines that are not 0 at ``t``, in [0, 1]."""
    u = 1.0 - t
    if which == 0:
        return u * u * u / 6.0
    if which == 1:
        return (t * t * (3.0 * t - 6.0) + 4.0) / 6.0
    if which == 2:
        return (u * u * (3.0 * u - 6.0) + 4.0) / 6.0
    return t * t * t / 6.0


# Fits.


def fit_curves(
    constants: Constants, state: State, arms: Arms, curves: Curves, limited: int, anew: bool
) -> None:
    """Compute the curves from the totals; with ``anew``, also smoothness and variances."""
    shape, count = shape_of_grid(constants), len(state.pulls)
    for channel in range(2 + limited):
        if not anew and stays(state, channel, limited):
            continue
        if anew:
            look_at_all(state, arms, curves, channel, limited)
            find_noise(state, curves, channel, limited, shape, count)
            weigh_block(state, curves, channel, limited, shape, (0, count, count))
            settle(curves, channel, HIGH, ROUGH)
        fit_block(state, curves, channel, limited, shape, (0, count, count))
    expect_rows(constants, state, arms, curves, limited, 0, count)


def look_at_all(state: State, arms: Arms, curves: Curves, channel: int, limited: int) -> None:
    """The level, and the size of the usual outcome, over all rows and a prior of one pull."""
    pulls = total = square = plain = plain_square = 0.0
    channels, count = 2 + limited, len(state.pulls)
    for row in rows(state):
        pulls += state.pulls[row]
        total += total_at(state, row, channel, limited, count)
        square += square_at(state, row, channel, limited, count)
        plain += state.totals[row * channels + channel]
        plain_square += state.squares[row * channels + channel]
        if state.totals[row * channels] != state.squares[row * channels]:
            arms.any_part[0] = 1.0
    usual = size_of_sums(plain, plain_square, 1.0)
    arms.pooled[channel] = usual
    guess = 0.5 * usual
    if channel >= 2:  # a net penalty as frequent as the limit allows
        base, limit = state.bases[channel - 2], state.limits[channel - 2]
        guess = limit * curves.level[0]
        if base != 0.0:
            usual += limit * (base if base > 0.0 else -base * arms.pooled[1])
    curves.level[channel] = (total + guess) / (pulls + 1.0)
    curves.size[channel] = usual
    curves.square[channel] = (square + 0.5 * usual * usual) / (pulls + 1.0)
    for row in rows(state):
        curves.centre[row * channels + channel] = curves.level[channel]


def find_noise(
    state: State, curves: Curves, channel: int, limited: int, shape: Shape, last: int
) -> None:
    """The variance of an outcome at every point, from residuals near it.

    The points are the rows up to ``last``, each with the sums over the rows that far apart.
    """
    channels, near = 2 + limited, shape[2]
    size, level = curves.size[channel], curves.level[channel]
    least = LEAST * size * size
    usual = max(curves.square[channel] - level * level, least)
    for j in range(shape[0]):
        curves.sums[j], curves.counts[j] = ALIKE * usual + SEEN * size * size, ALIKE
    for row in range(last):
        n = pulls_at(state, row, last)
        if n > 0.0:
            mean = curves.mean[row * channels + channel]
            away = square_at(state, row, channel, limited, last)
            away += mean * (n * mean - 2.0 * total_at(state, row, channel, limited, last))
            for i in range(near):
                j, part = int(curves.first[row] + curves.apart[i]), curves.parts[row * near + i]
                curves.sums[j] += part * max(away, 0.0)
                curves.counts[j] += part * n
    for row in range(last):
        variance = 0.0
        for i in range(near):
            j = int(curves.first[row] + curves.apart[i])
            variance += curves.parts[row * near + i] * curves.sums[j] / curves.counts[j]
        curves.noise[row * channels + channel] = max(variance, least)


def _gather(
    state: State, curves: Curves, channel: int, limited: int, shape: Shape, block: Block
) -> None:
    """The reports' precision of the weights, in ``matrix``, and its right side, in ``sums``."""
    count, wide, near, channels, step = shape[0], shape[1], shape[2], 2 + limited, block[2]
    for at in range(count * wide):
        curves.matrix[at] = 0.0
    for j in range(count):
        curves.sums[j] = 0.0
    for row in range(block[0], block[1]):
        n = pulls_at(state, row, step)
        if n > 0.0:
            place = row * channels + channel
            noise = curves.noise[place]
            away = total_at(state, row, channel, limited, step) - n * curves.centre[place]
            for i in range(near):
                at = int(curves.first[row] + curves.apart[i])
                part = curves.parts[row * near + i] / noise
                curves.sums[at] += part * away
                for j in range(i + 1):
                    apart = int(curves.apart[i] - curves.apart[j])
                    curves.matrix[at * wide + apart] += n * part * curves.parts[row * near + j]


def _set_prior(
    curves: Curves, channel: int, place: int, height: float, bend: float, shape: Shape
) -> None:
    """The prior's precision of the weights, in the factor that begins at ``place``."""
    count, wide, s = shape[0], shape[1], shape[3]
    size, factor = curves.size[channel], curves.factor
    level, rough = 1.0 / (height * size) ** 2, 1.0 / (bend * height * size) ** 2
    for at in range(place, place + count * wide):
        factor[at] = 0.0
    for j in range(count):
        factor[place + j * wide] = level
    step = 1
    while step < count:
        _add_differences(factor, place, wide, count, step, s, rough)
        step *= s


def _add_differences(
    factor: Array, first: int, wide: int, count: int, step: int, side: int, rough: float
) -> None:
    """Add the squares of second differences along a side of so many splines."""
    for j in range(count):
        if (j // step) % side >= 2:  # w_j - 2 w_(j - step) + w_(j - 2 step)
            factor[first + j * wide] += rough
            factor[first + j * wide + step] -= 2.0 * rough
            factor[first + j * wide + 2 * step] += rough
            factor[first + (j - step) * wide] += 4.0 * rough
            factor[first + (j - step) * wide + step] -= 2.0 * rough
            factor[first + (j - 2 * step) * wide] += rough


def _factor(
    curves: Curves, channel: int, place: int, height: float, bend: float, shape: Shape, seen: bool
) -> float:
    """Factor the precision before or after the reports; half the logarithm of its determinant."""
    _set_prior(curves, channel, 7 * place, height, bend, shape)
    if seen:
        for at in range(shape[0] * shape[1]):
            curves.factor[7 * place + at] += curves.matrix[at]
    return decompose(curves.factor, 7 * place, shape[0], shape[1])


def weigh_block(
    state: State, curves: Curves, channel: int, limited: int, shape: Shape, block: Block
) -> None:
    """Add the log likelihood of a block's reports under each height and bend to ``likely``."""
    place = channel * len(curves.first) + block[0]
    _gather(state, curves, channel, limited, shape, block)
    for turn in range(len(HEIGHTS) * len(BENDS)):
        height, bend = HEIGHTS[turn // len(BENDS)], BENDS[turn % len(BENDS)]
        found = 0.0
        for seen in range(2):
            found = _factor(curves, channel, place, height, bend, shape, seen > 0) - found
        fit = divide(
            curves.factor, 7 * place, curves.sums, curves.weights, place, shape[0], shape[1]
        )
        curves.likely[turn] += fit - found


def settle(curves: Curves, channel: int, high: float, rough: float) -> None:
    """Take the height and bend under which the reports are most likely."""
    best = -math.inf
    for turn in range(len(HEIGHTS) * len(BENDS)):
        height, bend = HEIGHTS[turn // len(BENDS)], BENDS[turn % len(BENDS)]
        found = curves.likely[turn] + high * math.log(height) + rough * math.log(bend)
        curves.likely[turn] = 0.0
        if found > best:
            best, curves.height[channel], curves.bend[channel] = found, height, bend


def fit_block(
    state: State, curves: Curves, channel: int, limited: int, shape: Shape, block: Block
) -> None:
    """The curve of a block of rows, and its variance."""
    place = channel * len(curves.first) + block[0]
    height, bend = curves.height[channel], curves.bend[channel]
    _gather(state, curves, channel, limited, shape, block)
    _factor(curves, channel, place, height, bend, shape, True)
    divide(curves.factor, 7 * place, curves.sums, curves.weights, place, shape[0], shape[1])
    divide_transposed(curves.factor, 7 * place, curves.weights, place, shape[0], shape[1])
    invert_band(curves.factor, 7 * place, curves.matrix, shape[0], shape[1])
    channels, near = 2 + limited, shape[2]
    for row in range(block[0], block[1]):
        at = row * channels + channel
        mean = curves.centre[at]
        for i in range(near):
            one = int(curves.first[row] + curves.apart[i])
            mean += curves.parts[row * near + i] * curves.weights[place + one]
        variance = _variance(curves, row, shape)
        if value_known(state, row, channel, limited):
            mean, variance = state.known[at], 0.0
            if channel >= 2:
                cost, reward = curves.mean[row * channels], curves.mean[row * channels + 1]
                base, limit = state.bases[channel - 2], state.limits[channel - 2]
                mean = net_penalty(base, limit, 1.0, cost, reward, state.known[at])
        curves.mean[at], curves.unsure[at] = mean, variance


def _variance(curves: Curves, row: int, shape: Shape) -> float:
    """The variance of a curve at a point; ``matrix`` has the covariances of its weights."""
    variance, near, wide = 0.0, shape[2], shape[1]
    for i in range(near):
        one = int(curves.first[row] + curves.apart[i])
        part, beside = curves.parts[row * near + i], 0.0
        for j in range(i):
            apart = int(curves.apart[i] - curves.apart[j])
            beside += curves.parts[row * near + j] * curves.matrix[one * wide + apart]
        variance += part * (part * curves.matrix[one * wide] + 2.0 * beside)
    return variance


def variances_before(
    curves: Curves, whole: Curves, channel: int, limited: int, shape: Shape, count: int
) -> None:
    """The variance of the curve of a type without reports, in ``before`` of the whole."""
    place = channel * len(curves.first)
    _factor(curves, channel, place, curves.height[channel], curves.bend[channel], shape, False)
    invert_band(curves.factor, 7 * place, curves.matrix, shape[0], shape[1])
    for row in range(count):
        whole.before[row * (2 + limited) + channel] = _variance(curves, row, shape)


# What ``resolve`` reads.


def expect_rows(
    constants: Constants,
    state: State,
    arms: Arms,
    curves: Curves,
    limited: int,
    first: int,
    last: int,
) -> None:
    """The expected rates of a block of rows, and how certain they are."""
    channels = 2 + limited
    for row in range(first, last):
        least = max(FLOOR * curves.level[0], max(constants[LEAST_COST], TINY))
        cost = min(max(curves.mean[row * channels], least), 1.0)
        arms.cost_scale[row] = cost
        arms.reward_scale[row] = min(max(curves.mean[row * channels + 1], TINY), 1.0)
        for m in range(limited):
            least = net_penalty(
                state.bases[m], state.limits[m], 1.0, cost, arms.reward_scale[row], 0.0
            )
            arms.rate[row * limited + m] = max(curves.mean[row * channels + 2 + m], least) / cost
    for m in range(limited):
        _expect_spread(constants, state, arms, curves, m, limited, first, last)


def _expect_spread(
    constants: Constants,
    state: State,
    arms: Arms,
    curves: Curves,
    m: int,
    limited: int,
    first: int,
    last: int,
) -> None:
    """The variance of a net penalty per unit of cost, and the cost behind its rate."""
    size, channels, shape = curves.size[2 + m], 2 + limited, shape_of_grid(constants)
    near = shape[2]
    guess = ALIKE * curves.square[2 + m] + SEEN * size * size
    for j in range(shape[0]):
        curves.sums[j], curves.counts[j] = 0.0, ALIKE
    for row in rows(state):
        if state.pulls[row] > 0.0:
            away = net_square(state, row, m, limited, arms.rate[row * limited + m])
            for i in range(near):
                j, part = int(curves.first[row] + curves.apart[i]), curves.parts[row * near + i]
                curves.sums[j] += part * max(away, 0.0)
                curves.counts[j] += part * state.pulls[row]
    for row in range(first, last):
        at, cost, spread = row * limited + m, arms.cost_scale[row], 0.0
        share = _share_of_usual(state, arms, curves, m, limited, row)
        for i in range(near):
            j = int(curves.first[row] + curves.apart[i])
            seen = curves.sums[j] + share * guess
            spread += curves.parts[row * near + i] * seen / curves.counts[j]
        spread = max(spread / cost, LEAST * size * size)
        rate = arms.rate[at]
        unsure = curves.unsure[row * channels + 2 + m]
        unsure += rate * rate * curves.unsure[row * channels]
        unsure = max(unsure / (cost * cost), 1e-15)
        arms.spread[at], arms.more[MORE * at + KNOWN] = spread, spread / unsure
        arms.more[MORE * at + SIZE] = arms.pooled[2 + m]
        arms.cautious[at] = rate + constants[KAPPA] * math.sqrt(unsure)


def _share_of_usual(
    state: State, arms: Arms, curves: Curves, m: int, limited: int, row: int
) -> float:
    """The mean penalty at a point over the usual one, at most 1: rarer ones vary less."""
    base, limit, cost = state.bases[m], state.limits[m], arms.cost_scale[row]
    if base < 0.0:
        return 1.0  # net penalties vary with the rewards too
    here = arms.rate[row * limited + m] * cost - net_penalty(base, limit, 1.0, cost, 0.0, 0.0)
    level = curves.level[0]
    usual = curves.level[2 + m] - net_penalty(base, limit, 1.0, level, 0.0, 0.0)
    return min(max(here / max(usual, TINY), 0.0), 1.0)  # type: ignore[no-any-return]


def draw_curves(
    constants: Constants,
    state: State,
    arms: Arms,
    curves: Curves,
    whole: Curves,
    word: int,
    noise: float,
    first: int,
    last: int,
    both: bool,
) -> None:
    """Draw a curve of a block of rows for every channel; ``noise`` multiplies the normal numbers.

    ``whole``: the curves over all types that these lean on, if ``both``.
    """
    shape, limited = shape_of_grid(constants), len(state.limits)
    near, channels = shape[2], 2 + limited
    for channel in range(channels):
        own = noise
        if both:
            wide = noise * (PENALTY if channel >= 2 else 1.0)
            _draw_weights(whole, channel, 0, word, channels + channel, wide, shape)
            own = wide * OWN
        _draw_weights(curves, channel, first, word, channel, own, shape)
        for row in range(first, last):
            at = row * channels + channel
            value, lean = curves.mean[at], curves.lean[at] if both else 0.0
            if curves.unsure[at] > 0.0:
                for i in range(near):
                    j = int(curves.first[row] + curves.apart[i])
                    away = curves.sums[j]
                    if lean > 0.0:
                        away += lean * whole.sums[j]
                    value += curves.parts[row * near + i] * away
            if channel == 0:
                least = max(FLOOR * arms.cost_scale[row], constants[LEAST_COST])
                arms.cost[row] = min(max(value, least), 1.0)
            elif channel == 1:
                arms.reward[row] = min(max(value, 0.0), 1.0) / arms.cost[row]
            else:
                m, cost, reward = channel - 2, arms.cost[row], arms.reward[row] * arms.cost[row]
                least = net_penalty(state.bases[m], state.limits[m], 1.0, cost, reward, 0.0)
                arms.penalty[row * limited + m] = max(value, least) / cost


def _draw_weights(
    curves: Curves, channel: int, first: int, word: int, place: int, noise: float, shape: Shape
) -> None:
    """Draw the weights of a block around their means, into ``sums``."""
    for j in range(shape[0]):
        curves.sums[j] = noise * NORMAL[hashed(word, place * 64 + j) & (CELLS - 1)]
    factor = 7 * (channel * len(curves.first) + first)
    divide_transposed(curves.factor, factor, curves.sums, 0, shape[0], shape[1])
