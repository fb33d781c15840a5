"""Identify the arms of the best mixture and the limits that do not bind: leave-one-out programs.

Li, Sun and Ye ("The symmetry between arms and knapsacks", ICML 2021) show for K arms and M limits
that, if the best mixture is not degenerate,

- arm k has a share in it exactly if the best mixture without the arm is worth less;
- limit m does not bind exactly if the mixture is worth less once the unused part of the limit is
charged:

      OPT_m = max w . (r + y_m) - c_m   subject to the same constraints.

So each is identified once a lower bound of the best mixture's worth exceeds an upper bound of the
worth without it. Both come from intervals of every arm's reward and penalty rates: low rewards and
high penalties for the lower bound, the other way round for the upper ones.

An arm is left out by giving it the numbers of another arm, which changes no worth and no array's
size. An arm without a share in the best mixture of the upper bounds is skipped: the upper bound
without it is that mixture's worth, never below the lower bound.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from tightrope.policies.parts.intervals import if_unknown
from tightrope.policies.parts.mixture import Mixture, Program, solve_program
from tightrope.policies.parts.nets import high_net_rate, low_net_rate
from tightrope.policies.state import Array, State

LEAST_COST = 1e-3  # of a bound of a mean cost
MARGIN = 1e-9  # by which a bound has to exceed another, relative: beyond rounding


class ArmEvidence(NamedTuple):
    """Intervals of the arms' rates, and the identified arms and limits."""

    limits: Annotated[Array, "M"]
    optimal: Annotated[Array, "K"]  # 1 for arms known to have a share
    loose: Annotated[Array, "M"]  # 1 for limits known not to bind
    low_reward: Annotated[Array, "K"]
    high_reward: Annotated[Array, "K"]
    low_penalty: Annotated[Array, "K", "M"]
    high_penalty: Annotated[Array, "K", "M"]
    reward: Annotated[Array, "K"]  # of a program with something left out
    penalty: Annotated[Array, "K", "M"]  # likewise
    cost: Annotated[Array, "K"]  # mean, of a program of the identified arms
    tried: Mixture  # the best by upper bounds
    program: Program


def bound_rates(state: State, evidence: ArmEvidence, level: float, row: int) -> None:
    """Intervals of an arm's rates, from means plus and minus sqrt(level / pulls), within [0, 1]."""
    limited, pulls = len(evidence.limits), max(state.pulls[row], 1.0)
    first, width = row * (2 + limited), math.sqrt(level / pulls)
    if state.pulls[row] <= 0.0:
        width = 1.0
    cost, reward = state.totals[first] / pulls, state.totals[first + 1] / pulls
    unsure = if_unknown(state, first, width) if state.pulls[row] > 0.0 else width
    cheap, dear = max(cost - unsure, LEAST_COST), max(min(cost + unsure, 1.0), LEAST_COST)
    evidence.low_reward[row] = max(reward - width, 0.0) / dear
    evidence.high_reward[row] = min(reward + width, 1.0) / cheap
    for m in range(limited):
        penalty, at = state.totals[first + 2 + m] / pulls, row * limited + m
        own = if_unknown(state, first + 2 + m, width) if state.pulls[row] > 0.0 else width
        low, high = max(penalty - own, 0.0), min(penalty + own, 1.0)
        most, least = min(reward + width, 1.0), max(reward - width, 0.0)
        evidence.low_penalty[at] = low_net_rate(state, m, low, most, cheap, dear)
        evidence.high_penalty[at] = high_net_rate(state, m, high, least, cheap, dear)


def worth(mixture: Mixture, rewards: Array) -> float:
    """The reward rate of a mixture, for ``rewards`` [K]."""
    total = 0.0
    for i in range(len(mixture.arms)):
        arm = int(mixture.arms[i])
        if 0 <= arm < len(rewards):
            total += mixture.shares[i] * rewards[arm]
    return total


def identify(evidence: ArmEvidence) -> bool:
    """Record what the intervals show; True once M + 1 arms and loose limits are identified.

    Every program is solved by the same call, so that it is compiled once.
    """
    program, limits, floor = evidence.program, evidence.limits, 0.0
    arms, rows = len(evidence.optimal), len(evidence.tried.arms)
    for turn in range(1 + 2 * rows):
        subject = _prepare(evidence, turn)
        if subject < 0:
            continue
        kept = solve_program(evidence.reward, evidence.penalty, limits, program)
        best = worth(program.mixture, evidence.reward)
        if turn == 0:
            floor = best
            if not kept:
                break
        elif turn == 1:
            _note_tried(evidence)
        elif arms == 1 or not kept or floor > best + MARGIN * (1.0 + abs(best)):
            if subject < arms:
                evidence.optimal[subject] = 1.0
            else:
                evidence.loose[subject - arms] = 1.0
    return _count(evidence) > len(limits)


def _prepare(evidence: ArmEvidence, turn: int) -> int:
    """Set up one of the programs: pessimistic, optimistic, without each arm, with each charge.

    Returns the arm left out, or K plus the number of the limit; -1 if there is nothing to solve.
    """
    arms, limited = len(evidence.optimal), len(evidence.limits)
    subject, charged = 0, -1
    if 2 <= turn < 3 + limited:
        subject = int(evidence.tried.arms[turn - 2])
        if subject >= arms or subject < 0:
            return -1
    elif turn >= 3 + limited:
        charged = turn - 3 - limited
        subject = arms + charged
    for k in range(arms):
        source = (k + 1) % arms if turn > 1 and k == subject else k
        evidence.reward[k] = (evidence.high_reward if turn else evidence.low_reward)[source]
        for m in range(limited):
            at = source * limited + m
            low, high = evidence.low_penalty[at], evidence.high_penalty[at]
            evidence.penalty[k * limited + m] = low if turn else high
            if m == charged:
                evidence.reward[k] += high - evidence.limits[m]
    return subject


def _note_tried(evidence: ArmEvidence) -> None:
    """The arms with a share in the mixture just found; -1 for rows without."""
    tried, found = evidence.tried, evidence.program.mixture
    for i in range(len(tried.arms)):
        tried.arms[i] = found.arms[i] if found.shares[i] > 0.0 else -1.0


def _count(evidence: ArmEvidence) -> float:
    """How many arms and limits are identified."""
    count = 0.0
    for arm in range(len(evidence.optimal)):
        count += evidence.optimal[arm]
    for m in range(len(evidence.loose)):
        count += evidence.loose[m]
    return count


def first_identified(evidence: ArmEvidence) -> int:
    """The first arm that is known to have a share; the last of all if none is."""
    first = 0
    while first < len(evidence.optimal) - 1 and evidence.optimal[first] == 0.0:
        first += 1
    return first


def keep_identified(evidence: ArmEvidence, rewards: Array, penalties: Array, costs: Array) -> int:
    """Copy rates and mean costs for a program of the identified arms alone.

    Every other arm gets the numbers of the first identified arm, which is returned and stands for
    them.
    """
    limited, first = len(evidence.limits), first_identified(evidence)
    for k in range(len(evidence.optimal)):
        source = k if evidence.optimal[k] > 0.0 else first
        evidence.reward[k], evidence.cost[k] = rewards[source], costs[source]
        for m in range(limited):
            evidence.penalty[k * limited + m] = penalties[source * limited + m]
    return first
