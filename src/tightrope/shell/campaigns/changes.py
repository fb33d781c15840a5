"""Commands that change campaigns, and those that keep copies of them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from functools import partial
from typing import Annotated, Any

import msgspec

import tightrope
from tightrope.change_forms import FieldInput, ShellForm
from tightrope.changes import CHANGES, CampaignChange, inputs_of
from tightrope.errors import InputError
from tightrope.formats import counted
from tightrope.shell.campaigns.access import (
    ArmName,
    AtCampaign,
    AtStore,
    OnOverrun,
    PerDay,
    arm_of,
    opened,
    require_campaign,
    status_after,
    stored,
    task_of,
    trust,
)
from tightrope.shell.commands import Argument, Command
from tightrope.shell.fits import names_of
from tightrope.shell.named import by_name, limits_of, named
from tightrope.shell.options import Json, PolicyName, TrustPolicy
from tightrope.shell.output import answer

# Commands that are made of ``tightrope.changes``.

METAVARS = {"text": "TEXT", "number": "X", "arm": "ARM", "type": "TYPE", "penalties": "NAME=X"}
VALUES = {"text": "opus", "number": "10", "arm": "sonnet", "type": "math", "penalties": "bad=0.02"}


def made(kind: type[CampaignChange], form: ShellForm) -> Command:
    """The command that makes a change; its words and options are the change's fields."""
    fields = [(one, how) for one, how in inputs_of(kind) if form.takes in ("", one.name)]
    how = {kind.place(): FieldInput("", kind="place"), **{one.name: how for one, how in fields}}

    def command(at: AtCampaign, **given: Any) -> int:
        with opened(at) as campaign:
            read = {name: _read(campaign, how[name], value) for name, value in given.items()}
            place = read.pop(kind.place(), "")
            wanted = kind(**read)
            wanted.require_some(form.name, "--")
            campaign.do(partial(wanted.do, place=place))
            found = campaign.status()
        return status_after(at, found, wanted.said(place, found))

    words = [_parameter("at", AtCampaign)]
    words += [_parameter(kind.place(), ArmName)] if kind.place() else []
    words += [_field(one, how, bool(form.takes)) for one, how in fields]
    line = [f"tightrope campaign {form.name} router.db november", *_example(kind, fields, form)]
    command.__name__ = form.name
    command.__doc__ = f"{form.text or kind.summary}.\n\n{' '.join(line)}"
    command.__annotations__ = {one.name: one.annotation for one in words}
    command.__signature__ = inspect.Signature(words)  # type: ignore[attr-defined]
    return command


def _example(
    kind: type[CampaignChange],
    fields: Sequence[tuple[msgspec.inspect.Field, FieldInput]],
    form: ShellForm,
) -> list[str]:
    """The words of an example after the campaign's name: those that are needed."""
    if form.example:
        return form.example.split()
    words = ["sonnet"] if kind.place() else []
    words += [VALUES[how.kind] for one, how in fields if form.takes or one.required]
    return (
        words
        + [f"--{one.name} {VALUES[how.kind]}" for one, how in fields if one.name in kind.some_of][
            :1
        ]
    )


def _parameter(name: str, kind: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """A word of the line; with a default, an option."""
    needed = default is inspect.Parameter.empty
    how = inspect.Parameter.POSITIONAL_OR_KEYWORD if needed else inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, how, default=default, annotation=kind)


def _field(field: msgspec.inspect.Field, how: FieldInput, needed: bool) -> inspect.Parameter:
    """The word, or the option, that a field is filled in by."""
    several, needed = how.kind == "penalties", needed or field.required
    metavar = how.metavar or METAVARS[how.kind]
    if needed and not how.metavar:
        metavar = field.name.upper()
    kind: Any = Sequence[str] if several else float if how.kind == "number" else str
    about = Argument(metavar, how.text, read=named if several else None)
    default = inspect.Parameter.empty if needed else () if several else field.default
    return _parameter(field.name, Annotated[kind, about], default)


def _read(campaign: tightrope.Campaign, how: FieldInput, given: Any) -> Any:
    """What was written, as the change takes it; None for nothing."""
    if how.kind == "arm" and given is not None:
        return None if given in how.metavar.split("|")[1:] else arm_of(campaign, given)
    if how.kind == "place":  # a path has names, which may look like numbers
        controller = campaign.refreshed().controller
        return controller.arm_name(controller.number_of(arm_of(campaign, given)))
    if how.kind == "penalties":
        return by_name(given, "--penalty", task_of(campaign).limit_names) or None
    return given


def notes(at: AtCampaign, *, forget: Annotated[Sequence[int], Argument(many=True)] = ()) -> int:
    """List the notes of a campaign, or delete some of them.

    A note is free text beside the log. The log itself never changes.

    tightrope campaign notes router.db november --forget 12

    forget NUMBER: delete the notes of these events
    """
    with stored(at) as store:
        require_campaign(store, at.campaign)
        found = store.notes(at.campaign, forget)
    lines = [f"{number}: {text}" for number, text in found.items()]
    return answer(at.json, found, lines or ["the campaign has no notes"])


def change(
    at: AtCampaign,
    *,
    limit: Sequence[str] = (),
    policy: PolicyName | None = None,
    expire_after: float | None = None,
    per_day: PerDay = None,
    on_overrun: OnOverrun | None = None,
    types: str | None = None,
    archive: Sequence[str] = (),
) -> int:
    """Change the limits, the policy or other terms of a campaign.

    A new policy learns from every report in the log.

    tightrope campaign change router.db november --limit bad=4%/pull
    tightrope campaign change router.db november --policy resolve:risk=0.01

    limit [NAME=]X[%][/pull|/cost|/reward|/total]: new limit; X alone keeps what the limit is per
    expire_after SECONDS: time to wait for the report of a new ticket
    on_overrun pause|alert: what follows an overrun from now on
    types NAME,...: types of requests from now on; earlier requests count for each in turn
    archive FILE: archived events, for a new policy to learn from
    """
    given = {"policy": policy, "expire_after": expire_after, "per_day": per_day}
    wanted = {**given, "on_overrun": on_overrun, "contexts": types and names_of(types)}
    if not limit and not any(one is not None for one in wanted.values()):
        options = "--limit, --policy, --expire-after, --per-day, --on-overrun or --types"
        raise InputError(f"change: must have {options}")
    with opened(at) as campaign:
        limits = limits_of(limit, task_of(campaign).limit_names) if limit else None
        campaign.change(limits=limits, **wanted, archives=archive)  # type: ignore[arg-type]
        found = campaign.status()
    return status_after(at, found, "changed")


# Keeping.


def backup(at: AtStore, file: str) -> int:
    """Copy a store to a new SQLite file, at one moment, while its campaigns continue.

    tightrope campaign backup router.db backup.db

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
    """Make a new store from a backup, with its campaigns paused.

    Each campaign lists the tickets that may have been reported after the backup.

    tightrope campaign restore backup.db router.db

    backup: a file that campaign backup wrote
    store: a new store
    """
    from tightrope.live.archive import restore_store

    trust(trust_policy)
    with redirect_stdout(sys.stderr):
        found = restore_store(backup, store)
    lines = [f"{name!r}: restored and paused{_doubt(one)}" for name, one in found.items()]
    return answer(json, found, lines)


def _doubt(tickets: Sequence[str]) -> str:
    more = ", ..." * (len(tickets) > 10)
    told = f"; {counted(len(tickets), 'ticket')} in doubt: {', '.join(tickets[:10])}"
    return f"{told}{more}" if tickets else ""


def archive(at: AtCampaign, file: str, *, before: int) -> int:
    """Move a campaign's older events from the store to a new file of JSON lines.

    tightrope campaign archive router.db november old.jsonl --before 100000

    file: a new file
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


def erase_contexts(at: AtCampaign, *, before: str | None = None) -> int:
    """Erase the features of requests, in a campaign whose features are erasable.

    Money, reports and types stay. Tickets in flight keep their features.

    tightrope campaign erase-contexts router.db november --before 2026-11-01

    before TIME: erase those of earlier requests; default all
    """
    with opened(at) as campaign:
        count = campaign.erase_contexts(before)
    words = f"erased the features of {counted(count, 'request')}"
    return answer(at.json, {"erased": count}, [words])


MADE: tuple[Command, ...] = tuple(made(kind, form) for kind in CHANGES for form in kind.commands)
OF_ARMS = ("add-arm", "retire-arm", "reprice", "merge-types")
ARMS = tuple(one for one in MADE if one.__name__ in OF_ARMS)
CHANGING = (*(one for one in MADE if one.__name__ not in OF_ARMS), change)
