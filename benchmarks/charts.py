"""The charts of the arena, the benchmarks and numbers as arms, from the numbers in docs/data.

    python -m benchmarks.charts [arena.png benchmark-gpu.png ...]

Every chart is a dot plot: a line for each row of a CSV file, a mark for each column. A chart can
have several panels side by side, which share the labels of their rows.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tightrope.report.styles import INK, PAPER, QUIET, SETTINGS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CHARTS", "draw", "draw_all"]

DOCS = Path(__file__).parents[1] / "docs"
WIDTH, LINE, EDGE = 7.0, 0.27, 1.05  # inches: of a chart, of a row, of axis and legend
DOTS = 160  # of an inch
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")  # Okabe and Ito
MARKERS = ("o", "D", "^", "s", "v")
PLAIN = 1e5  # numbers below this are not written as powers of ten
DECADES = 100.0  # an axis that spans less has numbers between powers of ten
BETWEEN = [step * 10.0**power for power in range(-6, 10) for step in (1, 2, 5)]
WITHIN = 1.0  # percent above a limit: from here on a mark is hollow
FEW = 8  # rows of a chart that shows its values, if a panel has one column

Row = dict[str, str]


@dataclass(frozen=True)
class Panel:
    """One panel: its title, and the columns that are drawn, by their names in the legend.

    ``low``, ``high``: the ends of the axis; ``line``: a vertical line, for comparison. ``above``: a
    mark is hollow if the row's column of this name, after its own, is above ``WITHIN``.
    """

    title: str
    columns: dict[str, str]
    log: bool = True
    low: float | None = None
    high: float | None = None
    line: float | None = None
    above: str | None = None


@dataclass(frozen=True)
class Chart:
    """A CSV file, the label of a row, and the panels.

    ``label`` is filled in from the row's columns. With ``turned`` the file's columns are the rows
    of the chart, and its first column names the columns. Only rows with the values ``of`` are
    drawn, and of these ``most``. ``axis`` is the title of the horizontal axis of all panels.
    """

    data: str
    label: str
    panels: tuple[Panel, ...]
    turned: bool = False
    most: int | None = None
    axis: str = ""
    of: tuple[tuple[str, str], ...] = ()  # columns and their values

    def rows(self) -> list[Row]:
        """The rows that are drawn."""
        with (DOCS / "data" / f"{self.data}.csv").open(newline="", encoding="utf-8") as file:
            lines = list(csv.reader(file))
        head, *rows = zip(*lines, strict=True) if self.turned else lines
        found = [dict(zip(head, row, strict=True)) for row in rows]
        wanted = [row for row in found if set(self.of) <= set(row.items())]
        return wanted[: self.most]


CHARTS = {
    "arena.png": Chart(
        "arena-policies",
        "{policy}",
        (
            Panel("problems within limits", {"": "within"}, log=False, low=0, high=52),
            Panel("median regret, %", {"": "median_regret_percent"}, log=False, low=0, high=48),
            Panel("runs that break a limit, %", {"": "broken_percent"}, log=False, low=0, high=76),
        ),
        most=6,
        of=(("budget", "1000"),),
    ),
    "arena-types.png": Chart(
        "arena-types",
        "{policy}: {types} types",
        tuple(
            Panel(
                name,
                {"within the limit": f"{name} regret within", "not": f"{name} regret beyond"},
                log=False,
                low=-10,
                high=45,
            )
            for name in ("equal", "swap", "rare", "many", "routing")
        ),
        axis="regret, % of the optimum",
    ),
    "intervals.png": Chart(
        "intervals",
        "{problem}, budget {budget}",
        (
            Panel(
                "reward, % of the best mixture over the interval; hollow: above the limit",
                {"the interval": "interval", **{f"{k} arms": f"{k}" for k in (5, 10, 20, 50)}},
                log=False,
                high=100.0,
                above=" above",
            ),
        ),
    ),
    "benchmark-gpu.png": Chart(
        "gpu",
        "{policy}, {K} arms, {runs} runs",
        (
            Panel(
                "steps per second",
                {"one H200": "steps per second", "16 CPU cores": "on all processors"},
            ),
        ),
    ),
    "benchmark-versions.png": Chart(
        "versions",
        "{what}",
        (Panel("time now, relative to 0.2", {"": "ratio"}, log=False, low=0, line=1.0),),
    ),
    "benchmark-many-arms.png": Chart(
        "many-arms",
        "{policy}, {outcomes}, {arms} arms",
        (
            Panel(
                "time of a step, ns",
                {
                    "right after exploring": "at once (ns)",
                    "after 100,000 decisions": "after 10^5 (ns)",
                    "after 1,000,000 decisions": "after 10^6 (ns)",
                },
            ),
        ),
    ),
    "benchmark-live.png": Chart(
        "live",
        "{store}, processes: {processes}, batch: {batch}",
        (
            Panel(
                "events per second",
                {"campaign": "events/s", "the store alone": "its limit"},
            ),
        ),
    ),
    "benchmark-service.png": Chart(
        "service",
        "{store}, {load}",
        (
            Panel(
                "wait for a response, ms",
                {
                    "median": "median wait (ms)",
                    "99 % of requests": "p99 (ms)",
                    "longest": "longest (ms)",
                },
            ),
        ),
    ),
    "benchmark-packages.png": Chart(
        "side-by-side",
        "{}",
        (
            Panel(
                "decisions per second",
                {
                    "2 arms": "decisions per second, 2 arms",
                    "100 arms": "decisions per second, 100 arms",
                },
            ),
            Panel(
                "simulated steps per second",
                {
                    "2 arms": "simulated steps per second, 2 arms",
                    "100 arms": "simulated steps per second, 100 arms",
                },
            ),
        ),
        turned=True,
    ),
}


def draw(name: str, folder: Path = DOCS) -> Path:
    """Draw one chart into a folder; returns its path."""
    return saved(folder / name, lambda: _figure(CHARTS[name]), DOTS)


def saved(path: Path, drawn: Callable[[], Figure], dots: int) -> Path:
    """A figure in the library's style, written to a file with so many dots per inch."""
    from matplotlib import rc_context

    settings: Any = SETTINGS
    with rc_context(settings):
        drawn().savefig(path, dpi=dots, metadata={"Software": None})
    return path


def _figure(chart: Chart) -> Figure:
    from matplotlib.figure import Figure

    rows = chart.rows()
    labels = [chart.label.format(row.get("", ""), **_grouped(row)) for row in rows]
    size = (WIDTH, LINE * len(rows) + EDGE)
    figure = Figure(figsize=size, layout="constrained", facecolor=PAPER)
    axes = figure.subplots(1, len(chart.panels), sharey=True, squeeze=False)[0]
    for one, panel in zip(axes, chart.panels, strict=True):
        _draw_panel(one, panel, rows)
    axes[len(axes) // 2].set_xlabel(chart.axis, fontsize=9.5)
    axes[0].set_yticks(range(len(rows)), labels)
    axes[0].set_ylim(len(rows) - 0.4, -0.6)
    if len(chart.panels[0].columns) > 1:
        marks, names = axes[0].get_legend_handles_labels()
        across = 2 if len(names) in (2, 4) else 3
        figure.legend(marks, names, loc="outside lower center", ncols=across, handlelength=1.0)
    return figure


def _grouped(row: Row) -> Row:
    """The row with large whole numbers as people write them: 100,000."""
    return {name: f"{int(cell):,}" if cell.isdigit() else cell for name, cell in row.items()}


def _draw_panel(axes: Any, panel: Panel, rows: Sequence[Row]) -> None:
    for at, (name, column) in enumerate(panel.columns.items()):
        look = {"marker": MARKERS[at], "color": COLOURS[at], "markersize": 6.5, "linestyle": ""}
        known = [(float(row[column]), y) for y, row in enumerate(rows) if row[column]]
        hollow = [_breaks(panel, row, column) for row in rows if row[column]]
        for empty in (False, True):
            some = [point for point, one in zip(known, hollow, strict=True) if one == empty]
            if not some:
                continue  # the layout fails on marks without a place
            points = [x for x, _ in some], [y for _, y in some]
            fill = {"markerfacecolor": PAPER, "zorder": 2.9} if empty else {"label": name}
            axes.plot(*points, **look | {"zorder": 3, "clip_on": False} | fill)
        for x, y in known:
            if len(rows) <= FEW and len(panel.columns) == 1:
                axes.annotate(f"{x:.3g}", (x, y), (6, 0), textcoords="offset points", va="center")
    if panel.line is not None:
        axes.axvline(panel.line, color=INK, linewidth=0.9)
    axes.set_xscale("log" if panel.log else "linear")
    axes.set_xlim(panel.low, panel.high)
    left, right = axes.get_xlim()
    if panel.log and right < DECADES * left:  # few powers of ten: numbers between them, too
        axes.set_xticks([x for x in BETWEEN if left <= x <= right])
        axes.xaxis.set_minor_formatter("")
    if panel.log and right < PLAIN:
        axes.xaxis.set_major_formatter("{x:,g}")
    axes.set_title(panel.title, fontsize=9.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", color=QUIET, alpha=0.35)


def _breaks(panel: Panel, row: Row, column: str) -> bool:
    """Whether the row's mean penalty is above the limit."""
    return panel.above is not None and float(row[column + panel.above]) > WITHIN


def draw_all() -> list[Path]:
    """Draw all charts."""
    return [draw(name) for name in CHARTS]


def main(about: str, charts: Collection[str], draw: Callable[[str], Path]) -> None:
    """Draw the charts that are named in the command, or all."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("charts", nargs="*", metavar="chart", help=f"of {', '.join(charts)}")
    asked = parser.parse_args().charts
    if unknown := set(asked) - set(charts):
        parser.error(f"no such chart: {', '.join(sorted(unknown))}")
    print(*map(draw, asked or charts), sep="\n")


if __name__ == "__main__":
    main(__doc__ or "", CHARTS, draw)
