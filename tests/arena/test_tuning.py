"""Tuning: the setting found keeps to what is allowed on draws it was not chosen on."""

from __future__ import annotations

import pytest
from matplotlib.colors import rgb_to_hsv, to_hex, to_rgb

from tightrope import Arm, Bernoulli, LyOff, LyOn, Problem, ready_problem, simulate
from tightrope.arena.tuning import tune
from tightrope.errors import InfeasibleLimitsWarning, PolicyError, ProblemError
from tightrope.policies import UCBBwI
from tightrope.report.figures import draw


@pytest.fixture(scope="module")
def tuned():
    return tune(ready_problem("paper"), LyOff(), budget=400, runs=600, seed=3, progress=False)


def test_it_earns_more_than_the_default_setting_allows(tuned):
    """LyOff's own delta0 breaks the limit here; the setting found does not, on fresh draws."""
    default = simulate(ready_problem("paper"), LyOff(), budgets=400, runs=600).summary()[0]
    assert default["violation_interval"][0] > 0
    assert tuned.feasible
    assert tuned.chosen.worst < 4 * tuned.chosen.violation[0].error
    assert tuned.chosen.reward_rate.mean > 1.25
    assert tuned.policy.label == tuned.chosen.policy
    assert isinstance(tuned.policy, LyOff)


def test_the_chosen_setting_is_the_best_that_keeps_to_it(tuned):
    kept = [row for row in tuned.rows if row.violation[0].interval[1] <= 0]
    best = max(kept, key=lambda row: row.reward_rate.mean)
    assert best.policy == tuned.policy.label
    assert best.reward_rate.mean != tuned.chosen.reward_rate.mean  # it was run again


def test_the_frontier_is_not_beaten(tuned):
    rewards = [row.reward_rate.mean for row in tuned.frontier]
    violations = [row.worst for row in tuned.frontier]
    assert rewards == sorted(rewards)
    assert violations == sorted(violations)
    for row in tuned.rows:
        above = [f for f in tuned.frontier if f.worst <= row.worst]
        assert max(f.reward_rate.mean for f in above) >= row.reward_rate.mean


def test_settings_stay_inside_the_theory(tuned):
    for row in (*tuned.coarse, *tuned.rows):
        assert LyOff(delta0=row.delta0).schedule.at(400)[1] < 0.8


def test_the_picture_shows_what_was_tried(tuned):
    trade_off, settings = tuned.panels()
    assert len(trade_off.curves[0].x) == len(tuned.coarse) + len(tuned.rows)
    assert trade_off.curves[2].x[0] == tuned.chosen.worst
    assert len(settings.curves) == 4
    assert draw(tuned.panels(), columns=2).get_size_inches()[0] > 5


def test_every_curve_of_the_picture_looks_different(tuned):
    (legend,) = draw(tuned.panels(), columns=2).legends
    marks = [mark for mark in legend.legend_handles if mark.get_marker() not in ("", "None")]
    assert len(marks) == 3 + 4
    assert len({to_hex(mark.get_color()) for mark in marks}) == 7
    assert len({mark.get_marker() for mark in marks}) == 7
    grades = [rgb_to_hsv(to_rgb(one.style.colour))[2] for one in tuned.panels()[1].curves]
    assert grades == sorted(grades, reverse=True), "darker as delta0 grows"


def test_a_stricter_promise_earns_less(tuned):
    strict = tune(
        ready_problem("paper"), LyOff(), budget=400, max_violation=-0.1, runs=600, progress=False
    )
    assert strict.chosen.worst < -0.09
    assert strict.chosen.reward_rate.mean < tuned.chosen.reward_rate.mean


def test_two_limits_are_both_kept():
    arms = [
        Arm("a", Bernoulli(0.4), Bernoulli(0.8), [Bernoulli(0.6), Bernoulli(0.5)]),
        Arm("b", Bernoulli(0.6), Bernoulli(0.6), [Bernoulli(0.3), Bernoulli(0.1)]),
    ]
    found = tune(Problem(arms, limit=(0.8, 0.5)), budget=2000, runs=200, progress=False)
    assert found.feasible
    assert isinstance(found.policy, LyOn)
    assert all(one.mean < 4 * one.error for one in found.chosen.violation)


def test_what_cannot_be_tuned():
    with pytest.raises(PolicyError, match="ucb-bwi"):
        tune(ready_problem("paper"), UCBBwI(), budget=100)
    free = Problem([Arm("a", Bernoulli(0.5), Bernoulli(0.5))], limit=None)
    with pytest.raises(ProblemError, match="no limit"):
        tune(free, budget=100)


def test_where_nothing_keeps_to_it_the_least_violating_is_chosen():
    tight = Problem([Arm("a", Bernoulli(0.5), Bernoulli(0.5), Bernoulli(0.45))], limit=0.8)
    with pytest.warns(InfeasibleLimitsWarning, match="limit = 0.8: must be at least 0.9") as told:
        found = tune(tight, budget=100, runs=60, progress=False)
    assert len([one for one in told if one.category is InfeasibleLimitsWarning]) == 1
    assert not found.feasible
    assert found.chosen.worst > 0
