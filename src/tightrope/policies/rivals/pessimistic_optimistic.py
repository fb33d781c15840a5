"""Pessimistic-optimistic: optimistic rewards, and queues whose tightening shrinks over time.

Liu, Li, Shi and Ying, "An efficient pessimistic-optimistic algorithm for stochastic linear bandits
with general constraints", NeurIPS 2021. In round t, with M constraints "mean of w_m at most 0" and
Slater's constant delta (some mixture stays below every limit by delta), take the action with the
largest

    upper bound of the mean reward - sum over m of Q_m w_m / V_t
    Q_m <- max(0, Q_m + W_m + epsilon_t)
    V_t = delta M^(1/4) sqrt(2 t / 3),   epsilon_t = M^(3/4) sqrt(6 / t)

Adapted to arms and a total random cost: t is the cost spent so far, W = Y - c X, the tightening is
epsilon_t X, and rewards and penalties are rates, as in alg:LyOff; c is the same for all arms and
drops out of the comparison. In place of LinUCB's bounds it uses those of independent arms,

    r/x + rad (1 + r/x) / x,   y/x - rad (1 + y/x) / x, at least 0

with rad = sqrt(alpha log n / pulls) after n pulls of all arms; alpha = 1/2 is Hoeffding's
inequality at level 1/n. Bounds of penalties are optimistic too: otherwise an arm that looks bad by
chance would not be tried again. Each arm is first pulled once. It resembles LyOn, but need not know
the budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

from tightrope.policies.base import Constants, Setup, limits_of, net_sum, net_width
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.intervals import if_unknown, untried
from tightrope.policies.parts.rates import net_rate_and_width, rate_and_width
from tightrope.policies.state import Array, State, rows
from tightrope.problem import Task

LEAST_SLACK = 1e-3  # used if no mixture keeps the limits, or only just
# The assumed slack if the task declares none, relative to the tightest limit. Queues are divided by
# it: a guess below the true slack costs reward, a guess above it breaks the limits for longer.
UNDECLARED_SLACK = 0.1


class PessimisticQueues(NamedTuple):
    """The queues of M limits, and the budget and allowances left before the last pull."""

    limits: Annotated[Array, "M"]
    length: Annotated[Array, "M"]
    before: Annotated[Array, "R"]  # the state's ``remaining`` before the last pull


@dataclass(frozen=True)
class PessimisticOptimistic(ChoicePolicy):
    """Optimistic rates, and queues whose tightening and weight change with the cost spent.

    ``slack``: Slater's constant, in normalised units of a penalty rate; ``None`` takes the task's
    declared slack, or a tenth of the tightest limit. ``alpha``: the confidence bounds' scale.

    >>> PessimisticOptimistic(slack=0.1).label
    'pessimistic-optimistic:slack=0.1'
    """

    slack: float | None = None
    alpha: float = 0.5

    name = "pessimistic-optimistic"
    summary = "optimistic rates, and queues whose tightening shrinks over time"
    contestants = ("pessimistic-optimistic",)
    colour = "#a0522d"

    Scratch = PessimisticQueues
    learned: ClassVar[Mapping[str, str]] = {"length": "penalties", "before": "remaining"}

    def __post_init__(self) -> None:
        self.require_number("slack", 0.0, open_low=True, optional=True)
        self.require_number("alpha", 0.0)

    @property
    def knows(self) -> str:
        """The slack, if ``slack`` is not given."""
        return "slack" if self.slack is None else ""

    def setup(self, task: Task, budget: float) -> Setup:
        """Constants: the scales of V_t and epsilon_t, alpha, the budget."""
        limits = limits_of(task)
        slack = self.slack or slack_of(task)
        count = max(len(limits), 1)
        return Setup(
            constants=(
                slack * count**0.25 * math.sqrt(2.0 / 3.0),
                count**0.75 * math.sqrt(6.0),
                self.alpha,
                budget,
            ),
            allowance=limits,
        )

    @staticmethod
    def begin(constants: Constants, state: State, scratch: PessimisticQueues) -> None:
        """Compute the limits; copy ``remaining``."""
        scratch.before[0] = state.remaining[0]
        for m in range(len(scratch.limits)):
            scratch.limits[m] = state.limits[m]
            scratch.before[1 + m] = state.remaining[1 + m]

    @staticmethod
    def choose(constants: Constants, state: State, scratch: PessimisticQueues, words: Array) -> int:
        """The arm with the largest optimistic reward rate minus queue-weighted penalty rates."""
        chosen = untried(state)
        if chosen >= 0:
            return chosen
        best, limited = -math.inf, len(scratch.length)
        weight = constants[0] * math.sqrt(max(constants[3] - state.remaining[0], 1.0))
        clock = math.sqrt(constants[2] * math.log(state.steps[0]))
        for row in rows(state):
            pulls, first = state.pulls[row], row * (2 + limited)
            cost, noise = state.totals[first], if_unknown(state, first, 1.0)
            rate, width = rate_and_width(pulls, cost, state.totals[first + 1], 0.0, 1.0, noise)
            value = rate + clock * width
            for m in range(limited):
                base, limit = state.bases[m], state.limits[m]
                earned, penalty = state.totals[first + 1], state.totals[first + 2 + m]
                total = net_sum(base, limit, pulls, earned, penalty)
                own = if_unknown(state, first + 2 + m, 1.0)
                rate, width = net_rate_and_width(pulls, cost, total, 0.0, own, noise)
                low = rate - clock * width * net_width(base, limit)
                value -= scratch.length[m] / weight * (max(low, 0.0) if base == 0.0 else low)
            if value > best:
                best, chosen = value, row
        return chosen

    @staticmethod
    def learn(constants: Constants, state: State, scratch: PessimisticQueues, row: int) -> None:
        """Advance the queues by the pull's cost and penalties."""
        remaining, before, length = state.remaining, scratch.before, scratch.length
        cost = before[0] - remaining[0]
        tightened = constants[1] / math.sqrt(max(constants[3] - remaining[0], 1.0))
        for m in range(len(length)):
            penalty = before[1 + m] - remaining[1 + m]
            moved = length[m] + penalty - (scratch.limits[m] - tightened) * cost
            length[m] = max(moved, 0.0)
            before[1 + m] = remaining[1 + m]
        before[0] = remaining[0]


def slack_of(task: Task) -> float:
    """Slater's constant: how far below every limit some mixture's penalty rate can stay."""
    tightest = min(limits_of(task), default=None)
    if tightest is None:
        return 1.0
    slack = UNDECLARED_SLACK if task.slack is None else task.slack
    return max(tightest * slack, LEAST_SLACK)
