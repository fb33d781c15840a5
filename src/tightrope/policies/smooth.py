"""resolve for arms that are numbers: what runs in its place where a task has a space.

The decision is that of ``resolve``. What differs is the belief: a smooth curve over the numbers for
the cost, the reward and each penalty (``parts.splines``), so a report of one number also informs
about its neighbours. A draw is a whole curve. There is no caution against the luckiest of many
estimates: the points of a smooth curve are not independent, and caution favours numbers with
little noise, such as a bid of 0, that cannot make up for a penalty.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, NamedTuple, cast

from tightrope.policies.base import Constants, Policy, Setup
from tightrope.policies.parts.beliefs import KNOWN, MORE, Arms
from tightrope.policies.parts.deviations import CALM
from tightrope.policies.parts.mixture import Mixture, Program
from tightrope.policies.parts.rescue import LOST, cost_ahead, room_above
from tightrope.policies.parts.splines import (
    Curves,
    begin_curves,
    draw_curves,
    fit_curves,
    shape_of_grid,
)
from tightrope.policies.resolve import (
    Resolve,
    decide_for_many,
    decide_for_one,
    look_around,
    noise_left,
    widened,
)
from tightrope.policies.state import Array, State
from tightrope.policies.typed import TypedResolve
from tightrope.problem import Known, Space, Task

NO_CURSE = 0.0  # deviations by which a cautious rate is higher than the expected one
SPLINES = {1: 14, 2: 8, 3: 4}  # along a side, at most, by the number of sides
ROOM = 7  # numbers per point for a band of the splines' matrix


class SmoothScratch(NamedTuple):
    """The policy's memory besides the counts; see ``ResolveScratch``."""

    budget: Annotated[Array, 1]
    promised: Annotated[Array, "M"]
    safe: Annotated[Array, "M"]
    arms: Arms
    safest: Mixture
    program: Program
    curves: Curves


@dataclass(frozen=True)
class SmoothResolve(Resolve):
    """``resolve`` for numbers; see :class:`Resolve`."""

    spatial: ClassVar[bool] = True
    Scratch: ClassVar[type] = SmoothScratch
    short: ClassVar[bool] = False
    seldom: ClassVar[tuple[str, ...]] = ("arms.more", "safest", "program", "curves")

    def for_task(self, known: Known) -> Policy:
        """Itself."""
        return self

    def setup(self, task: Task, budget: float) -> Setup:
        """As ``resolve`` for one type of requests; then the grid."""
        return over_grid(task, TypedResolve.setup(self, task, budget))  # type: ignore[arg-type]

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Any) -> None:
        """Record the budget; start with the prior beliefs."""
        scratch.budget[0] = state.remaining[0]
        begin_curves(constants, scratch.curves)
        fit_curves(constants, state, scratch.arms, scratch.curves, len(state.limits), True)

    @classmethod
    def renew(cls, constants: Constants, state: State, scratch: Any) -> None:
        """Compute the beliefs from the state."""
        fit_curves(constants, state, scratch.arms, scratch.curves, len(state.limits), True)

    @staticmethod
    def learn(constants: Constants, state: State, scratch: Any, row: int) -> None:
        """Renew the curves."""
        steps = int(state.steps[0])
        anew = steps & (steps - 1) == 0 or steps & 255 == 0
        fit_curves(constants, state, scratch.arms, scratch.curves, len(state.limits), anew)

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Any, words: Array) -> int:
        """An arm of the best mixture of drawn curves that keeps a rate that is safe to promise."""
        look = look_around(constants, state, scratch, words, 0, len(state.pulls))
        if look >= 0:
            return look
        noise, limited = noise_left(state, scratch), len(state.limits)
        wide = widened(noise, words)
        arms, curves = scratch.arms, scratch.curves
        last = len(state.pulls)
        draw_curves(constants, state, arms, curves, curves, words[0], wide, 0, last, False)
        apart = shape_of_grid(constants)[0]  # what is learned of a curve are its splines' weights
        if limited == 1:
            arm = decide_for_one(constants, state, scratch, words, noise, apart)
        else:
            arm = decide_for_many(constants, state, scratch, words, noise, apart)
        standing = 0.0
        for m in range(limited):
            standing = min(standing, scratch.safe[m])
        return likeliest(constants, state, arms, 0, last, arm, standing)

    @classmethod
    def functions(cls, penalties: int | None = None) -> tuple[Callable[..., Any], ...]:
        """The functions that kernels compile."""
        return (cls.begin, cls.choose, cls.learn)


def likeliest(
    constants: Constants,
    state: State,
    arms: Arms,
    first: int,
    last: int,
    otherwise: int,
    standing: float,
) -> int:
    """Where a limit is lost and there is a risk: the row most likely to keep it yet, all alone.

    The least penalties are those of numbers that do nothing, such as a bid of 0, which cannot make
    up for anything. ``otherwise``: the row if even the luck of the barrier would not be enough, or
    no limit is lost. Rows are from ``first`` to ``last`` - 1; of several limits, the worst counts.
    """
    if standing != LOST or constants[0] <= CALM:
        return otherwise
    found, most, ahead = otherwise, -constants[0], cost_ahead(state, arms)
    limited = len(state.limits)
    for row in range(first, last):
        room = math.inf
        for m in range(limited):
            at = row * limited + m
            noise, known = arms.spread[at], arms.more[MORE * at + KNOWN]
            outlook = (arms.rate[at], noise, noise / known)
            room = min(room, room_above(constants, outlook, 0.0, state.remaining[1 + m], ahead))
        if room > most:
            found, most = row, room
    return found


def over_grid(task: Task, setup: Setup) -> Setup:
    """No curse; then the number of sides, the points and the splines of each."""
    z, _, *others = setup.constants
    space = cast(Space, task.space)
    grid = (float(space.side_count), float(space.points or 0), float(splines_of(space)))
    return replace(setup, constants=(z, NO_CURSE, *others, *grid))


def splines_of(space: Space) -> int:
    """The number of splines along a side: as many as fit the policy's memory."""
    sides, points = space.side_count, space.points or 0
    for count in range(min(SPLINES[sides], points), 4, -1):
        width = sum(3 * count**side for side in range(sides))
        if count**sides * (width + 1) <= ROOM * points**sides:
            return count
    return 4
