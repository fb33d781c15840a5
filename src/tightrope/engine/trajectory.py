"""How single runs go over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tightrope.engine import cpu
from tightrope.engine.asked import run_numbers, seed_number
from tightrope.engine.caveats import warn_outside_theory
from tightrope.engine.planning import alone
from tightrope.errors import BackendError, InputError
from tightrope.policies.base import IndexPolicy, Policy
from tightrope.problem import Problem, check_budget
from tightrope.results import Floats, Runs

__all__ = ["Trajectory", "trajectory"]


@dataclass(frozen=True)
class Trajectory:
    """How some runs went, thinned to T points, in the user's units. M penalties, R runs."""

    step: npt.NDArray[np.int64]  # [T] pulls so far
    cost: Floats  # [R, T]
    reward: Floats  # [R, T]
    penalty: Floats  # [R, T, M]
    queue: Floats  # [R, T, M]


def trajectory(
    problem: Problem,
    policy: Policy,
    *,
    budget: float,
    runs: int | range = 4,
    seed: int = 0,
    points: int = 200,
) -> Trajectory:
    """The cost, reward, penalty and queue of a few runs over time, at about ``points`` moments.

    The same runs as :func:`simulate` makes with this seed; a run that is done stays as it ended.
    """
    budget = check_budget(budget)
    scaled = budget / problem.scales.cost
    setup = policy.setup(problem, scaled)
    reason = alone(problem, policy, setup)
    if reason:
        raise BackendError(f"{reason}, so there is no trajectory")
    if not isinstance(policy, IndexPolicy):
        raise BackendError(f"policy {policy.label!r} cannot be compiled, so it has no trajectory")
    warn_outside_theory({(policy.label, budget): setup.warning})
    numbers = run_numbers(runs)
    plan = cpu.plan_side_by_side(problem, policy, setup, scaled, seed_number(seed), "auto")
    if not points >= 2 or len(numbers) > plan.spec.lanes:
        raise InputError(
            f"points = {points} and runs = {len(numbers)} must be at least 2 and"
            f" at most {plan.spec.lanes}"
        )
    lanes, stop = cpu.Lanes(plan, numbers, *plan.seeds(numbers)), np.zeros(1, np.uint8)
    stride = max(1, round(scaled / float(problem.moments.cost.mean()) / points))
    steps, moments = [0], [lanes.read()]
    while lanes.running:
        lanes.advance(lanes.step + stride, stop)
        steps.append(lanes.step)
        moments.append(lanes.read())
    seen = Runs.stack(moments)
    scales = problem.scales
    penalty_scales = np.asarray(scales.penalties or [1.0] * problem.penalty_count)
    return Trajectory(
        step=np.array(steps),
        cost=seen.cost.T * scales.cost,
        reward=seen.reward.T * scales.reward,
        penalty=seen.penalty.swapaxes(0, 1) * penalty_scales,
        queue=seen.queue.swapaxes(0, 1) * penalty_scales,
    )
