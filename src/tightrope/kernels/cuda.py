"""Common parts of the GPU kernels: compiling functions for a device, a thread's step functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba import config, cuda

from tightrope.compiled.functions import compile_function, device_assume
from tightrope.kernels.step import Target

TILE = 32  # runs interleaved in global memory: those of a warp, for coalesced reads


def device_options(**options: Any) -> dict[str, Any]:
    """Compile options; empty for the CUDA simulator, which does not know them."""
    return {} if config.ENABLE_CUDASIM else options


def on_device(function: Callable[..., Any]) -> Any:
    """Compile a function as inlined device code.

    Here ``fastmath`` only means approximate division and square roots in single precision: nothing
    is reordered, and infinities are kept.
    """
    return cuda.jit(device=True, fastmath=True, **device_options(forceinline=True))(function)


def device_part(function: Callable[..., Any], dtype: Any = None) -> Any:
    """Compile a part of a kernel as inlined device code."""
    return compile_function(function, dtype, on_device)


def device_target(policy: Any, penalties: int, dtype: type, **ways: Any) -> Target:
    """The step functions of a thread."""
    number = numba.from_dtype(dtype)
    return Target(policy, penalties, number, device_part, larger=_maximum, **ways)


def _maximum(new, old):
    return max(old, new)


def device_learn(target: Target, paid: bool = False) -> Any:
    """Same as ``Target.learn``, in a form that GPU compilers optimise better.

    All totals are updated before the first term, so that neighbouring numbers are read and written
    together; and there are two branches, for a cost above 0 and for cost 0, so that the compiler
    finds the terms' common expressions. It has many parameters because ``Target.learn`` has them.
    Measured on an H200, LyOn with 50 arms: 1.78e10 steps per second instead of 1.53e10.

    ``paid``: every arm has a positive cost so far, so the second branch is left out. LyOn with 2
    arms: 2.59e11 steps per second instead of 2.46e11.
    """
    number, channels, learns = target.number, target.channels, target.policy.learns
    add, put, renew = target.part(target.add), target.part(target.put), target.renew()
    zero, sums, rows = target.number(0), target.channels - 1, 2 * (target.channels - 1)
    assume = device_assume()

    def all_terms(new, pulls, cost, total, constants, known):
        for channel in range(1, channels):
            level, width = renew(
                constants, pulls, cost, total[0], total[channel - 1], channel, known
            )
            new[2 * channel - 2], new[2 * channel - 1] = number(level), number(width)

    renew_all = target.part(all_terms)

    def learn(
        totals, at, stride, terms, term_at, term_stride, arm, outcomes, to, out_stride, one,
        constants, known,
    ):  # fmt: skip
        total = cuda.local.array(sums, number)
        pulls = add(totals, at, stride, 0, one, arm)
        cost = add(totals, at, stride, 1, outcomes[to], arm)
        for channel in range(1, channels):
            more = outcomes[to + channel * out_stride]
            total[channel - 1] = add(totals, at, stride, 1 + channel, more, arm)
        if learns:
            new = cuda.local.array(rows, number)
            if paid:
                assume(cost > zero)
                renew_all(new, pulls, cost, total, constants, known)
            elif cost > zero:
                renew_all(new, pulls, cost, total, constants, known)
            else:
                renew_all(new, pulls, cost, total, constants, known)
            for row in range(rows):
                put(terms, term_at, term_stride, row, new[row], arm)

    return target.part(learn)
