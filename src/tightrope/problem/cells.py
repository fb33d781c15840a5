"""Tables of equally likely cells, from which every backend draws an outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tightrope.problem.values import Floats

OneCell: TypeAlias = tuple[float, float, float, float]  # split, first, second, slope
DRAW_STEPS = 2**31  # the engine's uniforms are multiples of 1 / DRAW_STEPS


@dataclass(frozen=True, eq=False)
class Cells:
    """A distribution as n equally likely cells, which turn one uniform number into one outcome.

    With u uniform on [0, 1), ``i = int(u * n)`` and ``f = u * n - i``, the outcome is
    ``(first[i] if f < split[i] else second[i]) + slope[i] * (f - 0.5)``.
    """

    split: Floats  # [n] in [0, 1]
    first: Floats  # [n]
    second: Floats  # [n]
    slope: Floats  # [n], 0 or more; where it is not 0, first and second are equal

    def __len__(self) -> int:
        return len(self.split)

    @property
    def columns(self) -> Floats:
        """The table as one array, [4, n]."""
        return np.array([self.split, self.first, self.second, self.slope])

    @property
    def mean(self) -> float:
        """The mean outcome of the table."""
        return float(np.mean(self.split * self.first + (1 - self.split) * self.second))

    def outcomes(self, uniforms: npt.ArrayLike) -> Floats:
        """The outcome of each uniform in [0, 1)."""
        position = np.asarray(uniforms, dtype=np.float64) * len(self)
        cell = position.astype(np.int64)
        part = position - cell
        chosen = np.where(part < self.split[cell], self.first[cell], self.second[cell])
        return np.asarray(chosen + self.slope[cell] * (part - 0.5))

    def divided_by(self, scale: float) -> Cells:
        """The same table in units of ``scale``."""
        return Cells(self.split, self.first / scale, self.second / scale, self.slope / scale)

    def above(self, threshold: float) -> Cells:
        """The table of the indicator "outcome > threshold"; ``threshold`` must be a cut."""
        return Cells(
            self.split,
            (self.first > threshold).astype(np.float64),
            (self.second > threshold).astype(np.float64),
            np.zeros(len(self)),
        )


def two_way(values: Sequence[float], probability: float) -> OneCell:
    """One cell: the first value with ``probability``, otherwise the last one.

    The probability is rounded to a multiple of 1 / DRAW_STEPS (a change below 2.4e-10). The table
    then agrees with the engine's integer comparison for Bernoulli problems.
    """
    return round(probability * DRAW_STEPS) / DRAW_STEPS, values[0], values[-1], 0.0


def one_cell_table(cell: OneCell) -> Cells:
    """A table with this single cell."""
    return Cells(*(np.array([column]) for column in cell))


def alias_table(values: Floats, probabilities: Floats) -> Cells:
    """Walker's alias table: as many cells as values, at most two values per cell."""
    split, other = _aliases(probabilities)
    return Cells(split, values, values[other], np.zeros(len(values)))


def _aliases(probabilities: Floats) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Each cell's share of its own value, and the number of the value that fills the rest.

    A cell holds 1 / n. Values below 1 / n leave part of their cell free, which values above 1 / n
    fill in order. If this empties part of a donor's own cell, the next donor fills that part.
    Cumulative sums of the gaps and of the surpluses replace the loop.
    """
    share = probabilities * (len(probabilities) / probabilities.sum())
    small, large = np.flatnonzero(share < 1.0), np.flatnonzero(share >= 1.0)
    split, other = np.ones(len(share)), np.arange(len(share))
    if not len(small) or not len(large):  # all equal, up to rounding
        return split, other
    wanted, left = np.cumsum(1.0 - share[small]), np.cumsum(share[large] - 1.0)
    before = np.concatenate([[0.0], wanted[:-1]])
    giver = np.searchsorted(left, before, side="left")
    split[small], other[small] = share[small], large[np.minimum(giver, len(large) - 1)]
    last = np.searchsorted(wanted, left[:-1], side="right")  # the cell that takes too much
    taken = np.flatnonzero(last < len(small))
    split[large[taken]] = 1.0 + left[taken] - wanted[last[taken]]
    other[large[taken]] = large[taken + 1]
    return np.clip(split, 0.0, 1.0), other
