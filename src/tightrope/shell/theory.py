"""``tightrope oracle | theory``: results that need no simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import tightrope
from tightrope.formats import finite
from tightrope.shell.options import Budget, Json, ProblemName
from tightrope.shell.output import answer, print_lines

if TYPE_CHECKING:
    from tightrope.optimum.pi_star import Oracle


def oracle(problem: ProblemName, *, json: Json = False, budget: float | None = None) -> int:
    """Print pi*, the best stationary policy, and the exact optimum over all policies.

    tightrope oracle paper --budget 1000

    budget B: also print OPT(B), the exact optimum at this budget
    """
    from tightrope.optimum.pi_star import oracle_of_phases

    loaded = tightrope.load_problem(problem)

    if loaded.changes:
        row = _over_phases(loaded, [_described(one) for one in oracle_of_phases(loaded)])
    else:
        row = _described(tightrope.oracle(loaded, budget))
    if budget is not None:
        row["optimum"] = tightrope.optimum(loaded, budget)
    return answer(json, row, lambda: _print_oracle(loaded, row, budget))


def _print_oracle(problem: tightrope.Problem, row: Mapping[str, Any], budget: float | None) -> None:
    from tightrope.report.table import print_oracle

    print_oracle(problem, row, budget)


def _described(best: Oracle) -> dict[str, Any]:
    """pi* as JSON has it: a number where there is one limit, and all numbers by limit."""
    row: dict[str, Any] = {"reward_rate": best.reward_rate}
    for name in ("penalty_rate", "multiplier"):
        values = [float(value) for value in getattr(best, name)]
        row[name] = values[0] if len(values) == 1 else values
        row[f"{name}s"] = dict(zip(best.limit_names, values, strict=True))
    row |= {name: getattr(best, name).tolist() for name in ("pull_share", "cost_share")}
    if best.error is not None:
        row |= {"error": best.error, "numbers": _shares(best.numbers)}
    if best.bound:
        row["bound"] = best.bound
    if best.by_type is not None:
        row["by_type"] = best.shares_by_type
    if best.numbers_by_type:
        each = best.numbers_by_type.items()
        row["numbers_by_type"] = {name: _shares(numbers) for name, numbers in each}
    return row


def _shares(numbers: Mapping[Any, float]) -> list[dict[str, Any]]:
    """The numbers of a mixture, each with its share of the pulls."""
    return [{"value": value, "pull_share": share} for value, share in numbers.items()]


def _over_phases(problem: tightrope.Problem, best: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The best mixture of each phase of a problem whose arms change, and the overall rates."""

    def mean(rates: Sequence[Any]) -> Any:
        if isinstance(rates[0], list):
            return [mean(column) for column in zip(*rates, strict=True)]
        if isinstance(rates[0], dict):
            return {name: mean([one[name] for one in rates]) for name in rates[0]}
        return sum(p.share * rate for p, rate in zip(problem.phases, rates, strict=True))

    rows = [{"start": p.start, **one} for p, one in zip(problem.phases, best, strict=True)]
    rates = ("reward_rate", "penalty_rate", "penalty_rates")
    return {
        **{key: mean([one[key] for one in best]) for key in rates},
        **{key: best[0][key] for key in ("multiplier", "multipliers")},
        "phases": rows,
    }


def theory(
    problem: ProblemName,
    *,
    json: Json = False,
    budget: Budget,
    v0: float = 1.0,
    delta0: float = 0.5,
    alpha: float = 2.0,
) -> int:
    """Print the paper's bounds for a problem, and the budget from which each is nontrivial.

    tightrope theory paper --budget 10000

    v0: parameter of the paper's policies
    delta0: parameter of the paper's policies
    alpha: parameter of LyOn
    """
    from tightrope.optimum.pi_star import at_budget
    from tightrope.theory.bounds import bounds, learning_bounds

    loaded = at_budget(tightrope.load_problem(problem), budget)
    if loaded.penalty_count == 1 and not loaded.not_per_cost:
        found = bounds(loaded, budget, v0, delta0, alpha)
    else:
        found = learning_bounds(loaded, budget)
    rows = finite([asdict(bound) for bound in found])
    return answer(json, rows, lambda: _print_theory(loaded, rows, budget))


def _print_theory(
    problem: tightrope.Problem, rows: Sequence[Mapping[str, Any]], budget: float
) -> None:
    from tightrope.report.table import print_theory

    print_theory(rows, budget)
    print_lines(dict.fromkeys(row["obstacle"] for row in rows if row["obstacle"]))
    if problem.penalty_count != 1:
        print(f"penalties = {problem.penalty_count}: the paper's bounds are for exactly one limit")
    elif problem.not_per_cost:
        print(f"{problem.not_per_cost}: the paper's bounds are for a limit per unit of cost")
