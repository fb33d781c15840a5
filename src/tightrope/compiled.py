"""How kernels are compiled: numba's options, float constants, the cache on disk. One place.

All that leans on numba's internals is here; ``tests/test_compiled.py`` tells when they change, and
``pyproject.toml`` has an upper bound for that.

``OPTIONS``: ``nogil`` because threads share the lanes' work; ``error_model="numpy"`` because the
check that Python makes before each division would keep a loop from being vectorised; no
``fastmath``, because the plain Python simulator must reach the same bits.
"""

from __future__ import annotations

import hashlib
import sys
import types as python_types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import numpy as np
from numba import config, njit, types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.errors import NumbaError, UnsupportedBytecodeError
from numba.extending import intrinsic
from numba.np import arrayobj
from numba.np.numpy_support import from_dtype

from tightrope.errors import PolicyError
from tightrope.interrupts import not_dropped
from tightrope.sources import source_digest

__all__ = [
    "COMPILE_ERRORS",
    "OPTIONS",
    "announced",
    "array_behind",
    "checked",
    "compilations",
    "compile_function",
    "compile_kernel",
    "direct_call",
    "fingerprint",
    "first_of",
    "keep",
    "select",
    "tables_in_global_memory",
    "uncounted",
    "whole_number",
]

COMPILE_ERRORS = (NumbaError, UnsupportedBytecodeError)  # the second is not one of the first
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


_on_compiling: ContextVar[Callable[[], None]] = ContextVar("on_compiling", default=lambda: None)


@lru_cache(maxsize=1)
def _tell() -> None:
    print("compiling kernels, once", file=sys.stderr, flush=True)


@contextmanager
def announced() -> Iterator[None]:
    """Say on standard error, once per process, that a kernel is not on the disk and is compiled."""
    token = _on_compiling.set(_tell)
    try:
        yield
    finally:
        _on_compiling.reset(token)


@intrinsic  # type: ignore[untyped-decorator]
def select(_context: Any, condition: Any, yes: Any, no: Any) -> Any:
    """``yes if condition else no`` without a branch: both sides are evaluated.

    A conditional expression becomes a branch, which LLVM turns into masked loads and stores;
    those cost a factor of four on AMD's AVX2 machines.
    """
    if yes != no:
        return None

    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.select(*arguments)

    return yes(types.boolean, yes, no), generate


@njit(forceinline=True, **OPTIONS)  # type: ignore[untyped-decorator]
def keep(condition: Any, new: Any, old: Any) -> Any:
    """``new if condition else old``, for ``old`` just read from where the result goes.

    LLVM would make that a masked store; adding a zero hides the pattern and changes no value.
    """
    return select(condition, new, old + type(old)(0))


def array_behind(entry: int, dtype: type, rows: bool) -> Any:
    """For compiled code: a function from a block's address to the array that an entry describes.

    The block starts with a table. An entry is three 64-bit numbers: where the array starts,
    counted from the block's start, its rows, its columns. Whoever passes the address keeps the
    block alive for the time of the call.
    """
    element = from_dtype(np.dtype(dtype))
    array_type = types.Array(element, 2 if rows else 1, "C")

    @intrinsic  # type: ignore[untyped-decorator]
    def array(_context: Any, address: Any) -> Any:
        return array_type(types.int64), generate

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        word = context.get_value_type(types.int64)
        table = builder.inttoptr(arguments[0], word.as_pointer())
        offset, *shape = (
            builder.load(builder.gep(table, [word(3 * entry + at)]))
            for at in ((0, 1, 2) if rows else (0, 2))
        )
        size = context.get_abi_sizeof(context.get_data_type(element))
        made = arrayobj.make_array(array_type)(context, builder)
        start = builder.add(arguments[0], offset)
        data = builder.inttoptr(start, context.get_data_type(element).as_pointer())
        steps = [builder.mul(shape[-1], word(size)), word(size)] if rows else [word(size)]
        arrayobj.populate_array(
            made, data=data, shape=shape, strides=steps, itemsize=word(size), meminfo=None
        )
        return made._getvalue()

    return array


def first_of(count: int) -> Any:
    """For compiled code: a function from an array to its first ``count`` numbers, a tuple."""

    @intrinsic  # type: ignore[untyped-decorator]
    def numbers(_context: Any, array: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = arrayobj.make_array(array)(context, builder, arguments[0]).data
            word = context.get_value_type(types.int64)
            items = [builder.load(builder.gep(data, [word(at)])) for at in range(count)]
            return context.make_tuple(builder, signature.return_type, items)

        return types.UniTuple(array.dtype, count)(array), generate

    return numbers


def _inlined(function: Callable[..., Any]) -> Any:
    return njit(forceinline=True, **OPTIONS)(function)


@lru_cache(maxsize=1024)  # what two functions call is compiled once
def compile_function(
    function: Callable[..., Any],
    digest: str,
    dtype: type | None = None,
    jit: Callable[[Callable[..., Any]], Any] = _inlined,
) -> Any:
    """Compile a part of the kernel with this ``digest``, and the functions that it calls.

    With a ``dtype``, float constants become that type: numba widens ``float32 + 1.0`` to 64 bits,
    numpy does not; so both compute the same bits, and a vector holds twice as many lanes.

    The digest goes into the function's name. A kernel read from the disk brings its parts along
    under their names, and the linker takes the first of a name: a part of another kernel, compiled
    under the same name in this process, would run in its place.

    ``jit`` compiles one function for the processor at hand; the CPU's unless a GPU gives its own.
    """

    def adapt(value: Any) -> Any:
        if isinstance(value, python_types.FunctionType):
            return compile_function(value, digest, dtype, jit)
        if isinstance(value, tuple):
            return tuple(adapt(item) for item in value)
        return dtype(value) if dtype is not None and type(value) is float else value

    code = function.__code__
    twin = python_types.FunctionType(
        code.replace(co_consts=tuple(adapt(constant) for constant in code.co_consts)),
        {
            "__name__": function.__module__,  # numba's cache looks the module up
            **{name: adapt(value) for name, value in _names(function).items()},
        },
        f"{function.__name__}_{digest[:16]}",
        closure=function.__closure__,
    )
    twin.__qualname__ = twin.__name__
    return jit(twin)


def fingerprint(functions: Iterable[Callable[..., Any]], facts: Iterable[object]) -> str:
    """A digest of what a kernel is built from: plain facts, our sources, a user's functions."""
    digest = hashlib.sha256(repr((source_digest(), list(facts))).encode())
    for function in functions:
        digest.update(_text(function).encode())
    return digest.hexdigest()


def _names(function: Callable[..., Any]) -> dict[str, Any]:
    """The globals that a function uses."""
    names = function.__globals__
    return {name: names[name] for name in function.__code__.co_names if name in names}


def _text(function: Callable[..., Any]) -> str:
    """A function's code and constants, and those of the functions it calls."""
    code = function.__code__
    used = []
    for name, value in _names(function).items():
        if isinstance(value, python_types.ModuleType):  # what it takes of a module: helper.ARM
            inside = {at: getattr(value, at) for at in code.co_names if hasattr(value, at)}
            used += [_value_text(f"{name}.{at}", one) for at, one in inside.items()]
        else:
            used.append(_value_text(name, value))
    return repr((code.co_code, code.co_consts, code.co_names, used))


def _value_text(name: str, value: Any) -> str:
    if isinstance(value, python_types.FunctionType):
        return _text(value)
    if isinstance(value, np.ndarray):
        return f"{name}={value.tolist()}"
    return f"{name}={value!r}" if isinstance(value, float | int | str | tuple) else ""


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """numba's cache on disk, keyed by a fingerprint, in files of its own.

    numba keys a closure by the pickled functions in it, and those differ in every process, so
    that a kernel built from a policy's functions would never be found again. And it numbers the
    kernels of one function in a shared index: two processes that write at once can give two
    kernels the same file, and later runs the wrong code.
    """

    def __init__(self, function: Callable[..., Any], digest: str) -> None:
        super().__init__(function)
        self._digest = digest
        self._cache_file = IndexDataCacheFile(
            cache_path=self._cache_path,
            filename_base=function.__name__,
            source_stamp=self._impl.locator.get_source_stamp(),
        )

    def _load_overload(self, signature: Any, target_context: Any) -> Any:
        found = None
        with suppress(Exception):  # a damaged file costs a compilation, not a crash
            found = super()._load_overload(signature, target_context)
        if found is None:
            _on_compiling.get()()
        return found

    def _index_key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
        return signature, codegen.magic_tuple(), self._digest


def compile_kernel(kernel: Any, digest: str, **options: Any) -> Any:
    """Compile a function that may close over compiled ones; found on the disk the next time.

    Ctrl-C while it is compiled or read from the disk is raised at the end of that at the latest.
    """
    kernel.__qualname__ = kernel.__name__ = f"{kernel.__name__.strip('_')}_{digest[:16]}"
    dispatcher = njit(**OPTIONS, **options)(kernel)
    with suppress(RuntimeError):  # no folder to write to: compile every time
        dispatcher._cache = _KernelCache(kernel, digest)
    compile_types = dispatcher.compile

    def compile_and_check(signature: Any) -> Any:
        with not_dropped():
            return compile_types(signature)

    dispatcher.compile = compile_and_check
    return dispatcher


def direct_call(kernel: Any, *arguments: Any) -> Any:
    """Compile a kernel for arguments of these numba types; called without a look at theirs.

    numba finds out the type of every argument at every call, which takes as long as all the rest
    of a short one. Called directly, Python's numbers are converted to the types given here.
    """
    kernel.compile(arguments)
    return kernel.overloads[arguments].entry_point


def uncounted(function: Callable[..., Any]) -> Any:
    """Compile a function, to be inlined, that does not count the users of the arrays it is given.

    For slices of memory that lives longer: to count them would take seconds of compiling.
    """
    return njit(forceinline=True, _nrt=False, **OPTIONS)(function)


def checked(function: Callable[..., Any]) -> Any:
    """As ``uncounted``, and an index out of range raises IndexError: for a user's own functions."""
    return njit(forceinline=True, _nrt=False, boundscheck=True, **OPTIONS)(function)


def whole_number(place: str) -> Any:
    """For compiled code: a function that gives a number back; PolicyError if its type has a point.

    Compiled code would cut 0.5 to 0 where an arm is asked for. The error comes from compiling.
    """

    @intrinsic  # type: ignore[untyped-decorator]
    def whole(_context: Any, value: Any) -> Any:
        if not isinstance(value, types.Integer | types.Boolean):
            raise PolicyError(f"{place} returns {value}; must be a whole number, the arm to pull")

        def generate(_target: Any, _builder: Any, _signature: Any, arguments: Any) -> Any:
            return arguments[0]

        return value(value), generate

    return whole


def compilations(kernel: Any) -> int:
    """How often a kernel was compiled in this process, not read from the disk."""
    return sum(kernel.stats.cache_misses.values())


@contextmanager
def tables_in_global_memory() -> Iterator[None]:
    """Compile kernels whose functions refer to arrays, such as a table of quantiles.

    numba-cuda puts such arrays in constant memory, which serves one address at a time: the threads
    of a warp that look up different places wait for each other. From global memory, by its caches,
    `resolve` makes 3.5 times as many steps per second (H200, K = 2 to 50).
    """
    if config.ENABLE_CUDASIM:  # the simulator has no memory of its own
        yield
        return
    from numba.cuda.cudadrv import nvvm

    constant, nvvm.ADDRSPACE_CONSTANT = nvvm.ADDRSPACE_CONSTANT, nvvm.ADDRSPACE_GLOBAL
    try:
        yield
    finally:
        nvvm.ADDRSPACE_CONSTANT = constant
