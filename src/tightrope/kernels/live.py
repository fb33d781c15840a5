"""Compiled functions of a live run: ``tell`` takes an outcome, ``ask`` returns the next arm."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from numba import types

from tightrope.compiled import compile_kernel, direct_call
from tightrope.kernels.run_state import ARMS, ASKED, EXPLORE, STEP, Field, Run, view
from tightrope.kernels.single_run import actions, memory_of
from tightrope.kernels.spec import Spec

__all__ = ["NOTHING", "REFUSED", "calls", "in_range"]

NOTHING, REFUSED = -1, -2  # returned for: no decision yet; an outcome out of range


@lru_cache(maxsize=64)
def calls(spec: Spec) -> tuple[Any, Any]:
    """``tell(block, arm, cost, reward, penalty)`` and ``ask(block)``; both return the next arm.

    ``penalty`` is a number if there is at most one limit, else an array.
    """
    tell, ask = (compile_kernel(part(spec), spec.digest) for part in (_tell, _ask))
    block = types.Array(types.uint8, 1, "C")
    penalty = types.float64 if spec.penalties == 1 else types.Array(types.float64, 1, "C")
    told = (types.int64, types.float64, types.float64, penalty)
    return direct_call(tell, block, *told), direct_call(ask, block)


def in_range(value: Any, scale: Any) -> Any:
    """Whether an outcome is in [0, scale]; False for nan."""
    return 0.0 <= value <= scale


def _tell(spec: Spec) -> Any:
    choose, learn, settle, _ = actions(spec)
    counts_of, run_of, memory_at = (
        view(spec, Field.COUNTS),
        view(spec, Field.RUN),
        memory_of(spec),
    )
    layout, number, penalties = Run.of(spec.penalties), spec.dtype, spec.penalties
    outcome, scale, random = layout.outcome, layout.scale, spec.words > 0
    fine, single = spec.formula(in_range), spec.penalties == 1

    def of_one(penalty, m):
        return penalty

    def of_several(penalty, m):
        return penalty[m]

    incurred = spec.formula(of_one if single else of_several)

    def tell(block, arm, cost, reward, penalty):
        """Take a pull's outcome, or refuse it without any change; returns the next arm if known."""
        address = block.ctypes.data
        run, counts = run_of(address), counts_of(address)
        allowed = (
            0 <= arm < counts[ARMS] and fine(cost, run[scale]) and fine(reward, run[scale + 1])
        )
        for m in range(penalties):
            allowed = allowed and fine(incurred(penalty, m), run[scale + 2 + m])
        if not allowed:
            return REFUSED
        run[outcome] = number(cost / run[scale])
        run[outcome + 1] = number(reward / run[scale + 1])
        for m in range(penalties):
            run[outcome + 2 + m] = number(incurred(penalty, m) / run[scale + 2 + m])
        memory, step = memory_at(address), counts[STEP]
        learn(memory, arm)
        within = settle(memory, step >= counts[EXPLORE])
        counts[STEP] = step + 1
        if random or not within or step + 1 < counts[EXPLORE]:
            return NOTHING
        return choose(memory, step + 1)

    return tell


def _ask(spec: Spec) -> Any:
    choose, _, _, toss = actions(spec)
    memory_at, counts_of, random = memory_of(spec), view(spec, Field.COUNTS), spec.words > 0

    def ask(block):
        """The next arm: each arm in turn during exploration, then the policy's choice."""
        address = block.ctypes.data
        memory, counts = memory_at(address), counts_of(address)
        asked = counts[ASKED]
        counts[ASKED] = asked + 1
        if random:
            toss(memory, asked)
        if asked < counts[EXPLORE]:
            return asked % counts[ARMS]
        return choose(memory, counts[STEP])

    return ask
