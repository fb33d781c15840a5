"""The columns of a log's source: a frame, or the wanted columns of a file.

pyarrow reads CSV files if it is installed; files that it refuses are read again by Python's own
reader, which is slower and names the place of the fault. Files are read in parts (CSV by rows,
Parquet by columns), so that little more than the log's columns is in memory.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from inspect import GEN_CLOSED, getgeneratorstate
from itertools import islice
from typing import IO, Any, TypeVar

import numpy as np

from tightrope.data.columns import (
    CHUNK,
    WORDS,
    Codes,
    Columns,
    filled,
    is_number,
    merged,
    of_frame,
    of_mapping,
    parsed_all,
    require_narwhals,
)
from tightrope.errors import InputError, TightropeError, nearest
from tightrope.files import (
    LONGEST_LINE,
    check_parquet,
    lines_in,
    not_utf8,
    open_file,
    open_text,
    require_memory,
)
from tightrope.names import listed, one_line
from tightrope.problem.values import Floats, shown

SEPARATORS = ",;\t|"
LONGEST_HEADER = 2**20  # characters
BUFFER = 2**18  # bytes of a file per read
Value = TypeVar("Value")


def columns_of(
    source: Any, kind: str, texts: Mapping[str, Any], wanted: Mapping[str, Any]
) -> Columns:
    """The columns of a source; only the wanted columns of a file are read.

    ``texts``: the columns of names by role; ``wanted``: those of numbers.
    """
    if kind == "csv":
        return _of_csv(os.fspath(source), texts, wanted)
    if kind == "parquet":
        return _of_parquet(os.fspath(source), texts, wanted)
    found = of_mapping(source) if isinstance(source, Mapping) else of_frame(source, "frame")
    _used(found.title, found.names, texts, wanted)
    return found


def _used(
    title: str, names: Sequence[str], texts: Mapping[str, Any], wanted: Mapping[str, Any]
) -> list[str]:
    """The wanted columns, each once; raises for one that does not occur once in ``names``."""
    roles = {role: column for role, column in wanted.items() if not is_number(column)}
    for role, name in {**texts, **roles}.items():
        if name is None:
            raise InputError(f"{title}: {role} is missing; must be a column: {listed(names, 12)}")
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
    return list(dict.fromkeys([*texts.values(), *roles.values()]))


def _of_parquet(path: str, texts: Mapping[str, Any], wanted: Mapping[str, Any]) -> Columns:
    """The wanted columns of a Parquet file, each read on access."""
    title = f"log {path!r}"
    require_narwhals()
    if not (find_spec("polars") or find_spec("pyarrow")):
        needed = "pyarrow or polars, which are not installed; pip install 'tightrope[data]'"
        raise TightropeError(f"Parquet files need {needed}")
    opened = partial(_parquet, path, title)
    with opened() as file:
        if find_spec("pyarrow"):
            names = list(import_module("pyarrow.parquet").ParquetFile(file).schema_arrow.names)
        else:
            names = list(import_module("polars").read_parquet_schema(path))
        rows = check_parquet(file, title, _used(title, names, texts, wanted))

    def number(name: str) -> Iterator[Floats]:
        with opened() as file:
            yield from _parquet_numbers(file, title, name)

    def code(name: str) -> Codes:
        with opened() as file:
            return _parquet_codes(file, title, name)

    return Columns(title, names, partial(filled, title, number, lambda: rows), code)


@contextmanager
def _parquet(path: str, title: str) -> Iterator[IO[bytes]]:
    """A Parquet file to read; a damaged one raises an ``InputError``."""
    try:
        with open_file(path, "log") as file:
            yield file
    except (KeyboardInterrupt, GeneratorExit, TightropeError):
        raise
    except BaseException as error:  # a damaged file can raise anything, even a panic of polars
        raise InputError(f"{title}: must be a Parquet file ({one_line(error, 200)})") from None


def _parquet_numbers(file: IO[bytes], title: str, name: str) -> Iterable[Floats]:
    """A column as numbers, in parts."""
    if not find_spec("pyarrow"):
        return of_frame(_polars_column(file, name), title).numbers([name])
    pa: Any = import_module("pyarrow")
    whole, kind = _parquet_column(file, name)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return (_floats(one.column(0), pa.float64()) for one in _batches(whole, name))
    return of_frame(whole.read(columns=[name]), title).numbers([name])


def _parquet_codes(file: IO[bytes], title: str, name: str) -> Codes:
    """A column as names."""
    if not find_spec("pyarrow"):
        return of_frame(_polars_column(file, name), title).code(name)
    pa: Any = import_module("pyarrow")
    whole, kind = _parquet_column(file, name)
    if not (pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type)):
        return of_frame(whole.read(columns=[name]), title).code(name)
    read = _Growing([name], [], whole.metadata.num_rows)
    for batch in _batches(whole, name):
        texts = batch.column(0)
        codes = texts.indices.fill_null(-1).to_numpy()
        read.add([(texts.dictionary.to_pylist(), codes)], {})
    pa.default_memory_pool().release_unused()
    return read.code(name)


def _polars_column(file: IO[bytes], name: str) -> Any:
    return import_module("polars").read_parquet(file.name, columns=[name])


def _parquet_column(file: IO[bytes], name: str) -> tuple[Any, Any]:
    """A file of pyarrow that has texts in this column as a dictionary, and the column's type."""
    whole = import_module("pyarrow.parquet").ParquetFile(
        file, read_dictionary=[name], pre_buffer=False, buffer_size=BUFFER
    )
    return whole, whole.schema_arrow.field(name).type


def _batches(whole: Any, name: str) -> Any:
    """A column some rows at a time; without threads, which would read ahead."""
    return whole.iter_batches(batch_size=CHUNK, columns=[name], use_threads=False)


def _floats(column: Any, kind: Any) -> Floats:
    """A column of pyarrow as an array."""
    found: Floats = column.cast(kind, safe=False).to_numpy(zero_copy_only=False)
    return found


def _of_csv(path: str, texts: Mapping[str, Any], wanted: Mapping[str, Any]) -> Columns:
    """The wanted columns of a CSV file."""
    title = f"log {path!r}"
    names, separator, flags = _header(path, title)
    words, used = list(texts.values()), _used(title, names, texts, wanted)
    numbers = [column for column in used if column in wanted.values()]
    kinds = {c: "flag" if c in flags else "number" for c in numbers}
    both = any(column in wanted.values() for column in words)
    lines, quotes = _lines_and_quotes(path)
    require_memory(8 * lines * (len(words) + len(wanted)), title)
    start = partial(_Growing, words, list(wanted.values()), lines - 1)
    # An odd number of quotes: pyarrow would read on to the end of the file.
    read = None if both or quotes % 2 else _by_pyarrow(path, separator, kinds, words, start)
    if read is None:
        read = _by_python(path, title, separator, names, words, numbers, start())
    return Columns(title, names, read.numbers, read.code)


class _Growing:
    """Columns that are filled some rows at a time.

    ``wanted``: columns, or a number for all rows. ``most``: the rows, as far as is known.
    """

    def __init__(self, words: Sequence[str], wanted: Sequence[Any], most: int) -> None:
        self.wanted, self.rows = wanted, 0
        self.index: dict[str, dict[str, int]] = {word: {} for word in words}  # names and codes
        self.codes = np.empty((len(words), most), np.int64)
        self.values = np.empty((len(wanted), most))

    def add(self, words: Sequence[tuple[Sequence[str], Any]], numbers: Mapping[str, Any]) -> None:
        """More rows: names and each row's place among them, -1 if missing; and the numbers."""
        more = len(words[0][1] if words else next(iter(numbers.values())))
        some = slice(self.rows, self.rows + more)
        self.rows += more
        if self.rows > self.values.shape[1]:
            wider = ((0, 0), (0, self.rows))
            self.codes, self.values = np.pad(self.codes, wider), np.pad(self.values, wider)
        for row, index, (names, codes) in zip(self.codes, self.index.values(), words, strict=True):
            places = np.array([*(index.setdefault(name, len(index)) for name in names), -1])
            row[some] = places[codes]
        for column, values in numbers.items():
            self.values[self.wanted.index(column), some] = values

    def code(self, name: str) -> Codes:
        """A column of names."""
        row = self.codes[list(self.index).index(name), : self.rows]
        return merged(row, list(self.index[name]))

    def numbers(self, wanted: Sequence[Any]) -> Floats:
        """The wanted columns, [wanted, n]."""
        for place, column in enumerate(wanted):
            first = wanted.index(column)
            if is_number(column):
                self.values[place] = float(column)
            elif first < place:
                self.values[place] = self.values[first]
        return np.ascontiguousarray(self.values[:, : self.rows])


def _header(path: str, title: str) -> tuple[list[str], str, set[str]]:
    """The columns of a CSV file, their separator, and those that begin with true or false."""
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
        rows = (row for row in reader if row)
        names = [name.strip() for name in next(rows)]
    except csv.Error as error:
        raise InputError(f"{title}: must be a CSV file ({error})") from None
    row: list[str] = []
    with suppress(csv.Error):  # the reader of the rows names the fault and its place
        row = next(rows, [])
    flags = {name for name, text in zip(names, row, strict=False) if text.strip().lower() in WORDS}
    return names, separator, flags


def _by_pyarrow(
    path: str,
    separator: str,
    kinds: Mapping[str, str],
    words: Sequence[str],
    start: Callable[[], _Growing],
) -> _Growing | None:
    """The names and columns of known kinds; None if Python's reader must read the file."""
    if not find_spec("pyarrow"):
        return None
    pyarrow, reader = import_module("pyarrow"), import_module("pyarrow.csv")
    types = {"text": pyarrow.string(), "flag": pyarrow.bool_(), "number": pyarrow.float64()}
    every = {**dict.fromkeys(words, "text"), **kinds}
    convert = reader.ConvertOptions(
        include_columns=list(every),
        column_types={column: types[kind] for column, kind in every.items()},
        null_values=[""],
        strings_can_be_null=True,
    )
    blocks = reader.ReadOptions(block_size=BUFFER)
    for lines in (False, True):  # the second is slower, and reads texts of several lines
        parse = reader.ParseOptions(delimiter=separator, newlines_in_values=lines)
        try:
            # The default pool keeps what it frees, once more than these blocks.
            pool = pyarrow.system_memory_pool()
            with reader.open_csv(path, blocks, parse, convert, pool) as batches:
                return _grown(batches, kinds, words, types["number"], start())
        except Exception:  # Python's reader names the fault and its place
            continue
    return None


def _grown(
    batches: Any, kinds: Iterable[str], words: Sequence[str], plain: Any, read: _Growing
) -> _Growing | None:
    """The content of pyarrow's batches; None if a row lacks a name."""
    for batch in batches:
        if any(batch[word].null_count for word in words):
            return None
        texts = [batch[word].dictionary_encode() for word in words]
        names = [(one.dictionary.to_pylist(), one.indices.to_numpy()) for one in texts]
        read.add(names, {column: _floats(batch[column], plain) for column in kinds})
    return read


def _by_python(
    path: str,
    title: str,
    separator: str,
    names: Sequence[str],
    words: Sequence[str],
    numbers: Sequence[str],
    read: _Growing,
) -> _Growing:
    """The columns ``words`` and ``numbers`` of a CSV file."""
    places = {column: names.index(column) for column in (*words, *numbers)}
    with open_text(path, "log") as file:
        rows = _rows(lines_in(file, title), separator, path, len(names))
        while some := list(islice(rows, CHUNK)):
            texts = {column: [row[place] for row in some] for column, place in places.items()}
            read.add(
                [(texts[word], range(len(some))) for word in words],
                {one: parsed_all(texts[one], title, one, read.rows) for one in numbers},
            )
    return read


def _rows(lines: Any, separator: str, path: str, fields: int) -> Iterator[list[str]]:
    """The rows after the line of names, without empty ones; each must have as many fields.

    ``lines``: a generator; once it has ended, a row that still asks it for more has an open quote.
    """
    started, count, title = False, 0, f"log {path!r}"
    try:
        for row in csv.reader(lines, delimiter=separator):
            place = f"{title}, row {count + 1:,} (without the header)"
            if getgeneratorstate(lines) == GEN_CLOSED:
                where = place if started else f"{title}, header"
                raise InputError(f"{where}: opens a quote; must close it, none follows")
            if not row:
                continue
            if not started:
                started = True
                continue
            count += 1
            if len(row) != fields:
                raise InputError(
                    f"{place}: has {len(row)} fields; must have {fields}, as the header"
                )
            yield row
    except csv.Error as error:
        hint = "; is a quote never closed?" if "field limit" in str(error) else ""
        raise InputError(
            f"{title}, row {count + 1:,} (without the header): {error}{hint}"
        ) from None
    except UnicodeDecodeError as error:
        raise not_utf8("log", path, error) from None


def _lines_and_quotes(path: str) -> tuple[int, int]:
    """How many lines and quotes a file has, up to a line that is too long to be read."""
    lines, quotes, block, bare = 0, 0, b"", 0
    with open_file(path, "log") as file:
        for block in iter(lambda: file.read(BUFFER), b""):
            codes = np.frombuffer(block, np.uint8)
            ends = int(np.count_nonzero(codes == ord("\n")))
            lines, quotes = lines + ends, quotes + int(np.count_nonzero(codes == ord('"')))
            bare = 0 if ends else bare + len(block)
            if bare > LONGEST_LINE:
                break
    return lines + (not block.endswith(b"\n")), quotes
