"""The forms in which tightrope's objects are shown, registered with ``tightrope.showing``.

This module is imported when the first object is shown.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

import numpy as np

from tightrope.data.bootstraps import Bootstrap, SureRow
from tightrope.engine import Trajectory
from tightrope.formats import counted, number
from tightrope.live import Controller, Outlook
from tightrope.names import in_table
from tightrope.optimum.pi_star import Oracle
from tightrope.problem import Problem, Task, channel_names
from tightrope.report.html import FEWEST_POINTS, MOST_LINES, WIDTH, block
from tightrope.report.model import Column, Table, names, plain_text, print_table, texts
from tightrope.report.plan import chance_text, exact, print_lines, split_columns
from tightrope.report.rows import ReportRow, of_limits, typed
from tightrope.report.table import footnotes, in_order, numbers_table, rows_table, types_table
from tightrope.report.tones import ORDER, breaking, estimate_tone, limits_tone, red
from tightrope.results import Results
from tightrope.showing import html_of, text_of
from tightrope.statistics import Floats

MOST_ARMS = 12  # arms that are listed for a task

five = partial(number, digits=5)


@html_of.register
def _task(task: Task) -> str:
    """A task's limits, scales, arms and declared facts."""
    limits = ["", "", *(f"{five(one.number)} {one.words}" for one in task.limit_kinds)]
    columns = [
        names("outcome", task.channels),
        Column("largest of one pull", task.scales.channels, five),
        Column("limit", limits),
    ]
    facts = {"smallest mean cost": task.smallest_cost, "slack": task.slack}
    known = [f"{name} {five(value)}" for name, value in facts.items() if value is not None]
    if task.safe is not None:
        known.append(f"safe arm {in_table(str(task.safe))}")
    others = task.arm_count - MOST_ARMS
    arms = [*task.names[:MOST_ARMS], *[f"and {others:,} more"] * (others > 0)]
    return block(Table(columns, _title("Task", task.name)), [*_size(task), *known], arms=arms)


@html_of.register
def _problem(problem: Problem) -> str:
    """The means and rates of a problem's arms, with the limits."""
    moments, scales, shown = problem.moments, problem.scales, slice(MOST_LINES)
    rewards = moments.reward_rate * scales.reward / scales.cost
    columns = [
        names("arm", problem.names[shown]),
        Column("mean cost", (moments.cost[shown] * scales.cost).tolist(), five),
        Column("mean reward", (moments.reward[shown] * scales.reward).tolist(), five),
        _rates("reward rate", rewards[shown], float(rewards.max())),
    ]
    headings = of_limits("penalty rate", problem.limit_names)
    for m, (name, kind) in enumerate(zip(headings, problem.limit_kinds, strict=True)):
        limit, rates = kind.number, problem.own_rates[:, m]
        top = max(float(rates.max()), limit)
        heading = f"{in_table(name)}, limit {limit:g}{kind.suffix}"
        columns.append(_rates(heading, rates[shown], top, limit))
    per = "cost, or per what the limit is per" if problem.not_per_cost else "cost"
    notes = [f"Rates are per unit of {per}." + " Red: above the limit." * bool(problem.limits)]
    if problem.contexts is not None:
        notes.append("Shown are means over all types of requests.")
    if problem.changes:
        starts = ", ".join(f"{change.at:g}" for change in problem.changes)
        notes.append(f"The arms change at {starts} of the budget; shown are those at the start.")
    table = Table(columns, _title("Problem", problem.name), notes=notes)
    return block(table, _size(problem.task), total=problem.arm_count)


def _rates(heading: str, values: Floats, top: float, limit: float = np.inf) -> Column:
    """Numbers with bars that are full at ``top``; those above the limit are red."""
    bars = (values / top if top > 0.0 else np.zeros(len(values))).tolist()
    tones = ["bad" * (value > limit) for value in values.tolist()]
    return Column(heading, values.tolist(), five, tones=tones, bars=bars)


@html_of.register
def _oracle(best: Oracle) -> str:
    """The arms that pi* pulls, or the numbers; its reward rate and penalty rates."""
    pulled = np.flatnonzero(best.pull_share > 0.0)
    columns = [names("arm", [best.arm_names[k] for k in pulled.tolist()])]
    for what, shares in (("pulls", best.pull_share), ("cost", best.cost_share)):
        mine = shares[pulled].tolist()
        columns.append(Column(f"share of {what}", mine, "{:.4f}".format, bars=mine))
    facts = [f"upper bound: {best.bound}"] if best.bound else []
    more = "" if best.error is None else f", other numbers at most {best.error:.2g} more"
    facts.append(f"reward rate {five(best.reward_rate)}{more}")
    rates = of_limits("penalty rate", best.limit_names)
    for name, rate, price in zip(rates, best.penalty_rate, best.multiplier, strict=True):
        facts.append(f"{name} {five(rate)} (multiplier {five(price)})")
    if best.numbers:
        return block(numbers_table(best.numbers_by_type or {"": best.numbers}, "Oracle π*"), facts)
    others = len(best.pull_share) - len(pulled)
    notes = [f"{counted(others, 'arm')} never pulled"] if others else []
    arms = block(Table(columns, "Oracle π*", notes=notes), facts)
    if best.by_type is None:
        return arms
    return arms + block(types_table(best.arm_names, best.shares_by_type))


@html_of.register
def _trajectory(path: Trajectory) -> str:
    """The totals and queues of each run at its end, with lines over time."""
    runs, limits = path.penalty.shape[0], path.penalty.shape[2]
    penalties = path.limit_names or channel_names(limits)[2:]
    series = [("cost", path.cost), ("reward", path.reward)]
    series += [(name, path.penalty[:, :, m]) for m, name in enumerate(penalties)]
    series += [(name, path.queue[:, :, m]) for m, name in enumerate(of_limits("queue", penalties))]
    shown = range(min(runs, MOST_LINES))
    columns = [names("run", [str(run + 1) for run in shown])]
    for name, values in series:
        ends, lines = values[shown, -1].tolist(), [_thinned(values[run]) for run in shown]
        columns.append(Column(name, ends, five, lines=lines))
    facts = [counted(runs, "run"), f"up to {counted(int(path.step[-1]), 'pull')}"]
    notes = ["At the end of each run; lines: over time."]
    return block(Table(columns, _title("Trajectory", path.policy), notes=notes), facts, total=runs)


def _thinned(values: Floats) -> list[float]:
    """As many of the values as a sparkline has room for, the last among them."""
    places = np.linspace(0, len(values) - 1, min(len(values), WIDTH // 2)).round().astype(int)
    return [float(value) for value in values[places]]


@html_of.register
def _results(results: Results) -> str:
    """A line per policy and budget, with the numbers of the printed table."""
    rows = in_order(typed(results.rows()))
    table = rows_table(rows, _title("Results", results.problem.name))
    columns = list(table.columns)
    if len(results.budgets) >= FEWEST_POINTS:
        columns.insert(3, Column("by budget", [""] * len(rows), lines=_by_budget(rows)))
    facts = [f"{counted(results.runs, 'run')} per policy and budget", f"seed {results.seed}"]
    colours = " Green: keeps the limit; red: breaks it." * bool(results.problem.limits)
    notes = ["± is half of the 95 % interval." + colours, *footnotes(rows)]
    notes += [] if results.complete else ["Interrupted: only the finished runs are here."]
    return block(replace(table, columns=columns, notes=notes), facts)


def _by_budget(rows: Sequence[ReportRow]) -> list[list[float]]:
    """The reward rate by budget, beside the first line of each policy."""
    lines: list[list[float]] = []
    for _, group in groupby(rows, key=lambda row: row.policy):
        rates = [row.reward_rate.mean for row in group]
        lines += [rates, *([] for _ in rates[1:])]
    return lines


@html_of.register
def _controller(controller: Controller) -> str:
    """A controller's spent budget, pulls per arm, and queues."""
    task, pulls = controller.task, np.array(controller.pulls)
    order = np.argsort(-pulls, kind="stable")[:MOST_LINES]
    total, mine = int(pulls.sum()), pulls[order]
    columns = [
        names("arm", [task.names[k] for k in order.tolist()]),
        Column("pulls", mine.tolist(), "{:,}".format, bars=(mine / max(total, 1)).tolist()),
    ]
    queues = zip(of_limits("queue", task.limit_names), controller.queues, strict=True)
    facts = [
        f"spent {number(controller.spent, 6)} of {number(controller.budget, 6)}",
        counted(total, "pull"),
        *(f"{name} {five(queue)}" for name, queue in queues),
    ]
    notes = ["The budget is spent."] if controller.exhausted else []
    table = Table(columns, f"Controller {controller.policy.label}", notes=notes)
    spent = controller.spent / controller.budget
    return block(table, facts, total=task.arm_count, progress=spent)


@html_of.register
def _outlook(outlook: Outlook) -> str:
    """What can be said now about the end of a run, limit by limit."""
    table = Table(_outlook_columns(outlook), "Outlook", notes=outlook.facts())
    return block(table, progress=min(outlook.spent / outlook.budget, 1.0))


@text_of.register
def _outlook_text(outlook: Outlook) -> str:
    facts = "\n".join(outlook.facts())
    return f"{facts}\n{plain_text(Table(_outlook_columns(outlook)))}" if outlook.limits else facts


def _outlook_columns(outlook: Outlook) -> list[Column]:
    rows = outlook.limits
    tones = ["bad" if one.broken or one.infeasible else "good" * one.promised for one in rows]
    chances = [one.chance for one in rows]
    columns = [
        names("limit", [one.name for one in rows]),
        Column("at most", [one.limit for one in rows], five),
        Column("projected", [one.rate for one in rows], five),
        Column("between", [f"{five(one.low)} to {five(one.high)}" for one in rows]),
        Column("chance above", chances, five, bars=chances),
        Column("if only the safest", [one.chance_if_safe for one in rows], five),
        *([Column("estimated", [one.estimate for one in rows], five)] if outlook.forward else []),
        texts("", [one.standing for one in rows], tones=tones),
    ]
    return columns if rows else []


def _title(kind: str, name: str) -> str:
    return f"{kind} {name}" if name else kind


def _size(task: Task) -> list[str]:
    return [counted(task.arm_count, "arm"), counted(task.penalty_count, "limit")]


six = partial(number, digits=6)


@html_of.register
def _html(found: Bootstrap) -> str:
    """The rows with the two parts of their errors."""
    title = f"How sure: {found.problem.name}" if found.problem.name else "How sure"
    table = _sure(found, title)
    notes = [*table.notes, *_bounds(found), *found.notes]
    facts = [f"runs {found.runs:,}", f"draws {found.draws}"]
    return block(replace(table, notes=notes), facts)


@text_of.register
def _text(found: Bootstrap) -> str:
    """The rows with the two parts of their errors."""
    file = io.StringIO()
    print_table(_sure(found, "How sure it is"), file)
    print_lines([*_bounds(found), *found.notes], file)
    return file.getvalue().rstrip("\n")


def _sure(found: Bootstrap, title: str) -> Table:
    rows, log = sorted(found.rows, key=_order), bool(found.draws)
    kept = [limits_tone(row.violation) for row in rows]
    columns = [
        names("policy", [row.policy for row in rows], tones=red(kept)),
        Column("budget", [row.budget for row in rows], six),
        *split_columns("reward rate", [row.reward_rate for row in rows], log),
    ]
    for m, heading in enumerate(of_limits("violation", found.problem.limit_names)):
        above = [row.violation[m] for row in rows]
        whole, _, of_log = split_columns(heading, above, log)
        columns.append(replace(whole, tones=list(map(estimate_tone, above))))
        columns += [of_log, Column("broken", [row.broken[m] for row in rows], chance_text)]
    return Table(columns, title, notes=breaking([row.policy for row in rows], kept))


def _order(row: SureRow) -> int:
    return ORDER.index(limits_tone(row.violation))


def _bounds(found: Bootstrap) -> Iterator[str]:
    if found.oracle is not None:
        yield f"Best stationary policy: {exact(found.oracle)} of reward per unit of cost."
    for budget, one in zip(found.budgets, found.optimum, strict=True):
        if one is not None:
            yield f"OPT({six(budget)}): {exact(one)}."
