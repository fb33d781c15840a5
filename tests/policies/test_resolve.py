"""resolve: its formulas one by one, then its decisions, then what it keeps."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightrope import Arm, Bernoulli, Beta, Problem, Resolve, Uniform, ready_problem, simulate
from tightrope.errors import PolicyError
from tightrope.policies import parse_policy
from tightrope.policies import resolve as formulas
from tightrope.policies.parts import rescue
from tightrope.testing import PolicyContract

from ..conftest import bernoulli_problem
from .driver import Run


class TestResolve(PolicyContract):
    policies = (
        Resolve(),
        Resolve(risk=0.01),
        Resolve(mu_min=0.2),
        Resolve(window0=1.0),
        Resolve(discount0=1.0),
    )


class Middle(Run):
    """A run in the middle, made by hand: what each arm has shown, and what is left."""

    def __init__(self, arms, penalties, budget=100.0, limit=0.8, policy=None):
        problem = bernoulli_problem([(0.5,) * (2 + penalties)] * arms, [limit] * penalties or None)
        super().__init__(policy or Resolve(), problem, budget)

    def picks(self, count=50):
        words = np.random.default_rng(1).integers(0, 2**32, (count, 2))
        return [self.choose(pair) for pair in words]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("resolve:risk=0", "risk = 0.0 must be a number between 0 and 1, or none"),
        ("resolve:risk=1", "risk = 1.0 must be a number between 0 and 1, or none"),
        ("resolve:risk=often", "risk = 'often' must be a number between 0 and 1, or none"),
        ("resolve:mu_min=-1", "mu_min = -1.0 must be a finite number above 0, or none"),
        ("resolve:mu_min=2", "mu_min = 2.0 must be at most 1, the largest cost"),
    ],
)
def test_parameters_are_checked(text, message):
    with pytest.raises(PolicyError) as error:
        parse_policy(text)
    assert str(error.value) == f"policy resolve: {message}"


def test_the_shell_writes_it_as_it_reads_it():
    assert parse_policy("resolve:risk=0.01").label == "resolve:risk=0.01"
    assert parse_policy("resolve") == Resolve()


@given(
    st.floats(1e-9, 0.05),
    st.floats(10.0, 1e7),
    st.integers(1, 4),
)
def test_the_barrier_solves_its_equation(risk, budget, limits):
    z = formulas.barrier(risk, budget, limits)
    escape = z * NormalDist().pdf(z) / 2.0 * math.log1p(budget)
    assert z >= 1.0
    assert escape == pytest.approx(risk / limits, rel=1e-9) or (z == 1.0 and escape < risk / limits)


def test_a_smaller_risk_and_a_larger_budget_stay_farther_away():
    assert formulas.barrier(0.001, 1e3, 1) > formulas.barrier(0.01, 1e3, 1)
    assert formulas.barrier(0.01, 1e5, 1) > formulas.barrier(0.01, 1e3, 1)
    assert formulas.barrier(0.99, 1e3, 0) == 1.0


def test_the_curse_is_the_least_of_many_normals():
    least = np.random.default_rng(2).normal(size=(40_000, 20)).min(axis=1).mean()
    assert formulas.curse(20) == pytest.approx(-least, abs=0.03)


def test_the_rate_promised_is_one_from_which_the_limit_can_be_rescued():
    run = Middle(2, 1, budget=1000.0, policy=Resolve(risk=0.01))
    for turn in range(100):
        run.tell(0, 1.0, 1.0, 1.0)
        run.tell(1, 1.0, 0.0, float(turn % 4 == 0))
    run.picks(1)
    promised, (budget, allowance) = run.scratch.promised[0], run.state.remaining
    limit_left = allowance / budget
    assert run.scratch.arms.rate[1] < promised < limit_left


def test_what_was_seen_so_far_violates_the_limit_and_the_least_violating_arm_recovers():
    run = Middle(3, 1, limit=0.5)
    for turn in range(200):
        run.tell(0, 0.1, 1.0, 0.9)
        run.tell(1, 0.1, 0.5, 0.6)
        run.tell(2, 0.1, 0.0, float(turn % 5 == 0))
    assert run.state.remaining[1] < 0.0
    assert set(run.picks()) == {2}


def test_two_limits_recover_by_the_least_violating_mixture():
    run = Middle(3, 2, limit=0.5)
    for _ in range(300):
        run.tell(0, 0.1, 0.0, 0.2, 0.0)
        run.tell(1, 0.1, 0.0, 0.0, 0.2)
        run.tell(2, 0.1, 1.0, 0.9, 0.9)
    picks = run.picks(200)
    assert set(picks) == {0, 1}
    assert np.mean(picks) == pytest.approx(0.5, abs=0.15)


def test_late_the_safest_arm_is_pulled_and_lost_the_unknown_is_tried():
    """Two arms look the same; one is well known, the other may be better."""
    late, lost = (Middle(2, 1, budget=100.0, limit=limit) for limit in (0.61, 0.4))
    for run in (late, lost):
        for turn in range(90):
            run.tell(0, 1.0, 0.5, float(turn % 10 < 6))
        for turn in range(4):
            run.tell(1, 1.0, 0.5, float(turn % 2))
    late_picks, lost_picks = late.picks(400), lost.picks(400)
    assert late.scratch.safe[0] == rescue.LATE
    assert lost.scratch.safe[0] == rescue.LOST
    assert np.mean(late_picks) < 0.1 < np.mean(lost_picks)


def test_taking_care_moves_what_was_drawn_to_the_cautious_side():
    drawn, cautious = np.random.default_rng(5).uniform(size=(2, 6))
    moved = drawn.copy()
    rescue.take_care(moved, cautious, 0.25)
    np.testing.assert_allclose(moved, 0.75 * drawn + 0.25 * cautious)


@pytest.mark.parametrize("odds", [2.0, 10.0, 100.0])
def test_a_plausible_rate_is_so_many_deviations_below_a_gamma_belief(odds):
    """By 25 events; the chance to be lower is that of a normal number, and at most 1 / odds."""
    drawn = np.random.default_rng(2).gamma(25.0, 0.3 / 25.0, 1_000_000)
    below = (drawn < rescue.plausible_rate(0.3, 0.3 / 5.0, odds)).mean()
    assert below == pytest.approx(NormalDist().cdf(-math.sqrt(2.0 * math.log(odds))), rel=0.1)
    assert below < 1.0 / odds


def test_a_plausible_rate_of_what_is_certain_or_of_a_net_penalty_below_zero():
    assert rescue.plausible_rate(0.3, 0.0, 100.0) == 0.3
    assert rescue.plausible_rate(0.3, 0.1, 0.5) == pytest.approx(0.3 * (1 - 1 / 81) ** 3)
    assert rescue.plausible_rate(-0.1, 0.2, math.e**2) == pytest.approx(-0.1 - 2.0 * 0.2)


@pytest.mark.parametrize("limits", [1, 2])
def test_late_with_a_risk_the_arm_that_may_be_safest_is_pulled(limits):
    """A known arm above the limit, one that is hardly known, one that is known to be worse."""
    run = Middle(3, limits, budget=400.0, limit=0.4, policy=Resolve(risk=0.01))
    for arm, pulls, bad in ((0, 80, 0.5), (1, 8, 0.5), (2, 80, 0.9)):
        for turn in range(pulls):
            run.tell(arm, 1.0, 0.5, *[float(turn % 10 < 10 * bad)] * limits)
    assert set(run.picks(100)) == {1}
    assert run.scratch.safe.max() < 0.0


@pytest.mark.parametrize("limits", [1, 2])
def test_late_an_unlucky_arm_is_not_ruled_out_if_many_penalties_are_allowed(limits):
    """Another arm is known to be near the limit: settling for it would break every second run."""
    run = Middle(3, limits, budget=4000.0, limit=0.4, policy=Resolve(risk=0.01))
    for arm, pulls, bad in ((0, 400, 0.41), (1, 40, 0.55), (2, 400, 0.8)):
        for turn in range(pulls):
            run.tell(arm, 1.0, 0.5, *[float(37 * turn % 100 < 100 * bad)] * limits)
    assert set(run.picks(100)) == {1}
    assert run.scratch.safe.max() < 0.0


def test_without_a_risk_drawn_rates_are_not_replaced_by_plausible_ones():
    run = Middle(3, 1, budget=400.0, limit=0.4)
    assert len(set(run.picks(100))) == 3


@pytest.mark.parametrize(
    ("promised", "rate", "low", "owed"),
    [
        (0.8, 1.5, 0.2, 0.0),  # the allowance is whole
        (0.5, 0.4, 0.2, 0.0),  # no more than was promised
        (0.5, 0.8, 0.2, 0.5 * 0.5),  # half worn: half of what would keep it on average
        (0.2, 0.8, 0.2, 1.0),  # nothing but the safest arm
        (0.5, 0.8, 0.8, 0.0),  # no arm is safer
        (0.5, 0.9, 0.7, 1.0 * 0.4 / 0.2),  # none is safe enough: always
    ],
)
def test_what_exploring_owes_is_what_was_promised_less_what_is_expected(promised, rate, low, owed):
    assert rescue.chance_owed(0.8, promised, rate, low) == pytest.approx(owed)


@pytest.mark.parametrize("limits", [1, 2])
def test_the_kernels_for_some_number_of_limits_choose_as_the_general_one(limits):
    run = Middle(3, limits, budget=60.0, limit=0.6)
    choose = Resolve.functions(limits)[1]
    assert choose is not Resolve.functions()[1]
    for turn, words in enumerate(np.random.default_rng(7).integers(0, 2**32, (60, 2))):
        expected = run.choose(words)
        assert choose(run.constants, run.state, run.scratch, words) == expected
        run.tell(expected, 0.5, 0.1 * (turn % 7), *[0.2 * (turn % 4)] * limits)


def test_with_ample_allowance_the_best_arm_is_pulled():
    run = Middle(3, 1, budget=1000.0, limit=0.9)
    for turn in range(100):
        run.tell(0, 0.5, 0.1, 0.0)
        run.tell(1, 0.5, 0.9, float(turn % 4 == 0))
        run.tell(2, 0.5, 0.3, 0.0)
    assert set(run.picks()) == {1}


def test_no_sampled_cost_is_below_the_least_mean():
    run = Middle(2, 1, policy=Resolve(mu_min=0.4))
    for _ in range(50):
        run.tell(0, 0.0, 0.5, 0.5)
    run.picks(1)
    assert run.scratch.arms.cost.min() >= 0.4


def test_a_single_large_penalty_must_not_jump_over_the_barrier():
    """Two arms keep the limit by far; the dear one's usual penalty is what is left above it."""
    run = Middle(2, 1, budget=1000.0, limit=0.01, policy=Resolve(risk=0.01))
    for turn in range(200):
        run.tell(0, 1.0, 0.1, 0.001)
        run.tell(1, 1.0, 0.9, 0.05 * (turn % 50 == 0))
    assert 1 in run.picks()
    run.state.remaining[1] = 0.001 * run.state.remaining[0] + 0.2  # the barrier is at about 0.01
    assert set(run.picks()) == {0}


@pytest.mark.parametrize("penalties", [1, 2])
@pytest.mark.parametrize("channel", [0, 1, 2])
def test_a_scale_declared_a_hundred_times_too_large_changes_no_decision(penalties, channel):
    """Once every arm has shown something, only the sizes of its own outcomes count."""
    parts = [1.0] * (2 + penalties)
    parts[channel] = 0.01
    limits = [0.2 * parts[2 + m] / parts[0] for m in range(penalties)]
    runs = [
        Run(Resolve(), bernoulli_problem([(0.5,) * len(parts)] * 3, limit), budget)
        for limit, budget in (([0.2] * penalties, 60.0), (limits, 60.0 * parts[0]))
    ]
    outcomes = np.random.default_rng(8).uniform(0.0, 0.4, (40, len(parts)))
    for turn, row in enumerate(outcomes):
        runs[0].tell(turn % 3, *row)
        runs[1].tell(turn % 3, *(row * parts))
    words = np.random.default_rng(9).integers(0, 2**32, (200, 2))
    picks = [[run.choose(pair) for pair in words] for run in runs]
    assert picks[0] == picks[1]
    assert len(set(picks[0])) > 1


def test_any_arm_is_looked_at_now_and_then():
    run = Middle(4, 1, budget=1000.0)
    run.state.steps[0] = 9.0
    words = np.random.default_rng(10).integers(0, 2**32, (200_000, 2)).tolist()

    def looks():
        return [
            formulas.look_around(
                run.constants, run.state, run.scratch, pair, 0, len(run.state.pulls)
            )
            for pair in words
        ]

    found = np.bincount([arm for arm in looks() if arm >= 0], minlength=4)
    expected = len(words) * formulas.LOOKS / 10.0 / 4.0
    assert (np.abs(found - expected) < 5.0 * math.sqrt(expected)).all()
    run.state.remaining[1] *= 0.4  # too little is left of the allowance
    assert max(looks()) == -1
    run.state.remaining[:] = [400.0, 700.0]  # too little of the budget
    assert max(looks()) == -1


def test_what_is_expected_of_an_arm_is_where_learning_starts():
    """A price list: the arm that is said to be dear is tried less, and not never."""
    arms = bernoulli_problem([(0.5, 0.5, 0.1), (0.5, 0.9, 0.1)], 0.3).arms
    shares = []
    for mean in (0.02, 0.9):
        expected = {"arm 2": {"penalty": mean, "reward": 0.9}}
        run = Run(Resolve(), Problem(arms, limit=0.3, expected=expected), 50.0)
        for _ in range(3):
            run.tell(0, 0.5, 0.5, 0.1)
        words = np.random.default_rng(1).integers(0, 2**32, (300, 2))
        shares.append(np.mean([run.choose(pair) for pair in words]))
    assert shares[0] > shares[1] + 0.1 > 0.1


def problems(paper, mixed):
    """No limit, one, two of mixed laws in dollars, three."""
    free = Problem(
        [Arm("a", Uniform(0.2, 0.9), Beta(2, 3)), Arm("b", Bernoulli(0.5), Bernoulli(0.3))]
    )
    three = bernoulli_problem([(0.5, 0.8, 0.7, 0.2, 0.4), (0.4, 0.3, 0.1, 0.2, 0.1)], [0.9] * 3)
    return ((free, 40.0), (paper, 60.0), (mixed, 1500.0), (three, 40.0))


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("risk", [None, 0.05])
def test_compiled_it_makes_the_same_runs_to_the_bit(paper, mixed, which, risk):
    problem, budget = problems(paper, mixed)[which]
    compiled, plain = (
        simulate(
            problem,
            {"p": Resolve(risk=risk)},
            budgets=budget,
            runs=4,
            seed=5,
            backend=backend,
            progress=False,
        )["p"].runs
        for backend in ("cpu", "python")
    )
    np.testing.assert_array_equal(compiled.pulls, plain.pulls)
    np.testing.assert_array_equal(compiled.cost, plain.cost)
    np.testing.assert_allclose(compiled.reward, plain.reward, rtol=1e-12)
    np.testing.assert_allclose(compiled.penalty, plain.penalty, rtol=1e-12)


def played(problem, policy, budget, runs):
    return simulate(problem, {"p": policy}, budgets=budget, runs=runs, seed=11, progress=False)


def test_on_average_it_keeps_the_papers_limit_and_loses_little(paper):
    row = played(paper, Resolve(), 1000, 400).summary()[0]
    assert row["violation"] <= 0.001 * 0.8 + 3 * row["violation_se"]
    assert row["regret"] <= 3.0 + 3 * row["regret_se"]


def test_among_many_arms_exploring_does_not_break_the_limit():
    """Before it was made up for, the mean violation was 0.0014 c."""
    row = played(ready_problem("paper-arms-50"), Resolve(), 1000, 400).summary()[0]
    assert row["violation"] <= 0.001 * 0.8 + 2 * row["violation_se"]


def test_with_a_risk_it_hardly_ever_breaks_the_papers_limit(paper):
    runs = played(paper, Resolve(risk=0.01), 300, 1000)["p"].runs
    broken = (runs.penalty[0, :, 0] > 0.8 * 300 + 1e-9).mean()
    assert broken <= 0.015 + 3 * math.sqrt(0.01 / 1000)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_with_a_risk_it_finds_the_safe_arm_beside_one_just_above_the_limit(order):
    """An arm a third below, one a ninth above: drawn rates broke the limit in 6.4 % of runs."""
    means = [(0.5, 0.5, 0.1), (0.6, 0.62, 0.2), (0.5, 0.7, 0.35)]
    problem = bernoulli_problem([means[k] for k in order], 0.3)
    runs = played(problem, Resolve(risk=0.01), 300, 2000)["p"].runs
    assert (runs.penalty[0, :, 0] > 0.3 * 300 + 1e-9).mean() <= 0.045


def test_with_a_risk_it_does_not_search_among_cheap_arms_to_the_end():
    """The safest arm costs most: 18 % of runs ended above the limit before, on this problem."""
    runs = played(ready_problem("arena-uneven-10-107"), Resolve(risk=0.01), 10_000, 200)["p"].runs
    broken = (runs.penalty[0, :, 0] > 0.481 * 10_000 + 1e-9).mean()
    assert broken <= 0.01 + 3 * math.sqrt(0.01 / 200)


def rare_penalties():
    """Three arms of which one breaks a limit of 0.01 and one keeps it by far."""
    return bernoulli_problem([(0.5, 0.8, 0.02), (0.5, 0.5, 0.001), (0.5, 0.65, 0.006)], 0.01)


def test_it_does_not_lock_on_to_an_arm_that_breaks_the_limit_where_penalties_are_rare():
    """One early penalty of the safe arm: 8.7 % of runs ended 10 % above the limit before."""
    runs = played(rare_penalties(), Resolve(risk=0.01), 10_000, 400)["p"].runs
    violation = runs.penalty[0, :, 0] / 100.0 - 1.0
    assert (violation > 0.1).sum() == 0
    assert (violation > 1e-9).mean() <= 0.01


def test_the_arms_order_does_not_matter_but_by_chance():
    means = [(0.5, 0.8, 0.6), (0.6, 0.5, 0.2), (0.4, 0.3, 0.3)]
    order = [2, 0, 1]
    straight, turned = (
        played(bernoulli_problem(rows, 0.7), Resolve(), 200, 400)["p"].runs
        for rows in (means, [means[k] for k in order])
    )
    for k, place in enumerate(order):
        one, other = turned.pulls[0, :, k], straight.pulls[0, :, place]
        error = math.sqrt((one.var() + other.var()) / 400)
        assert abs(one.mean() - other.mean()) <= 4.5 * error
