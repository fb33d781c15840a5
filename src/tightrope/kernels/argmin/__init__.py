"""Find the arm with the smallest index; compiled, for one run or live campaign at a time.

There are three methods with bit-identical results:

- ``scan`` computes every arm's index;
- ``envelope`` reads the arm off a lower envelope of lines, for known terms and one queue;
- ``sieve`` keeps short lists of the arms that can still win, for any number of queues.
"""

from __future__ import annotations

from typing import Any

from tightrope.kernels.argmin.envelope import by_envelope, envelope_of
from tightrope.kernels.argmin.index import by_scan
from tightrope.kernels.argmin.sieve import by_sieve, toucher
from tightrope.kernels.spec import ENVELOPE, SCAN, SIEVE, Spec

__all__ = ["decider", "envelope_of", "toucher"]


def decider(spec: Spec) -> Any:
    """A compiled function (address, pulls so far, uniform) -> arm."""
    return {SCAN: by_scan, ENVELOPE: by_envelope, SIEVE: by_sieve}[spec.method](spec)
