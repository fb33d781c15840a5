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

__all__ = ["PastData", "learn_past", "rows_of_past", "sums_of_lines", "weights_of_past"]

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


def rows_of_past(past: PastData, task: Task) -> tuple[npt.NDArray[np.int64], Floats, Any]:
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
    weights = weights_of_past(past, rows, weight)
    _, outcomes, _ = rows_of_past(past, task.whole)
    values = outcomes / np.array(task.scales.channels)
    _add(state, np.minimum(values, 1.0), rows, weights)
    kind: Any = type(policy)
    if state.spec.method == CHOICE:
        kind.renew(state.constants, state.record, state.scratch)
    elif isinstance(policy, IndexPolicy) and policy.learns:
        renew_terms(state, policy)


def weights_of_past(past: PastData, rows: Any, weight: float) -> Floats:
    """The weight of every line; with propensities, in proportion to their inverse in each row."""
    if not isinstance(weight, Real) or not 0.0 < float(weight) <= 1.0:
        raise InputError(f"weight = {shown(weight)}: must be above 0, at most 1")
    weight = float(weight)
    *_, propensity = past.lines()
    if propensity is None:
        return np.full(len(rows), weight)
    inverse = 1.0 / propensity
    count, total = np.bincount(rows), np.bincount(rows, inverse)
    return np.asarray(np.minimum(weight * inverse * (count / np.maximum(total, 1e-300))[rows], 1.0))


def sums_of_lines(state: RunState, values: Floats, weights: Floats) -> dict[str, Floats]:
    """What every line adds to its row of the ``State``, [lines, ...], by the names of its fields.

    ``values`` [lines, 2 + M]: normalised outcomes.
    """
    record, each = state.record, weights[:, np.newaxis]
    nets = [
        net_sum(float(base), float(limit), 1.0, *values[:, [1, 2 + m]].T)
        for m, (base, limit) in enumerate(zip(record.bases, record.limits, strict=True))
    ]
    net = np.array(nets).reshape(-1, len(values)).T
    return {
        "pulls": each,
        "totals": each * values,
        "squares": each * (values * values),
        "products": each * (values[:, :1] * net),
        "net_squares": each * (net * net),
    }


def _add(state: RunState, values: Floats, rows: Any, weights: Floats) -> None:
    """Add outcomes [lines, 2 + M] to the rows of the ``State``."""
    for name, added in sums_of_lines(state, values, weights).items():
        field = getattr(state.record, name).reshape(len(state.record.pulls), -1)
        for column, numbers in enumerate(added.T):
            field[:, column] += np.bincount(rows, numbers, minlength=len(field))
