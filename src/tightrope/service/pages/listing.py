"""The list of campaigns: search, filter, order and summary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tightrope.formats import counted
from tightrope.service.pages.facts import Facts
from tightrope.service.pages.limit_words import TONES, Badge
from tightrope.service.values import BoundedText, OneOf, Query

STATES = {
    "": "All states",
    "attention": "Needs attention",
    "running": "Running",
    "paused": "Paused",
    "ended": "Ended",
}
SORTS = {
    "": "What needs attention",
    "name": "Name",
    "spent": "Share of the budget spent",
    "last": "Last event",
}
LIST_QUERY: Query = {"q": BoundedText(128), "state": OneOf(STATES), "sort": OneOf(SORTS)}


class Broken:
    """A campaign in the list that is not open yet, or halted."""

    def __init__(self, name: str, state: Badge) -> None:
        self.name, self.state, self.promise = name, state, Badge(state.tone, "Unknown")


Row = Facts | Broken


@dataclass(frozen=True)
class Listing:
    """The rows of the list and the query; ``older``: the number of campaigns not listed."""

    every: Sequence[Row]
    asked: dict[str, Any]
    older: int = 0
    states: ClassVar[dict[str, str]] = STATES  # to filter by
    sorts: ClassVar[dict[str, str]] = SORTS  # to choose from

    @property
    def rows(self) -> list[Row]:
        """The campaigns that match the query, in order."""
        state, text = self.asked.get("state", ""), self.asked.get("q", "").strip().lower()
        found = [row for row in self.every if text in _name(row).lower() and _is(row, state)]
        return sorted(found, key=ORDERS[self.asked.get("sort", "")])

    @property
    def summary(self) -> str:
        """A one-line summary of all campaigns."""
        parts = [counted(len(self.every), "campaign")]
        for state in ("attention", "running", "paused", "ended"):
            many = sum(_is(row, state) for row in self.every)
            if many:
                word = STATES[state].lower()
                verb = "needs" if many == 1 else "need"
                parts.append(f"{many:,} {f'{verb} attention' if state == 'attention' else word}")
        return " · ".join(parts)


def _name(row: Row) -> str:
    return row.name if isinstance(row, Broken) else row.view.name


def _is(row: Row, state: str) -> bool:
    """Whether a campaign has a state of ``STATES``."""
    if state == "attention":
        tones = {row.state.tone, row.promise.tone}
        tones |= set() if isinstance(row, Broken) else {one.tone for one in row.alerts}
        return bool(tones & {"bad", "warn"})
    if state and isinstance(row, Broken):
        return False
    if state and isinstance(row, Facts):
        now = row.status["state"]
        return {"open": "running", "paused": "paused"}.get(now, "ended") == state
    return True


def _urgency(row: Row) -> tuple[Any, ...]:
    """Campaigns that need attention first, then running ones, then ended ones."""
    worst = min(TONES.index(row.state.tone), TONES.index(row.promise.tone))
    return (row.state.tone == "quiet", worst, not _is(row, "attention"), _name(row))


def _spent(row: Row) -> tuple[Any, ...]:
    if isinstance(row, Broken):
        return (0.0, row.name)
    return (-row.status["spent"] / (row.status["budget"] or 1.0), _name(row))


def _last(row: Row) -> tuple[Any, ...]:
    return (0.0, row.name) if isinstance(row, Broken) else (-row.last_time, _name(row))


ORDERS: dict[str, Callable[[Row], tuple[Any, ...]]] = {
    "": _urgency,
    "name": lambda row: (_name(row).lower(),),
    "spent": _spent,
    "last": _last,
}
