"""The bounds against simulation, exact values and brute force; the paper's slips against both."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from tests.conftest import bernoulli_problem
from tightrope import (
    Arm,
    Bernoulli,
    Constant,
    LyOff,
    LyOn,
    Problem,
    Scales,
    Stationary,
    TwoPoint,
    optimum,
    oracle,
    ready_problem,
    simulate,
    theory,
)
from tightrope.errors import InputError, ProblemError
from tightrope.policies import FixedArm, UniformRandom
from tightrope.policies.base import set_up
from tightrope.theory import formulas
from tightrope.theory.bounds import bounds

RUNS = 400


def row_of(problem, policy, budget, runs=RUNS):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return simulate(problem, policy, budgets=budget, runs=runs, seed=3).summary()[0]


def random_constants(generator) -> tuple[theory.TheoryConstants, np.ndarray, Problem]:
    """Arms with a Slater arm, drawn until there is one; means [K, 3]."""
    while True:
        means = generator.uniform(0.05, 1.0, (generator.integers(2, 6), 3))
        problem = bernoulli_problem([tuple(row) for row in means], generator.uniform(0.2, 1.5))
        if (problem.moments.limits[0] * means[:, 0] - means[:, 2]).max() > 0.02:
            return theory.constants(problem), means, problem


# --- constants ----------------------------------------------------------------------------


def test_constants_of_the_papers_arms(paper):
    known = theory.constants(paper)
    assert known.slater_arm == "arm 2"
    values = known.mu_min, known.r_max, known.y_max, known.epsilon
    assert values == pytest.approx((0.4, 2.0, 1.5, 0.18))
    assert (known.reward_rate, known.multiplier) == pytest.approx((1.3, 1.0))
    # E[(Y - .8 X)^2] = .6 - 1.6 * .24 + .64 * .4 for arm 1
    assert known.variance == pytest.approx(0.472, abs=1e-8)


@pytest.mark.parametrize("name", ["wireless", "hiring", "advertising"])
def test_the_variance_is_that_of_the_draws(name):
    problem = ready_problem(name)
    known, scales = theory.constants(problem), problem.scales.channels
    uniforms = np.random.default_rng(1).random((2, 400_000))
    largest = 0.0
    for arm in problem.arms:
        cells = arm.cells()
        source = uniforms[0 if arm.outcomes[2].shares_cost_draw else 1]
        cost = cells[0].outcomes(uniforms[0]) / scales[0]
        penalty = cells[2].outcomes(source) / scales[2]
        largest = max(largest, float(np.mean((penalty - known.limit * cost) ** 2)))
    assert known.variance == pytest.approx(largest, rel=0.02)


def test_units_do_not_matter(paper):
    arms = [
        Arm(a.name, TwoPoint(0, 5, a.cost.mean), TwoPoint(0, 3, a.reward.mean), a.penalties[0])
        for a in paper.arms
    ]
    scaled = Problem(arms, limit=0.8 / 5, scales=Scales(cost=5.0, reward=3.0))
    for one, other in zip(bounds(paper, 1000), bounds(scaled, 5000), strict=True):
        unit = 3.0 if "egret" in one.name or "reward" in one.name else 1.0
        unit = 0.2 if "iolation" in one.name else unit
        assert other.value == pytest.approx(one.value * unit), one.name
        if one.bites_from is not None:
            assert other.bites_from == pytest.approx(5 * one.bites_from)


def test_what_the_bounds_cannot_take(mixed):
    with pytest.raises(InputError, match=r"penalties = 2: .*exactly one"):
        theory.constants(mixed)
    tight = bernoulli_problem([(0.5, 0.5, 0.25), (0.5, 0.2, 0.4)], 0.5)
    with pytest.raises(ProblemError, match=r"Assumption 1.*'arm 1' comes nearest"):
        theory.constants(tight)
    with pytest.raises(InputError, match=r"budget = 1\.0"):
        bounds(ready_problem("paper"), 1.0)
    with pytest.raises(InputError, match="alpha = 0"):
        bounds(ready_problem("paper"), 100.0, alpha=0)


# --- pulls and stationary policies --------------------------------------------------------


@pytest.mark.parametrize("mean", [0.1, 0.4, 0.9])
@pytest.mark.parametrize("budget", [2, 10, 50])
def test_the_tail_of_the_pulls_against_the_exact_one(mean, budget):
    known = theory.constants(bernoulli_problem([(mean, 0.5, mean / 4), (1.0, 0.2, 0.1)], 0.5))
    first = theory.most_pulls(known, budget)
    pulls = np.arange(first, first + 4000)
    exact = binom.cdf(budget, pulls, mean)  # always the cheap arm: P(S_n <= B) = P(N > n)
    bound = [theory.renewal_tail(known, budget, int(n)) for n in pulls]
    assert np.all(exact <= np.array(bound) + 1e-15)
    assert exact.sum() <= theory.renewal_tail_sum(known, budget)
    assert theory.renewal_tail(known, budget, first - 1) == 1.0


def test_a_stationary_total_against_the_renewal_equation():
    # cost 1/2 or 1, budget in half units: E[N] by the renewal equation
    probability, budget = 0.3, 7.5
    cells = int(budget * 2)
    pulls = np.zeros(cells + 1)
    for left in range(cells + 1):
        pulls[left] = 1.0
        for step, chance in ((1, 1 - probability), (2, probability)):
            pulls[left] += chance * (pulls[left - step] if left >= step else 0.0)
    rate = 0.6 / (0.5 + 0.5 * probability)
    low, high = theory.stationary_total(budget, rate)
    assert low <= 0.6 * pulls[cells] <= high


def test_pi_star_against_the_exact_optimum(paper):
    known = theory.constants(paper)
    for budget in (3, 7, 100, 3000):
        earned = known.reward_rate * (budget + 1)  # every run spends B + 1
        assert optimum(paper, budget) - earned <= theory.optimality_gap(known)
        assert theory.optimality_gap(known) <= theory.printed_optimality_gap(known, budget)
        over = known.penalty_rate * (budget + 1) / budget - known.limit
        assert over <= theory.optimality_gap_violation(known, budget) + 1e-12


@pytest.mark.parametrize("name", ["wireless", "hiring", "advertising"])
def test_no_policy_earns_more_than_pi_stars_rate_on_one_cost_more(name):
    problem = ready_problem(name)
    for budgets in (3.0, 20.0):
        budget = budgets * problem.scales.cost
        most = oracle(problem).reward_rate * (budget + problem.scales.cost)
        assert optimum(problem, budget) <= most * (1 + 1e-6)


def test_pi_star_in_simulation(paper):
    known, budget = theory.constants(paper), 200.0
    row = row_of(paper, Stationary(), budget)
    low, high = theory.stationary_total(budget, known.reward_rate)
    reach = row["regret_interval"][1] - row["regret"]
    assert low - reach <= row["reward_rate"] * budget <= high + reach
    assert row["regret_interval"][0] <= theory.optimality_gap(known)
    assert row["violation_interval"][0] <= theory.optimality_gap_violation(known, budget)


# --- decompositions -----------------------------------------------------------------------


@pytest.mark.parametrize("policy", [UniformRandom(), FixedArm(1), FixedArm(2), LyOff(), LyOn()])
def test_the_decompositions_of_measured_rates(paper, policy):
    known, budget = theory.constants(paper), 100.0
    runs = simulate(paper, policy, budgets=budget, runs=RUNS, seed=1).records[0].runs[0]
    spent = runs.cost.mean()
    regret = optimum(paper, budget) - runs.reward.mean()
    violation = runs.penalty.mean() / budget - known.limit
    bound = theory.regret_decomposition(known, budget, runs.reward.mean() / spent)
    assert regret <= bound + 1e-9
    bound = theory.violation_decomposition(known, budget, runs.penalty.mean() / spent)
    assert violation <= bound + 1e-9


def test_the_printed_decompositions_are_not_true_of_every_causal_policy():
    # idle until the budget is spent, good (or harmful) afterwards: n_0 = 2 B pulls see both
    arms = [
        Arm("idle", Constant(1.0), Constant(0.0), Constant(0.0)),
        Arm("busy", Constant(1.0), Constant(1.0), Constant(1.0)),
    ]
    known, budget = theory.constants(Problem(arms, limit=0.5)), 100
    pulls = theory.most_pulls(known, budget)
    after = (pulls - budget - 1) / pulls  # what the first n_0 pulls earn per unit of cost
    regret = known.reward_rate * (budget + 1)
    assert regret > theory.printed_regret_decomposition(known, budget, after)
    assert regret <= theory.regret_decomposition(known, budget, 0.0)
    # the other way round: busy first, idle afterwards
    rate = (budget + 1) / pulls
    violation = (budget + 1) / budget - known.limit
    assert violation > theory.printed_violation_decomposition(known, budget, rate)
    assert violation <= theory.violation_decomposition(known, budget, 1.0)


def test_the_printed_violation_of_lyoff_is_beaten_by_its_simulation(paper):
    """-2 delta / mu_min claims more than delta can do: a gap below 0 times B >= cost."""
    known, budget = theory.constants(paper), 10_000.0
    v, delta = theory.lyoff_schedule(budget, 1.0, 15.0)
    policy = LyOff(v=v, delta=delta)
    row = row_of(paper, policy, budget, runs=50)
    longer = row_of(paper, policy, 2.5 * budget, runs=50)  # about n_0(B) pulls
    rate = longer["violation"] + known.limit
    printed = theory.printed_violation_decomposition(known, budget, rate)
    assert printed < -0.5 < -0.2 < row["violation_interval"][0]
    assert row["violation"] <= theory.lyoff_violation(known, budget, v, delta)


# --- the queue ----------------------------------------------------------------------------


def test_the_drift_from_the_threshold_on_by_brute_force():
    generator = np.random.default_rng(5)
    for _ in range(200):
        known, means, _ = random_constants(generator)
        v, delta = generator.uniform(0.1, 100), known.epsilon * generator.uniform(0, 0.9)
        drift = theory.offline_drift(known, v, delta, generator.uniform(0.05, 0.95))
        cost, reward, penalty = means.T
        step = penalty - (known.limit - delta) * cost
        for queue in drift.threshold * np.geomspace(1.0, 50.0, 40):
            chosen = np.argmin((-v * reward + queue * penalty) / cost)
            assert step[chosen] <= -drift.rate + 1e-12
        assert drift.threshold >= known.limit - delta


def test_the_online_drift_holds_for_every_arm_that_the_confidence_bounds_let_through():
    generator = np.random.default_rng(6)
    for _ in range(200):
        known, means, _ = random_constants(generator)
        v, delta = generator.uniform(0.1, 100), known.epsilon * generator.uniform(0, 0.45)
        drift = theory.online_drift(known, v, delta, generator.uniform(0.05, 0.95))
        cost, reward, penalty = means.T
        radius = known.mu_min * known.epsilon / (4 * (1 + known.y_max))
        step = penalty - (known.limit - delta) * cost
        for queue in drift.threshold * np.geomspace(1.0, 50.0, 20):
            index = (-v * reward + queue * penalty) / cost
            wide = v * (1 + reward / cost) + queue * (1 + penalty / cost)
            through = index - 2 * radius / cost * wide <= index.min()
            assert np.all(step[through] <= -drift.rate + 1e-12)


def test_at_the_printed_threshold_the_drift_can_be_as_small_as_one_likes():
    # Slater arm: E[Y - c X] = -.18; the other one keeps the limit by .0005 and earns all
    problem = bernoulli_problem([(0.5, 0.9, 0.3995), (1.0, 0.0, 0.62)], 0.8)
    known, v = theory.constants(problem), 10.0
    queue = theory.printed_offline_threshold(known, v)
    moments = problem.moments
    index = -v * moments.reward_rate + queue * moments.penalty_rate[:, 0]
    assert known.epsilon == pytest.approx(0.18)
    assert np.argmin(index) == 0  # and not the arm that makes the queue fall by epsilon


def test_without_delta_below_epsilon_nothing_is_promised(paper):
    known = theory.constants(paper)
    assert theory.offline_drift(known, 10.0, 0.18, 0.5) is None
    assert theory.online_drift(known, 10.0, 0.09, 0.5) is None
    assert theory.lyoff_regret(known, 100.0, 10.0, 0.2) == math.inf
    assert theory.lyoff_violation(known, 100.0, 10.0, 0.2) == math.inf


@pytest.mark.parametrize(("v0", "delta0"), [(1.0, 0.5), (0.1, 2.0), (4.0, 0.0)])
def test_lyoff_in_simulation(paper, v0, delta0):
    known = theory.constants(paper)
    for budget in (200.0, 4000.0):
        v, delta = theory.lyoff_schedule(budget, v0, delta0)
        policy = LyOff(v0=v0, delta0=delta0)
        row = row_of(paper, policy, budget)
        assert row["queue_max"] <= theory.queue_max(known, theory.offline_drift, v, delta, budget)
        assert row["regret_interval"][0] <= theory.lyoff_regret(known, budget, v, delta)
        assert row["violation_interval"][0] <= theory.lyoff_violation(known, budget, v, delta)
        made = simulate(paper, policy, budgets=budget, runs=RUNS, seed=3).records[0].runs
        mean = made.queue.mean()
        assert mean <= theory.queue_mean(known, theory.offline_drift, v, delta)


def test_the_violation_identity_behind_lyoffs_bound(paper):
    """E[penalty] <= E[last queue] + (c - delta) E[cost]: tight, so the bound's slack is E[Q]'s."""
    budget = 4000.0
    _, delta = theory.lyoff_schedule(budget, 1.0, 0.5)
    runs = simulate(paper, LyOff(), budgets=budget, runs=50, seed=3).records[0].runs[0]
    allowed = runs.queue[:, 0] + (0.8 - delta) * runs.cost
    assert np.all(runs.penalty[:, 0] <= allowed + 1e-2)
    assert runs.penalty.mean() == pytest.approx(allowed.mean(), rel=1e-3)


# --- LyOn ---------------------------------------------------------------------------------


def test_beta0_makes_the_radius_small_enough(paper):
    known, alpha, budget = theory.constants(paper), 2.0, 1e5
    each = theory.exploration_pulls(known, budget, alpha) / known.arm_count
    radius = math.sqrt(2 * alpha * math.log(2 * budget / known.mu_min) / each)
    assert radius <= known.mu_min * known.epsilon / (4 * (1 + known.y_max))
    assert theory.beta0(known, alpha) == pytest.approx(32 * 2 * 2.5**2 / (0.4 * 0.18) ** 2)


def test_the_index_is_a_lower_bound_within_two_radii():
    """lemma:bound-psi with the bonus that alg:LyOn has: empirical rates, empirical cost."""
    generator = np.random.default_rng(7)
    for _ in range(300):
        known, means, _ = random_constants(generator)
        part = formulas._inner_radius(known)
        u = known.epsilon / (4 * (1 + known.y_max))
        radius = u * known.mu_min * generator.uniform(0.01, 1.0)
        for cost, reward, penalty in means:
            x, r, y = np.array([cost, reward, penalty])[:, None] + part * radius * (
                generator.choice([-1.0, 1.0], (3, 16))
            )
            for sign, seen, true in ((1.0, r / x, reward / cost), (-1.0, y / x, penalty / cost)):
                bonus = radius * (1 + np.maximum(seen, 0)) / x
                optimistic = sign * (seen + sign * bonus)
                assert np.all(optimistic >= sign * true - 1e-12)
                wide = 2 * radius / cost * (1 + true)
                assert np.all(optimistic <= sign * true + wide + 1e-12)


def test_the_failure_of_the_confidence_bounds_against_the_sum(paper):
    known = replace(theory.constants(paper), mu_min=0.9, epsilon=0.9)
    for alpha in (0.5, 1.0):
        pulls = theory.exploration_pulls(known, 50.0, alpha)
        power = 4 * formulas._inner_radius(known) ** 2 * alpha
        terms = np.maximum(pulls, np.arange(1, 10**6)).astype(float) ** -power
        total = 6 * known.arm_count * terms.sum()
        assert min(1.0, total) <= theory.confidence_failure(known, 50.0, alpha)
    assert theory.confidence_failure(known, 50.0, 0.05) == 1.0


def test_lyon_in_simulation_with_the_theorys_own_exploration():
    problem = Problem(
        [
            Arm("bold", Constant(1.0), Bernoulli(0.9), Bernoulli(0.9)),
            Arm("careful", Constant(1.0), Bernoulli(0.3), Bernoulli(0.1)),
        ],
        limit=0.5,
    )
    known, alpha, budget = theory.constants(problem), 1.0, 30_000.0
    v, delta = theory.lyon_schedule(budget, 0.05, 2.0)
    explored = theory.exploration_pulls(known, budget, alpha)
    assert explored < budget
    policy = LyOn(v0=0.05, delta0=2.0, alpha=alpha, beta0=theory.beta0(known, alpha))
    assert 2 * set_up(policy, problem, budget).explore == explored
    row = row_of(problem, policy, budget, runs=40)
    bound = {b.name: b for b in bounds(problem, budget, 0.05, 2.0, alpha)}
    assert row["queue_max"] <= bound["LyOn: E[max Q_n]"].value
    assert row["regret_interval"][0] <= bound["LyOn: regret"].value
    assert row["violation_interval"][0] <= bound["LyOn: violation"].value
    assert bound["LyOn: violation"].value == theory.lyon_violation(known, budget, v, delta, alpha)
    assert bound["LyOn: E[max Q_n]"].value < bound["LyOn: E[max Q_n]"].trivial


# --- all of them --------------------------------------------------------------------------


def test_each_bites_from_the_budget_it_says(paper):
    for bound in bounds(paper, 1000.0, 1.0, 15.0):
        if bound.bites_from is None or bound.bites_from <= 2.0:
            continue
        for factor, bites in ((1.0, True), (0.99, False)):
            again = bounds(paper, bound.bites_from * factor, 1.0, 15.0)
            there = next(b for b in again if b.name == bound.name)
            assert (there.value < there.trivial) == bites, bound.name


def test_the_bounds_say_when_beta0_exceeds_the_budget(paper):
    found = {b.name: b for b in bounds(paper, 1000.0)}
    pulls = found["LyOn: pulls to explore"]
    assert pulls.value > 1000
    assert "more than the budget allows" in pulls.obstacle
    assert "beta0 requires 1,314,382 pulls" in found["LyOn: regret"].obstacle
    assert found["LyOn: regret"].value > found["LyOn: regret"].trivial
    large = {b.name: b for b in bounds(paper, 1e9, 1.0, 15.0)}
    assert not large["LyOn: regret"].obstacle
    assert large["LyOn: regret"].value < large["LyOn: regret"].trivial
    assert large["LyOff: violation at most 0"].value < 0


def test_the_range_of_delta0(paper):
    """On the paper's arms r_max = 2, y_max = 1.5, epsilon = 0.18, c = 0.8."""
    found = {b.name: b for b in bounds(paper, 60_000.0, 1.0, 15.0)}
    low, high = found["LyOff: delta0 must be above"], found["LyOff: delta0 must be below"]
    assert (low.value, low.printed) == pytest.approx((2 / 0.18, 2 / 0.18))
    assert (high.value, high.printed) == pytest.approx((0.18 * 60_000**0.5, 0.8 * 60_000**0.5))
    low, high = found["LyOn: delta0 must be above"], found["LyOn: delta0 must be below"]
    root = math.sqrt(60_000 / math.log(60_000))
    assert (low.value, low.printed) == pytest.approx((4 / 0.18 + 3 / 2.5, 2 / 0.18))
    assert (high.value, high.printed) == pytest.approx((0.09 * root, 0.8 * 60_000**0.5))
    # Figure 1 (d-f) at its largest budget: above the printed lower end, not the corrected one
    assert low.printed < 15.0 < low.value
    # at the printed upper end delta is c sqrt(log B): above c, at every budget from 3 on
    _, delta = theory.lyon_schedule(60_000.0, 1.0, high.printed)
    assert delta == pytest.approx(0.8 * math.sqrt(math.log(60_000)))


def test_the_range_of_delta0_is_where_the_violation_ends_below_0(paper):
    """Just above the lower end the bound is negative at huge budgets, just below it never is."""
    known = theory.constants(paper)
    sides = (
        (theory.lyoff_delta0, theory.lyoff_schedule, theory.lyoff_violation, ()),
        (theory.lyon_delta0, theory.lyon_schedule, theory.lyon_violation, (2.0,)),
    )
    for range_of, schedule, violation, rest in sides:
        for budget in (1e20, 1e25):
            low, high = range_of(known, budget, 1.0)
            ends = [
                violation(known, budget, *schedule(budget, 1.0, factor * low), *rest)
                for factor in (0.99, 1.02)  # the functions try shares of 0.01 and more
            ]
            assert ends[0] > 0 > ends[1]
            beyond = violation(known, budget, *schedule(budget, 1.0, 1.001 * high), *rest)
            assert beyond == math.inf
        first = next(
            b.bites_from
            for b in bounds(paper, 1000.0)
            if b.name == f"{'LyOn' if rest else 'LyOff'}: delta0 must be above"
        )
        for factor, empty in ((1.01, False), (0.99, True)):
            low, high = range_of(known, factor * first, 1.0)
            assert (low >= high) == empty


@pytest.mark.parametrize("costs", [(0.2, 0.4), (0.8, 1.0)])
def test_the_hiring_penalty_bounds_pulls_not_budget(costs):
    """Y = 1 outside A allows c mean(X) of the budget there; Y = X allows c, whatever X is."""
    inside = Arm("inside", Constant(0.5), Constant(0.1), Constant(0.0))
    for rows, share in (
        ([(x, 1.0, 1.0) for x in costs], 0.2 * np.mean(costs)),
        ([(x, 1.0, x) for x in costs], 0.2),
    ):
        problem = Problem([Arm.from_rows("outside", rows), inside], limit=0.2)
        assert oracle(problem).cost_share[0] == pytest.approx(share)


def test_the_orders_in_the_budget_are_the_papers(paper):
    known = theory.constants(paper)

    def growth(bound, schedule, *rest):
        low, high = (bound(known, b, *schedule(b, 1.0, 15.0), *rest) for b in (1e16, 1e18))
        return math.log(abs(high / low)) / math.log(100)

    assert growth(theory.lyoff_regret, theory.lyoff_schedule) == pytest.approx(0.5, abs=0.02)
    assert growth(theory.lyoff_violation, theory.lyoff_schedule) == pytest.approx(-0.5, abs=0.02)
    assert growth(theory.lyon_regret, theory.lyon_schedule, 2.0) == pytest.approx(0.5, abs=0.04)
