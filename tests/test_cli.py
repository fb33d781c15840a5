"""The shell's contract: rows, streams, exit statuses, one line for what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

ROW_KEYS = {
    "policy",
    "budget",
    "runs",
    "reward_rate",
    "reward_rate_se",
    "violation",
    "violation_se",
    "violations",
    "knows",
    "pull_share",
    "cost_share",
    "pulls",
    "regret",
    "regret_se",
    "queue_max",
    "steps",
    "seconds",
    "compile_seconds",
    "backend",
}
TOML = """
limit = 0.8
[[arms]]
name = "bold"
cost = { bernoulli = 0.4 }
reward = { bernoulli = 0.8 }
penalty = { bernoulli = 0.6 }
[[arms]]
name = "careful"
cost = { bernoulli = 0.6 }
reward = { bernoulli = 0.6 }
penalty = { bernoulli = 0.3 }
"""


def test_simulate_prints_a_row_per_policy_and_budget(shell):
    status, out, _ = shell(
        *"simulate paper --policy lyon:delta0=0.7,alpha=2 --policy lyoff".split(),
        *"--budget 50 --budget 100 --runs 40 --seed 1 --json".split(),
    )
    rows = json.loads(out)
    assert status == 0
    assert [(r["policy"], r["budget"]) for r in rows] == [
        ("lyon:delta0=0.7,alpha=2", 50),
        ("lyon:delta0=0.7,alpha=2", 100),
        ("lyoff", 50),
        ("lyoff", 100),
    ]
    for row in rows:
        assert set(row) >= ROW_KEYS
        assert row["runs"] == 40
        assert len(row["pull_share"]) == 2


def test_default_policies_are_those_that_fit(shell, tmp_path):
    """A problem with types, one that changes, one whose limit no mixture keeps."""
    head = 'name = "bold"\ncost = { constant = 1 }\nreward = { bernoulli = 0.8 }\n'
    penalty = "penalty = { bernoulli = 0.6 }\n"
    arm = f"[[arms]]\n{head}{penalty}"
    by_type = "".join(f"{kind}.{penalty}" for kind in ("day", "night"))
    files = {
        "types": f"limit = 0.8\ncontexts = {{ day = 1, night = 2 }}\n[[arms]]\n{head}{by_type}",
        "changes": f"limit = 0.8\n{arm}[[changes]]\nat = 0.5\n[[changes.arms]]\n{head}{penalty}",
        "strict": f"limit = 0.1\n{arm}",
    }
    for name, left_out in (
        ("types", {"stationary"}),
        ("changes", {"lyoff", "stationary"}),
        ("strict", {"stationary"}),
    ):
        path = tmp_path / f"{name}.toml"
        path.write_text(files[name])
        status, out, err = shell("simulate", str(path), *"--budget 40 --runs 2 --json".split())
        assert status == 0
        assert {row["policy"] for row in json.loads(out)} == {
            "lyoff",
            "lyon",
            "stationary",
        } - left_out
        (told,) = [line for line in err.splitlines() if line.startswith("warning: left out: ")]
        named = {name for name in ("lyoff", "lyon", "stationary") if f"{name} (" in told}
        assert named == left_out


def test_a_toml_file_is_the_ready_problem(shell, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TOML)
    words = "--policy lyon --budget 80 --runs 30 --seed 2 --json".split()
    rows = [
        json.loads(shell("simulate", problem, *words)[1])[0] for problem in (str(path), "paper")
    ]
    for key in ROW_KEYS - {"seconds", "compile_seconds"}:
        assert rows[0][key] == rows[1][key]


def test_oracle(shell):
    status, out, err = shell("oracle", "paper", "--budget", "1000", "--json")
    row = json.loads(out)
    assert (status, err) == (0, "")
    assert set(row) == {
        "reward_rate",
        "penalty_rate",
        "penalty_rates",
        "multiplier",
        "multipliers",
        "pull_share",
        "cost_share",
        "optimum",
    }
    assert row["penalty_rates"] == {"penalty": row["penalty_rate"]}
    assert row["multipliers"] == {"penalty": row["multiplier"]}
    assert row["reward_rate"] == pytest.approx(1.3)
    assert row["multiplier"] == pytest.approx(1.0)
    assert row["cost_share"] == pytest.approx([0.3, 0.7])
    assert row["optimum"] == pytest.approx(1300.5)
    assert "optimum" not in json.loads(shell("oracle", "paper", "--json")[1])


NAMED = TOML.replace("limit = 0.8", "[limits]\nbad = 0.8\nlate = 2.0").replace(
    "penalty = {", "penalties.late = { constant = 0.1 }\npenalties.bad = {"
)


def test_limits_are_reported_by_name(shell, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(NAMED)
    simulate = ("simulate", str(path), *"--policy lyon --budget 80 --runs 30".split())
    (row,) = json.loads(shell(*simulate, "--json")[1])
    assert list(row["violations"]) == ["bad", "late"]
    assert list(row["violations"].values()) == row["violation"]
    assert row["knows"] == "smallest cost"
    table = shell(*simulate)[1]
    assert "violation of bad" in table
    assert "violation of late" in table
    assert "smallest cost" in table
    best = json.loads(shell("oracle", str(path), "--json")[1])
    assert list(best["penalty_rates"].items()) == list(
        zip(["bad", "late"], best["penalty_rate"], strict=True)
    )
    assert list(best["multipliers"].values()) == best["multiplier"]
    assert "limit: bad 0.8, late 2" in shell("oracle", str(path))[1]


def test_a_task_cannot_be_simulated(shell, tmp_path):
    path = tmp_path / "task.toml"
    path.write_text("limit = 0.8\n[[arms]]\nname = 'a'\n[[arms]]\nname = 'b'\n")
    for command in (("simulate", "--budget", "9"), ("oracle",), ("theory", "--budget", "9")):
        status, out, err = shell(command[0], str(path), *command[1:])
        assert (status, out) == (2, "")
        assert err == (
            f"tightrope: {path}: arms have only names, so this is a task; simulating needs the "
            "cost, reward and penalty distributions of every arm\n"
        )


def test_the_list_of_policies_says_who_knows_what(shell):
    known = {n: p["knows"] for n, p in json.loads(shell("policies", "--json")[1]).items()}
    assert (known["lyoff"], known["lyon"], known["resolve"]) == ("laws", "smallest cost", "")
    assert "knows the distributions" in shell("policies")[1]


def test_tables_for_people(shell):
    for words in (
        "oracle paper --budget 1000",
        "simulate paper --budget 60 --runs 20",
        "simulate wireless --budget 600 --runs 5 --policy lyon",
        "problems",
        "policies",
    ):
        status, out, _ = shell(*words.split())
        assert status == 0
        assert out.strip()
    assert "penalty_bonus" in shell("policies")[1]
    assert "paper-tradeoff" in shell("problems")[1]


def test_problems_shows_toml_that_loads(shell, tmp_path):
    from tightrope import Problem, ready_problem

    out = shell("problems", "advertising")[1]
    assert Problem.from_toml(out) == ready_problem("advertising")
    assert "paper" in json.loads(shell("problems", "--json")[1])
    assert "lyon" in json.loads(shell("policies", "--json")[1])


def test_save_writes_the_runs(shell, tmp_path):
    from tightrope import Results

    path = tmp_path / "runs.npz"
    shell(*f"simulate paper --budget 30 --runs 9 --policy lyoff --save {path}".split())
    assert Results.load(path).runs == 9


def test_warnings_go_to_standard_error_in_one_line(shell):
    status, out, err = shell(
        *"simulate paper --policy lyon:delta0=15 --budget 1000 --runs 4 --json --quiet".split()
    )
    assert status == 0
    json.loads(out)
    assert err.startswith("warning: policy lyon:delta0=15: delta = 1.247")
    assert "2,790" in err
    assert err.count("\n") == 1


NOTHING = "simulate paper --budget 10 --runs 2"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (f"{NOTHING} --policy lyonn", ["lyonn", "'lyon'"]),
        (f"{NOTHING} --policy lyon:detla0=1", ["detla0", "'delta0'"]),
        (f"{NOTHING} --policy lyon --policy lyon", ["lyon", "twice"]),
        ("simulate papr --budget 10", ["papr", "'paper'"]),
        ("simulate paper --budget -5", ["-5", "budget"]),
        ("simulate paper --budget inf", ["inf", "budget"]),
        ("simulate paper --budget nan", ["nan", "budget"]),
        ("simulate paper --budget ten", ["ten", "--budget", "number"]),
        ("simulate paper", ["--budget", "required"]),
        ("simulate paper --budget 10 --runs 0", ["runs = 0"]),
        ("simulate paper --budget 10 --runs x", ["--runs", "'x'", "whole number"]),
        ("simulate paper --budget 10 --backend gpuu", ["gpuu", "known"]),
        ("simulate paper --budget 10 --save /no/such/folder/x.npz", ["/no/such/folder/x.npz"]),
        ("oracle paper --budget 0", ["0", "budget"]),
        ("problems nope", ["nope"]),
        ("reproduce fig9", ["fig9", "'fig1'"]),
        ("frobnicate", ["frobnicate", "simulate"]),
        ("", ["COMMAND"]),
    ],
)
def test_bad_input_is_one_line_and_status_two(shell, words, expected):
    status, out, err = shell(*words.split())
    assert (status, out) == (2, "")
    assert err.count("\n") == 1, err
    assert all(word in err for word in expected), err


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("limit = 0.8", "limit = 0"), ["limit", "0"]),
        (("limit = 0.8", "limt = 0.8"), ["limt", "'limit'"]),
        (("limit = 0.8", "limit = 'x'"), ["limit", "'x'"]),
        (("limit = 0.8", "limit = 0.1"), ["limit", "0.1", "careful"]),
        (("bernoulli = 0.4", "bernoulli = 1.4"), ["bold", "cost", "1.4"]),
        (("bernoulli = 0.4", "bernouli = 0.4"), ["bold", "cost", "bernouli", "'bernoulli'"]),
        (
            ("cost = { bernoulli = 0.4 }", "cost = { uniform = [0, 2] }"),
            ["bold", "cost", "2", "scale"],
        ),
        (("cost = { bernoulli = 0.4 }\n", ""), ["bold", "cost"]),
        (("[[arms]]", "[[arms"), ["line"]),
        ((TOML, "limit = 0.8"), ["arm"]),
    ],
)
def test_a_bad_file_is_one_line_and_status_two(shell, tmp_path, change, expected):
    path = tmp_path / "bad.toml"
    path.write_text(TOML.replace(*change))
    status, out, err = shell("oracle", str(path), "--json")
    assert (status, out) == (2, "")
    assert err.count("\n") == 1, err
    assert all(word in err for word in expected), err


def test_the_installed_command(tmp_path):
    """Once for real: its own process, standard output alone carries the JSON."""
    words = [sys.executable, "-m", "tightrope", "oracle", "paper", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(done.stdout)["reward_rate"] == pytest.approx(1.3)
    assert done.stderr == ""
    bad = subprocess.run([*words[:3], "nope"], capture_output=True, text=True, check=False)
    assert (bad.returncode, bad.stdout, bad.stderr.count("\n")) == (2, "", 1)


def test_tune_finds_a_setting_and_draws_it(shell, tmp_path):
    out = tmp_path / "trade"
    words = f"tune paper --policy lyoff --budget 300 --runs 100 --json --out {out}"
    status, text, _ = shell(*words.split())
    (row,) = json.loads(text)
    assert status == 0
    assert row["feasible"]
    assert row["policy"].startswith("lyoff:v0=")
    assert {path.name for path in tmp_path.iterdir()} == {"trade.png", "trade.svg"}
    words = f"tune paper --policy lyoff --budget 100 --runs 20 --max-violation -9 --out {out}"
    status, _, err = shell(*words.split(), "--grid", "v0=1,2")
    assert status == 1
    assert "no setting is shown to have a violation of at most -9, with 95 % confidence" in err
    status, _, err = shell(*"tune paper --policy ucb-bwi --budget 300".split())
    assert status == 2
    assert "name the parameters to tune in a grid" in err
    status, _, err = shell(*"tune paper --budget 300 --out /no/such/folder/x".split())
    assert status == 2
    assert err.count("\n") == 1


def test_without_its_dependencies_the_shell_says_so_in_one_line():
    code = "import runpy, sys; sys.modules['msgspec'] = None; "
    code += "runpy.run_module('tightrope', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "msgspec" in done.stderr
    assert done.stderr.endswith("the shell needs: pip install tightrope\n")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("plan paper --budget 1e14 --runs 10", "budget = 1e+14: a run has about 2e+14 pulls"),
        ("simulate paper --budget 1e14", "must have at most 1e+12, with a budget of about 5e+11"),
        (
            "simulate paper --policy resolve --budget 4e11 --threads 1",
            "fewer runs, or a smaller budget",
        ),
        ("plan paper --budget 5 --chance 0.5", "--chance 0.5: must come with --earn REWARD"),
        ("plan paper --budget 5 --earn 9 --chance 1.5", "chance = 1.5 must lie between 0 and 1"),
        ("plan paper --budget 5 --backend cuda", "backend = 'cuda' is unknown"),
    ],
)
def test_what_cannot_end_or_means_nothing_is_refused_at_once(shell, words, expected):
    status, out, err = shell(*words.split())
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert expected in err


def test_a_missing_gpu_is_said_before_anything_else(shell, monkeypatch):
    """Not after a warning about the risk."""
    monkeypatch.setattr("tightrope.engine.gpu.find_spec", lambda name: None)
    status, out, err = shell(
        *"plan paper --budget 5 --policy resolve:risk=0.001 --backend gpu".split()
    )
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "backend 'gpu' needs numba-cuda" in err


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no such folder")
@pytest.mark.parametrize(
    "words",
    [
        "plan paper --budget 50 --runs 20 --policy resolve",
        "tune paper --budget 50",
        "arena --problem paper",
        "reproduce fig1",
    ],
)
def test_a_folder_where_nothing_can_be_made_is_refused_before_the_work(shell, words):
    """Also for root, who may write anywhere else."""
    status, out, err = shell(*words.split(), "--out", "/proc/x")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "/proc" in err
