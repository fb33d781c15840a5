"""Observed rows of a problem's arms as one table, in a Parquet file beside the problem's TOML.

The TOML has the number of rows of every arm and, at the top, the file's name and a hash of the
numbers: ``rows = { file = "problem.parquet", sha256 = "..." }``. The file has a column ``arm`` for
readers, then cost, reward and the penalties in order, and ``weight`` at the end if rows have
weights. pyarrow or polars reads and writes it. Letters: N rows of all arms together, C = 2 + M
outcomes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import IO, Any

import numpy as np

from tightrope.errors import ProblemError, TightropeError
from tightrope.files import check_parquet, open_file
from tightrope.problem.distributions import Empirical
from tightrope.problem.values import Floats, at, known_keys, shown

Columns = Sequence[Empirical]  # the outcomes of one arm, [C]


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of all arms with rows, one arm after the other, in the user's units."""

    outcomes: Sequence[Floats] | Floats  # [C], each [N]; or one array [C, N]
    weights: Floats | None = None  # [N]; nan for an arm whose rows are equally likely

    def __len__(self) -> int:
        return len(self.outcomes[0]) if len(self.outcomes) else 0


class RowReader:
    """Returns the rows of one arm after the other."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._taken = 0

    def take(self, count: int) -> tuple[list[Floats], Floats | None]:
        """The next ``count`` rows, as columns [C], and their weights."""
        start, stop = self._taken, self._taken + count
        if not 0 < count <= len(self._rows) - start:
            left = f"{len(self._rows) - start:,} of {len(self._rows):,} remain"
            raise ProblemError(
                f"rows = {count:,}: must be at least 1 and at most what the file has: {left}"
            )
        self._taken = stop
        weights = None if self._rows.weights is None else self._rows.weights[start:stop]
        plain = weights is None or bool(np.isnan(weights).any())
        return [column[start:stop] for column in self._rows.outcomes], None if plain else weights

    def require_end(self) -> None:
        """Raise unless all rows belong to some arm."""
        left = len(self._rows) - self._taken
        if left:
            raise ProblemError(f"rows: {left:,} of {len(self._rows):,} belong to no arm")


def rows_of(arms: Iterable[Columns]) -> Rows:
    """The rows of arms as one table; arms without rows have no columns here."""
    found = [arm for arm in arms if len(arm)]
    channels = zip(*found, strict=True)
    outcomes = np.array([np.concatenate([one.values for one in channel]) for channel in channels])
    if all(one[0].weights is None for one in found):
        return Rows(outcomes)
    weights = [
        np.full(len(one[0].values), np.nan) if one[0].weights is None else one[0].chances
        for one in found
    ]
    return Rows(outcomes, np.concatenate(weights))


def rows_digest(arms: Iterable[Columns]) -> str:
    """The SHA-256 of the rows and weights of arms, as hex digits, computed without a copy."""
    digest = hashlib.sha256()
    for arm in arms:
        for column in arm:
            digest.update(_bytes(column.values))
        if len(arm):
            weighted = arm[0].weights is not None
            digest.update(b"weights" if weighted else b"equal")
            digest.update(_bytes(arm[0].chances) if weighted else b"")
    return digest.hexdigest()


def _bytes(values: Floats) -> memoryview:
    return np.ascontiguousarray(values, dtype="<f8").view(np.uint8).data


# --- the table ``rows`` of a TOML text ----------------------------------------------------


@dataclass(frozen=True)
class FileOfRows:
    """The entry of a TOML text about the rows of its arms; ``file`` is "" in saved results."""

    sha256: str
    file: str = ""
    weights: bool = False

    def table(self) -> dict[str, object]:
        """The entry as a TOML table."""
        file = {"file": self.file} if self.file else {}
        return {**file, "sha256": self.sha256, **({"weights": True} if self.weights else {})}


def file_of_rows(table: object) -> FileOfRows:
    """The entry ``rows`` at the top of a TOML text."""
    with at("rows"):
        entries = known_keys(table, ("file", "sha256", "weights"))
        found = FileOfRows(**{"sha256": "", **entries})
        for key, kind in (("file", str), ("sha256", str), ("weights", bool)):
            if not isinstance(getattr(found, key), kind):
                allowed = "text" if kind is str else "true or false"
                raise ProblemError(f"{key} = {shown(getattr(found, key))}: must be {allowed}")
    return found


# --- Parquet ------------------------------------------------------------------------------


def write_parquet(
    file: IO[bytes],
    rows: Rows,
    channels: Sequence[str],
    counts: Mapping[str, int],
) -> None:
    """Write rows; ``channels`` [C] name the outcomes, ``counts`` are the numbers of rows by arm."""
    taken = ("arm", "weight")
    names = [f"penalty {name}" if name in taken else name for name in channels]
    columns: dict[str, Any] = dict(zip(names, rows.outcomes, strict=True))
    if rows.weights is not None:
        columns["weight"] = rows.weights
    arms = list(counts)
    codes = np.repeat(np.arange(len(arms), dtype=np.int32), list(counts.values()))
    if find_spec("pyarrow"):
        pa = import_module("pyarrow")
        text = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(arms, pa.string()))
        write_table(file, {"arm": text, **columns})
    else:
        polars = require_parquet()
        named = polars.Series("arm", arms, dtype=polars.Enum(arms))[codes]
        write_table(file, {"arm": named, **columns})


def write_table(file: IO[bytes], columns: Mapping[str, Any]) -> None:
    """Write columns by name as Parquet, with pyarrow or polars."""
    if find_spec("pyarrow"):
        table = import_module("pyarrow").table(dict(columns))
        import_module("pyarrow.parquet").write_table(table, file)
    else:
        require_parquet().DataFrame(dict(columns)).write_parquet(file)


def read_parquet(path: str | os.PathLike[str], weights: bool) -> Rows:
    """Read a file of :func:`write_parquet`; raises a ``ProblemError`` for any other file."""
    text = os.fspath(path)
    with open_file(text, "rows: file", error=ProblemError) as file:
        columns = _numbers(file)
    if len(columns) < 2 + weights:
        allowed = "have an arm, a cost, a reward and a penalty for each limit in every row"
        raise ProblemError(f"rows: file {text!r}: must {allowed}")
    return Rows(columns[:-1], columns[-1]) if weights else Rows(columns)


def _numbers(file: IO[bytes]) -> list[Floats]:
    """The columns of a Parquet file after the first, which names the arms."""
    place = f"rows: file {file.name!r}"
    polars = None if find_spec("pyarrow") else require_parquet()
    try:
        check_parquet(file, place)
        if polars is None:
            whole = import_module("pyarrow.parquet").ParquetFile(file)
            schema = whole.schema_arrow
            names = list(schema.names)[1:]
            plain = [str(schema.field(name).type) == "double" for name in names]
            table: Any = whole.read(columns=names) if all(plain) else None
        else:
            table = polars.read_parquet(file)
            names = table.columns[1:]
            plain = [table[name].dtype == polars.Float64 for name in names]
        if not all(plain):
            raise ProblemError(f"{place}: must hold numbers (float64) after the arm")
        columns = [table[name].to_numpy() for name in names]
    except (KeyboardInterrupt, TightropeError):
        raise
    except BaseException as error:  # a damaged file can raise anything, even a panic of polars
        told = " ".join(str(error).split())[:200]
        raise ProblemError(f"{place}: must be a Parquet file ({told})") from None
    for column in columns:
        column.flags.writeable = False
    return columns


def require_parquet() -> Any:
    """The module polars, used if pyarrow is missing; raises if both are missing."""
    if not find_spec("polars"):
        raise TightropeError(
            "Parquet files need pyarrow or polars, which are not installed; pip install "
            "'tightrope[data]'"
        )
    return import_module("polars")
