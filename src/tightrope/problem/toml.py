"""Read and write TOML; written with one line per entry."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import tomli_w

from tightrope.errors import ProblemError

# Matches dotted keys of 64 or more parts: ``tomllib`` takes quadratic time in their number.
MANY_PARTS = re.compile(r"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){64}""")


def table_of(text: str) -> dict[str, Any]:
    """The table that a TOML text describes."""
    if not isinstance(text, str):
        raise ProblemError(
            f"{text!r:.80}: must be TOML text; load_problem and load_task read a file"
        )
    if MANY_PARTS.search(text):
        raise ProblemError("not TOML: nested too deeply")
    try:
        return tomllib.loads(text)
    except ValueError as error:
        hint = "; load_problem and load_task read a file" if text.endswith(".toml") else ""
        raise ProblemError(f"not TOML: {error}{hint}") from None
    except RecursionError:
        raise ProblemError("not TOML: nested too deeply") from None


def alone(values: Sequence[object]) -> object:
    """The only value of a list; a longer list unchanged."""
    return values[0] if len(values) == 1 else list(values)


def entries_text(table: Mapping[str, object]) -> str:
    """The entries of a TOML table as text, one per line."""
    return "".join(f"{entry}\n" for entry in _entries(table))


def _entries(table: Mapping[str, object]) -> list[str]:
    """The entries of a TOML table without empty ones."""
    empty: tuple[object, ...] = ("", [], {}, None)
    return [f"{_key(key)} = {_inline(v)}" for key, v in table.items() if v not in empty]


def _key(key: str) -> str:
    """A TOML key, quoted if necessary."""
    return tomli_w.dumps({key: 0}).removesuffix(" = 0\n")


def _inline(value: object) -> str:
    """A TOML value on one line; rows of numbers take a line each.

    tomli-w would write every distribution as a separate table.
    """
    if isinstance(value, dict):
        return "{ " + ", ".join(_entries(value)) + " }"
    if isinstance(value, list) and all(type(one) is float for one in value):
        return f"[{', '.join(map(repr, value))}]"  # the same, for many rows of numbers
    if isinstance(value, list):
        comma = ",\n        " if isinstance(value[0], list) else ", "
        return "[" + comma.join(map(_inline, value)) + "]"
    return tomli_w.dumps({"": value}).removeprefix('"" = ').removesuffix("\n")
