"""resolve over numbers: its curves against numpy, plain Python against compiled code."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import BSpline
from scipy.stats import multivariate_normal

from benchmarks.intervals import PROBLEMS, over_interval
from tightrope import (
    Arm,
    Bernoulli,
    Constant,
    Controller,
    Interval,
    Limit,
    Problem,
    Resolve,
    simulate,
)
from tightrope.policies.parts.beliefs import KNOWN, MORE
from tightrope.policies.parts.deviations import CALM
from tightrope.policies.parts.rescue import LATE, LOST, cost_ahead
from tightrope.policies.parts.splines import ALIKE, BENDS, HEIGHTS, HIGH, ROUGH, SEEN
from tightrope.policies.smooth import likeliest, splines_of
from tightrope.problem import Box


def clicks(x, y=0.0):
    return Arm("x", Constant(1), Bernoulli(0.1 + 0.7 * x), Bernoulli(0.02 + 0.3 * x * x + 0.2 * y))


LINE, PLANE = Interval(0, 1, name="x", points=21), Box({"x": (0, 1), "y": (0, 1)}, points=9)
LIMITS = {"bad": Limit(0.12, per="pull")}


def basis(space):
    """The splines at every point, [K, d]: by scipy, products of one side's."""
    s, points = splines_of(space), space.points
    knots = np.arange(-3, s + 1.0)
    places = np.linspace(0, s - 3, points)
    one = np.array(
        [BSpline(knots, row, 3)(np.minimum(places, s - 3 - 1e-12)) for row in np.eye(s)]
    ).T
    return one if space.side_count == 1 else np.kron(one, one)


def prior(space, height, bend, size):
    """The precision of the weights: a ridge and squared second differences along each side."""
    s = splines_of(space)
    second = np.diff(np.eye(s), 2, axis=0)
    rough = second.T @ second
    if space.side_count == 2:
        rough = np.kron(rough, np.eye(s)) + np.kron(np.eye(s), rough)
    return np.eye(len(rough)) / (height * size) ** 2 + rough / (bend * height * size) ** 2


def taught(space, reports=64):
    """A controller after some reports, and those reports [n]: point, cost, reward, penalty."""
    problem = Problem(space, arm=clicks, limits=LIMITS)
    controller = Controller(problem.task, Resolve(), budget=1000, seed=3)
    random, told = np.random.default_rng(5), []
    for k in range(reports):
        row = k * 7 % len(space.arms)
        means = [law.mean for law in problem.arms[row].laws]
        outcomes = [1.0, *(float(random.random() < mean) for mean in means[1:])]
        controller.tell(space.value(row), *outcomes)
        told.append((row, *outcomes))
    return controller, np.array(told)


@pytest.mark.parametrize("space", [LINE, PLANE], ids=["line", "plane"])
def test_a_curve_is_the_normal_posterior_of_its_weights(space):
    controller, told = taught(space)
    curves, phi = controller._state.scratch.curves, basis(space)
    means, unsure, noise = (
        getattr(curves, name).reshape(len(space.arms), 3) for name in ("mean", "unsure", "noise")
    )
    rows = told[:, 0].astype(int)
    for channel in (0, 1, 2):
        design, variance = phi[rows], noise[rows, channel]
        before = prior(space, curves.height[channel], curves.bend[channel], curves.size[channel])
        precision = before + design.T @ (design / variance[:, None])
        away = (
            told[:, 1 + channel] - curves.level[channel]
        )  # per pull at cost 1: net is the penalty
        weights = np.linalg.solve(precision, design.T @ (away / variance))
        wanted = curves.level[channel] + phi @ weights
        assert means[:, channel] == pytest.approx(wanted, abs=1e-9)
        spread = np.einsum("kd,kd->k", phi, np.linalg.solve(precision, phi.T).T)
        assert unsure[:, channel] == pytest.approx(spread, rel=1e-7)


def test_smoothness_is_the_most_likely_one():
    controller, told = taught(LINE)
    curves, phi = controller._state.scratch.curves, basis(LINE)
    rows, channel = told[:, 0].astype(int), 1
    design, variance = phi[rows], curves.noise.reshape(-1, 3)[rows, channel]
    found = {}
    for height in HEIGHTS:
        for bend in BENDS:
            inverse = np.linalg.inv(prior(LINE, height, bend, curves.size[channel]))
            covariance = design @ inverse @ design.T + np.diag(variance)
            level = np.full(len(rows), curves.level[channel])
            likelihood = multivariate_normal(level, covariance).logpdf(told[:, 1 + channel])
            found[height, bend] = likelihood + HIGH * np.log(height) + ROUGH * np.log(bend)
    best = max(found, key=found.get)
    assert (curves.height[channel], curves.bend[channel]) == best


def test_a_late_run_does_not_stay_at_a_bid_of_zero():
    """A bid of 0 wins nothing, so it cannot make up for a penalty: most runs try other bids."""
    problem = over_interval(PROBLEMS["first price"])
    with pytest.warns(UserWarning, match="risk"):
        results = simulate(problem, [Resolve(risk=0.01)], budgets=[1000], runs=40, seed=1)
    pulls = results["resolve:risk=0.01"].runs.pulls.reshape(40, -1)
    near_zero = pulls[:, :6].sum(axis=1) / pulls.sum(axis=1)
    assert (near_zero > 0.5).mean() < 0.15


def test_a_lost_limit_is_tried_by_a_number_that_can_make_up_for_it():
    """The first number is known to incur the limit exactly; others are worse, or may be better."""
    controller, _ = taught(LINE)
    state, arms = controller._state.record, controller._state.scratch.arms
    ahead = cost_ahead(state, arms)
    arms.rate[:], arms.spread[:] = 0.14, 0.1
    arms.rate[0], arms.spread[0] = 0.12, 1e-9
    known = arms.more.reshape(len(LINE), MORE)[:, KNOWN]
    known[:] = 50.0
    known[7] = 20.0  # the least certain

    def chosen(owed, standing=LOST, z=3.0):
        state.remaining[1] = 0.12 * ahead - owed
        return likeliest((z, 0.0), state, arms, 0, len(LINE), 0, standing)

    assert chosen(owed=5.0) == 7
    assert chosen(owed=5.0, standing=LATE) == 0
    assert chosen(owed=5.0, z=CALM) == 0  # without a risk
    assert chosen(owed=500.0) == 0  # nothing is likely enough


def test_a_number_with_rare_penalties_is_expected_to_vary_less():
    controller, told = taught(LINE)
    curves, arms, phi = (
        controller._state.scratch.curves,
        controller._state.scratch.arms,
        basis(LINE),
    )
    rows, rate, cost = told[:, 0].astype(int), arms.rate, arms.cost_scale
    away = (told[:, 3] - rate[rows]) ** 2
    guess = ALIKE * curves.square[2] + SEEN * curves.size[2] ** 2
    usual = curves.level[2] + 0.12 * (1.0 - curves.level[0])  # per pull, net of the limit
    share = np.clip((rate * cost + 0.12 * (1.0 - cost)) / usual, 0.0, 1.0)
    assert share.min() < 0.5
    assert share.max() == 1.0
    seen = phi[rows].T @ away + share[:, np.newaxis] * guess
    expected = (phi * seen / (ALIKE + phi[rows].sum(axis=0))).sum(axis=1) / cost
    assert arms.spread == pytest.approx(expected, rel=1e-9)
