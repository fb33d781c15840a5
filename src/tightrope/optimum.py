"""OPT(B): the highest expected reward of any causal policy that keeps the limits, budget known.

A policy pulls until its cost first exceeds B and must keep E[total penalty m] <= c_m B for every
m. Given the arms' laws, what was earned so far tells nothing about the future: of the past only
the cost matters. So the policies' expected totals (reward, penalties) form a convex set whose
corners are the policies that choose an arm by the budget left, b. A corner that maximises
reward - prices . penalties is found by going up from b = 0:

    W(b) = max_k  gain_k + E[W(b - X_k)],    gain_k = E[R_k] - sum_m prices_m E[Y_km],

with W(b) = 0 for b < 0; a cost of 0 leaves b as it is, so an arm is pulled until b changes. For
any prices >= 0,

    OPT(B) <= W(B) + sum_m prices_m c_m B,

and any corners found so far bound OPT(B) from below, by their best mixture within the limits (the
same linear program as the oracle's, with corners in place of arms). That mixture's multipliers
are the next prices. Each round adds a corner; there are finitely many, and the bounds meet. The
oracle's multipliers are the first prices, and nearly always the last: far from the end of the
budget the arms of pi* are all as good as each other, so which of them is pulled there settles the
penalties and costs nothing. Hence each round adds one corner for every such arm.

Where all costs are multiples of one step (``common_step``), b is counted in steps and the result
is exact. If every cost is 0 or one step, a run spends exactly n = floor(B / step) + 1 steps and
OPT(B) is pi*'s reward on that, under the limits c_m B / (n step): 1.3 B + 0.5 on the paper's arms
for integer B. Otherwise b is put on a grid (``_grid``), which is refined until the result settles.
The recursion stops as soon as W has become a straight line (``_recursion``), so that a large
budget takes no longer than a moderate one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, lcm

import numpy as np
import numpy.typing as npt

from tightrope._grid import CostGrid, common_step, cost_grid, largest_cost, last_node
from tightrope.errors import InfeasibleError, TightropeError
from tightrope.laws import Law
from tightrope.oracle import Conflict, Mixture, best_arms, best_mixture, conflict, limit_names
from tightrope.problem import Problem, check_budget

__all__ = ["optimum"]

CELLS = 256  # of the first grid, up to the largest cost
MOST_CELLS = 2**13
MOST_WEIGHTS = 2**22  # cells times arms
REFINED = 1e-7  # a relative change that ends the refinement
CLOSED = 1e-10  # a relative gap between the bounds that ends the rounds
MOST_ROUNDS = 500
KEPT = 1e-9  # a penalty that exceeds its limit by less, relatively, keeps it
TIED = 1e-9  # rates that differ by less, relatively, are as good as each other
MOST_PERIODS = 16

Floats = npt.NDArray[np.float64]


def optimum(problem: Problem, budget: float) -> float:
    """OPT(B), in units of reward; InfeasibleError if no policy keeps the limits at this budget.

    Exact to about 1e-10, relatively, where all costs are multiples of one step, else to 1e-7.

    >>> from tightrope.laws import Bernoulli
    >>> from tightrope.problem import Arm
    >>> bold = Arm("bold", Bernoulli(0.4), Bernoulli(0.8), Bernoulli(0.6))
    >>> careful = Arm("careful", Bernoulli(0.6), Bernoulli(0.6), Bernoulli(0.3))
    >>> round(optimum(Problem([bold, careful], limit=0.8), 1000), 9)
    1300.5
    """
    task = _Task.of(problem, check_budget(budget))
    costs = [arm.cost for arm in problem.arms]
    step = common_step(costs)
    if not step or any(law.atoms() is None for law in costs):
        reward = _refined(task, costs, step)
    elif step == largest_cost(costs):
        reward = _by_levels(task, step)
    else:
        reward = _solve(task, cost_grid(costs, step, exact=True))
    return reward * problem.scales.reward


@dataclass(frozen=True, eq=False)
class _Task:
    """A problem at a budget. K arms, M penalties; costs in the user's units, the rest normalised.

    ``outcomes`` [1 + M, K]: the mean reward and penalties of a pull. ``allowance`` [M]: the
    penalties allowed in all. ``pi_star``: the oracle's mixture.
    """

    problem: Problem
    budget: float
    outcomes: Floats
    allowance: Floats
    pi_star: Mixture

    @classmethod
    def of(cls, problem: Problem, budget: float) -> _Task:
        moments = problem.moments
        outcomes = np.vstack([moments.reward, moments.penalty.T])
        allowance = moments.limits * (budget / problem.scales.cost)
        return cls(problem, budget, outcomes, allowance, best_arms(problem))

    def infeasible(self, found: Conflict, least: float) -> InfeasibleError:
        """What to raise when the blamed penalties reach ``least`` times what is allowed."""
        names = limit_names(self.problem, np.flatnonzero(found.prices))
        return InfeasibleError(
            f"budget = {self.budget!r} with {names}: must be such that some policy keeps the"
            f" expected penalty within limit times budget; {least:.6g} times that is the least"
        )


def _by_levels(task: _Task, step: float) -> float:
    """Every cost is 0 or one step, so that every run spends the same."""
    spent = (last_node(task.budget, step) + 1) * step
    moments, limits = task.problem.moments, task.problem.moments.limits * (task.budget / spent)
    mixture = best_mixture(moments.reward_rate, moments.penalty_rate, limits)
    if mixture is None:
        found = conflict(moments.penalty_rate, limits)
        raise task.infeasible(found, found.excess)
    return mixture.reward * spent / task.problem.scales.cost


def _refined(task: _Task, costs: Sequence[Law], step: float) -> float:
    """Halve the step, of which the atoms are multiples if they can be, until the result settles."""
    largest = largest_cost(costs)
    finest = largest / min(MOST_CELLS, max(CELLS, MOST_WEIGHTS // len(costs)))
    first = largest / CELLS
    step = step / ceil(step / first) if step >= finest else first
    reward = _solve(task, cost_grid(costs, step, exact=False))
    while step / 2 >= finest:
        step /= 2
        before, reward = reward, _solve(task, cost_grid(costs, step, exact=False))
        if abs(reward - before) <= REFINED * reward:
            break
    return reward


def _solve(task: _Task, grid: CostGrid) -> float:
    """Prices and corners in turn, until the two bounds on the reward meet."""
    corners, upper = np.zeros((0, len(task.outcomes))), np.inf
    prices, lower = task.pi_star.multiplier, -np.inf
    for _ in range(MOST_ROUNDS):
        value, found = _corners(task, grid, np.append(1.0, -prices))
        corners = np.vstack([corners, found])
        upper = min(upper, value + float(prices @ task.allowance))
        while (mixture := best_mixture(corners[:, 0], corners[:, 1:], task.allowance)) is None:
            corners = np.vstack([corners, _toward_limits(task, grid, corners)])
        prices, lower = mixture.multiplier, mixture.reward
        if upper - lower <= CLOSED * upper:
            return upper
    raise TightropeError(
        f"budget = {task.budget!r}: the optimum lies between {lower!r} and {upper!r}, but"
        f" {MOST_ROUNDS} rounds did not find it"
    )


def _toward_limits(task: _Task, grid: CostGrid, corners: Floats) -> Floats:
    """The corners that break the limits least, as the corners so far weigh them."""
    found = conflict(corners[:, 1:], task.allowance)
    value, nearer = _corners(task, grid, np.append(0.0, -found.prices))
    if -value > 1.0 + KEPT or found.excess + value <= KEPT:
        raise task.infeasible(found, -value)
    return nearer


def _corners(task: _Task, grid: CostGrid, weights: Floats) -> tuple[float, Floats]:
    """The highest weighted total of any policy, and policies that reach it or nearly so.

    ``weights`` [1 + M] are of the reward and the penalties. The policies [n, 1 + M] differ in the
    arm that they pull far from the end of the budget: the best one, or one of pi*'s.
    """
    from tightrope._recursion import before_start, run

    gains = np.vstack([weights @ task.outcomes, task.outcomes])
    rates = gains / grid.mean
    best = int(np.argmax(rates[0]))
    node, beyond = grid.locate(task.budget)
    node += beyond > 0.0
    start = before_start(grid, rates[:, best])
    stretch = run(grid, gains, start, _period(grid, rates[0]), node, slice(0, 1))
    totals = stretch.at(grid, task.budget)
    if not stretch.period:
        return float(totals[0]), totals[None, 1:]
    corners = []
    for arm in {best, *task.pi_star.members.tolist()}:
        alone = grid.only(arm)
        begin = stretch.rebased(rates[:, arm], grid.step)
        end = run(alone, gains[:, arm : arm + 1], begin, alone.period(0), node, slice(1, None))
        corners.append(end.at(alone, task.budget)[1:])
    return float(totals[0]), np.array(corners)


def _period(grid: CostGrid, rates: Floats) -> int:
    """A number of steps that all costs of the best arms are multiples of, after some time."""
    best = float(rates.max())
    tied = np.flatnonzero(rates >= best - TIED * abs(best))
    period = lcm(*{grid.period(int(arm)) for arm in tied})
    return period if period <= MOST_PERIODS * grid.reach else grid.period(int(np.argmax(rates)))
