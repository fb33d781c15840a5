"""Small symmetric matrices and vectors for policies: D by D, row after row, at a place of an array.

Rows are ``EIGHT`` numbers or a multiple of it; only the first ``used`` of them have values other
than 0. Loops take slices of eight numbers, which are one of a processor's vectors (see
``compiled.memory``). A matrix is complete up to the diagonal, and in the slice around it.
"""

from __future__ import annotations

import math

from tightrope.policies.state import Array
from tightrope.problem.ridge import LEAST_RIDGE

EIGHT = 8


def dot(one: Array, first: int, other: Array, second: int, size: int) -> float:
    """The product of two vectors, each from a place on."""
    whole = size // 8 * 8
    found = row_dot(one, first, other, second, whole) if whole > 0 else 0.0
    for j in range(whole, size):
        found += one[first + j] * other[second + j]
    return found


def row_dot(one: Array, first: int, other: Array, second: int, size: int) -> float:
    """The same of whole rows: the size is a multiple of ``EIGHT``."""
    sums = one[first : first + 8] * other[second : second + 8]
    for j in range(8, size, 8):
        p, q = first + j, second + j
        sums = sums + one[p : p + 8] * other[q : q + 8]
    return _sum_of(sums)


def total(values: Array, first: int, count: int) -> float:
    """The sum of values from a place on."""
    whole, found = first + count // 8 * 8, 0.0
    if count >= EIGHT:
        sums = values[first : first + 8]
        for n in range(first + 8, whole, 8):
            sums = sums + values[n : n + 8]
        found = _sum_of(sums)
    for n in range(whole, first + count):
        found += values[n]
    return found


def _sum_of(eight: Array) -> float:
    a, b, c, d = eight[0] + eight[4], eight[1] + eight[5], eight[2] + eight[6], eight[3] + eight[7]
    return (a + c) + (b + d)  # type: ignore[no-any-return]


def add_squares(
    matrix: Array, start: int, size: int, used: int, rows: Array, first: int, by: Array, at: int
) -> None:
    """Add w v v' of eight vectors v and numbers w.

    The vectors follow each other from ``first`` on in ``rows``, and the numbers from ``at`` on in
    ``by``. A slice of every vector stays in a register, while it is multiplied with one number
    after the other.
    """
    for block in range(0, used, 8):
        p = first + block
        a, b = by[at] * rows[p : p + 8], by[at + 1] * rows[p + size : p + size + 8]
        p += 2 * size
        c, d = by[at + 2] * rows[p : p + 8], by[at + 3] * rows[p + size : p + size + 8]
        p += 2 * size
        e, f = by[at + 4] * rows[p : p + 8], by[at + 5] * rows[p + size : p + size + 8]
        p += 2 * size
        g, h = by[at + 6] * rows[p : p + 8], by[at + 7] * rows[p + size : p + size + 8]
        for i in range(block, used):
            p, to = first + i, start + i * size + block
            q, r, s = p + 2 * size, p + 4 * size, p + 6 * size
            here = (rows[p] * a + rows[p + size] * b) + (rows[q] * c + rows[q + size] * d)
            there = (rows[r] * e + rows[r + size] * f) + (rows[s] * g + rows[s + size] * h)
            matrix[to : to + 8] = matrix[to : to + 8] + (here + there)


def factor(matrix: Array, start: int, size: int, used: int) -> None:
    """Replace a sum of squares and ridges by the factor F with F' F the matrix, up to the diagonal.

    It is made from the last row to the first, so that rows are sums of rows. The diagonal holds
    1 / F_ii. Pivots are at least the ridges, but for rounding.
    """
    for i in range(used - 1, -1, -1):
        row = start + i * size
        for block in range(row, row + i + 1, 8):
            left = matrix[block : block + 8]
            for n in range(used - 1, i, -1):
                other = start + n * size
                p = other + block - row
                left = left - matrix[other + i] * matrix[p : p + 8]
            matrix[block : block + 8] = left
        scale = 1.0 / math.sqrt(max(matrix[row + i], LEAST_RIDGE))
        for block in range(row, row + i + 1, 8):
            matrix[block : block + 8] = scale * matrix[block : block + 8]
        matrix[row + i] = scale


def times(matrix: Array, start: int, used: int, vector: Array, product: Array) -> None:
    """The product of a symmetric matrix with a vector."""
    size = len(vector)
    for i in range(used):
        row, by, whole = start + i * size, vector[i], i // 8 * 8
        sums = matrix[row + whole : row + whole + 8] * vector[whole : whole + 8]
        for j in range(0, whole, 8):
            part = matrix[row + j : row + j + 8]
            sums = sums + part * vector[j : j + 8]
            product[j : j + 8] = product[j : j + 8] + by * part
        product[i] = _sum_of(sums)


def squares_of_root(matrix: Array, start: int, used: int, vector: Array, root: Array) -> float:
    """The number v' (F' F)^-1 v of a vector v; ``root`` becomes F'^-1 v."""
    _take_root(matrix, start, used, vector, root, 0)
    return dot(root, 0, root, 0, used)


def _take_root(
    matrix: Array, start: int, used: int, vector: Array, root: Array, first: int
) -> None:
    """F'^-1 v, into ``root`` from a place on."""
    size = len(vector)
    for i in range(used):
        root[first + i] = vector[i]
    for i in range(used - 1, -1, -1):
        row, whole = start + i * size, i // 8 * 8
        by = root[first + i] * matrix[row + i]
        root[first + i] = by
        for j in range(0, whole, 8):
            p = first + j
            root[p : p + 8] = root[p : p + 8] - by * matrix[row + j : row + j + 8]
        for j in range(whole, i):
            root[first + j] -= by * matrix[row + j]


def solve_factored(
    matrix: Array, start: int, used: int, vector: Array, found: Array, first: int
) -> None:
    """(F' F)^-1 v, into ``found`` from a place on."""
    size = len(vector)
    _take_root(matrix, start, used, vector, found, first)
    for i in range(used):
        row = start + i * size
        left = found[first + i] - dot(matrix, row, found, first, i)
        found[first + i] = left * matrix[row + i]


def squares_of_inverse(matrix: Array, start: int, used: int, root: Array, found: Array) -> None:
    """The diagonal of (F' F)^-1; ``root`` becomes F^-1, complete up to the diagonal."""
    size = len(found)
    for i in range(size):
        found[i] = 0.0
    for i in range(used):
        row, own = start + i * size, i * size
        scale = matrix[row + i]
        for block in range(0, i + 1, 8):
            left = 0.0 * matrix[row : row + 8]
            for n in range(block, i):
                p = n * size + block
                left = left - matrix[row + n] * root[p : p + 8]
            root[own + block : own + block + 8] = scale * left
        root[own + i] = scale
        found[i] = dot(root, own, root, own, i + 1)
