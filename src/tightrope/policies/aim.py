"""Whether a risk can be aimed at without a declared safe arm, which would make it a promise.

A limit that allows A penalties has a standard deviation of about sqrt(A), and the policy must
distinguish K arms by the penalties they incur. So some arm or mixture must stay below the limit by
a share of it, the *slack*: about (``FOUND`` + ``SURE`` z) sqrt(K / A), with z the risk's normal
quantile, which is 2.5 sqrt(K / A) for a risk of 0.01. ``docs/resolve.md`` has the measurements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from tightrope.policies.base import Policy
from tightrope.policies.guarded import GuardedResolve
from tightrope.problem import Task

FOUND, SURE = 0.5, 0.86  # to find the safest arm, and per normal quantile of the risk; measured
PLAIN = 1.0 / 3.0  # the assumed slack if none is known
UNKNOWN = 0.5  # the mean of an undeclared outcome: that of a uniform prior


class Usual(NamedTuple):
    """The usual size of outcomes, normalised."""

    cost: float  # of a pull
    reward: float
    sizes: Sequence[float]  # of the penalties other than 0, [M]


class Aim(NamedTuple):
    """A limit that allows too few penalties for the requested risk."""

    risk: float
    limit: str  # as messages show it
    arms: int
    allowed: float  # A, in penalties of the usual size
    slack: float  # that some arm needs
    known: float | None  # the declared slack, if any
    budget: float | None  # from which that slack, or a third, is enough; None if no budget is

    def __str__(self) -> str:
        about = f"{self.limit} allows about {self.allowed:,.2g}".replace("e+0", "e")
        told = f"{about} penalties, with {self.arms} arms to distinguish"
        if self.slack < 1.0:
            text = (
                f"can be aimed at only if some arm stays {self.slack:.0%} below its limit: {told}"
            )
        else:
            text = f"cannot be aimed at, whatever the arms are: {told}"
        if self.budget is not None:
            stays = (
                "a third below" if self.known is None else f"{self.known:.0%} below, as is known"
            )
            text += f". If one stays {stays}, it can from a budget of {_rounded(self.budget)} on"
        return f"risk = {self.risk:g} {text}. A declared safe arm makes it a promise"


def aim_of(policy: Policy, task: Task, budget: float, usual: Usual | None = None) -> Aim | None:
    """A message about the hardest limit; None if the risk can be aimed at.

    ``budget`` is normalised. ``usual``: observed sizes of the outcomes, if any.
    """
    task = task.whole  # of rows: what is known of an arm's types serves all of them
    policy = policy.for_task(task)
    risk = getattr(policy, "risk", None)
    if risk is None or not task.penalty_count or isinstance(policy, GuardedResolve):
        return None
    allowed = penalties_allowed(task, budget, usual or declared_usual(task))
    m = min(range(len(allowed)), key=allowed.__getitem__)
    sure = FOUND + SURE * max(NormalDist().inv_cdf(1.0 - risk / task.penalty_count), 0.0)
    slack, known = sure * math.sqrt(task.arm_count / max(allowed[m], 1e-300)), task.slack
    enough = PLAIN if known is None else known
    if enough <= 0.0 or slack <= enough:  # no slack at all has its own warning
        return None
    fixed = task.limit_kinds[m].total is not None  # its allowance does not depend on the budget
    whole = budget * task.scales.cost * (slack / enough) ** 2
    text, arms = task.limit_text(m), task.arm_count
    return Aim(risk, text, arms, allowed[m], slack, known, None if fixed else whole)


def penalties_allowed(task: Task, budget: float, usual: Usual) -> list[float]:
    """A of every limit, [M]: the number of penalties of the usual size that it allows in total.

    Per unit of cost it is the limit times the budget, per pull the limit times the pulls. Rewards
    are random like penalties: P penalties per R rewards count as 1 / (1 / P + 1 / R). Infinite if
    the penalties are known, because there is nothing to learn.
    """
    found, limits = [], task.at(budget * task.scales.cost).normal_limits.tolist()
    pulls = budget / usual.cost
    for m, (kind, limit, size) in enumerate(
        zip(task.limit_kinds, limits, usual.sizes, strict=True)
    ):
        base = kind.unit.pick(budget, pulls, pulls * usual.reward)
        penalties = limit * base / size
        if kind.unit.channel == "reward" and penalties > 0.0:
            penalties = 1.0 / (1.0 / penalties + 1.0 / base)
        certain = kind.of == "cost" or not np.isnan(task.known_outcomes[:, 2 + m]).any()
        found.append(math.inf if certain else penalties)
    return found


def declared_usual(task: Task) -> Usual:
    """The usual sizes from the task: known or expected means, penalties of full scale."""
    means = np.where(task.normal_known >= 0.0, task.normal_known, task.normal_expected)[:, :2]
    cost, reward = np.where(np.isnan(means), UNKNOWN, means).mean(axis=0).tolist()
    return Usual(max(cost, 1e-300), max(reward, 1e-300), [1.0] * task.penalty_count)


def _rounded(number: float) -> str:
    """Two significant digits."""
    return f"{float(f'{number:.2g}'):,.6g}"
