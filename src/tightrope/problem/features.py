"""Contexts that are vectors of numbers: :class:`Features`, and :class:`Mixed` with a type.

A policy sees the *columns* of a request: 1 for the intercept, its features, and for a mixed context
a 1 in the column of its type and 0 in those of the others. Values are rounded to single precision
once, where they enter; every decision and every report uses the rounded values.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import fsum, isfinite
from struct import Struct
from struct import error as struct_error
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.errors import InputError, ProblemError, nearest
from tightrope.problem.contexts import Types, as_types
from tightrope.problem.values import Floats, shown

MOST = 64  # features
MOST_COLUMNS = 128  # features and types together
KEYS = {"types", "missing", "features", "erasable"}  # of a TOML table with features
TYPE = "type"  # the key of the type in a mixed context that is a mapping
VECTORS, PULLED = "vectors", "pulled"  # the keys of the rows in a problem's TOML

Columns = npt.NDArray[np.float32]
COMPACT = "<f4"  # of a number in an event
WHOLE = "<i4"  # of an arm in a problem's TOML


@dataclass(frozen=True)
class Features:
    """Features of a request: numbers that describe it, such as the length of a prompt.

    ``names``: how many there are, or their names; at most 64. A context is a list of as many
    numbers, or a mapping by name. ``erasable``: a campaign keeps them outside of its log, so that
    they can be erased.

    >>> Features(["length", "has_code"]).row({"has_code": 1, "length": 320}).tolist()
    [320.0, 1.0]
    >>> Features(2).row([1.0])
    Traceback (most recent call last):
    tightrope.errors.InputError: context: 1 numbers must be 2, one for each feature
    """

    names: int | Sequence[str]  # kept as a tuple
    erasable: bool = False

    def __post_init__(self) -> None:
        names = self.names
        if isinstance(names, int) and not isinstance(names, bool):
            if not 1 <= names <= MOST:
                raise ProblemError(f"features = {names}: must be from 1 to {MOST}")
            names = _numbered(names)
        if isinstance(names, str | bool) or not isinstance(names, Iterable):
            raise ProblemError(f"features = {shown(names)}: must be a number or a list of names")
        names = tuple(names)
        for name in names:
            if not isinstance(name, str) or not name:
                raise ProblemError(f"feature {shown(name)}: must be a name, not empty")
        if not 1 <= len(names) <= MOST:
            raise ProblemError(f"features = {len(names)} names: must be from 1 to {MOST}")
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ProblemError(f"feature {twice!r} is there twice; names must differ")
        if not isinstance(self.erasable, bool):
            raise ProblemError(f"erasable = {shown(self.erasable)}: must be true or false")
        object.__setattr__(self, "names", names)

    @property
    def count(self) -> int:
        """How many features there are."""
        return len(self.names)  # type: ignore[arg-type]

    @property
    def columns(self) -> int:
        """The columns of a context, the intercept included."""
        return 1 + self.count

    types = 0  # one-hot columns

    def row(self, context: object) -> Columns:
        """The columns of a context without the intercept, in single precision."""
        if context.__class__ is list:  # the fastest way
            try:
                found = np.frombuffer(_packer(self.count)(*context), COMPACT)
                if isfinite(fsum(context)):
                    return found
            except (struct_error, OverflowError, ValueError):
                pass  # a wrong length, no numbers, or too large ones
        if isinstance(context, Mapping):
            context = self._listed(context)
        if context is None:
            raise InputError(f"context is missing; must be {self.count} numbers")
        try:
            with np.errstate(over="ignore"):
                found = np.array(context, np.float32)
        except (TypeError, ValueError):
            raise InputError(f"context = {shown(context)}: must be {self.count} numbers") from None
        except OverflowError:
            raise InputError(f"context = {shown(context)}: must be finite numbers") from None
        if found.shape != (self.count,):
            size = f"{len(found)} numbers" if found.ndim == 1 else f"shape {found.shape}"
            raise InputError(f"context: {size} must be {self.count}, one for each feature")
        if not np.isfinite(found).all():
            place = int(np.flatnonzero(~np.isfinite(found))[0])
            given = np.asarray(context)[place]
            allowed = "must be a finite number, at most 3.4e38 in size"
            raise InputError(f"feature {self.names[place]!r} = {given}: {allowed}")  # type: ignore[index]
        return found

    def _listed(self, context: Mapping[Any, Any]) -> list[Any]:
        names: Any = self.names
        for name in context:
            if name not in names:
                raise InputError(f"feature {shown(name)} is unknown; {nearest(str(name), names)}")
        for name in names:
            if name not in context:
                raise InputError(f"feature {name!r} is missing; the context must have a number")
        return [context[name] for name in names]

    def rows(self, contexts: object) -> Columns:
        """The columns of many contexts, [n, columns - 1]."""
        if isinstance(contexts, np.ndarray) and contexts.shape[1:] == (self.count,):
            with np.errstate(over="ignore"):
                found = np.asarray(contexts, np.float32)
            if np.isfinite(found).all():
                return found
        made = [self.row(one) for one in contexts]  # type: ignore[attr-defined]
        return np.array(made, np.float32).reshape(-1, self.columns - 1)

    def parted(self, row: Columns) -> tuple[str | None, str]:
        """The columns of a context as an event has them: no type, and the features as text."""
        return None, _text_of(row)

    def joined(self, kind: str | None, text: str) -> Columns:
        """The columns that ``parted`` has parted."""
        return np.frombuffer(a2b_base64(text), COMPACT, self.count)

    def table(self) -> dict[str, Any]:
        """As TOML and JSON have it."""
        numbered = self.names == _numbered(self.count)
        found = {"features": self.count if numbered else list(self.names)}  # type: ignore[arg-type]
        return {**found, "erasable": True} if self.erasable else found


@dataclass(frozen=True)
class Mixed:
    """A type and features: a context is a pair, such as ``("math", [320.0, 1.0])``.

    It may also be a mapping with the features by name, and the type as ``"type"``.

    >>> Mixed(["math", "code"], ["length"]).row(("code", [320.0])).tolist()
    [320.0, 0.0, 1.0]
    """

    kinds: Any  # Types with names, or a list of names; kept as Types
    features: Any  # Features, or as those are given; kept as Features

    def __post_init__(self) -> None:
        kinds, given = as_types(self.kinds), self.features
        features = given if isinstance(given, Features) else Features(given)
        if kinds is None or kinds.open:
            raise ProblemError("types: must be named where contexts have features")
        if TYPE in features.names:  # type: ignore[operator]
            raise ProblemError(f"feature {TYPE!r}: must have another name beside types")
        if features.columns + kinds.count > MOST_COLUMNS:
            many = f"{kinds.count} types and {features.count} features"
            raise ProblemError(f"contexts: {many} must be {MOST_COLUMNS - 1} together, or fewer")
        object.__setattr__(self, "kinds", kinds)
        object.__setattr__(self, "features", features)

    @property
    def types(self) -> int:
        """How many types there are."""
        return int(self.kinds.count)

    @property
    def columns(self) -> int:
        """The columns of a context, the intercept included."""
        return int(self.features.columns) + self.types

    @property
    def erasable(self) -> bool:
        """Whether a campaign keeps the features, not the types, outside of its log."""
        return bool(self.features.erasable)

    def row(self, context: object) -> Columns:
        """The columns of a context without the intercept, in single precision."""
        if isinstance(context, Mapping):
            rest = {name: value for name, value in context.items() if name != TYPE}
            context = (context.get(TYPE), rest)
        if not isinstance(context, Sequence) or isinstance(context, str) or len(context) != 2:
            raise InputError(f"context = {shown(context)}: must be a type and its features")
        found = np.zeros(self.columns - 1, np.float32)
        found[: self.features.count] = self.features.row(context[1])
        found[self.features.count + self.kinds.number(context[0])] = 1.0
        return found

    def rows(self, contexts: Iterable[object]) -> Columns:
        """The columns of many contexts, [n, columns - 1]."""
        if isinstance(contexts, np.ndarray) and contexts.shape[1:] == (self.columns - 1,):
            kinds = contexts[:, self.features.count :]
            if np.isin(kinds, (0, 1)).all() and (kinds.sum(axis=1) == 1).all():
                return np.asarray(contexts, np.float32)  # they are columns already
        made = [self.row(one) for one in contexts]
        return np.array(made, np.float32).reshape(-1, self.columns - 1)

    def parted(self, row: Columns) -> tuple[str | None, str]:
        """The columns of a context as an event has them: its type, and the features as text."""
        count = self.features.count
        return self.kinds.names[int(row[count:].argmax())], _text_of(row[:count])

    def joined(self, kind: str | None, text: str) -> Columns:
        """The columns that ``parted`` has parted."""
        found = np.zeros(self.columns - 1, np.float32)
        found[: self.features.count] = self.features.joined(None, text)
        found[self.features.count + self.kinds.number(kind)] = 1.0
        return found

    def table(self) -> dict[str, Any]:
        """As TOML and JSON have it."""
        return {**self.kinds.table(), **self.features.table()}


@cache
def _packer(count: int) -> Callable[..., bytes]:
    """A function that packs so many numbers in single precision."""
    return Struct(f"<{count}f").pack


def _text_of(features: Columns) -> str:
    """Features in base64, as little-endian numbers of single precision."""
    return _encoded(features, COMPACT)


def _encoded(numbers: npt.NDArray[Any], form: str) -> str:
    return b2a_base64(numbers.astype(form, copy=False).tobytes(), newline=False).decode()


@dataclass(frozen=True, eq=False)
class RowFeatures:
    """The features of the rows that a problem's arms draw: request i is row i of every arm.

    ``pulled``: if the rows are a log's, the arm that it pulled in each, -1 for one that is not in
    the problem; the outcomes of other arms follow from the log, see ``data.completion``.
    """

    contexts: Features | Mixed
    rows: Columns  # [n, columns - 1]
    pulled: npt.NDArray[np.int64] | None = None  # [n]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RowFeatures) or self.contexts != other.contexts:
            return False
        pairs = ((self.rows, other.rows), (self.pulled, other.pulled))
        return all(one is two or np.array_equal(one, two) for one, two in pairs)  # type: ignore[arg-type]

    def __hash__(self) -> int:
        return hash((self.contexts, len(self.rows)))

    @cached_property
    def columns(self) -> Floats:
        """What a policy sees of every row, the intercept included, [n, columns]."""
        return np.column_stack([np.ones(len(self.rows)), self.rows.astype(np.float64)])

    def table(self) -> dict[str, Any]:
        """As TOML has it: the rows are the numbers in single precision, in base64."""
        pulled = {} if self.pulled is None else {PULLED: _encoded(self.pulled, WHOLE)}
        return {**self.contexts.table(), VECTORS: _text_of(self.rows), **pulled}


def read_vectors(table: object) -> RowFeatures | None:
    """The features of a problem's rows, of its entry ``contexts`` in TOML; None if it has none."""
    if not isinstance(table, Mapping) or not isinstance(table.get(VECTORS), str):
        return None
    contexts = as_contexts({key: table[key] for key in table if key not in (VECTORS, PULLED)})
    if not isinstance(contexts, Features | Mixed):
        raise ProblemError(f"contexts: {VECTORS}: must come with features")
    size, pulled = contexts.columns - 1, None
    rows = _decoded(table, VECTORS, COMPACT, f"rows of {size} numbers in single precision", size)
    if PULLED in table:
        pulled = _decoded(table, PULLED, WHOLE, f"{len(rows)} numbers of arms").astype(np.int64)
        if len(pulled) != len(rows) or pulled.min(initial=0) < -1:
            raise ProblemError(f"contexts: {PULLED}: must be {len(rows)} numbers of arms")
    return RowFeatures(contexts, rows, pulled)


def _decoded(table: Any, key: str, form: str, allowed: str, width: int = 0) -> npt.NDArray[Any]:
    """The numbers of an entry in base64; in rows of a ``width``."""
    try:
        found = np.frombuffer(a2b_base64(table[key], strict_mode=True), form)
        return found.reshape(-1, width) if width else found
    except (TypeError, ValueError):
        raise ProblemError(f"contexts: {key}: must be {allowed}, in base64") from None


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"x{number}" for number in range(1, count + 1))


def as_contexts(contexts: object) -> Types | Features | Mixed | None:
    """What a task was given as its contexts, see ``as_types``; a TOML table may have features."""
    if isinstance(contexts, Features | Mixed):
        return contexts
    if isinstance(contexts, Mapping) and {"features"} <= set(contexts) <= KEYS:
        given = dict(contexts)
        features = Features(given["features"], given.get("erasable", False))
        if "types" not in given:
            return features
        return Mixed(Types(given["types"], missing=given.get("missing")), features)
    return as_types(contexts)


def contexts_table(contexts: Types | Features | Mixed | None) -> dict[str, Any]:
    """The contexts as a TOML entry; empty if there are none."""
    return {} if contexts is None else contexts.table()
