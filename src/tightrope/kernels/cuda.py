"""What the GPU's kernels share: how parts are compiled for a device, a thread's step functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba import config, cuda

from tightrope.compiled import compile_function
from tightrope.kernels.step import Target

__all__ = ["TILE", "device_options", "device_part", "device_target"]

TILE = 32  # runs side by side in global memory: a warp's, so that its threads read neighbours


def device_options(**options: Any) -> dict[str, Any]:
    """Options that the simulator does not know."""
    return {} if config.ENABLE_CUDASIM else options


def device_part(digest: str) -> Callable[..., Any]:
    """What compiles a function of the kernel with this digest for the device, to be inlined.

    ``fastmath`` means approximate division and square roots in single precision here, nothing
    else: no reordering, and infinities stay what they are.
    """

    def jit(one: Callable[..., Any]) -> Any:
        return cuda.jit(device=True, fastmath=True, **device_options(forceinline=True))(one)

    def part(function: Callable[..., Any], dtype: Any = None) -> Any:
        return compile_function(function, digest, dtype, jit)

    return part


def device_target(policy: Any, penalties: int, dtype: type, digest: str, **ways: Any) -> Target:
    """The step functions of a thread."""
    number = numba.from_dtype(dtype)
    return Target(policy, penalties, number, device_part(digest), by_cost=True, **ways)
