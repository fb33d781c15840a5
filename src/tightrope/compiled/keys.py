"""The key of compiled code: a hash of the text that it is compiled from.

The text of a function is its bytecode and its constants, without its docstring, and the text of
everything that it refers to: functions that it calls, values of globals and of closures. So a key
stays the same if only comments, docstrings or other functions of a module change.
"""

from __future__ import annotations

import hashlib
import types
from collections.abc import Callable, Iterator
from enum import EnumType
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

LIBRARIES = {"llvmlite", "math", "numba", "numba_cuda", "numpy"}  # their versions are checked

_known: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
_cycles: list[int] = []  # recursive functions


def key_of(*values: Any) -> str:
    """A hash, as hex digits, of the text of functions and of plain values."""
    return hashlib.sha256("\n".join(_text(value, ()) for value in values).encode()).hexdigest()


def names_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The globals that a function uses."""
    names = function.__globals__
    return {name: names[name] for name in _used(function.__code__) if name in names}


def _used(code: types.CodeType) -> Iterator[str]:
    """The names that a code and the codes inside it use."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _used(constant)


def _text(value: Any, within: tuple[int, ...]) -> str:
    """The text of a value; ``within``: the functions that it is a part of."""
    if isinstance(value, types.FunctionType):
        if (value.__module__ or "").partition(".")[0] in LIBRARIES:
            return f"{value.__module__}.{value.__qualname__}"
        return _function_text(value, within)
    if isinstance(value, tuple | list):
        return f"({','.join(_text(one, within) for one in value)})"
    if isinstance(value, set | frozenset):
        return f"{{{','.join(sorted(_text(one, within) for one in value))}}}"
    if isinstance(value, dict):
        return f"{{{','.join(f'{name}:{_text(one, within)}' for name, one in value.items())}}}"
    if isinstance(value, np.ndarray):
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"{value.dtype}{value.shape}{content}"
    if isinstance(value, EnumType):
        members: dict[str, Any] = dict(value.__members__)
        return f"{value.__qualname__}{[(name, one.value) for name, one in members.items()]}"
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}{getattr(value, '_fields', '')}"
    if isinstance(value, partial):
        return _text((value.func, value.args, value.keywords), within)
    inner = getattr(value, "py_func", None) or getattr(value, "_defn", None)
    if inner is not None:  # compiled by numba, or one of its intrinsics
        options = getattr(value, "targetoptions", {})
        named = {name: repr(options[name]) for name in sorted(options) if name != "pipeline_class"}
        return f"{_text(inner, within)}{named}"
    if isinstance(value, types.ModuleType | types.BuiltinFunctionType):
        return value.__name__
    return f"{type(value).__qualname__}={value!r}"


def _function_text(function: types.FunctionType, within: tuple[int, ...]) -> str:
    if id(function) in within:
        _cycles.append(id(function))
        return f"itself {within.index(id(function))}"
    if function in _known:
        return _known[function]
    inside, cycles = (*within, id(function)), len(_cycles)
    used: list[str] = []
    for name, value in names_of(function).items():
        if isinstance(value, types.ModuleType):
            used += _of_module(name, value, set(_used(function.__code__)), inside)
        else:
            used.append(f"{name}={_text(value, inside)}")
    cells = [_text(cell.cell_contents, inside) for cell in function.__closure__ or ()]
    code = _code_text(function.__code__, function.__doc__)
    text = repr((code, function.__defaults__, used, cells))
    short = hashlib.sha256(text.encode()).hexdigest()  # texts of texts would grow without bound
    ours = (function.__module__ or "").startswith("tightrope.")  # other globals may change
    if ours and len(_cycles) == cycles:  # otherwise its text depends on the caller
        _known[function] = short
    return short


def _of_module(
    name: str, module: types.ModuleType, used: set[str], within: tuple[int, ...]
) -> Iterator[str]:
    """The texts of the attributes that are used, as in helper.ARM or package.helper.ARM."""
    if module.__name__.partition(".")[0] in LIBRARIES:
        return
    for at in sorted(used):
        value = getattr(module, at, None)
        if isinstance(value, types.ModuleType):
            yield from _of_module(f"{name}.{at}", value, used - {at}, within)
        elif value is not None:
            yield f"{name}.{at}={_text(value, within)}"


def _code_text(code: types.CodeType, said: str | None = None) -> str:
    """The text of a code; ``said``: its docstring, which is left out."""
    constants = [
        _code_text(one)
        if isinstance(one, types.CodeType)
        else ""
        if at == 0 and one is said
        else repr(one)
        for at, one in enumerate(code.co_consts)
    ]
    return repr((code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars))
