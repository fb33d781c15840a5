"""LyOff and LyOn for requests with types: engines, the oracle over types, one type, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from tightrope import Arm, Bernoulli, Controller, Limit, LyOff, LyOn, Problem, Task, simulate
from tightrope.errors import PolicyError
from tightrope.policies.base import set_up
from tightrope.policies.choice import WORDS
from tightrope.policies.typed_lyapunov import (
    MEANS,
    RowIndices,
    TypedLyOff,
    TypedLyOn,
    _best_at_the_root,
)


def arms(*odds):
    return [Arm(f"arm {k}", *map(Bernoulli, three)) for k, three in enumerate(odds)]


# Costs, rewards and penalties depend on the type and the arm, so that the ratio of two means is not
# the mean of ratios.
WEEKDAY = arms((0.4, 0.8, 0.6), (0.6, 0.6, 0.3), (0.9, 0.9, 0.8))
WEEKEND = arms((0.5, 0.3, 0.2), (0.5, 0.5, 0.3), (0.2, 0.4, 0.3))


def problem_with(kinds=("weekday", "weekend"), **limits):
    table, shares = {"weekday": WEEKDAY, "weekend": WEEKEND}, {"weekday": 5, "weekend": 2}
    return Problem(
        {kind: table[kind] for kind in kinds},
        contexts={kind: shares[kind] for kind in kinds},
        **(limits or {"limit": 0.8}),
    )


@pytest.fixture(scope="module")
def problem():
    return problem_with()


def best_rate(problem):
    """The largest reward per unit of cost of a mixture per type that keeps the limits.

    Variables: u_xk, the pulls of arm k for type x per unit of cost; and the requests per unit.
    """
    each, shares = [one.moments for one in problem.by_type], list(problem.shares.values())
    rows, count = len(shares) * problem.arm_count, problem.arm_count
    means = {
        name: np.concatenate([getattr(one, name) for one in each])
        for name in ("cost", "reward", "net")
    }
    equal, right = np.zeros((1 + len(shares), rows + 1)), np.zeros(1 + len(shares))
    equal[0, :-1], right[0] = means["cost"], 1.0
    for kind, share in enumerate(shares):
        equal[1 + kind, kind * count : (kind + 1) * count] = 1.0
        equal[1 + kind, -1] = -share
    limits = each[0].limits
    below = np.column_stack([means["net"].T, np.zeros(len(limits))])
    found = linprog(
        -np.append(means["reward"], 0.0), A_ub=below, b_ub=limits, A_eq=equal, b_eq=right
    )
    return -found.fun


def rates(runs):
    """The reward per unit of cost over all runs, its standard error, and the penalties."""
    reward = (runs.reward / runs.cost).ravel()
    penalty = runs.penalty.reshape(len(reward), -1).mean(axis=0)
    return reward.mean(), reward.std() / np.sqrt(len(reward)), penalty / runs.cost.mean()


# --- engines ----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["lyoff", "lyon", "lyon:beta0=0,penalty_bonus=as-printed"])
@pytest.mark.parametrize("delay", [0, 3])
def test_compiled_runs_are_those_of_plain_python(problem, policy, delay):
    made = [
        simulate(problem, {"it": policy}, budgets=[60], runs=3, backend=backend, delay=delay)
        for backend in ("python", "cpu")
    ]
    plain, compiled = (one["it"].runs for one in made)
    for name in ("reward", "cost", "penalty", "pulls", "arm_cost", "queue"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(compiled, name))


def test_two_limits_and_a_limit_per_pull_run_on_both_engines():
    kinds = {
        name: [
            Arm(f"arm {k}", Bernoulli(x), Bernoulli(r), {"bad": Bernoulli(y), "late": Bernoulli(z)})
            for k, (x, r, y, z) in enumerate(table)
        ]
        for name, table in {
            "x": [(0.4, 0.8, 0.6, 0.1), (0.6, 0.6, 0.3, 0.4)],
            "y": [(0.5, 0.4, 0.2, 0.3), (0.5, 0.5, 0.5, 0.2)],
        }.items()
    }
    limits = {"bad": Limit(0.45, per="pull"), "late": Limit(0.5)}
    both = Problem(kinds, limits=limits, contexts={"x": 1, "y": 1})
    for policy in ("lyoff", "lyon"):
        plain, compiled = (
            simulate(both, policy, budgets=[40], runs=2, backend=backend)[policy].runs
            for backend in ("python", "cpu")
        )
        np.testing.assert_array_equal(plain.pulls, compiled.pulls)
    runs = simulate(both, "lyoff", budgets=[10_000], runs=20)["lyoff"].runs
    earned, error, _ = rates(runs)
    assert earned == pytest.approx(best_rate(both), abs=5 * error + 0.02)
    bad, late = runs.penalty.reshape(20, 2).sum(axis=0)
    assert bad / runs.pulls.sum() == pytest.approx(0.45, abs=0.01)
    assert late / runs.cost.sum() < 0.51


# --- what they earn ---------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "near"), [("lyoff", 0.0005), ("lyon", 0.02)])
def test_the_rates_approach_those_of_the_oracle_over_types(problem, policy, near):
    """The distance from the oracle's rate and the limit falls with the budget."""
    best, found = best_rate(problem), {}
    for budget, runs in ((1000, 200), (64_000, 20)):
        ran = simulate(problem, policy, budgets=[budget], runs=runs)[policy].runs
        earned, error, penalty = rates(ran)
        found[budget] = abs(earned - best), abs(penalty[0] - 0.8), error
    assert found[64_000][0] < near + 4 * found[64_000][2]
    assert found[64_000][1] < 0.002 if policy == "lyoff" else found[64_000][1] < 0.02
    assert found[64_000][1] < 0.4 * found[1000][1]


def test_types_are_worth_something(problem):
    """LyOff with types earns more than the best mixture that ignores them."""
    means = problem.moments
    reward, net = means.reward_rate, means.penalty_rate[:, 0]
    blind = -linprog(-reward, A_ub=[net], b_ub=[0.8], A_eq=[np.ones(3)], b_eq=[1.0]).fun
    assert best_rate(problem) > 1.04 * blind
    earned, error, _ = rates(simulate(problem, "lyoff", budgets=[10_000], runs=20)["lyoff"].runs)
    assert earned - 4 * error > blind


def test_the_bounds_of_the_theorem_hold():
    """docs/contexts-theory.md: the reward and the violation of LyOff, with their constants."""
    problem, budget, limit, runs = problem_with(), 2000.0, 0.8, 100
    policy = LyOff(v0=1.0, delta0=0.5)
    v, delta = policy.schedule.at(budget)
    least = min(one.moments.smallest_cost for one in problem.by_type)
    slack, best = 0.8 - best_low(problem), best_rate(problem)
    ran = simulate(problem, policy, budgets=[budget], runs=runs)[policy.label].runs
    lost = best * (1 + delta * budget / slack) + (budget + 1) / (2 * v * least)
    assert ran.reward.mean() > best * (budget + 1) - lost
    drift = (slack - delta) * least / 2
    dearest = max(one.moments.reward_rate.max() for one in problem.by_type)
    longest = 2 * v * dearest / (slack - delta) + 1 + np.log1p((budget + 1) / least) / drift
    assert ran.queue.mean() < longest
    assert ran.penalty.mean() / budget - limit < (limit + longest) / budget - delta


def best_low(problem):
    """The smallest penalty rate of a mixture per type, by trying every arm for every type."""
    each, shares = [one.moments for one in problem.by_type], list(problem.shares.values())
    found = []
    for chosen in np.ndindex(*[problem.arm_count] * len(shares)):
        cost = sum(p * one.cost[k] for p, one, k in zip(shares, each, chosen, strict=True))
        net = sum(p * one.net[k, 0] for p, one, k in zip(shares, each, chosen, strict=True))
        found.append(net / cost)
    return min(found)


# --- invariances ------------------------------------------------------------------------------


def test_with_one_type_lyoff_pulls_the_arms_of_the_paper():
    """The same outcomes, and a V at which no two indices are ever equal up to rounding."""
    policy = LyOff(v0=1.0123, delta0=0.4567)
    found = [
        simulate(each, {"it": policy}, budgets=[400], runs=5, backend="python", precision="double")
        for each in (Problem(WEEKDAY, limit=0.8), problem_with(["weekday"]))
    ]
    plain, typed = (one["it"].runs for one in found)
    np.testing.assert_array_equal(plain.pulls, typed.pulls)
    np.testing.assert_array_equal(plain.reward, typed.reward)


def test_with_one_type_lyon_earns_what_the_paper_does():
    """The queue counts the exploration, which the paper's does not; the rest is the same."""
    plain = Problem(WEEKDAY, limit=0.8)
    one = problem_with(["weekday"])
    found = [simulate(each, "lyon", budgets=[4000], runs=100)["lyon"].runs for each in (plain, one)]
    (earned, error, penalty), (earned1, error1, penalty1) = map(rates, found)
    assert abs(earned - earned1) < 0.01 + 4 * np.hypot(error, error1)
    assert abs(penalty[0] - penalty1[0]) < 0.02
    assert penalty1[0] < penalty[0]


@pytest.mark.parametrize("policy", ["lyoff", "lyon"])
def test_permuting_types_changes_nothing_in_distribution(policy):
    turned = [problem_with(kinds) for kinds in (("weekday", "weekend"), ("weekend", "weekday"))]
    found = [simulate(one, policy, budgets=[300], runs=400)[policy].runs for one in turned]
    for name in ("reward", "penalty"):
        values = [getattr(one, name).ravel() for one in found]
        error = np.hypot(*(one.std() / 20 for one in values))
        assert abs(values[0].mean() - values[1].mean()) < 4 * error


@pytest.mark.parametrize("policy", [LyOff(), LyOn(delta0=15, alpha=0.5)])
def test_a_task_without_contexts_runs_the_paper(policy):
    plain = Problem(WEEKDAY, limit=0.8)
    assert policy.for_task(plain) is policy
    typed = policy.for_task(problem_with())
    assert type(typed) is {"lyoff": TypedLyOff, "lyon": TypedLyOn}[policy.name]
    assert typed.label == policy.label
    assert typed.without_types() == policy
    assert typed.for_task(problem_with()) is typed


# --- a step -----------------------------------------------------------------------------------


def scratch_of(rows, queue, share, cost, reward, penalty):
    zeros = np.zeros(rows)
    return RowIndices(
        np.array([queue]), np.zeros(2), np.zeros(1), share, cost, zeros, reward, penalty
    )


def test_theta_is_the_root_and_the_arm_the_best():
    """Against bisection, on random means."""
    random = np.random.default_rng(1)
    for _ in range(200):
        types, count = random.integers(1, 5, 2)
        rows = types * count
        share = np.repeat(random.random(types), count)
        cost, index = random.uniform(0.05, 1, rows), random.normal(size=rows) * 30
        scratch = scratch_of(rows, 0.0, share, cost, index, index)
        scratch.gain[:] = index
        scratch.theta[0] = random.normal() * 100
        kind = int(random.integers(types))
        row = _best_at_the_root(scratch, kind, count)

        def above(theta, cost=cost, index=index, share=share, shape=(types, count)):
            values = (share * cost * (index - theta)).reshape(shape)
            return values.max(axis=1).sum()

        low, high = -200.0, 200.0
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if above(middle) > 0 else (low, middle)
        assert scratch.theta[0] == pytest.approx(high, abs=1e-9)
        values = (cost * (index - high))[kind * count : (kind + 1) * count]
        assert values[row - kind * count] == pytest.approx(values.max(), abs=1e-8)


def test_lyoff_knows_the_means_of_every_row(problem):
    policy = LyOff(v=10.0, delta=0.1).for_task(problem)
    setup = set_up(policy, problem, 100.0)
    means = np.array(setup.constants[MEANS:]).reshape(6, 4)
    np.testing.assert_allclose(means[:, 0], [5 / 7] * 3 + [2 / 7] * 3)
    np.testing.assert_allclose(means[:, 1], [0.4, 0.6, 0.9, 0.5, 0.5, 0.2])
    np.testing.assert_allclose(means[0, 2:], [0.8 / 0.4, 0.6 / 0.4])
    assert setup.allowance == pytest.approx((0.7,))
    assert WORDS == 2


# --- live -------------------------------------------------------------------------------------

TASK = Task(["a", "b"], {"bad": Limit(0.5, per="pull")}, costs=1, contexts=["x", "y"])


def test_lyon_in_a_controller_learns_each_type_by_itself():
    controller = Controller(TASK, LyOn(alpha=0.1), budget=600)
    for number in range(500):
        context = "xy"[number % 2]
        arm = controller.ask(context=context)
        good = (arm == 0) == (context == "x")
        controller.tell(arm, reward=float(good), penalty=0.0, context=context)
    shares = controller.pulls_by_type
    assert shares["x"][0] > 200
    assert shares["y"][1] > 200
    restored = Controller.restore(controller.snapshot())
    assert restored == controller
    assert restored.ask(context="x") == controller.copy().ask(context="x")


def test_what_does_not_apply_is_refused_in_one_line():
    for parameter in ("window0", "discount0"):
        policy = LyOn(**{parameter: 4.0})
        with pytest.raises(PolicyError, match=f"{parameter} = 4.0 must be none for requests with"):
            policy.for_task(TASK)
    with pytest.raises(PolicyError, match="policy lyoff: knows the arms' distributions") as told:
        Controller(TASK, LyOff(), budget=10)
    assert "\n" not in str(told.value)
