"""The CPU engine's runs one at a time: the host side of ``kernels.single_run``.

Used for choice policies, for policies that forget, for arms that change, and for so many arms that
a decision should not compute every index. If SIMD lanes are possible too, the runs are
bit-identical.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.compiled.functions import FAILED
from tightrope.engine.arguments import thread_count
from tightrope.engine.backend import first_seconds
from tightrope.engine.job import Job
from tightrope.engine.laws import phase_laws, requests_of
from tightrope.engine.python import repeat
from tightrope.errors import PolicyError
from tightrope.kernels.moving import flight_numbers
from tightrope.kernels.native import moving_run, native, single_run
from tightrope.kernels.plain import play_plainly
from tightrope.kernels.rng import LATE, OUTCOMES, POLICY, seed_words
from tightrope.kernels.run_state import COLUMNS, CONTEXT, RunState, Sizes
from tightrope.kernels.single_run import Ends, kernel
from tightrope.kernels.spec import Spec, spec_of, stateful
from tightrope.policies.faults import failed, wrong_arm
from tightrope.policies.state import record_fields
from tightrope.runs import Runs

ARMS_PER_CHUNK = 200_000  # arms evaluated per unit of work: some tens of milliseconds
FOREVER = 2**62
NO_BLOCK = np.zeros(0, np.uint8)
SIZES = Sizes()
# The seconds per step that a kernel with the policy inlined saves, and its seconds of compiling:
# both measured, for resolve and LyOn with a window.
SAVED, TO_COMPILE = 15e-9, 6.0


def runs_of(job: Job, ends: Any, counts: Any, at: Ends) -> Runs:
    """The runs of a kernel's output: ``ends`` [columns, R] and ``counts`` [R, 2, K].

    Where the policy uses types of requests, counts are of rows, ``type * K + arm``.
    """
    numbers, penalties = ends.astype(np.float64), job.penalty_count
    return Runs(
        reward=numbers[at.totals],
        cost=numbers[at.cost],
        penalty=numbers[at.totals + 1 :][:penalties].T,
        pulls=counts[:, 0].astype(np.int64),
        arm_cost=counts[:, 1].astype(np.float64),
        queue=numbers[at.queue :][:penalties].T,
        queue_max=numbers[at.peak :][:penalties].T,
    )


def plan_single(job: Job, *, many_arms: bool = False) -> SingleRunPlan:
    """The plan of a job; with ``many_arms``, a decision does not compute every arm's index."""
    hard, many = job.problem.hard, many_arms and not job.moving
    spec = spec_of(job.policy, job.setup, job.dtype, many, hard)
    return SingleRunPlan(job, stateful(spec) if job.moving else spec)


@dataclass(frozen=True)
class SingleRunPlan:
    """The shared data of a job's runs; ``spec`` selects the kernel."""

    job: Job
    spec: Spec
    sizes: Sizes = SIZES
    fuse: bool = True  # False: the policy is never inlined

    @cached_property
    def fresh(self) -> RunState:
        """The initial state of every run."""
        job, spec = self.job, self.spec
        last, sizes = job.last_spent, self.sizes
        state = RunState.new(
            spec, job.arm_count, job.setup, job.budget, job.known, last=last, sizes=sizes
        )
        if job.featured:
            names = [name for name, _ in record_fields(spec.policy.Scratch)]
            place = state["own_starts"][names.index("models.context")]
            state["counts"][[COLUMNS, CONTEXT]] = job.problem.feature_columns, place
        return state

    @cached_property
    def requests(self) -> npt.NDArray[np.float64]:
        """The types or features of the requests, see ``requests_of``."""
        return requests_of(self.job.problem, self.job.policy)

    @cached_property
    def law(self) -> Any:
        """The outcomes' distributions, computed once per plan because continuous ones are slow."""
        return phase_laws(self.job.problem, cells=not self.by_bits)

    @property
    def by_bits(self) -> bool:
        """Whether outcomes are drawn by comparing bits, which is faster than from tables.

        Slow policies draw from tables in any case, so that one kernel serves all distributions.
        """
        return self.job.bernoulli and not self.spec.remembers and self.fused

    @cached_property
    def fused(self) -> bool:
        """Whether the policy is inlined into its own kernel instead of called at an address.

        Inlining takes less time per step, but seconds to compile. Single precision requires it.
        """
        job = self.job
        saved = SAVED * job.steps * len(job.numbers) / thread_count(None)
        may = self.fuse and not job.moving
        return self.spec.dtype is np.float32 or (may and saved > TO_COMPILE)

    @property
    def chunk(self) -> int:
        """The number of runs per unit of work."""
        return max(1, round(ARMS_PER_CHUNK / self.job.steps / (10 + self.job.arm_count)))

    def kernel(self) -> Any:
        """The compiled function that makes the runs; the policy's addresses are its last argument.

        A kernel with the policy inlined does not need them.
        """
        if self.fused:
            return kernel(self.spec, self.by_bits)
        return moving_run() if self.job.moving else single_run()

    def policy(self) -> tuple[Any, ...]:
        """The kernel's last argument, if it has one: the addresses of the policy's functions."""
        return () if self.fused else (native(self.spec, self.job.setup.forgets).addresses,)

    def compile(self) -> float:
        """Compile the kernels or load them from the disk; returns the seconds that took."""
        return first_seconds(
            (self.spec, self.fused, self.by_bits, self.job.moving, self.job.setup.forgets),
            lambda: SingleRun(self, np.array([0])).advance(0, np.zeros(1, np.uint8)),
        )

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
        self._columns = Ends.of(self.state.penalties)
        self._runs = runs
        self._ends = np.zeros((len(runs), self._columns.size))
        self._counts = np.zeros((len(runs), job.arm_count, 2))
        self._beside: tuple[Any, ...] = ()
        if job.moving:
            slots, channels = job.delays.slots, 2 + self.state.penalties
            self._beside = (
                plan.fresh.copy().block,
                np.zeros(flight_numbers(job.arm_count, channels, slots, job.featured)),
                job.delays.rules(job.problem, job.arm_count),
                seed_words(job.seed, LATE, runs)[0],
            )

    def advance(self, until: int, stop: npt.NDArray[np.uint8], *, count: bool = True) -> bool:
        """Make the runs, each up to step ``until``; False if ``stop[0]`` was set before the end.

        Without ``count``, totals over arms are not computed: with a million arms that takes longer
        than thousands of steps.
        """
        plan, fresh = self.plan, self._fresh
        arguments = (
            self.state.block,
            fresh,
            *self._beside,
            *self._seeds,
            plan.law,
            plan.job.problem.phase_starts(plan.job.budget),
            plan.requests,
            self._ends,
            self._counts if count else self._counts[:, :0],
            until,
            stop,
            *plan.policy(),
        )
        try:
            finished = plan.kernel()(*arguments)
        except Exception as error:  # of a user's own policy that is inlined
            if not plan.fused or not plan.spec.outside:
                raise
            SingleRun(replace(plan, fuse=False), self._runs).advance(until, stop)
            raise PolicyError(f"policy {plan.job.policy.label}: failed ({error})") from error
        self._fresh = NO_BLOCK  # later calls continue the run instead of starting it
        if finished < len(self._ends) and self._ends[finished, self._columns.wrong]:
            self._refuse(finished)
        return bool(finished == len(self._ends))

    def _refuse(self, at: int) -> None:
        """Raise the error of a run whose policy failed or chose an arm that does not exist."""
        plan, columns = self.plan, self._columns
        arm, step = self._ends[at, [columns.wrong_arm, columns.step]].astype(int).tolist()
        label = plan.job.policy.label
        if arm not in (0, FAILED):
            raise wrong_arm(plan.job.policy, arm, step, plan.job.arm_count)
        step -= arm != FAILED  # ``learn`` failed, after the pull was counted
        try:
            self._repeat(self._runs[at : at + 1], step)
        except PolicyError:
            raise
        except Exception as error:
            raise failed(type(plan.job.policy), error, step, label) from error
        raise PolicyError(f"policy {label}: failed at step {step}, but only when compiled")

    def _repeat(self, run: npt.NDArray[np.int64], step: int) -> None:
        """Repeat the last steps of a run in plain Python, so that the policy raises its error."""
        plan, job, stop = self.plan, self.plan.job, np.zeros(1, np.uint8)
        if job.moving or not plan.spec.remembers:
            repeat(job, int(run[0]))
        before = SingleRun(plan, run)
        before.advance(max(step - 1, 0), stop)
        law = phase_laws(job.problem, cells=True)
        starts = job.problem.phase_starts(job.budget)
        play_plainly(job.policy, before.state, law, starts, plan.requests, step + 1)

    @property
    def step(self) -> int:
        """How many pulls the last run has made."""
        return int(self._ends[-1, self._columns.step])

    @property
    def running(self) -> bool:
        """Whether the last run has not spent its budget yet."""
        run = self.state.run
        within = bool(run.spent[0] <= run.budget[0])
        return within and not self.state.used_up

    def read(self) -> Runs:
        """The runs' totals so far."""
        counts = self._counts.transpose(0, 2, 1)
        return runs_of(self.plan.job, self._ends.T, counts, self._columns)
