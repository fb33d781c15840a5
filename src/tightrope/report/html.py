"""Tables for notebooks: the ``_repr_html_`` of tightrope's objects.

They are small, have no script, and follow the notebook's light or dark colours. Every text goes
through :func:`text`, which escapes markup, line ends and invisible characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from tightrope.problem import channel_names
from tightrope.report.rows import ReportRow, of_limits, optimum_rate, typed
from tightrope.report.table import columns, footnotes
from tightrope.statistics import Estimate, Floats

if TYPE_CHECKING:
    from tightrope.engine import Trajectory
    from tightrope.live import Controller, Outlook
    from tightrope.optimum.pi_star import Oracle
    from tightrope.problem import Problem, Task
    from tightrope.results import Results

__all__ = [
    "Block",
    "Cell",
    "HtmlColumn",
    "controller_html",
    "oracle_html",
    "outlook_html",
    "problem_html",
    "results_html",
    "shortened",
    "task_html",
    "text",
    "trajectory_html",
]

MOST_LETTERS = 48  # characters of a name
MOST_NUMBERS = 120  # characters of a cell with several numbers
MOST_NOTE = 1000  # characters of a note
MOST_ARMS = 12  # arms that are listed for a task
MOST_LINES = 24  # lines of a table
FEWEST_POINTS = 3  # points of a sparkline
WIDTH, HEIGHT = 84, 18  # size of a sparkline, in pixels

STYLE = """
.tightrope{max-width:100%;overflow-x:auto;color:inherit;font-size:13px;line-height:1.35}
.tightrope p{margin:.2em 0 .5em;color:inherit}
.tightrope .quiet{opacity:.7}
.tightrope table{border-collapse:collapse;border:0;margin:.2em 0 .5em;color:inherit;font-size:13px}
.tightrope tr,.tightrope tr:nth-child(even),.tightrope tr:nth-child(odd){background:none}
.tightrope th,.tightrope td{border:0;padding:.2em .8em .2em 0;text-align:left;vertical-align:top;
color:inherit;font-variant-numeric:tabular-nums;white-space:nowrap}
.tightrope th{font-weight:600;border-bottom:1px solid rgba(128,128,128,.6)}
.tightrope tr.first td{border-top:1px solid rgba(128,128,128,.3)}
.tightrope th.number,.tightrope td.number{text-align:right}
.tightrope .bar{display:block;width:84px;height:4px;margin:2px 0 0 auto;border-radius:2px;
background:rgba(128,128,128,.25);overflow:hidden}
.tightrope .wide .bar{width:240px;height:6px;margin:0}
.tightrope .bar i{display:block;height:100%;background:#3f8fd2}
.tightrope .bad{color:#e0533d}.tightrope .good{color:#2f9e62}
.tightrope .bad .bar i{background:#e0533d}.tightrope .good .bar i{background:#2f9e62}
.tightrope svg{display:block;margin-left:auto}
""".replace("\n", "")


@dataclass(frozen=True)
class Cell:
    """A text, and below it a bar of length 0 to 1 or a sparkline.

    ``tone``: good, bad or none.
    """

    text: str
    bar: float | None = None
    line: Sequence[float] = ()
    tone: str = ""


@dataclass(frozen=True)
class HtmlColumn:
    """A heading and a cell per line; numbers are right-aligned."""

    heading: str
    cells: Sequence[Cell | str]
    number: bool = True


def text(value: object, most: int = MOST_LETTERS) -> str:
    r"""A text escaped for HTML, on one line, of at most ``most`` characters.

    >>> text("<script>\n\u202e")
    '&lt;script&gt;\\n\\u202e'
    """
    visible = shortened(str(value), most)
    return escape(visible) if visible.isascii() else f"<bdi>{escape(visible)}</bdi>"


def shortened(value: str, most: int = MOST_LETTERS) -> str:
    """A text of at most ``most`` characters, with invisible ones escaped."""
    short = value if len(value) <= most else f"{value[: most - 1]}…"
    return "".join(letter if letter.isprintable() else _code(letter) for letter in short)


def _code(letter: str) -> str:
    """The Python escape of an invisible character, such as a line end."""
    return letter.encode("unicode_escape").decode("ascii")


@dataclass(frozen=True)
class Block:
    """A title with facts, a table, names, notes.

    ``total``: the number of lines if ``columns`` have only the first of them. ``sections``: whether
    each line starts a section. ``progress``: a bar below the title, from 0 to 1.
    """

    title: str
    facts: Sequence[str]
    columns: Sequence[HtmlColumn]
    notes: Sequence[str] = ()
    total: int = 0
    sections: Sequence[bool] = ()
    progress: float | None = None
    names: Sequence[str] = ()  # names of arms, if they have no lines

    def html(self) -> str:
        """The HTML element, with its style."""
        told = " · ".join(map(text, self.facts))
        lines = max((len(column.cells) for column in self.columns), default=0)
        left = max(self.total, lines) - min(lines, MOST_LINES)
        notes = [f"and {left:,} more"] * (left > 0) + list(self.notes)
        arms = ", ".join(map(text, self.names))
        named = f'<p class="quiet">Arms: {arms}</p>' if self.names else ""
        progress = "" if self.progress is None else f'<p class="wide">{_bar(self.progress)}</p>'
        shown = "".join(f'<p class="quiet">{text(note, MOST_NOTE)}</p>' for note in notes)
        return (
            f'<div class="tightrope"><style>{STYLE}</style><p><b>{text(self.title)}</b>'
            f' <span class="quiet">{told}</span></p>{progress}'
            f"{_table(self.columns, self.sections)}{named}{shown}</div>"
        )


def _table(listed: Sequence[HtmlColumn], sections: Sequence[bool]) -> str:
    heads = [f"<th{_class('number' * c.number)}>{text(c.heading)}</th>" for c in listed]
    lines = [column.cells[:MOST_LINES] for column in listed]
    rows = []
    for i, cells in enumerate(zip(*lines, strict=True)):
        marked = _class("first" * bool(i and sections and sections[i]))
        shown = [_cell(cell, column) for cell, column in zip(cells, listed, strict=True)]
        rows.append(f"<tr{marked}>{''.join(shown)}</tr>")
    head, body = "".join(heads), "".join(rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(cell: Cell | str, column: HtmlColumn) -> str:
    one = Cell(cell) if isinstance(cell, str) else cell
    drawn = "" if one.bar is None else _bar(one.bar)
    drawn += _spark(one.line) if len(one.line) >= FEWEST_POINTS else ""
    told = text(one.text, MOST_NUMBERS if column.number else MOST_LETTERS)
    return f"<td{_class('number' * column.number, one.tone)}>{told}{drawn}</td>"


def _class(*names: str) -> str:
    told = " ".join(filter(None, names))
    return f' class="{told}"' if told else ""


def _bar(share: float) -> str:
    """A bar that is empty at 0 and full at 1."""
    length = float(np.clip(np.nan_to_num(share), 0.0, 1.0))
    return f'<span class="bar" aria-hidden="true"><i style="width:{100 * length:.1f}%"></i></span>'


def _spark(values: Sequence[float]) -> str:
    """A sparkline of the values, scaled to their range, with a dot at the last."""
    heights = np.asarray(values, float)
    low, high = float(heights.min()), float(heights.max())
    scaled = (heights - low) / (high - low) if high > low else np.full(len(heights), 0.5)
    x = np.linspace(3.0, WIDTH - 3.0, len(heights))
    y = (HEIGHT - 3.0) - scaled * (HEIGHT - 6.0)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">'
        f'<polyline points="{points}" fill="none" stroke="#3f8fd2" stroke-width="1.5"/>'
        f'<circle cx="{x[-1]:.1f}" cy="{y[-1]:.1f}" r="2.2" fill="#3f8fd2"/></svg>'
    )


def task_html(task: Task) -> str:
    """A task's limits, scales, arms and declared facts."""
    limits = ["", "", *(f"{_number(one.number)} {one.words}" for one in task.limit_kinds)]
    listed = [
        HtmlColumn("outcome", task.channels, number=False),
        HtmlColumn("largest of one pull", [_number(scale) for scale in task.scales.channels]),
        HtmlColumn("limit", limits),
    ]
    facts = {"smallest mean cost": task.smallest_cost, "slack": task.slack}
    known = [f"{name} {_number(value)}" for name, value in facts.items() if value is not None]
    if task.safe is not None:
        known.append(f"safe arm {shortened(str(task.safe))}")
    others = task.arm_count - MOST_ARMS
    names = [*task.names[:MOST_ARMS], *[f"and {others:,} more"] * (others > 0)]
    page = Block(_title("Task", task.name), [*_size(task), *known], listed, names=names)
    return page.html()


def problem_html(problem: Problem) -> str:
    """The means and rates of a problem's arms, with the limits."""
    moments, scales = problem.moments, problem.scales
    rewards = moments.reward_rate * scales.reward / scales.cost
    penalties = problem.own_rates
    shown = slice(MOST_LINES)
    listed = [
        HtmlColumn("arm", list(problem.names[shown]), number=False),
        HtmlColumn("mean cost", _numbers(moments.cost[shown] * scales.cost)),
        HtmlColumn("mean reward", _numbers(moments.reward[shown] * scales.reward)),
        HtmlColumn("reward rate", _bars(rewards[shown], float(rewards.max()))),
    ]
    names = of_limits("penalty rate", problem.limit_names)
    for m, (name, kind) in enumerate(zip(names, problem.limit_kinds, strict=True)):
        limit = kind.number
        top = max(float(penalties[:, m].max()), limit)
        cells = _bars(penalties[shown, m], top, limit)
        listed.append(HtmlColumn(f"{shortened(name)}, limit {limit:g}{kind.suffix}", cells))
    per = "cost, or per what the limit is per" if problem.not_per_cost else "cost"
    notes = [f"Rates are per unit of {per}." + " Red: above the limit." * bool(problem.limits)]
    if problem.changes:
        starts = ", ".join(f"{change.at:g}" for change in problem.changes)
        notes.append(f"The arms change at {starts} of the budget; shown are those at the start.")
    title, size = _title("Problem", problem.name), _size(problem.task)
    return Block(title, size, listed, notes, problem.arm_count).html()


def oracle_html(best: Oracle) -> str:
    """The arms that pi* pulls, its reward rate and penalty rates."""
    pulled = np.flatnonzero(best.pull_share > 0.0)
    listed = [
        HtmlColumn("arm", [best.arm_names[k] for k in pulled.tolist()], number=False),
        HtmlColumn("share of pulls", _shares(best.pull_share[pulled])),
        HtmlColumn("share of cost", _shares(best.cost_share[pulled])),
    ]
    facts = [f"reward rate {_number(best.reward_rate)}"]
    rates = of_limits("penalty rate", best.limit_names)
    for name, rate, price in zip(rates, best.penalty_rate, best.multiplier, strict=True):
        facts.append(f"{name} {_number(rate)} (multiplier {_number(price)})")
    others = len(best.pull_share) - len(pulled)
    notes = [f"{_count(others, 'arm')} never pulled"] if others else []
    return Block("Oracle π*", facts, listed, notes).html()


def trajectory_html(path: Trajectory) -> str:
    """The totals and queues of each run at its end, with lines over time."""
    runs, limits = path.penalty.shape[0], path.penalty.shape[2]
    names = path.limit_names or channel_names(limits)[2:]
    series = [("cost", path.cost), ("reward", path.reward)]
    series += [(name, path.penalty[:, :, m]) for m, name in enumerate(names)]
    series += [(name, path.queue[:, :, m]) for m, name in enumerate(of_limits("queue", names))]
    shown = range(min(runs, MOST_LINES))
    listed = [HtmlColumn("run", [str(run + 1) for run in shown], number=False)]
    for name, values in series:
        cells = [Cell(_number(values[run, -1]), line=_thinned(values[run])) for run in shown]
        listed.append(HtmlColumn(name, cells))
    facts = [_count(runs, "run"), f"up to {_count(int(path.step[-1]), 'pull')}"]
    title = _title("Trajectory", path.policy)
    return Block(title, facts, listed, ["At the end of each run; lines: over time."], runs).html()


def results_html(results: Results) -> str:
    """A line per policy and budget, with the numbers of the printed table."""
    rows = typed(results.rows())
    listed = [_drawn(HtmlColumn(c.heading, c.cells, c.number), rows) for c in columns(rows)]
    if len(results.budgets) >= FEWEST_POINTS:
        listed.insert(3, HtmlColumn("by budget", _sparks(rows)))
    starts = [i == 0 or row.policy != rows[i - 1].policy for i, row in enumerate(rows)]
    facts = [f"{_count(results.runs, 'run')} per policy and budget", f"seed {results.seed}"]
    colours = " Green: keeps the limit; red: breaks it." * bool(results.problem.limits)
    notes = ["± is half of the 95 % interval." + colours, *footnotes(rows)]
    notes += [] if results.complete else ["Interrupted: only the finished runs are here."]
    page = Block(_title("Results", results.problem.name), facts, listed, notes)
    return replace(page, sections=starts if len(results.budgets) > 1 else ()).html()


def _drawn(column: HtmlColumn, rows: Sequence[ReportRow]) -> HtmlColumn:
    """A column of the printed table, with bars or colours for some metrics."""
    if column.heading == "reward rate":
        rates = [row.reward_rate.mean for row in rows]
        best = [rate for row in rows if (rate := optimum_rate(row)) is not None]
        top = max([*rates, *best], default=0.0) or 1.0
        cells = [Cell(str(c), r / top) for c, r in zip(column.cells, rates, strict=True)]
        return replace(column, cells=cells)
    headings = of_limits("violation", rows[0].limit_names if rows else ())
    if column.heading in headings:
        m = headings.index(column.heading)
        tones = [_tone(row.violation[m]) for row in rows]
        cells = [Cell(str(c), tone=t) for c, t in zip(column.cells, tones, strict=True)]
        return replace(column, cells=cells)
    return column


def _tone(violation: Estimate) -> str:
    """Red where the interval lies above 0, green where it lies at or below it."""
    low, high = violation.interval or (violation.mean, violation.mean)
    return "bad" if low > 0.0 else "good" if high <= 0.0 else ""


def _sparks(rows: Sequence[ReportRow]) -> list[Cell]:
    """The reward rate by budget, beside the first line of each policy."""
    cells: list[Cell] = []
    for _, group in groupby(rows, key=lambda row: row.policy):
        mine = list(group)
        line = [row.reward_rate.mean for row in mine]
        cells += [Cell("", line=line), *(Cell("") for _ in mine[1:])]
    return cells


def controller_html(controller: Controller) -> str:
    """A controller's spent budget, pulls per arm, and queues."""
    task, pulls = controller.task, np.array(controller.pulls)
    order = np.argsort(-pulls, kind="stable")[:MOST_LINES]
    total = int(pulls.sum())
    listed = [
        HtmlColumn("arm", [task.names[k] for k in order.tolist()], number=False),
        HtmlColumn("pulls", [Cell(f"{n:,}", n / max(total, 1)) for n in pulls[order].tolist()]),
    ]
    queues = of_limits("queue", task.limit_names)
    facts = [
        f"spent {controller.spent:,.6g} of {controller.budget:,.6g}",
        _count(total, "pull"),
        *(f"{name} {_number(q)}" for name, q in zip(queues, controller.queues, strict=True)),
    ]
    notes = ["The budget is spent."] if controller.exhausted else []
    page = Block(f"Controller {controller.policy.label}", facts, listed, notes, task.arm_count)
    return replace(page, progress=controller.spent / controller.budget).html()


def outlook_html(outlook: Outlook) -> str:
    """What can be said now about the end of a run, limit by limit."""
    rows = outlook.limits
    tones = ["bad" if one.broken or one.infeasible else "good" * one.promised for one in rows]
    rates = ["–" if one.rate is None else _number(one.rate) for one in rows]
    listed = [
        HtmlColumn("limit", [one.name for one in rows], number=False),
        HtmlColumn("at most", [_number(one.limit) for one in rows]),
        HtmlColumn("projected", rates),
        HtmlColumn("between", [f"{_number(one.low)} to {_number(one.high)}" for one in rows]),
        HtmlColumn("chance above", [Cell(_number(one.chance), one.chance) for one in rows]),
        HtmlColumn("if only the safest", [_number(one.chance_if_safe) for one in rows]),
        HtmlColumn(
            "", [Cell(o.standing, tone=t) for o, t in zip(rows, tones, strict=True)], number=False
        ),
    ]
    page = Block("Outlook", [], listed if rows else [], outlook.facts())
    return replace(page, progress=min(outlook.spent / outlook.budget, 1.0)).html()


def _title(kind: str, name: str) -> str:
    return f"{kind} {name}" if name else kind


def _size(task: Task) -> list[str]:
    return [_count(task.arm_count, "arm"), _count(task.penalty_count, "limit")]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _number(value: float) -> str:
    return f"{value:,.5g}"


def _thinned(values: Floats) -> list[float]:
    """As many of the values as a spark line has room for, the last among them."""
    places = np.linspace(0, len(values) - 1, min(len(values), WIDTH // 2)).round().astype(int)
    return [float(value) for value in values[places]]


def _numbers(values: Floats) -> list[str]:
    return [_number(value) for value in values.tolist()]


def _bars(values: Floats, top: float, limit: float | None = None) -> list[Cell]:
    """Numbers with bars that are full at ``top``; those above a limit are red."""
    return [
        Cell(
            _number(value),
            value / top if top > 0.0 else 0.0,
            tone="bad" if limit is not None and value > limit else "",
        )
        for value in values.tolist()
    ]


def _shares(values: Floats) -> list[Cell]:
    return [Cell(f"{share:.4f}", share) for share in values.tolist()]
