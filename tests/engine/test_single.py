"""One run at a time, also among many arms: the same runs as side by side, to the bit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.problems import coins, ranges, unlike
from tightrope import LyOff, LyOn, Stationary, simulate
from tightrope.engine import cpu
from tightrope.engine.backend import plan_of
from tightrope.engine.planning import plan_jobs
from tightrope.engine.single import SingleRun, SingleRunPlan, plan_single
from tightrope.kernels.run_state import EVALUATED, EXPLORE, Sizes
from tightrope.kernels.spec import SCAN, SIEVE, argmin_method
from tightrope.policies import EpsilonGreedy, UCBBwI
from tightrope.policies.base import set_up


def job_of(problem, policy, budget, precision):
    jobs = plan_jobs(problem, {"p": policy}, [budget], 1, seed=5, precision=precision)
    return jobs["p", budget]


def side_by_side(problem, policy, budget, precision, runs):
    plan = cpu.LanesPlan(job_of(problem, policy, budget, precision))
    return plan.run(np.arange(runs), np.zeros(1, np.uint8))[0]


def one_by_one(problem, policy, budget, precision, sizes) -> SingleRunPlan:
    plan = plan_single(job_of(problem, policy, budget, precision), many_arms=True)
    return dataclasses.replace(plan, sizes=sizes)


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


def with_ids(rows):
    """Those with the same kernels on one worker."""
    for problem, policy, budget, precision in rows:
        limits, kind = problem.penalty_count, "coins" if problem.bernoulli() is not None else "any"
        group = f"{policy.name} {precision} {max(limits, 1)}"
        name = f"{policy.label}-{kind}-{problem.arm_count}-{limits}-{budget:g}@{group}"
        yield pytest.param(problem, policy, budget, precision, id=name)


@pytest.mark.parametrize(("problem", "policy", "budget", "precision"), list(with_ids(SAME)))
def test_runs_are_the_same_to_the_bit(problem, policy, budget, precision):
    want = side_by_side(problem, policy, budget, precision, 3)
    for sizes in (Sizes(), Sizes(3, 4)):
        plan = one_by_one(problem, policy, budget, precision, sizes)
        got, seconds = plan.run(np.arange(3), np.zeros(1, np.uint8))
        assert unlike(want, got) == []
        assert seconds > 0


def test_decisions_look_at_few_arms():
    plan = one_by_one(coins(3000, 1), LyOn(), 60_000.0, "double", Sizes())
    run = SingleRun(plan, np.array([0]))
    run.advance(2**60, np.zeros(1, np.uint8))
    counts = run.state["counts"]
    assert counts[EVALUATED] / (run.step - counts[EXPLORE]) < 300


def test_each_policy_has_its_method():
    one, two = coins(20, 1), coins(20, 2)
    methods = {
        LyOn(): SIEVE,
        LyOff(): SIEVE,
        UCBBwI(): SIEVE,
        Stationary(): SCAN,
        EpsilonGreedy(): SCAN,
    }
    for policy, method in methods.items():
        assert argmin_method(type(policy), set_up(policy, one, 100.0)) == method
        assert argmin_method(type(policy), set_up(policy, two, 100.0)) == method
    assert argmin_method(LyOn, set_up(LyOn(window0=1), one, 100.0)) == SCAN


def test_simulate_takes_it_for_many_arms():
    problem = coins(1100, 1)
    for policy in (LyOn(), LyOff()):
        plan = plan_of(job_of(problem, policy, 9000.0, "auto"))
        assert isinstance(plan, SingleRunPlan)
        assert plan.spec.method != SCAN
        got = simulate(problem, policy, budgets=9000, runs=2, seed=5)[policy.label].runs[0]
        assert unlike(side_by_side(problem, policy, 9000.0, "auto", 2), got) == []


def test_a_run_can_be_made_in_parts():
    plan, stop = one_by_one(coins(300, 1), LyOn(), 500.0, "double", Sizes()), np.zeros(1, np.uint8)
    whole, parts = (SingleRun(plan, np.array([3])) for _ in range(2))
    assert whole.advance(2**60, stop)
    for until in range(0, 10_000, 37):
        parts.advance(until, stop)
        assert parts.step == min(until, whole.step)
        assert parts.running == (parts.step < whole.step)
    assert unlike(whole.read(), parts.read()) == []
    assert whole.state == parts.state


def test_it_stops_when_asked():
    plan = one_by_one(coins(300, 1), LyOff(), 1e5, "single", Sizes())
    assert plan.run(np.arange(2), np.ones(1, np.uint8))[0] is None
