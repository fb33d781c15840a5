"""What a policy remembers: against sums over the pulls themselves, and in the runs it makes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import bernoulli_problem
from tests.policies.driver import new_record
from tightrope import LyOn, Resolve, simulate
from tightrope.errors import PolicyError
from tightrope.policies import parse_policy
from tightrope.policies.base import Setup
from tightrope.policies.parts.forgetting import (
    EVERYONE,
    NO_ONE,
    remember,
    touched_rows,
    window_and_fade,
)
from tightrope.policies.state import State

ARMS, BUDGET, ALLOWANCE = 3, 50.0, 20.0


@st.composite
def pulls_made(draw):
    """M, and a list of pulls: the arm, then cost, reward and M penalties."""
    penalties = draw(st.integers(0, 2))
    outcome = st.floats(0.0, 1.0)
    pull = st.tuples(st.integers(0, ARMS - 1), *[outcome] * (2 + penalties))
    return penalties, draw(st.lists(pull, min_size=1, max_size=30))


class Memory:
    """Counts pulls one by one."""

    def __init__(self, penalties, window=0, fade=1.0):
        self.state = new_record(State, ARMS, penalties)
        self.state.remaining[0], self.state.remaining[1:] = BUDGET, ALLOWANCE
        self.history, self.fade = np.zeros(window * (3 + penalties)), fade

    def add(self, arm, *outcomes):
        return remember(self.state, self.history, self.fade, arm, outcomes)

    @property
    def rows(self):
        """All that is remembered of an arm, in a row."""
        return np.hstack([part.reshape(ARMS, -1) for part in self.state[:4]])


def weighed(pulls, weights, penalties):
    """The same by its definition: sums over pulls, each with its weight."""
    rows = np.zeros((ARMS, 1 + 2 * (2 + penalties) + penalties))
    for (arm, *values), weight in zip(pulls, weights, strict=True):
        shown = np.array(values)
        rows[arm] += weight * np.concatenate([[1.0], shown, shown**2, shown[0] * shown[2:]])
    return rows


def check_remaining(memory, pulls):
    """Nothing of what was spent is forgotten."""
    cost, _, *penalties = np.sum([outcomes for _, *outcomes in pulls], axis=0)
    expected = [BUDGET - cost, *(ALLOWANCE - total for total in penalties)]
    np.testing.assert_allclose(memory.state.remaining, expected, rtol=0, atol=1e-9)
    assert memory.state.steps[0] == len(pulls)


@given(pulls_made(), st.integers(1, 12))
def test_a_window_remembers_the_last_pulls(made, window):
    penalties, pulls = made
    memory = Memory(penalties, window=window)
    for count, pull in enumerate(pulls, start=1):
        touched = memory.add(*pull)
        recent = pulls[max(count - window, 0) : count]
        rows = weighed(recent, [1.0] * len(recent), penalties)
        np.testing.assert_allclose(memory.rows, rows, rtol=0, atol=1e-9)
        assert np.array_equal(memory.rows[:, 0], rows[:, 0])
        assert (memory.rows[rows[:, 0] == 0.0] == 0.0).all()
        assert touched == (pulls[count - window - 1][0] if count > window else NO_ONE)
        check_remaining(memory, pulls[:count])


@given(pulls_made(), st.floats(0.01, 0.999))
def test_discounting_weighs_a_pull_by_its_age(made, fade):
    penalties, pulls = made
    memory = Memory(penalties, fade=fade)
    for count, pull in enumerate(pulls, start=1):
        assert memory.add(*pull) == EVERYONE
        weights = fade ** np.arange(count - 1.0, -1.0, -1.0)
        rows = weighed(pulls[:count], weights, penalties)
        np.testing.assert_allclose(memory.rows, rows, rtol=0, atol=1e-9)
        check_remaining(memory, pulls[:count])


@given(pulls_made())
def test_without_either_everything_is_remembered(made):
    penalties, pulls = made
    memory = Memory(penalties)
    assert {memory.add(*pull) for pull in pulls} == {NO_ONE}
    rows = weighed(pulls, [1.0] * len(pulls), penalties)
    np.testing.assert_allclose(memory.rows, rows, rtol=0, atol=1e-9)
    check_remaining(memory, pulls)


def test_an_arm_that_left_the_window_has_no_rounding_left():
    """0.1 + 0.2 + 0.3 - 0.1 - 0.2 - 0.3 is not 0 in floats."""
    memory = Memory(1, window=3)
    for value in (0.1, 0.2, 0.3):
        memory.add(0, value, value, value)
    assert [memory.add(1, 0.5, 0.5, 0.5) for _ in range(3)] == [0, 0, 0]
    assert (memory.rows[0] == 0.0).all()
    assert memory.rows[1, 0] == 3.0
    assert memory.add(1, 0.5, 0.5, 0.5) == 1
    assert memory.rows[1, 0] == 3.0


def test_an_arm_whose_pull_in_the_window_cost_nothing_has_cost_nothing():
    """0.1 + 0.2 + 0.0 - 0.1 - 0.2 is 2.8e-17 in floats: such an arm would look best."""
    memory = Memory(1, window=3)
    for value in (0.1, 0.2, 0.0):
        memory.add(0, value, 0.5, 0.5)
    memory.add(1, 0.5, 0.5, 0.5)
    memory.add(1, 0.5, 0.5, 0.5)
    pulls, cost, reward, *_ = memory.rows[0]
    assert (pulls, cost, reward) == (1.0, 0.0, 0.5)


@pytest.mark.parametrize(
    ("budget", "window0", "window"),
    [(1000.0, 4.0, 333), (1000.0, 2.0, 167), (1e6, 1.0, 3717), (10.0, 1.0, 5)],
)
@pytest.mark.parametrize("policy", [LyOn, Resolve])
def test_the_window_by_hand(policy, budget, window0, window):
    assert window_and_fade(policy(window0=window0), budget) == (window, 1.0)


@given(st.floats(2.0, 1e7), st.floats(1.0, 100.0), st.sampled_from([LyOn, Resolve]))
def test_memory_grows_with_the_root_of_the_budget(budget, factor, policy):
    pulls = factor * math.sqrt(budget * math.log(budget))
    assert window_and_fade(policy(window0=factor), budget) == (math.ceil(pulls), 1.0)
    window, fade = window_and_fade(policy(discount0=factor), budget)
    assert window == 0
    assert fade == pytest.approx(1.0 - 1.0 / pulls, abs=1e-15)
    assert window_and_fade(policy(), budget) == (0, 1.0)


@pytest.mark.parametrize("policy", [LyOn, Resolve])
def test_the_setup_says_so(paper, policy):
    setups = [
        policy(**given).setup(paper.task, 1000.0)
        for given in ({}, {"window0": 4}, {"discount0": 4})
    ]
    assert [setup.window for setup in setups] == [0, 333, 0]
    assert [setup.fade for setup in setups] == pytest.approx([1.0, 1.0, 1.0 - 1.0 / 332.4569])
    assert [setup.forgets for setup in setups] == [False, True, True]
    assert not Setup((), ()).forgets


@pytest.mark.parametrize("policy", [LyOn, Resolve])
@pytest.mark.parametrize("field", ["window0", "discount0"])
def test_between_one_pull_and_ten_million(policy, field):
    unit = math.sqrt(1000.0 * math.log(1000.0))
    for pulls in (1.001, 9_990_000.5):
        window, fade = window_and_fade(policy(**{field: pulls / unit}), 1000.0)
        assert window == (math.ceil(pulls) if field == "window0" else 0)
        assert 1.0 - fade == pytest.approx(0.0 if window else 1.0 / pulls, rel=1e-6)
    for pulls, said in ((0.999, "0.999"), (1.001e7, "1.001e+07")):
        given = pulls / unit
        with pytest.raises(PolicyError) as error:
            window_and_fade(policy(**{field: given}), 1000.0)
        assert str(error.value) == (
            f"policy {policy.name}: {field} = {given!r} remembers {said} pulls at budget 1000;"
            " must be more than 1 and at most 10,000,000"
        )


@pytest.mark.parametrize("budget", [0.5, 1.0, 1.01])
@pytest.mark.parametrize("field", ["window0", "discount0"])
def test_a_budget_of_about_one_pull_is_too_small(budget, field):
    with pytest.raises(PolicyError, match=rf"^policy resolve: {field} = 2\.0 remembers [^\n]*$"):
        window_and_fade(Resolve(**{field: 2.0}), budget)


def test_a_run_refuses_it_in_one_line(paper):
    with pytest.raises(PolicyError, match=r"^policy resolve: window0 = 0\.01 remembers [^\n]*$"):
        simulate(paper, Resolve(window0=0.01), budgets=100, runs=1)
    with pytest.raises(
        PolicyError, match=r"^policy lyon: discount0 = 200000000\.0 remembers [^\n]*$"
    ):
        simulate(paper, LyOn(discount0=2e8), budgets=100, runs=1)


POSITIVE = "must be a finite number above 0, or none"


@pytest.mark.parametrize("name", ["lyon", "resolve"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("window0=-1", f"window0 = -1.0 {POSITIVE}"),
        ("window0=0", f"window0 = 0.0 {POSITIVE}"),
        ("window0=inf", f"window0 = inf {POSITIVE}"),
        ("window0=long", f"window0 = 'long' {POSITIVE}"),
        ("discount0=-0.5", f"discount0 = -0.5 {POSITIVE}"),
        ("discount0=nan", f"discount0 = nan {POSITIVE}"),
        ("discount0=slow", f"discount0 = 'slow' {POSITIVE}"),
        ("window0=4,discount0=2", "discount0 = 2.0 must be none if window0 is given"),
    ],
)
def test_parameters_are_checked(name, given, message):
    with pytest.raises(PolicyError) as error:
        parse_policy(f"{name}:{given}")
    assert str(error.value) == f"policy {name}: {message}"


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("lyon:window0=4", LyOn(window0=4.0)),
        ("lyon:delta0=2,window0=0.5", LyOn(delta0=2.0, window0=0.5)),
        ("lyon:discount0=1.5", LyOn(discount0=1.5)),
        ("resolve:window0=0.25", Resolve(window0=0.25)),
        ("resolve:risk=0.01,discount0=2", Resolve(risk=0.01, discount0=2.0)),
    ],
)
def test_the_shell_writes_it_as_it_reads_it(text, policy):
    assert parse_policy(text) == policy
    assert parse_policy(text).label == text


@pytest.mark.parametrize("backend", ["cpu", "python"])
@pytest.mark.parametrize("penalties", [0, 1])
@pytest.mark.parametrize("policy", [LyOn, Resolve])
def test_a_window_longer_than_the_run_forgets_nothing(policy, penalties, backend):
    means = [(0.4, 0.8, 0.6), (0.6, 0.6, 0.3), (0.5, 0.5, 0.4)]
    problem = bernoulli_problem([m[: 2 + penalties] for m in means], [0.8] * penalties or None)
    policies = {"all": policy(), "long": policy(window0=100), "short": policy(window0=0.3)}
    results = simulate(
        problem, policies, budgets=40, runs=6, seed=4, backend=backend, precision="double"
    )
    everything, long, short = (results[label].runs for label in policies)
    assert everything.pulls.sum(axis=-1).max() < policies["long"].setup(problem.task, 40.0).window
    assert np.array_equal(everything.pulls, long.pulls)
    assert np.array_equal(everything.reward, long.reward)
    assert np.array_equal(everything.queue, long.queue)
    assert not np.array_equal(everything.pulls, short.pulls)


@pytest.mark.parametrize(
    ("window", "fade", "learned"),
    [
        (0, 1.0, [[0], [1], [1], [0]]),
        (2, 1.0, [[0], [1], [0, 1], [1, 0]]),
        (1, 1.0, [[0], [0, 1], [1], [1, 0]]),
        (0, 0.9, [[0, 1, 2]] * 4),
    ],
)
def test_every_arm_that_a_pull_touched_is_learnt(window, fade, learned):
    memory, told = Memory(1, window, fade), []
    for arm in (0, 1, 1, 0):
        touched = remember(memory.state, memory.history, fade, arm, (0.5, 0.5, 0.5))
        told.append(touched_rows(memory.state, touched, arm))
    assert told == learned
