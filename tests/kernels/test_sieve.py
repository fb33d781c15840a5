"""The sieve against a look at every arm: any terms, any moves of the clock and the queues."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightrope import LyOn, Task
from tightrope.compiled.functions import compile_kernel
from tightrope.kernels.argmin.index import by_scan, of_rank
from tightrope.kernels.argmin.sieve import by_sieve, toucher
from tightrope.kernels.memory import memory_of
from tightrope.kernels.run_state import COUNT, DEPTH, EVALUATED, RunState, Sizes
from tightrope.kernels.spec import SIEVE, Spec
from tightrope.policies.base import Setup

SPECS = [
    pytest.param(penalties, dtype, id=f"{penalties}-{dtype.__name__}@sieve")
    for penalties, dtype in ((1, np.float32), (1, np.float64), (3, np.float64))
]
KINDS = ["any", "few", "free", "close", "rounded", "zero"]


@cache
def compiled(penalties: int, dtype: type):
    """Decide by the sieve, decide by a scan, tell of an arm's new terms."""
    spec = Spec(LyOn, SIEVE, penalties, remembers=False, dtype=dtype)
    sieve, scan, touch, zero = by_sieve(spec), by_scan(spec), toucher(spec), dtype(0)
    memory = memory_of(spec)

    def test_sieve(block, step):
        return sieve(memory(block.ctypes.data), step, zero)

    def test_scan(block, step):
        return scan(memory(block.ctypes.data), step, zero)

    def test_touch(block, arm):
        touch(memory(block.ctypes.data), arm)

    return spec, *(compile_kernel(f) for f in (test_sieve, test_scan, test_touch))


class Crowd:
    """Arms whose terms, clock and queues the test moves as it likes."""

    def __init__(self, penalties, dtype, arms, kind, seed, v=100.0, sign=1.0, sizes=(3, 6)):
        self.spec, self.sieve, self.scan, self.touch = compiled(penalties, dtype)
        self.random, self.arms, self.kind, self.sign = np.random.default_rng(seed), arms, kind, sign
        setup, task = (
            Setup((v, sign, 4.0, 0.0), (0.5,) * penalties),
            Task(["a"], limit=(0.5,) * penalties),
        )
        self.state = RunState.new(self.spec, arms, setup, 1e9, task, sizes=Sizes(*sizes))
        self.places, self.counts = self.state["places"], self.state["counts"]
        self.queues = self.state.run.queues[:penalties]
        for arm in range(arms):
            self.places[:-1, arm] = self.terms()
        self.step = 100

    def terms(self):
        """Level and width of every channel, as an arm might have them."""
        random, channels = self.random, self.spec.channels
        numbers = random.uniform(0.1, 2.0, (channels, 2))
        if self.kind == "few":
            numbers = random.integers(1, 3, (channels, 2)) / 2.0
        if self.kind == "close":
            numbers = 1.0 + random.uniform(0, 1e-6, (channels, 2))
        if self.kind == "rounded":
            numbers = 1.0 + random.integers(0, 3, (channels, 2)) * np.finfo(self.spec.dtype).eps
        if self.kind == "zero":  # with an empty queue all indices are 0, without any rounding
            numbers = random.integers(0, 2, (channels, 2)).astype(float)
            numbers[0] = 0.0
        numbers[1:, 1] *= self.sign
        if self.kind == "free" and random.random() < 0.1:  # an arm that has cost nothing so far
            numbers[:] = 0.0
            numbers[0, 0] = np.inf
        return numbers.reshape(-1)

    def pull(self, arm):
        self.renew(arm, self.terms())

    def renew(self, arm, terms):
        self.places[:-1, arm] = terms
        self.touch(self.state.block, arm)

    def move(self, size):
        """The queues go up or down, or jump; the clock goes on, or jumps, even back."""
        random, queues = self.random, self.queues
        queues += random.normal(0, size, len(queues)).astype(queues.dtype)
        if random.random() < 0.05:
            queues[:] = random.choice([0.0, *random.uniform(0, 300, len(queues))])
        np.maximum(queues, 0, out=queues)
        self.step += 1
        if random.random() < 0.02:
            self.step = int(10 ** random.uniform(0, 9))

    def decide(self):
        """The arm, after making sure that a scan finds the same."""
        arm = self.sieve(self.state.block, self.step)
        assert arm == self.scan(self.state.block, self.step)
        return arm


@pytest.mark.parametrize(("penalties", "dtype"), SPECS)
@pytest.mark.parametrize("kind", KINDS)
@given(
    arms=st.integers(1, 260),
    seed=st.integers(0, 2**32),
    size=st.sampled_from([0.01, 0.5, 20.0]),
    v=st.sampled_from([0.1, 100.0, 1e4]),
    sign=st.sampled_from([1.0, -1.0]),
    sizes=st.sampled_from([(2, 2), (3, 6), (8, 20)]),
)
def test_it_chooses_as_a_look_at_every_arm_does(
    penalties, dtype, kind, arms, seed, size, v, sign, sizes
):
    crowd = Crowd(penalties, dtype, arms, kind, seed, v, sign, sizes)
    for _ in range(60):
        arm = crowd.decide()
        if crowd.random.random() < 0.9:
            crowd.pull(arm)
        if crowd.random.random() < 0.3:  # told late: not the arm just chosen
            crowd.pull(int(crowd.random.integers(arms)))
        crowd.move(size)


@pytest.mark.parametrize(("penalties", "dtype"), SPECS)
@pytest.mark.parametrize("kind", ["any", "few"])
def test_it_looks_at_few_arms(penalties, dtype, kind):
    """Slow moves, as in a run: most decisions look at the last list alone."""
    crowd = Crowd(penalties, dtype, 3000, kind, 1, v=1e4, sizes=(4, 16))
    crowd.decide()
    counts = crowd.counts
    assert counts[DEPTH] >= (2 if kind == "any" else 1)
    before = counts[EVALUATED]
    for _ in range(1500):
        crowd.pull(crowd.decide())
        crowd.step += 1
        crowd.queues += 0.01
    assert (counts[EVALUATED] - before) / 1500 < 0.1 * crowd.arms


def test_arms_with_the_same_terms_wait_in_one_chain():
    """Ten thousand of a kind: the list is short all the same, and they come in order."""
    crowd = Crowd(1, np.float64, 10_000, "any", 5, sizes=(8, 16))
    best = np.array([9.0, 9.0, 0.1, 0.1])
    crowd.places[:-1, ::2] = best[:, np.newaxis]
    came = []
    for _ in range(300):
        came.append(crowd.decide())
        crowd.renew(came[-1], 0.01)
        crowd.step += 1
    assert came == list(range(0, 600, 2))
    assert crowd.state["levels"][1:, COUNT].max() < 3000
    assert crowd.counts[EVALUATED] < 300 * 500


def test_the_bound_holds_to_the_last_bit():
    """Indices as single precision computes them are never below what the sieve allows for."""
    crowd = Crowd(1, np.float32, 200, "close", 11, v=1.0, sizes=(2, 2))
    for _ in range(800):
        crowd.pull(crowd.decide())
        crowd.move(0.001)


def test_a_chain_is_in_order_whatever_the_order_they_came_in():
    """Told from the last to the first: more out of order than an arm is carried in a chain."""
    crowd = Crowd(1, np.float64, 400, "any", 7, sizes=(2, 2))
    crowd.decide()
    for arm in range(399, -1, -1):
        crowd.renew(arm, [9.0, 9.0, 0.1, 0.1])
    for arm in range(400):
        assert crowd.decide() == arm
        crowd.renew(arm, 0.01)


@pytest.mark.parametrize("count", [1, 2, 3, 64, 250])
def test_a_number_of_a_rank_is_that_of_the_sorted_numbers(count):
    random = np.random.default_rng(count)
    some = np.array([-math.inf, 0.0, 1.0, math.inf])
    for numbers in (random.normal(size=count), random.choice(some, count)):
        for rank in range(count):
            longer = np.append(numbers, [-9.0, 9.0])  # those behind do not count
            assert of_rank(longer, count, rank) == np.sort(numbers)[rank]
            assert longer[count:].tolist() == [-9.0, 9.0]
