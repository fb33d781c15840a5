"""PGD-prices: the best arm at prices of penalties, moved by projected gradient steps.

Chzhen, Giraud, Li and Stoltz, "Small total-cost constraints in contextual bandits with knapsacks,
with application to fairness", NeurIPS 2023. Over T rounds, with signed vector costs c whose average
must stay below B, a margin b and prices lambda >= 0, pull the arm with the largest

    u(x, a) - sum_m lambda_m (l_m(x, a) - B_m + b)
    lambda_m <- max(0, lambda_m + gamma (l_m(x, a) - B_m + b))

for upper bounds u of the mean reward and lower bounds l of the mean costs. The price moves by the
estimate, not by the observed cost. The step size adapts in phases k = 0, 1, 2, ...:
gamma = 2^k / sqrt(T), and a phase ends, with all prices back at 0, when the sum of its positive
excesses l - B + b exceeds a threshold of the order of sqrt(T).

It differs from the paper in these points:

- The budget is a total random cost and ends the run, so a unit of cost has a price theta too: the
  root that makes the best arms of all types worth 0 on average (``parts.by_type``). Rounds are not
  known beforehand: the budget B stands for T.
- The signed costs are net penalties less limit times cost, with the margin b per unit of cost.
- Contexts are types, and means are empirical per row, with the radius sqrt(alpha log(t) / pulls) in
  place of a general estimator's. Each arm is pulled for each type until it has cost something.
- The paper's b covers the estimation errors of all rounds, up to a factor. For R rows these are of
  the order of sqrt(R log(B) / B): b is ``margin0`` times that, at most half of the limit. The
  threshold is ``reach0`` sqrt(B). Both factors are ours.

The prices resemble the queues of ``lyon`` over V. The gradient, which is optimistic, and the
doubling differ. The formulas were written from memory of the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

from tightrope.policies.base import Constants, Setup, limits_of
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.by_type import (
    RowBounds,
    arms_and_types,
    best_row,
    bound_rows,
    find_root,
    type_of,
    untried_row,
)
from tightrope.policies.state import Array, State
from tightrope.problem import Task

LARGEST_STEP = 1e6


class GradientPrices(NamedTuple):
    """The prices, the step size, and the bounds of the rows."""

    price: Annotated[Array, "M"]  # of each penalty
    excess: Annotated[Array, "M"]  # summed over the phase
    step: Annotated[Array, 1]  # the step size of the phase
    theta: Annotated[Array, 1]  # the price of a unit of cost
    value: Annotated[Array, "K"]  # of every row per unit of cost, at the prices
    bounds: RowBounds


@dataclass(frozen=True)
class PGDPrices(ChoicePolicy):
    """Pull the best arm at prices of penalties that follow a projected gradient.

    ``margin0``: each limit is tightened by margin0 sqrt(R log(B) / B) for R pairs of a type and an
    arm, at most by half. ``reach0``: the step size doubles when the excess over a limit sums up to
    reach0 sqrt(B). ``alpha``: the confidence radius is sqrt(alpha log(t) / pulls).

    >>> PGDPrices(margin0=0).label
    'pgd-prices:margin0=0'
    """

    margin0: float = 2.0
    reach0: float = 1.0
    alpha: float = 0.5

    name: ClassVar[str] = "pgd-prices"
    summary: ClassVar[str] = "the best arm for the type, at prices moved by projected gradients"
    contestants: ClassVar[tuple[str, ...]] = ("pgd-prices",)
    colour: ClassVar[str | None] = "#9b2226"
    contextual: ClassVar[bool] = True

    Scratch: ClassVar[type] = GradientPrices
    carried: ClassVar[tuple[str, ...]] = ("price", "excess", "step", "theta")

    def __post_init__(self) -> None:
        self.require_number("margin0", 0.0)
        self.require_number("reach0", 0.0, open_low=True)
        self.require_number("alpha", 0.0)

    def setup(self, task: Task, budget: float) -> Setup:
        """Constants: alpha, K and T, the first step size, the margin, the threshold."""
        root = math.sqrt(budget)
        errors = math.sqrt(task.arm_count * max(math.log(budget), 1.0)) / root
        steps = (1.0 / root, self.margin0 * errors, self.reach0 * root)
        constants = (self.alpha, *arms_and_types(task), *steps)
        return Setup(constants=constants, allowance=limits_of(task))

    @staticmethod
    def begin(constants: Constants, state: State, scratch: GradientPrices) -> None:
        """The step size of the first phase; all prices are 0."""
        scratch.step[0] = constants[3]

    @staticmethod
    def choose(constants: Constants, state: State, scratch: GradientPrices, words: Array) -> int:
        """The row of the best arm for the type of the request; then the prices move."""
        kind, count, bounds = type_of(constants[2], words), int(constants[1]), scratch.bounds
        row = untried_row(state, kind, count)
        if row >= 0:
            return row
        bound_rows(state, bounds, count, constants[0])
        limited = len(scratch.price)
        for one in range(len(bounds.cost)):
            value = bounds.reward[one]
            for m in range(limited):
                value -= scratch.price[m] * bounds.penalty[one * limited + m]
            scratch.value[one] = value / bounds.cost[one]
        find_root(scratch.theta, bounds.share, bounds.cost, scratch.value, count)
        row = best_row(bounds.cost, scratch.value, kind * count, count, scratch.theta[0])
        _move_prices(constants, state, scratch, row)
        return row


def _move_prices(constants: Constants, state: State, scratch: GradientPrices, row: int) -> None:
    """A projected gradient step by the bounds of the chosen row; maybe the next phase."""
    limited, farthest = len(scratch.price), 0.0
    for m in range(limited):
        limit = state.limits[m] - min(constants[4], 0.5 * state.limits[m])
        over = scratch.bounds.penalty[row * limited + m] - limit * scratch.bounds.cost[row]
        scratch.price[m] = max(scratch.price[m] + scratch.step[0] * over, 0.0)
        scratch.excess[m] += over
        farthest = max(farthest, scratch.excess[m])
    if farthest > constants[5] and scratch.step[0] < LARGEST_STEP:
        scratch.step[0] *= 2.0
        for m in range(limited):
            scratch.price[m] = scratch.excess[m] = 0.0
