"""The CPU's kernel: many runs side by side in lanes, one step of all of them at a time.

Letters: K arms, M penalties (at least 1: a problem without a limit gets an idle one), L lanes.
Three buffers, each one flat array so that LLVM sees every distance between two rows:

    arms   [K, rows, L]   each arm's terms and totals        (``Layout`` numbers the rows)
    lanes  [rows, L]      each run's queues, cost, outcomes
    words  [4, L]         each run's generator (``rng``); ``luck`` [4, L] the policy's own

A step is four loops over the lanes: decide, draw, settle (cost and queues), learn. With few arms,
K is a constant of the kernel and the arm just pulled is picked out by selection, so that all four
are SIMD code; with more, its totals are read and written one lane at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import int32, uint32

from tightrope.compiled import compile_function, compile_kernel, fingerprint, keep, select
from tightrope.engine import rng
from tightrope.policies.base import IndexPolicy, advance

__all__ = ["FEW_ARMS", "Kernel", "Layout", "build"]

SOURCE = Path(__file__).read_bytes()
FEW_ARMS = 8  # up to here K is a constant of the kernel
ARMS_AT_ONCE = 4  # compared in one pass over the lanes
CHECK_EVERY = 32  # steps between looks at whether every lane is done


@dataclass(frozen=True)
class Kernel:
    """What a kernel is compiled for."""

    policy: type[IndexPolicy]
    penalties: int
    lanes: int
    arms: int  # 0: read at run time
    bernoulli: bool
    dtype: type

    @property
    def layout(self) -> Layout:
        """Where its rows are."""
        return Layout.of(self.penalties)

    @cached_property
    def digest(self) -> str:
        """What tells it from every other kernel: what it is for and the text it is made of."""
        policy = self.policy
        facts = (
            self.penalties,
            self.lanes,
            self.arms,
            self.bernoulli,
            self.dtype.__name__,
            policy.learns,
            policy.random,
        )
        return fingerprint(policy.functions(), (SOURCE, rng.SOURCE), facts)


class Layout(NamedTuple):
    """First rows in the buffers; channel 0 is the reward, channel m the m-th penalty."""

    # of an arm
    terms: int  # level and width for each channel
    pulls: int
    cost: int
    totals: int  # for each channel
    arm_rows: int  # how many
    # of a lane
    queue: int  # for each penalty
    lost: int  # what the queues' rounding lost
    peak: int  # the largest queues so far
    outcome: int  # the step's cost, reward and penalties
    spent: int
    alive: int  # 1 while the run goes on, then 0
    best: int  # the smallest index so far
    chosen: int  # the arm that has it
    uniform: int  # the policy's number of the step
    own: int  # a copy of the arm just pulled
    lane_rows: int  # how many

    @classmethod
    def of(cls, penalties: int) -> Layout:
        """The rows for M penalties."""
        channels = 1 + penalties
        arm = _starts(2 * channels, 1, 1, channels)
        lane = _starts(*[penalties] * 3, 2 + penalties, 1, 1, 1, 1, 1, arm[-1])
        return cls(*arm, *lane)


def _starts(*counts: int) -> tuple[int, ...]:
    """Where each of several groups of rows starts, and where the last one ends."""
    return (0, *accumulate(counts))


def build(spec: Kernel) -> Any:
    """The compiled kernel for ``spec``; see :func:`_kernel` for its arguments."""
    return compile_kernel(_kernel(spec), spec.digest)


def _kernel(spec: Kernel) -> Any:
    clock = compile_function(spec.policy.clock, spec.digest)
    decide = _decide(spec)
    draw = _draw(spec)
    learn = _learn(spec)
    settle = _settle(spec)
    guess = _guess(spec)
    number, lanes_count, random = spec.dtype, spec.lanes, spec.policy.random
    alive = spec.layout.alive * lanes_count

    def kernel(
        arms,
        lanes,
        words,
        luck,
        picked,
        law,
        count,
        explore,
        wide,
        constants,
        allowance,
        budget,
        step,
        until,
        stop,
    ):
        """Run all lanes from ``step`` until they are done, or ``until``, or ``stop[0]`` is set."""
        while step < until:
            if random:
                guess(lanes, luck, step)
            if step < explore:
                for lane in range(lanes_count):
                    picked[lane] = int32(step % count)
            else:
                now = number(clock(wide, float(max(step, 1))))
                decide(arms, lanes, picked, count, now, constants)
            draw(lanes, words, picked, law, step)
            learn(arms, lanes, picked, constants)
            settle(lanes, allowance, budget, step >= explore)
            step += 1
            if step % CHECK_EVERY == 0:
                running = number(0)
                for lane in range(lanes_count):
                    running += lanes[alive + lane]
                if running == 0 or stop[0]:
                    break
        return step

    return kernel


def _guess(spec: Kernel) -> Any:
    """The policy's uniform number of a step."""
    lanes_count, number = spec.lanes, spec.dtype
    unit, uniform = number(2.0**-24), spec.layout.uniform * lanes_count

    def guess(lanes, luck, step):
        weyl = uint32((step + 1) * rng.WEYL)
        for lane in range(lanes_count):
            word = rng.scramble(luck[lane], luck[3 * lanes_count + lane])
            luck[lane] = luck[lanes_count + lane]
            luck[lanes_count + lane] = luck[2 * lanes_count + lane]
            luck[2 * lanes_count + lane] = luck[3 * lanes_count + lane]
            luck[3 * lanes_count + lane] = word
            lanes[uniform + lane] = number(int32(uint32(word + weyl) >> uint32(8))) * unit

    return compile_function(guess, spec.digest)


def _decide(spec: Kernel) -> Any:
    """The arm with the smallest index in every lane, lowest number on ties."""
    layout, lanes_count, few, number = spec.layout, spec.lanes, spec.arms, spec.dtype
    penalties, read = spec.penalties, _read(spec)
    uniform, best_row = layout.uniform * lanes_count, layout.best * lanes_count
    chosen_row = layout.chosen * lanes_count
    reward_index = compile_function(spec.policy.reward_index, spec.digest, number)
    penalty_index = compile_function(spec.policy.penalty_index, spec.digest, number)

    def index(arms, lanes, arm, lane, now, constants):
        level, width = read(arms, arm, 0, lane), read(arms, arm, lanes_count, lane)
        luck = lanes[uniform + lane]
        value = reward_index(constants, now, luck, number(arm), level, width)
        for m in range(penalties):
            row = 2 * (1 + m) * lanes_count
            level, width = read(arms, arm, row, lane), read(arms, arm, row + lanes_count, lane)
            queue = lanes[m * lanes_count + lane]
            value += queue * penalty_index(constants, now, level, width)
        return number(value)

    index_of = compile_function(index, spec.digest)

    def decide_few(arms, lanes, picked, count, now, constants):
        for lane in range(lanes_count):
            best, chosen = index_of(arms, lanes, 0, lane, now, constants), int32(0)
            for arm in range(1, few):
                value = index_of(arms, lanes, arm, lane, now, constants)
                chosen = select(value < best, int32(arm), chosen)
                best = select(value < best, value, best)
            picked[lane] = chosen

    def challenge(arms, lanes, first, arms_at_once, now, constants):
        for lane in range(lanes_count):
            best, chosen = lanes[best_row + lane], lanes[chosen_row + lane]
            for more in range(arms_at_once):
                arm = first + more
                value = index_of(arms, lanes, arm, lane, now, constants)
                chosen = keep(value < best, number(arm), chosen)
                best = keep(value < best, value, best)
            lanes[best_row + lane], lanes[chosen_row + lane] = best, chosen

    challenge_by = compile_function(challenge, spec.digest)

    def decide_many(arms, lanes, picked, count, now, constants):
        for lane in range(lanes_count):
            lanes[best_row + lane] = index_of(arms, lanes, 0, lane, now, constants)
            lanes[chosen_row + lane] = number(0)
        whole = 1 + (count - 1) // ARMS_AT_ONCE * ARMS_AT_ONCE
        for arm in range(1, whole, ARMS_AT_ONCE):
            challenge_by(arms, lanes, arm, ARMS_AT_ONCE, now, constants)
        for arm in range(whole, count):
            challenge_by(arms, lanes, arm, 1, now, constants)
        for lane in range(lanes_count):
            picked[lane] = int32(lanes[chosen_row + lane])

    return compile_function(decide_few if few else decide_many, spec.digest)


def _read(spec: Kernel) -> Any:
    """How to read a row of an arm: ``arms`` is flat where K is constant, else [K, rows * L]."""
    stride = spec.layout.arm_rows * spec.lanes

    def read_flat(arms, arm, row, lane):
        return arms[arm * stride + row + lane]

    def read_rows(arms, arm, row, lane):
        return arms[arm, row + lane]

    return compile_function(read_flat if spec.arms else read_rows, spec.digest)


def _draw(spec: Kernel) -> Any:
    """The step's cost, reward and penalties of the arm picked in every lane; 0 where it is done."""
    layout, lanes_count, few, number = spec.layout, spec.lanes, spec.arms, spec.dtype
    channels, alive, zero = 2 + spec.penalties, layout.alive * spec.lanes, spec.dtype(0)
    outcome = layout.outcome * lanes_count
    weyl_step = channels * rng.WEYL

    def threshold_few(law, picked, channel, lane):
        value = law[channel]
        for k in range(1, few):
            value = select(picked[lane] == int32(k), law[k * channels + channel], value)
        return value

    def threshold_many(law, picked, channel, lane):
        return picked[(1 + channel) * lanes_count + lane]

    threshold = compile_function(threshold_few if few else threshold_many, spec.digest)

    def draw_bernoulli(lanes, words, picked, law, step):
        if not few:  # first fetch the thresholds, one lane at a time, then go on in SIMD code
            for lane in range(lanes_count):
                for channel in range(channels):
                    at = picked[lane] * channels + channel
                    picked[(1 + channel) * lanes_count + lane] = law[at]
        weyl = uint32(step * weyl_step)
        for lane in range(lanes_count):
            a, b = words[lane], words[lanes_count + lane]
            c, d = words[2 * lanes_count + lane], words[3 * lanes_count + lane]
            running = lanes[alive + lane]
            for channel in range(channels):
                a, b, c, d = b, c, d, rng.scramble(a, d)
                word = uint32(uint32(d + weyl) + uint32((channel + 1) * rng.WEYL))
                hit = int32(word >> uint32(1)) <= threshold(law, picked, channel, lane)
                lanes[outcome + channel * lanes_count + lane] = select(hit, running, zero)
            words[lane], words[lanes_count + lane] = a, b
            words[2 * lanes_count + lane], words[3 * lanes_count + lane] = c, d

    def draw_cells(lanes, words, picked, law, step):
        count, offset, source, split, first, second, slope = law
        weyl = uint32(step * weyl_step)
        uniforms = np.empty(channels)
        for lane in range(lanes_count):
            a, b = words[lane], words[lanes_count + lane]
            c, d = words[2 * lanes_count + lane], words[3 * lanes_count + lane]
            arm = picked[lane]
            for channel in range(channels):
                a, b, c, d = b, c, d, rng.scramble(a, d)
                word = uint32(uint32(d + weyl) + uint32((channel + 1) * rng.WEYL))
                uniforms[channel] = float(word >> uint32(1)) * 2.0**-31
            words[lane], words[lanes_count + lane] = a, b
            words[2 * lanes_count + lane], words[3 * lanes_count + lane] = c, d
            for channel in range(channels):
                place = uniforms[source[arm, channel]] * count[arm, channel]
                cell = int(place)
                part = place - cell
                at = offset[arm, channel] + cell
                value = (first[at] if part < split[at] else second[at]) + slope[at] * (part - 0.5)
                running = lanes[alive + lane]
                lanes[outcome + channel * lanes_count + lane] = number(value) * running

    return compile_function(draw_bernoulli if spec.bernoulli else draw_cells, spec.digest)


def _learn(spec: Kernel) -> Any:
    """Add the outcomes to the totals of the arm picked in every lane, and renew its terms.

    With few arms all of them are gone through and the one picked is selected. With many, its rows
    are copied to the lane's own, one lane at a time, dealt with there in SIMD code, and put back.
    """
    layout, lanes_count, few, number = spec.layout, spec.lanes, spec.arms, spec.dtype
    stride, channels, learns = layout.arm_rows * spec.lanes, 1 + spec.penalties, spec.policy.learns
    alive, outcome = layout.alive * lanes_count, layout.outcome * lanes_count
    pulls_row, cost_row = layout.pulls * lanes_count, layout.cost * lanes_count
    totals, zero, own = layout.totals * lanes_count, number(0), layout.own * lanes_count
    reward_terms = compile_function(spec.policy.reward_terms, spec.digest, number)
    penalty_terms = compile_function(spec.policy.penalty_terms, spec.digest, number)

    def add_few(arms, lanes, row, arm, lane, more):
        total = zero
        for k in range(few):
            at = k * stride + row + lane
            value = arms[at] + select(arm == int32(k), more, zero)
            arms[at] = value
            total = select(arm == int32(k), value, total)
        return total

    def put_few(arms, lanes, row, arm, lane, new):
        for k in range(few):
            at = k * stride + row + lane
            arms[at] = keep(arm == int32(k), new, arms[at])

    def add_many(arms, lanes, row, arm, lane, more):
        total = lanes[own + row + lane] + more
        lanes[own + row + lane] = total
        return total

    def put_many(arms, lanes, row, arm, lane, new):
        lanes[own + row + lane] = new

    add = compile_function(add_few if few else add_many, spec.digest)
    put = compile_function(put_few if few else put_many, spec.digest)

    def learn(arms, lanes, picked, constants):
        for lane in range(lanes_count):
            arm = picked[lane]
            pulls = add(arms, lanes, pulls_row, arm, lane, lanes[alive + lane])
            cost = add(arms, lanes, cost_row, arm, lane, lanes[outcome + lane])
            for channel in range(channels):
                more = lanes[outcome + (1 + channel) * lanes_count + lane]
                total = add(arms, lanes, totals + channel * lanes_count, arm, lane, more)
                if learns:
                    if channel == 0:
                        level, width = reward_terms(constants, pulls, cost, total)
                    else:
                        level, width = penalty_terms(constants, pulls, cost, total)
                    put(arms, lanes, 2 * channel * lanes_count, arm, lane, number(level))
                    put(arms, lanes, (2 * channel + 1) * lanes_count, arm, lane, number(width))

    learn_in_place = compile_function(learn, spec.digest)

    def learn_many(arms, lanes, picked, constants):
        for lane in range(lanes_count):
            arm = picked[lane]
            for row in range(pulls_row, stride, lanes_count):
                lanes[own + row + lane] = arms[arm, row + lane]
        learn_in_place(arms, lanes, picked, constants)
        for lane in range(lanes_count):
            arm = picked[lane]
            for row in range(0 if learns else pulls_row, stride, lanes_count):
                arms[arm, row + lane] = lanes[own + row + lane]

    return learn_in_place if few else compile_function(learn_many, spec.digest)


def _settle(spec: Kernel) -> Any:
    """Charge the cost, stop the lanes past the budget, and move the queues."""
    layout, lanes_count, number = spec.layout, spec.lanes, spec.dtype
    penalties, zero, one = spec.penalties, number(0), number(1)
    queue, lost, peak = 0, layout.lost * lanes_count, layout.peak * lanes_count
    outcome, spent = layout.outcome * lanes_count, layout.spent * lanes_count
    alive = layout.alive * lanes_count
    advance_queue = compile_function(advance, spec.digest, number)

    def settle(lanes, allowance, budget, counting):
        for lane in range(lanes_count):
            cost = lanes[outcome + lane]
            total = lanes[spent + lane] + cost
            lanes[spent + lane] = total
            lanes[alive + lane] = select(total <= budget, one, zero)
            if counting:
                for m in range(penalties):
                    at = m * lanes_count + lane
                    length, left = advance_queue(
                        lanes[queue + at],
                        lanes[lost + at],
                        allowance[m],
                        cost,
                        lanes[outcome + 2 * lanes_count + at],
                    )
                    lanes[queue + at] = length
                    lanes[lost + at] = left
                    lanes[peak + at] = keep(length > lanes[peak + at], length, lanes[peak + at])

    return compile_function(settle, spec.digest)
