"""Compile a policy's functions in another thread, so that decisions do not wait for it."""

from __future__ import annotations

import atexit
import os
import threading
from typing import ClassVar

from tightrope.kernels.native import LiveCalls, Native, live_calls, native
from tightrope.kernels.spec import Spec


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
