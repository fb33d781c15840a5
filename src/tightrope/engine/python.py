"""The plain Python simulator: slow, and obviously the algorithm. Runs any policy's ``decide``.

The compiled engine must make the same decisions on the same draws; tests compare the two. It is
also how a policy that has no compilable functions runs (backend ``"python"``).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.engine.rng import LUCK, OUTCOMES, Generator
from tightrope.policies.base import Policy, Setup, Statistics, advance
from tightrope.policies.choice import WORDS, ChoicePolicy, Seen, record
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
    arms, penalties = problem.arm_count, problem.penalty_count
    tables, draws, luck = (
        problem.tables(),
        Generator(seed, OUTCOMES, run),
        Generator(seed, LUCK, run),
    )
    zero: Any = number(0)
    seen = Statistics(
        [zero] * arms, [zero] * arms, [zero] * arms, [[zero] * penalties for _ in range(arms)]
    )
    queues, lost = [zero] * penalties, [zero] * penalties
    choosing = (
        Choosing(problem, policy, setup, budget) if isinstance(policy, ChoicePolicy) else None
    )
    spent, step, exploring = zero, 0, setup.explore * arms
    while spent <= budget:
        counting = step >= exploring  # the queues rest while every arm is tried
        if choosing:
            arm = choosing.arm(luck)
        else:
            uniform = luck.luck() if policy.random else 0.0
            arm = policy.decide(setup, step, seen, queues, uniform) if counting else step % arms
        cost, reward, *penalty = values = [number(v) for v in outcomes(tables, arm, draws)]
        seen.pulls[arm] += number(1)
        seen.cost[arm] += cost
        seen.reward[arm] += reward
        for m in range(penalties):
            seen.penalty[arm][m] += penalty[m]
            if counting:
                allowance = number(setup.allowance[m])
                queues[m], lost[m] = advance(queues[m], lost[m], allowance, cost, penalty[m])
        if choosing:
            choosing.learn(arm, values)
        spent += cost
        step += 1
        yield arm, values, list(queues)


class Choosing:
    """What a policy that weighs all arms at once keeps of a run, in numpy's arrays."""

    def __init__(self, problem: Problem, policy: ChoicePolicy, setup: Setup, budget: float) -> None:
        arms, penalties = problem.arm_count, problem.penalty_count
        self._policy, self._constants = policy, (*setup.constants, 0.0)
        self._arms = np.zeros((arms, Seen.of(penalties).columns))
        self._left = np.array([budget, 0.0, *(problem.moments.limits * budget)])
        self._own = np.zeros(max(policy.scratch(arms, penalties), 1))
        policy.begin(self._constants, self._arms, self._left, self._own)

    def arm(self, luck: Generator) -> int:
        """The arm to pull."""
        words = np.array([luck.word() for _ in range(WORDS)])
        return int(self._policy.choose(self._constants, self._arms, self._left, self._own, words))

    def learn(self, arm: int, values: list[float]) -> None:
        """Count a pull's outcomes."""
        record(self._arms, self._left, arm, values)
        self._policy.learn(self._constants, self._arms, self._left, self._own, arm)


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
