"""LagrangeBwK: a bandit algorithm for the arms against an expert algorithm for the resources.

Immorlica, Sankararaman, Schapire and Slivkins, "Adversarial bandits with knapsacks", FOCS 2019 and
Journal of the ACM 69(6), 2022. With T rounds and resources of budget B, a round in which arm a is
pulled and resource i is drawn is worth

    L(a, i) = r(a) + 1 - (T / B) c_i(a)

to the arms' player, and costs as much to the resources' player; both play against regret. Rounds
are a resource too, with the budget T, and a null arm that earns and uses nothing is an arm. The
arms' player, which sees L of the drawn arm and resource, is EXP3.P (Auer, Cesa-Bianchi, Freund and
Schapire, SIAM Journal on Computing 32(1), 2002) for A arms,

    p_a = (1 - gamma) w_a / sum w + gamma / A
    w_a <- w_a exp((gamma / 3 A) (g_a / p_a + alpha / (p_a sqrt(A T)))),   g_a = 0 if not drawn
    alpha = 2 sqrt(ln(A T / delta)),   gamma = min(3/5, 2 sqrt((3/5) A ln(A) / T))

with g the payoff scaled to [0, 1]. The resources' player, which sees L of the arm with every
resource, is Hedge: q_i proportional to exp(-eta times the sum of i's scaled payoffs), with eta =
sqrt(8 ln(d) / T) for d resources.

Adapted to a total random cost and limits: the resources are the rounds, the cost with the budget B
and every penalty with its allowance c_m B, each with its own budget in L. A round with the null arm
costs nothing here, so both players play it at once and draw again, until an arm is pulled or for 64
rounds; then the likeliest arm is pulled. T = B / mu_min, with a lower bound of the mean costs: the
largest number of rounds of the budget. Theirs stops when a resource or the rounds are used up; this
one must spend the budget and goes on. delta = 1 / T. For an adversary they replace T / B in L by a
random guess of the reward per unit of budget, which guarantees only a share of the optimum. This
policy keeps T / B, their version for arms that do not change, also for arms that do.

The policy knows the smallest mean cost if ``mu_min`` is not given. The formulas were written from
memory of the papers; no experiment is repeated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

from tightrope.policies.base import Constants, Setup, limits_of
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.rates import smallest_cost
from tightrope.policies.parts.sampling import uniform
from tightrope.policies.state import Array, State
from tightrope.problem import Task

MOST_ROUNDS = 64  # before an arm is pulled


class Players(NamedTuple):
    """The two players. Resources: 0 the rounds, 1 the cost, 2 + m penalty m."""

    limits: Annotated[Array, "M"]
    weight: Annotated[Array, "K"]  # logarithms
    chance: Annotated[Array, "K"]
    idle: Annotated[Array, 2]  # the null arm's weight and chance
    loss: Annotated[Array, "C"]  # sums of scaled payoffs, by resource
    payoff: Annotated[Array, "C"]  # of one round, scaled to [0, 1], by resource
    watched: Annotated[Array, 1]  # the resource drawn in the last round
    earned: Annotated[Array, "K"]  # before the last pull
    before: Annotated[Array, "R"]  # as the state's ``remaining``


@dataclass(frozen=True)
class LagrangeBwK(ChoicePolicy):
    """Play EXP3.P for the arms against Hedge for budget and allowances.

    ``mu_min``: a lower bound on the mean costs, in units of the largest cost; ``None`` takes the
    task's declared bound, or 0.1.

    >>> LagrangeBwK(mu_min=0.4).label
    'lagrange-bwk:mu_min=0.4'
    """

    mu_min: float | None = None

    name = "lagrange-bwk"
    summary = "EXP3.P for the arms against Hedge for budget and allowances"
    forgetful = ("lagrange-bwk",)
    colour = "#4d4d80"

    Scratch = Players
    carried = ("weight", "chance", "idle", "loss", "payoff", "watched", "earned", "before")
    learned: ClassVar[Mapping[str, str]] = {"earned": "reward", "before": "remaining"}

    def __post_init__(self) -> None:
        self.require_number("mu_min", 0.0, open_low=True, optional=True)

    @property
    def knows(self) -> str:
        """The smallest mean cost, if it is not given."""
        return "smallest cost" if self.mu_min is None else ""

    def setup(self, task: Task, budget: float) -> Setup:
        """EXP3.P's gamma and alpha / sqrt(A T), eta, T / B, the payoffs' least and range."""
        limits = limits_of(task)
        arms, resources = task.arm_count + 1, 2 + len(limits)
        per_budget = 1.0 / smallest_cost(self.mu_min, task)
        rounds = max(budget * per_budget, 1.0)
        least = 1.0 - per_budget / min((1.0, *limits))
        return Setup(
            constants=(
                min(0.6, 2.0 * math.sqrt(0.6 * arms * math.log(arms) / rounds)),
                2.0 * math.sqrt(math.log(arms * rounds * rounds) / (arms * rounds)),
                math.sqrt(8.0 * math.log(resources) / rounds),
                per_budget,
                least,
                2.0 - least,
            ),
            allowance=limits,
        )

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Players) -> None:
        """Record the limits and the remaining amounts; all arms are equally likely."""
        scratch.before[0] = state.remaining[0]
        for m in range(len(scratch.limits)):
            scratch.limits[m] = state.limits[m]
            scratch.before[1 + m] = state.remaining[1 + m]
        _renew(constants, scratch)

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Players, words: Array) -> int:
        """The arm that is drawn, after as many null rounds as are drawn before it."""
        arms = len(scratch.chance)
        for turn in range(MOST_ROUNDS):
            scratch.watched[0] = _draw_resource(constants, scratch, uniform(words[1], turn))
            arm = _draw_arm(scratch, uniform(words[0], turn))
            if arm < arms:
                return arm
            for i in range(len(scratch.payoff)):
                scratch.payoff[i] = ((0.0 if i == 0 else 1.0) - constants[4]) / constants[5]
            _play(constants, scratch, arms)
        likeliest = 0
        for arm in range(1, arms):
            if scratch.chance[arm] > scratch.chance[likeliest]:
                likeliest = arm
        return likeliest

    @staticmethod
    def learn(constants: Constants, state: State, scratch: Players, row: int) -> None:
        """Both players learn from the round."""
        remaining, before = state.remaining, scratch.before
        total = state.totals[row * (len(remaining) + 1) + 1]
        reward, scratch.earned[row] = total - scratch.earned[row], total
        scratch.payoff[0] = (reward - constants[4]) / constants[5]
        for i in range(len(remaining)):
            used = (before[i] - remaining[i]) * constants[3]
            before[i] = remaining[i]
            if i > 0:
                used /= scratch.limits[i - 1]
            scratch.payoff[1 + i] = (reward + 1.0 - used - constants[4]) / constants[5]
        _play(constants, scratch, row)


def _play(constants: Constants, scratch: Players, row: int) -> None:
    """Both players learn from a round's payoffs; a ``row`` beyond the last is the null arm."""
    arms = len(scratch.chance)
    rate = constants[0] / (3.0 * (arms + 1))
    gain = scratch.payoff[int(scratch.watched[0])]
    for k in range(arms):
        drawn = gain if k == row else 0.0
        scratch.weight[k] += rate * (drawn + constants[1]) / scratch.chance[k]
    drawn = gain if row >= arms else 0.0
    scratch.idle[0] += rate * (drawn + constants[1]) / scratch.idle[1]
    for i in range(len(scratch.loss)):
        scratch.loss[i] += scratch.payoff[i]
    _renew(constants, scratch)


def _renew(constants: Constants, scratch: Players) -> None:
    """The arms' chances, from their weights."""
    arms, most, gamma = len(scratch.chance), scratch.idle[0], constants[0]
    for k in range(arms):
        most = max(most, scratch.weight[k])
    scratch.idle[1] = math.exp(scratch.idle[0] - most)
    total = scratch.idle[1]
    for k in range(arms):
        scratch.chance[k] = math.exp(scratch.weight[k] - most)
        total += scratch.chance[k]
    for k in range(arms):
        scratch.chance[k] = (1.0 - gamma) * scratch.chance[k] / total + gamma / (arms + 1)
    scratch.idle[1] = (1.0 - gamma) * scratch.idle[1] / total + gamma / (arms + 1)


def _draw_arm(scratch: Players, coin: float) -> int:
    """An arm by its chance; K for the null arm."""
    arm = 0
    while arm < len(scratch.chance):
        coin -= scratch.chance[arm]
        if coin < 0.0:
            break
        arm += 1
    return arm


def _draw_resource(constants: Constants, scratch: Players, coin: float) -> int:
    """A resource by Hedge's chances."""
    least, total, last = scratch.loss[0], 0.0, len(scratch.loss) - 1
    for i in range(1, last + 1):
        least = min(least, scratch.loss[i])
    for i in range(last + 1):
        total += math.exp(constants[2] * (least - scratch.loss[i]))
    rest, chosen = coin * total, last
    for i in range(last):
        rest -= math.exp(constants[2] * (least - scratch.loss[i]))
        if rest < 0.0:
            chosen = i
            break
    return chosen
