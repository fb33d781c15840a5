"""What is left of a run for one limit, and bounds on how it ends; all normalised.

``docs/promises.md`` has the proofs.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tightrope.policies.parts.guard import price_of

TILTS = np.geomspace(1e-3, 20.0, 60)
UNKNOWN = 1e12  # for an unknown rate


class Remaining(NamedTuple):
    """What remains for one limit, normalised."""

    budget: float  # at the start
    left: float  # of it
    limit: float
    penalty: float  # so far
    base: float = 0.0  # so far, of a limit per pull or per reward
    largest: float = 1.0  # cost of a pull

    def projected(self, penalty: float, base: float) -> float | None:
        """The rate at the end if this penalty and base are still ahead; None if it has no base."""
        return (self.penalty + penalty) / self.budget

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self.left < 0.0

    @property
    def broken(self) -> bool:
        """Whether the limit is broken, by more than rounding."""
        return self.penalty > self.limit * self.budget * (1.0 + 1e-12)

    def chance(self, rate: float) -> float:
        """A bound on the chance of ending above the limit with pulls of at most this rate."""
        if self.over or self.broken:
            return float(self.broken)
        prices = _prices(rate)
        exponents = prices * (self.left + 1.0) + TILTS * (self.penalty - self.limit * self.budget)
        return math.exp(min(float(exponents.min()), 0.0))

    def most(self, rate: float, doubt: float) -> float:
        """An upper bound on the rate at the end with pulls of ``rate``, except for ``doubt``."""
        if self.over:
            return self.penalty / self.budget
        ends = (_prices(rate) * (self.left + 1.0) - math.log(doubt)) / TILTS
        most = (self.penalty + float(ends.min())) / self.budget
        return most if most < UNKNOWN else math.inf

    def least(self, rate: float, doubt: float) -> float:
        """A lower bound on the penalty rate at the end, likewise."""
        gains = np.log1p(-rate * np.expm1(-TILTS)) * max(self.left, 0.0)
        ends = (gains + math.log(doubt)) / TILTS
        more = 0.0 if self.over else max(float(ends.max()), 0.0)
        return (self.penalty + more) / self.budget


class RemainingOpen(Remaining):
    """The same for a limit per pull or per reward, whose total at the end is not known.

    With tilts for which kappa(tilt) <= tilt c, exp(tilt (penalty - c base)) is a supermartingale
    whatever is pulled, so that by Ville's inequality it bounds the chance of ever coming back.
    """

    @property
    def ahead(self) -> float:
        """A lower bound on the base that is still ahead."""
        return 0.0

    def prices(self, rate: float) -> Any:
        """The kappa of every tilt."""
        return _prices(rate)

    def projected(self, penalty: float, base: float) -> float | None:
        """The rate at the end if this penalty and base are still ahead; None if it has no base."""
        total = self.base + base
        return (self.penalty + penalty) / total if total > 0.0 else None

    @property
    def rate(self) -> float:
        """The penalty per pull or reward so far; 0 before the first."""
        return self.projected(0.0, 0.0) or 0.0

    @property
    def broken(self) -> bool:
        """Whether the run ended above the limit; before the end this can change."""
        return self.over and self.penalty > self.limit * self.base * (1.0 + 1e-12)

    def chance(self, rate: float) -> float:
        """A bound on the chance of ending above the limit by pulls of at most this rate."""
        if self.over:
            return float(self.broken)
        return self._above(self.limit, self.prices(rate))

    def _above(self, level: float, prices: Any) -> float:
        gains = TILTS * level - prices  # of each unit of the base that is ahead
        exponents = TILTS * (self.penalty - level * self.base) - gains * self.ahead
        return math.exp(min(float(np.where(gains >= 0.0, exponents, 0.0).min()), 0.0))

    def most(self, rate: float, doubt: float) -> float:
        """An upper bound on the rate at the end, except for ``doubt``, with pulls of ``rate``."""
        if self.over:
            return self.rate
        prices, low, high = self.prices(rate), 0.0, UNKNOWN
        if self.base + self.ahead <= 0.0 or self._above(high, prices) > doubt:
            return math.inf
        while high - low > 1e-9 * high:
            middle = math.sqrt(max(low, 1e-15) * high)
            fine = self._above(middle, prices) <= doubt
            low, high = (low, middle) if fine else (middle, high)
            if high <= 2e-15:
                break
        return high

    def least(self, rate: float, doubt: float) -> float:
        """A lower bound on the rate at the end; 0 while the run goes on."""
        return self.rate if self.over else 0.0


class RemainingPerPull(RemainingOpen):
    """The same per pull: a pull takes at most the largest cost from the remaining budget."""

    @property
    def ahead(self) -> float:
        """A lower bound on the number of pulls ahead."""
        return max(self.left - self.largest, 0.0) / self.largest

    def prices(self, rate: float) -> Any:
        """The kappa of every tilt: of the penalty of a pull."""
        return np.log1p(rate * np.expm1(TILTS))

    def most(self, rate: float, doubt: float) -> float:
        """The same; a pull has a penalty of at most 1."""
        return min(super().most(rate, doubt), 1.0)


def _prices(rate: float) -> Any:
    return np.array([price_of(rate, tilt) for tilt in TILTS.tolist()])
