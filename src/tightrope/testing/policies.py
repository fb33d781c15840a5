"""The contract of every policy."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np

from tightrope.engine.backend import plan_of
from tightrope.engine.planning import plan_jobs
from tightrope.engine.python import play
from tightrope.engine.single import plan_single
from tightrope.live import Controller
from tightrope.policies.base import IndexPolicy, Policy, Setup, set_up
from tightrope.policies.choice import WORDS, ChoicePolicy, record
from tightrope.policies.state import State, field_starts, record_maker, start_state
from tightrope.problem import Arm, Limit, Problem, Scales
from tightrope.problem.distributions import Beta, CostAbove, TwoPoint, Uniform
from tightrope.problem.ready import ready_problem
from tightrope.runs import Runs


def _dollars(unit: float = 1.0) -> Problem:
    """A problem with continuous and dependent outcomes, rows and two penalties, cost scaled."""
    rows = [(10.0 * unit, 0.5, 0.0, 1.0), (30.0 * unit, 0.9, 1.0, 0.0), (2.0 * unit, 0.1, 0, 0)]
    dear = TwoPoint(1.0 * unit, 50.0 * unit, 0.3)
    late = CostAbove(20.0 * unit)
    return Problem(
        (
            Arm("a", Uniform(5.0 * unit, 40.0 * unit), Beta(2, 3), [late, Beta(2, 2)]),
            Arm("b", dear, Uniform(0.0, 1.0), [Beta(1, 4), Beta(1, 4)]),
            Arm.from_rows("c", rows),
        ),
        limit=(0.03 / unit, 0.03 / unit),
        scales=Scales(cost=50.0 * unit),
    )


def _said_otherwise() -> Problem:
    """A problem with a limit per pull, and a limit on the cost per reward, without a penalty."""
    arms = (
        Arm("a", Uniform(5.0, 40.0), Beta(2, 3), {"bad": Beta(2, 3)}),
        Arm("b", TwoPoint(1.0, 50.0, 0.3), Uniform(0.0, 1.0), {"bad": Beta(1, 4)}),
        Arm.from_rows("c", [(10.0, 0.5, 0.0), (30.0, 0.9, 1.0), (2.0, 0.1, 0.0)], ["bad"]),
    )
    limits = {"bad": Limit(0.6, per="pull"), "spend": Limit(45.0, of="cost", per="reward")}
    return Problem(arms, limits=limits, scales=Scales(cost=50.0))


def _totals() -> list[tuple[float, float, float]]:
    """Samples of an arm's pulls, cost and another total; the cost may be 0."""
    random = np.random.default_rng(1)
    pulls = random.integers(1, 1000, 40).astype(float)
    cost, total = pulls * random.uniform(0, 1, (2, 40))
    return [(3.0, 0.0, 2.0), *zip(pulls.tolist(), cost.tolist(), total.tolist(), strict=True)]


def _check_straight(
    policy: IndexPolicy, setup: Setup, pulls: float, cost: float, total: float
) -> None:
    constants = setup.constants
    reward = policy.reward_terms(constants, pulls, cost, total)
    penalty = policy.penalty_terms(constants, pulls, cost, total)
    if setup.terms is not None:
        reward, penalty = setup.terms[0, 0], setup.terms[-1, -1]
    for low, high in ((0.0, 3.0), (1.0, 1.5), (7.0, 7.1)):
        parts = (
            [
                policy.reward_index(constants, t, u, arm, *reward)
                for t, u, arm in _moments(low, high)
            ],
            [policy.penalty_index(constants, t, *penalty) for t, _, _ in _moments(low, high)],
        )
        for start, middle, other, end in parts:
            size = abs(start) + abs(end)
            assert middle == other, "the index must not depend on the uniform or the arm's number"
            gap = 0.0 if start == end else middle - (start + end) / 2
            assert abs(gap) <= 1e-14 * size, "the index must be linear in the clock"


def _moments(low: float, high: float) -> list[tuple[float, float, float]]:
    """Values of clock, uniform and arm number: both ends of the clock, and the middle twice."""
    middle = (low + high) / 2
    return [(low, 0.0, 0.0), (middle, 0.0, 0.0), (middle, 0.7, 3.0), (high, 0.0, 0.0)]


def _unscaled(value: float, scale: float) -> float:
    """The outcome that divided by ``scale`` is exactly ``value``, if there is one."""
    near = value * scale
    for told in (near, math.nextafter(near, math.inf), math.nextafter(near, 0.0)):
        if told / scale == value:
            return told
    return near


@dataclasses.dataclass(frozen=True)
class _Case:
    """A policy on a problem with a budget, in the problem's units of cost."""

    policy: Policy
    problem: Problem
    budget: float

    @property
    def scaled(self) -> float:
        """The budget in normalised units."""
        return self.budget / self.problem.scales.cost

    @cached_property
    def setup(self) -> Setup:
        """The policy's setup before the first pull."""
        return set_up(self.policy, self.problem, self.scaled)

    def steps(self, seed: int, run: int) -> list[tuple[int, Sequence[float], Sequence[float]]]:
        """Arms, outcomes and queues of a run in plain Python."""
        return list(play(self.problem, self.policy, self.setup, self.scaled, seed, run))


def _check_it_only_looks(policy: ChoicePolicy, case: _Case) -> None:
    """Pull every arm three times, then decide with everything except the scratch read-only."""
    problem = case.problem
    random, penalties, arms = np.random.default_rng(2), problem.penalty_count, problem.arm_count
    constants = (*case.setup.constants, 0.0)
    blocks = [np.zeros(field_starts(one, arms, penalties)[-1]) for one in (State, policy.Scratch)]
    state, scratch = (
        record_maker(one)(block, field_starts(one, arms, penalties))
        for one, block in zip((State, policy.Scratch), blocks, strict=True)
    )
    start_state(state, case.scaled, problem)
    words = np.arange(1, 1 + WORDS)
    policy.begin(constants, state, scratch)
    for arm in list(range(arms)) * 3:
        record(state, arm, random.uniform(0.1, 0.9, 2 + penalties))
        policy.learn(constants, state, scratch, arm)
    for array in (*state, words):
        array.flags.writeable = False
    chosen = policy.choose(constants, state, scratch, words)
    policy.learn(constants, state, scratch, chosen)
    assert 0 <= chosen < arms
    assert np.isfinite(blocks[1]).all()


class PolicyContract:
    """The contract of every policy, on Bernoulli arms and on arms of every other kind."""

    policies: ClassVar[Sequence[Policy]] = ()
    problems: ClassVar[Sequence[tuple[Problem, float]]] = (
        (ready_problem("paper"), 60.0),
        (_dollars(), 400.0),
        (_said_otherwise(), 400.0),
    )

    def _cases(self) -> Iterator[_Case]:
        """Every policy on every problem."""
        for policy in self.policies:
            for problem, budget in self.problems:
                yield _Case(policy, problem, budget)

    def test_it_says_what_it_is(self) -> None:
        """It has a name, a summary, and parameters with defaults; it is frozen."""
        assert self.policies, "name the policies to test"
        for policy in self.policies:
            assert policy.name == policy.name.lower().strip()
            assert policy.summary
            assert dataclasses.is_dataclass(policy)
            assert type(policy)(), "every parameter needs a default"
            assert policy == dataclasses.replace(policy)
            assert hash(policy) == hash(dataclasses.replace(policy))

    def test_its_setup_is_plain_numbers(self) -> None:
        """Constants are finite; there is an allowance per penalty; ``explore`` is an integer."""
        for case in self._cases():
            policy, problem, setup = case.policy, case.problem, case.setup
            assert all(math.isfinite(value) for value in setup.constants)
            assert len(setup.allowance) == problem.penalty_count
            assert setup.explore >= 0
            if setup.terms is not None:
                assert setup.terms.shape == (problem.arm_count, 1 + problem.penalty_count, 2)
            if isinstance(policy, IndexPolicy):
                assert policy.learns == (setup.terms is None)
            if isinstance(policy, ChoicePolicy):
                assert setup.explore == 0, "it chooses its first pulls itself"
                assert setup.terms is None

    def test_if_it_is_steady_its_index_is_straight_in_the_clock(self) -> None:
        """And it depends neither on the uniform nor on the arm's number: see ``IndexPolicy``."""
        for case in self._cases():
            policy, setup = case.policy, case.setup
            if isinstance(policy, IndexPolicy) and policy.steady:
                assert not policy.random
                assert all(policy.clock(setup.constants, 10.0**n) >= 0.0 for n in range(9))
                for totals in _totals():
                    _check_straight(policy, setup, *totals)

    def test_it_picks_an_arm_at_every_step(self) -> None:
        """And every run ends right after its cost first exceeds the budget."""
        for case in self._cases():
            steps = case.steps(1, 0)
            assert all(0 <= arm < case.problem.arm_count for arm, _, _ in steps)
            assert sum(values[0] for _, values, _ in steps[:-1]) <= case.scaled
            assert all(queue >= 0 for _, _, queues in steps for queue in queues)

    def test_the_same_seed_gives_the_same_run(self) -> None:
        """The run depends only on the arguments, not on earlier runs."""
        for case in self._cases():
            assert case.steps(3, 1) == case.steps(3, 1)

    def test_the_unit_of_cost_does_not_matter(self) -> None:
        """Halving the unit of cost and doubling the numbers gives the same pulls."""
        for policy in self.policies:
            cases = (_Case(policy, _dollars(unit), 400.0 * unit) for unit in (1.0, 2.0))
            first, second = ([arm for arm, _, _ in case.steps(5, 0)] for case in cases)
            assert first == second

    def test_choosing_changes_nothing_but_its_own_scratch(self) -> None:
        """Only the engine may write to the state."""
        for case in self._cases():
            if isinstance(case.policy, ChoicePolicy):
                _check_it_only_looks(case.policy, case)

    def test_every_engine_makes_the_same_runs(self) -> None:
        """Lanes and single runs are bit-identical to plain Python, also if the arms change."""
        for policy in self.policies:
            if not isinstance(policy, IndexPolicy | ChoicePolicy):
                continue
            for problem, budget in (*self.problems, *self._changing(policy)):
                jobs = plan_jobs(problem, {"": policy}, [budget], 3, seed=7, precision="double")
                job = jobs["", budget]
                plans = {"plain Python": plan_of(job.on("python"))}
                if job.engine == "cpu":  # it can be compiled
                    plans |= {"one run at a time": plan_single(job), "the CPU": plan_of(job)}
                made = {
                    name: plan.run(np.arange(3), np.zeros(1, np.uint8))[0]
                    for name, plan in plans.items()
                }
                for name, runs in made.items():
                    for field in (one.name for one in dataclasses.fields(Runs)):
                        plain = getattr(made["plain Python"], field)
                        np.testing.assert_array_equal(
                            getattr(runs, field), plain, f"{name}: {field}"
                        )

    def _changing(self, policy: Policy) -> Sequence[tuple[Problem, float]]:
        """Problems whose arms change, for policies that do not know the distributions."""
        return () if policy.knows == "laws" else ((ready_problem("arena-abrupt"), 60.0),)

    def test_the_controller_decides_alike_and_survives_a_snapshot(self) -> None:
        """It gets the outcomes of a plain Python run, and is saved and restored midway."""
        for case in self._cases():
            policy, problem, steps = case.policy, case.problem, case.steps(3, 0)
            controller = Controller(problem, policy, case.budget, seed=3)
            for number, (arm, values, _) in enumerate(steps):
                if number == len(steps) // 2:
                    controller = Controller.restore(controller.snapshot(), policy)
                assert controller.ask() == arm, f"{policy.label}: decision {number}"
                scaled = zip(values, problem.scales.channels, strict=True)
                told = [_unscaled(value, scale) for value, scale in scaled]
                controller.tell(arm, told[0], told[1], [told[2 + m] for m in problem.told])
            assert controller.exhausted
