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
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np

from tightrope.policies.base import Constants, Setup, limits_of
from tightrope.policies.choice import ChoicePolicy, hashed
from tightrope.policies.memory import memory_at, require_memory
from tightrope.policies.mixture import Mixture, Program, best_mixture, pick
from tightrope.policies.state import Array, State

if TYPE_CHECKING:
    from tightrope.problem import Task

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


class Plan(NamedTuple):
    """The policy's scratch."""

    budget: Annotated[Array, 1]  # at the start
    limits: Annotated[Array, "M"]  # c_m
    promised: Annotated[Array, "M"]  # the penalty rates that the mixture has to keep
    safe: Annotated[Array, "M"]  # the largest from which the safest mixture can rescue
    scale: Annotated[Array, "K", "C"]  # the belief about the mean of each channel
    width: Annotated[Array, "K", "C"]  # likewise; see _sample
    rate: Annotated[Array, "K", "M"]  # penalty rate, expected
    spread: Annotated[Array, "K", "M"]  # variance of Y - rate X, per unit of cost
    cautious: Annotated[Array, "K", "M"]  # penalty rate, less optimistic the less is known
    cost: Annotated[Array, "K"]  # drawn mean
    reward: Annotated[Array, "K"]  # drawn rate
    penalty: Annotated[Array, "K", "M"]  # drawn rates
    safest: Mixture
    program: Program


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
    contestants: ClassVar[tuple[str, ...]] = ("resolve", "resolve:risk=0.01")
    forgetful: ClassVar[tuple[str, ...]] = ("resolve:window0=2", "resolve:discount0=2")
    colour: ClassVar[str | None] = "#d1006c"

    Scratch: ClassVar[type] = Plan

    def __post_init__(self) -> None:
        self.require_number("risk", 0.0, open_low=True, optional=True)
        self.require("risk", "a number between 0 and 1, or none", (self.risk or 0.0) < 1.0)
        self.require_number("mu_min", 0.0, open_low=True, optional=True)
        self.require("mu_min", "at most 1, the largest cost", (self.mu_min or 0.0) <= 1.0)
        require_memory(self)

    def setup(self, task: Task, budget: float) -> Setup:
        """The barrier z, the curse kappa, the least mean cost."""
        z = CALM if self.risk is None else barrier(self.risk, budget, task.penalty_count)
        window, fade = memory_at(self, budget)
        return Setup(
            constants=(z, curse(task.arm_count), self.mu_min or 0.0),
            allowance=limits_of(task),
            window=window,
            fade=fade,
        )

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Plan) -> None:
        """Note the budget and the limits; believe of every arm what is believed of a new one."""
        scratch.budget[0] = state.remaining[0]
        for m in range(len(scratch.limits)):
            scratch.limits[m] = state.remaining[1 + m] / state.remaining[0]
        for arm in range(len(state.pulls)):
            _renew(constants, state, scratch, arm)

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Plan, words: Array) -> int:
        """An arm of the best mixture of drawn means that keeps a rate that is safe to promise."""
        noise = math.sqrt(max(state.remaining[0], 0.0) / scratch.budget[0])
        _draw(constants, scratch, words[0], noise)
        standing = _promise(constants, state, scratch)
        if standing == LATE:
            _take_care(scratch, 1.0 - noise)
        best_mixture(scratch.reward, scratch.penalty, scratch.promised, scratch.program)
        if standing >= 0.0 and hashed(words[1], 0) * COIN < _owed(scratch):
            return pick(scratch.safest, scratch.cost, words[1] * COIN)
        return pick(scratch.program.mixture, scratch.cost, words[1] * COIN)

    @staticmethod
    def learn(constants: Constants, state: State, scratch: Plan, arm: int) -> None:
        """Renew the belief about the arm just pulled."""
        _renew(constants, state, scratch, arm)


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


# What is believed about an arm.


def _renew(constants: Constants, state: State, plan: Plan, arm: int) -> None:
    """What is believed about an arm, from all that it has shown."""
    limited = len(plan.limits)
    first = arm * (2 + limited)
    pulls, cost, square = state.pulls[arm], state.totals[first], state.squares[first]
    mean_cost = _believe(pulls, cost, square, plan, first)
    _believe(pulls, state.totals[first + 1], state.squares[first + 1], plan, first + 1)
    for m in range(limited):
        penalty_square = state.squares[first + 2 + m]
        mean = _believe(pulls, state.totals[first + 2 + m], penalty_square, plan, first + 2 + m)
        rate, at = mean / mean_cost, arm * limited + m
        spread = _spread(rate, cost, square, penalty_square, state.products[at])
        plan.rate[at], plan.spread[at] = rate, spread
        plan.cautious[at] = rate + constants[1] * math.sqrt(spread / (cost + 1.0))


def _believe(pulls: float, total: float, square: float, plan: Plan, at: int) -> float:
    """Note the belief about a mean, as scale and width (see :func:`_sample`); its expectation.

    Two outcomes are added to those seen, a 0 and a 1. Where all are 0 or 1, mean and variance are
    those of Beta(1 + total, 1 + pulls - total); elsewhere the variance is the empirical one. The
    shape is a gamma law's, seen from the nearer end of [0, 1], by its cube root, which is nearly
    normal (Wilson and Hilferty). Both numbers are negative where the nearer end is 1.
    """
    weight = pulls + 2.0
    mean = (total + 1.0) / weight
    variance = max((square + 1.0) / weight - mean * mean, LEAST_VARIANCE) / (weight + 1.0)
    near = mean <= 0.5
    base = mean if near else 1.0 - mean
    width = math.sqrt(variance) / (3.0 * base)
    plan.scale[at] = base if near else -base
    plan.width[at] = width if near else -width
    return _mean(plan.scale[at])


def _mean(scale: float) -> float:
    """The expectation of a mean."""
    return scale if scale > 0.0 else 1.0 + scale


def _spread(
    rate: float, cost: float, cost_square: float, penalty_square: float, product: float
) -> float:
    """The variance of Y - rate X per unit of cost; two pulls are added, all of 0 and 1."""
    squares = penalty_square + 1.0 + rate * rate * (cost_square + 1.0)
    return (squares - 2.0 * rate * (product + 0.5)) / (cost + 1.0)


# Draws.


def _draw(constants: Constants, plan: Plan, word: int, noise: float) -> None:
    """Draw every arm's means, and from them its rates; ``noise``, from 1 to 0, narrows beliefs."""
    limited, scale, width = len(plan.limits), plan.scale, plan.width
    words = (1 + limited) // DRAWS + 1  # an arm
    at = 0
    for arm in range(len(plan.cost)):
        random = hashed(word, arm * words)
        least = max(FLOOR * _mean(scale[at]), constants[2])
        cost = max(_sample(scale[at], width[at], noise, random), least)
        plan.cost[arm] = cost
        random = random >> BITS
        plan.reward[arm] = _sample(scale[at + 1], width[at + 1], noise, random) / cost
        at += 2
        for m in range(limited):
            random = random >> BITS
            if (2 + m) % DRAWS == 0:
                random = hashed(word, arm * words + (2 + m) // DRAWS)
            plan.penalty[arm * limited + m] = _sample(scale[at], width[at], noise, random) / cost
            at += 1


def _sample(scale: float, width: float, noise: float, random: int) -> float:
    """A draw of a mean, in [0, 1], by the last ``BITS`` of a random word."""
    normal = noise * NORMAL[random & (CELLS - 1)]
    root = max((1.0 - width * width) + width * normal, 0.0)
    drawn: float = (0.0 if scale > 0.0 else 1.0) + scale * root * root * root
    return min(max(drawn, 0.0), 1.0)


# What is safe to promise.


def _promise(constants: Constants, state: State, plan: Plan) -> float:
    """The penalty rates that the mixture has to keep; rates that none can keep, if too late.

    Returns ``LATE`` or ``LOST`` if some limit is, else a number of at least 0.
    """
    limited, promised, remaining = len(plan.limits), plan.promised, state.remaining
    ahead = _ahead(state)
    for m in range(limited):
        promised[m] = max(remaining[1 + m] / ahead, LEAST_LIMIT * plan.limits[m])
    if limited == 0:
        return 0.0
    _find_safest(plan)
    standing = math.inf
    for m in range(limited):
        plan.safe[m] = _safe_rate(constants, state, plan, m, remaining[1 + m], ahead)
        standing = min(standing, plan.safe[m])
    for m in range(limited):
        if standing < 0.0:
            promised[m] *= SHUT
        else:
            promised[m] = max(plan.safe[m], LEAST_LIMIT * plan.limits[m])
    return standing


def _ahead(state: State) -> float:
    """The cost still to come: the budget left and, by Lorden's bound, the last pull's excess."""
    cost, squares, channels = 1.0, 1.0, len(state.remaining) + 1
    for arm in range(len(state.pulls)):
        cost += state.totals[arm * channels]
        squares += state.squares[arm * channels]
    return state.remaining[0] + squares / cost  # type: ignore[no-any-return]


def _find_safest(plan: Plan) -> None:
    """The mixture with the least cautious rates, relative to what is promised."""
    limited, count = len(plan.limits), len(plan.cost)
    shares, arms = plan.safest.shares, plan.safest.arms
    if limited == 1:
        best = 0
        for arm in range(1, count):
            if plan.cautious[arm] < plan.cautious[best]:
                best = arm
        shares[0], shares[1], arms[0], arms[1] = 1.0, 0.0, best, -1.0
        return
    for m in range(limited):
        plan.promised[m] *= SHUT
    best_mixture(plan.reward, plan.cautious, plan.promised, plan.program)
    found, total = plan.program.mixture, 0.0
    for i in range(limited + 1):
        if 0 <= found.arms[i] < count:
            total += found.shares[i]
    for i in range(limited + 1):
        shares[i], arms[i] = found.shares[i] / total, found.arms[i]
    for m in range(limited):
        plan.promised[m] /= SHUT


def _safe_rate(
    constants: Constants, state: State, plan: Plan, m: int, allowance: float, ahead: float
) -> float:
    """The largest rate of penalty m from which the safest mixture can rescue; LATE or LOST.

    If only the safest mixture is pulled from here on, the allowance ends ``room`` deviations
    above 0 on average. The plan that keeps a steady rate comes nearest to the barrier on its way,
    not at its end: there it has z deviations left at the rate returned.
    """
    z, kappa = constants[0], constants[1]
    limited, count = len(plan.limits), len(plan.cost)
    learning = min(LEARNING, 1.0 / count)
    expected = noise = unsure = 0.0
    for i in range(limited + 1):
        arm = int(plan.safest.arms[i])
        if 0 <= arm < count:
            share, spread = plan.safest.shares[i], plan.spread[arm * limited + m]
            known = max(state.totals[arm * (2 + limited)] + 1.0, learning * ahead)
            expected += share * plan.rate[arm * limited + m]
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


def _take_care(plan: Plan, weight: float) -> None:
    """Move drawn penalty rates to cautious ones: at the end of a budget nothing is to be learnt."""
    for i in range(len(plan.penalty)):
        plan.penalty[i] += weight * (plan.cautious[i] - plan.penalty[i])


def _owed(plan: Plan) -> float:
    """The chance to pull the safest mixture instead, so that what is promised is kept on average.

    The mixture was chosen by drawn rates, and looks better by them than it is. What it is expected
    to incur beyond the promise is made up for, the more the nearer the promise has come from the
    limit itself to the least that can be promised: there is no need to pay as long as the
    allowance is whole.
    """
    owed = 0.0
    for m in range(len(plan.limits)):
        promised, limit = plan.promised[m], plan.limits[m]
        rate, low = _expected(plan, plan.program.mixture, m), _expected(plan, plan.safest, m)
        if rate > promised and rate > low and limit > promised:
            worn = min((limit - promised) / max(limit - low, limit - promised), 1.0)
            owed = max(owed, worn * (rate - promised) / (rate - low))
    return owed


def _expected(plan: Plan, mixture: Mixture, m: int) -> float:
    """The rate of penalty m that a mixture is expected to have."""
    limited, count = len(plan.limits), len(plan.cost)
    rate = total = 0.0
    for i in range(limited + 1):
        arm = int(mixture.arms[i])
        if 0 <= arm < count:
            rate += mixture.shares[i] * plan.rate[arm * limited + m]
            total += mixture.shares[i]
    return rate / total
