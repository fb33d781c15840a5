"""Costs on a grid: the probability of every cost, distributed over whole numbers of steps.

With b the budget left, W(b) jumps where a sum of cost atoms equals b (a run continues while its
cost is at most the budget) and is smooth in between. So every node n of the grid has two values, W
just left of it and W at it, and W is approximated as linear between a node's value and the left
limit at the next node. An arm's expected W after one pull from node n is then a weighted sum:

- an atom of j steps contributes the value at node n - j, on the side that the pull started from;
- an atom, or a density, inside the cell from j to j + 1 steps is split over its two ends such that
  the mean is kept (``near``: the left limit at n - j, ``far``: the value at n - j - 1).

The error is of second order in the step. If every cost of every arm is a multiple of one step,
nothing is split, only the values at the nodes matter, and the grid is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, floor, gcd
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tightrope.problem import Problem
from tightrope.problem.outcomes import Law
from tightrope.problem.values import Floats, Integers

MOST_STEPS = 10_000  # of an exact grid, up to the largest cost
_SAME = 1e-9  # in steps: a cost or a budget this close to a node counts as on it


class Weights(NamedTuple):
    """The probabilities of K arms' costs, of at most J steps; a tuple, so that kernels accept it.

    Arm k's atoms on nodes, of 1 step or more, are ``place`` and ``chance`` from ``start[k]`` to
    ``start[k + 1]``; ``stay`` [K] is its atom at 0. ``near``, ``far`` [K, J] are the weights of
    costs between nodes, from J steps down to 1 step, nonzero only in ``[first[k], last[k])``;
    ``near_stay`` [K] is near's weight of 0 steps.
    """

    start: Integers
    place: Integers
    chance: Floats
    stay: Floats
    near: Floats
    far: Floats
    near_stay: Floats
    first: Integers
    last: Integers

    def only(self, arms: Integers) -> Weights:
        """The weights of some arms."""
        each = [np.arange(*self.start[arm : arm + 2]) for arm in arms]
        atoms = np.concatenate(each)
        return Weights(
            start=np.cumsum([0, *map(len, each)]),
            place=self.place[atoms],
            chance=self.chance[atoms],
            stay=self.stay[arms],
            near=self.near[arms],
            far=self.far[arms],
            near_stay=self.near_stay[arms],
            first=self.first[arms],
            last=self.last[arms],
        )


@dataclass(frozen=True, eq=False)
class CostGrid:
    """The costs of K arms in steps.

    ``step`` and ``mean`` [K], the arms' mean costs on the grid, are in units of cost; ``exact``
    says that no cost lies between two nodes. ``shares`` [T]: how often each type of request comes.
    If there are types, rows ``type * K + arm`` take the place of arms.
    """

    step: float
    exact: bool
    mean: Floats
    weights: Weights
    shares: Floats

    @property
    def reach(self) -> int:
        """J: the steps of the largest cost."""
        return int(max(self.weights.near.shape[1], self.weights.place.max(initial=1)))

    @property
    def weight_count(self) -> int:
        """The number of weights in the computation of one node's value."""
        inside = int(np.maximum(self.weights.last - self.weights.first, 0).sum())
        return len(self.weights.place) + 2 * inside + len(self.mean)

    def locate(self, budget: float) -> tuple[int, float]:
        """The last node at or below a budget, and the distance of the budget to it, in steps."""
        node = last_node(budget, self.step)
        beyond = budget / self.step - node
        return node, 0.0 if self.exact or beyond < _SAME else beyond

    def period(self, arms: Integers) -> int:
        """The largest number of steps that divides all costs of some arms."""
        weights = self.weights.only(arms)
        return 1 if np.any(weights.last > weights.first) else gcd(*weights.place.tolist())

    def only(self, arms: Integers) -> CostGrid:
        """The same grid with some arms left, as many for each type."""
        return replace(self, mean=self.mean[arms], weights=self.weights.only(arms))

    def rate(self, gains: Floats, arms: Integers) -> Floats:
        """The gain per unit of cost, [C], if each type pulls its own one of the ``arms`` [T].

        ``gains`` [C, K]: the mean gains of a pull.
        """
        return np.asarray((gains[:, arms] @ self.shares) / (self.mean[arms] @ self.shares))

    def best(self, gains: Floats) -> Integers:
        """The arm of each type, [T], with which the rate of the ``gains`` [K] is highest."""
        arms, rate = np.zeros(0, np.int64), -np.inf
        scores = (gains / self.mean).reshape(len(self.shares), -1)
        while True:
            found = scores.argmax(axis=1) + np.arange(len(scores)) * scores.shape[1]
            higher = float(self.rate(gains[np.newaxis], found)[0])
            if not higher > rate:
                return arms
            arms, rate = found, higher
            scores = (gains - rate * self.mean).reshape(scores.shape)


@dataclass(frozen=True, eq=False)
class Costs:
    """The cost distributions of K arms, or of rows; ``shares`` [T]: how often each type comes."""

    laws: Sequence[Law]
    shares: Sequence[float] = (1.0,)

    @classmethod
    def of(cls, problem: Problem) -> Costs:
        """The costs of all arms of a problem, in all its types or phases."""
        if problem.contexts is None:
            return cls([arm.cost for phase in problem.phases for arm in phase.problem.arms])
        laws = [arm.cost for arms in problem.typed.values() for arm in arms]
        return cls(laws, tuple(problem.shares.values()))

    @cached_property
    def unit(self) -> float:
        """The step if every cost is 0 or one step, otherwise 0."""
        return self.step if self.step == self.largest else 0.0

    @cached_property
    def step(self) -> float:
        """The largest step that divides every cost; 0 if there is none."""
        return self.common_step() if self.finite else 0.0

    @cached_property
    def atoms(self) -> list[tuple[Floats, Floats] | None]:
        """Each arm's values and probabilities, [K]; None for a continuous distribution."""
        return [law.atoms() for law in self.laws]

    @cached_property
    def finite(self) -> bool:
        """Whether no distribution is continuous."""
        return None not in self.atoms

    @cached_property
    def largest(self) -> float:
        """The largest cost that a pull of any arm can have."""
        both = zip(self.laws, self.atoms, strict=True)
        return max(float(atoms[0][-1]) if atoms else law.high for law, atoms in both)

    def common_step(self, *others: float) -> float:
        """The largest step that divides every atom and every value in ``others``.

        0 if there is no atom, or if the largest atom would be more than ``MOST_STEPS`` steps.

        >>> from tightrope.problem.distributions import Constant, TwoPoint
        >>> costs = Costs([TwoPoint(0.0, 7.5, p=0.2), Constant(3.0)])
        >>> costs.common_step(), costs.common_step(1000.0)
        (1.5, 0.5)
        """
        values = np.unique(np.concatenate([[0.0], *(atoms[0] for atoms in self.atoms if atoms)]))
        if not values[-1]:
            return 0.0
        parts = np.append(others, values) / values[-1]
        candidates = np.arange(1, MOST_STEPS + 1)
        for part in parts[:64]:  # a cheap filter, so that few candidates are tested on all
            candidates = candidates[_whole(candidates * part)]
        steps = next((int(count) for count in candidates if _whole(count * parts).all()), 0)
        return float(values[-1]) / steps if steps else 0.0

    def grid(self, step: float, *, exact: bool) -> CostGrid:
        """The grid with this step; with ``exact``, every cost must be a multiple of it."""
        cells = 0 if exact else ceil(self.largest / step - _SAME)
        both = zip(self.laws, self.atoms, strict=True)
        rows = [_weights(law, atoms, step, cells) for law, atoms in both]
        nodes = [row[0] for row in rows]
        near, far = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
        mean = (near + far) @ np.arange(cells + 1.0)
        mean += [float(place @ chance) for place, chance in nodes]
        place, chance = np.concatenate([node[:, node[0] > 0] for node in nodes], axis=1)
        near_stay, near, far = near[:, 0].copy(), _reversed(near), _reversed(far)
        weights = Weights(
            start=np.cumsum([0, *((node[0] > 0).sum() for node in nodes)]),
            place=place.astype(np.int64),
            chance=chance,
            stay=np.array([node[1, node[0] == 0].sum() for node in nodes]),
            near=near,
            far=far,
            near_stay=near_stay,
            first=_first_used(near + far),
            last=cells - _first_used((near + far)[:, ::-1]),
        )
        return CostGrid(step, exact, mean * step, weights, np.array(self.shares))


def last_node(budget: float, step: float) -> int:
    """The number of steps that fit into a budget, safe against rounding down."""
    return floor(budget / step * (1.0 + 1e-15) + _SAME)


def _weights(
    law: Law, atoms: tuple[Floats, Floats] | None, step: float, cells: int
) -> tuple[Floats, Floats, Floats]:
    """A distribution's atoms [2, n] (place, probability), and ``near``, ``far`` [cells + 1]."""
    near, far = np.zeros(cells + 1), np.zeros(cells + 1)
    if atoms is None:
        edges = np.append(np.arange(cells) * step, np.inf)  # inf, so that no mass is lost
        below = np.arange(cells)
        mass, mean = np.diff(law.cdf(edges)), np.diff(law.partial_mean(edges)) / step
        nodes = np.zeros((2, 0))
    else:
        steps, mass = atoms[0] / step, atoms[1]
        inside = ~_whole(steps) & (cells > 0)
        nodes = np.array([np.rint(steps[~inside]), mass[~inside]])
        steps, mass = steps[inside], mass[inside]
        below, mean = np.floor(steps).astype(np.int64), steps * mass
    upper = np.clip(mean - below * mass, 0.0, mass)
    np.add.at(near, below, mass - upper)
    np.add.at(far, below + 1, upper)
    return nodes, near, far


def _whole(numbers: Floats) -> npt.NDArray[np.bool_]:
    return np.abs(numbers - np.rint(numbers)) <= _SAME + 1e-15 * numbers


def _reversed(weights: Floats) -> Floats:
    """The weights without that of 0 steps, in descending order of cost."""
    return np.ascontiguousarray(weights[:, :0:-1])


def _first_used(weights: Floats) -> Integers:
    """The first nonzero column of each row; the number of columns if there is none."""
    end = np.ones((len(weights), 1), dtype=np.bool_)
    return np.asarray(np.argmax(np.hstack([weights > 0.0, end]), axis=1), dtype=np.int64)
