"""Distributions over a space of numbers: a function of the number, or arms at some of its points.

Between two points the parameters of the distributions are interpolated linearly; of arms with
observed rows, those of both are drawn, in proportion. Outside of the points the nearest one holds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tightrope.errors import InputError, ProblemError
from tightrope.problem.arms import Arm, in_order, row_columns
from tightrope.problem.outcomes import Outcome
from tightrope.problem.spaces import Space
from tightrope.problem.values import Floats, shown

if TYPE_CHECKING:
    from tightrope.problem.task import Task

Curve = Callable[..., Arm] | Mapping[Any, Arm]


class CurveArms(tuple[Arm, ...]):
    """The arms of a grid, [K], and their ``curve``: the arm of any numbers, for the oracle.

    A copy or another process has the arms alone: not every function can be sent.
    """

    curve: Callable[..., Arm]

    @classmethod
    def along(cls, arms: Sequence[Arm], curve: Callable[..., Arm]) -> CurveArms:
        """The arms of the grid, and the function that they come from."""
        made = cls(arms)
        made.curve = curve
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)


class PointArms(CurveArms):
    """The arms of a grid, [K], and those given at some ``points``, each named after its place."""

    points: tuple[Arm, ...]

    @classmethod
    def of(cls, arms: Sequence[Arm], points: Sequence[Arm]) -> PointArms:
        """The arms of the grid and of the points."""
        made = cls(arms)
        made.points = tuple(points)
        made.curve = partial(_interpolated, [float(one.name) for one in points], made.points)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return PointArms.of, (tuple(self), self.points)


def stated_arms(arms: Sequence[Arm]) -> Sequence[Arm]:
    """The arms as they were given: of an interval those of its points."""
    return arms.points if isinstance(arms, PointArms) else arms


def arms_over(space: Space, arm: object) -> tuple[Arm, ...]:
    """The arm at every point of the grid, [K], named after it.

    ``arm``: a function of the numbers, or arms by point.
    """
    if isinstance(arm, Mapping):
        return _between(space, arm)
    if not callable(arm):
        raise ProblemError(f"arm = {shown(arm)}: must be a function, or arms by point")
    found = [arm(*point) for point in space.grid]
    for name, one in zip(space.arms, found, strict=True):
        if not isinstance(one, Arm):
            raise ProblemError(f"arm at {name}: {shown(one)} must be an Arm")
    return CurveArms.along(_named(space, found), arm)


def curves_by_type(space: Space, arm: object, contexts: object) -> Any:
    """The arm at every point; by type where ``contexts`` has types."""
    if contexts is None:
        return arms_over(space, arm)
    if not isinstance(arm, Mapping) or not all(isinstance(name, str) for name in arm):
        raise ProblemError(
            f"arm = {shown(arm)}: must be functions, or arms by point, for each type"
        )
    found = {name: arms_over(space, one) for name, one in arm.items()}
    places = {tuple(one.name for one in stated_arms(arms)) for arms in found.values()}
    if len(places) > 1:
        raise ProblemError("arm: points must be the same for every type")
    return found


def ordered_arms(arms: Sequence[Arm], task: Task) -> Sequence[Arm]:
    """As ``in_order``, also for the points of a space."""
    ordered = in_order(arms, task)
    if isinstance(arms, PointArms):
        return PointArms.of(ordered, [one.in_order(task) for one in arms.points])
    if isinstance(arms, CurveArms):
        curve = arms.curve
        return CurveArms.along(ordered, lambda *numbers: curve(*numbers).in_order(task))
    return ordered


def _named(space: Space, arms: Sequence[Arm]) -> tuple[Arm, ...]:
    return tuple(replace(one, name=name) for name, one in zip(space.arms, arms, strict=True))


def _between(space: Space, given: Mapping[Any, Arm]) -> tuple[Arm, ...]:
    """Arms at some points of an interval, interpolated; in a box, all points must be given."""
    places = _places(space, given)
    if len(places) == len(space.grid) and set(places) == set(space.grid):
        named = _named(space, [places[point] for point in space.grid])
        if space.side_count > 1:
            return named
        return CurveArms.along(named, partial(_interpolated, space.axes[0], named))
    if space.side_count > 1:
        raise ProblemError(f"arms: {len(places)} points; must be the {len(space.grid)} of the grid")
    points = sorted(point for (point,) in places)
    arms = [replace(places[point,], name=repr(point)) for point in points]
    found = [_interpolated(points, arms, x) for (x,) in space.grid]
    return PointArms.of(_named(space, found), arms)


def _places(space: Space, given: Mapping[Any, Arm]) -> dict[tuple[float, ...], Arm]:
    """The arms by their numbers, checked."""
    if len(given) < 2:
        raise ProblemError(f"arms: {len(given)} points; must be at least two")
    found = {}
    for place, arm in given.items():
        try:
            space.number_of(place, "at")
        except InputError as error:
            raise ProblemError(f"arm {[*given].index(place) + 1}: {error}") from None
        if not isinstance(arm, Arm):
            raise ProblemError(f"arm at {shown(place)}: {shown(arm)} must be an Arm")
        point = place if isinstance(place, tuple | list) else (place,)
        found[tuple(map(float, point))] = arm
    return found


def shares_over(space: Space, points: Sequence[Arm]) -> Floats:
    """The shares of the arms at some points in each arm of the grid, [K, points]."""
    places = [float(arm.name) for arm in points]
    numbers = [x for (x,) in space.grid]
    return np.array([np.interp(numbers, places, row) for row in np.eye(len(places))]).T


def _interpolated(points: Sequence[float], arms: Sequence[Arm], x: float) -> Arm:
    right = min(max(bisect_right(points, x), 1), len(points) - 1)
    low, high = points[right - 1], points[right]
    share, (a, b) = min(max((x - low) / (high - low), 0.0), 1.0), (arms[right - 1], arms[right])
    if a.channels != b.channels:
        raise ProblemError(f"arm at {high!r}: has {', '.join(b.channels)}; must have"
                           f" {', '.join(a.channels)}, as at {low!r}")  # fmt: skip
    if row_columns(a) and row_columns(b):
        return _either(a, b, share)
    outcomes = [
        _mixed(one, other, share, f"arm at {high!r}, {channel}")
        for channel, one, other in zip(a.channels, a.outcomes, b.outcomes, strict=True)
    ]
    cost, reward, *penalties = outcomes
    named: Any = dict(zip(a.channels[2:], penalties, strict=True))
    return Arm(
        a.name, cast(Any, cost), reward, named if isinstance(a.penalty, Mapping) else penalties
    )


def _either(a: Arm, b: Arm, share: float) -> Arm:
    """An arm that draws the rows of ``b`` with a chance of ``share``, otherwise those of ``a``."""
    if share in (0.0, 1.0):
        return b if share else a
    pairs = list(zip(row_columns(a), row_columns(b), strict=True))
    columns = [np.append(one.values, other.values) for one, other in pairs]
    first, second = pairs[0]
    weights = np.append((1.0 - share) * first.chances, share * second.chances)
    names = a.channels[2:] if isinstance(a.penalty, Mapping) else ()
    return Arm.from_columns(a.name, columns, names, weights)


def _mixed(one: Outcome, other: Outcome, share: float, place: str) -> Outcome:
    """A distribution of the same kind whose parameters lie between those of the two."""
    if type(one) is not type(other):
        allowed = f"a {type(one).__name__}, as at the point before"
        raise ProblemError(f"{place}: {shown(other)} must be {allowed}")

    def mixed(a: Any, b: Any) -> Any:
        if isinstance(a, tuple):
            return tuple(map(mixed, a, b))
        return a if a == b else (1.0 - share) * a + share * b

    parameters = [field.name for field in fields(one)]
    return type(one)(
        **{name: mixed(getattr(one, name), getattr(other, name)) for name in parameters}
    )
