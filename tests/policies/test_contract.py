"""Every policy of the package keeps the contract that outsiders' policies are held to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from tightrope import ChoicePolicy, IndexPolicy, LyOff, LyOn
from tightrope.policies import (
    POLICIES,
    SWUCBLP,
    TSLP,
    UCBLP,
    ControlBudget,
    IdentifyResolve,
    OptPessLP,
    PrimalDualBwK,
)
from tightrope.policies.base import Setup, limits_of
from tightrope.testing import PolicyContract


class TestEveryPolicy(PolicyContract):
    policies = (
        *(policy() for policy in POLICIES.values()),
        LyOn(penalty_bonus="as-printed"),
        LyOn(v=3.0, delta=0.0),
        LyOn(window0=1.0),
        LyOn(discount0=1.0),
        LyOff(v=3.0, delta=0.0),
        TSLP(update=True),
        UCBLP(epsilon="published"),
        OptPessLP(safe=1, safe_rate=0.5, alpha=0.05),
        PrimalDualBwK(hard_stop=False),
        IdentifyResolve(alpha=0.01),
        ControlBudget(known=True),
        ControlBudget(alpha=0.01),
        SWUCBLP(variation=20.0, alpha=0.05),
    )


@dataclass(frozen=True)
class Wrong(IndexPolicy):
    """Compiled it is another policy than in plain Python."""

    name: ClassVar[str] = "wrong"
    summary: ClassVar[str] = "decides by the weather"
    learns: ClassVar[bool] = False

    def setup(self, task, budget):
        terms = np.zeros((task.arm_count, 1 + task.penalty_count, 2))
        terms[:, 0, 0] = np.arange(task.arm_count)
        return Setup((), limits_of(task), terms=terms)

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
        contract.test_every_engine_makes_the_same_runs()
    with pytest.raises(AssertionError):
        contract.test_the_controller_decides_alike_and_survives_a_snapshot()


@dataclass(frozen=True)
class Bent(LyOn):
    """Says that it is steady; its index is a curve over the clock."""

    name: ClassVar[str] = "bent"

    @staticmethod
    def reward_index(constants, clock, uniform, arm, level, width):
        return -level - clock * clock * width


@dataclass(frozen=True)
class Partial(LyOn):
    """Says that it is steady; it prefers some arms by their numbers."""

    name: ClassVar[str] = "partial"

    @staticmethod
    def reward_index(constants, clock, uniform, arm, level, width):
        return -level - clock * width + 0.01 * arm


@pytest.mark.parametrize(
    ("policy", "why"), [(Bent(), "linear in the clock"), (Partial(), "number")]
)
def test_the_contract_finds_a_policy_that_is_not_steady(policy, why):
    class Contract(PolicyContract):
        policies = (policy,)

    with pytest.raises(AssertionError, match=why):
        Contract().test_if_it_is_steady_its_index_is_straight_in_the_clock()


@dataclass(frozen=True)
class Meddler(ChoicePolicy):
    """Forgets what was seen while it chooses."""

    name: ClassVar[str] = "meddler"
    summary: ClassVar[str] = "rubs out the first arm"

    def setup(self, task, budget):
        return Setup((), limits_of(task))

    @staticmethod
    def choose(constants, state, scratch, words):
        state.pulls[0] = 0.0
        return 0


def test_the_contract_finds_a_policy_that_changes_what_was_seen():
    class Contract(PolicyContract):
        policies = (Meddler(),)

    with pytest.raises(ValueError, match="read-only"):
        Contract().test_choosing_changes_nothing_but_its_own_scratch()
