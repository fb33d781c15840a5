"""Ridge regressions of outcomes on the features of requests, for data that is there at once.

The shrinkage is that of ``policies.parts.linear``: evidence maximisation (MacKay 1992) from a prior
at which all features together explain ``EXPLAINED`` times the noise. Letters: n rows, d features, C
channels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tightrope.problem.values import Floats

PRIOR = 10.0  # slopes' worth of evidence that the prior ridge has
EXPLAINED = 1.0 / 6.0  # by all features, or by the types, over the noise: the prior ridge
LEAST_RIDGE, MOST_RIDGE = 1e-2, 1e6
ROUNDS = 20  # of the search for the ridge


class Slopes(NamedTuple):
    """A linear model of C outcomes, over standardised features."""

    centre: Floats  # [d]
    unit: Floats  # [d] 1 / deviation; 0 for a feature that does not vary
    mean: Floats  # [C]
    slopes: Floats  # [d, C]

    def at(self, features: Floats) -> Floats:
        """The expected outcomes for rows of features, [n, C]; at least 0."""
        return np.maximum(self.mean + (features - self.centre) * self.unit @ self.slopes, 0.0)


def fit_slopes(features: Floats, outcomes: Floats, weights: Floats | None = None) -> Slopes:
    """The model of ``outcomes`` [n, C] over ``features`` [n, d]; ``weights`` [n] of the rows.

    >>> features = np.array([[0.0], [1.0], [2.0], [3.0]] * 50)
    >>> model = fit_slopes(features, 2.0 + 0.5 * features)
    >>> model.at(np.array([[10.0]])).round(3).tolist()
    [[7.0]]
    """
    share = np.ones(len(features)) if weights is None else weights * len(weights) / weights.sum()
    centre, mean = np.average(features, 0, share), np.average(outcomes, 0, share)
    deviation = np.sqrt(np.average((features - centre) ** 2, 0, share))
    varies = deviation > 1e-9 * np.abs(centre)
    unit = np.where(varies, 1.0 / np.where(varies, deviation, 1.0), 0.0)
    columns, away = (features - centre) * unit, outcomes - mean
    sizes, axes = np.linalg.eigh((columns.T * share) @ columns)
    moments = axes.T @ ((columns.T * share) @ away)  # [d, C]
    squares = share @ away**2
    found = [
        _shrunk(np.maximum(sizes, 0.0), *one, len(away))
        for one in zip(moments.T, squares, strict=True)
    ]
    return Slopes(centre, unit, mean, axes @ np.array(found).reshape(len(mean), -1).T)


def _shrunk(sizes: Floats, moments: Floats, square: float, rows: int) -> Floats:
    """The slopes of a channel along the axes of the features, with the ridge of most evidence."""
    usual = len(sizes) / EXPLAINED
    ridge, slopes = usual, moments
    for _ in range(ROUNDS):
        slopes = moments / (sizes + ridge)
        left = float(square - slopes @ (2.0 * moments - sizes * slopes))
        noise = max(left, 1e-12 * square, 1e-300) / rows
        known = PRIOR + float((sizes / (sizes + ridge)).sum())
        ridge = known / (PRIOR / usual + float(slopes @ slopes) / noise)
        ridge = min(max(ridge, LEAST_RIDGE), MOST_RIDGE)
    return np.asarray(moments / (sizes + ridge))
