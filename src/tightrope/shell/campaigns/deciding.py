"""What the commands of ``tightrope campaign`` do: open the campaign, do one thing, print it.

What a user's policy prints goes to standard error, so results are printed after it is done.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

from tightrope.errors import HaltedError, InputError, PolicyError, nearest
from tightrope.names import in_text
from tightrope.shell.saying import print_json, say

if TYPE_CHECKING:
    from tightrope.live import Campaign, Ticket
    from tightrope.live.events import Row
    from tightrope.live.stores import Store
    from tightrope.problem import Task

AT_ONCE = 1000  # events that are read at once
PATIENCE = 5.0  # seconds
Named = tuple[str | None, float]  # a number, and its name if it was given one


# Opening.


@contextmanager
def stored(options: argparse.Namespace, *, create: bool = False) -> Iterator[Store]:
    """The store that a command names."""
    from tightrope.live.stores import open_store

    if options.store == "memory:":
        raise InputError("store 'memory:': ends with the command; must be a file or a database")
    store = open_store(options.store, create=create)
    try:
        yield store
    except KeyboardInterrupt as stop:
        if str(stop):
            raise
        text = "interrupted; the campaign's status says whether it was recorded"
        raise KeyboardInterrupt(text) from stop
    finally:
        store.close()


@contextmanager
def opened(options: argparse.Namespace) -> Iterator[Campaign]:
    """The campaign that a command names."""
    from tightrope.live import open_campaign

    with stored(options) as store, redirect_stdout(sys.stderr), patience():
        yield open_campaign(store, options.campaign)


@contextmanager
def patience() -> Iterator[None]:
    """Tell a person at a terminal why a first decision or report takes so long."""
    if not sys.stderr.isatty():
        yield
        return
    text = "still at work: a policy is compiled when it is first used on a machine"
    timer = threading.Timer(PATIENCE, say, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def require_campaign(store: Store, name: str) -> None:
    """Raise unless the store has the campaign, whether or not it can be followed."""
    from tightrope.live.campaign import unknown_campaign

    if name not in store.names():
        raise unknown_campaign(store, name)


def arm_of(campaign: Campaign, text: str) -> int | str:
    """An arm by its name, or by its number where no arm has that name."""
    names = campaign.refreshed().controller.task.names
    return int(text) if text.isdecimal() and text not in names else text


def penalty_of(given: Sequence[Named]) -> float | dict[str, float] | None:
    """Penalties by name; one alone may be without."""
    if not given:
        return None
    if len(given) == 1 and given[0][0] is None:
        return given[0][1]
    return by_name(given, "--penalty")


def by_name(given: Sequence[Named], option: str, alone: Sequence[str] = ()) -> dict[str, float]:
    """Numbers by name; the name may be left out where there is one ``alone``."""
    found: dict[str, float] = {}
    for name, value in given:
        if name is None and len(alone) == 1:
            name = alone[0]
        if name is None:
            raise InputError(f"{option} {value:g}: must read NAME={value:g}")
        if name in found:
            raise InputError(f"{option} {name}={value:g}: must be given once for each name")
        found[name] = value
    return found


# Decisions and reports.


def create(options: argparse.Namespace) -> int:
    """Make a campaign from a task, a budget and a policy."""
    from tightrope.live import open_campaign
    from tightrope.problem.ready import load_task

    wanted: dict[str, Any] = {
        "task": load_task(options.task),
        "budget": options.budget,
        "policy": lasting(options.policy),
        "seed": options.seed,
        "stop": options.stop,
        "expire_after": options.expire_after,
        "release": options.release,
        "starts": options.starts,
        "ends": options.ends,
        "per_day": options.per_day,
        "shadow": options.shadow,
    }
    name = options.campaign
    with redirect_stdout(sys.stderr), patience():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            open_campaign("memory:", name, **wanted)  # so that a mistake leaves no file behind
        with stored(options, create=True) as store:
            exists = f"campaign {name!r}: exists already in {options.store!r}; must be a new name"
            if store.read(name, 0, 1) or store.saved(name):
                raise InputError(exists)
            campaign = open_campaign(store, name, **wanted)
            if next(campaign.events(0, 1)).who != campaign.who:
                raise InputError(exists)  # another process was faster
            status = campaign.status()
    arms = "1 arm" if len(status["arms"]) == 1 else f"{len(status['arms']):,} arms"
    what = f"created with {arms}, policy {status['policy']}, stop {status['stop']}"
    return print_status_after(options, status, what)


def lasting(policy: str | None) -> str | None:
    """A policy's text that means the same in another working folder."""
    place, found, rest = (policy or "").partition(".py:")
    return f"{os.path.abspath(place)}.py:{rest}" if found else policy


def print_status_after(
    options: argparse.Namespace, status: Mapping[str, Any], what: str = ""
) -> int:
    """Say what was done to a campaign, and what it has left."""
    if options.json:
        print_json(status)
    else:
        told = f"{what}; {money(status)}" if what else f"{state(status)}; {free(status)}"
        print(in_text(f"{status['name']!r}: {told}"))
    return 0


def state(status: Mapping[str, Any]) -> str:
    """A campaign's state, with why it is paused."""
    return status["state"] + (f" ({status['why']})" if status["why"] else "")


def free(status: Mapping[str, Any]) -> str:
    """What is left of a campaign's budget."""
    return f"{status['free']:,.9g} of {status['budget']:,.9g} is free"


def money(status: Mapping[str, Any]) -> str:
    """What is left of a campaign's budget, and whether it has stopped."""
    stopped = "" if status["state"] == "open" else f"; the campaign is {state(status)}"
    return free(status) + stopped


def ask(options: argparse.Namespace) -> int:
    """Ask which arm to pull now; the same --id again gives the same ticket."""
    if options.count is not None and options.id is not None:
        raise InputError(f"--count {options.count}: must be left out beside --id")
    with opened(options) as campaign:
        eligible = None
        if options.eligible is not None:
            eligible = [arm_of(campaign, text) for text in options.eligible]
        if options.count is None:
            tickets = [campaign.ask(options.id, eligible=eligible)]
        else:
            tickets = campaign.ask_many(options.count, eligible=eligible)
        status = campaign.status()
    if options.json:
        tables = [one.table() for one in tickets]
        print_json(tables[0] if options.count is None else tables)
    else:
        for one in tickets:
            print(in_text(_ticket_words(one)))
    if len(tickets) < (options.count or 1):
        say(f"only {len(tickets):,} of {options.count:,}: {money(status)}")
    return 0


def _ticket_words(ticket: Ticket) -> str:
    if ticket.state != "open":
        return f"{ticket.id}: was {ticket.arm!r}, and is {ticket.state}"
    held = f"{ticket.reserved:,g} is reserved" if ticket.reserved else "nothing is reserved"
    by = ticket.expires_at.strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{ticket.id}: pull {ticket.arm!r}; {held}, tell by {by}"


def tell(options: argparse.Namespace) -> int:
    """Report what came of a ticket; what the task knows may be left out."""
    with opened(options) as campaign:
        arm = None if options.arm is None else arm_of(campaign, options.arm)
        penalty = penalty_of(options.penalty)
        campaign.tell(options.id, options.cost, options.reward, penalty, arm=arm)
        ticket, status = campaign.ticket(options.id), campaign.status()
    return _print_ticket_after(options, ticket, status)


def void(options: argparse.Namespace) -> int:
    """Take back a ticket for which nothing was done; its reservation is free again."""
    with opened(options) as campaign:
        campaign.void(options.id)
        ticket, status = campaign.ticket(options.id), campaign.status()
    return _print_ticket_after(options, ticket, status)


def _print_ticket_after(
    options: argparse.Namespace, ticket: Ticket, status: Mapping[str, Any], what: str = ""
) -> int:
    if options.json:
        print_json(ticket.table())
    else:
        print(in_text(f"{ticket.id}: {what or ticket.state}; {money(status)}"))
    return 0


def amend(options: argparse.Namespace) -> int:
    """Correct the money of tickets that were told; what was learned from them stays."""
    if (options.id is None) == (options.bill is None):
        raise InputError("amend: must have either a ticket's ID or --bill FILE.csv")
    if options.bill is not None and (options.cost is not None or options.penalty):
        raise InputError("--bill: must come without --cost and --penalty, which it has in columns")
    if options.id is not None and options.cost is None and not options.penalty:
        raise InputError("amend: must have --cost or --penalty beside the ticket's ID")
    with opened(options) as campaign:
        names = campaign.refreshed().controller.task.limit_names
        if options.bill is not None:
            rows = _bill(options.bill, names)
            count = campaign.amend_many(rows, note=options.note)
            status = campaign.status()
        else:
            penalty = by_name(options.penalty, "--penalty", names)
            campaign.amend(options.id, options.cost, penalty, note=options.note)
            ticket, status = campaign.ticket(options.id), campaign.status()
    if options.bill is None:
        return _print_ticket_after(options, ticket, status, "amended")
    return print_status_after(options, status, f"{count:,} tickets amended")


def _bill(path: str, limits: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of a bill: id, cost, and penalties by name; an empty cell changes nothing."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            heading = [cell.strip() for cell in next(reader, [])]
            _check_columns(heading, path, limits)
            rows, seen = list[dict[str, Any]](), set[str]()
            for cells in reader:
                if any(cells):
                    place = f"bill {path!r}, line {reader.line_num}"
                    rows.append(_bill_row(heading, cells, place))
                    if rows[-1]["id"] in seen:
                        raise InputError(f"{place}: id = {rows[-1]['id']!r}: must be there once")
                    seen.add(rows[-1]["id"])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        told = getattr(error, "strerror", None) or str(error)
        raise InputError(f"bill {path!r}: must be a readable CSV file ({told})") from error
    if not rows:
        raise InputError(f"bill {path!r}: must have a row for each ticket to be amended")
    return rows


def _check_columns(heading: Sequence[str], path: str, limits: Sequence[str]) -> None:
    allowed = ["id", "cost", *limits]
    for name in heading:
        if name not in allowed or heading.count(name) > 1:
            told = "is there twice" if name in allowed else f"is unknown; {nearest(name, allowed)}"
            raise InputError(f"bill {path!r}: column {name!r} {told}")
    if "id" not in heading or len(heading) < 2:
        raise InputError(f"bill {path!r}: must have the column id, and some of {allowed[1:]}")


def _bill_row(heading: Sequence[str], cells: Sequence[str], place: str) -> dict[str, Any]:
    if len(cells) != len(heading):
        raise InputError(f"{place}: has {len(cells)} columns; must have {len(heading)}")
    found = {name: cell.strip() for name, cell in zip(heading, cells, strict=True)}
    ticket, numbers = found.pop("id"), dict[str, float]()
    for name, cell in found.items():
        try:
            if cell:
                numbers[name] = float(cell)
        except ValueError:
            raise InputError(f"{place}: {name} = {cell!r}: must be a number") from None
    return {"id": ticket, "cost": numbers.pop("cost", None), "penalty": numbers}


def quarantine(options: argparse.Namespace) -> int:
    """List the reports that were refused and kept; tell one as it should have been; drop one."""
    if options.action != "list" and options.number is None:
        raise InputError(f"quarantine {options.action}: must be followed by a report's NUMBER")
    given = options.cost is not None or options.reward is not None or options.penalty
    if options.action != "correct" and (given or options.id is not None):
        raise InputError(f"quarantine {options.action}: takes no outcome; correct NUMBER does")
    with opened(options) as campaign:
        if options.action == "correct":
            penalty = penalty_of(options.penalty)
            campaign.correct(options.number, options.cost, options.reward, penalty, id=options.id)
        elif options.action == "discard":
            campaign.discard(options.number, note=options.note)
        kept, status = campaign.quarantine(), campaign.status()
    if options.action != "list":
        return print_status_after(
            options, status, f"report {options.number} {DONE[options.action]}"
        )
    if options.json:
        print_json(kept)
    elif kept:
        from tightrope.shell.campaign_tables import print_quarantine

        print_quarantine(kept)
    else:
        print("no report is in quarantine")
    return 0


DONE = {"correct": "taken as corrected", "discard": "discarded"}


# Looking.


def status(options: argparse.Namespace) -> int:
    """Show where a campaign stands: money, tickets, limits, arms."""
    with opened(options) as campaign:
        found, controller = campaign.status(), campaign.refreshed().controller
        task, means = controller.task, controller.means
    if options.json:
        print_json(found)
    else:
        from tightrope.shell.campaign_tables import print_status

        print_status(found, task, means)
    return 0


def tickets(options: argparse.Namespace) -> int:
    """List the tickets in flight, the oldest first."""
    with opened(options) as campaign:
        found = [campaign.ticket(one) for one in list(campaign.refreshed().ledger.tickets)]
    if options.json:
        print_json([one.table() for one in found])
    elif not found:
        print("no ticket is in flight")
    for one in [] if options.json else found:
        print(in_text(_ticket_words(one)))
    return 0


def why(options: argparse.Namespace) -> int:
    """Show what was known when a ticket's arm was chosen."""
    with opened(options) as campaign:
        found = campaign.why(options.id)
    if options.json:
        print_json(found.table())
    else:
        from tightrope.shell.campaign_tables import print_why

        print_why(found)
    return 0


def outlook(options: argparse.Namespace) -> int:
    """Show what can be said now about the end: chances that are proved, and projections."""
    with opened(options) as campaign:
        found = campaign.outlook(options.doubt)
    if options.json:
        limits = [{**asdict(one), "standing": one.standing} for one in found.limits]
        print_json(finite({**asdict(found), "limits": limits, "facts": found.facts()}))
    else:
        for line in str(found).splitlines():
            print(in_text(line))
    return 0


def finite(value: Any) -> Any:
    """The value with null in place of infinite numbers, which JSON does not have."""
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    return [finite(one) for one in value] if isinstance(value, list | tuple) else value


def events(options: argparse.Namespace) -> int:
    """Print the log: a line for each event, oldest first."""
    with stored(options) as store:
        require_campaign(store, options.campaign)
        rows = _rows(store, options.campaign, options.after, options.count)
        if options.json:
            before = "[\n"
            for line in _lines(store, options.campaign, rows):
                print(f"{before}  {line}", end="")
                before = ",\n"
            print("[]" if before == "[\n" else "\n]")
        else:
            from tightrope.shell.campaign_tables import event_words

            task = _task_of(store, options.campaign)
            for row in rows:
                print(in_text(event_words(row, task)))
    return 0


def _task_of(store: Store, name: str) -> Task | None:
    """The campaign's task, for the names of its arms; None if it cannot be followed here."""
    from tightrope.live import open_campaign

    try:
        with redirect_stdout(sys.stderr):
            return open_campaign(store, name).refreshed().controller.task
    except (HaltedError, PolicyError) as error:
        say(f"warning: {error}")
        return None


def _rows(store: Store, name: str, after: int = 0, count: int | None = None) -> Iterator[Row]:
    """The events as they are stored, also those that nobody here could follow."""
    if count is not None and count < 1:
        raise InputError(f"--count {count}: must be at least 1")

    def all_rows() -> Iterator[Row]:
        last = after
        while rows := store.read(name, last, min(count or AT_ONCE, AT_ONCE)):
            yield from rows
            last = rows[-1].seq

    return itertools.islice(all_rows(), count)


def _lines(store: Store, name: str, rows: Iterator[Row]) -> Iterator[str]:
    """Events as JSON, with all that is stored of them; the body verbatim, as its hash has it."""
    from tightrope.live.core import when

    notes = store.notes(name)
    for row in rows:
        head = {"seq": row.seq, "at": row.at, "time": when(row.at).isoformat(), "kind": row.kind}
        head |= {"ticket": row.ticket, "who": row.who, "version": row.version}
        tail = {"hash": row.hash.hex()}
        if row.seq in notes:
            tail["note"] = notes[row.seq]
        yield f'{json.dumps(head)[:-1]}, "body": {row.body}, {json.dumps(tail)[1:]}'


def export(options: argparse.Namespace) -> int:
    """Write the whole log as JSON lines, an event each, with its hash."""
    from tightrope.files import whole_file

    with stored(options) as store:
        require_campaign(store, options.campaign)
        lines = _lines(store, options.campaign, _rows(store, options.campaign))
        if options.out is None:
            for line in lines:
                print(line)
            return 0
        if os.path.realpath(options.out) == os.path.realpath(options.store):
            raise InputError(f"--out {options.out}: is the store; must be another file")
        count = 0
        with whole_file(options.out) as file:
            for line in lines:
                file.write(line.encode() + b"\n")
                count += 1
    say(f"wrote {count:,} events to {options.out}")
    return 0


def verify(options: argparse.Namespace) -> int:
    """Follow the log again, and compare it with every snapshot; status 1 if anything differs."""
    from tightrope.engine.progress import reporting
    from tightrope.live.verifying import verified

    with stored(options) as store, redirect_stdout(sys.stderr):
        require_campaign(store, options.campaign)
        saved = store.saved(options.campaign)
        total = max(saved.seq if saved else 1, 1)
        done = 0
        with reporting(None, total, "verifying") as report:

            def progress(events: int) -> None:
                nonlocal done
                report(events - done)
                done = events

            found = verified(store, options.campaign, None, progress)
    if options.json:
        print_json(found.table())
    else:
        for line in found.wrong:
            print(in_text(line))
        if found.good:
            print(_verified_words(found))
    return 0 if found.good else 1


def _verified_words(found: Any) -> str:
    how = {
        "to the bit": found.to_the_bit,
        "within rounding": found.within_rounding,
        "as to money, from before the last change of version": found.money_only,
    }
    told = ", ".join(f"{count:,} {words}" for words, count in how.items() if count)
    snapshots = "1 snapshot" if found.snapshots == 1 else f"{found.snapshots:,} snapshots"
    return f"good: events {found.first:,} to {found.events:,} rebuild {snapshots} ({told})"


def list_campaigns(options: argparse.Namespace) -> int:
    """List the campaigns of a store."""
    from tightrope.live import open_campaign

    found = []
    with stored(options) as store, redirect_stdout(sys.stderr):
        for name in store.names():
            try:
                found.append(open_campaign(store, name).status())
            except (HaltedError, PolicyError) as error:  # the others can be listed
                found.append({"name": name, "state": "halted", "why": str(error)})
    if options.json:
        print_json(found)
    elif found:
        from tightrope.shell.campaign_tables import print_list

        print_list(found)
    else:
        print("there is no campaign yet")
    return 0


# Changes.


def changed(
    options: argparse.Namespace, change: Callable[[Campaign], object], what: str = ""
) -> int:
    """Change a campaign, and say how it stands then."""
    with opened(options) as campaign:
        change(campaign)
        found = campaign.status()
    return print_status_after(options, found, what)


def pause(options: argparse.Namespace) -> int:
    """Make no decisions until the campaign is resumed; reports are taken."""
    return changed(options, lambda c: c.pause(options.why, note=options.note))


def resume(options: argparse.Namespace) -> int:
    """Decide again after a pause."""
    return changed(options, lambda c: c.resume())


def close(options: argparse.Namespace) -> int:
    """Make no more decisions, for good; reports are still taken."""
    return changed(options, lambda c: c.close())


def pin(options: argparse.Namespace) -> int:
    """Pull one arm until further notice; none lets the policy decide again."""
    if options.arm == "none":
        return changed(options, lambda c: c.pin(None), "no arm is pinned")
    return changed(
        options, lambda c: c.pin(arm_of(c, options.arm)), f"arm {options.arm!r} is pinned"
    )


def add_arm(options: argparse.Namespace) -> int:
    """Add an arm; nothing is known of it but what is said here."""

    def change(campaign: Campaign) -> None:
        given: dict[str, Any] = {"weight": options.weight, **_prices(campaign, options)}
        if options.like is not None:
            given["like"] = arm_of(campaign, options.like)
        campaign.add_arm(options.arm, **{k: v for k, v in given.items() if v is not None})

    return changed(options, change, f"arm {options.arm!r} is added")


def retire_arm(options: argparse.Namespace) -> int:
    """Never pull an arm again; its tickets in flight may still be told."""
    return changed(
        options, lambda c: c.retire_arm(arm_of(c, options.arm)), f"arm {options.arm!r} is retired"
    )


def reprice(options: argparse.Namespace) -> int:
    """Give an arm another known cost, or other known penalties, from here on."""
    if options.cost is None and not options.penalty:
        raise InputError("reprice: must have --cost or --penalty")
    return changed(
        options,
        lambda c: c.reprice(arm_of(c, options.arm), **_prices(c, options)),
        f"arm {options.arm!r} has another price",
    )


def _prices(campaign: Campaign, options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {} if options.cost is None else {"cost": options.cost}
    if options.penalty:
        names = campaign.refreshed().controller.task.limit_names
        found["penalty"] = by_name(options.penalty, "--penalty", names)
    return found


def add_budget(options: argparse.Namespace) -> int:
    """Add to the budget; limits in total stay."""
    return changed(options, lambda c: c.add_budget(options.amount), f"{options.amount:,g} is added")


def change(options: argparse.Namespace) -> int:
    """Go on with other limits, another policy or expiry; a new policy learns from the whole log."""
    given = {
        "policy": lasting(options.policy),
        "expire_after": options.expire_after,
        "per_day": options.per_day,
    }
    wanted: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if not wanted and not options.limit:
        raise InputError("change: must have --limit, --policy, --expire-after or --per-day")

    def act(campaign: Campaign) -> None:
        if options.limit:
            wanted["limits"] = _limits(campaign, options.limit)
        campaign.change(**wanted)

    return changed(options, act, "changed")


def _limits(campaign: Campaign, given: Sequence[Named]) -> dict[str, Any]:
    """Limits with other numbers, per what they were."""
    task = campaign.refreshed().controller.task
    kinds = dict(zip(task.limit_names, task.limit_kinds, strict=True))
    found = {}
    for name, value in by_name(given, "--limit", task.limit_names).items():
        if name not in kinds:
            raise InputError(f"limit {name!r}: is unknown; {nearest(name, kinds)}")
        kind: Any = kinds[name]
        keys = ("at_most", "total", "at_least")
        key = next(key for key in keys if getattr(kind, key, None) is not None)
        found[name] = replace(kind, **{key: value})
    return found


# Keeping.


def backup(options: argparse.Namespace) -> int:
    """Copy a store to a new SQLite file, as of one moment, while its campaigns go on."""
    from tightrope.live.keeping import backup_store

    with stored(options) as store:
        names = store.names()
        backup_store(store, options.file)
    if options.json:
        print_json({"file": options.file, "campaigns": names})
    else:
        print(in_text(f"copied {_count(len(names), 'campaign')} to {options.file}"))
    return 0


def restore(options: argparse.Namespace) -> int:
    """Make a new store from a backup; its campaigns are paused, and list what is in doubt."""
    from tightrope.live.keeping import restore_store

    with redirect_stdout(sys.stderr):
        found = restore_store(options.backup, options.store)
    if options.json:
        print_json(found)
        return 0
    for name, doubtful in found.items():
        told = ""
        if doubtful:
            told = f"; it cannot vouch for {_count(len(doubtful), 'ticket')}: "
            told += ", ".join(doubtful[:10]) + ", ..." * (len(doubtful) > 10)
        print(in_text(f"{name!r}: restored and paused{told}"))
    return 0


def archive(options: argparse.Namespace) -> int:
    """Move a campaign's older events from the store to a new file."""
    from tightrope.live.keeping import archive_events

    with opened(options) as campaign:
        count = archive_events(campaign, options.file, options.before - 1)
    if options.json:
        print_json({"file": options.file, "events": count})
    else:
        print(in_text(f"moved {_count(count, 'event')} to {options.file}"))
    return 0


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}" + "s" * (count != 1)
