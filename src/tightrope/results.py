"""What simulated runs brought: arrays, summaries with intervals, merging, one file on the disk.

Letters: G budgets, R runs, K arms, M penalties. Arrays are in normalised units (outcomes in
[0, 1]); everything a summary reports is in the user's units.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tightrope.errors import InfeasibleError, ProblemError, ResultsError
from tightrope.files import Declared, read_arrays, read_header, write_arrays
from tightrope.optimum import optimum
from tightrope.problem import Problem

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Record", "Results", "Runs"]

Floats = npt.NDArray[np.float64]
FORMAT = 1  # of the file; a reader refuses what it does not know
NORMAL_95 = 1.959963984540054


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
    def join(cls, parts: Sequence[Runs], axis: int) -> Runs:
        """The parts behind one another."""
        return cls(
            *(
                _packed(np.concatenate([getattr(p, f.name) for p in parts], axis))
                for f in fields(cls)
            )
        )

    @classmethod
    def stack(cls, parts: Sequence[Runs]) -> Runs:
        """Parts at several budgets, as one with a first dimension G."""
        return cls(*(_packed(np.stack([getattr(p, f.name) for p in parts])) for f in fields(cls)))

    def __getitem__(self, key: Any) -> Runs:
        """Some budgets, or some runs: any numpy index of the first dimensions."""
        return Runs(*(_packed(getattr(self, f.name)[key]) for f in fields(self)))


def _packed(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """In C order, as after a trip to the disk: a sum's last bit depends on the order in memory."""
    return np.asarray(values, order="C")


@dataclass(frozen=True)
class Record:
    """One policy's runs at every budget, and how they were made."""

    label: str
    runs: Runs
    seconds: tuple[float, ...]  # [G] each budget's share of the elapsed time
    compile_seconds: float
    backend: str
    knows: str = ""  # of the arms before the first pull: "laws", a declared fact, or nothing
    policy: str = ""  # what the label stands for, the policy's repr; "" where it is not known


@dataclass(frozen=True)
class Results:
    """Runs of several policies on one problem, at the same budgets, run numbers and seed."""

    problem: Problem
    budgets: tuple[float, ...]  # [G] in the user's units
    seed: int
    run_numbers: npt.NDArray[np.int64]  # [R]
    records: tuple[Record, ...]
    version: str
    complete: bool = True  # False: interrupted, only the finished runs are here

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", int(self.seed))  # JSON knows no numpy.int64

    @property
    def runs(self) -> int:
        """How many runs each policy made at each budget."""
        return len(self.run_numbers)

    @property
    def labels(self) -> tuple[str, ...]:
        """The policies, in order."""
        return tuple(record.label for record in self.records)

    def __getitem__(self, label: str) -> Record:
        """A policy's record by its label."""
        for record in self.records:
            if record.label == label:
                return record
        raise ResultsError(f"no policy {label!r} in these results; known: {', '.join(self.labels)}")

    def summary(self) -> list[dict[str, Any]]:
        """A row per policy and budget, in the user's units; see :func:`summarise` for its keys."""
        best = [_optimum(self.problem, budget) for budget in self.budgets]
        return [
            summarise(self.problem, record, g, budget, best[g])
            for record in self.records
            for g, budget in enumerate(self.budgets)
        ]

    def to_pandas(self) -> pd.DataFrame:
        """The summary as a pandas table."""
        import pandas as pd

        return pd.DataFrame(self.summary())

    def merge(self, *others: Results) -> Results:
        """These runs and those of ``others``: disjoint runs of the same work, in run order."""
        parts = [self, *others]
        for other in others:
            self._require_same_work(other)
        numbers = np.concatenate([part.run_numbers for part in parts])
        order = np.argsort(numbers, kind="stable")
        if len(np.unique(numbers)) < len(numbers):
            twice = int(numbers[order][:-1][np.diff(numbers[order]) == 0][0])
            raise ResultsError(f"run {twice} is in more than one of the results; runs must differ")
        records = [_merge_records([part[label] for part in parts], order) for label in self.labels]
        return replace(
            self,
            run_numbers=numbers[order],
            records=tuple(records),
            complete=all(part.complete for part in parts),
        )

    def _require_same_work(self, other: Results) -> None:
        if self.problem != other.problem:
            raise ResultsError("cannot merge: the problem differs")
        for what in ("budgets", "seed", "labels", "version"):
            mine, theirs = getattr(self, what), getattr(other, what)
            if mine != theirs:
                raise ResultsError(f"cannot merge: {what} differs ({theirs!r}, not {mine!r})")
        for one, two in zip(self.records, other.records, strict=True):
            same = "" in (one.policy, two.policy) or one.policy == two.policy
            if not same or one.knows != two.knows:
                raise ResultsError(
                    f"cannot merge: {one.label!r} is another policy there"
                    f" ({two.policy or two.knows!r}, not {one.policy or one.knows!r})"
                )

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write one file (a zip of arrays and a JSON header with a checksum), whole or not at all.

        Interrupted results do not take the place of complete ones, unless ``overwrite`` is given.
        """
        if not (self.complete or overwrite) and _holds_complete(path):
            raise ResultsError(
                f"{os.fspath(path)} holds complete results, these were interrupted; name another"
                " file, or overwrite=True"
            )
        header = {
            "format": FORMAT,
            "version": self.version,
            "seed": self.seed,
            "budgets": self.budgets,
            "complete": self.complete,
            "problem": self.problem.to_toml(),
            "records": [
                {f.name: getattr(r, f.name) for f in fields(Record) if f.name != "runs"}
                for r in self.records
            ],
        }
        arrays = {
            f"{i}.{f.name}": getattr(record.runs, f.name)
            for i, record in enumerate(self.records)
            for f in fields(Runs)
        }
        write_arrays(path, header, {"run_numbers": self.run_numbers, **arrays})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Results:
        """Read a file that :meth:`save` wrote; a one-line ``ResultsError`` for any other."""
        header, arrays = read_arrays(path, _check)
        records = []
        for i, facts in enumerate(header["records"]):
            known = {f.name: facts[f.name] for f in fields(Record) if f.name in facts}
            runs = Runs(*(arrays[f"{i}.{f.name}"] for f in fields(Runs)))
            records.append(Record(**{**known, "runs": runs, "seconds": tuple(facts["seconds"])}))
        return cls(
            problem=Problem.from_toml(header["problem"]),
            budgets=tuple(header["budgets"]),
            seed=header["seed"],
            run_numbers=arrays["run_numbers"],
            records=tuple(records),
            version=header["version"],
            complete=header["complete"],
        )


def _holds_complete(path: str | os.PathLike[str]) -> bool:
    try:
        return bool(read_header(path).get("complete"))
    except ResultsError:
        return False  # there is nothing, or something else


def _check(header: dict[str, Any], said: Mapping[str, Declared]) -> None:
    """Raise unless a file's header has what it must and the arrays have the shapes it asks for."""
    if header["format"] != FORMAT:
        raise ResultsError(f"format {header['format']!r} is unknown; known: {FORMAT}")
    budgets, records = header["budgets"], header["records"]
    try:
        problem = Problem.from_toml(header["problem"])
    except ProblemError as error:
        raise ResultsError(f"its problem cannot be read: {error}") from error
    _must(isinstance(header["version"], str), "version")
    _must(type(header["seed"]) is int, "seed")
    _must(type(header["complete"]) is bool, "complete")
    _must(isinstance(budgets, list) and all(map(_is_amount, budgets)), "budgets")
    _must(isinstance(records, list) and len(records) > 0, "records")
    for facts in records:
        _check_record(facts, len(budgets))
    counts = {"G": len(budgets), "K": problem.arm_count, "M": problem.penalty_count}
    runs = said["run_numbers"].shape
    _must(said["run_numbers"] == Declared(np.dtype(np.int64), runs) and len(runs) == 1, "runs")
    for i in range(len(records)):
        for field in fields(Runs):
            name, kind = f"{i}.{field.name}", np.int64 if field.name == "pulls" else np.float64
            shape = (counts["G"], *runs, *(counts[letter] for letter in LAST.get(field.name, "")))
            _must(said[name] == Declared(np.dtype(kind), shape), name)


LAST = {"penalty": "M", "pulls": "K", "arm_cost": "K", "queue": "M", "queue_max": "M"}


def _check_record(facts: dict[str, Any], budgets: int) -> None:
    for name in ("label", "backend"):
        _must(isinstance(facts[name], str), name)
    for name in ("knows", "policy"):  # older files do without
        _must(isinstance(facts.get(name, ""), str), name)
    seconds = facts["seconds"]
    _must(isinstance(seconds, list) and len(seconds) == budgets, "seconds")
    _must(all(map(_is_amount, [*seconds, facts["compile_seconds"]])), "seconds")


def _is_amount(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value >= 0  # type: ignore[arg-type, operator]


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise ResultsError(f"it is damaged: {what!r} cannot be as it is there")


def summarise(
    problem: Problem, record: Record, g: int, budget: float, best: float | None
) -> dict[str, Any]:
    """One policy at one budget: means over the runs, standard errors, 95 % intervals.

    ``knows``: what the policy was told of the arms. ``reward_rate``: reward per unit of budget.
    ``violation``: penalty per unit of budget, less the limit; a number for one penalty, otherwise a
    list. ``violations``: the same by the limits' names. ``pull_share``, ``cost_share``: averages
    over runs of the run's own share. ``regret``: what the best causal policy earns, less the
    reward; None where no policy keeps the limits. ``queue_max``: the mean of the runs' largest
    queue. ``pulls``: mean pulls a run. ``steps``: all pulls of all runs.
    """
    runs, scales = record.runs[g], problem.scales
    penalty_scales = np.asarray(scales.penalties)
    reward = runs.reward * scales.reward
    pulls = runs.pulls.sum(axis=1)
    rate = _estimate(reward / budget)
    over = [
        _estimate(runs.penalty[:, m] * penalty_scales[m] / budget - problem.limits[m])
        for m in range(problem.penalty_count)
    ]
    total = _estimate(reward)
    regret = None if best is None else (best - total[0], total[1])
    queue_max = (runs.queue_max * penalty_scales).mean(axis=0)
    cost_share = runs.arm_cost / runs.arm_cost.sum(axis=1, keepdims=True)
    return {
        "policy": record.label,
        "knows": record.knows,
        "budget": budget,
        "runs": len(reward),
        **_described("reward_rate", rate),
        **_described("violation", over[0] if len(over) == 1 else over),
        "violations": {
            name: mean for name, (mean, _) in zip(problem.limit_names, over, strict=True)
        },
        "pull_share": (runs.pulls / pulls[:, None]).mean(axis=0).tolist(),
        "cost_share": cost_share.mean(axis=0).tolist(),
        "pulls": float(pulls.mean()),
        **_described("regret", regret),
        "queue_max": float(queue_max[0]) if len(over) == 1 else queue_max.tolist(),
        "steps": int(pulls.sum()),
        "seconds": record.seconds[g],
        "compile_seconds": record.compile_seconds,
        "backend": record.backend,
    }


Estimate = tuple[float, float]  # a mean and its standard error


def _estimate(values: Floats) -> Estimate:
    if len(values) < 2:
        return float(values.mean()), float("nan")
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def _described(name: str, estimate: Estimate | list[Estimate] | None) -> dict[str, Any]:
    """A number with its standard error and its 95 % interval; None for what is not known."""
    if estimate is None:
        return {name: None, f"{name}_se": None, f"{name}_interval": None}
    if isinstance(estimate, list):
        rows = [_described(name, one) for one in estimate]
        keys = (name, f"{name}_se", f"{name}_interval")
        return {key: [row[key] for row in rows] for key in keys}
    mean, error = estimate
    if np.isnan(error):
        return {name: mean, f"{name}_se": None, f"{name}_interval": None}
    reach = NORMAL_95 * error
    return {name: mean, f"{name}_se": error, f"{name}_interval": [mean - reach, mean + reach]}


def _optimum(problem: Problem, budget: float) -> float | None:
    try:
        return optimum(problem, budget)
    except InfeasibleError:
        return None


def _merge_records(records: Sequence[Record], order: npt.NDArray[np.int64]) -> Record:
    return Record(
        label=records[0].label,
        runs=Runs.join([record.runs for record in records], axis=1)[:, order],
        seconds=tuple(np.sum([record.seconds for record in records], axis=0).tolist()),
        compile_seconds=sum(record.compile_seconds for record in records),
        backend=records[0].backend,
        knows=records[0].knows,
        policy=records[0].policy,
    )
