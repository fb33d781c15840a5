"""resolve for requests with types: what runs in its place where a task has contexts.

A step, for a request of type x, with a budget b and allowances a_m left:

1. draw the mean cost, reward and penalties of the rows of type x from what is believed
   (``parts.pooling``); rows of other types keep what was last drawn for them;
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
    SIZE,
    Arms,
    draw_for_many,
    mean_of,
)
from tightrope.policies.parts.deviations import curse
from tightrope.policies.parts.pooling import ARMS, Pool, excess_over, learn_row, pool_all
from tightrope.policies.parts.rescue import (
    Outlook,
    be_hopeful,
    can_rescue,
    cost_ahead,
    excess_of,
    known_cost,
    large_penalty,
    pending,
    safe_rate,
    skewness,
)
from tightrope.policies.resolve import (
    LEAST_LIMIT,
    Resolve,
    look_around,
    noise_left,
)
from tightrope.policies.state import Array, State
from tightrope.problem import Known, Task

STEPS = 1  # halvings of the interval that a price is in; two prices are mixed in any case
WIDTH = 1.1  # of a price, over the last one: the first interval; the next ones are squares
STEPS_DOWN = 5  # from the last price, until 0 is tried
MOST_PRICE = 1e12
MOST_ODDS = 50.0  # of what is saved to what is lost, where an allowance is kept back
# Times an arm's usual penalty, of few pulls and of many: the largest ones are seen late.
FIRST_TAIL, TAIL, SEEN = 1.4, 0.6, 300.0
HOPED = 0.1  # of what is left of an allowance: the largest penalty of a row that is hoped for
SHIFT, LEAST_WEIGHT = 0.05, 1e-3  # of the limits' weights
# Of the safest arms: an ``Outlook``, the usual size, and what is above the limit, relative to it.
RATE, NOISE, UNSURE, LARGEST, EXCESS = range(5)
OUTLOOK = 5


class TypedScratch(NamedTuple):
    """What the policy remembers beside the counts."""

    budget: Annotated[Array, 1]  # at the start
    promised: Annotated[Array, "M"]  # the penalty rates to keep
    outlook: Annotated[Array, "M", 5]  # see above
    price: Annotated[Array, "R"]  # of a unit of cost, and of each penalty
    usual: Annotated[Array, "M"]  # the last price of each penalty above 0
    mixing: Annotated[Array, "M"]  # the chance of the lower one of two prices
    pool: Pool
    arms: Arms


@dataclass(frozen=True)
class TypedResolve(Resolve):
    """``resolve`` for requests with types; see :class:`Resolve`."""

    contextual: ClassVar[bool] = True
    Scratch: ClassVar[type] = TypedScratch
    seldom: ClassVar[tuple[str, ...]] = ("arms.more", "pool")
    carried: ClassVar[tuple[str, ...]] = (
        "price",
        "usual",
        "pool.weights",
        "arms.cost",
        "arms.reward",
        "arms.penalty",
    )

    def for_task(self, known: Known) -> Policy:
        """Itself."""
        return self

    def setup(self, task: Task, budget: float) -> Setup:
        """As ``resolve``; the curse is that of K arms. Then K."""
        arms = task.arm_count // max(task.types, 1)
        setup = Resolve.setup(self, task, budget)  # of a guarded policy too
        z, _, least = setup.constants
        constants = (z, curse(arms), least, float(arms))
        return replace(setup, constants=constants, warning=self._no_promise(task.whole))

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Any) -> None:
        """Note the budget; believe of every row what is believed of a new one."""
        scratch.budget[0] = state.remaining[0]
        pool_all(constants, state, scratch.arms, scratch.pool, len(state.limits))

    @classmethod
    def renew(cls, constants: Constants, state: State, scratch: Any) -> None:
        """Believe of every row what the state says."""
        pool_all(constants, state, scratch.arms, scratch.pool, len(state.limits))

    @staticmethod
    def learn(constants: Constants, state: State, scratch: Any, row: int) -> None:
        """Renew the beliefs about the arm just pulled, for all types."""
        learn_row(constants, state, scratch.arms, scratch.pool, row, len(state.limits))

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Any, words: Array) -> int:
        """The row of the best arm for the type of the request."""
        return _choose(constants, state, scratch, words, len(state.limits))

    @classmethod
    def functions(cls, penalties: int | None = None) -> tuple[Callable[..., Any], ...]:
        """All that a kernel compiles of it; a number of limits that it knows is faster."""
        if penalties == 1:
            return (cls.begin, _choose_for_one, _learn_for_one)
        return (cls.begin, cls.choose, cls.learn)


def _choose_for_one(constants: Constants, state: State, scratch: TypedScratch, words: Array) -> int:
    return _choose(constants, state, scratch, words, 1)


def _learn_for_one(constants: Constants, state: State, scratch: TypedScratch, row: int) -> None:
    learn_row(constants, state, scratch.arms, scratch.pool, row, 1)


def _choose(
    constants: Constants, state: State, scratch: TypedScratch, words: Array, limited: int
) -> int:
    """The row of the best arm for the type of the request."""
    kind, count = int(words[WORDS]), int(constants[ARMS])
    look = look_around(constants, state, scratch, words, kind * count, count)
    if look >= 0:
        return look
    noise, arms = noise_left(state, scratch), scratch.arms
    standing = promise(constants, state, scratch, count, limited)
    if standing < 0.0:
        return _least(constants, state, scratch, kind, count, limited)
    first, last = kind * count, (kind + 1) * count
    draw_for_many(constants, state, arms, words[0], noise, limited, first, last)
    find_prices(scratch, count, words, limited)
    row = _affordable(state, scratch, kind, count, limited)
    if not bearable(constants, state, scratch, row, count, limited):
        return best_bearable(constants, state, scratch, kind, count, limited)
    return row


# What is safe to promise.


def promise(
    constants: Constants, state: State, scratch: TypedScratch, count: int, limited: int
) -> float:
    """The penalty rates to keep; negative if it is too late for some limit."""
    arms = scratch.arms
    standing, ahead = math.inf, cost_ahead(state, arms)
    for m in range(limited):
        _look_ahead(state, scratch, m, ahead, count, limited)
        if limited > 1:  # the weights tend to those of the limits that are hardest to keep
            scratch.pool.weights[m] *= math.exp(SHIFT * scratch.outlook[OUTLOOK * m + EXCESS])
        reserve = skewness(constants, scratch.outlook[OUTLOOK * m + LARGEST])
        reserve += pending(constants, state, arms, m)
        outlook = _outlook(scratch, m)
        safe = safe_rate(constants, outlook, reserve, state.remaining[1 + m], ahead)
        scratch.promised[m] = max(safe, LEAST_LIMIT * state.limits[m])
        standing = min(standing, safe)
    if limited > 1:
        _normalise(scratch.pool.weights)
    return standing


def _normalise(weights: Array) -> None:
    """Weights that add up to 1, none of them far below the others."""
    total = 0.0
    for m in range(len(weights)):
        weights[m] = max(weights[m], LEAST_WEIGHT)
        total += weights[m]
    for m in range(len(weights)):
        weights[m] /= total


def _outlook(scratch: TypedScratch, m: int) -> Outlook:
    first, numbers = OUTLOOK * m, scratch.outlook
    return numbers[first + RATE], numbers[first + NOISE], numbers[first + UNSURE]


def _look_ahead(
    state: State, scratch: TypedScratch, m: int, ahead: float, count: int, limited: int
) -> None:
    """What the safest arms of all types do to limit m: the variance between types is noise."""
    arms, pool = scratch.arms, scratch.pool
    requests, types = pool.requests[0], len(arms.cost) // count
    each, more = 1.0 / (requests + 1.0), count / len(pool.seen)  # a type has a share from the start
    cost = penalty = square = noise = unsure = mixed = large = above = 0.0
    for kind in range(types):
        if pool.seen[kind * count] > 0.0 or requests == 0.0:
            row, share = int(pool.safest[kind * count]), (pool.seen[kind * count] + more) * each
            at, mean = row * limited + m, mean_of(arms.cost_scale[row])
            net, paid = arms.rate[at] * mean, share * mean
            cost += paid
            penalty += share * net
            square += share * net * net
            mixed += paid * net
            noise += paid * arms.spread[at]
            known = known_cost(arms.more[MORE * at + KNOWN], ahead * share, count)
            unsure += paid * paid * arms.spread[at] / known
            large = max(large, arms.more[MORE * at + SIZE])
            if limited > 1:
                above += share * excess_over(state, m, arms.rate[at])
    rate, first = penalty / cost, OUTLOOK * m
    between = max(square - 2.0 * rate * mixed + rate * rate * cost, 0.0)
    scratch.outlook[first + RATE] = rate
    scratch.outlook[first + NOISE] = (noise + between) / cost
    scratch.outlook[first + UNSURE] = (unsure + between / (requests + 1.0)) / (cost * cost)
    scratch.outlook[first + LARGEST] = large
    scratch.outlook[first + EXCESS] = min(max(above, -1.0), 1.0)


def _tail(scratch: TypedScratch, row: int, m: int, count: int, limited: int) -> float:
    """The size of penalty m that a row is trusted not to exceed by far.

    Of few penalties the largest are not seen yet, and types have larger ones.
    """
    seen = scratch.pool.pulls[row % count]
    tail = TAIL + (FIRST_TAIL - TAIL) * SEEN / (SEEN + seen)
    return tail * scratch.arms.more[MORE * (row * limited + m) + SIZE]  # type: ignore[no-any-return]


def bearable(
    constants: Constants, state: State, scratch: TypedScratch, row: int, count: int, limited: int
) -> bool:
    """Whether every limit can still be rescued after a large penalty of this row."""
    for m in range(limited):
        size = scratch.outlook[OUTLOOK * m + LARGEST]
        excess = excess_of(constants, _tail(scratch, row, m, count, limited), size)
        if excess > 0.0:
            ahead, allowance = cost_ahead(state, scratch.arms), state.remaining[1 + m]
            reserve = skewness(constants, size) + excess
            reserve += pending(constants, state, scratch.arms, m)
            if not can_rescue(constants, _outlook(scratch, m), reserve, allowance, ahead):
                return False
    return True


def best_bearable(
    constants: Constants, state: State, scratch: TypedScratch, kind: int, count: int, limited: int
) -> int:
    """The best row of a type whose large penalties can be rescued; its safest one if none can."""
    found, most = int(scratch.pool.safest[kind * count]), -math.inf
    for row in range(kind * count, (kind + 1) * count):
        value = _value(scratch, row, limited)
        if value > most and bearable(constants, state, scratch, row, count, limited):
            found, most = row, value
    return found


def _least(
    constants: Constants, state: State, scratch: TypedScratch, kind: int, count: int, limited: int
) -> int:
    """Where it is late: the row with the least hopeful penalties.

    A row of which one large penalty could take much of what is left is not hoped for.
    """
    arms = scratch.arms
    found, least = int(scratch.pool.safest[kind * count]), math.inf
    ahead = cost_ahead(state, arms)
    first, last, apart = kind * count, (kind + 1) * count, len(arms.cost)
    be_hopeful(apart, constants, state, arms, scratch.budget[0], ahead, limited, first, last)
    for row in range(first, last):
        above, fits = -math.inf, True
        for m in range(limited):
            above = max(above, excess_over(state, m, arms.penalty[row * limited + m]))
            large = large_penalty(constants, _tail(scratch, row, m, count, limited))
            left = state.remaining[1 + m]
            if large > HOPED * (left if left > 0.0 else state.limits[m] * ahead):
                fits = False
        if above < least and fits:
            found, least = row, above
    draw_for_many(constants, state, arms, 0, 0.0, limited, first, last)  # what is expected
    return found


# Prices.


def find_prices(scratch: TypedScratch, count: int, words: Array, limited: int) -> None:
    """Prices at which the best arms of all types are expected to incur the promised rates."""
    if limited == 0:
        _excess(scratch, 0, count, limited)  # finds theta
    rounds = 1 if limited == 1 else 3
    for turn in range(rounds):
        for m in range(limited):
            low, high = _bracket(scratch, m, count, limited)
            if turn + 1 == rounds and hashed(words[1], 4 + m) * COIN < scratch.mixing[m]:
                scratch.price[1 + m] = low
            else:
                scratch.price[1 + m] = high


def _bracket(scratch: TypedScratch, m: int, count: int, limited: int) -> tuple[float, float]:
    """Two near prices of penalty m, beside the other prices: below and above the promised rate.

    They are looked for from the last one above 0 on. What is expected jumps between them, from one
    arm of some type to another; ``mixing`` is the chance of the low one with which the rate is met.
    """
    price, at, free = scratch.price, 1 + m, 0.0  # free: what is above the rate at the price 0
    scratch.mixing[m] = 0.0
    if price[at] == 0.0:  # most often it is so again
        free = _excess(scratch, m, count, limited)
        if free <= 0.0:
            return 0.0, 0.0
    low = high = scratch.usual[m] if scratch.usual[m] > 0.0 else 1.0
    price[at], step = high, WIDTH
    above = below = _excess(scratch, m, count, limited)
    for _ in range(STEPS_DOWN):
        if above <= 0.0:
            high, below = low, above
            low, step = low / step, step * step
            price[at] = low
            above = _excess(scratch, m, count, limited)
    if above <= 0.0:
        high, below, low, price[at] = low, above, 0.0, 0.0
        above = free if free > 0.0 else _excess(scratch, m, count, limited)
        if above <= 0.0:
            return 0.0, 0.0
    while below > 0.0 and high < MOST_PRICE:
        low, above = high, below
        high, step = high * step, step * step
        price[at] = high
        below = _excess(scratch, m, count, limited)
    for _ in range(STEPS):
        middle = math.sqrt(low * high) if low > 0.0 else 0.25 * high
        price[at] = middle
        rate = _excess(scratch, m, count, limited)
        if rate <= 0.0:
            high, below = middle, rate
        else:
            low, above = middle, rate
    scratch.usual[m] = high
    if below <= 0.0:
        scratch.mixing[m] = -below / (above - below)
    return low, high


def _excess(scratch: TypedScratch, m: int, count: int, limited: int) -> float:
    """What the best arms at the present prices are expected to incur above the promised rate.

    Also moves theta to the rate of the rest, by one step of Newton's method: theta changes little
    with a price at which the rate is met. Sums are local: compiled code keeps them in registers.
    """
    arms, pool = scratch.arms, scratch.pool
    requests, more = pool.requests[0], count / len(pool.seen)
    cost = penalty = value = 0.0
    for kind in range(len(arms.cost) // count):
        seen = pool.seen[kind * count]
        if seen > 0.0 or requests == 0.0:
            row, worth = best_of_type(scratch, kind, count, limited)
            share = seen + more
            paid = share * mean_of(arms.cost_scale[row])
            cost += paid
            if limited > 0:
                penalty += paid * arms.rate[row * limited + m]
            value += share * worth
    scratch.price[0] += value / cost
    return penalty / cost - scratch.promised[m] if limited > 0 else 0.0


def _affordable(state: State, scratch: TypedScratch, kind: int, count: int, limited: int) -> int:
    """The best row of a type, at the higher price where one pull at the lower is too dear."""
    arms, price = scratch.arms, scratch.price
    row, _ = best_of_type(scratch, kind, count, limited)
    for m in range(limited):
        low = price[1 + m]
        if scratch.mixing[m] > 0.0 and low < scratch.usual[m]:
            price[1 + m] = scratch.usual[m]
            other, _ = best_of_type(scratch, kind, count, limited)
            if other != row:
                above = arms.rate[row * limited + m] - scratch.promised[m]
                spare = _spare(scratch, m, low, cost_ahead(state, arms), count, limited)
                if above * mean_of(arms.cost_scale[row]) > spare:
                    row = other
                else:
                    price[1 + m] = low
    return row


def _spare(
    scratch: TypedScratch, m: int, low: float, ahead: float, count: int, limited: int
) -> float:
    """What the best arms at the present prices leave of allowance m, less a cushion.

    What is left at the end would have earned the ``low`` price; what is short is saved at the next
    price, where a first type changes its arm. The cushion for the noise is a newsvendor's.
    """
    arms, pool, more = scratch.arms, scratch.pool, count / len(scratch.pool.seen)
    cost, penalty, noise, least = 0.0, 0.0, 0.0, MOST_PRICE
    for first in range(0, len(arms.cost), count):
        if pool.seen[first] > 0.0 or pool.requests[0] == 0.0:
            best, worth = best_of_type(scratch, first // count, count, limited)
            at, paid = best * limited + m, mean_of(arms.cost_scale[best])
            paid *= pool.seen[first] + more
            cost += paid
            penalty += paid * arms.rate[at]
            noise += paid * arms.spread[at]
            for row in range(first, first + count):
                less = arms.penalty[at] * arms.cost[best]
                less -= arms.penalty[row * limited + m] * arms.cost[row]
                if row != best and less > 0.0:  # on a GPU, a number minus itself may round above 0
                    least = min(least, (worth - _value(scratch, row, limited)) / less)
    saved = scratch.price[1 + m] + least
    odds = min(0.5 * saved / low, MOST_ODDS) if low > 0.0 else MOST_ODDS
    cushion = math.sqrt(2.0 * math.log(max(odds, 1.0)) * noise * ahead / cost)
    return (scratch.promised[m] - penalty / cost) * ahead - cushion  # type: ignore[no-any-return]


def best_of_type(scratch: TypedScratch, kind: int, count: int, limited: int) -> tuple[int, float]:
    """The row of a type that is best at the present prices, by drawn means; what it is worth."""
    found, most = kind * count, -math.inf
    for row in range(kind * count, (kind + 1) * count):
        value = _value(scratch, row, limited)
        if value > most:
            found, most = row, value
    return found, most


def _value(scratch: TypedScratch, row: int, limited: int) -> float:
    """What a pull of a row is worth at the present prices, by drawn means."""
    arms, price = scratch.arms, scratch.price
    value = arms.reward[row] - price[0]
    for m in range(limited):
        value -= price[1 + m] * (arms.penalty[row * limited + m] - scratch.promised[m])
    return value * arms.cost[row]  # type: ignore[no-any-return]
