"""How often resolve breaks a limit where a risk is asked for and no safe arm is declared.

    python -m benchmarks.risk [--half train|fresh] [--family near ...] [--g 2.5 ...]
                              [--policy P ...] [--runs 2000] [--joint together|apart]
    python -m benchmarks.risk --half fresh --csv       # the problems with one limit, as CSV
    python -m benchmarks.risk --half fresh --asked     # risks at the g that each needs, as CSV

A cell is a problem of coins at a budget: a family, g and a seed. g = slack sqrt(A / K), with slack
how far the safest arm is below the limit, A the penalties allowed (``penalties_allowed``, by the
safest arm's means) and K the arms. Arms are shuffled: each of ``SHUFFLES`` orders has an equal part
of the runs. For each cell and policy: the share of runs that end above the limit with its 95 %
interval, the share above by more than 5 %, regret in percent of OPT(B). The yardstick, for at most
``FEW`` arms with one limit: a player who knows the distributions but not which arm has which, and
pulls the arm with the best chance to keep the limit, if nothing else is pulled from then on.

``--joint``: the cost and the penalties of a pull come ``together`` as often as their means allow,
or ``apart``; otherwise they are independent. The means, and with them g, stay the same.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations, product
from random import Random
from statistics import NormalDist

import numpy as np

from benchmarks.rows import print_rows
from tightrope import Arm, Bernoulli, Limit, Problem, optimum, parse_policy, simulate
from tightrope.errors import RiskWarning
from tightrope.policies.aim import Usual, penalties_allowed
from tightrope.results import violations

__all__ = ["Cell", "Found", "cells", "main", "measured", "yardstick"]

SHUFFLES = 4
LEVELS = (1.5, 2.0, 2.5, 3.5)  # of g
FAR = 0.05  # of the limit
FEW = 3  # arms that the yardstick permutes
NEEDED = {0.001: 3.16, 0.01: 2.5, 0.05: 1.91, 0.1: 1.6, 0.2: 1.22}  # g, by the risk
HALVES = {"train": (1, 2), "fresh": (101, 102)}  # seeds

INDEPENDENT, JOINTS = "independent", ("together", "apart")

Means = tuple[float, ...]  # of an arm: cost, reward, penalties
Draw = Callable[[float, float], float]  # uniform between two numbers


@dataclass(frozen=True)
class Cell:
    """A problem at a budget."""

    family: str
    seed: int
    g: float
    limit: Limit
    means: tuple[Means, ...]
    budget: float
    joint: str = field(default=INDEPENDENT, repr=False)

    def problem(self, order: Sequence[int]) -> Problem:
        """The problem with its arms in this order."""
        arms = [_arm(f"arm {k}", self.means[one], self.joint) for k, one in enumerate(order, 1)]
        return Problem(arms, limits={f"penalty {m}": self.limit for m in range(self.limits)})

    @property
    def limits(self) -> int:
        """How many limits there are, all with the same number."""
        return len(self.means[0]) - 2


def _arm(name: str, means: Means, joint: str) -> Arm:
    """An arm of coins."""
    if joint == INDEPENDENT:
        cost, reward, *penalties = map(Bernoulli, means)
        return Arm(name, cost, reward, penalties)
    rows = [row for row in product((0, 1), repeat=len(means)) if _weight(row, means, joint)]
    return Arm.from_rows(name, rows, weights=[_weight(row, means, joint) for row in rows])


def _weight(row: Sequence[int], means: Means, joint: str) -> float:
    """How likely the outcomes are whose cost and penalties come together or apart."""
    (cost, reward, *penalties), (price, earned, *bad) = means, row
    found = (cost if price else 1.0 - cost) * (reward if earned else 1.0 - reward)
    met, missed = (cost, 1.0 - cost) if price else (1.0 - cost, cost)
    for penalty, one in zip(penalties, bad, strict=True):
        first = bool(price) == (joint == "together")  # penalties fall here as long as there is room
        chance = (min(penalty, met) if first else max(penalty - missed, 0.0)) / met
        found *= chance if one else 1.0 - chance
    return found


def cells(
    families: Sequence[str],
    seeds: Sequence[int],
    levels: Sequence[float] = LEVELS,
    joint: str = INDEPENDENT,
) -> Iterator[Cell]:
    """The cells of some families."""
    for family in families:
        for g in levels:
            for seed in seeds:
                draw = Random(f"{family} {g} {seed}")
                cell = _cell(family, g, seed, lambda a, b, d=draw: a + (b - a) * d.random())
                yield replace(cell, joint=joint)


def _cell(family: str, g: float, seed: int, draw: Draw) -> Cell:
    """Rates are in units of the limit; an arm that incurs more tends to earn more."""
    count, limits, slacks, others, per, channels = FAMILIES[family]
    slack, limit = draw(*slacks), draw(*limits)
    rates = [1.0 - slack, *(draw(*others[min(k, len(others) - 1)]) for k in range(count - 1))]
    each = [rates, [rates[0], *rates[:0:-1]]][:channels]  # of a second limit: the other way round
    means: list[Means] = []
    for arm, rate in enumerate(rates):
        cost, reward = draw(0.4, 0.7), min(0.25 + 0.25 * rate + draw(-0.05, 0.05), 0.95)
        base = {"cost": cost, "pull": 1.0, "reward": reward}[per]
        penalties = [min(some[arm] * limit * base, 0.99) for some in each]
        means.append((cost, reward, *penalties))
    cell = Cell(family, seed, g, Limit(limit, per=per), tuple(means), 1.0)
    cost, reward, *_ = means[0]
    task = cell.problem(range(count)).task
    allowed, *_ = penalties_allowed(task, 1.0, Usual(cost, reward, [1.0] * channels))
    return replace(cell, budget=float(math.ceil(count * (g / slack) ** 2 / allowed)))


# Arms, limits, the safest arm's slack, the other arms' rates in units of the limit, per what, how
# many limits.
Family = tuple[int, Means, Means, Sequence[Means], str, int]
FAMILIES: dict[str, Family] = {
    "plain": (3, (0.2, 0.4), (0.25, 0.5), [(1.05, 1.3), (1.5, 3.0)], "cost", 1),
    "near": (5, (0.2, 0.4), (0.1, 0.25), [(0.95, 1.15)], "cost", 1),
    "reward": (3, (0.1, 0.5), (0.25, 0.5), [(1.05, 1.3), (1.5, 3.0)], "reward", 1),
    "pull": (10, (0.05, 0.3), (0.3, 0.5), [(0.8, 2.0)], "pull", 1),
    "safe": (10, (0.2, 0.4), (0.2, 0.4), [(1.1, 2.0)], "cost", 1),
    "rare": (3, (0.002, 0.01), (0.4, 0.7), [(1.1, 2.0), (1.5, 3.0)], "cost", 1),
    "two": (4, (0.2, 0.4), (0.25, 0.5), [(0.5, 0.9), (1.05, 1.3), (1.5, 3.0)], "cost", 2),
}


@dataclass(frozen=True)
class Found:
    """One policy in one cell; shares of runs."""

    broken: float
    interval: tuple[float, float]
    far: float
    regret: float  # percent of OPT(B)


def measured(cell: Cell, policy: str, runs: int) -> Found:
    """The figures of a policy in a cell."""
    over, earned = [], []
    for turn in range(SHUFFLES):
        order = list(range(len(cell.means)))
        Random(f"{cell} {turn}").shuffle(order)
        problem = cell.problem(order)
        results = simulate(
            problem,
            parse_policy(policy),
            budgets=cell.budget,
            runs=runs // SHUFFLES,
            seed=turn,
            progress=False,
        )
        (record,) = results.records
        found = record.normalised_runs[0]
        above = violations(problem, found, cell.budget).max(axis=1)  # of the limit broken most
        over.append(above / cell.limit.number)
        earned.append(found.reward)
    over_, best = np.concatenate(over), optimum(cell.problem(range(len(cell.means))), cell.budget)
    broken = float(np.mean(over_ > 1e-9))
    regret = 100.0 * (1.0 - float(np.mean(np.concatenate(earned))) / best)
    return Found(broken, wilson(broken, len(over_)), float(np.mean(over_ > FAR)), regret)


def wilson(share: float, runs: int) -> tuple[float, float]:
    """A 95 % interval of a share."""
    z2 = 1.96**2 / runs
    middle, half = share + z2 / 2, math.sqrt(z2 * (share * (1 - share) + z2 / 4))
    return max((middle - half) / (1 + z2), 0.0), (middle + half) / (1 + z2)


def yardstick(cell: Cell, runs: int, seed: int = 0) -> float:
    """The share of runs in which the player who knows all but the order breaks the limit."""
    draw, count = np.random.default_rng(seed), len(cell.means)
    means = np.array(cell.means)  # [K, 3]
    orders = np.array(list(permutations(range(count))))  # the law of each arm, in each order
    rate, noise = _net(cell)
    truth = orders[draw.integers(len(orders), size=runs)]  # [R, K]
    odds, every = np.zeros((runs, len(orders))), np.arange(runs)
    left, room = np.full(runs, cell.budget), np.full(runs, _start(cell))
    logs = np.log(np.stack([1.0 - means, means]))  # [2, K, 3]
    cdf = np.vectorize(NormalDist().cdf, otypes=[float])
    table = cdf(np.linspace(-8.0, 8.0, 1601))
    while (left >= 0.0).any():
        weight = np.exp(odds - odds.max(axis=1, keepdims=True))
        ahead = np.maximum(left, 0.0)[:, None] + 1.0
        far = (room[:, None] + rate * ahead) / np.sqrt(noise * ahead)  # by law, [R, K]
        keeps = table[np.clip(100.0 * far + 800.5, 0, 1600).astype(int)]
        chance = np.stack([(weight * keeps[:, orders[:, k]]).sum(axis=1) for k in range(count)])
        arm = (chance + 1e-12 * draw.random(chance.shape)).argmax(axis=0)
        seen = draw.random((runs, 3)) < means[truth[every, arm]]
        going = left >= 0.0
        for channel in range(3):
            told = logs[seen[:, channel].astype(int), :, channel]  # [R, K]
            odds += np.take_along_axis(told, orders[:, arm].T, axis=1)
        cost, reward, penalty = (seen * going[:, None]).T
        left = left - cost
        base = cell.limit.unit.pick(0.0, going, reward)  # a limit per cost has all from the start
        room = room + cell.limit.number * base - penalty
    return float(np.mean(room < -1e-9))


def _start(cell: Cell) -> float:
    return cell.limit.number * cell.budget if cell.limit.per_cost else 0.0


def _net(cell: Cell) -> tuple[np.ndarray, np.ndarray]:
    """What a law adds to the room per unit of cost, and the variance of that: [K] each."""
    cost, reward, penalty = np.array(cell.means).T
    limit, variance = cell.limit.number, penalty * (1.0 - penalty)
    mean = limit * cell.limit.unit.pick(0.0 * cost, 1.0 + 0.0 * cost, reward) - penalty
    if cell.limit.per == "reward":
        variance = variance + limit**2 * reward * (1.0 - reward)
    rate = mean / cost
    return rate, (variance + rate**2 * cost * (1.0 - cost)) / cost


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row per cell and policy."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--half", choices=list(HALVES), default="train")
    parser.add_argument("--family", action="append", choices=list(FAMILIES))
    parser.add_argument("--g", action="append", type=float)
    parser.add_argument("--policy", action="append")
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--joint", choices=[INDEPENDENT, *JOINTS], default=INDEPENDENT)
    parser.add_argument("--csv", action="store_true", help="the problems with one limit")
    parser.add_argument("--asked", action="store_true", help="risks at the g that each needs")
    asked = parser.parse_args(arguments)
    warnings.simplefilter("ignore", RiskWarning)
    if asked.asked or asked.csv:
        print_rows((_at_needed if asked.asked else _of_one_limit)(HALVES[asked.half], asked.runs))
        return
    families, levels = asked.family or list(FAMILIES), asked.g or LEVELS
    for cell in cells(families, HALVES[asked.half], levels, asked.joint):
        for policy in asked.policy or ["resolve:risk=0.01"]:
            print(_line(cell, measured(cell, policy, asked.runs)), flush=True)
        if len(cell.means) <= FEW and cell.limits == 1 and cell.joint == INDEPENDENT:
            print(f"{_place(cell)} yardstick {yardstick(cell, asked.runs):6.2%}", flush=True)


def _of_one_limit(seeds: Sequence[int], runs: int) -> Iterator[dict[str, object]]:
    """Every problem of the families with one limit."""
    for cell in cells([name for name, (*_, limits) in FAMILIES.items() if limits == 1], seeds):
        place = {"family": cell.family, "g": cell.g, "seed": cell.seed}
        yield {**place, **_percent(measured(cell, "resolve:risk=0.01", runs))}


def _at_needed(seeds: Sequence[int], runs: int) -> Iterator[dict[str, object]]:
    """Each risk on the plain problems, at the g that its warning names."""
    for risk, g in NEEDED.items():
        for cell in cells(["plain"], seeds, [g]):
            place = {"risk_percent": 100 * risk, "g": g, "seed": cell.seed}
            yield {**place, **_percent(measured(cell, f"resolve:risk={risk}", runs))}


def _percent(found: Found) -> dict[str, object]:
    low, high = found.interval
    shares = {"broken": found.broken, "low": low, "high": high, "far": found.far}
    numbers = {f"{name}_percent": f"{100 * share:.2f}" for name, share in shares.items()}
    return {**numbers, "regret_percent": f"{found.regret:.1f}"}


def _place(cell: Cell) -> str:
    arms, allowed = len(cell.means), f"B {cell.budget:7.0f}"
    return f"{cell.family:7s} {cell.g:3.1f} {cell.seed:3d} K {arms:2d} {allowed}"


def _line(cell: Cell, found: Found) -> str:
    low, high = found.interval
    return (
        f"{_place(cell)} broken {found.broken:6.2%} [{low:5.1%}, {high:5.1%}]"
        f" far {found.far:6.2%} regret {found.regret:6.2f}"
    )


if __name__ == "__main__":
    main()
