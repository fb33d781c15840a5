"""What a backend gives the engine, and the backends by name: a new one is a file and a line."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from tightrope.compiled import compilations
from tightrope.results import Runs

if TYPE_CHECKING:
    from tightrope.engine.job import Job

__all__ = ["ENGINES", "Numbers", "Plan", "Stop", "compile_seconds", "plan_of"]

Numbers = npt.NDArray[np.int64]  # run numbers
Stop = npt.NDArray[np.uint8]  # [1]: not 0 asks whatever is running to give up

# What makes runs here, by name: modules with ``plan(job) -> Plan``, imported when first asked for.
ENGINES = {
    "cpu": "tightrope.engine.cpu",
    "gpu": "tightrope.engine.gpu",
    "python": "tightrope.engine.python",
}


class Plan(Protocol):
    """All that the runs of one job share, ready to run any of them.

    A run depends on the seed and its number alone: which runs go into one call, on which thread
    and in which order changes nothing.
    """

    @property
    def chunk(self) -> int:
        """How many runs make a unit of work."""
        ...

    def compile(self) -> float:
        """Compile what is not compiled yet; the seconds of compiling, 0 if there was nothing to."""
        ...

    def run(self, runs: Numbers, stop: Stop) -> tuple[Runs | None, float]:
        """The runs and the seconds they took; None if ``stop[0]`` was set before the end."""
        ...


def plan_of(job: Job) -> Plan:
    """The plan of the job's engine."""
    plan: Plan = import_module(ENGINES[job.engine]).plan(job)
    return plan


def compile_seconds(kernel: Any, call: Callable[[], object]) -> float:
    """Call something for the first time; the seconds that it took if ``kernel`` was compiled."""
    before, start = compilations(kernel), time.perf_counter()
    call()
    return time.perf_counter() - start if compilations(kernel) > before else 0.0
