"""A learner decides by the task and by what it is told: the laws of the arms are not for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import pytest

from tests.conftest import by_policy
from tests.problems import LeastPulled
from tightrope import (
    Arm,
    Bernoulli,
    Beta,
    Controller,
    LyOn,
    Problem,
    Scales,
    Task,
    Uniform,
    parse_policy,
    ready_problem,
)
from tightrope.engine.python import plain_run
from tightrope.kernels.rng import POLICY, Generator
from tightrope.policies import POLICIES
from tightrope.policies.base import InformedPolicy, Setup, limits_of, set_up
from tightrope.problem.outcomes import Law

LEARNERS = [
    *(
        name
        for name, kind in POLICIES.items()
        if not (issubclass(kind, InformedPolicy) and kind().knows)
    ),
    "stationary:shares=0.3/0.7/0.0",
    "optpess-lp:safe=2,safe_rate=0.5,alpha=0.1",
    "lyon:window0=1",
    "lyon:discount0=1",
    "resolve:window0=1",
    "resolve:discount0=1",
]
STEPS = 60


def with_other_laws(problem):
    """The same task, smallest mean cost and slack included; other laws.

    Arms take one another's costs and penalties where that leaves the slack as it is to the bit.
    """
    laws = [(arm.cost, arm.penalties) for arm in problem.arms]
    turned = laws[1:] + laws[:1] if problem.penalty_count == 1 else laws
    arms = [
        Arm(arm.name, cost, Beta(1 + k, 3), penalties)
        for k, (arm, (cost, penalties)) in enumerate(zip(problem.arms, turned, strict=True))
    ]
    return dataclasses.replace(problem, arms=arms)


def three_arms():
    paper = ready_problem("paper")
    third = dataclasses.replace(paper.arms[1], name="third", reward=Uniform(0.0, 1.0))
    return dataclasses.replace(paper, arms=(*paper.arms, third))


def two_limits():
    """Costs in units whose largest is a power of 2: told and scaled again they are the same."""
    laws = [(Uniform(2.0, 40.0), 2, 0.3), (Uniform(8.0, 64.0), 4, 0.6), (Uniform(1.0, 9.0), 1, 0.1)]
    arms = [
        Arm(f"{k}", cost, Uniform(0.0, 0.9), [Beta(a, 4), Bernoulli(p)])
        for k, (cost, a, p) in enumerate(laws)
    ]
    return Problem(arms, limit=(0.02, 0.015), scales=Scales(cost=64.0))


def pairs():
    return [(one, with_other_laws(one)) for one in (three_arms(), two_limits())]


def outcomes(penalties):
    return np.random.default_rng(4).uniform(0.0, 1.0, (STEPS, 2 + penalties)).tolist()


def by_controller(problem, policy, budget):
    """The arms that it asks for, whatever they bring; in the problem's units."""
    controller, arms = Controller(problem, policy, budget, seed=6), []
    for told in outcomes(problem.penalty_count):
        if controller.exhausted:
            break
        arms.append(controller.ask())
        cost, reward, *penalties = np.array(told) * problem.scales.channels
        controller.tell(arms[-1], cost, reward, penalties)
    return arms, controller.snapshot()


def by_plain_python(problem, policy, budget):
    run = plain_run(problem, policy, set_up(policy, problem, budget), budget)
    chances, arms = Generator(6, POLICY, 0), []
    random = chances if policy.random else None
    for told in outcomes(problem.penalty_count):
        if run.spent > budget:
            break
        if run.exploring:
            chances.coin()
            arms.append(run.step % problem.arm_count)
        else:
            arms.append(int(run.decide(policy, random)))
        run.learn(arms[-1], told)
    return arms


def test_the_problems_differ_in_their_laws_alone():
    for one, other in pairs():
        assert one != other
        assert one.task == other.task
        assert one.moments.reward.tolist() != other.moments.reward.tolist()
    assert pairs()[0][0].moments.cost.tolist() != pairs()[0][1].moments.cost.tolist()


def with_a_safe_arm(problem):
    """The same, declaring of its second arm that it keeps the limits with room to spare."""
    rates = {name: 0.3 * limit for name, limit in problem.limit.items()}
    return dataclasses.replace(problem, safe=1, safe_rates=rates)


@pytest.mark.parametrize("text", by_policy([*LEARNERS, "optpess-lp"]))
def test_the_same_outcomes_give_the_same_decisions(text):
    policy = parse_policy(text)
    for one, other in pairs():
        if policy.knows == "safe arm":
            one, other = with_a_safe_arm(one), with_a_safe_arm(other)
        scale = one.scales.cost
        made = [by_controller(problem, policy, 16.0 * scale) for problem in (one, other, one.task)]
        assert made[0] == made[1] == made[2]
        plain = [by_plain_python(problem, policy, 16.0) for problem in (one, other)]
        assert plain[0] == plain[1] == made[0][0]
        assert len(plain[0]) > 20


@dataclasses.dataclass(frozen=True)
class Curious(LeastPulled):
    """Keeps what its ``setup`` is given."""

    name = "curious"
    seen: list = dataclasses.field(default_factory=list)

    def setup(self, task, budget):
        self.seen.append(task)
        return super().setup(task, budget)


@dataclasses.dataclass(frozen=True)
class Insider(Curious, InformedPolicy):
    """The same with a word that it knows the laws."""

    name = "insider"

    def setup(self, problem, budget):
        self.seen.append(problem)
        return Setup((), limits_of(problem.task))


def reachable(thing, seen=None):
    """All that one gets to by public names, items and elements."""
    seen = {} if seen is None else seen
    if id(thing) in seen or isinstance(thing, str | int | float | type(None)):
        return []
    seen[id(thing)] = thing
    inside = list(thing.values()) if isinstance(thing, Mapping) else []
    inside += list(thing) if isinstance(thing, tuple | list) else []
    if type(thing).__module__.startswith("tightrope"):
        names = [name for name in dir(thing) if not name.startswith("_")]
        inside += [getattr(thing, name) for name in names]
    return [thing, *(found for one in inside for found in reachable(one, seen))]


def test_a_learner_gets_the_task_and_an_informed_policy_the_problem():
    problem, learner, insider = three_arms(), Curious(), Insider()
    set_up(learner, problem, 50.0)
    Controller(problem, learner, 50.0)
    assert len(learner.seen) == 2
    for task in learner.seen:
        assert isinstance(task, Task)
        assert not isinstance(task, Problem)
        assert task == problem.task
        assert not [one for one in reachable(task) if isinstance(one, Law | Arm | Problem)]
    assert any(isinstance(one, Law) for one in reachable(problem))
    set_up(insider, problem, 50.0)
    assert insider.seen == [problem]


def test_no_attribute_of_what_a_learner_gets_leads_to_the_laws(paper):
    """Not even a private one: a plain task of plain values."""
    seen = []

    class Nosy(LyOn):
        def setup(self, task, budget):
            seen.append(task)
            return super().setup(task, budget)

    set_up(Nosy(), paper, 100.0)
    (task,) = seen
    assert type(task) is Task
    for value in vars(task).values():
        assert not isinstance(value, Problem | Arm | Law)
        assert all(not isinstance(one, Problem | Arm | Law) for one in getattr(value, "arms", ()))
