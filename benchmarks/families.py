"""resolve on problems that it was not made with: the arena's families at seeds kept for this.

    python -m benchmarks.families [--family safe-5 ...] [--first 101] [--seeds 10]
                                  [--policy P ...] [--budget 1000 ...] [--runs 400]

Prints a row of CSV per family, budget and policy, all in percent: regret of OPT(B), the median of
the problems and the largest; the runs that end above a limit, on average and on the worst problem;
the runs that end more than 10 % above one. Problems on which no mixture keeps the limits at that
budget have no regret.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.rows import print_rows
from tightrope import parse_policy, ready_problem, simulate

__all__ = ["FAMILIES", "main", "summed_up", "table"]

FAMILIES = (
    *("slim-3", "slim-8", "safe-5", "safe-20", "rare-5", "rare-10", "small-5", "small-10"),
    *("uneven-5", "uneven-10", "apart-4", "apart-8", "near-6", "mixture-4", "random-5"),
)
POLICIES = ("resolve", "resolve:risk=0.01", "ts-lp:update=true", "lyon-ts")
FAR = 0.1  # of the limit


@dataclass(frozen=True)
class Found:
    """One policy on one problem at one budget."""

    regret: float | None  # percent of OPT(B)
    broken: float  # shares of runs
    far: float


def found(name: str, policies: Sequence[str], budgets: Sequence[float], runs: int) -> list[Found]:
    """The figures of a problem, policy by policy and, for each, budget by budget."""
    problem = ready_problem(name)
    results = simulate(
        problem,
        {text: parse_policy(text) for text in policies},
        budgets=[budget * problem.scales.cost for budget in budgets],
        runs=runs,
        seed=1,
        progress=False,
    )
    made = []
    for place, row in enumerate(results.rows()):
        penalty = results[row.policy].runs.penalty[place % len(budgets)]
        over = (penalty / row.budget / np.array(problem.limits) - 1.0).max(axis=-1)
        regret = None
        if row.regret is not None:
            best = row.reward_rate.mean * row.budget + row.regret.mean
            regret = 100.0 * row.regret.mean / best
        made.append(Found(regret, float(np.mean(over > 1e-9)), float(np.mean(over > FAR))))
    return made


def summed_up(some: Sequence[Found]) -> dict[str, float | None]:
    """One policy at one budget on all problems of a family."""
    regrets = [one.regret for one in some if one.regret is not None]
    broken = [100.0 * one.broken for one in some]
    return {
        "regret_percent": float(np.median(regrets)) if regrets else None,
        "worst_regret_percent": max(regrets, default=None),
        "broken_percent": float(np.mean(broken)),
        "worst_broken_percent": max(broken),
        "far_percent": 100.0 * float(np.mean([one.far for one in some])),
    }


def table(
    families: Sequence[str],
    seeds: range,
    policies: Sequence[str] = POLICIES,
    budgets: Sequence[float] = (1000.0, 10_000.0),
    runs: int = 400,
) -> Iterator[dict[str, object]]:
    """Every family at every budget, policy by policy."""
    for family in families:
        made = [found(f"arena-{family}-{seed}", policies, budgets, runs) for seed in seeds]
        for g, budget in enumerate(budgets):
            for p, policy in enumerate(policies):
                figures = summed_up([one[p * len(budgets) + g] for one in made])
                yield {"family": family, "budget": budget, "policy": policy, **figures}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--family", action="append", help="FAMILY-K; several are allowed")
    parser.add_argument("--first", type=int, default=101, help="the first seed")
    parser.add_argument("--seeds", type=int, default=10, help="how many")
    parser.add_argument("--policy", action="append")
    parser.add_argument("--budget", action="append", type=float, help="in largest costs of a pull")
    parser.add_argument("--runs", type=int, default=400)
    asked = parser.parse_args(arguments)
    rows = table(
        asked.family or FAMILIES,
        range(asked.first, asked.first + asked.seeds),
        asked.policy or POLICIES,
        asked.budget or (1000.0, 10_000.0),
        asked.runs,
    )
    print_rows(rows)


if __name__ == "__main__":
    main()
