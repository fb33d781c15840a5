"""Columns of features in logs and tables: reading, replay and fits, in Python and in the shell."""

from __future__ import annotations

import csv
import json
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tightrope import (
    Controller,
    FullTable,
    Log,
    Problem,
    Resolve,
    load_problem,
    oracle,
    plan,
    read_log,
    replay,
    simulate,
)
from tightrope.cli import main
from tightrope.data.draws import Draws
from tightrope.data.fitting import fit
from tightrope.data.offpolicy import equally_likely, evaluate_mixture
from tightrope.data.tables import task_of
from tightrope.errors import InputError, LogWarning, ProblemError
from tightrope.problem.arms import row_columns

READ = {"arm": "model", "cost": 1, "reward": "score", "penalty": "usd"}
FEATURES = ["length", "has_code"]
LIMITS = {"usd": "0.3 per pull"}
SHELL = (
    "--arm model --cost 1 --reward score --limit usd=0.3/pull --features length,has_code".split()
)


def columns(rows=200, seed=5):
    """The long form of a table with two models, of which one is better for long prompts."""
    random = np.random.default_rng(seed)
    length, code = random.normal(size=rows), random.integers(0, 2, rows)
    score = np.column_stack([0.5 + 0.0 * length, 0.5 + 0.2 * np.tanh(length)]).ravel()
    return {
        "prompt": np.repeat([f"p{row}" for row in range(rows)], 2),
        "topic": np.repeat(np.where(code == 1, "code", "chat"), 2),
        "model": np.tile(["small", "large"], rows),
        "score": score,
        "usd": np.tile([0.1, 0.5], rows),
        "length": np.repeat(length, 2),
        "has_code": np.repeat(code, 2),
    }


@pytest.fixture(name="table", scope="module")
def _table(tmp_path_factory):
    path = tmp_path_factory.mktemp("features") / "table.csv"
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(columns())
        lines.writerows(zip(*columns().values(), strict=True))
    return str(path)


@pytest.mark.parametrize("types", [False, True])
def test_a_file_is_read_as_the_frame_is(table, types):
    more = {"context": "topic"} if types else {}
    log, same = (read_log(one, **READ, **more, features=FEATURES) for one in (columns(), table))
    assert log.features == same.features == ("length", "has_code")
    expected = np.column_stack([columns()[name] for name in FEATURES])
    for one in (log, same):
        found = one.contexts
        if types:
            assert [name for name, _ in found] == columns()["topic"].tolist()
            found = np.array([vector for _, vector in found])
        np.testing.assert_array_equal(found, expected)
    only = log.without("small")
    assert (only.features, len(only.contexts)) == (log.features, len(only))


def test_a_task_of_a_log_has_the_names_of_its_features():
    log = read_log(columns(), **READ, context="topic", features=FEATURES)
    rows = FullTable.from_long(columns()["prompt"], log)
    for data in (log, rows, rows.as_log()):
        contexts = task_of(data, LIMITS).contexts
        assert contexts.features.names == ("length", "has_code")
        assert contexts.kinds.names == ("chat", "code")
    plain = read_log(columns(), **READ, features=FEATURES)
    task = task_of(plain, LIMITS)
    controller = Controller(task, Resolve(), budget=20, learn_from=plain)
    assert controller.ask(context={"length": 2.0, "has_code": 1}) in (0, 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"features": ["lenght"]}, "no column 'lenght' (feature lenght); did you mean 'length'?"),
        ({"features": "length"}, "features = 'length': must be names of columns"),
        ({"features": 2}, "features = 2: must be names of columns"),
        ({"features": ["length"] * 2}, "feature 'length' is there twice; names must differ"),
        ({"features": ["topic"]}, "row 1 (without the header), column 'topic': 'cha"),
        ({"length": [1.0, np.nan]}, "column 'length': feature length is missing; --drop-missing"),
        ({"length": [1.0, -np.inf]}, "feature length = -inf: must be a finite number, at most 3.4"),
    ],
)
def test_a_wrong_feature_is_one_line(given, message):
    log = {"topic": ["chat", "code"], "model": ["a", "b"], "score": [1, 0], "usd": [0, 0]}
    log |= {"length": given.get("length", [1.0, 2.0])}
    with pytest.raises((InputError, ProblemError)) as raised:
        read_log(log, **READ, features=given.get("features", ["length"]))
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_lines_of_a_row_must_have_the_same_features():
    long = columns(2) | {"length": np.array([1.0, 1.0, 2.0, 3.0])}
    log = read_log(long, **READ, features=["length"])
    with pytest.raises(InputError, match=r"row p1: has \(3.0,\) and \(2.0,\); all lines of a row"):
        FullTable.from_long(long["prompt"], log)


def test_a_table_of_all_arms_has_no_gaps():
    fitted = fit(columns(), **READ, context="topic", row="prompt", limits=LIMITS)
    assert list(fitted.problem.shares) == ["chat", "code"]
    with pytest.raises(InputError, match="row = 'prompt': a table has no gaps"):
        fit(columns(), **READ, row="prompt", limits=LIMITS, without=["small"])


def test_a_mixture_by_type_beside_features(table, capsys):
    """As the same shares of each row; a pair of an arm and a type without rows is refused."""
    log = read_log(columns(2000), **READ, context="topic", features=FEATURES)
    log = equally_likely(log)
    shares = {"chat": {"small": 1.0}, "code": {"large": 0.5, "small": 0.5}}
    each = np.array([[0.0, 1.0] if kind == "chat" else [0.5, 0.5] for kind, _ in log.contexts])
    found, same = evaluate_mixture(log, shares), evaluate_mixture(log, each)
    assert log.arms == ("large", "small")
    assert found == same
    assert {row.method for row in found.rows} == {"ips", "snips", "direct", "dr"}
    contexts = [
        ("chat" if k else kind, x) for (kind, x), k in zip(log.contexts, log.chosen, strict=True)
    ]
    with pytest.raises(InputError, match="arm 'small', type 'chat': its propensities"):
        evaluate_mixture(replace(log, contexts=contexts), shares)
    words = ["--mixture", "chat/small=1,code/large=1", "--context", "topic", "--row", "prompt"]
    assert main(["replay", str(table), *SHELL, *words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["mixtures"][0]["shares"]
    assert set(told) == {"large", "small"}
    with pytest.raises(InputError, match="has shares of types; the data must have types"):
        evaluate_mixture(equally_likely(read_log(columns(), **READ, features=FEATURES)), shares)


def test_the_shell_replays_with_features(table, capsys):
    words = ["replay", table, "--row", "prompt", "--penalty", "usd", *SHELL, "--json"]
    assert main([*words, "--policy", "resolve", "--budget", "150", "--orders", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["data"]["features"] == FEATURES
    log = read_log(columns(), **READ, features=FEATURES)
    rows = FullTable.from_long(columns()["prompt"], log)
    same = replay(rows, LIMITS, "resolve", budget=150, orders=2)
    assert found["policies"][0]["reward_rate"] == same.rows[0].reward_rate.mean


# --- logs of one arm per request ------------------------------------------------------------


def logged(rows=400, seed=3, mixed=False):
    """A log of two arms; a suits requests with a negative feature, b positive ones."""
    random = np.random.default_rng(seed)
    x, chosen = random.normal(size=(rows, 1)), random.integers(0, 2, rows)
    chance = np.clip(0.5 + 0.3 * x[:, 0] * np.where(chosen, 1, -1), 0, 1)
    reward, bad = random.random((2, rows)) < [chance, 0.1 + 0.2 * chosen]
    outcomes = np.array([np.ones(rows), reward, bad], np.float64)
    contexts = [("xy"[n % 2], (float(v),)) for n, v in enumerate(x[:, 0])] if mixed else x
    return Log(["a", "b"], ["bad"], chosen, outcomes, None, contexts)


def rows_of(problem):
    """The outcomes of every arm for each row, [n, K, C]."""
    told = [[one.values for one in row_columns(arm)] for arm in problem.arms]
    return np.array(told).transpose(2, 0, 1)


@pytest.mark.parametrize("mixed", [False, True])
def test_a_log_is_completed_with_outcomes_of_similar_requests(mixed, tmp_path):
    log = logged(mixed=mixed)
    made = Problem.from_log(log, {"bad": "25% per pull"})
    found, x = rows_of(made), made.features.rows[:, 0]
    np.testing.assert_array_equal(found[np.arange(400), log.chosen], log.outcomes.T)
    for arm in (0, 1):
        mine = {tuple(one) for one in log.outcomes.T[log.chosen == arm]}
        assert {tuple(one) for one in found[:, arm]} <= mine  # nothing is made up
        other = log.chosen != arm
        slope = np.polyfit(x[other], found[other, arm, 1], 1)[0]
        assert 0.15 < slope * (1 if arm else -1) < 0.4
    assert "it has one arm per request; other arms' outcomes are those" in made.caveat
    assert made == Problem.from_log(log, {"bad": "25% per pull"})
    made.save(tmp_path / "log.toml")
    again = load_problem(str(tmp_path / "log.toml"))
    assert again == made
    np.testing.assert_array_equal(again.features.pulled, log.chosen)
    drawn = [next(Draws.of(one, 2, 5).problems()) for one in (made, again)]
    assert drawn[0] == drawn[1]


def test_every_draw_completes_its_own_rows():
    made = Problem.from_log(logged(), {"bad": "25% per pull"})
    draws = Draws.of(made, 3, 7)
    for drawn, moments in zip(draws.problems(), draws.moments(), strict=True):
        pulled, found = drawn.features.pulled, rows_of(drawn)
        assert np.bincount(pulled).tolist() == np.bincount(made.features.pulled).tolist()
        assert len(np.unique(drawn.features.rows)) < 300
        for arm in (0, 1):
            mine = {tuple(one) for one in found[pulled == arm, arm]}
            assert {tuple(one) for one in found[:, arm]} <= mine
        np.testing.assert_allclose(moments.reward, found[:, :, 1].mean(axis=0))
    tighter = draws.of_problem(made.with_limits({"bad": 0.2}))
    again = next(tighter.problems())
    assert again.features == next(draws.problems()).features
    assert again.limits[0] == 0.2


def test_arms_with_few_distinct_features_have_more_than_ten_donors():
    random = np.random.default_rng(1)
    flags, chosen = random.integers(0, 2, (600, 1)), np.tile([0, 1], 300)
    outcomes = np.array([np.ones(600), random.random(600)])
    found = rows_of(Problem.from_log(Log(["a", "b"], [], chosen, outcomes, None, flags)))
    assert len(np.unique(found[chosen == 1, 0, 1])) > 100


def test_requests_of_an_arm_that_is_left_out_still_come():
    log = logged()
    made = Problem.from_log(log, {"bad": "25% per pull"}, without=["b"])
    assert set(made.features.pulled.tolist()) == {0, -1}
    assert rows_of(made).shape == (400, 1, 3)
    drawn = next(Draws.of(made, 2, 1).problems())
    assert len(drawn.features.rows) == 400


def test_a_plan_of_a_log_agrees_with_the_requests_behind_it():
    """The table has both outcomes of each request; the log has one of them."""
    random = np.random.default_rng(8)
    x = random.normal(size=(3000, 2))
    chance = np.clip(0.5 + 0.3 * x * [1, -1], 0, 1)
    outcomes = np.stack(
        [np.ones((3000, 2)), random.random((3000, 2)) < chance, np.exp(x[:, :1]) * [0.1, 0.3]], 2
    )
    limits, chosen = {"usd": "0.25 per pull"}, random.integers(0, 2, 3000)
    whole = Problem.from_table(FullTable(["a", "b"], ["usd"], outcomes, contexts=x), limits)
    log = Log(["a", "b"], ["usd"], chosen, outcomes[np.arange(3000), chosen].T.copy(), None, x)
    with pytest.warns(LogWarning, match="one arm per request"):
        found = plan(Problem.from_log(log, limits), "resolve", budgets=400, runs=60, fan=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        truth = simulate(whole, "resolve", budgets=400, runs=30).rows()[0].reward_rate.mean * 400
        blind = oracle(whole, bound="blind").reward_rate * 400
    [row] = found.rows
    assert row.mean.log > 2.0
    assert abs(row.mean.mean - truth) < 3 * row.mean.error
    assert row.mean.mean > blind + 10
    assert any("About the log: it has one arm per request" in note for note in found.notes)


def test_a_wrong_list_of_pulled_arms_is_refused():
    made = Problem.from_log(logged(80), {"bad": "25% per pull"})
    text = made.to_toml()
    for wrong in ('pulled = "AAAA', 'pulled = "!'):
        with pytest.raises(ProblemError, match="contexts: pulled: must be 80 numbers of arms"):
            Problem.from_toml(text.replace('pulled = "', wrong))
    features = replace(made.features, pulled=made.features.pulled + 1)
    with pytest.raises(ProblemError, match="contexts: pulled = 2: must be at most 1, the last arm"):
        replace(made, features=features)


def test_the_shell_plans_a_log_with_features(tmp_path, capsys):
    log = logged()
    lines = zip(log.chosen, *log.outcomes, log.contexts[:, 0], strict=True)
    text = "arm,cost,reward,bad,x\n" + "\n".join(",".join(map(str, line)) for line in lines)
    (tmp_path / "log.csv").write_text(text)
    words = ["--arm", "arm", "--cost", "cost", "--reward", "reward", "--features", "x"]
    words = [str(tmp_path / "log.csv"), *words, "--limit", "bad=25%/pull"]
    more = ["--budget", "50", "--runs", "20", "--policy", "resolve", "--json", "--quiet"]
    assert main(["plan", *words, *more]) == 0
    direct = json.loads(capsys.readouterr().out)
    assert main(["fit", *words, "-o", str(tmp_path / "made.toml")]) == 0
    capsys.readouterr()
    assert main(["plan", str(tmp_path / "made.toml"), *more]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == direct["rows"]


VECTORS = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


@pytest.mark.parametrize(
    "form",
    [
        lambda rows: rows,
        lambda rows: [tuple(row) for row in rows],
        lambda rows: pd.DataFrame(rows, index=[7, 8, 9]),
        lambda rows: np.array(rows, np.float32),
    ],
)
def test_features_may_be_lists_or_a_data_frame(form):
    outcomes = np.ones((3, 1, 2))
    made = FullTable(["a"], [], outcomes, contexts=form(VECTORS))
    assert made.contexts.tolist() == VECTORS
    made = Log(["a"], [], np.zeros(3, int), outcomes[:, 0].T, contexts=form(VECTORS))
    assert made.contexts.tolist() == VECTORS


def test_names_may_be_a_column_of_a_data_frame():
    names = pd.Series(["x", "y", "x"], index=[7, 8, 9])
    assert FullTable(["a"], [], np.ones((3, 1, 2)), contexts=names).contexts == ("x", "y", "x")


@pytest.mark.parametrize(
    ("contexts", "message"),
    [
        ("xyx", "contexts = 'xyx': must have one for each row"),
        (["x", ("y", [1.0]), "x"], r"row 2 has \('y', \[1.0\]\); must be the name of a type"),
        ([("x", [1.0]), "y", "x"], "row 2 has 'y'; must be a type and its features"),
        ([[1.0], [1.0, 2.0], [1.0]], r"row 1 has \[1.0\]; must be the name of a type"),
        (pd.DataFrame({"k": ["x", "y", "x"]}), "contexts = DataFrame: must be columns of numbers"),
    ],
)
def test_contexts_of_several_kinds_are_refused_in_one_line(contexts, message):
    with pytest.raises(InputError, match=message):
        FullTable(["a"], [], np.ones((3, 1, 2)), contexts=contexts)
