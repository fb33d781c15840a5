"""What was learned about an interval or a box, as panels of a chart, one per outcome.

Over an interval a panel has a curve and its band, over a box a map. Places are in
percent of a panel's plot, from its top left. Letters: K points, C channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from tightrope.formats import count, percent
from tightrope.live.learned import LearnedCurve
from tightrope.problem import Interval, Space
from tightrope.problem.values import Floats
from tightrope.service.pages.arm_facts import LEAST_SHARE, outcome_words
from tightrope.service.pages.history import View
from tightrope.service.pages.mixture import VIEWS, best_of

Write = Callable[[float | None], str]

LINES = 4  # of a panel's grid, at most
ROWS = 21  # of the table, about
ROOM = 1.06  # of the highest value that a panel shows
CLOSE = 7.0  # percent of the width in which points of the mixture share a mark
BARS = 18.0  # percent of the height: the most pulled number
FAINT = 0.01  # of the highest value: a cell that is left out of a map
ABOUT = (
    "mean outcome of one pull with its 95 % band; dots: the best mixture; bars: where the pulls lie"
)
ABOUT_MAPS = "mean outcome of one pull: the stronger the colour, the higher; dots: the best mixture"
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)  # digits of the marks of an axis
LEFT, RIGHT, TOP, BOTTOM = 12.0, 98.0, 5.0, 86.0  # edges of the plot, in percent of the chart


class Mark(NamedTuple):
    """A label of an axis, or a point of the best mixture, with its place in the chart."""

    x: str
    y: str
    text: str


class CurvePanel(NamedTuple):
    """One outcome: ``line``, ``band``, ``allowed`` and ``bars`` are points of SVG shapes."""

    channel: str
    across: list[Mark]
    up: list[Mark]
    best: list[Mark]
    text: str
    key: str = ""  # beside the title
    line: str = ""
    band: str = ""
    allowed: str = ""  # the most that keeps the limit; empty without one
    bars: Sequence[tuple[str, str, str]] = ()  # x, width and height
    cells: Sequence[tuple[str, str, str, str, str]] = ()  # x, y, width, height, shade


class CurveRow(NamedTuple):
    """A number, its share of the best mixture, and its outcomes with their bands."""

    name: str
    pulls: str
    share: str
    cells: list[tuple[str, str]]


class CurveFacts:
    """The chart of an interval or a box, and its table."""

    def __init__(self, view: View, space: Space, unit: str) -> None:
        self.name, self.channels = " and ".join(space.ranges), list[str]()
        self.about = ABOUT
        if space.side_count > 1:
            across, up = list(space.ranges)[:2]
            self.about = f"{across} across, {up} up; {ABOUT_MAPS}"
        self.panels, self.rows = list[CurvePanel](), list[CurveRow]()
        if view.curve is not None:
            self._draw(view, view.curve, outcome_words(view, unit))

    def _draw(self, view: View, curve: LearnedCurve, words: list[Write]) -> None:
        channels, count, mixture = view.task.channels, len(curve.mean), best_of(view)
        shares = np.zeros(count) if mixture is None else np.array(mixture[1])
        shown = [c for c in range(len(channels)) if (curve.high - curve.low)[:, c].any()]
        self.channels = [channels[c] for c in shown]
        places = list(range(0, count, max(1, count // (ROWS - 1))))
        if curve.sums.space.side_count == 1:
            self.panels = [_panel(view, curve, c, words[c], shares) for c in shown]
        else:
            self.panels = _maps(curve, shown, words, shares)
            places = np.argsort(curve.sums.pulls)[: -ROWS - 1 : -1].tolist()  # the most pulled
        best = np.flatnonzero(shares >= LEAST_SHARE).tolist()
        self.rows = [
            _row(curve, k, shown, words, float(shares[k])) for k in sorted({*places, *best})
        ]


def _row(
    curve: LearnedCurve, k: int, shown: list[int], words: list[Write], share: float
) -> CurveRow:
    cells = [
        (words[c](curve.mean[k, c]), f"{words[c](curve.low[k, c])} to {words[c](curve.high[k, c])}")
        for c in shown
    ]
    name, pulls = curve.sums.task.names[k], count(curve.sums.pulls[k])
    return CurveRow(name, pulls, percent(share), cells)


@lru_cache(maxsize=VIEWS)
def curve_facts(view: View, unit: str) -> CurveFacts | None:
    """The chart of a campaign over numbers, empty before the first report; None for others."""
    space = view.task.space
    return None if space is None else CurveFacts(view, space, unit)


def _panel(view: View, curve: LearnedCurve, c: int, write: Write, shares: Floats) -> CurvePanel:
    space, task = cast(Interval, view.task.space), view.task
    across = 100.0 * (np.array(space.axes[0]) - space.low) / (space.high - space.low)
    allowed = _allowed(view, curve, c)
    top = ROOM * max(curve.high[:, c].max(), 0.0 if allowed is None else allowed.max())
    scale = 100.0 / (top or 1.0)
    mean, low, high = (100.0 - scale * one[:, c] for one in curve[1:])
    pulls, width = np.array(curve.sums.pulls, float), 100.0 / len(across)
    bars = BARS * pulls / max(pulls.max(), 1.0)
    best = []
    for some in _together(across, shares):
        x, y = np.average([across[some], mean[some]], axis=1, weights=shares[some]).tolist()
        best.append(_mark(x, y, percent(shares[some].sum(), 0)))
    said = "" if allowed is None else "; what its limit allows"
    return CurvePanel(
        channel=task.channels[c],
        line=_points(across, mean),
        band=_points(np.append(across, across[::-1]), np.append(high, low[::-1])),
        key="" if allowed is None else "dashed: what the limit allows",
        allowed="" if allowed is None else _points(across, 100.0 - scale * allowed),
        bars=[
            (f"{x - width / 2:.2f}", f"{width:.2f}", f"{bar:.2f}")
            for x, bar in zip(across, bars, strict=True)
            if bar
        ],
        across=[
            _mark(100.0 * (x - space.low) / (space.high - space.low), 100.0, f"{x:g}")
            for x in _ticks(space.low, space.high)
        ],
        up=[_mark(0.0, 100.0 - scale * y, write(y)) for y in _ticks(0.0, top)],
        best=best,
        text=f"mean {task.channels[c]} of a pull by {space.name}, with its 95 % band{said}",
    )


def _maps(
    curve: LearnedCurve, shown: list[int], words: list[Write], shares: Floats
) -> list[CurvePanel]:
    """A map of each outcome over the first two numbers, and one of the pulls.

    A third number has the value that is best, or pulled most.
    """
    space, pulls = curve.sums.space, np.array(curve.sums.pulls, float)
    shape = tuple(len(points) for points in space.axes)
    most = np.unravel_index(int((shares if shares.any() else pulls).argmax()), shape)
    there = [
        f"{name} {points[at]:g}"
        for name, points, at in list(zip(space.ranges, space.axes, most, strict=True))[2:]
    ]
    maps = [(curve.sums.task.channels[c], curve.mean[:, c], words[c]) for c in shown]
    maps.append(("pulls", pulls, lambda value: count(int(value or 0))))
    found = []
    for name, values, write in maps:
        plane = values.reshape(shape[0], shape[1], -1)[:, :, int(most[2]) if there else 0]
        found.append(_map(space, name, plane, write, shares, there))
    return found


def _map(
    space: Space, name: str, values: Floats, write: Write, shares: Floats, there: list[str]
) -> CurvePanel:
    (wide, high), top = values.shape, float(values.max()) or 1.0
    x, y = np.arange(wide) * 100.0 / wide, 100.0 - np.arange(1, high + 1) * 100.0 / high
    cells = [
        (f"{x[i]:.2f}", f"{y[j]:.2f}", f"{100 / wide:.2f}", f"{100 / high:.2f}", f"{shade:.3f}")
        for (i, j), shade in np.ndenumerate(np.maximum(values, 0.0) / top)
        if shade >= FAINT
    ]
    sides, marks = list(space.ranges.items())[:2], []
    for low, most in (ends for _, ends in sides):
        marks.append(
            [(100.0 * (one - low) / (most - low), f"{one:g}") for one in _ticks(low, most)]
        )
    return CurvePanel(
        channel=name,
        across=[_mark(_inside(at, wide), 100.0, text) for at, text in marks[0]],
        up=[_mark(0.0, 100.0 - _inside(at, high), text) for at, text in marks[1]],
        best=_best_on_map(space, shares, wide, high),
        text=f"{name} by {sides[0][0]} (across) and {sides[1][0]} (up), by strength of colour",
        key=", ".join([f"up to {write(top)}", *there]),
        cells=cells,
    )


def _inside(at: float, count: int) -> float:
    """The place of a point, in percent of a side, among the middles of so many cells."""
    return (at * (count - 1) / 100.0 + 0.5) * 100.0 / count


def _best_on_map(space: Space, shares: Floats, wide: int, high: int) -> list[Mark]:
    """The points of the best mixture, largest first; those that are close together are one."""
    groups: list[tuple[float, float, float]] = []
    shape = tuple(len(points) for points in space.axes)
    for k in np.argsort(-shares):
        if shares[k] < LEAST_SHARE:
            break
        i, j = np.unravel_index(int(k), shape)[:2]
        x, y = (i + 0.5) * 100.0 / wide, 100.0 - (j + 0.5) * 100.0 / high
        near = [n for n, one in enumerate(groups) if abs(one[0] - x) + abs(one[1] - y) < 2 * CLOSE]
        if near:
            groups[near[0]] = (*groups[near[0]][:2], groups[near[0]][2] + float(shares[k]))
        else:
            groups.append((x, y, float(shares[k])))
    return [_mark(x, y, percent(share, 0)) for x, y, share in groups]


def _together(across: Floats, shares: Floats) -> list[npt.NDArray[np.int64]]:
    """The points of the best mixture; those that are close together are one."""
    chosen = np.flatnonzero(shares >= LEAST_SHARE)
    gaps = np.flatnonzero(np.diff(across[chosen]) > CLOSE) + 1
    return [some for some in np.split(chosen, gaps) if len(some)]


def _allowed(view: View, curve: LearnedCurve, c: int) -> Floats | None:
    """The mean penalty that keeps the limit of a channel at each point; None without one."""
    if c < 2:
        return None
    limit = view.task.limit_kinds[c - 2].at(view.status["budget"])
    base = limit.base(curve.mean[:, 0], np.ones(len(curve.mean)), curve.mean[:, 1])
    return np.asarray(limit.number * base)


def _points(x: Floats, y: Floats) -> str:
    return " ".join(f"{one:.2f},{other:.2f}" for one, other in zip(x, y, strict=True))


def _mark(x: float, y: float, text: str) -> Mark:
    """A mark at a place of the plot, as a place of the chart."""
    return Mark(
        f"{LEFT + (RIGHT - LEFT) * x / 100:.2f}%", f"{TOP + (BOTTOM - TOP) * y / 100:.2f}%", text
    )


def _ticks(low: float, high: float) -> list[float]:
    """Short numbers between two, evenly spaced."""
    rough = (high - low) / LINES
    if not rough > 0.0:
        return [low]
    power = 10.0 ** np.floor(np.log10(rough))
    step = next(one * power for one in STEPS if one * power >= rough * (1 - 1e-9))
    first = np.ceil(low / step - 1e-9)
    return [float(f"{step * k:.10g}") + 0.0 for k in np.arange(first, high / step + 1e-9)]  # no -0
