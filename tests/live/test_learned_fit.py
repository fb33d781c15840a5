"""The numpy fit of a space's reports, against that of ``resolve``."""

from __future__ import annotations

import numpy as np
import pytest

from tightrope import Interval, Limit, Resolve, Task
from tightrope.live.learned import PointSums, curve_of
from tightrope.live.rebuild import new_state
from tightrope.problem import Box

SPACES = {
    "interval": Interval(0, 2, name="x", points=31),
    "square": Box({"x": (0, 1), "y": (0, 3)}, points=9),
    "cube": Box({"x": (0, 1), "y": (0, 3), "z": (0, 1)}, points=9),
}


@pytest.mark.parametrize("space", SPACES.values(), ids=list(SPACES))
def test_a_fit_is_that_of_resolve(space):
    task, random = Task(space, {"bad": Limit(1.0)}), np.random.default_rng(1)
    pulls = random.integers(0, 4, len(space)) * (random.random(len(space)) < 0.3)
    shape = np.linspace(0.1, 0.8, len(space))
    coins = [random.binomial(pulls, chance) for chance in (0.7, shape, 0.3 * shape)]
    totals = np.stack(coins, axis=1).astype(float)
    sums = PointSums(task, pulls.tolist(), [0] * len(space), pulls.astype(float), totals, totals)
    found = curve_of(sums)
    policy = Resolve().for_task(task)
    state = new_state(task, policy, 1.0)
    state.record.pulls[:] = pulls
    for field in (state.record.totals, state.record.squares):
        field[: totals.size] = totals.ravel()
    state.record.net_squares[: totals[:, 2].size] = totals[:, 2]
    for _ in range(2):
        type(policy).renew(state.constants, state.record, state.scratch)
    mean, unsure = (
        np.array(one[: totals.size]).reshape(totals.shape)
        for one in (state.scratch.curves.mean, state.scratch.curves.unsure)
    )
    assert found.mean == pytest.approx(np.clip(mean, 0.0, 1.0), abs=1e-8)
    high = np.clip(mean + 1.959964 * np.sqrt(unsure), 0.0, 1.0)
    assert found.high == pytest.approx(high, abs=1e-6)
