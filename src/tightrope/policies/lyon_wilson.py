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
from typing import ClassVar

from tightrope.policies.base import Constants
from tightrope.policies.choice import Array
from tightrope.policies.intervals import spread, untried, wilson_high, wilson_low
from tightrope.policies.placeholder import QueuedPolicy, queues_in, renew_queues

__all__ = ["LyOnWilson"]


@dataclass(frozen=True)
class LyOnWilson(QueuedPolicy):
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
        super().__post_init__()
        self.require_number("alpha", 0.0)

    def more(self) -> tuple[float, ...]:
        """2 alpha."""
        return (2.0 * self.alpha,)

    @staticmethod
    def choose(constants: Constants, arms: Array, left: Array, own: Array, luck: Array) -> int:
        """The smallest index; lowest number on ties."""
        chosen = untried(arms)
        if chosen >= 0:
            return chosen
        queues = queues_in(arms, left, own)
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
