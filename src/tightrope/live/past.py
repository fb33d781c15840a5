"""Learning from a log before the first decision: its rows count as pulls, with a weight.

The rows enter what is learned about the arms, and nothing else: no budget is spent, and no limit
is used up. A row with the weight w counts as w pulls, an outcome above its scale as the scale.
A log is learned from its sums (``PastSums``), which are all that a policy with any limits needs.
"""

from __future__ import annotations

from base64 import b85decode, b85encode
from collections.abc import Sequence
from io import BytesIO
from numbers import Real
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tightrope.errors import InputError
from tightrope.kernels.run_state import RunState
from tightrope.kernels.spec import CHOICE
from tightrope.live.rebuild import renew_terms
from tightrope.names import listed
from tightrope.policies.base import IndexPolicy, Policy, net_sum
from tightrope.problem import Task, Types
from tightrope.problem.values import Floats, Integers, shown

NOT_KEPT = "-"  # an event's text about lines that are not in the log


class PastSums(NamedTuple):
    """The lines of a log with the same arm and the same type of requests."""

    context: str | None
    arm: int
    sums: list[float]  # of w x_i x_j over the lines, for i <= j: their weight; 1 and the outcomes


class PastLines(NamedTuple):
    """The lines of a log with features, as an event has them."""

    arms: list[str]
    penalties: list[str]
    columns: list[Any]  # of the lines, as ``PastData.lines`` returns them
    weight: float

    @classmethod
    def of(cls, past: PastData, task: Task, weight: float) -> PastLines:
        """The lines of a log, checked; their features are in single precision."""
        weights_of_past(past, rows_of_past(past, task)[0], weight)
        arms, outcomes, contexts, propensity = past.lines()
        if contexts is None:
            raise InputError("learn_from: has no contexts, which the task needs")
        vectors = task.contexts.rows(contexts)  # type: ignore[union-attr]
        columns = [arms, outcomes, vectors, propensity]
        return cls(list(past.arms), list(past.penalties), columns, float(weight))

    def lines(self) -> Any:
        """As ``PastData.lines``."""
        return tuple(self.columns)

    def text(self) -> str:
        """As text, for an event."""
        file, given = BytesIO(), [one for one in self.columns if one is not None]
        np.savez_compressed(file, self.arms, self.penalties, self.weight, *given)
        return b85encode(file.getvalue()).decode()

    @classmethod
    def of_text(cls, text: str) -> PastLines:
        """The lines in a text."""
        with np.load(BytesIO(b85decode(text))) as file:
            arms, penalties, weight, *columns = (file[name] for name in file.files)
        return cls(arms.tolist(), penalties.tolist(), [*columns, None][:4], float(weight))


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
        found = shown(past) if isinstance(past, int | float | str) else type(past).__name__
        allowed = "a Log or a FullTable; tightrope.read_log makes one of a frame or a file"
        raise InputError(f"learn_from = {found}: must be {allowed}")
    names = list(task.names)
    for name in past.arms:
        if name not in names:
            raise InputError(f"learn_from: its arm {name!r} must be one of {listed(names, 8)}")
    for name in task.told_names:
        if name not in past.penalties:
            raise InputError(f"learn_from: has no penalty {name!r}, which the task limits")
    arms, given, contexts, _ = past.lines()
    arms = np.array([names.index(name) for name in past.arms])[arms]
    above = (given[:, :2] > task.scales.channels[:2]).mean(axis=0)  # cost and reward
    at = int(above.argmax())
    if above[at] > 0.1 and not task.scales.grow:
        name, most, found = ("cost", "reward")[at], task.scales.channels[at], given[:, at].max()
        raise InputError(
            f"learn_from: {name} = {found:g} is above its scale {most:g}, as in {above[at]:.0%} of"
            f" the rows; are the units the same? must be at most 10%; Scales({name}=...) sets it"
        )
    return arms, outcomes_of(task, arms, given, past.penalties), contexts


def outcomes_of(task: Task, arms: Integers, given: Floats, penalties: Sequence[str]) -> Floats:
    """The outcomes of lines in the order of the task's channels, [lines, 2 + M].

    ``arms`` [lines]: the task's. ``given``: cost, reward and the ``penalties`` of each line; the
    others are known, or follow from the cost or the reward.
    """
    found = np.empty((len(given), 2 + task.penalty_count))
    found[:, :2] = given[:, :2]
    for m, (name, limit) in enumerate(zip(task.limit_names, task.limit_kinds, strict=True)):
        if m in task.told:
            found[:, 2 + m] = given[:, 2 + list(penalties).index(name)]
        elif limit.of in ("cost", "reward"):
            found[:, 2 + m] = task.weights[arms, m] * given[:, ("cost", "reward").index(limit.of)]
        else:
            found[:, 2 + m] = task.known_outcomes[arms, 2 + m]
    return found


def past_sums(past: PastData, task: Task, weight: float) -> list[PastSums]:
    """The sums of a log, in the user's units."""
    arms, outcomes, contexts = rows_of_past(past, task)
    if not isinstance(task.contexts, Types) or contexts is None:
        names, kinds = [None], np.zeros(len(arms), np.int64)
    else:
        if wrong := [one for one in contexts if not isinstance(one, str)]:
            allowed = "must be a name; the task has types"
            raise InputError(f"learn_from: context = {shown(wrong[0])}: {allowed}")
        names = list(dict.fromkeys(contexts))
        kinds = np.array([names.index(name) for name in contexts], np.int64)
    rows, count = kinds * task.arm_count + arms, len(names) * task.arm_count
    weights = weights_of_past(past, rows, weight)
    columns = [np.ones(len(arms)), *np.minimum(outcomes, task.scales.channels).T]
    found = [
        np.bincount(rows, weights * one * other, minlength=count)
        for at, one in enumerate(columns)
        for other in columns[at:]
    ]
    return [
        PastSums(names[row // task.arm_count], row % task.arm_count, [float(s[row]) for s in found])
        for row in np.unique(rows).tolist()
    ]


def spread(sums: Sequence[PastSums], types: Types | None) -> list[PastSums]:
    """The sums for a task with these types: lines without a type count for each of them alike."""
    if types is None:
        return list(sums)
    names = types.names if types.missing is None else (types.missing,)
    found: list[PastSums] = []
    for one in sums:
        to = names if one.context is None else (one.context,)
        part = [number / len(to) for number in one.sums]
        found += [PastSums(name, one.arm, part) for name in to]
    return found


def learn_sums(
    state: RunState, policy: Policy, task: Task, rows: Sequence[int], sums: Sequence[PastSums]
) -> None:
    """Add the sums of a log to a state with a ``State``; ``rows``: the row of each."""
    units = np.array([1.0, *task.scales.channels])
    above = np.triu_indices(len(units))
    for row, one in zip(rows, sums, strict=True):
        matrix = np.zeros((len(units), len(units)))
        matrix[above] = one.sums
        matrix = np.maximum(matrix, matrix.T) / np.multiply.outer(units, units)
        _add(state, row, matrix)
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


def _add(state: RunState, row: int, matrix: Floats) -> None:
    """Add sums of products of 1 and the normalised outcomes to a row of the ``State``."""
    record = state.record
    count, limited = len(record.pulls), len(record.limits)
    record.pulls[row] += matrix[0, 0]
    record.totals.reshape(count, -1)[row, : 2 + limited] += matrix[0, 1 : 3 + limited]
    record.squares.reshape(count, -1)[row, : 2 + limited] += matrix.diagonal()[1 : 3 + limited]
    for m in range(limited):
        base, limit = float(record.bases[m]), float(record.limits[m])
        net = np.zeros(len(matrix))  # its factors of 1, the reward and the penalty
        net[0], net[2], net[3 + m] = (net_sum(base, limit, *one) for one in np.eye(3).tolist())
        record.products.reshape(count, -1)[row, m] += matrix[1] @ net
        record.net_squares.reshape(count, -1)[row, m] += max(net @ matrix @ net, 0.0)


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
