from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tightrope import LyOff, LyOn, simulate
from tightrope.paper import EXPERIMENTS, Evidence
from tightrope.paper.figure1 import FIGURE1
from tightrope.paper.tradeoff import FIGURE4, FIGURE5
from tightrope.policies.base import Policy
from tightrope.report.figures import draw
from tightrope.report.rows import mean

V0, DELTA0 = (0.5, 1.0, 2.0), (0.1, 1.0, 4.0)
BOTH = pytest.mark.parametrize(
    ("experiment", "kind"), [(FIGURE4, LyOff), (FIGURE5, LyOn)], ids=["fig4", "fig5"]
)


@pytest.fixture(scope="module")
def evidence():
    found = {}
    for experiment in (FIGURE4, FIGURE5):
        call = replace(experiment.sweep[0], budgets=(1000, 4000))
        results = simulate(
            call.load(), call.policies, budgets=call.budgets, runs=64, progress=False
        )
        found[experiment.name] = Evidence([call], [results])
    return found


@BOTH
def test_the_sweep_is_the_papers(experiment, kind):
    assert EXPERIMENTS[experiment.name] is experiment
    (call,) = experiment.sweep
    assert call.budgets == FIGURE1.sweep[0].budgets
    assert call.policies == tuple(kind(v0=v, delta0=d) for v, d in product(V0, DELTA0))
    assert not call.outside_theory()
    moments = call.load().moments
    assert moments.cost.tolist() == [0.4, 0.6]
    assert moments.reward.tolist() == [0.6, 0.3]
    assert moments.penalty[:, 0].tolist() == [0.6, 0.3]
    assert moments.limits.tolist() == [0.8]


@BOTH
def test_panels_show_the_rows(experiment, kind, evidence):
    found = evidence[experiment.name]
    reward, violation = experiment.panels(found)
    assert reward.title == f"(a) Reward rate, {kind.__name__}"
    assert violation.title == f"(b) Constraint violation, {kind.__name__}"
    names = [f"v₀ = {v:g}, δ₀ = {d:g}" for v, d in product(V0, DELTA0)]
    for panel, metric in ((reward, "reward_rate"), (violation, "violation")):
        assert [one.name for one in panel.curves] == names
        for one, policy in zip(panel.curves, found.calls[0].policies, strict=True):
            rows = found.rows_of("paper-tradeoff", policy)
            assert one.y.tolist() == [mean(row, metric) for row in rows]
    assert [line.role for line in reward.references] == ["optimum", "stationary"]
    assert all(line.y == pytest.approx(0.8) for line in reward.references)


@BOTH
def test_colour_tells_v0_and_marks_tell_delta0(experiment, kind, evidence):
    curves = experiment.panels(evidence[experiment.name])[0].curves
    looks = np.array([one.style for one in curves], object).reshape(len(V0), len(DELTA0))
    for row in looks:
        assert len({style.colour for style in row}) == 1
    for column in looks.T:
        assert len({(style.marker, style.line) for style in column}) == 1
    assert looks[1, 0].colour == Policy.colours[kind.name]
    assert len({(s.colour, s.marker) for s in looks.flat}) == 9
    draw(experiment.panels(evidence[experiment.name]), experiment.columns)


@BOTH
def test_the_trade_off_is_monotone(experiment, kind, evidence):
    """Larger V or smaller delta: more reward, more violation (appendix, Figures 4 and 5)."""
    rows = [row for row in evidence[experiment.name].rows if row.budget == 4000]
    grid = np.array([row.violation[0].mean for row in rows]).reshape(len(V0), len(DELTA0))
    assert (np.diff(grid, axis=0) > 0).all()
    assert (np.diff(grid, axis=1) < 0).all()


def test_lyoff_breaks_the_limit_by_what_the_note_says(evidence):
    for row, (v0, delta0) in zip(evidence["fig4"].rows[1::2], product(V0, DELTA0), strict=True):
        assert row.budget == 4000
        assert row.violation[0].mean == pytest.approx((v0 - delta0) / np.sqrt(4000), abs=0.002)


@BOTH
def test_notes_say_that_the_grid_is_ours(experiment, kind, evidence):
    notes = " ".join(experiment.notes(evidence[experiment.name]))
    assert "does not say which v₀ and δ₀" in notes
    assert "a mean reward equal to its mean penalty" in notes
