"""OptPess-LP: the best mixture at optimistic rewards and pessimistic penalties, from a safe arm.

Liu, Zhou, Kalathil, Kumar and Tian, "Learning policies with zero or bounded constraint violation
for constrained MDPs", NeurIPS 2021. A policy with an expected cost c0 below the limit tau is known.
In every episode they solve the linear program of the estimated process, in which the cost of a
state and action is increased by its confidence radius and the reward by a larger amount,

    c + (1 + S H) beta <= tau,   r + (1 + S H + 4 H (1 + S H) / (tau - c0)) beta

for S states and episodes of H steps, with beta = sqrt(log(16 S^2 A H N / delta) / n) for A actions
and N episodes. The larger reward compensates for the pessimistic costs, so that every action that
may belong to the optimal policy is tried. Until the program has a solution they play the safe
policy. DOPE (Bura, HasanzadeZonuzy, Kalathil, Shakkottai and Chamberland, NeurIPS 2022) is the same
with tighter radii for the transitions; without transitions, as here, both are the same algorithm.
So is that of Pacchiano, Ghavamzadeh, Bartlett and Jiang ("Stochastic bandits with linear
constraints", AISTATS 2021), with 2 in place of 4.

Adapted to a bandit with rates and a total random cost: S = H = 1, the terms S H, which account for
unknown transitions, are left out, and N is the budget B. With n pulls of an arm, empirical means x,
r, y_m and beta = sqrt(alpha log(16 K B / risk) / n), at most 1, the program runs over shares of
*cost* w,

    maximise w . R   subject to   w . Y_m <= c_m,   sum w = 1
    R = (min(r + beta, 1) + bonus beta max over m of (1 + c_m) / (c_m - s_m)) / l
    Y_m = min(y_m + beta, 1) / l,   l = max(x - beta, 0.001)

and an arm is drawn with probability proportional to w / l. So the constraint is that an upper bound
of the mean of y_m - c_m x over the pulls is at most 0; a mixture of an arm never pulled and the
safe arm can satisfy it. The radius of y_m - c_m x is (1 + c_m) beta. Their proof needs twice the
largest return divided by tau - c0; the factor 4 is enough for reward rates of up to twice the
largest reward of one pull per largest cost of one pull.

The policy knows more than others: an arm that keeps every limit strictly, and upper bounds s_m on
that arm's penalty rates, which are used as its Y_m. So the program always has a solution. At first
it is almost only the safe arm, until there is a useful lower bound of that arm's mean cost. The
safe arm and s_m are parameters, or taken from the task's declarations. If the task declares no safe
arm, a simulation uses the arm with the most room below the limits, relative to them, and its true
rates (those at the start if the arms change). If no arm keeps every limit by itself, the policy
does not take part. If a declared s_m is the limit itself, there is no room for other arms, and it
pulls only the safe one.

The formulas were written from memory of the papers; their experiments, all on processes with
states, are not repeated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from tightrope.errors import PolicyError
from tightrope.policies.base import Constants, InformedPolicy, Setup, limits_of
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.intervals import if_unknown
from tightrope.policies.parts.mixture import pick, solve_program
from tightrope.policies.parts.nets import high_net_rate
from tightrope.policies.parts.sampling import coin
from tightrope.policies.parts.words import arm_number, as_arm
from tightrope.policies.rivals.ucb_lp import Bounds
from tightrope.policies.state import Array, State, rows
from tightrope.problem import Known, Problem, Task

LEAST_COST = 1e-3  # smallest lower bound of a mean cost
LEAST_SLACK = 1e-3  # smallest c_m - s_m that the bonus is divided by
RATES = 3  # number of constants before the safe arm's rates


@dataclass(frozen=True)
class OptPessLP(ChoicePolicy, InformedPolicy):
    """Play a mixture that keeps the limits at upper bounds of its penalties; start at a safe arm.

    ``safe``: an arm that keeps every limit, by its number from 1 or its name. ``safe_rate``: an
    upper bound on its penalty per unit of cost in normalised units, one number or one per limit.
    Give both or neither; ``None`` takes the task's declared safe arm, or the problem's arm with the
    most room. ``bonus``: how much the reward's optimism compensates for the pessimistic penalties;
    4 in the paper. ``alpha``: the confidence bounds' scale; 1 in the paper. ``risk``: the
    probability that a bound fails, between 0 and 1.

    >>> OptPessLP(safe="careful", safe_rate=0.5).label
    'optpess-lp:safe=careful,safe_rate=0.5'
    """

    safe: int | str | None = None
    safe_rate: float | tuple[float, ...] | None = None
    bonus: float = 4.0
    alpha: float = 1.0
    risk: float = 0.01

    name = "optpess-lp"
    summary = "the best mixture at optimistic rewards and pessimistic penalties"
    contestants = ("optpess-lp",)
    colour = "#00501e"

    Scratch = Bounds

    def __post_init__(self) -> None:
        object.__setattr__(self, "safe", as_arm(self.safe))
        given = self.safe_rate if isinstance(self.safe_rate, tuple) else (self.safe_rate,)
        told = self.safe_rate is not None
        allowed = "an arm's number from 1, or its name, or none"
        self.require("safe", allowed, self.safe is None or type(self.safe) in (int, str))
        good = all(isinstance(one, Real) and 0 <= one <= 1e15 for one in given)
        allowed = "a number of at least 0, or one per limit, or none"
        self.require("safe_rate", allowed, not told or good)
        both = "given together with safe, or not at all"
        self.require("safe_rate", both, told == (self.safe is not None))
        self.require_number("bonus", 0.0)
        self.require_number("alpha", 0.0)
        self.require_number("risk", 0.0, open_low=True, below=1.0)

    @property
    def knows(self) -> str:
        """A safe arm and its rates, if they are not given."""
        return "safe arm" if self.safe is None else ""

    def needs_laws(self, known: Task | Problem) -> bool:
        """Only if neither the parameters nor the task name a safe arm."""
        return self.safe is None and known.safe is None

    def setup(self, known: Problem | Task, budget: float) -> Setup:
        """Constants: the numerator of beta squared, the bonus, the safe arm and its rates."""
        count = max(budget * known.arm_count, 1.0)
        arm, rates = self._safe_arm(known)
        return Setup(
            constants=(
                self.alpha * math.log(16.0 * count / self.risk),
                float(self.bonus),
                float(arm),
                *rates,
            ),
            allowance=limits_of(known),
            warning=self._without_room(known, arm, rates),
        )

    def _safe_arm(self, known: Problem | Task) -> tuple[int, tuple[float, ...]]:
        """The safe arm, from 0, and upper bounds on its rates: given, declared or true."""
        if self.safe is not None:
            return arm_number(self.name, "safe", self.safe, known), self._rates(known)
        declared = None if known.safe is None else known.task.safe_arm
        if declared is None:
            return _safest(self.name, known)
        return declared, tuple(known.task.normal_safe_rates.tolist())

    def _without_room(self, known: Known, arm: int, rates: tuple[float, ...]) -> str | None:
        """A warning if a rate of the safe arm is not below its limit, or None."""
        for m, limit in enumerate(limits_of(known)):
            if rates[m] >= limit:
                return (
                    f"policy {self.label}: the rate declared for the safe arm {known.names[arm]!r}"
                    f" is not below {known.limit_text(m)}, so it pulls only this arm;"
                    " declare a smaller rate in safe_rates"
                )
        return None

    def _rates(self, known: Known) -> tuple[float, ...]:
        """The safe arm's rates as given in ``safe_rate``, one per limit."""
        limits, given = limits_of(known), self.safe_rate
        rates = given if isinstance(given, tuple) else (given or 0.0,) * len(limits)
        allowed = f"one number, or {len(limits)}: one per limit"
        self.require("safe_rate", allowed, len(rates) == len(limits))
        below = all(rate < limit for rate, limit in zip(rates, limits, strict=True))
        self.require("safe_rate", f"below the limits, {limits} in normalised units", below)
        return tuple(float(rate) for rate in rates)

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Bounds) -> None:
        """Compute the limits, and the bounds of arms without a pull."""
        for m in range(len(scratch.limits)):
            scratch.limits[m] = state.limits[m]
        for row in rows(state):
            _renew(constants, state, scratch, row)

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Bounds, words: Array) -> int:
        """An arm drawn from the best mixture that keeps the limits at its upper bounds."""
        solve_program(scratch.reward, scratch.penalty, scratch.limits, scratch.program)
        return pick(scratch.program.mixture, scratch.cost, coin(words[0]))

    @staticmethod
    def learn(constants: Constants, state: State, scratch: Bounds, row: int) -> None:
        """Update the bounds of the arm just pulled."""
        _renew(constants, state, scratch, row)


def _renew(constants: Constants, state: State, scratch: Bounds, row: int) -> None:
    """Compute an arm's bounds from its totals."""
    limited, pulls = len(scratch.limits), max(state.pulls[row], 1.0)
    first, width = row * (2 + limited), min(math.sqrt(constants[0] / pulls), 1.0)
    unsure = if_unknown(state, first, width)
    cost = max(state.totals[first] / pulls - unsure, LEAST_COST)
    extra = 0.0
    for m in range(limited):
        limit, rate = scratch.limits[m], constants[RATES + m]
        if row == int(constants[2]):
            scratch.penalty[row * limited + m] = rate
        else:
            own = if_unknown(state, first + 2 + m, width)
            upper = min(state.totals[first + 2 + m] / pulls + own, 1.0)
            least = max(state.totals[first + 1] / pulls - width, 0.0)
            dear = min(state.totals[first] / pulls + unsure, 1.0)
            scratch.penalty[row * limited + m] = high_net_rate(state, m, upper, least, cost, dear)
            extra = max(extra, width * (1.0 + limit) / max(limit - rate, LEAST_SLACK))
    reward = min(state.totals[first + 1] / pulls + width, 1.0)
    scratch.cost[row], scratch.reward[row] = cost, (reward + constants[1] * extra) / cost


def _safest(policy: str, problem: Any) -> tuple[int, tuple[float, ...]]:
    """The arm, from 0, with the most room relative to the limits, and its true penalty rates."""
    moments = problem.moments
    if not problem.penalty_count:
        return 0, ()
    room = (1.0 - moments.penalty_rate / moments.limits).min(axis=1)
    arm = int(np.argmax(room))
    if not room[arm] > 0.0:
        raise PolicyError(
            f"policy {policy}: no arm keeps every limit by itself; there must be one to start from"
        )
    shift = problem.net_limits - moments.limits
    return arm, tuple((moments.penalty_rate[arm] + shift).tolist())
