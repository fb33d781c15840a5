"""Options that read ``NAME=VALUE``."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from typing import Any

from tightrope.errors import InputError, ProblemError


def named(text: str) -> str:
    """``NAME=X``, or a number alone, as it was written: for options that are read later."""
    try:
        float(text.rpartition("=")[2])
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must read NAME=NUMBER") from None
    return text


def number_or_text(text: str) -> str | float:
    """A number; other text, such as the name of a column, as it is."""
    try:
        found = float(text)
    except ValueError:
        return text
    if math.isnan(found):
        raise argparse.ArgumentTypeError(f"{text!r} must be a finite number")
    return found


def ends_of(text: str) -> tuple[Any, ...]:
    """The ends of an interval, ``LOW,HIGH``; several pairs for the sides of a box."""
    try:
        ends = tuple(map(float, text.split(",")))
    except ValueError:
        ends = ()
    if len(ends) not in (2, 4, 6):
        raise argparse.ArgumentTypeError(
            f"{text!r} must read LOW,HIGH, two numbers; or as many for each column of --arm"
        )
    return ends if len(ends) == 2 else tuple(zip(ends[::2], ends[1::2], strict=True))


def by_name(
    texts: Sequence[str],
    option: str,
    alone: Sequence[str] = (),
    convert: Callable[[str], Any] = float,
) -> dict[str, Any]:
    """Values by name, numbers by default; the name may be left out where there is one ``alone``.

    >>> by_name(["bad=0.05/pull"], "--limit", convert=str), by_name(["7"], "--limit", ["bad"])
    ({'bad': '0.05/pull'}, {'bad': 7.0})
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not equals and len(alone) == 1:
            name = alone[0]
        if not name or not value:
            wanted = f"NAME={text}, with a name among {', '.join(alone)}"
            if equals or not alone:
                wanted = "NAME=NUMBER" if convert is float else "NAME=VALUE"
            raise InputError(f"{option} {text!r}: must be {wanted}")
        if name in found:
            raise InputError(f"{option} {text}: {name!r} is given twice; each must be different")
        try:
            found[name] = convert(value)
        except ValueError:
            raise InputError(f"{option} {text}: {value!r} must be a number") from None
    return found


def limits_of(texts: Sequence[str], alone: Sequence[str] = ()) -> dict[str, Any]:
    """Limits by name; a number alone stays one. The name may be left out as for ``by_name``.

    >>> limits_of(["bad=5%/pull", "dollars=0.004", "late=30/total"])
    {'bad': Limit(0.05, per='pull'), 'dollars': 0.004, 'late': Limit(total=30.0)}
    """
    from tightrope.problem.limits import as_written

    found = by_name(texts, "--limit", alone, str)
    for name, text in found.items():
        try:
            found[name] = as_written(text)
        except ProblemError as error:
            raise InputError(f"--limit {name}={text}: {error}") from None
    return found
