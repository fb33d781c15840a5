"""Copies of campaigns: back up and restore a store, move old events to a file.

A restored store misses the decisions and reports made after the backup. So each campaign starts a
new epoch, which its tickets' ids show, pauses, and lists the tickets whose state is uncertain.
Reports of tickets created after the backup go to the quarantine, because their ids are unknown.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from tightrope.errors import InputError, StoreError
from tightrope.files import whole_file
from tightrope.live.campaign import Campaign
from tightrope.live.events import line_of
from tightrope.live.follower import state_before
from tightrope.live.kinds import Archived, Restored
from tightrope.live.log import rows_of
from tightrope.live.stores import Saved, Store, open_store
from tightrope.live.stores.copies import copy_campaign
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
