"""Logs of numbers: reading, the points of a fit, its problem, plans, and why there is no replay."""

from __future__ import annotations

from contextlib import redirect_stdout

import numpy as np
import pytest

from benchmarks.intervals import _covered
from tightrope import (
    Arm,
    Controller,
    Features,
    Interval,
    Limit,
    Problem,
    Resolve,
    Scales,
    Task,
    load_problem,
    open_campaign,
    oracle,
    read_log,
    replay,
)
from tightrope.cli import main
from tightrope.data.best_rates import best_rate
from tightrope.data.draws import Draws
from tightrope.data.fitting import fit
from tightrope.data.points import over_points
from tightrope.data.profile import profile
from tightrope.errors import InputError, LogWarning
from tightrope.problem import Box
from tightrope.problem.curves import stated_arms
from tightrope.statistics import NORMAL_95

SALE = 0.25
LIMITS = {"dollars": Limit(1.2, per="reward")}


def auctions(rows, bids=None):
    """A log of bids in second-price auctions against one uniform bid."""
    luck = np.random.default_rng(1)
    bid = luck.random(rows) if bids is None else luck.choice(bids, rows)
    other = luck.random(rows)
    won = other < bid
    sale = won & (luck.random(rows) < SALE)
    return {"bid": bid, "dollars": np.where(won, other, 0.0), "sale": sale.astype(float)}


def fitted(log, **more):
    given = {"arm": "bid", "interval": (0, 1), "cost": 1, "reward": "sale", "limits": LIMITS}
    return fit(log, **{**given, **more})


# --- reading --------------------------------------------------------------------------------------


def test_numbers_are_rounded_to_the_grid():
    log = read_log(
        {"bid": [0.2, 0.74, 1.0], "paid": [1, 1, 2]},
        arm="bid",
        cost="paid",
        reward="bid",
        interval=Interval(0, 1, name="bid", points=5),
    )
    assert log.arms == ("0", "0.25", "0.5", "0.75", "1")
    assert log.chosen.tolist() == [1, 3, 4]
    assert log.outcomes[1].tolist() == [0.2, 0.74, 1.0]
    assert log.space.name == "bid"


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"interval": (0, 0.5)}, "row 1 .*'bid': arm = 0.7: must lie in the interval, from 0.0 to"),
        ({"interval": 3}, "interval = 3: must be two numbers, low and high"),
        ({"interval": (1, 0)}, "bid: low = 1.0: must be below high = 0.0"),
        ({"arm": "kind"}, "row 1 .*'kind': 'a' must be a number"),
    ],
)
def test_a_wrong_interval_is_refused_in_one_line(more, line):
    log = {"bid": [0.7, 0.1], "sale": [0, 1], "kind": ["a", "b"]}
    given = {"arm": "bid", "cost": 1, "reward": "sale", "interval": (0, 1)}
    with pytest.raises(InputError, match=line) as told:
        read_log(log, **{**given, **more})
    assert "\n" not in str(told.value)


def test_rows_without_a_number_can_be_dropped():
    log = {"bid": [0.7, float("nan"), 0.1], "sale": [0, 1, 1], "chance": [0.5, 0.5, 0.25]}
    given = {"arm": "bid", "cost": 1, "reward": "sale", "interval": (0, 1), "propensity": "chance"}
    with pytest.raises(InputError, match="arm is missing"):
        read_log(log, **given)
    with pytest.warns(LogWarning, match="1 of 3 rows are dropped"):
        found = read_log(log, **given, drop_missing=True)
    assert found.chosen.tolist() == [70, 10]
    assert found.propensity.tolist() == [0.5, 0.25]


# --- the fit --------------------------------------------------------------------------------------


def test_more_rows_give_more_points():
    counts = [len(over_points(read_log(auctions(n), arm="bid", cost=1, reward="sale",
                                       penalty="dollars", interval=(0, 1))).arms)
              for n in (100, 1000, 20_000)]  # fmt: skip
    assert counts[0] < counts[1] < counts[2]


def test_a_fit_finds_the_best_bid_of_an_auction():
    # A bid b earns SALE b and pays b^2 / 2: the best one is 2 SALE 1.2 = 0.6, which earns 0.15.
    problem = fitted(auctions(40_000)).problem
    best = oracle(problem)
    assert problem.space == Interval(0, 1, name="bid")
    assert problem.arms[60].reward.mean == pytest.approx(SALE * 0.6, rel=0.06)
    found = best_rate(Draws.of(problem, 64, 0)).rate  # without the luck of the best point
    assert abs(found.mean - SALE * 0.6) < NORMAL_95 * found.error
    share = dict(zip(best.arm_names, best.pull_share, strict=True))
    assert sum(float(bid) * part for bid, part in share.items()) == pytest.approx(0.6, abs=0.06)


def test_few_numbers_are_the_points():
    assert fitted(auctions(900, [0.05, 0.45, 0.95])).log.arms == ("0.05", "0.45", "0.95")


def test_a_profile_is_about_the_points():
    made = fitted(auctions(3000))
    found = profile(made)
    assert found.interval == "bid"
    assert [one.name for one in found.arms] == list(made.log.arms)
    assert sum(one.rows for one in found.arms) == 3000
    assert found.reward_rate == pytest.approx(oracle(made.problem).reward_rate, rel=1e-9)


def test_a_log_that_says_nothing_about_an_end_is_warned_of():
    log = auctions(600)
    log["bid"] = 0.3 + 0.3 * log["bid"]
    with pytest.warns(LogWarning, match=r"bid: no rows below 0.3 or above 0.6; there the nearest"):
        problem = fitted(log).problem
    assert problem.arms[0].reward.mean == problem.arms[25].reward.mean
    with pytest.raises(InputError, match=r"arm 'bid': every row has 0.5; must have different"):
        fitted({**log, "bid": np.full(600, 0.5)})


def test_a_fit_is_saved_with_each_row_once(tmp_path):
    problem = fitted(auctions(3000)).problem
    files = problem.save(tmp_path / "auction.toml")
    assert len(files) == 2
    assert problem.row_count == 3000
    assert (tmp_path / "auction.toml").read_text().count("[[arms]]") < 40
    assert load_problem(tmp_path / "auction.toml") == problem


def test_between_points_with_rows_both_are_drawn():
    low = Arm.from_rows("low", [(1, 0, 0), (1, 1, 0)])
    high = Arm.from_rows("high", [(2, 1, 1)])
    space = Interval(0, 4, points=5)
    problem = Problem(space, arm={1: low, 3: high}, limit=0.5, scales=Scales(cost=2))
    assert [arm.cost.mean for arm in problem.arms] == pytest.approx([1, 1, 1.5, 2, 2])
    assert problem.arms[2].reward.chances.tolist() == [0.25, 0.25, 0.5]
    assert Problem.from_toml(problem.to_toml()) == problem


def test_draws_of_a_log_are_whole_curves():
    problem = fitted(auctions(500)).problem
    draws = Draws.of(problem, 3, 7)
    for drawn, moments in zip(draws.problems(), draws.moments(), strict=True):
        assert len(stated_arms(drawn.arms)) == len(stated_arms(problem.arms))
        np.testing.assert_allclose(drawn.moments.reward, moments.reward, rtol=1e-9)
        np.testing.assert_allclose(drawn.moments.penalty, moments.penalty, rtol=1e-9)
        bends = np.abs(np.diff(drawn.moments.reward, 2)) > 1e-12
        assert bends.sum() <= 2 * len(stated_arms(problem.arms))


def test_an_exported_campaign_is_fitted_as_an_interval(tmp_path):
    task = fitted(auctions(300)).problem.task
    campaign = open_campaign(tmp_path / "a.db", "a", task=task, budget=400, policy="uniform-random")
    for bid, dollars, sale in zip(*(auctions(100).values()), strict=True):
        ticket = campaign.ask()
        campaign.tell(ticket, cost=1, reward=sale, penalty=dollars * (ticket.value > bid))
    campaign.disconnect()
    with (tmp_path / "a.jsonl").open("w") as file, redirect_stdout(file):
        assert main(["campaign", "export", str(tmp_path / "a.db"), "a"]) == 0
    found = fit(tmp_path / "a.jsonl")
    assert found.problem.space == task.space
    assert len(found.log) == 100


# --- plans, and no replay -------------------------------------------------------------------------


def test_the_shell_fits_and_plans_a_log_of_numbers(tmp_path, capsys):
    log = auctions(400)
    lines = ["bid,dollars,sale", *(f"{b},{d},{s}" for b, d, s in zip(*log.values(), strict=True))]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    columns = "--arm bid --interval 0,1 --cost 1 --reward sale --limit dollars=1.2/reward"
    words = [str(tmp_path / "log.csv"), *columns.split()]
    assert main(["fit", *words]) == 0
    assert "points of bid" in capsys.readouterr().out
    some = "--budget 20 --runs 8 --draws 2 --policy uniform-random --json".split()
    assert main(["plan", *words, *some]) == 0
    assert '"uniform-random"' in capsys.readouterr().out
    words = [*words, "--penalty", "dollars", "--policy", "lyon", "--budget", "20"]
    assert main(["replay", *words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "interval 'bid': cannot be replayed" in said
    assert "tightrope plan LOG --arm bid --interval 0,1" in said


def test_a_log_of_numbers_is_not_replayed():
    log = read_log(auctions(50), arm="bid", cost=1, reward="sale", interval=(0, 1))
    with pytest.raises(InputError, match="cannot be replayed"):
        replay(log, {}, "lyon", budget=10)


@pytest.mark.parametrize(
    "curve",
    [lambda x: 0.1 + 0.8 / (1 + np.exp(10 * (x - 0.5))), lambda x: 0.5 + 0.4 * np.sin(6 * x)],
)
def test_standard_errors_cover_a_curve(curve):
    """Over all points, 95 % errors hold the mean at about 95 %: the bias of a fit is small."""
    space = Interval(0, 1, name="x")
    means = curve(np.array(space.axes[0]))
    held = np.mean([_covered(space, means, 5000, seed) for seed in range(12)])
    assert 0.92 <= held <= 0.98


# --- boxes and types ------------------------------------------------------------------------------


def sales(rows, seed=1):
    """A log of prices and efforts; a sale earns the price, and both annoy."""
    luck = np.random.default_rng(seed)
    price, effort = 2.0 * luck.random(rows), luck.random(rows)
    sold = luck.random(rows) < (0.2 + 0.6 * effort) * (1.0 - 0.5 * price)
    annoyed = luck.random(rows) < 0.02 + 0.05 * price + 0.1 * effort
    return {
        "price": price,
        "effort": effort,
        "earned": price * sold,
        "bad": annoyed.astype(float),
        "segment": np.where(luck.random(rows) < 0.3, "firm", "home"),
    }


ROLES = {"cost": 1, "reward": "earned"}
SIDES = {"arm": ["price", "effort"], "interval": [(0, 2), (0, 1)]}
BAD = {"bad": "12% per pull"}


def test_a_log_of_two_numbers_has_a_column_for_each():
    log, space = sales(500), Box({"price": (0, 2), "effort": (0, 1)})
    found = read_log(log, **ROLES, **SIDES, penalty="bad")
    assert found.space == space
    wanted = [space.number_of(pair) for pair in zip(log["price"], log["effort"], strict=True)]
    assert found.chosen.tolist() == wanted
    again = read_log(log, **ROLES, interval=space, penalty="bad")
    assert again.chosen.tolist() == wanted


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"interval": [(0, 2)]}, "interval = .*: must be two numbers, low and high for each colu"),
        ({"interval": [(0, 1), (0, 1)]}, "arm price = .*: must lie in the interval, from 0.0 to 1"),
        ({"arm": ["price", "pace"]}, "pace"),
    ],
)
def test_wrong_columns_of_a_box_are_refused_in_one_line(more, line):
    with pytest.raises(InputError, match=line):
        read_log(sales(50), **{**ROLES, **SIDES, **more}, penalty="bad")


def test_a_fit_of_a_box_finds_the_best_point():
    """At effort y a price x earns x (0.2 + 0.6 y) (1 - x / 2): best at 1, with much effort."""
    problem = fit(sales(20_000), **ROLES, **SIDES, limits=BAD).problem
    assert problem.space.ranges == {"price": (0.0, 2.0), "effort": (0.0, 1.0)}
    best = oracle(problem)
    points = np.array(problem.space.grid)
    price, effort = best.pull_share @ points
    assert price == pytest.approx(0.85, abs=0.25)
    assert effort > 0.35
    truth = [x * (0.2 + 0.6 * y) * (1 - 0.5 * x) for x, y in points]
    means = [arm.reward.mean for arm in problem.arms]
    assert np.mean(np.abs(np.subtract(means, truth))) < 0.04
    assert Problem.from_toml(problem.to_toml()) == problem


def test_a_log_of_a_box_teaches_a_controller():
    task = Task(Box({"price": (0, 2), "effort": (0, 1)}), BAD, Scales(reward=2), costs=1)
    log = read_log(sales(600), **ROLES, interval=task.space, penalty="bad")
    taught = Controller(task, Resolve(), budget=100, learn_from=log, weight=0.5)
    assert 0.0 <= taught.ask()[0] <= 2.0
    assert taught._state.record.pulls.sum() == pytest.approx(300)


def test_a_log_of_numbers_with_types_gives_a_curve_for_each():
    problem = fit(
        sales(6000), arm="price", interval=(0, 2), context="segment", **ROLES, limits=BAD
    ).problem
    assert set(problem.contexts) == {"firm", "home"}
    assert problem.space == Interval(0, 2, name="price")
    assert oracle(problem).by_type.shape == (2, 101)
    assert Problem.from_toml(problem.to_toml()) == problem


def test_a_profile_of_numbers_with_types_is_about_the_points():
    fitted = fit(sales(6000), arm="price", interval=(0, 2), context="segment", **ROLES, limits=BAD)
    found = profile(fitted)
    assert [one.name for one in found.arms] == list(fitted.log.arms)


def test_the_shell_fits_a_log_of_two_numbers(tmp_path, capsys):
    log, file = sales(3000), tmp_path / "log.csv"
    lines = zip(*(map(str, log[name]) for name in log), strict=True)
    file.write_text("\n".join([",".join(log), *map(",".join, lines)]))
    out = tmp_path / "box.toml"
    words = ["fit", str(file), "--arm", "price,effort", "--interval", "0,2,0,1", "--cost", "1"]
    words += ["--reward", "earned", "--limit", "bad=0.12/pull", "-o", str(out)]
    assert main(words) == 0
    assert "points of price and effort" in capsys.readouterr().out
    assert load_problem(out).space.side_count == 2
    assert main(["replay", str(file), *words[2:6], "--cost", "1", "--reward", "earned",
                 "--penalty", "bad", "--limit", "bad=0.12/pull", "--budget", "9",
                 "--policy", "resolve"]) == 2  # fmt: skip
    assert "--arm price,effort --interval 0,2,0,1" in capsys.readouterr().err


# --- features -------------------------------------------------------------------------------------


def described(rows, low=0.0):
    """As ``auctions``; a sale is the likelier the larger the age."""
    luck = np.random.default_rng(2)
    bid, age, other = luck.uniform(low, 1, rows), luck.random(rows), luck.random(rows)
    won = other < bid
    sale = won & (luck.random(rows) < 0.1 + 0.8 * age)
    return {"bid": bid, "age": 40 * age, "dollars": np.where(won, other, 0.0), "sale": 1.0 * sale}


def test_a_log_of_numbers_has_features():
    log = read_log(described(50), arm="bid", cost=1, reward="sale", penalty="dollars",
                   interval=(0, 1), features=["age"])  # fmt: skip
    assert log.contexts[:, 0] == pytest.approx(described(50)["age"])
    assert log.chosen == pytest.approx(100 * described(50)["bid"], abs=0.5)
    assert log.features == ("age",)
    task = Task(log.space, LIMITS, costs=1, contexts=Features(["age"]))
    taught = Controller(task, Resolve(), budget=100, learn_from=log, weight=0.5)
    assert taught._state.scratch.whole.pulls[0] == pytest.approx(25)


def test_a_fit_of_numbers_with_features_knows_what_features_are_worth():
    made = fitted(described(4000), features=["age"])
    problem = made.problem
    assert problem.space == Interval(0, 1, "bid", 33)
    assert made.log.arms == problem.space.arms
    means = [arm.reward.mean for arm in problem.arms]
    assert means == pytest.approx(0.5 * np.linspace(0, 1, 33), abs=0.15)
    table = np.array([arm.reward.values for arm in problem.arms])  # [K, n]
    old = problem.features.rows[:, 0] > 20.0
    assert table[16:, old].mean() > 1.7 * table[16:, ~old].mean() > 0.1
    blind = oracle(problem, bound="blind").reward_rate
    assert oracle(problem, bound="linear").reward_rate > 1.05 * blind
    assert Problem.from_toml(problem.to_toml()) == problem
    assert [one.name for one in profile(made).arms] == list(made.log.arms)


def test_numbers_without_rows_are_like_the_nearest_ones():
    with pytest.warns(
        LogWarning, match=r"bid: no rows below 0\.5; there the nearest rows are drawn"
    ):
        problem = fitted(described(2000, low=0.5), features=["age"]).problem
    half = len(problem.arms) // 2
    low = [arm.reward.values for arm in problem.arms[: half + 1]]
    assert all(np.array_equal(one, low[half]) for one in low)
    drawn = next(Draws.of(problem, 2, 0).problems())
    assert drawn.space == problem.space
    assert np.array_equal(drawn.arms[0].reward.values, drawn.arms[half].reward.values)
    assert not np.array_equal(drawn.arms[half].reward.values, low[half])


def test_a_profile_of_a_box_has_the_points_with_rows():
    log = sales(3000)
    there = (log["price"] < 1.0) | (log["effort"] < 0.5)
    made = fit(
        {name: np.asarray(one)[there] for name, one in log.items()},
        arm=["price", "effort"], interval=[(0, 2), (0, 1)], **ROLES, limits=BAD,
    )  # fmt: skip
    found, best = profile(made), oracle(made.problem)
    assert len(made.log.arms) < len(made.problem.space)
    assert len(found.shares) == len(made.log.arms)
    shares = dict(zip(made.log.arms, found.shares, strict=True))
    for name, share in zip(best.arm_names, best.pull_share, strict=True):
        assert name not in shares or shares[name] == pytest.approx(share, abs=1e-9)
