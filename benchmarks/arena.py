"""The whole arena on a large machine: several processes, each with one policy at a time.

python -m benchmarks.arena --runs 2000 --processes 16 --out arena
python -m benchmarks.arena --docs arena      # puts its tables and figure into docs/

Work is divided by policy and by shape, the numbers of arms and of limits, because a kernel serves
all problems of a shape and compiling for a GPU takes longer than most runs. A GPU, if there is one,
takes the shapes that would keep a CPU busy for longer than that; NVIDIA's MPS lets the processes
share it (``nvidia-cuda-mps-control -d``). The same call goes on where an interrupted one stopped.
The results do not depend on the number of processes; the pages are those of ``tightrope arena``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pickle
import shutil
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import page
from tightrope.engine import gpu
from tightrope.engine.planning import plan_jobs
from tightrope.experiments import arena as contest
from tightrope.experiments.arena_ranking import judged, ranked
from tightrope.experiments.arena_report import write
from tightrope.experiments.arena_rows import ArenaRow
from tightrope.experiments.reproduction import make_folder

__all__ = ["copy_to_docs", "main", "policy_table", "standings_table"]

DOCS = Path(__file__).parents[1] / "docs"
STANDINGS, MINE, KEPT = "standings.md", "resolve.md", "rows.pickle"
OURS = ("resolve", "resolve:risk=0.01")
GPU_SECONDS = 5.0  # of a CPU: a GPU takes longer to compile a kernel, but not by much


class Unit(NamedTuple):
    """What one process does at a time."""

    policy: str
    problems: tuple[str, ...]  # of one shape
    seconds: float  # estimated, on one CPU


def units_of(matches: Iterable[contest.Match], runs: int) -> list[Unit]:
    """The work, the longest first."""

    def kind(match: contest.Match) -> tuple[str, int, int]:
        return match.label, len(match.scene.problem.arms), len(match.scene.problem.limits)

    found = []
    for (label, *_), grouped in groupby(sorted(matches, key=kind), kind):
        listed = list(grouped)
        names = dict.fromkeys(match.scene.name for match in listed)
        found.append(Unit(label, tuple(names), sum(_seconds(match, runs) for match in listed)))
    return sorted(found, key=lambda unit: -unit.seconds)


def _seconds(match: contest.Match, runs: int) -> float:
    """A rough estimate for one CPU."""
    problem, policies = match.scene.problem, {match.label: match.policy}
    jobs = plan_jobs(problem, policies, [match.cost_budget], runs, seed=0, backend="cpu")
    return sum(job.seconds for job in jobs.values()) * runs


def _take_core(cores: Any) -> None:
    """Keep this process to one core, so that processes do not wait for each other."""
    os.sched_setaffinity(0, {cores.get()})


def _run(unit: Unit, options: dict[str, Any]) -> tuple[Unit, list[ArenaRow], float]:
    """The unit's rows, and the seconds it took."""
    start = time.perf_counter()
    if options["backend"] == "auto":
        worth = unit.seconds > GPU_SECONDS and gpu.available()
        options = {**options, "backend": "gpu" if worth else "cpu"}
    found = contest.arena(unit.problems, [unit.policy], **options, progress=False)
    return unit, list(found.rows), time.perf_counter() - start


class Kept:
    """The rows made so far, in a file for a second call with the same options."""

    def __init__(self, path: Path, options: dict[str, Any]) -> None:
        self.path, self.options = path, options
        self.rows: dict[tuple[str, tuple[str, ...]], list[ArenaRow]] = {}
        if path.exists():
            same, rows = pickle.loads(path.read_bytes())
            self.rows = rows if same == options else {}

    def add(self, unit: Unit, rows: list[ArenaRow]) -> None:
        """Keep a unit's rows."""
        self.rows[unit.policy, unit.problems] = rows
        new = self.path.with_suffix(".new")
        new.write_bytes(pickle.dumps((self.options, self.rows)))
        new.replace(self.path)

    def __contains__(self, unit: Unit) -> bool:
        return (unit.policy, unit.problems) in self.rows


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
    named = contest.policies_of(asked.policy or contest.default_policies())
    forgetful = () if asked.policy else contest.forgetful_policies()
    scenes = contest.scenes_of(problems)
    matches, left_out = contest.matches_of(scenes, named, options["budgets"], forgetful)
    kept, units = Kept(folder / KEPT, options), units_of(matches, asked.runs)
    context, mine = multiprocessing.get_context("spawn"), sorted(os.sched_getaffinity(0))
    cores = context.Queue()
    for at in range(asked.processes):
        cores.put(mine[at % len(mine)])
    with ProcessPoolExecutor(asked.processes, context, _take_core, (cores,)) as pool:
        started = [pool.submit(_run, unit, options) for unit in units if unit not in kept]
        for done in as_completed(started):
            unit, rows, seconds = done.result()
            kept.add(unit, rows)
            told = f"{unit.policy} on {', '.join(unit.problems)}"
            print(f"{told}: {seconds:.0f} s, {len(kept.rows)} of {len(units)}", flush=True)
    print(f"{time.perf_counter() - start:.0f} s", flush=True)
    if asked.no_pages:
        return
    order, columns = list(scenes), list(named)
    rows = sorted(
        (row for unit in units for row in kept.rows[unit.policy, unit.problems]),
        key=lambda row: (order.index(row.problem), columns.index(row.policy), row.budget),
    )
    _write(folder, scenes, ranked(rows), left_out, asked.runs, asked.seed)


def _write(
    folder: Path,
    scenes: dict[str, contest.Scene],
    rows: Sequence[ArenaRow],
    left_out: Sequence[str],
    runs: int,
    seed: int,
) -> None:
    """The pages of the arena, and the tables of the documentation."""
    budget, facts = judged(rows, contest.VERDICT), contest.facts_of(rows, runs, seed)
    write(folder, rows, scenes, facts, budget, left_out)
    (folder / STANDINGS).write_text("\n".join(standings_table(rows, budget)) + "\n")
    (folder / MINE).write_text("\n".join(policy_table(rows, *OURS)) + "\n")


if __name__ == "__main__":
    main()
