"""One run at a time among many arms: the same runs as side by side, to the bit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tightrope import (
    Arm,
    EpsilonGreedy,
    LyOff,
    LyOn,
    Problem,
    Stationary,
    UCBBwI,
    Uniform,
    simulate,
)
from tightrope.kernels.argmin import ENVELOPE, SCAN, SIEVE, Sizes, way_for
from tightrope.kernels.argmin.memory import EVALUATED, EXPLORE
from tightrope.engine import cpu
from tightrope.engine.crowd import Crowd, CrowdPlan, plan_crowd
from tightrope.results import Runs

LIMITS = (0.5, 0.6, 0.7)


def coins(arms: int, penalties: int, seed: int = 0) -> Problem:
    odds = np.random.default_rng(seed).uniform(0.05, 0.95, (arms, 2 + penalties))
    odds[1::7] = odds[::7][: len(odds[1::7])]  # some arms are twins
    limit = LIMITS[:penalties] or None
    return Problem.from_bernoulli(
        odds[:, 0], odds[:, 1], odds[:, 2:] if penalties else None, limit=limit
    )


def ranges(arms: int, penalties: int) -> Problem:
    ends = np.random.default_rng(3).uniform(0.05, 0.95, (arms, 2 + penalties)).tolist()
    laws = [[Uniform(0.0, end) for end in row] for row in ends]
    return Problem(
        [Arm(f"{k}", row[0], row[1], row[2:]) for k, row in enumerate(laws)],
        limit=LIMITS[:penalties],
    )


def side_by_side(problem, policy, budget, precision, runs):
    setup = policy.setup(problem, budget)
    plan = cpu.plan_side_by_side(problem, policy, setup, budget, 5, precision)
    return plan.run(np.arange(runs), np.zeros(1, np.uint8))[0]


def crowd_plan(problem, policy, budget, precision, sizes) -> CrowdPlan:
    setup, dtype = policy.setup(problem, budget), cpu.number_type(problem, budget, precision)
    law = cpu.law_arrays(problem)
    plan = plan_crowd(problem, policy, setup, budget, 5, dtype, law)
    return dataclasses.replace(plan, sizes=sizes)


def unlike(a: Runs, b: Runs) -> list[str]:
    names = [field.name for field in dataclasses.fields(Runs)]
    return [name for name in names if not np.array_equal(getattr(a, name), getattr(b, name))]


SAME = [
    (coins(40, 1), LyOn(), 400.0, "single"),
    (coins(700, 1), LyOn(), 6000.0, "single"),
    (coins(700, 1), LyOn(beta0=0.1), 2000.0, "single"),  # many arms that have cost nothing
    (coins(700, 1), LyOn(beta0=0.0), 500.0, "single"),
    (coins(300, 1), LyOn(penalty_bonus="as-printed"), 3000.0, "single"),
    (coins(300, 0), LyOn(), 3000.0, "single"),
    (coins(300, 1), LyOn(v=1.0, delta=0.0), 3000.0, "double"),
    (coins(700, 1), LyOn(), 6000.0, "double"),
    (coins(300, 2), LyOn(), 3000.0, "double"),
    (ranges(300, 1), LyOn(), 2000.0, "double"),
    (coins(300, 1), UCBBwI(), 2000.0, "double"),
    (coins(300, 1), LyOff(), 2000.0, "single"),
    (coins(300, 0), LyOff(), 500.0, "single"),
    (ranges(300, 1), LyOff(v=3.0), 2000.0, "double"),
    (coins(300, 2), LyOff(), 1000.0, "double"),
]


@pytest.mark.parametrize(("problem", "policy", "budget", "precision"), SAME)
def test_runs_are_the_same_to_the_bit(problem, policy, budget, precision):
    want = side_by_side(problem, policy, budget, precision, 3)
    for sizes in (Sizes(), Sizes(3, 4)):
        plan = crowd_plan(problem, policy, budget, precision, sizes)
        got, seconds = plan.run(np.arange(3), np.zeros(1, np.uint8))
        assert unlike(want, got) == []
        assert seconds > 0


def test_decisions_look_at_few_arms():
    plan = crowd_plan(coins(3000, 1), LyOn(), 60_000.0, "double", Sizes())
    crowd = Crowd(plan, 0)
    crowd.advance(2**60, np.zeros(1, np.uint8))
    counts = crowd.store.counts
    assert counts[EVALUATED] / (crowd.step - counts[EXPLORE]) < 300


def test_each_policy_has_its_way():
    one, two = coins(20, 1), coins(20, 2)
    ways = {
        LyOn(): SIEVE,
        LyOff(): ENVELOPE,
        UCBBwI(): SIEVE,
        Stationary(): SCAN,
        EpsilonGreedy(): SCAN,
    }
    for policy, way in ways.items():
        assert way_for(type(policy), policy.setup(one, 100.0)) == way
    assert way_for(LyOff, LyOff().setup(two, 100.0)) == SIEVE


def test_simulate_takes_it_for_many_arms():
    problem = coins(1100, 1)
    for policy in (LyOn(), LyOff()):
        setup = policy.setup(problem, 9000.0)
        assert isinstance(cpu.plan_lanes(problem, policy, setup, 9000.0, 5, "auto"), CrowdPlan)
        got = simulate(problem, policy, budgets=9000, runs=2, seed=5)[policy.label].runs[0]
        assert unlike(side_by_side(problem, policy, 9000.0, "auto", 2), got) == []


def test_it_stops_when_asked():
    plan = crowd_plan(coins(300, 1), LyOff(), 1e5, "single", Sizes())
    assert plan.run(np.arange(2), np.ones(1, np.uint8)) == (None, 0.0)
