"""LinConTS: the best mixture at sampled rates; a random arm if no mixture keeps the limits.

Saxena, Gonzalez and Jalden, "Thompson sampling for linearly constrained bandits", AISTATS 2020. An
arm succeeds with an unknown probability mu_k and then pays a known reward r_k; the rate of
successes must be at least eta. Pull each arm once. Then, in every round, draw theta_k from the
posterior Beta(1 + successes, 1 + failures) of every arm, solve

    maximise sum x_k r_k theta_k   subject to   sum x_k theta_k >= eta,   sum x_k = 1,   x >= 0

and pull arm k with probability x_k. If the program has no solution, pull an arm at random.

Adapted to rates and a total random cost in the same way as ``ts-lp``: mean cost, reward and
penalties of every arm are drawn, each from its own posterior, and the program runs over shares of
*cost* with the drawn rates and the limits c_m. Their algorithm knows the reward of a success, and
that reward and constraint depend on the same success; this one knows neither. It differs from
``ts-lp`` in two of their rules: every arm is pulled once first, and if no mixture keeps the limits
at the drawn rates, it pulls an arm at random, where ``ts-lp`` takes the least violating mixture.
It was written from memory of the published algorithm; their experiments, on data sets, are not
repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tightrope.policies.base import Constants, Setup, limits_of
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.intervals import unpulled
from tightrope.policies.parts.mixture import pick_or_any, solve_program
from tightrope.policies.parts.sampling import coin, count_outcomes
from tightrope.policies.rivals.ts_lp import TSLP, Drawn, draw
from tightrope.policies.state import Array, State

if TYPE_CHECKING:
    from tightrope.problem import Task


@dataclass(frozen=True)
class LinConTS(ChoicePolicy):
    """Play the mixture that is best for sampled means; a random arm if none keeps the limits.

    >>> LinConTS().label
    'lincon-ts'
    """

    name: ClassVar[str] = "lincon-ts"
    summary: ClassVar[str] = "the best mixture at sampled rates, or a random arm if there is none"
    contestants: ClassVar[tuple[str, ...]] = ("lincon-ts",)
    colour: ClassVar[str | None] = "#8c2d04"

    Scratch: ClassVar[type] = Drawn
    carried: ClassVar[tuple[str, ...]] = ("posteriors.word",)
    learned: ClassVar[Mapping[str, str]] = {
        "posteriors.counted": "outcomes",
        "posteriors.successes": "",
    }

    def setup(self, task: Task, budget: float) -> Setup:
        """No constants."""
        return Setup((), limits_of(task))

    begin = staticmethod(TSLP.begin)

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Drawn, words: Array) -> int:
        """An arm drawn from the best sampled mixture; a random arm if none keeps the limits."""
        scratch.posteriors.word[0] = words[1]
        arm = unpulled(state)
        if arm >= 0:
            return arm
        draw(state, scratch, words[0])
        kept = solve_program(scratch.reward, scratch.penalty, scratch.limits, scratch.program)
        return pick_or_any(kept, scratch.program.mixture, scratch.cost, coin(words[1]))

    @staticmethod
    def learn(constants: Constants, state: State, scratch: Drawn, arm: int) -> None:
        """Update the posteriors of the arm just pulled."""
        count_outcomes(state, scratch.posteriors, arm)
