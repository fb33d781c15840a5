"""Summary rows: what a table or a file says of one policy at one budget. K arms, M limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tightrope.problem import channel_names
from tightrope.statistics import Estimate

__all__ = ["SummaryRow"]


@dataclass(frozen=True)
class SummaryRow:
    """One policy at one budget, in the user's units: means over the runs, with standard errors.

    ``knows``: what the policy was told of the arms before the first pull: "laws", a declared fact,
    or nothing. ``budget``: in units of cost. ``runs``: how many. ``reward_rate``: reward per unit
    of budget. ``violation`` [M]: penalty per unit of budget, less the limit. ``limit_names`` [M].
    ``pull_share``, ``cost_share`` [K]: averages over runs of the run's own share; each sums to 1.
    ``pulls``: of one run. ``regret``: what the best causal policy earns (OPT(B), exact), less the
    reward, in units of reward; None where no policy keeps the limits. ``queue_max`` [M]: the runs'
    largest queue, in units of penalty. ``steps``: all pulls of all runs. ``seconds``: of elapsed
    time, without ``compile_seconds``. ``backend``: what ran it.
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
        """A dictionary that JSON takes.

        An estimate is three entries: ``reward_rate``, ``reward_rate_se`` (its standard error) and
        ``reward_rate_interval`` (95 %); None where one is not known. What there is for each limit
        is a number for one limit and otherwise a list; ``violations`` has it by the limits' names.
        """
        regret = dict.fromkeys(("regret", "regret_se", "regret_interval"))
        names = zip(self.limit_names, self.violation, strict=True)
        return {
            "policy": self.policy,
            "knows": self.knows,
            "budget": self.budget,
            "runs": self.runs,
            **self.reward_rate.described("reward_rate"),
            **_of_limits("violation", self.violation),
            "violations": {name: one.mean for name, one in names},
            "pull_share": list(self.pull_share),
            "cost_share": list(self.cost_share),
            "pulls": self.pulls,
            **(regret if self.regret is None else self.regret.described("regret")),
            "queue_max": self.queue_max[0] if len(self.violation) == 1 else list(self.queue_max),
            "steps": self.steps,
            "seconds": self.seconds,
            "compile_seconds": self.compile_seconds,
            "backend": self.backend,
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> SummaryRow:
        """The row that :meth:`as_dict` gave; entries that are missing are nothing or 0."""
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
    """What there is for each limit: one, or a list."""
    return value if isinstance(value, list) else [value]


def _of_limits(name: str, estimates: Sequence[Estimate]) -> dict[str, Any]:
    """What there is for each limit: numbers for one, otherwise lists."""
    entries = [one.described(name) for one in estimates]
    if len(entries) == 1:
        return entries[0]
    return {key: [entry[key] for entry in entries] for key in Estimate(0.0).described(name)}
