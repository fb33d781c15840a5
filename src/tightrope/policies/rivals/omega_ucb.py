"""omega-UCB: the reward rate's upper bound by asymmetric intervals; ignores the limits.

Heyden, Arzamasov, Fouche and Boehm, "Budgeted multi-armed bandits with asymmetric confidence
intervals", KDD 2024. It pulls the arm with the largest

    upper bound of the mean reward / lower bound of the mean cost

where the bounds of a mean with average a after n pulls are the two m with

    n (a - m)^2 = eta z^2 m (1 - m),   z = sqrt(2 rho log t)

t counts the pulls of all arms. eta is the outcomes' variance relative to that of a Bernoulli
variable with the same mean: 1 for zeros and ones, which gives Wilson's score interval. Each arm is
first pulled once. Their setting has the same budget, so nothing is adapted. It ignores the limits
and so shows their cost in reward.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tightrope.policies.base import Constants, Setup, limits_of
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.intervals import mean_and_width, untried, wilson_high, wilson_low
from tightrope.policies.state import Array, NoScratch, State, rows
from tightrope.problem import Task


@dataclass(frozen=True)
class OmegaUCB(ChoicePolicy):
    """Pull the arm with the largest upper bound of its reward rate, by asymmetric intervals.

    ``rho``: the scale of the intervals; 1/4 in their experiments. ``eta``: ``"estimated"`` from the
    variance once an arm has 30 pulls (their omega*-UCB; no difference for outcomes 0 and 1), or
    ``"one"``. Ignores the limits.

    >>> OmegaUCB(rho=1).label
    'omega-ucb:rho=1'
    """

    rho: float = 0.25
    eta: str = "estimated"

    name = "omega-ucb"
    summary = "asymmetric confidence bounds of the reward rate; ignores the limits"
    contestants = ("omega-ucb",)
    colour = "#00a3a3"

    def __post_init__(self) -> None:
        self.require_number("rho", 0.0, open_low=True)
        self.require("eta", "estimated or one", self.eta in ("estimated", "one"))

    def setup(self, task: Task, budget: float) -> Setup:
        """Constants: 2 rho, and whether eta is estimated."""
        return Setup(
            constants=(2.0 * self.rho, 1.0 if self.eta == "estimated" else 0.0),
            allowance=limits_of(task),
        )

    @staticmethod
    def choose(constants: Constants, state: State, scratch: NoScratch, words: Array) -> int:
        """The arm with the largest bound; ties go to the lowest number."""
        chosen = untried(state)
        if chosen >= 0:
            return chosen
        best, squared = -1.0, constants[0] * math.log(state.steps[0] + 1.0)
        channels, estimated = len(state.remaining) + 1, constants[1] > 0.0
        for row in rows(state):
            pulls = state.pulls[row]
            mean, width = mean_and_width(state, pulls, row * channels + 1, squared, estimated)
            high = wilson_high(mean, pulls, width)
            mean, width = mean_and_width(state, pulls, row * channels, squared, estimated)
            low = wilson_low(mean, pulls, width)
            if high > best * low:
                best, chosen = high / low, row
        return chosen
