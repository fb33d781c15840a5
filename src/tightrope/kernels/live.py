"""The functions of a live run: ``tell`` takes an outcome, ``ask`` returns the next arm.

``ask_beside`` returns it if pulls are in flight or some arms cannot be pulled. ``native`` compiles
them for any policy; uncompiled, the same code is a live run in plain Python.
"""

from __future__ import annotations

from typing import Any

from tightrope.compiled.functions import FAILED
from tightrope.kernels.run_state import ARMS, ASKED, EXPLORE, STEP, WRONG

# Returned for: no decision yet; an outcome out of range. ``FAILED``: the policy raised an error.
NOTHING, REFUSED = -1, -2


def in_range(value: Any, scale: Any) -> Any:
    """Whether an outcome is in [0, scale]; False for nan."""
    return 0.0 <= value <= scale


def telling(own: Any, shared: Any, part: Any, ahead: bool = True) -> Any:
    """``tell(memory, arm, cost, reward, penalty)``: the next arm, ``NOTHING`` or ``REFUSED``.

    Without ``ahead`` it never returns the next arm.
    """
    choose, take, settle, sound, fine = (
        own.choose, shared.take, shared.settle, own.sound, part(in_range)
    )  # fmt: skip

    def tell(memory, arm, cost, reward, penalty):
        """Learn a pull's outcome, or refuse it without any change.

        Several penalties are read from ``memory.run.told``; a single one is an argument.
        """
        run, counts, penalties = memory.run, memory.counts, memory.penalties
        scale, outcome = run.scale, run.outcome
        allowed = 0 <= arm < counts[ARMS] and fine(cost, scale[0]) and fine(reward, scale[1])
        for m in range(penalties):
            value = penalty if penalties == 1 else run.told[m]
            allowed = allowed and fine(value, scale[2 + m])
        for m in range(penalties):
            value = penalty if penalties == 1 else run.told[m]
            run.told[m] = 0.0
            if allowed:
                outcome[2 + m] = value / scale[2 + m]
        if not allowed:
            return REFUSED
        outcome[0] = cost / scale[0]
        outcome[1] = reward / scale[1]
        step = counts[STEP]
        take(memory, arm)
        within = settle(memory, step >= counts[EXPLORE])
        counts[STEP] = step + 1
        if not sound(memory):
            return FAILED
        if not ahead or memory.random or not within or step + 1 < counts[EXPLORE]:
            return NOTHING
        return choose(memory, step + 1)

    return tell


def _count_asked(memory):
    """The number of earlier decisions; after exploration only a randomised policy counts them."""
    counts = memory.counts
    asked = counts[ASKED]
    if memory.random or asked < counts[EXPLORE]:
        counts[ASKED] = asked + 1
    return asked


def asking(own: Any, shared: Any, part: Any) -> Any:
    """``ask(memory)``: the next arm."""
    choose, toss, count = own.choose, shared.toss, part(_count_asked)

    def ask(memory):
        """Each arm in turn during exploration, then the policy's choice."""
        counts = memory.counts
        asked = count(memory)
        toss(memory, asked)
        if asked < counts[EXPLORE]:
            return asked % counts[ARMS]
        return choose(memory, counts[STEP])

    return ask


def asking_beside(own: Any, shared: Any, views: Any, part: Any) -> Any:
    """``ask_beside(memory, seen, flight, stand_ins)``; ``seen`` is the memory of the view."""
    choose, toss, sound, count = own.choose, shared.toss, own.sound, part(_count_asked)
    look, keep, unexplored = views

    def ask_beside(memory, seen, flight, stand_ins):
        """The next arm, with pulls in flight [K]; each arm's stand-in [K] is pulled instead.

        Arms with too few pulls are explored first. An arm that does not exist is returned
        unchanged.
        """
        counts = memory.counts
        asked = count(memory)
        seen.counts[WRONG] = 0
        toss(memory, asked)
        for word in range(len(memory.pair)):
            seen.pair[word] = memory.pair[word]
        look(memory, seen, flight, stand_ins, counts[STEP] >= counts[EXPLORE])
        if not sound(seen):
            return FAILED
        arm = unexplored(seen.state, stand_ins, counts[EXPLORE] / counts[ARMS])
        if arm < 0:
            arm = choose(seen, counts[STEP])
            keep(memory, seen, stand_ins)
            if 0 <= arm < len(stand_ins):
                arm = int(stand_ins[arm])
        return arm

    return ask_beside
