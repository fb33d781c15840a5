"""Metrics for Prometheus: counters and gauges in base units (seconds, bytes, the budget's unit).

Labels are campaign, type, arm and outcome, which have few values; ids and keys are never labels.
Money and tickets come from the log, so they are the same in every process; requests, turns and
waits are those of this process.
"""

from __future__ import annotations

import os
import resource
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from tightrope.live.core import Core
from tightrope.live.status import status_of
from tightrope.service.signins import RateLimit

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
STARTED = time.time()
PAGE = os.sysconf("SC_PAGE_SIZE")
MOST_ARMS = 1000  # of a campaign, or of its types and arms together


class Counted:
    """The counters of one campaign in this process."""

    def __init__(self) -> None:
        self.turns = 0
        self.requests = 0
        self.turn_seconds = 0.0
        self.waits = [0] * (len(BUCKETS) + 1)
        self.wait_seconds = 0.0
        self.outcomes: Counter[str] = Counter()

    def committed(self, requests: int, took: float) -> None:
        """Count a turn."""
        self.turns += 1
        self.requests += requests
        self.turn_seconds += took

    def waited(self, seconds: float) -> None:
        """Count an answer and the seconds since its request."""
        self.waits[bisect_left(BUCKETS, seconds)] += 1
        self.wait_seconds += seconds


class Counts:
    """The counters of this process."""

    def __init__(self) -> None:
        self.campaigns: dict[str, Counted] = {}

    def of(self, name: str) -> Counted:
        """The counters of a campaign."""
        return self.campaigns.setdefault(name, Counted())


def facts_of(core: Core) -> dict[str, Any]:
    """The values of a campaign's state that are exported."""
    ledger = core.ledger
    oldest = next(iter(ledger.tickets.values()), None)
    return {
        **status_of("", core),
        "oldest": None if oldest is None else oldest.asked_at,
        "paused": ledger.paused is not None,
        "closed": ledger.closed,
        "exhausted": core.exhausted,
    }


class MetricsPage:
    """The text of the page: each metric with its help and type."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def _metric(self, name: str, kind: str, text: str) -> list[str]:
        head = [f"# HELP tightrope_{name} {text}", f"# TYPE tightrope_{name} {kind}"]
        return self._lines.setdefault(name, head)

    def add(self, name: str, text: str, value: float, **labels: str) -> None:
        """A value of a counter, whose name ends in ``_total``, or of a gauge."""
        kind = "counter" if name.endswith("_total") else "gauge"
        line = f"tightrope_{name}{shown(labels)} {value:.15g}"
        self._metric(name, kind, text).append(line)

    def histogram(self, name: str, text: str, found: Counted, **labels: str) -> None:
        """Waits, in buckets."""
        lines, below = self._metric(name, "histogram", text), 0
        for most, count in zip((*BUCKETS, None), found.waits, strict=True):
            below += count
            le = "+Inf" if most is None else f"{most:g}"
            lines.append(f"tightrope_{name}_bucket{shown({**labels, 'le': le})} {below}")
        lines.append(f"tightrope_{name}_sum{shown(labels)} {found.wait_seconds:.15g}")
        lines.append(f"tightrope_{name}_count{shown(labels)} {below}")

    def text(self) -> str:
        """The whole text."""
        return "".join(f"{line}\n" for lines in self._lines.values() for line in lines)


def shown(labels: Mapping[str, str]) -> str:
    """Labels in the text format."""
    if not labels:
        return ""
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def text_of(
    facts: Mapping[str, Mapping[str, Any] | None],
    counts: Mapping[str, Counted],
    waiting: Mapping[str, int],
    lags: Mapping[str, tuple[int, float]],
    connections: int,
    rate: RateLimit | None = None,
) -> str:
    """The page; the facts of a campaign that cannot be followed are None."""
    page = MetricsPage()
    for name, found in facts.items():
        text = "1 if this process cannot follow the campaign"
        page.add("halted", text, found is None, campaign=name)
        if found is not None:
            _add_campaign(page, name, found)
    for name, (events, seconds) in lags.items():
        text = "committed events that this process has not applied, at most 1000"
        page.add("replica_lag_events", text, events, campaign=name)
        page.add("replica_lag_seconds", "age of the oldest of them", seconds, campaign=name)
    for name in facts:
        _add_process(page, name, counts.get(name) or Counted(), waiting.get(name, 0))
    if rate is not None:
        text = "requests beyond the rate of their key"
        page.add("rate_limited_total", text, rate.refused)
    _add_machine(page, connections)
    return page.text()


def _add_campaign(page: MetricsPage, name: str, found: Mapping[str, Any]) -> None:
    add = partial(page.add, campaign=name)
    for key in ("budget", "spent", "reserved", "free"):
        add(key, f"{key}, in the campaign's own unit of cost", found[key])
    for key in ("asked", "told", "voided", "expired", "late", "refused", "overruns"):
        add("tickets_total", "tickets by what came of them", found[key], outcome=key)
    for key, value in {"reward": found["reward"], **found["penalties"]}.items():
        add("outcome_sum", "reward and penalties so far, in their own units", value, outcome=key)
    add("in_flight", "tickets in flight", found["in_flight"])
    age = 0.0 if found["oldest"] is None else max(0.0, time.time() - found["oldest"] / 1e6)
    add("oldest_in_flight_seconds", "age of the oldest ticket in flight", age)
    add("quarantined", "reports in quarantine", found["quarantined"])
    for key in ("paused", "closed", "exhausted"):
        add(key, f"1 if the campaign is {key}", found[key])
    add("events_total", "events in the log", found["events"])
    for arm in found["arms"][:MOST_ARMS]:
        add("pulls_total", "pulls told, by arm", arm["pulls"], arm=arm["arm"])
        add("pulls_in_flight", "pulls in flight, by arm", arm["in_flight"], arm=arm["arm"])
    if "types" in found:
        _add_types(add, found)


def _add_types(add: Callable[..., None], found: Mapping[str, Any]) -> None:
    """The types of requests; of many, the most frequent."""
    add("mix_changed", "1 if the shares of the types have changed lately", found["mix_changed"])
    most = max(MOST_ARMS // len(found["arms"]), 1)
    for one in sorted(found["types"], key=lambda one: -one["asked"])[:most]:
        typed = partial(add, type=one["type"])
        typed("asked_by_type_total", "tickets by type of request", one["asked"])
        for arm, pulls in one["pulls"].items():
            typed("pulls_by_type_total", "pulls told, by type and arm", pulls, arm=arm)
        text = "reward and penalties so far, by type"
        for key, value in {"reward": one["reward"], **one["penalties"]}.items():
            typed("outcome_by_type_sum", text, value, outcome=key)


def _add_process(page: MetricsPage, name: str, found: Counted, waiting: int) -> None:
    add = partial(page.add, campaign=name)
    for outcome, value in sorted(found.outcomes.items()):
        add("requests_total", "items answered here, by how they ended", value, outcome=outcome)
    page.histogram("commit_wait_seconds", "from a request to its commit", found, campaign=name)
    add("waiting", "items that wait for their commit", waiting)
    add("turns_total", "turns of this process", found.turns)
    add("turn_seconds_total", "time in turns, waiting for them too", found.turn_seconds)


def _add_machine(page: MetricsPage, connections: int) -> None:
    page.add("connections", "open connections", connections)
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = used.ru_utime + used.ru_stime
    page.add("process_cpu_seconds_total", "processor time of this process", seconds)
    page.add("process_resident_memory_bytes", "memory of this process", _resident())
    page.add("process_start_time_seconds", "when it began, since 1970", STARTED)


def _resident() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * PAGE
    except OSError:
        return 0


def lag_of(rows: Iterable[Any]) -> tuple[int, float]:
    """How far a replica is behind, from the events that it has not followed."""
    found = list(rows)
    return len(found), max(0.0, time.time() - found[0].at / 1e6) if found else 0.0
