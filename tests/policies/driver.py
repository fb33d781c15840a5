"""A run of a choice policy in plain Python, by hand: no engine, no draws."""

from __future__ import annotations

import numpy as np

from tightrope.policies.base import set_up
from tightrope.policies.parts.forgetting import remember, touched_rows
from tightrope.policies.state import State, field_starts, record_maker, start_state

__all__ = ["Run", "new_record"]


def new_record(record, arms, penalties):
    """A record of zeros; in a state nothing is known."""
    starts = field_starts(record, arms, penalties)
    made = record_maker(record)(np.zeros(starts[-1]), starts)
    if record is State:
        made.known[:] = made.weights[:] = made.expected[:] = -1.0
    return made


class Run:
    """A policy's state and scratch; ``budget`` is normalised, as everything is."""

    def __init__(self, policy, known, budget):
        arms, penalties = known.task.arm_count, known.task.penalty_count
        self.policy, self.setup = policy, set_up(policy, known, budget)
        self.constants = (*self.setup.constants, 0.0)
        self.state = new_record(State, arms, penalties)
        start_state(self.state, budget, known)
        self.scratch = new_record(policy.Scratch, arms, penalties)
        self.history = np.zeros(self.setup.window * (3 + penalties))
        policy.begin(self.constants, self.state, self.scratch)

    def choose(self, words=(1, 2)):
        return int(self.policy.choose(self.constants, self.state, self.scratch, np.array(words)))

    def tell(self, arm, *outcomes):
        touched = remember(self.state, self.history, self.setup.fade, arm, outcomes)
        for row in touched_rows(self.state, touched, arm):
            self.policy.learn(self.constants, self.state, self.scratch, row)
