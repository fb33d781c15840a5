"""Columns of features in logs and tables: reading, replay and fits, in Python and in the shell."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest

from tightrope import Controller, FullTable, Log, Resolve, read_log, replay
from tightrope.cli import main
from tightrope.data.fitting import fit
from tightrope.data.tables import task_of
from tightrope.errors import InputError, ProblemError

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


def test_a_problem_needs_the_outcome_of_every_arm():
    with pytest.raises(InputError, match=r"features: .* must come with --row COLUMN"):
        fit(columns(), **READ, features=FEATURES, limits=LIMITS)
    fitted = fit(columns(), **READ, context="topic", row="prompt", limits=LIMITS)
    assert list(fitted.problem.shares) == ["chat", "code"]
    with pytest.raises(InputError, match="row = 'prompt': a table has no gaps"):
        fit(columns(), **READ, row="prompt", limits=LIMITS, without=["small"])


def test_the_shell_replays_with_features(table, capsys):
    words = ["replay", table, "--row", "prompt", "--penalty", "usd", *SHELL, "--json"]
    assert main([*words, "--policy", "resolve", "--budget", "150", "--orders", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["data"]["features"] == FEATURES
    log = read_log(columns(), **READ, features=FEATURES)
    rows = FullTable.from_long(columns()["prompt"], log)
    same = replay(rows, LIMITS, "resolve", budget=150, orders=2)
    assert found["policies"][0]["reward_rate"] == same.rows[0].reward_rate.mean


@pytest.mark.parametrize("command", ["fit", "plan"])
def test_the_shell_refuses_features_without_rows_in_one_line(command, table, capsys):
    budget = ["--budget", "50"] if command == "plan" else []
    assert main([command, table, *SHELL, *budget]) == 2
    error = capsys.readouterr().err.strip()
    assert "must come with --row COLUMN" in error
    assert "\n" not in error


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
