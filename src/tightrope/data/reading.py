"""Read a log from a data frame, a CSV or Parquet file, or a campaign's export.

Every source is first read as named columns (``Columns``), then checked as a :class:`Log`. Rows
count from 1 in messages, without the header.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.callers import warn_caller
from tightrope.data.columns import MOST_ARMS, Columns, place_of, sort_key
from tightrope.data.log import Log
from tightrope.data.sources import columns_of
from tightrope.errors import InputError, LogWarning, nearest
from tightrope.files import require_file
from tightrope.names import listed
from tightrope.problem import Box, Features, Interval, Space
from tightrope.problem.contexts import MOST_EVER
from tightrope.problem.values import LARGEST, Floats, shown

FORMATS = ("csv", "parquet", "campaign")
SUFFIXES = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet",
    ".jsonl": "campaign", ".ndjson": "campaign",
}  # fmt: skip
LEAST_PROPENSITY = 1e-100  # the squares of inverse weights are finite
MOST_SINGLE = float(np.finfo(np.float32).max)


def read_log(
    source: Any,
    *,
    arm: str | Sequence[str] | None = None,
    cost: str | float | None = None,
    reward: str | float | None = None,
    penalty: str | Sequence[str] | Mapping[str, str] = (),
    propensity: str | None = None,
    context: str | None = None,
    features: Sequence[str] = (),
    interval: Space | Sequence[Any] | None = None,
    drop_missing: bool = False,
    format: str | None = None,
) -> Log:
    """Read a log from a data frame or a file, in the user's units.

    ``source``: a data frame (pandas, polars, pyarrow, ...), a mapping of columns, or the path of a
    file. ``arm``: the column with the arms' names; arms are in the order of their names. ``cost``,
    ``reward``: columns of numbers, 0 or more, or a number for all rows. ``penalty``: columns, or a
    mapping from penalties' names to columns. ``propensity``: a column with the probability, above 0
    and at most 1, with which the arm was chosen. ``context``: a column with the type of each
    request. ``features``: columns of numbers that describe it. ``interval``: its lowest and highest
    number, if the arms are numbers such as bids; they are rounded to the points of its grid. For
    two or three numbers, ``arm`` has their columns and ``interval`` the ends of each, or is a box.
    ``format``: "csv", "parquet" or "campaign" (the output of ``tightrope campaign export``, which
    needs no column names); default: from the file's name. There are many, because each column has
    a role of its own.

    A row with a missing value raises an error; ``drop_missing=True`` drops such rows, with a
    :class:`LogWarning` that counts them.

    >>> log = read_log({"model": ["b", "a"], "usd": [0.1, 0.2], "bad": [0, 1]}, arm="model",
    ...                cost="usd", reward=1, penalty="bad")
    >>> log.arms, log.channels, log.outcomes[0].tolist()
    (('a', 'b'), ('cost', 'reward', 'bad'), [0.1, 0.2])
    """
    kind = format_of(source, format)
    if kind == "campaign":
        from tightrope.data.campaigns import read_export

        given: Any = {"arm": arm, "cost": cost, "reward": reward, "propensity": propensity}
        given |= {"context": context, "features": features or None, "interval": interval}
        given["penalty"] = penalty or None
        return read_export(source, (), **given).log
    boxed = arm is None and isinstance(interval, Space)
    if arm is None and interval is not None and not boxed:
        raise InputError("arm is missing; must be the name of a column")
    penalties = penalty_columns(penalty)
    wanted: dict[str, Any] = {"cost": cost, "reward": reward, **penalties}
    wanted = {f"penalty {n}" if n in penalties else n: column for n, column in wanted.items()}
    if propensity is not None:
        wanted["propensity"] = propensity
    described = feature_columns(features)
    wanted |= {f"feature {name}": name for name in described}
    texts = {"arm": arm} if context is None else {"arm": arm, "context": context}
    if context is not None and context == arm:
        raise InputError(f"context = {shown(context)}: is the column of the arms; must be another")
    space = None
    if interval is not None:
        space, sides = space_of_columns(interval, arm)
        del texts["arm"]
        wanted |= dict(zip(_roles(space), sides, strict=True))
    columns = columns_of(source, kind, texts, wanted)
    return _log(columns, texts, wanted, tuple(penalties), described, drop_missing, space)


def space_of_columns(given: Any, arm: Any) -> tuple[Space, Sequence[str]]:
    """An interval or a box, by itself or by the ends of each number; and the numbers' columns."""
    several = [arm] if isinstance(arm, str) else arm
    if isinstance(given, Space):
        return given, list(given.ranges) if several is None else several
    ends = [given] if isinstance(arm, str) else given
    if (
        not isinstance(ends, Sequence)
        or len(ends) != len(several)
        or any(not isinstance(pair, Sequence) or len(pair) != 2 for pair in ends)
    ):
        each = "" if isinstance(arm, str) else " for each column"
        raise InputError(f"interval = {shown(given)}: must be two numbers, low and high{each}")
    if len(ends) == 1:
        low, high = ends[0]
        return Interval(low, high, several[0]), several
    return Box(dict(zip(several, ends, strict=True))), several


def read_rows(source: Any, row: str, format: str | None = None) -> npt.NDArray[Any]:
    """The names in the column ``row``, one for each line."""
    rows = read_log(source, arm=row, cost=0, reward=0, format=format)
    return np.array(rows.arms)[rows.chosen]


def feature_columns(features: object) -> tuple[str, ...]:
    """The columns of the features, which differ; at most 64."""
    if isinstance(features, str) or not isinstance(features, Sequence):
        raise InputError(f"features = {shown(features)}: must be names of columns")
    return tuple(Features(features).names) if features else ()  # type: ignore[arg-type]


def penalty_columns(penalty: object) -> dict[str, str]:
    """Columns by the names of the penalties."""
    if isinstance(penalty, str):
        return {penalty: penalty}
    if isinstance(penalty, Mapping):
        return dict(penalty)
    if not isinstance(penalty, Sequence):
        raise InputError(f"penalty = {shown(penalty)}: must be names of columns")
    for name in penalty:
        if not isinstance(name, str):
            raise InputError(f"penalty = {shown(name)}: must be the name of a column")
        if list(penalty).count(name) > 1:
            raise InputError(f"penalty = {name!r}: is given twice; names must differ")
    return {name: name for name in penalty}


def format_of(source: object, given: str | None) -> str:
    """The format of a file; "" for a data frame."""
    if given is not None and given not in FORMATS:
        raise InputError(f"format = {shown(given)}: {nearest(str(given), FORMATS)}")
    if not isinstance(source, str | os.PathLike):
        if given is not None:
            raise InputError(f"source = {type(source).__name__}: must be the path of a file")
        return ""
    if not os.fspath(source):
        raise InputError("log '': must be the name of a file")
    path = Path(source)
    require_file(path, "log")
    found = given or SUFFIXES.get(path.suffix.lower())
    if found is None:
        known = ", ".join(SUFFIXES)
        raise InputError(f"log {os.fspath(source)!r}: must end in one of {known}")
    return found


def _log(
    columns: Columns,
    texts: Mapping[str, Any],
    wanted: Mapping[str, Any],
    penalties: tuple[str, ...],
    features: tuple[str, ...],
    drop_missing: bool,
    space: Space | None,
) -> Log:
    """The log of some columns; ``wanted``: a column or a number for each role that is no name."""
    named = {role: columns.code(column) for role, column in texts.items()}
    codes = [code for code, _ in named.values()]
    values = columns.numbers(list(wanted.values()))
    if not values.shape[1]:
        raise InputError(f"{columns.title}: has no rows; must have at least one")
    missing = _missing(columns.title, {**texts, **wanted}, codes, values, drop_missing)
    _check(columns.title, wanted, values, space)
    if missing is not None:
        values = np.ascontiguousarray(values[:, ~missing])
    found = {}
    for role, (code, names) in named.items():
        found[role] = _present(code if missing is None else code[~missing], names)
        _require_few(columns.title, role, texts[role], found[role][1])
    propensity = values[list(wanted).index("propensity")] if "propensity" in wanted else None
    outcomes = values[: 2 + len(penalties)]
    contexts: Any = None
    if features:
        first = list(wanted).index(f"feature {features[0]}")
        contexts = np.ascontiguousarray(values[first : first + len(features)].T)
    if "context" in found:
        kinds, types = found["context"]
        names = [types[kind] for kind in kinds.tolist()]
        pairs = zip(names, map(tuple, contexts.tolist()), strict=True) if features else names
        contexts = list(pairs)
    if space is not None:
        chosen, arms = _places(space, values[-space.side_count :]), space.arms
    else:
        chosen, arms = found["arm"]
    return Log(arms, penalties, chosen, outcomes, propensity, contexts, features, space)


def _roles(space: Space) -> dict[str, tuple[float, float]]:
    """The ends of each number by its role in messages."""
    alone = space.side_count == 1
    return {"arm" if alone else f"arm {name}": ends for name, ends in space.ranges.items()}


def _places(space: Space, numbers: Floats) -> npt.NDArray[np.int64]:
    """The points of the grid that are nearest to numbers [sides, n]."""
    found = np.zeros(numbers.shape[1], np.int64)
    for points, one, (low, high) in zip(space.axes, numbers, space.ranges.values(), strict=True):
        step = (high - low) / (len(points) - 1)
        found = found * len(points) + np.rint((one - low) / step).astype(np.int64)
    return found


def _require_few(title: str, role: str, column: Any, names: Sequence[str]) -> None:
    """Raise if a column of names has too many different ones."""
    most, what = {"arm": (MOST_ARMS, "arms"), "context": (MOST_EVER, "types")}[role]
    if len(names) > most:
        allowed = f"at most {most:,}; is it the column of the {what}?"
        raise InputError(f"{title}, column {column!r}: {len(names):,} {what}; must be {allowed}")


def _missing(
    title: str,
    told: Mapping[str, Any],
    codes: Sequence[npt.NDArray[np.int64]],
    values: Floats,
    drop: bool,
) -> npt.NDArray[np.bool_] | None:
    """The rows that lack a value, [n]; None if none does. Raises if they must not be dropped."""
    lacking = [*(code < 0 for code in codes), *map(np.isnan, values)]
    found = dict(zip(told, lacking, strict=True))
    counts = {role: int(np.count_nonzero(lacks)) for role, lacks in found.items()}
    if not any(counts.values()):
        return None
    missing: npt.NDArray[np.bool_] = np.logical_or.reduce(list(found.values()))
    total = int(np.count_nonzero(missing))
    if not drop:
        first = int(np.argmax(missing))
        role = next(role for role, lacks in found.items() if lacks[first])
        others = f", as in {total - 1:,} other row{'s' * (total != 2)}" if total > 1 else ""
        raise InputError(
            f"{place_of(title, first, told[role])}: {role} is missing{others}; --drop-missing "
            "(drop_missing=True) drops such rows"
        )
    if total == len(missing):
        raise InputError(f"{title}: every row lacks a value; must have at least one that is whole")
    parts = listed([f"{told[role]} in {n:,}" for role, n in counts.items() if n], 6)
    text = f"{total:,} of {len(missing):,} rows are dropped, which lack a value: {parts}"
    warn_caller(f"{title}: {text}", LogWarning)
    return missing


def _check(
    title: str, wanted: Mapping[str, Any], values: Floats, space: Space | None = None
) -> None:
    """Raise for the first number out of range, with its row."""
    for role, row in zip(wanted, values, strict=True):
        low, high, allowed = 0.0, LARGEST, f"be a number from 0 to {LARGEST:g}"
        if role == "propensity":
            low, high = LEAST_PROPENSITY, 1.0
            allowed = f"lie above 0, at most 1; the least is {low:g}"
        elif space is not None and role in _roles(space):
            low, high = _roles(space)[role]
            allowed = f"lie in the interval, from {low!r} to {high!r}"
        elif role.startswith("feature "):
            low, high = -MOST_SINGLE, MOST_SINGLE
            allowed = "be a finite number, at most 3.4e38 in size"
        if np.fmin.reduce(row, initial=high) >= low and np.fmax.reduce(row, initial=low) <= high:
            continue  # nan counts as missing, not as invalid
        wrong = np.flatnonzero((row < low) | (row > high))
        first, count = int(wrong[0]), len(wrong) - 1
        others = f" (and in {count:,} other rows)" if count > 0 else ""
        raise InputError(
            f"{place_of(title, first, wanted[role])}: {role} = {float(row[first])!r}{others}:"
            f" must {allowed}"
        )


def _present(
    chosen: npt.NDArray[np.int64], names: Sequence[str]
) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Codes and names of those that occur, in the order of their names."""
    there = np.flatnonzero(np.bincount(chosen, minlength=len(names)))
    order = sorted(there.tolist(), key=lambda code: sort_key(names[code]))
    if order == list(range(len(names))):
        return chosen, tuple(names)
    place = np.zeros(max(len(names), 1), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place[chosen], tuple(names[code] for code in order)
