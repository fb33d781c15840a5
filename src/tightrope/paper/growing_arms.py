"""Figures 2 and 3 of the paper: LyOn with 2 to 100 arms, two delta0."""

from __future__ import annotations

from functools import partial

from tightrope.paper.base import Evidence, Experiment
from tightrope.paper.pairs import ALIKE, Setting, pair, sweep
from tightrope.policies import LyOn
from tightrope.policies.base import set_up
from tightrope.report.panels import Panel
from tightrope.report.styles import LINES, Style

LOOKS = {  # by the number of arms; colours get darker, so that their order is visible in grey
    2: Style("#e0a000", "o", LINES[0]),
    10: Style("#e8702a", "s", LINES[0]),
    20: Style("#c8434f", "^", LINES[0]),
    50: Style("#a03a86", "D", LINES[0]),
    100: Style("#5544b4", "v", LINES[0]),
}
BUDGETS = (1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)


def settings(delta0: float) -> list[Setting]:
    """One setting of LyOn per number of arms."""
    policy = LyOn(v0=1.0, delta0=delta0, alpha=2.0)
    return [
        Setting(f"arms-{count}", f"K = {count}", f"paper-arms-{count}", policy, style)
        for count, style in LOOKS.items()
    ]


def panels(evidence: Evidence, delta0: float) -> list[Panel]:
    """(a) and (b), as in the paper."""
    return pair(evidence, settings(delta0), f"δ₀ = {delta0:g}", x_log=True)


def notes(evidence: Evidence) -> list[str]:
    """How to read the numbers, and what the text leaves open."""
    return [
        ALIKE,
        "The text gives neither the arms it adds nor the budgets. The arms, α = 2 and the"
        " exploration are those of the authors' published scripts; the budgets, on a logarithmic"
        " axis, are chosen here.",
        _exploration(evidence),
        _kept(evidence),
        "Where no band is visible around a curve, the 95 % interval is narrower than the line.",
    ]


def _exploration(evidence: Evidence) -> str:
    """The cost of the initial exploration with the most arms at the smallest budget."""
    call = evidence.calls[-1]
    problem, budget = call.load(), min(call.budgets)
    each = set_up(call.policies[0], problem, budget).explore
    part = each * problem.moments.cost.sum() / budget
    return (
        f"LyOn first pulls every arm {each} times (at B = {budget:,g}): with {problem.arm_count}"
        f" arms this alone takes {part:.0%} of that budget, and the queue does not count it."
    )


def _kept(evidence: Evidence) -> str:
    """The budget from which the violation's interval is below 0, for each number of arms."""
    first = []
    for call in evidence.calls:
        rows = evidence.rows_of(call.problem, call.policies[0])
        ends = {
            row.budget: (row.violation[0].interval or [row.violation[0].mean])[-1] for row in rows
        }
        start = max((budget for budget, high in ends.items() if high >= 0.0), default=0.0)
        kept = [budget for budget in ends if budget > start]
        first.append(f"{call.load().arm_count}: {f'{min(kept):,g}' if kept else 'none'}")
    return (
        "The first of these budgets from which on the violation and its interval are below 0, by"
        f" the number of arms: {'; '.join(first)}."
    )


def _experiment(name: str, number: int, delta0: float, found: str) -> Experiment:
    return Experiment(
        name=name,
        title=f"Figure {number}: LyOn as the number of arms grows, δ₀ = {delta0:g}",
        lead="Pairs of a bold and a careful arm are added, each a little richer in reward and in"
        f" penalty than the pair before; v₀ = 1, δ₀ = {delta0:g}, a limit of 0.8. {found}",
        sweep=sweep(settings(delta0), BUDGETS),
        panels=partial(panels, delta0=delta0),
        notes=notes,
        columns=2,
    )


FIGURE2 = _experiment(
    "fig2",
    2,
    0.5,
    "With more arms the limit is first broken by more, and the reward is higher for it; as the"
    " budget grows, all curves approach π*.",
)
FIGURE3 = _experiment(
    "fig3",
    3,
    15.0,
    "A large δ₀ makes up for the cost of learning: the violation becomes negative, later with more"
    " arms (with 100 arms beyond B = 100,000), and the reward falls below π*'s before it returns"
    " to it.",
)
