"""A policy that decides live: ask for an arm, report the outcome.

The controller runs the policy alone; it stores nothing on disk and reserves no money. Its state is
one :class:`~tightrope.kernels.run_state.RunState`, so a controller can be copied, compared,
pickled, and saved with ``snapshot``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.callers import also_called
from tightrope.engine.arguments import fitted_policy, seed_number
from tightrope.engine.caveats import warn_infeasible
from tightrope.errors import ExhaustedError, InputError
from tightrope.kernels.live import NOTHING, REFUSED
from tightrope.kernels.rng import POLICY, seed_words
from tightrope.kernels.run_state import ASKED, EXPLORE, STEP
from tightrope.live.arms import MovingRun
from tightrope.live.calls import Background
from tightrope.live.estimate import estimate_of
from tightrope.live.outlook import Outlook, outlook_of
from tightrope.live.past import PastData, PastSums, learn_sums, past_sums
from tightrope.live.rebuild import new_state
from tightrope.policies.base import Policy
from tightrope.policies.faults import wrong_arm
from tightrope.problem import Problem, Task
from tightrope.problem.values import at, shown
from tightrope.showing import html_of

PLAIN = frozenset((float, int))  # types that compiled code accepts directly

WHOLE = (int, np.integer)

Penalty = float | Sequence[float] | Mapping[str, float] | None


class Controller(MovingRun):
    """Decides which arm to pull next, for one budget, in the user's units.

    >>> from tightrope import Controller, LyOn, Task
    >>> task = Task(arms=["haiku", "opus"], limits={"bad": "5% per pull"})
    >>> controller = Controller(task, LyOn(), budget=100)
    >>> arm = controller.ask()
    >>> controller.tell(arm, cost=1, reward=0.7, penalty={"bad": 0})
    >>> controller.spent, controller.pulls, controller.arm_name(arm)
    (1.0, [1, 0], 'haiku')
    >>> Controller.restore(controller.snapshot()) == controller
    True

    You can ask for several arms before their outcomes are reported, and report in any order. Until
    then a pull counts with its expected outcome (``policies.parts.flight``). ``void`` cancels a
    pull that was not made. Arms can change: see ``add_arm``, ``retire_arm``, ``reprice``, and
    ``ask(eligible=...)`` for one decision. A controller is not thread-safe.
    """

    def __new__(cls, task: Any = None, *_: Any, **__: Any) -> Any:
        """One for types, features or numbers, where the task has contexts or a space."""
        stated = getattr(task, "stated", None)
        if stated is not None and stated.space is not None:
            from tightrope.live.spaced import by_number

            return object.__new__(by_number(stated))
        if stated is None or stated.whole.contexts is None:
            return object.__new__(cls)
        if stated.whole.feature_columns:
            from tightrope.live.featured import FeaturedController

            return object.__new__(FeaturedController)
        from tightrope.live.typed import TypedController

        return object.__new__(TypedController)

    @classmethod
    def _made_for(cls, task: Any) -> Any:
        return cls.__new__(cls, task)

    @also_called("budgets", "budget")
    def __init__(
        self,
        task: Task | Problem,
        policy: Policy,
        budget: float,
        *,
        seed: int = 0,
        background: bool = False,
        learn_from: PastData | None = None,
        weight: float = 0.3,
    ) -> None:
        """``budget`` is in the task's cost units; ``seed`` is for randomised policies.

        Of a problem a learning policy sees the task alone; one that knows the laws needs a problem.
        ``background``: see :meth:`restore`. ``learn_from``: a ``Log`` or a ``FullTable`` of the
        same arms, whose rows count as ``weight`` pulls each in what is learned.
        """
        self._background = background
        if not isinstance(task, Task | Problem):
            raise InputError(f"task = {shown(task)}: must be a Task or a Problem")
        if not isinstance(policy, Policy):
            raise InputError(f"policy = {shown(policy)}: must be a policy, such as LyOn()")
        task.normal_budget(budget)
        seed, policy = seed_number(seed), fitted_policy(policy, task)
        known = task.over_rows if policy.contextual else task
        state = new_state(known, policy, budget)
        if isinstance(task, Problem):
            warn_infeasible(task, [float(budget)])
        state["words"][4:] = seed_words(seed, POLICY, np.array([0]))[:, 0]
        held = known.task if policy.contextual else task.task
        self._hold(held, policy, float(budget), state)
        if learn_from is not None:
            self.learn_past(learn_from, weight)

    def learn_past(self, past: PastData, weight: float) -> None:
        """Learn from a log before the first decision."""
        self.learn_sums(past_sums(past, self.task, weight))

    def learn_sums(self, sums: Sequence[PastSums]) -> None:
        """Learn from the sums of a log; see ``past``."""
        self._remember()
        with at("learn_from"):
            rows = [self._past_row(one) for one in sums]
        learn_sums(self._state, self.policy, self.task, rows, sums)

    def _past_row(self, one: PastSums) -> int:
        """The row that sums of a log are about: their arm."""
        return one.arm

    def ask(self, eligible: Iterable[int | str] | None = None, context: str | None = None) -> int:
        """The number, from 0, of the arm to pull next. It is in flight until reported or voided.

        ``eligible``: the arms, by number or name, that can be pulled this time; default: all arms
        that are not retired. ``context``: the request's type, if the task has types.
        """
        arm = self._arm
        if (
            arm < 0
            or self._asides
            or self._alone >= 0
            or eligible is not None
            or context is not None
        ):
            if context is not None:
                self._require_no(context)
            return self._ask_row(eligible)
        self._alone = arm
        return arm

    def _ask_row(self, eligible: Iterable[int | str] | None) -> int:
        """Decide the next row, which is then in flight."""
        if self._alone >= 0:
            self._count_alone()
        if self._hard or self._spent[0] > self._last:
            self._require_unspent()
        row = self._decide(eligible)
        if self._asides:
            self._launch_row(row)
        else:
            self._alone = row
        return row

    def choose(self, eligible: Iterable[int | str] | None = None) -> int:
        """The arm to pull next, even if the budget is spent; ``launch`` puts it in flight.

        This draws the policy's random numbers, so the next call may choose another arm.
        """
        if self._alone >= 0:
            self._count_alone()
        if self._compiling is not None:
            self._look_at(self._compiling)
        if self._arm < 0 or self._asides or eligible is not None:
            return self._decide(eligible)
        return self._arm

    def _look_at(self, compiling: Background) -> None:
        """Use compiled functions as soon as they are ready."""
        if compiling.made is not None or compiling.failed:
            self._set_calls(compiling.made)
            self._compiling = None

    def pass_over(self, eligible: Iterable[int | str] | None = None) -> None:
        """Change the state as ``choose`` does, for a decision made elsewhere."""
        self._count_alone()
        if self._mindless and self._asides:  # only the count of decisions changes
            self._remember()
            if not self._explored:
                self._counts[ASKED] += 1
                self._explored = self._counts[ASKED] >= self._counts[EXPLORE]
            return
        self.choose(eligible)

    def ask_many(
        self,
        count: int,
        eligible: Iterable[int | str] | None = None,
        *,
        contexts: Sequence[Any] | None = None,
    ) -> list[int]:
        """The next ``count`` arms, each decided with the earlier ones in flight.

        ``contexts``: the context of each request, if the task has contexts.
        """
        given = [None] * count if contexts is None else list(contexts)
        if len(given) != count:
            raise InputError(f"contexts: {len(given)} must be {count}, one for each decision")
        allowed = list(eligible) if isinstance(eligible, Iterator) else eligible
        return [self.ask(allowed, context=one) for one in given]

    def _require_unspent(self) -> None:
        if self.exhausted:
            used = self._state.used_up if self._hard else ()
            what = f"budget = {self.budget:g}: spent ({self.spent:g})"
            if used:
                what = f"{self.task.limit_text(used[0])}: used up"
            raise ExhaustedError(f"{what}; no pull is left")

    def _decide(self, eligible: Iterable[int | str] | None) -> int:
        """The next arm, with pulls in flight or arms that cannot be pulled."""
        arm: Any
        if beside := self._asides or eligible is not None:
            stand_ins = self._stand_ins(eligible)
            if not self._state.spec.remembers:
                self._remember()
            arm = self._calls.ask_beside(self._flying, stand_ins)
        else:
            ask = self._ask
            arm = ask()
        if arm.__class__ is not int and isinstance(arm, WHOLE):
            arm = int(arm)
        if arm.__class__ is not int or not 0 <= arm < self._count:
            raise wrong_arm(self.policy, arm, self._counts[STEP], self._count)
        if not self._explored:
            self._explored = self._counts[ASKED] >= self._counts[EXPLORE]
        elif not beside and not self.policy.random:
            self._arm = arm
        return arm

    def tell(
        self,
        arm: int | str,
        cost: float | None = None,
        reward: float | None = None,
        penalty: Penalty = None,
        context: object = None,
    ) -> None:
        """Report the cost, reward and penalties of a pull of ``arm`` (its number or name).

        ``penalty``: one number, one for each limit in order, or a mapping by the limits' names.
        Known outcomes can be left out; if reported, they must agree with the task. An outcome above
        a growing scale makes the scale grow. ``context``: that of ``ask``.
        """
        if (
            self._usual
            and context is None
            and arm.__class__ is int
            and cost.__class__ in PLAIN
            and reward.__class__ in PLAIN
            and penalty.__class__ in PLAIN
        ):
            tell = self._tell  # faster than a call of an attribute
            try:
                known = tell(arm, cost, reward, penalty)
            except (OverflowError, TypeError):  # an integer beyond the range of floats
                known = REFUSED
            if known != REFUSED:
                self._arm = known if self._explored else NOTHING
                if arm == self._alone:
                    self._alone = NOTHING
                elif self._asides:
                    self._land(arm)
                return
        if context is not None:
            self._require_no(context)
        if self._only is None or not self._told_briefly(arm, cost, reward, penalty):
            self._tell_any(arm, cost, reward, penalty)

    def _told_briefly(self, arm: Any, cost: Any, reward: Any, penalty: Any) -> bool:
        """Learn from a report that names its only penalty or leaves out a known cost.

        Returns False and changes nothing if the report needs more care, or is wrong.
        """
        if penalty.__class__ is dict and len(penalty) == 1:
            penalty = penalty.get(self._only)
        if arm.__class__ is not int or not 0 <= arm < self._count:
            return False
        known, tell = self._costs, self._tell
        if known is not None:
            if cost is not None and cost != known[arm]:
                return False
            cost = known[arm]
        if (
            cost.__class__ not in PLAIN
            or reward.__class__ not in PLAIN
            or penalty.__class__ not in PLAIN
        ):
            return False
        try:
            found = tell(arm, cost, reward, penalty)
        except (OverflowError, TypeError):
            return False
        return self._learned(arm, found)

    def _tell_any(self, arm: int | str, cost: Any, reward: Any, penalty: Any) -> None:
        """Process a report in any form, also above a scale or its cap: the excess is charged."""
        number, excess = self._row_number(arm), list[float]()
        given = self.form.in_order(number, cost, reward, penalty)
        values = self.form.checked(number, given)
        if self._growing:
            values, excess = self._make_room(values)
        penalties = self.form.all_penalties(number, values)
        if not self._learn(number, values[0], values[1], penalties):
            raise AssertionError("a report was refused without a reason")
        if any(excess):
            self._beside.cut += 1
            self.charge(excess[0], dict(zip(self.task.told, excess[2:], strict=True)))

    def _learn(self, arm: int, cost: float, reward: float, penalties: Sequence[float]) -> bool:
        """Learn from a report; returns False and changes nothing if it is above a scale."""
        if len(penalties) > 1:
            self._state.run.told[:] = penalties
        return self._learned(arm, self._tell(arm, cost, reward, penalties[0] if penalties else 0.0))

    def _learned(self, arm: int, known: int) -> bool:
        """A report of ``arm`` has landed: note what is known of the next decision."""
        if known == REFUSED:
            return False
        self._arm = known if self._explored else NOTHING
        if arm == self._alone:
            self._alone = NOTHING
        elif self._asides:
            self._land(arm)
        return True

    def tell_row(self, arm: int, row: npt.NDArray[np.float64]) -> None:
        """Same as ``tell``, without checks in Python: all outcomes must be given.

        ``row`` [2 + M]: cost, reward, and the penalty of every limit in order. Penalties that are
        known or follow from other outcomes must be included and agree.
        """
        cost, reward, *penalties = row.tolist()
        if self._capped or not self._learn(arm, cost, reward, penalties):
            self._tell_any(arm, cost, reward, [penalties[m] for m in self.task.told])

    @property
    def spent(self) -> float:
        """The cost of all pulls reported so far."""
        return self._spent[0] * self.task.scales.cost

    @property
    def exhausted(self) -> bool:
        """Whether the reported pulls have exceeded the budget or a hard limit."""
        return self._spent[0] > self._last or (self._hard and bool(self._state.used_up))

    @property
    def queues(self) -> list[float]:
        """The policy's virtual queues [M]."""
        scales = self.task.scales.penalties
        return [float(q) * scale for q, scale in zip(self._state.run.queues, scales, strict=False)]

    @property
    def pulls(self) -> list[int]:
        """The number of reported pulls of each arm [K]."""
        return list(map(int, self._state["totals"][:, 0]))

    @property
    def means(self) -> list[list[float | None]]:
        """The mean outcome of each arm [K][2 + M], in the user's units; None without reports."""
        totals, scales = self._state["totals"], self.task.scales.channels
        return [
            [float(total / pulls * scale) if pulls else None
             for total, scale in zip(row, scales, strict=False)]
            for pulls, *row in totals.tolist()
        ]  # fmt: skip

    def outlook(self, doubt: float = 0.01, *, estimate: bool = False) -> Outlook:
        """Bounds and projections for the end of the run, such as the chance to break each limit.

        ``doubt``: the largest chance that the bounds on the arms' rates are wrong. It holds if the
        arms do not change and each decision is reported before the next one. ``estimate``: also
        estimate the chance to break each limit with 200 simulated runs of the policy from here to
        the end. This takes up to two seconds; if it would take longer, there is no estimate.
        """
        found = outlook_of(self, doubt)
        ends = estimate_of(self, found.pulls_left) if estimate and found.limits else None
        return found if ends is None else found.estimated(*ends)

    def __repr__(self) -> str:
        count = sum(self.in_flight)
        flying = f", {count} in flight" if count else ""
        return (
            f"Controller({self.policy.label}, {self.task.arm_count} arms, budget {self.budget:g}:"
            f" {self.spent:g} spent in {self._counts[STEP]} pulls{flying})"
        )

    _repr_html_ = html_of


_restored = Controller.restore  # what the pickles of version 0.2 name
