"""Policies with fixed probabilities: stationary randomized, uniform, and a single arm.

pi* of the paper (def:osrp) is the stationary policy with the oracle's pull shares.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.errors import PolicyError
from tightrope.optimum.pi_star import oracle_of_arms
from tightrope.policies.base import Constants, IndexPolicy, InformedPolicy, Setup, limits_of
from tightrope.policies.parts.words import arm_number, as_arm
from tightrope.problem import Problem, Task, require_unchanging


class _Odds(IndexPolicy):
    """A policy with fixed odds: it pulls the first arm whose cumulative share exceeds a uniform."""

    random = True
    learns = False

    def odds(self, known: Any) -> npt.NDArray[np.float64]:
        """The probability of pulling each arm [K], from a task or, if informed, a problem."""
        raise NotImplementedError

    def setup(self, known: Task | Problem, budget: float) -> Setup:
        """The cumulative shares as terms; the queues do not affect the choice."""
        shares = self.odds(known)
        reach = np.cumsum(shares)
        reach[np.flatnonzero(shares)[-1] :] = 1.0  # exactly, despite rounding in the sum
        terms = np.zeros((len(shares), 1 + known.penalty_count, 2))
        terms[:, 0, 0] = reach
        return Setup((), limits_of(known), terms=terms)

    @staticmethod
    def reward_index(
        constants: Constants, clock: float, uniform: float, arm: float, level: float, width: float
    ) -> float:
        """0 for arms whose cumulative share exceeds the uniform number, 1 for the others."""
        return 0.0 if uniform < level else 1.0


@dataclass(frozen=True)
class Stationary(_Odds, InformedPolicy):
    """Pull arm k with probability ``shares[k]`` at every step (prop:srp).

    ``shares`` are shares of *pulls*, one per arm, summing to 1; ``None`` takes those of pi*.

    >>> Stationary(shares=(0.25, 0.75)).label
    'stationary:shares=0.25/0.75'
    """

    shares: tuple[float, ...] | None = None

    name = "stationary"
    summary = "fixed pull shares; the oracle's by default, which is pi*"
    contestants = ("stationary",)
    colour = "#1a1b1e"

    def __post_init__(self) -> None:
        if self.shares is not None:
            shares = self.shares if isinstance(self.shares, Iterable) else (self.shares,)
            object.__setattr__(self, "shares", tuple(shares))
            good = all(isinstance(share, int | float) and 0 <= share <= 2 for share in self.shares)
            good = good and abs(sum(self.shares) - 1.0) < 1e-6
            self.require("shares", "numbers of at least 0 that sum to 1", good)
            object.__setattr__(self, "shares", tuple(float(share) for share in self.shares))

    @property
    def knows(self) -> str:
        """The distributions, if the shares are not given."""
        return "laws" if self.shares is None else ""

    def odds(self, known: Any) -> npt.NDArray[np.float64]:
        """``shares``, or the pull shares of pi*."""
        if self.shares is None:
            require_unchanging(
                known,
                f"policy {self.name}: shares = None takes the best mixture of",
                error=PolicyError,
                instead="; state the shares",
            )
            return np.asarray(oracle_of_arms(known.blind).pull_share, float)
        self.require(
            "shares",
            f"{known.arm_count} numbers, one per arm",
            len(self.shares) == known.arm_count,
        )
        return np.asarray(self.shares)


@dataclass(frozen=True)
class UniformRandom(_Odds):
    """Pull every arm with the same probability.

    >>> UniformRandom().label
    'uniform-random'
    """

    name = "uniform-random"
    summary = "every arm with the same probability"
    colour = "#56b4e9"

    def odds(self, task: Task) -> npt.NDArray[np.float64]:
        """1 / K each."""
        return np.full(task.arm_count, 1.0 / task.arm_count)


@dataclass(frozen=True)
class FixedArm(_Odds):
    """Always pull the same arm: ``arm`` is its number, from 1 as in the paper, or its name.

    >>> FixedArm("bold").label
    'fixed-arm:arm=bold'
    """

    arm: int | str = 1

    name = "fixed-arm"
    summary = "always the same arm, by its number from 1 or its name"
    colour = "#e69f00"
    random = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "arm", as_arm(self.arm))
        self.require("arm", "an arm's number from 1, or its name", type(self.arm) in (int, str))

    def odds(self, task: Task) -> npt.NDArray[np.float64]:
        """1 for the arm, 0 for the others."""
        odds = np.zeros(task.arm_count)
        odds[arm_number(self.name, "arm", self.arm, task)] = 1.0
        return odds
