"""What the reports say about an interval or a box: smooth means of the outcomes with 95 % bands.

The model is that of ``resolve`` (``policies.parts.splines``), fitted to the sums of the reports by
numpy, whatever the policy. A fit takes milliseconds and is not made in a turn: ``PointSums`` are
copied there. Letters: K points, C = 2 + M channels, d splines.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import NamedTuple, TypedDict

import numpy as np

from tightrope.live.controller import Controller
from tightrope.policies.parts.beliefs import size_of_sums
from tightrope.policies.parts.splines import ALIKE, BENDS, HEIGHTS, HIGH, LEAST, ROUGH, SEEN
from tightrope.policies.smooth import splines_of
from tightrope.problem import Space, Task
from tightrope.problem.values import Floats
from tightrope.statistics import NORMAL_95

FITS = 2  # the second knows the variance of outcomes around the first


class CurvePoint(TypedDict):
    """A point of a space; ``outcomes``: mean, low and high of a pull's, by channel."""

    value: float | list[float]  # several numbers in a box
    pulls: int
    in_flight: int
    outcomes: dict[str, list[float]]


class PointSums(NamedTuple):
    """The reports of a space's points, in the user's units."""

    task: Task
    pulls: list[int]  # [K]
    in_flight: list[int]  # [K]
    weights: Floats  # [K]: the pulls, with those that the policy learned from before
    totals: Floats  # [K, C]
    squares: Floats  # [K, C]

    @property
    def space(self) -> Space:
        """The interval or the box."""
        assert self.task.space is not None
        return self.task.space


class LearnedCurve(NamedTuple):
    """The mean outcome of a pull of every point, and its 95 % band, in the user's units."""

    sums: PointSums
    mean: Floats  # [K, C]
    low: Floats  # [K, C]
    high: Floats  # [K, C]

    def points(self) -> list[CurvePoint]:
        """The points as JSON objects."""
        task, bands = self.sums.task, np.stack(self[1:], axis=2).tolist()
        values = [point[0] if len(point) == 1 else list(point) for point in self.sums.space.grid]
        columns = values, self.sums.pulls, self.sums.in_flight, bands
        return [
            {
                "value": value,
                "pulls": pulls,
                "in_flight": flying,
                "outcomes": dict(zip(task.channels, rows, strict=True)),
            }
            for value, pulls, flying, rows in zip(*columns, strict=True)
        ]


def point_sums(controller: Controller) -> PointSums | None:
    """The sums of a controller over an interval or a box; None for another one.

    A policy that keeps no squares gives the largest possible ones. With types of requests, the sums
    are over all types.
    """
    task = controller.task
    if task.space is None:
        return None
    state, scales = controller._state, np.asarray(task.scales.channels)
    if state.spec.remembers:
        columns = [state.record.pulls, state.record.totals, state.record.squares]
    else:
        pulls, totals = np.split(np.asarray(state["totals"]), [1], axis=1)
        columns = [pulls, totals, totals]
    rows = np.size(columns[0])  # of each type all points
    weights, totals, squares = (
        np.reshape(one, (rows // task.arm_count, task.arm_count, -1)).sum(axis=0) for one in columns
    )
    channels = slice(len(scales))
    return PointSums(
        task,
        controller.pulls,
        controller.in_flight,
        weights[:, 0],
        totals[:, channels] * scales,
        squares[:, channels] * scales**2,
    )


def curve_of(sums: PointSums) -> LearnedCurve:
    """The smooth means of the outcomes."""
    scales, known = np.asarray(sums.task.scales.channels), sums.task.normal_known
    means, bands = np.array(known), np.zeros(known.shape)
    cost = (sums.totals[:, 0].sum() / scales[0] + 0.5) / (sums.weights.sum() + 1.0)
    for c in range(len(scales)):
        unknown = known[:, c] < 0.0
        if unknown.any():
            totals, squares = sums.totals[:, c] / scales[c], sums.squares[:, c] / scales[c] ** 2
            mean, variance = _fitted(
                sums.space, sums.weights, totals, squares, cost if c > 1 else None
            )
            means[unknown, c] = mean[unknown]
            bands[unknown, c] = NORMAL_95 * np.sqrt(np.maximum(variance, 0.0))[unknown]
    ends = (np.clip(one, 0.0, 1.0) * scales for one in (means, means - bands, means + bands))
    return LearnedCurve(sums, *ends)


def _fitted(
    space: Space, pulls: Floats, totals: Floats, squares: Floats, guess: float | None
) -> tuple[Floats, Floats]:
    """The mean of an outcome and its variance at every point, [K]; see ``splines.fit_curves``.

    ``guess``: of its mean, worth one pull; half of the usual size by default.
    """
    basis, count = _basis(space), pulls.sum() + 1.0
    size = size_of_sums(totals.sum(), squares.sum(), 1.0)
    level = (totals.sum() + (0.5 * size if guess is None else guess)) / count
    square, least = (squares.sum() + 0.5 * size * size) / count, LEAST * size * size
    usual = ALIKE * max(square - level * level, least) + SEEN * size * size
    mean, variance = np.full(len(pulls), 0.5), np.zeros(len(pulls))
    for _ in range(FITS):
        away = np.maximum(squares + mean * (pulls * mean - 2.0 * totals), 0.0)
        noise = basis @ ((basis.T @ away + usual) / (basis.T @ pulls + ALIKE))
        noise = np.maximum(noise, least)
        seen = basis.T @ (basis * (pulls / noise)[:, np.newaxis])
        right = basis.T @ ((totals - pulls * level) / noise)
        precision = seen + _most_likely(_roughness(space), seen, right, size)
        mean = level + basis @ np.linalg.solve(precision, right)
        variance = np.einsum("kd,dk->k", basis, np.linalg.solve(precision, basis.T))
    return mean, variance


def _most_likely(rough: Floats, seen: Floats, right: Floats, size: float) -> Floats:
    """The prior's precision of the weights [d, d] under which the reports are most likely."""
    best, found = -np.inf, rough
    for height, bend in product(HEIGHTS, BENDS):
        prior = (np.eye(len(rough)) + rough / bend**2) / (height * size) ** 2
        after = prior + seen
        likely = 0.5 * (np.linalg.slogdet(prior)[1] - np.linalg.slogdet(after)[1])
        likely += 0.5 * right @ np.linalg.solve(after, right)
        likely += HIGH * np.log(height) + ROUGH * np.log(bend)
        if likely > best:
            best, found = likely, prior
    return found


@lru_cache(maxsize=8)
def _basis(space: Space) -> Floats:
    """The splines at every point, [K, d]: products of one side's; the last side varies fastest."""
    count, points = splines_of(space), space.points or 0
    far = np.linspace(0.0, count - 3.0, points)
    away = np.abs(far[:, np.newaxis] - np.arange(-1.0, count - 1.0))
    near = np.where(away < 1.0, (4.0 - 6.0 * away**2 + 3.0 * away**3) / 6.0, 0.0)
    one: Floats = np.where((away >= 1.0) & (away < 2.0), (2.0 - away) ** 3 / 6.0, near)
    found: Floats = one
    for _ in range(space.side_count - 1):
        found = np.asarray(np.kron(found, one), np.float64)
    return found


@lru_cache(maxsize=8)
def _roughness(space: Space) -> Floats:
    """The sum of squared second differences of the weights along each side, [d, d]."""
    count, sides = splines_of(space), space.side_count
    second = np.diff(np.eye(count), 2, axis=0)
    total = np.zeros((count**sides, count**sides))
    for side in range(sides):
        part: Floats = np.eye(1)
        for other in range(sides):
            bent = second.T @ second if other == side else np.eye(count)
            part = np.asarray(np.kron(part, bent), np.float64)
        total += part
    return total
