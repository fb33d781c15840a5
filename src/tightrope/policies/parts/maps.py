"""The best mixture of maps from types to arms, under limits per unit of cost.

A *map* chooses an arm for every type of request. Its rates are those of an arm: what it earns and
incurs on average over requests, divided by its mean cost. A stationary policy that sees types is a
mixture of maps, so the program of ``mixture`` over maps is the program over types. There are K^T
maps; column generation needs M + 2 of them at a time:

1. solve the program over the maps at hand (``simplex``), which also finds the limits' prices;
2. find the best map of all at these prices (``find_root``, arm by arm for each type);
3. if it is better than the mixture, it replaces a map that has no share; repeat.

The search starts from the last maps, so that one or two rounds are enough as a rule. Letters: K
arms (in a record: rows), M limits, C = M + 2 maps, R = M + 1.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from tightrope.policies.parts.by_type import RowBounds, best_row, find_root
from tightrope.policies.parts.mixture import TOLERANCE, Program, pick, simplex
from tightrope.policies.state import Array

ROUNDS = 30  # per limit and one more; every mixture on the way is a valid one


class Maps(NamedTuple):
    """Maps with their rates, and the program over them."""

    rows: Annotated[Array, "C", "K"]  # of every map: the row of each type; T of K are used
    cost: Annotated[Array, "C"]  # mean
    reward: Annotated[Array, "C"]  # rate
    penalty: Annotated[Array, "C", "M"]  # rates
    theta: Annotated[Array, 1]  # the rate of the best map at the prices
    value: Annotated[Array, "K"]  # of every row per unit of cost, at the prices
    program: Program


def solve_maps(bounds: RowBounds, limits: Array, maps: Maps, count: int) -> bool:
    """Find the best mixture of maps for positive ``limits`` [M]; ``count`` arms per type.

    Returns whether it keeps all limits. Otherwise it is the least violating one.
    """
    places, types = len(maps.cost), len(bounds.cost) // count
    for place in range(places):
        for kind in range(types):
            row = int(maps.rows[place * len(bounds.cost) + kind])
            if row // count != kind:  # at the start of a run
                maps.rows[place * len(bounds.cost) + kind] = kind * count
        _rate(bounds, maps, place, count)
    kept = simplex(maps.reward, maps.penalty, limits, maps.program)
    for _ in range(ROUNDS * (1 + len(limits))):
        best = _best_above(bounds, maps, kept, count)
        if best <= TOLERANCE * (1.0 + abs(maps.program.prices[len(limits)])):
            break
        place = _unused(maps)
        for kind in range(types):
            row = best_row(bounds.cost, maps.value, kind * count, count, maps.theta[0])
            maps.rows[place * len(bounds.cost) + kind] = row
        _rate(bounds, maps, place, count)
        kept = simplex(maps.reward, maps.penalty, limits, maps.program)
    return kept


def pick_of_maps(maps: Maps, kind: int, coin: float) -> int:
    """Draw a map by its share of requests; the row that it chooses for a type."""
    place = max(pick(maps.program.mixture, maps.cost, coin), 0)
    return int(maps.rows[place * len(maps.value) + kind])


def _rate(bounds: RowBounds, maps: Maps, place: int, count: int) -> None:
    """Compute a map's mean cost and its rates."""
    limited = len(maps.penalty) // len(maps.cost)
    cost = reward = requests = 0.0
    for m in range(limited):
        maps.penalty[place * limited + m] = 0.0
    for kind in range(len(bounds.cost) // count):
        row = int(maps.rows[place * len(bounds.cost) + kind])
        share = bounds.share[row]
        requests += share
        cost += share * bounds.cost[row]
        reward += share * bounds.reward[row]
        for m in range(limited):
            maps.penalty[place * limited + m] += share * bounds.penalty[row * limited + m]
    maps.cost[place], maps.reward[place] = cost / requests, reward / cost
    for m in range(limited):
        maps.penalty[place * limited + m] /= cost


def _best_above(bounds: RowBounds, maps: Maps, kept: bool, count: int) -> float:
    """By how much the best map exceeds the mixture at its prices; writes values and theta.

    While the limits are not kept, the value is what lowers the violation.
    """
    prices, limited = maps.program.prices, len(maps.program.prices) - 1
    for row in range(len(bounds.cost)):
        value = bounds.reward[row] if kept else 0.0
        for m in range(limited):
            value -= prices[m] * bounds.penalty[row * limited + m]
        maps.value[row] = value / bounds.cost[row]
    find_root(maps.theta, bounds.share, bounds.cost, maps.value, count)
    return maps.theta[0] - prices[limited]  # type: ignore[no-any-return]


def _unused(maps: Maps) -> int:
    """The first map that is not in the program's basis."""
    for place in range(len(maps.cost)):
        used = False
        for i in range(len(maps.program.mixture.arms)):
            used = used or int(maps.program.mixture.arms[i]) == place
        if not used:
            return place
    return 0
