"""Figures 4 and 5 of the paper: a grid of v0 and delta0 for each policy.

The paper does not say which v0 and delta0 it shows; these are chosen so that the violation is
positive, near 0 and negative.
"""

from __future__ import annotations

from functools import partial

from tightrope.paper.base import Evidence, Experiment
from tightrope.paper.figure1 import BUDGETS
from tightrope.paper.pairs import ALIKE, Setting, pair, sweep
from tightrope.policies import LyOff, LyOn
from tightrope.report.panels import Panel
from tightrope.report.styles import LINES, Style

PROBLEM = "paper-tradeoff"
MARKS = {0.1: ("o", LINES[0]), 1.0: ("s", LINES[1]), 4.0: ("^", LINES[3])}  # by delta0
SHADES: dict[type[LyOff | LyOn], dict[float, str]] = {  # by v0; at 1 the policy's own colour
    LyOff: {0.5: "#5fb0e0", 1.0: "#0072b2", 2.0: "#2b3288"},
    LyOn: {0.5: "#f0a050", 1.0: "#d55e00", 2.0: "#97323a"},
}


def settings(kind: type[LyOff | LyOn]) -> list[Setting]:
    """The grid of settings."""
    return [
        Setting(
            f"v0={v0:g}:delta0={delta0:g}",
            f"v₀ = {v0:g}, δ₀ = {delta0:g}",
            PROBLEM,
            kind(v0=v0, delta0=delta0),
            Style(colour, *mark),
        )
        for v0, colour in SHADES[kind].items()
        for delta0, mark in MARKS.items()
    ]


def panels(evidence: Evidence, kind: type[LyOff | LyOn]) -> list[Panel]:
    """(a) and (b), as in the paper."""
    return pair(evidence, settings(kind), kind.__name__, x_log=True)


def notes(evidence: Evidence, kind: type[LyOff | LyOn]) -> list[str]:
    """How to read the numbers, and what the text leaves open."""
    return [
        "The text does not say which v₀ and δ₀ these figures show, nor the budgets: the grid is"
        " chosen here, the budgets are Figure 1's, on a logarithmic axis.",
        QUEUE[kind],
        ALIKE,
        "Where no band is visible around a curve, the 95 % interval is narrower than the line.",
    ]


QUEUE: dict[type[LyOff | LyOn], str] = {
    LyOff: "The queue rises to about V times the limit's multiplier (1 on these arms) and stays"
    " there; what it holds at the end is penalty above c − δ. So the violation is close to"
    " (v₀ − δ₀) / √B, and δ₀ > v₀ keeps the limit.",
    LyOn: "The queue rises to about V times the limit's multiplier (1 on these arms), and further"
    " until the arms are known; what it holds at the end is penalty above c − δ. So the violation"
    " comes down towards (v₀ − δ₀) √(log B / B) from above.",
}


def _experiment(number: int, kind: type[LyOff | LyOn], budgets: str) -> Experiment:
    return Experiment(
        name=f"fig{number}",
        title=f"Figure {number}: the trade-off between reward and violation under {kind.__name__}",
        lead="Two arms, a limit of 0.8 on the penalty per unit of cost. The shade shows v₀, the"
        " line and the marker δ₀. A larger v₀ or a smaller δ₀ earns more and breaks the limit by"
        f" more; a smaller v₀ or a larger δ₀ keeps it {budgets}.",
        sweep=sweep(settings(kind), BUDGETS),
        panels=partial(panels, kind=kind),
        notes=partial(notes, kind=kind),
        columns=2,
    )


FIGURE4 = _experiment(4, LyOff, "from the smallest budget on")
FIGURE5 = _experiment(5, LyOn, "once the budget is large enough to learn the arms")
