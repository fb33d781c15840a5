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
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from tightrope.policies.base import Constants, Setup
from tightrope.policies.choice import Array, ChoicePolicy, hashed
from tightrope.policies.memory import memory_at, require_memory
from tightrope.policies.mixture import best_mixture, pick, work_size

if TYPE_CHECKING:
    from tightrope.problem import Problem

__all__ = ["Resolve", "barrier", "curse"]

TERMS = 4  # numbers that describe the belief about a mean; see _believe
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


@dataclass(frozen=True)
class Resolve(ChoicePolicy):
    """Re-solve the best mixture of sampled arms against the budget and the allowances left.

    ``risk``, between 0 and 1: the chance to aim at of breaking a limit at all; ``None`` keeps the
    limits on average, which earns a little more. ``mu_min``: a lower bound on the mean costs, in
    units of the largest cost, that no sample goes below; ``None`` if nothing is known. For arms
    that change, ``window0`` or ``discount0``: beliefs come from about so many times sqrt(B log B)
    pulls, see ``memory``.
    """

    risk: float | None = None
    mu_min: float | None = None
    window0: float | None = None
    discount0: float | None = None

    name: ClassVar[str] = "resolve"
    summary: ClassVar[str] = "re-solves the best mixture of sampled arms against what is left"

    def __post_init__(self) -> None:
        self.require_number("risk", 0.0, open_low=True, optional=True)
        self.require("risk", "a number between 0 and 1, or none", (self.risk or 0.0) < 1.0)
        self.require_number("mu_min", 0.0, open_low=True, optional=True)
        self.require("mu_min", "at most 1, the largest cost", (self.mu_min or 0.0) <= 1.0)
        require_memory(self)

    def setup(self, problem: Problem, budget: float) -> Setup:
        """The barrier z, the curse kappa, the least mean cost."""
        arms, limits = problem.arm_count, problem.penalty_count
        z = CALM if self.risk is None else barrier(self.risk, budget, limits)
        window, fade = memory_at(self, budget)
        return Setup(
            constants=(z, curse(arms), self.mu_min or 0.0),
            allowance=tuple(float(limit) for limit in problem.moments.limits),
            window=window,
            fade=fade,
        )

    def scratch(self, arms: int, penalties: int) -> int:
        """The sizes of :class:`Parts`, in order."""
        channels, each = 2 + penalties, arms * penalties
        return (
            1
            + 3 * penalties
            + arms * channels * TERMS
            + 4 * each
            + 2 * arms
            + 2 * (penalties + 1)
            + work_size(penalties)
        )

    @staticmethod
    def begin(constants: Constants, arms: Array, left: Array, own: Array) -> None:
        """Note the budget and the limits; believe of every arm what is believed of a new one."""
        parts = _parts(arms, left, own)
        parts.budget[0] = left[0]
        for m in range(len(parts.limits)):
            parts.limits[m] = left[2 + m] / left[0]
        for arm in range(len(arms)):
            _renew(constants, arms, parts, arm)

    @staticmethod
    def choose(constants: Constants, arms: Array, left: Array, own: Array, luck: Array) -> int:
        """An arm of the best mixture of drawn means that keeps a rate that is safe to promise."""
        parts = _parts(arms, left, own)
        noise = math.sqrt(max(left[0], 0.0) / parts.budget[0])
        _draw(constants, parts, luck[0], noise)
        standing = _promise(constants, arms, left, parts)
        if standing == LATE:
            _take_care(parts, 1.0 - noise)
        best_mixture(parts.reward, parts.penalty, parts.promised, parts.work)
        if standing >= 0.0 and hashed(luck[1], 0) * COIN < _owed(parts):
            return pick(parts.safest, len(parts.limits), parts.cost, luck[1] * COIN)
        return pick(parts.work, len(parts.limits), parts.cost, luck[1] * COIN)

    @staticmethod
    def learn(constants: Constants, arms: Array, left: Array, own: Array, arm: int) -> None:
        """Renew the belief about the arm just pulled."""
        _renew(constants, arms, _parts(arms, left, own), arm)


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


class Parts(NamedTuple):
    """The policy's scratch, by name. C = 2 + M channels: cost, reward, penalties."""

    budget: Array  # [1] at the start
    limits: Array  # [M] c_m
    promised: Array  # [M] the penalty rates that the mixture has to keep
    safe: Array  # [M] the largest from which the safest mixture can rescue
    belief: Array  # [K, C, TERMS] about the mean of each channel
    rate: Array  # [K, M] penalty rate, expected
    spread: Array  # [K, M] variance of Y - rate X, per unit of cost
    cautious: Array  # [K, M] penalty rate, less optimistic the less is known
    cost: Array  # [K] drawn mean
    reward: Array  # [K] drawn rate
    penalty: Array  # [K, M] drawn rates
    safest: Array  # [2, M + 1] a mixture: shares of cost, then arms, as ``best_mixture`` leaves it
    work: Array  # of the linear program


def _parts(arms: Array, left: Array, own: Array) -> Parts:
    """Views of the scratch ``own``."""
    count, limited = len(arms), len(left) - 2
    channels, each = 2 + limited, count * limited
    belief = 1 + 3 * limited
    rates = belief + count * channels * TERMS
    drawn = rates + 3 * each
    safest = drawn + 2 * count + each
    work = safest + 2 * (limited + 1)
    return Parts(
        own[:1],
        own[1 : 1 + limited],
        own[1 + limited : 1 + 2 * limited],
        own[1 + 2 * limited : belief],
        own[belief:rates],
        own[rates : rates + each],
        own[rates + each : rates + 2 * each],
        own[rates + 2 * each : drawn],
        own[drawn : drawn + count],
        own[drawn + count : drawn + 2 * count],
        own[drawn + 2 * count : safest],
        own[safest:work],
        own[work:],
    )


# What is believed about an arm.


def _renew(constants: Constants, arms: Array, parts: Parts, arm: int) -> None:
    """What is believed about an arm, from all that it has shown."""
    limited = len(parts.limits)
    channels = 2 + limited
    first = arm * channels * TERMS
    for channel in range(channels):
        total, square = arms[arm, 1 + channel], arms[arm, 1 + channels + channel]
        _believe(arms[arm, 0], total, square, parts.belief, first + channel * TERMS)
    for m in range(limited):
        rate = _mean(parts.belief, first + (2 + m) * TERMS) / _mean(parts.belief, first)
        spread = _spread(
            rate,
            arms[arm, 1],
            arms[arm, 1 + channels],
            arms[arm, 3 + channels + m],
            arms[arm, 1 + 2 * channels + m],
        )
        at = arm * limited + m
        parts.rate[at], parts.spread[at] = rate, spread
        parts.cautious[at] = rate + constants[1] * math.sqrt(spread / (arms[arm, 1] + 1.0))


def _believe(pulls: float, total: float, square: float, belief: Array, at: int) -> None:
    """The belief about a mean, as start, scale, centre and width: see :func:`_sample`.

    Two outcomes are added to those seen, a 0 and a 1. Where all are 0 or 1, mean and variance are
    those of Beta(1 + total, 1 + pulls - total); elsewhere the variance is the empirical one. The
    shape is a gamma law's, seen from the nearer end of [0, 1], by its cube root, which is nearly
    normal (Wilson and Hilferty).
    """
    weight = pulls + 2.0
    mean = (total + 1.0) / weight
    variance = max((square + 1.0) / weight - mean * mean, LEAST_VARIANCE) / (weight + 1.0)
    near = mean <= 0.5
    base = mean if near else 1.0 - mean
    width = math.sqrt(variance) / (3.0 * base)
    belief[at] = 0.0 if near else 1.0
    belief[at + 1] = base if near else -base
    belief[at + 2] = 1.0 - width * width
    belief[at + 3] = width if near else -width


def _mean(belief: Array, at: int) -> float:
    """The expectation of a mean."""
    return belief[at] + belief[at + 1]  # type: ignore[no-any-return]


def _spread(
    rate: float, cost: float, cost_square: float, penalty_square: float, product: float
) -> float:
    """The variance of Y - rate X per unit of cost; two pulls are added, all of 0 and 1."""
    squares = penalty_square + 1.0 + rate * rate * (cost_square + 1.0)
    return (squares - 2.0 * rate * (product + 0.5)) / (cost + 1.0)


# Draws.


def _draw(constants: Constants, parts: Parts, word: int, noise: float) -> None:
    """Draw every arm's means, and from them its rates; ``noise``, from 1 to 0, narrows beliefs."""
    limited, belief = len(parts.limits), parts.belief
    words = (1 + limited) // DRAWS + 1  # an arm
    at = 0
    for arm in range(len(parts.cost)):
        random = hashed(word, arm * words)
        least = max(FLOOR * _mean(belief, at), constants[2])
        cost = max(_sample(belief, at, noise, random), least)
        parts.cost[arm] = cost
        random = random >> BITS
        parts.reward[arm] = _sample(belief, at + TERMS, noise, random) / cost
        at += 2 * TERMS
        for m in range(limited):
            random = random >> BITS
            if (2 + m) % DRAWS == 0:
                random = hashed(word, arm * words + (2 + m) // DRAWS)
            parts.penalty[arm * limited + m] = _sample(belief, at, noise, random) / cost
            at += TERMS


def _sample(belief: Array, at: int, noise: float, random: int) -> float:
    """A draw of a mean, in [0, 1], by the last ``BITS`` of a random word."""
    normal = noise * NORMAL[random & (CELLS - 1)]
    root = max(belief[at + 2] + belief[at + 3] * normal, 0.0)
    drawn: float = belief[at] + belief[at + 1] * root * root * root
    return min(max(drawn, 0.0), 1.0)


# What is safe to promise.


def _promise(constants: Constants, arms: Array, left: Array, parts: Parts) -> float:
    """The penalty rates that the mixture has to keep; rates that none can keep, if too late.

    Returns ``LATE`` or ``LOST`` if some limit is, else a number of at least 0.
    """
    limited, promised = len(parts.limits), parts.promised
    ahead = _ahead(arms, left)
    for m in range(limited):
        promised[m] = max(left[2 + m] / ahead, LEAST_LIMIT * parts.limits[m])
    if limited == 0:
        return 0.0
    _find_safest(parts)
    standing = math.inf
    for m in range(limited):
        parts.safe[m] = _safe_rate(constants, arms, parts, m, left[2 + m], ahead)
        standing = min(standing, parts.safe[m])
    for m in range(limited):
        if standing < 0.0:
            promised[m] *= SHUT
        else:
            promised[m] = max(parts.safe[m], LEAST_LIMIT * parts.limits[m])
    return standing


def _ahead(arms: Array, left: Array) -> float:
    """The cost still to come: the budget left and, by Lorden's bound, the last pull's excess."""
    cost, squares, column = 1.0, 1.0, len(left) + 1
    for arm in range(len(arms)):
        cost += arms[arm, 1]
        squares += arms[arm, column]
    return left[0] + squares / cost  # type: ignore[no-any-return]


def _find_safest(parts: Parts) -> None:
    """The mixture with the least cautious rates, relative to what is promised."""
    work, safest, limited = parts.work, parts.safest, len(parts.limits)
    rows, count = limited + 1, len(parts.cost)
    if limited == 1:
        best = 0
        for arm in range(1, count):
            if parts.cautious[arm] < parts.cautious[best]:
                best = arm
        safest[0], safest[1], safest[2], safest[3] = 1.0, 0.0, best, -1.0
        return
    for m in range(limited):
        parts.promised[m] *= SHUT
    best_mixture(parts.reward, parts.cautious, parts.promised, work)
    total = 0.0
    for i in range(rows):
        if 0 <= work[rows + i] < count:
            total += work[i]
    for i in range(rows):
        safest[i], safest[rows + i] = work[i] / total, work[rows + i]
    for m in range(limited):
        parts.promised[m] /= SHUT


def _safe_rate(
    constants: Constants, arms: Array, parts: Parts, m: int, allowance: float, ahead: float
) -> float:
    """The largest rate of penalty m from which the safest mixture can rescue; LATE or LOST.

    If only the safest mixture is pulled from here on, the allowance ends ``room`` deviations
    above 0 on average. The plan that keeps a steady rate comes nearest to the barrier on its way,
    not at its end: there it has z deviations left at the rate returned.
    """
    z, kappa = constants[0], constants[1]
    limited, count = len(parts.limits), len(parts.cost)
    rows, learning = limited + 1, min(LEARNING, 1.0 / len(parts.cost))
    expected = noise = unsure = 0.0
    for i in range(rows):
        arm = int(parts.safest[rows + i])
        if 0 <= arm < count:
            share, spread = parts.safest[i], parts.spread[arm * limited + m]
            known = max(arms[arm, 1] + 1.0, learning * ahead)
            expected += share * parts.rate[arm * limited + m]
            noise += share * spread
            unsure += share * share * spread / known
    if expected * ahead > allowance:
        return LOST
    low = expected + kappa * math.sqrt(unsure)
    deviation = math.sqrt(noise * ahead + unsure * ahead * ahead)
    skewness = (z * z - 1.0) / 6.0  # Cornish and Fisher's term; outcomes lie in [0, 1]
    room = (allowance - low * ahead - skewness) / deviation
    if room < z:
        return LATE
    return low + 0.5 * (room + math.sqrt(room * room - z * z)) * deviation / ahead


# What exploring costs.


def _take_care(parts: Parts, weight: float) -> None:
    """Move drawn penalty rates to cautious ones: at the end of a budget nothing is to be learnt."""
    for i in range(len(parts.penalty)):
        parts.penalty[i] += weight * (parts.cautious[i] - parts.penalty[i])


def _owed(parts: Parts) -> float:
    """The chance to pull the safest mixture instead, so that what is promised is kept on average.

    The mixture was chosen by drawn rates, and looks better by them than it is. What it is expected
    to incur beyond the promise is made up for, the more the nearer the promise has come from the
    limit itself to the least that can be promised: there is no need to pay as long as the
    allowance is whole.
    """
    limited, owed = len(parts.limits), 0.0
    for m in range(limited):
        promised, limit = parts.promised[m], parts.limits[m]
        rate, low = _expected(parts, parts.work, m), _expected(parts, parts.safest, m)
        if rate > promised and rate > low and limit > promised:
            worn = min((limit - promised) / max(limit - low, limit - promised), 1.0)
            owed = max(owed, worn * (rate - promised) / (rate - low))
    return owed


def _expected(parts: Parts, mixture: Array, m: int) -> float:
    """The rate of penalty m that a mixture is expected to have."""
    limited, count = len(parts.limits), len(parts.cost)
    rate = total = 0.0
    for i in range(limited + 1):
        arm = int(mixture[limited + 1 + i])
        if 0 <= arm < count:
            rate += mixture[i] * parts.rate[arm * limited + m]
            total += mixture[i]
    return rate / total
