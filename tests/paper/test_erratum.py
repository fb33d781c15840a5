from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from tightrope import LyOn, oracle, simulate
from tightrope.paper import EXPERIMENTS, Evidence
from tightrope.paper.erratum import ERRATUM, fraction, locked, panels
from tightrope.report.figures import draw

PROOF, PRINTED = LyOn(), LyOn(penalty_bonus="as-printed")


@pytest.fixture(scope="module")
def evidence():
    call = replace(ERRATUM.sweep[0], budgets=(1000, 4000))
    results = simulate(call.load(), call.policies, budgets=call.budgets, runs=128, progress=False)
    return Evidence([call], [results])


def test_the_sweep():
    assert EXPERIMENTS["erratum"] is ERRATUM
    (call,) = ERRATUM.sweep
    assert call.problem == "paper"
    assert call.policies == (PROOF, PRINTED)
    assert (min(call.budgets), max(call.budgets)) == (1000, 100_000)


@pytest.mark.parametrize("count", [0, 1, 40, 199, 200])
def test_the_fractions_interval_is_wilsons(count):
    chosen = np.arange(200)[None, :] < count
    share, low, high = fraction(chosen)
    expected = binomtest(count, 200).proportion_ci(method="wilson")
    assert share[0] == count / 200
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_locked_is_nine_tenths_of_a_runs_pulls(evidence):
    results = evidence.results[0]
    pulls = results[PRINTED.label].runs.pulls.copy()
    pulls[0, 0], pulls[0, 1], pulls[0, 2] = (900, 100), (901, 99), (99, 901)
    record = results[PRINTED.label]
    changed = replace(record, normalised_runs=replace(record.runs, pulls=pulls))
    other = replace(results, records=(results.records[0], changed))
    found = locked(Evidence(evidence.calls, [other]), PRINTED)
    assert found[0, :3].tolist() == [[False, False], [True, False], [False, True]]
    assert max(oracle(results.problem).pull_share) < 0.9


def test_only_the_printed_sign_locks(evidence):
    assert not locked(evidence, PROOF).any()
    found = locked(evidence, PRINTED)
    assert found[..., 0].mean() == pytest.approx(0.33, abs=0.13)
    assert not found[..., 1].any()


def test_locked_runs_break_the_limit_for_ever(evidence):
    chosen = locked(evidence, PRINTED)[-1, :, 0]
    penalty = evidence.results[0][PRINTED.label].runs.penalty[-1, :, 0]
    over = penalty / 4000 - 0.8
    assert over[chosen].min() > 0.5  # arm 1's penalty rate is 1.5
    assert over[~chosen].max() < 0.2


def test_panels(evidence):
    shown = panels(evidence)
    assert [panel.title[:3] for panel in shown] == ["(a)", "(b)", "(c)"]
    names = ["LyOn, index of the proof", "LyOn, index as printed"]
    for panel in shown:
        assert [one.name for one in panel.curves] == names
        assert [one.label for one in panel.curves] == [PROOF.label, PRINTED.label]
    rows = evidence.rows_of("paper", PRINTED)
    assert shown[0].curves[1].y.tolist() == [row.reward_rate.mean for row in rows]
    assert shown[1].curves[1].y.tolist() == [row.violation[0].mean for row in rows]
    assert shown[2].curves[1].y.tolist() == locked(evidence, PRINTED)[..., 0].mean(1).tolist()
    draw(shown, ERRATUM.columns)


def test_notes_carry_the_numbers(evidence):
    notes = " ".join(ERRATUM.notes(evidence))
    part = locked(evidence, PRINTED)[-1].any(-1).mean()
    assert "more than 0.9 of all its pulls" in notes
    assert "0 runs are locked on arm 2" in notes
    assert f"At B = 4,000 the index as printed locks {part:.1%} of the runs" in notes


def test_one_run_is_enough(evidence):
    call = replace(ERRATUM.sweep[0], budgets=(1000,))
    for seed in range(4):
        results = simulate(
            call.load(), call.policies, budgets=1000, runs=1, seed=seed, progress=False
        )
        alone = Evidence([call], [results])
        assert ERRATUM.notes(alone)
        assert len(panels(alone)) == 3
