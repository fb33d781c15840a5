"""The whole arena on a large machine: one problem after the other in several processes.

python -m benchmarks.arena --runs 2000 --processes 12 --out arena

Each process compiles the policies for its problem, which takes longer than the runs on a GPU; the
results do not depend on the number of processes. The pages are those of ``tightrope arena``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from tightrope.experiments import arena as contest
from tightrope.experiments.arena_ranking import judged, ranked
from tightrope.experiments.arena_report import write
from tightrope.experiments.arena_rows import ArenaRow
from tightrope.experiments.reproduction import make_folder

__all__ = ["main"]


def _run(
    problem: str,
    policies: Sequence[str],
    budgets: Sequence[float],
    runs: int,
    seed: int,
    backend: str,
) -> tuple[str, list[ArenaRow], list[str], float]:
    """One problem's rows, who could not take part, and the seconds it took."""
    start = time.perf_counter()
    found = contest.arena(
        [problem], policies, budgets, runs=runs, seed=seed, backend=backend, progress=False
    )
    return problem, list(found.rows), list(found.left_out), time.perf_counter() - start


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
    parser.add_argument("--out", required=True, help="a folder for arena.html and its files")
    asked = parser.parse_args(arguments)
    problems, start = asked.problem or list(contest.PROBLEMS), time.perf_counter()
    policies, budgets = asked.policy or (), asked.budget or list(contest.BUDGETS)
    rows: dict[str, list[ArenaRow]] = {}
    left_out: dict[str, list[str]] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(asked.processes, mp_context=context) as pool:
        started = [
            pool.submit(_run, problem, policies, budgets, asked.runs, asked.seed, asked.backend)
            for problem in problems
        ]
        for done in as_completed(started):
            problem, found, told, seconds = done.result()
            rows[problem], left_out[problem] = found, told
            print(f"{problem}: {seconds:.0f} s, {len(rows)} of {len(problems)}", flush=True)
    listed = ranked([row for problem in problems for row in rows[problem]])
    told = [sentence for problem in problems for sentence in left_out[problem]]
    scenes, facts = contest.scenes_of(problems), contest.facts_of(listed, asked.runs, asked.seed)
    write(make_folder(asked.out), listed, scenes, facts, judged(listed, contest.VERDICT), told)
    print(f"{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
