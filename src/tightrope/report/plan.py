"""A plan as text, tables, fan charts and one self-contained page.

A plan's policy breaks a limit if the runs show that more than half of them end above it.
"""

from __future__ import annotations

import io
import json
import os
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from tightrope.data.draws import Chance, Split
from tightrope.data.plans import OFTEN, QUANTILES, Earned, Plan, PlanRow, Worth
from tightrope.files import make_folder, require_folder, write_text
from tightrope.formats import decimals_of, in_unit, number, odds, percent, with_reach
from tightrope.names import csv_text, in_text
from tightrope.report.extra import MODULES, require
from tightrope.report.figures import draw, save
from tightrope.report.html import block
from tightrope.report.model import Column, Table, names, print_table
from tightrope.report.page import fill, illustrated
from tightrope.report.panels import WIDE, Panel, PolicyCurve, Reference
from tightrope.report.replay import most_pulled
from tightrope.report.rows import titled
from tightrope.report.tones import ORDER, breaking, red, tone
from tightrope.showing import html_of, text_of, write_report
from tightrope.statistics import NORMAL_95

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEMPLATE = "plan.html.j2"
BAND = "5 % to 95 %, and darker 25 % to 75 %, of the runs"
MOST_SOURCE = 20_000  # characters of the problem's TOML on the page
MOST_TYPES = 40  # in a table
MOST_COLUMNS = 4  # panels side by side in the picture
SENTENCE = 80  # characters of a line of text

six = partial(number, digits=6)


def tables(plan: Plan) -> list[Table]:
    """The tables of a plan."""
    found = [_rewards(plan), _limits(plan), *_types(plan), _errors(plan)]
    return [*found, _earnings(plan)] if plan.earned else found


def ordered(plan: Plan) -> list[PlanRow]:
    """The rows by budget: policies that keep the limits first, by reward; those that break last."""

    def key(row: PlanRow) -> tuple[float, int, float]:
        kept = _tone(row)
        return row.budget, ORDER.index(kept), row.any_broken.share if kept == "bad" else -row.median

    return sorted(plan.rows, key=key)


def _tone(row: PlanRow) -> str:
    """Whether more than half of a policy's runs end above a limit."""
    return tone(row.any_broken.low, row.any_broken.high, OFTEN)


def _table(plan: Plan, columns: Sequence[Column], title: str, lead: str) -> Table:
    """A table of the ordered rows, with a section per budget."""
    ends = [one.budget != other.budget for one, other in pairwise(ordered(plan))]
    return Table([*_names(plan), *columns], title, lead, ends=[*ends, False])


def _rewards(plan: Plan) -> Table:
    rows = ordered(plan)
    columns = [
        Column(
            "median" if share == 0.5 else f"{share:.0%}", [row.reward[q] for row in rows], number
        )
        for q, share in enumerate(QUANTILES)
    ]
    log = ", including the uncertainty of the log" * bool(plan.draws)
    lead = f"The reward of a run: its median and other quantiles over runs{log}."
    notes = breaking([row.policy for row in rows], list(map(_tone, rows)))
    return replace(_table(plan, columns, "Reward", lead), notes=notes)


def _limits(plan: Plan) -> Table:
    rows, limits = ordered(plan), plan.problem.limit_names
    columns = []
    for m, name in enumerate(limits):
        chances = [row.broken[m] for row in rows]
        tones = [tone(one.low, one.high, OFTEN) for one in chances]
        columns.append(Column(f"breaks {name}", chances, chance_text, tones=tones))
    ends = [f"{number(row.pulls[0])} – {number(row.pulls[-1])}" for row in rows]
    columns.append(Column("median pulls", [row.pulls[2] for row in rows], number))
    columns.append(Column("5% to 95%", ends))
    chance = (
        "The chance that a run ends above a limit, with its 95 % interval, and the"
        if limits
        else "The"
    )
    red_means = (
        " A policy is red if more than half of its runs end above a limit." if limits else ""
    )
    lead = f"{chance} number of pulls until the budget is spent.{red_means}"
    return _table(plan, columns, "Limits and the end" if limits else "The end", lead)


def _types(plan: Plan) -> list[Table]:
    """What each type of request gets from the best policy, a table for each budget."""
    return [_of_types(plan, row) for row in _best(plan).values() if row.by_type]


def _of_types(plan: Plan, row: PlanRow) -> Table:
    rows = sorted(row.by_type, key=lambda one: -one.requests)[:MOST_TYPES]
    columns = [
        names("type", [one.type for one in rows]),
        Column("requests", [one.requests for one in rows], percent),
        names("most pulled", [most_pulled(one.arm_names, one.pull_share) for one in rows]),
        Column("reward per pull", [one.reward for one in rows], number),
    ]
    for m, kind in enumerate(plan.problem.limit_kinds):
        heading = f"{row.limit_names[m]} {kind.words}"
        columns.append(Column(heading, [one.rate[m] for one in rows], number))
    there = f" at {_cost(plan, row.budget)}" * (len(plan.budgets) > 1)
    lead = "What each type of request gets, earns and incurs on average."
    lead += " The limits hold over all types together." * bool(row.limit_names)
    left = len(row.by_type) - len(rows)
    notes = [f"and {left:,} types that come less often"] * bool(left)
    return Table(columns, f"By type of request, with {row.policy}{there}", lead, notes=notes)


def _errors(plan: Plan) -> Table:
    means = [row.mean for row in ordered(plan)]
    columns = split_columns("mean reward", means, bool(plan.draws))
    lead = "± is half of the 95 % interval of the mean; its two parts add up as squares."
    return _table(plan, columns, "How sure the mean is", lead)


def _earnings(plan: Plan) -> Table:
    target, chance = plan.earned[0].target, plan.earned[0].chance
    columns = [
        names("policy", [one.policy for one in plan.earned]),
        Column("smallest budget", plan.earned, partial(_smallest, plan.unit)),
        Column("95% interval", [one.error for one in plan.earned], _reach),
        Column(
            "runs that earn it there", [one.budget and one.share for one in plan.earned], percent
        ),
    ]
    lead = (
        f"The smallest budget with which a run earns {number(target, 6)} with a probability of"
        f" {chance:.0%}, to within half a per cent. All budgets use the same random numbers."
    )
    return Table(columns, "Earn a target", lead)


def _smallest(unit: str, one: Earned) -> str:
    if one.budget is None:
        return f"above {in_unit(number(one.tried), unit)}"
    return in_unit(number(one.budget, 5), unit)


def _reach(error: float) -> str:
    return f"± {NORMAL_95 * error:,.2g}"


def _names(plan: Plan) -> list[Column]:
    """The policies, with what they know of the arms, and their budgets if there are several."""
    rows = ordered(plan)
    policies = [titled(row.policy, row.knows) for row in rows]
    budgets = Column("budget", [row.budget for row in rows], partial(_cost, plan))
    first = names("policy", policies, tones=red(map(_tone, rows)))
    return [first, *[budgets] * (len(plan.budgets) > 1)]


def _cost(plan: Plan, amount: float) -> str:
    """An amount of cost in the user's unit."""
    return in_unit(six(amount), plan.unit)


def chance_text(chance: Chance) -> str:
    """A chance with its interval."""
    return odds(chance.share, chance.low, chance.high)


def _with_reach(value: Split) -> str:
    return with_reach(value.mean, NORMAL_95 * value.error)


def split_columns(heading: str, values: Sequence[Split], log: bool) -> list[Column]:
    """The values and the two parts of their intervals, in three columns."""
    of_log = [_part(one, one.log) if log else None for one in values]
    return [
        Column(heading, values, _with_reach),
        Column("of the simulation", [_part(one, one.simulation) for one in values]),
        Column("of the log", of_log),
    ]


def _part(value: Split, error: float) -> str:
    """A part of a value's interval, with the decimals of the whole."""
    return f"± {NORMAL_95 * error:,.{decimals_of(NORMAL_95 * value.error)}f}"


# --- in words -----------------------------------------------------------------------------


def headline(plan: Plan) -> list[str]:
    """For each budget, one sentence: the best policy's reward, its risk, and the next unit's worth.

    The best policy is the first of the ordered rows.
    """
    worth = {one.budget: one.budget_unit for one in plan.worth}
    best = _best(plan).values()
    return [_earns(plan, row) + _next_unit(plan, worth.get(row.budget)) for row in best]


def _best(plan: Plan) -> dict[float, PlanRow]:
    """The first of the ordered rows of each budget."""
    best: dict[float, PlanRow] = {}
    for row in ordered(plan):
        best.setdefault(row.budget, row)
    return best


def _earns(plan: Plan, row: PlanRow) -> str:
    """What a policy earns at its budget, and how often it breaks a limit."""
    chance, risk = row.any_broken, ""
    if plan.problem.limit_names:
        low, high = percent(chance.low), percent(chance.high)
        risk = f" and ends above a limit in {percent(chance.share)} of runs ({low} to {high})"
    which = "no policy keeps the limits; the nearest, " if _tone(row) == "bad" else ""
    comma = "," * bool(which)
    return (
        f"With a budget of {_cost(plan, row.budget)}, {which}{row.policy}{comma} earns"
        f" {number(row.median)} ({number(row.reward[0])} to {number(row.reward[-1])} in 90 % of"
        f" runs){risk}"
    )


def _next_unit(plan: Plan, worth: Split | None) -> str:
    """The end of the sentence: what one more unit of budget is worth, if there is an optimum."""
    if worth is None:
        return "."
    unit = f"{in_unit('1', plan.unit)}" if plan.unit else "unit"
    return f"; the next {unit} of budget is worth {exact(worth)} of reward."


def sentences(plan: Plan) -> list[str]:
    """The optimum, the worth of a looser limit, and the tightest limits, in words."""
    told = [line for one in plan.worth for line in _of_worth(plan, one)]
    return [*told, *_promises(plan)]


def _of_worth(plan: Plan, one: Worth) -> Iterator[str]:
    which = "policy that keeps the limits on average" if one.limits else "policy"
    known = "the arms" if plan.problem.features is None else "the outcomes of each request"
    most = f"{exact(one.optimum)} on average, even if it knows {known}"
    yield f"With a budget of {_cost(plan, one.budget)}, no {which} earns more than {most}."
    there = f" at {_cost(plan, one.budget)}" if len(plan.budgets) > 1 else ""
    for limit in one.limits:
        if limit.per_unit.mean <= 0.0:
            yield f"The limit {limit.name!r} does not bind{there}: a looser one is worth nothing."
            continue
        yield (
            f"A limit {limit.name!r} of {limit.limit + limit.step:g} instead of {limit.limit:g}"
            f" {limit.words} is worth {exact(limit.per_step)} of reward{there}; one of"
            f" {limit.limit - limit.step:g} costs as much (multiplier: {exact(limit.multiplier)}"
            " of reward per unit of its penalty)."
        )


def exact(value: Split) -> str:
    """A value that only the log makes uncertain."""
    return _with_reach(value) if value.log else six(value.mean)


def _promises(plan: Plan) -> Iterator[str]:
    for one in plan.promises:
        there = f"At a budget of {_cost(plan, one.budget)}, {one.policy}"
        measured = (
            f"broken in {one.broken:,} of {one.runs:,} new runs, so the chance is at most"
            f" {one.bound:.2%} with 95 % confidence"
        )
        if one.limit is None:
            yield (
                f"{there}: no limit {one.limit_name!r} is kept at a risk of"
                f" {one.risk:.4g}; {one.reason} ({measured})."
            )
            continue
        yield (
            f"{there} keeps a limit {one.limit_name!r} of {one.limit:g} {one.words} at a risk of"
            f" {one.risk:.4g}: {measured}. A run then earns {number(one.median or 0.0)} (median)."
            f" The most careful arm alone is at {one.least:.4g}. This is measured, not proved."
        )


# --- as text and in notebooks -------------------------------------------------------------


@text_of.register
def _plan_text(plan: Plan) -> str:
    file = io.StringIO()
    print_plan(plan, file)
    return file.getvalue().rstrip("\n")


def print_plan(plan: Plan, file: IO[str] | None = None) -> None:
    """Print the headline, the tables and the sentences to standard output, or to ``file``."""
    print_lines([*headline(plan), "", _title(plan)], file)
    for table in tables(plan):
        print_table(table, file)
    print_lines([*sentences(plan), *plan.notes], file)


def print_lines(lines: Iterable[str], file: IO[str] | None) -> None:
    """Print sentences, wrapped."""
    for line in lines:
        print(textwrap.fill(in_text(line), SENTENCE, subsequent_indent="  "), file=file)


def _title(plan: Plan) -> str:
    runs = f"{plan.runs:,} runs" + f" over {plan.draws} draws of the log" * bool(plan.draws)
    plural = "s" * (len(plan.budgets) > 1)
    named = plan.problem.name or "the problem"
    return f"Plan for {named}: budget{plural} {_budgets(plan)}, {runs} of each policy."


def _budgets(plan: Plan) -> str:
    return ", ".join(_cost(plan, budget) for budget in plan.budgets)


@html_of.register
def _plan_html(plan: Plan) -> str:
    """The headline, the first table with the chances beside it, and the sentences below."""
    first, second = _rewards(plan), _limits(plan)
    columns = [*first.columns, *second.columns[len(_names(plan)) :]]
    facts = [f"runs {plan.runs:,}", *([f"draws {plan.draws}"] if plan.draws else [])]
    title = f"Plan: {plan.problem.name}" if plan.problem.name else "Plan"
    notes = [*first.notes, *sentences(plan), *plan.notes]
    return block(
        replace(first, columns=columns, title=title, lead=" ".join(headline(plan)), notes=notes),
        facts,
    )


# --- charts and the page ------------------------------------------------------------------


def panels(plan: Plan) -> list[Panel]:
    """Fan charts against the budget: reward over budget, then each limit, a panel per policy."""
    best = np.array(sorted((one.budget, one.optimum.mean / one.budget) for one in plan.worth))
    marks = [Reference("optimum", "optimum OPT(B)/B", best[:, 1], best[:, 0])] if len(best) else []
    rewards = _fans(plan, lambda row: [value / row.budget for value in row.reward])
    found = _aligned(rewards, "reward / budget", marks, plan.unit)
    for m, kind in enumerate(plan.problem.limit_kinds):
        line = Reference("limit", "limit", np.array([plan.problem.limits[m]]))
        rates = _fans(plan, lambda row, m=m: row.rate[m])  # type: ignore[misc]
        found += _aligned(rates, f"{plan.problem.limit_names[m]} {kind.words}", [line], plan.unit)
    return found


def _fans(
    plan: Plan, quantiles: Callable[[PlanRow], Sequence[float]]
) -> dict[str, list[PolicyCurve]]:
    """Of each policy, the median with two bands, and points at the budgets that were asked for."""
    found = {}
    for label in dict.fromkeys(row.policy for row in ordered(plan)):
        rows = [row for row in plan.fan or plan.rows if row.policy == label]
        x, table = np.array([row.budget for row in rows]), np.array([*map(quantiles, rows)], float)
        asked, line, plain = np.isin(x, plan.budgets), len(x) > 1, np.zeros(len(x), bool)
        outer, inner, median, upper, end = table.T  # [Q, N]
        curve = partial(PolicyCurve, label, "median")
        found[label] = [
            curve(x, median, inner, upper, plain, line, not line),
            curve(x, median, outer, end, plain, False, False),
            curve(x[asked], median[asked], None, None, plain[asked], False, True),
        ]
    return found


def _aligned(
    curves: dict[str, list[PolicyCurve]], what: str, references: Sequence[Reference], unit: str
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
            x_label=f"budget, {unit}" if unit else "budget B",
            x_log=max(budgets) >= WIDE * min(budgets),
            y_limits=(min(heights) - margin, max(heights) + margin),
            band=BAND,
        )
        for label, some in curves.items()
    ]


def figure(plan: Plan) -> Figure:
    """The fan charts as one figure."""
    policies = len({row.policy for row in plan.rows})
    return draw(panels(plan), min(policies, MOST_COLUMNS))


def page(plan: Plan, files: Sequence[str] = ()) -> str:
    """One self-contained HTML page: sentences, charts, tables, the problem."""
    facts = [
        ("problem", plan.problem.name or "not named"),
        ("budgets", _budgets(plan)),
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
        lead=" ".join(headline(plan)),
        facts=facts,
        sentences=sentences(plan),
        tables=tables(plan),
        notes=plan.notes,
        files=files,
        source=source,
        **illustrated(panels(plan)),
    )


def _limit_facts(plan: Plan) -> str:
    told = zip(plan.problem.limit_names, plan.problem.limit_kinds, strict=True)
    return ", ".join(f"{name} {kind.number:g} {kind.words}" for name, kind in told)


def require_report(folder: str | os.PathLike[str]) -> None:
    """Raise before the work unless pages can be made and written into the folder."""
    require(*MODULES)
    require_folder(folder)


@write_report.register
def _write(plan: Plan, folder: str | os.PathLike[str]) -> tuple[str, ...]:
    """Render everything, then write it, each file whole; the page, which links the rest, last."""
    require_report(folder)
    stem = os.path.join(os.fspath(folder), "plan")
    names = [f"plan.{suffix}" for suffix in ("json", "csv", "png", "svg")]
    picture, html = figure(plan), page(plan, names)
    text = json.dumps(plan.summary(), indent=2, allow_nan=False) + "\n"
    lines = [_flat(row) for row in plan.fan or plan.rows]
    make_folder(folder)
    write_text(f"{stem}.json", text)
    write_text(f"{stem}.csv", csv_text([lines[0], *(line.values() for line in lines)]))
    save(picture, stem)
    write_text(f"{stem}.html", html)
    return tuple(os.path.join(os.fspath(folder), name) for name in [*names, "plan.html"])


def _flat(row: PlanRow) -> dict[str, Any]:
    """A line of the CSV file, with every quantile in full precision."""

    def quantiles(name: str, values: Sequence[float]) -> dict[str, float]:
        return {f"{name}_{100 * q:g}": v for q, v in zip(QUANTILES, values, strict=True)}

    line: dict[str, Any] = {"policy": row.policy, "budget": row.budget, "runs": row.runs}
    line |= {"mean": row.mean.mean, "se_simulation": row.mean.simulation, "se_log": row.mean.log}
    line |= quantiles("reward", row.reward) | quantiles("pulls", row.pulls)
    for name, rate, chance in zip(row.limit_names, row.rate, row.broken, strict=True):
        line |= quantiles(f"rate_{name}", rate) | {f"broken_{name}": chance.share}
        line |= {f"broken_{name}_low": chance.low, f"broken_{name}_high": chance.high}
    return line
