"""Linear models of every arm and channel over the features of requests, and what they expect.

A request has D *columns*: 1, its features, and one for each type, if it has a type (1 in its own,
0 in the others). They are standardised by the mean and deviation of recent requests; a column that
did not vary is 0. The last columns may be unused (see ``matrices``). ``parts.regression`` learns
the models. Letters: K arms, M limits, C = 2 + M channels. Everything is in normalised units;
``docs/contexts-theory.md`` derives the formulas.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from tightrope.policies.base import net_penalty
from tightrope.policies.parts.matrices import row_dot
from tightrope.policies.state import Array, State
from tightrope.problem import Task

# Requests in the window; numbers from one of its columns to the next, so that not all of them fall
# on the same lines of a processor's cache.
RECENT, STRIDE = 256, 264
BLOCK = 32  # of them whose expectations are computed at once, where the window is full
FLOOR = 0.1  # of the usual outcome: the least expected cost or penalty
FAR = 8.0  # deviations: a request farther from the mean counts as this
# Places in ``clock``: reports; how many at the next refresh; the next place in the window; requests
# in it; columns that are used; those of them that did not vary; reports when the next request is
# put into the window.
REPORTS, NEXT, PLACE, SEEN, USED, STILL, LATER = range(7)


class Models(NamedTuple):
    """The models, and the requests that they are about."""

    context: Annotated[Array, "D"]  # columns of the request, or of the one that is reported
    here: Annotated[Array, "D"]  # the same, standardised
    centre: Annotated[Array, "D"]  # the columns' means
    unit: Annotated[Array, "D"]  # 1 / deviation; 0 for one that did not vary, but for the first
    stretch: Annotated[Array, "D"]  # workspace
    offset: Annotated[Array, "D"]  # workspace
    column: Annotated[Array, "D"]  # workspace
    square: Annotated[Array, "D", "D"]  # workspace
    root: Annotated[Array, "D", "D"]  # workspace
    away: Annotated[Array, 256]  # workspace
    known: Annotated[Array, 2]  # workspace
    explained: Annotated[Array, 2]  # workspace
    ridge: Annotated[Array, "C", 4]
    common: Annotated[Array, "C", "D"]  # slopes of all arms, over the usual outcome
    pulls: Annotated[Array, "K"]  # as far as they are learned
    totals: Annotated[Array, "K", "C"]
    gram: Annotated[Array, "K", "C", "D", "D"]  # complete up to the diagonal
    waiting: Annotated[Array, "K", 8, "D"]  # requests that are not in it yet
    weights: Annotated[Array, "K", "C", 8]  # of these
    told: Annotated[Array, "K", "C", 8]  # their outcomes
    count: Annotated[Array, "K"]  # of these
    factors: Annotated[Array, "K", "C", "D", "D"]  # of G + L, see ``matrices.factor``
    moments: Annotated[Array, "K", "C", "D"]
    slopes: Annotated[Array, "K", "C", "D"]
    doubt: Annotated[Array, "K", "C"]  # variance of the first slope, over that of the noise
    due: Annotated[Array, "K", 2]  # pulls at which an arm is solved again, and corrected
    squares: Annotated[Array, "K", "C"]  # sums of squared outcomes
    noise: Annotated[Array, "K", "C"]  # variance of an outcome around its expectation
    usual: Annotated[Array, "K", "C"]  # outcome of the average request
    clock: Annotated[Array, 7]  # see above
    recent: Annotated[Array, "D", 264]  # columns of recent requests
    means: Annotated[Array, "K", "C", 256]  # their expected cost, reward and net penalties


def columns_of(task: Task) -> tuple[float, float]:
    """How many features and types the requests of a task have."""
    types = getattr(task.contexts, "types", 0)
    return float(task.feature_columns - 1 - types), float(types)


def is_learned(state: State, arm: int, channel: int) -> bool:
    """Whether an arm's outcome is neither known nor follows from another one."""
    channels = len(state.remaining) + 1
    if state.known[arm * channels + channel] >= 0.0:
        return False
    return channel < 2 or state.weights[arm * (channels - 2) + channel - 2] < 0.0


def standardise(models: Models) -> None:
    """The columns of the request, standardised."""
    here, size = models.here, len(models.here)
    for j in range(0, size, 8):
        away = models.context[j : j + 8] - models.centre[j : j + 8]
        here[j : j + 8] = away * models.unit[j : j + 8]
    if row_dot(here, 0, here, 0, size) > FAR * FAR:  # else nothing is far away
        for j in range(size):
            here[j] = min(max(here[j], -FAR), FAR)


# Expectations.


def expect(state: State, models: Models, arm: int, channel: int) -> float:
    """The expected outcome of an arm for the request, in a channel that is learned."""
    at, size = arm * (len(state.remaining) + 1) + channel, len(models.here)
    return bounded(models, at, channel, row_dot(models.slopes, at * size, models.here, 0, size))


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
    mean = bounded(models, at, channel, models.slopes[at * size])
    return share * mean, share * share * models.noise[at] * models.doubt[at]


def bounded(models: Models, at: int, channel: int, expected: float) -> float:
    """An expectation within [0, 1]; a cost or penalty is not far below the usual one."""
    least = 0.0 if channel == 1 else FLOOR * models.usual[at]
    return min(max(expected, least), 1.0)


def predict_new(state: State, models: Models) -> None:
    """The expected outcomes of the last requests of the window."""
    last = (int(models.clock[PLACE]) + RECENT - 1) % RECENT + 1
    if models.clock[SEEN] < RECENT:
        predict(state, models, last - 1, last)
    elif last % BLOCK == 0:
        predict(state, models, last - BLOCK, last)


def predict(state: State, models: Models, first: int, last: int) -> None:
    """The expected outcomes of some requests of the window, from a multiple of eight on."""
    for arm in range(len(state.pulls)):
        predict_arm(state, models, arm, first // 8 * 8, last)


def predict_arm(state: State, models: Models, arm: int, first: int, last: int) -> None:
    """The same of an arm."""
    channels, means = len(state.remaining) + 1, models.means
    for channel in range(channels):
        at = arm * channels + channel
        if is_learned(state, arm, channel):
            _predict_learned(models, at, channel, first, last)
        elif state.known[at] >= 0.0:
            for n in range(first, last):
                means[at * RECENT + n] = state.known[at]
        else:
            share = state.weights[arm * (channels - 2) + channel - 2]
            source = arm * channels + int(state.sources[channel - 2])
            for n in range(first, last):
                means[at * RECENT + n] = share * means[source * RECENT + n]
    for m in range(channels - 2):
        base, limit = state.bases[m], state.limits[m]
        if base != 0.0:
            cost, place = arm * channels * RECENT, (arm * channels + 2 + m) * RECENT
            for n in range(first, last):
                reward, penalty = means[cost + RECENT + n], means[place + n]
                net = net_penalty(base, limit, 1.0, means[cost + n], reward, penalty)
                means[place + n] = net


def _predict_learned(models: Models, at: int, channel: int, first: int, last: int) -> None:
    """The same of a channel that is learned: slopes in the columns' own units."""
    size, used, column, recent = (
        len(models.here),
        int(models.clock[USED]),
        models.column,
        models.recent,
    )
    place, slopes, means = at * RECENT, models.slopes, models.means
    for j in range(0, size, 8):
        p = at * size + j
        column[j : j + 8] = slopes[p : p + 8] * models.unit[j : j + 8]
    column[0] = 0.0
    column[0] = slopes[at * size] - row_dot(column, 0, models.centre, 0, size)
    least = 0.0 if channel == 1 else FLOOR * models.usual[at]
    for n in range(first, last, 8):
        sums = column[0] * recent[n : n + 8]
        for j in range(1, used):
            p = j * STRIDE + n
            sums = sums + column[j] * recent[p : p + 8]
        means[place + n : place + n + 8] = sums
    for n in range(first, last):
        means[place + n] = min(max(means[place + n], least), 1.0)
