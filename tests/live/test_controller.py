"""The controller decides as the simulator does, and refuses what it cannot use."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.conftest import bernoulli_problem
from tests.problems import (
    Astray,
    AstrayDecider,
    Careful,
    LeastPulled,
    Speller,
    changing,
    coins,
)
from tightrope import (
    Arm,
    Bernoulli,
    Controller,
    Limit,
    LyOff,
    LyOn,
    Problem,
    Resolve,
    Scales,
    Stationary,
    Task,
    Uniform,
    parse_policy,
)
from tightrope.engine.python import play
from tightrope.errors import ExhaustedError, InputError, NotCompiledWarning, PolicyError
from tightrope.policies import EpsilonGreedy, FixedArm, UCBBwI, UniformRandom
from tightrope.policies.base import set_up

EVERY_POLICY = [
    LyOff(),
    LyOn(),
    LyOn(penalty_bonus="as-printed"),
    Stationary(),
    FixedArm(2),
    UniformRandom(),
    UCBBwI(),
    EpsilonGreedy(),
]


def replay(problem, policy, budget, seed=3):
    """A simulated run, told to a controller step by step."""
    controller = Controller(problem, policy, budget, seed=seed)
    for arm, (cost, reward, *penalty), queues in play(
        problem, policy, set_up(policy, problem, budget), budget, seed, 0
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
    assert set_up(policy, paper, 60.0).forgets
    controller = replay(paper, policy, 60.0)
    assert controller.spent == 61.0
    assert sum(controller.pulls) > 60


@pytest.mark.parametrize("text", ["lyon", "resolve", "uniform-random", *FORGETFUL])
def test_and_of_arms_that_change(text):
    """It is told what the arms give, and need not know when they change."""
    replay(changing(), parse_policy(text), 60.0)


def test_a_forgetful_controller_counts_everything_else(paper):
    controller = Controller(paper, LyOn(window0=0.2, v=1.0, delta=0.0, beta0=0.0), 100.0)
    assert controller._state.setup.window == 5
    for _ in range(20):
        controller.tell(0, 0.5, 1.0, 0.9)
    assert controller.pulls == [20, 0]
    assert controller.spent == 10.0
    assert controller.queues == pytest.approx([20 * (0.9 - 0.8 * 0.5)])


@pytest.mark.parametrize(
    "penalties",
    [pytest.param(count, id=f"{count}@many arms {max(count, 1)}") for count in range(3)],
)
@pytest.mark.parametrize("policy", [LyOn(), LyOff(), LyOn(beta0=0.1), UCBBwI()])
def test_and_among_many_arms(penalties, policy):
    """More than it looks at one by one: the sieve decides."""
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
    explore = controller._state.setup.explore
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
    def asks(seed):
        controller = Controller(paper, UniformRandom(), 50.0, seed=seed)
        return [controller.ask() for _ in range(40)]

    assert asks(1) == asks(1)
    assert asks(1) != asks(2)


NUMBER = "must be a number from 0 to 1, or a name"
IN_RANGE = "must be a number in [0, 1]"
PENALTY = "must be a number, or by name: 'penalty'"
BAD = [
    ((2, 0.5, 0.5, 0.5), f"arm = 2: {NUMBER}"),
    ((-1, 0.5, 0.5, 0.5), f"arm = -1: {NUMBER}"),
    ((2**70, 0.5, 0.5, 0.5), f"arm = {2**70}: {NUMBER}"),
    ((-(2**70), 0.5, 0.5, 0.5), f"arm = {-(2**70)}: {NUMBER}"),
    ((0.5, 0.5, 0.5, 0.5), f"arm = 0.5: {NUMBER}"),
    ((None, 0.5, 0.5, 0.5), f"arm = None: {NUMBER}"),
    (([0], 0.5, 0.5, 0.5), f"arm = [0]: {NUMBER}"),
    (("bold", 0.5, 0.5, 0.5), "arm = 'bold': is not an arm; known: arm 1, arm 2"),
    (("arm 3", 0.5, 0.5, 0.5), "arm = 'arm 3': is not an arm; did you mean 'arm 2'?"),
    ((0, 1.5, 0.5, 0.5), f"cost = 1.5: {IN_RANGE}"),
    ((0, -0.1, 0.5, 0.5), f"cost = -0.1: {IN_RANGE}"),
    ((0, None, 0.5, 0.5), f"cost = None: {IN_RANGE}"),
    ((0, 2**70, 0.5, 0.5), f"cost = {2**70}: {IN_RANGE}"),
    ((0, 0.5, float("nan"), 0.5), f"reward = nan: {IN_RANGE}"),
    ((0, 0.5, float("inf"), 0.5), f"reward = inf: {IN_RANGE}"),
    ((0, 0.5, np.float64("nan"), 0.5), f"reward = np.float64(nan): {IN_RANGE}"),
    ((0, 0.5, "1", 0.5), f"reward = '1': {IN_RANGE}"),
    ((0, 0.5, b"1", 0.5), f"reward = b'1': {IN_RANGE}"),
    ((0, 0.5, 1j, 0.5), f"reward = 1j: {IN_RANGE}"),
    ((0, 0.5, [0.5], 0.5), f"reward = [0.5]: {IN_RANGE}"),
    ((0, 0.5, {"reward": 0.5}, 0.5), f"reward = {{'reward': 0.5}}: {IN_RANGE}"),
    ((0, 0.5, 0.5, 2), f"penalty = 2: {IN_RANGE}"),
    ((0, 0.5, 0.5, [2]), f"penalty = 2: {IN_RANGE}"),
    ((0, 0.5, 0.5, float("nan")), f"penalty = nan: {IN_RANGE}"),
    ((0, 0.5, 0.5, "0.5"), f"penalty = '0.5': {IN_RANGE}"),
    ((0, 0.5, 0.5, {"penalty": 2}), f"penalty = 2: {IN_RANGE}"),
    ((0, 0.5, 0.5, {"penalty": None}), f"penalty = None: {IN_RANGE}"),
    ((0, 0.5, 0.5), f"penalty = None: {PENALTY}"),
    ((0, 0.5, 0.5, []), f"penalty = []: {PENALTY}"),
    ((0, 0.5, 0.5, [0.5, 0.5]), f"penalty = [0.5, 0.5]: {PENALTY}"),
    ((0, 0.5, 0.5, range(2)), f"penalty = [0, 1]: {PENALTY}"),
    ((0, 0.5, 0.5, {}), f"penalty = {{}}: {PENALTY}"),
    ((0, 0.5, 0.5, {"bad": 0.5}), "penalty 'bad' is unknown; known: penalty"),
    ((0, 0.5, 0.5, {"penalty": 0.5, 3: 0}), "penalty 3 is unknown; known: penalty"),
    ((0, 0.5, 0.5, {"penalti": 0.5}), "penalty 'penalti' is unknown; did you mean 'penalty'?"),
]


@pytest.mark.parametrize(("told", "message"), BAD, ids=[message for _, message in BAD])
@pytest.mark.parametrize("policy", [LyOff(), LeastPulled()], ids=["compiled", "plain"])
def test_a_bad_outcome_is_refused_in_one_line(paper, policy, told, message):
    controller = Controller(paper, policy, 50.0)
    before = controller.snapshot()
    with pytest.raises(InputError) as caught:
        controller.tell(*told)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert controller.snapshot() == before
    assert controller.pulls == [0, 0]
    assert controller.spent == 0.0


HUGE = [(0, 10**400, 0.5, 0.5), (0, 0.5, 10**400, 0.5), (0, 0.5, 0.5, -(10**400))]


@pytest.mark.parametrize("told", [*HUGE, (10**400, 0.5, 0.5, 0.5), (0, 0.5, 0.5, [10**400])])
@pytest.mark.parametrize("policy", [LyOff(), LeastPulled()], ids=["compiled", "plain"])
def test_numbers_beyond_all_floats_are_refused(paper, policy, told):
    controller = Controller(paper, policy, 50.0)
    before = controller.snapshot()
    with pytest.raises(InputError, match=r"^(arm|cost|reward|penalty) = [^\n]*: must be a number"):
        controller.tell(*told)
    assert controller.snapshot() == before


def test_an_array_is_no_number(paper):
    """Unless it has no dimensions."""
    controller = Controller(paper, LyOff(), 50.0)
    before = controller.snapshot()
    for bad in (np.array([0.5]), np.array([[0.5]]), np.zeros(0), np.zeros((50, 50))):
        for outcome in ((0, bad, 0.5, 0.5), (0, 0.5, bad, 0.5), (0, 0.5, 0.5, np.array([bad]))):
            with pytest.raises(InputError) as caught:
                controller.tell(*outcome)
            assert "\n" not in str(caught.value)
    assert controller.snapshot() == before


@pytest.mark.parametrize(("penalties", "told"), [(0, 0.5), (2, 0.5), (2, [0.5]), (2, "ab")])
def test_penalties_must_be_as_many_as_limits(penalties, told):
    controller = Controller(coins(3, penalties), LyOn(), 50.0)
    with pytest.raises(InputError, match=r"^penalty = .*: must be"):
        controller.tell(0, 0.5, 0.5, told)
    for arm in (3, -1, 2**70):
        with pytest.raises(InputError, match=rf"^arm = {arm}: must be a number from 0 to 2"):
            controller.tell(arm, 0.5, 0.5, [0.5] * penalties)
    assert controller == Controller(coins(3, penalties), LyOn(), 50.0)


TAKEN = [
    (np.int64(1), 1, np.float32(0.5), np.float64(0.25)),
    (1, True, 0.5, [0.25]),
    (True, np.bool_(True), 0.5, (0.25,)),
    (1, 1, np.array(0.5), np.array(0.25)),
    (np.array(1), np.uint8(1), np.float16(0.5), np.array([0.25])),
    (1, 1, Fraction(1, 2), {"penalty": 0.25}),
    ("arm 2", 1, 0.5, {"penalty": np.array(0.25)}),
    (1, 1, 0.5, {0.25: "x"}.keys()),
]


@pytest.mark.parametrize("policy", [LyOff(), LeastPulled()], ids=["compiled", "plain"])
def test_numbers_of_any_kind_are_taken(paper, policy):
    plain, other = Controller(paper, policy, 50.0), Controller(paper, policy, 50.0)
    for told in TAKEN:
        plain.tell(1, 1.0, 0.5, 0.25)
        other.tell(*told)
        assert other == plain
    plain.tell(1, 1.0, 0.5, 0.25)
    other.tell(1, 1, 0.5, (value for value in [0.25]))
    assert other == plain
    assert other.pulls == [0, len(TAKEN) + 1]


def test_penalties_by_name_or_in_order():
    task = Task(
        ["haiku", "opus"],
        {"bad": Limit(0.05), "dollars": Limit(0.004)},
        Scales(penalty=(1.0, 0.05)),
    )
    given = [
        [0.5, 0.003],
        (0.5, 0.003),
        np.array([0.5, 0.003]),
        {"dollars": 0.003, "bad": 0.5},
        (value for value in (0.5, 0.003)),
    ]
    made = []
    for penalty in given:
        controller = Controller(task, LyOn(v=1.0, delta=0.0, beta0=0.0), 10.0)
        controller.tell("opus", 1, 0.7, penalty)
        made.append(controller)
    assert all(one == made[0] for one in made)
    assert made[0].queues == pytest.approx([0.5 - 0.05, 0.0])
    assert [made[0].arm_name(arm) for arm in range(2)] == ["haiku", "opus"]
    before = made[0].snapshot()
    for bad in ({"bad": 0.5}, {"bad": 0.5, "dollar": 0.003}, [0.5], [0.5, 0.06], [0.003, 2], "ab"):
        allowed = r"^(penalty|bad|dollars) ('dollar' is unknown|= [^\n]*: must be) ?[^\n]*$"
        with pytest.raises(InputError, match=allowed):
            made[0].tell(0, 1, 0.7, bad)
    with pytest.raises(InputError, match=r"2 numbers, or by name: 'bad', 'dollars'$"):
        made[0].tell(0, 1, 0.7, {"bad": 0.5})
    with pytest.raises(InputError, match=r"^dollars = 0\.06: must be a number in \[0, 0\.05\]$"):
        made[0].tell(0, 1, 0.7, [0.5, 0.06])
    assert made[0].snapshot() == before


def test_bad_settings_are_refused(paper):
    with pytest.raises(InputError, match="budget = -1"):
        Controller(paper, LyOff(), -1)
    with pytest.raises(InputError, match="seed = -1"):
        Controller(paper, LyOff(), 10, seed=-1)
    with pytest.raises(InputError, match=r"^task = 'paper': must be a Task or a Problem$"):
        Controller("paper", LyOff(), 10)
    with pytest.raises(InputError, match=r"^policy = 'lyon': must be a policy"):
        Controller(paper, "lyon", 10)


@pytest.mark.parametrize("policy", [LyOff(), Stationary()], ids=lambda policy: policy.name)
def test_who_knows_the_laws_needs_a_problem(paper, policy):
    with pytest.raises(PolicyError, match=rf"^policy {policy.name}: .*a Task was given$"):
        Controller(paper.task, policy, 10)
    assert Controller(paper, policy, 10).task == paper.task


@pytest.mark.parametrize("answer", [2, -1, 10**9])
@pytest.mark.parametrize("kind", [Astray, AstrayDecider], ids=["choose", "decide"])
def test_an_arm_that_does_not_exist_is_named(paper, kind, answer):
    controller = Controller(paper, kind(answer=answer), 50.0)
    for _ in range(5):
        controller.tell(controller.ask(), 0.5, 0.5, 0.5)
    with pytest.raises(PolicyError) as caught:
        controller.ask()
    text, _, place = str(caught.value).partition(" (in ")
    assert text == (
        f"policy astray:answer={answer}: chose arm {answer} at step 5; must be a whole number"
        " from 0 to 1"
    )
    assert place.startswith("choose, problems.py line" if kind is Astray else "decide, problems.py")


@pytest.mark.parametrize("policy", [Speller(), Careful()], ids=lambda policy: policy.name)
def test_a_policy_that_cannot_be_compiled_decides_all_the_same(paper, policy):
    with pytest.warns(NotCompiledWarning, match=rf"^policy '{policy.label}' runs in plain[^\n]*$"):
        controller = replay(paper, policy, 30.0)
    assert controller.spent == 31.0


def test_one_arm_is_enough():
    problem = Problem([Arm("only", Bernoulli(0.5), Bernoulli(0.5))])
    controller = Controller(problem, LyOn(v=1.0, delta=0.0), 1.0)
    assert controller.ask() == 0


@pytest.mark.parametrize("policy", [Resolve(), LyOn()])
def test_a_limit_in_total_is_one_per_unit_of_cost_with_types_too(policy):
    """Both controllers decide the same; the second once had no room for the type of a request."""
    limits = Limit(0.5), Limit(total=20)
    tasks = [Task(["a", "b"], {"bad": limit}, contexts=["x", "y"]) for limit in limits]
    first, second = (Controller(task, policy, budget=40, seed=2) for task in tasks)
    for step in range(30):
        context = "xy"[step % 3 == 0]
        arm = first.ask(context=context)
        assert second.ask(context=context) == arm
        for one in (first, second):
            one.tell(arm, cost=0.5, reward=float(arm), penalty=step % 2, context=context)
