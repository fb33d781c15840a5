"""Distributions of a pull's outcomes, in the user's units, and their TOML.

To add a distribution, write one class (see ``outcomes``) and add it to ``_ALL``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from math import fsum
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tightrope.errors import ProblemError, nearest
from tightrope.problem.cells import Cells, OneCell, alias_table, one_cell_table
from tightrope.problem.outcomes import ContinuousLaw, FiniteLaw, Law, Outcome, Rule
from tightrope.problem.values import (
    LARGEST,
    Floats,
    at,
    known_keys,
    number,
    numbers,
    outcome,
    shown,
)

MOST_SHAPE = 1e9  # largest shape parameter of a beta distribution


def outcome_from_toml(table: object) -> Outcome:
    """The outcome described by a table with one key.

    The value is the only parameter, a table of parameters by name, or a list of parameters in the
    order of the class's fields.

    >>> outcome_from_toml({"bernoulli": 0.4})
    Bernoulli(p=0.4)
    >>> outcome_from_toml({"beta": [2, 3]}) == outcome_from_toml({"beta": {"a": 2, "b": 3}})
    True
    """
    if not isinstance(table, dict) or len(table) != 1:
        raise ProblemError(
            f"{shown(table)}: must be a table of one distribution, such as {{ bernoulli = 0.4 }}"
        )
    [(key, value)] = table.items()
    if key not in LAWS:
        raise ProblemError(f"unknown distribution {shown(key)}; {nearest(key, LAWS)}")
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


@dataclass(frozen=True)
class Bernoulli(FiniteLaw):
    """1 with probability ``p``, otherwise 0.

    >>> Bernoulli(0.4).mean
    0.4
    """

    key = "bernoulli"
    low, high = 0.0, 1.0
    p: float

    def _rules(self) -> Iterator[Rule]:
        yield 0 <= self.p <= 1, "p", "lie in [0, 1]"

    def _note_range(self) -> None:
        """Do nothing: low and high are class attributes."""

    def points(self) -> tuple[Sequence[float], Sequence[float]]:
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
        return (self.value,), (1.0,)


@dataclass(frozen=True)
class TwoPoint(FiniteLaw):
    """``high`` with probability ``p``, otherwise ``low``.

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
        values = [v for v, weight in zip(self.values, self.weights, strict=True) if weight > 0]
        largest = max(self.weights)  # divide by it first, so that the sum cannot overflow
        weights = [weight / largest for weight in self.weights if weight > 0]
        total = fsum(weights)
        return values, [weight / total for weight in weights]


@dataclass(frozen=True, eq=False)
class Empirical(FiniteLaw):
    """One column of observed rows. Rows are equally likely by default.

    Use it for all channels of an arm or for none (see ``Arm.from_rows``). A pull draws one row for
    all channels, which keeps the dependence between cost, reward and penalties.

    ``weights``: relative probabilities of the rows. ``values`` and ``weights`` are stored as
    read-only arrays; stored ``weights`` add up to 1.

    >>> Empirical([0, 0, 1, 3]).mean, Empirical([0, 0, 1, 3], weights=[1, 1, 1, 3]).mean
    (1.0, 1.6666666666666667)
    """

    key = "rows"
    shares_cost_draw = True
    values: Floats  # [n]; numbers of any type
    weights: Floats | None = None  # [n]

    def __post_init__(self) -> None:
        values, weights = _column(self.values, f"{self.key} values", outcome), None
        if self.weights is not None:
            weights = _column(self.weights, f"{self.key} weights", number)
            if len(weights) != len(values) or weights.min() < 0.0 or not weights.sum() > 0.0:
                allowed = f"be {len(values)} numbers, none below 0, not all 0"
                raise ProblemError(f"{self.key} weights = {shown(weights)}: must {allowed}")
            total = float(weights.sum())
            if abs(total - 1.0) > 1e-12:  # already normalised weights stay bit for bit the same
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
        return cast(Any, self.values), cast(Any, self.chances)

    @cached_property
    def mean(self) -> float:
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
            return alias_table(self.values, self.chances)
        count = len(self.values)
        return Cells(np.ones(count), self.values, self.values, np.zeros(count))


def same_rows(one: Empirical, other: Empirical) -> bool:
    """Whether two columns can belong to the same rows: equal length, equal weights."""
    if len(one.values) != len(other.values) or (one.weights is None) != (other.weights is None):
        return False
    return one.weights is other.weights or np.array_equal(one.chances, other.chances)


def _column(values: object, place: str, convert: Callable[[object, str], float]) -> Floats:
    """``values`` as a read-only array [n]; raises if one is invalid."""
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
        return self.low / 2 + self.high / 2

    def cdf(self, x: npt.ArrayLike) -> Floats:
        return self._position(x)

    def partial_mean(self, x: npt.ArrayLike) -> Floats:
        return np.asarray(self.cdf(x) * (self.low + np.clip(x, self.low, self.high)) / 2)

    def quantile(self, probability: Floats) -> Floats:
        return self.low + (self.high - self.low) * probability

    def cells(self, cuts: Sequence[float] = ()) -> Cells:
        if any(self.low <= cut < self.high for cut in cuts):
            return super().cells(cuts)
        return one_cell_table(self.one_cell())

    def one_cell(self) -> OneCell:
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
        # With larger shapes the distribution is nearly a point and its quantiles lose precision.
        yield 0 < self.a <= MOST_SHAPE, "a", "be positive, at most 1e9"
        yield 0 < self.b <= MOST_SHAPE, "b", "be positive, at most 1e9"
        yield from super()._rules()

    @property
    def mean(self) -> float:
        return self.low + (self.high - self.low) * self.a / (self.a + self.b)

    def cdf(self, x: npt.ArrayLike) -> Floats:
        from scipy.special import betainc

        return np.asarray(betainc(self.a, self.b, self._position(x)))

    def partial_mean(self, x: npt.ArrayLike) -> Floats:
        """E[outcome; outcome <= x], as t * density(a, b) = a / (a + b) * density(a + 1, b)."""
        from scipy.special import betainc

        position = self._position(x)
        lower = self.low * betainc(self.a, self.b, position)
        return np.asarray(lower + (self.mean - self.low) * betainc(self.a + 1, self.b, position))

    def quantile(self, probability: Floats) -> Floats:
        from scipy.special import betaincinv

        return np.asarray(
            self.low + (self.high - self.low) * betaincinv(self.a, self.b, probability)
        )


@dataclass(frozen=True)
class TruncatedNormal(ContinuousLaw):
    """Normal around ``center`` with standard deviation ``sd``, truncated to [low, high].

    Its mean differs from ``center`` if ``center`` is not the middle of the range.

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
    """1 if the cost of the same pull is above ``threshold`` (in units of cost), otherwise 0.

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
        return (self.threshold,)

    def marginal(self, cost: Law) -> Law:
        """Bernoulli, with the probability of a cost above the threshold."""
        return Bernoulli(1 - float(cost.cdf(self.threshold)))

    def cells_beside(self, cost: Cells) -> Cells:
        """The indicator on the cost's own cells, so that it always agrees with the cost."""
        return cost.above(self.threshold)


_ALL = (Bernoulli, Beta, Constant, CostAbove, Discrete, TruncatedNormal, TwoPoint, Uniform)
LAWS: dict[str, type[Outcome]] = {law.key: law for law in _ALL}
