"""Your own policy in one file; docs/own-policy.md explains its parts."""

from dataclasses import dataclass
from typing import ClassVar

from tightrope import IndexPolicy, LyOn, ready_problem, simulate
from tightrope.policies import Setup
from tightrope.policies.base import limits_of


@dataclass(frozen=True)
class Thrifty(IndexPolicy):
    """Pull the arm with the smallest penalty per unit of cost so far, ignoring rewards."""

    optimism: float = 0.1
    name: ClassVar[str] = "thrifty"
    summary: ClassVar[str] = "the smallest empirical penalty rate"

    def setup(self, task, budget):
        return Setup(constants=(self.optimism,), allowance=limits_of(task), explore=1)

    @staticmethod
    def penalty_terms(constants, pulls, cost, penalty):
        return (penalty / cost if cost > 0.0 else 0.0), 1.0 / pulls

    @staticmethod
    def reward_index(constants, clock, uniform, arm, level, width):
        return 0.0

    @staticmethod
    def penalty_index(constants, clock, level, width):
        return level - constants[0] * width


results = simulate(ready_problem("paper"), [Thrifty(), LyOn()], budgets=500, runs=200, seed=1)
for row in results.summary():
    print(f"{row['policy']}: reward {row['reward_rate']:.2f}, violation {row['violation']:+.2f}")
