"""Fit orders of growth: weighted straight lines on log-log scales, with 95 % intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from tightrope.problem.values import Floats
from tightrope.statistics import NORMAL_95, standard_error

FEWEST = 3  # points needed for a fit
CLEAR = 3.0  # standard errors from 0 that a mean must have for its logarithm to be useful


@dataclass(frozen=True)
class Fit:
    """y grows like x^exponent; ``reach``: half of the 95 % interval; over [first, last]."""

    exponent: float
    reach: float
    first: float
    last: float
    points: int

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.exponent - self.reach

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.exponent + self.reach

    def __str__(self) -> str:
        decimals = 3 if self.reach < 0.005 else 2
        return f"{self.exponent:.{decimals}f} ± {max(self.reach, 0.001):.{decimals}f}".replace(
            "-", "−"
        )


def power_law(x: Floats, samples: Floats) -> Fit | None:
    """Fit the means of ``samples`` [G, R] to a power of ``x`` [G]; None if too few points are left.

    Only the last consecutive points that are clearly not 0 and of one sign are used. Runs with the
    same number share their random numbers at all budgets, so the error of the slope is computed
    from each run's own slope, not from independent errors. If the points deviate from the line by
    more than their errors explain, the interval is widened by that factor.
    """
    if samples.shape[1] < 2:
        return None
    mean = samples.mean(axis=1)
    error = standard_error(samples)
    used = _tail(mean, error)
    x, samples, mean, error = x[used], samples[used], mean[used], error[used]
    if len(x) < FEWEST:
        return None
    relative = np.maximum(error / np.abs(mean), 1e-9)
    slopes = _slope_weights(np.log(x), relative)
    chi_square = _strays(np.log(x), np.log(np.abs(mean)), relative)
    parts = slopes @ (samples / mean[:, None])
    slope_error = float(standard_error(parts))
    freedom = len(x) - 2
    stray = float(stdtrit(freedom, 0.975)) * np.sqrt(chi_square / freedom)
    reach = max(NORMAL_95, stray) * max(slope_error, 1e-12)
    exponent = float(slopes @ np.log(np.abs(mean)))
    return Fit(exponent, float(reach), float(x[0]), float(x[-1]), len(x))


def _tail(mean: Floats, error: Floats) -> slice:
    """The last consecutive points that are clearly not 0 and have the same sign."""
    clear = np.flatnonzero(np.abs(mean) > CLEAR * error)
    if not len(clear):
        return slice(0)
    end = int(clear[-1]) + 1
    same = (np.sign(mean[:end]) == np.sign(mean[end - 1])) & np.isin(np.arange(end), clear)
    others = np.flatnonzero(~same)
    return slice(int(others[-1]) + 1 if len(others) else 0, end)


def _slope_weights(x: Floats, error: Floats) -> Floats:
    """The slope of the weighted line through points at ``x`` [G], as weights [G] of their y."""
    weights: Floats = np.linalg.pinv(_design(x, error))[1] / error
    return weights


def _strays(x: Floats, y: Floats, error: Floats) -> float:
    """The sum of squared residuals of the weighted line, in units of the standard errors."""
    design = _design(x, error)
    residual = y / error - design @ (np.linalg.pinv(design) @ (y / error))
    return float(residual @ residual)


def _design(x: Floats, error: Floats) -> Floats:
    """The design matrix [G, 2] of level and slope, each point divided by its error."""
    return np.column_stack([np.ones_like(x), x]) / error[:, None]
