"""Policies that weigh all arms at once: ``choose`` over the statistics and what is left.

Three static functions over arrays of plain numbers, the same lines compiled and in plain Python:

    begin(constants, arms, left, own)        at the start of a run
    choose(constants, arms, left, own, luck) -> the arm to pull, from 0
    learn(constants, arms, left, own, arm)   after its outcomes are counted

``arms`` [K, S] is what the run has seen of each arm, or remembers of it where a policy forgets
(``memory``); see :class:`Seen` for its columns. ``learn`` follows for each arm whose row changed.
``left`` [2 + M] is what is left: budget, pulls so far (that one counts up), then each limit's
allowance, c_m B less the penalty so far. ``own`` is the policy's scratch, ``scratch(K, M)`` numbers
that last for the run. ``luck`` [2] are two random whole numbers below 2^32 a step;
:func:`hashed` makes as many more of them as are needed. Letters: K arms, M penalties.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from tightrope.policies.base import Constants, Policy, Setup, Statistics

__all__ = ["ChoicePolicy", "Seen", "hashed", "record"]

Array = Any  # of numbers: numpy's in plain Python, the machine's in a kernel
WORDS = 2  # of luck, a step
_MASK = 0xFFFFFFFF


class Seen(NamedTuple):
    """The columns of ``arms``: pulls, then groups of one column a channel."""

    pulls: int
    totals: int  # of the cost, the reward, each penalty
    squares: int  # of the same
    products: int  # of the cost with each penalty
    columns: int  # how many

    @classmethod
    def of(cls, penalties: int) -> Seen:
        """The columns for M penalties."""
        channels = 2 + penalties
        return cls(0, 1, 1 + channels, 1 + 2 * channels, 1 + 2 * channels + penalties)


def record(arms: Array, left: Array, arm: int, outcomes: Array) -> None:
    """Count one pull's outcomes: cost, reward, penalties."""
    channels = len(left)  # 2 + M, as many as outcomes
    arms[arm, 0] += 1.0
    for channel in range(channels):
        value = outcomes[channel]
        arms[arm, 1 + channel] += value
        arms[arm, 1 + channels + channel] += value * value
        if channel >= 2:
            arms[arm, 1 + 2 * channels + channel - 2] += outcomes[0] * value
            left[channel] -= value
    left[0] -= outcomes[0]
    left[1] += 1.0


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

    @abstractmethod
    def setup(self, problem: Any, budget: float) -> Setup:
        """The constants for ``problem`` at ``budget`` (normalised); no exploration, no terms."""

    def scratch(self, arms: int, penalties: int) -> int:
        """How many numbers of its own a run of the policy keeps."""
        return 0

    @staticmethod
    def begin(constants: Constants, arms: Array, left: Array, own: Array) -> None:
        """Prepare ``own``, all zeros, at the start of a run."""

    @staticmethod
    def choose(constants: Constants, arms: Array, left: Array, own: Array, luck: Array) -> int:
        """The arm to pull, from 0."""
        raise NotImplementedError

    @staticmethod
    def learn(constants: Constants, arms: Array, left: Array, own: Array, arm: int) -> None:
        """Renew what ``own`` says about an arm whose row changed."""

    @classmethod
    def functions(cls) -> tuple[Callable[..., Any], ...]:
        """All that a kernel compiles of it."""
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
