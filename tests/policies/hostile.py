"""Runs against the guard, compiled: an adversary that pulls the worst arm whenever it may."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from tightrope.compiled.functions import compile_function
from tightrope.policies.parts.guard import Guard, allows, open_guard, settle
from tightrope.policies.state import State, field_starts, record_maker

__all__ = ["Game", "Rows", "hostile_runs"]

Rows = list[tuple[float, ...]]  # chance, cost, penalty 1, ..., penalty M


@dataclass(frozen=True)
class Game:
    """The arms' outcomes, the limits [M], what is declared of the safe arm, and how to play.

    The adversary pulls the other arm whenever the guard allows it, in a share ``eager`` of steps.
    """

    safe: Rows
    other: Rows
    limits: tuple[float, ...]
    rates: tuple[float, ...]  # declared; -1 where it is not
    budget: float
    risk: float = 0.01
    eager: float = 1.0
    delay: int = 0  # decisions before an outcome is told

    def fresh(self):
        """State and guard at the start, as records over blocks of memory."""
        limited = len(self.limits)
        made = []
        for record in (State, Guard):
            starts = field_starts(record, 2, limited)
            made.append(record_maker(record)(np.zeros(starts[-1]), starts))
        state, guard = made
        state.remaining[:] = [self.budget, *(self.budget * np.array(self.limits))]
        state.limits[:], state.known[:], state.weights[:] = self.limits, -1.0, -1.0
        open_guard((self.risk, 0.0, *self.rates, 0.0), state, guard)
        return state, guard


_may, _note = (compile_function(one, jit=njit) for one in (allows, settle))


@njit
def _play(state, guard, fresh_state, fresh_guard, chances, rows, eager, delay, runs, seed, out):
    np.random.seed(seed)
    limited = len(state.remaining) - 1
    late = np.zeros((delay + 1, 2), np.int64)
    for run in range(runs):
        for part, first in zip(guard, fresh_guard):  # noqa: B905 -- numba has no strict
            part[:] = first
        state.remaining[:] = fresh_state.remaining
        left, asked, told, others = state.remaining[0], 0, 0, 0.0
        while left >= 0.0 or told < asked:
            if left >= 0.0:
                arm = 0
                if _may(guard, others) and np.random.random() < eager:
                    arm = 1
                row = np.searchsorted(chances[arm], np.random.random(), side="right")
                left -= rows[arm, row, 0]
                late[asked % (delay + 1)] = arm, row
                asked, others = asked + 1, others + arm
            if asked - told > delay or left < 0.0:
                arm, row = late[told % (delay + 1)]
                for channel in range(1 + limited):
                    state.remaining[channel] -= rows[arm, row, channel]
                _note(guard, state, arm)
                told, others = told + 1, others - arm
        out[run, 0], out[run, 1] = guard.others[0], guard.made.min()
        for m in range(limited):
            out[run, 2 + m] = state.remaining[1 + m]


def hostile_runs(game: Game, runs: int, seed: int = 0):
    """Pulls of the other arm [R], the allowances left [R, M], whether the promise was made [R]."""
    (state, guard), (fresh_state, fresh_guard) = game.fresh(), game.fresh()
    most, limited = max(len(game.safe), len(game.other)), len(game.limits)
    chances, rows = np.ones((2, most)), np.zeros((2, most, 1 + limited))
    for arm, law in enumerate((game.safe, game.other)):
        table = np.array(law)
        chances[arm, : len(law)] = np.cumsum(table[:, 0])
        chances[arm, len(law) - 1] = 1.0
        rows[arm, : len(law)] = table[:, 1:]
    out = np.zeros((runs, 2 + limited))
    how = game.eager, game.delay
    _play(state, guard, fresh_state, fresh_guard, chances, rows, *how, runs, seed, out)
    return out[:, 0], out[:, 2:], out[:, 1] > 0
