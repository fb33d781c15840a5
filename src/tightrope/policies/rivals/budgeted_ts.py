"""Budgeted Thompson sampling: the largest sampled reward per sampled cost; ignores the limits.

Xia, Li, Qin, Yu and Liu, "Thompson sampling for budgeted multi-armed bandits", IJCAI 2015. At each
step draw every arm's mean reward r and mean cost x from their posteriors and pull the arm with the
largest r / x. Priors are Beta(1, 1); outcomes between 0 and 1 are rounded to 0 or 1 at random, as
in their algorithm (see ``sampling``). Their setting has the same budget, so nothing is adapted.
There is no initial exploration. It ignores the limits and so shows their cost in reward.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

from tightrope.policies.base import Constants, Setup, limits_of
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.sampling import Posteriors, count_outcomes, draw_gammas, mean_of
from tightrope.policies.state import Array, State, rows
from tightrope.problem import Task


class SampledRates(NamedTuple):
    """The posteriors and the draws from them."""

    posteriors: Posteriors
    gammas: Annotated[Array, "K", "C", 4]  # see ``sampling``


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

    Scratch = SampledRates
    carried = ("posteriors.word",)
    learned: ClassVar[Mapping[str, str]] = {
        "posteriors.counted": "outcomes",
        "posteriors.successes": "",
    }

    def setup(self, task: Task, budget: float) -> Setup:
        """No constants."""
        return Setup((), limits_of(task))

    @staticmethod
    def choose(constants: Constants, state: State, scratch: SampledRates, words: Array) -> int:
        """The arm with the largest sampled reward rate."""
        posteriors, gammas = scratch.posteriors, scratch.gammas
        posteriors.word[0] = words[1]
        draw_gammas(state, posteriors.successes, gammas, words[0])
        best, chosen = -1.0, 0
        for row in rows(state):
            cost, reward = mean_of(state, gammas, row, 0), mean_of(state, gammas, row, 1)
            if reward > best * cost:
                best, chosen = reward / cost, row
        return chosen

    @staticmethod
    def learn(constants: Constants, state: State, scratch: SampledRates, row: int) -> None:
        """Update the posteriors of the arm just pulled."""
        count_outcomes(state, scratch.posteriors, row)
