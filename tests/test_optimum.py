"""OPT(B) against linear programs over all that a policy can do, and against closed forms."""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise
from math import e, exp, floor, pi

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import lil_array

from tightrope.errors import InfeasibleError, InputError
from tightrope.optimum.exact import cost_of_a_run, optimum
from tightrope.optimum.grid import Costs
from tightrope.optimum.pi_star import oracle
from tightrope.problem import Arm, Problem, Scales
from tightrope.problem.distributions import (
    Bernoulli,
    Beta,
    Constant,
    CostAbove,
    Discrete,
    TruncatedNormal,
    TwoPoint,
    Uniform,
)
from tightrope.problem.outcomes import Law

BOLD = Arm("bold", Bernoulli(0.4), Bernoulli(0.8), Bernoulli(0.6))
CAREFUL = Arm("careful", Bernoulli(0.6), Bernoulli(0.6), Bernoulli(0.3))
PAPER = Problem([BOLD, CAREFUL], limit=0.8)


def arm(name: str, cost: Law, reward: float, *penalties: float) -> Arm:
    return Arm(name, cost, Constant(reward), [Constant(penalty) for penalty in penalties])


def means(problem: Problem) -> np.ndarray:
    """[1 + M, K]: rewards, penalties."""
    return np.array([[law.mean for law in one.laws[1:]] for one in problem.arms]).T


# --- independent computations -----------------------------------------------------------------


def by_occupation(problem: Problem, budget: float, step: float) -> float | None:
    """OPT(B) as one linear program over the expected pulls of each arm at each cost spent."""
    last, count = floor(budget / step + 1e-9), problem.arm_count
    flow = lil_array((last + 1, (last + 1) * count))
    for spent in range(last + 1):
        for k, one in enumerate(problem.arms):
            flow[spent, spent * count + k] += 1
            for value, chance in zip(*one.cost.atoms(), strict=True):
                if (then := spent + round(value / step)) <= last:
                    flow[then, spent * count + k] -= chance
    reward, *penalties = np.tile(means(problem), last + 1)
    for method in ("highs", "highs-ipm"):  # now and then the first gives up
        result = linprog(
            -reward,
            A_ub=np.array(penalties) if penalties else None,
            b_ub=np.array(problem.limits) * budget if penalties else None,
            A_eq=flow.tocsr(),
            b_eq=np.eye(last + 1)[0],
            method=method,
        )
        if result.status in (0, 2):
            return None if result.status == 2 else -float(result.fun)
    raise AssertionError(result.message)


def by_shares(problem: Problem, shares: np.ndarray, budget: float, step: float) -> np.ndarray:
    """Expected reward and penalties of pulling with fixed probabilities: a renewal equation."""
    last = floor(budget / step + 1e-9)
    chances = np.zeros(last + 1)
    for share, one in zip(shares, problem.arms, strict=True):
        for value, chance in zip(*one.cost.atoms(), strict=True):
            if (steps := round(value / step)) <= last:
                chances[steps] += share * chance
    pulls = np.zeros(last + 1)  # expected, from a budget left of so many steps
    for left in range(last + 1):
        pulls[left] = (1 + chances[1 : left + 1] @ pulls[:left][::-1]) / (1 - chances[0])
    return means(problem) @ shares * pulls[last]


# --- costs on a lattice -----------------------------------------------------------------------


def test_the_papers_arms() -> None:
    assert optimum(PAPER, 1000) == pytest.approx(1300.5, abs=1e-9)


@pytest.mark.parametrize("budget", [3, 4.5, 20])
@pytest.mark.parametrize("largest", [1.0, 2.0])
def test_the_cost_of_a_run_holds_the_expected_one(budget: float, largest: float) -> None:
    """Wald: the renewal equation's reward is the mean reward of a unit of cost times E[cost]."""
    costs = Bernoulli(0.5), TwoPoint(0.0, largest, 0.25)
    arms = [arm("a", costs[0], 1.0), arm("b", costs[1], 1.0)]
    problem = Problem(arms, limit=None, scales=Scales(cost=2.0))
    shares = np.array([0.4, 0.6])
    expected = by_shares(problem, shares, budget, 1.0)[0] * (0.4 * 0.5 + 0.6 * 0.25 * largest)
    low, high = cost_of_a_run(problem, budget)
    assert low - 1e-9 <= expected <= high + 1e-9
    assert (low == high) == (largest == 1.0)


@pytest.mark.parametrize("budget", [2, 2.5, 7, 40])
def test_equal_costs_agree_with_the_program(budget: float) -> None:
    assert optimum(PAPER, budget) == pytest.approx(by_occupation(PAPER, budget, 1.0), rel=1e-7)


@pytest.mark.parametrize("budget", [2, 12, 1000])
def test_the_closed_form_agrees_with_the_recursion(budget: float) -> None:
    useless = Arm("useless", Constant(0.5), Constant(0.0), Constant(1.0))
    longer = Problem([*PAPER.arms, useless], limit=0.8)  # no longer one step for all
    assert Costs([one.cost for one in longer.arms]).common_step() == 0.5
    assert optimum(longer, budget) == pytest.approx(optimum(PAPER, budget), rel=1e-8)


steps = st.integers(1, 6)
outcome = st.floats(0, 1) | st.sampled_from([0.0, 0.2, 0.5])


@st.composite
def lattice_problems(draw: st.DrawFn) -> tuple[Problem, float, float]:
    """A problem whose costs are multiples of a step, a budget, and the step."""
    most, count = draw(steps), draw(st.integers(0, 2))
    places = st.lists(st.integers(0, most), min_size=1, max_size=3, unique=True)
    arms = []
    for k in range(draw(st.integers(1, 3))):
        values = draw(places.filter(any))
        weights = [draw(st.integers(1, 5)) for _ in values]
        cost = Discrete(tuple(value / most for value in values), weights)
        outcomes = [draw(outcome) for _ in range(1 + count)]
        arms.append(arm(f"arm {k}", cost, *outcomes))
    rates = [one.laws[2].mean / one.cost.mean for one in arms] if count else [1.0]
    limit = st.floats(0.2, 2) | st.sampled_from([rate for rate in rates if rate > 0.01] or [0.5])
    problem = Problem(arms, limit=[draw(limit) for _ in range(count)])
    return problem, draw(st.sampled_from([0.3, 1.0, 2.5, 8.0, 15.0])), 1 / most


@settings(max_examples=150, deadline=None)
@given(lattice_problems())
def test_agrees_with_the_program_over_all_policies(case: tuple[Problem, float, float]) -> None:
    problem, budget, step = case
    expected = by_occupation(problem, budget, step)
    try:
        found = optimum(problem, budget)
    except InfeasibleError:
        # The solver's tolerance lets it pass what misses a limit by 1e-7; nothing more.
        tighter = Problem(problem.arms, limit=[limit * (1 - 1e-5) for limit in problem.limits])
        assert expected is None or by_occupation(tighter, budget, step) is None
        return
    assert expected is not None
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(lattice_problems(), st.lists(st.integers(0, 4), min_size=3, max_size=3))
def test_no_allowed_stationary_policy_earns_more(
    case: tuple[Problem, float, float], odds: list[int]
) -> None:
    problem, budget, step = case
    chosen = np.array(odds[: problem.arm_count], dtype=np.float64)
    assume(chosen.sum() > 0)
    reward, *penalties = by_shares(problem, chosen / chosen.sum(), budget, step)
    assume(np.all(np.array(penalties) <= np.array(problem.limits) * budget))
    assert optimum(problem, budget) >= reward - 1e-8


def test_the_oracle_policy_breaks_the_limit_by_its_last_pull_so_the_optimum_may_earn_less() -> None:
    reward, penalty = by_shares(PAPER, oracle(PAPER).pull_share, 1000, 1.0)
    assert reward == pytest.approx(1301.3)
    assert penalty > 800
    assert optimum(PAPER, 1000) < reward


def test_long_budgets_go_on_in_a_straight_line() -> None:
    problem = Problem(
        [
            arm("a", Discrete((0.0, 0.4, 1.0), (1, 2, 1)), 0.7, 0.9),
            arm("b", TwoPoint(0.2, 0.6, p=0.3), 0.2, 0.1),
        ],
        limit=0.7,
    )
    assert optimum(problem, 60) == pytest.approx(by_occupation(problem, 60, 0.2), rel=1e-7)
    rate = oracle(problem).reward_rate
    assert optimum(problem, 1e6) - optimum(problem, 1e5) == pytest.approx(9e5 * rate, rel=1e-8)


@pytest.mark.parametrize(
    ("budget", "expected"), [(299.9, 600.2), (300.0, 600.6), (300.1, 600.7), (300.2, 600.8)]
)
def test_periodic_costs_keep_their_phase(budget: float, expected: float) -> None:
    """Dear pulls of 0.3 until the budget is spent exactly, cheap ones to get there, a last one."""
    problem = Problem([arm("dear", Constant(0.3), 0.6), arm("cheap", Constant(0.1), 0.1)])
    assert optimum(problem, budget) == pytest.approx(expected)


def test_three_limits() -> None:
    problem = Problem(
        [
            arm("a", TwoPoint(0.0, 1.0, p=0.5), 0.9, 0.5, 0.1, 0.3),
            arm("b", Constant(0.5), 0.5, 0.1, 0.4, 0.1),
            arm("c", TwoPoint(0.5, 1.0, p=0.5), 0.4, 0.2, 0.1, 0.4),
        ],
        limit=(0.6, 0.5, 0.5),
    )
    assert optimum(problem, 20) == pytest.approx(by_occupation(problem, 20, 0.5), rel=1e-7)


# --- costs that are not on a lattice ----------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "pulls"),
    [(0.001, exp(0.001)), (0.5, exp(0.5)), (1, e), (2, e**2 - e), (1000, 2000 + 2 / 3)],
)
def test_uniform_costs_have_a_renewal_function(budget: float, pulls: float) -> None:
    problem = Problem([arm("a", Uniform(0.0, 1.0), 1.0)])
    assert optimum(problem, budget) == pytest.approx(pulls, rel=1e-6)


def test_arms_of_one_cost_law_share_a_closed_form() -> None:
    """Whatever is pulled, e pulls on average: the limit holds for their average penalty."""
    arms = [arm("a", Uniform(0.0, 1.0), 0.9, 0.8), arm("b", Uniform(0.0, 1.0), 0.4, 0.2)]
    share = (1.5 / e - 0.2) / 0.6
    expected = e * (0.9 * share + 0.4 * (1 - share))
    assert optimum(Problem(arms, limit=1.5), 1.0) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (0.1, 0.45),  # the fixed price at once
        (0.25, 0.45 * exp(0.25 - 1 / 9)),  # cheap draws until 1/9 is left
        (0.2999, 0.45 * exp(0.2999 - 1 / 9)),
        (0.3, 0.9),  # two fixed prices fit: the cost may reach the budget
        (0.35, 0.9),
    ],
)
def test_fixed_prices_beside_continuous_ones(budget: float, expected: float) -> None:
    problem = Problem([arm("fixed", Constant(0.3), 0.45), arm("drawn", Uniform(0.0, 1.0), 0.4)])
    assert optimum(problem, budget) == pytest.approx(expected, rel=1e-5)


def test_prices_that_share_no_step() -> None:
    """Against the program over the sums that the two prices can reach."""
    first, second, budget, limit = pi / 10, e / 10, 6.0, 1.0
    problem = Problem(
        [arm("a", Constant(first), 0.5, 0.5), arm("b", Constant(second), 0.4, 0.1)], limit
    )
    states = {
        (i, j): n
        for n, (i, j) in enumerate(
            (i, j) for i in range(20) for j in range(23) if i * first + j * second <= budget
        )
    }
    flow = lil_array((len(states), 2 * len(states)))
    for (i, j), n in states.items():
        for k, then in enumerate([(i + 1, j), (i, j + 1)]):
            flow[n, 2 * n + k] += 1
            if then in states:
                flow[states[then], 2 * n + k] -= 1
    result = linprog(
        -np.tile([0.5, 0.4], len(states)),
        A_ub=np.tile([0.5, 0.1], len(states))[None, :],
        b_ub=[limit * budget],
        A_eq=flow.tocsr(),
        b_eq=np.eye(len(states))[0],
        method="highs",
    )
    assert optimum(problem, budget) == pytest.approx(-result.fun, rel=1e-5)


MIXED = Problem(
    [
        Arm("wide", Uniform(0.0, 1.0), Bernoulli(0.9), CostAbove(0.4)),
        arm("steady", TruncatedNormal(0.4, 0.1, 0.0, 1.0), 0.5, 0.3),
        arm("cheap", Beta(0.5, 1.5), 0.2, 0.1),
        arm("fixed", Constant(0.3), 0.3, 0.25),
    ],
    limit=0.8,
)


@pytest.mark.parametrize("budget", [1.0, 3.7, 100.0])
def test_halving_the_step_changes_little(budget: float, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = optimum(MIXED, budget)
    module = import_module("tightrope.optimum.exact")
    monkeypatch.setattr(module, "REFINED", 1e-8)
    found = []
    for cells in (128, 256):
        monkeypatch.setattr(module, "CELLS", cells)
        monkeypatch.setattr(module, "MOST_CELLS", 2 * cells)
        found.append(optimum(MIXED, budget))
    assert found[0] == pytest.approx(found[1], rel=1e-4)
    assert usual == pytest.approx(found[1], rel=1e-5)


def test_observed_rows_count_by_their_costs_and_means() -> None:
    rows = [(0.2, 0.9, 0.1), (0.6, 0.1, 0.9), (1.0, 0.5, 0.2)]
    cost = Discrete((0.2, 0.6, 1.0), (1, 1, 1))
    observed = Problem([Arm.from_rows("a", rows), arm("b", Constant(0.2), 0.05, 0.02)], limit=0.5)
    described = Problem([arm("a", cost, 0.5, 0.4), arm("b", Constant(0.2), 0.05, 0.02)], limit=0.5)
    assert optimum(observed, 9) == pytest.approx(optimum(described, 9), rel=1e-9)


# --- what holds everywhere --------------------------------------------------------------------


def in_units(problem: Problem, cost: float, reward: float, penalty: float) -> Problem:
    """Constant and uniform outcomes, in other units."""

    def scaled(law: Law, unit: float) -> Law:
        if isinstance(law, Constant):
            return Constant(law.value * unit)
        return Uniform(law.low * unit, law.high * unit)

    arms = [
        Arm(
            one.name,
            scaled(one.cost, cost),
            scaled(one.laws[1], reward),
            [scaled(law, penalty) for law in one.laws[2:]],
        )
        for one in problem.arms
    ]
    limits = [limit * penalty / cost for limit in problem.limits]
    return Problem(arms, limits, scales=Scales(cost, reward, penalty))


@pytest.mark.parametrize("other", [Uniform(0.2, 0.9), Constant(0.5)])
def test_units_do_not_matter(other: Law) -> None:
    problem = Problem([arm("a", Constant(0.3), 0.6, 0.5), arm("b", other, 0.5, 0.1)], limit=0.7)
    dollars = in_units(problem, cost=49.99, reward=0.07, penalty=300.0)
    for budget in (0.7, 2.0, 90.0):
        expected = 0.07 * optimum(problem, budget)
        assert optimum(dollars, 49.99 * budget) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("problem", [PAPER, MIXED])
def test_a_wider_limit_never_earns_less(problem: Problem) -> None:
    limits = (0.8, 0.9, 1.0, 1.2, 1.6, 5.0)
    found = [optimum(Problem(problem.arms, limit=limit), 7.5) for limit in limits]
    assert all(later >= earlier * (1 - 1e-6) for earlier, later in pairwise(found))
    free = Problem([Arm(one.name, one.cost, one.reward) for one in problem.arms])
    assert found[-1] == pytest.approx(optimum(free, 7.5), rel=1e-6)


@pytest.mark.parametrize("problem", [PAPER, MIXED])
def test_per_unit_of_budget_it_approaches_the_oracle(problem: Problem) -> None:
    rate = oracle(problem).reward_rate
    for budget in (1e2, 1e3, 1e4, 1e5):
        assert abs(optimum(problem, budget) - rate * budget) < 2


@pytest.mark.parametrize("budget", [500, 1000, 1001])
def test_an_arm_exactly_at_the_limit_ends_the_search(budget: float) -> None:
    """Pulling it alone earns 7 per unit of cost; corners beside it are close together."""
    figures = [(0.03, 0.55, 0.12), (0.1, 0.7, 0.06), (0.33, 0.85, 0.02)]
    arms = [Arm(f"{c}", Constant(c), Bernoulli(r), Bernoulli(y)) for c, r, y in figures]
    found = optimum(Problem(arms, limit=0.6), budget)
    assert 7.0 * budget <= found <= 7.0 * (budget + 0.33)


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [-1, 0, float("nan"), float("inf"), "10", True])
def test_a_budget_must_be_positive_and_finite(budget: object) -> None:
    with pytest.raises(InputError, match="budget = "):
        optimum(PAPER, budget)  # type: ignore[arg-type]


def test_a_limit_below_every_arm_is_refused_as_the_oracle_does() -> None:
    with pytest.raises(InfeasibleError, match=r"limit = 0\.4: must be at least 0\.5"):
        optimum(Problem(PAPER.arms, limit=0.4), 10)


@pytest.mark.parametrize("cost", [Constant(0.5), TwoPoint(0.25, 0.75, p=0.5), Uniform(0.0, 1.0)])
def test_a_short_budget_may_be_infeasible_where_a_long_one_is_not(cost: Law) -> None:
    problem = Problem([arm("only", cost, 0.5, 0.5)], limit=1.1)
    with pytest.raises(InfeasibleError, match=r"budget = 1\.0 with limit = 1\.1: "):
        optimum(problem, 1.0)
    assert optimum(problem, 20.0) > 20.0


def test_limits_that_no_policy_keeps_together_are_named() -> None:
    arms = [arm("a", Constant(0.5), 0.5, 0.1, 0.5), arm("b", Constant(1.0), 0.5, 1.0, 0.2)]
    problem = Problem(arms, limit=(0.64, 0.64))
    with pytest.raises(InfeasibleError, match=r"limit 1 = 0\.64 and limit 2 = 0\.64"):
        optimum(problem, 2.0)


def test_a_mixture_of_least_violating_policies_has_an_upper_bound_too() -> None:
    """Only policies found in search of the limits may keep them: their weights bound nothing."""
    late, coin = CostAbove(0.5), Bernoulli(0.5)
    middle = TruncatedNormal(0.5, 0.2, 0.1, 0.9)
    problem = Problem(
        [
            Arm("a", coin, late, [middle, middle]),
            Arm("b", coin, coin, [coin, TwoPoint(0.0, 1.0, 0.3)]),
            Arm("c", Uniform(0.1, 0.7), late, [coin, Discrete((0.2, 0.5, 1.0), (1, 2, 3))]),
        ],
        limit=(2.0, 0.8),
    )
    assert optimum(problem, 20) == pytest.approx(21.0)  # arm b alone keeps both limits
