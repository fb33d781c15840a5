"""The features of requests outside of a campaign's log, so that they can be erased; their means.

An event has the features of its request as text. If they are erasable, it has a digest of them
instead, and the store keeps the features in a table of its own, by the number of the event. Each
digest has a salt of 16 random bytes, which lies beside the features and is erased with them.
Without a salt the features could be found again: there are few vectors of flags and small numbers,
and everybody can compute the digest of each. Two equal vectors have different digests.
"""

from __future__ import annotations

import math
import os
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from tightrope.errors import HaltedError

MANY = 1000  # vectors that are read at once
BLOCK = 500  # requests: drift is looked for in the last one or two blocks
FIRST = 1000  # requests that later ones are compared with
DRIFT_DOUBT = 1e-4  # of a false alarm, over all features, whenever a block is over
LEAST_DRIFT = 0.2  # deviations


class ErasedError(HaltedError):
    """The features of a request were erased."""


class Vectors:
    """The features of requests of an erasable campaign, as far as they are used here."""

    def __init__(self) -> None:
        self.kept = False  # whether the store has them
        self.find: Callable[[int, int], Mapping[int, str]] = lambda first, last: {}  # in the store
        self.fresh: dict[int, str] = {}  # of this turn, which the store does not have yet
        self._known: dict[int, str] = {}

    def sealed(self, seq: int, text: str) -> str:
        """What event ``seq`` has instead of features; ``fresh`` has what the store keeps."""
        salt = _encoded(os.urandom(16))
        self.fresh[seq] = stored = f"{salt} {text}"
        return f"{seq}:{digest_of_features(stored)}"

    def committed(self) -> None:
        """The store has the fresh ones."""
        self._know(self.fresh)
        self.fresh = {}

    def text(self, features: str) -> str:
        """The features that an event has, or that its digest is of."""
        if ":" not in features:
            return features
        seq, digest = request_of(features)
        stored = self.fresh.get(seq) or self._known.get(seq)
        if stored is None:
            self._know(found := self.find(seq, seq + MANY - 1))
            stored = found.get(seq)
        if stored is None:
            raise ErasedError(f"event {seq}: the features of its request were erased")
        if digest_of_features(stored) != digest:
            raise HaltedError(f"event {seq}: its features do not agree with their digest")
        return stored.partition(" ")[2]

    def _know(self, found: Mapping[int, str]) -> None:
        if len(self._known) > 4 * MANY:
            self._known.clear()
        self._known.update(found)

    def forget(self) -> None:
        """Read them again from the store when they are needed; any thread may call this."""
        self._known.clear()


def digest_of_features(stored: str) -> str:
    """The digest of features with their salt."""
    salt, _, text = stored.partition(" ")
    return _encoded(blake2b(text.encode(), key=a2b_base64(salt), digest_size=16).digest())


def request_of(features: str) -> tuple[int, str]:
    """The number of the event of a request, and the digest of its features."""
    seq, _, digest = features.partition(":")
    return int(seq), digest


def _encoded(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()


class FeatureMeans:
    """Means of the features of the first and of the last requests."""

    def __init__(self, size: int) -> None:
        # Of the first requests, the last whole block, and those after it: how many; sums and sums
        # of squares of the features [size].
        self.counts = [0, 0, 0]
        self.sums = np.zeros((3, 2, size))
        self._one = np.zeros((2, size))  # workspace

    def add(self, vector: Any) -> None:
        """Count a request."""
        place = 0 if self.counts[0] < FIRST else 2
        self.counts[place] += 1
        one, into = self._one, self.sums[place]
        one[0] = vector
        np.multiply(one[0], one[0], one[1])
        np.add(into, one, into)
        if self.counts[2] >= BLOCK:
            self.counts[1:] = self.counts[2], 0
            self.sums[1], self.sums[2] = self.sums[2], 0.0

    def drift(self) -> list[tuple[float, float, float, bool]]:
        """Of each feature: its mean at first and last, the difference in deviations, an alarm.

        The deviation is that of the first requests. An alarm needs a difference of at least
        ``LEAST_DRIFT`` deviations that a test at ``DRIFT_DOUBT`` confirms, for all features
        together (Bonferroni). Empty until there is a block to compare.
        """
        few, many = self.counts[1] + self.counts[2], self.counts[0]
        if few < BLOCK:
            return []
        first, last = self.sums[0] / many, (self.sums[1] + self.sums[2]) / few
        spreads = np.sqrt(np.maximum([one[1] - one[0] ** 2 for one in (first, last)], 0.0))
        return [
            _drift(a, b, float(s), float(t), many, few, len(first[0]))
            for a, b, s, t in zip(first[0].tolist(), last[0].tolist(), *spreads, strict=True)
        ]

    def table(self) -> list[Any]:
        """As plain values, for a snapshot."""
        return [self.counts, self.sums.tolist()]

    @classmethod
    def of_table(cls, table: Sequence[Any]) -> FeatureMeans:
        """The means in a table."""
        counts, sums = table
        made = cls(len(sums[0][0]))
        made.counts, made.sums = list(counts), np.array(sums)
        return made


def _drift(
    first: float, last: float, spread: float, later: float, many: int, few: int, size: int
) -> tuple[float, float, float, bool]:
    """The entry of one feature; a feature that did not vary has drifted if it varies now."""
    away, noise = last - first, math.sqrt(spread**2 / many + later**2 / few)
    if spread <= 1e-9 * abs(first):
        moved = abs(away) > 1e-6 * abs(first)
        return first, last, math.copysign(math.inf, away) if moved else 0.0, moved
    doubt = math.erfc(abs(away) / noise / math.sqrt(2.0))
    alarm = abs(away) >= LEAST_DRIFT * spread and doubt * size < DRIFT_DOUBT
    return first, last, away / spread, alarm
