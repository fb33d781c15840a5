"""LinCon-KL-UCB: the best mixture at KL-UCB bounds; a random arm if no mixture keeps the limits.

Saxena, Gonzalez and Jalden ("Thompson sampling for linearly constrained bandits", AISTATS 2020)
compare LinConTS with it. It is the same as LinConTS (see ``lincon_ts``), but theta_k is not drawn;
it is the upper confidence bound of Garivier and Cappe ("The KL-UCB algorithm for bounded stochastic
bandits and beyond", COLT 2011) in round t,

    u_k = max { q : n_k kl(mean_k, q) <= log t },   kl(p, q) = p log(p/q) + (1-p) log((1-p)/(1-q))

in the objective and in the constraint. Each arm is pulled once first; if the program has no
solution, an arm is pulled at random.

Adapted to rates and a total random cost: with upper and lower bounds u and l of the means by kl,
the program runs over shares of *cost* with the rewards u(r) / l(x), the penalties l(y_m) / u(x) and
the limits c_m. All of them are optimistic, as in their algorithm, where a higher success rate
improves both reward and constraint. An arm is then drawn with probability proportional to its share
of cost divided by its mean cost. An arm whose cost so far is 0 is pulled again. Their algorithm
knows the reward of a success; this one does not. It was written from memory of the published
algorithm; their experiments, on data sets, are not repeated.

log t is rounded up to a multiple of 1/128: the bounds of an arm then stay the same for many rounds
in which it is not pulled, and are not computed again. They are wider by less than 0.1 % at t = 100.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from tightrope.policies.base import Constants, Setup, limits_of
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.intervals import if_unknown, kl_high, kl_low, untried
from tightrope.policies.parts.mixture import Program, pick_or_any, solve_program
from tightrope.policies.parts.nets import low_net_rate
from tightrope.policies.parts.sampling import coin
from tightrope.policies.state import Array, State, rows

if TYPE_CHECKING:
    from tightrope.problem import Task

GRID = 128.0  # steps of log t per unit


class Optimism(NamedTuple):
    """The arms' confidence bounds, what they were computed from, and the linear program."""

    limits: Annotated[Array, "M"]
    level: Annotated[Array, 1]  # of the bounds; -1 before there are any
    pulls: Annotated[Array, "K"]  # of the bounds
    totals: Annotated[Array, "K", "C"]  # of the bounds
    cost: Annotated[Array, "K"]  # mean
    reward: Annotated[Array, "K"]  # upper bound of the rate
    penalty: Annotated[Array, "K", "M"]  # lower bounds of the rates
    program: Program


@dataclass(frozen=True)
class LinConKLUCB(ChoicePolicy):
    """Play the mixture that is best for upper KL bounds of rewards and lower ones of penalties.

    ``scale``: the bounds are those with n kl at most ``scale`` times log t; 1 in the paper.

    >>> LinConKLUCB(scale=0.5).label
    'lincon-kl-ucb:scale=0.5'
    """

    scale: float = 1.0

    name: ClassVar[str] = "lincon-kl-ucb"
    summary: ClassVar[str] = "the best mixture at KL-UCB bounds, or a random arm if there is none"
    contestants: ClassVar[tuple[str, ...]] = ("lincon-kl-ucb",)
    colour: ClassVar[str | None] = "#9e9ac8"

    Scratch: ClassVar[type] = Optimism

    def __post_init__(self) -> None:
        self.require_number("scale", 0.0)

    def setup(self, task: Task, budget: float) -> Setup:
        """Constant: the scale."""
        return Setup((float(self.scale),), limits_of(task))

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Optimism) -> None:
        """Compute the limits from the allowances; no bounds are known yet."""
        scratch.level[0] = -1.0
        for m in range(len(scratch.limits)):
            scratch.limits[m] = state.limits[m]

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Optimism, words: Array) -> int:
        """An arm drawn from the best optimistic mixture; a random arm if none keeps the limits."""
        arm = untried(state)
        if arm >= 0:
            return arm
        level = math.ceil(GRID * math.log(state.steps[0] + 1.0)) / GRID
        _bound(constants[0] * level, state, scratch)
        kept = solve_program(scratch.reward, scratch.penalty, scratch.limits, scratch.program)
        return pick_or_any(kept, scratch.program.mixture, scratch.cost, coin(words[0]))


def _bound(level: float, state: State, scratch: Optimism) -> None:
    """Compute the bounds of arms for which they changed: pulls times kl is at most ``level``."""
    every = level != scratch.level[0]
    scratch.level[0] = level
    for arm in rows(state):
        if _changed(arm, state, scratch) or every:
            _bound_arm(arm, level / state.pulls[arm], state, scratch)


def _changed(arm: int, state: State, scratch: Optimism) -> bool:
    """Whether an arm's pulls or totals differ from those of its bounds; records the new ones."""
    channels = 2 + len(scratch.limits)
    changed = scratch.pulls[arm] != state.pulls[arm]
    scratch.pulls[arm] = state.pulls[arm]
    for at in range(arm * channels, (arm + 1) * channels):
        changed = changed or scratch.totals[at] != state.totals[at]
        scratch.totals[at] = state.totals[at]
    return changed  # type: ignore[no-any-return]


def _bound_arm(arm: int, width: float, state: State, scratch: Optimism) -> None:
    limited, pulls = len(scratch.limits), state.pulls[arm]
    first = arm * (2 + limited)
    cost = state.totals[first] / pulls
    scratch.cost[arm] = cost
    reward = kl_high(state.totals[first + 1] / pulls, width)
    unsure = if_unknown(state, first, width)
    cheap, dear = kl_low(cost, unsure), kl_high(cost, unsure)
    scratch.reward[arm] = reward / cheap
    for m in range(limited):
        own = if_unknown(state, first + 2 + m, width)
        lower = kl_low(state.totals[first + 2 + m] / pulls, own)
        rate = low_net_rate(state, m, lower, reward, cheap, dear)
        scratch.penalty[arm * limited + m] = rate
