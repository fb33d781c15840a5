"""Results as data frames of whichever library the user has, through narwhals.

narwhals comes with ``pip install 'tightrope[frames]'`` and is imported when used. Letters: G
budgets, R runs, M limits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from tightrope.errors import InputError, TightropeError, nearest
from tightrope.statistics import Estimate
from tightrope.summary import SummaryRow

if TYPE_CHECKING:
    from tightrope.problem import Task

__all__ = ["LIBRARIES", "native", "run_columns", "summary_columns"]

LIBRARIES = ("pandas", "polars", "pyarrow")
KINDS = {str: "String", int: "Int64", float: "Float64"}

Columns = dict[str, tuple[type, Any]]  # by name: the type of its values, and a list or an array


def summary_columns(rows: Sequence[SummaryRow], limits: Mapping[str, float]) -> Columns:
    """Columns with a row per policy, budget and limit; if M = 0, per policy and budget."""
    lines = [line for row in rows for line in _lines(row, limits)]
    return {
        name: (kind, [line[name] for line in lines])
        for name, kind in (LIMIT_COLUMNS | POLICY_COLUMNS).items()
    }


def _ends(name: str) -> dict[str, type]:
    return {f"{name}{end}": float for end in ("", "_se", "_low", "_high")}


LIMIT_COLUMNS: dict[str, type] = {
    **{"policy": str, "knows": str, "budget": float, "runs": int},
    **{"limit_name": str, "limit": float, "penalty_rate": float},
    **_ends("violation"),
    "queue_max": float,
}
POLICY_COLUMNS: dict[str, type] = {
    **_ends("reward_rate"),
    **_ends("regret"),
    **{"pulls": float, "steps": int},
    **{"seconds": float, "compile_seconds": float, "backend": str},
}


def _lines(row: SummaryRow, limits: Mapping[str, float]) -> list[dict[str, Any]]:
    whole = {name: getattr(row, name, None) for name in ("policy", *LIMIT_COLUMNS, *POLICY_COLUMNS)}
    whole |= dict.fromkeys(("limit_name", "limit", "penalty_rate", "queue_max"))
    whole |= _numbers("violation", None) | _numbers("regret", row.regret)
    whole |= _numbers("reward_rate", row.reward_rate)
    if not limits:
        return [whole]
    return [
        {
            **whole,
            "limit_name": name,
            "limit": limit,
            "penalty_rate": limit + one.mean,
            **_numbers("violation", one),
            "queue_max": queue,
        }
        for (name, limit), one, queue in zip(
            limits.items(), row.violation, row.queue_max, strict=True
        )
    ]


def _numbers(name: str, value: Estimate | None) -> dict[str, float | None]:
    """An estimate's columns."""
    if value is None:
        return dict.fromkeys(_ends(name))
    low, high = value.interval or (None, None)
    return dict(zip(_ends(name), (value.mean, value.error, low, high), strict=True))


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
    if not found:
        _refuse(backend or "pandas, polars or pyarrow", backend or "pandas")
    if not find_spec("narwhals"):
        _refuse("narwhals", "'tightrope[frames]'")
    return found[0]


def _refuse(missing: str, wanted: str) -> NoReturn:
    raise TightropeError(f"data frames need {missing}, not installed; pip install {wanted}")
