"""The same step in plain Python, on the same block: nothing is compiled.

For policies that cannot be compiled, for a live run whose policy is still being compiled, and to
repeat a step in which a policy failed, so that the error names the line.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tightrope.compiled.functions import FAILED
from tightrope.kernels import live
from tightrope.kernels.actions import Actions, Common, common, forgetter, over_state
from tightrope.kernels.flight import views
from tightrope.kernels.memory import Memory, plain_memory
from tightrope.kernels.run_state import STEP, RunState
from tightrope.kernels.single_run import loop
from tightrope.kernels.spec import PLAIN, Spec
from tightrope.kernels.step import Target, coin_of, of_run
from tightrope.policies.base import Policy, Statistics


def _as_it_is(function: Any, dtype: Any = None) -> Any:
    return function


def _parts(policy: Policy, spec: Spec) -> tuple[Target, Actions, Common]:
    """The step functions, the policy's actions and the shared parts."""
    target = Target(spec.policy, spec.penalties, float, _as_it_is, net=of_run)
    own = decides = _deciding(policy)
    if spec.method != PLAIN:
        own = over_state(spec, target, _as_it_is, _as_it_is)
    if spec.indexed:
        own = own._replace(choose=_naming_nan(own.choose, decides.choose))
    forget = forgetter(_as_it_is, _as_it_is)
    return target, own, common(target, own.learn, _as_it_is, _as_it_is, forget)


def _naming_nan(choose: Any, decide: Any) -> Any:
    """``choose``; if an index is nan, the error of ``decide``."""

    def choose_or_say(memory: Memory, step: int) -> Any:
        arm = choose(memory, step)
        return decide(memory, step) if arm == FAILED else arm

    return choose_or_say


def _deciding(policy: Policy) -> Actions:
    """The actions of a policy that has only ``decide``."""

    def choose(memory: Memory, step: int) -> int:
        state: RunState = memory.address
        uniform = coin_of(int(memory.pair[0])) if memory.random else 0.0
        pulls, queues = memory.state.pulls.tolist(), memory.run.queues.tolist()
        totals = memory.state.totals.reshape(len(pulls), -1)
        cost, reward, *_ = totals.T.tolist()
        seen = Statistics(pulls, cost, reward, totals[:, 2:].tolist())
        return policy.decide(state.setup, sum(pulls), seen, queues[: state.limited], uniform)

    return Actions(choose, lambda memory, row: None, lambda memory: True)


class PlainCalls:
    """The functions of ``kernels.live`` for a state with a ``State``."""

    def __init__(self, policy: Policy, state: RunState) -> None:
        target, own, shared = _parts(policy, state.spec)
        beside = views(target, _as_it_is, own.learn, shared)
        self._memory, self._state = plain_memory(state), state
        self._tell = live.telling(own, shared, _as_it_is, ahead=False)
        self._ask = live.asking(own, shared, _as_it_is)
        self._beside = live.asking_beside(own, shared, beside, _as_it_is)

    def tell(self, arm: int, cost: float, reward: float, penalty: float) -> int:
        """Learn the outcome of a pull, or refuse it without any change; returns the next arm."""
        return int(self._tell(self._memory, arm, cost, reward, penalty))

    def ask(self) -> Any:
        """The next arm, as the policy returns it."""
        with np.errstate(all="ignore"):
            return self._ask(self._memory)

    def ask_beside(self, flight: Any, stand_ins: Any) -> Any:
        """The next arm with pulls in ``flight`` [K], and each arm's stand-in [K]."""
        seen = plain_memory(self._state.copy())
        with np.errstate(all="ignore"):
            return self._beside(self._memory, seen, flight, stand_ins)


def play_plainly(
    policy: Policy, state: RunState, law: Any, starts: Any, mix: Any, until: int
) -> Any:
    """Go on with a run up to step ``until``, as ``single_run.loop``; the law in tables of cells."""
    target, own, shared = _parts(policy, state.spec)
    play = loop(target, _as_it_is, target.draw_cells(), own, shared)
    counts, memory = state["counts"], plain_memory(state)
    return play(
        memory, law, starts, mix, len(state["totals"]), 0, int(counts[STEP]), 0, until, np.zeros(1)
    )
