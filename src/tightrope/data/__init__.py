"""Logs in, decisions out: problems from data, replay, off-policy estimates and planning."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tightrope.data.bootstraps import bootstrap as bootstrap
    from tightrope.data.log import Log as Log
    from tightrope.data.offpolicy import evaluate_mixture as evaluate_mixture
    from tightrope.data.planning import plan as plan
    from tightrope.data.reading import read_log as read_log
    from tightrope.data.replays import replay as replay
    from tightrope.data.tables import FullTable as FullTable

_LAZY = {
    "FullTable": "tables",
    "Log": "log",
    "bootstrap": "bootstraps",
    "evaluate_mixture": "offpolicy",
    "plan": "planning",
    "read_log": "reading",
    "replay": "replays",
}
__all__ = sorted(_LAZY)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'tightrope.data' has no attribute {name!r}")
    return getattr(importlib.import_module(f"tightrope.data.{_LAZY[name]}"), name)
