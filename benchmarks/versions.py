"""Compare two versions of tightrope: nanoseconds per step and per decision, and their ratio.

    git worktree add ../other v0.1.0            # or any other checkout
    python -m benchmarks.versions ../other/src [--repeats 3]

The versions run in turn. Only calls that both have are timed: ``simulate`` on one thread and
``Controller``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

CASES = [
    ("lyon", 2, 3e4, 512),
    ("lyon", 6, 3e4, 256),
    ("lyon", 10, 3e4, 256),
    ("lyon", 100, 3e4, 64),
    ("lyon", 1000, 1e4, 64),
    ("lyoff", 2, 3e4, 512),
    ("lyoff", 10, 3e4, 256),
    ("lyon:window0=2", 2, 1e4, 16),
    ("resolve", 2, 1e4, 8),
    ("resolve", 10, 1e4, 4),
    ("resolve", 50, 3e3, 4),
    ("ts-lp", 2, 1e3, 32),
]
LIVE = [("lyon", 2), ("lyon", 100), ("lyon:window0=0.1", 2), ("resolve", 2), ("resolve", 10)]
TELLS = 3000


def measure() -> dict[str, float]:
    """All timings in nanoseconds, of the version that this process imports."""
    from tightrope import Controller, Problem, parse_policy, ready_problem, simulate

    warnings.simplefilter("ignore")

    def problem(arms: int):
        if arms <= 100:
            return ready_problem("paper" if arms == 2 else f"paper-arms-{arms}")
        means = np.random.default_rng(1).uniform(0.1, 0.9, (3, arms))
        return Problem.from_bernoulli(*means, limit=0.8)

    found = {}
    for text, arms, budget, runs in CASES:
        for _ in range(4):
            results = simulate(
                problem(arms),
                {"": parse_policy(text)},
                budgets=budget,
                runs=runs,
                threads=1,
                backend="cpu",
                progress=False,
            )
            record = results[""]
            taken = 1e9 * record.seconds[0] / int(record.runs.pulls.sum())
            name = f"{text}, K = {arms}: a step"
            found[name] = min(found.get(name, taken), taken)
    for text, arms in LIVE:
        controller = Controller(problem(arms), parse_policy(text), 1e9)
        for _ in range(4):
            start = time.perf_counter()
            for _ in range(TELLS):
                controller.tell(controller.ask(), 1.0, 0.5, 0.3)
            taken = 1e9 * (time.perf_counter() - start) / TELLS
            name = f"{text}, K = {arms}: ask and tell"
            found[name] = min(found.get(name, taken), taken)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="the src folder of the other version")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    here = Path(__file__).parents[1] / "src"
    best: dict[Path, dict[str, float]] = {options.other.resolve(): {}, here.resolve(): {}}
    for _ in range(options.repeats):
        for source, rows in best.items():
            text = subprocess.run(
                [sys.executable, __file__, "--measure"],
                env={**os.environ, "PYTHONPATH": str(source)},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for name, taken in json.loads(text.splitlines()[-1]).items():
                rows[name] = min(rows.get(name, taken), taken)
    old, new = best.values()
    print("| | other | this | ratio |\n| --- | --- | --- | --- |")
    for name, taken in new.items():
        print(f"| {name} | {old[name]:.4g} | {taken:.4g} | {taken / old[name]:.2f} |")


if __name__ == "__main__":
    if sys.argv[1:] == ["--measure"]:
        print(json.dumps(measure()))
    else:
        main()
