"""One step of a run, written once: next word, draw, index, learn, settle.

Every function works on places in flat arrays, given as (array, offset, stride): row r of something
is at ``offset + r * stride``. Stride 1 is one run at a time, stride L the SIMD lanes or a GPU's
tile, and a thread of a GPU passes arrays of its own. An engine is a loop around these functions.

They are made for a :class:`Target`: what compiles them, for which policy, precision and number of
penalties. Letters: K arms, M penalties (at least 1 for index policies: a problem without a limit
gets an idle one), C = 2 + M channels (cost, reward, penalties).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numba import int32, uint32, uint64

from tightrope.kernels.rng import WEYL
from tightrope.policies.base import advance

__all__ = ["Target", "coin_of", "next_word", "uniform_of"]

_MASK = 0xFFFFFFFF


def next_word(words: Any, at: Any, stride: Any, weyl: Any) -> Any:
    """The generator's next 32 bits, of a state of four words; ``weyl`` is WEYL times those drawn.

    The last sum is taken in 64 bits and cut, which compilers do in 32: the CUDA simulator, which is
    numpy, would warn of an overflow.
    """
    oldest, newest = words[at], words[at + 3 * stride]
    mixed = uint32(oldest ^ uint32(oldest << uint32(11)))
    word = uint32(newest ^ uint32(newest >> uint32(19)) ^ mixed ^ uint32(mixed >> uint32(8)))
    words[at] = words[at + stride]
    words[at + stride] = words[at + 2 * stride]
    words[at + 2 * stride] = newest
    words[at + 3 * stride] = word
    return uint32((uint64(word) + uint64(weyl)) & uint64(_MASK))


def uniform_of(word: Any) -> Any:
    """A number in [0, 1), a multiple of 2^-31: what an outcome is drawn from."""
    return float(int32(word >> uint32(1))) * 2.0**-31


def coin_of(word: Any) -> Any:
    """A number in [0, 1), a multiple of 2^-24, exact in single precision: for policies."""
    return int32(word >> uint32(8)) * 2.0**-24


def _plain_choice(condition, yes, no):
    return yes if condition else no


def _larger(new, old):
    return new if new > old else old


def _direct_add(rows, at, stride, row, more, arm):
    total = rows[at + row * stride] + more
    rows[at + row * stride] = total
    return total


def _direct_put(rows, at, stride, row, value, arm):
    rows[at + row * stride] = value


def _in_line(at, stride, row):
    return at + row * stride


def _is_below(word, limit):
    return uint32(word) < limit


def _is_at_most(word, limit):
    return int32(word) <= limit


def _direct_threshold(law, arm, row):
    return law[row]


@dataclass(frozen=True)
class Target:
    """What step functions are made for.

    ``part`` compiles a function (given a number type, its float constants become that type);
    ``number`` makes numbers of the precision; ``choice(condition, yes, no)`` is how the machine
    picks one of two numbers, ``larger(new, old)`` how it picks the larger one. ``add``, ``put`` and
    ``threshold`` reach the rows of the arm just pulled: in their place by default, or by selection
    where K is a constant of the kernel. ``place(at, stride, row)`` is where a row of an arm's terms
    is, if not at ``at + row * stride``.

    The functions have many parameters because every array comes with a place and a stride: that is
    what lets lanes, runs and threads share them.
    """

    policy: Any
    penalties: int
    number: Any
    part: Callable[..., Any]
    choice: Any = None
    larger: Any = None
    add: Any = None
    put: Any = None
    threshold: Any = None
    place: Any = None

    @property
    def channels(self) -> int:
        """The cost, the reward and the penalties."""
        return 2 + self.penalties

    def draw_bits(self, shift: int = 1, below: bool = False, row_stride: int = 1) -> Any:
        """Outcomes of 0 or 1: a word against a threshold of the arm's row of the law.

        ``running`` is what an outcome of 1 is: 0 for a lane whose run is done. A hit is a word,
        shifted, at or below its threshold, or ``below`` it (an unsigned comparison).
        """
        channels, zero, choice = (
            self.channels,
            self.number(0),
            self.choice or self.part(_plain_choice),
        )
        word_of, threshold = self.part(next_word), self.part(self.threshold or _direct_threshold)
        shift, weyl_step = uint32(shift), WEYL
        hit = self.part(_is_below if below else _is_at_most)

        def draw(outcomes, to, stride, words, at, word_stride, weyl, law, arm, row, running):
            for channel in range(channels):
                word = word_of(words, at, word_stride, weyl + (channel + 1) * weyl_step)
                limit = threshold(law, arm, row + channel * row_stride)
                outcomes[to + channel * stride] = choice(hit(word >> shift, limit), running, zero)

        return self.part(draw)

    def draw_cells(self) -> Any:
        """Any outcome, from the cells of an arm's row: one word per channel, used or not."""
        channels, number, weyl_step = self.channels, self.number, WEYL
        word_of, uniform = self.part(next_word), self.part(uniform_of)

        def draw(outcomes, to, stride, words, at, word_stride, weyl, law, arm, row, running):
            count, offset, source, split, first, second, slope = law
            shared = 0.0
            for channel in range(channels):
                word = word_of(words, at, word_stride, weyl + (channel + 1) * weyl_step)
                own = uniform(word)
                if channel == 0:
                    shared = own
                place = (shared if source[row + channel] == 0 else own) * count[row + channel]
                cell = int(place)
                part = place - cell
                here = offset[row + channel] + cell
                value = first[here] if part < split[here] else second[here]
                value = value + slope[here] * (part - 0.5)
                outcomes[to + channel * stride] = number(value) * running

        return self.part(draw)

    def index(self) -> Any:
        """The index of an arm, from its terms and the queues."""
        number, penalties = self.number, self.penalties
        reward_index = self.part(self.policy.reward_index, number)
        penalty_index = self.part(self.policy.penalty_index, number)
        place = self.part(self.place or _in_line)

        def index(terms, at, stride, queue, queue_at, queue_stride, constants, now, uniform, arm):
            level, width = terms[place(at, stride, 0)], terms[place(at, stride, 1)]
            value = number(reward_index(constants, now, uniform, arm, level, width))
            for m in range(penalties):
                level = terms[place(at, stride, 2 + 2 * m)]
                width = terms[place(at, stride, 3 + 2 * m)]
                part = penalty_index(constants, now, level, width)
                value = number(value + queue[queue_at + m * queue_stride] * number(part))
            return value

        return self.part(index)

    def learn(self) -> Any:
        """Add a pull's outcomes to the arm's totals, and renew its terms.

        Rows of the totals: pulls, cost, reward, penalties; of the terms: level and width of the
        reward and of each penalty. ``one`` is what a pull counts: 0 for a lane that is done.
        """
        number, channels, learns = self.number, self.channels, self.policy.learns
        add, put = self.part(self.add or _direct_add), self.part(self.put or _direct_put)
        renew = self.renew()

        def learn(
            totals, at, stride, terms, term_at, term_stride, arm, outcomes, to, out_stride, one,
            constants,
        ):  # fmt: skip
            pulls = add(totals, at, stride, 0, one, arm)
            cost = add(totals, at, stride, 1, outcomes[to], arm)
            for channel in range(1, channels):
                more = outcomes[to + channel * out_stride]
                total = add(totals, at, stride, 1 + channel, more, arm)
                if learns:
                    level, width = renew(constants, pulls, cost, total, channel)
                    put(terms, term_at, term_stride, 2 * channel - 2, number(level), arm)
                    put(terms, term_at, term_stride, 2 * channel - 1, number(width), arm)

        return self.part(learn)

    def renew(self) -> Any:
        """The level and width of a channel of an arm: 1 the reward, 2 and on the penalties."""
        reward_terms = self.part(self.policy.reward_terms, self.number)
        penalty_terms = self.part(self.policy.penalty_terms, self.number)

        def renew(constants, pulls, cost, total, channel):
            if channel == 1:
                level, width = reward_terms(constants, pulls, cost, total)
            else:
                level, width = penalty_terms(constants, pulls, cost, total)
            return level, width

        return self.part(renew)

    def settle(self) -> Any:
        """Move the queues by a pull's cost and penalties.

        Rows: the queues, what their rounding lost, the largest they were.
        """
        penalties, move = self.penalties, self.part(advance, self.number)
        larger = self.part(self.larger or _larger)

        def settle(run, at, stride, drain, drain_at, outcomes, to, out_stride):
            cost = outcomes[to]
            for m in range(penalties):
                place = at + m * stride
                lost, peak = place + penalties * stride, place + 2 * penalties * stride
                penalty = outcomes[to + (2 + m) * out_stride]
                length, left = move(run[place], run[lost], drain[drain_at + m], cost, penalty)
                run[place], run[lost] = length, left
                run[peak] = larger(length, run[peak])

        return self.part(settle)
