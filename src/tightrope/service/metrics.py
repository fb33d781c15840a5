"""What Prometheus reads: counters and gauges in base units."""

from __future__ import annotations

from collections import Counter

__all__ = ["Counted", "Counts"]


class Counted:
    """What was counted of one campaign in this process."""

    def __init__(self) -> None:
        self.turns = 0
        self.requests = 0
        self.wait_seconds = 0.0  # of the first request of each turn, until it began
        self.commit_seconds = 0.0
        self.outcomes: Counter[tuple[str, str]] = Counter()

    def committed(self, requests: int, waited: float, took: float) -> None:
        """A turn has ended."""
        self.turns += 1
        self.requests += requests
        self.wait_seconds += waited
        self.commit_seconds += took


class Counts:
    """What was counted in this process."""

    def __init__(self) -> None:
        self.campaigns: dict[str, Counted] = {}

    def of(self, name: str) -> Counted:
        """One campaign's."""
        return self.campaigns.setdefault(name, Counted())
