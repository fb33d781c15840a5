"""pi* against linear programs written another way, its ties, its units and its errors."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from tests.conftest import bernoulli_problem
from tightrope.errors import InfeasibleError, InputError
from tightrope.optimum.exact import optimum
from tightrope.optimum.pi_star import infeasible, oracle
from tightrope.problem import Arm, Problem, Scales
from tightrope.problem.distributions import Bernoulli, Constant, CostAbove, Uniform
from tightrope.problem.mixtures import BestMixture, best_mixture, conflict
from tightrope.problem.ready import ready_problem

Floats = NDArray[np.float64]

PAPER = Problem(
    [
        Arm("bold", Bernoulli(0.4), Bernoulli(0.8), Bernoulli(0.6)),
        Arm("careful", Bernoulli(0.6), Bernoulli(0.6), Bernoulli(0.3)),
    ],
    limit=0.8,
)


def by_pulls(cost: Floats, reward: Floats, penalty: Floats, limits: Floats) -> float | None:
    """The same optimum, over pulls per unit of cost instead of shares of cost."""
    result = linprog(
        -reward,
        A_ub=penalty.T if len(limits) else None,
        b_ub=limits if len(limits) else None,
        A_eq=cost[None, :],
        b_eq=[1.0],
        method="highs",
    )
    return None if result.status == 2 else -float(result.fun)


def constant_arms(cost: Floats, reward: Floats, penalty: Floats) -> list[Arm]:
    return [
        Arm(f"arm {k}", Constant(cost[k]), Constant(reward[k]), [Constant(y) for y in penalty[k]])
        for k in range(len(cost))
    ]


def certify(mixture: BestMixture, reward: Floats, penalty: Floats, limits: Floats) -> None:
    """A feasible mixture whose multipliers prove that nothing is better."""
    assert len(mixture.members) <= len(limits) + 1
    assert mixture.weights.min() >= 0
    assert mixture.weights.sum() == pytest.approx(1, abs=1e-12)
    assert np.all(mixture.weights @ penalty[mixture.members] <= limits * (1 + 1e-9))
    assert mixture.reward == pytest.approx(mixture.weights @ reward[mixture.members], abs=1e-12)
    assert np.all(mixture.multiplier >= 0)
    bound = np.max(reward - penalty @ mixture.multiplier) + mixture.multiplier @ limits
    assert mixture.reward == pytest.approx(bound, rel=1e-9, abs=1e-9)


def test_the_papers_arms() -> None:
    best = oracle(PAPER)
    assert best.reward_rate == pytest.approx(1.3, abs=1e-12)
    assert best.penalty_rate == pytest.approx((0.8,), abs=1e-12)
    assert best.multiplier == pytest.approx((1.0,), abs=1e-12)
    assert best.cost_share == pytest.approx([0.3, 0.7], abs=1e-12)
    assert best.pull_share == pytest.approx([0.9 / 2.3, 1.4 / 2.3], abs=1e-12)


values = st.floats(0, 1) | st.sampled_from([0.0, 0.25, 0.5, 1.0])
costs = st.floats(0.05, 1) | st.sampled_from([0.25, 0.5, 1.0])


@st.composite
def points(draw: st.DrawFn) -> tuple[Floats, Floats, Floats, Floats]:
    """Costs, rewards, penalties and limits, with many ties among them."""
    count = draw(st.integers(0, 3))
    rows = draw(st.lists(st.tuples(costs, values, *[values] * count), min_size=1, max_size=8))
    table = np.array(rows)
    rates = table[:, 2:] / table[:, :1]
    limits = []
    for m in range(count):
        at_an_arm = st.sampled_from(sorted(rates[:, m]))
        limits.append(draw((st.floats(0.05, 3) | at_an_arm).filter(lambda limit: limit > 1e-3)))
    return table[:, 0], table[:, 1], table[:, 2:], np.array(limits)


@settings(max_examples=200, deadline=None)
@given(points())
def test_agrees_with_the_program_over_pulls(case: tuple[Floats, Floats, Floats, Floats]) -> None:
    cost, reward, penalty, limits = case
    expected = by_pulls(cost, reward, penalty, limits)
    rates = reward / cost, penalty / cost[:, None]
    mixture = best_mixture(*rates, limits)
    if mixture is None:
        # The solver's own tolerance lets it pass what misses a limit by 1e-7.
        excess = conflict(rates[1], limits).excess
        assert expected is None or excess == pytest.approx(1, abs=1e-6)
        return
    certify(mixture, *rates, limits)
    if expected is not None:
        assert mixture.reward == pytest.approx(expected, rel=1e-6, abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(points(), st.randoms(use_true_random=False))
def test_the_order_of_the_arms_does_not_matter(
    case: tuple[Floats, Floats, Floats, Floats], random: Random
) -> None:
    cost, reward, penalty, limits = case
    order = list(range(len(cost)))
    random.shuffle(order)
    rates = reward / cost, penalty / cost[:, None]
    one, other = (
        best_mixture(*rates, limits),
        best_mixture(rates[0][order], rates[1][order], limits),
    )
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert one.reward == pytest.approx(other.reward, rel=1e-9, abs=1e-9)


def test_points_on_a_line_up_to_rounding() -> None:
    """The slope between two points is rounded: one that is far away lies above their line."""
    reward = np.array([
        0.0005641276828868082, 0.0005563502664559701, 0.0007522471814312183, 0.0007545062386807154,
        0.0010355236141290634, 0.0008568779885561819, 0.0009071516524818343, 0.0010681297260919113,
    ])  # fmt: skip
    penalty = np.array([
        9.487684660103016e-05, 7.932201373936865e-05, 0.00047111584368986496,
        0.00047563395818882233, 0.0010376687090855013, 0.0006803774579397703,
        0.0007809247857910707, 0.0011028809330112894,
    ])  # fmt: skip
    limit = 0.0010333785191725892
    mixture = best_mixture(reward, penalty[:, None], np.array([limit]))
    assert mixture is not None
    line = reward[0] + 0.5 * (limit - penalty[0])
    assert mixture.reward == pytest.approx(line, rel=1e-9)
    assert mixture.weights @ penalty[mixture.members] == pytest.approx(limit, rel=1e-12)


def mix(points: list[tuple[float, float]], limit: float) -> tuple[list[int], list[float], float]:
    """Members, weights and multiplier for points (penalty, reward)."""
    table = np.array(points, dtype=np.float64)
    mixture = best_mixture(table[:, 1], table[:, :1], np.array([limit]))
    assert mixture is not None
    certify(mixture, table[:, 1], table[:, :1], np.array([limit]))
    return mixture.members.tolist(), mixture.weights.tolist(), float(mixture.multiplier[0])


def test_ties_among_the_best_go_to_the_lower_penalty_then_the_lower_number() -> None:
    assert mix([(0.9, 2.0), (0.5, 2.0), (0.5, 2.0)], limit=1.0) == ([1], [1.0], 0.0)


def test_one_arm_at_the_limit_is_preferred_to_two_around_it() -> None:
    assert mix([(0.0, 0.0), (2.0, 2.0), (1.0, 1.0)], limit=1.0) == ([2], [1.0], 1.0)


def test_collinear_arms_go_to_the_lower_numbers() -> None:
    members, weights, slope = mix([(0.5, 0.5), (0.0, 0.0), (2.0, 2.0), (3.0, 3.0)], limit=1.0)
    assert members == [0, 2]
    assert weights == pytest.approx([2 / 3, 1 / 3])
    assert slope == pytest.approx(1.0)


def test_duplicates_use_the_first_of_them() -> None:
    assert mix([(0.0, 0.0), (0.0, 0.0), (2.0, 2.0), (2.0, 2.0)], limit=0.5)[0] == [0, 2]


def test_arms_of_equal_penalty() -> None:
    assert mix([(0.5, 1.0), (0.5, 3.0), (0.5, 2.0)], limit=0.5) == ([1], [1.0], 0.0)


def test_arms_of_equal_reward() -> None:
    assert mix([(0.9, 1.0), (0.3, 1.0), (2.0, 1.0)], limit=0.5) == ([1], [1.0], 0.0)


def test_an_arm_at_the_limit_below_the_best_one_has_the_price_of_more_penalty() -> None:
    assert mix([(1.0, 1.0), (3.0, 2.0), (2.0, 1.2)], limit=1.0) == ([0], [1.0], 0.5)


def test_a_rate_that_rounding_puts_just_above_the_limit_is_allowed() -> None:
    assert 0.1 * 3 > 0.3
    arm = Arm("only", Constant(1.0), Constant(0.5), Constant(0.1 * 3))
    assert oracle(Problem([arm], limit=0.3)).reward_rate == pytest.approx(0.5)


def test_a_feasible_start_may_be_left_for_an_arm_of_lower_reward() -> None:
    members, weights, _ = mix([(0.5, 1.0), (1.5, 3.0), (0.1, 0.9)], limit=1.4)
    assert members == [2, 1]
    assert weights == pytest.approx([0.1 / 1.4, 1.3 / 1.4])


@pytest.mark.parametrize("shape", ["random", "parabola", "line", "same"])
def test_a_hundred_thousand_arms(shape: str) -> None:
    rng = np.random.default_rng(7)
    penalty = rng.uniform(0, 2, 100_000)
    reward = {
        "random": rng.uniform(0, 5, len(penalty)),
        "parabola": 4 * penalty - penalty**2,
        "line": 2 * penalty,
        "same": np.ones(len(penalty)),
    }[shape]
    mixture = best_mixture(reward, penalty[:, None], np.array([0.7]))
    assert mixture is not None
    certify(mixture, reward, penalty[:, None], np.array([0.7]))
    prices = np.linspace(0, 20, 101)
    bounds = [np.max(reward - price * penalty) + price * 0.7 for price in prices]
    assert mixture.reward <= min(bounds) + 1e-9


def test_many_arms_and_two_limits() -> None:
    rng = np.random.default_rng(8)
    reward, penalty = rng.uniform(0, 5, 5000), rng.uniform(0, 2, (5000, 2))
    limits = np.array([0.4, 0.6])
    mixture = best_mixture(reward, penalty, limits)
    assert mixture is not None
    certify(mixture, reward, penalty, limits)


def test_without_penalties_the_best_rate_wins() -> None:
    arms = constant_arms(np.array([0.5, 0.2, 0.4]), np.array([0.5, 0.4, 0.8]), np.zeros((3, 0)))
    best = oracle(Problem(arms))
    assert best.reward_rate == pytest.approx(2.0)
    assert (best.penalty_rate, best.multiplier) == ((), ())
    assert best.cost_share.tolist() == best.pull_share.tolist() == [0, 1, 0]


def test_units_are_the_users() -> None:
    dollars = Problem(
        [
            Arm("bold", Constant(20.0), Constant(400.0), Constant(3.0)),
            Arm("careful", Constant(30.0), Constant(300.0), Constant(1.5)),
        ],
        limit=0.08,
        scales=Scales(cost=50.0, reward=500.0, penalty=5.0),
    )
    best = oracle(dollars)  # points (0.15, 20) and (0.05, 10), per dollar
    assert best.reward_rate == pytest.approx(13.0)
    assert best.penalty_rate == pytest.approx((0.08,))
    assert best.multiplier == pytest.approx((100.0,))
    assert best.cost_share == pytest.approx([0.3, 0.7])
    assert best.pull_share == pytest.approx(
        [0.015 / (0.015 + 0.7 / 30), 0.7 / 30 / (0.015 + 0.7 / 30)]
    )


def test_dependent_outcomes_count_by_their_means() -> None:
    slow = Arm("slow", Uniform(0.0, 1.0), Constant(1.0), CostAbove(0.8))
    assert oracle(Problem([slow], limit=0.5)).penalty_rate == pytest.approx((0.4,))


def test_shares_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        oracle(PAPER).pull_share[0] = 1.0


def two_limits(*penalties: tuple[float, float], limits: tuple[float, float]) -> Problem:
    table = np.array(penalties)
    count = len(table)
    return Problem(constant_arms(np.ones(count), np.full(count, 0.5), table), limit=limits)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (
            Problem(PAPER.arms, limit=0.25),
            "limit = 0.25: must be at least 0.5, the penalty rate of the least violating arm"
            " 'careful'",
        ),
        (
            two_limits((0.1, 0.9), (0.2, 0.7), limits=(0.5, 0.3)),
            "limit 2 = 0.3: must be at least 0.7, the penalty rate of the least violating arm"
            " 'arm 1'",
        ),
        (
            two_limits((0.1, 0.9), (0.9, 0.1), (0.6, 0.6), limits=(0.4, 0.4)),
            "limit 1 = 0.4 and limit 2 = 0.4: must be kept together by some mixture of the arms;"
            " the least that a mixture can reach is 0.5 and 0.5; the least violating arm 'arm 2'"
            " has penalty rates 0.6 and 0.6",
        ),
    ],
)
def test_infeasible_problems_say_which_limit_and_who_comes_nearest(
    problem: Problem, message: str
) -> None:
    with pytest.raises(InfeasibleError) as caught:
        oracle(problem)
    assert str(caught.value) == message


def test_a_conflict_proves_itself() -> None:
    penalty, limits = np.array([[0.1, 0.9], [0.9, 0.1], [0.6, 0.6]]), np.array([0.4, 0.4])
    found = conflict(penalty, limits)
    assert found.prices @ limits == pytest.approx(1)
    assert np.min(penalty @ found.prices) == pytest.approx(found.excess)
    assert found.excess == pytest.approx(1.25)


@pytest.mark.parametrize("limits", [(1e-15, 0.3, 0.8), (1e-15, 1e15, 1e-3), (1e-12, 1e-12, 1e12)])
def test_limits_of_very_different_size_are_answered(limits: tuple[float, ...]) -> None:
    """The solver gives up where coefficients differ by more than its digits: others are tried."""
    means = [(0.5, 0.5, 0.5, 0.5, 0.5), (5e-9, 0.5, 1e-9, 1.0, 0.0), (1.0, 1e-12, 0.0, 1e-3, 1.0)]
    problem = bernoulli_problem(means, limits)
    assert problem.task.slack is not None
    if infeasible(problem) is None:
        assert oracle(problem).cost_share.sum() == pytest.approx(1.0)
    else:
        with pytest.raises(InfeasibleError):
            oracle(problem)


@pytest.mark.parametrize("find", [oracle, lambda problem: optimum(problem, 100)])
def test_a_problem_may_be_named_and_a_task_has_no_optimum(find):
    assert str(find("paper")) == str(find(ready_problem("paper")))
    for wrong in (ready_problem("paper").task, 3):
        with pytest.raises(InputError, match=r"^problem: .* must be a Problem"):
            find(wrong)
