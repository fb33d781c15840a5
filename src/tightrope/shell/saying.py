"""What commands print: JSON on standard output, a line on standard error."""

from __future__ import annotations

import json
import sys
from typing import Any

from tightrope.names import in_text

__all__ = ["print_json", "say"]


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output."""
    print(json.dumps(value, indent=2, allow_nan=False))


def say(line: str) -> None:
    """Print a line on standard error, at once."""
    print(in_text(line), file=sys.stderr, flush=True)
