"""A policy that decides for real: ask for an arm, tell what came of it.

Nothing is stored on a disk here and nothing is reserved: this is the policy alone, at the speed
of its arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from operator import index
from typing import Any

import numpy as np

from tightrope.decision import ENVELOPE, SCAN, Spec, Store, envelope_of, way_for
from tightrope.engine.asked import seed_number
from tightrope.engine.mind import Mind, Weighing, mind_of
from tightrope.engine.rng import LUCK, Generator
from tightrope.engine.solo import steps
from tightrope.errors import ExhaustedError, InputError
from tightrope.laws import shown
from tightrope.live.kernels import NOTHING, REFUSED, kernels
from tightrope.policies.base import IndexPolicy, Policy, Setup
from tightrope.policies.choice import ChoicePolicy
from tightrope.problem import Problem, channel_names, check_budget

__all__ = ["Controller"]

MANY = 128  # arms from which on a decision does not look at all of them


class Controller:
    """Decides which arm to pull next, for one budget, in the user's units.

    >>> from tightrope import Controller, LyOff, ready_problem
    >>> controller = Controller(ready_problem("paper"), LyOff(), budget=100)
    >>> arm = controller.ask()
    >>> controller.tell(arm, cost=1, reward=1, penalty=0)
    >>> controller.spent, controller.pulls
    (1.0, [1, 0])

    Several arms may be asked for before their outcomes are told, in any order: the first
    explorations go round robin by asks, a later decision goes by what was told before it. Not for
    several threads at once.
    """

    def __init__(self, problem: Problem, policy: Policy, budget: float, *, seed: int = 0) -> None:
        """``budget`` in the problem's cost units; ``seed`` is for policies that toss coins."""
        self.problem, self.policy, self.budget = problem, policy, check_budget(budget)
        scaled = self.budget / problem.scales.cost
        self.setup = policy.setup(problem, scaled)
        self._mind = _mind(problem, policy, self.setup, scaled)
        self._tell = self._mind.tell
        luck = Generator(seed_number(seed), LUCK, 0)
        self._luck = luck if policy.random else None
        self._to_explore = self.setup.explore * problem.arm_count
        self._asked = 0
        self._arm = NOTHING  # the next one, where it is known already

    def ask(self) -> int:
        """The arm to pull next, numbered from 0."""
        arm = self._arm
        return arm if arm >= 0 else self._decide()

    def _decide(self) -> int:
        if self.exhausted:
            raise ExhaustedError(
                f"budget = {self.budget:g}: spent ({self.spent:g}); no pull is left"
            )
        step, self._asked = self._asked, self._asked + 1
        if step < self._to_explore:
            _uniform(self._luck)
            return step % self.problem.arm_count
        arm = self._mind.decide(self._luck)
        if self._luck is None:
            self._arm = arm
        return arm

    def tell(
        self,
        arm: int,
        cost: float,
        reward: float,
        penalty: float | Sequence[float] | None = None,
    ) -> None:
        """What a pull of ``arm`` cost, earned and incurred (a number, or one for each limit)."""
        try:
            known = self._tell(index(arm), cost, reward, penalty)
        except (TypeError, ValueError):
            known = REFUSED
        if known == REFUSED:
            self._refuse(arm, cost, reward, penalty)
        self._arm = known if self._asked >= self._to_explore else NOTHING

    def _refuse(self, arm: object, cost: object, reward: object, penalty: object) -> None:
        count, penalties = self.problem.arm_count, self.problem.penalty_count
        if not isinstance(arm, int | np.integer) or not 0 <= arm < count:
            raise InputError(f"arm = {shown(arm)}: must be a number from 0 to {count - 1}")
        several = _as_list(penalty, penalties)
        if several is None:
            allowed = ("left out", "a number", f"{penalties} numbers")[min(penalties, 2)]
            raise InputError(f"penalty = {shown(penalty)}: must be {allowed}")
        values = (cost, reward, *several)
        for name, value, scale in zip(
            channel_names(penalties), values, self.problem.scales.channels, strict=True
        ):
            if not isinstance(value, int | float | np.number) or not 0.0 <= value <= scale:
                raise InputError(f"{name} = {shown(value)}: must be a number in [0, {scale:g}]")
        raise AssertionError("an outcome was refused for no reason")

    @property
    def spent(self) -> float:
        """The cost of all pulls told so far."""
        return self._mind.spent * self.problem.scales.cost

    @property
    def exhausted(self) -> bool:
        """Whether the pulls told so far have cost more than the budget."""
        return self._mind.spent > self._mind.budget

    @property
    def queues(self) -> list[float]:
        """The policy's virtual queues [M]."""
        scales = self.problem.scales.penalties
        return [q * scale for q, scale in zip(self._mind.queues, scales, strict=True)]

    @property
    def pulls(self) -> list[int]:
        """How often each arm was pulled [K], as far as it was told."""
        return self._mind.pulls


def _mind(problem: Problem, policy: Policy, setup: Setup, budget: float) -> _Compiled | _Plain:
    if isinstance(policy, IndexPolicy) and not setup.forgets:
        return _Compiled(problem, policy, setup, budget)
    return _Plain(problem, policy, setup, budget)


class _Compiled:
    """The state of an index policy in compiled code's arrays, normalised."""

    def __init__(self, problem: Problem, policy: IndexPolicy, setup: Setup, budget: float) -> None:
        spec = Spec(
            policy=type(policy),
            penalties=max(problem.penalty_count, 1),
            dtype=np.float64,
            way=way_for(type(policy), setup) if problem.arm_count > MANY else SCAN,
            constants=len(setup.constants) + 1,
        )
        self.budget, self._penalties = budget, problem.penalty_count
        self._store = Store(spec, problem.arm_count, setup, budget, problem.scales.channels)
        if spec.way == ENVELOPE:
            self._store.use(envelope_of(self._store))
        self._call, self._choose = kernels(spec)
        self._tell = partial(self._call, self._store.address)
        self.tell = (self._tell_none, self._tell_one, self._tell_several)[min(self._penalties, 2)]

    def _tell_none(self, arm: int, cost: float, reward: float, penalty: object) -> int:
        if _as_list(penalty, 0) is None:
            return REFUSED
        return self._tell_one(arm, cost, reward, 0.0)

    def _tell_one(self, arm: int, cost: float, reward: float, penalty: Any) -> int:
        if penalty.__class__ in (list, tuple):
            several = _as_list(penalty, 1)
            return REFUSED if several is None else self._tell_one(arm, cost, reward, *several)
        _ = cost + reward + penalty + 0.0  # compiled code would take "0.5" for a number
        return self._tell(arm, cost, reward, penalty)  # type: ignore[no-any-return]

    def _tell_several(self, arm: int, cost: float, reward: float, penalty: object) -> int:
        several = _as_list(penalty, self._penalties)
        if several is None:
            return REFUSED
        first = self._store.layout.outcome + 2
        self._store.run[first : first + self._penalties] = [value + 0.0 for value in several]
        return self._tell_one(arm, cost, reward, 0.0)

    def decide(self, luck: Generator | None) -> int:
        """The arm with the smallest index."""
        return int(self._choose(self._store.address, _uniform(luck)))

    @property
    def spent(self) -> float:
        return float(self._store.run[self._store.layout.spent])

    @property
    def queues(self) -> list[float]:
        return list(map(float, self._store.queues(self._penalties)))

    @property
    def pulls(self) -> list[int]:
        return list(map(int, self._store.totals[:, 0]))


def _state(problem: Problem, policy: Policy, setup: Setup, budget: float) -> Mind:
    """A policy that weighs all arms at once does so in compiled code; the others in Python."""
    if isinstance(policy, ChoicePolicy):
        return Weighing(problem, policy, setup, budget, *steps(type(policy)))
    return mind_of(problem, policy, setup, budget)


class _Plain:
    """The state of any policy but those with an index, normalised."""

    def __init__(self, problem: Problem, policy: Policy, setup: Setup, budget: float) -> None:
        self.budget, self._scales = budget, problem.scales.channels
        self._mind = _state(problem, policy, setup, budget)

    def tell(self, arm: int, cost: float, reward: float, penalty: object) -> int:
        several = _as_list(penalty, len(self.queues))
        if several is None or not 0 <= arm < len(self.pulls):
            return REFUSED
        told = zip((cost, reward, *several), self._scales, strict=True)
        values = [float(v) / scale if 0.0 <= v <= scale else math.nan for v, scale in told]
        if any(map(math.isnan, values)):
            return REFUSED
        self._mind.learn(arm, values)
        return NOTHING

    def decide(self, luck: Generator | None) -> int:
        """As the policy says."""
        return self._mind.decide(luck)

    @property
    def spent(self) -> float:
        return float(self._mind.spent)

    @property
    def queues(self) -> list[float]:
        return self._mind.queues

    @property
    def pulls(self) -> list[int]:
        return list(self._mind.pulls)


def _uniform(luck: Generator | None) -> float:
    """The policy's number of a step; 0 for one that tosses no coins."""
    return 0.0 if luck is None else luck.luck()


def _as_list(penalty: Any, count: int) -> list[Any] | None:
    """The penalties of a pull, ``count`` of them; None if there are not as many."""
    if penalty is None:
        several = []
    elif isinstance(penalty, Iterable) and not isinstance(penalty, str | bytes):
        several = list(penalty)
    else:
        several = [penalty]
    return several if len(several) == count else None
