"""Small symmetric matrices and vectors for policies: D by D, row after row, at a place of an array.

Rows are ``WIDE`` numbers or a multiple of it, so that compiled loops along a row have no rest; only
the first ``used`` of them have values other than 0. Sums are made of eight partial sums, one
of a processor's vectors, and rows are taken four at a time: a chain of additions, each of which
waits for the last one, would take most of the time.
"""

from __future__ import annotations

import math

from tightrope.policies.state import Array
from tightrope.problem.ridge import LEAST_RIDGE

__all__ = [
    "add_squares",
    "dot",
    "factor",
    "solve_factored",
    "squares_of_inverse",
    "squares_of_root",
    "times",
    "total",
]


def dot(one: Array, first: int, other: Array, second: int, size: int) -> float:
    """The product of two vectors, each from a place on."""
    a = b = c = d = e = f = g = h = 0.0
    whole = size // 8 * 8
    for j in range(0, whole, 8):
        p, q = first + j, second + j
        a += one[p] * other[q]
        b += one[p + 1] * other[q + 1]
        c += one[p + 2] * other[q + 2]
        d += one[p + 3] * other[q + 3]
        e += one[p + 4] * other[q + 4]
        f += one[p + 5] * other[q + 5]
        g += one[p + 6] * other[q + 6]
        h += one[p + 7] * other[q + 7]
    for j in range(whole, size):
        a += one[first + j] * other[second + j]
    return ((a + e) + (c + g)) + ((b + f) + (d + h))


def total(values: Array, first: int, count: int) -> float:
    """The sum of values from a place on."""
    a = b = c = d = e = f = g = h = 0.0
    whole = first + count // 8 * 8
    for n in range(first, whole, 8):
        a += values[n]
        b += values[n + 1]
        c += values[n + 2]
        d += values[n + 3]
        e += values[n + 4]
        f += values[n + 5]
        g += values[n + 6]
        h += values[n + 7]
    for n in range(whole, first + count):
        a += values[n]
    return ((a + e) + (c + g)) + ((b + f) + (d + h))


def add_squares(
    matrix: Array, start: int, size: int, used: int, rows: Array, first: int, by: Array, at: int
) -> None:
    """Add w v v' of eight vectors v and numbers w; above the diagonal, sums are not complete.

    The vectors follow each other from ``first`` on in ``rows``, and the numbers from ``at`` on in
    ``by``. Two rows of the matrix are made at once: each number of a vector is then read once.
    """
    for i in range(0, used, 2):
        row, p = start + i * size, first + i
        a0, a1 = by[at] * rows[p], by[at] * rows[p + 1]
        b0, b1 = by[at + 1] * rows[p + size], by[at + 1] * rows[p + size + 1]
        c0, c1 = by[at + 2] * rows[p + 2 * size], by[at + 2] * rows[p + 2 * size + 1]
        d0, d1 = by[at + 3] * rows[p + 3 * size], by[at + 3] * rows[p + 3 * size + 1]
        e0, e1 = by[at + 4] * rows[p + 4 * size], by[at + 4] * rows[p + 4 * size + 1]
        f0, f1 = by[at + 5] * rows[p + 5 * size], by[at + 5] * rows[p + 5 * size + 1]
        g0, g1 = by[at + 6] * rows[p + 6 * size], by[at + 6] * rows[p + 6 * size + 1]
        h0, h1 = by[at + 7] * rows[p + 7 * size], by[at + 7] * rows[p + 7 * size + 1]
        for j in range(first, first + (i // 8 + 1) * 8):
            a, b, c, d = rows[j], rows[j + size], rows[j + 2 * size], rows[j + 3 * size]
            e, f = rows[j + 4 * size], rows[j + 5 * size]
            g, h = rows[j + 6 * size], rows[j + 7 * size]
            to = row + j - first
            matrix[to] += (a0 * a + b0 * b + c0 * c + d0 * d) + (e0 * e + f0 * f + g0 * g + h0 * h)
            to += size
            matrix[to] += (a1 * a + b1 * b + c1 * c + d1 * d) + (e1 * e + f1 * f + g1 * g + h1 * h)


def factor(matrix: Array, start: int, size: int, used: int) -> None:
    """Replace a sum of squares and ridges by Cholesky's factor F, with F F' the matrix.

    The diagonal holds 1 / F_ii; what is above it is not used. Pivots are at least the ridges, but
    for rounding.
    """
    for i in range(used):
        row, whole = start + i * size, i // 4 * 4
        for j in range(0, whole, 4):
            _four(matrix, row, start, j, size)
        for j in range(whole, i):
            other = start + j * size
            left = matrix[row + j] - dot(matrix, row, matrix, other, j)
            matrix[row + j] = left * matrix[other + j]
        pivot = matrix[row + i] - dot(matrix, row, matrix, row, i)
        matrix[row + i] = 1.0 / math.sqrt(max(pivot, LEAST_RIDGE))


def _four(matrix: Array, row: int, start: int, j: int, size: int) -> None:
    """Columns j to j + 3 of a row of the factor."""
    p = start + j * size
    q, r, s = p + size, p + 2 * size, p + 3 * size
    a, b, c, d = matrix[row + j], matrix[row + j + 1], matrix[row + j + 2], matrix[row + j + 3]
    for n in range(j):
        x = matrix[row + n]
        a -= x * matrix[p + n]
        b -= x * matrix[q + n]
        c -= x * matrix[r + n]
        d -= x * matrix[s + n]
    a *= matrix[p + j]
    b = (b - a * matrix[q + j]) * matrix[q + j + 1]
    c = (c - a * matrix[r + j] - b * matrix[r + j + 1]) * matrix[r + j + 2]
    d -= a * matrix[s + j] + b * matrix[s + j + 1] + c * matrix[s + j + 2]
    matrix[row + j], matrix[row + j + 1] = a, b
    matrix[row + j + 2], matrix[row + j + 3] = c, d * matrix[s + j + 3]


def times(matrix: Array, start: int, used: int, vector: Array, product: Array) -> None:
    """The product of a symmetric matrix, of which only rows up to the diagonal count."""
    size = len(vector)
    for i in range(used):
        row, by = start + i * size, vector[i]
        product[i] = matrix[row + i] * by + dot(matrix, row, vector, 0, i)
        for j in range(i):
            product[j] += matrix[row + j] * by


def squares_of_root(matrix: Array, start: int, used: int, vector: Array, root: Array) -> float:
    """The number v' (F F')^-1 v of a vector v; ``root`` becomes F^-1 v."""
    size = len(vector)
    for i in range(used):
        row = start + i * size
        root[i] = (vector[i] - dot(matrix, row, root, 0, i)) * matrix[row + i]
    return dot(root, 0, root, 0, used)


def solve_factored(
    matrix: Array, start: int, used: int, vector: Array, found: Array, first: int
) -> None:
    """(F F')^-1 v, into ``found`` from a place on."""
    size = len(vector)
    for i in range(used):
        row = start + i * size
        left = vector[i] - dot(matrix, row, found, first, i)
        found[first + i] = left * matrix[row + i]
    for i in range(used - 1, -1, -1):
        row = start + i * size
        found[first + i] *= matrix[row + i]
        by = found[first + i]
        for j in range(i):
            found[first + j] -= by * matrix[row + j]


def squares_of_inverse(matrix: Array, start: int, used: int, root: Array, found: Array) -> None:
    """The diagonal of (F F')^-1; ``root`` becomes F^-1, complete up to the diagonal."""
    size = len(found)
    for i in range(size):
        found[i] = 0.0
    for i in range(used):
        row, whole, own, width = start + i * size, i // 4 * 4, i * size, i // 8 * 8 + 8
        for j in range(width):
            root[own + j] = 0.0
        root[own + i] = 1.0
        for n in range(0, whole, 4):
            a, b, c = matrix[row + n], matrix[row + n + 1], matrix[row + n + 2]
            d, p = matrix[row + n + 3], n * size
            q, r, s = p + size, p + 2 * size, p + 3 * size
            for j in range(n // 8 * 8 + 8):
                sums = a * root[p + j] + b * root[q + j] + c * root[r + j] + d * root[s + j]
                root[own + j] -= sums
        for n in range(whole, i):
            by, other = matrix[row + n], n * size
            for j in range(width):
                root[own + j] -= by * root[other + j]
        by = matrix[row + i]
        for j in range(width):
            root[own + j] *= by
            found[j] += root[own + j] * root[own + j]
