"""Memory that is aligned to cache lines: vector loads across two lines take twice as long."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

CACHE_LINE = 64  # bytes


def whole_lines(size: int) -> int:
    """The bytes of as many cache lines as hold ``size`` bytes."""
    return -(-size // CACHE_LINE) * CACHE_LINE


def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
    """Zeros that start at a cache line."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.zeros(size + CACHE_LINE, np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    made: npt.NDArray[Any] = raw[start : start + size].view(dtype).reshape(shape)
    return made


def aligned_copy(block: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """A copy of the bytes that starts at a cache line."""
    copy = aligned_zeros(block.shape, np.uint8)
    copy[:] = block
    return copy
