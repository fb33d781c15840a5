"""Linear models of outcomes over a request's features and a number together.

A number t of an interval, scaled to [0, 1], has *waves* c_j(t): 1 and sqrt(2) cos(pi j t). Those of
a box have products of these, by frequency: the root of the sum of all j^2. The columns of a pair
(request, number), with z_k the standardised columns of the request, are

    g_j c_j(t)  for j < N,  and  h_j z_k c_j(t)  for each k and j < H.

So the curve of a request is the curve of the average request, plus a curve for each column of the
request times its value. The columns have one ridge regression for each channel, that of
``regression`` for a single arm: its first group of columns are those of the number alone, its
second group those of the request. g_j and h_j fall with the frequency f as f^-(1 + sides / 2), so
a curve is smooth unless the reports say else; how large both groups are comes from the reports.
Features share what they explain (h_j has the factor 1 / sqrt(columns)), and H falls from 6 to 2 as
they become more.

The functions take a :class:`Whole`, :class:`Pairs` and a :class:`Joint`; those of ``regression``
read them as the state and the models of one arm. Letters: K points, C = 2 + M channels, D columns
of a request, J columns of a pair.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Annotated, Any, NamedTuple

from tightrope.policies.base import net_penalty
from tightrope.policies.parts.bands import decompose
from tightrope.policies.parts.beliefs import FLOOR
from tightrope.policies.parts.linear import (
    FAR,
    NEXT,
    PLACE,
    RECENT,
    REPORTS,
    SEEN,
    STRIDE,
    USED,
    is_learned,
    standardise,
)
from tightrope.policies.parts.matrices import dot, solve_factored
from tightrope.policies.parts.regression import (
    GROWTH,
    LOST,
    REFRESH,
    SOON,
    SOONEST,
    add_outcome,
    add_request,
    complete,
    correct,
    find_frame,
    find_ridge,
    prior_ridge,
    remember,
    solve_channel,
    varies_now,
)
from tightrope.policies.state import WAVES, Array, State, request_waves

NUMBERS = WAVES - 1  # columns of the number alone, without the intercept


def _turns(sides: int) -> list[tuple[int, ...]]:
    """The j of each wave along three sides, by the sum of their squares; 0 beyond the sides."""
    ranges = [range(WAVES if side < sides else 1) for side in (2, 1, 0)]
    found = sorted(product(*ranges), key=lambda turns: sum(j * j for j in turns))
    return [turns[::-1] for turns in found[:WAVES]]


TURNS = tuple(j for sides in (1, 2, 3) for turns in _turns(sides) for j in turns)


class Whole(NamedTuple):
    """The state of all points together, as if they were one arm; fields as in ``State``."""

    pulls: Annotated[Array, 1]
    totals: Annotated[Array, "C"]
    squares: Annotated[Array, "C"]
    remaining: Annotated[Array, "R"]  # its length alone is read
    limits: Annotated[Array, "M"]
    bases: Annotated[Array, "M"]
    known: Annotated[Array, "C"]  # where it is known at every point
    weights: Annotated[Array, "M"]
    expected: Annotated[Array, "C"]  # nothing


class Joint(NamedTuple):
    """The models over the columns of pairs; fields as in ``linear.Models``."""

    here: Annotated[Array, "J"]
    unit: Annotated[Array, "J"]  # 0 for columns of a feature that did not vary
    stretch: Annotated[Array, "J"]  # workspace
    offset: Annotated[Array, "J"]  # workspace
    column: Annotated[Array, "J"]  # workspace
    root: Annotated[Array, "J", "J"]  # workspace
    away: Annotated[Array, "J"]  # workspace
    known: Annotated[Array, 2]  # workspace
    explained: Annotated[Array, 2]  # workspace
    ridge: Annotated[Array, "C", 4]
    common: Annotated[Array, "C", "J"]  # always 0: there is one arm
    gram: Annotated[Array, "C", "J", "J"]
    waiting: Annotated[Array, 8, "J"]
    weights: Annotated[Array, "C", 8]
    told: Annotated[Array, "C", 8]
    count: Annotated[Array, 1]
    factors: Annotated[Array, "C", "J", "J"]
    moments: Annotated[Array, "C", "J"]
    slopes: Annotated[Array, "C", "J"]
    doubt: Annotated[Array, "C"]
    due: Annotated[Array, 2]
    squares: Annotated[Array, "C"]
    noise: Annotated[Array, "C"]
    usual: Annotated[Array, "C"]
    clock: Annotated[Array, 5]  # the used columns alone
    loose: Annotated[Array, "C", 12, 12]  # a factor of the first slopes' covariance, see ``bands``


class Pairs(NamedTuple):
    """Requests and points, and what is expected of them; the first fields as in ``Models``."""

    context: Annotated[Array, "D"]
    here: Annotated[Array, "D"]
    centre: Annotated[Array, "D"]
    unit: Annotated[Array, "D"]
    stretch: Annotated[Array, "D"]  # workspace
    offset: Annotated[Array, "D"]  # workspace
    away: Annotated[Array, 256]  # workspace
    pulls: Annotated[Array, "K"]
    totals: Annotated[Array, "K", "C"]
    clock: Annotated[Array, 7]
    recent: Annotated[Array, "D", 264]
    means: Annotated[Array, "K", "C", 256]
    waves: Annotated[Array, "K", 12]  # c_j, or products of them, at every point
    sizes: Annotated[Array, 2, 12]  # g_j, and h_j
    curve: Annotated[Array, 12]  # weights of the waves; workspace
    usual: Annotated[Array, "K", "C"]  # the outcomes of the average request
    doubt: Annotated[Array, "K", "C"]  # variances of these, over that of the noise


# The columns.


def begin_pairs(
    state: State, whole: Any, pairs: Any, joint: Any, features: int, types: int, sides: int
) -> None:
    """Models without reports, on a grid; the window holds one average request."""
    channels, each = len(state.remaining) + 1, request_waves(1 + features + types)
    for channel in range(channels):
        for place in range(4):
            joint.ridge[4 * channel + place] = prior_ridge(channel, place % 2, NUMBERS)
        for j in range(WAVES):
            joint.unit[j] = 1.0
    _lay_waves(pairs, sides)
    own = shared = 0.0
    for j in range(WAVES):
        own += pairs.sizes[j] * pairs.sizes[j] if j > 0 else 0.0
        shared += pairs.sizes[j] * pairs.sizes[j] if j < each else 0.0
    # Before any report, the curve varies as much as the noise, and the features explain what those
    # of ``regression`` do.
    wide = math.sqrt(prior_ridge(0, 0, NUMBERS) / own)
    for j in range(WAVES):
        pairs.sizes[j] *= wide if j > 0 else 1.0
        pairs.sizes[WAVES + j] *= math.sqrt(1.0 / (shared * max(features + types, 1)))
    pairs.clock[SEEN] = pairs.recent[0] = 1.0
    pairs.clock[USED] = 1.0 + features + types
    joint.clock[USED] = WAVES + each * (features + types)
    sum_up(state, whole)
    _refresh(state, whole, pairs, joint, features)


def _lay_waves(pairs: Any, sides: int) -> None:
    """The waves at every point, and their sizes."""
    points = int(len(pairs.pulls) ** (1.0 / sides) + 0.5)
    for wave in range(WAVES):
        turns, square = 3 * (WAVES * (sides - 1) + wave), 0
        for side in range(sides):
            square += TURNS[turns + side] * TURNS[turns + side]
        size = root = math.sqrt(max(square, 1))
        for _ in range(sides):
            size *= math.sqrt(root)
        pairs.sizes[wave] = pairs.sizes[WAVES + wave] = 1.0 / size
        for row in range(len(pairs.pulls)):
            value = 1.0
            for side in range(sides):
                place, j = row // points**side % points, TURNS[turns + side]
                if j > 0:
                    value *= math.sqrt(2.0) * math.cos(math.pi * j * place / (points - 1.0))
            pairs.waves[row * WAVES + wave] = value


def sum_up(state: State, whole: Any) -> None:
    """The sums over all points; a channel is known if it is so at each of them."""
    channels, limited = len(state.remaining) + 1, len(state.limits)
    whole.pulls[0] = 0.0
    for row in range(len(state.pulls)):
        whole.pulls[0] += state.pulls[row]
    for channel in range(channels):
        total = square = 0.0
        known = math.inf
        for at in range(channel, len(state.pulls) * channels, channels):
            total += state.totals[at]
            square += state.squares[at]
            known = min(known, state.known[at])
        whole.totals[channel], whole.squares[channel] = total, square
        whole.known[channel], whole.expected[channel] = known, -1.0
    for m in range(limited):
        whole.limits[m], whole.bases[m] = state.limits[m], state.bases[m]
        whole.weights[m] = state.weights[m]


def _pair_up(pairs: Any, joint: Any, row: int) -> None:
    """The columns of the request in ``here`` with a point."""
    used = int(joint.clock[USED])
    for j in range(WAVES):
        joint.here[j] = pairs.sizes[j] * pairs.waves[row * WAVES + j]
    each = _waves_of(pairs)
    for at in range(WAVES, used):
        k, j = 1 + (at - WAVES) // each, (at - WAVES) % each
        joint.here[at] = pairs.here[k] * pairs.sizes[WAVES + j] * pairs.waves[row * WAVES + j]


def _waves_of(pairs: Any) -> int:
    """H, the waves of a column of the request."""
    return request_waves(int(pairs.clock[USED]))


# Reports.


def learn_pair(state: State, whole: Any, pairs: Any, joint: Any, row: int, features: int) -> None:
    """Learn from the outcomes that were added to a point, as ``learn_report`` does."""
    if state.flying[0] > 0.0:
        return
    weight, channels = state.pulls[row] - pairs.pulls[row], len(state.remaining) + 1
    pairs.pulls[row] = state.pulls[row]
    sum_up(state, whole)
    if weight > 0.0:
        remember(pairs)
        if pairs.clock[REPORTS] >= pairs.clock[NEXT] or varies_now(pairs):
            _refresh(state, whole, pairs, joint, features)
        pairs.clock[REPORTS] += weight
        standardise(pairs)
        _pair_up(pairs, joint, row)
    for channel in range(channels):
        at = row * channels + channel
        gained = state.totals[at] - pairs.totals[at]
        pairs.totals[at] = state.totals[at]
        if weight > 0.0 and is_learned(whole, 0, channel):
            add_outcome(joint, 0, channel, channels, weight, max(gained / weight, 0.0))
    if weight > 0.0:
        add_request(joint, 0, channels)
        if whole.pulls[0] >= joint.due[0]:
            _solve(state, whole, pairs, joint)
        elif whole.pulls[0] >= joint.due[1]:
            correct(whole, joint, 0, NUMBERS)
        last = (int(pairs.clock[PLACE]) + RECENT - 1) % RECENT
        _predict(state, whole, pairs, joint, last, last + 1)


def _refresh(state: State, whole: Any, pairs: Any, joint: Any, features: int) -> None:
    """Compute ridges, standardisation and models again."""
    channels, clock = len(state.remaining) + 1, pairs.clock
    complete(joint, 0, channels)
    for channel in range(channels):
        find_ridge(whole, joint, channel, NUMBERS)
    find_frame(pairs, features)
    each = _waves_of(pairs)
    for at in range(WAVES, int(joint.clock[USED])):
        joint.unit[at] = pairs.unit[1 + (at - WAVES) // each]
    for channel in range(channels):
        if joint.gram[channel * len(joint.here) * len(joint.here)] > 0.0:
            _move(pairs, joint, channel, each)
    _solve(state, whole, pairs, joint)
    clock[NEXT] = clock[REPORTS] + max(REFRESH * clock[REPORTS], 1.0)


def _move(pairs: Any, joint: Any, channel: int, each: int) -> None:
    """The sums of a model where a column z of the request becomes stretch z + offset.

    Its column with a wave becomes stretch times it plus a multiple of the wave's own column. A
    feature is forgotten as in ``regression``.
    """
    size, used, gram = len(joint.here), int(joint.clock[USED]), joint.gram
    start, first = channel * size * size, channel * size
    for i in range(used):
        for j in range(i):
            gram[start + j * size + i] = gram[start + i * size + j]
    for turn in range(2):  # columns, then rows
        by, to = (1, size) if turn == 0 else (size, 1)
        for at in range(WAVES, used):
            k, j = 1 + (at - WAVES) // each, (at - WAVES) % each
            offset = pairs.offset[k] * pairs.sizes[WAVES + j] / pairs.sizes[j]
            for i in range(used):
                place = start + i * to + at * by
                gram[place] = (
                    pairs.stretch[k] * gram[place] + offset * gram[start + i * to + j * by]
                )
    for at in range(WAVES, used):
        k, j = 1 + (at - WAVES) // each, (at - WAVES) % each
        offset = pairs.offset[k] * pairs.sizes[WAVES + j] / pairs.sizes[j]
        moved = pairs.stretch[k] * joint.moments[first + at] + offset * joint.moments[first + j]
        far = FAR * pairs.sizes[WAVES]
        zeroth = start + (WAVES + (k - 1) * each) * (size + 1)  # z_k times the first wave
        if j == 0:
            lost = abs(pairs.offset[k]) > LOST or gram[zeroth] > far * far * gram[start]
            pairs.away[k] = 1.0 if lost else 0.0
        joint.moments[first + at] = moved
        if pairs.away[k] > 0.0:
            joint.moments[first + at] = 0.0
            for i in range(used):
                gram[start + at * size + i] = gram[start + i * size + at] = 0.0


def _solve(state: State, whole: Any, pairs: Any, joint: Any) -> None:
    """The models from their sums, and what they expect."""
    channels = len(state.remaining) + 1
    complete(joint, 0, channels)
    for channel in range(channels):
        if is_learned(whole, 0, channel):
            solve_channel(whole, joint, 0, channel, NUMBERS)
            _loosen(pairs, joint, channel, channels)
    pulls = whole.pulls[0]
    joint.due[0] = pulls + max(GROWTH * pulls, 1.0)
    joint.due[1] = pulls + max(SOON * pulls, SOONEST)
    for k in range(1, len(pairs.here)):
        pairs.here[k] = 0.0
    expect_points(state, whole, pairs, joint, pairs.usual, 1, 0)
    predict_window(state, whole, pairs, joint)


def _loosen(pairs: Any, joint: Any, channel: int, channels: int) -> None:
    """How sure the curve of the average request is: the covariance of its slopes, factored."""
    size, used, start = len(joint.here), int(joint.clock[USED]), channel * WAVES * WAVES
    loose = joint.loose
    for i in range(WAVES):
        for j in range(size):
            joint.column[j] = 0.0
        joint.column[i] = 1.0
        factors = channel * size * size
        solve_factored(joint.factors, factors, used, joint.column, joint.offset, 0)
        for j in range(i + 1):
            loose[start + i * WAVES + i - j] = joint.offset[j]
    decompose(loose, start, WAVES, WAVES)
    for row in range(len(pairs.pulls)):
        doubt = 0.0
        for i in range(WAVES):
            part = 0.0
            for j in range(i, WAVES):
                wave = pairs.sizes[j] * pairs.waves[row * WAVES + j]
                part += loose[start + j * WAVES + j - i] * wave
            doubt += part * part
        pairs.doubt[row * channels + channel] = doubt


# Expectations.


def predict_window(state: State, whole: Any, pairs: Any, joint: Any) -> None:
    """The expected cost, reward and net penalties of the requests of the window."""
    _predict(state, whole, pairs, joint, 0, int(pairs.clock[SEEN]))


def _predict(state: State, whole: Any, pairs: Any, joint: Any, first: int, last: int) -> None:
    """The same of some of them."""
    channels, means = len(state.remaining) + 1, pairs.means
    for n in range(first, last):
        for k in range(1, len(pairs.here)):
            away = (pairs.recent[k * STRIDE + n] - pairs.centre[k]) * pairs.unit[k]
            pairs.here[k] = min(max(away, -FAR), FAR)
        expect_points(state, whole, pairs, joint, means, RECENT, n)
        for m in range(channels - 2):
            base, limit = state.bases[m], state.limits[m]
            if base != 0.0:
                for row in range(len(state.pulls)):
                    at = row * channels * RECENT + n
                    place, reward = at + (2 + m) * RECENT, means[at + RECENT]
                    means[place] = net_penalty(base, limit, 1.0, means[at], reward, means[place])


def expect_points(
    state: State, whole: Any, pairs: Any, joint: Any, found: Array, apart: int, first: int
) -> None:
    """The expected outcomes of every point for the request in ``here``.

    Outcome c of point k is put at the place ``(k C + c) apart + first`` of ``found``.
    """
    channels = len(state.remaining) + 1
    for channel in range(channels):
        learned = is_learned(whole, 0, channel)
        if learned:
            _bend(pairs, joint, channel)
        least = FLOOR * joint.usual[0] if channel == 0 else 0.0
        for row in range(len(state.pulls)):
            at = row * channels + channel
            if state.known[at] >= 0.0:
                value = state.known[at]
            elif learned:
                value = dot(pairs.waves, row * WAVES, pairs.curve, 0, WAVES)
                value = min(max(value, least), 1.0)
            else:
                share, m = state.weights[row * (channels - 2) + channel - 2], channel - 2
                value = share * found[(row * channels + int(state.sources[m])) * apart + first]
            found[at * apart + first] = value


def _bend(pairs: Any, joint: Any, channel: int) -> None:
    """The weights of the waves in the curve of the request in ``here``."""
    first, each = channel * len(joint.here), _waves_of(pairs)
    for j in range(WAVES):
        pairs.curve[j] = 0.0
    for k in range(1, int(pairs.clock[USED])):
        for j in range(each):
            at = first + WAVES + (k - 1) * each + j
            pairs.curve[j] += pairs.here[k] * joint.slopes[at]
    for j in range(WAVES):
        own, more = joint.slopes[first + j], pairs.curve[j]
        pairs.curve[j] = pairs.sizes[j] * own + pairs.sizes[WAVES + j] * more
