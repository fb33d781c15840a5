"""What decides and learns in a live run: compiled functions, or the same lines in plain Python.

All forms have ``tell(arm, cost, reward, penalty)``, ``ask()`` and ``ask_beside(flight,
stand_ins)``, see ``kernels.live``; several penalties are put into ``state.run.told`` before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tightrope.compiled.functions import FAILED
from tightrope.engine.planning import warn_not_compiled, why_not_compiled
from tightrope.engine.single import failed
from tightrope.errors import PolicyError
from tightrope.kernels.native import LiveCalls, Native, live_calls, native
from tightrope.kernels.plain import PlainCalls
from tightrope.kernels.run_state import STEP, RunState, aligned_copy
from tightrope.live.background import Background
from tightrope.policies.base import IndexPolicy, Policy
from tightrope.policies.choice import ChoicePolicy

__all__ = ["NativeCalls", "calls_for", "compiled_for"]


def compiled_for(
    policy: Policy, state: RunState, background: bool
) -> tuple[tuple[Native, LiveCalls] | None, Background | None]:
    """The compiled functions; or, in the ``background``, their compilation in another thread.

    Neither, with a warning, if the policy cannot be compiled.
    """
    if not isinstance(policy, IndexPolicy | ChoicePolicy):
        return None, None
    if background:
        going_on = Background.of(state.spec, state.forgets)
        made = None if going_on is None else going_on.made
        return made, going_on if made is None else None
    *found, reason = why_not_compiled(lambda: (native(state.spec, state.forgets), live_calls()))
    if reason:
        warn_not_compiled(policy.label, reason)
        return None, None
    return (found[0], found[1]), None


class NativeCalls:
    """Compiled functions over a state's block."""

    def __init__(self, state: RunState, made: tuple[Native, LiveCalls]) -> None:
        self._state, (policy, self._calls) = state, made
        self._run = np.array([state.block.ctypes.data, *policy.addresses])
        self.tell: Callable[..., Any] = partial(self._calls.tell, self._run.ctypes.data)
        self.ask: Callable[..., Any] = partial(self._calls.ask, self._run.ctypes.data)

    def ask_beside(self, flight: Any, stand_ins: Any) -> Any:
        """The next arm beside what was told; the first time, memory for the view is taken."""
        self._view = aligned_copy(self._state.block)
        self.ask_beside = partial(  # type: ignore[method-assign]
            self._calls.ask_beside, self._run.ctypes.data, self._view.ctypes.data
        )
        return self.ask_beside(flight, stand_ins)


class _CarefulCalls:
    """The same around a user's own policy, whose errors name the line.

    A step that fails is repeated in plain Python, from what was there before.
    """

    def __init__(self, policy: Policy, state: RunState, calls: NativeCalls | PlainCalls) -> None:
        self._policy, self._state, self._calls = policy, state, calls

        self.ask, self.ask_beside = partial(self._made, "ask"), partial(self._made, "ask_beside")

    def tell(self, arm: int, cost: float, reward: float, penalty: float) -> Any:
        """As the call."""
        return self._made("tell", arm, float(cost), float(reward), float(penalty))

    def _made(self, name: str, *given: Any) -> Any:
        before, block = self._state.block.copy(), self._state.block
        label, step = self._policy.label, int(self._state["counts"][STEP])
        try:
            found = getattr(self._calls, name)(*given)
            if found != FAILED:
                return found
            block[:] = before
            getattr(PlainCalls(self._policy, self._state), name)(*given)
        except PolicyError:
            block[:] = before
            raise
        except Exception as error:
            block[:] = before
            raise failed(label, error, step) from error
        block[:] = before
        raise PolicyError(f"policy {label}: failed at step {step}, when compiled only")


def calls_for(
    policy: Policy, state: RunState, made: tuple[Native, LiveCalls] | None
) -> NativeCalls | PlainCalls | _CarefulCalls:
    """The calls of a policy over a state; plain ones if it is not compiled."""
    calls = PlainCalls(policy, state) if made is None else NativeCalls(state, made)
    outside = not type(policy).__module__.startswith("tightrope.")
    return _CarefulCalls(policy, state, calls) if outside else calls
