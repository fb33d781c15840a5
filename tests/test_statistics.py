"""Means, shares and quantiles, against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tightrope.statistics import (
    NORMAL_95,
    NORMAL_99,
    Estimate,
    estimate,
    mean_intervals,
    quantile,
    quantile_error,
    standard_error,
    wilson,
)

SAMPLES = np.random.default_rng(3).gamma(2.0, size=(40, 3))  # [R, K]


def test_the_constants_are_normal_quantiles():
    assert stats.norm.ppf(0.975) == pytest.approx(NORMAL_95, abs=1e-14)
    assert stats.norm.ppf(0.99) == pytest.approx(NORMAL_99, abs=1e-14)


def test_a_mean_with_its_error_and_interval():
    values = SAMPLES[:, 0]
    found = estimate(values)
    assert found.mean == values.mean()
    assert found.error == pytest.approx(stats.sem(values))
    assert found.interval == pytest.approx(
        stats.norm.interval(0.95, loc=values.mean(), scale=stats.sem(values))
    )
    assert found.interval == (found.mean - found.reach, found.mean + found.reach)


def test_a_single_run_has_a_mean_alone():
    found = estimate([2.0])
    assert (found.mean, found.error, found.interval) == (2.0, None, None)
    assert found.reach == np.inf
    assert found.sign == 0
    assert mean_intervals(SAMPLES[:1]) is None


@pytest.mark.parametrize(("mean", "sign"), [(3.0, 1), (-3.0, -1), (1.9, 0), (-1.9, 0)])
def test_the_sign_is_what_the_interval_says(mean, sign):
    assert Estimate(mean, 1.0).sign == sign


def test_columns_are_as_each_alone():
    together = mean_intervals(SAMPLES)
    for k in range(3):
        assert tuple(together[k]) == pytest.approx(estimate(SAMPLES[:, k]).interval)
    assert standard_error(SAMPLES.T) == pytest.approx(stats.sem(SAMPLES))


@pytest.mark.parametrize("total", [1, 10, 200])
def test_wilsons_interval(total):
    counts = sorted({0, 1, total // 2, total - 1, total})
    low, high = wilson(counts, total)
    for i, count in enumerate(counts):
        expected = stats.binomtest(count, total).proportion_ci(method="wilson")
        assert (low[i], high[i]) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert low.min() >= 0.0
    assert high.max() <= 1.0


def test_quantiles():
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert quantile(SAMPLES, 0.9, axis=0).tolist() == np.quantile(SAMPLES, 0.9, axis=0).tolist()


def test_the_error_of_a_quantile():
    """Of a median against scipy's; of a tail against how much it varies over samples."""
    values = SAMPLES.ravel()
    assert quantile_error(values, 0.5) == pytest.approx(
        float(stats.mstats.mjci(values, [0.5])[0]), rel=0.05
    )
    many = np.random.default_rng(5).exponential(size=(1000, 200))
    errors = [quantile_error(sample, 0.99) for sample in many]
    assert np.mean(errors) == pytest.approx(quantile(many, 0.99, axis=1).std(), rel=0.15)
    assert quantile_error(3.0 * many[0], 0.99) == pytest.approx(3.0 * errors[0])
    assert quantile_error([1.0], 0.99) is None
