"""One step of a run, written once: next word, draw, index, learn, settle.

Every function works on flat arrays, given as (array, offset, stride): row r is at
``offset + r * stride``. The stride is 1 for one run at a time and L for SIMD lanes or a GPU's tile;
a GPU thread passes arrays of its own. An engine is a loop around these functions.

They are compiled for a :class:`Target`: a compiler, a policy, a precision and a number of
penalties. Letters: K arms, M penalties (at least 1 for index policies: a problem without limits
gets one that is always 0), C = 2 + M channels (cost, reward, penalties).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import int32, types, uint32, uint64

from tightrope.kernels.rng import WEYL
from tightrope.policies.base import advance, net_penalty, net_sum, net_width

_MASK = 0xFFFFFFFF


def next_word(words: Any, at: Any, stride: Any, weyl: Any) -> Any:
    """The next 32 bits of a generator; ``weyl`` is WEYL times the number of words drawn before.

    The last sum is computed in 64 bits and truncated, because numpy, in the CUDA simulator, would
    warn of an overflow; compilers reduce it to 32 bits.
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
    """A number in [0, 1), a multiple of 2^-31, for drawing an outcome."""
    return float(int32(word >> uint32(1))) * 2.0**-31


def coin_of(word: Any) -> Any:
    """A number in [0, 1), a multiple of 2^-24, exact in single precision: for policies."""
    return int32(word >> uint32(8)) * 2.0**-24


def packed(count: Any, offset: Any, source: Any, *cells: Any) -> tuple[npt.NDArray[Any], ...]:
    """The cells of each phase, arm and channel: how many, where, by which uniform [J * K * C].

    Then the cells, four numbers each (``split``, ``first``, ``second``, ``slope``), so that a draw
    from a large table reads one place of it.
    """
    return count.ravel(), 4 * offset.ravel(), source.ravel(), np.stack(cells, axis=1).ravel()


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


def of_run(known, m):
    """The base of limit m, and the limit, from a run's record."""
    return known.bases[m], known.limits[m]


def of_constants(bases: tuple[float, ...], number: Any) -> Any:
    """Same as ``of_run``, from a policy's constants, which end with the limits [M].

    ``bases`` [M]: the bases of the limits; None if all are per unit of cost.
    """
    kind = getattr(np, str(number)) if isinstance(number, types.Type) else number
    own, penalties = tuple(kind(base) for base in bases), len(bases)

    def net(known, m):
        return own[m], known[len(known) - penalties + m]

    return net if bases else None


@dataclass(frozen=True)
class Target:
    """The machine, policy and precision for which step functions are compiled.

    ``part`` compiles a function (given a number type, its float literals get that type);
    ``number`` converts to the precision; ``choice(condition, yes, no)`` selects one of two numbers,
    ``larger(new, old)`` the larger one. ``add``, ``put`` and ``threshold`` access the rows of the
    arm just pulled: directly by default, or by selection if K is a compile-time constant.
    ``place(at, stride, row)`` is the place of a row of an arm's terms, by default
    ``at + row * stride``. ``net(known, m)`` returns the base of limit m and the limit: see
    ``of_run`` and ``of_constants``; None if all limits are per unit of cost. ``penalties``: 0 if
    their number is read at run time.

    The functions have many parameters because every array comes with an offset and a stride, so
    that lanes, single runs and GPU threads can share them.
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
    net: Any = None

    @property
    def channels(self) -> int:
        """The number of channels: cost, reward and penalties."""
        return 2 + self.penalties

    def draw_bits(self, shift: int = 1, below: bool = False, row_stride: int = 1) -> Any:
        """Draw zero-one outcomes by comparing words with thresholds from the arm's row of ``law``.

        ``running`` is the value of an outcome of 1: 0 in a lane whose run is done. The outcome is 1
        if the shifted word is at most the threshold or, with ``below``, less than it (unsigned).
        """
        zero, choice = self.number(0), self.choice or self.part(_plain_choice)
        word_of, threshold = self.part(next_word), self.part(self.threshold or _direct_threshold)
        shift, weyl_step = uint32(shift), WEYL
        hit = self.part(_is_below if below else _is_at_most)

        def draw(
            outcomes, to, stride, words, at, word_stride, weyl, law, arm, row, running, channels
        ):
            for channel in range(channels):
                word = word_of(words, at, word_stride, weyl + (channel + 1) * weyl_step)
                limit = threshold(law, arm, row + channel * row_stride)
                outcomes[to + channel * stride] = choice(hit(word >> shift, limit), running, zero)

        return self.part(draw)

    def draw_cells(self) -> Any:
        """Draw outcomes of any distribution from the arm's cells; every channel takes one word."""
        number, weyl_step = self.number, WEYL
        word_of, uniform = self.part(next_word), self.part(uniform_of)

        def draw(
            outcomes, to, stride, words, at, word_stride, weyl, law, arm, row, running, channels
        ):
            count, offset, source, cells = law
            shared, earned = 0.0, 0.0
            for channel in range(channels):
                word = word_of(words, at, word_stride, weyl + (channel + 1) * weyl_step)
                own = uniform(word)
                if channel == 0:
                    shared = own
                if channel == 1:
                    earned = own
                drawn = source[row + channel]
                place = shared if drawn == 0 else earned if drawn == 1 else own
                place *= count[row + channel]
                cell = int(place)
                part = place - cell
                here = offset[row + channel] + 4 * cell  # split, first, second, slope
                value = cells[here + 1] if part < cells[here] else cells[here + 2]
                value = value + cells[here + 3] * (part - 0.5)
                outcomes[to + channel * stride] = number(value) * running

        return self.part(draw)

    def index(self) -> Any:
        """The index of an arm, from its terms and the queues."""
        number = self.number
        reward_index = self.part(self.policy.reward_index, number)
        penalty_index = self.part(self.policy.penalty_index, number)
        place = self.part(self.place or _in_line)

        def index(
            terms, at, stride, queue, queue_at, queue_stride, constants, now, uniform, arm,
            penalties,
        ):  # fmt: skip
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
        """Add a pull's outcomes to the arm's totals, and update its terms.

        Rows of the totals: pulls, cost, reward, penalties; of the terms: level and width of the
        reward and of each penalty. ``one`` is added to the pulls: 0 in a lane that is done.
        """
        number, channels, learns = self.number, self.channels, self.policy.learns
        add, put = self.part(self.add or _direct_add), self.part(self.put or _direct_put)
        renew = self.renew()

        def learn(
            totals, at, stride, terms, term_at, term_stride, arm, outcomes, to, out_stride, one,
            constants, known,
        ):  # fmt: skip
            pulls = add(totals, at, stride, 0, one, arm)
            cost = add(totals, at, stride, 1, outcomes[to], arm)
            earned = cost
            for channel in range(1, channels):
                more = outcomes[to + channel * out_stride]
                total = add(totals, at, stride, 1 + channel, more, arm)
                if channel == 1:
                    earned = total
                if learns:
                    level, width = renew(constants, pulls, cost, earned, total, channel, known)
                    put(terms, term_at, term_stride, 2 * channel - 2, number(level), arm)
                    put(terms, term_at, term_stride, 2 * channel - 1, number(width), arm)

        return self.part(learn)

    def renew(self) -> Any:
        """The level and width of an arm's channel: 1 is the reward, 2 + m is penalty m."""
        reward_terms = self.part(self.policy.reward_terms, self.number)
        penalty_terms = self.part(self.policy.penalty_terms, self.number)
        net_of, any_net = self.net and self.part(self.net), self.net is not None
        net_total = self.part(net_sum, self.number)
        widened = self.part(net_width, self.number)

        def renew(constants, pulls, cost, earned, total, channel, known):
            if channel == 1:
                level, width = reward_terms(constants, pulls, cost, total)
            elif any_net:
                base, limit = net_of(known, channel - 2)
                net = net_total(base, limit, pulls, earned, total)
                level, width = penalty_terms(constants, pulls, cost, net)
                width = width * widened(base, limit)
            else:
                level, width = penalty_terms(constants, pulls, cost, total)
            return level, width

        return self.part(renew)

    def settle(self) -> Any:
        """Advance the queues by a pull's cost and net penalties.

        Rows: the queues, their rounding errors, their largest values so far. ``one`` is the pull: 0
        in a lane that is done. ``known`` is the argument of the target's ``net``.
        """
        move, limit_of = self.part(advance, self.number), self.net and self.part(self.net)
        larger, net_of = self.part(self.larger or _larger), self.part(net_penalty, self.number)
        any_net = self.net is not None

        def settle(
            run, at, stride, drain, drain_at, outcomes, to, out_stride, one, penalties, known
        ):
            cost = outcomes[to]
            for m in range(penalties):
                place = at + m * stride
                lost, peak = place + penalties * stride, place + 2 * penalties * stride
                penalty = outcomes[to + (2 + m) * out_stride]
                if any_net:
                    base, limit = limit_of(known, m)
                    penalty = net_of(base, limit, one, cost, outcomes[to + out_stride], penalty)
                length, left = move(run[place], run[lost], drain[drain_at + m], cost, penalty)
                run[place], run[lost] = length, left
                run[peak] = larger(length, run[peak])

        return self.part(settle)
