"""``tightrope replay``: policies over recorded rows, and what mixtures of the arms would earn."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from tightrope.errors import InputError
from tightrope.shell.commands import number, whole
from tightrope.shell.fitting import limits_of, number_or_column
from tightrope.shell.named import by_name
from tightrope.shell.saying import print_json, say

if TYPE_CHECKING:
    from tightrope.data.log import Log
    from tightrope.data.offpolicy import MixtureEstimates
    from tightrope.data.replay import Replay
    from tightrope.data.tables import FullTable
    from tightrope.policies import Policy
    from tightrope.statistics import Estimate

__all__ = ["add_replay"]

ORDERS = 100
SUMMARY = "Let policies decide over the rows of a log, or estimate mixtures of its arms."
DESCRIPTION = f"""\
{SUMMARY}
LOG is a CSV or Parquet file with a line per pull. With --row it is a table:
a line for every row and arm, so that every arm's outcome is known.

  tightrope replay log.csv --arm model --cost usd --reward score \\
      --penalty bad --limit bad=0.05/pull --propensity chance \\
      --policy resolve --policy lyon --budget 50 \\
      --mixture haiku=0.3,sonnet=0.7
"""


def replay(options: argparse.Namespace) -> int:
    """Let policies decide over recorded rows, and print a row per policy and per mixture."""
    from tightrope.data.offpolicy import evaluate_mixture
    from tightrope.data.replay import replay as run

    policies = _policies(options.policy)
    mixtures = [by_name(one.split(","), "--mixture") for one in options.mixture]
    limits = limits_of(options.limit)
    if not policies and not mixtures:
        raise InputError("replay: nothing to do; must have --policy with --budget, or --mixture")
    if policies and options.budget is None:
        raise InputError("--budget: is missing; must be given with --policy, in units of cost")
    data = _read(options)
    estimates = [evaluate_mixture(data, one, least=options.least) for one in mixtures]
    found = None
    if policies:
        with redirect_stdout(sys.stderr):  # a user's policy may print
            found = run(
                data,
                limits,
                policies,
                budget=options.budget,
                orders=options.orders,
                seed=options.seed,
                method=options.method,
                with_replacement=options.with_replacement,
            )
    if options.json:
        print_json(_described(data, found, estimates))
        return 0
    if found is not None:
        _print_replay(data, found)
    for one in estimates:
        _print_mixture(one)
    return 0


def _policies(texts: Sequence[str]) -> dict[str, Policy]:
    from tightrope.policies import parse_policy

    for text in texts:
        if texts.count(text) > 1:
            raise InputError(f"--policy {text!r} is given twice; each must be different")
    return {text: parse_policy(text) for text in texts}


def _read(options: argparse.Namespace) -> Log | FullTable:
    """The log, or the table, in the file."""
    import numpy as np

    from tightrope.data.offpolicy import equally_likely
    from tightrope.data.reading import read_log
    from tightrope.data.tables import FullTable

    if options.uniform and options.propensity is not None:
        raise InputError("--uniform: must not come with --propensity, which says how likely")
    log = read_log(
        options.log,
        arm=options.arm,
        cost=number_or_column(options.cost),
        reward=number_or_column(options.reward),
        penalty=options.penalty,
        propensity=options.propensity,
        drop_missing=options.drop_missing,
    )
    if options.row is not None:
        if options.uniform or options.propensity is not None:
            raise InputError("--row: a table has every arm's outcome; must have no propensities")
        if options.drop_missing:
            raise InputError("--drop-missing: must not come with --row; a table has no gaps")
        rows = read_log(options.log, arm=options.row, cost=0, reward=0)
        return FullTable.from_long(np.array(rows.arms)[rows.chosen], log)
    return equally_likely(log) if options.uniform else log


# What is printed.


def _described(
    data: Log | FullTable, found: Replay | None, estimates: Sequence[MixtureEstimates]
) -> dict[str, Any]:
    from tightrope.data.tables import FullTable

    return {
        "data": {
            "kind": "table" if isinstance(data, FullTable) else "log",
            "rows": len(data),
            "arms": list(data.arms),
            "penalties": list(data.penalties),
        },
        "budget": None if found is None else found.budget,
        "planned_budget": None if found is None else found.planned,
        "policies": [] if found is None else found.summary(),
        "mixtures": [one.summary() for one in estimates],
    }


def _print_replay(data: Log | FullTable, found: Replay) -> None:
    from tightrope.data.tables import FullTable
    from tightrope.formats import number, odds
    from tightrope.report.model import Column, Table, names, print_table

    rows = found.rows
    spread = [(row.reward_quantiles[0], row.reward_quantiles[-1]) for row in rows]
    columns = [
        names("policy", [row.policy for row in rows]),
        Column("reward rate", [row.reward_rate for row in rows], _estimate),
        Column("5 % to 95 %", [f"{number(low)} to {number(high)}" for low, high in spread]),
    ]
    for m, name in enumerate(rows[0].limit_names):
        violations, broken = [row.violation[m] for row in rows], [row.broken[m] for row in rows]
        columns.append(Column(f"violation of {name}", violations, lambda one: _estimate(one, "+")))
        columns.append(Column(f"breaks {name}", broken, lambda one: odds(*one)))
    columns.append(Column("pulls", [row.pulls for row in rows], "{:,.1f}".format))
    if not isinstance(data, FullTable):
        columns.append(Column("rows used", [row.rows_used for row in rows], "{:.1%}".format))
    most = [_most_pulled(data.arms, row.pull_share) for row in rows]
    columns.append(names("most pulled", most))
    orders = f"{rows[0].orders:,} orders of" if rows[0].orders > 1 else "one pass over"
    notes = [
        f"{orders} {found.count:,} rows, at a budget of {number(found.budget, 6)}",
        "± is half of the 95 % interval over orders of these rows",
    ]
    print_table(Table(columns, notes=notes[: 1 + (rows[0].orders > 1)]))
    if found.remark:
        say(found.remark)


def _most_pulled(arms: Sequence[str], shares: Sequence[float]) -> str:
    first = sorted(range(len(arms)), key=lambda arm: -shares[arm])[:3]
    return ", ".join(f"{arms[arm]} {shares[arm]:.0%}" for arm in first if shares[arm] >= 0.005)


def _print_mixture(found: MixtureEstimates) -> None:
    from tightrope.report.model import Column, Table, names, print_table

    methods = list(dict.fromkeys(row.method for row in found.rows))
    quantities = list(dict.fromkeys((row.of, row.per) for row in found.rows))
    columns = [names("mixture", [f"{of} per {per}" for of, per in quantities])]
    for method in methods:
        values = [found.value(of, per, method) for of, per in quantities]
        columns.append(Column(method, values, _estimate))
    shares = [f"{name} {share:.3g}" for name, share in found.shares.items()]
    more = f" and {len(shares) - 6} more" if len(shares) > 6 else ""
    notes = [
        f"{', '.join(shares[:6])}{more}; ± is half of the 95 % interval",
        f"{found.used:,} of {found.count:,} rows, effective sample size {found.effective:,.0f}",
    ]
    print_table(Table(columns, notes=notes[: 1 + (len(methods) > 1)]))


def _estimate(value: Estimate, sign: str = "") -> str:
    from tightrope.formats import with_reach

    return with_reach(value.mean, value.reach, sign)


def add_replay(commands: Any) -> None:
    """Add the command; long because it has an option per column and setting."""
    from tightrope.shell.commands import HelpOfCommands

    parser = commands.add_parser(
        "replay", help=SUMMARY, description=DESCRIPTION, formatter_class=HelpOfCommands
    )
    parser.set_defaults(command=replay)
    add = parser.add_argument
    add("log", metavar="LOG", help="a CSV or Parquet file")
    add("--arm", required=True, metavar="COLUMN", help="which arm was pulled")
    add("--cost", required=True, metavar="COLUMN|NUMBER", help="of a pull; a number is for all")
    add("--reward", required=True, metavar="COLUMN|NUMBER", help="of a pull")
    add("--penalty", action="append", default=[], metavar="COLUMN", help="may be repeated")
    add("--propensity", metavar="COLUMN", help="how likely the logged choice was, in (0, 1]")
    add("--uniform", action="store_true", help="every arm was equally likely")
    add("--drop-missing", action="store_true", help="leave out lines with a missing value")
    add("--row", metavar="COLUMN", help="LOG is a table: a line for every row and arm; names rows")
    add(
        "--limit",
        action="append",
        default=[],
        metavar="NAME=X[/PER]",
        help="on a penalty, per cost (default), pull or reward, or in total; may be repeated",
    )
    add(
        "--policy",
        action="append",
        default=[],
        metavar="NAME[:PARAMETER=VALUE,...]|FILE.py:CLASS|MODULE:CLASS",
        help="may be repeated",
    )
    add("--budget", type=number, metavar="B", help="of the policies, in units of cost")
    add(
        "--mixture",
        action="append",
        default=[],
        metavar="ARM=SHARE,...",
        help="shares of the pulls, which sum to 1; may be repeated",
    )
    add(
        "--orders",
        type=whole,
        default=ORDERS,
        metavar="N",
        help=f"shuffles of the rows; 0 takes them as they are; default {ORDERS}",
    )
    add("--with-replacement", action="store_true", help="draw rows, as a simulation does")
    add("--method", default="rejection", metavar="NAME", help="rejection (default) or queues")
    add(
        "--least",
        type=number,
        default=50.0,
        metavar="N",
        help="the smallest effective sample size of a mixture; default 50",
    )
    add("--seed", type=whole, default=0, metavar="N", help="default 0")
    add("--json", action="store_true", help="print JSON, nothing else")
