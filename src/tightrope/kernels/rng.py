"""Random numbers: one small generator per run, seeded from (seed, run), the same bits everywhere.

The generator is Marsaglia's xorshift128 with a Weyl sequence added to its output. A step takes one
word per outcome (cost, reward, penalties) for every arm, so that policies face common random
numbers and results do not depend on threads, splits or order. A policy's own choices use a second
stream. Seeds are hashed by splitmix64, so that neighbouring runs are independent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from tightrope.compiled.functions import OPTIONS, compile_kernel

OUTCOMES, POLICY, LATE = 0, 1, 2  # the streams of a run: outcomes, the policy's, delays
WEYL = 362437  # added to the output for every word drawn
_MASK = 0xFFFFFFFF
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_RUN = np.uint64(0xD1342543DE82EF95)
_LOW = np.uint64(_MASK)


def seed_words(seed: int, stream: int, runs: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """The generators' initial states [4, R] for run numbers [R]; ``seed`` in [0, 2^64)."""
    words: npt.NDArray[np.uint32] = np.empty((4, len(runs)), np.uint32)
    _seed(np.uint64(seed), np.uint64(stream), runs, words)
    return words


def _fill(seed: Any, stream: Any, runs: Any, words: Any) -> None:
    key = _splitmix(_splitmix(seed) + stream)
    for at in range(len(runs)):
        first = _splitmix(key + np.uint64(runs[at]) * _RUN)
        second = _splitmix(first + _GOLDEN)
        words[0, at] = np.uint32(first & _LOW) | np.uint32(1)  # a state of four zeros never changes
        words[1, at] = np.uint32(first >> np.uint64(32))
        words[2, at] = np.uint32(second & _LOW)
        words[3, at] = np.uint32(second >> np.uint64(32))


@njit(forceinline=True, **OPTIONS)  # type: ignore[untyped-decorator]
def _splitmix(x: Any) -> Any:
    z = x + _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


_seed = compile_kernel(_fill)


class Generator:
    """One run's stream in plain Python; it draws the same words as the kernels."""

    def __init__(self, seed: int, stream: int, run: int) -> None:
        self._state = [int(w) for w in seed_words(seed, stream, np.array([run]))[:, 0]]
        self._weyl = 0

    @property
    def state(self) -> tuple[int, ...]:
        """Its four words."""
        return tuple(self._state)

    def word(self) -> int:
        """The next 32 bits."""
        oldest, newest = self._state[0], self._state[3]
        mixed = oldest ^ (oldest << 11 & _MASK)
        self._state = [*self._state[1:], newest ^ newest >> 19 ^ mixed ^ mixed >> 8]
        self._weyl = self._weyl + WEYL & _MASK
        return self._state[3] + self._weyl & _MASK

    def uniform(self) -> float:
        """A number in [0, 1), a multiple of 2^-31, for drawing an outcome."""
        return (self.word() >> 1) * 2.0**-31

    def coin(self) -> float:
        """A number in [0, 1), a multiple of 2^-24 (exact in single precision): for policies."""
        return (self.word() >> 8) * 2.0**-24
