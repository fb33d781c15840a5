"""One text, several forms: a policy called at an address, inlined, or not compiled at all."""

from __future__ import annotations

import dataclasses
import random
import threading
from functools import cache

import numpy as np
import pytest

from tests.conftest import bernoulli_problem, by_policy
from tests.problems import changing, unlike
from tightrope import Controller, Limit, Problem, parse_policy, ready_problem
from tightrope.engine import single
from tightrope.engine.planning import plan_jobs
from tightrope.kernels.live import NOTHING, REFUSED
from tightrope.kernels.native import live_calls, native
from tightrope.kernels.plain import PlainCalls
from tightrope.kernels.run_state import ASKED, EXPLORE, STEP
from tightrope.live import calls as background
from tightrope.live.calls import Background, NativeCalls
from tightrope.live.rebuild import new_state, with_record
from tightrope.policies import POLICIES
from tightrope.testing.policies import _dollars

MEANS = [(0.4, 0.8, 0.6, 0.5), (0.6, 0.6, 0.3, 0.2), (0.5, 0.3, 0.1, 0.4)]


def problem_of(*limits, **more):
    """Three arms with so many limits, named a and b."""
    arms = bernoulli_problem([m[: 2 + len(limits)] for m in MEANS], [1.0] * len(limits)).arms
    return Problem(arms, limits=dict(zip("ab", limits, strict=False)), **more)


PROBLEMS = {
    "one limit": problem_of(Limit(0.8)),
    "no limit": problem_of(),
    "two limits": problem_of(Limit(0.8), Limit(0.7)),
    "per pull": problem_of(Limit(0.4, per="pull")),
    "per reward": problem_of(Limit(0.7, per="reward")),
    "hard": problem_of(Limit(total=10, hard=True)),
    "of every kind": problem_of(Limit(0.5, per="pull"), Limit(total=12, hard=True)),
    "expected": problem_of(Limit(0.8), expected={"arm 2": {"cost": 0.6, "reward": 0.5, "a": 0.3}}),
}


# Called or inlined: the same bits. Four policies stand for all, because the loop's lines are the
# same for every policy, and so are those of a policy in both forms (``test_every_policy`` has every
# policy called). What can differ is how the compiler joins the two, and what it joins differs in
# two ways only: an index, from the book or from a state, or a choice; with a coin or without.

FUSED = [
    ("lyon", ready_problem("paper")),
    ("lyon", _dollars()),
    ("lyon:window0=1", PROBLEMS["of every kind"]),
    ("epsilon-greedy", changing()),
    ("epsilon-greedy", PROBLEMS["hard"]),
    ("resolve", ready_problem("paper")),
    ("resolve:window0=1", changing()),
    ("resolve:discount0=1", PROBLEMS["per pull"]),
    ("resolve", _dollars()),
    ("resolve", PROBLEMS["no limit"]),
    ("ts-lp", changing()),
    ("ts-lp", PROBLEMS["hard"]),
]


def both_forms(text, problem, monkeypatch):
    """The plans of a policy called and inlined."""
    monkeypatch.setattr(single, "TO_COMPILE", 0.0)
    budget = 40.0 * problem.scales.cost
    options = {"seed": 3, "backend": "cpu", "precision": "double"}
    job = plan_jobs(problem, {"p": parse_policy(text)}, [budget], 3, **options)["p", budget]
    inlined = single.plan_single(job)
    called = dataclasses.replace(inlined, fuse=False)
    assert (called.fused, inlined.fused) == (False, True)
    return called, inlined


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(*case, id=f"{case[0]}-{at}@{case[0].partition(':')[0]}")
        for at, case in enumerate(FUSED)
    ],
)
def test_a_policy_called_or_inlined_makes_the_same_runs(text, problem, monkeypatch):
    made = []
    for plan in both_forms(text, problem, monkeypatch):
        runs, _ = plan.run(np.arange(3), np.zeros(1, np.uint8))
        whole, parts = (single.SingleRun(plan, np.array([1])) for _ in range(2))
        whole.advance(2**60, np.zeros(1, np.uint8))
        until = 0
        while parts.running:
            until += 7
            parts.advance(until, np.zeros(1, np.uint8))
        assert parts.state == whole.state
        made.append((runs, whole.state))
    (called, state), (inlined, other) = made
    assert called.pulls.sum(axis=1).min() > 2 * problem.arm_count
    assert unlike(called, inlined) == []
    assert state == other


# Live runs: compiled or not, the same bits, call by call.

LABELS = list(
    dict.fromkeys(
        label
        for kind in POLICIES.values()
        for label in (kind.name, *kind.contestants, *kind.forgetful)
    )
)


@cache
def start_of(label, situation):
    """A policy and the state at the start of a live run."""
    problem = PROBLEMS[situation]
    policy = parse_policy(label).for_task(problem)
    state = new_state(problem, policy, 30.0)
    if not state.spec.remembers:
        state = with_record(state, problem.task, policy, 30.0)
    state["words"][:] = np.arange(1, 9)
    return policy, state


class Pair:
    """The same calls to compiled functions and to plain Python: same answers, same bits."""

    def __init__(self, policy, state):
        self.policy, self.states = policy, (state.copy(), state.copy())
        compiled, plain = self.states
        made = native(state.spec, state.forgets), live_calls()
        self.forms = NativeCalls(compiled, made), PlainCalls(policy, plain)

    def _both(self, name, *given):
        answers = [getattr(form, name)(*given) for form in self.forms]
        compiled, plain = self.states
        for field, array in compiled._arrays.items():
            assert array.tobytes() == plain[field].tobytes(), (name, field)
        return answers

    def __call__(self, name, *given):
        compiled, plain = self._both(name, *given)
        assert compiled == plain, name
        return compiled

    def tell(self, arm, outcomes):
        """Compiled code may decide ahead: what plain Python answers when it is asked next."""
        for state in self.states:
            state.run.told[: len(outcomes) - 2] = outcomes[2:]
        penalty = outcomes[2] if len(outcomes) > 2 else 0.0
        compiled, plain = self._both("tell", arm, *outcomes[:2], penalty)
        if compiled < 0:
            assert compiled == plain
        else:
            assert plain == NOTHING
            later = self.states[1].copy()
            later["counts"][ASKED] = max(later["counts"][[ASKED, EXPLORE]])
            assert compiled == PlainCalls(self.policy, later).ask()
        return compiled


def stand_ins_of(rng, arms):
    """All arms, or some of them in place of the others."""
    found = np.arange(arms, dtype=np.float64)
    if rng.random() < 0.4:
        allowed = sorted(rng.sample(range(arms), rng.randint(1, arms)))
        for arm in set(range(arms)) - set(allowed):
            found[arm] = allowed[arm % len(allowed)]
    return found


@pytest.mark.parametrize("situation", PROBLEMS)
@pytest.mark.parametrize("label", by_policy(LABELS))
def test_live_calls_are_those_of_plain_python(label, situation):
    """Pulls in flight, told in any order; arms left out; outcomes refused."""
    policy, state = start_of(label, situation)
    problem, rng = PROBLEMS[situation], random.Random(f"{label} {situation}")
    pair, arms, flight = Pair(policy, state), problem.arm_count, []
    counts, beside, left_out = pair.states[0]["counts"], 0, 0
    for _ in range(60):
        if flight and rng.random() < 0.5:
            arm = flight.pop(rng.randrange(len(flight)))
            outcomes = [
                float(rng.random() < mean) for mean in MEANS[arm][: 2 + len(problem.limits)]
            ]
            outcomes[1] *= rng.random()
            if rng.random() < 0.1:
                assert pair.tell(arm, [1.5, *outcomes[1:]]) == REFUSED
                assert pair.tell(arms, outcomes) == REFUSED
            answer = pair.tell(arm, outcomes)
            assert answer == NOTHING or 0 <= answer < arms
            continue
        stand_ins = stand_ins_of(rng, arms)
        plain = (stand_ins == np.arange(arms)).all()
        if not flight and plain and counts[ASKED] >= counts[EXPLORE]:
            arm = pair("ask")
        else:
            flying = np.bincount(flight, minlength=arms).astype(np.float64)
            arm = pair("ask_beside", flying, stand_ins)
            assert stand_ins[arm] == arm
            beside, left_out = beside + 1, left_out + (not plain)
        flight.append(int(arm))
    assert beside > 5
    assert left_out > 0
    assert pair.states[0]["counts"][STEP] > 5


# From plain Python to compiled code in the middle of a run.


@pytest.mark.parametrize("situation", ["one limit", "of every kind"])
@pytest.mark.parametrize("label", by_policy(["lyon", "lyon:window0=1", "resolve", "ts-lp"]))
def test_a_live_run_that_is_compiled_meanwhile_decides_as_ever(label, situation, monkeypatch):
    policy, problem = parse_policy(label), PROBLEMS[situation]
    may_go_on = threading.Event()

    def late(*wanted):
        in_background = threading.current_thread() is not threading.main_thread()
        assert not in_background or may_go_on.wait(60)
        return native(*wanted)

    monkeypatch.setattr(Background, "_all", {})
    monkeypatch.setattr(background, "native", late)
    switching = Controller(problem, policy, 30, seed=4, background=True)
    monkeypatch.setattr(Background, "wanted", False)
    monkeypatch.setattr(Background, "_all", {})
    plain = Controller(problem, policy, 30, seed=4, background=True)
    compiled = Controller(problem, policy, 30, seed=4)
    rng, flight, turn = random.Random(label), [], 0
    everyone = switching, plain, compiled
    kinds = []
    while not plain.exhausted:
        turn += 1
        if turn == 40:
            may_go_on.set()
            Background.wait()
        if flight and rng.random() < 0.5:
            arm = flight.pop(rng.randrange(len(flight)))
            outcomes = [
                float(rng.random() < mean) for mean in MEANS[arm][: 2 + len(problem.limits)]
            ]
            for one in everyone:
                one.tell(arm, *outcomes[:2], outcomes[2:])
        else:
            eligible = None if rng.random() < 0.7 else rng.sample(range(3), 2)
            chosen = {one.choose(eligible) for one in everyone}
            assert len(chosen) == 1, turn
            for one in everyone:
                one.launch(*chosen)
            flight += chosen
        kinds.append(type(switching._calls))
        assert switching == plain, turn
    assert switching.pulls == compiled.pulls
    assert switching.spent == compiled.spent
    assert switching.queues == compiled.queues
    assert kinds[0] is kinds[35] is PlainCalls
    assert kinds[-1] is NativeCalls
    assert type(plain._calls) is PlainCalls
    assert type(compiled._calls) is NativeCalls
    assert switching == compiled or not compiled._state.spec.remembers


def test_one_that_cannot_be_compiled_stays_plain(monkeypatch):
    """The compiler's error in the other thread ends nothing."""

    def never(*wanted):
        raise ValueError("no")

    monkeypatch.setattr(Background, "_all", {})
    monkeypatch.setattr(background, "native", never)
    controller = Controller(PROBLEMS["one limit"], parse_policy("resolve"), 30, background=True)
    Background.wait()
    for _ in range(5):
        controller.launch(controller.choose())
    assert controller._compiling is None
    assert type(controller._calls) is PlainCalls
