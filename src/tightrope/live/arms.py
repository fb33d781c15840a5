"""Pulls in flight, arms that come and go, prices and scales that change, money without a pull."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from operator import index
from types import MappingProxyType

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

__all__ = ["MovingRun"]

EMPTY: Mapping[int, float] = MappingProxyType({})


class MovingRun(LiveRun):
    """A live run whose pulls may be in flight, and whose arms, prices and scales may change."""

    # Arms and their pulls in flight.

    def number_of(self, arm: int | str) -> int:
        """The number of an arm, by its name or number; raises if there is none."""
        names = self.task.names
        if isinstance(arm, str):
            if arm in names:
                return names.index(arm)
            raise InputError(f"arm = {arm!r}: is not an arm; {nearest(arm, names)}")
        try:
            number = index(arm)
        except TypeError:
            number = NOTHING
        if not 0 <= number < self._count:
            allowed = f"must be a number from 0 to {self._count - 1}, or a name"
            raise InputError(f"arm = {shown(arm)}: {allowed}")
        return number

    def arm_name(self, arm: int) -> str:
        """The name of an arm by its number."""
        return self.task.names[arm]

    def launch(self, arm: int) -> None:
        """Take a pull of ``arm`` for one in flight, whoever decided it."""
        if self._alone >= 0:
            self._count_alone()
        self._flight[arm] += 1.0
        self._asides += 1

    def _land(self, arm: int) -> None:
        """A pull of ``arm`` is no longer in flight, if one was."""
        if arm == self._alone:
            self._alone = NOTHING
        elif self._flight[arm] > 0.0:
            self._flight[arm] -= 1.0
            self._asides -= 1

    def void(self, arm: int | str) -> None:
        """Take back a pull of ``arm`` that was asked for and not made."""
        number = self.number_of(arm)
        self._count_alone()
        if self._flight[number] <= 0.0:
            raise InputError(f"arm = {shown(arm)}: has no pull in flight to void")
        self._land(number)
        self._irregular()  # an arm may have been explored too little

    @property
    def in_flight(self) -> list[int]:
        """How many pulls of each arm are asked for, and neither told nor voided [K]."""
        self._count_alone()
        return list(map(int, self._flight))

    # Which arms may be pulled.

    def _stand_ins(self, eligible: Iterable[int | str] | None) -> npt.NDArray[np.float64]:
        """Each arm's number, or that of another one where it may not be pulled [K]."""
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
        found = self._themselves.copy()
        for arm in set(range(self._count)) - set(allowed):
            found[arm] = allowed[arm % len(allowed)]
        return found

    @property
    def left(self) -> list[int]:
        """The arms that are not retired."""
        return [arm for arm in range(self._count) if arm not in self._beside.retired]

    @property
    def needed(self) -> int | None:
        """The arm without which the policy decides nothing, if there is one."""
        return self.task.safe_arm if isinstance(self.policy, GuardedResolve) else None

    def _require_safe(self, allowed: Sequence[int], what: str) -> None:
        """Raise if a promise rests on an arm that is not among those allowed."""
        if self.needed is not None and self.needed not in allowed:
            raise InputError(
                f"{what}: must leave the safe arm {self.task.safe!r}, on which the promise rests"
            )

    def _irregular(self) -> None:
        """From here on decide among the arms that may be pulled."""
        self._count_alone()
        if self._beside.regular:
            self._beside.regular = False
            self._asides += 1

    def retire_arm(self, arm: int | str) -> None:
        """Never pull ``arm`` again. Its pulls in flight may still be told, and are charged."""
        number = self.number_of(arm)
        left = [other for other in self.left if other != number]
        if not left:
            raise InputError(f"arm = {shown(arm)}: is the last one left; must keep one")
        self._require_safe(left, f"arm = {shown(arm)}")
        self._beside.retired.add(number)
        self._irregular()

    @property
    def retired(self) -> list[str]:
        """The names of the arms that are never pulled again."""
        return [self.task.names[k] for k in sorted(self._beside.retired)]

    # What changes the task, or the budget.

    def add_arm(
        self,
        name: str,
        *,
        like: int | str | None = None,
        weight: float = 10.0,
        cost: float | None = None,
        penalty: Mapping[str, float] | None = None,
    ) -> int:
        """A new arm, the last; returns its number. Nothing is known of it but what is said here.

        ``like``: another arm whose mean outcomes are expected of it, as if seen in ``weight``
        pulls, or in as many as that arm was pulled if these are fewer. ``cost`` and ``penalty``:
        its prices, where the task knows those of the arms.
        """
        source = None if like is None else self.number_of(like)
        if not (isinstance(weight, Real) and 0.0 < float(weight) < math.inf):
            raise InputError(f"weight = {shown(weight)}: must be a positive number of pulls")
        self._go_on(with_arm(self.task, name, cost, penalty))
        number = self._count - 1
        if source is not None:
            self._remember()
            pulls = float(self._state.record.pulls[source])
            if pulls > 0.0:
                copy_statistics(self._state, number, source, min(float(weight) / pulls, 1.0))
                self._go_on(self.task, learn=(number,))
        return number

    def reprice(
        self,
        arm: int | str,
        *,
        cost: float | None = None,
        penalty: Mapping[str, float] | None = None,
    ) -> None:
        """Another known cost, or known penalties by name, of an arm from here on.

        What its pulls cost so far stays charged; what is learned of the arm is at the new prices.
        """
        number, before = self.number_of(arm), self._state
        self._go_on(repriced(self.task, self.task.names[number], cost, penalty))
        self._move_guard(before)
        self._remember()
        reprice_statistics(self._state, number, self.task.normal_known[number])
        self._go_on(self.task, learn=(number,))

    def add_budget(self, amount: float) -> None:
        """So much more budget from here on, in the task's cost units; limits in total stay."""
        self.set_budget(self.budget + check_budget(amount, "amount"))

    def set_budget(self, budget: float) -> None:
        """Another budget from here on, larger or smaller; limits in total stay.

        Limits per unit of cost are kept over the new budget. A promise of a ``risk`` stands if what
        is left of its risk covers the new budget; otherwise only the safe arm is pulled until the
        promise can be made again.
        """
        budget, before = check_budget(budget), self._state
        self.task.normal_budget(budget)
        self._go_on(self.task, budget)
        self._move_guard(before)

    def _move_guard(self, before: RunState) -> None:
        """What remains of a promise after a change without a pull; ``before``: the state then."""
        if isinstance(self.policy, GuardedResolve):
            move(self._state.scratch.guard, before.record, self._state.record)

    def _make_room(self, values: Sequence[float]) -> tuple[list[float], list[float]]:
        """Let scales grow until a report fits: what is learned of it, and what is above caps."""
        scales, kept, excess = fitted(self.task, values)
        if scales != list(self.task.scales.channels):
            self._go_on(rescaled(self.task, scales))
        return kept, excess

    def _go_on(self, task: Task, budget: float | None = None, learn: tuple[int, ...] = ()) -> None:
        """Go on with a state made anew for a task, or a budget, that has changed.

        ``learn``: arms of which something else was changed.
        """
        factors = np.array(self.task.scales.channels) / np.array(task.scales.channels)
        moved = bool((factors != 1.0).any())
        if moved and isinstance(self.policy, GuardedResolve):
            raise InputError(
                f"prices: must stay within the scales {self.task.scales.channels}, on which the"
                f" promise of risk = {self.policy.risk:g} rests"
            )
        moves = Moves(factors, learn, moved or budget is not None)
        self._count_alone()
        budget = self.budget if budget is None else budget
        fresh = new_state(task, self.policy, budget, self._state)
        state = rebuilt(self._state, fresh, self.policy, moves)
        beside = self._beside.with_arms(task.arm_count - self._count)
        self._hold(task, self.policy, budget, state, NOTHING, beside)

    # Money without a pull.

    def charge(self, cost: float, penalties: Mapping[int, float] = EMPTY) -> None:
        """Charge a cost, and penalties by the limits' numbers, without learning from them.

        What was charged too much is given back as negative amounts.
        """
        scales, run = self.task.scales, self._state.run
        record = self._state.record if self._state.spec.remembers else None
        spent = cost / scales.cost
        run.spent[0] += spent
        if record is not None:
            record.remaining[0] -= spent
            for m in range(len(record.limits)):
                if record.bases[m]:  # per pull or reward: cost without any allows no penalties
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
        """How many outcomes were above the cap of a scale that grows: charged, but not learned."""
        return self._beside.cut
