"""The thread that keeps views of the campaigns with open pages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from tightrope.errors import HaltedError, NotFoundError, TightropeError
from tightrope.formats import count, span
from tightrope.live.stores import Store
from tightrope.service.estimates import Estimates
from tightrope.service.pages.history import History, Look, View

EVERY = 0.5  # seconds between two looks
LOOK = 0.25  # largest number of seconds of a look: a committer may wait for its turn
LOOKED_AT = 60.0  # seconds after the last request in which a campaign is followed
AHEAD = 5.0  # seconds in which it is followed before the first request
FRESH = 1.0  # seconds after which a view is renewed
REST = 2.0  # the thread pauses for so many times as long as it worked


class Opening(NamedTuple):
    """The current step of opening a campaign, and its progress."""

    what: str
    done: int = 0  # events
    of: int = 0  # events; 0 if unknown

    def __str__(self) -> str:
        return self.what + (f": {count(self.done)} of {count(self.of)} events" * bool(self.of))


class NotYetError(TightropeError):
    """A campaign that is still being opened."""

    status = 503

    def __init__(self, name: str, opening: Opening, seconds: float) -> None:
        self.opening = opening
        self.progress = f"{opening}, {span(round(seconds))} so far"
        super().__init__(f"campaign {name!r} is being opened: {self.progress}")


class Followed:
    """A history, its last view, and the requests that wait for it."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.view: View | None = None
        self.made = self.seen = 0.0  # when the view was made, and last confirmed
        self.error: TightropeError | None = None
        self.wanted = self.began = time.monotonic()
        self.asked = 0  # requested looks at the end of the log
        self.answered = 0  # looks that were done


class Watch:
    """One thread that follows the campaigns with open pages."""

    def __init__(
        self,
        store: Store,
        look: Look,
        *,
        ending: Callable[[], bool] = lambda: False,
        estimates: Estimates | None = None,
        opening: Callable[[str], tuple[str, int, int]] = lambda name: ("its log is read", 0, 0),
    ) -> None:
        """``ending``: whether the store is about to be closed.

        ``opening``: the progress of opening a campaign; see ``Service.opening``.
        """
        self._opening = opening
        self.store, self._look, self._ending, self._estimates = store, look, ending, estimates
        self._followed: dict[str, Followed] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._ended = False

    def look(self, name: str, wait: float = 0.2, fresh: bool = False) -> View:
        """The current view of a campaign; raises if it could never be followed.

        Waits at most ``wait`` seconds for a newer view or the first one; raises a ``NotYetError``
        if there is none by then. ``fresh``: the view includes all committed events, if it comes in
        time.
        """
        with self._changed:
            one = self._followed.get(name)
            if one is None:
                if not self.store.read(name, 0, 1) and self.store.saved(name) is None:
                    raise NotFoundError(f"campaign {name!r}: does not exist")
                one = self._followed[name] = self._follow(name)
            one.wanted = time.monotonic()
            old = one.view is None or one.wanted - one.seen > FRESH
            if old or fresh:
                one.asked += 1
                want, until = one.asked, one.wanted + wait
                self._start()
                self._changed.notify_all()
                while one.answered < want and not self._ended:
                    left = until - time.monotonic()
                    if left <= 0:
                        break
                    self._changed.wait(left)
            if one.view is not None:
                return one.view
            if one.error is not None:
                raise one.error
        opening = one.history.opening() or self._opening(name)
        raise NotYetError(name, Opening(*opening), time.monotonic() - one.began)

    def _follow(self, name: str) -> Followed:
        return Followed(History(self.store, name, self._look, self._estimates))

    def want(self, names: Sequence[str]) -> None:
        """Start to follow campaigns in advance; stops after some seconds without a request."""
        with self._changed:
            for name in names:
                if name not in self._followed:
                    one = self._followed[name] = self._follow(name)
                    one.wanted += AHEAD - LOOKED_AT
                    self._start()

    def end(self) -> None:
        """End the thread."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="history", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._ended or self._ending():
                    self._thread = None
                    return
                since = time.monotonic() - LOOKED_AT
                active = [one for one in self._followed.values() if one.wanted > since]
                if not active:
                    self._thread = None
                    return
            began = time.monotonic()
            busy = False
            for one in active:
                busy |= self._step(one)
            worked = time.monotonic() - began
            with self._changed:
                self._changed.notify_all()
                if self._ended:
                    return
                waits = any(one.asked > one.answered for one in active)
                if not busy and not waits:
                    self._changed.wait(0.5)
            if busy:
                time.sleep(min(worked * (0.5 if waits else REST), 0.1))

    def _step(self, one: Followed) -> bool:
        """Do some work for one campaign; returns whether more is left."""
        history, want = one.history, one.asked
        waits = want > one.answered
        try:
            if (waits and history.begun) or time.monotonic() - history.looked >= EVERY:
                history.follow()
            refined, view = history.refine(), one.view
            if not history.begun:
                return True
            stale = view is None or time.monotonic() - one.made > FRESH
            if (stale or waits) and (view is None or self._news(history, view)):
                one.view, one.made = history.view(), time.monotonic()
            if waits:
                one.answered, one.seen = want, time.monotonic()
            one.error = None
            return refined
        except TimeoutError:  # the campaign is not open yet, or waits for its turn
            return False
        except Exception as error:  # the page shows the error instead of waiting for ever
            told = f"campaign {history.name!r}: {type(error).__name__}: {error}"
            one.error = error if isinstance(error, TightropeError) else HaltedError(told)
            one.answered, one.seen = want, time.monotonic()
            if one.view is not None:
                one.view = replace(one.view, error=str(one.error))
            history.reset()
            return False

    @staticmethod
    def _news(history: History, view: View) -> bool:
        """Whether a new view would differ."""
        if view.error is not None or history.now is None or view.estimate is not history.estimate:
            return True
        shown = view.status["events"], view.generation, view.whole
        return shown != (history.now.point.seq, history.curve.generation, history.whole)
