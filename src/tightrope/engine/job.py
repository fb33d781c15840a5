"""One job: a policy on a problem at one budget, with the seed and the precision of its runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tightrope.errors import InputError
from tightrope.policies.base import IndexPolicy, Policy, Setup
from tightrope.problem import Problem

__all__ = ["Job"]

EXACT_IN_SINGLE = 2**24  # whole numbers up to here are exact in single precision


@dataclass(frozen=True)
class Job:
    """What decides the runs of one policy at one (normalised) budget; nothing is compiled yet.

    ``setup`` goes along though the policy could make it again: another machine's ``log`` may
    differ in the last bit.
    """

    problem: Problem
    policy: Policy
    setup: Setup
    budget: float
    seed: int
    precision: str = "auto"
    engine: str = "cpu"  # see ``backend.ENGINES``
    runs: int = 1000  # about how many are wanted; decides how they are made, not what comes out

    def on(self, engine: str) -> Job:
        """The same for another engine."""
        return replace(self, engine=engine)

    @property
    def arm_count(self) -> int:
        """K."""
        return self.problem.arm_count

    @property
    def penalty_count(self) -> int:
        """M."""
        return self.problem.penalty_count

    @cached_property
    def bernoulli(self) -> bool:
        """Whether every outcome is 0 or 1, in every phase."""
        return all(phase.problem.bernoulli() is not None for phase in self.problem.phases)

    @property
    def steps(self) -> float:
        """Pulls of a run that pulls the cheapest arm alone, on average."""
        return (self.budget + 1.0) / self.problem.moments.smallest_cost

    @property
    def last_spent(self) -> float:
        """The largest cost so far at which a run goes on; whole where outcomes are."""
        return math.floor(self.budget) if self.bernoulli else self.budget

    @property
    def side_by_side(self) -> bool:
        """Whether runs can go in SIMD lanes: an index over terms that only a pull changes."""
        plain = isinstance(self.policy, IndexPolicy) and not self.setup.forgets
        return plain and not self.problem.changes

    @cached_property
    def dtype(self) -> Any:
        """Single precision if asked for, or where outcomes are 0 or 1 and every count is exact."""
        fits = 4.0 * self.steps < EXACT_IN_SINGLE  # more pulls have no chance to happen
        if self.precision == "single" and not fits:
            raise InputError(
                f"precision = 'single': a run of about {self.steps:,.0f} pulls at budget"
                f" {self.budget * self.problem.scales.cost:g} counts past 2^24, where single"
                " precision stops counting; must be 'double' or 'auto'"
            )
        if self.precision == "single":
            return np.float32 if self._may_be_single else np.float64
        exact = self.bernoulli and fits and self.side_by_side
        return np.float32 if exact and self.precision == "auto" else np.float64

    @property
    def _may_be_single(self) -> bool:
        return isinstance(self.policy, IndexPolicy) and not self.setup.forgets
