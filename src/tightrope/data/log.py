"""A log: which arm was pulled, row by row, what came of it, and how likely the choice was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tightrope.errors import InputError
from tightrope.problem.values import Floats

__all__ = ["Log"]


@dataclass(frozen=True, eq=False)
class Log:
    """Rows of pulls, in the order in which they happened, in the user's units.

    Letters: n rows, K arms, M penalties.

    >>> outcomes = np.array([[1.0, 2.0, 1.5], [0.4, 0.9, 0.6], [0, 1, 0]])  # cost, reward, bad
    >>> log = Log(["small", "large"], ["bad"], np.array([0, 1, 0]), outcomes)
    >>> len(log), log.counts.tolist(), log.channels
    (3, [2, 1], ('cost', 'reward', 'bad'))
    """

    arms: Sequence[str]  # names [K]
    penalties: Sequence[str]  # names [M]
    chosen: npt.NDArray[np.int64]  # [n]: the number of the arm that was pulled, from 0
    outcomes: Floats  # [2 + M, n]: cost, reward, penalties
    propensity: Floats | None = None  # [n] in (0, 1]: how likely the logger was to pull that arm

    def __post_init__(self) -> None:
        rows = len(self.chosen)
        if self.outcomes.shape != (2 + len(self.penalties), rows):
            allowed = f"be {(2 + len(self.penalties), rows)}"
            raise InputError(f"outcomes: shape {self.outcomes.shape} must {allowed}")
        if self.propensity is not None and self.propensity.shape != (rows,):
            raise InputError(f"propensity: shape {self.propensity.shape} must be {(rows,)}")

    def __len__(self) -> int:
        return len(self.chosen)

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of the outcomes, [2 + M]."""
        return ("cost", "reward", *self.penalties)

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """The rows of every arm, [K]."""
        return np.bincount(self.chosen, minlength=len(self.arms))

    def of_arm(self, arm: int) -> Floats:
        """The outcomes of an arm's rows, [2 + M, rows of that arm]."""
        return np.ascontiguousarray(self.outcomes[:, self.chosen == arm])
