"""Runs that lock on to a wrong arm where penalties are rare: ten problems, three budgets.

python -m benchmarks.locked --runs 10000 --backend gpu

A locked run pulls an arm that breaks the limit until the end, so it ends far above the limit, by
more the larger the budget. For each problem and budget: regret as a share of OPT(B), the shares of
runs that break the limit at all and by more than 10 %, and the worst run. Where the whole allowance
is a few penalties, one penalty too many is more than 10 %; the allowance is printed beside it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from tightrope import Problem, optimum, ready_problem, simulate
from tightrope.policies import parse_policy

__all__ = ["PROBLEMS", "Locked", "main", "measured"]

FAR = 0.1  # of the limit
PROBLEMS = (
    "arena-rare",
    *(f"arena-rare-{arms}-{seed}" for arms in (3, 5, 10) for seed in (1, 2, 3)),
)


@dataclass(frozen=True)
class Locked:
    """One policy on one problem at one budget; shares are of runs."""

    problem: str
    limit: float
    policy: str
    budget: float
    runs: int
    allowance: float  # limit times budget: penalties, as they are 0 or 1
    regret_share: float  # of OPT(B)
    violation_share: float  # mean, of the limit
    broken: float
    broken_far: float
    worst: float  # violation as a share of the limit


def measured(
    name: str, problem: Problem, policies: Sequence[str], budget: float, runs: int, backend: str
) -> Iterator[Locked]:
    """One row per policy."""
    chosen = {text: parse_policy(text) for text in policies}
    results = simulate(
        problem, chosen, budgets=budget, runs=runs, seed=3, backend=backend, progress=False
    )
    limit, best = float(problem.limits[0]), optimum(problem, budget)
    for text in policies:
        found = results[text].runs
        violation = found.penalty[0, :, 0] / budget / limit - 1.0
        yield Locked(
            problem=name,
            limit=limit,
            policy=text,
            budget=budget,
            runs=runs,
            allowance=limit * budget,
            regret_share=1.0 - float(found.reward[0].mean()) / best,
            violation_share=float(violation.mean()),
            broken=float(np.mean(violation > 1e-9)),
            broken_far=float(np.mean(violation > FAR)),
            worst=float(violation.max()),
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row per problem, budget and policy."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--problem", action="append", help="a problem with one limit (ten ready ones)"
    )
    parser.add_argument("--policy", action="append", help="a policy (resolve, resolve:risk=0.01)")
    parser.add_argument("--budget", action="append", type=float, help="(10^4, 10^5, 10^6)")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    asked = parser.parse_args(arguments)
    policies = asked.policy or ["resolve", "resolve:risk=0.01"]
    for budget in asked.budget or (1e4, 1e5, 1e6):
        for name in asked.problem or PROBLEMS:
            problem = ready_problem(name)
            for row in measured(name, problem, policies, budget, asked.runs, asked.backend):
                print(json.dumps(asdict(row)) if asked.json else _line(row), flush=True)


def _line(row: Locked) -> str:
    return (
        f"{row.problem:16s} c = {row.limit:<8.3g} B = {row.budget:<8g} {row.policy:18s}"
        f" allowance {row.allowance:<8.4g} regret {row.regret_share:7.2%}"
        f" violation {row.violation_share:+8.2%} broken {row.broken:7.2%}"
        f" by more than 10 % {row.broken_far:7.2%} worst {row.worst:+7.1%}"
    )


if __name__ == "__main__":
    main()
