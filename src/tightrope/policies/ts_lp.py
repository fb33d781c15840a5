"""TS-LP: the best mixture of sampled arms, by a linear program solved anew at every step.

Ferreira, Simchi-Levi and Wang, "Online network revenue management using Thompson sampling",
Operations Research 66(6), 2018: draw the unknown means from their posteriors, solve the linear
program of the drawn problem, play from its solution. Their TS-fixed solves against the inventory
per period at the start, TS-update against what is left of it per period left.

Adapted to rates and a total random cost: mean cost x, reward r and penalties y of every arm are
drawn, the program runs over shares of *cost* with rates r / x, y_m / x and the limits c_m
(TS-fixed) or, for each, allowance left / budget left (TS-update), and an arm is drawn by share of
cost over drawn cost. Theirs may offer nothing; ours must spend the budget, so the shares sum to 1,
and if no mixture keeps the limits it takes the least violating one. Priors are Beta(1, 1); outcomes
other than 0 and 1 are turned into coins (see ``sampling``). No arm is pulled by rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from tightrope.policies.base import Constants, Setup, limits_of
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.mixture import Program, pick, solve_program
from tightrope.policies.parts.sampling import Posteriors, coin, count_outcomes, sampled_mean
from tightrope.policies.parts.words import as_flag
from tightrope.policies.state import Array, State

if TYPE_CHECKING:
    from tightrope.problem import Task

__all__ = ["TSLP", "Drawn", "draw"]

LEAST = 1e-6  # of a limit: what is promised when nothing is left of it


class Drawn(NamedTuple):
    """The posteriors, what was drawn from them, and the program of it."""

    posteriors: Posteriors
    limits: Annotated[Array, "M"]
    promised: Annotated[Array, "M"]  # what the mixture has to keep
    cost: Annotated[Array, "K"]  # mean
    reward: Annotated[Array, "K"]  # rate
    penalty: Annotated[Array, "K", "M"]  # rates
    program: Program


@dataclass(frozen=True)
class TSLP(ChoicePolicy):
    """Mix the arms as if their sampled means were the truth.

    ``update``: against what is left of the allowances and the budget (TS-update), not against the
    constant limits (TS-fixed).
    """

    update: bool = False

    name: ClassVar[str] = "ts-lp"
    summary: ClassVar[str] = "the best mixture of sampled arms, solved anew at every step"
    contestants: ClassVar[tuple[str, ...]] = ("ts-lp", "ts-lp:update=true")
    colour: ClassVar[str | None] = "#8fb339"

    Scratch: ClassVar[type] = Drawn

    def __post_init__(self) -> None:
        object.__setattr__(self, "update", as_flag(self.update))
        self.require("update", "true or false", isinstance(self.update, bool))

    def setup(self, task: Task, budget: float) -> Setup:
        """Whether the limits follow what is left."""
        return Setup(constants=(1.0 if self.update else 0.0,), allowance=limits_of(task))

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Drawn) -> None:
        """Note the limits."""
        for m in range(len(scratch.limits)):
            scratch.limits[m] = state.remaining[1 + m] / state.remaining[0]

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Drawn, words: Array) -> int:
        """An arm of the best sampled mixture."""
        scratch.posteriors.word[0] = words[1]
        draw(state, scratch, words[0])
        budget, limits = state.remaining[0], scratch.limits
        for m in range(len(limits)):
            scratch.promised[m] = limits[m]
            if constants[0] > 0.0 and budget > 0.0:
                scratch.promised[m] = max(state.remaining[1 + m] / budget, LEAST * limits[m])
        solve_program(scratch.reward, scratch.penalty, scratch.promised, scratch.program)
        return pick(scratch.program.mixture, scratch.cost, coin(words[1]))

    @staticmethod
    def learn(constants: Constants, state: State, scratch: Drawn, arm: int) -> None:
        """Update the posteriors of the arm just pulled."""
        count_outcomes(state, scratch.posteriors, arm)


def draw(state: State, scratch: Drawn, word: int) -> None:
    """Draw every arm's means, and from them its rates."""
    posteriors, limited = scratch.posteriors, len(scratch.limits)
    for arm in range(len(state.pulls)):
        cost = sampled_mean(state, posteriors, arm, 0, word)
        scratch.cost[arm] = cost
        scratch.reward[arm] = sampled_mean(state, posteriors, arm, 1, word) / cost
        for m in range(limited):
            drawn = sampled_mean(state, posteriors, arm, 2 + m, word)
            scratch.penalty[arm * limited + m] = drawn / cost
