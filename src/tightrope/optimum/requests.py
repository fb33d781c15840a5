"""Upper bounds where requests have features: the best policies that choose an arm for each row.

A request is one of n rows of a table. A policy that chooses arm k(i) for row i earns and incurs
sums over the rows; a mixture of such policies by cost is a point of a linear program, as a mixture
of arms is. The program has K^n points. Column generation finds the few that matter: at the prices
theta of a unit of cost and lambda_m of penalty m, which the best mixture so far has, each row takes
the arm with the largest

    R_ik - theta X_ik - sum_m lambda_m (Y_ikm - c_m X_ik).

If the sum over the rows is 0, no policy improves the mixture, and it is optimal.

*clairvoyant*: the outcomes are those of the row. No policy keeps the limits and earns more.
*linear*: the row's expected outcomes take their place where an arm is chosen, by a linear model of
each arm (``problem.ridge``), fitted to the same table. It is the best mixture of the policies that
were found; what they earn and incur is what the table says.
*blind*: the best mixture of arms, without a look at the features.

Letters: n rows, K arms, M limits, P policies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tightrope.problem import Moments, Problem
from tightrope.problem.arms import row_columns
from tightrope.problem.mixtures import BestMixture, best_mixture, conflict
from tightrope.problem.ridge import fit_slopes
from tightrope.problem.values import Floats, Integers

BOUNDS = ("clairvoyant", "linear", "blind")
MOST_ROUNDS = 1000
CLOSED = 1e-12  # what a better policy gains at least at the prices, of the reward
NEAR = (0.5, 0.8, 1.25, 2.0)  # times the prices, where outcomes are only expected


class PolicyMixture:
    """Policies that choose an arm for each row, and the best mixture of them by cost."""

    def __init__(self, moments: Moments, expected: Moments | None = None) -> None:
        """``moments``: of all rows, [n * K]; ``expected``: what a policy knows of them."""
        assert moments.shares is not None
        self.moments, self.seen = moments, expected or moments
        self.exact, self.rows = expected is None, len(moments.shares)
        self.chosen: list[Integers] = []  # [P], each [n]
        self.cost: list[float] = []  # of a request, [P]
        self._known: set[bytes] = set()
        self._reward: list[float] = []
        self._rate: list[Floats] = []
        self.add(self.seen.reward)
        self.add(-(self.seen.net / moments.limits).sum(axis=1))

    def add(self, value: Floats) -> bool:
        """Add the policy that maximises a value of rows and arms [n * K]; False if it is known."""
        arms = value.reshape(self.rows, -1).argmax(axis=1)
        if arms.tobytes() in self._known:
            return False
        self._known.add(arms.tobytes())
        cost, reward, net = (
            self.over(arms, x) for x in (self.moments.cost, self.moments.reward, self.moments.net)
        )
        if cost > 0.0:
            self.chosen.append(arms)
            self.cost.append(float(cost))
            self._reward.append(float(reward) / float(cost))
            self._rate.append(net / cost)
        return bool(cost > 0.0)

    def over(self, arms: Integers, values: Floats) -> Floats:
        """The mean over the rows of what the chosen arms have, of values [n * K] or [n * K, M]."""
        each = values.reshape(self.rows, len(values) // self.rows, *values.shape[1:])
        return np.asarray(each[np.arange(self.rows), arms].mean(axis=0))

    def best(self) -> BestMixture | None:
        """The best mixture, or None if none keeps the limits."""
        if not self.keeps_limits():
            return None
        for _ in range(MOST_ROUNDS):
            found = self._mixed()
            assert found is not None
            worth = self._worth(found.reward, found.multiplier)
            gain = worth.reshape(self.rows, -1).max(axis=1).mean()
            if self.exact and gain <= CLOSED * found.reward * min(self.cost):
                break
            added = [self.add(worth)]
            for factor in () if self.exact else NEAR:
                added.append(self.add(self._worth(found.reward, factor * found.multiplier)))
            if not any(added):
                break
        return found

    def keeps_limits(self) -> bool:
        """Add policies until a mixture keeps the limits; False if none does."""
        limits = self.moments.limits
        for _ in range(MOST_ROUNDS if len(limits) else 0):
            found = conflict(np.array(self._rate), limits)
            if found.excess <= 1.0:
                break
            value = found.excess * self.seen.cost - self.seen.net @ found.prices
            if not self.add(value):
                return False
        return True

    @property
    def least_excess(self) -> float:
        """The least, over mixtures of the policies, of the largest penalty rate over its limit."""
        return conflict(np.array(self._rate), self.moments.limits).excess

    def _mixed(self) -> BestMixture | None:
        rates = np.array(self._rate).reshape(len(self.chosen), -1)
        return best_mixture(np.array(self._reward), rates, self.moments.limits)

    def _worth(self, theta: float, prices: Floats) -> Floats:
        """What each arm is worth for each row at the prices."""
        seen, limits = self.seen, self.moments.limits
        away = seen.net - limits * seen.cost[:, np.newaxis]
        return np.asarray(seen.reward - theta * seen.cost - away @ prices)


def expected_moments(problem: Problem) -> Moments:
    """The expected outcomes of every row and arm, by linear models fitted to the same rows."""
    assert problem.features is not None
    features = problem.features.rows.astype(np.float64)
    told = [
        fit_slopes(features, np.column_stack([one.values for one in row_columns(arm)])).at(features)
        for arm in problem.arms
    ]
    rows = np.array(told).transpose(1, 0, 2)  # [n, K, C]
    found = problem.moments_of(rows.reshape(-1, rows.shape[2]))
    return replace(found, shares=problem.request_moments.shares)


def best_of_requests(
    problem: Problem, bound: str, allowed: Callable[[Moments], Moments] = lambda one: one
) -> tuple[PolicyMixture, BestMixture | None]:
    """The best mixture of policies that see each row; ``allowed`` may change the limits."""
    expected = allowed(expected_moments(problem)) if bound == "linear" else None
    policies = PolicyMixture(allowed(problem.request_moments), expected)
    return policies, policies.best()
