"""The pictures of the front page: three cases, and ``resolve`` beside LyOn at small budgets.

python -m benchmarks.front docs
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tightrope import LyOn, Resolve, load_problem, optimum, ready_problem, simulate
from tightrope.engine.planning import plan_jobs
from tightrope.engine.single import SingleRun, plan_single
from tightrope.report.styles import SETTINGS, styles
from tightrope.runs import Runs

__all__ = ["draw"]

CASES = Path(__file__).parents[1] / "examples" / "modelling"
ARMS = (("#e69f00", "black"), ("#0072b2", "white"), ("#56b4e9", "black"))  # areas, and their names
LIMIT = "#d55e00"
THEMES = {"light": ("#1a1b1e", "#ffffff"), "dark": ("#e2e3e5", "#131416")}  # ink and paper
BUDGETS = (100, 300, 1000, 3000, 10_000)
SLICES = 60  # of the budget, in the pictures of cases


@dataclass(frozen=True)
class Case:
    """A file of examples/modelling, and the words on its picture."""

    file: str
    budget: float
    spent: str
    penalty: str
    limit: float
    shown: str  # the limit as text
    per_reward: bool = False
    percent: bool = True
    ticks: str = "{:,.0f}"


PICTURES = {
    "router": Case("router_dollars", 50, "dollars spent", "bad answers", 0.05, "limit 5 %"),
    "ads": Case(
        *("advertising", 20_000, "impressions", "euros per customer", 20.0, "limit 20 euros"),
        per_reward=True,
        percent=False,
    ),
    "trial": Case("trial", 400, "patients", "adverse events", 0.15, "limit 15 %"),
}


def moments(case: Case, seed: int) -> Iterator[Runs]:
    """The totals of one run of ``resolve``, at equal steps."""
    problem = load_problem(CASES / f"{case.file}.toml")
    jobs = plan_jobs(problem, {"resolve": Resolve()}, [case.budget], 1, seed=seed)
    job = jobs["resolve", case.budget]
    run, stop = SingleRun(plan_single(job), np.array([0])), np.zeros(1, np.uint8)
    stride = max(1, round(job.budget / float(problem.moments.cost.mean()) / SLICES / 8))
    until = 0
    while run.running:
        run.advance(until, stop)
        yield run.read()[0].in_units(problem.scales)
        until += stride


def draw_case(case: Case, figure: Any) -> None:
    """The penalty rate under its limit, and below it the share of each arm."""
    ink = figure.get_edgecolor()
    seen = Runs.stack(list(moments(case, seed=1)))
    names = load_problem(CASES / f"{case.file}.toml").names
    above, below = figure.subplots(2, sharex=True, height_ratios=(1, 1.15))
    pulls = seen.pulls.sum(axis=-1)
    base = seen.reward if case.per_reward else pulls
    rate = seen.penalty[..., 0] / np.maximum(base, 1e-9)
    late = seen.cost > 0.01 * case.budget  # before that it is mostly chance
    above.plot(seen.cost[late], rate[late], color=ink, linewidth=1.6)
    above.axhline(case.limit, color=LIMIT, linewidth=1.6, linestyle=(0, (4, 2)))
    above.set(ylim=(0, 1.7 * case.limit), xlim=(0, case.budget))
    above.text(case.budget, 1.06 * case.limit, case.shown, color=LIMIT, ha="right", va="bottom")
    above.set_title(case.penalty)
    above.yaxis.set_major_formatter(lambda y, _: f"{100 * y:.0f} %" if case.percent else f"{y:.0f}")
    edges = np.searchsorted(seen.cost, np.linspace(0, case.budget, SLICES // 3 + 1)[1:-1])
    draw_shares(below, seen, np.unique([0, *edges, len(seen.cost) - 1]), names, case)


def draw_shares(panel: Any, seen: Runs, edges: Any, names: Any, case: Case) -> None:
    """The share of the pulls of each arm, in slices of the budget."""
    counts = np.diff(seen.pulls[edges], axis=0)
    shares = counts / counts.sum(axis=1, keepdims=True)
    middle = (seen.cost[edges[1:]] + seen.cost[edges[:-1]]) / 2
    places = np.concatenate([[0.0], middle, [case.budget]])
    padded = np.vstack([shares[:1], shares, shares[-1:]]).T
    panel.stackplot(places, padded, colors=[colour for colour, _ in ARMS], linewidth=0)
    tops = padded.cumsum(axis=0)
    for arm, name in enumerate(names):
        widest = int(np.argmax(np.convolve(padded[arm], np.ones(5) / 5, "same")[2:-2])) + 2
        height = tops[arm, widest] - padded[arm, widest] / 2
        where = np.clip(places[widest] / case.budget, 0.2, 0.8) * case.budget
        if padded[arm, widest] > 0.12:
            panel.text(where, height, name, color=ARMS[arm][1], ha="center", va="center")
    panel.set(ylim=(0, 1), yticks=[], xlabel=case.spent)
    panel.set_title("share of the decisions")
    panel.grid(visible=False)
    panel.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")


def compared() -> dict[str, Any]:
    """Mean penalty in percent of the limit and reward in percent of the optimum, by policy."""
    problem = ready_problem("paper")
    results = simulate(
        problem, [Resolve(), LyOn()], budgets=BUDGETS, runs=1000, seed=1, progress=False
    )
    found: dict[str, Any] = {}
    for row in results.rows():
        best = optimum(problem, row.budget)
        rates = 100 * (1 + row.violation / problem.limits[0]), 100 * row.reward / best
        found.setdefault(row.policy, []).append(rates)
    return {policy: np.array(rates) for policy, rates in found.items()}


def draw_comparison(measured: dict[str, Any], figure: Any) -> None:
    """Two panels against the budget: the penalty, and the reward."""
    ink, paper = figure.get_edgecolor(), figure.get_facecolor()
    panels = figure.subplots(1, 2, sharex=True)
    for (policy, rates), style in zip(
        measured.items(), styles(list(measured)).values(), strict=True
    ):
        for panel, values in zip(panels, rates.T, strict=True):
            broken = rates[:, 0] > 101
            line = {"color": style.colour, "linewidth": 1.8}
            panel.plot(BUDGETS, values, **line, zorder=2)
            panel.scatter(
                BUDGETS, values, 38, zorder=3, edgecolors=style.colour, linewidths=1.6,
                facecolors=[paper if one else style.colour for one in broken],
            )  # fmt: skip
            panel.annotate(
                policy, (BUDGETS[1], values[1]), (6, 6), textcoords="offset points",
                color=style.colour, weight="bold",
            )  # fmt: skip
    for panel, title in zip(
        panels, ("penalty, % of the limit", "reward, % of the optimum"), strict=True
    ):
        panel.axhline(100, color=LIMIT if panel is panels[0] else ink, linewidth=1.2, zorder=1)
        panel.set(xscale="log", xlabel="budget", title=title)
        panel.set_xticks(BUDGETS, [f"{one:,}" for one in BUDGETS], minor=False)
        panel.minorticks_off()


def draw(folder: str) -> None:
    """Write each picture for both themes."""
    import matplotlib.pyplot as plt

    measured = compared()
    for theme, (ink, paper) in THEMES.items():
        colours = dict.fromkeys(
            ("text.color", "axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "xtick.color",
             "ytick.color", "figure.edgecolor"), ink,
        )  # fmt: skip
        grounds = {"figure.facecolor": paper, "savefig.facecolor": paper}
        with plt.rc_context({**SETTINGS, **colours, **grounds}):
            for name, case in PICTURES.items():
                figure = plt.figure(figsize=(3.5, 3.3), layout="constrained")
                draw_case(case, figure)
                figure.savefig(Path(folder, f"front-{name}-{theme}.png"), dpi=200)
            figure = plt.figure(figsize=(7.4, 2.9), layout="constrained")
            draw_comparison(measured, figure)
            figure.savefig(Path(folder, f"front-compare-{theme}.png"), dpi=200)


if __name__ == "__main__":
    draw(sys.argv[1])
