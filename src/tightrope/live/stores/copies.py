"""Copy a SQLite file, or the campaigns of any store into a new one."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress

from tightrope.errors import InputError, StoreError
from tightrope.live.stores.base import Store


def new_file(path: str) -> str:
    """The path of a file that must not exist yet."""
    if os.path.exists(path):
        raise InputError(f"file {path!r}: already exists; must be a new file")
    return path


def copy_file(source: str, path: str) -> None:
    """Copy a consistent state of a SQLite file; a failure leaves no file."""
    part = new_file(new_file(path) + ".part")
    try:
        with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(part)) as new:
            old.backup(new)  # in one step: writers go on
            new.execute("PRAGMA journal_mode = DELETE")
        os.replace(part, path)
    finally:
        with suppress(OSError):
            os.remove(part)


def copy_campaign(source: Store, target: Store, name: str) -> None:
    """Copy the committed events of a campaign, with its notes and snapshots."""
    after = 0
    while rows := source.read(name, after, 5000):
        with target.turn(name) as turn:
            turn.append(rows, {})
        after = rows[-1].seq
    for first in range(1, after + 1, 5000):
        if vectors := source.vectors(name, first, min(first + 4999, after)):
            with target.turn(name) as turn:
                turn.keep(vectors)
    notes = {seq: text for seq, text in source.notes(name).items() if seq <= after}
    with target.turn(name) as turn:
        turn.append([], notes)
    saved = source.saved(name, after)
    while saved is not None:
        target.save(name, saved)
        saved = source.saved(name, saved.seq - 1)


def copy_into_file(store: Store, path: str) -> None:
    """Copy each campaign in its own turn; a failure leaves no file."""
    from tightrope.live.stores.sqlite import SQLiteStore

    part = new_file(new_file(path) + ".part")
    made = SQLiteStore(part, create=True)
    try:
        for name in store.names():
            copy_campaign(store, made, name)
        made.close()
        os.replace(part, path)
    except OSError as error:
        raise StoreError(f"file {path!r}: cannot be written ({error.strerror})") from error
    finally:
        made.close()
        for suffix in ("", "-wal", "-shm", ".turn", ".queue"):
            if os.path.exists(part + suffix):
                os.remove(part + suffix)
