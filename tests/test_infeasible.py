"""Limits that no mixture of the arms keeps: said in one line, wherever a problem is given."""

from __future__ import annotations

import warnings

import pytest

from tests.conftest import bernoulli_problem
from tightrope import Controller, LyOn, Problem, Resolve, simulate
from tightrope.errors import InfeasibleLimitsWarning
from tightrope.optimum.pi_star import infeasible
from tightrope.problem import Change

OUT_OF_REACH = bernoulli_problem([(0.4, 0.8, 0.6), (0.6, 0.6, 0.3)], 0.4)
REASON = "limit = 0.4: must be at least 0.5, the penalty rate of the least violating arm 'arm 2'"
SOUND = bernoulli_problem([(0.4, 0.8, 0.6), (0.6, 0.6, 0.3)], 0.5)
LATER = bernoulli_problem([(0.4, 0.8, 0.6), (0.6, 0.6, 0.9)], 0.5)


def changing(limit: float, at: float) -> Problem:
    return Problem(SOUND.arms, limit, changes=[Change(at, LATER.arms)])


def test_it_names_the_limit_and_the_least_rate() -> None:
    assert infeasible(OUT_OF_REACH) == REASON
    assert infeasible(SOUND) is None
    assert infeasible(bernoulli_problem([(0.4, 0.8)], None)) is None


def test_several_limits_that_cannot_be_kept_together() -> None:
    arms = [(1.0, 0.5, 0.2, 0.8), (1.0, 0.5, 0.8, 0.2)]
    assert infeasible(bernoulli_problem(arms, (0.5, 0.5))) is None
    assert infeasible(bernoulli_problem(arms, (0.5, 0.6))) is None
    reason = infeasible(bernoulli_problem(arms, (0.4, 0.4)))
    assert reason is not None
    assert reason.startswith("limit 1 = 0.4 and limit 2 = 0.4: must be kept together")
    assert "the least that a mixture can reach is 0.5 and 0.5" in reason


def test_an_arm_without_penalties_keeps_all_limits() -> None:
    free = bernoulli_problem([(0.5, 0.5, 0.0, 0.0), (0.5, 0.5, 0.5, 0.5)], (0.3, 3.0))
    assert infeasible(free) is None
    assert free.task.slack == pytest.approx(1.0)


def test_changing_arms_are_judged_over_all_phases_and_by_phase() -> None:
    assert infeasible(changing(1.0, 0.5)) is None  # 0.5 and then 1.5: 1 on the whole
    reason = infeasible(changing(0.9, 0.5))
    assert reason is not None
    assert reason.endswith(
        "; the least possible is 1.11111 times the limits; phase 2, from 0.5 of the budget on:"
        " limit = 0.9: must be at least 1.5, the penalty rate of the least violating arm 'arm 1'"
    )


def test_simulating_warns_once_in_one_line() -> None:
    with pytest.warns(InfeasibleLimitsWarning) as told:
        simulate(OUT_OF_REACH, [Resolve(), LyOn(delta0=0.0)], budgets=[20, 30], runs=2, **PLAIN)
    [message] = [str(one.message) for one in told]
    assert message == f"no mixture of the arms keeps the limits of the problem: {REASON}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulate(SOUND, Resolve(), budgets=20, runs=2, **PLAIN)


PLAIN = {"backend": "python", "progress": False}


def test_a_controller_warns_of_a_problem_but_cannot_of_a_task() -> None:
    with pytest.warns(InfeasibleLimitsWarning, match="limit = 0.4"):
        Controller(OUT_OF_REACH, LyOn(delta0=0.0), budget=100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Controller(OUT_OF_REACH.task, LyOn(delta0=0.0), budget=100)


@pytest.mark.parametrize("command", ["oracle", "theory --budget 100", "simulate --budget 20"])
def test_the_shell_says_it_in_one_line(command, shell, tmp_path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(OUT_OF_REACH.to_toml())
    name, *options = command.split()
    more = "--backend python --quiet --policy resolve --runs 2".split()
    status, _, err = shell(name, str(path), *options, *(more if name == "simulate" else []))
    assert REASON in err
    assert err.count("\n") == 1
    assert status == (0 if name == "simulate" else 2)
