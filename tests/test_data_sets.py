"""The examples on real data: what is read from the wheels, their sums, their short forms.

The wheels are fetched by pip, once, without their dependencies; without a registry these tests are
skipped, with the reason.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import sys
import zipfile
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

from benchmarks.venvs import FOLDER
from tightrope import load_problem, oracle, ready_problem
from tightrope.errors import InputError

SCRIPTS = Path(__file__).parents[1] / "examples" / "data_sets"
CACHE = FOLDER / "wheels"
NAMES = ("wheels", "open_bandit", "open_bandit_features", "routing")


@pytest.fixture(scope="module")
def scripts():
    """The modules of the folder, imported as the scripts import each other."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        found = {name: import_module(name) for name in NAMES}
    finally:
        sys.path.remove(str(SCRIPTS))
    yield found
    for name in NAMES:
        del sys.modules[name]


def fetched(scripts, name):
    wheels = scripts["wheels"]
    try:
        return wheels.fetch(getattr(wheels, name), CACHE)
    except InputError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def paretobandit(scripts):
    return fetched(scripts, "PARETOBANDIT")


@pytest.fixture(scope="module")
def obp(scripts):
    return fetched(scripts, "OBP")


@pytest.fixture(scope="module")
def routed(scripts, paretobandit):
    """The columns, the table and the problem of the routing example."""
    columns = scripts["routing"].columns_of(paretobandit)
    return columns, *scripts["routing"].fitted(columns)


# --- wheels -------------------------------------------------------------------------------


def test_the_licences_are_those_that_the_wheels_name(scripts, paretobandit, obp):
    wheels = scripts["wheels"]
    for wheel, path in ((wheels.PARETOBANDIT, paretobandit), (wheels.OBP, obp)):
        with zipfile.ZipFile(path) as archive:
            (metadata,) = [x for x in archive.namelist() if x.endswith(".dist-info/METADATA")]
            (licence,) = [x for x in archive.namelist() if x.endswith("LICENSE")]
            lines = archive.read(metadata).decode().split("\n")
            assert any(
                line.startswith("License") and line.endswith(f": {wheel.licence}") for line in lines
            )
            assert b"Apache License" in archive.read(licence)
        assert wheel.licence in ("Apache-2.0", "Apache License")


def test_a_damaged_wheel_is_fetched_again_and_another_one_refused(
    scripts, paretobandit, tmp_path, monkeypatch
):
    wheels = scripts["wheels"]
    wheel, good = wheels.PARETOBANDIT, paretobandit.read_bytes()

    def pip(content):
        def download(command, **_):
            assert command[1:5] == ["-m", "pip", "download", "--quiet"]
            assert "--no-deps" in command
            folder = Path(command[command.index("--dest") + 1])
            if content is not None:
                (folder / wheel.file).write_bytes(content)
            failed = wheels.subprocess.CompletedProcess(command, 1, "", "WARNING: x\nERROR: none\n")
            return failed if content is None else wheels.subprocess.CompletedProcess(command, 0)

        monkeypatch.setattr(wheels.subprocess, "run", download)

    kept = tmp_path / wheel.file
    kept.write_bytes(good[:-1])
    pip(good)
    assert wheels.fetch(wheel, tmp_path).read_bytes() == good
    pip(None)
    assert wheels.fetch(wheel, tmp_path) == kept, "it is here, so pip is not asked"
    kept.unlink()
    with pytest.raises(InputError, match=r"pip cannot fetch it: ERROR: none$"):
        wheels.fetch(wheel, tmp_path)
    pip(b"something else")
    other = hashlib.sha256(b"something else").hexdigest()
    with pytest.raises(InputError, match=f"SHA-256 {other} must be {wheel.sha256}"):
        wheels.fetch(wheel, tmp_path)
    assert list(tmp_path.iterdir()) == []


# --- routing ------------------------------------------------------------------------------


def test_the_table_is_that_of_the_ready_problems(routed):
    """``routing.csv`` was made from the same wheel, by another hand."""
    _, table, problem = routed
    ready = ready_problem("routing-3")
    assert set(table.arms) == set(ready.names) == set(problem.names)
    for name in table.arms:
        k, arm = table.arms.index(name), ready.arms[ready.names.index(name)]
        rows = np.array([arm.cost.values, arm.reward.values, arm.penalties[0].values]).T
        assert table.outcomes[:, k] == pytest.approx(rows, abs=1e-9)
        assert problem.arms[k].reward.mean == pytest.approx(arm.reward.mean)
    assert oracle(problem).reward_rate == pytest.approx(oracle(ready).reward_rate)


@pytest.mark.parametrize("limit", [8.29e-5, 6.64e-4, 5.31e-3])
def test_the_ceilings_are_those_of_linear_programs(scripts, routed, limit):
    columns, table, problem = routed
    best = scripts["routing"].best_by_group
    one = [0] * len(table)
    fixed = oracle(problem.with_limits({"dollars": limit})).reward_rate
    assert best(table, one, limit) == pytest.approx(fixed, rel=1e-9)
    groups = columns["benchmark"][::3]
    names = sorted(set(groups))
    sums = np.array(
        [table.outcomes[[g == name for g in groups]].sum(axis=0) for name in names]
    ) / len(table)  # [groups, K, 3]
    solved = linprog(
        -sums[:, :, 1].ravel(),
        A_ub=[sums[:, :, 2].ravel()],
        b_ub=[limit],
        A_eq=np.kron(np.eye(len(names)), np.ones(3)),
        b_eq=np.ones(len(names)),
    )
    assert best(table, groups, limit) == pytest.approx(-solved.fun, rel=1e-7)
    per_prompt = best(table, range(len(table)), limit)
    assert fixed <= -solved.fun + 1e-9 <= per_prompt + 2e-9 <= 1.0


def test_routing_in_short(scripts, routed, paretobandit, tmp_path, monkeypatch, capsys):
    columns, table, _ = routed
    routing = scripts["routing"]
    monkeypatch.setattr(routing, "LIMITS", (2.35e-4, 1.88e-3))
    monkeypatch.setattr(routing, "POLICIES", ("resolve", "stationary"))
    folder = tmp_path / "made"
    asked = ["--cache", str(CACHE), "--orders", "3", "--plan-runs", "0", "--json"]
    assert routing.main([*asked, "--out", str(folder)]) == 0
    told = json.loads(capsys.readouterr().out)
    means = table.outcomes.mean(axis=0)
    assert len(told["rows"]) == 2 * 4
    for row in told["rows"]:
        assert sum(row["shares"]) == pytest.approx(1.0)
        assert row["reward"] == pytest.approx(np.dot(row["shares"], means[:, 1]), abs=0.012)
        spent = row["spend"] * row["limit"]
        assert spent == pytest.approx(np.dot(row["shares"], means[:, 2]), rel=0.3)
        low, high = row["broken_interval"]
        assert low - 1e-9 <= row["broken"] <= high + 1e-9
    made = {path.name for path in folder.iterdir()}
    assert {"routing.png", "routing.csv", "routing.json", "routing.toml", "replay.csv"} <= made
    assert load_problem(folder / "routing.toml").names == tuple(table.arms)
    with open(folder / "routing.csv", newline="") as file:
        lines = list(csv.reader(file))
    assert len(lines) == 1 + 3 * len(table)
    assert [float(line[4]) for line in lines[1:]] == columns["dollars"]


def test_paretobandit_runs_beside_ours(scripts, paretobandit, monkeypatch):
    """Its own router, in a process of its own: 150 prompts at a limit that one model keeps."""
    for package in ("joblib", "sklearn", "tqdm"):
        pytest.importorskip(package, reason=f"ParetoBandit's router needs {package}")
    routing = scripts["routing"]
    monkeypatch.setattr(routing, "LIMITS", (6.64e-4,))
    arms, orders = list(routing.MODELS.values()), [list(range(150))]
    (found,), kind = routing.their_runs(sys.executable, paretobandit, arms, orders, "prompt", True)
    (reward,), (dollars,), (shares,) = found
    assert kind in ("words", "own")
    assert sum(shares) == pytest.approx(1.0)
    assert 0.7 < reward < 1.0
    assert 1e-5 < dollars < 5 * 6.64e-4
    assert shares[arms.index("gemini-pro")] < 0.2, "it is 23 times as dear as the limit allows"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--with-paretobandit", "/no/python"], "--with-paretobandit '/no/python': No such file"),
        (["--orders", "1"], "--orders 1: must be at least 2"),
    ],
)
def test_bad_options_of_routing_are_one_line(scripts, capsys, options, message):
    assert scripts["routing"].main(["--cache", str(CACHE), *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"routing: {message}")
    assert err.count("\n") == 1


# --- Open Bandit Data ---------------------------------------------------------------------


def test_off_policy_estimates_by_hand(scripts, obp):
    """Inverse propensity weights of the items' own lines, without tightrope."""
    rows, _ = scripts["open_bandit"].checked(obp, "men")
    with zipfile.ZipFile(obp) as archive:
        logs = {
            name: list(
                csv.DictReader(
                    io.TextIOWrapper(archive.open(f"obp/dataset/obd/{name}/men/men.csv"), "utf-8")
                )
            )
            for name in ("random", "bts")
        }
    shown = [row["item_id"] for row in logs["bts"]]
    weights = np.array([34 * shown.count(str(item)) / 1e4 for item in range(34)])
    weighted = [weights[int(x["item_id"])] * int(x["click"]) for x in logs["random"]]
    found = rows["estimates"]["ips"]
    assert found["mean"] == pytest.approx(np.mean(weighted))
    assert found["interval"][1] - found["mean"] == pytest.approx(
        1.96 * np.std(weighted, ddof=1) / 100, rel=0.01
    )
    clicks = sum(int(row["click"]) for row in logs["bts"])
    assert (clicks, rows["clicks"]) == (69, 46)
    assert rows["own"]["mean"] == pytest.approx(0.0069)
    assert rows["gain"]["mean"] == pytest.approx(found["mean"] - 0.0046)


def test_what_the_log_cannot_tell_is_refused(scripts, obp):
    _, row = scripts["open_bandit"].checked(obp, "women")
    assert row["refused"].startswith("arm 'item 19': its propensities do not fit")
    assert row["estimates"] == {}


def test_open_bandit_in_short(scripts, obp, tmp_path, monkeypatch, capsys):
    module = scripts["open_bandit"]
    monkeypatch.setattr(module, "CAMPAIGNS", ("men",))
    monkeypatch.setattr(module, "POLICIES", ("uniform-random",))
    monkeypatch.setattr(module, "SPLITS", 20)
    folder = tmp_path / "made"
    asked = ["--cache", str(CACHE), "--orders", "3", "--plan-runs", "0", "--json"]
    assert module.main([*asked, "--out", str(folder)]) == 0
    told = json.loads(capsys.readouterr().out)
    columns = module.columns_of(obp, "random", "men")
    kinds, clicks = np.array(columns["kind"]), np.array(columns["click"])
    rates = {kind: clicks[kinds == kind].mean() for kind in set(kinds)}
    small = set(module.small_kinds(obp, "men"))
    assert len(rates) == 7
    assert len(small) == 3
    best = 0.2 * max(rates[k] for k in small) + 0.8 * max(rates.values())
    assert told["best_rate"] == pytest.approx(best), "a fifth for the best of the small kinds"
    assert sum(told["best_mixture"][kind] for kind in small) == pytest.approx(0.2)
    halves = told["halves"]
    assert halves["other_half"] < halves["same_half"], "the half on which it was chosen was lucky"
    shares = dict(zip(kinds, columns["kind_chance"], strict=True))
    assert sum(shares.values()) == pytest.approx(1.0)
    for row in told["replays"]:
        assert row["rows_used"] / row["rows_passed"] == (
            1.0 if row["method"] == "queues" else pytest.approx(0.06, abs=0.02)
        )
    problem = load_problem(folder / "open-bandit.toml")
    assert oracle(problem).reward_rate == pytest.approx(best)
    assert (folder / "open-bandit.png").read_bytes().startswith(b"\x89PNG")


def test_who_clicks_by_hand(scripts, obp, monkeypatch, capsys):
    """Visitors with an affinity to some item, and those who were shown one, without tightrope."""
    module = scripts["open_bandit_features"]
    monkeypatch.setattr(module, "CAMPAIGNS", ("men",))
    assert module.main(["--cache", str(CACHE), "--splits", "2"]) == 0
    with zipfile.ZipFile(obp) as archive:
        text = archive.read("obp/dataset/obd/random/men/men.csv").decode()
    some = [
        row
        for row in csv.DictReader(io.StringIO(text))
        if any(float(x) > 0 for name, x in row.items() if name.startswith("user-item"))
    ]
    own = [row for row in some if float(row[f"user-item_affinity_{row['item_id']}"]) > 0]
    said = capsys.readouterr().out
    for rows, words in ((some, "an affinity to some item"), (own, "shown such an item")):
        clicks = sum(int(row["click"]) for row in rows)
        assert f"{words}: {clicks} of {len(rows)} impressions" in said
