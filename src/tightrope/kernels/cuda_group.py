"""The GPU's kernel for more arms: a group of G threads per run, its arms in shared memory.

Letters: K arms, M penalties (at least 1), R runs per launch, G threads per group, a power of 2.
An arm's numbers are its terms, then its totals (its *book*). They are stored in pieces of 16 bytes:
a run's memory is [pieces, K, numbers per piece]. A thread loads a piece in one instruction, and the
threads of a group, whose arms are neighbours, load neighbouring pieces without bank conflicts. Arm
k belongs to thread k % G. Only this thread reads and writes the arm's numbers, so no barrier is
needed. All threads of a group draw the same words and compute the same outcomes, queues and cost;
the smallest index is found by shuffles.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import config, cuda, int32, uint32, uint64

from tightrope.kernels.cuda import device_learn, device_options, device_part, device_target
from tightrope.kernels.cuda_few import DeviceKernel, clock_at
from tightrope.kernels.rng import WEYL
from tightrope.kernels.step import Target, coin_of, next_word, of_constants
from tightrope.policies.faults import is_outside

BYTES = 16  # per piece: the widest load from shared memory
BLOCKS = (128, 64, 32)  # threads per block that are tried
BLOCK_BYTES = 48 * 1024  # shared memory of a block without a special request
DEVICE_BYTES = 227 * 1024  # shared memory of a multiprocessor; each block takes 1 KB more
FEWEST_WARPS = 8  # per multiprocessor: with fewer, larger groups are faster (measured)
FEWEST_AT_ONCE, MOST_AT_ONCE = 8, 16  # arms that a thread loads before it compares the first
WARP = np.uint32(0xFFFFFFFF)  # mask of all threads of a warp
_MASK = np.uint64(0xFFFFFFFF)


class Shape(NamedTuple):
    """A kernel's launch shape: threads per group and per block, pieces per run."""

    group: int
    block: int
    pieces: int
    at_once: int

    @property
    def shared(self) -> int:
        """Bytes of shared memory per block."""
        return BYTES * self.pieces * (self.block // self.group)

    def blocks(self, runs: int) -> int:
        """The number of blocks for ``runs``."""
        return -(-runs * self.group // self.block)


class GroupLayout:
    """The layout of an arm's numbers in a kernel's memory."""

    def __init__(self, penalties: int, dtype: type) -> None:
        self.wide = BYTES // np.dtype(dtype).itemsize
        self.penalties = penalties
        self.term_rows = 2 * (1 + penalties)
        self.pieces = -(-(self.term_rows + 3 + penalties) // self.wide)  # per arm
        self.end_pieces = -(-(1 + 2 * penalties) // self.wide)  # of a run's final numbers

    def run_pieces(self, arms: int, group: int) -> int:
        """Pieces per run, with padding.

        Eight threads are served at once. In smaller groups, neighbouring runs must not start in
        the same bank.
        """
        size = self.pieces * arms + self.end_pieces
        return size + ((group - size) % 8 if group < 8 else 0)


def shape_for(arms: int, penalties: int, dtype: type) -> Shape | None:
    """The smallest group that keeps a multiprocessor busy; None if a run has too many arms."""
    if config.ENABLE_CUDASIM:  # the simulator has no shuffles, and a group of one needs none
        pieces = GroupLayout(penalties, dtype).run_pieces(arms, 1)
        return Shape(1, 32, pieces, arms_at_once(arms, 1)) if 32 * pieces < 2**20 else None
    found = None
    for group in (1, 2, 4, 8, 16, 32):
        pieces = GroupLayout(penalties, dtype).run_pieces(arms, group)
        best = max((_resident_runs(pieces, group, block), block) for block in BLOCKS)
        if best[0] > 0:
            found = Shape(group, best[1], pieces, arms_at_once(arms, group))
            if best[0] * group // 32 >= FEWEST_WARPS:
                break
    return found


def _resident_runs(pieces: int, group: int, block: int) -> int:
    """Concurrent runs per multiprocessor with blocks of this size."""
    size = BYTES * pieces * (block // group)
    return 0 if size > BLOCK_BYTES else DEVICE_BYTES // (size + 1024) * (block // group)


def arms_at_once(arms: int, group: int) -> int:
    """Arms that a thread loads at once, chosen so that the last round is nearly full."""
    own = -(-arms // group)
    if own <= MOST_AT_ONCE:
        return own
    return min(range(MOST_AT_ONCE, FEWEST_AT_ONCE - 1, -1), key=lambda n: -(-own // n) * n)


def build_group(spec: DeviceKernel, shape: Shape) -> Any:
    """The kernel, compiled when it is first launched.

    Its arguments are those of ``cuda_few.build_few``, except that ``counts`` is [R, 2, K].
    """
    maker = _Maker(spec, shape)
    play, number, group = maker.play(), maker.number, shape.group
    shift, pieces = group.bit_length() - 1, shape.pieces
    aligned = None if config.ENABLE_CUDASIM else BYTES

    def many_arms(seeds, policy_words, law, start, counts, ends, clocks, game):
        numbers = cuda.shared.array(0, number, aligned)
        lane = int32(cuda.threadIdx.x & (group - 1))
        place = int32(cuda.threadIdx.x >> shift)
        run = cuda.blockIdx.x * (cuda.blockDim.x >> shift) + place
        first = uint32(place * pieces)
        play(numbers, first, lane, run, seeds, policy_words, law, start, counts, ends, clocks, game)

    return cuda.jit(fastmath=True, **device_options(shared_memory_carveout=100))(many_arms)


class _Maker:
    """The parts of the kernel."""

    def __init__(self, spec: DeviceKernel, shape: Shape) -> None:
        self.spec, self.shape, self.layout = spec, shape, GroupLayout(spec.penalties, spec.dtype)
        self.part, self.number = device_part, numba.from_dtype(spec.dtype)
        self._place = self._place_of()
        self.place = self.part(self._place)

    def _place_of(self) -> Any:
        """The place of a row: ``at`` is the arm's first piece, ``stride`` the number of arms.

        Places are unsigned, because numba checks signed ones for negative values. They are a
        multiple of a piece plus a constant, so that the compiler can merge loads of neighbours.
        """
        wide, wide64 = self.layout.wide, np.uint64(self.layout.wide)

        def place(at, stride, row):
            return (at + uint64(row // wide) * stride) * wide64 + uint64(row % wide)

        return place

    @cached_property
    def target(self) -> Target:
        """The step functions; an arm's totals follow its terms."""
        place, term_rows = self.place, self.layout.term_rows

        def add(numbers, at, stride, row, more, arm):
            where = place(at, stride, term_rows + row)
            total = numbers[where] + more
            numbers[where] = total
            return total

        def put(numbers, at, stride, row, value, arm):
            numbers[place(at, stride, row)] = value

        def threshold(law, arm, row):
            return law[uint64(row)]

        ways = {"add": add, "put": put, "threshold": threshold, "place": self._place}
        spec = self.spec
        net = of_constants(spec.bases, self.number)
        return device_target(spec.policy, spec.penalties, spec.dtype, net=net, **ways)

    def play(self) -> Any:
        """One run, by all threads of its group: decide, draw, learn, settle, until the budget ends.

        A warp continues until the last of its runs is done, so that all its threads take part in
        every shuffle; shuffles with the group's own mask would be slower. When a run is done, its
        final numbers are stored, and its arms no longer change. It is long, with many parameters,
        because a thread's numbers stay in registers only within one function.
        """
        spec, number, part = self.spec, self.number, self.part
        penalties, channels, random = spec.penalties, 2 + spec.penalties, spec.policy.random
        pull, settle, decide = self._pull(), self.target.settle(), self._decide()
        fill, report = self._fill(), self._report()
        everywhere, keep = self._everywhere(), self._keep()
        now_at, word_of, coin = clock_at(spec), part(next_word), part(coin_of)
        rows, zero, one = 3 * penalties, spec.dtype(0), spec.dtype(1)
        law_step, weyl_step = np.uint64(channels * WEYL), np.uint64(WEYL)
        step_one = np.uint32(1)

        def play(
            numbers, first, lane, run, seeds, policy_words, law, start, counts, ends, clocks, game
        ):
            wide, constants, allowance, budget, count, explore, last = game
            state = cuda.local.array(rows, number)
            drain = cuda.local.array(penalties, number)
            outcomes = cuda.local.array(channels, number)
            words = cuda.local.array(4, uint32)
            own_words = cuda.local.array(4, uint32)
            runs = seeds.shape[1]
            done = run >= runs
            seeded = runs - 1 if done else run
            for row in range(rows):
                state[row] = zero
            for m in range(penalties):
                drain[m] = allowance[m]
            for at in range(4):
                words[at], own_words[at] = seeds[at, seeded], policy_words[at, seeded]
            fill(numbers, first, lane, start, count)
            spent, step, uniform, mine = zero, uint32(0), zero, lane
            weyl, toss, arm, stride = uint64(0), uint64(0), int32(0), uint64(count)
            while spent <= budget and step < explore:
                if random:
                    toss = (toss + weyl_step) & _MASK
                    word_of(own_words, 0, 1, toss)
                pull(numbers, first, stride, outcomes, words, weyl, law, arm, mine, constants)
                weyl = (weyl + law_step) & _MASK
                spent += outcomes[0]
                step = uint32(step + step_one)
                arm = int32(arm + int32(1))
                arm = int32(0) if arm == count else arm
            now = now_at(clocks, wide, min(step, last))
            while True:
                if not done and (spent > budget or step >= last):
                    keep(numbers, first, lane, count, spent, state)
                    done, mine = True, int32(-1)  # it stops learning
                if everywhere(done):
                    break
                if random:
                    toss = (toss + weyl_step) & _MASK
                    uniform = number(coin(word_of(own_words, 0, 1, toss)))
                arm = decide(numbers, first, lane, state, now, uniform, constants, count)
                step = min(uint32(step + step_one), last)
                now = now_at(clocks, wide, step)  # the next step's clock, loaded ahead of its use
                pull(numbers, first, stride, outcomes, words, weyl, law, arm, mine, constants)
                weyl = (weyl + law_step) & _MASK
                spent += outcomes[0]
                settle(state, 0, 1, drain, 0, outcomes, 0, 1, one, penalties, constants)
            if run < runs:
                report(numbers, first, lane, run, runs, count, counts, ends)

        return part(play)

    def _pull(self) -> Any:
        """Draw the outcomes of an arm's pull; the arm's thread learns from them."""
        spec, target, channels = self.spec, self.target, 2 + self.spec.penalties
        draw = target.draw_bits(32 - spec.bits, below=True) if spec.bits else target.draw_cells()
        learn, one, owner_bits = device_learn(target), spec.dtype(1), np.int32(self.shape.group - 1)

        def pull(numbers, first, stride, outcomes, words, weyl, law, arm, mine, constants):
            draw(outcomes, 0, 1, words, 0, 1, weyl, law, arm, arm * channels, one, channels)
            if int32(arm & owner_bits) == mine:
                at = uint64(first) + uint64(arm)
                learn(
                    numbers, at, stride, numbers, at, stride, arm, outcomes, 0, 1, one, constants,
                    constants,
                )  # fmt: skip

        return self.part(pull)

    def _fill(self) -> Any:
        """Initialise the thread's own arms."""
        place, number, group = self.place, self.number, self.shape.group
        terms, rows = self.layout.term_rows, self.layout.term_rows + self.spec.book_rows

        def fill(numbers, first, lane, start, count):
            for arm in range(lane, count, group):
                at = uint64(first) + uint64(arm)
                for row in range(terms):
                    numbers[place(at, uint64(count), row)] = start[arm * terms + row]
                for row in range(terms, rows):
                    numbers[place(at, uint64(count), row)] = number(0)

        return self.part(fill)

    def _decide(self) -> Any:
        """The arm with the smallest index, lowest number on ties; every thread gets the result.

        Only the last round can read beyond the last arm; it ignores those values.
        """
        number, infinity, smallest = self.number, self.spec.dtype(np.inf), self._smallest()
        index, group, at_once = self.target.index(), self.shape.group, self.shape.at_once
        stride, penalties, below = at_once * group, self.spec.penalties, self._below()

        def look(values, numbers, first, arm, state, now, uniform, constants, count):
            for more in range(at_once):
                own = int32(arm + int32(more * group))
                at = uint64(first) + uint64(own)
                values[more] = index(
                    numbers, at, uint64(count), state, 0, 1, constants, now, uniform, number(own),
                    penalties,
                )  # fmt: skip

        look_at = self.part(look)

        def decide(numbers, first, lane, state, now, uniform, constants, count):
            values = cuda.local.array(at_once, number)
            best, chosen, arm = infinity, int32(0), lane
            rounds = (count + int32(stride - 1)) // int32(stride)
            for _ in range(int32(1), rounds):
                look_at(values, numbers, first, arm, state, now, uniform, constants, count)
                for more in range(at_once):
                    if below(values[more], best):
                        best, chosen = values[more], int32(arm + int32(more * group))
                arm = int32(arm + int32(stride))
            look_at(values, numbers, first, arm, state, now, uniform, constants, count)
            for more in range(at_once):
                own = int32(arm + int32(more * group))
                if below(values[more], best) & (own < count):
                    best, chosen = values[more], own
            best, chosen = smallest(best, chosen)
            if best != best:
                state[0] = best  # the queue is nan from now on
            return chosen

        return self.part(decide)

    def _below(self) -> Any:
        """Whether a number is smaller; a nan of a user's own policy counts as the smallest."""
        outside = is_outside(self.spec.policy)

        def below(value, best):
            return (value < best) | (outside & (value != value))

        return self.part(below)

    def _smallest(self) -> Any:
        """The smallest of the group's numbers and its arm, the lowest arm on ties."""
        turns, below = self.shape.group.bit_length() - 1, self._below()

        def smallest(best, chosen):
            for turn in range(turns):
                other = cuda.shfl_xor_sync(WARP, best, 1 << turn)
                arm = cuda.shfl_xor_sync(WARP, chosen, 1 << turn)
                nearer = below(other, best) | ((other == best) & (arm < chosen))
                best = other if nearer else best
                chosen = arm if nearer else chosen
            return best, chosen

        return self.part(smallest)

    def _everywhere(self) -> Any:
        """Whether ``done`` holds for all threads of the warp; in the simulator, for this thread."""

        def everywhere(done):
            return cuda.all_sync(WARP, done)

        def here(done):
            return done

        return self.part(here if config.ENABLE_CUDASIM else everywhere)

    def _keep(self) -> Any:
        """Store a run's final cost, queues and largest queues after its arms."""
        penalties, wide = self.spec.penalties, np.uint64(self.layout.wide)
        pieces = np.uint64(self.layout.pieces)

        def keep(numbers, first, lane, count, spent, state):
            at = (uint64(first) + pieces * uint64(count)) * wide
            if lane == 0:
                numbers[at] = spent
                for m in range(penalties):
                    numbers[at + uint64(1 + m)] = state[m]
                    numbers[at + uint64(1 + penalties + m)] = state[2 * penalties + m]

        return self.part(keep)

    def _report(self) -> Any:
        """Write the results: arms by their threads, the rest by the group's first thread.

        The rows of ``ends`` are cost, totals, queues, the largest queues.
        """
        place, number, group, meet = self.place, self.number, self.shape.group, self._meet()
        terms, penalties, channels = (
            self.layout.term_rows,
            self.spec.penalties,
            1 + self.spec.penalties,
        )
        wide, pieces = np.uint64(self.layout.wide), np.uint64(self.layout.pieces)

        def report(numbers, first, lane, run, runs, count, counts, ends):
            stride = uint64(count)
            for arm in range(lane, count, group):
                at = uint64(first) + uint64(arm)
                counts[2 * run * count + arm] = numbers[place(at, stride, terms)]
                counts[(2 * run + 1) * count + arm] = numbers[place(at, stride, terms + 1)]
            meet()
            if lane == 0:
                for channel in range(channels):
                    total = number(0)
                    for arm in range(count):
                        at = uint64(first) + uint64(arm)
                        total += numbers[place(at, stride, terms + 2 + channel)]
                    ends[(1 + channel) * runs + run] = total
                at = (uint64(first) + pieces * stride) * wide
                ends[run] = numbers[at]
                for m in range(2 * penalties):
                    ends[(1 + channels + m) * runs + run] = numbers[at + uint64(1 + m)]

        return self.part(report)

    def _meet(self) -> Any:
        """Synchronise the group's threads and memory; in the simulator a group is one thread."""
        group, lanes = self.shape.group, 2**self.shape.group - 1

        def meet():
            cuda.syncwarp(uint32(lanes) << uint32(cuda.threadIdx.x & 31 & -group))

        def nothing():
            pass

        return self.part(nothing if config.ENABLE_CUDASIM else meet)
