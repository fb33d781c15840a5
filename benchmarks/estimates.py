"""Whether estimates of the end come true: of runs with an estimate of 10 %, do 10 % end above?

python -m benchmarks.estimates [--problems 40] [--runs 10] [--features]

Random problems of three families, or tables of requests with features, each run to the end of its
budget by several policies, with an estimate at a quarter, a half and three quarters of it. Prints
rows of CSV: how many estimates are in a range, their mean in percent, and the percentage of their
runs that ended above.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.rows import print_rows
from tightrope import Controller, FullTable, Limit, Problem, parse_policy, ready_problem
from tightrope.engine.python import outcomes
from tightrope.errors import OutsideTheoryWarning
from tightrope.kernels.rng import OUTCOMES, Generator

__all__ = ["by_estimate", "looks", "main", "problems", "seeds"]

FAMILIES = ("arena-random-3", "arena-random-6", "arena-continuous-4")
POLICIES = ("resolve", "lyon-ts", "lyon")
FEATURED = ("resolve", "resolve:risk=0.05")  # those that use features, but for lyon
BUDGETS = (100.0, 400.0)
PARTS = (0.25, 0.5, 0.75)  # of the budget, when it is estimated
EDGES = (0.0, 0.02, 0.05, 0.15, 0.35, 0.65, 0.9, 1.0)


def problems(count: int) -> Iterator[Problem]:
    """So many problems, of the families in turn."""
    for number in range(count):
        yield ready_problem(f"{FAMILIES[number % len(FAMILIES)]}-{100 + number}")


def featured(count: int) -> Iterator[Problem]:
    """So many tables of 2,000 requests with three features, for three arms."""
    for number in range(count):
        random = np.random.default_rng([7, number])
        features = random.normal(size=(2000, 3))
        slopes, levels = random.normal(0.0, 0.15, (2, 3, 3)), random.uniform(0.2, 0.6, (2, 1, 3))
        chances = features @ slopes + levels
        coins = random.random(chances.shape) < chances
        outcomes = np.stack([np.ones((2000, 3)), *coins], axis=2)
        table = FullTable(["a", "b", "c"], ["bad"], outcomes, contexts=features)
        limit = float(np.median(coins[1].mean(axis=0)))
        yield Problem.from_table(table, {"bad": Limit(limit, per="pull")})


def seeds(runs: int, *case: object) -> range:
    """Those of so many runs; another case has others, so that their luck is independent."""
    first = zlib.crc32(repr(case).encode())
    return range(first, first + runs)


def looks(
    problem: Problem, label: str, budget: float, seed: int, parts: Sequence[float] = PARTS
) -> list[tuple[float, bool]]:
    """Estimates in one run, and whether it ended above the limit; of every limit."""
    controller = Controller(problem.task, parse_policy(label), budget, seed=seed)
    tables, draws, marks, found = problem.tables(), Generator(1, OUTCOMES, seed), list(parts), []
    scales = np.array(problem.scales.channels)
    while not controller.exhausted:
        if marks and controller.spent >= marks[0] * budget:
            marks.pop(0)
            found.append([one.estimate for one in controller.outlook(estimate=True).limits])
        told: Any = {}
        if problem.features is not None:  # the row that the arm draws
            rows = problem.features.rows
            told["context"] = rows[int(copy.deepcopy(draws).uniform() * len(rows))]
        arm = controller.ask(**told)
        controller.tell_row(arm, np.array(outcomes(tables, arm, draws)) * scales)
    above = [one.broken for one in controller.outlook().limits]
    return [
        (one, end) for row in found for one, end in zip(row, above, strict=True) if one is not None
    ]


def by_estimate(pairs: Iterable[tuple[float, bool]], edges: Sequence[float] = EDGES) -> Any:
    """For estimates from one edge to the next: how many, their mean, the share that ended above."""
    table = np.array(list(pairs), float)
    which = np.clip(np.searchsorted(edges, table[:, 0], side="right") - 1, 0, len(edges) - 2)
    parts = [table[which == place] for place in range(len(edges) - 1)]
    return [(len(part), *(part.mean(axis=0) if len(part) else (0.0, 0.0))) for part in parts]


def table(runs: list[list[tuple[float, bool]]]) -> Iterator[dict[str, object]]:
    """The estimates of all runs at each part of the budget, range by range."""
    for at, part in enumerate(PARTS):
        found = by_estimate([run[at] for run in runs if len(run) > at])
        for (low, high), (count, mean, above) in zip(itertools.pairwise(EDGES), found, strict=True):
            yield {
                "budget_spent_percent": 100.0 * part,
                "from_percent": 100.0 * low,
                "to_percent": 100.0 * high,
                "estimates": count,
                "mean_estimate_percent": 100.0 * float(mean),
                "ended_above_percent": 100.0 * float(above),
            }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", type=int, default=40)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--features", action="store_true")
    asked = parser.parse_args(arguments)
    warnings.simplefilter("ignore", OutsideTheoryWarning)
    runs = [
        looks(problem, label, budget, seed)
        for number, problem in enumerate((featured if asked.features else problems)(asked.problems))
        for label in (FEATURED if asked.features else POLICIES)
        for budget in BUDGETS
        for seed in seeds(asked.runs, number, label, budget)
    ]
    print_rows(table(runs))


if __name__ == "__main__":
    main()
