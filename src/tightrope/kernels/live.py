"""Compiled functions of a live run: ``tell`` takes an outcome, ``ask`` returns the next arm.

``ask_beside`` returns it where pulls are in flight or some arms may not be pulled.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from numba import types

from tightrope.compiled import compile_kernel, direct_call
from tightrope.kernels.flight import views
from tightrope.kernels.run_state import ARMS, ASKED, EXPLORE, STEP, Field, Run, view
from tightrope.kernels.single_run import actions, memory_of, policy_parts
from tightrope.kernels.spec import Spec

__all__ = ["NOTHING", "REFUSED", "call_beside", "calls", "in_range"]

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


@lru_cache(maxsize=64)
def call_beside(spec: Spec) -> Any:
    """``ask_beside(block, view, flight, stand_ins)``, for a spec with a ``State``."""
    ask = compile_kernel(_ask_beside(spec), spec.digest)
    block, numbers = types.Array(types.uint8, 1, "C"), types.Array(types.float64, 1, "C")
    return direct_call(ask, block, block, numbers, numbers)


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


def _ask_beside(spec: Spec) -> Any:
    choose, _, _, toss = actions(spec)
    _, learn = policy_parts(spec, spec.target, spec.formula, spec.part)
    look, keep, unexplored = views(spec, spec.target, spec.formula, spec.part, learn)
    memory_at, counts_of, random = memory_of(spec), view(spec, Field.COUNTS), spec.words > 0

    def ask_beside(block, view_block, flight, stand_ins):
        """The next arm, with pulls in flight [K]; each arm's stand-in [K] is pulled in its place.

        Arms with too few pulls are explored first. An arm that does not exist is returned as it is.
        """
        address = block.ctypes.data
        memory, seen, counts = (
            memory_at(address),
            memory_at(view_block.ctypes.data),
            counts_of(address),
        )
        asked = counts[ASKED]
        counts[ASKED] = asked + 1
        if random:
            toss(memory, asked)
            for word in range(len(memory.pair)):
                seen.pair[word] = memory.pair[word]
        look(memory, seen, flight, stand_ins, counts[STEP] >= counts[EXPLORE])
        arm = unexplored(seen.state, stand_ins, counts[EXPLORE] / counts[ARMS])
        if arm < 0:
            arm = choose(seen, counts[STEP])
            keep(memory, seen, stand_ins)
            if 0 <= arm < len(stand_ins):
                arm = int(stand_ins[arm])
        return arm

    return ask_beside
