"""How every package is timed: the same growing loop, the same JSON line."""

from __future__ import annotations

import json
from collections.abc import Callable
from time import perf_counter

ARMS = (2, 100)
SECONDS = 0.3  # one timing takes about this long

Play = Callable[[int], int]  # plays about that many steps, returns how many


def rate(play: Play, seconds: float = SECONDS) -> float:
    """Steps per second, from the first call of ``play`` that takes long enough."""
    steps = 1
    while True:
        start = perf_counter()
        played = play(steps)
        elapsed = perf_counter() - start
        if elapsed >= seconds:
            return played / elapsed
        steps = min(16 * steps, max(2 * steps, round(1.2 * steps * seconds / elapsed)))


def report(decide: Callable[[int], Play], run: Callable[[int], Play] | None = None) -> None:
    """Time ask/tell and, if there is one, the package's own runner; print one JSON line.

    ``decide(arms)`` and ``run(arms)`` prepare everything: imports, compilation and exploration.
    """
    figures = {"decisions": {arms: rate(decide(arms)) for arms in ARMS}}
    if run:
        figures["runner"] = {arms: rate(run(arms)) for arms in ARMS}
    print(json.dumps(figures))
