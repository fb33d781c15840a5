"""For many arms: keep short lists of the arms that can still have the smallest index.

Only one arm's terms change per step, and the clock and the queues move slowly, so most arms can be
ruled out for many steps at once. The sieve is a stack of levels. Level 0 is all arms; each level
below is a list of about an eighth of its parent's arms, with

- a *window*: an interval of the clock and one of each queue;
- a *plane* over the window: a threshold, tilted along the clock and each queue.

The invariant of a level: for every arm of its parent that is not in its list, and everywhere in the
window, either the arm's index is at or above the plane, or an arm with the same terms and a lower
number is in the list. Windows are nested and planes lie below their parents' planes. So if the
clock and the queues are in the last level's window and the smallest index of its list is below its
plane there, that index is the smallest of all, and its arm has the lowest number on ties.
Otherwise, or if the last list has grown long because arms were added, the deepest level that is
still valid is found and the levels below it are rebuilt.

An arm's index minus the plane is linear in the clock and in each queue (the policy declares it:
``steady``), so its minimum in the window is at a corner. ``bound`` computes that in double
precision and subtracts the largest rounding error of an index in the kernel's precision.

Thousands of arms can have the same terms (with zero-one outcomes after a few pulls), too many for a
short list if they are the best ones. So a list holds only the lowest number among them; the others
follow in a chain, and when the first is pulled, the next one enters the list.

The widths of windows adapt: wider on the side where the state left the window, narrower if the
plane was reached first.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tightrope.kernels.argmin.index import clock_at, scanner
from tightrope.kernels.argmin.levels import (
    CHAINED,
    NOBODY,
    OUT,
    TAU,
    adapter,
    bounder,
    boxer,
    copier,
    insider,
    narrower,
    planer,
)
from tightrope.kernels.run_state import (
    ABOVE,
    BEFORE,
    BELOW,
    COUNT,
    DEPTH,
    EVALUATED,
    LEVELS,
    NEXT,
    ROOM,
    SMALLEST,
    START,
)
from tightrope.kernels.spec import Spec

CLOSE = 16  # arms whose mean slopes are the plane's tilt


@cache
def by_sieve(spec: Spec) -> Any:
    """Decide by the sieve."""
    clock, scan, plane, inside = clock_at(spec), scanner(spec), planer(spec), insider(spec)
    refine = refiner(spec)

    def decide(memory, step, uniform):
        counts, levels = memory.counts, memory.levels
        now, depth = clock(memory, step), counts[DEPTH]
        count = levels[depth, COUNT]
        short = count <= 2 * counts[SMALLEST] or depth == counts[LEVELS]
        if depth > 0 and short and inside(memory, depth, now):
            counts[EVALUATED] += count
            best, arm = scan(memory, levels[depth, START], count, now, uniform)
            if best < plane(memory, depth, now):
                return arm
        return refine(memory, step, now)

    return spec.part(decide)


@cache
def refiner(spec: Spec) -> Any:
    """Rebuild the levels that are no longer valid, and decide."""
    scan, plane, inside = scanner(spec), planer(spec), insider(spec)
    narrow, adapt, uniform = narrower(spec), adapter(spec), spec.dtype(0)

    def refine(memory, step, now):
        counts, levels = memory.counts, memory.levels
        level = counts[DEPTH]
        first, some = levels[level, START], min(levels[level, COUNT], CLOSE)
        best, arm = scan(memory, first, levels[level, COUNT], now, uniform)
        if level == 0:
            first, some = arm, 1
        while level > 0 and not (inside(memory, level, now) and best < plane(memory, level, now)):
            adapt(memory, level, now)
            level -= 1
        while level < counts[LEVELS] and levels[level, COUNT] > counts[SMALLEST]:
            if not narrow(memory, level, step, now, first, some, best):
                break
            level += 1
        counts[DEPTH] = level
        _, arm = scan(memory, levels[level, START], levels[level, COUNT], now, uniform)
        counts[EVALUATED] += levels[level, COUNT]
        return arm

    return spec.routine(refine)


@cache
def toucher(spec: Spec) -> Any:
    """Copy an arm's new terms to every level, and add the arms that follow it in its chains."""
    bound, box_of, copy = bounder(spec), boxer(spec), copier(spec)

    def enter(memory, place, level):
        """Add a place to the levels below, as far down as its index can matter."""
        levels, counts, links = memory.levels, memory.counts, memory.links
        places, constants = memory.places, memory.rounded
        while level < counts[DEPTH]:
            level += 1
            tau = memory.windows[level, TAU]
            if bound(places, place, constants, box_of(memory, level)) >= tau:
                links[place, BELOW] = OUT
                return
            used = levels[level, COUNT]
            if used == levels[level, ROOM]:
                counts[DEPTH] = level - 1  # the level is full and must be rebuilt
                return
            new = levels[level, START] + used
            levels[level, COUNT] = used + 1
            copy(places, place, new)
            links[place, BELOW], links[new, ABOVE] = new, place
            links[new, NEXT] = links[new, BEFORE] = NOBODY
            links[new, BELOW] = OUT
            place = new

    enter_at = spec.routine(enter)

    def touch(memory, arm):
        counts, links, places = memory.counts, memory.links, memory.places
        place, level = np.int64(arm), np.int64(0)
        while level < counts[DEPTH]:
            below = np.int64(links[place, BELOW])
            if below == CHAINED:
                before, behind = links[place, BEFORE], links[place, NEXT]
                links[before, NEXT] = behind
                if behind >= 0:
                    links[behind, BEFORE] = before
            if below < 0:
                links[place, NEXT] = links[place, BEFORE] = NOBODY
                enter_at(memory, place, level)
                return
            behind = np.int64(links[place, NEXT])
            if behind >= 0:
                links[place, NEXT] = links[behind, BEFORE] = NOBODY
                enter_at(memory, behind, level)
                if level >= counts[DEPTH]:
                    return
            copy(places, place, below)
            place, level = below, level + 1

    return spec.part(touch)
