"""The recursion over the remaining budget, node by node; see ``exact``.

A *channel* is a total of a run: channel 0 is the weighted total that the arm at every node is
chosen to maximise, the others are the reward and the penalties under those choices. Each channel is
stored as its *bias*: the expected total from budget b on, minus a given rate times b. If channel
0's rate is the best one, max_k gain_k / cost_k, a pull changes the bias by at most 0 in
expectation, and by exactly 0 for the best arm. Hence, for every larger budget, channel 0's bias
stays between its extremes over any stretch as long as the largest cost: once the extremes agree, it
is constant.

If the best arm's costs are all multiples of p nodes, the bias may stay periodic. The same then
holds for each of the p interleaved stretches, up to an error that grows in proportion to b, as b
times the rate does.

If requests have types, rows (``type * K + arm``) take the place of arms, and the bias is the mean
over the types of their best rows'. The best rate is then that of the best arm for each type.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numba import njit

from tightrope.compiled.functions import announced, compile_kernel
from tightrope.optimum.grid import CostGrid, Weights
from tightrope.problem.values import Floats, Integers

SETTLED = 1e-11  # tolerance of a periodic bias, relative to the gains
MOST_WORK = 5 * 10**9  # multiplications, a few seconds
_NODE_WORK = 200  # overhead per node, in multiplications
_SHORTEST, _LONGEST = 512, 2**16  # nodes between two checks of convergence


@dataclass(frozen=True, eq=False)
class Stretch:
    """The biases of C channels at the last nodes up to, not including, ``end``.

    ``left``, ``right`` [C, n]: just left of each node, and at it. ``rate`` [C]: the rates that were
    subtracted, per unit of cost. ``period`` is 0 until the biases have converged.
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
        if back >= 0:  # converged: take the node of the same phase in the last period
            back = back % self.period - self.period
        return int(self.left.shape[1]) + back

    def rebased(self, rate: Floats, step: float) -> Stretch:
        """The same totals with other rates subtracted."""
        count = self.left.shape[1]
        taken = np.outer(self.rate - rate, np.arange(self.end - count, self.end) * step)
        return replace(self, left=self.left + taken, right=self.right + taken, rate=rate, period=0)


def before_start(grid: CostGrid, rate: Floats) -> Stretch:
    """The stretch of budgets below 0, where nothing is pulled and all totals are 0."""
    empty = np.zeros((len(rate), grid.reach))
    return Stretch(empty, empty, np.zeros(len(rate)), 0).rebased(rate, grid.step)


def run(
    grid: CostGrid, gains: Floats, start: Stretch, period: int, node: int, tolerance: Floats
) -> Stretch:
    """Continue from ``start`` until ``node`` is passed or the biases have converged.

    ``gains`` [C, K]: the mean outcome of a pull. ``tolerance`` [C]: how much a converged bias may
    still vary, infinite for a channel that need not converge. Also stops after ``MOST_WORK``; the
    error of the biases is then at most their remaining variation.
    """
    bias_gains = gains - np.outer(start.rate, grid.mean)
    size = np.abs(gains).max(axis=1) + np.abs(start.rate) * grid.reach * grid.step
    periodic = np.where(np.isinf(tolerance), np.inf, SETTLED * size)
    limit = start.end + MOST_WORK // (grid.weight_count + _NODE_WORK)
    kept = (grid.reach // period + 2) * period
    stretch = start
    while stretch.end <= node:
        count = max(kept, min(_SHORTEST + (stretch.end - start.end) // 4, _LONGEST))
        count = min(count, node + 1 - stretch.end)
        stretch = _advance(grid, bias_gains, stretch, count, kept)
        if stretch.end - start.end < kept:
            continue
        if np.all(_spread(stretch, kept) <= tolerance):
            return replace(stretch, period=1)
        if np.all(_drift(stretch, kept, period) <= periodic) or stretch.end > limit:
            return replace(stretch, period=period)
    return stretch


def _spread(stretch: Stretch, kept: int) -> Floats:
    """The variation of each channel's bias [C] over the last ``kept`` nodes."""
    both = np.concatenate([stretch.left[:, -kept:], stretch.right[:, -kept:]], axis=1)
    return np.asarray(np.ptp(both, axis=1))


def _drift(stretch: Stretch, kept: int, period: int) -> Floats:
    """The variation of each channel's bias over nodes of the same phase, per side."""
    both = np.stack([stretch.left[:, -kept:], stretch.right[:, -kept:]], axis=1)
    phases = both.reshape(len(both), 2, kept // period, period)
    return np.asarray(np.ptp(phases, axis=2).max(axis=(1, 2)))


def _advance(grid: CostGrid, gains: Floats, stretch: Stretch, count: int, kept: int) -> Stretch:
    """The stretch after ``count`` more nodes."""
    past = stretch.left.shape[1]
    room = np.zeros((len(gains), count))
    left = np.concatenate([stretch.left, room], axis=1)
    right = np.concatenate([stretch.right, room], axis=1)
    with announced():
        _fill(past, stretch.end == 0, gains, grid.exact, grid.shares, grid.weights, left, right)
    if grid.exact:
        left = right
    kept = max(kept, grid.reach)
    return replace(stretch, left=left[:, -kept:], right=right[:, -kept:], end=stretch.end + count)


# Functions that take arrays are inlined: numba's reference counting at every call would take
# several times as long as the function itself.
_inlined = njit(inline="always")


@_inlined  # type: ignore[untyped-decorator]
def _inside(
    weights: Floats, arm: int, begin: int, end: int, values: Floats, channel: int, oldest: int
) -> float:
    """A channel's expected value after a cost between nodes, from one of its two sides."""
    total = 0.0
    if begin < end:
        row, past = weights[arm, begin:end], values[channel, oldest + begin : oldest + end]
        for i in range(len(row)):
            total += row[i] * past[i]
    return total


@_inlined  # type: ignore[untyped-decorator]
def _on_nodes(
    place: Integers, chance: Floats, begin: int, end: int, values: Floats, channel: int, node: int
) -> float:
    """A channel's expected value after a cost of whole steps."""
    total = 0.0
    for i in range(begin, end):
        total += chance[i] * values[channel, node - place[i]]
    return total


@_inlined  # type: ignore[untyped-decorator]
def _leave(total: float, side: int, stay: float, near_stay: float, left: float) -> float:
    """The bias if an arm is pulled until its cost is not 0."""
    if side == 1:
        return (total + near_stay * left) / (1.0 - stay)
    return total / (1.0 - stay - near_stay)


@_inlined  # type: ignore[untyped-decorator]
def _choose(
    totals: Floats,
    side: int,
    shares: Floats,
    stay: Floats,
    near_stay: Floats,
    left: float,
    chosen: Integers,
) -> float:
    """The highest bias, and into ``chosen`` [T] the row that each type pulls for it.

    A cost of 0 leaves the budget unchanged, and the next request is of any type. So the bias is on
    both sides of its equation: it rises until no type has a better row at that bias.
    """
    arms = len(totals) // len(shares)
    for x in range(len(shares)):
        most = -np.inf
        for k in range(x * arms, (x + 1) * arms):
            bias = _leave(totals[k], side, stay[k], near_stay[k], left)
            if bias > most:
                chosen[x], most = k, bias
    highest = -np.inf
    while True:
        total = stays = near_stays = 0.0
        for x in range(len(shares)):
            k = chosen[x]
            total += shares[x] * totals[k]
            stays += shares[x] * stay[k]
            near_stays += shares[x] * near_stay[k]
        bias = _leave(total, side, stays, near_stays, left)
        if not bias > highest:
            break
        highest = bias
        if len(shares) == 1:
            break
        beside = left if side == 1 else highest
        for x in range(len(shares)):
            most = -np.inf
            for k in range(x * arms, (x + 1) * arms):
                bias = totals[k] + stay[k] * highest + near_stay[k] * beside
                if bias > most:
                    chosen[x], most = k, bias
    return highest


def _fill_plain(
    begin: int,
    at_zero: bool,
    gains: Floats,
    exact: bool,
    shares: Floats,
    weights: Weights,
    left: Floats,
    right: Floats,
) -> None:
    """Fill columns ``begin`` and later of ``left`` and ``right``, each from those before it."""
    start, place, chance, stay, near, far, near_stay, first, last = weights
    channels, rows = gains.shape
    offers, totals, chosen = np.zeros(rows), np.zeros(rows), np.zeros(len(shares), np.int64)
    for node in range(begin, left.shape[1]):
        oldest = node - near.shape[1]
        for k in range(rows):
            offers[k] = gains[0, k] + _inside(near, k, first[k], last[k], left, 0, oldest)
            offers[k] += _inside(far, k, first[k], last[k], right, 0, oldest)
        for side in range(1 if exact else 0, 2):
            if side == 0 and at_zero and node == begin:
                continue  # below a budget of 0 nothing is pulled, and the bias is 0
            values = right if side == 1 else left
            for k in range(rows):
                bias = _on_nodes(place, chance, start[k], start[k + 1], values, 0, node)
                totals[k] = offers[k] + bias
            values[0, node] = _choose(totals, side, shares, stay, near_stay, left[0, node], chosen)
            for c in range(1, channels):
                total = stays = near_stays = 0.0
                for x in range(len(shares)):
                    k = chosen[x]
                    bias = gains[c, k]
                    bias += _on_nodes(place, chance, start[k], start[k + 1], values, c, node)
                    bias += _inside(near, k, first[k], last[k], left, c, oldest)
                    bias += _inside(far, k, first[k], last[k], right, c, oldest)
                    total += shares[x] * bias
                    stays += shares[x] * stay[k]
                    near_stays += shares[x] * near_stay[k]
                values[c, node] = _leave(total, side, stays, near_stays, left[c, node])


# Reordering of sums is allowed, so that LLVM can vectorise them.
_fill = compile_kernel(_fill_plain, fastmath={"reassoc", "nsz"})
