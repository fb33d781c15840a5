"""Budgeted Thompson sampling: the largest sampled reward per sampled cost; ignores the limits.

Xia, Li, Qin, Yu and Liu, "Thompson sampling for budgeted multi-armed bandits", IJCAI 2015. At each
step draw every arm's mean reward r and mean cost x from their posteriors and pull the arm with the
largest r / x. Priors are Beta(1, 1); outcomes between 0 and 1 are rounded to 0 or 1 at random, as
in their algorithm (see ``sampling``). Their setting has the same budget, so nothing is adapted.
There is no initial exploration. The limits are ignored, so it shows what they cost in reward.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from tightrope.policies.base import Constants, Setup, limits_of
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.sampling import Posteriors, count_outcomes, sampled_mean
from tightrope.policies.state import Array, State, rows
from tightrope.problem import Task

__all__ = ["BudgetedTS"]


@dataclass(frozen=True)
class BudgetedTS(ChoicePolicy):
    """Pull the arm with the largest sampled mean reward / sampled mean cost; ignore the limits.

    >>> BudgetedTS().label
    'budgeted-ts'
    """

    name = "budgeted-ts"
    summary = "Thompson sampling of the reward rate; ignores the limits"
    contestants = ("budgeted-ts",)
    colour = "#7f7f7f"

    Scratch = Posteriors
    carried = ("word",)
    learned: ClassVar[Mapping[str, str]] = {"counted": "outcomes", "successes": ""}

    def setup(self, task: Task, budget: float) -> Setup:
        """No constants."""
        return Setup((), limits_of(task))

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Posteriors, words: Array) -> int:
        """The arm with the largest sampled reward rate."""
        scratch.word[0] = words[1]
        best, chosen = -1.0, 0
        for row in rows(state):
            cost = sampled_mean(state, scratch, row, 0, words[0])
            reward = sampled_mean(state, scratch, row, 1, words[0])
            if reward > best * cost:
                best, chosen = reward / cost, row
        return chosen

    @staticmethod
    def learn(constants: Constants, state: State, scratch: Posteriors, row: int) -> None:
        """Update the posteriors of the arm just pulled."""
        count_outcomes(state, scratch, row)
