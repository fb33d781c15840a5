"""What is known (Task), how it follows from a problem, and names of limits everywhere."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.test_problem import limit_names, problems
from tightrope import Controller, Limit, LyOn
from tightrope.errors import ProblemError
from tightrope.problem import Arm, Change, Problem, Scales, Task
from tightrope.problem.cells import DRAW_STEPS, Cells
from tightrope.problem.distributions import Bernoulli, Beta, Constant, Discrete, TwoPoint, Uniform
from tightrope.problem.mixtures import conflict
from tightrope.problem.named import Named
from tightrope.problem.outcomes import LEAST_MEAN
from tightrope.problem.ready import load_problem, load_task, ready_problem

COIN = Bernoulli(0.5)
ROUTER = """\
limits = { bad = 0.05, dollars = 0.004 }
scales = { cost = 2.0, reward = 1.0, penalty = { bad = 1.0, dollars = 0.05 } }
smallest_cost = 0.5
slack = 0.25

[[arms]]
name = "haiku"

[[arms]]
name = "opus"
"""


def router(**changed: object) -> Task:
    facts: dict[str, object] = {
        "arms": ["haiku", "opus"],
        "limits": {"bad": Limit(0.05), "dollars": Limit(0.004)},
        "scales": Scales(cost=2, penalty={"dollars": 0.05}),
        "smallest_cost": 0.5,
        "slack": 0.25,
    }
    return Task(**(facts | changed))  # type: ignore[arg-type]


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    scale, limit = st.floats(0.5, 1e3), st.floats(1e-3, 1e3)
    limits = draw(st.dictionaries(limit_names, limit, max_size=3))
    scales = draw(
        st.just(Scales())
        | st.builds(Scales, scale, scale, st.tuples(*[scale] * len(limits)))
        | st.builds(
            Scales, scale, scale, st.fixed_dictionaries({}, optional=dict.fromkeys(limits, scale))
        )
    )
    return Task(
        draw(st.lists(st.text(min_size=1), min_size=1, max_size=4, unique=True)),
        Named(limits),  # as a file has them: some can never bind
        scales,
        draw(st.text()),
        draw(st.none() | st.floats(1e-9 * scales.cost, scales.cost)),
        draw(st.none() | st.floats(-9, 1)),
    )


@st.composite
def declared(draw: st.DrawFn) -> Task:
    """A task that declares a safe arm and what is expected."""
    task = draw(tasks())
    rates = {name: st.floats(0, limit) for name, limit in task.limits.items()}  # type: ignore[union-attr]
    scales = dict(zip(task.channels, task.scales.channels, strict=True))
    means = {name: st.floats(1e-9 * scale, scale) for name, scale in scales.items()}
    guesses = st.fixed_dictionaries({}, optional=means)
    return replace(
        task,
        safe=draw(st.sampled_from(task.arms) | st.integers(0, task.arm_count - 1)),
        safe_rates=draw(st.fixed_dictionaries({}, optional=rates)),
        expected=draw(st.dictionaries(st.sampled_from(task.arms), guesses)),
    )


# --- a task of its own --------------------------------------------------------------------


def test_a_task_says_what_is_known() -> None:
    task = router()
    assert (task.arm_count, task.penalty_count) == (2, 2)
    assert task.names == task.arms == ("haiku", "opus")
    assert task.limit_names == ("bad", "dollars")
    assert task.limit_values == (0.05, 0.004)
    assert task.limits == {"bad": 0.05, "dollars": 0.004}
    assert task.channels == ("cost", "reward", "bad", "dollars")
    assert task.scales == Scales(2.0, 1.0, (1.0, 0.05))
    np.testing.assert_array_equal(task.normal_limits, [0.05 * 2.0, 0.004 * 2.0 / 0.05])
    assert task.normal_smallest_cost == 0.25
    assert task.task is task
    assert task.title == "the task"
    assert replace(task, name="router").title == "task 'router'"


def test_the_short_form_names_the_limits() -> None:
    assert Task(["a"], limit=0.8) == Task(["a"], {"penalty": 0.8})
    assert Task(["a"], limit=(1, 2)).limits == {"penalty 1": 1.0, "penalty 2": 2.0}
    assert Task(["a"]).limit_names == ()
    assert Task(["a"]).normal_limits.shape == (0,)
    assert Task(["a"]).normal_smallest_cost is None


def test_the_order_of_limits_counts() -> None:
    assert router() != router(limits={"dollars": Limit(0.004), "bad": Limit(0.05)})
    assert router().scales != router(limits={"dollars": Limit(0.004), "bad": Limit(0.05)}).scales


@given(tasks() | declared())
def test_tasks_are_values(task: Task) -> None:
    for again in (
        Task.from_toml(task.to_toml()),
        pickle.loads(pickle.dumps(task)),
        copy.deepcopy(task),
        replace(task),
    ):
        assert again == task
        assert hash(again) == hash(task)
        assert again.to_toml() == task.to_toml()


def test_the_toml_of_a_task() -> None:
    assert router().to_toml() == ROUTER
    longer = """
        smallest_cost = 0.5
        slack = 0.25
        [limits]
        bad = { at_most = 0.05, per = "cost" }
        dollars = { at_most = 0.004 }
        [scales]
        cost = 2
        penalty.dollars = 0.05
        [[arms]]
        name = "haiku"
        [[arms]]
        name = "opus"
    """
    assert Task.from_toml(longer) == router()
    assert "limit = 0.8" in Task(["a"], limit=0.8).to_toml()


def test_a_task_declares_a_safe_arm_and_what_is_expected() -> None:
    task = router(
        safe="opus",
        safe_rates={"dollars": 0.002},
        expected={"opus": {"dollars": 0.015, "cost": 1}, "haiku": {}},
    )
    assert (task.safe, task.safe_arm) == ("opus", 1)
    assert task == replace(task, safe=1)
    assert task != replace(task, safe=0)
    assert task != replace(task, safe_rates={})
    assert task != replace(task, expected={})
    np.testing.assert_array_equal(task.normal_safe_rates, [0.05 * 2.0, 0.002 * 2.0 / 0.05])
    nothing = [np.nan] * 4
    np.testing.assert_array_equal(
        task.normal_expected, [nothing, [0.5, np.nan, np.nan, 0.015 / 0.05]]
    )
    assert task.expected == {"opus": {"cost": 1.0, "dollars": 0.015}}
    assert 'safe = "opus"\nsafe_rates = { dollars = 0.002 }\n' in task.to_toml()
    sections = ROUTER + "\n[expected.opus]\ncost = 1\ndollars = 0.015\n"
    assert Task.from_toml('safe = "opus"\nsafe_rates.dollars = 0.002\n' + sections) == task


def test_nothing_is_declared_by_default() -> None:
    task = router()
    assert (task.safe, task.safe_arm, task.safe_rates, task.expected) == (None, None, {}, {})
    assert np.isnan(task.normal_expected).all()
    assert task.normal_expected.shape == (2, 4)
    np.testing.assert_array_equal(task.normal_safe_rates, task.normal_limits)


BAD_TASKS: list[tuple[Callable[[], object], str]] = [
    (lambda: Task([]), "arms = []: must hold at least one arm"),
    (lambda: Task("ab"), "arms = 'ab': must be a list of names"),
    (lambda: Task(3), "arms = 3: must be a list of names"),  # type: ignore[arg-type]
    (lambda: Task(["a", ""]), "arm name '': must be a non-empty string"),
    (lambda: Task(["a", ["b"]]), "arm name ['b']: must be a non-empty string"),  # type: ignore[list-item]
    (
        lambda: Task(["a", "b", "a"]),
        "arm 3: name 'a' is already the name of arm 1; names must differ",
    ),
    (lambda: router(limits={"bad": Limit(0)}), "limit 'bad' = 0.0: must be positive"),
    (
        lambda: router(limits={"bad": "one"}),
        "limit 'bad': 'one' must be a number or a percentage, such as 0.05/pull, 5% per pull or 30"
        " in total",
    ),
    (lambda: router(limits={"": Limit(1)}), "limit name '': must be a non-empty string"),
    (lambda: router(limits={3: Limit(1)}), "limit name 3: must be a non-empty string"),
    (
        lambda: router(limits={"cost": Limit(1)}),
        "limit name 'cost': must differ from the names of the other channels",
    ),
    (lambda: router(limits=[1, 2]), "limits = [1, 2]: must be numbers by name, or use limit"),
    (
        lambda: Task(["a"], {"bad": 1}, limit=2),
        "limit = 2: must not be given beside limits = {'bad': 1}",
    ),
    (
        lambda: router(scales=Scales(penalty={"dolars": 1})),
        "scales: unknown penalty 'dolars'; did you mean 'dollars'?",
    ),
    (
        lambda: Task(["a"], scales=Scales(penalty={"bad": 1})),
        "scales: unknown penalty 'bad'; there are no limits",
    ),
    (lambda: Scales(penalty={"bad": 0}), "scale of bad = 0.0: must be positive"),
    (lambda: Scales(penalty={"bad": "x"}), "scale of bad = 'x': must be a finite number"),
    (
        lambda: router(smallest_cost=0),
        "smallest_cost = 0.0: must lie above 0, at most 2.0, the scale of cost",
    ),
    (
        lambda: router(smallest_cost=2.5),
        "smallest_cost = 2.5: must lie above 0, at most 2.0, the scale of cost",
    ),
    (lambda: router(smallest_cost="1"), "smallest_cost = '1': must be a finite number"),
    (lambda: router(slack=1.5), "slack = 1.5: must be a share of the limits, at most 1"),
    (lambda: router(slack=float("nan")), "slack = nan: must be a finite number"),
    (lambda: router(name=3), "name = 3: must be a string"),
    (lambda: router(safe="opsu"), "safe = 'opsu': is not an arm; did you mean 'opus'?"),
    (lambda: router(safe=2), "safe = 2: must be the name of an arm, or a number from 0 to 1"),
    (lambda: router(safe=True), "safe = True: must be the name of an arm, or a number from 0 to 1"),
    (
        lambda: router(safe_rates={"bad": 0.01}),
        "safe_rates = {'bad': 0.01}: must come with safe, the arm that they are about",
    ),
    (
        lambda: router(safe=0, safe_rates=0.01),
        "safe_rates = 0.01: must be rates by limit, such as {'bad': 0.01}",
    ),
    (
        lambda: router(safe=0, safe_rates={"bed": 0.01}),
        "safe_rates: unknown limit 'bed'; did you mean 'bad'?",
    ),
    (
        lambda: router(safe=0, safe_rates={"bad": 0.06}),
        "safe_rates: rate of 'bad' = 0.06: must lie between 0 and 0.05, the limit",
    ),
    (
        lambda: router(expected=[1]),
        "expected = [1]: must be mean outcomes by arm, such as {'opus': {'cost': 1}}",
    ),
    (
        lambda: router(expected={"opsu": {"cost": 1}}),
        "expected: 'opsu' is not an arm; did you mean 'opus'?",
    ),
    (
        lambda: router(expected={"opus": 1}),
        "expected of arm 'opus': 1 must be numbers by channel, among cost, reward, bad, dollars",
    ),
    (
        lambda: router(expected={"opus": {"dolars": 1}}),
        "expected of arm 'opus': unknown channel 'dolars'; did you mean 'dollars'?",
    ),
    (
        lambda: router(expected={"opus": {"dollars": 1}}),
        "expected of arm 'opus': dollars = 1.0: must lie between 0 and 0.05, its scale",
    ),
    (
        lambda: router(expected={"opus": {"cost": 0}}),
        "expected of arm 'opus': cost = 0.0: must lie above 0, at most 2.0, its scale",
    ),
    (lambda: router(scales=3), "scales = 3: must be a Scales, or 'grow'"),
    (
        lambda: Task.from_toml(ROUTER.replace("0.05", '{ at_most = 1, per = "click" }', 1)),
        "limit 'bad': per = 'click': must be 'cost' or 'pull' or 'reward'",
    ),
    (
        lambda: Task.from_toml(ROUTER.replace("0.05", "{ most = 1 }", 1)),
        "limit 'bad': unknown key 'most'; did you mean 'at_most'?",
    ),
    (
        lambda: Task.from_toml(ROUTER.replace("0.05", "{ per = 'cost' }", 1)),
        "limit 'bad': {'per': 'cost'}: must have at_most or total",
    ),
    (
        lambda: Task.from_toml("limits = 0.8\n[[arms]]\nname = 'a'"),
        "limits = 0.8: must be a table of limits by name, such as { bad = 0.05 }",
    ),
    (
        lambda: Task.from_toml(ROUTER + "cost = { bernoulli = 0.4 }"),
        "arm 2: unknown key 'cost'; known: name",
    ),
    (
        lambda: Task.from_toml("arms = 3"),
        "arms = 3: must be [[arms]] tables, or a list of names",
    ),
    (
        lambda: Task.from_toml('arms = ["a", { name = "b" }]'),
        "arm 1: 'a': must be a table with keys among name",
    ),
    (
        lambda: Task.from_toml("router.toml"),
        "not TOML: Expected '=' after a key in a key/value pair (at end of document); load_problem"
        " and load_task read a file",
    ),
    (
        lambda: Task(["a"], limit=0.5, contexts={"types": "math"}),
        "types = 'math': must be a list of names",
    ),
    (lambda: Task.from_toml("slak = 3"), "unknown key 'slak'; did you mean 'slack'?"),
]


@pytest.mark.parametrize(("make", "message"), BAD_TASKS, ids=[message for _, message in BAD_TASKS])
def test_bad_tasks_are_named_in_one_line(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ProblemError) as caught:
        make()
    assert str(caught.value) == message


def test_arms_of_a_file_may_be_names_alone(tmp_path) -> None:
    path = tmp_path / "task.toml"
    path.write_text('arms = ["a", "b"]\nlimit = 0.5\n')
    assert load_task(path) == Task(["a", "b"], limit=0.5)
    with pytest.raises(ProblemError, match="arms have only names, so this is a task"):
        load_problem(path)


# --- the task of a problem ----------------------------------------------------------------


@given(problems())
def test_the_task_of_a_problem_has_its_parts_and_facts(problem: Problem) -> None:
    task, moments = problem.task, problem.moments
    assert task.task is task
    assert task.names == problem.names
    assert task.limit_values == problem.limits
    assert task.limit_names == problem.limit_names
    assert task.channels == problem.channels
    assert task.scales == problem.scales
    assert task.normal_smallest_cost == moments.smallest_cost
    np.testing.assert_array_equal(task.normal_limits, moments.limits)
    if problem.penalty_count:
        assert task.slack == 1.0 - conflict(moments.penalty_rate, moments.limits).excess
    else:
        assert task.slack is None


@given(problems())
def test_a_problem_carries_what_is_declared(problem: Problem) -> None:
    last, limits = problem.arm_count - 1, problem.limit_names
    expected = {problem.names[0]: {"reward": 0.5 * problem.scales.reward}}
    rates = {name: 0.5 * limit for name, limit in zip(limits, problem.limits, strict=True)}
    known = replace(problem, safe=last, safe_rates=rates, expected=expected)
    assert known != problem
    assert known.task.safe_arm == last
    assert known.task.safe_rates == known.safe_rates == rates
    assert known.task.expected == known.expected == expected
    assert all(phase.problem.safe == known.safe for phase in known.phases)
    again = Problem.from_toml(known.to_toml())
    assert again == known
    assert hash(again) == hash(known)
    assert pickle.loads(pickle.dumps(known)) == known


def test_the_task_of_a_problem_is_a_plain_value_without_laws(mixed: Problem) -> None:
    plain = Task(
        mixed.names,
        Named(dict(zip(mixed.limit_names, mixed.limits, strict=True))),
        mixed.scales,
        mixed.name,
        mixed.task.smallest_cost,
        mixed.task.slack,
    )
    assert mixed.task == plain
    assert repr(mixed.task) == repr(plain)
    for again in (
        pickle.loads(pickle.dumps(mixed.task)),
        copy.copy(mixed.task),
        copy.deepcopy(mixed.task),
        Task.from_toml(mixed.task.to_toml()),
        replace(mixed.task),
    ):
        assert type(again) is Task
        assert vars(again).keys() <= vars(plain).keys()
        assert again == mixed.task
    assert replace(mixed.task, slack=None).slack is None


def test_the_slack_is_that_of_the_most_careful_mixture(paper: Problem) -> None:
    assert paper.task.slack == pytest.approx(1 - 0.5 / 0.8)
    assert paper.task.smallest_cost == 0.4
    broken = Problem([Arm("a", COIN, COIN, COIN)], limit=0.8)
    assert broken.task.slack == pytest.approx(1 - 1 / 0.8)


def test_a_problem_travels_without_working_out_its_task(mixed: Problem) -> None:
    assert "task" not in vars(pickle.loads(pickle.dumps(replace(mixed))))
    mixed.task  # noqa: B018 - so that it could travel along
    again = pickle.loads(pickle.dumps(mixed))
    assert again.task == mixed.task
    assert replace(mixed, name="other").task.limits == mixed.task.limits


def test_a_million_arms_have_a_task_at_once() -> None:
    odds = np.linspace(0.1, 0.9, 1_000_000)
    problem = Problem.from_bernoulli(odds, odds, odds, limits={"bad": Limit(0.5)})
    task = problem.task
    assert task.arm_count == 1_000_000
    assert task.names[-1] == "arm 1000000"
    assert list(task.names[:2]) == ["arm 1", "arm 2"]
    assert task.smallest_cost == 0.1
    assert len(pickle.dumps(task)) < 1000
    assert Problem.from_bernoulli(odds[:3], odds[:3]).task == Task(
        ["arm 1", "arm 2", "arm 3"], smallest_cost=odds[0]
    )


# --- names of limits ----------------------------------------------------------------------


def shop(**changed: object) -> Problem:
    arm = Arm("x", COIN, COIN, {"dollars": Uniform(0, 2), "bad": Bernoulli(0.1)})
    facts: dict[str, object] = {
        "arms": [arm, Arm("y", COIN, COIN, [COIN, Constant(1)])],
        "limits": {"bad": Limit(0.3), "dollars": Limit(1.5)},
        "scales": Scales(penalty={"dollars": 2}),
    }
    return Problem(**(facts | changed))  # type: ignore[arg-type]


SHOP = """\
limits = { bad = 0.3, dollars = 1.5 }
scales = { cost = 1.0, reward = 1.0, penalty = { bad = 1.0, dollars = 2.0 } }

[[arms]]
name = "x"
cost = { bernoulli = 0.5 }
reward = { bernoulli = 0.5 }
penalties.bad = { bernoulli = 0.1 }
penalties.dollars = { uniform = { low = 0.0, high = 2.0 } }

[[arms]]
name = "y"
cost = { bernoulli = 0.5 }
reward = { bernoulli = 0.5 }
penalties.bad = { bernoulli = 0.5 }
penalties.dollars = { constant = 1.0 }
"""


def test_penalties_by_name_are_put_in_order() -> None:
    problem = shop()
    assert problem.limits == (0.3, 1.5)
    assert problem.limit_names == ("bad", "dollars")
    assert problem.arms[0].penalties == (Bernoulli(0.1), Uniform(0, 2))
    assert problem.scales.penalties == (1.0, 2.0)
    assert problem.to_toml() == SHOP
    assert Problem.from_toml(SHOP) == problem
    after = Change(0.5, [Arm("x", COIN, COIN, {"dollars": COIN, "bad": COIN}), problem.arms[1]])
    assert shop(changes=[after]).changes[0].arms[0].penalties == (COIN, COIN)


def test_penalties_and_rows_in_the_order_of_named_limits() -> None:
    text = """
        [limits]
        bad = 0.3
        dollars = 1.5
        [scales]
        penalty.dollars = 2
        [[arms]]
        name = "x"
        cost = { bernoulli = 0.5 }
        reward = { bernoulli = 0.5 }
        penalty = [{ bernoulli = 0.1 }, { uniform = [0, 2] }]
        [[arms]]
        name = "y"
        rows = [[1, 1, 0, 2], [1, 0, 1, 0]]
    """
    problem = Problem.from_toml(text)
    seen = Arm.from_rows("y", [[1, 1, 0, 2], [1, 0, 1, 0]])
    assert problem == shop(arms=[shop().arms[0], seen])
    other = Arm.from_rows("y", [[1, 1, 2, 0], [1, 0, 0, 1]], penalties=["dollars", "bad"])
    assert problem == shop(arms=[shop().arms[0], other])


def test_the_same_numbers_with_other_names_are_another_problem() -> None:
    assert shop() != shop(
        limits={"bad": Limit(0.3), "euros": Limit(1.5)},
        arms=[Arm("x", COIN, COIN, [COIN, COIN])],
        scales=Scales(penalty=(1, 2)),
    )
    arm = Arm("a", COIN, COIN, COIN)
    assert Problem([arm], limits={"penalty": 0.8}) == Problem([arm], 0.8)


X = Arm("x", COIN, COIN, {"bad": COIN, "dollars": COIN})
BAD_NAMES: list[tuple[Callable[[], object], str]] = [
    (
        lambda: shop(arms=[Arm("x", COIN, COIN, {"bda": COIN, "dollars": COIN})]),
        "arm 'x': unknown penalty 'bda'; did you mean 'bad'?",
    ),
    (
        lambda: shop(arms=[Arm("x", COIN, COIN, {"dollars": COIN})]),
        "arm 'x': penalty 'bad' is missing; must have bad, dollars",
    ),
    (
        lambda: shop(arms=[Arm("x", COIN, COIN, COIN)]),
        "arm 'x': penalties = 1, limits = 2; must be equal",
    ),
    (
        lambda: shop(arms=[Arm("x", COIN, COIN, {"bad": Constant(3), "dollars": COIN})]),
        "arm 'x', bad: outcome 3.0 must lie in [0, 1.0]; declare a scale of bad of at least 3.0",
    ),
    (
        lambda: Arm("x", COIN, COIN, {"bad": 3}),  # type: ignore[dict-item]
        "arm 'x', bad: 3 must be a distribution, such as Bernoulli(0.4)",
    ),
    (
        lambda: shop(arms=[X], changes=[Change(0.5, [Arm("x", COIN, COIN, {"bad": COIN})])]),
        "change 1 (at 0.5), arm 'x': penalty 'dollars' is missing; must have bad, dollars",
    ),
    (
        lambda: Arm.from_rows("x", [[1, 1, 0]], penalties=["bad", "dollars"]),
        "arm 'x', rows: columns = 3, must be cost, reward, bad, dollars",
    ),
    (
        lambda: Problem.from_toml(SHOP.replace("penalties.dollars = { constant", "penalty = { c")),
        "arm 'y': has cost, reward, penalties, penalty; must have cost, reward and a penalty for"
        " each limit, or rows alone",
    ),
    (
        lambda: Problem.from_toml(SHOP.replace("{ constant = 1.0 }", "3")),
        "arm 'y', dollars: 3: must be a table of one distribution, such as { bernoulli = 0.4 }",
    ),
    (
        lambda: Problem.from_toml("slack = 0.1\n" + SHOP),
        "slack = 0.1: must be left out; only a task declares it, for a problem it follows from "
        "the distributions",
    ),
    (
        lambda: Problem.from_bernoulli([0.5], [0.5], [1.5], limits={"bad": Limit(1)}),
        "arm 1, bad: bernoulli p = 1.5: must lie in [0, 1]",
    ),
]


@pytest.mark.parametrize(("make", "message"), BAD_NAMES, ids=[message for _, message in BAD_NAMES])
def test_bad_names_are_named_in_one_line(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ProblemError) as caught:
        make()
    assert str(caught.value) == message


# --- files --------------------------------------------------------------------------------


def test_a_task_is_loaded_from_a_name_a_task_file_or_a_problem_file(tmp_path: Path) -> None:
    task, problem = tmp_path / "task.toml", tmp_path / "problem.toml"
    task.write_text(ROUTER)
    problem.write_text(SHOP)
    assert load_task(task) == load_task(str(task)) == router()
    assert load_task(problem) == shop().task
    assert load_task("paper") == ready_problem("paper").task
    assert load_task("paper-arms-4").arm_count == 4
    with pytest.raises(ProblemError, match=r"did you mean 'paper'\?$"):
        load_task("papr")


def test_simulating_a_task_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(ROUTER)
    with pytest.raises(ProblemError) as caught:
        load_problem(path)
    assert str(caught.value) == (
        f"{path}: arms have only names, so this is a task; simulating needs the cost, reward "
        "and penalty distributions of every arm"
    )


# --- costs that are never drawn -----------------------------------------------------------


def drawn_mean(cells: Cells) -> float:
    """The mean of a table over every uniform that the engine can draw, a multiple of 2^-31."""
    edges = np.arange(len(cells)) / len(cells) * DRAW_STEPS
    ends = (np.arange(len(cells)) + cells.split) / len(cells) * DRAW_STEPS
    starts = np.ceil(np.append(edges, DRAW_STEPS))
    first = np.ceil(ends) - starts[:-1]
    second = starts[1:] - np.ceil(ends)
    return float((first * cells.first + second * cells.second).sum() / DRAW_STEPS)


@pytest.mark.parametrize(
    "law",
    [
        Bernoulli(1e-10),
        Bernoulli(1e-9),
        TwoPoint(0, 1, p=1e-12),
        TwoPoint(0, 0.5, p=1e-9),
        Discrete((0, 1), (1, 1e-11)),
        Beta(1e-300, 0.5),
        Constant(1e-300),
        Uniform(0, 1e-12),
    ],
    ids=repr,
)
def test_costs_that_are_as_good_as_never_are_refused(law: Bernoulli) -> None:
    with pytest.raises(ProblemError) as caught:
        Problem([Arm("a", law, COIN)])
    assert str(caught.value) == (
        f"arm 'a', cost: mean {law.mean!r} must be at least 4.66e-09 for costs of up to 1"
        " (the scale of cost), or pulls would never spend the budget"
    )
    with pytest.raises(ProblemError, match=r"^change 1 \(at 0.5\), arm 'a', cost: "):
        Problem([Arm("a", COIN, COIN)], changes=[Change(0.5, [Arm("a", law, COIN)])])


def test_many_values_must_be_drawn_more_often() -> None:
    law = Discrete(np.arange(2000) / 2000, (1, *[5e-12] * 1999))
    assert law.mean > LEAST_MEAN
    assert abs(drawn_mean(law.cells()) / law.mean - 1) > 0.4
    with pytest.raises(ProblemError, match=r"mean 4.9\S*e-09 must be at least 9.31e-06 for"):
        Problem([Arm("a", law, COIN)])


def test_many_coins_that_are_as_good_as_never_are_refused() -> None:
    with pytest.raises(ProblemError) as caught:
        Problem.from_bernoulli([0.5, 1e-10], [0.5, 0.5])
    assert str(caught.value) == (
        "arm 2, cost: bernoulli p = 1e-10: must be at least 4.66e-09, at most 1"
    )


def test_the_least_cost_is_relative_to_the_scale() -> None:
    cents = Arm("a", Uniform(0, 1e-12), COIN)
    assert Problem([cents], scales=Scales(cost=1e-12)).task.smallest_cost == 5e-13
    with pytest.raises(ProblemError, match=r"must be at least 2.33e-07 for costs of up to 50"):
        Problem([Arm("a", Bernoulli(1e-7), COIN)], scales=Scales(cost=50))


@given(st.floats(9 * LEAST_MEAN, 1e-3), st.floats(0, 1), st.integers(1, 6))
def test_what_is_allowed_is_drawn_as_often_as_it_should_be(
    mean: float, share: float, zeros: int
) -> None:
    for law, tolerance in (
        (Bernoulli(mean), 0.051),
        (TwoPoint(0, 0.7, p=mean), 0.051),
        (
            Discrete(
                (*np.arange(zeros) * 1e-20, 0.4, 1.0),
                (*[1 / zeros] * zeros, mean * share, mean),
            ),
            0.11,
        ),
        (Beta(mean, 1 - mean), 1e-6),
    ):
        assert law.mean >= law.least_mean()
        assert drawn_mean(law.cells()) == pytest.approx(law.mean, rel=tolerance)


def test_a_limit_on_a_known_cost_has_the_scale_of_the_cost():
    task = Task(
        ["a", "b"], {"spend": Limit(0.9, of="cost", per="pull")}, costs={"a": 0.3, "b": 100}
    )
    assert task.scales.cost == task.scales.penalties[0] == 100.0
    controller = Controller(task, LyOn(), 1000)
    controller.tell("b", reward=0.5)
    assert controller.spent == 100.0
