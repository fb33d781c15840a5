"""Every policy on every engine, on arms of every kind: plain Python's runs, to the bit.

Plain Python is the referee. The GPU's kernels run in numba's CUDA simulator, which has to be chosen
before numba is imported: ``test_gpu_simulated.py`` runs this file again in a process of its own.

Single runs and controllers share their loops, so that a policy compiles to two small functions for
one limit and two for any other number. Kernels with a policy inlined: ``kernels/test_native.py``.
"""

from __future__ import annotations

import os
from functools import cache

import numpy as np
import pytest

from tests.conftest import bernoulli_problem
from tests.problems import changing, turning, unlike
from tightrope import Controller, IndexPolicy, parse_policy, ready_problem
from tightrope.engine import cpu, gpu, python, single
from tightrope.engine.planning import plan_jobs
from tightrope.policies import POLICIES
from tightrope.testing.policies import _dollars

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
EVERY_POLICY = [
    *POLICIES,
    "lyon:window0=1",
    "lyon:discount0=1",
    "resolve:window0=1",
    "resolve:discount0=1",
]
CENT = 1.28  # largest costs of 64: told in a user's units and scaled again they are the same bits
SITUATIONS = {
    "plain": (ready_problem("paper"), 24.0),
    "changing": (changing(), 24.0),
    "no limit": (bernoulli_problem([(0.4, 0.8), (0.6, 0.6)], None), 16.0),
    "dollars, two limits": (_dollars(CENT), 320.0),
    "changing dollars": (turning(CENT), 320.0),
}
RUNS, SEED = 2, 7


ENGINES = {
    "lanes": cpu.LanesPlan,
    "single": single.plan_single,
    "python": python.plan,
    "gpu": gpu.plan,
}


def made_by(engine, job):
    return ENGINES[engine](job).run(np.arange(RUNS), np.zeros(1, np.uint8))[0]


@cache
def job_of(text, situation):
    problem, budget = SITUATIONS[situation]
    options = {"seed": SEED, "backend": "cpu", "precision": "double"}
    return plan_jobs(problem, {"p": parse_policy(text)}, [budget], RUNS, **options)["p", budget]


@cache
def referee(text, situation):
    return made_by("python", job_of(text, situation))


def engines_for(text, problem):
    """Those in this process."""
    if SIMULATED:
        return ["gpu"]
    indexed, forgets = issubclass(POLICIES[text.partition(":")[0]], IndexPolicy), ":" in text
    beside = indexed and not forgets and not problem.changes
    return ["single", "controller", *(["lanes"] if beside else [])]


def cases():
    """Policy, situation, engine; a policy's on one worker, so that kernels are compiled once."""
    for text in EVERY_POLICY:
        group = text.partition(":")[0]
        knows_laws = parse_policy(text).knows == "laws"
        for situation, (problem, _) in SITUATIONS.items():
            if knows_laws and problem.changes:
                continue  # refused: see test_changing
            for engine in engines_for(text, problem):
                name = f"{text}-{situation}-{engine}@{group}"
                yield pytest.param(text, situation, engine, id=name)


@pytest.mark.parametrize(("text", "situation", "engine"), list(cases()))
def test_it_makes_the_runs_of_plain_python(text, situation, engine):
    job, expected = job_of(text, situation), referee(text, situation)
    if engine == "controller":
        assert told_step_by_step(job).pulls == expected.pulls[0].tolist()
        return
    assert job.side_by_side or engine != "lanes"
    assert unlike(made_by(engine, job), expected) == []


def told_step_by_step(job):
    """The referee's first run, told to a controller."""
    problem, scales = job.problem, job.problem.scales
    controller = Controller(problem, job.policy, job.budget * scales.cost, seed=SEED)
    for arm, (cost, reward, *penalties), queues in python.plan(job).steps(0):
        assert controller.ask() == arm
        controller.tell(arm, cost * scales.cost, reward, penalties)
        assert controller.queues == queues
    assert controller.exhausted
    return controller


def test_every_situation_is_what_it_says():
    """Runs long enough to decide, to change, to forget."""
    for text in EVERY_POLICY:
        for situation in ("plain", "dollars, two limits"):
            job, runs = job_of(text, situation), referee(text, situation)
            assert job.setup.forgets == ("0=1" in text or text == "sw-ucb-lp")
            assert runs.pulls.sum(axis=1).min() > 2 * job.arm_count
    assert SITUATIONS["plain"][0].bernoulli() is not None
    assert SITUATIONS["changing dollars"][0].bernoulli() is None
