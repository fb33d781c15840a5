"""Write the runs of ``--save``, to another file if necessary."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import tightrope
from tightrope.errors import InputError, OutputError, TightropeError
from tightrope.shell.output import say


def keep(results: tightrope.Results, wanted: str) -> bool:
    """Write the runs to the file; returns whether that worked. If not, print where they are.

    Interrupted runs go to another file beside it, so that this file only holds finished work.
    """
    path = wanted if results.complete else interrupted_name(wanted)
    try:
        results.save(path)
    except TightropeError as error:
        say(f"tightrope: {error}; {_kept_elsewhere(results, path)}")
        return False
    if not results.complete:
        say(f"the finished runs are in {path}")
    return True


def interrupted_name(path: str) -> str:
    """The file for interrupted runs that were to be saved in ``path``.

    >>> interrupted_name("out/runs.npz")
    'out/runs.interrupted.npz'
    """
    stem, suffix = os.path.splitext(path)
    return f"{stem}.interrupted{suffix}"


@contextmanager
def after_the_work() -> Iterator[None]:
    """Turn an ``InputError`` about a file into an ``OutputError``: the work is already done."""
    try:
        yield
    except InputError as error:
        raise OutputError(str(error)) from error


def _kept_elsewhere(results: tightrope.Results, path: str) -> str:
    try:
        place = os.path.join(tempfile.mkdtemp(prefix="tightrope-"), os.path.basename(path))
        results.save(place)
    except (OSError, TightropeError) as error:
        return f"nor could they be kept elsewhere: {error}"
    return f"the runs are in {place}"
