"""The controller's compiled calls: one to tell an outcome and decide again, one to decide."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from numba import types

from tightrope.compiled import compile_function, compile_kernel, direct_call
from tightrope.decision import Field, Run, Spec, decider, learner, settler, view
from tightrope.decision.memory import ARMS, EXPLORE, STEP

__all__ = ["NOTHING", "REFUSED", "kernels"]

NOTHING, REFUSED = -1, -2  # no arm yet; an outcome out of range


@lru_cache(maxsize=64)
def kernels(spec: Spec) -> tuple[Any, Any]:
    """``tell(address, arm, cost, reward, penalty)`` and ``decide(address, uniform)``."""
    tell, decide = (compile_kernel(part(spec), spec.digest) for part in (_tell, _decide))
    integer, real = types.int64, types.float64
    return (
        direct_call(tell, integer, integer, real, real, real),
        direct_call(decide, integer, real),
    )


def _tell(spec: Spec) -> Any:
    learn, settle, decide = learner(spec), settler(spec), decider(spec)
    run_of, counts_of = view(spec, Field.RUN), view(spec, Field.COUNTS)
    layout, number, penalties = Run.of(spec.penalties), spec.dtype, spec.penalties
    outcome, scale, random = layout.outcome, layout.scale, spec.policy.random
    allowed = compile_function(_allowed, spec.digest)

    def tell(address, arm, cost, reward, penalty):
        """Take the outcome of a pull; the next arm, or less than 0.

        With one penalty it is an argument, with more they are in ``run`` already.
        """
        run, counts = run_of(address), counts_of(address)
        run[outcome], run[outcome + 1] = number(cost), number(reward)
        if penalties == 1:
            run[outcome + 2] = number(penalty)
        if not (0 <= arm < counts[ARMS] and allowed(run, outcome, scale, 2 + penalties)):
            return REFUSED
        for channel in range(2 + penalties):
            run[outcome + channel] /= run[scale + channel]
        step = counts[STEP]
        learn(address, arm)
        within = settle(address, step >= counts[EXPLORE])
        counts[STEP] = step + 1
        if random or not within or step + 1 < counts[EXPLORE]:
            return NOTHING
        return decide(address, step + 1, number(0))

    return tell


def _allowed(run: Any, outcome: int, scale: int, channels: int) -> bool:
    """Whether every outcome is between 0 and the largest one."""
    fine = True
    for channel in range(channels):
        fine = fine and 0.0 <= run[outcome + channel] <= run[scale + channel]
    return fine


def _decide(spec: Spec) -> Any:
    decide, number, counts_of = decider(spec), spec.dtype, view(spec, Field.COUNTS)

    def choose(address, uniform):
        return decide(address, counts_of(address)[STEP], number(uniform))

    return choose
