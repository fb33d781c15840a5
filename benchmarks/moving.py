"""What a moving world costs: delays, lost outcomes, arms that come and go, changes, loose scales.

python -m benchmarks.moving delays|tenth|arms|watch|alarms|grow [--policy P ...] [--runs 200]

Prints rows of CSV: regret in percent of OPT(B), the mean violation in thousandths of the limit, and
the percentage of runs that break it. The delays are for every contestant of the arena, the other
tables for a few policies, unless some are named.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.growth import contestants
from benchmarks.rows import print_rows
from tightrope import (
    Change,
    Controller,
    Problem,
    Scales,
    Task,
    optimum,
    oracle,
    parse_policy,
    ready_problem,
    simulate,
)
from tightrope.engine.python import outcomes
from tightrope.errors import OutsideTheoryWarning
from tightrope.kernels.rng import OUTCOMES, Generator
from tightrope.policies.parts.watch import CHANGES

__all__ = ["main"]

PROBLEM = "arena-random-5"
BUDGETS = (1000.0, 10_000.0)
POLICIES = (
    "resolve",
    "resolve:risk=0.01",
    "lyon",
    "lyon:delta0=15",
    "lyon-ts",
    "ts-lp:update=true",
    "primal-dual-bwk",
    "pessimistic-optimistic",
)
HOW = {
    "at once": {},
    "10 later": {"delay": 10},
    "100 later": {"delay": 100},
    "1000 later": {"delay": 1000},
    "1 % lost": {"lost": 0.01},
}


Row = dict[str, object]


def figures(problem: Problem, label: str, budget: float, runs: int, **how: float) -> Row:
    """What a policy earns, and how it keeps the limit."""
    results = simulate(
        problem, parse_policy(label), budgets=budget, runs=runs, seed=1, progress=False, **how
    )
    found, limit = results[label].runs, problem.limits[0]
    best = optimum(problem, budget)
    return _figures(found.reward[0] / best, found.penalty[0, :, 0] / budget / limit - 1.0)


def _figures(earned: Any, over: Any) -> Row:
    """From what runs earned, of the optimum, and by what share they are beyond the limit."""
    return {
        "regret_percent": 100.0 * float(1.0 - np.mean(earned)),
        "violation_permille": 1000.0 * float(np.mean(over)),
        "broken_percent": 100.0 * float(np.mean(np.array(over) > 1e-9)),
    }


def delays(runs: int, policies: Sequence[str] = ()) -> Iterator[Row]:
    """Each policy at each delay and budget."""
    problem = ready_problem(PROBLEM)
    for label in policies or contestants():
        for budget in BUDGETS:
            for case, how in HOW.items():
                found = figures(problem, label, budget, runs, **how)
                yield {"policy": label, "budget": budget, "report": case, **found}


def tenth(runs: int, policies: Sequence[str] = ()) -> Iterator[Row]:
    """Outcomes reported at once, and after a tenth of a run's pulls."""
    for name in (
        PROBLEM,
        "arena-random-10",
        "arena-continuous-8",
        "arena-safe-5",
        "arena-rare",
        "paper",
    ):
        problem = ready_problem(name)
        pulls = 1.0 / float(problem.moments.cost @ oracle(problem).pull_share)  # per unit of budget
        for budget in BUDGETS:
            for label in policies or ("resolve", "resolve:risk=0.01"):
                for delay in (0, round(pulls * budget / 10.0)):
                    found = figures(problem, label, budget, runs, delay=delay)
                    place = {"problem": name, "budget": budget, "policy": label, "delay": delay}
                    yield {**place, **found}


def arms(runs: int, policies: Sequence[str] = ()) -> Iterator[Row]:
    """The best arm comes at half of the budget, or leaves then."""
    problem = ready_problem(PROBLEM)
    listed = list(problem.arms)
    best = int(np.argmax(oracle(problem).pull_share))
    name, limit = listed[best].name, problem.limits[0]
    leaving = [Change(0.5, listed, absent=[name])]
    cases = {
        "all arms": problem,
        f"{name} comes": Problem(listed, limit, absent=[name], changes=[Change(0.5, listed)]),
        f"{name} leaves": Problem(listed, limit, changes=leaving),
    }
    for label in policies or (*POLICIES, "resolve:window0=2"):
        for budget in BUDGETS:
            for case, one in cases.items():
                found = figures(one, label, budget, runs)
                yield {"policy": label, "budget": budget, "arms": case, **found}


def watch(runs: int, policies: Sequence[str] = ()) -> Iterator[Row]:
    """Watching, where arms change and where they do not."""
    labels = policies or [
        f"resolve{how}" for how in ("", ":watch=0.01", ":window0=2", ":discount0=2")
    ]
    for name in ("arena-abrupt", "arena-drift", PROBLEM, "arena-random-10", "paper"):
        for budget in BUDGETS:
            for label in labels:
                found = figures(ready_problem(name), label, budget, runs)
                yield {"problem": name, "budget": budget, "policy": label, **found}


def alarms(runs: int, policies: Sequence[str] = ()) -> Iterator[Row]:
    """One arm that changes at pull 2,000 of 6,000, or does not: how soon and how often an alarm."""
    labels = policies or ("resolve:watch=0.01", "resolve:watch=0.01,watch_block=16")
    for name, (draw, before, after) in SINGLE.items():
        for label in labels:
            waits = [_alarm(label, draw, before, after, seed) for seed in range(runs)]
            still = [_alarm(label, draw, before, before, seed) for seed in range(runs)]
            found = [wait for wait in waits if wait is not None and wait >= 0]
            yield {
                "outcome": name,
                "policy": label,
                "found_percent": 100.0 * len(found) / runs,
                "median_pulls": float(np.median(found)) if found else None,
                "false_alarms_percent": 100.0 * float(np.mean([one is not None for one in still])),
            }


def _coin(random: Any, mean: float, pulls: int) -> Any:
    return (random.random(pulls) < mean).astype(float)


def _varying(random: Any, mean: float, pulls: int) -> Any:
    return mean * random.uniform(0.5, 1.5, pulls)


def _constant(random: Any, mean: float, pulls: int) -> Any:
    return np.full(pulls, mean)


def _sticky(random: Any, mean: float, pulls: int) -> Any:
    """A coin that is tossed again in a fifth of the pulls."""
    coins, kept = _coin(random, mean, pulls), random.random(pulls) < 0.8
    kept[0] = False
    return coins[np.maximum.accumulate(np.where(kept, 0, np.arange(pulls)))]


SINGLE = {
    "coin, 0.5 to 0.9": (_coin, 0.5, 0.9),
    "coin, 0.002 to 0.02": (_coin, 0.002, 0.02),
    "varies by half, 0.003 to 0.009": (_varying, 0.003, 0.009),
    "constant, 0.003 to 0.001": (_constant, 0.003, 0.001),
    "coin that stays with chance 0.9, 0.5 to 0.9": (_sticky, 0.5, 0.9),
}


def _alarm(label: str, draw: Any, before: float, after: float, seed: int) -> int | None:
    """The pulls from the change to the first alarm; None if there is none."""
    random, rows = np.random.default_rng(seed), np.zeros((6000, 3))
    rows[:, 0] = 1.0
    rows[:2000, 1], rows[2000:, 1] = draw(random, before, 2000), draw(random, after, 4000)
    controller = Controller(Task(["a"], {"bad": "50% per cost"}), parse_policy(label), 1e6)
    history = controller._state["history"]
    for pull, row in enumerate(rows):
        controller.tell_row(0, row)
        if history[CHANGES]:
            return pull - 2000
    return None


def grow(runs: int, policies: Sequence[str] = ()) -> Iterator[Row]:
    """Scales that are right, a hundred times too large, and that grow from a sixteenth."""
    problem, budget = ready_problem("arena-continuous-8"), 1000.0
    best, limit = optimum(problem, budget), problem.limits[0]
    for label in policies or ("resolve", "lyon", "lyon-ts"):
        for name, scales in SCALES.items():
            task = Task(problem.names, {"penalty": limit}, scales)
            ends = np.array([_end(task, problem, label, budget, run) for run in range(runs)])
            found = _figures(ends[:, 0] / best, ends[:, 1] / budget / limit - 1.0)
            yield {"policy": label, "scales": name, **found}


SMALL = (1 / 16, 1 / 16, 1 / 16)
SCALES = {
    "right": Scales(),
    "100 times too large": Scales(100.0, 100.0, 100.0),
    "growing from 1/16": Scales(*SMALL, grow=True),
    "growing from 1/16, capped at 1/2": Scales(
        *SMALL, grow={"cost": 0.5, "reward": 0.5, "penalty": 0.5}
    ),
}


def _end(task: Task, problem: Problem, label: str, budget: float, run: int) -> tuple[float, float]:
    """The reward and the penalty of a run."""
    controller, tables = Controller(task, parse_policy(label), budget, seed=run), problem.tables()
    draws, reward, penalty = Generator(1, OUTCOMES, run), 0.0, 0.0
    while not controller.exhausted:
        arm = controller.ask()
        found = outcomes(tables, arm, draws)
        controller.tell(arm, *found)
        reward, penalty = reward + found[1], penalty + found[2]
    return reward, penalty


TABLES = {one.__name__: one for one in (delays, tenth, arms, watch, alarms, grow)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("table", choices=[*TABLES])
    parser.add_argument(
        "--policy", action="append", default=[], help="a policy; several are allowed"
    )
    parser.add_argument("--runs", type=int, default=200)
    asked = parser.parse_args(arguments)
    warnings.simplefilter("ignore", OutsideTheoryWarning)
    print_rows(TABLES[asked.table](asked.runs, asked.policy))


if __name__ == "__main__":
    main()
