"""Laws (probability distributions) of a pull's outcomes, in the user's units.

    Outcome                       one channel of a pull: the cost, the reward or a penalty
    ├── Law                       drawn independently (``Empirical``: with its whole row)
    │   ├── FiniteLaw             Bernoulli, Constant, TwoPoint, Discrete, Empirical
    │   └── ContinuousLaw         Uniform, Beta, TruncatedNormal
    └── CostAbove                 computed from the same pull's cost

A law has a mean, a distribution function and a table of ``Cells``, from which every backend draws.
To add a law, write one class and add it to ``LAWS``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from functools import cache, cached_property, partial
from itertools import pairwise
from math import fsum, isfinite
from numbers import Real
from reprlib import Repr
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from tightrope.errors import ProblemError, nearest

__all__ = [
    "LAWS",
    "Bernoulli",
    "Beta",
    "Cells",
    "Constant",
    "ContinuousLaw",
    "CostAbove",
    "Discrete",
    "Empirical",
    "FiniteLaw",
    "Law",
    "OneCell",
    "Outcome",
    "TruncatedNormal",
    "TwoPoint",
    "Uniform",
    "at",
    "known_keys",
    "number",
    "outcome_from_toml",
    "same_rows",
    "shown",
]

Floats: TypeAlias = npt.NDArray[np.float64]
Rule: TypeAlias = tuple[bool, str, str]  # whether it holds, the parameter, what it must do
OneCell: TypeAlias = tuple[float, float, float, float]  # split, first, second, slope

DRAW_STEPS = 2**31  # the engine's uniforms are multiples of 1 / DRAW_STEPS
LEAST_MEAN = 10 / DRAW_STEPS  # smallest mean cost, relative to its scale; see ``Law.least_mean``
CELLS = 1024  # cells of a continuous law
MOST_CELLS = 2**20  # its cells if two thresholds lie very close together
MOST_SHAPE = 1e9  # largest shape parameter of a beta law
LARGEST = 1e30  # largest value in the user's units: squares and quotients must not overflow


# --- reading values -----------------------------------------------------------------------

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def shown(value: object) -> str:
    """``value`` for a message: on one line, with long lists and strings shortened."""
    try:
        return " ".join(_SHORT.repr(value).split())
    except ValueError:  # Python writes no integers of more than 4300 digits
        return f"a {type(value).__name__} too long to show"


def number(value: object, place: str) -> float:
    """``value`` as a finite float; ``place`` is its name in the error."""
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            converted = float(value)
        except OverflowError:  # an integer beyond the range of floats
            converted = float("inf")
        if isfinite(converted):
            return converted
        value = converted
    raise ProblemError(f"{place} = {shown(value)}: must be a finite number")


def outcome(value: object, place: str) -> float:
    """``value`` as a float of at most ``LARGEST`` in size, as outcomes must be."""
    converted = number(value, place)
    if abs(converted) > LARGEST:
        allowed = f"be at most {LARGEST:g} in size; choose another unit"
        raise ProblemError(f"{place} = {converted!r}: must {allowed}")
    return converted


def numbers(
    values: object, place: str, convert: Callable[[object, str], float] = number
) -> tuple[float, ...]:
    """``values`` as a tuple of at least one finite float."""
    if isinstance(values, str | dict) or not isinstance(values, Iterable):
        raise ProblemError(f"{place} = {shown(values)}: must be a list of numbers")
    converted = tuple(convert(value, f"{place}[{i}]") for i, value in enumerate(values))
    if not converted:
        raise ProblemError(f"{place} = []: must hold at least one number")
    return converted


@contextmanager
def at(place: str) -> Iterator[None]:
    """Put ``place`` in front of the message of any ``ProblemError`` raised inside."""
    try:
        yield
    except ProblemError as error:
        raise type(error)(f"{place}: {error}") from None


def known_keys(table: object, known: Sequence[str]) -> dict[str, Any]:
    """``table`` itself; raises unless it is a TOML table whose keys are all ``known``."""
    if not isinstance(table, dict):
        raise ProblemError(f"{shown(table)}: must be a table with keys among {', '.join(known)}")
    for key in table:
        if key not in known:
            raise ProblemError(f"unknown key {shown(key)}; {nearest(key, known)}")
    return table


# --- tables to draw from ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Cells:
    """A law as n equally likely cells, which turn one uniform number into one outcome.

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


def _two_way(values: Sequence[float], probability: float) -> OneCell:
    """One cell: the first value with ``probability``, else the last one.

    The probability is rounded to a multiple of 1 / DRAW_STEPS (by less than 2.4e-10), so that
    the table agrees with the engine's integer comparison for Bernoulli problems.
    """
    return round(probability * DRAW_STEPS) / DRAW_STEPS, values[0], values[-1], 0.0


def _alone(cell: OneCell) -> Cells:
    """A table with this single cell."""
    return Cells(*(np.array([column]) for column in cell))


def _alias(values: Floats, probabilities: Floats) -> Cells:
    """Walker's alias table: as many cells as values, at most two values per cell."""
    split, other = _aliases(probabilities)
    return Cells(split, values, values[other], np.zeros(len(values)))


def _aliases(probabilities: Floats) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Each cell's share of its own value, and the number of the value that has the rest.

    A cell holds 1 / n. One after the other, the cells of the values below it are filled up by the
    first value that has some left beyond its own cell; where that takes some of its own cell too,
    the next one fills that up. With sums of what is wanted and of what is left, no loop is needed.
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


# --- the shape of every law ---------------------------------------------------------------


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
        """The marginal law of this outcome, given the law of the cost."""

    @abstractmethod
    def cells_beside(self, cost: Cells) -> Cells:
        """The table of this outcome, given the table of the same pull's cost."""

    def one_cell(self) -> OneCell | None:
        """Split, first, second and slope if the table is always one cell; else None."""
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


def outcome_from_toml(table: object) -> Outcome:
    """The outcome that a one-key table describes.

    The value is the only parameter, or a table of parameters by name, or a list of them in the
    order of the class's fields.

    >>> outcome_from_toml({"bernoulli": 0.4})
    Bernoulli(p=0.4)
    >>> outcome_from_toml({"beta": [2, 3]}) == outcome_from_toml({"beta": {"a": 2, "b": 3}})
    True
    """
    if not isinstance(table, dict) or len(table) != 1:
        raise ProblemError(
            f"{shown(table)}: must be a table of one law, such as {{ bernoulli = 0.4 }}"
        )
    [(key, value)] = table.items()
    if key not in LAWS:
        raise ProblemError(f"unknown law {shown(key)}; {nearest(key, LAWS)}")
    return LAWS[key](**_parameters(LAWS[key], value))


def _parameters(law: type[Outcome], value: object) -> dict[str, Any]:
    """The parameters of ``law`` by name, from a TOML value; types are not checked."""
    names = [field.name for field in fields(law)]
    if isinstance(value, dict):
        with at(law.key):
            named = known_keys(value, names)
    elif len(names) == 1:
        named = {names[0]: value}
    elif isinstance(value, list) and len(value) <= len(names):
        named = dict(zip(names, value, strict=False))
    else:
        allowed = f"a list or table of {', '.join(names)}"
        raise ProblemError(f"{law.key} = {shown(value)}: must be {allowed}")
    for field in fields(law):
        if field.default is MISSING and field.name not in named:
            raise ProblemError(f"{law.key} = {shown(value)}: must have {field.name!r}")
    return named


class Law(Outcome):
    """The law of an outcome that does not depend on the cost, in the user's units.

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

        Probabilities are rounded to multiples of 1 / DRAW_STEPS: that changes one of ten steps by
        at most 5 per cent, but turns one below half a step into 0, so that runs would not end.
        Smaller costs are not allowed either: at a budget of 10^6, adding one would hardly change
        the last digit of the sum.
        """
        return LEAST_MEAN

    @abstractmethod
    def cdf(self, x: npt.ArrayLike) -> Floats:
        """P(outcome <= x), for every x."""

    @abstractmethod
    def partial_mean(self, x: npt.ArrayLike) -> Floats:
        """E[outcome; outcome <= x], for every x: the mean where x is ``high`` or more."""

    @abstractmethod
    def atoms(self) -> tuple[Floats, Floats] | None:
        """Values (increasing) and probabilities (positive); None for a continuous law."""

    @abstractmethod
    def cells(self, cuts: Sequence[float] = ()) -> Cells:
        """The table to draw from; a cell with outcomes on both sides of a cut is split there."""

    def marginal(self, cost: Law) -> Law:
        """The law itself: its outcomes do not depend on the cost."""
        return self

    def cells_beside(self, cost: Cells) -> Cells:
        """The law's own table."""
        return self.cells()


class FiniteLaw(Law):
    """A law with finitely many values; subclasses define ``points``."""

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
        """The sum of values times probabilities."""
        return fsum(v * p for v, p in zip(*self.points(), strict=True))

    def least_mean(self) -> float:
        """As for every law, times the number of values: each one's probability is rounded."""
        count = len(self.points()[0])
        return LEAST_MEAN * (count if count > 2 else 1)

    def atoms(self) -> tuple[Floats, Floats]:
        """The points sorted by value, equal values merged, those of probability 0 left out."""
        points, chances = np.array(self.points(), dtype=np.float64)
        values, index = np.unique(points[chances > 0], return_inverse=True)
        return values, np.bincount(index, weights=chances[chances > 0]).astype(np.float64)

    def cdf(self, x: npt.ArrayLike) -> Floats:
        """P(outcome <= x), a step function."""
        values, chances = self.atoms()
        steps = np.concatenate([[0.0], np.minimum(np.cumsum(chances), 1.0)])
        steps[-1] = 1.0
        return np.asarray(steps[np.searchsorted(values, x, side="right")])

    def partial_mean(self, x: npt.ArrayLike) -> Floats:
        """The sum of value * probability over the atoms up to x."""
        values, chances = self.atoms()
        steps = np.concatenate([[0.0], np.cumsum(values * chances)])
        return np.asarray(steps[np.searchsorted(values, x, side="right")])

    def cells(self, cuts: Sequence[float] = ()) -> Cells:
        """One cell for one or two values, an alias table for more."""
        cell = self.one_cell()
        if cell is not None:
            return _alone(cell)
        values, chances = self.points()
        return _alias(np.asarray(values), np.asarray(chances))

    def one_cell(self) -> OneCell | None:
        """The cell if there are one or two values; else None."""
        values, chances = self.points()
        return _two_way(values, chances[0]) if len(values) <= 2 else None


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
        """None: a continuous law has no atoms."""
        return None

    def cells(self, cuts: Sequence[float] = ()) -> Cells:
        """Cells between quantiles, each with its exact conditional mean.

        Within a cell the outcome is uniform around that mean, as wide as the cell allows, so the
        table has the law's mean and support. A cell with a cut in it has two values instead, the
        conditional means on the two sides of the cut.
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
        raise ProblemError(f"thresholds {thresholds} are too close: costs must lie between them")

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


# --- the laws -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Bernoulli(FiniteLaw):
    """1 with probability ``p``, else 0.

    >>> Bernoulli(0.4).mean
    0.4
    """

    key = "bernoulli"
    low, high = 0.0, 1.0
    p: float

    def _rules(self) -> Iterator[Rule]:
        yield 0 <= self.p <= 1, "p", "lie in [0, 1]"

    def _note_range(self) -> None:
        """Nothing to do: low and high are class attributes."""

    def points(self) -> tuple[Sequence[float], Sequence[float]]:
        """The values 1 and 0."""
        return (1.0, 0.0), (self.p, 1 - self.p)

    @property
    def mean(self) -> float:
        """The probability itself; fast because problems may have 10^6 such arms."""
        return self.p

    least_mean = Law.least_mean


@dataclass(frozen=True)
class Constant(FiniteLaw):
    """Always ``value``.

    >>> Constant(2.5).mean
    2.5
    """

    key = "constant"
    value: float

    def points(self) -> tuple[Sequence[float], Sequence[float]]:
        """The single value."""
        return (self.value,), (1.0,)


@dataclass(frozen=True)
class TwoPoint(FiniteLaw):
    """``high`` with probability ``p``, else ``low``.

    >>> TwoPoint(1, 50, p=0.3).mean
    15.7
    """

    key = "two-point"
    low: float
    high: float
    p: float

    def _rules(self) -> Iterator[Rule]:
        yield self.low <= self.high, "low", f"be at most high = {self.high!r}"
        yield 0 <= self.p <= 1, "p", "lie in [0, 1]"

    def points(self) -> tuple[Sequence[float], Sequence[float]]:
        """The values high and low."""
        return (self.high, self.low), (self.p, 1 - self.p)


@dataclass(frozen=True)
class Discrete(FiniteLaw):
    """One of ``values``, with probabilities in proportion to ``weights``.

    >>> Discrete((0, 1, 5), weights=(0.7, 0.2, 0.1)).mean
    0.7
    """

    key = "discrete"
    values: tuple[float, ...]
    weights: tuple[float, ...]

    def _rules(self) -> Iterator[Rule]:
        yield min(self.weights) >= 0, "weights", "not be negative"
        yield max(self.weights) > 0, "weights", "not all be 0"
        same = len(self.weights) == len(self.values)
        yield same, "weights", f"be as many as the {len(self.values)} values"

    def points(self) -> tuple[Sequence[float], Sequence[float]]:
        """The values with positive weight."""
        values = [v for v, weight in zip(self.values, self.weights, strict=True) if weight > 0]
        largest = max(self.weights)  # divide by it first, so that the sum cannot overflow
        weights = [weight / largest for weight in self.weights if weight > 0]
        total = fsum(weights)
        return values, [weight / total for weight in weights]


@dataclass(frozen=True, eq=False)
class Empirical(FiniteLaw):
    """One column of observed rows, each row equally likely unless ``weights`` say otherwise.

    Either all channels of an arm are such columns or none is (see ``Arm.from_rows``). A pull draws
    one row for all of them, which keeps the dependence between cost, reward and penalties.

    ``values`` and ``weights`` are kept as arrays that cannot be written; ``weights`` add up to 1.

    >>> Empirical([0, 0, 1, 3]).mean, Empirical([0, 0, 1, 3], weights=[1, 1, 1, 3]).mean
    (1.0, 1.6666666666666667)
    """

    key = "rows"
    shares_cost_draw = True
    values: Floats  # [n]; numbers of any kind are taken
    weights: Floats | None = None  # [n]

    def __post_init__(self) -> None:
        values, weights = _column(self.values, f"{self.key} values", outcome), None
        if self.weights is not None:
            weights = _column(self.weights, f"{self.key} weights", number)
            if len(weights) != len(values) or weights.min() < 0.0 or not weights.sum() > 0.0:
                allowed = f"be {len(values)} numbers, none below 0, not all 0"
                raise ProblemError(f"{self.key} weights = {shown(weights)}: must {allowed}")
            total = float(weights.sum())
            if abs(total - 1.0) > 1e-12:  # else they are as written before, and stay so
                weights = _read_only(weights / total)
        low, high = float(values.min()), float(values.max())
        self.__dict__.update(values=values, weights=weights, low=low, high=high)

    @property
    def chances(self) -> Floats:
        """The probability of every row, [n]."""
        if self.weights is None:
            return np.full(len(self.values), 1.0 / len(self.values))
        return self.weights

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Empirical):
            return NotImplemented
        return np.array_equal(self.values, other.values) and same_rows(self, other)

    def __hash__(self) -> int:
        return hash((len(self.values), self.mean))

    def points(self) -> tuple[Sequence[float], Sequence[float]]:
        """The column's values and their probabilities."""
        return cast(Any, self.values), cast(Any, self.chances)

    @cached_property
    def mean(self) -> float:
        """The weighted mean of the column."""
        if self.weights is None:
            return float(self.values.mean())
        return float(self.values @ self.chances)

    least_mean = Law.least_mean  # each row's probability is rounded by at most one step

    def one_cell(self) -> None:
        """None: every channel keeps one cell per row."""
        return None

    def cells(self, cuts: Sequence[float] = ()) -> Cells:
        """One cell per row, in the order of the rows; weights turn it into an alias table."""
        if self.weights is not None:
            return _alias(self.values, self.chances)
        count = len(self.values)
        return Cells(np.ones(count), self.values, self.values, np.zeros(count))


def same_rows(one: Empirical, other: Empirical) -> bool:
    """Whether two columns may be of the same rows: as many of them, with the same weights."""
    if len(one.values) != len(other.values) or (one.weights is None) != (other.weights is None):
        return False
    return one.weights is other.weights or np.array_equal(one.chances, other.chances)


def _column(values: object, place: str, convert: Callable[[object, str], float]) -> Floats:
    """``values`` as an array [n] that cannot be written; raises unless all are valid."""
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "fiu":
        column = values.astype(np.float64, copy=values.flags.writeable)
        most = LARGEST if convert is outcome else np.finfo(np.float64).max
        with np.errstate(invalid="ignore"):
            wrong = np.flatnonzero(~(np.abs(column) <= most))
        if len(column) and not len(wrong):
            return _read_only(column)
        if len(wrong):
            convert(float(column[wrong[0]]), f"{place}[{wrong[0]}]")
        values = values.tolist()
    return _read_only(np.array(numbers(values, place, convert)))


def _read_only(column: Floats) -> Floats:
    column.flags.writeable = False
    return column


@dataclass(frozen=True)
class Uniform(ContinuousLaw):
    """Uniform on [low, high].

    >>> Uniform(5, 40).mean
    22.5
    """

    key = "uniform"
    low: float
    high: float

    @property
    def mean(self) -> float:
        """The middle of the range."""
        return self.low / 2 + self.high / 2

    def cdf(self, x: npt.ArrayLike) -> Floats:
        """P(outcome <= x), linear from low to high."""
        return self._position(x)

    def partial_mean(self, x: npt.ArrayLike) -> Floats:
        """P(outcome <= x) times the middle of [low, x]."""
        return np.asarray(self.cdf(x) * (self.low + np.clip(x, self.low, self.high)) / 2)

    def quantile(self, probability: Floats) -> Floats:
        """The inverse of the cdf, linear."""
        return self.low + (self.high - self.low) * probability

    def cells(self, cuts: Sequence[float] = ()) -> Cells:
        """One exact cell; more if there are cuts."""
        if any(self.low <= cut < self.high for cut in cuts):
            return super().cells(cuts)
        return _alone(self.one_cell())

    def one_cell(self) -> OneCell:
        """One cell for the whole range."""
        return 1.0, self.mean, self.mean, self.high - self.low


@dataclass(frozen=True)
class Beta(ContinuousLaw):
    """Beta with shapes ``a`` and ``b``, stretched from [0, 1] to [low, high].

    >>> Beta(2, 3, high=10).mean
    4.0
    """

    key = "beta"
    a: float
    b: float
    low: float = 0.0
    high: float = 1.0

    def _rules(self) -> Iterator[Rule]:
        # With larger shapes the law is practically a point, and its quantiles lose precision.
        yield 0 < self.a <= MOST_SHAPE, "a", "be positive, at most 1e9"
        yield 0 < self.b <= MOST_SHAPE, "b", "be positive, at most 1e9"
        yield from super()._rules()

    @property
    def mean(self) -> float:
        """Low plus a / (a + b) times the width of the range."""
        return self.low + (self.high - self.low) * self.a / (self.a + self.b)

    def cdf(self, x: npt.ArrayLike) -> Floats:
        """The regularised incomplete beta function."""
        from scipy.special import betainc

        return np.asarray(betainc(self.a, self.b, self._position(x)))

    def partial_mean(self, x: npt.ArrayLike) -> Floats:
        """E[outcome; outcome <= x], as t * density(a, b) = a / (a + b) * density(a + 1, b)."""
        from scipy.special import betainc

        position = self._position(x)
        lower = self.low * betainc(self.a, self.b, position)
        return np.asarray(lower + (self.mean - self.low) * betainc(self.a + 1, self.b, position))

    def quantile(self, probability: Floats) -> Floats:
        """The inverse of the cdf."""
        from scipy.special import betaincinv

        return np.asarray(
            self.low + (self.high - self.low) * betaincinv(self.a, self.b, probability)
        )


@dataclass(frozen=True)
class TruncatedNormal(ContinuousLaw):
    """Normal around ``center`` with deviation ``sd``, given that it falls in [low, high].

    Its mean is not ``center``, unless that is the middle of the range.

    >>> round(TruncatedNormal(0.5, 1.0, low=0, high=2).mean, 4)
    0.8563
    """

    key = "truncated-normal"
    center: float
    sd: float
    low: float
    high: float

    def _rules(self) -> Iterator[Rule]:
        yield from super()._rules()
        width = self.high - self.low
        # Outside these two bounds, differences of normal probabilities lose precision.
        yield 0 < self.sd <= 100 * width, "sd", "be positive, at most 100 (high - low)"
        yield self.sd >= 1e-9 * width, "sd", "be at least 1e-9 (high - low)"
        outside = max(self.low - self.center, self.center - self.high)
        yield outside <= 30 * self.sd, "center", "be within 30 sd of [low, high]"

    def _standard(self, x: npt.ArrayLike) -> Floats:
        """(x - center) / sd for x clipped to the range."""
        return np.asarray((np.clip(x, self.low, self.high) - self.center) / self.sd)

    def _mass(self, x: npt.ArrayLike) -> Floats:
        """The untruncated normal's probability of [low, x], computed from its smaller tail."""
        from scipy.special import ndtr

        start, end = self._standard(self.low), self._standard(x)
        return np.asarray(ndtr(-start) - ndtr(-end) if start > 0 else ndtr(end) - ndtr(start))

    @cached_property
    def mean(self) -> float:
        """The mean of the truncated law."""
        return float(self.partial_mean(self.high))

    def cdf(self, x: npt.ArrayLike) -> Floats:
        """P(outcome <= x): the mass of [low, x] / the mass of [low, high]."""
        return np.asarray(np.minimum(self._mass(x) / self._mass(self.high), 1.0))

    def partial_mean(self, x: npt.ArrayLike) -> Floats:
        """E[outcome; outcome <= x], as z * density(z) = -density'(z) for the standard normal."""
        start, end = self._standard(self.low), self._standard(x)
        drop = (np.exp(-(start**2) / 2) - np.exp(-(end**2) / 2)) / np.sqrt(2 * np.pi)
        return np.asarray(self.center * self.cdf(x) + self.sd * drop / self._mass(self.high))

    def quantile(self, probability: Floats) -> Floats:
        """The inverse of the cdf, computed from the smaller tail."""
        from scipy.special import ndtr, ndtri

        start, part = self._standard(self.low), probability * self._mass(self.high)
        standard = -ndtri(ndtr(-start) - part) if start > 0 else ndtri(ndtr(start) + part)
        return np.asarray(np.clip(self.center + self.sd * standard, self.low, self.high))


@dataclass(frozen=True)
class CostAbove(Outcome):
    """1 if the same pull's cost is above ``threshold`` (in units of cost), else 0.

    >>> from tightrope import Arm, CostAbove, Uniform
    >>> late = CostAbove(30)  # minutes
    >>> Arm("van", cost=Uniform(10, 50), reward=Uniform(0, 1), penalty=late).marginals()[2].mean
    0.5
    """

    key = "cost-above"
    shares_cost_draw = True
    threshold: float

    @property
    def cuts(self) -> tuple[float, ...]:
        """The threshold."""
        return (self.threshold,)

    def marginal(self, cost: Law) -> Law:
        """Bernoulli, with the probability of a cost above the threshold."""
        return Bernoulli(1 - float(cost.cdf(self.threshold)))

    def cells_beside(self, cost: Cells) -> Cells:
        """The indicator on the cost's own cells, so that it always agrees with the cost."""
        return cost.above(self.threshold)


_ALL = (Bernoulli, Beta, Constant, CostAbove, Discrete, TruncatedNormal, TwoPoint, Uniform)
LAWS: dict[str, type[Outcome]] = {law.key: law for law in _ALL}
