"""What a declared safe arm keeps and costs: resolve with a risk, alone and under the guard.

    python -m benchmarks.promises [--problem paper ...] [--budget 100 ...] [--runs 1000]
    python -m benchmarks.promises --per pull       # the same problems, with limits per pull
    python -m benchmarks.promises --bad            # a safe arm among bad ones

The safe arm is the one whose largest penalty rate, relative to its limit, is the lowest; it is
declared with its true rates, and then without. The table goes to standard output as Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

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
HEAD = "problem | B | alone: regret | broken | rates declared: regret | broken | safe arm alone"
BAD_HEAD = (
    "bad arms | B | limit | a pull costs | alone: broken | declared: broken | after another arm"
    " was pulled | reward, of that alone"
)
ROUNDING = 1e-9  # of a limit
BAD = ((1, 500.0), (6, 500.0), (12, 200.0))  # how many, and the budget
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


def bad_lines(runs: int, risk: float, seed: int) -> Iterator[str]:
    """The table of a safe arm among bad ones, line by line."""
    yield f"| {BAD_HEAD} |"
    yield "|" + "---|" * 8
    for count, budget in BAD:
        for per, cost, known in SORTS:
            problem = among_bad(count, per, cost, known)
            safe, (told,) = problem.names.index("safe"), problem.limits
            sure = replace(problem, safe="safe", safe_rates={"bad": 0.6 * told})
            alone, guarded = (
                simulate(
                    one, Resolve(risk=risk), budgets=budget, runs=runs, seed=seed, progress=False
                ).records[0]
                for one in (problem, sure)
            )
            pulls = guarded.runs.pulls[0]
            others, broken = pulls[:, safe] < pulls.sum(axis=1), broken_in(sure, guarded, 0, budget)
            shares = (broken_in(problem, alone, 0, budget), broken, broken & others)
            cells = " | ".join(f"{share.mean():.4f}" for share in shares)
            kept = guarded.runs.reward[0].mean() / alone.runs.reward[0].mean()
            costs = (
                "known to be 1" if known else "1" if isinstance(cost, Constant) else "0.1 to 0.9"
            )
            yield f"| {count} | {budget:,.0f} | per {per} | {costs} | {cells} | {kept:.2f} |"


def measured(problem: Problem, risk: float, budgets: list[float], runs: int, seed: int):
    """Regret in percent of OPT(B) with its standard error, and the share of broken runs."""
    scaled = [budget * problem.scales.cost for budget in budgets]
    results = simulate(
        problem, Resolve(risk=risk), budgets=scaled, runs=runs, seed=seed, progress=False
    )
    (record,) = results.records
    for g, row in enumerate(results.rows()):
        broken = float(broken_in(problem, record, g, row.budget).mean())
        reward = row.reward_rate.mean * row.budget
        if row.regret is None:
            yield "–", broken
        else:
            share = 100.0 / (reward + row.regret.mean)
            error = (row.regret.error or 0.0) * share
            yield f"{row.regret.mean * share:.2f} ± {error:.2f}", broken


def lines(
    names: list[str], budgets: list[float], runs: int, risk: float, seed: int, per: str
) -> Iterator[str]:
    """The table, line by line."""
    head = f"| {HEAD}: regret | broken |"
    yield head
    yield "|" + "---|" * (head.count("|") - 1)
    for name in names:
        problem = ready_problem(name)
        problem = problem if per == "cost" else per_base(problem, per)
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
    parser.add_argument("--per", choices=[*BASES], default="cost", help="what limits are per")
    parser.add_argument("--bad", action="store_true", help="a safe arm among bad ones")
    given = parser.parse_args()
    names, budgets = given.problem or list(PROBLEMS), given.budget or [100.0, 1000.0, 10000.0]
    how = given.runs, given.risk, given.seed
    for line in bad_lines(*how) if given.bad else lines(names, budgets, *how, given.per):
        print(line, flush=True)


if __name__ == "__main__":
    main()
