"""Learning linear models: ridge regressions of every arm and channel, see ``parts.linear``.

The model of an arm's outcome in a channel is a ridge regression on the columns z:

    slopes = (G + L)^-1 (b + L p),  G = sum w z z',  b = sum w y z,

with the ridge L, p what is believed without reports, and the weight w = (usual outcome) / (expected
outcome): the noise of an outcome grows with its expectation, as that of counts and dollars does.

- *Intercept.* L is the weight of a guess, in pulls; p is the guess.
- *Slopes.* L is the variance of the noise over that of the slopes, one for features and one for
  types. Evidence maximisation (MacKay 1992) chooses it, over all arms. p is the usual outcome times
  a vector that all arms have in common, itself a ridge regression over all arms: what is hard for
  one arm tends to be hard for the others.

A report is added to G and b, in O(D^2). An arm's models are solved again whenever its reports have
grown by ``GROWTH``, in O(D^3), and corrected with the last factors in between, in O(D^2). Whenever
all reports have grown by ``REFRESH``, standardisation, ridges and the common vector are computed
again too.

Letters as in ``parts.linear``.
"""

from __future__ import annotations

import math

from tightrope.policies.parts.linear import (
    FAR,
    FLOOR,
    LATER,
    NEXT,
    PLACE,
    RECENT,
    REPORTS,
    SEEN,
    STILL,
    STRIDE,
    USED,
    Models,
    bounded,
    is_learned,
    predict_arm,
    predict_new,
    standardise,
)
from tightrope.policies.parts.matrices import (
    add_squares,
    dot,
    factor,
    row_dot,
    solve_factored,
    squares_of_inverse,
    times,
    total,
)
from tightrope.policies.state import State
from tightrope.problem.ridge import EXPLAINED, LEAST_RIDGE, MOST_RIDGE, PRIOR

WAITING = 8  # requests that wait for ``gram``
# Growth of an arm's reports until its models are solved, and corrected; of all until a refresh.
GROWTH, SOON, REFRESH = 1 / 4, 1 / 16, 1 / 4
SOONEST = 16.0  # reports until a correction, at least
SPAN = 16.0  # the window spans one in so many of the requests so far, if there were many
GUESS, DECLARED = 1.0, 2.0  # pulls that a guess of a mean is worth; a declared one
LOST = 1e6  # deviations: a column whose mean moves by more is forgotten
LEAST = 1e-12  # guards quotients
ALIKE = 1e-9  # of a value: the difference of values that are the same, but for rounding
OWN, COMMON = 0, 2  # places in ``ridge``: of an arm's slopes, of what arms have in common


def begin_models(state: State, models: Models, features: int, types: int) -> None:
    """The models without reports; the window holds one average request."""
    for channel in range(len(state.remaining) + 1):
        for place in range(4):
            models.ridge[4 * channel + place] = prior_ridge(channel, place % 2, features)
    models.clock[SEEN], models.clock[USED] = 1.0, 1.0 + features + types
    models.recent[0] = 1.0
    refresh(state, models, features)


# Reports.


def learn_report(state: State, models: Models, arm: int, features: int) -> int:
    """Learn from the outcomes that were added to an arm, for the request in ``context``.

    A decision with pulls in flight looks at a copy of the state; no model learns there.
    Returns of how many arms beliefs must be computed again: none, this one or all of them.
    """
    if state.flying[0] > 0.0:
        return 1
    changed, shown = 1, False
    weight, channels = state.pulls[arm] - models.pulls[arm], len(state.remaining) + 1
    models.pulls[arm] = state.pulls[arm]
    if weight > 0.0:
        changed, varies = 0, varies_now(models)
        if varies or models.clock[REPORTS] >= models.clock[LATER]:
            remember(models)
            shown = True
        if varies or models.clock[REPORTS] >= models.clock[NEXT]:
            refresh(state, models, features)
            changed = len(state.pulls)
        models.clock[REPORTS] += weight
        standardise(models)
    for channel in range(channels):
        at = arm * channels + channel
        gained = state.totals[at] - models.totals[at]
        models.totals[at] = state.totals[at]
        if weight > 0.0 and is_learned(state, arm, channel):
            add_outcome(models, arm, channel, channels, weight, max(gained / weight, 0.0))
    if weight > 0.0:
        add_request(models, arm, channels)
        if models.pulls[arm] >= models.due[2 * arm]:
            solve(state, models, arm, features)
            changed = max(changed, 1)
        elif models.pulls[arm] >= models.due[2 * arm + 1]:
            correct(state, models, arm, features)
            changed = max(changed, 1)
        if shown:
            predict_new(state, models)
    return changed


def varies_now(models: Models) -> bool:
    """Whether a column that did not vary before has another value now."""
    varies = False
    if models.clock[STILL] > 0.0:
        for j in range(1, len(models.context)):
            away = abs(models.context[j] - models.centre[j])
            if models.unit[j] == 0.0 and away > ALIKE * abs(models.centre[j]):
                varies = True
    return varies


def add_outcome(
    models: Models, arm: int, channel: int, channels: int, weight: float, outcome: float
) -> None:
    """Keep an outcome for the sums of an arm's model, see ``add_request``."""
    place = WAITING * (arm * channels + channel) + int(models.count[arm])
    models.weights[place], models.told[place] = weight, outcome


def add_request(models: Models, arm: int, channels: int) -> None:
    """Keep the request of these outcomes: several at once take less time than one by one."""
    size = len(models.here)
    first = (WAITING * arm + int(models.count[arm])) * size
    for j in range(0, size, 8):
        models.waiting[first + j : first + j + 8] = models.here[j : j + 8]
    models.count[arm] += 1.0
    if models.count[arm] == WAITING:
        complete(models, arm, channels)


def complete(models: Models, arm: int, channels: int) -> None:
    """Add the requests that wait, and their outcomes, to an arm's sums.

    Slopes have not changed since they were reported.
    """
    size, used = len(models.here), int(models.clock[USED])
    first = arm * WAITING * size
    for channel in range(channels):
        at = arm * channels + channel
        if models.weights[WAITING * at] > 0.0:
            start, by = at * size * size, WAITING * at
            _add_moments(models, at, channel, first, int(models.count[arm]))
            add_squares(models.gram, start, size, used, models.waiting, first, models.weights, by)
            for n in range(WAITING):
                models.weights[by + n] = 0.0
    models.count[arm] = 0.0


def _add_moments(models: Models, at: int, channel: int, first: int, count: int) -> None:
    """Weigh the requests that wait, and add what was told of them, but for ``gram``."""
    size, by, moments = len(models.here), WAITING * at, models.moments
    usual, waiting, told = models.usual[at], models.waiting, models.told
    for n in range(by, by + count):
        weight, outcome = models.weights[n], told[n]
        if usual > 0.0 and channel != 1:
            expected = row_dot(models.slopes, at * size, waiting, first + (n - by) * size, size)
            weight *= usual / max(expected, FLOOR * usual)
        models.weights[n], told[n] = weight, weight * outcome
        models.squares[at] += weight * outcome * outcome
    for j in range(0, size, 8):
        sums, p = moments[at * size + j : at * size + j + 8], first + j
        for n in range(by, by + count):
            sums = sums + told[n] * waiting[p : p + 8]
            p += size
        moments[at * size + j : at * size + j + 8] = sums


def remember(models: Models) -> None:
    """Put the request into the window, in place of the oldest one; later ones see ``SPAN``."""
    place, clock = int(models.clock[PLACE]), models.clock
    for j in range(len(models.context)):
        models.recent[j * STRIDE + place] = models.context[j]
    clock[PLACE] = (place + 1) % RECENT
    clock[SEEN] = max(clock[SEEN], place + 1.0)
    clock[LATER] = clock[REPORTS] * (1.0 + 1.0 / (SPAN * RECENT))


# Everything again.


def refresh(state: State, models: Models, features: int) -> None:
    """Compute ridges, standardisation and models again."""
    channels, clock = len(state.remaining) + 1, models.clock
    for arm in range(len(state.pulls)):
        complete(models, arm, channels)
    for channel in range(channels):
        find_ridge(state, models, channel, features)
    find_frame(models, features)
    for at in range(len(state.pulls) * channels):
        if models.gram[at * len(models.here) * len(models.here)] > 0.0:
            _move(models, at)
    if clock[REPORTS] > 0.0:
        for channel in range(channels):
            _find_common(state, models, channel, features)
    for arm in range(len(state.pulls)):
        solve(state, models, arm, features)
    clock[NEXT] = clock[REPORTS] + max(REFRESH * clock[REPORTS], 1.0)


def prior_ridge(channel: int, group: int, features: int) -> float:
    """The ridge at which features, or types, explain ``EXPLAINED`` times the noise.

    Of rewards they explain half as much: dollars grow with a prompt's length, answers' quality is
    mostly noise.
    """
    explained = 0.5 * EXPLAINED if channel == 1 else EXPLAINED
    return 1.0 / explained if group == 1 else features / explained


def _group(j: int, features: int) -> int:
    """0 of a feature's column, 1 of a type's."""
    return 0 if j <= features else 1


def find_ridge(state: State, models: Models, channel: int, features: int) -> None:
    """The ridges of a channel: slopes that the reports determine, over their squares in noise."""
    size, channels = len(models.here), len(state.remaining) + 1
    own, used = 4 * channel + OWN, int(models.clock[USED])
    for group in range(2):
        models.known[group], models.explained[group] = (
            PRIOR,
            PRIOR / prior_ridge(channel, group, features),
        )
    for arm in range(len(state.pulls)):
        at = arm * channels + channel
        if models.gram[at * size * size] > 0.0 and models.noise[at] > 0.0:
            squares_of_inverse(models.factors, at * size * size, used, models.root, models.column)
            for j in range(1, size):
                if models.unit[j] > 0.0:
                    group, away = _group(j, features), models.slopes[at * size + j]
                    away -= models.usual[at] * models.common[channel * size + j]
                    determined = 1.0 - models.ridge[own + group] * models.column[j]
                    models.known[group] += max(determined, 0.0)
                    models.explained[group] += away * away / models.noise[at]
    for group in range(2):
        ridge = models.known[group] / models.explained[group]
        models.ridge[own + group] = min(max(ridge, LEAST_RIDGE), MOST_RIDGE)


def find_frame(models: Models, features: int) -> None:
    """Standardise by the window; how the old standardised columns become the new ones."""
    seen, used = int(models.clock[SEEN]), int(models.clock[USED])
    models.stretch[0], models.offset[0], models.clock[STILL] = 1.0, 0.0, 0.0
    models.centre[0], models.unit[0] = 0.0, 1.0
    for j in range(1, len(models.here)):
        mean, unit = total(models.recent, j * STRIDE, seen) / seen, models.unit[j]
        for n in range(seen):
            models.away[n] = models.recent[j * STRIDE + n] - mean
        deviation = math.sqrt(dot(models.away, 0, models.away, 0, seen) / seen)
        if _group(j, features) == 1:
            deviation = 1.0
        if deviation > ALIKE * abs(mean):
            unit = 1.0 / deviation
        old = models.unit[j]
        models.stretch[j] = unit / old if old > 0.0 else 0.0
        models.offset[j] = (models.centre[j] - mean) * unit
        models.centre[j], models.unit[j] = mean, unit
        models.clock[STILL] += 1.0 if unit == 0.0 and j < used else 0.0


def _move(models: Models, at: int) -> None:
    """The sums of a model, for columns that are standardised anew: z becomes stretch z + offset.

    A column is forgotten where past requests are farther away than ``FAR``, one value far from all
    others, or a feature that drifts, such as a time; and where it moves by so much that rounding
    errors would be left.
    """
    size, column, gram, moments = len(models.here), models.column, models.gram, models.moments
    start, first = at * size * size, at * size
    for i in range(size):
        column[i] = gram[start + i * size]
    for i in range(size):
        by, to, row = models.stretch[i], models.offset[i], start + i * size
        mixed = by * column[i] + to * column[0]
        for j in range(0, size, 8):
            moved = by * gram[row + j : row + j + 8] + to * column[j : j + 8]
            moved = models.stretch[j : j + 8] * moved + mixed * models.offset[j : j + 8]
            gram[row + j : row + j + 8] = moved
    zeroth = moments[first]
    for j in range(1, size):
        moments[first + j] = models.stretch[j] * moments[first + j] + models.offset[j] * zeroth
        away = gram[start + j * size + j] > FAR * FAR * gram[start]
        if away or abs(models.offset[j]) > LOST:
            moments[first + j] = 0.0
            for i in range(size):
                gram[start + j * size + i] = gram[start + i * size + j] = 0.0


def _find_common(state: State, models: Models, channel: int, features: int) -> None:
    """What the columns do to all arms: slopes of outcomes over the usual ones."""
    size, channels, column = len(models.here), len(state.remaining) + 1, models.column
    place, common, used = 4 * channel + COMMON, channel * size, int(models.clock[USED])
    for i in range(size):
        column[i] = 0.0
        for j in range(size):
            models.square[i * size + j] = 0.0
        models.square[i * size + i] = models.ridge[place + _group(i, features)] if i > 0 else 1.0
    learned = False
    for arm in range(len(state.pulls)):
        at = arm * channels + channel
        if models.gram[at * size * size] > 0.0 and models.usual[at] > 0.0:
            _add_centred(models, at)
            learned = True
    if not learned:
        return
    factor(models.square, 0, size, used)
    solve_factored(models.square, 0, used, column, models.common, common)
    squares_of_inverse(models.square, 0, used, models.root, column)
    for group in range(2):
        known, squares = PRIOR, PRIOR / prior_ridge(channel, group, features)
        for j in range(1, size):
            if _group(j, features) == group and models.unit[j] > 0.0:
                known += max(1.0 - models.ridge[place + group] * column[j], 0.0)
                squares += models.common[common + j] * models.common[common + j]
        models.ridge[place + group] = min(max(known / squares, LEAST_RIDGE), MOST_RIDGE)


def _add_centred(models: Models, at: int) -> None:
    """Add the sums of a model, without its intercept and over its usual outcome."""
    size, gram, usual = len(models.here), models.gram, models.usual[at]
    start, first, total = at * size * size, at * size, gram[at * size * size]
    weight, mean = usual * usual / models.noise[at], models.moments[first] / total
    for i in range(size):
        models.stretch[i] = gram[start + i * size]
    for i in range(1, size):
        row, share = start + i * size, models.stretch[i] / total
        moment = models.moments[first + i] - models.stretch[i] * mean
        models.column[i] += weight / usual * moment
        for j in range(0, size, 8):
            apart = gram[row + j : row + j + 8] - share * models.stretch[j : j + 8]
            p = i * size + j
            models.square[p : p + 8] = models.square[p : p + 8] + weight * apart


def _size_of(state: State, channel: int, channels: int) -> float:
    """The size of outcomes other than 0 in a channel, over all arms; 1 if there were none."""
    total = square = 0.0
    for other in range(len(state.pulls)):
        total += state.totals[other * channels + channel]
        square += state.squares[other * channels + channel]
    return square / total if total > 0.0 else 1.0


def solve(state: State, models: Models, arm: int, features: int) -> None:
    """The models of an arm from their sums, and what they expect of the window."""
    complete(models, arm, len(state.remaining) + 1)
    for channel in range(len(state.remaining) + 1):
        if is_learned(state, arm, channel):
            solve_channel(state, models, arm, channel, features)
    models.due[2 * arm] = state.pulls[arm] + max(GROWTH * state.pulls[arm], 1.0)
    models.due[2 * arm + 1] = state.pulls[arm] + max(SOON * state.pulls[arm], SOONEST)
    predict_arm(state, models, arm, 0, int(models.clock[SEEN]))


def correct(state: State, models: Models, arm: int, features: int) -> None:
    """Move the slopes of an arm towards what its sums say now: one step with the last factors."""
    complete(models, arm, len(state.remaining) + 1)
    for channel in range(len(state.remaining) + 1):
        if is_learned(state, arm, channel):
            _add_prior(state, models, arm, channel, features)
            _step(models, arm * (len(state.remaining) + 1) + channel)
    models.due[2 * arm + 1] = state.pulls[arm] + max(SOON * state.pulls[arm], SOONEST)


def _step(models: Models, at: int) -> None:
    """One step of steepest descent, which never leads away from the solution."""
    size, used, column, offset = (
        len(models.here),
        int(models.clock[USED]),
        models.column,
        models.offset,
    )
    start, first, product, ridge = at * size * size, at * size, models.away, models.stretch
    for i in range(size):
        offset[i] = models.slopes[first + i]
    times(models.gram, start, used, offset, product)
    for i in range(used):
        column[i] -= product[i] + ridge[i] * offset[i]
    solve_factored(models.factors, start, used, column, offset, 0)
    times(models.gram, start, used, offset, product)
    gained, curved = dot(column, 0, offset, 0, used), dot(product, 0, offset, 0, used)
    for i in range(used):
        curved += ridge[i] * offset[i] * offset[i]
    share = gained / curved if curved > 0.0 else 0.0
    for i in range(used):
        models.slopes[first + i] += share * offset[i]


def _add_prior(state: State, models: Models, arm: int, channel: int, features: int) -> float:
    """The right side of a model's equations in ``column``, its ridges in ``stretch``.

    Returns the squares of what is believed without reports.
    """
    size, at = len(models.here), arm * (len(state.remaining) + 1) + channel
    guess, worth = _guess(state, models, arm, channel)
    squares = 0.0
    for i in range(size):
        ridge = models.ridge[4 * channel + OWN + _group(i, features)] if i > 0 else worth
        prior = models.usual[at] * models.common[channel * size + i] if i > 0 else guess
        models.stretch[i], models.column[i] = ridge, models.moments[at * size + i] + ridge * prior
        squares += ridge * prior * prior
    return squares


def _guess(state: State, models: Models, arm: int, channel: int) -> tuple[float, float]:
    """What is believed of the average request without reports, and its worth in pulls."""
    channels = len(state.remaining) + 1
    at = arm * channels + channel
    if state.expected[at] >= 0.0:
        return state.expected[at], DECLARED
    guess = 0.5 * _size_of(state, channel, channels)
    if channel >= 2:
        guess = min(guess, _allowed(state, models, arm, channel - 2, channels))
    return guess, GUESS


def solve_channel(state: State, models: Models, arm: int, channel: int, features: int) -> None:
    """The model of an arm's channel from its sums."""
    size, channels = len(models.here), len(state.remaining) + 1
    at, used = arm * channels + channel, int(models.clock[USED])
    start, first = at * size * size, at * size
    guess, worth = _guess(state, models, arm, channel)
    usual = (state.totals[at] + worth * guess) / (state.pulls[arm] + worth)
    if models.gram[start] > 0.0 and models.slopes[first] > 0.0:
        usual = max(models.slopes[first], FLOOR * usual)
    models.usual[at] = bounded(models, at, 1, usual)
    left = models.squares[at] + _add_prior(state, models, arm, channel, features)
    for p in range(start, start + used * size, 8):
        models.factors[p : p + 8] = models.gram[p : p + 8]
    for i in range(size):
        models.factors[start + i * size + i] += models.stretch[i]
    factor(models.factors, start, size, used)
    solve_factored(models.factors, start, used, models.column, models.slopes, first)
    left -= row_dot(models.column, 0, models.slopes, first, size)
    models.doubt[at] = models.factors[start] * models.factors[start]
    scale = _size_of(state, channel, channels)
    if channel != 1 and state.totals[at] > 0.0:
        scale = state.squares[at] / state.totals[at]  # costs and penalties of arms differ in size
    noise = (max(left, 0.0) + 0.25 * scale * scale) / (state.pulls[arm] + 1.0)
    models.noise[at] = max(noise, LEAST * scale * scale)


def _allowed(state: State, models: Models, arm: int, m: int, channels: int) -> float:
    """What limit m allows a pull of the usual cost and reward."""
    base, first = state.bases[m], arm * channels
    if base > 0.0:
        return base * state.limits[m]  # type: ignore[no-any-return]
    usual = models.usual[first + 1] if base < 0.0 else models.usual[first]
    known = state.known[first + 1] if base < 0.0 else state.known[first]
    per_pull = known if known >= 0.0 else usual
    return state.limits[m] * per_pull * (-base if base < 0.0 else 1.0)  # type: ignore[no-any-return]
