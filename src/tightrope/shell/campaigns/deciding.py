"""Commands that create campaigns, ask, tell, and mend what was told."""

from __future__ import annotations

import argparse
import csv
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from tightrope.errors import InputError, nearest
from tightrope.names import in_text
from tightrope.shell.campaigns.opening import (
    arm_of,
    brief,
    lasting,
    money,
    opened,
    penalty_of,
    print_status_after,
    stored,
)
from tightrope.shell.named import by_name
from tightrope.shell.saying import print_json, say

if TYPE_CHECKING:
    from tightrope.live import Ticket


__all__ = [
    "amend",
    "ask",
    "create",
    "quarantine",
    "tell",
    "void",
]


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
    with redirect_stdout(sys.stderr), brief():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            open_campaign("memory:", name, **wanted)  # so that a mistake leaves no file behind
        with stored(options, create=True) as store:
            exists = f"campaign {name!r}: exists already; must be a new name"
            if store.read(name, 0, 1) or store.saved(name):
                raise InputError(exists)
            campaign = open_campaign(store, name, **wanted)
            if next(campaign.events(0, 1)).who != campaign.who:
                raise InputError(exists)  # another process was faster
            status = campaign.status()
    arms = "1 arm" if len(status["arms"]) == 1 else f"{len(status['arms']):,} arms"
    what = f"created with {arms}, policy {status['policy']}, stop {status['stop']}"
    return print_status_after(options, status, what)


def ask(options: argparse.Namespace) -> int:
    """Ask which arm to pull now; the same --id again gives the same ticket."""
    if options.count is not None and options.id is not None:
        raise InputError(f"--count {options.count}: must be left out beside --id")
    with opened(options) as campaign:
        eligible = None
        if options.eligible is not None:
            eligible = [arm_of(campaign, text) for text in options.eligible]
        wanted: dict[str, Any] = {"eligible": eligible, "expire_after": options.expire_after}
        if options.count is None:
            tickets = [campaign.ask(options.id, **wanted)]
        else:
            tickets = campaign.ask_many(options.count, **wanted)
        with redirect_stdout(options.stdout):  # before anything else can go wrong
            _print_tickets(options, tickets)
        if len(tickets) < (options.count or 1):
            say(f"only {len(tickets):,} of {options.count:,}: {money(campaign.status())}")
    return 0


def _print_tickets(options: argparse.Namespace, tickets: Sequence[Ticket]) -> None:
    if options.json:
        tables = [one.table() for one in tickets]
        print_json(tables[0] if options.count is None else tables)
    else:
        from tightrope.shell.campaigns.tables import ticket_words

        for one in tickets:
            print(in_text(ticket_words(one)))
    sys.stdout.flush()


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
        from tightrope.shell.campaigns.tables import print_quarantine

        print_quarantine(kept)
    else:
        print("no report is in quarantine")
    return 0


DONE = {"correct": "taken as corrected", "discard": "discarded"}
