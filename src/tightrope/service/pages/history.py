"""The data of a campaign's page: looks at the current state, and curves of past states.

Promises kept here:

- *No writer waits.* A look copies the shown parts of the state between two turns; a separate thread
  does the rest. It replays only events from before the first look or from a time without a page, in
  short pieces outside of any turn, and pauses between two pieces for longer than it worked.
- *A first view at once.* The first view starts at the last snapshot, so it takes milliseconds for a
  log of any length. Older snapshots give a coarse curve, which is refined later, the newest part
  first.
- *Bounded.* A curve has at most ``MOST_POINTS`` points; above that, close points are dropped. The
  newest ``MOST_TROUBLES`` reports that went wrong are kept.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from tightrope.errors import RiskWarning
from tightrope.live.controller import Controller
from tightrope.live.core import CampaignSettings, Core
from tightrope.live.creation import notices_of
from tightrope.live.events import Event, Row, event_of
from tightrope.live.featured import FeaturedController, FeatureEffect
from tightrope.live.kinds import Amended, Expired, Quarantined, Told
from tightrope.live.learned import LearnedCurve, curve_of, point_sums
from tightrope.live.ledger import Account, Open
from tightrope.live.log import events_of
from tightrope.live.outlook import Outlook
from tightrope.live.status import CampaignStatus, status_of
from tightrope.live.stores import Store
from tightrope.live.vectors import ErasedError
from tightrope.problem import Task
from tightrope.service.estimates import EndEstimate, Estimates

MOST_POINTS = 1000  # of a curve
FIRST_POINTS = 600  # of a log that is long at the first look
MOST_TROUBLES = 200  # that are listed
SNAPSHOTS = 8  # that are read at once
PIECE = 100  # events that are applied at once: a millisecond or two
AWAY = 5.0  # seconds between two looks after which the missed events are replayed
DOUBT = 0.01  # of the outlook

Look = Callable[[str, Callable[[Core], Any]], Any]
"""The result of a short function of a campaign's state after all committed events; raises a
``TimeoutError`` if that takes too long."""


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
    pulls: tuple[int, ...]  # reported, [K]


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
    """A report that is refused, missing, late or above its reservation."""

    seq: int
    at: float  # seconds since 1970
    kind: str  # quarantined, expired, late, overrun
    ticket: str | None
    why: str


@dataclass(frozen=True, eq=False)
class View:
    """An immutable view of a campaign at one moment."""

    name: str
    task: Task
    settings: CampaignSettings
    status: CampaignStatus
    outlook: Outlook
    points: tuple[Point, ...]  # by event; the last one is current
    generation: int  # of the points: while it is the same, points are only added
    oldest: tuple[str, Open] | None  # the oldest ticket in flight
    means: list[list[float | None]]  # [K][2 + M]
    means_by_type: Mapping[str, list[list[float | None]]]  # [K][2 + M]; if the policy uses types
    effects: Sequence[FeatureEffect]  # if the policy uses features
    quarantine: dict[int, str | None]  # open reports: number, ticket
    troubles: tuple[Trouble, ...]  # the newest first
    whole: bool  # whether the curve has been refined back to the beginning
    estimate: EndEstimate | None = None  # included in the outlook
    error: str | None = None  # why the campaign cannot be followed any further
    notices: tuple[str, ...] = ()  # before the first report: warnings for its creator
    curve: LearnedCurve | None = None  # over an interval; ``means`` are then its own


@dataclass
class SparseCurve:
    """Points in order of their events, at least ``stride`` events apart."""

    points: list[Point] = field(default_factory=list)
    stride: int = 1
    generation: int = 1

    def add(self, point: Point) -> None:
        """Append a point."""
        self.points.append(point)
        while len(self.points) > MOST_POINTS:
            self._thin()

    def insert(self, more: Sequence[Point]) -> None:
        """Insert points between existing ones."""
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
        """Double the stride, and drop points that are closer together."""
        self.stride *= 2
        self.generation += 1
        kept = self.points[:1]
        for point in self.points[1:]:
            if point.seq >= kept[-1].seq + self.stride:
                kept.append(point)
        self.points = kept


class Filling(NamedTuple):
    """A gap between two points that is being filled from the log."""

    core: Core
    points: list[Point]
    after: int  # the event at its beginning, already applied
    upto: int  # the event at its end, which has a point already


class PageMoment(NamedTuple):
    """The parts of a state that are copied between two turns."""

    point: Point
    status: CampaignStatus
    settings: CampaignSettings
    controller: Controller  # a copy
    account: Account
    oldest: tuple[str, Open] | None
    quarantine: dict[int, str | None]

    def troubles(self) -> tuple[object, ...]:
        """A key that changes if a report went wrong."""
        status = self.status
        return status["expired"], status["late"], status["overruns"], tuple(self.quarantine)


class History:
    """One campaign, followed by the thread of a ``Watch``."""

    def __init__(
        self, store: Store, name: str, look: Look, estimates: Estimates | None = None
    ) -> None:
        self.store, self.name, self._look, self._estimates = store, name, look, estimates
        self.reset()

    def reset(self) -> None:
        """Discard everything, and start again with the next look."""
        self.now: PageMoment | None = None
        self.looked = 0.0  # when
        self.begun = False  # whether the newest part of the curve is there
        self.curve = SparseCurve(generation=time.monotonic_ns())  # differs from all earlier ones
        self.troubles: list[Trouble] = []  # by event
        self._back: list[tuple[int, int]] = []  # where to look for older snapshots: after, upto
        self._gaps: list[tuple[int, int]] = []  # between points, not filled yet: after, upto
        self._filling: Filling | None = None

    # The end of the log.

    def take(self, core: Core) -> PageMoment:
        """Copy the parts of a state that are shown; short, because it runs between two turns."""
        ledger = core.ledger
        return PageMoment(
            point_of(core),
            status_of(self.name, core),
            core.settings,
            core.controller.copy(),
            ledger.accounts[0],
            next(iter(ledger.tickets.items()), None),
            dict(ledger.quarantine),
        )

    def follow(self) -> None:
        """Read the state after all committed events."""
        before, looked = self.now, self.looked
        now = self._look(self.name, self.take)
        self.now, self.looked = now, time.monotonic()
        seq, after = now.point.seq, 0 if before is None else before.point.seq
        if before is None:
            self.curve.stride = max(self.curve.stride, seq // FIRST_POINTS)
        away = self.looked - looked > AWAY and seq - after > self.curve.stride
        if before is None or away:
            self._back.append((after, seq))
        elif now.troubles() != before.troubles():
            self._notice(self._rows(after, seq))
        if self.curve.due(seq):
            self.curve.add(now.point)

    def _rows(self, after: int, upto: int) -> Iterator[Row]:
        while after < upto and (rows := self.store.read(self.name, after, min(1000, upto - after))):
            yield from rows
            after = rows[-1].seq

    # What was before.

    def refine(self) -> bool:
        """Fill a piece of the skipped log, the newest first; returns whether more is left."""
        if self._back:
            self._look_back(*self._back.pop())
        elif self._filling is not None:
            self._fill(self._filling)
        elif self._gaps:
            after, upto = self._gaps.pop()
            if upto - after <= self.curve.stride:
                self.begun = True
            else:
                saved = self.store.saved(self.name, after)
                core = Core() if saved is None else Core.restore(saved.body)
                core.vectors.find = partial(self.store.vectors, self.name)
                points = [point_of(core)] if saved is not None and saved.seq == after else []
                self._filling = Filling(core, points, after, upto)
        else:
            self.begun = True
            return False
        return True

    def _look_back(self, after: int, upto: int) -> None:
        """Take the points of some snapshots before an event, and note the gaps between them."""
        points: list[Point] = []
        while len(points) < SNAPSHOTS:
            saved = self.store.saved(self.name, upto - max(self.curve.stride, 1))
            if saved is None or saved.seq <= after:
                self._gaps.append((after, upto))
                break
            points.append(point_of(Core.restore(saved.body)))
            self._gaps.append((saved.seq, upto))
            upto = saved.seq
        else:
            self._back.append((after, upto))
        self._gaps.sort()
        self.curve.insert(points)

    def _fill(self, gap: Filling) -> None:
        """Fill a piece of a gap."""
        core, points, after, upto = gap
        count = min(PIECE, upto - 1 - core.ledger.seq)
        rows = self.store.read(self.name, core.ledger.seq, count) if count else []
        if not rows or rows[0].seq != core.ledger.seq + 1:  # done, or the rest is archived
            self._end_gap(points, upto)
            return
        try:
            for event in events_of(rows):
                core.follow(event)
                far = not points or event.seq >= points[-1].seq + self.curve.stride
                if event.seq > after and far:
                    points.append(point_of(core))
        except ErasedError:  # the rest cannot be replayed
            self._end_gap(points, upto)
        self._notice([row for row in rows if row.seq > after])

    def _end_gap(self, points: list[Point], upto: int) -> None:
        """Take the points of a gap, as far as it can be filled."""
        self._filling, self.begun = None, True
        self.curve.insert(points)
        self._notice(self._rows(upto - 1, upto))

    def opening(self) -> tuple[str, int, int] | None:
        """The progress of the first view, once there is a state; None before."""
        gap, now = self._filling, self.now
        if now is None:
            return None
        if gap is None:
            return "its charts are drawn", 0, 0
        done = max(gap.core.ledger.seq - gap.after, 0)
        return "its charts are drawn from the log", done, gap.upto - gap.after

    @property
    def whole(self) -> bool:
        """Whether the whole curve is there."""
        return not (self._back or self._gaps or self._filling)

    def _notice(self, rows: Iterable[Row]) -> None:
        """Keep the reports that went wrong."""
        assert self.now is not None
        account = self.now.account
        for row in rows:
            found = trouble_of(event_of(row), account) if row.kind in TROUBLES else None
            if found is None:
                continue
            same = [one for one in self.troubles if one.ticket == found.ticket]
            if found.kind == "late":  # the report has come
                gone = {one.seq for one in same if one.kind == "expired"}
                self.troubles = [one for one in self.troubles if one.seq not in gone]
            elif found.kind == "expired" and any(one.kind == "late" for one in same):
                continue  # reported since, by a later piece of the log
            bisect.insort(self.troubles, found)
            del self.troubles[: len(self.troubles) - MOST_TROUBLES]

    @property
    def estimate(self) -> EndEstimate | None:
        """The last estimate, or None."""
        return None if self._estimates is None else self._estimates.last(self.name)

    def view(self) -> View:
        """The current view."""
        now, points = self.now, self.curve.points
        assert now is not None
        controller, seq = now.controller, now.point.seq
        sums = point_sums(controller) if now.status["told"] else None
        curve = None if sums is None else curve_of(sums)
        outlook, estimate = controller.outlook(DOUBT), None
        if self._estimates is not None:
            self._estimates.wanted(self.name, controller, outlook)
            estimate = self.estimate
        return View(
            name=self.name,
            task=controller.task,
            settings=now.settings,
            status=now.status,
            outlook=outlook if estimate is None else estimate.within(outlook),
            estimate=estimate,
            points=(*(points[:-1] if points and points[-1].seq == seq else points), now.point),
            generation=self.curve.generation,
            oldest=now.oldest,
            means=controller.means if curve is None else curve.mean.tolist(),
            curve=curve,
            means_by_type=getattr(controller, "means_by_type", {}),
            effects=controller.effects() if isinstance(controller, FeaturedController) else (),
            quarantine=now.quarantine,
            troubles=tuple(reversed(self.troubles)),
            whole=self.whole,
            notices=() if now.status["told"] else self._notices(now),
        )

    def _notices(self, now: PageMoment) -> tuple[str, ...]:
        """Warnings for the creator of a campaign, except the risk's, which the outlook has."""
        task, policy, budget = now.controller.task, now.controller.policy, now.controller.budget
        found = notices_of(self.name, task, now.settings, budget, policy)
        return tuple(text for text, kind in found.items() if kind is not RiskWarning)


TROUBLES = frozenset(
    ["told", "amended", "expired", "quarantined"]
)  # kinds of events that can report one


def trouble_of(event: Event, account: Account) -> Trouble | None:
    """The trouble that an event reports, or None."""
    body, at = event.body, event.at / 1e6
    if isinstance(body, Told):
        if body.over:
            why = f"cost {account.amount(body.settled[0]):g} is above what was reserved"
            if body.was == "voided":
                why = "was reported after it was voided"
            return Trouble(event.seq, at, "overrun", event.ticket, why)
        if body.was == "expired":
            return Trouble(event.seq, at, "late", event.ticket, "was reported after it had expired")
        return None
    if isinstance(body, Amended):
        why = "was amended to more than was reserved"
        return Trouble(event.seq, at, "overrun", event.ticket, why) if body.over else None
    if isinstance(body, Expired):
        return Trouble(event.seq, at, "expired", event.ticket, "no report came in time")
    if isinstance(body, Quarantined):
        return Trouble(event.seq, at, "quarantined", event.ticket, body.why)
    return None
