"""Base classes of the distributions in ``distributions``.

    Outcome                       one channel of a pull: the cost, the reward or a penalty
    ├── Law                       drawn independently (``Empirical``: with its whole row)
    │   ├── FiniteLaw             Bernoulli, Constant, TwoPoint, Discrete, Empirical
    │   └── ContinuousLaw         Uniform, Beta, TruncatedNormal
    └── CostAbove                 computed from the same pull's cost

A distribution has a mean, a cdf and a table of ``Cells``, from which every backend draws.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property, partial
from itertools import pairwise
from math import fsum
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from tightrope.errors import ProblemError
from tightrope.problem.cells import DRAW_STEPS, Cells, OneCell, alias_table, one_cell_table, two_way
from tightrope.problem.values import LARGEST, Floats, numbers, outcome, shown

Rule: TypeAlias = tuple[bool, str, str]  # whether it holds, the parameter, the requirement
LEAST_MEAN = 10 / DRAW_STEPS  # smallest mean cost, relative to its scale; see ``Law.least_mean``
CELLS = 1024  # cells of a continuous distribution
MOST_CELLS = 2**20  # its cells if two thresholds lie very close together


@dataclass(frozen=True)
class Outcome(ABC):
    """One channel of a pull. A subclass is a frozen dataclass of numbers (or tuples of them)."""

    key: ClassVar[str]  # its name in TOML and in messages
    shares_cost_draw: ClassVar[bool] = False  # drawn with the cost's uniform, not its own

    def __post_init__(self) -> None:
        for name, convert in _conversions(type(self)):
            value = getattr(self, name)
            fine = type(value) is float and convert is outcome and abs(value) <= LARGEST
            if not fine:
                object.__setattr__(self, name, convert(value, f"{self.key} {name}"))
        for holds, parameter, allowed in self._rules():
            if not holds:
                value = getattr(self, parameter)
                raise ProblemError(f"{self.key} {parameter} = {shown(value)}: must {allowed}")

    def _rules(self) -> Iterator[Rule]:
        """The conditions on the parameters, in the order in which they are checked."""
        return iter(())

    @property
    def cuts(self) -> tuple[float, ...]:
        """Values of the cost at which this outcome jumps."""
        return ()

    @abstractmethod
    def marginal(self, cost: Law) -> Law:
        """The marginal distribution of this outcome, given the distribution of the cost."""

    @abstractmethod
    def cells_beside(self, cost: Cells) -> Cells:
        """The table of this outcome, given the table of the same pull's cost."""

    def one_cell(self) -> OneCell | None:
        """Split, first, second and slope if the table is always one cell, otherwise None."""
        return None

    def to_toml(self) -> dict[str, object]:
        """``{key: parameter}``, or ``{key: {name: parameter}}`` without the defaults."""
        named: dict[str, object] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                named[field.name] = list(value) if isinstance(value, tuple) else value
        return {self.key: named if len(fields(self)) > 1 else next(iter(named.values()))}


@cache
def _conversions(law: type[Outcome]) -> tuple[tuple[str, Callable[[Any, str], Any]], ...]:
    """A conversion per field; cached because problems may have 10^6 arms."""
    several = {"weights": numbers}  # which may be of any size
    values = partial(numbers, convert=outcome)
    return tuple(
        (field.name, outcome if field.type == "float" else several.get(field.name, values))
        for field in fields(law)
    )


class Law(Outcome):
    """The distribution of an outcome that does not depend on the cost, in the user's units.

    >>> from tightrope import Uniform
    >>> isinstance(Uniform(5, 40), Law), float(Uniform(5, 40).cdf(12))
    (True, 0.2)
    """

    low: float  # smallest possible outcome
    high: float  # largest possible outcome

    @property
    @abstractmethod
    def mean(self) -> float:
        """The mean outcome."""

    def least_mean(self) -> float:
        """The smallest allowed mean of a cost, relative to its scale.

        Probabilities are rounded to multiples of 1 / DRAW_STEPS. This changes a probability of ten
        steps by at most 5 per cent, but turns one below half a step into 0, and runs would not end.
        Smaller constant costs are excluded too: at a budget of 10^6, adding one would hardly change
        the last digit of the sum.
        """
        return LEAST_MEAN

    @abstractmethod
    def cdf(self, x: npt.ArrayLike) -> Floats:
        """P(outcome <= x), for every x."""

    @abstractmethod
    def partial_mean(self, x: npt.ArrayLike) -> Floats:
        """E[outcome; outcome <= x], for every x: the mean if x is at least ``high``."""

    @abstractmethod
    def atoms(self) -> tuple[Floats, Floats] | None:
        """Values (increasing) and probabilities (positive); None for a continuous distribution."""

    @abstractmethod
    def cells(self, cuts: Sequence[float] = ()) -> Cells:
        """The table to draw from; a cell with outcomes on both sides of a cut is split there."""

    def marginal(self, cost: Law) -> Law:
        """The distribution itself: its outcomes do not depend on the cost."""
        return self

    def cells_beside(self, cost: Cells) -> Cells:
        return self.cells()


class FiniteLaw(Law):
    """A distribution with finitely many values; subclasses define ``points``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._note_range()

    def _note_range(self) -> None:
        values, _ = self.points()
        self.__dict__.update(low=min(values), high=max(values))

    @abstractmethod
    def points(self) -> tuple[Sequence[float], Sequence[float]]:
        """Values and their probabilities, in any order; values may repeat."""

    @cached_property
    def mean(self) -> float:
        return fsum(v * p for v, p in zip(*self.points(), strict=True))

    def least_mean(self) -> float:
        """The smallest allowed mean times the number of values: each probability is rounded."""
        count = len(self.points()[0])
        return LEAST_MEAN * (count if count > 2 else 1)

    def atoms(self) -> tuple[Floats, Floats]:
        """The points sorted by value, equal values merged, those of probability 0 left out."""
        points, chances = np.array(self.points(), dtype=np.float64)
        values, index = np.unique(points[chances > 0], return_inverse=True)
        return values, np.bincount(index, weights=chances[chances > 0]).astype(np.float64)

    def cdf(self, x: npt.ArrayLike) -> Floats:
        values, chances = self.atoms()
        steps = np.concatenate([[0.0], np.minimum(np.cumsum(chances), 1.0)])
        steps[-1] = 1.0
        return np.asarray(steps[np.searchsorted(values, x, side="right")])

    def partial_mean(self, x: npt.ArrayLike) -> Floats:
        values, chances = self.atoms()
        steps = np.concatenate([[0.0], np.cumsum(values * chances)])
        return np.asarray(steps[np.searchsorted(values, x, side="right")])

    def cells(self, cuts: Sequence[float] = ()) -> Cells:
        """One cell for one or two values, an alias table for more."""
        cell = self.one_cell()
        if cell is not None:
            return one_cell_table(cell)
        values, chances = self.points()
        return alias_table(np.asarray(values), np.asarray(chances))

    def one_cell(self) -> OneCell | None:
        """The cell if there are one or two values, otherwise None."""
        values, chances = self.points()
        return two_way(values, chances[0]) if len(values) <= 2 else None


class ContinuousLaw(Law):
    """A density on [low, high]; the table is made of quantiles."""

    @abstractmethod
    def quantile(self, probability: Floats) -> Floats:
        """The quantile function: the inverse of the cdf."""

    def _position(self, x: npt.ArrayLike) -> Floats:
        """(x - low) / (high - low), clipped to [0, 1]."""
        return np.asarray((np.clip(x, self.low, self.high) - self.low) / (self.high - self.low))

    def _rules(self) -> Iterator[Rule]:
        yield self.low < self.high, "low", f"be below high = {self.high!r}"

    def atoms(self) -> None:
        return None

    def cells(self, cuts: Sequence[float] = ()) -> Cells:
        """Cells between quantiles, each with its exact conditional mean.

        Within a cell the outcome is uniform around that mean, as wide as the cell allows, so the
        table has the distribution's mean and support. A cell with a cut has two values instead: the
        conditional means on either side of the cut.
        """
        inside = sorted({cut for cut in cuts if self.low <= cut < self.high})
        edges, touched = self._edges_parting(inside)
        below, above = edges[:-1], edges[1:]
        # The integral of the quantile function: correct to first order even if the quantile has
        # rounding errors, and its parts always add up to the mean.
        levels = np.linspace(0, 1, len(edges))
        integral = self.partial_mean(edges) - edges * (self.cdf(edges) - levels)
        means = np.clip(np.diff(integral) * len(below), below, above)
        reach = np.minimum(means - below, above - means)
        cells = Cells(np.ones(len(means)), means, means.copy(), 2 * reach)
        for cut, span in zip(inside, touched, strict=True):
            for i in span:
                self._split_cell(cells, i, cut, float(below[i]), float(integral[i]))
        return cells

    def _edges_parting(self, cuts: Sequence[float]) -> tuple[Floats, list[range]]:
        """Cell edges fine enough that no cell touches two cuts, and the cells of each cut."""
        count = CELLS
        while count <= MOST_CELLS:
            edges = self.quantile(np.linspace(0, 1, count + 1))
            edges[0], edges[-1] = self.low, self.high
            touched = [_cells_touching(edges, cut) for cut in cuts]
            if all(one.stop <= next_one.start for one, next_one in pairwise(touched)):
                return edges, touched
            count *= 2
        thresholds = " and ".join(map(repr, cuts))
        raise ProblemError(
            f"thresholds {thresholds} are too close together: costs must lie between them"
        )

    def _split_cell(self, cells: Cells, i: int, cut: float, start: float, integral: float) -> None:
        """Split cell i, which begins at ``start``, into a value up to ``cut`` and one above it."""
        count, mean = len(cells), cells.first[i]
        share = min(max(count * float(self.cdf(cut)) - i, 0.0), 1.0)
        first, second = cut, float(mean)
        if share > 0:
            first = count * (float(self.partial_mean(cut)) - integral) / share
            first = min(max(first, start), cut)
        if share < 1:
            second = (mean - share * first) / (1 - share)
        just_above = float(np.nextafter(cut, np.inf))
        cells.split[i], cells.first[i], cells.slope[i] = share, first, 0.0
        cells.second[i] = min(max(second, just_above), self.high)


def _cells_touching(edges: Floats, cut: float) -> range:
    """The cells that contain ``cut``, inside or on an edge."""
    first = int(np.searchsorted(edges, cut, side="left")) - 1
    return range(max(first, 0), int(np.searchsorted(edges, cut, side="right")))
