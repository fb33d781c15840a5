"""resolve for numbers and requests with types: what runs where a task has both.

The decision is that of ``typed``: prices of the budget and of each limit, solved over the types,
and the number that is best for the request's type at these prices. The belief is a curve for every
type (``parts.typed_curves``), and a draw is a whole curve, as in ``smooth``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

from tightrope.policies.base import Constants, Setup
from tightrope.policies.choice import WORDS
from tightrope.policies.parts.beliefs import KNOWN, MORE, Arms
from tightrope.policies.parts.deviations import CALM
from tightrope.policies.parts.pooling import ARMS, excess_over
from tightrope.policies.parts.rescue import be_hopeful, cost_ahead, known_cost
from tightrope.policies.parts.splines import Curves, begin_curves, draw_curves, shape_of_grid
from tightrope.policies.parts.typed_curves import Arrivals, expect_all, fit_all, fit_type
from tightrope.policies.resolve import look_around, noise_left, widened
from tightrope.policies.smooth import likeliest, over_grid
from tightrope.policies.state import Array, State
from tightrope.policies.typed import (
    TypedResolve,
    bearable,
    best_bearable,
    best_of_type,
    find_prices,
    promise,
)
from tightrope.problem import Task


class SmoothTypedScratch(NamedTuple):
    """The policy's memory besides the counts; see ``TypedScratch``."""

    budget: Annotated[Array, 1]
    promised: Annotated[Array, "M"]
    outlook: Annotated[Array, "M", 5]
    price: Annotated[Array, "R"]
    usual: Annotated[Array, "M"]
    mixing: Annotated[Array, "M"]
    pool: Arrivals
    arms: Arms
    curves: Curves  # of every type
    whole: Curves  # over all types, in the rows of the first one


@dataclass(frozen=True)
class SmoothTypedResolve(TypedResolve):
    """``resolve`` for numbers and requests with types; see :class:`Resolve`."""

    spatial: ClassVar[bool] = True
    Scratch: ClassVar[type] = SmoothTypedScratch
    short: ClassVar[bool] = False
    seldom: ClassVar[tuple[str, ...]] = ("arms.more", "pool", "curves", "whole")

    def setup(self, task: Task, budget: float) -> Setup:
        """As ``resolve`` for types; then the grid."""
        return over_grid(task, super().setup(task, budget))

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Any) -> None:
        """Note the budget; start with the prior beliefs."""
        scratch.budget[0] = state.remaining[0]
        begin_curves(constants, scratch.curves)
        begin_curves(constants, scratch.whole)
        _learn_all(constants, state, scratch)

    @classmethod
    def renew(cls, constants: Constants, state: State, scratch: Any) -> None:
        """Compute the beliefs from the state."""
        _learn_all(constants, state, scratch)

    @staticmethod
    def learn(constants: Constants, state: State, scratch: Any, row: int) -> None:
        """Renew the curves of the type of the request."""
        steps, count = int(state.steps[0]), int(constants[ARMS])
        if steps & (steps - 1) == 0 or steps & 255 == 0:
            _learn_all(constants, state, scratch)
        else:
            arms, curves, whole, first = scratch.arms, scratch.curves, scratch.whole, row // count
            limited = len(state.limits)
            fit_type(constants, state, arms, curves, whole, scratch.pool, limited, first * count)

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Any, words: Array) -> int:
        """The row of the best number for the type of the request."""
        kind, count, limited = int(words[WORDS]), int(constants[ARMS]), len(state.limits)
        first, last = kind * count, (kind + 1) * count
        look = look_around(constants, state, scratch, words, first, count)
        if look >= 0:
            return look
        noise, arms, curves = noise_left(state, scratch), scratch.arms, scratch.curves
        wide, whole = widened(noise, words), scratch.whole
        _foresee(constants, state, scratch, count)
        standing = promise(constants, state, scratch, count, limited)
        draw_curves(constants, state, arms, curves, whole, words[0], wide, first, last, True)
        if standing < 0.0:
            row = _least(constants, state, scratch, first, last, noise)
            return likeliest(constants, state, arms, first, last, row, standing)
        find_prices(scratch, count, words, limited)
        row, _ = best_of_type(scratch, kind, count, limited)
        if not bearable(constants, state, scratch, row, count, limited):
            return best_bearable(constants, state, scratch, kind, count, limited)
        return row

    @classmethod
    def functions(cls, penalties: int | None = None) -> tuple[Callable[..., Any], ...]:
        """The functions that kernels compile."""
        return (cls.begin, cls.choose, cls.learn)


def _learn_all(constants: Constants, state: State, scratch: Any) -> None:
    limited = len(state.limits)
    fit_all(constants, state, scratch.arms, scratch.curves, scratch.whole, scratch.pool, limited)


def _foresee(constants: Constants, state: State, scratch: Any, count: int) -> None:
    """What will be known of the safest rows in time: ``known_cost`` for a curve's splines."""
    arms, pool, apart = scratch.arms, scratch.pool, shape_of_grid(constants)[0]
    limited, ahead = len(state.limits), cost_ahead(state, arms)
    for kind in range(len(arms.cost) // count):
        row, seen = int(pool.safest[kind * count]), pool.seen[kind * count]
        share = (seen + count / len(pool.seen)) / (pool.requests[0] + 1.0)
        for m in range(limited):
            at = MORE * (row * limited + m) + KNOWN
            arms.more[at] = known_cost(arms.more[at], ahead * share, apart)


def _least(
    constants: Constants, state: State, scratch: Any, first: int, last: int, noise: float
) -> int:
    """Where it is late: the row of a type with the least penalties, or the best one of several.

    As in ``resolve``, penalties are drawn ones, or the lowest plausible ones if there is a risk.
    """
    arms, limited, hopes = scratch.arms, len(state.limits), constants[0] > CALM
    found, least, usual = first, math.inf, math.inf
    if hopes:
        apart = shape_of_grid(constants)[0]  # what is learned of a curve are its splines' weights
        ahead = cost_ahead(state, arms)
        be_hopeful(
            apart, constants, state, arms, scratch.budget[0], ahead, limited, 0, len(arms.cost)
        )
    for row in range(first, last):
        above = expected = -math.inf
        for m in range(limited):
            at = row * limited + m
            rate = arms.penalty[at]
            if not hopes:
                rate += (1.0 - noise) * (arms.cautious[at] - rate)
            above = max(above, excess_over(state, m, rate))
            expected = max(expected, excess_over(state, m, arms.rate[at]))
        if above < least or (above == least and expected < usual):
            found, least, usual = row, above, expected
    if hopes:
        expect_all(constants, state, arms, scratch.curves)
    return found
