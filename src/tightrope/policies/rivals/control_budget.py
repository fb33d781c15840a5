"""ControlBudget: keep the savings on each limit near a threshold that shrinks with the budget.

Kumar and Kleinberg, "Non-monotonic resource utilization in the bandits with knapsacks problem",
NeurIPS 2022: a pull changes every resource by a drift that may have either sign, and resources must
not run out within T rounds. The best mixture p has as many arms as it has binding resources, and
one more; with the matrix D of these arms' mean drifts, a row of ones below,

    D p = (0, ..., 0, 1)

ControlBudget, for known means, perturbs the right-hand side: in round t it draws from

    p_t = inverse(D) (gamma s_1, ..., gamma s_J, 1),   s_j = 1 if resource j is below c log(T - t)

and -1 otherwise, with the largest gamma for which p_t is a distribution whatever the signs. So each
binding resource drifts up when it is low and down otherwise, and little of it is left at the end.
If a resource is below 1 it pulls a null arm. For unknown means, ExploreThenControlBudget first
pulls all arms in turn until confidence bounds identify the best mixture's arms and the binding
resources, by leave-one-out programs as in Li, Sun and Ye (``identification``); then it pulls these
arms until their drifts are known well enough compared with gamma; then it runs ControlBudget with
the means so far.

Adapted to limits per unit of a random total cost: resource m is the savings on limit m, c_m times
the cost so far minus the penalties so far, 0 at the start; a pull's drift is c_m X - Y_m. In shares
of cost w the equations are

    w . y_m = c_m - gamma s_m for the limits that bind,   sum w = 1

with penalty rates y_m; an arm is drawn by w over mean cost, and the budget left, b, stands for
T - t. There is no null arm, because the budget must be spent. Limits hold for totals: savings below
0 are steered up, like any below the threshold. The theorem leaves c as a large enough constant;
here it is c0 / gamma, because by Hoeffding's inequality drifts of gamma lead from the threshold to
0 with a chance of at most b^(-2 c0). The bounds for learnt means are those of ``identify-resolve``,
and "well enough" means that every arm's penalty rates are known up to gamma / 2, because then each
drift has the right sign; the paper's proof has other constants. For a degenerate mixture gamma is
0; with known means it is then played unchanged.

With ``known=true`` the policy knows the means of all arms, otherwise nothing. The formulas were
written from memory of the paper; none of its experiments is repeated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from tightrope.errors import PolicyError
from tightrope.policies.base import Constants, InformedPolicy, Setup, limits_of, net_penalty
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.mixture import Mixture, Program, pick, simplex
from tightrope.policies.parts.sampling import coin
from tightrope.policies.parts.words import as_flag
from tightrope.policies.rivals.identification import (
    LEAST_COST,
    ArmEvidence,
    bound_rates,
    first_identified,
    identify,
    keep_identified,
)
from tightrope.policies.state import Array, State, field_starts, record_maker, rows
from tightrope.problem import Problem, Task, require_unchanging

IDENTIFY, MEASURE, CONTROL = 0.0, 1.0, 2.0  # what it is about
FIRST = 3  # where the known means start among the constants


class Control(NamedTuple):
    """The identified arms, the equations' solution, and the arms' estimates."""

    stage: Annotated[Array, 1]
    gamma: Annotated[Array, 1]
    side: Annotated[Array, "R"]  # the right-hand sides, relative to the limits
    aim: Mixture  # the shares to draw from
    cost: Annotated[Array, "K"]  # mean
    reward: Annotated[Array, "K"]  # rate
    penalty: Annotated[Array, "K", "M"]  # rates
    evidence: ArmEvidence  # its program has the matrix's inverse


@dataclass(frozen=True)
class ControlBudget(ChoicePolicy, InformedPolicy):
    """Mix the best mixture's arms so that the savings on each limit drift to a threshold.

    ``known``: the means are known, not learnt. ``c0``: the threshold is c0 log(budget left) /
    gamma, with gamma the drift per unit of cost. ``alpha``: while it learns, a mean is known up to
    sqrt(alpha log B / pulls).

    >>> ControlBudget(c0=2).label
    'control-budget:c0=2'
    """

    known: bool = False
    c0: float = 1.0
    alpha: float = 2.0

    name = "control-budget"
    summary = "steer what is saved of each limit to a threshold that shrinks"
    contestants = ("control-budget", "control-budget:alpha=0.1", "control-budget:known=true")
    colour = "#b8860b"

    Scratch = Control
    carried = (
        "stage",
        "gamma",
        "evidence.optimal",
        "evidence.loose",
        "evidence.cost",
        "evidence.program",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "known", as_flag(self.known))
        self.require("known", "true or false", isinstance(self.known, bool))
        self.require_number("c0", 0.0)
        self.require_number("alpha", 0.0)

    @property
    def knows(self) -> str:
        """The distributions, if the means are known."""
        return "laws" if self.known else ""

    def setup(self, known: Problem | Task, budget: float) -> Setup:
        """The bounds' alpha log B, c0, whether the means are known, and if so the equations."""
        level = self.alpha * max(math.log(budget), 1.0)
        told = _equations(self.name, known) if self.known else ()
        constants = (level, float(self.c0), 1.0 if self.known else 0.0, *told)
        return Setup(constants, limits_of(known))

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Control) -> None:
        """Record the limits, and the equations if they are known."""
        evidence = scratch.evidence
        for m in range(len(evidence.limits)):
            evidence.limits[m] = state.limits[m]
        for row in rows(state):
            scratch.cost[row] = evidence.cost[row] = LEAST_COST
            bound_rates(state, evidence, constants[0], row)
        if constants[2] > 0.0:
            _copy_equations(constants, scratch)

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Control, words: Array) -> int:
        """The next arm in turn, or an arm of the mixture with the wanted drifts."""
        arms, steps, evidence = len(rows(state)), int(state.steps[0]), scratch.evidence
        if scratch.stage[0] == IDENTIFY:
            if steps == 0 or steps % arms > 0 or not identify(evidence):
                return steps % arms
            scratch.stage[0] = MEASURE
        if scratch.stage[0] == MEASURE:
            if not _measured(constants, state, scratch):
                return _least_pulled(state, evidence)
            scratch.stage[0] = CONTROL
        _aim(constants, state, scratch)
        arm = pick(scratch.aim, evidence.cost, coin(words[0]))
        return arm if evidence.optimal[arm] > 0.0 else first_identified(evidence)

    @staticmethod
    def learn(constants: Constants, state: State, scratch: Control, row: int) -> None:
        """Update the means and bounds of the arm just pulled, while they are needed."""
        limited = len(scratch.evidence.limits)
        first, pulls = row * (2 + limited), max(state.pulls[row], 1.0)
        cost = max(state.totals[first] / pulls, LEAST_COST)
        scratch.cost[row] = cost
        scratch.reward[row] = state.totals[first + 1] / pulls / cost
        reward = state.totals[first + 1] / pulls
        for m in range(limited):
            penalty, base, limit = (
                state.totals[first + 2 + m] / pulls, state.bases[m], state.limits[m]
            )  # fmt: skip
            net = net_penalty(base, limit, 1.0, cost, reward, penalty)
            scratch.penalty[row * limited + m] = net / cost
        if scratch.stage[0] == IDENTIFY:
            bound_rates(state, scratch.evidence, constants[0], row)


def _aim(constants: Constants, state: State, scratch: Control) -> None:
    """Solve the equations for the wanted drifts."""
    evidence, gamma, budget = scratch.evidence, scratch.gamma[0], state.remaining[0]
    program, limited = evidence.program, len(evidence.limits)
    for m in range(limited):
        scratch.side[m], limit = 1.0, evidence.limits[m]
        if gamma > 0.0 and _binds(evidence, m):
            saved = state.remaining[1 + m] - limit * budget
            low = saved < constants[1] / gamma * math.log(max(budget, 1.0))
            scratch.side[m] = 1.0 - gamma / limit if low else 1.0 + gamma / limit
    scratch.side[limited] = 1.0
    for i in range(limited + 1):
        share = 0.0
        for j in range(limited + 1):
            share += program.inverse[i * (limited + 1) + j] * scratch.side[j]
        scratch.aim.shares[i] = max(share, 0.0)
        scratch.aim.arms[i] = program.mixture.arms[i]


def _binds(evidence: ArmEvidence, m: int) -> bool:
    """Whether limit m has no slack among the rows of the program's solution."""
    arms, binds = evidence.program.mixture.arms, True
    for i in range(len(arms)):
        binds = binds and arms[i] != len(evidence.optimal) + m
    return binds


def _largest_drift(evidence: ArmEvidence) -> float:
    """The largest gamma that leaves no arm a share below 0, whatever the signs; 1 if none binds."""
    program, limited, count = evidence.program, len(evidence.limits), len(evidence.optimal)
    gamma, steepest = 1.0, 0.0
    for i in range(limited + 1):
        if program.mixture.arms[i] >= count:
            continue
        steep = 0.0
        for m in range(limited):
            if _binds(evidence, m):
                steep += abs(program.inverse[i * (limited + 1) + m]) / evidence.limits[m]
        if steep > 0.0:
            share = program.mixture.shares[i] / steep
            gamma = share if steepest == 0.0 else min(gamma, share)
            steepest = max(steepest, steep)
    return gamma


def _measured(constants: Constants, state: State, scratch: Control) -> bool:
    """Solve for the means so far; whether all rates of binding limits are known to gamma / 2."""
    evidence, limited = scratch.evidence, len(scratch.evidence.limits)
    keep_identified(evidence, scratch.reward, scratch.penalty, scratch.cost)
    if not simplex(evidence.reward, evidence.penalty, evidence.limits, evidence.program):
        return False
    gamma = _largest_drift(evidence)
    scratch.gamma[0] = gamma
    for row in rows(state):
        width = math.sqrt(constants[0] / max(state.pulls[row], 1.0)) / scratch.cost[row]
        for m in range(limited):
            off = width * (1.0 + abs(scratch.penalty[row * limited + m]))
            if evidence.optimal[row] > 0.0 and _binds(evidence, m) and off > 0.5 * gamma:
                return False
    return True


def _least_pulled(state: State, evidence: ArmEvidence) -> int:
    """Solve for the identified arms."""
    chosen, fewest = 0, math.inf
    for row in rows(state):
        if evidence.optimal[row] > 0.0 and state.pulls[row] < fewest:
            chosen, fewest = row, state.pulls[row]
    return chosen


def _equations(policy: str, problem: Any) -> tuple[float, ...]:
    """gamma, then the arms, their mean costs and the matrix's inverse, for the true means."""
    require_unchanging(problem, f"policy {policy}: knows the means of", error=PolicyError)
    moments, limits = problem.moments, np.array(limits_of(problem))
    starts = field_starts(ArmEvidence, problem.arm_count, len(limits))
    evidence = record_maker(ArmEvidence)(np.zeros(starts[-1]), starts)
    evidence.limits[:] = limits
    program: Program = evidence.program
    rates = np.ascontiguousarray(moments.penalty_rate + (limits - moments.limits)).ravel()
    kept = simplex(moments.reward_rate, rates, limits, program)
    arms = program.mixture.arms
    costs = [float(moments.cost[int(k)]) if 0 <= k < problem.arm_count else 1.0 for k in arms]
    gamma = _largest_drift(evidence) if kept else 0.0
    return (float(gamma), *arms.tolist(), *costs, *program.inverse.tolist())


def _copy_equations(constants: Constants, scratch: Control) -> None:
    """Copy the known equations."""
    evidence, rows = scratch.evidence, len(scratch.side)
    scratch.stage[0], scratch.gamma[0] = CONTROL, constants[FIRST]
    for i in range(rows):
        row = constants[FIRST + 1 + i]
        evidence.program.mixture.arms[i] = row
        if 0.0 <= row < len(evidence.optimal):
            evidence.optimal[int(row)] = 1.0
            evidence.cost[int(row)] = constants[FIRST + 1 + rows + i]
    for i in range(rows * rows):
        evidence.program.inverse[i] = constants[FIRST + 1 + 2 * rows + i]
