"""What a declared safe arm keeps and costs: resolve with a risk, alone and under the guard.

    python -m benchmarks.promises [--problem paper ...] [--budget 100 ...] [--runs 1000]

The safe arm is the one whose largest penalty rate, relative to its limit, is the lowest; it is
declared with its true rates, and then without. The table goes to standard output as Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tightrope import Problem, Resolve, ready_problem, simulate

PROBLEMS = (
    "paper",
    "paper-arms-100",
    "arena-random-5",
    "arena-random-10",
    "arena-cheap",
    "arena-tight",
    "arena-two-limits",
    "wireless",
)
HEAD = "problem | B | alone: regret | broken | rates declared: regret | broken | safe arm alone"
ROUNDING = 1.0 + 1e-9  # of a sum of penalties


def declared(problem: Problem) -> Problem:
    """The problem with its most careful arm declared safe, and that arm's rates."""
    rates, scales = problem.moments.penalty_rate, problem.scales
    safe = int(np.argmin((rates / problem.moments.limits).max(axis=1)))
    told = rates[safe] * np.array(scales.penalties) / scales.cost
    limits = np.minimum(told, problem.limits).tolist()
    return replace(
        problem, safe=safe, safe_rates=dict(zip(problem.limit_names, limits, strict=True))
    )


def measured(problem: Problem, risk: float, budgets: list[float], runs: int, seed: int):
    """Regret in percent of OPT(B) with its standard error, and the share of broken runs."""
    scaled = [budget * problem.scales.cost for budget in budgets]
    results = simulate(
        problem, Resolve(risk=risk), budgets=scaled, runs=runs, seed=seed, progress=False
    )
    (record,) = results.records
    for g, row in enumerate(results.rows()):
        most = np.array(problem.limits) * row.budget * ROUNDING
        broken = float((record.runs.penalty[g] > most).any(axis=-1).mean())
        reward = row.reward_rate.mean * row.budget
        if row.regret is None:
            yield "–", broken
        else:
            share = 100.0 / (reward + row.regret.mean)
            error = (row.regret.error or 0.0) * share
            yield f"{row.regret.mean * share:.2f} ± {error:.2f}", broken


def lines(
    names: list[str], budgets: list[float], runs: int, risk: float, seed: int
) -> Iterator[str]:
    """The table, line by line."""
    head = f"| {HEAD}: regret | broken |"
    yield head
    yield "|" + "---|" * (head.count("|") - 1)
    for name in names:
        problem = ready_problem(name)
        known = declared(problem)
        sorts = (problem, known, replace(known, safe_rates={}))
        found = [list(measured(one, risk, budgets, runs, seed)) for one in sorts]
        for g, budget in enumerate(budgets):
            cells = [f"{regret} | {broken:.4f}" for regret, broken in (one[g] for one in found)]
            yield f"| `{name}` | {budget:,.0f} | {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--problem", action="append", help="a ready problem; several are allowed")
    parser.add_argument("--budget", action="append", type=float, help="in largest costs of a pull")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--risk", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    names, budgets = given.problem or list(PROBLEMS), given.budget or [100.0, 1000.0, 10000.0]
    for line in lines(names, budgets, given.runs, given.risk, given.seed):
        print(line, flush=True)


if __name__ == "__main__":
    main()
