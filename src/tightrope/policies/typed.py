"""resolve for requests with types: what runs in its place where a task has contexts.

A step, for a request of type x, with a budget b and allowances a_m left:

1. draw every row's mean cost, reward and penalties from what is believed (``parts.pooling``);
2. find, for each type, the arm that is safest by cautious estimates; what these arms would incur
   over the rest of the budget gives the largest penalty rates q_m that are safe to promise, as in
   ``resolve``; the variance between types is part of the deviation;
3. find prices: theta of a unit of cost, lambda_m of a unit of penalty m above q_m, such that the
   best arms of all types at these prices are expected to incur the rates q_m;
4. pull the arm that is best for type x at these prices: the largest
   R - theta X - sum_m lambda_m (Y_m - q_m X) of drawn means.

The rates come from what was really spent, so that a wrong model costs reward, not the limit.
Letters as in ``parts.pooling``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, NamedTuple

from tightrope.policies.base import Constants, Policy, Setup
from tightrope.policies.choice import WORDS, hashed
from tightrope.policies.parts.beliefs import (
    COIN,
    KNOWN,
    MORE,
    Arms,
    draw_for_many,
    draw_for_one,
    mean_of,
)
from tightrope.policies.parts.pooling import ARMS, Pool, learn_row, pool_all, share_of
from tightrope.policies.parts.rescue import (
    Outlook,
    be_hopeful,
    cost_ahead,
    excess_of,
    known_cost,
    large_penalty,
    pending,
    room_above,
    safe_rate,
    size_of,
    skewness,
    take_care,
)
from tightrope.policies.resolve import (
    CALM,
    LEAST_LIMIT,
    LEFT,
    LOOKS,
    RISKED,
    WIDE,
    WIDER,
    Resolve,
)
from tightrope.policies.state import Array, State
from tightrope.problem import Known, Task

__all__ = ["TypedResolve"]

EQUAL = 4  # the place of 1 in the policy's constants where all costs are known and equal
HALVINGS = 14  # of the interval that a price is in
GROWTH = 4.0  # of a price, until it is high enough
MOST_GROWTH = 40  # times
DEAREST = 1e12


class TypedScratch(NamedTuple):
    """What the policy remembers beside the counts."""

    budget: Annotated[Array, 1]  # at the start
    promised: Annotated[Array, "M"]  # the penalty rates to keep
    price: Annotated[Array, "R"]  # of a unit of cost, and of each penalty
    spent: Annotated[Array, "R"]  # expected cost and penalties of a request at these prices
    pool: Pool
    arms: Arms


@dataclass(frozen=True)
class TypedResolve(Resolve):
    """``resolve`` for requests with types; see :class:`Resolve`."""

    contextual: ClassVar[bool] = True
    Scratch: ClassVar[type] = TypedScratch
    seldom: ClassVar[tuple[str, ...]] = ("arms.more", "pool")
    carried: ClassVar[tuple[str, ...]] = ("price",)

    def for_task(self, known: Known) -> Policy:
        """Itself."""
        return self

    def setup(self, task: Task, budget: float) -> Setup:
        """As ``resolve``; the curse is that of K arms. Then K, and whether all costs are equal."""
        arms = task.arm_count // max(task.types, 1)
        setup = super().setup(task, budget)
        z, _, least = setup.constants
        costs = task.known_outcomes[:, 0]
        equal = not math.isnan(costs[0]) and bool((costs == costs[0]).all())
        kappa = setup.constants[1] if arms == task.arm_count else _curse(arms)
        return replace(setup, constants=(z, kappa, least, float(arms), float(equal)))

    @staticmethod
    def begin(constants: Constants, state: State, scratch: TypedScratch) -> None:
        """Note the budget; believe of every row what is believed of a new one."""
        scratch.budget[0] = state.remaining[0]
        pool_all(constants, state, scratch.arms, scratch.pool)

    @classmethod
    def renew(cls, constants: Constants, state: State, scratch: TypedScratch) -> None:
        """Believe of every row what the state says."""
        pool_all(constants, state, scratch.arms, scratch.pool)

    @staticmethod
    def learn(constants: Constants, state: State, scratch: TypedScratch, row: int) -> None:
        """Renew the beliefs about the arm just pulled, for all types."""
        learn_row(constants, state, scratch.arms, scratch.pool, row)

    @staticmethod
    def choose(constants: Constants, state: State, scratch: TypedScratch, words: Array) -> int:
        """The row of the best arm for the type of the request."""
        kind, count = int(words[WORDS]), int(constants[ARMS])
        look = _look(constants, state, scratch, words, kind, count)
        if look >= 0:
            return look
        noise, arms = _noise(state, scratch, words), scratch.arms
        if len(state.limits) == 1:
            draw_for_one(constants, state, arms, words[0], noise)
        else:
            draw_for_many(constants, state, arms, words[0], noise)
        standing = _promise(constants, state, scratch, count)
        if standing < 0.0:
            return _least(constants, state, scratch, kind, count, noise)
        _find_prices(constants, state, scratch, count)
        row = _best(state, scratch, kind, count)
        if not _bearable(constants, state, scratch, row, count):
            return _safest(state, arms, kind, count)
        return row

    @classmethod
    def functions(cls, penalties: int | None = None) -> tuple[Callable[..., Any], ...]:
        """All that a kernel compiles of it."""
        return (cls.begin, cls.choose, cls.learn)


def _curse(arms: int) -> float:
    from tightrope.policies.resolve import curse

    return curse(arms)


def _noise(state: State, scratch: TypedScratch, words: Array) -> float:
    """The share of noise left, from 1 to 0; now and then wider, as in ``resolve``."""
    noise = math.sqrt(max(state.remaining[0], 0.0) / scratch.budget[0])
    return noise * WIDER if hashed(words[1], 1) * COIN < WIDE else noise


def _look(
    constants: Constants, state: State, scratch: TypedScratch, words: Array, kind: int, count: int
) -> int:
    """Any arm, at step t with the chance ``LOOKS`` / t; else, or if it may cost too much, -1."""
    if hashed(words[1], 2) * COIN * (state.steps[0] + 1.0) >= LOOKS:
        return -1
    row = kind * count + int(hashed(words[1], 3) * COIN * count)
    if state.remaining[0] < LEFT * scratch.budget[0]:
        return -1
    for m in range(len(state.limits)):
        left, whole = state.remaining[1 + m], state.limits[m] * scratch.budget[0]
        risked = large_penalty(constants, size_of(state, scratch.arms, row, m))
        if left < LEFT * whole or risked > RISKED * left:
            return -1
    return row


# What is safe to promise.


def _safest(state: State, arms: Arms, kind: int, count: int) -> int:
    """The row of a type whose cautious penalties are least, each relative to its limit."""
    limited, found, least = len(state.limits), kind * count, math.inf
    for row in range(kind * count, (kind + 1) * count):
        above = 0.0
        for m in range(limited):
            above += arms.cautious[row * limited + m] / state.limits[m] - 1.0
        above *= mean_of(arms.cost_scale[row])
        if above < least:
            found, least = row, above
    return found


def _promise(constants: Constants, state: State, scratch: TypedScratch, count: int) -> float:
    """The penalty rates to keep; negative if it is too late for some limit."""
    arms, limited = scratch.arms, len(state.limits)
    standing, ahead = math.inf, cost_ahead(state, arms)
    for m in range(limited):
        outlook = _of_safest(state, scratch, m, ahead, count)
        size = _size_of_safest(state, scratch, m, count)
        reserve = skewness(constants, size) + pending(constants, state, arms, m)
        safe = safe_rate(constants, outlook, reserve, state.remaining[1 + m], ahead)
        scratch.promised[m] = max(safe, LEAST_LIMIT * state.limits[m])
        standing = min(standing, safe)
    return standing


def _of_safest(state: State, scratch: TypedScratch, m: int, ahead: float, count: int) -> Outlook:
    """What the safest arms of all types do to limit m: the variance between types is noise."""
    arms, pool, limited = scratch.arms, scratch.pool, len(state.limits)
    steps, types = _requests(pool, count), len(arms.cost) // count
    cost = penalty = square = noise = unsure = mixed = 0.0
    for kind in range(types):
        if pool.seen[kind * count] > 0.0 or steps == 0.0:
            row, share = _safest(state, arms, kind, count), share_of(pool, kind, count, steps)
            at, mean = row * limited + m, mean_of(arms.cost_scale[row])
            net = arms.rate[at] * mean
            cost += share * mean
            penalty += share * net
            square += share * net * net
            mixed += share * mean * net
            noise += share * mean * arms.spread[at]
            known = known_cost(arms.more[MORE * at + KNOWN], ahead * share, count)
            unsure += share * mean * share * mean * arms.spread[at] / known
    rate = penalty / cost
    between = max(square - 2.0 * rate * mixed + rate * rate * cost, 0.0)
    unsure = unsure / (cost * cost) + between / (cost * cost * (steps + 1.0))
    return rate, (noise + between) / cost, unsure


def _requests(pool: Pool, count: int) -> float:
    """How many requests were reported."""
    total = 0.0
    for kind in range(len(pool.seen) // count):
        total += pool.seen[kind * count]
    return total


def _size_of_safest(state: State, scratch: TypedScratch, m: int, count: int) -> float:
    """The largest usual size of penalty m of the safest arms."""
    arms, size, pool = scratch.arms, 0.0, scratch.pool
    steps = _requests(pool, count)
    for kind in range(len(arms.cost) // count):
        if pool.seen[kind * count] > 0.0 or steps == 0.0:
            size = max(size, size_of(state, arms, _safest(state, arms, kind, count), m))
    return size


def _bearable(
    constants: Constants, state: State, scratch: TypedScratch, row: int, count: int
) -> bool:
    """Whether every limit can still be rescued after a large penalty of this row."""
    for m in range(len(state.limits)):
        size = _size_of_safest(state, scratch, m, count)
        excess = excess_of(constants, size_of(state, scratch.arms, row, m), size)
        if excess > 0.0:
            ahead, allowance = cost_ahead(state, scratch.arms), state.remaining[1 + m]
            reserve = (
                skewness(constants, size) + excess + pending(constants, state, scratch.arms, m)
            )
            outlook = _of_safest(state, scratch, m, ahead, count)
            if room_above(constants, outlook, reserve, allowance, ahead) < constants[0]:
                return False
    return True


def _least(
    constants: Constants, state: State, scratch: TypedScratch, kind: int, count: int, noise: float
) -> int:
    """Where it is late: the row with the least penalties, hopeful ones if a risk is asked for."""
    arms, limited, found, least = scratch.arms, len(state.limits), kind * count, math.inf
    if constants[0] > CALM:
        be_hopeful(arms, cost_ahead(state, arms), limited)
    else:
        take_care(arms.penalty, arms.cautious, 1.0 - noise)
    for row in range(kind * count, (kind + 1) * count):
        above = 0.0
        for m in range(limited):
            above = max(above, arms.penalty[row * limited + m] / state.limits[m])
        if above < least:
            found, least = row, above
    return found


# Prices.


def _find_prices(constants: Constants, state: State, scratch: TypedScratch, count: int) -> None:
    """Prices at which the best arms of all types are expected to incur the promised rates."""
    limited = len(state.limits)
    for m in range(limited):
        scratch.price[1 + m] = max(scratch.price[1 + m], 0.0)
    rounds = 1 if limited <= 1 else 3
    if limited == 0:
        _expect(constants, state, scratch, count)
    for _ in range(rounds):
        for m in range(limited):
            _find_price(constants, state, scratch, m, count)


def _find_price(
    constants: Constants, state: State, scratch: TypedScratch, m: int, count: int
) -> None:
    """The least price of penalty m at which its rate is kept, beside the other prices."""
    price, last = scratch.price, scratch.price[1 + m]
    price[1 + m] = 0.0
    if _keeps(constants, state, scratch, m, count):
        return
    low, high = 0.0, last if last > 0.0 else 1.0
    price[1 + m] = high
    grown = 0
    while not _keeps(constants, state, scratch, m, count) and grown < MOST_GROWTH:
        low, high, grown = high, GROWTH * high, grown + 1
        price[1 + m] = high
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        price[1 + m] = middle
        if _keeps(constants, state, scratch, m, count):
            high = middle
        else:
            low = middle
    price[1 + m] = min(high, DEAREST)


def _keeps(constants: Constants, state: State, scratch: TypedScratch, m: int, count: int) -> bool:
    """Whether the best arms at the present prices are expected to keep the promised rate."""
    _expect(constants, state, scratch, count)
    return scratch.spent[1 + m] <= scratch.promised[m] * scratch.spent[0]  # type: ignore[no-any-return]


def _expect(constants: Constants, state: State, scratch: TypedScratch, count: int) -> None:
    """The expected cost and penalties of a request; also makes theta the rate of the rest."""
    arms, pool, limited = scratch.arms, scratch.pool, len(state.limits)
    spent, steps = scratch.spent, _requests(pool, count)
    for _ in range(1 if constants[EQUAL] > 0.0 else 2):
        value = 0.0
        for at in range(1 + limited):
            spent[at] = 0.0
        for kind in range(len(arms.cost) // count):
            if pool.seen[kind * count] > 0.0 or steps == 0.0:
                row, share = _best(state, scratch, kind, count), share_of(pool, kind, count, steps)
                cost = mean_of(arms.cost_scale[row])
                spent[0] += share * cost
                value += share * _value(scratch, row, limited)
                for m in range(limited):
                    spent[1 + m] += share * cost * arms.rate[row * limited + m]
        scratch.price[0] += value / spent[0] if spent[0] > 0.0 else 0.0


def _best(state: State, scratch: TypedScratch, kind: int, count: int) -> int:
    """The row of a type that is best at the present prices, by drawn means."""
    limited, found, most = len(state.limits), kind * count, -math.inf
    for row in range(kind * count, (kind + 1) * count):
        value = _value(scratch, row, limited)
        if value > most:
            found, most = row, value
    return found


def _value(scratch: TypedScratch, row: int, limited: int) -> float:
    """What a pull of a row is worth at the present prices, by drawn means."""
    arms, price = scratch.arms, scratch.price
    value = arms.reward[row] - price[0]
    for m in range(limited):
        value -= price[1 + m] * (arms.penalty[row * limited + m] - scratch.promised[m])
    return value * arms.cost[row]  # type: ignore[no-any-return]
