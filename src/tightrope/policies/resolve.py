"""resolve: at every step, solve for the best mixture with sampled means and what is left.

One step, for K arms and M limits, a remaining budget b and remaining allowances a_m (limit times
budget, minus the penalty so far):

1. draw every arm's mean cost, reward and penalties from their posterior beliefs;
2. find the mixture of arms that is safest by cautious estimates, and the mean and deviation of its
   penalty over the rest of the budget;
3. take as the target the largest penalty rate from which that mixture could still rescue the
   limit, z deviations away from too late; if it is too late already, only minimise the violation;
4. pull an arm of the best mixture of the drawn means that keeps this rate; if its expected penalty
   exceeds the target, pull an arm of the safest mixture from time to time.

Everything is in normalised units: outcomes in [0, 1], rates per unit of cost.
``docs/resolve-algorithm.md`` derives the formulas and lists which are proved, argued or measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, NamedTuple

from tightrope.policies.base import Constants, Policy, Setup, limits_of
from tightrope.policies.choice import ChoicePolicy, hashed
from tightrope.policies.parts.beliefs import (
    COIN,
    KNOWN,
    MORE,
    NOT_NEGATIVE,
    SIZE,
    Arms,
    believe,
    draw_for_many,
    draw_for_one,
    learn,
)
from tightrope.policies.parts.deviations import CALM, barrier, curse
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
from tightrope.policies.parts.rescue import (
    LATE,
    Outlook,
    be_hopeful,
    can_rescue,
    chance_owed,
    cost_ahead,
    excess_of,
    known_cost,
    large_penalty,
    pending,
    safe_rate,
    size_of,
    skewness,
    take_care,
)
from tightrope.policies.state import Array, State, rows
from tightrope.problem import Known, Task

SHUT = 1e-6  # limits times this: no mixture keeps them, so the program violates least

# Chosen by measurement over many problems; docs/resolve-algorithm.md lists them.
LEAST_LIMIT = 0.001  # of a limit: the target rate when nothing is left of its allowance
LOOKS = 0.25  # over the number of the step: the chance to pull an arm at random
LEFT = 0.5  # of the budget and of every allowance: must be left for such a pull
RISKED = 0.01  # of the remaining allowance: the largest part that it may put at risk
MOST_IN_A_BLOCK = 1_000_000  # pulls that count as one
WIDE, WIDER = 0.02, 2.0  # in this share of the steps, draws are wider by this factor


class ResolveScratch(NamedTuple):
    """The policy's memory besides the counts."""

    budget: Annotated[Array, 1]  # at the start
    promised: Annotated[Array, "M"]  # the target rates, which the mixture must keep
    safe: Annotated[Array, "M"]  # the largest from which the safest mixture can rescue
    arms: Arms
    safest: Mixture
    program: Program


def _learn(constants: Constants, state: State, scratch: ResolveScratch, row: int) -> None:
    """Renew the beliefs about the arm just pulled."""
    learn(constants, state, scratch.arms, row, len(state.limits))


def _learn_for_one(constants: Constants, state: State, scratch: ResolveScratch, row: int) -> None:
    """The same, under one limit."""
    learn(constants, state, scratch.arms, row, 1)


@dataclass(frozen=True)
class Resolve(ChoicePolicy):
    """At every step, play the best mixture of sampled arms for the remaining budget and allowances.

    ``risk``: the largest chance, between 0 and 1, of breaking a limit: a promise if the task
    declares a safe arm, otherwise a target; ``None`` keeps the limits on average, which earns a
    little more. ``mu_min``: a lower bound on the mean costs, in units of the largest cost; ``None``
    if unknown.

    For arms that change, use one of ``window0``, ``discount0`` or ``watch``. ``window0`` and
    ``discount0`` learn from about that many times sqrt(B log B) pulls, see ``forgetting``.
    ``watch`` is the false-alarm probability per arm of a test for changed arms; after an alarm, the
    arm's older pulls are dropped. ``watch_block``: the number of successive pulls that count as one
    in this test, if outcomes resemble the last one (see ``parts.watch``).

    >>> Resolve(risk=0.01).label  # its name in the shell
    'resolve:risk=0.01'
    """

    risk: float | None = None
    mu_min: float | None = None
    window0: float | None = None
    discount0: float | None = None
    watch: float | None = None
    watch_block: float = 1

    name = "resolve"
    summary = "re-solves the best mixture of sampled arms against what is left"
    contestants = ("resolve", "resolve:risk=0.01")
    forgetful = ("resolve:window0=2", "resolve:discount0=2", "resolve:watch=0.01")
    colour = "#d1006c"

    Scratch: ClassVar[type] = ResolveScratch
    seldom: ClassVar[tuple[str, ...]] = ("arms.more", "safest", "program")
    learn = staticmethod(_learn)

    def __post_init__(self) -> None:
        self.require_number("risk", 0.0, open_low=True, below=1.0, optional=True)
        self.require_number("mu_min", 0.0, open_low=True, optional=True)
        self.require("mu_min", "at most 1, the largest cost", (self.mu_min or 0.0) <= 1.0)
        require_forgetting(self)
        self.require_number("watch", 0.0, open_low=True, below=1.0, optional=True)
        self.require_number("watch_block", 1.0)
        whole = self.watch_block % 1 == 0 and self.watch_block <= MOST_IN_A_BLOCK
        self.require("watch_block", f"a whole number from 1 to {MOST_IN_A_BLOCK:,}", whole)
        idle = self.watch is None and self.watch_block > 1
        self.require("watch_block", "1 without watch", not idle)
        forgets = (self.window0, self.discount0) != (None, None)
        self.require("watch", "none with window0 or discount0", self.watch is None or not forgets)

    def for_task(self, known: Known) -> Policy:
        """The form for features, types or numbers, or the guarded policy, or itself.

        The guard needs a risk, a limit and a declared safe arm.
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        spaced = known.stated.space is not None
        if known.stated.feature_columns and spaced:
            from tightrope.policies.smooth_featured import SmoothFeaturedResolve

            return SmoothFeaturedResolve(**values)
        if known.stated.feature_columns:
            from tightrope.policies.featured import FeaturedResolve

            return FeaturedResolve(**values)
        guarded, typed = self._guarded(known), known.stated.contexts is not None
        if guarded:
            from tightrope.policies.guarded import GuardedResolve, GuardedTypedResolve

            return (GuardedTypedResolve if typed else GuardedResolve)(**values)
        if typed and spaced:
            from tightrope.policies.smooth_typed import SmoothTypedResolve

            return SmoothTypedResolve(**values)
        if typed:
            from tightrope.policies.typed import TypedResolve

            return TypedResolve(**values)
        if spaced:
            from tightrope.policies.smooth import SmoothResolve

            return SmoothResolve(**values)
        return self

    def _guarded(self, known: Known) -> bool:
        """Whether the guard can be used: with a risk, a limit, a declared safe arm."""
        task = known.stated
        if self.risk is None or task.safe is None or not task.penalty_count:
            return False
        return self._no_promise(task) is None

    def setup(self, task: Task, budget: float) -> Setup:
        """The barrier z, the curse kappa, the least mean cost."""
        z = CALM if self.risk is None else barrier(self.risk, budget, task.penalty_count)
        window, fade = window_and_fade(self, budget, task.scales.cost)
        return Setup(
            constants=(z, curse(task.arm_count), self.mu_min or 0.0),
            allowance=limits_of(task),
            window=window,
            fade=fade,
            watch=self.watch or 0.0,
            watch_block=int(self.watch_block),
            warning=self._no_promise(task),
        )

    def _no_promise(self, task: Task) -> str | None:
        """A warning if a risk and a safe arm are given, but the guard cannot be used."""
        if self.risk is None or task.safe is None:
            return None
        aimed, guard = f"risk = {self.risk:g} is only a target", "the guard of a safe arm"
        if which := task.not_safe:
            return f"policy resolve: {which}: the safe arm {task.safe!r} breaks it, so {aimed}"
        if task.scales.grow:
            return f"policy resolve: {guard} relies on scales that do not grow, so {aimed}"
        if task.contexts is not None and (missing := task.safe_rates_missing):
            return (
                f"policy resolve: {guard} needs safe_rates of {missing[0]!r} that hold for every"
                f" type of request, so {aimed}"
            )
        for name in ("window0", "discount0", "watch"):
            if (value := getattr(self, name)) is not None:
                return (
                    f"policy resolve: {name} = {value:g} is for arms that change, so the safe "
                    f"arm {task.safe!r} is not used: {aimed}"
                )
        return None

    @staticmethod
    def begin(constants: Constants, state: State, scratch: ResolveScratch) -> None:
        """Record the budget; start with the prior beliefs about every arm."""
        scratch.budget[0] = state.remaining[0]
        believe(constants, state, scratch.arms)

    @classmethod
    def renew(cls, constants: Constants, state: State, scratch: ResolveScratch) -> None:
        """Compute the beliefs about every arm from the state."""
        believe(constants, state, scratch.arms)

    @staticmethod
    def choose(constants: Constants, state: State, scratch: ResolveScratch, words: Array) -> int:
        """An arm of the best mixture of drawn means that keeps the target rate."""
        if len(state.limits) == 1:
            return _choose_for_one(constants, state, scratch, words)
        return _choose_for_many(constants, state, scratch, words)

    @classmethod
    def functions(cls, penalties: int | None = None) -> tuple[Callable[..., Any], ...]:
        """The functions that kernels compile; far fewer for one limit."""
        if penalties == 1:
            return (cls.begin, _choose_for_one, _learn_for_one)
        return (cls.begin, cls.choose if penalties is None else _choose_for_many, cls.learn)


# Draws.


def noise_left(state: State, scratch: Any) -> float:
    """The share of noise left, from 1 to 0.

    Information is only useful for the remaining budget, so draws come closer to the expectations as
    the budget runs out.
    """
    return math.sqrt(max(state.remaining[0], 0.0) / scratch.budget[0])


def widened(noise: float, words: Array) -> float:
    """The noise of a step: in some steps draws are wider than the belief.

    An arm that looked bad by chance is then tried again even late in a long run.
    """
    return noise * WIDER if hashed(words[1], 1) * COIN < WIDE else noise


def look_around(
    constants: Constants, state: State, scratch: Any, words: Array, first: int, count: int
) -> int:
    """A random arm at step t with the chance ``LOOKS`` / t; -1 otherwise or if it risks too much.

    It is one of ``count`` rows from ``first`` on: all arms, or those for a type of requests. Every
    arm is then pulled infinitely often as the budget grows, whatever its first outcomes;
    docs/promises.md uses this to prove that regret is o(B).
    """
    if hashed(words[1], 2) * COIN * (state.steps[0] + 1.0) >= LOOKS:
        return -1
    arm = first + int(hashed(words[1], 3) * COIN * count)
    if state.remaining[0] < LEFT * scratch.budget[0]:
        return -1
    for m in range(len(state.limits)):
        left, whole = state.remaining[1 + m], state.limits[m] * scratch.budget[0]
        risked = large_penalty(constants, size_of(state, scratch.arms, arm, m))
        if left < LEFT * whole or risked > RISKED * left:
            return -1
    return arm


def _weigh(
    constants: Constants,
    state: State,
    scratch: ResolveScratch,
    standing: float,
    noise: float,
    limited: int,
    apart: int,
) -> None:
    """If it is late, replace drawn penalty rates, by optimistic ones if there is a risk."""
    arms = scratch.arms
    if standing < 0.0 and constants[0] > CALM:
        ahead = cost_ahead(state, arms)
        be_hopeful(
            apart, constants, state, arms, scratch.budget[0], ahead, limited, 0, len(arms.cost)
        )
    elif standing == LATE:
        take_care(arms.penalty, arms.cautious, 1.0 - noise)


# One limit: the safest mixture is one arm, and the best one has at most two.


def _choose_for_one(
    constants: Constants, state: State, scratch: ResolveScratch, words: Array
) -> int:
    """An arm, under one limit."""
    look = look_around(constants, state, scratch, words, 0, len(rows(state)))
    if look >= 0:
        return look
    noise = noise_left(state, scratch)
    draw_for_one(constants, state, scratch.arms, words[0], widened(noise, words))
    return decide_for_one(constants, state, scratch, words, noise, len(scratch.arms.cost))


def decide_for_one(
    constants: Constants, state: State, scratch: Any, words: Array, noise: float, apart: int
) -> int:
    """An arm by the drawn means, under one limit; ``apart``: see ``be_hopeful``."""
    arms = scratch.arms
    allowance, limit, ahead = state.remaining[1], state.limits[0], cost_ahead(state, arms)
    safest = _least(arms.cautious) & NOT_NEGATIVE
    low, spread, size = arms.rate[safest], arms.spread[safest], arms.more[MORE * safest + SIZE]
    unsure = spread / known_cost(arms.more[MORE * safest + KNOWN], ahead, apart)
    reserve, outlook = skewness(constants, size), (low, spread, unsure)
    reserve += pending(constants, state, arms, 0)
    safe = safe_rate(constants, outlook, reserve, allowance, ahead)
    promised = max(safe, LEAST_LIMIT * limit)
    if safe < 0.0:
        promised = SHUT * max(allowance / ahead, LEAST_LIMIT * limit)
    _weigh(constants, state, scratch, safe, noise, 1, apart)
    scratch.safe[0], scratch.promised[0] = safe, promised
    pair = best_pair(arms.reward, arms.penalty, promised)
    if safe >= 0.0 and promised < limit:
        owed = chance_owed(limit, promised, rate_of_pair(pair, arms.rate), low)
        if hashed(words[1], 0) * COIN < owed:
            return safest
    arm = pick_of_pair(pair, arms.cost, words[1] * COIN) & NOT_NEGATIVE
    excess = excess_of(constants, arms.more[MORE * arm + SIZE], size)
    if not (safe >= 0.0 and excess > 0.0):
        return arm
    bearable = can_rescue(constants, outlook, reserve + excess, allowance, ahead)
    return arm if bearable else safest


def _least(numbers: Array) -> int:
    """The place of the smallest."""
    place, least = 0, numbers[0]
    for at in range(1, len(numbers)):
        if numbers[at] < least:
            place, least = at, numbers[at]
    return place


# Any number of limits.


def _choose_for_many(
    constants: Constants, state: State, scratch: ResolveScratch, words: Array
) -> int:
    """An arm, under any number of limits."""
    look = look_around(constants, state, scratch, words, 0, len(rows(state)))
    if look >= 0:
        return look
    noise, arms = noise_left(state, scratch), scratch.arms
    noisy, limited = widened(noise, words), len(state.limits)
    draw_for_many(constants, state, arms, words[0], noisy, limited, 0, len(arms.cost))
    return decide_for_many(constants, state, scratch, words, noise, len(arms.cost))


def decide_for_many(
    constants: Constants, state: State, scratch: Any, words: Array, noise: float, apart: int
) -> int:
    """An arm by the drawn means, under any number of limits; ``apart``: see ``be_hopeful``."""
    arms = scratch.arms
    standing = _promise(constants, state, scratch, apart)
    _weigh(constants, state, scratch, standing, noise, len(state.limits), apart)
    simplex(arms.reward, arms.penalty, scratch.promised, scratch.program)
    mixture, owed = scratch.program.mixture, 0.0
    if standing >= 0.0:
        for m in range(len(state.limits)):
            rate, low = rate_of(mixture, arms.rate, m), rate_of(scratch.safest, arms.rate, m)
            owed = max(owed, chance_owed(state.limits[m], scratch.promised[m], rate, low))
    if hashed(words[1], 0) * COIN < owed:
        return pick(scratch.safest, arms.cost, words[1] * COIN)
    arm = pick(mixture, arms.cost, words[1] * COIN)
    if standing >= 0.0 and not _bearable(constants, state, scratch, arm, apart):
        return pick(scratch.safest, arms.cost, words[1] * COIN)
    return arm


def _promise(constants: Constants, state: State, scratch: ResolveScratch, apart: int) -> float:
    """The penalty rates that the mixture must keep; rates that no mixture can keep, if too late.

    Returns ``LATE`` or ``LOST`` if some limit is, otherwise a number of at least 0.
    """
    arms, promised, remaining = scratch.arms, scratch.promised, state.remaining
    limits, limited = state.limits, len(state.limits)
    if limited == 0:
        return 0.0
    ahead, standing = cost_ahead(state, arms), math.inf
    for m in range(limited):
        promised[m] = SHUT * max(remaining[1 + m] / ahead, LEAST_LIMIT * limits[m])
    _find_safest(scratch)
    for m in range(limited):
        outlook = _of_safest(state, scratch, m, ahead, apart)
        reserve = skewness(constants, _size_of_safest(state, scratch, m))
        reserve += pending(constants, state, arms, m)
        safe = safe_rate(constants, outlook, reserve, remaining[1 + m], ahead)
        scratch.safe[m], standing = safe, min(standing, safe)
    for m in range(limited):
        if standing >= 0.0:
            promised[m] = max(scratch.safe[m], LEAST_LIMIT * limits[m])
    return standing


def _find_safest(scratch: ResolveScratch) -> None:
    """The mixture with the lowest cautious rates, relative to the target rates."""
    arms = scratch.arms
    simplex(arms.reward, arms.cautious, scratch.promised, scratch.program)
    found, safest, total = scratch.program.mixture, scratch.safest, 0.0
    for i in range(len(found.arms)):
        if 0 <= found.arms[i] < len(arms.cost):
            total += found.shares[i]
    for i in range(len(found.arms)):
        safest.shares[i], safest.arms[i] = found.shares[i] / total, found.arms[i]


def _of_safest(state: State, scratch: ResolveScratch, m: int, ahead: float, apart: int) -> Outlook:
    """The outlook of the safest mixture for limit m."""
    arms, safest = scratch.arms, scratch.safest
    limited, count = len(state.limits), len(arms.cost)
    expected = noise = unsure = 0.0
    for i in range(len(safest.arms)):
        arm = int(safest.arms[i])
        if 0 <= arm < count:
            share, at = safest.shares[i], arm * limited + m
            expected += share * arms.rate[at]
            noise += share * arms.spread[at]
            known = known_cost(arms.more[MORE * at + KNOWN], ahead, apart)
            unsure += share * share * arms.spread[at] / known
    return expected, noise, unsure


def _size_of_safest(state: State, scratch: ResolveScratch, m: int) -> float:
    """The largest usual size of penalty m in the safest mixture."""
    arms, safest, size = scratch.arms, scratch.safest, 0.0
    for i in range(len(safest.arms)):
        arm = int(safest.arms[i])
        if 0 <= arm < len(arms.cost):
            size = max(size, size_of(state, arms, arm, m))
    return size


def _bearable(
    constants: Constants, state: State, scratch: ResolveScratch, row: int, apart: int
) -> bool:
    """Whether every limit can still be rescued after a large penalty of this arm."""
    for m in range(len(state.limits)):
        size = _size_of_safest(state, scratch, m)
        excess = excess_of(constants, size_of(state, scratch.arms, row, m), size)
        if excess > 0.0:
            ahead, allowance = cost_ahead(state, scratch.arms), state.remaining[1 + m]
            reserve = skewness(constants, size) + excess
            reserve += pending(constants, state, scratch.arms, m)
            outlook = _of_safest(state, scratch, m, ahead, apart)
            if not can_rescue(constants, outlook, reserve, allowance, ahead):
                return False
    return True
