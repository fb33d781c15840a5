"""Every policy of the package keeps the contract that outsiders' policies are held to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from tightrope import IndexPolicy, LyOff, LyOn
from tightrope.policies import POLICIES
from tightrope.policies.base import Setup
from tightrope.testing import PolicyContract


class TestEveryPolicy(PolicyContract):
    policies = (
        *(policy() for policy in POLICIES.values()),
        LyOn(penalty_bonus="as-printed"),
        LyOn(v=3.0, delta=0.0),
        LyOff(v=3.0, delta=0.0),
    )


@dataclass(frozen=True)
class Wrong(IndexPolicy):
    """Compiled it is another policy than in plain Python."""

    name: ClassVar[str] = "wrong"
    summary: ClassVar[str] = "decides by the weather"
    learns: ClassVar[bool] = False

    def setup(self, problem, budget):
        terms = np.zeros((problem.arm_count, 1 + problem.penalty_count, 2))
        terms[:, 0, 0] = np.arange(problem.arm_count)
        return Setup((), tuple(problem.moments.limits), terms=terms)

    @staticmethod
    def reward_index(constants, clock, uniform, arm, level, width):
        return -level

    def decide(self, setup, step, statistics, queues, uniform):
        return 0


def test_the_contract_finds_a_policy_that_differs():
    class Contract(PolicyContract):
        policies = (Wrong(),)

    contract = Contract()
    contract.test_it_says_what_it_is()
    contract.test_its_setup_is_plain_numbers()
    with pytest.raises(AssertionError):
        contract.test_compiled_it_decides_as_in_plain_python()
