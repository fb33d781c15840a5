"""A live run as a value that can be saved, copied, compared and sent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self, cast

import numpy as np

from tightrope.kernels.live import NOTHING
from tightrope.kernels.run_state import ASKED, EXPLORE, RunState
from tightrope.live import snapshots
from tightrope.live.beside import Beside
from tightrope.live.calls import calls_for, compiled_for
from tightrope.live.rebuild import with_record
from tightrope.live.reports import ReportForm
from tightrope.policies.base import IndexPolicy, Policy
from tightrope.policies.faults import is_outside
from tightrope.problem import Task

FEW = 128  # arms: with more, a decision without a ``State`` is faster


class LiveRun:
    """A task, a policy, a budget, and the state of a run: the whole state of a controller.

    ``rows``: the task over rows (``Task.over_rows``), where the policy uses the types of requests.
    """

    # What every ask and tell reads. Python finds the other attributes slower, if there are over 30.
    __slots__ = (
        *("__dict__", "_alone", "_arm", "_asides", "_ask", "_costs", "_count", "_explored"),
        *("_last", "_only", "_spent", "_tell", "_usual"),
    )

    _background: bool

    def _hold(
        self,
        task: Task,
        policy: Policy,
        budget: float,
        state: RunState,
        arm: int = NOTHING,
        beside: Beside | None = None,
    ) -> None:
        """Hold a new or restored state, and the next decision if it is already made."""
        few_own = is_outside(type(policy)) and task.arm_count <= FEW  # plain Python goes first
        if self._background or few_own:  # every campaign has pulls in flight
            state = with_record(state, task, policy, budget)
        made, self._compiling = compiled_for(policy, state, self._background)
        if made is None:  # plain functions need a ``State``
            state = with_record(state, task, policy, budget)
        self.task, self.rows = task.whole, task
        self.policy, self.budget, self._state = policy, budget, state
        self._beside = beside or Beside.nothing(task.arm_count)
        self._flight = self._beside.flight
        self._flying = np.frombuffer(self._flight)
        self._themselves = np.arange(task.arm_count, dtype=np.float64)
        self._asides = self._beside.asides
        self._alone = NOTHING  # the only pull in flight, if it is not counted in ``_flight``
        self._arm, self._count = arm, task.arm_count
        self._look_at_reports(task)
        self._counts = memoryview(cast(Any, state["counts"]))
        self._spent, self._last = memoryview(state.run.spent), float(state.run.budget[0])
        self._hard = bool(task.hard)
        self._explored = self._counts[ASKED] >= self._counts[EXPLORE]
        self._mindless = isinstance(policy, IndexPolicy) and not policy.random
        self._set_calls(made)

    def _look_at_reports(self, task: Task) -> None:
        """The form of reports, and which of them go to compiled code unchanged."""
        caps = cast(Mapping[str, float], task.scales.grow)
        self.form, self._growing = ReportForm(task), bool(caps)
        self._capped = any(cap < math.inf for cap in caps.values())
        self._usual = len(task.told) == 1 and self.form.whole and not self._capped
        # Reports that need little before they go there: a mapping of one, known costs left out.
        self._only = task.told_names[0] if task.penalty_count == len(task.told) == 1 else None
        self._costs = None if task.costs is None else task.known_outcomes[:, 0].tolist()
        if self._growing or task.known or task.skip is not None:
            self._only = None

    def _set_calls(self, made: Any) -> None:
        """Decide and learn by compiled functions, or in plain Python if there are none."""
        self._made = made
        self._calls = calls_for(self.policy, self._state, made)
        self._tell: Any = self._calls.tell
        self._ask: Any = self._calls.ask

    def _remember(self) -> None:
        """Add a ``State``, which decisions with pulls in flight need."""
        if not self._state.spec.remembers:
            task, policy, budget, state, _, beside = self._held()
            state = with_record(state, task, policy, budget)
            self._hold(task, policy, budget, state, self._arm, beside)

    def _count_alone(self) -> None:
        """Count the only pull in flight among those in flight.

        A pull that is reported before the next decision, the usual case, is never counted.
        """
        if self._alone >= 0:
            self._flight[self._alone] += 1.0
            self._asides += 1
            self._alone = NOTHING

    def _held(self) -> tuple[Task, Policy, float, RunState, int, Beside]:
        """The arguments of ``_hold``."""
        self._count_alone()
        arm = NOTHING if self._asides else self._arm
        return self.rows, self.policy, self.budget, self._state, arm, self._beside

    def snapshot(self) -> bytes:
        """The controller as bytes: task, policy, budget, state; ``restore`` reads them."""
        return snapshots.pack(*self._held())

    @classmethod
    def restore(
        cls, saved: bytes, policy: Policy | None = None, *, background: bool = False
    ) -> Self:
        """The controller of a ``snapshot``; it makes the same decisions, bit for bit.

        ``policy`` is needed if its class is not imported in this process. ``background``: compile
        the policy in another thread; until then decisions run in plain Python, with the same
        results.
        """
        held = snapshots.unpack(saved, policy)
        made = cls._made_for(held[0])
        made._background = background
        made._hold(*held)
        return made

    @classmethod
    def _made_for(cls, task: Task) -> Self:
        """An empty one, for what the task says."""
        return cls.__new__(cls)

    def copy(self) -> Self:
        """Another controller that goes on from here on its own."""
        made = self._made_for(self.task)
        made._background = self._background
        task, policy, budget, state, arm, beside = self._held()
        made._hold(task, policy, budget, state.copy(), arm, beside.copy())
        return made

    def compiled(self) -> Self:
        """A copy whose policy is compiled now, if it can be; this may take seconds."""
        made = self.copy()
        made._background = False
        made._hold(*made._held())
        return made

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).restore, (self.snapshot(), self.policy)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LiveRun):
            return False
        (*mine, _, beside), (*theirs, _, besides) = self._held(), other._held()
        return (mine, beside) == (theirs, besides)

    __hash__ = None  # type: ignore[assignment]
