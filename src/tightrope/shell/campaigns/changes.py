"""Commands that change campaigns, and keep copies of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from typing import Annotated, Any

import tightrope
from tightrope.errors import InputError
from tightrope.formats import counted
from tightrope.shell.campaigns.access import (
    ArmName,
    AtCampaign,
    AtStore,
    Note,
    OnOverrun,
    Penalties,
    PerDay,
    arm_of,
    opened,
    require_campaign,
    status_after,
    stored,
    task_of,
    trust,
)
from tightrope.shell.commands import Argument
from tightrope.shell.named import by_name, limits_of
from tightrope.shell.options import Json, PolicyName, TrustPolicy
from tightrope.shell.output import answer


def changed(at: AtCampaign, change: Callable[[tightrope.Campaign], object], what: str = "") -> int:
    """Change a campaign, and say how it stands then."""
    with opened(at) as campaign:
        change(campaign)
        found = campaign.status()
    return status_after(at, found, what)


def pause(at: AtCampaign, *, why: str = "by hand", note: Note = None) -> int:
    """Make no decisions until the campaign is resumed; reports are taken.

    why TEXT: default 'by hand'
    """
    return changed(at, lambda c: c.pause(why, note=note))


def resume(at: AtCampaign) -> int:
    """Decide again after a pause."""
    return changed(at, lambda c: c.resume())


def close(at: AtCampaign) -> int:
    """Make no more decisions, for good; reports are still taken."""
    return changed(at, lambda c: c.close())


def pin(at: AtCampaign, arm: str) -> int:
    """Pull one arm until further notice; none lets the policy decide again.

    arm ARM|none: an arm's name or number, or none
    """
    if arm == "none":
        return changed(at, lambda c: c.pin(None), "no arm is pinned")
    return changed(at, lambda c: c.pin(arm_of(c, arm)), f"arm {arm!r} is pinned")


def add_arm(
    at: AtCampaign,
    arm: str,
    *,
    like: str | None = None,
    weight: float | None = None,
    cost: float | None = None,
    penalty: Penalties = (),
) -> int:
    """Add an arm; nothing is known of it but what is said here.

    arm: its name
    like ARM: another arm, whose mean outcomes are expected of it
    weight: as if seen in so many pulls; default 10
    cost: its price, where the task knows costs
    penalty: one that the task knows; X alone if there is one limit
    """

    def change(campaign: tightrope.Campaign) -> None:
        given: dict[str, Any] = {"weight": weight, **_prices(campaign, cost, penalty)}
        if like is not None:
            given["like"] = arm_of(campaign, like)
        campaign.add_arm(arm, **{k: v for k, v in given.items() if v is not None})

    return changed(at, change, f"arm {arm!r} is added")


def retire_arm(at: AtCampaign, arm: ArmName) -> int:
    """Never pull an arm again; its tickets in flight may still be told."""
    return changed(at, lambda c: c.retire_arm(arm_of(c, arm)), f"arm {arm!r} is retired")


def reprice(
    at: AtCampaign, arm: ArmName, *, cost: float | None = None, penalty: Penalties = ()
) -> int:
    """Give an arm another known cost, or other known penalties, from here on.

    cost: its cost from here on
    penalty: one that the task knows; X alone if there is one limit
    """
    if cost is None and not penalty:
        raise InputError("reprice: must have --cost or --penalty")
    return changed(
        at,
        lambda c: c.reprice(arm_of(c, arm), **_prices(c, cost, penalty)),
        f"arm {arm!r} has another price",
    )


def _prices(
    campaign: tightrope.Campaign, cost: float | None, penalty: Sequence[str]
) -> dict[str, Any]:
    found: dict[str, Any] = {} if cost is None else {"cost": cost}
    if penalty:
        found["penalty"] = by_name(penalty, "--penalty", task_of(campaign).limit_names)
    return found


def notes(at: AtCampaign, *, forget: Annotated[Sequence[int], Argument(many=True)] = ()) -> int:
    """Show the notes that were left beside the log, or delete some of them.

    forget NUMBER: delete the notes of these events; the log stays as it is
    """
    with stored(at) as store:
        require_campaign(store, at.campaign)
        found = store.notes(at.campaign, forget)
    lines = [f"{number}: {text}" for number, text in found.items()]
    return answer(at.json, found, lines or ["there is no note"])


def add_budget(at: AtCampaign, amount: float) -> int:
    """Add to the budget; limits in total stay.

    amount AMOUNT: in the task's cost units
    """
    return changed(at, lambda c: c.add_budget(amount), f"{amount:,g} is added")


def set_budget(at: AtCampaign, budget: float) -> int:
    """Raise or lower the budget; it must cover what is spent and reserved. Limits in total stay.

    budget BUDGET: the whole budget from here on, in the task's cost units
    """
    with opened(at) as campaign:
        promise = campaign.set_budget(budget).promise
        found = campaign.status()
    more = f"; {promise}" if promise else ""
    return status_after(at, found, f"the budget is {budget:,g}{more}")


def change(
    at: AtCampaign,
    *,
    limit: Sequence[str] = (),
    policy: PolicyName | None = None,
    expire_after: float | None = None,
    per_day: PerDay = None,
    on_overrun: OnOverrun | None = None,
    archive: Sequence[str] = (),
) -> int:
    """Go on with other limits, another policy or expiry; a new policy learns from the whole log.

    limit [NAME=]X[%][/pull|/cost|/reward|/total]: another limit; X alone is per what it was
    policy: the policy from here on
    expire_after SECONDS: of tickets asked for from here on
    on_overrun pause|alert: what happens after an overrun from here on
    archive FILE: the archived events, which a new policy learns from too
    """
    given = {"policy": policy, "expire_after": expire_after, "per_day": per_day}
    given["on_overrun"] = on_overrun
    wanted: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if not wanted and not limit:
        options = "--limit, --policy, --expire-after, --per-day or --on-overrun"
        raise InputError(f"change: must have {options}")

    def act(campaign: tightrope.Campaign) -> None:
        if limit:
            wanted["limits"] = limits_of(limit, task_of(campaign).limit_names)
        campaign.change(**wanted, archives=archive)

    return changed(at, act, "changed")


# Keeping.


def backup(at: AtStore, file: str) -> int:
    """Copy a store to a new SQLite file, as of one moment, while its campaigns go on.

    file: a new file
    """
    from tightrope.files import require_writable
    from tightrope.live.archive import backup_store

    with stored(at) as store:
        names = store.names()
        require_writable(file)
        backup_store(store, file)
    words = f"copied {counted(len(names), 'campaign')} to {file}"
    return answer(at.json, {"file": file, "campaigns": names}, [words])


def restore(backup: str, store: str, *, json: Json = False, trust_policy: TrustPolicy = ()) -> int:
    """Make a new store from a backup; its campaigns are paused, and list what is in doubt.

    backup: a file that backup wrote
    store: a new one
    """
    from tightrope.live.archive import restore_store

    trust(trust_policy)
    with redirect_stdout(sys.stderr):
        found = restore_store(backup, store)
    lines = [f"{name!r}: restored and paused{_doubt(one)}" for name, one in found.items()]
    return answer(json, found, lines)


def _doubt(tickets: Sequence[str]) -> str:
    more = ", ..." * (len(tickets) > 10)
    told = f"; it cannot vouch for {counted(len(tickets), 'ticket')}: {', '.join(tickets[:10])}"
    return f"{told}{more}" if tickets else ""


def archive(at: AtCampaign, file: str, *, before: int) -> int:
    """Move a campaign's older events from the store to a new file.

    file: a new file, of JSON lines
    before: move the events with numbers below N
    """
    from tightrope.live.archive import archive_events

    with opened(at) as campaign:
        try:
            count = archive_events(campaign, file, before - 1)
        except InputError as error:
            place = f"--before {before}: " * str(error).startswith("upto")
            raise InputError(f"{place}{error}") from None
    words = f"moved {counted(count, 'event')} to {file}"
    return answer(at.json, {"file": file, "events": count}, [words])


COMMANDS = (
    *(pause, resume, close, pin, add_arm, retire_arm, reprice, add_budget, set_budget, notes),
    change,
    *(backup, restore, archive),
)
