"""OptPess-LP: the best mixture by optimistic rewards and pessimistic penalties, from a safe arm.

Liu, Zhou, Kalathil, Kumar and Tian, "Learning policies with zero or bounded constraint violation
for constrained MDPs", NeurIPS 2021. A policy with an expected cost c0 below the limit tau is known.
In every episode they solve the linear program of the estimated process in which the cost of a
state and action is raised by its confidence radius and the reward by a larger one,

    c + (1 + S H) beta <= tau,   r + (1 + S H + 4 H (1 + S H) / (tau - c0)) beta

for S states and episodes of H steps, with beta = sqrt(log(16 S^2 A H N / delta) / n) for A actions
and N episodes; the enlarged reward makes up for what caution about the costs takes away, so that
every arm that might belong to the best mixture is tried. Until the program has a solution the safe
policy is played. DOPE (Bura, HasanzadeZonuzy, Kalathil, Shakkottai and Chamberland, NeurIPS 2022)
has the same parts and tighter radii for the transitions; without transitions, as here, the two are
one, and that of Pacchiano, Ghavamzadeh, Bartlett and Jiang ("Stochastic bandits with linear
constraints", AISTATS 2021), who put 2 for the 4.

Adapted to a bandit with rates and a total random cost: S = H = 1 and the terms S H, which stand for
unknown transitions, are left out; N is the budget B. With n pulls of an arm, means x, r, y_m and
beta = sqrt(alpha log(16 K B / risk) / n), at most 1, the program runs over shares of *cost* w,

    maximise w . R   subject to   w . Y_m <= c_m,   sum w = 1
    R = (min(r + beta, 1) + bonus beta max over m of (1 + c_m) / (c_m - s_m)) / l
    Y_m = min(y_m + beta, 1) / l,   l = max(x - beta, 0.001)

and an arm is drawn by w / l, its pulls per unit of cost by the lower bounds: so the constraint is
that the pulls' pessimistic y_m - c_m x is at most 0, which an arm never pulled can keep as a part
of a mixture with the safe one. The radius of y_m - c_m x is (1 + c_m) beta. Where their proof asks
for twice the largest return over tau - c0, 4 covers reward rates of up to 2 largest rewards per
largest cost.

It is told more than others: an arm that keeps every limit strictly, and that arm's penalty rates
s_m, which take the place of Y_m for it. So the program always has a solution, and at first it is
the safe arm all but alone, until its cost is known from below. In a simulation the arm with the
most room relative to the limits is told, of the arms at the start where they change; where no arm
keeps every limit by itself, the policy does not take part. Formulas are from knowledge of the
papers; no experiment of theirs, all on processes with states, is repeated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np

from tightrope.errors import PolicyError
from tightrope.policies.base import Constants, InformedPolicy, Setup, limits_of
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.mixture import Program, pick, solve_program
from tightrope.policies.parts.sampling import coin
from tightrope.policies.parts.words import arm_number, as_arm
from tightrope.policies.state import Array, State

if TYPE_CHECKING:
    from tightrope.problem import Known, Problem, Task

__all__ = ["OptPessLP"]

LEAST_COST = 1e-3  # of a lower bound of a mean cost
LEAST_SLACK = 1e-3  # what the bonus is divided by, at least
RATES = 3  # where the safe arm's rates start among the constants


class Cautious(NamedTuple):
    """The arms' bounds, and the program of them."""

    limits: Annotated[Array, "M"]
    cost: Annotated[Array, "K"]  # lower bound of the mean
    reward: Annotated[Array, "K"]  # optimistic rate, bonus included
    penalty: Annotated[Array, "K", "M"]  # upper bounds of the rates
    program: Program


@dataclass(frozen=True)
class OptPessLP(ChoicePolicy, InformedPolicy):
    """Mix the arms so that even their upper bounds keep the limits; start from a safe arm.

    ``safe``: an arm that keeps every limit, by its number from 1 or its name. ``safe_rate``: its
    penalty per unit of cost in normalised units, one number or one per limit; given with ``safe``
    or not at all, and ``None`` in both is told by the problem. ``bonus``: how much optimism makes
    up for caution; 4 in the paper. ``alpha``: the confidence bounds' scale; 1 in the paper.
    ``risk``: the chance that a bound may fail, between 0 and 1.
    """

    safe: int | str | None = None
    safe_rate: float | tuple[float, ...] | None = None
    bonus: float = 4.0
    alpha: float = 1.0
    risk: float = 0.01

    name: ClassVar[str] = "optpess-lp"
    summary: ClassVar[str] = "the best mixture of optimistic rewards that surely keeps the limits"
    contestants: ClassVar[tuple[str, ...]] = ("optpess-lp",)
    colour: ClassVar[str | None] = "#00501e"

    Scratch: ClassVar[type] = Cautious

    def __post_init__(self) -> None:
        object.__setattr__(self, "safe", as_arm(self.safe))
        given = self.safe_rate if isinstance(self.safe_rate, tuple) else (self.safe_rate,)
        told = self.safe_rate is not None
        allowed = "an arm's number from 1, or its name, or none"
        self.require("safe", allowed, self.safe is None or type(self.safe) in (int, str))
        good = all(isinstance(one, Real) and 0 <= one <= 1e15 for one in given)
        allowed = "a number of at least 0, or one per limit, or none"
        self.require("safe_rate", allowed, not told or good)
        both = "given with safe, the arm, or not at all"
        self.require("safe_rate", both, told == (self.safe is not None))
        self.require_number("bonus", 0.0)
        self.require_number("alpha", 0.0)
        self.require_number("risk", 0.0, open_low=True)
        self.require("risk", "a number between 0 and 1", self.risk < 1.0)

    @property
    def knows(self) -> str:
        """A safe arm and its rates, unless they are given."""
        return "safe arm" if self.safe is None else ""

    def setup(self, known: Problem | Task, budget: float) -> Setup:
        """The radius's numerator, the bonus, the safe arm and its rates."""
        count = max(budget * known.arm_count, 1.0)
        if self.safe is None:
            arm, rates = _safest(self.name, known)
        else:
            arm, rates = arm_number(self.name, "safe", self.safe, known), self._rates(known)
        return Setup(
            constants=(
                self.alpha * math.log(16.0 * count / self.risk),
                float(self.bonus),
                float(arm),
                *rates,
            ),
            allowance=limits_of(known),
        )

    def _rates(self, known: Known) -> tuple[float, ...]:
        """The safe arm's rates as given, one per limit."""
        limits, given = limits_of(known), self.safe_rate
        rates = given if isinstance(given, tuple) else (given or 0.0,) * len(limits)
        allowed = f"one number, or {len(limits)}: one per limit"
        self.require("safe_rate", allowed, len(rates) == len(limits))
        below = all(rate < limit for rate, limit in zip(rates, limits, strict=True))
        self.require("safe_rate", f"below the limits, {limits} in normalised units", below)
        return tuple(float(rate) for rate in rates)

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Cautious) -> None:
        """Note the limits; bound every arm as one bounds an arm never seen."""
        for m in range(len(scratch.limits)):
            scratch.limits[m] = state.remaining[1 + m] / state.remaining[0]
        for arm in range(len(state.pulls)):
            _renew(constants, state, scratch, arm)

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Cautious, words: Array) -> int:
        """An arm of the best mixture that keeps the limits by its upper bounds."""
        solve_program(scratch.reward, scratch.penalty, scratch.limits, scratch.program)
        return pick(scratch.program.mixture, scratch.cost, coin(words[0]))

    @staticmethod
    def learn(constants: Constants, state: State, scratch: Cautious, arm: int) -> None:
        """The bounds of the arm just pulled; those of the others stay."""
        _renew(constants, state, scratch, arm)


def _renew(constants: Constants, state: State, scratch: Cautious, arm: int) -> None:
    """An arm's bounds, from what it has shown."""
    limited, pulls = len(scratch.limits), max(state.pulls[arm], 1.0)
    first, width = arm * (2 + limited), min(math.sqrt(constants[0] / pulls), 1.0)
    cost = max(state.totals[first] / pulls - width, LEAST_COST)
    extra = 0.0
    for m in range(limited):
        limit, rate = scratch.limits[m], constants[RATES + m]
        if arm == int(constants[2]):
            scratch.penalty[arm * limited + m] = rate
        else:
            upper = min(state.totals[first + 2 + m] / pulls + width, 1.0)
            scratch.penalty[arm * limited + m] = upper / cost
            extra = max(extra, width * (1.0 + limit) / max(limit - rate, LEAST_SLACK))
    reward = min(state.totals[first + 1] / pulls + width, 1.0)
    scratch.cost[arm], scratch.reward[arm] = cost, (reward + constants[1] * extra) / cost


def _safest(policy: str, problem: Any) -> tuple[int, tuple[float, ...]]:
    """The arm with the most room relative to the limits, from 0, and its penalty rates."""
    moments = problem.moments
    if not problem.penalty_count:
        return 0, ()
    room = (1.0 - moments.penalty_rate / moments.limits).min(axis=1)
    arm = int(np.argmax(room))
    if not room[arm] > 0.0:
        raise PolicyError(
            f"policy {policy}: no arm keeps every limit by itself; there must be one to start from"
        )
    return arm, tuple(moments.penalty_rate[arm].tolist())
