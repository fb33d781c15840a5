"""The CPU kernel that advances many runs together, one per SIMD lane, step by step.

Letters: K arms, M penalties (at least 1), L lanes. The buffers are flat arrays, so that LLVM knows
the distance between any two rows:

    terms  [K, rows, L]   each arm's level and width of every channel
    book   [K, rows, L], or [K, L, width] with many arms: each arm's pulls, cost and totals
    lanes  [rows, L]      each run's queues, cost, outcomes (``LaneLayout`` numbers the rows)
    words  [4, L]         each run's generator (``rng``); ``policy_words`` [4, L] the policy's own

A step is: decide, draw, learn, settle (``step``). With few arms, K is a compile-time constant and
the arm just pulled is found by selection, so that everything is SIMD code. With many arms, each
lane learns by scalar code in the rows of its arm: at K = 10 that takes 6.7 ns per step, while
copying the rows for SIMD code took 8.9.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from numba import int32, uint64

from tightrope.compiled.functions import (
    compile_function,
    compile_kernel,
    keep,
    select,
    tuned,
)
from tightrope.kernels.rng import WEYL
from tightrope.kernels.step import Target, coin_of, next_word, of_constants
from tightrope.policies.base import IndexPolicy
from tightrope.policies.faults import is_outside

FEW_ARMS = 6  # up to here K is a compile-time constant; LLVM does not vectorise 8 (31 ns per step)
ARMS_AT_ONCE = 4  # compared in one pass over the lanes
CHECK_EVERY = 32  # steps between checks whether every lane is done


@dataclass(frozen=True)
class Kernel:
    """The parameters for which a kernel is compiled."""

    policy: type[IndexPolicy]
    penalties: int
    lanes: int
    arms: int  # 0: read at run time
    bernoulli: bool
    dtype: type
    bases: tuple[float, ...] = ()  # see ``Setup``

    @property
    def layout(self) -> LaneLayout:
        """The numbers of a lane's rows."""
        return LaneLayout.of(self.penalties)

    @property
    def term_rows(self) -> int:
        """Terms per arm: level and width of the reward and of each penalty."""
        return 2 * (1 + self.penalties)

    @property
    def book_rows(self) -> int:
        """Totals per arm: pulls, cost, reward, penalties."""
        return 3 + self.penalties

    @property
    def width(self) -> int:
        """With many arms, the stride between the totals of two lanes: a power of 2."""
        return 1 << (self.book_rows - 1).bit_length()


class LaneLayout(NamedTuple):
    """First rows of a lane."""

    queue: int  # for each penalty, then their rounding errors, then their largest values
    spent: int
    outcome: int  # the step's cost, reward and penalties
    alive: int  # 1 while the run continues, then 0
    best: int  # the smallest index so far
    chosen: int  # the arm that has it
    uniform: int  # the policy's uniform number of the step
    rows: int  # number of rows

    @classmethod
    def of(cls, penalties: int) -> LaneLayout:
        """The rows for M penalties."""
        counts = (3 * penalties, 1, 2 + penalties, 1, 1, 1, 1)
        return cls(*(0, *accumulate(counts)))


def build(spec: Kernel) -> Any:
    """The compiled kernel for ``spec``; see :func:`_kernel` for its arguments."""
    return compile_kernel(_kernel(spec))


def _part(spec: Kernel) -> Any:
    """Compile parts of the kernel."""

    def part(function: Any, dtype: type | None = None) -> Any:
        return compile_function(function, dtype, tuned)

    return part


def _kept_larger(new, old):
    return keep(new > old, new, old)


def _target(spec: Kernel) -> Target:
    """Step functions that find the arm just pulled by selection or, with many arms, directly."""
    few, number, rows, lanes_count = spec.arms, spec.dtype, spec.book_rows, spec.lanes
    zero, term_rows, channels = number(0), spec.term_rows, 2 + spec.penalties

    def add(book, at, stride, row, more, arm):
        total = zero
        for k in range(few):
            place = at + (k * rows + row) * lanes_count
            value = book[place] + select(arm == int32(k), more, zero)
            book[place] = value
            total = select(arm == int32(k), value, total)
        return total

    def put(terms, at, stride, row, new, arm):
        for k in range(few):
            place = at + (k * term_rows + row) * lanes_count
            terms[place] = keep(arm == int32(k), new, terms[place])

    def threshold(law, arm, row):
        value = law[row]
        for k in range(1, few):
            value = select(arm == int32(k), law[k * channels + row], value)
        return value

    shared = (spec.policy, spec.penalties, number, _part(spec), select, _kept_larger)
    ways: Any = {"add": add, "put": put, "threshold": threshold} if few else {}
    return Target(*shared, **ways, net=of_constants(spec.bases, number))


def _kernel(spec: Kernel) -> Any:
    """The kernel; it has many parameters because numba takes each array separately."""
    part, number, lanes_count, random = _part(spec), spec.dtype, spec.lanes, spec.policy.random
    clock, advance = part(spec.policy.clock), (_few if spec.arms else _many)(spec)
    guess, alive = _guess(spec), spec.layout.alive * lanes_count

    def kernel(
        terms, book, lanes, words, policy_words, picked, law, count, explore, wide, constants,
        allowance, budget, step, until, stop,
    ):  # fmt: skip
        """Run all lanes from ``step`` until they are done, or ``until``, or ``stop[0]`` is set."""
        while step < until:
            if random:
                guess(lanes, policy_words, step)
            now = number(clock(wide, float(max(step, 1))))
            advance(
                terms, book, lanes, words, picked, law, count, step, step < explore, now, constants,
                allowance, budget,
            )  # fmt: skip
            step += 1
            if step % CHECK_EVERY == 0:
                running = number(0)
                for lane in range(lanes_count):
                    running += lanes[alive + lane]
                if running == 0 or stop[0]:
                    break
        return step

    return kernel


def _settle(spec: Kernel, target: Target) -> Any:
    """Charge the cost, stop lanes past the budget, and advance the queues unless exploring."""
    layout, lanes_count, number = spec.layout, spec.lanes, spec.dtype
    spent, alive = layout.spent * lanes_count, layout.alive * lanes_count
    outcome, one, zero = layout.outcome * lanes_count, number(1), number(0)
    move, penalties = target.settle(), spec.penalties

    def settle(lanes, allowance, budget, exploring, constants):
        if not exploring:
            for lane in range(lanes_count):
                move(
                    lanes, lane, lanes_count, allowance, 0, lanes, outcome + lane, lanes_count,
                    lanes[alive + lane], penalties, constants,
                )  # fmt: skip
        for lane in range(lanes_count):
            total = lanes[spent + lane] + lanes[outcome + lane]
            lanes[spent + lane] = total
            lanes[alive + lane] = select(total <= budget, one, zero)

    return _part(spec)(settle)


def _guess(spec: Kernel) -> Any:
    """The policy's uniform number of a step."""
    lanes_count, number, part = spec.lanes, spec.dtype, _part(spec)
    uniform, word_of, coin = spec.layout.uniform * lanes_count, part(next_word), part(coin_of)

    def guess(lanes, policy_words, step):
        weyl = (step + 1) * WEYL
        for lane in range(lanes_count):
            lanes[uniform + lane] = number(coin(word_of(policy_words, lane, lanes_count, weyl)))

    return part(guess)


def _decide_lane(spec: Kernel) -> Any:
    """The arm with the smallest index in one lane."""
    lanes_count, few, number, part = spec.lanes, spec.arms, spec.dtype, _part(spec)
    term_rows, penalties = spec.term_rows, spec.penalties
    uniform, index = spec.layout.uniform * lanes_count, _target(spec).index()
    spoil = _spoiler(spec)

    def index_of(terms, lanes, arm, lane, constants, now):
        at = arm * term_rows * lanes_count + lane
        coin = lanes[uniform + lane]
        value = index(
            terms, at, lanes_count, lanes, lane, lanes_count, constants, now, coin, number(arm),
            penalties,
        )  # fmt: skip
        spoil(lanes, lane, value)
        return value

    index_in = part(index_of)

    def decide(terms, lanes, lane, constants, now):
        best, chosen = index_in(terms, lanes, 0, lane, constants, now), int32(0)
        for arm in range(1, few):
            value = index_in(terms, lanes, arm, lane, constants, now)
            chosen = select(value < best, int32(arm), chosen)
            best = select(value < best, value, best)
        return chosen

    return part(decide)


def _spoiler(spec: Kernel) -> Any:
    """Make a run's first queue nan permanently if an index of a user's own policy is nan."""
    alive, outside = spec.layout.alive * spec.lanes, is_outside(spec.policy)

    def spoil(lanes, lane, value):
        if outside:
            fine = (value == value) | (lanes[alive + lane] == 0)
            lanes[lane] = keep(fine, lanes[lane], value)

    return _part(spec)(spoil)


def _few(spec: Kernel) -> Any:
    """One step of all lanes if K is a constant.

    It is long, with many parameters, because LLVM vectorises loops over lanes in one function only.
    """
    layout, lanes_count, channels = spec.layout, spec.lanes, 2 + spec.penalties
    part, target, decide_in = _part(spec), _target(spec), _decide_lane(spec)
    outcome, alive = layout.outcome * lanes_count, layout.alive * lanes_count
    learn, settle = target.learn(), _settle(spec, target)
    draw = target.draw_bits() if spec.bernoulli else target.draw_cells()

    def decide(terms, lanes, picked, constants, now):
        for lane in range(lanes_count):
            picked[lane] = decide_in(terms, lanes, lane, constants, now)

    decide_all = part(decide)

    def advance(
        terms, book, lanes, words, picked, law, count, step, exploring, now, constants, allowance,
        budget,
    ):  # fmt: skip
        weyl = step * (channels * WEYL)
        if exploring:
            for lane in range(lanes_count):
                picked[lane] = int32(step % count)
        else:
            decide_all(terms, lanes, picked, constants, now)
        for lane in range(lanes_count):
            running, arm = lanes[alive + lane], picked[lane]
            draw(
                lanes,
                outcome + lane,
                lanes_count,
                words,
                lane,
                lanes_count,
                weyl,
                law,
                arm,
                0,
                running,
                channels,
            )
        for lane in range(lanes_count):
            learn(
                book, lane, lanes_count, terms, lane, lanes_count, picked[lane], lanes,
                outcome + lane, lanes_count, lanes[alive + lane], constants, constants,
            )  # fmt: skip
        settle(lanes, allowance, budget, exploring, constants)

    return part(advance)


def _many(spec: Kernel) -> Any:
    """One step of all lanes if K is read at run time; many parameters because of the arrays."""
    layout, lanes_count, part, target = spec.layout, spec.lanes, _part(spec), _target(spec)
    channels, bernoulli, width = 2 + spec.penalties, spec.bernoulli, spec.width
    outcome, alive = layout.outcome * lanes_count, layout.alive * lanes_count
    learn, settle, decide = target.learn(), _settle(spec, target), _decide_many(spec)
    draw = target.draw_bits(row_stride=lanes_count) if bernoulli else target.draw_cells()

    def advance(
        terms, book, lanes, words, picked, law, count, step, exploring, now, constants, allowance,
        budget,
    ):  # fmt: skip
        arms, limits = picked
        weyl = step * (channels * WEYL)
        if exploring:
            for lane in range(lanes_count):
                arms[lane] = int32(step % count)
        else:
            decide(terms, lanes, arms, count, now, constants)
        if bernoulli:  # fetch the thresholds, one lane at a time, then draw in SIMD code
            for lane in range(lanes_count):
                row = uint64(arms[lane]) * uint64(channels)
                for channel in range(channels):
                    limits[channel * lanes_count + lane] = law[row + uint64(channel)]
        for lane in range(lanes_count):
            running = lanes[alive + lane]
            if bernoulli:
                draw(
                    lanes, outcome + lane, lanes_count, words, lane, lanes_count, weyl, limits, 0,
                    lane, running, channels,
                )  # fmt: skip
            else:
                draw(
                    lanes, outcome + lane, lanes_count, words, lane, lanes_count, weyl, law, 0,
                    arms[lane] * channels, running, channels,
                )  # fmt: skip
        for lane in range(lanes_count):
            arm = uint64(arms[lane])  # numba's check for negative indices would take 20 % longer
            learn(
                book[arm], lane * width, 1, terms[arm], lane, lanes_count, 0, lanes,
                outcome + lane, lanes_count, lanes[alive + lane], constants, constants,
            )  # fmt: skip
        settle(lanes, allowance, budget, exploring, constants)

    return part(advance)


def _decide_many(spec: Kernel) -> Any:
    """The arm with the smallest index in every lane, a few arms per pass over the lanes."""
    layout, lanes_count, number, part = spec.layout, spec.lanes, spec.dtype, _part(spec)
    index, penalties = _target(spec).index(), spec.penalties
    uniform, best_row = layout.uniform * lanes_count, layout.best * lanes_count
    chosen_row, spoil = layout.chosen * lanes_count, _spoiler(spec)

    def index_of(terms, lanes, arm, lane, now, constants):
        value = index(
            terms[arm], lane, lanes_count, lanes, lane, lanes_count, constants, now,
            lanes[uniform + lane], number(arm), penalties,
        )  # fmt: skip
        spoil(lanes, lane, value)
        return value

    index_in = part(index_of)

    def challenge(terms, lanes, first, arms_at_once, now, constants):
        for lane in range(lanes_count):
            best, chosen = lanes[best_row + lane], lanes[chosen_row + lane]
            for more in range(arms_at_once):
                value = index_in(terms, lanes, first + more, lane, now, constants)
                chosen = keep(value < best, number(first + more), chosen)
                best = keep(value < best, value, best)
            lanes[best_row + lane], lanes[chosen_row + lane] = best, chosen

    challenge_by = part(challenge)

    def decide(terms, lanes, arms, count, now, constants):
        for lane in range(lanes_count):
            lanes[best_row + lane] = index_in(terms, lanes, 0, lane, now, constants)
            lanes[chosen_row + lane] = number(0)
        whole = 1 + (count - 1) // ARMS_AT_ONCE * ARMS_AT_ONCE
        for arm in range(1, whole, ARMS_AT_ONCE):
            challenge_by(terms, lanes, arm, ARMS_AT_ONCE, now, constants)
        for arm in range(whole, count):
            challenge_by(terms, lanes, arm, 1, now, constants)
        for lane in range(lanes_count):
            arms[lane] = int32(lanes[chosen_row + lane])

    return part(decide)
