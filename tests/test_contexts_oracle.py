"""pi* and OPT(B) of requests with types, against brute force and against the plain problem."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations, product
from math import floor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import lil_array

from tightrope import LyOn, Resolve, simulate
from tightrope.engine.caveats import warn_infeasible, warn_out_of_reach
from tightrope.errors import InfeasibleError, InfeasibleLimitsWarning, RiskWarning
from tightrope.optimum.exact import cost_of_a_run, optimum
from tightrope.optimum.pi_star import infeasible, least_factor, oracle
from tightrope.policies import UCBLP
from tightrope.problem import Arm, Limit, Problem, Scales
from tightrope.problem.distributions import Bernoulli, Constant, Discrete, TwoPoint, Uniform

Floats = NDArray[np.float64]
PER = {"cost": 0.9, "pull": 0.45, "reward": 0.85}


def coins(*means: tuple[float, ...]) -> list[Arm]:
    return [
        Arm(f"arm {k}", Bernoulli(c), Bernoulli(r), [Bernoulli(y) for y in penalties])
        for k, (c, r, *penalties) in enumerate(means)
    ]


WEEKDAY = coins((0.4, 0.8, 0.6), (0.6, 0.6, 0.3), (0.9, 0.9, 0.5))
WEEKEND = coins((0.5, 0.3, 0.2), (0.9, 0.6, 0.1), (0.3, 0.4, 0.3))
HOLIDAY = coins((0.2, 0.5, 0.9), (0.7, 0.2, 0.6), (0.8, 0.7, 0.7))
TYPES = {"weekday": WEEKDAY, "weekend": WEEKEND, "holiday": HOLIDAY}
SHARES = {"weekday": 5, "weekend": 2, "holiday": 0.5}
TYPED = Problem(TYPES, limit=0.6, contexts=SHARES)


def drawn(seed: int, per: str = "cost", types: int = 3, arms: int = 3) -> Problem:
    """A problem with one limit and means drawn at random."""
    means = np.random.default_rng(seed).uniform(0.05, 0.95, (types, arms, 3))
    named = {f"type {x}": coins(*map(tuple, means[x].tolist())) for x in range(types)}
    shares = {name: 1.0 + x for x, name in enumerate(named)}
    return Problem(named, limits={"bad": Limit(PER[per], per=per)}, contexts=shares)


def means(problem: Problem) -> Floats:
    """[T, K, 2 + M]."""
    return np.array(
        [[[law.mean for law in arm.laws] for arm in arms] for arms in problem.typed.values()]
    )


def by_maps(problem: Problem) -> float:
    """The best reward rate of any mixture of two maps from types to arms, one limit."""
    each, shares = means(problem), np.array(list(problem.shares.values()))
    [kind], [limit] = problem.limit_kinds, problem.limits
    points = []
    for arms in product(range(problem.arm_count), repeat=len(shares)):
        cost, reward, penalty = shares @ each[np.arange(len(shares)), arms]
        over = penalty - limit * kind.unit.pick(cost, 1.0, reward)  # at most 0 if it is kept
        points.append((reward / cost, over / cost))
    best = max((reward for reward, over in points if over <= 1e-12), default=-np.inf)
    for (r1, o1), (r2, o2) in combinations(points, 2):
        if o1 * o2 < 0.0:
            best = max(best, (r1 * o2 - r2 * o1) / (o2 - o1))
    return best


def by_occupation(problem: Problem, budget: float, step: float) -> float | None:
    """OPT(B) as a linear program over the expected pulls by cost spent, type and arm."""
    last, shares = floor(budget / step + 1e-9), list(problem.shares.values())
    rows = [arm for arms in problem.typed.values() for arm in arms]
    count, arms = len(rows), problem.arm_count
    flow = lil_array(((last + 1) * len(shares), (last + 1) * count))
    for spent, (row, one) in product(range(last + 1), enumerate(rows)):
        flow[spent * len(shares) + row // arms, spent * count + row] += 1.0
        for value, chance in zip(*one.cost.atoms(), strict=True):
            if (then := spent + round(value / step)) <= last:
                for x, share in enumerate(shares):
                    flow[then * len(shares) + x, spent * count + row] -= chance * share
    _, reward, *penalties = np.tile(means(problem).reshape(count, -1).T, last + 1)
    found = linprog(
        -reward,
        A_ub=np.array(penalties),
        b_ub=np.array(problem.limits) * budget,
        A_eq=flow.tocsr(),
        b_eq=np.append(shares, np.zeros(last * len(shares))),
        method="highs",
    )
    assert found.status in (0, 2), found.message
    return None if found.status == 2 else -float(found.fun)


# --- pi* --------------------------------------------------------------------------------------


@pytest.mark.parametrize("per", PER)
@pytest.mark.parametrize("seed", range(6))
def test_the_oracle_is_the_best_mixture_of_two_maps(seed: int, per: str) -> None:
    problem = drawn(seed, per)
    expected = by_maps(problem)
    if expected == -np.inf:
        with pytest.raises(InfeasibleError):
            oracle(problem)
        assert infeasible(problem) is not None
        return
    best = oracle(problem)
    assert infeasible(problem) is None
    assert best.reward_rate == pytest.approx(expected, rel=1e-9)
    assert best.penalty_rate[0] <= problem.limits[0] * (1 + 1e-9)


@pytest.mark.parametrize("per", PER)
def test_its_mixtures_earn_what_it_says(per: str) -> None:
    problem = drawn(4, per)
    best, shares = oracle(problem), np.array(list(problem.shares.values()))
    assert best.type_names == tuple(problem.shares)
    assert best.by_type is not None
    assert best.by_type.shape == (3, 3)
    assert best.by_type.sum(axis=1) == pytest.approx(np.ones(3), abs=1e-12)
    pulls = shares[:, np.newaxis] * best.by_type
    cost, reward, penalty = np.einsum("xk,xkc->c", pulls, means(problem))
    assert reward / cost == pytest.approx(best.reward_rate, rel=1e-12)
    base = problem.limit_kinds[0].unit.pick(cost, 1.0, reward)
    assert penalty / base == pytest.approx(best.penalty_rate[0], rel=1e-12)
    assert pulls.sum(axis=0) == pytest.approx(best.pull_share, abs=1e-12)
    spent = (pulls * means(problem)[..., 0]).sum(axis=0) / cost
    assert spent == pytest.approx(best.cost_share, abs=1e-12)


def test_multipliers_prove_that_nothing_is_better() -> None:
    """At the limits' prices no map has a higher rate, with two limits of different kinds."""
    limits = {"late": Limit(0.5), "bad": Limit(0.35, per="pull")}
    arms = {
        "a": coins((0.4, 0.8, 0.6, 0.2), (0.6, 0.6, 0.3, 0.5), (0.9, 0.3, 0.1, 0.1)),
        "b": coins((0.5, 0.9, 0.2, 0.9), (0.7, 0.5, 0.6, 0.1), (0.8, 0.4, 0.1, 0.3)),
    }
    problem = Problem(arms, limits=limits, contexts={"a": 2, "b": 3})
    best, each = oracle(problem), means(problem)
    late, bad = best.multiplier
    assert late > 0.0
    assert bad > 0.0
    cost, reward, *penalties = np.moveaxis(each, -1, 0)
    gain = reward - late * (penalties[0] - 0.5 * cost) - bad * (penalties[1] - 0.35)
    value = (gain - best.reward_rate * cost).max(axis=1) @ [0.4, 0.6]
    assert value == pytest.approx(0.0, abs=1e-9)


def test_the_units_of_the_user_change_nothing_but_units() -> None:
    plain = Problem(TYPES, limits={"bad": Limit(0.35, per="pull")}, contexts=SHARES)
    large = {
        name: [
            Arm(one.name, TwoPoint(0.0, 20.0, one.cost.mean), one.reward, one.penalty)
            for one in arms
        ]
        for name, arms in TYPES.items()
    }
    scaled = Problem(large, plain.limit, Scales(cost=20.0), contexts=SHARES)
    one, two = oracle(plain), oracle(scaled)
    assert two.reward_rate == pytest.approx(one.reward_rate / 20.0, rel=1e-12)
    assert two.penalty_rate == pytest.approx(one.penalty_rate, rel=1e-12)
    assert two.by_type == pytest.approx(one.by_type, abs=1e-9)


# --- OPT(B) -----------------------------------------------------------------------------------

STEPPED = Problem(
    {
        "a": [
            Arm("x", Discrete([0.0, 1.0, 3.0], [0.3, 0.5, 0.2]), Constant(0.7), Constant(0.8)),
            Arm("y", Constant(2.0), Constant(0.9), Constant(0.3)),
        ],
        "b": [
            Arm("x", TwoPoint(0.0, 2.0, 0.4), Constant(0.3), Constant(0.1)),
            Arm("y", TwoPoint(1.0, 3.0, 0.5), Constant(1.0), Constant(0.9)),
        ],
    },
    limit=0.28,
    scales=Scales(cost=3.0),
    contexts={"a": 3, "b": 2},
)


@pytest.mark.parametrize("budget", [3, 7, 7.5, 30])
def test_the_optimum_of_steps_agrees_with_the_program(budget: float) -> None:
    assert optimum(STEPPED, budget) == pytest.approx(by_occupation(STEPPED, budget, 1.0), rel=1e-8)


@pytest.mark.parametrize("budget", [2, 3.5, 25])
def test_the_optimum_of_zero_one_costs_agrees_with_the_program(budget: float) -> None:
    assert cost_of_a_run(TYPED, budget) == (floor(budget) + 1,) * 2
    assert optimum(TYPED, budget) == pytest.approx(by_occupation(TYPED, budget, 1.0), rel=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_drawn_problems_with_two_limits_agree_with_the_program(seed: int) -> None:
    draw = np.random.default_rng(seed)
    arms = {}
    for x in range(3):
        values = draw.uniform(0.1, 1.0, (2, 3)).tolist()
        laws = [Discrete([0.0, 1.0, 2.0], draw.dirichlet([1, 2, 2]).tolist()) for _ in range(2)]
        arms[str(x)] = [
            Arm(str(k), laws[k], Constant(r), [Constant(y), Constant(z)])
            for k, (r, y, z) in enumerate(values)
        ]
    shares = dict(zip(arms, draw.uniform(0.1, 1.0, 3), strict=True))
    problem = Problem(arms, limit=[0.5, 0.45], scales=Scales(cost=2.0), contexts=shares)
    expected = by_occupation(problem, 12, 1.0)
    if expected is None:
        with pytest.raises(InfeasibleError):
            optimum(problem, 12)
    else:
        assert optimum(problem, 12) == pytest.approx(expected, rel=1e-7)


def test_for_a_large_budget_it_is_the_oracles_rate() -> None:
    budget = 1e5
    rate = oracle(STEPPED).reward_rate
    assert optimum(STEPPED, budget) == pytest.approx(rate * budget, rel=1e-4)
    assert optimum(STEPPED, budget) - optimum(STEPPED, budget / 2) == pytest.approx(
        rate * budget / 2, rel=1e-7
    )


def test_continuous_costs_agree_with_a_recursion_by_quadrature() -> None:
    """Without limits; costs uniform in [0, h] leave W(b - X) as a mean over [b - h, b]."""
    table = {"a": [(0.4, 0.6), (1.0, 1.0)], "b": [(0.5, 0.2), (0.8, 0.7)]}
    arms = {
        name: [Arm(str(k), Uniform(0.0, h), Constant(r)) for k, (h, r) in enumerate(some)]
        for name, some in table.items()
    }
    problem = Problem(arms, contexts={"a": 1, "b": 3})
    expected = by_quadrature(table, [0.25, 0.75], 4.0, 200)
    assert optimum(problem, 4.0) == pytest.approx(expected, rel=2e-6)


def by_quadrature(table: dict[str, Any], shares: list[float], budget: float, count: int) -> float:
    """W by the trapezoidal rule, extrapolated over two steps; ``count`` cells per unit of cost."""

    def once(cells: int) -> float:
        step = 1.0 / cells
        nodes = round(budget * cells)
        sums, values = np.zeros(nodes + 2), np.zeros(nodes + 1)  # of trapezoids before a node
        for n in range(nodes + 1):
            value = values[n - 1] if n else 0.0
            for _ in range(200):
                last = 0.5 * (values[n - 1] + value) * step if n else 0.0
                value = sum(
                    share * max(r + _mean(sums, n, round(h * cells), last, step) for h, r in arms)
                    for share, arms in zip(shares, table.values(), strict=True)
                )
            values[n] = value
            sums[n + 1] = sums[n] + (0.5 * (values[n - 1] + value) * step if n else 0.0)
        return float(values[nodes])

    def _mean(sums: Floats, n: int, width: int, last: float, step: float) -> float:
        return float(sums[n] + last - sums[max(n - width, 0) + 1]) / (width * step)

    coarse, fine = once(count // 2), once(count)
    return fine + (fine - coarse) / 3.0


def test_a_hard_limit_has_a_bound_over_types() -> None:
    hard = Problem(TYPES, limits={"bad": Limit(total=30, hard=True)}, contexts=SHARES)
    soft = Problem(TYPES, limits={"bad": Limit(total=30)}, contexts=SHARES)
    assert optimum(soft, 60) <= optimum(hard, 60) <= optimum(soft, 60) * 1.1


# --- the plain problem ------------------------------------------------------------------------

PLAIN = Problem(WEEKDAY, limit=0.6)
EQUAL = Problem(dict.fromkeys("abc", WEEKDAY), limit=0.6, contexts={"a": 0.3, "b": 2, "c": 7})
ONE = Problem({"a": WEEKDAY}, limit=0.6, contexts={"a": 3})


@pytest.mark.parametrize("same", [EQUAL, ONE])
def test_equal_types_are_the_plain_problem_exactly(same: Problem) -> None:
    best, plain = oracle(same), oracle(PLAIN)
    for name in ("reward_rate", "penalty_rate", "multiplier"):
        assert getattr(best, name) == getattr(plain, name)
    assert np.array_equal(best.pull_share, plain.pull_share)
    assert np.array_equal(best.cost_share, plain.cost_share)
    assert best.by_type is not None
    assert plain.by_type is None
    assert all(np.array_equal(row, plain.pull_share) for row in best.by_type)
    assert [optimum(same, b) for b in (8, 100.5)] == [optimum(PLAIN, b) for b in (8, 100.5)]
    assert (same.task.slack, least_factor(same)) == (PLAIN.task.slack, least_factor(PLAIN))
    tight = {"penalty": 0.1}
    assert infeasible(same.with_limits(tight)) == infeasible(PLAIN.with_limits(tight))


@pytest.mark.parametrize("backend", ["python", "cpu"])
@pytest.mark.parametrize("same", [EQUAL, ONE])
def test_a_policy_that_ignores_types_runs_as_on_the_plain_problem(
    same: Problem, backend: str
) -> None:
    settings: Any = {"budgets": [50], "runs": 40, "seed": 4, "progress": False}
    settings |= {"backend": backend, "precision": "double"}
    [mine], [plain] = (simulate(one, UCBLP(), **settings).summary() for one in (same, PLAIN))
    for name in ("reward_rate", "violation", "regret", "regret_se", "pulls", "pull_share"):
        assert mine[name] == plain[name]


def test_the_order_of_types_changes_nothing() -> None:
    turned = Problem(
        dict(reversed(TYPES.items())), limit=0.6, contexts=dict(reversed(SHARES.items()))
    )
    one, two = oracle(TYPED), oracle(turned)
    assert two.type_names == one.type_names[::-1]
    assert two.reward_rate == pytest.approx(one.reward_rate, rel=1e-14)
    assert two.multiplier == pytest.approx(one.multiplier, rel=1e-14)
    assert one.by_type is not None
    assert two.by_type is not None
    assert two.by_type[::-1] == pytest.approx(one.by_type, abs=1e-14)
    assert optimum(turned, 20) == pytest.approx(optimum(TYPED, 20), rel=1e-14)


def test_the_problem_of_a_type_is_that_of_its_arms_alone() -> None:
    limits = {"bad": Limit(0.5, per="pull"), "dear": Limit(0.9, of="cost", per="pull")}
    typed = Problem(TYPES, limits=limits, contexts=SHARES, scales=Scales(cost=2.0))
    for arms, one in zip(TYPES.values(), typed.by_type, strict=True):
        alone = Problem(arms, limits=limits, scales=Scales(cost=2.0))
        assert (one, one.task) == (alone, alone.task)
    merged, order = Problem(
        TYPES | {"again": WEEKDAY}, limit=0.6, contexts={**SHARES, "again": 1}
    ).distinct
    assert order[0] == order[3]
    assert replace(merged) == merged
    assert merged.task == replace(merged).task


def test_a_type_in_two_parts_is_one_type() -> None:
    parts = {**TYPES, "weekday 2": WEEKDAY}
    split = Problem(parts, limit=0.6, contexts={**SHARES, "weekday": 2, "weekday 2": 3})
    assert oracle(split).reward_rate == pytest.approx(oracle(TYPED).reward_rate, rel=1e-14)
    assert optimum(split, 20) == pytest.approx(optimum(TYPED, 20), rel=1e-14)


def test_a_policy_that_sees_types_can_earn_more() -> None:
    blind = Problem(
        [Arm(f"arm {k}", *map(Bernoulli, row)) for k, row in enumerate(_mean_means(TYPED))], 0.6
    )
    assert oracle(TYPED).reward_rate > oracle(blind).reward_rate
    assert optimum(TYPED, 50) > optimum(blind, 50)
    assert TYPED.task.slack > blind.task.slack


def _mean_means(problem: Problem) -> list[list[float]]:
    shares = list(problem.shares.values())
    return np.tensordot(shares, means(problem), 1).tolist()


# --- limits that cannot be kept, and what simulations say -------------------------------------


def lowest_rate(problem: Problem) -> float:
    """The lowest penalty rate of any map from types to arms; per what the limit is."""
    each, shares = means(problem), np.array(list(problem.shares.values()))
    unit, rates = problem.limit_kinds[0].unit, []
    for arms in product(range(problem.arm_count), repeat=len(shares)):
        cost, reward, penalty = shares @ each[np.arange(len(shares)), arms]
        rates.append(penalty / unit.pick(cost, 1.0, reward))
    return min(rates)


@pytest.mark.parametrize("per", PER)
def test_the_least_limit_is_that_of_the_most_careful_map(per: str) -> None:
    problem = Problem(TYPES, limits={"bad": Limit(0.1, per=per)}, contexts=SHARES)
    lowest = lowest_rate(problem)
    assert least_factor(problem) == pytest.approx(lowest / 0.1, rel=1e-9)
    reason = infeasible(problem)
    assert reason is not None
    assert "\n" not in reason
    assert f"must be at least {lowest:.6g}, the lowest penalty rate that a mixture" in reason
    assert infeasible(problem.with_limits({"bad": lowest * 1.001})) is None
    with pytest.raises(InfeasibleError, match="for each type can reach"):
        oracle(problem)
    with pytest.raises(InfeasibleError):
        optimum(problem, 50)
    with pytest.warns(InfeasibleLimitsWarning, match="for each type can reach"):
        warn_infeasible(problem, [50])


def test_limits_that_only_a_policy_with_types_keeps_are_no_reason_to_warn() -> None:
    """Each arm breaks the limit over all types, but the right one for each type keeps it."""
    arms = {
        "a": coins((0.5, 0.5, 0.1), (0.5, 0.5, 0.9)),
        "b": coins((0.5, 0.5, 0.9), (0.5, 0.5, 0.1)),
    }
    problem = Problem(arms, limit=0.5, contexts={"a": 1, "b": 1})
    assert infeasible(problem) is None
    assert problem.task.slack == pytest.approx(0.6)
    assert oracle(problem).by_type == pytest.approx(np.eye(2))


def test_two_limits_that_cannot_be_kept_together() -> None:
    arms = {
        "a": coins((1, 0.5, 0.2, 0.8), (1, 0.5, 0.8, 0.2)),
        "b": coins((1, 0.5, 0.3, 0.7), (1, 0.5, 0.7, 0.3)),
    }
    problem = Problem(arms, limit=[0.4, 0.4], contexts={"a": 1, "b": 1})
    assert infeasible(problem) == (
        "limit 1 = 0.4 and limit 2 = 0.4: must be at least 0.5 and 0.5, the lowest penalty rates"
        " that a mixture of the arms for each type can reach"
    )


def test_a_risk_out_of_reach_is_warned_of() -> None:
    """With penalties of any size, which differ by type."""
    wide = {
        name: [Arm(f"arm {k}", Constant(1.0), Constant(0.5), Uniform(0.0, h)) for k in range(2)]
        for name, h in (("a", 0.4), ("b", 0.6))
    }
    problem = Problem(wide, limit=0.3, contexts={"a": 1, "b": 1})
    with pytest.warns(RiskWarning, match="risk = 0.01"):
        warn_out_of_reach(problem, {"resolve": Resolve(risk=0.01)}, [20])


def test_a_simulation_has_its_regret() -> None:
    results = simulate(
        TYPED, [Resolve(), LyOn()], budgets=[40], runs=20, seed=1, progress=False, backend="python"
    )
    for row in results.summary():
        assert row["regret"] == pytest.approx(
            optimum(TYPED, 40) - 40 * row["reward_rate"], abs=1e-9
        )


# --- what people see --------------------------------------------------------------------------


@pytest.fixture
def toml(tmp_path) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(TYPED.to_toml())
    return str(path)


def test_the_shell_prints_the_mixture_of_each_type(toml, shell) -> None:
    best = oracle(TYPED)
    status, out, err = shell("oracle", toml, "--budget", "40", "--json")
    row = json.loads(out)
    assert (status, err) == (0, "")
    assert row["by_type"] == best.shares_by_type
    assert list(row["by_type"]) == list(SHARES)
    assert row["optimum"] == optimum(TYPED, 40)
    status, out, _ = shell("oracle", toml, "--budget", "40")
    assert status == 0
    assert "the best of each type" in out
    assert all(name in out for name in SHARES)
    assert "optimum at budget 40" in out


def test_without_types_there_are_no_mixtures_by_type(shell) -> None:
    _, out, _ = shell("oracle", "paper", "--json")
    assert "by_type" not in json.loads(out)


@pytest.mark.parametrize("command", ["theory --budget 100", "theory --budget 100 --json"])
def test_what_knows_no_types_is_refused_in_one_line(command, toml, shell) -> None:
    name, *options = command.split()
    status, out, err = shell(name, toml, *options)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "arms without contexts" in err


def test_the_limit_of_learning_is_refused_in_one_line(tmp_path, shell) -> None:
    path = tmp_path / "two.toml"
    free = Problem(TYPES, limits={"penalty": Limit(0.4, per="pull")}, contexts=SHARES)
    path.write_text(free.to_toml())
    status, out, err = shell("theory", str(path), "--budget", "100")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "the limit of learning is for arms without contexts" in err


def test_the_shell_simulates_them_with_their_regret(toml, shell) -> None:
    more = "--policy lyon --runs 4 --backend python --quiet --json".split()
    status, out, _ = shell("simulate", toml, "--budget", "40", *more)
    [row] = json.loads(out)
    assert status == 0
    assert row["regret"] == pytest.approx(optimum(TYPED, 40) - 40 * row["reward_rate"], abs=1e-9)


def test_the_form_of_a_notebook_lists_the_types() -> None:
    html = oracle(TYPED)._repr_html_()
    assert "the best of each type" in html
    assert "holiday" in html
    assert "each type" not in oracle(PLAIN)._repr_html_()
