"""``tightrope theory``: a table for a person, JSON for a program, one line for what is wrong."""

from __future__ import annotations

import json
import math

import pytest

from tests.conftest import bernoulli_problem
from tightrope import ready_problem
from tightrope.theory import learning_limit
from tightrope.theory.bounds import bounds

KEYS = {"name", "label", "value", "printed", "trivial", "bites_from", "note", "obstacle"}


def test_json_is_the_list_of_bounds(shell, paper):
    status, out, err = shell(*"theory paper --budget 10000 --v0 2 --delta0 1 --json".split())
    rows = json.loads(out)
    assert (status, err) == (0, "")
    found = bounds(paper, 10_000, v0=2.0, delta0=1.0)
    assert [row["name"] for row in rows] == [bound.name for bound in found]
    assert [row["value"] for row in rows] == [bound.value for bound in found]
    assert all(set(row) == KEYS for row in rows)


def test_a_bound_that_is_infinite_is_null(shell):
    status, out, _ = shell(*"theory paper --budget 1000 --delta0 15 --json".split())
    rows = {row["name"]: row for row in json.loads(out)}
    assert status == 0
    assert rows["LyOff: regret"]["value"] is None
    assert "delta = 0.4743 is not below epsilon = 0.18" in rows["LyOff: regret"]["obstacle"]


def test_the_table_says_from_where_it_bites_and_that_beta0_is_too_much(shell):
    status, out, _ = shell(*"theory paper --budget 1000".split())
    lines = out.splitlines()
    assert status == 0
    heading = next(line for line in lines if "bites from" in line)
    assert all(word in heading for word in ("paper", "at budget 1,000", "as printed", "note"))
    regret = next(line for line in lines if line.startswith(" LyOff: regret"))
    assert "Proposition 2" in regret
    assert "178.7" in regret
    never = next(line for line in lines if line.startswith(" LyOff: violation at most 0"))
    assert "never" in never
    assert lines[-1].startswith("LyOn: beta0 requires 1,314,382 pulls to explore")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("theory paper", "--budget"),
        ("theory paper --budget 0.5", "budget = 0.5"),
        ("theory paper --budget 100 --v0 0", "v0 = 0.0"),
        ("theory paper --budget 100 --delta0 -1", "delta0 = -1.0"),
        ("theory nowhere --budget 100", "nowhere"),
    ],
)
def test_bad_input_is_one_line_and_status_2(shell, arguments, message):
    status, out, err = shell(*arguments.split())
    assert (status, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_the_limit_of_learning_stands_below_the_bounds(shell):
    status, out, _ = shell(*"theory arena-random-5 --budget 10000 --json".split())
    constant, regret, share = json.loads(out)[-3:]
    assert status == 0
    assert constant["value"] == learning_limit(ready_problem("arena-random-5")).constant
    assert regret["value"] == pytest.approx(constant["value"] * math.log(10_000))
    assert share["value"] == pytest.approx(0.0308, abs=1e-4)
    assert "the most from arm 1: 26.15" in constant["note"]


def test_it_is_there_for_any_number_of_limits(shell):
    status, out, err = shell(*"theory arena-two-limits --budget 100 --json".split())
    assert (status, err) == (0, "")
    assert [row["name"].partition(":")[0] for row in json.loads(out)] == ["learning"] * 3
    status, out, _ = shell(*"theory arena-two-limits --budget 100".split())
    assert status == 0
    assert out.splitlines()[-1] == "penalties = 2: the paper's bounds are for exactly one limit"


def test_a_limit_that_is_not_known_is_null_and_says_why(shell, tmp_path):
    path = tmp_path / "exact.toml"
    arms = [(0.5, 0.5, 0.25), (0.5, 0.2, 0.1), (0.5, 0.8, 0.5)]  # the first is at the limit
    path.write_text(bernoulli_problem(arms, 0.5).to_toml())
    status, out, _ = shell("theory", str(path), "--budget", "1000", "--json")
    assert status == 0
    for row in json.loads(out)[-3:]:
        assert row["value"] is None
        assert "multipliers need not be unique" in row["obstacle"]
