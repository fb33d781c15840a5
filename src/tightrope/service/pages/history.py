"""A campaign as the page shows it: a replica that follows the committed log, and curves of it.

Promises kept here:

- *No writer waits.* Events are read in short pieces, outside of any turn, and followed by a state
  of our own; between two pieces the thread rests for longer than it worked.
- *Something at once.* It begins at the last snapshot, so that the first view takes milliseconds
  whatever the length of the log; the older snapshots give a coarse curve, and what lies between
  them is followed later, the newest first.
- *Bounded.* A curve has at most ``MOST_POINTS`` points: when it has more, those that are close go.
  Of reports that need a hand the newest ``MOST_TROUBLES`` are kept.
"""

from __future__ import annotations

import bisect
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tightrope.errors import HaltedError, NotFoundError, TightropeError
from tightrope.live.core import CampaignSettings, Core
from tightrope.live.events import START, Event
from tightrope.live.kinds import Expired, Quarantined, Told
from tightrope.live.ledger import Open
from tightrope.live.log import events_of
from tightrope.live.outlook import Outlook
from tightrope.live.status import CampaignStatus, status_of
from tightrope.live.stores import Store
from tightrope.problem import Task

__all__ = ["History", "NotYetError", "Point", "Trouble", "View", "Watch", "point_of"]

MOST_POINTS = 1000  # of a curve
FIRST_POINTS = 600  # of a log that was long already
MOST_TROUBLES = 200  # that are listed
SNAPSHOTS = 8  # that are read in one go
PIECE = 100  # events that are followed in one go: a millisecond or two
TOO_FAR = 20_000  # events behind a snapshot: rather begin there again
LOOKED_AT = 60.0  # seconds after the last look that a campaign is still followed
AHEAD = 5.0  # seconds that it is followed before the first look
FRESH = 1.0  # seconds that a view is shown before there is a new one
REST = 2.0  # times as long as it worked the thread rests
DOUBT = 0.01  # of the outlook


class NotYetError(TightropeError):
    """A campaign whose state is not there yet: a moment after the service has started."""

    status = 503


class Point(NamedTuple):
    """Totals after an event, in the user's units."""

    seq: int
    at: float  # seconds since 1970
    budget: float
    spent: float
    reserved: float
    in_flight: int
    told: int
    reward: float
    penalties: tuple[float, ...]  # [M]
    queues: tuple[float, ...]  # [M]
    pulls: tuple[int, ...]  # told, [K]


def point_of(core: Core) -> Point:
    """The totals of a state."""
    ledger, controller = core.ledger, core.controller
    account = ledger.accounts[0]
    return Point(
        ledger.seq,
        ledger.at / 1e6,
        account.amount(account.budget),
        account.amount(account.spent),
        account.amount(account.reserved),
        len(ledger.tickets),
        ledger.told,
        ledger.reward,
        tuple(ledger.penalties),
        tuple(controller.queues),
        tuple(controller.pulls),
    )


class Trouble(NamedTuple):
    """A report that did not come as it should have."""

    seq: int
    at: float  # seconds since 1970
    kind: str  # quarantined, expired, late, overrun
    ticket: str | None
    why: str


@dataclass(frozen=True, eq=False)
class View:
    """What is known of a campaign at one moment; nothing of it changes."""

    name: str
    task: Task
    settings: CampaignSettings
    status: CampaignStatus
    outlook: Outlook
    points: tuple[Point, ...]  # by event; the last is of the moment
    generation: int  # of the points: as long as it is the same they are only added to
    oldest: tuple[str, Open] | None  # the ticket that is in flight for the longest
    means: list[list[float | None]]  # [K][2 + M]
    quarantine: dict[int, str | None]  # open reports: number, ticket
    troubles: tuple[Trouble, ...]  # the newest first
    behind: bool  # whether there are events that were not followed yet
    whole: bool  # whether the curve has been refined back to the beginning
    error: str | None = None  # why it cannot be followed any further


@dataclass
class SparseCurve:
    """Points in order of their events, at least ``stride`` events apart."""

    points: list[Point] = field(default_factory=list)
    stride: int = 1
    generation: int = 1

    def add(self, point: Point) -> None:
        """A later point."""
        self.points.append(point)
        while len(self.points) > MOST_POINTS:
            self._thin()

    def insert(self, more: Sequence[Point]) -> None:
        """Points between others."""
        if more:
            known = {point.seq: point for point in self.points}
            known.update((point.seq, point) for point in more)
            self.points = [known[seq] for seq in sorted(known)]
            self.generation += 1
            while len(self.points) > MOST_POINTS:
                self._thin()

    def due(self, seq: int) -> bool:
        """Whether an event is far enough from the last point."""
        return not self.points or seq >= self.points[-1].seq + self.stride

    def _thin(self) -> None:
        """Leave out points that are close to the one before, twice as close as it was."""
        self.stride *= 2
        self.generation += 1
        kept = self.points[:1]
        for point in self.points[1:]:
            if point.seq >= kept[-1].seq + self.stride:
                kept.append(point)
        self.points = kept


class Filling(NamedTuple):
    """A gap between two snapshots that is being followed."""

    core: Core
    points: list[Point]  # the first is of the event before the gap
    upto: int  # the event at its end, whose point there is already


class History:
    """One campaign, followed by the thread of a :class:`Watch`."""

    def __init__(self, store: Store, name: str) -> None:
        self.store, self.name = store, name
        self.reset()

    def reset(self) -> None:
        """Forget everything, and begin again with the next piece."""
        self.core: Core | None = None
        self.curve = SparseCurve(generation=time.monotonic_ns())  # unlike any before
        self.troubles: list[Trouble] = []  # by event
        self.behind = True
        self._hash = START
        self._back: list[tuple[int, int]] = []  # where older snapshots are looked for: after, upto
        self._gaps: list[tuple[int, int]] = []  # between snapshots, not followed yet: after, upto
        self._filling: Filling | None = None

    # Following the end of the log.

    def _begin(self) -> Core:
        """Take the last snapshot."""
        before = 0 if self.core is None else self.core.ledger.seq
        saved = self.store.saved(self.name)
        if saved is None or saved.seq <= before:
            if before:
                raise HaltedError(f"campaign {self.name!r}: event {before + 1} is missing")
            self._hash, self.core = START, Core()
            return self.core
        self._hash, self.core = saved.hash, Core.restore(saved.body)
        self.curve.stride = max(self.curve.stride, saved.seq // FIRST_POINTS)
        self.curve.add(point_of(self.core))
        self._back.append((before, saved.seq))
        return self.core

    def follow(self, most: int = PIECE) -> bool:
        """Follow a piece of the log; whether there may be more of it."""
        core = self.core or self._begin()
        rows = self.store.read(self.name, core.ledger.seq, most)
        if rows and rows[0].seq > core.ledger.seq + 1:  # archived meanwhile
            self._begin()
            return True
        for event in events_of(rows, self._hash):
            core.follow(event)
            self._hash = event.hash
            self._notice(event, core)
            if self.curve.due(event.seq):
                self.curve.add(point_of(core))
        self.behind = len(rows) == most
        return self.behind

    def jump(self) -> None:
        """Begin at a later snapshot, if the log has run away."""
        saved = self.store.saved(self.name)
        if self.core is not None and saved and saved.seq > self.core.ledger.seq + TOO_FAR:
            self._begin()

    # What was before.

    def refine(self) -> bool:
        """Follow a piece of what was skipped, the newest first; whether there is more."""
        if self._back:
            self._look_back(*self._back.pop())
        elif self._filling is not None:
            self._fill(self._filling)
        elif self._gaps:
            after, upto = self._gaps.pop()
            saved = self.store.saved(self.name, after)
            if upto - after > self.curve.stride and saved is not None and saved.seq == after:
                core = Core.restore(saved.body)
                self._filling = Filling(core, [point_of(core)], upto)
        else:
            return False
        return True

    def _look_back(self, after: int, upto: int) -> None:
        """Take the points of some snapshots before an event, and note the gaps between them."""
        points: list[Point] = []
        while len(points) < SNAPSHOTS:
            saved = self.store.saved(self.name, upto - max(self.curve.stride, 1))
            if saved is None or saved.seq <= after:
                break
            points.append(point_of(Core.restore(saved.body)))
            self._gaps.append((saved.seq, upto))
            upto = saved.seq
        else:
            self._back.append((after, upto))
        self._gaps.sort()
        self.curve.insert(points)

    def _fill(self, gap: Filling) -> None:
        """Follow a piece of a gap."""
        core, points, upto = gap
        count = min(PIECE, upto - 1 - core.ledger.seq)
        rows = self.store.read(self.name, core.ledger.seq, count) if count else []
        if not rows or rows[0].seq != core.ledger.seq + 1:  # all of it, or the rest is archived
            self._filling = None
            self.curve.insert(points)
            return
        for event in events_of(rows):
            core.follow(event)
            self._notice(event, core)
            if event.seq >= points[-1].seq + self.curve.stride:
                points.append(point_of(core))

    @property
    def whole(self) -> bool:
        """Whether nothing is left to be refined."""
        return not (self._back or self._gaps or self._filling)

    def _notice(self, event: Event, core: Core) -> None:
        """Keep what needs a hand, or has come otherwise than it should."""
        found = trouble_of(event, core)
        if found is None:
            return
        same = [one for one in self.troubles if one.ticket == found.ticket]
        if found.kind == "late":  # it is not waited for any more
            gone = {one.seq for one in same if one.kind == "expired"}
            self.troubles = [one for one in self.troubles if one.seq not in gone]
        elif found.kind == "expired" and any(one.kind == "late" for one in same):
            return  # told since, as a later piece of the log has shown
        bisect.insort(self.troubles, found)
        del self.troubles[: len(self.troubles) - MOST_TROUBLES]

    def view(self) -> View:
        """What is known now."""
        core = self.core
        assert core is not None
        ledger, controller = core.ledger, core.controller
        now, points = point_of(core), self.curve.points
        return View(
            name=self.name,
            task=controller.task,
            settings=core.settings,
            status=status_of(self.name, core),
            outlook=controller.outlook(DOUBT),
            points=(*(points[:-1] if points and points[-1].seq == now.seq else points), now),
            generation=self.curve.generation,
            oldest=next(iter(ledger.tickets.items()), None),
            means=controller.means,
            quarantine=dict(ledger.quarantine),
            troubles=tuple(reversed(self.troubles)),
            behind=self.behind,
            whole=self.whole,
        )


def trouble_of(event: Event, core: Core) -> Trouble | None:
    """What is wrong about an event, if anything."""
    body, at = event.body, event.at / 1e6
    if isinstance(body, Told):
        if body.over:
            account = core.ledger.accounts[0]
            why = f"cost {account.amount(body.settled[0]):g} is above what was reserved"
            if body.was == "voided":
                why = "was told after it was voided"
            return Trouble(event.seq, at, "overrun", event.ticket, why)
        if body.was == "expired":
            return Trouble(event.seq, at, "late", event.ticket, "was told after it had expired")
        return None
    if isinstance(body, Expired):
        return Trouble(event.seq, at, "expired", event.ticket, "nothing was heard of it in time")
    if isinstance(body, Quarantined):
        return Trouble(event.seq, at, "quarantined", event.ticket, body.why)
    return None


class Followed:
    """A history, what came of it last, and who waits for it."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.view: View | None = None
        self.made = self.seen = 0.0  # when the view was made, and when it was last found true
        self.error: TightropeError | None = None
        self.wanted = time.monotonic()
        self.asked = 0  # looks at the end of the log that were asked for
        self.answered = 0  # and were had
        self.jumped = time.monotonic()


class Watch:
    """One thread that follows the campaigns somebody looks at."""

    def __init__(self, store: Store, *, ending: Callable[[], bool] = lambda: False) -> None:
        """``ending``: whether the store is about to be closed."""
        self.store, self._ending = store, ending
        self._followed: dict[str, Followed] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._ended = False

    def look(self, name: str, wait: float = 0.2, fresh: bool = False) -> View:
        """The campaign as it is, or was a moment ago; raises if it could never be followed.

        Waits at most ``wait`` seconds for a newer view than the one there is, or for the first one;
        if there is none by then, a ``NotYetError``. ``fresh``: all that is committed now has to be
        in it, if it comes in time.
        """
        with self._changed:
            one = self._followed.get(name)
            if one is None:
                if not self.store.read(name, 0, 1) and self.store.saved(name) is None:
                    raise NotFoundError(f"campaign {name!r}: does not exist")
                one = self._followed[name] = Followed(History(self.store, name))
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
            if one.view is None:
                raise one.error or NotYetError(f"campaign {name!r}: is being opened")
            return one.view

    def want(self, names: Sequence[str]) -> None:
        """Begin to follow campaigns that may be looked at; for some seconds, if nobody does."""
        with self._changed:
            for name in names:
                if name not in self._followed:
                    one = self._followed[name] = Followed(History(self.store, name))
                    one.wanted += AHEAD - LOOKED_AT
                    self._start()

    def end(self) -> None:
        """Let the thread end."""
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
        """Some work for one campaign; whether there is more."""
        history, want = one.history, one.asked
        try:
            more = history.follow()
            if more and time.monotonic() - one.jumped > 1.0:
                one.jumped = time.monotonic()
                history.jump()
            refined = False if more else history.refine()
            view, waits = one.view, want > one.answered and not more
            stale = view is None or time.monotonic() - one.made > FRESH
            if (stale or waits) and (view is None or self._news(history, view)):
                one.view, one.made = history.view(), time.monotonic()
            if waits:
                one.answered, one.seen = want, time.monotonic()
            one.error = None
            return more or refined
        except Exception as error:  # a page must say so rather than wait for ever
            told = f"campaign {history.name!r}: {type(error).__name__}: {error}"
            one.error = error if isinstance(error, TightropeError) else HaltedError(told)
            one.answered, one.seen = want, time.monotonic()
            if one.view is not None:
                one.view = replace(one.view, error=str(one.error))
            history.reset()
            return False

    @staticmethod
    def _news(history: History, view: View) -> bool:
        """Whether a view would show something else."""
        seq = 0 if history.core is None else history.core.ledger.seq
        if view.error is not None:
            return True
        shown = view.status["events"], view.generation, view.whole, view.behind
        return shown != (seq, history.curve.generation, history.whole, history.behind)
