"""LyOn-TS: LyOff's index with sampled rates, and a queue with a place-holder.

Pull the arm with the smallest -V r_k + sum over m of Q_m y_km (eqn:lyapunov-dppr-psi), where the
rates are quotients of means drawn from their posteriors, anew at every step, and Q is the queue
of ``placeholder``. Thompson sampling in place of confidence bounds: these are wide where budgets
are small, and an optimistic penalty breaks the limit for as long as they are. Priors are
Beta(1, 1); an outcome v in [0, 1] counts as v successes, for with coins in its place (see
``sampling``) one run in some hundreds loses sight of a good arm by their luck. No arm is pulled by
rule. No theorem covers it; docs/policies.md has measurements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tightrope.policies.base import Constants, Setup
from tightrope.policies.choice import Array, ChoicePolicy
from tightrope.policies.placeholder import begin_queues, queues_in, queues_size, renew_queues
from tightrope.policies.rates import Schedule
from tightrope.policies.sampling import drawn_mean

if TYPE_CHECKING:
    from tightrope.problem import Problem

__all__ = ["LyOnTS"]


@dataclass(frozen=True)
class LyOnTS(ChoicePolicy):
    """Sample the rates, weigh them by a queue that starts where it would end.

    ``v0``, ``delta0`` as in :class:`~tightrope.policies.LyOn`. ``q0``: the place-holder, in
    normalised units of penalty; ``None`` takes V times the multipliers as they look.
    """

    v0: float = 1.0
    delta0: float = 0.05
    q0: float | None = None

    name: ClassVar[str] = "lyon-ts"
    summary: ClassVar[str] = "LyOff's index with sampled rates; the queue starts where it would end"

    def __post_init__(self) -> None:
        self.require_number("v0", 0.0, open_low=True)
        self.require_number("delta0", 0.0)
        self.require_number("q0", 0.0, optional=True)

    def setup(self, problem: Problem, budget: float) -> Setup:
        """V, delta and the place-holder."""
        schedule = Schedule(self.name, math.log, self.v0, self.delta0, None, None)
        limits = tuple(float(limit) for limit in problem.moments.limits)
        v, delta = schedule.at(budget)
        return Setup(
            constants=(v, delta, -1.0 if self.q0 is None else float(self.q0)),
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
        """The smallest sampled index; lowest number on ties."""
        channels = len(left)
        queues = queues_in(arms, left, own, 0)
        renew_queues(queues, arms, left, constants[0], constants[1], constants[2])
        best, chosen = math.inf, 0
        for arm in range(len(arms)):
            index = -constants[0] * drawn_mean(arms, arm, 1, channels, luck[0])
            for m in range(channels - 2):
                drawn = drawn_mean(arms, arm, 2 + m, channels, luck[0])
                index += queues.length[m] * drawn
            index /= drawn_mean(arms, arm, 0, channels, luck[0])
            if index < best:
                best, chosen = index, arm
        return chosen
