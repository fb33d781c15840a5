"""TS-LP: the best mixture at sampled rates, by a linear program at every step.

Ferreira, Simchi-Levi and Wang, "Online network revenue management using Thompson sampling",
Operations Research 66(6), 2018: draw the unknown means from their posteriors, solve the linear
program for the drawn means, play from its solution. In their TS-fixed the bound is the initial
inventory per period; in TS-update it is the inventory left per period left.

Adapted to rates and a total random cost: mean cost x, reward r and penalties y of every arm are
drawn. The program runs over shares of *cost*, with rates r / x and y_m / x and limits c_m
(TS-fixed) or allowance left / budget left (TS-update). An arm is then drawn with probability
proportional to its share of cost divided by its drawn cost. Their algorithm may offer nothing; this
one must spend the budget, so the shares sum to 1, and if no mixture keeps the limits it takes the
least violating one. Priors are Beta(1, 1); outcomes between 0 and 1 are rounded to 0 or 1 at random
(see ``sampling``). There is no initial exploration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from tightrope.policies.base import Constants, Setup, limits_of, net_penalty
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.mixture import Program, pick, solve_program
from tightrope.policies.parts.sampling import Posteriors, coin, count_outcomes, draw_gammas, mean_of
from tightrope.policies.parts.words import as_flag
from tightrope.policies.state import Array, State, rows

if TYPE_CHECKING:
    from tightrope.problem import Task

LEAST = 1e-6  # smallest limit used when no allowance is left, relative to the original limit


class Drawn(NamedTuple):
    """The posteriors, the rates drawn from them, and the linear program over these."""

    posteriors: Posteriors
    limits: Annotated[Array, "M"]
    promised: Annotated[Array, "M"]  # the limits that the mixture must keep at this step
    cost: Annotated[Array, "K"]  # mean
    reward: Annotated[Array, "K"]  # rate
    penalty: Annotated[Array, "K", "M"]  # rates
    program: Program
    gammas: Annotated[Array, "K", "C", 4]  # see ``sampling``


@dataclass(frozen=True)
class TSLP(ChoicePolicy):
    """Play the mixture that is best for sampled means.

    ``update``: take as limits allowance left / budget left (TS-update) instead of the constant
    limits (TS-fixed).

    >>> TSLP(update=True).label
    'ts-lp:update=true'
    """

    update: bool = False

    name: ClassVar[str] = "ts-lp"
    summary: ClassVar[str] = "the best mixture at sampled rates, solved anew at every step"
    contestants: ClassVar[tuple[str, ...]] = ("ts-lp", "ts-lp:update=true")
    colour: ClassVar[str | None] = "#8fb339"

    Scratch: ClassVar[type] = Drawn
    carried: ClassVar[tuple[str, ...]] = ("posteriors.word",)
    learned: ClassVar[Mapping[str, str]] = {
        "posteriors.counted": "outcomes",
        "posteriors.successes": "",
    }

    def __post_init__(self) -> None:
        object.__setattr__(self, "update", as_flag(self.update))
        self.require("update", "true or false", isinstance(self.update, bool))

    def setup(self, task: Task, budget: float) -> Setup:
        """Constant: whether to use TS-update."""
        return Setup(constants=(1.0 if self.update else 0.0,), allowance=limits_of(task))

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Drawn) -> None:
        """Compute the limits from the allowances."""
        for m in range(len(scratch.limits)):
            scratch.limits[m] = state.limits[m]

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Drawn, words: Array) -> int:
        """An arm drawn from the best sampled mixture."""
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
    limited, gammas = len(scratch.limits), scratch.gammas
    draw_gammas(state, scratch.posteriors.successes, gammas, word)
    for arm in rows(state):
        cost, reward = mean_of(state, gammas, arm, 0), mean_of(state, gammas, arm, 1)
        scratch.cost[arm], scratch.reward[arm] = cost, reward / cost
        for m in range(limited):
            drawn = mean_of(state, gammas, arm, 2 + m)
            net = net_penalty(state.bases[m], state.limits[m], 1.0, cost, reward, drawn)
            scratch.penalty[arm * limited + m] = net / cost
