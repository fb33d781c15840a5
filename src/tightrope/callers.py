"""Warnings at the caller's own line, and a second name for a parameter."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from tightrope.errors import InputError

Function = TypeVar("Function", bound=Callable[..., Any])


def warn_caller(text: str, category: type[Warning]) -> None:
    """Warn at the line outside of this package from which it was called."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_own(frame.f_globals):
        frame = frame.f_back
    names, registry = frame.f_globals, frame.f_globals.setdefault("__warningregistry__", {})
    place = (frame.f_code.co_filename, frame.f_lineno, names.get("__name__"), registry)
    warnings.warn_explicit(text, category, *place)


def _is_own(names: dict[str, Any]) -> bool:
    """Whether these are the globals of a module of this package."""
    return str(names.get("__name__")).partition(".")[0] == __name__.partition(".")[0]


def also_called(other: str, word: str) -> Callable[[Function], Function]:
    """Let a function take the keyword ``other`` for its parameter ``word``, with a warning.

    >>> @also_called("budget", "budgets")
    ... def count(budgets):
    ...     return len(budgets)
    >>> with warnings.catch_warnings(action="ignore"):
    ...     count(budget=[10, 20])
    2
    """

    def decorated(function: Function) -> Function:
        title = function.__qualname__.removesuffix(".__init__")

        @wraps(function)
        def call(*given: Any, **named: Any) -> Any:
            if other in named:
                if word in named:
                    raise InputError(
                        f"{title}: {other} and {word} are the same parameter; must be {word}"
                    )
                text = f"{title}({other}=...): the parameter is called {word}; {other} is accepted"
                warn_caller(text, DeprecationWarning)
                named[word] = named.pop(other)
            return function(*given, **named)

        return cast(Function, call)

    return decorated
