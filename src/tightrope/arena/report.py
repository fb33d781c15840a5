"""The arena's page, picture and table, from its ranked rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tightrope.arena.ranking import at_place, judged, percent, standings, verdict
from tightrope.arena.rows import ArenaRow, Scene
from tightrope.files import write_text
from tightrope.formats import NOTHING, counted, number, odds, with_reach
from tightrope.report.figures import draw, save
from tightrope.report.html import block
from tightrope.report.model import Column, Table, names, texts
from tightrope.report.page import fill, illustrated
from tightrope.report.panels import Panel, PolicyCurve, Reference
from tightrope.report.styles import Style, styles
from tightrope.report.table import write_csv
from tightrope.theory.learning import learning_limit

__all__ = ["FILES", "headline", "panels", "standings_html", "verdicts", "write"]

TEMPLATE = "board.html.j2"
FILES = ("arena.csv", "arena.png", "arena.svg", "arena.html")
COLUMNS, SIZE = 4, (3.3, 2.5)  # of the picture
STRAIGHT = 0.01  # regret as a share of OPT(B): logarithmic beyond
HOLLOW = "hollow: not shown to keep the limit"
LONGEST_SOURCE = 40_000  # characters of a problem's TOML on the page
LEARNING = "C log B: limit of learning, for large B"

six = partial(number, digits=6)

LEAD = (
    "Who earns the most without breaking the limit? Each policy meets the same problems, budgets"
    " and draws. Who is not shown to keep the limit, on average and in nearly every run, is never"
    " ranked above one who is. Policies that know the laws are shown for comparison and not ranked;"
    " what a learner is told of the arms stands beside its name."
)
PICTURES_LEAD = (
    "One panel per problem: regret as a share of OPT(B), the most that any policy can earn that"
    " keeps the limit; lower is better. Behind a hollow marker the limit is not shown to be kept."
    " Breaking it pays: that regret may be below 0. The axis is logarithmic beyond ±1 %. For B"
    " large enough no consistent policy that keeps the limit has regret below (C - o(1)) log B, the"
    " limit of learning; at these budgets it may: see docs/learning-limit.md."
)
NOTES = [
    "Keeps: the runs show, by the upper ends of 95 % intervals, that the mean violation is at most"
    " 0.001 of the limit, for every limit, and that less than 5 % of the runs go beyond a limit by"
    " more than 5 % of it. Noise and few runs make neither of them easier; below 73 runs nobody is"
    " shown to keep a limit. Breaks: the lower end of one of the two is above. Else it is unclear.",
    "Rank: those that keep the limit by regret, then all others by the 99th percentile of their"
    " violation. What a mean penalty beyond the limit, but within the tolerance, earned at the"
    " limit's price does not count. = is a tie: within 1.96 combined standard errors of the first"
    " that has the rank.",
    "Regret is quoted, in verdicts and medians, where it says something: where there are more than"
    " two arms and their rates of penalty and reward do not lie on one line (with M limits: more"
    " than M + 1, not on one plane). Elsewhere it only mirrors the violation.",
    "Regret is against OPT(B), the exact optimum of all policies that know the laws and keep the"
    " expected penalty within c B. Where no policy can (the last pull may go beyond the budget)"
    " there is none. What is earned is estimated with less noise than by the mean of the rewards:"
    " from the cost on each arm, and the penalties at the limits' prices; the mean is the same.",
    "Where the arms change, OPT(B) knows when and how, so regret is also that of not knowing the"
    " future. Policies that forget (window0, discount0) take part there alone.",
    "Budgets are in largest costs of one pull, so that problems compare: B = 1,000 is 20,000 ms on"
    " wireless, whose longest transmission takes 20 ms. cost_budget in the CSV is in the problem's"
    " own units.",
    "Time per decision is the wall-clock time of the simulation per pull, draws and bookkeeping"
    " included, with many runs side by side on all threads: throughput, not the latency of one"
    " decision. At small budgets most of it is what starting takes. It varies from machine to"
    " machine and time to time; all other numbers do not.",
    "Knows: what a policy is told of the arms beside their names and scales. Some learners use the"
    " smallest mean cost, as lyon's authors did, or the slack; in simulation the problem's task"
    " declares both, and they are right. lyon:delta0=15 is the paper's other setting; at small"
    " budgets it lies outside the paper's theory.",
]

STANDINGS = {  # what the columns mean
    "keeps the limit": "shown on how many of the problems that it was run on",
    "rank 1": "how often it keeps the limit with the lowest regret, ties included",
    "median regret": "as a share of OPT(B), over the problems where it keeps the limit and regret"
    " says something: see the notes",
    "worst violation": "the largest mean violation on any problem, as a share of c",
    "worst 99th percentile": "of a run's violation, on any problem, as a share of c",
    "P(limit broken)": "the share of runs that break a limit, averaged over problems",
}
NUMBERS = {
    "budget": "in largest costs of one pull",
    "rank": "within the problem and budget; = is a tie, – knows the laws",
    "limit": "keeps, breaks or unclear: see the notes",
    "regret": "OPT(B) less the mean reward, ± half of its 95 % interval",
    "of OPT(B)": "the regret as a share of OPT(B)",
    "violation": "mean penalty over c B, less 1, ± half of its 95 % interval; of the limit kept"
    " worst",
    "99th percentile": "of a run's violation, as a share of the limit",
    "P(limit broken)": "the share of runs whose penalty exceeds c B for some limit, and its 95 %"
    " interval (Wilson)",
    "P(by more than 5 %)": "likewise, of runs whose penalty exceeds it by 5 %",
    "runs": "of this policy at this budget",
    "time per decision": "nanoseconds of wall-clock time a simulated pull; see the notes",
}


def write(
    folder: Path,
    rows: Sequence[ArenaRow],
    scenes: Mapping[str, Scene],
    facts: Sequence[tuple[str, str]],
    budget: float,
    left_out: Sequence[str],
) -> list[Path]:
    """Everything is made first and written then; the page comes last."""
    drawn = panels(rows, scenes)
    figure = draw(drawn, columns=min(COLUMNS, len(drawn)), size=SIZE)
    page = fill(
        TEMPLATE,
        title=headline(rows),
        lead=LEAD,
        facts=facts,
        findings=_verdicts(rows, scenes, budget),
        pictures_lead=PICTURES_LEAD,
        tables=[_standings(rows, budget), _numbers(rows, budget)],
        notes=[*NOTES, *left_out],
        files=FILES[:-1],
        sources=[(f"Problem {name}: {s.about}", _source(s)) for name, s in scenes.items()],
        **illustrated(drawn, size=SIZE),
    )
    write_csv([_told(row, scenes) for row in rows], folder / FILES[0])
    save(figure, folder / "arena", ("png", "svg"))
    write_text(folder / FILES[-1], page)
    return [folder / name for name in FILES]


def _told(row: ArenaRow, scenes: Mapping[str, Scene]) -> dict[str, Any]:
    """A row with its problem's size and slack."""
    scene = scenes[row.problem].at(row.cost_budget)
    size = {"arms": scene.problem.arm_count, "limits": scene.problem.penalty_count}
    return {**row.as_dict(), **size, "slack": scene.slack}


def verdicts(rows: Sequence[ArenaRow], budget: float) -> dict[str, str]:
    """A sentence or two on each problem at the budget, or at its largest, and then it says so."""
    found = {}
    for name in dict.fromkeys(row.problem for row in rows):
        there = _judged(rows, name, budget)
        told = "" if there == budget else f"At {six(there)}: "
        found[name] = told + verdict(at_place(rows, name, there))
    return found


def _judged(rows: Sequence[ArenaRow], problem: str, budget: float) -> float:
    return judged([row for row in rows if row.problem == problem], budget)


def panels(rows: Sequence[ArenaRow], scenes: Mapping[str, Scene]) -> list[Panel]:
    """Small multiples: one panel per problem."""
    labels = list(dict.fromkeys(row.policy for row in sorted(rows, key=_order)))
    looks, limits = styles(labels), _limits(rows)
    found = []
    for name in dict.fromkeys(row.problem for row in rows):
        mine = [row for row in rows if row.problem == name]
        budgets = {row.budget for row in mine}
        made = [_curve(mine, label, looks[label]) for label in labels]
        curves = [one for one in made if len(one.x)]
        panel = Panel(
            title=name if curves else f"{name}: no OPT(B)",
            y_label="regret / OPT(B)",
            curves=curves,
            references=[
                Reference("stationary", "OPT(B)", np.zeros(1)),
                *_learning_line(mine, scenes[name]),
            ],
            x_log=len(budgets) > 1,
            x_ticks=5 if max(budgets) >= 10.0 * min(budgets) else None,
            y_share=STRAIGHT,
            y_limits=limits,
            hollow=HOLLOW,
        )
        found.append(panel if len(budgets) > 1 else _side_by_side(panel, labels, budgets.pop()))
    return found


def _side_by_side(panel: Panel, labels: Sequence[str], budget: float) -> Panel:
    """A panel of one budget: the policies beside one another, in the legend's order."""
    curves = [
        replace(one, x=np.array([float(labels.index(one.label))]), line=False)
        for one in panel.curves
    ]
    label = "policies as in the legend, " * (len(labels) > 1) + f"B = {six(budget)}"
    spread = (-0.5, len(labels) - 0.5)
    return replace(panel, curves=curves, x_label=label, x_ticks=0, x_limits=spread)


def _learning_line(rows: Sequence[ArenaRow], scene: Scene) -> list[Reference]:
    """The limit of learning over OPT(B) at the budgets of one problem's rows, if there is one."""
    if scene.changes or scene.problem.depends_on_budget:
        return []
    limit = learning_limit(scene.problem)
    places = sorted({(row.budget, row.cost_budget, row.optimum) for row in rows if row.optimum})
    shares = [(limit.regret(cost) or 0.0) / best for _, cost, best in places]
    if not limit.constant or not places:
        return []
    budgets = np.array([budget for budget, _, _ in places])
    return [Reference("learning", LEARNING, np.array(shares), budgets)]


def _limits(rows: Sequence[ArenaRow]) -> tuple[float, float]:
    """One vertical axis for all panels, so that problems compare."""
    shares = [row.regret_share for row in rows if row.regret_share is not None]
    low, high = min([-3.0 * STRAIGHT, *shares]), max([3.0 * STRAIGHT, *shares])
    return 1.4 * low, 1.4 * high


def _order(row: ArenaRow) -> tuple[bool, str]:
    return row.knows_means, row.policy


def _curve(rows: Sequence[ArenaRow], label: str, style: Style) -> PolicyCurve:
    """One policy's regret on one problem; without intervals, for there are many curves."""
    known = [r for r in rows if r.policy == label and r.regret_share is not None]
    known.sort(key=lambda row: float(row.budget))
    knows = any(row.knows_means for row in known)
    return PolicyCurve(
        label=label,
        name=_title(label, "laws" * knows),
        x=np.array([row.budget for row in known], float),
        y=np.array([row.regret_share for row in known], float),
        low=None,
        high=None,
        hollow=np.array([not row.keeps for row in known], bool),
        style=style,
    )


def headline(rows: Sequence[ArenaRow]) -> str:
    """The page's title: the policy and the problem, or how many of them there are."""
    told = []
    for kind, ending in (("policy", "ies"), ("problem", "s")):
        names = list(dict.fromkeys(getattr(row, kind) for row in rows))
        several = f"{len(names)} {kind.removesuffix('y')}{ending}"
        told.append(names[0] if len(names) == 1 else several)
    return f"The arena: {' on '.join(told)}"


def _source(scene: Scene) -> str:
    """The problem's TOML; of a long one, made of many rows, the beginning."""
    text = scene.problem.outline
    if len(text) <= LONGEST_SOURCE:
        return text
    shown = text[: text.rindex("\n", 0, LONGEST_SOURCE // 10)]
    more = text.count("\n") - shown.count("\n") - 1
    return f"{shown}\n# ... and {more:,} more lines: tightrope problems {scene.name}\n"


def _verdicts(rows: Sequence[ArenaRow], scenes: Mapping[str, Scene], budget: float) -> Table:
    told = verdicts(rows, budget)
    best = [_best(rows, name, budget) for name in scenes]
    columns = [
        texts("Problem", [f"{name}: {one.about}" for name, one in scenes.items()], _unbroken),
        texts("Size", [_size(scene) for scene in scenes.values()], _unbroken),
        texts("Verdict", [told[name] for name in scenes], _unbroken),
        texts("Best that keeps it", best, tones=["open"] * len(scenes)),
    ]
    return Table(
        columns,
        title=f"Verdicts at B = {six(budget)} largest costs of one pull",
        lead="Slack: how far below the limits the most careful mixture of the arms stays, as a"
        " share of the limits. Regrets are shares of OPT(B), violations shares of the limit.",
        name="verdicts",
    )


def _unbroken(text: str) -> str:
    """No line ends between a number and its unit."""
    return text.replace(" %", "\u00a0%").replace(" = ", "\u00a0=\u00a0")


def _size(scene: Scene) -> str:
    problem = scene.problem
    named = [f"{name} " * problem.task.has_named_limits for name in problem.limit_names]
    told = [f"{k.number:g}" + k.suffix for k in problem.limit_kinds]
    limits = ", ".join(f"{a}{limit}" for a, limit in zip(named, told, strict=True))
    count = f"{problem.arm_count} arms, {problem.penalty_count} limit"
    size = f"{count}{'s' * (problem.penalty_count != 1)} ({limits})"
    return size if problem.depends_on_budget else f"{size}, slack {percent(scene.slack)}"


def _best(rows: Sequence[ArenaRow], problem: str, budget: float) -> str:
    there = at_place(rows, problem, _judged(rows, problem, budget))
    first = [row.policy for row in there if row.rank == 1 and row.keeps]
    return ", ".join(first) or "none"


def _standings(rows: Sequence[ArenaRow], budget: float) -> Table:
    found = standings(rows, budget)
    kept = [one.keeps / one.problems for one in found]
    columns = [
        texts("policy", [_title(one.policy, one.knows) for one in found]),
        Column(
            "keeps the limit",
            found,
            lambda one: f"{one.keeps} of {one.problems}",
            lambda one: one.keeps,
            tones=["good" if share == 1.0 else "bad" for share in kept],
            bars=kept,
        ),
        Column("rank 1", [None if one.knows_means else one.first for one in found]),
        Column("median regret", [one.regret_share for one in found], percent),
        Column("worst violation", [one.worst for one in found], percent),
        Column("worst 99th percentile", [one.worst_p99 for one in found], percent),
        Column("P(limit broken)", [one.broken for one in found], percent),
    ]
    return Table(
        columns,
        title=f"Standings at B = {six(budget)}",
        lead="Every policy over all problems. Sorted by how often the limit is kept, then by first"
        " ranks.",
        name="standings",
        meanings=STANDINGS,
    )


def standings_html(rows: Sequence[ArenaRow], budget: float) -> str:
    """The standings as a small table for notebooks."""
    problems = counted(len({row.problem for row in rows}), "problem")
    note = "Regret is a share of OPT(B), violations are shares of the limit."
    shown = replace(_standings(rows, budget), title="Arena: standings", notes=[note])
    return block(shown, [problems, f"budget {six(budget)} largest costs of one pull"])


def _numbers(rows: Sequence[ArenaRow], budget: float) -> Table:
    policies = [_title(row.policy, row.knows) for row in rows]
    tones = [{"keeps": "good", "breaks": "bad"}.get(row.kept, "") for row in rows]
    columns = [
        texts("problem", [row.problem for row in rows]),
        Column("budget", [row.budget for row in rows], six),
        Column("rank", rows, _rank_text, lambda row: row.rank),
        texts("policy", policies),
        names("limit", [row.kept for row in rows], tones=tones),
        Column("regret", rows, _regret_text, lambda row: row.regret),
        Column("of OPT(B)", [row.regret_share for row in rows], percent),
        Column("violation", rows, _violation_text, lambda row: row.violation_share),
        Column("99th percentile", [row.violation_p99_share for row in rows], percent),
        Column(
            "P(limit broken)",
            rows,
            lambda row: odds(row.broken, *row.broken_interval),
            lambda row: row.broken,
        ),
        Column(
            "P(by more than 5 %)",
            rows,
            lambda row: odds(row.broken_far, *row.broken_far_interval),
            lambda row: row.broken_far,
        ),
        Column("runs", [row.runs for row in rows], "{:,}".format),
        Column("time per decision", [row.decision_ns for row in rows], "{:,.3g}".format, unit="ns"),
    ]
    return Table(
        columns,
        title="All numbers",
        lead="A row a problem, budget and policy. Click a heading to sort. The CSV beside this page"
        " has every number in full precision.",
        name="numbers",
        meanings=NUMBERS,
        filters={"problem": None, "budget": six(budget), "policy": None, "limit": None},
    )


def _rank_text(row: ArenaRow) -> str:
    return NOTHING if row.rank is None else f"{row.rank}{'=' * row.tied}"


def _violation_text(row: ArenaRow) -> str:
    text = f"{100 * row.violation_share:+.2f} %"
    if row.violation_share_interval is None:
        return text
    low, high = row.violation_share_interval
    return f"{text} ± {50 * (high - low):.2f}"


def _regret_text(row: ArenaRow) -> str:
    low, high = row.regret_interval or (0.0, 0.0)
    return NOTHING if row.regret is None else with_reach(row.regret, (high - low) / 2)


def _title(policy: str, knows: str) -> str:
    """A policy and what it is told of the arms."""
    return f"{policy} (knows the {knows})" if knows else policy
