"""What a policy is: a frozen dataclass of its parameters, and pure functions over plain numbers.

Everything here is in normalised units: outcomes in [0, 1], the budget in units of the largest
cost of one pull. Letters: K arms, M penalties.

A policy fixes its constants once for a budget (``setup``, called by :func:`set_up`) and then picks
an arm at every step. It learns from a :class:`~tightrope.problem.Task`, what is known, unless it
says that it is an :class:`InformedPolicy`. An :class:`IndexPolicy` pulls the arm with the smallest

    reward_index(arm) + sum over m of queue_m * penalty_index(arm, m)

lowest number on ties, where each part is computed from two *terms* of the arm (a level and a
width) that change only when the arm is pulled. These functions are ``staticmethod``s that use
nothing but their arguments and ``math``: the SIMD lanes, a CUDA thread, a live campaign and a
plain Python loop all run the same lines.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

from tightrope.errors import PolicyError
from tightrope.problem.laws import shown

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tightrope.problem import Known, Problem, Task

__all__ = [
    "IndexPolicy",
    "InformedPolicy",
    "Policy",
    "Setup",
    "Statistics",
    "advance",
    "limits_of",
    "set_up",
]

Constants = tuple[float, ...]
Terms = tuple[float, float]
SMALLEST, LARGEST = 1e-15, 1e15  # of a parameter, unless it is 0


@dataclass(frozen=True)
class Setup:
    """What a policy fixes for one task and one budget.

    ``constants`` are the numbers its functions receive; ``allowance`` [M] is the penalty that a
    unit of cost drains from each queue (the limit less delta); ``explore`` is how often each arm
    is pulled, in turn, before the first decision, with the queues at rest; ``terms``
    [K, 1 + M, 2] are the arms' terms where they are known from the start; ``warning`` is what the
    user should hear about these numbers. ``window``: only so many pulls are remembered, 0 for all;
    ``fade``: what is remembered is multiplied by it before a pull is added; see ``forgetting``.
    """

    constants: Constants
    allowance: tuple[float, ...]
    explore: int = 0
    terms: npt.NDArray[np.float64] | None = None
    warning: str | None = None
    window: int = 0
    fade: float = 1.0

    @property
    def forgets(self) -> bool:
        """Whether statistics are of less than all that was seen."""
        return self.window > 0 or self.fade < 1.0


@dataclass
class Statistics:
    """What a run remembers of each arm: pulls [K], cost [K], reward [K], penalty [K][M]."""

    pulls: list[float]
    cost: list[float]
    reward: list[float]
    penalty: list[list[float]]


class Policy(ABC):
    """Anything that picks the next arm. Subclass as a frozen dataclass of parameters.

    ``name`` is the word for the shell, ``summary`` one line for a list, ``random`` says whether
    ``decide`` wants a uniform number. ``contestants``, in the shell's words, is how it enters the
    arena, ``forgetful`` how it enters where arms change, ``colour`` how it is drawn.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    random: ClassVar[bool] = False
    contestants: ClassVar[tuple[str, ...]] = ()
    forgetful: ClassVar[tuple[str, ...]] = ()
    colour: ClassVar[str | None] = None

    colours: ClassVar[dict[str, str]] = {}  # of all policies that have one, by name

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        colour = vars(cls).get("colour")  # its own, not its parent's
        if colour and isinstance(getattr(cls, "name", None), str):
            Policy.colours[cls.name] = colour

    @abstractmethod
    def setup(self, task: Any, budget: float) -> Setup:
        """The constants for ``task`` at ``budget`` (normalised)."""

    def for_task(self, known: Known) -> Policy:
        """The policy that runs in its place for what a task declares; itself unless it says so."""
        return self

    @property
    def knows(self) -> str:
        """What it is told of the arms beyond names and scales, in a word or two; "" for nothing."""
        return ""

    @abstractmethod
    def decide(
        self,
        setup: Setup,
        step: float,
        statistics: Statistics,
        queues: Sequence[float],
        uniform: float,
    ) -> int:
        """The arm to pull, from 0, after ``step`` remembered pulls; ``uniform`` is in [0, 1)."""

    @property
    def label(self) -> str:
        """The policy in the shell's words: its name and the parameters that are not default.

        >>> from tightrope.policies import LyOn
        >>> LyOn(delta0=15).label
        'lyon:delta0=15'
        """
        changed = [
            f"{f.name}={_shell_value(getattr(self, f.name))}"
            for f in fields(self)  # type: ignore[arg-type]
            if getattr(self, f.name) != (None if f.default is MISSING else f.default)
        ]
        return self.name + (":" + ",".join(changed) if changed else "")

    def require(self, parameter: str, allowed: str, holds: bool) -> None:
        """Raise a :class:`PolicyError` that names the parameter unless ``holds``."""
        if not holds:
            value = getattr(self, parameter)
            raise PolicyError(f"policy {self.name}: {parameter} = {shown(value)} must be {allowed}")

    def require_number(
        self, parameter: str, low: float, *, open_low: bool = False, optional: bool = False
    ) -> None:
        """Require a finite number of at least ``low`` (above it, if ``open_low``).

        Unless it is 0 its size must lie between 1e-15 and 1e15: what the policies compute of it
        then stays within the range of floats, single precision included.
        """
        value = getattr(self, parameter)
        allowed = f"a finite number {'above' if open_low else 'of at least'} {low:g}"
        if optional and value is None:
            return
        number = isinstance(value, int | float) and not isinstance(value, bool)
        good = number and low <= value < math.inf and not (open_low and value == low)
        self.require(parameter, allowed + (", or none" if optional else ""), good)
        sized = value == 0 or SMALLEST <= abs(value) <= LARGEST
        self.require(parameter, f"between {SMALLEST:g} and {LARGEST:g} in size", sized)


class InformedPolicy(Policy):
    """A policy that knows the laws of the arms: its ``setup`` gets a :class:`Problem`.

    Where it can do without for its parameters, ``knows`` is "" and it gets a task as others do.
    """

    @abstractmethod
    def setup(self, problem: Problem, budget: float) -> Setup:
        """The constants for ``problem`` at ``budget`` (normalised)."""

    @property
    def knows(self) -> str:
        """The laws."""
        return "laws"


def set_up(policy: Policy, known: Task | Problem, budget: float) -> Setup:
    """The policy's setup from what it may see: the task alone, or the problem if it is informed.

    The slack of a problem with several limits takes a linear program over all arms: only a policy
    that says it knows the slack is told.
    """
    from tightrope.problem import MOST_PULLS, Problem

    if not (isinstance(policy, InformedPolicy) and policy.knows):
        if isinstance(known, Problem):
            known = known.declared(slack=policy.knows == "slack" or known.penalty_count <= 1)
    elif not isinstance(known, Problem):
        raise PolicyError(
            f"policy {policy.name}: knows the laws of the arms, so it needs a Problem;"
            " a Task was given"
        )
    setup = policy.setup(known, budget)
    _check_setup(policy, setup, known.penalty_count)
    if setup and setup.explore * known.arm_count > MOST_PULLS:  # no run makes so many pulls
        return replace(setup, explore=int(MOST_PULLS) // known.arm_count)
    return setup


def _check_setup(policy: Policy, setup: object, penalties: int) -> None:
    """Raise unless a policy's ``setup`` gave what the engines need; ours are known to."""
    if type(policy).__module__.startswith("tightrope.") or setup is None:
        return
    place = f"policy {policy.label}: setup"
    if not isinstance(setup, Setup):
        raise PolicyError(f"{place} gave {setup!r}; must be a Setup")
    for name, count in (("constants", None), ("allowance", penalties)):
        values = getattr(setup, name)
        good = isinstance(values, tuple) and all(isinstance(v, Real) for v in values)
        if not good or (count is not None and len(values) != count):
            wanted = "a tuple of numbers" + ("" if count is None else f", {count}: one per limit")
            raise PolicyError(f"{place} gave {name} = {values!r}; must be {wanted}")


def limits_of(known: Known) -> tuple[float, ...]:
    """The limits [M], normalised."""
    return tuple(float(limit) for limit in known.normal_limits)


class IndexPolicy(Policy):
    """A policy that pulls the arm with the smallest index; see the module's docstring.

    ``learns`` says whether terms come from what was seen; ``steady`` that many arms can be ruled
    out at once: ``reward_index`` and ``penalty_index`` are straight lines over the clock for given
    terms, up to a few roundings, the clock is never negative, and ``reward_index`` looks neither
    at the uniform number nor at the arm's number. A policy that does not say so is decided by a
    look at every arm.
    """

    learns: ClassVar[bool] = True
    steady: ClassVar[bool] = False

    @staticmethod
    def clock(constants: Constants, step: float) -> float:
        """A number that all arms share at a step, from the pulls so far (at least 1)."""
        return 0.0

    @staticmethod
    def reward_terms(constants: Constants, pulls: float, cost: float, earned: float) -> Terms:
        """The reward's level and width of an arm, from its totals so far."""
        return 0.0, 0.0

    @staticmethod
    def penalty_terms(constants: Constants, pulls: float, cost: float, penalty: float) -> Terms:
        """A penalty's level and width of an arm, from its totals so far."""
        return 0.0, 0.0

    @staticmethod
    def reward_index(
        constants: Constants, clock: float, uniform: float, arm: float, level: float, width: float
    ) -> float:
        """The part of the arm's index that no queue weighs; ``arm`` counts from 0."""
        raise NotImplementedError

    @staticmethod
    def penalty_index(constants: Constants, clock: float, level: float, width: float) -> float:
        """The part of the arm's index that a queue weighs."""
        return 0.0

    @classmethod
    def functions(cls) -> tuple[Callable[..., Any], ...]:
        """All that a kernel compiles of it, and how a queue moves."""
        terms = (cls.reward_terms, cls.penalty_terms)
        return (cls.clock, *terms, cls.reward_index, cls.penalty_index, advance)

    def decide(
        self,
        setup: Setup,
        step: float,
        statistics: Statistics,
        queues: Sequence[float],
        uniform: float,
    ) -> int:
        """The arm with the smallest index, at the speed of plain Python."""
        number = type(statistics.cost[0])
        constants = tuple(number(value) for value in setup.constants)
        clock = number(self.clock(setup.constants, float(max(step, 1))))
        best, chosen = number(math.inf), 0
        for arm in range(len(statistics.pulls)):
            reward, *penalties = self._terms(setup, constants, statistics, arm)
            index = self.reward_index(constants, clock, uniform, number(arm), *reward)
            for queue, terms in zip(queues, penalties, strict=True):
                index = index + queue * self.penalty_index(constants, clock, *terms)
            if index < best:
                best, chosen = index, arm
        return chosen

    def _terms(
        self, setup: Setup, constants: Constants, statistics: Statistics, arm: int
    ) -> list[Terms]:
        number = type(statistics.cost[0])
        if setup.terms is not None:
            return [(number(level), number(width)) for level, width in setup.terms[arm]]
        pulls, cost = statistics.pulls[arm], statistics.cost[arm]
        return [
            self.reward_terms(constants, pulls, cost, statistics.reward[arm]),
            *(self.penalty_terms(constants, pulls, cost, y) for y in statistics.penalty[arm]),
        ]


def advance(
    queue: float, lost: float, allowance: float, cost: float, penalty: float
) -> tuple[float, float]:
    """The queue after a pull (eqn:q-length), and the rounding that it lost.

    A queue in single precision would round the same drain the same way at every step, and so
    shift the limit; carrying ``lost`` along (Kahan's sum) keeps the shift below 1e-7.
    """
    change = penalty - allowance * cost + lost
    moved = queue + change
    left = change - (moved - queue)
    empty = moved < 0.0
    return (0.0 if empty else moved), (0.0 if empty else left)


def _shell_value(value: Any) -> str:
    if isinstance(value, tuple):
        return "/".join(_shell_value(v) for v in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
