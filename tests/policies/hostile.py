"""Runs against the guard, compiled: an adversary that pulls the worst arm whenever it may."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tightrope.compiled.functions import compile_function, compile_kernel, separate
from tightrope.policies.choice import record
from tightrope.policies.parts.guard import Guard, allows, open_guard, settle
from tightrope.policies.state import State, field_starts, record_maker

__all__ = ["Game", "Rows", "hostile_runs"]

Rows = list[tuple[float, ...]]  # chance, cost, penalty 1, ..., penalty M, and the reward if any


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
    bases: tuple[float, ...] = ()  # what the limits are per: 0 cost, k > 0 pulls, -k reward
    costs: tuple[float, float] = (-1.0, -1.0)  # known ones, of the safe arm and the other
    reserve: float = 0.0  # a run ends with less than this left

    @property
    def largest(self) -> float:
        """The most that a pull costs."""
        return max(self.costs) if min(self.costs) >= 0.0 else 1.0

    def fresh(self):
        """State and guard at the start, as records over blocks of memory."""
        limited = len(self.limits)
        made = []
        for kind in (State, Guard):
            starts = field_starts(kind, 2, limited)
            made.append(record_maker(kind)(np.zeros(starts[-1]), starts))
        state, guard = made
        state.known[:], state.weights[:] = -1.0, -1.0
        state.known[:: 2 + limited] = self.costs
        state.bases[:] = self.bases or [0.0] * limited
        state.limits[:] = np.array(self.limits) / np.where(state.bases == 0, 1, abs(state.bases))
        state.remaining[:] = [self.budget, *(self.budget * state.limits)]
        open_guard((self.risk, 0.0, *self.rates, self.largest, 0.0), state, guard)
        return state, guard


_may, _note, _record = (compile_function(one, jit=separate) for one in (allows, settle, record))


@compile_kernel
def _play(
    state, guard, fresh_state, fresh_guard, chances, rows, eager, delay, largest, reserve, runs,
    seed, out,
):  # fmt: skip
    np.random.seed(seed)
    limited = len(state.remaining) - 1
    late = np.zeros((delay + 1, 2), np.int64)
    for run in range(runs):
        for part, first in zip(guard, fresh_guard):  # noqa: B905 -- numba has no strict
            part[:] = first
        for part, first in zip(state, fresh_state):  # noqa: B905
            part[:] = first
        left, asked, told, others = state.remaining[0], 0, 0, 0.0
        while left >= reserve or told < asked:
            if left >= reserve:
                arm = 0
                if _may(guard, state, others, largest) and np.random.random() < eager:
                    arm = 1
                row = np.searchsorted(chances[arm], np.random.random(), side="right")
                left -= rows[arm, row, 0]
                late[asked % (delay + 1)] = arm, row
                asked, others = asked + 1, others + arm
            if asked - told > delay or left < reserve:
                arm, row = late[told % (delay + 1)]
                _record(state, arm, rows[arm, row])
                _note(guard, state, arm)
                told, others = told + 1, others - arm
        out[run, 0], out[run, 1] = guard.others[0], guard.made.min()
        for m in range(limited):
            slack = state.limits[m] * state.remaining[0] if state.bases[m] != 0.0 else 0.0
            out[run, 2 + m] = state.remaining[1 + m] - slack


def hostile_runs(game: Game, runs: int, seed: int = 0):
    """Pulls of the other arm [R], the allowances left [R, M], whether the promise was made [R].

    Of a limit per pull or reward the slack at the end counts as its allowance.
    """
    (state, guard), (fresh_state, fresh_guard) = game.fresh(), game.fresh()
    most, limited = max(len(game.safe), len(game.other)), len(game.limits)
    chances, rows = np.ones((2, most)), np.zeros((2, most, 2 + limited))
    for arm, law in enumerate((game.safe, game.other)):
        table = np.array(law)
        chances[arm, : len(law)] = np.cumsum(table[:, 0])
        chances[arm, len(law) - 1] = 1.0
        rows[arm, : len(law), 0] = table[:, 1]
        rows[arm, : len(law), 2:] = table[:, 2 : 2 + limited]
        if table.shape[1] > 2 + limited:
            rows[arm, : len(law), 1] = table[:, -1]
    out = np.zeros((runs, 2 + limited))
    how = game.eager, game.delay, game.largest, game.reserve
    _play(state, guard, fresh_state, fresh_guard, chances, rows, *how, runs, seed, out)
    return out[:, 0], out[:, 2:], out[:, 1] > 0
