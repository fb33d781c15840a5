"""Golden trajectories: some twenty decisions each, checked by hand, replayed step by step.

A file holds a policy, its numbers and what each pull brought. Every decision and every queue must
come out as written there; the indices beside the decisions are for the reader who checks them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tightrope.policies import parse_policy
from tightrope.policies.base import Setup, Statistics, advance

FILES = sorted((Path(__file__).parent / "golden").glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_decisions_and_queues_are_as_written(path):
    golden = json.loads(path.read_text())
    policy, arms = parse_policy(golden["policy"]), golden["arms"]
    setup = Setup(
        tuple(golden["constants"]), (golden["allowance"],), golden["explore"], golden.get("terms")
    )
    seen = Statistics([0.0] * arms, [0.0] * arms, [0.0] * arms, [[0.0] for _ in range(arms)])
    queue = lost = 0.0
    assert len(golden["steps"]) >= 16
    for n, step in enumerate(golden["steps"]):
        exploring = n < setup.explore * arms
        arm = n % arms if exploring else policy.decide(setup, n, seen, [queue], 0.0)
        assert arm == step["arm"], f"step {n}"
        cost, reward, penalty = step["outcome"]
        seen.pulls[arm] += 1
        seen.cost[arm] += cost
        seen.reward[arm] += reward
        seen.penalty[arm][0] += penalty
        if not exploring:
            queue, lost = advance(queue, lost, setup.allowance[0], cost, penalty)
        assert queue == pytest.approx(step["queue"], abs=1e-9), f"step {n}"


def test_there_are_golden_files():
    assert {path.stem for path in FILES} >= {
        "lyoff-constant",
        "lyon-constant",
        "lyon-bernoulli",
        "lyon-as-printed",
    }
