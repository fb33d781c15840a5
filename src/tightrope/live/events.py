"""The events of a campaign's log: what they are called, how they are stored, the chain of hashes.

A log is one total order of events. Each says when, by whom and under which version of the rules it
was written, and carries all that following it takes: the decision, the told numbers as they were
told, and the money that it moved, in ticks. Nothing is derived again from anything else, so money
adds up in the same way for ever. Each event's hash covers the hash before it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from tightrope.errors import HaltedError

__all__ = ["KINDS", "START", "VERSION", "Event", "Row", "event_of", "row_of"]

decoded = json.JSONDecoder().raw_decode  # what json.loads does, without its preparations
_new = tuple.__new__  # of a NamedTuple, half the time of its own
_fresh = blake2b(digest_size=16).copy
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
    return stored(before, seq, at, kind, ticket, who, version, body_text(kind, body))


def body_text(kind: str, body: dict[str, Any]) -> str:
    """The body of an event as it is stored; the usual ones have no spaces after names."""
    if kind == "asked" and len(body) == 3 and "m" in body:
        return f'{{"arm":{body["arm"]},"x":{body["x"]},"m":{body["m"]}}}'
    if kind == "told" and len(body) == 4:
        return f'{{"arm":{body["arm"]},"v":{body["v"]},"s":{body["s"]},"m":{body["m"]}}}'
    return json.dumps(body)


def stored(
    before: bytes, seq: int, at: int, kind: str, ticket: str | None, who: str, version: int,
    text: str,
) -> Row:  # fmt: skip
    """A row from its columns, with its hash."""
    made = _fresh()
    made.update(before + f"{seq}\n{at}\n{kind}\n{ticket}\n{who}\n{version}\n{text}".encode())
    return _new(Row, (seq, at, kind, ticket, who, version, text, made.digest()))


def chained(before: bytes, row: Sequence[Any]) -> bytes:
    """The hash of an event, from all its columns and the hash before it."""
    made = _fresh()
    made.update(before + "\n".join(map(str, row[:7])).encode())  # no column has a \n
    return made.digest()


def event_of(row: Row, before: bytes | None = None) -> Event:
    """The event that a row holds; raises if it is unknown, or does not follow ``before``."""
    seq, at, kind, ticket, who, version, body, _ = row
    if version > VERSION or kind not in KINDS:
        raise HaltedError(
            f"event {seq}: kind {kind!r} of version {version}; must be known here, and"
            f" at most version {VERSION}: a newer program wrote it, so upgrade this one"
        )
    if before is not None:
        require_chained(row, before)
    return Event(seq, at, kind, ticket, who, version, body_of(seq, body))


def require_chained(row: Row, before: bytes) -> None:
    """Raise unless a row follows the one with the hash ``before``."""
    seq, at, kind, ticket, who, version, text, own = row
    made = _fresh()
    made.update(before + f"{seq}\n{at}\n{kind}\n{ticket}\n{who}\n{version}\n{text}".encode())
    if made.digest() != own:
        raise HaltedError(f"event {seq}: its hash does not follow from the event before it")


def body_of(seq: int, text: str) -> dict[str, Any]:
    """The body of an event, as it is followed."""
    try:
        return decoded(text)[0]  # type: ignore[no-any-return]
    except ValueError as error:
        raise HaltedError(f"event {seq}: its body cannot be read") from error
