"""The arena's problems over intervals: what they are, and which policies learn a curve."""

from __future__ import annotations

import pytest

from tightrope import Problem, arena, oracle, ready_problem
from tightrope.arena.contest import facts_of, matches_of, policies_of, scenes_of
from tightrope.arena.interval_problems import ALL_INTERVALS, LISTED
from tightrope.problem.ready import ready_names

BID = "arena-intervals-bid"


@pytest.mark.parametrize("name", LISTED)
def test_every_problem_is_feasible_and_its_limit_binds(name):
    problem = ready_problem(name)
    assert name in ready_names()
    assert all(price > 0.0 for price in oracle(problem).multiplier)
    assert 0.0 < scenes_of([name])[name].slack <= 1.0
    assert Problem.from_toml(problem.to_toml()) == problem


def test_the_best_bid_has_a_closed_form():
    best = oracle(ready_problem(BID))
    assert best.reward_rate == pytest.approx(0.25 * 0.6)  # a bid of 0.6 pays 0.6^2 / 2 = 0.18


def test_rows_say_which_policies_learn_a_curve():
    scenes, named = scenes_of([ALL_INTERVALS]), policies_of(["resolve", "lyon", "uniform-random"])
    assert list(scenes) == list(LISTED)
    matches, _ = matches_of(scenes, named, [100.0], ())
    types = {match.label: match.types for match in matches}
    assert types == {"resolve": "curve", "lyon": "curve", "uniform-random": "points"}


def test_tables_and_the_command_name_intervals():
    found = arena([ALL_INTERVALS], ["uniform-random"], [20], runs=2, progress=False)
    assert "points" in found._repr_html_()
    [again] = [text for name, text in facts_of(found.rows, 2, 0) if name == "Again"]
    assert again.startswith(f"tightrope arena --problem {ALL_INTERVALS} --policy uniform-random")
