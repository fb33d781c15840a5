"""The controller decides as the simulator does, and refuses what it cannot use."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import bernoulli_problem
from tests.engine.test_changing import changing
from tests.engine.test_crowd import coins
from tests.engine.test_simulation import EVERY_POLICY, LeastPulled
from tightrope import (
    Arm,
    Bernoulli,
    Controller,
    ExhaustedError,
    InputError,
    LyOff,
    LyOn,
    Problem,
    UCBBwI,
    Uniform,
    parse_policy,
)
from tightrope.engine.python import play
from tightrope.problem import Scales


def replay(problem, policy, budget, seed=3):
    """A simulated run, told to a controller step by step."""
    controller = Controller(problem, policy, budget, seed=seed)
    for arm, (cost, reward, *penalty), queues in play(
        problem, policy, policy.setup(problem, budget), budget, seed, 0
    ):
        assert controller.ask() == arm
        assert not controller.exhausted
        controller.tell(arm, cost, reward, penalty[0] if len(penalty) == 1 else penalty)
        assert controller.queues == queues
    assert controller.exhausted
    return controller


@pytest.mark.parametrize("policy", [*EVERY_POLICY, LeastPulled()], ids=lambda p: p.name)
def test_it_makes_the_decisions_of_the_simulator(paper, policy):
    controller = replay(paper, policy, 120.0)
    assert controller.spent == 121.0
    assert sum(controller.pulls) > 120


def test_and_of_a_policy_that_weighs_all_arms_at_once(paper):
    replay(paper, parse_policy("resolve"), 30.0)


FORGETFUL = ["lyon:window0=1", "lyon:discount0=1", "resolve:window0=1", "resolve:discount0=1"]


@pytest.mark.parametrize("text", FORGETFUL)
def test_and_of_a_policy_that_forgets(paper, text):
    policy = parse_policy(text)
    assert policy.setup(paper, 60.0).forgets
    controller = replay(paper, policy, 60.0)
    assert controller.spent == 61.0
    assert sum(controller.pulls) > 60


@pytest.mark.parametrize("text", ["lyon", "resolve", "uniform-random", *FORGETFUL])
def test_and_of_arms_that_change(text):
    """It is told what the arms give, and need not know when they change."""
    replay(changing(), parse_policy(text), 60.0)


def test_a_forgetful_controller_counts_everything_else(paper):
    controller = Controller(paper, LyOn(window0=0.2, v=1.0, delta=0.0, beta0=0.0), 100.0)
    assert controller.setup.window == 5
    for _ in range(20):
        controller.tell(0, 0.5, 1.0, 0.9)
    assert controller.pulls == [20, 0]
    assert controller.spent == 10.0
    assert controller.queues == pytest.approx([20 * (0.9 - 0.8 * 0.5)])


@pytest.mark.parametrize("penalties", [0, 1, 2])
@pytest.mark.parametrize("policy", [LyOn(), LyOff(), LyOn(beta0=0.1), UCBBwI()])
def test_and_among_many_arms(penalties, policy):
    """More than it looks at one by one: the envelope and the sieve decide."""
    replay(coins(150, penalties), policy, 700.0)


def test_units_are_the_users():
    laws = [Uniform(0.0, 40.0), Uniform(0.0, 8.0), Uniform(0.0, 2.0)]
    problem = Problem([Arm("a", *laws)], limit=0.01, scales=Scales(64.0, 8.0, 2.0))
    controller = Controller(problem, LyOff(v=1.0, delta=0.0), 100.0)
    controller.tell(controller.ask(), 32.0, 8.0, 2.0)
    assert controller.spent == 32.0
    assert controller.queues == pytest.approx([2.0 - 0.01 * 32.0])
    for _ in range(3):
        assert not controller.exhausted
        controller.tell(controller.ask(), 32.0, 0.0, 0.0)
    assert controller.exhausted
    assert controller.pulls == [4]


def test_decisions_may_be_in_flight():
    """Exploration goes by asks; what is asked later goes by what was told by then."""
    problem = bernoulli_problem([(0.5, 0.5, 0.5)] * 3, 0.8)
    controller = Controller(problem, LyOn(), 100.0)
    explore = controller.setup.explore
    assert [controller.ask() for _ in range(3 * explore)] == [0, 1, 2] * explore
    assert controller.ask() == 0  # nothing told: all have cost nothing, the lowest number
    for arm in (1, 2, 0) * explore:
        controller.tell(arm, 1.0, float(arm == 2), 0.0)
    assert [controller.ask() for _ in range(3)] == [2, 2, 2]
    assert controller.pulls == [explore] * 3
    assert controller.queues == [0.0]


def test_what_is_told_after_the_end_still_counts(paper):
    controller = Controller(paper, LyOff(), 2.0)
    for _ in range(3):
        controller.tell(controller.ask(), 1, 0, 0)
    with pytest.raises(ExhaustedError, match=r"^budget = 2: spent \(3\); no pull is left$"):
        controller.ask()
    controller.tell(1, 1, 0, 0)
    assert controller.spent == 4.0


def test_the_seed_decides_for_policies_that_toss_coins(paper):
    from tightrope import UniformRandom

    def asks(seed):
        controller = Controller(paper, UniformRandom(), 50.0, seed=seed)
        return [controller.ask() for _ in range(40)]

    assert asks(1) == asks(1)
    assert asks(1) != asks(2)


ONE = (0, 0.5, 0.5, 0.5)
BAD = [
    ((2, 0.5, 0.5, 0.5), "arm = 2: must be a number from 0 to 1"),
    ((-1, 0.5, 0.5, 0.5), "arm = -1: must be a number from 0 to 1"),
    ((0.5, 0.5, 0.5, 0.5), "arm = 0.5: must be a number from 0 to 1"),
    (("bold", 0.5, 0.5, 0.5), "arm = 'bold': must be a number from 0 to 1"),
    ((0, 1.5, 0.5, 0.5), "cost = 1.5: must be a number in [0, 1]"),
    ((0, -0.1, 0.5, 0.5), "cost = -0.1: must be a number in [0, 1]"),
    ((0, 0.5, float("nan"), 0.5), "reward = nan: must be a number in [0, 1]"),
    ((0, 0.5, "1", 0.5), "reward = '1': must be a number in [0, 1]"),
    ((0, 0.5, 0.5, 2), "penalty = 2: must be a number in [0, 1]"),
    ((0, 0.5, 0.5), "penalty = None: must be a number"),
    ((0, 0.5, 0.5, [0.5, 0.5]), "penalty = [0.5, 0.5]: must be a number"),
]


@pytest.mark.parametrize(("told", "message"), BAD)
@pytest.mark.parametrize("policy", [LyOff(), LeastPulled()], ids=["compiled", "plain"])
def test_a_bad_outcome_is_refused_in_one_line(paper, policy, told, message):
    controller = Controller(paper, policy, 50.0)
    with pytest.raises(InputError) as caught:
        controller.tell(*told)
    assert str(caught.value) == message
    assert controller.pulls == [0, 0]
    assert controller.spent == 0.0


@pytest.mark.parametrize(("penalties", "told"), [(0, 0.5), (2, 0.5), (2, [0.5]), (2, "ab")])
def test_penalties_must_be_as_many_as_limits(penalties, told):
    controller = Controller(coins(3, penalties), LyOn(), 50.0)
    with pytest.raises(InputError, match=r"^penalty = .*: must be"):
        controller.tell(0, 0.5, 0.5, told)


def test_numbers_of_any_kind_are_taken(paper):
    controller = Controller(paper, LyOff(), 50.0)
    controller.tell(np.int64(1), 1, np.float32(0.5), np.float64(0.25))
    controller.tell(True, 1, True, [0.25])
    assert controller.pulls == [0, 2]
    assert controller.spent == 2.0


def test_bad_settings_are_refused(paper):
    with pytest.raises(InputError, match="budget = -1"):
        Controller(paper, LyOff(), -1)
    with pytest.raises(InputError, match="seed = -1"):
        Controller(paper, LyOff(), 10, seed=-1)


def test_one_arm_is_enough():
    problem = Problem([Arm("only", Bernoulli(0.5), Bernoulli(0.5))])
    controller = Controller(problem, LyOn(v=1.0, delta=0.0), 1.0)
    assert controller.ask() == 0
