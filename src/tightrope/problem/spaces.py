"""Numbers as arms: an :class:`Interval`, or a :class:`Box` of two or three numbers.

A space is a fine grid of ordinary arms, so engines, stores and oracles see arms. The points of the
grid are short decimal numbers, and an arm's name is its number. Policies that know the space learn
from neighbours (``policies.smooth``); all others treat the points as unrelated arms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, cast

import numpy as np

from tightrope.errors import InputError, ProblemError
from tightrope.problem.named import Named
from tightrope.problem.values import number, shown

POINTS = {1: 101, 2: 21, 3: 9}  # of a side, by default, by the number of sides
FEWEST = {1: 5, 2: 7, 3: 9}  # the fewest that a smooth belief needs
MOST = 4096  # points of a grid
DIGITS = 10  # of a point

Value = float | tuple[float, ...]


class Space(Sequence[str]):
    """A grid of numbers, as a sequence of arms' names; use :class:`Interval` or :class:`Box`."""

    points: int | None
    ranges: Any  # the lowest and highest number of each side, by its name

    def __len__(self) -> int:
        return len(self.grid)

    def __getitem__(self, place: Any) -> Any:
        return self.arms[place]

    @property
    def side_count(self) -> int:
        """How many numbers an arm has."""
        return len(self.ranges)

    def _check(self) -> None:
        """Check the ranges and the number of points, and fill in the latter."""
        for name, (low, high) in self.ranges.items():
            if not isinstance(name, str) or not name or name == "points":
                raise ProblemError(f"side {shown(name)}: must be a name, other than points")
            if not low < high:
                raise ProblemError(f"{name}: low = {low!r}: must be below high = {high!r}")
        sides = self.side_count
        points = POINTS[sides] if self.points is None else self.points
        most = int(MOST ** (1 / sides) + 1e-9)
        whole = isinstance(points, int) and not isinstance(points, bool)
        if not whole or not FEWEST[sides] <= points <= most:
            allowed = f"a whole number from {FEWEST[sides]} to {most}"
            raise ProblemError(f"points = {shown(points)}: must be {allowed}")
        object.__setattr__(self, "points", points)
        if len(set(self.arms)) < len(self.arms):
            raise ProblemError(f"{self!r}: must be wider, for points that differ in ten digits")

    @cached_property
    def axes(self) -> tuple[tuple[float, ...], ...]:
        """The points of each side, in order."""
        places = np.linspace(0.0, 1.0, self.points or 0)
        return tuple(
            tuple(float(f"{low + (high - low) * place:.{DIGITS}g}") for place in places)
            for low, high in self.ranges.values()
        )

    @cached_property
    def grid(self) -> tuple[tuple[float, ...], ...]:
        """The numbers of every arm, [K][side]; the last side varies fastest."""
        return tuple(product(*self.axes))

    @cached_property
    def arms(self) -> tuple[str, ...]:
        """The names of the arms, [K]: their numbers, as short text."""
        return tuple(", ".join(f"{one:.{DIGITS}g}" for one in point) for point in self.grid)

    def value(self, arm: int) -> Value:
        """The number of an arm; a tuple in a box."""
        return self.as_value(self.grid[arm])

    def as_value(self, point: tuple[float, ...]) -> Value:
        """The number of a point; itself in a box."""
        return point[0] if self.side_count == 1 else point

    def point_of(self, name: str) -> float | list[float]:
        """The number of an arm by its name; a list in a box."""
        given = [float(part) for part in name.split(",")]
        return given[0] if len(given) == 1 else given

    def number_of(self, value: object, place: str = "arm") -> int:
        """The arm nearest to a value; raises an ``InputError`` for values outside the space."""
        given = self._numbers(value, place)
        found = 0
        for points, one, (name, (low, high)) in zip(
            self.axes, given, self.ranges.items(), strict=True
        ):
            if not low <= one <= high:
                raise InputError(f"{place}: {name} = {one!r}: must lie in [{low!r}, {high!r}]")
            found = found * len(points) + int(np.abs(np.subtract(points, one)).argmin())
        return found

    def within(self, eligible: object) -> list[int]:
        """The arms in a part of the space: a range of the numbers, or in a box ranges by side."""
        given = eligible
        if not isinstance(eligible, Mapping):
            given = {next(iter(self.ranges)): eligible} if self.side_count == 1 else eligible
        if not isinstance(given, Mapping) or not set(given) <= set(self.ranges):
            allowed = f"ranges by name, among {', '.join(self.ranges)}"
            raise InputError(f"eligible = {shown(eligible)}: must be {allowed}")
        kept = []
        for (name, whole), points in zip(self.ranges.items(), self.axes, strict=True):
            low, high = _range(given.get(name, whole), f"eligible: {name}", InputError)
            kept.append([low <= one <= high for one in points])
        found = [k for k, inside in enumerate(product(*kept)) if all(inside)]
        if not found:
            step = [(high - low) / (len(points) - 1) for points, (low, high) in self._steps()]
            allowed = f"hold a point of the grid, whose step is {', '.join(f'{s:g}' for s in step)}"
            raise InputError(f"eligible = {shown(eligible)}: must {allowed}")
        return found

    def _steps(self) -> Iterator[tuple[Sequence[float], tuple[float, float]]]:
        return zip(self.axes, self.ranges.values(), strict=True)

    def _numbers(self, value: object, place: str) -> tuple[float, ...]:
        """The numbers of a value, or of an arm's name."""
        if isinstance(value, str):
            value = [_as_float(part) for part in value.split(",")]
        several = value if isinstance(value, Sequence | np.ndarray) else [value]
        if len(several) != self.side_count:
            count = "a number" if self.side_count == 1 else f"{self.side_count} numbers"
            allowed = f"{count}: {', '.join(self.ranges)}"
            raise InputError(f"{place} = {shown(value)}: must be {allowed}")
        try:
            return tuple(number(one, place) for one in several)
        except ProblemError as error:
            raise InputError(str(error)) from None

    def nearest(self, points: Any) -> Any:
        """Of every arm, which of some arms is nearest to it, [K] places in ``points``."""
        ends = np.array(list(self.ranges.values()))
        places = (np.array(self.grid) - ends[:, 0]) / (ends[:, 1] - ends[:, 0])
        away = ((places[:, np.newaxis] - places[points]) ** 2).sum(axis=2)
        return away.argmin(axis=1)

    def table(self) -> dict[str, Any]:
        """As TOML and JSON have it."""
        sides = {name: list(ends) for name, ends in self.ranges.items()}
        return {**sides, "points": self.points}


def _as_float(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text


def _range(given: object, place: str, error: type[Exception]) -> tuple[float, float]:
    """Two numbers, the first not above the second."""
    try:
        low, high = (number(one, place) for one in cast(Iterable[object], given))
    except (TypeError, ValueError, ProblemError):
        raise error(f"{place} = {shown(given)}: must be two numbers, low and high") from None
    if low > high:
        raise error(
            f"{place} = {shown(given)}: must be two numbers, low and high, low not above high"
        )
    return low, high


@dataclass(frozen=True)
class Interval(Space):
    """The numbers from ``low`` to ``high``, such as bids, prices or doses.

    ``name`` is the name of the number in messages and tables. ``points``: the number of points of
    the grid that stands for the interval, from 5 to 4,096.

    >>> bids = Interval(0.0, 5.0, name="bid", points=11)
    >>> bids.value(3), bids.number_of(1.37), bids.arms[3]
    (1.5, 3, '1.5')
    >>> bids.number_of(6)
    Traceback (most recent call last):
    tightrope.errors.InputError: arm: bid = 6.0: must lie in [0.0, 5.0]
    """

    low: float
    high: float
    name: str = "number"
    points: int | None = None

    def __post_init__(self) -> None:
        for end in ("low", "high"):
            object.__setattr__(self, end, number(getattr(self, end), end))
        self._check()

    @cached_property
    def ranges(self) -> Mapping[str, tuple[float, float]]:
        """The only range."""
        return {self.name: (self.low, self.high)}


@dataclass(frozen=True)
class Box(Space):
    """Two or three numbers, each in a range of its own.

    ``ranges``: the lowest and highest number of each side, by its name. ``points``: the number of
    points of each side of the grid; by default 21 for two sides and 9 for three.

    >>> box = Box({"bid": (0, 5), "rate": (0, 1)}, points=11)
    >>> box.value(12), box.number_of((0.5, 0.1))
    ((0.5, 0.1), 12)
    """

    ranges: Mapping[str, tuple[float, float]]  # kept as Named
    points: int | None = None

    def __post_init__(self) -> None:
        given = self.ranges
        if not isinstance(given, Mapping) or len(given) not in (2, 3):
            raise ProblemError(f"box = {shown(given)}: must be two or three ranges by name")
        ranges = {name: _range(ends, str(name), ProblemError) for name, ends in given.items()}
        object.__setattr__(self, "ranges", Named(ranges))
        self._check()


def space_of(given: object) -> Space | None:
    """What a task was given as its space: a space, or its TOML table."""
    if given is None or isinstance(given, Space):
        return given
    if not isinstance(given, Mapping):
        raise ProblemError(f"space = {shown(given)}: must be an Interval or a Box")
    sides = {name: ends for name, ends in given.items() if name != "points"}
    if not sides:
        raise ProblemError(f"space = {shown(dict(given))}: must have a range, such as bid = [0, 5]")
    if len(sides) != 1:
        return Box(sides, given.get("points"))
    [(name, ends)] = sides.items()
    low, high = _range(ends, str(name), ProblemError)
    return Interval(low, high, name, given.get("points"))
