"""What a declared safe arm keeps and costs: resolve with a risk, alone and under the guard.

    python -m benchmarks.promises [--problem paper ...] [--budget 100 ...] [--runs 1000]
    python -m benchmarks.promises --per pull       # the same problems, with limits per pull
    python -m benchmarks.promises --bad            # a safe arm among bad ones

The safe arm is the one whose largest penalty rate, relative to its limit, is the lowest. Nothing is
declared, then the arm with its true rates, then the arm alone. Prints rows of CSV, in percent:
regret of OPT(B), and the runs that end above a limit.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.rows import print_rows
from tightrope import (
    Arm,
    Bernoulli,
    Constant,
    Limit,
    Problem,
    Resolve,
    Uniform,
    ready_problem,
    simulate,
)
from tightrope.problem.limits import BASES

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
ROUNDING = 1e-9  # of a limit
Row = dict[str, object]
BAD = ((1, 500.0), (6, 500.0), (12, 200.0))  # how many, and the budget
COSTS = {Constant: "1", Uniform: "0.1 to 0.9"}
SORTS = (  # what the limit is per, what a pull costs, what is declared of it
    ("pull", Constant(1.0), {"costs": 1}),
    ("pull", Constant(1.0), {}),
    ("pull", Uniform(0.1, 0.9), {}),
    ("reward", Uniform(0.1, 0.9), {}),
    ("cost", Constant(1.0), {}),
)


def declared(problem: Problem) -> Problem:
    """The problem with its most careful arm declared safe, and that arm's rates."""
    moments = problem.moments
    with np.errstate(divide="ignore"):
        rates = moments.penalty / moments.base
    safe = int(np.argmin((rates / problem.task.normal_limits).max(axis=1)))
    told = rates[safe] * np.array(problem.scales.penalties) / problem.task.base_scales
    limits = np.minimum(told, problem.limits).tolist()
    return replace(
        problem, safe=safe, safe_rates=dict(zip(problem.limit_names, limits, strict=True))
    )


def per_base(problem: Problem, per: str) -> Problem:
    """The problem with limits per pull or reward that leave the safest arm the same room."""
    known, moments = declared(problem), problem.moments
    scales = BASES[per].pick(problem.scales.cost, 1.0, problem.scales.reward)
    means = BASES[per].pick(moments.cost, np.ones_like(moments.cost), moments.reward)
    safe = known.task.safe_arm
    factor = moments.cost[safe] * problem.scales.cost / (means[safe] * scales)
    numbers = (np.array(problem.limits) * factor).tolist()
    limits = {n: Limit(c, per=per) for n, c in zip(problem.limit_names, numbers, strict=True)}
    return problem.with_limits(limits)


def broken_in(problem: Problem, record, g: int, budget: float):
    """Which runs end above a limit."""
    runs = record.runs
    penalty, pulls = runs.penalty[g], runs.pulls[g].sum(axis=-1)
    found = problem.violations(penalty, budget, pulls, runs.reward[g])
    return (found > ROUNDING * np.array(problem.limits)).any(axis=-1)


def among_bad(count: int, per: str, cost, known: dict[str, object]) -> Problem:
    """A safe arm that incurs 0.03 of a limit of 0.05, in the middle of bad ones that earn more."""
    safe_reward, reward = Bernoulli(0.5), Bernoulli(0.9)
    earned = 0.5 if per == "reward" else 1.0  # the same penalties per pull
    bad = [Arm(f"bad {k}", cost, reward, [Bernoulli(0.2 * earned)]) for k in range(count)]
    safe = Arm("safe", cost, safe_reward, [Bernoulli(0.03 * earned)])
    arms = [*bad[: count // 2], safe, *bad[count // 2 :]]
    return Problem(arms, limits={"bad": Limit(0.05, per=per)}, **known)  # type: ignore[arg-type]


def bad_rows(runs: int, risk: float, seed: int) -> Iterator[Row]:
    """A safe arm among bad ones."""
    for count, budget in BAD:
        for per, cost, known in SORTS:
            problem = among_bad(count, per, cost, known)
            safe, (limit,) = problem.names.index("safe"), problem.limits
            sure = replace(problem, safe="safe", safe_rates={"bad": 0.6 * limit})
            alone, guarded = (
                simulate(
                    one, Resolve(risk=risk), budgets=budget, runs=runs, seed=seed, progress=False
                ).records[0]
                for one in (problem, sure)
            )
            pulls, broken = guarded.runs.pulls[0], broken_in(sure, guarded, 0, budget)
            others = pulls[:, safe] < pulls.sum(axis=1)
            yield {
                "bad_arms": count,
                "budget": budget,
                "per": per,
                "cost": f"{'known to be ' if known else ''}{COSTS[type(cost)]}",
                "broken_percent": 100.0 * float(broken_in(problem, alone, 0, budget).mean()),
                "declared_broken_percent": 100.0 * float(broken.mean()),
                "declared_broken_after_other_arms_percent": 100.0 * float((broken & others).mean()),
                "declared_reward": float(
                    guarded.runs.reward[0].mean() / alone.runs.reward[0].mean()
                ),
            }


def measured(
    problem: Problem, risk: float, budgets: list[float], runs: int, seed: int
) -> Iterator[Row]:
    """Regret with its standard error, and the runs that break a limit."""
    scaled = [budget * problem.scales.cost for budget in budgets]
    results = simulate(
        problem, Resolve(risk=risk), budgets=scaled, runs=runs, seed=seed, progress=False
    )
    (record,) = results.records
    for g, row in enumerate(results.rows()):
        regret = error = None
        if row.regret is not None:
            share = 100.0 / (row.reward_rate.mean * row.budget + row.regret.mean)
            regret, error = row.regret.mean * share, (row.regret.error or 0.0) * share
        broken = 100.0 * float(broken_in(problem, record, g, row.budget).mean())
        yield {"regret_percent": regret, "regret_se_percent": error, "broken_percent": broken}


def rows(
    names: list[str], budgets: list[float], runs: int, risk: float, seed: int, per: str
) -> Iterator[Row]:
    """Every problem, declaration and budget."""
    for name in names:
        problem = ready_problem(name)
        problem = problem if per == "cost" else per_base(problem, per)
        known = declared(problem)
        sorts = {"nothing": problem, "rates": known, "arm": replace(known, safe_rates={})}
        for sort, one in sorts.items():
            found = measured(one, risk, budgets, runs, seed)
            for budget, figures in zip(budgets, found, strict=True):
                place = {"problem": name, "per": per, "budget": budget, "declared": sort}
                yield {**place, **figures}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--problem", action="append", help="a ready problem; several are allowed")
    parser.add_argument("--budget", action="append", type=float, help="in largest costs of a pull")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--risk", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--per", choices=[*BASES], default="cost", help="what limits are per")
    parser.add_argument("--bad", action="store_true", help="a safe arm among bad ones")
    given = parser.parse_args()
    names, budgets = given.problem or list(PROBLEMS), given.budget or [100.0, 1000.0, 10000.0]
    how = given.runs, given.risk, given.seed
    print_rows(bad_rows(*how) if given.bad else rows(names, budgets, *how, given.per))


if __name__ == "__main__":
    main()
