"""Costs on a grid: how the chance of every cost is shared out over whole numbers of steps.

With b the budget left, W(b) jumps where a sum of cost atoms equals b (a run goes on while its cost
is at most the budget) and is smooth in between. So every node n of the grid carries two values, W
just left of it and W at it, and W is taken as linear between a node's value and the next one's
left limit. An arm's expected W after one pull from node n is then a weighted sum:

- an atom of j steps looks at node n - j, from the side that the pull started on;
- an atom, or a density, inside the cell from j to j + 1 steps is split over its two ends so that
  the mean stays what it is (``near``: the left limit at n - j, ``far``: the value at n - j - 1).

The error is of second order in the step. Where every cost of every arm is a multiple of one step
there is nothing to split, only the values at the nodes matter, and the grid is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, gcd
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tightrope.laws import Law

__all__ = [
    "MOST_STEPS",
    "CostGrid",
    "Weights",
    "common_step",
    "cost_grid",
    "largest_cost",
    "last_node",
]

MOST_STEPS = 10_000  # of a lattice, up to the largest cost
_SAME = 1e-9  # in steps: a cost or a budget as close to a node as this is on it

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class Weights(NamedTuple):
    """The chances of K arms' costs, at most J steps each; a tuple, so that kernels can take it.

    Arm k's atoms on nodes, of 1 step or more, are ``place`` and ``chance`` from ``start[k]`` to
    ``start[k + 1]``; ``stay`` [K] is its atom at 0. ``near``, ``far`` [K, J] hold what lies between
    nodes, from J steps down to 1 step, not 0 only in ``[first[k], last[k])``; ``near_stay`` [K] is
    near's weight of 0 steps.
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

    def only(self, arm: int) -> Weights:
        """One arm's."""
        rows = (field[arm : arm + 1] for field in self[3:])
        start, stop = self.start[arm : arm + 2]
        own = self.start[arm : arm + 2] - start
        return Weights(own, self.place[start:stop], self.chance[start:stop], *rows)


@dataclass(frozen=True, eq=False)
class CostGrid:
    """The costs of K arms in steps.

    ``step`` and ``mean`` [K], the mean costs as the grid has them, are in units of cost;
    ``exact`` says that no cost lies between two nodes.
    """

    step: float
    exact: bool
    mean: Floats
    weights: Weights

    @property
    def reach(self) -> int:
        """J: the steps of the largest cost."""
        return max(self.weights.near.shape[1], int(self.weights.place.max(initial=1)))

    @property
    def weight_count(self) -> int:
        """How many weights one node's value takes to compute."""
        inside = int(np.maximum(self.weights.last - self.weights.first, 0).sum())
        return len(self.weights.place) + 2 * inside + len(self.mean)

    def locate(self, budget: float) -> tuple[int, float]:
        """The last node at or below a budget, and how far beyond it the budget is, in steps."""
        node = last_node(budget, self.step)
        beyond = budget / self.step - node
        return node, 0.0 if self.exact or beyond < _SAME else beyond

    def period(self, arm: int) -> int:
        """The number of steps that all costs of an arm are multiples of."""
        weights = self.weights.only(arm)
        return 1 if weights.last[0] > weights.first[0] else gcd(*weights.place.tolist())

    def only(self, arm: int) -> CostGrid:
        """The same grid with one arm left."""
        return CostGrid(self.step, self.exact, self.mean[arm : arm + 1], self.weights.only(arm))


def last_node(budget: float, step: float) -> int:
    """How many steps fit into a budget; rounding never makes it one less."""
    return floor(budget / step * (1.0 + 1e-15) + _SAME)


def largest_cost(costs: Sequence[Law]) -> float:
    """The largest cost that a pull of any arm can have."""
    found = [law.atoms() for law in costs]
    return max(
        law.high if atoms is None else float(atoms[0][-1])
        for law, atoms in zip(costs, found, strict=True)
    )


def common_step(costs: Sequence[Law]) -> float:
    """The largest step that every cost atom of every arm is a multiple of.

    0 if there is no atom, or no such step that the largest atom is ``MOST_STEPS`` of at most.

    >>> from tightrope.laws import Constant, TwoPoint
    >>> common_step([TwoPoint(0.0, 7.5, p=0.2), Constant(3.0)])
    1.5
    """
    found = [atoms[0] for atoms in (law.atoms() for law in costs) if atoms]
    values = np.unique(np.concatenate([[0.0], *found]))
    if not values[-1]:
        return 0.0
    parts = values / values[-1]
    candidates = np.arange(1, MOST_STEPS + 1)
    for part in parts[:64]:  # few pass these, so that few are tried on all
        candidates = candidates[_whole(candidates * part)]
    steps = next((int(count) for count in candidates if _whole(count * parts).all()), 0)
    return float(values[-1]) / steps if steps else 0.0


def _whole(numbers: Floats) -> npt.NDArray[np.bool_]:
    return np.abs(numbers - np.rint(numbers)) <= _SAME


def cost_grid(costs: Sequence[Law], step: float, exact: bool) -> CostGrid:
    """The grid of this step; ``exact`` promises that every cost is a multiple of it."""
    cells = 0 if exact else ceil(largest_cost(costs) / step - _SAME)
    rows = [_weights(law, step, cells) for law in costs]
    nodes = [row[0] for row in rows]
    near, far = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
    steps_ahead = np.arange(cells + 1, dtype=np.float64)
    mean = (near + far) @ steps_ahead + [float(place @ chance) for place, chance in nodes]
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
        last=near.shape[1] - _first_used((near + far)[:, ::-1]),
    )
    return CostGrid(step, exact, mean * step, weights)


def _weights(law: Law, step: float, cells: int) -> tuple[Floats, Floats, Floats]:
    """One law's atoms on nodes [2, n] (places, chances), and ``near``, ``far`` [cells + 1]."""
    near, far = np.zeros(cells + 1), np.zeros(cells + 1)
    atoms = law.atoms()
    if atoms is None:
        edges = np.append(np.arange(cells) * step, np.inf)  # all of the mass, come what may
        below = np.arange(cells)
        mass, mean = np.diff(law.cdf(edges)), np.diff(law.partial_mean(edges)) / step
        nodes = np.zeros((2, 0))
    else:
        steps, mass = atoms[0] / step, atoms[1]
        inside = ~(_whole(steps) | (cells == 0))
        nodes = np.array([np.rint(steps[~inside]), mass[~inside]])
        steps, mass = steps[inside], mass[inside]
        below, mean = np.floor(steps).astype(np.int64), steps * mass
    upper = np.clip(mean - below * mass, 0.0, mass)
    np.add.at(near, below, mass - upper)
    np.add.at(far, below + 1, upper)
    return nodes, near, far


def _reversed(weights: Floats) -> Floats:
    """Without the weight of 0 steps, and the largest cost first."""
    return np.ascontiguousarray(weights[:, :0:-1])


def _first_used(weights: Floats) -> Integers:
    """The first column that is not 0 in each row; the number of columns if there is none."""
    end = np.ones((len(weights), 1), dtype=np.bool_)
    return np.argmax(np.hstack([weights > 0.0, end]), axis=1).astype(np.int64)
