"""Pulls in flight, changes of arms, prices and scales, and charges without a pull."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from operator import index
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.errors import InputError, nearest
from tightrope.kernels.live import NOTHING
from tightrope.kernels.run_state import RunState
from tightrope.live.live_run import LiveRun
from tightrope.live.rebuild import Moves, copy_statistics, new_state, rebuilt, reprice_statistics
from tightrope.policies.guarded import GuardedResolve
from tightrope.policies.parts.guard import move
from tightrope.problem import Task, check_budget
from tightrope.problem.changed import fitted, repriced, rescaled, with_arm
from tightrope.problem.values import shown

EMPTY: Mapping[int, float] = MappingProxyType({})


def number_among(arm: int | str, names: Sequence[str]) -> int:
    """The number of an arm, by its name or number; raises an ``InputError`` if there is none."""
    if isinstance(arm, str):
        if arm in names:
            return names.index(arm)
        raise InputError(f"arm = {arm!r}: is not an arm; {nearest(arm, names)}")
    try:
        number = index(arm)
    except TypeError:
        number = NOTHING
    if not 0 <= number < len(names):
        allowed = f"must be a number from 0 to {len(names) - 1}, or a name"
        raise InputError(f"arm = {shown(arm)}: {allowed}")
    return number


class MovingRun(LiveRun):
    """A live run with pulls in flight and arms, prices and scales that can change."""

    # Arms and their pulls in flight.

    def number_of(self, arm: int | str) -> int:
        """The number of an arm, by its name or number; raises if there is none."""
        return number_among(arm, self.task.names)

    def _row_number(self, arm: int | str) -> int:
        """The number of the row that a report is about: that of its arm."""
        return self.number_of(arm)

    def _rows_of(self, arm: int) -> Iterable[int]:
        """The rows of an arm: itself, or one for each type."""
        return (arm,)

    def given_number(self, arm: Any) -> int:
        """The number of an arm as a caller names it."""
        return self.number_of(arm)

    def numbers_of(self, eligible: Any) -> tuple[int, ...]:
        """The numbers of eligible arms, in order; raises if they are not a list of arms."""
        listed = isinstance(eligible, Iterable) and not isinstance(eligible, str | Mapping)
        if not listed or not len(eligible):
            raise InputError(f"eligible = {shown(eligible)}: must be a list of arms")
        return tuple(sorted({self.number_of(arm) for arm in eligible}))

    def arm_name(self, arm: int) -> str:
        """The name of an arm by its number."""
        return self.task.names[arm]

    @property
    def rows_by_type(self) -> list[npt.NDArray[np.int64]]:
        """The rows of each type that can come; all arms where there are no types."""
        return [np.arange(self._count)]

    def row_names(self, rows: Sequence[int]) -> str:
        """Rows in words: the names of their arms."""
        return ", ".join(self.rows.names[row] for row in rows)

    def launch(self, arm: int) -> None:
        """Count a pull of ``arm`` as in flight, also if another system decided it."""
        self._launch_row(arm)

    def _launch_row(self, row: int) -> None:
        if self._alone >= 0:
            self._count_alone()
        self._flight[row] += 1.0
        self._asides += 1

    def _land(self, arm: int) -> None:
        """Count one pull of ``arm`` less in flight, if there is one."""
        if arm == self._alone:
            self._alone = NOTHING
        elif self._flight[arm] > 0.0:
            self._flight[arm] -= 1.0
            self._asides -= 1

    @staticmethod
    def _require_no(context: object) -> None:
        """Refuse a context; callers that are timed look first."""
        if context is not None:
            allowed = "must be left out; the task has no types (Task(contexts=...))"
            raise InputError(f"context = {shown(context)}: {allowed}")

    def void(self, arm: int | str, *, context: object = None) -> None:
        """Cancel a pull of ``arm`` that was not made; ``context``: that of ``ask``."""
        self._require_no(context)
        self._void(self.number_of(arm), arm)

    def _void(self, row: int, arm: int | str) -> None:
        self._count_alone()
        if self._flight[row] <= 0.0:
            raise InputError(f"arm = {shown(arm)}: has no pull in flight to void")
        self._land(row)
        self._irregular()  # an arm may now be explored too little

    @property
    def in_flight(self) -> list[int]:
        """The number of pulls in flight of each arm [K]: neither reported nor voided."""
        self._count_alone()
        return list(map(int, self._flight))

    # Arms that can be pulled.

    def _stand_ins(self, eligible: Iterable[int | str] | None) -> npt.NDArray[np.float64]:
        """Each arm's number, or that of a stand-in if it cannot be pulled [K]."""
        if eligible is None and not self._beside.retired:
            return self._themselves
        given, allowed = None, self.left
        if eligible is not None:
            given = list(eligible)
            chosen = {self.number_of(arm) for arm in given}
            allowed = [arm for arm in allowed if arm in chosen]
        what = f"eligible = {shown(given)}"
        if not allowed:
            raise InputError(f"{what}: must name an arm that is not retired")
        self._require_safe(allowed, what)
        found = self._themselves[: self.task.arm_count].copy()
        for arm in set(range(len(found))) - set(allowed):
            found[arm] = allowed[arm % len(allowed)]
        return found

    @property
    def left(self) -> list[int]:
        """The arms that are not retired."""
        return [arm for arm in range(self.task.arm_count) if arm not in self._beside.retired]

    @property
    def needed(self) -> int | None:
        """The arm that the policy cannot decide without, if there is one."""
        return self.task.safe_arm if isinstance(self.policy, GuardedResolve) else None

    def _require_safe(self, allowed: Sequence[int], what: str) -> None:
        """Raise if a promise relies on an arm that is not allowed."""
        if self.needed is not None and self.needed not in allowed:
            raise InputError(
                f"{what}: must keep the safe arm {self.task.safe!r}, which the promise relies on"
            )

    def _irregular(self) -> None:
        """Decide among the arms that can be pulled from now on."""
        self._count_alone()
        if self._beside.regular:
            self._beside.regular = False
            self._asides += 1

    def retire_arm(self, arm: int | str) -> None:
        """Never pull ``arm`` again. Its pulls in flight can still be reported and are charged."""
        number = self.number_of(arm)
        left, name = [other for other in self.left if other != number], self.task.names[number]
        if not left:
            raise InputError(f"arm = {shown(name)}: is the last arm; at least one must remain")
        self._require_safe(left, f"arm = {shown(name)}")
        self._beside.retired.update(self._rows_of(number))
        self._irregular()

    @property
    def retired(self) -> list[str]:
        """The names of the arms that are never pulled again."""
        names = self.task.names
        return [names[k] for k in sorted(self._beside.retired) if k < len(names)]

    # Changes of the task or the budget.

    def add_arm(
        self,
        name: str,
        *,
        like: int | str | None = None,
        weight: float = 10.0,
        cost: float | None = None,
        penalty: Mapping[str, float] | None = None,
    ) -> int:
        """Add an arm at the end; returns its number.

        ``like``: another arm whose mean outcomes are a prior for the new one, worth ``weight``
        pulls, but no more than that arm's own pulls. ``cost`` and ``penalty``: its prices, if the
        task has known prices.
        """
        source = None if like is None else self.number_of(like)
        if not (isinstance(weight, Real) and 0.0 < float(weight) < math.inf):
            raise InputError(f"weight = {shown(weight)}: must be a positive number of pulls")
        self._go_on(with_arm(self.task, name, cost, penalty))
        number = self.task.arm_count - 1
        if source is not None:
            self._remember()
            sources = list(self._rows_of(source))
            pulls = float(self._state.record.pulls[sources].sum())
            if pulls > 0.0:
                share, rows = min(float(weight) / pulls, 1.0), tuple(self._rows_of(number))
                for row, one in zip(rows, sources, strict=True):
                    copy_statistics(self._state, row, one, share)
                self._go_on(self.task, learn=rows)
        return number

    def reprice(
        self,
        arm: int | str,
        *,
        cost: float | None = None,
        penalty: Mapping[str, float] | None = None,
    ) -> None:
        """Change the known cost, or known penalties by name, of an arm from now on.

        Past charges stay; what the policy has learned about the arm is converted to the new prices.
        """
        number, before = self.number_of(arm), self._state
        self._go_on(repriced(self.task, self.task.names[number], cost, penalty))
        self._move_guard(before)
        self._remember()
        rows = tuple(self._rows_of(number))
        for row in rows:
            reprice_statistics(self._state, row, self.task.normal_known[number])
        self._go_on(self.task, learn=rows)

    def add_budget(self, amount: float) -> None:
        """Add to the budget, in the task's cost units; limits in total stay the same."""
        self.set_budget(self.budget + check_budget(amount, "amount"))

    def set_budget(self, budget: float) -> None:
        """Change the budget, to a larger or smaller one; limits in total stay the same.

        Limits per unit of cost apply to the new budget. A promise with a ``risk`` continues if the
        remaining risk covers the new budget. Otherwise only the safe arm is pulled until the
        promise holds again.
        """
        budget, before = check_budget(budget), self._state
        self.task.normal_budget(budget)
        self._go_on(self.task, budget)
        self._move_guard(before)

    def _move_guard(self, before: RunState) -> None:
        """Update the promise after a change without a pull; ``before``: the state before it."""
        if isinstance(self.policy, GuardedResolve):
            move(self._state.scratch.guard, before.record, self._state.record)

    def _make_room(self, values: Sequence[float]) -> tuple[list[float], list[float]]:
        """Let scales grow until a report fits; returns the part to learn and the excess."""
        scales, kept, excess = fitted(self.task, values)
        if scales != list(self.task.scales.channels):
            self._go_on(rescaled(self.task, scales))
        return kept, excess

    def _go_on(
        self,
        task: Task,
        budget: float | None = None,
        learn: tuple[int, ...] = (),
        renew: bool = False,
    ) -> None:
        """Continue with a state rebuilt for a changed task or budget.

        ``learn``: arms with other changes. ``renew``: whether the policy's own memory is computed
        again in any case.
        """
        factors = np.array(self.task.scales.channels) / np.array(task.scales.channels)
        moved = bool((factors != 1.0).any())
        if moved and isinstance(self.policy, GuardedResolve):
            raise InputError(
                f"prices: must stay within the scales {self.task.scales.channels}, which the "
                f"promise of risk = {self.policy.risk:g} relies on"
            )
        rows, more = task, task.arm_count - self.task.arm_count
        if self.policy.contextual:
            rows = task.over_rows
        types = max(rows.types, 1)
        renew = renew or moved or budget is not None or (more > 0 and types > 1)
        self._count_alone()
        budget = self.budget if budget is None else budget
        fresh = new_state(rows, self.policy, budget, self._state)
        state = rebuilt(self._state, fresh, self.policy, Moves(factors, learn, renew, types))
        beside = self._beside.with_arms(self.task.arm_count, more)
        self._hold(rows, self.policy, budget, state, NOTHING, beside)

    # Charges without a pull.

    def charge(self, cost: float, penalties: Mapping[int, float] = EMPTY) -> None:
        """Charge a cost, and penalties by the limits' numbers, without learning from them.

        Negative amounts refund earlier charges.
        """
        scales, run = self.task.scales, self._state.run
        record = self._state.record if self._state.spec.remembers else None
        spent = cost / scales.cost
        run.spent[0] += spent
        if record is not None:
            record.remaining[0] -= spent
            for m in range(len(record.limits)):
                if record.bases[m]:  # per pull or reward: a cost without a pull allows no penalties
                    record.remaining[1 + m] -= record.limits[m] * spent
        for m, penalty in penalties.items():
            amount = penalty / scales.penalties[m]
            run.queues[m] += amount
            if record is not None:
                record.remaining[1 + m] -= amount
        self._move_guard(self._state)
        self._arm = NOTHING

    @property
    def cut(self) -> int:
        """The number of outcomes above the cap of a growing scale: charged, but not learned."""
        return self._beside.cut
