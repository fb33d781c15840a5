"""Summaries, merging, files."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from tightrope import (
    Arm,
    Bernoulli,
    Limit,
    LyOff,
    LyOn,
    Problem,
    Results,
    Scales,
    Stationary,
    TwoPoint,
    optimum,
    ready_problem,
    simulate,
)
from tightrope.errors import InputError, ResultsError
from tightrope.policies import FixedArm
from tightrope.results import SummaryRow
from tightrope.runs import Record, Runs


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


def made_up(problem: Problem, seed: int = 3, **record: str) -> Results:
    """Two runs of one policy at budget 10, not simulated."""
    arms, limits = problem.arm_count, problem.penalty_count
    runs = Runs(
        reward=np.array([[6.0, 8.0]]),
        cost=np.full((1, 2), 10.0),
        penalty=np.arange(2.0 * limits).reshape(1, 2, limits),
        pulls=np.full((1, 2, arms), 10),
        arm_cost=np.full((1, 2, arms), 10.0 / arms),
        queue=np.zeros((1, 2, limits)),
        queue_max=np.ones((1, 2, limits)),
    )
    made = Record("mine", runs, (0.5,), 0.0, "cpu", **record)
    return Results(problem, (10.0,), seed, np.arange(2), (made,), "0")


def test_violations_by_the_names_of_the_limits():
    coin = Bernoulli(0.5)
    arms = [Arm("a", coin, coin, {"late": coin, "bad": coin})]
    named = made_up(Problem(arms, limits={"bad": Limit(0.3), "late": Limit(0.4)})).summary()[0]
    assert named["violation"] == pytest.approx([0.1 - 0.3, 0.2 - 0.4])
    assert named["violations"] == {"bad": named["violation"][0], "late": named["violation"][1]}
    one = made_up(Problem([Arm("a", coin, coin, coin)], limit=2.0)).summary()[0]
    assert one["violations"] == {"penalty": one["violation"]}
    assert made_up(Problem([Arm("a", coin, coin)])).summary()[0]["violations"] == {}


def test_what_a_policy_knows_is_kept(paper, tmp_path):
    told = made_up(paper, knows="slack")
    told.save(tmp_path / "runs.npz")
    assert Results.load(tmp_path / "runs.npz").summary()[0]["knows"] == "slack"
    more = dataclasses.replace(told, run_numbers=np.arange(2, 4))
    assert told.merge(more)["mine"].knows == "slack"
    assert made_up(paper).summary()[0]["knows"] == ""


def test_a_file_from_before_it_was_known_who_knows_what(paper, tmp_path):
    path = tmp_path / "old.npz"
    made_up(paper, knows="slack").save(path)
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(str(arrays["header"]))
    del header["sealed"]
    for record in header["records"]:
        del record["knows"]
    np.savez(path, **{**arrays, "header": np.array(json.dumps(header))})
    assert Results.load(path)["mine"].knows == ""


@pytest.mark.parametrize("seed", [np.int64(3), np.uint8(3), 3])
def test_any_whole_seed_can_be_saved(paper, tmp_path, seed):
    results = made_up(paper, seed)
    assert type(results.seed) is int
    results.save(tmp_path / "runs.npz")
    assert Results.load(tmp_path / "runs.npz").seed == 3


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
    from tightrope.errors import InputError

    with pytest.raises(InputError, match="cannot write"):
        results.save(tmp_path / "no" / "such" / "folder.npz")


def test_a_file_s_name_is_a_path(results):
    with pytest.raises(ResultsError, match=r"^file 3: must be a path"):
        results.save(3)
    with pytest.raises(ResultsError, match=r"^file 3: must be a path"):
        Results.load(3)


def test_merge_refuses_the_same_run_and_other_work(paper, results):
    with pytest.raises(ResultsError, match="run 0 is in more than one"):
        results.merge(results)
    other = simulate(paper, [LyOff(), LyOn()], budgets=[50, 200], runs=range(100, 110), seed=4)
    with pytest.raises(ResultsError, match="seed differs"):
        results.merge(other)
    with pytest.raises(ResultsError, match="no policy 'x'"):
        results["x"]


def test_runs_are_in_the_users_units_and_files_in_normalised_ones(tmp_path):
    coin = Bernoulli(0.5)
    scales = Scales(cost=5, reward=20, penalty=(0.25, 4))
    arms = [Arm("a", TwoPoint(0, 5, 0.5), coin, [TwoPoint(0, 0.25, 0.5), coin])]
    results = made_up(Problem(arms, limit=(0.1, 0.1), scales=scales))
    runs, stored = results["mine"].runs, results["mine"].normalised_runs
    assert runs.reward.tolist() == [[120.0, 160.0]]
    assert runs.cost.tolist() == [[50.0, 50.0]]
    assert runs.arm_cost.tolist() == [[[50.0], [50.0]]]
    assert runs.penalty.tolist() == [[[0.0, 4.0], [0.5, 12.0]]]
    assert runs.queue_max.tolist() == [[[0.25, 4.0]] * 2]
    assert runs.pulls.tolist() == stored.pulls.tolist()
    assert stored.reward.tolist() == [[6.0, 8.0]]
    results.save(tmp_path / "runs.npz")
    with np.load(tmp_path / "runs.npz") as file:
        assert file["0.reward"].tolist() == [[6.0, 8.0]]
        assert "scales" not in json.loads(str(file["header"]))["records"][0]
    assert Results.load(tmp_path / "runs.npz")["mine"].runs.reward.tolist() == [[120.0, 160.0]]
    more = dataclasses.replace(results, run_numbers=np.arange(2, 4))
    assert results.merge(more)["mine"].runs.reward.tolist() == [[120.0, 160.0, 120.0, 160.0]]


def test_rows_are_the_summary(results, mixed):
    assert [row.as_dict() for row in results.rows()] == results.summary()
    row = results.rows()[3]
    assert (row.policy, row.budget, row.limit_names) == ("lyon", 200.0, ("penalty",))
    assert list(row.violation[0].interval) == results.summary()[3]["violation_interval"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        row.budget = 1.0
    two = simulate(mixed, Stationary((0.3, 0.3, 0.4)), budgets=300, runs=5, backend="python")
    free = Problem((Arm("a", Bernoulli(0.5), Bernoulli(0.5)),), limit=None)
    none = simulate(free, FixedArm(), budgets=9, runs=1, backend="python")
    for made in (results, two, none):
        for row in made.rows():
            assert SummaryRow.from_dict(row.as_dict()) == row


def test_to_pandas(results):
    pandas = pytest.importorskip("pandas")
    table = results.to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert list(table["policy"]) == ["lyoff", "lyoff", "lyon", "lyon"]


def test_a_short_repr(paper, results):
    many = ready_problem("paper-arms-100")
    assert repr(paper) == "Problem(2 arms: arm 1, arm 2; limits: penalty <= 0.8)"
    assert repr(many).startswith("Problem(paper-arms-100; 100 arms: bold 1, careful 1, ")
    assert repr(many).endswith(" and 96 more; limits: penalty <= 0.8)")
    assert "changes at 0.5" in repr(ready_problem("arena-abrupt"))
    told = repr(dataclasses.replace(results, complete=False))
    assert f"policies: {', '.join(results.labels)}; budgets: " in told
    assert f"runs: {results.runs}, interrupted; seed: {results.seed}" in told
    for one in (paper, many, results, results.records[0]):
        assert len(repr(one)) < 200


def test_results_are_equal_if_their_runs_are(paper):
    import pickle

    made = simulate(paper, [LyOn(), LyOff()], budgets=[20.0], runs=5, backend="python", seed=2)
    assert made == pickle.loads(pickle.dumps(made))
    assert made != simulate(paper, [LyOn(), LyOff()], budgets=[20.0], runs=5, backend="python")
    assert made != 3


def test_what_is_no_policy_is_named(paper):
    for wrong in (None, 3):
        with pytest.raises(
            InputError, match=rf"policies = {wrong}: must be policies, such as LyOn"
        ):
            simulate(paper, wrong, budgets=10, runs=1)
    for wrong in (LyOn, [LyOn(), 3], {"a": 3}):
        with pytest.raises(InputError, match=r"policies: .* must be a policy, such as LyOn\(\)"):
            simulate(paper, wrong, budgets=5, runs=2)


def test_problems_and_policies_by_name(paper):
    settings = {"budgets": 20, "runs": 4, "backend": "python"}
    by_name = simulate("paper", "lyon:delta0=0.7", **settings)
    made = simulate(ready_problem("paper"), LyOn(delta0=0.7), **settings)
    assert (list(by_name), by_name == made) == (["lyon:delta0=0.7"], True)
    both = simulate(["hiring", paper, "paper"], ["lyon", LyOff()], **settings)
    assert {name: list(one) for name, one in both.items()} == {
        name: ["lyon", "lyoff"] for name in ("hiring", "2", "paper")
    }
    assert both["paper"] == simulate("paper", {"lyon": "lyon", "lyoff": LyOff()}, **settings)
    assert list(simulate({"mine": "paper"}, "lyon", **settings)) == ["mine"]


@pytest.mark.parametrize(
    ("problem", "policy", "text"),
    [
        ("papr", "lyon", "problem 'papr': no such ready problem or file; did you mean 'paper'?"),
        ("paper", "lyonn", "policy 'lyonn' is unknown; did you mean 'lyon'?"),
        ("paper", ["lyon", "lyon:detla0=1"], "parameter 'detla0' is unknown; did you mean"),
        ("paper", ["lyon", LyOn()], r"policies: .*'lyon', 'lyon'.* must all be different"),
        (["paper", "paper"], "lyon", r"problems: .*'paper', 'paper'.* must all be different"),
        ([], "lyon", "problems: must have at least one"),
        ("paper", [], "policies: must have at least one"),
        (3, "lyon", "problem: 3 cannot be simulated"),
    ],
)
def test_what_is_unknown_is_one_line(problem, policy, text):
    with pytest.raises(InputError, match=text) as error:
        simulate(problem, policy, budgets=5, runs=2)
    assert "\n" not in str(error.value)


def test_results_are_listed_by_their_policies(paper):
    results = simulate(paper, [LyOn(), LyOff()], budgets=10, runs=2)
    assert list(results) == ["lyon", "lyoff"]
