"""A log: for each row the pulled arm, its outcome, and the probability of the choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tightrope.data.columns import sort_key
from tightrope.errors import InputError, nearest
from tightrope.problem import Space
from tightrope.problem.values import Floats, shown

if TYPE_CHECKING:
    from tightrope.data.tables import FullTable


def are_vectors(contexts: Any) -> bool:
    """Whether contexts are an array of features."""
    return isinstance(contexts, np.ndarray) and contexts.ndim == 2


def _is_pair(context: object) -> bool:
    return isinstance(context, tuple) and len(context) == 2 and isinstance(context[0], str)


def _as_vectors(contexts: Any) -> Any:
    """Features as an array, also from a data frame or rows of numbers; other contexts in a list."""
    if are_vectors(contexts) or contexts is None:
        return contexts
    frame = hasattr(contexts, "columns") and hasattr(contexts, "to_numpy")
    given = contexts.to_numpy() if frame else contexts
    given = given if isinstance(given, np.ndarray | list | tuple) else list(given)
    if not frame and (not len(given) or isinstance(given[0], str) or _is_pair(given[0])):
        return given
    try:
        made = np.array(given, np.float64)
    except (TypeError, ValueError):
        made = np.empty(0)
    if frame and made.ndim != 2:
        raise InputError(f"contexts = {type(contexts).__name__}: must be columns of numbers")
    return made if made.ndim == 2 else given


def checked_contexts(contexts: Any, rows: int, features: Sequence[str] = ()) -> Any:
    """The contexts; raises an ``InputError`` unless every row has one.

    It is the name of a type, a row of an array of features, or a pair of both. ``features``: the
    names of the features, if they have names.
    """
    if isinstance(contexts, str):
        raise InputError(f"contexts = {shown(contexts)}: must have one for each row")
    contexts = _as_vectors(contexts)
    if contexts is None and not features:
        return None
    if contexts is None or len(contexts) != rows:
        count = 0 if contexts is None else len(contexts)
        raise InputError(f"contexts: {count} must be {rows}, one for each row")
    if features and are_vectors(contexts) and contexts.shape[1] != len(features):
        raise InputError(f"features: {len(features)} names must be {contexts.shape[1]}")
    if are_vectors(contexts):
        if not np.isfinite(contexts).all():
            row, place = np.argwhere(~np.isfinite(contexts))[0].tolist()
            what = f"row {row + 1}, feature {place + 1} = {contexts[row, place]:g}"
            raise InputError(f"contexts: {what}: must be a finite number")
        return contexts
    pairs = rows > 0 and _is_pair(contexts[0])
    for row, one in enumerate(contexts, start=1):
        if not (_is_pair(one) if pairs else isinstance(one, str) and one):
            allowed = "a type and its features" if pairs else "the name of a type"
            raise InputError(f"contexts: row {row} has {shown(one)}; must be {allowed}")
    return contexts


def has_features(data: Log | FullTable) -> bool:
    """Whether the contexts are features, alone or beside types."""
    contexts = data.contexts
    return contexts is not None and (are_vectors(contexts) or isinstance(contexts[0], tuple))


def types_of(data: Log | FullTable) -> tuple[str, ...]:
    """The types of the rows, in the order of their names; none without contexts."""
    found: Any = () if data.contexts is None or has_features(data) else data.contexts
    return tuple(sorted({str(name) for name in found}, key=sort_key))  # an array has numpy's


def kinds_of(data: Log | FullTable, types: Sequence[str]) -> npt.NDArray[np.int64]:
    """The number of every row's type, [n]; 0 without contexts."""
    if data.contexts is None or not types:
        return np.zeros(len(data), np.int64)
    place = {name: kind for kind, name in enumerate(types)}
    return np.array([place[name] for name in data.contexts], np.int64)


def _those(contexts: Any, rows: Any) -> Any:
    """The contexts of some rows."""
    if contexts is None or are_vectors(contexts):
        return None if contexts is None else contexts[rows]
    return list(compress(contexts, rows))


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
    contexts: Any = None  # [n] the type of each request, [n, d] its features, or [n] pairs of both
    features: Sequence[str] = ()  # names of the features [d]; without names they are x1, x2, ...
    space: Space | None = None  # whose numbers the arms are, rounded to points of its grid

    def __post_init__(self) -> None:
        rows = len(self.chosen)
        if self.outcomes.shape != (2 + len(self.penalties), rows):
            allowed = f"be {(2 + len(self.penalties), rows)}"
            raise InputError(f"outcomes: shape {self.outcomes.shape} must {allowed}")
        if self.propensity is not None and self.propensity.shape != (rows,):
            raise InputError(f"propensity: shape {self.propensity.shape} must be {(rows,)}")
        made = checked_contexts(self.contexts, rows, self.features)
        object.__setattr__(self, "contexts", made)

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

    def without(self, *names: str) -> Log:
        """The log without the rows of some arms; propensities stay as they are."""
        for name in names:
            if name not in self.arms:
                known = nearest(name, self.arms)
                raise InputError(f"without = {shown(name)}: is not an arm; {known}")
        return self.only([k for k, name in enumerate(self.arms) if name not in names])

    def only(self, arms: Sequence[int]) -> Log:
        """The rows of some arms, which are renumbered; itself for all arms."""
        if len(arms) == len(self.arms):
            return self
        place = np.full(len(self.arms), -1)
        place[list(arms)] = np.arange(len(arms))
        chosen = place[self.chosen]
        rows = chosen >= 0
        return replace(
            self,
            arms=tuple(self.arms[k] for k in arms),
            chosen=chosen[rows],
            outcomes=np.ascontiguousarray(self.outcomes[:, rows]),
            propensity=None if self.propensity is None else self.propensity[rows],
            contexts=_those(self.contexts, rows),
        )

    def lines(self) -> tuple[npt.NDArray[np.int64], Floats, Any, Floats | None]:
        """Of every row the arm, the outcomes [n, 2 + M], the context, the propensity."""
        return self.chosen, self.outcomes.T, self.contexts, self.propensity

    def of_arm(self, arm: int) -> Floats:
        """The outcomes of an arm's rows, [2 + M, rows of that arm]."""
        return np.ascontiguousarray(self.outcomes[:, self.chosen == arm])
