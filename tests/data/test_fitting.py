"""Problems from logs: rows stay whole, scales, files of rows, saved results, the shell."""

from __future__ import annotations

import contextlib
import io
import json

import numpy as np
import polars as pl
import pytest

from tightrope import (
    Arm,
    Change,
    Limit,
    LyOn,
    Problem,
    Results,
    Scales,
    Share,
    Task,
    load_problem,
    open_campaign,
    oracle,
    read_log,
    simulate,
)
from tightrope.cli import main
from tightrope.data.fitting import fit, scale_of
from tightrope.engine.planning import plan_jobs
from tightrope.errors import InputError, LogWarning, ProblemError, ResultsError
from tightrope.live.archive import archive_events
from tightrope.policies import FixedArm
from tightrope.problem import rows as files_of_rows
from tightrope.problem.problem import MOST_INLINE

COLUMNS = {"arm": "model", "cost": "usd", "reward": "score"}
LIMITS = {"bad": Limit(0.3, per="pull")}


def log(rows=600, seed=1):
    """Outcomes that depend on each other within a row: the reward is 1 - cost."""
    draws = np.random.default_rng(seed)
    cost = draws.uniform(0.01, 0.9, rows)
    return {
        "model": draws.choice(["a", "b", "c"], rows).tolist(),
        "usd": cost,
        "score": 1.0 - cost,
        "bad": (draws.random(rows) < 0.25).astype(float),
    }


def big(seed=2, weights=False):
    """A problem with more rows than are written into a text."""
    draws, count = np.random.default_rng(seed), MOST_INLINE // 2 + 1
    arms = [
        Arm.from_columns(
            name, [draws.random(count), draws.random(count), draws.random(count)], ["bad"]
        )
        for name in "ab"
    ]
    if weights:
        arms[1] = arms[1].weighted(draws.random(count))
    return Problem(arms, limits={"bad": Limit(2.0)}, name="big")


def test_arms_have_their_own_rows_in_order():
    table = log()
    problem = Problem.from_frame(table, **COLUMNS, limits=LIMITS)
    model, expected = np.array(table["model"]), {}
    for name in "abc":
        expected[name] = [np.asarray(table[c])[model == name] for c in ("usd", "score", "bad")]
    assert problem.names == ("a", "b", "c")
    for arm in problem.arms:
        for outcome, column in zip(arm.outcomes, expected[arm.name], strict=True):
            assert np.array_equal(outcome.values, column)
    assert problem.scales.channels == (1.0, 1.0, 1.0)
    assert problem == Problem.from_log(read_log(table, **COLUMNS, penalty="bad"), LIMITS), (
        "another way to the same"
    )


def test_rows_stay_whole_in_a_simulation():
    problem = Problem.from_frame(log(), **COLUMNS, limits=LIMITS)
    runs = simulate(problem, [FixedArm("b")], budgets=[50], runs=20, backend="python")
    [made] = runs.records
    assert made.runs.reward + made.runs.cost == pytest.approx(made.runs.pulls.sum(axis=2))


def test_scales():
    assert [scale_of(x) for x in (0.97, 1.0, 1.0000001, 99.5, 3e-7, 0.0)] == [
        1.0, 1.0, 1.2, 100.0, 3e-7, 1.0,
    ]  # fmt: skip
    for top in 10.0 ** np.random.default_rng(0).uniform(-29, 29, 300):
        assert top <= scale_of(top) <= top * 1.34
    table = log()
    given = Problem.from_frame(table, **COLUMNS, limits=LIMITS, scales={"cost": 5, "bad": 3})
    assert given.scales.channels == (5.0, 1.0, 3.0)
    given = Problem.from_frame(table, **COLUMNS, limits=LIMITS, scales=Scales(cost=2, penalty=7))
    assert given.scales.channels == (2.0, 1.0, 7.0)
    with pytest.raises(ProblemError, match="'usd' is not an outcome; known: cost"):
        Problem.from_frame(table, **COLUMNS, limits=LIMITS, scales={"usd": 5})
    with pytest.raises(ProblemError, match=r"must lie in \[0, 0.5\]; declare a scale of cost"):
        Problem.from_frame(table, **COLUMNS, limits=LIMITS, scales={"cost": 0.5})


def test_rare_arms_are_named_or_left_out():
    table = {"model": ["rare"] * 2 + ["b"] * 50 + ["c"] * 40, "usd": [1.0] * 92}
    columns = {"arm": "model", "cost": "usd", "reward": 1}
    with pytest.warns(LogWarning, match=r"few rows .*: 'rare' \(2\);"):
        assert Problem.from_frame(table, **columns).arm_count == 3
    with pytest.warns(LogWarning, match=r"left out, with fewer than 45 rows: 'c' \(40\), 'rare'"):
        assert Problem.from_frame(table, **columns, min_rows=45).names == ("b",)
    assert Problem.from_frame(table, **columns, without=["rare"]).names == ("b", "c")
    for more, message in (
        ({"min_rows": 51}, "must leave an arm; the largest of 3 arms has 50"),
        ({"min_rows": 0}, "min_rows = 0: must be a whole number"),
        ({"without": ["x"]}, "without = 'x': is not an arm; known: b, c, rare"),
    ):
        with pytest.raises(InputError, match=message):
            Problem.from_frame(table, **columns, **more)


def test_uneven_logs_and_loose_penalties_are_named():
    table = {"model": ["few"] * 30 + ["many"] * 3000, "usd": [1.0] * 3030, "late": [1] * 3030}
    columns = {"arm": "model", "cost": "usd", "reward": 1}
    with pytest.warns(LogWarning, match="unbalanced: 3,000 rows of 'many', 30 of 'few'"):
        Problem.from_frame(table, **columns)
    with (
        pytest.warns(LogWarning, match="unbalanced"),
        pytest.warns(LogWarning, match="no limit, so it is not in the problem: penalty late"),
    ):
        made = fit(table, **columns, penalty=["late"])
    assert made.problem.penalty_count == 0
    assert len(made.warnings) == 2


def test_what_no_problem_can_be_made_of():
    table = log()
    for more, message in (
        ({"limits": {"worse": 1}}, "no column 'worse'"),
        ({"penalty": "bad", "limits": {"worse": 1}}, "limit 'worse': there is no penalty"),
        ({"limits": 5}, "limits = 5: must be numbers by name"),
        ({"limits": {"bad": -1}}, "must be positive"),
    ):
        with pytest.raises(InputError, match=message):
            Problem.from_frame(table, **COLUMNS, **more)
    table["usd"] = np.where(np.array(table["model"]) == "b", 0.0, table["usd"])
    with pytest.raises(ProblemError, match=r"arm 'b': all of its rows \(.*\) cost 0"):
        Problem.from_frame(table, **COLUMNS)
    assert Problem.from_frame(table, **COLUMNS, without="b").arm_count == 2


def test_limits_without_a_column():
    limits = {"enough": Share(["c"], at_least=0.2), "value": Limit(2.0, of="cost", per="reward")}
    problem = Problem.from_frame(log(), **COLUMNS, limits=limits | LIMITS)
    assert problem.limit_names == ("enough", "value", "bad")
    assert oracle(problem).pull_share[2] >= 0.2 - 1e-9


@pytest.mark.parametrize("library", ["pyarrow", "polars"])
@pytest.mark.parametrize("weights", [False, True])
def test_a_problem_and_its_rows_are_written_and_read(tmp_path, monkeypatch, library, weights):
    monkeypatch.setattr(files_of_rows, "find_spec", lambda name: name == library)
    problem = big(weights=weights)
    path = tmp_path / "sub" / "problem.toml"
    path.parent.mkdir()
    assert problem.save(path) == [str(path), str(path.with_suffix(".parquet"))]
    assert path.stat().st_size < 500
    other = "polars" if library == "pyarrow" else "pyarrow"
    monkeypatch.setattr(files_of_rows, "find_spec", lambda name: name == other)
    assert load_problem(path) == problem
    frame = pl.read_parquet(path.with_suffix(".parquet"))
    assert frame.columns == ["arm", "cost", "reward", "bad", *["weight"] * weights]
    assert np.array_equal(frame.filter(arm="b")["cost"].to_numpy(), problem.arms[1].cost.values)


def test_few_rows_are_in_the_text_and_phases_have_their_own(tmp_path):
    few = Problem.from_frame(log(200), **COLUMNS, limits=LIMITS)
    path = tmp_path / "few.toml"
    assert few.save(path) == [str(path)]
    assert load_problem(path) == few == Problem.from_toml(few.to_toml())
    one, two = big(1), big(5)
    changing = Problem(one.arms, limits={"bad": Limit(2.0)}, changes=[Change(0.5, two.arms)])
    changing.save(tmp_path / "changing.toml")
    assert load_problem(tmp_path / "changing.toml") == changing


def test_files_of_rows_that_do_not_fit(tmp_path):
    path = tmp_path / "problem.toml"
    problem = big()
    problem.save(path)
    text = path.read_text()
    with pytest.raises(ProblemError, match=r"rows: are in the file 'problem.parquet'; must be rea"):
        Problem.from_toml(text)
    for old, new, message in (
        ('sha256 = "', 'sha256 = "0', "they have changed"),
        ("rows = 5001", "rows = 5000", "2 of 10,002 belong to no arm"),
        ("rows = 5001", "rows = 6000", "rows = 6,000: must be"),
        ("rows = 5001", "rows = -1", "must be at least 1"),
        ("problem.parquet", "nowhere.parquet", "there is no such file"),
        ("problem.parquet", "problem.toml", "must be a Parquet file"),
        ('file = "problem.parquet"', "file = 5", "file = 5: must be text"),
        ('file = "problem.parquet"', 'path = "x"', "unknown key 'path'"),
    ):
        path.write_text(text.replace(old, new))
        with pytest.raises(ProblemError, match=message):
            load_problem(path)
    path.write_text('[[arms]]\nname = "a"\nrows = 12\n')
    with pytest.raises(ProblemError, match="arm 'a': rows = 12: must be the rows themselves"):
        load_problem(path)
    with pytest.raises(ProblemError, match=r"must end in \.toml"):
        problem.save(tmp_path / "problem.txt")


def test_a_short_text_says_as_much(monkeypatch):
    one, same, other = big(), big(), big(3)
    assert one.outline == same.outline != other.outline
    assert one.outline != big(weights=True).outline
    assert len(one.outline) < 300 < len(one.to_toml())
    small = Problem.from_frame(log(200), **COLUMNS, limits=LIMITS)
    assert small.outline == small.to_toml()

    def digest(problem):
        jobs = plan_jobs(problem, {"lyon": LyOn()}, [10.0], 1, seed=0, backend="python")
        return jobs["lyon", 10.0].digest

    monkeypatch.setattr(Problem, "to_toml", lambda self: pytest.fail("a long text was made"))
    assert digest(one) == digest(same) != digest(other)


def test_results_of_many_rows_are_saved_and_read(tmp_path):
    problem = big(weights=True)
    results = simulate(problem, [FixedArm()], budgets=[5], runs=2, backend="python")
    path = tmp_path / "runs.npz"
    results.save(path)
    again = Results.load(path)
    assert again == results
    assert again.problem == problem
    damaged = dict(np.load(path, allow_pickle=False))
    damaged["header"] = np.array(str(damaged["header"]).replace('"sealed": true', '"x": 1'))
    damaged["observed_rows"] = damaged["observed_rows"] + 1e-9
    np.savez(path, **damaged)
    with pytest.raises(ResultsError, match="they have changed"):
        Results.load(path)
    damaged["observed_rows"] = damaged["observed_rows"][:2]
    np.savez(path, **damaged)
    with pytest.raises(ResultsError, match="'observed_rows' has an invalid value"):
        Results.load(path)


# --- a campaign's export ------------------------------------------------------------------


def test_a_campaign_is_a_log(tmp_path):
    task = Task(
        ["haiku", "opus"],
        {"bad": Limit(0.5, per="pull"), "dollars": Limit(0.04)},
        Scales(penalty={"dollars": 0.05}),
    )
    store = str(tmp_path / "store.db")
    campaign = open_campaign(store, "nov", task=task, budget=100, policy="uniform-random", seed=3)
    told = []
    for k in range(40):
        ticket = campaign.ask()
        if k == 5:
            campaign.void(ticket.id)
        elif k != 7:  # which stays in flight
            outcome = (1.0, 0.5 + 0.01 * k, float(k % 3 == 0), 0.001 * k)
            names = {"bad": outcome[2], "dollars": outcome[3]}
            campaign.tell(ticket.id, cost=outcome[0], reward=outcome[1], penalty=names)
            told.append((ticket, outcome))
    corrected = told[3][0]
    campaign.amend(corrected.id, cost=0.25, penalty={"dollars": 0.01})
    told[3] = (corrected, (0.25, *told[3][1][1:3], 0.01))
    campaign.add_arm("mini")
    path = str(tmp_path / "nov.jsonl")
    assert main(["campaign", "export", store, "nov", "--out", path]) == 0
    found = read_log(path)
    assert found.arms == ("haiku", "opus", "mini")
    assert found.penalties == ("bad", "dollars")
    assert found.chosen.tolist() == [ticket.number for ticket, _ in told]
    np.testing.assert_allclose(found.outcomes.T, [outcome for _, outcome in told])
    with (
        pytest.warns(LogWarning, match="without any rows: mini"),
        pytest.warns(LogWarning, match="few rows"),
    ):
        problem = Problem.from_campaign(path)
    assert problem.names == ("haiku", "opus")
    assert problem.limit_kinds == (Limit(0.5, per="pull"), Limit(0.04))
    assert problem.scales.channels == (1.0, 1.0, 1.0, 0.05)


@pytest.mark.filterwarnings("ignore::tightrope.errors.LogWarning")
def test_an_archived_campaign_is_a_log(tmp_path):
    """The archives and the rest make the problem that the whole log makes."""
    store, task = str(tmp_path / "store.db"), Task(["haiku", "opus"], {"bad": Limit(0.5)})
    campaign = open_campaign(store, "nov", task=task, budget=100, policy="uniform-random", seed=3)
    for k in range(40):
        campaign.tell(campaign.ask().id, cost=1.0, reward=0.02 * k, penalty=float(k % 3 == 0))
    whole, rest, *old = (str(tmp_path / f"{name}.jsonl") for name in ("whole", "rest", "a", "b"))
    assert main(["campaign", "export", store, "nov", "--out", whole]) == 0
    archive_events(campaign, old[0], 20)
    archive_events(campaign, old[1], 50)
    assert main(["campaign", "export", store, "nov", "--out", rest]) == 0
    with pytest.raises(InputError, match=r"rest.jsonl', line 1: the first events are missing"):
        Problem.from_campaign(rest)
    assert Problem.from_campaign(rest, archives=old[::-1]) == Problem.from_campaign(whole)
    out = tmp_path / "fitted.toml"
    assert shell("fit", rest, "--archive", old[0], "--archive", old[1], "-o", out)[0] == 0
    assert load_problem(out) == Problem.from_campaign(whole)
    with pytest.raises(InputError, match="must come with a campaign's export"):
        fit({"model": ["a"]}, arm="model", cost=1, reward=1, archives=old)


# --- the shell ----------------------------------------------------------------------------


def shell(*words):
    """The status, standard output and standard error of a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([str(word) for word in words])
    return status, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "log.csv"
    pl.DataFrame(log(900)).write_csv(path)
    return path


FIT = "--arm model --cost usd --reward score --penalty bad --limit bad=0.3/pull".split()


def test_fit_writes_what_every_command_reads(written, tmp_path):
    target = tmp_path / "problem.toml"
    status, out, err = shell("fit", written, *FIT, "-o", target)
    assert status == 0
    assert "900 rows, 3 arms" in out
    assert "largest (scale)" in out
    assert "the best mixture that keeps the limits earns" in out
    assert "the best mixture earns" in shell("fit", written, *FIT[:-2])[1]
    assert err == f"wrote {target}, {target.with_suffix('.parquet')}\n"
    problem = load_problem(target)
    assert problem == Problem.from_csv(written, **COLUMNS, limits=LIMITS)
    status, out, _ = shell("oracle", target, "--json")
    assert status == 0
    assert json.loads(out)["reward_rate"] == pytest.approx(oracle(problem).reward_rate)
    status, out, _ = shell("problems", target)
    assert status == 0
    assert Problem.from_toml(out) == problem
    words = "--policy fixed-arm --budget 5 --runs 2 --backend python --json --quiet".split()
    status, out, _ = shell("simulate", target, *words)
    assert status == 0
    assert json.loads(out)[0]["runs"] == 2
    assert shell("theory", target, "--budget", 100, "--json")[0] == 0


def test_fit_as_json_prints_the_profile(written):
    status, out, err = shell("fit", written, *FIT, "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    means = pl.read_csv(written).group_by("model").mean().sort("model")
    for arm, mean in zip(found["arms"], means.iter_rows(named=True), strict=True):
        assert arm["arm"] == mean["model"]
        assert arm["cost"]["mean"] == pytest.approx(mean["usd"])
        assert arm["bad"]["mean"] == pytest.approx(mean["bad"])
        assert arm["correlations"]["cost, reward"] == pytest.approx(-1.0)
    assert found["feasible"] is True
    assert found["files"] == []


def test_fit_takes_propensities(written, tmp_path):
    frame, target = pl.read_csv(written), tmp_path / "log.csv"
    chances = 0.2 + 0.6 * (frame["usd"] > frame["usd"].median())
    frame.with_columns(chance=chances).write_csv(target)
    status, out, err = shell("fit", target, *FIT, "--propensity", "chance", "--json")
    assert (status, err) == (0, "")
    expected = fit(target, **COLUMNS, limits=LIMITS, propensity="chance").problem
    found = [arm["cost"]["mean"] for arm in json.loads(out)["arms"]]
    assert found == pytest.approx([arm.cost.mean for arm in expected.arms])


@pytest.mark.parametrize(
    ("text", "share", "words"),
    [
        ("at most 30% for a", Share(["a"], at_most=0.3), "0.3 of pulls"),
        (
            "at least 20% of the budget for a, b",
            Share(["a", "b"], at_least=0.2, per="cost"),
            "0.8 of the budget for all but a, b",
        ),
        ("at most 0.5 of cost for a", Share(["a"], at_most=0.5, per="cost"), "0.5 of the budget"),
        ("at most 0.5 of rewards for a", Share(["a"], at_most=0.5, per="reward"), "of the reward"),
    ],
)
def test_a_share_in_the_shell(written, tmp_path, text, share, words):
    target = tmp_path / "problem.toml"
    status, out, _ = shell("fit", written, *FIT, "--limit", f"some={text}", "-o", target)
    assert status == 0
    assert words in out
    assert load_problem(target).limit_kinds[1] == share
    limit = ["--limit", f"some={text}", "--limit", "bad=25%/pull"]
    few = "--budget 1 --runs 2 --draws 0 --policy fixed-arm --backend python --json --quiet".split()
    assert shell("plan", target, *limit, *few)[0] == 0


def test_fit_never_writes_over_its_log(tmp_path):
    path = tmp_path / "log.parquet"
    pl.DataFrame(log(900)).write_parquet(path)
    before = path.read_bytes()
    status, _, err = shell("fit", path, *FIT, "-o", tmp_path / "log.toml")
    assert status == 2
    assert "is the log; must be another file" in err
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_fit_never_replaces_a_parquet_file_without_a_problem(written, tmp_path):
    other = tmp_path / "log.parquet"
    other.write_bytes(b"somebody's")
    status, _, err = shell("fit", written, *FIT, "-o", tmp_path / "log.toml")
    assert status != 0
    assert "the rows would replace that file" in err
    assert other.read_bytes() == b"somebody's"
    assert list(tmp_path.iterdir()) == [other]
    target = tmp_path / "problem.toml"  # a second fit replaces its own files
    assert [shell("fit", written, *FIT, "-o", target)[0] for _ in range(2)] == [0, 0]


def test_an_outlier_of_the_costs_is_in_the_message():
    columns = {"arm": ["a", "b"] * 50, "cost": [0.03] * 99 + [1e12]}
    with pytest.raises(ProblemError) as caught:
        fit(columns, arm="arm", cost="cost", reward=1)
    assert "arm 'a', cost: mean 0.03 must be at least" in str(caught.value)
    assert "for costs of up to 1e+12 (the scale of cost), or pulls" in str(caught.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--limit", "bad=0.3/pul"], "'pul' must be cost, pull, reward or total"),
        (["--limit", "bad"], "--limit 'bad': must be NAME=VALUE"),
        (["--limit", "bad=x"], "'x' must be a number"),
        (["--limit", "bad=0"], "must be positive"),
        (["--scale", "cost=x"], "'x' must be a number"),
        (["-o", "problem.txt"], "must end in .toml"),
        (["--profile", "page.pdf"], "--profile page.pdf: must end in .html"),
        (["--cost", "nan"], "argument --cost: 'nan' must be a finite number"),
        (["--min-rows", "100000"], "must leave an arm"),
        (["--without", "a", "--without", "b", "--without", "c"], "without: no arm is left"),
    ],
)
def test_fit_refuses_in_one_line(written, words, message):
    given = FIT[:8] if "--limit" in words else FIT
    status, out, err = shell("fit", written, *given, *words)
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_propensities_that_do_not_fit_the_rows_are_named(tmp_path):
    target, random = tmp_path / "log.csv", np.random.default_rng(1)
    chances = {"a": 0.5, "b": 0.3, "c": 0.2}
    arms = random.choice(list(chances), p=list(chances.values()), size=900)
    columns = {"model": arms, "chance": [chances[arm] for arm in arms], "wrong": [0.9] * 900}
    columns |= {name: random.random(900) for name in ("usd", "score", "bad")}
    pl.DataFrame(columns).write_csv(target)
    status, _, err = shell("fit", target, *FIT, "--propensity", "chance", "--json")
    assert (status, err) == (0, "")
    status, out, err = shell("fit", target, *FIT, "--propensity", "wrong", "--json")
    assert (status, err.count("\n")) == (0, 1)
    assert err.startswith("warning: arm 'a': its propensities do not fit its ")
    assert json.loads(out)["warnings"] == [err.removeprefix("warning: ").rstrip("\n")]
    refused = shell("replay", target, *FIT, "--propensity", "wrong", "--mixture", "a=1")[2]
    assert "its propensities do not fit its " in refused
