"""Smooth beliefs about numbers for requests with types: a curve for every type and channel.

The curve of type x is

    f_x = g + d_x.

g is the curve of ``splines`` for the reports of all types together. d_x is a curve around 0, fitted
to what the reports of type x leave of g; its height and bend are the pair under which the reports
of all types are most likely. So a type with few reports has the curve of all, and types that differ
little share what they learn. The variance of f_x is that of d_x given g, and lean^2 times that of
g, where lean = (variance of d_x) / (its variance before any report) is the weight of g in f_x.

A report renews the curve of its type, and at times g. Everything is renewed at steps 1, 2, 4, ...
and every 256. Letters as in ``splines``; T types, rows ``type * K + point``.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from tightrope.policies.base import Constants
from tightrope.policies.parts.beliefs import Arms
from tightrope.policies.parts.by_type import count_types
from tightrope.policies.parts.curve_sums import stays
from tightrope.policies.parts.pooling import ARMS, find_safest
from tightrope.policies.parts.splines import (
    HIGH,
    ROUGH,
    Curves,
    draw_curves,
    expect_rows,
    find_noise,
    fit_block,
    look_at_all,
    settle,
    shape_of_grid,
    variances_before,
    weigh_block,
)
from tightrope.policies.state import Array, State

EARLY, SELDOM = 64, 16  # steps until g is renewed at each of them; from then on, at each of so many


class Arrivals(NamedTuple):
    """What is known of the types; fields as in ``pooling.Pool``."""

    pulls: Annotated[Array, "K"]  # of every point, over all types and numbers
    seen: Annotated[Array, "K"]  # requests of the row's type
    safest: Annotated[Array, "K"]  # the safest row of the row's type
    requests: Annotated[Array, 1]  # of all types
    weights: Annotated[Array, "M"]  # of the limits, where a row is safest for several together


def count_requests(state: State, pool: Arrivals, count: int) -> None:
    """Count the requests of each type."""
    total = count_types(state, pool.seen, count)
    pool.requests[0] = total
    for row in range(count):
        pool.pulls[row] = total
    for m in range(len(pool.weights)):
        if pool.weights[m] == 0.0:
            pool.weights[m] = 1.0 / len(pool.weights)


def fit_all(
    constants: Constants,
    state: State,
    arms: Arms,
    curves: Curves,
    whole: Curves,
    pool: Arrivals,
    limited: int,
) -> None:
    """Compute all curves, their smoothness and the variances of outcomes."""
    shape, count, last = shape_of_grid(constants), int(constants[ARMS]), len(state.pulls)
    count_requests(state, pool, count)
    for channel in range(2 + limited):
        look_at_all(state, arms, whole, channel, limited)
        look_at_all(state, arms, curves, channel, limited)
        find_noise(state, whole, channel, limited, shape, count)
        weigh_block(state, whole, channel, limited, shape, (0, count, count))
        settle(whole, channel, HIGH, ROUGH)
        fit_block(state, whole, channel, limited, shape, (0, count, count))
        find_noise(state, curves, channel, limited, shape, last)
        for first in range(0, last, count):
            _centre(curves, whole, channel, 2 + limited, first, count)
            if pool.seen[first] > 0.0:
                block = (first, first + count, last)
                weigh_block(state, curves, channel, limited, shape, block)
        settle(curves, channel, 0.0, 0.0)
        variances_before(curves, whole, channel, limited, shape, count)
        for first in range(0, last, count):
            _fit_own(state, curves, whole, channel, limited, constants, first)
    for first in range(0, last, count):
        expect_rows(constants, state, arms, curves, limited, first, first + count)
        find_safest(state, arms, pool, first, count, limited)
    expect_all(constants, state, arms, curves)


def fit_type(
    constants: Constants,
    state: State,
    arms: Arms,
    curves: Curves,
    whole: Curves,
    pool: Arrivals,
    limited: int,
    first: int,
) -> None:
    """Renew the curves of the type whose rows begin at ``first``, and at times g."""
    shape, count, steps = shape_of_grid(constants), int(constants[ARMS]), int(state.steps[0])
    count_requests(state, pool, count)
    for channel in range(2 + limited):
        if not stays(state, channel, limited):
            if steps < EARLY or steps % SELDOM == 0:
                fit_block(state, whole, channel, limited, shape, (0, count, count))
            _centre(curves, whole, channel, 2 + limited, first, count)
            _fit_own(state, curves, whole, channel, limited, constants, first)
    expect_rows(constants, state, arms, curves, limited, first, first + count)
    find_safest(state, arms, pool, first, count, limited)


def _centre(
    curves: Curves, whole: Curves, channel: int, channels: int, first: int, count: int
) -> None:
    """The curve of a type lies around g."""
    for row in range(count):
        g = whole.mean[row * channels + channel]
        curves.centre[(first + row) * channels + channel] = g


def _fit_own(
    state: State,
    curves: Curves,
    whole: Curves,
    channel: int,
    limited: int,
    constants: Constants,
    first: int,
) -> None:
    """The curve of a type, with the part of its variance that is that of g."""
    shape, count, channels = shape_of_grid(constants), int(constants[ARMS]), 2 + limited
    block = (first, first + count, len(state.pulls))
    fit_block(state, curves, channel, limited, shape, block)
    for row in range(count):
        at, point = (first + row) * channels + channel, row * channels + channel
        own = curves.unsure[at]
        if own > 0.0:
            lean = min(own / whole.before[point], 1.0)
            curves.lean[at] = lean
            curves.unsure[at] = own + lean * lean * whole.unsure[point]


def expect_all(constants: Constants, state: State, arms: Arms, curves: Curves) -> None:
    """Take the expected curves of all types as drawn ones."""
    count = int(constants[ARMS])
    for first in range(0, len(state.pulls), count):
        last = first + count
        draw_curves(constants, state, arms, curves, curves, 0, 0.0, first, last, False)
