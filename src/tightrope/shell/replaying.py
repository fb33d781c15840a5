"""``tightrope replay``: policies over recorded rows, and what mixtures of the arms would earn."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tightrope.errors import InputError, nearest
from tightrope.shell.commands import number, whole
from tightrope.shell.saying import print_json, say

if TYPE_CHECKING:
    from tightrope.data.log import Log
    from tightrope.data.offpolicy import MixtureEstimates
    from tightrope.data.replay import Replay
    from tightrope.data.tables import FullTable
    from tightrope.policies import Policy
    from tightrope.problem.limits import Limit
    from tightrope.statistics import Estimate

__all__ = ["add_replay", "limits_of"]

PER = ("cost", "pull", "reward", "total")
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

    policies, mixtures = _policies(options.policy), list(map(_shares, options.mixture))
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


def _shares(text: str) -> dict[str, float]:
    """``haiku=0.3,sonnet=0.7`` as shares by arm."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, share = _named_number("--mixture", part)
        if name in found:
            raise InputError(f"--mixture {text!r}: {name!r} is given twice")
        found[name] = share
    return found


def _named_number(option: str, text: str) -> tuple[str, float]:
    name, equals, value = text.rpartition("=")
    try:
        if name and equals:
            return name, float(value)
    except ValueError:
        pass
    raise InputError(f"{option} {text!r}: must be NAME=NUMBER")


def limits_of(texts: Sequence[str]) -> Mapping[str, Limit]:
    """Limits such as ``bad=0.05/pull`` by name; per unit of cost where nothing else is said.

    >>> limits_of(["bad=0.05/pull", "late=500/total", "dollars=0.004"])
    {'bad': Limit(0.05, per='pull'), 'late': Limit(total=500.0), 'dollars': Limit(0.004)}
    """
    from tightrope.problem.limits import Limit

    found: dict[str, Limit] = {}
    for text in texts:
        head, slash, per = (
            text.rpartition("/") if "/" in text.rpartition("=")[2] else (text, "", "")
        )
        if slash and per not in PER:
            raise InputError(f"--limit {text!r}: per {per!r} is unknown; {nearest(per, PER)}")
        name, value = _named_number("--limit", head)
        if name in found:
            raise InputError(f"--limit {name!r} is given twice; each must be different")
        found[name] = Limit(total=value) if per == "total" else Limit(value, per=per or "cost")
    return found


def _read(options: argparse.Namespace) -> Log | FullTable:
    """The log, or the table, in the file; the one place where files are read."""
    from tightrope.data.offpolicy import equally_likely
    from tightrope.data.tables import FullTable

    if options.uniform and options.propensity is not None:
        raise InputError("--uniform: must not come with --propensity, which says how likely")
    log = read_log(
        options.log,
        arm=options.arm,
        cost=options.cost,
        reward=options.reward,
        penalty=options.penalty,
        propensity=options.propensity,
    )
    if options.row is not None:
        if options.uniform or options.propensity is not None:
            raise InputError("--row: a table has every arm's outcome; must have no propensities")
        return FullTable.from_long(read_columns(options.log, [options.row])[options.row], log)
    return equally_likely(log) if options.uniform else log


def read_log(
    path: str,
    *,
    arm: str,
    cost: str,
    reward: str,
    penalty: Sequence[str],
    propensity: str | None,
) -> Log:
    """A log from the columns of a file; ``cost`` and ``reward`` may be a number for all rows."""
    import numpy as np

    from tightrope.data.log import Log

    wanted = [arm, cost, reward, *penalty, *([] if propensity is None else [propensity])]
    columns = read_columns(path, [name for name in wanted if not _is_number(name)])
    names = [str(name) for name in columns[arm]]
    arms = sorted(set(names))
    numbers = {name: k for k, name in enumerate(arms)}
    outcomes = [
        np.full(len(names), float(name))
        if name not in columns
        else _numbers(path, name, columns[name])
        for name in (cost, reward, *penalty)
    ]
    chances = None if propensity is None else _numbers(path, propensity, columns[propensity])
    chosen = np.array([numbers[name] for name in names], np.int64)
    return Log(tuple(arms), tuple(penalty), chosen, np.array(outcomes), chances)


def read_columns(path: str, names: Sequence[str]) -> dict[str, Sequence[Any]]:
    """Columns of a CSV or Parquet file by name, in the order of the lines."""
    import csv

    try:
        if path.endswith((".parquet", ".pq")):
            return _of_parquet(path, names)
        with open(path, encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            heads = next(lines, [])
            rows = [line for line in lines if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"log {path!r}: cannot be read: {error}") from error
    _require_columns(path, names, heads)
    for count, line in enumerate(rows, start=1):
        if len(line) != len(heads):
            raise InputError(
                f"log {path!r}, row {count}: {len(line)} cells; must be {len(heads)}, as named"
            )
    if not rows:
        raise InputError(f"log {path!r}: has no rows; at least one is needed")
    return {name: [line[heads.index(name)] for line in rows] for name in names}


def _of_parquet(path: str, names: Sequence[str]) -> dict[str, Sequence[Any]]:
    try:
        arrow: Any = import_module("pyarrow.parquet")
    except ImportError:
        raise InputError(f"log {path!r}: needs pyarrow; pip install pyarrow") from None
    try:
        _require_columns(path, names, arrow.read_schema(path).names)
        table = arrow.read_table(path, columns=list(names))
    except import_module("pyarrow").ArrowException as error:
        raise InputError(f"log {path!r}: cannot be read: {error}") from error
    return {name: table.column(name).to_pylist() for name in names}


def _require_columns(path: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise InputError(f"log {path!r}: has no column {name!r}; {nearest(name, known)}")


def _numbers(path: str, name: str, values: Sequence[Any]) -> Any:
    import numpy as np

    try:
        return np.array(values, np.float64)
    except (TypeError, ValueError):
        for count, value in enumerate(values, start=1):
            if not _is_number(value):
                text = f"log {path!r}, row {count}: {name} = {value!r}: must be a number"
                raise InputError(text) from None
        raise


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


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

    rows, arms = found.rows, list(data.arms)
    columns = {
        "policy": [row.policy for row in rows],
        "reward rate": [_estimate(row.reward_rate) for row in rows],
        "5 % to 95 %": [
            f"{row.reward_quantiles[0]:.4g} to {row.reward_quantiles[-1]:.4g}" for row in rows
        ],
    }
    for m, name in enumerate(rows[0].limit_names):
        columns[f"violation of {name}"] = [_estimate(row.violation[m], "+") for row in rows]
        columns[f"breaks {name}"] = [
            f"{row.broken[m][0]:.1%} ({row.broken[m][1]:.1%} to {row.broken[m][2]:.1%})"
            for row in rows
        ]
    columns["pulls"] = [f"{row.pulls:,.1f}" for row in rows]
    if not isinstance(data, FullTable):
        columns["rows used"] = [f"{row.rows_used:.1%}" for row in rows]
    columns["most pulled"] = [_most_pulled(arms, row.pull_share) for row in rows]
    orders = f"{rows[0].orders:,} orders of" if rows[0].orders > 1 else "one pass over"
    lines = [
        f"{orders} {found.count:,} rows, at a budget of {found.budget:,.6g}",
        "± is half of the 95 % interval over orders of these rows",
    ]
    _print_columns(columns, lines[: 1 + (rows[0].orders > 1)], left=("policy", "most pulled"))
    if found.remark:
        say(found.remark)


def _most_pulled(arms: Sequence[str], shares: Sequence[float]) -> str:
    first = sorted(range(len(arms)), key=lambda arm: -shares[arm])[:3]
    return ", ".join(f"{arms[arm]} {shares[arm]:.0%}" for arm in first if shares[arm] >= 0.005)


def _print_mixture(found: MixtureEstimates) -> None:
    methods = list(dict.fromkeys(row.method for row in found.rows))
    quantities = list(dict.fromkeys((row.of, row.per) for row in found.rows))
    columns = {"mixture": [f"{of} per {per}" for of, per in quantities]}
    for method in methods:
        columns[method] = [_estimate(found.value(of, per, method)) for of, per in quantities]
    shares = [(name, share) for name, share in found.shares.items()]
    shown = ", ".join(f"{name} {share:.3g}" for name, share in shares[:6])
    more = f" and {len(shares) - 6} more" if len(shares) > 6 else ""
    lines = [
        f"{shown}{more}; ± is half of the 95 % interval",
        f"{found.used:,} of {found.count:,} rows, effective sample size {found.effective:,.0f}",
    ]
    _print_columns(columns, lines[: 1 + (len(methods) > 1)], left=("mixture",))


def _print_columns(
    columns: Mapping[str, Sequence[str]], caption: Sequence[str], left: Sequence[str]
) -> None:
    from tightrope.names import in_table, in_text
    from tightrope.report.table import empty_table, print_table, verbatim

    table = empty_table()
    for heading in columns:
        justify: Any = "left" if heading in left else "right"
        table.add_column(verbatim(in_table(heading)), justify=justify, overflow="fold")
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*(verbatim(in_table(cell)) for cell in cells))
    table.caption = verbatim("\n".join(map(in_text, caption)))
    print_table(table)


def _estimate(value: Estimate, sign: str = "") -> str:
    """A number ± half of its interval, both with the decimals of the latter."""
    import math

    if value.error is None or not value.error > 0.0:
        return f"{value.mean:{sign}.5g}"
    decimals = min(12, max(0, 1 - math.floor(math.log10(value.reach))))
    return f"{value.mean:{sign}z,.{decimals}f} ± {value.reach:.{decimals}f}"


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
