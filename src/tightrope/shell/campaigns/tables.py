"""Text of ``tightrope campaign``: tables of a campaign, lines of its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tightrope
from tightrope.formats import NOTHING, amounts, counted, number
from tightrope.names import in_table, in_text
from tightrope.shell.output import print_lines

if TYPE_CHECKING:
    from tightrope.live.events import Row
    from tightrope.live.status import Why

MOST_ARMS = 20  # rows of a table of arms
COLOURS = {"open": "green", "paused": "yellow", "halted": "red"}
MONEY = ("budget", "spent", "reserved", "free")
Means = Sequence[Sequence[float | None]]


def _print(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: int = 1,
    lines: Sequence[str] = (),
    tones: Sequence[str] = (),
) -> None:
    """Print a table whose first columns are aligned to the left, and lines below it.

    ``tones``: of the rows. On a narrow terminal the last columns are left out, and a line names
    them.
    """
    from tightrope.report.model import Column, Table, print_table

    columns = [
        Column(heading, [row[at] for row in rows], number=at >= left, tones=tones)
        for at, heading in enumerate(headings)
    ]
    print_table(Table(columns, notes=lines), spare=headings[:left:-1])


def print_status(status: Mapping[str, Any], task: tightrope.Task, means: Means) -> None:
    """A campaign's money, tickets, limits and arms."""
    from rich.console import Console
    from rich.text import Text

    head = Text(in_text(f"{status['name']}: "), "bold")
    head.append(in_text(state_words(status)), COLOURS.get(status["state"], "red"))
    Console(highlight=False, soft_wrap=True).print(head)
    shadow = ", shadow: another system acts" * status["shadow"]
    alert = ", continues after an overrun" * (status["on_overrun"] == "alert")
    print_lines([f"policy {status['policy']}, stop {status['stop']}{shadow}{alert}"])
    print_lines([status["promise"]] if status["promise"] else [])
    if status["pinned"] is not None:
        print_lines([f"arm {status['pinned']!r} is pinned"])
    accounts = {"budget": status, **status["hard"]}
    rows = []
    for name, one in accounts.items():
        used = (one["spent"] + one["reserved"]) / one["budget"] if one["budget"] else 0.0
        numbers = amounts([one[key] for key in MONEY])
        rows.append([name, *numbers, f"{100.0 * used:.1f} %"])
    _print(["", *MONEY, "used"], rows)
    print(_ticket_counts(status))
    print_lines([f"reward {number(status['reward'], 6)}", *_troubles(status)])
    _print_limits(status, task)
    _print_arms(status["arms"], task.channels, means)
    _print_types(status, task)


def _ticket_counts(status: Mapping[str, Any]) -> str:
    """Tickets by what has become of them."""
    held = status["asked"] - sum(status[key] for key in COUNTS)
    counts = [f"{status[key]:,} {word}" for key, word in COUNTS.items() if status[key]]
    counts += [f"{held:,} charged after a refused report"] if held else []
    return ": ".join([counted(status["asked"], "ticket"), *filter(None, [", ".join(counts)])])


COUNTS = {"in_flight": "in flight", "told": "reported", "voided": "voided", "expired": "expired"}
TROUBLES = {
    "quarantined": "reports in quarantine",
    "late": "reported after they had expired",
    "overruns": "reported or amended above their reservation",
    "refused": "reports refused and lost, because the quarantine was full",
}


def _troubles(status: Mapping[str, Any]) -> list[str]:
    found = [f"{status[key]:,} {words}" for key, words in TROUBLES.items() if status[key]]
    if status["doubtful"]:
        found.append(
            f"restored from a backup; {len(status['doubtful']):,} tickets in doubt:"
            f" {', '.join(status['doubtful'][:10])}"
        )
    return found


def _print_limits(status: Mapping[str, Any], task: tightrope.Task) -> None:
    """Each limit, and the rate so far; a limit that is exceeded so far is red."""
    if not task.limit_names:
        return
    totals = (status["spent"], status["told"], status["reward"])
    rows, tones = [], []
    for name, kind in zip(task.limit_names, task.limit_kinds, strict=True):
        penalty, base = status["penalties"][name], kind.base(*totals)
        rate = number(penalty / base) if base else NOTHING
        rows.append([name, f"{number(kind.number, 6)} {kind.words}", rate, number(penalty, 6)])
        tones.append("bad" if base and penalty / base > kind.number else "")
    _print(["limit", "at most", "so far", "penalty"], rows, left=2, tones=tones)


def _print_arms(
    arms: Sequence[Mapping[str, Any]],
    channels: Sequence[str],
    means: Means,
    chosen: str | None = None,
) -> None:
    """The arms with their pulls and mean outcomes; of many arms those most pulled."""
    order = list(range(len(arms)))
    if len(arms) > MOST_ARMS:
        order = sorted(order, key=lambda k: (arms[k]["arm"] != chosen, -arms[k]["pulls"]))
    pulls = sum(one["pulls"] for one in arms)
    headings = ["arm", "pulls", "share", "in flight", *(f"mean {name}" for name in channels)]
    rows = []
    for k in order[:MOST_ARMS]:
        one = arms[k]
        name = in_table(one["arm"]) + " (retired)" * bool(one.get("retired"))
        name += " ←" * (one["arm"] == chosen)
        share = f"{100.0 * one['pulls'] / pulls:.1f} %" if pulls else NOTHING
        told = [number(mean) for mean in means[k]]
        rows.append([name, f"{one['pulls']:,}", share, f"{one['in_flight']:,}", *told])
    more = [f"and {len(arms) - MOST_ARMS:,} arms more"] if len(arms) > MOST_ARMS else []
    _print(headings, rows, lines=more)


def _print_types(status: Mapping[str, Any], task: tightrope.Task) -> None:
    """The types of requests: their shares, what they earn and break, and the pulls of each arm."""
    if not (types := status.get("types")):
        return
    names = task.names[:MOST_ARMS]
    headings = [
        "type",
        "requests",
        "share",
        "mean reward",
        *(f"mean {m}" for m in task.limit_names),
    ]
    rows = []
    for one in types:
        sums = [one["reward"], *one["penalties"].values()]
        means = [number(total / one["told"]) if one["told"] else NOTHING for total in sums]
        pulls = [f"{one['pulls'][name]:,}" for name in names]
        row = [in_table(one["type"]), f"{one['asked']:,}", f"{100.0 * one['share']:.1f} %"]
        rows.append([*row, *means, *pulls])
    changed = ["the mix of types has changed among the last requests"] * status["mix_changed"]
    _print([*headings, *map(in_table, names)], rows, lines=changed)


def print_why(why: Why) -> None:
    """What was known when an arm was chosen."""
    at = why.at.strftime("%Y-%m-%d %H:%M:%S UTC")
    by = "because it was pinned" if why.pinned else f"by {why.policy}"
    others = [f"{name!r}" for name in why.among[:MOST_ARMS]]
    more = f" and {len(why.among) - MOST_ARMS:,} more" * (len(why.among) > MOST_ARMS)
    print_lines(
        [
            f"{why.id}: {why.arm!r} was chosen{_for_type(why.context)} {by}, {at}, event"
            f" {why.event:,}",
            f"among {', '.join(others)}{more}, with {why.free:,.9g} of the budget free",
        ]
    )
    channels = [key for key in why.arms[0] if key not in ("arm", "pulls", "in_flight")]
    means = [[one[channel] for channel in channels] for one in why.arms]
    _print_arms(why.arms, channels, means, why.arm)


def _for_type(context: Any) -> str:
    if isinstance(context, Mapping):
        return f" for {', '.join(f'{name} {value}' for name, value in context.items())}"
    return "" if context is None else f" for type {context!r}"


def print_list(campaigns: Sequence[Mapping[str, Any]]) -> None:
    """Campaigns in a line each."""
    if not campaigns:
        print("the store has no campaign yet")
        return
    rows, halted = [], []
    for one in campaigns:
        if one["state"] == "halted":
            halted.append(f"{one['name']}: {one['why']}")
            rows.append([one["name"], "halted", *[NOTHING] * 6])
        else:
            numbers = amounts([one[key] for key in MONEY])
            flying = f"{one['in_flight']:,}"
            rows.append([one["name"], one["state"], *numbers, flying, one["policy"]])
    _print(["campaign", "state", *MONEY, "in flight", "policy"], rows, left=2, lines=halted)


def refused_words(report: Mapping[str, Any]) -> str:
    """A refused report in a line, with why."""
    at = report["at"].partition(".")[0].replace("T", " ")
    return f"{report['number']}: {at} UTC: {report['why']}"


def state_words(status: Mapping[str, Any]) -> str:
    """A campaign's state, with why it is paused."""
    why = f" ({status['why']})" if status["why"] else ""
    return f"{status['state']}{why}"


def free_words(status: Mapping[str, Any]) -> str:
    """What is left of a campaign's budget."""
    return f"{status['free']:,.9g} of {status['budget']:,.9g} is free"


def money_words(status: Mapping[str, Any]) -> str:
    """What is left of a campaign's budget, and whether it has stopped."""
    stopped = "" if status["state"] == "open" else f"; the campaign is {state_words(status)}"
    return free_words(status) + stopped


def ticket_words(ticket: tightrope.Ticket) -> str:
    """A ticket in a line."""
    if ticket.state != "open":
        return f"{ticket.id}: {ticket.arm!r}, already {ticket_state(ticket)}"
    kind = _for_type(ticket.context)
    held = f"{ticket.reserved:,g} is reserved" if ticket.reserved else "nothing is reserved"
    by = ticket.expires_at.strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{ticket.id}: pull {ticket.arm!r}{kind}; {held}, report by {by}"


def ticket_state(ticket: tightrope.Ticket) -> str:
    """A ticket's state in words: those of ``COUNTS``."""
    return COUNTS.get(ticket.state, ticket.state)


# Lines of the log.


def event_words(row: Row, task: tightrope.Task | None) -> str:
    """An event in a line; ``task``: where the names of arms are."""
    from tightrope.live.events import when, words_of

    at = when(row.at).strftime("%Y-%m-%d %H:%M:%S")
    ticket = f"{row.ticket}  " if row.ticket is not None else ""
    return f"{row.seq:>6}  {at}  {row.kind:<12} {ticket}{words_of(row, task)}".rstrip()
