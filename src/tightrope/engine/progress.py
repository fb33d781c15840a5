"""Progress of long work: a bar on the terminal, a callback, or nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

__all__ = ["Progress", "announced", "reporting"]

Progress = Callable[[float], None] | bool | None
ANNOUNCE_AFTER = 0.5  # seconds: reading a kernel from the disk is faster, compiling one slower


@contextmanager
def reporting(progress: Progress, total: float, title: str) -> Iterator[Callable[[float], None]]:
    """A function that takes the work just done; ``None`` shows a bar where a person looks on."""
    if callable(progress):
        done = 0.0

        def tell(work: float) -> None:
            nonlocal done
            done += work
            progress(done / total)

        yield tell
    elif progress or (progress is None and sys.stderr.isatty()):
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
    else:
        yield lambda work: None


@contextmanager
def announced(progress: Progress) -> Iterator[None]:
    """Say on standard error that kernels are being compiled, if it takes long enough to notice."""
    message = "compiling kernels, once"

    def say() -> None:
        print(message, file=sys.stderr, flush=True)

    timer = Timer(ANNOUNCE_AFTER, say)
    timer.daemon = True
    if progress is not False:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
