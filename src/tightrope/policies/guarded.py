"""resolve under the guard, which runs if a task declares a safe arm.

``resolve`` decides as usual. An arm other than the safe one is pulled only if the guard allows it;
otherwise the safe arm is pulled. ``parts/guard.py`` is the guard, ``docs/promises.md`` has its
guarantee.

For requests with types, the safe arm's rates must hold for every type: a policy that sends the
worst types to the safe arm turns its rate into that of the worst type. Then a pull of the safe arm
raises no tilt's U on average, whatever the type, and the guarantee is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from tightrope.policies.base import Constants, Setup
from tightrope.policies.choice import WORDS
from tightrope.policies.parts.guard import (
    Guard,
    allows,
    constants_of,
    largest_cost,
    open_guard,
    settle,
)
from tightrope.policies.parts.pooling import ARMS
from tightrope.policies.resolve import Resolve, ResolveScratch
from tightrope.policies.state import Array, State, rows
from tightrope.policies.typed import TypedResolve, TypedScratch
from tightrope.problem import Task


class GuardedBeliefs(NamedTuple):
    """The policy's scratch."""

    beliefs: ResolveScratch
    guard: Guard


class GuardedTypedBeliefs(NamedTuple):
    """The scratch for requests with types."""

    beliefs: TypedScratch
    guard: Guard


_begin, _choose, _renew = Resolve.functions()
_, _choose_for_one, _renew_for_one = Resolve.functions(1)
_choose_for_many = Resolve.functions(2)[1]


def _kept(
    constants: Constants, state: State, guard: Guard, row: int, first: int, count: int
) -> int:
    """The row, or that of the safe arm if the guard does not allow it.

    ``first``: the first row of the request's type; ``count``: the number of arms.
    """
    safe, others = int(guard.safe[0]), 0.0
    if state.flying[0] > 0.0:
        for one in rows(state):
            others += state.flight[one] if one % count != safe else 0.0
    if row == first + safe or allows(guard, state, others, largest_cost(constants)):
        return row
    return first + safe


def _guarded_for_one(
    constants: Constants, state: State, scratch: GuardedBeliefs, words: Array
) -> int:
    row = _choose_for_one(constants, state, scratch.beliefs, words)
    return _kept(constants, state, scratch.guard, row, 0, len(rows(state)))


def _guarded_for_many(
    constants: Constants, state: State, scratch: GuardedBeliefs, words: Array
) -> int:
    row = _choose_for_many(constants, state, scratch.beliefs, words)
    return _kept(constants, state, scratch.guard, row, 0, len(rows(state)))


def _learn(constants: Constants, state: State, scratch: Any, row: int) -> None:
    """Update the beliefs about the arm and the remaining risk."""
    _renew(constants, state, scratch.beliefs, row)
    settle(scratch.guard, state, row)


def _learn_for_one(constants: Constants, state: State, scratch: Any, row: int) -> None:
    """The same, under one limit."""
    _renew_for_one(constants, state, scratch.beliefs, row)
    settle(scratch.guard, state, row)


@dataclass(frozen=True)
class GuardedResolve(Resolve):
    """``resolve`` with a risk, for a task that declares a safe arm; see :class:`Resolve`."""

    Scratch: ClassVar[type] = GuardedBeliefs
    seldom: ClassVar[tuple[str, ...]] = (
        "guard",
        *(f"beliefs.{one}" for one in Resolve.seldom),
    )
    carried: ClassVar[tuple[str, ...]] = ("guard",)  # the guard's record of reported pulls
    learn = staticmethod(_learn)

    def setup(self, task: Task, budget: float) -> Setup:
        """The constants of ``resolve``, then those of the guard."""
        setup = super().setup(task, budget)
        return replace(setup, constants=(*setup.constants, *constants_of(task, self.risk or 0.0)))

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Any) -> None:
        """Start with the prior beliefs and the whole risk."""
        _begin(constants, state, scratch.beliefs)
        open_guard(constants, state, scratch.guard)

    @classmethod
    def renew(cls, constants: Constants, state: State, scratch: Any) -> None:
        """Renew the beliefs; the guard's promise stays."""
        super().renew(constants, state, scratch.beliefs)

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Any, words: Array) -> int:
        """The arm that ``resolve`` would pull, or the safe one."""
        row = _choose(constants, state, scratch.beliefs, words)
        return _kept(constants, state, scratch.guard, row, 0, len(rows(state)))

    @classmethod
    def functions(cls, penalties: int | None = None) -> tuple[Callable[..., Any], ...]:
        """The functions that kernels compile."""
        if penalties == 1:
            return (cls.begin, _guarded_for_one, _learn_for_one)
        return (cls.begin, cls.choose if penalties is None else _guarded_for_many, cls.learn)


# Requests with types: the guard sees arms, ``resolve`` sees rows.

_begin_typed, _choose_typed, _learn_typed = TypedResolve.functions()


@dataclass(frozen=True)
class GuardedTypedResolve(GuardedResolve):
    """``GuardedResolve`` for requests with types; see :class:`Resolve`."""

    contextual = True
    Scratch = GuardedTypedBeliefs
    seldom = ("guard", *(f"beliefs.{one}" for one in TypedResolve.seldom))
    carried = ("guard", *(f"beliefs.{one}" for one in TypedResolve.carried))

    def setup(self, task: Task, budget: float) -> Setup:
        """The constants of ``resolve`` for types, then those of the guard."""
        setup = TypedResolve.setup(self, task, budget)  # type: ignore[arg-type]
        guard = constants_of(task.whole, self.risk or 0.0)
        return replace(setup, constants=(*setup.constants, *guard))

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Any) -> None:
        """As ``GuardedResolve``."""
        _begin_typed(constants, state, scratch.beliefs)
        open_guard(constants, state, scratch.guard)

    @classmethod
    def renew(cls, constants: Constants, state: State, scratch: Any) -> None:
        """As ``GuardedResolve``."""
        TypedResolve.renew(constants, state, scratch.beliefs)

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Any, words: Array) -> int:
        """As ``GuardedResolve``, for the type of the request."""
        row, count = _choose_typed(constants, state, scratch.beliefs, words), int(constants[ARMS])
        first = int(words[WORDS]) * count
        return _kept(constants, state, scratch.guard, row, first, count)

    @staticmethod
    def learn(constants: Constants, state: State, scratch: Any, row: int) -> None:
        """As ``GuardedResolve``."""
        _learn_typed(constants, state, scratch.beliefs, row)
        settle(scratch.guard, state, row % int(constants[ARMS]))

    @classmethod
    def functions(cls, penalties: int | None = None) -> tuple[Callable[..., Any], ...]:
        """The functions that kernels compile."""
        return (cls.begin, cls.choose, cls.learn)
