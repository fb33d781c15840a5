"""The guard with types of requests: when it runs, what it keeps, why every type must be safe."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tightrope import (
    Arm,
    Bernoulli,
    Constant,
    Controller,
    Limit,
    Problem,
    Resolve,
    Task,
    Types,
    simulate,
)
from tightrope.errors import OutsideTheoryWarning, ProblemError
from tightrope.policies.guarded import GuardedTypedResolve
from tightrope.policies.typed import TypedResolve
from tightrope.statistics import wilson

RISKY = Resolve(risk=0.01)


def coins(name: str, reward: float, penalty: float) -> Arm:
    return Arm(name, Constant(1), Bernoulli(reward), [Bernoulli(penalty)])


def problem_of(safe: tuple[float, float], other: tuple[float, float], **declared) -> Problem:
    """Two equally frequent types; penalties of a safe arm and of a tempting one, by type."""
    kinds = ("math", "code")
    arms = {
        kind: [coins("tempting", 0.9, bad), coins("safe", 0.4, good)]
        for kind, good, bad in zip(kinds, safe, other, strict=True)
    }
    limits = {"bad": Limit(0.06, per="pull")}
    shares = dict.fromkeys(kinds, 1)
    return Problem(arms, contexts=shares, limits=limits, costs=1, safe="safe", **declared)


def broken(problem: Problem, budget: int, runs: int) -> int:
    found = simulate(problem, [RISKY], budgets=[budget], runs=runs, seed=3)[RISKY.label].runs
    return int(np.sum(found.penalty[0, :, 0] > 0.06 * found.pulls[0].sum(axis=1)))


def test_rates_are_declared_for_every_type() -> None:
    task = Task(
        ["tempting", "safe"],
        {"bad": Limit(0.06, per="pull")},
        safe="safe",
        safe_rates={"bad": {"math": 0.01, "code": 0.03}},
        contexts=Types(["math", "code"]),
    )
    assert task.safe_rates == {"bad": 0.03}
    assert type(RISKY.for_task(task)) is GuardedTypedResolve
    assert type(Resolve().for_task(task)) is TypedResolve
    with pytest.raises(ProblemError, match=r"must be a rate for each type, math, code"):
        replace(task, safe_rates={"bad": {"math": 0.01}})
    with pytest.raises(ProblemError, match=r"= 0.09: must lie between 0 and 0.06, the limit"):
        replace(task, safe_rates={"bad": {"math": 0.01, "code": 0.09}})
    with pytest.raises(ProblemError, match=r"must be one number"):
        replace(task, contexts=None, safe_rates={"bad": {"math": 0.01, "code": 0.03}})


def test_without_rates_the_risk_is_only_a_target() -> None:
    problem = problem_of((0.01, 0.03), (0.3, 0.3))
    assert type(RISKY.for_task(problem)) is TypedResolve
    with pytest.warns(OutsideTheoryWarning, match="needs safe_rates of 'bad' that hold for every"):
        simulate(problem, [RISKY], budgets=[20], runs=1, backend="python")


def test_every_engine_runs_the_same() -> None:
    problem = problem_of((0.01, 0.03), (0.02, 0.3), safe_rates={"bad": 0.03})
    plain = simulate(problem, [RISKY], budgets=[600], runs=3, backend="python")[RISKY.label].runs
    compiled = simulate(problem, [RISKY], budgets=[600], runs=3, backend="cpu")[RISKY.label].runs
    np.testing.assert_array_equal(plain.pulls, compiled.pulls)
    np.testing.assert_array_equal(plain.penalty, compiled.penalty)
    assert plain.pulls[..., 0].min() > 0, "the tempting arm is used where it is allowed"


def test_a_run_with_a_safe_arm_keeps_its_risk() -> None:
    """The other arm is far above the limit for one type, and the guard still uses it."""
    problem = problem_of((0.01, 0.03), (0.02, 0.5), safe_rates={"bad": 0.03})
    runs = 2000
    count = broken(problem, 400, runs)
    assert wilson(count, runs)[0] <= 0.01, f"{count} of {runs} broken"


def test_an_arm_that_is_safe_on_average_over_types_is_not_safe() -> None:
    """Why rates must hold for every type.

    The safe arm incurs 0.05 on average, below the limit of 0.06; but 0.09 for code. The other arm
    incurs 0.055 and earns more for math, so math goes to it and code to the safe arm: the average
    is then above the limit.
    """
    problem = problem_of((0.01, 0.09), (0.055, 1.0), safe_rates={"bad": 0.05})
    runs = 500
    count = broken(problem, 1000, runs)
    assert wilson(count, runs)[0] > 0.05, f"only {count} of {runs} broken"


def test_the_controller_keeps_the_guard_per_type() -> None:
    task = problem_of((0.01, 0.03), (0.02, 0.5), safe_rates={"bad": 0.03}).stated
    controller = Controller(task, RISKY, 50)
    assert controller.arm_name(controller.ask(context="code")) == "safe", "no promise is made yet"
    controller.tell("safe", reward=1, penalty={"bad": 0}, context="code")
    assert controller.outlook().limits[0].chance <= 1.0
    again = Controller.restore(controller.snapshot())
    assert again.ask(context="math") == controller.ask(context="math")
