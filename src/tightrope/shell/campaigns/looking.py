"""Commands that look at campaigns, and change nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tightrope.errors import HaltedError, InputError, PolicyError
from tightrope.formats import finite
from tightrope.names import in_text
from tightrope.shell.campaigns.opening import (
    AtCampaign,
    AtStore,
    TicketId,
    brief,
    opened,
    require_campaign,
    stored,
)
from tightrope.shell.saying import print_json, say

if TYPE_CHECKING:
    from tightrope.live.stores import Store
    from tightrope.problem import Task


__all__ = [
    "events",
    "export",
    "list_",
    "outlook",
    "status",
    "tickets",
    "verify",
    "why",
]
AT_ONCE = 1000  # events that are read at once


def status(at: AtCampaign) -> int:
    """Show where a campaign stands: money, tickets, limits, arms."""
    with opened(at) as campaign:
        found, controller = campaign.status(), campaign.refreshed().controller
        task, means = controller.task, controller.means
    if at.json:
        print_json(found)
    else:
        from tightrope.shell.campaigns.tables import print_status

        print_status(found, task, means)
    return 0


def tickets(at: AtCampaign) -> int:
    """List the tickets in flight, the oldest first."""
    with opened(at) as campaign:
        found = [campaign.ticket(one) for one in list(campaign.refreshed().ledger.tickets)]
    if at.json:
        print_json([one.table() for one in found])
        return 0
    from tightrope.shell.campaigns.tables import ticket_words

    for one in found:
        print(in_text(ticket_words(one)))
    if not found:
        print("no ticket is in flight")
    return 0


def why(at: AtCampaign, id: TicketId) -> int:
    """Show what was known when a ticket's arm was chosen."""
    with opened(at) as campaign:
        found = campaign.why(id)
    if at.json:
        print_json(found.table())
    else:
        from tightrope.shell.campaigns.tables import print_why

        print_why(found)
    return 0


def outlook(at: AtCampaign, *, doubt: float = 0.01) -> int:
    """Show what can be said now about the end: chances that are proved, and projections.

    doubt P: chance that a bound is wrong, at most
    """
    with opened(at) as campaign:
        found = campaign.outlook(doubt)
    if at.json:
        limits = [{**asdict(one), "standing": one.standing} for one in found.limits]
        print_json(finite({**asdict(found), "limits": limits, "facts": found.facts()}))
    else:
        for line in str(found).splitlines():
            print(in_text(line))
    return 0


def events(at: AtCampaign, *, after: int = 0, count: int | None = None) -> int:
    """Print the log: a line for each event, oldest first.

    after: from event N + 1 on
    count: at most so many; default all
    """
    from tightrope.live.log import lines_of, rows_of

    if count is not None and count < 1:
        raise InputError(f"--count {count}: must be at least 1")
    with stored(at) as store:
        require_campaign(store, at.campaign)
        part = store, at.campaign, after, count
        if at.json:
            before = "[\n"
            for line in lines_of(*part):
                print(f"{before}  {line}", end="")
                before = ",\n"
            print("[]" if before == "[\n" else "\n]")
        else:
            from tightrope.shell.campaigns.tables import event_words

            task = _task_of(store, at.campaign)
            for row in rows_of(*part):
                print(in_text(event_words(row, task)))
    return 0


def _task_of(store: Store, name: str) -> Task | None:
    """The campaign's task, for the names of its arms; None if it cannot be followed here."""
    from tightrope.live import open_campaign

    try:
        with redirect_stdout(sys.stderr), brief():
            return open_campaign(store, name).refreshed().controller.task
    except (HaltedError, PolicyError) as error:
        say(f"warning: {error}")
        return None


def export(at: AtCampaign, *, out: str | None = None) -> int:
    """Write the whole log as JSON lines, an event each, with its hash.

    out FILE: default standard output
    """
    from tightrope.files import whole_file
    from tightrope.live.log import lines_of

    with stored(at) as store:
        require_campaign(store, at.campaign)
        lines = lines_of(store, at.campaign)
        if out is None:
            for line in lines:
                print(line)
            return 0
        if os.path.realpath(out) == os.path.realpath(at.store):
            raise InputError(f"--out {out}: is the store; must be another file")
        count = 0
        with whole_file(out) as file:
            for line in lines:
                file.write(line.encode() + b"\n")
                count += 1
    say(f"wrote {count:,} events to {out}")
    return 0


def verify(at: AtCampaign) -> int:
    """Follow the log again, and compare it with every snapshot; status 1 if anything differs."""
    from tightrope.engine.progress import reporting
    from tightrope.live.verification import verified

    with stored(at) as store, redirect_stdout(sys.stderr):
        require_campaign(store, at.campaign)
        done, total = 0, _last_event(store, at.campaign)
        with reporting(None, total, "verifying") as report:

            def progress(events: int) -> None:
                nonlocal done
                report(events - done)
                done = events

            found = verified(store, at.campaign, None, progress)
    if at.json:
        print_json(found.table())
    else:
        for line in found.wrong:
            print(in_text(line))
        if found.good:
            print(_verified_words(found))
    return 0 if found.good else 1


def _last_event(store: Store, name: str) -> int:
    """The number of the last event, found in a few short reads."""
    before, step = 0, AT_ONCE
    while store.read(name, before + step, 1):
        before, step = before + step, 2 * step
    while step > 1:
        step = -(-step // 2)
        before += step * bool(store.read(name, before + step, 1))
    return before + 1


def _verified_words(found: Any) -> str:
    how = {
        "to the bit": found.to_the_bit,
        "within rounding": found.within_rounding,
        "as to money, from before the last change of version": found.money_only,
    }
    told = ", ".join(f"{count:,} {words}" for words, count in how.items() if count)
    snapshots = "1 snapshot" if found.snapshots == 1 else f"{found.snapshots:,} snapshots"
    return f"good: events {found.first:,} to {found.events:,} rebuild {snapshots} ({told})"


def list_(at: AtStore) -> int:
    """List the campaigns of a store."""
    from tightrope.live import open_campaign

    found: list[Mapping[str, Any]] = []
    with stored(at) as store, redirect_stdout(sys.stderr), brief():
        for name in store.names():
            try:
                found.append(open_campaign(store, name).status())
            except (HaltedError, PolicyError) as error:  # the others can be listed
                found.append({"name": name, "state": "halted", "why": str(error)})
    if at.json:
        print_json(found)
    elif found:
        from tightrope.shell.campaigns.tables import print_list

        print_list(found)
    else:
        print("there is no campaign yet")
    return 0
