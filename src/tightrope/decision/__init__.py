"""Which arm has the smallest index: compiled, for one run or one live campaign at a time.

The simulator's kernel for many arms and the live controller share these parts. There are three
ways to decide, all with the same result, bit for bit:

- ``scan`` looks at every arm;
- ``envelope`` reads the arm off a lower envelope of lines, for known terms and one queue;
- ``sieve`` keeps short lists of the arms that can still win, for any number of queues.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from tightrope.decision.envelope import by_envelope, envelope_of
from tightrope.decision.index import by_scan, settler
from tightrope.decision.index import learner as _learner
from tightrope.decision.memory import Field, Run, Sizes, Store, view
from tightrope.decision.sieve import by_sieve, toucher
from tightrope.decision.spec import ENVELOPE, SCAN, SIEVE, Spec
from tightrope.policies.base import IndexPolicy, Setup

__all__ = [
    "ENVELOPE",
    "SCAN",
    "SIEVE",
    "Field",
    "Run",
    "Sizes",
    "Spec",
    "Store",
    "decider",
    "envelope_of",
    "learner",
    "settler",
    "view",
    "way_for",
]


def way_for(policy: type[IndexPolicy], setup: Setup) -> str:
    """The way to decide between many arms: a scan unless the policy is ``steady``."""
    if not policy.steady or policy.random:
        return SCAN
    timeless = policy.clock is IndexPolicy.clock
    if not policy.learns and timeless and len(setup.allowance) <= 1:
        return ENVELOPE
    return SIEVE


def decider(spec: Spec) -> Any:
    """A compiled function (address, step, luck) -> arm."""
    return {SCAN: by_scan, ENVELOPE: by_envelope, SIEVE: by_sieve}[spec.way](spec)


@cache
def learner(spec: Spec) -> Any:
    """A compiled function (address, arm) that adds the last outcome to what is known of the arm."""
    learn = _learner(spec)
    if spec.way != SIEVE or not spec.policy.learns:
        return learn
    touch = toucher(spec)

    def learn_and_touch(address, arm):
        learn(address, arm)
        touch(address, arm)

    return spec.part(learn_and_touch)
