"""Find the arm with the smallest index; compiled, for one run or live campaign at a time.

There are two methods with bit-identical results: ``scan`` computes every arm's index, ``sieve``
keeps short lists of the arms that can still win.
"""

from __future__ import annotations

from typing import Any

from tightrope.kernels.argmin.index import by_scan
from tightrope.kernels.argmin.sieve import by_sieve, toucher
from tightrope.kernels.spec import SIEVE, Spec

__all__ = ["decider", "toucher"]


def decider(spec: Spec) -> Any:
    """A compiled function (memory, pulls so far, uniform) -> arm."""
    return (by_sieve if spec.method == SIEVE else by_scan)(spec)
