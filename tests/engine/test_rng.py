"""The draws: the same bits in every form, independent between runs, streams and words."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from tests.conftest import bernoulli_problem
from tightrope import simulate
from tightrope.kernels.rng import OUTCOMES, POLICY, WEYL, Generator, seed_words
from tightrope.kernels.step import next_word
from tightrope.policies import FixedArm


@pytest.mark.parametrize("stride", [1, 3])
def test_the_compiled_word_is_the_plain_one(stride):
    """Also where the four words of a state are apart, as those of lanes are."""
    draw = njit(next_word)
    for run in range(3):
        words = np.full(4 * stride + 2, 7, np.uint32)
        words[2 : 2 + 4 * stride : stride] = seed_words(7, OUTCOMES, np.arange(3))[:, run]
        plain = Generator(7, OUTCOMES, run)
        drawn = [int(draw(words, 2, stride, n * WEYL)) for n in range(1, 50)]
        assert drawn == [plain.word() for _ in range(49)]
        untouched = np.setdiff1d(np.arange(len(words)), 2 + stride * np.arange(4))
        assert (words[untouched] == 7).all()


def test_and_so_it_is_uncompiled():
    """As the CUDA simulator and a live run in plain Python draw it."""
    words, plain = seed_words(7, POLICY, np.array([5]))[:, 0], Generator(7, POLICY, 5)
    for n in range(1, 50):
        word = next_word(words, 0, 1, n * WEYL)
        assert word == plain.word()


def test_seeds_runs_and_streams_give_different_states():
    states = {
        tuple(seed_words(seed, stream, np.array([run]))[:, 0].tolist())
        for seed in (0, 1, 2**63, 2**64 - 1)
        for stream in (OUTCOMES, POLICY)
        for run in (0, 1, 2**40)
    }
    assert len(states) == 4 * 2 * 3


def test_a_seed_is_fixed_for_ever():
    """Results in old files must stay reproducible: these words may never change."""
    assert Generator(1, OUTCOMES, 0).word() == 1721064269


def test_uniforms_are_uniform_and_uncorrelated():
    generators = [Generator(3, OUTCOMES, run) for run in range(300)]
    u = np.array([[g.uniform() for _ in range(300)] for g in generators])
    cells = np.bincount((u.ravel() * 50).astype(int), minlength=50)
    chi_square = ((cells - 1800.0) ** 2 / 1800.0).sum()
    assert chi_square < 49 + 5 * np.sqrt(98)
    for shift in (1, 2, 3, 4):
        within = np.corrcoef(u[:, shift:].ravel(), u[:, :-shift].ravel())[0, 1]
        between = np.corrcoef(u[shift:].ravel(), u[:-shift].ravel())[0, 1]
        assert abs(within) < 5 / 300
        assert abs(between) < 5 / 300


def test_bernoulli_draws_have_their_means_and_no_correlation(paper):
    runs = simulate(paper, FixedArm(), budgets=2000, runs=512, seed=8)["fixed-arm"].runs[0]
    pulls = runs.pulls[:, 0].sum()
    for total, p in ((runs.cost, 0.4), (runs.reward, 0.8), (runs.penalty[:, 0], 0.6)):
        error = np.sqrt(p * (1 - p) / pulls)
        assert abs(total.sum() / pulls - p) < 5 * error + 1 / 2000
    # Over runs, reward given the pulls must not go with penalty given the pulls.
    r = runs.reward - 0.8 * runs.pulls[:, 0]
    y = runs.penalty[:, 0] - 0.6 * runs.pulls[:, 0]
    assert abs(np.corrcoef(r, y)[0, 1]) < 5 / np.sqrt(512)


def test_probability_zero_and_one_are_exact():
    problem = bernoulli_problem([(1.0, 1.0, 0.0)], 0.5)
    runs = simulate(problem, FixedArm(), budgets=5000, runs=200)["fixed-arm"].runs[0]
    assert (runs.pulls == 5001).all()
    assert (runs.reward == 5001).all()
    assert (runs.penalty == 0).all()


@pytest.mark.parametrize("precision", ["single", "double"])
def test_policies_face_common_random_numbers(paper, precision):
    """The n-th pull meets the n-th draw: a larger budget only goes on from where one ended."""
    a = simulate(paper, {"a": FixedArm(1)}, budgets=50, runs=10, precision=precision)["a"].runs
    b = simulate(paper, {"b": FixedArm(1)}, budgets=[50, 80], runs=10, precision=precision)[
        "b"
    ].runs
    assert np.array_equal(a.reward[0], b.reward[0])
    assert (b.reward[1] >= b.reward[0]).all()
