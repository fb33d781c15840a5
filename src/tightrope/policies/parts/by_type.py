"""What policies for requests with types share: the type at hand, bounds of rows, a unit's price.

A policy that uses types keeps its statistics by *row*, ``type * K + arm``. A task without contexts
has one type. With p_x the share of type x, c the mean cost of a row and v its value per unit of
cost, theta is the root of

    sum_x p_x max_k c_xk (v_xk - theta) = 0,

the largest value per unit of cost that any choice of an arm for every type has. Newton's method
(Dinkelbach) finds it from the last one, in two or three rounds as a rule.

Letters: T types, K arms (in a record: rows), M limits.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from tightrope.policies.base import net_penalty
from tightrope.policies.parts.intervals import if_unknown
from tightrope.policies.state import Array, State
from tightrope.problem import Task

ROUNDS = 100  # of Newton's method at most; it ends by itself


class RowBounds(NamedTuple):
    """Bounds of every row's means: optimistic ones of rewards and penalties."""

    share: Annotated[Array, "K"]  # requests of the row's type so far
    cost: Annotated[Array, "K"]  # the empirical mean
    reward: Annotated[Array, "K"]  # an upper bound
    penalty: Annotated[Array, "K", "M"]  # a lower bound of the net penalty


def arms_and_types(task: Task) -> tuple[float, float]:
    """K, the arms of a type, and T; T is 0 without contexts."""
    return float(task.arm_count // max(task.types, 1)), float(task.types)


def type_of(types: float, words: Array) -> int:
    """The type of the request at hand, from 0: the last word; 0 without contexts."""
    return int(words[len(words) - 1]) if types > 0.0 else 0


def bound_rows(state: State, bounds: RowBounds, count: int, alpha: float) -> None:
    """Compute all bounds, with the radius sqrt(alpha log(t) / pulls) at step t.

    A row that has cost nothing so far is assumed to cost what all rows do, to earn 1 and to incur
    nothing.
    """
    limited, steps, spent = len(state.limits), 0.0, 0.0
    for first in range(0, len(state.pulls), count):
        seen = 0.0
        for row in range(first, first + count):
            seen += state.pulls[row]
            spent += state.totals[row * (2 + limited)]
        for row in range(first, first + count):
            bounds.share[row] = seen
        steps += seen
    clock, usual = alpha * math.log(max(steps, 1.0)), spent / steps if spent > 0.0 else 1.0
    for row in range(len(state.pulls)):
        _bound_row(state, bounds, row, clock, usual)


def _bound_row(state: State, bounds: RowBounds, row: int, clock: float, usual: float) -> None:
    limited, pulls = len(state.limits), state.pulls[row]
    first, tried = row * (2 + limited), state.totals[row * (2 + limited)] > 0.0
    cost, reward, width = usual, 1.0, 0.0
    if tried:
        cost, width = state.totals[first] / pulls, math.sqrt(clock / pulls)
        reward = min(state.totals[first + 1] / pulls + if_unknown(state, first + 1, width), 1.0)
    bounds.cost[row], bounds.reward[row] = cost, reward
    for m in range(limited):
        penalty = 0.0
        if tried:
            mean = state.totals[first + 2 + m] / pulls
            penalty = max(mean - if_unknown(state, first + 2 + m, width), 0.0)
        net = net_penalty(state.bases[m], state.limits[m], 1.0, cost, reward, penalty)
        bounds.penalty[row * limited + m] = net


def untried_row(state: State, kind: int, count: int) -> int:
    """The type's first row that has cost nothing so far; -1 if there is none."""
    channels = len(state.remaining) + 1
    for row in range(kind * count, (kind + 1) * count):
        if state.totals[row * channels] <= 0.0:
            return row
    return -1


def find_root(theta: Array, share: Array, cost: Array, value: Array, count: int) -> None:
    """Move ``theta`` [1] to the root; ``value`` is per unit of cost, a cost of 0 is unknown.

    The first round ends at or below the root, since the sum is convex in theta; the others rise.
    """
    price = theta[0]
    for turn in range(ROUNDS):
        worth = spent = 0.0
        for first in range(0, len(cost), count):
            row = best_row(cost, value, first, count, price)
            paid = share[row] * cost[row]
            spent += paid
            worth += paid * value[row]
        if spent <= 0.0:
            break
        found = worth / spent
        if found == price or (turn > 0 and found < price):
            break
        price = found
    theta[0] = price


def best_row(cost: Array, value: Array, first: int, count: int, theta: float) -> int:
    """The best of a type's rows at a price; its first one if no cost is known."""
    found, best = first, -math.inf
    for row in range(first, first + count):
        if cost[row] > 0.0:
            worth = cost[row] * (value[row] - theta)
            if worth > best:
                found, best = row, worth
    return found


def count_types(state: State, seen: Array, count: int) -> float:
    """Count the requests of every type into its rows; returns those of all types."""
    total = 0.0
    for first in range(0, len(state.pulls), count):
        requests = 0.0
        for row in range(first, first + count):
            requests += state.pulls[row]
        for row in range(first, first + count):
            seen[row] = requests
        total += requests
    return total
