"""Golden trajectories: some twenty decisions each, checked by hand, replayed step by step.

A file holds a policy, its numbers and what each pull brought. Every decision and every queue must
come out as written there; the indices, or the rates promised, beside the decisions are for the
reader who checks them. A file with ``limits`` is of a choice policy: its steps have random words.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.policies.driver import new_record
from tightrope.policies import ChoicePolicy, parse_policy
from tightrope.policies.base import Setup, Statistics, advance
from tightrope.policies.parts.forgetting import remember
from tightrope.policies.state import State

FOLDER = Path(__file__).parent / "golden"
FILES = [path for path in sorted(FOLDER.glob("*.json")) if path.stem != "runs"]  # whole runs
GOLDEN = {path.stem: json.loads(path.read_text()) for path in FILES}


def seen(state):
    """The totals of a state with one penalty, as lists."""
    cost, reward, penalty = state.totals.reshape(-1, 3).T.tolist()
    return Statistics(state.pulls.tolist(), cost, reward, [[total] for total in penalty])


@pytest.mark.parametrize("name", [name for name in GOLDEN if "limits" not in GOLDEN[name]])
def test_decisions_and_queues_are_as_written(name):
    golden, policy = GOLDEN[name], parse_policy(GOLDEN[name]["policy"])
    arms, window, fade = golden["arms"], golden.get("window", 0), golden.get("fade", 1.0)
    constants = (*golden["constants"], 0.0)  # costs are not known
    setup = Setup(constants, (golden["allowance"],), golden["explore"], golden.get("terms"))
    state, history, queue, lost = new_record(State, arms, 1), np.zeros(4 * window), 0.0, 0.0
    for n, step in enumerate(golden["steps"]):
        exploring = n < setup.explore * arms
        now, totals = state.pulls.sum(), seen(state)
        arm = n % arms if exploring else policy.decide(setup, now, totals, [queue], 0.0)
        assert arm == step["arm"], f"step {n}"
        cost, _, penalty = step["outcome"]
        remember(state, history, fade, arm, step["outcome"])
        if not exploring:
            queue, lost = advance(queue, lost, setup.allowance[0], cost, penalty)
        assert queue == pytest.approx(step["queue"], abs=1e-9), f"step {n}"
        assert state.pulls.tolist() == step.get("pulls", state.pulls.tolist()), f"step {n}"


@pytest.mark.parametrize("name", [name for name in GOLDEN if "limits" in GOLDEN[name]])
def test_choices_are_as_written(name):
    golden, policy = GOLDEN[name], parse_policy(GOLDEN[name]["policy"])
    assert isinstance(policy, ChoicePolicy)
    constants, limits, budget = (*golden["constants"], 0.0), golden["limits"], golden["budget"]
    state, scratch = (
        new_record(record, golden["arms"], len(limits)) for record in (State, policy.Scratch)
    )
    state.remaining[:] = [budget, *(limit * budget for limit in limits)]
    state.limits[:] = state.remaining[1:] / budget
    policy.begin(constants, state, scratch)
    for n, step in enumerate(golden["steps"]):
        arm = policy.choose(constants, state, scratch, np.array(step["words"]))
        assert arm == step["arm"], f"step {n}"
        remember(state, np.zeros(0), 1.0, arm, step["outcome"])
        policy.learn(constants, state, scratch, arm)


def test_there_are_golden_files():
    assert all(len(golden["steps"]) >= 16 for golden in GOLDEN.values())
    assert set(GOLDEN) >= {
        "lyoff-constant",
        "lyon-constant",
        "lyon-bernoulli",
        "lyon-as-printed",
        "lyon-window",
        "resolve-one-limit",
        "resolve-two-limits",
    }
