"""The columns of a data frame or a file by name, the first form of every log.

CSV files are read by pyarrow if it is installed; what it refuses is read again by Python's own
reader, which is slower and says where the fault is.
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from numbers import Real
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from tightrope.errors import InputError, TightropeError, nearest
from tightrope.files import (
    check_parquet,
    lines_in,
    not_utf8,
    open_file,
    open_text,
    require_memory,
)
from tightrope.names import one_line
from tightrope.problem.values import Floats, shown

__all__ = ["MOST_ARMS", "Columns", "columns_of", "is_number", "place_of", "sort_key"]

SEPARATORS = ",;\t|"
MISSING = frozenset(["", "na", "n/a", "nan", "null", "none"])  # of numbers, in lower case
WORDS = {"true": 1.0, "false": 0.0}
MOST_ARMS = 100_000
LONGEST_HEADER = 2**20  # characters
DECIMAL_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+")
CHUNK = 2**16  # rows that Python's reader holds as text
Codes = tuple[npt.NDArray[np.int64], list[str]]  # an arm's number per row, -1 if missing; names


@dataclass(frozen=True)
class Columns:
    """The columns of a table by name, read when they are asked for."""

    title: str  # what messages call the table
    names: Sequence[str]
    number: Callable[[str], Floats]  # a column as numbers, nan for what is missing
    code: Callable[[str], Codes]  # a column as names


def columns_of(source: Any, kind: str, arm: object, wanted: Mapping[str, Any]) -> Columns:
    """The columns of a source; of a file only those that are wanted are read."""
    if kind == "csv":
        return _of_csv(os.fspath(source), arm, wanted)
    if kind == "parquet":
        return _of_parquet(os.fspath(source), arm, wanted)
    found = _of_mapping(source) if isinstance(source, Mapping) else _of_frame(source, "frame")
    _used(found.title, found.names, arm, wanted)
    return found


def _used(title: str, names: Sequence[str], arm: object, wanted: Mapping[str, Any]) -> list[str]:
    """The columns that are wanted, each once; raises for one that is not among ``names`` once."""
    roles = {role: column for role, column in wanted.items() if not is_number(column)}
    for role, name in {"arm": arm, **roles}.items():
        if not isinstance(name, str):
            raise InputError(f"{role} = {shown(name)}: must be the name of a column")
        count = list(names).count(name)
        if count > 1:
            raise InputError(
                f"{title}: {count} columns are called {name!r} ({role}); names must differ"
            )
        if not count:
            hint = nearest(name, names) if names else "there are none"
            raise InputError(f"{title}: no column {name!r} ({role}); {hint}")
    return list(dict.fromkeys([str(arm), *roles.values()]))


def is_number(value: object) -> bool:
    """Whether a column is given as one number for all rows."""
    return isinstance(value, Real) and not isinstance(value, bool)


def place_of(title: str, row: int, column: object) -> str:
    """A row, number ``row`` from 0, and a column, as messages call them."""
    where = f"column {column!r}" if isinstance(column, str) else f"number {column!r}"
    return f"{title}, row {row + 1:,} (without the header), {where}"


def sort_key(name: str) -> tuple[bool, float, str]:
    """Numbers first, by their size, then words."""
    try:
        value = float(name)
    except ValueError:
        return True, 0.0, name
    return (not math.isfinite(value)), value if math.isfinite(value) else 0.0, name


def merged(codes: npt.NDArray[Any], names: Sequence[object]) -> Codes:
    """Codes of names without spaces around them; an empty name is a missing one."""
    plain = [("" if name is None else str(name)).strip() for name in names]
    index: dict[str, int] = {}
    place = [index.setdefault(name, len(index)) if name else -1 for name in plain]
    if place == list(range(len(plain))):
        return codes.astype(np.int64, copy=False), plain
    table = np.array([*place, -1], dtype=np.int64)  # the code -1 stays
    return table[codes], list(index)


def parsed(value: object) -> float | None:
    """A value as a number, nan if it is missing; None if it is not a number.

    >>> parsed(" 0.5"), parsed("NA"), parsed("true"), parsed("5 dollars")
    (0.5, nan, 1.0, None)
    """
    if value is None:
        return math.nan
    if isinstance(value, Real):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    if not isinstance(value, str):
        return None
    text = value.strip()
    lower = text.lower()
    if lower in MISSING:
        return math.nan
    if lower in WORDS:
        return WORDS[lower]
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def parsed_all(values: Sequence[object], title: str, column: str, first: int = 0) -> Floats:
    """Values as numbers; raises for one that is none, in row ``first`` plus its place."""
    try:  # most columns are plain
        if "_" in "".join(values):  # type: ignore[arg-type]
            raise ValueError  # Python reads 1_000 as a number
        return np.array([float(value) for value in values])  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        found = [parsed(value) for value in values]
    for place, (number, value) in enumerate(zip(found, values, strict=True)):
        if number is None:
            raise InputError(
                f"{place_of(title, first + place, column)}: {shown(value)} must be a number"
                f"{_decimal_hint(value)}"
            )
    return np.array(found, dtype=np.float64)


def _decimal_hint(value: object) -> str:
    """What to do about a decimal comma; "" for anything else."""
    if not DECIMAL_COMMA.fullmatch(str(value).strip()):
        return ""
    point = str(value).strip().replace(".", "").replace(",", ".")
    return (
        f", with a decimal point: {point}; pandas.read_csv(FILE, sep=None, decimal=',') reads"
        " decimal commas, and its frame can be given instead of the file"
    )


def coded(values: Sequence[object]) -> Codes:
    """Values of any kind as codes and names."""
    index: dict[object, int] = {}
    codes = [index.setdefault(_plain(value), len(index)) for value in values]
    return merged(np.array(codes, dtype=np.int64), list(index))


def _plain(value: object) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(value)


def _coded_numbers(values: Floats) -> Codes:
    """Numbers as codes and names; whole numbers have no decimals."""
    found, codes = np.unique(values, return_inverse=True)
    whole = bool(np.all((found == np.rint(found)) | np.isnan(found)))
    short = whole and bool(np.all(np.abs(found[~np.isnan(found)]) < 2**53))
    names = ["" if math.isnan(x) else f"{int(x)}" if short else repr(x) for x in found.tolist()]
    return merged(codes, names)


def _of_mapping(source: Mapping[str, Any]) -> Columns:
    """A mapping of columns, such as arrays or lists."""
    arrays = {str(name): np.asarray(column) for name, column in source.items()}
    lengths = {name: array.shape for name, array in arrays.items()}
    if any(len(shape) != 1 for shape in lengths.values()) or len(set(lengths.values())) > 1:
        raise InputError(f"frame: shapes {shown(lengths)}: must be columns of one length")

    def number(name: str) -> Floats:
        array = arrays[name]
        if array.dtype.kind in "fiub":
            return array.astype(np.float64)
        return parsed_all(list(source[name]), "frame", name)

    def code(name: str) -> Codes:
        array = arrays[name]
        if array.dtype.kind in "fiu":
            return _coded_numbers(array.astype(np.float64))
        return coded(array.tolist())

    return Columns("frame", list(arrays), number, code)


def _of_frame(source: Any, title: str) -> Columns:
    """A data frame of any library that narwhals knows."""
    nw = _narwhals()
    try:
        frame = nw.from_native(source, eager_only=True)
        names = frame.columns
    except TypeError:
        kind = f"{type(source).__module__.partition('.')[0]} {type(source).__name__}"
        allowed = "an eager data frame (pandas, polars, pyarrow), a mapping of columns or a path"
        raise InputError(f"source = a {kind}: must be {allowed}") from None
    except nw.exceptions.NarwhalsError as error:
        raise InputError(f"{title}: {one_line(error, 200)}") from None

    def number(name: str) -> Floats:
        series = frame[name]
        if series.dtype.is_numeric() or series.dtype == nw.Boolean:
            return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
        if series.dtype in (nw.Categorical, nw.Enum):
            series = series.cast(nw.String)
        if series.dtype not in (nw.String, nw.Object, nw.Unknown):
            raise InputError(f"{title}, column {name!r}: holds {series.dtype}; must be numbers")
        parts = [
            parsed_all(series[start : start + CHUNK].to_list(), title, name, start)
            for start in range(0, len(series), CHUNK)
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def code(name: str) -> Codes:
        series = frame[name]
        if series.dtype.is_numeric():
            return _coded_numbers(np.asarray(series.cast(nw.Float64).to_numpy(), np.float64))
        if series.dtype in (nw.Object, nw.Unknown):
            return coded(series.to_list())
        texts = series.cast(nw.String).fill_null("")
        found = sorted(texts.unique().to_list(), key=sort_key)
        if len(found) > MOST_ARMS or not found:
            return np.arange(len(texts)), [str(k) for k in range(len(texts))]  # refused later
        return merged(_numbered(texts, found), found)

    return Columns(title, names, number, code)


def _numbered(texts: Any, found: Sequence[str]) -> npt.NDArray[np.int64]:
    """The place of every text, a narwhals Series, among those ``found``."""
    nw, native = _narwhals(), texts.to_native()
    library = nw.get_native_namespace(texts).__name__
    if library == "polars":  # three times as fast as the general way
        numbers = native.cast(import_module("polars").Enum(list(found))).to_physical().to_numpy()
    elif library == "pyarrow":
        places = import_module("pyarrow").array(list(found))
        numbers = import_module("pyarrow.compute").index_in(native, value_set=places).to_numpy()
    else:
        count = list(range(len(found)))
        numbers = texts.replace_strict(found, count, return_dtype=nw.Int64).to_numpy()
    return np.asarray(numbers, dtype=np.int64)


def _narwhals() -> Any:
    if not find_spec("narwhals"):
        raise TightropeError(
            "data frames need narwhals, not installed; pip install 'tightrope[data]'"
        )
    import narwhals

    return narwhals


def _of_parquet(path: str, arm: object, wanted: Mapping[str, Any]) -> Columns:
    """The wanted columns of a Parquet file."""
    title = f"log {path!r}"
    _narwhals()
    if not (find_spec("polars") or find_spec("pyarrow")):
        needed = "pyarrow or polars, not installed; pip install 'tightrope[data]'"
        raise TightropeError(f"Parquet files need {needed}")
    try:
        with open_file(path, "log") as file:
            return _of_frame(_parquet_frame(file, title, arm, wanted), title)
    except (KeyboardInterrupt, TightropeError):
        raise
    except BaseException as error:  # a damaged file can raise anything, also a panic of polars
        raise InputError(f"{title}: must be a Parquet file ({one_line(error, 200)})") from None


def _parquet_frame(file: IO[bytes], title: str, arm: object, wanted: Mapping[str, Any]) -> Any:
    """The wanted columns as a frame, after a look at how large they are."""
    if find_spec("polars"):  # the faster one
        polars: Any = import_module("polars")
        used = _used(title, list(polars.read_parquet_schema(file.name)), arm, wanted)
        check_parquet(file, title, used)
        return polars.read_parquet(file.name, columns=used)
    whole = import_module("pyarrow.parquet").ParquetFile(file, read_dictionary=[str(arm)])
    used = _used(title, whole.schema_arrow.names, arm, wanted)
    check_parquet(file, title, used)
    table = whole.read(columns=used)
    for chunk in table[str(arm)].chunks if hasattr(table[str(arm)].type, "index_type") else ():
        names = chunk.dictionary  # repeated for every row later
        require_memory(len(chunk) * names.nbytes // max(len(names), 1), title)
    return table


def _of_csv(path: str, arm: object, wanted: Mapping[str, Any]) -> Columns:
    """The wanted columns of a CSV file."""
    title = f"log {path!r}"
    names, separator, flags = _header(path, title)
    arm, *numbers = (*_used(title, names, arm, wanted),)
    kinds = {c: "flag" if c in flags else "number" for c in numbers}
    table = _by_pyarrow(path, separator, kinds | {arm: "text"}, arm)
    if table is not None:
        return _of_frame(table, title)
    numbers = [c for c in (arm, *numbers) if c in wanted.values()]
    return _by_python(path, title, separator, names, arm, numbers)


def _header(path: str, title: str) -> tuple[list[str], str, set[str]]:
    """The columns of a CSV file, what separates them, and those that begin with true or false."""
    with open_text(path, "log") as file:
        try:
            start = file.read(LONGEST_HEADER)
        except UnicodeDecodeError as error:
            raise not_utf8("log", path, error) from None
    line = next((line for line in start.splitlines() if line.strip()), "")
    if "\0" in line:
        raise InputError(f"{title}: must be text; its first line holds a zero byte")
    if not line:
        raise InputError(f"{title}: is empty; must have a line of column names and rows")
    separator = max(SEPARATORS, key=line.count)
    try:
        reader = csv.reader(start.splitlines(keepends=True), delimiter=separator)
        names, *first = islice((row for row in reader if row), 2)
    except csv.Error as error:
        raise InputError(f"{title}: must be a CSV file ({error})") from None
    names = [name.strip() for name in names]
    row = first[0] if first else []
    flags = {name for name, text in zip(names, row, strict=False) if text.strip().lower() in WORDS}
    return names, separator, flags


def _by_pyarrow(path: str, separator: str, kinds: Mapping[str, str], arm: str) -> Any:
    """A table of columns of known kinds; None if Python's reader has to look at the file."""
    if not (find_spec("pyarrow") and find_spec("narwhals")):
        return None
    pyarrow, reader = import_module("pyarrow"), import_module("pyarrow.csv")
    types = {"text": pyarrow.string(), "flag": pyarrow.bool_(), "number": pyarrow.float64()}
    convert = reader.ConvertOptions(
        include_columns=list(kinds),
        column_types={column: types[kind] for column, kind in kinds.items()},
        null_values=[""],
        strings_can_be_null=True,
    )
    for lines in (False, True):  # the second is slower, and reads texts of several lines
        parse = reader.ParseOptions(delimiter=separator, newlines_in_values=lines)
        try:
            table = reader.read_csv(path, parse_options=parse, convert_options=convert)
        except Exception:  # Python's reader says what is wrong, and where
            continue
        return None if table[arm].null_count else table
    return None


def _by_python(
    path: str, title: str, separator: str, names: Sequence[str], arm: str, numbers: Sequence[str]
) -> Columns:
    """The arms and the columns ``numbers`` of a CSV file, read some rows at a time."""
    parts: dict[str, list[Floats]] = {column: [np.zeros(0)] for column in numbers}
    index: dict[str, int] = {}
    chosen, first, own = [np.zeros(0, dtype=np.int64)], 0, names.index(arm)
    with open_text(path, "log") as file:
        lines = lines_in(file, title)
        rows = _rows(csv.reader(lines, delimiter=separator), path, len(names))
        while some := list(islice(rows, CHUNK)):
            for column, found in parts.items():
                place = names.index(column)
                found.append(parsed_all([row[place] for row in some], title, column, first))
            chosen.append(np.array([index.setdefault(row[own], len(index)) for row in some]))
            first += len(some)
    return Columns(
        title,
        names,
        number=lambda column: np.concatenate(parts[column]),
        code=lambda _: merged(np.concatenate(chosen), list(index)),
    )


def _rows(reader: Any, path: str, fields: int) -> Iterator[list[str]]:
    """The rows after the line of names, without empty ones; none may have more fields."""
    started, count, title = False, 0, f"log {path!r}"
    try:
        for row in reader:
            if not row:
                continue
            if not started:
                started = True
                continue
            count += 1
            if len(row) < fields:
                row += [""] * (fields - len(row))  # the last values are missing
            if len(row) > fields:
                raise InputError(
                    f"{title}, row {count:,} (without the header): has {len(row)} fields; must"
                    f" have {fields}, as the header"
                )
            yield row
    except csv.Error as error:
        raise InputError(f"{title}, row {count + 1:,} (without the header): {error}") from None
    except UnicodeDecodeError as error:
        raise not_utf8("log", path, error) from None
