"""LyOn-Wilson: LyOn with asymmetric confidence bounds, and a queue with a place-holder.

Pull the arm with the smallest

    -V high(r) / low(x) + sum over m of Q_m low(y_m) / high(x)

for the bounds low and high of the means by the interval of ``omega_ucb`` with z^2 = 2 alpha log n,
and the queue of ``placeholder``. LyOn's bounds (def:cradius) use only that outcomes lie in [0, 1];
these are tighter where the variance is small or the mean is near 0 or 1, so that the limit is
broken for a shorter time. Each arm is first pulled until it has cost something. No theorem covers
this policy; docs/policies.md has measurements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tightrope.policies.base import Constants
from tightrope.policies.parts.intervals import mean_and_width, untried, wilson_high, wilson_low
from tightrope.policies.parts.nets import low_net_rate
from tightrope.policies.parts.placeholder import QueuedPolicy, Queues, renew_queues
from tightrope.policies.state import Array, State, rows


@dataclass(frozen=True)
class LyOnWilson(QueuedPolicy):
    """LyOn with tighter confidence bounds and a queue that starts near its final length.

    ``v0``, ``delta0`` as in :class:`~tightrope.policies.LyOn`. ``alpha``: the bounds' scale.
    ``q0``: the place-holder, in normalised units of penalty; ``None`` takes V times the estimated
    multipliers.

    >>> LyOnWilson(alpha=0.5).label
    'lyon-wilson:alpha=0.5'
    """

    v0: float = 1.0
    delta0: float = 0.5
    alpha: float = 1.0
    q0: float | None = None

    name = "lyon-wilson"
    summary = "LyOn with asymmetric bounds; the queue starts near its final length"
    contestants = ("lyon-wilson",)
    colour = "#f4978e"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_number("alpha", 0.0)

    def more(self) -> tuple[float, ...]:
        """The constant 2 alpha."""
        return (2.0 * self.alpha,)

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Queues, words: Array) -> int:
        """The arm with the smallest index; ties go to the lowest number."""
        chosen = untried(state)
        if chosen >= 0:
            return chosen
        renew_queues(constants, state, scratch)
        best, channels = math.inf, len(state.remaining) + 1
        squared = constants[3] * math.log(state.steps[0])
        for row in rows(state):
            pulls, first = state.pulls[row], row * channels
            mean, width = mean_and_width(state, pulls, first, squared, True)
            low, high = wilson_low(mean, pulls, width), wilson_high(mean, pulls, width)
            mean, width = mean_and_width(state, pulls, first + 1, squared, True)
            earned = wilson_high(mean, pulls, width)
            index = -constants[0] * earned / low
            for m in range(channels - 2):
                mean, width = mean_and_width(state, pulls, first + 2 + m, squared, True)
                least = wilson_low(mean, pulls, width)
                if state.bases[m] == 0.0:
                    index += scratch.length[m] * least / high
                else:
                    index += scratch.length[m] * low_net_rate(state, m, least, earned, low, high)
            if index < best:
                best, chosen = index, row
        return chosen
