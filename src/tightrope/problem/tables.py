"""The arms' distributions in normalised units: their means, and the tables to draw from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tightrope.problem.cells import DRAW_STEPS, Cells
from tightrope.problem.limits import Kind
from tightrope.problem.mixtures import BestMixture, Conflict, best_mixture, conflict
from tightrope.problem.mixtures_by_type import best_by_type, conflict_by_type
from tightrope.problem.values import Floats

if TYPE_CHECKING:
    from tightrope.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class Moments:
    """Means and rates in normalised units; rates are per unit of cost.

    ``kinds`` [M] are the limits. Limits per pull or per reward become limits per unit of cost on
    the *net* penalty Y - c (base - X), which is Y for a limit per unit of cost. ``shares`` [T]: how
    often each type of request comes, if the means are those of rows ``type * K + arm``; K is then
    the number of rows.
    """

    cost: Floats  # [K] in (0, 1]
    reward: Floats  # [K] in [0, 1]
    penalty: Floats  # [K, M] in [0, 1]
    limits: Floats  # [M]
    kinds: tuple[Kind, ...] = ()
    shares: Floats | None = None

    @cached_property
    def base(self) -> Floats:
        """The mean of each limit's base, [K, M]."""
        means = (self.cost, np.ones_like(self.cost), self.reward)
        columns = [kind.unit.pick(*means) for kind in self.kinds]
        return np.array(columns, np.float64).reshape(len(columns), len(self.cost)).T

    @cached_property
    def per_cost(self) -> npt.NDArray[np.bool_]:
        """Which limits are per unit of cost, [M]."""
        return np.array([kind.per_cost for kind in self.kinds], np.bool_)

    @cached_property
    def net(self) -> Floats:
        """The mean net penalty of every arm and limit, [K, M]."""
        if self.per_cost.all():
            return self.penalty
        return self.penalty - self.limits * (self.base - self.cost[:, np.newaxis])

    @cached_property
    def reward_rate(self) -> Floats:
        """E[R] / E[X] of every arm, [K]."""
        return self.reward / self.cost

    @cached_property
    def penalty_rate(self) -> Floats:
        """The net penalty per unit of cost, [K, M]: E[Y] / E[X] for limits per unit of cost."""
        return self.net / self.cost[:, np.newaxis]

    @property
    def smallest_cost(self) -> float:
        """The paper's mu_min: the smallest mean cost of an arm."""
        return float(self.cost.min())

    def best(self) -> BestMixture | None:
        """The best mixture by cost that keeps the limits, or None if none does."""
        if self.shares is not None:
            return best_by_type(self, self.shares)
        return best_mixture(self.reward_rate, self.penalty_rate, self.limits)

    def conflict(self) -> Conflict:
        """Which limits no mixture keeps together, and by how much the least violating one fails."""
        if self.shares is not None:
            return conflict_by_type(self, self.shares)
        return conflict(self.penalty_rate, self.limits)


@dataclass(frozen=True, eq=False)
class Tables:
    """The cells of every arm and channel, normalised and concatenated, for the engines.

    Channel j of arm k has ``count[k, j]`` cells that start at ``offset[k, j]``. It is drawn with
    the step's uniform number ``source[k, j]``: j, or 0 if it shares the draw of the cost.
    """

    count: npt.NDArray[np.int64]  # [K, 2 + M]
    offset: npt.NDArray[np.int64]  # [K, 2 + M]
    source: npt.NDArray[np.int64]  # [K, 2 + M]
    split: Floats
    first: Floats
    second: Floats
    slope: Floats


def tables_of(problem: Problem) -> Tables:
    """The tables of a problem's arms; those at the start if the arms change."""
    shape, (columns, constants) = (problem.arm_count, -1), problem.columns
    count, (split, first, second, slope) = _cells(problem)
    scales = np.repeat(np.tile(problem.stated.told_scales, problem.arm_count), count)
    told = np.maximum(columns, 0)
    counts, offsets, sources = (
        np.take_along_axis(table, told, axis=1)
        for table in (
            count.reshape(shape), (np.cumsum(count) - count).reshape(shape), _sources(problem)
        )
    )  # fmt: skip
    fixed = np.argwhere(columns < 0)  # a cell for each constant
    values = constants[fixed[:, 0], fixed[:, 1]]
    for at_cell, (k, channel) in enumerate(fixed.tolist()):
        counts[k, channel], offsets[k, channel] = 1, len(split) + at_cell
        sources[k, channel] = channel
    return Tables(
        count=counts,
        offset=offsets,
        source=sources,
        split=np.append(split, np.ones(len(values))),
        first=np.append(first / scales, values),
        second=np.append(second / scales, values),
        slope=np.append(slope / scales, np.zeros(len(values))),
    )


def _cells(problem: Problem) -> tuple[npt.NDArray[np.int64], Floats]:
    """The number of cells per arm and reported outcome [K * C], and all cells [4, n]."""
    ones = np.ones(problem.arm_count * len(problem.stated.told_scales), dtype=np.int64)
    if problem.told_odds is not None:
        return ones, _bernoulli_cells(problem.told_odds)
    cells = [one for arm in problem.arms for one in arm.short_cells()]
    if all(type(one) is tuple for one in cells):
        return ones, np.array(cells).T
    tables = [one.columns if isinstance(one, Cells) else np.array([one]).T for one in cells]
    counts = np.array([table.shape[1] for table in tables], dtype=np.int64)
    return counts, np.concatenate(tables, axis=1)


def _sources(problem: Problem) -> npt.NDArray[np.int64]:
    """The uniform number that each reported outcome is drawn with, [K, C]."""
    own = (0, 1, *(2 + m for m in problem.stated.told))
    if problem.told_odds is not None:
        return np.tile(own, (problem.arm_count, 1))
    return np.array(own)[[arm.sources for arm in problem.arms]]


def _bernoulli_cells(odds: Floats) -> Floats:
    """The cells of n Bernoulli distributions, one each, as columns [4, n]; see ``Cells``."""
    columns = np.zeros((4, odds.size))
    columns[0] = np.rint(odds.reshape(-1) * DRAW_STEPS) / DRAW_STEPS
    columns[1] = 1.0
    return columns
