"""LinConTS: the best mixture of sampled arms, and any arm where no mixture keeps the limits.

Saxena, Gonzalez and Jalden, "Thompson sampling for linearly constrained bandits", AISTATS 2020. An
arm succeeds with an unknown chance mu_k and then pays a known r_k; successes must come at a rate of
at least eta. Pull each arm once; then draw theta_k from the posterior Beta(1 + successes, 1 +
failures) of every arm, find

    maximise sum x_k r_k theta_k   subject to   sum x_k theta_k >= eta,   sum x_k = 1,   x >= 0

and pull an arm by x; if the program has no solution, pull one of all arms by chance.

Adapted to rates and a total random cost as ``ts-lp`` is: mean cost, reward and penalties of every
arm are drawn, each from a posterior of its own, and the program runs over shares of *cost* with
the drawn rates and the limits c_m. Theirs is told every arm's pay for a success and that reward
and constraint come from the same success; ours is told nothing. What sets it apart from ``ts-lp``
are two rules of theirs: every arm is pulled once first, and where no mixture of the drawn arms
keeps the limits, an arm is pulled by chance, not the least violating mixture. Written from
knowledge of the published algorithm; their experiments, on data sets, are not repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tightrope.policies.base import Constants, Setup, limits_of
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.intervals import unpulled
from tightrope.policies.parts.mixture import pick_or_any, solve_program
from tightrope.policies.parts.sampling import coin, count_outcomes
from tightrope.policies.state import Array, State
from tightrope.policies.ts_lp import TSLP, Drawn, draw

if TYPE_CHECKING:
    from tightrope.problem import Task

__all__ = ["LinConTS"]


@dataclass(frozen=True)
class LinConTS(ChoicePolicy):
    """Mix the arms as if their sampled means were the truth; any arm if these keep no limit."""

    name: ClassVar[str] = "lincon-ts"
    summary: ClassVar[str] = "the best mixture of sampled arms, or any arm where there is none"
    contestants: ClassVar[tuple[str, ...]] = ("lincon-ts",)
    colour: ClassVar[str | None] = "#8c2d04"

    Scratch: ClassVar[type] = Drawn

    def setup(self, task: Task, budget: float) -> Setup:
        """No constants."""
        return Setup((), limits_of(task))

    begin = staticmethod(TSLP.begin)

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Drawn, words: Array) -> int:
        """An arm of the best sampled mixture; any, if there is none."""
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
