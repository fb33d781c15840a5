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

from tightrope.policies.base import Constants, Setup, limits_of
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.sampling import Posteriors, count_outcomes, sampled_mean
from tightrope.policies.state import Array, State

if TYPE_CHECKING:
    from tightrope.problem import Task

__all__ = ["BudgetedTS"]


@dataclass(frozen=True)
class BudgetedTS(ChoicePolicy):
    """Sample every arm's mean reward and cost, pull the largest quotient. Ignores the limits."""

    name: ClassVar[str] = "budgeted-ts"
    summary: ClassVar[str] = "Thompson sampling of the reward rate; ignores the limits"
    contestants: ClassVar[tuple[str, ...]] = ("budgeted-ts",)
    colour: ClassVar[str | None] = "#7f7f7f"

    Scratch: ClassVar[type] = Posteriors

    def setup(self, task: Task, budget: float) -> Setup:
        """No constants."""
        return Setup((), limits_of(task))

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Posteriors, words: Array) -> int:
        """The largest sampled rate."""
        scratch.word[0] = words[1]
        best, chosen = -1.0, 0
        for arm in range(len(state.pulls)):
            cost = sampled_mean(state, scratch, arm, 0, words[0])
            reward = sampled_mean(state, scratch, arm, 1, words[0])
            if reward > best * cost:
                best, chosen = reward / cost, arm
        return chosen

    @staticmethod
    def learn(constants: Constants, state: State, scratch: Posteriors, arm: int) -> None:
        """Update the posteriors of the arm just pulled."""
        count_outcomes(state, scratch, arm)
