"""A job: runs of one policy at one budget on one problem, with all their parameters."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tightrope.compatibility import decisions_of
from tightrope.engine.backend import BackendPlan, Numbers, plan_of
from tightrope.engine.delays import AT_ONCE, Delays
from tightrope.errors import InputError
from tightrope.policies.base import IndexPolicy, Policy, Setup
from tightrope.policies.choice import ChoicePolicy
from tightrope.problem import Known, Problem

EXACT_IN_SINGLE = 2**24  # integers up to this are exact in single precision
GPU_CHUNK = 2**17  # runs per chunk for a cluster's GPUs: this machine may have none to plan for
GPU_BYTES = 2**27  # most bytes of results of such a chunk

# Rough seconds per pull, and per arm and pull, on one CPU: for policies in SIMD lanes, for index
# policies one run at a time, for choice policies, and in plain Python.
LANES, SINGLE, CHOICE, PYTHON = (1.5e-9, 0.2e-9), (8e-8, 2e-9), (1.3e-7, 1.2e-8), (1e-5, 3e-6)


@dataclass(frozen=True, eq=False)
class Job:
    """Some runs of one policy at one budget on one problem.

    ``budget`` is normalised: in units of the largest cost of one pull. ``setup`` is computed once
    and sent along, because another machine's ``log`` may differ in the last bit. ``engine`` names
    the engine that makes the runs, see ``backend.ENGINES``; ``backend`` is the name in the results,
    such as ``"ray"``.
    """

    problem: Problem
    policy: Policy
    setup: Setup
    budget: float
    seed: int
    precision: str = "auto"
    engine: str = "cpu"
    backend: str = "cpu"
    label: str = ""
    user_budget: float = math.nan  # in the problem's units of cost
    numbers: Numbers = field(default_factory=lambda: np.zeros(0, np.int64))  # run numbers
    delays: Delays = AT_ONCE
    any_arms: bool = False  # whether it uses a kernel for any number of arms, see ``planning``
    alone: bool = False  # whether runs go one at a time although SIMD lanes are possible

    def on(self, engine: str, backend: str | None = None) -> Job:
        """The same job for another engine."""
        return replace(self, engine=engine, backend=backend or engine)

    @property
    def aware(self) -> bool:
        """Whether requests have types and the policy uses them: its arms are then rows."""
        return self.policy.contextual and self.problem.contexts is not None

    @property
    def featured(self) -> bool:
        """Whether requests have features and the policy uses them."""
        return self.policy.contextual and self.problem.features is not None

    @property
    def known(self) -> Known:
        """What a run's state is made for: the problem, or its task over rows."""
        return self.problem.over_rows if self.aware else self.problem

    @property
    def arm_count(self) -> int:
        """K, the number of arms; or of rows."""
        return self.known.arm_count

    @property
    def penalty_count(self) -> int:
        """M, the number of penalties."""
        return self.problem.penalty_count

    @cached_property
    def bernoulli(self) -> bool:
        """Whether every outcome is 0 or 1, in every phase."""
        parts = [phase.problem for phase in self.problem.phases]
        if self.problem.contexts is not None:
            parts = list(self.problem.by_type)
        return all(one.bernoulli() is not None for one in parts)

    @property
    def steps(self) -> float:
        """The mean number of pulls of a run that only pulls the cheapest arm."""
        return (self.budget + 1.0) / self.problem.moments.smallest_cost

    @property
    def last_spent(self) -> float:
        """The largest cost so far at which a run continues; an integer if outcomes are."""
        return math.floor(self.budget) if self.bernoulli else self.budget

    @property
    def side_by_side(self) -> bool:
        """Whether runs can go in SIMD lanes: only an arm's own pulls change its terms."""
        plain = isinstance(self.policy, IndexPolicy) and not self.setup.forgets
        changes = self.problem.changes or self.problem.hard or self.moving
        changes = changes or self.problem.contexts is not None
        return plain and not changes and not self.alone

    @property
    def moving(self) -> bool:
        """Whether decisions are made with pulls in flight: see ``kernels.moving``."""
        return self.delays.any or any(self.problem.absences)

    @cached_property
    def dtype(self) -> Any:
        """Single precision if requested, or if outcomes are 0 or 1 and all counts are exact."""
        fits = 4.0 * self.steps < EXACT_IN_SINGLE  # more pulls are practically impossible
        if self.precision == "single" and not fits:
            raise InputError(
                f"precision = 'single': a run of about {self.steps:,.0f} pulls at budget"
                f" {self.budget * self.problem.scales.cost:g} counts past 2^24, where single"
                " precision stops counting; must be 'double' or 'auto'"
            )
        single = isinstance(self.policy, IndexPolicy) and not self.setup.forgets
        if self.precision == "auto":
            single = self.bernoulli and fits and self.side_by_side
        return np.float32 if single and self.precision != "double" else np.float64

    @cached_property
    def seconds(self) -> float:
        """A rough estimate of one run's seconds on one CPU, for progress bars and chunk sizes."""
        if self.engine == "python":
            step, arm = PYTHON
        elif isinstance(self.policy, ChoicePolicy):
            step, arm = CHOICE
        else:
            step, arm = LANES if self.side_by_side else SINGLE
        pulls = self.budget / float(self.problem.moments.cost.mean())
        return (pulls + 1.0) * (step + arm * self.arm_count)

    @cached_property
    def plan(self) -> BackendPlan:
        """The plan for this machine."""
        return plan_of(self)

    @property
    def chunk(self) -> int:
        """The number of runs per unit of work."""
        if self.backend == "ray:gpu":
            return max(1, min(GPU_CHUNK, GPU_BYTES // self.run_bytes))
        return self.plan.chunk

    @property
    def run_bytes(self) -> int:
        """The bytes of one run's results."""
        return 8 * (2 + 3 * self.penalty_count + 2 * self.arm_count)

    def compile(self) -> float:
        """Compile the kernels if necessary; returns the seconds of compiling.

        For a cluster too: workers on this machine then load the kernels from the disk. Workers on
        other machines, and GPUs, compile during their first task; that time is not counted here.
        """
        return 0.0 if self.backend == "ray:gpu" else self.plan.compile()

    @property
    def described(self) -> str:
        """The policy's class and parameters."""
        return _described(self.policy)

    @cached_property
    def digest(self) -> str:
        """A hash of everything that determines the runs except their numbers.

        It includes the engine, because engines round differently, and the versions of the package's
        and the policy's decisions.
        """
        known = {
            "problem": self.problem.outline,
            "policy": self.described,
            "budget": self.budget,
            "seed": self.seed,
            "precision": self.precision,
            "engine": self.engine,
            "delays": [list(self.delays.table), self.delays.lost],
            "decisions": decisions_of(type(self.policy)),
        }
        return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:32]


def _described(policy: Policy) -> str:
    """A policy's class and parameters."""
    if is_dataclass(policy):
        parameters = {one.name: getattr(policy, one.name) for one in fields(policy)}
    else:
        parameters = dict(vars(policy))
    for name, value in parameters.items():
        if isinstance(value, Problem):
            parameters[name] = value.outline  # its repr leaves things out
    return f"{type(policy).__qualname__} {parameters!r}"
