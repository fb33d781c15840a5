"""LinCon-KL-UCB: the best mixture of arms by KL-UCB bounds; any arm where none keeps the limits.

The rival that Saxena, Gonzalez and Jalden ("Thompson sampling for linearly constrained bandits",
AISTATS 2020) hold LinConTS against: as there, see ``lincon_ts``, with the drawn theta_k replaced by
the upper confidence bound of Garivier and Cappe ("The KL-UCB algorithm for bounded stochastic
bandits and beyond", COLT 2011) in the t-th round,

    u_k = max { q : n_k kl(mean_k, q) <= log t },   kl(p, q) = p log(p/q) + (1-p) log((1-p)/(1-q))

in the objective and in the constraint. Each arm is pulled once first; if the program has no
solution, an arm is pulled by chance.

Adapted to rates and a total random cost: with u the upper and l the lower bounds of the means by
kl, the program runs over shares of *cost* with the rewards u(r) / l(x), the penalties l(y_m) / u(x)
and the limits c_m: optimistic in all of them, as theirs is, for a success serves both ends there.
An arm is drawn by share of cost over mean cost. An arm that has cost nothing is pulled again.
Theirs is told every arm's pay for a success; ours is told nothing. Written from knowledge of the
published algorithm; their experiments, on data sets, are not repeated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from tightrope.policies.base import Constants, Setup, limits_of
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.intervals import kl_high, kl_low, untried
from tightrope.policies.parts.mixture import Program, pick_or_any, solve_program
from tightrope.policies.parts.sampling import coin
from tightrope.policies.state import Array, State

if TYPE_CHECKING:
    from tightrope.problem import Task

__all__ = ["LinConKLUCB"]


class Optimism(NamedTuple):
    """The arms' bounds, and the program of them."""

    limits: Annotated[Array, "M"]
    cost: Annotated[Array, "K"]  # mean
    reward: Annotated[Array, "K"]  # upper bound of the rate
    penalty: Annotated[Array, "K", "M"]  # lower bounds of the rates
    program: Program


@dataclass(frozen=True)
class LinConKLUCB(ChoicePolicy):
    """Mix the arms as if their KL bounds were the truth: high reward rates, low penalty rates.

    ``scale``: the bounds are those with n kl at most ``scale`` times log t; 1 in the paper.
    """

    scale: float = 1.0

    name: ClassVar[str] = "lincon-kl-ucb"
    summary: ClassVar[str] = "the best mixture of arms by KL-UCB bounds, or any where there is none"
    contestants: ClassVar[tuple[str, ...]] = ("lincon-kl-ucb",)
    colour: ClassVar[str | None] = "#9e9ac8"

    Scratch: ClassVar[type] = Optimism

    def __post_init__(self) -> None:
        self.require_number("scale", 0.0)

    def setup(self, task: Task, budget: float) -> Setup:
        """The scale."""
        return Setup((float(self.scale),), limits_of(task))

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Optimism) -> None:
        """Note the limits."""
        for m in range(len(scratch.limits)):
            scratch.limits[m] = state.remaining[1 + m] / state.remaining[0]

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Optimism, words: Array) -> int:
        """An arm of the best optimistic mixture; any, if there is none."""
        arm = untried(state)
        if arm >= 0:
            return arm
        _bound(constants[0] * math.log(state.steps[0] + 1.0), state, scratch)
        kept = solve_program(scratch.reward, scratch.penalty, scratch.limits, scratch.program)
        return pick_or_any(kept, scratch.program.mixture, scratch.cost, coin(words[0]))


def _bound(level: float, state: State, scratch: Optimism) -> None:
    """Every arm's bounds, for pulls times kl of at most ``level``."""
    limited = len(scratch.limits)
    for arm in range(len(state.pulls)):
        pulls, first = state.pulls[arm], arm * (2 + limited)
        cost, width = state.totals[first] / pulls, level / pulls
        scratch.cost[arm] = cost
        scratch.reward[arm] = kl_high(state.totals[first + 1] / pulls, width) / kl_low(cost, width)
        dear = kl_high(cost, width)
        for m in range(limited):
            lower = kl_low(state.totals[first + 2 + m] / pulls, width)
            scratch.penalty[arm * limited + m] = lower / dear
