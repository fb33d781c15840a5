"""The interface of a backend, and all backends by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from tightrope.runs import Runs

if TYPE_CHECKING:
    from tightrope.engine.job import Job

Numbers = npt.NDArray[np.int64]  # run numbers
Stop = npt.NDArray[np.uint8]  # [1]: if not 0, running work should stop soon

# The engines of this machine by name: modules with ``plan(job) -> Plan``, imported on first use.
ENGINES = {
    "cpu": "tightrope.engine.cpu",
    "gpu": "tightrope.engine.gpu",
    "python": "tightrope.engine.python",
}


class BackendPlan(Protocol):
    """The shared data of a job's runs, which can make any of them.

    A run depends only on the seed and its number, not on the other runs of the call, the thread or
    the order.
    """

    @property
    def chunk(self) -> int:
        """The number of runs per unit of work."""
        ...

    def compile(self) -> float:
        """Compile the kernel if necessary; returns the seconds of compiling, or 0."""
        ...

    def run(self, runs: Numbers, stop: Stop) -> tuple[Runs | None, float]:
        """The runs and the seconds they took; None if ``stop[0]`` was set before the end."""
        ...


def plan_of(job: Job) -> BackendPlan:
    """The plan of the job's engine."""
    plan: BackendPlan = import_module(ENGINES[job.engine]).plan(job)
    return plan


_first: set[Hashable] = set()


def first_seconds(kernel: Hashable, call: Callable[[], object]) -> float:
    """Make a ``call`` that compiles or loads a kernel; returns its seconds, or 0 if repeated.

    ``kernel`` identifies it in this process. The call is always made, because it prepares the
    shared data of a plan's runs; this is not part of the simulation time.
    """
    start = time.perf_counter()
    call()
    if kernel in _first:
        return 0.0
    _first.add(kernel)
    return time.perf_counter() - start
