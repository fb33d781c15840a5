"""Errors from a finite log and from a finite simulation, reported separately.

The Bayesian bootstrap (Rubin 1981) gives the rows of each arm random weights, Dirichlet(1, ..., 1):
a posterior draw of the distributions, given the rows. Every draw is a problem with the same rows
and other weights, so every engine runs it with its existing kernels. The runs are spread over the
draws. The variance of the draws' means, minus the part explained by their few runs, is the log's
error.

Letters: D draws, n runs per draw, M limits, G budgets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightrope.callers import also_called
from tightrope.data.best_rates import best_rate
from tightrope.data.draws import (
    DRAWS,
    Chance,
    Draws,
    Sample,
    Split,
    arms_with_rows,
    log_notes,
    sample,
    split,
)
from tightrope.engine.arguments import Policies, budget_list, named_policies
from tightrope.engine.caveats import warn_infeasible
from tightrope.engine.progress import Progress
from tightrope.engine.simulation import SimulationSettings
from tightrope.errors import InfeasibleError
from tightrope.optimum.exact import optimum
from tightrope.optimum.pi_star import oracle_of_arms
from tightrope.problem import Problem
from tightrope.problem.ready import as_problem
from tightrope.problem.values import Floats
from tightrope.showing import html_of, text_of
from tightrope.statistics import entries


@dataclass(frozen=True)
class SureRow:
    """One policy at one budget, in the user's units, with both kinds of error.

    ``reward_rate``: reward per unit of budget. ``violation`` [M]: as in a summary row. ``broken``
    [M]: the chance that a run ends above the limit. ``regret``: OPT(B) of a draw minus its reward;
    None if no policy keeps the limits. ``pulls``: per run.
    """

    policy: str
    knows: str
    budget: float
    runs: int
    reward_rate: Split
    violation: tuple[Split, ...]
    broken: tuple[Chance, ...]
    regret: Split | None
    pulls: Split
    limit_names: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The row as a JSON-ready dictionary; values of a limit are by its name."""
        each = zip(self.limit_names, self.violation, self.broken, strict=True)
        limits = {
            name: {**one.described("violation"), "broken": chance.as_dict()}
            for name, one, chance in each
        }
        return entries(self, violation={}, broken={}, limit_names={"limits": limits})


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """The result of :func:`bootstrap`.

    ``varied``: the arms with rows; the others have distributions, which count as known. ``oracle``:
    pi*'s reward per unit of cost; ``optimum`` [G]: OPT(B), in units of reward. Both are corrected
    for the luck of the best arms in the log, see ``data.best_rates``, and None if no mixture keeps
    the limits. ``infeasible``: the share of draws in which no mixture does; ``oracle``, ``optimum``
    and regret exclude them.
    """

    problem: Problem
    budgets: tuple[float, ...]
    runs: int
    draws: int
    seed: int
    varied: tuple[str, ...]
    oracle: Split | None
    optimum: tuple[Split | None, ...]
    infeasible: float
    rows: tuple[SureRow, ...]

    def summary(self) -> list[dict[str, Any]]:
        """The rows as JSON-ready dictionaries."""
        return [row.as_dict() for row in self.rows]

    @property
    def notes(self) -> list[str]:
        """Sentences about what the errors include."""
        return log_notes(self.problem, self.varied, self.draws, self.infeasible)

    _repr_html_ = html_of

    def __str__(self) -> str:
        return text_of(self)


@also_called("budget", "budgets")
def bootstrap(
    problem: str | Problem,
    policies: Policies,
    *,
    budgets: float | Iterable[float],
    runs: int = 1000,
    draws: int = DRAWS,
    seed: int = 0,
    backend: str = "auto",
    progress: Progress = None,
) -> Bootstrap:
    """Simulate with errors that include the finite log, for arms made of observed rows.

    All ``runs`` are spread over ``draws`` problems with random weights on the rows (at least 2 runs
    each). The means are over all draws, so they differ slightly from those of ``simulate``, which
    takes the log as the truth. ``budgets`` are in the problem's cost units.

    >>> from tightrope import Arm
    >>> seen = Arm.from_rows("seen", [(1, 0, 0.2), (1, 1, 0.4), (1, 1, 0.1), (1, 0, 0.3)])
    >>> from tightrope.policies import FixedArm
    >>> found = bootstrap(Problem([seen], limit=0.5), FixedArm(1), budgets=20, runs=100, seed=1)
    >>> row = found.rows[0]
    >>> row.reward_rate.log > row.reward_rate.simulation > 0
    True
    """
    problem = as_problem(problem)
    listed = budget_list(budgets, problem)
    named = named_policies(policies)
    made = Draws.of(problem, draws, seed, runs)
    if made.vary:
        warn_infeasible(problem, listed)
    settings = SimulationSettings(seed=seed, backend=backend, progress=progress)
    samples = sample(made, [(named, listed)], runs, settings)
    best = {budget: optima(made, budget) for budget in listed}
    rates = pi_star_rates(made, listed[-1])
    rate = best_rate(made, listed[-1])
    return Bootstrap(
        problem=problem,
        budgets=tuple(listed),
        runs=samples[0].runs,
        draws=made.count if made.vary else 0,
        seed=made.seed,
        varied=arms_with_rows(problem),
        oracle=None if rate is None else rate.rate,
        optimum=tuple(_optimum(made, budget, best[budget]) for budget in listed),
        infeasible=0.0 if rates is None else float(np.isnan(rates[1:]).mean()),
        rows=tuple(_row(problem, one, best[one.budget]) for one in samples),
    )


def pi_star_rates(draws: Draws, budget: float) -> Floats | None:
    """pi*'s reward per unit of cost of the log itself and of every draw, [1 + D].

    nan if no mixture keeps the limits; None if this holds for the log, or if the arms change.
    """
    if draws.problem.changes:
        return None

    try:
        return draws.values(lambda one: oracle_of_arms(one, budget).reward_rate)
    except InfeasibleError:
        return None


def optima(draws: Draws, budget: float) -> Floats | None:
    """OPT(B) of the log itself and of every draw, [1 + D]; nan and None like ``pi_star_rates``.

    A draw's OPT(B) is pi*'s rate times B, plus the log's own difference OPT(B) - rate B: the end of
    the budget, worth about a pull. Computing it exactly takes a fifth of a second per draw if costs
    are not whole steps.
    """
    rates = None
    if draws.vary and not draws.problem.hard:
        rates = pi_star_rates(draws, budget)
    try:
        if rates is None:
            return draws.values(lambda one: optimum(one, budget))
        return np.asarray(optimum(draws.problem, budget) + budget * (rates - rates[0]))
    except InfeasibleError:
        return None


def _optimum(draws: Draws, budget: float, values: Floats | None) -> Split | None:
    """OPT(B), corrected for the luck of the best arms if the arms do not change."""
    if values is None:
        return None
    rate = best_rate(draws, budget)
    return draws.spread(values) if rate is None else rate.of(budget, float(values[0]))


def _row(problem: Problem, one: Sample, best: Floats | None) -> SureRow:
    regret = None
    if best is not None:
        kept = ~np.isnan(best[1:])
        if kept.sum() > len(kept) / 2:
            regret = split(best[1:][kept, np.newaxis] - one.reward[kept])
    limits = range(problem.penalty_count)
    return SureRow(
        policy=one.policy,
        knows=one.knows,
        budget=one.budget,
        runs=one.runs,
        reward_rate=split(one.reward / one.budget),
        violation=tuple(split(one.violation[:, :, m]) for m in limits),
        broken=tuple(Chance.of(one.broken[:, :, m]) for m in limits),
        regret=regret,
        pulls=split(one.pulls),
        limit_names=problem.limit_names,
    )
