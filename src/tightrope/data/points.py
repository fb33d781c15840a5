"""A log of numbers, such as bids, over few points of its interval: a smooth fit of its rows.

The rows of neighbouring numbers are gathered at a point, the mean of their numbers; between two
points a pull draws rows of either, so means are linear. The number of points is the next larger
one than that which predicts held-out rows best (half of the rows predict the other half). The best
prediction has a bias as large as its noise, which standard errors do not cover. Between half as
distant points the bias is a quarter, and the noise 1.4 times as large (undersmoothing). Letters: K
numbers of the grid, J points, C outcomes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tightrope.callers import warn_caller
from tightrope.data.log import Log, has_features
from tightrope.errors import InputError, LogWarning
from tightrope.problem import Arm, Interval, Problem, Space
from tightrope.problem.curves import stated_arms
from tightrope.problem.spaces import space_of
from tightrope.problem.values import Floats

COUNTS = (2, 3, 5, 9, 17, 33, 65)  # of points
CELLS = {1: (5, 9, 17, 33), 2: (7, 9, 13, 17, 21), 3: (9, 11)}  # points of a side, by the sides
LEAST_ROWS = 30  # of a point, on average
FAR = 0.1  # of the interval without rows at an end, from which to warn
Places = npt.NDArray[np.int64]


def over_points(log: Log) -> Log:
    """The log whose arms are points of its interval; raises if all rows have the same number.

    Of a box, or with features, its space is then a coarser grid, and arms are its points with rows.
    """
    space = log.space
    assert space is not None
    if not isinstance(space, Interval):
        return _over_cells(log, space)
    numbers, counts = np.array(space.axes[0]), log.counts
    if np.count_nonzero(counts) < 2:
        raise InputError(
            f"arm {space.name!r}: every row has {log.arms[int(counts.argmax())]}; must have"
            " different numbers"
        )
    _warn_of_ends(space, numbers[counts > 0])
    if has_features(log):
        return _over_cells(log, space)
    groups = _best_groups(log, numbers)
    used = np.unique(groups[counts > 0])
    centres = _means(groups, counts, counts * numbers)[used]
    places = [int(np.abs(numbers - centre).argmin()) for centre in centres]
    chosen = np.searchsorted(used, groups[log.chosen])
    return replace(log, arms=tuple(space.arms[k] for k in places), chosen=chosen)


def _over_cells(log: Log, space: Space) -> Log:
    """The log over the grid whose cells predict held-out rows best, from the coarsest one on."""
    halves = np.random.default_rng(0).permutation(len(log)) % 2
    scales = np.where(np.ptp(log.outcomes, axis=1) > 0.0, log.outcomes.var(axis=1), np.inf)
    best, found = np.inf, log
    for count in CELLS[space.side_count]:
        few = len(log) < LEAST_ROWS * count**space.side_count
        if count > (space.points or 0) or (few and best < np.inf):
            break
        coarse = cast(Space, space_of({**space.table(), "points": count}))
        nearest = np.array([coarse.number_of(point) for point in space.grid])
        there = replace(log, chosen=nearest[log.chosen], space=coarse)
        sums = [_sums(there, halves == half, len(coarse)) for half in (0, 1)]
        error = sum(_cell_error(sums[half], sums[1 - half], scales) for half in (0, 1))
        if error < best:
            best, found = error, there
    used, chosen = np.unique(found.chosen, return_inverse=True)
    names = cast(Space, found.space).arms
    if len(used) < 2:
        raise InputError(f"arm {names[used[0]]}: has every row; must have different numbers")
    arms = tuple(names[k] for k in used)
    return replace(found, arms=arms, chosen=np.asarray(chosen, np.int64))


def _cell_error(seen: Floats, other: Floats, scales: Floats) -> float:
    """As ``_error``, where each cell predicts its own rows; one without rows, the mean of all."""
    usual = seen[1:].sum(axis=1, keepdims=True) / seen[0].sum()
    guess = (seen[1:] + usual) / (seen[0] + 1.0)
    return float(((guess * (guess * other[0] - 2.0 * other[1:])).sum(axis=1) / scales).sum())


def laid_over(space: Space, arms: Sequence[Arm]) -> dict[Any, Arm]:
    """Arms by their points; in a box all of its points: those without an arm have the nearest."""
    places = {tuple(map(float, arm.name.split(","))): arm for arm in arms}
    if space.side_count == 1:
        return {point: arm for (point,), arm in places.items()}
    near = space.nearest([space.number_of(place) for place in places])
    return {point: arms[k] for point, k in zip(space.grid, near.tolist(), strict=True)}


def _warn_of_ends(space: Interval, seen: Floats) -> None:
    """Warn if an end of the interval has no rows."""
    width = FAR * (space.high - space.low)
    ends = [f"below {seen[0]:g}"] if seen[0] - space.low > width else []
    ends += [f"above {seen[-1]:g}"] if space.high - seen[-1] > width else []
    if ends:
        text = f"{space.name}: no rows {' or '.join(ends)}; there the nearest rows are drawn"
        warn_caller(text, LogWarning)


def _best_groups(log: Log, numbers: Floats) -> Places:
    """The group of every number, [K], of a division finer than the one that predicts best."""
    counts, most = log.counts, max(2, len(log) // LEAST_ROWS)
    halves = np.random.default_rng(0).permutation(len(log)) % 2
    sums = [_sums(log, halves == half, len(numbers)) for half in (0, 1)]
    varied = np.ptp(log.outcomes, axis=1) > 0.0
    scales = np.where(varied, log.outcomes.var(axis=1), np.inf)
    best, found, finer = np.inf, np.zeros(len(numbers), np.int64), False
    for count in COUNTS:
        groups = _groups(counts, count)
        if count > most or len(np.unique(groups[counts > 0])) < 2:
            continue
        if finer:
            found, finer = groups, False
        error = sum(_error(groups, numbers, sums[half], sums[1 - half], scales) for half in (0, 1))
        if error < best:
            best, found, finer = error, groups, True
    return found if np.isfinite(best) else np.asarray(np.arange(len(numbers)))


def _groups(counts: Places, count: int) -> Places:
    """Numbers in order, divided into so many groups, [K].

    Each has about as many rows, but the first and the last half as many: so the points are near
    the ends, outside of which the nearest one holds.
    """
    middle = np.cumsum(counts) - counts / 2
    return np.asarray(np.rint((count - 1) * middle / counts.sum()).astype(np.int64))


def _sums(log: Log, rows: npt.NDArray[np.bool_], count: int) -> Floats:
    """Of some rows the number, and the sums of the outcomes, by number, [1 + C, K]."""
    columns = [np.ones(len(log)), *log.outcomes]
    return np.array([np.bincount(log.chosen[rows], one[rows], count) for one in columns])


def _means(groups: Places, weights: Floats | Places, sums: Floats) -> Floats:
    """The mean of each group."""
    return np.asarray(np.bincount(groups, sums) / np.maximum(np.bincount(groups, weights), 1e-300))


def _error(groups: Places, numbers: Floats, seen: Floats, other: Floats, scales: Floats) -> float:
    """The squared error of the rows in ``other`` as predicted by those ``seen``, up to a constant.

    It is infinite if a group has no rows that are seen.
    """
    some = np.bincount(groups, seen[0]) > 0
    if not some[np.unique(groups[(seen + other)[0] > 0])].all():
        return float("inf")
    centres = _means(groups, seen[0], seen[0] * numbers)[some]
    total = 0.0
    for mine, theirs, scale in zip(seen[1:], other[1:], scales, strict=True):
        guess = np.interp(numbers, centres, _means(groups, seen[0], mine)[some])
        total += float(guess @ (guess * other[0] - 2.0 * theirs)) / scale
    return total


def at_points(problem: Problem, log: Log) -> Problem:
    """A problem over numbers as one with the arms of its log; any other unchanged.

    Means are linear between points, and points without rows repeat others: the best mixture stays.
    """
    if problem.space is None:
        return problem

    def points(arms: Sequence[Arm]) -> tuple[Arm, ...]:
        given = stated_arms(arms)
        return tuple(one for one in given if given is not arms or one.name in log.arms)

    arms, further = points(problem.arms), tuple(map(points, problem.further))
    return replace(problem, arms=arms, further=further, space=None)
