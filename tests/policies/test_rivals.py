"""Policies of other authors as the arena enters them: formulas, properties, what they are told."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from tests.conftest import bernoulli_problem
from tests.policies.driver import Run
from tightrope import Problem, Scales, Task, oracle, simulate
from tightrope.arena.contest import default_policies
from tightrope.errors import PolicyError
from tightrope.policies import UCBLP, LinConKLUCB, LinConTS, OptPessLP, parse_policy
from tightrope.policies.base import set_up
from tightrope.policies.parts.intervals import kl_high, kl_low
from tightrope.policies.rivals.ucb_lp import shrinkage

PAPER = bernoulli_problem([(0.4, 0.8, 0.6), (0.6, 0.6, 0.3)], 0.8)
TWO_LIMITS = bernoulli_problem(
    [(0.4, 0.8, 0.6, 0.1), (0.6, 0.6, 0.3, 0.4), (0.5, 0.2, 0.1, 0.1)], (0.8, 0.5)
)
HOPELESS = bernoulli_problem([(0.5, 0.3, 0.9), (0.5, 0.9, 0.9), (0.5, 0.5, 0.8)], 0.5)


def having_seen(policy, problem, pulls, budget=1e9):
    """A run after so many pulls of every arm, each of which showed its means."""
    run, means = Run(policy, problem, budget), problem.moments
    table = np.column_stack([means.cost, means.reward, means.penalty])
    state = run.state
    state.pulls[:], state.steps[0] = pulls, pulls * len(table)
    state.totals[:] = state.squares[:] = (pulls * table).ravel()
    state.remaining[0] -= pulls * table[:, 0].sum()
    state.remaining[1:] -= pulls * table[:, 2:].sum(axis=0)
    if hasattr(run.scratch, "posteriors"):
        run.scratch.posteriors.counted[:] = run.scratch.posteriors.successes[:] = state.totals
    else:
        for arm in range(len(table)):
            policy.learn(run.constants, state, run.scratch, arm)
    return run


def shares(run, steps=3000):
    """How often it pulls each arm, given what it has seen."""
    words = np.random.default_rng(8).integers(0, 2**32, (steps, 2)).tolist()
    return np.bincount([run.choose(pair) for pair in words], minlength=len(run.state.pulls)) / steps


def test_they_enter_the_arena_with_the_settings_of_their_authors():
    entered = default_policies()
    assert len(set(entered)) == len(entered)
    assert [parse_policy(text).label for text in entered] == entered
    ours = "ts-lp ts-lp:update=true ucb-lp:epsilon=published lincon-ts lincon-kl-ucb"
    assert set(ours.split()) <= set(entered)
    assert all(parse_policy(text).knows == "" for text in ours.split())
    assert "optpess-lp" in entered
    assert parse_policy("optpess-lp").knows == "safe arm"


# ucb-lp


def test_the_published_shrinkage_is_the_deviation_of_what_is_consumed():
    gamma = 0.25 * math.log(3 * 3 * 1e5)
    run = Run(UCBLP(epsilon="published"), TWO_LIMITS, 1e5)
    share = 3 * gamma / (0.5 * 1e5)
    assert run.constants[1] == pytest.approx(math.sqrt(share) + share * math.log(1e5))
    kept = 1.0 - run.constants[1]
    assert run.scratch.limits.tolist() == pytest.approx([0.8 * kept, 0.5 * kept])


def test_the_published_shrinkage_fades_and_never_takes_more_than_half():
    sizes = [shrinkage(2.0, 10, budget, 0.8 * budget) for budget in (1, 100, 1e3, 1e4, 1e6, 1e9)]
    assert sizes[:2] == [0.5, 0.5]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 2e-4
    assert Run(UCBLP(), PAPER, 100.0).constants[1] == 0.0  # still there for those who want none


# lincon-ts and lincon-kl-ucb


@pytest.mark.parametrize("policy", [LinConTS(), LinConKLUCB()], ids=lambda one: one.name)
@pytest.mark.parametrize("problem", [PAPER, TWO_LIMITS], ids=["one limit", "two limits"])
def test_who_is_sure_of_the_means_mixes_as_pi_star(policy, problem):
    run = having_seen(policy, problem, 1e7)
    assert shares(run) == pytest.approx(oracle(problem).pull_share, abs=0.04)


@pytest.mark.parametrize("policy", [LinConTS(), LinConKLUCB()], ids=lambda one: one.name)
def test_where_no_mixture_keeps_the_limit_any_arm_is_pulled(policy):
    assert shares(having_seen(policy, HOPELESS, 1e7)) == pytest.approx([1 / 3] * 3, abs=0.04)


@pytest.mark.parametrize("policy", [LinConTS(), LinConKLUCB()], ids=lambda one: one.name)
def test_every_arm_is_pulled_once_first(policy):
    run = Run(policy, TWO_LIMITS, 100.0)
    for arm in range(3):
        assert run.choose() == arm
        run.tell(arm, 1.0, 0.0, 1.0, 1.0)


def test_an_arm_that_costs_nothing_has_no_kl_bound_yet():
    run = Run(LinConKLUCB(), PAPER, 100.0)
    run.tell(0, 0.0, 1.0, 0.0)
    run.tell(1, 1.0, 1.0, 0.0)
    assert run.choose() == 0


def test_kl_ucb_is_optimistic_about_every_mean():
    run = having_seen(LinConKLUCB(), PAPER, 50.0)
    run.choose()
    level = math.ceil(128 * math.log(101)) / 128 / 50
    for arm, (cost, reward, penalty) in enumerate([(0.4, 0.8, 0.6), (0.6, 0.6, 0.3)]):
        high, low = kl_root(reward, level, 1.0), kl_root(cost, level, 0.0)
        assert run.scratch.reward[arm] == pytest.approx(high / low)
        high, low = kl_root(cost, level, 1.0), kl_root(penalty, level, 0.0)
        assert run.scratch.penalty[arm] == pytest.approx(low / high)
    assert run.scratch.cost.tolist() == pytest.approx([0.4, 0.6])
    bolder = having_seen(LinConKLUCB(scale=3.0), PAPER, 50.0)
    bolder.choose()
    assert (bolder.scratch.reward > run.scratch.reward).all()


def test_kl_bounds_that_are_kept_are_those_computed_anew():
    run, draws = Run(LinConKLUCB(), TWO_LIMITS, 1e4), np.random.default_rng(5)
    for _ in range(300):
        arm = run.choose(draws.integers(0, 2**32, 2).tolist())
        kept = [np.copy(one) for one in (run.scratch.reward, run.scratch.penalty)]
        run.scratch.level[0] = -1.0
        run.choose()
        if run.scratch.level[0] >= 0.0:  # every arm was pulled, so there are bounds
            assert np.array_equal(kept[0], run.scratch.reward)
            assert np.array_equal(kept[1], run.scratch.penalty)
        run.tell(arm, *(draws.random(4) < 0.5).astype(float))
    assert run.scratch.level[0] > 0.0


def relative_entropy(p, q):
    parts = [(p, q), (1 - p, 1 - q)]
    return sum(a * math.log(a / b) for a, b in parts if a > 0)


def kl_root(p, width, end):
    """Where the relative entropy reaches ``width`` on the way from p to ``end``, by bisection."""
    near, far = p, abs(end - 1e-15)
    if relative_entropy(p, far) <= width:
        return far
    return optimize.bisect(lambda q: relative_entropy(p, q) - width, near, far, xtol=1e-15)


@given(st.floats(0.0, 1.0), st.floats(-6.0, 1.0).map(lambda power: 10.0**power))
def test_kl_bounds_are_the_roots(mean, width):
    high, low = kl_high(mean, width), kl_low(mean, width)
    assert 0.0 <= low <= mean <= high <= 1.0
    assert high == pytest.approx(kl_root(mean, width, 1.0), abs=1e-9)
    assert low == pytest.approx(kl_root(mean, width, 0.0), abs=2e-9)
    assert low > 0.0 or mean == 0.0


def test_kl_bounds_at_the_ends():
    assert kl_high(0.0, 0.7) == pytest.approx(1 - math.exp(-0.7))
    assert kl_low(1.0, 0.7) == pytest.approx(math.exp(-0.7))
    assert (kl_high(1.0, 0.7), kl_low(0.0, 0.7)) == (1.0, 0.0)
    assert (kl_high(0.3, 0.0), kl_low(0.3, 0.0)) == (0.3, 0.3)


# optpess-lp


@pytest.mark.parametrize("problem", [PAPER, TWO_LIMITS], ids=["one limit", "two limits"])
def test_with_exact_bounds_it_mixes_as_pi_star(problem):
    run = having_seen(OptPessLP(alpha=0.0), problem, 1e6)
    assert shares(run) == pytest.approx(oracle(problem).pull_share, abs=0.04)


def test_the_bounds_are_the_formulas():
    run = having_seen(OptPessLP(bonus=3.0, risk=0.05), PAPER, 400.0, budget=1000.0)
    width = math.sqrt(math.log(16 * 2 * 1000 / 0.05) / 400)
    assert run.constants[2] == 1  # told: the second arm, with the rate 0.3 / 0.6
    assert run.scratch.cost.tolist() == pytest.approx([0.4 - width, 0.6 - width])
    assert run.scratch.penalty.tolist() == pytest.approx([(0.6 + width) / (0.4 - width), 0.5])
    bonus = 3.0 * width * (1 + 0.8) / (0.8 - 0.5)
    expected = [(0.8 + width + bonus) / (0.4 - width), (0.6 + width) / (0.6 - width)]
    assert run.scratch.reward.tolist() == pytest.approx(expected)


def test_an_arm_never_pulled_is_bounded_by_what_outcomes_can_be():
    scratch = Run(OptPessLP(), PAPER, 1000.0).scratch
    assert scratch.cost.tolist() == [0.001, 0.001]
    assert scratch.penalty.tolist() == pytest.approx([1000.0, 0.5])


def chances(run, coins=20_000):
    """The chance of each arm, by the program that it solves; its words are a grid."""
    words = [(round((i + 0.5) / coins * 2**32), 0) for i in range(coins)]
    return np.bincount([run.choose(pair) for pair in words], minlength=len(run.state.pulls)) / coins


@pytest.mark.parametrize("seen", [100.0, 1000.0, 10_000.0])
def test_what_it_mixes_keeps_the_limits_by_upper_bounds(seen):
    for problem in (PAPER, TWO_LIMITS):
        run = having_seen(OptPessLP(), problem, seen)
        chance, means = chances(run), problem.moments
        width = math.sqrt(run.constants[0] / seen)
        cost = np.maximum(means.cost - width, 0.001)
        upper = np.minimum(means.penalty + width, 1.0)
        safe = int(run.constants[2])
        upper[safe] = means.penalty_rate[safe] * cost[safe]
        assert (chance @ upper <= means.limits * (chance @ cost) + 1e-3).all()
        assert chance[safe] > 0.3


def test_an_unknown_arm_gets_only_what_the_safe_arm_leaves():
    """Each of its pulls may cost a penalty of 1 at a cost of nothing."""
    for rate in (0.0, 0.5, 0.79):
        run = Run(OptPessLP(safe=2, safe_rate=rate), PAPER, 1000.0)
        run.state.pulls[1], run.state.steps[0] = 1e6, 1e6
        run.state.totals[3:] = 0.6e6, 0.6e6, 0.3e6
        OptPessLP.learn(run.constants, run.state, run.scratch, 1)
        room = run.scratch.cost[1] * (0.8 - rate)  # per pull of the safe arm
        assert chances(run)[0] == pytest.approx(room / (1 + room), abs=2e-3)


def test_it_keeps_the_limit_and_tries_the_other_arm():
    runs = simulate(PAPER, {"p": OptPessLP()}, budgets=2000, runs=40, progress=False)["p"].runs
    assert (runs.penalty[..., 0] < 0.8 * runs.cost).all()
    assert runs.pulls[..., 0].min() > 50


def test_the_safe_arm_has_the_most_room_relative_to_the_limits():
    assert set_up(OptPessLP(), TWO_LIMITS, 100.0).constants[2:] == pytest.approx((2, 0.2, 0.2))
    given = OptPessLP(safe="arm 3", safe_rate=(0.2, 0.2))
    assert set_up(given, TWO_LIMITS.task, 100.0) == set_up(OptPessLP(), TWO_LIMITS, 100.0)
    with pytest.raises(PolicyError, match="no arm keeps every limit by itself"):
        set_up(OptPessLP(), HOPELESS, 100.0)
    refusal = "knows the safe arm, so it needs a Problem, or a Task that declares it"
    with pytest.raises(PolicyError, match=refusal):
        set_up(OptPessLP(), PAPER.task, 100.0)


def test_a_declared_safe_arm_is_used_in_normalised_units():
    scales = Scales(cost=4.0, penalty=(2.0, 1.0))
    rates = {"penalty 1": 0.1, "penalty 2": 0.2}
    task = Task([*"abc"], limit=(0.4, 0.3), scales=scales, safe="c", safe_rates=rates)
    setup = set_up(OptPessLP(), task, 100.0)
    assert setup.constants[2:] == pytest.approx((2, 0.1 * 4.0 / 2.0, 0.2 * 4.0))
    assert setup.warning is None
    given = OptPessLP(safe=3, safe_rate=setup.constants[3:])
    assert set_up(given, task, 100.0) == setup
    assert set_up(OptPessLP(safe=1, safe_rate=0.1), task, 100.0).constants[2:] == (0, 0.1, 0.1)


def test_a_declared_safe_arm_is_used_in_place_of_the_laws():
    rates = {"penalty 1": 0.6, "penalty 2": 0.45}
    declared = Problem(TWO_LIMITS.arms, limit=(0.8, 0.5), safe="arm 1", safe_rates=rates)
    told = set_up(OptPessLP(), declared, 100.0)
    assert told.constants[2:] == (0, 0.6, 0.45)
    assert told == set_up(OptPessLP(), declared.task, 100.0) != set_up(OptPessLP(), TWO_LIMITS, 100)


def test_a_safe_arm_without_room_is_the_only_one_pulled_and_warned_of():
    task = replace(PAPER.task, safe="arm 2")
    warning = set_up(OptPessLP(), task, 100.0).warning
    assert "safe arm 'arm 2' is not below limit = 0.8" in warning
    assert "safe_rates" in warning
    assert "\n" not in warning
    run = Run(OptPessLP(), task, 1000.0)
    for _ in range(200):
        assert run.choose() == 1
        run.tell(1, 0.6, 0.6, 0.3)
    assert chances(run).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("optpess-lp:safe=1", ["safe_rate", "None", "given together with safe"]),
        ("optpess-lp:safe_rate=0.1", ["safe_rate", "0.1", "given together with safe"]),
        ("optpess-lp:safe=1.5,safe_rate=0.1", ["safe", "1.5", "number from 1"]),
        ("optpess-lp:safe=3,safe_rate=0.1", ["safe", "3", "from 1 to 2"]),
        ("optpess-lp:safe=bold,safe_rate=0.1", ["safe", "bold", "not an arm"]),
        ("optpess-lp:safe=1,safe_rate=0.8", ["safe_rate", "0.8", "below the limits"]),
        ("optpess-lp:safe=1,safe_rate=0.1/0.2", ["safe_rate", "one per limit"]),
        ("optpess-lp:safe=1,safe_rate=-1", ["safe_rate", "-1", "at least 0"]),
        ("optpess-lp:risk=1", ["risk", "1.0", "between 0 and 1"]),
        ("optpess-lp:bonus=-1", ["bonus", "-1"]),
        ("lincon-kl-ucb:scale=-1", ["scale", "-1", "at least 0"]),
    ],
)
def test_bad_parameters_are_named_in_one_line(text, words):
    with pytest.raises(PolicyError) as caught:
        set_up(parse_policy(text), PAPER, 100.0)
    assert "\n" not in str(caught.value)
    assert all(word in str(caught.value) for word in words), str(caught.value)
