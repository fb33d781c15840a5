"""How fast each policy's regret grows with log B, beside the limit of learning C.

    python -m benchmarks.growth [PROBLEM] [--policy P ...] [--budget 1e4 1e5 1e6] [--runs 64]
                                [--seed 0] [--backend auto|cpu|gpu]

Prints rows of CSV. *Regret* is OPT(B) less what was earned. *Priced* adds what the penalties beyond
the limits are worth at the multipliers, and takes off what is left of them: up to a constant, what
was lost by pulling arms outside the best mixture, bounded from below by (C - o(1)) log B; see
docs/learning-limit.md. *Limit* is C log B. *Growth* is what the priced regret rises by per unit of
log B, since the budget before, over C. Columns that end in ``_se`` are standard errors. What is
earned is taken from the cost on each arm and its mean rate, which has the same mean as the rewards
and less noise.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise

import numpy as np

from benchmarks.rows import print_rows
from tightrope import Policy, Problem, load_problem, optimum, parse_policy, simulate
from tightrope.errors import OutsideTheoryWarning, PolicyError, TightropeError
from tightrope.policies import POLICIES
from tightrope.policies.base import set_up
from tightrope.runs import Runs
from tightrope.statistics import estimate
from tightrope.theory import LearningLimit, learning_limit

BUDGETS = (1e4, 1e5, 1e6)  # in largest costs of one pull
RUNS = 64


@dataclass(frozen=True)
class Growth:
    """One policy at one budget, in largest costs of one pull; rewards in the user's units.

    ``growth``: None at the first budget, and where C is 0 or not known.
    """

    policy: str
    knows: str
    budget: float
    regret: float
    regret_se: float | None
    priced: float
    priced_se: float | None
    share: float  # the regret over OPT(B)
    limit: float | None  # C log B
    growth: float | None = None
    growth_se: float | None = None


def contestants() -> list[str]:
    """The arena's, but for those that forget: the arms do not change."""
    return [text for policy in POLICIES.values() for text in policy.contestants]


def growth(
    problem: Problem,
    policies: Iterable[str | Policy] = (),
    budgets: Sequence[float] = BUDGETS,
    *,
    runs: int = RUNS,
    seed: int = 0,
    backend: str = "auto",
) -> Iterator[Growth]:
    """A row per policy and budget, as they are made; who cannot take part is left out."""
    limit, scale = learning_limit(problem), problem.scales.cost
    sizes = sorted(budgets)
    best = [optimum(problem, budget * scale) for budget in sizes]
    for given in list(policies) or contestants():
        policy = parse_policy(given) if isinstance(given, str) else given
        try:
            for budget in sizes:
                set_up(policy, problem, budget)
        except PolicyError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutsideTheoryWarning)
            found = simulate(
                problem,
                policy,
                budgets=[budget * scale for budget in sizes],
                runs=runs,
                seed=seed,
                backend=backend,
                progress=False,
            )
        record = found.records[0]
        mine = [
            _row(problem, limit, policy, budget, opt, record.runs[i])
            for i, (budget, opt) in enumerate(zip(sizes, best, strict=True))
        ]
        yield mine[0]
        for before, after in pairwise(mine):
            yield _grown(before, after, limit.constant)


def _row(
    problem: Problem, limit: LearningLimit, policy: Policy, budget: float, best: float, runs: Runs
) -> Growth:
    """``runs`` [R] are those at the budget, in the user's units."""
    prices, scales = np.array(limit.multiplier), problem.scales
    moments, cost = problem.moments, budget * problem.scales.cost
    gains = (moments.reward_rate * scales.reward) - moments.penalty_rate @ (
        prices * scales.penalties
    )
    allowed = float(prices @ np.array(problem.limits)) * cost
    lost = best - allowed - runs.arm_cost @ (gains / scales.cost)  # [R]
    priced, regret = estimate(lost), estimate(lost - (runs.penalty @ prices - allowed))
    return Growth(
        policy=policy.label,
        knows=policy.knows,
        budget=budget,
        regret=regret.mean,
        regret_se=regret.error,
        priced=priced.mean,
        priced_se=priced.error,
        share=regret.mean / best,
        limit=limit.regret(cost),
    )


def _grown(before: Growth, after: Growth, constant: float | None) -> Growth:
    """The later row, with its growth since the earlier one."""
    if not constant:
        return after
    unit = constant * math.log(after.budget / before.budget)
    error = None
    if before.priced_se is not None and after.priced_se is not None:
        error = math.hypot(before.priced_se, after.priced_se) / unit
    return replace(after, growth=(after.priced - before.priced) / unit, growth_se=error)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problem", nargs="?", default="arena-random-5")
    parser.add_argument("--policy", action="append", default=[])
    parser.add_argument("--budget", type=float, nargs="+", default=BUDGETS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", default="auto")
    options = parser.parse_args(arguments)
    try:
        problem = load_problem(options.problem)
        rows = growth(
            problem,
            options.policy,
            options.budget,
            runs=options.runs,
            seed=options.seed,
            backend=options.backend,
        )
        print_rows({**asdict(row), "backend": options.backend} for row in rows)
    except TightropeError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
