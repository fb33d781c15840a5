"""The guard: other arms are pulled only where the safe one can still keep every limit.

One arm is *safe*: its mean penalty is at most ``rate`` times its mean cost, for every limit. With
b of the budget and a of a limit's allowance left, each tilt lambda gives a bound on the chance that
the limit is broken at the end if nothing but the safe arm is pulled from here on:

    U = exp(kappa (b + 1) - lambda a),     kappa = -log(1 - rate (e^lambda - 1))

The guard takes the least over a few tilts. It pulls the safe arm until U is at most half of the
risk that was asked for; then the promise is *made*, with W equal to the risk, and U <= W from then
on: another arm may be pulled if its worst outcome, a penalty of 1 for nothing, leaves U below W.
Such a pull leaves W as it is. A pull of the safe arm moves W by what it moves U, for the tilt that
was best before it; that is at most 0 on average. So W never rises on average, and a run that ends
with a broken limit ends with W >= U >= 1: it has at most the chance that was asked for. A limit
whose rate is not declared spends half of its risk on learning the rate.

``docs/promises.md`` has the theorem and its proof. Everything is in normalised units. Letters: M
limits.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from tightrope.policies.state import Array, State
from tightrope.problem import Task

__all__ = [
    "Guard",
    "allows",
    "chance_allowed",
    "chance_of_breaking",
    "constants_of",
    "move_budget",
    "open_guard",
    "rate_at_least",
    "rate_at_most",
    "settle",
]

TILTS = 10  # lambda: how many
LEARN_TILTS = 7  # of the mixture that learns a rate: theta = 0.05, 0.1, ... 3.2
FIRST_LEARN_TILT = 0.05
STEEPEST = 20.0  # lambda at most
NEVER = 1e30  # kappa where a tilt is too steep for the rate
HALVINGS = 50
RENEWAL = 1.1  # a rate is learnt anew when so many times the cost was seen
NOT_DECLARED = -1.0


class Guard(NamedTuple):
    """What the guard remembers of a run."""

    safe: Annotated[Array, 1]  # the arm
    left: Annotated[Array, "R"]  # of the budget and of each allowance, when last settled
    risk: Annotated[Array, "M"]  # W when the promise is made
    made: Annotated[Array, "M"]  # whether it is
    spare: Annotated[Array, "M"]  # W - U since then
    others: Annotated[Array, 1]  # pulls of other arms
    rate: Annotated[Array, "M"]  # an upper bound on the safe arm's penalty rate
    doubt: Annotated[Array, "M"]  # the chance that a learnt rate is wrong; 0 where it is declared
    cost: Annotated[Array, 1]  # of the safe arm
    penalty: Annotated[Array, "M"]  # of the safe arm
    renewal: Annotated[Array, 1]  # its cost at which its rates are learnt anew
    tilt: Annotated[Array, "M", TILTS]  # lambda, rising
    price: Annotated[Array, "M", TILTS]  # kappa


def constants_of(task: Task, risk: float) -> tuple[float, ...]:
    """What :func:`open_guard` needs: the risk, the safe arm, its declared rates [M] or -1."""
    declared = zip(task.limit_names, task.normal_safe_rates.tolist(), strict=True)
    rates = [rate if name in task.safe_rates else NOT_DECLARED for name, rate in declared]
    return (risk, float(task.safe_arm or 0), *rates)


def open_guard(constants: tuple[float, ...], state: State, guard: Guard) -> None:
    """At the start of a run; ``constants`` end with those of :func:`constants_of`, and a 0."""
    limited = len(guard.rate)
    first = len(constants) - 3 - limited
    risk = constants[first] / max(limited, 1)
    guard.safe[0] = constants[first + 1]
    guard.renewal[0] = 1.0
    for m in range(1 + limited):
        guard.left[m] = state.remaining[m]
    for m in range(limited):
        declared, budget = constants[first + 2 + m], state.remaining[0]
        limit = state.remaining[1 + m] / budget
        known = declared >= 0.0
        guard.rate[m] = declared if known else limit
        guard.doubt[m] = 0.0 if known else 0.5 * risk
        guard.risk[m] = risk - guard.doubt[m]
        _lay_tilts(guard, m, limit, budget, known)
        _set_prices(guard, m)
        _promise(guard, m)


def _promise(guard: Guard, m: int) -> None:
    """Make the promise for limit m, if it can be made."""
    now = chance_of_breaking(guard, m, guard.left[0], guard.left[1 + m])
    if now <= 0.5 * guard.risk[m]:
        guard.made[m] = 1.0
        guard.spare[m] = guard.risk[m] - now


def _lay_tilts(guard: Guard, m: int, limit: float, budget: float, known: bool) -> None:
    """Tilts for limit m, each the same factor above the one before.

    From the one that is best for all of the budget (the root of kappa = limit lambda, over 3, or
    two deviations) to the one for its last pulls.
    """
    rate = max(guard.rate[m], 1e-9)
    steepest = min(0.9 * math.log1p((1.0 if known else 8.0) / rate), STEEPEST)
    least = 2.0 / math.sqrt((rate + rate * rate) * budget)
    if known:
        least = max(least, root_tilt(rate, limit) / 3.0)
    least = min(least, 0.25 * steepest)
    factor = (steepest / least) ** (1.0 / (TILTS - 1))
    for j in range(TILTS):
        guard.tilt[m * TILTS + j] = least * factor**j


def root_tilt(rate: float, limit: float) -> float:
    """The largest lambda with kappa(lambda) <= limit lambda; 0 if the rate is not below it."""
    low, high = 0.0, math.log1p(1.0 / rate)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        fits = price_of(rate, middle) <= limit * middle
        low, high = (middle, high) if fits else (low, middle)
    return low


def price_of(rate: float, tilt: float) -> float:
    """The kappa with which E exp(lambda Y - kappa X) <= 1: -log(1 - rate (e^lambda - 1))."""
    grown = rate * math.expm1(tilt)
    return -math.log1p(-grown) if grown < 1.0 else NEVER


def _set_prices(guard: Guard, m: int) -> None:
    for j in range(m * TILTS, (m + 1) * TILTS):
        guard.price[j] = price_of(guard.rate[m], guard.tilt[j])


def _bounded(exponent: float) -> float:
    """U from its logarithm, at most 1."""
    return math.exp(exponent) if exponent < 0.0 else 1.0


def _least_after(
    guard: Guard, m: int, budget: float, allowance: float, penalty: float
) -> tuple[float, float]:
    """The log of U of limit m now, and after a penalty for nothing; each for its best tilt."""
    now = after = 2.0 * NEVER * (budget + 2.0)
    for j in range(m * TILTS, (m + 1) * TILTS):
        value = guard.price[j] * (budget + 1.0) - guard.tilt[j] * allowance
        now, after = min(now, value), min(after, value + guard.tilt[j] * penalty)
    return now, after


def chance_of_breaking(guard: Guard, m: int, budget: float, allowance: float) -> float:
    """U: a bound on the chance of breaking limit m if only the safe arm is pulled; at most 1."""
    return _bounded(_least_after(guard, m, budget, allowance, 1.0)[0])


def chance_allowed(guard: Guard, m: int, budget: float, allowance: float) -> float:
    """A bound on the chance of breaking limit m if the guard goes on from here; at most 1.

    It is W once the promise is made; before, U and what may be promised later.
    """
    more = guard.spare[m] if guard.made[m] > 0.0 else guard.risk[m]
    return min(chance_of_breaking(guard, m, budget, allowance) + more, 1.0)  # type: ignore[no-any-return]


def allows(guard: Guard, others: float) -> bool:
    """Whether an arm that is not the safe one may be pulled, with ``others`` of such in flight.

    Of W it uses the part 1 / sqrt(1 + b) and leaves the rest for later: who stays at the edge for
    long would soon have nothing left. Pulls in flight count as the worst outcome, a penalty of 1
    for nothing; those of the safe arm do not count, as W does not rise by them on average.
    """
    budget = max(guard.left[0], 0.0)
    part = 1.0 / math.sqrt(1.0 + budget)
    for m in range(len(guard.rate)):
        now, after = _least_after(guard, m, budget, guard.left[1 + m], 1.0 + others)
        whole = guard.spare[m] + _bounded(now)
        if guard.made[m] == 0.0 or after >= 0.0 or math.exp(after) > part * whole:
            return False
    return True


def settle(guard: Guard, state: State, row: int) -> None:
    """Take note of a pull of ``arm``, after its outcomes were counted."""
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
                _learn_rate(guard, m)
    for m in range(limited):
        if guard.made[m] == 0.0:
            _promise(guard, m)


def move_budget(guard: Guard, state: State) -> None:
    """Take note of another budget: W stays, if it covers the new U.

    Otherwise the promise is no longer made: it is made anew, for the risk that was asked for, as
    soon as the safe arm can keep it.
    """
    for m in range(len(guard.rate)):
        whole = guard.spare[m] + chance_of_breaking(guard, m, guard.left[0], guard.left[1 + m])
        now = chance_of_breaking(guard, m, state.remaining[0], state.remaining[1 + m])
        kept = guard.made[m] > 0.0 and now <= whole and now < 1.0
        guard.made[m], guard.spare[m] = (1.0, whole - now) if kept else (0.0, 0.0)
    for m in range(1 + len(guard.rate)):
        guard.left[m] = state.remaining[m]
    for m in range(len(guard.rate)):
        if guard.made[m] == 0.0:
            _promise(guard, m)


def _settle_limit(guard: Guard, state: State, m: int, safe: bool) -> None:
    """What a pull makes of W - U: for the safe arm, what the best tilt gains on the one before."""
    had, spent = guard.left[0] + 1.0, state.remaining[0] + 1.0
    before = now = 2.0 * NEVER * (had + 1.0)
    kept = 0.0  # the tilt that was best before, now
    for j in range(m * TILTS, (m + 1) * TILTS):
        price, tilt = guard.price[j], guard.tilt[j]
        old = price * had - tilt * guard.left[1 + m]
        new = price * spent - tilt * state.remaining[1 + m]
        if old < before:
            before, kept = old, new
        now = min(now, new)
    whole = _bounded(kept if safe else before)
    guard.spare[m] += whole - _bounded(now)


def _learn_rate(guard: Guard, m: int) -> None:
    """Lower the bound on the safe arm's rate, and with it U; W stays."""
    rate = rate_at_most(guard.cost[0], guard.penalty[m], guard.doubt[m], guard.rate[m])
    if rate < guard.rate[m]:
        for sign in (1.0, -1.0):  # before and after
            now = chance_of_breaking(guard, m, guard.left[0], guard.left[1 + m])
            if guard.made[m] > 0.0:
                guard.spare[m] += sign * now
            guard.rate[m] = rate
            _set_prices(guard, m)


# What an arm's totals say about its penalty rate, at any time, whatever was pulled when.


def rate_at_most(cost: float, penalty: float, doubt: float, most: float) -> float:
    """An upper bound on an arm's rate from its totals, at most ``most``.

    It holds at all times at once but for a chance of ``doubt``.
    """
    if _evidence(cost, penalty, most, -1.0) * doubt < 1.0:
        return most
    low, high = 0.0, most  # the evidence against a rate grows with it
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        ruled_out = _evidence(cost, penalty, middle, -1.0) * doubt >= 1.0
        low, high = (low, middle) if ruled_out else (middle, high)
    return high


def _evidence(cost: float, penalty: float, rate: float, side: float) -> float:
    """A mixture of exp(theta S_Y - kappa(theta) S_X): against this rate or less.

    With ``side`` -1, and so -theta, it is against this rate or more. Each has mean 1 at most at any
    time if the arm's rate is such.
    """
    total, theta = 0.0, side * FIRST_LEARN_TILT
    for _ in range(LEARN_TILTS):
        price = price_of(rate, theta)
        if price < NEVER:
            total += math.exp(min(theta * penalty - price * cost, 600.0))
        theta *= 2.0
    return total / LEARN_TILTS


def rate_at_least(cost: float, penalty: float, doubt: float) -> float:
    """A lower bound on an arm's rate, likewise."""
    if penalty <= 0.0:
        return 0.0
    low, high = 0.0, penalty / max(cost, 1e-300)  # the evidence against a rate falls with it
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        ruled_out = _evidence(cost, penalty, middle, 1.0) * doubt >= 1.0
        low, high = (middle, high) if ruled_out else (low, middle)
    return low
