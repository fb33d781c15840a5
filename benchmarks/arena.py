"""The whole arena on a large machine, and its tables for the documentation.

python -m benchmarks.arena --runs 2000 --out arena
python -m benchmarks.arena --docs arena      # puts its tables and figure into docs/

The runs and the pages are those of ``tightrope arena``, which takes a GPU, if there is one, for
what would keep all CPUs busy for more than a few seconds. The same call goes on where an
interrupted one stopped.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import page
from tightrope import arena
from tightrope.arena.contest import BUDGETS
from tightrope.arena.rows import ArenaRow

__all__ = ["copy_to_docs", "main", "policy_table", "standings_table"]

DOCS = Path(__file__).parents[1] / "docs"
STANDINGS, MINE = "standings.md", "resolve.md"
OURS = ("resolve", "resolve:risk=0.01")


def copy_to_docs(folder: Path, docs: Path) -> None:
    """Put the tables and the figure of an arena into the documentation."""
    page.write({"standings": (folder / STANDINGS).read_text()}, docs / "arena.md")
    page.write({"arena": (folder / MINE).read_text()}, docs / "resolve.md")
    shutil.copyfile(folder / "arena.png", docs / "arena.png")


def standings_table(rows: Sequence[ArenaRow], budget: float) -> list[str]:
    """Markdown for docs/arena.md: one line per problem, at one budget."""
    found = [
        "| problem | resolve | broken, far | with risk=0.01 | broken, far | first of the others |",
        "|---|---|---|---|---|---|",
    ]
    here = [row for row in rows if row.budget == budget and not row.knows_means]
    for problem in dict.fromkeys(row.problem for row in here):
        mine = [row for row in here if row.problem == problem]
        ours = {row.policy: row for row in mine if row.policy.startswith("resolve")}
        others = [row for row in mine if row.policy not in ours and row.keeps]
        first = f"`{others[0].policy}` {_regret(others[0])}" if others else "none keeps the limit"
        told = [
            f"{_regret(ours[label])}{_standing(ours[label])} | {_broken(ours[label])}"
            for label in OURS
            if label in ours
        ]
        found.append(f"| `{problem}` | {' | '.join(told)} | {first} |")
    return found


def policy_table(rows: Sequence[ArenaRow], *labels: str) -> list[str]:
    """Markdown for docs/resolve.md: one line per problem and budget."""
    head = " | ".join(f"{label}: regret | violation | broken, far" for label in labels)
    found = [f"| problem | B | {head} |", "|---|---|" + "---|" * (3 * len(labels))]
    for problem, budget in dict.fromkeys((row.problem, row.budget) for row in rows):
        here = {row.policy: row for row in rows if (row.problem, row.budget) == (problem, budget)}
        if not set(labels) <= set(here):
            continue
        told = [
            f"{_regret(here[label])} | {1000.0 * here[label].violation_share:+.2f}"
            f" | {_broken(here[label])}"
            for label in labels
        ]
        found.append(f"| `{problem}` | {budget:,g} | {' | '.join(told)} |")
    return found


def _regret(row: ArenaRow) -> str:
    if row.regret_share is None or row.optimum is None:
        return "–"
    error = 100.0 * (row.earned_se or 0.0) / row.optimum
    return f"{100.0 * row.regret_share:.2f} ± {error:.2f} %"


def _broken(row: ArenaRow) -> str:
    return f"{row.broken:.1%}, {row.broken_far:.1%}"


def _standing(row: ArenaRow) -> str:
    return "" if row.keeps else f" ({row.kept})"


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
    parser.add_argument("--docs", help="such a folder: copy its tables and figure to docs/")
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
    (folder / STANDINGS).write_text("\n".join(standings_table(found.rows, found.budget)) + "\n")
    (folder / MINE).write_text("\n".join(policy_table(found.rows, *OURS)) + "\n")
    print(f"{time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
