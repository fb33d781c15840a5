"""``simulate`` and ``trajectory``: what to run, on which backend, in which order.

The work is cut into chunks of runs; a chunk is one policy, one budget, some runs. All policies and
budgets of the first runs come first, so that an interrupted simulation keeps whole runs.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.compiled import announced
from tightrope.engine import cpu, python
from tightrope.engine.progress import Progress, reporting
from tightrope.errors import BackendError, InputError, nearest
from tightrope.policies.base import IndexPolicy, Policy
from tightrope.problem import Problem, check_budget
from tightrope.results import Floats, Record, Results, Runs
from tightrope.version import __version__

__all__ = [
    "OutsideTheoryWarning",
    "Trajectory",
    "caveats",
    "outside_theory",
    "run_numbers",
    "simulate",
    "trajectory",
]

BACKENDS = ("auto", "cpu", "python")
PRECISIONS = ("auto", "single", "double")


class OutsideTheoryWarning(UserWarning):
    """A policy's numbers lie outside what the paper's theorems cover."""


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
    named, checked, numbers = _named(policies), _budgets(budgets), run_numbers(runs)
    workers = _threads(threads)
    work = _work(problem, named, checked, _seed(seed), backend, precision)
    _warn(problem, named, checked)
    compile_seconds = _compile(work, progress)
    chunks = [chunk for part in _parts(numbers, work) for chunk in part]
    total = sum(chunk.weight for chunk in chunks)
    start = time.perf_counter()
    with reporting(progress, total, "simulating") as tell:
        done = _run(chunks, workers, tell)
    elapsed = time.perf_counter() - start
    return _collect(problem, named, work, numbers, chunks, done, elapsed, compile_seconds, seed)


@dataclass(frozen=True)
class _Work:
    """One policy at one budget: what the chunks of its runs share."""

    label: str
    budget: float  # in the user's units
    plan: cpu.Plan | python.Plan

    @property
    def backend(self) -> str:
        return "cpu" if isinstance(self.plan, cpu.Plan) else "python"


@dataclass(frozen=True)
class _Chunk:
    work: _Work
    runs: npt.NDArray[np.int64]

    @property
    def weight(self) -> float:
        return self.work.budget * len(self.runs)


Finished = dict[int, tuple[Runs, float]]  # by the chunk's place in the list


def _work(
    problem: Problem,
    named: Mapping[str, Policy],
    budgets: Sequence[float],
    seed: int,
    backend: str,
    precision: str,
) -> list[_Work]:
    _require_known("backend", backend, BACKENDS)
    _require_known("precision", precision, PRECISIONS)
    work = []
    for label, policy in named.items():
        for budget in budgets:
            scaled = budget / problem.scales.cost
            setup = policy.setup(problem, scaled)
            plan: cpu.Plan | python.Plan
            if backend == "python" or not isinstance(policy, IndexPolicy):
                if backend == "cpu":
                    raise BackendError(f"policy {label!r} cannot be compiled; use backend 'python'")
                plan = python.Plan(problem, policy, setup, scaled, seed)
            else:
                plan = cpu.plan_lanes(problem, policy, setup, scaled, seed, precision)
            work.append(_Work(label, budget, plan))
    return work


def outside_theory(
    problem: Problem, policies: Mapping[str, Policy], budgets: Iterable[float]
) -> dict[tuple[str, float], str]:
    """What the paper's theorems do not cover, by policy and budget: the policy's own words."""
    found = {}
    for budget in budgets:
        for label, policy in policies.items():
            warning = policy.setup(problem, budget / problem.scales.cost).warning
            if warning:
                found[label, budget] = warning
    return found


def caveats(outside: Mapping[tuple[str, float], str]) -> list[str]:
    """What lies outside the theory: a sentence a policy, not one a budget."""
    told = []
    for label in dict.fromkeys(label for label, _ in outside):
        first, *others = sorted(budget for name, budget in outside if name == label)
        text = outside[label, first]
        if others:
            listed = ", ".join(f"{budget:g}" for budget in others)
            text += f". The same holds at budget{'s' * (len(others) > 1)} {listed}"
        told.append(text)
    return told


def _warn(problem: Problem, policies: Mapping[str, Policy], budgets: Iterable[float]) -> None:
    for caveat in caveats(outside_theory(problem, policies, budgets)):
        warnings.warn(caveat, OutsideTheoryWarning, stacklevel=3)


def _compile(work: Sequence[_Work], progress: Progress) -> dict[str, float]:
    """Compile what is not compiled yet; seconds by policy."""
    seconds: dict[str, float] = {}
    with nullcontext() if progress is False else announced():
        for one in work:
            spent = cpu.compile_plan(one.plan) if isinstance(one.plan, cpu.Plan) else 0.0
            seconds[one.label] = seconds.get(one.label, 0.0) + spent
    return seconds


def _parts(numbers: npt.NDArray[np.int64], work: Sequence[_Work]) -> Iterable[list[_Chunk]]:
    """Chunks by groups of runs, each with every policy and budget."""
    width = max(one.plan.chunk for one in work)
    for first in range(0, len(numbers), width):
        group = numbers[first : first + width]
        yield [
            _Chunk(one, group[at : at + one.plan.chunk])
            for one in work
            for at in range(0, len(group), one.plan.chunk)
        ]


def _run(chunks: Sequence[_Chunk], threads: int, tell: Callable[[float], None]) -> Finished:
    """All chunks, or those finished when Ctrl-C comes."""
    done: Finished = {}
    stop = np.zeros(1, np.uint8)
    pending: dict[Future[tuple[Runs | None, float]], int] = {}
    todo = iter(range(len(chunks)))
    pool = ThreadPoolExecutor(threads)

    def submit() -> None:
        at = next(todo, None)
        if at is not None:
            pending[pool.submit(chunks[at].work.plan.run, chunks[at].runs, stop)] = at

    def gather(futures: Iterable[Future[tuple[Runs | None, float]]]) -> None:
        for future in futures:
            at = pending.pop(future)
            runs, seconds = future.result()
            if runs is not None:
                done[at] = (runs, seconds)
                tell(chunks[at].weight)

    try:
        for _ in range(2 * threads):
            submit()
        while pending:
            finished = wait(pending, return_when=FIRST_COMPLETED).done
            gather(finished)
            for _ in finished:
                submit()
    except KeyboardInterrupt:
        stop[0] = 1
        gather(list(pending))
        if not done:
            raise
    finally:
        stop[0] = 1
        pool.shutdown(cancel_futures=True)
    return done


def _collect(
    problem: Problem,
    named: Mapping[str, Policy],
    work: Sequence[_Work],
    numbers: npt.NDArray[np.int64],
    chunks: Sequence[_Chunk],
    done: Finished,
    elapsed: float,
    compile_seconds: Mapping[str, float],
    seed: int,
) -> Results:
    chosen = _finished_runs(chunks, done, numbers)
    if not len(chosen):
        raise KeyboardInterrupt
    busy = sum(seconds for _, seconds in done.values())
    parts: dict[tuple[str, float], list[Runs]] = {(one.label, one.budget): [] for one in work}
    shares = dict.fromkeys(parts, 0.0)
    for at, (runs, seconds) in sorted(done.items()):
        chunk = chunks[at]
        key = chunk.work.label, chunk.work.budget
        parts[key].append(runs[np.isin(chunk.runs, chosen)] if len(done) < len(chunks) else runs)
        shares[key] += seconds * elapsed / busy
    budgets = tuple(dict.fromkeys(one.budget for one in work))
    backends = {one.label: one.backend for one in work}
    records = [
        Record(
            label=label,
            runs=Runs.stack([Runs.join(parts[label, budget], axis=0) for budget in budgets]),
            seconds=tuple(shares[label, budget] for budget in budgets),
            compile_seconds=compile_seconds[label],
            backend=backends[label],
        )
        for label in named
    ]
    return Results(
        problem=problem,
        budgets=budgets,
        seed=seed,
        run_numbers=chosen,
        records=tuple(records),
        version=__version__,
        complete=len(chosen) == len(numbers),
    )


def _finished_runs(
    chunks: Sequence[_Chunk], done: Finished, numbers: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """The runs that every policy finished at every budget."""
    missing = [chunk.runs for at, chunk in enumerate(chunks) if at not in done]
    return np.setdiff1d(numbers, np.concatenate(missing)) if missing else numbers


@dataclass(frozen=True)
class Trajectory:
    """How some runs went, thinned to T points, in the user's units. M penalties, R runs."""

    step: npt.NDArray[np.int64]  # [T] pulls so far
    cost: Floats  # [R, T]
    reward: Floats  # [R, T]
    penalty: Floats  # [R, T, M]
    queue: Floats  # [R, T, M]


def trajectory(
    problem: Problem,
    policy: Policy,
    *,
    budget: float,
    runs: int | range = 4,
    seed: int = 0,
    points: int = 200,
) -> Trajectory:
    """The cost, reward, penalty and queue of a few runs over time, at about ``points`` moments.

    The same runs as :func:`simulate` makes with this seed; a run that is done stays as it ended.
    """
    budget = check_budget(budget)
    scaled = budget / problem.scales.cost
    if not isinstance(policy, IndexPolicy):
        raise BackendError(f"policy {policy.label!r} cannot be compiled, so it has no trajectory")
    setup = policy.setup(problem, scaled)
    _warn(problem, {policy.label: policy}, [budget])
    numbers = run_numbers(runs)
    plan = cpu.plan_lanes(problem, policy, setup, scaled, _seed(seed), "auto")
    if not points >= 2 or len(numbers) > plan.spec.lanes:
        raise InputError(
            f"points = {points} and runs = {len(numbers)} must be at least 2 and"
            f" at most {plan.spec.lanes}"
        )
    lanes, stop = cpu.Lanes(plan, numbers, *plan.seeds(numbers)), np.zeros(1, np.uint8)
    stride = max(1, round(scaled / float(problem.moments.cost.mean()) / points))
    steps, moments = [0], [lanes.read()]
    while lanes.running:
        lanes.advance(lanes.step + stride, stop)
        steps.append(lanes.step)
        moments.append(lanes.read())
    seen = Runs.stack(moments)
    scales = problem.scales
    penalty_scales = np.asarray(scales.penalties or [1.0] * problem.penalty_count)
    return Trajectory(
        step=np.array(steps),
        cost=seen.cost.T * scales.cost,
        reward=seen.reward.T * scales.reward,
        penalty=seen.penalty.swapaxes(0, 1) * penalty_scales,
        queue=seen.queue.swapaxes(0, 1) * penalty_scales,
    )


def _named(policies: Policy | Iterable[Policy] | Mapping[str, Policy]) -> dict[str, Policy]:
    if isinstance(policies, Policy):
        policies = [policies]
    if isinstance(policies, Mapping):
        named = dict(policies)
    else:
        listed = list(policies)
        named = {policy.label: policy for policy in listed}
        if len(named) < len(listed):
            raise InputError(f"policies: {[p.label for p in listed]} must all be different")
    if not named:
        raise InputError("policies: none is given; at least one is needed")
    return named


def _budgets(budgets: float | Iterable[float]) -> list[float]:
    listed: list[Any] = list(budgets) if isinstance(budgets, Iterable) else [budgets]
    checked = [check_budget(budget) for budget in listed]
    if not checked or len(set(checked)) < len(checked):
        raise InputError(f"budgets = {listed} must be one or more numbers, all different")
    return checked


def run_numbers(runs: int | range) -> npt.NDArray[np.int64]:
    """The numbers of the runs that are asked for, checked."""
    numbers = runs if isinstance(runs, range) else None
    if numbers is None and isinstance(runs, int | np.integer) and not isinstance(runs, bool):
        numbers = range(int(runs))
    if numbers is None or len(numbers) < 1 or numbers[0] < 0 or numbers.step < 1:
        raise InputError(f"runs = {runs!r} must be at least 1, or a range of run numbers from 0 up")
    return np.array(numbers, np.int64)


def _seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise InputError(f"seed = {seed!r} must be a whole number from 0 to 2^64 - 1")
    return int(seed)


def _threads(threads: int | None) -> int:
    if threads is None:
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise InputError(f"threads = {threads!r} must be a whole number of at least 1")
    return threads


def _require_known(what: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise InputError(f"{what} = {value!r} is unknown; {nearest(str(value), known)}")
