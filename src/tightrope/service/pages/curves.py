"""Curves of a campaign: rates with their bands, shares of the arms; for charts and as tables.

Letters: N points, K arms, M limits.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np

from tightrope import formats
from tightrope.problem import Task
from tightrope.problem.values import Floats
from tightrope.service.pages.history import Point, View
from tightrope.service.pages.mixture import best_of, colours_of, ranking
from tightrope.service.pages.rate_words import RateWords

DOUBT = 0.05  # the largest chance that a band is wrong anywhere
TILTS = np.geomspace(0.001, 4.0, 13)
HALVINGS = 26
WINDOW, FEWEST = 0.05, 50  # a share is that of the last pulls: a part of all, and at least so many

RECENT, SHORTEST, LONGEST = 0.1, 60.0, 86400.0  # the pace is that of so much of the time, seconds


def _log_mean(exponents: Floats) -> Floats:
    """The log of the mean of exp over the last axis."""
    top = exponents.max(axis=-1)
    return np.asarray(top + np.log(np.exp(exponents - top[..., None]).mean(axis=-1)))


def mean_band(total: Floats, count: Floats, doubt: float = DOUBT) -> tuple[Floats, Floats]:
    """Bounds [N] on the average mean of ``count`` outcomes in [0, 1] that sum to ``total``.

    They hold at all points together with a chance of at least 1 - ``doubt``, for any rule that
    decides which arm is pulled: with p the average of the means so far, a mixture over theta of
    exp(theta S - n log(1 + p (e^theta - 1))) has mean at most 1, and by Ville's inequality it
    exceeds 2 / doubt with a chance of at most doubt / 2; likewise with -theta.
    """
    s, n = np.asarray(total, float)[:, None], np.asarray(count, float)[:, None]
    most = np.log(2.0 / doubt)
    mean = np.clip(np.where(n > 0, s / np.maximum(n, 1), 0.5), 0.0, 1.0)[:, 0]
    found = []
    for tilts, end in ((TILTS, np.zeros_like(mean)), (-TILTS, np.ones_like(mean))):
        inside, outside = mean.copy(), end
        grown = np.expm1(tilts)
        for _ in range(HALVINGS):
            middle = 0.5 * (inside + outside)
            with np.errstate(divide="ignore"):
                price = np.log1p(np.maximum(middle[:, None] * grown, -1.0 + 1e-300))
            ruled_out = _log_mean(tilts * s - n * price) >= most
            outside = np.where(ruled_out, middle, outside)
            inside = np.where(ruled_out, inside, middle)
        found.append(outside)
    nothing = n[:, 0] <= 0
    return np.where(nothing, 0.0, found[0]), np.where(nothing, 1.0, found[1])


class Totals:
    """Points as columns: [N], [N, M] of penalties and queues, [N, K] of pulls."""

    def __init__(self, points: Sequence[Point], arms: int) -> None:
        """``arms``: K; earlier points may have fewer."""

        def column(name: str) -> Floats:
            return np.array([getattr(point, name) for point in points], float)

        self.at, self.told, self.reward = column("at"), column("told"), column("reward")
        self.budget, self.spent = column("budget"), column("spent")
        self.reserved = column("reserved")
        self.penalties, self.queues = column("penalties"), column("queues")
        self.pulls = np.zeros((len(points), arms))
        for row, point in zip(self.pulls, points, strict=True):
            row[: len(point.pulls)] = point.pulls[:arms]

    def rate(self, task: Task, m: int) -> Floats:
        """Penalty m so far over the base of its limit, [N]; nan while the base is 0."""
        base = task.limit_kinds[m].base(self.spent, self.told, self.reward)
        return np.where(base > 0, self.penalties[:, m] / np.where(base > 0, base, 1.0), np.nan)


def rate_band(task: Task, totals: Totals, m: int) -> tuple[Floats, Floats]:
    """A band around the running rate of limit m, [N]: where the rate of the means lies.

    The band of the penalty divided by that of its base; the two share the doubt.
    """
    scales, limit, pulls = task.scales, task.limit_kinds[m], totals.told
    certain = limit.unit.channel == "pull"  # how much there is of it
    penalty = totals.penalties[:, m] / scales.penalties[m]
    low, high = mean_band(penalty, pulls, DOUBT if certain else DOUBT / 2)
    low, high = low * scales.penalties[m], high * scales.penalties[m]
    if limit.total is not None:
        return low * pulls, high * pulls
    scale = limit.base(scales.cost, 1.0, scales.reward)
    if certain:
        return low / scale, high / scale
    base = limit.base(totals.spent, pulls, totals.reward)
    least, most = mean_band(np.minimum(base / scale, pulls), pulls, DOUBT / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return low / (most * scale), np.where(least > 0, high / (least * scale), np.inf)


@dataclass(frozen=True)
class Series:
    """A line of a chart. ``look``: line, thin, limit, low and high (of a band), or area."""

    label: str
    values: Floats
    look: str = "line"
    colour: str = "1"  # of the palette


@dataclass(frozen=True)
class Chart:
    """Curves over the same times."""

    name: str
    series: list[Series]
    format: str = "number"  # of its values: number, money or share


def shares(totals: Totals, start: int) -> Floats:
    """The arms' shares of the last pulls at each point from ``start`` on, [N - start, K]."""
    told = totals.pulls.sum(axis=1)
    window = np.maximum(FEWEST, WINDOW * told[start:])
    before = np.searchsorted(told, told[start:] - window, side="right") - 1
    first = np.where(before[:, None] >= 0, totals.pulls[np.maximum(before, 0)], 0.0)
    some = totals.pulls[start:] - first
    of = some.sum(axis=1, keepdims=True)
    return np.where(of > 0, some / np.where(of > 0, of, 1.0), np.nan)


def charts_of(view: View, start: int = 0) -> tuple[Floats, list[Chart]]:
    """The times and all charts of a campaign, from point number ``start`` on."""
    task, best = view.task, best_of(view)
    whole = Totals(view.points, task.arm_count)
    some = Totals(view.points[start:], task.arm_count)
    spend = [
        Series("budget", some.budget, "limit", "limit"),
        Series("spent and reserved", some.spent + some.reserved, "thin", "1"),
        Series("spent", some.spent, "line", "1"),
    ]
    charts = [Chart("spend", spend, "money")]
    for m, name in enumerate(task.limit_names):
        low, high = rate_band(task, some, m)
        rate = some.rate(task, m)
        limit = np.full(len(rate), float(task.limit_values[m]))
        lines = [
            Series("low", low, "low", "1"),
            Series("high", high, "high", "1"),
            Series("limit", limit, "limit", "limit"),
            Series(name, rate, "line", "1"),
        ]
        charts.append(Chart(f"limit-{m}", lines, RateWords(task, m).format))
        charts.append(Chart(f"queue-{m}", [Series("queue", some.queues[:, m], "line", "2")]))
    rate = np.where(some.spent > 0, some.reward / np.where(some.spent > 0, some.spent, 1.0), np.nan)
    rewards = [Series("reward rate", rate, "line", "1")]
    if best is not None:
        rewards.insert(0, Series("best mixture", np.full(len(rate), best[0]), "limit", "good"))
    charts.append(Chart("reward", rewards))
    charts.append(Chart("shares", _areas(view, whole, start), "share"))
    return some.at, charts


def _areas(view: View, totals: Totals, start: int) -> list[Series]:
    """The shares of the arms that have a colour of their own, and of the others together."""
    task, found, colours = view.task, shares(totals, start), colours_of(ranking(view))
    own = list(colours)
    drawn = [Series(task.names[k], found[:, k], "area", str(colours[k])) for k in own]
    if len(own) < task.arm_count:
        rest = found.sum(axis=1) - found[:, own].sum(axis=1)
        drawn.append(Series(f"{task.arm_count - len(own)} others", rest, "area", "rest"))
    return drawn


def pace_of(points: tuple[Point, ...], now: float) -> tuple[float | None, float | None]:
    """The recent spending per second, and when the budget ends at this pace."""
    last = points[-1]
    window = min(max(RECENT * (last.at - points[0].at), SHORTEST), LONGEST)
    if now - last.at > window:
        return None, None
    first = next(point for point in points if point.at >= last.at - window)
    if first is last and len(points) > 1:
        first = points[-2]
    time, spent = last.at - first.at, last.spent - first.spent
    if time <= 0 or spent <= 0:
        return None, None
    pace = spent / time
    return pace, last.at + max(last.budget - last.spent, 0.0) / pace


def curves_text(view: View, start: int, unit: str) -> bytes:
    """The points of all charts from number ``start`` on, as JSON for the page."""
    at, charts = charts_of(view, start)
    _, end = pace_of(view.points, time.time())
    last = view.points[-1]
    ahead = [[last.at, last.spent], [end, last.budget]] if end and end < last.at * 2 else None
    found = {
        "generation": str(view.generation),
        "start": start,
        "unit": unit,
        "pulled": last.told > 0,
        "ahead": ahead if view.status["state"] == "open" else None,
        "t": at.round(3).tolist(),
        "charts": {one.name: {"format": one.format, "series": one.series} for one in charts},
    }
    return msgspec.json.encode(found, enc_hook=_shortened)


def _shortened(values: Any) -> msgspec.Raw:
    """Numbers with six digits; null for NaN and infinity."""
    told = [f"{one:.6g}" if one - one == 0.0 else "null" for one in values.tolist()]
    return msgspec.Raw(f"[{','.join(told)}]".encode())


def curves_table(view: View, most: int, rounded: bool = True) -> tuple[list[str], list[list[str]]]:
    """The curves as columns of text; ``most``: the largest number of rows, evenly spread."""
    at, charts = charts_of(view)
    columns = [(_heading(view, chart, one.label), one.values) for chart in charts
               for one in chart.series]  # fmt: skip
    step = max(1, -(-len(at) // most))
    places = list(range(len(at) - 1, -1, -step))[::-1]
    headings = ["time"] + [heading for heading, _ in columns]
    rows = []
    for i in places:
        when = datetime.fromtimestamp(float(at[i]), UTC)
        if rounded:
            cells = [formats.number(float(values[i])) for _, values in columns]
            rows.append([when.strftime("%Y-%m-%d %H:%M:%S"), *cells])
        else:
            rows.append([when.isoformat(), *(f"{float(values[i]):.10g}" for _, values in columns)])
    return headings, rows


def _heading(view: View, chart: Chart, label: str) -> str:
    kind, _, m = chart.name.partition("-")
    if kind in ("limit", "queue"):
        name = view.task.limit_names[int(m)]
        if kind == "queue":
            return f"{name}: queue"
        return f"{name}: rate" if label == name else f"{name}: {label}"
    return f"share of {label}" if kind == "shares" else label
