"""The literature's policies and the stronger Lyapunov ones, against few-line computations."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy import optimize, stats

from tests.conftest import bernoulli_problem
from tests.policies.driver import new_record
from tightrope import LyOn, oracle, parse_policy, simulate
from tightrope.errors import PolicyError
from tightrope.policies import (
    TSLP,
    UCBLP,
    BudgetedTS,
    LyOnTS,
    LyOnWilson,
    OmegaUCB,
    PessimisticOptimistic,
    PrimalDualBwK,
    UCBBwI,
)
from tightrope.policies.base import set_up
from tightrope.policies.choice import record
from tightrope.policies.parts.intervals import (
    knapsack_radius,
    spread,
    wilson_high,
    wilson_low,
)
from tightrope.policies.parts.placeholder import renew_queues
from tightrope.policies.parts.sampling import (
    Posteriors,
    beta,
    count_outcomes,
    draw_gammas,
    mean_of,
    normal,
    uniform,
)
from tightrope.policies.rivals.pessimistic_optimistic import slack_of
from tightrope.policies.state import State, start_state

FLOORS = (BudgetedTS(), OmegaUCB(), OmegaUCB(eta="one"))
AWARE = (
    UCBLP(),
    UCBLP(epsilon=0.1),
    UCBLP(epsilon="published"),
    TSLP(),
    TSLP(update=True),
    PrimalDualBwK(),
    PrimalDualBwK(hard_stop=False),
    PessimisticOptimistic(),
    LyOnTS(),
    LyOnTS(q0=5.0),
    LyOnWilson(),
)
ALL = (*FLOORS, *AWARE)
FREE = bernoulli_problem([(0.4, 0.8), (0.6, 0.6), (0.3, 0.1)], None)
TWO = bernoulli_problem(
    [(0.4, 0.8, 0.6, 0.1), (0.6, 0.6, 0.3, 0.4), (0.5, 0.2, 0.1, 0.1)], (0.8, 0.5)
)


def rate_radius(mean, cost, pulls, gamma):
    """The radius of a quotient, written down again."""
    above, below = knapsack_radius(mean, pulls, gamma), knapsack_radius(cost, pulls, gamma)
    return (above + below * mean / cost) / cost


def each(policies):
    return pytest.mark.parametrize("policy", policies, ids=lambda p: p.label)


@each(ALL)
def test_compiled_and_plain_python_make_the_same_runs(policy, paper, mixed):
    for problem, budget in ((paper, 40.0), (TWO, 30.0), (FREE, 30.0), (mixed, 500.0)):
        compiled, plain = (
            simulate(
                problem, {"p": policy}, budgets=budget, runs=2, seed=4, backend=b, progress=False
            )
            for b in ("cpu", "python")
        )
        first, second = compiled["p"].runs, plain["p"].runs
        np.testing.assert_array_equal(first.pulls, second.pulls)
        exact = {"rtol": 0.0} if problem is not mixed else {"rtol": 1e-12}  # sums in another order
        np.testing.assert_allclose(first.reward, second.reward, **exact)
        np.testing.assert_allclose(first.penalty, second.penalty, **exact)


def test_whoever_minds_the_limit_breaks_it_less_than_the_floors(paper):
    rows = simulate(paper, (*ALL, UCBBwI()), budgets=2000, runs=40, progress=False).summary()
    violation = {row["policy"]: np.atleast_1d(row["violation"])[0] for row in rows}
    floor = min(violation[policy.label] for policy in (*FLOORS, UCBBwI()))
    assert all(violation[policy.label] < floor for policy in AWARE)


def test_the_lyapunov_policies_break_the_limit_less_than_lyon(paper):
    policies = (LyOn(), LyOnTS(), LyOnWilson())
    rows = simulate(paper, policies, budgets=1000, runs=100, progress=False).summary()
    lyon, sampled, wilson = (np.atleast_1d(row["violation"])[0] for row in rows)
    assert abs(sampled) < 0.01 < wilson < 0.05 < 0.15 < lyon


# Random numbers.


def test_the_normal_quantile_is_the_textbooks():
    for chance in (1e-9, 1e-4, 0.02, 0.0243, 0.3, 0.5, 0.8, 0.98, 1 - 1e-6):
        assert normal(chance) == pytest.approx(NormalDist().inv_cdf(chance), abs=1e-7)


@pytest.mark.parametrize(("successes", "failures"), [(0, 0), (3, 0), (0, 40), (17, 5), (900, 300)])
def test_draws_of_a_posterior_follow_the_beta_law(successes, failures):
    words = np.random.default_rng(5).integers(0, 2**32, 3000).tolist()
    draws = [beta(float(successes), float(failures), word, 7) for word in words]
    assert all(0.0 < draw < 1.0 for draw in draws)
    assert stats.kstest(draws, stats.beta(1 + successes, 1 + failures).cdf).pvalue > 0.01


def plain_gamma(shape, word, number):
    """Marsaglia and Tsang's method with the exact test alone."""
    size = shape - 1.0 / 3.0
    spread = 1.0 / math.sqrt(9.0 * size)
    for attempt in range(8):
        x = normal(uniform(word, number + 2 * attempt))
        cube = (1.0 + spread * x) * (1.0 + spread * x) * (1.0 + spread * x)
        chance = uniform(word, number + 2 * attempt + 1)
        if cube > 0 and math.log(chance) < 0.5 * x * x + size * (1.0 - cube + math.log(cube)):
            break
    return size * cube


@pytest.mark.parametrize("most", [0, 1, 5, 100, 10**4, 10**7])
def test_all_posteriors_drawn_together_are_those_drawn_one_by_one(most):
    random, arms = np.random.default_rng(most), 7
    state, gammas = new_record(State, arms, 1), np.zeros(arms * 3 * 4)
    state.known[:], state.weights[:] = -1.0, -1.0
    for word in random.integers(0, 2**32, 400).tolist():
        state.pulls[:] = random.integers(0, most + 1, arms)
        successes = np.floor(random.random(arms * 3) * (1 + np.repeat(state.pulls, 3)))
        draw_gammas(state, successes, gammas, word)
        for at in range(arms * 3):
            failures = max(state.pulls[at // 3] - successes[at], 0.0)
            yes = plain_gamma(1.0 + successes[at], word, 32 * at)
            no = plain_gamma(1.0 + failures, word, 32 * at + 16)
            drawn = mean_of(state, gammas, at // 3, at % 3)
            assert drawn == yes / (yes + no) == beta(successes[at], failures, word, at)


def test_an_outcome_between_0_and_1_is_a_success_with_that_chance():
    state, posteriors = new_record(State, 1, 1), new_record(Posteriors, 1, 1)
    for word in np.random.default_rng(6).integers(0, 2**32, 4000).tolist():
        posteriors.word[0] = word
        record(state, 0, [0.3, 1.0, 0.0])
        count_outcomes(state, posteriors, 0)
    cost, reward, penalty = posteriors.successes
    assert cost == pytest.approx(1200, abs=100)
    assert (reward, penalty) == (4000, 0)


def test_uniforms_are_never_0_or_1():
    assert all(
        0.0 < uniform(word, number) < 1.0 for word in (0, 2**32 - 1) for number in range(999)
    )


# Intervals.


@pytest.mark.parametrize("width", [0.3, 4.0])
@pytest.mark.parametrize(("mean", "pulls"), [(0.2, 10.0), (0.5, 3.0), (0.97, 200.0)])
def test_the_asymmetric_interval_solves_its_equation(mean, pulls, width):
    def gap(m):
        return pulls * (mean - m) ** 2 - width * m * (1 - m)

    assert wilson_low(mean, pulls, width) == pytest.approx(optimize.brentq(gap, 0.0, mean))
    assert wilson_high(mean, pulls, width) == pytest.approx(optimize.brentq(gap, mean, 1.0))


def test_the_interval_at_the_ends():
    assert wilson_low(0.0, 5.0, 2.0) == 0.0
    assert wilson_high(1.0, 5.0, 2.0) == 1.0
    assert wilson_high(0.0, 5.0, 2.0) == pytest.approx(2 / 7)
    assert 0.0 < wilson_low(1e-12, 5.0, 2.0) < 1e-12


def test_eta_is_1_for_coins_and_the_variances_quotient_else():
    values = np.random.default_rng(1).beta(2, 3, 100)
    assert spread(100.0, values.sum(), (values**2).sum()) == pytest.approx(
        values.var() / (values.mean() * (1 - values.mean()))
    )
    assert spread(100.0, 30.0, 30.0) == pytest.approx(1.0)
    assert spread(29.0, 10.0, 4.0) == spread(50.0, 50.0, 50.0) == spread(50.0, 0.0, 0.0) == 1.0


# Decisions, from what a run may have seen.


def seen(problem, rows, budget=1000.0):
    """A state as after pulls, mean cost, mean reward, mean penalties, all of zeros and ones."""
    table = np.array(rows)
    pulls, totals = table[:, 0], table[:, :1] * table[:, 1:]
    state = fresh(problem, budget)
    state.pulls[:], state.steps[0] = pulls, pulls.sum()
    state.totals[:] = state.squares[:] = totals.ravel()
    state.net_squares[:] = totals[:, 2:].ravel()
    state.remaining[0] -= totals[:, 0].sum()
    state.remaining[1:] -= totals[:, 2:].sum(axis=0)
    return state


def fresh(problem, budget):
    state = new_record(State, problem.arm_count, problem.penalty_count)
    start_state(state, budget, problem)
    return state


def begun(policy, problem, budget):
    """The scratch of a run that begins, and the constants."""
    constants = set_up(policy, problem, budget).constants
    scratch = new_record(policy.Scratch, problem.arm_count, problem.penalty_count)
    policy.begin(constants, fresh(problem, budget), scratch)
    return scratch, constants


def decide(policy, problem, rows, budget=1000.0, words=(1, 2), scratch=None):
    state, (made, constants) = seen(problem, rows, budget), begun(policy, problem, budget)
    if scratch is None:
        scratch = made
        for arm in np.flatnonzero(state.pulls):
            policy.learn(constants, state, scratch, arm)
    return policy.choose(constants, state, scratch, np.array(words))


SEEN = [(40.0, 0.4, 0.8, 0.6), (60.0, 0.6, 0.6, 0.3)]


@each((UCBLP(), PrimalDualBwK(), PessimisticOptimistic(), OmegaUCB(), LyOnWilson()))
def test_arms_without_a_pull_or_a_cost_come_first(policy, paper):
    assert decide(policy, paper, [(5.0, 0.4, 0.8, 0.6), (0.0, 0.0, 0.0, 0.0)]) == 1
    assert decide(policy, paper, [(0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)]) == 0
    assert decide(policy, paper, [(5.0, 0.4, 0.8, 0.6), (3.0, 0.0, 0.2, 0.1)]) == 1


@pytest.mark.parametrize("rho", [0.1, 0.25, 2.0])
def test_omega_ucb_takes_the_largest_quotient_of_bounds(paper, rho):
    rows = [(40.0, 0.4, 0.5, 0.6), (9.0, 0.6, 0.7, 0.3)]

    def bound(pulls, cost, reward, _):
        width = 2 * rho * math.log(50)
        return wilson_high(reward, pulls, width) / wilson_low(cost, pulls, width)

    expected = int(np.argmax([bound(*row) for row in rows]))
    assert decide(OmegaUCB(rho=rho), paper, rows) == expected


def test_ucb_lp_mixes_the_optimistic_arms(paper):
    policy, rows = UCBLP(gamma0=0.05), [(400.0, 0.4, 0.8, 0.6), (600.0, 0.6, 0.6, 0.3)]
    gamma = 0.05 * math.log(2 * 2 * 1000)
    upper = [r / x + rate_radius(r, x, n, gamma) for n, x, r, _ in rows]
    lower = [y / x - rate_radius(y, x, n, gamma) for n, x, _, y in rows]
    assert lower[1] < 0.8 < lower[0]
    assert upper[0] > upper[1]
    share = (0.8 - lower[1]) / (lower[0] - lower[1])  # of cost, for the first arm
    pulls = share / 0.4 / (share / 0.4 + (1 - share) / 0.6)
    words = np.random.default_rng(3).integers(0, 2**32, 2000)
    chosen = [decide(policy, paper, rows, words=(word, 0)) for word in words.tolist()]
    assert 1 - np.mean(chosen) == pytest.approx(pulls, abs=0.04)


def test_ucb_lp_takes_the_best_arm_while_no_bound_speaks_against_it(paper):
    assert decide(UCBLP(gamma0=1.0), paper, SEEN) == 0
    assert decide(UCBLP(gamma0=0.0), paper, [(40.0, 0.4, 0.2, 0.1), (60.0, 0.6, 0.6, 0.3)]) == 1


def test_radii_are_the_sources():
    assert knapsack_radius(0.5, 8.0, 4.0) == pytest.approx(1.0)
    assert rate_radius(0.5, 0.5, 8.0, 4.0) == pytest.approx((1.0 + 1.0 * 1.0) / 0.5)


def test_ts_lp_follows_the_mixture_of_what_it_is_sure_of(paper):
    share = oracle(paper).pull_share[0]
    rows = [(4e6, 0.4, 0.8, 0.6), (6e6, 0.6, 0.6, 0.3)]
    sure = _sure(TSLP(), paper, rows)
    words = np.random.default_rng(3).integers(0, 2**32, (2000, 2)).tolist()
    chosen = [decide(TSLP(), paper, rows, 1e9, pair, sure) for pair in words]
    assert 1 - np.mean(chosen) == pytest.approx(share, abs=0.04)


def test_ts_lp_with_update_minds_what_is_left(paper):
    rows = [(4e6, 0.4, 0.8, 0.6), (6e6, 0.6, 0.6, 0.3)]
    budget = (2.4e6 + 1.8e6) / 0.8 + 1.0  # all but nothing is left of the allowance
    for update, expected in ((True, {1}), (False, {0, 1})):
        policy = TSLP(update=update)
        sure = _sure(policy, paper, rows)
        chosen = {decide(policy, paper, rows, budget, (w, w << 26), sure) for w in range(1, 60)}
        assert chosen == expected


def _sure(policy, problem, rows):
    """The scratch of a run with these outcomes, posteriors counted."""
    scratch, _ = begun(policy, problem, 1.0)
    totals = seen(problem, rows).totals
    scratch.posteriors.counted[:] = scratch.posteriors.successes[:] = totals
    return scratch


def test_primal_dual_weighs_resources_by_their_use(paper):
    policy, rows = PrimalDualBwK(), [(40.0, 0.4, 0.8, 0.6), (60.0, 0.6, 0.7, 0.3)]
    scratch, constants = begun(policy, paper, 1000.0)
    gamma = 0.25 * math.log(2 * 2 * 1000)
    assert constants[0] == pytest.approx(math.log(1 + math.sqrt(math.log(2) / 800)))
    scale = np.array([0.8, 1.0])  # of cost and penalty, to the smaller budget of 800
    np.testing.assert_allclose(scratch.scale, scale)
    for used in ([0.0, 0.0], [0.0, 300.0], [300.0, 0.0]):
        scratch.used[:] = used
        weights = np.exp(constants[0] * np.array(used))
        bang = []
        for pulls, cost, reward, penalty in rows:
            lower = [m - knapsack_radius(m, pulls, gamma) for m in (cost, penalty)]
            upper = min(1.0, reward + knapsack_radius(reward, pulls, gamma))
            bang.append(upper / (weights * scale * np.maximum(lower, 0)).sum())
        best = int(np.argmax(bang))
        assert decide(policy, paper, rows, scratch=scratch) == best
        pulls, cost, _, penalty = rows[best]
        lower = [max(m - knapsack_radius(m, pulls, gamma), 0) for m in (cost, penalty)]
        np.testing.assert_allclose(scratch.used, used + scale * lower)


def test_primal_dual_stops_hard_when_an_allowance_is_used_up(paper):
    rows = [(400.0, 0.4, 0.8, 0.6), (400.0, 0.6, 0.1, 0.3)]
    assert decide(PrimalDualBwK(), paper, rows, budget=440.0) == 1
    assert decide(PrimalDualBwK(hard_stop=False), paper, rows, budget=440.0) == 0
    assert decide(PrimalDualBwK(), paper, rows, budget=4000.0) == 0


def test_pessimistic_optimistic_weighs_rates_by_its_queue(paper):
    policy, rows = PessimisticOptimistic(), SEEN
    assert slack_of(paper.task) == pytest.approx(0.8 - 0.5)
    spent = 40 * 0.4 + 60 * 0.6
    weight = 0.3 * math.sqrt(2 * spent / 3)
    rad = [math.sqrt(0.5 * math.log(100) / n) for n, *_ in rows]
    for queue in (0.0, 1.0, 2.0, 5.0, 50.0):
        value = []
        for (_, x, r, y), width in zip(rows, rad, strict=True):
            upper = r / x + width * (1 + r / x) / x
            lower = max(y / x - width * (1 + y / x) / x, 0)
            value.append(upper - queue / weight * lower)
        scratch, _ = begun(policy, paper, 1000.0)
        scratch.length[0] = queue
        assert decide(policy, paper, rows, scratch=scratch) == int(np.argmax(value))


def test_pessimistic_optimistic_advances_its_queue(paper):
    policy, budget = PessimisticOptimistic(), 1000.0
    scratch, constants = begun(policy, paper, budget)
    state = fresh(paper, budget)
    state.remaining[:] = budget - 25.0, 790.0
    policy.learn(constants, state, scratch, 0)
    assert scratch.length[0] == pytest.approx(max(0, 10 - (0.8 - math.sqrt(6 / 25)) * 25))


def test_slaters_constant_of_two_limits():
    assert slack_of(TWO.task) == pytest.approx(0.5 * (1 - 0.4))  # the third arm's 0.2 / 0.5
    assert slack_of(FREE.task) == 1.0


def test_a_placeholder_is_v_times_the_multiplier(paper):
    rows, budget, v, delta = [(4e6, 0.4, 0.8, 0.6), (6e6, 0.6, 0.6, 0.3)], 1e8, 50.0, 0.01
    state, memory = seen(paper, rows, budget), new_record(LyOnTS.Scratch, 2, 1)
    LyOnTS.begin((v, delta, -1.0), fresh(paper, budget), memory)
    queues = memory.queues
    excess = 2.4e6 + 1.8e6 - (0.8 - delta) * (1.6e6 + 3.6e6)
    renew_queues((v, delta, -1.0), state, queues)
    assert queues.multiplier[0] == pytest.approx(oracle(paper).multiplier[0], rel=1e-5)
    assert queues.length[0] == pytest.approx(50.0 + excess)
    renew_queues((v, delta, 7.0), state, queues)
    assert queues.length[0] == pytest.approx(7.0 + excess)


def test_lyon_wilson_takes_the_smallest_index(paper):
    for q0 in (0.0, 10.0, 40.0, 90.0, 200.0):
        policy = LyOnWilson(q0=q0)
        v, delta = math.sqrt(1000 * math.log(1000)), 0.5 * math.sqrt(math.log(1000) / 1000)
        queue = max(0, q0 + 40 * 0.6 + 60 * 0.3 - (0.8 - delta) * (40 * 0.4 + 60 * 0.6))
        width, index = 2 * math.log(100), []
        for n, x, r, y in SEEN:
            index.append(
                -v * wilson_high(r, n, width) / wilson_low(x, n, width)
                + queue * wilson_low(y, n, width) / wilson_high(x, n, width)
            )
        assert decide(policy, paper, SEEN) == int(np.argmin(index))


# Parameters.


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("ts-lp:update=true", TSLP(update=True)),
        ("ts-lp:update=0", TSLP()),
        ("primal-dual-bwk:hard_stop=false,gamma0=1", PrimalDualBwK(False, 1.0)),
        ("lyon-ts:q0=3", LyOnTS(q0=3.0)),
        ("omega-ucb:rho=1,eta=one", OmegaUCB(1.0, "one")),
        ("pessimistic-optimistic:slack=none", PessimisticOptimistic()),
    ],
)
def test_the_shells_words(text, policy):
    assert parse_policy(text) == policy
    assert parse_policy(policy.label) == policy


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ts-lp:update=maybe", ["update", "maybe", "true or false"]),
        ("primal-dual-bwk:hard_stop=2", ["hard_stop", "2.0", "true or false"]),
        ("primal-dual-bwk:gamma0=-1", ["gamma0", "-1"]),
        ("ucb-lp:epsilon=1", ["epsilon", "1.0", "[0, 1)", "published"]),
        ("ucb-lp:epsilon=tiny", ["epsilon", "tiny", "[0, 1)", "published"]),
        ("ucb-lp:gamma0=inf", ["gamma0", "inf"]),
        ("omega-ucb:rho=0", ["rho", "above 0"]),
        ("omega-ucb:eta=two", ["eta", "two", "estimated or one"]),
        ("pessimistic-optimistic:slack=0", ["slack", "above 0"]),
        ("pessimistic-optimistic:alpha=x", ["alpha", "'x'"]),
        ("lyon-ts:v0=0", ["v0", "above 0"]),
        ("lyon-ts:q0=-1", ["q0", "-1"]),
        ("lyon-wilson:alpha=-1", ["alpha", "-1"]),
        ("budgeted-ts:x=1", ["'x'", "takes no parameters"]),
    ],
)
def test_bad_parameters_are_named_in_one_line(text, words):
    with pytest.raises(PolicyError) as caught:
        parse_policy(text)
    assert "\n" not in str(caught.value)
    assert all(word in str(caught.value) for word in words), str(caught.value)
