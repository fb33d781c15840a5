"""Budgeted Thompson sampling: the largest sampled reward per sampled cost; ignores the limits.

Xia, Li, Qin, Yu and Liu, "Thompson sampling for budgeted multi-armed bandits", IJCAI 2015. At each
step draw every arm's mean reward r and mean cost x from their posteriors and pull the arm with the
largest r / x. Priors are Beta(1, 1); outcomes other than 0 and 1 are turned into coins first, as
their algorithm does (see ``sampling``). The budget is ours as it is theirs, so nothing is adapted;
no arm is pulled by rule. The limits are ignored: a floor for what they cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tightrope.policies.base import Constants, Setup
from tightrope.policies.choice import Array, ChoicePolicy
from tightrope.policies.sampling import count_outcomes, keep_word, posterior_size, sampled_mean

if TYPE_CHECKING:
    from tightrope.problem import Problem

__all__ = ["BudgetedTS"]


@dataclass(frozen=True)
class BudgetedTS(ChoicePolicy):
    """Sample every arm's mean reward and cost, pull the largest quotient. Ignores the limits."""

    name: ClassVar[str] = "budgeted-ts"
    summary: ClassVar[str] = "Thompson sampling of the reward rate; ignores the limits"

    def setup(self, problem: Problem, budget: float) -> Setup:
        """No constants."""
        return Setup((), tuple(float(limit) for limit in problem.moments.limits))

    def scratch(self, arms: int, penalties: int) -> int:
        """The posteriors."""
        return posterior_size(arms, penalties)

    @staticmethod
    def choose(constants: Constants, arms: Array, left: Array, own: Array, luck: Array) -> int:
        """The largest sampled rate."""
        keep_word(own, luck[1])
        best, chosen, channels = -1.0, 0, len(left)
        for arm in range(len(arms)):
            cost = sampled_mean(arms, own, arm, 0, channels, luck[0])
            reward = sampled_mean(arms, own, arm, 1, channels, luck[0])
            if reward > best * cost:
                best, chosen = reward / cost, arm
        return chosen

    @staticmethod
    def learn(constants: Constants, arms: Array, left: Array, own: Array, arm: int) -> None:
        """Update the posteriors of the arm just pulled."""
        count_outcomes(arms, own, arm, len(left))
