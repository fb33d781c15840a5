"""numba and llvmlite without some work that they repeat: a third less time to compile.

Each change keeps what is compiled, and a version of numba without the changed name goes without it.
"""

from __future__ import annotations

import copy
import operator
from contextlib import suppress
from functools import cache
from typing import Any

from numba.core import inline_closurecall
from numba.core.ir import Loc
from numba.core.targetconfig import TargetConfig
from numba.core.types import Array, Boolean, Function, Number


class Plain:
    """A base class for types of ours whose operators numba implements without compiling more."""


# Of numbers, arrays and ``Plain`` types, these too are implemented so.
OPERATORS = frozenset({len, bool, float, range, abs}) | frozenset(
    getattr(operator, name)
    for name in (
        *("getitem", "setitem"),
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "and_", "or_", "xor", "lshift"),
        *("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "iand", "ior", "ixor"),
        *("rshift", "ilshift", "irshift", "lt", "le", "gt", "ge", "eq", "ne", "neg", "not_"),
    )
)


def _free_pass_managers() -> None:
    """Let llvmlite free its pass managers, which numba makes for every function that it compiles.

    llvmlite 0.50 defines the method that frees them, but a base class hides it with one that does
    nothing. A pass manager takes 16 to 32 KB: half of what a process kept of each compilation.
    """
    with suppress(ImportError, AttributeError):  # an older version of llvmlite
        from llvmlite.binding.ffi import ObjectRef
        from llvmlite.binding.newpassmanagers import (
            FunctionPassManager,
            ModulePassManager,
            NewPassManager,
        )

        for kind in (ModulePassManager, FunctionPassManager):
            if kind._dispose is ObjectRef._dispose:
                kind._dispose = NewPassManager._dispose


class _Copying:
    """numba's inliner copies with this instead of ``copy``: blocks share the scope of their names.

    It copies every block of a function twice before it inlines the function, and with each block
    all of the function's variables. Nothing reads the scope of the original afterwards.
    """

    @staticmethod
    def deepcopy(block: Any) -> Any:
        return copy.deepcopy(block, {id(block.scope): block.scope})


def _share_scopes() -> None:
    """Let the inliner share what it does not change."""
    Loc.__deepcopy__ = lambda place, _: place  # a line of the source
    inline_closurecall.copy = _Copying


def _remember_operators() -> None:
    """Find the result of an operator for the types of its operands once.

    numba tries every meaning of an operator, also those for arrays, text and dates, wherever the
    operator stands.
    """
    find = Function.get_call_type

    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        plain = not kws and all(isinstance(one, Number | Boolean | Array | Plain) for one in args)
        if not plain or self.typing_key not in OPERATORS:
            return find(self, context, args, kws)
        found = self.__dict__.setdefault("_found", {})
        if (key := (context, *args)) not in found:
            found[key] = find(self, context, args, kws)
        return found[key]

    Function.get_call_type = get_call_type  # type: ignore[method-assign]


@cache
def _hash_of_names(kind: type) -> int:
    """The hash of a class of flags: that of their names, as in numba."""
    return hash(tuple(sorted(kind.options)))  # type: ignore[attr-defined]


def _compare_flags() -> None:
    """Compare the flags that were set, before those that follow from defaults."""
    compare = TargetConfig.__eq__

    def same(self: Any, other: Any) -> Any:
        return (type(self) is type(other) and self._values == other._values) or compare(self, other)

    TargetConfig.__eq__ = same
    TargetConfig.__hash__ = lambda self: _hash_of_names(type(self))  # type: ignore[arg-type]


_free_pass_managers()
_share_scopes()
_remember_operators()
_compare_flags()
