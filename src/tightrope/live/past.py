"""Learning from a log before the first decision: its rows count as pulls, with a weight.

The rows enter what is learned about the arms, and nothing else: no budget is spent, and no limit
is used up. A row with the weight w counts as w pulls, an outcome above its scale as the scale.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tightrope.errors import InputError
from tightrope.kernels.run_state import RunState
from tightrope.kernels.spec import CHOICE
from tightrope.live.rebuild import renew_terms
from tightrope.policies.base import IndexPolicy, Policy, net_sum
from tightrope.problem import Task
from tightrope.problem.values import shown

__all__ = ["PastData", "learn_past", "rows_of_past"]

Floats = npt.NDArray[np.float64]


class PastData(Protocol):
    """A log or a table, as far as it is learned from."""

    @property
    def arms(self) -> Any:
        """The names of the arms, [K]."""

    @property
    def penalties(self) -> Any:
        """The names of the penalties, [M]."""

    def lines(self) -> tuple[npt.NDArray[np.int64], Floats, Any, Floats | None]:
        """Of every line the arm, the outcomes [lines, 2 + M], the context, the propensity."""


def rows_of_past(
    past: PastData, task: Task
) -> tuple[npt.NDArray[np.int64], Floats, list[str] | None]:
    """The arm, the outcomes in the order of the task's channels, and the contexts of every line.

    Raises an ``InputError`` where the log's arms or penalties do not fit the task.
    """
    if not callable(getattr(past, "lines", None)):
        raise InputError(f"learn_from = {shown(past)}: must be a Log or a FullTable")
    names = list(task.names)
    for name in past.arms:
        if name not in names:
            raise InputError(f"learn_from: its arm {name!r} must be one of {', '.join(names)}")
    for name in task.told_names:
        if name not in past.penalties:
            raise InputError(f"learn_from: has no penalty {name!r}, which the task limits")
    arms, given, contexts, _ = past.lines()
    arms = np.array([names.index(name) for name in past.arms])[arms]
    outcomes = np.empty((len(arms), 2 + task.penalty_count))
    outcomes[:, :2] = given[:, :2]
    for m, (name, limit) in enumerate(zip(task.limit_names, task.limit_kinds, strict=True)):
        if m in task.told:
            outcomes[:, 2 + m] = given[:, 2 + list(past.penalties).index(name)]
        elif limit.of in ("cost", "reward"):
            source = given[:, ("cost", "reward").index(limit.of)]
            outcomes[:, 2 + m] = task.weights[arms, m] * source
        else:
            outcomes[:, 2 + m] = task.known_outcomes[arms, 2 + m]
    return arms, outcomes, contexts


def learn_past(
    state: RunState, policy: Policy, task: Task, past: PastData, rows: Any, weight: float
) -> None:
    """Add the lines of a log to a state with a ``State``; ``rows``: the row of each line."""
    if not isinstance(weight, Real) or not 0.0 < float(weight) <= 1.0:
        raise InputError(f"weight = {shown(weight)}: must be above 0, at most 1")
    _, outcomes, _ = rows_of_past(past, task.whole)
    values = outcomes / np.array(task.scales.channels)
    _add(state, np.minimum(values, 1.0), rows, _weights(past, rows, float(weight)))
    kind: Any = type(policy)
    if state.spec.method == CHOICE:
        kind.renew(state.constants, state.record, state.scratch)
    elif isinstance(policy, IndexPolicy) and policy.learns:
        renew_terms(state, policy)


def _weights(past: PastData, rows: Any, weight: float) -> Floats:
    """The weight of every line; with propensities, in proportion to their inverse in each row."""
    *_, propensity = past.lines()
    if propensity is None:
        return np.full(len(rows), weight)
    inverse = 1.0 / propensity
    count, total = np.bincount(rows), np.bincount(rows, inverse)
    return np.asarray(np.minimum(weight * inverse * (count / np.maximum(total, 1e-300))[rows], 1.0))


def _add(state: RunState, values: Floats, rows: Any, weights: Floats) -> None:
    """Add outcomes [lines, 2 + M] to the rows of the ``State``."""
    record = state.record
    count, limited = len(record.pulls), len(record.limits)

    def summed(column: Floats) -> Floats:
        return np.asarray(np.bincount(rows, weights * column, minlength=count), np.float64)

    record.pulls[:] += summed(np.ones(len(rows)))
    for channel in range(2 + limited):
        column = values[:, channel]
        record.totals.reshape(count, -1)[:, channel] += summed(column)
        record.squares.reshape(count, -1)[:, channel] += summed(column * column)
    for m in range(limited):
        base, limit = float(record.bases[m]), float(record.limits[m])
        net: Any = net_sum(base, limit, 1.0, *values[:, [1, 2 + m]].T)
        record.products.reshape(count, -1)[:, m] += summed(values[:, 0] * net)
        record.net_squares.reshape(count, -1)[:, m] += summed(net * net)
