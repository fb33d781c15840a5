"""The best mixture of points under limits: the oracle's linear programs over plain arrays.

One limit c needs no solver. The optimum is the point at penalty c on the upper concave envelope of
the points (y_k, r_k): a mixture of at most two points, one on either side of c. Start with the best
point and the best point that keeps the limit. In each pass over the points, the point farthest
above the line through the two replaces the one on its side of c. Stop when no point lies above the
line.

Ties go to fewer points, then to the lower penalty, then to the lower number. Numbers whose relative
difference is below ``ROUNDING`` count as ties, because quotients of means are not more precise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.errors import TightropeError
from tightrope.problem.values import Floats

ROUNDING = 16 * float(np.finfo(np.float64).eps)
INFEASIBLE = 2  # linprog's status for infeasible programs
ZERO = 1e-12  # shares and prices below this count as 0
MOST = 1e12  # largest coefficient given to the solver

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class BestMixture:
    """Some of N points with their weights, the reward of the mixture, and the multipliers [M]."""

    reward: float
    members: npt.NDArray[np.intp]
    weights: Floats
    multiplier: Floats


@dataclass(frozen=True, eq=False)
class Conflict:
    """The reason why no mixture of N points keeps every limit.

    ``prices`` [M], not negative, not all 0, with prices . limits = 1: for every point,
    prices . penalty > 1. Limits with a positive price are the cause: no mixture keeps them
    together. ``excess``: the smallest possible value, over mixtures, of the largest penalty /
    limit. ``nearest``: the point whose largest penalty / limit over these limits is smallest.
    """

    prices: Floats
    excess: float
    nearest: int


def best_mixture(reward: Floats, penalty: Floats, limits: Floats) -> BestMixture | None:
    """The mixture of N points with the highest reward that keeps M limits, or None.

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
    """The ``limits`` [M] that no mixture of the points ``penalty`` [N, M] keeps together.

    A linear program finds the mixture whose largest penalty / limit is smallest; its dual variables
    are the prices.
    """
    relative = penalty / limits
    if len(limits) == 1:
        return Conflict(1.0 / limits, float(relative.min()), int(relative.argmin()))
    objective = np.append(np.zeros(len(relative)), 1.0)
    columns = np.column_stack([relative.T, -np.ones(len(limits))])
    mass = (1.0 - objective)[np.newaxis]
    result = program(objective, columns, np.zeros(len(limits)), mass)
    if not result.success:  # badly scaled numbers: take the best single point
        nearest = int(relative.max(axis=1).argmin())
        blamed = relative[nearest] == relative[nearest].max()
        excess = float(relative[nearest].max())
        return Conflict(blamed / blamed.sum() / limits, excess, nearest)
    prices = -np.asarray(result.ineqlin.marginals, dtype=np.float64)
    prices[prices < ZERO] = 0.0
    if not prices.any():  # some point has no penalty: no limit is the cause
        prices[:] = 1.0
    nearest = nearest_point(relative, prices)
    return Conflict(prices / prices.sum() / limits, float(result.fun), nearest)


def nearest_point(relative: Floats, prices: Floats) -> int:
    """The point whose largest penalty / limit is smallest, over the limits with a price."""
    return int(relative[:, prices > 0.0].max(axis=1).argmin())


def _single(reward: Floats, point: int, multiplier: Floats) -> BestMixture:
    return BestMixture(float(reward[point]), np.array([point]), np.ones(1), multiplier)


def _on_envelope(reward: Floats, penalty: Floats, limit: float, allowed: Flags) -> BestMixture:
    """The best mixture if the only limit binds: the envelope's point at the limit."""
    left, right = _support(reward, penalty, limit, allowed)
    slope = _slope(reward, penalty, left, right)
    score = reward - slope * penalty
    size = max(abs(float(reward[right])), slope * float(penalty[right]))
    tied = score >= score.max() - ROUNDING * size
    tied[[left, right]] = True  # between near points the slope is rounded: one far away seems above
    exact = np.flatnonzero(tied & allowed & (penalty >= limit * (1.0 - ROUNDING)))
    if len(exact):
        return _single(reward, int(exact[0]), np.array([slope]))
    left, right = int(np.argmax(tied & allowed)), int(np.argmax(tied & ~allowed))
    share = _share(penalty, limit, left, right)
    weights = np.array([1.0 - share, share])
    members = np.array([left, right])
    return BestMixture(float(weights @ reward[members]), members, weights, np.array([slope]))


def _support(reward: Floats, penalty: Floats, limit: float, allowed: Flags) -> tuple[int, int]:
    """Two points, one on either side of the limit, with no point above their line."""
    right = _first_best(reward, penalty, np.ones(len(reward), dtype=np.bool_))
    left = _first_best(reward, penalty, allowed)
    reached = _progress(reward, penalty, limit, left, right)
    while True:
        height = reward - reached[1] * penalty
        far = int(np.argmax(height))
        pair = (far, right) if allowed[far] else (left, far)
        # A point above the line raises the line's height at the limit or, if the left point is at
        # the limit, its slope. Requiring exactly that ends the search despite rounding.
        raised = _progress(reward, penalty, limit, *pair)
        if not (height[far] > max(height[left], height[right]) and raised > reached):
            return left, right
        (left, right), reached = pair, raised


def _first_best(reward: Floats, penalty: Floats, among: Flags) -> int:
    """The point with the highest reward; ties go to lower penalty, then to the lower number."""
    best = np.flatnonzero(among & (reward == reward[among].max()))
    return int(best[np.argmin(penalty[best])])


def _progress(
    reward: Floats, penalty: Floats, limit: float, left: int, right: int
) -> tuple[float, float]:
    """The height at the limit, and the slope, of the line through two points."""
    share = _share(penalty, limit, left, right)
    height = (1.0 - share) * float(reward[left]) + share * float(reward[right])
    return height, _slope(reward, penalty, left, right)


def _share(penalty: Floats, limit: float, left: int, right: int) -> float:
    """The weight of the right point at which the mixture's penalty equals the limit."""
    low, high = float(penalty[left]), float(penalty[right])
    return max(0.0, (limit - low) / (high - low))


def _slope(reward: Floats, penalty: Floats, left: int, right: int) -> float:
    return float((reward[right] - reward[left]) / (penalty[right] - penalty[left]))


def _by_program(
    reward: Floats, penalty: Floats, limits: Floats, allowed: Flags
) -> BestMixture | None:
    """The best mixture by linear programming, scaled to suit the solver's tolerances."""
    size = float(np.abs(reward).max()) or 1.0
    ones = np.ones((1, len(reward)))
    result = program(-reward / size, (penalty / limits).T, np.ones(len(limits)), ones)
    if result.status == INFEASIBLE:
        return None
    prices = np.maximum(-np.asarray(result.ineqlin.marginals, dtype=np.float64), 0.0)
    shares = np.asarray(result.x, dtype=np.float64)
    best = -size * float(result.fun)
    alone = np.flatnonzero(allowed & (reward >= best - ZERO * size))
    if len(alone):
        return _single(reward, int(alone[0]), prices * size / limits)
    members = np.flatnonzero(shares > ZERO)
    weights = shares[members] / shares[members].sum()
    return BestMixture(float(weights @ reward[members]), members, weights, prices * size / limits)


def program(
    objective: Floats, columns: Floats, bounds: Floats, mass: Any, sums: Floats | None = None
) -> Any:
    """Minimise objective . w over w >= 0 with columns w <= bounds, mass w = sums; scipy's result.

    ``mass`` may be sparse; ``sums`` are 1 by default.
    """
    from scipy.optimize import linprog

    # The solver sometimes fails at the tightest tolerance, so try looser ones. Capping coefficients
    # at ``most`` changes little: points with larger coefficients get almost no share.
    for tolerance, most in ((1e-10, MOST), (1e-7, MOST), (1e-7, 1e8), (1e-7, 1e5)):
        result = linprog(
            objective,
            A_ub=np.minimum(columns, most),
            b_ub=bounds,
            A_eq=mass,
            b_eq=np.ones(len(mass)) if sums is None else sums,
            method="highs",
            options={
                "primal_feasibility_tolerance": tolerance,
                "dual_feasibility_tolerance": tolerance,
            },
        )
        if result.success or result.status == INFEASIBLE:
            return result
    raise TightropeError(f"linear program of {len(objective)} shares: {result.message}")


def bounded_total(
    reward: Floats, rows: Floats, most: Floats, shares: Floats | None = None
) -> float:
    """The highest reward . n over n >= 0 with rows n <= most.

    ``shares`` [T]: what part of the sum of all n is that of each of T equally long stretches. The
    sum is then one more variable, which keeps the equations sparse.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    stretches: dict[str, Any] = {}
    if shares is not None:
        count, each = len(reward), np.arange(len(shares))
        numbers = np.append(np.ones(count), -shares)
        lines = np.append(np.repeat(each, count // len(shares)), each)
        columns = np.append(np.arange(count), np.full(len(shares), count))
        shape = (len(shares), count + 1)
        stretches = {"A_eq": csr_array((numbers, (lines, columns)), shape=shape)}
        stretches["b_eq"] = np.zeros(len(shares))
        reward, rows = np.append(reward, 0.0), np.pad(rows, ((0, 0), (0, 1)))
    found = linprog(-reward, A_ub=rows, b_ub=most, method="highs", **stretches)
    if not found.success:
        raise TightropeError(f"linear program of {len(reward)} arms: {found.message}")
    return -float(found.fun or 0.0)
