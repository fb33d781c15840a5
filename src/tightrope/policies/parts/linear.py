"""Linear models of every arm and channel over the features of requests.

A request has D *columns*: 1, its features, and one for each type, if it has a type (1 in its own,
0 in the others). They are standardised by the mean and deviation of recent requests; a column that
did not vary is 0. The model of an arm's outcome in a channel is a ridge regression on them:

    slopes = (G + L)^-1 (b + L p),  G = sum w z z',  b = sum w y z,

with the ridge L, p what is believed without reports, and the weight w = (usual outcome) / (expected
outcome): the noise of an outcome grows with its expectation, as that of counts and dollars does.

- *Intercept.* L is the weight of a guess, in pulls; p is the guess.
- *Slopes.* L is the variance of the noise over that of the slopes, one for features and one for
  types. Evidence maximisation (MacKay 1992) chooses it, over all arms. p is the usual outcome times
  a vector that all arms have in common, itself a ridge regression over all arms: what is hard for
  one arm tends to be hard for the others.

``learn_report`` takes O(D^2): Sherman and Morrison's formula. Whenever the reports have grown by an
eighth, ``refresh`` computes standardisation, ridges and inverses again, from G and b, in O(D^3).

Letters: K arms, M limits, C = 2 + M channels, D columns, W recent requests. Everything is in
normalised units; ``docs/contexts-theory.md`` derives the formulas.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from tightrope.policies.base import net_penalty
from tightrope.policies.state import Array, State
from tightrope.problem.ridge import EXPLAINED, LEAST_RIDGE, MOST_RIDGE, PRIOR

__all__ = [
    "RECENT",
    "Models",
    "begin_models",
    "expect",
    "is_learned",
    "learn_report",
    "predict",
    "standardise",
    "usual_outcome",
]

RECENT = 256  # requests in the window
# Their expectations that are renewed at once; per report, on average; from how many reports on they
# are fewer, since models change less.
BLOCK, RENEWED, LATE = 32, 8, 4096.0
GUESS, DECLARED = 1.0, 2.0  # pulls that a guess of a mean is worth; a declared one
FLOOR = 0.1  # of the usual outcome: the least expected cost or penalty
FAR = 8.0  # deviations: a request farther from the mean counts as this
LEAST = 1e-12  # guards quotients
ALIKE = 1e-9  # of a value: the difference of values that are the same, but for rounding
OWN, COMMON = 0, 2  # places in ``ridge``: of an arm's slopes, of what arms have in common
# Places in ``clock``: reports; how many at the next refresh; the next place in the window; requests
# in it; the place up to which their expectations were renewed.
REPORTS, NEXT, PLACE, SEEN, STALE = range(5)


class Models(NamedTuple):
    """The models, and the requests that they are about."""

    context: Annotated[Array, "D"]  # columns of the request, or of the one that is reported
    here: Annotated[Array, "D"]  # the same, standardised
    centre: Annotated[Array, "D"]  # the columns' means
    unit: Annotated[Array, "D"]  # 1 / deviation; 0 for a column that did not vary
    stretch: Annotated[Array, "D"]  # workspace
    offset: Annotated[Array, "D"]  # workspace
    column: Annotated[Array, "D"]  # workspace
    square: Annotated[Array, "D", "D"]  # workspace
    ridge: Annotated[Array, "C", 4]
    common: Annotated[Array, "C", "D"]  # slopes of all arms, over the usual outcome
    pulls: Annotated[Array, "K"]  # as far as they are learned
    totals: Annotated[Array, "K", "C"]
    gram: Annotated[Array, "K", "C", "D", "D"]
    inverse: Annotated[Array, "K", "C", "D", "D"]
    moments: Annotated[Array, "K", "D", "C"]
    slopes: Annotated[Array, "K", "D", "C"]
    squares: Annotated[Array, "K", "C"]  # sums of squared outcomes
    noise: Annotated[Array, "K", "C"]  # variance of an outcome around its expectation
    usual: Annotated[Array, "K", "C"]  # outcome of the average request
    clock: Annotated[Array, 5]  # see above
    recent: Annotated[Array, "D", 256]  # columns of recent requests
    means: Annotated[Array, "K", "C", 256]  # their expected cost, reward and net penalties


def is_learned(state: State, arm: int, channel: int) -> bool:
    """Whether an arm's outcome is neither known nor follows from another one."""
    channels = len(state.remaining) + 1
    if state.known[arm * channels + channel] >= 0.0:
        return False
    return channel < 2 or state.weights[arm * (channels - 2) + channel - 2] < 0.0


def begin_models(state: State, models: Models, types: int) -> None:
    """The models without reports; the window holds one average request."""
    for channel in range(len(state.remaining) + 1):
        for place in range(4):
            models.ridge[4 * channel + place] = _prior_ridge(models, place % 2, types)
    models.clock[SEEN] = 1.0
    models.recent[0] = 1.0
    refresh(state, models, types)
    predict(state, models, 0, 1)


# Reports.


def learn_report(state: State, models: Models, arm: int, types: int) -> None:
    """Learn from the outcomes that were added to an arm, for the request in ``context``.

    A decision with pulls in flight looks at a copy of the state; nothing is learned there.
    """
    if state.flying[0] > 0.0:
        return
    weight, channels = state.pulls[arm] - models.pulls[arm], len(state.remaining) + 1
    models.pulls[arm] = state.pulls[arm]
    stale = models.clock[STALE] + RENEWED * min(LATE / max(models.clock[REPORTS], 1.0), 1.0)
    first, last = int(models.clock[STALE]) // BLOCK * BLOCK, int(stale) // BLOCK * BLOCK
    if weight > 0.0:
        _remember(models)
        if models.clock[REPORTS] >= models.clock[NEXT] or _varies_now(models):
            refresh(state, models, types)
            first, last = 0, int(models.clock[SEEN])
            stale = float(last // RENEWED * RENEWED)
        models.clock[REPORTS] += weight
        standardise(models)
    for channel in range(channels):
        at = arm * channels + channel
        gained = state.totals[at] - models.totals[at]
        models.totals[at] = state.totals[at]
        if weight > 0.0 and is_learned(state, arm, channel):
            _add(models, arm, channel, channels, weight, max(gained / weight, 0.0))
    if weight > 0.0:
        if last > first:
            predict(state, models, first, last)
        models.clock[STALE] = stale % RECENT


def _varies_now(models: Models) -> bool:
    """Whether a column that did not vary before has another value now."""
    varies = False
    for j in range(1, len(models.context)):
        away = abs(models.context[j] - models.centre[j])
        if models.unit[j] == 0.0 and away > ALIKE * abs(models.centre[j]):
            varies = True
    return varies


def standardise(models: Models) -> None:
    """The columns of the request, standardised."""
    for j in range(len(models.here)):
        away = (models.context[j] - models.centre[j]) * models.unit[j]
        models.here[j] = min(max(away, -FAR), FAR)
    models.here[0] = 1.0


def _add(
    models: Models, arm: int, channel: int, channels: int, weight: float, outcome: float
) -> None:
    """Add an outcome to an arm's model, by Sherman and Morrison's formula."""
    here, column, size = models.here, models.column, len(models.here)
    at = arm * channels + channel
    start, first, usual = at * size * size, arm * size * channels + channel, models.usual[at]
    expected = 0.0
    for j in range(size):
        expected += models.slopes[first + j * channels] * here[j]
    if usual > 0.0 and channel != 1:
        weight *= usual / max(expected, FLOOR * usual)
    times(models.inverse, start, here, column)
    spread = 0.0
    for j in range(size):
        spread += here[j] * column[j]
    gain = weight / (1.0 + weight * spread)
    for i in range(size):
        row, by, of = start + i * size, weight * here[i], gain * column[i]
        for j in range(size):
            models.gram[row + j] += by * here[j]
        for j in range(size):
            models.inverse[row + j] -= of * column[j]
    for j in range(size):
        models.moments[first + j * channels] += weight * outcome * here[j]
        models.slopes[first + j * channels] += gain * column[j] * (outcome - expected)
    models.squares[at] += weight * outcome * outcome


def times(matrix: Array, start: int, vector: Array, product: Array) -> None:
    """The product of a symmetric matrix, which starts at a place, and a vector."""
    size = len(vector)
    for j in range(size):
        product[j] = 0.0
    for i in range(size):
        row, by = start + i * size, vector[i]
        for j in range(size):
            product[j] += matrix[row + j] * by


def _remember(models: Models) -> None:
    """Put the request into the window, in place of the oldest one."""
    place, clock = int(models.clock[PLACE]), models.clock
    for j in range(len(models.context)):
        models.recent[j * RECENT + place] = models.context[j]
    clock[PLACE] = (place + 1) % RECENT
    clock[SEEN] = max(clock[SEEN], place + 1.0)


# Expectations.


def expect(state: State, models: Models, arm: int, channel: int) -> float:
    """The expected outcome of an arm for the request, in a channel that is learned."""
    channels, size = len(state.remaining) + 1, len(models.here)
    first, expected = arm * size * channels + channel, 0.0
    for j in range(size):
        expected += models.slopes[first + j * channels] * models.here[j]
    return bounded(models, arm * channels + channel, channel, expected)


def usual_outcome(state: State, models: Models, arm: int, channel: int) -> tuple[float, float]:
    """An arm's outcome for the average request, and the variance of the belief about it."""
    channels, size, share = len(state.remaining) + 1, len(models.here), 1.0
    at = arm * channels + channel
    if channel >= 2 and state.weights[arm * (channels - 2) + channel - 2] >= 0.0:
        share = state.weights[arm * (channels - 2) + channel - 2]
        channel = int(state.sources[channel - 2])
        at = arm * channels + channel
    if state.known[at] >= 0.0:
        return share * state.known[at], 0.0
    mean = bounded(models, at, channel, models.slopes[arm * size * channels + channel])
    return share * mean, share * share * models.noise[at] * models.inverse[at * size * size]


def bounded(models: Models, at: int, channel: int, expected: float) -> float:
    """An expectation within [0, 1]; a cost or penalty is not far below the usual one."""
    least = 0.0 if channel == 1 else FLOOR * models.usual[at]
    return min(max(expected, least), 1.0)


def predict(state: State, models: Models, first: int, last: int) -> None:
    """The expected outcomes of some requests of the window."""
    channels, count = len(state.remaining) + 1, len(state.pulls)
    for arm in range(count):
        for channel in range(channels):
            at = arm * channels + channel
            if is_learned(state, arm, channel):
                _predict_learned(models, arm, channel, channels, first, last)
            elif state.known[at] >= 0.0:
                for n in range(first, last):
                    models.means[at * RECENT + n] = state.known[at]
            else:
                share = state.weights[arm * (channels - 2) + channel - 2]
                source = arm * channels + int(state.sources[channel - 2])
                for n in range(first, last):
                    models.means[at * RECENT + n] = share * models.means[source * RECENT + n]
        for m in range(channels - 2):
            base, limit = state.bases[m], state.limits[m]
            if base != 0.0:
                cost, place = arm * channels * RECENT, (arm * channels + 2 + m) * RECENT
                for n in range(first, last):
                    reward, penalty = models.means[cost + RECENT + n], models.means[place + n]
                    net = net_penalty(base, limit, 1.0, models.means[cost + n], reward, penalty)
                    models.means[place + n] = net


def _predict_learned(
    models: Models, arm: int, channel: int, channels: int, first: int, last: int
) -> None:
    """The same of a channel that is learned: slopes in the columns' own units."""
    size, at = len(models.here), arm * channels + channel
    start, place = arm * size * channels + channel, at * RECENT
    constant = models.slopes[start]
    for j in range(1, size):
        models.column[j] = models.slopes[start + j * channels] * models.unit[j]
        constant -= models.column[j] * models.centre[j]
    for n in range(first, last):
        models.means[place + n] = constant
    for j in range(1, size):
        slope, row = models.column[j], j * RECENT
        for n in range(first, last):
            models.means[place + n] += slope * models.recent[row + n]
    least = 0.0 if channel == 1 else FLOOR * models.usual[at]
    for n in range(first, last):
        models.means[place + n] = min(max(models.means[place + n], least), 1.0)


# Everything again.


def refresh(state: State, models: Models, types: int) -> None:
    """Compute ridges, standardisation and models again."""
    channels, clock = len(state.remaining) + 1, models.clock
    for channel in range(channels):
        _find_ridge(state, models, channel, channels, types)
    _find_frame(models, types)
    for at in range(len(state.pulls) * channels):
        if models.gram[at * len(models.here) * len(models.here)] > 0.0:
            _move(models, at // channels, at % channels, channels)
    for channel in range(channels):
        _find_common(state, models, channel, channels, types)
        for arm in range(len(state.pulls)):
            if is_learned(state, arm, channel):
                _solve(state, models, arm, channel, channels, types)
    clock[NEXT] = clock[REPORTS] + max(clock[REPORTS] / 8.0, 1.0)


def _prior_ridge(models: Models, group: int, types: int) -> float:
    """The ridge at which features, or types, explain ``EXPLAINED`` times the noise."""
    features = len(models.here) - 1 - types
    return 1.0 / EXPLAINED if group == 1 else features / EXPLAINED


def _group(models: Models, j: int, types: int) -> int:
    """0 of a feature's column, 1 of a type's."""
    return 0 if j < len(models.here) - types else 1


def _find_ridge(state: State, models: Models, channel: int, channels: int, types: int) -> None:
    """The ridges of a channel: slopes that the reports determine, over their squares in noise."""
    size = len(models.here)
    for group in range(2 if types > 0 else 1):
        place = 4 * channel + OWN + group
        ridge = models.ridge[place]
        known, squares = PRIOR, PRIOR / _prior_ridge(models, group, types)
        for arm in range(len(state.pulls)):
            at = arm * channels + channel
            if models.gram[at * size * size] > 0.0 and models.noise[at] > 0.0:
                for j in range(1, size):
                    if _group(models, j, types) == group and models.unit[j] > 0.0:
                        away = models.slopes[(arm * size + j) * channels + channel]
                        away -= models.usual[at] * models.common[channel * size + j]
                        own = models.inverse[(at * size + j) * size + j]
                        known += max(1.0 - ridge * own, 0.0)
                        squares += away * away / models.noise[at]
        models.ridge[place] = min(max(known / squares, LEAST_RIDGE), MOST_RIDGE)


def _find_frame(models: Models, types: int) -> None:
    """Standardise by the window; how the old standardised columns become the new ones."""
    seen, size = int(models.clock[SEEN]), len(models.here)
    models.stretch[0], models.offset[0] = 1.0, 0.0
    for j in range(1, size):
        total = square = 0.0
        for n in range(seen):
            total += models.recent[j * RECENT + n]
        mean = total / seen
        for n in range(seen):
            away = models.recent[j * RECENT + n] - mean
            square += away * away
        deviation, unit = math.sqrt(square / seen), models.unit[j]
        if _group(models, j, types) == 1:
            deviation = 1.0
        if deviation > ALIKE * abs(mean):
            unit = 1.0 / deviation
        old = models.unit[j]
        models.stretch[j] = unit / old if old > 0.0 else 0.0
        models.offset[j] = (models.centre[j] - mean) * unit
        models.centre[j], models.unit[j] = mean, unit


def _move(models: Models, arm: int, channel: int, channels: int) -> None:
    """The sums of a model, for columns that are standardised anew: z becomes stretch z + offset.

    A column is forgotten where past requests are farther away than ``FAR``: one value far from all
    others, or a feature that drifts, such as a time.
    """
    size, column = len(models.here), models.column
    start, first = (arm * channels + channel) * size * size, arm * size * channels + channel
    for i in range(size):
        column[i] = models.gram[start + i * size]
    for i in range(size):
        by, to, row = models.stretch[i], models.offset[i], start + i * size
        for j in range(size):
            moved = by * models.stretch[j] * models.gram[row + j]
            moved += by * models.offset[j] * column[i] + to * models.stretch[j] * column[j]
            models.gram[row + j] = moved + to * models.offset[j] * column[0]
    zeroth = models.moments[first]
    for j in range(1, size):
        at = first + j * channels
        models.moments[at] = models.stretch[j] * models.moments[at] + models.offset[j] * zeroth
        if models.gram[start + j * size + j] > FAR * FAR * models.gram[start]:
            models.moments[at] = 0.0
            for i in range(size):
                models.gram[start + j * size + i] = models.gram[start + i * size + j] = 0.0


def _find_common(state: State, models: Models, channel: int, channels: int, types: int) -> None:
    """What the columns do to all arms: slopes of outcomes over the usual ones."""
    size, square, column = len(models.here), models.square, models.column
    if models.clock[REPORTS] == 0.0:
        return
    for i in range(size):
        column[i] = 0.0
        for j in range(size):
            square[i * size + j] = 0.0
        ridge = models.ridge[4 * channel + COMMON + _group(models, i, types)]
        square[i * size + i] = ridge if i > 0 else 1.0
    for arm in range(len(state.pulls)):
        at = arm * channels + channel
        start, first, usual = at * size * size, arm * size * channels + channel, models.usual[at]
        total = models.gram[start]
        if total > 0.0 and usual > 0.0 and is_learned(state, arm, channel):
            weight = usual * usual / models.noise[at]
            mean = models.moments[first] / total
            for i in range(1, size):
                row, share = start + i * size, models.gram[start + i] / total
                moment = models.moments[first + i * channels] - models.gram[start + i] * mean
                column[i] += weight / usual * moment
                for j in range(1, size):
                    apart = models.gram[row + j] - share * models.gram[start + j]
                    square[i * size + j] += weight * apart
    invert(square, 0, size)
    times(square, 0, column, models.stretch)
    for i in range(size):
        models.common[channel * size + i] = models.stretch[i]
    for group in range(2 if types > 0 else 1):
        place = 4 * channel + COMMON + group
        known, squares = PRIOR, PRIOR / _prior_ridge(models, group, types)
        for j in range(1, size):
            if _group(models, j, types) == group and models.unit[j] > 0.0:
                known += max(1.0 - models.ridge[place] * square[j * size + j], 0.0)
                squares += models.stretch[j] * models.stretch[j]
        models.ridge[place] = min(max(known / squares, LEAST_RIDGE), MOST_RIDGE)


def invert(matrix: Array, start: int, size: int) -> None:
    """Invert a sum of squares and ridges in place (Gauss and Jordan).

    Its pivots are at least the ridges, but for rounding.
    """
    for p in range(size):
        pivot_row = start + p * size
        pivot = 1.0 / max(matrix[pivot_row + p], LEAST_RIDGE)
        matrix[pivot_row + p] = 1.0
        for j in range(size):
            matrix[pivot_row + j] *= pivot
        for i in range(size):
            if i != p:
                row = start + i * size
                factor = matrix[row + p]
                matrix[row + p] = 0.0
                for j in range(size):
                    matrix[row + j] -= factor * matrix[pivot_row + j]


def _size_of(state: State, channel: int, channels: int) -> float:
    """The size of outcomes other than 0 in a channel, over all arms; 1 if there were none."""
    total = square = 0.0
    for other in range(len(state.pulls)):
        total += state.totals[other * channels + channel]
        square += state.squares[other * channels + channel]
    return square / total if total > 0.0 else 1.0


def _solve(state: State, models: Models, arm: int, channel: int, channels: int, types: int) -> None:
    """The model of an arm's channel from its sums."""
    size, at = len(models.here), arm * channels + channel
    start, first = at * size * size, arm * size * channels + channel
    scale = _size_of(state, channel, channels)
    guess, worth = 0.5 * scale, GUESS
    if channel >= 2:
        guess = min(guess, _allowed(state, models, arm, channel - 2, channels))
    if state.expected[at] >= 0.0:
        guess, worth = state.expected[at], DECLARED
    usual = (state.totals[at] + worth * guess) / (state.pulls[arm] + worth)
    if models.gram[start] > 0.0 and models.slopes[first] > 0.0:
        usual = max(models.slopes[first], FLOOR * usual)
    left = models.squares[at]
    for i in range(size):
        for j in range(size):
            models.inverse[start + i * size + j] = models.gram[start + i * size + j]
        ridge = models.ridge[4 * channel + OWN + _group(models, i, types)] if i > 0 else worth
        prior = usual * models.common[channel * size + i] if i > 0 else guess
        models.inverse[start + i * size + i] += ridge
        models.column[i] = models.moments[first + i * channels] + ridge * prior
        left += ridge * prior * prior
    if models.gram[start] > 0.0:
        invert(models.inverse, start, size)
    else:  # without reports there are only ridges
        for i in range(size):
            models.inverse[start + i * size + i] = 1.0 / models.inverse[start + i * size + i]
    times(models.inverse, start, models.column, models.stretch)
    for i in range(size):
        models.slopes[first + i * channels] = models.stretch[i]
        left -= models.column[i] * models.stretch[i]
    if channel != 1 and state.totals[at] > 0.0:
        scale = state.squares[at] / state.totals[at]  # costs and penalties of arms differ in size
    noise = (max(left, 0.0) + 0.25 * scale * scale) / (state.pulls[arm] + 1.0)
    models.noise[at] = max(noise, LEAST * scale * scale)
    models.usual[at] = bounded(models, at, 1, usual)


def _allowed(state: State, models: Models, arm: int, m: int, channels: int) -> float:
    """What limit m allows a pull of the usual cost and reward."""
    base, first = state.bases[m], arm * channels
    if base > 0.0:
        return base * state.limits[m]  # type: ignore[no-any-return]
    usual = models.usual[first + 1] if base < 0.0 else models.usual[first]
    known = state.known[first + 1] if base < 0.0 else state.known[first]
    per_pull = known if known >= 0.0 else usual
    return state.limits[m] * per_pull * (-base if base < 0.0 else 1.0)  # type: ignore[no-any-return]
