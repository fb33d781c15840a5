"""What a problem with contexts is for each type or row, and over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from tightrope.errors import ProblemError
from tightrope.problem.arms import Arm, as_arms, means_of, row_columns
from tightrope.problem.contexts import Types, shares_of
from tightrope.problem.curves import ordered_arms
from tightrope.problem.features import RowFeatures
from tightrope.problem.named import Named
from tightrope.problem.tables import Moments
from tightrope.problem.values import Floats

if TYPE_CHECKING:
    from tightrope.problem.problem import Problem
    from tightrope.problem.task import Task


class ByType:
    """The part of a problem that is about types."""

    arms: Sequence[Arm]
    further: tuple[Sequence[Arm], ...]
    contexts: Named[float] | None
    features: RowFeatures | None
    names: Any
    _known: Task

    def _for_type(self, arms: Sequence[Arm]) -> Sequence[Arm]:
        """The arms of a type, checked, with their penalties in the order of the limits."""
        given = as_arms(arms)
        names = tuple(arm.name for arm in given)
        if names != tuple(self.names):
            raise ProblemError(f"arms = {list(names)}: must be {list(self.names)} for every type")
        return ordered_arms(given, self._known)

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
        plain["_known"] = replace(self._known, contexts=None)
        whole = cast("Problem", self)
        return tuple(whole._with(arms=arms, **plain) for arms in self.typed.values())

    @cached_property
    def over_rows(self) -> Task:
        """The problem's task over rows: see ``Task.over_rows``."""
        return cast("Problem", self).task.over_rows

    @cached_property
    def row_moments(self) -> Moments:
        """The moments of every row, ``type * K + arm``; those of the arms without contexts."""
        return cast("Problem", self).moments if self.contexts is None else self.row_moments_of()

    def row_moments_of(
        self, told: Iterable[Any] | None = None, arms: npt.ArrayLike | None = None
    ) -> Moments:
        """The moments of rows with other means of reported outcomes: [K, C], for each type.

        ``arms``: as for ``moments_of``.
        """
        parts = self._means_by_type(told, arms)
        if self.contexts is None:
            return self._moments(part[0] for part in parts)
        return self._moments(map(np.concatenate, parts), np.array(list(self.shares.values())))

    @cached_property
    def blind(self) -> Problem:
        """The problem without its features; itself without features."""
        problem = cast("Problem", self)
        return problem if self.features is None else replace(problem, features=None)

    @cached_property
    def request_moments(self) -> Moments:
        """The outcomes of every arm for each row that is drawn, [n * K], as of n types.

        Without features, the moments of the arms.
        """
        if self.features is None:
            return cast("Problem", self).moments
        told = [[one.values for one in row_columns(arm)] for arm in self.arms]  # [K, C, n]
        rows = np.array(told).transpose(2, 0, 1)
        found = self.moments_of(rows.reshape(-1, rows.shape[2]))
        return replace(found, shares=np.full(len(rows), 1.0 / len(rows)))

    def moments_of(self, told: npt.ArrayLike, arms: npt.ArrayLike | None = None) -> Moments:
        """The moments of arms with other means [K, C] of reported outcomes, in the user's units.

        ``arms``: which arm each line is of; by default all arms in turn, of one or more requests.
        """
        problem = cast("Problem", self)
        means = np.asarray(told, np.float64) / problem.told_scales
        which = np.arange(len(means)) % problem.arm_count if arms is None else np.asarray(arms)
        columns, constants = (one[which] for one in problem.columns)
        found = np.take_along_axis(means, np.maximum(columns, 0), axis=1)
        penalties = np.where(columns < 0, constants, found)[:, 2:].copy()
        return self._moments((means[:, 0].copy(), means[:, 1].copy(), penalties))

    def _require_rows(self) -> None:
        """Raise unless the arms draw as many rows as there are features."""
        if self.features is None:
            return
        if self.contexts is not None:
            raise ProblemError("features: must be none where arms have types; use Mixed")
        rows = len(self.features.rows)
        for arm in self.arms:
            found = row_columns(arm)
            if not found or len(found[0].values) != rows or found[0].weights is not None:
                allowed = f"draw {rows} equally likely rows, one for each row of features"
                raise ProblemError(f"arm {arm.name!r}: must {allowed}")
        last, most = len(self.arms) - 1, -1 if (a := self.features.pulled) is None else a.max()
        if most > last:
            raise ProblemError(f"contexts: pulled = {most}: must be at most {last}, the last arm")

    def _mean_moments(self) -> Moments:
        shares = list(self.shares.values())
        return self._moments(np.tensordot(shares, each, 1) for each in self._means_by_type())

    def _means_by_type(
        self, told: Iterable[Any] | None = None, arms: npt.ArrayLike | None = None
    ) -> list[list[Floats]]:
        """The mean costs, rewards and penalties, each by type, from those that are reported."""
        plain, names = self.by_type[0], ("cost", "reward", "penalty")
        given = map(means_of, self.typed.values()) if told is None else told
        found = [plain.moments_of(one, arms) for one in given]
        return [[getattr(one, name) for one in found] for name in names]

    def _moments(self, means: Iterable[Floats], shares: Floats | None = None) -> Moments:
        """The moments with these mean costs, rewards and penalties."""
        cost, reward, penalty = means
        limits, kinds = self._known.normal_limits, self._known.limit_kinds
        return Moments(cost, reward, penalty, limits, kinds, shares)

    @cached_property
    def distinct(self) -> tuple[Problem, list[int]]:
        """The problem with equal types merged, and the merged type of each type, [T].

        The merged types are sorted by their means, so the order of the types does not matter. If
        all types are equal, the problem is that of one type, without contexts.
        """
        groups: dict[Sequence[Arm], float] = {}
        for arms, share in zip(self.typed.values(), self.shares.values(), strict=True):
            groups[arms] = groups.get(arms, 0.0) + share
        if len(groups) <= 1:
            return self.by_type[0], [0] * len(self.shares)
        means = dict(
            zip(self.typed.values(), zip(*self._means_by_type(), strict=True), strict=True)
        )
        order = sorted(groups, key=lambda arms: [one.tolist() for one in means[arms]])
        first, *others = order
        place = {arms: at for at, arms in enumerate(order)}
        shares = Named(shares_of({f"type {at}": groups[arms] for arms, at in place.items()}))
        task = replace(self._known, contexts=Types(tuple(shares)))
        known: Any = {"contexts": shares, "_known": task}
        merged = cast("Problem", self)._with(arms=first, further=tuple(others), **known)
        return merged, [place[arms] for arms in self.typed.values()]


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
