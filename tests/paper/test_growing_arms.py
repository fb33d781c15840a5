from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from tightrope import LyOn, simulate
from tightrope.paper import EXPERIMENTS, Evidence
from tightrope.paper.growing_arms import FIGURE2, FIGURE3, LOOKS
from tightrope.report.figures import draw
from tightrope.report.rows import interval, mean

ARMS = [2, 10, 20, 50, 100]


def small(experiment):
    calls = [replace(call, budgets=(1000, 3000)) for call in experiment.sweep]
    with warnings.catch_warnings(action="ignore"):
        results = [
            simulate(call.load(), call.policies, budgets=call.budgets, runs=16, progress=False)
            for call in calls
        ]
    return Evidence(calls, results)


@pytest.fixture(scope="module")
def evidence():
    return {experiment.name: small(experiment) for experiment in (FIGURE2, FIGURE3)}


@pytest.mark.parametrize(("experiment", "delta0"), [(FIGURE2, 0.5), (FIGURE3, 15.0)])
def test_the_sweep_is_the_papers(experiment, delta0):
    assert EXPERIMENTS[experiment.name] is experiment
    assert [call.load().arm_count for call in experiment.sweep] == ARMS
    for call in experiment.sweep:
        assert call.policies == (LyOn(v0=1.0, delta0=delta0, alpha=2.0, beta0=1.0),)
        assert (min(call.budgets), max(call.budgets)) == (1000, 100_000)
        moments, pairs = call.load().moments, np.arange(call.load().arm_count // 2)
        assert moments.limits.tolist() == [0.8]
        for arm, cost, earned in ((0, 0.4, 0.6), (1, 0.6, 0.3)):
            assert moments.cost[arm::2] == pytest.approx(cost * 1.005**pairs)
            assert moments.reward[arm::2] == pytest.approx(earned * 1.01**pairs)
            assert moments.penalty[arm::2, 0] == pytest.approx(earned * 1.01**pairs)


@pytest.mark.parametrize("experiment", [FIGURE2, FIGURE3], ids=lambda e: e.name)
def test_panels_show_the_rows(experiment, evidence):
    found = evidence[experiment.name]
    for panel, metric in zip(experiment.panels(found), ("reward_rate", "violation"), strict=True):
        assert [one.name for one in panel.curves] == [f"K = {count}" for count in ARMS]
        for one, call in zip(panel.curves, found.calls, strict=True):
            rows = found.rows_of(call.problem, call.policies[0])
            assert one.x.tolist() == [1000, 3000]
            assert one.y.tolist() == [mean(row, metric) for row in rows]
            assert one.low.tolist() == [interval(row, metric)[0] for row in rows]


def test_every_number_of_arms_has_the_same_two_reference_lines(evidence):
    reward, violation = FIGURE2.panels(evidence["fig2"])
    assert [line.role for line in reward.references] == ["optimum", "stationary"]
    for line in reward.references:
        assert line.y == pytest.approx(0.8)
    assert [line.role for line in violation.references] == ["limit"]


def test_points_outside_the_theory_are_hollow(evidence):
    for one in FIGURE2.panels(evidence["fig2"])[0].curves:
        assert one.hollow.tolist() == [False, False]
    for one in FIGURE3.panels(evidence["fig3"])[1].curves:
        assert one.hollow.tolist() == [True, False]


def test_reward_rate_is_the_violation_plus_the_limit(evidence):
    """What the note says of these arms: within five standard errors, at every point."""
    for row in (row for found in evidence.values() for row in found.rows):
        error = np.hypot(row.reward_rate.error, row.violation[0].error)
        assert abs(row.reward_rate.mean - row.violation[0].mean - 0.8) < 5 * error


def test_more_arms_break_the_limit_by_more(evidence):
    rows = [row for row in evidence["fig2"].rows if row.budget == 3000]
    assert np.all(np.diff([row.violation[0].mean for row in rows]) > 0)


def test_looks_differ_and_keep_their_order_in_grey(evidence):
    curves = FIGURE2.panels(evidence["fig2"])[0].curves
    assert [one.style for one in curves] == list(LOOKS.values())
    colours = [[int(one.style.colour[i : i + 2], 16) for i in (1, 3, 5)] for one in curves]
    assert np.all(np.diff(np.array(colours) @ [0.299, 0.587, 0.114]) < -8)
    assert len({one.style.marker for one in curves}) == len(ARMS)
    draw(FIGURE3.panels(evidence["fig3"]), FIGURE3.columns)


def test_notes(evidence):
    notes = " ".join(FIGURE3.notes(evidence["fig3"]))
    assert "neither the arms it adds nor the budgets" in notes
    assert "9 times (at B = 1,000): with 100 arms this alone takes 51% of that budget" in notes
    assert "2: 3,000; 10: none" in notes or "2: 1,000; 10: none" in notes
    assert "2: none; 10: none; 20: none" in " ".join(FIGURE2.notes(evidence["fig2"]))


def test_one_run_is_enough(evidence):
    found = evidence["fig3"]
    calls = [replace(call, budgets=(1000,)) for call in found.calls[:1]]
    with warnings.catch_warnings(action="ignore"):
        results = simulate(calls[0].load(), calls[0].policies, budgets=1000, runs=1, progress=False)
    assert FIGURE3.notes(Evidence(calls, [results]))
