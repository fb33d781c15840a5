"""UCB-LP: the best mixture at optimistic rates, by a linear program at every step.

Agrawal and Devanur, "Bandits with concave rewards and convex knapsacks", EC 2014: play from the
distribution that maximises the reward's upper confidence bounds while the lower confidence bounds
of the consumption keep (1 - epsilon) of each budget per round. The radius of a mean m after n pulls
is sqrt(gamma m / n) + gamma / n with gamma of the order of log(arms, resources, rounds). For K
arms, a smallest budget B' and T rounds their theorem for knapsacks takes

    epsilon = sqrt(gamma K / B') + gamma K log(T) / B'

up to a constant that it does not state: the deviation of the consumption, relative to B'.

Adapted to rates and a total random cost: the program runs over shares of *cost*,

    maximise w . U   subject to   w . L_m <= (1 - epsilon) c_m,   sum w = 1

    U = r/x + (rad(r) + rad(x) r/x) / x,   L = y/x - (rad(y) + rad(x) y/x) / x, at least 0

with empirical means r, x, y. An arm is then drawn with probability proportional to its share of
cost divided by its mean cost. Their algorithm may skip a round; this one must spend the budget, so
the shares sum to 1, and if no mixture keeps the limits it takes the least violating one.
gamma = gamma0 log(K (1 + M) B), with the budget B in place of the number of rounds T, and
B' = B min(1, c_1, ..., c_M). The constant that they do not state is taken as 1, and epsilon is at
most 1/2, as Sankararaman and Slivkins assume ("Bandits with knapsacks beyond the worst case",
NeurIPS 2021): if the formula gives more, the budget is too small for the theorem. The formulas were
written from memory of the papers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from tightrope.policies.base import Constants, Setup, limits_of
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.intervals import (
    if_unknown,
    knapsack_radius,
    log_term,
    rate_radius,
    untried,
)
from tightrope.policies.parts.mixture import Program, pick, solve_program
from tightrope.policies.parts.nets import low_net_rate
from tightrope.policies.parts.sampling import coin
from tightrope.policies.state import Array, State
from tightrope.problem import Task

PUBLISHED = "published"
LEAST_COST = 1e-3  # of a lower bound on a mean cost
LARGEST_SHRINKAGE = 0.5  # largest value of the published epsilon


class Bounds(NamedTuple):
    """The arms' confidence bounds, and the linear program over them.

    Limits are without a reserve. Rewards are optimistic rates. Costs are means and penalties lower
    bounds of rates; a cautious policy uses lower bounds of costs and upper bounds of penalties.
    """

    limits: Annotated[Array, "M"]
    cost: Annotated[Array, "K"]
    reward: Annotated[Array, "K"]
    penalty: Annotated[Array, "K", "M"]
    program: Program


@dataclass(frozen=True)
class UCBLP(ChoicePolicy):
    """Play the mixture that is best for upper bounds of rewards and lower bounds of penalties.

    ``gamma0``: the confidence bounds' scale. ``epsilon``: the part of each limit kept in reserve,
    or ``"published"`` for the authors' formula, at most 1/2.

    >>> UCBLP(gamma0=1).label
    'ucb-lp:gamma0=1'
    """

    gamma0: float = 0.25
    epsilon: float | str = 0.0

    name = "ucb-lp"
    summary = "the best mixture at optimistic rates, solved anew at every step"
    contestants = ("ucb-lp:epsilon=published",)
    colour = "#117733"

    Scratch = Bounds

    def __post_init__(self) -> None:
        self.require_number("gamma0", 0.0)
        if isinstance(self.epsilon, str):
            self.require("epsilon", "a number in [0, 1), or published", self.epsilon == PUBLISHED)
        else:
            self.require_number("epsilon", 0.0)
            self.require("epsilon", "a number in [0, 1), or published", self.epsilon < 1.0)

    def setup(self, task: Task, budget: float) -> Setup:
        """Constants: gamma and epsilon."""
        limits = limits_of(task)
        gamma = log_term(self.gamma0, task.arm_count, 1 + len(limits), budget)
        epsilon = self.epsilon
        if isinstance(epsilon, str):
            epsilon = shrinkage(gamma, task.arm_count, budget, budget * min((1.0, *limits)))
        return Setup(constants=(gamma, epsilon), allowance=limits)

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Bounds) -> None:
        """Compute the limits minus the reserve."""
        for m in range(len(scratch.limits)):
            reserved = (1.0 - constants[1]) * state.remaining[1 + m]
            scratch.limits[m] = reserved / state.remaining[0]

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Bounds, words: Array) -> int:
        """An arm drawn from the best optimistic mixture."""
        arm = untried(state)
        if arm >= 0:
            return arm
        solve_program(scratch.reward, scratch.penalty, scratch.limits, scratch.program)
        return pick(scratch.program.mixture, scratch.cost, coin(words[0]))

    @staticmethod
    def learn(constants: Constants, state: State, scratch: Bounds, row: int) -> None:
        """Update the bounds of the arm just pulled."""
        limited, pulls, gamma = len(scratch.limits), state.pulls[row], constants[0]
        first = row * (2 + limited)
        cost = state.totals[first] / pulls
        if cost <= 0.0:
            return
        reward = state.totals[first + 1] / pulls
        scratch.cost[row] = cost
        scratch.reward[row] = reward / cost + rate_radius(state, row, 1, gamma)
        for m in range(limited):
            penalty = state.totals[first + 2 + m] / pulls
            lower = max(penalty / cost - rate_radius(state, row, 2 + m, gamma), 0.0)
            if state.bases[m] != 0.0:
                lower = _low_net(state, row, m, gamma)
            scratch.penalty[row * limited + m] = lower


def _low_net(state: State, row: int, m: int, gamma: float) -> float:
    """The lower bound of a net penalty's rate, from bounds on each mean."""
    pulls, first = state.pulls[row], row * (len(state.remaining) + 1)
    cost, reward = state.totals[first] / pulls, state.totals[first + 1] / pulls
    penalty = state.totals[first + 2 + m] / pulls
    own = if_unknown(state, first + 2 + m, knapsack_radius(penalty, pulls, gamma))
    least = max(penalty - own, 0.0)
    most = min(reward + knapsack_radius(reward, pulls, gamma), 1.0)
    width = if_unknown(state, first, knapsack_radius(cost, pulls, gamma))
    cheap, dear = max(cost - width, LEAST_COST), min(cost + width, 1.0)
    return low_net_rate(state, m, least, most, cheap, dear)


def shrinkage(gamma: float, arms: int, rounds: float, smallest: float) -> float:
    """The published epsilon if ``smallest`` is the smallest budget; at most 1/2.

    >>> round(shrinkage(2.0, 5, 10_000.0, 8_000.0), 4)
    0.0469
    """
    share = gamma * arms / smallest
    return min(math.sqrt(share) + share * max(math.log(rounds), 1.0), LARGEST_SHRINKAGE)
