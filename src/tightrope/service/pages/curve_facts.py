"""What was learned about an interval, as panels of a chart: a curve and its band per outcome.

Places are in percent of a panel's plot, from its top left. Letters: K points, C channels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from tightrope.formats import count, percent
from tightrope.live.learned import Floats, LearnedCurve
from tightrope.problem import Interval
from tightrope.service.pages.arm_facts import LEAST_SHARE, outcome_words
from tightrope.service.pages.history import View
from tightrope.service.pages.mixture import VIEWS, best_of

__all__ = ["CurveFacts", "curve_facts"]

Write = Callable[[float | None], str]

LINES = 4  # of a panel's grid, at most
ROWS = 21  # of the table, about
ROOM = 1.06  # of the highest value that a panel shows
CLOSE = 7.0  # percent of the width in which points of the mixture share a mark
BARS = 18.0  # percent of the height: the most pulled number
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
    line: str
    band: str
    allowed: str  # the most that keeps the limit; empty without one
    bars: list[tuple[str, str, str]]  # x, width and height
    across: list[Mark]
    up: list[Mark]
    best: list[Mark]
    text: str


class CurveRow(NamedTuple):
    """A number, its share of the best mixture, and its outcomes with their bands."""

    name: str
    pulls: str
    share: str
    cells: list[tuple[str, str]]


class CurveFacts:
    """The chart of an interval and its table."""

    def __init__(self, view: View, space: Interval, unit: str) -> None:
        self.name, self.channels = space.name, list[str]()
        self.panels, self.rows = list[CurvePanel](), list[CurveRow]()
        if view.curve is not None:
            self._draw(view, view.curve, outcome_words(view, unit))

    def _draw(self, view: View, curve: LearnedCurve, words: list[Write]) -> None:
        channels, count, mixture = view.task.channels, len(curve.mean), best_of(view)
        shares = np.zeros(count) if mixture is None else np.array(mixture[1])
        shown = [c for c in range(len(channels)) if (curve.high - curve.low)[:, c].any()]
        self.channels = [channels[c] for c in shown]
        self.panels = [_panel(view, curve, c, words[c], shares) for c in shown]
        places = set(range(0, count, max(1, count // (ROWS - 1))))
        places |= set(np.flatnonzero(shares >= LEAST_SHARE).tolist())
        self.rows = [_row(curve, k, shown, words, float(shares[k])) for k in sorted(places)]


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
    """The chart of a campaign over an interval, empty before the first report; None for others."""
    space = view.task.space
    return CurveFacts(view, space, unit) if isinstance(space, Interval) else None


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
