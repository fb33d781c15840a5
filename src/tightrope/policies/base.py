"""The base classes of policies: frozen dataclasses of parameters with pure scalar functions.

Everything here is in normalised units: outcomes in [0, 1], the budget in units of the largest
cost of one pull. Letters: K arms, M penalties.

A policy computes its constants once per budget (``setup``, called by ``set_up``) and then picks
an arm at every step. ``setup`` gets a :class:`~tightrope.problem.Task`, which holds no
distributions of the arms; that of an :class:`InformedPolicy` gets the whole
:class:`~tightrope.problem.Problem`. An :class:`IndexPolicy` pulls the arm with the smallest

    reward_index(arm) + sum over m of queue_m * penalty_index(arm, m)

with ties going to the lowest arm number. Each part is computed from two *terms* of the arm, a level
and a width, that change only when the arm is pulled. These functions are ``staticmethod``s that use
only their arguments and ``math``, so that SIMD lanes, CUDA threads, live campaigns and a plain
Python loop all run the same lines.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tightrope.errors import PolicyError, TightropeError
from tightrope.policies.faults import (
    failed,
    is_outside,
    require_dataclass,
    require_forms,
    require_index,
)
from tightrope.problem import Known, Problem, Task
from tightrope.problem.values import shown

Constants = tuple[float, ...]
Terms = tuple[float, float]
SMALLEST, LARGEST = 1e-15, 1e15  # allowed size of a parameter other than 0


@dataclass(frozen=True)
class Setup:
    """The numbers that a policy computes for one task and one budget.

    - ``constants``: passed to the policy's functions.
    - ``allowance`` [M]: the penalty that a unit of cost drains from each queue, which is the limit
      minus delta.
    - ``explore``: how often each arm is pulled, in turn, before the first decision. Meanwhile the
      queues do not change.
    - ``terms`` [K, 1 + M, 2]: the arms' terms, if they are known from the start.
    - ``warning``: shown to the user.
    - ``window``: how many of the last pulls are remembered; 0 for all.
    - ``fade``: all totals are multiplied by it before a pull is added.
    - ``watch``, ``watch_block``: the false-alarm probability of the test for changed arms (0 for no
      test), and how many pulls count as one in it.
    - ``bases`` [M]: the bases of the limits, empty if all are per unit of cost. The library fills
      it in and appends the limits to the constants; a choice policy finds them in its state.

    >>> Setup(constants=(0.5,), allowance=(0.8,), explore=3).forgets
    False
    """

    constants: Constants
    allowance: tuple[float, ...]
    explore: int = 0
    terms: npt.NDArray[np.float64] | None = None
    warning: str | None = None
    window: int = 0
    fade: float = 1.0
    watch: float = 0.0
    watch_block: int = 1
    bases: tuple[float, ...] = ()

    @property
    def forgets(self) -> bool:
        """Whether the policy forgets or discounts old pulls."""
        return self.window > 0 or self.fade < 1.0 or self.watch > 0.0

    def history(self, arms: int, penalties: int) -> npt.NDArray[np.float64]:
        """The numbers of past pulls that a run keeps, at its start."""
        if self.watch > 0.0:
            from tightrope.policies.parts.watch import fresh_watch

            return fresh_watch(arms, penalties, self.watch_block)
        return np.zeros(self.window * (3 + penalties))

    @property
    def forgetting(self) -> float:
        """The argument of ``remember``: the factor, or minus the chance of a false alarm."""
        return -self.watch if self.watch > 0.0 else self.fade


@dataclass
class Statistics:
    """A run's totals per arm: pulls [K], cost [K], reward [K], penalty [K][M]."""

    pulls: list[float]
    cost: list[float]
    reward: list[float]
    penalty: list[list[float]]


class Policy(ABC):
    """A rule that picks the next arm. Subclass it as a frozen dataclass of parameters.

    ``name`` is its name in the shell, ``summary`` one line for lists. ``random``: whether
    ``decide`` needs a uniform number. ``contestants``: the variants in the arena, as written in the
    shell; ``forgetful``: those for arms that change. ``colour``: its colour in figures.

    >>> from tightrope import LyOn, parse_policy
    >>> policy = parse_policy("lyon:delta0=15")
    >>> isinstance(policy, Policy), policy == LyOn(delta0=15), policy.name
    (True, True, 'lyon')
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    random: ClassVar[bool] = False
    contestants: ClassVar[tuple[str, ...]] = ()
    forgetful: ClassVar[tuple[str, ...]] = ()
    colour: ClassVar[str | None] = None
    contextual: ClassVar[bool] = False  # whether it uses the types of requests, and chooses rows
    spatial: ClassVar[bool] = False  # whether it uses that the arms are numbers

    colours: ClassVar[dict[str, str]] = {}  # by policy name, for all policies that have one

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        colour = vars(cls).get("colour")  # its own, not its parent's
        if colour and isinstance(getattr(cls, "name", None), str):
            Policy.colours[cls.name] = colour

    @abstractmethod
    def setup(self, task: Any, budget: float) -> Setup:
        """The constants for ``task`` at ``budget`` (normalised)."""

    def for_task(self, known: Known) -> Policy:
        """The policy that runs in its place for this task; by default itself."""
        return self

    @property
    def knows(self) -> str:
        """What the policy knows about the arms beyond names and scales; "" for nothing."""
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
        """The number (from 0) of the arm to pull after ``step`` pulls; ``uniform`` is in [0, 1)."""

    @property
    def label(self) -> str:
        """The policy as written in the shell: its name and the non-default parameters.

        >>> from tightrope.policies import LyOn
        >>> LyOn(delta0=15).label
        'lyon:delta0=15'
        """
        require_dataclass(type(self))
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
        self,
        parameter: str,
        low: float,
        *,
        open_low: bool = False,
        below: float = math.inf,
        optional: bool = False,
    ) -> None:
        """Require a finite number from ``low`` (above it, if ``open_low``) to below ``below``.

        A number other than 0 must also be between 1e-15 and 1e15 in size, so that computed values
        stay in range, even in single precision.
        """
        value = getattr(self, parameter)
        allowed = f"a finite number {'above' if open_low else 'of at least'} {low:g}"
        if below < math.inf:
            allowed = f"a number between {low:g} and {below:g}"
        if optional and value is None:
            return
        number = isinstance(value, int | float) and not isinstance(value, bool)
        good = number and low <= value < below and not (open_low and value == low)
        self.require(parameter, allowed + (", or none" if optional else ""), good)
        sized = value == 0 or SMALLEST <= abs(value) <= LARGEST
        self.require(parameter, f"between {SMALLEST:g} and {LARGEST:g} in size", sized)


class InformedPolicy(Policy):
    """A policy that knows the distributions of the arms: its ``setup`` gets a :class:`Problem`.

    If it does not need the distributions (``needs_laws``), it gets a task like other policies.

    >>> from tightrope import LyOff, LyOn
    >>> isinstance(LyOff(), InformedPolicy), isinstance(LyOn(), InformedPolicy)
    (True, False)
    """

    @abstractmethod
    def setup(self, problem: Problem, budget: float) -> Setup:
        """The constants for ``problem`` at ``budget`` (normalised)."""

    @property
    def knows(self) -> str:
        """The distributions."""
        return "laws"

    def needs_laws(self, known: Task | Problem) -> bool:
        """Whether ``setup`` needs a problem; False if the parameters contain all it needs."""
        return bool(self.knows)


def set_up(policy: Policy, known: Task | Problem, budget: float) -> Setup:
    """The policy's setup, from the task or, for an informed policy, from the problem.

    With several limits, computing the slack takes a linear program over all arms, so it is computed
    only for a policy whose ``knows`` is "slack".
    """
    from tightrope.problem import MOST_PULLS, Problem

    known = known.at(budget * known.scales.cost)
    if isinstance(policy, InformedPolicy) and policy.needs_laws(known):
        if not isinstance(known, Problem):
            raise PolicyError(f"policy {policy.name}: {_lacking(policy.knows)}")
    else:
        if isinstance(known, Problem):
            known = known.declared(slack=policy.knows == "slack" or known.penalty_count <= 1)
        if policy.contextual:
            known = known.over_rows
    setup = _setup(policy, known, budget)
    _check_setup(policy, setup, known.penalty_count)
    if setup and any(known.net_bases):
        more = () if hasattr(policy, "choose") else limits_of(known)
        setup = replace(setup, bases=known.net_bases, constants=(*setup.constants, *more))
    if setup and setup.explore * known.arm_count > MOST_PULLS:  # more pulls than any run makes
        return replace(setup, explore=int(MOST_PULLS) // known.arm_count)
    return setup


def _setup(policy: Policy, known: Task | Problem, budget: float) -> Setup:
    """The result of the policy's ``setup``; an error in a user's own policy names its line."""
    if not is_outside(type(policy)):
        return policy.setup(known, budget)
    label = policy.label
    require_forms(type(policy))
    try:
        return policy.setup(known, budget)
    except TightropeError:
        raise
    except Exception as error:
        raise failed(type(policy), error, label=label) from error


def _lacking(knows: str) -> str:
    """Why an informed policy refuses a task."""
    if knows == "laws":
        return "knows the arms' distributions, so it needs a Problem; a Task was given"
    needs = "a Problem, or a Task that declares it"
    return f"knows the {knows}, so it needs {needs}; this Task does not"


def _check_setup(policy: Policy, setup: object, penalties: int) -> None:
    """Raise if a user's policy returned an invalid ``Setup``; built-in policies are not checked."""
    if not is_outside(type(policy)):
        return
    place = f"policy {policy.label}: setup"
    if not isinstance(setup, Setup):
        raise PolicyError(f"{place} returned {setup!r}; must be a Setup")
    if hasattr(policy, "choose") and setup.explore:
        allowed = "0: a policy with choose chooses its first pulls itself"
        raise PolicyError(f"{place} returned explore = {setup.explore!r}; must be {allowed}")
    if (
        not isinstance(setup.explore, int | np.integer)
        or isinstance(setup.explore, bool)
        or setup.explore < 0
    ):
        allowed = "a whole number of at least 0"
        raise PolicyError(f"{place} returned explore = {setup.explore!r}; must be {allowed}")
    for name, count in (("constants", None), ("allowance", penalties)):
        values = getattr(setup, name)
        good = isinstance(values, tuple) and all(isinstance(v, Real) for v in values)
        if not good or (count is not None and len(values) != count):
            wanted = "a tuple of numbers" + ("" if count is None else f", {count}: one per limit")
            raise PolicyError(f"{place} returned {name} = {values!r}; must be {wanted}")
        if any(value != value for value in values):
            raise PolicyError(f"{place} returned {name} = {values!r}; must be numbers, not nan")


def limits_of(known: Known) -> tuple[float, ...]:
    """The limits [M] of the net penalties per unit of cost, normalised.

    >>> from tightrope import Limit, Task
    >>> limits_of(Task(["a", "b"], {"bad": Limit(0.05, per="pull")}, costs=1))
    (0.05,)
    """
    return tuple(float(limit) for limit in known.net_limits)


class IndexPolicy(Policy):
    """A policy that pulls the arm with the smallest index.

    The index is ``reward_index`` plus the sum over limits of queue times ``penalty_index``; the
    queues grow with penalties above the limits. ``learns``: the terms are computed from observed
    outcomes. ``steady``: for given terms, ``reward_index`` and ``penalty_index`` are linear in the
    clock up to rounding, the clock is never negative, and ``reward_index`` uses neither the uniform
    number nor the arm's number. Engines can then rule out many arms at once; otherwise they compute
    every index.

    >>> from tightrope.policies.base import Setup, limits_of
    >>> from dataclasses import dataclass
    >>> from typing import ClassVar
    >>> @dataclass(frozen=True)
    ... class Thrifty(IndexPolicy):
    ...     name: ClassVar[str] = "thrifty"
    ...     summary: ClassVar[str] = "the smallest penalty rate"
    ...
    ...     def setup(self, task, budget):
    ...         return Setup(constants=(), allowance=limits_of(task), explore=1)
    ...
    ...     @staticmethod
    ...     def penalty_terms(constants, pulls, cost, penalty):
    ...         return (penalty / cost if cost > 0.0 else 0.0), 1.0 / pulls
    ...
    ...     @staticmethod
    ...     def reward_index(constants, clock, uniform, arm, level, width):
    ...         return 0.0
    ...
    ...     @staticmethod
    ...     def penalty_index(constants, clock, level, width):
    ...         return level - 0.1 * width
    >>> Thrifty().label
    'thrifty'
    """

    learns: ClassVar[bool] = True
    steady: ClassVar[bool] = False

    @staticmethod
    def clock(constants: Constants, step: float) -> float:
        """A number shared by all arms at a step; ``step`` is the pulls so far, at least 1."""
        return 0.0

    @staticmethod
    def reward_terms(constants: Constants, pulls: float, cost: float, earned: float) -> Terms:
        """The level and width of an arm's reward, from the arm's totals so far."""
        return 0.0, 0.0

    @staticmethod
    def penalty_terms(constants: Constants, pulls: float, cost: float, penalty: float) -> Terms:
        """The level and width of one of an arm's penalties, from the arm's totals so far."""
        return 0.0, 0.0

    @staticmethod
    def reward_index(
        constants: Constants, clock: float, uniform: float, arm: float, level: float, width: float
    ) -> float:
        """The part of the arm's index without queues; ``arm`` counts from 0."""
        raise NotImplementedError

    @staticmethod
    def penalty_index(constants: Constants, clock: float, level: float, width: float) -> float:
        """The part of the arm's index that is multiplied by a queue."""
        return 0.0

    @classmethod
    def functions(cls) -> tuple[Callable[..., Any], ...]:
        """The functions that kernels compile: the policy's own and the queue's ``advance``."""
        own = (cls.clock, cls.reward_terms, cls.penalty_terms, cls.reward_index, cls.penalty_index)
        return (*own, advance, net_penalty, net_sum, net_width)

    def decide(
        self,
        setup: Setup,
        step: float,
        statistics: Statistics,
        queues: Sequence[float],
        uniform: float,
    ) -> int:
        """The arm with the smallest index, computed in plain Python."""
        number = type(statistics.cost[0])
        constants = tuple(number(value) for value in setup.constants)
        clock = number(self.clock(setup.constants, float(max(step, 1))))
        best, chosen, outside = number(math.inf), 0, is_outside(type(self))
        for arm in range(len(statistics.pulls)):
            reward, *penalties = self._terms(setup, constants, statistics, arm)
            if outside and any(isinstance(one, Real) for one in (reward, *penalties)):
                from tightrope.policies.faults import place_of

                wrong = self.reward_terms if isinstance(reward, Real) else self.penalty_terms
                raise PolicyError(
                    f"policy {self.label}: {wrong.__name__} of arm {arm} gives one number at step"
                    f" {step:g}; must be a pair (level, width){place_of(type(self), wrong)}"
                )
            index = self.reward_index(constants, clock, uniform, number(arm), *reward)
            if outside:
                require_index(self, self.reward_index, index, arm, step)
            for queue, terms in zip(queues, penalties, strict=True):
                index = index + queue * self.penalty_index(constants, clock, *terms)
                if outside:
                    require_index(self, self.penalty_index, index, arm, step)
            if index < best:
                best, chosen = index, arm
        return chosen

    def _terms(
        self, setup: Setup, constants: Constants, statistics: Statistics, arm: int
    ) -> list[Terms]:
        number = type(statistics.cost[0])
        if setup.terms is not None:
            return [(number(level), number(width)) for level, width in setup.terms[arm]]
        pulls, cost, earned = (
            statistics.pulls[arm], statistics.cost[arm], statistics.reward[arm]
        )  # fmt: skip
        terms = [self.reward_terms(constants, pulls, cost, earned)]
        bases, first = setup.bases, len(constants) - len(setup.bases)
        for m, penalty in enumerate(statistics.penalty[arm]):
            if not bases:
                terms.append(self.penalty_terms(constants, pulls, cost, penalty))
                continue
            limit = constants[first + m]
            net = net_sum(bases[m], limit, pulls, earned, penalty)
            level, width = self.penalty_terms(constants, pulls, cost, net)
            terms.append((level, width * number(net_width(bases[m], limit))))
        return terms


def net_penalty(
    base: float, limit: float, pull: float, cost: float, reward: float, penalty: float
) -> float:
    """The net penalty of a pull, limited to ``limit`` per unit of cost; see ``problem.limits``.

    ``base``: 0 for a limit per unit of cost, where it is the penalty Y itself; k > 0 for a limit of
    k times ``limit`` per pull, -k for one of as much per reward: Y - limit (k pull - X), likewise.
    """
    if base == 0.0:
        return penalty
    return penalty - limit * ((base * pull if base > 0.0 else -base * reward) - cost)


def net_sum(base: float, limit: float, pulls: float, reward: float, penalty: float) -> float:
    """The sum of Y - c base over an arm's pulls, or of Y for a limit per unit of cost."""
    if base == 0.0:
        return penalty
    return penalty - limit * (base * pulls if base > 0.0 else -base * reward)


def net_width(base: float, limit: float) -> float:
    """The factor on a confidence width for Y - c base, which lies in [-c, 1] per reward."""
    return 1.0 - limit * base if base < 0.0 else 1.0


def advance(
    queue: float, lost: float, allowance: float, cost: float, penalty: float
) -> tuple[float, float]:
    """The queue after a pull (eqn:q-length), and the rounding error of that sum.

    In single precision, equal drains would be rounded the same way at every step, which would shift
    the limit. Adding the last error ``lost`` back (Kahan's sum) keeps the shift below 1e-7.
    """
    change = penalty - allowance * cost + lost
    moved = queue + change
    left = change - (moved - queue)
    empty = moved < 0.0
    return (0.0 if empty else moved), (0.0 if empty else left)


def _shell_value(value: Any) -> str:
    if isinstance(value, tuple):
        return "/".join(_shell_value(v) for v in value)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
