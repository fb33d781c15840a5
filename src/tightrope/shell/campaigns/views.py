"""Commands that show campaigns and change nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any

import tightrope
from tightrope.errors import HaltedError, InputError, PolicyError
from tightrope.formats import counted
from tightrope.shell.campaigns import tables
from tightrope.shell.campaigns.access import (
    AtCampaign,
    AtStore,
    TicketId,
    brief,
    opened,
    require_campaign,
    stored,
    task_of,
)
from tightrope.shell.commands import Argument
from tightrope.shell.output import answer, print_lines, say

if TYPE_CHECKING:
    from tightrope.live.stores import Store


AT_ONCE = 1000  # events that are read at once


def status(at: AtCampaign) -> int:
    """Show a campaign's money, tickets, limits and arms.

    A limit that is exceeded so far is red.

    tightrope campaign status router.db november
    """
    try:
        with opened(at) as campaign:
            found, controller = campaign.status(), campaign.refreshed().controller
            task, means = controller.task, controller.means
        if "curve" in found:  # a number informs about its neighbours
            means = [[one[0] for one in point["outcomes"].values()] for point in found["curve"]]
    except PolicyError as error:
        return _ledger_alone(at, str(error))
    return answer(at.json, found, lambda: tables.print_status(found, task, means))


def _ledger_alone(at: AtCampaign, why: str) -> int:
    """Show what the ledger has of a campaign whose policy is not run."""
    from tightrope.live.status import ledger_status

    with stored(at) as store:
        found = ledger_status(store, at.campaign)
    spent = f"{found['spent']:,g} of {found['budget']:,g} is spent, {found['reserved']:,g} reserved"
    words = f"{at.campaign!r}: {spent}; {counted(found['in_flight'], 'ticket')} in flight"
    return answer(at.json, {**found, "state": "halted", "why": why}, [words, f"halted: {why}"])


def tickets(at: AtCampaign) -> int:
    """List the tickets without a report, oldest first.

    tightrope campaign tickets router.db november
    """
    with opened(at) as campaign:
        found = [campaign.ticket(one) for one in list(campaign.refreshed().ledger.tickets)]
    lines = [tables.ticket_words(one) for one in found] or ["no ticket is in flight"]
    return answer(at.json, [one.table() for one in found], lines)


def why(at: AtCampaign, id: TicketId) -> int:
    """Show what was known when a ticket's arm was chosen.

    tightrope campaign why router.db november 1-00000001
    """
    with opened(at) as campaign:
        found = campaign.why(id)
    return answer(at.json, found.table(), lambda: tables.print_why(found))


def outlook(at: AtCampaign, *, doubt: float = 0.01, estimate: bool = False) -> int:
    """Project the end of the campaign, with proved bounds on the chance to exceed each limit.

    tightrope campaign outlook router.db november --estimate

    doubt P: largest probability that a bound is wrong
    estimate: also estimate the chance to end above each limit by simulation, which takes a second
    """
    with opened(at) as campaign:
        found = campaign.outlook(doubt, estimate=estimate)
    return answer(at.json, found.table(), lambda: print_lines(str(found).splitlines()))


def events(at: AtCampaign, *, after: int = 0, count: int | None = None) -> int:
    """Print the log, one line per event, oldest first.

    tightrope campaign events router.db november --after 100 --count 20

    after: start after event N
    count: largest number of events; default all
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
            task = _task_of(store, at.campaign)
            print_lines(tables.event_words(row, task) for row in rows_of(*part))
    return 0


def _task_of(store: Store, name: str) -> tightrope.Task | None:
    """The campaign's task, for the names of its arms; None if it cannot be followed here."""
    try:
        with redirect_stdout(sys.stderr), brief():
            return task_of(tightrope.open_campaign(store, name))
    except (HaltedError, PolicyError) as error:
        say(f"warning: {error}")
        return None


def export(
    at: AtCampaign,
    *,
    out: Annotated[str | None, Argument(short="-o")] = None,
    without_contexts: bool = False,
) -> int:
    """Write the whole log as JSON lines, one event per line, with its hash.

    tightrope campaign export router.db november --out november.jsonl

    out FILE: file to write; default standard output
    without_contexts: leave out the features of requests; their types stay
    """
    from tightrope.files import whole_file
    from tightrope.live.archive import exported
    from tightrope.live.stores.locks import BESIDE

    with stored(at) as store:
        require_campaign(store, at.campaign)
        lines = exported(store, at.campaign, features=not without_contexts)
        if out is None:
            for line in lines:
                print(line)
            return 0
        own = os.path.realpath(at.store)
        if os.path.realpath(out) in (own + end for end in ("", "-wal", "-shm", *BESIDE)):
            raise InputError(f"--out {out}: is a file of the store; must be another file")
        count = 0
        with whole_file(out) as file:
            for line in lines:
                file.write(line.encode() + b"\n")
                count += 1
    if at.json:
        return answer(True, {"file": out, "events": count}, [])
    say(f"wrote {count:,} events to {out}")
    return 0


def verify(at: AtCampaign) -> int:
    """Replay the log and compare it with every snapshot; the status is 1 if anything differs.

    tightrope campaign verify router.db november
    """
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
    lines = [*found.wrong, *[_verified_words(found)] * found.good]
    answer(at.json, found.table(), lines)
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
        "money only": found.money_only,
    }
    told = ", ".join(f"{count:,} {words}" for words, count in how.items() if count)
    snapshots = counted(found.snapshots, "snapshot")
    words = f"good: events {found.first:,} to {found.events:,} rebuild {snapshots} ({told})"
    if found.erased:
        after = "earlier decisions cannot be replayed"
        words += f"; the features of {counted(found.erased, 'request')} were erased: {after}"
    return f"{words}; the policy was not run: {found.not_run}" if found.not_run else words


def list_(at: AtStore) -> int:
    """List the campaigns of a store.

    tightrope campaign list router.db
    """
    found: list[Mapping[str, Any]] = []
    with stored(at) as store, redirect_stdout(sys.stderr), brief():
        for name in store.names():
            try:
                found.append(tightrope.open_campaign(store, name).status())
            except (HaltedError, PolicyError) as error:  # the others can be listed
                found.append({"name": name, "state": "halted", "why": str(error)})
    return answer(at.json, found, lambda: tables.print_list(found))
