"""``tightrope replay``: policies over recorded rows, and what mixtures of the arms would earn."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any

import tightrope
from tightrope.errors import InputError
from tightrope.shell.commands import Argument
from tightrope.shell.fitting import limits_of, number_or_column
from tightrope.shell.named import by_name
from tightrope.shell.options import Json, PolicyNames
from tightrope.shell.saying import print_json, say

if TYPE_CHECKING:
    from tightrope.data.offpolicy import MixtureEstimates
    from tightrope.data.replays import Replay
    from tightrope.statistics import Estimate

Column = Annotated[str | float, Argument("COLUMN|NUMBER", "of a pull", read=number_or_column)]


def replay(
    log: str,
    *,
    json: Json = False,
    arm: str,
    cost: Column,
    reward: Column,
    penalty: Sequence[str] = (),
    propensity: str | None = None,
    uniform: bool = False,
    drop_missing: bool = False,
    row: str | None = None,
    limit: Sequence[str] = (),
    policy: PolicyNames = (),
    budget: float | None = None,
    mixture: Sequence[str] = (),
    orders: int = 100,
    with_replacement: bool = False,
    method: str = "rejection",
    least: float = 50.0,
    seed: int = 0,
) -> int:
    r"""Let policies decide over the rows of a log, or estimate mixtures of its arms.
    LOG is a CSV or Parquet file with a line per pull. With --row it is a table:
    a line for every row and arm, so that every arm's outcome is known.

      tightrope replay log.csv --arm model --cost usd --reward score \
          --penalty bad --limit bad=0.05/pull --propensity chance \
          --policy resolve --policy lyon --budget 50 \
          --mixture haiku=0.3,sonnet=0.7

    log: a CSV or Parquet file
    arm COLUMN: which arm was pulled
    cost: of a pull; a number is for all
    penalty COLUMN:
    propensity COLUMN: how likely the logged choice was, in (0, 1]
    uniform: every arm was equally likely
    drop_missing: leave out lines with a missing value
    row COLUMN: LOG is a table: a line for every row and arm; names rows
    limit NAME=X[/PER]: on a penalty, per cost (default), pull or reward, or in total
    budget B: of the policies, in units of cost
    mixture ARM=SHARE,...: shares of the pulls, which sum to 1
    orders: shuffles of the rows; 0 takes them as they are
    with_replacement: draw rows, as a simulation does
    method NAME: rejection (default) or queues
    least N: the smallest effective sample size of a mixture
    """
    from tightrope.data.offpolicy import evaluate_mixture

    mixtures = [by_name(one.split(","), "--mixture") for one in mixture]
    limits = limits_of(limit)
    if not policy and not mixtures:
        raise InputError("replay: nothing to do; must have --policy with --budget, or --mixture")
    if policy and budget is None:
        raise InputError("--budget: is missing; must be given with --policy, in units of cost")
    _require_one_way(row, propensity, uniform, drop_missing)
    columns = {"arm": arm, "cost": cost, "reward": reward, "penalty": penalty}
    data = _read(log, columns, row, propensity, uniform, drop_missing)
    estimates = [evaluate_mixture(data, one, least=least) for one in mixtures]
    found = None
    if policy and budget is not None:
        with redirect_stdout(sys.stderr):  # a user's policy may print
            found = tightrope.replay(
                data,
                limits,
                policy,
                budget=budget,
                orders=orders,
                seed=seed,
                method=method,
                with_replacement=with_replacement,
            )
    if json:
        print_json(_described(data, found, estimates))
        return 0
    if found is not None:
        _print_replay(data, found)
    for one in estimates:
        _print_mixture(one)
    return 0


def _require_one_way(
    row: str | None, propensity: str | None, uniform: bool, drop_missing: bool
) -> None:
    """Raise if options contradict each other on what the log is."""
    if uniform and propensity is not None:
        raise InputError("--uniform: must not come with --propensity, which says how likely")
    if row is not None and (uniform or propensity is not None):
        raise InputError("--row: a table has every arm's outcome; must have no propensities")
    if row is not None and drop_missing:
        raise InputError("--drop-missing: must not come with --row; a table has no gaps")


def _read(
    path: str,
    columns: Mapping[str, Any],
    row: str | None,
    propensity: str | None,
    uniform: bool,
    drop_missing: bool,
) -> tightrope.Log | tightrope.FullTable:
    """The log, or the table, in the file."""
    import numpy as np

    from tightrope.data.offpolicy import equally_likely

    log = tightrope.read_log(path, **columns, propensity=propensity, drop_missing=drop_missing)
    if row is not None:
        rows = tightrope.read_log(path, arm=row, cost=0, reward=0)
        return tightrope.FullTable.from_long(np.array(rows.arms)[rows.chosen], log)
    return equally_likely(log) if uniform else log


# What is printed.


def _described(
    data: tightrope.Log | tightrope.FullTable,
    found: Replay | None,
    estimates: Sequence[MixtureEstimates],
) -> dict[str, Any]:

    return {
        "data": {
            "kind": "table" if isinstance(data, tightrope.FullTable) else "log",
            "rows": len(data),
            "arms": list(data.arms),
            "penalties": list(data.penalties),
        },
        "budget": None if found is None else found.budget,
        "planned_budget": None if found is None else found.planned,
        "policies": [] if found is None else found.summary(),
        "mixtures": [one.summary() for one in estimates],
    }


def _print_replay(data: tightrope.Log | tightrope.FullTable, found: Replay) -> None:
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
    if not isinstance(data, tightrope.FullTable):
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
