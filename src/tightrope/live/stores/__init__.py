"""Stores of campaigns: a SQLite file, a PostgreSQL database, memory."""

from __future__ import annotations

from tightrope.errors import InputError
from tightrope.live.stores.base import Saved, Store, Turn

__all__ = ["Saved", "Store", "Turn", "open_store"]


def open_store(url: str | Store, *, create: bool = True) -> Store:
    """The store at a path (SQLite), at ``postgresql://...``, or ``memory:``.

    ``create``: whether to create a missing file or missing tables.
    """
    if isinstance(url, Store):
        return url
    text = str(url)
    if text == "memory:":
        from tightrope.live.stores.memory import MemoryStore

        return MemoryStore()
    if text.startswith(("postgresql://", "postgres://")):
        from tightrope.live.stores.postgres import PostgresStore

        return PostgresStore(text, create=create)
    if "://" in text or text == ":memory:":  # the latter is SQLite's word
        allowed = "a path of a file, postgresql://..., or memory:"
        scheme, found, _ = text.partition("://")
        raise InputError(f"store = '{scheme}{found and '://...'}': must be {allowed}")
    if text.startswith("-"):  # a misplaced option of the shell, not a file
        raise InputError(f"store = {text!r}: must not begin with '-'; './{text}' names such a file")
    from tightrope.live.stores.sqlite import SQLiteStore

    return SQLiteStore(text, create=create)
