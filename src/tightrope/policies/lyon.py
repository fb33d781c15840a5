"""LyOn, the paper's learning policy (alg:LyOn): the lower confidence bound of LyOff's index.

    Gamma(k) = -V (r_k + rad_k (1 + r_k) / E[X_k]) + Q (y_k - rad_k (1 + y_k) / E[X_k])

with empirical rates and means. As printed, eqn:ly-index *adds* the penalty's bonus, but the text
calls the index a lower confidence bound and the proof subtracts the bonus. So
``penalty_bonus="optimistic"`` subtracts it, and ``"as-printed"`` keeps the erratum for study.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from tightrope.policies.base import Constants, IndexPolicy, Policy, Setup, Terms, limits_of
from tightrope.policies.parts.forgetting import require_forgetting, window_and_fade
from tightrope.policies.parts.rates import (
    INFINITY,
    Schedule,
    exploration,
    known_facts,
    net_rate_and_width,
    rate_and_width,
    smallest_cost,
)
from tightrope.problem import Known, Task, Types


@dataclass(frozen=True)
class LyOn(IndexPolicy):
    """The paper's learning policy: confidence bounds to explore, a queue per limit (thm:regret).

    ``v0``, ``delta0``: V = v0 sqrt(B log B) weighs reward against the queue, delta = delta0
    sqrt(log B / B) tightens the limit; ``v``, ``delta`` override them with plain numbers.
    ``alpha``: the confidence radius is sqrt(2 alpha log n / pulls). ``beta0``: each arm is first
    pulled ceil(beta0 log(2 B / mu_min)) times. ``mu_min``: a lower bound on the mean costs, in
    units of the largest cost; ``None`` takes the task's declared bound, or 0.1. ``penalty_bonus``:
    "optimistic" takes the lower confidence bound of the penalty, as the proof does; "as-printed"
    adds the width, as the paper prints it. ``window0``, ``discount0``, for arms that change:
    estimate rates from about that many times sqrt(B log B) pulls, see ``forgetting``.

    >>> LyOn(delta0=15, alpha=0.5).label  # its name in the shell
    'lyon:delta0=15,alpha=0.5'
    """

    v0: float = 1.0
    delta0: float = 0.5
    alpha: float = 2.0
    beta0: float = 1.0
    mu_min: float | None = None
    penalty_bonus: str = "optimistic"
    v: float | None = None
    delta: float | None = None
    window0: float | None = None
    discount0: float | None = None

    name = "lyon"
    summary = "the paper's learning policy: confidence bounds and a virtual queue"
    contestants = ("lyon", "lyon:delta0=15")
    forgetful = ("lyon:alpha=0.1", "lyon:alpha=0.1,window0=8", "lyon:alpha=0.1,discount0=8")
    colour = "#d55e00"
    steady = True

    def __post_init__(self) -> None:
        self.require_number("v0", 0.0, open_low=True)
        self.require_number("v", 0.0, open_low=True, optional=True)
        self.require_number("mu_min", 0.0, open_low=True, optional=True)
        for parameter in ("delta0", "alpha", "beta0"):
            self.require_number(parameter, 0.0)
        self.require_number("delta", 0.0, optional=True)
        bonuses = ("optimistic", "as-printed")
        self.require("penalty_bonus", " or ".join(bonuses), self.penalty_bonus in bonuses)
        require_forgetting(self)

    @property
    def knows(self) -> str:
        """The smallest mean cost, if ``mu_min`` is not given."""
        return "smallest cost" if self.mu_min is None else ""

    def for_task(self, known: Known) -> Policy:
        """The form for requests with contexts, or for numbers, or itself."""
        task, values = known.stated, {one.name: getattr(self, one.name) for one in fields(self)}
        forgets = (self.window0, self.discount0) != (None, None)
        if task.feature_columns and not forgets:
            from tightrope.policies.featured_lyon import FeaturedLyOn

            return FeaturedLyOn(**values)
        if task.space is not None and not forgets:
            from tightrope.policies.zooming import ZoomingLyOn

            return ZoomingLyOn(**values)
        if isinstance(task.contexts, Types):
            from tightrope.policies.typed_lyapunov import TypedLyOn

            return TypedLyOn(**values)
        return self

    @property
    def schedule(self) -> Schedule:
        """V and delta as functions of the budget."""
        return Schedule(self.label, math.log, self.v0, self.delta0, self.v, self.delta)

    def setup(self, task: Task, budget: float) -> Setup:
        """Constants: V, the sign of the penalty's bonus (0 if known), 2 alpha, known costs.

        Allowance: the limits - delta.
        """
        limits = limits_of(task)
        v, delta = self.schedule.at(budget, task.scales.cost)
        window, fade = window_and_fade(self, budget, task.scales.cost)
        costs, doubt = known_facts(task)
        sign = doubt if self.penalty_bonus == "optimistic" else -doubt
        return Setup(
            constants=(v, sign, 2.0 * self.alpha, costs),
            allowance=tuple(limit - delta for limit in limits),
            explore=exploration(self.beta0, budget, smallest_cost(self.mu_min, task)),
            warning=self.schedule.outside(budget, task),
            window=window,
            fade=fade,
        )

    @staticmethod
    def clock(constants: Constants, step: float) -> float:
        """sqrt(2 alpha log n): the confidence radius times sqrt(pulls)."""
        # def:cradius
        return math.sqrt(constants[2] * math.log(step))

    @staticmethod
    def reward_terms(constants: Constants, pulls: float, cost: float, earned: float) -> Terms:
        """The reward's rate and width; infinite for an arm that has cost nothing so far."""
        return rate_and_width(pulls, cost, earned, INFINITY, 1.0, 1.0 - constants[3])

    @staticmethod
    def penalty_terms(constants: Constants, pulls: float, cost: float, penalty: float) -> Terms:
        """The penalty's rate and signed width; rate 0 for an arm that has cost nothing so far."""
        rate, width = net_rate_and_width(pulls, cost, penalty, 0.0, 1.0, 1.0 - constants[3])
        return rate, constants[1] * width  # sign as in the proof, or as printed

    @staticmethod
    def reward_index(
        constants: Constants, clock: float, uniform: float, arm: float, level: float, width: float
    ) -> float:
        """-V times the upper confidence bound of the reward rate."""
        # eqn:ly-index
        return -constants[0] * (level + clock * width)

    @staticmethod
    def penalty_index(constants: Constants, clock: float, level: float, width: float) -> float:
        """The lower confidence bound of the penalty rate."""
        # eqn:ly-index
        return level - clock * width
