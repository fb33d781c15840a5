"""What the commands have in common: opening a campaign, numbers with names, the closing line.

What a user's policy prints goes to standard error, so results are printed after it is done.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

from tightrope.errors import InputError
from tightrope.names import in_text
from tightrope.shell.named import by_name
from tightrope.shell.saying import print_json

if TYPE_CHECKING:
    from tightrope.live import Campaign
    from tightrope.live.stores import Store

__all__ = [
    "arm_of",
    "brief",
    "free",
    "lasting",
    "money",
    "opened",
    "penalty_of",
    "print_status_after",
    "require_campaign",
    "state",
    "stored",
]


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
    """The campaign that a command names; ``options.stdout`` is for what is printed meanwhile."""
    from tightrope.live import open_campaign

    options.stdout = sys.stdout
    with stored(options) as store, redirect_stdout(sys.stderr), brief():
        yield open_campaign(store, options.campaign)


@contextmanager
def brief() -> Iterator[None]:
    """A block that takes a moment, in which no kernels are compiled for later decisions."""
    from tightrope.live.background import Background

    before = Background.wanted
    Background.wanted = False
    try:
        yield
    finally:
        Background.wanted = before


def require_campaign(store: Store, name: str) -> None:
    """Raise unless the store has the campaign, whether or not it can be followed."""
    from tightrope.live.campaign import unknown_campaign

    if name not in store.names():
        raise unknown_campaign(store, name)


def arm_of(campaign: Campaign, text: str) -> int | str:
    """An arm by its name, or by its number where no arm has that name."""
    names = campaign.refreshed().controller.task.names
    return int(text) if text.isdecimal() and text not in names else text


def penalty_of(given: Sequence[str]) -> float | dict[str, float] | None:
    """Penalties by name; one alone may be without."""
    if len(given) == 1 and "=" not in given[0]:
        return float(given[0])
    return by_name(given, "--penalty") or None


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
    why = f" ({status['why']})" if status["why"] else ""
    return f"{status['state']}{why}"


def free(status: Mapping[str, Any]) -> str:
    """What is left of a campaign's budget."""
    return f"{status['free']:,.9g} of {status['budget']:,.9g} is free"


def money(status: Mapping[str, Any]) -> str:
    """What is left of a campaign's budget, and whether it has stopped."""
    stopped = "" if status["state"] == "open" else f"; the campaign is {state(status)}"
    return free(status) + stopped
