"""The constants of a problem that the paper's bounds use; normalised, for one penalty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tightrope.errors import InputError, ProblemError
from tightrope.optimum.pi_star import oracle_of_arms
from tightrope.problem import Arm, Problem, require_unchanging
from tightrope.problem.cells import Cells


@dataclass(frozen=True)
class TheoryConstants:
    """The constants of a problem that the bounds use (Assumptions 1 and 2); normalised.

    The paper also allows cruder values (use ``dataclasses.replace``): lower bounds on ``mu_min``
    and ``epsilon``, upper bounds on ``r_max`` and ``y_max``.
    """

    arm_count: int  # K
    limit: float  # c
    reward_rate: float  # r(p*)
    penalty_rate: float  # y(p*)
    multiplier: float  # of the limit: d r(p*) / d c
    mu_min: float  # the smallest mean cost
    r_max: float
    y_max: float
    variance: float  # sigma^2 = max_k E[(Y_k - c X_k)^2]
    epsilon: float  # Slater: E[Y_k - c X_k] <= -epsilon for an arm
    slater_arm: str


def constants(problem: Problem) -> TheoryConstants:
    """The constants of a problem with one penalty and a Slater arm.

    >>> from tightrope.problem.ready import ready_problem
    >>> found = constants(ready_problem("paper"))
    >>> round(found.epsilon, 9), found.slater_arm, round(found.variance, 9)
    (0.18, 'careful', 0.472)
    """
    if problem.penalty_count != 1:
        raise InputError(
            f"penalties = {problem.penalty_count}: the paper's bounds are for exactly one limit"
        )
    if problem.not_per_cost:
        raise InputError(
            f"{problem.not_per_cost}: the paper's bounds are for a limit per unit of cost"
        )
    require_unchanging(problem, "the paper's bounds are for")
    moments, best = problem.moments, oracle_of_arms(problem.blind)
    limit = float(moments.limits[0])
    slack = limit * moments.cost - moments.penalty[:, 0]
    slater = int(np.argmax(slack))
    if slack[slater] <= 0.0:
        raise ProblemError(
            f"limit = {problem.limits[0]!r}: must leave some arm a mean penalty below limit times"
            f" mean cost (Assumption 1); arm {problem.names[slater]!r} comes nearest"
        )
    scales = problem.scales
    per_penalty = scales.penalties[0]
    return TheoryConstants(
        arm_count=problem.arm_count,
        limit=limit,
        reward_rate=best.reward_rate * scales.cost / scales.reward,
        penalty_rate=best.penalty_rate[0] * scales.cost / per_penalty,
        multiplier=best.multiplier[0] * per_penalty / scales.reward,
        mu_min=moments.smallest_cost,
        r_max=float(moments.reward_rate.max()),
        y_max=float(moments.penalty_rate.max()),
        variance=max(_second_moment(problem, arm, limit) for arm in problem.arms),
        epsilon=float(slack[slater]),
        slater_arm=problem.names[slater],
    )


def _second_moment(problem: Problem, arm: Arm, limit: float) -> float:
    """E[(Y - c X)^2] of an arm, from the tables that the simulator draws from."""
    scales = problem.scales.channels
    cost, penalty = (arm.cells()[j].divided_by(scales[j]) for j in (0, 2))
    shared = arm.outcomes[2].shares_cost_draw
    product = _mean_product(cost, penalty) if shared else cost.mean * penalty.mean
    own = _mean_product(penalty, penalty), _mean_product(cost, cost)
    return own[0] - 2.0 * limit * product + limit**2 * own[1]


def _mean_product(one: Cells, other: Cells) -> float:
    """The mean product of two outcomes that share a draw and their cells' splits."""
    first = one.split * one.first * other.first
    second = (1.0 - one.split) * one.second * other.second
    return float(np.mean(first + second + one.slope * other.slope / 12.0))
