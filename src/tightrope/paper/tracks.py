"""Tracks: one policy's runs on one problem, for checking claims.

Letters: G budgets, R runs. Numbers are in the user's units, which for the paper's problems are the
normalised ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.optimum.exact import optimum
from tightrope.optimum.pi_star import Oracle, oracle
from tightrope.paper.base import Evidence
from tightrope.policies import Policy
from tightrope.policies.base import set_up
from tightrope.problem import Problem
from tightrope.problem.values import Floats
from tightrope.runs import Runs


@dataclass(frozen=True, eq=False)
class Track:
    """A policy's runs on a problem at G budgets."""

    problem: Problem
    policy: Policy
    budgets: Floats  # [G]
    runs: Runs  # [G, R]

    @cached_property
    def best(self) -> Oracle:
        """pi*."""
        return oracle(self.problem)

    @property
    def reward_gap(self) -> Floats:
        """[G, R] reward rate minus that of pi*."""
        return self.runs.reward / self.budgets[:, None] - self.best.reward_rate

    @property
    def share_gap(self) -> Floats:
        """[G, R] the first arm's share of the pulls minus that of pi*."""
        pulls = self.runs.pulls
        share: Floats = pulls[:, :, 0] / pulls.sum(axis=2)
        return share - float(self.best.pull_share[0])

    @property
    def violation(self) -> Floats:
        """[G, R] penalty per unit of budget, minus the limit."""
        return self.runs.penalty[:, :, 0] / self.budgets[:, None] - self.problem.limits[0]

    @property
    def regret(self) -> Floats:
        """[G, R] OPT(B) minus the reward."""
        best = [optimum(self.problem, float(budget)) for budget in self.budgets]
        return np.array(best)[:, None] - self.runs.reward

    @property
    def lagrangian_regret(self) -> Floats:
        """[G, R] regret + multiplier * violation * B, with pi*'s multiplier."""
        worth = self.best.multiplier[0] * self.budgets[:, None]
        return self.regret + worth * self.violation

    @property
    def queue_max(self) -> Floats:
        """[G, R] the largest queue of a run."""
        return self.runs.queue_max[:, :, 0]

    @property
    def pulls(self) -> Floats:
        """[G] mean pulls of a run."""
        return np.asarray(self.runs.pulls.sum(axis=2).mean(axis=1), float)

    @cached_property
    def v(self) -> Floats:
        """[G] V, the weight of the reward relative to the queue."""
        setups = [set_up(self.policy, self.problem, float(budget)) for budget in self.budgets]
        return np.array([setup.constants[0] for setup in setups])

    @cached_property
    def delta(self) -> Floats:
        """[G] delta, by which the limit is tightened."""
        setups = [set_up(self.policy, self.problem, float(budget)) for budget in self.budgets]
        return np.array([self.problem.limits[0] - setup.allowance[0] for setup in setups])

    @property
    def arms_alike(self) -> bool:
        """Whether reward rate minus priced penalty rate is the same for all arms."""
        moments = self.problem.moments
        value = moments.reward_rate - self.best.multiplier[0] * moments.penalty_rate[:, 0]
        return bool(np.ptp(value) < 1e-9)

    @property
    def inside(self) -> npt.NDArray[np.bool_]:
        """[G] whether delta is below the limit, as the theorems require."""
        return self.delta < self.problem.limits[0]

    @property
    def feasible(self) -> npt.NDArray[np.bool_]:
        """[G] whether some arm keeps the tightened limit."""
        least = float(self.problem.moments.penalty_rate[:, 0].min())
        return self.delta < self.problem.limits[0] - least

    def where(self, chosen: npt.NDArray[np.bool_]) -> Track:
        """The same track at the ``chosen`` budgets."""
        return Track(self.problem, self.policy, self.budgets[chosen], self.runs[chosen])


def tracks(evidence: Evidence, kind: type[Policy], **parameters: Any) -> list[Track]:
    """The tracks of all policies of a kind with these parameters, in the order of the sweep."""
    found = []
    for call, results in zip(evidence.calls, evidence.results, strict=True):
        budgets = np.array(results.budgets)
        for policy in call.policies:
            if isinstance(policy, kind) and _has(policy, parameters):
                found.append(Track(results.problem, policy, budgets, results[policy.label].runs))
    return found


def _has(policy: Policy, parameters: dict[str, Any]) -> bool:
    return all(getattr(policy, name) == value for name, value in parameters.items())
