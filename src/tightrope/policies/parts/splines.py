"""Smooth beliefs about arms that are numbers: a curve for every channel, and draws of it.

A curve is m + sum_j w_j phi_j(x), with cubic B-splines phi_j (products of them in a box) and a
normal prior on the weights: second differences along each side have the deviation ``bend``, the
weights themselves the deviation ``height`` (P-splines, Eilers and Marx 1996). Both are chosen from
a few values by the marginal likelihood of the reports, so smoothness comes from the data. The
variance of an outcome is estimated from residuals near its number.

The channels are the cost, the reward and the *net* penalty of each limit, see ``State.bases``.
Everything follows from the totals of the state; ``bend``, ``height`` and the variances of outcomes
are renewed at steps 1, 2, 4, ... and every 256. Letters: K points, C = 2 + M channels, at most 64
splines. Matrices are stored as bands: entry (i, j), j <= i, at ``i * (width + 1) + i - j``.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from tightrope.policies.base import Constants, net_penalty
from tightrope.policies.choice import hashed
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
from tightrope.policies.state import Array, State, rows

__all__ = ["Curves", "Shape", "begin_curves", "draw_curves", "fit_curves", "shape_of_grid"]

SIDES, POINTS, SPLINES = 3, 4, 5  # places in the policy's constants

HEIGHTS = (0.5, 0.15, 0.05, 0.015)  # deviations of a weight, over the usual size of an outcome
BENDS = (1.0, 0.3, 0.1, 0.03)  # deviations of a second difference, over that of a weight
# Times log height and log bend: added to the log likelihood, so that few reports leave room.
HIGH, ROUGH = 4.0, 1.0
ALIKE = 3.0  # pulls that the variance over all points is worth at a point
SEEN = 0.25  # squared sizes that are added to the squares seen near a point
LEAST = 1e-6  # of a squared size: the least variance of an outcome
TINY = 1e-30  # guards quotients


class Curves(NamedTuple):
    """The curves of all channels, and working memory."""

    first: Annotated[Array, "K"]  # the first spline at a point
    parts: Annotated[Array, "K", 64]  # the values of the splines there: 4, 16 or 64 of them
    apart: Annotated[Array, 64]  # by how much the number of each is above the first one's
    noise: Annotated[Array, "K", "C"]  # the variance of an outcome
    mean: Annotated[Array, "K", "C"]  # the expected curve
    unsure: Annotated[Array, "K", "C"]  # its variance
    level: Annotated[Array, "C"]  # m
    size: Annotated[Array, "C"]  # the usual size of an outcome other than 0
    square: Annotated[Array, "C"]  # the mean squared outcome
    height: Annotated[Array, "C"]
    bend: Annotated[Array, "C"]
    weights: Annotated[Array, "C", "K"]
    factor: Annotated[Array, "C", "K", 7]  # the Cholesky factor of the weights' precision
    matrix: Annotated[Array, "K", 7]
    sums: Annotated[Array, "K"]  # by spline
    counts: Annotated[Array, "K"]


# The number of splines, the width of the band, how many splines there are at a point, and the
# number of splines along a side.
Shape = tuple[int, int, int, int]


def shape_of_grid(constants: Constants) -> Shape:
    """The shape of the splines."""
    s = int(constants[SPLINES])
    if constants[SIDES] == 1.0:
        return s, 3, 4, s
    if constants[SIDES] == 2.0:
        return s * s, 3 * s + 3, 16, s
    return s * s * s, 3 * s * s + 3 * s + 3, 64, s


def begin_curves(constants: Constants, curves: Curves) -> None:
    """Compute the splines at every point."""
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


# Sums of outcomes.


def _total(state: State, row: int, channel: int, limited: int) -> float:
    """The sum of a point's costs, rewards or net penalties."""
    first = row * (2 + limited)
    value: float = state.totals[first + channel]
    if channel < 2:
        return value
    base, limit = state.bases[channel - 2], state.limits[channel - 2]
    cost, reward = state.totals[first], state.totals[first + 1]
    return net_penalty(base, limit, state.pulls[row], cost, reward, value)


def _square(state: State, row: int, channel: int, limited: int) -> float:
    """The sum of their squares."""
    if channel < 2:
        return state.squares[row * (2 + limited) + channel]  # type: ignore[no-any-return]
    return _net_square(state, row, channel - 2, limited, 0.0)


def _net_square(state: State, row: int, m: int, limited: int, rate: float) -> float:
    """The sum of (net penalty - rate X)^2."""
    at = row * limited + m
    slope = rate if state.bases[m] == 0.0 else rate - state.limits[m]
    found = state.net_squares[at] - 2.0 * slope * state.products[at]
    return found + slope * slope * state.squares[row * (2 + limited)]  # type: ignore[no-any-return]


def _value_known(state: State, row: int, channel: int, limited: int) -> bool:
    """Whether the mean of a channel is known without reports."""
    if state.stated[0] == 0.0:
        return False
    first = row * (2 + limited)
    if channel < 2:
        return state.known[first + channel] >= 0.0  # type: ignore[no-any-return]
    base, m = state.bases[channel - 2], channel - 2
    if state.known[first] < 0.0 and base != 0.0:
        return False
    if base < 0.0 and state.known[first + 1] < 0.0:
        return False
    return state.weights[row * limited + m] < 0.0 and state.known[first + channel] >= 0.0  # type: ignore[no-any-return]


def _stays(state: State, channel: int, limited: int) -> bool:
    """Whether a channel is known at all points: at the first and the last, since a skip is one."""
    last = len(state.pulls) - 1
    return _value_known(state, 0, channel, limited) and _value_known(state, last, channel, limited)


# Fits.


def fit_curves(
    constants: Constants, state: State, arms: Arms, curves: Curves, limited: int, anew: bool
) -> None:
    """Compute the curves from the totals; with ``anew``, also smoothness and variances."""
    shape = shape_of_grid(constants)
    for channel in range(2 + limited):
        if not anew and _stays(state, channel, limited):
            continue
        if anew:
            _look_at_all(state, arms, curves, channel, limited)
            _find_noise(state, curves, channel, limited, shape)
        _gather(state, curves, channel, limited, shape)
        _solve(curves, channel, shape, anew)
        _see(state, curves, channel, limited, shape)
    _expect(constants, state, arms, curves, limited, shape)


def _look_at_all(state: State, arms: Arms, curves: Curves, channel: int, limited: int) -> None:
    """The level, and the size of the usual outcome, over all points and a prior of one pull."""
    pulls = total = square = plain = plain_square = 0.0
    channels = 2 + limited
    for row in rows(state):
        pulls += state.pulls[row]
        total += _total(state, row, channel, limited)
        square += _square(state, row, channel, limited)
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


def _find_noise(state: State, curves: Curves, channel: int, limited: int, shape: Shape) -> None:
    """The variance of an outcome at every point, from residuals near it."""
    channels, near = 2 + limited, shape[2]
    size, level = curves.size[channel], curves.level[channel]
    least = LEAST * size * size
    usual = max(curves.square[channel] - level * level, least)
    for j in range(shape[0]):
        curves.sums[j], curves.counts[j] = ALIKE * usual + SEEN * size * size, ALIKE
    for row in rows(state):
        n = state.pulls[row]
        if n > 0.0:
            mean = curves.mean[row * channels + channel]
            away = _square(state, row, channel, limited)
            away += mean * (n * mean - 2.0 * _total(state, row, channel, limited))
            for i in range(near):
                j, part = int(curves.first[row] + curves.apart[i]), curves.parts[row * near + i]
                curves.sums[j] += part * max(away, 0.0)
                curves.counts[j] += part * n
    for row in rows(state):
        variance = 0.0
        for i in range(near):
            j = int(curves.first[row] + curves.apart[i])
            variance += curves.parts[row * near + i] * curves.sums[j] / curves.counts[j]
        curves.noise[row * channels + channel] = max(variance, least)


def _gather(state: State, curves: Curves, channel: int, limited: int, shape: Shape) -> None:
    """The reports' precision of the weights, in ``matrix``, and its right side, in ``sums``."""
    count, wide, near = shape[0], shape[1] + 1, shape[2]
    for at in range(count * wide):
        curves.matrix[at] = 0.0
    for j in range(count):
        curves.sums[j] = 0.0
    for row in rows(state):
        n = state.pulls[row]
        if n > 0.0:
            noise = curves.noise[row * (2 + limited) + channel]
            away = _total(state, row, channel, limited) - n * curves.level[channel]
            for i in range(near):
                at = int(curves.first[row] + curves.apart[i])
                part = curves.parts[row * near + i] / noise
                curves.sums[at] += part * away
                for j in range(i + 1):
                    apart = int(curves.apart[i] - curves.apart[j])
                    curves.matrix[at * wide + apart] += n * part * curves.parts[row * near + j]


def _set_prior(curves: Curves, channel: int, height: float, bend: float, shape: Shape) -> None:
    """The prior's precision of the weights, in the channel's factor."""
    count, wide, s = shape[0], shape[1] + 1, shape[3]
    first, size, factor = channel * 7 * len(curves.first), curves.size[channel], curves.factor
    level, rough = 1.0 / (height * size) ** 2, 1.0 / (bend * height * size) ** 2
    for at in range(first, first + count * wide):
        factor[at] = 0.0
    for j in range(count):
        factor[first + j * wide] = level
    step = 1
    while step < count:
        _add_differences(factor, first, wide, count, step, s, rough)
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


def _decompose(factor: Array, first: int, count: int, width: int) -> float:
    """Replace a band by its Cholesky factor; returns half the logarithm of its determinant."""
    half, wide = 0.0, width + 1
    for i in range(count):
        low = max(0, i - width)
        for j in range(low, i + 1):
            total = factor[first + i * wide + i - j]
            for k in range(low, j):
                total -= factor[first + i * wide + i - k] * factor[first + j * wide + j - k]
            if j < i:
                factor[first + i * wide + i - j] = total / factor[first + j * wide]
            else:
                factor[first + i * wide] = math.sqrt(max(total, TINY))
                half += math.log(factor[first + i * wide])
    return half


def _solve(curves: Curves, channel: int, shape: Shape, anew: bool) -> None:
    """The weights of a channel, and the factor of their precision.

    With ``anew``, first find the height and bend under which the reports are most likely.
    """
    turns, best = (len(HEIGHTS) * len(BENDS) if anew else 0), -math.inf
    for turn in range(turns + 1):
        height, bend = curves.height[channel], curves.bend[channel]
        if turn < turns:
            height, bend = HEIGHTS[turn // len(BENDS)], BENDS[turn % len(BENDS)]
        likelihood = -HIGH * math.log(height) - ROUGH * math.log(bend)
        for reports in range(0 if turn < turns else 1, 2):
            likelihood = _factor(curves, channel, height, bend, shape, reports) - likelihood
        likelihood = _forward(curves, channel, shape) - likelihood
        if turn < turns and likelihood > best:
            best, curves.height[channel], curves.bend[channel] = likelihood, height, bend
    _back(curves, channel, curves.weights, channel * len(curves.first), shape)


def _factor(
    curves: Curves, channel: int, height: float, bend: float, shape: Shape, reports: int
) -> float:
    """Factor the precision before or after the reports; half the logarithm of its determinant."""
    first, wide = channel * 7 * len(curves.first), shape[1] + 1
    _set_prior(curves, channel, height, bend, shape)
    if reports > 0:
        for at in range(shape[0] * wide):
            curves.factor[first + at] += curves.matrix[at]
    return _decompose(curves.factor, first, shape[0], shape[1])


def _forward(curves: Curves, channel: int, shape: Shape) -> float:
    """Divide the right side by the factor, into the weights; returns half their squares' sum."""
    count, width = shape[0], shape[1]
    wide, first, place = width + 1, channel * 7 * len(curves.first), channel * len(curves.first)
    fit = 0.0
    for i in range(count):
        total = curves.sums[i]
        for j in range(max(0, i - width), i):
            total -= curves.factor[first + i * wide + i - j] * curves.weights[place + j]
        curves.weights[place + i] = total / curves.factor[first + i * wide]
        fit += 0.5 * curves.weights[place + i] * curves.weights[place + i]
    return fit


def _back(curves: Curves, channel: int, values: Array, place: int, shape: Shape) -> None:
    """Divide by the transposed factor, in place."""
    count, width = shape[0], shape[1]
    wide, first, factor = width + 1, channel * 7 * len(curves.first), curves.factor
    for i in range(count - 1, -1, -1):
        total = values[place + i]
        for k in range(i + 1, min(count, i + wide)):
            total -= factor[first + k * wide + k - i] * values[place + k]
        values[place + i] = total / factor[first + i * wide]


def _see(state: State, curves: Curves, channel: int, limited: int, shape: Shape) -> None:
    """The expected curve and its variance at every point."""
    channels, place, wide = 2 + limited, channel * len(curves.first), shape[1] + 1
    near = shape[2]
    _invert(curves, channel, shape)
    for row in rows(state):
        mean, variance, at = curves.level[channel], 0.0, row * channels + channel
        for i in range(near):
            one = int(curves.first[row] + curves.apart[i])
            part, beside = curves.parts[row * near + i], 0.0
            mean += part * curves.weights[place + one]
            for j in range(i):
                apart = int(curves.apart[i] - curves.apart[j])
                beside += curves.parts[row * near + j] * curves.matrix[one * wide + apart]
            variance += part * (part * curves.matrix[one * wide] + 2.0 * beside)
        if _value_known(state, row, channel, limited):
            mean, variance = state.known[at], 0.0
            if channel >= 2:
                cost, reward = curves.mean[row * channels], curves.mean[row * channels + 1]
                base, limit = state.bases[channel - 2], state.limits[channel - 2]
                mean = net_penalty(base, limit, 1.0, cost, reward, state.known[at])
        curves.mean[at], curves.unsure[at] = mean, variance


def _invert(curves: Curves, channel: int, shape: Shape) -> None:
    """The weights' covariances within the band, in ``matrix`` (Takahashi's recursion)."""
    count, width = shape[0], shape[1]
    wide, first = width + 1, channel * 7 * len(curves.first)
    factor, matrix = curves.factor, curves.matrix
    for i in range(count - 1, -1, -1):
        own = factor[first + i * wide]
        for j in range(min(count - 1, i + width), i - 1, -1):
            total = 1.0 / own if i == j else 0.0
            for k in range(i + 1, min(count, i + wide)):
                high, low = max(k, j), min(k, j)
                total -= factor[first + k * wide + k - i] * matrix[high * wide + high - low]
            matrix[j * wide + j - i] = total / own


# What ``resolve`` reads.


def _expect(
    constants: Constants, state: State, arms: Arms, curves: Curves, limited: int, shape: Shape
) -> None:
    """The expected rates of every point, and how certain they are."""
    channels = 2 + limited
    for row in rows(state):
        least = max(FLOOR * curves.level[0], max(constants[LEAST_COST], TINY))
        cost = min(max(curves.mean[row * channels], least), 1.0)
        arms.cost_scale[row] = cost
        arms.reward_scale[row] = min(max(curves.mean[row * channels + 1], TINY), 1.0)
        for m in range(limited):
            net = curves.mean[row * channels + 2 + m]
            if state.bases[m] == 0.0:
                net = max(net, 0.0)
            arms.rate[row * limited + m] = net / cost
    for m in range(limited):
        _expect_spread(constants, state, arms, curves, m, limited, shape)


def _expect_spread(
    constants: Constants,
    state: State,
    arms: Arms,
    curves: Curves,
    m: int,
    limited: int,
    shape: Shape,
) -> None:
    """The variance of a net penalty per unit of cost, and the cost behind its rate."""
    size, channels, near = curves.size[2 + m], 2 + limited, shape[2]
    for j in range(shape[0]):
        curves.sums[j] = ALIKE * curves.square[2 + m] + SEEN * size * size
        curves.counts[j] = ALIKE
    for row in rows(state):
        if state.pulls[row] > 0.0:
            away = _net_square(state, row, m, limited, arms.rate[row * limited + m])
            for i in range(near):
                j, part = int(curves.first[row] + curves.apart[i]), curves.parts[row * near + i]
                curves.sums[j] += part * max(away, 0.0)
                curves.counts[j] += part * state.pulls[row]
    for row in rows(state):
        at, cost, spread = row * limited + m, arms.cost_scale[row], 0.0
        for i in range(near):
            j = int(curves.first[row] + curves.apart[i])
            spread += curves.parts[row * near + i] * curves.sums[j] / curves.counts[j]
        spread = max(spread / cost, LEAST * size * size)
        rate = arms.rate[at]
        unsure = curves.unsure[row * channels + 2 + m]
        unsure += rate * rate * curves.unsure[row * channels]
        unsure = max(unsure / (cost * cost), 1e-15)
        arms.spread[at], arms.more[MORE * at + KNOWN] = spread, spread / unsure
        arms.more[MORE * at + SIZE] = arms.pooled[2 + m]
        arms.cautious[at] = rate + constants[KAPPA] * math.sqrt(unsure)


def draw_curves(
    constants: Constants,
    state: State,
    arms: Arms,
    curves: Curves,
    word: int,
    noise: float,
    limited: int,
) -> None:
    """Draw a curve for every channel; ``noise`` multiplies the normal numbers."""
    shape, channels = shape_of_grid(constants), 2 + limited
    near = shape[2]
    for channel in range(channels):
        for j in range(shape[0]):
            random = hashed(word, channel * 64 + j)
            curves.sums[j] = noise * NORMAL[random & (CELLS - 1)]
        _back(curves, channel, curves.sums, 0, shape)
        for row in rows(state):
            value = curves.mean[row * channels + channel]
            if curves.unsure[row * channels + channel] > 0.0:
                for i in range(near):
                    j = int(curves.first[row] + curves.apart[i])
                    value += curves.parts[row * near + i] * curves.sums[j]
            if channel == 0:
                least = max(FLOOR * arms.cost_scale[row], constants[LEAST_COST])
                arms.cost[row] = min(max(value, least), 1.0)
            elif channel == 1:
                arms.reward[row] = min(max(value, 0.0), 1.0) / arms.cost[row]
            else:
                if state.bases[channel - 2] == 0.0:
                    value = max(value, 0.0)
                arms.penalty[row * limited + channel - 2] = value / arms.cost[row]
