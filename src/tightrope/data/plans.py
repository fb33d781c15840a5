"""The results of a plan: rows per policy and budget, the value of more, searches.

Letters: M limits, Q quantiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tightrope.data.by_type import TypeRow
from tightrope.data.draws import Chance, Split
from tightrope.problem import Problem
from tightrope.showing import html_of, text_of, write_report
from tightrope.statistics import entries

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
OFTEN = 0.5  # a limit that is broken in more runs than this is not kept


@dataclass(frozen=True)
class PlanRow:
    """One policy at one budget, in the user's units.

    ``mean``: the mean reward of a run. ``reward``, ``pulls`` [Q]: quantiles over runs of the reward
    and of the number of pulls. ``rate`` [M][Q]: quantiles of the penalty in each limit's own unit.
    ``broken`` [M]: the chance to end above each limit; ``any_broken``: above any of them. ``runs``:
    over all draws. ``by_type``: what each type of request gets, earns and incurs.
    """

    policy: str
    knows: str
    budget: float
    runs: int
    mean: Split
    reward: tuple[float, ...]
    pulls: tuple[float, ...]
    rate: tuple[tuple[float, ...], ...]
    broken: tuple[Chance, ...]
    any_broken: Chance
    limit_names: tuple[str, ...]
    by_type: tuple[TypeRow, ...] = ()

    @property
    def median(self) -> float:
        """The median reward."""
        return self.reward[QUANTILES.index(0.5)]

    def as_dict(self) -> dict[str, Any]:
        """The row as a JSON-ready dictionary; quantiles are by their percentage."""
        limits = {
            name: {"rate": _by_share(rate), "broken": chance.as_dict()}
            for name, rate, chance in zip(self.limit_names, self.rate, self.broken, strict=True)
        }
        by_type = {"by_type": [one.as_dict() for one in self.by_type]} if self.by_type else {}
        return entries(
            self,
            reward={"reward": _by_share(self.reward)},
            pulls={"pulls": _by_share(self.pulls)},
            rate={"limits": limits},
            broken={},
            limit_names={},
            by_type=by_type,
        )


def _by_share(values: Sequence[float]) -> dict[str, float]:
    """Quantiles by percentage: "5", "25", "50", "75", "95"."""
    return {f"{100 * share:g}": value for share, value in zip(QUANTILES, values, strict=True)}


@dataclass(frozen=True)
class LimitWorth:
    """The value of a slightly looser limit.

    ``multiplier``: reward per unit of penalty. ``per_unit``: reward at the budget per unit of the
    limit, the slope; it holds while the same arms stay best. ``step``: a small amount, in the
    limit's unit; ``per_step``: its value.
    """

    name: str
    limit: float
    words: str
    multiplier: Split
    per_unit: Split
    step: float

    @property
    def per_step(self) -> Split:
        """The value of raising the limit by ``step``, in reward."""
        one, step = self.per_unit, self.step
        return Split(one.mean * step, one.simulation * step, one.log * step)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready entries."""
        return entries(
            self,
            name={},
            words={"per": self.words},
            per_unit=self.per_unit.described("reward_per_unit"),
            step={"step": self.step, **self.per_step.described("reward_per_step")},
        )


@dataclass(frozen=True)
class Worth:
    """The value of the budget, and of one more unit of budget or limit, if distributions are known.

    ``optimum``: OPT(B). ``budget_unit``: reward per additional unit of budget, the slope of OPT at
    this budget for large budgets. Errors are those of the log, from the draws in which some mixture
    keeps the limits: all except the share ``infeasible``.
    """

    budget: float
    optimum: Split
    budget_unit: Split
    infeasible: float
    limits: tuple[LimitWorth, ...]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready entries."""
        unit = self.budget_unit.described("reward_per_budget_unit")
        limits = {one.name: one.as_dict() for one in self.limits}
        return entries(self, budget_unit=unit, limits={"limits": limits})


@dataclass(frozen=True)
class Earned:
    """The smallest budget at which a policy earns the target with the requested chance.

    ``budget`` is None if even ``tried``, the largest tried budget, is not enough. ``error``:
    standard error of the budget, from the runs and draws. ``share``: of the runs at ``budget`` that
    reach the target; ``below``: the largest budget tried at which too few do.
    """

    policy: str
    target: float
    chance: float
    budget: float | None
    error: float | None
    share: float
    below: float
    tried: float
    runs: int

    as_dict = entries


@dataclass(frozen=True)
class Promise:
    """The tightest limit that ``policy`` keeps at a budget, up to a ``risk``.

    ``limit`` is None if none was found, with a ``reason``. It is measured: ``broken`` of ``runs``
    new runs broke the limit, so the chance is at most ``bound`` with 95 % confidence. ``least``:
    the smallest limit that some arm keeps on average. ``median``: reward of a run under the limit.
    """

    limit_name: str
    words: str
    policy: str
    budget: float
    risk: float
    limit: float | None
    least: float
    broken: int = 0
    runs: int = 0
    bound: float = 1.0
    median: float | None = None
    reason: str = ""

    @property
    def kept(self) -> bool:
        """Whether the runs show that the limit is broken with at most the risk."""
        return self.bound <= self.risk

    def refused(self, reason: str) -> Promise:
        """The same measurement without a limit, for a reason."""
        return replace(self, limit=None, median=None, reason=reason)

    as_dict = entries


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """The answers of :func:`plan`: rows per policy and budget, worth, searches, fan charts.

    ``fan``: rows at a grid of budgets, including the requested ones. ``draws``: of the bootstrap, 0
    without rows. ``notes``: sentences about what the numbers include. ``unit``: of costs, such as
    $, in reports.
    """

    problem: Problem
    budgets: tuple[float, ...]
    runs: int
    draws: int
    seed: int
    rows: tuple[PlanRow, ...]
    worth: tuple[Worth, ...]
    earned: tuple[Earned, ...]
    promises: tuple[Promise, ...]
    fan: tuple[PlanRow, ...]
    notes: tuple[str, ...]
    unit: str = ""

    def summary(self) -> dict[str, Any]:
        """Everything as a JSON-ready dictionary."""
        return entries(
            self,
            problem={"problem": self.problem.name},
            earned={"earn": [one.as_dict() for one in self.earned]},
            promises={"promise": [one.as_dict() for one in self.promises]},
        )

    def __repr__(self) -> str:
        budgets = ", ".join(f"{budget:g}" for budget in self.budgets)
        labels = ", ".join(dict.fromkeys(row.policy for row in self.rows))
        return f"Plan({self.problem!r}; budgets: {budgets}; policies: {labels}; runs: {self.runs})"

    _repr_html_ = html_of

    def __str__(self) -> str:
        return text_of(self)

    def write(self, folder: str) -> tuple[str, ...]:
        """Write plan.html, plan.json, plan.csv, plan.png and plan.svg; returns their paths."""
        return write_report(self, folder)
