"""Numbers as arms for requests with features: what seeing the features is worth.

    python -m benchmarks.interval_features [--policy resolve] [--budget 1000 10000]
                                           [--problem auction ...] [--grid 5 10 20]
                                           [--steps 100000] [--seed 1]

``interval`` is the policy with the interval and the features; ``blind`` is the same without the
features; ``5``, ``10`` and ``20`` is the policy with the features and as many equally spaced arms.
For each: the reward in percent of what is best if all means are known, its standard error, and by
how much the mean penalty exceeds the limit, in percent of the limit. Requests are rows of a table.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightrope import FullTable, Interval, Limit, Problem, Scales, parse_policy, simulate

__all__ = ["CASES", "best_rate", "measured", "problem_of"]

ROWS, POINTS = 30_000, 51
FEWEST, MOST = 4, 200  # runs
WHOLE, BLIND = "interval", "blind"

Means = tuple[Any, Any]  # the mean reward and penalty of each row and number, [n, K]


@dataclass(frozen=True)
class Case:
    """Requests with uniform features, and the outcomes of each row at some numbers in [0, 1].

    ``drawn``: outcomes [n, K] of features [n, d], three random numbers a row [n, 3] and numbers
    [K]. ``means``: their expectations.
    """

    features: int
    limit: Limit
    drawn: Callable[[Any, Any, Any], Means]
    means: Callable[[Any, Any], Means]


def _sale(x: Any) -> Any:
    return 0.1 + 0.5 * x[:, :1]


def _bids(x: Any, chance: Any, bids: Any) -> Means:
    """A second-price auction; the first feature tells how likely a sale is."""
    won = bids > chance[:, :1]
    return won & (chance[:, 1:2] < _sale(x)), won * chance[:, :1]


def _bid_means(x: Any, bids: Any) -> Means:
    return _sale(x) * bids, np.broadcast_to(bids**2 / 2.0, (len(x), len(bids)))


def _price_means(x: Any, prices: Any) -> Means:
    sold = 1.0 / (1.0 + np.exp(9.0 * (prices - 0.35 - 0.5 * x[:, :1])))
    return prices * sold, 0.01 + (0.1 + 0.2 * x[:, 1:2]) * prices**2


def _prices(x: Any, chance: Any, prices: Any) -> Means:
    """A price; features tell what a customer would pay and how easily they complain."""
    earned, complaint = _price_means(x, prices)
    sold = chance[:, :1] * prices < earned
    return sold * prices, chance[:, 1:2] < complaint


CASES = {
    "auction": Case(1, Limit(0.6, per="reward"), _bids, _bid_means),
    "capped": Case(1, Limit(0.06, per="pull"), _bids, _bid_means),
    "many": Case(8, Limit(0.6, per="reward"), _bids, _bid_means),
    "pricing": Case(4, Limit(0.05, per="pull"), _prices, _price_means),
}


def problem_of(case: Case, count: int | None = None, *, rows: int = ROWS, seed: int = 0) -> Problem:
    """The problem over the interval, or with so many equally spaced arms."""
    random = np.random.default_rng(seed)
    x, chance = random.random((rows, case.features)), random.random((rows, 3))
    arms: Any = Interval(0.0, 1.0, "number", POINTS)
    numbers = np.array(arms.axes[0]) if count is None else np.linspace(0.0, 1.0, count)
    outcomes = np.ones((rows, len(numbers), 3))
    outcomes[:, :, 1], outcomes[:, :, 2] = case.drawn(x, chance, numbers)
    if count is not None:
        arms = [f"{one:.4g}" for one in numbers]
    table = FullTable(arms, ["bad"], outcomes, contexts=x)
    return Problem.from_table(table, {"bad": case.limit}, scales=Scales(penalty=1))


def best_rate(case: Case, seed: int = 0) -> float:
    """The most that can be earned per pull if the means of every request are known."""
    x, numbers = np.random.default_rng(seed).random((ROWS, case.features)), np.linspace(0, 1, 201)
    reward, penalty = case.means(x, numbers)
    net = penalty - case.limit.number * (reward if case.limit.per == "reward" else 1.0)
    low, high = 1e-6, 1e4
    for _ in range(60):
        price = np.sqrt(low * high)
        best = (reward - price * net).argmax(axis=1)
        rows = np.arange(len(x))
        low, high = (price, high) if net[rows, best].mean() > 0.0 else (low, price)
    best = (reward - high * net).argmax(axis=1)
    return float(reward[rows, best].mean())


def measured(
    name: str, budget: float, arms: str, steps: int, policy: str = "resolve", seed: int = 1
) -> dict[str, float]:
    """What a policy earns, in percent of the best, and how far it is above the limit."""
    case = CASES[name]
    problem = problem_of(case, None if arms in (WHOLE, BLIND) else int(arms))
    problem = problem.blind if arms == BLIND else problem
    runs, chosen = int(min(max(steps / budget, FEWEST), MOST)), parse_policy(policy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = simulate(problem, [chosen], budgets=[budget], runs=runs, seed=seed).summary()[0]
    best, limit = 0.01 * best_rate(case), 0.01 * case.limit.number
    return {
        "earned": found["reward_rate"] / best,
        "error": found["reward_rate_se"] / best,
        "above": found["violation"] / limit,
        "above_error": found["violation_se"] / limit,
    }


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--policy", default="resolve")
    parser.add_argument("--budget", type=float, nargs="+", default=[1e3, 1e4])
    parser.add_argument("--problem", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--grid", nargs="*", default=["5", "10", "20"])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    for budget in given.budget:
        for name in given.problem:
            for arms in (WHOLE, BLIND, *given.grid):
                row = measured(name, budget, arms, given.steps, given.policy, given.seed)
                earned = f"{row['earned']:6.2f} +- {row['error']:4.2f} % of the best"
                above = f"{row['above']:+6.2f} +- {row['above_error']:4.2f} % of the limit"
                print(f"{name:>8} {budget:8g} {arms:>8} {earned}, {above}", flush=True)


if __name__ == "__main__":
    main()
