"""The functions that decide and learn in a live run, compiled or in plain Python.

All forms have ``tell(arm, cost, reward, penalty)``, ``ask()`` and ``ask_beside(flight,
stand_ins)``, see ``kernels.live``; several penalties are passed in ``state.run.told``.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np

from tightrope.compiled.functions import FAILED
from tightrope.engine.planning import warn_not_compiled, why_not_compiled
from tightrope.engine.python import REHEARSAL_SECONDS, REHEARSED_STEPS
from tightrope.errors import PolicyError
from tightrope.kernels.aligned import aligned_copy
from tightrope.kernels.native import LiveCalls, Native, live_calls, native
from tightrope.kernels.plain import PlainCalls
from tightrope.kernels.run_state import STEP, RunState
from tightrope.kernels.spec import Spec
from tightrope.policies.base import IndexPolicy, Policy
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.faults import failed, is_outside


class Background:
    """The compilation of a run's functions, one per process for each spec."""

    wanted: ClassVar[bool] = True  # whether the process lives long enough to benefit
    running: ClassVar[set[Background]] = set()
    _all: ClassVar[dict[tuple[Spec, bool], Background]] = {}

    def __init__(self, spec: Spec, forgets: bool) -> None:
        self._wanted = spec, forgets
        self.made: tuple[Native, LiveCalls] | None = None
        self.failed = False
        self._thread = threading.Thread(target=self._compile, daemon=True)
        self.running.add(self)
        self._thread.start()

    @classmethod
    def of(cls, spec: Spec, forgets: bool) -> Background | None:
        """The compilation of this spec, started if necessary; None if it is switched off."""
        key = spec, forgets
        if key not in cls._all and cls.wanted:
            cls._all[key] = cls(*key)
        return cls._all.get(key)

    def _compile(self) -> None:
        try:
            self.made = native(*self._wanted), live_calls()
        except Exception:
            self.failed = True
        finally:
            self.running.discard(self)

    @classmethod
    def wait(cls) -> None:
        """Wait for running compilations: a process that ends meanwhile would crash."""
        for one in list(cls.running):
            one._thread.join()


atexit.register(Background.wait)
os.register_at_fork(before=Background.wait)  # a child would wait forever for numba's locks


def compiled_for(
    policy: Policy, state: RunState, background: bool
) -> tuple[tuple[Native, LiveCalls] | None, Background | None]:
    """The compiled functions, or with ``background`` their compilation in another thread.

    If the policy cannot be compiled, warns and returns neither.
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
        """The next arm with pulls in flight; allocates memory for the view at first use."""
        self._view = aligned_copy(self._state.block)
        self.ask_beside = partial(  # type: ignore[method-assign]
            self._calls.ask_beside, self._run.ctypes.data, self._view.ctypes.data
        )
        return self.ask_beside(flight, stand_ins)


class _CarefulCalls:
    """The same for a user's own policy, with errors that name the line.

    The first steps run in plain Python, which finds more errors than compiled code. A later step
    that fails is repeated in plain Python from the state before it.
    """

    def __init__(self, policy: Policy, state: RunState, calls: NativeCalls | PlainCalls) -> None:
        self._policy, self._state, self._calls = policy, state, calls
        self._plain = PlainCalls(policy, state) if state.spec.remembers else None
        self._seconds = REHEARSAL_SECONDS
        self.ask, self.ask_beside = partial(self._made, "ask"), partial(self._made, "ask_beside")

    def tell(self, arm: int, cost: float, reward: float, penalty: float) -> Any:
        """Same as the compiled call."""
        return self._made("tell", arm, float(cost), float(reward), float(penalty))

    def _made(self, name: str, *given: Any) -> Any:
        before, block = self._state.block.copy(), self._state.block
        label, step = self._policy.label, int(self._state["counts"][STEP])
        try:
            if self._plain and step < REHEARSED_STEPS and self._seconds > 0.0:
                start = time.perf_counter()
                found = getattr(self._plain, name)(*given)
                self._seconds -= time.perf_counter() - start
            else:
                found = getattr(self._calls, name)(*given)
            if not isinstance(found, int) or found != FAILED:
                return found
            block[:] = before
            if self._plain and (found := getattr(self._plain, name)(*given)) != FAILED:
                return found  # the report counts even if the decision after it fails
        except PolicyError:
            block[:] = before
            raise
        except Exception as error:
            block[:] = before
            raise failed(type(self._policy), error, step, label) from error
        block[:] = before
        why = "an index is nan" if self._state.spec.indexed else "failed"
        raise PolicyError(f"policy {label}: {why} at step {step}, but only when compiled")


def calls_for(
    policy: Policy, state: RunState, made: tuple[Native, LiveCalls] | None
) -> NativeCalls | PlainCalls | _CarefulCalls:
    """The calls of a policy over a state; plain ones if it is not compiled."""
    calls = PlainCalls(policy, state) if made is None else NativeCalls(state, made)
    return _CarefulCalls(policy, state, calls) if is_outside(type(policy)) else calls
