"""Trajectories: a run's totals and queues over time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tightrope.callers import also_called
from tightrope.engine.arguments import (
    budget_list,
    named_policies,
    run_numbers,
    seed_number,
)
from tightrope.engine.caveats import warn_infeasible, warn_outside_theory
from tightrope.engine.planning import plan_jobs
from tightrope.engine.python import PlainPlan, Tally
from tightrope.engine.single import SingleRun, SingleRunPlan, plan_single
from tightrope.errors import InputError
from tightrope.policies.base import Policy
from tightrope.problem import Problem
from tightrope.problem.ready import as_problem
from tightrope.problem.values import Floats
from tightrope.runs import Runs
from tightrope.showing import html_of


@dataclass(frozen=True)
class Trajectory:
    """Totals and queues of R runs at T steps, in the user's units; M penalties.

    ``policy`` and ``limit_names`` [M] are for tables and figures; "" and () if not known.

    >>> from tightrope import LyOff, ready_problem, trajectory
    >>> runs = trajectory(ready_problem("paper"), LyOff(), budget=100, runs=3, points=5)
    >>> runs.penalty.shape == (3, len(runs.step), 1), runs.limit_names
    (True, ('penalty',))
    """

    step: npt.NDArray[np.int64]  # [T] pulls so far
    cost: Floats  # [R, T]
    reward: Floats  # [R, T]
    penalty: Floats  # [R, T, M]
    queue: Floats  # [R, T, M]
    policy: str = ""
    limit_names: tuple[str, ...] = ()

    _repr_html_ = html_of

    def __repr__(self) -> str:
        limits = f"; limits: {', '.join(self.limit_names)}" if self.limit_names else ""
        return f"Trajectory({self.policy}; runs: {len(self.cost)}; steps: {len(self.step)}{limits})"


@also_called("budgets", "budget")
def trajectory(
    problem: str | Problem,
    policy: str | Policy,
    *,
    budget: float,
    runs: int | range = 4,
    seed: int = 0,
    points: int = 200,
) -> Trajectory:
    """The cost, reward, penalty and queue of a few runs, at about ``points`` steps.

    These are the runs that :func:`simulate` makes with this seed; after it ends, a run keeps its
    final values. Policies that cannot be compiled run in plain Python.

    >>> from tightrope import LyOff, ready_problem, trajectory
    >>> runs = trajectory(ready_problem("paper"), LyOff(), budget=100, runs=3, seed=1)
    >>> runs.cost.shape[0], bool((runs.cost[:, -1] >= 100).all())
    (3, True)
    """
    problem, [policy] = as_problem(problem), named_policies(policy).values()
    [budget], numbers = budget_list([budget], problem), run_numbers(runs)
    if not points >= 2:
        raise InputError(f"points = {points} must be at least 2")
    jobs = plan_jobs(problem, {policy.label: policy}, [budget], 1, seed=seed_number(seed))
    job = jobs[policy.label, budget]
    warn_infeasible(problem, [budget])
    warn_outside_theory({(policy.label, budget): job.setup.warning})
    stride = max(1, round(job.budget / float(problem.moments.cost.mean()) / points))
    made = [
        list(_plain(PlainPlan(job), run, stride))
        if job.engine == "python"
        else list(_compiled(plan_single(job), run, stride))
        for run in numbers.tolist()
    ]
    length = max(map(len, made))
    padded = [moments + moments[-1:] * (length - len(moments)) for moments in made]
    seen = Runs.stack([Runs.stack(moments) for moments in padded])
    scales = problem.scales
    penalty_scales = np.asarray(scales.penalties or [1.0] * problem.penalty_count)
    return Trajectory(
        step=np.arange(length) * stride,
        cost=seen.cost * scales.cost,
        reward=seen.reward * scales.reward,
        penalty=seen.penalty * penalty_scales,
        queue=seen.queue * penalty_scales,
        policy=policy.label,
        limit_names=problem.limit_names,
    )


def _compiled(plan: SingleRunPlan, run: int, stride: int) -> Iterator[Runs]:
    """The run's totals at the start and after every ``stride`` steps."""
    state, stop, until = SingleRun(plan, np.array([run])), np.zeros(1, np.uint8), 0
    while True:
        state.advance(until, stop)
        yield state.read()[0]
        if not state.running:
            return
        until += stride


def _plain(plan: PlainPlan, run: int, stride: int) -> Iterator[Runs]:
    tally, number = Tally(plan.job), 0
    yield tally.read()
    for number, step in enumerate(plan.steps(run), start=1):
        tally.add(step)
        if number % stride == 0:
            yield tally.read()
    if number % stride:
        yield tally.read()
