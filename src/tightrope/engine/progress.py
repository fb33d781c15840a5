"""Progress of long work: a bar on the terminal, a callback, or nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Progress", "reporting"]

Progress = Callable[[float], None] | bool | None


@contextmanager
def reporting(progress: Progress, total: float, title: str) -> Iterator[Callable[[float], None]]:
    """A function to call with the amount of work just done; ``None`` shows a bar on terminals."""
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
