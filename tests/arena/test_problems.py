"""The arena's families are what their names say, for any seed; routing's table."""

from __future__ import annotations

import numpy as np
import pytest

from tightrope.arena.families import FAMILIES, FEWEST_ARMS
from tightrope.errors import ProblemError
from tightrope.optimum.pi_star import infeasible, oracle
from tightrope.problem import Problem
from tightrope.problem.ready import ready_names, ready_problem

SEEDS = range(1, 21)


def drawn(family: str, *counts: int) -> list[Problem]:
    return [ready_problem(f"arena-{family}-{k}-{s}") for k in counts for s in SEEDS]


def slack(problem: Problem) -> float:
    found = problem.task.slack
    assert found is not None
    return found


def alone(problem: Problem) -> np.ndarray:
    """Which arms keep every limit on their own."""
    return np.all(problem.moments.penalty_rate <= problem.moments.limits, axis=1)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_problem_of_a_family_is_feasible_and_its_limits_bind(family: str) -> None:
    fewest = FEWEST_ARMS.get(family, 2)
    for problem in drawn(family, fewest, 7):
        assert infeasible(problem) is None
        best = oracle(problem)
        assert all(price > 0.0 for price in best.multiplier), problem.name
        assert np.count_nonzero(best.pull_share) == 1 + problem.penalty_count
        assert ready_problem(problem.name) == problem
        assert Problem.from_toml(problem.to_toml()) == problem
    first, second = (ready_problem(f"arena-{family}-7-{seed}").arms for seed in (1, 2))
    assert ready_problem(f"arena-{family}-7").arms == first != second
    assert ready_problem(f"arena-{family}-100").arm_count == 100


@pytest.mark.parametrize("family", FAMILIES)
def test_the_number_of_arms_is_bounded(family: str) -> None:
    fewest = FEWEST_ARMS.get(family, 2)
    for count in (fewest - 1, 101):
        with pytest.raises(ProblemError, match=f"^problem 'arena-{family}-{count}': the number of"):
            ready_problem(f"arena-{family}-{count}")


def test_rare_penalties_are_far_below_their_scale() -> None:
    found = drawn("rare", 5, 10)
    for problem in found:
        assert problem.moments.penalty.max() <= 0.05
        assert problem.moments.penalty.min() > 0.0
        assert 0.001 <= problem.limits[0] <= 0.05
    limits = [problem.limits[0] for problem in found]
    assert min(limits) < 0.003  # the whole range is met
    assert max(limits) > 0.03


def test_arena_rare_is_as_declared() -> None:
    problem = ready_problem("arena-rare")
    assert problem.limits == (0.01,)
    wanted = [[0.5, 0.8, 0.02], [0.5, 0.5, 0.001], [0.5, 0.65, 0.006]]
    np.testing.assert_array_equal(problem.bernoulli(), wanted)


def test_one_arm_is_safe() -> None:
    for problem in drawn("safe", 5, 20):
        assert np.count_nonzero(alone(problem)) == 1
        over = problem.moments.penalty_rate[~alone(problem), 0] / problem.limits[0]
        assert over.min() > 1.05
        assert slack(problem) > 0.15


def test_uneven_costs() -> None:
    for problem in drawn("uneven", 5, 10):
        cost = problem.moments.cost
        assert (cost.min(), cost.max()) == (0.02, 0.98)
    orders = {tuple(np.argsort(problem.moments.cost)) for problem in drawn("uneven", 5)}
    assert len(orders) > 10


def test_small_outcomes_are_far_below_the_declared_scales() -> None:
    for problem in drawn("small", 5, 10):
        for arm in problem.arms:
            _, reward, penalty = arm.laws
            assert reward.high <= 0.05 * problem.scales.reward
            assert penalty.high <= 0.05 * problem.scales.channels[2]


def test_every_near_arm_has_a_twin() -> None:
    for problem in drawn("near", 6, 20):
        odds = problem.bernoulli()
        apart = np.abs(odds[:, None] / odds[None] - 1.0).max(axis=2)
        np.fill_diagonal(apart, 1.0)
        assert apart.min(axis=1).max() < 0.021
        assert apart.min() > 0.0  # none is an exact copy


def test_a_mixture_earns_a_third_more_than_any_arm_that_keeps_the_limit() -> None:
    for problem in drawn("mixture", 2, 4, 8):
        kept = problem.moments.reward_rate[alone(problem)]
        assert oracle(problem).reward_rate >= 4 / 3 * kept.max()


def test_limits_that_pull_apart_are_kept_by_mixtures_alone() -> None:
    for problem in drawn("apart", 3, 4, 8):
        assert problem.penalty_count == 2
        assert not alone(problem).any()
        broken = problem.moments.penalty_rate > problem.moments.limits
        assert broken.any(axis=0).all()
        assert slack(problem) >= 0.05


def test_slim_slack_is_two_per_cent() -> None:
    for problem in drawn("slim", 3, 8):
        assert slack(problem) == pytest.approx(0.02, abs=1e-4)


# --- routing ------------------------------------------------------------------------------

ROUTING = [f"routing-{i}" for i in range(1, 6)]


def test_the_answers_of_the_models() -> None:
    """Means as the table's authors print them; the scale is above every price."""
    problem = ready_problem("routing-1")
    rewards = [arm.laws[1].mean for arm in problem.arms]
    prices = [arm.laws[2].mean for arm in problem.arms]
    assert rewards == pytest.approx([0.7931, 0.9231, 0.9322], abs=5e-5)
    assert prices == pytest.approx([2.86e-5, 5.27e-4, 1.52e-2], rel=5e-3)
    dearest = max(arm.laws[2].high for arm in problem.arms)
    assert dearest == 0.13795375
    assert dearest <= problem.scales.channels[2] == 0.138
    assert {arm.cost.mean for arm in problem.arms} == {1.0}
    assert {len(arm.cells()[1]) for arm in problem.arms} == {1824}


def test_reward_and_price_of_an_answer_are_drawn_together() -> None:
    """The first line of the table is the first cell of every arm."""
    arms = ready_problem("routing-3").arms
    first = [[float(cells.outcomes([0.0])[0]) for cells in arm.cells()] for arm in arms]
    assert first == [[1.0, 0.75, 1.93e-5], [1.0, 1.0, 2.78e-4], [1.0, 0.93, 0.01002875]]
    assert {source for arm in arms for source in arm.sources} == {0}


def test_the_limits_of_routing() -> None:
    limits = [ready_problem(name).limits[0] for name in ROUTING]
    assert limits == [8.29e-5, 2.35e-4, 6.64e-4, 1.88e-3, 5.31e-3]
    assert all(
        f"{limit:g} dollars" in ready_names()[f"routing-{i + 1}"] for i, limit in enumerate(limits)
    )
    pairs = [tuple(np.flatnonzero(oracle(ready_problem(name)).pull_share)) for name in ROUTING]
    assert pairs == [(0, 1), (0, 1), (1, 2), (1, 2), (1, 2)]
