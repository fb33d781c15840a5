"""Numbers as arms: resolve with a smooth belief against resolve on grids of fixed arms.

    python -m benchmarks.intervals [--budget 1000 ...] [--problem step ...] [--grid 5 ...]
                                   [--steps 200000] [--csv FILE]

Six problems over numbers in [0, 1]. ``smooth`` gets the interval; ``5``, ``10``, ``20`` and ``50``
get as many equally spaced arms. For each: the reward in percent of the best stationary mixture over
the interval, its standard error, and by how much the mean penalty exceeds the limit, in percent of
the limit. ``--steps``: pulls per problem, budget and policy, in at least four runs.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tightrope import (
    Arm,
    Bernoulli,
    Constant,
    Interval,
    Limit,
    Problem,
    Resolve,
    TwoPoint,
    oracle,
    simulate,
)

__all__ = ["PROBLEMS", "Row", "measured", "on_grid", "over_interval", "save"]

GRIDS = (5, 10, 20, 50)
PRICES = 12  # equally likely prices that stand for a uniform one
SALE = 0.25  # the chance of a sale after an auction is won
FEWEST, MOST = 4, 400  # runs
SEED = 1


@dataclass(frozen=True)
class Case:
    """A problem over [0, 1]: the arm of a number, and the limit."""

    arm: Callable[[float], Arm]
    limit: Limit


def _auction(win: float, price: float, *, second: bool) -> Arm:
    """An auction that is won with a chance; a second price is uniform below the bid."""
    paid = price * (np.arange(PRICES) + 0.5) / PRICES if second else np.array([price])
    rows, weights = [(1.0, 0.0, 0.0)], [max(1.0 - win, 0.0)]
    for sale, chance in ((1.0, SALE), (0.0, 1.0 - SALE)):
        rows += [(1.0, sale, float(one)) for one in paid]
        weights += [win * chance / len(paid)] * len(paid)
    return Arm.from_rows("bid", rows, weights=weights)


def second_price(bid: float) -> Arm:
    """The best competing bid is uniform in [0, 1]."""
    return _auction(bid, bid, second=True)


def first_price(bid: float) -> Arm:
    """The chance to win is bid^1.5."""
    return _auction(bid**1.5, bid, second=False)


def pricing(price: float) -> Arm:
    """A sale earns the price; complaints grow with it."""
    sold = 1.0 / (1.0 + math.exp(9.0 * (price - 0.65)))
    return Arm("price", Constant(1), TwoPoint(0, price, sold), Bernoulli(0.01 + 0.2 * price**2))


def dose(amount: float) -> Arm:
    """The effect levels off, adverse events rise; a dose costs money."""
    effect = 0.05 + 0.75 / (1.0 + math.exp(-10.0 * (amount - 0.45)))
    adverse = 0.02 + 0.35 * amount**3
    return Arm("dose", Constant(0.3 + 0.5 * amount), Bernoulli(effect), Bernoulli(adverse))


def step(number: float) -> Arm:
    """The reward jumps at 0.62, the penalty at 0.8."""
    reward, penalty = (0.2 if number < 0.62 else 0.6), (0.05 if number < 0.8 else 0.3)
    return Arm("step", Constant(1), Bernoulli(reward), Bernoulli(penalty))


def flat(number: float) -> Arm:
    """All numbers are alike."""
    return Arm("flat", Constant(1), Bernoulli(0.4), Bernoulli(0.08))


PROBLEMS = {
    "second price": Case(second_price, Limit(1.2, per="reward")),
    "first price": Case(first_price, Limit(2.0, per="reward")),
    "pricing": Case(pricing, Limit(0.06, per="pull")),
    "dose": Case(dose, Limit(0.1, per="pull")),
    "step": Case(step, Limit(0.1, per="pull")),
    "flat": Case(flat, Limit(0.1, per="pull")),
}


def over_interval(case: Case, points: int = 101) -> Problem:
    """The problem over the interval."""
    return Problem(Interval(0.0, 1.0, "number", points), arm=case.arm, limits={"bad": case.limit})


def on_grid(case: Case, count: int) -> Problem:
    """The problem with equally spaced arms alone."""
    arms = [replace(case.arm(float(x)), name=f"{x:.4g}") for x in np.linspace(0, 1, count)]
    return Problem(arms, limits={"bad": case.limit})


@dataclass(frozen=True)
class Row:
    """What a policy's belief earned on a problem; numbers in percent."""

    problem: str
    budget: float
    belief: str
    runs: int
    earned: float
    error: float
    above: float  # the mean violation, of the limit
    above_error: float


def measured(name: str, budget: float, belief: str, steps: int) -> Row:
    """The mean over runs."""
    case = PROBLEMS[name]
    best = oracle(over_interval(case, 1001)).reward_rate
    problem = over_interval(case) if belief == "smooth" else on_grid(case, int(belief))
    runs = int(min(max(steps / budget, FEWEST), MOST))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = simulate(problem, [Resolve()], budgets=[budget], runs=runs, seed=SEED).summary()[0]
    limit = 0.01 * case.limit.number
    return Row(
        name,
        budget,
        belief,
        runs,
        100.0 * found["reward_rate"] / best,
        100.0 * found["reward_rate_se"] / best,
        found["violation"] / limit,
        found["violation_se"] / limit,
    )


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--budget", type=float, nargs="+", default=[1e3, 1e4, 1e5])
    parser.add_argument("--problem", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--grid", nargs="+", default=[str(k) for k in GRIDS])
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--csv")
    given = parser.parse_args(arguments)
    found = list(_rows(given))
    if given.csv:
        save(found, given.csv)


def save(rows: Sequence[Row], path: str) -> None:
    """A line per problem and budget: what each belief earned, its error, and its violation."""
    cells: dict[tuple[str, float], dict[str, object]]
    cells = {(row.problem, row.budget): {"runs": row.runs} for row in rows}
    for row in rows:
        numbers = {"": row.earned, " error": row.error, " above": row.above}
        named = {f"{row.belief}{what}": f"{value:.2f}" for what, value in numbers.items()}
        cells[row.problem, row.budget] |= named
    with open(path, "w", newline="", encoding="utf-8") as file:
        first = next(iter(cells.values()))
        writer = csv.DictWriter(file, ["problem", "budget", *first])
        writer.writeheader()
        for (problem, budget), found in cells.items():
            writer.writerow({"problem": problem, "budget": f"{budget:g}", **found})


def _rows(given: argparse.Namespace) -> Iterator[Row]:
    for budget in given.budget:
        for name in given.problem:
            for belief in ("smooth", *given.grid):
                row = measured(name, budget, belief, given.steps)
                earned = f"{row.earned:6.2f} +- {row.error:4.2f} % of the best"
                above = f"{row.above:+6.2f} +- {row.above_error:4.2f} % of the limit"
                print(f"{name:>13} {budget:8g} {belief:>7} {earned}, {above}", flush=True)
                yield row


if __name__ == "__main__":
    sys.exit(main())
