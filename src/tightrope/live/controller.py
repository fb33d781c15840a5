"""A policy that decides for real: ask for an arm, tell what came of it.

Nothing is stored on a disk here and nothing is reserved: this is the policy alone, at the speed
of its arithmetic. All that it remembers is one :class:`~tightrope.kernels.run_state.RunState`, so a
controller can be copied, compared, pickled, and saved with ``snapshot``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from operator import index
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tightrope.engine.arguments import seed_number
from tightrope.engine.caveats import warn_infeasible
from tightrope.engine.single import wrong_arm
from tightrope.errors import ExhaustedError, InputError, nearest
from tightrope.kernels.live import NOTHING, REFUSED
from tightrope.kernels.rng import POLICY, seed_words
from tightrope.kernels.run_state import ASKED, EXPLORE, STEP, RunState
from tightrope.live import snapshots
from tightrope.live.background import Background
from tightrope.live.beside import Beside
from tightrope.live.calls import background_of, calls_for, compiled_for
from tightrope.live.outlook import Outlook, outlook_of
from tightrope.live.rebuild import (
    Moves,
    copy_statistics,
    new_state,
    rebuilt,
    reprice_statistics,
    with_record,
)
from tightrope.policies.base import IndexPolicy, Policy
from tightrope.policies.guarded import GuardedResolve
from tightrope.problem import Problem, Task, check_budget
from tightrope.problem.changed import MOST_GROWTH, fitted, repriced, rescaled, with_arm
from tightrope.problem.laws import shown
from tightrope.showing import html_of

__all__ = ["Controller"]

PLAIN = frozenset((float, int))  # numbers that compiled code takes as they are
EMPTY: Mapping[int, float] = MappingProxyType({})

Penalty = float | Sequence[float] | Mapping[str, float] | None


class Controller:
    """Decides which arm to pull next, for one budget, in the user's units.

    >>> from tightrope import Controller, LyOn, Task
    >>> task = Task(arms=["haiku", "opus"], limits={"bad": 0.05})
    >>> controller = Controller(task, LyOn(), budget=100)
    >>> arm = controller.ask()
    >>> controller.tell(arm, cost=1, reward=0.7, penalty={"bad": 0})
    >>> controller.spent, controller.pulls, controller.arm_name(arm)
    (1.0, [1, 0], 'haiku')
    >>> Controller.restore(controller.snapshot()) == controller
    True

    Several arms may be asked for before their outcomes are told, in any order: until then a pull
    counts as if it had come out as expected (``policies.parts.flight``). One that was not made
    after all is given back with ``void``. Arms may come and go: ``add_arm``, ``retire_arm``,
    ``reprice``, and ``ask(eligible=...)`` for one decision. Not for several threads at once.
    """

    def __init__(
        self,
        task: Task | Problem,
        policy: Policy,
        budget: float,
        *,
        seed: int = 0,
        background: bool = False,
    ) -> None:
        """``budget`` in the task's cost units; ``seed`` is for policies that toss coins.

        Of a problem a learning policy sees the task alone; one that knows the laws needs a problem.
        ``background``: see :meth:`restore`.
        """
        self._background = background
        if not isinstance(task, Task | Problem):
            raise InputError(f"task = {shown(task)}: must be a Task or a Problem")
        if not isinstance(policy, Policy):
            raise InputError(f"policy = {shown(policy)}: must be a policy, such as LyOn()")
        task.normal_budget(budget)
        seed, policy = seed_number(seed), policy.for_task(task)
        state = new_state(task, policy, budget)
        if isinstance(task, Problem):
            warn_infeasible(task, [float(budget)])
        state["words"][4:] = seed_words(seed, POLICY, np.array([0]))[:, 0]
        self._hold(task.task, policy, float(budget), state)

    _compiling: Background | None = None

    def _hold(
        self,
        task: Task,
        policy: Policy,
        budget: float,
        state: RunState,
        arm: int = NOTHING,
        beside: Beside | None = None,
    ) -> None:
        """Take a state, new or restored, and the next decision if it is made already."""
        if self._background and not state.spec.remembers:  # pulls are in flight in any campaign
            state = with_record(state, task, policy, budget)
        self.task, self.policy, self.budget, self._state = task, policy, budget, state
        self._beside = beside or Beside.nothing(task.arm_count)
        self._flight = self._beside.flight
        self._flying = np.frombuffer(self._flight)
        self._themselves = np.arange(task.arm_count, dtype=np.float64)
        self._asides = self._beside.asides
        self._alone = NOTHING  # the only pull in flight, if it is not counted in ``_flight``
        self._limited, self._arm, self._count = len(task.told), arm, task.arm_count
        self._whole = not task.knows_something  # whether everything has to be told
        self._growing = bool(task.scales.grow)
        self._capped = any(cap < math.inf for cap in task.scales.grow.values())  # type: ignore[union-attr]
        self._usual = self._limited == 1 and self._whole and not self._capped  # four plain numbers
        self._counts = memoryview(cast(Any, state["counts"]))
        self._spent, self._last = memoryview(state.run.spent), float(state.run.budget[0])
        self._hard = bool(task.hard)
        self._explored = self._counts[ASKED] >= self._counts[EXPLORE]
        self._mindless = isinstance(policy, IndexPolicy) and not policy.random
        self._compiling = background_of(policy, state) if self._background else None
        made = None if self._background else compiled_for(policy, state)
        if self._compiling is not None:
            made = self._compiling.made
        if made is None:
            self._remember()  # plain functions need a ``State``
        self._set_calls(made)

    def _set_calls(self, made: Any) -> None:
        """Decide and learn by compiled functions, or in plain Python if there are none."""
        if made is not None:
            self._compiling = None
        self._calls = calls_for(self.policy, self._state, made)
        self._tell: Any = self._calls.tell

    def _remember(self) -> None:
        """From here on there is a ``State``: decisions with pulls in flight need one."""
        if self._state.spec.remembers:
            return
        self._count_alone()
        state = with_record(self._state, self.task, self.policy, self.budget)
        self._hold(self.task, self.policy, self.budget, state, self._arm, self._beside)

    def ask(self, eligible: Iterable[int | str] | None = None) -> int:
        """The arm to pull next, numbered from 0: it is in flight until it is told, or voided.

        ``eligible``: the arms, by number or name, that may be pulled this time; default all that
        are not retired.
        """
        arm = self._arm
        if arm < 0 or self._asides or self._alone >= 0 or eligible is not None:
            self._count_alone()
            self._require_unspent()
            arm = self._decide(eligible)
            if self._asides:
                self.launch(arm)
                return arm
        self._alone = arm
        return arm

    def _count_alone(self) -> None:
        """Count the only pull in flight among those in flight.

        Most often a pull is told before the next decision: then it is never counted.
        """
        if self._alone >= 0:
            self._flight[self._alone] += 1.0
            self._asides += 1
            self._alone = NOTHING

    def choose(self, eligible: Iterable[int | str] | None = None) -> int:
        """The arm to pull next, whatever is spent; it is not in flight before ``launch``.

        A policy's coins are tossed: a decision that was not carried out is not made again.
        """
        self._count_alone()
        if self._compiling is not None:
            self._look_at_compiler()
        if self._arm < 0 or self._asides or eligible is not None:
            return self._decide(eligible)
        return self._arm

    def _look_at_compiler(self) -> None:
        """Use compiled functions from the moment when they are there."""
        if self._compiling is not None and self._compiling.made is not None:
            self._set_calls(self._compiling.made)
        elif self._compiling is not None and self._compiling.failed:
            self._compiling = None

    def pass_over(self, eligible: Iterable[int | str] | None = None) -> None:
        """Do to the state what ``choose`` does, for a decision that was made elsewhere."""
        self._count_alone()
        if self._mindless and self._asides:  # nothing but the count of decisions changes
            self._remember()
            if not self._explored:
                self._counts[ASKED] += 1
                self._explored = self._counts[ASKED] >= self._counts[EXPLORE]
            return
        self.choose(eligible)

    def launch(self, arm: int) -> None:
        """Take a pull of ``arm`` for one in flight, whoever decided it."""
        self._count_alone()
        self._flight[arm] += 1.0
        self._asides += 1

    def ask_many(self, count: int, eligible: Iterable[int | str] | None = None) -> list[int]:
        """As many arms to pull next, each decided with those before it in flight."""
        allowed = None if eligible is None else list(eligible)
        return [self.ask(allowed) for _ in range(count)]

    def void(self, arm: int | str) -> None:
        """Take back a pull of ``arm`` that was asked for and not made."""
        number = self._known_number(arm)
        self._count_alone()
        if self._flight[number] <= 0.0:
            raise InputError(f"arm = {shown(arm)}: has no pull in flight to void")
        self._flight[number] -= 1.0
        self._asides -= 1
        self._irregular()  # an arm may have been explored too little

    @property
    def in_flight(self) -> list[int]:
        """How many pulls of each arm are asked for, and neither told nor voided [K]."""
        self._count_alone()
        return list(map(int, self._flight))

    def _known_number(self, arm: object) -> int:
        """An arm's number; raises if it is none."""
        number = self._number_of(arm)
        if number is None or not 0 <= number < self._count:
            raise self._unknown_arm(arm)
        return number

    def _unknown_arm(self, arm: object) -> InputError:
        names = self.task.names
        if isinstance(arm, str):
            return InputError(f"arm = {arm!r}: is not an arm; {nearest(arm, names)}")
        allowed = f"must be a number from 0 to {len(names) - 1}, or a name"
        return InputError(f"arm = {shown(arm)}: {allowed}")

    def _stand_ins(self, eligible: Iterable[int | str] | None) -> npt.NDArray[np.float64]:
        """Each arm's number, or that of another one where it may not be pulled [K]."""
        if eligible is None and not self._beside.retired:
            return self._themselves
        found, given = np.arange(self._count, dtype=np.float64), None
        allowed = [arm for arm in range(self._count) if arm not in self._beside.retired]
        if eligible is not None:
            given = list(eligible)
            chosen = {self._known_number(arm) for arm in given}
            allowed = [arm for arm in allowed if arm in chosen]
        if not allowed:
            what = f"eligible = {shown(given)}: " if eligible is not None else ""
            raise InputError(f"{what}must name an arm that is not retired")
        self._require_safe(allowed, f"eligible = {shown(given)}")
        for arm in set(range(self._count)) - set(allowed):
            found[arm] = allowed[arm % len(allowed)]
        return found

    def _require_safe(self, allowed: Sequence[int], what: str) -> None:
        """Raise if a promise rests on an arm that is not among those allowed."""
        safe = self.task.safe_arm
        if isinstance(self.policy, GuardedResolve) and safe not in allowed:
            raise InputError(
                f"{what}: must leave the safe arm {self.task.safe!r}, on which the promise rests"
            )

    def _decide_beside(self, eligible: Iterable[int | str] | None) -> int:
        """The next arm, with pulls in flight or arms that may not be pulled."""
        stand_ins = self._stand_ins(eligible)
        if not self._state.spec.remembers:
            self._remember()
        arm = self._checked(self._calls.ask_beside(self._flying, stand_ins))
        self._explored = self._counts[ASKED] >= self._counts[EXPLORE]
        return arm

    def _checked(self, arm: Any) -> int:
        """The arm that a policy chose, if it exists."""
        if not isinstance(arm, int | np.integer) or not 0 <= arm < self._count:
            raise wrong_arm(self.policy.label, arm, self._counts[STEP], self._count)
        return int(arm)

    def _require_unspent(self) -> None:
        if self.exhausted:
            used = self._state.used_up if self._hard else ()
            what = f"budget = {self.budget:g}: spent ({self.spent:g})"
            if used:
                what = f"{self.task.limit_text(used[0])}: used up"
            raise ExhaustedError(f"{what}; no pull is left")

    def _decide(self, eligible: Iterable[int | str] | None = None) -> int:
        if self._asides or eligible is not None:
            return self._decide_beside(eligible)
        arm = self._checked(self._calls.ask())
        if self._explored:
            if not self.policy.random:
                self._arm = arm
        else:
            self._explored = self._counts[ASKED] >= self._counts[EXPLORE]
        return arm

    def tell(
        self,
        arm: int | str,
        cost: float | None = None,
        reward: float | None = None,
        penalty: Penalty = None,
    ) -> None:
        """What a pull of ``arm`` (its number or name) cost, earned and incurred.

        ``penalty``: a number, one for each limit in order, or by the limits' names. What the task
        knows may be left out; if it is told, it has to agree. An outcome above a scale that grows
        makes it grow.
        """
        if (
            arm.__class__ is int
            and cost.__class__ in PLAIN
            and reward.__class__ in PLAIN
            and penalty.__class__ in PLAIN
            and self._usual
        ):
            try:
                known = self._tell(arm, cost, reward, penalty)
            except (OverflowError, TypeError):  # a whole number beyond the range of floats
                known = REFUSED
            if known != REFUSED:
                self._arm = known if self._explored else NOTHING
                if arm == self._alone:
                    self._alone = NOTHING
                elif self._asides:
                    self._land(arm)
                return
        if self._capped:
            self._tell_growing(arm, cost, reward, _listed(penalty))
        else:
            self._tell_whole(arm, cost, reward, penalty)

    def tell_row(self, arm: int, row: npt.NDArray[np.float64]) -> None:
        """As ``tell``, at the speed of compiled code, with nothing left out.

        ``row`` [2 + M]: cost, reward, and the penalty of every limit in order, also of those that
        follow from other outcomes or are known, which have to agree.
        """
        known = REFUSED
        if not self._capped:
            penalty = float(row[2]) if len(row) > 2 else 0.0
            if len(row) > 3:
                self._state.run.told[:] = row[2:]
            known = self._tell(arm, float(row[0]), float(row[1]), penalty)
        if known == REFUSED:
            told = [float(row[2 + m]) for m in self.task.told]
            self.tell(arm, float(row[0]), float(row[1]), told)
            return
        self._arm = known if self._explored else NOTHING
        self._land(arm)

    def _land(self, arm: int) -> None:
        """A pull of ``arm`` is no longer in flight, if one was."""
        if arm == self._alone:
            self._alone = NOTHING
        elif self._flight[arm] > 0.0:
            self._flight[arm] -= 1.0
            self._asides -= 1

    def _tell_whole(self, arm: Any, cost: Any, reward: Any, penalty: Any) -> None:
        """Take an outcome of any kind, within the scales."""
        penalty = _listed(penalty)
        known = self._tell_any(arm, cost, reward, penalty)
        number = cast(int, self._number_of(arm))
        if known == REFUSED:
            if self._growing:
                self._tell_growing(arm, cost, reward, penalty)
                return
            self._refuse(arm, cost, reward, penalty)
        self._arm = known if self._explored else NOTHING
        self._land(number)

    def _tell_any(self, arm: object, cost: object, reward: object, penalty: object) -> int:
        """Outcomes of any kind: each has to be a number."""
        number = self._number_of(arm)
        if number is None or not 0 <= number < self.task.arm_count:  # or beyond whole numbers
            return REFUSED
        several = self._in_order(penalty, number)
        told = [_as_number(value) for value in self._filled(number, cost, reward, several or ())]
        if several is None or None in told or not self._agrees(number, told):
            return REFUSED
        incurred: Any = self._with_derived(number, told) or [0.0]
        if len(incurred) > 1:
            self._state.run.told[:] = incurred
        return int(self._tell(number, *told[:2], incurred[0]))

    def _with_derived(self, number: int, told: Sequence[Any]) -> list[Any]:
        """All penalties in the limits' order: those told, and cost or reward where limited."""
        task, own = self.task, dict(zip(self.task.told, told[2:], strict=True))
        if self._whole:
            return told[2:]  # type: ignore[return-value]
        derived = {"cost": told[0], "reward": told[1]}
        found = [
            own[m]
            if m in own
            else task.weights[number, m] * derived[kind.of]
            if kind.of in derived
            else task.known_outcomes[number, 2 + m]
            for m, kind in enumerate(task.limit_kinds)
        ]
        return list(map(float, found))

    def _filled(self, number: int, cost: Any, reward: Any, several: Sequence[Any]) -> list[Any]:
        """Cost, reward and told penalties; what was left out is taken from what is known."""
        told = [cost, reward, *several]
        if self._whole or None not in told:
            return told
        known = self.task.known_outcomes[number]
        places = (0, 1, *(2 + m for m in self.task.told))
        return [
            float(known[place]) if value is None and not math.isnan(known[place]) else value
            for value, place in zip(told, places, strict=False)
        ]

    def _agrees(self, number: int, told: Sequence[Any]) -> bool:
        """Whether what was told is what is known."""
        if self._whole:
            return True
        known = self.task.known_outcomes[number]
        places = (0, 1, *(2 + m for m in self.task.told))
        pairs = zip(told, known[list(places)].tolist(), strict=True)
        return all(math.isnan(k) or math.isclose(v, k, rel_tol=1e-9) for v, k in pairs)

    def _number_of(self, arm: object) -> int | None:
        """An arm's number; None if it is none."""
        if isinstance(arm, str):
            return self.task.names.index(arm) if arm in self.task.names else None
        try:
            return index(arm)  # type: ignore[arg-type]
        except TypeError:
            return None

    def _in_order(self, penalty: object, arm: int) -> list[Any] | None:
        """The told penalties of a pull in the limits' order; None if they are not the right ones.

        A known one may be left out: it is None then.
        """
        names, given = self.task.told_names, penalty
        if isinstance(given, list) or given is None or not isinstance(given, Mapping):
            listed = given if isinstance(given, list) else [] if given is None else [given]
            if len(listed) == len(names):
                return listed
            given = {} if not listed else {"": listed}  # all are left out, or too many are told
        known = self.task.known_outcomes[arm] if not self._whole else None
        for m, name in zip(self.task.told, names, strict=True):
            if name not in given and (known is None or math.isnan(known[2 + m])):
                return None
        return [given.get(name) for name in names] if set(given) <= set(names) else None

    def checked(
        self, arm: int, cost: Any, reward: Any, penalty: Penalty
    ) -> tuple[list[float], list[float] | None]:
        """What ``tell`` would take, with nothing left out: cost, reward and told penalties.

        Second the penalties of all limits, where some are known or follow from others. Raises as
        ``tell`` would, and changes nothing.
        """
        given = self.in_order(arm, cost, reward, penalty)
        filled = self._filled(arm, given[0], given[1], given[2:])
        told = [_as_number(value) for value in filled]
        if None in told or fitted(self.task, told) is None or not self._agrees(arm, told):
            self._refuse(arm, cost, reward, given[2:])
        values = cast(list[float], told)
        return values, None if self._whole else self._with_derived(arm, values)

    def in_order(self, arm: int, cost: Any, reward: Any, penalty: Any) -> list[Any]:
        """A report as a list: cost, reward, told penalties; raises if there are not the right."""
        penalty = _listed(penalty)
        several = self._in_order(penalty, self._known_number(arm))
        if several is None:
            allowed = _allowed(self.task.told_names)
            raise InputError(f"penalty = {shown(penalty)}: must be {allowed}")
        return [cost, reward, *several]

    def all_penalties(self, arm: int, values: Sequence[float]) -> list[float]:
        """The penalties of all limits [M] of a report with nothing left out."""
        return list(self._with_derived(arm, values))

    def _refuse(self, arm: object, cost: object, reward: object, penalty: object) -> None:
        """Raise an error that names what was wrong."""
        names, task = self.task.names, self.task
        number = self._known_number(arm)
        _, _, *several = self.in_order(number, cost, reward, penalty)
        told = self._filled(number, cost, reward, several)
        known = task.known_outcomes[number][[0, 1, *(2 + m for m in task.told)]].tolist()
        for name, value, scale, sure in zip(
            task.told_channels, told, task.told_scales, known, strict=True
        ):
            converted = _as_number(value)
            if name in task.scales.grow:  # type: ignore[operator]
                scale *= MOST_GROWTH
            if converted is None or not 0.0 <= converted <= scale:
                raise InputError(f"{name} = {shown(value)}: must be a number in [0, {scale:g}]")
            if not math.isnan(sure) and not math.isclose(converted, sure, rel_tol=1e-9):
                what = f"{name} = {shown(value)} of arm {names[number]!r}"
                raise InputError(f"{what}: must be {sure:g}, which is known; or leave it out")
        raise AssertionError("an outcome was refused for no reason")

    # Scales that grow.

    def _tell_growing(self, arm: object, cost: object, reward: object, penalty: object) -> None:
        """Take an outcome above a scale, or above its cap: the scale grows, the rest is charged."""
        task, number = self.task, self._known_number(arm)
        several = self._in_order(penalty, number)
        told = self._filled(number, cost, reward, several or ())
        values = [_as_number(value) for value in told]
        found = fitted(task, values)
        if several is None or found is None or not self._agrees(number, values):
            self._refuse(arm, cost, reward, penalty)
        assert found is not None
        scales, kept, excess = found
        if scales != list(task.scales.channels):
            self._renew(rescaled(task, scales), self._unmoved(scales))
        self._tell_whole(number, kept[0], kept[1], kept[2:])
        if any(excess):
            self._beside.cut += 1
            self.charge(excess[0], dict(zip(self.task.told, excess[2:], strict=True)))

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
        self._arm = NOTHING

    @property
    def cut(self) -> int:
        """How many outcomes were above the cap of a scale that grows: charged, but not learned."""
        return self._beside.cut

    # Arms that come and go.

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
        source = None if like is None else self._known_number(like)
        if not (isinstance(weight, Real) and 0.0 < float(weight) < math.inf):
            raise InputError(f"weight = {shown(weight)}: must be a positive number of pulls")
        task = with_arm(self.task, name, cost, penalty)
        self._renew(task, self._unmoved(task.scales.channels, newcomers=1))
        number = self._count - 1
        if source is not None:
            self._learn_like(number, source, float(weight))
        return number

    def _learn_like(self, number: int, source: int, weight: float) -> None:
        """Give a newcomer the statistics of another arm, as if from ``weight`` pulls at most."""
        self._remember()
        state = self._state
        pulls = float(state.record.pulls[source])
        if pulls <= 0.0:
            return
        copy_statistics(state, number, source, min(weight / pulls, 1.0))
        self._renew(self.task, self._unmoved(learn=(number,)))

    def retire_arm(self, arm: int | str) -> None:
        """Never pull ``arm`` again. Its pulls in flight may still be told, and are charged."""
        number = self._known_number(arm)
        left = [k for k in range(self._count) if k not in self._beside.retired and k != number]
        if not left:
            raise InputError(f"arm = {shown(arm)}: is the last one left; must keep one")
        self._require_safe(left, f"arm = {shown(arm)}")
        self._beside.retired.add(number)
        self._irregular()

    @property
    def retired(self) -> list[str]:
        """The names of the arms that are never pulled again."""
        return [self.task.names[k] for k in sorted(self._beside.retired)]

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
        number = self._known_number(arm)
        task = repriced(self.task, self.task.names[number], cost, penalty)
        grew = task.scales != self.task.scales
        self._renew(task, self._unmoved(task.scales.channels, renew=grew))
        self._remember()
        reprice_statistics(self._state, number, task.normal_known[number])
        self._renew(self.task, self._unmoved(learn=(number,)))

    def add_budget(self, amount: float) -> None:
        """So much more budget from here on, in the task's cost units; limits in total stay."""
        budget = self.budget + check_budget(amount, "amount")
        self.task.normal_budget(budget)
        self._renew(self.task, self._unmoved(renew=True), budget)

    def _unmoved(
        self,
        scales: Sequence[float] | None = None,
        *,
        newcomers: int = 0,
        learn: tuple[int, ...] = (),
        renew: bool = False,
    ) -> Moves:
        """All arms as they are, in the units of other scales."""
        before = np.array(self.task.scales.channels)
        factors = before / np.array(before if scales is None else scales)
        rows = (*range(self._count), *[-1] * newcomers)
        return Moves(rows, factors, learn, renew or bool((factors != 1.0).any()))

    def _renew(self, task: Task, moves: Moves, budget: float | None = None) -> None:
        """Go on with a state made anew for a task, or a budget, that has changed."""
        if isinstance(self.policy, GuardedResolve) and (moves.factors != 1.0).any():
            raise InputError(
                f"prices: must stay within the scales {self.task.scales.channels}, on which the"
                f" promise of risk = {self.policy.risk:g} rests"
            )
        self._count_alone()
        budget = self.budget if budget is None else budget
        fresh = new_state(task, self.policy, budget, self._state)
        beside = self._beside.with_arms(len(moves.rows) - self._count)
        state = rebuilt(self._state, fresh, self.policy, moves)
        self._hold(task, self.policy, budget, state, NOTHING, beside)

    def _irregular(self) -> None:
        """From here on decide among the arms that may be pulled."""
        self._count_alone()
        if self._beside.regular:
            self._beside.regular = False
            self._asides += 1

    def number_of(self, arm: int | str) -> int:
        """The number of an arm, by its name or number; raises if there is none."""
        return self._known_number(arm)

    def arm_name(self, arm: int) -> str:
        """The name of an arm by its number."""
        return self.task.names[arm]

    @property
    def spent(self) -> float:
        """The cost of all pulls told so far."""
        return self._spent[0] * self.task.scales.cost

    @property
    def exhausted(self) -> bool:
        """Whether the pulls told so far have exceeded the budget, or a hard limit."""
        return self._spent[0] > self._last or (self._hard and bool(self._state.used_up))

    @property
    def queues(self) -> list[float]:
        """The policy's virtual queues [M]."""
        scales = self.task.scales.penalties
        return [float(q) * scale for q, scale in zip(self._state.run.queues, scales, strict=False)]

    @property
    def pulls(self) -> list[int]:
        """How often each arm was pulled [K], as far as it was told."""
        return list(map(int, self._state["totals"][:, 0]))

    @property
    def means(self) -> list[list[float | None]]:
        """The mean outcome of each arm so far [K][2 + M], in the user's units; None if untold."""
        totals, scales = self._state["totals"], self.task.scales.channels
        return [
            [float(total / pulls * scale) if pulls else None
             for total, scale in zip(row, scales, strict=False)]
            for pulls, *row in totals.tolist()
        ]  # fmt: skip

    def outlook(self, doubt: float = 0.01) -> Outlook:
        """What can be said now about the end of the run: a bound on the chance to break each limit.

        ``doubt``: the chance, at most, that what is said of the arms' rates is wrong. It holds for
        arms that do not change, and decisions that were told before the next one is asked for.
        """
        return outlook_of(self, doubt)

    def snapshot(self) -> bytes:
        """All of it as bytes: task, policy, budget, state; ``restore`` gives it back."""
        self._count_alone()
        arm = NOTHING if self._asides else self._arm
        return snapshots.pack(
            self.task, self.policy, self.budget, self._state, arm, self._beside.table()
        )

    @classmethod
    def restore(
        cls, saved: bytes, policy: Policy | None = None, *, background: bool = False
    ) -> Controller:
        """The controller that a ``snapshot`` was of: the same decisions from here on, to the bit.

        A ``policy`` has to be given if its class is not known in this process. ``background``:
        compile the policy in another thread; until then decisions are made in plain Python, with
        the same bits.
        """
        made = cls.__new__(cls)
        made._background = background
        task, found, budget, state, arm, beside = snapshots.unpack(saved, policy)
        made._hold(task, found, budget, state, arm, Beside.of_table(beside, task.arm_count))
        return made

    def copy(self) -> Controller:
        """Another controller that goes on from here on its own."""
        made = type(self).__new__(type(self))
        made._background = self._background
        self._count_alone()
        arm = NOTHING if self._asides else self._arm
        made._hold(
            self.task, self.policy, self.budget, self._state.copy(), arm, self._beside.copy()
        )
        return made

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Controller:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.snapshot(), self.policy)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Controller):
            return False
        self._count_alone()
        other._count_alone()
        return (
            (self.task, self.policy, self.budget) == (other.task, other.policy, other.budget)
            and self._state == other._state
            and self._beside == other._beside
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        count = sum(self.in_flight)
        flying = f", {count} in flight" if count else ""
        return (
            f"Controller({self.policy.label}, {self.task.arm_count} arms, budget {self.budget:g}:"
            f" {self.spent:g} spent in {self._counts[STEP]} pulls{flying})"
        )

    _repr_html_ = html_of


def _restored(saved: bytes, policy: Policy) -> Controller:
    return Controller.restore(saved, policy)


def _listed(penalty: Any) -> Any:
    """Several penalties as a list, read once; a mapping or a number as it is."""
    if isinstance(penalty, Mapping | str | bytes) or not isinstance(penalty, Iterable):
        return penalty
    if isinstance(penalty, np.ndarray) and penalty.ndim == 0:
        return penalty
    return list(penalty)


def _as_number(value: Any) -> float | None:
    """A number as a float; None for anything else."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, Real | np.bool_):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _allowed(names: Sequence[str]) -> str:
    """What may be told of penalties."""
    if not names:
        return "left out"
    by_name = ", ".join(repr(name) for name in names)
    count = "a number" if len(names) == 1 else f"{len(names)} numbers"
    return f"{count}, or by name: {by_name}"
