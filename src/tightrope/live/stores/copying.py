"""Copy the campaigns of any store into a new SQLite file."""

from __future__ import annotations

import os

from tightrope.errors import InputError, StoreError
from tightrope.live.stores.base import Store

__all__ = ["copy_into_file", "new_file"]


def new_file(path: str) -> str:
    """The path of a file that must not exist yet."""
    if os.path.exists(path):
        raise InputError(f"file {path!r}: exists; must be a new one")
    return path


def copy_into_file(store: Store, path: str) -> None:
    """Each campaign as it is committed when its turn comes; nothing is left after a failure."""
    from tightrope.live.stores.sqlite import SQLiteStore

    made = SQLiteStore(new_file(path + ".part"), create=True)
    new_file(path)
    try:
        for name in store.names():
            after = 0
            head = store.saved(name)
            first = store.read(name, 0, 1)
            after = first[0].seq - 1 if first else 0
            while rows := store.read(name, after, 5000):
                with made.turn(name) as turn:
                    turn.append(rows, {})
                after = rows[-1].seq
            with made.turn(name) as turn:
                turn.append([], store.notes(name))
            if head is not None and head.seq <= after:
                made.save(name, head)
        made.close()
        os.replace(path + ".part", path)
    except BaseException as error:
        made.close()
        for suffix in ("", "-wal", "-shm", ".turn", ".queue"):
            if os.path.exists(path + ".part" + suffix):
                os.remove(path + ".part" + suffix)
        if isinstance(error, OSError):
            raise StoreError(f"file {path!r}: cannot be written ({error.strerror})") from error
        raise
