"""The arena's page and tables, from its ranked rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tightrope.arena.charts import best_policies, chart_data, summary_panels
from tightrope.arena.ranking import at_place, judged, percent, standings, verdict
from tightrope.arena.rows import ArenaRow, Scene
from tightrope.files import write_text
from tightrope.formats import NOTHING, counted, number, odds, with_reach
from tightrope.report.figures import draw, save
from tightrope.report.html import block
from tightrope.report.model import Column, Table, names, texts
from tightrope.report.page import fill, illustrated
from tightrope.report.rows import titled
from tightrope.report.table import write_csv
from tightrope.report.tones import red

TEMPLATE = "board.html.j2"
FILES = ("arena.csv", "arena.png", "arena.svg", "arena.html")
SIZE = (4.6, 3.1)  # inches, of a panel of the summary
LONGEST_SOURCE = 40_000  # characters of a problem's TOML on the page

six = partial(number, digits=6)

LEAD = (
    "Which policy earns the most without breaking the limit? Every policy meets the same problems,"
    " budgets and random numbers. A policy that is not shown to keep the limit, on average and in"
    " nearly every run, never ranks above one that is. Policies that know the distributions of the"
    " arms are shown for comparison and are not ranked."
)
SUMMARY_LEAD = (
    "The first {count} policies of the standings. Left: on how many problems they are shown to keep"
    " the limit. Right: their median regret on the problems where they keep it, as a share of"
    " OPT(B), the most that a policy can earn that keeps the limit; lower is better. The axis of"
    " the regret is logarithmic beyond ±1 %."
)
CHART_LEAD = (
    "Regret as a share of OPT(B); lower is better. Choose a problem, and the policies to show. A"
    " hollow point means that the policy is not shown to keep the limit there. Breaking the limit"
    " pays, so such a regret may be negative. The axis is logarithmic beyond ±1 %. The thin dashed"
    " line is C log B, the limit of learning: for large budgets no consistent policy that keeps the"
    " limit has a smaller regret."
)
NOTES = [
    "Keeps: the upper ends of the 95 % intervals show that the mean violation of every limit is at"
    " most 0.001 of the limit, and that less than 5 % of the runs exceed a limit by more than 5 %"
    " of it. Breaks: a lower end shows the opposite of one of the two. All other cases are unclear."
    " With fewer than 73 runs no policy is shown to keep a limit.",
    "Rank: policies that keep the limit come first, by regret; all others follow, by the 99th"
    " percentile of their violation. Reward from penalties above the limit, but within the"
    " tolerance, does not count. A tie (=) means that the policy is within 1.96 combined standard"
    " errors of the first with that rank.",
    "Regret is quoted in verdicts and medians only where it says more than the violation: where"
    " there are more than two arms whose rates of penalty and reward are not on one line (with M"
    " limits: more than M + 1 arms, not on one plane).",
    "Regret is measured against OPT(B), the exact optimum over all policies that know the"
    " distributions and keep the expected penalty within c B. It is undefined where no policy can"
    " keep the limit. The reward is estimated from the cost of each arm and from the penalties at"
    " the limits' prices, which has the same mean as the rewards and less noise.",
    "Where the arms change, OPT(B) knows when and how. Policies that forget (window0, discount0)"
    " take part only there.",
    "Where requests have types, OPT(B) sees them. A policy that ignores types sees the average over"
    " all types.",
    "Over an interval, OPT(B) is that of the points of its grid. A policy that learns about"
    " separate points sees 101 unrelated arms.",
    "Budgets are in largest costs of one pull, so that problems compare: B = 1,000 is 20,000 ms on"
    " wireless, whose longest transmission takes 20 ms. cost_budget in the CSV file is in the"
    " problem's own unit.",
    "Time per decision is the wall-clock time of the simulation per pull, with many runs side by"
    " side on all threads. It measures throughput, not the latency of one decision, and varies"
    " between machines. All other numbers are the same on every machine.",
    "Knows: what a policy is given about the arms besides their names and scales. Some learners use"
    " the smallest mean cost, as LyOn's authors did, or the slack. lyon:delta0=15 is the paper's"
    " other setting; at small budgets it is outside the paper's theory.",
]

STANDINGS = {  # meanings of the columns
    "types": "whether the policy uses the types of requests or ignores them",
    "numbers": "over an interval, whether the policy learns a curve or about separate points",
    "keeps the limit": "number of problems on which it is shown to keep the limit",
    "rank 1": "number of problems on which it keeps the limit with the lowest regret, with ties",
    "median regret": "share of OPT(B), over the problems where it keeps the limit and the regret"
    " is quoted (see the notes)",
    "worst violation": "largest mean violation on any problem, as a share of the limit",
    "worst 99th percentile": "of a run's violation on any problem, as a share of the limit",
    "P(limit broken)": "share of runs that break a limit, averaged over problems",
}
NUMBERS = {
    "budget": "in largest costs of one pull",
    "types": "whether the policy uses the types of requests or ignores them",
    "numbers": "over an interval, whether the policy learns a curve or about separate points",
    "rank": "within the problem and budget; = is a tie, – knows the distributions",
    "limit": "keeps, breaks or unclear: see the notes",
    "regret": "OPT(B) less the mean reward, ± half of its 95 % interval",
    "of OPT(B)": "the regret as a share of OPT(B)",
    "violation": "mean penalty over c B, less 1, ± half of its 95 % interval; of the limit that"
    " is kept worst",
    "99th percentile": "of a run's violation, as a share of the limit",
    "P(limit broken)": "share of runs whose penalty exceeds c B for some limit, with its 95 %"
    " interval (Wilson)",
    "P(by more than 5 %)": "share of runs whose penalty exceeds c B by more than 5 %",
    "runs": "runs of this policy at this budget",
    "time per decision": "wall-clock nanoseconds per simulated pull; see the notes",
}


def write(
    folder: Path,
    rows: Sequence[ArenaRow],
    scenes: Mapping[str, Scene],
    facts: Sequence[tuple[str, str]],
    budget: float,
    left_out: Sequence[str],
) -> list[Path]:
    """Make everything first, then write it; the page comes last."""
    drawn = summary_panels(rows, budget)
    several = not drawn[0].x_names
    figure = draw(drawn, columns=2, size=SIZE, legend=several)
    shown = illustrated(drawn, size=SIZE)
    page = fill(
        TEMPLATE,
        title=headline(rows),
        lead=LEAD,
        facts=facts,
        summary_lead=SUMMARY_LEAD.format(count=len(best_policies(rows, budget))),
        chart_lead=CHART_LEAD,
        chart=chart_data(rows, scenes, budget),
        standings=standings_table(rows, budget),
        findings=_verdicts(rows, scenes, budget),
        numbers=_numbers(rows, budget),
        notes=[*NOTES, *left_out],
        files=FILES[:-1],
        sources=[(f"Problem {name}: {s.about}", _source(s)) for name, s in scenes.items()],
        **shown,
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
    types = f" for {len(problem.shares)} types" * scene.typed
    count = f"{problem.arm_count} arms{types}, {problem.penalty_count} limit"
    size = f"{count}{'s' * (problem.penalty_count != 1)} ({limits})"
    return size if problem.depends_on_budget else f"{size}, slack {percent(scene.slack)}"


def _best(rows: Sequence[ArenaRow], problem: str, budget: float) -> str:
    there = at_place(rows, problem, _judged(rows, problem, budget))
    first = [row.policy for row in there if row.rank == 1 and row.keeps]
    return ", ".join(first) or "none"


def standings_table(rows: Sequence[ArenaRow], budget: float) -> Table:
    """Every policy over all problems at a budget."""
    found = standings(rows, budget)
    kept = [one.keeps / one.problems for one in found]
    columns = [
        texts("policy", [titled(one.policy, one.knows) for one in found]),
        *_types_column([one.types for one in found]),
        Column(
            "keeps the limit",
            found,
            lambda one: f"{one.keeps} of {one.problems}",
            lambda one: one.keeps,
            tones=["bad" if one.breaks else "good" * (one.keeps == one.problems) for one in found],
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
        lead="Every policy over all problems, by how often it keeps the limit, then by how often it"
        " ranks first.",
        name="standings",
        meanings=STANDINGS,
    )


def standings_html(rows: Sequence[ArenaRow], budget: float) -> str:
    """The standings as a small table for notebooks."""
    problems = counted(len({row.problem for row in rows}), "problem")
    note = "Regret is a share of OPT(B), violations are shares of the limit."
    shown = replace(standings_table(rows, budget), title="Arena: standings", lead="", notes=[note])
    return block(shown, [problems, f"budget {six(budget)} largest costs of one pull"])


def _numbers(rows: Sequence[ArenaRow], budget: float) -> Table:
    policies = [titled(row.policy, row.knows) for row in rows]
    tones = [{"keeps": "good", "breaks": "bad"}.get(row.kept, "") for row in rows]
    columns = [
        texts("problem", [row.problem for row in rows]),
        Column("budget", [row.budget for row in rows], six),
        Column("rank", rows, _rank_text, lambda row: row.rank),
        texts("policy", policies, tones=red(tones)),
        *_types_column([row.types for row in rows]),
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
        lead="One row per problem, budget and policy. Click a heading to sort. The CSV file beside"
        " this page has every number in full precision.",
        name="numbers",
        meanings=NUMBERS,
        filters={"problem": None, "budget": six(budget), "policy": None, "limit": None},
    )


def _types_column(types: Sequence[str]) -> list[Column]:
    """Which policies use the types of requests, or the numbers; no column if there are none."""
    title = "types" if {"uses", "ignores"} & set(types) else "numbers"
    return [names(title, types)] if any(types) else []


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
