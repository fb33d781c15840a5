"""The best mixture of arms under limits: a small linear program, solved anew at every step.

    maximise w . r   subject to   w . y_m <= l_m for every limit,   sum w = 1,   w >= 0

over shares of cost w. At most M + 1 arms have a share. With one limit it is the point at l of the
upper concave envelope of the points (y_k, r_k), found as the oracle finds it; with more, a revised
primal simplex with M + 1 rows and an explicit inverse. Scalar code over given arrays, nothing is
allocated, the same lines in plain Python and in a kernel. Letters: K arms, M limits.
"""

from __future__ import annotations

from typing import Any

__all__ = ["best_mixture", "pick", "work_size"]

Array = Any
TOLERANCE = 1e-9  # of a reduced price, relative
SMALL = 1e-11  # a direction below this does not move
INFINITY = float("inf")
NOBODY = -1.0  # the number of the artificial arm


def work_size(limits: int) -> int:
    """How many numbers :func:`best_mixture` works with: weights and arms of the rows first."""
    rows = limits + 1
    return rows * rows + 4 * rows


def best_mixture(rewards: Array, penalties: Array, limits: Array, work: Array) -> bool:
    """Solve for ``rewards`` [K], ``penalties`` [K * M] (arm by arm) and positive ``limits`` [M].

    True if some mixture keeps all limits. Otherwise what is found minimises the largest
    y_m / l_m: the least violating mixture. In ``work``, row i of M + 1 then has the share
    ``work[i]`` of arm ``work[M + 1 + i]`` (a number of at least K is a limit's slack, -1 nothing);
    shares of arms sum to 1 where the limits can be kept, to less where not. Where they can,
    ``work[2 (M + 1) + m]`` is what one more unit of limit m would earn.
    """
    if len(limits) == 1:
        return _on_envelope(rewards, penalties, limits[0], work)
    rows = len(limits) + 1
    basis = work[rows : 2 * rows]
    _start(work, len(rewards), rows)
    artificial = True
    enter = _first(rewards, penalties, limits)
    for _ in range(20 + 10 * rows):  # far more than are needed; any stop is a valid mixture
        _direct(penalties, limits, work, enter, len(rewards))
        leave = _leaving(work, rows)
        if leave < 0:
            break
        _pivot(work, rows, leave)
        artificial = artificial and basis[leave] != NOBODY
        basis[leave] = enter
        enter = _entering(rewards, penalties, limits, work, artificial)
        if enter < 0:
            break
    return not artificial


def pick(work: Array, limited: int, costs: Array, coin: float) -> int:
    """An arm by shares of pulls: share of cost over mean cost; ``coin`` in [0, 1)."""
    rows, count = limited + 1, len(costs)
    total = 0.0
    for i in range(rows):
        arm = int(work[rows + i])
        if 0 <= arm < count:
            total += work[i] / costs[arm]
    rest, chosen = coin * total, -1
    for i in range(rows):
        arm = int(work[rows + i])
        if 0 <= arm < count and work[i] > 0.0:
            chosen = arm
            rest -= work[i] / costs[arm]
            if rest < 0.0:
                break
    return chosen


def _on_envelope(rewards: Array, penalties: Array, limit: float, work: Array) -> bool:
    """One limit: start from the best arm that keeps it and the best of all, and go up from there.

    The arm farthest above the line through the two replaces the one on its side of the limit,
    until no arm lies above.
    """
    under, over = _ends(rewards, penalties, limit)
    if penalties[under] > limit:
        _note(work, under, limit / penalties[under], -1, 0.0)
        return False
    for _ in range(len(rewards)):
        if over == under:
            break
        run = penalties[over] - penalties[under]
        slope = (rewards[over] - rewards[under]) / run
        start, above = rewards[under] - slope * penalties[under], -1
        highest = TOLERANCE * (1.0 + abs(rewards[over]))
        for k in range(len(rewards)):
            height = rewards[k] - slope * penalties[k] - start
            if height > highest:
                above, highest = k, height
        if above < 0:
            share = (limit - penalties[under]) / run
            _note(work, under, 1.0 - share, over, share)
            work[4] = slope
            return True
        if penalties[above] <= limit:
            under = above
        else:
            over = above
    _note(work, under, 1.0, -1, 0.0)
    return True


def _ends(rewards: Array, penalties: Array, limit: float) -> tuple[int, int]:
    """The best arm that keeps the limit, else the one with the least penalty; the best of all."""
    under, over = 0, 0
    for k in range(1, len(rewards)):
        if penalties[k] <= limit:
            if penalties[under] > limit or rewards[k] > rewards[under]:
                under = k
        elif penalties[under] > limit and penalties[k] < penalties[under]:
            under = k
        if rewards[k] > rewards[over]:
            over = k
    return under, (over if rewards[over] > rewards[under] else under)


def _note(work: Array, arm: int, share: float, other: int, rest: float) -> None:
    """Two arms and their shares, with no price on the limit."""
    work[0], work[1], work[2], work[3], work[4] = share, rest, arm, other, 0.0


def _start(work: Array, count: int, rows: int) -> None:
    """Begin with every limit's slack, and an artificial arm that has all shares."""
    for i in range(rows):
        work[i] = 1.0
        work[rows + i] = count + i
        for j in range(rows):
            work[4 * rows + i * rows + j] = 1.0 if i == j else 0.0
    work[2 * rows - 1] = NOBODY  # no penalty, no reward, to be driven out


def _first(rewards: Array, penalties: Array, limits: Array) -> int:
    """The best arm that keeps all limits alone, else the one with the least largest y / l."""
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
    rewards: Array, penalties: Array, limits: Array, work: Array, artificial: bool
) -> int:
    """The arm (or K + m, a slack) that improves the mixture most; -1 if none does."""
    count, limited = len(rewards), len(limits)
    rows = limited + 1
    basis, price = work[rows : 2 * rows], work[2 * rows : 3 * rows]
    inverse = work[4 * rows :]
    for j in range(rows):
        value = 0.0
        for i in range(rows):
            if artificial:
                value -= inverse[i * rows + j] if basis[i] == NOBODY else 0.0
            elif basis[i] < count:
                value += rewards[int(basis[i])] * inverse[i * rows + j]
        price[j] = value
    enter, best = -1, TOLERANCE * (1.0 + abs(price[limited]))
    for m in range(limited):
        if -price[m] > best:
            enter, best = count + m, -price[m]
    for m in range(limited):
        price[m] /= limits[m]
    for k in range(count):
        gain = (0.0 if artificial else rewards[k]) - price[limited]
        for m in range(limited):
            gain -= price[m] * penalties[k * limited + m]
        if gain > best:
            enter, best = k, gain
    return enter


def _direct(penalties: Array, limits: Array, work: Array, enter: int, count: int) -> None:
    """How the rows' shares fall as that of the entering arm or slack rises."""
    limited = len(limits)
    rows = limited + 1
    direction, inverse = work[3 * rows : 4 * rows], work[4 * rows :]
    for i in range(rows):
        if enter >= count:
            direction[i] = inverse[i * rows + enter - count]
        else:
            moved = inverse[i * rows + limited]
            for m in range(limited):
                moved += inverse[i * rows + m] * penalties[enter * limited + m] / limits[m]
            direction[i] = moved


def _leaving(work: Array, rows: int) -> int:
    """The row whose share is used up first, the artificial arm's on ties; -1 if none is."""
    leave, reach = -1, INFINITY
    for i in range(rows):
        if work[3 * rows + i] > SMALL:
            far = work[i] / work[3 * rows + i]
            if far < reach or (work[rows + i] == NOBODY and far <= reach):
                leave, reach = i, far
    return leave


def _pivot(work: Array, rows: int, leave: int) -> None:
    """Give the leaving row's place to what enters: shares and inverse."""
    weight, direction, inverse = work[:rows], work[3 * rows : 4 * rows], work[4 * rows :]
    pivot = direction[leave]
    reach = weight[leave] / pivot
    for j in range(rows):
        inverse[leave * rows + j] /= pivot
    for i in range(rows):
        if i != leave:
            weight[i] = max(weight[i] - reach * direction[i], 0.0)
            for j in range(rows):
                inverse[i * rows + j] -= direction[i] * inverse[leave * rows + j]
    weight[leave] = reach
