"""Outcomes told late or never, and arms that come and go: compiled runs are the referee's."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tightrope import (
    Change,
    Discrete,
    LyOn,
    Problem,
    Resolve,
    Uniform,
    optimum,
    parse_policy,
    ready_problem,
    simulate,
    trajectory,
)
from tightrope.cli import main
from tightrope.engine.delays import delays_of
from tightrope.errors import InputError, ProblemError

FIVE = ready_problem("arena-random-5")
ARMS = list(FIVE.arms)
MOVING = Problem(
    ARMS, FIVE.limits[0], absent=["arm 2"], changes=[Change(0.5, ARMS, absent=["arm 1", "arm 3"])]
)
LABELS = ["lyon", "resolve", "ts-lp", "primal-dual-bwk", "pessimistic-optimistic"]
SAME = ("reward", "cost", "penalty", "pulls", "queue", "arm_cost")


def runs_of(problem, label, backend, **how):
    results = simulate(
        problem, parse_policy(label), budgets=40, runs=4, seed=3, backend=backend, **how
    )
    return results[label].runs


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize(
    ("problem", "how"),
    [
        (FIVE, {"delay": 7, "lost": 0.1}),
        (FIVE, {"delay": Uniform(0, 12)}),
        (FIVE, {"delay": Discrete((0, 30), (0.5, 0.5))}),
        (MOVING, {}),
        (MOVING, {"delay": 3}),
    ],
    ids=["late and lost", "any delay", "at once or late", "arms", "arms and delay"],
)
def test_the_same_runs_as_in_plain_python(label, problem, how):
    slow, fast = (runs_of(problem, label, backend, **how) for backend in ("python", "cpu"))
    for name in SAME:
        assert np.array_equal(getattr(slow, name), getattr(fast, name)), name


@pytest.mark.parametrize("label", LABELS)
def test_with_nothing_late_nothing_changes(label):
    """Decisions beside what was told are those without, where there is nothing beside."""
    plain, beside = runs_of(FIVE, label, "cpu"), runs_of(FIVE, label, "cpu", lost=1e-12)
    for name in ("reward", "cost", "penalty", "pulls", "arm_cost"):
        assert np.array_equal(getattr(plain, name), getattr(beside, name)), name


def test_an_arm_that_is_not_there_is_not_pulled():
    runs = runs_of(MOVING, "resolve", "cpu")
    only_late = Problem(ARMS, FIVE.limits[0], changes=[Change(0.9, ARMS)], absent=["arm 4"])
    assert (runs_of(only_late, "resolve", "cpu").arm_cost[..., 3] <= 0.1 * 40 + 1.0).all()
    assert (runs.arm_cost[..., 1] <= 0.5 * 40 + 1.0).all()
    assert (runs.arm_cost[..., 0] <= 0.5 * 40 + 1.0).all()


def test_the_optimum_knows_who_is_there():
    """Half of the budget without the best arm is worth as much as the two halves apart."""
    best = Problem.from_bernoulli([0.5, 0.5], [0.9, 0.4], [0.0, 0.0], limit=1.0)
    gone = Problem(best.arms, 1.0, changes=[Change(0.5, best.arms, absent=[best.names[0]])])
    assert optimum(gone, 1000) == pytest.approx(0.5 * (1.8 + 0.8) * 1000, rel=2e-3)


def test_a_moving_problem_is_the_same_in_toml():
    assert Problem.from_toml(MOVING.to_toml()) == MOVING
    with pytest.raises(ProblemError, match="absent = 'arm 9'"):
        Problem(ARMS, 1.0, changes=[Change(0.5, ARMS, absent=["arm 9"])])
    with pytest.raises(ProblemError, match="must leave an arm"):
        Problem(ARMS, 1.0, changes=[Change(0.5, ARMS, absent=[arm.name for arm in ARMS])])
    with pytest.raises(ProblemError, match="must be empty if there are no changes"):
        Problem(ARMS, 1.0, absent=["arm 1"])


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"delay": -1}, "delay = -1: must be a whole number"),
        ({"delay": 1.5}, r"delay = 1\.5: must be"),
        ({"delay": "x"}, "delay = 'x': must be"),
        ({"delay": 10**7}, "delay = 10000000: must be"),
        ({"lost": 1.0}, r"lost = 1\.0: must be a share"),
        ({"lost": True}, "lost = True: must be a share"),
    ],
)
def test_bad_delays_are_named_in_one_line(how, told):
    with pytest.raises(InputError, match=told):
        simulate(FIVE, LyOn(), budgets=40, runs=2, **how)


def test_delays_are_those_of_the_law():
    table = np.array(delays_of(Uniform(0, 100), 0).table)
    assert table.min() == 0
    assert table.max() == 100
    assert abs(table.mean() - 50) < 0.5
    half = np.array(delays_of(Discrete((0, 9), (0.25, 0.75)), 0).table)
    assert (half == 9).mean() == 0.75


def test_a_lost_outcome_is_spent_all_the_same():
    results = simulate(FIVE, Resolve(), budgets=100, runs=20, lost=0.5)
    cost = results["resolve"].runs.cost
    assert (cost > 99.0).all()


def test_a_trajectory_of_arms_that_come_and_go():
    path = trajectory(MOVING, LyOn(), budget=40, runs=2, points=10)
    assert (np.diff(path.cost, axis=1) >= 0).all()


def test_delays_in_the_shell(capsys):
    asked = ["simulate", "paper", "--policy", "lyon", "--budget", "50", "--runs", "4", "--json"]
    rows = []
    for how in ([], ["--delay", "0"], ["--delay", "9", "--lost", "0.1"]):
        assert main([*asked, "--quiet", *how]) == 0
        rows.append(json.loads(capsys.readouterr().out)[0]["reward_rate"])
    assert rows[0] == rows[1] != rows[2]
    law = ["--delay", "{ uniform = [0, 20] }"]
    assert main([*asked, "--quiet", *law]) == 0
    for bad in ("x", "{ uniform = 3 }", "-1"):
        assert main([*asked, f"--delay={bad}"]) == 2
        told = capsys.readouterr().err.strip().splitlines()
        assert len(told) == 1
        assert "delay" in told[0]
