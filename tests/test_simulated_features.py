"""Requests with features in simulations: engines, upper bounds, LyOn, off-policy estimates."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from tightrope import (
    Controller,
    Features,
    FullTable,
    Limit,
    LyOn,
    Problem,
    Resolve,
    Scales,
    Task,
    load_problem,
    optimum,
    oracle,
    simulate,
)
from tightrope.data import evaluate_mixture
from tightrope.data.draws import Draws
from tightrope.data.log import Log
from tightrope.errors import BackendError, InfeasibleError, InputError, ProblemError
from tightrope.optimum.pi_star import infeasible
from tightrope.optimum.requests import BOUNDS
from tightrope.policies.featured_lyon import EQUAL, FeaturedLyOn
from tightrope.problem.arms import Arm
from tightrope.problem.distributions import Uniform
from tightrope.problem.mixtures_by_type import best_by_type
from tightrope.problem.ridge import fit_slopes
from tightrope.report.table import print_oracle
from tightrope.shell.theory import _described

LIMITS = {"bad": Limit(0.3, per="pull")}


def table(rows=400, *, mixed=False, costly=False, penalties=("bad",), seed=0):
    """Arm a suits requests with a negative first feature, b positive ones; c is bad and good."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(rows, 2)) * [1.0, 50.0]
    first = np.tanh(features[:, 0])
    outcomes = np.ones((rows, 3, 2 + len(penalties)))
    means = np.column_stack([0.5 - 0.4 * first, 0.5 + 0.4 * first, np.full(rows, 0.8)])
    outcomes[:, :, 1] = random.random((rows, 3)) < means
    for m in range(len(penalties)):
        chance = np.column_stack([0.1 + 0.1 * m + 0 * first, 0.2 + 0.1 * first, 0.6 - 0.3 * first])
        outcomes[:, :, 2 + m] = random.random((rows, 3)) < chance
    if costly:
        outcomes[:, :, 0] = random.uniform(0.2, 1.0, (rows, 3)) * [0.5, 1.0, 0.8]
    contexts = features
    if mixed:
        contexts = [("xy"[number % 2], row.tolist()) for number, row in enumerate(features)]
    return FullTable(["a", "b", "c"], penalties, outcomes, contexts=contexts)


def problem(**more):
    return Problem.from_table(table(**more), LIMITS)


# --- problems and engines -----------------------------------------------------------------------


@pytest.mark.parametrize("mixed", [False, True])
def test_a_problem_with_features_is_the_same_after_toml(mixed, tmp_path):
    made = problem(mixed=mixed)
    assert Problem.from_toml(made.to_toml()) == made
    assert pickle.loads(pickle.dumps(made)) == made
    made.save(tmp_path / "routing.toml")  # its rows are in a file beside it
    assert load_problem(str(tmp_path / "routing.toml")) == made
    assert f"features: {4 if mixed else 2} of 400 rows" in repr(made)
    assert made != made.blind
    assert made.blind.blind is made.blind
    assert made.with_limits({"bad": 0.4}).features == made.features
    assert made.task.feature_columns == (5 if mixed else 3)


def test_what_a_problem_with_features_must_be():
    made = problem(rows=5)
    short = Arm.from_rows("a", [(1.0, 1.0, 0.0)])
    with pytest.raises(ProblemError, match="arm 'a': must draw 5 equally likely rows, one for"):
        replace(made, arms=(short, *made.arms[1:]))
    text = made.to_toml().replace('vectors = "', 'vectors = "AAAA')
    with pytest.raises(ProblemError, match="vectors: must be rows of 2 numbers in single precisio"):
        Problem.from_toml(text)
    with pytest.raises(BackendError, match="policy resolve: must run on a CPU"):
        simulate(made, "resolve", budgets=10, runs=1, backend="gpu")


@pytest.mark.parametrize(
    ("policy", "more"),
    [
        pytest.param("resolve", {"mixed": True}, id="mixed@featured"),
        pytest.param("resolve", {"costly": True}, id="costs@featured"),
        pytest.param("lyon:v0=0.2", {"costly": True}, id="lyon@featured-lyon"),
    ],
)
def test_engines_agree_to_the_bit(policy, more):
    made = problem(rows=60, **more)
    found = [simulate(made, policy, budgets=30, runs=2, backend=one) for one in ("python", "cpu")]
    plain, compiled = (one[policy].normalised_runs for one in found)
    for name in ("reward", "cost", "penalty", "pulls", "queue"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(compiled, name))


@pytest.mark.parametrize(
    ("policy", "more", "delay"),
    [
        pytest.param("resolve", {"mixed": True}, 7, id="mixed@featured"),
        pytest.param("resolve:risk=0.1", {"costly": True}, Uniform(0, 30), id="costs@featured"),
        pytest.param("lyon:v0=0.2", {"costly": True}, 3, id="lyon@featured-lyon"),
    ],
)
def test_engines_agree_to_the_bit_where_outcomes_are_late(policy, more, delay):
    made, late = problem(rows=60, **more), {"delay": delay, "lost": 0.1}
    found = [
        simulate(made, policy, budgets=40, runs=2, backend=one, **late) for one in ("python", "cpu")
    ]
    plain, compiled = (one[policy].normalised_runs for one in found)
    for name in ("reward", "cost", "penalty", "pulls", "queue"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(compiled, name))
    at_once = simulate(made, policy, budgets=40, runs=2)[policy].normalised_runs
    assert not np.array_equal(at_once.pulls, compiled.pulls)


def test_a_late_report_comes_with_the_features_of_its_request():
    """If it came with those of the next request, nothing could be learned from features."""
    made = problem(rows=2000)
    rates = [
        simulate(made, "resolve", budgets=1500, runs=4, delay=late).rows()[0].reward_rate.mean
        for late in (0, 20)
    ]
    blind = oracle(made, bound="blind").reward_rate
    assert rates[1] > blind + 0.05
    assert rates[1] == pytest.approx(rates[0], abs=0.03)


def test_a_policy_sees_the_row_that_it_draws():
    """Arms a and b have opposite rewards for a request: blind policies earn half."""
    made = problem(rows=2000)
    rates = {
        row.policy: row.reward_rate.mean
        for row in simulate(made, ["resolve", "stationary"], budgets=1500, runs=4).rows()
    }
    best = {name: oracle(made, bound=name).reward_rate for name in BOUNDS}
    assert rates["stationary"] == pytest.approx(best["blind"], abs=0.03)
    assert best["blind"] + 0.05 < rates["resolve"] < best["linear"] + 0.03


@pytest.mark.parametrize("mixed", [False, True])
def test_other_policies_ignore_features(mixed):
    made = problem(rows=50, mixed=mixed)
    labels = ("ts-lp", "stationary", "ucb-alp", "pgd-prices")  # the last two use types
    more = {"runs": 2, "backend": "python"}
    runs = [simulate(one, labels, budgets=40, **more) for one in (made, made.blind)]
    for label in labels:
        seen, blind = (one[label].normalised_runs for one in runs)
        np.testing.assert_array_equal(seen.pulls, blind.pulls)
        np.testing.assert_array_equal(seen.reward, blind.reward)


# --- upper bounds -------------------------------------------------------------------------------


@pytest.mark.parametrize("penalties", [(), ("bad",), ("bad", "slow")])
@pytest.mark.parametrize("costly", [False, True])
def test_the_clairvoyant_is_a_linear_program_over_rows(penalties, costly):
    limits = {name: Limit(0.15 + 0.02 * m, per="pull") for m, name in enumerate(penalties)}
    made = Problem.from_table(table(60, costly=costly, penalties=penalties), limits)
    moments, best = made.request_moments, oracle(made)
    exact = best_by_type(moments, moments.shares)
    assert best.reward_rate == pytest.approx(exact.reward / made.scales.cost, rel=1e-9)
    assert best.bound == "clairvoyant"
    np.testing.assert_allclose(best.pull_share.sum(), 1.0)
    for rate, limit in zip(best.penalty_rate, limits.values(), strict=True):
        assert rate <= limit.number * (1 + 1e-9)


def test_who_knows_more_earns_more():
    made = problem(costly=True)
    blind, linear, knowing = (oracle(made, bound=name).reward_rate for name in BOUNDS[::-1])
    assert blind == oracle(made.blind).reward_rate
    assert blind + 0.05 < linear < knowing - 0.05
    with pytest.raises(ProblemError, match="bound = 'linaer' is unknown; did you mean 'linear'"):
        oracle(made, bound="linaer")
    with pytest.raises(ProblemError, match="bound = 'linear': must be None for a problem without"):
        oracle(made.blind, bound="linear")


def test_an_oracle_prints_which_bound_it_is(capsys):
    made = problem(rows=60)
    print_oracle(made, _described(oracle(made)) | {"optimum": optimum(made, 100)}, 100)
    printed = capsys.readouterr().out
    assert "upper bound: clairvoyant" in printed
    assert "upper bound on the optimum at budget 100" in printed
    assert "upper bound: linear" in oracle(made, bound="linear")._repr_html_()


def test_no_policy_earns_more_than_the_optimum():
    """With unit costs a run of budget 40 makes 41 pulls, and the limit is on 41 of them."""
    made = problem(rows=60)
    rate = oracle(made).reward_rate
    assert optimum(made, 40) == pytest.approx(41 * rate)
    whole = Problem.from_table(table(60), {"bad": Limit(0.3, per="cost")})
    less = whole.with_limits({"bad": 0.3 * 40 / 41})
    assert optimum(whole, 40) == pytest.approx(41 * oracle(less).reward_rate)


def test_limits_that_no_policy_keeps():
    """Of the first table every row has an arm that is not bad, but no arm is seldom bad."""
    outcomes = np.ones((4, 2, 3)) * 0.5
    outcomes[:, :, 2] = [[0, 1], [1, 0], [0, 1], [1, 0]]
    made = Problem.from_table(
        FullTable(["a", "b"], ["bad"], outcomes, contexts=np.eye(4)), {"bad": "10% per pull"}
    )
    assert infeasible(made.blind) is not None
    assert infeasible(made) is None
    assert oracle(made).penalty_rate == (0.0,)
    outcomes[0, :, 2] = 1.0
    never = Problem.from_table(
        FullTable(["a", "b"], ["bad"], outcomes, contexts=np.eye(4)), {"bad": "10% per pull"}
    )
    assert "even if it knows the outcomes of every row" in infeasible(never)
    with pytest.raises(InfeasibleError, match="no policy does, even if it knows the outcomes"):
        oracle(never)


# --- models -------------------------------------------------------------------------------------


def test_ridge_regressions_shrink_by_the_data():
    random = np.random.default_rng(0)
    features = random.normal(size=(500, 40)) * ([1.0, 100.0, 1e-3, 0.0] * 10) + 7.0
    signal = 0.5 + 0.2 * (features[:, 0] - 7.0)
    outcomes = np.column_stack([signal + 0.1 * random.normal(size=500), random.normal(size=500)])
    found = fit_slopes(features, outcomes)
    assert found.slopes[0, 0] == pytest.approx(0.2 * features[:, 0].std(), abs=0.02)
    plain = np.linalg.lstsq((features - found.centre) * found.unit, outcomes[:, 1], rcond=None)[0]
    assert np.linalg.norm(found.slopes[:, 1]) < 0.7 * np.linalg.norm(plain)  # noise alone
    assert found.unit[3] == 0.0
    heavy = fit_slopes(features, outcomes, np.where(np.arange(500) < 250, 1.0, 1e-9))
    half = fit_slopes(features[:250], outcomes[:250])
    np.testing.assert_allclose(heavy.mean, half.mean)


def test_the_models_are_those_of_the_controller():
    full = table(800, seed=3)
    made = Task(full.arms, LIMITS, costs=1, contexts=Features(2))
    controller = Controller(made, Resolve(), budget=10, learn_from=full, weight=1.0)
    models, features = controller._state.scratch.models, np.asarray(full.contexts)
    z = np.column_stack([np.ones(800), (features - models.centre[1:3]) * models.unit[1:3]])
    for arm in range(3):
        mine = z @ models.slopes.reshape(3, 3, -1)[arm, 1, :3]
        fitted = fit_slopes(features, full.outcomes[:, arm]).at(features)[:, 1]
        assert np.abs(mine - fitted).mean() < 0.02


# --- LyOn ---------------------------------------------------------------------------------------


def referee(controller, columns):
    """What every arm is worth for a request, with numpy: LinUCB's widths in the paper's index."""
    state, scratch, constants = (
        controller._state.record,
        controller._state.scratch,
        controller._state.constants,
    )
    models, size = scratch.models, len(columns) + 1
    width = len(models.here)
    z = (columns - models.centre[1:size]) * models.unit[1:size]
    z = np.append(1.0, np.clip(z, -8.0, 8.0))
    v, sign, twice_alpha = constants[:3]
    clock = np.sqrt(twice_alpha * np.log(max(state.pulls.sum(), 1.0)))
    values = []
    for arm in range(3):
        slopes = models.slopes.reshape(3, 3, width)[arm, :, :size]
        factors = np.tril(models.factors.reshape(3, 3, width, width)[arm, :, :size, :size])
        for factor in factors:
            np.fill_diagonal(factor, 1.0 / factor.diagonal())
        usual = models.usual.reshape(3, 3)[arm]
        mean = np.clip(slopes @ z, [0.1 * usual[0], 0.0, 0.1 * usual[2]], 1.0)
        roots = [np.linalg.solve(factor.T, z) for factor in factors]
        wide = clock * np.linalg.norm(roots, axis=1)
        theta, cost = scratch.theta[0], np.clip(mean[0] + np.array([-1, 1]) * wide[0], 0.0, 1.0)
        value = v * (mean[1] + wide[1]) - theta * cost[0 if theta > 0 else 1]
        values.append(value - scratch.length[0] * (mean[2] - sign * wide[2]))
    return values


def test_lyon_takes_the_best_arm_by_linear_bounds():
    """The limit is per unit of cost, so net penalties are penalties."""
    made = Task(["a", "b", "c"], {"bad": Limit(0.3)}, Scales(cost=2.0), contexts=Features(2))
    controller = Controller(made, LyOn(v0=0.2, alpha=0.1), budget=120)
    controller._set_calls(None)
    assert isinstance(controller.policy, FeaturedLyOn)
    checked, arms = 0, set()
    full = table(200, costly=True)
    for row in range(100):
        context = np.asarray(full.contexts)[row].astype(np.float32)
        arm = controller.ask(context=context)
        if min(controller._state.record.pulls) >= controller._state.constants[6]:
            values = referee(controller, context.astype(float))
            assert arm == int(np.argmax(values))
            checked, arms = checked + 1, arms | {arm}
        cost, reward, bad = full.outcomes[row, arm]
        controller.tell(arm, cost=cost, reward=reward, penalty=bad)
    assert checked > 40
    assert len(arms) > 1
    scratch = controller._state.scratch
    assert controller._state.constants[EQUAL] == 0.0
    assert scratch.theta[0] != 0.0
    assert Controller.restore(controller.snapshot()) == controller


def test_lyon_gives_each_request_the_arm_that_suits_it():
    made = problem(rows=500)
    rates = {
        row.policy: row.reward_rate.mean
        for row in simulate(made, ["lyon:alpha=0.05", "stationary"], budgets=1000, runs=3).rows()
    }
    assert rates["lyon:alpha=0.05"] > rates["stationary"] + 0.05


# --- off-policy estimates -----------------------------------------------------------------------


def logged(full, seed=0):
    """A log of a policy that prefers arm a for negative first features."""
    random, first = np.random.default_rng(seed), np.tanh(np.asarray(full.contexts)[:, 0])
    odds = np.column_stack([0.4 - 0.2 * first, 0.4 + 0.2 * first, np.full(len(first), 0.2)])
    chosen = (random.random((len(full), 1)) > odds.cumsum(axis=1)).sum(axis=1)
    outcomes = full.outcomes[np.arange(len(full)), chosen].T
    propensity = odds[np.arange(len(full)), chosen]
    return Log(full.arms, full.penalties, chosen, outcomes, propensity, full.contexts)


def test_direct_and_doubly_robust_estimates_with_features():
    """Of a policy that sees the features; the table has the truth.

    Means are not linear in the features, so the direct estimate has a bias.
    """
    full = table(4000)
    positive = np.asarray(full.contexts)[:, 0] > 0.0
    shares = np.column_stack([~positive, positive, np.zeros(4000)]).astype(float)
    truth = evaluate_mixture(full, shares).value("reward").mean
    errors = {method: [] for method in ("ips", "direct", "dr")}
    for seed in range(10):
        found = evaluate_mixture(logged(full, seed), shares)
        for method, some in errors.items():
            value = found.value("reward", method=method)
            some.append(value.error)
            most = 0.06 if method == "direct" else 4.0 * value.error
            assert abs(value.mean - truth) < most
    assert np.mean(errors["dr"]) < 0.85 * np.mean(errors["ips"])
    assert found.shares == pytest.approx({"a": shares[:, 0].mean(), "b": shares[:, 1].mean()})


def test_shares_of_rows_are_checked():
    full = table(30)
    with pytest.raises(InputError, match=r"mixture: shape \(29, 3\) must be \(30, 3\), the share"):
        evaluate_mixture(full, np.full((29, 3), 1 / 3))
    shares = np.full((30, 3), 1 / 3)
    shares[4] = 0.5
    with pytest.raises(InputError, match="mixture, row 5: the shares sum to 1"):
        evaluate_mixture(full, shares)
    assert evaluate_mixture(full, {"a": 1}).shares == {"a": 1.0}


# --- plans --------------------------------------------------------------------------------------


def test_draws_of_a_table_keep_its_rows():
    """A row has the same features and outcomes of all arms in every draw."""

    def rows_of(made):
        told = [np.column_stack([one.values for one in arm.outcomes]) for arm in made.arms]
        return {tuple(row) for row in np.hstack([made.features.rows, *told]).tolist()}

    made = problem(rows=40)
    drawn = [rows_of(one) for one in Draws.of(made, 2, seed=0).problems()]
    assert all(some < rows_of(made) for some in drawn)
    assert drawn[0] != drawn[1]
