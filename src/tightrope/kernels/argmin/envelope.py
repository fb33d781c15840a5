"""For known terms and one queue: find the smallest index on a lower envelope of lines.

Without learning, an arm's index is a line over the queue Q: ``reward part + Q * penalty part``. The
smallest index is a lower envelope, made of segments of Q; a decision is a binary search for Q.

To be exact in floating point, every line gets a lower and an upper companion, as far from it as
rounding can move the computed index. An arm can have the smallest computed index only where its
lower line is below the envelope of all upper lines; that is an interval of Q, because a line minus
a lower envelope is convex. The ends of all intervals cut Q into segments with a few candidates
each, whose computed indices are compared. In a segment with too many candidates (lines through one
point), all arms are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tightrope.compiled import compile_kernel
from tightrope.kernels.argmin.index import by_scan
from tightrope.kernels.run_state import Field, first_terms, view
from tightrope.kernels.spec import Spec
from tightrope.policies.base import Setup

__all__ = ["Envelope", "by_envelope", "envelope_of", "make_envelope"]

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
ROUNDINGS = 16.0  # rounding steps allowed for: 2 for an index, the rest for the intervals
MOST = 16  # candidates per segment


class Envelope(NamedTuple):
    """Segment s is from ``edges[s - 1]`` to ``edges[s]``; its candidates are
    ``candidates[first[s] : first[s + 1]]``, or all arms if that is nothing.
    """

    edges: Floats  # [S], increasing
    first: npt.NDArray[np.int32]  # [S + 2]
    candidates: npt.NDArray[np.int32]
    lines: npt.NDArray[Any]  # [2, K] the reward part and the penalty part of every arm


def make_envelope(lines: npt.NDArray[Any]) -> Envelope:
    """The envelope of ``lines[0] + Q * lines[1]`` for Q of at least 0, in their precision."""
    if not np.isfinite(lines).all():
        return Envelope(np.zeros(0), np.zeros(2, np.int32), np.zeros(0, np.int32), lines)
    rewards, penalties = lines
    slack = ROUNDINGS * float(np.finfo(rewards.dtype).eps) / 2.0
    arms = _distinct(rewards, penalties)
    height, slope = rewards[arms].astype(np.float64), penalties[arms].astype(np.float64)
    more, steeper = slack * np.abs(height), slack * np.abs(slope)
    upper = _Hull(height + more, slope + steeper)
    low, high, inside = upper.intervals_below(height - more, slope - steeper)
    return Envelope(*_segments(arms[inside], low[inside], high[inside]), lines)


def _distinct(rewards: npt.NDArray[Any], penalties: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """For every distinct line, the lowest number of its arms."""
    order = np.lexsort((rewards, penalties))  # stable: arms in order where both are equal
    reward, penalty = rewards[order], penalties[order]
    new = (np.diff(reward) != 0) | (np.diff(penalty) != 0)
    return np.asarray(order[np.concatenate([[True], new])])


class _Hull:
    """The lower envelope of lines for Q of at least 0.

    Piece i is from ``start[i]`` on; slopes fall, heights at 0 rise.
    """

    def __init__(self, height: Floats, slope: Floats) -> None:
        order = np.lexsort((slope, height))
        slopes = slope[order]
        lowest = np.minimum.accumulate(slopes)
        new = np.concatenate([[True], slopes[1:] < lowest[:-1]])  # others are nowhere lowest
        heights, slopes = height[order][new].tolist(), slopes[new].tolist()
        kept: list[tuple[float, float, float]] = []
        for a, b in zip(heights, slopes, strict=True):
            start = 0.0
            while kept:
                last_start, last_a, last_b = kept[-1]
                start = (a - last_a) / (last_b - b)
                if start > last_start:
                    break
                kept.pop()
            kept.append((start if kept else 0.0, a, b))
        self.start, self.height, self.slope = np.array(kept).T

    def intervals_below(
        self, height: Floats, slope: Floats
    ) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
        """The interval in which each line is at or below the envelope, and whether there is one.

        Line minus envelope falls up to the start of piece ``turn``, the first that is no steeper
        than the line, and rises from there on; if there is no such piece, it never rises.
        """
        last = len(self.start) - 1
        turn = np.searchsorted(-self.slope, -slope, side="left")
        middle = np.minimum(turn, last)

        def above(piece: Places) -> npt.NDArray[np.bool_]:
            gap = (height - self.height[piece]) + self.start[piece] * (slope - self.slope[piece])
            return np.asarray(gap > 0.0)

        def meets(piece: Places) -> Floats:
            with np.errstate(divide="ignore", invalid="ignore"):
                q = (height - self.height[piece]) / (self.slope[piece] - slope)
            ends = np.append(self.start, np.inf)
            return np.asarray(np.clip(q, ends[piece], ends[piece + 1]))

        falls = turn > last
        below_at = _first(np.zeros_like(turn), middle, lambda i: ~above(i))
        late = falls & above(middle)  # such a line meets the envelope only in the last piece
        low = np.where(below_at == 0, 0.0, meets(np.maximum(below_at - 1, 0)))
        low = np.where(late, meets(middle), low)
        above_at = _first(middle, np.full_like(turn, last + 1), above)
        piece = np.maximum(above_at - 1, 0)
        for_ever = falls | ((above_at > last) & (slope <= self.slope[last]))
        high = np.where(for_ever, np.inf, meets(piece))
        return low, np.nextafter(high, np.inf), falls | ~above(middle)


def _first(low: Places, high: Places, test: Callable[[Places], npt.NDArray[np.bool_]]) -> Places:
    """The first i in [low, high) for which the test, false and then true, holds; else ``high``."""
    while (low < high).any():
        middle = (low + high) // 2
        open_, holds = low < high, test(np.minimum(middle, np.maximum(high - 1, 0)))
        high = np.where(open_ & holds, middle, high)
        low = np.where(open_ & ~holds, middle + 1, low)
    return low


def _segments(
    arms: Places, low: Floats, high: Floats
) -> tuple[Floats, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Cut Q at all ends of the arms' intervals: edges, first candidates, candidates."""
    edges = np.unique(np.concatenate([low[low > 0.0], high[np.isfinite(high)]]))
    start = np.where(low > 0.0, np.searchsorted(edges, low, side="right"), 0)
    end = np.where(np.isfinite(high), np.searchsorted(edges, high, side="right"), len(edges) + 1)
    size = len(edges) + 1
    changes = np.bincount(start, minlength=size + 1) - np.bincount(end, minlength=size + 1)
    crowd = np.cumsum(changes)[:size]
    few = crowd <= MOST
    place = np.concatenate([[0], np.cumsum(few)])  # a segment's rank among those with few
    lengths = place[end] - place[start]
    total = int(lengths.sum())
    segment = np.repeat(place[start] - np.cumsum(lengths) + lengths, lengths) + np.arange(total)
    order = np.argsort(segment, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.where(few, crowd, 0))])
    candidates = np.repeat(arms, lengths)[order]
    return edges, first.astype(np.int32), candidates.astype(np.int32)


@cache
def _liner(spec: Spec) -> Any:
    """A kernel that writes every arm's reward part and penalty part into ``lines``."""
    number, clock = spec.dtype, spec.formula(spec.policy.clock)
    reward_index = spec.formula(spec.policy.reward_index, number)
    penalty_index = spec.formula(spec.policy.penalty_index, number)

    def lines(terms, wide, constants, out):
        now, uniform = number(clock(wide, 1.0)), number(0)
        for arm in range(terms.shape[0]):
            level, width = terms[arm, 0], terms[arm, 1]
            out[0, arm] = reward_index(constants, now, uniform, number(arm), level, width)
            out[1, arm] = penalty_index(constants, now, terms[arm, 2], terms[arm, 3])

    return compile_kernel(lines)


def envelope_of(spec: Spec, setup: Setup) -> Envelope:
    """The envelope for known terms."""
    number = spec.dtype
    known = first_terms(spec.policy, spec.penalties, number, setup)
    terms: Any = np.zeros((len(known), 4), number)
    terms[:, : known.shape[1]] = known
    wide = (*map(float, setup.constants), 0.0)
    lines: Any = np.zeros((2, len(terms)), number)
    _liner(spec)(terms, wide, tuple(number(value) for value in wide), lines)
    return make_envelope(lines)


@cache
def by_envelope(spec: Spec) -> Any:
    """Decide by the envelope."""
    number, scan = spec.dtype, by_scan(spec)
    lines_of, edges_of, first_of, candidates_of, run_of = (
        view(spec, field)
        for field in (Field.LINES, Field.EDGES, Field.FIRST, Field.CANDIDATES, Field.RUN)
    )

    def decide(address, step, uniform):
        edges, first, candidates = edges_of(address), first_of(address), candidates_of(address)
        lines, queue = lines_of(address), run_of(address)[0]
        low, high = 0, len(edges)
        while low < high:
            middle = (low + high) // 2
            if queue < edges[middle]:
                high = middle
            else:
                low = middle + 1
        if first[low] == first[low + 1]:
            return scan(address, step, uniform)
        chosen = np.int64(candidates[first[low]])
        best = number(lines[0, chosen] + queue * lines[1, chosen])
        for at in range(first[low] + 1, first[low + 1]):
            arm = np.int64(candidates[at])
            value = number(lines[0, arm] + queue * lines[1, arm])
            if value < best or (value == best and arm < chosen):
                best, chosen = value, arm
        return chosen

    return spec.part(decide)
