"""Controllers whose arms are numbers: ``ask()`` returns a number, ``tell(1.37, ...)`` takes one.

Everything below these classes sees the points of the grid as arms. A campaign stores the places of
points, from 0, and uses a :class:`PointController`. With types or features of requests, each class
also takes the ``context`` of a :class:`~tightrope.live.typed.TypedController` or a
:class:`~tightrope.live.featured.FeaturedController`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tightrope.errors import InputError
from tightrope.live.controller import Controller, Penalty
from tightrope.live.featured import FeaturedController
from tightrope.live.typed import TypedController
from tightrope.problem import Space
from tightrope.problem.spaces import Value


class GridController(Controller):
    """A controller over the grid of an interval or a box: no arm comes or goes."""

    @property
    def space(self) -> Space:
        """The interval or box."""
        return cast(Space, self.task.space)

    def add_arm(self, name: str, **facts: Any) -> int:
        """Not available: the arms are the numbers of the space."""
        raise InputError(f"arm {name!r}: cannot be added to {self.space!r}")

    def retire_arm(self, arm: Any) -> None:
        """Not available: use ``eligible`` to leave numbers out."""
        raise InputError(f"{self.space!r}: no number can be retired; use eligible for each request")

    def reprice(
        self, arm: Any, *, cost: float | None = None, penalty: Mapping[str, float] | None = None
    ) -> None:
        """As ``Controller.reprice``, for the nearest point of the grid."""
        super().reprice(self.space.number_of(arm), cost=cost, penalty=penalty)


class SpacedController(GridController):
    """A :class:`Controller` whose task has an ``Interval`` or a ``Box`` of arms."""

    def _rows(self, eligible: object) -> list[int] | None:
        return None if eligible is None else self.space.within(eligible)

    def ask(self, eligible: Any = None, context: Any = None) -> Any:
        """The number to try next; a tuple in a box. It is in flight until reported or voided.

        ``eligible``: a range, such as (0.5, 2.0), or ranges by name.
        """
        return self.space.value(super().ask(self._rows(eligible), context))

    def tell(
        self,
        arm: Any,
        cost: float | None = None,
        reward: float | None = None,
        penalty: Penalty = None,
        context: object = None,
    ) -> None:
        """Report the outcomes of a number; they count for the nearest point of the grid."""
        super().tell(self.space.number_of(arm), cost, reward, penalty, context=context)

    def void(self, arm: Any, *, context: object = None) -> None:
        """Cancel a number that was asked for and not used."""
        super().void(self.space.number_of(arm), context=context)

    def arm_name(self, arm: Any) -> str:
        """The name of the nearest point of the grid."""
        return self.task.names[self.space.number_of(arm)]

    @property
    def tried(self) -> dict[Value, int]:
        """How often each number was tried and reported, for numbers that were."""
        return {self.space.value(k): count for k, count in enumerate(self.pulls) if count}


class PointController(GridController):
    """A controller over an interval or a box whose methods take and return places, from 0."""

    def __new__(cls, task: Any = None, *_: Any, **__: Any) -> Any:
        """Of this class."""
        return object.__new__(cls)

    @classmethod
    def _made_for(cls, task: Any) -> Any:
        """Another controller, if the task's arms are not numbers, or have types only now."""
        made = by_place(task)
        return made.__new__(made, task)

    def number_of(self, arm: Any) -> int:
        """The place of a point: its place itself, or the one nearest to a number."""
        return super().number_of(arm) if isinstance(arm, int) else self.given_number(arm)

    def given_number(self, arm: Any) -> int:
        """The place of the point nearest to a number."""
        return self.space.number_of(arm)

    def numbers_of(self, eligible: Any) -> tuple[int, ...]:
        """The places of the points in a range."""
        return tuple(self.space.within(eligible))


class TypedSpacedController(SpacedController, TypedController):
    """A :class:`SpacedController` for requests with types."""


class TypedPointController(PointController, TypedController):
    """A :class:`PointController` for requests with types."""


class FeaturedSpacedController(SpacedController, FeaturedController):
    """A :class:`SpacedController` for requests with features."""


class FeaturedPointController(PointController, FeaturedController):
    """A :class:`PointController` for requests with features."""


BY_NUMBER = (SpacedController, TypedSpacedController, FeaturedSpacedController)
BY_PLACE = (PointController, TypedPointController, FeaturedPointController)


def by_number(stated: Any) -> type[Controller]:
    """The class of a controller over an interval or a box."""
    return BY_NUMBER[_contexts_of(stated)]


def by_place(task: Any) -> type[Controller]:
    """The class of a campaign's controller."""
    stated = task.stated
    return Controller if stated.space is None else BY_PLACE[_contexts_of(stated)]


def _contexts_of(stated: Any) -> int:
    """0 without contexts, 1 with types, 2 with features."""
    if stated.whole.feature_columns:
        return 2
    return 0 if stated.whole.contexts is None else 1
