"""Choose the engine for a policy's runs; by name, so that it can be sent to another machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from tightrope.callers import warn_caller
from tightrope.compiled.functions import COMPILE_ERRORS
from tightrope.engine.arguments import fitted_policy, one_of, thread_count
from tightrope.engine.backend import ENGINES, Numbers, plan_of
from tightrope.engine.delays import AT_ONCE, Delays
from tightrope.engine.job import Job
from tightrope.engine.python import rehearse
from tightrope.errors import BackendError, NotCompiledWarning
from tightrope.policies.base import IndexPolicy, Policy, set_up
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.faults import is_outside
from tightrope.problem import Problem

CLUSTERED = {"ray": "auto", "ray:gpu": "gpu"}  # the backend that the cluster's machines use
PRECISIONS = ("auto", "single", "double")

# "auto" takes a GPU from this many runs, and this many seconds on this machine's CPUs, on.
GPU_RUNS, GPU_SECONDS = 1000, 5.0
# Seconds that a kernel of SIMD lanes for one number of arms saves a step, that lanes save at all,
# and that either takes to compile: measured, for LyOn.
SAVED, SAVED_BY_LANES, TO_COMPILE = 3e-9, 4e-8, 3.0


def backend_names() -> tuple[str, ...]:
    """The allowed values of ``backend``."""
    return ("auto", *ENGINES, *CLUSTERED)


def require_backend(backend: str) -> None:
    """Raise for an unknown backend, and for ``"gpu"`` where this machine has none."""
    one_of("backend", backend, backend_names())
    if backend == "gpu":
        from tightrope.engine.gpu import require_device

        require_device()


def is_clustered(backend: str) -> bool:
    """Whether the runs are made on a cluster."""
    return backend in CLUSTERED


def plan_jobs(
    problem: Problem,
    policies: Mapping[str, Policy],
    budgets: Iterable[float],
    runs: int | Numbers,
    *,
    seed: int,
    backend: str = "auto",
    precision: str = "auto",
    delays: Delays = AT_ONCE,
) -> dict[tuple[str, float], Job]:
    """A job per policy and budget (in the problem's units), keyed by label and budget.

    ``runs`` are run numbers, or how many. ``"auto"`` takes plain Python for a policy that cannot be
    compiled, and a GPU if there is one and the runs would take this machine's CPUs more than a few
    seconds.
    """
    one_of("backend", backend, backend_names())
    one_of("precision", precision, PRECISIONS)
    numbers = np.arange(runs) if isinstance(runs, int) else runs
    jobs = {}
    at_budgets = {budget: problem.at(budget) for budget in budgets}
    for label, given in policies.items():
        policy = fitted_policy(given, problem)
        for budget, there in at_budgets.items():
            scaled = budget / problem.scales.cost
            jobs[label, budget] = Job(
                problem=there,
                policy=policy,
                setup=set_up(policy, there, scaled),
                budget=scaled,
                seed=seed,
                precision=precision,
                label=label,
                user_budget=budget,
                numbers=numbers,
                delays=delays,
            )
    return _on_engines(jobs, backend)


def with_shared_kernels(requested: Sequence[Sequence[Job]]) -> list[list[Job]]:
    """The jobs; those of a policy with different numbers of arms share a kernel.

    A kernel for one number of arms takes less time per step, but seconds to compile. The same is
    true of SIMD lanes: if several problems together do not pay for them, and the numbers stay the
    same, runs go one at a time.
    """
    steps: dict[tuple[Any, ...], dict[int, float]] = {}
    for job in chain.from_iterable(requested):
        sizes = steps.setdefault(_kernel_of(job), {})
        sizes[job.arm_count] = sizes.get(job.arm_count, 0.0) + job.steps * len(job.numbers)

    def fitted(job: Job) -> Job:
        sizes = steps[_kernel_of(job)]
        any_arms = len(sizes) > 1 and SAVED * sizes[job.arm_count] < TO_COMPILE
        exact = job.engine == "cpu" and job.dtype is np.float64
        alone = any_arms and exact and SAVED_BY_LANES * sum(sizes.values()) < TO_COMPILE
        return replace(job, any_arms=any_arms, alone=alone)

    return [[fitted(job) for job in jobs] for jobs in requested]


def _kernel_of(job: Job) -> tuple[Any, ...]:
    """The other parameters of a kernel of SIMD lanes."""
    return (type(job.policy), job.engine, job.penalty_count, job.bernoulli, job.setup.bases)


def _on_engines(
    jobs: Mapping[tuple[str, float], Job], backend: str
) -> dict[tuple[str, float], Job]:
    """The jobs with their engines; all budgets of a policy get the same engine."""
    wanted, fastest = CLUSTERED.get(backend, backend), "cpu"
    if backend == "auto" and _is_worth_a_gpu(jobs.values()):
        fastest = "gpu"
    engines: dict[str, str] = {}
    for (label, _), job in jobs.items():
        if label not in engines:
            engines[label] = _engine(job, label, wanted, fastest)
    shown = backend if is_clustered(backend) else None
    return {place: job.on(engines[place[0]], shown) for place, job in jobs.items()}


def _is_worth_a_gpu(jobs: Iterable[Job]) -> bool:
    """Whether there is a GPU and the CPUs would take so long that it is worth using."""
    from tightrope.engine import gpu

    listed = list(jobs)
    seconds = sum(job.seconds * len(job.numbers) for job in listed) / thread_count(None)
    many = max(len(job.numbers) for job in listed) >= GPU_RUNS
    return many and seconds > GPU_SECONDS and gpu.available()


def _engine(job: Job, label: str, wanted: str, fastest: str) -> str:
    """The name of the engine for a policy's runs."""
    rehearse(job)
    if wanted == "python":
        return wanted
    if job.featured and wanted == "gpu":
        raise BackendError(
            f"policy {label}: must run on a CPU; its models of the features of one run do not fit"
            " into a GPU's fast memory"
        )
    compilable = isinstance(job.policy, IndexPolicy | ChoicePolicy)
    reason = "" if compilable else "it is neither an IndexPolicy nor a ChoicePolicy"
    if compilable and is_outside(type(job.policy)):
        *_, reason = why_not_compiled(lambda: (plan_of(job.on("cpu")).compile(),))
    if reason and wanted != "auto":
        raise BackendError(f"policy {label!r} cannot be compiled ({reason}); use backend 'python'")
    if reason and compilable:
        warn_not_compiled(label, reason)
    best = "cpu" if job.featured else fastest
    return "python" if reason else best if wanted == "auto" else wanted


def warn_not_compiled(label: str, reason: str) -> None:
    """Warn that a policy will run slowly, and why."""
    text = f"policy {label!r} runs in plain Python, because it cannot be compiled: {reason}"
    warn_caller(text, NotCompiledWarning)


def why_not_compiled(compiling: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
    """The result of ``compiling``, and numba's reason in one line if it failed, or ""."""
    try:
        return *compiling(), ""
    except COMPILE_ERRORS as error:
        return None, None, _reason(error)


def _reason(error: Exception) -> str:
    """The line of numba's message that names the cause."""
    if "NRT required" in str(error):  # numba's own memory
        return "it creates a list, a dictionary, a text or an array"
    lines = [line.strip() for line in str(error).splitlines()]
    said = [line for line in lines if line and not line.startswith(("Failed in", "During:", "- "))]
    return said[0] if said else type(error).__name__
