"""The events of a campaign's log: how they are stored and exported, the chain of hashes.

A log is one total order of events. Each event records its time, its author and the version of the
rules, and everything that replaying it needs: the decision, the reported numbers, and the money
that it moved, in ticks. Nothing is derived from other data, so money always adds up the same way.
``kinds`` lists the kinds of events and their fields.

An event is encoded once. Its hash covers the text that is stored, and the hash before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from tightrope.errors import HaltedError, InputError
from tightrope.live.kinds import KINDS, Body

if TYPE_CHECKING:
    from tightrope.problem import Task

VERSION = 2  # of the bodies and of the rules to apply them; a newer one halts a process
START = bytes(16)  # the hash before the first event
new_hash = blake2b(digest_size=16).copy
new = tuple.__new__  # of a NamedTuple, in half the time of its own


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


class Event(msgspec.Struct, frozen=True, gc=False):
    """An event as it is applied."""

    seq: int
    at: int
    kind: str
    ticket: str | None
    who: str
    version: int
    body: Body
    hash: bytes


def stored(
    before: bytes, seq: int, at: int, kind: str, ticket: str | None, who: str, version: int,
    text: str,
) -> Row:  # fmt: skip
    """An event as it is stored after the one with the hash ``before``."""
    columns = f"{seq}\n{at}\n{kind}\n{ticket}\n{who}\n{version}\n{text}"  # no column has a \n
    made = new_hash()
    made.update(before + columns.encode())
    return new(Row, (seq, at, kind, ticket, who, version, text, made.digest()))


def event_of(row: Row, before: bytes | None = None) -> Event:
    """The event in a row; raises if its kind is unknown or its hash does not follow ``before``."""
    seq, at, kind, ticket, who, version, text, own = row
    if not isinstance(version, int) or version > VERSION or kind not in KINDS:
        raise HaltedError(
            f"event {seq}: kind {kind!r} of version {version}; must be a known kind and at most "
            f"version {VERSION}: a newer program wrote it, so upgrade this one"
        )
    if before is not None and stored(before, *row[:7]).hash != own:
        raise HaltedError(f"event {seq}: its hash does not follow from the event before it")
    try:
        body = _old_body(kind, text) if version == 1 else DECODE[kind](text)
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise HaltedError(f"event {seq}: its body cannot be read") from error
    return Event(seq, at, kind, ticket, who, version, body, own)


def cannot_follow(event: Event, error: Exception) -> HaltedError:
    """The error for an event that cannot be applied."""
    told = " ".join(str(error).split()) or type(error).__name__
    return HaltedError(f"event {event.seq} ({event.kind}): cannot be applied ({told:.200})")


# Bodies as text.

DECODE: dict[str, Callable[[str], Body]] = {
    kind: msgspec.json.Decoder(body).decode for kind, body in KINDS.items()
}
encode = msgspec.json.Encoder().encode
NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def text_of(body: Body) -> str:
    """A body as JSON in ASCII, which every store and terminal can hold."""
    text = encode(body).decode()
    return text if text.isascii() else NOT_ASCII.sub(lambda one: json.dumps(one[0])[1:-1], text)


OLD_NAMES = {  # of fields, by kind, in the bodies that version 0.2 wrote
    "asked": {"x": "expires_at", "t": "ttl", "e": "eligible", "f": "among", "pin": "pinned"},
    "told": {
        "v": "values", "s": "settled", "p": "penalties", "k": "kept", "u": "undone",
        "q": "corrected",
    },
    "amended": {"p": "shifts"},
    "arm_added": {"arm": "facts"},
    "repriced": {"arm": "facts"},
}  # fmt: skip


def _old_body(kind: str, text: str) -> Body:
    """A body that version 0.2 wrote."""
    names = {"m": "moves", **OLD_NAMES.get(kind, {})}
    given = {names.get(key, key): value for key, value in json.loads(text).items()}
    return msgspec.convert(given, KINDS[kind], strict=False, str_keys=True)


# Events outside of stores.


@lru_cache(maxsize=16)
def when(at: int) -> datetime:
    """A log time as a date."""
    try:
        return datetime.fromtimestamp(at / 1e6, UTC)
    except (ValueError, OverflowError, OSError):
        raise HaltedError(
            f"at = {at}: must be microseconds since 1970, before the year 10000"
        ) from None


def line_of(row: Row, note: str | None = None, vector: str | None = None) -> str:
    """An event as a line of JSON with all stored fields; the body is verbatim.

    Exports, archives, HTTP and the pages use this format. ``vector``: the features of the request,
    which are outside of the log.
    """
    head = {"seq": row.seq, "at": row.at, "time": when(row.at).isoformat(), "kind": row.kind}
    head |= {"ticket": row.ticket, "who": row.who, "version": row.version}
    more = {"note": note, "vector": vector}
    tail = {"hash": row.hash.hex(), **{key: one for key, one in more.items() if one is not None}}
    return f'{json.dumps(head)[:-1]}, "body": {row.body}, {json.dumps(tail)[1:]}'


class Line(msgspec.Struct):
    """The fields read from such a line."""

    seq: int
    at: int | str  # a date in what the pages of 0.2 wrote
    kind: str
    ticket: str | None
    who: str
    body: msgspec.Raw
    version: int = 1
    hash: str = ""
    vector: str = ""


read_line = msgspec.json.Decoder(Line).decode


def row_of_line(line: str | bytes, *, whole: bool = False) -> Row:
    """The event in a line that ``line_of`` or version 0.2 wrote.

    ``whole``: with the features of its request in the body, where the log has their digest.
    """
    try:
        one = read_line(line)
        body, at = bytes(one.body), one.at
        if body.startswith(b'"'):  # an archive of 0.2 has text within text
            body = msgspec.json.decode(body, type=str).encode()
        if isinstance(at, str):
            at = round(datetime.fromisoformat(at).timestamp() * 1e6)
        own = bytes.fromhex(one.hash)
        if whole and one.vector:
            body = encode(json.loads(body) | {"features": one.vector})
        text = body.decode()
    except (msgspec.MsgspecError, ValueError):
        raise InputError("must be an event as 'tightrope campaign export' writes it") from None
    return Row(one.seq, at, one.kind, one.ticket, one.who, one.version, text, own)


def words_of(row: Row, task: Task | None, amount: Callable[[float], str] = "{:g}".format) -> str:
    """An event in a few words; ``task`` has the names of the arms."""
    try:
        return event_of(row).body.words(task, amount)
    except (HaltedError, LookupError):  # an event of a newer program
        return row.body[:200]
