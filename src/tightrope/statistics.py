"""Statistics over runs: means with standard errors and 95 % intervals, shares, quantiles.

All reports and tables use these functions. Letters: R runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Interval = tuple[float, float]

NORMAL_95 = 1.959963984540054  # normal quantile of a two-sided 95 % interval
NORMAL_99 = 2.3263478740408408  # normal quantile of a one-sided 99 % bound


@dataclass(frozen=True)
class Estimate:
    """A mean over runs and its standard error in the same unit (None for a single run)."""

    mean: float
    error: float | None = None

    @property
    def reach(self) -> float:
        """Half the width of the 95 % interval; infinite for a single run."""
        return float("inf") if self.error is None else NORMAL_95 * self.error

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval; None for a single run."""
        return None if self.error is None else (self.mean - self.reach, self.mean + self.reach)

    @property
    def sign(self) -> int:
        """The mean's sign, 1 or -1; 0 if the 95 % interval contains 0."""
        return 0 if abs(self.mean) <= self.reach else int(np.sign(self.mean))

    def described(self, name: str) -> dict[str, Any]:
        """Mean, standard error and interval as JSON-ready entries under ``name``.

        >>> Estimate(0.5).described("regret")
        {'regret': 0.5, 'regret_se': None, 'regret_interval': None}
        """
        pair = None if self.interval is None else list(self.interval)
        return {name: self.mean, f"{name}_se": self.error, f"{name}_interval": pair}


@dataclass(frozen=True)
class Bounded(Estimate):
    """A mean of values that are all 0, or all at their largest, which gives only one bound.

    With 95 % confidence the expected value lies between ``mean`` and ``bound``. There is no
    standard error.

    >>> Bounded(0.0, bound=0.033).interval
    (0.0, 0.033)
    """

    bound: float = 0.0

    @property
    def reach(self) -> float:
        """From the mean to the bound."""
        return abs(self.bound - self.mean)

    @property
    def interval(self) -> Interval:
        """The one-sided 95 % interval."""
        return min(self.mean, self.bound), max(self.mean, self.bound)


def entries(row: Any, kind: Any = None, /, **own: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a dataclass as JSON-ready entries, in order; ``own`` replaces some fields'.

    An estimate becomes three entries, see :meth:`Estimate.described`; a tuple becomes a list; an
    object with ``as_dict`` becomes its result. ``kind``: the class whose fields are taken; default:
    the row's own.
    """
    found: dict[str, Any] = {}
    for name in (field.name for field in fields(kind or row)):
        value = getattr(row, name)
        if name in own:
            found |= own[name]
        elif isinstance(value, Estimate):
            found |= value.described(name)
        else:
            found[name] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value.as_dict() if hasattr(value, "as_dict") else value


def estimate(values: npt.ArrayLike, weights: Floats | None = None) -> Estimate:
    """The mean and standard error of ``values`` [R], one value per run.

    ``weights`` [R], positive: the relative frequency of each value, in any unit.

    >>> estimate([1.0, 3.0])
    Estimate(mean=2.0, error=1.0)
    """
    samples = np.asarray(values, np.float64)
    if len(samples) < 2:
        return Estimate(float(samples.mean()), None)
    if weights is None:
        return Estimate(float(samples.mean()), float(standard_error(samples)))
    shares = weights / weights.sum()
    mean = float(shares @ samples)
    return Estimate(mean, float(np.sqrt(shares**2 @ (samples - mean) ** 2)))


def none_in(count: int) -> float:
    """The largest chance, with 95 % confidence, of an event that did not occur in ``count`` trials.

    It also bounds the mean of values from 0 to 1, because a value is 0 with a chance of at most 1
    minus their mean.

    >>> round(none_in(90), 4), none_in(0)
    (0.0327, 1.0)
    """
    return 1.0 - 0.05 ** (1.0 / count) if count else 1.0


def estimate_within(values: npt.ArrayLike, top: float, weights: Floats | None = None) -> Estimate:
    """Same as ``estimate`` for values from 0 to ``top``; a bound if all are 0, or all ``top``.

    >>> estimate_within([0.0] * 90, 1.0).reach.__round__(3), estimate_within([1.0, 3.0], 3.0).error
    (0.033, 1.0)
    """
    samples = np.asarray(values, np.float64)
    for end, other in ((0.0, top), (top, 0.0)):
        if np.all(samples == end):
            return Bounded(end, None, end + (other - end) * none_in(len(samples)))
    return estimate(samples, weights)


def standard_error(samples: Floats, axis: int = -1) -> Any:
    """The standard error of the mean along ``axis``, the axis of the runs (at least 2)."""
    return samples.std(axis=axis, ddof=1) / np.sqrt(samples.shape[axis])


def mean_intervals(samples: Floats) -> Floats | None:
    """95 % intervals [K, 2] of the means over runs of ``samples`` [R, K]; None for a single run."""
    if len(samples) < 2:
        return None
    mean = samples.mean(axis=0)
    reach = NORMAL_95 * standard_error(samples, axis=0)
    return np.column_stack([mean - reach, mean + reach])


def wilson(count: npt.ArrayLike, total: float) -> tuple[Floats, Floats]:
    """Wilson's 95 % interval for a probability, from ``count`` of ``total`` runs; any shape.

    Neither needs to be a whole number. Unlike the normal interval, it has a positive width if the
    count is 0.

    >>> [round(float(end), 4) for end in wilson(0, 100)]
    [0.0, 0.037]
    """
    share, z2 = np.asarray(count) / total, NORMAL_95**2
    middle = (share + z2 / (2 * total)) / (1 + z2 / total)
    spread = np.sqrt(share * (1 - share) / total + z2 / (4 * total**2))
    reach = NORMAL_95 * spread / (1 + z2 / total)
    low, high = np.maximum(middle - reach, 0.0), np.minimum(middle + reach, 1.0)
    return low * (share > 0.0), np.maximum(high, share)  # exactly 0 or 1, despite rounding


def quantile(values: npt.ArrayLike, share: float, axis: int | None = None) -> Any:
    """The ``share``-quantile of the values, interpolated linearly between neighbours.

    If some are infinite, such as a rate per unit of no reward, it is the higher neighbour.
    """
    given = np.asarray(values, np.float64)
    method: Any = "higher" if np.isinf(given).any() else "linear"
    found = np.quantile(given, share, axis=axis, method=method)
    return float(found) if axis is None else found


def quantile_error(values: npt.ArrayLike, share: float) -> float | None:
    """The standard error of a quantile of the values [R] of R runs; None for a single run.

    It is the deviation of the values weighted by the beta distribution of the order statistic
    (Maritz and Jarrett 1978), which needs neither draws nor a density.

    >>> quantile_error([1.0, 1.0, 1.0], 0.99), quantile_error([1.0], 0.99)
    (0.0, None)
    """
    from scipy.special import betainc

    samples = np.sort(np.asarray(values, np.float64))
    count = len(samples)
    if count < 2:
        return None
    levels = np.arange(count + 1) / count
    below, above = (count - 1) * share, (count - 1) * (1.0 - share)  # number of values
    weights = np.diff(betainc(1.0 + below, 1.0 + above, levels))
    middle = float(weights @ samples)
    return float(np.sqrt(weights @ (samples - middle) ** 2))
