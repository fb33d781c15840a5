"""resolve for requests with features: what runs in its place where a task has feature vectors.

A step, for a request with columns x, with a budget b and allowances a_m left:

1. every few steps, find the arm that is safest for the average request by cautious estimates; what
   it would incur over the rest of the budget gives the penalty rates q_m that are safe to promise,
   as in ``resolve``;
2. then draw every arm's average outcomes from what is believed, and find prices over a window of
   recent requests: theta of a unit of cost, lambda_m of a unit of penalty m above q_m, at which the
   best arms by drawn outcomes are expected to incur the rates q_m;
3. take the arm with the largest R - theta X - sum_m lambda_m (Y_m - q_m X), where the outcomes are
   those of linear models for x (``parts.linear``), moved by the draw;
4. pull it if the safest arm could rescue every limit afterwards. If not, look again at 1, and pull
   the best arm that is sure to keep the rates and could be rescued; if there is none, the safest.

The rates come from what was really spent, so that a wrong model costs reward, not the limit.
Letters as in ``parts.linear``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, NamedTuple

from tightrope.policies.base import Constants, Policy, Setup, net_penalty
from tightrope.policies.choice import hashed
from tightrope.policies.parts.beliefs import (
    CELLS,
    COIN,
    KAPPA,
    KNOWN,
    MORE,
    NORMAL,
    NOT_NEGATIVE,
    SIZE,
    Arms,
    look_at_all,
    renew,
)
from tightrope.policies.parts.linear import (
    RECENT,
    SEEN,
    Models,
    columns_of,
    expect,
    is_learned,
    predict,
    standardise,
    usual_outcome,
)
from tightrope.policies.parts.matrices import total
from tightrope.policies.parts.pooling import excess_over, safest_of
from tightrope.policies.parts.regression import begin_models, learn_report
from tightrope.policies.parts.rescue import (
    Outlook,
    can_rescue,
    cost_ahead,
    excess_of,
    known_cost,
    pending,
    plausible_rate,
    safe_rate,
    size_of,
    skewness,
)
from tightrope.policies.resolve import (
    LEAST_LIMIT,
    WIDE,
    WIDER,
    Resolve,
    look_around,
)
from tightrope.policies.state import Array, State
from tightrope.problem import Known, Task

# Places in the constants: features; types; 1 where all costs are known and equal.
FEATURES, TYPES, EQUAL = 3, 4, 5
EVERY, EARLY = 16.0, 16.0  # steps between two draws, each with its prices; fewer in early steps
LONG = 256.0  # of the steps so far, or of the budget left, one in so many is between two draws
TRIES = 60  # to find a price
CLOSE, NEAR = 1.02, 0.98  # the price found, over one that does not keep the rate; or its rate
MOST_STEP, AWAY = 4.0, 0.2  # of the first step to a price; from the ends of an interval
LEAST_PRICE, MOST_PRICE = 1e-9, 1e12
SHIFT, LEAST_WEIGHT = 0.05, 1e-3  # of the limits' weights


class FeaturedScratch(NamedTuple):
    """What the policy remembers beside the counts."""

    budget: Annotated[Array, 1]  # at the start
    promised: Annotated[Array, "M"]  # the penalty rates to keep
    outlook: Annotated[Array, "M", 3]  # of the safest arm, see ``Outlook``
    weights: Annotated[Array, "M"]  # of the limits, where an arm is safest for several together
    price: Annotated[Array, "R"]  # of a unit of cost, and of each penalty
    solved: Annotated[Array, 1]  # when prices were found: a step, from 1; 0 for never
    safest: Annotated[Array, 1]  # the arm that was safest then
    fresh: Annotated[Array, 1]  # 0 if the window's expectations must be computed again
    worth: Annotated[Array, "C"]  # of a unit of each channel, at the prices
    best: Annotated[Array, 256]  # value of the best arm of each request of the window
    taken: Annotated[Array, 2, 256]  # its cost, and its penalty of the limit whose price is sought
    rest: Annotated[Array, "K", 256]  # value of every arm without these two
    expected: Annotated[Array, "K", "C"]  # for the request: cost, reward, net penalties
    penalty: Annotated[Array, "K", "M"]  # the penalties
    drawn: Annotated[Array, "K", "C"]  # differences from the expected outcomes of an arm
    arms: Arms  # beliefs about arms without a look at features
    models: Models


@dataclass(frozen=True)
class FeaturedResolve(Resolve):
    """``resolve`` for requests with features; see :class:`Resolve`."""

    contextual: ClassVar[bool] = True
    Scratch: ClassVar[type] = FeaturedScratch
    short: ClassVar[bool] = False
    seldom: ClassVar[tuple[str, ...]] = ()
    carried: ClassVar[tuple[str, ...]] = (
        *("price", "solved", "drawn", "weights", "promised", "outlook", "safest"),
    )
    learned: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            (
                *("models.context", "models.here", "models.centre", "models.unit"),
                *("models.ridge", "models.common", "models.pulls", "models.gram"),
                *("models.waiting", "models.weights", "models.count"),
                *("models.factors", "models.doubt", "models.due", "models.clock", "models.recent"),
            ),
            "",
        ),
        **dict.fromkeys(("models.totals", "models.moments", "models.slopes"), "outcomes"),
        **dict.fromkeys(("models.told", "models.usual"), "outcomes"),
        **dict.fromkeys(("models.squares", "models.noise"), "squares"),
    }

    def for_task(self, known: Known) -> Policy:
        """Itself."""
        return self

    def setup(self, task: Task, budget: float) -> Setup:
        """As ``resolve``; then how many types a request may have, and whether costs are equal."""
        setup = super().setup(task, budget)
        costs = task.known_outcomes[:, 0]
        equal = not math.isnan(costs[0]) and bool((costs == costs[0]).all())
        warning = setup.warning
        if self.risk is not None and task.safe is not None:
            warning = (
                f"policy resolve: the safe arm {task.safe!r} is not used for requests with"
                f" features, so risk = {self.risk:g} is a target and not a promise"
            )
        sizes = columns_of(task)
        return replace(setup, constants=(*setup.constants, *sizes, float(equal)), warning=warning)

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Any) -> None:
        """Note the budget; models without reports."""
        scratch.budget[0], scratch.fresh[0] = state.remaining[0], 1.0
        for m in range(len(state.limits)):
            scratch.weights[m] = 1.0 / len(state.limits)
        begin_models(state, scratch.models, int(constants[FEATURES]), int(constants[TYPES]))
        look_at_all(state, scratch.arms, len(state.limits))
        _believe(constants, state, scratch, 0, len(state.pulls))

    @classmethod
    def renew(cls, constants: Constants, state: State, scratch: Any) -> None:
        """Beliefs that the state determines; models cannot be computed from it."""
        look_at_all(state, scratch.arms, len(state.limits))
        _believe(constants, state, scratch, 0, len(state.pulls))
        scratch.fresh[0] = 0.0

    @staticmethod
    def learn(constants: Constants, state: State, scratch: Any, row: int) -> None:
        """Learn from a report."""
        changed = learn_report(state, scratch.models, row, int(constants[FEATURES]))
        steps, count = int(state.steps[0]), len(state.pulls)
        everyone = changed > 1 or steps & (steps - 1) == 0
        if everyone:
            look_at_all(state, scratch.arms, len(state.limits))
        if everyone or changed == 1:
            first, last = (0, count) if everyone else (row, row + 1)
            _believe(constants, state, scratch, first, last)

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Any, words: Array) -> int:
        """The best arm for the request."""
        look = look_around(constants, state, scratch, words, 0, len(state.pulls))
        if look >= 0:
            return look
        due = prices_are_due(state, scratch)
        if due and _look_ahead(constants, state, scratch) < 0.0:
            return _least(state, scratch)
        if scratch.fresh[0] == 0.0:
            predict(state, scratch.models, 0, int(scratch.models.clock[SEEN]))
            scratch.fresh[0] = 1.0
        if due:
            _draw(constants, state, scratch, words)
            find_prices(constants, state, scratch)
        _expect(state, scratch)
        arm = best_here(state, scratch)
        if _bearable(constants, state, scratch, arm):
            return arm
        if _look_ahead(constants, state, scratch) < 0.0:
            return _least(state, scratch)
        if _bearable(constants, state, scratch, arm):
            return arm
        return _best_bearable(constants, state, scratch)

    @classmethod
    def functions(cls, penalties: int | None = None) -> tuple[Callable[..., Any], ...]:
        """All that a kernel compiles of it."""
        return (cls.begin, cls.choose, cls.learn)


# The request at hand.


def prices_are_due(state: State, scratch: Any) -> bool:
    """Whether to draw and to find prices again; then it was done at this step."""
    steps = state.steps[0] + 1.0
    since = abs(steps - scratch.solved[0])
    often = max(EVERY, min(steps, state.remaining[0]) / LONG)
    due: bool = scratch.solved[0] == 0.0 or since >= min(often, 1.0 + steps / EARLY)
    if due:
        scratch.solved[0] = steps
    return due


def best_here(state: State, scratch: Any) -> int:
    """The arm that is worth most for the request."""
    _weigh(scratch, len(state.limits))
    arm, most = 0, -math.inf
    for other in range(len(state.pulls)):
        value = _value(state, scratch, other)
        if value > most:
            arm, most = other, value
    return arm


def _draw(constants: Constants, state: State, scratch: FeaturedScratch, words: Array) -> None:
    """Draw by how much every arm's average outcomes differ from what is expected of them."""
    models, channels = scratch.models, 2 + len(state.limits)
    noise = math.sqrt(max(state.remaining[0], 0.0) / scratch.budget[0])
    if hashed(words[1], 1) * COIN < WIDE:
        noise *= WIDER
    for at in range(len(state.pulls) * channels):
        arm, channel = at // channels, at % channels
        scratch.drawn[at] = 0.0
        if is_learned(state, arm, channel):
            normal = NORMAL[hashed(words[0], at) & (CELLS - 1)]
            _, variance = usual_outcome(state, models, arm, channel)
            scratch.drawn[at] = noise * math.sqrt(variance) * normal
        elif state.known[at] < 0.0:
            share, source = state.weights[arm * (channels - 2) + channel - 2], channel - 2
            scratch.drawn[at] = share * scratch.drawn[arm * channels + int(state.sources[source])]
    make_net(state, scratch.drawn, 0.0)


def _value(state: State, scratch: FeaturedScratch, arm: int) -> float:
    """What a pull of an arm is worth for the request, at the prices and with the draw."""
    channels, value = 2 + len(state.limits), 0.0
    for channel in range(channels):
        at = arm * channels + channel
        value += scratch.worth[channel] * (scratch.expected[at] + scratch.drawn[at])
    return value


def _expect(state: State, scratch: FeaturedScratch) -> None:
    """Every arm's expected outcomes for the request; penalties are net."""
    models, limited = scratch.models, len(state.limits)
    channels = 2 + limited
    standardise(models)
    for arm in range(len(state.pulls)):
        for channel in range(channels):
            at = arm * channels + channel
            if is_learned(state, arm, channel):
                scratch.expected[at] = expect(state, models, arm, channel)
            elif state.known[at] >= 0.0:
                scratch.expected[at] = state.known[at]
            else:
                share, source = state.weights[arm * (channels - 2) + channel - 2], channel - 2
                taken = scratch.expected[arm * channels + int(state.sources[source])]
                scratch.expected[at] = share * taken
            if channel >= 2:
                scratch.penalty[arm * limited + channel - 2] = scratch.expected[at]
    make_net(state, scratch.expected, 1.0)


def make_net(state: State, outcomes: Array, pulls: float) -> None:
    """Turn the penalties of outcomes [K, C], each of as many pulls, into net penalties."""
    limited = len(state.limits)
    for m in range(limited):
        base, limit = state.bases[m], state.limits[m]
        if base != 0.0:
            for arm in range(len(state.pulls)):
                first = arm * (2 + limited)
                cost, reward, penalty = (
                    outcomes[first],
                    outcomes[first + 1],
                    outcomes[first + 2 + m],
                )
                outcomes[first + 2 + m] = net_penalty(base, limit, pulls, cost, reward, penalty)


# What is safe to promise.


def _believe(
    constants: Constants, state: State, scratch: FeaturedScratch, first: int, last: int
) -> None:
    """What is believed of arms: penalty rates for the average request, with the noise of pulls."""
    arms, limited = scratch.arms, len(state.limits)
    for arm in range(first, last):
        renew(constants, state, arms, arm & NOT_NEGATIVE, limited)
        cost, _ = usual_outcome(state, scratch.models, arm, 0)
        reward, _ = usual_outcome(state, scratch.models, arm, 1)
        cost = max(cost, 1e-9)
        for m in range(limited):
            at = arm * limited + m
            penalty, variance = usual_outcome(state, scratch.models, arm, 2 + m)
            net = net_penalty(state.bases[m], state.limits[m], 1.0, cost, reward, penalty)
            arms.rate[at] = net / cost
            if variance > 0.0:
                arms.more[MORE * at + KNOWN] = arms.spread[at] * cost * cost / variance
            doubt = math.sqrt(arms.spread[at] / arms.more[MORE * at + KNOWN])
            arms.cautious[at] = arms.rate[at] + constants[KAPPA] * doubt


def _look_ahead(constants: Constants, state: State, scratch: FeaturedScratch) -> float:
    """Find the safest arm, and the penalty rates to keep; see ``promise``."""
    count, limited = len(state.pulls), len(state.limits)
    safest = safest_of(state, scratch.arms.cautious, scratch.weights, 0, count, limited)
    scratch.safest[0] = safest
    standing = promise(constants, state, scratch, safest, count)
    if standing < 0.0:
        scratch.solved[0] = 0.0  # prices are due when it is not late any more
    return standing


def promise(constants: Constants, state: State, scratch: Any, safest: int, apart: int) -> float:
    """The penalty rates to keep; negative if it is too late for some limit.

    ``apart``: how many arms are learned separately.
    """
    arms, limited = scratch.arms, len(state.limits)
    standing, ahead, total = math.inf, cost_ahead(state, arms), 0.0
    for m in range(limited):
        at = safest * limited + m
        rate, noise = arms.rate[at], arms.spread[at]
        known = known_cost(arms.more[MORE * at + KNOWN], ahead, apart)
        scratch.outlook[3 * m], scratch.outlook[3 * m + 1] = rate, noise
        scratch.outlook[3 * m + 2] = noise / known + noise / (ahead + scratch.models.clock[SEEN])
        reserve = skewness(constants, arms.more[MORE * at + SIZE])
        reserve += pending(constants, state, arms, m)
        safe = safe_rate(constants, _outlook(scratch, m), reserve, state.remaining[1 + m], ahead)
        scratch.promised[m] = max(safe, LEAST_LIMIT * state.limits[m])
        standing = min(standing, safe)
        above = min(max(excess_over(state, m, rate), -1.0), 1.0)
        scratch.weights[m] = max(scratch.weights[m] * math.exp(SHIFT * above), LEAST_WEIGHT)
        total += scratch.weights[m]
    for m in range(limited):
        scratch.weights[m] /= total
    return standing


def _outlook(scratch: FeaturedScratch, m: int) -> Outlook:
    numbers = scratch.outlook
    return numbers[3 * m], numbers[3 * m + 1], numbers[3 * m + 2]


def _bearable(constants: Constants, state: State, scratch: FeaturedScratch, arm: int) -> bool:
    """Whether every limit can still be rescued after a large penalty of this arm."""
    safest = int(scratch.safest[0])
    for m in range(len(state.limits)):
        size = size_of(state, scratch.arms, safest, m)
        excess = excess_of(constants, _size_here(state, scratch, arm, m), size)
        if not _room_for(constants, state, scratch, m, excess, size):
            return False
    return True


def _best_bearable(constants: Constants, state: State, scratch: FeaturedScratch) -> int:
    """The best arm that is bearable and keeps the rates, by cautious estimates; else the safest."""
    safest, limited = int(scratch.safest[0]), len(state.limits)
    found, most = safest, -math.inf
    for arm in range(len(state.pulls)):
        value = _value(state, scratch, arm)
        for m in range(limited):
            size = _cautious_size(state, scratch, arm, m)
            sure = scratch.arms.cautious[arm * limited + m] <= scratch.promised[m]
            if not (sure and rescued(constants, state, scratch, m, size, safest)):
                value = -math.inf
        if value > most:
            found, most = arm, value
    return found


def rescued(
    constants: Constants, state: State, scratch: Any, m: int, size_here: float, safest: int
) -> bool:
    """Whether limit m can still be rescued after a large penalty of a usual size."""
    size = size_of(state, scratch.arms, safest, m)
    excess = excess_of(constants, size_here, size)
    return excess <= 0.0 or _room_for(constants, state, scratch, m, excess, size)


def _room_for(
    constants: Constants, state: State, scratch: Any, m: int, excess: float, size: float
) -> bool:
    """Whether limit m can be rescued after an excess penalty, by penalties of a usual size."""
    ahead, allowance = cost_ahead(state, scratch.arms), state.remaining[1 + m]
    reserve = skewness(constants, size) + excess + pending(constants, state, scratch.arms, m)
    return can_rescue(constants, _outlook(scratch, m), reserve, allowance, ahead)


def _size_here(state: State, scratch: FeaturedScratch, arm: int, m: int) -> float:
    """The usual size of penalty m of an arm for the request, E Y^2 / E Y.

    The variance of a penalty grows with its expectation, as in ``parts.linear``.
    """
    models, limited = scratch.models, len(state.limits)
    at, expected = arm * (2 + limited) + 2 + m, scratch.penalty[arm * limited + m]
    if not is_learned(state, arm, 2 + m) or state.totals[at] <= 0.0:
        return size_of(state, scratch.arms, arm, m)
    return min(models.noise[at] / models.usual[at] + expected, 1.0)  # type: ignore[no-any-return]


def _cautious_size(state: State, scratch: FeaturedScratch, arm: int, m: int) -> float:
    """The same with one penalty more, of the usual size of all arms: the largest are seen late."""
    size, seen = _size_here(state, scratch, arm, m), state.totals[arm * len(scratch.worth) + 2 + m]
    larger = max(scratch.arms.pooled[2 + m], size)
    return (seen * size + larger * larger) / (seen + larger)  # type: ignore[no-any-return]


def _least(state: State, scratch: FeaturedScratch) -> int:
    """Where it is late: the arm with the least hopeful penalties for the average request."""
    arms, limited = scratch.arms, len(state.limits)
    found, least = 0, math.inf
    each = cost_ahead(state, arms) / math.sqrt(len(state.pulls))
    for arm in range(len(state.pulls)):
        above = -math.inf
        for m in range(limited):
            at = arm * limited + m
            known = arms.more[MORE * at + KNOWN]
            rate = plausible_rate(arms.rate[at], math.sqrt(arms.spread[at] / known), each / known)
            above = max(above, excess_over(state, m, rate))
        if above < least:
            found, least = arm, above
    return found


# Prices.


def _weigh(scratch: FeaturedScratch, limited: int) -> None:
    """What a unit of each channel is worth at the prices."""
    scratch.worth[0], scratch.worth[1] = -scratch.price[0], 1.0
    for m in range(limited):
        scratch.worth[0] += scratch.price[1 + m] * scratch.promised[m]
        scratch.worth[2 + m] = -scratch.price[1 + m]


def find_prices(constants: Constants, state: State, scratch: FeaturedScratch) -> None:
    """Prices at which the best arms of the window are expected to incur the promised rates."""
    limited = len(state.limits)
    if limited == 0:
        _weigh_rest(state, scratch, 0)
        _spend(constants, state, scratch, 0)
    for _ in range(1 if limited == 1 else 3):
        for m in range(limited):
            _find_price(constants, state, scratch, m)


def _find_price(constants: Constants, state: State, scratch: FeaturedScratch, m: int) -> None:
    """The least price of penalty m that keeps its rate, beside the other prices.

    From the last one on, prices are tried farther and farther away, then between two of them.
    """
    price, at, promised = scratch.price, 1 + m, scratch.promised[m]
    low, high, above, below, step = 0.0, math.inf, 0.0, 0.0, 0.0
    price[at], enough = max(price[at], LEAST_PRICE), NEAR * promised
    if state.bases[m] != 0.0:  # a net rate: only a small part of it depends on the price
        enough = promised - (1.0 - NEAR) * state.limits[m] * max(state.bases[m], 0.0)
    _weigh_rest(state, scratch, m)
    for _ in range(TRIES):
        rate = _spend(constants, state, scratch, m)
        if rate > promised:
            low, above = price[at], rate
        else:
            high, below = price[at], rate
        found = below >= enough or high <= CLOSE * low
        if found or high <= LEAST_PRICE or low >= MOST_PRICE:
            break
        if low > 0.0 and high < math.inf:
            share = min(max((above - promised) / (above - below), AWAY), 1.0 - AWAY)
            price[at] = low * math.exp(share * math.log(high / low))
        else:
            apart = max(rate / promised, promised / max(rate, LEAST_PRICE))
            step = step * step if step > 0.0 else min(max(apart, CLOSE), MOST_STEP)
            price[at] = low * step if low > 0.0 else high / step
    price[at] = 0.0 if high <= LEAST_PRICE else min(high, MOST_PRICE)


def _weigh_rest(state: State, scratch: FeaturedScratch, m: int) -> None:
    """What every arm is worth to every request, without its cost and penalty m."""
    limited, means, rest = len(state.limits), scratch.models.means, scratch.rest
    channels, seen = 2 + limited, int(scratch.models.clock[SEEN])
    _weigh(scratch, limited)
    for arm in range(len(state.pulls)):
        first, place = arm * channels, arm * RECENT
        for n in range(seen):
            rest[place + n] = means[(first + 1) * RECENT + n] + scratch.drawn[first + 1]
        for channel in range(2, channels):
            if channel != 2 + m:
                at, worth = first + channel, scratch.worth[channel]
                for n in range(seen):
                    rest[place + n] += worth * (means[at * RECENT + n] + scratch.drawn[at])


def _spend(constants: Constants, state: State, scratch: FeaturedScratch, m: int) -> float:
    """Penalty m per cost of the best arms of the window; also makes theta the rate of the rest."""
    limited, equal, rate = len(state.limits), constants[EQUAL] > 0.0, 0.0
    seen, channel = int(scratch.models.clock[SEEN]), 2 + min(m, limited - 1)
    for _ in range(1 if equal else 2):
        _weigh(scratch, limited)
        for n in range(seen):
            scratch.best[n] = -math.inf
        for arm in range(len(state.pulls)):
            _compare(scratch, arm, arm * (2 + limited), channel, equal)
        cost = seen * state.known[0] if equal else total(scratch.taken, 0, seen)
        rate = total(scratch.taken, RECENT, seen) / max(cost, 1e-9)
        if not equal:
            scratch.price[0] += total(scratch.best, 0, seen) / max(cost, 1e-9)
    return rate


def _compare(scratch: FeaturedScratch, arm: int, first: int, channel: int, equal: bool) -> None:
    """Take an arm wherever it is better than the arms before it, at the prices.

    Equal costs make no difference.
    """
    means, best, taken, rest = scratch.models.means, scratch.best, scratch.taken, scratch.rest
    cost, penalty, place = first * RECENT, (first + channel) * RECENT, arm * RECENT
    dear, bad = 0.0 if equal else scratch.worth[0], scratch.worth[channel]
    shift = dear * scratch.drawn[first] + bad * scratch.drawn[first + channel]
    seen = int(scratch.models.clock[SEEN])
    if equal:
        for n in range(seen):
            most, here, there = best[n], means[penalty + n], taken[RECENT + n]
            value = rest[place + n] + shift + bad * here
            best[n] = max(most, value)
            taken[RECENT + n] = here if value > most else there
        return
    for n in range(seen):
        most, here, there = best[n], means[penalty + n], taken[RECENT + n]
        paid, before = means[cost + n], taken[n]
        value = rest[place + n] + shift + (dear * paid + bad * here)
        best[n] = max(most, value)
        taken[RECENT + n] = here if value > most else there
        taken[n] = paid if value > most else before
