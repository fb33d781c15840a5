"""What a problem with types of requests is for each type, and over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tightrope.errors import ProblemError
from tightrope.problem.arms import Arm, as_arms, in_order
from tightrope.problem.named import Named
from tightrope.problem.tables import Moments

if TYPE_CHECKING:
    from tightrope.problem.problem import Problem
    from tightrope.problem.task import Task

__all__ = ["ByType", "arms_by_type"]


class ByType:
    """The part of a problem that is about types."""

    arms: Sequence[Arm]
    further: tuple[Sequence[Arm], ...]
    contexts: Named[float] | None
    names: Any
    _known: Task

    def _for_type(self, arms: Sequence[Arm]) -> Sequence[Arm]:
        """The arms of a type, checked, with their penalties in the order of the limits."""
        given = as_arms(arms)
        names = tuple(arm.name for arm in given)
        if names != tuple(self.names):
            raise ProblemError(f"arms = {list(names)}: must be {list(self.names)} for every type")
        return in_order(given, self._known)

    @property
    def shares(self) -> Mapping[str, float]:
        """How often each type comes; empty without contexts."""
        return self.contexts or {}

    @property
    def typed(self) -> dict[str, Sequence[Arm]]:
        """The arms of each type; empty without contexts."""
        return dict(zip(self.shares, (self.arms, *self.further), strict=False))

    @cached_property
    def by_type(self) -> tuple[Problem, ...]:
        """The problem of each type alone, [T]; itself without contexts."""
        if self.contexts is None:
            return (cast("Problem", self),)
        plain: Any = {"contexts": None, "further": ()}
        return tuple(replace(cast(Any, self), arms=arms, **plain) for arms in self.typed.values())

    def _mean_moments(self) -> Moments:
        shares, each = list(self.shares.values()), [one.moments for one in self.by_type]
        means = (
            np.tensordot(shares, [getattr(one, name) for one in each], 1)
            for name in ("cost", "reward", "penalty")
        )
        cost, reward, penalty = means
        return Moments(cost, reward, penalty, self._known.normal_limits, self._known.limit_kinds)


def arms_by_type(
    arms: Any, further: Sequence[Sequence[Arm]], shares: Named[float] | None
) -> tuple[Any, Sequence[Sequence[Arm]]]:
    """The arms of the first type, and those of the others, in the order of the shares."""
    if shares is None:
        if isinstance(arms, Mapping):
            raise ProblemError("contexts: must say how often each type of the arms comes")
        return arms, ()
    if not isinstance(arms, Mapping):
        return arms, further
    if set(arms) != set(shares):
        raise ProblemError(f"arms: types = {list(arms)}: must be those of contexts, {list(shares)}")
    first, *others = (arms[name] for name in shares)
    return first, others
