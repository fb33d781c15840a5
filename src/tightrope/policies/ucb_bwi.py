"""UCB-BwI (Cayci, Eryilmaz and Srikant 2019): the reward rate's upper confidence bound.

It ignores the limits. LyOn makes the same choices while its queues are 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from tightrope.policies.base import IndexPolicy, Setup, limits_of
from tightrope.policies.lyon import LyOn
from tightrope.policies.parts.rates import exploration, known_facts, smallest_cost
from tightrope.problem import Task


@dataclass(frozen=True)
class UCBBwI(IndexPolicy):
    """Pull the arm with the highest upper confidence bound on its reward rate.

    ``alpha``, ``beta0``, ``mu_min`` as in :class:`~tightrope.policies.LyOn`. It ignores the limits:
    queues are recorded but do not affect the choice.

    >>> UCBBwI(alpha=1).label
    'ucb-bwi:alpha=1'
    """

    alpha: float = 2.0
    beta0: float = 1.0
    mu_min: float | None = None

    name = "ucb-bwi"
    summary = "upper confidence bound of the reward rate; ignores the limits"
    contestants = ("ucb-bwi",)
    colour = "#009e73"
    steady = True

    def __post_init__(self) -> None:
        self.require_number("alpha", 0.0)
        self.require_number("beta0", 0.0)
        self.require_number("mu_min", 0.0, open_low=True, optional=True)

    knows = LyOn.knows

    def setup(self, task: Task, budget: float) -> Setup:
        """The scale of the bonus and the initial exploration, as in LyOn."""
        return Setup(
            constants=(1.0, 1.0, 2.0 * self.alpha, known_facts(task)[0]),
            allowance=limits_of(task),
            explore=exploration(self.beta0, budget, smallest_cost(self.mu_min, task)),
        )

    clock = staticmethod(LyOn.clock)
    reward_terms = staticmethod(LyOn.reward_terms)
    reward_index = staticmethod(LyOn.reward_index)  # with V = 1
