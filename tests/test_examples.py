"""Every example runs as a script, leaves no file where it runs, and prints what it is about."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tightrope import open_campaign

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted({path.stem for path in EXAMPLES.glob("*.py")} - {"conftest"})
NUMBER = r"([+-]?\d+\.?\d*)"


@pytest.fixture
def printed(request, tmp_path, tmp_path_factory):
    """What the script that the test is named after prints."""
    name = request.node.name.removeprefix("test_")
    own = tmp_path_factory.mktemp("temporary")
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(own)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == [], "nothing is left where it was started"
    assert "Warning" not in done.stderr
    return done.stdout


def number(pattern: str, text: str) -> float:
    """The one number that stands at ``NUMBER`` in the pattern."""
    (found,) = re.findall(pattern.replace("NUMBER", NUMBER), text)
    return float(found)


def test_every_script_is_tested_here_and_on_the_page():
    assert {f"test_{name}" for name in SCRIPTS} <= set(globals())
    page = (EXAMPLES / "README.md").read_text()
    assert set(SCRIPTS) == set(re.findall(r"\]\((\w+)\.py\)", page))
    for name in SCRIPTS:
        assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) < 40, name


def test_compare_policies(printed):
    share = {
        policy: number(rf"(?m)^{policy}: NUMBER% of the optimum, {kept} the limit$", printed)
        for policy, kept in [("lyoff", "breaks"), ("lyon", "breaks"), ("resolve", "keeps")]
    }
    assert share["lyon"] > share["lyoff"] > 100 > share["resolve"] > 98
    assert len(re.findall(r"(?m)^ lyon:alpha=0.5 ", printed)) == 2, "a row per budget in the table"


def test_router(printed):
    spent = number(r"(?m)^\d+ answers for NUMBER cents, 0 in flight$", printed)
    assert 98.8 <= spent <= 100.0, "one largest cost below the budget, and never above it"
    assert number(r"bad answers: NUMBER per answer", printed) < 0.12


def test_a_killed_router_goes_on(tmp_path):
    """kill -9 after some answers: at most the ticket in flight is without a report."""
    store = tmp_path / "router.db"
    command = [sys.executable, EXAMPLES / "router.py", store]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert "00 by" in running.stdout.readline()
        running.kill()
    before = open_campaign(store, "november").status()
    assert before["told"] >= 100
    assert before["asked"] - before["told"] == before["in_flight"] <= 1
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    campaign = open_campaign(store, "november")
    after = campaign.status()
    assert after["told"] > before["told"]
    assert f"{after['told']} answers for" in done.stdout
    assert after["spent"] + after["reserved"] <= after["budget"]
    assert campaign.verify().good


def test_fit_a_log(printed):
    small, large = (number(rf"{arm}: NUMBER% of the best", printed) for arm in ("small", "large"))
    assert small + large == 100
    assert 0 < small < 100, "the limit binds"
    assert number(r"small: NUMBER dollars", printed) == pytest.approx(0.00227, rel=0.05)
    assert "problem.parquet; read again: True" in printed


def test_own_problem(printed):
    van = number(r"van: NUMBER% of the hours", printed)
    assert van + number(r"bicycle: NUMBER% of the hours", printed) == 100
    assert van / 100 * 2.5 == pytest.approx(1.5, abs=0.02), "the van alone is loud: 2.5 per hour"
    best = number(r"best: NUMBER deliveries per hour", printed)
    assert number(r"200 hours: NUMBER deliveries", printed) == pytest.approx(best, rel=0.05)
    assert number(r"noise: NUMBER per hour", printed) == pytest.approx(1.5, rel=0.05)
    assert number(r"late: NUMBER per hour", printed) < 0.12


def test_modelling(printed):
    earned = [float(found) for found in re.findall(rf"resolve earns {NUMBER}% of", printed)]
    assert len(earned) == 7
    assert all(85 < one < 101 for one in earned)
    assert "best mixture: Ada 20%, Cy 49%, Di 31%" in printed
    for name, limit in (("'bad' = 0.05 per pull", 0.05), ("'euros' = 20.0 per unit of reward", 20)):
        reached = [float(x) for x in re.findall(rf"limit {re.escape(name)}: {NUMBER}", printed)]
        assert all(one < 1.01 * limit for one in reached)
        assert reached


def test_own_policy(printed):
    rows = re.findall(rf"(\w+): reward {NUMBER}, violation {NUMBER}", printed)
    assert [name for name, *_ in rows] == ["thrifty", "lyon"]
    (thrifty, under), (lyon, over) = [tuple(map(float, row[1:])) for row in rows]
    assert under < 0 < over, "LyOn breaks the limit at small budgets, the thrifty one does not"
    assert 1.0 <= thrifty < lyon < 2.0, "between the two arms' reward rates"


def test_plan(printed):
    assert "best mixture: {'bold': 0.3, 'careful': 0.7}" in printed
    assert number(r"is worth NUMBER per unit", printed) == 1.0
    assert number(r"more than NUMBER on average", printed) == 6500.5
    assert re.search(rf"keeps the limit: v0 = {NUMBER}, delta0 = {NUMBER}", printed)
    assert number(r"as in the paper: earns \d+, violation NUMBER", printed) > 0.03
    assert number(r"tuned: earns \d+, violation NUMBER", printed) < 0.01
    assert 0.98 * 6500.5 < number(r"tuned: earns NUMBER,", printed) < 1.01 * 6500.5


def test_replay_a_log(printed):
    value = number(r"NUMBER good answers per question", printed)
    assert value == pytest.approx(0.73, abs=number(r"per question, ± NUMBER", printed))
    assert number(r"without weights says NUMBER", printed) < 0.71, "and is wrong"
    assert number(r"(?s)resolve:.*?broken in NUMBER%", printed) < 10
    assert number(r"(?s)uniform-random:.*?broken in NUMBER%", printed) > 50


def test_plan_a_budget(printed):
    assert printed.startswith("With a budget of 100, resolve earns ")
    assert "Plan for router: budget 100, 500 runs over 50 draws of the log" in printed
    assert number(r"resolve: NUMBER% of the error's variance is the log's", printed) > 80
    worth = number(r"the next unit of budget\s+is worth NUMBER ±", printed)
    median = number(r"(?m)^ resolve  +\d+[\d.]* +\d+[\d.]* +NUMBER ", printed)
    assert median == pytest.approx(100 * worth, rel=0.1)


def test_live(printed):
    (saved,) = re.findall(r"restored after 100 questions from (.*)", printed)
    assert Path(saved).stat().st_size > 0
    asked = [int(found) for found in re.findall(r"(?:small|medium|large): (\d+) q", printed)]
    assert len(asked) == 3
    assert sum(asked) > 300, "the cheap models did most of it"
    assert 300 < number(r"spent NUMBER of 300 cents", printed) + 0.1 < 301.5
    assert number(r"bad answers per question: NUMBER", printed) == pytest.approx(0.05, abs=0.01)


def test_bidding(printed):
    assert 0.3 < number("mean bid: NUMBER, where 0.6 is the best bid", printed) < 0.6
    assert number("dollars per sale: NUMBER", printed) < 1.2
    assert number("sales: .*, NUMBER% of the best", printed) > 80


def test_client(printed):
    spent = number(r"(?m)^\d+ answers for NUMBER cents, \d+ never executed$", printed)
    assert 48.8 <= spent <= 50.0, "one largest cost below the budget, and never above it"
    assert number(r"cents, NUMBER never executed", printed) >= 1


def test_trajectory(printed):
    rates = [float(found) for found in re.findall(rf"run \d: penalty .* {NUMBER} at", printed)]
    assert len(rates) == 4
    assert all(0.5 < rate < 1.2 for rate in rates), "LyOn is still above the limit of 0.8 here"
    (picture,) = re.findall(r"written to (.*)", printed)
    assert Path(picture).read_bytes().startswith(b"\x89PNG")
