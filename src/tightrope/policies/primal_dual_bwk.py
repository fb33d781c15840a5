"""PrimalDualBwK: the best bang per buck, with prices on resources that rise as they are used.

Badanidiyuru, Kleinberg and Slivkins, "Bandits with knapsacks", FOCS 2013 and Journal of the ACM
65(3), 2018, algorithm PrimalDualBwK. Every resource i of d has a weight v_i, 1 at the start. Pull
each arm once; then pull the arm with the largest

    upper bound of the mean reward / sum over i of v_i L_i,   v_i <- v_i (1 + epsilon)^(L_i of it)

where L_i is the lower bound of its mean consumption, all resources are scaled to the smallest of
their budgets, B', and epsilon = sqrt(ln d / B'). The radius of a mean m after n pulls is
sqrt(gamma m / n) + gamma / n.

Adapted to a total random cost and limits: the resources are the cost, with the budget B, and every
penalty, with its allowance c_m B; there is no resource of rounds. Theirs stops when any resource is
used up. Ours cannot stop before the budget is spent: with the hard stop, from then on it pulls the
arm with the lowest lower bound of the penalties used up, per unit of cost; without, it goes on as
before. gamma = gamma0 log(K (1 + M) B), where B stands for the rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tightrope.policies.base import Constants, Setup
from tightrope.policies.choice import Array, ChoicePolicy
from tightrope.policies.intervals import knapsack_radius, log_term, untried
from tightrope.policies.words import as_flag

if TYPE_CHECKING:
    from tightrope.problem import Problem

__all__ = ["PrimalDualBwK"]

INFINITY = math.inf


@dataclass(frozen=True)
class PrimalDualBwK(ChoicePolicy):
    """Pull the best bang per buck, at prices that follow the use of budget and allowances.

    ``hard_stop``: once an allowance is used up, pull only the arm that adds least to it.
    ``gamma0``: the confidence bounds' scale.
    """

    hard_stop: bool = True
    gamma0: float = 0.25

    name: ClassVar[str] = "primal-dual-bwk"
    summary: ClassVar[str] = "reward per priced use of budget and allowances, by rising weights"

    def __post_init__(self) -> None:
        object.__setattr__(self, "hard_stop", as_flag(self.hard_stop))
        self.require("hard_stop", "true or false", isinstance(self.hard_stop, bool))
        self.require_number("gamma0", 0.0)

    def setup(self, problem: Problem, budget: float) -> Setup:
        """log(1 + epsilon), gamma, and whether to stop hard."""
        limits = tuple(float(limit) for limit in problem.moments.limits)
        resources = 1 + len(limits)
        smallest = budget * min((1.0, *limits))
        return Setup(
            constants=(
                math.log1p(math.sqrt(math.log(resources) / smallest)),
                log_term(self.gamma0, problem.arm_count, resources, budget),
                1.0 if self.hard_stop else 0.0,
            ),
            allowance=limits,
        )

    def scratch(self, arms: int, penalties: int) -> int:
        """Each resource's scale, its use so far by the bounds, its weight."""
        return 3 * (1 + penalties)

    @staticmethod
    def begin(constants: Constants, arms: Array, left: Array, own: Array) -> None:
        """The scales: the smallest budget over each one's own."""
        resources = len(left) - 1
        smallest = left[0]
        for i in range(1, resources):
            smallest = min(smallest, left[1 + i])
        own[0] = smallest / left[0]
        for i in range(1, resources):
            own[i] = smallest / left[1 + i]

    @staticmethod
    def choose(constants: Constants, arms: Array, left: Array, own: Array, luck: Array) -> int:
        """The best bang per buck, or the arm that adds least to what is used up."""
        chosen = untried(arms)
        if chosen >= 0:
            return chosen
        if constants[2] > 0.0 and _used_up(left):
            return _least_harm(constants, arms, left)
        _weigh(constants, own, len(left) - 1)
        chosen = _best_bang(constants, arms, own, len(left) - 1)
        _use(constants, arms, own, len(left) - 1, chosen)
        return chosen


def _weigh(constants: Constants, own: Array, resources: int) -> None:
    """The weights, from the use so far; relative to the largest, so that none overflows."""
    most = own[resources]
    for i in range(1, resources):
        most = max(most, own[resources + i])
    for i in range(resources):
        own[2 * resources + i] = math.exp(constants[0] * (own[resources + i] - most))


def _best_bang(constants: Constants, arms: Array, own: Array, resources: int) -> int:
    chosen, best = 0, -1.0
    for arm in range(len(arms)):
        buck = 0.0
        for i in range(resources):
            buck += own[2 * resources + i] * own[i] * _lower(constants, arms, arm, i)
        pulls = arms[arm, 0]
        reward = arms[arm, 2] / pulls
        reward = min(reward + knapsack_radius(reward, pulls, constants[1]), 1.0)
        bang = reward / buck if buck > 0.0 else INFINITY
        if bang > best:
            chosen, best = arm, bang
    return chosen


def _use(constants: Constants, arms: Array, own: Array, resources: int, arm: int) -> None:
    for i in range(resources):
        own[resources + i] += own[i] * _lower(constants, arms, arm, i)


def _lower(constants: Constants, arms: Array, arm: int, resource: int) -> float:
    """The lower bound of an arm's mean use of a resource: 0 the cost, m penalty m."""
    column = 1 if resource == 0 else 2 + resource
    pulls = arms[arm, 0]
    mean = arms[arm, column] / pulls
    lower: float = mean - knapsack_radius(mean, pulls, constants[1])
    return max(lower, 0.0)


def _used_up(left: Array) -> bool:
    """Whether some allowance is."""
    least = INFINITY
    for m in range(len(left) - 2):
        least = min(least, left[2 + m])
    return least <= 0.0


def _least_harm(constants: Constants, arms: Array, left: Array) -> int:
    chosen, least = 0, INFINITY
    for arm in range(len(arms)):
        pulls = arms[arm, 0]
        cost = arms[arm, 1] / pulls
        harm = 0.0
        for m in range(len(left) - 2):
            if left[2 + m] <= 0.0:
                harm += _lower(constants, arms, arm, 1 + m)
        harm /= cost + knapsack_radius(cost, pulls, constants[1])
        if harm < least:
            chosen, least = arm, harm
    return chosen
