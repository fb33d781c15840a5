"""Estimates of how campaigns end: computed one at a time in a thread, and cached.

Decisions, reports and pages do not wait for an estimate. A page shows the last one.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from tightrope.live.controller import Controller
from tightrope.live.estimate import EndRates, estimate_of
from tightrope.live.outlook import Outlook

KEPT = 30.0  # seconds until a running campaign gets a new estimate
Terms = tuple[float, tuple[tuple[str, float], ...]]  # the budget; the limits by name


class EndEstimate(NamedTuple):
    """A result of ``live.estimate``."""

    at: float  # on the monotonic clock
    pulls: int  # of the campaign at that time
    terms: Terms
    found: EndRates | None

    def within(self, outlook: Outlook) -> Outlook:
        """The outlook with this estimate, if the budget and the limits are the same."""
        same = self.terms == terms_of(outlook)
        return outlook.estimated(*self.found) if self.found and same else outlook

    def is_old(self, outlook: Outlook) -> bool:
        """Whether a new estimate is due: at once after a change of the budget or of a limit."""
        if self.terms != terms_of(outlook):
            return True
        news = self.found is None or self.pulls != outlook.pulls
        return news and time.monotonic() - self.at > KEPT


def terms_of(outlook: Outlook) -> Terms:
    """The terms of a campaign that an estimate is about."""
    return outlook.budget, tuple((one.name, one.limit) for one in outlook.limits)


class Estimates:
    """The last estimate of each campaign."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "estimate")
        self._lock = threading.Lock()
        self._last: dict[str, EndEstimate] = {}
        self._begun: dict[str, Future[EndEstimate]] = {}

    def last(self, name: str) -> EndEstimate | None:
        """The last estimate of a campaign, or None."""
        return self._last.get(name)

    def wanted(self, name: str, controller: Controller, outlook: Outlook) -> Future[EndEstimate]:
        """The estimate in progress or a recent one; otherwise starts a new one."""
        with self._lock:
            begun, last = self._begun.get(name), self.last(name)
            if begun is None or (begun.done() and (last is None or last.is_old(outlook))):
                begun = self._pool.submit(self._make, name, controller, outlook)
                self._begun[name] = begun
            return begun

    def _make(self, name: str, controller: Controller, outlook: Outlook) -> EndEstimate:
        found = estimate_of(controller, outlook.pulls_left) if outlook.limits else None
        terms = terms_of(outlook)
        self._last[name] = made = EndEstimate(time.monotonic(), outlook.pulls, terms, found)
        return made

    def end(self) -> None:
        """Start no more estimates."""
        self._pool.shutdown(wait=False, cancel_futures=True)
