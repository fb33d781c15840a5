"""Whole runs of every policy, by which ``compatibility.DECISIONS`` is guarded.

    python -m tests.golden_runs      # after the number was raised: writes tests/golden/runs.json

A run goes to the end of its budget, in plain Python; that every engine makes the same runs is
tested elsewhere. ``resolve`` is compiled as well, at a larger budget.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path

import numpy as np

from tests.conftest import bernoulli_problem
from tightrope import (
    Arm,
    Bernoulli,
    Discrete,
    FullTable,
    Limit,
    Problem,
    Uniform,
    parse_policy,
    ready_problem,
    simulate,
)
from tightrope.policies import POLICIES

FILE = Path(__file__).parent / "golden" / "runs.json"
VARIANTS = [
    *POLICIES, "lyon:window0=2", "lyon:discount0=2", "resolve:risk=0.01", "resolve:window0=2",
    "resolve:discount0=2", "resolve:watch=0.01", "ts-lp:update=true", "control-budget:known=true",
]  # fmt: skip


def three():
    """Laws of several kinds, with several limits: per cost, per pull, hard in total."""
    limits = {
        "bad": Limit(0.5),
        "slow": Limit(0.4, per="pull"),
        "harm": Limit(total=12, hard=True),
    }
    uniform, coin = Uniform, Bernoulli
    arms = [
        Arm("a", uniform(0.2, 1.0), coin(0.7), [coin(0.4), uniform(0, 0.8), coin(0.2)]),
        Arm("b", coin(0.5), uniform(0, 1), [coin(0.2), coin(0.3), uniform(0, 0.2)]),
        Arm(
            "c",
            Discrete([0.1, 0.9], [0.5, 0.5]),
            coin(0.9),
            [coin(0.6), uniform(0.2, 0.4), uniform(0, 0.8)],
        ),
    ]
    return Problem(arms, limits=limits)


def with_features():
    """Rows with two features, learned costs and a limit per pull."""
    random = np.random.default_rng(1)
    rows = random.normal(size=(200, 2))
    reward = random.random((200, 3)) < 0.5 + 0.2 * np.outer(rows[:, 0], [0, 1, -1])
    penalty = random.random((200, 3)) < [0.1, 0.2, 0.5]
    cost = random.uniform(0.2, 1.0, (200, 3))
    outcomes = np.stack([cost, reward, penalty], axis=2)
    table = FullTable(["a", "b", "c"], ["bad"], outcomes, contexts=rows)
    return Problem.from_table(table, {"bad": Limit(0.2, per="pull")})


def cases():
    """Name, problem, budget, policies and options of ``simulate``."""
    one = bernoulli_problem([(0.4, 0.8, 0.6), (0.6, 0.6, 0.3), (0.5, 0.4, 0.1)], 0.8)
    python = {"backend": "python", "runs": 2}
    few = ("lyon", "resolve", "ts-lp", "primal-dual-bwk", "lyon:window0=2", "resolve:watch=0.01")
    yield "one limit", one, 60.0, VARIANTS, python
    yield "one limit, delays", one, 40.0, few, {**python, "delay": 5, "lost": 0.1}
    yield "three limits", three(), 60.0, few, python
    yield "three limits, delays", three(), 30.0, few, {**python, "delay": 3}
    compiled = (*few, "resolve:risk=0.01")
    on_cpu = {"backend": "cpu", "runs": 3}
    yield "compiled", ready_problem("paper"), 2000.0, compiled, on_cpu
    featured = ("resolve", "resolve:risk=0.01", "lyon")
    yield "features", with_features(), 60.0, featured, python
    uneven = ready_problem("arena-uneven-10-107")  # a run is late here and searches for a safe arm
    yield "compiled, uneven costs", uneven, 1000.0, ("resolve:risk=0.01",), on_cpu


def runs():
    """The runs of every case and policy: pulls of each arm, and a hash of all totals."""
    found = {}
    for case, problem, budget, labels, options in cases():
        for label in labels:
            policy = {label: parse_policy(label)}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = simulate(problem, policy, budgets=budget, seed=7, progress=False, **options)
            record = made[label].runs
            totals = np.concatenate(
                [np.ravel(getattr(record, name)) for name in ("cost", "reward", "penalty", "queue")]
            )
            text = ",".join(float(value).hex() for value in totals)
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            found[f"{case}: {label}"] = [record.pulls.tolist(), digest]
    return found


def main() -> None:
    from tightrope.compatibility import DECISIONS

    lines = [f"  {json.dumps(name)}: {json.dumps(made)}" for name, made in runs().items()]
    content = ",\n".join([f'  "decisions": {DECISIONS}', *lines])
    FILE.write_text(f"{{\n{content}\n}}\n")


if __name__ == "__main__":
    main()
