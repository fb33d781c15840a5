"""The compiled engine against the plain simulator, the paper's text, and itself split up."""

from __future__ import annotations

import dataclasses
import math
import os
import signal
import textwrap
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import bernoulli_problem
from tests.paper_algorithms import ly_off, ly_on
from tests.problems import LeastPulled, equal, unlike
from tightrope import (
    Arm,
    Bernoulli,
    Constant,
    LyOff,
    LyOn,
    Problem,
    Results,
    Stationary,
    TwoPoint,
    simulate,
    trajectory,
)
from tightrope.engine.python import play
from tightrope.errors import InputError, OutsideTheoryWarning
from tightrope.policies import EpsilonGreedy, FixedArm, UCBBwI, UniformRandom
from tightrope.policies.base import set_up

EVERY_POLICY = [
    LyOff(),
    LyOn(),
    LyOn(penalty_bonus="as-printed"),
    Stationary(),
    FixedArm(2),
    UniformRandom(),
    UCBBwI(),
    EpsilonGreedy(),
]
PAPER_MEANS = [(0.4, 0.8, 0.6), (0.6, 0.6, 0.3)]


@pytest.mark.parametrize("policy", EVERY_POLICY, ids=lambda p: p.label)
@pytest.mark.parametrize("precision", ["single", "double"])
def test_kernel_makes_the_decisions_of_plain_python(paper, policy, precision):
    budget, runs = 60.0, 8
    number = np.float32 if precision == "single" else float
    got = simulate(paper, policy, budgets=budget, runs=runs, seed=5, precision=precision)
    runs_made = got[policy.label].runs[0]
    setup = set_up(policy, paper, budget)
    for run in range(runs):
        steps = list(play(paper, policy, setup, budget, 5, run, number))
        arms = np.bincount([arm for arm, _, _ in steps], minlength=2)
        assert arms.tolist() == runs_made.pulls[run].tolist()
        assert sum(values[1] for _, values, _ in steps) == runs_made.reward[run]
        assert float(steps[-1][2][0]) == runs_made.queue[run, 0]
        assert float(max(queues[0] for _, _, queues in steps)) == runs_made.queue_max[run, 0]


@pytest.mark.parametrize("policy", EVERY_POLICY, ids=lambda p: p.label)
def test_kernel_agrees_with_plain_python_on_any_law(mixed, policy):
    budget, runs = 400.0, 3
    compiled = simulate(mixed, policy, budgets=budget, runs=runs, seed=9)
    plain = simulate(mixed, policy, budgets=budget, runs=runs, seed=9, backend="python")
    assert unlike(compiled[policy.label].runs, plain[policy.label].runs) == []


@pytest.mark.parametrize("penalties", [0, 2, 3])
def test_any_number_of_penalties(penalties):
    means = [(0.4, 0.8, 0.6, 0.5, 0.4)[: 2 + penalties], (0.6, 0.6, 0.3, 0.1, 0.2)[: 2 + penalties]]
    problem = bernoulli_problem(means, (0.8, 0.7, 0.6)[:penalties])
    for policy in (LyOn(), LyOff()):
        setup = set_up(policy, problem, 80.0)
        got = simulate(problem, policy, budgets=80, runs=4, precision="double")[policy.label].runs[
            0
        ]
        assert got.penalty.shape == (4, penalties)
        for run in range(4):
            steps = list(play(problem, policy, setup, 80.0, 0, run))
            assert (
                np.bincount([s[0] for s in steps], minlength=2).tolist() == got.pulls[run].tolist()
            )
            assert got.queue[run].tolist() == steps[-1][2]


@pytest.mark.parametrize("run", range(6))
def test_lyoff_is_the_papers_algorithm(paper, run):
    budget = 200.0
    text = list(
        ly_off(PAPER_MEANS, 0.8, budget, math.sqrt(budget), 0.5 / math.sqrt(budget), 3, run)
    )
    setup = set_up(LyOff(), paper, budget)
    ours = list(play(paper, LyOff(), setup, budget, 3, run))
    assert [k for k, _ in text] == [k for k, _, _ in ours]
    np.testing.assert_allclose([q for _, q in text], [q[0] for _, _, q in ours], atol=1e-9)


@pytest.mark.parametrize("bonus", ["optimistic", "as-printed"])
@pytest.mark.parametrize("run", range(4))
def test_lyon_is_the_papers_algorithm(paper, run, bonus):
    budget = 150.0
    v, delta = math.sqrt(budget * math.log(budget)), 0.5 * math.sqrt(math.log(budget) / budget)
    sign = -1.0 if bonus == "optimistic" else 1.0
    text = list(ly_on(PAPER_MEANS, 0.8, budget, v, delta, 3, run, sign=sign))
    policy = LyOn(penalty_bonus=bonus)
    got = simulate(
        paper, policy, budgets=budget, runs=range(run, run + 1), seed=3, precision="double"
    )
    runs = got[policy.label].runs[0]
    assert np.bincount([k for k, _ in text], minlength=2).tolist() == runs.pulls[0].tolist()
    assert runs.queue[0, 0] == pytest.approx(text[-1][1], abs=1e-9)
    ours = [arm for arm, _, _ in play(paper, policy, set_up(policy, paper, budget), budget, 3, run)]
    assert [k for k, _ in text] == ours


def test_any_split_and_any_threads_give_the_same_bits(paper):
    policies = [LyOff(), LyOn(), Stationary()]
    whole = simulate(paper, policies, budgets=[50, 90.5], runs=300, seed=2, threads=1)
    threaded = simulate(paper, policies, budgets=[50, 90.5], runs=300, seed=2, threads=3)
    parts = [
        simulate(paper, policies, budgets=[50, 90.5], runs=part, seed=2)
        for part in (range(0, 7), range(120, 300), range(7, 120))
    ]
    assert equal(whole, threaded)
    assert equal(whole, parts[0].merge(*parts[1:]))


def test_the_width_of_the_lanes_changes_nothing(paper):
    """With more arms than the unrolled kernel takes the other one runs, on the same draws."""
    idle = [(0.5, 0.0, 0.9)] * 7
    wide = bernoulli_problem([*PAPER_MEANS, *idle], 0.8)
    few = simulate(paper, LyOff(), budgets=300, runs=40)["lyoff"].runs[0]
    many = simulate(wide, LyOff(), budgets=300, runs=40)["lyoff"].runs[0]
    assert np.array_equal(few.pulls, many.pulls[:, :2])
    assert np.array_equal(few.queue_max, many.queue_max)


def test_single_precision_agrees_with_double(paper):
    """The same draws; rounding may flip a decision here and there, never the mean."""
    for policy in (LyOff(), LyOn()):
        single = simulate(paper, policy, budgets=3000, runs=400, precision="single")
        double = simulate(paper, policy, budgets=3000, runs=400, precision="double")
        a, b = single[policy.label].runs[0], double[policy.label].runs[0]
        unlike = (a.pulls != b.pulls).any(axis=1).mean()
        assert unlike < 0.25
        gap = (a.penalty - b.penalty)[:, 0] / 3000
        assert abs(gap.mean()) <= 4 * gap.std() / 20 + 1e-6


def test_a_long_queue_in_single_precision_loses_nothing(paper):
    """A queue of thousands rounds to 1e-4 at each of 25,000 pulls; the carry keeps the sum."""
    single, double = (
        simulate(paper, FixedArm(1), budgets=10_000, runs=32, precision=precision)
        for precision in ("single", "double")
    )
    queue = double["fixed-arm"].runs.queue
    assert queue.min() > 5000
    np.testing.assert_allclose(single["fixed-arm"].runs.queue, queue, rtol=0, atol=1e-3)


def test_cost_stops_right_after_the_first_crossing(mixed):
    for policy in (LyOn(), UniformRandom()):
        runs = simulate(mixed, policy, budgets=[60, 333], runs=50)[policy.label].runs
        budgets = np.array([60, 333])[:, None]
        assert (runs.cost > budgets).all()
        assert (runs.cost <= budgets + 50.0).all()


def test_integer_budget_and_bernoulli_cost_spend_one_more(paper):
    runs = simulate(paper, LyOn(), budgets=[100, 100.7], runs=20)["lyon"].runs
    assert (runs.cost == 101).all()


def test_a_pull_that_meets_the_budget_exactly_is_followed_by_another():
    problem = Problem((Arm("a", Constant(1.0), Bernoulli(0.5), Bernoulli(0.1)),), limit=0.5)
    assert (simulate(problem, FixedArm(), budgets=7, runs=3)["fixed-arm"].runs.pulls == 8).all()


@given(
    means=st.lists(
        st.tuples(*[st.floats(0.1, 0.9)] * 3), min_size=2, max_size=2, unique_by=lambda m: m[0]
    ),
    limit=st.floats(0.1, 1.5),
    seed=st.integers(0, 2**64 - 1),
)
def test_invariants_of_every_run(means, limit, seed):
    problem = bernoulli_problem(means, limit)
    policies = [LyOff(delta=0.0), LyOn(delta=0.0), UniformRandom()]
    results = simulate(problem, policies, budgets=30, runs=16, seed=seed)
    for label in results.labels:
        runs = results[label].runs[0]
        assert (runs.queue >= 0).all()
        assert (runs.queue_max >= runs.queue).all()
        assert np.array_equal(runs.arm_cost.sum(axis=1), runs.cost)
        assert (runs.cost == 31).all()
    for row in results.summary():
        assert sum(row["pull_share"]) == pytest.approx(1)
        assert sum(row["cost_share"]) == pytest.approx(1)


@given(order=st.permutations(range(4)), seed=st.integers(0, 1000))
def test_permuting_the_arms_permutes_the_results(order, seed):
    means = [(0.4, 0.8, 0.6), (0.6, 0.6, 0.3), (0.5, 0.3, 0.2), (0.7, 0.9, 0.8)]
    straight, turned = (bernoulli_problem([means[k] for k in o], 0.8) for o in (range(4), order))
    policy = {"p": LyOff(v=9.8712, delta=0.0431)}  # round numbers would tie, and ties go by number
    a = simulate(straight, policy, budgets=100, runs=16, seed=seed)["p"].runs[0]
    b = simulate(turned, policy, budgets=100, runs=16, seed=seed)["p"].runs[0]
    assert np.array_equal(a.pulls[:, order], b.pulls)
    assert np.array_equal(a.reward, b.reward)


def test_permuting_the_arms_of_lyon_permutes_the_means():
    """Exploration takes the arms in turn, so single runs change, their law does not."""
    means = [(0.4, 0.8, 0.6), (0.6, 0.6, 0.3), (0.5, 0.3, 0.2)]
    order = [2, 0, 1]
    straight, turned = (bernoulli_problem([means[k] for k in o], 0.8) for o in (range(3), order))
    a = simulate(straight, LyOn(), budgets=500, runs=1500, seed=1)["lyon"].runs[0].pulls[:, order]
    b = simulate(turned, LyOn(), budgets=500, runs=1500, seed=2)["lyon"].runs[0].pulls
    error = np.sqrt((a.var(axis=0) + b.var(axis=0)) / 1500)
    assert (abs(a.mean(axis=0) - b.mean(axis=0)) < 4.5 * error).all()


@pytest.mark.parametrize("seed", range(3))
def test_without_a_limit_lyon_is_ucb_bwi(seed):
    problem = bernoulli_problem([(0.4, 0.8), (0.6, 0.6), (0.5, 0.7)], None)
    a = simulate(problem, LyOn(), budgets=200, runs=64, seed=seed, precision="double")["lyon"]
    b = simulate(problem, UCBBwI(), budgets=200, runs=64, seed=seed, precision="double")["ucb-bwi"]
    assert np.array_equal(a.runs.pulls, b.runs.pulls)


@pytest.mark.parametrize("factor", [0.5, 0.25])
def test_scaling_reward_and_v0_oppositely_changes_nothing(factor):
    def problem(scale: float) -> Problem:
        return Problem(
            tuple(
                Arm(f"{k}", Bernoulli(x), TwoPoint(0.0, scale, r), Bernoulli(y))
                for k, (x, r, y) in enumerate(PAPER_MEANS)
            ),
            limit=0.8,
        )

    for policy in (LyOff(), LyOn(alpha=0.0)):  # LyOn's bonus 1 + r has a unit of its own
        scaled = dataclasses.replace(policy, v0=1.0 / factor)
        a = simulate(problem(1.0), {"p": policy}, budgets=100, runs=40, precision="double")
        b = simulate(problem(factor), {"p": scaled}, budgets=100, runs=40, precision="double")
        assert np.array_equal(a["p"].runs.pulls, b["p"].runs.pulls)
        np.testing.assert_allclose(a["p"].runs.reward * factor, b["p"].runs.reward)


def test_an_arm_that_has_cost_nothing_is_pulled_again():
    """Its index is -infinity: it goes on until the arm has cost something."""
    problem = bernoulli_problem([(0.02, 0.5, 0.5), (0.9, 0.9, 0.1)], 0.9)
    policy = LyOn(beta0=0.1, mu_min=0.5)
    setup = set_up(policy, problem, 20.0)
    assert setup.explore == 1
    for run in range(5):
        steps = list(play(problem, policy, setup, 20.0, 0, run))
        paid = next(n for n, (arm, values, _) in enumerate(steps) if arm == 0 and values[0] > 0)
        assert {arm for arm, _, _ in steps[2:paid]} <= {0}


def test_trajectory_ends_where_the_run_ends(mixed):
    path = trajectory(mixed, LyOn(), budget=500, runs=3, seed=4, points=50)
    runs = simulate(mixed, LyOn(), budgets=500, runs=3, seed=4)["lyon"].runs[0]
    assert 25 <= len(path.step) <= 120
    assert (np.diff(path.cost, axis=1) >= 0).all()
    np.testing.assert_array_equal(path.cost[:, -1], runs.cost)
    np.testing.assert_array_equal(path.queue[:, -1], runs.queue)
    assert (path.queue[:, 0] == 0).all()


def test_a_policy_in_plain_python_runs(mixed):
    results = simulate(mixed, {"mine": LeastPulled()}, budgets=200, runs=3)
    row = results.summary()[0]
    assert row["backend"] == "python"
    pulls = results["mine"].runs.pulls
    assert (pulls.max(axis=-1) - pulls.min(axis=-1) <= 1).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"budgets": -5}, ["-5", "budget"]),
        ({"budgets": float("inf")}, ["inf", "budget"]),
        ({"budgets": []}, ["budgets"]),
        ({"budgets": [10, 10]}, ["different"]),
        ({"runs": 0}, ["runs = 0"]),
        ({"runs": 1.5}, ["runs = 1.5"]),
        ({"seed": -1}, ["seed = -1"]),
        ({"threads": 0}, ["threads = 0"]),
        ({"backend": "cpuu"}, ["cpuu", "'cpu'"]),
        ({"precision": "half"}, ["half", "single"]),
        ({"policies": []}, ["policies"]),
        ({"policies": [LyOn(), LyOn()]}, ["different"]),
    ],
)
def test_bad_input_is_one_line_that_names_it(paper, change, words):
    arguments = {"policies": [LyOn()], "budgets": 100, "runs": 2, **change}
    with pytest.raises(InputError) as caught:
        simulate(paper, **arguments)
    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in words), message


def test_delta_above_the_limit_warns_and_names_the_budget_inside(paper):
    with pytest.warns(OutsideTheoryWarning, match=r"inside the theory is about 2,790"):
        simulate(paper, LyOn(delta0=15), budgets=1000, runs=2)
    with pytest.warns(OutsideTheoryWarning, match=r"about 352"):
        simulate(paper, LyOff(delta0=15), budgets=300, runs=2)


def test_progress_reaches_one(paper):
    seen: list[float] = []
    simulate(paper, LyOff(), budgets=[20, 40], runs=300, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx(1)


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_control_c_keeps_the_finished_runs(start_python):
    program = textwrap.dedent(
        """
        import tightrope as t
        p = t.ready_problem("paper")
        t.simulate(p, t.LyOn(), budgets=50, runs=2, progress=False)
        print("go", flush=True)
        def tell(fraction): print("some", flush=True)
        r = t.simulate(p, t.LyOn(), budgets=20000, runs=10**6, progress=tell)
        print("kept", r.runs, r.complete, r["lyon"].runs.cost.min(), flush=True)
        """
    )
    child = start_python("-c", program)
    lines = iter(child.stdout)
    assert next(lines) == "go\n"
    assert next(lines) == "some\n"
    child.send_signal(signal.SIGINT)
    rest = child.communicate(timeout=30)[0].split("\n")
    kept = next(line for line in rest if line.startswith("kept")).split()
    assert 128 <= int(kept[1]) < 10**6
    assert kept[2:] == ["False", "20001.0"]


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_control_c_stops_plain_python_at_once(start_python):
    """In the middle of a run that would take hours; nothing is finished, so it is raised again."""
    program = textwrap.dedent(
        """
        import time
        import tightrope as t
        p = t.ready_problem("paper")
        t.simulate(p, t.LyOn(), budgets=5, runs=1, backend="python", progress=False)
        print("go", flush=True)
        try:
            t.simulate(p, t.LyOn(), budgets=1e8, runs=3, backend="python", progress=False)
        except KeyboardInterrupt:
            print("stopped", flush=True)
        """
    )
    child = start_python("-c", program)
    assert child.stdout.readline() == "go\n"
    time.sleep(1.0)
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60)[0] == "stopped\n"
    assert child.returncode == 0


@pytest.mark.parametrize("policy", [LyOn(), FixedArm(), LyOn(window0=1)], ids=lambda p: p.label)
def test_single_precision_is_refused_where_it_stops_counting(paper, policy):
    with pytest.raises(InputError) as caught:
        simulate(paper, policy, budgets=[100, 5e6], runs=1, precision="single")
    assert str(caught.value) == (
        "precision = 'single': a run of about 12,500,002 pulls at budget 5e+06 counts past 2^24,"
        " where single precision stops counting; must be 'double' or 'auto'"
    )


def test_single_precision_counts_exactly_up_to_there(paper):
    """The largest budget that is allowed, made by hand: all counts are whole and exact."""
    budget = 0.4 * 2**22 - 2
    runs = simulate(paper, FixedArm(), budgets=budget, runs=1, precision="single")["fixed-arm"].runs
    double = simulate(paper, FixedArm(), budgets=budget, runs=1, precision="double")["fixed-arm"]
    assert np.array_equal(runs.pulls, double.runs.pulls)
    assert np.array_equal(runs.reward, double.runs.reward)
    assert np.array_equal(runs.cost, double.runs.cost)


def test_numbers_of_numpys_are_taken_and_saved(paper, tmp_path):
    given = {"budgets": np.float64(20), "runs": np.int64(3), "seed": np.int64(3)}
    results = simulate(paper, LyOn(), **given)
    results.save(tmp_path / "results")
    loaded = Results.load(tmp_path / "results")
    assert (loaded.seed, loaded.runs, loaded.budgets) == (3, 3, (20.0,))
    assert type(results.seed) is int
    assert equal(loaded, results)
    assert equal(results, simulate(paper, LyOn(), budgets=20, runs=3, seed=3))
