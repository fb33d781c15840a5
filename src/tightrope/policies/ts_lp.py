"""TS-LP: the best mixture of sampled arms, by a linear program solved anew at every step.

Ferreira, Simchi-Levi and Wang, "Online network revenue management using Thompson sampling",
Operations Research 66(6), 2018: draw the unknown means from their posteriors, solve the linear
program of the drawn problem, play from its solution. Their TS-fixed solves against the inventory
per period at the start, TS-update against what is left of it per period left.

Adapted to rates and a total random cost: mean cost x, reward r and penalties y of every arm are
drawn, the program runs over shares of *cost* with rates r / x, y_m / x and the limits c_m
(TS-fixed) or, for each, allowance left / budget left (TS-update), and an arm is drawn by share of
cost over drawn cost. Theirs may offer nothing; ours must spend the budget, so the shares sum to 1,
and if no mixture keeps the limits it takes the least violating one. Priors are Beta(1, 1); outcomes
other than 0 and 1 are turned into coins (see ``sampling``). No arm is pulled by rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from tightrope.policies.base import Constants, Setup
from tightrope.policies.choice import Array, ChoicePolicy
from tightrope.policies.mixture import best_mixture, pick, work_size
from tightrope.policies.sampling import (
    coin,
    count_outcomes,
    keep_word,
    posterior_size,
    sampled_mean,
)
from tightrope.policies.words import as_flag

if TYPE_CHECKING:
    from tightrope.problem import Problem

__all__ = ["TSLP"]

LEAST = 1e-6  # of a limit: what is promised when nothing is left of it


@dataclass(frozen=True)
class TSLP(ChoicePolicy):
    """Mix the arms as if their sampled means were the truth.

    ``update``: against what is left of the allowances and the budget (TS-update), not against the
    constant limits (TS-fixed).
    """

    update: bool = False

    name: ClassVar[str] = "ts-lp"
    summary: ClassVar[str] = "the best mixture of sampled arms, solved anew at every step"

    def __post_init__(self) -> None:
        object.__setattr__(self, "update", as_flag(self.update))
        self.require("update", "true or false", isinstance(self.update, bool))

    def setup(self, problem: Problem, budget: float) -> Setup:
        """Whether the limits follow what is left."""
        limits = tuple(float(limit) for limit in problem.moments.limits)
        return Setup(constants=(1.0 if self.update else 0.0,), allowance=limits)

    def scratch(self, arms: int, penalties: int) -> int:
        """The posteriors, then the sizes of ``Parts``, in order."""
        own = 2 * penalties + 2 * arms + arms * penalties + work_size(penalties)
        return posterior_size(arms, penalties) + own

    @staticmethod
    def begin(constants: Constants, arms: Array, left: Array, own: Array) -> None:
        """Note the limits."""
        parts = _parts(arms, left, own)
        for m in range(len(parts.limits)):
            parts.limits[m] = left[2 + m] / left[0]

    @staticmethod
    def choose(constants: Constants, arms: Array, left: Array, own: Array, luck: Array) -> int:
        """An arm of the best sampled mixture."""
        keep_word(own, luck[1])
        parts = _parts(arms, left, own)
        limited = len(parts.limits)
        _draw(arms, own, parts, luck[0])
        for m in range(limited):
            parts.promised[m] = parts.limits[m]
            if constants[0] > 0.0 and left[0] > 0.0:
                parts.promised[m] = max(left[2 + m] / left[0], LEAST * parts.limits[m])
        best_mixture(parts.reward, parts.penalty, parts.promised, parts.work)
        return pick(parts.work, limited, parts.cost, coin(luck[1]))

    @staticmethod
    def learn(constants: Constants, arms: Array, left: Array, own: Array, arm: int) -> None:
        """Update the posteriors of the arm just pulled."""
        count_outcomes(arms, own, arm, len(left))


def _draw(arms: Array, own: Array, parts: Parts, word: int) -> None:
    """Draw every arm's means, and from them its rates."""
    limited = len(parts.limits)
    channels = 2 + limited
    for arm in range(len(arms)):
        cost = sampled_mean(arms, own, arm, 0, channels, word)
        parts.cost[arm] = cost
        parts.reward[arm] = sampled_mean(arms, own, arm, 1, channels, word) / cost
        for m in range(limited):
            drawn = sampled_mean(arms, own, arm, 2 + m, channels, word)
            parts.penalty[arm * limited + m] = drawn / cost


class Parts(NamedTuple):
    """What follows the posteriors in the policy's scratch, by name."""

    limits: Array  # [M]
    promised: Array  # [M] what the mixture has to keep
    cost: Array  # [K] drawn mean
    reward: Array  # [K] drawn rate
    penalty: Array  # [K, M] drawn rates
    work: Array  # of the linear program


def _parts(arms: Array, left: Array, own: Array) -> Parts:
    count, limited = len(arms), len(left) - 2
    first = 1 + 2 * count * (2 + limited)
    cost = first + 2 * limited
    penalty = cost + 2 * count
    work = penalty + count * limited
    return Parts(
        own[first : first + limited],
        own[first + limited : cost],
        own[cost : cost + count],
        own[cost + count : penalty],
        own[penalty:work],
        own[work:],
    )
