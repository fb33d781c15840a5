"""Commands that change campaigns, and keep copies of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from tightrope.errors import InputError
from tightrope.names import in_text
from tightrope.shell.campaigns.opening import (
    arm_of,
    lasting,
    opened,
    print_status_after,
    require_campaign,
    stored,
)
from tightrope.shell.named import by_name
from tightrope.shell.saying import print_json

if TYPE_CHECKING:
    from tightrope.live import Campaign


__all__ = [
    "add_arm",
    "add_budget",
    "archive",
    "backup",
    "change",
    "close",
    "notes",
    "pause",
    "pin",
    "reprice",
    "restore",
    "resume",
    "retire_arm",
]


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


def notes(options: argparse.Namespace) -> int:
    """Show the notes that were left beside the log, or delete some of them."""
    with stored(options) as store:
        require_campaign(store, options.campaign)
        found = store.notes(options.campaign, options.forget)
    if options.json:
        print_json(found)
    else:
        for number, text in found.items():
            print(in_text(f"{number}: {text}"))
        if not found:
            print("there is no note")
    return 0


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
            names = campaign.refreshed().controller.task.limit_names
            wanted["limits"] = by_name(options.limit, "--limit", names)
        campaign.change(**wanted, archives=options.archive)

    return changed(options, act, "changed")


# Keeping.


def backup(options: argparse.Namespace) -> int:
    """Copy a store to a new SQLite file, as of one moment, while its campaigns go on."""
    from tightrope.files import require_writable
    from tightrope.live.keeping import backup_store

    with stored(options) as store:
        names = store.names()
        require_writable(options.file)
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
        try:
            count = archive_events(campaign, options.file, options.before - 1)
        except InputError as error:
            before = f"--before {options.before}: " * str(error).startswith("upto")
            raise InputError(f"{before}{error}") from None
    if options.json:
        print_json({"file": options.file, "events": count})
    else:
        print(in_text(f"moved {_count(count, 'event')} to {options.file}"))
    return 0


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}" + "s" * (count != 1)
