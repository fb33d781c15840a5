"""Replay: a policy decides over recorded rows, one pull after another, until budget or rows end.

In a :class:`FullTable` every decision uses the next row, whichever arm it is. A :class:`Log` has
the outcome of one arm per row. *Rejection* (Li, Chu, Langford and Wang 2011) uses a row only if the
policy would pull its arm, and skips the others. Each row is also kept only with the chance
(smallest propensity) / (its propensity), after which every arm was equally likely in every row,
whatever the logger's choices depended on. *Queues* (Mandel, Liu, Brunskill and Popovic 2016) give
an arm's k-th pull that arm's k-th row and skip nothing; this is valid if the logger's choices did
not depend on anything that affects the outcomes.

A decision stands until a row is found for it, because nothing is reported meanwhile. Letters: n
rows, K arms, M limits, R orders of the rows.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightrope.callers import also_called
from tightrope.data.log import Log
from tightrope.data.offpolicy import require_told, uneven
from tightrope.data.passes import Passes, ReplayRun
from tightrope.data.tables import (
    FullTable,
    Limits,
    problem_of,
    require_data,
    require_outcomes,
    task_of,
)
from tightrope.engine.arguments import Policies, named_policies, one_of, seed_number
from tightrope.engine.progress import Progress
from tightrope.errors import InputError
from tightrope.policies.base import InformedPolicy, Policy
from tightrope.problem import Problem, Space, Task
from tightrope.statistics import Estimate, entries, estimate, quantile, wilson

METHODS = ("rejection", "queues")
QUANTILES = (0.05, 0.5, 0.95)
MOST_ORDERS = 10**7
LEAST_ROWS = 10  # per arm, of the rows that rejection keeps before skipping


@dataclass(frozen=True)
class ReplayRow:
    """One policy, in the user's units: means over the orders of the rows, with standard errors.

    ``budget``: the budget of the comparison; ``planned``: the budget that the policies were given.
    ``reward_rate``: reward per unit of budget, and its 5 %, 50 % and 95 % ``reward_quantiles``.
    ``violation`` [M]: penalty per unit of budget, pull or reward, or in total, minus the limit.
    ``broken`` [M]: the share of orders in which the limit was broken, and its 95 % interval.
    ``rows_used``: rows used, per order; ``rows_passed``: rows used or skipped. ``out_of_rows``: the
    number of orders that ended before the planned budget; ``reached``: the smallest cost at which
    one ended, or None; ``missed``: the arm that most of them lacked a row of.
    """

    policy: str
    knows: str
    budget: float
    planned: float
    orders: int
    reward_rate: Estimate
    reward_quantiles: tuple[float, ...]
    violation: tuple[Estimate, ...]
    broken: tuple[tuple[float, float, float], ...]
    limit_names: tuple[str, ...]
    pull_share: tuple[float, ...]
    pulls: float
    rows_used: float
    rows_passed: float
    out_of_rows: int
    reached: float | None
    missed: str | None

    def as_dict(self) -> dict[str, Any]:
        """The row as a JSON-ready dictionary; values of a limit are by its name."""
        limits = {
            name: {**one.described("violation"), "broken": share, "broken_interval": [low, high]}
            for name, one, (share, low, high) in zip(
                self.limit_names, self.violation, self.broken, strict=True
            )
        }
        levels = (f"{level:g}" for level in QUANTILES)
        quantiles = dict(zip(levels, self.reward_quantiles, strict=True))
        return entries(
            self,
            planned={"planned_budget": self.planned},
            reward_quantiles={"reward_rate_quantiles": quantiles},
            violation={"limits": limits},
            broken={},
            limit_names={},
        )


@dataclass(frozen=True)
class Replay:
    """Policies replayed over the same orders of the same rows, compared at one budget."""

    rows: tuple[ReplayRow, ...]
    budget: float  # the budget of the comparison: the largest that every run reached
    planned: float  # the budget that the policies were given
    count: int  # rows of the data
    advice: str = ""  # a hint if the rows of an arm ended

    @property
    def shortened(self) -> bool:
        """Whether the rows ended before the budget, in some order, for some policy."""
        return self.budget < self.planned

    @property
    def remark(self) -> str:
        """A caveat for a comparison at less than the planned budget, or ""."""
        if not self.shortened:
            return ""
        first = min((row for row in self.rows if row.reached is not None), key=_reached)
        rare = "" if first.missed is None else f" of arm {first.missed!r}"
        return (
            f"compared at a budget of {self.budget:.6g}, the largest that every policy reached in"
            f" every order; {first.policy} ran out of rows{rare} there, and the policies planned"
            f" for {self.planned:g}{self.advice}"
        )

    def summary(self) -> list[dict[str, Any]]:
        """A JSON-ready dictionary per policy; :class:`ReplayRow` documents the keys."""
        return [row.as_dict() for row in self.rows]

    def __iter__(self) -> Iterator[ReplayRow]:
        return iter(self.rows)


def _instead(log: Log, arm: int, method: str) -> str:
    """A hint if rows of an arm end; with rejection, a rare arm discards the others' rows."""
    rejection, helps = method == "rejection", ""
    if rejection:
        assert log.propensity is not None, "checked before"
        arm = int(log.chosen[log.propensity.argmin()])
    if 2 * len(log.arms) * log.counts[arm] < len(log):
        rare = f"arm {log.arms[arm]!r} is rare: "
        helps += f"; {rare}--without {shlex.quote(log.arms[arm])} (log.without) drops it"
    if rejection and uneven(log) is None:
        helps += "; --method queues (method='queues') skips no rows"
    return helps


def _reached(row: ReplayRow) -> float:
    return np.inf if row.reached is None else row.reached


@also_called("budgets", "budget")
def replay(
    data: FullTable | Log,
    task: Task | Problem | Limits,
    policies: Policies,
    *,
    budget: float,
    orders: int = 100,
    seed: int = 0,
    method: str = "rejection",
    with_replacement: bool = False,
    learn_from: FullTable | Log | None = None,
    weight: float = 0.3,
    progress: Progress = None,
) -> Replay:
    """Let policies decide over recorded rows, and compare them at a common budget.

    ``task``: limits on the data's penalties, by name (policies that know the distributions get
    those of the rows); or a task, or a problem for policies that know the distributions, with the
    data's arms in the same order. ``budget``: in units of cost. ``orders``: the number of shuffles
    of the rows by ``seed``; 0 uses the rows once, in their order. ``with_replacement`` draws as
    many rows as there are, like a simulation. ``method``, for a log: "rejection" uses only rows of
    the chosen arm; "queues" gives each arm its own rows in order. Both need propensities. Where the
    data and the task have contexts, each row is a request of its type. ``learn_from``, ``weight``:
    as for a :class:`Controller`. ``progress``: as for :func:`simulate`. There are many parameters
    because each is an independent choice.

    A run can end early because it has no more rows, so all are compared at the largest budget that
    every run reached. Intervals are over orders of *these* rows; they do not include the
    uncertainty of few rows.

    >>> from tightrope import FullTable
    >>> from tightrope.policies import UniformRandom
    >>> table = FullTable(["a", "b"], [], [[(1, 0.2), (1, 0.4)]] * 50)
    >>> found = replay(table, {}, UniformRandom(), budget=20, orders=2)
    >>> found.budget, found.rows[0].pulls, found.rows[0].rows_used
    (20, 21.0, 21.0)
    """
    named, seed = named_policies(policies), seed_number(seed)
    one_of("method", method, METHODS)
    require_names(data.space if isinstance(data, Log) else None)
    task = _fitting(data, task, named)
    task.normal_budget(budget)
    if not isinstance(orders, int) or isinstance(orders, bool) or not 0 <= orders <= MOST_ORDERS:
        raise InputError(f"orders = {orders!r}: must be a whole number from 0 to {MOST_ORDERS:,}")
    if isinstance(data, Log):
        _require_usable(data, method)
        if task.stated.contexts is not None and method == "queues":
            raise InputError("method = 'queues': must be 'rejection' for requests with types")
    passes = Passes(
        data, task, orders, seed, method == "queues", with_replacement, learn_from, weight
    )
    found = passes.run_all(named, budget, budget, progress, "replaying")
    ended = [run.reached for runs in found.values() for run in runs if run.reached is not None]
    common = min([float(budget), *ended])
    if ended:
        if common <= 0.0:
            raise InputError(f"budget = {budget:g}: some order of the rows ends before any cost")
        again = passes.run_all(named, budget, common, progress, "replaying to the common budget")
    else:
        again = found
    rows = [
        _summarised(label, named[label], task.task, found[label], runs, common, float(budget))
        for label, runs in again.items()
    ]
    missed = [row.missed for row in rows if row.reached == common]
    advice = ""
    if isinstance(data, Log) and missed and missed[0] is not None:
        advice = _instead(data, list(data.arms).index(missed[0]), method)
    return Replay(tuple(rows), common if ended else budget, budget, len(data), advice)


def require_names(space: Space | None) -> None:
    """Raise for a log whose arms are the numbers of an interval or a box."""
    if space is not None:
        ends = ",".join(f"{low:g},{high:g}" for low, high in space.ranges.values())
        given = f"--arm {shlex.quote(','.join(space.ranges))} --interval {ends}"
        raise InputError(
            f"interval {' and '.join(space.ranges)!r}: cannot be replayed, because the log rarely"
            " has the number that a policy chooses; instead simulate it: tightrope plan LOG"
            f" {given}"
        )


def _require_usable(log: Log, method: str) -> None:
    """Raise if the log does not support a replay by this method."""
    require_told(log)
    require_outcomes(log, log.outcomes.T, np.arange(len(log)), log.chosen)
    assert log.propensity is not None
    smallest, least = float(log.propensity.min()), LEAST_ROWS * len(log.arms)
    if method == "queues":
        if (arm := uneven(log)) is not None:
            raise InputError(
                f"method = 'queues': propensities of arm {log.arms[arm]!r} differ between rows, so"
                " choices depended on something; must be 'rejection'"
            )
    elif (kept := float((smallest / log.propensity).sum())) < least:
        rare = int(log.chosen[log.propensity.argmin()])
        raise InputError(
            f"propensity of arm {log.arms[rare]!r}: the smallest is {smallest:.4g}, so "
            f"rejection keeps about {kept:.3g} of {len(log):,} rows; must keep {least}, "
            f"{LEAST_ROWS} for each arm{_instead(log, rare, method)}"
        )


def _fitting(
    data: FullTable | Log, task: Task | Problem | Limits, policies: Mapping[str, Policy]
) -> Task | Problem:
    """The task, which must have the data's arms and penalties; made from limits if necessary."""
    require_data(data)
    if not len(data):
        raise InputError("data: has no rows; at least one is needed")
    if isinstance(task, Mapping):
        informed = any(isinstance(policy, InformedPolicy) for policy in policies.values())
        return problem_of(data, task) if informed else task_of(data, task)
    if not isinstance(task, Task | Problem):
        allowed = "limits by name, a Task or a Problem"
        raise InputError(f"task = {type(task).__name__}: must be {allowed}")
    if tuple(task.names) != tuple(data.arms):
        raise InputError(
            f"task: its arms {', '.join(task.names)} must be those of the data, in the same order:"
            f" {', '.join(data.arms)}"
        )
    for name in task.told_names:
        if name not in data.penalties:
            raise InputError(f"limit {name!r}: the data has no such penalty")
    if task.stated.contexts is not None and data.contexts is None:
        raise InputError("data: has no contexts, which the task needs")
    return task


def _summarised(
    label: str,
    policy: Policy,
    task: Task,
    planned_runs: Sequence[ReplayRun],
    runs: Sequence[ReplayRun],
    budget: float,
    planned: float,
) -> ReplayRow:
    """The row of one policy; ``planned_runs`` went on to the planned budget, or the last row."""
    pulls = np.array([run.pulls for run in runs])
    penalty = np.array([run.penalty for run in runs]).reshape(len(runs), task.penalty_count)
    totals = pulls.sum(axis=1)
    earned = np.array([run.reward for run in runs])
    above = task.violations(penalty, budget, totals, earned, planned)
    broken = (above > 0.0).sum(axis=0)
    low, high = wilson(broken, len(runs))
    reached = [run.reached for run in planned_runs if run.reached is not None]
    missed = Counter(run.missed for run in planned_runs if run.missed is not None).most_common(1)
    return ReplayRow(
        policy=label,
        knows=policy.knows,
        budget=budget,
        planned=planned,
        orders=len(runs),
        reward_rate=estimate(earned / budget),
        reward_quantiles=tuple(quantile(earned / budget, level) for level in QUANTILES),
        violation=tuple(map(estimate, above.T)),
        broken=tuple(zip((broken / len(runs)).tolist(), low.tolist(), high.tolist(), strict=True)),
        limit_names=task.limit_names,
        pull_share=tuple((pulls / totals[:, None]).mean(axis=0).tolist()),
        pulls=float(totals.mean()),
        rows_used=float(totals.mean()),
        rows_passed=sum(run.passed for run in runs) / len(runs),
        out_of_rows=len(reached),
        reached=min(reached, default=None),
        missed=task.names[missed[0][0]] if missed else None,
    )
