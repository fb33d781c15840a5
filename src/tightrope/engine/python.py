"""The plain Python simulator: slow, and obviously the algorithm. Runs any policy's ``decide``.

The compiled engine must make the same decisions on the same draws; tests compare the two. It is
also how a policy that has no compilable functions runs (backend ``"python"``).
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tightrope.engine.mind import mind_of
from tightrope.engine.rng import LUCK, OUTCOMES, Generator
from tightrope.policies.base import Policy, Setup
from tightrope.problem import Problem, Tables
from tightrope.results import Runs

__all__ = ["Plan", "Step", "outcomes", "play"]

Step = tuple[int, list[float], list[float]]  # the arm, its outcomes, the queues afterwards


def play(
    problem: Problem,
    policy: Policy,
    setup: Setup,
    budget: float,
    seed: int,
    run: int,
    number: type = float,
) -> Iterator[Step]:
    """Every step of one run, until its cost first exceeds ``budget`` (normalised)."""
    draws, chances = Generator(seed, OUTCOMES, run), Generator(seed, LUCK, run)
    luck = chances if policy.random else None
    tables = [phase.problem.tables() for phase in problem.phases]
    starts = problem.phase_starts(budget).tolist()
    mind = mind_of(problem, policy, setup, budget, number)
    while mind.spent <= budget:
        if mind.exploring:
            chances.luck()  # a number a step, used or not
            arm = mind.step % problem.arm_count
        else:
            arm = mind.decide(luck)
        now = tables[bisect_right(starts, mind.spent) - 1]
        values = [number(value) for value in outcomes(now, arm, draws)]
        mind.learn(arm, values)
        yield arm, values, list(mind.queues)


def outcomes(tables: Tables, arm: int, draws: Generator) -> list[float]:
    """Draw one pull's cost, reward and penalties: one uniform each, whatever the arm."""
    channels = tables.count.shape[1]
    uniforms = [draws.uniform() for _ in range(max(channels, 3))]  # as many without a penalty
    values = []
    for channel in range(channels):
        place = uniforms[tables.source[arm, channel]] * tables.count[arm, channel]
        cell = int(place)
        part, at = place - cell, tables.offset[arm, channel] + cell
        value = tables.first[at] if part < tables.split[at] else tables.second[at]
        values.append(float(value + tables.slope[at] * (part - 0.5)))
    return values


@dataclass(frozen=True)
class Plan:
    """One policy at one (normalised) budget, in plain Python."""

    problem: Problem
    policy: Policy
    setup: Setup
    budget: float
    seed: int
    chunk: int = 1  # runs in a unit of work
    backend: str = "python"

    def compile(self) -> float:
        """Nothing to compile."""
        return 0.0

    def run(
        self, runs: npt.NDArray[np.int64], stop: npt.NDArray[np.uint8]
    ) -> tuple[Runs | None, float]:
        """The runs and the seconds they took; None once ``stop[0]`` is set."""
        start = time.perf_counter()
        finished = []
        for run in runs.tolist():
            if stop[0]:
                return None, 0.0
            finished.append(self._one(run))
        return Runs.stack(finished), time.perf_counter() - start

    def _one(self, run: int) -> Runs:
        arms, penalties = self.problem.arm_count, self.problem.penalty_count
        totals, pulls, arm_cost = np.zeros(2 + penalties), np.zeros(arms, int), np.zeros(arms)
        queues: list[float] = [0.0] * penalties
        peak = np.zeros(penalties)
        steps = play(self.problem, self.policy, self.setup, self.budget, self.seed, run)
        for arm, values, queues in steps:
            totals += values
            pulls[arm] += 1
            arm_cost[arm] += values[0]
            peak = np.maximum(peak, queues)
        return Runs(
            reward=totals[1],
            cost=totals[0],
            penalty=totals[2:],
            pulls=pulls,
            arm_cost=arm_cost,
            queue=np.array(queues),
            queue_max=peak,
        )
