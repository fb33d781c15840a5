"""The limit of learning against closed forms, brute force and the linear program itself."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import rel_entr, softmax

from tests.conftest import bernoulli_problem
from tightrope import (
    Arm,
    Bernoulli,
    Beta,
    Change,
    Constant,
    CostAbove,
    Discrete,
    Problem,
    Scales,
    TwoPoint,
    Uniform,
    oracle,
    ready_problem,
)
from tightrope.errors import InfeasibleError, InputError, ProblemError
from tightrope.theory import learning_limit

# The brute force of older versions of scipy says that it stays within the bounds that it was given.
pytestmark = pytest.mark.filterwarnings("ignore:Values in x were outside bounds:RuntimeWarning")


def kl(p, q):
    """Between Bernoulli laws."""
    return rel_entr(p, q) + rel_entr(1.0 - p, 1.0 - q)


def gain_of(found) -> np.ndarray:
    return np.array([-found.price, 1.0, *(-price for price in found.multiplier)])


def nearest_odds(odds, gain, least=1e-12) -> tuple[float, np.ndarray]:
    """The divergence to, and the means of, the nearest Bernoulli laws that enter; brute force.

    ``least``: of the cost.
    """
    best = (math.inf, odds)
    for start in np.random.default_rng(1).uniform(0.05, 0.95, (6, len(odds))):
        found = minimize(
            lambda q: kl(odds, q).sum(),
            start,
            bounds=[(least, 1.0 - 1e-12)] + [(1e-12, 1.0 - 1e-12)] * (len(odds) - 1),
            constraints={"type": "ineq", "fun": lambda q: gain @ q},
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 1000},
        )
        if gain @ found.x >= -1e-9 and found.fun < best[0]:
            best = (float(found.fun), found.x)
    return best


def nearest_shares(blocks, gain, least=0.0) -> float:
    """The divergence to the nearest laws that enter, brute force over their probabilities.

    ``blocks``: the outcomes [N, D] of channels that are drawn together, and their probabilities
    [N]. Each may also put mass on the corners of its box. ``least``: of the mean cost, which is
    the first channel of all.
    """
    points, chances = [], []
    for outcomes, weights in blocks:
        corners = list(product((0.0, 1.0), repeat=outcomes.shape[1]))
        points.append(np.concatenate([outcomes, corners]))
        chances.append(np.concatenate([weights, np.zeros(len(corners))]))
    ends = np.cumsum([len(one) for one in chances])[:-1]

    def shares(x):  # each block's probabilities
        return [softmax(one) for one in np.split(x, ends)]

    def divergence(x):
        parts = zip(chances, shares(x), strict=True)
        return sum(float(rel_entr(p, np.maximum(q, 1e-300)).sum()) for p, q in parts)

    def means(x):
        return np.concatenate([q @ v for q, v in zip(shares(x), points, strict=True)])

    best = minimize(
        divergence,
        np.log(np.concatenate(chances) + 1e-3),
        constraints=[
            {"type": "ineq", "fun": lambda x: gain @ means(x)},
            {"type": "ineq", "fun": lambda x: means(x)[0] - least},
        ],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 2000},
    )
    assert gain @ means(best.x) > -1e-7
    return float(best.fun)


def random_problem(generator, limits: int) -> Problem:
    """Zero-one outcomes, some of them certain; drawn until limits bind and C is known."""
    while True:
        arms = generator.integers(3, 6)
        odds = generator.uniform(0.05, 0.95, (arms, 2 + limits))
        certain = generator.random(odds[:, 1:].shape) < 0.1
        odds[:, 1:] = np.where(certain, generator.integers(0, 2, certain.shape), odds[:, 1:])
        limit = generator.uniform(0.3, 1.5, limits).tolist()
        problem = Problem.from_bernoulli(odds[:, 0], odds[:, 1], odds[:, 2:], limit=limit)
        try:
            found = learning_limit(problem)
        except InfeasibleError:
            continue
        if not found.obstacle and any(found.multiplier) and found.constant > 0.0:
            return problem


# --- Bernoulli channels -------------------------------------------------------------------


@pytest.mark.parametrize("cost", [Constant(1.0), Bernoulli(1.0)])
def test_it_is_that_of_lai_and_robbins_where_every_pull_is_known_to_cost_one(cost):
    means = np.array([0.7, 0.6, 0.45, 0.0])
    problem = Problem([Arm(f"{p}", cost, Bernoulli(p)) for p in means])
    found = learning_limit(problem, smallest_cost=1.0)
    classical = (0.7 - means[1:]) / kl(means[1:], 0.7)
    assert (found.loss * found.pulls)[1:] == pytest.approx(classical, rel=1e-9)
    assert found.constant == pytest.approx(classical.sum(), rel=1e-9)
    # who has to learn the costs as well has more to look at
    assert learning_limit(problem).constant > 1.01 * found.constant


@pytest.mark.parametrize("limits", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_the_divergence_is_that_of_brute_force(limits, seed):
    problem = random_problem(np.random.default_rng([limits, seed]), limits)
    found, odds = learning_limit(problem), problem.bernoulli()
    for k in np.flatnonzero(found.loss):
        assert found.divergence[k] == pytest.approx(
            nearest_odds(odds[k], gain_of(found))[0], rel=1e-5
        )


def test_costs_may_help_an_arm_to_enter_where_their_price_is_negative():
    odds = [(0.5, 0.0, 0.25), (0.5, 0.5, 0.5), (0.4, 0.1, 0.3)]
    problem = bernoulli_problem(odds, 0.8)
    found = learning_limit(problem)
    assert found.price == pytest.approx(-1.0)
    divergence, means = nearest_odds(np.array(odds[2]), gain_of(found))
    assert found.divergence[2] == pytest.approx(divergence, rel=1e-6)
    assert means[0] > 0.4


@pytest.mark.parametrize("seed", range(4))
def test_the_nearest_law_is_where_the_arm_enters_the_best_mixture(seed):
    """By the linear program: just beyond it the optimum is higher, just short of it the same."""
    problem = random_problem(np.random.default_rng([9, seed]), 1 + seed % 2)
    found, odds = learning_limit(problem), problem.bernoulli()
    k = int(np.argmax(found.loss * found.pulls))
    _, there = nearest_odds(odds[k], gain_of(found))
    rates = []
    for step in (0.98, 1.02):
        changed = odds.copy()
        changed[k] = np.clip(odds[k] + step * (there - odds[k]), 1e-9, 1.0)
        other = Problem.from_bernoulli(*changed[:, :2].T, changed[:, 2:], limit=problem.limits)
        rates.append(oracle(other).reward_rate)
    best = oracle(problem).reward_rate
    assert rates[0] == pytest.approx(best, rel=1e-9)
    assert rates[1] > best * (1.0 + 1e-6)


def test_a_told_smallest_cost_leaves_fewer_alternatives():
    problem = ready_problem("arena-random-5")
    odds, free = problem.bernoulli(), learning_limit(problem)
    least = float(odds[:, 0].min())
    told = learning_limit(problem, smallest_cost=least)
    for k in np.flatnonzero(free.loss):
        best, _ = nearest_odds(odds[k], gain_of(free), least)
        assert told.divergence[k] == pytest.approx(best, rel=1e-5)
    assert told.constant < 0.8 * free.constant
    assert learning_limit(problem, smallest_cost=least / 10).constant == free.constant


def test_on_the_arenas_five_arms_it_is_31():
    problem = ready_problem("arena-random-5")
    found = learning_limit(problem)
    assert found.constant == pytest.approx(31.04, abs=0.01)
    earned = oracle(problem).reward_rate
    assert found.regret(1e4) / (1e4 * earned) == pytest.approx(0.031, abs=5e-4)
    assert found.regret(1e5) / (1e5 * earned) == pytest.approx(0.0038, abs=5e-5)


def test_who_does_not_know_that_channels_are_independent_has_a_little_more_to_learn():
    """Any joint law is an alternative then: the divergence by the dual over the eight outcomes."""
    problem = ready_problem("arena-random-5")
    found, odds = learning_limit(problem), problem.bernoulli()
    outcomes = np.array(list(product((0.0, 1.0), repeat=3)))
    gains, constant = outcomes @ gain_of(found), 0.0
    for k in np.flatnonzero(found.loss):
        chances = np.where(outcomes == 1.0, odds[k], 1.0 - odds[k]).prod(axis=1)
        dual = minimize_scalar(
            lambda nu, chances=chances: -chances @ np.log1p(-nu * gains),
            bounds=(0.0, 1.0 - 1e-9),  # the largest gain is a reward, 1
            method="bounded",
            options={"xatol": 1e-12},
        )
        constant -= found.loss[k] / dual.fun
    assert constant == pytest.approx(31.4, abs=0.05)
    assert constant > found.constant


# --- other laws ---------------------------------------------------------------------------


def test_zero_one_outcomes_by_the_way_of_other_laws():
    """The same problem as two-point laws, in other units, goes through the general projection."""
    problem = ready_problem("arena-two-limits")
    scales = Scales(cost=5.0, reward=3.0, penalty=(0.5, 2.0))
    arms = [
        Arm(
            arm.name,
            *(
                TwoPoint(0.0, scale, law.mean)
                for law, scale in zip(arm.laws[:2], scales.channels[:2], strict=True)
            ),
            [
                TwoPoint(0.0, scale, law.mean)
                for law, scale in zip(arm.laws[2:], scales.penalties, strict=True)
            ],
        )
        for arm in problem.arms
    ]
    limits = np.array(problem.limits) * scales.penalties / scales.cost
    one, other = learning_limit(problem), learning_limit(Problem(arms, limits.tolist(), scales))
    assert other.divergence == pytest.approx(one.divergence, rel=1e-9, nan_ok=True)
    assert other.constant == pytest.approx(3.0 * one.constant, rel=1e-9)
    assert other.regret(500.0) == pytest.approx(3.0 * one.regret(100.0), rel=1e-9)


@pytest.mark.parametrize("reward", [Uniform(0.1, 0.7), Beta(2.0, 5.0), TwoPoint(0.2, 0.6, 0.3)])
def test_one_unknown_channel_is_the_divergence_of_honda_and_takemura(reward):
    """max over nu of E[log(1 - nu (R - g))], nu in [0, 1 / (1 - g)]: R may reach the scale, 1."""
    best = 0.8
    problem = Problem([Arm("a", Constant(1.0), Bernoulli(best)), Arm("b", Constant(1.0), reward)])
    found = learning_limit(problem, smallest_cost=1.0)
    draws = reward.cells().outcomes((np.arange(400_000) + 0.5) / 400_000)
    dual = minimize_scalar(
        lambda nu: -np.log1p(-nu * (draws - best)).mean(),
        bounds=(0.0, 1.0 / (1.0 - best)),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert found.divergence[1] == pytest.approx(-dual.fun, rel=1e-5)


def test_channels_of_one_draw_are_projected_together():
    """Rows of a log: by the same dual, of a row's gain; the box's best corner is within reach."""
    rows = [(0.5, 0.3, 0.2), (0.9, 0.5, 0.6), (0.2, 0.1, 0.0), (0.4, 0.6, 0.9)]
    arms = [
        Arm("bold", Bernoulli(0.4), Bernoulli(0.8), Bernoulli(0.6)),
        Arm("careful", Bernoulli(0.6), Bernoulli(0.6), Bernoulli(0.3)),
        Arm.from_rows("seen", rows),
    ]
    found = learning_limit(Problem(arms, limit=0.8))
    gain = gain_of(found)
    gains, top = np.array(rows) @ gain, np.maximum(gain, 0.0).sum()
    dual = minimize_scalar(
        lambda nu: -np.log1p(-nu * gains).mean(),
        bounds=(0.0, (1.0 - 1e-12) / top),
        method="bounded",
        options={"xatol": 1e-12},
    )
    assert found.divergence[2] == pytest.approx(-dual.fun, rel=1e-6)
    # apart from one another, the same channels are further away: fewer laws to choose from
    columns = [Discrete(column, [1.0] * len(rows)) for column in zip(*rows, strict=True)]
    apart = learning_limit(Problem([*arms[:2], Arm("seen", *columns)], limit=0.8))
    assert apart.divergence[2] != pytest.approx(found.divergence[2], rel=1e-3)


def test_laws_of_a_few_values_by_brute_force_over_their_probabilities():
    """Each channel may also put mass on either end of its range."""
    arms = [
        Arm("bold", Bernoulli(0.4), Bernoulli(0.8), Bernoulli(0.6)),
        Arm("careful", Bernoulli(0.6), Bernoulli(0.6), Bernoulli(0.3)),
        Arm(
            "odd",
            TwoPoint(0.5, 0.9, 0.5),
            Discrete([0.2, 0.5, 0.7], [1, 2, 1]),
            Discrete([0.3, 1.0], [3, 1]),
        ),
    ]
    found = learning_limit(Problem(arms, limit=0.8))
    blocks = [(values[:, None], chances) for values, chances in (o.atoms() for o in arms[2].laws)]
    assert found.divergence[2] == pytest.approx(nearest_shares(blocks, gain_of(found)), rel=1e-4)


def test_a_penalty_that_is_read_off_the_cost_is_projected_with_it():
    late = CostAbove(0.5)
    arms = [
        Arm("fast", TwoPoint(0.45, 0.6, 0.1), Bernoulli(0.4), late),
        Arm("slow", TwoPoint(0.3, 1.0, 0.8), Bernoulli(0.9), late),
        Arm("poor", TwoPoint(0.3, 0.9, 0.3), Bernoulli(0.1), late),
    ]
    problem = Problem(arms, limit=0.7)
    found = learning_limit(problem)
    blocks = [  # cost and penalty, then the reward
        (np.array([[0.3, 0.0], [0.9, 1.0]]), np.array([0.7, 0.3])),
        (np.array([[0.0], [1.0]]), np.array([0.9, 0.1])),
    ]
    gain = gain_of(found)[[0, 2, 1]]
    assert found.divergence[2] == pytest.approx(nearest_shares(blocks, gain), rel=1e-4)
    # what is told of the cost ties the penalty too
    told = learning_limit(problem, smallest_cost=0.46)
    assert told.divergence[2] == pytest.approx(nearest_shares(blocks, gain, 0.46), rel=1e-4)
    assert told.divergence[2] > 1.001 * found.divergence[2]


# --- where it is 0, or not known ----------------------------------------------------------


@pytest.mark.parametrize("name", ["paper", "paper-arms-10"])
def test_arms_that_are_in_the_mixture_or_tied_with_it_cost_nothing(name):
    found = learning_limit(ready_problem(name))
    assert (found.constant, found.regret(100.0)) == (0.0, 0.0)
    assert not found.loss.any()
    assert not found.pulls.any()


def test_an_arm_that_no_law_lets_enter_need_not_be_looked_at():
    problem = bernoulli_problem([(1.0, 1.0, 0.2), (1.0, 0.5, 0.2)], 0.8)
    found = learning_limit(problem, smallest_cost=1.0)  # the best arm earns all there is
    assert math.isinf(found.divergence[1])
    assert found.constant == 0.0
    assert learning_limit(problem).constant > 0.0  # it could cost less


def test_a_mixture_with_too_few_arms_for_its_limits_has_no_constant():
    problem = bernoulli_problem([(0.5, 0.5, 0.25), (0.5, 0.2, 0.1), (0.5, 0.8, 0.5)], 0.5)
    assert oracle(problem).cost_share[0] == 1.0
    found = learning_limit(problem)
    assert (found.constant, found.regret(100.0)) == (None, None)
    assert found.obstacle == (
        "learning: the multipliers need not be unique (1 arm for 1 binding limit),"
        " so C is not known"
    )
    assert np.isnan(found.divergence).all()


def test_what_it_cannot_take(paper):
    with pytest.raises(InputError, match=r"smallest_cost = 0\.5: must lie in \[0, 0\.4\]"):
        learning_limit(paper, smallest_cost=0.5)
    with pytest.raises(InfeasibleError):
        learning_limit(bernoulli_problem([(0.5, 0.5, 0.4)], 0.1))
    changing = Problem(paper.arms, 0.8, changes=[Change(0.5, paper.arms)])
    with pytest.raises(ProblemError, match="the limit of learning is for arms that do not change"):
        learning_limit(changing)


def test_an_outcome_that_hardly_ever_comes_is_one_that_never_comes():
    """Its weight is lost in rounding; numpy's warnings are errors here."""
    found = []
    for odds in (1e-30, 0.0):
        arms = [
            Arm("a", Uniform(0.1, 0.7), Constant(0.5), Bernoulli(0.5)),
            Arm("b", TwoPoint(0.0, 1.0, 0.3), Uniform(0.1, 0.7), Bernoulli(0.5)),
            Arm("c", Uniform(0.1, 0.7), Bernoulli(odds), Uniform(0.1, 0.7)),
        ]
        found.append(learning_limit(Problem(arms, limit=3.0)).constant)
    assert found[0] == pytest.approx(found[1], rel=1e-6)
    arms = [
        Arm("a", TwoPoint(0.0, 1.0, 0.3), Bernoulli(5e-324)),  # whose inverse is not a number
        Arm("b", Bernoulli(0.5), Constant(0.5)),
    ]
    assert math.isfinite(learning_limit(Problem(arms)).constant)
