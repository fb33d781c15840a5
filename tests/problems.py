"""Problems, policies and comparisons that several tests share."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from tests.conftest import bernoulli_problem
from tightrope import Arm, Change, ChoicePolicy, LyOn, Policy, Problem, Results, Uniform
from tightrope.policies.base import Setup, limits_of
from tightrope.runs import Runs
from tightrope.testing.policies import _dollars

BEFORE = [(0.4, 0.8, 0.6), (0.6, 0.6, 0.3), (0.5, 0.3, 0.2)]
AFTER = [(0.6, 0.2, 0.5), (0.5, 0.3, 0.2), (0.4, 0.9, 0.5)]
LAST = [(0.9, 0.1, 0.9), (0.3, 0.7, 0.2), (0.8, 0.2, 0.7)]
LIMITS = (0.5, 0.6, 0.7)


def coins(arms: int, penalties: int, seed: int = 0) -> Problem:
    """Many arms of zeros and ones."""
    odds = np.random.default_rng(seed).uniform(0.05, 0.95, (arms, 2 + penalties))
    odds[1::7] = odds[::7][: len(odds[1::7])]  # some arms are twins
    limit = LIMITS[:penalties] or None
    return Problem.from_bernoulli(
        odds[:, 0], odds[:, 1], odds[:, 2:] if penalties else None, limit=limit
    )


def ranges(arms: int, penalties: int) -> Problem:
    """Many arms of continuous outcomes."""
    ends = np.random.default_rng(3).uniform(0.05, 0.95, (arms, 2 + penalties)).tolist()
    laws = [[Uniform(0.0, end) for end in row] for row in ends]
    return Problem(
        [Arm(f"{k}", row[0], row[1], row[2:]) for k, row in enumerate(laws)],
        limit=LIMITS[:penalties],
    )


def changing(
    penalties: int = 1,
    at: Sequence[float] = (0.35, 0.7),
    then: Sequence[list[tuple[float, ...]]] = (AFTER, LAST),
) -> Problem:
    """Bernoulli arms that change; the limit of each penalty is 0.8."""
    first, *others = (
        bernoulli_problem([m[: 2 + penalties] for m in means], [0.8] * penalties or None)
        for means in (BEFORE, *then)
    )
    changes = [Change(share, other.arms) for share, other in zip(at, others, strict=True)]
    return dataclasses.replace(first, changes=changes)


def turning(unit: float = 1.0) -> Problem:
    """Continuous and dependent outcomes, rows, two limits, dollars; each arm becomes another."""
    problem = _dollars(unit)
    laws = [(arm.cost, arm.reward, arm.penalties) for arm in problem.arms]
    turned = [
        Arm(arm.name, *law) for arm, law in zip(problem.arms, laws[1:] + laws[:1], strict=True)
    ]
    return dataclasses.replace(problem, changes=[Change(0.45, turned)])


@dataclasses.dataclass(frozen=True)
class LeastPulled(Policy):
    """A user's policy in plain Python: it has only ``decide``."""

    name = "least-pulled"
    summary = "the arm pulled least"

    def setup(self, task, budget):
        return Setup((), limits_of(task))

    def decide(self, setup, step, statistics, queues, uniform):
        return int(np.argmin(statistics.pulls))


@dataclasses.dataclass(frozen=True)
class Astray(ChoicePolicy):
    """After five pulls it answers with an arm that there may not be."""

    name = "astray"
    summary = "loses its way"
    answer: int = 0

    def setup(self, task, budget):
        return Setup((float(self.answer),), limits_of(task))

    @staticmethod
    def choose(constants, state, scratch, words):
        return 0 if state.steps[0] < 5.0 else int(constants[0])


@dataclasses.dataclass(frozen=True)
class AstrayDecider(LeastPulled):
    """The same by ``decide``."""

    name = "astray"
    answer: int = 0

    def decide(self, setup, step, statistics, queues, uniform):
        return 0 if step < 5 else self.answer


@dataclasses.dataclass(frozen=True)
class Halfway(ChoicePolicy):
    """Its arm is no whole number."""

    name = "halfway"
    summary = "between two arms"

    def setup(self, task, budget):
        return Setup((), limits_of(task))

    @staticmethod
    def choose(constants, state, scratch, words):
        return 0.5


@dataclasses.dataclass(frozen=True)
class HalfSpelled(Halfway):
    """The same in words that numba cannot compile."""

    name = "half-spelled"

    @staticmethod
    def choose(constants, state, scratch, words):
        return {f"{0.5:g}": 0.5}["0.5"]


@dataclasses.dataclass(frozen=True)
class Reaching(ChoicePolicy):
    """Looks at numbers by an index that may be out of range."""

    name = "reaching"
    summary = "may use an index out of range"
    choose_at: int = 0
    learn_at: int = 0

    def setup(self, task, budget):
        return Setup((float(self.choose_at), float(self.learn_at)), limits_of(task))

    @staticmethod
    def choose(constants, state, scratch, words):
        return 0 if state.pulls[int(constants[0])] < 5.0 else 1

    @staticmethod
    def learn(constants, state, scratch, arm):
        state.squares[int(constants[1])] += 0.0


@dataclasses.dataclass(frozen=True)
class Speller(ChoicePolicy):
    """Takes turns, by way of a text and a dictionary: numba cannot compile it."""

    name = "speller"
    summary = "looks arms up"

    def setup(self, task, budget):
        return Setup((), limits_of(task))

    @staticmethod
    def choose(constants, state, scratch, words):
        arms = {f"{arm:g}": arm for arm in range(len(state.pulls))}
        return arms[f"{state.steps[0] % len(state.pulls):g}"]


@dataclasses.dataclass(frozen=True)
class Careful(LyOn):
    """LyOn with a sum that numba does not know."""

    name = "careful"

    @staticmethod
    def reward_index(constants, clock, uniform, arm, level, width):
        return math.fsum([-constants[0] * level, -constants[0] * clock * width])


def unlike(a: Runs, b: Runs) -> list[str]:
    """The fields that differ, in a bit or more."""
    names = [field.name for field in dataclasses.fields(Runs)]
    return [name for name in names if not np.array_equal(getattr(a, name), getattr(b, name))]


def equal(a: Results, b: Results) -> bool:
    """Whether two simulations have the same runs, to the bit."""
    assert a.labels == b.labels
    same_numbers = np.array_equal(a.run_numbers, b.run_numbers)
    return same_numbers and not any(unlike(a[x].runs, b[x].runs) for x in a.labels)


def compilations(kernel) -> int:
    """How often a kernel was compiled in this process, without loads from the disk."""
    return sum(kernel.stats.cache_misses.values())
