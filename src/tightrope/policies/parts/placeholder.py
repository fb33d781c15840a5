"""Queues with a place-holder: LyOn's queue, started near its final length.

LyOn's queue starts at 0 and must grow to about V lambda, where lambda is the limit's multiplier,
before penalties get their proper weight; until then the limit is broken. A place-holder is an
initial queue length that no penalty caused (Neely, "Stochastic network optimization with
application to communication and queueing systems", 2010, section 4.8; Huang and Neely, "Delay
reduction via Lagrange multipliers in stochastic network optimization", IEEE Transactions on
Automatic Control 56(4), 2011). Here the queue of limit m is

    max(0, V lambda_m + Y_m - (c_m - delta) X)

for the penalty Y_m and cost X so far; lambda_m is the multiplier of the best mixture at the current
estimates. As lambda_m converges, the penalty per unit of cost approaches c_m - delta. A fixed
``q0`` in place of V lambda_m gives the place-holder of the literature.

The queues are in the policy's scratch: :class:`Queues`.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, NamedTuple

from tightrope.policies.base import Constants, Setup, limits_of, net_penalty
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.mixture import Program, solve_program
from tightrope.policies.parts.rates import Schedule
from tightrope.policies.state import Array, State, rows
from tightrope.problem import Task

GROWTH = 1.02  # multipliers are computed again when the pulls have grown by this factor
LEAST_LIMIT = 1e-3  # smallest value of limit - delta, relative to the limit


class Queues(NamedTuple):
    """The queues of M limits, and the numbers from which their multipliers are computed."""

    due: Annotated[Array, 1]  # number of pulls at which the multipliers are computed again
    budget: Annotated[Array, 1]  # at the start
    limits: Annotated[Array, "M"]  # c_m
    tight: Annotated[Array, "M"]  # c_m - delta, kept positive
    multiplier: Annotated[Array, "M"]
    length: Annotated[Array, "M"]
    reward: Annotated[Array, "K"]  # estimated rates
    penalty: Annotated[Array, "K", "M"]  # estimated rates
    program: Program


class QueuedPolicy(ChoicePolicy):
    """A policy with such queues: a dataclass with ``v0``, ``delta0`` and ``q0`` among its fields.

    Its constants start with V, delta and the place-holder; a negative place-holder stands for V
    times the multipliers.
    """

    Scratch: ClassVar[type] = Queues
    carried: ClassVar[tuple[str, ...]] = ("due", "multiplier")

    v0: float
    delta0: float
    q0: float | None

    def __post_init__(self) -> None:
        self.require_number("v0", 0.0, open_low=True)
        self.require_number("delta0", 0.0)
        self.require_number("q0", 0.0, optional=True)

    def setup(self, task: Task, budget: float) -> Setup:
        """Constants: V, delta and the place-holder, then those of ``more``."""
        schedule = Schedule(self.label, math.log, self.v0, self.delta0, None, None)
        limits = limits_of(task)
        v, delta = schedule.at(budget, task.scales.cost)
        holder = -1.0 if self.q0 is None else float(self.q0)
        return Setup(
            constants=(v, delta, holder, *self.more()),
            allowance=tuple(limit - delta for limit in limits),
            warning=schedule.outside(budget, task),
        )

    def more(self) -> tuple[float, ...]:
        """Further constants of the subclass."""
        return ()

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Any) -> None:
        """Prepare the queues."""
        begin_queues(constants, state, scratch)


def begin_queues(constants: Constants, state: State, queues: Queues) -> None:
    """Store the budget; compute the limits."""
    queues.budget[0] = state.remaining[0]
    for m in range(len(queues.limits)):
        limit = state.limits[m]
        queues.limits[m] = limit
        queues.tight[m] = max(limit - constants[1], LEAST_LIMIT * limit)


def renew_queues(constants: Constants, state: State, queues: Queues) -> None:
    """Compute the current queue lengths from V, delta and the place-holder."""
    v, delta, q0, steps = constants[0], constants[1], constants[2], state.steps[0]
    if q0 < 0.0 and steps >= queues.due[0]:
        queues.due[0] = max(steps + 1.0, GROWTH * steps)
        _find_multipliers(state, queues)
    spent = queues.budget[0] - state.remaining[0]
    for m in range(len(queues.limits)):
        holder = v * queues.multiplier[m] if q0 < 0.0 else q0
        penalty = queues.limits[m] * queues.budget[0] - state.remaining[1 + m]
        queues.length[m] = max(holder + penalty - (queues.limits[m] - delta) * spent, 0.0)


def _find_multipliers(state: State, queues: Queues) -> None:
    """Compute the multipliers of the best mixture at the estimated rates.

    If no mixture keeps the limits, the old ones stay. Each mean is estimated as if one outcome 0
    and one outcome 1 had been seen too.
    """
    limited, totals = len(queues.limits), state.totals
    for row in rows(state):
        first = row * (2 + limited)
        cost = totals[first] + 1.0
        if state.known[first] >= 0.0:
            cost = state.known[first] * (state.pulls[row] + 2.0)
        queues.reward[row] = (totals[first + 1] + 1.0) / cost
        for m in range(limited):
            penalty, base, limit = totals[first + 2 + m] + 1.0, state.bases[m], state.limits[m]
            pulls, reward = state.pulls[row] + 2.0, totals[first + 1] + 1.0
            net = net_penalty(base, limit, pulls, cost, reward, penalty)
            queues.penalty[row * limited + m] = net / cost
    if solve_program(queues.reward, queues.penalty, queues.tight, queues.program):
        for m in range(limited):
            queues.multiplier[m] = max(queues.program.prices[m], 0.0)
