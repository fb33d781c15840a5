"""LyOn-TS: LyOff's index with sampled rates, and a queue with a place-holder.

Pull the arm with the smallest -V r_k + sum over m of Q_m y_km (eqn:lyapunov-dppr-psi), where the
rates are quotients of means drawn from their posteriors, anew at every step, and Q is the queue
of ``placeholder``. It samples because confidence bounds are wide at small budgets, and while they
are, optimism about penalties breaks the limit. Priors are Beta(1, 1). An outcome v in [0, 1] counts
as v successes: rounding it to 0 or 1 at random (see ``sampling``) made one run in a few hundred
abandon a good arm by bad luck. There is no initial exploration. No theorem covers this policy;
docs/policies.md has measurements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tightrope.policies.base import Constants, net_penalty
from tightrope.policies.parts.placeholder import QueuedPolicy, Queues, renew_queues
from tightrope.policies.parts.sampling import drawn_mean
from tightrope.policies.state import Array, State, rows

__all__ = ["LyOnTS"]


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

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Queues, words: Array) -> int:
        """The arm with the smallest sampled index; ties go to the lowest number."""
        renew_queues(constants, state, scratch)
        best, chosen = math.inf, 0
        for arm in rows(state):
            reward, cost = drawn_mean(state, arm, 1, words[0]), drawn_mean(state, arm, 0, words[0])
            index = -constants[0] * reward
            for m in range(len(scratch.length)):
                penalty = drawn_mean(state, arm, 2 + m, words[0])
                base, limit = state.bases[m], state.limits[m]
                index += scratch.length[m] * net_penalty(base, limit, 1.0, cost, reward, penalty)
            index /= cost
            if index < best:
                best, chosen = index, arm
        return chosen
