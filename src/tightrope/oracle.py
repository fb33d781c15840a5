"""The oracle: the best stationary randomized policy pi*, and what the limits cost.

A stationary policy that spends the share w_k of its cost on arm k earns sum_k w_k r_k and incurs
sum_k w_k y_km per unit of cost, so pi* solves a linear program over the simplex (the paper's
linear-fractional program, with the shares of *pulls* replaced by shares of *cost*):

    maximise sum_k w_k r_k   subject to   sum_k w_k y_km <= c_m,   w >= 0,   sum_k w_k = 1.

The pull shares follow: p_k is proportional to w_k / E[X_k]. The multiplier of limit m is what one
more unit of penalty m would earn.

With one penalty the optimum is the point at c of the upper concave envelope of the points
(y_k, r_k): at most two arms, one on either side of c. No solver is needed. Start from the best arm
of all and the best arm that keeps the limit, look for the arm farthest above the line through the
two, let it replace the one on its side of c, and stop when no arm lies above: each look is one
pass over the arms.

Where the arms change there is no one mixture to ask for. With the cost v_j spent in each phase j
given, the best mixtures of the phases solve one program over all of them, because the limits hold
for the totals only (``best_phases``):

    maximise sum_jk v_j w_jk r_jk   subject to   sum_jk v_j w_jk y_jkm <= a_m,   sum_k w_jk = 1.

Ties go to fewer arms, then to the lower penalty, then to the lower number; numbers that differ by
less than ``ROUNDING``, relatively, are ties, because quotients of means are no more exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.errors import InfeasibleError, TightropeError
from tightrope.problem import Problem, require_unchanging

__all__ = [
    "ROUNDING",
    "Conflict",
    "Mixture",
    "Oracle",
    "PhaseMixtures",
    "best_arms",
    "best_mixture",
    "best_phases",
    "conflict",
    "least_excess",
    "limit_names",
    "oracle",
    "oracle_of_phases",
]

ROUNDING = 16 * float(np.finfo(np.float64).eps)
_INFEASIBLE = 2  # the solver's status
_ZERO = 1e-12  # a solver's share or price below this is a zero

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Oracle:
    """pi*, in the user's units. K arms, M penalties.

    ``reward_rate``, ``penalty_rate`` [M]: per unit of cost. ``multiplier`` [M]: reward per unit of
    penalty; 0 where the limit does not bind. ``pull_share`` [K] and ``cost_share`` [K] sum to 1.
    """

    reward_rate: float
    penalty_rate: tuple[float, ...]
    multiplier: tuple[float, ...]
    pull_share: Floats
    cost_share: Floats


@dataclass(frozen=True, eq=False)
class Mixture:
    """Some of N points and their weights: what they earn together, and the limits' prices [M]."""

    reward: float
    members: npt.NDArray[np.intp]
    weights: Floats
    multiplier: Floats


@dataclass(frozen=True, eq=False)
class Conflict:
    """Why no mixture of N points keeps every limit.

    ``prices`` [M], not negative, not all 0: weighed with them, every point's penalty exceeds the
    limits', and the limits with a price above 0 are those that cannot be kept; priced, the limits
    add up to 1. ``excess``: a mixture's largest penalty relative to its limit, at its least.
    ``nearest``: the point for which that is least, as far as the blamed limits go.
    """

    prices: Floats
    excess: float
    nearest: int


@dataclass(frozen=True, eq=False)
class PhaseMixtures:
    """A mixture of the K arms by cost in each of J phases: ``shares`` [J, K], each row sums to 1.

    ``reward``: what they earn in all. ``multiplier`` [M]: what one more unit of each penalty would.
    """

    reward: float
    shares: Floats
    multiplier: Floats


def oracle(problem: Problem) -> Oracle:
    """The best stationary policy of a problem; InfeasibleError if no mixture keeps the limits.

    ProblemError if the arms change: each of ``problem.phases`` has an oracle then.
    """
    mixture, cost_share = best_arms(problem), np.zeros(problem.arm_count)
    cost_share[mixture.members] = mixture.weights
    return _in_units(problem, cost_share, mixture.multiplier)


def oracle_of_phases(problem: Problem) -> list[Oracle]:
    """What the best policy pulls in each phase of a problem whose arms change, for large budgets.

    The limits hold for the whole budget, so one phase may incur more and another less than they
    allow; the multipliers are the same for all. InfeasibleError if no mixtures keep the limits.
    """
    spent = [phase.share for phase in problem.phases]
    best = best_phases(problem, spent)
    if best is None:
        least, prices = least_excess(problem, spent)
        names = limit_names(problem, np.flatnonzero(prices))
        raise InfeasibleError(
            f"{names}: must be such that some mixture of the arms keeps them over all phases;"
            f" {least:.6g} times that is the least"
        )
    return [
        _in_units(phase.problem, shares, best.multiplier)
        for phase, shares in zip(problem.phases, best.shares, strict=True)
    ]


def _in_units(problem: Problem, cost_share: Floats, multiplier: Floats) -> Oracle:
    """An oracle in the user's units, from shares of cost [K] and normalised prices [M]."""
    moments = problem.moments
    pull_share = cost_share / moments.cost
    pull_share /= pull_share.sum()
    cost_share.flags.writeable = pull_share.flags.writeable = False
    penalty_rate = cost_share @ moments.penalty_rate
    reward_rate = float(cost_share @ moments.reward_rate)
    cost_unit, reward_unit = problem.scales.cost, problem.scales.reward
    penalty_unit = np.array(problem.scales.penalties)
    return Oracle(
        reward_rate=reward_rate * reward_unit / cost_unit,
        penalty_rate=tuple((penalty_rate * penalty_unit / cost_unit).tolist()),
        multiplier=tuple((multiplier * reward_unit / penalty_unit).tolist()),
        pull_share=pull_share,
        cost_share=cost_share,
    )


def best_arms(problem: Problem) -> Mixture:
    """pi* as a mixture of the arms by cost, in normalised units; the errors of ``oracle``."""
    require_unchanging(
        problem,
        "oracle: the best stationary policy is defined for",
        instead="; take optimum(problem, budget), or oracle(phase.problem) for each of"
        " problem.phases",
    )
    moments = problem.moments
    mixture = best_mixture(moments.reward_rate, moments.penalty_rate, moments.limits)
    if mixture is None:
        raise InfeasibleError(_why_infeasible(problem))
    return mixture


def _why_infeasible(problem: Problem) -> str:
    """One line: which limits, and the arm that comes nearest to keeping them."""
    moments = problem.moments
    found = conflict(moments.penalty_rate, moments.limits)
    blamed = np.flatnonzero(found.prices)
    arm, per_cost = found.nearest, np.array(problem.scales.penalties) / problem.scales.cost
    rates = (moments.penalty_rate[arm] * per_cost)[blamed]
    which = limit_names(problem, blamed)
    if len(blamed) == 1:
        return (
            f"{which}: must be at least {rates[0]:.6g}, the penalty rate of the least violating"
            f" arm {problem.names[arm]!r}"
        )
    return (
        f"{which}: must be kept together by some mixture of the arms; the least violating arm"
        f" {problem.names[arm]!r} has penalty rates {' and '.join(f'{r:.6g}' for r in rates)}"
    )


def limit_names(problem: Problem, which: Iterable[int]) -> str:
    """The limits by number and value, for a message."""
    numbered = problem.penalty_count > 1
    return " and ".join(
        f"limit{f' {m + 1}' if numbered else ''} = {problem.limits[m]!r}" for m in which
    )


def best_mixture(reward: Floats, penalty: Floats, limits: Floats) -> Mixture | None:
    """The mixture of N points with the highest reward that keeps M limits; None if none does.

    ``reward`` [N], ``penalty`` [N, M] not negative, ``limits`` [M] positive; M may be 0.

    >>> best = best_mixture(np.array([2.0, 1.0]), np.array([[1.5], [0.5]]), np.array([0.8]))
    >>> round(best.reward, 9), best.weights.round(9).tolist(), best.multiplier.tolist()
    (1.3, [0.7, 0.3], [1.0])
    """
    allowed = np.all(penalty <= limits * (1.0 + ROUNDING), axis=1)
    if not (len(limits) > 1 or allowed.any()):
        return None
    top = float(reward.max())
    free = np.flatnonzero(allowed & (reward >= top - ROUNDING * abs(top)))
    if len(free):  # the limits do not bind
        least = free[np.argmin((penalty[free] / limits).sum(axis=1))]
        return _single(reward, int(least), np.zeros(len(limits)))
    if len(limits) == 1:
        return _on_envelope(reward, penalty[:, 0], float(limits[0]), allowed)
    return _by_program(reward, penalty, limits, allowed)


def conflict(penalty: Floats, limits: Floats) -> Conflict:
    """Which limits [M] the points ``penalty`` [N, M] cannot keep together.

    The mixture whose largest relative penalty is least is again a linear program; its dual weighs
    the limits that stand in the way.
    """
    relative = penalty / limits
    if len(limits) == 1:
        return Conflict(1.0 / limits, float(relative.min()), int(relative.argmin()))
    objective = np.append(np.zeros(len(relative)), 1.0)
    columns = np.column_stack([relative.T, -np.ones(len(limits))])
    mass = (1.0 - objective)[np.newaxis]
    result = _program(objective, columns, np.zeros(len(limits)), mass)
    prices = -np.asarray(result.ineqlin.marginals, dtype=np.float64)
    prices[prices < _ZERO] = 0.0
    nearest = int(relative[:, prices > 0.0].max(axis=1).argmin())
    return Conflict(prices / prices.sum() / limits, float(result.fun), nearest)


def best_phases(
    problem: Problem, spent: npt.ArrayLike, allowance: npt.ArrayLike | None = None
) -> PhaseMixtures | None:
    """The best mixtures of the phases of a problem, in normalised units; None if none is allowed.

    ``spent`` [J]: the cost in each phase, not all 0. ``allowance`` [M]: the most of each penalty in
    all, positive; the limits times the cost by default.
    """
    reward, relative, phases, allowed = _in_phases(problem, spent, allowance)
    size = float(np.abs(reward).max()) or 1.0
    result = _program(-reward / size, relative, np.ones(len(relative)), phases)
    if result.status == _INFEASIBLE:
        return None
    shares = np.maximum(np.asarray(result.x, dtype=np.float64), 0.0).reshape(len(phases), -1)
    shares[shares < _ZERO] = 0.0
    shares /= shares.sum(axis=1, keepdims=True)
    prices = np.maximum(-np.asarray(result.ineqlin.marginals, dtype=np.float64), 0.0)
    return PhaseMixtures(float(reward @ shares.ravel()), shares, prices * size / allowed)


def least_excess(
    problem: Problem, spent: npt.ArrayLike, allowance: npt.ArrayLike | None = None
) -> tuple[float, Floats]:
    """The largest total penalty relative to its allowance, at its least over all mixtures.

    As ``best_phases`` has them; above 1 where none is allowed, and 1 less it is the slack. With it
    the prices [M] of the penalties, not 0 for those that stand in the way.
    """
    reward, relative, phases, allowed = _in_phases(problem, spent, allowance)
    objective = np.append(np.zeros_like(reward), 1.0)
    columns = np.column_stack([relative, -np.ones(len(relative))])
    mass = np.column_stack([phases, np.zeros(len(phases))])
    result = _program(objective, columns, np.zeros(len(relative)), mass)
    prices = -np.asarray(result.ineqlin.marginals, dtype=np.float64)
    prices[prices < _ZERO] = 0.0
    return float(result.fun), prices / allowed


def _in_phases(
    problem: Problem, spent: npt.ArrayLike, allowance: npt.ArrayLike | None
) -> tuple[Floats, Floats, Floats, Floats]:
    """The program's numbers for N = J K shares, those of the first phase first.

    The reward of each [N], its penalties relative to the allowance [M, N], whether it belongs to
    each phase [J, N], and the allowance [M].
    """
    costs = np.asarray(spent, dtype=np.float64)
    allowed = problem.moments.limits * costs.sum() if allowance is None else allowance
    allowed = np.asarray(allowed, dtype=np.float64)
    moments = [phase.problem.moments for phase in problem.phases]
    weights = np.repeat(costs, problem.arm_count)
    reward = np.concatenate([one.reward_rate for one in moments]) * weights
    penalty = np.concatenate([one.penalty_rate for one in moments]) * weights[:, np.newaxis]
    phases = np.repeat(np.eye(len(costs)), problem.arm_count, axis=1)
    return reward, (penalty / allowed).T, phases, allowed


def _single(reward: Floats, point: int, multiplier: Floats) -> Mixture:
    return Mixture(float(reward[point]), np.array([point]), np.ones(1), multiplier)


def _on_envelope(reward: Floats, penalty: Floats, limit: float, allowed: Flags) -> Mixture:
    """One limit that binds: the envelope's point above it."""
    left, right = _support(reward, penalty, limit, allowed)
    slope = _slope(reward, penalty, left, right)
    score = reward - slope * penalty
    size = max(abs(float(reward[right])), slope * float(penalty[right]))
    tied = score >= score.max() - ROUNDING * size
    exact = np.flatnonzero(tied & allowed & (penalty >= limit * (1.0 - ROUNDING)))
    if len(exact):
        return _single(reward, int(exact[0]), np.array([slope]))
    left, right = int(np.argmax(tied & allowed)), int(np.argmax(tied & ~allowed))
    share = _share(penalty, limit, left, right)
    weights = np.array([1.0 - share, share])
    members = np.array([left, right])
    return Mixture(float(weights @ reward[members]), members, weights, np.array([slope]))


def _support(reward: Floats, penalty: Floats, limit: float, allowed: Flags) -> tuple[int, int]:
    """The two points, one on either side of the limit, with no point above their line."""
    right = _first_best(reward, penalty, np.ones(len(reward), dtype=np.bool_))
    left = _first_best(reward, penalty, allowed)
    reached = _progress(reward, penalty, limit, left, right)
    while True:
        height = reward - reached[1] * penalty
        far = int(np.argmax(height))
        pair = (far, right) if allowed[far] else (left, far)
        # A point above the line raises the value at the limit or, where the left point sits at
        # the limit, the slope. Asking for exactly that ends the search whatever the rounding.
        raised = _progress(reward, penalty, limit, *pair)
        if not (height[far] > max(height[left], height[right]) and raised > reached):
            return left, right
        (left, right), reached = pair, raised


def _first_best(reward: Floats, penalty: Floats, among: Flags) -> int:
    """The highest reward; ties to the lower penalty, then to the lower number."""
    best = np.flatnonzero(among & (reward == reward[among].max()))
    return int(best[np.argmin(penalty[best])])


def _progress(
    reward: Floats, penalty: Floats, limit: float, left: int, right: int
) -> tuple[float, float]:
    """The line through two points: its height at the limit, and its slope."""
    share = _share(penalty, limit, left, right)
    height = (1.0 - share) * float(reward[left]) + share * float(reward[right])
    return height, _slope(reward, penalty, left, right)


def _share(penalty: Floats, limit: float, left: int, right: int) -> float:
    """The weight of the right point that brings the penalty to the limit."""
    low, high = float(penalty[left]), float(penalty[right])
    return max(0.0, (limit - low) / (high - low))


def _slope(reward: Floats, penalty: Floats, left: int, right: int) -> float:
    return float((reward[right] - reward[left]) / (penalty[right] - penalty[left]))


def _by_program(reward: Floats, penalty: Floats, limits: Floats, allowed: Flags) -> Mixture | None:
    """Two or more limits: the linear program, scaled so that the solver's tolerances bite."""
    size = float(np.abs(reward).max()) or 1.0
    ones = np.ones((1, len(reward)))
    result = _program(-reward / size, (penalty / limits).T, np.ones(len(limits)), ones)
    if result.status == _INFEASIBLE:
        return None
    prices = np.maximum(-np.asarray(result.ineqlin.marginals, dtype=np.float64), 0.0)
    shares = np.asarray(result.x, dtype=np.float64)
    best = -size * float(result.fun)
    alone = np.flatnonzero(allowed & (reward >= best - _ZERO * size))
    if len(alone):
        return _single(reward, int(alone[0]), prices * size / limits)
    members = np.flatnonzero(shares > _ZERO)
    weights = shares[members] / shares[members].sum()
    return Mixture(float(weights @ reward[members]), members, weights, prices * size / limits)


def _program(objective: Floats, columns: Floats, bounds: Floats, mass: Floats) -> Any:
    """Minimise objective . w over w >= 0 with columns w <= bounds and mass w = 1, row by row."""
    from scipy.optimize import linprog

    for tolerance in (1e-10, 1e-7):  # the tighter one is now and then too much to ask
        result = linprog(
            objective,
            A_ub=columns,
            b_ub=bounds,
            A_eq=mass,
            b_eq=np.ones(len(mass)),
            method="highs",
            options={
                "primal_feasibility_tolerance": tolerance,
                "dual_feasibility_tolerance": tolerance,
            },
        )
        if result.success or result.status == _INFEASIBLE:
            return result
    raise TightropeError(f"linear program of {len(objective)} shares: {result.message}")
