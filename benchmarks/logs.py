"""What is said of logs whose truth is known: warnings of adaptive choices, and the optimum.

    python -m benchmarks.logs warnings      # how many logs of each logger come with a warning
    python -m benchmarks.logs optimum       # how often the 95 % interval holds the true optimum
    python -m benchmarks.logs plans         # the same for a policy's reward, of logs with features

Each prints rows of CSV. ``--logs N``: logs per row, and ``--seed N``.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from benchmarks.rows import print_rows
from tightrope import Arm, FullTable, Limit, Log, LyOn, Problem, Task, oracle, plan, simulate
from tightrope.data.adaptive import OUTCOMES, SHARES, caveat
from tightrope.data.best_rates import best_rate
from tightrope.data.draws import Draws
from tightrope.live.controller import Controller
from tightrope.problem.values import Floats

SIZES = (200, 500, 1000, 3000)  # rows of a log
EXPLORE = 0.1  # the share of rows in which epsilon-greedy chooses at random


class Truth(NamedTuple):
    """The chances of reward and penalty of every arm, [K], their mean costs, and the limit."""

    reward: Floats
    penalty: Floats
    cost: Floats
    limit: float


def truth(random: np.random.Generator) -> Truth:
    """Two to eight arms, of which some keep the limit."""
    count = int(random.integers(2, 9))
    reward, penalty = random.uniform(0.1, 0.9, count), random.uniform(0.02, 0.5, count)
    limit = 1.05 * float(np.quantile(penalty, random.uniform(0.3, 0.8)))
    return Truth(reward, penalty, random.uniform(0.2, 0.6, count), limit)


class History:
    """What a logger has seen so far: rows, rewards and penalties of every arm."""

    def __init__(self, found: Truth, rows: int, random: np.random.Generator) -> None:
        self.truth, self.rows, self.random = found, rows, random
        self.sums = np.zeros((3, len(found.reward)))
        self.shares = random.dirichlet(np.full(len(found.reward), 2.0), size=2)

    def best(self, reward: Floats, penalty: Floats) -> int:
        """The arm with the highest reward of those that seem to keep the limit."""
        kept = penalty <= self.truth.limit
        return int(np.where(kept, reward, -1.0).argmax() if kept.any() else penalty.argmin())

    def greedy(self, at: int) -> int:
        """The arm that seems best, each tried once."""
        count, reward, penalty = self.sums
        tried = bool(count.all())
        return self.best(reward / count, penalty / count) if tried else int(count.argmin())

    def thompson(self, at: int) -> int:
        """The arm that is best in a draw from the posteriors."""
        count, *sums = self.sums
        return self.best(*(self.random.beta(1.0 + x, 1.0 + count - x) for x in sums))

    def at_random(self, shares: Floats) -> int:
        """An arm with these chances."""
        return int(self.random.choice(len(shares), p=shares))

    def changing(self, at: int) -> int:
        """An arm with chances that go back and forth between two mixtures."""
        weight = 0.5 + 0.5 * np.sin(6.0 * np.pi * at / self.rows)
        return self.at_random(weight * self.shares[0] + (1.0 - weight) * self.shares[1])

    def exploring(self, at: int) -> int:
        """As greedy, but for a share of the rows."""
        explores = self.random.random() < EXPLORE
        return int(self.random.integers(self.sums.shape[1])) if explores else self.greedy(at)


LOGGERS: dict[str, Callable[[History, int], int]] = {
    "greedy": History.greedy,
    "epsilon-greedy": History.exploring,
    "Thompson sampling": History.thompson,
    "LyOn": lambda history, at: -1,  # decided by a controller
    "random": lambda history, at: history.at_random(history.shares[0]),
    "in turn": lambda history, at: at % history.sums.shape[1],
    "changing shares": History.changing,
}
COUNTS = {"greedy": 100, "epsilon-greedy": 42, "Thompson sampling": 42, "LyOn": 43, "random": 200}


def logged(logger: str, seed: int) -> tuple[Log, Truth]:
    """A log of this logger, without propensities, and the truth behind it."""
    random = np.random.default_rng([seed, list(LOGGERS).index(logger)])
    found, rows = truth(random), int(random.choice(SIZES))
    names = [f"arm {k}" for k in range(1, len(found.reward) + 1)]
    history, choose = History(found, rows, random), LOGGERS[logger]
    task = Task(names, {"bad": Limit(found.limit, per="pull")})
    controller = Controller(task, LyOn(), float(rows), seed=seed) if logger == "LyOn" else None
    chosen, outcomes = np.zeros(rows, np.int64), np.zeros((3, rows))
    for at in range(rows):
        arm = choose(history, at) if controller is None else controller.ask()
        cost = found.cost[arm] * random.uniform(0.5, 1.5)
        coins = random.random(2) < (found.reward[arm], found.penalty[arm])
        chosen[at], outcomes[:, at] = arm, (cost, *coins)
        history.sums[:, arm] += (1.0, *coins)
        if controller is not None:
            controller.tell_row(arm, outcomes[:, at])
    return Log(names, ["bad"], chosen, outcomes), found


class Warned(NamedTuple):
    """How many logs of a logger came with each warning, and how far the arms' means were off."""

    logs: int
    outcomes: int
    shares: int
    bias: float  # of the mean reward, over arms and logs
    worst: float  # the same in the log in which it was lowest


def warned(logger: str, logs: int, seed: int = 0) -> Warned:
    """Make logs and look at what is said of them."""
    told: Counter[str] = Counter()
    bias = []
    for number in range(logs):
        log, found = logged(logger, seed + number)
        told[caveat(log).partition(", and")[0]] += 1
        seen = log.counts > 0
        sums = np.bincount(log.chosen, log.outcomes[1], len(log.arms))
        bias.append(float((sums[seen] / log.counts[seen] - found.reward[seen]).mean()))
    return Warned(logs, told[OUTCOMES], told[SHARES], float(np.mean(bias)), min(bias))


class Coverage(NamedTuple):
    """How many of so many 95 % intervals hold the optimum: as the log has it, and corrected."""

    logs: int
    own: int
    corrected: int
    own_bias: float
    bias: float
    error: float  # mean of the standard errors


CASES: dict[str, Callable[[int], Floats]] = {
    "equal": lambda count: np.full(count, 0.5),
    "close": lambda count: np.linspace(0.5, 0.3, count),
    "clear": lambda count: np.append(0.5, np.full(count - 1, 0.2)),
}


def coverage(
    case: str, arms: int, binding: bool, logs: int, rows: int = 50, seed: int = 0, types: int = 0
) -> Coverage:
    """Logs of ``rows`` rows per arm, every pull at a cost of 1, and a limit that binds or not.

    If it binds, every other arm earns more and is above the limit. With ``types`` of requests, all
    alike, so many rows per type and arm.
    """
    reward, penalty = CASES[case](arms), np.full(arms, 0.1)
    if binding:
        reward, penalty = reward + 0.2 * (np.arange(arms) % 2), 0.1 + 0.2 * (np.arange(arms) % 2)
    limits = {"bad": Limit(0.2 if binding else 0.6, per="pull")}
    known = Problem.from_bernoulli(np.ones(arms), reward, penalty, limits=limits)
    best, random = oracle(known).reward_rate, np.random.default_rng([seed, arms])
    found: list[tuple[float, ...]] = []
    while len(found) < logs:
        made = [_logged_arms(reward, penalty, rows, random) for _ in range(max(types, 1))]
        typed: Any = {f"type {x}": some for x, some in enumerate(made)}
        shares = dict.fromkeys(typed, 1.0) if types else None
        problem = Problem(typed if types else made[0], limits=limits, contexts=shares)
        draws = Draws.of(problem, 50, seed + len(found))
        rate = best_rate(draws)
        if rate is None:  # no mixture keeps the limit in this log
            continue
        held = [abs(one.mean - best) <= one.reach for one in rate]
        found.append((*held, *(one.mean - best for one in rate), rate.rate.log))
    held, corrected, *means = np.array(found, float).T
    return Coverage(logs, int(held.sum()), int(corrected.sum()), *(float(x.mean()) for x in means))


def _logged_arms(
    reward: Floats, penalty: Floats, rows: int, random: np.random.Generator
) -> list[Arm]:
    """Arms with ``rows`` drawn rows each."""
    count = len(reward)
    coins = random.random((count, rows, 2)) < np.stack([reward, penalty], axis=1)[:, np.newaxis]
    table = np.concatenate([np.ones((count, rows, 1)), coins], axis=2)
    return [Arm.from_rows(f"arm {k}", table[k], ["bad"]) for k in range(count)]


class Planned(NamedTuple):
    """How many 95 % intervals hold what a policy earns, and how far plans are off."""

    logs: int
    held: int
    truth: float
    bias: float
    spread: float
    error: float  # mean of the standard errors


def requests(rows: int, curved: bool, random: np.random.Generator) -> FullTable:
    """Requests with three features: coins as rewards, dollars with long tails, three arms."""
    x = random.normal(size=(rows, 3))
    seen = np.tanh(2.0 * x) if curved else x
    chance = 0.5 + seen @ np.array([[0.25, -0.2, 0.0], [0.0, 0.15, -0.2], [0.0, 0.0, 0.0]])
    reward = random.random((rows, 3)) < chance
    noise = random.normal(size=(rows, 3))
    dollars = np.exp(0.6 * x[:, :1] + 0.8 * noise) * [0.05, 0.15, 0.4]
    outcomes = np.stack([np.ones((rows, 3)), reward, dollars], axis=2)
    return FullTable(["a", "b", "c"], ["usd"], outcomes, contexts=x)


def planned(curved: bool, chosen: bool, logs: int, rows: int = 600, seed: int = 0) -> Planned:
    """Plans of logs with one arm per request, chosen at random or by the first feature."""
    limits, policy, budget = {"usd": "0.15 per pull"}, "resolve:risk=0.01", 1000.0
    whole = requests(100_000, curved, np.random.default_rng([seed, 0]))
    [known] = simulate(
        Problem.from_table(whole, limits), policy, budgets=budget, runs=200, seed=seed
    ).rows()
    truth, found = known.reward_rate.mean * budget, []
    for number in range(1, logs + 1):
        random = np.random.default_rng([seed, number])
        table = requests(rows, curved, random)
        weights = np.exp(0.8 * chosen * table.contexts[:, :1] * [-1.0, 1.0, 0.0])
        shares = (weights / weights.sum(axis=1, keepdims=True)).cumsum(axis=1)
        arms = (random.random((rows, 1)) > shares).sum(axis=1).clip(max=2)
        outcomes = table.outcomes[np.arange(rows), arms].T.copy()
        log = Log(table.arms, table.penalties, arms, outcomes, None, table.contexts)
        made = plan(
            Problem.from_log(log, limits), policy, budgets=budget, runs=100, seed=seed, fan=False
        )
        found.append((made.rows[0].mean.mean - truth, made.rows[0].mean.error))
    away, errors = np.array(found).T
    held = int((np.abs(away) <= 1.96 * errors).sum())
    return Planned(logs, held, truth, float(away.mean()), float(away.std()), float(errors.mean()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=("warnings", "optimum", "plans"))
    parser.add_argument("--logs", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--types", type=int, default=0, help="types of requests, all alike")
    given = parser.parse_args()
    print_rows({"warnings": _warnings, "plans": _plans, "optimum": _optimum}[given.table](given))


def _warnings(given: argparse.Namespace) -> Iterator[dict[str, object]]:
    for logger in LOGGERS:
        row = warned(logger, given.logs or COUNTS.get(logger, 100), given.seed)
        counts = {"warned_outcomes": row.outcomes, "warned_shares": row.shares}
        bias = {"mean_bias": f"{row.bias:.3f}", "lowest_bias": f"{row.worst:.2f}"}
        yield {"logger": logger, "logs": row.logs, **counts, **bias}


def _plans(given: argparse.Namespace) -> Iterator[dict[str, object]]:
    for curved, chosen in product((False, True), repeat=2):
        made = planned(curved, chosen, given.logs or 24, seed=given.seed)
        place = {"rewards": "curved" if curved else "linear",
                 "choices": "by x1" if chosen else "at random"}  # fmt: skip
        numbers = {key: f"{value:.0f}" for key, value in made._asdict().items()}
        yield {**place, **numbers}


def _optimum(given: argparse.Namespace) -> Iterator[dict[str, object]]:
    for binding, case, arms in product((False, True), CASES, (2, 5, 12, 30)):
        one = coverage(case, arms, binding, given.logs or 100, seed=given.seed, types=given.types)
        yield {
            "arms": arms,
            "rewards": case,
            "limit": "binds" if binding else "loose",
            "covered_before_percent": round(100 * one.own / one.logs),
            "covered_percent": round(100 * one.corrected / one.logs),
            "bias_before": f"{one.own_bias:.3f}",
            "bias": f"{one.bias:.3f}",
            "error": f"{one.error:.3f}",
        }


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
