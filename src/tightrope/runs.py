"""Finished runs as arrays, how they were made, their violations of limits, and summary rows.

Letters: G budgets, R runs, K arms, M penalties. Engines and files hold runs in normalised units
(outcomes in [0, 1]); ``Record.runs`` are in the user's units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.names import in_table
from tightrope.problem import Problem, Scales, channel_names
from tightrope.problem.values import Floats
from tightrope.statistics import Estimate, entries

NORMALISED = Scales()


@dataclass(frozen=True)
class Runs:
    """Finished runs: R runs of one policy at one budget, or [G, R] of them at G budgets."""

    reward: Floats  # [G, R]
    cost: Floats  # [G, R]
    penalty: Floats  # [G, R, M]
    pulls: npt.NDArray[np.int64]  # [G, R, K]
    arm_cost: Floats  # [G, R, K]
    queue: Floats  # [G, R, M] at the end
    queue_max: Floats  # [G, R, M]

    @classmethod
    def of(cls, values: Callable[[str], npt.NDArray[Any]]) -> Runs:
        """Runs from a function that returns the array of each field.

        In C order, as after reading a file: sums depend on the order in the last bit.
        """
        return cls(*(np.asarray(values(field.name), order="C") for field in fields(cls)))

    @classmethod
    def join(cls, parts: Sequence[Runs], axis: int) -> Runs:
        """The parts concatenated along ``axis``."""
        return cls.of(lambda name: np.concatenate([getattr(p, name) for p in parts], axis))

    @classmethod
    def stack(cls, parts: Sequence[Runs]) -> Runs:
        """Parts at G budgets, stacked along a new first dimension."""
        return cls.of(lambda name: np.stack([getattr(part, name) for part in parts]))

    def __getitem__(self, key: Any) -> Runs:
        """The runs at a numpy index of the first dimensions (budgets, runs)."""
        return Runs.of(lambda name: getattr(self, name)[key])

    def over_types(self, arms: int) -> Runs:
        """The same runs, with rows ``type * K + arm`` summed over the types, for K ``arms``."""
        if self.pulls.shape[-1] == arms:
            return self

        def summed(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
            return np.asarray(rows.reshape(*rows.shape[:-1], -1, arms).sum(axis=-2))

        return replace(self, pulls=summed(self.pulls), arm_cost=summed(self.arm_cost))

    def in_units(self, scales: Scales) -> Runs:
        """These normalised runs in the user's units, given the ``scales`` of these units."""
        if all(scale == 1.0 for scale in scales.channels):
            return self
        penalties = np.asarray(scales.penalties)
        return Runs(
            reward=self.reward * scales.reward,
            cost=self.cost * scales.cost,
            penalty=self.penalty * penalties,
            pulls=self.pulls,
            arm_cost=self.arm_cost * scales.cost,
            queue=self.queue * penalties,
            queue_max=self.queue_max * penalties,
        )


@dataclass(frozen=True, repr=False)
class Record:
    """One policy's runs at every budget, and how they were made.

    ``normalised_runs`` come from the engine. :attr:`runs` are in the user's units once the record
    is part of a :class:`Results`, which sets the scales.
    """

    label: str
    normalised_runs: Runs  # [G, R]
    seconds: tuple[float, ...]  # [G] each budget's share of the elapsed time
    compile_seconds: float
    backend: str
    knows: str = ""  # its knowledge about the arms: "laws", a declared fact, or ""
    policy: str = ""  # the policy's repr; "" if unknown
    scales: Scales = NORMALISED
    pulls_by_type: npt.NDArray[np.int64] | None = None  # [G, R, T, K] if it uses types; not saved

    @cached_property
    def runs(self) -> Runs:
        """The runs [G, R] in the user's units."""
        return self.normalised_runs.in_units(self.scales)

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The normalised runs by field."""
        return dict(vars(self.normalised_runs))

    def __repr__(self) -> str:
        budgets, runs = self.normalised_runs.reward.shape
        return f"Record({in_table(self.label)}; budgets: {budgets}; runs: {runs:,}; {self.backend})"


def limit_bases(problem: Problem, runs: Runs, budget: float) -> Floats:
    """The divisors of normalised runs' penalties, [R, M], in the user's units."""
    found, pulls = np.empty(runs.penalty.shape), runs.pulls.sum(axis=1)
    for m, limit in enumerate(problem.limit_kinds):
        found[:, m] = limit.base(budget, pulls, runs.reward * problem.scales.reward)
    return found


def net_penalties(problem: Problem, runs: Runs) -> Floats:
    """Each run's total of Y - c (base - X), [R, M]; everything is normalised."""
    if not problem.not_per_cost:
        return runs.penalty
    cost, pulls = runs.arm_cost.sum(axis=1), runs.pulls.sum(axis=1)
    kinds = problem.limit_kinds
    totals = np.stack([kind.unit.pick(cost, pulls, runs.reward) for kind in kinds])  # [M, R]
    return np.asarray(runs.penalty - problem.moments.limits * (totals - cost).T)


def violations(problem: Problem, runs: Runs, budget: float) -> Floats:
    """Each normalised run's violation of each limit, [R, M], in the user's units."""
    penalty = runs.penalty * np.asarray(problem.scales.penalties)
    reward = runs.reward * problem.scales.reward
    return problem.violations(penalty, budget, runs.pulls.sum(axis=1), reward)


@dataclass(frozen=True)
class SummaryRow:
    """One policy at one budget, in the user's units: means over the runs, with standard errors.

    ``knows``: the policy's knowledge about the arms before the first pull: "laws" (their
    distributions), a declared fact, or "". ``budget``: in units of cost. ``runs``: their number.
    ``reward_rate``: reward per unit of budget. ``violation`` [M]: penalty per unit of budget, minus
    the limit. ``limit_names`` [M]. ``pull_share``, ``cost_share`` [K]: each run's shares of pulls
    and of cost, averaged over runs; each sums to 1. ``pulls``: per run. ``regret``: the exact
    optimum OPT(B) minus the reward, in units of reward; None if no policy keeps the limits.
    ``queue_max`` [M]: a run's largest queue, in units of penalty. ``steps``: the pulls of all runs
    together. ``seconds``: elapsed time without ``compile_seconds``. ``backend``: the engine that
    ran it.
    """

    policy: str
    knows: str
    budget: float
    runs: int
    reward_rate: Estimate
    violation: tuple[Estimate, ...]
    limit_names: tuple[str, ...]
    pull_share: tuple[float, ...]
    cost_share: tuple[float, ...]
    pulls: float
    regret: Estimate | None
    queue_max: tuple[float, ...]
    steps: int = 0
    seconds: float = 0.0
    compile_seconds: float = 0.0
    backend: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The row as a JSON-ready dictionary.

        An estimate becomes three entries: ``reward_rate``, ``reward_rate_se`` (standard error) and
        ``reward_rate_interval`` (95 %), None where unknown. Values per limit are a number if there
        is one limit and a list otherwise; ``violations`` maps each limit's name to its violation.
        """
        unknown = dict.fromkeys(Estimate(0.0).described("regret"))
        means, queues = [one.mean for one in self.violation], list(self.queue_max)
        return entries(
            self,
            SummaryRow,
            violation=_of_limits("violation", self.violation),
            limit_names={"violations": dict(zip(self.limit_names, means, strict=True))},
            regret=unknown if self.regret is None else self.regret.described("regret"),
            queue_max={"queue_max": queues[0] if len(means) == 1 else queues},
        )

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> SummaryRow:
        """The row from which :meth:`as_dict` made ``row``; missing entries get their defaults."""
        violation, errors = _listed(row["violation"]), _listed(row.get("violation_se"))
        regret = row.get("regret")
        facts = ("steps", "seconds", "compile_seconds", "backend")
        return cls(
            policy=row["policy"],
            knows=row.get("knows", ""),
            budget=row["budget"],
            runs=row["runs"],
            reward_rate=Estimate(row["reward_rate"], row.get("reward_rate_se")),
            violation=tuple(map(Estimate, violation, errors)),
            limit_names=tuple(row.get("violations", channel_names(len(violation))[2:])),
            pull_share=tuple(row["pull_share"]),
            cost_share=tuple(row.get("cost_share", ())),
            pulls=row["pulls"],
            regret=None if regret is None else Estimate(regret, row.get("regret_se")),
            queue_max=tuple(_listed(row.get("queue_max", []))),
            **{key: row[key] for key in facts if key in row},
        )


def _listed(value: Any) -> list[Any]:
    """Values per limit as a list, from a list or a single number."""
    return value if isinstance(value, list) else [value]


def _of_limits(name: str, estimates: Sequence[Estimate]) -> dict[str, Any]:
    """Estimates per limit as entries: numbers for one limit, lists otherwise."""
    entries = [one.described(name) for one in estimates]
    if len(entries) == 1:
        return entries[0]
    return {key: [entry[key] for entry in entries] for key in Estimate(0.0).described(name)}
