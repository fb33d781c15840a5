"""Results as data frames of the user's library, through narwhals.

narwhals is imported when used; ``pip install "tightrope[pandas]"`` brings it with pandas. Letters:
G budgets, R runs, M limits.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tightrope.errors import InputError, TightropeError, nearest
from tightrope.files import whole_file, write_text
from tightrope.names import csv_text
from tightrope.problem.rows import write_table
from tightrope.runs import SummaryRow
from tightrope.statistics import Estimate

if TYPE_CHECKING:
    from tightrope.problem import Task

INSTALLED_BY = {  # each with narwhals
    "pandas": '"tightrope[pandas]"',
    "polars": '"tightrope[frames]" polars',
    "pyarrow": '"tightrope[data]"',
}
LIBRARIES = tuple(INSTALLED_BY)
KINDS = {str: "String", int: "Int64", float: "Float64"}

Columns = dict[str, tuple[type, Any]]  # by name: the type of its values, and a list or an array


def summary_columns(rows: Sequence[SummaryRow], limits: Mapping[str, float]) -> Columns:
    """Columns with a row per policy, budget and limit; if M = 0, per policy and budget."""
    lines = [line for row in rows for line in _lines(row, limits)]
    return {
        name: (TYPES.get(name, float), [line[name] for line in lines]) for name in _line(rows[0])
    }


TYPES = {
    **dict.fromkeys(("policy", "knows", "limit_name", "backend"), str),
    **dict.fromkeys(("runs", "steps"), int),
}


def _lines(row: SummaryRow, limits: Mapping[str, float]) -> list[dict[str, Any]]:
    if not limits:
        return [_line(row)]
    of_limits = zip(limits, limits.values(), row.violation, row.queue_max, strict=True)
    return [_line(row, *one) for one in of_limits]


def _line(
    row: SummaryRow,
    name: str | None = None,
    limit: float | None = None,
    violation: Estimate | None = None,
    queue: float | None = None,
) -> dict[str, Any]:
    """A line of a row for one limit; None if there is no limit."""
    rate = None if limit is None or violation is None else limit + violation.mean
    return {
        **{key: getattr(row, key) for key in ("policy", "knows", "budget", "runs")},
        **{"limit_name": name, "limit": limit, "penalty_rate": rate},
        **_numbers("violation", violation),
        "queue_max": queue,
        **_numbers("reward_rate", row.reward_rate),
        **_numbers("regret", row.regret),
        **{key: getattr(row, key) for key in ("pulls", "steps")},
        **{key: getattr(row, key) for key in ("seconds", "compile_seconds", "backend")},
    }


def _numbers(name: str, value: Estimate | None) -> dict[str, float | None]:
    """An estimate's columns."""
    low, high = (value and value.interval) or (None, None)
    mean, error = (value.mean, value.error) if value else (None, None)
    return {name: mean, f"{name}_se": error, f"{name}_low": low, f"{name}_high": high}


def run_columns(
    runs: Mapping[str, Any],
    budgets: Sequence[float],
    numbers: npt.NDArray[np.int64],
    task: Task,
) -> Columns:
    """Columns with a row per policy, budget and run; ``runs`` [G, R] are in the user's units."""
    made, count = list(runs.values()), len(budgets) * len(numbers)
    columns: Columns = {
        "policy": (str, [label for label in runs for _ in range(count)]),
        "budget": (float, np.tile(np.repeat(np.array(budgets, float), len(numbers)), len(made))),
        "run": (int, np.tile(numbers, len(budgets) * len(made))),
        "reward": (float, _flat([one.reward for one in made])),
        "cost": (float, _flat([one.cost for one in made])),
        "pulls": (int, _flat([one.pulls.sum(axis=2) for one in made])),
    }
    for m, name in enumerate(_penalty_names(task)):
        columns[name] = (float, _flat([one.penalty[:, :, m] for one in made]))
    return columns


def _flat(parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return np.concatenate([part.ravel() for part in parts])


def _penalty_names(task: Task) -> list[str]:
    """The names of the penalty columns: ``penalty``, ``penalty_1``, ... or ``penalty_NAME``."""
    if task.has_named_limits:
        return [f"penalty_{name}" for name in task.limit_names]
    return [name.replace(" ", "_") for name in task.limit_names]


def native(columns: Columns, backend: str | None) -> Any:
    """The columns as a data frame; None in them is a missing value.

    ``backend``: one of :data:`LIBRARIES`, or None for the first that is installed.
    """
    library: Any = _library(backend)
    import narwhals as nw

    schema = {name: getattr(nw, KINDS[kind]) for name, (kind, _) in columns.items()}
    values = {name: column for name, (_, column) in columns.items()}
    return nw.from_dict(values, schema, backend=library).to_native()


def _library(backend: str | None) -> str:
    """The wanted library, or the first that is installed; raises if it or narwhals is missing."""
    if backend is not None and backend not in LIBRARIES:
        raise InputError(f"backend = {backend!r} is unknown; {nearest(str(backend), LIBRARIES)}")
    found = [name for name in ([backend] if backend else LIBRARIES) if find_spec(name)]
    if found and find_spec("narwhals"):
        return found[0]
    missing = "narwhals" if found else backend or "pandas, polars or pyarrow"
    wanted = INSTALLED_BY[found[0] if found else backend or "pandas"]
    raise TightropeError(
        f"data frames need {missing}, which is not installed; pip install {wanted}"
    )


def write_columns(columns: Columns, path: str | os.PathLike[str]) -> None:
    """Write the columns as CSV or Parquet, as the name ends; None in them is a missing value."""
    values = [column for _, column in columns.values()]
    if os.fspath(path).endswith(".csv"):
        lists = [column if isinstance(column, list) else column.tolist() for column in values]
        write_text(path, csv_text([columns, *zip(*lists, strict=True)]))
    else:
        names = dict(zip(columns, values, strict=True))
        with whole_file(path) as file:
            write_table(file, names)
