"""Requests with types: tasks and problems, every engine, the controller, learning from a log."""

from __future__ import annotations

import numpy as np
import pytest

from tightrope import (
    Arm,
    Bernoulli,
    Controller,
    FullTable,
    Interval,
    Limit,
    Log,
    LyOn,
    Problem,
    Resolve,
    Scales,
    Task,
    Types,
    oracle,
    replay,
    simulate,
)
from tightrope.data.tables import problem_of
from tightrope.engine.planning import plan_jobs
from tightrope.errors import InputError, ProblemError
from tightrope.policies import FixedArm, parse_policy
from tightrope.policies.base import set_up
from tightrope.policies.parts.beliefs import MORE, SIZE

TOML = """
limit = 0.8
[contexts]
weekday = 5
weekend = 2
[[arms]]
name = "bold"
weekday.cost = { bernoulli = 0.4 }
weekday.reward = { bernoulli = 0.8 }
weekday.penalty = { bernoulli = 0.6 }
weekend = { cost = { bernoulli = 0.5 }, reward = { bernoulli = 0.3 }, penalty = { bernoulli = 0.2 }}
[[arms]]
name = "careful"
cost = { bernoulli = 0.5 }
weekday = { reward = { bernoulli = 0.6 }, penalty = { bernoulli = 0.3 } }
weekend = { reward = { bernoulli = 0.5 }, penalty = { bernoulli = 0.3 } }
"""


@pytest.fixture(scope="module")
def problem():
    return Problem.from_toml(TOML)


def arms(*odds):
    return [Arm(f"arm {k}", *map(Bernoulli, three)) for k, three in enumerate(odds)]


# --- tasks and problems -----------------------------------------------------------------------


def test_a_problem_with_types_is_read_and_written(problem):
    assert list(problem.shares) == ["weekday", "weekend"]
    assert list(problem.shares.values()) == pytest.approx([5 / 7, 2 / 7])
    weekday, weekend = problem.by_type
    assert weekday.arms[1].cost == weekend.arms[1].cost == Bernoulli(0.5)
    assert weekend.arms[0].reward == Bernoulli(0.3)
    assert Problem.from_toml(problem.to_toml()) == problem
    assert problem.task.contexts == Types(["weekday", "weekend"])
    assert Task.from_toml(problem.task.to_toml()) == problem.task
    assert "types: weekday, weekend" in repr(problem)


def test_means_over_types_are_weighted_by_their_shares(problem):
    found = problem.moments
    assert found.cost[0] == pytest.approx((5 * 0.4 + 2 * 0.5) / 7)
    assert found.reward[0] == pytest.approx((5 * 0.8 + 2 * 0.3) / 7)
    assert found.penalty[1, 0] == pytest.approx(0.3)


def test_the_rows_of_a_task_are_its_arms_for_every_type():
    task = Task(
        ["a", "b"],
        {"bad": "5% per pull"},
        costs={"a": 1, "b": 2},
        expected={"b": {"reward": 0.5}},
        contexts=["x", "y", "z"],
    )
    rows = task.over_rows
    assert rows.arms == ("x/a", "x/b", "y/a", "y/b", "z/a", "z/b")
    assert rows.types == 3
    assert rows.whole is task
    assert rows.known_outcomes[:, 0].tolist() == [1.0, 2.0] * 3
    assert np.nan_to_num(rows.normal_expected[:, 1], nan=-1.0).tolist() == [-1.0, 0.5] * 3
    assert rows.over_rows is rows
    plain = Task(["a"])
    assert plain.over_rows is plain
    assert plain.types == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("weekend = 2", "weekend = 0"), "contexts: weekend = 0: must be above 0"),
        (("weekend = 2", "weekend = 'a'"), "contexts: weekend"),
        (("weekend = { cost", "wekend = { cost"), "arm 'bold': unknown key 'wekend'; must be"),
        (("weekend = 2", ""), "unknown key 'weekend'; must be name, cost, reward, penalty,"),
        (("weekend = 2", ""), " or a type in [contexts], ['weekday']"),
        (("= 0.8 }", "= 3 }"), "arm 'bold', type 'weekday', reward: bernoulli p = 3.0: must lie"),
        (("weekday = 5\nweekend = 2", ""), "contexts"),
        (("weekend = 2", "cost = 2"), "contexts: type 'cost': must not be one of name, cost, "),
    ],
)
def test_a_wrong_file_is_one_line(change, message):
    assert change[0] in TOML
    with pytest.raises(ProblemError) as told:
        Problem.from_toml(TOML.replace(*change, 1))
    assert message in str(told.value)
    assert "\n" not in str(told.value)


def test_an_arm_without_a_type_is_named():
    text = TOML.replace("weekend = { reward", "# weekend = { reward").replace(
        "cost = { bernoulli = 0.5 }\nweekday = { reward",
        "weekday = { cost = { bernoulli = 1 }, reward",
    )
    with pytest.raises(
        ProblemError, match="arm 'careful': must have a table for the type 'weekend'"
    ):
        Problem.from_toml(text)


def test_types_that_do_not_fit_are_refused():
    some = {"x": arms((1, 0.5, 0.5)), "y": arms((1, 0.5, 0.5))}
    with pytest.raises(ProblemError, match=r"types = \['x', 'y'\]: must be those of contexts"):
        Problem(some, limit=0.5, contexts={"x": 1})
    with pytest.raises(ProblemError, match="must say how often each type of the arms comes"):
        Problem(some, limit=0.5)
    other = {
        "x": arms((1, 0.5, 0.5)),
        "y": [Arm("b", Bernoulli(1), Bernoulli(0.5), Bernoulli(0.5))],
    }
    with pytest.raises(ProblemError, match=r"arms = \['b'\]: must be \['arm 0'\] for every type"):
        Problem(other, limit=0.5, contexts={"x": 1, "y": 1})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"names": "math"}, "must be a list of names"),
        ({"names": ["a", "a"]}, "'a' is there twice"),
        ({"names": ["a", ""]}, "must be a name, not empty"),
        ({"most": 0}, "most = 0: must be from 1 to 4,096"),
        ({"names": ["a", "b"], "merged": {"a": "c"}}, "merged 'a' into 'c': must be two types"),
        ({"merged": {"a": "b", "b": "c"}}, "merged 'a' into 'b': must be two types"),
        ({"merged": 3}, "merged = 3: must be names by name"),
    ],
)
def test_wrong_types_are_refused(given, message):
    with pytest.raises(ProblemError, match=message):
        Types(**given)


def test_merged_types_count_as_one():
    types = Types(["a", "b", "c"], merged={"b": "c"})
    assert [types.number(name) for name in "abc"] == [0, 2, 2]
    task = Task(["x"], contexts=types)
    assert Task.from_toml(task.to_toml()) == task
    controller = Controller(Task(["x"], contexts=Types(merged={"b": "c"})), Resolve(), budget=9)
    controller.tell(controller.ask(context="b"), cost=1.0, reward=1.0, context="b")
    assert controller.pulls_by_type == {"c": [1]}


# --- engines ----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["lyon", "resolve", "resolve:risk=0.05", "ts-lp"])
@pytest.mark.parametrize("delay", [0, 3])
def test_compiled_runs_are_those_of_plain_python(problem, policy, delay):
    made = [
        simulate(problem, policy, budgets=[25], runs=3, backend=backend, delay=delay)
        for backend in ("python", "cpu")
    ]
    plain, compiled = (one[policy].runs for one in made)
    for name in ("reward", "cost", "penalty", "pulls", "arm_cost", "queue"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(compiled, name))
    assert plain.pulls.shape[-1] == 2


def test_a_run_and_its_setup_agree_on_the_base_of_a_limit(problem):
    """The smallest cost, which the problem declares, decides on the base of a limit per pull."""
    per_pull = Problem(
        problem.typed, limits={"bad": Limit(0.3, per="pull")}, contexts=problem.shares
    )
    job = plan_jobs(per_pull, {"p": Resolve()}, [25.0], 2, seed=1, backend="cpu")["p", 25.0]
    assert job.setup.bases == job.known.net_bases == per_pull.net_bases
    assert job.setup.allowance == tuple(job.known.net_limits)
    assert Controller(per_pull, Resolve(), budget=25).task.smallest_cost == 0.4


def test_requests_come_in_the_shares_of_their_types():
    """Each type has one arm that earns; a policy that sees types finds it, another cannot."""
    kinds = {"x": arms((1, 1, 0), (1, 0, 0)), "y": arms((1, 0, 0), (1, 1, 0))}
    problem = Problem(kinds, contexts={"x": 3, "y": 1}, limit=1.0)
    policies = {"resolve": "resolve", "blind": FixedArm(arm=1)}
    found = simulate(problem, policies, budgets=2000, runs=40)
    earned = {
        name: found[name].runs.reward.sum() / found[name].runs.cost.sum() for name in policies
    }
    assert earned["resolve"] > 0.98
    assert earned["blind"] == pytest.approx(0.75, abs=0.008)


def test_equal_types_are_like_none():
    """With types that do not differ, ``resolve`` earns within 1 % of the plain problem."""
    plain = Problem.from_toml(
        "limit = 0.8\n"
        '[[arms]]\nname = "bold"\ncost = { bernoulli = 0.4 }\n'
        "reward = { bernoulli = 0.8 }\npenalty = { bernoulli = 0.6 }\n"
        '[[arms]]\nname = "careful"\ncost = { bernoulli = 0.6 }\n'
        "reward = { bernoulli = 0.6 }\npenalty = { bernoulli = 0.3 }\n"
    )
    same = Problem(dict.fromkeys("abc", plain.arms), limit=0.8, contexts={"a": 1, "b": 2, "c": 3})
    found = [
        simulate(one, "resolve", budgets=1000, runs=200)["resolve"].runs for one in (plain, same)
    ]
    means = [one.reward.mean() for one in found]
    assert means[1] == pytest.approx(means[0], rel=0.01)
    assert (found[1].penalty.mean() / found[1].cost.mean()) < 0.81


def test_permuting_types_changes_nothing_in_distribution(problem):
    turned = Problem(
        dict(reversed(problem.typed.items())),
        limits=problem.limit,
        contexts=dict(reversed(list(problem.shares.items()))),
    )
    runs = [
        simulate(one, "resolve", budgets=300, runs=400)["resolve"].runs for one in (problem, turned)
    ]
    error = np.hypot(*(one.reward.std() / 20 for one in runs))
    assert abs(runs[0].reward.mean() - runs[1].reward.mean()) < 4 * error


def test_the_limit_is_kept_with_a_risk(problem):
    runs = simulate(problem, "resolve:risk=0.01", budgets=1000, runs=500)["resolve:risk=0.01"].runs
    broken = (runs.penalty[..., 0] > 0.8 * 1000).mean()
    assert broken <= 0.02


# --- the controller ---------------------------------------------------------------------------


TASK = Task(["a", "b"], {"bad": Limit(0.5, per="pull")}, costs=1, contexts=["x", "y"])


@pytest.mark.parametrize("policy", [Resolve(), LyOn()])
def test_a_controller_takes_contexts(policy):
    controller = Controller(TASK, policy, budget=40)
    for number in range(20):
        arm = controller.ask(context="xy"[number % 2])
        controller.tell(arm, reward=float(arm), penalty=0.0)
    assert sum(controller.pulls) == 20
    assert controller.spent == 20
    assert controller.arm_name(0) == "a"


def test_a_controller_learns_each_type_by_itself():
    controller = Controller(TASK, Resolve(), budget=400)
    for number in range(300):
        context = "xy"[number % 2]
        arm = controller.ask(context=context)
        good = (arm == 0) == (context == "x")
        controller.tell(arm, reward=float(good), penalty=0.0, context=context)
    shares = controller.pulls_by_type
    assert shares["x"][0] > 130
    assert shares["y"][1] > 130
    restored = Controller.restore(controller.snapshot())
    assert restored == controller
    assert restored.pulls_by_type == shares
    assert restored.ask(context="x") == controller.copy().ask(context="x")


def test_what_a_context_must_be():
    controller = Controller(TASK, Resolve(), budget=40)
    with pytest.raises(InputError, match="context 'z' is unknown; "):
        controller.ask(context="z")
    with pytest.raises(InputError, match="context is missing; must be one of 'x', 'y'"):
        controller.ask()
    with pytest.raises(InputError, match="context = 3: must be the name of a type"):
        controller.ask(context=3)
    with pytest.raises(InputError, match="no pull of 'a' is in flight"):
        controller.tell("a", reward=1.0, penalty=0.0)


@pytest.mark.parametrize("arms", [["a", "b"], Interval(0, 1)])
def test_a_task_without_types_takes_no_context(arms):
    controller = Controller(Task(arms, limit=0.5), LyOn(), budget=40)
    message = "context = 'x': must be left out; the task has no types"
    with pytest.raises(InputError, match=message):
        controller.ask(context="x")
    assert sum(controller.in_flight) == 0
    arm = controller.ask(context=None)
    with pytest.raises(InputError, match=message):
        controller.tell(arm, cost=1, reward=1, penalty=0, context="x")
    with pytest.raises(InputError, match=message):
        controller.void(arm, context="x")
    controller.tell(arm, cost=1, reward=1, penalty=0, context=None)
    controller.void(controller.ask(), context=None)
    assert (sum(controller.pulls), sum(controller.in_flight)) == (1, 0)


def test_a_context_may_be_left_out_where_one_is_possible():
    controller = Controller(TASK, Resolve(), budget=40)
    arm = controller.ask(context="y", eligible=["b"])
    assert arm == 1
    controller.ask(context="x", eligible=["a"])
    controller.tell("b", reward=1.0, penalty=0.0)
    assert controller.pulls_by_type["y"] == [0, 1]
    controller.ask(context="y", eligible=["a"])
    with pytest.raises(
        InputError, match="context is missing; must be one of 'x', 'y', whose pulls"
    ):
        controller.tell("a", reward=1.0, penalty=0.0)
    controller.void("a", context="y")
    controller.tell("a", reward=1.0, penalty=0.0)
    assert controller.in_flight == [0, 0]


def test_types_are_added_as_they_come():
    task = Task(["a", "b"], {"bad": "50% per pull"}, costs=1, contexts=Types(most=2))
    controller = Controller(task, Resolve(), budget=40)
    for name in ("u", "v", "u", "w", "z"):
        controller.tell(controller.ask(context=name), reward=1.0, penalty=0.0, context=name)
    assert controller.type_names == ["u", "v", "(other)"]
    assert [sum(pulls) for pulls in controller.pulls_by_type.values()] == [2, 1, 2]
    restored = Controller.restore(controller.snapshot())
    assert restored.type_names == controller.type_names
    assert restored == controller


def test_a_request_without_a_context_may_have_a_type_of_its_own():
    task = Task(["a", "b"], {"bad": "50% per pull"}, costs=1, contexts=Types(["x"], missing="none"))
    controller = Controller(task, Resolve(), budget=40)
    controller.tell(controller.ask(), reward=1.0, penalty=0.0)
    assert [sum(pulls) for pulls in controller.pulls_by_type.values()] == [0, 1]
    controller.tell(controller.ask(context="x"), reward=1.0, penalty=0.0)
    assert [sum(pulls) for pulls in controller.pulls_by_type.values()] == [1, 1]
    assert controller.in_flight == [0, 0]


def test_a_retired_arm_is_pulled_for_no_type():
    controller = Controller(TASK, Resolve(), budget=100)
    controller.retire_arm("a")
    for number in range(30):
        context = "xy"[number % 2]
        assert controller.ask(context=context) == 1
        controller.tell(1, reward=0.0, penalty=0.0, context=context)
    with pytest.raises(InputError, match="is the last arm; at least one must remain"):
        controller.retire_arm("b")


def test_many_are_asked_for_with_a_context_each():
    controller = Controller(TASK, Resolve(), budget=100)
    assert len(controller.ask_many(4, contexts=["x", "y", "x", "y"])) == 4
    assert sum(controller.in_flight) == 4
    with pytest.raises(InputError, match="contexts: 1 must be 2, one for each decision"):
        controller.ask_many(2, contexts=["x"])


# --- data -------------------------------------------------------------------------------------


def table(rows=400, seed=0):
    """Arm 0 is good for type x, arm 1 for type y; both cost 1."""
    random = np.random.default_rng(seed)
    kinds = np.array(["x", "y"])[random.integers(2, size=rows)]
    good = np.column_stack([kinds == "x", kinds == "y"])
    outcomes = np.ones((rows, 2, 3))
    outcomes[:, :, 1] = random.random((rows, 2)) < np.where(good, 0.9, 0.2)
    outcomes[:, :, 2] = random.random((rows, 2)) < 0.1
    return FullTable(["a", "b"], ["bad"], outcomes, contexts=kinds.tolist())


LIMITS = {"bad": Limit(0.5, per="pull")}


def test_a_replay_sees_the_types_of_the_rows():
    rows = {
        row.policy: row
        for row in replay(table(), LIMITS, ["resolve", "ts-lp"], budget=399, orders=5)
    }
    assert rows["resolve"].reward_rate.mean > 0.8
    assert rows["ts-lp"].reward_rate.mean < 0.7


def test_a_log_with_types_is_replayed_row_by_row():
    full = table(2000)
    random = np.random.default_rng(1)
    chosen = random.integers(2, size=len(full))
    outcomes = full.outcomes[np.arange(len(full)), chosen].T.copy()
    log = Log(["a", "b"], ["bad"], chosen, outcomes, np.full(len(full), 0.5), full.contexts)
    row = replay(log, LIMITS, "resolve", budget=300, orders=3).rows[0]
    assert row.reward_rate.mean > 0.8
    assert row.rows_passed > 1.5 * row.rows_used
    with pytest.raises(InputError, match="method = 'queues': must be 'rejection'"):
        replay(log, LIMITS, "resolve", budget=300, orders=3, method="queues")


def test_a_problem_of_a_table_with_types_draws_its_rows():
    problem = problem_of(table(), LIMITS)
    assert set(problem.shares) == {"x", "y"}
    x, y = (dict(zip(problem.shares, problem.by_type, strict=True))[name] for name in "xy")
    assert x.arms[0].reward.mean > 0.8 > 0.3 > x.arms[1].reward.mean
    assert y.arms[1].reward.mean > 0.8


@pytest.mark.parametrize("policy", ["resolve", "resolve:risk=0.01", "lyon"])
def test_what_a_log_taught_is_used_from_the_first_pull_on(policy):
    past = table(300, seed=5)
    task = Task(["a", "b"], LIMITS, costs=1, contexts=["x", "y"])
    controller = Controller(task, parse_policy(policy), budget=100, learn_from=past, weight=1.0)
    assert controller.spent == 0
    assert controller.pulls == [0, 0]
    if policy != "lyon":
        asked = [controller.choose(context="x") for _ in range(20)]
        assert asked.count(0) >= 18


def test_a_plain_task_learns_from_a_log_too():
    past = FullTable(["a", "b"], ["bad"], [[(1, 0, 0), (1, 1, 0)]] * 100)
    task = Task(["a", "b"], LIMITS, costs=1)
    controller = Controller(task, Resolve(), budget=100, learn_from=past, weight=0.5)
    assert [controller.choose() for _ in range(10)].count(1) >= 9
    record = controller._state.record
    assert record.pulls.tolist() == [50.0, 50.0]
    assert record.remaining.tolist() == [100.0, 50.0]
    assert Controller.restore(controller.snapshot()) == controller


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"learn_from": 3}, "learn_from = 3: must be a Log or a FullTable"),
        ({"learn_from": {"arm": ["a"]}}, r"^learn_from = dict: must be .*; tightrope\.read_log"),
        ({"weight": 2.0}, "weight = 2.0: must be above 0, at most 1"),
        (
            {"learn_from": FullTable(["c"], ["bad"], [[(1, 1, 0)]])},
            "its arm 'c' must be one of a, b",
        ),
        ({"learn_from": FullTable(["a"], [], [[(1, 1)]])}, "has no penalty 'bad'"),
        (
            {"learn_from": FullTable(["a"], ["bad"], [[(1, 1, 0)]])},
            "^learn_from: has no contexts, which the task needs$",
        ),
        (
            {"learn_from": FullTable(["a"], ["bad"], [[(1, 1, 0)]], contexts=["UNKNOWN"])},
            "^learn_from: context 'UNKNOWN' is unknown",
        ),
        (
            {"learn_from": FullTable(["a"], ["bad"], [[(1, 1, 0)]], contexts=np.ones((1, 2)))},
            r"^learn_from: context = array\(\[1., 1.\]\): must be a name; the task has types$",
        ),
    ],
)
def test_a_log_that_does_not_fit_is_refused(given, message):
    arguments = {"learn_from": table(), "weight": 0.3} | given
    with pytest.raises(InputError, match=message):
        Controller(TASK, Resolve(), budget=10, **arguments)


def test_contexts_of_the_wrong_length_are_refused():
    with pytest.raises(InputError, match="contexts: 1 must be 2, one for each row"):
        FullTable(["a"], [], [[(1, 1)]] * 2, contexts=["x"])
    with pytest.raises(InputError, match="contexts: row 2 has ''"):
        FullTable(["a"], [], [[(1, 1)]] * 2, contexts=["x", ""])


def test_what_is_not_there_yet_is_said_in_one_line():
    safe = Task(["a", "b"], LIMITS, costs=1, contexts=["x", "y"], safe="a")
    said = set_up(Resolve(risk=0.01).for_task(safe), safe, 10.0).warning
    assert "the guard of a safe arm needs safe_rates of 'bad' that hold for every type" in said


def test_an_outlook_and_an_estimate_are_about_all_types():
    """One arm; type x is bad, y is not: half of all requests are, below the limit of 60 %."""
    task = Task(["a"], {"bad": Limit(0.6, per="pull")}, costs=1, contexts=["x", "y"])
    controller = Controller(task, Resolve(), budget=400)
    for number in range(200):
        context = "xy"[number % 2]
        controller.ask(context=context)
        controller.tell(0, reward=1.0, penalty=float(context == "x"), context=context)
    found = controller.outlook(estimate=True)
    assert found.pulls == found.spent == 200
    assert found.limits[0].estimate < 0.05
    low, middle, high = found.limits[0].expected
    assert 0.4 < low < middle < high < 0.6
    assert middle == pytest.approx(0.5, abs=0.03)


def test_a_context_that_is_no_name_is_refused_in_one_line():
    controller = Controller(TASK, Resolve(), 10)
    for wrong in (["x"], {"x": 1}, 3):
        with pytest.raises(InputError, match="must be the name of a type"):
            controller.ask(context=wrong)
        with pytest.raises(InputError, match="must be the name of a type"):
            controller.tell(0, reward=1, penalty={"bad": 0}, context=wrong)


def test_every_type_learns_at_once_from_the_first_reports_of_an_arm():
    """Rows that nobody asked for lean on their arm's mean, with a variance above 0."""
    kinds = [f"type {x}" for x in range(9)]
    task = Task(["a", "b"], limits={"bad": Limit(0.5, per="pull")}, costs=1, contexts=kinds)
    controller = Controller(task, Resolve(risk=0.01), budget=1000)
    for reward in (0.9, 0.96, 0.93):
        controller.ask(context="type 0")
        controller.tell("b", reward=reward, penalty=0, context="type 0")
    controller._remember()
    arms = controller._state.scratch.arms
    scale = np.asarray(arms.reward_scale).reshape(9, 2)
    believed = np.where(scale > 0, scale, 1 + scale)
    assert (believed[1:, 1] == believed[1, 1]).all()
    assert (believed[1:, 1] > 0.7).all()
    assert np.allclose(believed[:, 0], 0.93)  # a new arm earns the average
    width = np.abs(np.asarray(arms.reward_width)).reshape(9, 2)
    assert (width[:, 0] > width[:, 1]).all()  # and less is known of it
    assert (width > 0.0).all()


def test_the_usual_penalty_is_that_of_the_type():
    """Dear answers of one type: a large penalty is expected there, not of the arm's other types."""
    task = Task(["a", "b"], limit=0.5, costs=1, contexts=Types(["x", "y"]))
    controller = Controller(task, Resolve(risk=0.01), budget=1000)
    for turn in range(40):
        for kind, size in (("x", 0.02), ("y", 0.2)):
            controller.tell(0, reward=0.5, penalty=size * (1 + turn % 3), context=kind)
    sizes = controller._state.scratch.arms.more.reshape(4, MORE)[:, SIZE]
    assert sizes[0] < 0.1
    assert sizes[2] == pytest.approx(0.2 * 14 / 6, rel=0.1)


def test_nothing_dear_is_hoped_for_once_an_allowance_is_used_up():
    task = Task(["cheap", "dear"], limit=0.1, costs=1, contexts=Types(["x", "y"]))
    controller = Controller(task, Resolve(risk=0.01), budget=100)
    for _ in range(40):
        controller.tell(0, reward=0.5, penalty=0.2, context="x")
    controller.tell(1, reward=0.5, penalty=1.0, context="y")
    controller.tell(0, reward=0.5, penalty=1.0, context="y")
    assert controller._state.record.remaining[1] < 10.0 - 9.9
    for _ in range(20):
        assert controller.ask(context="x") == 0
        controller.tell(0, reward=0.5, penalty=0.2, context="x")


def test_an_arm_without_rewards_makes_up_for_nothing():
    """Under a limit per reward it has no penalties per reward either, and is not the safest."""
    problem = Problem(
        {
            "day": arms((1.0, 0.02, 0.0), (1.0, 0.5, 0.1), (1.0, 0.8, 0.4)),
            "night": arms((1.0, 0.02, 0.0), (1.0, 0.3, 0.12), (1.0, 0.6, 0.2)),
        },
        contexts={"day": 1, "night": 1},
        limits={"bad": Limit(0.3, per="reward")},
    )
    made = simulate(problem, Resolve(), budgets=2000, runs=10, seed=5, progress=False)
    row = made.summary()[0]
    assert row["reward_rate"] > 0.7 * oracle(problem).reward_rate


def test_small_penalties_are_believed_by_their_own_size():
    """A dear arm says nothing about the penalties of a cheap one that has been seen."""
    task = Task(["cheap", "dear"], limit=0.01, costs=1, contexts=Types(["x", "y"]))
    controller = Controller(task, Resolve(risk=0.01), budget=1000)
    for arm, penalty in [(1, 0.2)] + [(0, 0.0002)] * 10:
        controller.tell(arm, reward=0.5, penalty=penalty, context="x")
    cheap = controller._state.scratch.arms.more[MORE * np.array([0, 2]) + SIZE]  # of x and of y
    assert (cheap < 0.001).all()


def test_an_allowance_keeps_a_cushion_where_saving_is_dear():
    """A dear arm that earns little more is not pulled when its price leaves the usual one short."""
    rewards = {"poor": 0.1, "usual": 0.9, "dear": 0.91}
    task = Task(list(rewards), limit=0.055, costs=1, contexts=Types(["x"]))
    random, pulled = np.random.default_rng(3), 0
    for seed in range(10):
        controller = Controller(task, Resolve(risk=0.01), budget=400, seed=seed)
        for _ in range(400):
            arm = controller.ask(context="x")
            penalty = (0.0, random.choice([0.0, 0.1]), 0.3)[arm]
            controller.tell(arm, reward=list(rewards.values())[arm], penalty=penalty, context="x")
            pulled += arm == 0 and controller.spent > 200
    assert pulled <= 10


def test_a_whole_report_above_its_scale_names_the_value():
    task = Task(["a", "b"], {"bad": Limit(0.5, per="pull")}, Scales(), contexts=["x", "y", "z"])
    controller = Controller(task, Resolve(), 100)
    arm = controller.ask(context="z")
    with pytest.raises(InputError, match=r"bad = 1.5: must be a number in \[0, 1\]"):
        controller.tell_row(arm, np.array([0.5, 0.5, 1.5]), context="z")
