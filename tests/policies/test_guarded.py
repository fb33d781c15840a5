"""resolve under the guard: when it runs, that every engine runs the same, what it keeps."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from tightrope import Controller, Problem, Resolve, Task, ready_problem, simulate
from tightrope.errors import OutsideTheoryWarning
from tightrope.policies.guarded import GuardedResolve
from tightrope.statistics import wilson

RISKY = Resolve(risk=0.01)


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
    with pytest.warns(OutsideTheoryWarning, match="window0 = 2 is for arms that change, so that"):
        simulate(
            declared, [Resolve(risk=0.01, window0=2.0)], budgets=[20], runs=1, backend="python"
        )


@pytest.mark.parametrize("rates", [{"penalty": 0.5}, {}])
def test_compiled_and_plain_runs_are_the_same(declared: Problem, rates: dict) -> None:
    problem = replace(declared, safe_rates=rates)
    plain, fast = (
        simulate(problem, [RISKY], budgets=[30, 150], runs=4, seed=3, backend=backend)
        for backend in ("python", "cpu")
    )
    assert plain == fast


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
