"""Copies of campaigns, and what leaves them: backups, archives, exports, erased features.

A restored store misses the decisions and reports made after the backup. So each campaign starts a
new epoch, which its tickets' ids show, pauses, and lists the tickets whose state is uncertain.
Reports of tickets created after the backup go to the quarantine, because their ids are unknown.
"""

from __future__ import annotations

import hashlib
import json
import os
from base64 import b85encode
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import cast

from tightrope.errors import InputError, StoreError
from tightrope.files import whole_file
from tightrope.live.arguments import moment
from tightrope.live.campaign import Campaign
from tightrope.live.core import restored
from tightrope.live.events import Row, event_of, line_of, text_of
from tightrope.live.featured import FeaturedController
from tightrope.live.follower import state_before
from tightrope.live.kinds import Archived, Asked, ContextsErased, Created, Restored, Stateful, Told
from tightrope.live.log import MANY, rows_of
from tightrope.live.past import NOT_KEPT
from tightrope.live.snapshots import task_of
from tightrope.live.stores import Saved, Store, Turn, open_store
from tightrope.live.stores.copies import copy_campaign
from tightrope.live.vectors import request_of
from tightrope.live.writer import Writer
from tightrope.problem.values import shown


def backup_store(store: str | Store, path: str) -> None:
    """Copy a consistent state of a store to a new SQLite file, while its campaigns go on."""
    opened = open_store(store, create=False)
    try:
        opened.backup(str(path))
    finally:
        if opened is not store:
            opened.close()


def restore_store(backup: str, store: str) -> dict[str, list[str]]:
    """Make a new store from a backup; returns the tickets of uncertain state, by campaign."""
    if "://" not in store and os.path.exists(store):
        raise InputError(f"store {store!r}: already exists; must be a new store")
    source = open_store(backup, create=False)
    target = open_store(store)
    found: dict[str, list[str]] = {}
    try:
        taken = set(source.names()) & set(target.names())
        if taken:
            raise InputError(
                f"campaign {min(taken)!r}: already exists in {target.url!r}; must be new there"
            )
        for name in source.names():
            found[name] = []
            copy_campaign(source, target, name)
            found[name] = _start_epoch(target, name)
    except BaseException as error:
        _take_back(target, store, list(found), error)
        raise
    finally:
        source.close()
    target.close()
    return found


def _take_back(target: Store, store: str, names: Sequence[str], error: BaseException) -> None:
    """Undo an incomplete restore: remove the new file, or the campaigns from a database."""
    try:
        for name in names if "://" in store else ():
            _remove_campaign(target, name)
    except StoreError:
        raise StoreError(
            f"{error}; the incomplete copies of {', '.join(map(repr, names))} could not be removed"
        ) from error
    finally:
        target.close()
        if "://" not in store:
            for end in ("", "-wal", "-shm", ".turn", ".queue"):
                Path(store + end).unlink(missing_ok=True)


def _remove_campaign(store: Store, name: str) -> None:
    """Delete a campaign from a store."""
    if notes := store.notes(name):
        store.notes(name, forget=list(notes))
    with store.turn(name) as turn:
        last = 0
        while rows := turn.read(last, 5000):
            last = rows[-1].seq
        if store.vectors(name, 1, last):
            turn.erase(last, (), last + 1)
        turn.drop(last + 1)


def _start_epoch(store: Store, name: str) -> list[str]:
    """Pause a restored campaign in a new epoch."""
    campaign = Campaign(store, name)

    def act(writer: Writer) -> list[str]:
        doubtful = list(writer.ledger.tickets)
        writer.emit(Restored(writer.ledger.epoch + 1, doubtful))
        return doubtful

    return list(campaign.do(act))


def archive_events(campaign: Campaign, path: str, upto: int) -> int:
    """Move a campaign's events up to number ``upto`` to a new file; returns their number.

    The file has a line of JSON for each event, like an export without notes. The log continues from
    a snapshot, whose hash is that of the last event in the file. Archived tickets are unknown from
    then on.
    """
    if os.path.exists(path):
        raise InputError(f"file {path!r}: already exists; must be a new file")
    ledger, store, name = campaign.refreshed().ledger, campaign.store, campaign.name
    needed = [one.seq for one in ledger.tickets.values()] + list(ledger.quarantine)
    most = min([*needed, ledger.seq]) - 1
    first = store.read(name, 0, 1)[0].seq
    if isinstance(upto, bool) or not isinstance(upto, int) or not first <= upto <= most:
        allowed = f"from {first} to {most}: later events belong to open tickets or reports"
        raise InputError(f"upto = {shown(upto)}: must be {allowed}")
    digest, last = hashlib.sha256(), b""
    with whole_file(path) as file:
        for row in rows_of(store, name, first - 1, upto - first + 1):
            line = line_of(row).encode() + b"\n"
            digest.update(line)
            file.write(line)
            last = row.hash
    store.save(name, Saved(upto, last, state_before(store, name, None, upto + 1).snapshot()))
    body = Archived(upto, last.hex(), digest.hexdigest())

    def act(writer: Writer) -> None:
        writer.emit(body)
        writer.drop = upto

    campaign.do(act)
    return upto - first + 1


def exported(store: Store, name: str, *, features: bool = True) -> Iterator[str]:
    """The events of a store as lines of JSON, with their notes; also unknown kinds.

    ``features``: whether to add the features that are outside of the log. Without features, those
    in the log are left out, and the hashes of their events do not fit any more.
    """
    notes, vectors = store.notes(name), {0: ""}
    for row in rows_of(store, name):
        if features and (row.seq % MANY == 1 or len(vectors) == 1):
            vectors = {0: "", **store.vectors(name, row.seq, row.seq + MANY - 1)}
        elif not features:
            row = _without_features(row)
        vector = vectors.get(row.seq)
        yield line_of(row, notes.get(row.seq), vector and vector.partition(" ")[2])


def _without_features(row: Row) -> Row:
    """An event without features: in its own body, in a log that was learned from, in the state."""
    if row.kind in (Asked.kind, Told.kind):
        body = json.loads(row.body) if '"features":' in row.body else {}
        return row if body.pop("features", None) is None else row._replace(body=json.dumps(body))
    event = event_of(row) if '"state":' in row.body else None
    if event is None or not isinstance(event.body, Stateful):
        return row
    stateful = event.body
    if not task_of(stateful.snapshot).feature_columns:
        return row
    controller = restored(stateful.snapshot, stateful.policy, stateful.code, None)
    cast(FeaturedController, controller).forget_requests()
    stateful.state = b85encode(controller.snapshot()).decode()
    if isinstance(stateful, Created):
        stateful.lines = stateful.lines and NOT_KEPT
    return row._replace(body=text_of(stateful))


def erase_contexts(
    campaign: Campaign, before: datetime | str | None = None, who: str | None = None
) -> int:
    """Erase the features of requests before a time, or of all; returns how many there were.

    An event records the erasure, and the policy forgets its latest requests. A snapshot is saved
    before anything is erased, because the events before it can no longer be replayed. An
    interrupted erasure is completed by the next one. ``who``: the author of the event; default:
    the campaign's.
    """
    core = campaign.refreshed()
    if not core.vectors.kept:
        raise InputError(
            f"campaign {campaign.name!r}: its features are not erasable; must be created with"
            " Features(..., erasable=True)"
        )
    last = None if before is None else _last_before(campaign, before, core.ledger.seq)

    def act(writer: Writer) -> int:
        upto = writer.ledger.seq if last is None else last
        writer.emit(ContextsErased(upto))
        return upto

    upto = campaign.do(act, who=who)
    saved, needed = campaign.save_snapshot()
    with campaign.store.turn(campaign.name) as turn:
        erased = turn.erase(upto, [*needed, *_reported_since(turn, saved)], saved)
    core.vectors.forget()
    return erased


def _reported_since(turn: Turn, after: int) -> Iterator[int]:
    """The requests of late reports after the snapshot, whose features a replay needs."""
    while rows := turn.read(after):
        for row in rows:
            body = event_of(row).body
            if isinstance(body, Told) and ":" in (body.features or ""):
                yield request_of(body.features or "")[0]
        after = rows[-1].seq


def _last_before(campaign: Campaign, before: datetime | str, last: int) -> int:
    """The number of the last event before a time."""
    store, name, at = campaign.store, campaign.name, moment(before, "before")
    first = store.read(name, 0, 1)[0]
    if at <= first.at:
        allowed = "after the first event in the store"
        raise InputError(f"before = {shown(str(before))}: must be {allowed}")
    numbers = range(first.seq, last + 1)
    return first.seq - 1 + bisect_left(numbers, at, key=lambda n: store.read(name, n - 1, 1)[0].at)
