"""Logs, tables, fits, plans and estimates of requests with types."""

from __future__ import annotations

import json
import warnings
from itertools import product

import numpy as np
import pytest

from tightrope import (
    Controller,
    FullTable,
    Limit,
    Problem,
    Resolve,
    Results,
    Task,
    load_problem,
    open_campaign,
    oracle,
    plan,
    read_log,
    replay,
    simulate,
)
from tightrope.cli import main
from tightrope.data import evaluate_mixture
from tightrope.data.fitting import FEW_OF_TYPE, fit
from tightrope.data.log import Log
from tightrope.data.offpolicy import equally_likely
from tightrope.data.profile import profile
from tightrope.errors import InputError, LogWarning, ProblemError
from tightrope.policies import FixedArm

LIMITS = {"bad": Limit(0.4, per="pull")}
CHANCES = {  # of a reward, and of a penalty, by country and model
    ("DE", "large"): (0.9, 0.6),
    ("DE", "small"): (0.4, 0.1),
    ("FR", "large"): (0.6, 0.3),
    ("FR", "small"): (0.5, 0.2),
}


def columns(rows=1200, seed=0):
    """A log as columns: two thirds of the requests come from DE; models are chosen at random."""
    random = np.random.default_rng(seed)
    country = np.where(random.random(rows) < 2 / 3, "DE", "FR")
    model = np.where(random.random(rows) < 0.5, "large", "small")
    chances = np.array([CHANCES[pair] for pair in zip(country, model, strict=True)])
    won, bad = (random.random((rows, 2)) < chances).T.astype(float)
    usd = np.where(model == "large", 2.0, 1.0)
    return {"country": country, "model": model, "usd": usd, "won": won, "bad": bad}


@pytest.fixture(name="frame", scope="module")
def _frame():
    return columns()


@pytest.fixture(name="csv")
def _csv(frame, tmp_path):
    path = tmp_path / "log.csv"
    lines = zip(*frame.values(), strict=True)
    text = "\n".join([",".join(frame), *(",".join(map(str, line)) for line in lines)])
    path.write_text(text + "\n")
    return str(path)


READ = {"arm": "model", "cost": "usd", "reward": "won", "context": "country"}
FIT = {**READ, "limits": LIMITS}
SHELL = "--arm model --cost usd --reward won --context country --limit bad=40%/pull".split()


# --- reading ----------------------------------------------------------------------------------


@pytest.mark.parametrize("reader", ["pyarrow", "python"])
def test_a_file_is_read_as_the_frame_is(csv, frame, reader, monkeypatch):
    if reader == "python":
        monkeypatch.setattr("tightrope.data.sources._by_pyarrow", lambda *_: None)
    found = read_log(csv, **READ, penalty="bad")
    expected = read_log(frame, **READ, penalty="bad")
    assert list(found.contexts) == list(expected.contexts) == frame["country"].tolist()
    assert found.chosen.tolist() == expected.chosen.tolist()
    np.testing.assert_array_equal(found.outcomes, expected.outcomes)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_and_parquet_files_have_contexts(frame, library, tmp_path):
    module = pytest.importorskip(library)
    made = module.table(frame) if library == "pyarrow" else module.DataFrame(frame)
    assert list(read_log(made, **READ).contexts) == frame["country"].tolist()
    path = tmp_path / "log.parquet"
    pytest.importorskip("polars").DataFrame(frame).write_parquet(path)
    assert list(read_log(str(path), **READ).contexts) == frame["country"].tolist()


def test_numbers_are_types_too():
    log = {"model": ["a", "b"], "hour": [10, 9]}
    assert read_log(log, arm="model", cost=1, reward=1, context="hour").contexts == ["10", "9"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"context": "contry"}, "no column 'contry' (context); did you mean 'country'?"),
        ({"context": "model"}, "context = 'model': is the column of the arms; must be another"),
        ({"context": 3}, "context = 3: must be the name of a column"),
        ({"context": "row"}, "column 'row': 5,000 types; must be at most 4,096; is it the column"),
    ],
)
def test_a_wrong_column_is_one_line(given, message):
    log = columns(5000) | {"row": np.arange(5000)}
    with pytest.raises(InputError) as told:
        read_log(log, **READ | given)
    assert message in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("kind", ["frame", "csv"])
def test_a_missing_type_is_a_missing_value(kind, tmp_path):
    log = {"model": ["a", "b", "a"], "country": ["DE", "", "FR"], "usd": [1, 1, 1]}
    source = log
    if kind == "csv":
        source = tmp_path / "log.csv"
        source.write_text("model,country,usd\na,DE,1\nb,,1\na,FR,1\n")
    options = {"arm": "model", "cost": "usd", "reward": 1, "context": "country"}
    with pytest.raises(InputError, match=r"row 2 .*, column 'country': context is missing"):
        read_log(source, **options)
    with pytest.warns(LogWarning, match="1 of 3 rows are dropped, which lack a value: country in"):
        assert read_log(source, **options, drop_missing=True).contexts == ["DE", "FR"]


def test_a_log_without_arms_keeps_its_contexts(frame):
    log = read_log(frame, **READ)
    assert equally_likely(log).contexts == log.contexts
    left = log.without("small")
    assert list(left.contexts) == frame["country"][frame["model"] == "large"].tolist()


def test_a_long_table_has_the_type_of_its_rows():
    long = {"row": ["u", "u", "v", "v"], "arm": ["a", "b"] * 2, "kind": ["x", "x", "y", "y"]}
    log = read_log(long, arm="arm", cost=1, reward=1, context="kind")
    assert FullTable.from_long(long["row"], log).contexts == ("x", "y")
    log = read_log(
        long | {"kind": ["x", "x", "y", "z"]}, arm="arm", cost=1, reward=1, context="kind"
    )
    with pytest.raises(
        InputError, match="row v: has 'y' and 'z'; all lines of a row must have one"
    ):
        FullTable.from_long(long["row"], log)


# --- fitting ----------------------------------------------------------------------------------


def test_a_fit_has_the_shares_and_the_rows_of_each_type(frame):
    problem = Problem.from_frame(frame, **FIT)
    assert list(problem.shares) == ["DE", "FR"]
    assert problem.shares["DE"] == pytest.approx((frame["country"] == "DE").mean())
    for kind, arms in problem.typed.items():
        for arm in arms:
            mine = (frame["country"] == kind) & (frame["model"] == arm.name)
            assert arm.reward.mean == pytest.approx(frame["won"][mine].mean())
            assert arm.cost.mean == pytest.approx(frame["usd"][mine].mean())
            assert len(arm.cost.values) == mine.sum()


def test_propensities_weight_the_rows_of_a_type(frame):
    chance = np.where(frame["bad"] == 1, 0.2, 0.8)
    problem = Problem.from_frame(frame | {"p": chance}, **FIT, propensity="p")
    mine = (frame["country"] == "FR") & (frame["model"] == "small")
    expected = np.average(frame["bad"][mine], weights=1 / chance[mine])
    assert problem.typed["FR"][1].penalties[0].mean == pytest.approx(expected)


def rare(rows=4):
    """The log, with a country of few rows that never saw the large model."""
    return {name: np.append(column, [column[0]] * rows) for name, column in columns().items()} | {
        "country": np.append(columns()["country"], ["LU"] * rows),
        "model": np.append(columns()["model"], ["small"] * rows),
    }


def test_a_pair_with_few_rows_draws_those_of_all_types():
    with pytest.warns(
        LogWarning, match=r"draw the arm's rows of all types: 'large' for 'LU' \(0\)"
    ):
        fitted = fit(rare(), **FIT)
    of_lu = fitted.problem.typed["LU"]
    assert len(of_lu[0].cost.values) == fitted.log.counts[0]
    assert any("fewer than 10" in one for one in fitted.warnings)
    found = profile(fitted)
    pairs = {(kind.name, one.arm): one for kind in found.types for one in kind.arms}
    assert pairs["LU", "large"].pooled
    assert pairs["LU", "large"].means == ()
    assert pairs["LU", "small"].rows == 4 < FEW_OF_TYPE
    assert not pairs["DE", "small"].pooled


def test_requests_of_arms_that_are_left_out_count_for_the_shares(frame):
    """The share of a type is a fact about requests, not about the arms that are left."""
    only = frame | {"model": np.where(frame["country"] == "DE", frame["model"], "small")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LogWarning)
        problem = Problem.from_frame(only, **FIT, without=["small"])
    assert problem.shares["DE"] == pytest.approx((frame["country"] == "DE").mean())
    assert set(problem.typed) == {"DE", "FR"}


def test_a_type_whose_rows_cost_nothing_is_named(frame):
    free = frame | {"usd": np.where(frame["country"] == "FR", 0.0, 1.0)}
    with pytest.raises(
        ProblemError, match=r"arm 'large', type 'FR': all of its rows \(\d+\) cost 0"
    ):
        Problem.from_frame(free, **FIT)


def test_a_type_may_not_have_the_name_of_a_key(frame):
    odd = frame | {"country": np.where(frame["country"] == "DE", "rows", "FR")}
    with pytest.raises(ProblemError, match="contexts: type 'rows': must not be one of"):
        Problem.from_frame(odd, **FIT)


@pytest.mark.parametrize("rows", [120, 1200, 11_000])
def test_a_fitted_problem_is_saved_and_loaded(rows, tmp_path):
    odd = columns(rows)
    odd["country"] = np.where(odd["country"] == "DE", 'en-US "x"', "Ö.y")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LogWarning)
        problem = Problem.from_frame(odd, **FIT)
    files = problem.save(tmp_path / "p.toml")
    assert len(files) == 1 + (rows > 500)
    loaded = load_problem(files[0])
    assert loaded == problem
    assert loaded.outline == problem.outline
    results = simulate(problem, "resolve", budgets=20, runs=2)
    results.save(tmp_path / "runs.npz")
    assert Results.load(tmp_path / "runs.npz") == results


@pytest.mark.filterwarnings("ignore::tightrope.errors.LogWarning")
def test_an_export_has_the_types_of_its_requests(tmp_path):
    store, out = str(tmp_path / "store.db"), str(tmp_path / "log.jsonl")
    task = Task(["a", "b"], LIMITS, costs=1, contexts=["x", "y"])
    campaign = open_campaign(store, "nov", task=task, budget=100, policy="uniform-random", seed=3)
    for number in range(60):
        ticket = campaign.ask(context="xxy"[number % 3])
        campaign.tell(ticket.id, reward=1.0, penalty=0.0)
    assert main(["campaign", "export", store, "nov", "--out", out]) == 0
    assert Problem.from_campaign(out).shares == {
        "x": pytest.approx(2 / 3),
        "y": pytest.approx(1 / 3),
    }
    with pytest.raises(InputError, match="context = 'q': must be left out; the export contains it"):
        fit(out, context="q")


def test_reports_from_before_a_campaign_had_types_are_left_out(tmp_path):
    store, out = str(tmp_path / "store.db"), str(tmp_path / "log.jsonl")
    task = Task(["a", "b"], LIMITS, costs=1)
    campaign = open_campaign(store, "nov", task=task, budget=100, policy="uniform-random", seed=3)
    for number in range(30):
        if number == 10:
            campaign.change(contexts=["x", "y"])
        context = {"context": "xy"[number % 2]} if number >= 10 else {}
        campaign.tell(campaign.ask(**context).id, reward=1.0, penalty=0.0)
    assert main(["campaign", "export", store, "nov", "--out", out]) == 0
    with pytest.warns(LogWarning, match="10 of 30 reports are left out, from before the campaign"):
        assert read_log(out).contexts == ["x", "y"] * 10


# --- whole rows of a table --------------------------------------------------------------------


def table(rows=600, seed=3, contexts=True):
    random = np.random.default_rng(seed)
    kinds = np.where(random.random(rows) < 0.3, "x", "y")
    good = np.where(kinds == "x", 0.9, 0.2)
    outcomes = np.ones((rows, 2, 3))
    outcomes[:, 0, 1], outcomes[:, 1, 1] = random.random(rows) < good, random.random(rows) < 0.5
    outcomes[:, :, 2] = random.random((rows, 2)) < 0.2
    return FullTable(["a", "b"], ["bad"], outcomes, contexts=kinds if contexts else None)


@pytest.mark.parametrize("contexts", [False, True])
def test_the_problem_of_a_table_has_its_means(contexts):
    rows = table(contexts=contexts)
    problem = Problem.from_table(rows, LIMITS, name="rows")
    assert problem.name == "rows"
    assert problem.limit_kinds[0] == LIMITS["bad"]
    np.testing.assert_allclose(problem.moments.reward, rows.outcomes[:, :, 1].mean(axis=0))
    best = oracle(problem).reward_rate
    if contexts:
        kinds = np.array(rows.contexts)
        means = [rows.outcomes[kinds == kind, :, 1].mean(axis=0).max() for kind in "xy"]
        shares = [(kinds == kind).mean() for kind in "xy"]
        assert best == pytest.approx(np.dot(shares, means))
    else:
        assert best == pytest.approx(rows.outcomes[:, :, 1].mean(axis=0).max())


@pytest.mark.parametrize("contexts", [False, True])
@pytest.mark.parametrize("policy", ["resolve", "lyon", "ts-lp"])
def test_every_cpu_engine_draws_the_same_rows(contexts, policy):
    problem = Problem.from_table(table(contexts=contexts), LIMITS)
    found = [
        simulate(problem, policy, budgets=30, runs=3, backend=backend)[policy].runs
        for backend in ("python", "cpu")
    ]
    for name in ("reward", "penalty", "pulls"):
        np.testing.assert_array_equal(getattr(found[0], name), getattr(found[1], name))


def test_all_arms_draw_the_same_row_of_a_table():
    """Arms with equal columns earn the same in every run: a row is drawn before the arm."""
    rows = table(50, contexts=True)
    same = FullTable(["a", "b"], ["bad"], rows.outcomes[:, [0, 0]], contexts=rows.contexts)
    problem = Problem.from_table(same, LIMITS)
    policies = {"one": FixedArm(1), "two": FixedArm(2)}
    found = simulate(problem, policies, budgets=100, runs=4)
    np.testing.assert_array_equal(found["one"].runs.reward, found["two"].runs.reward)
    np.testing.assert_array_equal(found["one"].runs.penalty, found["two"].runs.penalty)


def test_only_a_full_table_can_be_drawn_from():
    with pytest.raises(InputError, match="table = dict: must be a FullTable"):
        Problem.from_table({"arms": []})
    with pytest.raises(
        InputError, match="limit 'late': the data has no such penalty; known: 'bad'"
    ):
        Problem.from_table(table(), {"late": "10% per pull"})


# --- runs and plans by type -------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["python", "cpu"])
def test_runs_count_the_pulls_of_each_type(backend):
    problem = Problem.from_table(table(), {"bad": Limit(0.9, per="pull")})
    found = simulate(problem, ["resolve", "ts-lp"], budgets=[50, 200], runs=3, backend=backend)
    by_type = found["resolve"].pulls_by_type
    assert by_type.shape == (2, 3, 2, 2)
    np.testing.assert_array_equal(by_type.sum(axis=2), found["resolve"].runs.pulls)
    assert found["ts-lp"].pulls_by_type is None


def test_a_plan_has_what_each_type_gets():
    problem = Problem.from_table(table(2000), {"bad": Limit(0.9, per="pull")})
    made = plan(problem, ["resolve", "ts-lp"], budgets=800, runs=40, draws=0, fan=False)
    rows = {row.policy: {one.type: one for one in row.by_type} for row in made.rows}
    aware, blind = rows["resolve"], rows["ts-lp"]
    assert aware["x"].requests == pytest.approx(problem.shares["x"], abs=0.01)
    assert aware["x"].pull_share[0] > 0.9
    assert aware["y"].pull_share[1] > 0.9
    assert blind["x"].pull_share == pytest.approx(blind["y"].pull_share)
    for row in made.rows:  # the types add up to the whole
        earned = sum(one.requests * one.reward for one in row.by_type) * row.pulls[2]
        assert earned == pytest.approx(row.mean.mean, rel=0.02)
    told = made.summary()["rows"][0]["by_type"][0]
    assert set(told) == {"type", "requests", "pull_share", "reward", "rates"}
    assert set(told["rates"]) == {"bad"}
    assert "By type of request" in str(made)
    plain = plan(Problem.from_table(table(contexts=False), LIMITS), "lyon", budgets=50, runs=4)
    assert "by_type" not in plain.summary()["rows"][0]
    assert "By type of request" not in str(plain)


def test_the_log_is_part_of_a_plan_by_type(frame):
    made = plan(Problem.from_frame(frame, **FIT), "resolve", budgets=1000, runs=200, fan=False)
    assert made.draws == 50
    assert made.rows[0].mean.log > 0.0
    assert any("How often each type of request comes counts as known" in one for one in made.notes)


# --- the profile ------------------------------------------------------------------------------


def test_the_lowest_limit_takes_the_best_arm_of_each_type(frame):
    """Against every pair of arms, one for each type."""
    fitted = fit(frame, **FIT)
    problem = fitted.problem
    rates = []
    for arms in product(*problem.typed.values()):
        shares = list(problem.shares.values())
        rates.append(np.dot(shares, [arm.penalties[0].mean for arm in arms]))
    found = profile(fitted).limits[0]
    assert found.lowest == pytest.approx(min(rates))
    assert found.lowest_arm is None


def test_the_lowest_limit_per_cost_takes_the_best_arm_of_each_type(frame):
    fitted = fit(frame, **READ, limits={"bad": Limit(0.4), "won": Limit(0.9, per="pull")})
    rates = []
    for arms in product(*fitted.problem.typed.values()):
        shares = list(fitted.problem.shares.values())
        rates.append(
            np.dot(shares, [arm.penalties[0].mean for arm in arms])
            / np.dot(shares, [arm.cost.mean for arm in arms])
        )
    found = profile(fitted).limits[0]
    assert found.lowest == pytest.approx(min(rates))
    assert found.lowest_together >= found.lowest - 1e-9


# --- the shell --------------------------------------------------------------------------------


def test_from_a_file_to_a_plan(csv, tmp_path, capsys):
    toml, page = str(tmp_path / "router.toml"), tmp_path / "page.html"
    assert main(["fit", csv, *SHELL, "-o", toml, "--profile", str(page)]) == 0
    told = capsys.readouterr().out
    assert "2 types of requests" in told
    assert "DE (6" in told
    assert "Types of requests" in page.read_text()
    assert main(["fit", csv, *SHELL, "--json"]) == 0
    assert [one["type"] for one in json.loads(capsys.readouterr().out)["types"]] == ["DE", "FR"]
    quick = ["--budget", "40", "--runs", "20", "--policy", "resolve", "--quiet", "--json"]
    plans = []
    for source in ([toml], [csv, *SHELL]):
        assert main(["plan", *source, *quick]) == 0
        plans.append(json.loads(capsys.readouterr().out)["rows"])
    assert plans[0] == plans[1]
    assert [one["type"] for one in plans[0][0]["by_type"]] == ["DE", "FR"]


@pytest.mark.parametrize("command", ["fit", "replay", "plan"])
def test_a_wrong_column_of_the_shell_is_one_line(command, csv, capsys):
    words = [one if one != "country" else "contry" for one in SHELL]
    more = {"fit": [], "plan": ["--budget", "5"], "replay": ["--penalty", "bad", "--uniform"]}
    more["replay"] += ["--policy", "resolve", "--budget", "5"]
    assert main([command, csv, *words, *more[command]]) == 2
    told = capsys.readouterr().err.strip()
    assert "no column 'contry' (context); did you mean 'country'?" in told
    assert "\n" not in told


def test_columns_belong_to_a_log(capsys):
    assert main(["plan", "paper", "--budget", "5", "--context", "country"]) == 2
    assert "--context: must come with --arm COLUMN, for a log" in capsys.readouterr().err


def test_the_shell_replays_types_and_estimates_mixtures(csv, capsys):
    words = ["replay", csv, *SHELL, "--penalty", "bad", "--uniform", "--json"]
    words += ["--policy", "resolve", "--budget", "60", "--orders", "3"]
    words += ["--mixture", "DE/small=1,FR/large=0.5,FR/small=0.5", "--mixture", "small=1"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["data"]["types"] == ["DE", "FR"]
    assert told["mixtures"][0]["shares"] == {"DE/small": 1.0, "FR/large": 0.5, "FR/small": 0.5}
    assert told["mixtures"][1]["shares"] == {"small": 1.0}


def test_the_shell_learns_from_a_log_before_a_replay(csv, capsys):
    words = ["replay", csv, *SHELL, "--penalty", "bad", "--uniform", "--json"]
    words += ["--policy", "resolve", "--budget", "60", "--orders", "3"]
    found = []
    for more in ([], ["--learn-from", csv], ["--learn-from", csv, "--weight", "0.3"]):
        assert main([*words, *more]) == 0
        found.append(json.loads(capsys.readouterr().out)["policies"][0])
    assert found[1] == found[2] != found[0]
    assert main([*words, "--weight", "0.3"]) == 2
    assert "--weight 0.3: must come with --learn-from FILE" in capsys.readouterr().err


# --- off-policy estimates ---------------------------------------------------------------------


def logged(random, full, chance):
    """A log of a table: ``chance`` [T, K] of every arm for each type."""
    kinds = np.array([("x", "y").index(kind) for kind in full.contexts])
    chosen = (random.random(len(full)) > chance[kinds, 0]).astype(int)
    outcomes = full.outcomes[np.arange(len(full)), chosen].T.copy()
    return Log(full.arms, full.penalties, chosen, outcomes, chance[kinds, chosen], full.contexts)


CHANCE = np.array([[0.3, 0.7], [0.8, 0.2]])
MIXTURE = {"x": {"a": 0.9, "b": 0.1}, "y": {"a": 0.25, "b": 0.75}}


def test_a_mixture_of_a_table_is_the_mean_over_its_rows():
    full = table()
    truth = np.mean(
        [
            sum(MIXTURE[kind][arm] * row[k, 1] for k, arm in enumerate(full.arms))
            for kind, row in zip(full.contexts, full.outcomes, strict=True)
        ]
    )
    found = evaluate_mixture(full, MIXTURE)
    assert found.value("reward").mean == pytest.approx(truth)
    assert evaluate_mixture(full, [[0.9, 0.1], [0.25, 0.75]]).rows == found.rows
    assert found.shares == {"x/a": 0.9, "x/b": 0.1, "y/a": 0.25, "y/b": 0.75}


def test_estimates_are_unbiased_and_their_intervals_cover():
    """A thousand logs of a population with a known truth; choices depend on the type."""
    random, good = np.random.default_rng(8), {"x": (0.9, 0.5), "y": (0.2, 0.6)}
    truth = sum(
        share * sum(MIXTURE[kind][arm] * good[kind][k] for k, arm in enumerate("ab"))
        for kind, share in (("x", 0.3), ("y", 0.7))
    )
    errors: dict[str, list[float]] = {"ips": [], "snips": [], "dr": []}
    covered = dict.fromkeys(errors, 0)
    for _ in range(1000):
        kinds = np.where(random.random(400) < 0.3, "x", "y")
        outcomes = np.ones((400, 2, 2))
        outcomes[:, :, 1] = random.random((400, 2)) < [good[kind] for kind in kinds]
        log = logged(random, FullTable(["a", "b"], [], outcomes, contexts=kinds), CHANCE)
        found = evaluate_mixture(log, MIXTURE)
        for name in errors:
            value = found.value("reward", method=name)
            errors[name].append(value.mean - truth)
            covered[name] += abs(value.mean - truth) <= value.reach
    for name, some in errors.items():
        assert abs(np.mean(some)) < 4 * np.std(some) / 1000**0.5, name
        assert 0.93 <= covered[name] / 1000 <= 0.97, name
    assert np.std(errors["dr"]) < np.std(errors["ips"])


def test_a_replay_is_unbiased_if_choices_depend_on_the_type():
    """An arm's own rows are mostly of one type; the rows that a replay uses are not."""
    full = table(4000)
    log = logged(np.random.default_rng(6), full, CHANCE)
    row = replay(log, LIMITS, FixedArm(1), budget=400, orders=20).rows[0]
    truth, naive = full.outcomes[:, 0, 1].mean(), log.of_arm(0)[1].mean()
    assert row.reward_rate.mean == pytest.approx(truth, abs=0.03)
    assert abs(naive - truth) > 0.06


def test_a_model_of_types_has_less_variance():
    """The mean of the type, not of all types, is what a row is compared with."""
    random, full = np.random.default_rng(2), table(4000)
    log = logged(random, full, np.full((2, 2), 0.5))
    plain = Log(log.arms, log.penalties, log.chosen, log.outcomes, log.propensity)
    half = {"a": 0.5, "b": 0.5}
    errors = [evaluate_mixture(one, half).value("reward").error for one in (log, plain)]
    assert errors[0] < 0.95 * errors[1]


def test_equal_shares_of_types_are_a_plain_mixture():
    log = logged(np.random.default_rng(5), table(2000), CHANCE)
    by_type = {kind: {"a": 0.5, "b": 0.5} for kind in "xy"}
    assert evaluate_mixture(log, by_type) == evaluate_mixture(log, {"a": 0.5, "b": 0.5})


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"x": {"a": 1}, "z": {"a": 1}}, "mixture: 'z' is not a type; "),
        ({"x": {"a": 1}}, "mixture, type 'y': the shares sum to 0; must be 1"),
        ({"x": {"a": 1}, "y": {"c": 1}}, "mixture, type 'y': 'c' is not an arm"),
        ([[1, 0]], "mixture: shares of 1 types; must be 2"),
    ],
)
def test_wrong_shares_of_types_are_one_line(shares, message):
    with pytest.raises(InputError) as told:
        evaluate_mixture(table(), shares)
    assert message in str(told.value)


def test_an_arm_that_a_type_never_had_is_named():
    full = table(2000)
    never = np.array([[1.0, 0.0], [0.5, 0.5]])
    log = logged(np.random.default_rng(5), full, never)
    with pytest.raises(
        InputError, match=r"arm 'b', type 'x': a share of 0\.1 of the mixture, and none"
    ):
        evaluate_mixture(log, MIXTURE)
    found = evaluate_mixture(log, {"x": {"a": 1.0}, "y": {"a": 0.25, "b": 0.75}})
    kinds = np.array(full.contexts)
    reward = full.outcomes[:, :, 1] @ np.array([[1.0, 0.25], [0.0, 0.75]])
    truth = np.where(kinds == "x", reward[:, 0], reward[:, 1]).mean()
    assert abs(found.value("reward").mean - truth) < 4 * found.value("reward").error
    plain = Log(full.arms, full.penalties, log.chosen, log.outcomes, log.propensity)
    with pytest.raises(InputError, match="the data must have types"):
        evaluate_mixture(plain, MIXTURE)


# --- learning from a log ----------------------------------------------------------------------


def test_from_a_file_to_a_controller(csv, frame):
    log = read_log(csv, **READ, penalty="bad")
    problem = Problem.from_csv(csv, **FIT)
    controller = Controller(problem.task, Resolve(risk=0.01), 500, learn_from=log, weight=0.5)
    arm = controller.ask(context="DE")
    controller.tell(arm, cost=1.0, reward=1.0, penalty={"bad": 0.0}, context="DE")
    assert sum(controller.pulls) == 1
    task = Task(problem.names, LIMITS, problem.scales, contexts=["DE"])
    with pytest.raises(InputError, match="context 'FR' is unknown; "):
        Controller(task, Resolve(), 500, learn_from=log)
