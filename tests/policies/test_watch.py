"""Watching for change: false alarms as rarely as said, true ones soon, and nothing stale left."""

from __future__ import annotations

import numpy as np
import pytest

from tightrope import Controller, Limit, Resolve, Task, parse_policy, ready_problem, simulate
from tightrope.errors import PolicyError
from tightrope.policies.choice import record
from tightrope.policies.parts import watch as watching
from tightrope.policies.parts.watch import CHANGES, HEAD, watch, watch_numbers
from tightrope.policies.state import State, field_starts, record_maker


def fresh(arms=1, penalties=1):
    starts = field_starts(State, arms, penalties)
    state = record_maker(State)(np.zeros(starts[-1]), starts)
    state.known[:], state.weights[:], state.limits[:] = -1.0, -1.0, 0.5
    return state, np.zeros(watch_numbers(arms, penalties))


def pull(state, history, outcomes, delta=0.05):
    told = np.array(outcomes, float)
    record(state, 0, told)
    watch(state, history, delta, 0, told)


def test_false_alarms_are_rare():
    """At delta = 0.5, so that there could be some: of 60 arms at most half have one."""
    rng, alarms = np.random.default_rng(1), 0
    for _ in range(60):
        state, history = fresh()
        for _ in range(600):
            pull(state, history, (rng.random() < 0.5, rng.random(), rng.random() < 0.1), 0.5)
        alarms += history[CHANGES] > 0
    assert alarms <= 15


def test_the_weights_of_the_splits_add_up_to_at_most_one():
    total = sum(1.0 / watching._rarity(float(s)) for s in range(1, 200_000))
    assert 0.5 < total <= 1.0


@pytest.mark.parametrize(("after", "soon"), [(0.9, 150), (0.05, 60)])
def test_a_change_is_noticed_soon(after, soon):
    rng, waits = np.random.default_rng(2), []
    for _ in range(20):
        state, history = fresh()
        for turn in range(300 + soon * 2):
            chance = 0.5 if turn < 300 else after
            pull(state, history, (1.0, rng.random() < chance, 0.0), 0.01)
            if history[CHANGES]:
                waits.append(turn - 300)
                break
    assert len(waits) == 20
    assert np.median(waits) < soon
    assert min(waits) >= 0


def test_after_an_alarm_the_sums_are_those_since_the_change():
    state, history = fresh()
    told = []
    for turn in range(400):
        told.append((1.0, float(turn >= 256), 0.25))
        pull(state, history, told[-1])
        if history[CHANGES]:
            break
    kept = np.array(told[256:])
    assert state.pulls[0] == len(kept)
    assert np.array_equal(state.totals, kept.sum(axis=0))
    assert np.array_equal(state.squares, (kept**2).sum(axis=0))
    assert np.array_equal(state.products, [(kept[:, 0] * kept[:, 2]).sum()])
    assert state.steps[0] == len(told)  # what is left of the budget is not forgotten


def test_the_buckets_hold_every_pull_and_stay_few():
    state, history = fresh()
    for _ in range(5000):
        pull(state, history, (1.0, 0.5, 0.0))
    used = int(history[watching.USED])
    sizes = history[HEAD : HEAD + used * 9 : 9]
    assert sizes.sum() == 5000
    assert used <= 5 * 13
    assert (np.diff(sizes) <= 0).all()  # the last ones are finest


def test_the_same_runs_as_in_plain_python():
    problem = ready_problem("arena-abrupt")
    slow, fast = (
        simulate(problem, Resolve(watch=0.3), budgets=150, runs=2, backend=backend)
        for backend in ("python", "cpu")
    )
    label = "resolve:watch=0.3"
    assert np.array_equal(slow[label].runs.pulls, fast[label].runs.pulls)


def test_the_outlook_names_the_arm():
    controller = Controller(Task(["a", "b"], {"bad": Limit(0.3)}), Resolve(watch=0.05), 4000)
    assert controller.outlook().changed == ()
    for turn in range(600):
        controller.tell("a", 1, 0.9 if turn < 300 else 0.1, 0)
        controller.tell("b", 1, 0.5, 0)
    outlook = Controller.restore(controller.snapshot()).outlook()
    ((arm, when),) = outlook.changed
    assert arm == "a"
    assert 600 < when < 900
    assert f"arm 'a' is not what it was since pull {when}" in str(outlook)


def test_bad_settings():
    with pytest.raises(PolicyError, match="watch = 1"):
        Resolve(watch=1.0)
    with pytest.raises(PolicyError, match="watch"):
        Resolve(watch=0.1, window0=2)
    assert parse_policy("resolve:watch=0.01") == Resolve(watch=0.01)
