"""The arena on a large machine, and its numbers for the documentation.

python -m benchmarks.arena --runs 2000 --out arena
python -m benchmarks.arena --docs arena      # puts its numbers and chart into docs/

The runs and the pages are those of ``tightrope arena``, which uses a GPU, if there is one, for
work that would keep all CPUs busy for more than a few seconds. The same call continues where an
interrupted one stopped.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import charts
from tightrope import arena
from tightrope.arena.contest import BUDGETS
from tightrope.arena.ranking import Standing, standings
from tightrope.arena.rows import ArenaRow

__all__ = ["copy_to_docs", "main", "policy_lines", "problem_lines"]

DOCS = Path(__file__).parents[1] / "docs"
POLICIES, PROBLEMS = "arena-policies.csv", "arena-by-problem.csv"
MOST = 6  # policies whose numbers go into the documentation


def copy_to_docs(folder: Path, docs: Path) -> None:
    """Put the numbers of an arena into the documentation, and draw its chart."""
    for name in (POLICIES, PROBLEMS):
        shutil.copyfile(folder / name, docs / "data" / name)
    charts.draw("arena.png")


def policy_lines(rows: Sequence[ArenaRow]) -> list[list[str]]:
    """A line for each budget and policy, over all problems; the best come first."""
    head = "budget policy problems within first median_regret_percent broken_percent runs".split()
    runs = {(row.budget, row.policy): f"{row.runs}" for row in rows}
    ranked = [(budget, one) for budget in budgets(rows) for one in ranked_policies(rows, budget)]
    return [head, *([f"{at:g}", *_cells(one), runs[at, one.policy]] for at, one in ranked)]


def budgets(rows: Sequence[ArenaRow]) -> list[float]:
    """The budgets, from the smallest on."""
    return sorted({row.budget for row in rows})


def ranked_policies(rows: Sequence[ArenaRow], budget: float) -> list[Standing]:
    """The standings without the policies that know the distributions."""
    return [one for one in standings(rows, budget) if not one.knows_means]


def _cells(one: Standing) -> list[str]:
    counts = [f"{one.problems}", f"{one.keeps}", f"{one.first}"]
    return [one.policy, *counts, _percent(one.regret_share), _percent(one.broken)]


def problem_lines(rows: Sequence[ArenaRow]) -> list[list[str]]:
    """A line for each budget, problem and each of the best policies."""
    found = ["budget problem policy runs rank limit regret_percent violation_percent broken_percent"
             " broken_far_percent".split()]  # fmt: skip
    for budget in budgets(rows):
        best = [one.policy for one in ranked_policies(rows, budget)[:MOST]]
        for row in rows:
            if row.budget == budget and row.policy in best:
                shares = (row.regret_share, row.violation_share, row.broken, row.broken_far)
                place = [row.problem, row.policy, f"{row.runs}", f"{row.rank}", row.kept]
                found.append([f"{budget:g}", *place, *map(_percent, shares)])
    return found


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100.0 * share:.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the arena and write its pages."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problem", action="append", default=[], help="(all of the arena's)")
    parser.add_argument("--policy", action="append", default=[], help="(all of the arena's)")
    parser.add_argument("--budget", action="append", default=[], type=float, help="(the arena's)")
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", "--processes", type=int, help="(all processors)")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--out", help="a folder for arena.html and its files")
    parser.add_argument("--docs", help="such a folder: copy its numbers to docs/, draw the chart")
    asked = parser.parse_args(arguments)
    if asked.docs:
        copy_to_docs(Path(asked.docs), DOCS)
    if not asked.out:
        return
    start, folder = time.perf_counter(), Path(asked.out)
    found = arena(
        asked.problem,
        asked.policy,
        asked.budget or BUDGETS,  # named, so that very long runs are made too
        runs=asked.runs,
        seed=asked.seed,
        out=folder,
        backend=asked.backend,
        threads=asked.threads,
    )
    for name, lines in ((POLICIES, policy_lines), (PROBLEMS, problem_lines)):
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(lines(found.rows))
    print(f"{time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
