"""PrimalDualBwK: the most reward per priced consumption; a resource's price rises with its use.

Badanidiyuru, Kleinberg and Slivkins, "Bandits with knapsacks", FOCS 2013 and Journal of the ACM
65(3), 2018, algorithm PrimalDualBwK. Every resource i of d has a weight v_i, 1 at the start. Pull
each arm once; then pull the arm with the largest

    upper bound of the mean reward / sum over i of v_i L_i

and set v_i <- v_i (1 + epsilon)^L_i, where L_i is the lower bound of the arm's mean consumption of
resource i. All resources are scaled to the smallest of their budgets, B', and
epsilon = sqrt(ln d / B'). The radius of a mean m after n pulls is sqrt(gamma m / n) + gamma / n.

Adapted to a total random cost and limits: the resources are the cost, with the budget B, and every
penalty, with its allowance c_m B; there is no resource of rounds. Their algorithm stops when any
resource is used up; this one must spend the budget. With ``hard_stop``, once an allowance is used
up it pulls the arm with the smallest lower bound of the penalties concerned, per unit of cost;
without, it continues as before. gamma = gamma0 log(K (1 + M) B), with the budget B in place of the
number of rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from tightrope.policies.base import Constants, Setup, limits_of, net_penalty
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.intervals import if_unknown, knapsack_radius, log_term, untried
from tightrope.policies.parts.words import as_flag
from tightrope.policies.state import Array, State, rows
from tightrope.problem import Task

INFINITY = math.inf


class Resources(NamedTuple):
    """The R = 1 + M resources: the cost, then each penalty."""

    scale: Annotated[Array, "R"]  # smallest budget / this resource's budget
    used: Annotated[Array, "R"]  # sum so far of the chosen arms' lower bounds, scaled
    weight: Annotated[Array, "R"]


@dataclass(frozen=True)
class PrimalDualBwK(ChoicePolicy):
    """Pull the arm with the most reward per priced use of budget and allowances.

    ``hard_stop``: once an allowance is used up, pull only the arm that adds least to it.
    ``gamma0``: the confidence bounds' scale.

    >>> PrimalDualBwK(hard_stop=False).label
    'primal-dual-bwk:hard_stop=false'
    """

    hard_stop: bool = True
    gamma0: float = 0.25

    name = "primal-dual-bwk"
    summary = "the most reward per priced use of budget and allowances"
    contestants = ("primal-dual-bwk",)
    colour = "#332288"

    Scratch = Resources
    carried = ("used",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hard_stop", as_flag(self.hard_stop))
        self.require("hard_stop", "true or false", isinstance(self.hard_stop, bool))
        self.require_number("gamma0", 0.0)

    def setup(self, task: Task, budget: float) -> Setup:
        """Constants: log(1 + epsilon), gamma, and whether to stop hard."""
        limits = limits_of(task)
        resources = 1 + len(limits)
        smallest = budget * min((1.0, *limits))
        return Setup(
            constants=(
                math.log1p(math.sqrt(math.log(resources) / smallest)),
                log_term(self.gamma0, task.arm_count, resources, budget),
                1.0 if self.hard_stop else 0.0,
            ),
            allowance=limits,
        )

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Resources) -> None:
        """Compute the scales: the smallest budget / each resource's budget."""
        smallest = state.remaining[0]
        for i in range(1, len(state.remaining)):
            smallest = min(smallest, state.remaining[i])
        for i in range(len(state.remaining)):
            scratch.scale[i] = smallest / state.remaining[i]

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Resources, words: Array) -> int:
        """The arm with the most reward per priced use, or the one that exceeds limits least."""
        chosen = untried(state)
        if chosen >= 0:
            return chosen
        if constants[2] > 0.0 and used_up(state.remaining):
            return _least_harm(constants, state)
        _weigh(constants, scratch)
        chosen = _best_bang(constants, state, scratch)
        for i in range(len(scratch.used)):
            scratch.used[i] += scratch.scale[i] * _lower(constants, state, chosen, i)
        return chosen


def _weigh(constants: Constants, scratch: Resources) -> None:
    """Compute the weights from the use so far, relative to the largest so that none overflows."""
    most = scratch.used[0]
    for i in range(1, len(scratch.used)):
        most = max(most, scratch.used[i])
    for i in range(len(scratch.used)):
        scratch.weight[i] = math.exp(constants[0] * (scratch.used[i] - most))


def _best_bang(constants: Constants, state: State, scratch: Resources) -> int:
    chosen, best = 0, -1.0
    for row in rows(state):
        buck = 0.0
        for i in range(len(scratch.scale)):
            buck += scratch.weight[i] * scratch.scale[i] * _lower(constants, state, row, i)
        pulls = state.pulls[row]
        reward = state.totals[row * (len(state.remaining) + 1) + 1] / pulls
        reward = min(reward + knapsack_radius(reward, pulls, constants[1]), 1.0)
        bang = reward / buck if buck > 0.0 else INFINITY
        if bang > best:
            chosen, best = row, bang
    return chosen


def _lower(constants: Constants, state: State, row: int, resource: int) -> float:
    """The lower bound of an arm's mean use of a resource: 0 is the cost, m is penalty m."""
    channel = 0 if resource == 0 else 1 + resource
    pulls = state.pulls[row]
    first = row * (len(state.remaining) + 1)
    mean = state.totals[first + channel] / pulls
    radius = knapsack_radius(mean, pulls, constants[1])
    lower: float = mean - if_unknown(state, first + channel, radius)
    if resource == 0 or state.bases[resource - 1] == 0.0:
        return max(lower, 0.0)
    cost, reward = state.totals[first] / pulls, state.totals[first + 1] / pulls
    cost -= if_unknown(state, first, knapsack_radius(cost, pulls, constants[1]))
    reward += knapsack_radius(reward, pulls, constants[1])
    base, limit = state.bases[resource - 1], state.limits[resource - 1]
    return net_penalty(base, limit, 1.0, max(cost, 0.0), min(reward, 1.0), max(lower, 0.0))


def used_up(remaining: Array) -> bool:
    """Whether some allowance is used up."""
    least = INFINITY
    for m in range(1, len(remaining)):
        least = min(least, remaining[m])
    return least <= 0.0


def _least_harm(constants: Constants, state: State) -> int:
    chosen, least = 0, INFINITY
    for row in rows(state):
        pulls = state.pulls[row]
        cost = state.totals[row * (len(state.remaining) + 1)] / pulls
        harm = 0.0
        for m in range(1, len(state.remaining)):
            if state.remaining[m] <= 0.0:
                harm += _lower(constants, state, row, m)
        harm /= cost + knapsack_radius(cost, pulls, constants[1])
        if harm < least:
            chosen, least = row, harm
    return chosen
