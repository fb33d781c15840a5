"""A controller as a value: saved, copied, compared, sent; every one of them goes on on its own."""

from __future__ import annotations

import base64
import copy
import dataclasses
import gc
import json
import pickle
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import by_policy
from tests.problems import LeastPulled, Speller, coins
from tightrope import Controller, Limit, LyOff, LyOn, Resolve, Task, parse_policy
from tightrope.errors import InputError, NotCompiledWarning
from tightrope.kernels.spec import SCAN
from tightrope.live import snapshots
from tightrope.live.beside import Beside
from tightrope.live.rebuild import Moves, rebuilt, state_at_start
from tightrope.policies import POLICIES, FixedArm, UniformRandom

HERE = Path(__file__).parent
EVERY_POLICY = [
    *POLICIES,
    "lyon:window0=1",
    "lyon:discount0=1",
    "resolve:window0=1",
    "resolve:discount0=1",
]
WAYS = {
    "restore": lambda one: Controller.restore(one.snapshot()),
    "copy": lambda one: one.copy(),
    "copy.copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda one: pickle.loads(pickle.dumps(one)),
}


def outcomes(seed, penalties=1):
    """Outcomes without end, whatever the arm."""
    random = np.random.default_rng(seed)
    while True:
        yield random.integers(0, 2, 2 + penalties).astype(float).tolist()


def go_on(controller, steps, seed):
    """Decide and tell so many times; the arms."""
    arms = []
    for _, (cost, reward, *penalty) in zip(range(steps), outcomes(seed), strict=False):
        arms.append(controller.ask())
        controller.tell(arms[-1], cost, reward, penalty[: controller.task.penalty_count])
    return arms


def midway(paper, text, steps=40):
    """A controller that has decided for a while, with a decision in flight."""
    controller = Controller(paper, parse_policy(text), 100.0, seed=5)
    go_on(controller, steps, seed=1)
    controller.ask()
    return controller


@pytest.mark.parametrize("text", by_policy(EVERY_POLICY))
def test_another_one_goes_on_as_this_one(paper, text):
    """The same decisions, from the same bits to the same bits; and neither minds the other."""
    for way in WAYS.values():
        controller = midway(paper, text)
        before = controller.snapshot()
        other = way(controller)
        assert other == controller
        assert other.snapshot() == before
        assert not np.shares_memory(other._state.block, controller._state.block)
        arms = go_on(other, 40, seed=2)
        assert controller.snapshot() == before
        assert other != controller
        assert go_on(controller, 40, seed=2) == arms
        assert other == controller
        assert other.snapshot() == controller.snapshot()


@pytest.mark.parametrize("text", by_policy(EVERY_POLICY))
def test_another_one_outlives_this_one(paper, text):
    expected = go_on(midway(paper, text), 30, seed=2)
    gc.freeze()  # numba's objects are many, and collecting them takes a second
    try:
        for way in WAYS.values():
            controller = midway(paper, text)
            other = way(controller)
            del controller
            gc.collect()
            litter = [np.full(2000, 255, np.uint8) for _ in range(200)]
            assert go_on(other, 30, seed=2) == expected
            del litter
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("policy", [LeastPulled(), LyOff(), LyOn(), LyOn(window0=1), Resolve()])
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_from_the_first_step_on(paper, policy, steps):
    """Also of a policy that is not compiled, and while arms are tried in turn."""
    controller = Controller(paper, policy, 100.0)
    go_on(controller, steps, seed=1)
    for way in WAYS.values():
        other = way(controller)
        assert go_on(other, 20, seed=2) == go_on(controller.copy(), 20, seed=2)


@pytest.mark.parametrize("penalties", [0, 1, 2])
@pytest.mark.parametrize("policy", [LyOff(), LyOn(beta0=0.1)], ids=lambda policy: policy.name)
def test_among_many_arms(policy, penalties):
    """The sieve is part of the state."""
    controller = Controller(coins(150, penalties), policy, 1000.0)
    told = outcomes(4, penalties)
    for count in (40, 40, 40):
        others = [way(controller) for way in WAYS.values()]
        for _ in range(count):
            arm, (cost, reward, *penalty) = controller.ask(), next(told)
            for one in others:
                assert one.ask() == arm
                one.tell(arm, cost, reward, penalty)
            controller.tell(arm, cost, reward, penalty)
        assert all(one == controller for one in others)


def test_two_that_saw_the_same_are_equal(paper):
    def made(policy=None, budget=100.0, seed=1, problem=paper):
        return Controller(problem, policy or UniformRandom(), budget, seed=seed)

    assert made() == made()
    assert made() == made(problem=paper.task)
    others = [made(LyOn()), made(budget=99.0), made(seed=2), "a controller"]
    others.append(made(problem=dataclasses.replace(paper, name="another")))
    assert all(made() != other for other in others)
    told = made()
    told.tell(0, 0, 0, 0)
    assert told != made()
    with pytest.raises(TypeError, match="unhashable"):
        hash(told)


def test_a_snapshot_says_what_it_is(paper):
    controller = midway(paper, "resolve:window0=1")
    assert repr(controller).startswith("Controller(resolve:window0=1, 2 arms, budget 100: ")
    assert repr(controller).endswith(" spent in 40 pulls, 1 in flight)")
    again = Controller.restore(bytearray(controller.snapshot()))
    assert (again.task, again.policy, again.budget) == (paper.task, controller.policy, 100.0)
    assert (again.spent, again.pulls, again.queues) == (
        controller.spent,
        controller.pulls,
        controller.queues,
    )
    assert type(again.task) is Task


PROGRAM = """
import sys
from tightrope import Controller
controller = Controller.restore(sys.stdin.buffer.read())
arms = []
for step in range(30):
    arms.append(controller.ask())
    controller.tell(arms[-1], step % 2, step % 3 / 2, step % 5 / 4)
print(arms)
"""


@pytest.mark.parametrize("text", ["lyon", "lyon:discount0=1", "ts-lp", "stationary"])
def test_another_process_goes_on(paper, text):
    controller = midway(paper, text)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=controller.snapshot(),
        capture_output=True,
        check=True,
    )
    arms = []
    for step in range(30):
        arms.append(controller.ask())
        controller.tell(arms[-1], step % 2, step % 3 / 2, step % 5 / 4)
    assert json.loads(done.stdout) == arms


# What is refused.


def damaged(saved):
    """Bytes that are no snapshot, and what is said of them."""
    _, checksum, line, block = saved.split(b"\n", 3)
    start = len(saved) - len(block)

    def flipped(place):
        return saved[:place] + bytes([saved[place] ^ 1]) + saved[place + 1 :]

    def with_head(**changed):
        head = json.dumps(json.loads(line) | changed).encode()
        return snapshots.sealed(head + b"\n" + block)

    return [
        (b"", "must come from snapshot()"),
        (b"not a snapshot", "must come from snapshot()"),
        (pickle.dumps(3), "must come from snapshot()"),
        (saved[1:], "must come from snapshot()"),
        (saved[: len(snapshots.MAGIC)], "is damaged"),
        (saved[: start // 2], "is damaged"),
        (saved[:start], "is damaged"),
        (saved[:-1], "is damaged"),
        (saved + b"x", "is damaged"),
        *((flipped(place), "is damaged") for place in range(len(snapshots.MAGIC), len(saved), 97)),
        (snapshots.MAGIC + checksum + b"\n", "is damaged"),
        (snapshots.MAGIC + b"\xff\n" + line + b"\n" + block, "is damaged"),
        (with_head(format=99), "format 99 must be 2 to 5"),
        (with_head(policy=["nowhere", "Nobody"]), "its policy nowhere.Nobody is not imported here"),
        ("text", "must be bytes"),
        (None, "must be bytes"),
    ]


def test_what_is_no_snapshot_is_refused_in_one_line(paper):
    saved = midway(paper, "lyon").snapshot()
    for bad, words in damaged(saved):
        with pytest.raises(InputError) as caught:
            Controller.restore(bad)
        assert str(caught.value).startswith("snapshot: "), bad
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_policy_of_ones_own_is_found_or_given(paper):
    @dataclasses.dataclass(frozen=True)
    class Mine(LeastPulled):
        name = "mine"
        weight: float = 1.0

    controller = Controller(paper, Mine(2.0), 50.0)
    go_on(controller, 10, seed=1)
    saved = controller.snapshot()
    assert Controller.restore(saved) == controller
    content = saved.split(b"\n", 2)[2]
    unknown = snapshots.sealed(content.replace(__name__.encode(), b"elsewhere"))
    with pytest.raises(
        InputError, match=r"^snapshot: its policy elsewhere\..*Mine is not known he"
    ):
        Controller.restore(unknown)
    assert Controller.restore(unknown, Mine(2.0)) == controller


@pytest.mark.parametrize("other", [FixedArm(1), Resolve(), LyOn(), LyOn(delta0=3.0, alpha=1.0)])
def test_the_policy_given_has_to_be_the_one(paper, other):
    saved = Controller(paper, LyOn(delta0=3.0), 50.0).snapshot()
    assert Controller.restore(saved, LyOn(delta0=3.0)).policy == LyOn(delta0=3.0)
    with pytest.raises(
        InputError, match=r"^snapshot: its policy is LyOn \{.*\}; must not be given [^\n]*$"
    ):
        Controller.restore(saved, other)


def test_one_that_cannot_be_compiled(paper):
    with pytest.warns(NotCompiledWarning):
        controller = Controller(paper, Speller(), 50.0)
    go_on(controller, 7, seed=1)
    with pytest.warns(NotCompiledWarning):
        others = [way(controller) for way in WAYS.values()]
    assert all(one == controller for one in others)
    assert {tuple(go_on(one, 9, seed=2)) for one in (controller, *others)} == {
        (1, 0, 1, 0, 1, 0, 1, 0, 1)
    }


@pytest.mark.parametrize("label", ["lyon", "resolve", "resolve:risk=0.05", "ts-lp"])
def test_a_snapshot_of_the_version_before_goes_on(label):
    """Saved by version 0.1 after 30 pulls, with its next 40 decisions."""
    saved = json.loads((HERE / "controller-2.json").read_text())[label]
    controller = Controller.restore(zlib.decompress(base64.b64decode(saved["snapshot"])))
    assert sum(controller.pulls) == 30
    assert controller.in_flight == [0, 0]
    chosen = []
    for turn in range(30, 70):
        arm = controller.ask()
        chosen.append(arm)
        bad = 1.0 if (turn * 7 + arm) % 5 == 0 else 0.0
        controller.tell(arm, [1.0, 0.5][arm], [0.8, 0.4][turn % 2], bad)
    assert chosen == saved["then"]


def test_arms_that_were_watched_without_coins_are_watched_on():
    """Saved in format 4, after an alarm: the same is remembered, and other prices are noticed."""
    saved = json.loads((HERE / "controller-4.json").read_text())
    controller = Controller.restore(zlib.decompress(base64.b85decode(saved["snapshot"])))
    assert controller.pulls == saved["pulls"]
    assert controller._state.record.pulls.tolist() == saved["remembered"]
    assert [list(one) for one in controller.outlook().changed] == saved["changed"]
    assert controller == Controller.restore(controller.snapshot())
    for turn in range(200):
        controller.tell("b", 0.01 if turn < 100 else 0.03, 0.5, 0)
    noticed = dict(controller.outlook().changed)["b"]
    assert sum(saved["pulls"]) + 100 < noticed < sum(saved["pulls"]) + 160


def test_a_run_from_before_there_were_promises_per_pull_goes_on_without(monkeypatch):
    task = Task(["a", "b"], {"bad": Limit(0.5, per="pull")}, safe="b", safe_rates={"bad": 0.1})
    policy = Resolve(risk=0.01)
    with monkeypatch.context() as before:
        before.setattr(Resolve, "for_task", lambda self, known: self)
        controller = Controller(task, policy, 100)
    for again in (
        Controller.restore(controller.snapshot(), policy),
        pickle.loads(pickle.dumps(controller)),
    ):
        assert type(again.policy) is Resolve
        assert go_on(again, 9, seed=2) == go_on(controller.copy(), 9, seed=2)
    guarded = Controller(task, policy, 100)
    assert Controller.restore(guarded.snapshot(), policy) == guarded


def test_the_envelope_of_earlier_versions_becomes_a_sieve():
    """Known means, one limit, many arms: the block had the arrays of a scan and four more."""
    problem, policy, told = coins(150, 1), LyOff(), outcomes(4)
    controller = Controller(problem, policy, 1000.0)
    for _ in range(40):
        controller.tell(controller.ask(), *next(told))
    sieve = controller._state
    scan = dataclasses.replace(sieve.spec, method=SCAN)
    state = state_at_start(scan, sieve.setup, problem.task, 1000.0)
    state = rebuilt(sieve, state, policy, Moves(np.ones(3)))
    state.spec = dataclasses.replace(scan, method="envelope")
    saved = snapshots.pack(problem.task, policy, 1000.0, state, -1, Beside.nothing(150))
    other = Controller.restore(saved)
    assert other._state.spec == sieve.spec
    assert go_on(other, 60, seed=2) == go_on(controller, 60, seed=2)
