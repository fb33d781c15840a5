"""The distributions of a problem's outcomes, for all phases, in the form that kernels read."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.kernels.step import packed
from tightrope.policies.base import Policy
from tightrope.problem import Problem, Tables


def phase_laws(problem: Problem, *, cells: bool = False) -> Any:
    """Thresholds [J * K * C] if all outcomes are 0 or 1, or tables of cells: see ``packed``.

    With ``cells``, always tables. With contexts, types take the place of phases.

    Letters: J phases, K arms, C = 2 + M channels for M penalties. M is at least 1 here: a problem
    without limits gets a penalty that is always 0.
    """
    phases = [phase.problem for phase in problem.phases]
    if problem.contexts is not None:
        phases = list(problem.by_type)
    odds = [one.bernoulli() for one in phases]
    if cells or any(one is None for one in odds):
        return _cells([one.tables() for one in phases])
    return _thresholds(np.concatenate(odds))  # type: ignore[arg-type]


def requests_of(problem: Problem, policy: Policy) -> npt.NDArray[np.float64]:
    """The cumulative shares of the types, [T]; empty without contexts.

    Of a policy that uses features, what it sees of each row, [n * D].
    """
    if policy.contextual and problem.features is not None:
        return problem.features.columns.reshape(-1)
    return np.cumsum(list(problem.shares.values()), dtype=np.float64)


def _thresholds(odds: npt.NDArray[np.float64]) -> npt.NDArray[np.int32]:
    """31-bit thresholds: the outcome is 1 if the word is at most the threshold; -1 is never."""
    if odds.shape[1] == 2:
        odds = np.column_stack([odds, np.zeros(len(odds))])
    whole = np.rint(odds * 2.0**31).astype(np.int64) - 1
    return whole.astype(np.int32).reshape(-1)


def _cells(tables: list[Tables]) -> tuple[npt.NDArray[Any], ...]:
    shifts = np.cumsum([0, *(len(one.split) for one in tables[:-1])])
    offset = np.concatenate([one.offset + s for one, s in zip(tables, shifts, strict=True)])
    count, source = (
        np.concatenate([getattr(one, n) for one in tables]) for n in ("count", "source")
    )
    values = [
        np.concatenate([getattr(one, name) for one in tables])
        for name in ("split", "first", "second", "slope")
    ]
    if count.shape[1] == 2:
        nothing = np.full((len(count), 1), len(values[0]))
        count = np.hstack([count, np.ones_like(nothing)])
        offset = np.hstack([offset, nothing])
        source = np.hstack([source, np.full_like(nothing, 2)])
        values = [np.append(column, 0.0) for column in values]
    return packed(count, offset, source, *values)
