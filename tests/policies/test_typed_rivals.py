"""Rivals that use types: the program over maps against another solver, their rules, all engines."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.policies.driver import Run, new_record
from tests.problems import unlike
from tightrope import Arm, Bernoulli, Controller, Limit, Problem, Task, oracle, simulate
from tightrope.engine import python, single
from tightrope.engine.planning import plan_jobs
from tightrope.errors import PolicyError
from tightrope.policies import UCBALP, PGDPrices, parse_policy
from tightrope.policies.parts.by_type import RowBounds, bound_rows
from tightrope.policies.parts.maps import Maps, pick_of_maps, solve_maps
from tightrope.policies.state import State
from tightrope.problem.mixtures_by_type import best_by_type, conflict_by_type
from tightrope.problem.ready import ready_problem

RIVALS = ["ucb-alp", "pgd-prices"]
SWAP = ready_problem("arena-types-swap")
TWO_LIMITS = Problem(
    {
        kind: [
            Arm("a", Bernoulli(0.5), Bernoulli(0.8), [Bernoulli(0.5), Bernoulli(odds)]),
            Arm("b", Bernoulli(0.6), Bernoulli(0.6), [Bernoulli(odds), Bernoulli(0.5)]),
            Arm("c", Bernoulli(0.4), Bernoulli(0.3), [Bernoulli(0.1), Bernoulli(0.1)]),
        ]
        for kind, odds in (("x", 0.2), ("y", 0.6))
    },
    limits={"first": Limit(0.5), "second": Limit(0.25, per="pull")},
    contexts={"x": 3, "y": 1},
)


# --- the program over maps ------------------------------------------------------------------------


def drawn(seed, types, arms, limited):
    """A problem with random means, and the limits' units, which are costs."""
    random = np.random.default_rng(seed)
    means = random.uniform(0.05, 0.95, (types, arms, 2 + limited))
    named = {
        f"type {x}": [
            Arm(f"arm {k}", Bernoulli(c), Bernoulli(r), [Bernoulli(y) for y in penalties])
            for k, (c, r, *penalties) in enumerate(means[x].tolist())
        ]
        for x in range(types)
    }
    shares = dict(zip(named, random.uniform(0.1, 1.0, types).tolist(), strict=True))
    limits = random.uniform(0.3, 1.5, limited).tolist()
    return Problem(named, limit=limits or None, contexts=shares)


def solved(problem):
    """The maps of a problem whose means are known; whether they keep the limits."""
    moments, count = problem.row_moments, problem.arm_count
    bounds, maps = (
        new_record(one, len(moments.cost), problem.penalty_count) for one in (RowBounds, Maps)
    )
    bounds.share[:] = np.repeat(list(problem.shares.values()), count)
    bounds.cost[:], bounds.reward[:] = moments.cost, moments.reward
    bounds.penalty[:] = moments.net.ravel()
    return maps, solve_maps(bounds, moments.limits, maps, count)


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(2, 5), st.integers(0, 3))
def test_it_finds_the_mixture_of_another_solver(seed, types, arms, limited):
    problem = drawn(seed, types, arms, limited)
    moments, shares = problem.row_moments, np.array(list(problem.shares.values()))
    best = best_by_type(moments, shares)
    maps, kept = solved(problem)
    arms_in, shares_in = maps.program.mixture.arms.astype(int), maps.program.mixture.shares
    real = (arms_in >= 0) & (arms_in < len(maps.cost))
    weights = shares_in[real] / shares_in[real].sum()
    penalty = weights @ maps.penalty.reshape(len(maps.cost), -1)[arms_in[real]]
    assert kept == (best is not None)
    if best is None:
        excess = conflict_by_type(moments, shares).excess
        assert (penalty / moments.limits).max() == pytest.approx(excess, rel=1e-6)
    else:
        assert weights @ maps.reward[arms_in[real]] == pytest.approx(best.reward, rel=1e-7)
        assert (penalty <= moments.limits * (1 + 1e-7)).all()


def test_maps_are_drawn_by_their_share_of_requests():
    problem = drawn(5, 3, 3, 1)
    maps, kept = solved(problem)
    assert kept
    coins = (np.arange(20_000) + 0.5) / 20_000
    pulls = np.zeros((3, 3))
    for kind in range(3):
        rows = [pick_of_maps(maps, kind, coin) for coin in coins]
        pulls[kind] = np.bincount(np.array(rows) - 3 * kind, minlength=3) / len(coins)
    np.testing.assert_allclose(pulls, oracle(problem).by_type, atol=1e-3)


# --- their rules ----------------------------------------------------------------------------------


def test_the_bounds_are_the_published_ones():
    state, bounds = new_record(State, 4, 1), new_record(RowBounds, 4, 1)
    state.pulls[:3], state.limits[0] = [10.0, 4.0, 6.0], 0.5
    state.totals[:9] = [5.0, 4.0, 6.0, 2.0, 4.0, 0.0, 3.0, 3.0, 1.0]
    bound_rows(state, bounds, 2, 0.5)
    width = np.sqrt(0.5 * math.log(20) / state.pulls[:3])
    assert bounds.share.tolist() == [14.0, 14.0, 6.0, 6.0]
    assert bounds.cost.tolist() == [0.5, 0.5, 0.5, 0.5]  # the last one: the mean of all
    assert bounds.reward == pytest.approx([0.4 + width[0], 1.0, 0.5 + width[2], 1.0])
    assert bounds.penalty == pytest.approx([0.6 - width[0], 0.0, max(1 / 6 - width[2], 0.0), 0.0])


PLAIN = Problem(
    [
        Arm("bold", Bernoulli(0.5), Bernoulli(0.9), Bernoulli(0.8)),
        Arm("careful", Bernoulli(0.5), Bernoulli(0.3), Bernoulli(0.1)),
    ],
    limit=0.8,
)


def having_seen(policy, pulls=1000.0, budget=10_000.0):
    """A run in which both arms of ``PLAIN`` had exactly their means."""
    run = Run(policy, PLAIN, budget)
    for arm, means in enumerate(((0.5, 0.9, 0.8), (0.5, 0.3, 0.1))):
        run.state.pulls[arm], run.state.steps[0] = pulls, 2 * pulls
        run.state.totals[3 * arm : 3 * arm + 3] = np.array(means) * pulls
    return run


def test_ucb_alp_follows_what_is_left():
    run = having_seen(UCBALP(alpha=0.0))
    words = [[int((coin + 0.5) / 200 * 2**32), 0] for coin in range(200)]
    for left, share in ((0.8, (0.8 - 0.2) / 1.4), (0.2, 0.0), (-0.1, 0.0), (2.0, 1.0)):
        run.state.remaining[1] = left * run.state.remaining[0]
        bold = np.mean([run.choose(pair) == 0 for pair in words])
        assert bold == pytest.approx(share, abs=0.005)


def test_prices_move_by_the_estimates_and_start_again_with_a_larger_step():
    policy = PGDPrices(margin0=0.0, alpha=0.0, reach0=0.02)
    run, step = having_seen(policy), 0.01
    over = 0.8 - 0.8 * 0.5
    for turn in range(4):
        assert run.choose() == 0
        assert run.scratch.price[0] == pytest.approx((turn + 1) * step * over)
    for _ in range(2):
        run.choose()
    assert run.scratch.step[0] == pytest.approx(2 * step)
    assert run.scratch.price[0] < 3 * step


def test_the_margin_tightens_a_limit_by_half_at_most():
    gain, errors = {}, math.sqrt(2 * math.log(10_000) / 10_000)
    for margin in (0.0, 2.0, 1e6):
        run = having_seen(PGDPrices(margin0=margin, alpha=0.0))
        run.choose()
        gain[margin] = run.scratch.price[0]
    assert gain[2.0] - gain[0.0] == pytest.approx(0.01 * 2 * errors * 0.5)
    assert gain[1e6] - gain[0.0] == pytest.approx(0.01 * 0.4 * 0.5)


@pytest.mark.parametrize("text", ["ucb-alp:alpha=-1", "pgd-prices:reach0=0", "pgd-prices:alpha=x"])
def test_bad_parameters_are_named_in_one_line(text):
    with pytest.raises(PolicyError, match=text.partition(":")[2].partition("=")[0]) as caught:
        parse_policy(text)
    assert "\n" not in str(caught.value)


# --- runs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", [SWAP, TWO_LIMITS], ids=["one limit", "two limits"])
@pytest.mark.parametrize("policy", RIVALS)
def test_every_engine_makes_the_runs_of_plain_python(policy, problem):
    jobs = plan_jobs(problem, {"p": parse_policy(policy)}, [25.0], 3, seed=7, backend="cpu")
    job = jobs["p", 25.0]
    stop = np.zeros(1, np.uint8)
    made = [one(job).run(np.arange(3), stop)[0] for one in (python.plan, single.plan_single)]
    assert unlike(*made) == []
    assert unlike(job.plan.run(np.arange(3), stop)[0], made[0]) == []


@pytest.mark.parametrize("policy", RIVALS)
def test_late_outcomes_make_the_same_runs(policy):
    found = [
        simulate(SWAP, policy, budgets=[25], runs=3, backend=backend, delay=3)[policy].runs
        for backend in ("python", "cpu")
    ]
    for name in ("reward", "cost", "penalty", "pulls"):
        np.testing.assert_array_equal(getattr(found[0], name), getattr(found[1], name))


@pytest.mark.parametrize("policy", RIVALS)
def test_types_are_worth_something(policy):
    """On ``swap`` no policy without types earns more than 0.75 of what one with types can."""
    runs = simulate(SWAP, policy, budgets=4000, runs=20, seed=2, progress=False)[policy].runs
    rate = runs.reward.mean() / 4000
    assert rate > 0.9 * oracle(SWAP).reward_rate
    assert runs.penalty.mean() / 4000 < 1.05 * 0.6


@pytest.mark.parametrize("policy", RIVALS)
def test_a_controller_learns_each_type_by_itself(policy):
    task = Task(["a", "b"], {"bad": Limit(0.5, per="pull")}, costs=1, contexts=["x", "y"])
    controller = Controller(task, parse_policy(policy), budget=600)
    for number in range(500):
        context = "xy"[number % 2]
        arm = controller.ask(context=context)
        good = (arm == 0) == (context == "x")
        controller.tell(arm, reward=float(good), penalty=0.0, context=context)
    assert controller.pulls_by_type["x"][0] > 200
    assert controller.pulls_by_type["y"][1] > 200
    restored = Controller.restore(controller.snapshot())
    assert restored == controller
    assert restored.ask(context="x") == controller.copy().ask(context="x")
