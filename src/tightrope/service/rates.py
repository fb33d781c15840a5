"""The rate limit of each key: a token bucket."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from tightrope.service.http.answers import RefusalError


class RateLimit:
    """At most ``rate`` requests per second and key, and ``burst`` at once.

    Call the methods in the event loop. ``refused`` counts the refused requests.
    """

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate, self.burst, self.refused = rate, burst, 0
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens left, and at what time

    def take(self, key: str) -> None:
        """Count a request of a key; raises if the key is above its rate."""
        now = self._clock()
        left, then = self._buckets.get(key, (self.burst, now))
        left = min(self.burst, left + (now - then) * self.rate)
        if left < 1.0:
            self._buckets[key] = left, now
            self.refused += 1
            wait = max(1, math.ceil((1.0 - left) / self.rate))
            text = f"key {key!r}: may send {self.rate:g} requests a second, {self.burst:g} at once"
            raise RefusalError(429, "rate_limited", text, retry_after=str(wait))
        self._buckets[key] = left - 1.0, now
