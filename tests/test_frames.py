"""Data frames of results, in pandas, polars and pyarrow."""

from __future__ import annotations

from importlib.util import find_spec

import narwhals as nw
import numpy as np
import pytest

from tests.conftest import bernoulli_problem
from tightrope import (
    Arm,
    Limit,
    Problem,
    Scales,
    Stationary,
    TightropeError,
    TwoPoint,
    frames,
    simulate,
)
from tightrope.errors import InputError
from tightrope.policies import FixedArm, UniformRandom

FEW = {"runs": 3, "seed": 2, "backend": "python", "progress": False}
LIBRARIES = pytest.mark.parametrize("backend", frames.LIBRARIES)


@pytest.fixture(scope="module")
def dollars():
    """Two named limits, in other units than normalised ones."""
    arms = [
        Arm(
            name,
            TwoPoint(0, 5, 0.5),
            TwoPoint(0, 20, 0.4),
            {"bad": bad, "late": TwoPoint(0, 4, 0.2)},
        )
        for name, bad in (("a", TwoPoint(0, 0.25, 0.2)), ("b", TwoPoint(0, 0.25, 0.1)))
    ]
    scales = Scales(cost=5, reward=20, penalty={"bad": 0.25, "late": 4})
    problem = Problem(arms, limits={"bad": Limit(0.03), "late": Limit(1.0)}, scales=scales)
    return simulate(problem, [UniformRandom(), FixedArm()], budgets=[50, 100], **FEW)


def columns(frame):
    """Plain lists by column, None for what is missing."""
    read = nw.from_native(frame)
    return {
        name: [None if isinstance(v, float) and np.isnan(v) else v for v in read[name].to_list()]
        for name in read.columns
    }


@LIBRARIES
def test_tidy_rows(dollars, backend):
    frame = dollars.to_frame(backend)
    assert type(frame).__module__.startswith(backend)
    found, rows = columns(frame), dollars.summary()
    assert len(found["policy"]) == 2 * 2 * 2
    assert found["limit_name"] == ["bad", "late"] * 4
    assert found["limit"] == [0.03, 1.0] * 4
    for i, (name, limit) in enumerate(dollars.problem.task.limits.items()):
        for row, at in zip(rows, range(i, 8, 2), strict=True):
            assert found["policy"][at] == row["policy"]
            assert found["reward_rate"][at] == row["reward_rate"]
            assert found["regret"][at] == row["regret"]
            assert found["violation"][at] == row["violations"][name]
            assert found["violation_se"][at] == row["violation_se"][i]
            ends = [found["violation_low"][at], found["violation_high"][at]]
            assert ends == row["violation_interval"][i]
            assert found["penalty_rate"][at] == pytest.approx(limit + row["violations"][name])
            assert found["queue_max"][at] == row["queue_max"][i]


@LIBRARIES
def test_runs_in_the_users_units(dollars, backend):
    found = columns(dollars.runs_frame(backend))
    names = ["policy", "budget", "run", "reward", "cost", "pulls", "penalty_bad", "penalty_late"]
    assert list(found) == names
    assert found["run"] == [0, 1, 2] * 4
    assert found["budget"] == ([50.0] * 3 + [100.0] * 3) * 2
    assert found["policy"] == ["uniform-random"] * 6 + ["fixed-arm"] * 6
    normalised = dollars["fixed-arm"].normalised_runs
    assert found["reward"][6:9] == (20 * normalised.reward[0]).tolist()
    assert found["cost"][9:] == (5 * normalised.cost[1]).tolist()
    assert found["pulls"][9:] == normalised.pulls[1].sum(axis=1).tolist()
    assert found["penalty_late"][6:9] == (4 * normalised.penalty[0, :, 1]).tolist()
    assert min(found["cost"][:3]) > 50.0


@LIBRARIES
def test_kinds_do_not_depend_on_what_is_missing(backend):
    """No limit, no standard error, no regret: the same columns of the same kinds."""
    free = bernoulli_problem([(0.4, 0.8)], None)
    hard = bernoulli_problem([(0.4, 0.8, 0.6)], 0.1)
    kinds = []
    for problem in (free, hard):
        results = simulate(problem, FixedArm(), budgets=9, **FEW | {"runs": 1})
        frame = nw.from_native(results.to_frame(backend))
        kinds.append({name: str(kind) for name, kind in frame.schema.items()})
        assert len(frame) == 1
        assert columns(frame.to_native())["reward_rate_se"] == [None]
    assert kinds[0] == kinds[1]
    assert kinds[0]["violation"] == "Float64"
    assert kinds[0]["limit_name"] == "String"
    assert kinds[0]["runs"] == "Int64"


@pytest.mark.parametrize(
    ("limits", "names"), [((0.8,), ["penalty"]), ((0.8, 0.7), ["penalty_1", "penalty_2"])]
)
def test_penalties_without_names(limits, names):
    problem = bernoulli_problem([(0.4, 0.8, 0.6, 0.5)[: 2 + len(limits)]], limits)
    results = simulate(problem, FixedArm(), budgets=9, **FEW)
    assert list(columns(results.runs_frame()))[6:] == names


def test_the_first_that_is_installed(dollars, monkeypatch):
    def without(*missing):
        def finds(name):
            return None if name in missing else find_spec(name)

        monkeypatch.setattr(frames, "find_spec", finds)

    assert type(dollars.to_frame()).__module__.startswith("pandas")
    without("pandas")
    assert type(dollars.to_frame()).__module__.startswith("polars")
    with pytest.raises(
        TightropeError,
        match=r'need pandas, which is not installed; pip install "tightrope\[pandas\]"$',
    ):
        dollars.to_frame("pandas")
    without("pandas", "polars")
    assert type(dollars.to_frame()).__module__.startswith("pyarrow")
    without(*frames.LIBRARIES)
    with pytest.raises(TightropeError, match="pandas, polars or pyarrow, which is not installed"):
        dollars.runs_frame()
    without("narwhals")
    with pytest.raises(
        TightropeError,
        match=r'need narwhals, which is not installed; pip install "tightrope\[pandas\]"$',
    ):
        dollars.to_frame()


def test_another_library_is_refused(paper):
    results = simulate(paper, Stationary(), budgets=9, **FEW)
    with pytest.raises(InputError, match="backend = 'polar' is unknown; did you mean 'polars'"):
        results.to_frame("polar")
