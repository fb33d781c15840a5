"""What commands print: JSON or words on standard output, a line on standard error; saved runs."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tightrope
from tightrope.errors import InputError, OutputError, TightropeError
from tightrope.formats import finite
from tightrope.names import in_text, one_line


def answer(as_json: bool, value: Any, shown: Callable[[], object] | Iterable[str]) -> int:
    """Print a value as JSON, or what people see: lines, or what ``shown`` prints. Returns 0."""
    if as_json:
        print_json(value)
    elif callable(shown):
        shown()
    else:
        print_lines(shown)
    return 0


def print_lines(lines: Iterable[str]) -> None:
    """Print lines on standard output, with their invisible characters escaped."""
    for line in lines:
        print(in_text(line))


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output; a number that is not finite is null."""
    print(json.dumps(finite(value), indent=2, allow_nan=False))


def say(line: str) -> None:
    """Print a line on standard error, at once."""
    print(in_text(line), file=sys.stderr, flush=True)


def fail(error: object, status: int) -> int:
    """Print why a command ends, in one line on standard error; returns its status."""
    say(f"tightrope: {one_line(error)}")
    return status


def warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning in one line on standard error; as ``warnings.showwarning``."""
    say(f"warning: {one_line(message)}")


def aligned(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """A line for each name and its text, which begin in the same column."""
    listed = list(pairs)
    width = max(len(name) for name, _ in listed)
    return [f"{name:{width}}  {text}" for name, text in listed]


def print_rows(rows: Sequence[dict[str, Any]], as_json: bool) -> int:
    """Print rows of a simulation, as JSON or as a table."""
    return answer(as_json, rows, lambda: tightrope.print_rows(rows))


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
