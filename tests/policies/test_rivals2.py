"""More policies of other authors as the arena enters them: formulas, properties, what is told."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from tests.conftest import bernoulli_problem
from tests.policies.driver import Run, new_record
from tests.policies.test_rivals import HOPELESS, PAPER, TWO_LIMITS, chances, having_seen
from tightrope import Change, Stationary, oracle, simulate
from tightrope.arena.contest import default_policies
from tightrope.errors import PolicyError
from tightrope.policies import (
    SWUCBLP,
    UCBLP,
    ControlBudget,
    IdentifyResolve,
    LagrangeBwK,
    parse_policy,
)
from tightrope.policies.base import set_up
from tightrope.policies.parts.sampling import uniform
from tightrope.policies.rivals.identification import ArmEvidence, identify
from tightrope.policies.rivals.sw_ucb_lp import window_length

WITH_A_THIRD = bernoulli_problem([(0.4, 0.8, 0.6), (0.6, 0.6, 0.3), (0.5, 0.2, 0.1)], 0.8)

# identify-resolve: its programs, against another solver


def linear_program(reward, penalty, limits):
    """The best worth of a mixture, and the mixture; -infinity and None if none keeps the limits."""
    found = optimize.linprog(
        -np.asarray(reward),
        A_ub=np.asarray(penalty).T if len(limits) else None,
        b_ub=limits if len(limits) else None,
        A_eq=np.ones((1, len(reward))),
        b_eq=[1.0],
    )
    return (-found.fun, found.x) if found.status == 0 else (-math.inf, None)


def evidence_of(low, high, limits):
    """Intervals [K, 1 + M] of rates, reward first."""
    evidence = new_record(ArmEvidence, len(low), len(limits))
    evidence.limits[:] = limits
    evidence.low_reward[:], evidence.high_reward[:] = low[:, 0], high[:, 0]
    evidence.low_penalty[:], evidence.high_penalty[:] = low[:, 1:].ravel(), high[:, 1:].ravel()
    return evidence


def found_by_brute_force(low, high, limits):
    """Every arm and every limit left out in turn, as the paper has it."""
    floor, _ = linear_program(low[:, 0], high[:, 1:], limits)
    arms, loose = np.zeros(len(low)), np.zeros(len(limits))
    for arm in range(len(low)):
        rest = np.arange(len(low)) != arm
        arms[arm] = floor > linear_program(high[rest, 0], low[rest, 1:], limits)[0] + 1e-7
    for m, limit in enumerate(limits):
        charged = high[:, 0] + high[:, 1 + m] - limit
        loose[m] = floor > linear_program(charged, low[:, 1:], limits)[0] + 1e-7
    return arms, loose


def random_rates(seed, arms, limited):
    random = np.random.default_rng(seed)
    rates = random.uniform(0.05, 2.0, (arms, 1 + limited))
    rates[:, 0] += 0.5 * rates[:, 1:].sum(axis=1)  # so that some limits bind
    return random, rates, random.uniform(0.3, 1.5, limited)


SEEDS, ARMS, LIMITED = st.integers(0, 10**6), st.integers(2, 7), st.integers(0, 3)


@given(SEEDS, ARMS, LIMITED, st.sampled_from([0.0, 0.02, 0.1, 0.4]))
def test_it_finds_what_leaving_each_out_by_another_solver_finds(seed, arms, limited, width):
    random, rates, limits = random_rates(seed, arms, limited)
    low = np.maximum(rates - random.uniform(0, width, rates.shape), 0.0)
    high = rates + random.uniform(0, width, rates.shape)
    evidence = evidence_of(low, high, limits)
    done = identify(evidence)
    best, loose = found_by_brute_force(low, high, limits)
    assert evidence.optimal.tolist() == best.tolist()
    assert evidence.loose.tolist() == loose.tolist()
    assert done == (best.sum() + loose.sum() > limited)


@given(SEEDS, ARMS, LIMITED)
def test_exact_rates_identify_the_best_mixture(seed, arms, limited):
    """An arm has a share exactly if it is found; a limit is found exactly if it does not bind."""
    _, rates, limits = random_rates(seed, arms, limited)
    _, best = linear_program(rates[:, 0], rates[:, 1:], limits)
    evidence = evidence_of(rates, rates, limits)
    done = identify(evidence)
    assert done == (best is not None)
    if best is not None:
        assert (evidence.optimal > 0).tolist() == (best > 1e-7).tolist()
        assert (evidence.loose > 0).tolist() == (best @ rates[:, 1:] < limits - 1e-7).tolist()


@given(SEEDS, ARMS, LIMITED, st.floats(0.0, 0.5))
def test_while_the_intervals_hold_the_truth_nothing_false_is_found(seed, arms, limited, width):
    random, rates, limits = random_rates(seed, arms, limited)
    _, best = linear_program(rates[:, 0], rates[:, 1:], limits)
    low = rates - random.uniform(0, width, rates.shape)
    high = rates + random.uniform(0, width, rates.shape)
    evidence = evidence_of(np.maximum(low, 0.0), high, limits)
    identify(evidence)
    if best is None:
        assert evidence.optimal.sum() == evidence.loose.sum() == 0
    else:
        assert (best[evidence.optimal > 0] > 1e-9).all()
        assert ((best @ rates[:, 1:] < limits - 1e-9) >= (evidence.loose > 0)).all()


# identify-resolve: its two phases


def test_the_bounds_are_the_published_radius():
    run = having_seen(IdentifyResolve(), PAPER, 400.0, budget=1000.0)
    width = math.sqrt(2 * math.log(1000) / 400)
    evidence = run.scratch.evidence
    assert evidence.low_reward.tolist() == pytest.approx(
        [(0.8 - width) / (0.4 + width), (0.6 - width) / (0.6 + width)]
    )
    assert evidence.high_reward.tolist() == pytest.approx(
        [min(0.8 + width, 1) / (0.4 - width), (0.6 + width) / (0.6 - width)]
    )
    assert evidence.low_penalty.tolist() == pytest.approx(
        [(0.6 - width) / (0.4 + width), (0.3 - width) / (0.6 + width)]
    )
    assert evidence.high_penalty.tolist() == pytest.approx(
        [(0.6 + width) / (0.4 - width), (0.3 + width) / (0.6 - width)]
    )


def test_arms_are_pulled_in_turn_until_they_are_identified():
    run = Run(IdentifyResolve(), TWO_LIMITS, 100.0)
    for step in range(30):
        assert run.choose() == step % 3
        run.tell(step % 3, 1.0, 0.0, 1.0, 1.0)


@pytest.mark.parametrize("problem", [PAPER, TWO_LIMITS], ids=["one limit", "two limits"])
def test_who_has_identified_the_arms_mixes_as_pi_star(problem):
    run = having_seen(IdentifyResolve(), problem, 1e8, budget=1e12)
    assert chances(run) == pytest.approx(oracle(problem).pull_share, abs=0.01)
    assert (run.scratch.evidence.optimal > 0).tolist() == (oracle(problem).pull_share > 0).tolist()


def test_the_second_phase_follows_what_is_left():
    """And pulls nobody who was not identified, even where that arm alone keeps the limit."""
    run = having_seen(IdentifyResolve(), WITH_A_THIRD, 1e10, budget=1e12)
    means = WITH_A_THIRD.moments
    for left in (0.9, 0.7, 0.5):
        run.state.remaining[1] = left * run.state.remaining[0]
        cost = chances(run) * means.cost
        assert run.scratch.evidence.optimal.tolist() == [1, 1, 0]
        assert cost @ means.penalty_rate[:, 0] / cost.sum() == pytest.approx(left, abs=1e-3)
    run.state.remaining[1] = 0.3 * run.state.remaining[0]
    assert chances(run).tolist() == [0, 1, 0]


def test_where_no_mixture_keeps_the_limit_the_first_phase_never_ends():
    run = having_seen(IdentifyResolve(), HOPELESS, 1e8, budget=1e12)
    run.choose()
    assert run.scratch.identified[0] == 0


def test_tighter_bounds_identify_sooner():
    """At a budget where the published ones spend it all on identification."""
    policies = {"published": IdentifyResolve(), "tight": IdentifyResolve(alpha=0.1)}
    results = simulate(PAPER, policies, budgets=3000, runs=40, progress=False)
    published, tight = (results[name].runs for name in policies)
    assert (abs(published.pulls[..., 0] - published.pulls[..., 1]) <= 1).all()
    assert (tight.pulls[..., 0] < 0.45 * tight.pulls.sum(axis=-1)).all()
    assert (tight.penalty[..., 0] / tight.cost).mean() == pytest.approx(0.8, abs=0.02)


# control-budget


def drift(problem, chance):
    """What a mixture of pulls saves of each limit per unit of cost."""
    means = problem.moments
    return means.limits - (chance @ means.penalty) / (chance @ means.cost)


def save(run, amounts):
    """Let so much have been saved of each limit."""
    run.state.remaining[1:] = amounts + run.scratch.evidence.limits * run.state.remaining[0]


@pytest.mark.parametrize("problem", [PAPER, TWO_LIMITS, WITH_A_THIRD], ids=["1", "2", "third"])
@pytest.mark.parametrize("known", [True, False], ids=["told", "learnt"])
def test_what_is_saved_drifts_up_where_it_is_low_and_down_where_it_is_high(problem, known):
    if known:
        run = Run(ControlBudget(known=True), problem, 1e4)
    else:
        run = having_seen(ControlBudget(), problem, 1e10, budget=1e14)
        run.choose()
    gamma, budget = run.scratch.gamma[0], run.state.remaining[0]
    threshold = math.log(budget) / gamma
    for signs in itertools.product([1, -1], repeat=problem.penalty_count):
        save(run, threshold - np.array(signs))  # just below or above
        chance = chances(run, 40_000)
        assert drift(problem, chance) == pytest.approx(gamma * np.array(signs), abs=2e-3)
        assert set(np.flatnonzero(chance)) <= set(np.flatnonzero(oracle(problem).pull_share))


def test_gamma_is_the_largest_drift_that_leaves_a_mixture():
    """By another solver: beyond it some signs have none. With one limit it is one arm's own."""
    assert Run(ControlBudget(known=True), PAPER, 1e4).scratch.gamma[0] == pytest.approx(0.8 - 0.5)
    means, gamma = TWO_LIMITS.moments, Run(ControlBudget(known=True), TWO_LIMITS, 1e4).scratch.gamma
    matrix = np.vstack([means.limits[:, None] - means.penalty_rate.T, np.ones(3)])
    least = [
        min(
            np.linalg.solve(matrix, [*(scale * gamma[0] * np.array(signs)), 1.0]).min()
            for signs in itertools.product([1, -1], repeat=2)
        )
        for scale in (0.99, 1.0, 1.01)
    ]
    assert least[0] > 1e-6
    assert least[1] == pytest.approx(0.0, abs=1e-9)
    assert least[2] < -1e-6


def test_the_threshold_shrinks_with_the_budget_left():
    run = Run(ControlBudget(known=True), PAPER, 1e6)
    for budget in (1e6, 1e3, 10.0):
        run.state.remaining[0] = budget
        for c0 in (1.0, 0.25):
            run.constants = (run.constants[0], c0, *run.constants[2:])
            threshold = c0 * math.log(budget) / 0.3
            for beyond, arm in ((-0.1, 1), (0.1, 0)):
                save(run, np.array([threshold + beyond]))
                assert run.choose() == arm


def test_no_limit_binds_no_control():
    free = bernoulli_problem([(0.4, 0.8, 0.1), (0.6, 0.6, 0.3)], 0.8)
    for run in (
        Run(ControlBudget(known=True), free, 1e4),
        having_seen(ControlBudget(), free, 1e10, budget=1e14),
    ):
        for saved in (-100.0, 0.0, 1e6):
            save(run, np.array([saved]))
            assert chances(run, 50).tolist() == [1, 0]


def test_it_measures_only_what_it_identified_and_stops_when_drifts_are_known():
    """Known up to gamma / 2 = 0.15, by sqrt(2 log B / pulls) (1 + rate) / mean cost."""
    enough = 2 * math.log(1e8) * ((1 + 1.5) / 0.4 / 0.15) ** 2
    for share, stage in ((0.99, 1), (1.01, 2)):
        run = having_seen(ControlBudget(), WITH_A_THIRD, round(share * enough), budget=1e8)
        run.scratch.stage[0], run.scratch.evidence.optimal[:2] = 1, 1
        arm = run.choose()
        assert run.scratch.stage[0] == stage
        if stage == 1:
            assert arm == 0
            run.tell(0, 0.4, 0.8, 0.6)
            assert run.choose() == 1
            run.tell(1, 0.6, 0.6, 0.3)
            assert run.choose() == 0  # the third is left alone


def test_with_known_means_the_limit_is_used_and_kept():
    """And the penalty varies far less than by fixed odds."""
    policies = {"control": ControlBudget(known=True), "pi*": Stationary()}
    results = simulate(PAPER, policies, budgets=4000, runs=60, progress=False)
    control, odds = (results[name].runs for name in policies)
    used, by_chance = (runs.penalty[..., 0] / runs.cost for runs in (control, odds))
    assert used.std() < 0.2 * by_chance.std()
    assert used.mean() == pytest.approx(0.8, abs=0.005)
    assert (used < 0.8 + 2e-3).all()


def test_what_control_budget_is_told():
    assert (ControlBudget().knows, ControlBudget(known=True).knows) == ("", "laws")
    with pytest.raises(PolicyError, match="needs a Problem"):
        set_up(ControlBudget(known=True), PAPER.task, 100.0)
    set_up(ControlBudget(), PAPER.task, 100.0)


# lagrange-bwk


class TheGame:
    """EXP3.P against Hedge in numpy, as the papers print them: weights, not their logarithms."""

    def __init__(self, arms, limits, budget, mu_min):
        self.rounds, self.arms = budget / mu_min, arms + 1
        self.budgets = np.array([self.rounds, budget, *(budget * np.array(limits))])
        self.alpha = 2 * math.sqrt(math.log(self.arms * self.rounds / (1 / self.rounds)))
        spread = 0.6 * self.arms * math.log(self.arms) / self.rounds
        self.gamma = min(0.6, 2 * math.sqrt(spread))
        start = self.alpha * self.gamma / 3 * math.sqrt(self.rounds / self.arms)
        self.weights = np.full(self.arms, math.exp(start))
        self.hedge = np.ones(len(self.budgets))
        self.eta = math.sqrt(8 * math.log(len(self.budgets)) / self.rounds)

    @property
    def chances(self):
        return (1 - self.gamma) * self.weights / self.weights.sum() + self.gamma / self.arms

    def draw(self, arm_coin, resource_coin):
        by_arm, by_resource = (np.cumsum(one / one.sum()) for one in (self.chances, self.hedge))
        arm = min(np.searchsorted(by_arm, arm_coin, "right"), self.arms - 1)
        return arm, min(np.searchsorted(by_resource, resource_coin, "right"), len(by_resource) - 1)

    def play(self, arm, resource, reward, uses):
        """A round, in which ``uses`` was used of each resource."""
        payoff = reward + 1 - self.rounds / self.budgets * uses
        least = 1 - (self.rounds / self.budgets).max()
        scaled, chances = (payoff - least) / (2 - least), self.chances
        estimate = np.zeros(self.arms)
        estimate[arm] = scaled[resource] / chances[arm]
        bonus = self.alpha / (chances * math.sqrt(self.arms * self.rounds))
        self.weights *= np.exp(self.gamma / (3 * self.arms) * (estimate + bonus))
        self.hedge *= np.exp(-self.eta * scaled)


@pytest.mark.parametrize("problem", [PAPER, TWO_LIMITS], ids=["one limit", "two limits"])
def test_both_players_are_those_of_the_papers(problem):
    budget, mu_min, random = 300.0, 0.25, np.random.default_rng(5)
    run = Run(LagrangeBwK(mu_min=mu_min), problem, budget)
    game = TheGame(problem.arm_count, problem.moments.limits, budget, mu_min)
    null = np.zeros(len(game.budgets))
    null[0] = 1.0
    for _ in range(200):
        words = random.integers(0, 2**32, 2).tolist()
        chosen = run.choose(words)
        for turn in itertools.count():
            arm, resource = game.draw(uniform(words[0], turn), uniform(words[1], turn))
            if arm < problem.arm_count:
                break
            game.play(arm, resource, 0.0, null)
        assert chosen == arm
        cost, reward, *penalties = random.uniform(0, 1, 2 + problem.penalty_count)
        run.tell(arm, cost, reward, *penalties)
        game.play(arm, resource, reward, np.array([1.0, cost, *penalties]))
        ours = [*run.scratch.chance, run.scratch.idle[1]]
        assert ours == pytest.approx(game.chances, rel=1e-9)
        assert sum(ours) == pytest.approx(1.0)


def test_the_resources_player_watches_what_is_overused():
    """And the arms' player comes to avoid it: the second arm uses the allowance five times over."""
    run = Run(
        LagrangeBwK(mu_min=0.5), bernoulli_problem([(0.5, 0.5, 0.1), (0.5, 0.6, 1.0)], 0.2), 4e4
    )
    for word in np.random.default_rng(1).integers(0, 2**32, (4000, 2)).tolist():
        arm = run.choose(word)
        run.tell(arm, 0.5, [0.5, 0.6][arm], [0.1, 1.0][arm])
    assert run.scratch.loss.argmin() == 2
    assert run.scratch.chance[1] < 0.6 * run.scratch.chance[0]


def test_however_likely_the_null_arm_is_some_arm_is_pulled():
    run = Run(LagrangeBwK(), PAPER, 1e6)
    run.scratch.idle[0], run.scratch.weight[1] = 1e6, 1.0
    run.tell(0, 0.0, 0.0, 0.0)
    assert run.scratch.idle[1] > 0.99
    assert {run.choose((word, word + 1)) for word in range(50)} <= {0, 1}


def test_the_rounds_follow_from_the_smallest_cost():
    assert Run(LagrangeBwK(), PAPER, 100.0).constants[3] == pytest.approx(1 / 0.4)  # is told
    assert Run(LagrangeBwK(mu_min=0.2), PAPER, 100.0).constants[3] == pytest.approx(5.0)
    assert (LagrangeBwK().knows, LagrangeBwK(mu_min=0.2).knows) == ("smallest cost", "")


# sw-ucb-lp


def test_the_bounds_are_those_of_the_window():
    """Of the last pulls alone: what came before, whatever it was, leaves no trace."""
    policy, budget, random = SWUCBLP(alpha=0.3), 1000.0, np.random.default_rng(3)
    run = Run(policy, TWO_LIMITS, budget)
    window = round((3 * budget**2) ** (1 / 3))
    assert run.setup.window == window == 144
    pulled = [int(arm) for arm in random.integers(0, 3, 5 * window)]
    outcomes = random.uniform(0.1, 1.0, (len(pulled), 4))
    for arm, values in zip(pulled, outcomes, strict=True):
        run.tell(arm, *values)
    recent, last = np.array(pulled[-window:]), outcomes[-window:]
    for arm in range(3):
        count, means = (recent == arm).sum(), last[recent == arm].mean(axis=0)
        cost, reward, *penalties = means
        earned = math.sqrt(0.3 * math.log(12 * 3 * budget**3) / (count + 1))
        used = math.sqrt(0.3 * math.log(12 * 3 * 3 * budget**3) / (count + 1))
        high = reward / cost + (earned + used * reward / cost) / cost
        assert run.scratch.reward[arm] == pytest.approx(high)
        low = [max(y / cost - used * (1 + y / cost) / cost, 0.0) for y in penalties]
        assert run.scratch.penalty[2 * arm : 2 * arm + 2].tolist() == pytest.approx(low)
        assert run.scratch.cost[arm] == pytest.approx(cost)


def test_with_exact_bounds_the_window_mixes_as_pi_star():
    run = having_seen(SWUCBLP(alpha=0.0), TWO_LIMITS, 1e4, budget=1e5)
    assert chances(run) == pytest.approx(oracle(TWO_LIMITS).pull_share, abs=1e-3)


def test_an_arm_that_left_the_window_is_pulled_again():
    run = Run(SWUCBLP(variation=500.0, alpha=0.0), PAPER, 1000.0)
    assert run.setup.window == 2
    for arm, expected in ((0, 1), (1, 1), (1, 0)):
        run.tell(arm, 0.5, 0.9 * arm, 0.1)
        assert run.choose() == expected


@given(st.integers(1, 1000), st.floats(1.0, 1e9), st.floats(1e-9, 1e9))
def test_the_window_is_of_the_published_order(arms, budget, variation):
    length = window_length(arms, budget, variation)
    order = arms ** (1 / 3) * (budget / variation) ** (2 / 3)
    assert 2 <= length <= max(budget + 0.5, 2)
    assert length == pytest.approx(min(order, budget), abs=0.51) or length in (2, 10**7)


def test_once_an_allowance_is_used_up_it_pulls_what_adds_least_to_it():
    run = having_seen(SWUCBLP(alpha=0.0), TWO_LIMITS, 1e4, budget=1e5)
    limits = TWO_LIMITS.moments.limits
    relative = TWO_LIMITS.moments.penalty_rate / limits
    for used_up in ([0], [1], [0, 1]):
        run.state.remaining[1:] = 1.0
        run.state.remaining[1 + np.array(used_up)] = 0.0
        assert chances(run, 20)[relative[:, used_up].sum(axis=1).argmin()] == 1


SWAPPED = ((0.9, 0.5), (0.3, 0.5))  # the arms' mean rewards, before and after


def test_after_a_change_it_finds_the_new_best_arm():
    """Which one that never forgets does not."""
    policies = {"window": SWUCBLP(alpha=0.05), "all": UCBLP(gamma0=0.05)}
    first, last = (bernoulli_problem([(0.5, a, 0.2), (0.5, b, 0.2)], 0.8) for a, b in SWAPPED)
    problem = dataclasses.replace(first, changes=[Change(0.5, last.arms)])
    results = simulate(problem, policies, budgets=4000, runs=40, progress=False)
    window, everything = (results[name].runs for name in policies)
    assert (window.reward / window.cost).mean() > (everything.reward / everything.cost).mean() + 0.1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("identify-resolve:alpha=-1", ["alpha", "-1", "at least 0"]),
        ("control-budget:known=perhaps", ["known", "perhaps", "true or false"]),
        ("control-budget:c0=-1", ["c0", "-1", "at least 0"]),
        ("lagrange-bwk:mu_min=0", ["mu_min", "0", "above 0"]),
        ("sw-ucb-lp:variation=0", ["variation", "0", "above 0"]),
        ("sw-ucb-lp:alpha=-1", ["alpha", "-1", "at least 0"]),
    ],
)
def test_bad_parameters_are_named_in_one_line(text, words):
    with pytest.raises(PolicyError) as caught:
        set_up(parse_policy(text), PAPER, 100.0)
    assert "\n" not in str(caught.value)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_who_enters_where():
    entered = default_policies()
    assert [parse_policy(text).label for text in entered] == entered
    kinds = (IdentifyResolve, ControlBudget, LagrangeBwK, SWUCBLP)
    assert {text for kind in kinds for text in kind.contestants + kind.forgetful} <= set(entered)
    assert LagrangeBwK.contestants == SWUCBLP.contestants == ()  # only where arms change
    assert IdentifyResolve.forgetful == ControlBudget.forgetful == ()
    told = {text: parse_policy(text).knows for kind in kinds for text in kind.contestants}
    assert [text for text, knows in told.items() if knows] == ["control-budget:known=true"]
