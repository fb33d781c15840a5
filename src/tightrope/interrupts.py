"""Ctrl-C that Python would drop: kept, and raised again where it can be.

A KeyboardInterrupt that is raised inside a callback from C (LLVM's, while numba compiles), a
finaliser or the callback of a weak reference cannot leave it: Python prints it and goes on.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["not_dropped"]

_dropped: list[BaseException | None] = []  # in the blocks that are open now


@contextmanager
def not_dropped(message: str = "") -> Iterator[Callable[[], None]]:
    """A block at whose end a KeyboardInterrupt that Python dropped inside it is raised again.

    Blocks may be nested: the first that ends raises it. What the block gets is a function that
    does so earlier. Elsewhere than in the main thread, which alone gets signals, nothing happens.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return

    def check() -> None:
        if _dropped:
            raise KeyboardInterrupt(*filter(None, [message])) from _dropped.pop()

    def catch(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            _dropped.append(unraisable.exc_value)
        else:
            before(unraisable)

    before = sys.unraisablehook
    try:
        sys.unraisablehook = catch
        yield check
        check()
    except KeyboardInterrupt:
        raise
    except Exception:
        check()  # the error may be what the dropped interrupt led to
        raise
    finally:
        sys.unraisablehook = before
        _dropped.clear()
