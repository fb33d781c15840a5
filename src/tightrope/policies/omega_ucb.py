"""omega-UCB: the reward rate's upper bound by asymmetric intervals; ignores the limits.

Heyden, Arzamasov, Fouche and Boehm, "Budgeted multi-armed bandits with asymmetric confidence
intervals", KDD 2024. It pulls the arm with the largest

    upper bound of the mean reward / lower bound of the mean cost

where the bounds of a mean with average a after n pulls are the two m with

    n (a - m)^2 = eta z^2 m (1 - m),   z = sqrt(2 rho log t)

t counts the pulls of all arms. eta compares the outcomes' variance with a coin's: 1 for zeros and
ones, which gives Wilson's score interval. Here as there each arm is pulled once first; the budget
is ours as it is theirs, so nothing is adapted. The limits are ignored: a floor for what they cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tightrope.policies.base import Constants, Setup
from tightrope.policies.choice import Array, ChoicePolicy
from tightrope.policies.intervals import spread, untried, wilson_high, wilson_low

if TYPE_CHECKING:
    from tightrope.problem import Problem

__all__ = ["OmegaUCB"]


@dataclass(frozen=True)
class OmegaUCB(ChoicePolicy):
    """Pull the arm with the largest upper bound of its reward rate, by asymmetric intervals.

    ``rho``: how wide the intervals are; 1/4 in the paper's experiments. ``eta``: ``"estimated"``
    from the variance of 30 pulls on (the paper's omega*-UCB; the same for zeros and ones), or
    ``"one"``. Ignores the limits.
    """

    rho: float = 0.25
    eta: str = "estimated"

    name: ClassVar[str] = "omega-ucb"
    summary: ClassVar[str] = "asymmetric confidence bounds of the reward rate; ignores the limits"

    def __post_init__(self) -> None:
        self.require_number("rho", 0.0, open_low=True)
        self.require("eta", "estimated or one", self.eta in ("estimated", "one"))

    def setup(self, problem: Problem, budget: float) -> Setup:
        """2 rho, and whether eta is estimated."""
        return Setup(
            constants=(2.0 * self.rho, 1.0 if self.eta == "estimated" else 0.0),
            allowance=tuple(float(limit) for limit in problem.moments.limits),
        )

    @staticmethod
    def choose(constants: Constants, arms: Array, left: Array, own: Array, luck: Array) -> int:
        """The largest bound; lowest number on ties."""
        chosen = untried(arms)
        if chosen >= 0:
            return chosen
        best, squared = -1.0, constants[0] * math.log(left[1] + 1.0)
        for arm in range(len(arms)):
            high = wilson_high(*_interval(constants, arms, arm, 1, len(left), squared))
            low = wilson_low(*_interval(constants, arms, arm, 0, len(left), squared))
            if high > best * low:
                best, chosen = high / low, arm
        return chosen


def _interval(
    constants: Constants, arms: Array, arm: int, channel: int, channels: int, squared: float
) -> tuple[float, float, float]:
    """The mean, the pulls and eta z^2 of an arm's channel: 0 the cost, 1 the reward."""
    pulls, total = arms[arm, 0], arms[arm, 1 + channel]
    eta = spread(pulls, total, arms[arm, 1 + channels + channel]) if constants[1] > 0.0 else 1.0
    return total / pulls, pulls, eta * squared
