"""Limits on keys: how often each may be used, and wrong ones by address.

Wrong keys count at the sign-in form and in the API. An address has a few tries; then each wrong key
doubles the time that it must wait, up to half a minute. Tries in that time are refused without a
check and do not extend it. While many wrong keys come from many addresses, an address has one try
and then waits for the longest time. An address without wrong keys never waits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from ipaddress import IPv6Address

from tightrope.service.http.answers import RefusalError
from tightrope.service.proxies import Address

TRIES = 5  # wrong keys of an address before it must wait
LONGEST = 32.0  # seconds that it must wait, at most
FORGOTTEN = 600.0  # seconds after which an address starts anew
MANY = 100  # wrong keys in a minute, from all addresses
MOST_ADDRESSES = 10_000  # that are remembered; of more, those whose wrong key was last are


class SignIns:
    """The wrong keys of one process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong: dict[str, tuple[int, float, float]] = {}  # how many, the last, wait until
        self._all, self._last = 0.0, clock()  # falls by MANY in a minute

    def require_turn(self, address: Address | None) -> None:
        """Raise while an address must wait."""
        if wait := self.wait(address):
            raise _refusal(429, "rate_limited", "This key was not looked at.", address, wait)

    def refused(
        self, address: Address | None, log: Callable[..., None], **headers: str
    ) -> RefusalError:
        """Count a wrong key; returns the refusal with the time that its address must wait."""
        if wait := self.wrong(address):
            log("too many wrong keys", address=address, wait_s=wait)
        return _refusal(401, "unauthorized", "This key is not valid.", address, wait, **headers)

    def wait(self, address: Address | None) -> float:
        """Seconds until a key from an address is checked; 0: now."""
        _, _, until = self._wrong.get(_place(address), (0, 0.0, 0.0))
        return max(until - self._clock(), 0.0)

    def wrong(self, address: Address | None) -> float:
        """Count a wrong key; returns the seconds that its address must wait."""
        place, now = _place(address), self._clock()
        self._all = max(self._all - (now - self._last) * MANY / 60, 0.0) + 1
        self._last = now
        count, last, _ = self._wrong.pop(place, (0, now, now))
        count = 1 if now - last > FORGOTTEN else count + 1
        wait = LONGEST if self._all > MANY else 0.0
        if count >= TRIES:
            wait = max(wait, min(2.0 ** (count - TRIES), LONGEST))
        while len(self._wrong) >= MOST_ADDRESSES:
            del self._wrong[next(iter(self._wrong))]
        self._wrong[place] = min(count, 100), now, now + wait
        return wait


def _place(address: Address | None) -> str:
    """The network that counts as one address: the first 64 bits of IPv6."""
    if isinstance(address, IPv6Address):
        return str(IPv6Address(int(address) >> 64 << 64))
    return str(address)


def _refusal(
    status: int, code: str, text: str, address: object, wait: float, **headers: str
) -> RefusalError:
    """The refusal of a key, with the seconds until the next one is checked."""
    if not wait:
        return RefusalError(status, code, text, **headers)
    seconds = math.ceil(wait)
    unit = "second" if seconds == 1 else "seconds"
    more = (
        f"Too many wrong keys came from {address or 'your address'}: try again in {seconds} {unit}."
    )
    return RefusalError(status, code, f"{text} {more}", retry_after=str(seconds), **headers)


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
