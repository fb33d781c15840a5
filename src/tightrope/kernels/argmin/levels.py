"""The sieve's levels: their windows and planes, and how a level is made. See ``sieve``."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from tightrope.compiled.functions import select
from tightrope.compiled.memory import first_of
from tightrope.kernels.argmin.index import clock_at, of_rank, scanner
from tightrope.kernels.run_state import (
    ABOVE,
    BEFORE,
    BELOW,
    BLOCK,
    BUILT,
    COUNT,
    EVALUATED,
    FACTOR,
    FAILED,
    NEXT,
    PATIENCE,
    REST,
    ROOM,
    SAMPLE,
    SMALLEST,
    START,
)
from tightrope.kernels.spec import Spec

OUT, CHAINED = -1, -2  # why a place has no copy below: ruled out, or behind another in a chain
NOBODY = -1
INFINITY = math.inf

# columns of ``windows``, then five for each queue
CLOCK_LOW, CLOCK_HIGH, TAU, CLOCK_TILT, LIFE = range(5)
LOW, HIGH, TILT, UP, DOWN = range(5)
FIRST_QUEUE = 5

WIDER, NARROWER, MUCH_NARROWER = 3.0, 0.7, 0.25
ENOUGH = 0.1  # share of the room below the plane that a window must leave free
TRIES = 12  # windows tried on a sample
LEAST = 2.0**-10  # smallest width of a queue's window
ATTEMPTS = 4  # builds of a level, each with a narrower window, the last one with width 0
WALK = 64  # most steps to an arm's place in a chain
WAIT_DISTINCT = 32  # builds that skip looking for equal terms, after one that found few
WAIT_FAILED = 16  # decisions that skip a level, after a build of it failed


def margin(spec: Spec) -> float:
    """A bound on the rounding error of an index, relative to the sum of its parts' sizes.

    A part of the index takes a few operations (LyOn's three), then follow the product with the
    queue and the sum over parts; each rounds by at most half a unit in the last place. In double
    precision the bound and the plane are rounded too; the margin leaves ample room for that.
    """
    operations = 8 + 2 * spec.penalties
    return operations * (2.0**-24 if spec.dtype is np.float32 else 8.0 * 2.0**-53)


@cache
def bounder(spec: Spec) -> Any:
    """The minimum over a window of a place's index minus the tilted plane."""
    penalties, row, slack, nothing = spec.penalties, 2 * spec.channels, margin(spec), -INFINITY
    reward_index = spec.formula(spec.policy.reward_index, np.float64)
    penalty_index = spec.formula(spec.policy.penalty_index, np.float64)

    def bound(places, place, constants, box):
        start, end, tilt = box[CLOCK_LOW], box[CLOCK_HIGH], box[CLOCK_TILT]
        arm, level, width = (
            float(places[row, place]),
            float(places[0, place]),
            float(places[1, place]),
        )
        first = reward_index(constants, start, 0.0, arm, level, width)
        last = reward_index(constants, end, 0.0, arm, level, width)
        none = reward_index(constants, 0.0, 0.0, arm, level, width)
        size = abs(none) + abs(last - none) + abs(tilt * (end - start))
        last -= tilt * (end - start)
        for m in range(penalties):
            at = FIRST_QUEUE + 5 * m
            low, high, lean = box[at + LOW], box[at + HIGH], box[at + TILT]
            level, width = float(places[2 + 2 * m, place]), float(places[3 + 2 * m, place])
            one = penalty_index(constants, start, level, width)
            two = penalty_index(constants, end, level, width)
            none = penalty_index(constants, 0.0, level, width)
            across = (high - low) * (one - lean)
            first += low * one + select(across < 0.0, across, 0.0)
            across = (high - low) * (two - lean)
            last += low * two + select(across < 0.0, across, 0.0)
            size += high * (abs(none) + abs(two - none)) + abs(lean) * (high - low)
        lowest = select(first < last, first, last) - slack * size
        return select(lowest == lowest, lowest, nothing)  # nan must not rule an arm out

    return spec.part(bound)


@cache
def boxer(spec: Spec) -> Any:
    """A level's window as a tuple of numbers."""
    as_tuple = first_of(FIRST_QUEUE + 5 * spec.penalties)

    def box(memory, level):
        return as_tuple(memory.windows[level])

    return spec.part(box)


@cache
def insider(spec: Spec) -> Any:
    """Whether the clock and the queues are in a level's window."""
    penalties = spec.penalties

    def inside(memory, level, now):
        window, queues = memory.windows[level], memory.run.queues
        within = window[CLOCK_LOW] <= now <= window[CLOCK_HIGH]
        for m in range(penalties):
            at = FIRST_QUEUE + 5 * m
            within = within and window[at + LOW] <= queues[m] <= window[at + HIGH]
        return within

    return spec.part(inside)


@cache
def planer(spec: Spec) -> Any:
    """The height of a level's plane over the clock and the queues."""
    penalties = spec.penalties

    def plane(memory, level, now):
        window, queues = memory.windows[level], memory.run.queues
        height = window[TAU] + window[CLOCK_TILT] * (now - window[CLOCK_LOW])
        for m in range(penalties):
            at = FIRST_QUEUE + 5 * m
            height += window[at + TILT] * (queues[m] - window[at + LOW])
        return height

    return spec.part(plane)


@cache
def framer(spec: Spec) -> Any:
    """Set the window of a level around the clock and the queues, within its parent's.

    ``share``, 1 or 0, multiplies its widths. The tilt is the mean slope of the ``count`` arms from
    place ``first`` on: arms close to the best are alike, so that their indices minus the plane
    change little.
    """
    penalties, row, clock = spec.penalties, 2 * spec.channels, clock_at(spec)
    reward_index = spec.formula(spec.policy.reward_index, np.float64)
    penalty_index = spec.formula(spec.policy.penalty_index, np.float64)

    def tilt(memory, window, first, count):
        """Slopes along the queues at the window's start, and along the clock."""
        queues, places, constants = memory.run.queues, memory.places, memory.rounded
        start, end = window[CLOCK_LOW], window[CLOCK_HIGH]
        rise = 0.0
        for m in range(penalties):
            window[FIRST_QUEUE + 5 * m + TILT] = 0.0
        for place in range(first, first + count):
            arm, level, width = places[row, place], places[0, place], places[1, place]
            one = reward_index(constants, start, 0.0, float(arm), float(level), float(width))
            two = reward_index(constants, end, 0.0, float(arm), float(level), float(width))
            rise += (two - one) / count
            for m in range(penalties):
                level, width = places[2 + 2 * m, place], places[3 + 2 * m, place]
                one = penalty_index(constants, start, float(level), float(width))
                two = penalty_index(constants, end, float(level), float(width))
                rise += queues[m] * (two - one) / count
                window[FIRST_QUEUE + 5 * m + TILT] += one / count
        window[CLOCK_TILT] = rise / (end - start) if end > start else 0.0
        if not abs(window[CLOCK_TILT]) < INFINITY:
            window[CLOCK_TILT] = 0.0
        for m in range(penalties):
            if not abs(window[FIRST_QUEUE + 5 * m + TILT]) < INFINITY:
                window[FIRST_QUEUE + 5 * m + TILT] = 0.0

    tilt_by = spec.part(tilt)

    def frame(memory, level, step, now, first, count, share):
        window, parent = memory.windows[level], memory.windows[level - 1]
        ahead = float(clock(memory, step + int(share * window[LIFE])))
        low, high = min(float(now), ahead), max(float(now), ahead)
        if level > 1:
            low, high = max(low, parent[CLOCK_LOW]), min(high, parent[CLOCK_HIGH])
        window[CLOCK_LOW], window[CLOCK_HIGH] = low, high
        for m in range(penalties):
            at, queue = FIRST_QUEUE + 5 * m, float(memory.run.queues[m])
            below = max(queue - share * window[at + DOWN], 0.0)
            above = queue + share * window[at + UP]
            if level > 1:
                below, above = max(below, parent[at + LOW]), min(above, parent[at + HIGH])
            window[at + LOW], window[at + HIGH] = below, above
        tilt_by(memory, window, first, count)

    return spec.routine(frame)


@cache
def lowerer(spec: Spec) -> Any:
    """Lower a level's plane until it is nowhere in the window above its parent's."""
    penalties = spec.penalties

    def lower(memory, level):
        window, parent = memory.windows[level], memory.windows[level - 1]
        height = parent[TAU] + parent[CLOCK_TILT] * (window[CLOCK_LOW] - parent[CLOCK_LOW])
        size = abs(height)
        change = (parent[CLOCK_TILT] - window[CLOCK_TILT]) * (
            window[CLOCK_HIGH] - window[CLOCK_LOW]
        )
        height += min(change, 0.0)
        size += abs(change)
        for m in range(penalties):
            at = FIRST_QUEUE + 5 * m
            step = parent[at + TILT] * (window[at + LOW] - parent[at + LOW])
            change = (parent[at + TILT] - window[at + TILT]) * (
                window[at + HIGH] - window[at + LOW]
            )
            height += step + min(change, 0.0)
            size += abs(step) + abs(change)
        if size < INFINITY:
            window[TAU] = min(window[TAU], height - 1e-14 * size)

    return spec.routine(lower)


@cache
def guesser(spec: Spec) -> Any:
    """An estimate, from a sample, of the key that ``wanted`` of a level's places do not exceed."""
    bound, box_of, ranked = bounder(spec), boxer(spec), spec.part(of_rank)

    def guess(memory, level, wanted):
        sample, places, box = memory.sample, memory.places, box_of(memory, level + 1)
        start, count = memory.levels[level, START], memory.levels[level, COUNT]
        taken, constants = min(count, SAMPLE), memory.rounded
        for at in range(taken):
            sample[at] = bound(places, start + at * count // taken, constants, box)
        rank = min(max(wanted * taken // count - 1, 0), taken - 1)
        return ranked(sample, taken, rank)

    return spec.routine(guess)


@cache
def copier(spec: Spec) -> Any:
    """Copy an arm's terms and number from one place to another."""
    rows = 2 * spec.channels + 1

    def copy(places, place, to):
        for row in range(rows):
            places[row, to] = places[row, place]

    return spec.part(copy)


def _chain(places: Any, links: Any, row: int, head: int, place: int) -> bool:
    """Insert ``place`` into the chain whose first arm has the copy ``head``, in order of arms.

    Until the next level is built, column BELOW of the copy holds the chain's last place.
    """
    last = links[head, BELOW]
    ahead, steps = last, 0
    while ahead >= 0 and places[row, ahead] > places[row, place]:
        ahead = links[ahead, BEFORE]
        steps += 1
        if steps > WALK:
            return False
    links[place, BEFORE] = ahead
    if ahead < 0:  # the lowest number so far
        behind = links[head, ABOVE]
        links[behind, BELOW] = CHAINED
        links[place, BELOW] = head
        links[head, ABOVE] = place
        places[row, head] = places[row, place]
    else:
        behind = links[ahead, NEXT]
        links[ahead, NEXT] = place
        links[place, BELOW] = CHAINED
    links[place, NEXT] = behind
    if behind >= 0:
        links[behind, BEFORE] = place
    else:
        links[head, BELOW] = place
    return True


@cache
def finder(spec: Spec) -> Any:
    """Look up a copy with the same terms as a place in the hash table, or a free slot."""
    terms = 2 * spec.channels
    mixer = np.uint64(0x9E3779B97F4A7C15)
    shift = np.uint64(29)

    def find(memory, place, mask):
        bits, table = memory.bits, memory.table
        mixed = np.uint64(0)
        for row in range(terms):
            mixed = (mixed ^ np.uint64(bits[row, place])) * mixer
            mixed = mixed ^ (mixed >> shift)
        slot = np.int64(mixed & np.uint64(mask))
        while table[slot] >= 0:
            other, same = table[slot], True
            for row in range(terms):
                same = same and bits[row, other] == bits[row, place]
            if same:
                return slot
            slot = (slot + 1) & mask
        return slot

    return spec.part(find)


@cache
def filler(spec: Spec) -> Any:
    """Copy the places with keys up to ``reach`` into the next level; returns whether they fit.

    The plane's threshold becomes the smallest key that is left out.
    """
    copy, find, row = copier(spec), finder(spec), 2 * spec.channels
    chain, bound, box_of = spec.part(_chain), bounder(spec), boxer(spec)

    def weigh(places, first, keys, constants, box):
        for lane in range(BLOCK):
            keys[lane] = bound(places, first + lane, constants, box)

    weigh_block = spec.part(weigh)

    def fill(memory, level, reach, merge):
        places, links, keys = memory.places, memory.links, memory.sample
        levels, table, box = memory.levels, memory.table, box_of(memory, level + 1)
        start, count, constants = levels[level, START], levels[level, COUNT], memory.rounded
        first, room = levels[level + 1, START], levels[level + 1, ROOM]
        mask = 1
        while mask < 2 * room:
            mask *= 2
        mask -= 1
        if merge:
            table[: mask + 1] = NOBODY
        used, let_in, lowest_out, slot = 0, 0, INFINITY, 0
        for base in range(start, start + count, BLOCK):
            weigh_block(places, base, keys, constants, box)
            for place in range(base, min(base + BLOCK, start + count)):
                key = keys[place - base]
                if key > reach:
                    if links[place, BELOW] != OUT:  # reading costs half as much as writing
                        links[place, BELOW] = OUT
                    lowest_out = min(lowest_out, key)
                    continue
                let_in += 1
                if merge:
                    slot = find(memory, place, mask)
                    if table[slot] >= 0 and chain(places, links, row, table[slot], place):
                        continue
                if used == room:
                    return False
                new = first + used
                used += 1
                copy(places, place, new)
                links[place, BELOW], links[new, ABOVE] = new, place
                links[place, NEXT] = links[place, BEFORE] = NOBODY
                links[new, BELOW] = place
                if merge and table[slot] < 0:
                    table[slot] = new
        levels[level + 1, COUNT] = used
        if merge and 4 * used > 3 * let_in:
            levels[level + 1, PATIENCE] = WAIT_DISTINCT
        memory.windows[level + 1, TAU] = lowest_out
        return True

    return spec.routine(fill)


@cache
def scaler(spec: Spec) -> Any:
    """Make a level's next window wider or narrower, but no wider than its parent's."""
    penalties = spec.penalties

    def scale(memory, level, by):
        window, parent = memory.windows[level], memory.windows[level - 1]
        window[LIFE] = min(max(window[LIFE] * by, 1.0), parent[LIFE])
        for m in range(penalties):
            at = FIRST_QUEUE + 5 * m
            window[at + UP] = min(max(window[at + UP] * by, LEAST), parent[at + UP])
            window[at + DOWN] = min(max(window[at + DOWN] * by, LEAST), parent[at + DOWN])

    return spec.routine(scale)


@cache
def adapter(spec: Spec) -> Any:
    """Widen a level's window on the side where the state left it; narrow it if it is inside."""
    penalties, scale = spec.penalties, scaler(spec)

    def adapt(memory, level, now):
        windows, queues = memory.windows, memory.run.queues
        window, parent, left = windows[level], windows[level - 1], False
        if now > window[CLOCK_HIGH]:
            window[LIFE] = min(window[LIFE] * WIDER, parent[LIFE])
            left = True
        for m in range(penalties):
            at = FIRST_QUEUE + 5 * m
            if queues[m] > window[at + HIGH]:
                window[at + UP] = min(window[at + UP] * WIDER, parent[at + UP])
                left = True
            if queues[m] < window[at + LOW]:
                window[at + DOWN] = min(window[at + DOWN] * WIDER, parent[at + DOWN])
                left = True
        if not left:
            scale(memory, level, NARROWER)

    return spec.routine(adapt)


@cache
def narrower(spec: Spec) -> Any:
    """Build the level below ``level``, valid for the current state; returns whether that worked.

    ``best`` is some arm's current index: its distance to the plane, estimated from a sample, tells
    whether the window is too wide before all places are gone through. The ``some`` places from
    ``first`` on hold arms that are or were close to the best. It is long because its functions
    share the values that it fetches first.
    """
    frame, guess, fill, scale = framer(spec), guesser(spec), filler(spec), scaler(spec)
    lower, scan, plane = lowerer(spec), scanner(spec), planer(spec)
    uniform = spec.dtype(0)

    def fit(memory, level, step, now, first, some, best, wanted):
        """A window that leaves room below the plane, and the key that fits it."""
        window = memory.windows[level + 1]
        frame(memory, level + 1, step, now, first, some, 0.0)
        window[TAU] = guess(memory, level, wanted)
        room = plane(memory, level + 1, now) - best
        for _ in range(TRIES):
            frame(memory, level + 1, step, now, first, some, 1.0)
            window[TAU] = guess(memory, level, wanted)
            if not (room > 0.0 and plane(memory, level + 1, now) - best < ENOUGH * room):
                break
            scale(memory, level + 1, NARROWER)
        return window[TAU]

    fit_to = spec.routine(fit)

    def put(memory, level, reach, wanted):
        levels = memory.levels
        merge = levels[level + 1, PATIENCE] == 0
        levels[level + 1, PATIENCE] -= 0 if merge else 1
        while not fill(memory, level, reach, merge):
            if merge and wanted <= 1:
                return False
            if merge:
                wanted //= 4
                reach = guess(memory, level, wanted)
            merge = 1 == 1  # not a literal, or numba would compile fill once more
        return True

    put_in = spec.routine(put)

    def narrow(memory, level, step, now, first, some, best):
        levels, counts = memory.levels, memory.counts
        if levels[level + 1, REST] > 0:
            levels[level + 1, REST] -= 1
            return False
        count = levels[level, COUNT]
        wanted = max(count // counts[FACTOR], counts[SMALLEST] // 2)
        for attempt in range(ATTEMPTS):
            if count > 4 * SAMPLE and attempt == 0:
                reach = fit_to(memory, level, step, now, first, some, best, wanted)
            else:
                share = 1.0 if attempt < ATTEMPTS - 1 else 0.0
                frame(memory, level + 1, step, now, first, some, share)
                reach = guess(memory, level, wanted)
            counts[BUILT] += 1
            counts[EVALUATED] += count
            if not put_in(memory, level, reach, wanted):
                break
            if level > 0:
                lower(memory, level + 1)
            start, used = levels[level + 1, START], levels[level + 1, COUNT]
            if scan(memory, start, used, now, uniform)[0] < plane(memory, level + 1, now):
                return True
            counts[FAILED] += 1
            scale(memory, level + 1, MUCH_NARROWER)
        levels[level + 1, REST] = WAIT_FAILED
        return False

    return spec.routine(narrow)
