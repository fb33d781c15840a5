"""What the commands share: opening a campaign, numbers with names, the closing line.

A user's policy prints to standard error, so results are printed after it has run.
"""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tightrope
from tightrope.errors import InputError
from tightrope.shell.campaigns import tables
from tightrope.shell.commands import Argument
from tightrope.shell.fits import LogColumns, names_of
from tightrope.shell.named import by_name, named, number_or_text
from tightrope.shell.options import CampaignName, Json, StoreName, TrustPolicy
from tightrope.shell.output import answer

if TYPE_CHECKING:
    from tightrope.live.stores import Store

ArmName = Annotated[str, Argument("ARM", "an arm's name, or its number from 0")]
Note = Annotated[str | None, Argument("TEXT", "a note to keep beside the log")]
Penalties = Annotated[
    Sequence[str],
    Argument("NAME=X", "a penalty by its limit's name; X alone if there is one limit", read=named),
]
OnOverrun = Literal["pause", "alert"]
PerDay = Annotated[float | None, Argument(help="largest amount to spend per day (UTC)")]
TicketId = Annotated[str, Argument("ID", "the ticket's id")]


@dataclass(frozen=True)
class AtStore:
    """The store of a command, and how the command answers."""

    store: StoreName
    _: KW_ONLY
    json: Json = False
    trust_policy: TrustPolicy = ()


@dataclass(frozen=True)
class AtCampaign(AtStore):
    """The campaign of a command, and how the command answers."""

    campaign: CampaignName


def trust(policies: Sequence[str]) -> None:
    """Run the code of policies that a store may name; what it prints goes to standard error."""
    from tightrope.policies.naming import trust_policy

    with redirect_stdout(sys.stderr):
        for one in policies:
            trust_policy(one)


@contextmanager
def stored(at: AtStore, *, create: bool = False) -> Iterator[Store]:
    """The store that a command names."""
    from tightrope.live.stores import open_store

    if at.store == "memory:":
        raise InputError("store 'memory:': ends with the command; must be a file or a database")
    trust(at.trust_policy)
    store = open_store(at.store, create=create)
    try:
        yield store
    except KeyboardInterrupt as stop:
        if str(stop):
            raise
        text = "interrupted; campaign status shows whether it was recorded"
        raise KeyboardInterrupt(text) from stop
    finally:
        store.close()


@contextmanager
def opened(at: AtCampaign) -> Iterator[tightrope.Campaign]:
    """The campaign that a command names."""
    with stored(at) as store, redirect_stdout(sys.stderr), brief():
        yield tightrope.open_campaign(store, at.campaign)


@contextmanager
def brief() -> Iterator[None]:
    """A block that takes a moment, in which no kernels are compiled for later decisions."""
    from tightrope.live.calls import Background

    before = Background.wanted
    Background.wanted = False
    try:
        yield
    finally:
        Background.wanted = before


def require_campaign(store: Store, name: str) -> None:
    """Raise unless the store has the campaign, whether or not it can be followed."""
    from tightrope.live.follower import unknown_campaign

    if name not in store.names():
        raise unknown_campaign(store, name)


def task_of(campaign: tightrope.Campaign) -> tightrope.Task:
    """The campaign's task as it is now."""
    return campaign.refreshed().controller.task


def arm_of(campaign: tightrope.Campaign, text: str) -> int | str:
    """An arm by its name, or by its number where no arm has that name."""
    task = task_of(campaign)
    plain = task.space is not None or text in task.names or not text.isdecimal()
    return text if plain else int(text)


def eligible_of(campaign: tightrope.Campaign, words: Sequence[str] | None) -> Any:
    """The arms that may be pulled; over an interval LOW HIGH, over a box NAME=LOW,HIGH each."""
    if words is None or (space := task_of(campaign).space) is None:
        return None if words is None else [arm_of(campaign, text) for text in words]
    if space.side_count == 1:
        return [_number(word) for word in words]
    pairs = (word.partition("=") for word in words)
    return {name: [_number(one) for one in ends.split(",")] for name, _, ends in pairs}


def _number(text: str) -> str | float:
    """A number; other text as it is."""
    try:
        return number_or_text(text)
    except ArgumentTypeError as error:
        raise InputError(str(error)) from None


def context_of(campaign: tightrope.Campaign, text: str) -> Any:
    """The context of a request: a type, or features between commas, in order or by name."""
    contexts = task_of(campaign).contexts
    if not hasattr(contexts, "columns"):
        return text
    halves = [word.rpartition("=") for word in names_of(text)]
    values = [_number(value) for _, _, value in halves]
    if all(name for name, _, _ in halves):
        return {name: value for (name, _, _), value in zip(halves, values, strict=True)}
    return (values[0], values[1:]) if getattr(contexts, "types", 0) else values


def past_of(path: str | None, columns: LogColumns, task: tightrope.Task) -> tightrope.Log | None:
    """The log that a new campaign learns from; the penalties are those of the task by default."""
    from tightrope.data.reading import format_of

    if path is None:
        columns.require_none("--learn-from FILE")
        return None
    exported = format_of(path, None) == "campaign"
    penalties = {} if exported else {"penalty": task.told_names}
    return tightrope.read_log(path, **{**penalties, **columns.given})


def penalty_of(given: Sequence[str]) -> float | dict[str, float] | None:
    """Penalties by name; one alone may be without."""
    if len(given) == 1 and "=" not in given[0]:
        return float(given[0])
    return by_name(given, "--penalty") or None


def status_after(at: AtCampaign, status: Mapping[str, Any], what: str = "") -> int:
    """Print what was done to a campaign, and what it has left."""
    state = f"{tables.state_words(status)}; {tables.free_words(status)}"
    told = f"{what}; {tables.money_words(status)}" if what else state
    return answer(at.json, status, [f"{status['name']!r}: {told}"])


def ticket_after(
    at: AtCampaign, id: str, act: Callable[[tightrope.Campaign], object], what: str = ""
) -> int:
    """Do something about a ticket; print what became of it, and what the campaign has left."""
    with opened(at) as campaign:
        act(campaign)
        ticket, status = campaign.ticket(id), campaign.status()
    words = f"{ticket.id}: {what or tables.ticket_state(ticket)}; {tables.money_words(status)}"
    return answer(at.json, ticket.table(), [words])
