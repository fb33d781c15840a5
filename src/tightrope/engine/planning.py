"""Which engine makes a policy's runs. Engines go by name, so that another machine can be told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tightrope.engine import cpu, gpu, python, solo
from tightrope.engine.asked import one_of, thread_count
from tightrope.engine.backend import Plan
from tightrope.errors import BackendError
from tightrope.policies.base import IndexPolicy, Policy, Setup
from tightrope.policies.choice import ChoicePolicy
from tightrope.problem import Problem

__all__ = ["BACKENDS", "PRECISIONS", "Order", "Planner", "alone"]

BACKENDS = ("auto", "cpu", "gpu", "python", "ray", "ray:gpu")
PRECISIONS = ("auto", "single", "double")

# From here on a GPU, once its kernels are compiled, wins: so many runs at once, and so many
# seconds of this machine's processors (of a step, and of each arm in it).
GPU_RUNS, GPU_SECONDS = 1000, 5.0
STEP_SECONDS, ARM_SECONDS = 2e-9, 0.4e-9


@dataclass(frozen=True)
class Order:
    """What decides the runs of one policy at one budget; nothing in it is compiled yet.

    ``setup`` goes along though the policy could make it again: another machine's ``log`` may
    differ in the last bit.
    """

    engine: str  # "cpu", "python" or "gpu"
    problem: Problem
    policy: Policy
    setup: Setup
    budget: float  # normalised
    seed: int
    precision: str

    def plan(self) -> Plan:
        """Ready to run here."""
        if self.engine == "python":
            return python.Plan(self.problem, self.policy, self.setup, self.budget, self.seed)
        assert isinstance(self.policy, IndexPolicy | ChoicePolicy)  # the planner saw to it
        if alone(self.problem, self.policy, self.setup):
            return solo.Plan(self.problem, self.policy, self.setup, self.budget, self.seed)
        assert isinstance(self.policy, IndexPolicy)
        make = gpu.plan_threads if self.engine == "gpu" else cpu.plan_lanes
        return make(self.problem, self.policy, self.setup, self.budget, self.seed, self.precision)


class Planner:
    """Which engine runs a policy: the one asked for, or the fastest that can."""

    def __init__(self, problem: Problem, seed: int, backend: str, precision: str) -> None:
        self._problem, self._seed = problem, seed
        self._backend = one_of("backend", backend, BACKENDS)
        self._precision = one_of("precision", precision, PRECISIONS)
        self._compiled = "cpu"  # the engine of "auto" for policies that can be compiled

    def weigh(self, policies: Iterable[Policy], budgets: Iterable[float], runs: int) -> None:
        """Let ``"auto"`` take a GPU if there is one and the work is large enough to win."""
        if self._backend != "auto" or runs < GPU_RUNS:
            return
        moments = self._problem.moments
        step = STEP_SECONDS + ARM_SECONDS * self._problem.arm_count
        pulls = runs * sum(budgets) / self._problem.scales.cost / float(moments.cost.mean())
        compilable = sum(isinstance(policy, IndexPolicy) for policy in policies)
        if compilable * pulls * step / thread_count(None) > GPU_SECONDS and gpu.available():
            self._compiled = "gpu"

    @property
    def clustered(self) -> bool:
        """Whether the runs are made on a cluster."""
        return self._backend.startswith("ray")

    def __call__(self, policy: Policy, budget: float) -> Order:
        """The order for a policy at a budget in the problem's units."""
        scaled = budget / self._problem.scales.cost
        setup = policy.setup(self._problem, scaled)
        return Order(
            engine=self._engine(policy, setup),
            problem=self._problem,
            policy=policy,
            setup=setup,
            budget=scaled,
            seed=self._seed,
            precision=self._precision,
        )

    def name(self, order: Order) -> str:
        """The backend, as a row of results calls it."""
        return self._backend if self.clustered else order.engine

    def _engine(self, policy: Policy, setup: Setup) -> str:
        """The engine that makes a policy's runs, by name."""
        wanted = {"auto": "", "ray": "", "ray:gpu": "gpu"}.get(self._backend, self._backend)
        if not isinstance(policy, IndexPolicy | ChoicePolicy):
            if wanted in ("cpu", "gpu"):
                raise BackendError(
                    f"policy {policy.label!r} cannot be compiled; use backend 'python'"
                )
            return "python"
        reason = alone(self._problem, policy, setup)
        if reason and wanted == "gpu":
            raise BackendError(f"{reason}, which no GPU kernel does; use backend 'cpu'")
        return wanted or ("cpu" if reason else self._compiled)


def alone(problem: Problem, policy: Policy, setup: Setup) -> str:
    """Why runs are made one at a time and not side by side; empty if they need not be."""
    if isinstance(policy, ChoicePolicy):
        return f"policy {policy.label!r} weighs all arms at once"
    if setup.forgets:
        return f"policy {policy.label!r} forgets"
    if problem.changes:
        return f"{problem.title} has arms that change"
    return ""
