"""The profile of a log against numpy and brute force, and its page."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from tests.data.test_fitting import COLUMNS, log
from tightrope import Limit, Problem
from tightrope.data.fitting import fit
from tightrope.data.profile import BINS, lowest_limit, profile
from tightrope.errors import LogWarning
from tightrope.report.profile import print_profile, profile_page
from tightrope.statistics import Bounded


@pytest.fixture(scope="module")
def found():
    made = fit(log(), **COLUMNS, limits={"bad": Limit(0.3, per="pull")})
    return profile(made), made


def test_numbers_are_those_of_numpy(found):
    numbers, made = found
    table = made.log
    assert numbers.rows == sum(arm.rows for arm in numbers.arms) == len(table)
    for k, arm in enumerate(numbers.arms):
        rows = table.of_arm(k)
        assert arm.rows == rows.shape[1]
        correlation = np.corrcoef(rows)
        pairs = itertools.combinations(range(3), 2)
        for (i, j), value in zip(pairs, arm.correlations.values(), strict=True):
            assert value == pytest.approx(correlation[i, j])
        for row, mean, counts in zip(rows, arm.means, arm.histograms, strict=True):
            assert mean.mean == pytest.approx(row.mean())
            assert mean.error == pytest.approx(row.std(ddof=1) / np.sqrt(len(row)))
            assert len(counts) == BINS
            assert sum(counts) == len(row)
        expected = "yes" if arm.means[2].mean + arm.means[2].reach < 0.3 else "unclear"
        assert arm.keeps == expected


def test_a_constant_outcome_has_no_correlation():
    table = {"model": ["a"] * 40, "usd": [0.5, 1.0] * 20}
    made = profile(fit(table, arm="model", cost="usd", reward=1))
    assert made.arms[0].correlations == {"cost, reward": None}
    assert made.warnings == (
        "there is one arm, 'a', so there is nothing to decide",
        "reward is 1 in every row",
    )


def test_the_lowest_limit_beside_others_is_that_of_brute_force():
    draws = np.random.default_rng(8)
    for per in itertools.product(("cost", "pull", "reward"), repeat=2):
        table = {
            "model": np.repeat(["a", "b", "c"], 40),
            "usd": draws.uniform(0.2, 1, 120),
            "score": draws.uniform(0.2, 1, 120),
            "x": draws.random(120) * np.repeat(draws.random(3), 40),
            "y": draws.random(120) * np.repeat(draws.random(3), 40),
        }
        limits = {"x": Limit(0.3, per=per[0]), "y": Limit(0.3, per=per[1])}
        made = fit(table, **COLUMNS, limits=limits)
        means = np.array([made.log.of_arm(k).mean(axis=1) for k in range(3)])
        bases = {"cost": means[:, 0], "pull": np.ones(3), "reward": means[:, 1]}
        steps = np.linspace(0, 1, 201)
        shares = np.array([(p, q, 1 - p - q) for p in steps for q in steps if p + q <= 1 + 1e-12])
        rates = [shares @ means[:, 2 + m] / (shares @ bases[per[m]]) for m in (0, 1)]
        numbers = profile(made)
        for m in (0, 1):
            kept = rates[1 - m] <= 0.3
            limit = numbers.limits[m]
            alone = [one.mean for one in limit.rates]
            assert alone == pytest.approx(means[:, 2 + m] / bases[per[m]])
            assert limit.lowest == min(alone)
            if kept.any():
                best = rates[m][kept].min()
                assert best - 0.02 <= limit.lowest_together <= best + 1e-9
            elif limit.lowest_together is not None:  # kept by a point between those of the grid
                assert min(rates[1 - m]) <= 0.3 + 0.01


def test_a_limit_that_nobody_keeps():
    made = fit(log(), **COLUMNS, limits={"bad": Limit(0.01, per="pull")})
    numbers = profile(made)
    assert {arm.keeps for arm in numbers.arms} == {"no"}
    assert "must be at least" in numbers.infeasible
    assert numbers.reward_rate is None
    assert lowest_limit(made.problem.moments, 0) == pytest.approx(numbers.limits[0].lowest)


def test_a_limit_in_total_waits_for_its_budget():
    numbers = profile(fit(log(), **COLUMNS, limits={"bad": Limit(total=30)}))
    assert numbers.limits[0].lowest is None
    assert numbers.infeasible is None
    assert numbers.as_dict()["limits"][0]["lowest"] is None


def test_rows_that_drift_are_named():
    table = log(4000)
    table["score"] = np.where(np.arange(4000) < 2000, table["score"] / 2, table["score"])
    warning = profile(fit(table, **COLUMNS)).warnings[-1]
    assert "first and the second half" in warning
    assert "reward of 'a'" in warning
    assert "cost" not in warning


def test_the_page_is_one_file_with_every_text_escaped(found):
    table = log()
    table["model"] = ["<b>bold</b>" if name == "a" else name for name in table["model"]]
    table["model"][0] = "rare\u202e"
    with pytest.warns(LogWarning, match="few rows"):
        made = fit(table, **COLUMNS, limits={"bad": Limit(0.3, per="pull")}, name="x")
    text = profile_page(profile(made), "<script>")
    assert "<script" not in text
    assert "&lt;b&gt;bold&lt;/b&gt;" in text
    assert "\u202e" not in text
    assert not re.search(r"(?:src|href)=|https?://|@import|url\(", text)
    assert text.count("<svg") == 4 * 3
    assert "few rows" in text
    assert isinstance(made.problem, Problem)


def without_a_penalty(rows, limit):
    """Two arms, of which "b" has no penalty in so many rows."""
    table = {
        "model": ["a", "b"] * rows,
        "usd": [1.0, 0.5] * rows,
        "score": [0.0, 1.0, 1.0, 1.0] * (rows // 2),
        "bad": [1.0, 0.0, 0.0, 0.0] * (rows // 2),
    }
    made = fit(table, arm="model", cost="usd", reward="score", limits={"bad": limit})
    return profile(made)


def test_no_penalty_in_90_rows_is_a_bound(capsys):
    found = without_a_penalty(90, Limit(0.05, per="pull"))
    seen, never = (arm.means[2] for arm in found.arms)
    assert isinstance(never, Bounded)
    assert never.interval == pytest.approx((0.0, 1 - 0.05 ** (1 / 90)))
    assert not isinstance(seen, Bounded)
    assert isinstance(found.arms[1].means[1], Bounded), "a reward in every row"
    assert not isinstance(found.arms[0].means[0], Bounded), "a cost of 1"
    print_profile(found)
    text = capsys.readouterr().out
    assert "at most 0.033" in text
    assert "at least 0.97" in text
    assert "0.00 ± 0.00" not in text
    assert "the lowest that can be kept is at most 0.033 (b alone)" in text
    page = profile_page(found, "log")
    assert page.count("at most 0.033") == 3
    arm = found.as_dict()["arms"][1]["bad"]
    assert (arm["mean"], arm["mean_interval"]) == (0.0, list(never.interval))


def test_a_bound_per_unit_of_cost_counts_the_cost():
    (limit,) = without_a_penalty(90, Limit(0.2)).limits
    assert limit.rates[1].interval[1] == pytest.approx((1 - 0.05 ** (1 / 90)) / 0.5)


@pytest.mark.parametrize(("rows", "kept"), [(90, "yes"), (40, "unclear")])
def test_rows_without_a_penalty_keep_a_limit_if_they_are_many(rows, kept):
    found = without_a_penalty(rows, Limit(0.05, per="pull"))
    assert [arm.keeps for arm in found.arms] == ["no", kept]
    assert found.limits[0].kept == ("no", kept)


def test_the_page_colours_only_what_is_clear():
    found = without_a_penalty(40, Limit(0.05, per="pull"))
    page = profile_page(found, "log")
    table = page[page.index("Which limits can be kept") :]
    table = table[: table.index("</table>")]
    assert len(re.findall(r'class="[^"]*bad', table)) == 1
    assert "good" not in table
    assert "open" in table


def test_means_of_a_log_with_propensities_are_weighted():
    table = {"model": ["a"] * 60, "usd": [1.0, 2.0, 2.0] * 20, "p": [0.5, 1.0, 1.0] * 20}
    made = fit(table, arm="model", cost="usd", reward=1, propensity="p")
    (arm,) = profile(made).arms
    assert arm.means[0].mean == pytest.approx(1.5) == made.problem.arms[0].cost.mean
