"""Watching for change: false alarms as rarely as said, true ones soon, and nothing stale left."""

from __future__ import annotations

import numpy as np
import pytest

from tightrope import (
    Controller,
    Limit,
    Resolve,
    Scales,
    Task,
    parse_policy,
    ready_problem,
    simulate,
)
from tightrope.errors import PolicyError
from tightrope.policies.choice import record
from tightrope.policies.parts import watch as watching
from tightrope.policies.parts.watch import CHANGES, fresh_watch, watch
from tightrope.policies.state import State, field_starts, record_maker


def fresh(arms=1, penalties=1, block=1):
    starts = field_starts(State, arms, penalties)
    state = record_maker(State)(np.zeros(starts[-1]), starts)
    state.known[:], state.weights[:], state.limits[:] = -1.0, -1.0, 0.5
    return state, fresh_watch(arms, penalties, block)


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
    logs = sum(1.0 / (r * np.log(r) ** 2) for r in range(2, 200_000))
    assert logs + 1.0 / np.log(199_999) <= watching.ALL_RANKS  # the rest is below this integral


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


def prices(rng, before, after, pulls):
    """Small costs that vary by half, with another mean after ``before`` pulls."""
    for turn in range(before + pulls):
        mean = 0.003 * (after if turn >= before else 1.0)
        yield mean * rng.uniform(0.5, 1.5), float(rng.random() < 0.5), float(rng.random() < 0.1)


@pytest.mark.parametrize("times", [3.0, 1.0 / 3.0])
def test_a_small_price_that_changes_is_noticed_soon(times):
    waits = []
    for seed in range(20):
        state, history = fresh()
        for turn, told in enumerate(prices(np.random.default_rng(seed), 300, times, 200)):
            pull(state, history, told, 0.01)
            if history[CHANGES]:
                waits.append(turn - 300)
                break
    assert len(waits) == 20
    assert min(waits) >= 0
    assert np.median(waits) < 65


@pytest.mark.parametrize("times", [3.0, 1.0 / 3.0])
def test_a_constant_price_that_changes_is_noticed_soon(times):
    """All of the first outcomes are equal, so that the coin is whether one differs."""
    state, history = fresh()
    for turn in range(400):
        pull(state, history, (0.003 * (times if turn >= 300 else 1.0), 0.5, 0.0), 0.01)
        if history[CHANGES]:
            break
    assert 300 < turn < 330


def test_small_prices_that_stay_do_not_alarm():
    for seed in range(60):
        state, history = fresh()
        for told in prices(np.random.default_rng(seed), 600, 1.0, 0):
            pull(state, history, told, 0.5)
        assert history[CHANGES] == 0


def test_coins_start_anew_after_an_alarm():
    """A price triples, and later falls to what it was: both are noticed."""
    state, history = fresh()
    rng = np.random.default_rng(3)
    told = [*prices(rng, 300, 3.0, 300), *prices(rng, 300, 1.0, 0)]
    noticed = []
    for turn, one in enumerate(told):
        pull(state, history, one)
        if history[CHANGES] > len(noticed):
            noticed.append(turn)
    assert len(noticed) == 2
    assert 300 <= noticed[0] < 380
    assert 600 <= noticed[1] < 680


def sticky(rng, pulls, chance=0.5, keep=0.8):
    """A coin that is tossed again with a chance of 0.2, so that it stays with one of 0.9."""
    value = 0.0
    for _ in range(pulls):
        if rng.random() >= keep:
            value = float(rng.random() < chance)
        yield 1.0, value, 0.0


@pytest.mark.parametrize(("block", "alarms"), [(1, 10), (16, 0)])
def test_outcomes_that_resemble_the_last_one_need_blocks(block, alarms):
    found = 0
    for seed in range(10):
        state, history = fresh(block=block)
        for told in sticky(np.random.default_rng(seed), 1600):
            pull(state, history, told, 0.01)
        found += history[CHANGES] > 0
    assert found == alarms


def test_a_change_is_noticed_in_blocks():
    state, history = fresh(block=16)
    rng = np.random.default_rng(4)
    for told in [*sticky(rng, 1600), *sticky(rng, 1600, 0.95)]:
        pull(state, history, told, 0.01)
        if history[CHANGES]:
            break
    assert 1600 < state.steps[0] < 3000
    assert 0 < state.pulls[0] <= state.steps[0] - 1600 + 128  # most of before is forgotten


def test_a_known_price_that_is_changed_is_no_alarm():
    task = Task(["a", "b"], {"bad": Limit(0.3)}, costs={"a": 0.5, "b": 0.25})
    controller = Controller(task, Resolve(watch=0.05), 4000)
    for turn in range(400):
        if turn == 200:
            controller.reprice("a", cost=0.1)
        controller.tell("a", None, 0.5, 0)
    assert controller.outlook().changed == ()


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
    first, width = watching._buckets(1), watching._width(1)
    sizes = history[first : first + used * width : width]
    assert sizes.sum() == 5000
    assert used <= 5 * 13
    assert (np.diff(sizes) <= 0).all()  # the last ones are finest


@pytest.mark.parametrize("label", ["resolve:watch=0.3", "resolve:watch=0.3,watch_block=4"])
def test_the_same_runs_as_in_plain_python(label):
    problem = ready_problem("arena-abrupt")
    slow, fast = (
        simulate(problem, parse_policy(label), budgets=150, runs=2, backend=backend)
        for backend in ("python", "cpu")
    )
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
    assert f"arm 'a' has changed since pull {when}" in str(outlook)


def test_bad_settings():
    with pytest.raises(PolicyError, match="watch = 1"):
        Resolve(watch=1.0)
    with pytest.raises(PolicyError, match="watch"):
        Resolve(watch=0.1, window0=2)
    assert parse_policy("resolve:watch=0.01") == Resolve(watch=0.01)
    assert parse_policy("resolve:watch=0.01,watch_block=16") == Resolve(watch=0.01, watch_block=16)
    for block in (0, 2.5, 10**9):
        with pytest.raises(PolicyError, match=f"watch_block = {block} must be a "):
            Resolve(watch=0.1, watch_block=block)
    with pytest.raises(PolicyError, match="watch_block = 8 must be 1 without watch"):
        Resolve(watch_block=8)


def test_a_scale_that_grows_is_no_alarm():
    """Costs and rewards are in other units from then on, and so are the medians of their coins."""
    scales = Scales(0.5, 0.7, 1.0, grow=True)
    controller = Controller(Task(["a"], {"bad": Limit(0.3)}, scales), Resolve(watch=0.05), 4000)
    for turn in range(300):
        reward = 3.1 if turn == 150 else 0.3 + 0.001 * (turn % 7)
        controller.tell("a", 1.7 if turn == 150 else 0.1, reward, 0)
    assert controller.outlook().changed == ()
    for _ in range(40):
        controller.tell("a", 0.11, 0.3, 0)
    assert [arm for arm, _ in controller.outlook().changed] == ["a"]
