"""A plan and a bootstrap as text, tables, fan charts and one self-contained page."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope.data.planning import QUANTILES, Plan, PlanRow, Worth
from tightrope.files import write_text
from tightrope.names import in_csv, in_table, in_text
from tightrope.report.panels import Curve, Panel, Reference
from tightrope.report.rows import of_limits
from tightrope.statistics import NORMAL_95

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tightrope.data.bootstrap import Bootstrap, Chance, Split

__all__ = [
    "Grid",
    "bootstrap_html",
    "bootstrap_text",
    "figure",
    "grids",
    "page",
    "panels",
    "plan_html",
    "plan_text",
    "print_plan",
    "require_folder",
    "sentences",
    "write_plan",
]

TEMPLATE = "plan.html.j2"
WIDE = 20.0  # budgets that span this factor get a logarithmic axis
BAND = "5 % to 95 %, and darker 25 % to 75 %, of the runs"
MOST_SOURCE = 20_000  # characters of the problem's TOML on the page
MOST_COLUMNS = 4  # panels side by side in the picture
SENTENCE = 80  # characters of a line of text
NOTHING = "–"


@dataclass(frozen=True)
class Grid:
    """A table of texts: a title, a sentence, headings and lines; numbers are right-aligned."""

    title: str
    lead: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1  # how many columns, from the left, are names


def grids(plan: Plan) -> list[Grid]:
    """The tables of a plan."""
    found = [_rewards(plan), _limits(plan), _errors(plan)]
    if plan.earned:
        found.append(_earnings(plan))
    return found


def _rewards(plan: Plan) -> Grid:
    headings = [*_head(plan), *("median" if q == 0.5 else f"{q:.0%}" for q in QUANTILES)]
    rows = [[*_name(plan, row, knows=True), *map(_amount, row.reward)] for row in plan.rows]
    spread = "a run earns" if not plan.draws else "a run earns, with what the log leaves open"
    return Grid("Reward", f"What {spread}: the median, and quantiles over runs.", headings, rows)


def _limits(plan: Plan) -> Grid:
    names = plan.problem.limit_names
    headings = [*_head(plan), *(f"breaks {name}" for name in names), "median pulls", "5% to 95%"]
    rows = [
        [
            *_name(plan, row),
            *map(_chance, row.broken),
            _amount(row.pulls[2]),
            f"{_amount(row.pulls[0])} – {_amount(row.pulls[-1])}",
        ]
        for row in plan.rows
    ]
    chance = "The chance that a run ends above a limit, with its 95 % interval; " if names else ""
    lead = f"{chance}after how many pulls the budget ends."
    return Grid("Limits and the end" if names else "The end", lead, headings, rows)


def _errors(plan: Plan) -> Grid:
    headings = [*_head(plan), "mean reward", "of the simulation", "of the log"]
    rows = [
        [*_name(plan, row), _with_reach(row.mean), *_parts(row.mean, bool(plan.draws))]
        for row in plan.rows
    ]
    lead = "± is half of the 95 % interval of the mean; its two parts add up as squares."
    return Grid("How sure the mean is", lead, headings, rows)


def _earnings(plan: Plan) -> Grid:
    target, chance = plan.earned[0].target, plan.earned[0].chance
    rows = []
    for one in plan.earned:
        if one.budget is None:
            rows.append([one.policy, f"above {one.tried:,.4g}", NOTHING, NOTHING])
            continue
        reach = NOTHING if one.error is None else f"± {NORMAL_95 * one.error:,.2g}"
        rows.append([one.policy, f"{one.budget:,.5g}", reach, f"{one.share:.1%}"])
    lead = (
        f"The smallest budget with which a run earns {target:,.6g} with a chance of {chance:.0%},"
        " within half a per cent; all budgets on the same draws."
    )
    headings = ["policy", "smallest budget", "95% interval", "runs that earn it there"]
    return Grid("Earn a target", lead, headings, rows)


def _head(plan: Plan) -> list[str]:
    return ["policy", "budget"] if len(plan.budgets) > 1 else ["policy"]


def _name(plan: Plan, row: PlanRow, *, knows: bool = False) -> list[str]:
    title = f"{row.policy} (knows the {row.knows})" if knows and row.knows else row.policy
    return [title, f"{row.budget:,g}"] if len(plan.budgets) > 1 else [title]


def _amount(value: float) -> str:
    """A number to five digits or to the unit."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4g}"


def _chance(chance: Chance) -> str:
    return f"{chance.share:.1%} ({100 * chance.low:.1f} – {100 * chance.high:.1f})"


def _decimals(reach: float) -> int:
    return max(0, min(6, 1 - int(np.floor(np.log10(reach))))) if reach > 0.0 else 4


def _with_reach(value: Split) -> str:
    reach = NORMAL_95 * value.error
    decimals = _decimals(reach)
    return f"{value.mean:,.{decimals}f} ± {reach:,.{decimals}f}"


def _parts(value: Split, log: bool) -> list[str]:
    reaches = [NORMAL_95 * value.simulation, NORMAL_95 * value.log]
    decimals = _decimals(NORMAL_95 * value.error)
    simulation, of_log = (f"± {reach:,.{decimals}f}" for reach in reaches)
    return [simulation, of_log if log else NOTHING]


# --- in words -----------------------------------------------------------------------------


def sentences(plan: Plan) -> list[str]:
    """What one more unit is worth and what can be promised, in words."""
    told = [line for one in plan.worth for line in _of_worth(one, len(plan.budgets) > 1)]
    return [*told, *_promises(plan)]


def _of_worth(one: Worth, several: bool) -> Iterator[str]:
    yield (
        f"With a budget of {one.budget:,g}, no policy that keeps the limits on average earns more"
        f" than {_exact(one.optimum)} on average, even if it knows the arms."
        if one.limits
        else f"With a budget of {one.budget:,g}, no policy earns more than"
        f" {_exact(one.optimum)} on average, even if it knows the arms."
    )
    there = f" at {one.budget:,g}" if several else ""
    yield f"One more unit of budget{there} is worth {_exact(one.budget_unit)} of reward."
    for limit in one.limits:
        if limit.per_unit.mean <= 0.0:
            yield f"The limit {limit.name!r} does not bind{there}: a looser one is worth nothing."
            continue
        yield (
            f"A limit {limit.name!r} of {limit.limit + limit.step:g} instead of {limit.limit:g}"
            f" {limit.words} is worth {_exact(limit.per_step)} of reward{there}, and one of"
            f" {limit.limit - limit.step:g} costs as much (multiplier: {_exact(limit.multiplier)}"
            " of reward per unit of its penalty)."
        )


def _exact(value: Split) -> str:
    """A value that only the log makes uncertain."""
    if value.log:
        return _with_reach(value)
    return f"{value.mean:,.6g}"


def _promises(plan: Plan) -> Iterator[str]:
    for one in plan.promises:
        there = f"At a budget of {one.budget:,g}, {one.policy}"
        measured = (
            f"broken in {one.broken:,} of {one.runs:,} new runs, so the chance is at most"
            f" {one.bound:.2%} with 95 % confidence"
        )
        if one.limit is None:
            yield (
                f"{there}: no limit {one.limit_name!r} can be promised at a risk of"
                f" {one.risk:.4g}; {one.reason} ({measured})."
            )
            continue
        yield (
            f"{there} keeps a limit {one.limit_name!r} of {one.limit:g} {one.words} at a risk of"
            f" {one.risk:.4g}: {measured}. A run then earns {_amount(one.median or 0.0)} (median)."
            f" The most careful arm alone is at {one.least:.4g}. This is measured, not proved."
        )


# --- on the terminal ----------------------------------------------------------------------


def plan_text(plan: Plan) -> str:
    """The plan as plain text."""
    import io

    file = io.StringIO()
    print_plan(plan, file)
    return file.getvalue().rstrip("\n")


def print_plan(plan: Plan, file: Any = None) -> None:
    """Print the tables, then the sentences; to standard output, or to ``file``."""
    print(in_text(_title(plan)), file=file)
    for grid in grids(plan):
        _print_grid(grid, file)
    for line in [*sentences(plan), *plan.notes]:
        print(textwrap.fill(in_text(line), SENTENCE, subsequent_indent="  "), file=file)


def _print_grid(grid: Grid, file: Any) -> None:
    from tightrope.report.table import empty_table, print_table, verbatim

    shown = empty_table(grid.title)
    shown.title_justify = "left"
    for at, heading in enumerate(grid.headings):
        justify: Any = "left" if at < grid.names else "right"
        shown.add_column(verbatim(in_table(heading)), justify=justify, overflow="fold")
    for row in grid.rows:
        shown.add_row(*(verbatim(in_table(cell)) for cell in row))
    print_table(shown, file)


def _title(plan: Plan) -> str:
    runs = f"{plan.runs:,} runs" + f" over {plan.draws} draws of the log" * bool(plan.draws)
    budgets = ", ".join(f"{budget:,g}" for budget in plan.budgets)
    plural = "s" * (len(plan.budgets) > 1)
    return f"plan for {plan.problem.name or 'the problem'}: budget{plural} {budgets}, {runs}"


# --- in notebooks -------------------------------------------------------------------------


def plan_html(plan: Plan) -> str:
    """The first table with the chances beside it, and the sentences below, for notebooks."""
    from tightrope.report.html import Block, HtmlColumn

    first, second = _rewards(plan), _limits(plan)
    skipped = len(_head(plan))
    headings = [*first.headings, *second.headings[skipped:]]
    rows = [[*left, *right[skipped:]] for left, right in zip(first.rows, second.rows, strict=True)]
    columns = [
        HtmlColumn(heading, [row[at] for row in rows], number=at >= 1)
        for at, heading in enumerate(headings)
    ]
    facts = [f"runs {plan.runs:,}", *([f"draws {plan.draws}"] if plan.draws else [])]
    name = plan.problem.name
    title = f"Plan: {name}" if name else "Plan"
    return Block(title, facts, columns, [*sentences(plan), *plan.notes]).html()


def bootstrap_html(found: Bootstrap) -> str:
    """The rows with the two parts of their errors, for notebooks."""
    from tightrope.report.html import Block, HtmlColumn

    grid = _sure(found)
    columns = [
        HtmlColumn(heading, [row[at] for row in grid.rows], number=at >= 1)
        for at, heading in enumerate(grid.headings)
    ]
    facts = [f"runs {found.runs:,}", f"draws {found.draws}"]
    title = f"How sure: {found.problem.name}" if found.problem.name else "How sure"
    return Block(title, facts, columns, [*_bounds(found), *found.notes]).html()


def bootstrap_text(found: Bootstrap) -> str:
    """The rows with the two parts of their errors, as plain text."""
    import io

    file = io.StringIO()
    _print_grid(_sure(found), file)
    for line in [*_bounds(found), *found.notes]:
        print(textwrap.fill(in_text(line), SENTENCE, subsequent_indent="  "), file=file)
    return file.getvalue().rstrip("\n")


def _sure(found: Bootstrap) -> Grid:
    names = found.problem.limit_names
    headings = ["policy", "budget", "reward rate", "of the simulation", "of the log"]
    for heading in of_limits("violation", names):
        headings += [heading, "of the log", "broken"]
    rows = []
    for row in found.rows:
        cells = [row.policy, f"{row.budget:,g}", _with_reach(row.reward_rate)]
        cells += _parts(row.reward_rate, bool(found.draws))
        for one, chance in zip(row.violation, row.broken, strict=True):
            cells += [_with_reach(one), _parts(one, bool(found.draws))[1], _chance(chance)]
        rows.append(cells)
    lead = "± is half of the 95 % interval; its two parts add up as squares."
    return Grid("How sure it is", lead, headings, rows)


def _bounds(found: Bootstrap) -> Iterator[str]:
    if found.oracle is not None:
        yield f"Best stationary policy: {_exact(found.oracle)} of reward per unit of cost."
    for budget, one in zip(found.budgets, found.optimum, strict=True):
        if one is not None:
            yield f"OPT({budget:,g}): {_exact(one)}."


# --- charts and the page ------------------------------------------------------------------


def panels(plan: Plan) -> list[Panel]:
    """Fan charts against the budget: reward over budget, then each limit, a panel per policy."""
    labels = list(dict.fromkeys(row.policy for row in plan.rows))
    rows = plan.fan or plan.rows
    best = [(one.budget, one.optimum.mean / one.budget) for one in plan.worth]
    marks: list[Reference] = []
    if best:
        budgets, rates = np.array(sorted(best)).T
        marks = [Reference("optimum", "optimum OPT(B)/B", rates, budgets)]
    rewards = {
        label: _fan(
            label,
            [row for row in rows if row.policy == label],
            plan,
            [[value / row.budget for value in row.reward] for row in rows if row.policy == label],
        )
        for label in labels
    }
    found = _aligned(rewards, "reward / budget", marks, plan)
    for m, kind in enumerate(plan.problem.limit_kinds):
        name = plan.problem.limit_names[m]
        curves = {
            label: _fan(
                label,
                [row for row in rows if row.policy == label],
                plan,
                [row.rate[m] for row in rows if row.policy == label],
            )
            for label in labels
        }
        line = Reference("limit", "limit", np.array([plan.problem.limits[m]]))
        found += _aligned(curves, f"{name} {kind.words}", [line], plan)
    return found


def _fan(
    label: str, rows: Sequence[PlanRow], plan: Plan, values: Sequence[Sequence[float]]
) -> list[Curve]:
    """The median with two bands, and points at the budgets that were asked for."""
    table, x = np.array(values, float), np.array([row.budget for row in rows])  # [N, Q]
    name, plain = "median", np.zeros(len(x), bool)
    asked = np.isin(x, plan.budgets)
    line, end = len(x) > 1, table.shape[1] - 1
    return [
        Curve(label, name, x, table[:, 2], table[:, 1], table[:, end - 1], plain, line, not line),
        Curve(label, name, x, table[:, 2], table[:, 0], table[:, end], plain, False, False),
        Curve(label, name, x[asked], table[asked, 2], None, None, plain[asked], False, True),
    ]


def _aligned(
    curves: dict[str, list[Curve]], what: str, references: Sequence[Reference], plan: Plan
) -> list[Panel]:
    """A panel per policy, all with the same heights."""
    ends = [one for some in curves.values() for one in some if one.low is not None]
    lows = [float(np.min(one.low)) for one in ends if one.low is not None]
    highs = [float(np.max(one.high)) for one in ends if one.high is not None]
    heights = [*lows, *highs, *(float(y) for one in references for y in one.y)]
    margin = 0.06 * (max(heights) - min(heights) or 1.0)
    budgets = [x for one in ends for x in one.x]
    return [
        Panel(
            title=label,
            y_label=what,
            curves=some,
            references=references,
            x_log=max(budgets) >= WIDE * min(budgets),
            y_limits=(min(heights) - margin, max(heights) + margin),
            band=BAND,
        )
        for label, some in curves.items()
    ]


def figure(plan: Plan) -> Figure:
    """The fan charts as one figure."""
    from tightrope.report.figures import draw

    policies = len({row.policy for row in plan.rows})
    return draw(panels(plan), min(policies, MOST_COLUMNS))


def page(plan: Plan, files: Sequence[str] = ()) -> str:
    """One self-contained HTML page: sentences, charts, tables, the problem."""
    from tightrope.report.figures import draw, legend_marks, svg_text
    from tightrope.report.page import Picture, fill, inlined

    drawn = panels(plan)
    pictures = [
        Picture(f"{one.title}: {one.y_label}", svg_text(draw([one], 1, legend=False)))
        for one in drawn
    ]
    legend = [Picture(name, svg) for name, svg in legend_marks(drawn).items()]
    facts = [
        ("problem", plan.problem.name or "not named"),
        ("budgets", ", ".join(f"{budget:,g}" for budget in plan.budgets)),
        ("limits", _limit_facts(plan) or "none"),
        ("runs", f"{plan.runs:,} of each policy"),
        ("draws of the log", f"{plan.draws}" if plan.draws else "none"),
        ("seed", f"{plan.seed}"),
    ]
    source = plan.problem.outline
    if len(source) > MOST_SOURCE:
        source = f"{source[:MOST_SOURCE]}\n# and {len(source) - MOST_SOURCE:,} more characters"
    return fill(
        TEMPLATE,
        title=f"Plan for {plan.problem.name}" if plan.problem.name else "Plan",
        lead="What the budget earns, how often the limits are broken, and what more is worth.",
        facts=facts,
        sentences=sentences(plan),
        legend=inlined(legend, "mark"),
        pictures=inlined(pictures, "picture"),
        grids=grids(plan),
        notes=plan.notes,
        files=files,
        source=source,
    )


def _limit_facts(plan: Plan) -> str:
    told = zip(plan.problem.limit_names, plan.problem.limit_kinds, strict=True)
    return ", ".join(f"{name} {kind.number:g} {kind.words}" for name, kind in told)


def require_folder(folder: str | os.PathLike[str]) -> None:
    """Raise before the work unless pages can be made and written into the folder."""
    from tightrope.files import require_folder
    from tightrope.report.extra import MODULES, require

    require(*MODULES)
    require_folder(folder)


def write_plan(plan: Plan, folder: str | os.PathLike[str]) -> tuple[str, ...]:
    """Render everything, then write it, each file whole; the page, which links the rest, last."""
    from tightrope.files import make_folder
    from tightrope.report.figures import save

    require_folder(folder)
    stem = os.path.join(os.fspath(folder), "plan")
    names = [f"plan.{suffix}" for suffix in ("json", "csv", "png", "svg")]
    picture, html = figure(plan), page(plan, names)
    text = json.dumps(plan.summary(), indent=2, allow_nan=False) + "\n"
    make_folder(folder)
    write_text(f"{stem}.json", text)
    write_text(f"{stem}.csv", _csv(plan))
    save(picture, stem)
    write_text(f"{stem}.html", html)
    return tuple(os.path.join(os.fspath(folder), name) for name in [*names, "plan.html"])


def _csv(plan: Plan) -> str:
    """A line per policy and budget, with every quantile in full precision."""
    import csv
    import io

    lines = [_flat(row) for row in plan.fan or plan.rows]
    file = io.StringIO()
    writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


def _flat(row: PlanRow) -> dict[str, Any]:
    def quantiles(name: str, values: Sequence[float]) -> dict[str, float]:
        return {f"{name}_{100 * q:g}": v for q, v in zip(QUANTILES, values, strict=True)}

    line: dict[str, Any] = {"policy": in_csv(row.policy), "budget": row.budget, "runs": row.runs}
    line |= {"mean": row.mean.mean, "se_simulation": row.mean.simulation, "se_log": row.mean.log}
    line |= quantiles("reward", row.reward) | quantiles("pulls", row.pulls)
    for name, rate, chance in zip(row.limit_names, row.rate, row.broken, strict=True):
        name = str(in_csv(name))
        line |= quantiles(f"rate_{name}", rate) | {f"broken_{name}": chance.share}
        line |= {f"broken_{name}_low": chance.low, f"broken_{name}_high": chance.high}
    return line
