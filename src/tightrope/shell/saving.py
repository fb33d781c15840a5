"""The runs of ``--save``: in their file, or where the message says."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tightrope.errors import InputError, OutputError, TightropeError
from tightrope.names import in_text

if TYPE_CHECKING:
    from tightrope.results import Results

__all__ = ["after_the_work", "interrupted_name", "keep"]


def keep(results: Results, wanted: str) -> bool:
    """Write the runs to the file; whether they are there. If not, a line says where they are.

    Runs that were interrupted go beside it, so that the file is of finished work or is not there.
    """
    path = wanted if results.complete else interrupted_name(wanted)
    try:
        results.save(path)
    except TightropeError as error:
        _tell(f"tightrope: {error}; {_kept_elsewhere(results, path)}")
        return False
    if not results.complete:
        _tell(f"the finished runs are in {path}")
    return True


def interrupted_name(path: str) -> str:
    """Where interrupted runs go that were to be saved in a file.

    >>> interrupted_name("out/runs.npz")
    'out/runs.interrupted.npz'
    """
    stem, suffix = os.path.splitext(path)
    return f"{stem}.interrupted{suffix}"


@contextmanager
def after_the_work() -> Iterator[None]:
    """What can no longer be written is not the input's fault."""
    try:
        yield
    except InputError as error:
        raise OutputError(str(error)) from error


def _kept_elsewhere(results: Results, path: str) -> str:
    try:
        place = os.path.join(tempfile.mkdtemp(prefix="tightrope-"), os.path.basename(path))
        results.save(place)
    except (OSError, TightropeError) as error:
        return f"nor could they be kept elsewhere: {error}"
    return f"the runs are in {place}"


def _tell(line: str) -> None:
    print(in_text(line), file=sys.stderr, flush=True)
