"""Summary rows: one policy at one budget, for tables and files. Letters: K arms, M limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tightrope.problem import channel_names
from tightrope.statistics import Estimate, entries


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
