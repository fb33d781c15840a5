"""The best mixture of arms per type of request: the oracle's linear programs over rows.

A request is of type x with probability p_x, and a stationary policy then pulls arm k with
probability pi_xk. With C the mean cost of a request, t = 1 / C and v_xk = pi_xk t, all that a
policy earns and incurs per unit of cost is linear in v:

    maximise sum_xk p_x r_xk v_xk   subject to   sum_xk p_x c_xk v_xk = 1,
    sum_k v_xk = t for every x,   sum_xk p_x y_xkm v_xk <= c_m for every m,   v >= 0.

A row is ``type * K + arm``. Its weight in a mixture is its share of the cost, p_x c_xk v_xk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope.problem.mixtures import (
    INFEASIBLE,
    ZERO,
    BestMixture,
    Conflict,
    nearest_point,
    program,
)
from tightrope.problem.values import Floats

if TYPE_CHECKING:
    from tightrope.problem.tables import Moments


def best_by_type(moments: Moments, shares: Floats) -> BestMixture | None:
    """The mixture of T * K rows with the highest reward that keeps M limits, or None.

    ``moments``: of the rows. ``shares`` [T]: how often each type comes.
    """
    chance, unit = _chances(moments, shares)
    reward, limits = chance * moments.reward / unit, moments.limits
    size = float(np.abs(reward).max()) or 1.0
    mass, sums = _requests(chance * moments.cost / unit, len(shares))
    columns = np.column_stack([_relative(moments, chance / unit), np.zeros(len(limits))])
    result = program(np.append(-reward / size, 0.0), columns, np.ones(len(limits)), mass, sums)
    if result.status == INFEASIBLE:
        return None
    weights = _cost_shares(np.asarray(result.x[:-1], np.float64), moments.cost, shares)
    members = np.flatnonzero(weights)
    prices = np.maximum(-np.asarray(result.ineqlin.marginals, np.float64), 0.0)
    prices[prices < ZERO] = 0.0
    earned = float(weights[members] @ moments.reward_rate[members])
    return BestMixture(earned, members, weights[members], prices * size / limits)


def conflict_by_type(moments: Moments, shares: Floats) -> Conflict:
    """Which limits no mixture of the rows keeps together, as ``mixtures.conflict`` for arms."""
    chance, unit = _chances(moments, shares)
    limits, count = moments.limits, len(moments.cost)
    mass, sums = _requests(chance * moments.cost / unit, len(shares), more=1)
    columns = np.zeros((len(limits), count + 2))  # the rows, t, and the excess
    columns[:, :count], columns[:, -1] = _relative(moments, chance / unit), -1.0
    objective = np.append(np.zeros(count + 1), 1.0)
    result = program(objective, columns, np.zeros(len(limits)), mass, sums)
    if not result.success:  # badly scaled numbers: take one arm per type
        worst = careful_rates(moments.net / limits, moments.cost[:, np.newaxis], shares)
        blamed = worst == worst.max()
        return Conflict(blamed / blamed.sum() / limits, float(worst.max()), 0)
    prices = -np.asarray(result.ineqlin.marginals, np.float64)
    prices[prices < ZERO] = 0.0
    if not prices.any():  # some mixture has no penalty at all: no limit is to blame
        prices[:] = 1.0
    nearest = nearest_point(moments.penalty_rate / limits, prices)
    return Conflict(prices / prices.sum() / limits, float(result.fun), nearest)


def lowest_by_type(moments: Moments, m: int, others: Sequence[int], shares: Floats) -> Any:
    """The program whose value is the lowest rate of penalty m that keeps the ``others``' limits.

    Its variables are z_xk = pi_xk over the mean base of a request, and their sum of each type.
    """
    chance, _ = _chances(moments, shares)
    mass, sums = _requests(chance * moments.base[:, m], len(shares))
    excess = chance * (moments.penalty - moments.limits * moments.base)[:, others].T
    columns = np.column_stack([excess, np.zeros(len(others))])
    return program(
        np.append(chance * moments.penalty[:, m], 0.0), columns, np.zeros(len(others)), mass, sums
    )


def careful_rates(penalty: Floats, base: Floats, shares: Floats) -> Floats:
    """The penalties over their bases, [M], if each type takes its least violating row.

    ``penalty`` [T * K, M] and ``base``, alike, are means of the rows; 0 over 0 is 0.
    """
    types = len(shares)
    with np.errstate(all="ignore"):
        worst = np.nan_to_num(penalty / base, nan=0.0).max(axis=1)
        rows = worst.reshape(types, -1).argmin(axis=1) + np.arange(types) * (len(worst) // types)
        rates = (shares @ penalty[rows]) / (shares @ np.broadcast_to(base, penalty.shape)[rows])
    return np.asarray(np.nan_to_num(rates, nan=0.0))


def _chances(moments: Moments, shares: Floats) -> tuple[Floats, float]:
    """How often each row's type comes [T * K], and a unit of cost that suits the solver."""
    chance = np.repeat(shares, len(moments.cost) // len(shares))
    return chance, float(chance @ moments.cost / chance.sum())


def _relative(moments: Moments, weights: Floats) -> Floats:
    """The net penalties of the rows over the limits, [M, T * K], times the rows' weights."""
    return np.asarray((moments.net / moments.limits).T * weights)


def _requests(spent: Floats, types: int, more: int = 0) -> tuple[Any, Floats]:
    """The equations of the program over T * K rows, t, and ``more`` variables; and their sums."""
    from scipy.sparse import csr_array

    count, each = len(spent), np.arange(1, 1 + types)
    values = np.concatenate([spent, np.ones(count), -np.ones(types)])
    rows = np.concatenate([np.zeros(count, np.int64), np.repeat(each, count // types), each])
    columns = np.concatenate([np.arange(count), np.arange(count), np.full(types, count)])
    shape = (1 + types, count + 1 + more)
    return csr_array((values, (rows, columns)), shape=shape), np.eye(1, 1 + types)[0]


def _cost_shares(found: Floats, cost: Floats, shares: Floats) -> Floats:
    """The share of the cost of every row, from a solution of the program, without its rounding."""
    each = np.maximum(found, 0.0).reshape(len(shares), -1)
    each /= each.sum(axis=1, keepdims=True)
    each[each < ZERO] = 0.0
    each *= shares[:, np.newaxis] / each.sum(axis=1, keepdims=True)
    weights = each.ravel() * cost
    return np.asarray(weights / weights.sum())
