"""What the reports say about an interval: curves and their bands."""

from __future__ import annotations

import numpy as np
import pytest

from tightrope import Controller, Interval, Limit, Scales, Task
from tightrope.live.learned import PointSums, curve_of, point_sums
from tightrope.policies import UniformRandom

NUMBERS = np.linspace(0.0, 2.0, 41)
TASK = Task(
    Interval(0, 2, name="bid", points=41),
    {"dollars": Limit(4.0, per="reward")},
    Scales(reward=10, penalty=2),
    costs=1,
)
REWARD, DOLLARS = 2.0 * NUMBERS, NUMBERS**2 / 4  # 10 with chance x / 5; x with chance x / 4


def seen(reports, seed):
    """Sums of reports at random numbers."""
    luck, count = np.random.default_rng(seed), len(NUMBERS)
    pulls = luck.multinomial(reports, np.full(count, 1 / count))
    rewards = luck.binomial(pulls, NUMBERS / 5)
    paid = luck.binomial(pulls, NUMBERS / 4)
    totals = np.column_stack([pulls, 10.0 * rewards, NUMBERS * paid])
    squares = np.column_stack([pulls, 100.0 * rewards, NUMBERS**2 * paid])
    return PointSums(TASK, pulls.tolist(), [0] * count, pulls.astype(float), totals, squares)


def test_bands_contain_the_truth_and_shrink():
    widths = []
    for reports in (300, 10_000):
        curves = [curve_of(seen(reports, seed)) for seed in range(8)]
        for channel, truth in ((1, REWARD), (2, DOLLARS)):
            inside = [
                (one.low[:, channel] <= truth) & (truth <= one.high[:, channel]) for one in curves
            ]
            assert np.mean(inside) > 0.85
        widths.append(np.mean([(one.high - one.low)[:, 1:].mean() for one in curves]))
    assert widths[1] < 0.4 * widths[0]


def test_known_outcomes_have_no_band():
    curve = curve_of(seen(100, 1))
    assert (curve.low[:, 0] == 1.0).all()
    assert (curve.high[:, 0] == 1.0).all()


def test_points_are_plain_values_in_the_units_of_the_user():
    controller = Controller(TASK, UniformRandom(), budget=100)
    controller.tell(1.0, reward=10, penalty=2)
    controller.ask()
    points = curve_of(point_sums(controller)).points()
    assert [one["value"] for one in points][:3] == [0.0, 0.05, 0.1]
    assert sum(one["pulls"] for one in points) == sum(one["in_flight"] for one in points) == 1
    assert points[20]["outcomes"].keys() == {"cost", "reward", "dollars"}
    assert points[20]["outcomes"]["cost"] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("limits", [{}, {"few": "at most 30% for 0"}, {"dollars": Limit(total=50)}])
def test_any_limits_have_curves(limits):
    task = Task(TASK.space, limits, TASK.scales.changed(penalty=(1.0,) * len(limits)), costs=1)
    controller = Controller(task, UniformRandom(), budget=100)
    given = {"penalty": 0.2} if "dollars" in limits else {}
    controller.tell(1.0, reward=1, **given)
    assert curve_of(point_sums(controller)).mean.shape == (41, 2 + len(limits))


def test_only_intervals_have_curves():
    assert point_sums(Controller(Task(["a"], {"bad": "5% per pull"}), UniformRandom(), 9)) is None
