"""What a policy keeps in mind of a run, in plain Python's lists: a simulated run or a live one.

Everything is normalised. Letters: K arms, M penalties.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tightrope.engine.rng import Generator
from tightrope.policies.base import Policy, Setup, Statistics, advance
from tightrope.policies.choice import WORDS, ChoicePolicy, Seen
from tightrope.policies.memory import learner, remember
from tightrope.problem import Problem

__all__ = ["Mind", "Weighing", "mind_of"]


def mind_of(
    problem: Problem, policy: Policy, setup: Setup, budget: float, number: type = float
) -> Mind:
    """An empty mind; it counts in ``number``s."""
    if isinstance(policy, ChoicePolicy):
        return Weighing(problem, policy, setup, budget)
    if setup.forgets:
        return Forgetful(problem, policy, setup, budget)
    return Mind(problem, policy, setup, budget, number)


class Mind:
    """The state of a policy that has ``decide``: what was seen of each arm, and the queues [M]."""

    def __init__(
        self, problem: Problem, policy: Policy, setup: Setup, budget: float, number: type = float
    ) -> None:
        arms, penalties, zero = problem.arm_count, problem.penalty_count, number(0)
        self.policy, self.setup, self.budget, self._number = policy, setup, budget, number
        self.spent, self.step, self.queues = zero, 0, [zero] * penalties
        self.pulls = [0] * arms
        self._explore, self._lost = setup.explore * arms, [zero] * penalties
        self.seen = Statistics(
            [zero] * arms, [zero] * arms, [zero] * arms, [[zero] * penalties for _ in range(arms)]
        )

    @property
    def exploring(self) -> bool:
        """Whether every arm is still tried in turn; the queues rest meanwhile."""
        return self.step < self._explore

    def decide(self, luck: Generator | None) -> int:
        """The arm to pull; ``luck`` is for policies that toss coins."""
        uniform = 0.0 if luck is None else luck.luck()
        return self.policy.decide(self.setup, self._remembered(), self.seen, self.queues, uniform)

    def _remembered(self) -> float:
        """How many pulls are remembered."""
        return self.step

    def learn(self, arm: int, values: Sequence[Any]) -> None:
        """Count a pull's cost, reward and penalties."""
        self._count(arm, values)
        cost, _, *penalties = values
        if not self.exploring:
            for m, penalty in enumerate(penalties):
                allowance = self._number(self.setup.allowance[m])
                self.queues[m], self._lost[m] = advance(
                    self.queues[m], self._lost[m], allowance, cost, penalty
                )
        self.pulls[arm] += 1
        self.spent += cost
        self.step += 1

    def _count(self, arm: int, values: Sequence[Any]) -> None:
        cost, reward, *penalties = values
        self.seen.pulls[arm] += self._number(1)
        self.seen.cost[arm] += cost
        self.seen.reward[arm] += reward
        for m, penalty in enumerate(penalties):
            self.seen.penalty[arm][m] += penalty


class _Remembering(Mind):
    """What is remembered stands in the arrays of ``choice``: arms [K, S] and what is left."""

    def __init__(self, problem: Problem, policy: Policy, setup: Setup, budget: float) -> None:
        super().__init__(problem, policy, setup, budget)
        penalties = problem.penalty_count
        self._arms = np.zeros((problem.arm_count, Seen.of(penalties).columns))
        self._left = np.array([budget, 0.0, *(problem.moments.limits * budget)])
        self._history = np.zeros((setup.window, 3 + penalties))


class Forgetful(_Remembering):
    """The state of a policy that has ``decide`` and forgets."""

    def _remembered(self) -> float:
        return float(sum(self.seen.pulls))

    def _count(self, arm: int, values: Sequence[Any]) -> None:
        remember(self._arms, self._left, self._history, self.setup.fade, arm, values)
        self.seen.pulls, self.seen.cost, self.seen.reward, *penalties = self._arms.T[
            : len(self._left) + 1
        ].tolist()
        self.seen.penalty = list(map(list, zip(*penalties, strict=True))) or self.seen.penalty


class Weighing(_Remembering):
    """The state of a policy that weighs all arms at once.

    ``choose`` and ``learned`` are the policy's functions by default; compiled ones may be given.
    """

    def __init__(
        self,
        problem: Problem,
        policy: ChoicePolicy,
        setup: Setup,
        budget: float,
        choose: Any = None,
        learned: Any = None,
    ) -> None:
        super().__init__(problem, policy, setup, budget)
        self._choose = choose or policy.choose
        self._learned = learned or learner(remember, policy.learn)
        self._constants = (*map(float, setup.constants), 0.0)
        self._own = np.zeros(max(policy.scratch(problem.arm_count, problem.penalty_count), 1))
        policy.begin(self._constants, self._arms, self._left, self._own)

    def decide(self, luck: Generator | None) -> int:
        """The arm that the policy chooses."""
        assert luck is not None, "such a policy is random"
        words = np.array([luck.word() for _ in range(WORDS)])
        return int(self._choose(self._constants, self._arms, self._left, self._own, words))

    def _count(self, arm: int, values: Sequence[Any]) -> None:
        self._learned(
            self._constants,
            self._arms,
            self._left,
            self._own,
            self._history,
            self.setup.fade,
            arm,
            np.array(values, float),
        )
