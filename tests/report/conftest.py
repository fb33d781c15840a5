from __future__ import annotations

import pytest

from tests.conftest import bernoulli_problem
from tightrope import LyOff, LyOn, Results, Stationary, simulate
from tightrope.errors import InfeasibleLimitsWarning
from tightrope.policies import UCBBwI

POLICIES = [LyOff(), LyOn(), Stationary()]
FEW = {"runs": 16, "backend": "python", "progress": False}  # spares a kernel for each shape


@pytest.fixture(scope="session")
def one_limit(paper) -> Results:
    return simulate(paper, POLICIES, budgets=[50, 200, 2000], runs=64, progress=False)


@pytest.fixture(scope="session")
def no_limit() -> Results:
    problem = bernoulli_problem([(0.4, 0.8), (0.6, 0.6)], None)
    return simulate(problem, UCBBwI(), budgets=[50, 100], **FEW)


@pytest.fixture(scope="session")
def two_limits() -> Results:
    arms = [(0.4, 0.8, 0.6, 0.1), (0.6, 0.6, 0.3, 0.5), (0.5, 0.2, 0.1, 0.1)]
    problem = bernoulli_problem(arms, (0.8, 0.6))
    return simulate(problem, POLICIES, budgets=[100], **FEW)


@pytest.fixture(scope="session")
def many_arms() -> Results:
    problem = bernoulli_problem([(0.4, 0.1 * k, 0.05 * k) for k in range(1, 10)], 0.8)
    return simulate(problem, POLICIES, budgets=[50, 100], **FEW)


@pytest.fixture(scope="session")
def one_run(paper) -> Results:
    return simulate(paper, POLICIES, budgets=[100], runs=1, progress=False)


@pytest.fixture(scope="session")
def infeasible() -> Results:
    problem = bernoulli_problem([(0.4, 0.8, 0.6), (0.6, 0.6, 0.9)], 0.1)
    with pytest.warns(InfeasibleLimitsWarning):
        return simulate(problem, UCBBwI(), budgets=[50, 100], **FEW)
