"""The best mixture of arms under limits: a small linear program, solved at every step.

    maximise w . r   subject to   w . y_m <= l_m for every limit,   sum w = 1,   w >= 0

over shares of cost w. At most M + 1 arms have a share. With one limit, the solution is the point at
penalty l on the upper concave envelope of the points (y_k, r_k), returned as a :class:`Pair`. With
more limits it is a :class:`Mixture`, found by a revised primal simplex with M + 1 rows and an
explicit inverse. The code is scalar and allocates nothing, so the same code runs in plain Python
and in kernels. Letters: K arms, M limits.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from tightrope.policies.state import Array

TOLERANCE = 1e-9  # of a reduced cost, relative
SMALL = 1e-11  # entries of a direction below this count as 0
INFINITY = float("inf")
NOBODY = -1.0  # the number of the artificial arm


class Mixture(NamedTuple):
    """Arms with their shares of cost, one per row; R = M + 1 rows.

    In ``arms``, K + m stands for the slack of limit m and -1 for no arm.
    """

    shares: Annotated[Array, "R"]
    arms: Annotated[Array, "R"]


class Program(NamedTuple):
    """The result and the working memory of :func:`solve_program`."""

    mixture: Mixture
    prices: Annotated[Array, "R"]  # the M limits' multipliers: reward per unit of relaxation
    direction: Annotated[Array, "R"]  # decrease of the rows' shares per unit of the entering arm
    inverse: Annotated[Array, "R", "R"]  # inverse of the basis matrix


class Pair(NamedTuple):
    """The best mixture under one limit: one arm, or two; the first of two keeps the limit alone."""

    first: int
    second: int  # -1 if there is none
    share: float  # the first arm's share of cost
    rest: float  # the second arm's share of cost
    price: float  # the limit's multiplier: reward per unit of relaxation


def best_pair(rewards: Array, penalties: Array, limit: float) -> Pair:
    """The best mixture under one limit, for reward rates [K] and penalty rates [K].

    Start with the best arm that keeps the limit and the best arm of all. Repeat: the arm farthest
    above the line through the two replaces the one on its side of the limit; stop when no arm lies
    above. If no arm keeps the limit, the result is the least violating one, with a share below 1.
    """
    under, over = _ends(rewards, penalties, limit)
    low, penalty = rewards[under], penalties[under]
    if penalty > limit:
        return Pair(under, -1, limit / penalty, 0.0, 0.0)
    for _ in range(len(rewards)):
        if over == under:
            break
        rise, run = rewards[over] - low, penalties[over] - penalty
        above, highest = -1, TOLERANCE * (1.0 + abs(rewards[over])) * run
        for k in range(len(rewards)):
            height = (rewards[k] - low) * run - rise * (penalties[k] - penalty)  # times the run
            if height > highest:
                above, highest = k, height
        if above < 0:
            share = (limit - penalty) / run
            return Pair(under, over, 1.0 - share, share, rise / run)
        if penalties[above] <= limit:
            under, low, penalty = above, rewards[above], penalties[above]
        else:
            over = above
    return Pair(under, -1, 1.0, 0.0, 0.0)


def pick_of_pair(pair: Pair, costs: Array, coin: float) -> int:
    """Draw an arm by its share of pulls (share of cost / mean cost); ``coin`` is in [0, 1)."""
    if pair.second < 0 or pair.rest <= 0.0:
        return pair.first
    first, second = pair.share * costs[pair.second], pair.rest * costs[pair.first]
    return pair.first if coin * (first + second) < first else pair.second


def rate_of_pair(pair: Pair, rates: Array) -> float:
    """The penalty rate of the pair if its arms have the penalty ``rates`` [K]."""
    if pair.second < 0:
        return rates[pair.first]  # type: ignore[no-any-return]
    return pair.share * rates[pair.first] + pair.rest * rates[pair.second]  # type: ignore[no-any-return]


def solve_program(rewards: Array, penalties: Array, limits: Array, program: Program) -> bool:
    """Solve for ``rewards`` [K], ``penalties`` [K * M] (arm by arm) and positive ``limits`` [M].

    Writes the result to ``program``. Returns True if some mixture keeps all limits; its shares then
    sum to 1 and ``program.prices`` are valid. Otherwise the result is the least violating mixture,
    the one that minimises the largest y_m / l_m; its shares sum to less than 1.
    """
    if len(limits) == 1:
        pair = best_pair(rewards, penalties, limits[0])
        _store_pair(program, pair)
        return pair.second >= 0 or pair.share == 1.0
    return simplex(rewards, penalties, limits, program)


def pick(mixture: Mixture, costs: Array, coin: float) -> int:
    """Draw an arm by its share of pulls (share of cost / mean cost); ``coin`` is in [0, 1)."""
    shares, arms, count = mixture.shares, mixture.arms, len(costs)
    total = 0.0
    for i in range(len(shares)):
        arm = int(arms[i])
        if 0 <= arm < count:
            total += shares[i] / costs[arm]
    rest, chosen = coin * total, -1
    for i in range(len(shares)):
        arm = int(arms[i])
        if 0 <= arm < count and shares[i] > 0.0:
            chosen = arm
            rest -= shares[i] / costs[arm]
            if rest < 0.0:
                break
    return chosen


def pick_or_any(kept: bool, mixture: Mixture, costs: Array, coin: float) -> int:
    """Same as :func:`pick` if the mixture keeps the limits; otherwise a uniformly random arm."""
    return pick(mixture, costs, coin) if kept else int(coin * len(costs))


def rate_of(mixture: Mixture, rates: Array, m: int) -> float:
    """The mixture's rate of penalty m if its arms have the penalty ``rates`` [K * M]."""
    limited, rate, total = len(mixture.arms) - 1, 0.0, 0.0
    for i in range(len(mixture.arms)):
        at = int(mixture.arms[i]) * limited + m
        if 0 <= at < len(rates):
            rate += mixture.shares[i] * rates[at]
            total += mixture.shares[i]
    return rate / total


def _ends(rewards: Array, penalties: Array, limit: float) -> tuple[int, int]:
    """The best arm that keeps the limit (or the least violating one), and the best arm of all."""
    under, low, least, over, high = 0, rewards[0], penalties[0], 0, rewards[0]
    for k in range(1, len(rewards)):
        reward, penalty = rewards[k], penalties[k]
        if penalty <= limit:
            if least > limit or reward > low:
                under, low, least = k, reward, penalty
        elif least > limit and penalty < least:
            under, low, least = k, reward, penalty
        if reward > high:
            over, high = k, reward
    return under, (over if high > low else under)


def _store_pair(program: Program, pair: Pair) -> None:
    """Store a pair as the program's mixture."""
    shares, arms = program.mixture.shares, program.mixture.arms
    shares[0], shares[1], program.prices[0] = pair.share, pair.rest, pair.price
    arms[0], arms[1] = pair.first, pair.second


def simplex(rewards: Array, penalties: Array, limits: Array, program: Program) -> bool:
    """Same as :func:`solve_program`, by the simplex method for any number of limits."""
    _start(program, len(rewards))
    basis, artificial = program.mixture.arms, True
    enter = _first(rewards, penalties, limits)
    for _ in range(20 + 10 * len(basis)):  # more than needed; every iterate is a valid mixture
        _set_direction(penalties, limits, program, enter, len(rewards))
        leave = _leaving(program)
        if leave < 0:
            break
        _pivot(program, leave)
        artificial = artificial and basis[leave] != NOBODY
        basis[leave] = enter
        enter = _entering(rewards, penalties, limits, program, artificial)
        if enter < 0:
            break
    return not artificial


def _start(program: Program, count: int) -> None:
    """Start from the basis of all slacks and an artificial arm that has the whole share."""
    shares, arms = program.mixture.shares, program.mixture.arms
    rows = len(shares)
    for i in range(rows):
        shares[i] = 1.0
        arms[i] = count + i
        for j in range(rows):
            program.inverse[i * rows + j] = 1.0 if i == j else 0.0
    arms[rows - 1] = NOBODY  # the artificial arm: no penalty, no reward


def _first(rewards: Array, penalties: Array, limits: Array) -> int:
    """The best arm that keeps all limits, or the one whose largest y_m / l_m is smallest."""
    limited = len(limits)
    chosen, best, least = 0, -INFINITY, INFINITY
    for k in range(len(rewards)):
        most = 0.0
        for m in range(limited):
            most = max(most, penalties[k * limited + m] / limits[m])
        if most <= 1.0:
            if least > 1.0 or rewards[k] > best:
                chosen, best, least = k, rewards[k], most
        elif most < least:
            chosen, least = k, most
    return chosen


def _entering(
    rewards: Array, penalties: Array, limits: Array, program: Program, artificial: bool
) -> int:
    """The arm (or K + m, a slack) that improves the mixture most; -1 if none does."""
    count, limited, prices = len(rewards), len(limits), program.prices
    _set_prices(rewards, program, artificial)
    enter, best = -1, TOLERANCE * (1.0 + abs(prices[limited]))
    for m in range(limited):
        if -prices[m] > best:
            enter, best = count + m, -prices[m]
    for m in range(limited):
        prices[m] /= limits[m]
    for k in range(count):
        gain = (0.0 if artificial else rewards[k]) - prices[limited]
        for m in range(limited):
            gain -= prices[m] * penalties[k * limited + m]
        if gain > best:
            enter, best = k, gain
    return enter


def _set_prices(rewards: Array, program: Program, artificial: bool) -> None:
    """Compute the rows' dual prices for the reward, or, in phase 1, for the artificial share."""
    basis, inverse, rows = program.mixture.arms, program.inverse, len(program.prices)
    for j in range(rows):
        value = 0.0
        for i in range(rows):
            if artificial:
                value -= inverse[i * rows + j] if basis[i] == NOBODY else 0.0
            elif basis[i] < len(rewards):
                value += rewards[int(basis[i])] * inverse[i * rows + j]
        program.prices[j] = value


def _set_direction(
    penalties: Array, limits: Array, program: Program, enter: int, count: int
) -> None:
    """Compute how much the rows' shares decrease per unit of the entering arm or slack."""
    limited, inverse = len(limits), program.inverse
    rows = limited + 1
    for i in range(rows):
        if enter >= count:
            moved = inverse[i * rows + enter - count]
        else:
            moved = inverse[i * rows + limited]
            for m in range(limited):
                moved += inverse[i * rows + m] * penalties[enter * limited + m] / limits[m]
        program.direction[i] = moved


def _leaving(program: Program) -> int:
    """The row whose share reaches 0 first, on ties the artificial arm's; -1 if none does."""
    shares, arms, direction = program.mixture.shares, program.mixture.arms, program.direction
    leave, reach = -1, INFINITY
    for i in range(len(shares)):
        if direction[i] > SMALL:
            far = shares[i] / direction[i]
            if far < reach or (arms[i] == NOBODY and far <= reach):
                leave, reach = i, far
    return leave


def _pivot(program: Program, leave: int) -> None:
    """Replace the leaving row by the entering one in the shares and the inverse."""
    shares, direction, inverse = program.mixture.shares, program.direction, program.inverse
    rows, pivot = len(shares), direction[leave]
    reach = shares[leave] / pivot
    for j in range(rows):
        inverse[leave * rows + j] /= pivot
    for i in range(rows):
        if i != leave:
            shares[i] = max(shares[i] - reach * direction[i], 0.0)
            for j in range(rows):
                inverse[i * rows + j] -= direction[i] * inverse[leave * rows + j]
    shares[leave] = reach
