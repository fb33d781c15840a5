"""The functions of a step, compiled and as they stand, against plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from tests.problems import changing, turning
from tightrope import LyOn, ready_problem
from tightrope.compiled.functions import compile_function
from tightrope.engine.laws import phase_laws
from tightrope.engine.python import outcomes
from tightrope.kernels.rng import OUTCOMES, WEYL, Generator, seed_words
from tightrope.kernels.step import Target, coin_of, next_word, uniform_of
from tightrope.policies.base import advance

PAPER = ready_problem("paper")
PARTS = {
    "compiled": lambda function, dtype=None: compile_function(function, dtype),
    "plain": lambda function, dtype=None: function,
}


@pytest.fixture(params=PARTS)
def part(request):
    return PARTS[request.param]


def target(part, penalties=1):
    return Target(LyOn, penalties, np.float64, part)


def test_uniforms_and_coins_are_those_of_the_generator(part):
    words, draw = seed_words(3, OUTCOMES, np.array([4]))[:, 0], part(next_word)
    uniform, coin = part(uniform_of), part(coin_of)
    for_uniforms, for_coins = (Generator(3, OUTCOMES, 4) for _ in range(2))
    for n in range(1, 60):
        word = draw(words, 0, 1, n * WEYL)
        assert uniform(word) == for_uniforms.uniform()
        assert coin(word) == for_coins.coin()


@pytest.mark.parametrize("stride", [1, 5])
@pytest.mark.parametrize("problem", [changing(), turning()], ids=["coins", "cells"])
def test_draws_are_those_of_plain_python(part, problem, stride):
    """For every arm in every phase, wherever a run's numbers stand."""
    made, channels = target(part, problem.penalty_count), 2 + problem.penalty_count
    draw = made.draw_bits() if problem.bernoulli() is not None else made.draw_cells()
    law, plain = phase_laws(problem), Generator(9, OUTCOMES, 2)
    words, drawn = np.zeros(4 * stride + 1, np.uint32), np.full(channels * stride + 1, 7.0)
    words[1::stride] = seed_words(9, OUTCOMES, np.array([2]))[:, 0]
    step = 0
    for phase, (_, _, arms) in enumerate(problem.phases):
        tables = arms.tables()
        for arm in list(range(problem.arm_count)) * 20:
            row, weyl = (phase * problem.arm_count + arm) * channels, step * channels * WEYL
            draw(drawn, 1, stride, words, 1, stride, weyl, law, arm, row, 1.0, channels)
            assert drawn[1::stride].tolist() == outcomes(tables, arm, plain)
            step += 1
    assert drawn[0] == 7.0
    assert words[0] == 0


def test_nothing_is_drawn_for_a_run_that_is_done(part):
    """But words are: lanes go on side by side."""
    words, before = seed_words(9, OUTCOMES, np.array([2]))[:, 0], None
    before, drawn = words.copy(), np.full(3, 7.0)
    target(part).draw_bits()(drawn, 0, 1, words, 0, 1, 0, phase_laws(PAPER), 0, 0, 0.0, 3)
    assert drawn.tolist() == [0.0, 0.0, 0.0]
    assert (words != before).any()


@pytest.mark.parametrize("stride", [1, 3])
def test_a_pull_is_learned_as_the_policy_says(part, stride):
    learn, constants = target(part, 2).learn(), (10.0, 1.0, 4.0, 0.0)
    totals, terms = np.zeros(5 * stride), np.zeros(6 * stride)
    pulls = np.random.default_rng(2).uniform(0, 1, (6, 4))
    for outcome in pulls:
        learn(totals, 0, stride, terms, 0, stride, 0, outcome, 0, 1, 1.0, constants, constants)
    sums = [sum(column) for column in pulls.T.tolist()]
    assert totals[::stride].tolist() == [6.0, *sums]
    cost, reward, *penalties = sums
    expected = [
        *LyOn.reward_terms(constants, 6.0, cost, reward),
        *LyOn.penalty_terms(constants, 6.0, cost, penalties[0]),
        *LyOn.penalty_terms(constants, 6.0, cost, penalties[1]),
    ]
    assert terms[::stride].tolist() == expected


@pytest.mark.parametrize("stride", [1, 3])
def test_queues_are_settled(part, stride):
    """Rows: queues, what rounding lost, the largest so far."""
    settle, allowance = target(part, 2).settle(), np.array([0.0, 0.3, 0.5])
    run, queues, lost, largest = np.zeros(6 * stride), [0.0] * 2, [0.0] * 2, [0.0] * 2
    for outcome in np.random.default_rng(2).uniform(0, 1, (30, 4)):
        settle(run, 0, stride, allowance, 1, outcome, 0, 1, 1.0, 2, (0.0,))
        for m in range(2):
            queues[m], lost[m] = advance(
                queues[m], lost[m], allowance[1 + m], outcome[0], outcome[2 + m]
            )
            largest[m] = max(largest[m], queues[m])
        assert run[::stride].tolist() == [*queues, *lost, *largest]


def test_the_index_weighs_penalties_by_queues(part):
    index, constants = target(part, 2).index(), (10.0, 1.0, 4.0, 0.0)
    terms, queues = np.linspace(0.1, 0.9, 6), np.array([0.0, 3.0, 2.0])
    found = index(terms, 0, 1, queues, 1, 1, constants, 1.5, 0.0, 1.0, 2)
    reward = LyOn.reward_index(constants, 1.5, 0.0, 1.0, *terms[:2])
    first, second = (LyOn.penalty_index(constants, 1.5, *terms[k : k + 2]) for k in (2, 4))
    assert found == reward + 3.0 * first + 2.0 * second
