"""Choice policies see all arms at once and choose one with a function ``choose``.

A choice policy consists of three static functions over named arrays of numbers. The same code runs
in plain Python, compiled for the CPU, and in a GPU thread:

    begin(constants, state, scratch)          at the start of a run
    choose(constants, state, scratch, words)  returns the arm to pull, from 0
    learn(constants, state, scratch, row)     after outcomes are added to a row of the state

``state`` is a :class:`~tightrope.policies.state.State`: totals per arm, the budget left and the
allowances left; only the engine writes to it. ``scratch`` is the policy's own memory for the run,
of the type that its ``Scratch`` declares, all zeros before ``begin``. Statistics belong to a *row*;
today every arm has one, and ``rows(state)`` are the rows to choose among. ``learn`` is called for
each row whose totals changed. ``words`` [2] are two random integers below 2^32, new at every step;
:func:`hashed` derives more from them.

With pulls in flight ``choose`` gets a copy of state and scratch (see ``parts.flight``). Its changes
to the copy are lost, except for the fields that the policy names as ``carried``; ``learn`` changes
those for reported pulls only. If the task changes during a run, ``renew`` computes the scratch
again from the state. ``learned`` names the fields that cannot be computed again, each with its
unit: "outcomes", their "squares", "reward", "penalties", "remaining", or "".

The functions may use only ``math``, their arguments and other such functions. They must not
allocate, slice or reshape. Letters: K arms, M penalties, C = 2 + M channels.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from tightrope.policies.base import Constants, Policy, Setup, Statistics, net_penalty, net_sum
from tightrope.policies.state import Array, NoScratch, State, record_fields, rows
from tightrope.problem import Task

WORDS = 2  # random words per step
_MASK = 0xFFFFFFFF


def record(state: State, row: int, outcomes: Array) -> None:
    """Add one pull's outcomes to a row of the state: cost, reward, penalties."""
    penalties = len(state.remaining) - 1
    channels, cost = 2 + penalties, outcomes[0]
    state.pulls[row] += 1.0
    for channel in range(channels):
        value = outcomes[channel]
        state.totals[row * channels + channel] += value
        state.squares[row * channels + channel] += value * value
    for m in range(penalties):
        penalty, base, limit = outcomes[2 + m], state.bases[m], state.limits[m]
        net = net_sum(base, limit, 1.0, outcomes[1], penalty)
        state.products[row * penalties + m] += cost * net
        state.net_squares[row * penalties + m] += net * net
        state.remaining[1 + m] -= net_penalty(base, limit, 1.0, cost, outcomes[1], penalty)
    state.remaining[0] -= cost
    state.steps[0] += 1.0


def hashed(word: int, number: int) -> int:
    """A random integer below 2^32: a hash of a random ``word`` and ``number`` (from 0).

    Products stay below 2^63, so that plain Python and compiled code agree.
    """
    mixed = (word + (number + 1) * 0x9E3779B9) & _MASK
    mixed = ((mixed ^ (mixed >> 16)) * 0x21F0AAAD) & _MASK
    mixed = ((mixed ^ (mixed >> 15)) * 0x735A2D97) & _MASK
    return mixed ^ (mixed >> 15)


def carried_fields(policy: Any) -> list[str]:
    """The fields of a choice policy's scratch that ``choose`` changes permanently."""
    return fields_within(policy.Scratch, policy.carried)


def fields_within(record: type, named: Sequence[str]) -> list[str]:
    """The fields of a record that are named, by themselves or as parts of a record."""
    return [
        name
        for name, _ in record_fields(record)
        if any(name == one or name.startswith(one + ".") for one in named)
    ]


class ChoicePolicy(Policy):
    """A policy with a function ``choose``; subclass it as a frozen dataclass of parameters.

    >>> from dataclasses import dataclass
    >>> from typing import ClassVar
    >>> from tightrope.policies.base import Setup, limits_of
    >>> @dataclass(frozen=True)
    ... class Turns(ChoicePolicy):
    ...     name: ClassVar[str] = "turns"
    ...     summary: ClassVar[str] = "every arm in turn"
    ...
    ...     def setup(self, task, budget):
    ...         return Setup(constants=(), allowance=limits_of(task))
    ...
    ...     @staticmethod
    ...     def choose(constants, state, scratch, words):
    ...         return int(state.steps[0]) % len(state.pulls)
    >>> from tightrope import Controller, Task
    >>> controller = Controller(Task(["a", "b"], limit=0.5), Turns(), budget=10)
    >>> for arm in [controller.ask(), controller.ask()]:
    ...     print(controller.arm_name(arm))
    a
    b
    """

    random: ClassVar[bool] = True
    Scratch: ClassVar[type] = NoScratch
    carried: ClassVar[tuple[str, ...]] = ()  # fields of ``Scratch``, see above
    seldom: ClassVar[tuple[str, ...]] = ()  # fields that a step rarely reads: stored apart on a GPU
    learned: ClassVar[Mapping[str, str]] = {}  # likewise
    short: ClassVar[bool] = True  # whether compiling copies each of its functions into the callers

    @abstractmethod
    def setup(self, task: Task, budget: float) -> Setup:
        """The setup for ``task`` at ``budget`` (normalised), without ``explore`` and ``terms``."""

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Any) -> None:
        """Prepare ``scratch``, all zeros, at the start of a run."""

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Any, words: Array) -> int:
        """The arm to pull, from 0."""
        raise NotImplementedError

    @staticmethod
    def learn(constants: Constants, state: State, scratch: Any, row: int) -> None:
        """Update ``scratch`` for a row whose totals changed."""

    @classmethod
    def renew(cls, constants: Constants, state: State, scratch: Any) -> None:
        """Compute ``scratch`` again, after ``begin``, from a state with pulls; never compiled."""
        for row in rows(state):
            if state.pulls[row] > 0.0:
                cls.learn(constants, state, scratch, row)

    @classmethod
    def functions(cls, penalties: int | None = None) -> tuple[Callable[..., Any], ...]:
        """The functions that kernels compile; fewer may be enough for a number of ``penalties``."""
        return (cls.begin, cls.choose, cls.learn)

    def decide(
        self,
        setup: Setup,
        step: float,
        statistics: Statistics,
        queues: Sequence[float],
        uniform: float,
    ) -> int:
        """Not available: ``choose`` needs the whole state, not only these totals."""
        raise NotImplementedError(f"policy {self.name} decides by choose")
