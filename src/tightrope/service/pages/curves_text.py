"""Curves as text: JSON for the charts of a page, and accessible tables."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import msgspec

from tightrope import formats
from tightrope.service.pages.curves import Chart, charts_of
from tightrope.service.pages.facts import pace_of
from tightrope.service.pages.history import View


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
