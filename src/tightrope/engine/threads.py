"""The GPU's kernel: one thread a run, from its first step to its last.

Letters: K arms, M penalties (at least 1, as in ``lanes``), R runs of one launch. A run's arms are
two tables: its *terms* (level and width for each channel) and its *book* (pulls, cost, and a total
for each channel). With few arms both live in the thread's registers: K is a constant of the
kernel, every loop over arms unrolls, and the arm just pulled is picked out by selection. With more
they are in global memory, in tiles of a warp's runs [K, rows, TILE]: its threads read neighbours,
and all that it reads in a step is one piece of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import config, cuda, float64, int32, uint32, uint64

from tightrope.compiled import compile_function, fingerprint
from tightrope.engine import rng
from tightrope.policies.base import IndexPolicy, advance

__all__ = ["REGISTERS", "TILE", "Kernel", "build", "build_clocks", "in_registers", "next_word"]

SOURCE = Path(__file__).read_bytes()
REGISTERS = 160  # up to here a thread keeps its arms' numbers to itself
TILE = 32  # runs side by side in global memory: a warp's
ARMS_AT_ONCE = 4  # read from global memory before the first is needed
_MASK = np.uint64(0xFFFFFFFF)
_WEYL = np.uint64(rng.WEYL)


@dataclass(frozen=True)
class Kernel:
    """What a kernel is compiled for."""

    policy: type[IndexPolicy]
    penalties: int
    arms: int  # 0: read at run time
    bits: int  # of a word that decide an outcome of 0 or 1; 0: outcomes are not all 0 or 1
    dtype: type
    tabled: bool  # whether the policy's clock is read from a table, as all runs share it

    @property
    def term_rows(self) -> int:
        """How many terms an arm has."""
        return _term_rows(self.penalties)

    @property
    def book_rows(self) -> int:
        """How many numbers an arm's book has."""
        return _book_rows(self.penalties)

    @property
    def end_rows(self) -> int:
        """What a run ends with: cost, totals, queues, the largest they were."""
        return 2 + 3 * self.penalties

    @cached_property
    def digest(self) -> str:
        """What tells it from every other kernel."""
        policy = self.policy
        facts = (self.penalties, self.arms, self.bits, self.dtype.__name__, self.tabled)
        return fingerprint(
            policy.functions(), (SOURCE, rng.SOURCE), (*facts, policy.learns, policy.random)
        )


def in_registers(arms: int, penalties: int) -> int:
    """The number of arms if a thread can keep all their numbers in registers, else 0."""
    return arms if arms * (_term_rows(penalties) + _book_rows(penalties)) <= REGISTERS else 0


def _term_rows(penalties: int) -> int:
    """A level and a width for the reward and each penalty."""
    return 2 * (1 + penalties)


def _book_rows(penalties: int) -> int:
    """Pulls, cost, and a total for the reward and each penalty."""
    return 3 + penalties


def build(spec: Kernel) -> Any:
    """The kernel for ``spec``, compiled when it is first launched; :func:`_kernel` has its shape.

    ``fastmath`` means approximate division and square roots in single precision here, nothing
    else: no reordering, and infinities stay what they are.
    """
    numbers = spec.arms * (spec.term_rows + spec.book_rows)
    capped = _on_device(max_registers=64) if 0 < numbers <= 24 else {}  # a better order, measured
    return cuda.jit(fastmath=True, **capped)(_kernel(spec))


def build_clocks(spec: Kernel) -> Any:
    """A kernel that fills a table [steps] with the policy's clock."""
    clock, number = _part(spec.policy.clock, spec), numba.from_dtype(spec.dtype)

    def fill(clocks, wide):
        step = cuda.grid(1)
        if step < clocks.shape[0]:
            clocks[step] = number(clock(wide, float(max(step, 1))))

    return cuda.jit(fill)


def _on_device(**options: Any) -> dict[str, Any]:
    """Options that the simulator does not know."""
    return {} if config.ENABLE_CUDASIM else options


def _part(function: Callable[..., Any], spec: Kernel, dtype: type | None = None) -> Any:
    """Compile a function for the device, to be inlined."""

    def jit(one: Callable[..., Any]) -> Any:
        return cuda.jit(device=True, fastmath=True, **_on_device(forceinline=True))(one)

    return compile_function(function, spec.digest, dtype, jit)


def _kernel(spec: Kernel) -> Any:
    """Its arguments: the runs' generators [4, R] (``seeds``, ``luck``), the ``law`` of the
    outcomes, the terms that arms ``start`` with [K * rows], global memory for ``terms`` and
    ``book`` in tiles of ``TILE`` runs [R / TILE, K, rows, TILE]; what comes out: pulls and cost
    of each arm in ``counts`` [K, 2, R], the rest in ``ends`` [rows, R]; the clock's table and
    the policy's numbers.
    """
    play, few, number = _play(spec), spec.arms, numba.from_dtype(spec.dtype)
    term_rows, book_rows, tile = spec.term_rows, spec.book_rows, np.uint64(TILE)
    term_size, book_size = max(few, 1) * term_rows, max(few, 1) * book_rows

    def kernel_few(seeds, luck, law, start, terms, book, counts, ends, clocks, game):
        run = cuda.grid(1)
        if run < seeds.shape[1]:
            own_terms = cuda.local.array(term_size, number)
            own_book = cuda.local.array(book_size, number)
            for at in range(term_size):
                own_terms[at] = start[at]
            for at in range(book_size):
                own_book[at] = number(0)
            state = (own_terms, uint64(0), own_book, uint64(0), uint64(1))
            play(state, run, seeds, luck, law, counts, ends, clocks, game)

    def kernel_many(seeds, luck, law, start, terms, book, counts, ends, clocks, game):
        run = cuda.grid(1)
        if run < seeds.shape[1]:
            size = start.shape[0]
            first = run // TILE * size * TILE + run % TILE
            for at in range(size):
                terms[first + at * TILE] = start[at]
            book_first = run // TILE * (size // term_rows * book_rows) * TILE + run % TILE
            for at in range(size // term_rows * book_rows):
                book[book_first + at * TILE] = number(0)
            state = (terms, uint64(first), book, uint64(book_first), tile)
            play(state, run, seeds, luck, law, counts, ends, clocks, game)

    return kernel_few if few else kernel_many


def _play(spec: Kernel) -> Any:
    """One run: decide, draw, learn, settle, until its cost exceeds the budget or clocks run out.

    ``state`` is the thread's terms and book, each with the place of its first number, and the
    distance from one number to the next. Places are unsigned: numba would look for negative ones.
    """
    number, penalties, channels = numba.from_dtype(spec.dtype), spec.penalties, 2 + spec.penalties
    random, tabled, zero = spec.policy.random, spec.tabled, spec.dtype(0)
    clock = _part(spec.policy.clock, spec)
    move = _part(advance, spec, spec.dtype)
    decide, learn, guess, report = _decide(spec), _learn(spec), _part(_guess, spec), _report(spec)
    own_law, draw, law_size = _own_law(spec), _draw(spec), max(spec.arms * channels, 1)

    def time(clocks, wide, step):
        return clocks[step] if tabled else number(clock(wide, float(max(step, 1))))

    now_at = _part(time, spec)

    def play(state, run, seeds, luck, law, counts, ends, clocks, game):
        wide, constants, allowance, budget, count, explore, last = game
        queue = cuda.local.array(penalties, number)
        lost = cuda.local.array(penalties, number)
        peak = cuda.local.array(penalties, number)
        drain = cuda.local.array(penalties, number)
        outcomes = cuda.local.array(channels, number)
        words = cuda.local.array(5, uint32)
        own = cuda.local.array(5, uint32)
        odds = cuda.local.array(law_size, uint32)
        own_law(odds, law)
        for m in range(penalties):
            queue[m], lost[m], peak[m], drain[m] = zero, zero, zero, allowance[m]
        for at in range(4):
            words[at], own[at] = seeds[at, run], luck[at, run]
        words[4], own[4] = uint32(0), uint32(0)
        spent, step, uniform = zero, uint32(0), zero
        while spent <= budget and step < explore:
            if random:
                guess(own)
            draw(outcomes, words, odds, law, int32(step % count))
            learn(state, int32(step % count), outcomes, constants)
            spent += outcomes[0]
            step = uint32(step + uint32(1))
        now = now_at(clocks, wide, min(step, last))
        while spent <= budget and step < last:
            if random:
                uniform = number(guess(own))
            arm = decide(state, queue, now, uniform, constants, count)
            step = uint32(step + uint32(1))
            now = now_at(clocks, wide, step)  # of the next step, read while this one is going on
            draw(outcomes, words, odds, law, arm)
            learn(state, arm, outcomes, constants)
            spent += outcomes[0]
            for m in range(penalties):
                length, left = move(queue[m], lost[m], drain[m], outcomes[0], outcomes[2 + m])
                queue[m], lost[m] = number(length), number(left)
                peak[m] = max(peak[m], queue[m])
        report(state, run, seeds.shape[1], count, spent, queue, peak, counts, ends)

    return _part(play, spec)


def _report(spec: Kernel) -> Any:
    """Write what came out: the rows of ``ends`` are cost, totals, queues, the largest queues."""
    number, few = numba.from_dtype(spec.dtype), spec.arms
    rows, penalties, channels = np.uint64(spec.book_rows), spec.penalties, 1 + spec.penalties

    def report(state, run, runs, count, spent, queue, peak, counts, ends):
        _, _, book, at, stride = state
        totals = cuda.local.array(channels, number)
        for channel in range(channels):
            totals[channel] = number(0)
        for arm in range(few if few else count):
            place = uint64(arm) * rows * stride + at
            counts[2 * arm * runs + run] = book[place]
            counts[(2 * arm + 1) * runs + run] = book[place + stride]
            for channel in range(channels):
                totals[channel] += book[place + uint64(2 + channel) * stride]
        ends[run] = spent
        for channel in range(channels):
            ends[(1 + channel) * runs + run] = totals[channel]
        for m in range(penalties):
            ends[(1 + channels + m) * runs + run] = queue[m]
            ends[(1 + channels + penalties + m) * runs + run] = peak[m]

    return _part(report, spec)


def next_word(words):
    """The generator's next 32 bits; ``words`` are its state and the Weyl sequence's (``rng``).

    Sums are taken in 64 bits and cut: a device does the same in 32, and the simulator, which
    is numpy, does not warn.
    """
    oldest, newest = words[0], words[3]
    mixed = uint32(oldest ^ uint32(oldest << uint32(11)))
    word = uint32(newest ^ uint32(newest >> uint32(19)) ^ mixed ^ uint32(mixed >> uint32(8)))
    words[0], words[1], words[2], words[3] = words[1], words[2], newest, word
    words[4] = uint32((uint64(words[4]) + _WEYL) & _MASK)
    return uint32((uint64(word) + uint64(words[4])) & _MASK)


def _guess(words):
    """The policy's uniform number of a step."""
    return int32(next_word(words) >> uint32(8)) * 2.0**-24


def _decide(spec: Kernel) -> Any:
    """The arm with the smallest index, lowest number on ties."""
    number, few, penalties = numba.from_dtype(spec.dtype), spec.arms, spec.penalties
    rows, two, infinity = np.uint64(spec.term_rows), np.uint64(2), spec.dtype(np.inf)
    reward_index = _part(spec.policy.reward_index, spec, spec.dtype)
    penalty_index = _part(spec.policy.penalty_index, spec, spec.dtype)

    def index(state, arm, queue, now, uniform, constants):
        terms, at, _, _, stride = state
        place = uint64(arm) * rows * stride + at
        level, width = terms[place], terms[place + stride]
        value = number(reward_index(constants, now, uniform, number(arm), level, width))
        for m in range(penalties):
            place += two * stride
            level, width = terms[place], terms[place + stride]
            value += queue[m] * number(penalty_index(constants, now, level, width))
        return value

    index_of = _part(index, spec)

    def decide_few(state, queue, now, uniform, constants, count):
        best, chosen = index_of(state, 0, queue, now, uniform, constants), int32(0)
        for arm in range(1, few):
            value = index_of(state, arm, queue, now, uniform, constants)
            if value < best:
                best, chosen = value, int32(arm)
        return chosen

    def decide_many(state, queue, now, uniform, constants, count):
        values = cuda.local.array(ARMS_AT_ONCE, number)
        best, chosen = infinity, int32(0)
        whole = count // ARMS_AT_ONCE * ARMS_AT_ONCE
        for first in range(0, whole, ARMS_AT_ONCE):
            for more in range(ARMS_AT_ONCE):
                arm = first + more
                values[more] = index_of(state, arm, queue, now, uniform, constants)
            for more in range(ARMS_AT_ONCE):
                if values[more] < best:
                    best, chosen = values[more], int32(first + more)
        for arm in range(whole, count):
            value = index_of(state, arm, queue, now, uniform, constants)
            if value < best:
                best, chosen = value, int32(arm)
        return chosen

    return _part(decide_few if few else decide_many, spec)


def _own_law(spec: Kernel) -> Any:
    """With few Bernoulli arms, copy their thresholds [K * channels] to the thread's own table."""
    size = spec.arms * (2 + spec.penalties)

    def copy(odds, law):
        for at in range(size):
            odds[at] = law[at]

    def nothing(odds, law):
        pass

    return _part(copy if spec.bits and spec.arms else nothing, spec)


def _draw(spec: Kernel) -> Any:
    """What the arm gives: the cost, the reward, the penalties; one word each, whatever the arm."""
    number, few, channels = numba.from_dtype(spec.dtype), spec.arms, 2 + spec.penalties
    one, zero, word_of = spec.dtype(1), spec.dtype(0), _part(next_word, spec)
    shift = np.uint32(32 - spec.bits) if spec.bits else 0

    def threshold_few(odds, law, arm, channel):
        value = odds[channel]
        for k in range(1, few):
            other = odds[k * channels + channel]
            value = other if arm == int32(k) else value
        return value

    def threshold_many(odds, law, arm, channel):
        return law[arm * channels + channel]

    threshold = _part(threshold_few if few else threshold_many, spec)

    def bernoulli(outcomes, words, odds, law, arm):
        for channel in range(channels):
            hit = uint32(word_of(words) >> shift) < threshold(odds, law, arm, channel)
            outcomes[channel] = one if hit else zero

    def cells(outcomes, words, odds, law, arm):
        count, offset, source, split, first, second, slope = law
        uniforms = cuda.local.array(channels, float64)
        for channel in range(channels):
            uniforms[channel] = int32(word_of(words) >> uint32(1)) * 2.0**-31
        for channel in range(channels):
            uniform = uniforms[0]
            for other in range(1, channels):
                there = uniforms[other]
                uniform = there if source[arm, channel] == other else uniform
            place = uniform * count[arm, channel]
            cell = int(place)
            part = place - cell
            at = offset[arm, channel] + cell
            value = (first[at] if part < split[at] else second[at]) + slope[at] * (part - 0.5)
            outcomes[channel] = number(value)

    return _part(bernoulli if spec.bits else cells, spec)


def _learn(spec: Kernel) -> Any:
    """Add the outcomes to the arm's book and renew its terms."""
    number, few, learns = numba.from_dtype(spec.dtype), spec.arms, spec.policy.learns
    term_rows, book_rows, channels = spec.term_rows, spec.book_rows, 1 + spec.penalties
    wide_terms, wide_book = np.uint64(term_rows), np.uint64(book_rows)
    one, zero = spec.dtype(1), spec.dtype(0)
    reward_terms = _part(spec.policy.reward_terms, spec, spec.dtype)
    penalty_terms = _part(spec.policy.penalty_terms, spec, spec.dtype)

    def add_few(state, arm, row, more):
        """A multiplication by 0 or 1 is exact, and cheaper than a selection."""
        book = state[2]
        total = zero
        for k in range(few):
            mine = one if arm == int32(k) else zero
            value = book[k * book_rows + row] + more * mine
            book[k * book_rows + row] = value
            total = value if k == 0 or arm == int32(k) else total
        return total

    def put_few(state, arm, row, value):
        terms = state[0]
        for k in range(few):
            old = terms[k * term_rows + row]
            terms[k * term_rows + row] = value if arm == int32(k) else old

    def add_many(state, arm, row, more):
        _, _, book, at, stride = state
        place = (uint64(arm) * wide_book + uint64(row)) * stride + at
        total = book[place] + more
        book[place] = total
        return total

    def put_many(state, arm, row, value):
        terms, at, _, _, stride = state
        terms[(uint64(arm) * wide_terms + uint64(row)) * stride + at] = value

    add, put = _part(add_few if few else add_many, spec), _part(put_few if few else put_many, spec)

    def all_terms(new, pulls, cost, totals, constants):
        new[0], new[1] = reward_terms(constants, pulls, cost, totals[0])
        for m in range(1, channels):
            new[2 * m], new[2 * m + 1] = penalty_terms(constants, pulls, cost, totals[m])

    renew = _part(all_terms, spec)

    def learn(state, arm, outcomes, constants):
        totals = cuda.local.array(channels, number)
        pulls = add(state, arm, 0, one)
        cost = add(state, arm, 1, outcomes[0])
        for channel in range(channels):
            totals[channel] = add(state, arm, 2 + channel, outcomes[1 + channel])
        if learns:
            new = cuda.local.array(term_rows, number)
            if cost > zero:  # twice the same, so that the compiler sees what the terms share
                renew(new, pulls, cost, totals, constants)
            else:
                renew(new, pulls, cost, totals, constants)
            for row in range(term_rows):
                put(state, arm, row, new[row])

    return _part(learn, spec)
