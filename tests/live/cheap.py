"""A policy that needs no compiling, for tests of everything around the policy."""

from __future__ import annotations

import dataclasses

from tightrope.policies.base import Policy, Setup, limits_of


@dataclasses.dataclass(frozen=True)
class Rotation(Policy):
    """Each arm in turn, by the number of pulls told or in flight."""

    name = "rotation"
    summary = "each arm in turn"

    def setup(self, task, budget):
        return Setup((), limits_of(task))

    def decide(self, setup, step, statistics, queues, uniform):
        return int(sum(statistics.pulls)) % len(statistics.pulls)
