"""The arena's charts: one summary of the best policies, and the data of the page's own chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tightrope.arena.ranking import Standing, standings
from tightrope.arena.rows import ArenaRow, Scene
from tightrope.report.panels import Panel, PolicyCurve
from tightrope.report.rows import titled
from tightrope.report.styles import styles
from tightrope.theory.learning import learning_limit

__all__ = ["BEST", "SHOWN", "best_policies", "chart_data", "learning_line", "summary_panels"]

BEST = 6  # policies of the summary
SHOWN = 4  # decimals of a regret, as a share, in the page's data
STRAIGHT = 0.01  # regret as a share of OPT(B): logarithmic beyond


def best_policies(rows: Sequence[ArenaRow], budget: float) -> list[str]:
    """The first six of the standings, without those that know the distributions."""
    ranked = [one.policy for one in standings(rows, budget) if not one.knows_means]
    return ranked[:BEST] or [one.policy for one in standings(rows, budget)][:BEST]


def summary_panels(rows: Sequence[ArenaRow], budget: float) -> list[Panel]:
    """How often the best policies keep the limits, and their median regret where they do."""
    labels, budgets = best_policies(rows, budget), sorted({row.budget for row in rows})
    found = {one: {s.policy: s for s in standings(rows, one)} for one in budgets}

    def panel(title: str, y_label: str, value: Any, **how: Any) -> Panel:
        points = [[value(found[x][label]) if label in found[x] else None for x in budgets]
                  for label in labels]  # fmt: skip
        curves = [
            _curve(*pair, budgets, at) for at, pair in enumerate(zip(labels, points, strict=True))
        ]
        if len(budgets) > 1:
            wide = max(budgets) >= 10.0 * min(budgets)
            return Panel(title, y_label, curves, x_log=True, x_ticks=5 if wide else None, **how)
        return Panel(title, y_label, curves, x_label="", x_names=labels, **how)

    return [
        panel(
            "Problems on which the limit is kept", "% of the problems", _kept, y_limits=(0.0, 103.0)
        ),
        panel("Median regret where it is kept", "regret / OPT(B)", _regret, y_share=STRAIGHT),
    ]


def _kept(one: Standing) -> float:
    return 100.0 * one.keeps / one.problems


def _regret(one: Standing) -> float | None:
    return one.regret_share


def _curve(
    label: str, values: Sequence[float | None], budgets: Sequence[float], place: int
) -> PolicyCurve:
    """A policy's values by budget; where there is one budget, at its place among the policies."""
    known = [(x, y) for x, y in zip(budgets, values, strict=True) if y is not None]
    x = np.array([x for x, _ in known]) if len(budgets) > 1 else np.full(len(known), float(place))
    hollow = np.zeros(len(known), bool)
    y = np.array([y for _, y in known])
    return PolicyCurve(label, label, x, y, None, None, hollow, line=len(budgets) > 1)


def chart_data(
    rows: Sequence[ArenaRow], scenes: Mapping[str, Scene], budget: float
) -> dict[str, Any]:
    """The regret of every policy on every problem, for the chart that the page draws.

    ``policies``: name, title, colour, dashes, and whether it is shown at first. ``problems``: by
    name, a list of [policy's place, budget, regret share, 1 if the limit is kept], and the limit of
    learning.
    """
    labels = list(dict.fromkeys(one.policy for one in standings(rows, budget)))
    labels += [label for label in dict.fromkeys(row.policy for row in rows) if label not in labels]
    knows = {row.policy: row.knows for row in rows}
    looks, best = styles(labels), best_policies(rows, budget)
    policies = [
        {
            "title": titled(label, knows[label]),
            "colour": looks[label].colour,
            "dashes": ""
            if looks[label].line == "-"
            else " ".join(f"{2 * x:g}" for x in looks[label].line[1]),
            "shown": label in best,
        }
        for label in labels
    ]
    problems = {}
    for name, scene in scenes.items():
        mine = [row for row in rows if row.problem == name]
        points = [
            [labels.index(row.policy), row.budget, round(row.regret_share, SHOWN), int(row.keeps)]
            for row in mine
            if row.regret_share is not None
        ]
        line = [[x, round(y, SHOWN)] for x, y in learning_line(mine, scene)]
        problems[name] = {"points": points, "learning": line}
    return {"policies": policies, "problems": problems}


def learning_line(rows: Sequence[ArenaRow], scene: Scene) -> list[tuple[float, float]]:
    """The limit of learning over OPT(B) at the budgets of one problem's rows, if there is one."""
    if scene.changes or scene.problem.depends_on_budget:
        return []
    limit = learning_limit(scene.problem)
    if not limit.constant:
        return []
    places = sorted({(row.budget, row.cost_budget, row.optimum) for row in rows if row.optimum})
    return [(budget, (limit.regret(cost) or 0.0) / best) for budget, cost, best in places]
