"""OPT(B): the highest expected reward of any causal policy that keeps the limits.

A policy pulls until its cost first exceeds B and must keep E[total penalty m] <= c_m B for every m,
or for a limit per pull or reward E[total of Y - c base] <= 0, which only changes the gains. Since
the distributions are known, the past matters only through the cost spent. So the expected totals
(reward, penalties) of all policies form a convex set whose corners are the policies that choose an
arm by the budget left, b. A corner that maximises reward - prices . penalties is found by recursion
from b = 0 upwards:

    W(b) = max_k  gain_k + E[W(b - X_k)],    gain_k = E[R_k] - sum_m prices_m E[Y_km],

with W(b) = 0 for b < 0; a cost of 0 leaves b unchanged, so an arm is pulled until b changes. If
requests have types, of which a policy sees the one at hand, the maximum is taken for each type x:

    W(b) = sum_x p_x max_k  gain_xk + E[W(b - X_xk)].

For any prices >= 0,

    OPT(B) <= W(B) + sum_m prices_m c_m B,

and the best mixture within the limits of the corners found so far is a lower bound (the same linear
program as the oracle's, with corners in place of arms). The multipliers of that mixture are the
next prices. Each round adds a corner; there are finitely many, so the bounds meet. The oracle's
multipliers are the first prices, and nearly always the last: far from the end of the budget the
arms of pi* are equally good, so the choice among them changes the penalties but not the value.
Hence each round adds one corner for every such arm, or choice of an arm for each type.

If all costs are multiples of one step, b is counted in steps and the result is exact. If every cost
is 0 or one step, a run spends exactly n = floor(B / step) + 1 steps and OPT(B) is pi*'s reward for
that cost under the limits c_m B / (n step): 1.3 B + 0.5 on the paper's arms for integer B.
Otherwise b is put on a grid (``grid``), which is refined until the result converges. The recursion
stops as soon as W has become a straight line (``recursion``), so that a large budget takes no
longer than a moderate one.

If the arms change, the best mixtures of the phases solve one linear program
(``pi_star.best_phases``), given the cost spent in each phase. If every cost is 0 or one step, the n
steps are spent one at a time under any policy, so the phase of each step is known beforehand, and
the program is exact. For other costs each phase is assigned its share of B. This ignores that the
last pull of a phase can exceed it, by about one pull per phase, so that the result is close to
OPT(B) only for large budgets and few changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, gcd, lcm

import numpy as np

from tightrope.callers import also_called
from tightrope.errors import InfeasibleError, TightropeError
from tightrope.optimum.grid import CostGrid, Costs, last_node
from tightrope.optimum.pi_star import best_arms, best_phases, least_excess, limit_names
from tightrope.optimum.requests import BOUNDS, best_of_requests
from tightrope.problem import Moments, Problem, require_unchanging
from tightrope.problem.mixtures import BestMixture, best_mixture, bounded_total, conflict
from tightrope.problem.ready import as_problem
from tightrope.problem.values import Floats, Integers

CELLS = 64  # cells of the first grid, up to the largest cost
FEWEST_CELLS, MOST_CELLS = 32, 2**12  # cells of the last grid
MOST_WEIGHTS = 2**22  # cells times arms
REFINED = 3e-6  # the refinement ends at a relative change below this
CLOSED = 1e-9  # on an exact grid, the rounds end at a relative gap between bounds below this
MOST_ROUNDS = 500
TIED = 1e-9  # rates with a smaller relative difference count as equal
MOST_PERIOD = 16  # longest period, in units of the largest cost


@also_called("budgets", "budget")
def optimum(problem: str | Problem, budget: float) -> float:
    """OPT(B), in units of reward; InfeasibleError if no policy keeps the limits at this budget.

    The relative error is at most 1e-9 if all costs are multiples of one step, otherwise about 1e-6.
    If the arms change, it is 1e-9 if all costs are 0 or one step, otherwise about one pull's reward
    per phase. With hard limits the result is an upper bound on OPT(B). With types, OPT(B) is the
    optimum over policies that see the type of each request. With features, the result is an upper
    bound: that of the clairvoyant, who knows the outcomes of every row (see ``oracle``).

    >>> from tightrope.problem.distributions import Bernoulli
    >>> from tightrope.problem import Arm
    >>> bold = Arm("bold", Bernoulli(0.4), Bernoulli(0.8), Bernoulli(0.6))
    >>> careful = Arm("careful", Bernoulli(0.6), Bernoulli(0.6), Bernoulli(0.3))
    >>> round(optimum(Problem([bold, careful], limit=0.8), 1000), 9)
    1300.5
    """
    problem = as_problem(problem)
    problem.normal_budget(budget)
    problem, _ = problem.at(float(budget)).distinct
    if problem.features is not None:
        return _of_clairvoyant(problem, float(budget)) * problem.scales.reward
    if problem.hard:
        return _fluid_bound(problem, float(budget)) * problem.scales.reward
    if problem.changes:
        return _over_phases(problem, float(budget)) * problem.scales.reward
    task, costs = _Task.of(problem, float(budget)), Costs.of(problem)
    if costs.unit:
        reward = _for_unit_costs(task, costs.unit)
    elif costs.step:
        reward, _ = _Corners(task, costs.grid(costs.step, exact=True), gap=CLOSED).close()
    else:
        reward = _refined(task, costs)
    return reward * problem.scales.reward


def _of_clairvoyant(problem: Problem, budget: float) -> float:
    """An upper bound on OPT(B), normalised, where a policy knows the outcomes of every row.

    A run costs at most ``largest``, and incurs c B in the mean, and one pull more of a hard limit.
    """
    unit, (_, largest) = problem.scales.cost, cost_of_a_run(problem, budget)

    def allowed(moments: Moments) -> Moments:
        spread = np.where(moments.per_cost, budget / largest, 1.0)
        return replace(moments, limits=moments.limits * spread)

    policies, best = best_of_requests(problem, BOUNDS[0], allowed)
    if best is None:
        every = np.ones(problem.penalty_count)
        raise _infeasible(problem, budget, every, policies.least_excess)
    beyond = float(best.multiplier @ np.array(problem.hard)) if problem.hard else 0.0
    return best.reward * largest / unit + beyond


def _fluid_bound(problem: Problem, budget: float) -> float:
    """An upper bound on OPT(B), normalised, with hard limits: a program over pulls of each arm.

    A run may end early, and exceeds the budget and every hard limit by at most one pull, so the
    mean numbers of pulls satisfy these inequalities under any policy. Each type's pulls are its
    share of all pulls.
    """
    if problem.changes:
        require_unchanging(problem, "optimum: a bound under hard limits is for")
    moments, cost = problem.row_moments, budget / problem.scales.cost
    allowed = np.where(moments.per_cost, moments.limits * cost, 0.0) + np.array(problem.hard)
    rows, most = np.vstack([moments.cost, _bounded(moments)]), np.append(cost + 1.0, allowed)
    return bounded_total(moments.reward, rows, most, moments.shares)


def _bounded(moments: Moments) -> Floats:
    """The mean of what each limit bounds, per pull of each arm, [M, K].

    For a limit per pull or reward it is Y - c base, whose total must not exceed 0.
    """
    excess = moments.penalty - moments.limits * moments.base
    return np.where(moments.per_cost, moments.penalty, excess).T


def cost_of_a_run(problem: Problem, budget: float) -> tuple[float, float]:
    """The smallest and largest total cost of a run; equal if every cost is 0 or one step.

    >>> from tightrope.problem.ready import ready_problem
    >>> cost_of_a_run(ready_problem("paper"), 1000)
    (1001.0, 1001.0)
    """
    problem.normal_budget(budget)
    costs = Costs.of(problem)
    if costs.unit:
        return (_steps_cost(float(budget), costs.unit),) * 2
    return float(budget), float(budget) + costs.largest


def _steps_cost(budget: float, step: float) -> float:
    """The cost of every run if every cost is 0 or one step, including the last pull."""
    return (last_node(budget, step) + 1) * step


@dataclass(frozen=True, eq=False)
class _Task:
    """A problem at a budget. K arms, M penalties; costs in the user's units, the rest normalised.

    If requests have types, rows ``type * K + arm`` take the place of arms.

    ``outcomes`` [1 + M, K]: the mean reward and penalties of a pull; for a limit per pull or reward
    Y - c base, whose total must not exceed 0. ``allowance`` [M]: the total allowed penalties.
    ``shift`` [M]: added to both, so that the allowance is positive. ``pi_star``: the oracle's
    mixture.
    """

    problem: Problem
    budget: float
    outcomes: Floats
    allowance: Floats
    shift: Floats
    pi_star: BestMixture

    @classmethod
    def of(cls, problem: Problem, budget: float) -> _Task:
        moments, per_cost = problem.row_moments, problem.row_moments.per_cost
        outcomes = np.vstack([moments.reward, _bounded(moments)])
        allowed = moments.limits * (budget / problem.scales.cost)
        allowance, shift = np.where(per_cost, allowed, 0.0), np.where(per_cost, 0.0, allowed)
        return cls(problem, budget, outcomes, allowance, shift, best_arms(problem))

    def infeasible(self, prices: Floats, least: float) -> InfeasibleError:
        """The error if the penalties to blame are at least ``least`` times their allowance."""
        return _infeasible(self.problem, self.budget, prices, least)


def _infeasible(problem: Problem, budget: float, prices: Floats, least: float) -> InfeasibleError:
    """The error if the penalties with a price are at least ``least`` times their allowance."""
    names = limit_names(problem, np.flatnonzero(prices))
    return InfeasibleError(
        f"budget = {budget!r} with {names}: must be such that some policy keeps the"
        f" expected penalty within limit times budget; the least possible is {least:.6g} times that"
    )


def _over_phases(problem: Problem, budget: float) -> float:
    """OPT(B), normalised, if the arms change."""
    spent = _spent_in_phases(problem, budget) / problem.scales.cost
    moments, totals = problem.moments, (budget / problem.scales.cost, float(spent.sum()))
    allowance = moments.limits * np.where(moments.per_cost, *totals)
    found = best_phases(problem, spent, allowance)
    if found is None:
        least, prices = least_excess(problem, spent, allowance)
        raise _infeasible(problem, budget, prices, least)
    return found.reward


def _spent_in_phases(problem: Problem, budget: float) -> Floats:
    """The cost spent in each phase [J]; exact if every cost is 0 or one step."""
    if not (step := Costs.of(problem).unit):
        return budget * np.array([phase.share for phase in problem.phases])
    levels = last_node(budget, step) + 1
    first = np.ceil(problem.phase_starts(budget / step))
    return step * np.diff([*first, levels])


def _for_unit_costs(task: _Task, step: float) -> float:
    """OPT(B) if every cost is 0 or one step, so that every run spends the same."""
    spent = _steps_cost(task.budget, step)
    moments = task.problem.row_moments
    limits = moments.limits * np.where(moments.per_cost, task.budget / spent, 1.0)
    moments = replace(moments, limits=limits)
    if (mixture := moments.best()) is None:
        found = moments.conflict()
        raise task.infeasible(found.prices, found.excess)
    return mixture.reward * spent / task.problem.scales.cost


def _refined(task: _Task, costs: Costs) -> float:
    """OPT(B) on grids whose step is halved until the result converges."""
    most_cells = min(MOST_CELLS, max(FEWEST_CELLS, MOST_WEIGHTS // len(costs.laws)))
    step = _first_step(costs, task.budget, costs.largest / min(CELLS, most_cells // 2))
    reward, starts = _on_grid(task, costs, step, ())
    while costs.largest / step <= most_cells // 2:
        step /= 2
        before, (reward, starts) = reward, _on_grid(task, costs, step, starts)
        change = reward - before
        if abs(change) <= REFINED * reward:
            return reward + change / 3  # the error is of second order: extrapolate
    return reward


def _first_step(costs: Costs, budget: float, most: float) -> float:
    """A step of at most ``most`` for which the atoms and, if possible, the budget are nodes.

    W jumps at atoms. W has a kink where two arms are equally good, and at the best prices this is
    the case at the budget itself.
    """
    steps = (costs.common_step(budget), costs.common_step(), budget)
    step = next((step for step in steps if step >= most / 16), most)
    return step / ceil(step / most)


def _on_grid(
    task: _Task, costs: Costs, step: float, starts: Sequence[Floats]
) -> tuple[float, list[Floats]]:
    return _Corners(task, costs.grid(step, exact=False), gap=REFINED / 10).close(starts)


class _Corners:
    """Corners found so far, [n, 1 + M] totals of reward and penalties, and the upper bound.

    ``gap``: the relative gap between the bounds at which the search ends.
    """

    def __init__(self, task: _Task, grid: CostGrid, gap: float) -> None:
        self.task, self.grid, self.gap = task, grid, gap
        self.corners = np.zeros((0, len(task.outcomes)))
        self.sources: list[Floats] = []  # the weights that led to each corner
        self.upper = np.inf
        self.maps = _maps(task.pi_star, grid)

    def close(self, starts: Sequence[Floats] = ()) -> tuple[float, list[Floats]]:
        """The optimum, and the weights of reward and penalties for which its corners were found.

        ``starts`` are such weights from a similar search. If none of them weighs the reward, the
        oracle's are tried first, because only weights on the reward give an upper bound.
        """
        if not any(weights[0] for weights in starts):
            starts = [np.append(1.0, -self.task.pi_star.multiplier), *starts]
        for weights in starts:
            self._look(weights)
        for _ in range(MOST_ROUNDS):
            mixture = self._mixture()
            if self.upper - mixture.reward <= self.gap * self.upper:
                used = np.unique([self.sources[member] for member in mixture.members], axis=0)
                return self.upper, list(used)
            self._look(np.append(1.0, -mixture.multiplier))
        raise TightropeError(
            f"budget = {self.task.budget!r}: the optimum is at most {self.upper!r}, but"
            f" {MOST_ROUNDS} rounds did not find it"
        )

    def _mixture(self) -> BestMixture:
        """The best mixture of corners; adds corners until some mixture keeps the limits."""
        shift, least = self.task.shift, -np.inf
        allowance = self.task.allowance + shift
        while (mixture := best_mixture(self.corners[:, 0], self.corners[:, 1:], allowance)) is None:
            found = conflict(self.corners[:, 1:], allowance)
            if least > 1.0 + self.gap or found.excess - least <= self.gap:
                raise self.task.infeasible(found.prices, least)
            price = float(found.prices @ shift)
            least = max(least, price - self._look(np.append(0.0, -found.prices)))
        return mixture

    def _look(self, weights: Floats) -> float:
        """Add the corners for some weights; returns the highest weighted total of any policy."""
        value, corners = self._corners(weights)
        self.corners = np.vstack([self.corners, corners + np.append(0.0, self.task.shift)])
        self.sources += [weights] * len(corners)
        if weights[0]:
            self.upper = min(self.upper, value - float(weights[1:] @ self.task.allowance))
        return value

    def _corners(self, weights: Floats) -> tuple[float, Floats]:
        """The highest weighted total, and the totals [n, 1 + M] of policies at or close to it.

        They differ in the arm that they pull far from the end of the budget, for each type: the
        best one, or one of pi*'s.
        """
        from tightrope.optimum.recursion import before_start, run

        task, grid = self.task, self.grid
        gains = np.vstack([weights @ task.outcomes, task.outcomes])
        best = grid.best(gains[0])
        node, beyond = grid.locate(task.budget)
        node += beyond > 0.0
        tolerance = self._tolerance(weights)
        first = np.append(tolerance[0], np.full(len(weights), np.inf))
        start = before_start(grid, grid.rate(gains, best))
        stretch = run(grid, gains, start, _period(grid, gains[0], best), node, first)
        totals = stretch.at(grid, task.budget)
        if not stretch.period:
            return float(totals[0]), totals[None, 1:]
        corners = []
        for arms in map(np.array, {tuple(best.tolist()), *self.maps}):
            alone = grid.only(arms)
            begin = stretch.rebased(grid.rate(gains, arms), grid.step)
            end = run(alone, gains[:, arms], begin, grid.period(arms), node, tolerance)
            corners.append(end.at(alone, task.budget)[1:])
        return float(totals[0]), np.array(corners)

    def _tolerance(self, weights: Floats) -> Floats:
        """A tenth of the gap, for the weighted total, the reward and the penalties [2 + M]."""
        task = self.task
        reward = task.pi_star.reward * task.budget / task.problem.scales.cost
        weighted = reward if weights[0] else 1.0  # prices . limits = 1
        return self.gap / 10 * np.array([weighted, reward, *(task.allowance + task.shift)])


def _maps(pi_star: BestMixture, grid: CostGrid) -> list[tuple[int, ...]]:
    """Choices of a row for each type [T] whose mixture is pi*; without types, pi*'s arms.

    For a number u in [0, 1], each type takes the first row at which the cumulative share of its
    pulls exceeds u. The choices are those for all u.
    """
    types, row = len(grid.shares), pi_star.members
    of, pulls = row // (len(grid.mean) // types), pi_star.weights / grid.mean[row]
    ends = [np.cumsum(pulls[of == x]) / pulls[of == x].sum() for x in range(types)]
    cuts = np.unique(np.concatenate([[0.0], *(one[:-1] for one in ends)]))
    places = [np.searchsorted(one[:-1], cuts, side="right") for one in ends]
    rows = [row[of == x][place] for x, place in enumerate(places)]
    return list(map(tuple, np.transpose(rows).tolist()))


def _period(grid: CostGrid, gains: Floats, best: Integers) -> int:
    """A number of steps that divides all costs of the best arms.

    With types, it is a multiple of the common divisor of the costs for every choice of tied arms.
    """
    rate, arms = grid.rate(gains[np.newaxis], best)[0], len(gains) // len(best)
    score = gains - rate * grid.mean
    tied = np.repeat(score[best], arms) - score <= TIED * abs(rate) * grid.mean
    periods: list[set[int]] = [set() for _ in best]
    for row in np.flatnonzero(tied):
        periods[row // arms].add(grid.period(np.array([row])))
    period = gcd(*(lcm(*some) for some in periods))
    return period if period <= MOST_PERIOD * grid.reach else grid.period(best)
