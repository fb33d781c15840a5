"""A policy that decides for real: ask for an arm, tell what came of it.

Nothing is stored on a disk here and nothing is reserved: this is the policy alone, at the speed
of its arithmetic. All that it remembers is one :class:`~tightrope.kernels.run_state.RunState`, so a
controller can be copied, compared, pickled, and saved with ``snapshot``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from numbers import Real
from operator import index
from typing import Any

import numpy as np

from tightrope.engine.arguments import seed_number
from tightrope.engine.caveats import warn_infeasible
from tightrope.engine.planning import warn_not_compiled, why_not_compiled
from tightrope.engine.single import wrong_arm
from tightrope.errors import ExhaustedError, InputError, nearest
from tightrope.kernels.argmin import envelope_of
from tightrope.kernels.live import NOTHING, REFUSED, calls
from tightrope.kernels.rng import POLICY, seed_words
from tightrope.kernels.run_state import ASKED, EXPLORE, STEP, RunState
from tightrope.kernels.spec import ENVELOPE, spec_of
from tightrope.live import snapshots
from tightrope.live.outlook import Outlook, outlook_of
from tightrope.live.plain import PlainCalls
from tightrope.policies.base import IndexPolicy, Policy, set_up
from tightrope.policies.choice import ChoicePolicy
from tightrope.problem import Problem, Task
from tightrope.problem.laws import shown

__all__ = ["Controller"]

MANY = 128  # arms from which on a decision does not look at all of them
PLAIN = frozenset((float, int))  # numbers that compiled code takes as they are

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

    Several arms may be asked for before their outcomes are told, in any order: the first
    explorations go round robin by asks, a later decision goes by what was told before it. Not for
    several threads at once.
    """

    def __init__(
        self, task: Task | Problem, policy: Policy, budget: float, *, seed: int = 0
    ) -> None:
        """``budget`` in the task's cost units; ``seed`` is for policies that toss coins.

        Of a problem a learning policy sees the task alone; one that knows the laws needs a problem.
        """
        if not isinstance(task, Task | Problem):
            raise InputError(f"task = {shown(task)}: must be a Task or a Problem")
        if not isinstance(policy, Policy):
            raise InputError(f"policy = {shown(policy)}: must be a policy, such as LyOn()")
        scaled, seed = task.normal_budget(budget), seed_number(seed)
        policy = policy.for_task(task)
        setup = set_up(policy, task, scaled)
        if isinstance(task, Problem):
            warn_infeasible(task, [float(budget)])
        known = task.task
        many = known.arm_count > MANY
        spec = spec_of(policy, setup, np.float64, many_arms=many, hard=known.hard)
        state = RunState.new(
            spec,
            known.arm_count,
            setup,
            scaled,
            known.at(float(budget)),
            scales=known.scales.channels,
            envelope=envelope_of(spec, setup) if spec.method == ENVELOPE else None,
        )
        state["words"][4:] = seed_words(seed, POLICY, np.array([0]))[:, 0]
        self._hold(known, policy, float(budget), state)

    def _hold(
        self, task: Task, policy: Policy, budget: float, state: RunState, arm: int = NOTHING
    ) -> None:
        """Take a state, new or restored, and the next decision if it is made already."""
        self.task, self.policy, self.budget, self._state = task, policy, budget, state
        self._limited, self._arm, self._count = len(task.told), arm, task.arm_count
        self._whole = not task.knows_something  # whether everything has to be told
        self._run, self._counts = state["run"], state["counts"]
        self._spent_at, self._last = state.layout.spent, float(state["run"][state.layout.budget])
        self._explored = bool(self._counts[ASKED] >= self._counts[EXPLORE])
        self._tell, self._choose = self._calls()

    def _calls(self) -> tuple[Any, Any]:
        """What takes an outcome and what decides: compiled, or plain where that cannot be."""
        state = self._state
        reason = "it is neither an IndexPolicy nor a ChoicePolicy"
        if isinstance(self.policy, IndexPolicy | ChoicePolicy):
            tell, ask, reason = why_not_compiled(lambda: calls(state.spec))
            if not reason:
                return partial(tell, state.block), partial(ask, state.block)
            warn_not_compiled(self.policy.label, reason, stacklevel=5)
        plain = PlainCalls(self.policy, state)
        return plain.tell, plain.ask

    def ask(self) -> int:
        """The arm to pull next, numbered from 0."""
        arm = self._arm
        return arm if arm >= 0 else self._decide()

    def _decide(self) -> int:
        if self.exhausted:
            used = self._state.used_up
            what = f"budget = {self.budget:g}: spent ({self.spent:g})"
            if used:
                what = f"{self.task.limit_text(used[0])}: used up"
            raise ExhaustedError(f"{what}; no pull is left")
        arm = int(self._choose())
        if not 0 <= arm < self._count:
            raise wrong_arm(self.policy.label, arm, int(self._counts[STEP]), self._count)
        if self._explored:
            if not self.policy.random:
                self._arm = arm
        else:
            self._explored = bool(self._counts[ASKED] >= self._counts[EXPLORE])
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
        knows may be left out; if it is told, it has to agree.
        """
        if (
            arm.__class__ is int
            and cost.__class__ in PLAIN
            and reward.__class__ in PLAIN
            and penalty.__class__ in PLAIN
            and self._limited == 1
            and self._whole
        ):
            try:
                known = self._tell(arm, cost, reward, penalty)
            except (OverflowError, TypeError):  # a whole number beyond the range of floats
                known = REFUSED
        else:
            penalty = _listed(penalty)
            known = self._tell_any(arm, cost, reward, penalty)
        if known == REFUSED:
            self._refuse(arm, cost, reward, penalty)
        self._arm = known if self._explored else NOTHING

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
        if self._state.spec.penalties > 1:
            return int(self._tell(number, *told[:2], np.array(incurred)))
        return int(self._tell(number, *told[:2], incurred[0]))

    def _with_derived(self, number: int, told: Sequence[Any]) -> list[Any]:
        """All penalties in the limits' order: those told, and cost or reward where limited."""
        task, own = self.task, dict(zip(self.task.told, told[2:], strict=True))
        if self._whole:
            return told[2:]  # type: ignore[return-value]
        derived = {"cost": told[0], "reward": told[1]}
        return [
            own[m]
            if m in own
            else task.weights[number, m] * derived[kind.of]
            if kind.of in derived
            else task.known_outcomes[number, 2 + m]
            for m, kind in enumerate(task.limit_kinds)
        ]

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

    def _refuse(self, arm: object, cost: object, reward: object, penalty: object) -> None:
        """Raise an error that names what was wrong."""
        names, task = self.task.names, self.task
        number = self._number_of(arm)
        if isinstance(arm, str) and number is None:
            raise InputError(f"arm = {arm!r}: is not an arm; {nearest(arm, names)}")
        if number is None or not 0 <= number < len(names):
            raise InputError(
                f"arm = {shown(arm)}: must be a number from 0 to {len(names) - 1}, or a name"
            )
        several = self._in_order(penalty, number)
        if several is None:
            raise InputError(f"penalty = {shown(penalty)}: must be {_allowed(task.told_names)}")
        told = self._filled(number, cost, reward, several)
        known = task.known_outcomes[number][[0, 1, *(2 + m for m in task.told)]].tolist()
        for name, value, scale, sure in zip(
            task.told_channels, told, task.told_scales, known, strict=True
        ):
            converted = _as_number(value)
            if converted is None or not 0.0 <= converted <= scale:
                raise InputError(f"{name} = {shown(value)}: must be a number in [0, {scale:g}]")
            if not math.isnan(sure) and not math.isclose(converted, sure, rel_tol=1e-9):
                what = f"{name} = {shown(value)} of arm {names[number]!r}"
                raise InputError(f"{what}: must be {sure:g}, which is known; or leave it out")
        raise AssertionError("an outcome was refused for no reason")

    def arm_name(self, arm: int) -> str:
        """The name of an arm by its number."""
        return self.task.names[arm]

    @property
    def spent(self) -> float:
        """The cost of all pulls told so far."""
        return float(self._run[self._spent_at]) * self.task.scales.cost

    @property
    def exhausted(self) -> bool:
        """Whether the pulls told so far have exceeded the budget, or a hard limit."""
        return bool(self._run[self._spent_at] > self._last) or bool(self._state.used_up)

    @property
    def queues(self) -> list[float]:
        """The policy's virtual queues [M]."""
        scales = self.task.scales.penalties
        return [float(q) * scale for q, scale in zip(self._run, scales, strict=False)]

    @property
    def pulls(self) -> list[int]:
        """How often each arm was pulled [K], as far as it was told."""
        return list(map(int, self._state["totals"][:, 0]))

    def outlook(self, doubt: float = 0.01) -> Outlook:
        """What can be said now about the end of the run: a bound on the chance to break each limit.

        ``doubt``: the chance, at most, that what is said of the arms' rates is wrong. It holds for
        arms that do not change, and decisions that were told before the next one is asked for.
        """
        return outlook_of(self, doubt)

    def snapshot(self) -> bytes:
        """All of it as bytes: task, policy, budget, state; ``restore`` gives it back."""
        return snapshots.pack(self.task, self.policy, self.budget, self._state, self._arm)

    @classmethod
    def restore(cls, saved: bytes, policy: Policy | None = None) -> Controller:
        """The controller that a ``snapshot`` was of: the same decisions from here on, to the bit.

        A ``policy`` has to be given if its class is not known in this process.
        """
        made = cls.__new__(cls)
        made._hold(*snapshots.unpack(saved, policy))
        return made

    def copy(self) -> Controller:
        """Another controller that goes on from here on its own."""
        made = type(self).__new__(type(self))
        made._hold(self.task, self.policy, self.budget, self._state.copy(), self._arm)
        return made

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Controller:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.snapshot(), self.policy)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Controller)
            and (self.task, self.policy, self.budget) == (other.task, other.policy, other.budget)
            and self._state == other._state
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"Controller({self.policy.label}, {self.task.arm_count} arms, budget {self.budget:g}:"
            f" {self.spent:g} spent in {int(self._counts[STEP])} pulls)"
        )

    def _repr_html_(self) -> str:
        from tightrope.report.html import controller_html

        return controller_html(self)


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
