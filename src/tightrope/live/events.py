"""The events of a campaign's log: what they are called, how they are stored, the chain of hashes.

A log is one total order of events. Each says when, by whom and under which version of the rules it
was written, and carries all that following it takes: the decision, the told numbers as they were
told, and the money that it moved, in ticks. Nothing is derived again from anything else, so money
adds up in the same way for ever. Each event's hash covers the hash before it.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any, NamedTuple

from tightrope.errors import HaltedError

__all__ = ["KINDS", "START", "VERSION", "Event", "Row", "event_of", "row_of"]

_decoded = json.JSONDecoder().raw_decode
VERSION = 1  # of the rules by which events are followed; a newer one stops an older process
START = bytes(16)  # the hash before the first event

KINDS = frozenset(
    [
        "created",  # task, policy, budget and settings; carries the policy's state
        "asked",  # a decision: a ticket, its arm, what is reserved for it
        "told",  # the outcome of a ticket
        "voided",  # a ticket that was not carried out
        "expired",  # a ticket of which nothing was heard in time
        "quarantined",  # a report that was refused
        "discarded",  # a quarantined report that nobody will correct
        "amended",  # other money for a ticket that was told
        "paused",
        "resumed",
        "closed",
        "pinned",  # all decisions are one arm, or the policy's again
        "arm_added",
        "arm_retired",
        "repriced",
        "budget_added",
        "changed",  # other limits or another policy; carries the policy's state
        "upgraded",  # another version of the program; carries the policy's state
        "restored",  # from a backup: a new epoch
        "archived",  # older events were moved to a file
    ]
)


class Row(NamedTuple):
    """An event as it is stored."""

    seq: int  # from 1, without gaps
    at: int  # log time in microseconds since 1970, never smaller than that of the event before
    kind: str
    ticket: str | None
    who: str
    version: int
    body: str  # JSON
    hash: bytes


class Event(NamedTuple):
    """An event as it is followed."""

    seq: int
    at: int
    kind: str
    ticket: str | None
    who: str
    version: int
    body: dict[str, Any]


def row_of(event: Event, before: bytes) -> Row:
    """The event as it is stored after the one with the hash ``before``."""
    seq, at, kind, ticket, who, version, body = event
    if kind == "asked" and len(body) == 3 and "m" in body:  # the usual ones, as json would
        text = f'{{"arm":{body["arm"]},"x":{body["x"]},"m":{body["m"]}}}'
    elif kind == "told" and len(body) == 4:
        text = f'{{"arm":{body["arm"]},"v":{body["v"]},"s":{body["s"]},"m":{body["m"]}}}'
    else:
        text = json.dumps(body)
    facts = seq, at, kind, ticket, who, version, text
    return Row(*facts, chained(before, facts))


def chained(before: bytes, facts: tuple[Any, ...]) -> bytes:
    """The hash of an event, from all its columns and the hash before it."""
    line = "%d\n%d\n%s\n%s\n%s\n%d\n%s" % facts  # noqa: UP031, the quickest; no column has a \n
    return blake2b(before + line.encode(), digest_size=16).digest()


def event_of(row: Row, before: bytes | None = None) -> Event:
    """The event that a row holds; raises if it is unknown, or does not follow ``before``."""
    seq, at, kind, ticket, who, version, body, own = row
    if version > VERSION or kind not in KINDS:
        raise HaltedError(
            f"event {seq}: kind {kind!r} of version {version}; must be known here, and"
            f" at most version {VERSION}: a newer program wrote it, so upgrade this one"
        )
    if before is not None and chained(before, (seq, at, kind, ticket, who, version, body)) != own:
        raise HaltedError(f"event {seq}: its hash does not follow from the event before it")
    try:
        table = _decoded(body)[0]  # what json.loads does, without its preparations
    except ValueError as error:
        raise HaltedError(f"event {seq}: its body cannot be read") from error
    return Event(seq, at, kind, ticket, who, version, table)
