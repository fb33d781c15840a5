"""LyOn for requests with features: it runs where a task has feature vectors.

The paper's index compares V times the upper bound of an arm's reward per unit of cost with the
queues times the lower bounds of its penalties. Here outcomes are those of linear models for the
request z (``parts.linear``), with the widths of LinUCB (Li et al. 2010):

    w_c = sqrt(2 alpha log n  z' (G_c + L_c)^-1 z)   of each channel c,

which is the paper's radius sqrt(2 alpha log n / pulls) where z is the intercept alone, but for the
weight of the prior. As with types, a unit of cost has a price theta, and an arm's value is

    V (R + w_R) - sum_m Q_m (Y_m - w_m) - theta (X - w_X),

with X + w_X if theta is negative, which it is while the queues are long. A request pulls the arm
with the largest value: where that is 0, theta is the ratio of optimistic value and cost. The price
is the root of the mean value of the best arms over recent requests, by expected outcomes; Newton's
method (Dinkelbach) finds it from the last price.

Proved is nothing here. The paper's bounds (thm:regret) are for arms without features: they need
independent outcomes of each arm, and models that are true. The queues count what was reported, so a
queue that ends at q means a penalty of at most the limit's plus q, whatever the models are.

Letters as in ``parts.linear``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, NamedTuple

from tightrope.policies.base import Constants, Setup, net_penalty, net_width
from tightrope.policies.featured import FeaturedResolve
from tightrope.policies.parts.linear import (
    RECENT,
    SEEN,
    USED,
    Models,
    columns_of,
    expect,
    is_learned,
    predict,
    standardise,
)
from tightrope.policies.parts.matrices import squares_of_root
from tightrope.policies.parts.regression import begin_models, learn_report
from tightrope.policies.state import Array, State
from tightrope.policies.typed_lyapunov import EXPLORE, TypedLyapunov, TypedLyOn, V, clock_of
from tightrope.problem import Task

# After the constants of ``TypedLyOn``: features; types; 1 where all costs are known and equal.
SIGN, FEATURES, TYPES, EQUAL = 1, 7, 8, 9
EVERY = 8  # steps between two searches for the price
ROUNDS = 2  # of Newton's method
LEAST_COST = 1e-9

advance_queues, begin_queues = TypedLyapunov.learn, TypedLyOn.begin


class FeaturedQueues(NamedTuple):
    """The queues, the price, and the numbers of every arm for the request."""

    length: Annotated[Array, "M"]  # of the queues
    before: Annotated[Array, "R"]  # the state's ``remaining`` before the last pull
    theta: Annotated[Array, 1]  # the price of a unit of cost
    fresh: Annotated[Array, 1]  # 0 if the window's expectations must be computed again
    mean: Annotated[Array, "C"]  # workspace: expected outcomes
    width: Annotated[Array, "C"]  # workspace
    models: Models


@dataclass(frozen=True)
class FeaturedLyOn(TypedLyOn):
    """``lyon`` for requests with features; see :class:`LyOn`."""

    Scratch: ClassVar[type] = FeaturedQueues
    short: ClassVar[bool] = False
    learned: ClassVar[Mapping[str, str]] = {**FeaturedResolve.learned, **TypedLyapunov.learned}

    def setup(self, task: Task, budget: float) -> Setup:
        """As ``TypedLyOn``; then how many types a request has, and whether costs are equal."""
        setup, costs = super().setup(task, budget), task.known_outcomes[:, 0]
        equal = not math.isnan(costs[0]) and bool((costs == costs[0]).all())
        return replace(setup, constants=(*setup.constants, *columns_of(task), float(equal)))

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Any) -> None:
        """Copy ``remaining``; models without reports."""
        begin_queues(constants, state, scratch)
        scratch.fresh[0] = 1.0
        begin_models(state, scratch.models, int(constants[FEATURES]), int(constants[TYPES]))

    @classmethod
    def renew(cls, constants: Constants, state: State, scratch: Any) -> None:
        """The window's expectations follow from the models."""
        scratch.fresh[0] = 0.0

    @staticmethod
    def learn(constants: Constants, state: State, scratch: Any, row: int) -> None:
        """Advance the queues, and learn from a report."""
        advance_queues(constants, state, scratch, row)
        learn_report(state, scratch.models, row, int(constants[FEATURES]))

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Any, words: Array) -> int:
        """The arm to explore, else the best arm for the request."""
        steps, arm, fewest = 0.0, -1, constants[EXPLORE]
        for other in range(len(state.pulls)):
            steps += state.pulls[other]
            if state.pulls[other] < fewest:
                arm, fewest = other, state.pulls[other]
        if arm >= 0:
            return arm
        if scratch.fresh[0] == 0.0:
            predict(state, scratch.models, 0, int(scratch.models.clock[SEEN]))
            scratch.fresh[0] = 1.0
        if constants[EQUAL] == 0.0 and (int(steps) % EVERY == 0 or scratch.theta[0] == 0.0):
            _find_price(constants, state, scratch)
        standardise(scratch.models)
        clock, most, arm = clock_of(constants, max(steps, 1.0)), -math.inf, 0
        for other in range(len(state.pulls)):
            value = _value(constants, state, scratch, other, clock)
            if value > most:
                arm, most = other, value
        return arm


def _value(
    constants: Constants, state: State, scratch: FeaturedQueues, arm: int, clock: float
) -> float:
    """What an arm is worth for the request, by optimistic bounds of its outcomes."""
    mean, width = scratch.mean, scratch.width
    _expect(state, scratch, arm, clock)
    value = constants[V] * (mean[1] + width[1])
    price = scratch.theta[0]
    spent = max(mean[0] - width[0], 0.0) if price > 0.0 else min(mean[0] + width[0], 1.0)
    value -= price * spent
    for m in range(len(state.limits)):
        base, limit = state.bases[m], state.limits[m]
        net = net_penalty(base, limit, 1.0, mean[0], mean[1], mean[2 + m])
        wide = constants[SIGN] * width[2 + m] * net_width(base, limit)
        value -= scratch.length[m] * (net - wide)
    return value  # type: ignore[no-any-return]


def _expect(state: State, scratch: FeaturedQueues, arm: int, clock: float) -> None:
    """An arm's expected outcomes for the request, and the widths of LinUCB; 0 if known."""
    models, channels, mean = scratch.models, 2 + len(state.limits), scratch.mean
    size = len(models.here)
    for channel in range(channels):
        at = arm * channels + channel
        scratch.width[channel] = 0.0
        if is_learned(state, arm, channel):
            mean[channel] = expect(state, models, arm, channel)
            used, column = int(models.clock[USED]), models.column
            spread = squares_of_root(models.factors, at * size * size, used, models.here, column)
            scratch.width[channel] = clock * math.sqrt(spread)
        elif state.known[at] >= 0.0:
            mean[channel] = state.known[at]
        else:
            source = int(state.sources[channel - 2])
            share = state.weights[arm * (channels - 2) + channel - 2]
            mean[channel] = share * mean[source]
            scratch.width[channel] = share * scratch.width[source]


def _find_price(constants: Constants, state: State, scratch: FeaturedQueues) -> None:
    """The price at which the best arms of recent requests are worth 0 on average."""
    means, channels = scratch.models.means, 2 + len(state.limits)
    seen = int(scratch.models.clock[SEEN])
    for _ in range(ROUNDS):
        total = spent = 0.0
        for n in range(seen):
            most, cost = -math.inf, 0.0
            for arm in range(len(state.pulls)):
                first = arm * channels * RECENT + n
                value = constants[V] * means[first + RECENT] - scratch.theta[0] * means[first]
                for m in range(channels - 2):
                    value -= scratch.length[m] * means[first + (2 + m) * RECENT]
                if value > most:
                    most, cost = value, means[first]
            total += most
            spent += cost
        scratch.theta[0] += total / max(spent, LEAST_COST)
