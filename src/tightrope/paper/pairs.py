"""Two panels, reward rate and violation, of one policy under several settings: Figures 2 to 5."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tightrope.paper.base import Call, Evidence
from tightrope.policies.base import Policy
from tightrope.report.panels import (
    Panel,
    PolicyCurve,
    Reference,
    curve,
    limit_line,
    optimum_line,
    stationary_line,
)
from tightrope.report.styles import Style

METRICS = {  # each panel's title and vertical axis
    "reward_rate": ("Reward rate", "reward / B"),
    "violation": ("Constraint violation", "penalty / B − c"),
    "pull_share": ("Time allocation", "share of pulls, arm 1"),
    "locked": ("Runs locked on arm 1", "fraction of runs"),
}
ALIKE = (
    "Every arm of these figures has a mean reward equal to its mean penalty. So the expected reward"
    " rate is c plus the violation under every policy, and the two panels show the same curve"
    " twice: there is no reward without its penalty. The exact optimum is c B, and π* has the"
    " rate c."
)


@dataclass(frozen=True)
class Setting:
    """One curve: a policy on a ready problem. A colon in ``label`` starts the variant's name."""

    label: str
    name: str
    problem: str
    policy: Policy
    style: Style


def sweep(settings: Sequence[Setting], budgets: tuple[float, ...]) -> tuple[Call, ...]:
    """One call per problem, with the policies of its settings."""
    problems = dict.fromkeys(setting.problem for setting in settings)
    return tuple(
        Call(problem, tuple(s.policy for s in settings if s.problem == problem), budgets)
        for problem in problems
    )


def pair(evidence: Evidence, settings: Sequence[Setting], what: str, **axes: Any) -> list[Panel]:
    """(a) the reward rate, (b) the violation; ``what`` is added to both titles."""
    found = []
    for letter, metric in (("a", "reward_rate"), ("b", "violation")):
        curves = [_curve(evidence, setting, metric) for setting in settings]
        found.append(shown(letter, metric, what, curves, _references(evidence, metric), **axes))
    return found


def shown(
    letter: str,
    metric: str,
    what: str,
    curves: Sequence[PolicyCurve],
    references: Sequence[Reference],
    **axes: Any,
) -> Panel:
    """A panel of a metric against the budget."""
    title, y_label = METRICS[metric]
    title = ", ".join(filter(None, [f"({letter}) {title}", what]))
    return Panel(
        title, y_label, curves, references, x_label="budget B / 1000", x_unit=1000.0, **axes
    )


def _curve(evidence: Evidence, setting: Setting, metric: str) -> PolicyCurve:
    drawn = curve(evidence.rows_of(setting.problem, setting.policy), metric, name=setting.name)
    return replace(drawn, label=setting.label, style=setting.style)


def _references(evidence: Evidence, metric: str) -> list[Reference]:
    """The references of all problems, without duplicates."""
    if metric == "violation":
        return limit_line(metric)
    found: dict[tuple[str, bytes], Reference] = {}
    for call, results in zip(evidence.calls, evidence.results, strict=True):
        rows = [row for row in evidence.rows if row.problem == call.problem]
        for line in (*optimum_line(rows), *stationary_line(results.problem, metric)):
            found.setdefault((line.role, np.round(line.y, 9).tobytes()), line)
    return sorted(found.values(), key=lambda line: line.role)
