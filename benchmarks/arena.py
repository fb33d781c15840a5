"""The whole arena on a large machine: several processes, each with one policy at a time.

python -m benchmarks.arena --runs 2000 --processes 12 --out arena
python -m benchmarks.arena --docs arena      # puts its tables and figure into docs/

Compiling takes longer than runs on a GPU, and a policy's kernels serve all problems with as many
arms and limits. The results do not depend on the number of processes; the pages are those of
``tightrope arena``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pickle
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks import page
from tightrope.experiments import arena as contest
from tightrope.experiments.arena_ranking import judged, ranked
from tightrope.experiments.arena_report import write
from tightrope.experiments.arena_rows import ArenaRow
from tightrope.experiments.reproduction import make_folder
from tightrope.problem.ready import load_problem

__all__ = ["copy_to_docs", "main", "policy_table", "standings_table"]

DOCS = Path(__file__).parents[1] / "docs"
STANDINGS, MINE, KEPT = "standings.md", "resolve.md", "rows"
OURS = ("resolve", "resolve:risk=0.01")


Found = tuple[list[ArenaRow], list[str]]  # a policy's rows, and where it could not take part


def _run(
    kept: Path, policy: str, problems: tuple[str, ...], options: dict[str, Any], core: int
) -> tuple[str, Found, float]:
    """One policy's rows, kept in a file for a second call, and the seconds it took."""
    os.sched_setaffinity(0, {core})  # one thread, so that processes do not wait for each other
    start = time.perf_counter()
    arena = contest.arena(problems, [policy], **options, progress=False)
    found = list(arena.rows), list(arena.left_out)
    new = kept.with_suffix(".new")
    new.write_bytes(pickle.dumps((problems, options, found)))
    new.replace(kept)
    return policy, found, time.perf_counter() - start


def _kept(kept: Path, problems: tuple[str, ...], options: dict[str, Any]) -> Found | None:
    """What an earlier call with the same problems and options found."""
    if not kept.exists():
        return None
    *same, found = pickle.loads(kept.read_bytes())
    return found if same == [problems, options] else None


def _entries(problems: Sequence[str], policies: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The problems of every policy; those that forget enter only where the arms change."""
    changing = tuple(name for name in problems if load_problem(name).changes)
    listed = policies or contest.default_policies()
    forgetful = () if policies else contest.forgetful_policies()
    found = {policy: changing if policy in forgetful else tuple(problems) for policy in listed}
    return {policy: names for policy, names in found.items() if names}


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
    parser.add_argument("--problem", action="append", help="a problem (all of the arena's)")
    parser.add_argument("--policy", action="append", help="a policy (all of the arena's)")
    parser.add_argument("--budget", action="append", type=float, help="in largest costs of a pull")
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--out", help="a folder for arena.html and its files")
    parser.add_argument("--no-pages", action="store_true", help="only make the runs, and keep them")
    parser.add_argument("--docs", help="such a folder: copy its tables and figure to docs/")
    asked = parser.parse_args(arguments)
    if asked.docs:
        copy_to_docs(Path(asked.docs), DOCS)
    if not asked.out:
        return
    problems, start = asked.problem or list(contest.PROBLEMS), time.perf_counter()
    options = {
        "budgets": tuple(asked.budget or contest.BUDGETS),
        "runs": asked.runs,
        "seed": asked.seed,
        "backend": asked.backend,
    }
    folder = make_folder(asked.out)
    (folder / KEPT).mkdir(exist_ok=True)
    entries = _entries(problems, asked.policy or ())
    places = {name: folder / KEPT / f"{number}.pickle" for number, name in enumerate(entries)}
    made = {name: _kept(places[name], entries[name], options) for name in entries}
    found = {name: one for name, one in made.items() if one is not None}
    cores, context = sorted(os.sched_getaffinity(0)), multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(asked.processes, mp_context=context) as pool:
        started = [
            pool.submit(_run, places[name], name, names, options, cores[at % len(cores)])
            for at, (name, names) in enumerate(entries.items())
            if name not in found
        ]
        for done in as_completed(started):
            name, found[name], seconds = done.result()
            print(f"{name}: {seconds:.0f} s, {len(found)} of {len(entries)}", flush=True)
    print(f"{time.perf_counter() - start:.0f} s", flush=True)
    if not asked.no_pages:
        _write(folder, problems, [found[name] for name in entries], asked.runs, asked.seed)


def _write(
    folder: Path, problems: Sequence[str], found: Sequence[Found], runs: int, seed: int
) -> None:
    """The pages of the arena, and the tables of the documentation."""
    listed = [row for rows, _ in found for row in rows]
    rows = ranked(sorted(listed, key=lambda row: problems.index(row.problem)))
    told = [sentence for _, sentences in found for sentence in sentences]
    budget = judged(rows, contest.VERDICT)
    scenes, facts = contest.scenes_of(problems), contest.facts_of(rows, runs, seed)
    write(folder, rows, scenes, facts, budget, told)
    (folder / STANDINGS).write_text("\n".join(standings_table(rows, budget)) + "\n")
    (folder / MINE).write_text("\n".join(policy_table(rows, *OURS)) + "\n")


if __name__ == "__main__":
    main()
