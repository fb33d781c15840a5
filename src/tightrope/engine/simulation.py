"""``simulate``: every policy at every budget, on the backend that suits it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

from tightrope.compiled import announced
from tightrope.engine import cluster
from tightrope.engine.arguments import (
    budget_list,
    bytes_of_a_run,
    cluster_address,
    named_policies,
    require_problem,
    run_numbers,
    seed_number,
    thread_count,
)
from tightrope.engine.backend import Numbers
from tightrope.engine.caveats import warn_infeasible, warn_outside_theory
from tightrope.engine.checkpoint import Checkpoint
from tightrope.engine.identity import facts
from tightrope.engine.planning import is_clustered, plan_jobs
from tightrope.engine.pool import Runner, Work, cut, run_chunks
from tightrope.engine.progress import Progress
from tightrope.engine.sweep import Sweep
from tightrope.errors import InputError
from tightrope.policies.base import Policy
from tightrope.problem import Problem
from tightrope.results import Record, Results, Runs
from tightrope.version import __version__

__all__ = ["simulate"]


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
    address: str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
) -> Results:
    """Run every policy ``runs`` times at every budget.

    ``budgets`` are in the problem's cost units. ``runs`` is a number, or a range of run numbers:
    a run depends on ``seed`` and its number alone, so parts made apart merge to the same bits.
    ``threads`` defaults to the processors at hand; on a cluster that is joined it limits the
    tasks at once. ``precision``: ``"auto"`` counts in single precision where outcomes are 0 or 1
    and every count is exact, otherwise in double. ``progress``: a function of the fraction done,
    True, False, or None for a bar on a terminal.

    ``backend``: ``"cpu"`` compiles the policies; ``"gpu"`` too, for an NVIDIA device, with the
    same draws and results that agree in law; ``"python"`` runs them as they stand, slowly;
    ``"auto"`` takes Python for a policy that cannot be compiled, and a GPU if there is one and the
    processors would take more than some seconds; ``"ray"`` goes to a Ray cluster's processors,
    the cluster at ``address`` or ``RAY_ADDRESS`` or else one made here for the time being;
    ``"ray:gpu"`` to its GPUs.

    ``checkpoint`` names a folder for finished runs, written every couple of seconds: the same call
    with ``resume=True`` goes on from there after a kill, to the same bits. Without ``resume`` the
    folder must not hold a checkpoint yet.

    Ctrl-C returns the runs that are finished, ``complete=False``; with none it is raised again.
    """
    problem, named = require_problem(problem), named_policies(policies)
    checked, workers = budget_list(budgets, problem), thread_count(threads)
    numbers = run_numbers(runs, bytes_of_a_run(problem, len(named), len(checked), backend))
    seed = seed_number(seed)
    where = cluster_address(address, is_clustered(backend))
    with _compiling(progress):
        jobs = plan_jobs(
            problem,
            named,
            checked,
            len(numbers),
            seed=seed,
            backend=backend,
            precision=precision,
        )
    work = [
        Work(label, budget, job, backend if is_clustered(backend) else job.engine)
        for (label, budget), job in jobs.items()
    ]
    warn_infeasible(problem)
    warn_outside_theory({(one.label, one.budget): one.job.setup.warning for one in work})
    if resume and checkpoint is None:
        raise InputError("resume = True: there must be a checkpoint, a folder, to resume from")
    store = (
        None if checkpoint is None else Checkpoint.open(checkpoint, _known(work, numbers), resume)
    )
    sweep = Sweep(work, cut(numbers, work), store)
    compile_seconds = dict.fromkeys(named, 0.0)
    if sweep.todo:
        with _runner(is_clustered(backend), where, workers, threads) as runner:
            _compile(sweep, compile_seconds, progress)
            sweep.run(runner, progress)
    kept = sweep.finished_runs(numbers)
    if not len(kept):
        raise KeyboardInterrupt
    return Results(
        problem=problem,
        budgets=tuple(checked),
        seed=seed,
        run_numbers=kept,
        records=tuple(_records(sweep, kept, compile_seconds)),
        version=__version__,
        complete=len(kept) == len(numbers),
    )


def _known(work: Sequence[Work], numbers: Numbers) -> dict[str, object]:
    """What a checkpoint is of, in the words that its complaints use."""
    job = work[0].job
    policies = {one.label: one.job.policy for one in work}
    budgets = dict.fromkeys(one.budget for one in work)
    return {
        **facts(job.problem, policies, budgets, job.seed),
        "runs": [int(numbers[0]), int(numbers[-1]), len(numbers)],
        "precision": job.precision,
        "backend": {one.label: one.job.engine for one in work},
    }


@contextmanager
def _runner(
    clustered: bool, address: str | None, workers: int, threads: int | None
) -> Iterator[Runner]:
    """What runs the chunks: threads here, or a cluster."""
    if clustered:
        with cluster.joined(address, workers) as ray:
            yield partial(cluster.run_chunks, ray, most=threads)
    else:
        yield partial(run_chunks, threads=workers)


def _compiling(progress: Progress) -> AbstractContextManager[None]:
    """Say that something is compiled, unless nothing is to be said."""
    return nullcontext() if progress is False else announced()


def _compile(sweep: Sweep, seconds: dict[str, float], progress: Progress) -> None:
    """Compile what is not compiled yet and needed; adds the seconds by policy."""
    with _compiling(progress):
        for one in dict.fromkeys(sweep.chunks[at].work for at in sweep.todo):
            seconds[one.label] += one.compile()


def _records(sweep: Sweep, kept: Numbers, compile_seconds: Mapping[str, float]) -> Iterable[Record]:
    """The kept runs of each policy, and each budget's share of the elapsed time."""
    parts, seconds = sweep.parts(kept), sweep.seconds()
    for label, taken in compile_seconds.items():
        mine = [one for one in sweep.work if one.label == label]
        yield Record(
            label=label,
            runs=Runs.stack([Runs.join(parts[one], axis=0) for one in mine]),
            seconds=tuple(seconds[one] for one in mine),
            compile_seconds=taken,
            backend=mine[0].backend,
            knows=mine[0].job.policy.knows,
        )
