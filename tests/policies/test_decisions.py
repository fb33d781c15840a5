"""Decisions that must not change: those of each choice policy, as recorded.

``decisions.json`` holds, by policy, arms, penalties and kind of outcomes, the arms pulled one
after the other as digits. After a change of its formulas, ``python -m tests.policies.test_decisions
NAME`` records that policy's decisions again; those of the others stay.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.policies.driver import Run
from tightrope import Arm, Bernoulli, Problem
from tightrope.policies import POLICIES, ChoicePolicy, parse_policy
from tightrope.policies.choice import hashed

# The outcomes.

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def part(*numbers):
    """A number in [0, 1) for each list of whole numbers."""
    word = 7
    for number in numbers:
        word = hashed(word, number)
    return word / 2**32


def mean(arm, channel):
    return 0.15 + 0.75 * part(1, arm, channel)


def outcomes(step, arm, channels, kind):
    """What the arm gives at a step: zeros and ones, or anything between."""
    parts = [part(2, step, arm, channel) for channel in range(channels)]
    means = [mean(arm, channel) for channel in range(channels)]
    if kind == "coins":
        return [float(u < m) for u, m in zip(parts, means, strict=True)]
    return [min(m * (0.3 + 1.1 * u), 1.0) for u, m in zip(parts, means, strict=True)]


def words(step):
    return [hashed(11, step), hashed(12, step)]


def problem(arms, penalties):
    laws = [[Bernoulli(mean(k, c)) for c in range(2 + penalties)] for k in range(arms)]
    limits = [0.7, 0.8, 0.9][:penalties]
    named = [Arm(f"arm {k}", x, r, ys) for k, (x, r, *ys) in enumerate(laws)]
    return Problem(named, limit=limits or None)


# The replay.

FILE = Path(__file__).parent / "decisions.json"
RECORDED = json.loads(FILE.read_text())


def decisions(key, steps):
    """The arms pulled, as digits."""
    text, arms, penalties, kind = key.split()
    run, pulled = Run(parse_policy(text), problem(int(arms), int(penalties)), 30.0), ""
    for step in range(steps):
        arm = run.choose(words(step))
        run.tell(arm, *outcomes(step, arm, 2 + int(penalties), kind))
        pulled += DIGITS[arm]
    return pulled


@pytest.mark.parametrize("label", dict.fromkeys(key.split()[0] for key in RECORDED))
def test_it_decides_as_before(label):
    for key, expected in RECORDED.items():
        if key.split()[0] == label:
            assert decisions(key, len(expected)) == expected, key


def test_every_choice_policy_is_recorded():
    names = {key.split()[0].partition(":")[0] for key in RECORDED}
    assert names == {name for name, one in POLICIES.items() if issubclass(one, ChoicePolicy)}


if __name__ == "__main__":
    for key, pulled in RECORDED.items():
        if key.split()[0].partition(":")[0] in sys.argv[1:]:
            RECORDED[key] = decisions(key, len(pulled))
    FILE.write_text(json.dumps(RECORDED, indent=2) + "\n")
