"""How runs go over time: every policy, on arms of every kind; it ends where the run ends."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import by_policy
from tests.problems import Astray, LeastPulled, Speller, changing, turning
from tightrope import LyOn, parse_policy, simulate, trajectory
from tightrope.errors import InputError, NotCompiledWarning, PolicyError
from tightrope.policies import POLICIES
from tightrope.testing.policies import _dollars

EVERY_POLICY = [
    *POLICIES,
    "lyon:window0=1",
    "lyon:discount0=1",
    "resolve:window0=1",
    "resolve:discount0=1",
]
BUDGET, RUNS, SEED = 400, 2, 4


def check(problem, policy, budget=BUDGET, points=10):
    """The trajectory, equal at its end to the runs of ``simulate``."""
    options = {"runs": RUNS, "seed": SEED}
    path = trajectory(problem, policy, budget=budget, points=points, **options)
    runs = simulate(problem, {"p": policy}, budgets=budget, **options)["p"].runs[0]
    np.testing.assert_array_equal(path.cost[:, -1], runs.cost)
    np.testing.assert_array_equal(path.reward[:, -1], runs.reward)
    np.testing.assert_array_equal(path.penalty[:, -1], runs.penalty)
    np.testing.assert_array_equal(path.queue[:, -1], runs.queue)
    count = len(path.step)
    assert path.cost.shape == path.reward.shape == (RUNS, count)
    assert path.penalty.shape == path.queue.shape == (RUNS, count, problem.penalty_count)
    for total in (path.cost, path.reward, path.penalty):
        assert (total[:, 0] == 0).all()
        assert (np.diff(total, axis=1) >= 0).all()
    assert (path.queue[:, 0] == 0).all()
    assert path.step[0] == 0
    assert len(set(np.diff(path.step))) == 1
    return path


@pytest.mark.parametrize("text", by_policy(EVERY_POLICY))
def test_it_ends_where_the_run_ends(text):
    policy = parse_policy(text)
    check(_dollars(), policy)
    if policy.knows != "laws":
        check(changing(), policy, budget=20)
        check(turning(), policy)


def test_of_a_policy_in_plain_python():
    check(changing(), LeastPulled(), budget=20)
    check(turning(), LeastPulled())


def test_of_a_policy_that_cannot_be_compiled():
    with pytest.warns(NotCompiledWarning, match="runs in plain Python"):
        check(turning(), Speller())


def test_of_an_arm_that_does_not_exist():
    with pytest.raises(PolicyError, match=r"^policy astray:answer=7: chose arm 7 at step 5; must"):
        trajectory(_dollars(), Astray(answer=7), budget=400)


def test_it_has_about_as_many_points_as_asked_for():
    for points in (2, 10, 60):
        path = trajectory(_dollars(), LyOn(), budget=4000, runs=1, points=points)
        assert points / 2 <= len(path.step) <= 3 * points + 2


def test_it_is_the_run_at_every_moment():
    """What it shows after n pulls is what a run has brought after n pulls, one by one."""
    problem, policy = turning(), LyOn(window0=1)
    coarse, fine = (trajectory(problem, policy, budget=400, points=n) for n in (5, 1000))
    stride = int(coarse.step[1])
    assert fine.step[1] == 1
    whole = len(coarse.step) - 1
    for name in ("cost", "reward", "penalty", "queue"):
        both = [getattr(one, name) for one in (coarse, fine)]
        np.testing.assert_array_equal(both[0][:, :whole], both[1][:, ::stride][:, :whole])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"points": 1}, "points = 1 must be at least 2"),
        ({"budget": 0}, "budget = 0"),
        ({"runs": 0}, "runs = 0"),
        ({"seed": -1}, "seed = -1"),
    ],
)
def test_bad_input_is_one_line(paper, change, words):
    with pytest.raises(InputError, match=f"^{words}[^\n]*$"):
        trajectory(paper, LyOn(), **({"budget": 100} | change))


def test_problem_and_policy_may_be_texts(paper):
    found = trajectory("paper", "lyon", budget=100, runs=1)
    assert (found.cost == trajectory(paper, LyOn(), budget=100, runs=1).cost).all()


def test_a_task_has_no_trajectory(paper):
    with pytest.raises(InputError, match=r"^problem: a Task cannot be simulated"):
        trajectory(paper.task, LyOn(), budget=100)


def test_it_prints_as_one_line():
    found = trajectory("paper", "lyon", budget=100, runs=2, points=5)
    assert repr(found) == f"Trajectory(lyon; runs: 2; steps: {len(found.step)}; limits: penalty)"
