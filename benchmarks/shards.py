"""What it costs to split a campaign into shards that exchange what they learned every n pulls.

    python -m benchmarks.shards [--problem arena-random-5] [--shards 8] [--runs 100] [--page FILE]

Every shard has its share of the budget, and so of every allowance, and decides alone. Every n pulls
of its own it takes over what the others were told since: sums per arm, which are additive. With
n = 1 that is one campaign with its decisions in flight; "never" is as many campaigns as shards.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks import page
from tightrope import Controller, Problem, load_problem, optimum, parse_policy
from tightrope.statistics import estimate

EVERY = (1, 10, 100, 1000, None)


def run(
    problem: Problem, policy: str, budget: float, shards: int, every: int | None, seed: int
) -> tuple[float, float]:
    """Reward, and penalty beyond the limit, of one run of all shards, per unit of budget."""
    luck = np.random.default_rng(seed)
    means = np.array([[a.cost.mean, a.reward.mean, a.penalty[0].mean] for a in problem.arms])
    # Each shard's controller sees the whole: its own pulls at once, those of others at exchanges.
    whole = budget if every is not None else budget / shards
    minds = [
        Controller(problem, parse_policy(policy), whole, seed=seed * shards + one)
        for one in range(shards)
    ]
    news: list[list[tuple[int, np.ndarray]]] = [[] for _ in minds]  # not yet taken over
    spent, reward, penalty = np.zeros(shards), 0.0, 0.0
    pulls = np.zeros(shards, dtype=int)
    alive = list(range(shards))
    while alive:
        for one in list(alive):
            arm = minds[one].choose()
            outcome = (luck.random(3) < means[arm]).astype(float)
            minds[one].launch(arm)
            minds[one].tell(arm, *outcome.tolist())
            spent[one] += outcome[0]
            reward, penalty = reward + outcome[1], penalty + outcome[2]
            pulls[one] += 1
            if every is not None:
                for other in range(shards):
                    if other != one:
                        news[other].append((arm, outcome))
                if pulls[one] % every == 0:
                    for told_arm, told in news[one]:
                        minds[one].launch(told_arm)
                        minds[one].tell(told_arm, *told.tolist())
                    news[one].clear()
            if spent[one] > budget / shards:
                alive.remove(one)
    return reward, penalty / budget - float(problem.limits[0])


def column(problem: Problem, policy: str, budget: float, shards: int, runs: int) -> list[str]:
    """For each way to exchange: regret in percent, and the penalty beyond the limit."""
    best, cells = optimum(problem, budget), []
    for every in EVERY:
        found = np.array([run(problem, policy, budget, shards, every, s) for s in range(runs)])
        regret = estimate(100.0 * (1.0 - found[:, 0] / best))
        beyond = estimate(1e3 * found[:, 1])
        cells.append(f"{regret.mean:.2f} ± {regret.error:.2f}, {beyond.mean:+.1f}")
        broken = f"{100 * np.mean(found[:, 1] > 0):.0f} % of the runs end above the limit"
        print(f"{budget:g}, {every}: {cells[-1]} ± {beyond.error:.1f}, {broken}", file=sys.stderr)
    return cells


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problem", default="arena-random-5")
    parser.add_argument("--policy", default="resolve")
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--budget", type=float, nargs="+", default=[1e3, 1e4])
    parser.add_argument("--page", type=Path, help="a page with a block `shards` to write")
    options = parser.parse_args(arguments)
    problem = load_problem(options.problem)
    columns = [
        column(problem, options.policy, budget, options.shards, options.runs)
        for budget in options.budget
    ]
    names = ["never" if n is None else f"{n:,} pull{'s' * (n > 1)}" for n in EVERY]
    head = ["exchange every", *(f"budget {budget:,.0f}" for budget in options.budget)]
    text = page.table(head, zip(names, *columns, strict=True))
    if options.page:
        page.write({"shards": text}, options.page)
    print(text)


if __name__ == "__main__":
    main()
