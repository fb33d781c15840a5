"""Compile functions and kernels: numba's options, float literals, the cache on the disk.

``OPTIONS``: ``nogil``, because threads run kernels at the same time; ``error_model="numpy"``,
because Python's check before each division would prevent vectorisation; no ``fastmath``, because
the plain Python simulator must compute the same bits.
"""

from __future__ import annotations

import gc
import sys
import types as python_types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, DefaultPassBuilder, PassManager, _LowerResult
from numba.core.compiler_machinery import register_pass
from numba.core.errors import NumbaError, UnsupportedBytecodeError
from numba.core.typed_passes import NativeLowering
from numba.extending import intrinsic

from tightrope.compiled import faster  # noqa: F401 - changes numba
from tightrope.compiled.keys import key_of, names_of
from tightrope.errors import PolicyError
from tightrope.interrupts import not_dropped

COMPILE_ERRORS = (NumbaError, UnsupportedBytecodeError)  # the second does not derive from the first
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


SMALL = 6  # functions of a part that is optimised by itself


class _PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a part; it becomes machine code only within a kernel."""

    def _optimize_final_module(self) -> None:
        """Optimise a small part: its loops are slower if that is left to the kernel.

        A large one would be optimised again with each part that calls it, which takes a third of
        the time to compile, and its code does not become faster.
        """
        if sum(not one.is_declaration for one in self._final_module.functions) <= SMALL:
            made = self._codegen._module_pass_manager()  # with a builder from numba 0.62 on
            manager, *builder = made if isinstance(made, tuple) else (made,)
            manager.run(self._final_module, *builder)

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):  # type: ignore[misc]
    """Like numba's, without its own machine code and without an entry point for Python."""

    _name = "part_lowering"
    _library: type[JITCodeLibrary] = _PartLibrary

    def run_pass(self, state: Any) -> bool:
        state.library = self._library(state.targetctx.codegen(), state.func_id.func_qualname)
        for flag in ("no_compile", "no_cpython_wrapper", "no_cfunc_wrapper"):
            setattr(state.flags, flag, True)
        done = bool(super().run_pass(state))
        made = state["cr"]
        key = object().__format__  # numba needs a builtin here; calling it raises
        state.targetctx.insert_user_function(key, made.fndesc, [state.library])
        state["cr"] = _LowerResult(made.fndesc, made.call_helper, cfunc=key, env=made.env)
        return done


class _PartCompiler(Compiler):  # type: ignore[misc]
    _lowering: type[_PartLowering] = _PartLowering

    def define_pipelines(self) -> list[Any]:
        usual = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes = PassManager("part")
        for one, text in usual.passes:
            passes.add_pass(self._lowering if one is NativeLowering else one, text)
        passes.finalize()
        return [passes]


class _TunedLibrary(_PartLibrary):
    """The code of a part that is optimised by itself, whatever its size."""

    _optimize_final_module = JITCodeLibrary._optimize_final_module


@register_pass(mutates_CFG=True, analysis_only=False)
class _TunedLowering(_PartLowering):
    _name = "tuned_lowering"
    _library = _TunedLibrary


class _TunedCompiler(_PartCompiler):
    _lowering = _TunedLowering


# For functions that only kernels call. numba would generate machine code for each, including its
# callees, and two wrappers; without these a kernel compiles in two thirds of the time.
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


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function, to be inlined."""
    return njit(forceinline=True, **PART)(function)


def copied(function: Callable[..., Any]) -> Any:
    """Compile a small function by copying it into its callers before type inference.

    numba compiles each function separately, which for a small one takes longer than copying it.
    """
    return njit(inline="always", **PART)(function)


def separate(function: Callable[..., Any]) -> Any:
    """Compile a function separately: one that is long or has several callers."""
    return njit(**PART)(function)


def optimized(function: Callable[..., Any]) -> Any:
    """Same as ``inlined``, with its own machine code, so that Python can call it too.

    It takes longer to compile.
    """
    return njit(forceinline=True, **OPTIONS)(function)


def tuned(function: Callable[..., Any]) -> Any:
    """Same as ``inlined``, and optimised by itself whatever its size.

    SIMD lanes use it: of large parts that are optimised in their kernel alone, LLVM vectorises some
    loops worse (LyOff is 19 % slower with 2 arms).
    """
    return njit(forceinline=True, pipeline_class=_TunedCompiler, **OPTIONS)(function)


def compile_function(
    function: Callable[..., Any],
    dtype: type | None = None,
    jit: Callable[[Callable[..., Any]], Any] = optimized,
) -> Any:
    """Compile a part of kernels, and the functions that it calls.

    With a ``dtype``, float literals get that type: numba widens ``float32 + 1.0`` to 64 bits, numpy
    does not. So both compute the same bits, and a vector holds twice as many lanes.

    The key of its text becomes part of the function's name. A kernel loaded from the disk contains
    its parts under their names, and the linker takes the first function with a name: without the
    key, a part of another kernel with the same name could run instead.

    ``jit`` compiles one function; by default for the CPU, and so that Python can call it.

    A kernel loaded from the disk imports the modules of its parts. For a user's functions this
    module is recorded instead, because theirs may be a script that must not run again, or may be
    gone.
    """
    key = key_of(function, dtype, jit.__qualname__)
    if key in _parts:  # one with two callers is compiled once
        return _parts[key]

    def adapt(value: Any) -> Any:
        if isinstance(value, python_types.FunctionType):
            return compile_function(value, dtype, jit)
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
            **{used: adapt(value) for used, value in names_of(function).items()},
        },
        f"{name.strip('_')}_{key[:16]}",
        closure=function.__closure__,
    )
    twin.__qualname__ = twin.__name__
    _parts[key] = jit(twin)
    return _parts[key]


_parts: dict[str, Any] = {}


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """numba's cache on the disk, keyed by the kernel's text, with separate files per kernel.

    numba keys a closure by its pickled functions, which differ in every process, so that a kernel
    built from a policy's functions would never be found again. Also, it numbers the kernels of one
    function in a shared index: two processes that write at the same time can give two kernels the
    same file, so that later runs use the wrong code. And it discards kernels that are older than
    their source file, whatever changed there.
    """

    def __init__(self, function: Callable[..., Any], digest: str) -> None:
        super().__init__(function)
        self._digest = digest
        self._cache_file = IndexDataCacheFile(
            cache_path=self._cache_path,
            filename_base=function.__name__,
            source_stamp="",  # the digest is of the kernel's text
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


def compile_kernel(kernel: Any, **options: Any) -> Any:
    """Compile a function that may close over compiled ones, with a cache on the disk.

    Ctrl-C during compiling or loading from the disk is raised at the latest when that ends.
    """
    digest = key_of(kernel, options)
    kernel.__qualname__ = kernel.__name__ = f"{kernel.__name__.strip('_')}_{digest[:16]}"
    dispatcher = njit(no_cfunc_wrapper=True, **{**OPTIONS, **options})(kernel)
    with suppress(RuntimeError):  # no writable folder: compile every time
        dispatcher._cache = _KernelCache(kernel, digest)
    compile_types = dispatcher.compile

    def compile_and_check(signature: Any) -> Any:
        with not_dropped(), _no_collector():
            return compile_types(signature)

    dispatcher.compile = compile_and_check
    return dispatcher


@contextmanager
def _no_collector() -> Iterator[None]:
    """Pause Python's garbage collector, which takes a seventh of the time to compile.

    Blocks of several threads may overlap: numba compiles for one thread at a time, so the pause of
    the one that waits may end early.
    """
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


def address_of(kernel: Any, *arguments: Any) -> int:
    """Compile a kernel for arguments of these numba types; returns its address in memory.

    The address is that of numba's own function, which returns a status and writes its result to a
    pointer. The kernel must be kept alive as long as the address is used.
    """
    kernel.compile(arguments)
    made = kernel.overloads[arguments]
    return int(made.library.get_pointer_to_function(made.fndesc.mangled_name))


def _call_at(count: int) -> Any:
    """An intrinsic that calls a function of ``count`` integers at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        convention, word = context.call_conv, ir.IntType(64)
        kinds = signature.args[1:]
        function = convention.get_function_type(types.int64, kinds)
        pointer = builder.inttoptr(arguments[0], function.as_pointer())
        result = cgutils.alloca_once(builder, word)
        why = cgutils.alloca_once(builder, function.args[1].pointee)
        status = builder.call(pointer, [result, why, *arguments[1:]])
        good = builder.icmp_signed("==", status, ir.IntType(32)(0))
        return builder.select(good, builder.load(result), word(FAILED))

    def typed(_context: Any, *given: Any) -> Any:
        return types.int64(*[types.int64] * (1 + count)), generate

    return typed


FAILED = -(2**63)  # instead of the result of a function that raised an error


@intrinsic  # type: ignore[untyped-decorator]
def call_choose(context: Any, function: Any, address: Any) -> Any:
    """Call ``choose(address) -> arm`` at an address; ``FAILED`` if it raises."""
    return _call_at(1)(context)


@intrinsic  # type: ignore[untyped-decorator]
def call_learn(context: Any, function: Any, address: Any, row: Any) -> Any:
    """Call ``learn(address, row) -> 0`` at an address; ``FAILED`` if it raises."""
    return _call_at(2)(context)


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


def apart(function: Callable[..., Any]) -> Any:
    """Same as ``uncounted``, but inlined only where LLVM finds that worth it.

    For policies with long functions that have several callers. A kernel of the typed policy over
    an interval compiles in a third of the time and is as fast.
    """
    return njit(_nrt=False, **PART)(function)


def checked(function: Callable[..., Any]) -> Any:
    """Same as ``uncounted``, with IndexError for an index out of range, for users' functions."""
    return njit(forceinline=True, _nrt=False, boundscheck=True, **PART)(function)


def whole_number(place: str, where: str = "") -> Any:
    """A function for compiled code that returns its argument, which must be of an integer type.

    Other types raise PolicyError at compile time, because 0.5 would be truncated to arm 0.
    ``place`` starts the message, ``where`` ends it.
    """

    @intrinsic  # type: ignore[untyped-decorator]
    def whole(_context: Any, value: Any) -> Any:
        if not isinstance(value, types.Integer | types.Boolean):
            must = "must be a whole number, the arm to pull"
            raise PolicyError(f"{place} returns {value}; {must}{where}")

        def generate(_target: Any, _builder: Any, _signature: Any, arguments: Any) -> Any:
            return arguments[0]

        return value(value), generate

    return whole


def device_assume() -> Any:
    """For a GPU's code: ``assume(condition)``, which tells the compiler that a condition holds."""
    if config.ENABLE_CUDASIM:
        return _assumed
    from numba.cuda.extending import intrinsic as on_device

    @on_device  # type: ignore[untyped-decorator]
    def assume(_context: Any, condition: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            bit = ir.IntType(1)
            kind = ir.FunctionType(ir.VoidType(), [bit])
            known = builder.module.declare_intrinsic("llvm.assume", (), kind)
            builder.call(known, [builder.trunc(arguments[0], bit)])
            return context.get_dummy_value()

        return types.void(types.boolean), generate

    return assume


def _assumed(condition: Any) -> None:
    """The same in the CUDA simulator."""


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
