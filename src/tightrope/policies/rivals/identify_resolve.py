"""Identify, then re-solve: first learn which arms and limits matter, then mix these arms.

Li, Sun and Ye, "The symmetry between arms and knapsacks: a primal-dual approach for bandits with
knapsacks", ICML 2021. For m arms, d resources with the budgets B and T rounds their program is

    OPT = max mu . x   subject to   C x <= B,   x >= 0

OPT_i is the same with x_i = 0, and OPT_j = min B . y - B_j subject to C' y >= mu + C_j, y >= 0, the
dual of charging the unused part of resource j. Phase I pulls every arm once, round after round,
with bounds of all means at plus and minus sqrt(2 log T / n), within [0, 1]; after each round arm i
is found optimal if OPT's lower bound exceeds OPT_i's upper bound, and resource j not binding if it
exceeds OPT_j's, until d of them are found in all. Phase II solves in every round, with upper bounds
of rewards, lower bounds of consumption and the remaining budgets,

    max mu_U . x   subject to   C_L x <= B_t,   x_i = 0 if i was not found optimal

and draws an arm by x, normalised.

Adapted to rates and a total random cost: the resources are the cost and the M penalties with the
allowances c_m B, and x is in shares of cost, whose sum is 1 because the budget must be spent; so
the cost always binds, and M + 1 arms and limits must be found. The bounds of a rate are those of
its mean over those of the mean cost (at least 0.001): see ``identification``, which solves only the
programs whose outcome is open. The budget B in largest costs stands for T. In phase II an arm is
drawn by share of cost over mean cost, for the remaining allowance per unit of remaining budget; if
no mixture keeps it, the least violating one is taken. Their policy may stop or pull a null arm.
This one pulls in turn until phase I ends, if necessary for the whole budget: phase I does not end
if no mixture keeps the limits, if the best mixture is degenerate, or if the budget is small for
these bounds. ``alpha`` stands for their 2. The policy knows nothing about the arms. The formulas
were written from memory of the paper; none of its experiments is repeated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from tightrope.policies.base import Constants, Setup, limits_of
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.mixture import pick, solve_program
from tightrope.policies.parts.sampling import coin
from tightrope.policies.rivals.identification import (
    LEAST_COST,
    ArmEvidence,
    bound_rates,
    identify,
    keep_identified,
)
from tightrope.policies.state import Array, State, rows
from tightrope.problem import Task

LEAST = 1e-6  # of a limit: the promise when nothing is left of it


class Phases(NamedTuple):
    """The identified arms, and the program of the second phase."""

    identified: Annotated[Array, 1]  # 1 from the second phase on
    promised: Annotated[Array, "M"]  # remaining allowance per unit of remaining budget
    cost: Annotated[Array, "K"]  # mean
    evidence: ArmEvidence


@dataclass(frozen=True)
class IdentifyResolve(ChoicePolicy):
    """Pull in turn until the best mixture's arms are known, then mix these for what is left.

    ``alpha``: a mean is known up to sqrt(alpha log B / pulls); 2 in the paper.

    >>> IdentifyResolve(alpha=1).label
    'identify-resolve:alpha=1'
    """

    alpha: float = 2.0

    name = "identify-resolve"
    summary = "find the best mixture's arms, then re-solve for these alone"
    contestants = ("identify-resolve", "identify-resolve:alpha=0.1")
    colour = "#6a51a3"

    Scratch = Phases
    carried = ("identified", "evidence.optimal", "evidence.loose")

    def __post_init__(self) -> None:
        self.require_number("alpha", 0.0)

    def setup(self, task: Task, budget: float) -> Setup:
        """The numerator under the bounds' root: alpha log B."""
        return Setup((self.alpha * max(math.log(budget), 1.0),), limits_of(task))

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Phases) -> None:
        """Record the limits; set the bounds of arms without pulls."""
        for m in range(len(scratch.promised)):
            scratch.evidence.limits[m] = state.limits[m]
        for row in rows(state):
            scratch.cost[row] = LEAST_COST
            bound_rates(state, scratch.evidence, constants[0], row)

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Phases, words: Array) -> int:
        """The next arm in turn, or an arm of the best mixture of those found."""
        arms, steps = len(rows(state)), int(state.steps[0])
        evidence = scratch.evidence
        if scratch.identified[0] == 0.0:
            if steps == 0 or steps % arms > 0 or not identify(evidence):
                return steps % arms
            scratch.identified[0] = 1.0
        first = keep_identified(evidence, evidence.high_reward, evidence.low_penalty, scratch.cost)
        budget, limits = state.remaining[0], evidence.limits
        for m in range(len(limits)):
            left = state.remaining[1 + m] / budget if budget > 0.0 else limits[m]
            scratch.promised[m] = max(left, LEAST * limits[m])
        solve_program(evidence.reward, evidence.penalty, scratch.promised, evidence.program)
        arm = pick(evidence.program.mixture, evidence.cost, coin(words[0]))
        return arm if evidence.optimal[arm] > 0.0 else first

    @staticmethod
    def learn(constants: Constants, state: State, scratch: Phases, row: int) -> None:
        """The bounds and the mean cost of the arm just pulled."""
        cost = state.totals[row * (len(state.remaining) + 1)] / max(state.pulls[row], 1.0)
        scratch.cost[row] = max(cost, LEAST_COST)
        bound_rates(state, scratch.evidence, constants[0], row)
