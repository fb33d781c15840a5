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
THEMES = {  # ink, paper, and the colour of limits
    "light": ("#1a1b1e", "#ffffff", "#b34a00"),
    "dark": ("#e2e3e5", "#131416", "#ff9a52"),
}
BUDGETS = (100, 300, 1000, 3000, 10_000)
NAMES = {"resolve": "resolve", "lyon": "LyOn"}
LIGHTER = {"resolve": "#ff6db3", "lyon": "#ff9a52"}  # their colours on a dark ground
RUNS = 100  # of each case


@dataclass(frozen=True)
class Case:
    """A file of examples/modelling, and the words on its picture."""

    file: str
    budget: float
    spent: str
    penalty: str
    limit: float
    shown: str  # the limit as text
    per: str = "pull"


PICTURES = {
    "router": Case("router_dollars", 50, "dollars spent", "bad answers", 0.05, "5 %"),
    "ads": Case("advertising", 20_000, "impressions", "euros per customer", 20, "20", "reward"),
    "trial": Case("trial", 400, "patients", "adverse events", 0.15, "15 %"),
}


@dataclass(frozen=True)
class Measured:
    """Runs of a case at T shares of the budget; R runs, K arms."""

    spent: Any  # [T]
    rate: Any  # [R, T] penalty so far, per what the limit is per
    shares: Any  # [K, T] of the pulls around, averaged over the runs
    names: tuple[str, ...]


def moments(job: Any, run: int, stride: int) -> Iterator[Runs]:
    """The totals of one run, every ``stride`` steps."""
    state, stop, until = SingleRun(plan_single(job), np.array([run])), np.zeros(1, np.uint8), 0
    while until == 0 or state.running:
        state.advance(until, stop)
        yield state.read()[0]
        until += stride


def measure(case: Case) -> Measured:
    """Run ``resolve`` on a case."""
    problem = load_problem(CASES / f"{case.file}.toml")
    jobs = plan_jobs(problem, {"resolve": Resolve()}, [case.budget], 1, seed=1)
    job, spent = jobs["resolve", case.budget], np.linspace(0.0, case.budget, 101)
    stride = max(1, round(job.budget / float(problem.moments.cost.mean()) / 800))
    rates, counts = [], []
    for run in range(RUNS):
        seen = Runs.stack(list(moments(job, run, stride))).in_units(problem.scales)
        base = seen.reward if case.per == "reward" else seen.pulls.sum(axis=-1)
        rate = seen.penalty[:, 0] / np.maximum(base, 1e-9)
        rates.append(np.interp(spent, seen.cost, rate))
        counts.append([np.interp(spent, seen.cost, one) for one in seen.pulls.T])
    pulled = np.gradient(np.mean(counts, axis=0), axis=1)
    return Measured(spent, np.array(rates), pulled / pulled.sum(axis=0), problem.names)


def draw_case(case: Case, runs: Measured, figure: Any, limit: str) -> None:
    """The penalty rate and its limit; below it the share of each arm."""
    ink, late = figure.get_edgecolor(), runs.spent >= 0.04 * case.budget  # before, it is chance
    above, below = figure.subplots(2, sharex=True, height_ratios=(1, 1.15))
    low, high = np.quantile(runs.rate, (0.1, 0.9), axis=0)
    above.fill_between(runs.spent[late], low[late], high[late], color=ink, alpha=0.2, linewidth=0)
    above.plot(runs.spent[late], runs.rate.mean(axis=0)[late], color=ink, linewidth=1.6)
    above.axhline(case.limit, color=limit, linewidth=1.6, linestyle=(0, (4, 2)))
    above.set(ylim=(0, 1.75 * case.limit), xlim=(0, case.budget), title=case.penalty)
    above.set_yticks([0, case.limit], ["0", case.shown])
    above.text(case.budget, 1.1 * case.limit, "limit", color=limit, ha="right", va="bottom")
    below.stackplot(runs.spent, runs.shares, colors=[colour for colour, _ in ARMS], linewidth=0)
    for arm in range(len(runs.names)):
        name_area(below, runs, arm)
    below.set(ylim=(0, 1), yticks=[], xlabel=case.spent, title="share of the decisions")
    below.grid(visible=False)
    below.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")


def name_area(panel: Any, runs: Measured, arm: int) -> None:
    """Write an arm's name where its area is high, or beside it with a line."""
    share, whole = runs.shares[arm], runs.spent[-1]
    bottom = runs.shares[:arm].sum(axis=0)
    at = int(np.argmax(share * (np.abs(runs.spent / whole - 0.62) < 0.22)))
    words = {"ha": "center", "va": "center", "color": ARMS[arm][1]}
    if share[at] > 0.12:
        panel.text(runs.spent[at], bottom[at] + share[at] / 2, runs.names[arm], **words)
    else:
        at, line = 3, {"arrowstyle": "-", "color": "white"}
        place, beside = (runs.spent[at], bottom[at] + share[at] / 2), (0.28 * whole, 0.78)
        words |= {"color": "white"}
        panel.annotate(runs.names[arm], place, beside, arrowprops=line, **words)


def compared() -> dict[str, Any]:
    """Mean penalty in percent of the limit and reward in percent of the optimum, by policy."""
    problem = ready_problem("paper")
    results = simulate(
        problem, [Resolve(), LyOn()], budgets=BUDGETS, runs=1000, seed=1, progress=False
    )
    found: dict[str, Any] = {}
    for row in results.rows():
        penalty = 1 + row.violation[0].mean / problem.limits[0]
        reward = row.reward_rate.mean * row.budget / optimum(problem, row.budget)
        rates = 100 * penalty, 100 * reward
        found.setdefault(row.policy, []).append(rates)
    return {policy: np.array(rates) for policy, rates in found.items()}


def draw_comparison(measured: dict[str, Any], figure: Any) -> None:
    """Two panels against the budget: the penalty, and the reward."""
    from matplotlib.colors import to_rgba

    ink, paper = figure.get_edgecolor(), figure.get_facecolor()
    panels = figure.subplots(1, 2, sharex=True)
    looks = styles(list(measured))
    for policy, rates in measured.items():
        colour = looks[policy].colour if paper == to_rgba("white") else LIGHTER[policy]
        inside = [paper if one else colour for one in rates[:, 0] > 101]
        for panel, values in zip(panels, rates.T, strict=True):
            panel.plot(BUDGETS, values, color=colour, linewidth=1.8, zorder=2)
            panel.scatter(BUDGETS, values, 38, inside, edgecolors=colour, linewidths=1.6, zorder=3)
            place = {"xytext": (6, 6), "textcoords": "offset points", "weight": "bold"}
            panel.annotate(NAMES[policy], (BUDGETS[1], values[1]), color=colour, **place)
    for panel, title, line in zip(
        panels, ("penalty, % of the limit", "reward, % of the optimum"), ("limit", "optimum"),
        strict=True,
    ):  # fmt: skip
        panel.axhline(100, color=ink, linewidth=1.2, linestyle=(0, (4, 2)), zorder=1)
        panel.annotate(
            line, (BUDGETS[-1], 100), (0, -6), textcoords="offset points", ha="right", va="top"
        )
        panel.set(xscale="log", xlabel="budget", title=title)
        panel.set_ylim(bottom=panel.get_ylim()[0] - 4)
        panel.set_xticks(BUDGETS, [f"{one:,}" for one in BUDGETS])
        panel.minorticks_off()
    panels[1].text(1, 0.95, "hollow: above the limit", ha="right", transform=panels[1].transAxes)


def draw(folder: str) -> None:
    """Write each picture for both themes."""
    import matplotlib.pyplot as plt

    measured, cases = compared(), {name: measure(case) for name, case in PICTURES.items()}
    inked = "text.color axes.edgecolor axes.labelcolor axes.titlecolor xtick.color ytick.color"
    for theme, (ink, paper, limit) in THEMES.items():
        colours = dict.fromkeys([*inked.split(), "figure.edgecolor"], ink)
        grounds = {"figure.facecolor": paper, "savefig.facecolor": paper}
        with plt.rc_context({**SETTINGS, **colours, **grounds}):
            for name, runs in cases.items():
                figure = plt.figure(figsize=(3.5, 3.3), layout="constrained")
                draw_case(PICTURES[name], runs, figure, limit)
                figure.savefig(Path(folder, f"front-{name}-{theme}.png"), dpi=180)
            figure = plt.figure(figsize=(7.4, 2.9), layout="constrained")
            draw_comparison(measured, figure)
            figure.savefig(Path(folder, f"front-compare-{theme}.png"), dpi=180)


if __name__ == "__main__":
    draw(sys.argv[1])
