"""What the reports say about an interval: a smooth curve for each outcome, with its 95 % band.

The curves are those of ``resolve`` (``policies.parts.splines``), fitted to the sums of the reports,
whatever the policy. A fit takes a tenth of a second, so it is not made in a turn: ``PointSums`` are
copied there. Letters: K points, C = 2 + M channels.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from tightrope.live.controller import Controller
from tightrope.live.rebuild import new_state
from tightrope.policies.resolve import Resolve
from tightrope.problem import Interval, Limit, Task
from tightrope.problem.named import Named
from tightrope.statistics import NORMAL_95

__all__ = ["CurvePoint", "LearnedCurve", "PointSums", "curve_of", "point_sums"]

Floats = npt.NDArray[np.float64]
FITS = 2  # the second knows the variance of outcomes around the first


class CurvePoint(TypedDict):
    """A number of an interval; ``outcomes``: mean, low and high of a pull's, by channel."""

    value: float
    pulls: int
    in_flight: int
    outcomes: dict[str, list[float]]


class PointSums(NamedTuple):
    """The reports of an interval's points, in the user's units."""

    task: Task
    pulls: list[int]  # [K]
    in_flight: list[int]  # [K]
    weights: Floats  # [K]: the pulls, with those that the policy learned from before
    totals: Floats  # [K, C]
    squares: Floats  # [K, C]


class LearnedCurve(NamedTuple):
    """The mean outcome of a pull of every point, and its 95 % band, in the user's units."""

    sums: PointSums
    mean: Floats  # [K, C]
    low: Floats  # [K, C]
    high: Floats  # [K, C]

    def points(self) -> list[CurvePoint]:
        """The points as JSON objects."""
        task, bands = self.sums.task, np.stack(self[1:], axis=2).tolist()
        columns = task.names, self.sums.pulls, self.sums.in_flight, bands
        return [
            {
                "value": float(name),
                "pulls": pulls,
                "in_flight": flying,
                "outcomes": dict(zip(task.channels, rows, strict=True)),
            }
            for name, pulls, flying, rows in zip(*columns, strict=True)
        ]


def point_sums(controller: Controller) -> PointSums | None:
    """The sums of a controller over an interval; None for another one.

    A policy that keeps no squares gives the largest possible ones. With types of requests, the sums
    are over all types.
    """
    task = controller.task
    if not isinstance(task.space, Interval):
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
    """The curves of the outcomes."""
    plain, scales = _plain(sums.task), np.asarray(sums.task.scales.channels)
    policy: Any = Resolve().for_task(plain)
    state = new_state(plain, policy, plain.scales.cost)
    record, totals, squares = state.record, sums.totals / scales, sums.squares / scales**2
    record.pulls[:] = sums.weights
    for field, values in (
        (record.totals, totals),
        (record.squares, squares),
        (record.net_squares, squares[:, 2:]),
    ):
        field[: values.size] = values.ravel()
    for _ in range(FITS):
        type(policy).renew(state.constants, record, state.scratch)
    curves = state.scratch.curves
    mean, variance = (
        np.array(one[: totals.size]).reshape(totals.shape) for one in (curves.mean, curves.unsure)
    )
    wide = NORMAL_95 * np.sqrt(np.maximum(variance, 0.0))
    ends = (np.clip(one, 0.0, 1.0) * scales for one in (mean, mean - wide, mean + wide))
    return LearnedCurve(sums, *ends)


def _plain(task: Task) -> Task:
    """The task with each limit per unit of cost, so that the curve of a penalty is its own."""
    scales = zip(task.limit_names, task.scales.penalties, strict=True)
    limits = Named({name: Limit(scale / task.scales.cost) for name, scale in scales})
    facts: Any = {"costs": task.costs, "known": task.known, "skip": task.skip}
    return Task(task.space or (), limits, task.scales, **facts)
