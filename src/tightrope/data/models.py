"""Linear models of a log's outcomes over the features of its requests, for off-policy estimates."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tightrope.data.log import Log
from tightrope.data.tables import vectors_of
from tightrope.problem.ridge import fit_slopes
from tightrope.problem.values import Floats


def expected_by_folds(log: Log, part: npt.NDArray[np.int64]) -> Floats:
    """The expected outcomes of every arm for each row, [n, K, C].

    The model of an arm is fitted to its rows in the other parts of the log, with the weights 1 /
    propensity; ``part`` [n]. An arm without rows there is expected to have the mean of all arms.
    """
    assert log.propensity is not None
    features, outcomes = vectors_of(log).astype(np.float64), log.outcomes.T
    found = np.empty((len(log), len(log.arms), outcomes.shape[1]))
    for number in np.unique(part).tolist():
        here, elsewhere = part == number, part != number
        for arm in range(len(log.arms)):
            mine = elsewhere & (log.chosen == arm)
            mine = mine if mine.any() else elsewhere if elsewhere.any() else here
            model = fit_slopes(features[mine], outcomes[mine], 1.0 / log.propensity[mine])
            found[here, arm] = model.at(features[here])
    return found
