"""Tables of outcomes: every arm's outcome in every row; tasks and problems from data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.data.columns import sort_key
from tightrope.data.completion import completed
from tightrope.data.fitting import arms_of, scales_of
from tightrope.data.fitting import problem_of as problem_of_log
from tightrope.data.log import Log, are_vectors, checked_contexts, types_of
from tightrope.errors import InputError
from tightrope.problem import Features, Mixed, Problem, Scales, Space, Task, Types
from tightrope.problem.features import RowFeatures
from tightrope.problem.limits import Kind
from tightrope.problem.meaning import check_limits_of_data
from tightrope.problem.named import Named, check_names
from tightrope.problem.values import Floats, shown

Limits = Mapping[str, float | str | Kind]


@dataclass(frozen=True, eq=False)
class FullTable:
    """The outcome of every arm in every row, as if all arms had been pulled, in the user's units.

    ``arms`` can be an :class:`Interval` or a box, kept as ``space``: its points are the arms.
    Letters: n rows, K arms, M penalties.

    >>> table = FullTable(["small", "large"], ["bad"], [[(1, 0.5, 1), (3, 0.9, 0)],
    ...                                                 [(1, 0.7, 0), (4, 0.8, 0)]])
    >>> len(table), table.outcomes.shape
    (2, (2, 2, 3))
    """

    arms: Any  # names [K], all different, or a space; kept as names
    penalties: Sequence[str]  # names [M]
    outcomes: Floats  # [n, K, 2 + M]: cost, reward, penalties; finite, at least 0
    contexts: Any = None  # [n] the type of each row, [n, d] its features, or [n] pairs of both
    features: Sequence[str] = ()  # names of the features [d]; without names they are x1, x2, ...
    space: Space | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.__dict__["space"] = self.arms if isinstance(self.arms, Space) else None
        object.__setattr__(self, "arms", tuple(self.arms))
        object.__setattr__(self, "penalties", tuple(self.penalties))
        check_names(self.arms)
        try:
            found = np.ascontiguousarray(self.outcomes, np.float64)
        except (TypeError, ValueError):
            allowed = "numbers [rows, arms, 2 + penalties]"
            raise InputError(f"outcomes = {shown(self.outcomes)}: must be {allowed}") from None
        inner = (len(self.arms), 2 + len(self.penalties))
        if found.ndim != 3 or found.shape[1:] != inner or not len(found):
            raise InputError(
                f"outcomes: shape {found.shape} must be (rows, {inner[0]}, {inner[1]})"
            )
        rows = np.repeat(np.arange(len(found)), len(self.arms))
        chosen = np.tile(np.arange(len(self.arms)), len(found))
        require_outcomes(self, found.reshape(-1, inner[1]), rows, chosen)
        object.__setattr__(self, "outcomes", found)
        contexts = checked_contexts(self.contexts, len(found), self.features)
        if contexts is not None and not are_vectors(contexts):
            contexts = tuple(contexts)
        object.__setattr__(self, "contexts", contexts)

    def lines(self) -> tuple[npt.NDArray[np.int64], Floats, Any, None]:
        """Of every row and arm the arm, the outcomes [n K, 2 + M], the context; no propensity."""
        count = len(self.arms)
        arms = np.tile(np.arange(count), len(self))
        contexts: Any = None
        if self.contexts is not None:
            contexts = [one for one in self.contexts for _ in range(count)]
            if are_vectors(self.contexts):
                contexts = np.repeat(self.contexts, count, axis=0)
        return arms, self.outcomes.reshape(-1, len(self.channels)), contexts, None

    def as_log(self) -> Log:
        """The table in its long form, a log with a line for every row and arm."""
        chosen, outcomes, contexts, _ = self.lines()
        more = (None, contexts, self.features)
        return Log(self.arms, self.penalties, chosen, outcomes.T, *more, space=self.space)

    def __len__(self) -> int:
        return len(self.outcomes)

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of the outcomes, [2 + M]."""
        return ("cost", "reward", *self.penalties)

    @classmethod
    def from_long(cls, row: npt.ArrayLike, log: Log) -> FullTable:
        """The table from its long form, a log with one line per row and arm.

        All lines of a row have the same context. ``row`` [n K]: the row's identifier, numbers or
        texts; rows are in order of their first line.

        >>> outcomes = np.array([[1.0, 2.0, 2.0, 1.0], [5.0, 6.0, 8.0, 7.0]])
        >>> log = Log(["a", "b"], [], np.array([0, 1, 1, 0]), outcomes)
        >>> FullTable.from_long(["x", "x", "y", "y"], log).outcomes[:, :, 1].tolist()
        [[5.0, 6.0], [7.0, 8.0]]
        """
        ids = np.asarray(row)
        if ids.shape != (len(log),):
            raise InputError(f"row: shape {ids.shape} must be {(len(log),)}")
        names, first, at = np.unique(ids, return_index=True, return_inverse=True)
        order = np.empty(len(names), np.int64)
        order[np.argsort(first)] = np.arange(len(names))
        count = len(log.arms)
        place = order[at] * count + log.chosen
        lines = np.bincount(place, minlength=len(names) * count)
        if (lines != 1).any():
            wrong = int(np.flatnonzero(lines != 1)[0])
            name = names[np.argsort(first)[wrong // count]]
            raise InputError(
                f"row {name}, arm {log.arms[wrong % count]!r}: {lines[wrong]} lines; a table has"
                " exactly one for every row and arm"
            )
        outcomes = np.empty((len(lines), len(log.channels)))
        outcomes[place] = log.outcomes.T
        table = outcomes.reshape(len(names), count, -1)
        contexts = _contexts_of_rows(log, place, names[np.argsort(first)])
        return cls(log.arms, log.penalties, table, contexts, log.features)


def completed_log(log: Log, whole: Log) -> tuple[FullTable, npt.NDArray[np.int64]]:
    """A table of the requests of a log with features, and the arm that was pulled in each.

    ``whole``: the log with the rows of all arms; those of arms that ``log`` lacks count as -1.
    """
    names = list(log.arms if log.space is None else log.space)
    places = [names.index(one) if one in names else -1 for one in whole.arms]
    pulled, stream = np.array(places)[whole.chosen], np.random.default_rng(0)
    seen = (vectors_of(whole), pulled, whole.outcomes.T)
    outcomes = completed(*seen, len(names), stream, log.space)
    arms = log.space or names
    return FullTable(arms, log.penalties, outcomes, whole.contexts, log.features), pulled


def _contexts_of_rows(log: Log, place: Any, names: Any) -> Any:
    """The context of each row of a table; ``place`` [n K]: of a line, its row times K plus arm."""
    if log.contexts is None:
        return None
    vectors = are_vectors(log.contexts)
    given = list(map(tuple, log.contexts.tolist())) if vectors else list(log.contexts)
    lines, count = np.argsort(place).tolist(), len(log.arms)
    found = [given[line] for line in lines[::count]]
    for at, line in enumerate(lines):
        if given[line] != found[at // count]:
            one, other = shown(found[at // count]), shown(given[line])
            allowed = "all lines of a row must have one context"
            raise InputError(f"row {names[at // count]}: has {one} and {other}; {allowed}")
    return np.array(found) if vectors else found


def require_data(data: object) -> None:
    """Raise unless ``data`` can be replayed."""
    if not isinstance(data, Log | FullTable):
        allowed = "a FullTable or a Log; tightrope.read_log makes one of a frame or a file"
        raise InputError(f"data = {type(data).__name__}: must be {allowed}")


def require_outcomes(data: Log | FullTable, outcomes: Floats, rows: Any, chosen: Any) -> None:
    """Raise for the first outcome [lines, 2 + M] that is not a finite number from 0 up.

    ``rows``, ``chosen`` [lines]: the row, from 0, and the arm of each line.
    """
    wrong = ~(np.isfinite(outcomes) & (outcomes >= 0.0))
    if not wrong.any():
        return
    line, channel = (int(found[0]) for found in np.nonzero(wrong))
    raise InputError(
        f"row {int(rows[line]) + 1}, arm {data.arms[int(chosen[line])]!r},"
        f" {data.channels[channel]} = {outcomes[line, channel]:g}: must be a finite number, at"
        " least 0"
    )


def _contexts_of(data: Log | FullTable) -> Types | Features | Mixed | None:
    """The features of the rows, or their types, or both."""
    if data.contexts is None:
        return None
    if are_vectors(data.contexts):
        return Features(data.features or data.contexts.shape[1])
    if isinstance(data.contexts[0], tuple):
        kinds, vectors = zip(*data.contexts, strict=True)
        names = tuple(sorted(set(kinds), key=sort_key))
        return Mixed(names, data.features or len(vectors[0]))
    return Types(types_of(data))


def vectors_of(data: Log | FullTable) -> npt.NDArray[np.float32]:
    """The columns of the features of every row, [n, columns - 1]; none without features."""
    contexts = _contexts_of(data)
    if isinstance(contexts, Features | Mixed):
        return contexts.rows(data.contexts)
    return np.zeros((len(data), 0), np.float32)


def task_of(
    data: Log | FullTable, limits: Limits | None = None, scales: Scales | None = None
) -> Task:
    """The task of the arms in the data, with these limits on its penalties, by name.

    The scales default to the largest outcomes in the data, rounded up.

    >>> table = FullTable(["small", "large"], ["bad"], [[(1, 0.5, 1), (4, 0.9, 0)]])
    >>> task_of(table, {"bad": "10% per pull"}).scales.cost
    4.0
    """
    limits = limits or {}
    if scales is None:
        axes = (0, 1) if isinstance(data, FullTable) else 1
        own = [name for name in data.penalties if name in limits]
        scales = scales_of(data.channels, data.outcomes.max(axis=axes).tolist(), own)
        task = Task(data.arms, Named(limits), scales, contexts=_contexts_of(data), space=data.space)
        check_limits_of_data(task, limits)
    else:
        task = Task(data.arms, limits, scales, contexts=_contexts_of(data), space=data.space)
    for name in task.told_names:
        if name not in data.penalties:
            known = ", ".join(map(repr, data.penalties)) or "none"
            raise InputError(f"limit {name!r}: the data has no such penalty; known: {known}")
    return task


def problem_of(
    data: Log | FullTable,
    limits: Limits | None = None,
    scales: Scales | None = None,
    name: str = "",
    pulled: npt.NDArray[np.int64] | None = None,
    caveat: str = "",
) -> Problem:
    """The problem whose arms draw the data's rows, with replacement.

    With types, the type of a request is that of a row, and an arm draws the rows of that type. With
    features, a request is a row: its features, and the outcome of every arm.
    All arms of a table draw the same row with the same random number. Rows of a log with
    propensities are drawn with probabilities proportional to 1 / propensity. ``pulled``: of a table
    that a log was completed to, see ``RowFeatures``.

    >>> table = FullTable(["small", "large"], ["bad"], [[(1, 0.5, 1), (3, 0.9, 0)],
    ...                                                 [(1, 0.7, 0), (4, 0.8, 0)]])
    >>> problem_of(table, {"bad": "10% per pull"}).arms[1].cost.mean
    3.5
    """
    task = task_of(data, limits, scales)
    if isinstance(data, Log):
        return problem_of_log(data, task.limits, scales=task.scales, name=name)
    log, features = data.as_log(), None
    if isinstance(task.contexts, Features | Mixed):
        features = RowFeatures(task.contexts, vectors_of(data), pulled)
    arms, shares = arms_of(log, task.told_names, log)
    more: Any = {"contexts": shares, "features": features, "caveat": caveat, "space": data.space}
    return Problem(arms, limits=task.limits, scales=task.scales, name=name, **more)
