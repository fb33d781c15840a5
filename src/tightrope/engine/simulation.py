"""``simulate``: run every policy at every budget, on a suitable backend."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TypedDict, Unpack, overload

from tightrope.callers import also_called
from tightrope.compiled.functions import announced
from tightrope.engine import cluster
from tightrope.engine.arguments import (
    Policies,
    Problems,
    budget_list,
    bytes_per_run,
    cluster_address,
    named_policies,
    named_problems,
    run_numbers,
    seed_number,
    thread_count,
)
from tightrope.engine.backend import Numbers
from tightrope.engine.caveats import warn_infeasible, warn_out_of_reach, warn_outside_theory
from tightrope.engine.checkpoint import Checkpoint
from tightrope.engine.delays import AT_ONCE, Delays, delays_of
from tightrope.engine.job import Job
from tightrope.engine.planning import is_clustered, plan_jobs, with_shared_kernels
from tightrope.engine.progress import Progress
from tightrope.engine.work import Runner, Work, run_chunks
from tightrope.errors import InputError
from tightrope.formats import percent
from tightrope.policies.base import Policy
from tightrope.problem import Problem
from tightrope.problem.outcomes import Law
from tightrope.results import Results
from tightrope.runs import Record, Runs
from tightrope.version import __version__

MOST_DAYS = 30.0  # of estimated work on this machine's processors


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during the work; the message names the finished runs on the disk."""


@dataclass(frozen=True, eq=False)
class SimulationRequest:
    """Runs of some policies at some budgets (in cost units) on one problem."""

    problem: Problem
    policies: Mapping[str, Policy]
    budgets: Sequence[float]
    numbers: Numbers


@dataclass(frozen=True)
class SimulationSettings:
    """How to run requests; the fields are parameters of :func:`simulate`."""

    seed: int = 0
    backend: str = "auto"
    precision: str = "auto"
    threads: int | None = None
    address: str | None = None
    progress: Progress = None
    title: str = "simulating"
    delays: Delays = AT_ONCE


class Options(TypedDict, total=False):
    """The optional parameters of :func:`simulate`."""

    runs: int | range
    seed: int
    backend: str
    progress: Progress
    threads: int | None
    precision: str
    address: str | None
    checkpoint: str | os.PathLike[str] | Checkpoint | None
    fresh: bool
    delay: int | Law
    lost: float


Budgets = float | str | Iterable[float]


@overload
def simulate(  # type: ignore[overload-overlap]  # a str is an iterable of them, too
    problem: str | Problem, policies: Policies, *, budgets: Budgets, **options: Unpack[Options]
) -> Results: ...


@overload
def simulate(
    problem: Problems, policies: Policies, *, budgets: Budgets, **options: Unpack[Options]
) -> dict[str, Results]: ...


@also_called("budget", "budgets")
def simulate(
    problem: str | Problem | Problems,
    policies: Policies,
    *,
    budgets: Budgets,
    runs: int | range = 1000,
    seed: int = 0,
    backend: str = "auto",
    progress: Progress = None,
    threads: int | None = None,
    precision: str = "auto",
    address: str | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    fresh: bool = False,
    delay: int | Law = 0,
    lost: float = 0.0,
) -> Results | dict[str, Results]:
    """Run every policy ``runs`` times at every budget.

    A problem is a ready problem's name, a TOML file or a :class:`Problem`. A policy is a
    :class:`Policy` or its text, such as ``"lyon:delta0=15"``. Returns ``Results``; for several
    problems, in a list or a dictionary, a dictionary of results by problem name. ``budgets`` are in
    the problem's units of cost. ``runs`` is a number, or a range of run numbers: a run depends only
    on ``seed`` and its number, so results of disjoint ranges merge to the same bits. ``threads``
    defaults to the available CPUs; on an existing cluster it limits the number of concurrent tasks.
    ``precision``: ``"auto"`` uses single precision if outcomes are 0 or 1 and all counts stay
    exact, otherwise double. ``progress``: a function of the fraction done, True or False for a bar
    or none, None for a bar on terminals.

    ``backend``: ``"cpu"`` compiles the policies; ``"gpu"`` compiles them for an NVIDIA device, with
    the same draws, and results of the same distribution; ``"python"`` runs plain Python, slowly.
    ``"auto"`` uses Python for policies that cannot be compiled, a GPU if there is one and the CPUs
    would take more than a few seconds, and otherwise the CPUs. ``"ray"`` uses the CPUs and
    ``"ray:gpu"`` the GPUs of a Ray cluster: the one at ``address`` or ``RAY_ADDRESS``, or a
    temporary one on this machine.

    ``checkpoint`` is a folder in which finished runs are saved every few seconds. After a kill, the
    same call continues from there and returns the same bits; ``fresh`` discards the saved runs.

    ``delay``: the number of decisions before an outcome is reported, or a distribution of that
    number. ``lost``: the share of outcomes that are never reported. A pull in flight counts with
    its expected outcome.

    After Ctrl-C the finished runs are returned with ``complete=False``; if there are none,
    KeyboardInterrupt is raised.

    There are many parameters because each is an independent choice.

    >>> from tightrope import LyOff, LyOn, ready_problem, simulate
    >>> problem = ready_problem("paper")
    >>> results = simulate(problem, [LyOff(), LyOn()], budgets=1000, runs=200, seed=1)
    >>> [(row["policy"], round(row["violation"], 2)) for row in results.summary()]
    [('lyoff', 0.02), ('lyon', 0.21)]
    >>> found = simulate(["paper", "hiring"], "lyon", budgets=100, runs=20)
    >>> list(found), found["paper"]["lyon"].runs.pulls.shape
    (['paper', 'hiring'], (1, 20, 2))
    """
    problems, named = named_problems(problem), named_policies(policies)
    delays = delays_of(delay, lost)
    settings = SimulationSettings(
        seed, backend, precision, threads, address, progress, delays=delays
    )
    listed, requests = budget_list(budgets), []
    for one in problems.values():
        checked = budget_list(listed, one)
        numbers = run_numbers(runs, bytes_per_run(one, len(named), len(checked), backend))
        requests.append(SimulationRequest(one, named, checked, numbers))
        warn_out_of_reach(one, named, checked)
    if checkpoint is None or isinstance(checkpoint, Checkpoint):
        found = make(requests, settings, checkpoint)
    else:
        with Checkpoint(checkpoint, fresh=fresh) as store:
            found = make(requests, settings, store)
    if isinstance(problem, str | Problem):
        return found[0]
    return dict(zip(problems, found, strict=True))


def make(
    requests: Sequence[SimulationRequest],
    settings: SimulationSettings,
    store: Checkpoint | None = None,
    *,
    whole: bool = False,
) -> list[Results]:
    """The results of all requests, run together.

    After Ctrl-C, the results are the runs that all policies of a request have finished. If there
    are none, or if ``whole``, it raises :class:`Interrupted`.
    """
    seed, workers = seed_number(settings.seed), thread_count(settings.threads)
    clustered = is_clustered(settings.backend)
    where = cluster_address(settings.address, clustered)
    with _compiling(settings.progress):
        jobs = with_shared_kernels([_jobs(request, seed, settings) for request in requests])
    work = Work([job for some in jobs for job in some], store)
    if not clustered:
        _require_days(work.jobs, workers)
    if work.todo:
        with (
            _runner(clustered, where, workers, settings.threads) as runner,
            _compiling(settings.progress),
        ):
            work.run(runner, settings.progress, settings.title)
    kept = [work.finished_runs(some) for some in jobs]
    if not all(map(len, kept)) or (whole and work.todo):
        raise Interrupted(_interruption_text(work))
    return [
        _results(work, request, some, numbers, seed)
        for request, some, numbers in zip(requests, jobs, kept, strict=True)
    ]


def _require_days(jobs: Sequence[Job], workers: int) -> None:
    """Raise for work that this machine's processors would not finish in weeks."""
    slow = [job for job in jobs if job.engine != "gpu"]
    days = sum(job.seconds * len(job.numbers) for job in slow) / workers / 86400.0
    if days > MOST_DAYS:
        longest = max(slow, key=lambda job: job.seconds)
        pulls = longest.budget / float(longest.problem.moments.cost.mean())
        raise InputError(
            f"budget = {longest.user_budget:g}: runs of about {pulls:.2g} pulls,"
            f" {len(longest.numbers):,} of them for each policy, would take about {days:,.0f} days"
            f" on {workers} processors; must take at most {MOST_DAYS:g}: fewer runs, or a smaller"
            " budget"
        )


def _jobs(request: SimulationRequest, seed: int, settings: SimulationSettings) -> list[Job]:
    jobs = plan_jobs(
        request.problem,
        request.policies,
        request.budgets,
        request.numbers,
        seed=seed,
        backend=settings.backend,
        precision=settings.precision,
        delays=settings.delays,
    )
    warn_infeasible(request.problem, request.budgets)
    warn_outside_theory({place: job.setup.warning for place, job in jobs.items()})
    return list(jobs.values())


def _interruption_text(work: Work) -> str:
    if not work.done:
        return "interrupted before any work was finished"
    if work.store is None:
        return "interrupted before any run was finished by all policies"
    return (
        f"interrupted: {percent(work.share_done, 0)} is done and kept in {work.store.folder}; "
        "run the same command again to continue"
    )


@contextmanager
def _runner(
    clustered: bool, address: str | None, workers: int, threads: int | None
) -> Iterator[Runner]:
    """The function that runs the chunks: with threads on this machine, or on a cluster."""
    if clustered:
        with cluster.joined(address, workers) as ray:
            yield partial(cluster.run_chunks, ray, most=threads)
    else:
        yield partial(run_chunks, threads=workers)


def _compiling(progress: Progress) -> AbstractContextManager[None]:
    """Print a note while a kernel is compiled, unless ``progress`` is False."""
    return nullcontext() if progress is False else announced()


def _results(
    work: Work, request: SimulationRequest, jobs: Sequence[Job], kept: Numbers, seed: int
) -> Results:
    """A request's results: each policy's kept runs, and each budget's share of the time."""
    records = []
    for label in request.policies:
        mine = [job for job in jobs if job.label == label]
        runs, arms = (
            Runs.stack([work.runs_of(job, kept) for job in mine]),
            request.problem.arm_count,
        )
        by_type = runs.pulls.reshape(*runs.pulls.shape[:2], -1, arms) if mine[0].aware else None
        records.append(
            Record(
                label=label,
                normalised_runs=runs.over_types(arms),
                pulls_by_type=by_type,
                seconds=tuple(work.seconds_of(job) for job in mine),
                compile_seconds=sum(work.compile_seconds.get(job, 0.0) for job in mine),
                backend=mine[0].backend,
                knows=mine[0].policy.knows,
                policy=repr(mine[0].policy),
            )
        )
    return Results(
        problem=request.problem,
        budgets=tuple(request.budgets),
        seed=seed,
        run_numbers=kept,
        records=tuple(records),
        version=__version__,
        complete=len(kept) == len(request.numbers),
        delay=jobs[0].delays.table,
        lost=jobs[0].delays.lost,
    )
