"""The best mixture over all numbers of an interval or a box, by refinement of its grid.

At the multipliers lambda and the reward rate V of the best mixture of the points known so far,

    h = R - lambda (Y - c X) - V X

of a pull is at most 0 at every point, and a mixture with h > 0 gains at most h / X. With types, the
gain is the largest mean of h over that of X that any choice for each type has. So the bound on h in
the cells between the points bounds what any numbers can earn. A cell whose bound is above the best
value so far is halved along every side, again and again. The new points join the linear program,
which gives new prices, until what is earned and the bound meet.

In a cell, h exceeds its corners by at most half its second difference along each side: a smooth
curve by an eighth, one with a kink by up to half. Three points in a row can hide a peak or a jump,
so that at least a quarter of the second difference of the cell around it counts, and half of the
bound of that cell unless the corners are as close. At a jump the bound does not fall, but after
``HALVINGS`` the jump is between two numbers that hardly differ, and the larger value counts.

Letters: K points of the grid, n known points, T types (1 without), d sides, L cells.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tightrope.problem import Problem, Space
from tightrope.problem.arms import means_of
from tightrope.problem.curves import CurveArms
from tightrope.problem.mixtures import BestMixture
from tightrope.problem.values import Floats, Integers

CLOSE = 1e-7  # of the reward rate: a gain that is not worth a look
ROUNDS = 40  # of prices, at most
HALVINGS = 24  # of a cell of the grid, at most
CELLS = 256  # that are halved at a time, at most


class RefinedGrid:
    """The points known so far; those of the grid come first.

    ``moments``: of their rows, [T * n]. ``nearest`` [n]: the arm that is nearest to each.
    """

    def __init__(self, problem: Problem, space: Space) -> None:
        arms = list(problem.typed.values()) or [problem.arms]
        self.problem, self.space = problem, space
        # A function of the numbers for each type; none if only the points are known.
        self.curves = [one.curve for one in arms if isinstance(one, CurveArms)]
        if problem.known or len(self.curves) < len(arms):
            self.curves = []
        self.shares = np.array(list(problem.shares.values()) or [1.0])
        self.moments, self.points = problem.row_moments, list(space.grid)
        self.nearest = list(range(len(space)))
        self._told = [means_of(one) for one in arms]  # [T][n, C]
        self._ends = np.arange(space.points or 0) << HALVINGS  # the places of the grid on a side
        self._places = np.array(list(product(self._ends.tolist(), repeat=space.side_count)))
        self._at = {place: k for k, place in enumerate(map(tuple, self._places.tolist()))}

    def best(self) -> tuple[BestMixture, float]:
        """The best mixture of the rows, and by how much one of any numbers may exceed it."""
        best, bound = self._mixture(), math.inf
        for _ in range(ROUNDS):
            count = len(self.points)
            bound = min(bound, best.reward + self._look(best))
            best = self._mixture()
            if bound - best.reward <= 2.0 * CLOSE * bound or len(self.points) == count:
                break
        return best, max(bound - best.reward, 0.0)

    def _mixture(self) -> BestMixture:
        best = self.moments.best()
        assert best is not None  # the grid's points keep the limits
        return best

    def _value(self, best: BestMixture) -> Floats:
        """The value h of every known point, for each type, [T, n]."""
        moments = self.moments
        above = moments.reward_rate - (moments.penalty_rate - moments.limits) @ best.multiplier
        return ((above - best.reward) * moments.cost).reshape(len(self.shares), -1)

    def _look(self, best: BestMixture) -> float:
        """The largest gain at the prices of a mixture; adds the points where it may be."""
        sides, count, width = self.space.side_count, len(self.space), 1 << HALVINGS
        grid, value = (self.space.points or 0,) * sides, self._value(best)
        ends = _cells(np.arange(count).reshape(grid), sides)
        swell = before = bent = _bend_of_grid(value[:, :count].reshape(-1, *grid), sides)
        done = []  # the highest value and the lowest cost of cells that are not halved
        while len(ends):
            high, low = value[:, ends].max(axis=2), value[:, ends].min(axis=2)
            swell = np.maximum(np.maximum(bent, before / 4.0), np.minimum(swell / 2.0, high - low))
            cost = self.moments.cost.reshape(value.shape)[:, ends].min(axis=2)
            most = high + (swell if width > 1 else 0.0)
            enough = value.max(axis=1, keepdims=True) + CLOSE * best.reward * cost
            away = (most - enough).max(axis=0)
            first = np.argsort(-away, kind="stable")[:CELLS]
            halved = first[away[first] > 0.0] if self.curves and width > 1 else first[:0]
            done.append(np.delete([most, cost], halved, axis=2))
            width //= 2
            windows = self._windows(ends[halved, 0], width)
            value, ends = self._value(best), _cells(windows, sides)
            made = (_bend(value[:, windows], sides), bent[:, halved], swell[:, halved])
            bent, before, swell = np.repeat(made, 1 << sides, axis=2)
        return _gain(self.shares, *np.concatenate(done, axis=2))

    def _windows(self, lowest: Integers, width: int) -> Integers:
        """The points of the halves of L cells, [L, 3, ...], from their first corners [L]."""
        shape = (3,) * self.space.side_count
        steps = width * np.indices(shape).reshape(len(shape), -1).T
        places = self._places[lowest, np.newaxis] + steps
        wanted = list(map(tuple, places.reshape(-1, len(shape)).tolist()))
        self._add([place for place in dict.fromkeys(wanted) if place not in self._at])
        found = [self._at[place] for place in wanted]
        return np.array(found, np.int64).reshape(len(lowest), *shape)

    def _add(self, places: list[tuple[int, ...]]) -> None:
        """Evaluate the curves at new points."""
        if not places:
            return
        self._at |= {place: len(self.points) + k for k, place in enumerate(places)}
        self._places = np.concatenate([self._places, places])
        sides = zip(zip(*places, strict=True), self.space.axes, strict=True)
        numbers = [np.interp(some, self._ends, axis).tolist() for some, axis in sides]
        points = list(zip(*numbers, strict=True))
        self.points += points
        self.nearest += map(self.space.number_of, points)
        more = [means_of([curve(*point) for point in points]) for curve in self.curves]
        self._told = list(map(np.concatenate, zip(self._told, more, strict=True)))
        self.moments = self.problem.row_moments_of(self._told, self.nearest)


def _cells(points: Integers, sides: int) -> Integers:
    """The corners of all cells between points [..., 3, 3], the lowest first: [L, 2^d]."""
    last = tuple(range(-sides, 0))
    return sliding_window_view(points, (2,) * sides, axis=last).reshape(-1, 1 << sides)


def _bend(value: Floats, sides: int) -> Floats:
    """By how much h may exceed its corners: half its second differences, of [..., 3, 3]."""
    last = tuple(range(-sides, 0))
    bent = (np.maximum(-np.diff(value, 2, axis=side), 0.0).max(axis=last) for side in last)
    return np.asarray(0.5 * sum(bent))


def _bend_of_grid(value: Floats, sides: int) -> Floats:
    """By how much h may exceed the corners of each cell of the grid, [T, L], from all around."""
    last = tuple(range(-sides, 0))
    bent = _bend(sliding_window_view(value, (3,) * sides, axis=last), sides)
    near = np.pad(bent, [(0, 0), *[(1, 1)] * sides], mode="edge")
    around = sliding_window_view(near, (2,) * sides, axis=last).max(axis=last)
    return np.asarray(around.reshape(len(value), -1))


def _gain(shares: Floats, most: Floats, cost: Floats) -> float:
    """The largest mean of ``most`` over that of ``cost``, [T, L], over a choice for each type."""
    gain, found, types = -math.inf, 0.0, np.arange(len(shares))
    while found > gain:  # Newton's method; it rises to the root
        gain, chosen = found, (types, (most - found * cost).argmax(axis=1))
        found = float(shares @ most[chosen]) / float(shares @ cost[chosen])
    return gain
