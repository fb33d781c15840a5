"""Erase the features of requests that a campaign keeps outside of its log.

An event records the erasure, and the policy forgets its latest requests. A snapshot is saved before
anything is erased, because the events before it can no longer be replayed. An interrupted erasure
is completed by the next one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from tightrope.errors import InputError
from tightrope.live.arguments import moment
from tightrope.live.events import event_of
from tightrope.live.kinds import ContextsErased, Told
from tightrope.live.stores import Turn
from tightrope.live.vectors import request_of
from tightrope.problem.values import shown

if TYPE_CHECKING:
    from tightrope.live.campaign import Campaign
    from tightrope.live.writer import Writer


def erase_contexts(
    campaign: Campaign, before: datetime | str | None = None, who: str | None = None
) -> int:
    """Erase the features of requests before a time, or of all; returns how many there were.

    ``who``: the author of the event; default: the campaign's.
    """
    core = campaign.refreshed()
    if not core.vectors.kept:
        raise InputError(
            f"campaign {campaign.name!r}: its features are not erasable; must be created with"
            " Features(..., erasable=True)"
        )
    last = None if before is None else _last_before(campaign, before, core.ledger.seq)

    def act(writer: Writer) -> int:
        upto = writer.ledger.seq if last is None else last
        writer.emit(ContextsErased(upto))
        return upto

    upto = campaign.do(act, who=who)
    saved, needed = campaign.save_snapshot()
    with campaign.store.turn(campaign.name) as turn:
        erased = turn.erase(upto, [*needed, *_reported_since(turn, saved)], saved)
    core.vectors.forget()
    return erased


def _reported_since(turn: Turn, after: int) -> Iterator[int]:
    """The requests of late reports after the snapshot, whose features a replay needs."""
    while rows := turn.read(after):
        for row in rows:
            body = event_of(row).body
            if isinstance(body, Told) and ":" in (body.features or ""):
                yield request_of(body.features or "")[0]
        after = rows[-1].seq


def _last_before(campaign: Campaign, before: datetime | str, last: int) -> int:
    """The number of the last event before a time."""
    store, name, at = campaign.store, campaign.name, moment(before, "before")
    first = store.read(name, 0, 1)[0]
    if at <= first.at:
        allowed = "after the first event in the store"
        raise InputError(f"before = {shown(str(before))}: must be {allowed}")
    numbers = range(first.seq, last + 1)
    return first.seq - 1 + bisect_left(numbers, at, key=lambda n: store.read(name, n - 1, 1)[0].at)
