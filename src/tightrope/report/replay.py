"""What a replay found: as JSON has it, and as tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tightrope.data.log import Log, types_of
from tightrope.data.offpolicy import MixtureEstimates
from tightrope.data.replays import Replay
from tightrope.data.tables import FullTable
from tightrope.formats import number, odds, with_reach
from tightrope.report.model import Column, Table, names, print_table
from tightrope.report.tones import ORDER, breaking, estimate_tone, limits_tone, red
from tightrope.statistics import Estimate


def describe_replay(
    data: Log | FullTable,
    found: Replay | None,
    estimates: Sequence[MixtureEstimates],
) -> dict[str, Any]:
    """What a replay found, as JSON has it."""
    return {
        "data": {
            "kind": "table" if isinstance(data, FullTable) else "log",
            "rows": len(data),
            "arms": list(data.arms),
            "penalties": list(data.penalties),
            **({"types": list(types)} if (types := types_of(data)) else {}),
            **({"features": list(data.features)} if data.features else {}),
        },
        "budget": None if found is None else found.budget,
        "planned_budget": None if found is None else found.planned,
        "policies": [] if found is None else found.summary(),
        "mixtures": [one.summary() for one in estimates],
    }


def print_replay(
    data: Log | FullTable, found: Replay | None, estimates: Sequence[MixtureEstimates]
) -> None:
    """Print a table of the policies, and one of each mixture."""
    for table in [*([] if found is None else [_policies(data, found)]), *map(_mixture, estimates)]:
        print_table(table)


def _policies(data: Log | FullTable, found: Replay) -> Table:
    rows = sorted(found.rows, key=lambda row: ORDER.index(limits_tone(row.violation)))
    kept = [limits_tone(row.violation) for row in rows]
    spread = [(row.reward_quantiles[0], row.reward_quantiles[-1]) for row in rows]
    columns = [
        names("policy", [row.policy for row in rows], tones=red(kept)),
        Column("reward rate", [row.reward_rate for row in rows], _estimate),
        Column("5 % to 95 %", [f"{number(low)} to {number(high)}" for low, high in spread]),
    ]
    for m, name in enumerate(rows[0].limit_names):
        violations, broken = [row.violation[m] for row in rows], [row.broken[m] for row in rows]
        tones = list(map(estimate_tone, violations))
        shown = partial(_estimate, sign="+")
        columns.append(Column(f"violation of {name}", violations, shown, tones=tones))
        columns.append(Column(f"breaks {name}", broken, lambda one: odds(*one)))
    columns.append(Column("pulls", [row.pulls for row in rows], "{:,.1f}".format))
    if not isinstance(data, FullTable):
        used = [f"{row.rows_used:,.0f} of {row.rows_passed:,.0f}" for row in rows]
        columns.append(Column("rows used", used))
    most = [most_pulled(data.arms, row.pull_share) for row in rows]
    columns.append(names("most pulled", most))
    orders = f"{rows[0].orders:,} orders of" if rows[0].orders > 1 else "one pass over"
    notes = [
        f"{orders} {found.count:,} rows, at a budget of {number(found.budget, 6)}",
        "± is half of the 95 % interval over orders of these rows",
    ]
    above = breaking([row.policy for row in rows], kept)
    return Table(columns, notes=[*notes[: 1 + (rows[0].orders > 1)], *above])


def most_pulled(arms: Sequence[str], shares: Sequence[float]) -> str:
    """The three arms with the largest shares of the pulls.

    >>> most_pulled(["a", "b"], [0.3, 0.7])
    'b 70%, a 30%'
    """
    first = sorted(range(len(arms)), key=lambda arm: -shares[arm])[:3]
    return ", ".join(f"{arms[arm]} {shares[arm]:.0%}" for arm in first if shares[arm] >= 0.005)


def _mixture(found: MixtureEstimates) -> Table:
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
    return Table(columns, notes=notes[: 1 + (len(methods) > 1)])


def _estimate(value: Estimate, sign: str = "") -> str:
    return with_reach(value.mean, value.reach, sign)
