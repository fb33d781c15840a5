"""LyOff, the paper's policy for known means (alg:LyOff): it minimises -V r_k + Q y_k."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from tightrope.errors import PolicyError
from tightrope.policies.base import (
    Constants,
    IndexPolicy,
    InformedPolicy,
    Policy,
    Setup,
    limits_of,
)
from tightrope.policies.parts.rates import Schedule
from tightrope.problem import Known, Problem, Types, require_unchanging


@dataclass(frozen=True)
class LyOff(InformedPolicy, IndexPolicy):
    """The paper's policy for known means: it trades reward against a queue (prop:offline-opt).

    ``v0``, ``delta0``: V = v0 sqrt(B), delta = delta0 / sqrt(B); ``v``, ``delta`` override them
    with plain numbers. Given the queue, the choice is deterministic (prop:offline-determ).

    >>> LyOff(v0=2).label  # its name in the shell
    'lyoff:v0=2'
    """

    v0: float = 1.0
    delta0: float = 0.5
    v: float | None = None
    delta: float | None = None

    name = "lyoff"
    summary = "the paper's policy for known means: a virtual queue, no learning"
    contestants = ("lyoff",)
    colour = "#0072b2"
    steady = True
    learns = False

    def __post_init__(self) -> None:
        self.require_number("v0", 0.0, open_low=True)
        self.require_number("v", 0.0, open_low=True, optional=True)
        self.require_number("delta0", 0.0)
        self.require_number("delta", 0.0, optional=True)

    def for_task(self, known: Known) -> Policy:
        """The form for requests with types, or itself."""
        if not isinstance(known.stated.contexts, Types):
            return self
        from tightrope.policies.typed_lyapunov import TypedLyOff

        return TypedLyOff(**{field.name: getattr(self, field.name) for field in fields(self)})

    @property
    def schedule(self) -> Schedule:
        """V and delta as functions of the budget."""
        return Schedule(self.label, lambda _: 1.0, self.v0, self.delta0, self.v, self.delta)

    def setup(self, problem: Problem, budget: float) -> Setup:
        """Constant: V. Allowance: the limits minus delta. Terms: the true rates."""
        require_unchanging(problem, f"policy {self.name}: knows the means of", error=PolicyError)
        moments, limits = problem.moments, limits_of(problem)
        v, delta = self.schedule.at(budget, problem.scales.cost)
        rates = np.column_stack([moments.reward_rate, moments.penalty_rate])
        return Setup(
            constants=(v,),
            allowance=tuple(limit - delta for limit in limits),
            terms=np.stack([rates, np.zeros_like(rates)], axis=-1),
            warning=self.schedule.outside(budget, problem),
        )

    @staticmethod
    def reward_index(
        constants: Constants, clock: float, uniform: float, arm: float, level: float, width: float
    ) -> float:
        """-V times the reward rate."""
        # eqn:lyapunov-dppr-psi
        return -constants[0] * level

    @staticmethod
    def penalty_index(constants: Constants, clock: float, level: float, width: float) -> float:
        """The penalty rate."""
        # eqn:lyapunov-dppr-psi
        return level
