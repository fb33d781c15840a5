"""UCB-LP: the best mixture of optimistic arms, by a linear program solved anew at every step.

Agrawal and Devanur, "Bandits with concave rewards and convex knapsacks", EC 2014: play from the
distribution that maximises the reward's upper confidence bounds while the lower confidence bounds
of the consumption keep (1 - epsilon) of each budget per round. The radius of a mean m after n pulls
is sqrt(gamma m / n) + gamma / n with gamma of the order of log(arms, resources, rounds).

Adapted to rates and a total random cost: the program runs over shares of *cost*,

    maximise w . U   subject to   w . L_m <= (1 - epsilon) c_m,   sum w = 1

    U = r/x + (rad(r) + rad(x) r/x) / x,   L = y/x - (rad(y) + rad(x) y/x) / x, at least 0

with empirical means r, x, y, and an arm is drawn by share of cost over mean cost. Theirs may skip a
round; ours must spend the budget, so the shares sum to 1, and if no mixture keeps the limits it
takes the least violating one. gamma = gamma0 log(K (1 + M) B), where B stands for the rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from tightrope.policies.base import Constants, Setup
from tightrope.policies.choice import Array, ChoicePolicy
from tightrope.policies.intervals import log_term, rate_radius, untried
from tightrope.policies.mixture import best_mixture, pick, work_size
from tightrope.policies.sampling import coin

if TYPE_CHECKING:
    from tightrope.problem import Problem

__all__ = ["UCBLP"]


@dataclass(frozen=True)
class UCBLP(ChoicePolicy):
    """Mix the arms as if their bounds were the truth: high reward rates, low penalty rates.

    ``gamma0``: the confidence bounds' scale. ``epsilon``: the part of each limit kept in reserve.
    """

    gamma0: float = 0.25
    epsilon: float = 0.0

    name: ClassVar[str] = "ucb-lp"
    summary: ClassVar[str] = "the best mixture of optimistic arms, solved anew at every step"

    def __post_init__(self) -> None:
        self.require_number("gamma0", 0.0)
        self.require_number("epsilon", 0.0)
        self.require("epsilon", "in [0, 1)", self.epsilon < 1.0)

    def setup(self, problem: Problem, budget: float) -> Setup:
        """Gamma and epsilon."""
        resources = 1 + problem.penalty_count
        return Setup(
            constants=(log_term(self.gamma0, problem.arm_count, resources, budget), self.epsilon),
            allowance=tuple(float(limit) for limit in problem.moments.limits),
        )

    def scratch(self, arms: int, penalties: int) -> int:
        """The sizes of ``Parts``, in order."""
        return penalties + 2 * arms + arms * penalties + work_size(penalties)

    @staticmethod
    def begin(constants: Constants, arms: Array, left: Array, own: Array) -> None:
        """Note the limits, less the reserve."""
        parts = _parts(arms, left, own)
        for m in range(len(parts.limits)):
            parts.limits[m] = (1.0 - constants[1]) * left[2 + m] / left[0]

    @staticmethod
    def choose(constants: Constants, arms: Array, left: Array, own: Array, luck: Array) -> int:
        """An arm of the best optimistic mixture."""
        arm = untried(arms)
        if arm >= 0:
            return arm
        parts = _parts(arms, left, own)
        best_mixture(parts.reward, parts.penalty, parts.limits, parts.work)
        return pick(parts.work, len(parts.limits), parts.cost, coin(luck[0]))

    @staticmethod
    def learn(constants: Constants, arms: Array, left: Array, own: Array, arm: int) -> None:
        """The bounds of the arm just pulled; those of the others stay."""
        pulls, parts = arms[arm, 0], _parts(arms, left, own)
        cost, limited = arms[arm, 1] / pulls, len(parts.limits)
        if cost <= 0.0:
            return
        reward = arms[arm, 2] / pulls
        parts.cost[arm] = cost
        parts.reward[arm] = reward / cost + rate_radius(reward, cost, pulls, constants[0])
        for m in range(limited):
            penalty = arms[arm, 3 + m] / pulls
            lower = penalty / cost - rate_radius(penalty, cost, pulls, constants[0])
            parts.penalty[arm * limited + m] = max(lower, 0.0)


class Parts(NamedTuple):
    """The policy's scratch, by name."""

    limits: Array  # [M] less the reserve
    cost: Array  # [K] mean
    reward: Array  # [K] upper bound of the rate
    penalty: Array  # [K, M] lower bounds of the rates
    work: Array  # of the linear program


def _parts(arms: Array, left: Array, own: Array) -> Parts:
    count, limited = len(arms), len(left) - 2
    penalty = limited + 2 * count
    work = penalty + count * limited
    return Parts(
        own[:limited],
        own[limited : limited + count],
        own[limited + count : penalty],
        own[penalty:work],
        own[work:],
    )
