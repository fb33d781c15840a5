from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from tightrope import LyOff, LyOn, Stationary, oracle
from tightrope.engine.simulation import simulate
from tightrope.paper import Evidence
from tightrope.paper.figure1 import FIGURE1, panels


@pytest.fixture(scope="module")
def evidence():
    call = replace(FIGURE1.sweep[0], budgets=(1000, 2000, 4000))
    with warnings.catch_warnings(action="ignore"):
        results = simulate(
            call.load(), call.policies, budgets=call.budgets, runs=64, progress=False
        )
    return Evidence([call], [results])


def test_the_sweep_is_the_papers():
    (call,) = FIGURE1.sweep
    thousands = [*range(1, 11), 20, 30, 40, 50, 60]
    assert list(call.budgets) == [1000 * b for b in thousands]
    assert set(call.policies) == {
        LyOff(v0=1.0, delta0=0.5),
        LyOff(v0=1.0, delta0=15.0),
        LyOn(v0=1.0, delta0=0.5, alpha=2.0, beta0=1.0),
        LyOn(v0=1.0, delta0=15.0, alpha=2.0, beta0=1.0),
        Stationary(),
    }
    moments = call.load().moments
    assert moments.cost.tolist() == [0.4, 0.6]
    assert moments.reward.tolist() == [0.8, 0.6]
    assert moments.penalty[:, 0].tolist() == [0.6, 0.3]
    assert moments.limits.tolist() == [0.8]


def test_panels_are_the_papers(evidence):
    shown = panels(evidence)
    assert [panel.title[:3] for panel in shown] == [f"({letter})" for letter in "abcdef"]
    assert ["0.5" in panel.title for panel in shown] == [True] * 3 + [False] * 3
    for panel in shown:
        assert [one.name for one in panel.curves] == ["LyOff", "LyOn", "π*, simulated"]
        assert [one.x.tolist() for one in panel.curves] == [[1000, 2000, 4000]] * 3
        assert all((one.low < one.y).all() and (one.y < one.high).all() for one in panel.curves)


def test_panels_show_the_rows(evidence):
    rows = {(row.policy, row.budget): row for row in evidence.rows}
    a, b, c, d, e, f = panels(evidence)
    for (reward, violation, share), suffix in (((a, b, c), ""), ((d, e, f), ":delta0=15")):
        row = rows[f"lyon{suffix}", 2000.0]
        assert reward.curves[1].y[1] == row.reward_rate.mean
        assert violation.curves[1].y[1] == row.violation[0].mean
        assert share.curves[1].y[1] == row.pull_share[0]
        assert share.curves[1].low[1] == row.pull_share_interval[0][0]
        assert reward.curves[2].y[0] == rows["stationary", 1000.0].reward_rate.mean


def test_reference_lines(evidence):
    best = oracle(evidence.results[0].problem)
    for reward, violation, share in (panels(evidence)[:3], panels(evidence)[3:]):
        optimum, stationary = reward.references
        assert optimum.y == pytest.approx(1.3 + 0.5 / np.array([1000, 2000, 4000]))
        assert stationary.y[0] == pytest.approx(best.reward_rate)
        assert [line.role for line in violation.references] == ["limit"]
        assert share.references[0].y[0] == pytest.approx(best.pull_share[0])


def test_points_outside_the_theory_are_hollow(evidence):
    for i, panel in enumerate(panels(evidence)):
        hollow = [one.hollow.tolist() for one in panel.curves]
        expected = [[False] * 3, [i >= 3, i >= 3, False], [False] * 3]
        assert hollow == expected


def test_notes_mention_what_regret_is_against(evidence):
    notes = FIGURE1.notes(evidence)
    assert any("OPT(B)" in note for note in notes)


def test_a_note_says_that_no_theorem_covers_lyon_in_the_lower_panels(evidence):
    """2 r_max / epsilon + (1 + r_max) / (1 + y_max) = 4 / 0.18 + 3 / 2.5, above delta0 = 15."""
    (note,) = [note for note in FIGURE1.notes(evidence) if "Theorem 1" in note]
    assert "above 11.1 (LyOff" in note
    assert "23.4 (LyOn" in note
