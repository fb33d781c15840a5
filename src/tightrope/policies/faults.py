"""Errors of a user's own policy: one line that names the error, the file and the line."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import cache
from numbers import Real
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, get_origin

from tightrope.errors import PolicyError, nearest

PACKAGE = str(Path(__file__).parents[1])
_parsing = Lock()  # in Python 3.11 two threads that parse at the same time end in a SystemError


def is_outside(kind: type) -> bool:
    """Whether a policy's class is a user's own, not one of this package."""
    return not kind.__module__.startswith("tightrope.")


def failed(
    kind: type, error: Exception, step: int | None = None, label: str | None = None
) -> PolicyError:
    """The error for a policy that raised an exception, with the line of the policy.

    If the exception arose in code that uses the policy's numbers, it names the policy's class.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if not one.filename.startswith(PACKAGE)]
    told, place = " ".join(str(error).split()), place_of(kind, kind)
    when = "" if step is None else f" at step {step}"
    if own:
        frame = own[-1]
        file = Path(frame.filename).name
        place = f" in {frame.name}, {file} line {frame.lineno}: {frame.line}"
    text = f" ({told:.200})" if told else ""
    what = f"{type(error).__name__}{when}{text}{place}"
    return PolicyError(f"policy {label or getattr(kind, 'name', kind.__name__)}: {what}")


def wrong_arm(policy: Any, arm: object, step: int, count: int) -> PolicyError:
    """The error for a policy that chose an arm that does not exist."""
    chooses = getattr(policy, "choose", policy.decide)
    return PolicyError(
        f"policy {policy.label}: chose arm {arm} at step {step}; must be a whole number from 0 to"
        f" {count - 1}{place_of(type(policy), chooses)}"
    )


def require_index(
    policy: Any, function: Callable[..., Any], index: Any, arm: int, step: float
) -> None:
    """Raise if an index of a user's own policy is nan; names the function behind it."""
    if isinstance(index, Real) and index == index:
        return
    place = place_of(type(policy), function)
    raise PolicyError(
        f"policy {policy.label}: {function.__name__} of arm {arm} gives {index} at step {step:g};"
        f" must be a number{place}"
    )


def place_of(kind: type, what: Any) -> str:
    """The place of a function or class of a user's own policy; "" for this package's code."""
    if not is_outside(kind):
        return ""
    try:
        with _parsing:
            file, line = inspect.getsourcefile(what), inspect.getsourcelines(what)[1]
    except (OSError, TypeError):  # typed into a console
        return f" (in {what.__qualname__})"
    return f" (in {what.__name__}, {Path(file or '').name} line {line})"


def require_dataclass(kind: type) -> None:
    """Raise unless a policy's class is a frozen dataclass, with all parameters that it declares."""
    own = vars(kind)
    hints = own.get("__annotations__", {}).items()
    fields = [name for name, hint in hints if "ClassVar" not in str(hint) and not _is_class(hint)]
    made = is_dataclass(kind) and ("__dataclass_fields__" in own or not fields)
    if not made or not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        place = place_of(kind, kind)
        raise PolicyError(f"policy {kind.__name__}: the class lacks @dataclass(frozen=True){place}")


def _is_class(hint: object) -> bool:
    return hint is ClassVar or get_origin(hint) is ClassVar


@cache
def require_forms(kind: type) -> None:
    """Raise unless the functions of a user's own policy take the arguments that engines pass."""
    if not is_outside(kind):
        return
    for name in ("setup", "decide", *_static_functions(kind)):
        function = inspect.getattr_static(kind, name)
        wanted = next(vars(one)[name] for one in reversed(kind.__mro__) if name in vars(one))
        given, taken = (_parameters(one) for one in (wanted, function))
        static = isinstance(wanted, staticmethod)
        if static and function is wanted and _is_missing(function):
            near = nearest(name, vars(kind))
            hint = f"; {near}" if near.startswith("did") else ""
            place = place_of(kind, kind)
            raise PolicyError(f"policy {kind.__name__}: the class has no {name}{hint}{place}")
        if static != isinstance(function, staticmethod) or not _accepts(function, len(given)):
            form = ("@staticmethod " if static else "") + f"{name}({', '.join(given)})"
            place = place_of(kind, getattr(kind, name))
            raise PolicyError(
                f"policy {kind.__name__}: {name} takes ({', '.join(taken)}); must be {form}{place}"
            )


def _static_functions(kind: type) -> list[str]:
    """The functions of a class that a base class of this package declares as static."""
    bases = [one for one in kind.__mro__ if not is_outside(one)]
    return [
        name
        for one in bases
        for name, value in vars(one).items()
        if isinstance(value, staticmethod) and not name.startswith("_")
    ]


def _is_missing(function: staticmethod[..., Any]) -> bool:
    """Whether a function of a base class only says that the class must have it."""
    return "NotImplementedError" in function.__func__.__code__.co_names


def _parameters(function: Any) -> list[str]:
    return list(inspect.signature(getattr(function, "__func__", function)).parameters)


def _accepts(function: Any, count: int) -> bool:
    """Whether a function accepts this number of arguments."""
    try:
        inspect.signature(getattr(function, "__func__", function)).bind(*range(count))
    except TypeError:
        return False
    return True
