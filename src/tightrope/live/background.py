"""Compile a policy's functions in another thread, so that no decision waits for a compiler."""

from __future__ import annotations

import atexit
import os
import threading
from typing import ClassVar

from tightrope.kernels.native import LiveCalls, Native, live_calls, native
from tightrope.kernels.spec import Spec

__all__ = ["Background"]


class Background:
    """The compilation of a spec's functions, one per spec and process."""

    wanted: ClassVar[bool] = True  # whether a process lives long enough to gain from it
    running: ClassVar[set[Background]] = set()
    _all: ClassVar[dict[Spec, Background]] = {}

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self.made: tuple[Native, LiveCalls] | None = None
        self.failed = False
        self._thread = threading.Thread(target=self._compile, daemon=True)
        self.running.add(self)
        self._thread.start()

    @classmethod
    def of(cls, spec: Spec) -> Background | None:
        """The compilation of this spec, started now if it was not; None if none is wanted."""
        if spec not in cls._all and cls.wanted:
            cls._all[spec] = cls(spec)
        return cls._all.get(spec)

    def _compile(self) -> None:
        try:
            self.made = native(self._spec), live_calls()
        except Exception:
            self.failed = True
        finally:
            self.running.discard(self)

    @classmethod
    def wait(cls) -> None:
        """Wait for what is still compiled: a process that ends meanwhile would crash."""
        for one in list(cls.running):
            one._thread.join()


atexit.register(Background.wait)
os.register_at_fork(before=Background.wait)  # a child would wait for ever for numba's locks
