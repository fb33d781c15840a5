"""Steps per second of policies that use features, on one core.

    python -m benchmarks.features [--policy resolve:risk=0.01] [--features 26] [--arms 3]
                                  [--budget 2000 50000]

Rows of a table with 2,000 requests are drawn. Costs are known; rewards and one penalty are learned.
Seconds are CPU time, without compiling.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tightrope import FullTable, Problem, parse_policy
from tightrope.engine.planning import plan_jobs
from tightrope.engine.single import plan_single

__all__ = ["main", "problem", "speed"]

ROWS, STEPS = 2000, 20_000


def problem(features: int, arms: int) -> Problem:
    """Rewards are linear in the features; the logarithm of the usual penalty is."""
    random = np.random.default_rng(0)
    seen = random.normal(size=(ROWS, features))
    slopes = random.normal(size=(features, arms)) * 0.25 / features**0.5
    noise, size = random.normal(size=(2, ROWS, arms)) * 0.1, 0.02 + 0.03 * np.arange(arms)
    reward = 0.4 + 0.1 * np.arange(arms) + seen @ slopes + noise[0]
    penalty = size * np.exp(0.5 * seen[:, :1]) * random.exponential(size=(ROWS, arms))
    outcomes = np.stack([np.ones((ROWS, arms)), reward, penalty], axis=2).clip(0.0, 1.0)
    names = [f"arm {arm + 1}" for arm in range(arms)]
    table = FullTable(names, ["dollars"], outcomes, contexts=seen)
    known: Any = {"costs": 1.0}
    return replace(Problem.from_table(table, {"dollars": "0.05 per pull"}), **known)


def speed(made: Problem, policy: str, budget: float) -> float:
    """Steps per second of CPU time."""
    given = {policy: parse_policy(policy)}
    (job,) = plan_jobs(made, given, [budget], 1, seed=0, backend="cpu").values()
    plan, runs = plan_single(job), np.arange(max(1, round(STEPS / budget)))
    plan.compile()
    start = time.process_time()
    found, _ = plan.run(runs, np.zeros(1, np.uint8))
    assert found is not None
    return float(found.pulls.sum()) / (time.process_time() - start)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each budget."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--policy", default="resolve:risk=0.01")
    parser.add_argument("--features", type=int, default=26)
    parser.add_argument("--arms", type=int, default=3)
    parser.add_argument("--budget", type=float, nargs="+", default=[2000.0, 50_000.0])
    options = parser.parse_args(arguments)
    made = problem(options.features, options.arms)
    for budget in options.budget:
        print(f"budget {budget:8,.0f}: {speed(made, options.policy, budget):11,.0f} steps/s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
