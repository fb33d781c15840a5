"""resolve on problems that it was not made with: the arena's families at seeds kept for this.

    python -m benchmarks.families [--family safe-5 ...] [--first 101] [--seeds 10]
                                  [--policy P ...] [--budget 1000 ...] [--runs 400]
                                  [--page docs/resolve.md]

A row per family and budget, a cell per policy: regret in percent of OPT(B), the median of the
problems and the largest; the share of runs that end above a limit, on average and on the worst
problem; the share that ends more than 10 % above one. Problems on which no mixture keeps the limits
at that budget have no regret.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import page
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


def summed_up(some: Sequence[Found]) -> str:
    """A cell: one policy at one budget on all problems of a family."""
    regrets = [one.regret for one in some if one.regret is not None]
    broken, far = [one.broken for one in some], np.mean([one.far for one in some])
    regret = f"{np.median(regrets):.1f} ({max(regrets):.1f})" if regrets else "–"
    return f"{regret}, {np.mean(broken):.1%} ({max(broken):.1%}), {far:.1%}"


def table(
    families: Sequence[str],
    seeds: range,
    policies: Sequence[str] = POLICIES,
    budgets: Sequence[float] = (1000.0, 10_000.0),
    runs: int = 400,
) -> str:
    """Every family, as Markdown."""
    rows = []
    for family in families:
        made = [found(f"arena-{family}-{seed}", policies, budgets, runs) for seed in seeds]
        for g, budget in enumerate(budgets):
            places = range(g, len(policies) * len(budgets), len(budgets))
            cells = [summed_up([one[place] for one in made]) for place in places]
            rows.append([f"`arena-{family}-S`", f"{budget:,.0f}", *cells])
    return page.table(["family", "B", *(f"`{text}`" for text in policies)], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, or put it into the page's block ``families``."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--family", action="append", help="FAMILY-K; several are allowed")
    parser.add_argument("--first", type=int, default=101, help="the first seed")
    parser.add_argument("--seeds", type=int, default=10, help="how many")
    parser.add_argument("--policy", action="append")
    parser.add_argument("--budget", action="append", type=float, help="in largest costs of a pull")
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--page", type=Path)
    asked = parser.parse_args(arguments)
    text = table(
        asked.family or FAMILIES,
        range(asked.first, asked.first + asked.seeds),
        asked.policy or POLICIES,
        asked.budget or (1000.0, 10_000.0),
        asked.runs,
    )
    print(text, flush=True)
    if asked.page:
        page.write({"families": text}, asked.page)


if __name__ == "__main__":
    main()
