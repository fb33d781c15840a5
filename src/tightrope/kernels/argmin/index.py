"""Compare the indices of all arms; compiled, one run at a time."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

from tightrope.compiled.functions import FAILED, keep, select
from tightrope.kernels.run_state import ARMS, BLOCK
from tightrope.kernels.spec import Spec


@cache
def clock_at(spec: Spec) -> Any:
    """The policy's clock after ``step`` pulls."""
    clock, number = spec.formula(spec.policy.clock), spec.dtype

    def clock_now(memory, step):
        return number(clock(memory.wide, float(max(step, 1))))

    return spec.part(clock_now)


def _by_row(at, stride, row):
    """The place of a row in a 2-D table of terms, without numba's check for negative indices."""
    return row, at


@cache
def scanner(spec: Spec) -> Any:
    """The smallest index of ``count`` places from ``start`` on, and its arm.

    Ties go to the lowest number. If an index of a user's own policy is nan, the arm is ``FAILED``.
    Places are compared in blocks, one per lane, so that LLVM makes SIMD code of it; those beyond
    the end of the list are ignored.
    """
    number, row, penalties = spec.dtype, 2 * spec.channels, spec.penalties
    index = replace(spec.target, place=_by_row).index()
    nothing, outside = number(math.inf), spec.outside

    def scan(memory, start, count, now, uniform):
        best, queues, constants = memory.best, memory.run.queues, memory.constants
        places = memory.places
        for lane in range(BLOCK):
            best[0, lane] = nothing
            best[1, lane] = nothing
        for base in range(0, count, BLOCK):
            for lane in range(BLOCK):
                place = start + base + lane
                arm, old, holder = places[row, place], best[0, lane], best[1, lane]
                value = index(
                    places, place, 0, queues, 0, 1, constants, now, uniform, arm, penalties
                )
                better = (value < old) | ((value == old) & (arm < holder))
                if outside:  # a nan stays the smallest, because comparisons with it are false
                    better = better | (value != value)
                better = better & (base + lane < count)
                best[0, lane] = keep(better, value, old)
                best[1, lane] = keep(better, arm, holder)
        half = BLOCK // 2
        while half > 0:
            for lane in range(half):
                value, arm = best[0, lane + half], best[1, lane + half]
                old, holder = best[0, lane], best[1, lane]
                better = (value < old) | ((value == old) & (arm < holder))
                if outside:
                    better = better | (value != value)
                best[0, lane] = select(better, value, old)
                best[1, lane] = select(better, arm, holder)
            half //= 2
        value, arm = best[0, 0], best[1, 0]
        chosen = int(arm) if arm < nothing else 0  # 0 if every index is nan
        if outside and value != value:
            chosen = FAILED
        return value, chosen

    return spec.routine(scan)


@cache
def by_scan(spec: Spec) -> Any:
    """Decide by computing every arm's index."""
    clock, scan = clock_at(spec), scanner(spec)

    def decide(memory, step, uniform):
        _, arm = scan(memory, 0, memory.counts[ARMS], clock(memory, step), uniform)
        return arm

    return spec.part(decide)


def of_rank(numbers: Any, count: int, rank: int) -> Any:
    """The number with a rank, from 0, among the first ``count``, which it reorders (Hoare's FIND).

    numba takes 7 seconds to compile ``np.partition``.
    """
    low, high = 0, count - 1
    while low < high:
        pivot, left, right = numbers[(low + high) // 2], low, high
        while left <= right:
            while numbers[left] < pivot:
                left += 1
            while pivot < numbers[right]:
                right -= 1
            if left <= right:
                numbers[left], numbers[right] = numbers[right], numbers[left]
                left, right = left + 1, right - 1
        low = left if right < rank else low
        high = right if rank < left else high
    return numbers[rank]
