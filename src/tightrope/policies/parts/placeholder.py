"""A queue that starts where it would end: LyOn's queue, and a place-holder for its length.

LyOn's queue starts at 0 and has to grow to V lambda, lambda the limit's multiplier, before it
weighs penalties as it should; until then the limit is broken. A place-holder is queue length that
was never penalty (Neely, "Stochastic network optimization with application to communication and
queueing systems", 2010, section 4.8; Huang and Neely, "Delay reduction via Lagrange multipliers in
stochastic network optimization", IEEE Transactions on Automatic Control 56(4), 2011). Here the
queue of limit m is

    max(0, V lambda_m + Y_m - (c_m - delta) X)

for the penalty Y_m and cost X so far, with lambda_m of the best mixture of the arms as they look
now. So the penalty ends near c_m - delta per unit of cost as lambda_m settles. With a fixed ``q0``
in place of V lambda_m it is the plain place-holder.

Everything lives in a policy's scratch: :class:`Queues`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from tightrope.policies.base import Constants, Setup, limits_of
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.mixture import Program, solve_program
from tightrope.policies.parts.rates import Schedule
from tightrope.policies.state import Array, State

if TYPE_CHECKING:
    from tightrope.problem import Task

__all__ = ["QueuedPolicy", "Queues", "renew_queues"]

GROWTH = 1.02  # a multiplier is found again when the pulls have grown by so much
LEAST_LIMIT = 1e-3  # of a limit: what is left of it at least when delta is taken off


class Queues(NamedTuple):
    """The queues of M limits, and what their multipliers are found from."""

    due: Annotated[Array, 1]  # pulls from which the multipliers are found again
    budget: Annotated[Array, 1]  # at the start
    limits: Annotated[Array, "M"]  # c_m
    tight: Annotated[Array, "M"]  # c_m - delta, kept positive
    multiplier: Annotated[Array, "M"]
    length: Annotated[Array, "M"]
    reward: Annotated[Array, "K"]  # rates as they look
    penalty: Annotated[Array, "K", "M"]  # likewise
    program: Program


class QueuedPolicy(ChoicePolicy):
    """A policy with such queues: a dataclass with ``v0``, ``delta0`` and ``q0`` among its fields.

    Its constants start with V, delta and the place-holder, below 0 for V times the multipliers.
    """

    Scratch: ClassVar[type] = Queues

    v0: float
    delta0: float
    q0: float | None

    def __post_init__(self) -> None:
        self.require_number("v0", 0.0, open_low=True)
        self.require_number("delta0", 0.0)
        self.require_number("q0", 0.0, optional=True)

    def setup(self, task: Task, budget: float) -> Setup:
        """V, delta and the place-holder, then what ``more`` adds."""
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
        """Further constants."""
        return ()

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Queues) -> None:
        """Note the budget and the limits."""
        scratch.budget[0] = state.remaining[0]
        for m in range(len(scratch.limits)):
            limit = state.remaining[1 + m] / state.remaining[0]
            scratch.limits[m] = limit
            scratch.tight[m] = max(limit - constants[1], LEAST_LIMIT * limit)


def renew_queues(constants: Constants, state: State, queues: Queues) -> None:
    """The queues' lengths now, by V, delta and the place-holder."""
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
    """Of the best mixture of the arms as they look; as before if none keeps the limits.

    Two outcomes are added to those seen of every mean, a 0 and a 1.
    """
    limited, totals = len(queues.limits), state.totals
    for arm in range(len(state.pulls)):
        first = arm * (2 + limited)
        cost = totals[first] + 1.0
        queues.reward[arm] = (totals[first + 1] + 1.0) / cost
        for m in range(limited):
            queues.penalty[arm * limited + m] = (totals[first + 2 + m] + 1.0) / cost
    if solve_program(queues.reward, queues.penalty, queues.tight, queues.program):
        for m in range(limited):
            queues.multiplier[m] = max(queues.program.prices[m], 0.0)
