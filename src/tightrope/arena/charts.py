"""The arena's charts: one summary of the best policies, and the data of the page's own chart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tightrope.arena.ranking import Standing, standings
from tightrope.arena.rows import ArenaRow, Scene
from tightrope.report.panels import Panel, PolicyCurve
from tightrope.report.rows import titled
from tightrope.report.styles import INK, styles
from tightrope.theory.learning import learning_limit

BEST = 6  # policies of the summary
SHOWN = 4  # decimals of a regret, as a share, in the page's data
BUDGET = "budget, in largest costs of one pull"
STRAIGHT = 0.01  # regret as a share of OPT(B): logarithmic beyond


def best_policies(rows: Sequence[ArenaRow], budget: float) -> list[str]:
    """The first six of the standings, without those that know the distributions."""
    ranked = [one.policy for one in standings(rows, budget) if not one.knows_means]
    return ranked[:BEST] or [one.policy for one in standings(rows, budget)][:BEST]


def summary_panels(rows: Sequence[ArenaRow], budget: float) -> list[Panel]:
    """How often the best policies keep the limits, and their median regret where they do."""
    labels, budgets = best_policies(rows, budget), sorted({row.budget for row in rows})
    found = {one: {s.policy: s for s in standings(rows, one)} for one in budgets}

    def curves(value: Callable[[Standing], float | None]) -> list[PolicyCurve]:
        known = [
            {x: value(found[x][label]) for x in budgets if label in found[x]} for label in labels
        ]
        pairs = enumerate(zip(labels, known, strict=True))
        return [_curve(*one, None if len(budgets) > 1 else place) for place, one in pairs]

    wide = max(budgets) >= 10.0 * min(budgets)
    axis: dict[str, Any] = {"x_label": BUDGET, "x_log": True, "x_ticks": 5 if wide else None}
    if len(budgets) == 1:
        axis = {"x_label": "", "x_names": labels}
    kept = curves(lambda one: 100.0 * one.keeps / one.problems)
    regret = curves(lambda one: one.regret_share)
    shares = [float(y) for one in regret for y in one.y]
    ends = min([-0.2 * STRAIGHT, *shares]), max([3.0 * STRAIGHT, *shares])
    first, second = "Problems on which the limit is kept", "Median regret where it is kept"
    room: dict[str, Any] = {"y_share": STRAIGHT, "y_limits": (1.4 * ends[0], 1.4 * ends[1])}
    return [
        Panel(first, "% of the problems", kept, y_limits=(0.0, 103.0), **axis),
        Panel(second, "regret / OPT(B)", regret, **room, **axis),
    ]


def _curve(label: str, values: Mapping[float, float | None], place: int | None) -> PolicyCurve:
    """A policy's values by budget; if there is one budget, at the policy's place."""
    known = {x: y for x, y in values.items() if y is not None}
    x = np.array(list(known)) if place is None else np.full(len(known), float(place))
    y, plain = np.array(list(known.values())), np.zeros(len(known), bool)
    return PolicyCurve(label, label, x, y, None, None, plain, line=place is None)


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
            "colour": "var(--ink)" if looks[label].colour == INK else looks[label].colour,
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
    alone = scene.problem.space is None  # whether a pull informs about one arm only
    if not alone or scene.changes or scene.typed or scene.problem.depends_on_budget:
        return []
    limit = learning_limit(scene.problem)
    if not limit.constant:
        return []
    places = sorted({(row.budget, row.cost_budget, row.optimum) for row in rows if row.optimum})
    return [(budget, (limit.regret(cost) or 0.0) / best) for budget, cost, best in places]
