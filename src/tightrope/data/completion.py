"""The outcomes that a log of one arm per request lacks, for problems that draw whole requests.

The outcome of an arm that was not pulled is that of one of its logged requests for which a linear
model of the arm expects about the same: predictive mean matching (Rubin 1986; Little 1988). So an
arm has logged outcomes only, all channels of one row together, with their zeros and tails. Adding
residuals to the means of the model would make negative outcomes and move tails to requests that
have none. What is assumed: the features say all that the choice of the log depended on, and nearly
all that outcomes depend on is a straight line in them. An arm's noise is independent of the other
arms'. Letters: n rows, d features, K arms, C channels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.problem import Space
from tightrope.problem.ridge import fit_slopes
from tightrope.problem.values import Floats

DONORS = 10  # requests whose expected outcomes are nearest, of which one is drawn
JITTER = 1e-6  # of the noise: breaks ties at random
ASSUMED = (
    "it has one arm per request; other arms' outcomes are those of their requests for which linear"
    " models of the features expect about the same"
)


def completed(
    features: npt.NDArray[Any],
    pulled: npt.NDArray[np.int64],
    outcomes: Floats,
    arms: int,
    stream: np.random.Generator,
    space: Space | None = None,
) -> Floats:
    """The outcomes of every arm for each request, [n, K, C].

    ``pulled`` [n]: the arm of each row, -1 for none of these arms; ``outcomes`` [n, C]. If the arms
    are the points of a ``space``, one without rows has the outcomes of the nearest one with some.

    >>> features, outcomes = np.array([[0.0], [0.0], [9.0], [9.0]] * 9), np.ones((36, 2))
    >>> outcomes[2::4, 1], pulled = 5.0, np.array([0, 1] * 18)
    >>> found = completed(features, pulled, outcomes, 2, np.random.default_rng(1))
    >>> found[:4, :, 1].tolist()
    [[1.0, 1.0], [1.0, 1.0], [5.0, 1.0], [5.0, 1.0]]
    """
    from scipy.spatial import KDTree  # only logs with features need it

    given = features.astype(np.float64)
    found = np.empty((len(given), arms, outcomes.shape[1]))
    used = np.unique(pulled[pulled >= 0])
    for arm in used.tolist():
        mine = pulled == arm
        rows, others = outcomes[mine], given[~mine]
        model = fit_slopes(given[mine], rows)
        expected = model.at(given)
        noise = (rows - expected[mine]).std(axis=0)
        varies = noise > 1e-9 * np.abs(model.mean)
        places = expected[:, varies] / noise[varies]
        places = np.column_stack([places, np.zeros(len(given))])  # at least one
        places += JITTER * stream.standard_normal(places.shape)
        count = min(DONORS, len(rows))
        if len(others):
            near = KDTree(places[mine]).query(places[~mine], np.arange(1, count + 1))[1]
            drawn = stream.integers(count, size=(len(others), 1))
            found[~mine, arm] = rows[np.take_along_axis(np.asarray(near), drawn, 1)[:, 0]]
        found[mine, arm] = rows
    return found if space is None else found.take(used[space.nearest(used)], axis=1)


def rows_again(pulled: npt.NDArray[np.int64], stream: np.random.Generator) -> npt.NDArray[np.int64]:
    """As many rows of each arm, drawn with replacement, [n]."""
    places = [np.flatnonzero(pulled == arm) for arm in np.unique(pulled)]
    return np.concatenate([some[stream.integers(len(some), size=len(some))] for some in places])
