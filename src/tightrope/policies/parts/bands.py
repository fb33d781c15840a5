"""Symmetric matrices with a narrow band, and their Cholesky factors, inside of flat arrays.

Entry (i, j), j <= i, of a matrix that begins at ``first`` is at ``first + i * wide + i - j``, where
``wide`` is the width of the band + 1. Everything works in place.
"""

from __future__ import annotations

import math

from tightrope.policies.state import Array

TINY = 1e-30  # guards a square root against rounding


def decompose(factor: Array, first: int, count: int, wide: int) -> float:
    """Replace a band by its Cholesky factor; returns half the logarithm of its determinant."""
    half = 0.0
    for i in range(count):
        low = max(0, i - wide + 1)
        for j in range(low, i + 1):
            total = factor[first + i * wide + i - j]
            for k in range(low, j):
                total -= factor[first + i * wide + i - k] * factor[first + j * wide + j - k]
            if j < i:
                factor[first + i * wide + i - j] = total / factor[first + j * wide]
            else:
                factor[first + i * wide] = math.sqrt(max(total, TINY))
                half += math.log(factor[first + i * wide])
    return half


def divide(
    factor: Array, first: int, right: Array, values: Array, place: int, count: int, wide: int
) -> float:
    """Divide ``right`` by the factor, into ``values``; returns half the sum of their squares."""
    half = 0.0
    for i in range(count):
        total = right[i]
        for j in range(max(0, i - wide + 1), i):
            total -= factor[first + i * wide + i - j] * values[place + j]
        values[place + i] = total / factor[first + i * wide]
        half += 0.5 * values[place + i] * values[place + i]
    return half


def divide_transposed(
    factor: Array, first: int, values: Array, place: int, count: int, wide: int
) -> None:
    """Divide ``values`` by the transposed factor."""
    for i in range(count - 1, -1, -1):
        total = values[place + i]
        for k in range(i + 1, min(count, i + wide)):
            total -= factor[first + k * wide + k - i] * values[place + k]
        values[place + i] = total / factor[first + i * wide]


def invert_band(factor: Array, first: int, inverse: Array, count: int, wide: int) -> None:
    """The inverse of the matrix within the band, at the start of ``inverse`` (Takahashi)."""
    for i in range(count - 1, -1, -1):
        own = factor[first + i * wide]
        for j in range(min(count, i + wide) - 1, i - 1, -1):
            total = 1.0 / own if i == j else 0.0
            for k in range(i + 1, min(count, i + wide)):
                high, low = max(k, j), min(k, j)
                total -= factor[first + k * wide + k - i] * inverse[high * wide + high - low]
            inverse[j * wide + j - i] = total / own
