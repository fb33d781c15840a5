"""resolve: solve the best mixture anew at every step, against what is left, with sampled means.

A step, for K arms and M limits, with a budget b and allowances a_m (limit times budget, less the
penalty so far) left:

1. draw every arm's mean cost, reward and penalties from what is believed about them;
2. find the mixture of arms that is safest by cautious estimates, and how much penalty it would
   incur over the rest of the budget, with which deviation;
3. promise the largest penalty rate from which that mixture could still rescue the limit, z
   deviations away from too late; if it is too late already, nothing but to violate least;
4. pull an arm of the best mixture of the drawn means that keeps this rate; if that is expected to
   incur more than was promised, make up for it with an arm of the safest mixture now and then.

Everything is in normalised units: outcomes in [0, 1], rates per unit of cost. ``docs/resolve.md``
derives the formulas and says which are proved, argued or measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from statistics import NormalDist
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np

from tightrope.policies.base import Constants, Policy, Setup, limits_of
from tightrope.policies.choice import ChoicePolicy, hashed
from tightrope.policies.parts.forgetting import require_forgetting, window_and_fade
from tightrope.policies.parts.mixture import (
    Mixture,
    Program,
    best_pair,
    pick,
    pick_of_pair,
    rate_of,
    rate_of_pair,
    simplex,
)
from tightrope.policies.state import Array, State

if TYPE_CHECKING:
    from tightrope.problem import Known, Task

__all__ = ["Resolve", "barrier", "curse"]

BITS = 10  # of a random word, for one normal number
CELLS = 1 << BITS
DRAWS = 3  # normal numbers from one word of 32 bits
COIN = 2.0**-32  # turns a word into a number in [0, 1)
SHUT = 1e-6  # limits times this: no mixture keeps them, so the program violates least
LEAST_VARIANCE = 1e-12  # of an outcome: guards a quotient against rounding

# Chosen by measurement, none of them for one problem; docs/resolve.md has the comparisons.
CALM = 1.0  # deviations from too late, where no risk is asked for
FLOOR = 0.02  # a drawn cost is at least this part of its expectation
LEARNING = 0.1  # of what is left, at most, will be spent on an arm of the safest mixture
LEAST_LIMIT = 0.001  # of a limit: the rate promised when nothing is left of its allowance

# In place of a rate that is safe to promise.
LATE = -1.0  # the safest mixture may keep the limit, but not surely enough
LOST = -2.0  # it is not expected to


def _normals() -> Any:
    """CELLS equally likely normal numbers, in order, with mean 0 and variance 1."""
    quantile = NormalDist().inv_cdf
    numbers = np.array([quantile((cell + 0.5) / CELLS) for cell in range(CELLS)])
    return numbers / numbers.std()


NORMAL = _normals()


class Beliefs(NamedTuple):
    """The policy's scratch. A belief about a mean is a scale and a width: see :func:`_sample`."""

    budget: Annotated[Array, 1]  # at the start
    limits: Annotated[Array, "M"]  # c_m
    promised: Annotated[Array, "M"]  # the penalty rates that the mixture has to keep
    safe: Annotated[Array, "M"]  # the largest from which the safest mixture can rescue
    cost_scale: Annotated[Array, "K"]
    cost_width: Annotated[Array, "K"]
    reward_scale: Annotated[Array, "K"]
    reward_width: Annotated[Array, "K"]
    penalty_scale: Annotated[Array, "K", "M"]
    penalty_width: Annotated[Array, "K", "M"]
    rate: Annotated[Array, "K", "M"]  # penalty rate, expected
    spread: Annotated[Array, "K", "M"]  # variance of Y - rate X, per unit of cost
    cautious: Annotated[Array, "K", "M"]  # penalty rate, less optimistic the less is known
    cost: Annotated[Array, "K"]  # drawn mean
    reward: Annotated[Array, "K"]  # drawn rate
    penalty: Annotated[Array, "K", "M"]  # drawn rates
    safest: Mixture
    program: Program


# What is believed about an arm.


def _renew(constants: Constants, state: State, scratch: Beliefs, arm: int) -> None:
    """What is believed about an arm, from all that it has shown."""
    limited, pulls = len(scratch.limits), state.pulls[arm]
    first = arm * (2 + limited)
    cost, cost_square = state.totals[first], state.squares[first]
    scale, width = _belief(pulls, cost, cost_square)
    mean_cost = _mean(scale)
    scratch.cost_scale[arm], scratch.cost_width[arm] = scale, width
    scale, width = _belief(pulls, state.totals[first + 1], state.squares[first + 1])
    scratch.reward_scale[arm], scratch.reward_width[arm] = scale, width
    for m in range(limited):
        at, square = arm * limited + m, state.squares[first + 2 + m]
        scale, width = _belief(pulls, state.totals[first + 2 + m], square)
        scratch.penalty_scale[at], scratch.penalty_width[at] = scale, width
        rate = _mean(scale) / mean_cost
        spread = _spread(rate, cost, cost_square, square, state.products[at])
        scratch.rate[at], scratch.spread[at] = rate, spread
        scratch.cautious[at] = rate + constants[1] * math.sqrt(spread / (cost + 1.0))


def _belief(pulls: float, total: float, square: float) -> tuple[float, float]:
    """The belief about a mean, as scale and width; both are negative where it is nearer to 1.

    Two outcomes are added to those seen, a 0 and a 1. Where all are 0 or 1, mean and variance are
    those of Beta(1 + total, 1 + pulls - total); elsewhere the variance is the empirical one. The
    shape is a gamma law's, seen from the nearer end of [0, 1], by its cube root, which is nearly
    normal (Wilson and Hilferty).
    """
    weight = pulls + 2.0
    mean = (total + 1.0) / weight
    second = mean if square == total else (square + 1.0) / weight  # zeros and ones: no division
    variance = max(second - mean * mean, LEAST_VARIANCE) / (weight + 1.0)
    near = mean <= 0.5
    base = mean if near else 1.0 - mean
    width = math.sqrt(variance) / (3.0 * base)
    return (base if near else -base), (width if near else -width)


def _mean(scale: float) -> float:
    """The expectation of a mean."""
    return scale if scale > 0.0 else 1.0 + scale


def _spread(
    rate: float, cost: float, cost_square: float, penalty_square: float, product: float
) -> float:
    """The variance of Y - rate X per unit of cost; two pulls are added, all of 0 and 1."""
    squares = penalty_square + 1.0 + rate * rate * (cost_square + 1.0)
    return (squares - 2.0 * rate * (product + 0.5)) / (cost + 1.0)


@dataclass(frozen=True)
class Resolve(ChoicePolicy):
    """Re-solve the best mixture of sampled arms against the budget and the allowances left.

    ``risk``, between 0 and 1: the chance to aim at of breaking a limit at all, and a promise where
    the task declares a safe arm; ``None`` keeps the limits on average, which earns a little more.
    ``mu_min``: a lower bound on the mean costs, in units of the largest cost, that no sample goes
    below; ``None`` if nothing is known. For arms that change, ``window0`` or ``discount0``: beliefs
    come from about so many times sqrt(B log B) pulls, see ``forgetting``.
    """

    risk: float | None = None
    mu_min: float | None = None
    window0: float | None = None
    discount0: float | None = None

    name: ClassVar[str] = "resolve"
    summary: ClassVar[str] = "re-solves the best mixture of sampled arms against what is left"
    contestants: ClassVar[tuple[str, ...]] = ("resolve", "resolve:risk=0.01")
    forgetful: ClassVar[tuple[str, ...]] = ("resolve:window0=2", "resolve:discount0=2")
    colour: ClassVar[str | None] = "#d1006c"

    Scratch: ClassVar[type] = Beliefs
    learn = staticmethod(_renew)

    def __post_init__(self) -> None:
        self.require_number("risk", 0.0, open_low=True, optional=True)
        self.require("risk", "a number between 0 and 1, or none", (self.risk or 0.0) < 1.0)
        self.require_number("mu_min", 0.0, open_low=True, optional=True)
        self.require("mu_min", "at most 1, the largest cost", (self.mu_min or 0.0) <= 1.0)
        require_forgetting(self)

    def for_task(self, known: Known) -> Policy:
        """Itself under the guard, where there are a risk, a limit and a declared safe arm."""
        from tightrope.policies.guarded import GuardedResolve

        forgets = (self.window0, self.discount0) != (None, None)
        if self.risk is None or known.safe is None or not known.penalty_count or forgets:
            return self
        return GuardedResolve(**{field.name: getattr(self, field.name) for field in fields(self)})

    def setup(self, task: Task, budget: float) -> Setup:
        """The barrier z, the curse kappa, the least mean cost."""
        z = CALM if self.risk is None else barrier(self.risk, budget, task.penalty_count)
        window, fade = window_and_fade(self, budget, task.scales.cost)
        return Setup(
            constants=(z, curse(task.arm_count), self.mu_min or 0.0),
            allowance=limits_of(task),
            window=window,
            fade=fade,
            warning=self._no_promise(task),
        )

    def _no_promise(self, task: Task) -> str | None:
        """What to say where a risk and a safe arm are given, but the guard needs all pulls."""
        given = "discount0" if self.window0 is None else "window0"
        if self.risk is None or task.safe is None or getattr(self, given) is None:
            return None
        return (
            f"policy resolve: {given} = {getattr(self, given):g} is for arms that change, so that"
            f" the safe arm {task.safe!r} is not used: risk = {self.risk:g} is aimed at only"
        )

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Beliefs) -> None:
        """Note the budget and the limits; believe of every arm what is believed of a new one."""
        scratch.budget[0] = state.remaining[0]
        for m in range(len(scratch.limits)):
            scratch.limits[m] = state.remaining[1 + m] / state.remaining[0]
        for arm in range(len(state.pulls)):
            _renew(constants, state, scratch, arm)

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Beliefs, words: Array) -> int:
        """An arm of the best mixture of drawn means that keeps a rate that is safe to promise."""
        if len(scratch.limits) == 1:
            return _choose_for_one(constants, state, scratch, words)
        return _choose_for_many(constants, state, scratch, words)

    @classmethod
    def functions(cls, penalties: int | None = None) -> tuple[Callable[..., Any], ...]:
        """All that a kernel compiles of it: for one limit far less."""
        choose = cls.choose if penalties is None else _choose_for_many
        return (cls.begin, _choose_for_one if penalties == 1 else choose, cls.learn)


def barrier(risk: float, budget: float, limits: int) -> float:
    """z: how many deviations to stay away from the point where a limit cannot be rescued.

    A path that hugs z escapes at the rate z phi(z) / 2 per unit of log budget (Kramers), so that
    z phi(z) / 2 * log(1 + budget) = risk / limits; at least ``CALM``.

    >>> round(barrier(0.01, 1000.0, 1), 2)
    3.52
    """
    wanted = 2.0 * risk / max(limits, 1) / math.log1p(budget)
    density = NormalDist().pdf
    low, high = 1.0, 40.0  # z phi(z) falls from z = 1 on, to 1e-347
    if density(low) <= wanted:
        return CALM
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if middle * density(middle) > wanted else (low, middle)
    return high


def curse(arms: int) -> float:
    """kappa: how far, in deviations, the least of K equal noisy rates falls below them (Blom).

    >>> [round(curse(arms), 2) for arms in (1, 2, 10, 50)]
    [0.0, 0.59, 1.55, 2.24]
    """
    return NormalDist().inv_cdf((arms - 0.375) / (arms + 0.25))


# Draws.


def _draw(constants: Constants, beliefs: Beliefs, word: int, noise: float) -> None:
    """Draw every arm's means, and from them its rates; ``noise``, from 1 to 0, narrows beliefs.

    A loop for each channel, so that the compiler makes vectors of them: for 50 arms a step takes
    0.53 us in place of 0.90. A random word serves ``DRAWS`` channels of an arm.
    """
    limited, count = len(beliefs.limits), len(beliefs.cost)
    words = (1 + limited) // DRAWS + 1  # per arm
    for arm in range(count):
        scale = beliefs.cost_scale[arm]
        drawn = _sample(scale, beliefs.cost_width[arm], noise, hashed(word, arm * words))
        beliefs.cost[arm] = max(drawn, max(FLOOR * _mean(scale), constants[2]))
    for arm in range(count):
        random = hashed(word, arm * words) >> BITS
        drawn = _sample(beliefs.reward_scale[arm], beliefs.reward_width[arm], noise, random)
        beliefs.reward[arm] = drawn / beliefs.cost[arm]
    if limited == 1:
        for arm in range(count):
            random = hashed(word, arm * words) >> (2 * BITS)
            drawn = _sample(beliefs.penalty_scale[arm], beliefs.penalty_width[arm], noise, random)
            beliefs.penalty[arm] = drawn / beliefs.cost[arm]
    else:
        for at in range(count * limited):
            arm, channel = at // limited, 2 + at % limited
            random = hashed(word, arm * words + channel // DRAWS) >> (channel % DRAWS * BITS)
            drawn = _sample(beliefs.penalty_scale[at], beliefs.penalty_width[at], noise, random)
            beliefs.penalty[at] = drawn / beliefs.cost[arm]


def _sample(scale: float, width: float, noise: float, random: int) -> float:
    """A draw of a mean, in [0, 1], by the last ``BITS`` of a random word."""
    normal = noise * NORMAL[random & (CELLS - 1)]
    root = max((1.0 - width * width) + width * normal, 0.0)
    drawn: float = (0.0 if scale > 0.0 else 1.0) + scale * root * root * root
    return min(max(drawn, 0.0), 1.0)


# One limit: the safest mixture is one arm, and the best one has at most two.


def _choose_for_one(constants: Constants, state: State, beliefs: Beliefs, words: Array) -> int:
    """An arm, under one limit."""
    noise = math.sqrt(max(state.remaining[0], 0.0) / beliefs.budget[0])
    _draw(constants, beliefs, words[0], noise)
    allowance, limit, ahead = state.remaining[1], beliefs.limits[0], _ahead(state)
    safest = _least(beliefs.cautious)
    low, spread = beliefs.rate[safest], beliefs.spread[safest]
    unsure = spread / _known(state.totals[3 * safest], ahead, len(beliefs.cost))
    safe = _safe_rate(constants, low, spread, unsure, allowance, ahead)
    promised = max(safe, LEAST_LIMIT * limit)
    if safe < 0.0:
        promised = SHUT * max(allowance / ahead, LEAST_LIMIT * limit)
    if safe == LATE:
        _take_care(beliefs.penalty, beliefs.cautious, 1.0 - noise)
    beliefs.safe[0], beliefs.promised[0] = safe, promised
    pair = best_pair(beliefs.reward, beliefs.penalty, promised)
    if safe >= 0.0 and promised < limit:
        owed = _owed(limit, promised, rate_of_pair(pair, beliefs.rate), low)
        if hashed(words[1], 0) * COIN < owed:
            return safest
    return pick_of_pair(pair, beliefs.cost, words[1] * COIN)


def _least(numbers: Array) -> int:
    """The place of the smallest."""
    place, least = 0, numbers[0]
    for at in range(1, len(numbers)):
        if numbers[at] < least:
            place, least = at, numbers[at]
    return place


# Any number of limits.


def _choose_for_many(constants: Constants, state: State, beliefs: Beliefs, words: Array) -> int:
    """An arm, under any number of limits."""
    noise = math.sqrt(max(state.remaining[0], 0.0) / beliefs.budget[0])
    _draw(constants, beliefs, words[0], noise)
    standing = _promise(constants, state, beliefs)
    if standing == LATE:
        _take_care(beliefs.penalty, beliefs.cautious, 1.0 - noise)
    simplex(beliefs.reward, beliefs.penalty, beliefs.promised, beliefs.program)
    mixture, owed = beliefs.program.mixture, 0.0
    if standing >= 0.0:
        for m in range(len(beliefs.limits)):
            rate, low = rate_of(mixture, beliefs.rate, m), rate_of(beliefs.safest, beliefs.rate, m)
            owed = max(owed, _owed(beliefs.limits[m], beliefs.promised[m], rate, low))
    if hashed(words[1], 0) * COIN < owed:
        mixture = beliefs.safest
    return pick(mixture, beliefs.cost, words[1] * COIN)


def _promise(constants: Constants, state: State, beliefs: Beliefs) -> float:
    """The penalty rates that the mixture has to keep; rates that none can keep, if too late.

    Returns ``LATE`` or ``LOST`` if some limit is, else a number of at least 0.
    """
    limited, promised, remaining = len(beliefs.limits), beliefs.promised, state.remaining
    if limited == 0:
        return 0.0
    ahead, standing = _ahead(state), math.inf
    for m in range(limited):
        promised[m] = SHUT * max(remaining[1 + m] / ahead, LEAST_LIMIT * beliefs.limits[m])
    _find_safest(beliefs)
    for m in range(limited):
        beliefs.safe[m] = _safe_rate_of(constants, state, beliefs, m, ahead)
        standing = min(standing, beliefs.safe[m])
    for m in range(limited):
        if standing >= 0.0:
            promised[m] = max(beliefs.safe[m], LEAST_LIMIT * beliefs.limits[m])
    return standing


def _find_safest(beliefs: Beliefs) -> None:
    """The mixture with the least cautious rates, relative to what is promised."""
    simplex(beliefs.reward, beliefs.cautious, beliefs.promised, beliefs.program)
    found, safest, total = beliefs.program.mixture, beliefs.safest, 0.0
    for i in range(len(found.arms)):
        if 0 <= found.arms[i] < len(beliefs.cost):
            total += found.shares[i]
    for i in range(len(found.arms)):
        safest.shares[i], safest.arms[i] = found.shares[i] / total, found.arms[i]


def _safe_rate_of(
    constants: Constants, state: State, beliefs: Beliefs, m: int, ahead: float
) -> float:
    """:func:`_safe_rate` of penalty m, for the safest mixture."""
    safest, limited, count = beliefs.safest, len(beliefs.limits), len(beliefs.cost)
    expected = noise = unsure = 0.0
    for i in range(len(safest.arms)):
        arm = int(safest.arms[i])
        if 0 <= arm < count:
            share, spread = safest.shares[i], beliefs.spread[arm * limited + m]
            expected += share * beliefs.rate[arm * limited + m]
            noise += share * spread
            known = _known(state.totals[arm * (2 + limited)], ahead, count)
            unsure += share * share * spread / known
    return _safe_rate(constants, expected, noise, unsure, state.remaining[1 + m], ahead)


# What is safe to promise.


def _ahead(state: State) -> float:
    """The cost still to come: the budget left and, by Lorden's bound, the last pull's excess."""
    cost, squares, channels = 1.0, 1.0, len(state.remaining) + 1
    for arm in range(len(state.pulls)):
        cost += state.totals[arm * channels]
        squares += state.squares[arm * channels]
    return state.remaining[0] + squares / cost  # type: ignore[no-any-return]


def _known(cost: float, ahead: float, count: int) -> float:
    """The cost by which an arm of the safest mixture is known, or will be in time."""
    return max(cost + 1.0, min(LEARNING, 1.0 / count) * ahead)


def _safe_rate(
    constants: Constants,
    expected: float,
    noise: float,
    unsure: float,
    allowance: float,
    ahead: float,
) -> float:
    """The largest rate of a penalty from which the safest mixture can rescue; LATE or LOST.

    ``expected`` is the mixture's own rate, ``noise`` the variance of what it incurs per unit of
    cost, ``unsure`` that of the rate. If only this mixture is pulled from here on, the allowance
    ends ``room`` deviations above 0 on average. A steady rate comes nearest to the barrier on its
    way, not at its end: there it has z deviations left at the rate returned.
    """
    if expected * ahead > allowance:
        return LOST
    z, kappa = constants[0], constants[1]
    low = expected + kappa * math.sqrt(unsure)
    deviation = math.sqrt(noise * ahead + unsure * ahead * ahead)
    skewness = (z * z - 1.0) / 6.0  # Cornish and Fisher's term; outcomes lie in [0, 1]
    room = (allowance - low * ahead - skewness) / deviation
    if room < z:
        return LATE
    return low + 0.5 * (room + math.sqrt(room * room - z * z)) * deviation / ahead


# What exploring costs.


def _take_care(drawn: Array, cautious: Array, weight: float) -> None:
    """Move drawn penalty rates to cautious ones: at the end of a budget nothing is to be learnt."""
    for at in range(len(drawn)):
        drawn[at] += weight * (cautious[at] - drawn[at])


def _owed(limit: float, promised: float, rate: float, low: float) -> float:
    """The chance to pull the safest mixture instead, so that what is promised is kept on average.

    The mixture was chosen by drawn rates, and looks better by them than its expected ``rate``. What
    it is expected to incur beyond the promise is made up for by the safest one, whose rate is
    ``low``, the more the nearer the promise has come from the limit itself to the least that can be
    promised: there is no need to pay as long as the allowance is whole.
    """
    if not (rate > promised and rate > low and limit > promised):
        return 0.0
    worn = min((limit - promised) / max(limit - low, limit - promised), 1.0)
    return worn * (rate - promised) / (rate - low)
