"""resolve for numbers and requests with features: what runs where a task has both.

The decision is that of ``featured``: prices of the budget and of each limit, solved over a window
of recent requests and the points of the grid, and the number that is best for the request at these
prices. The belief is one linear model over pairs of a request and a number (``parts.joint``). A
draw moves the curve of the average request, of which ``WAVES`` weights are learned; the variance of
outcomes near a number is that of ``parts.splines``, without a look at features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

from tightrope.policies.base import Constants, Setup, net_penalty
from tightrope.policies.choice import hashed
from tightrope.policies.featured import (
    FEATURES,
    TYPES,
    FeaturedResolve,
    best_here,
    find_prices,
    make_net,
    prices_are_due,
    promise,
    rescued,
)
from tightrope.policies.parts.beliefs import CELLS, FLOOR, KAPPA, KNOWN, MORE, NORMAL, Arms
from tightrope.policies.parts.deviations import CALM
from tightrope.policies.parts.joint import (
    Joint,
    Pairs,
    Whole,
    begin_pairs,
    expect_points,
    learn_pair,
    predict_window,
    sum_up,
)
from tightrope.policies.parts.linear import is_learned, standardise
from tightrope.policies.parts.matrices import dot
from tightrope.policies.parts.pooling import safest_of
from tightrope.policies.parts.rescue import be_hopeful, cost_ahead, size_of
from tightrope.policies.parts.splines import PENALTY, TINY, Curves, begin_curves, fit_curves
from tightrope.policies.resolve import look_around, noise_left, widened
from tightrope.policies.smooth import likeliest, over_grid
from tightrope.policies.state import WAVES, Array, State
from tightrope.problem import Task

SIDES, POINTS, SPLINES = 6, 7, 8  # places in the constants


class SmoothFeaturedScratch(NamedTuple):
    """The policy's memory besides the counts; see ``FeaturedScratch``."""

    budget: Annotated[Array, 1]
    promised: Annotated[Array, "M"]
    outlook: Annotated[Array, "M", 3]
    weights: Annotated[Array, "M"]
    price: Annotated[Array, "R"]
    solved: Annotated[Array, 1]
    fresh: Annotated[Array, 1]
    worth: Annotated[Array, "C"]
    best: Annotated[Array, 256]
    taken: Annotated[Array, 2, 256]
    rest: Annotated[Array, "K", 256]
    expected: Annotated[Array, "K", "C"]
    drawn: Annotated[Array, "K", "C"]
    arms: Arms
    curves: Curves  # without a look at features
    whole: Whole
    models: Pairs
    joint: Joint


@dataclass(frozen=True)
class SmoothFeaturedResolve(FeaturedResolve):
    """``resolve`` for numbers and requests with features; see :class:`Resolve`."""

    spatial: ClassVar[bool] = True
    Scratch: ClassVar[type] = SmoothFeaturedScratch
    learned: ClassVar[dict[str, str]] = {
        **dict.fromkeys(
            (
                *(f"models.{one}" for one in ("context", "here", "centre", "unit", "pulls")),
                *(f"models.{one}" for one in ("clock", "recent", "doubt")),
                *(f"joint.{one}" for one in ("here", "unit", "ridge", "gram", "waiting")),
                *(f"joint.{one}" for one in ("weights", "count", "factors", "doubt", "due")),
                *("joint.clock", "joint.loose"),
            ),
            "",
        ),
        **dict.fromkeys(("models.totals", "models.usual", "joint.usual"), "outcomes"),
        **dict.fromkeys(("joint.told", "joint.moments", "joint.slopes"), "outcomes"),
        **dict.fromkeys(("joint.squares", "joint.noise"), "squares"),
    }

    def setup(self, task: Task, budget: float) -> Setup:
        """As ``resolve`` for features; then the grid."""
        return over_grid(task, super().setup(task, budget))

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Any) -> None:
        """Note the budget; models without reports."""
        scratch.budget[0], scratch.fresh[0] = state.remaining[0], 1.0
        for m in range(len(state.limits)):
            scratch.weights[m] = 1.0 / len(state.limits)
        begin_curves(_grid(constants), scratch.curves)
        _fit(constants, state, scratch, True)
        features, types, sides = constants[FEATURES], constants[TYPES], int(constants[SIDES])
        models, joint, whole = scratch.models, scratch.joint, scratch.whole
        begin_pairs(state, whole, models, joint, int(features), int(types), sides)

    @classmethod
    def renew(cls, constants: Constants, state: State, scratch: Any) -> None:
        """Beliefs that the state determines; models cannot be computed from it."""
        _fit(constants, state, scratch, True)
        sum_up(state, scratch.whole)
        scratch.fresh[0] = 0.0

    @staticmethod
    def learn(constants: Constants, state: State, scratch: Any, row: int) -> None:
        """Learn from a report."""
        steps, features = int(state.steps[0]), int(constants[FEATURES])
        _fit(constants, state, scratch, steps & (steps - 1) == 0 or steps & 255 == 0)
        learn_pair(state, scratch.whole, scratch.models, scratch.joint, row, features)

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Any, words: Array) -> int:
        """The best number for the request."""
        count, limited = len(state.pulls), len(state.limits)
        look = look_around(constants, state, scratch, words, 0, count)
        if look >= 0:
            return look
        _believe_average(constants, state, scratch)
        safest = safest_of(state, scratch.arms.cautious, scratch.weights, 0, count, limited)
        standing = promise(constants, state, scratch, safest, WAVES)
        models, joint, whole = scratch.models, scratch.joint, scratch.whole
        if standing >= 0.0 and scratch.fresh[0] == 0.0:
            predict_window(state, whole, models, joint)
            scratch.fresh[0] = 1.0
        if standing < 0.0:
            _draw(state, scratch, words)
        elif prices_are_due(state, scratch):
            _draw(state, scratch, words)
            find_prices(constants, state, scratch)
        standardise(models)
        expect_points(state, whole, models, joint, scratch.expected, 1, 0)
        make_net(state, scratch.expected, 1.0)
        if standing < 0.0:
            row = _least(constants, state, scratch)
            return likeliest(constants, state, scratch.arms, 0, count, row, standing)
        row = best_here(state, scratch)
        for m in range(limited):
            size = size_of(state, scratch.arms, row, m)
            if not rescued(constants, state, scratch, m, size, safest):
                return safest
        return row


def _grid(constants: Constants) -> Constants:
    """The constants as ``parts.splines`` has them."""
    z, kappa, cost = constants[0], constants[1], constants[2]
    return (z, kappa, cost, 0.0, constants[SIDES], constants[POINTS], constants[SPLINES])


def _fit(constants: Constants, state: State, scratch: Any, anew: bool) -> None:
    """The curves without a look at features."""
    fit_curves(_grid(constants), state, scratch.arms, scratch.curves, len(state.limits), anew)


def _draw(state: State, scratch: Any, words: Array) -> None:
    """Draw by how much the curve of the average request differs from what is expected of it."""
    models, joint, whole, channels = (
        scratch.models,
        scratch.joint,
        scratch.whole,
        2 + len(state.limits),
    )
    wide = widened(noise_left(state, scratch), words)
    for channel in range(channels):
        learned = is_learned(whole, 0, channel)
        if learned:
            noise = wide * (PENALTY if channel >= 2 else 1.0)
            _draw_waves(models, joint, channel, words[0], noise)
        for row in range(len(state.pulls)):
            at = row * channels + channel
            scratch.drawn[at] = 0.0
            if state.known[at] < 0.0 and learned:
                scratch.drawn[at] = dot(models.waves, row * WAVES, models.curve, 0, WAVES)
            elif state.known[at] < 0.0:
                m, source = channel - 2, row * channels + int(state.sources[channel - 2])
                share = state.weights[row * (channels - 2) + m]
                scratch.drawn[at] = share * scratch.drawn[source]
    make_net(state, scratch.drawn, 0.0)


def _draw_waves(models: Pairs, joint: Joint, channel: int, word: int, wide: float) -> None:
    """Draw the weights of the waves around those of the average request, into ``curve``."""
    start, deviation = channel * WAVES * WAVES, wide * math.sqrt(joint.noise[channel])
    for i in range(WAVES):
        models.curve[i] = 0.0
        for j in range(i + 1):
            normal = NORMAL[hashed(word, channel * 64 + j) & (CELLS - 1)]
            models.curve[i] += joint.loose[start + i * WAVES + i - j] * normal
    for i in range(WAVES):
        models.curve[i] *= deviation * models.sizes[i]


def _least(constants: Constants, state: State, scratch: Any) -> int:
    """Where it is late: the point with the least penalty rates for the request.

    They are drawn ones, or the lowest plausible ones if there is a risk.
    """
    arms, limited, hopes = scratch.arms, len(state.limits), constants[0] > CALM
    if hopes:
        ahead, budget, count = cost_ahead(state, arms), scratch.budget[0], len(state.pulls)
        be_hopeful(WAVES, constants, state, arms, budget, ahead, limited, 0, count)
    for row in range(len(state.pulls)):
        first = row * (2 + limited)
        cost, drawn = scratch.expected[first], scratch.drawn[first]
        for m in range(limited):
            at, place = row * limited + m, first + 2 + m
            if hopes:
                hope = arms.penalty[at] - arms.rate[at]
                arms.penalty[at] = scratch.expected[place] / cost + hope
            else:
                net = scratch.expected[place] + scratch.drawn[place]
                arms.penalty[at] = net / max(cost + drawn, FLOOR * cost)
    return safest_of(state, arms.penalty, scratch.weights, 0, len(state.pulls), limited)


def _believe_average(constants: Constants, state: State, scratch: Any) -> None:
    """The rates of every number for the average request, instead of those it was pulled for."""
    arms, limited, channels = scratch.arms, len(state.limits), 2 + len(state.limits)
    usual, joint, doubt = scratch.models.usual, scratch.joint, scratch.models.doubt
    for row in range(len(state.pulls)):
        first = row * channels
        cost, reward = max(usual[first], TINY), usual[first + 1]
        arms.cost_scale[row], arms.reward_scale[row] = cost, max(reward, TINY)
        for m in range(limited):
            at, base, limit = row * limited + m, state.bases[m], state.limits[m]
            penalty = usual[first + 2 + m]
            arms.rate[at] = net_penalty(base, limit, 1.0, cost, reward, penalty) / cost
            variance = _variance(state, joint, doubt, row, 2 + m, channels)
            if base < 0.0:
                part = base * limit
                variance += part * part * _variance(state, joint, doubt, row, 1, channels)
            own = arms.rate[at] - (limit if base != 0.0 else 0.0)
            variance += own * own * _variance(state, joint, doubt, row, 0, channels)
            if variance > 0.0:
                arms.more[MORE * at + KNOWN] = arms.spread[at] * cost * cost / variance
            away = math.sqrt(arms.spread[at] / arms.more[MORE * at + KNOWN])
            arms.cautious[at] = arms.rate[at] + constants[KAPPA] * away


def _variance(
    state: State, joint: Joint, doubt: Array, row: int, channel: int, channels: int
) -> float:
    """The variance of the belief about an outcome of a number, for the average request."""
    share = 1.0
    if channel >= 2 and state.weights[row * (channels - 2) + channel - 2] >= 0.0:
        share = state.weights[row * (channels - 2) + channel - 2]
        channel = int(state.sources[channel - 2])
    at = row * channels + channel
    if state.known[at] >= 0.0:
        return 0.0
    return share * share * joint.noise[channel] * doubt[at]  # type: ignore[no-any-return]
