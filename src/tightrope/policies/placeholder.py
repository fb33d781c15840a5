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

Everything lives in a policy's ``own``; see :class:`Queues`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from tightrope.policies.base import Constants, Setup
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.mixture import best_mixture, work_size
from tightrope.policies.rates import Schedule

if TYPE_CHECKING:
    from tightrope.problem import Problem

__all__ = ["QueuedPolicy", "Queues", "queues_in", "renew_queues"]

Array = Any
GROWTH = 1.02  # a multiplier is found again when the pulls have grown by so much
LEAST_LIMIT = 1e-3  # of a limit: what is left of it at least when delta is taken off


class Queues(NamedTuple):
    """Views of a policy's scratch. K arms, M limits."""

    due: Array  # [1] pulls from which the multipliers are found again
    budget: Array  # [1] at the start
    limits: Array  # [M] c_m
    tight: Array  # [M] c_m - delta, kept positive
    multiplier: Array  # [M]
    length: Array  # [M]
    reward: Array  # [K] rates as they look
    penalty: Array  # [K, M] likewise
    work: Array  # of the linear program


class QueuedPolicy(ChoicePolicy):
    """A policy with such queues: a dataclass with ``v0``, ``delta0`` and ``q0`` among its fields.

    Its constants start with V, delta and the place-holder, below 0 for V times the multipliers.
    """

    v0: float
    delta0: float
    q0: float | None

    def __post_init__(self) -> None:
        self.require_number("v0", 0.0, open_low=True)
        self.require_number("delta0", 0.0)
        self.require_number("q0", 0.0, optional=True)

    def setup(self, problem: Problem, budget: float) -> Setup:
        """V, delta and the place-holder, then what ``more`` adds."""
        schedule = Schedule(self.name, math.log, self.v0, self.delta0, None, None)
        limits = tuple(float(limit) for limit in problem.moments.limits)
        v, delta = schedule.at(budget)
        holder = -1.0 if self.q0 is None else float(self.q0)
        return Setup(
            constants=(v, delta, holder, *self.more()),
            allowance=tuple(limit - delta for limit in limits),
            warning=schedule.outside(budget, limits),
        )

    def more(self) -> tuple[float, ...]:
        """Further constants."""
        return ()

    def scratch(self, arms: int, penalties: int) -> int:
        """The queues."""
        return 2 + 4 * penalties + arms * (1 + penalties) + work_size(penalties)

    @staticmethod
    def begin(constants: Constants, arms: Array, left: Array, own: Array) -> None:
        """Note the budget and the limits."""
        queues = queues_in(arms, left, own)
        queues.budget[0] = left[0]
        for m in range(len(queues.limits)):
            limit = left[2 + m] / left[0]
            queues.limits[m] = limit
            queues.tight[m] = max(limit - constants[1], LEAST_LIMIT * limit)


def queues_in(arms: Array, left: Array, own: Array) -> Queues:
    """Views of the scratch ``own``."""
    count, limited, limits = len(arms), len(left) - 2, 2
    reward = limits + 4 * limited
    penalty = reward + count
    work = penalty + count * limited
    return Queues(
        own[:1],
        own[1:limits],
        own[limits : limits + limited],
        own[limits + limited : limits + 2 * limited],
        own[limits + 2 * limited : limits + 3 * limited],
        own[limits + 3 * limited : reward],
        own[reward:penalty],
        own[penalty:work],
        own[work:],
    )


def renew_queues(
    queues: Queues, arms: Array, left: Array, v: float, delta: float, q0: float
) -> None:
    """The queues' lengths now; ``q0`` below 0 asks for V times the multipliers."""
    if q0 < 0.0 and left[1] >= queues.due[0]:
        queues.due[0] = max(left[1] + 1.0, GROWTH * left[1])
        _find_multipliers(queues, arms)
    spent = queues.budget[0] - left[0]
    for m in range(len(queues.limits)):
        holder = v * queues.multiplier[m] if q0 < 0.0 else q0
        penalty = queues.limits[m] * queues.budget[0] - left[2 + m]
        queues.length[m] = max(holder + penalty - (queues.limits[m] - delta) * spent, 0.0)


def _find_multipliers(queues: Queues, arms: Array) -> None:
    """Of the best mixture of the arms as they look; as before if none keeps the limits.

    Two outcomes are added to those seen of every mean, a 0 and a 1.
    """
    limited = len(queues.limits)
    for arm in range(len(arms)):
        cost = arms[arm, 1] + 1.0
        queues.reward[arm] = (arms[arm, 2] + 1.0) / cost
        for m in range(limited):
            queues.penalty[arm * limited + m] = (arms[arm, 3 + m] + 1.0) / cost
    if best_mixture(queues.reward, queues.penalty, queues.tight, queues.work):
        for m in range(limited):
            queues.multiplier[m] = max(queues.work[2 * (limited + 1) + m], 0.0)
