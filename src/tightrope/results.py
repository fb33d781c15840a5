"""Results of simulated runs: summaries with intervals, merging, saving to one file.

Letters: G budgets, R runs, K arms, M penalties. The public methods return the user's units.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.errors import InfeasibleError, ProblemError, ResultsError
from tightrope.files import Declared, read_arrays, read_header, write_arrays
from tightrope.frames import Columns, native, run_columns, summary_columns, write_columns
from tightrope.names import in_table, listed
from tightrope.optimum.exact import optimum
from tightrope.problem import Known, Problem, Task, table_of
from tightrope.problem.problem import MOST_INLINE
from tightrope.problem.rows import Rows
from tightrope.problem.values import shown
from tightrope.runs import Record, Runs, SummaryRow, violations
from tightrope.showing import html_of
from tightrope.statistics import Estimate, estimate

FORMAT = 1  # version of the file format; files of other versions are refused
ROWS, WEIGHTS = "observed_rows", "observed_weights"  # arrays of a problem with very many rows
FACTS = ("version", "seed", "budgets", "complete", "delay", "lost")  # in a file's header
NOT_IN_HEADER = ("normalised_runs", "scales", "pulls_by_type")  # fields of a record


@dataclass(frozen=True, eq=False, repr=False)
class Results:
    """Runs of several policies on one problem, at the same budgets, run numbers and seed.

    Results are equal if their runs are; times are ignored.

    >>> from tightrope import LyOff, ready_problem, simulate
    >>> results = simulate(ready_problem("paper"), LyOff(), budgets=[100, 400], runs=50, seed=1)
    >>> [(row["policy"], row["budget"], row["runs"]) for row in results.summary()]
    [('lyoff', 100.0, 50), ('lyoff', 400.0, 50)]
    """

    problem: Problem
    budgets: tuple[float, ...]  # [G] in the user's units
    seed: int
    run_numbers: npt.NDArray[np.int64]  # [R]
    records: tuple[Record, ...]
    version: str
    complete: bool = True  # False if interrupted: only the finished runs are here
    delay: tuple[int, ...] = (0,)  # decisions before an outcome was reported, equally likely ones
    lost: float = 0.0  # the share of outcomes that were never reported

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", int(self.seed))  # JSON cannot hold a numpy.int64
        scaled = [replace(record, scales=self.problem.scales) for record in self.records]
        object.__setattr__(self, "records", tuple(scaled))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Results):
            return NotImplemented
        facts = ("budgets", "seed", "labels", "complete", "delay", "lost")
        return (
            self.problem.outline == other.problem.outline
            and all(getattr(self, one) == getattr(other, one) for one in facts)
            and np.array_equal(self.run_numbers, other.run_numbers)
            and all(
                np.array_equal(mine, theirs)
                for a, b in zip(self.records, other.records, strict=True)
                for mine, theirs in zip(a.arrays.values(), b.arrays.values(), strict=True)
            )
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def runs(self) -> int:
        """The number of runs of each policy at each budget."""
        return len(self.run_numbers)

    @property
    def labels(self) -> tuple[str, ...]:
        """The policies' labels, in order."""
        return tuple(record.label for record in self.records)

    def __iter__(self) -> Iterator[str]:
        """The labels of the policies."""
        return iter(self.labels)

    def __getitem__(self, label: str) -> Record:
        """A policy's record by its label."""
        for record in self.records:
            if record.label == label:
                return record
        raise ResultsError(f"no policy {label!r} in these results; known: {', '.join(self.labels)}")

    def rows(self) -> tuple[SummaryRow, ...]:
        """A row per policy and budget, in the user's units."""
        return self._rows

    def summary(self) -> list[dict[str, Any]]:
        """The rows as JSON-ready dictionaries; :class:`SummaryRow` documents the keys."""
        return [row.as_dict() for row in self.rows()]

    @cached_property
    def _rows(self) -> tuple[SummaryRow, ...]:
        best = [_optimum(self.problem, budget) for budget in self.budgets]
        return tuple(
            summarise(self.problem, record, g, budget, best[g])
            for record in self.records
            for g, budget in enumerate(self.budgets)
        )

    def to_frame(self, backend: str | None = None) -> Any:
        """A tidy data frame: a row per policy, budget and limit, in the user's units.

        ``limit_name``, ``limit``, ``penalty_rate`` (penalty per unit of budget), ``violation`` and
        ``queue_max`` belong to the limit; all other columns belong to the policy at the budget and
        repeat for each limit. ``_se`` is a standard error; ``_low`` and ``_high`` are the ends of a
        95 % interval. Without limits there is one row per policy and budget.

        ``backend``: "pandas", "polars" or "pyarrow"; default: the first that is installed.
        """
        limits = dict(zip(self.problem.limit_names, self.problem.limits, strict=True))
        return native(summary_columns(self.rows(), limits), backend)

    def runs_frame(self, backend: str | None = None) -> Any:
        """A data frame with a row per policy, budget and run, in the user's units.

        There is a column ``penalty`` or, for named limits, one ``penalty_NAME`` per limit.
        ``backend`` as for :meth:`to_frame`.
        """
        return native(self._run_columns(), backend)

    def _run_columns(self) -> Columns:
        """The columns of :meth:`runs_frame`."""
        runs = {record.label: record.runs for record in self.records}
        return run_columns(runs, self.budgets, self.run_numbers, self.problem.task)

    def to_pandas(self) -> Any:
        """The same as ``to_frame("pandas")``."""
        return self.to_frame("pandas")

    def __repr__(self) -> str:
        parts = [
            *filter(None, [in_table(self.problem.name)]),
            f"policies: {listed(self.labels)}",
            f"budgets: {listed([f'{budget:g}' for budget in self.budgets])}",
            f"runs: {self.runs:,}" + ", interrupted" * (not self.complete),
            f"seed: {self.seed}",
            *([f"delay: {listed([str(one) for one in self.delay])}"] if any(self.delay) else []),
            *([f"lost: {self.lost:g}"] if self.lost else []),
        ]
        return f"Results({'; '.join(parts)})"

    _repr_html_ = html_of

    def merge(self, *others: Results) -> Results:
        """Merge these runs and those of ``others``; all except the run numbers must agree."""
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
        for what in ("budgets", "seed", "labels", "version", "delay", "lost"):
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
        """Write one file, atomically; the ending of its name sets the format.

        ``.npz``, or a name without an ending: everything, for :meth:`load` (arrays and a JSON
        header with a checksum). ``.csv`` and ``.parquet``: the rows of :meth:`runs_frame`, which
        cannot be loaded again; Parquet needs pyarrow or polars. Interrupted results replace
        complete ones only if ``overwrite`` is True.
        """
        require_results_name(path)
        if not (self.complete or overwrite) and _holds_complete(path):
            raise ResultsError(
                f"{os.fspath(path)} holds complete results, and these were interrupted; name "
                "another file, or pass overwrite=True"
            )
        if os.path.splitext(path)[1] in (".csv", ".parquet"):
            write_columns(self._run_columns(), path)
            return
        kept = [f.name for f in fields(Record) if f.name not in NOT_IN_HEADER]
        header = {
            "format": FORMAT,
            **{name: getattr(self, name) for name in FACTS},
            "problem": self.problem.outline,
            "records": [{name: getattr(one, name) for name in kept} for one in self.records],
        }
        arrays = {
            f"{i}.{name}": array
            for i, record in enumerate(self.records)
            for name, array in record.arrays.items()
        }
        if self.problem.row_count > MOST_INLINE:
            rows = self.problem.observed_rows()
            arrays[ROWS] = np.asarray(rows.outcomes)
            arrays |= {} if rows.weights is None else {WEIGHTS: rows.weights}
        write_arrays(path, header, {"run_numbers": self.run_numbers, **arrays})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Results:
        """Read a file that :meth:`save` wrote; any other file raises a ``ResultsError``."""
        if not isinstance(path, str | os.PathLike):
            raise ResultsError(f"file {path!r:.80}: must be a path")
        header, arrays = read_arrays(path, _check)
        try:
            problem = _problem(header["problem"], arrays)
        except ProblemError as error:
            raise ResultsError(f"{os.fspath(path)}: its problem cannot be read: {error}") from error
        records = []
        for i, facts in enumerate(header["records"]):
            known = {f.name: _hashed(facts[f.name]) for f in fields(Record) if f.name in facts}
            runs = Runs(*(arrays[f"{i}.{f.name}"] for f in fields(Runs)))
            records.append(Record(normalised_runs=runs, **known))
        known = {name: _hashed(header[name]) for name in FACTS if name in header}
        return cls(problem, run_numbers=arrays["run_numbers"], records=tuple(records), **known)


def require_results_name(path: str | os.PathLike[str]) -> None:
    """Raise a ``ResultsError`` unless results can be saved under this name; see ``save``."""
    if not isinstance(path, str | os.PathLike):
        raise ResultsError(f"file {path!r:.80}: must be a path")
    suffix = os.path.splitext(path)[1]
    if suffix not in ("", ".npz", ".csv", ".parquet"):
        allowed = ".npz (to load it again), .csv or .parquet"
        raise ResultsError(
            f"file {os.fspath(path)!r}: {suffix!r} is unknown; must end in {allowed}"
        )


def _hashed(value: Any) -> Any:
    """A list of a file's header as a tuple."""
    return tuple(value) if isinstance(value, list) else value


def _holds_complete(path: str | os.PathLike[str]) -> bool:
    try:
        return bool(read_header(path).get("complete"))
    except ResultsError:
        return False  # no file, or not a file of results


def _check(header: dict[str, Any], said: Mapping[str, Declared]) -> None:
    """Raise unless a file's header is valid and the arrays have the shapes that it implies."""
    if header["format"] != FORMAT:
        raise ResultsError(f"format {header['format']!r} is unknown; known: {FORMAT}")
    budgets, records = header["budgets"], header["records"]
    try:
        task = _known_of(header["problem"], said)
    except ProblemError as error:
        raise ResultsError(f"its problem cannot be read: {error}") from error
    _require(isinstance(header["version"], str), "version")
    _require(type(header["seed"]) is int, "seed")
    _require(type(header["complete"]) is bool, "complete")
    _require(isinstance(budgets, list) and all(map(_is_amount, budgets)), "budgets")
    delay = header.get("delay", [0])
    _require(
        isinstance(delay, list) and all(type(one) is int and one >= 0 for one in delay), "delay"
    )
    _require(_is_amount(header.get("lost", 0.0)), "lost")
    _require(isinstance(records, list) and len(records) > 0, "records")
    for facts in records:
        _check_record(facts, len(budgets))
    counts = {"G": len(budgets), "K": task.arm_count, "M": task.penalty_count}
    runs = said["run_numbers"].shape
    _require(said["run_numbers"] == Declared(np.dtype(np.int64), runs) and len(runs) == 1, "runs")
    for i in range(len(records)):
        for field in fields(Runs):
            name, kind = f"{i}.{field.name}", np.int64 if field.name == "pulls" else np.float64
            shape = (counts["G"], *runs, *(counts[letter] for letter in LAST.get(field.name, "")))
            _require(said[name] == Declared(np.dtype(kind), shape), name)


def _known_of(text: str, said: Mapping[str, Declared]) -> Known:
    """The problem in a file, or its task if its rows are among the arrays."""
    table = table_of(text)
    if "rows" not in table:
        return Problem.from_toml_table(table)
    arms = table.get("arms")
    if not isinstance(arms, list) or not all(isinstance(arm, dict) for arm in arms):
        raise ProblemError(f"arms = {shown(arms)}: must be [[arms]] tables")
    kept = {key: value for key, value in table.items() if key not in ("rows", "changes", "absent")}
    names = [{"name": arm.get("name", f"arm {k}")} for k, arm in enumerate(arms, start=1)]
    task = Task.from_table({**kept, "arms": names})
    _require(ROWS in said and len(said[ROWS].shape) == 2, ROWS)
    count = said[ROWS].shape[1]
    double = np.dtype(np.float64)
    _require(said[ROWS] == Declared(double, (len(task.told_channels), count)), ROWS)
    _require(WEIGHTS not in said or said[WEIGHTS] == Declared(double, (count,)), WEIGHTS)
    return task


def _problem(text: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Problem:
    rows = Rows(arrays[ROWS], arrays.get(WEIGHTS)) if ROWS in arrays else None
    return Problem.from_toml_table(table_of(text), rows)


LAST = {"penalty": "M", "pulls": "K", "arm_cost": "K", "queue": "M", "queue_max": "M"}


def _check_record(facts: dict[str, Any], budgets: int) -> None:
    for name in ("label", "backend"):
        _require(isinstance(facts[name], str), name)
    for name in ("knows", "policy"):  # not in older files
        _require(isinstance(facts.get(name, ""), str), name)
    seconds = facts["seconds"]
    _require(isinstance(seconds, list) and len(seconds) == budgets, "seconds")
    _require(all(map(_is_amount, [*seconds, facts["compile_seconds"]])), "seconds")


def _is_amount(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value >= 0  # type: ignore[arg-type, operator]


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ResultsError(f"it is damaged: {what!r} has an invalid value")


def summarise(
    problem: Problem, record: Record, g: int, budget: float, best: float | None
) -> SummaryRow:
    """The row of one policy at one budget; ``best`` is OPT(B), or None if limits are infeasible."""
    runs, scales = record.normalised_runs[g], problem.scales
    penalty_scales = np.asarray(scales.penalties)
    reward = runs.reward * scales.reward
    pulls = runs.pulls.sum(axis=1)
    total = estimate(reward)
    cost_share = runs.arm_cost / runs.arm_cost.sum(axis=1, keepdims=True)
    return SummaryRow(
        policy=record.label,
        knows=record.knows,
        budget=budget,
        runs=len(reward),
        reward_rate=estimate(reward / budget),
        violation=tuple(map(estimate, violations(problem, runs, budget).T)),
        limit_names=problem.limit_names,
        pull_share=tuple((runs.pulls / pulls[:, None]).mean(axis=0).tolist()),
        cost_share=tuple(cost_share.mean(axis=0).tolist()),
        pulls=float(pulls.mean()),
        regret=None if best is None else Estimate(best - total.mean, total.error),
        queue_max=tuple((runs.queue_max * penalty_scales).mean(axis=0).tolist()),
        steps=int(pulls.sum()),
        seconds=record.seconds[g],
        compile_seconds=record.compile_seconds,
        backend=record.backend,
    )


def _optimum(problem: Problem, budget: float) -> float | None:
    try:
        return optimum(problem, budget)
    except InfeasibleError:
        return None


def _merge_records(records: Sequence[Record], order: npt.NDArray[np.int64]) -> Record:
    return replace(
        records[0],
        normalised_runs=Runs.join([r.normalised_runs for r in records], axis=1)[:, order],
        pulls_by_type=None,
        seconds=tuple(np.sum([record.seconds for record in records], axis=0).tolist()),
        compile_seconds=sum(record.compile_seconds for record in records),
    )
