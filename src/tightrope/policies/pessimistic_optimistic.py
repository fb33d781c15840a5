"""Pessimistic-optimistic: optimistic rewards against a queue that is tightened ever less.

Liu, Li, Shi and Ying, "An efficient pessimistic-optimistic algorithm for stochastic linear bandits
with general constraints", NeurIPS 2021. In round t, with M constraints "mean of w_m at most 0" and
Slater's constant delta (what some mixture can stay below every limit by), take the action with the
largest

    upper bound of the mean reward - sum over m of Q_m w_m / V_t
    Q_m <- max(0, Q_m + W_m + epsilon_t)
    V_t = delta M^(1/4) sqrt(2 t / 3),   epsilon_t = M^(3/4) sqrt(6 / t)

Adapted to arms and a total random cost: t is the cost spent so far, W = Y - c X, the tightening is
epsilon_t X, and rewards and penalties are rates, as the ratio rule of alg:LyOff has it; c drops out
of the comparison. The bounds are those of independent arms in place of LinUCB's,

    r/x + rad (1 + r/x) / x,   y/x - rad (1 + y/x) / x, at least 0

with rad = sqrt(alpha log n / pulls) for n pulls in all; alpha = 1/2 is Hoeffding's inequality at
the level 1/n. The penalties' are optimistic too, for an arm that looks bad by chance would not
be tried again. Each arm is pulled once first. So it is a LyOn that need not know the budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tightrope.oracle import conflict
from tightrope.policies.base import Constants, Setup
from tightrope.policies.choice import Array, ChoicePolicy
from tightrope.policies.intervals import untried
from tightrope.policies.rates import rate_and_width

if TYPE_CHECKING:
    from tightrope.problem import Problem

__all__ = ["PessimisticOptimistic"]

LEAST_SLACK = 1e-3  # where no mixture keeps the limits, or only just


@dataclass(frozen=True)
class PessimisticOptimistic(ChoicePolicy):
    """Weigh optimistic rates by a queue whose tightening and weight change with the cost spent.

    ``slack``: Slater's constant, in normalised units of a penalty rate; ``None`` takes the
    problem's own. ``alpha``: the confidence bounds' scale.
    """

    slack: float | None = None
    alpha: float = 0.5

    name: ClassVar[str] = "pessimistic-optimistic"
    summary: ClassVar[str] = "optimistic rates and a queue with a tightening that fades"

    def __post_init__(self) -> None:
        self.require_number("slack", 0.0, open_low=True, optional=True)
        self.require_number("alpha", 0.0)

    def setup(self, problem: Problem, budget: float) -> Setup:
        """The scales of V_t and epsilon_t, alpha, the budget."""
        limits = tuple(float(limit) for limit in problem.moments.limits)
        slack = self.slack or slack_of(problem)
        count = max(len(limits), 1)
        return Setup(
            constants=(
                slack * count**0.25 * math.sqrt(2.0 / 3.0),
                count**0.75 * math.sqrt(6.0),
                self.alpha,
                budget,
            ),
            allowance=limits,
        )

    def scratch(self, arms: int, penalties: int) -> int:
        """The limits, the queues, the allowances and the budget that were left before the pull."""
        return 3 * penalties + 1

    @staticmethod
    def begin(constants: Constants, arms: Array, left: Array, own: Array) -> None:
        """Note the limits and what is left."""
        limited = len(left) - 2
        for m in range(limited):
            own[m] = left[2 + m] / left[0]
            own[2 * limited + m] = left[2 + m]
        own[3 * limited] = left[0]

    @staticmethod
    def choose(constants: Constants, arms: Array, left: Array, own: Array, luck: Array) -> int:
        """The largest optimistic reward rate less the queues' optimistic penalty rates."""
        chosen = untried(arms)
        if chosen >= 0:
            return chosen
        best, limited = -math.inf, len(left) - 2
        weight = constants[0] * math.sqrt(max(constants[3] - left[0], 1.0))
        clock = math.sqrt(constants[2] * math.log(left[1]))
        for arm in range(len(arms)):
            pulls, cost = arms[arm, 0], arms[arm, 1]
            rate, width = rate_and_width(pulls, cost, arms[arm, 2], 0.0)
            value = rate + clock * width
            for m in range(limited):
                rate, width = rate_and_width(pulls, cost, arms[arm, 3 + m], 0.0)
                value -= own[limited + m] / weight * max(rate - clock * width, 0.0)
            if value > best:
                best, chosen = value, arm
        return chosen

    @staticmethod
    def learn(constants: Constants, arms: Array, left: Array, own: Array, arm: int) -> None:
        """Advance the queues by what the pull took from budget and allowances."""
        limited = len(left) - 2
        cost = own[3 * limited] - left[0]
        tightened = constants[1] / math.sqrt(max(constants[3] - left[0], 1.0))
        for m in range(limited):
            penalty = own[2 * limited + m] - left[2 + m]
            moved = own[limited + m] + penalty - (own[m] - tightened) * cost
            own[limited + m] = max(moved, 0.0)
            own[2 * limited + m] = left[2 + m]
        own[3 * limited] = left[0]


def slack_of(problem: Problem) -> float:
    """Slater's constant: how far below every limit some mixture's penalty rate can stay."""
    moments = problem.moments
    if not len(moments.limits):
        return 1.0
    found = conflict(moments.penalty_rate, moments.limits)
    return max(float(moments.limits.min()) * (1.0 - found.excess), LEAST_SLACK)
