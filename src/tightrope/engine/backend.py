"""What a backend gives the engine: a plan for one policy at one budget."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from tightrope.policies.base import Setup
from tightrope.results import Runs

__all__ = ["Numbers", "Plan", "Stop"]

Numbers = npt.NDArray[np.int64]  # run numbers
Stop = npt.NDArray[np.uint8]  # [1]: not 0 asks whatever is running to give up


class Plan(Protocol):
    """All that the runs of one policy at one budget share, ready to run any of them.

    A run depends on the seed and its number alone: which runs go into one call, on which thread
    and in which order changes nothing.
    """

    @property
    def backend(self) -> str:
        """The backend's name."""
        ...

    @property
    def setup(self) -> Setup:
        """The policy's own numbers for this budget."""
        ...

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
