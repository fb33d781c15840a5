"""Epsilon-greedy on the reward rate: the best arm so far, or any arm with probability epsilon."""

from __future__ import annotations

from dataclasses import dataclass

from tightrope.policies.base import Constants, IndexPolicy, Setup, limits_of
from tightrope.policies.parts.rates import INFINITY, rate_terms
from tightrope.problem import Task


@dataclass(frozen=True)
class EpsilonGreedy(IndexPolicy):
    """Pull the arm with the highest reward rate so far, or any arm with probability ``epsilon``.

    ``epsilon`` in [0, 1]. Each arm is first pulled once. Ignores the limits.

    >>> EpsilonGreedy(epsilon=0.05).label
    'epsilon-greedy:epsilon=0.05'
    """

    epsilon: float = 0.1

    name = "epsilon-greedy"
    summary = "the best reward rate so far, or any arm with probability epsilon"
    contestants = ("epsilon-greedy",)
    colour = "#cc79a7"
    random = True

    def __post_init__(self) -> None:
        self.require_number("epsilon", 0.0)
        self.require("epsilon", "in [0, 1]", self.epsilon <= 1.0)

    def setup(self, task: Task, budget: float) -> Setup:
        """Constants: epsilon and epsilon / K. Each arm is first pulled once."""
        return Setup(
            constants=(self.epsilon, self.epsilon / task.arm_count),
            allowance=limits_of(task),
            explore=1,
        )

    reward_terms = staticmethod(rate_terms)

    @staticmethod
    def reward_index(
        constants: Constants, clock: float, uniform: float, arm: float, level: float, width: float
    ) -> float:
        """Minus the rate; if the uniform is below epsilon, 0 from the arm to explore onwards."""
        if uniform < constants[0]:
            return 0.0 if uniform < (arm + 1.0) * constants[1] else INFINITY
        return -level
