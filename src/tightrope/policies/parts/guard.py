"""The guard: other arms are pulled only if the safe arm can still keep every limit.

One arm is *safe*: for every limit, its mean penalty is at most ``rate`` times the mean of the
limit's base. With a remaining budget b and a remaining allowance a of a limit, each tilt lambda
gives a bound on the chance that the limit is broken at the end if only the safe arm is pulled from
now on:

    U = exp(kappa (b + 1) - lambda a),     kappa = -log(1 - rate (e^lambda - 1))

For a limit of c per pull or per reward, with the slack s = c base - penalty so far and x the
largest cost of a pull of the safe arm:

    U = exp(-lambda s - (lambda c - kappa) (b - x)^+ / x),   kappa = log(1 + rate (e^lambda - 1))
    U = exp(-lambda s),                                      with tilts for which kappa <= lambda c

The guard takes the minimum over a few tilts. It pulls the safe arm until U is at most half of the
requested risk. Then the promise is *made*, with W equal to the risk, and U <= W from then on:
another arm may be pulled if its worst outcome, a penalty of 1 without reward (and the largest cost
if the limit is per pull), leaves U below W. Such a pull does not change W. A pull of the safe arm
changes W by the change of U for the tilt that was best before it, which is at most 0 on average. So
W never rises on average, and a run that ends with a broken limit ends with W >= U >= 1; the chance
of this is at most the risk. A limit without a declared rate spends half of its risk on learning the
rate.

``docs/promises.md`` has the theorem and its proof. Everything is in normalised units. Letters: M
limits.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from tightrope.policies.state import Array, State
from tightrope.problem import Task

TILTS = 10  # lambda: how many
LEARN_TILTS = 7  # of the mixture that learns a rate: theta = 0.05, 0.1, ... 3.2
FIRST_LEARN_TILT = 0.05
STEEPEST = 20.0  # lambda at most
LEAST = 1e-9  # instead of a rate, a tilt or a cost of 0
BELOW = 1.0 - 1e-9  # so that rounding leaves a tilt below its root
NEVER = 1e30  # kappa if a tilt is too steep for the rate
HALVINGS = 50
RENEWAL = 1.1  # a rate is learnt again when the cost has grown by this factor
NOT_DECLARED = -1.0


class Guard(NamedTuple):
    """The guard's memory of a run."""

    safe: Annotated[Array, 1]  # the arm
    left: Annotated[Array, "R"]  # of the budget and of each allowance, when last settled
    risk: Annotated[Array, "M"]  # the risk: W when the promise is made
    made: Annotated[Array, "M"]  # whether the promise is made
    spare: Annotated[Array, "M"]  # W - U since then
    others: Annotated[Array, 1]  # pulls of other arms
    rate: Annotated[Array, "M"]  # an upper bound on the safe arm's penalty rate
    doubt: Annotated[Array, "M"]  # the chance that a learnt rate is wrong; 0 if it is declared
    cost: Annotated[Array, 1]  # of the safe arm
    penalty: Annotated[Array, "M"]  # of the safe arm: net ones, see ``State``
    renewal: Annotated[Array, 1]  # its cost at which its rates are learnt again
    tilt: Annotated[Array, "M", TILTS]  # lambda, rising
    price: Annotated[Array, "M", TILTS]  # of what is ahead: kappa, or kappa - lambda c if per pull


def constants_of(task: Task, risk: float) -> tuple[float, ...]:
    """The guard's own: the risk, the safe arm, its declared rates [M] or -1, the largest cost."""
    known = np.nan_to_num(task.known_safe_rates, nan=NOT_DECLARED)
    declared = [name in task.safe_rates for name in task.limit_names]
    rates = np.where(declared, task.normal_safe_rates, known).tolist()
    costs = task.normal_known[:, 0]
    largest = 1.0 if costs.min() < 0.0 else float(costs.max())
    return (risk, float(task.safe_arm or 0), *rates, largest)


def largest_cost(constants: tuple[float, ...]) -> float:
    """The largest cost of a pull, from constants that end with the guard's and a 0."""
    return constants[len(constants) - 2]


def open_guard(constants: tuple[float, ...], state: State, guard: Guard) -> None:
    """Start a run; ``constants`` end with those of :func:`constants_of` and a 0."""
    limited = len(guard.rate)
    first = len(constants) - 4 - limited
    risk = constants[first] / max(limited, 1)
    guard.safe[0] = constants[first + 1]
    guard.renewal[0] = 1.0
    for m in range(1 + limited):
        guard.left[m] = state.remaining[m]
    for m in range(limited):
        declared = constants[first + 2 + m]
        known = declared >= 0.0
        guard.rate[m] = declared if known else _limit_of(state, m)
        guard.doubt[m] = 0.0 if known else 0.5 * risk
        guard.risk[m] = risk - guard.doubt[m]
        _lay_tilts(guard, state, m, known)
        _set_prices(guard, state, m)
        _promise(guard, state, m)


def _promise(guard: Guard, state: State, m: int) -> None:
    """Make the promise for limit m, if it can be made."""
    now = chance_of_breaking(guard, state, m)
    if now <= 0.5 * guard.risk[m]:
        guard.made[m] = 1.0
        guard.spare[m] = guard.risk[m] - now


# The base of a limit in ``bases`` of a state: 0 for cost, above 0 for pulls, below 0 for reward.


def _limit_of(state: State, m: int) -> float:
    """Limit m, normalised, per unit of its base."""
    base = state.bases[m]
    return state.limits[m] * (1.0 if base == 0.0 else abs(base))  # type: ignore[no-any-return]


def _safe_cost(guard: Guard, state: State) -> float:
    """The largest cost of a pull of the safe arm, normalised."""
    known = state.known[int(guard.safe[0]) * (len(state.remaining) + 1)]
    return max(known, LEAST) if known >= 0.0 else 1.0


def _open_ended(guard: Guard, state: State, m: int) -> bool:
    """Whether the amount ahead has no upper bound: tilts above the root are then useless."""
    known = state.known[int(guard.safe[0]) * (len(state.remaining) + 1)]
    return state.bases[m] < 0.0 or (state.bases[m] > 0.0 and known <= 0.0)  # type: ignore[no-any-return]


def _ahead(
    guard: Guard, state: State, m: int, budget: float, allowance: float
) -> tuple[float, float, float]:
    """Bounds on what is ahead for limit m, and the slack, for the remaining budget.

    Ahead is the cost, including that of the last pull; for a limit per pull, the pulls of the safe
    arm; per reward it is unknown. If the base is not the cost, the slack is c base - penalty so
    far.
    """
    base = state.bases[m]
    if base == 0.0:
        return budget + 1.0, budget + 1.0, allowance
    slack = allowance - state.limits[m] * budget
    if base < 0.0:
        return 0.0, 1.0, slack
    cost = _safe_cost(guard, state)
    return max(budget - cost, 0.0) / cost, max(budget / cost + 1.0, 0.0), slack


def _worst(
    guard: Guard, state: State, m: int, others: float, largest: float, least: float
) -> tuple[float, float]:
    """The least ahead, and the loss of slack, after the worst outcomes of ``others`` pulls.

    The worst is a penalty of 1 without reward; for a limit per pull also the ``largest`` cost.
    """
    if state.bases[m] <= 0.0:
        return least, others
    cost = _safe_cost(guard, state)
    after = max(guard.left[0] - others * largest - cost, 0.0) / cost
    return after, others * (1.0 - _limit_of(state, m))


def _cumulant(base: float, rate: float, tilt: float) -> float:
    """The kappa of a tilt: with E exp(lambda Y) <= e^kappa per pull, otherwise see ``price_of``."""
    if base > 0.0:
        return math.log1p(max(rate * math.expm1(tilt), LEAST - 1.0))
    return price_of(rate, tilt)


def price_of(rate: float, tilt: float) -> float:
    """The kappa with which E exp(lambda Y - kappa X) <= 1: -log(1 - rate (e^lambda - 1))."""
    grown = rate * math.expm1(tilt)
    return -math.log1p(-grown) if grown < 1.0 else NEVER


def root_tilt(base: float, rate: float, limit: float) -> float:
    """The largest lambda with kappa(lambda) <= limit lambda; 0 if the rate is not below it."""
    low, high = 0.0, math.log1p(1.0 / rate)
    if base > 0.0:
        high = STEEPEST
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        fits = _cumulant(base, rate, middle) <= limit * middle
        low, high = (middle, high) if fits else (low, middle)
    return low


def _lay_tilts(guard: Guard, state: State, m: int, known: bool) -> None:
    """Tilts for limit m, each the same factor above the one before.

    The first is best for the whole budget (the root of kappa = limit lambda, over 3, or two
    deviations), the last for its last pulls. The last is the root if their number is unknown: per
    reward, or per pull with an unknown cost.
    """
    base, limit, rate = state.bases[m], _limit_of(state, m), max(guard.rate[m], LEAST)
    steepest = min(0.9 * math.log1p((1.0 if known else 8.0) / rate), STEEPEST)
    length = guard.left[0]
    if base != 0.0:  # computed again on the way
        length = max(length / _safe_cost(guard, state), 1.0)
    least = 2.0 / math.sqrt((rate + rate * rate) * length)
    if known:
        root = root_tilt(base, rate, limit)
        least = max(least, root / 3.0)
        if _open_ended(guard, state, m):
            steepest = max(min(steepest, BELOW * root), LEAST)
    least = min(least, 0.25 * steepest)
    factor = (steepest / least) ** (1.0 / (TILTS - 1))
    for j in range(TILTS):
        guard.tilt[m * TILTS + j] = least * factor**j


def _set_prices(guard: Guard, state: State, m: int) -> None:
    base, limit = state.bases[m], _limit_of(state, m)
    for j in range(m * TILTS, (m + 1) * TILTS):
        tilt = guard.tilt[j]
        price = _cumulant(base, guard.rate[m], tilt)
        if base != 0.0:
            price -= limit * tilt
            if price > 0.0 and _open_ended(guard, state, m):
                price = NEVER
            elif base < 0.0:
                price = 0.0
        guard.price[j] = price


def _bounded(exponent: float) -> float:
    """U from its logarithm, at most 1."""
    return math.exp(exponent) if exponent < 0.0 else 1.0


def _log_chance(price: float, tilt: float, least: float, most: float, slack: float) -> float:
    """The log of U for one tilt: the worse of both bounds on what is ahead."""
    return price * (most if price > 0.0 else least) - tilt * slack


def chance_of_breaking(guard: Guard, state: State, m: int) -> float:
    """U: a bound on the chance of breaking limit m if only the safe arm is pulled; at most 1."""
    return _chance_at(guard, state, m, guard.left[0], guard.left[1 + m])


def _chance_at(guard: Guard, state: State, m: int, budget: float, allowance: float) -> float:
    """U for this remaining budget."""
    least, most, slack = _ahead(guard, state, m, budget, allowance)
    now = 2.0 * NEVER * (most + 1.0)
    for j in range(m * TILTS, (m + 1) * TILTS):
        now = min(now, _log_chance(guard.price[j], guard.tilt[j], least, most, slack))
    return _bounded(now)


def chance_allowed(guard: Guard, state: State, m: int) -> float:
    """A bound on the chance of breaking limit m if the guard continues; at most 1.

    W once the promise is made; before that, U plus the risk of a later promise.
    """
    more = guard.spare[m] if guard.made[m] > 0.0 else guard.risk[m]
    return min(chance_of_breaking(guard, state, m) + more, 1.0)  # type: ignore[no-any-return]


def allows(guard: Guard, state: State, others: float, largest: float) -> bool:
    """Whether an arm other than the safe one may be pulled, with ``others`` such pulls in flight.

    ``largest``: the largest cost of a pull. It uses the share 1 / sqrt(1 + b) of W and leaves the
    rest for later; a guard that stays at the edge would soon exhaust W. Pulls in flight count with
    their worst outcome. Those of the safe arm do not count, because they do not raise W on average.
    """
    budget = max(guard.left[0], 0.0)
    part = 1.0 / math.sqrt(1.0 + budget)
    for m in range(len(guard.rate)):
        if guard.made[m] == 0.0:
            return False
        least, most, slack = _ahead(guard, state, m, budget, guard.left[1 + m])
        fewer, lost = _worst(guard, state, m, 1.0 + others, largest, least)
        now = after = 2.0 * NEVER * (most + 1.0)
        for j in range(m * TILTS, (m + 1) * TILTS):
            price, tilt = guard.price[j], guard.tilt[j]
            now = min(now, _log_chance(price, tilt, least, most, slack))
            after = min(after, _log_chance(price, tilt, fewer, most, slack) + tilt * lost)
        if after >= 0.0 or math.exp(after) > part * (guard.spare[m] + _bounded(now)):
            return False
    return True


def settle(guard: Guard, state: State, row: int) -> None:
    """Record a pull of ``arm``, after its outcomes were counted."""
    limited, safe = len(guard.rate), row == int(guard.safe[0])
    for m in range(limited):
        if safe:
            guard.penalty[m] += guard.left[1 + m] - state.remaining[1 + m]
        if guard.made[m] > 0.0:
            _settle_limit(guard, state, m, safe)
    if safe:
        guard.cost[0] += guard.left[0] - state.remaining[0]
    else:
        guard.others[0] += 1.0
    for m in range(1 + limited):
        guard.left[m] = state.remaining[m]
    if guard.cost[0] >= guard.renewal[0]:
        guard.renewal[0] = RENEWAL * guard.cost[0] + 1.0
        for m in range(limited):
            if guard.doubt[m] > 0.0:
                _learn_rate(guard, state, m)
    for m in range(limited):
        if guard.made[m] == 0.0:
            _promise(guard, state, m)


def _settle_limit(guard: Guard, state: State, m: int, safe: bool) -> None:
    """Update W - U after a pull: for the safe arm, by the gain of the best tilt on the last one.

    A pull that the guard did not allow may leave U above W: then the promise ends.
    """
    had, at_most, slack = _ahead(guard, state, m, guard.left[0], guard.left[1 + m])
    has, has_most, slack_now = _ahead(guard, state, m, state.remaining[0], state.remaining[1 + m])
    before = now = 2.0 * NEVER * (at_most + 1.0)
    kept = 0.0  # the tilt that was best before, now
    for j in range(m * TILTS, (m + 1) * TILTS):
        price, tilt = guard.price[j], guard.tilt[j]
        old = _log_chance(price, tilt, had, at_most, slack)
        new = _log_chance(price, tilt, has, has_most, slack_now)
        if old < before:
            before, kept = old, new
        now = min(now, new)
    whole = _bounded(kept if safe else before)
    guard.spare[m] += whole - _bounded(now)
    if guard.spare[m] < 0.0:
        guard.made[m] = guard.spare[m] = 0.0


def move(guard: Guard, before: State, state: State) -> None:
    """Record a change of money or prices without a pull: W stays if it covers the new U.

    Otherwise the promise ends. It is made again, for the requested risk, as soon as the safe arm
    can keep it.
    """
    for m in range(len(guard.rate)):
        old = chance_of_breaking(guard, before, m)
        now = _chance_at(guard, state, m, state.remaining[0], state.remaining[1 + m])
        whole = guard.spare[m] + old
        kept = guard.made[m] > 0.0 and now <= whole and now < 1.0
        if now != old or not kept:
            guard.made[m], guard.spare[m] = (1.0, whole - now) if kept else (0.0, 0.0)
    for m in range(1 + len(guard.rate)):
        guard.left[m] = state.remaining[m]
    for m in range(len(guard.rate)):
        if guard.made[m] == 0.0:
            _promise(guard, state, m)


def _learn_rate(guard: Guard, state: State, m: int) -> None:
    """Lower the bound on the safe arm's rate, and with it U; W stays."""
    amount, penalty = guard.cost[0], guard.penalty[m]
    base, row = state.bases[m], int(guard.safe[0])
    if base != 0.0:
        first = row * (len(state.remaining) + 1)
        amount = state.pulls[row] if base > 0.0 else state.totals[first + 1]
        penalty = state.totals[first + 2 + m]
    rate = rate_at_most(base, amount, penalty, guard.doubt[m], guard.rate[m])
    if rate < guard.rate[m]:
        before = chance_of_breaking(guard, state, m)
        guard.rate[m] = rate
        if base != 0.0 and guard.made[m] == 0.0:
            _lay_tilts(guard, state, m, True)
        _set_prices(guard, state, m)
        if guard.made[m] > 0.0:
            guard.spare[m] += before
            guard.spare[m] -= chance_of_breaking(guard, state, m)


# Bounds on an arm's penalty rate from its totals, valid at any time and for any pulls.


def rate_at_most(base: float, amount: float, penalty: float, doubt: float, most: float) -> float:
    """An upper bound on an arm's rate from its totals, at most ``most``.

    ``base``: the base of the rate, as in a state; ``amount``: the arm's total of it. The bound
    holds at all times at once, except for a chance of ``doubt``.
    """
    if _evidence(base, amount, penalty, most, -1.0) * doubt < 1.0:
        return most
    low, high = 0.0, most  # the evidence against a rate grows with it
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        ruled_out = _evidence(base, amount, penalty, middle, -1.0) * doubt >= 1.0
        low, high = (low, middle) if ruled_out else (middle, high)
    return high


def _evidence(base: float, amount: float, penalty: float, rate: float, side: float) -> float:
    """A mixture of exp(theta S_Y - kappa(theta) S_X): against this rate or less.

    With ``side`` -1, and so -theta, it is against this rate or more. Each has mean 1 at most at any
    time if the arm's rate is such.
    """
    total, theta = 0.0, side * FIRST_LEARN_TILT
    for _ in range(LEARN_TILTS):
        price = _cumulant(base, rate, theta)
        if price < NEVER:
            total += math.exp(min(theta * penalty - price * amount, 600.0))
        theta *= 2.0
    return total / LEARN_TILTS


def rate_at_least(base: float, amount: float, penalty: float, doubt: float) -> float:
    """A lower bound on an arm's rate, likewise."""
    if penalty <= 0.0:
        return 0.0
    low, high = 0.0, penalty / max(amount, 1e-300)  # the evidence against a rate falls with it
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        ruled_out = _evidence(base, amount, penalty, middle, 1.0) * doubt >= 1.0
        low, high = (middle, high) if ruled_out else (low, middle)
    return low
