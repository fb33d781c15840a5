"""What a limit and a budget mean: said in several ways, refused or warned of where it is new."""

from __future__ import annotations

import inspect
import itertools
import pickle
import warnings
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tightrope
from tests.conftest import bernoulli_problem
from tightrope import (
    Controller,
    FullTable,
    Limit,
    LyOn,
    Problem,
    Results,
    Scales,
    Share,
    Task,
    ready_problem,
    simulate,
)
from tightrope.callers import also_called
from tightrope.data import fitting
from tightrope.data.tables import problem_of, task_of
from tightrope.engine.arguments import budget_list
from tightrope.errors import InputError, LimitWarning, ProblemError, ResultsError
from tightrope.problem.limits import BASES, as_limit
from tightrope.problem.meaning import require_binding
from tightrope.shell import plans
from tightrope.shell.named import limits_of

LIMITS = [
    Limit(0.05),
    Limit(0.05, hard=True),
    Limit(0.05, per="pull"),
    Limit(2.5, per="reward"),
    Limit(total=30.0),
    Limit(total=30.0, hard=True),
]


# A limit is a text.


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_a_limit_in_words_is_the_limit(limit):
    assert as_limit(f"{limit.number:g} {limit.words}") == limit
    assert as_limit(f"{100 * limit.number:g}% {limit.words}") == limit
    per = "total" if limit.total else limit.per
    short = f"{limit.number:g}/{per}{', hard' * limit.hard}"
    assert as_limit(short) == limit
    for said in (short, f"{limit.number:g} {limit.words}"):
        assert Task(["a"], {"bad": said}) == Task(["a"], {"bad": limit})
        assert Task(["a"], limit=said) == Task(["a"], limit=limit)
        assert limits_of([f"bad={said}"]) == {"bad": limit}
        text = f'limits = {{ bad = "{said}" }}\n[[arms]]\nname = "a"'
        assert Task.from_toml(text) == Task(["a"], {"bad": limit})


@pytest.mark.parametrize(
    "text",
    ["", "%", "x", "0.05/", "0.05/pulls", "0.05 pull", "5%% per pull", "per pull", "5 total"],
)
def test_another_text_is_refused_in_one_line(text):
    for make in (lambda: Task(["a"], {"bad": text}), lambda: Task(["a"], limit=text)):
        with pytest.raises(ProblemError, match=r"^limit.*must be") as caught:
            make()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bound", ["least", "most"])
@pytest.mark.parametrize("per", ["pull", "cost", "reward"])
def test_a_share_is_a_text(bound, per):
    share = Share(["a", "b c"], **{f"at_{bound}": 0.2}, per=per)
    for text in (f"at {bound} 20% of {per} for a, b c", f"at {bound} 0.2 of {per}s for a,b c"):
        assert Task(["a", "b c", "d"], {"some": text}).limit_kinds == (share,)
        assert limits_of([f"some={text}"]) == {"some": share}
    with pytest.raises(ProblemError, match=r"limit 'some'.*'x' is not an arm"):
        Task(["a", "b"], {"some": f"at {bound} 20% for x"})
    with pytest.raises(ProblemError, match=r"must be a share, between 0 and 1"):
        Task(["a", "b"], {"some": f"at {bound} 120% for a"})
    with pytest.raises(ProblemError, match=r"must be a number or a percentage"):
        Task(["a", "b"], {"some": f"at {bound} many for a"})


# A limit that can never bind.


@given(
    st.floats(1e-3, 1e3),
    st.sampled_from(list(BASES)),
    st.floats(1e-2, 1e2),
    st.none() | st.floats(1e-2, 1.0),
)
def test_a_new_limit_is_refused_where_no_pull_can_break_it(number, per, scale, cost):
    most = {"pull": scale, "cost": scale / cost if cost else None, "reward": None}[per]
    if most is not None and abs(number / most - 1.0) < 1e-9:
        return  # rounding decides
    limit, scales = Limit(number, per=per), Scales(penalty=scale)
    if most is None or number < most:
        Task(["a"], {"bad": limit}, scales, costs=cost)
        return
    for more in ({"limits": {"bad": limit}}, {"limit": limit}):
        with pytest.raises(ProblemError, match=f"can never bind.* at most {most:g} per") as caught:
            Task(["a"], scales=scales, costs=cost, **more)
        assert "\n" not in str(caught.value)
    growing = Scales(penalty=scale, grow=["bad"])
    assert Task(["a"], {"bad": limit}, growing, costs=cost).limit_kinds == (limit,)


def test_the_message_names_what_was_meant():
    with pytest.raises(ProblemError) as caught:
        Task(["a"], {"bad": "3/pull"})
    assert str(caught.value).startswith(
        "limit 'bad' = 3 per pull: can never bind, because a penalty is at most 1 per pull;"
        " did you mean 0.03?"
    )
    for text, scale in (("300/pull", 1), ("0.05/pull", 0.03)):  # no percentage
        with pytest.raises(ProblemError, match=rf"per pull; must be below {scale}\. If a penalty"):
            Task(["a"], {"bad": text}, Scales(penalty=scale))


NEVER = 'limits = { bad = { at_most = 3, per = "pull" }, worse = 0.5 }\n[[arms]]\nname = "a"\n'


def test_what_exists_is_neither_refused_nor_warned_of():
    """A file, and all that is made of its task."""
    task = Task.from_toml(NEVER)
    assert Task.from_toml(task.to_toml()) == task == pickle.loads(pickle.dumps(task))
    assert replace(task, name="other").limits == task.limits
    assert Task(["b"], task.limits).limits == task.limits
    controller = Controller(task, LyOn(), budget=10)
    assert Controller.restore(controller.snapshot()) == controller
    laws = "cost = { bernoulli = 0.5 }\nreward = { bernoulli = 0.5 }\n"
    laws += "penalties = { bad = { bernoulli = 0.5 }, worse = { bernoulli = 0.5 } }\n"
    problem = Problem.from_toml(NEVER + laws)
    assert Problem.from_toml(problem.to_toml()) == problem == replace(problem)
    assert problem.with_limits({"worse": 0.25}).limits == (3.0, 0.25)
    assert problem.task.limits == problem.limit == task.limits
    arms = "[[arms]]\ncost.bernoulli = 0.5\nreward.bernoulli = 0.5\npenalty.bernoulli = 0.5\n"
    short = Problem.from_toml(f'limit = "3/pull"\n{arms}')
    assert short.limits == (3.0,)
    with pytest.raises(ProblemError, match="can never bind"):
        require_binding(task, ["bad"])
    require_binding(task, ["worse"])


def test_names_of_limits_may_be_words_of_a_table():
    task = Task(["a"], {"total": Limit(0.5), "share": Limit(0.25)})
    assert replace(task, name="other").limits == task.limits
    arm = bernoulli_problem([(0.5, 0.5, 0.5)], [0.5]).arms[0]
    problem = Problem([arm], limits={"total": Limit(0.5)})
    assert replace(problem, name="other").limits == (0.5,)


# A number alone.


def frame():
    return {"model": ["a"] * 60, "usd": [0.5] * 60, "score": [1.0] * 60, "bad": [0.0, 1.0] * 30}


def table():
    return FullTable(["a", "b"], ["bad"], [[(1, 0.5, 1), (1, 0.9, 0)]] * 20)


def arm():
    return bernoulli_problem([(0.5, 0.5, 0.5)], [0.5]).arms[0]


COLUMNS = {"arm": "model", "cost": "usd", "reward": "score"}
NEW = {
    "task": lambda limits: Task(["a", "b"], limits),
    "limit": lambda limits: Task(["a", "b"], limit=limits),
    "problem": lambda limits: Problem([arm()], limits=limits),
    "bernoulli": lambda limits: Problem.from_bernoulli([0.5], [0.5], [0.5], limits=limits),
    "frame": lambda limits: Problem.from_frame(frame(), **COLUMNS, limits=limits),
    "fit": lambda limits: fitting.fit(frame(), **COLUMNS, limits=limits),
    "replay": lambda limits: tightrope.replay(table(), limits, LyOn(), budget=5, orders=2),
}


@pytest.mark.parametrize("name", NEW)
@pytest.mark.parametrize("number", [0.05, "0.05", "5%"])
def test_a_named_number_alone_warns_once_at_the_caller(name, number):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        NEW[name]({"bad": number})
    told = [one for one in caught if one.category is LimitWarning]
    assert [one.filename for one in told] == [__file__]
    text = str(told[0].message)
    ways = ('Limit(0.05, per="pull")', '"5% per pull"', "0.05/pull", "Limit(0.05)")
    assert all(way in text for way in (*ways, '"0.05 per cost"', "'bad' = 0.05"))
    assert "\n" not in text


@pytest.mark.parametrize("name", NEW)
@pytest.mark.parametrize("limit", [Limit(0.05), "0.05 per cost", "5% per pull", {"at_most": 0.05}])
def test_a_limit_that_says_what_it_is_per_does_not_warn(name, limit):
    with warnings.catch_warnings():
        warnings.simplefilter("error", LimitWarning)
        NEW[name]({"bad": limit})


def test_a_limit_without_a_name_does_not_warn():
    assert Task(["a"], limit=0.8) == Task(["a"], {"penalty": 0.8})
    assert Task(["a"], limit=(0.8, 0.5)).limit_values == (0.8, 0.5)


# The shell.


def test_plan_takes_what_fit_takes(shell, monkeypatch):
    seen = []

    def plan(problem, *_, **__):
        seen.append(problem.limit_kinds)
        raise InputError("enough")

    monkeypatch.setattr(plans.tightrope, "plan", plan)
    for text, limit in (("60%", Limit(0.6)), ("60%/pull", Limit(0.6, per="pull")),
                        ("0.6 per pull", Limit(0.6, per="pull")), ("9/total", Limit(total=9.0)),
                        ("0.7", Limit(0.7))):  # fmt: skip
        for said in (text, f"penalty={text}"):
            assert shell("plan", "paper", "--budget", "9", "--limit", said)[0] == 2
            assert seen.pop() == (limit,)
    status, _, err = shell("plan", "paper", "--budget", "9", "--limit", "3/pull")
    assert (status, err.count("\n"), seen) == (2, 1, [])
    assert "limit = 3 per pull: can never bind" in err


def test_fit_warns_of_a_number_and_refuses_what_never_binds(shell, tmp_path):
    log = tmp_path / "log.csv"
    rows = zip(*frame().values(), strict=True)
    log.write_text("\n".join([",".join(frame()), *(",".join(map(str, row)) for row in rows)]))
    words = ["fit", str(log), "--arm", "model", "--cost", "usd", "--reward", "score", "--limit"]
    assert "0.05/pull" not in shell(*words, "bad=50%/pull")[2]
    status, _, err = shell(*words, "bad=0.5")
    assert (status, err.count("a plain number means per unit of cost")) == (0, 1)
    status, _, err = shell(*words, "bad=3/pull")
    assert (status, err.count("\n")) == (2, 1)
    assert "did you mean 0.03?" in err
    status, _, err = shell(*words, "bad=3/pulls")
    assert (status, err.count("\n")) == (2, 1)
    assert "'pulls' must be cost, pull, reward or total" in err


# One word for budgets.


def public_with_a_budget():
    for name in tightrope.__all__:
        function = getattr(tightrope, name)
        if name in ("Results", "TightropeError"):  # data, and an exception
            continue
        words = {"budget", "budgets"} & set(inspect.signature(function).parameters)
        if words:
            (word,) = words
            yield pytest.param(function, word, id=name)


@pytest.mark.parametrize(("function", "word"), [*public_with_a_budget()])
def test_every_public_function_takes_both_words(function, word):
    other = {"budget": "budgets", "budgets": "budget"}[word]
    with pytest.raises(
        InputError, match=f"{other} and {word} are the same parameter; must be {word}"
    ):
        function(**{word: 10, other: 10})
    needed = [one for one in inspect.signature(function).parameters if one != word][:2]
    with pytest.warns(DeprecationWarning, match=f"is called {word}") as caught, \
            pytest.raises((InputError, TypeError, AttributeError)):  # fmt: skip
        function(**dict.fromkeys(needed, object()), **{other: -1})
    assert caught[0].filename == __file__


def test_simulate_takes_budget():
    few = {"runs": 2, "backend": "python", "progress": False}
    problem = ready_problem("paper")
    expected = simulate(problem, "lyon", budgets=[5, 10], **few)
    with pytest.warns(DeprecationWarning, match=r"^simulate\(budget=\.\.\.\)"):
        assert simulate(problem, "lyon", budget=[5, 10], **few) == expected
    assert simulate(problem, "lyon", budgets=["5", "1e1"], **few) == expected
    assert simulate(problem, "lyon", budgets="10", **few).budgets == (10.0,)


def test_a_text_is_one_budget():
    assert budget_list("1000") == budget_list(1000) == [1000.0]
    assert budget_list(["1e4", 5]) == [10000.0, 5.0]
    for wrong in ("abc", "", "1,000", b"12", "nan", "-1"):
        with pytest.raises(InputError, match=r"^budget = .*: must be a positive, finite number$"):
            budget_list(wrong)


def test_another_word_is_for_keywords_alone():
    @also_called("budget", "budgets")
    def count(budgets):
        return budgets

    assert count(3) == count(budgets=3) == 3


# Files of results.


def test_results_are_saved_as_the_name_ends(tmp_path):
    import polars

    problem = bernoulli_problem([(0.5, 0.8, 0.3), (0.5, 0.4, 0.1)], [0.5])
    few = {"budgets": [5, 10], "runs": 3, "backend": "python", "progress": False}
    results = simulate(problem, ["lyon", "lyoff"], **few)
    frame = results.runs_frame("polars")
    for suffix, read in ((".csv", polars.read_csv), (".parquet", polars.read_parquet)):
        path = tmp_path / f"runs{suffix}"
        results.save(path)
        assert read(path, **({"schema": frame.schema} if suffix == ".csv" else {})).equals(frame)
        with pytest.raises(ResultsError):
            Results.load(path)
    for name in ("runs.npz", "runs"):
        results.save(tmp_path / name)
        assert Results.load(tmp_path / name) == results


@pytest.mark.parametrize("name", ["x.txt", "x.xlsx", "x.CSV", "x.json", "x.npz.gz"])
def test_another_ending_is_refused_before_the_work(name, shell, tmp_path):
    words = ["simulate", "paper", "--budget", "5", "--runs", "1", "--backend", "python"]
    status, out, err = shell(*words, "--save", str(tmp_path / name))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "must end in .npz (to load it again), .csv or .parquet" in err
    assert list(tmp_path.iterdir()) == []
    results = simulate("paper", "lyon", budgets=5, runs=1, backend="python", progress=False)
    with pytest.raises(ResultsError, match="must end in"):
        results.save(tmp_path / name)


def test_every_pair_of_limits_is_read_in_order():
    for one, two in itertools.permutations(LIMITS, 2):
        names = {"one": f"{one.number:g} {one.words}", "two": two}
        assert Task(["a"], names).limit_kinds == (one, two)


def test_scales_that_a_log_shows_bind_only_percentages():
    """Others may come, so that only a limit that was meant as a percentage is refused."""
    rows = [[(1.0, 0.5, 0.004), (1.0, 0.9, 0.002)]]
    dear = FullTable(["small", "large"], ["dollars"], rows)
    assert task_of(dear, {"dollars": Limit(0.005, per="pull")}).scales.penalties[0] <= 0.005
    assert problem_of(dear, {"dollars": Limit(0.005, per="pull")}).limit_names == ("dollars",)
    coins = FullTable(["small", "large"], ["bad"], [[(1.0, 0.5, 1.0), (1.0, 0.9, 0.0)]])
    for made in (task_of, problem_of):
        with pytest.raises(ProblemError, match=r"can never bind.*did you mean 0\.03"):
            made(coins, {"bad": Limit(3, per="pull")})
        with pytest.warns(LimitWarning, match="a plain number means per unit of cost"):
            made(coins, {"bad": 0.5})
