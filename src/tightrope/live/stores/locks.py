"""The order of writers to a SQLite file: two kernel locks beside it, taken in order."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

BESIDE = (".queue", ".turn")  # the files of the locks
THREAD_STAYS = 1.0  # seconds that an idle thread stays for the next wait


def locked() -> threading.Lock:
    """A held lock."""
    made = threading.Lock()
    made.acquire()
    return made


def identity(path: str) -> tuple[int, int] | None:
    """The identity of the file at a path."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Locks:
    """The two locks beside the file; a wait for them ends at a deadline.

    A separate thread waits for the kernel's locks, because such a wait has no timeout if the holder
    was stopped. The thread stays for a while, for the next wait.
    """

    def __init__(self, path: str) -> None:
        self._files = [os.open(path + end, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
                       for end in BESIDE]  # fmt: skip
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None
        self._start = locked()  # released when the thread must queue again
        self._next, self._got = locked(), locked()  # released when next, and in turn
        self._queued = False  # whether the queue's lock was held before the thread queues
        self._in_line = self._wanted = self._given = self._closed = False

    def acquire(self, seconds: float, waiting: Callable[[], object] | None = None) -> bool:
        """Whether the turn came in time; ``waiting`` is called when this process is next."""
        queue, turn = self._files
        if self._in_line:  # still held from an abandoned wait
            return self._wait(seconds, None)
        self._queued = False
        try:
            fcntl.flock(queue, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._queued = True
            fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(queue, fcntl.LOCK_UN)
        except BlockingIOError:
            return self._wait(seconds, waiting)
        return True

    def _wait(self, seconds: float, waiting: Callable[[], object] | None) -> bool:
        until = time.monotonic() + seconds
        with self._mutex:
            self._wanted = True
            if not self._in_line:
                self._send_thread()
        try:
            if waiting is not None and self._next.acquire(timeout=seconds):
                waiting()
            if self._got.acquire(timeout=max(until - time.monotonic(), 0.0)):
                return True
        except BaseException:  # interrupted: the turn must be released
            if not self._given_up():
                self.release()
            raise
        return not self._given_up()

    def _send_thread(self) -> None:
        """Make a thread queue for the locks."""
        self._in_line, self._given = True, False
        self._next, self._got = locked(), locked()
        if self._thread is None:
            self._start = locked()
            self._thread = threading.Thread(target=self._keep_lining_up, daemon=True)
            self._thread.start()
        else:
            self._start.release()

    def _given_up(self) -> bool:
        """Whether a wait ended before the turn was given."""
        with self._mutex:
            self._wanted = False
            return not self._given

    def _keep_lining_up(self) -> None:
        while True:
            self._line_up()
            if not self._closed and not self._start.acquire(timeout=THREAD_STAYS):
                with self._mutex:
                    if not self._start.acquire(blocking=False):
                        self._thread = None
                        return
            if self._closed:
                return

    def _line_up(self) -> None:
        queue, turn = self._files
        if not self._queued:
            fcntl.flock(queue, fcntl.LOCK_EX)
        self._next.release()
        fcntl.flock(turn, fcntl.LOCK_EX)
        fcntl.flock(queue, fcntl.LOCK_UN)
        with self._mutex:
            self._in_line = False
            if self._wanted:
                self._given = True
                self._got.release()
            else:
                fcntl.flock(turn, fcntl.LOCK_UN)
            if self._closed:
                self._close_files()

    def release(self) -> None:
        fcntl.flock(self._files[1], fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the files as soon as no thread waits for them."""
        with self._mutex:
            self._wanted, self._closed = False, True
            if not self._in_line:
                self._close_files()
            if self._thread is not None and not self._in_line:
                self._start.release()

    def close_forked(self) -> None:
        """Close the parent's files after a fork, or its locks would outlive it."""
        self._close_files()

    def _close_files(self) -> None:
        for file in self._files:
            with suppress(OSError):
                os.close(file)
        self._files = [-1, -1]  # the file descriptors may be reused
