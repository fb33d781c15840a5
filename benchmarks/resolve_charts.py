"""The charts of the pages about ``resolve``, its proofs and theory, from the numbers in docs/data.

    python -m benchmarks.resolve_charts [resolve.png moving.png ...]

Charts are 700 pixels wide on a page. Policies have the colours and markers of the library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.charts import COLOURS, DOCS, WIDTH, Chart, Row, main, saved
from tightrope.report.styles import QUIET, REFERENCES, Style, styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["CHARTS", "draw"]

DOTS = 200  # of an inch: twice the pixels on a page
LANE = 0.19  # of a line, between markers that would hide each other
# what is not a policy: Okabe and Ito's colours
OTHERS = tuple(zip((*COLOURS, "#56b4e9"), ("o", "s", "^", "D", "v", "P"), strict=True))


def rows(name: str, **wanted: str) -> list[Row]:
    """The rows of a file in ``docs/data`` with these values."""
    found = Chart(name, "", ()).rows()
    return [row for row in found if all(row[key] == value for key, value in wanted.items())]


def values(some: Sequence[Row], column: str) -> list[float]:
    """A column; nan where nothing is given."""
    return [float(row[column] or "nan") for row in some]


def distinct(some: Sequence[Row], column: str) -> list[str]:
    """The values of a column, in order."""
    return list(dict.fromkeys(row[column] for row in some))


def start(height: float, across: int, down: int = 1, **shared: Any) -> tuple[Figure, list[Axes]]:
    """A figure with panels, row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, list(figure.subplots(down, across, squeeze=False, **shared).ravel())


def names_at_left(axes: Axes, names: Sequence[str]) -> None:
    """One line per name, from the top."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)


def legend_above(figure: Figure, axes: Axes, columns: int) -> None:
    """The legend of a panel, for all of the figure."""
    marks, names = axes.get_legend_handles_labels()
    figure.legend(marks, names, loc="outside upper center", ncols=columns)


def line_at(axes: Axes, value: float) -> None:
    """A vertical line, for comparison."""
    axes.axvline(value, **REFERENCES["limit"])


def resolve() -> Figure:
    """Regret and broken limits on every family."""
    found = rows("families", budget="10000")
    families, policies = distinct(found, "family"), distinct(found, "policy")
    figure, (left, right) = start(5.4, 2, sharey=True)
    for lane, (policy, style) in enumerate(styles(policies).items()):
        mine = [row for row in found if row["policy"] == policy]
        for axes, column in ((left, "regret_percent"), (right, "broken_percent")):
            dots(axes, values(mine, column), style, policy, lane - 1.5)
    names_at_left(left, families)
    left.set_xlabel("regret, % of the optimum (median of ten problems)")
    right.set_xlabel("runs that end above a limit, %")
    line_at(right, 1.0)
    legend_above(figure, left, 4)
    return figure


def dots(axes: Axes, numbers: Sequence[float], style: Style, label: str, lane: float = 0) -> None:
    """One marker per line, some lanes below its middle."""
    axes.plot(
        numbers,
        [place + LANE * lane for place in range(len(numbers))],
        color=style.colour,
        marker=style.marker,
        markerfacecolor="white" if ":risk" in label else style.colour,
        linestyle="",
        markersize=5.0,
        label=label,
    )


def risk() -> Figure:
    """Broken limits by slack, allowance and arms; and by the risk, at the slack that it needs."""
    found, asked = rows("risk"), rows("risk-asked")
    figure, (axes, right) = start(3.4, 2)
    for family, (colour, marker) in zip(distinct(found, "family"), OTHERS, strict=True):
        mine = [row for row in found if row["family"] == family]
        g = distinct(mine, "g")
        some = [values([row for row in mine if row["g"] == one], "broken_percent") for one in g]
        broken = [sum(each) / len(each) for each in some]
        axes.plot([*map(float, g)], broken, color=colour, marker=marker, label=family)
    axes.axhline(1.0, **REFERENCES["limit"])
    axes.annotate("asked for: 1 %", (3.5, 1.0), (0, 4), textcoords="offset points", ha="right")
    axes.set(xlabel="g = slack · √(A / K)", ylabel="runs that break the limit, %")
    axes.set_xticks(sorted({float(row["g"]) for row in found}))
    axes.legend(title="family", ncols=2)
    wanted, (colour, marker) = values(asked, "risk_percent"), OTHERS[0]
    right.loglog(wanted, values(asked, "broken_percent"), marker, color=colour, label="plain")
    right.loglog(wanted, wanted, **REFERENCES["limit"])
    right.set(xlabel="risk asked for, %", ylabel="runs that break the limit, %")
    for axis in (right.xaxis, right.yaxis):
        axis.set_major_formatter("{x:g}")
    return figure


def promises() -> Figure:
    """Broken limits without and with a declared safe arm."""
    figure, panels = start(3.4, 2, sharey=True)
    for axes, budget in zip(panels, ("100", "1000"), strict=True):
        found = rows("promises", per="cost", budget=budget)
        names_at_left(axes, distinct(found, "problem"))
        for lane, (declared, name) in enumerate(DECLARED.items()):
            mine = [row for row in found if row["declared"] == declared]
            dots(axes, values(mine, "broken_percent"), Style(*OTHERS[lane], "-"), name, lane - 0.5)
        axes.set_xscale("symlog", linthresh=1.0)
        axes.set_xticks([0.0, 1.0, 10.0, 100.0], ["0", "1", "10", "100"])
        axes.set(title=f"budget {int(budget):,}", xlabel="runs that break a limit, %")
        line_at(axes, 1.0)
    legend_above(figure, panels[0], 2)
    return figure


DECLARED = {"nothing": "nothing declared", "rates": "safe arm and its rates declared"}


def estimates() -> Figure:
    """Estimates, and what came true."""
    found = rows("estimates")
    figure, (axes,) = start(3.6, 1)
    axes.plot([0, 100], [0, 100], color=QUIET, label="as estimated")
    for spent, (colour, marker) in zip(
        distinct(found, "budget_spent_percent"), OTHERS, strict=False
    ):
        mine = [row for row in found if row["budget_spent_percent"] == spent]
        mean, above = values(mine, "mean_estimate_percent"), values(mine, "ended_above_percent")
        axes.plot(mean, above, color=colour, marker=marker, label=f"{spent} % of the budget spent")
    axes.set(xlabel="mean estimate, %", ylabel="runs that ended above, %")
    axes.legend()
    return figure


LEARNERS = (
    *("resolve", "resolve:risk=0.01", "ts-lp:update=true", "ts-lp", "lincon-ts", "lyon-ts"),
    *("primal-dual-bwk", "ucb-lp:epsilon=published", "lyon-wilson", "lincon-kl-ucb"),
    *("pessimistic-optimistic", "lyon"),
)


def learning_limit() -> Figure:
    """Priced regret, and its growth over the limit of learning."""
    figure, (left, right) = start(4.2, 2, sharey=True)
    budgets = ("10000", "100000", "1e+06")
    found = {
        budget: {row["policy"]: row for row in rows("growth", budget=budget)} for budget in budgets
    }
    for budget, power, other in zip(budgets, (4, 5, 6), OTHERS, strict=False):
        mine, style = [found[budget][one] for one in LEARNERS], Style(*other, "-")
        for axes, column in ((left, "priced"), (right, "growth")):
            dots(axes, values(mine, column), style, f"$B = 10^{power}$")
            axes.set_xscale("log")
    names_at_left(left, LEARNERS)
    left.set_xlabel("priced regret")
    right.set_xlabel("its growth per unit of log B, over C")
    legend_above(figure, left, 3)
    line_at(right, 1.0)
    return figure


DELAYED = (
    *("resolve", "resolve:risk=0.01", "ts-lp:update=true", "lyon-ts", "primal-dual-bwk", "lyon"),
)
DELAYS = {"at once": "0", "10 later": "10", "100 later": "100", "1000 later": "1,000"}


def moving() -> Figure:
    """Regret and broken limits by delay."""
    figure, panels = start(4.8, 2, 2, sharex=True, sharey="row")
    for place, (column, title) in enumerate(MEASURES.items()):
        for axes, budget in zip(panels[2 * place :], ("1000", "10000"), strict=False):
            for policy, style in styles(DELAYED).items():
                found = rows("moving-delays", policy=policy, budget=budget)
                mine = [row for row in found if row["report"] in DELAYS]
                axes.plot(
                    range(len(DELAYS)),
                    values(mine, column),
                    color=style.colour,
                    marker=style.marker,
                    linestyle=style.line,
                    label=policy,
                )
            if place == 0:
                axes.set_title(f"budget {int(budget):,}")
            else:
                axes.set_xlabel("delay, in pulls")
                axes.set_xticks(range(len(DELAYS)), DELAYS.values())
        panels[2 * place].set_ylabel(title)
    legend_above(figure, panels[0], 3)
    return figure


MEASURES = {"regret_percent": "regret, % of optimum", "broken_percent": "runs above the limit, %"}

CHARTS: dict[str, Callable[[], Figure]] = {
    "resolve.png": resolve,
    "risk.png": risk,
    "promises.png": promises,
    "estimates.png": estimates,
    "learning-limit.png": learning_limit,
    "moving.png": moving,
}


def draw(name: str, folder: Path = DOCS) -> Path:
    """Draw one chart into a folder; returns its path."""
    return saved(folder / name, CHARTS[name], DOTS)


if __name__ == "__main__":
    main(__doc__ or "", CHARTS, draw)
