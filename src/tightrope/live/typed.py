"""A controller for requests with types: ``ask(context=...)``, ``tell(..., context=...)``.

A policy that uses types learns and decides over rows, ``type * K + arm``; everything below this
class sees rows as arms. A policy that does not use types decides as if there were none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tightrope.errors import InputError, nearest
from tightrope.live.controller import Controller, Penalty
from tightrope.live.past import PastSums
from tightrope.live.rebuild import merge_rows
from tightrope.names import listed
from tightrope.policies.choice import WORDS
from tightrope.problem import Types
from tightrope.problem.contexts import OTHER
from tightrope.problem.values import shown


class TypedController(Controller):
    """A :class:`Controller` whose requests have types."""

    # Types, arms and rows.

    def _hold(self, *held: Any) -> None:
        super()._hold(*held)
        self.types = cast(Types, self.task.contexts)
        self._arms, self._aware = self.task.arm_count, self.rows.types > 0
        self._look_at_types()
        self._words = memoryview(cast(Any, self._state["pair"]))

    @property
    def type_names(self) -> list[str]:
        """The names of the types, in order; where they are added as they come, those that came."""
        return list(self.types.names or self._beside.types)

    def knows_type(self, name: str) -> bool:
        """Whether a request of this type was seen, or the type is listed."""
        return name in self._kinds

    def _number(self, context: object) -> int:
        """The number of a request's type; that of a new one is the next."""
        if isinstance(context, str) and context in self._kinds:
            return self._kinds[context]
        return self.types.number(context, self._beside.types)

    def kind_of(self, context: object) -> int:
        """The number of a type; one that is new is added, where the task's types are open."""
        kind, seen = self._number(context), self._beside.types
        if self.types.open and kind == len(seen):
            seen.append(self.type_name(context))
            self._look_at_types()
        return kind

    def _look_at_types(self) -> None:
        """The number of each name, for the most frequent calls."""
        known, merged = {name: at for at, name in enumerate(self.type_names)}, self.types.merged
        self._kinds = known | {one: known[into] for one, into in merged.items() if into in known}

    def type_name(self, context: object) -> str:
        """The name of the type that a request counts for, which may be a new one."""
        kind, names = self._number(context), self.types.names or self._beside.types
        if kind < len(names):
            return names[kind]
        return self.types.name(context) if kind < self.types.most else OTHER

    def _row(self, arm: int | str, context: object) -> int:
        """The row of an arm and a type, which is added if it is new."""
        number, kind = self.number_of(arm), self.kind_of(context)
        return kind * self._arms + number if self._aware else number

    def _row_number(self, arm: int | str) -> int:
        return cast(int, arm)  # of ``_told_row``

    def _rows_of(self, arm: int) -> Iterable[int]:
        return range(arm, self._count, self._arms)

    @property
    def rows_by_type(self) -> list[npt.NDArray[np.int64]]:
        """The rows of each type that is not merged into another one."""
        if not self._aware:
            return super().rows_by_type
        gone = [at for at, name in enumerate(self.type_names) if name in self.types.merged]
        return list(np.delete(np.arange(self._count).reshape(-1, self._arms), gone, axis=0))

    def row_names(self, rows: Sequence[int]) -> str:
        """Rows in words: their arms, each with its types, such as ``llama for math, code``."""
        if not self._aware:
            return super().row_names(rows)
        named, found = self.type_names, dict[str, list[str]]()
        for kind, arm in (divmod(row, self._arms) for row in rows):
            found.setdefault(self.arm_name(arm), []).extend(named[kind : kind + 1])
        if len(rows) > 1 and len(found) == 1:
            return next(iter(found))
        parts = [f"{arm} for {listed(types)}" for arm, types in found.items() if types]
        return "; ".join(parts) or self.arm_name(rows[0] % self._arms)

    def merge_types(self, name: str, into: str) -> None:
        """Count requests of the type ``name`` for the type ``into``, also those before."""
        names, merged = self.type_names, self.types.merged
        for one in (name, into):
            if one not in names:
                what = "type" if one == name else "into"
                raise InputError(f"{what} = {shown(one)}: is unknown; {nearest(str(one), names)}")
            if one in merged:
                what = "type" if one == name else "into"
                raise InputError(f"{what} = {one!r}: is merged into {merged[one]!r} already")
        if name in (into, self.types.missing):
            allowed = "must be two types, and not that of requests without a context"
            raise InputError(f"type = {name!r}, into = {into!r}: {allowed}")
        source, target = names.index(name) * self._arms, names.index(into) * self._arms
        self._count_alone()
        if self._aware:
            self._remember()
            merge_rows(self._state, source, target, self._arms)
            for arm in range(self._arms):
                self._flight[target + arm] += self._flight[source + arm]
                self._flight[source + arm] = 0.0
        again = {old: into if new == name else new for old, new in merged.items()}
        types = replace(self.types, merged={**again, name: into})
        self._go_on(replace(self.task, contexts=types), renew=True)

    # Decisions and reports.

    def ask(self, eligible: Iterable[int | str] | None = None, context: str | None = None) -> int:
        """The arm to pull next for a request of the type ``context``; see ``Controller.ask``."""
        known = context.__class__ is str and context in self._kinds  # most often
        kind = self._kinds[context] if known else self.kind_of(context)  # type: ignore[index]
        if not self._aware:
            return super().ask(eligible)
        self._words[WORDS] = kind
        return self._ask_row(eligible) % self._arms

    def choose(
        self, eligible: Iterable[int | str] | None = None, *, context: str | None = None
    ) -> int:
        """As ``Controller.choose``; a new type is not added."""
        before = self._words[-1]
        self._face(self._number(context))
        try:
            return super().choose(eligible) % self._arms
        except InputError:
            self._words[-1] = before
            raise

    def pass_over(
        self, eligible: Iterable[int | str] | None = None, *, context: str | None = None
    ) -> None:
        """As ``Controller.pass_over``."""
        if self._mindless and self._asides:
            super().pass_over()
        else:
            self.choose(eligible, context=context)

    def launch(self, arm: int, *, context: str | None = None) -> None:
        """As ``Controller.launch``."""
        self._launch_row(self._row(arm, context))

    def _face(self, kind: int) -> None:
        """Note the type of the request at hand."""
        if self._aware:
            self._words[WORDS] = kind

    def _stand_ins(self, eligible: Iterable[int | str] | None) -> npt.NDArray[np.float64]:
        """Each row's number, or that of another arm of the same type."""
        found = super()._stand_ins(eligible)
        if len(found) == self._count:
            return found
        return np.add.outer(self._themselves[:: self._arms], found).ravel()

    def tell(
        self,
        arm: int | str,
        cost: float | None = None,
        reward: float | None = None,
        penalty: Penalty = None,
        context: Any = None,
    ) -> None:
        """As ``Controller.tell``; ``context`` may be left out where only one is possible."""
        if (
            context.__class__ is str
            and context in self._kinds
            and arm.__class__ is int
            and 0 <= arm < self._arms
        ):
            row = self._kinds[context] * self._arms + arm if self._aware else arm
        else:
            row = self._told_row(arm, context)
        if self._only is None or not self._told_briefly(row, cost, reward, penalty):
            super().tell(row, cost, reward, penalty)

    def tell_row(
        self, arm: int, row: npt.NDArray[np.float64], *, context: str | None = None
    ) -> None:
        """As ``Controller.tell_row``."""
        super().tell_row(self._told_row(arm, context), row)

    def void(self, arm: int | str, *, context: object = None) -> None:
        """As ``Controller.void``."""
        self._void(self._told_row(arm, context), arm)

    def _told_row(self, arm: int | str, context: object) -> int:
        """The row that a report is about."""
        number = self.number_of(arm)
        if not self._aware:
            return number
        if context is not None:
            return self._row(number, context)
        if self._alone >= 0 and self._alone % self._arms == number and not self._asides:
            return self._alone
        self._count_alone()
        open_rows = [row for row in range(number, self._count, self._arms) if self._flight[row]]
        if len(open_rows) == 1:
            return open_rows[0]
        if self.types.missing is None:
            name = self.arm_name(number)
            came = ", ".join(repr(self.type_names[row // self._arms]) for row in open_rows)
            allowed = f"must be one of {came}, whose pulls of {name!r} are in flight"
            allowed = allowed if came else f"must be given: no pull of {name!r} is in flight"
            raise InputError(f"context is missing; {allowed}")
        return self._row(number, None)

    def _past_row(self, one: PastSums) -> int:
        """The row that sums of a log are about: their arm, for their type."""
        if one.context is None and self._aware:
            raise InputError("has no contexts, which the task needs")
        return one.arm if one.context is None else self._row(one.arm, one.context)

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
    def means_by_type(self) -> dict[str, list[list[float | None]]]:
        """The mean outcome of each arm for each type so far [K][2 + M]; None if untold."""
        if not self._aware:
            return {}
        rows, arms = super().means, self._arms
        return {
            name: rows[kind * arms : (kind + 1) * arms] for kind, name in enumerate(self.type_names)
        }

    @property
    def pulls(self) -> list[int]:
        """How often each arm was pulled [K], over all types."""
        return list(self._by_arm(super().pulls).sum(axis=0).tolist())

    @property
    def in_flight(self) -> list[int]:
        """How many pulls of each arm are in flight [K], over all types."""
        return list(self._by_arm(super().in_flight).sum(axis=0).tolist())

    def of_type(self, context: object) -> tuple[list[int], list[int], list[list[float | None]]]:
        """The pulls, the pulls in flight and the mean outcomes of each arm, for one type.

        They are over all types if the policy does not use types.
        """
        found = super().pulls, super().in_flight, super().means
        first = self._number(context) * self._arms if self._aware else 0
        pulls, flying, means = (one[first : first + self._arms] for one in found)
        return pulls, flying, means  # type: ignore[return-value]

    @property
    def means(self) -> list[list[float | None]]:
        """The mean outcome of each arm so far [K][2 + M], over all types; None if untold."""
        totals, scales = self._state["totals"], self.task.scales.channels
        totals = totals.reshape(-1, self._arms, totals.shape[1]).sum(axis=0)
        return [
            [
                float(total / pulls * scale) if pulls else None
                for total, scale in zip(row, scales, strict=False)
            ]
            for pulls, *row in totals.tolist()
        ]
