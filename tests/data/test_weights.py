"""Observed rows with weights: each row is drawn as often as its weight says, and stays whole."""

from __future__ import annotations

import numpy as np
import pytest

from tightrope import Arm, LyOn, Problem, simulate
from tightrope.errors import ProblemError
from tightrope.problem.distributions import Empirical


def chances(law):
    """The probability of every row, summed over the cells that draw it."""
    cells, rows = law.cells(), Empirical(np.arange(len(law.values), dtype=float), law.weights)
    numbers = rows.cells()
    found = np.zeros(len(cells))
    np.add.at(found, numbers.first.astype(int), numbers.split / len(cells))
    np.add.at(found, numbers.second.astype(int), (1 - numbers.split) / len(cells))
    assert np.array_equal(numbers.split, cells.split)
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("concentration", [0.01, 1.0, 1e6])
def test_the_alias_table_has_the_weights(count, concentration):
    draws = np.random.default_rng(count)
    for _ in range(20):
        weights = draws.dirichlet(np.full(count, concentration))
        if not np.isfinite(weights).all():
            continue
        law = Empirical(draws.random(count), weights)
        assert chances(law) == pytest.approx(weights, abs=1e-12)
        assert law.mean == pytest.approx(float(law.cells().mean))
        assert law.mean == pytest.approx(float(np.average(law.values, weights=weights)))


def test_a_weight_of_zero_is_never_drawn_and_all_may_be_equal():
    law = Empirical([1.0, 2.0, 3.0], [0, 5, 5])
    assert set(law.cells().outcomes(np.linspace(0, 1, 999, endpoint=False))) == {2.0, 3.0}
    assert Empirical([1.0, 2.0, 3.0], [2, 2, 2]).mean == pytest.approx(2.0)


def test_rows_stay_whole_in_the_simulator():
    rows = np.array([(1.0, 0.25, 0.75), (0.5, 1.0, 0.0), (0.1, 0.5, 0.5)])
    arm = Arm.from_rows("seen", rows, weights=[1, 2, 5])
    problem = Problem([arm], limit=1.0)
    results = simulate(problem, [LyOn()], budgets=[500], runs=200, seed=3)
    runs = results["lyon"].runs
    # In every row, reward plus penalty is 1: a pull that mixes rows would break it.
    pulls = runs.pulls.sum(axis=2)
    assert runs.reward + runs.penalty[:, :, 0] == pytest.approx(pulls, rel=1e-6)
    means = np.average(rows, axis=0, weights=[1, 2, 5])
    assert runs.reward.sum() / pulls.sum() == pytest.approx(means[1], rel=0.01)
    assert runs.cost.sum() / pulls.sum() == pytest.approx(means[0], rel=0.01)


def test_toml_keeps_weights():
    arm = Arm.from_rows("seen", [(1, 0.5, 0), (0.2, 0.1, 1), (0.3, 0, 0)], weights=[1, 2, 4])
    problem = Problem([arm, Arm.from_rows("other", [(1, 0.5, 0)])], limit=0.8)
    again = Problem.from_toml(problem.to_toml())
    assert again == problem
    assert hash(again) == hash(problem)
    assert again.arms[0] != Arm.from_rows("seen", [(1, 0.5, 0), (0.2, 0.1, 1), (0.3, 0, 0)])


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        ([1, -1], "rows weights = array([ 1., -1.]): must be 2 numbers, none below 0, not all 0"),
        ([0, 0], "rows weights = array([0., 0.]): must be 2 numbers, none below 0, not all 0"),
        ([1], "rows weights = array([1.]): must be 2 numbers, none below 0, not all 0"),
        ([1, float("nan")], "rows weights[1] = nan: must be a finite number"),
        ("ab", "rows weights = 'ab': must be a list of numbers"),
    ],
)
def test_bad_weights_are_refused_in_one_line(weights, text):
    with pytest.raises(ProblemError) as caught:
        Arm.from_rows("seen", [(1, 0.5, 0), (0.2, 0.1, 1)], weights=weights)
    assert str(caught.value) == f"arm 'seen': {text}"
