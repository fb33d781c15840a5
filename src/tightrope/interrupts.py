"""Signals that stop a command: SIGTERM as Ctrl-C, and a Ctrl-C that Python would drop.

A KeyboardInterrupt inside a callback from C (LLVM's, while numba compiles), a finaliser or the
callback of a weak reference is lost: Python prints it and continues.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_dropped: list[BaseException | None] = []  # in the blocks that are open now


@contextmanager
def not_dropped(message: str = "") -> Iterator[Callable[[], None]]:
    """A block that raises, at its end, a KeyboardInterrupt that Python dropped inside it.

    Blocks can be nested: the first that ends raises it. The block gets a function that raises it
    earlier. Outside the main thread, which gets all signals, nothing happens.
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
        check()  # the dropped interrupt may have caused the error
        raise
    finally:
        sys.unraisablehook = before
        _dropped.clear()


_signals: list[int] = []  # received signals that stop this process


@contextmanager
def terminable() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that finished runs are kept and reported."""

    def stop(number: int, frame: object) -> None:
        _signals.append(number)
        raise KeyboardInterrupt

    _signals.clear()
    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def stopped_status() -> int:
    """The status of a command that was stopped: 128 plus the signal's number.

    After a KeyboardInterrupt inside ``exec`` of a text, as dataclasses use it, Python would end by
    the signal SIGINT in place of this status, whether it is caught or not; any other text undoes
    this.
    """
    exec("")
    return 128 + (_signals[0] if _signals else signal.SIGINT)
