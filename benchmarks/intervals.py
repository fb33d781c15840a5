"""Numbers as arms: a policy over an interval against the same policy on grids of fixed arms.

    python -m benchmarks.intervals [--policy resolve] [--budget 1000 ...] [--problem step ...]
                                   [--grid 5 ...] [--steps 200000] [--csv FILE]
    python -m benchmarks.intervals --problem campaign --grid 3 5 7    # two numbers
    python -m benchmarks.intervals --problem segments     # requests with types
    python -m benchmarks.intervals --error                # what the 101 points miss
    python -m benchmarks.intervals --points 50 100 200 --grid   # finer points
    python -m benchmarks.intervals --coverage             # of the errors of a fit to a log

Six problems over numbers in [0, 1], one (``wide``) in a small part of them, one over two numbers,
and one with four types of requests.
``interval`` is the policy with the interval (or the box), ``100 points`` with so many points of a
side; ``5``, ``10``, ``20`` and ``50`` is the policy with as many equally spaced arms along a side.
For each: the reward in percent of the best stationary mixture over the interval, its standard
error, and by how much the mean penalty exceeds the limit, in percent of the limit.
``--steps``: pulls per problem, budget and policy, in at least four runs.
"""

from __future__ import annotations

import argparse
import csv
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from tightrope import (
    Arm,
    Bernoulli,
    Constant,
    Interval,
    Limit,
    Problem,
    TwoPoint,
    oracle,
    parse_policy,
    simulate,
)
from tightrope.data.log import Log
from tightrope.data.points import over_points
from tightrope.optimum.pi_star import oracle_of_arms
from tightrope.problem import Box
from tightrope.statistics import NORMAL_95

__all__ = ["PROBLEMS", "Row", "measured", "on_grid", "over_interval", "save"]

WHOLE = "interval"  # the policy with the interval, in tables
POINTS = " points"  # and with so many points

GRIDS = (5, 10, 20, 50)
PRICES = 12  # equally likely prices that stand for a uniform one
SALE = 0.25  # the chance of a sale after an auction is won
FEWEST, MOST = 4, 400  # runs
SEED = 1
LOGS, LOG_RUNS = (500, 5000, 50_000), 40


@dataclass(frozen=True)
class Case:
    """A problem over [0, 1], or over two such numbers: the arm of a number, and the limit.

    With ``types``, how often each comes, the arm is for the type that is its last argument.
    """

    arm: Callable[..., Arm]
    limit: Limit
    sides: int = 1
    types: Mapping[str, float] | None = None

    def of(self, made: Callable[[Callable[..., Arm]], Any]) -> Any:
        """What is made of the arm; by type where there are types."""
        if self.types is None:
            return made(self.arm)
        return {name: made(lambda *x, of=name: self.arm(*x, of)) for name in self.types}


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


def wide(number: float) -> Arm:
    """As pricing, all of it in an eleventh of the interval."""
    return pricing(min(11.0 * number, 1.0))


def campaign(price: float, effort: float) -> Arm:
    """As pricing; more effort sells more, up to a point, and annoys."""
    sold = (0.3 + 1.4 * effort * (1.0 - 0.5 * effort)) / (1.0 + math.exp(9.0 * (price - 0.65)))
    complaint = 0.01 + 0.15 * price**2 + 0.1 * effort**2
    return Arm("both", Constant(1), TwoPoint(0, price, sold), Bernoulli(complaint))


def segment(price: float, name: str) -> Arm:
    """As pricing; segments have other prices at which half of them buy, and complain otherwise."""
    half, annoyed = SEGMENTS[name]
    sold = 1.0 / (1.0 + math.exp(9.0 * (price - half)))
    complaint = Bernoulli(0.01 + annoyed * price**2)
    return Arm("price", Constant(1), TwoPoint(0, price, sold), complaint)


SEGMENTS = {
    "student": (0.4, 0.3),
    "family": (0.55, 0.2),
    "single": (0.7, 0.15),
    "firm": (0.85, 0.1),
}

PROBLEMS = {
    "second price": Case(second_price, Limit(1.2, per="reward")),
    "first price": Case(first_price, Limit(2.0, per="reward")),
    "pricing": Case(pricing, Limit(0.06, per="pull")),
    "dose": Case(dose, Limit(0.1, per="pull")),
    "step": Case(step, Limit(0.1, per="pull")),
    "flat": Case(flat, Limit(0.1, per="pull")),
}
TOO_WIDE = {"wide": Case(wide, Limit(0.06, per="pull"))}
IN_A_BOX = {"campaign": Case(campaign, Limit(0.06, per="pull"), sides=2)}
SHARES = {"student": 4, "family": 3, "single": 2, "firm": 1}
WITH_TYPES = {"segments": Case(segment, Limit(0.04, per="pull"), types=SHARES)}
CASES = PROBLEMS | TOO_WIDE | IN_A_BOX | WITH_TYPES


def over_interval(case: Case, points: int | None = None) -> Problem:
    """The problem over the interval, or over the square."""
    space: Interval | Box = Interval(0.0, 1.0, "number", points)
    if case.sides == 2:
        space = Box({"price": (0.0, 1.0), "effort": (0.0, 1.0)}, points)
    arm = case.of(lambda arm: arm)
    return Problem(space, arm=arm, limits={"bad": case.limit}, contexts=case.types)


def on_grid(case: Case, count: int) -> Problem:
    """The problem with equally spaced arms alone, so many along a side."""
    places = list(product(np.linspace(0, 1, count).tolist(), repeat=case.sides))
    names = [", ".join(f"{one:.4g}" for one in x) for x in places]
    named = list(zip(places, names, strict=True))
    arms = case.of(lambda arm: [replace(arm(*x), name=name) for x, name in named])
    return Problem(arms, limits={"bad": case.limit}, contexts=case.types)


@cache
def best_rate(name: str) -> float:
    """The reward rate of the best mixture over the interval."""
    return oracle(over_interval(CASES[name])).reward_rate


@dataclass(frozen=True)
class Row:
    """What a policy earned on a problem; numbers in percent."""

    problem: str
    budget: float
    arms: str
    runs: int
    earned: float
    error: float
    above: float  # the mean violation, of the limit
    above_error: float


def measured(name: str, budget: float, arms: str, steps: int, policy: str = "resolve") -> Row:
    """The mean over runs."""
    case, best = CASES[name], best_rate(name)
    if arms == WHOLE or arms.endswith(POINTS):
        problem = over_interval(case, None if arms == WHOLE else int(arms.removesuffix(POINTS)))
    else:
        problem = on_grid(case, int(arms))
    runs, chosen = int(min(max(steps / budget, FEWEST), MOST)), parse_policy(policy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = simulate(problem, [chosen], budgets=[budget], runs=runs, seed=SEED).summary()[0]
    limit = 0.01 * case.limit.number
    return Row(
        name,
        budget,
        arms,
        runs,
        100.0 * found["reward_rate"] / best,
        100.0 * found["reward_rate_se"] / best,
        found["violation"] / limit,
        found["violation_se"] / limit,
    )


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--policy", default="resolve")
    parser.add_argument("--budget", type=float, nargs="+", default=[1e3, 1e4, 1e5])
    parser.add_argument("--problem", nargs="+", default=list(PROBLEMS), choices=list(CASES))
    parser.add_argument("--grid", nargs="*", default=[str(k) for k in GRIDS])
    parser.add_argument("--points", nargs="+", type=int, default=[])
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--csv")
    parser.add_argument("--error", action="store_true")
    parser.add_argument("--coverage", action="store_true")
    given = parser.parse_args(arguments)
    if given.coverage:
        _print_coverage(given.problem)
        return
    if given.error:
        _print_errors(given.problem)
        return
    found = list(_rows(given))
    if given.csv:
        save(found, given.csv)


def save(rows: Sequence[Row], path: str) -> None:
    """A line per problem and budget: what each earned, how far above the limit, and the errors."""
    cells: dict[tuple[str, float], dict[str, object]]
    cells = {(row.problem, row.budget): {"runs": row.runs} for row in rows}
    for row in rows:
        numbers = {"": row.earned, " error": row.error}
        numbers |= {" above": row.above, " above error": row.above_error}
        named = {f"{row.arms}{what}": f"{value:.2f}" for what, value in numbers.items()}
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
            whole = [f"{one}{POINTS}" for one in given.points] or [WHOLE]
            for arms in (*whole, *given.grid):
                row = measured(name, budget, arms, given.steps, given.policy)
                earned = f"{row.earned:6.2f} +- {row.error:4.2f} % of the best"
                above = f"{row.above:+6.2f} +- {row.above_error:4.2f} % of the limit"
                print(f"{name:>13} {budget:8g} {arms:>10} {earned}, {above}", flush=True)
                yield row


def _print_errors(names: Sequence[str]) -> None:
    """What the default grid's points miss of the best mixture of any numbers, and its error."""
    for name in names:
        problem = over_interval(CASES[name])
        points, found = oracle_of_arms(problem).reward_rate, oracle(problem)
        missed = 100.0 * (1.0 - points / found.reward_rate)
        bound = 100.0 * (found.error or 0.0) / found.reward_rate
        print(f"{name:>13} misses {missed:.4f} % of the best, which is exact to {bound:.1e} %")


def _print_coverage(names: Sequence[str]) -> None:
    """At how many numbers the 95 % errors of a fit hold the mean of a reward of 0 or 1."""
    space = Interval(0.0, 1.0, "number")
    for name in names:
        means = np.array([arm.reward.mean for arm in over_interval(CASES[name]).arms])
        for rows in LOGS:
            held = [_covered(space, means, rows, seed) for seed in range(LOG_RUNS)]
            print(f"{name:>13} {rows:6d} rows: {100.0 * np.mean(held):5.1f} %", flush=True)


def _covered(space: Interval, means: Any, rows: int, seed: int) -> float:
    """The share of the numbers at which the errors of a fit hold the mean."""
    random, numbers = np.random.default_rng(seed), np.array(space.axes[0])
    places = random.integers(0, len(means), rows)
    reward = (random.random(rows) < means[places]).astype(float)
    outcomes = np.array([np.ones(rows), reward])
    log = over_points(Log(space.arms, (), places, outcomes, space=space))
    counts, found = log.counts, np.bincount(log.chosen, reward) / log.counts
    variance = np.maximum(found * (1.0 - found), 1.0 / counts) / counts
    at = [float(one) for one in log.arms]
    shares = np.array([np.interp(numbers, at, one) for one in np.eye(len(at))]).T
    away = np.abs(shares @ found - means)
    return float((away <= NORMAL_95 * np.sqrt(shares**2 @ variance)).mean())


if __name__ == "__main__":
    main()
