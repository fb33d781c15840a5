"""Read values from users: numbers, outcomes, tables. Errors name the place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from numbers import Real
from reprlib import Repr
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tightrope.errors import InputError, ProblemError, nearest

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
LARGEST = 1e30  # largest value in the user's units: squares and quotients must not overflow
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def shown(value: object) -> str:
    """``value`` for a message: on one line, with long lists and strings shortened."""
    try:
        return " ".join(_SHORT.repr(value).split())
    except ValueError:  # Python refuses to print integers of more than 4300 digits
        return f"a {type(value).__name__} too long to show"


def number(value: object, place: str) -> float:
    """``value`` as a finite float; ``place`` is its name in the error."""
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            converted = float(value)
        except OverflowError:  # an integer beyond the range of floats
            converted = float("inf")
        if isfinite(converted):
            return converted
        value = converted
    raise ProblemError(f"{place} = {shown(value)}: must be a finite number")


def outcome(value: object, place: str) -> float:
    """``value`` as a float of at most ``LARGEST`` in size, the bound of outcomes."""
    converted = number(value, place)
    if abs(converted) > LARGEST:
        allowed = f"be at most {LARGEST:g} in size; choose another unit"
        raise ProblemError(f"{place} = {converted!r}: must {allowed}")
    return converted


def numbers(
    values: object, place: str, convert: Callable[[object, str], float] = number
) -> tuple[float, ...]:
    """``values`` as a tuple of at least one finite float."""
    if isinstance(values, str | dict) or not isinstance(values, Iterable):
        raise ProblemError(f"{place} = {shown(values)}: must be a list of numbers")
    converted = tuple(convert(value, f"{place}[{i}]") for i, value in enumerate(values))
    if not converted:
        raise ProblemError(f"{place} = []: must hold at least one number")
    return converted


@contextmanager
def at(place: str) -> Iterator[None]:
    """Put ``place`` in front of the message of any ``InputError`` raised inside."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"{place}: {error}") from None


def known_keys(table: object, known: Sequence[str]) -> dict[str, Any]:
    """``table`` itself; raises unless it is a TOML table whose keys are all ``known``."""
    if not isinstance(table, dict):
        raise ProblemError(f"{shown(table)}: must be a table with keys among {', '.join(known)}")
    for key in table:
        if key not in known:
            raise ProblemError(f"unknown key {shown(key)}; {nearest(key, known)}")
    return table
