"""``plan``: against counting in results, finite differences, and brute force over grids."""

from __future__ import annotations

import json
import os
import re
import signal
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tightrope import (
    Arm,
    Bernoulli,
    Constant,
    LyOn,
    Problem,
    Resolve,
    TwoPoint,
    oracle,
    plan,
    ready_problem,
    simulate,
)
from tightrope import optimum as exact_optimum
from tightrope.data import draws as draws_module
from tightrope.data.draws import Draws
from tightrope.data.multipliers import worth
from tightrope.data.planning import default_policies, fan_budgets
from tightrope.data.plans import QUANTILES
from tightrope.data.searches import ATTEMPTS, FRESH, NEAR
from tightrope.errors import InputError, RiskWarning
from tightrope.problem import Limit
from tightrope.report.plan import headline, page, panels, tables

LYON = {"lyon": LyOn()}


def scaled_log(paper, rows=60):
    """Rows of the paper's arms in dollars, with named limits."""
    stream = np.random.default_rng(2)
    arms = [
        Arm.from_rows(arm.name, (stream.random((rows, 3)) < [one.mean for one in arm.laws]) * 1.0)
        for arm in paper.arms
    ]
    return replace(paper, arms=arms, name="a log")


# --- rows -------------------------------------------------------------------------------------


def test_rows_are_counts_and_quantiles_of_the_same_runs(paper):
    found = plan(paper, LYON, budgets=[40, 400], runs=300, seed=3, fan=False)
    results = simulate(paper, LYON, budgets=[40, 400], runs=300, seed=3)
    for g, row in enumerate(found.rows):
        runs = results["lyon"].runs
        reward, penalty = runs.reward[g], runs.penalty[g, :, 0]
        pulls = runs.pulls[g].sum(axis=1)
        assert (row.policy, row.budget, row.runs) == ("lyon", results.budgets[g], 300)
        assert row.reward == pytest.approx(np.quantile(reward, QUANTILES))
        assert row.pulls == pytest.approx(np.quantile(pulls, QUANTILES))
        assert row.rate[0] == pytest.approx(np.quantile(penalty / row.budget, QUANTILES))
        broken = np.count_nonzero(penalty > 0.8 * row.budget + 1e-6)
        assert row.broken[0].share == broken / 300 == row.any_broken.share
        assert row.mean.mean == pytest.approx(reward.mean())
        assert row.mean.simulation == pytest.approx(reward.std(ddof=1) / np.sqrt(300))
    assert 0.0 < found.rows[0].broken[0].share <= 1.0


def test_the_fan_is_what_a_simulation_at_each_budget_gives(paper):
    found = plan(paper, LYON, budgets=200, runs=80, seed=1)
    budgets = [row.budget for row in found.fan]
    assert budgets == sorted(fan_budgets(paper, [200.0]))
    assert budgets[-1] == 200.0
    for row in found.fan:
        runs = 80 if row.budget == 200.0 else 20
        results = simulate(paper, LYON, budgets=row.budget, runs=runs, seed=1)["lyon"].runs
        assert row.reward == pytest.approx(np.quantile(results.reward[0], QUANTILES))
    curves = [panel.curves[0] for panel in panels(found)]
    assert [panel.title for panel in panels(found)] == ["lyon", "lyon"]
    assert curves[0].y == pytest.approx([row.median / row.budget for row in found.fan])
    assert curves[1].low == pytest.approx([row.rate[0][1] for row in found.fan])


def test_a_limit_kept_exactly_is_not_broken():
    arm = Arm("only", Constant(1.0), Bernoulli(0.5), Constant(0.7))
    found = plan(Problem([arm], limits={"x": Limit(0.7, per="pull")}), LYON, budgets=30, runs=10)
    assert found.rows[0].broken[0].share == 0.0
    assert found.rows[0].rate[0] == pytest.approx([0.7] * 5)


# --- what more is worth -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["paper", "arena-per-pull", "arena-per-reward", "arena-total", "arena-two-limits"]
)
def test_the_worth_of_more_is_the_slope_of_the_oracle(name):
    problem, budget, step = ready_problem(name), 2000.0, 1e-5

    def reward(budget, limits):
        return budget * oracle(problem.with_limits(limits), budget).reward_rate

    found = worth(Draws.of(problem, 0, 0), budget)
    ends = [reward(budget * (1 + sign * step), {}) for sign in (1, -1)]
    slope = (ends[0] - ends[1]) / (2 * step * budget)
    assert found.budget_unit.mean == pytest.approx(slope, rel=1e-6)
    for one in found.limits:
        ends = [reward(budget, {one.name: one.limit * (1 + sign * step)}) for sign in (1, -1)]
        slope = (ends[0] - ends[1]) / (2 * step * one.limit)
        assert one.per_unit.mean == pytest.approx(slope, rel=1e-5, abs=1e-6)
        assert one.per_step.mean == pytest.approx(one.per_unit.mean * one.step)
    assert any(one.per_unit.mean > 0 for one in found.limits)


def test_a_unit_of_budget_is_worth_a_step_of_the_exact_optimum(paper):
    found = worth(Draws.of(paper, 0, 0), 500.0)
    assert found.optimum.mean == exact_optimum(paper, 500)
    steps = exact_optimum(paper, 501) - exact_optimum(paper, 500)
    assert found.budget_unit.mean == pytest.approx(steps)


def test_arms_that_change_and_limits_that_cannot_be_kept_have_an_answer():
    found = worth(Draws.of(ready_problem("arena-abrupt"), 0, 0), 1000.0)
    assert found.budget_unit.mean * 1000 == pytest.approx(found.optimum.mean, rel=0.01)
    hopeless = Problem([Arm("a", Bernoulli(0.5), Bernoulli(0.5), Bernoulli(0.9))], limit=0.2)
    made = plan(hopeless, LYON, budgets=20, runs=10, fan=False)
    assert made.worth == ()
    assert "No mixture of the arms keeps the limits, so there is no optimum." in made.notes
    json.dumps(made.summary(), allow_nan=False)


# --- searches ---------------------------------------------------------------------------------


def test_the_smallest_budget_is_that_of_a_grid(paper):
    found = plan(paper, LYON, budgets=200, runs=200, seed=5, earn=300, chance=0.8, fan=False)
    (one,) = found.earned
    assert one.budget - one.below <= 1.1 * NEAR * one.budget
    grid = [round(float(x), 3) for x in np.arange(0.9, 1.1, 0.013) * one.budget]
    results = simulate(paper, LYON, budgets=[one.below, one.budget, *grid], runs=200, seed=5)
    shares = (results["lyon"].runs.reward >= 300).mean(axis=1)
    assert shares[0] < 0.8 <= shares[1] == one.share
    for budget, share in zip(grid, shares[2:], strict=True):
        if abs(budget - one.budget) > 0.02 * one.budget:
            assert (share >= 0.8) == (budget > one.budget), budget


def test_a_target_out_of_reach_is_said_to_be(paper):
    (one,) = plan(paper, LYON, budgets=10, runs=20, earn=1e7, fan=False).earned
    assert (one.budget, one.tried) == (None, 640.0)


def test_the_tightest_limit_is_that_of_a_grid(paper):
    risk, budget = 0.1, 60.0
    found = plan(paper, LYON, budgets=budget, runs=50, seed=2, promise=risk, fan=False)
    (one,) = found.promises
    assert one.policy == "resolve:risk=0.1"
    assert one.least == pytest.approx(0.5)

    def bound(limit, first):
        numbers = range(first, first + one.runs)
        there = paper.with_limits({"penalty": limit})
        results = simulate(there, Resolve(risk=risk), budgets=budget, runs=numbers, seed=2)
        broken = int((results.records[0].runs.penalty[0, :, 0] > limit * budget + 1e-6).sum())
        return broken, stats.beta.ppf(1 - 0.05 / ATTEMPTS, broken + 1, one.runs - broken)

    assert any(
        (one.broken, one.bound) == pytest.approx(bound(one.limit, FRESH * (1 + attempt)))
        for attempt in range(ATTEMPTS)
    )
    assert one.bound <= risk
    kept = {limit: bound(limit, 0)[1] <= risk for limit in one.limit * np.arange(0.85, 1.2, 0.05)}
    least = min(limit for limit, good in kept.items() if good)
    assert least == pytest.approx(one.limit, rel=0.08)
    assert not kept[min(kept)]


def test_no_promise_where_none_can_be_kept():
    arm = Arm("only", Constant(1.0), Bernoulli(0.5), TwoPoint(0.0, 1.0, 0.01))
    problem = Problem([arm], limit=0.011)
    (one,) = plan(problem, LYON, budgets=10, runs=20, promise=0.05, fan=False).promises
    assert one.limit is None
    assert "is broken too often at this budget" in one.reason
    assert one.bound > 0.05


# --- logs -------------------------------------------------------------------------------------


def test_a_logs_plan_includes_what_it_leaves_open(paper):
    log = scaled_log(paper)
    found = plan(log, LYON, budgets=300, runs=400, draws=40, seed=1, fan=False)
    alone = plan(log, LYON, budgets=300, runs=400, draws=0, seed=1, fan=False)
    (row,), (other,) = found.rows, alone.rows
    assert (found.draws, alone.draws) == (40, 0)
    assert row.mean.log > 3 * row.mean.simulation > 0.0 == other.mean.log
    assert row.reward[-1] - row.reward[0] > 1.5 * (other.reward[-1] - other.reward[0])
    assert found.worth[0].optimum.log > 0.0 == alone.worth[0].optimum.log
    assert found.worth[0].limits[0].multiplier.log > 0.0
    assert found.notes[0] == (
        "The log's part of the errors is from 40 draws of the Bayesian bootstrap over rows."
    )
    assert alone.notes[0] == "No draws were requested: the errors are those of the simulation."


# --- the page and the shell -------------------------------------------------------------------


def test_the_page_is_one_file_that_escapes_names(paper):
    named = replace(paper, name="<script>alert(1)</script>")
    found = plan(named, LYON, budgets=[20, 40], runs=20, earn=30)
    text = page(found)
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    outside = set(re.findall(r"(?:src|href)=\"([^\"#]+)\"", text))
    assert outside == set()
    for title in ("Against the budget", "How sure the mean is", "Earn a target"):
        assert title in text
    assert "<script" not in found._repr_html_()
    assert "of the log" in str(found)


def test_the_shell_prints_json_and_writes_whole_files(shell, tmp_path):
    out = tmp_path / "new" / "plan"
    words = f"plan paper --budget 60 --policy lyon --runs 40 --limit 0.7 --json --out {out}"
    status, text, err = shell(*words.split(), "--earn", "50", "--quiet")
    found = json.loads(text)
    assert status == 0
    assert err == f"wrote {out}/plan.html and 4 files beside it\n"
    assert sorted(os.listdir(out)) == [f"plan.{x}" for x in "csv html json png svg".split()]
    assert json.loads((out / "plan.json").read_text()) == found
    assert found["worth"][0]["limits"]["penalty"]["limit"] == 0.7
    (row,) = found["rows"]
    assert list(row["reward"]) == ["5", "25", "50", "75", "95"]
    assert list(row["limits"]["penalty"]["broken"]) == ["share", "interval", "runs"]
    lines = (out / "plan.csv").read_text().splitlines()
    assert len(lines) == 1 + len(found["fan"])


def test_the_terminal_has_eighty_columns(shell, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    status, text, _ = shell(*"plan paper --budget 30 --policy lyon --runs 10 --quiet".split())
    assert status == 0
    assert max(map(len, text.splitlines())) <= 80
    first = " ".join(text.partition("\n\n")[0].split())
    assert first.startswith("With a budget of 30, ")
    assert "in 90 % of runs) and ends above a limit in" in first
    assert first.endswith("; the next unit of budget is worth 1.3 of reward.")


def test_the_first_sentence_is_in_the_users_currency(paper):
    found = plan(paper, LYON, budgets=[20, 40], runs=20, fan=False, unit="€")
    first, second = headline(found)
    assert first.startswith("With a budget of €20, ")
    assert second.endswith("; the next €1 of budget is worth 1.3 of reward.")
    for text in (str(found), page(found), found._repr_html_()):
        assert first in " ".join(text.split())
    assert found.summary()["unit"] == "€"
    assert "€40" in tables(found)[0].columns[1].texts


def test_policies_that_break_the_limit_are_red_and_last(paper):
    found = plan(paper, ["lyon", "lyoff:delta0=15"], budgets=[200, 300], runs=60, fan=False)
    reward, limits, *_ = tables(found)
    names = ["lyoff:delta0=15 (knows the distributions)", "lyon (knows the smallest cost)"]
    assert reward.columns[0].texts == names * 2
    assert list(reward.columns[0].tones) == ["", "bad"] * 2
    assert reward.notes == ["breaks a limit (red): lyon"]
    assert list(limits.columns[2].tones) == ["good", "bad"] * 2
    assert headline(found)[0].startswith("With a budget of 200, lyoff:delta0=15 earns ")
    alone = plan(paper, "lyon", budgets=200, runs=60, fan=False)
    assert "no policy keeps the limits; the nearest, lyon, earns" in headline(alone)[0]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("--budget 0", "budget = 0.0: must be a positive, finite number"),
        ("--budget 9 --limit bad=1", "limit 'bad' is unknown; known: penalty"),
        ("--budget 9 --limit x", "--limit penalty=x: 'x' must be a number or a percentage"),
        ("--budget 9 --limit 1 --limit 2", "--limit 2: 'penalty' is given twice"),
        ("--budget 9 --earn -1", "earn = -1.0 must be above 0, in units of reward"),
        ("--budget 9 --earn 5 --chance 1", "chance = 1.0 must lie between 0 and 1"),
        ("--budget 9 --promise 2", "promise = 2.0 must be a risk from 0.0001 to below 1"),
        ("--budget 9 --limit-name x", "--limit-name x: must come with --promise RISK"),
        ("--budget 9 --promise 0.1 --limit-name x", "limit name 'x' is unknown; known: penalty"),
        ("--budget 9 --policy lyon --policy lyon", "--policy 'lyon' is given twice; each must be"),
        ("--budget 9 --runs 1", "runs = 1 must be at least 2: one run has no interval"),
        ("--budget 9 --draws 1", "draws = 1 must be 0, or a whole number from 2 to 10,000"),
        (
            "--budget 9 --out /dev/null/x",
            "out = '/dev/null/x': /dev/null must be a folder to write",
        ),
    ],
)
def test_bad_input_is_one_line(shell, words, text):
    status, out, err = shell("plan", "paper", *words.split())
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert text in err


def test_promises_need_a_limit_that_can_move():
    many, hard = ready_problem("arena-two-limits"), ready_problem("paper")
    with pytest.raises(InputError, match="must come with a limit's name: "):
        plan(many, LYON, budgets=9, promise=0.1)
    hard = hard.with_limits({})
    hard = replace(hard, limit=Limit(0.8, hard=True))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="cannot be tightened, because it ends the run"):
        plan(hard, LYON, budgets=9, promise=0.1)


def test_without_limits_no_policy_has_a_risk():
    free = Problem([Arm("a", Bernoulli(0.5), Bernoulli(0.5))])
    assert "resolve:risk=0.01" not in default_policies(free)
    found = plan(free, LYON, budgets=20, runs=10)
    assert found.rows[0].broken == ()
    assert found.rows[0].any_broken.share == 0.0
    assert "The end" in page(found)


def test_ctrl_c_in_a_search_leaves_nothing_behind(shell, monkeypatch, tmp_path):
    calls, make = [], draws_module.make

    def interrupted(*given, **named):
        calls.append(given)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return make(*given, **named)

    monkeypatch.setattr(draws_module, "make", interrupted)
    out = tmp_path / "out"
    words = f"plan paper --budget 30 --policy lyon --runs 20 --earn 20 --quiet --json --out {out}"
    status, text, err = shell(*words.split())
    assert (status, text, err) == (130, "", "tightrope: interrupted; nothing was finished\n")
    assert not out.exists()


def test_a_problem_may_be_a_name_or_a_file(tmp_path):
    path, options = tmp_path / "mine.toml", {"budgets": 20, "runs": 20, "fan": False}
    path.write_text(ready_problem("paper").to_toml())
    found = [
        plan(one, LYON, **options).rows for one in (ready_problem("paper"), "paper", str(path))
    ]
    assert found[0] == found[1] == found[2]
    with pytest.raises(InputError, match="problem 'papr': no such ready problem or file; did you"):
        plan("papr", LYON, **options)


@pytest.mark.parametrize("policies", [None, "resolve:risk=0.01"])
def test_a_plan_says_that_a_risk_is_out_of_reach(policies):
    with pytest.warns(RiskWarning, match=r"policy resolve:risk=0.01: .*arena-rare', budget 100\)"):
        plan("arena-rare", policies, budgets=100, runs=2, draws=0, fan=False)
