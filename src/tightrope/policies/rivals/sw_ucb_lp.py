"""SW-UCB-LP: the best mixture of optimistic arms, from the pulls in a sliding window.

Liu, Jiang and Li, "Non-stationary bandits with knapsacks", NeurIPS 2022. With m arms, d resources,
T rounds and the budget b per round, play in every round from

    max x . U   subject to   x . L_j <= b for every resource j,   sum x <= 1,   x >= 0

where U and L are bounds of mean rewards and consumption from the last w rounds, in which arm i was
pulled n_i times: plus and minus

    sqrt(2 log(12 m T^3) / (n_i + 1)) for rewards,   sqrt(2 log(12 m d T^3) / (n_i + 1)) for uses.

The window balances forgetting against change: of the order of
m^(1/3) (T / V)^(2/3) rounds, at most T, if means change by V in all. They allow one window for
rewards and one for consumption. Theirs stops when a resource is used up.

Adapted to rates and a total random cost: the program runs over shares of *cost*,

    maximise w . U   subject to   w . L_m <= c_m,   sum w = 1
    U = r/x + (rad(r) + rad(x) r/x) / x,   L = y/x - (rad(y) + rad(x) y/x) / x, at least 0

with means r, x, y in the window, as in ``ucb-lp``; an arm is drawn by share of cost over mean cost.
The budget must be spent, so the shares sum to 1, and if no mixture keeps the limits the least
violating one is taken. Once an allowance is used up, theirs stops; this one pulls the arm with the
lowest mean penalty per unit of cost for the used-up limits, relative to them. An arm without a pull
in the window, or without a cost, is pulled next. The budget B in largest costs stands for T, d = 1
+ M, and both windows are m^(1/3) (B / V)^(2/3) pulls. ``alpha`` stands for their 2. V is a
parameter with the default 1, about one change from 0 to 1. The policy knows nothing else about the
arms. The formulas were written from memory of the paper; none of its experiments is repeated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tightrope.policies.base import Constants, Setup, limits_of, net_penalty, net_sum, net_width
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.forgetting import LONGEST
from tightrope.policies.parts.intervals import if_unknown, untried
from tightrope.policies.parts.mixture import pick, solve_program
from tightrope.policies.parts.sampling import coin
from tightrope.policies.rivals.primal_dual_bwk import used_up
from tightrope.policies.rivals.ucb_lp import Bounds
from tightrope.policies.state import Array, State, rows
from tightrope.problem import Task


@dataclass(frozen=True)
class SWUCBLP(ChoicePolicy):
    """Play the best mixture at optimistic bounds from the last pulls only.

    ``variation``: the expected total change of the means, in units of the largest outcome.
    ``alpha``: a bound's width is sqrt(alpha log(...) / (pulls + 1)); 2 in the paper.

    >>> SWUCBLP(variation=2).label
    'sw-ucb-lp:variation=2'
    """

    variation: float = 1.0
    alpha: float = 2.0

    name = "sw-ucb-lp"
    summary = "the best mixture of optimistic arms, by a sliding window"
    forgetful = ("sw-ucb-lp", "sw-ucb-lp:alpha=0.01")
    colour = "#2ca089"

    Scratch = Bounds

    def __post_init__(self) -> None:
        self.require_number("variation", 0.0, open_low=True)
        self.require_number("alpha", 0.0)

    def setup(self, task: Task, budget: float) -> Setup:
        """The bounds' numerators for rewards and for uses; the window."""
        limits = limits_of(task)
        count, rounds = 12.0 * task.arm_count, 3.0 * math.log(max(budget, 1.0))
        return Setup(
            constants=(
                self.alpha * (math.log(count) + rounds),
                self.alpha * (math.log(count * (1 + len(limits))) + rounds),
            ),
            allowance=limits,
            window=window_length(task.arm_count, budget, self.variation),
        )

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Bounds) -> None:
        """Record the limits."""
        for m in range(len(scratch.limits)):
            scratch.limits[m] = state.limits[m]

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Bounds, words: Array) -> int:
        """An arm of the best optimistic mixture, or the arm that adds least to used-up limits."""
        arm = untried(state)
        if arm >= 0:
            return arm
        if used_up(state.remaining):
            return _least_harm(state, scratch)
        solve_program(scratch.reward, scratch.penalty, scratch.limits, scratch.program)
        return pick(scratch.program.mixture, scratch.cost, coin(words[0]))

    @staticmethod
    def learn(constants: Constants, state: State, scratch: Bounds, row: int) -> None:
        """The bounds of an arm whose pulls in the window changed."""
        limited, pulls = len(scratch.limits), state.pulls[row]
        first = row * (2 + limited)
        if state.totals[first] <= 0.0:
            return
        cost, rate = state.totals[first] / pulls, state.totals[first + 1] / state.totals[first]
        earned = math.sqrt(constants[0] / (pulls + 1.0))
        used = math.sqrt(constants[1] / (pulls + 1.0))
        scratch.cost[row] = cost
        noise = if_unknown(state, first, 1.0)
        scratch.reward[row] = rate + (earned + noise * used * rate) / cost
        for m in range(limited):
            base, limit = state.bases[m], state.limits[m]
            total = state.totals[first + 2 + m]
            net = net_sum(base, limit, pulls, state.totals[first + 1], total)
            rate = net / state.totals[first]
            own = if_unknown(state, first + 2 + m, 1.0)
            low = rate - used * (own + noise * abs(rate)) * net_width(base, limit) / cost
            scratch.penalty[row * limited + m] = max(low, 0.0) if base == 0.0 else low + limit


def _least_harm(state: State, scratch: Bounds) -> int:
    """The arm with the lowest observed penalty rates for the used-up limits."""
    chosen, least, limited = 0, math.inf, len(scratch.limits)
    for row in rows(state):
        first, harm = row * (2 + limited), 0.0
        for m in range(limited):
            if state.remaining[1 + m] <= 0.0:
                cost, reward = state.totals[first], state.totals[first + 1]
                base, limit, total = state.bases[m], state.limits[m], state.totals[first + 2 + m]
                net = net_penalty(base, limit, state.pulls[row], cost, reward, total)
                harm += net / cost / scratch.limits[m]
        if harm < least:
            chosen, least = row, harm
    return chosen


def window_length(arms: int, budget: float, variation: float) -> int:
    """The number of remembered pulls.

    >>> window_length(8, 1000.0, 1.0), window_length(8, 1000.0, 8.0), window_length(8, 1000.0, 1e-9)
    (200, 50, 1000)
    """
    rounds = math.cbrt(arms) * math.cbrt(budget / variation) ** 2
    return min(max(round(min(rounds, budget)), 2), LONGEST)
