"""Logs whose choices depend on earlier outcomes are told, and others are not; the long form is

python -m benchmarks.logs warnings
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.logs import logged, warned
from tightrope import Arm, Limit, Log, LyOn, Problem, load_problem, plan
from tightrope.data.adaptive import OUTCOMES, SHARES, caveat
from tightrope.errors import LogWarning, ProblemError


@pytest.mark.parametrize("logger", ["random", "in turn"])
def test_logs_of_choices_that_look_at_nothing_are_not_told(logger):
    found = warned(logger, 30)
    assert found.outcomes + found.shares <= 3  # of 30, 4 or more have a chance of 1 in 250


def test_shares_that_change_for_other_reasons_do_not_depend_on_outcomes():
    found = warned("changing shares", 20)
    assert found.outcomes <= 2
    assert found.shares > 2, "that they change is true"


@pytest.mark.parametrize(
    ("logger", "least"), [("greedy", 14), ("Thompson sampling", 14), ("epsilon-greedy", 12)]
)
def test_adaptive_logs_are_told(logger, least):
    found = warned(logger, 20)
    assert found.outcomes + found.shares >= least


def test_the_choices_of_an_index_depend_on_outcomes():
    assert warned("LyOn", 8).outcomes >= 7


def test_an_arm_that_is_left_after_bad_outcomes():
    """A bad outcome is followed by the other arm: shares stay, outcomes decide."""
    random = np.random.default_rng(1)
    bad, chosen = random.random(400) < 0.5, [0]
    for last in bad[:-1]:
        chosen.append(1 - chosen[-1] if last else chosen[-1])
    outcomes = np.array([np.ones(400), ~bad * 1.0, bad * 1.0])
    log = Log(["a", "b"], ["bad"], np.array(chosen), outcomes)
    assert caveat(log).startswith(OUTCOMES)
    assert not caveat(replace(log, chosen=random.permutation(log.chosen)))
    assert not caveat(replace(log, propensity=np.full(400, 0.5)))


def test_an_arm_that_is_left_for_good_after_its_first_row():
    chosen = np.ones(1000, np.int64)
    chosen[1] = 0
    log = Log(["a", "b"], [], chosen, np.ones((2, 1000)))
    assert caveat(log).startswith(SHARES)
    assert not caveat(replace(log, chosen=np.roll(chosen, 100)))


def test_a_log_that_is_sorted_by_arm_tells_nothing():
    outcomes = np.random.default_rng(2).random((3, 300))
    assert not caveat(Log(["a", "b", "c"], ["bad"], np.repeat([0, 1, 2], 100), outcomes))


def test_a_problem_keeps_the_caveat_of_its_log(tmp_path):
    log, truth = logged("LyOn", 0)
    with pytest.warns(LogWarning) as told:
        problem = Problem.from_log(log, {"bad": Limit(truth.limit, per="pull")})
    assert problem.caveat in [str(one.message) for one in told]
    assert problem.caveat.startswith(OUTCOMES)
    assert "--propensity" in problem.caveat
    problem.save(tmp_path / "log.toml")
    assert load_problem(tmp_path / "log.toml") == problem
    with pytest.raises(ProblemError, match="caveat = 1: must be a text"):
        Problem([Arm.from_rows("a", [(1, 1)])], limits={}, caveat=1)


def test_a_plan_says_it_again():
    arms = [Arm.from_rows(name, [(1, 1), (1, 0), (1, 1)] * 20) for name in "ab"]
    problem = Problem(arms, limits={}, caveat=f"{SHARES}, and so on")
    with pytest.warns(LogWarning, match="shares change along the log"):
        found = plan(problem, LyOn(), budgets=20, runs=10, draws=2, fan=False)
    assert any(problem.caveat in note for note in found.notes)
    assert problem.caveat in json.dumps(found.summary())
