"""What each type of request gets, earns and incurs in the runs of a policy.

The runs count the pulls of every type and arm. A pull of an arm for a type earns and incurs its
mean, which the simulator knows. A policy that ignores types pulls an arm for each type as often as
the type comes. Letters: T types, K arms, M limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightrope.problem import Problem
from tightrope.problem.values import Floats
from tightrope.results import Results
from tightrope.statistics import entries


@dataclass(frozen=True)
class TypeRow:
    """One type of request, in the user's units: means over the runs of one policy at one budget.

    ``requests``: its share of the pulls. ``pull_share`` [K]: the arms' shares of its own pulls.
    ``reward``: per pull. ``rate`` [M]: its penalties in each limit's own unit.
    """

    type: str
    requests: float
    pull_share: tuple[float, ...]
    reward: float
    rate: tuple[float, ...]
    arm_names: tuple[str, ...]
    limit_names: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready entries; shares are by arm, rates by limit."""
        shares = dict(zip(self.arm_names, self.pull_share, strict=True))
        rates = dict(zip(self.limit_names, self.rate, strict=True))
        named: Any = {"arm_names": {}, "limit_names": {}}
        return entries(self, pull_share={"pull_share": shares}, rate={"rates": rates}, **named)


def rows_of_types(results: Sequence[Results], label: str, g: int) -> tuple[TypeRow, ...]:
    """The types of a policy's runs at budget number ``g``, over the results of all draws.

    Empty without contexts.
    """
    problem = results[0].problem
    if problem.contexts is None:
        return ()
    totals: list[Floats] = [_totals(one, label, g) for one in results]
    pulls, *sums = np.split(np.mean(totals, axis=0), [problem.arm_count], axis=1)
    cost, reward, *penalties = sums[0].T
    mine = pulls.sum(axis=1)  # [T]
    some = np.where(mine > 0.0, mine, 1.0)
    with np.errstate(all="ignore"):
        rates = [
            np.nan_to_num(penalty / kind.base(cost, mine, reward))
            for penalty, kind in zip(penalties, problem.limit_kinds, strict=True)
        ]
    return tuple(
        TypeRow(
            type=name,
            requests=float(mine[x] / mine.sum()),
            pull_share=tuple((pulls[x] / some[x]).tolist()),
            reward=float(reward[x] / some[x]),
            rate=tuple(float(rate[x]) for rate in rates),
            arm_names=tuple(problem.names),
            limit_names=problem.limit_names,
        )
        for x, name in enumerate(problem.shares)
    )


def _totals(results: Results, label: str, g: int) -> Floats:
    """The mean pulls of each type [T, K], then its cost, reward and penalties [T, 2 + M]."""
    problem, record = results.problem, results[label]
    if record.pulls_by_type is None:
        blind = record.normalised_runs.pulls[g].mean(axis=0)
        pulls = np.outer(list(problem.shares.values()), blind)
    else:
        pulls = record.pulls_by_type[g].mean(axis=0)
    sums = np.einsum("tk,tkc->tc", pulls, _means(problem))
    return np.column_stack([pulls, sums])


def _means(problem: Problem) -> Floats:
    """The mean cost, reward and penalties of every type and arm, [T, K, 2 + M]."""
    moments = problem.row_moments
    means = np.column_stack([moments.cost, moments.reward, moments.penalty])
    means *= [problem.scales.cost, problem.scales.reward, *problem.scales.penalties]
    return np.asarray(means.reshape(-1, problem.arm_count, means.shape[1]))
