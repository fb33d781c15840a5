"""The GPU's kernel for few arms: one thread per run, its arms in registers.

Letters: K arms, M penalties (at least 1), R runs per launch. K is a compile-time constant, so that
loops over arms unroll; the arm just pulled is found by selecting among all arms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numba import cuda, int32, uint32, uint64

from tightrope.kernels.cuda import device_learn, device_options, device_part, device_target
from tightrope.kernels.rng import WEYL
from tightrope.kernels.step import coin_of, next_word, of_constants
from tightrope.policies.base import IndexPolicy
from tightrope.policies.faults import is_outside

REGISTERS = 40  # most numbers that a thread keeps in registers: 3 arms with one limit
_MASK = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class DeviceKernel:
    """The parameters for which an index policy's kernel is compiled."""

    policy: type[IndexPolicy]
    penalties: int
    arms: int  # 0: read at run time
    bits: int  # bits of a word that are compared for zero-one outcomes; 0 for other outcomes
    dtype: type
    tabled: bool  # whether the policy's clock is read from a table, shared by all runs
    bases: tuple[float, ...] = ()  # see ``Setup``

    @property
    def term_rows(self) -> int:
        """Terms per arm: a level and a width for the reward and each penalty."""
        return 2 * (1 + self.penalties)

    @property
    def book_rows(self) -> int:
        """Totals per arm (its *book*): pulls, cost, reward, penalties."""
        return 3 + self.penalties

    @property
    def end_rows(self) -> int:
        """Final numbers per run: cost, totals, queues, largest queues."""
        return 2 + 3 * self.penalties


def fits(arms: int, penalties: int) -> bool:
    """Whether a thread can keep all numbers of its arms in registers."""
    return arms * (2 * (1 + penalties) + 3 + penalties) <= REGISTERS


def build_clocks(spec: DeviceKernel) -> Any:
    """A kernel that fills a table [steps] with the policy's clock, with any number of threads."""
    clock, number = device_part(spec.policy.clock), numba.from_dtype(spec.dtype)

    def fill(clocks, wide):
        for step in range(cuda.grid(1), clocks.shape[0], cuda.gridsize(1)):
            clocks[step] = number(clock(wide, float(max(step, 1))))

    return cuda.jit(fill)


def clock_at(spec: DeviceKernel) -> Any:
    """The clock of a step, from the table or computed."""
    part, number, tabled = device_part, numba.from_dtype(spec.dtype), spec.tabled
    clock = part(spec.policy.clock)

    def now_at(clocks, wide, step):
        return clocks[step] if tabled else number(clock(wide, float(max(step, 1))))

    return part(now_at)


def _by_selection(spec: DeviceKernel) -> dict[str, Any]:
    """Functions that access the rows of the arm just pulled by going through all arms."""
    few, term_rows, book_rows = spec.arms, spec.term_rows, spec.book_rows
    one, zero, channels = spec.dtype(1), spec.dtype(0), 2 + spec.penalties

    def add(book, at, stride, row, more, arm):
        """Multiply by 0 or 1, which is exact and cheaper than a selection."""
        total = zero
        for k in range(few):
            mine = one if arm == int32(k) else zero
            value = book[k * book_rows + row] + more * mine
            book[k * book_rows + row] = value
            total = value if k == 0 or arm == int32(k) else total
        return total

    def put(terms, at, stride, row, value, arm):
        for k in range(few):
            old = terms[k * term_rows + row]
            terms[k * term_rows + row] = value if arm == int32(k) else old

    def threshold(law, arm, row):
        value = law[row]
        for k in range(1, few):
            other = law[k * channels + row]
            value = other if arm == int32(k) else value
        return value

    return {"add": add, "put": put, "threshold": threshold}


def build_few(spec: DeviceKernel) -> Any:
    """The kernel, compiled when it is first launched.

    Input: the runs' generators [4, R] (``seeds``, ``policy_words``), the ``law`` of the outcomes,
    the arms' initial terms ``start`` [K * rows], the table of clocks, the policy's numbers. Output:
    pulls and cost of each arm in ``counts`` [K, 2, R], all else in ``ends`` [rows, R].
    """
    play, number = _play(spec), numba.from_dtype(spec.dtype)
    term_size, book_size = spec.arms * spec.term_rows, spec.arms * spec.book_rows
    law_size = max(spec.arms * (2 + spec.penalties), 1) if spec.bits else 1
    copied = bool(spec.bits)

    def few_arms(seeds, policy_words, law, start, counts, ends, clocks, game):
        run = cuda.grid(1)
        if run < seeds.shape[1]:
            terms = cuda.local.array(term_size, number)
            book = cuda.local.array(book_size, number)
            odds = cuda.local.array(law_size, uint32)
            for at in range(term_size):
                terms[at] = start[at]
            for at in range(book_size):
                book[at] = number(0)
            if copied:
                for at in range(law_size):
                    odds[at] = law[at]
                play(terms, book, run, seeds, policy_words, odds, counts, ends, clocks, game)
            else:
                play(terms, book, run, seeds, policy_words, law, counts, ends, clocks, game)

    numbers = term_size + book_size
    capped = device_options(max_registers=64) if numbers <= 24 else {}  # measured to be faster
    return cuda.jit(fastmath=True, **capped)(few_arms)


def _play(spec: DeviceKernel) -> Any:
    """One run: decide, draw, learn, settle, until the budget or the table of clocks ends.

    It is long because a thread's numbers stay in registers only within one function.
    """
    number, penalties, channels = numba.from_dtype(spec.dtype), spec.penalties, 2 + spec.penalties
    part, random, zero, one = device_part, spec.policy.random, spec.dtype(0), spec.dtype(1)
    ways = {**_by_selection(spec), "net": of_constants(spec.bases, number)}
    target = device_target(spec.policy, penalties, spec.dtype, **ways)
    learn, settle, report = device_learn(target), target.settle(), _report(spec)
    pull, pull_paid = _pull(spec, target, learn), _pull(spec, target, device_learn(target, True))
    decide, paid, now_at = _decide(spec, target), _all_paid(spec), clock_at(spec)
    word_of, coin, rows = part(next_word), part(coin_of), 3 * penalties
    weyl_step, law_step = np.uint64(WEYL), np.uint64(channels * WEYL)

    def play(terms, book, run, seeds, policy_words, law, counts, ends, clocks, game):
        wide, constants, allowance, budget, count, explore, last = game
        state = cuda.local.array(rows, number)
        drain = cuda.local.array(penalties, number)
        outcomes = cuda.local.array(channels, number)
        words = cuda.local.array(4, uint32)
        own_words = cuda.local.array(4, uint32)
        for row in range(rows):
            state[row] = zero
        for m in range(penalties):
            drain[m] = allowance[m]
        for at in range(4):
            words[at], own_words[at] = seeds[at, run], policy_words[at, run]
        spent, step, uniform, weyl, toss = zero, uint32(0), zero, uint64(0), uint64(0)
        while spent <= budget and step < explore:
            if random:
                toss = (toss + weyl_step) & _MASK
                word_of(own_words, 0, 1, toss)
            pull(terms, book, outcomes, words, weyl, law, int32(step % count), constants)
            weyl = (weyl + law_step) & _MASK
            spent += outcomes[0]
            step = uint32(step + uint32(1))
        now = now_at(clocks, wide, min(step, last))
        while spent <= budget and step < last and not paid(book):
            if random:
                toss = (toss + weyl_step) & _MASK
                uniform = number(coin(word_of(own_words, 0, 1, toss)))
            arm = decide(terms, state, now, uniform, constants)
            step = uint32(step + uint32(1))
            now = now_at(clocks, wide, step)
            pull(terms, book, outcomes, words, weyl, law, arm, constants)
            weyl = (weyl + law_step) & _MASK
            spent += outcomes[0]
            settle(state, 0, 1, drain, 0, outcomes, 0, 1, one, penalties, constants)
        while spent <= budget and step < last:  # the same, once every arm has a positive cost
            if random:
                toss = (toss + weyl_step) & _MASK
                uniform = number(coin(word_of(own_words, 0, 1, toss)))
            arm = decide(terms, state, now, uniform, constants)
            step = uint32(step + uint32(1))
            now = now_at(clocks, wide, step)  # the next step's clock, loaded ahead of its use
            pull_paid(terms, book, outcomes, words, weyl, law, arm, constants)
            weyl = (weyl + law_step) & _MASK
            spent += outcomes[0]
            settle(state, 0, 1, drain, 0, outcomes, 0, 1, one, penalties, constants)
        report(book, run, seeds.shape[1], spent, state, counts, ends)

    return part(play)


def _pull(spec: DeviceKernel, target: Any, learn: Any) -> Any:
    """Draw the outcomes of an arm's pull, and learn from them."""
    channels, one, own_law = 2 + spec.penalties, spec.dtype(1), bool(spec.bits)
    draw = target.draw_bits(32 - spec.bits, below=True) if spec.bits else target.draw_cells()

    def pull(terms, book, outcomes, words, weyl, law, arm, constants):
        row = 0 if own_law else arm * channels
        draw(outcomes, 0, 1, words, 0, 1, weyl, law, arm, row, one, channels)
        learn(book, 0, 1, terms, 0, 1, arm, outcomes, 0, 1, one, constants, constants)

    return device_part(pull)


def _all_paid(spec: DeviceKernel) -> Any:
    """Whether every arm has a positive cost."""
    few, rows, zero = spec.arms, spec.book_rows, spec.dtype(0)

    def paid(book):
        every = True
        for arm in range(few):
            every = every and book[arm * rows + 1] > zero
        return every

    return device_part(paid)


def _decide(spec: DeviceKernel, target: Any) -> Any:
    """The arm with the smallest index; ties go to the lowest number."""
    few, rows, number = spec.arms, spec.term_rows, numba.from_dtype(spec.dtype)
    index, penalties, outside = target.index(), spec.penalties, is_outside(spec.policy)

    def decide(terms, state, now, uniform, constants):
        best, chosen = number(0), int32(0)
        for arm in range(few):
            value = index(
                terms, arm * rows, 1, state, 0, 1, constants, now, uniform, number(arm), penalties
            )
            if outside and value != value:
                state[0] = value  # the queue is nan from now on
            if arm == 0 or value < best:
                best, chosen = value, int32(arm)
        return chosen

    return device_part(decide)


def _report(spec: DeviceKernel) -> Any:
    """Write the results: the rows of ``ends`` are cost, totals, queues, largest queues."""
    number, few, rows = numba.from_dtype(spec.dtype), spec.arms, spec.book_rows
    penalties, channels = spec.penalties, 1 + spec.penalties

    def report(book, run, runs, spent, state, counts, ends):
        totals = cuda.local.array(channels, number)
        for channel in range(channels):
            totals[channel] = number(0)
        for arm in range(few):
            counts[2 * arm * runs + run] = book[arm * rows]
            counts[(2 * arm + 1) * runs + run] = book[arm * rows + 1]
            for channel in range(channels):
                totals[channel] += book[arm * rows + 2 + channel]
        ends[run] = spent
        for channel in range(channels):
            ends[(1 + channel) * runs + run] = totals[channel]
        for m in range(penalties):
            ends[(1 + channels + m) * runs + run] = state[m]
            ends[(1 + channels + penalties + m) * runs + run] = state[2 * penalties + m]

    return device_part(report)
