"""LyOn-TS: LyOff's index with sampled rates, and a queue with a place-holder.

Pull the arm with the smallest -V r_k + sum over m of Q_m y_km (eqn:lyapunov-dppr-psi), where the
rates are quotients of means drawn from their posteriors at every step, and Q is the queue of
``placeholder``. It samples because confidence bounds are wide at small budgets, and optimism about
penalties then breaks the limit. Priors are Beta(1, 1). An outcome v in [0, 1] counts as v
successes: rounding it to 0 or 1 at random (see ``sampling``) made one run in a few hundred abandon
a good arm by bad luck. There is no initial exploration. No theorem covers this policy;
docs/policies.md has measurements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

from tightrope.policies.base import Constants, net_penalty
from tightrope.policies.parts.placeholder import QueuedPolicy, Queues, begin_queues, renew_queues
from tightrope.policies.parts.sampling import draw_gammas, mean_of
from tightrope.policies.state import Array, State, rows


class SampledQueues(NamedTuple):
    """The queues and the draws from the posteriors."""

    queues: Queues
    gammas: Annotated[Array, "K", "C", 4]  # see ``sampling``


@dataclass(frozen=True)
class LyOnTS(QueuedPolicy):
    """LyOff's index with sampled rates, and a queue that starts near its final length.

    ``v0``, ``delta0`` as in :class:`~tightrope.policies.LyOn`. ``q0``: the place-holder, in
    normalised units of penalty; ``None`` takes V times the estimated multipliers.

    >>> LyOnTS(delta0=0).label
    'lyon-ts:delta0=0'
    """

    v0: float = 1.0
    delta0: float = 0.05
    q0: float | None = None

    name: ClassVar[str] = "lyon-ts"
    summary: ClassVar[str] = "LyOff's index, sampled rates; the queue starts near its final length"
    contestants: ClassVar[tuple[str, ...]] = ("lyon-ts",)
    colour: ClassVar[str | None] = "#a86f00"

    Scratch: ClassVar[type] = SampledQueues
    carried: ClassVar[tuple[str, ...]] = ("queues.due", "queues.multiplier")

    @staticmethod
    def begin(constants: Constants, state: State, scratch: SampledQueues) -> None:
        """Prepare the queues."""
        begin_queues(constants, state, scratch.queues)

    @staticmethod
    def choose(constants: Constants, state: State, scratch: SampledQueues, words: Array) -> int:
        """The arm with the smallest sampled index; ties go to the lowest number."""
        queues, gammas = scratch.queues, scratch.gammas
        renew_queues(constants, state, queues)
        draw_gammas(state, state.totals, gammas, words[0])
        best, chosen = math.inf, 0
        for arm in rows(state):
            cost, reward = mean_of(state, gammas, arm, 0), mean_of(state, gammas, arm, 1)
            index = -constants[0] * reward
            for m in range(len(queues.length)):
                penalty = mean_of(state, gammas, arm, 2 + m)
                base, limit = state.bases[m], state.limits[m]
                index += queues.length[m] * net_penalty(base, limit, 1.0, cost, reward, penalty)
            index /= cost
            if index < best:
                best, chosen = index, arm
        return chosen
