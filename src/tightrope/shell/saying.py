"""What commands print: JSON or words on standard output, a line on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from tightrope.names import in_text

__all__ = ["answer", "print_json", "say"]


def answer(as_json: bool, value: Any, show: Callable[[], object]) -> int:
    """Print a value as JSON, or else ``show`` it to people; the status is 0."""
    if as_json:
        print_json(value)
    else:
        show()
    return 0


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output."""
    print(json.dumps(value, indent=2, allow_nan=False))


def say(line: str) -> None:
    """Print a line on standard error, at once."""
    print(in_text(line), file=sys.stderr, flush=True)
