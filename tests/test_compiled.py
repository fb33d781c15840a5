"""What ``compiled`` takes from numba's inside: this tells when an upgrade changes it."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys

import numba
import numpy as np
import pytest
from llvmlite.binding import newpassmanagers
from numba.core import caching

from tests.problems import compilations
from tightrope.compiled import functions, memory


def test_the_cache_has_the_parts_that_ours_replaces():
    ours, theirs = functions._KernelCache, caching.FunctionCache
    for name in ("_load_overload", "_index_key"):
        mine, original = (inspect.signature(getattr(kind, name)) for kind in (ours, theirs))
        assert len(mine.parameters) == len(original.parameters), name
    assert {"cache_path", "filename_base", "source_stamp"} <= set(
        inspect.signature(caching.IndexDataCacheFile.__init__).parameters
    )


def test_pass_managers_are_freed():
    """If this fails with a newer llvmlite that frees them itself, ours can go."""
    if not hasattr(newpassmanagers, "NewPassManager"):
        pytest.skip("this llvmlite frees them itself")
    for kind in (newpassmanagers.ModulePassManager, newpassmanagers.FunctionPassManager):
        assert kind._dispose is newpassmanagers.NewPassManager._dispose


def test_arrays_are_those_that_the_blocks_table_tells():
    block_at = memory.memory_at({"numbers": memory.Array(0, np.float64)})
    rows_at = memory.memory_at({"numbers": memory.Array(0, np.float64, rows=True)})

    @numba.njit
    def total(address):
        found, numbers = 0.0, block_at(address).numbers
        for at in range(len(numbers)):
            found += numbers[at]
        return found

    block = np.zeros(5)
    table = block[:3].view(np.int64)
    table[:] = (24, 1, 2)  # two numbers, behind the table
    block[3:] = 1.5, 2.0
    assert total(block.ctypes.data) == 3.5

    @numba.njit
    def second(address):
        numbers = rows_at(address).numbers
        return numbers.shape, numbers[1, 0]

    table[:] = (24, 2, 1)
    assert second(block.ctypes.data) == ((2, 1), 2.0)


def test_compilations_are_counted_and_users_need_not_be():
    kernel = numba.njit(lambda x: x + 1.0)
    assert compilations(kernel) == 0

    @functions.uncounted
    def first(numbers):
        return numbers[0]

    @numba.njit
    def call(numbers):
        return first(numbers)

    assert call(np.array([4.0])) == 4.0


def test_a_part_has_no_machine_code_of_its_own():
    @functions.inlined
    def inner(x):
        return 2.0 * x

    @functions.inlined
    def part(x):
        return inner(x) + 1.0

    @numba.njit
    def kernel(x):
        return part(x)

    assert kernel(3.0) == 7.0
    assert functions.PART["pipeline_class"] is functions._PartCompiler
    with pytest.raises(TypeError):
        part(3.0)  # from Python
    (made,) = part.overloads.values()
    engine = made.library._codegen._engine
    assert not engine.is_symbol_defined(made.fndesc.llvm_func_name)
    (outer,) = kernel.overloads.values()
    assert engine.is_symbol_defined(outer.fndesc.llvm_func_name)


def test_numba_says_that_it_cannot_compile_by_these_errors():
    @numba.njit
    def impossible(x):
        return x.nothing_like_this

    with pytest.raises(functions.COMPILE_ERRORS, match="nothing_like_this"):
        impossible(1.0)


OWN = """
from dataclasses import dataclass
from typing import ClassVar

from tightrope import ready_problem, simulate
from tightrope.policies import UniformRandom


@dataclass(frozen=True)
class Own(UniformRandom):
    name: ClassVar[str] = "own"

    @staticmethod
    def reward_index(constants, clock, uniform, arm, level, width):
        return uniform - 0.{digits} * arm


made = simulate(ready_problem("paper"), [Own()], budgets=9, runs=2, progress=False)
print("once", made["own"].runs.pulls.sum())
"""


def test_a_kernel_on_the_disk_does_not_run_the_script_of_its_policy_again(tmp_path):
    script = tmp_path / "scripted.py"
    digits = int.from_bytes(os.urandom(6), "big")  # no kernel on the disk has them
    script.write_text(OWN.replace("{digits}", str(digits)))
    as_module = [sys.executable, "-c", "import scripted"]
    said = [
        subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        for words in (as_module, [sys.executable, str(script)])
    ]
    assert said[0] == said[1]
    assert said[1].count("once") == 1
