"""Names that this module had up to version 0.2, for pickles; see ``distributions``."""

from __future__ import annotations

from typing import Any

from tightrope.problem import cells, distributions, outcomes, values


def __getattr__(name: str) -> Any:
    for module in (distributions, outcomes, cells, values):
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module 'tightrope.problem.laws' has no attribute {name!r}")
