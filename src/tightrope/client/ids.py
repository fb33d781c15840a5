"""Ids that clients make: UUIDs of version 7, which grow with time.

The first 48 bits are the milliseconds since 1970, the next 12 count within one, 62 are random.
Within one process ids always grow, even if its clock goes back.
"""

from __future__ import annotations

import os
import threading
import time

_lock = threading.Lock()
_last = 0  # the milliseconds and the count of the id before, as one number of 60 bits


def new_id() -> str:
    """An id that no other client makes.

    >>> first, second = new_id(), new_id()
    >>> first < second, len(first)
    (True, 36)
    """
    global _last
    with _lock:
        _last = max((time.time_ns() // 1_000_000) << 12, _last + 1)
        time_and_count = _last
    luck = int.from_bytes(os.urandom(8), "big") >> 2
    number = (
        (time_and_count >> 12) << 80 | 7 << 76 | (time_and_count & 0xFFF) << 64 | 2 << 62 | luck
    )
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _unlock() -> None:
    """Reset the lock in a forked process, which lacks the thread that held it."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_unlock)
