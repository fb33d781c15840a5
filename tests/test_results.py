"""Summaries, merging, files."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from tightrope import (
    Arm,
    Bernoulli,
    FixedArm,
    LyOff,
    LyOn,
    Problem,
    Results,
    ResultsError,
    Scales,
    Stationary,
    TwoPoint,
    optimum,
    simulate,
)
from tightrope.results import Runs


@pytest.fixture(scope="module")
def results(paper):
    return simulate(paper, [LyOff(), LyOn()], budgets=[50, 200], runs=100, seed=3)


def test_summary_is_the_arrays_means(paper, results):
    rows = results.summary()
    assert [(row["policy"], row["budget"]) for row in rows] == [
        ("lyoff", 50),
        ("lyoff", 200),
        ("lyon", 50),
        ("lyon", 200),
    ]
    row, runs = rows[3], results["lyon"].runs[1]
    assert row["runs"] == 100
    assert row["reward_rate"] == pytest.approx(runs.reward.mean() / 200)
    assert row["reward_rate_se"] == pytest.approx(runs.reward.std(ddof=1) / 200 / 10)
    assert row["violation"] == pytest.approx(runs.penalty[:, 0].mean() / 200 - 0.8)
    assert row["regret"] == pytest.approx(optimum(paper, 200) - runs.reward.mean())
    assert row["regret_se"] == pytest.approx(200 * row["reward_rate_se"])
    low, high = row["violation_interval"]
    assert high - low == pytest.approx(2 * 1.96 * row["violation_se"], rel=1e-3)
    assert row["pull_share"][0] == pytest.approx((runs.pulls[:, 0] / runs.pulls.sum(1)).mean())
    assert row["cost_share"][0] == pytest.approx((runs.arm_cost[:, 0] / runs.cost).mean())
    assert row["steps"] == runs.pulls.sum()
    assert row["pulls"] == row["steps"] / 100
    assert row["queue_max"] == pytest.approx(runs.queue_max.mean())
    assert row["seconds"] > 0
    assert row["backend"] == "cpu"
    json.dumps(rows, allow_nan=False)


def test_reports_are_in_the_users_units():
    """The same problem in dollars and cents: the same decisions, the reports scaled."""

    def problem(cost: float, reward: float, penalty: float) -> Problem:
        arms = [(0.4, 0.8, 0.6), (0.6, 0.6, 0.3)]
        return Problem(
            tuple(
                Arm(f"{k}", TwoPoint(0, cost, x), TwoPoint(0, reward, r), TwoPoint(0, penalty, y))
                for k, (x, r, y) in enumerate(arms)
            ),
            limit=0.8 * penalty / cost,
            scales=Scales(cost, reward, penalty),
        )

    plain = simulate(problem(1, 1, 1), LyOn(), budgets=100, runs=50).summary()[0]
    scaled = simulate(problem(5, 20, 0.25), LyOn(), budgets=500, runs=50).summary()[0]
    for key in ("pull_share", "cost_share", "pulls", "steps"):
        assert plain[key] == scaled[key]
    assert scaled["reward_rate"] == pytest.approx(plain["reward_rate"] * 20 / 5)
    assert scaled["violation"] == pytest.approx(plain["violation"] * 0.25 / 5)
    assert scaled["regret"] == pytest.approx(plain["regret"] * 20)
    assert scaled["queue_max"] == pytest.approx(plain["queue_max"] * 0.25)


def test_rows_for_no_penalty_and_for_two(mixed):
    two = simulate(mixed, Stationary((0.3, 0.3, 0.4)), budgets=300, runs=5).summary()[0]
    assert len(two["violation"]) == len(two["violation_se"]) == len(two["queue_max"]) == 2
    none = Problem((Arm("a", Bernoulli(0.5), Bernoulli(0.5)),), limit=None)
    row = simulate(none, FixedArm(), budgets=20, runs=5).summary()[0]
    assert row["violation"] == []


def test_one_run_has_no_standard_error(paper):
    row = simulate(paper, LyOff(), budgets=20, runs=1).summary()[0]
    assert row["reward_rate_se"] is None
    assert row["reward_rate_interval"] is None


def test_regret_is_none_where_no_policy_keeps_the_limit():
    problem = Problem((Arm("a", Bernoulli(0.5), Bernoulli(0.5), Bernoulli(0.4)),), limit=0.8)
    row = simulate(problem, FixedArm(), budgets=10, runs=5).summary()[0]
    assert row["regret"] is None


def test_save_and_load_are_exact(results, tmp_path):
    path = tmp_path / "runs.npz"
    results.save(path)
    back = Results.load(path)
    assert back.problem == results.problem
    assert (back.seed, back.budgets, back.version) == (3, (50, 200), results.version)
    assert back.summary() == results.summary()
    for label in results.labels:
        for field in dataclasses.fields(Runs):
            a, b = (getattr(r[label].runs, field.name) for r in (results, back))
            assert a.dtype == b.dtype
            assert np.array_equal(a, b)
    assert [p.name for p in tmp_path.iterdir()] == ["runs.npz"]


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04broken"])
def test_a_file_that_is_no_results_file(tmp_path, content):
    path = tmp_path / "bad.npz"
    path.write_bytes(content)
    with pytest.raises(ResultsError, match=r"bad\.npz"):
        Results.load(path)


def test_another_format_is_refused(results, tmp_path):
    path = tmp_path / "new.npz"
    header = json.dumps({"format": 99})
    np.savez(path, header=np.array(header))
    with pytest.raises(ResultsError, match="format 99"):
        Results.load(path)
    with pytest.raises(ResultsError, match=r"missing\.npz"):
        Results.load(tmp_path / "missing.npz")


def test_saving_where_nothing_can_be_written(results, tmp_path):
    from tightrope import InputError

    with pytest.raises(InputError, match="cannot write"):
        results.save(tmp_path / "no" / "such" / "folder.npz")


def test_merge_refuses_the_same_run_and_other_work(paper, results):
    with pytest.raises(ResultsError, match="run 0 is in more than one"):
        results.merge(results)
    other = simulate(paper, [LyOff(), LyOn()], budgets=[50, 200], runs=range(100, 110), seed=4)
    with pytest.raises(ResultsError, match="seed differs"):
        results.merge(other)
    with pytest.raises(ResultsError, match="no policy 'x'"):
        results["x"]


def test_to_pandas(results):
    pandas = pytest.importorskip("pandas")
    table = results.to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert list(table["policy"]) == ["lyoff", "lyoff", "lyon", "lyon"]
