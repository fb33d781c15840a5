"""The number of decisions: whole runs stay as they are unless a person raises it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar

from tests.golden_runs import FILE, runs
from tightrope import LyOn
from tightrope.compatibility import DECISIONS, decisions_of


def test_decisions_stay_the_same_unless_the_number_is_raised():
    """After a change on purpose: raise ``DECISIONS``, then ``python -m tests.golden_runs``."""
    golden = json.loads(FILE.read_text())
    assert golden.pop("decisions") == DECISIONS
    made = runs()
    changed = [name for name in golden if made.get(name) != golden[name]]
    assert changed == []
    assert list(made) == list(golden)


def test_a_users_own_policy_counts_by_its_text():
    def policy(bonus):
        @dataclass(frozen=True)
        class Own(LyOn):
            name: ClassVar[str] = "own"

            @staticmethod
            def clock(constants, step):
                return bonus * step

        return Own

    assert decisions_of(LyOn) == str(DECISIONS)
    assert decisions_of(policy(1.0)) == decisions_of(policy(1.0)) != decisions_of(policy(2.0))
    assert decisions_of(policy(1.0)).startswith(f"{DECISIONS}-")
