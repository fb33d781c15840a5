"""The outlook: what it says of made-up histories, and that what it says comes true."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.estimates import by_estimate, looks, problems, seeds
from tests.live.cheap import Rotation
from tightrope import (
    Controller,
    Features,
    Limit,
    LyOn,
    Problem,
    Resolve,
    Scales,
    Task,
    Types,
    parse_policy,
    ready_problem,
)
from tightrope.errors import InputError
from tightrope.live import Outlook
from tightrope.policies import UniformRandom
from tightrope.problem import Mixed
from tightrope.problem.named import Named
from tightrope.statistics import wilson

RISKY = Resolve(risk=0.01)


@pytest.fixture(scope="module")
def declared() -> Problem:
    return replace(ready_problem("paper"), safe=1, safe_rates={"penalty": 0.5})


def told(task: Task | Problem, policy, budget: float, rows) -> Outlook:
    """The outlook after pulls (arm, cost, reward, penalty) of which there are so many."""
    controller = Controller(task, policy, budget)
    for count, arm, *outcome in rows:
        for _ in range(count):
            controller.tell(arm, *outcome)
    return controller.outlook()


# --- what it says -------------------------------------------------------------------------


def test_before_the_first_pull_nothing_is_known() -> None:
    outlook = told(Task(["a", "b"], {"bad": Limit(0.05)}), LyOn(), 100.0, [])
    (bad,) = outlook.limits
    assert (bad.chance, bad.chance_if_safe, bad.rate, bad.low, bad.high) == (
        1,
        1,
        None,
        0,
        math.inf,
    )
    assert (outlook.pulls_left, outlook.reward, outlook.safe, bad.promised) == (
        None,
        None,
        False,
        False,
    )
    assert bad.standing == "no bound yet"
    assert "no bound yet" in str(outlook)
    assert "<table>" in outlook._repr_html_()


def test_projections_are_in_the_users_units() -> None:
    task = Task(
        ["a", "b"], {"bad": Limit(0.5)}, Scales(cost=2.0, reward=10.0, penalty={"bad": 4.0})
    )
    outlook = told(task, LyOn(), 1000.0, [(200, "a", 1.0, 5.0, 0.4), (100, "b", 2.0, 8.0, 0.6)])
    (bad,) = outlook.limits
    assert outlook.spent == pytest.approx(400.0)
    assert outlook.pulls_left == pytest.approx(300 * 600 / 400)
    assert outlook.reward_so_far == pytest.approx(1800.0)
    assert outlook.reward == pytest.approx(1800.0 * 2.5)
    assert bad.penalty == pytest.approx(140.0)
    assert bad.rate == pytest.approx(140.0 * 2.5 / 1000.0)
    assert 0.14 <= bad.low < bad.rate < bad.high < math.inf


def test_an_arm_is_known_to_be_safe_in_time() -> None:
    task = Task(["good", "bad"], {"late": Limit(0.5)})
    outlook = told(task, LyOn(), 2000.0, [(400, 0, 1.0, 0.5, 0.1), (100, 1, 1.0, 1.0, 1.0)])
    (late,) = outlook.limits
    assert (outlook.safest, outlook.safe) == ("good", True)
    assert late.chance_if_safe < 0.01
    assert late.chance > 0.5  # the bad arm may be pulled all the time
    assert outlook.infeasible == ()


def test_with_types_each_type_has_its_safest_arm() -> None:
    """An arm that is safe for one type alone is not known to keep the limit."""
    types = Types(["math", "code", "chat"])
    controller = Controller(Task(["a", "b"], {"late": Limit(0.5)}, contexts=types), LyOn(), 3000)

    def tell(arm: int, context: str, late: float) -> None:
        for _ in range(300):
            controller.tell(arm, 1.0, 0.5, late, context=context)

    tell(0, "math", 0.1)
    outlook = controller.outlook()
    assert (outlook.safest, outlook.safe, outlook.limits[0].chance_if_safe) == ("a", False, 1.0)
    tell(1, "code", 0.1)
    tell(0, "code", 0.9)
    assert controller.outlook().safest == "a for math, chat; b for code"
    assert not controller.outlook().safe
    controller.merge_types("chat", "math")
    outlook = controller.outlook()
    assert (outlook.safest, outlook.safe) == ("a for math; b for code", True)
    assert outlook.limits[0].chance_if_safe < 0.01
    assert "safest arm 'a for math; b for code' is known to keep every limit" in str(outlook)


@pytest.mark.parametrize("per", ["cost", "pull", "reward"])
def test_a_retired_arm_is_neither_the_safest_nor_ahead(per: str) -> None:
    task = Task(["mild", "wild"], {"bad": Limit(0.5, per=per)})
    controller = Controller(task, LyOn(), 1000.0)
    for _ in range(100):
        controller.tell("mild", cost=0.5, reward=1.0, penalty=0.0)
        controller.tell("wild", cost=1.0, reward=0.5, penalty=0.75)
    before = controller.outlook()
    assert before.safest == "mild"
    assert before.safe
    controller.retire_arm("mild")
    after = controller.outlook()
    assert after.safest == "wild"
    assert not after.safe
    assert after.pulls_left == pytest.approx(850.0)  # of wild, at a cost of 1
    assert after.reward == pytest.approx(150.0 + 850.0 * 0.5)
    bases = {"cost": 1000.0, "pull": 200.0 + 850.0, "reward": 150.0 + 850.0 * 0.5}
    assert after.limits[0].rate == pytest.approx((75.0 + 850.0 * 0.75) / bases[per])
    assert before.limits[0].rate == pytest.approx(
        75.0 / {"cost": 150.0, "pull": 200.0, "reward": 150.0}[per]
    )


def test_infeasible_limits_are_named() -> None:
    task = Task(["a", "b"], {"bad": Limit(0.5), "late": Limit(0.9)})
    rows = [(500, arm, 1.0, 0.5, (0.9, 0.1)) for arm in (0, 1)]
    outlook = told(task, LyOn(), 2000.0, rows)
    assert outlook.infeasible == ("bad",)
    assert outlook.limits[0].standing == "looks infeasible"
    assert "keeps bad (at least " in str(outlook)


def test_limits_that_only_fight_each_other_are_both_named() -> None:
    task = Task(["a", "b"], {"bad": Limit(0.4), "late": Limit(0.4)})
    outlook = told(task, LyOn(), 9000.0, [(2000, 0, 1, 1, (1, 0)), (2000, 1, 1, 1, (0, 1))])
    assert outlook.infeasible == ("bad", "late")


def test_a_broken_limit_and_a_spent_budget_are_facts() -> None:
    task = Task(["a"], {"bad": Limit(0.5)})
    broken = told(task, LyOn(), 10.0, [(6, 0, 0.5, 1.0, 1.0)])
    assert (broken.limits[0].standing, broken.limits[0].chance) == ("broken", 1.0)
    kept = told(task, LyOn(), 10.0, [(11, 0, 1.0, 1.0, 0.2)])
    (row,) = kept.limits
    assert (row.chance, row.chance_if_safe) == (0.0, 0.0)
    assert row.low == row.high == row.rate == pytest.approx(0.22)


def test_the_guard_says_what_it_promises(declared: Problem) -> None:
    outlook = Controller(declared.task, RISKY, budget=1000).outlook()
    assert outlook.limits[0].promised
    assert outlook.limits[0].chance == pytest.approx(0.01)
    assert outlook.safest == declared.names[1]
    assert "cannot be promised" not in str(outlook)
    unsure = Controller(replace(declared, safe_rates={}).task, RISKY, budget=1000).outlook()
    assert not unsure.limits[0].promised
    assert "risk = 0.01 cannot be promised yet" in str(unsure)


def test_a_task_without_limits_has_projections_alone() -> None:
    outlook = told(Task(["a"]), LyOn(), 10.0, [(5, 0, 1.0, 0.5)])
    assert outlook.limits == ()
    assert outlook.reward == pytest.approx(5.0)
    assert str(outlook).startswith("spent 5 of 10 in 5 pulls")
    assert outlook._repr_html_()


@pytest.mark.parametrize("doubt", [0, 1e-310, 1, -0.1, True, "x", math.nan])
def test_bad_doubts_are_refused(doubt: object) -> None:
    with pytest.raises(InputError, match=r"doubt = .*: must be a number between 1e-300 and 1"):
        Controller(Task(["a"], {"bad": Limit(0.5)}), LyOn(), 10).outlook(doubt)  # type: ignore[arg-type]


# --- that it comes true -------------------------------------------------------------------


def lived(problem: Problem, policy, budget: float, seed: int, safe_from: float = math.inf):
    """Outlooks on the way, and the penalty rate at the end; from some cost on the safest arm."""
    random, odds = np.random.default_rng([seed, 7]), problem.bernoulli()
    controller, outlooks, marks, arm = Controller(problem.task, policy, budget, seed=seed), [], 1, 0
    while not controller.exhausted:
        if controller.spent >= marks * budget / 4:
            outlooks.append(controller.outlook(doubt=0.04))
            marks += 1
            if controller.spent >= safe_from:
                arm, safe_from = problem.names.index(outlooks[-1].safest), -1.0
                final = outlooks[-1]
        pulled = controller.ask() if safe_from >= 0.0 else arm
        controller.tell(pulled, *(random.random(3) < odds[pulled]).astype(float).tolist())
    return outlooks, controller.outlook().limits[0], None if safe_from >= 0.0 else final


@pytest.mark.parametrize("policy", [RISKY, LyOn()], ids=["resolve", "lyon"])
def test_stated_chances_come_true_at_most_as_often(declared: Problem, policy) -> None:
    """At a quarter, a half and three quarters of the budget, over all runs."""
    runs, stated, broken, outside = 120, [], [], 0
    for seed in range(runs):
        outlooks, end, _ = lived(declared, policy, 120.0, seed)
        stated.append([one.limits[0].chance for one in outlooks[:3]])
        broken.append(end.broken)
        for one in outlooks[:3]:
            outside += not one.limits[0].low - 1e-12 <= end.rate <= one.limits[0].high + 1e-12
    share = wilson(sum(broken), runs)[0]
    assert (np.mean(stated, axis=0) >= share).all()
    assert wilson(outside, 3 * runs)[0] <= 0.04
    if policy is RISKY:
        assert np.mean(stated) < 0.02


def test_the_safest_arm_keeps_what_is_said_of_it(declared: Problem) -> None:
    """Nothing but the outlook's safest arm from a quarter of the budget on."""
    runs, stated, broken = 150, [], 0
    for seed in range(runs):
        _, end, final = lived(declared, LyOn(), 120.0, seed, safe_from=30.0)
        stated.append(final.limits[0].chance_if_safe)
        broken += end.broken
    assert wilson(broken, runs)[0] <= np.mean(stated)
    assert np.mean(stated) < 0.9  # it says something


def test_a_limit_in_total_is_projected_in_total():
    task = Task(["a", "b"], {"harm": Limit(total=5)})
    controller = Controller(task, UniformRandom(), 100)
    for _ in range(20):
        controller.tell(controller.ask(), 0.5, 1, 0.1)
    (limit,) = controller.outlook().limits
    assert (limit.limit, limit.rate) == (5, pytest.approx(20.0))
    assert limit.low <= 20.0 <= limit.high


# --- odd numbers --------------------------------------------------------------------------

SHARES = st.sampled_from([0.0, 5e-324, 1e-310, 1e-160, 1e-9, 0.1, 0.5, 0.999, 1.0])
SCALES = st.sampled_from([1e-9, 1.0, 7.0, 1e9])


@st.composite
def histories(draw) -> tuple[Task, float, list[tuple[int, float, float, float]]]:
    """A task with odd declarations, a budget, and reports that may contradict them."""
    cost, reward, penalty = draw(SCALES), draw(SCALES), draw(SCALES)
    arms = ["a", "b"][: draw(st.integers(1, 2))]
    per = draw(st.sampled_from(["cost", "pull", "reward", "total"]))
    unit = penalty / {"cost": cost, "pull": 1.0, "reward": reward, "total": cost}[per]
    number = unit * draw(st.sampled_from([1e-3, 0.1, 0.5, 10.0]))
    budget = cost * draw(st.sampled_from([1.0, 50.0, 1e6]))
    limit = Limit(total=number * budget) if per == "total" else Limit(number, per=per)
    given: dict = draw(
        st.sampled_from(
            [
                {},
                {"smallest_cost": cost},
                {"smallest_cost": 1e-9 * cost},
                {"costs": dict.fromkeys(arms, cost)},
                {"safe": "a", "safe_rates": {"bad": 0.01 * number}} if per != "total" else {},
                {"safe": "a"},
            ]
        )
    )
    scales = Scales(cost=cost, reward=reward, penalty={"bad": penalty})
    known = given.get("costs")
    task = Task(arms, Named({"bad": limit}), scales, **given)  # as a file has it: it may never bind
    reports = st.tuples(st.sampled_from(arms), SHARES, SHARES, SHARES)
    rows = draw(st.lists(reports, max_size=4)) * draw(st.sampled_from([1, 60]))
    told = [(a, None if known else x * cost, y * reward, z * penalty) for a, x, y, z in rows]
    return task, budget, told


@settings(max_examples=300, deadline=None)
@given(histories(), st.sampled_from([1e-300, 1e-9, 0.01, 0.999999]))
def test_odd_numbers_have_an_outlook_whose_bounds_are_in_order(history, doubt) -> None:
    task, budget, rows = history
    controller = Controller(task, Rotation(), budget)
    for row in rows:
        if controller.exhausted:
            break
        controller.tell(*row)
    outlook = controller.outlook(doubt)
    (bad,) = outlook.limits
    assert 0.0 <= bad.low <= bad.high
    assert 0.0 <= bad.chance <= 1.0
    assert 0.0 <= bad.chance_if_safe <= 1.0
    assert bad.rate is None or bad.rate >= 0.0
    assert outlook.pulls_left is None or outlook.pulls_left >= 0.0
    assert outlook.reward is None or outlook.reward >= 0.0
    assert all("refute" in fact and "\n" not in fact for fact in outlook.refuted)
    assert str(outlook)


def test_reports_that_refute_a_declaration_are_told() -> None:
    task = Task(["a"], {"bad": Limit(0.5)}, safe="a", safe_rates={"bad": 0.01})
    outlook = told(task, RISKY, 1000.0, [(200, "a", 1.0, 1.0, 0.4)])
    (bad,) = outlook.limits
    assert bad.low <= 0.4 <= bad.high
    assert (bad.promised, bad.chance < 1.0) == (False, False)
    (fact,) = outlook.refuted
    assert fact.startswith("the reports of arm 'a' refute that it is safe: its rate of bad is at ")
    assert fact in str(outlook)


# --- the estimate -------------------------------------------------------------------------


def test_an_estimate_is_marked_as_one_and_changes_nothing() -> None:
    task = Task(["a", "b"], {"bad": Limit(0.3)})
    controller = Controller(task, Resolve(), 200.0)
    assert controller.outlook(estimate=True).limits[0].estimate is None  # before the first cost
    for turn in range(60):
        controller.tell(turn % 2, 1.0, 0.5, float(turn % 4 == 0))
    before = controller.snapshot()
    plain, outlook = controller.outlook(), controller.outlook(estimate=True)
    assert controller.snapshot() == before
    assert (plain.forward, plain.limits[0].estimate) == (0, None)
    assert "estimated" not in str(plain)
    assert outlook.forward == 200
    assert "estimated from 200 forward runs of the policy; not proved" in str(outlook)
    assert outlook == controller.outlook(estimate=True)
    assert outlook.limits[0].chance == plain.limits[0].chance


@pytest.mark.parametrize("label", ["lyon", "resolve", "lyon:window0=2", "resolve:watch=0.05"])
def test_what_is_certain_is_estimated_so(label: str) -> None:
    """An arm that never incurs a penalty, and two that always do."""
    policy, limits = parse_policy(label), {"bad": Limit(0.5)}
    good = Controller(Task(["a"], limits), policy, 300.0)
    bad = Controller(Task(["a", "b"], limits), policy, 300.0)
    for turn in range(120):
        good.tell(0, 1.0, 0.5, 0.0)
        bad.tell(turn % 2, 1.0, 0.5, 1.0)
    assert good.outlook(estimate=True).limits[0].estimate == 0.0
    assert bad.outlook(estimate=True).limits[0].estimate == 1.0


def test_retired_arms_are_not_pulled_in_forward_runs() -> None:
    controller = Controller(Task(["a", "b"], {"bad": Limit(0.5)}), UniformRandom(), 400.0)
    for turn in range(100):
        controller.tell(turn % 2, 1.0, 0.5, float(turn % 2))
    assert 0.2 < controller.outlook(estimate=True).limits[0].estimate < 0.8  # type: ignore[operator]
    controller.retire_arm("b")
    assert controller.outlook(estimate=True).limits[0].estimate == 0.0


@pytest.mark.parametrize(
    "limit", [Limit(0.25, per="pull"), Limit(0.5, per="reward"), Limit(total=50), Limit(0.5)]
)
def test_an_estimate_for_every_kind_of_limit(limit: Limit) -> None:
    """One arm whose penalty is at the limit: ends above it about half of the time."""
    controller = Controller(Task(["a"], {"bad": limit}), LyOn(), 100.0)
    for turn in range(100):
        controller.tell(0, 0.5, 0.5, float(turn % 4 == 0))
    assert 0.2 < controller.outlook(estimate=True).limits[0].estimate < 0.8  # type: ignore[operator]


def test_known_prices_and_shares_are_as_they_are_in_forward_runs() -> None:
    """A cost of 0.5 for a reward of 0.25: twice as much."""
    for limit, expected in ((2.5, 0.0), (1.5, 1.0)):
        limits = {"price": Limit(limit, of="cost", per="reward")}
        controller = Controller(Task(["a"], limits, costs={"a": 0.5}), Resolve(), 200.0)
        for _ in range(200):
            controller.tell(0, reward=0.25)
        assert controller.outlook(estimate=True).limits[0].estimate == expected


@pytest.mark.parametrize("mixed", [False, True], ids=["features", "mixed"])
@pytest.mark.parametrize("label", ["resolve", "resolve:risk=0.1", "lyon", "ts-lp:update=true"])
def test_estimates_with_features(label: str, mixed: bool) -> None:
    """Arm a is bad for large x, arm b for small x; ts-lp ignores features."""
    contexts: Any = Mixed(["u", "v"], ["x"]) if mixed else Features(["x"])
    task = Task(["a", "b"], {"bad": Limit(0.5, per="pull")}, costs=1, contexts=contexts)
    controller: Any = Controller(task, parse_policy(label), 400.0)
    assert controller.outlook(estimate=True).limits[0].estimate is None
    random = np.random.default_rng(4)
    for turn in range(150):
        x = float(random.normal())
        arm = controller.ask(context=("uv"[turn % 2], [x]) if mixed else [x])
        bad = random.random() < (0.5 + 0.4 * np.tanh(x) * (1 if arm == 0 else -1))
        controller.tell(arm, reward=0.5, penalty=float(bad))
    before = controller.snapshot()
    outlook = controller.outlook(estimate=True)
    assert controller.snapshot() == before
    assert outlook.forward == 200
    [limit] = outlook.limits
    low, middle, high = limit.expected
    assert 0.0 <= low <= middle <= high <= 1.0
    if label == "resolve":
        assert 0.25 < middle < 0.45  # 0.27 if every request takes its better arm
        assert limit.estimate < 0.2


def test_retired_arms_are_not_pulled_in_forward_runs_with_features() -> None:
    task = Task(["a", "b"], {"bad": Limit(0.4, per="pull")}, costs=1, contexts=Features(["x"]))
    controller: Any = Controller(task, Resolve(), 400.0)
    for turn in range(150):
        arm = controller.ask(context=[turn % 7])
        controller.tell(arm, reward=0.5, penalty=1.0 if arm == 0 else 0.0)
    assert controller.outlook(estimate=True).limits[0].estimate < 0.1
    controller.retire_arm("b")
    assert controller.outlook(estimate=True).limits[0].estimate > 0.9


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_what_is_certain_with_features_is_estimated_so(penalty: float) -> None:
    task = Task(["a", "b"], {"bad": Limit(0.5, per="pull")}, costs=1, contexts=Features(["x"]))
    controller: Any = Controller(task, Resolve(), 300.0)
    for turn in range(150):
        controller.tell(controller.ask(context=[turn % 7]), reward=0.5, penalty=penalty)
    assert controller.outlook(estimate=True).limits[0].estimate == penalty


def test_a_run_that_is_too_long_has_no_estimate() -> None:
    controller = Controller(Task(["a", "b"], {"bad": Limit(0.3)}), LyOn(), 1e7)
    controller.tell(0, 1.0, 0.5, 0.0)
    assert controller.outlook(estimate=True).limits[0].estimate is None


def test_of_runs_with_an_estimate_about_as_many_end_above() -> None:
    """Random problems at 60 % of the budget; `python -m benchmarks.estimates` has more runs."""
    pairs = [
        pair
        for number, problem in enumerate(problems(30))
        for label in ("resolve", "lyon-ts")
        for seed in seeds(5, number, label)
        for pair in looks(problem, label, 100.0, seed, parts=(0.6,))
    ]
    found = by_estimate(pairs, (0.0, 0.05, 0.15, 0.4, 0.7, 1.0))
    for count, mean, above in found:
        assert count > 10
        assert abs(above - mean) <= 3.0 * math.sqrt(mean * (1.0 - mean) / count) + 1.0 / count


def test_a_share_of_pulls_ends_at_most_at_one_and_a_risk_without_a_safe_arm_is_aimed_at() -> None:
    task = Task(["a", "b"], {"bad": Limit(0.05, per="pull")})
    controller = Controller(task, Resolve(risk=0.01), 100.0)
    for _ in range(3):
        controller.tell(controller.ask(), 0.5, 0.5, 1.0)
    outlook = controller.outlook()
    assert outlook.limits[0].high == 1.0
    assert outlook.aimed
    assert outlook.promise == "risk = 0.01 is aimed at, not proved: no arm is declared safe"
