"""Beliefs about mean outcomes: their moments, sizes, the two priors of a penalty, draws."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightrope import Problem, Resolve
from tightrope.policies.parts import beliefs

from ..conftest import bernoulli_problem
from .driver import Run

NOTHING = -1.0  # no expected mean


@given(st.integers(0, 300), st.floats(0.0, 1.0), st.floats(2.0, 1000.0))
def test_for_zeros_and_ones_they_have_the_moments_of_a_beta_law(pulls, part, prior):
    total = float(round(part * pulls))
    scale, width = beliefs._belief(float(pulls), prior, total, total, 1.0, NOTHING)
    a, b = 1.0 + total, prior - 1.0 + pulls - total
    variance = a * b / (a + b) ** 2 / (a + b + 1.0)
    assert beliefs.mean_of(scale) == pytest.approx(a / (a + b))
    assert abs(scale) == pytest.approx(min(a, b) / (a + b))
    assert 3.0 * abs(width * scale) == pytest.approx(math.sqrt(variance), rel=1e-6)
    assert (scale > 0.0) == (width > 0.0) == (a <= b)


@given(
    st.lists(st.floats(0.01, 0.4), min_size=1, max_size=20),
    st.integers(1, 20),
    st.floats(1e-6, 1.0),
)
def test_they_follow_the_size_of_the_outcomes(outcomes, zeros, factor):
    """Outcomes a thousand times smaller give a belief a thousand times smaller, and as wide."""
    found = []
    for values in (np.array(outcomes), factor * np.array(outcomes)):
        total, square = values.sum(), (values**2).sum()
        size = beliefs.size_of_sums(total, square, 1.0)
        pulls = float(len(values) + zeros)
        found.append(beliefs._belief(pulls, 2.0, total, square, size, NOTHING))
    (scale, width), (small, same) = found
    assert small == pytest.approx(factor * scale, rel=1e-9)
    assert same == pytest.approx(width, rel=1e-6)


def test_the_usual_size_is_an_average_weighted_by_size():
    assert beliefs.size_of_sums(0.0, 0.0, 0.3) == 0.3
    assert beliefs.size_of_sums(5.0, 5.0, 0.3) == 1.0
    assert beliefs.size_of_sums(0.1 + 0.3, 0.01 + 0.09, 1.0) == pytest.approx(0.25)


@pytest.mark.parametrize("mean", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("pulls", [0, 1, 50])
def test_an_expected_mean_counts_as_two_pulls(mean, pulls):
    total = 0.3 * pulls
    scale, width = beliefs._belief(float(pulls), 2.0, total, 0.2 * pulls, 0.5, mean)
    assert beliefs.mean_of(scale) == pytest.approx(
        (total + 2.0 * mean) / (pulls + 2.0), abs=1.01 * beliefs.LEAST_BASE
    )
    assert math.isfinite(width)


@pytest.mark.parametrize(("mean", "size"), [(0.05, 0.1), (0.5, 1.0), (0.8, 1.36 / 1.6)])
def test_an_arm_without_pulls_has_the_size_of_its_guess(mean, size):
    assert beliefs._usual_belief(0.0, 0.0, 0.0, 1e-4, mean)[2] == pytest.approx(size)
    assert beliefs._usual_belief(0.0, 0.0, 0.0, 1e-4, 0.0)[2] == 1e-4
    seen = beliefs._usual_belief(900.0, 0.09, 9e-6, 1e-4, mean)[2]  # 900 outcomes of 1e-4
    assert 1e-4 < seen < size


@pytest.mark.parametrize("guess", [{"penalty": 0.02}, {"penalty": 0.02, "cost": 0.8}])
def test_the_rate_of_a_guess_is_at_the_mean_cost_of_what_was_seen(guess):
    arms = bernoulli_problem([(0.5, 0.5, 0.1), (0.5, 0.9, 0.1), (0.5, 0.5, 0.1)], 0.3).arms
    run = Run(Resolve(), Problem(arms, limit=0.3, expected={"arm 2": guess}), 50.0)
    assert run.scratch.arms.rate[1] == pytest.approx(0.02 / guess.get("cost", 0.5))
    for _ in range(4):
        run.tell(0, 0.8, 0.5, 0.1)
    assert run.scratch.arms.rate[1] == pytest.approx(0.02 / 0.8)
    assert beliefs.mean_of(run.scratch.arms.cost_scale[2]) == pytest.approx(0.4)  # no guess


@given(st.floats(1.0, 1e7), st.floats(1.0, 1e4))
def test_the_logarithm_of_a_quotient_of_gamma_functions(start, count):
    exact = math.lgamma(start + count) - math.lgamma(start)
    assert beliefs._log_rising(start, count) == pytest.approx(exact, abs=3e-3, rel=1e-6)


@pytest.mark.parametrize(
    ("pulls", "events", "prior"), [(0, 0, 8.0), (3, 1, 200.0), (40, 0, 50.0), (12, 9, 30.0)]
)
def test_the_chance_of_a_rare_penalty_is_bayes_rule(pulls, events, prior):
    """By numerical integration over the frequency."""
    p = (np.arange(200_000) + 0.5) / 200_000
    likelihood = p**events * (1.0 - p) ** (pulls - events)
    rare = (likelihood * (prior - 1.0) * (1.0 - p) ** (prior - 2.0)).mean()
    found = beliefs._chance_of_rare(float(pulls), float(events), prior)
    assert found == pytest.approx(rare / (rare + likelihood.mean()), abs=1e-3)


def test_draws_have_the_moments_of_the_belief():
    for total in (20.0, 80.0):
        belief = beliefs._belief(100.0, 2.0, total, total, 1.0, NOTHING)
        words = np.random.default_rng(3).integers(0, 2**32, 20_000).tolist()
        draws = [beliefs._sampled(*belief, 1.0, word) for word in words]
        a, b = 1.0 + total, 101.0 - total
        deviation = math.sqrt(a * b / (a + b) ** 2 / (a + b + 1.0))
        assert np.mean(draws) == pytest.approx(a / (a + b), abs=4 * deviation / math.sqrt(20_000))
        assert np.std(draws) == pytest.approx(deviation, rel=0.03)


def test_the_table_of_normal_numbers_is_normal():
    table = beliefs.NORMAL
    assert table.mean() == pytest.approx(0.0, abs=1e-12)
    assert table.var() == pytest.approx(1.0)
    assert (table > 2.0).mean() == pytest.approx(NormalDist().cdf(-2.0), abs=0.001)


def run_of(limit: float, *means: tuple[float, float, float]) -> Run:
    return Run(Resolve(), bernoulli_problem(list(means), limit), 1000.0)


def test_the_spread_is_the_variance_around_the_rate():
    run = run_of(0.8, (0.5, 0.5, 0.5))
    generator = np.random.default_rng(4)
    cost = generator.uniform(size=2000)
    penalty = (cost > 0.5).astype(float)
    for x, y in zip(cost, penalty, strict=True):
        run.tell(0, x, 0.0, y)
    rate, found = run.scratch.arms.rate[0], run.scratch.arms.spread[0]
    assert rate == pytest.approx(penalty.sum() / cost.sum(), rel=0.01)
    assert found == pytest.approx(((penalty - rate * cost) ** 2).sum() / cost.sum(), rel=0.01)


def test_a_penalty_may_be_rare_only_where_its_limit_allows_no_more():
    assert run_of(0.8, (0.5, 0.5, 0.5)).scratch.arms.any_rare[0] == 0.0
    arms = run_of(0.01, (0.5, 0.5, 0.01)).scratch.arms
    assert arms.any_rare[0] == 1.0
    assert arms.more[beliefs.CHANCE] == pytest.approx(0.5, abs=1e-3)


def test_one_early_penalty_leaves_a_second_look_a_chance():
    """The arm of which it was believed for good that it breaks the limit."""
    run = run_of(0.01, (0.5, 0.5, 0.001), (0.5, 0.5, 0.001))
    for turn in range(4):
        run.tell(0, 1.0, 0.5, float(turn == 1))
    words = np.random.default_rng(5).integers(0, 2**32, 4000).tolist()
    arms, shares = run.scratch.arms, []
    for chance in (arms.more[beliefs.CHANCE], 0.0):
        arms.more[beliefs.CHANCE] = chance
        below = 0
        for word in words:
            beliefs.draw_for_one(run.constants, run.state, arms, word, 1.0)
            below += arms.penalty[0] < 0.01
        shares.append(below / len(words))
    assert shares[0] > 0.02 > 0.001 > shares[1]


def test_an_arm_that_has_shown_only_zeros_takes_the_size_of_the_others():
    run = run_of(0.1, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    for _ in range(7):
        run.tell(0, 1.0, 0.5, 0.002)
    run.tell(1, 1.0, 0.5, 0.0)  # the eighth step
    sizes = run.scratch.arms.more[beliefs.SIZE :: beliefs.MORE]
    assert sizes.tolist() == pytest.approx([0.002, 0.002])
    assert run.scratch.arms.rate[1] < 0.002
