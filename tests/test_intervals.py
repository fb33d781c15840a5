"""Numbers as arms: spaces, tasks, problems, the best mixture, engines, the controller."""

from __future__ import annotations

import json
import pickle
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from benchmarks.intervals import PROBLEMS, SALE, on_grid, over_interval
from tightrope import (
    Arm,
    Bernoulli,
    Constant,
    Controller,
    Interval,
    Limit,
    LyOn,
    Problem,
    Resolve,
    Scales,
    Task,
    TwoPoint,
    load_problem,
    open_campaign,
    oracle,
    simulate,
)
from tightrope.engine import python, single
from tightrope.engine.planning import plan_jobs
from tightrope.errors import CoarseGridWarning, InputError, ProblemError, ReportError
from tightrope.optimum.pi_star import oracle_of_arms
from tightrope.policies import UniformRandom
from tightrope.problem import Box, holds_task, table_of

BIDS = Interval(0.0, 5.0, name="bid", points=11)
BOX = Box({"bid": (0, 5), "rate": (0, 1)}, points=7)
LIMITS = {"bad": Limit(0.1, per="pull")}


def clicks(bid, rate=0.0):
    return Arm("any", Constant(1), Bernoulli(bid / 10), Bernoulli(bid * bid / 60 + rate / 9))


# --- spaces -------------------------------------------------------------------------------------


def test_the_points_of_a_space_are_short_numbers():
    assert BIDS.arms[:4] == ("0", "0.5", "1", "1.5")
    assert [BIDS.value(k) for k in (0, 3, 10)] == [0.0, 1.5, 5.0]
    assert BOX.arms[8] == "0.8333333333, 0.1666666667"
    assert BOX.value(8) == (0.8333333333, 0.1666666667)
    assert Interval(0, 1).points == 101
    assert Box({"a": (0, 1), "b": (0, 1)}).points == 21


@pytest.mark.parametrize("space", [BIDS, BOX], ids=["interval", "box"])
def test_a_number_belongs_to_the_nearest_point(space):
    for k in range(len(space)):
        assert space.number_of(space.value(k)) == k
        assert space.number_of(space.arms[k]) == k
    assert BIDS.number_of(1.37) == 3
    assert BOX.number_of((0.8, 0.15)) == 8


MISSPELT = "limits = { bad = 0.1 }\nspace = { bid = [0.0, 5.0] }\n[[arms]]\natt = 1.0\n"
NO_SIDES = "limits = { bad = 0.1 }\n[space]\n[[arms]]\nat = 1.0\ncost = { constant = 1 }\n"


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: BIDS.number_of(5.1), r"arm: bid = 5.1: must lie in \[0.0, 5.0\]"),
        (lambda: BIDS.number_of("x"), "arm = 'x': must be a finite number"),
        (lambda: BOX.number_of(1.0), "arm = 1.0: must be 2 numbers: bid, rate"),
        (lambda: BIDS.within((0.6, 0.9)), "eligible = .*: must hold a point of the grid, whose st"),
        (lambda: BIDS.within(3), "eligible: bid = 3: must be two numbers, low and high"),
        (lambda: BOX.within({"x": (0, 1)}), "eligible = .*: must be ranges by name, among bid, "),
        (lambda: Interval(1, 1), "number: low = 1.0: must be below high = 1.0"),
        (lambda: Interval(0, 1, points=4), "points = 4: must be a whole number from 5 to 4096"),
        (lambda: Interval(0, float("nan")), "high = nan: must be a finite number"),
        (lambda: Box({"a": (0, 1)}), "box = .*: must be two or three ranges by name"),
        (lambda: Interval(1, 1 + 1e-12), "must be wider, for points that differ in ten digits"),
        (lambda: Problem(BIDS, limit=1), "arm = None: must be a function, or arms by point"),
        (
            lambda: Problem([clicks(1)], arm=clicks, limits=LIMITS),
            "arm = .*: must be left out; it belongs to Interval and Box",
        ),
        (
            lambda: BIDS.within((0.9, 0.6)),
            "eligible: bid = .*: must be two numbers, low and high, low not above high",
        ),
        (lambda: Problem.from_toml(MISSPELT), "arm 1: unknown key 'att'; did you"),
        (lambda: Problem.from_toml(NO_SIDES), "space = {}: must have a range, such as bid"),
        (
            lambda: Problem(BIDS, arm={0: clicks(1), "x": clicks(1)}, limits=LIMITS),
            "arm 2: at = 'x'",
        ),
    ],
)
def test_a_wrong_space_or_number_is_refused_in_one_line(call, line):
    with pytest.raises((InputError, ProblemError), match=line) as told:
        call()
    assert "\n" not in str(told.value)


# --- tasks and problems ---------------------------------------------------------------------------


@pytest.mark.parametrize("space", [BIDS, BOX], ids=["interval", "box"])
def test_a_task_is_written_and_read(space):
    task = Task(space, LIMITS, costs=1)
    assert task.space == space
    assert task.names == space.arms
    assert Task.from_toml(task.to_toml()) == task
    assert "[[arms]]" not in task.to_toml()
    assert holds_task(table_of(task.to_toml()))
    assert Task(["a", "b"], LIMITS).space is None


@pytest.mark.parametrize("space", [BIDS, BOX], ids=["interval", "box"])
def test_a_problem_of_a_function_is_written_and_read(space):
    problem = Problem(space, arm=clicks, limits=LIMITS)
    assert problem.task.space == space
    assert problem.arms[3].reward == Bernoulli(space.grid[3][0] / 10)
    assert Problem.from_toml(problem.to_toml()) == problem
    assert problem.with_limits({"bad": 0.2}).space == space


def test_parameters_between_points_are_interpolated():
    text = """
        limits = { bad = { at_most = 0.1, per = "pull" } }
        costs = 1
        space = { bid = [0.0, 5.0], points = 11 }
        [[arms]]
        at = 0
        reward = { two-point = [0, 2, 0.1] }
        penalties.bad = { bernoulli = 0 }
        [[arms]]
        at = 2
        reward = { two-point = [0, 4, 0.5] }
        penalties.bad = { bernoulli = 0.2 }
        [[arms]]
        at = 5
        reward = { two-point = [0, 4, 0.5] }
        penalties.bad = { bernoulli = 0.5 }
        [scales]
        reward = 4
    """
    problem = Problem.from_toml(text)
    assert problem.arms[1].reward == TwoPoint(0, 2.5, 0.2)
    assert problem.arms[4].reward == TwoPoint(0, 4, 0.5)
    assert [arm.penalties[0].mean for arm in problem.arms] == pytest.approx(np.linspace(0, 0.5, 11))
    assert Problem.from_toml(problem.to_toml()) == problem


@pytest.mark.parametrize(
    ("arms", "line"),
    [
        ({0: clicks(0)}, "arms: 1 points; must be at least two"),
        ({0: clicks(0), 6: clicks(5)}, r"at: bid = 6.0: must lie in \[0.0, 5.0\]"),
        (
            {0: clicks(0), 5: Arm("x", Constant(1), Constant(1), Bernoulli(1))},
            "arm at 5.0, reward: .* must be a Bernoulli, as at the point before",
        ),
    ],
)
def test_points_that_give_no_curve_are_refused(arms, line):
    with pytest.raises(ProblemError, match=line):
        Problem(BIDS, arm=arms, limits=LIMITS)


# --- the best mixture -----------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1.2, 1.23, 1.2345678])
@pytest.mark.parametrize("points", [23, 101])
def test_the_best_bid_of_a_second_price_auction_has_a_closed_form(limit, points):
    # The mean payment of a bid b is b^2 / 2, of which SALE b sales: b = 2 SALE L costs L a sale.
    case = replace(PROBLEMS["second price"], limit=Limit(limit, per="reward"))
    best, bid = oracle(over_interval(case, points)), 2 * SALE * limit
    assert list(best.numbers) == pytest.approx([bid] * len(best.numbers), abs=1e-3)
    assert np.dot(list(best.numbers), list(best.numbers.values())) == pytest.approx(bid, abs=1e-6)
    assert -1e-12 <= SALE * bid - best.reward_rate <= best.error < 1e-7
    assert best.penalty_rate[0] == pytest.approx(limit)


@cache
def fine_grid(name):
    """The best rate of 10,001 separate arms."""
    return oracle(on_grid(PROBLEMS[name], 10_001)).reward_rate


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("points", [23, 101])
def test_the_best_mixture_of_any_numbers_is_that_of_a_fine_grid(name, points):
    best = oracle(over_interval(PROBLEMS[name], points))
    assert len(best.numbers) <= 2
    assert sum(best.numbers.values()) == pytest.approx(1)
    assert best.reward_rate == pytest.approx(fine_grid(name), rel=2e-7)
    assert fine_grid(name) - best.reward_rate <= best.error < 5e-7


@pytest.mark.parametrize("name", ["second price", "first price", "pricing", "dose"])
def test_without_its_function_a_problem_has_the_error_of_its_points(name):
    problem = over_interval(PROBLEMS[name], 23)
    sent = pickle.loads(pickle.dumps(problem))
    assert sent == problem
    best = oracle(sent)
    assert set(best.numbers) <= set(problem.space.axes[0])
    assert best.reward_rate == oracle_of_arms(problem).reward_rate
    assert 0.0 <= fine_grid(name) - best.reward_rate <= best.error


def rewarded(curve, space=None):
    def arm(*numbers):
        return Arm("x", Constant(1), Bernoulli(curve(*numbers)))

    return Problem(space or Interval(0, 1), arm=arm, limit=None)


TOP = 0.6234567
CURVES = {
    "smooth": (lambda x: 0.9 - (x - TOP) ** 2, 0.9),
    "kink": (lambda x: 0.9 - abs(x - TOP), 0.9),
    "up to a jump": (lambda x: x if x < TOP else 0.0, TOP),
    "from a jump": (lambda x: 0.0 if x < TOP else 1.0 - x, 1.0 - TOP),
    "two peaks": (lambda x: max(0.8 - 9 * abs(x - 0.2), 0.9 - 9 * abs(x - TOP), 0), 0.9),
    "narrow": (lambda x: np.exp(-(((x - TOP) / 0.02) ** 2)), 1.0),
}


@pytest.mark.parametrize("name", CURVES)
def test_the_best_number_is_found_between_the_points(name):
    curve, most = CURVES[name]
    best = oracle(rewarded(curve))
    [number] = best.numbers
    assert number == pytest.approx(TOP, abs=2e-4)
    assert 0.0 <= most - best.reward_rate <= best.error + 1e-9
    assert best.error < 2e-7
    assert best.pull_share[62] == 1.0  # it counts for the nearest point


def test_it_prints_the_numbers_not_every_point():
    text = repr(oracle(rewarded(lambda x: x * (1.2 - x))))
    assert re.fullmatch(
        r"Oracle\(reward_rate=0\.36\d*, .*numbers=\{0\.6\d*: 1\.0\}, error=.*\)", text
    )
    assert "pull_share" not in text
    assert "pull_share=array" in repr(oracle("paper"))


def test_the_best_numbers_of_a_box_are_found():
    box = Box({"a": (0, 1), "b": (0, 2)}, points=7)
    best = oracle(
        rewarded(lambda a, b: 0.9 - (a - 0.31) ** 2 / 2 - (b - 1.17) ** 2 * (1 + a) / 9, box)
    )
    [numbers] = best.numbers
    assert numbers == pytest.approx((0.31, 1.17), abs=1e-3)
    assert 0.0 <= 0.9 - best.reward_rate <= best.error < 2e-7


def test_two_limits_take_three_numbers_at_most():
    def arm(x):
        bad = [Bernoulli(x * x / 2), Bernoulli((1 - x) ** 3 / 2)]
        return Arm("x", Constant(1), Bernoulli(x * (1.2 - x)), bad)

    limit = (Limit(0.1, per="pull"), Limit(0.1, per="pull"))
    best = oracle(Problem(Interval(0, 1, points=23), arm=arm, limit=limit))
    arms = [replace(arm(x), name=f"{x:.4f}") for x in np.linspace(0, 1, 10_001).tolist()]
    assert len(best.numbers) <= 3
    assert best.reward_rate == pytest.approx(oracle(Problem(arms, limit=limit)).reward_rate)


def test_the_shell_prints_the_numbers_and_the_error(shell, tmp_path):
    path = tmp_path / "dose.toml"
    arms = {0: clicks(0.5), 1.234: clicks(3), 5: clicks(1)}
    Problem(BIDS, arm=arms, limits={"bad": Limit(0.2, per="pull")}).save(path)
    text = shell("oracle", str(path))[1]
    assert re.search(r"1\.234 +1\.0000", text)
    assert re.search(r"other numbers earn more by at most: \d", text)
    row = json.loads(shell("oracle", str(path), "--json")[1])
    [number] = row["numbers"]
    assert number == {"value": pytest.approx(1.234), "pull_share": 1.0}
    assert row["reward_rate"] == pytest.approx(0.3)
    assert 0.0 <= row["error"] < 1e-6
    assert "other numbers at most" in oracle(load_problem(str(path)))._repr_html_()


def test_a_grid_that_is_too_coarse_for_a_peak_is_named():
    def narrow(x):
        return np.exp(-(((x - 0.335) / 0.004) ** 2))

    with pytest.warns(CoarseGridWarning, match="points = 101: numbers between the points may earn"):
        assert oracle(rewarded(narrow)).reward_rate == pytest.approx(1)
    assert oracle(rewarded(narrow, Interval(0, 1, points=1001))).reward_rate == 1


def test_between_linear_points_no_number_is_better():
    linear = {0.0: clicks(0.5), 2.0: clicks(3), 5.0: clicks(4)}
    coarse = Problem(BIDS, arm=linear, limits=LIMITS)
    fine = Problem(Interval(0, 5, points=501), arm=linear, limits=LIMITS)
    assert oracle(fine).reward_rate == pytest.approx(oracle(coarse).reward_rate, rel=1e-12)


# --- engines --------------------------------------------------------------------------------------

SITUATIONS = {
    "interval": (Problem(BIDS, arm=clicks, limits=LIMITS, costs=1), 40),
    "per reward": (over_interval(PROBLEMS["first price"], 15), 30),
    "random costs": (
        Problem(
            BIDS,
            arm=lambda x: Arm("a", TwoPoint(1, 9, x / 6), Bernoulli(x / 6), TwoPoint(0, 4, x / 9)),
            limit=0.15,
            scales=Scales(cost=9, penalty=4),
        ),
        120,
    ),
    "two limits": (
        Problem(
            BIDS,
            arm=lambda x: Arm(
                "a", Constant(1), Bernoulli(x / 6), [Bernoulli(x / 8), Bernoulli(0.2)]
            ),
            limit=(0.3, 0.3),
        ),
        30,
    ),
    "no limit": (
        Problem(BIDS, arm=lambda x: Arm("a", Constant(1), Bernoulli(x / 6)), limit=None),
        20,
    ),
    "box": (Problem(BOX, arm=clicks, limits=LIMITS), 10),
}


@pytest.mark.parametrize("policy", [Resolve(), LyOn(v=5, delta=0.01)], ids=["resolve", "lyon"])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_compiled_runs_are_those_of_plain_python(situation, policy):
    problem, budget = SITUATIONS[situation]
    job = plan_jobs(problem, {"p": policy}, [budget], 2, seed=7, backend="cpu")["p", budget]
    plain, compiled = (
        plan(job).run(np.arange(2), np.zeros(1, np.uint8))[0]
        for plan in (python.plan, single.plan_single)
    )
    for mine, theirs in zip(vars(plain).values(), vars(compiled).values(), strict=True):
        assert np.array_equal(mine, theirs)


def test_policies_that_do_not_know_numbers_run_on_the_points():
    problem, _ = SITUATIONS["interval"]
    row = simulate(problem, [UniformRandom()], budgets=[40], runs=3).summary()[0]
    assert len(row["pull_share"]) == 11


def test_resolve_learns_from_neighbours():
    space = Interval(0, 5, name="bid")
    smooth = Problem(space, arm=clicks, limits=LIMITS, costs=1)
    alone = Problem(smooth.arms, limits=LIMITS, costs=1)
    earned = [
        simulate(one, [Resolve()], budgets=[1000], runs=40, seed=2).summary()[0]
        for one in (smooth, alone)
    ]
    gain = earned[0]["reward_rate"] - earned[1]["reward_rate"]
    assert gain > 4 * np.hypot(earned[0]["reward_rate_se"], earned[1]["reward_rate_se"])
    assert earned[0]["violation"] < 0.05 * 0.1


def test_lyon_zooms_in_where_it_pulls():
    smooth = Problem(Interval(0, 1), arm=lambda x: peak(x), limits={"bad": Limit(0.4, per="pull")})
    policy = LyOn(alpha=0.1, delta=0.01)
    result = simulate(smooth, [policy], budgets=[4000], runs=4, seed=1)
    share = np.array(result.summary()[0]["pull_share"])
    assert share[50:90].sum() > 0.6  # the peak is at 0.7
    controller = Controller(smooth.task, policy, budget=4000)
    while not controller.exhausted:
        bid = controller.ask()
        controller.tell(bid, 1, peak(bid).reward.mean, 0)
    cells, widths = np.unique(controller._state.scratch.cell, return_counts=True)
    near = (cells >= 60) & (cells < 80)
    assert widths.sum() == 101
    assert widths[near].max() < widths.max()


def test_cells_of_a_box_are_split_in_the_middle_of_their_longest_side():
    box = Box({"bid": (0, 5), "rate": (0, 1)}, points=16)
    controller = Controller(Task(box, LIMITS, costs=1), LyOn(alpha=0.1), budget=4000)
    scratch = controller._state.scratch
    quarters = np.add.outer(128 * (np.arange(16) // 8), 8 * (np.arange(16) // 8))
    np.testing.assert_array_equal(scratch.cell.reshape(16, 16), quarters)
    for _ in range(2000):
        bid, rate = controller.ask()
        controller.tell((bid, rate), reward=1 - abs(bid - 4) / 8 - abs(rate - 0.8) / 2, penalty=0)
    cells = scratch.cell.reshape(16, 16)
    sizes = {}
    for cell in np.unique(cells):
        there = np.argwhere(cells == cell)
        low, high = there.min(axis=0), there.max(axis=0)
        assert low @ [16, 1] == cell
        assert high @ [16, 1] == scratch.last[int(cell)]
        assert np.prod(high - low + 1) == len(there)  # it has no gaps
        sizes[cell] = len(there)
    assert sizes[cells[12, 12]] < max(sizes.values())
    assert np.array(controller.pulls).reshape(16, 16)[8:, 8:].sum() > 1000


def test_lyon_zooms_for_every_type():
    def arm(top):
        return lambda x: Arm("x", Constant(1), Bernoulli(0.9 - abs(x - top)), Bernoulli(0.1))

    tops = {"low": 0.2, "high": 0.8}
    problem = Problem(
        Interval(0, 1),
        arm={name: arm(top) for name, top in tops.items()},
        limits={"bad": Limit(0.4, per="pull")},
        contexts={"low": 3, "high": 1},
    )
    policy, random = LyOn(alpha=0.1, delta=0.01), np.random.default_rng(1)
    controller, late = Controller(problem.task, policy, budget=6000), {"low": [], "high": []}
    for step in range(6000):
        name = "high" if step % 4 == 0 else "low"
        x = controller.ask(context=name)
        reward = random.random() < 0.9 - abs(x - tops[name])
        controller.tell(x, 1, float(reward), 0, context=name)
        late[name] += [x] if step > 4000 else []
    assert np.mean(late["low"]) < 0.35
    assert np.mean(late["high"]) > 0.65
    cells = controller._state.scratch.cell.reshape(2, 101)
    assert cells[0].max() < 101 <= cells[1].min()
    assert [len(np.unique(one)) for one in cells] != [4, 4]


def peak(x):
    return Arm("x", Constant(1), Bernoulli(0.9 - abs(x - 0.7)), Bernoulli(0.2))


# --- the controller -------------------------------------------------------------------------------


def test_a_controller_asks_for_numbers_and_takes_any():
    controller = Controller(Task(BIDS, LIMITS, costs=1), Resolve(), budget=50, seed=1)
    bid = controller.ask()
    assert isinstance(bid, float)
    controller.tell(bid, reward=1, penalty=0)
    controller.tell(1.37, reward=0, penalty=1)
    assert controller.tried.get(1.5, 0) >= 1
    assert sum(controller.tried.values()) == 2
    assert 1.0 <= controller.ask(eligible=(1.0, 2.0)) <= 2.0
    assert all(0 <= one <= 5 for one in controller.ask_many(3))
    restored = Controller.restore(controller.snapshot())
    assert restored == controller
    assert restored.ask() == controller.ask()
    with pytest.raises(InputError, match=r"bid = 7.0: must lie in \[0.0, 5.0\]"):
        controller.tell(7, reward=0, penalty=0)
    with pytest.raises(InputError, match="arm 'x': cannot be added to Interval"):
        controller.add_arm("x")
    with pytest.raises(InputError, match="no number can be retired; use eligible"):
        controller.retire_arm(1.5)


def test_a_controller_of_a_box_asks_for_tuples():
    controller = Controller(Task(BOX, LIMITS, costs=1), LyOn(), budget=50)
    numbers = controller.ask()
    assert len(numbers) == 2
    controller.void(numbers)
    controller.tell((1.0, 0.5), reward=1, penalty=0)
    bid, rate = controller.ask(eligible={"rate": (0.5, 1.0)})
    assert 0 <= bid <= 5
    assert rate >= 0.5


def test_a_campaign_over_numbers_keeps_its_ledger(tmp_path):
    task = Task(BIDS, LIMITS, costs=1)
    campaign = open_campaign(tmp_path / "a.db", "a", task=task, budget=30, policy=LyOn())
    ticket = campaign.ask("one")
    assert ticket.value == float(ticket.arm) == BIDS.value(ticket.number)
    campaign.tell("one", reward=1, penalty=0)
    among = campaign.ask("two", eligible=(1.0, 2.0))
    assert 1.0 <= among.value <= 2.0
    with pytest.raises(ReportError, match=r"bid = 9.0: must lie in \[0.0, 5.0\]"):
        campaign.tell("two", reward=0, penalty=0, arm=9.0)
    campaign.tell("two", reward=0, penalty=0, arm=among.value)
    assert campaign.status()["arms"][among.number]["pulls"] >= 1
    campaign.disconnect()
    again = open_campaign(tmp_path / "a.db", "a")
    again.verify()
    assert sum(arm["pulls"] for arm in again.status()["arms"]) == 2
    again.disconnect()
