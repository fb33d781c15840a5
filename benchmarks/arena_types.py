"""What types of requests are worth: policies on the arena's problems with types.

python -m benchmarks.arena_types --runs 2000 > docs/data/arena-types.csv
python -m benchmarks.charts arena-types.png

Prints a row of CSV for each policy: whether it uses types, and for each problem the regret in
percent of OPT(B), in one of two columns, by whether the policy is within the limit; then the mean
violation in percent of the limit, and the percentage of runs that break it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from benchmarks.rows import print_rows
from tightrope import arena
from tightrope.arena.ranking import standings
from tightrope.arena.rows import ArenaRow
from tightrope.arena.typed_problems import ALL_TYPED, LISTED

__all__ = ["main"]

BUDGET = 1000.0  # in largest costs of one pull
POLICIES = (
    "resolve",
    "resolve:risk=0.01",
    "ucb-alp",
    "pgd-prices",
    "lyon",
    "lyoff",
    "ts-lp:update=true",
    "pessimistic-optimistic",
    "lyon-ts",
    "ucb-lp:epsilon=published",
)


def lines(rows: Sequence[ArenaRow]) -> Iterator[dict[str, object]]:
    """A row for each policy, in the order of the standings; those that know the means come last."""
    for one in standings(rows, BUDGET):
        mine = {row.problem: row for row in rows if row.policy == one.policy}
        found: dict[str, object] = {
            "policy": one.policy,
            "types": one.types,
            "runs": min(row.runs for row in mine.values()),
            "within": one.keeps,
        }
        for name in LISTED:
            found |= _figures(name.removeprefix(f"{ALL_TYPED}-"), mine[name])
        yield found


def _figures(problem: str, row: ArenaRow) -> dict[str, object]:
    regret = None if row.regret_share is None else 100.0 * row.regret_share
    return {
        f"{problem} regret within": regret if row.keeps else None,
        f"{problem} regret beyond": None if row.keeps else regret,
        f"{problem} violation": 100.0 * row.violation_share,
        f"{problem} broken": 100.0 * row.broken,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the policies and print their rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--policy", action="append", default=[], help="default: ten of them")
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", help="a folder for arena.html; an interrupted call continues")
    asked = parser.parse_args(arguments)
    found = arena(
        [ALL_TYPED],
        asked.policy or POLICIES,
        [BUDGET],
        runs=asked.runs,
        seed=asked.seed,
        out=asked.out,
    )
    print_rows(lines(found.rows))


if __name__ == "__main__":
    main()
