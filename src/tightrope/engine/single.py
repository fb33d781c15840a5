"""The CPU engine's runs one at a time: the host side of ``kernels.single_run``.

Used for choice policies, for policies that forget, for arms that change, and for so many arms that
a decision should not compute every index. Where SIMD lanes are possible too, the runs are
bit-identical.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.engine.backend import compile_seconds
from tightrope.engine.job import Job
from tightrope.engine.laws import phase_laws
from tightrope.errors import PolicyError
from tightrope.kernels.argmin import envelope_of
from tightrope.kernels.moving import flight_numbers, moving_kernel
from tightrope.kernels.rng import LATE, OUTCOMES, POLICY, seed_words
from tightrope.kernels.run_state import RunState, Sizes
from tightrope.kernels.single_run import Ends, kernel
from tightrope.kernels.spec import ENVELOPE, Spec, spec_of
from tightrope.results import Runs

__all__ = ["SingleRun", "SingleRunPlan", "plan_single", "wrong_arm"]

ARMS_PER_CHUNK = 200_000  # arms evaluated per unit of work: some tens of milliseconds
FOREVER = 2**62
NO_BLOCK = np.zeros(0, np.uint8)
SIZES = Sizes()


def wrong_arm(label: str, arm: object, step: int, count: int) -> PolicyError:
    """The error for a policy that chose an arm that does not exist."""
    return PolicyError(
        f"policy {label}: chose arm {arm} at step {step}; must be a whole number from 0 to"
        f" {count - 1}"
    )


def plan_single(job: Job, *, many_arms: bool = False) -> SingleRunPlan:
    """The plan of a job; with ``many_arms``, a decision does not compute every arm's index."""
    hard, many = job.problem.hard, many_arms and not job.moving
    spec = spec_of(job.policy, job.setup, job.dtype, many, hard)
    if job.moving and spec.indexed:
        spec = replace(spec, stateful=True)
    return SingleRunPlan(job, spec)


@dataclass(frozen=True)
class SingleRunPlan:
    """What the runs of one job have in common; ``spec`` says which kernel."""

    job: Job
    spec: Spec
    sizes: Sizes = SIZES

    @cached_property
    def fresh(self) -> RunState:
        """The initial state of every run."""
        job, spec = self.job, self.spec
        return RunState.new(
            spec,
            job.arm_count,
            job.setup,
            job.budget,
            job.problem,
            last=job.last_spent,
            sizes=self.sizes,
            envelope=envelope_of(spec, job.setup) if spec.method == ENVELOPE else None,
        )

    @cached_property
    def law(self) -> Any:
        """The outcomes' laws; computed once per plan, because continuous laws are slow."""
        return phase_laws(self.job.problem, cells=not self.by_bits)

    @property
    def by_bits(self) -> bool:
        """Whether outcomes are drawn by comparing bits, which is faster than from tables.

        Slow policies draw from tables in any case, so that one kernel serves all laws.
        """
        return self.job.bernoulli and not self.spec.remembers

    @property
    def chunk(self) -> int:
        """The number of runs per unit of work."""
        return max(1, round(ARMS_PER_CHUNK / self.job.steps / (10 + self.job.arm_count)))

    @property
    def kernel(self) -> Any:
        """The compiled function that makes the runs."""
        return (moving_kernel if self.job.moving else kernel)(self.spec, self.by_bits)

    def compile(self) -> float:
        """Compile the kernel or load it from the disk; returns the seconds of compiling."""
        made = self.kernel
        run = SingleRun(self, np.array([0]))
        return compile_seconds(made, lambda: run.advance(0, np.zeros(1, np.uint8)))

    def run(
        self, runs: npt.NDArray[np.int64], stop: npt.NDArray[np.uint8]
    ) -> tuple[Runs | None, float]:
        """The runs and the seconds they took; None if ``stop[0]`` was set before the end."""
        start, batch = time.perf_counter(), SingleRun(self, runs)
        finished = batch.advance(FOREVER, stop)
        return (batch.read() if finished else None), time.perf_counter() - start


class SingleRun:
    """Some runs of a plan, made one after another; a single one can be made in parts."""

    def __init__(self, plan: SingleRunPlan, runs: npt.NDArray[np.int64]) -> None:
        job = plan.job
        self.plan, self._fresh = plan, plan.fresh.block
        self.state = plan.fresh.copy()
        self._seeds = tuple(seed_words(job.seed, stream, runs) for stream in (OUTCOMES, POLICY))
        self._ends = np.zeros((len(runs), Ends.of(plan.spec.penalties).size))
        self._counts = np.zeros((len(runs), job.arm_count, 2))
        self._beside: tuple[Any, ...] = ()
        if job.moving:
            slots, channels = job.delays.slots, 2 + plan.spec.penalties
            self._beside = (
                plan.fresh.copy().block,
                np.zeros(flight_numbers(job.arm_count, channels, slots)),
                job.delays.rules(job.problem),
                seed_words(job.seed, LATE, runs)[0],
            )

    def advance(self, until: int, stop: npt.NDArray[np.uint8], *, count: bool = True) -> bool:
        """Make the runs, each up to step ``until``; False if ``stop[0]`` was set before the end.

        Without ``count``, totals over arms are not computed: with a million arms that takes longer
        than thousands of steps.
        """
        plan, fresh = self.plan, self._fresh
        try:
            finished = plan.kernel(
                self.state.block,
                fresh,
                *self._beside,
                *self._seeds,
                plan.law,
                plan.job.problem.phase_starts(plan.job.budget),
                self._ends,
                self._counts if count else self._counts[:, :0],
                until,
                stop,
            )
        except IndexError as error:  # in a user's own policy: see ``Spec.formula``
            raise PolicyError(
                f"policy {plan.job.policy.label}: choose or learn used an index out of range;"
                " backend 'python' shows the line"
            ) from error
        self._fresh = NO_BLOCK  # later calls continue the run instead of starting it
        columns = Ends.of(plan.spec.penalties)
        if finished < len(self._ends) and self._ends[finished, columns.wrong]:
            arm, step = self._ends[finished, [columns.wrong_arm, columns.step]].astype(int)
            raise wrong_arm(plan.job.policy.label, arm, step, plan.job.arm_count)
        return bool(finished == len(self._ends))

    @property
    def step(self) -> int:
        """How many pulls the last run has made."""
        return int(self._ends[-1, Ends.of(self.plan.spec.penalties).step])

    @property
    def running(self) -> bool:
        """Whether the last run has not spent its budget yet."""
        layout, run = self.state.layout, self.state["run"]
        within = bool(run[layout.spent] <= run[layout.budget])
        return within and not self.state.used_up

    def read(self) -> Runs:
        """The runs' totals so far."""
        ends, at, penalties = (
            self._ends,
            Ends.of(self.plan.spec.penalties),
            self.plan.job.penalty_count,
        )
        return Runs(
            reward=ends[:, at.totals].copy(),
            cost=ends[:, at.cost].copy(),
            penalty=ends[:, at.totals + 1 : at.totals + 1 + penalties].copy(),
            pulls=self._counts[:, :, 0].astype(np.int64),
            arm_cost=self._counts[:, :, 1].copy(),
            queue=ends[:, at.queue : at.queue + penalties].copy(),
            queue_max=ends[:, at.peak : at.peak + penalties].copy(),
        )
