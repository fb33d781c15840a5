"""Replay: against plain loops, closed forms, simulation, and the truth behind logs."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from tests.data.test_offpolicy import CHANCES, MEANS, drawn
from tightrope import Controller, Limit, LyOff, LyOn, Policy, Scales, Share, Task, simulate
from tightrope.data.log import Log
from tightrope.data.offpolicy import equally_likely
from tightrope.data.replays import replay
from tightrope.data.tables import FullTable, problem_of, task_of
from tightrope.engine.python import plain_run
from tightrope.errors import InputError, PolicyError
from tightrope.policies.base import InformedPolicy, Setup, set_up


@dataclass(frozen=True)
class Turns(Policy):
    """Arms in turn, as written: plain Python, nothing to compile."""

    arms: str = "01"

    name: ClassVar[str] = "turns"
    summary: ClassVar[str] = "arms in turn"

    def setup(self, task, budget):
        return Setup((), tuple(0.0 for _ in range(task.penalty_count)))

    def decide(self, setup, step, statistics, queues, uniform):
        return int(self.arms[int(step) % len(self.arms)])


@dataclass(frozen=True)
class Coin(Turns):
    """Any of the arms, by chance."""

    name: ClassVar[str] = "coin"
    random: ClassVar[bool] = True

    def decide(self, setup, step, statistics, queues, uniform):
        return int(self.arms[int(uniform * len(self.arms))])


@dataclass(frozen=True)
class Knowing(Turns, InformedPolicy):
    """The arm with the largest mean reward."""

    name: ClassVar[str] = "knowing"

    def setup(self, problem, budget):
        means = [arm.laws[1].mean for arm in problem.arms]
        return Setup((float(np.argmax(means)),), (0.0,) * problem.penalty_count)

    def decide(self, setup, step, statistics, queues, uniform):
        return int(setup.constants[0])


@pytest.fixture(scope="module")
def table() -> FullTable:
    """500 rows of two arms, 'a' and 'b', with one penalty; costs in cents."""
    random = np.random.default_rng(2)
    outcomes = random.random((500, 2, 3)) * [[50.0, 1.0, 1.0], [80.0, 2.0, 0.4]]
    return FullTable(["a", "b"], ["bad"], outcomes)


@pytest.fixture(scope="module")
def task(table):
    return task_of(table, {"bad": Limit(0.01)})


def totals(row, budget):
    """Pulls of each arm, reward, penalty of a single pass."""
    pulls = [share * row.pulls for share in row.pull_share]
    return [*pulls, row.reward_rate.mean * budget, (row.violation[0].mean + 0.01) * budget]


def followed(rows, task, policy, budget):
    """LyOn's run in plain Python over (arm allowed or None, outcome of each arm), row by row."""
    scaled, scales = task.normal_budget(budget), np.array(task.scales.channels)
    state = plain_run(task, policy, set_up(policy, task, scaled), scaled)
    pulls, total, passed = [0, 0], np.zeros(3), 0
    for logged, outcomes in rows:
        if not state.running:
            break
        passed += 1
        arm = state.step % 2 if state.exploring else state.decide(policy, None)
        if logged is not None and logged != arm:
            continue
        state.learn(arm, (outcomes[arm] / scales).tolist())
        pulls[arm] += 1
        total += outcomes[arm]
    return [*pulls, *total[1:]], passed


def test_a_table_in_order_as_in_plain_python(table, task):
    expected, _ = followed([(None, one) for one in table.outcomes], task, LyOn(), 9000.0)
    found = replay(table, task, LyOn(), budget=9000, orders=0)
    (row,) = found
    assert totals(row, 9000) == pytest.approx(expected)
    assert (row.orders, row.rows_used, row.out_of_rows) == (1, row.rows_passed, 0)
    assert row.reward_rate.error is None
    assert not found.remark


def test_a_uniform_log_in_order_as_in_the_paper_of_rejection(table, task):
    """A row is used if the policy would pull its arm: Li et al. 2011, row by row."""
    chosen = np.random.default_rng(3).integers(2, size=500)
    outcomes = table.outcomes[np.arange(500), chosen].T
    log = equally_likely(Log(table.arms, table.penalties, chosen, outcomes))
    rows = list(zip(chosen.tolist(), table.outcomes, strict=True))
    expected, passed = followed(rows, task, LyOn(), 4000.0)
    (row,) = replay(log, task, LyOn(), budget=4000, orders=0)
    assert totals(row, 4000) == pytest.approx(expected)
    assert (row.rows_used, row.rows_passed) == (sum(expected[:2]), passed)
    assert 0.4 < row.rows_used / row.rows_passed < 0.6


def test_shuffles_have_the_mean_and_the_spread_of_draws_without_replacement():
    """With a cost of 1, B + 1 of n rows are drawn: s^2 / (B + 1) * (1 - (B + 1) / n)."""
    rewards = np.random.default_rng(5).random(60)
    columns = [np.ones(60), rewards, np.zeros(60)]
    table = FullTable(["a"], ["bad"], np.column_stack(columns)[:, None])
    for again in (False, True):
        (row,) = replay(
            table,
            task_of(table, {"bad": Limit(0.5)}),
            LyOn(),
            budget=39,
            orders=1500,
            with_replacement=again,
        )
        pulls, orders = 40, row.orders
        variance = rewards.var(ddof=not again) * pulls * (1.0 if again else 1 - pulls / 60)
        mean, spread = row.reward_rate.mean * 39, row.reward_rate.error * 39 * math.sqrt(orders)
        assert row.pulls == pulls
        assert abs(mean - pulls * rewards.mean()) < 4 * math.sqrt(variance / orders)
        assert spread == pytest.approx(math.sqrt(variance), rel=4 / math.sqrt(2 * orders))
        low, _, high = row.reward_quantiles
        assert (high - low) * 39 == pytest.approx(2 * 1.645 * math.sqrt(variance), rel=0.15)


def test_rows_with_replacement_are_a_simulation(table):
    problem = problem_of(table, {"bad": Limit(0.01)})
    simulated = simulate(problem, LyOn(), budgets=6000, runs=4000, seed=3, progress=False)
    (expected,) = simulated.rows()
    (drawn_again,) = replay(
        table, problem, LyOn(), budget=6000, orders=300, seed=4, with_replacement=True
    )
    (shuffled,) = replay(table, problem, LyOn(), budget=6000, orders=300, seed=4)
    for row in (drawn_again, shuffled):
        for mine, theirs in (
            (row.reward_rate, expected.reward_rate),
            (row.violation[0], expected.violation[0]),
        ):
            assert abs(mine.mean - theirs.mean) < 4 * math.hypot(mine.error, theirs.error)
    assert shuffled.reward_rate.error < drawn_again.reward_rate.error, "of a third of all rows"


def test_every_policy_meets_the_same_orders_and_a_seed_says_which(table, task):
    run = {"budget": 3000, "orders": 5, "seed": 7}
    one = replay(table, task, {"x": Turns("01"), "y": Turns("01")}, **run)
    assert one.rows[0].reward_rate == one.rows[1].reward_rate
    assert replay(table, task, Turns("01"), **run).rows[0].reward_rate == one.rows[0].reward_rate
    other = replay(table, task, Turns("01"), **{**run, "seed": 8}).rows[0]
    assert other.reward_rate != one.rows[0].reward_rate


# Logs whose logger was not even-handed.


def test_rejection_is_right_where_the_logger_looked_at_what_moves_outcomes():
    """The rows of arm c are mostly of the second context, in which it earns less."""
    log, _ = drawn(np.random.default_rng(21), 40_000)
    task = task_of(log, {"bad": Limit(0.5)})
    found = replay(log, task, {"c": Turns("2"), "any": Coin("012")}, budget=1500, orders=3)
    truth = MEANS.mean(axis=0)  # [arm, channel]
    for row, means in zip(found.rows, (truth[2], truth.mean(axis=0)), strict=True):
        rate = row.reward_rate.mean * 1500 / row.pulls
        reach = 4 * math.sqrt(means[1] / row.pulls)  # orders use nearly the same rows
        assert rate == pytest.approx(means[1], abs=reach)
    naive = log.of_arm(2)[1].mean()
    assert naive < truth[2, 1] - 4 * math.sqrt(truth[2, 1] / found.rows[0].pulls)
    row = found.rows[0]
    assert row.rows_used / row.rows_passed == pytest.approx(CHANCES.min(), abs=0.01)
    assert found.rows[1].pull_share == pytest.approx([1 / 3] * 3, abs=0.01)


def even_log(rows=90):
    """Propensities 0.5, 0.3, 0.2 that depend on nothing; a row's number is its reward."""
    chosen = np.repeat(np.arange(3), [rows // 2, rows * 3 // 10, rows // 5])
    np.random.default_rng(9).shuffle(chosen)
    outcomes = np.array([np.ones(rows), np.arange(rows, dtype=float)])
    return Log(("a", "b", "c"), (), chosen, outcomes, np.array([0.5, 0.3, 0.2])[chosen])


def test_queues_give_the_next_row_of_each_arm():
    log = even_log()
    found = replay(log, task_of(log), Turns("0012"), budget=39, orders=0, method="queues")
    a, b, c = (np.flatnonzero(log.chosen == arm) for arm in range(3))
    expected = a[:20].sum() + b[:10].sum() + c[:10].sum()
    assert found.rows[0].reward_rate.mean * 39 == pytest.approx(expected)
    assert (found.rows[0].rows_used, found.rows[0].rows_passed) == (40, 40)
    uneven, _ = drawn(np.random.default_rng(1), 500)
    with pytest.raises(InputError, match="'queues': propensities of arm 'a' differ between rows"):
        replay(uneven, task_of(uneven), Turns("0"), budget=5, method="queues")


def test_one_unlikely_row_costs_rejection_all_the_others():
    log, _ = drawn(np.random.default_rng(1), 5000)
    assert log.propensity[3] == 0.6
    log.propensity[3] = 4e-4  # 1 + 0.0004 * 3 * 5000 are kept
    said = r"the smallest is 0.0004, so rejection keeps about 7\.\d+ of 5,000 rows; must keep 30"
    with pytest.raises(InputError, match=said):
        replay(log, {}, Turns("0"), budget=5)


def rare_log(rows=20):
    """Three arms, the last with few of more than 5,000 rows."""
    counts = np.array([2500, 2500, rows])
    chosen = np.random.default_rng(2).permutation(np.repeat([0, 1, 2], counts))
    propensity = counts[chosen] / counts.sum()
    outcomes = np.array([np.ones(len(chosen)), chosen / 2.0, np.zeros(len(chosen))])
    return Log(["a", "b", "rare one"], ["bad"], chosen, outcomes, propensity)


def test_a_rare_arm_is_named_with_what_helps():
    log = rare_log()
    with pytest.raises(InputError) as error:
        replay(rare_log(5), {}, Turns("0"), budget=5)
    said = str(error.value)
    found = replay(log, {}, Turns("012"), budget=100, orders=2)
    for text in (found.remark, said):
        assert "arm 'rare one' is rare: --without 'rare one' (log.without) drops it" in text
        assert "--method queues" in text
    found = replay(log, {}, Turns("012"), budget=100, orders=2, method="queues")
    assert found.rows[0].missed == "rare one"
    assert "ran out of rows of arm 'rare one'" in found.remark
    assert "--without 'rare one'" in found.remark
    assert "--method" not in found.remark


def test_without_an_arm_the_others_are_as_likely_as_before():
    log = rare_log().without("rare one")
    assert (log.arms, len(log)) == (("a", "b"), 5000)
    assert set(log.propensity) == {2500 / 5020}
    with pytest.raises(InputError, match="without = 'c': is not an arm; known: a, b"):
        log.without("c")
    assert not replay(log, {}, Turns("01"), budget=100, orders=2).remark


# Runs that end for want of rows.


def test_policies_are_compared_where_all_of_them_got_to():
    outcomes = np.empty((20, 2, 2))
    outcomes[:, 0], outcomes[:, 1] = (1.0, 1.0), (5.0, 3.0)
    table = FullTable(["cheap", "dear"], [], outcomes)
    policies = {"cheap": Turns("0"), "dear": Turns("1"), "both": Turns("01")}
    found = replay(table, task_of(table), policies, budget=50, orders=3)
    assert (found.budget, found.planned, found.shortened) == (19.0, 50, True)
    cheap, dear, both = found.rows
    assert (cheap.pulls, dear.pulls, both.pulls) == (20, 4, 8), "each exceeds 19 with its last"
    assert dear.reward_rate.mean == pytest.approx(4 * 3 / 19)
    assert (cheap.out_of_rows, cheap.reached, dear.out_of_rows, dear.reached) == (3, 19.0, 0, None)
    assert found.remark.startswith("compared at a budget of 19, the largest that every policy")
    assert "cheap ran out of rows" in found.remark
    alone = replay(table, task_of(table), policies["dear"], budget=50, orders=3)
    assert (alone.budget, alone.remark) == (50, "")


def test_rows_that_end_at_once():
    table = FullTable(["a"], [], [[(1.0, 1.0)]])
    with pytest.raises(InputError, match="some order of the rows ends before any cost"):
        replay(table, task_of(table), Turns("0"), budget=5)


# Limits, by hand.


def test_violations_in_the_terms_of_every_limit():
    outcomes = np.tile([[2.0, 4.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.5]], (30, 1, 1))
    table = FullTable(["a", "b"], ["bad", "late"], outcomes)
    limits = {
        "bad": Limit(0.4, per="pull"),
        "late": Limit(total=8),
        "price": Limit(0.7, of="cost", per="reward"),
        "b": Share(["b"], at_least=0.6),
    }
    run = {"budget": 20, "orders": 2}
    (row,) = replay(table, task_of(table, limits), Turns("01"), **run)
    assert row.pulls == 14  # cost 21: seven times 2 + 1
    expected = [7 / 14 - 0.4, 7 + 3.5 - 8, 21 / 35 - 0.7, 0.5 - 0.4]
    assert [one.mean for one in row.violation] == pytest.approx(expected)
    assert [share for share, _, _ in row.broken] == [1.0, 1.0, 0.0, 1.0]
    assert 0.3 < row.broken[0][1] < 1.0, "two orders prove little"
    assert json.loads(json.dumps(row.as_dict()))["limits"]["bad"]["broken"] == 1.0
    hard = {"late": Limit(total=3, hard=True)}
    (ended,) = replay(table, task_of(table, hard), Turns("0"), **run)
    assert (ended.pulls, ended.out_of_rows) == (4, 0), "ended by the limit"


ONE = {"bad": Limit(0.01)}
TWO = {"bad": Limit(total=50), "b": Share(["b"], at_least=0.5)}


@pytest.mark.parametrize(("policy", "limits"), [(LyOn(), ONE), (Turns(), ONE), (Turns(), TWO)])
def test_a_row_is_told_like_its_parts(table, policy, limits):
    task = task_of(table, limits)
    one, two = (Controller(task, policy, budget=5000) for _ in range(2))
    for row in table.outcomes[:40]:
        arm, other = one.ask(), two.ask()
        cost, reward, bad = row[arm].tolist()
        one.tell(arm, cost, reward, bad)
        derived = [float(arm == 0)] if len(limits) > 1 else []
        two.tell_row(other, np.array([cost, reward, bad, *derived]))
    assert one == two
    with pytest.raises(InputError, match="cost = 99"):
        two.tell_row(0, np.array([99.0, 0.5, 0.5, 1.0][: 2 + len(limits)]))


def test_scales_that_grow_do_so_in_replay(table):
    task = Task(table.arms, {"bad": Limit(0.01)}, scales=Scales(cost=10, grow=True))
    (grown,) = replay(table, task, Turns("01"), budget=3000, orders=2)
    (wide,) = replay(table, {"bad": Limit(0.01)}, Turns("01"), budget=3000, orders=2)
    assert grown.reward_rate == wide.reward_rate


def test_what_the_task_knows_must_be_in_the_rows(table):
    outcomes = table.outcomes.copy()
    outcomes[:, :, 0] = [2.0, 5.0]
    outcomes[8, 1, 0] = 4.0
    priced = FullTable(table.arms, table.penalties, outcomes)
    task = Task(table.arms, {"bad": Limit(0.01)}, Scales(reward=2), costs={"a": 2, "b": 5})
    with pytest.raises(InputError, match="row 9, arm 'b', cost = 4: must be 5, the task's known"):
        replay(priced, task, Turns(), budget=100)


def test_a_limit_in_total_is_for_the_planned_budget():
    table = FullTable(["a"], ["bad"], np.tile([1.0, 1.0, 1.0], (11, 1, 1)))
    found = replay(table, task_of(table, {"bad": Limit(total=10)}), Turns("0"), budget=20)
    assert found.budget == 10
    assert found.rows[0].violation[0].mean == pytest.approx(11 - 10 * 10 / 20)


# What is needed, and what is refused.


def test_policies_that_know_the_laws_need_a_problem(table, task):
    with pytest.raises(PolicyError, match="lyoff"):
        replay(table, task, LyOff(), budget=500)
    found = replay(table, {"bad": Limit(0.01)}, Knowing(), budget=500, orders=2)
    assert (found.rows[0].pull_share, found.rows[0].knows) == ((0.0, 1.0), "laws")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"orders": -1}, "orders = -1: must be a whole number from 0"),
        ({"orders": 2.5}, "orders = 2.5"),
        ({"method": "rejecting"}, "method = 'rejecting' is unknown; did you mean 'rejection'"),
        ({"budget": 0}, "budget = 0: must be a positive"),
        ({"budget": math.nan}, "budget = nan"),
        ({"data": [1, 2]}, "data = list: must be a FullTable or a Log"),
        ({"task": "paper"}, "task = str: must be limits by name, a Task or a Problem"),
    ],
)
def test_bad_arguments(table, task, changed, said):
    given = {"data": table, "task": task, "policies": Turns(), "budget": 100, **changed}
    with pytest.raises(InputError, match=said):
        replay(**given)


def test_tasks_and_logs_that_do_not_fit(table, task):
    other = FullTable(["b", "a"], ["bad"], table.outcomes)
    with pytest.raises(InputError, match="its arms a, b must be those of the data, in the same"):
        replay(other, task, Turns(), budget=100)
    with pytest.raises(
        InputError, match="limit 'late': the data has no such penalty; known: 'bad'"
    ):
        task_of(table, {"late": Limit(0.1)})
    log = even_log()
    bare = Log(log.arms, (), log.chosen, log.outcomes)
    with pytest.raises(InputError, match="propensity: is missing"):
        replay(bare, task_of(bare), Turns(), budget=5)
    some = log.chosen < 2
    few = Log(log.arms, (), log.chosen[some], log.outcomes[:, some], log.propensity[some] * 1.25)
    with pytest.raises(InputError, match="arm 'c': none of 72 rows"):
        replay(few, task_of(few), Turns(), budget=5)


# Tables.


def test_a_table_from_its_long_form(table):
    rows, arms = np.divmod(np.random.default_rng(1).permutation(1000), 2)
    log = Log(table.arms, table.penalties, arms, table.outcomes[rows, arms].T)
    made = FullTable.from_long([f"question {row}" for row in rows], log)
    first = list(dict.fromkeys(rows.tolist()))
    assert np.array_equal(made.outcomes, table.outcomes[first])
    with pytest.raises(InputError, match=r"row 3, arm '.': [02] lines; a table has exactly one"):
        FullTable.from_long(np.where(rows == 4, 3, rows), log)
    with pytest.raises(InputError, match=r"row: shape \(2,\) must be \(1000,\)"):
        FullTable.from_long([1, 2], log)


@pytest.mark.parametrize(
    ("value", "said"),
    [(-1.0, "bad = -1: must be a finite number"), (math.nan, "bad = nan"), (math.inf, "bad = inf")],
)
def test_impossible_outcomes_are_named(table, value, said):
    outcomes = table.outcomes.copy()
    outcomes[6, 1, 2] = value
    with pytest.raises(InputError, match=f"row 7, arm 'b', {said}"):
        FullTable(table.arms, table.penalties, outcomes)


def test_shapes_of_tables():
    with pytest.raises(InputError, match=r"shape \(1, 2, 2\) must be \(rows, 2, 3\)"):
        FullTable(["a", "b"], ["bad"], np.ones((1, 2, 2)))
    for wrong in ("x", [[(1, 2, 3), (1, 2)]]):
        with pytest.raises(InputError, match=r"^outcomes = .*: must be numbers \[rows, arms, 2"):
            FullTable(["a", "b"], ["bad"], wrong)
    with pytest.raises(InputError, match="names must differ"):
        FullTable(["a", "a"], [], np.ones((1, 2, 2)))


def test_a_problem_of_a_log_weighs_rows_by_their_propensities():
    log, _ = drawn(np.random.default_rng(2), 30_000)
    problem = problem_of(log, {"bad": Limit(0.5)})
    for arm, truth in zip(problem.arms, MEANS.mean(axis=0), strict=True):
        assert [law.mean for law in arm.laws] == pytest.approx(truth, abs=0.03)


# The shell.


@pytest.fixture
def files(tmp_path):
    """A log with propensities, a table in its long form, and a policy's file."""
    log, _ = drawn(np.random.default_rng(31), 2000)
    lines = ["model,usd,score,bad,chance"]
    for row, arm in enumerate(log.chosen.tolist()):
        numbers = [*log.outcomes[:, row], log.propensity[row]]
        lines.append(",".join([log.arms[arm], *map(repr, map(float, numbers))]))
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    pairs = [(question, arm) for question in range(40) for arm in "ab"]
    table = [f"{question},{arm},{1 + (arm == 'b')},0.5,0" for question, arm in pairs]
    (tmp_path / "table.csv").write_text("\n".join(["question,model,usd,score,bad", *table]))
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\nfrom tightrope.policies.base import Policy, Setup\n"
        "@dataclass(frozen=True)\nclass Last(Policy):\n    name, summary = 'last', 'the last arm'\n"
        "    def setup(self, task, budget):\n"
        "        return Setup((task.arm_count - 1,), (0.0,) * task.penalty_count)\n"
        "    def decide(self, setup, step, statistics, queues, uniform):\n"
        "        print('thinking')\n        return int(setup.constants[0])\n"
    )
    return tmp_path


OPTIONS = "--arm model --cost usd --reward score --penalty bad --limit bad=0.9".split()


def test_a_log_in_the_shell(shell, files):
    log = ("replay", str(files / "log.csv"), *OPTIONS, "--propensity", "chance")
    own = ("--policy", f"{files / 'mine.py'}:Last", "--budget", "30", "--orders", "4")
    status, out, err = shell(*log, *own, "--mixture", "a=0.2,b=0.8", "--json")
    found = json.loads(out)
    assert (status, "thinking" in err) == (0, True)
    assert found["data"] == {
        "kind": "log", "rows": 2000, "arms": ["a", "b", "c"], "penalties": ["bad"]
    }  # fmt: skip
    (policy,), (mixture,) = found["policies"], found["mixtures"]
    assert (policy["pull_share"], policy["orders"]) == ([0.0, 0.0, 1.0], 4)
    assert policy["rows_used"] == policy["pulls"]
    assert policy["rows_used"] / policy["rows_passed"] == pytest.approx(0.1, abs=0.04)
    truth = (MEANS.mean(axis=0) * [[0.2], [0.8], [0.0]]).sum(axis=0)
    for one in mixture["estimates"]:
        if one["per"] == "pull":
            place = ["cost", "reward", "bad"].index(one["of"])
            assert abs(one["value"] - truth[place]) < 4 * one["value_se"]
    status, out, _ = shell(*log, *own, "--mixture", "a=0.2,b=0.8")
    assert status == 0
    assert "violation of bad" in out
    assert "effective sample size" in out


def test_a_table_in_the_shell(shell, files):
    command = ("replay", str(files / "table.csv"), "--row", "question", *OPTIONS)
    own = ("--policy", f"{files / 'mine.py'}:Last", "--orders", "2", "--budget")
    status, out, err = shell(*command, *own, "100", "--mixture", "a=1", "--json")
    found = json.loads(out)
    assert (status, found["budget"], found["planned_budget"]) == (0, 78.0, 100.0)
    assert found["policies"][0]["reached"] == 78.0
    assert [one["value"] for one in found["mixtures"][0]["estimates"]][:2] == [1.0, 0.5]
    status, out, err = shell(*command, *own, "100")
    assert status == 0
    assert "compared at a budget of 78" in err
    status, named, err = shell(*command, *own, "20", "--json")
    assert "compared" not in err
    without = [word for word in command if word not in ("--penalty", "bad")]
    share = ("--limit", "few=at most 30% for a")  # a share of pulls has no column
    status, out, _ = shell(*without, *own, "20", "--json")
    assert (status, out) == (0, named)
    assert shell(*without, *share, *own, "20", "--json")[0] == 0
    status, _, err = shell(*without, "--limit", "late=0.1/pull", *own, "20")
    assert (status, "no column 'late' (penalty late)" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "nothing to do; must have --policy with --budget, or --mixture"),
        ("--policy lyon", "--budget: is missing"),
        ("--mixture a", "--mixture 'a': must be NAME=NUMBER"),
        ("--mixture a=0.5,a=0.5", "'a' is given twice"),
        ("--mixture a=1 --without d", "without = 'd': is not an arm"),
        ("--mixture a=1 --limit late=0.1/day", "'day' must be cost, pull, reward or total"),
        ("--mixture a=1 --limit bad=1", "'bad' is given twice; each must be different"),
        ("--mixture a=1", "propensity: is missing"),
        ("--mixture a=1 --uniform --propensity chance", "--uniform: must not come with"),
        ("--mixture a=1 --row usd --uniform", "--row: a table has every arm's outcome"),
        ("--mixture a=1 --row chance", "a table has exactly one for every row and arm"),
        (
            "--mixture a=1 --propensity chnce",
            "no column 'chnce' (propensity); did you mean",
        ),
        ("--mixture a=1 --propensity model", "row 1 (without the header), column 'model': '"),
        ("--mixture a=1 --propensity bad", "must lie above 0, at most 1"),
        ("--policy lyon --policy lyon --budget 9", "--policy 'lyon' is given twice"),
    ],
)
def test_one_line_in_the_shell(shell, files, words, said):
    status, out, err = shell("replay", str(files / "log.csv"), *OPTIONS, *words.split())
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_files_that_are_no_logs(shell, files):
    (files / "empty.csv").write_text("model,usd,score,bad\n")
    (files / "torn.csv").write_text("model,usd,score,bad\na,1,1\n")
    (files / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    (files / "log.parquet").write_bytes(b"PAR1")
    for name, said in {
        "empty.csv": "has no rows",
        "torn.csv": "row 1 (without the header): has 3 fields; must have 4, as the header",
        "bytes.csv": "must be UTF-8 text",
        "log.parquet": "must be a Parquet file",
        "none.csv": "there is no such file",
    }.items():
        status, _, err = shell("replay", str(files / name), *OPTIONS, "--mixture", "a=1")
        assert status == 2
        assert said in err, name


def test_parquet_is_read_like_csv(shell, files):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import csv, parquet

    assert pyarrow
    parquet.write_table(csv.read_csv(files / "log.csv"), files / "log.parquet")
    rest = (*OPTIONS, "--propensity", "chance", "--mixture", "a=0.5,b=0.5", "--json")
    one, two = (shell("replay", str(files / name), *rest) for name in ("log.csv", "log.parquet"))
    assert one == two


def test_progress_is_reported():
    table = FullTable(["a", "b"], [], [[(1, 0.2), (1, 0.4)]] * 20)
    shares = []
    replay(table, {}, "resolve", budget=10, orders=4, progress=shares.append)
    assert shares == [0.25, 0.5, 0.75, 1.0]


def test_a_scale_in_the_shell(shell, files):
    """A log with larger costs can be learned from, and the policy keeps to the same rows."""
    dear = (files / "log.csv").read_text().splitlines()
    usd = dear[0].split(",").index("usd")
    rows = [line.split(",") for line in dear[1:]]
    more = [",".join([*row[:usd], str(9 * float(row[usd])), *row[usd + 1 :]]) for row in rows]
    (files / "dear.csv").write_text("\n".join([dear[0], *more]) + "\n")
    words = [str(files / "log.csv"), *OPTIONS, "--propensity", "chance", "--policy", "resolve"]
    words += ["--budget", "5", "--orders", "2", "--json", "--learn-from", str(files / "dear.csv")]
    status, _, err = shell("replay", *words)  # after a warning about the dear log's propensities
    assert status == 2
    assert "must be at most 10%; --scale cost=X (Scales(cost=...)) sets it" in err
    status, out, _ = shell("replay", *words, "--scale", "cost=20")
    assert status == 0
    assert json.loads(out)["policies"][0]["policy"] == "resolve"
    assert shell("replay", *words, "--policy", "lyoff", "--scale", "cost=20")[0] == 0
    status, _, err = shell("replay", *words, "--scale", "usd=1")
    assert (status, err) == (2, "tightrope: --scale usd: known: cost, reward, bad\n")
