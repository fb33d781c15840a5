"""Did earlier outcomes decide which arms were pulled? Two tests of a log without propensities.

If they did, an arm that was unlucky at first has few rows, and its mean is biased. Both tests
compare the log with conditional random draws of it, so their error of the first kind is ``LEVEL``
at any number of rows.

*Outcomes.* Choices that do not depend on outcomes, whether random, in turn or with shares that
change, leave an arm's outcomes exchangeable, here among at most ``STRETCH`` successive rows of an
arm. If choices depend on outcomes, an arm is pulled again sooner after some outcomes than after
others. The statistic is the correlation of an outcome with the log of the rows until its arm comes
again; the largest over all outcomes counts.

*Shares.* A greedy logger leaves an arm after so few rows that the first test cannot detect it. But
the arms' shares then change along the log. This test compares a table of K arms by the last half of
the rows, the quarter before it, and so on, with tables of the same margins. It also detects shares
that changed for other reasons.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tightrope.data.log import Log
from tightrope.problem.values import Floats

LEVEL, DRAWS = 0.01, 499
STRETCH = 50
MOST_ROWS = 20_000  # the first ones, whose outcomes are tested
FIRST_PART = 2  # rows, at least, of the first part of a log: greedy choices begin there
OUTCOMES = "choices depend on earlier outcomes"
SHARES = "the arms' shares change along the log, as if earlier outcomes decided"
WHAT_FOLLOWS = (
    "and there are no propensities: means of arms may be biased (by 0.2 in trials), those of arms"
    " with few rows most, and limits may seem infeasible; give the probability of every choice"
    " (--propensity, propensity=), or choose at random in a part of the rows"
)


def caveat(log: Log) -> str:
    """A warning about a log whose choices seem to depend on earlier outcomes, or "".

    >>> rows = np.arange(300)
    >>> caveat(Log(["a", "b"], [], rows % 2, np.ones((2, 300))))
    ''
    """
    turns = np.count_nonzero(np.diff(log.chosen))
    if log.propensity is not None or turns < len(log.arms):  # the rows of each arm together
        return ""
    random = np.random.default_rng(0)
    told = OUTCOMES if _outcomes(log, random) else SHARES if _shares(log, random) else ""
    return told and f"{told}, {WHAT_FOLLOWS}"


def _rare(found: float, drawn: Callable[[], float]) -> bool:
    """Whether at most a share ``LEVEL`` of the draws, including the value found, are as large."""
    most, above = LEVEL * (DRAWS + 1), 1
    for _ in range(DRAWS):
        above += drawn() >= found * (1.0 - 1e-9)
        if above > most:
            return False
    return True


def _outcomes(log: Log, random: np.random.Generator) -> bool:
    """Whether an arm comes again sooner after some outcomes than after others."""
    chosen = log.chosen[:MOST_ROWS]
    at = np.argsort(chosen, kind="stable")  # rows by arm, in order
    arms, rows = chosen[at], len(at)
    first = np.searchsorted(arms, arms)  # the first row of each row's arm
    last = np.append(arms[1:] != arms[:-1], True)
    wait = np.where(last, rows, np.append(at[1:], rows)) - at
    stretches = np.maximum(np.bincount(chosen)[arms] // STRETCH, 1)
    stretch = np.minimum((np.arange(rows) - first) // STRETCH, stretches - 1)
    group = np.cumsum(np.append(0, last[:-1] | (np.diff(stretch) != 0)))
    count = np.bincount(group)

    def centred(values: Floats) -> Floats:
        return np.asarray(values - (np.bincount(group, values) / count)[group])

    weights = centred(np.log(wait))
    values = np.array([centred(row[at]) for row in log.outcomes[:, :MOST_ROWS]])
    own = np.bincount(group, weights**2) / np.maximum(count - 1, 1)
    spread = np.sqrt([own @ np.bincount(group, row**2) for row in values])
    values = values[spread > 1e-9] / spread[spread > 1e-9, np.newaxis]
    if not len(values):
        return False

    def drawn() -> float:
        order = np.argsort(group + random.random(rows))
        return float(np.abs(values[:, order] @ weights).max())

    return _rare(float(np.abs(values @ weights).max()), drawn)


def _shares(log: Log, random: np.random.Generator) -> bool:
    """Whether the arms' shares of the rows change along the log."""
    ends = [len(log)]
    while ends[-1] >= 2 * FIRST_PART:
        ends.append(ends[-1] // 2)
    ends = ends[::-1]
    sizes, arms = np.diff([0, *ends]), len(log.arms)
    part = np.repeat(np.arange(len(ends)), sizes)
    table = np.bincount(part * arms + log.chosen, minlength=len(ends) * arms)
    counts = log.counts
    expected = np.outer(sizes, np.maximum(counts, 1)) / len(log)

    def distance(rows: npt.ArrayLike) -> float:
        found = np.asarray(rows).reshape(expected.shape)
        return float(((found - expected) ** 2 / expected).sum())

    def drawn() -> float:
        left, rows = counts.copy(), []
        for size in sizes:
            rows.append(random.multivariate_hypergeometric(left, size, method="marginals"))
            left -= rows[-1]
        return distance(rows)

    return _rare(distance(table), drawn)
