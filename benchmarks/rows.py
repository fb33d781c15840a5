"""Figures as rows of CSV: what benchmarks print and ``docs/data/`` keeps."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Mapping

from tightrope.version import __version__

__all__ = ["print_rows"]

DIGITS = 6  # of a number, significant


def print_rows(rows: Iterable[Mapping[str, object]]) -> None:
    """Print a header and each row as it is made, with the release that made it."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for number, row in enumerate(rows):
        if number == 0:
            writer.writerow([*row, "release"])
        writer.writerow([*map(_text, row.values()), __version__])
        sys.stdout.flush()


def _text(value: object) -> object:
    """A cell; nothing for None."""
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else value
