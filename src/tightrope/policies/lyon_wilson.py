"""LyOn-Wilson: LyOn with asymmetric confidence bounds, and a queue with a place-holder.

Pull the arm with the smallest

    -V high(r) / low(x) + sum over m of Q_m low(y_m) / high(x)

for the bounds low and high of the means by the interval of ``omega_ucb`` with z^2 = 2 alpha log n,
and the queue of ``placeholder``. LyOn's bounds (def:cradius) know only that outcomes lie in [0, 1];
these shrink with the variance, and towards 0 and 1, so that the limit is broken for a shorter
while. Each arm is pulled once first, and again until it has cost something. No theorem covers it;
docs/policies.md has measurements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tightrope.policies.base import Constants, Setup
from tightrope.policies.choice import Array, ChoicePolicy
from tightrope.policies.intervals import spread, untried, wilson_high, wilson_low
from tightrope.policies.placeholder import begin_queues, queues_in, queues_size, renew_queues
from tightrope.policies.rates import Schedule

if TYPE_CHECKING:
    from tightrope.problem import Problem

__all__ = ["LyOnWilson"]


@dataclass(frozen=True)
class LyOnWilson(ChoicePolicy):
    """LyOn with tighter confidence bounds and a queue that starts where it would end.

    ``v0``, ``delta0`` as in :class:`~tightrope.policies.LyOn`. ``alpha``: the bounds' scale.
    ``q0``: the place-holder, in normalised units of penalty; ``None`` takes V times the multipliers
    as they look.
    """

    v0: float = 1.0
    delta0: float = 0.5
    alpha: float = 1.0
    q0: float | None = None

    name: ClassVar[str] = "lyon-wilson"
    summary: ClassVar[str] = "LyOn with asymmetric bounds; the queue starts where it would end"

    def __post_init__(self) -> None:
        self.require_number("v0", 0.0, open_low=True)
        self.require_number("delta0", 0.0)
        self.require_number("alpha", 0.0)
        self.require_number("q0", 0.0, optional=True)

    def setup(self, problem: Problem, budget: float) -> Setup:
        """V, delta, the place-holder and 2 alpha."""
        schedule = Schedule(self.name, math.log, self.v0, self.delta0, None, None)
        limits = tuple(float(limit) for limit in problem.moments.limits)
        v, delta = schedule.at(budget)
        holder = -1.0 if self.q0 is None else float(self.q0)
        return Setup(
            constants=(v, delta, holder, 2.0 * self.alpha),
            allowance=tuple(limit - delta for limit in limits),
            warning=schedule.outside(budget, limits),
        )

    def scratch(self, arms: int, penalties: int) -> int:
        """The queues."""
        return queues_size(arms, penalties)

    @staticmethod
    def begin(constants: Constants, arms: Array, left: Array, own: Array) -> None:
        """Prepare the queues."""
        begin_queues(queues_in(arms, left, own, 0), left, constants[1])

    @staticmethod
    def choose(constants: Constants, arms: Array, left: Array, own: Array, luck: Array) -> int:
        """The smallest index; lowest number on ties."""
        chosen = untried(arms)
        if chosen >= 0:
            return chosen
        queues = queues_in(arms, left, own, 0)
        renew_queues(queues, arms, left, constants[0], constants[1], constants[2])
        best, channels = math.inf, len(left)
        squared = constants[3] * math.log(left[1])
        for arm in range(len(arms)):
            pulls = arms[arm, 0]
            width = squared * _spread(arms, arm, 0, channels)
            cost = arms[arm, 1] / pulls
            low, high = wilson_low(cost, pulls, width), wilson_high(cost, pulls, width)
            width = squared * _spread(arms, arm, 1, channels)
            index = -constants[0] * wilson_high(arms[arm, 2] / pulls, pulls, width) / low
            for m in range(channels - 2):
                width = squared * _spread(arms, arm, 2 + m, channels)
                bound = wilson_low(arms[arm, 3 + m] / pulls, pulls, width)
                index += queues.length[m] * bound / high
            if index < best:
                best, chosen = index, arm
        return chosen


def _spread(arms: Array, arm: int, channel: int, channels: int) -> float:
    """Eta of an arm's channel: 0 the cost, 1 the reward, 2 and on the penalties."""
    return spread(arms[arm, 0], arms[arm, 1 + channel], arms[arm, 1 + channels + channel])
