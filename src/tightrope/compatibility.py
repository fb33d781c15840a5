"""The number that is equal for versions of the program with the same decisions.

Stored runs and campaigns are filed under it. A developer raises it with a change of a policy's
decisions or of the drawn outcomes: ``tests/golden`` has whole runs, and a test fails if they change
while the number stays. Versions with the same number can work on one campaign side by side. A
user's own policy counts by its text.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from tightrope.compiled.keys import key_of

DECISIONS = 6


def decisions_of(kind: type) -> str:
    """The key of a policy class's runs: the number, and the text of a user's own class."""
    return _decisions_of(kind, DECISIONS)


@cache
def _decisions_of(kind: type, number: int) -> str:
    own = _own_functions(kind)
    return f"{number}-{key_of(own)[:16]}" if own else str(number)


def _own_functions(kind: type) -> list[Any]:
    """The functions of a class and its bases that are defined outside tightrope."""
    return [
        function
        for one in kind.__mro__
        if not one.__module__.startswith(("tightrope.", "builtins"))
        for value in vars(one).values()
        if hasattr(function := getattr(value, "__func__", value), "__code__")
    ]


def is_newer(version: str, other: str) -> bool:
    """Whether a version of the program comes after another; unknown ones do not.

    >>> is_newer("0.10.0", "0.9.1"), is_newer("0.2.0", "0.2.0.dev0"), is_newer("", "0.2.0")
    (True, True, False)
    """

    def order(text: str) -> tuple[list[int], bool]:
        number = re.match(r"[\d.]*", text)[0]  # type: ignore[index]  # it always matches
        return [int(one) for one in number.split(".") if one], number == text

    return order(version) > order(other)
