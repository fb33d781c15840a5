"""Outcomes that are reported late or never: the delays of a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tightrope.errors import InputError
from tightrope.kernels.moving import DELAYS, Rules
from tightrope.problem import Problem
from tightrope.problem.outcomes import ContinuousLaw, FiniteLaw, Law
from tightrope.problem.values import shown

LONGEST = 10**6  # decisions


@dataclass(frozen=True)
class Delays:
    """When outcomes are reported: ``table`` has equally likely delays, ``lost`` is the share lost.

    A delay is the number of decisions that are made before an outcome is reported.
    """

    table: tuple[int, ...] = (0,)
    lost: float = 0.0

    @property
    def any(self) -> bool:
        """Whether some outcome is reported late or never."""
        return bool(self.lost) or any(self.table)

    @property
    def slots(self) -> int:
        """One more than the longest delay."""
        return 1 + max(self.table)

    def rules(self, problem: Problem, rows: int) -> Rules:
        """For kernels; ``rows``: how many a policy chooses among, the arms if it uses no types."""
        table = np.resize(np.array(self.table, np.float64), DELAYS)
        return Rules(
            table, np.int64(self.lost * 2.0**32), np.int64(self.slots), stand_ins_of(problem, rows)
        )


AT_ONCE = Delays()


def delays_of(delay: object, lost: object) -> Delays:
    """The delays for a number of decisions or a distribution, and the share of lost outcomes."""
    number = isinstance(lost, int | float) and not isinstance(lost, bool)
    if not number or not 0.0 <= lost < 1.0:  # type: ignore[operator]
        raise InputError(f"lost = {shown(lost)}: must be a share from 0 to below 1")
    if isinstance(delay, Law):
        table = _quantiles(delay)
        good = bool((table >= 0.0).all())
    else:
        whole = isinstance(delay, int | float | np.integer) and not isinstance(delay, bool)
        good = whole and delay >= 0 and delay == int(delay)  # type: ignore[operator, call-overload]
        table = np.array([float(delay)]) if good else np.zeros(1)  # type: ignore[arg-type]
    if not good or table.max() > LONGEST:
        allowed = (
            f"a whole number of decisions from 0 to {LONGEST:,}, or a distribution of such numbers"
        )
        raise InputError(f"delay = {shown(delay)}: must be {allowed}")
    return Delays(tuple(np.rint(table).astype(int).tolist()), float(lost))  # type: ignore[arg-type]


def _quantiles(law: Law) -> Any:
    """Equally likely values that represent a distribution."""
    chances = (np.arange(DELAYS) + 0.5) / DELAYS
    if isinstance(law, ContinuousLaw):
        return np.asarray(law.quantile(chances))
    assert isinstance(law, FiniteLaw)
    values, odds = (np.asarray(part, float) for part in law.points())
    order = np.argsort(values)
    at = np.searchsorted(np.cumsum(odds[order]), chances)
    return values[order][np.minimum(at, len(values) - 1)]


def stand_ins_of(problem: Problem, rows: int) -> Any:
    """Each row's number, or that of its stand-in, in every phase [J * K]."""
    found = []
    for away in problem.absences:
        there = [k for k in range(rows) if k not in away]
        found.append([k if k not in away else there[k % len(there)] for k in range(rows)])
    return np.array(found, np.float64).ravel()
