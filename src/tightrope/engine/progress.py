"""Progress of long work: a bar on terminals, a line every half minute elsewhere, or a callback."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from tightrope.formats import percent, span

Progress = Callable[[float], None] | bool | None
LINE_SECONDS = 30.0  # from one line to the next, off a terminal


@contextmanager
def reporting(progress: Progress, total: float, title: str) -> Iterator[Callable[[float], None]]:
    """A function to call with the amount of work just done.

    ``progress``: a function that gets the share done, False for nothing, True or None for a bar on
    standard error if it is a terminal, else a line every half minute.
    """
    if progress is False:
        yield lambda work: None
    elif callable(progress):
        done = 0.0

        def tell(work: float) -> None:
            nonlocal done
            done += work
            progress(done / total)

        yield tell
    elif sys.stderr.isatty():
        with _bar(total, title) as advance:
            yield advance
    else:
        with _lines(total, title) as advance:
            yield advance


@contextmanager
def _bar(total: float, title: str) -> Iterator[Callable[[float], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda work: bar.advance(task, work)


@contextmanager
def _lines(total: float, title: str) -> Iterator[Callable[[float], None]]:
    """Lines that come from a thread, so that they come while a kernel is compiled too."""
    done, start, ended = 0.0, time.monotonic(), Event()

    def advance(work: float) -> None:
        nonlocal done
        done += work

    def write() -> None:
        while not ended.wait(LINE_SECONDS):
            share = percent(min(done / total, 1.0) if total else 1.0, 0)
            after = span(time.monotonic() - start)
            print(f"{title}: {share} after {after}", file=sys.stderr, flush=True)

    thread = Thread(target=write, name="progress", daemon=True)
    thread.start()
    try:
        yield advance
    finally:
        ended.set()
        thread.join()
