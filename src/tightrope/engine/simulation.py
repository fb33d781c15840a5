"""``simulate``: every policy at every budget, on the backend that suits it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext

import numpy as np

from tightrope.compiled import announced
from tightrope.engine import cpu, python
from tightrope.engine.asked import (
    budget_list,
    named_policies,
    one_of,
    run_numbers,
    seed_number,
    thread_count,
)
from tightrope.engine.backend import Numbers, Plan
from tightrope.engine.caveats import warn_outside_theory
from tightrope.engine.pool import Chunk, Finished, Work, cut, run_chunks
from tightrope.engine.progress import Progress, reporting
from tightrope.errors import BackendError
from tightrope.policies.base import IndexPolicy, Policy
from tightrope.problem import Problem
from tightrope.results import Record, Results, Runs
from tightrope.version import __version__

__all__ = ["simulate"]

BACKENDS = ("auto", "cpu", "python")
PRECISIONS = ("auto", "single", "double")


def simulate(
    problem: Problem,
    policies: Policy | Iterable[Policy] | Mapping[str, Policy],
    *,
    budgets: float | Iterable[float],
    runs: int | range = 1000,
    seed: int = 0,
    backend: str = "auto",
    progress: Progress = None,
    threads: int | None = None,
    precision: str = "auto",
) -> Results:
    """Run every policy ``runs`` times at every budget.

    ``budgets`` are in the problem's cost units. ``runs`` is a number, or a range of run numbers:
    a run depends on ``seed`` and its number alone, so parts made apart merge to the same bits.
    ``backend``: ``"cpu"`` compiles the policies; ``"python"`` runs their ``decide``, slowly, and is
    what ``"auto"`` takes for a policy that has no compilable functions. ``threads`` defaults to the
    processors at hand. ``precision``: ``"auto"`` counts in single precision where outcomes are 0
    or 1 and every count is exact, otherwise in double. ``progress``: a function of the fraction
    done, True, False, or None for a bar on a terminal.

    Ctrl-C returns the runs that are finished, ``complete=False``; with none it is raised again.
    """
    named, numbers = named_policies(policies), run_numbers(runs)
    checked, workers = budget_list(budgets), thread_count(threads)
    plans = _Planner(problem, seed_number(seed), backend, precision)
    work = [Work(label, b, plans(policy, b)) for label, policy in named.items() for b in checked]
    warn_outside_theory({(one.label, one.budget): one.plan.setup.warning for one in work})
    compile_seconds = _compile(work, progress)
    chunks = cut(numbers, work)
    start = time.perf_counter()
    with reporting(progress, sum(chunk.weight for chunk in chunks), "simulating") as tell:
        done = run_chunks(chunks, workers, tell)
    elapsed = time.perf_counter() - start
    kept = _finished_runs(numbers, chunks, done)
    if not len(kept):
        raise KeyboardInterrupt
    return Results(
        problem=problem,
        budgets=tuple(checked),
        seed=seed,
        run_numbers=kept,
        records=tuple(_records(work, chunks, done, kept, elapsed, compile_seconds)),
        version=__version__,
        complete=len(kept) == len(numbers),
    )


class _Planner:
    """Which backend runs a policy: the one asked for, or the fastest that can."""

    def __init__(self, problem: Problem, seed: int, backend: str, precision: str) -> None:
        self._problem, self._seed = problem, seed
        self._backend = one_of("backend", backend, BACKENDS)
        self._precision = one_of("precision", precision, PRECISIONS)

    def __call__(self, policy: Policy, budget: float) -> Plan:
        scaled = budget / self._problem.scales.cost
        setup = policy.setup(self._problem, scaled)
        if self._backend != "python" and isinstance(policy, IndexPolicy):
            return cpu.plan_lanes(self._problem, policy, setup, scaled, self._seed, self._precision)
        if self._backend == "cpu":
            raise BackendError(f"policy {policy.label!r} cannot be compiled; use backend 'python'")
        return python.Plan(self._problem, policy, setup, scaled, self._seed)


def _compile(work: Sequence[Work], progress: Progress) -> dict[str, float]:
    """Compile what is not compiled yet; seconds by policy."""
    seconds = dict.fromkeys((one.label for one in work), 0.0)
    with nullcontext() if progress is False else announced():
        for one in work:
            seconds[one.label] += one.plan.compile()
    return seconds


def _finished_runs(numbers: Numbers, chunks: Sequence[Chunk], done: Finished) -> Numbers:
    """The runs that every policy finished at every budget."""
    missing = [chunk.runs for at, chunk in enumerate(chunks) if at not in done]
    return np.setdiff1d(numbers, np.concatenate(missing)) if missing else numbers


def _records(
    work: Sequence[Work],
    chunks: Sequence[Chunk],
    done: Finished,
    kept: Numbers,
    elapsed: float,
    compile_seconds: Mapping[str, float],
) -> Iterable[Record]:
    """The kept runs of each policy, and each budget's share of the elapsed time."""
    busy = sum(seconds for _, seconds in done.values())
    parts: dict[Work, list[Runs]] = {one: [] for one in work}
    seconds = dict.fromkeys(work, 0.0)
    for at, (runs, spent) in sorted(done.items()):
        chunk = chunks[at]
        whole = len(done) == len(chunks)
        parts[chunk.work].append(runs if whole else runs[np.isin(chunk.runs, kept)])
        seconds[chunk.work] += spent * elapsed / busy
    for label, taken in compile_seconds.items():
        mine = [one for one in work if one.label == label]
        yield Record(
            label=label,
            runs=Runs.stack([Runs.join(parts[one], axis=0) for one in mine]),
            seconds=tuple(seconds[one] for one in mine),
            compile_seconds=taken,
            backend=mine[0].plan.backend,
        )
