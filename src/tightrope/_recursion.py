"""The recursion over the budget left, node by node; see ``optimum`` for what it solves.

A *channel* is a total that a run piles up: channel 0 is the one that every node's arm is chosen to
maximise, the others are the reward and the penalties under those choices. What is stored is each
channel's *bias*: the expected total from b on, less a chosen rate times b. With channel 0's rate
the best one, max_k gain_k / cost_k, a pull gains at most 0 in bias, and exactly 0 under the best
arm. Hence, whatever happens deeper, channel 0's bias stays between its extremes over any stretch
as long as the largest cost: once those agree, it is that constant for every larger budget.

Where the best arm's costs are all multiples of some p nodes the bias may stay periodic; the same
then holds for each of the p interleaved stretches, up to an error that grows in proportion to b,
as b times the rate does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from numba import njit

from tightrope._grid import CostGrid, Weights

__all__ = ["Stretch", "before_start", "run"]

SETTLED = 1e-13  # relative to the gains
MOST_WORK = 10**10  # weights times nodes, about ten seconds
_SHORTEST_STRETCH = 512  # nodes between two looks

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Stretch:
    """The biases of C channels at the last nodes up to, not including, ``end``.

    ``left``, ``right`` [C, n]: just left of each node, and at it. ``rate`` [C]: what was taken
    off, per unit of cost. ``period`` is 0 as long as the biases have not settled.
    """

    left: Floats
    right: Floats
    rate: Floats
    end: int
    period: int = 0

    def at(self, grid: CostGrid, budget: float) -> Floats:
        """Expected totals [C] from a budget on."""
        node, beyond = grid.locate(budget)
        here = self._column(node)
        bias = self.right[:, here]
        if beyond:
            bias = (1.0 - beyond) * bias + beyond * self.left[:, self._column(node + 1)]
        return np.asarray(bias + self.rate * ((node + beyond) * grid.step))

    def _column(self, node: int) -> int:
        back = node - self.end
        if back >= 0:  # settled: the same phase, one period back from the end or less
            back = back % self.period - self.period
        return int(self.left.shape[1]) + back

    def rebased(self, rate: Floats, step: float) -> Stretch:
        """The same totals, with other rates taken off."""
        count = self.left.shape[1]
        taken = np.outer(self.rate - rate, np.arange(self.end - count, self.end) * step)
        return replace(self, left=self.left + taken, right=self.right + taken, rate=rate, period=0)


def before_start(grid: CostGrid, rate: Floats) -> Stretch:
    """Budgets below 0: nothing more is pulled, all totals are 0."""
    empty = np.zeros((len(rate), grid.reach))
    return Stretch(empty, empty, np.zeros(len(rate)), 0).rebased(rate, grid.step)


def run(
    grid: CostGrid, gains: Floats, start: Stretch, period: int, node: int, watched: slice
) -> Stretch:
    """Go on from ``start`` until a node is passed or the ``watched`` channels have settled.

    ``gains`` [C, K]: the mean outcome of a pull. Also stops after ``MOST_WORK``; the biases are
    then off by no more than what they still varied by.
    """
    bias_gains = gains - np.outer(start.rate, grid.mean)
    size = np.abs(gains).max(axis=1) + np.abs(start.rate) * grid.reach * grid.step
    limit = start.end + MOST_WORK // grid.weight_count
    kept = (grid.reach // period + 2) * period
    stretch = start
    while stretch.end <= node:
        count = min(max(kept, _SHORTEST_STRETCH), node + 1 - stretch.end)
        stretch = _advance(grid, bias_gains, stretch, count, kept)
        if stretch.end - start.end < kept:
            continue
        spread = _spread(stretch, kept, period)[watched]
        if stretch.end > limit or np.all(spread <= SETTLED * size[watched]):
            return replace(stretch, period=period)
    return stretch


def _spread(stretch: Stretch, kept: int, period: int) -> Floats:
    """How much each channel's bias [C] varies over the last ``kept`` nodes of the same phase."""
    sides = np.stack([stretch.left[:, -kept:], stretch.right[:, -kept:]], axis=1)
    phases = sides.reshape(len(stretch.rate), 2, -1, period)
    return np.asarray(np.ptp(phases, axis=2).max(axis=(1, 2)))


def _advance(grid: CostGrid, gains: Floats, stretch: Stretch, count: int, kept: int) -> Stretch:
    """``count`` nodes more."""
    past = stretch.left.shape[1]
    room = np.zeros((len(gains), count))
    left = np.concatenate([stretch.left, room], axis=1)
    right = np.concatenate([stretch.right, room], axis=1)
    _fill(past, stretch.end == 0, gains, grid.exact, grid.weights, left, right)
    if grid.exact:
        left = right
    kept = max(kept, grid.reach)
    return replace(stretch, left=left[:, -kept:], right=right[:, -kept:], end=stretch.end + count)


# Sums may be taken in any order, so that they are vectorised.
_compiled = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "nsz"})


@_compiled
def _dot(weights: Floats, values: Floats) -> float:
    total = 0.0
    for i in range(len(weights)):
        total += weights[i] * values[i]
    return total


@_compiled
def _inside(weights: Weights, arm: int, left: Floats, right: Floats, node: int) -> float:
    """What a channel expects after a cost that falls between nodes."""
    first, last = weights.first[arm], weights.last[arm]
    begin = node - weights.near.shape[1] + first
    end = begin + last - first
    near = _dot(weights.near[arm, first:last], left[begin:end])
    return float(near + _dot(weights.far[arm, first:last], right[begin:end]))


@_compiled
def _leave(
    weights: Weights, arm: int, total: float, left: Floats, right: Floats, side: int, node: int
) -> float:
    """A channel's bias if an arm is pulled until the budget left is no longer what it was.

    ``total``: its gain and what it expects after costs between nodes.
    """
    values = right if side == 1 else left
    for i in range(weights.start[arm], weights.start[arm + 1]):
        total += weights.chance[i] * values[node - weights.place[i]]
    if side == 1:
        total += weights.near_stay[arm] * left[node]
        return float(total / (1.0 - weights.stay[arm]))
    return float(total / (1.0 - weights.stay[arm] - weights.near_stay[arm]))


@_compiled
def _fill(
    begin: int,
    at_zero: bool,
    gains: Floats,
    exact: bool,
    weights: Weights,
    left: Floats,
    right: Floats,
) -> None:
    """Fill columns ``begin`` and later of ``left`` and ``right``, each from those before it."""
    channels, arms = gains.shape
    inside = np.zeros(arms)
    for node in range(begin, left.shape[1]):
        for k in range(arms):
            inside[k] = gains[0, k] + _inside(weights, k, left[0], right[0], node)
        for side in range(1 if exact else 0, 2):
            if side == 0 and at_zero and node == begin:
                continue  # just below a budget of 0 nothing is pulled: the bias is 0
            arm, most = 0, -np.inf
            for k in range(arms):
                bias = _leave(weights, k, inside[k], left[0], right[0], side, node)
                if bias > most:
                    arm, most = k, bias
            values = right if side == 1 else left
            for c in range(channels):
                total = gains[c, arm] + _inside(weights, arm, left[c], right[c], node)
                values[c, node] = _leave(weights, arm, total, left[c], right[c], side, node)
