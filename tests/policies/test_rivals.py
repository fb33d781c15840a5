"""Policies of other authors as the arena enters them: formulas, properties, what they are told."""

from __future__ import annotations

import math

import pytest

from tests.conftest import bernoulli_problem
from tests.policies.driver import Run
from tightrope import UCBLP
from tightrope.experiments.arena import default_policies
from tightrope.policies import parse_policy
from tightrope.policies.ucb_lp import shrinkage

PAPER = bernoulli_problem([(0.4, 0.8, 0.6), (0.6, 0.6, 0.3)], 0.8)
TWO_LIMITS = bernoulli_problem(
    [(0.4, 0.8, 0.6, 0.1), (0.6, 0.6, 0.3, 0.4), (0.5, 0.2, 0.1, 0.1)], (0.8, 0.5)
)


def test_they_enter_the_arena_with_the_settings_of_their_authors():
    entered = default_policies()
    assert len(set(entered)) == len(entered)
    assert [parse_policy(text).label for text in entered] == entered
    assert {"ts-lp", "ts-lp:update=true", "ucb-lp:epsilon=published"} <= set(entered)


# ucb-lp


def test_the_published_shrinkage_is_the_deviation_of_what_is_consumed():
    gamma = 0.25 * math.log(3 * 3 * 1e5)
    run = Run(UCBLP(epsilon="published"), TWO_LIMITS, 1e5)
    share = 3 * gamma / (0.5 * 1e5)
    assert run.constants[1] == pytest.approx(math.sqrt(share) + share * math.log(1e5))
    kept = 1.0 - run.constants[1]
    assert run.scratch.limits.tolist() == pytest.approx([0.8 * kept, 0.5 * kept])


def test_the_published_shrinkage_fades_and_never_takes_more_than_half():
    sizes = [shrinkage(2.0, 10, budget, 0.8 * budget) for budget in (1, 100, 1e3, 1e4, 1e6, 1e9)]
    assert sizes[:2] == [0.5, 0.5]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 2e-4
    assert Run(UCBLP(), PAPER, 100.0).constants[1] == 0.0  # still there for those who want none
