"""Read a campaign's log, in order and in short pieces: from a store, from files, or from both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from tightrope.errors import HaltedError, InputError
from tightrope.files import lines_in, open_file
from tightrope.live.events import START, Event, Row, event_of, line_of, row_of_line
from tightrope.live.stores import Store

MANY = 1000  # events per read


def rows_of(
    store: Store, name: str, after: int = 0, count: int | None = None, at_once: int = MANY
) -> Iterator[Row]:
    """At most ``count`` events of a store, from number ``after`` + 1 on."""
    left = count
    while left is None or left > 0:
        rows = store.read(name, after, at_once if left is None else min(left, at_once))
        if not rows:
            return
        yield from rows
        after, left = rows[-1].seq, None if left is None else left - len(rows)


def events_of(rows: Iterable[Row], before: bytes | None = None) -> Iterator[Event]:
    """Parse rows as events.

    ``before``: the hash before the first event; if given, the chain of hashes is checked.
    """
    last: int | None = None
    for row in rows:
        if last is not None and row.seq != last + 1:
            raise HaltedError(f"event {row.seq}: follows {last}; one is missing")
        yield event_of(row, before)
        if before is not None:
            last, before = row.seq, row.hash


def lines_of(store: Store, name: str, after: int = 0, count: int | None = None) -> Iterator[str]:
    """The events of a store as lines of JSON, with their notes; also unknown kinds."""
    notes = store.notes(name)
    return (line_of(row, notes.get(row.seq)) for row in rows_of(store, name, after, count))


# Files.


def read_lines(path: str, *, whole: bool = False) -> Iterator[tuple[int, Row]]:
    """The events in a file of JSON lines, with the numbers of their lines, from 1.

    ``whole``: see ``row_of_line``.
    """
    place = f"log {path!r}"
    with open_file(path, "log") as file:
        for number, line in enumerate(lines_in(file, place), start=1):
            if line.strip():
                try:
                    yield number, row_of_line(line, whole=whole)
                except InputError as error:
                    raise InputError(f"{place}, line {number:,}: {error}") from None


def first_event(path: str) -> int:
    """The number of the first event in a file of JSON lines; 0 if there is none."""
    return next((row.seq for _, row in read_lines(path)), 0)


def archived_rows(path: str) -> list[Row]:
    """The events of an archive, checked: each hash follows from the one before it."""
    rows = [row for _, row in read_lines(path)]
    known = rows[:1] if rows and rows[0].seq > 1 else []  # earlier events are in another file
    try:
        list(events_of(rows[len(known) :], known[0].hash if known else START))
    except HaltedError as error:
        raise InputError(f"archive {path!r}: {error}") from None
    return rows


def whole_log(store: Store, name: str, archives: Sequence[str]) -> Iterator[Row]:
    """A log from its first event on: from archives, then from the store."""
    files = sorted(archives, key=first_event)
    archived = (row for path in files for _, row in read_lines(path))
    last = 0
    for row in chain(archived, rows_of(store, name)):
        if last == 0 and row.seq > 1:
            raise InputError(
                f"campaign {name!r}: events before {row.seq} are archived; a change that learns "
                "again needs all events: name their files as archives"
            )
        if row.seq > last:
            yield row
            last = row.seq
