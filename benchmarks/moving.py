"""What a moving world costs: delays, lost outcomes, arms that come and go, changes, loose scales.

python -m benchmarks.moving [delays|tenth|arms|watch|alarms|grow ...] [--policy P ...] [--runs 200]
                            [--page docs/moving.md]

Prints Markdown tables, or puts them into the page's blocks of the same names. The delays are for
every contestant of the arena, the other tables for a few policies, unless some are named.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import page
from benchmarks.growth import contestants
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


def figures(problem: Problem, label: str, budget: float, runs: int, **how: float) -> str:
    """Regret in percent of OPT(B), violation in thousandths of the limit, share of runs broken."""
    results = simulate(
        problem, parse_policy(label), budgets=budget, runs=runs, seed=1, progress=False, **how
    )
    found, limit = results[label].runs, problem.limits[0]
    best = optimum(problem, budget)
    return _cell(found.reward[0] / best, found.penalty[0, :, 0] / budget / limit - 1.0)


def _cell(earned: Any, over: Any) -> str:
    """From what runs earned, of the optimum, and by what share they are beyond the limit."""
    regret, broken = 100.0 * (1.0 - np.mean(earned)), 100.0 * np.mean(np.array(over) > 1e-9)
    return f"{regret:.2f}, {1000 * np.mean(over):+.1f}, {broken:.0f} %"


def delays(runs: int, policies: Sequence[str] = ()) -> str:
    """Each policy at each delay and budget."""
    problem, rows = ready_problem(PROBLEM), []
    for label in policies or contestants():
        for budget in (1000.0, 10_000.0):
            cells = [figures(problem, label, budget, runs, **how) for how in HOW.values()]
            rows.append([f"`{label}`", f"{budget:,.0f}", *cells])
    return page.table(["policy", "B", *HOW], rows)


def tenth(runs: int, policies: Sequence[str] = ()) -> str:
    """Outcomes told at once, and after a tenth of a run's pulls."""
    rows = []
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
        for budget in (1000.0, 10_000.0):
            late = round(pulls * budget / 10.0)
            cells = [
                figures(problem, label, budget, runs, delay=delay)
                for label in policies or ("resolve", "resolve:risk=0.01")
                for delay in (0, late)
            ]
            rows.append([f"`{name}`", f"{budget:,.0f}", f"{late:,}", *cells])
    labels = policies or ("resolve", "resolve:risk=0.01")
    head = [f"`{label}`, {when}" for label in labels for when in ("at once", "late")]
    return page.table(["problem", "B", "delay", *head], rows)


def arms(runs: int, policies: Sequence[str] = ()) -> str:
    """The best arm comes at half of the budget, or leaves then."""
    problem, rows = ready_problem(PROBLEM), []
    listed = list(problem.arms)
    best = int(np.argmax(oracle(problem).pull_share))
    name = listed[best].name
    cases = {
        "all arms": problem,
        f"{name} comes": Problem(
            listed, problem.limits[0], absent=[name], changes=[Change(0.5, listed)]
        ),
        f"{name} leaves": Problem(
            listed, problem.limits[0], changes=[Change(0.5, listed, absent=[name])]
        ),
    }
    for label in policies or (*POLICIES, "resolve:window0=2"):
        for budget in (1000.0, 10_000.0):
            cells = [figures(one, label, budget, runs) for one in cases.values()]
            rows.append([f"`{label}`", f"{budget:,.0f}", *cells])
    return page.table(["policy", "B", *cases], rows)


def watch(runs: int, policies: Sequence[str] = ()) -> str:
    """Watching, where arms change and where they do not."""
    labels = policies or [
        f"resolve{how}" for how in ("", ":watch=0.01", ":window0=2", ":discount0=2")
    ]
    rows = []
    for name in ("arena-abrupt", "arena-drift", PROBLEM, "arena-random-10", "paper"):
        for budget in (1000.0, 10_000.0):
            problem = ready_problem(name)
            cells = [figures(problem, label, budget, runs) for label in labels]
            rows.append([f"`{name}`", f"{budget:,.0f}", *cells])
    return page.table(["problem", "B", *(f"`{label}`" for label in labels)], rows)


def alarms(runs: int, policies: Sequence[str] = ()) -> str:
    """One arm that changes at pull 2,000 of 6,000, or does not: how soon and how often an alarm."""
    labels, rows = policies or ("resolve:watch=0.01", "resolve:watch=0.01,watch_block=16"), []
    for name, (draw, before, after) in SINGLE.items():
        cells = []
        for label in labels:
            waits = [_alarm(label, draw, before, after, seed) for seed in range(runs)]
            still = [_alarm(label, draw, before, before, seed) for seed in range(runs)]
            found = [wait for wait in waits if wait is not None and wait >= 0]
            soon = f", {np.median(found):,.0f}" if found else ""
            false = np.mean([wait is not None for wait in still])
            cells.append(f"{100 * len(found) / runs:.0f} %{soon}; {100 * false:.0f} %")
        rows.append([name, *cells])
    return page.table(["outcome", *(f"`{label}`" for label in labels)], rows)


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


def grow(runs: int, policies: Sequence[str] = ()) -> str:
    """Scales that are right, a hundred times too large, and that grow from a hundredth."""
    problem, budget, rows = ready_problem("arena-continuous-8"), 1000.0, []
    limits, names = {"penalty": problem.limits[0]}, problem.names
    kinds = {
        "right": Scales(),
        "100 times too large": Scales(100.0, 100.0, 100.0),
        "growing from 1/16": Scales(1 / 16, 1 / 16, 1 / 16, grow=True),
        "growing from 1/16, capped at 1/2": Scales(
            1 / 16, 1 / 16, 1 / 16, grow={"cost": 0.5, "reward": 0.5, "penalty": 0.5}
        ),
    }
    best, tables = optimum(problem, budget), problem.tables()
    for label in policies or ("resolve", "lyon", "lyon-ts"):
        cells = []
        for scales in kinds.values():
            task = Task(names, limits, scales)
            earned, over = [], []
            for run in range(runs):
                controller = Controller(task, parse_policy(label), budget, seed=run)
                draws, total, penalty = Generator(1, OUTCOMES, run), 0.0, 0.0
                while not controller.exhausted:
                    arm = controller.ask()
                    told = outcomes(tables, arm, draws)
                    controller.tell(arm, *told)
                    total, penalty = total + told[1], penalty + told[2]
                earned.append(total)
                over.append(penalty / budget / problem.limits[0] - 1.0)
            cells.append(_cell(np.array(earned) / best, over))
        rows.append([f"`{label}`", *cells])
    return page.table(["policy", *kinds], rows)


TABLES = {one.__name__: one for one in (delays, tenth, arms, watch, alarms, grow)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], metavar="TABLE")
    parser.add_argument(
        "--policy", action="append", default=[], help="a policy; several are allowed"
    )
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--page", type=Path)
    asked = parser.parse_args(arguments)
    warnings.simplefilter("ignore", OutsideTheoryWarning)
    for name in asked.tables or TABLES:
        text = TABLES[name](asked.runs, asked.policy)
        print(f"{name}, {asked.runs} runs\n\n{text}\n", flush=True)
        if asked.page:
            page.write({name: text}, asked.page)


if __name__ == "__main__":
    main()
