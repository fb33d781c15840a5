"""Distributions over a space of numbers: a function of the number, or arms at some of its points.

Between two points the parameters of the distributions are interpolated linearly.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, cast

from tightrope.errors import InputError, ProblemError
from tightrope.problem.arms import Arm
from tightrope.problem.distributions import Empirical
from tightrope.problem.outcomes import Outcome
from tightrope.problem.spaces import Space
from tightrope.problem.values import shown

__all__ = ["Curve", "arms_over"]

Curve = Callable[..., Arm] | Mapping[Any, Arm]


def arms_over(space: Space, arm: object) -> tuple[Arm, ...]:
    """The arm at every point of the grid, [K], named after it.

    ``arm``: a function of the numbers, or arms by point.
    """
    if isinstance(arm, Mapping):
        found = _between(space, arm)
    elif callable(arm):
        found = [arm(*point) for point in space.grid]
    else:
        raise ProblemError(f"arm = {shown(arm)}: must be a function, or arms by point")
    for name, one in zip(space.arms, found, strict=True):
        if not isinstance(one, Arm):
            raise ProblemError(f"arm at {name}: {shown(one)} must be an Arm")
    return tuple(replace(one, name=name) for name, one in zip(space.arms, found, strict=True))


def _between(space: Space, given: Mapping[Any, Arm]) -> Sequence[Arm]:
    """Arms at some points of an interval, interpolated; in a box, all points must be given."""
    places = _places(space, given)
    if len(places) == len(space.grid) and set(places) == set(space.grid):
        return [places[point] for point in space.grid]
    if space.side_count > 1:
        raise ProblemError(f"arms: {len(places)} points; must be the {len(space.grid)} of the grid")
    [(low, high)] = space.ranges.values()
    points = sorted(point for (point,) in places)
    if points[0] > low or points[-1] < high:
        raise ProblemError(f"arms: at = {points[0]!r} to {points[-1]!r}: must reach from {low!r} to"
                           f" {high!r}")  # fmt: skip
    return [_interpolated(points, [places[p,] for p in points], x) for (x,) in space.grid]


def _places(space: Space, given: Mapping[Any, Arm]) -> dict[tuple[float, ...], Arm]:
    """The arms by their numbers, checked."""
    if len(given) < 2:
        raise ProblemError(f"arms: {len(given)} points; must be at least two")
    found = {}
    for place, arm in given.items():
        try:
            space.number_of(place, "at")
        except InputError as error:
            raise ProblemError(str(error)) from None
        if not isinstance(arm, Arm):
            raise ProblemError(f"arm at {shown(place)}: {shown(arm)} must be an Arm")
        point = place if isinstance(place, tuple | list) else (place,)
        found[tuple(map(float, point))] = arm
    return found


def _interpolated(points: Sequence[float], arms: Sequence[Arm], x: float) -> Arm:
    right = min(bisect_right(points, x), len(points) - 1)
    low, high = points[right - 1], points[right]
    share, (a, b) = (x - low) / (high - low), (arms[right - 1], arms[right])
    if a.channels != b.channels:
        raise ProblemError(f"arm at {high!r}: has {', '.join(b.channels)}; must have"
                           f" {', '.join(a.channels)}, as at {low!r}")  # fmt: skip
    outcomes = [
        _mixed(one, other, share, f"arm at {high!r}, {channel}")
        for channel, one, other in zip(a.channels, a.outcomes, b.outcomes, strict=True)
    ]
    cost, reward, *penalties = outcomes
    named: Any = dict(zip(a.channels[2:], penalties, strict=True))
    return Arm(
        a.name, cast(Any, cost), reward, named if isinstance(a.penalty, Mapping) else penalties
    )


def _mixed(one: Outcome, other: Outcome, share: float, place: str) -> Outcome:
    """A distribution of the same kind whose parameters lie between those of the two."""
    if type(one) is not type(other) or isinstance(one, Empirical):
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
