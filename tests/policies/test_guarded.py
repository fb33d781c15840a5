"""resolve under the guard: when it runs, that every engine runs the same, what it keeps."""

from __future__ import annotations

import pickle
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
    Uniform,
    ready_problem,
    simulate,
)
from tightrope.errors import OutsideTheoryWarning
from tightrope.policies.base import set_up
from tightrope.policies.guarded import GuardedResolve
from tightrope.statistics import wilson

RISKY = Resolve(risk=0.01)
Kind = Constant | Uniform


@pytest.fixture(scope="module")
def declared() -> Problem:
    """Figure 1's arms, the second of which is known to incur 0.5 per unit of cost."""
    return replace(ready_problem("paper"), safe=1, safe_rates={"penalty": 0.5})


def test_the_guard_runs_where_it_can_promise(declared: Problem) -> None:
    guarded = RISKY.for_task(declared)
    assert type(guarded) is GuardedResolve
    assert guarded.label == "resolve:risk=0.01"
    assert guarded.for_task(declared) == guarded
    assert Resolve().for_task(declared) == Resolve()
    assert RISKY.for_task(ready_problem("paper")) is RISKY
    assert RISKY.for_task(Task(["a"], safe="a")) is RISKY
    for forgetful in (Resolve(risk=0.01, window0=2.0), Resolve(risk=0.01, discount0=2.0)):
        assert forgetful.for_task(declared) is forgetful


def test_a_policy_that_forgets_says_that_it_promises_nothing(declared: Problem) -> None:
    with pytest.warns(OutsideTheoryWarning, match="window0 = 2 is for arms that change, so"):
        simulate(
            declared, [Resolve(risk=0.01, window0=2.0)], budgets=[20], runs=1, backend="python"
        )


def bad_arms(count: int, cost: Kind, limit: Limit | dict, **declared) -> Problem:
    """A safe arm that incurs 0.03 a pull in the middle of bad ones that earn more."""
    bad = [Arm(f"bad {k}", cost, Bernoulli(0.9), [Bernoulli(0.1)]) for k in range(count)]
    safe = Arm("safe", cost, Bernoulli(0.5), [Bernoulli(0.03)])
    arms = [*bad[: count // 2], safe, *bad[count // 2 :]]
    return Problem(arms, limits={"bad": limit}, safe="safe", **declared)


def per(base: str, *rates: float) -> Problem:
    """Random costs, and a limit per pull or per reward."""
    return bad_arms(
        2,
        Uniform(0.1, 0.9),
        Limit(0.3, per=base),
        safe_rates=dict(zip(["bad"], rates, strict=False)),
    )


def test_the_guard_is_off_where_the_safe_arm_is_known_to_break_a_limit() -> None:
    task = Task(["old", "new"], {"tried": "at least 20% for new"}, safe="old")
    assert RISKY.for_task(task) is RISKY
    warning = set_up(RISKY, task, 100.0).warning
    assert warning is not None
    assert "the safe arm 'old' breaks it, so risk = 0.01 is only a target" in warning
    tried = Task(["old", "new"], {"tried": "at most 20% for new"}, safe="old")
    assert type(RISKY.for_task(tried)) is GuardedResolve
    assert Controller(tried, RISKY, 100).outlook().limits[0].promised


@pytest.mark.parametrize("rates", [{"penalty": 0.5}, {}])
def test_compiled_and_plain_runs_are_the_same(declared: Problem, rates: dict) -> None:
    same_in_plain_python(replace(declared, safe_rates=rates))


@pytest.mark.parametrize(
    "problem",
    [
        per("pull", 0.03),
        per("pull"),
        per("reward", 0.06),
        per("reward"),
        bad_arms(2, Constant(1.0), Limit(0.1, per="pull"), costs=1, safe_rates={"bad": 0.03}),
    ],
    ids=["pull", "pull, learned", "reward", "reward, learned", "pull, known costs"],
)
def test_compiled_and_plain_runs_are_the_same_per_pull_and_reward(problem: Problem) -> None:
    same_in_plain_python(problem)


def same_in_plain_python(problem: Problem) -> None:
    plain, fast = (
        simulate(problem, [RISKY], budgets=[30, 150], runs=4, seed=3, backend=backend)
        for backend in ("python", "cpu")
    )
    assert plain == fast


@pytest.mark.parametrize("cost", [Constant(1.0), Uniform(0.1, 0.9)], ids=["1", "random"])
@pytest.mark.parametrize(("bad", "budget"), [(1, 500), (12, 200)])
def test_a_limit_per_pull_is_kept_among_bad_arms(cost: Kind, bad: int, budget: float) -> None:
    """Without the guard 6 and 93 % of runs break it; where it is broken the safe arm did it."""
    known = {"costs": 1} if isinstance(cost, Constant) else {}
    limit = Limit(0.05, per="pull")
    problem = bad_arms(bad, cost, limit, safe_rates={"bad": 0.03}, **known)
    runs, safe = 1000, problem.names.index("safe")
    made = simulate(problem, [RISKY], budgets=[budget], runs=runs, seed=1)[RISKY.label].runs
    pulls, penalty = made.pulls[0].sum(axis=1), made.penalty[0, :, 0]
    others = made.pulls[0, :, safe] < pulls
    assert wilson(int((others & (penalty > 0.05 * pulls * (1 + 1e-9))).sum()), runs)[0] <= 0.01
    assert others.any()


def test_the_limit_is_kept_where_resolve_alone_breaks_it() -> None:
    """At B = 100 resolve:risk=0.01 breaks this limit in two runs of a hundred."""
    problem = ready_problem("arena-random-5")
    rates = problem.moments.penalty_rate[:, 0]
    safe = int(np.argmin(rates))
    known = replace(problem, safe=safe, safe_rates={"penalty": float(rates[safe])})
    limit, runs = problem.limits[0] * 100.0 * (1.0 + 1e-9), 2000
    broken = {}
    for name, one in (
        ("alone", problem),
        ("guarded", known),
        ("safe", replace(known, safe_rates={})),
    ):
        made = simulate(one, [RISKY], budgets=[100], runs=runs, seed=5)[RISKY.label].runs
        broken[name] = wilson(int((made.penalty[0, :, 0] > limit).sum()), runs)
        if name == "guarded":
            assert (made.pulls[0, :, safe] < made.pulls[0].sum(axis=1)).mean() > 0.9
    assert broken["alone"][0] > RISKY.risk
    assert broken["guarded"][1] < 0.01
    assert broken["safe"][1] < 0.01


def test_a_guarded_controller_is_saved_whole(declared: Problem) -> None:
    controller = Controller(declared.task, RISKY, budget=100, seed=2)
    assert type(controller.policy) is GuardedResolve
    random = np.random.default_rng(0)
    for _ in range(60):
        arm = controller.ask()
        controller.tell(arm, *random.integers(0, 2, 3).astype(float).tolist())
    saved = controller.snapshot()
    for again in (
        Controller.restore(saved),
        Controller.restore(saved, RISKY),
        pickle.loads(pickle.dumps(controller)),
        controller.copy(),
    ):
        assert again == controller
        assert _asked(again, 20) == _asked(controller, 20)


def _asked(controller: Controller, count: int) -> list[int]:
    copy = controller.copy()
    return [copy.ask() for _ in range(count)]
