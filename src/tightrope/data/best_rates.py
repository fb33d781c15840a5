"""The optimum of a log, corrected for choosing the best of many estimates.

If several arms are about as good as the best mixture, the one that was lucky in the log looks best.
The size of this bias depends on how close the arms are, which the log does not show: it is 0 if
they are far apart, and b if the arms that the log cannot distinguish are equal. b comes from draws
of the log in which arms within ``TIED`` standard errors of the best mixture are lifted to it: the
gain of the best mixture of such a draw over the log's own mixture. The estimate is in the middle,
b / 2 below the log's own optimum, and its 95 % interval is b / 2 wider on each side than the spread
of the draws makes it. If one arm is clearly best, b is 0.

The lucky arm also varies too little in the draws: an arm without a penalty in the log has none in
any draw. The spread is therefore at least that of a mixture with the same weights whose arms vary
like the arms within ``TIED`` standard errors on average.

Arms are compared by their contribution to the optimum: r_k - sum_m lambda_m (y_km - c_m) per unit
of cost, with the multipliers lambda of the log's own optimum, whose rate is V. With types of
requests a row, ``type * K + arm``, is compared with the mixture of its own type: if that gains g
more than V X on a request, the row reaches it at V + g / X per unit of its cost X.
Letters: D draws, K arms or rows, M limits, T types.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tightrope.data.draws import Draws, Split
from tightrope.errors import InfeasibleError
from tightrope.optimum.pi_star import best_arms
from tightrope.problem import Moments
from tightrope.problem.mixtures import BestMixture
from tightrope.problem.values import Floats
from tightrope.statistics import NORMAL_95

TIED = 3.0  # standard errors; see benchmarks/logs.py for the coverage of the interval


class BestRate(NamedTuple):
    """pi*'s reward per unit of cost, in the user's units.

    ``own``: the uncorrected rate of the log, with the spread of the draws; ``rate``: corrected.
    """

    own: Split
    rate: Split

    def of(self, budget: float, optimum: float) -> Split:
        """OPT(B), from the uncorrected one of the log."""
        shift = budget * (self.rate.mean - self.own.mean)
        return Split(optimum + shift, 0.0, budget * self.rate.log)


def best_rate(draws: Draws, budget: float | None = None) -> BestRate | None:
    """The best rate of a log's arms; None if they change or if no mixture keeps the limits.

    ``budget`` is needed only for limits in total.
    """
    if draws.problem.changes:
        return None
    there = draws.problem if budget is None else draws.problem.at(budget)
    try:
        best = best_arms(there)
    except InfeasibleError:
        return None
    unit = there.scales.reward / there.scales.cost
    own = Split(best.reward * unit)
    if not draws.vary:
        return BestRate(own, own)
    moments = [there.row_moments, *draws.of_problem(there).moments()]
    half, error, spread = _doubt(moments, best)
    corrected = Split(own.mean - unit * half, 0.0, unit * error)
    return BestRate(replace(own, log=unit * spread), corrected)


def _doubt(moments: Sequence[Moments], best: BestMixture) -> tuple[float, float, float]:
    """Half of b, the standard error, and the spread of the draws' own optima.

    ``moments`` [1 + D]: of the log, then of its draws. All are 0 if hardly a draw has a mixture
    that keeps the limits.
    """
    scores = np.array([_scores(one, best.multiplier) for one in moments])  # [1 + D, K]
    mixture = scores[:, best.members] @ best.weights  # [1 + D]
    gaps = _reached(moments, mixture, scores, best) - scores
    near = gaps[0] <= TIED * gaps[1:].std(axis=0, ddof=1)
    near[best.members] = True
    lifts = np.zeros_like(gaps[0]), np.where(near, gaps[0], 0.0)
    plain, tied = (_best(moments[1:], lift) for lift in lifts)
    kept = ~np.isnan(plain + tied)
    if np.count_nonzero(kept) < 2:
        return 0.0, 0.0, 0.0
    half = float((tied - mixture[1:])[kept].mean()) / 2.0
    own, lifted = (float(some[kept].std(ddof=1)) for some in (plain, tied))
    usual = math.sqrt(scores[1:, near].var(axis=0, ddof=1).mean() * (best.weights**2).sum())
    return half, max(own, lifted, usual) + abs(half) / NORMAL_95, own


def _scores(moments: Moments, multiplier: Floats) -> Floats:
    """What every row contributes to the optimum, normalised, per unit of its cost, [K]."""
    excess = (moments.penalty_rate - moments.limits) @ multiplier
    return np.asarray(moments.reward_rate - excess)


def _reached(
    moments: Sequence[Moments], mixture: Floats, scores: Floats, best: BestMixture
) -> Floats:
    """The score at which each row is as good as the mixture of its type, [1 + D, K]."""
    level = np.repeat(mixture[:, np.newaxis], scores.shape[1], axis=1)
    if (shares := moments[0].shares) is None:
        return level
    cost = np.array([one.cost for one in moments])
    weights = np.zeros(len(cost[0]))
    weights[best.members] = best.weights
    parts = (1 + len(moments[1:]), len(shares), -1)
    gain = (weights * (scores - level)).reshape(parts).sum(axis=2)
    pulls = (weights / cost).reshape(parts).sum(axis=2)
    return np.asarray(
        level + np.repeat(gain / pulls, scores.shape[1] // len(shares), axis=1) / cost
    )


def _best(moments: Sequence[Moments], lift: Floats) -> Floats:
    """The best reward rate of every draw [D], with lifted reward rates; nan without a mixture."""
    found = (replace(one, reward=one.reward + lift * one.cost).best() for one in moments)
    return np.array([np.nan if one is None else one.reward for one in found])
