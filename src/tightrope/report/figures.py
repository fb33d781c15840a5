"""Draw panels with matplotlib's object interface, without pyplot or global state."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tightrope.errors import InputError
from tightrope.files import whole_file
from tightrope.names import in_figure
from tightrope.problem.values import shown
from tightrope.report.extra import require
from tightrope.report.panels import Panel, PolicyCurve, Reference, metric_panels, trajectory_panels
from tightrope.report.rows import detailed
from tightrope.report.styles import INK, PAPER, QUIET, REFERENCES, SETTINGS, Style, styles
from tightrope.results import Results

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tightrope.engine import Trajectory

    Trajectories = Trajectory | Iterable[Trajectory] | Mapping[str, Trajectory]

DOTS_PER_INCH = 160
PANEL = (3.55, 2.75)  # inches, of one panel among several
ALONE = (5.2, 3.3)
MARK = (0.5, 0.2)  # inches, of a legend's mark on the page
LEGEND_LINE = 0.24

METADATA = {  # removed, so that the same figure is the same bytes
    "svg": dict.fromkeys(("Creator", "Date", "Format", "Type")),
    "png": {"Software": None},
    "pdf": dict.fromkeys(("Creator", "Producer", "CreationDate")),
}

Legend = dict[str, "Artist"]


def plot(results: Results | Trajectories, metric: str | None = None) -> Figure:
    """A figure of a metric of every policy against the budget with 95 % intervals, or over time.

    For results, ``metric`` is reward_rate, violation, regret, pull_share, cost_share, pulls or
    queue_max; with a single budget, policies are on the x axis. For one trajectory or several (a
    list or by name), it is reward, cost, penalty or queue. Notebooks show the figure;
    ``tightrope.report.save`` writes it.

    >>> from tightrope import LyOff, ready_problem, simulate
    >>> results = simulate(ready_problem("paper"), LyOff(), budgets=[100, 400], runs=50, seed=1)
    >>> figure = plot(results, "violation")
    >>> figure.axes[0].get_xlabel()
    'budget B'
    """
    if isinstance(results, Results):
        panels = metric_panels(results.problem, detailed(results), metric or "reward_rate")
    else:
        panels = trajectory_panels(_by_name(results), metric or "reward")
    return draw(panels, columns=min(3, len(panels)), size=PANEL if len(panels) > 1 else ALONE)


def _by_name(paths: Trajectories) -> dict[str, Trajectory]:
    """Trajectories by their names in the legend."""
    from tightrope.engine import Trajectory

    if isinstance(paths, Trajectory):
        named: dict[str, Trajectory] = {"runs": paths}
    elif isinstance(paths, Mapping):
        named = {str(name): path for name, path in paths.items()}
    else:
        listed = list(paths) if isinstance(paths, Iterable) else [paths]
        named = {f"trajectory {i}": path for i, path in enumerate(listed, start=1)}
    for path in named.values():
        if not isinstance(path, Trajectory):
            raise InputError(f"results = {shown(path)}: must be Results, a Trajectory or several")
    return named


def draw(
    panels: Sequence[Panel],
    columns: int = 3,
    *,
    size: tuple[float, float] = PANEL,
    legend: bool = True,
) -> Figure:
    """A figure of panels in rows of ``columns``, each of ``size`` inches, with one legend below."""
    with _style():
        lines = -(-len(panels) // columns)
        figure = _figure(size[0] * columns, size[1] * lines)
        axes = figure.subplots(lines, columns, squeeze=False).flatten()
        for one, panel in zip(axes, panels, strict=False):
            _draw_panel(one, panel)
        for spare in axes[len(panels) :]:
            spare.set_axis_off()
        if legend:
            _place_legend(figure, _legend(panels))
        _settle(figure)
    # IPython calls it; matplotlib has one only where pyplot is imported.
    figure._repr_png_ = partial(_in_notebook, figure)  # type: ignore[attr-defined]
    return figure


def _in_notebook(figure: Figure) -> tuple[bytes, dict[str, int]]:
    """The picture, and how wide it is on the page, in pixels: 100 per inch."""
    return _rendered(figure, "png"), {"width": round(figure.get_figwidth() * 100)}


def _settle(figure: Figure) -> None:
    """Compute the layout once; a figure with a layout of its own is drawn twice for every file."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    ConstrainedLayoutEngine().execute(figure)


def legend_marks(panels: Sequence[Panel]) -> dict[str, str]:
    """The entries of the panels' legend: each name with its mark as a small SVG document."""
    marks = {}
    with _style():
        for name, artist in _legend(panels).items():
            figure = _figure(*MARK)
            figure.legend([artist], [""], loc="center", borderpad=0, handletextpad=0)
            marks[name] = svg_text(figure)
    return marks


def save(
    figure: Figure, path: str | os.PathLike[str], kinds: Sequence[str] = ("png", "svg")
) -> tuple[Path, ...]:
    """Write ``path``.png, ``path``.svg and so on, each atomically; returns the files written.

    ``kinds`` is any of png, svg and pdf.
    """
    pictures = {kind: _rendered(figure, kind) for kind in kinds}
    paths = tuple(Path(f"{os.fspath(path)}.{kind}") for kind in kinds)
    for target, picture in zip(paths, pictures.values(), strict=True):
        with whole_file(target) as file:
            file.write(picture)
    return paths


def svg_text(figure: Figure) -> str:
    """The figure as an SVG document with a transparent background."""
    return _rendered(figure, "svg", facecolor="none").decode()


def _rendered(figure: Figure, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    with _style():
        dots: dict[str, Any] = {"dpi": DOTS_PER_INCH} if kind == "png" else {}
        figure.savefig(file, format=kind, metadata=METADATA[kind], **dots, **options)
    return file.getvalue()


@contextmanager
def _style() -> Iterator[None]:
    require("matplotlib")
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # ignore the user's matplotlibrc
        settings: Any = SETTINGS
        matplotlib.rcParams.update(settings)
        yield


def _figure(width: float, height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def _looks(panel: Panel) -> dict[str, Style]:
    """Each curve's own style, or its label's."""
    own = {curve.label: curve.style for curve in panel.curves if curve.style}
    return styles([curve.label for curve in panel.curves]) | own


def _draw_panel(axes: Axes, panel: Panel) -> None:
    looks = _looks(panel)
    for curve in panel.curves:
        _draw_interval(axes, curve, looks[curve.label], panel.x_unit)
        _draw_curve(axes, curve, looks[curve.label], panel.x_unit)
    for reference in panel.references:
        _draw_reference(axes, reference, panel.x_unit)
    _set_axes(axes, panel)


def _draw_curve(axes: Axes, curve: PolicyCurve, style: Style, unit: float) -> None:
    x = curve.x / unit
    if curve.line:
        axes.plot(x, curve.y, linestyle=style.line, color=style.colour, zorder=3)
    if not curve.points:
        return
    for chosen, fill in ((~curve.hollow, style.colour), (curve.hollow, PAPER)):
        axes.plot(
            x[chosen],
            curve.y[chosen],
            linestyle="none",
            marker=style.marker,
            color=style.colour,
            markerfacecolor=fill,
            zorder=4 if curve.line else 2.5,
        )


def _draw_interval(axes: Axes, curve: PolicyCurve, style: Style, unit: float) -> None:
    """Draw the interval: a band along a line, an error bar at a single point."""
    if curve.low is None or curve.high is None:
        return
    x = curve.x / unit
    if len(x) > 1:
        axes.fill_between(
            x, curve.low, curve.high, color=style.colour, alpha=0.22, linewidth=0, zorder=2
        )
    else:
        axes.vlines(x, curve.low, curve.high, color=style.colour, linewidth=2.0, alpha=0.6)


def _draw_reference(axes: Axes, reference: Reference, unit: float) -> None:
    looks = REFERENCES[reference.role]
    if reference.x is None or len(reference.x) < 2:
        axes.axhline(float(reference.y[0]), **looks)
    else:
        axes.plot(reference.x / unit, reference.y, **looks)


def _set_axes(axes: Axes, panel: Panel) -> None:
    axes.set_title(_drawn(panel.title))
    axes.set_xlabel(_drawn(panel.x_label))
    axes.set_ylabel(_drawn(panel.y_label))
    budgets = [x for curve in panel.curves for x in curve.x]
    if panel.x_log and budgets:
        _set_log_budgets(axes, budgets, tens=bool(panel.x_ticks))
    elif panel.x_ticks:
        axes.locator_params(axis="x", nbins=panel.x_ticks)
    elif panel.x_ticks == 0:
        axes.set_xticks([])
    if panel.x_limits:
        axes.set_xlim(*panel.x_limits)
    if panel.y_log:
        axes.set_yscale("log")
    if panel.y_limits:
        axes.set_ylim(*panel.y_limits)
    if panel.y_share:
        _set_shares(axes, panel.y_share)
    if panel.from_zero:
        axes.set_xlim(left=0)
    if panel.x_names:
        names = [_drawn(name) for name in panel.x_names]
        slant: dict[str, Any] = {"rotation": 25, "ha": "right"} if len("".join(names)) > 40 else {}
        axes.set_xticks(range(len(names)), names, **slant)
        axes.set_xlim(-0.5, len(panel.x_names) - 0.5)


def _set_log_budgets(axes: Axes, budgets: Sequence[float], tens: bool) -> None:
    """A logarithmic axis with ticks 1, 2, 5, 10, ...; powers of ten if ``tens`` or if wide."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    wide = tens or max(budgets) > 300.0 * min(budgets)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def _set_shares(axes: Axes, straight: float) -> None:
    """An axis in per cent that is linear around 0 and logarithmic beyond ``straight``."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_yscale("symlog", linthresh=straight, linscale=0.6)
    axes.autoscale_view(scalex=False)  # recompute the margins for this scale
    low, high = axes.get_ylim()
    tens = [straight * 10.0**i for i in range(8)]
    ticks = [tick for ten in tens for tick in (-ten, ten) if low <= tick <= high] + [0.0]
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:,g} %"))


def _legend(panels: Sequence[Panel]) -> Legend:
    """The legend: curves, references, then intervals and hollow points if there are any."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    legend: Legend = {}
    for panel in panels:
        looks = _looks(panel)
        for curve in () if panel.x_names else panel.curves:  # with x_names the axis names them
            style = looks[curve.label]
            line: Any = style.line if curve.line else "none"
            marker: Any = style.marker if curve.points else "none"
            mark = Line2D([], [], color=style.colour, marker=marker, linestyle=line)
            legend.setdefault(curve.name, mark)
    for reference in (reference for panel in panels for reference in panel.references):
        legend.setdefault(reference.name, Line2D([], [], **REFERENCES[reference.role]))
    for panel in panels:
        if any(curve.low is not None for curve in panel.curves):
            legend.setdefault(panel.band, Patch(facecolor=QUIET, alpha=0.35))
    for panel in panels:
        if any(curve.hollow.any() for curve in panel.curves):
            mark = Line2D([], [], linestyle="none", marker="s", color=INK, mfc=PAPER)
            legend.setdefault(panel.hollow, mark)
    return legend


def _place_legend(figure: Figure, legend: Legend) -> None:
    """Put the legend below the panels in as many columns as fit, and enlarge the figure for it."""
    width, height = figure.get_size_inches()
    names, marks = [_drawn(name) for name in legend], list(legend.values())
    letters = max(map(len, names))
    columns = max(1, min(len(legend), int(width / (0.075 * letters + 0.55))))
    figure.set_size_inches(width, height + LEGEND_LINE * -(-len(legend) // columns))
    figure.legend(marks, names, loc="outside lower center", ncols=columns)


def _drawn(name: str) -> str:
    """A text escaped for matplotlib, so that it is drawn literally."""
    return in_figure(name, _glyphs())


@cache
def _glyphs() -> frozenset[int]:
    """The characters that the figures' font has."""
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont(SETTINGS["font.family"])).get_charmap())
