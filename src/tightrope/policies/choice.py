"""Policies that weigh all arms at once: ``choose`` over what a run remembers.

Three static functions over named arrays of plain numbers, the same lines in plain Python, compiled
for the processor, and in a GPU's thread:

    begin(constants, state, scratch)          at the start of a run
    choose(constants, state, scratch, words)  -> the arm to pull, from 0
    learn(constants, state, scratch, arm)     after its outcomes are counted

``state`` is a :class:`~tightrope.policies.state.State`: what is remembered of each arm and what
remains of budget and allowances; only the engine writes to it. ``scratch`` is the policy's own
memory for the run: its ``Scratch``, a record that it declares once, all zeros before ``begin``.
``learn`` follows for each arm whose numbers changed. ``words`` [2] are two random whole numbers
below 2^32, new at every step; :func:`hashed` makes as many more of them as are needed.

Write them with ``math``, the arguments and other such functions alone: nothing is allocated, sliced
or reshaped. Letters: K arms, M penalties, C = 2 + M channels.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tightrope.policies.base import Constants, Policy, Setup, Statistics
from tightrope.policies.state import Array, NoScratch, State

if TYPE_CHECKING:
    from tightrope.problem import Task

__all__ = ["WORDS", "ChoicePolicy", "hashed", "record"]

WORDS = 2  # random words per step
_MASK = 0xFFFFFFFF


def record(state: State, arm: int, outcomes: Array) -> None:
    """Count one pull's outcomes: cost, reward, penalties."""
    penalties = len(state.remaining) - 1
    channels, cost = 2 + penalties, outcomes[0]
    state.pulls[arm] += 1.0
    for channel in range(channels):
        value = outcomes[channel]
        state.totals[arm * channels + channel] += value
        state.squares[arm * channels + channel] += value * value
    for m in range(penalties):
        state.products[arm * penalties + m] += cost * outcomes[2 + m]
        state.remaining[1 + m] -= outcomes[2 + m]
    state.remaining[0] -= cost
    state.steps[0] += 1.0


def hashed(word: int, number: int) -> int:
    """Another random number below 2^32, for each ``number`` from 0: a hash of both.

    Products stay below 2^63, so that plain Python and compiled code agree.
    """
    mixed = (word + (number + 1) * 0x9E3779B9) & _MASK
    mixed = ((mixed ^ (mixed >> 16)) * 0x21F0AAAD) & _MASK
    mixed = ((mixed ^ (mixed >> 15)) * 0x735A2D97) & _MASK
    return mixed ^ (mixed >> 15)


class ChoicePolicy(Policy):
    """A policy by ``choose``; subclass as a frozen dataclass of parameters."""

    random: ClassVar[bool] = True
    Scratch: ClassVar[type] = NoScratch

    @abstractmethod
    def setup(self, task: Task, budget: float) -> Setup:
        """The constants for ``task`` at ``budget`` (normalised); no exploration, no terms."""

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Any) -> None:
        """Prepare ``scratch``, all zeros, at the start of a run."""

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Any, words: Array) -> int:
        """The arm to pull, from 0."""
        raise NotImplementedError

    @staticmethod
    def learn(constants: Constants, state: State, scratch: Any, arm: int) -> None:
        """Renew what ``scratch`` says about an arm whose numbers changed."""

    @classmethod
    def functions(cls, penalties: int | None = None) -> tuple[Callable[..., Any], ...]:
        """All that a kernel compiles of it; one for so many ``penalties`` may need less."""
        return (cls.begin, cls.choose, cls.learn)

    def decide(
        self,
        setup: Setup,
        step: float,
        statistics: Statistics,
        queues: Sequence[float],
        uniform: float,
    ) -> int:
        """Not how these policies decide: they see more than totals."""
        raise NotImplementedError(f"policy {self.name} decides by choose")
