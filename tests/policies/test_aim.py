"""Whether a risk can be aimed at: the penalties allowed per kind of limit, and where it is said."""

from __future__ import annotations

import math
import warnings

import pytest

from tightrope import (
    Arm,
    Bernoulli,
    Beta,
    Controller,
    Limit,
    Problem,
    Resolve,
    Scales,
    Task,
    open_campaign,
    simulate,
)
from tightrope.errors import RiskWarning
from tightrope.policies.aim import Usual, aim_of, declared_usual, penalties_allowed

ARMS = ["a", "b", "c"]
RISK = Resolve(risk=0.01)


def task(limit: object = "0.3 per cost", **more: object) -> Task:
    return Task(ARMS, {"bad": limit}, **more)


def plain(limit: object = "0.3 per cost", **more: object) -> Problem:
    """An arm a third below the limit, one a tenth and one far above it."""
    means = [(0.5, 0.5, 0.1), (0.6, 0.62, 0.2), (0.5, 0.7, 0.35)]
    arms = [
        Arm(name, Bernoulli(cost), Bernoulli(reward), [Bernoulli(penalty)])
        for name, (cost, reward, penalty) in zip(ARMS, means, strict=True)
    ]
    return Problem(arms, limits={"bad": limit}, **more)


@pytest.mark.parametrize(
    ("limit", "allowed"),
    [
        ("0.3 per cost", 30.0),
        ("12 in total", 12.0),
        ("0.3 per pull", 0.3 * 100 / 0.25),
        ("0.3 per reward", 1 / (1 / (0.3 * 400 * 0.4) + 1 / (400 * 0.4))),
    ],
)
def test_penalties_allowed(limit: str, allowed: float) -> None:
    usual = Usual(cost=0.25, reward=0.4, sizes=[1.0])
    assert penalties_allowed(task(limit), 100.0, usual) == [pytest.approx(allowed)]


def test_penalties_are_counted_in_their_usual_size() -> None:
    one = Usual(cost=0.5, reward=0.5, sizes=[0.1])
    assert penalties_allowed(task(), 100.0, one) == [pytest.approx(300.0)]


def test_a_limit_whose_penalties_are_known_allows_any_number() -> None:
    known = Task(ARMS, {"bad": "0.3 per pull"}, known={"bad": {"a": 0.1, "b": 0.2, "c": 0.5}})
    assert penalties_allowed(known, 10.0, declared_usual(known)) == [math.inf]


def test_usual_outcomes_are_the_declared_ones_else_half_the_largest() -> None:
    assert declared_usual(task()) == Usual(0.5, 0.5, [1.0])
    costs = task(costs=2.0, scales=Scales(cost=4.0), expected={"a": {"reward": 0.2}})
    assert declared_usual(costs) == Usual(0.5, pytest.approx(0.4), [1.0])


def test_the_slack_that_is_needed_and_the_budget_from_which_a_third_is_enough() -> None:
    aim = aim_of(RISK, task(), 300.0)
    assert aim is not None
    assert aim.slack == pytest.approx(2.5 * math.sqrt(3 / 90), rel=0.001)
    assert aim.budget == pytest.approx(300 * (3 * aim.slack) ** 2)
    assert aim_of(RISK, task(), aim.budget * 0.999) is not None
    assert aim_of(RISK, task(), aim.budget * 1.001) is None
    assert str(aim) == (
        "risk = 0.01 can be aimed at only if some arm stays 46% below its limit: limit 'bad' = 0.3"
        " allows about 90 penalties, with 3 arms to distinguish. If one stays a third below, it"
        " can from a budget of 560 on. A declared safe arm makes it a promise"
    )


def test_a_budget_is_in_the_users_units() -> None:
    cents = Task(ARMS, {"bad": Limit(0.003)}, scales=Scales(cost=100.0))
    aim, same = aim_of(RISK, cents, 300.0), aim_of(RISK, task(), 300.0)
    assert aim is not None
    assert same is not None
    assert aim.budget == pytest.approx(100.0 * (same.budget or 0.0))


def test_fewer_penalties_than_arms_cannot_be_aimed_with() -> None:
    text = str(aim_of(RISK, task("5% per pull"), 50.0))
    assert text.startswith("risk = 0.01 cannot be aimed at, whatever the arms are: limit 'bad'")


def test_a_limit_in_total_allows_as_much_at_every_budget() -> None:
    aim = aim_of(RISK, task("30 in total"), 300.0)
    assert aim is not None
    assert aim.budget is None
    assert "from a budget" not in str(aim)


def test_a_declared_slack_counts_in_place_of_a_third() -> None:
    assert aim_of(RISK, task(slack=0.6), 300.0) is None
    aim = aim_of(RISK, task(slack=0.2), 1000.0)
    assert aim is not None
    assert "If one stays 20% below, as is known, it can from" in str(aim)


def test_a_larger_risk_needs_less_slack() -> None:
    assert aim_of(Resolve(risk=0.2), task(), 300.0) is None


@pytest.mark.parametrize(("risk", "factor"), [(0.001, 3.16), (0.05, 1.91), (0.2, 1.22), (0.9, 0.5)])
def test_the_slack_of_other_risks(risk: float, factor: float) -> None:
    aim = aim_of(Resolve(risk=risk), task(slack=0.01), 100.0)
    assert aim is not None
    assert aim.slack == pytest.approx(factor * math.sqrt(3 / 30), rel=0.005)


@pytest.mark.parametrize(
    ("policy", "known"),
    [
        (Resolve(), task()),
        (RISK, Task(ARMS)),
        (RISK, task(safe="a")),
    ],
    ids=["no risk", "no limit", "a safe arm"],
)
def test_nothing_is_said_without_a_risk_or_a_limit_or_under_the_guard(
    policy: Resolve, known: Task
) -> None:
    assert aim_of(policy, known, 10.0) is None


def test_a_safe_arm_that_the_guard_cannot_use_changes_nothing() -> None:
    assert aim_of(Resolve(risk=0.01, watch=0.01), task(safe="a"), 10.0) is not None


def test_a_simulation_warns_once_by_its_smallest_budget() -> None:
    with pytest.warns(RiskWarning, match="stays 33% below, as is known, it can from") as caught:
        simulate(plain(), RISK, budgets=[300, 200], runs=2, backend="python")
    assert [one.filename for one in caught] == [__file__]
    assert "budget 200" in str(caught[0].message)


@pytest.mark.parametrize(("limit", "below"), [("0.15 per pull", "33%"), ("0.3 per reward", "33%")])
def test_slack_is_of_what_the_limit_is_per(limit: str, below: str) -> None:
    with pytest.warns(RiskWarning, match=f"stays {below} below, as is known"):
        simulate(plain(limit), RISK, budgets=200, runs=1, backend="python")


def test_a_simulation_knows_costs_and_sizes() -> None:
    arms = [Arm(name, Bernoulli(0.5), Bernoulli(0.5), [Beta(2.0, 198.0)]) for name in ARMS]
    problem = Problem(arms, limit=0.04)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulate(problem, RISK, budgets=300, runs=1, backend="python")


def test_a_campaign_warns_when_it_is_created_and_not_afterwards(tmp_path) -> None:
    path = tmp_path / "spring.db"
    with pytest.warns(RiskWarning, match="campaign 'spring': risk = 0.01 can be aimed at only if"):
        open_campaign(path, "spring", task=task(), budget=300, policy=RISK).disconnect()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RiskWarning)
        open_campaign(path, "spring").disconnect()


def test_an_outlook_says_it_until_the_reports_say_otherwise() -> None:
    controller = Controller(task(), RISK, budget=300)
    said = controller.outlook()
    assert said.out_of_reach in said.facts()
    for _ in range(30):
        controller.tell(controller.ask(), 0.5, 1.0, [0.01])
    assert controller.outlook().out_of_reach is None
    assert Controller(task(), Resolve(), budget=300).outlook().out_of_reach is None
