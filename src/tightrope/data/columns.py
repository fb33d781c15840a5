"""Columns by name, the first form of every log: from a data frame, a mapping or a file."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.errors import InputError, TightropeError
from tightrope.names import one_line
from tightrope.problem.values import Floats, shown

MISSING = frozenset(["", "na", "n/a", "nan", "null", "none"])  # of numbers, in lower case
WORDS = {"true": 1.0, "false": 0.0}
MOST_ARMS = 100_000
DECIMAL_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+")
SIGNS = re.compile(r"[\s$€£¥,'%]")  # of currencies, thousands and percent
CHUNK = 2**16  # rows held as text, or in the form of a file
Codes = tuple[npt.NDArray[np.int64], list[str]]  # an arm's number per row, -1 if missing; names


@dataclass(frozen=True)
class Columns:
    """The columns of a table by name, read on access, each once."""

    title: str  # the table's name in messages
    names: Sequence[str]
    numbers: Callable[[Sequence[Any]], Floats]  # columns, or a number for all rows, [wanted, n]
    code: Callable[[str], Codes]  # a column as names


def filled(
    title: str,
    number: Callable[[str], Iterable[Floats]],
    count: Callable[[], int],
    wanted: Sequence[Any],
) -> Floats:
    """The wanted columns, or numbers for all rows, [wanted, n]; nan for missing values.

    ``number``: a column, in parts; ``count``: the rows.
    """
    rows = count()
    values, places = np.empty((len(wanted), rows)), dict[Any, int]()
    for place, column in enumerate(wanted):
        if is_number(column):
            values[place] = float(column)
        elif column in places:
            values[place] = values[places[column]]
        else:
            places[column], end = place, 0
            for part in number(column):
                start, end = end, end + len(part)
                if end <= rows:
                    values[place, start:end] = part
            if end != rows:
                raise InputError(
                    f"{title}, column {column!r}: has {end:,} rows; must have {rows:,}, as other"
                    " columns do: the file is damaged"
                )
    return values


def is_number(value: object) -> bool:
    """Whether a column is given as one number for all rows."""
    return isinstance(value, Real) and not isinstance(value, bool)


def place_of(title: str, row: int, column: object) -> str:
    """The name of a row, number ``row`` from 0, and a column in messages."""
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
    """Values as numbers; raises for a value that is none, in row ``first`` plus its place."""
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
                f"{_number_hint(str(value).strip())}"
            )
    return np.array(found, dtype=np.float64)


def _number_hint(text: str) -> str:
    """How to write a number; "" if it is none.

    >>> _number_hint("$1,200.50"), _number_hint("5%"), _number_hint("yes"), _number_hint("x")
    (', without signs: 1200.5', ', without signs: 0.05', '; write 1 for yes and 0 for no', '')
    """
    if text.lower() in ("yes", "no"):
        return "; write 1 for yes and 0 for no"
    if not DECIMAL_COMMA.fullmatch(text):
        found = parsed(SIGNS.sub("", text))
        share = 0.01 if text.endswith("%") else 1.0
        return "" if found is None else f", without signs: {found * share:.12g}"
    point = text.replace(".", "").replace(",", ".")
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


def of_mapping(source: Mapping[str, Any]) -> Columns:
    """A mapping of columns, such as arrays or lists."""
    arrays = {str(name): np.asarray(column) for name, column in source.items()}
    lengths = {name: array.shape for name, array in arrays.items()}
    if any(len(shape) != 1 for shape in lengths.values()) or len(set(lengths.values())) > 1:
        raise InputError(f"frame: shapes {shown(lengths)}: must be columns of one length")

    def number(name: str) -> list[Floats]:
        array = arrays[name]
        if array.dtype.kind in "fiub":
            return [array]
        return [parsed_all(list(source[name]), "frame", name)]

    def code(name: str) -> Codes:
        array = arrays[name]
        if array.dtype.kind in "fiu":
            return _coded_numbers(array.astype(np.float64))
        return coded(array.tolist())

    rows = max((len(array) for array in arrays.values()), default=0)
    return Columns("frame", list(arrays), partial(filled, "frame", number, lambda: rows), code)


def of_frame(source: Any, title: str) -> Columns:
    """A data frame of any library that narwhals supports."""
    nw = require_narwhals()
    try:
        frame = nw.from_native(source, eager_only=True)
        names = frame.columns
    except TypeError:
        kind = f"{type(source).__module__.partition('.')[0]} {type(source).__name__}"
        allowed = "an eager data frame (pandas, polars, pyarrow), a mapping of columns or a path"
        raise InputError(f"source = a {kind}: must be {allowed}") from None
    except nw.exceptions.NarwhalsError as error:
        raise InputError(f"{title}: {one_line(error, 200)}") from None

    def number(name: str) -> list[Floats]:
        series = frame[name]
        if series.dtype.is_numeric() or series.dtype == nw.Boolean:
            return [np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)]
        if series.dtype in (nw.Categorical, nw.Enum):
            series = series.cast(nw.String)
        if series.dtype not in (nw.String, nw.Object, nw.Unknown):
            raise InputError(f"{title}, column {name!r}: holds {series.dtype}; must be numbers")
        return [
            parsed_all(series[start : start + CHUNK].to_list(), title, name, start)
            for start in range(0, len(series), CHUNK)
        ]

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

    return Columns(title, names, partial(filled, title, number, lambda: len(frame)), code)


def _numbered(texts: Any, found: Sequence[str]) -> npt.NDArray[np.int64]:
    """The place of every text, a narwhals Series, among those ``found``."""
    nw, native = require_narwhals(), texts.to_native()
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


def require_narwhals() -> Any:
    """The module narwhals; raises if it is not installed."""
    if not find_spec("narwhals"):
        raise TightropeError(
            "data frames need narwhals, which is not installed; pip install 'tightrope[data]'"
        )
    import narwhals

    return narwhals
