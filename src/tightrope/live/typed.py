"""A controller for requests with types: ``ask(context=...)``, ``tell(..., context=...)``.

A policy that uses types learns and decides over rows, ``type * K + arm``; everything below this
class sees rows as arms. A policy that does not use types decides as if there were none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tightrope.errors import InputError
from tightrope.live.arms import number_among
from tightrope.live.controller import Controller, Penalty
from tightrope.live.past import PastData, rows_of_past
from tightrope.policies.choice import WORDS
from tightrope.problem import Types
from tightrope.problem.contexts import OTHER
from tightrope.problem.values import shown

__all__ = ["TypedController"]

Integers = npt.NDArray[np.int64]


class TypedController(Controller):
    """A :class:`Controller` whose requests have types."""

    # Types, arms and rows.

    def _hold(self, *held: Any) -> None:
        super()._hold(*held)
        self.types = cast(Types, self.whole_task.contexts)
        self._arms, self._aware = self.whole_task.arm_count, self.task.types > 0
        self._kinds = {name: kind for kind, name in enumerate(self.type_names)}
        self._words = memoryview(cast(Any, self._state["pair"]))

    @property
    def type_names(self) -> list[str]:
        """The names of the types, in order; where they are added as they come, those that came."""
        return list(self.types.names or self._beside.types)

    def kind_of(self, context: object) -> int:
        """The number of a type; one that is new is added, where the task's types are open."""
        seen, types = self._beside.types, self.types
        kind = types.number(context, seen)
        if types.open and kind == len(seen):
            name = types.missing if context is None else context
            seen.append(cast(str, name) if kind < types.most else OTHER)
            self._kinds = {name: kind for kind, name in enumerate(seen)}
        return kind

    def _row(self, arm: int | str, kind: int) -> int:
        number = self.arm_number(arm)
        return kind * self._arms + number if self._aware else number

    def arm_number(self, arm: int | str) -> int:
        """The number of an arm, by its name or number."""
        return number_among(arm, self.whole_task.names)

    def arm_name(self, arm: int) -> str:
        """The name of an arm by its number."""
        return self.whole_task.names[arm]

    # Decisions and reports.

    def ask(
        self, eligible: Iterable[int | str] | None = None, *, context: str | None = None
    ) -> int:
        """The arm to pull next for a request of the type ``context``; see ``Controller.ask``."""
        if eligible is None and context in self._kinds:  # most often
            if self._aware:
                self._words[WORDS] = self._kinds[context]
            return super().ask() % self._arms
        return super().ask(self._face(context, eligible)) % self._arms

    def choose(
        self, eligible: Iterable[int | str] | None = None, *, context: str | None = None
    ) -> int:
        """As ``Controller.choose``."""
        return super().choose(self._face(context, eligible)) % self._arms

    def ask_many(
        self,
        count: int,
        eligible: Iterable[int | str] | None = None,
        *,
        contexts: Sequence[str] | None = None,
    ) -> list[int]:
        """As many arms, each for a request of the type at the same place in ``contexts``."""
        given = [None] * count if contexts is None else list(contexts)
        if len(given) != count:
            raise InputError(f"contexts: {len(given)} must be {count}, one for each decision")
        allowed = None if eligible is None else list(eligible)
        return [self.ask(allowed, context=one) for one in given]

    def _face(
        self, context: str | None, eligible: Iterable[int | str] | None
    ) -> Iterable[int | str] | None:
        """Note the type of the request at hand; the rows of the arms that may be pulled."""
        kind = self.kind_of(context)
        if not self._aware:
            return eligible
        self._words[WORDS] = kind
        if eligible is None:
            return None
        numbers = [self.arm_number(arm) for arm in eligible]
        return [x * self._arms + arm for x in range(self.types.count) for arm in numbers]

    def _stand_ins(self, eligible: Iterable[int | str] | None) -> npt.NDArray[np.float64]:
        """Each row's number, or that of another arm of the same type."""
        if not self._aware or (eligible is None and not self._beside.retired):
            return super()._stand_ins(eligible)
        found = super()._stand_ins(eligible)
        allowed = {int(row) for row in found if row < self._arms}
        first = sorted(row for row in allowed if found[row] == row)
        for row in range(self._count):
            arm, before = row % self._arms, row - row % self._arms
            found[row] = before + (arm if arm in first else first[arm % len(first)])
        return found

    def tell(
        self,
        arm: int | str,
        cost: float | None = None,
        reward: float | None = None,
        penalty: Penalty = None,
        *,
        context: str | None = None,
    ) -> None:
        """As ``Controller.tell``; ``context`` may be left out where only one is possible."""
        if context in self._kinds and arm.__class__ is int and 0 <= arm < self._arms:
            row = self._kinds[context] * self._arms + arm if self._aware else arm
            super().tell(row, cost, reward, penalty)
        else:
            super().tell(self._told_row(arm, context), cost, reward, penalty)

    def tell_row(
        self, arm: int, row: npt.NDArray[np.float64], *, context: str | None = None
    ) -> None:
        """As ``Controller.tell_row``."""
        super().tell_row(self._told_row(arm, context), row)

    def void(self, arm: int | str, *, context: str | None = None) -> None:
        """As ``Controller.void``."""
        super().void(self._told_row(arm, context))

    def _told_row(self, arm: int | str, context: str | None) -> int:
        """The row that a report is about."""
        number = self.arm_number(arm)
        if not self._aware:
            return number
        if context is not None or self.types.missing is not None:
            return self._row(number, self.kind_of(context))
        if self._alone >= 0 and self._alone % self._arms == number and not self._asides:
            return self._alone
        self._count_alone()
        open_rows = [row for row in range(number, self._count, self._arms) if self._flight[row]]
        if len(open_rows) != 1:
            name = self.arm_name(number)
            came = ", ".join(repr(self.type_names[row // self._arms]) for row in open_rows)
            allowed = f"must be one of {came}, whose pulls of {name!r} are in flight"
            allowed = allowed if came else f"must be given: no pull of {name!r} is in flight"
            raise InputError(f"context is missing; {allowed}")
        return open_rows[0]

    def _past_rows(self, past: PastData) -> Integers:
        """The row of every line of a log: its arm, for its type."""
        arms, _, contexts = rows_of_past(past, self.whole_task)
        if not self._aware:
            return arms
        if contexts is None:
            raise InputError("learn_from: has no contexts, which the task needs")
        names = dict.fromkeys(contexts)
        kinds = {name: self.kind_of(name) for name in names}
        return np.array([kinds[name] for name in contexts]) * self._arms + arms

    def retire_arm(self, arm: int | str) -> None:
        """As ``Controller.retire_arm``, for every type."""
        number = self.arm_number(arm)
        if not self._aware:
            super().retire_arm(number)
            return
        left = [one for one in range(self._arms) if one not in self._beside.retired]
        if left == [number]:
            raise InputError(f"arm = {shown(arm)}: is the last one left; must keep one")
        self._beside.retired.update(range(number, self._count, self._arms))
        self._irregular()

    def add_arm(self, name: str, **facts: Any) -> int:
        """Not available: rows of all types would have to be numbered anew."""
        raise InputError(f"arm {name!r}: cannot be added to a task with contexts")

    def number_of(self, arm: int | str) -> int:
        """The number of a row; arms are looked up by ``arm_number``."""
        if not self._aware:
            return self.arm_number(arm)
        return super().number_of(arm)

    # What came of it.

    def _by_arm(self, values: Sequence[float]) -> Any:
        return np.asarray(values).reshape(-1, self._arms)

    @property
    def pulls_by_type(self) -> dict[str, list[int]]:
        """How often each arm was pulled for each type, as far as it was reported."""
        if not self._aware:
            return {}
        table = self._by_arm(super().pulls)
        return {name: table[kind].tolist() for kind, name in enumerate(self.type_names)}

    @property
    def pulls(self) -> list[int]:
        """How often each arm was pulled [K], over all types."""
        return list(self._by_arm(super().pulls).sum(axis=0).tolist())

    @property
    def in_flight(self) -> list[int]:
        """How many pulls of each arm are in flight [K], over all types."""
        return list(self._by_arm(super().in_flight).sum(axis=0).tolist())

    @property
    def means(self) -> list[list[float | None]]:
        """The mean outcome of each arm so far [K][2 + M], over all types; None if untold."""
        totals, scales = self._state["totals"], self.whole_task.scales.channels
        totals = totals.reshape(-1, self._arms, totals.shape[1]).sum(axis=0)
        return [
            [
                float(total / pulls * scale) if pulls else None
                for total, scale in zip(row, scales, strict=False)
            ]
            for pulls, *row in totals.tolist()
        ]

    @property
    def left(self) -> list[int]:
        """The rows that are not retired."""
        return super().left
