"""Compile kernels: numba's options, float literals, the cache on the disk.

All code that depends on numba's internals is here; ``tests/test_compiled.py`` fails when they
change, and ``pyproject.toml`` has an upper bound on numba for that reason.

``OPTIONS``: ``nogil``, because threads run kernels at the same time; ``error_model="numpy"``,
because Python's check before each division would prevent vectorisation; no ``fastmath``, because
the plain Python simulator must compute the same bits.
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
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, DefaultPassBuilder, PassManager, _LowerResult
from numba.core.compiler_machinery import register_pass
from numba.core.errors import NumbaError, UnsupportedBytecodeError
from numba.core.typed_passes import NativeLowering
from numba.extending import intrinsic
from numba.np import arrayobj
from numba.np.numpy_support import from_dtype

from tightrope.errors import PolicyError
from tightrope.interrupts import not_dropped
from tightrope.sources import source_digest

__all__ = [
    "COMPILE_ERRORS",
    "OPTIONS",
    "PART",
    "announced",
    "array_behind",
    "checked",
    "compilations",
    "compile_function",
    "compile_kernel",
    "direct_call",
    "fingerprint",
    "first_of",
    "inlined",
    "keep",
    "optimized",
    "select",
    "tables_in_global_memory",
    "uncounted",
    "whole_number",
]

COMPILE_ERRORS = (NumbaError, UnsupportedBytecodeError)  # the second does not derive from the first
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


class _PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a part, optimised once; it becomes machine code within a kernel alone."""

    def _optimize_final_module(self) -> None:
        manager, builder = self._codegen._module_pass_manager()
        manager.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):  # type: ignore[misc]
    """As numba's, without machine code of its own and without an entry from Python."""

    _name = "part_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        for flag in ("no_compile", "no_cpython_wrapper", "no_cfunc_wrapper"):
            setattr(state.flags, flag, True)
        done = bool(super().run_pass(state))
        made = state["cr"]
        key = object().__format__  # numba finds a function by a builtin; called, this one raises
        state.targetctx.insert_user_function(key, made.fndesc, [state.library])
        state["cr"] = _LowerResult(made.fndesc, made.call_helper, cfunc=key, env=made.env)
        return done


class _PartCompiler(Compiler):  # type: ignore[misc]
    def define_pipelines(self) -> list[Any]:
        usual = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes = PassManager("part")
        for one, text in usual.passes:
            passes.add_pass(_PartLowering if one is NativeLowering else one, text)
        passes.finalize()
        return [passes]


# For functions that only kernels call. numba would make machine code of each, with all that it
# calls in it, and two wrappers; without that a kernel compiles in two thirds of the time.
PART: dict[str, Any] = {"pipeline_class": _PartCompiler, **OPTIONS}

_on_compiling: ContextVar[Callable[[], None]] = ContextVar("on_compiling", default=lambda: None)


@lru_cache(maxsize=1)
def _tell() -> None:
    print("compiling kernels, once", file=sys.stderr, flush=True)


@contextmanager
def announced() -> Iterator[None]:
    """Print to standard error, once per process, when a kernel is not on the disk and compiles."""
    token = _on_compiling.set(_tell)
    try:
        yield
    finally:
        _on_compiling.reset(token)


class NotOnDiskError(Exception):
    """A kernel that would have to be compiled."""


def _refuse() -> None:
    raise NotOnDiskError


@contextmanager
def only_from_disk() -> Iterator[None]:
    """Raise ``NotOnDiskError`` instead of compiling a kernel that is not on the disk."""
    token = _on_compiling.set(_refuse)
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
    """``new if condition else old``, where ``old`` was just read from the result's place.

    LLVM would make that a masked store; adding a zero avoids the pattern and changes no value.
    """
    return select(condition, new, old + type(old)(0))


def array_behind(entry: int, dtype: type, rows: bool) -> Any:
    """For compiled code: a function from a block's address to the array that an entry describes.

    The block starts with a table. An entry is three 64-bit numbers: the array's offset from the
    block's start, its rows, its columns. The caller must keep the block alive during the call.
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
    """For compiled code: a function from an array to a tuple of its first ``count`` numbers."""

    @intrinsic  # type: ignore[untyped-decorator]
    def numbers(_context: Any, array: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = arrayobj.make_array(array)(context, builder, arguments[0]).data
            word = context.get_value_type(types.int64)
            items = [builder.load(builder.gep(data, [word(at)])) for at in range(count)]
            return context.make_tuple(builder, signature.return_type, items)

        return types.UniTuple(array.dtype, count)(array), generate

    return numbers


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function, to be inlined."""
    return njit(forceinline=True, **PART)(function)


def optimized(function: Callable[..., Any]) -> Any:
    """As ``inlined``, with machine code of its own, so that Python can call it too.

    It compiles for longer. SIMD lanes take it because LyOn's loop is 8 % faster with it.
    """
    return njit(forceinline=True, **OPTIONS)(function)


@lru_cache(maxsize=1024)  # a function with two callers is compiled once
def compile_function(
    function: Callable[..., Any],
    digest: str,
    dtype: type | None = None,
    jit: Callable[[Callable[..., Any]], Any] = optimized,
) -> Any:
    """Compile a part of the kernel with this ``digest``, and the functions that it calls.

    With a ``dtype``, float literals get that type: numba widens ``float32 + 1.0`` to 64 bits, numpy
    does not. So both compute the same bits, and a vector holds twice as many lanes.

    The digest becomes part of the function's name. A kernel loaded from the disk brings its parts
    under their names, and the linker takes the first function of a name: without the digest, a part
    of another kernel with the same name could run in its place.

    ``jit`` compiles one function; by default for the CPU, and so that Python can call it.

    A kernel loaded from the disk imports the modules of its parts. Those of a user's functions are
    said to be this one: theirs may be a script, which must not run again, or may be gone.
    """

    def adapt(value: Any) -> Any:
        if isinstance(value, python_types.FunctionType):
            return compile_function(value, digest, dtype, jit)
        if isinstance(value, tuple):
            return tuple(adapt(item) for item in value)
        return dtype(value) if dtype is not None and type(value) is float else value

    code, module = function.__code__, function.__module__
    ours = module.split(".")[0] == __name__.split(".")[0]
    name = function.__name__ if ours else f"{module.replace('.', '_')}_{function.__name__}"
    twin = python_types.FunctionType(
        code.replace(co_consts=tuple(adapt(constant) for constant in code.co_consts)),
        {
            "__name__": module if ours else __name__,
            **{used: adapt(value) for used, value in _names(function).items()},
        },
        f"{name}_{digest[:16]}",
        closure=function.__closure__,
    )
    twin.__qualname__ = twin.__name__
    return jit(twin)


def fingerprint(functions: Iterable[Callable[..., Any]], facts: Iterable[object]) -> str:
    """A digest of a kernel's ingredients: plain facts, our sources, a user's functions."""
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
        if isinstance(value, python_types.ModuleType):  # the attributes it uses, as in helper.ARM
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
    """numba's cache on the disk, keyed by a fingerprint, with separate files per kernel.

    numba keys a closure by its pickled functions, which differ in every process, so that a kernel
    built from a policy's functions would never be found again. Also, it numbers the kernels of one
    function in a shared index: two processes that write at the same time can give two kernels the
    same file, so that later runs use the wrong code.
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
    """Compile a function that may close over compiled ones, with a cache on the disk.

    Ctrl-C during compiling or loading from the disk is raised at the latest when that ends.
    """
    kernel.__qualname__ = kernel.__name__ = f"{kernel.__name__.strip('_')}_{digest[:16]}"
    dispatcher = njit(**OPTIONS, **options)(kernel)
    with suppress(RuntimeError):  # no writable folder: compile every time
        dispatcher._cache = _KernelCache(kernel, digest)
    compile_types = dispatcher.compile

    def compile_and_check(signature: Any) -> Any:
        with not_dropped():
            return compile_types(signature)

    dispatcher.compile = compile_and_check
    return dispatcher


def direct_call(kernel: Any, *arguments: Any) -> Any:
    """Compile a kernel for arguments of these numba types; calls skip numba's type dispatch.

    numba determines the type of every argument at every call, which takes as long as the rest of a
    short call. In a direct call, Python's numbers are converted to the types given here.
    """
    kernel.compile(arguments)
    return kernel.overloads[arguments].entry_point


def uncounted(function: Callable[..., Any]) -> Any:
    """Compile a function, to be inlined, without reference counting of its arrays.

    For slices of memory that outlives the call: counting would add seconds of compiling.
    """
    return njit(forceinline=True, _nrt=False, **PART)(function)


def checked(function: Callable[..., Any]) -> Any:
    """As ``uncounted``, with IndexError for an index out of range: for a user's own functions."""
    return njit(forceinline=True, _nrt=False, boundscheck=True, **PART)(function)


def whole_number(place: str) -> Any:
    """A function for compiled code that returns its argument, which must be of an integer type.

    PolicyError, when it is compiled, for other types: as an arm, 0.5 would be truncated to 0.
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
    """How often a kernel was compiled in this process, without loads from the disk."""
    return sum(kernel.stats.cache_misses.values())


@contextmanager
def tables_in_global_memory() -> Iterator[None]:
    """While active, arrays that kernels refer to, such as quantile tables, go to global memory.

    numba-cuda puts such arrays into constant memory, which serves one address at a time, so that
    threads of a warp with different lookups wait for each other. With cached global memory
    `resolve` makes 3.5 times as many steps per second (H200, K = 2 to 50).
    """
    if config.ENABLE_CUDASIM:  # the simulator has no device memory
        yield
        return
    from numba.cuda.cudadrv import nvvm

    constant, nvvm.ADDRSPACE_CONSTANT = nvvm.ADDRSPACE_CONSTANT, nvvm.ADDRSPACE_GLOBAL
    try:
        yield
    finally:
        nvvm.ADDRSPACE_CONSTANT = constant
