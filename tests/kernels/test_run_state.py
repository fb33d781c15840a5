"""The block that holds all that a run remembers: where things are, and that it is plain data."""

from __future__ import annotations

import numpy as np
import pytest

from tightrope import parse_policy, ready_problem
from tightrope.errors import InputError
from tightrope.kernels.aligned import CACHE_LINE, aligned_zeros
from tightrope.kernels.run_state import (
    ARMS,
    EXPLORE,
    SAME_MEMORY,
    Field,
    RunState,
    Sizes,
)
from tightrope.kernels.spec import spec_of
from tightrope.policies.base import set_up
from tightrope.policies.state import State
from tightrope.testing.policies import _dollars

TEXTS = ["lyon", "lyoff", "lyon:window0=1", "resolve", "resolve:discount0=1", "uniform-random"]


def state_of(text, problem=None, many_arms=False, dtype=np.float64, budget=50.0):
    problem, policy = problem or ready_problem("paper"), parse_policy(text)
    setup = set_up(policy, problem, budget)
    spec = spec_of(policy, setup, dtype, many_arms)
    return RunState.new(
        spec,
        problem.arm_count,
        setup,
        budget,
        problem,
        scales=problem.scales.channels,
        sizes=Sizes(2, 1),
    )


EVERY_STATE = [
    *((text, problem, False) for text in TEXTS for problem in (ready_problem("paper"), _dollars())),
    ("lyon", ready_problem("paper"), True),
    ("lyoff", ready_problem("paper"), True),
    ("lyon", _dollars(), True),
]


@pytest.mark.parametrize(("text", "problem", "many_arms"), EVERY_STATE)
def test_arrays_are_apart_and_aligned(text, problem, many_arms):
    """Each on cache lines of its own, all within the block; some are two views of one memory."""
    state = state_of(text, problem, many_arms)
    block, taken = state.block, np.zeros(len(state.block), int)
    assert block.ctypes.data % CACHE_LINE == 0
    for field in Field:
        array = state[field.name.lower()]
        if not array.size:
            continue
        assert np.shares_memory(array, block)
        start = array.ctypes.data - block.ctypes.data
        assert start % CACHE_LINE == 0
        if field in SAME_MEMORY:
            assert np.shares_memory(array, state[SAME_MEMORY[field].name.lower()])
        else:
            taken[start : start + array.nbytes] += 1
    assert taken.max() == 1
    assert not taken[: 24 * len(Field)].any(), "the table"


@pytest.mark.parametrize(("text", "problem", "many_arms"), EVERY_STATE)
def test_it_is_data_that_lies_anywhere(text, problem, many_arms):
    """No address in it: the same bytes elsewhere are the same state."""
    state = state_of(text, problem, many_arms)
    other = state_of(text, problem, many_arms)
    assert state.block.ctypes.data != other.block.ctypes.data
    assert state.block.tobytes() == other.block.tobytes()


def copied_block(state):
    block = aligned_zeros(state.block.shape, np.uint8)
    block[:] = state.block
    return RunState(state.spec, block)


def test_a_copy_is_another_one_with_the_same_numbers():
    state = state_of("resolve:window0=1")
    for other in (state.copy(), copied_block(state)):
        assert other == state
        assert not np.shares_memory(other.block, state.block)
        other["totals"][1, 2] = 5.0
        other.record.pulls[0] = 3.0
        other.scratch[0][0] = 2.0
        assert other != state
        assert state["totals"][1, 2] == state.record.pulls[0] == 0.0
        assert other.record.pulls.tolist() == [3.0, 0.0]


def test_states_of_other_policies_are_others():
    state = state_of("lyon")
    assert state == state_of("lyon")
    assert state != state_of("lyon:alpha=1")
    assert state != state_of("lyon", budget=51.0)
    assert state != state_of("lyon", dtype=np.float32)
    assert state != state_of("ucb-bwi")
    assert state != "lyon"
    with pytest.raises(TypeError, match="unhashable"):
        hash(state)


@pytest.mark.parametrize("problem", [ready_problem("paper"), _dollars()], ids=["paper", "dollars"])
@pytest.mark.parametrize("text", [*TEXTS, "stationary", "fixed-arm:arm=2"])
def test_it_gives_back_the_setup(text, problem):
    setup, found = set_up(parse_policy(text), problem, 50.0), state_of(text, problem).setup
    names = ("constants", "allowance", "explore", "window", "fade", "forgets")
    for name in names:
        assert getattr(found, name) == getattr(setup, name), name
    assert (found.terms is None) == (setup.terms is None)
    if setup.terms is not None:
        assert np.array_equal(found.terms, setup.terms)


def test_a_run_starts_with_all_of_its_budget():
    problem = _dollars()
    state = state_of("resolve", problem, budget=8.0)
    assert state.record._fields == State._fields
    assert state.record.remaining.tolist() == [8.0, *(8.0 * problem.task.normal_limits)]
    assert state.run.budget.tolist() == [8.0]
    assert state.run.scale.tolist() == [50.0, 1, 1, 1]
    assert state["counts"][[ARMS, EXPLORE]].tolist() == [3, 0]
    assert not state["totals"].any()


def test_more_arms_than_numbers_can_tell_apart():
    state, setup = state_of("lyon"), set_up(parse_policy("lyon"), ready_problem("paper"), 50.0)
    with pytest.raises(InputError, match=r"^arms = 16777216: must be below 16777216$"):
        RunState.new(state.spec, 2**24, setup, 50.0, ready_problem("paper"))


def test_a_copy_of_a_copy_starts_on_a_cache_line():
    for size in (1, 63, 64, 1000):
        assert aligned_zeros((size,), np.uint8).ctypes.data % CACHE_LINE == 0
    state = state_of("lyon")
    for _ in range(20):
        state = state.copy()
        assert state.block.ctypes.data % CACHE_LINE == 0
