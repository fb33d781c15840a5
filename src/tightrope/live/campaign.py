"""A campaign: ask which arm to pull, tell what came of it, through crashes and from many machines.

Promises kept here:

P1 *Durable.* ``ask`` and ``tell`` return after their turn's commit, never before.
P3 *Exactly once.* If a commit fails with an unknown outcome, a new turn looks whether its events
   are in the log; nothing is decided again.
P7 *Constant cost.* Only tickets in flight are held in memory; a snapshot every 10,000 events is
   where opening starts from.
P8 *Fail closed.* After a failure the state is thrown away and read again before it is used.
P9 *No leader.* Every process that has opened the campaign is a replica: to act it takes the turn,
   follows the events it has not seen, chooses, appends and commits. Threads of one process share a
   turn: whoever gets it does the work of all that wait.
"""

from __future__ import annotations

import hashlib
import os
import socket
import sys
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from tightrope.errors import (
    CampaignError,
    HaltedError,
    InputError,
    PolicyError,
    ReportError,
    StoreError,
    TightropeError,
    nearest,
)
from tightrope.live.changing import Relearning
from tightrope.live.controller import Controller, Penalty
from tightrope.live.core import (
    PATIENCE,
    STOPS,
    Core,
    Settings,
    reservations,
    uncapped,
    when,
)
from tightrope.live.events import START, Event, Row, event_of
from tightrope.live.ledger import Account, moved, tick_digits
from tightrope.live.outlook import Outlook
from tightrope.live.stores import Saved, Store, Turn, open_store
from tightrope.live.writing import Ticket, Writer
from tightrope.policies.base import Policy
from tightrope.policies.naming import parse_policy
from tightrope.policies.resolve import Resolve
from tightrope.problem import Problem, Task
from tightrope.problem.laws import shown
from tightrope.sources import source_digest
from tightrope.version import __version__

__all__ = ["Campaign", "SoftBudgetWarning", "open_campaign"]

SNAPSHOT_EVERY = 10_000  # events
LONG_REPLAY = 1000  # events that were followed to open a campaign
MOST_TOGETHER = 256  # requests of one turn
MOST_WAIT = 100 * 365 * 86400.0  # seconds that a ticket may be waited for
LONGEST_JUMP = 3600.0  # seconds by which a clock may run ahead of the process's own
JUMPED = "the clock jumped"  # why a campaign is paused
LONGEST_SILENCE = 31 * 86400.0  # seconds between two events that a new process takes for true


class SoftBudgetWarning(UserWarning):
    """A campaign that cannot reserve costs, because nobody knows the largest one."""


class Request:
    """Something to be done in a turn, and what came of it."""

    __slots__ = ("act", "done", "error", "result", "tickets", "wake")

    def __init__(self, act: Callable[[Writer], Any], tickets: Sequence[str] = ()) -> None:
        self.act, self.tickets = act, tickets
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False
        self.wake: threading.Lock | None = None  # locked while its thread has nothing to look at


class Desk:
    """One thread at a time is at it, and does the work of all whose requests are in the queue.

    The others are called when their work is done; whoever leaves calls the first that still waits.
    """

    def __init__(self) -> None:
        self.queue: deque[Request] = deque()
        self._lock = threading.RLock()

    def take(self, blocking: bool = True) -> bool:
        """Whether it is ours now; it may be taken twice."""
        return self._lock.acquire(blocking)

    def leave(self) -> None:
        """Let others take it."""
        self._lock.release()
        with suppress(IndexError):
            call(self.queue[0].wake)

    def __enter__(self) -> Desk:
        self.take()
        return self

    def __exit__(self, *error: object) -> None:
        self.leave()

    def withdraw(self, requests: Sequence[Request]) -> None:
        """Take back what a thread no longer waits for."""
        for request in requests:
            with suppress(ValueError):
                self.queue.remove(request)
        with suppress(IndexError):
            call(self.queue[0].wake)


def call(wake: threading.Lock | None) -> None:
    """Have a waiting thread look again."""
    if wake is not None:
        with suppress(RuntimeError):  # it was called already
            wake.release()


class Campaign:
    """A campaign in a store; see :func:`open_campaign`. Its methods may be called from threads."""

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        policy: Policy | None = None,
        who: str | None = None,
        owned: bool = False,
    ) -> None:
        """Go on with a campaign that exists. ``owned``: whether ``disconnect`` closes the store."""
        self.name, self.store = name, store
        self._policy, self._given_who, self._owned = policy, _known_who(who), owned
        self._begin()
        _campaigns.add(self)
        with self._turn_taken:
            self._load()

    def _begin(self) -> None:
        """What belongs to one process; a forked one begins anew."""
        self.who = self._given_who or own_name()
        self._turn_taken = Desk()
        self._queue = self._turn_taken.queue
        self._refused = 0  # reports that were refused and not kept, to be counted
        self._core: Core | None = None
        self._replayed = 0  # events that were followed to open it
        self._hash = START
        self._clocks: tuple[int, float] | None = None  # the store's and our own, at the last turn

    # Reading the log.

    def _load(self) -> Core:
        """The state from the last snapshot and the events after it."""
        saved = self.store.saved(self.name)
        core, seen = Core(self._policy), START
        if saved is not None:
            rows = self.store.read(self.name, saved.seq - 1, 1)  # or the next, if it is archived
            if not rows or (rows[0].seq == saved.seq and rows[0].hash != saved.hash):
                raise HaltedError(
                    f"campaign {self.name!r}: the snapshot of event {saved.seq} is of another log"
                )
            core, seen = Core.restore(saved.body, self._policy), saved.hash
        self._core, self._hash = core, seen
        core = self._follow_committed()
        if core.ledger.seq == 0:
            raise unknown_campaign(self.store, self.name)
        self._replayed = core.ledger.seq - (saved.seq if saved is not None else 0)
        return core

    def _follow_committed(self) -> Core:
        assert self._core is not None
        while rows := self.store.read(self.name, self._core.ledger.seq, 1000):
            if rows[0].seq > self._core.ledger.seq + 1:
                self._skip_archived()
            else:
                self._follow(rows)
        return self._core

    def _skip_archived(self) -> Core:
        """Go on from a snapshot: events that were not followed here are archived."""
        assert self._core is not None
        saved, seq = self.store.saved(self.name), self._core.ledger.seq
        if saved is None or saved.seq <= seq:
            self._core = None
            raise HaltedError(f"campaign {self.name!r}: event {seq + 1} is missing")
        self._core, self._hash = Core.restore(saved.body, self._policy), saved.hash
        return self._core

    def _follow(self, rows: Sequence[Row]) -> None:
        core = self._core
        assert core is not None
        try:
            for row in rows:
                event = event_of(row, self._hash)
                core.follow(event)
                self._hash = row.hash
                if event.kind == "upgraded" and core.digest != digest_of(core.controller):
                    raise HaltedError(
                        f"event {row.seq}: another version of the program took over; restart"
                        " this process"
                    )
        except BaseException:
            self._core = None
            raise

    def _current(self, turn: Turn) -> Core:
        """The state after all events of the log, within a turn."""
        core = self._core or self._load()
        seq = core.ledger.seq
        rows = turn.read(max(seq - 1, 0))
        if rows and rows[0].seq > seq:  # that one is archived
            if rows[0].seq > seq + 1:
                core = self._skip_archived()
            rows = [rows[0], *turn.read(core.ledger.seq)]  # the first was followed already
        elif not rows or rows[0].seq != seq or rows[0].hash != self._hash:
            self._core = None
            raise HaltedError(
                f"campaign {self.name!r}: event {seq}, which was followed here, is not in the"
                " store any more; was it restored from a backup? Open the campaign again"
            )
        self._follow(rows[1:])
        while len(rows) >= 1000:
            rows = turn.read(core.ledger.seq)
            self._follow(rows)
        return core

    # Doing things.

    def do(self, act: Callable[[Writer], Any], tickets: Sequence[str] = ()) -> Any:
        """Have something done in a turn; ``tickets`` are those that it will look at."""
        return self._do_all([Request(act, tickets)])[0]

    def _do_all(self, requests: Sequence[Request]) -> list[Any]:
        self.perform(requests)
        for request in requests:
            if request.error is not None:
                raise request.error
        return [request.result for request in requests]

    def perform(self, requests: Sequence[Request]) -> None:
        """Have requests done in a turn, together with those of other threads.

        Each ends with its own ``result`` or ``error``; all that succeeded is committed by then.
        """
        desk, last, wake = self._turn_taken, requests[-1], threading.Lock()
        for request in requests:
            request.wake = wake
        wake.acquire()
        self._queue.extend(requests)
        try:
            while not last.done:
                if not desk.take(blocking=False):
                    wake.acquire()  # until this is done, or first in the queue
                    continue
                try:
                    if not last.done:
                        self._serve(max(MOST_TOGETHER, len(requests)))
                finally:
                    desk.leave()
        except BaseException:
            desk.withdraw(requests)
            raise

    def _serve(self, most: int) -> None:
        """Do what waits in the queue, in one turn, and call those whose work is done."""
        batch: list[Request] = []
        try:
            while self._queue and len(batch) < most:
                batch.append(self._queue.popleft())
            self._perform(batch)
        except BaseException as error:  # others must not wait for what nobody does
            self._fail([one for one in batch if not one.done], error)
            raise
        finally:
            for wake in {one.wake for one in batch if one.done}:
                call(wake)

    def _perform(self, batch: Sequence[Request]) -> None:
        """Do a batch in one turn; each request ends with its result or its error."""
        writer: Writer | None = None
        broken: Request | None = None
        try:
            with self.store.turn(self.name) as turn:
                core = self._current(turn)
                writer = self._writer(turn, core, batch)
                for request in batch:
                    try:
                        request.result = request.act(writer)
                    except (HaltedError, StoreError):
                        raise
                    except PolicyError:  # it may have tossed coins for a decision that is none
                        broken = request
                        raise
                    except TightropeError as error:
                        request.error = error
                    except Exception:
                        broken = request
                        raise
                self._refused += writer.overflow
                self._count_refused(writer)
                if writer.rows:
                    turn.append(writer.rows, writer.notes)
                if writer.drop:
                    turn.drop(writer.drop)
        except BaseException as error:
            self._core = None  # it may hold events that were not stored
            rows = writer.rows if writer is not None else []
            kept = False
            if isinstance(error, StoreError) and rows:
                try:
                    kept = self._is_stored(rows[-1], error)
                except StoreError as unknown:
                    error = unknown
            if broken is not None:  # a turn is shared: the others have another one
                rest = [request for request in batch if request is not broken]
                for request in rest:
                    request.error = None
                self._queue.extendleft(reversed(rest))
                batch = [broken]
            if not kept:
                self._fail(batch, error)
                if not isinstance(error, Exception):
                    raise
        else:
            self._hash = writer.hash
        for request in batch:
            request.done = True
        if self._core is not None and writer is not None:
            self._keep_snapshot(writer)

    def _fail(self, batch: Sequence[Request], error: BaseException) -> None:
        told = error
        if not isinstance(error, Exception):
            told = StoreError(
                f"campaign {self.name!r}: interrupted; it is not known whether this was recorded:"
                " repeat it with the same id"
            )
        elif not isinstance(error, TightropeError):
            told = StoreError(f"campaign {self.name!r}: {type(error).__name__}: {error}")
            told.__cause__ = error
        for request in batch:
            request.error, request.done = told, True

    def _writer(self, turn: Turn, core: Core, batch: Sequence[Request]) -> Writer:
        """A writer that knows the past of the tickets it will meet."""
        tickets = core.ledger.tickets
        wanted = {one for request in batch for one in request.tickets if one not in tickets}
        now = turn.now()
        writer = Writer(core, self._hash, now, self.who, turn.find, sorted(wanted))
        writer.read = turn.read
        if core.digest != (own := digest_of(core.controller)):
            core.digest = own
            writer.emit("upgraded", None, {**core.state(), "program": __version__})
        self._watch_clock(writer, now)
        writer.expire()
        return writer

    def _watch_clock(self, writer: Writer, now: int) -> None:
        """Pause after a jump of the clock: it would expire tickets and release budget."""
        before, own = self._clocks or (None, 0.0), uptime()
        self._clocks = now, own
        last, bound = writer.ledger.at, LONGEST_SILENCE
        if before[0] is not None:
            last, bound = max(before[0], last), LONGEST_JUMP + (own - before[1])
        jumped = (now - last) / 1e6 > bound
        if jumped or writer.ledger.paused == JUMPED:  # log time stands still until it is resumed
            writer.now = writer.ledger.at
        if jumped and writer.ledger.paused != JUMPED:
            writer.emit("paused", None, {"why": JUMPED})

    def _count_refused(self, writer: Writer) -> None:
        """Write how many reports were refused without being kept, beside other events."""
        if self._refused and writer.rows:
            writer.emit("discarded", None, {"of": 0, "refused": self._refused})
            self._refused = 0

    def _is_stored(self, row: Row, error: StoreError) -> bool:
        """Whether a turn that failed was stored after all: a new turn knows."""
        try:
            with self.store.turn(self.name) as turn:
                found = turn.read(row.seq - 1, 1)
        except StoreError:
            raise StoreError(
                f"{error}; it is not known whether this was recorded: repeat it with the same id"
            ) from error
        return bool(found) and found[0].hash == row.hash

    def _keep_snapshot(self, writer: Writer) -> None:
        if not writer.rows:
            return
        first, last = writer.rows[0].seq, writer.rows[-1]
        due = first // SNAPSHOT_EVERY != (last.seq + 1) // SNAPSHOT_EVERY
        if due or self._replayed > LONG_REPLAY:  # the next process need not follow as many
            self._replayed = 0
            try:
                self.store.save(self.name, Saved(last.seq, last.hash, writer.core.snapshot()))
            except StoreError as error:  # the log is the truth
                warnings.warn(f"no snapshot: {error}", stacklevel=2)

    # The public half.

    def ask(
        self,
        id: str | None = None,
        *,
        eligible: Sequence[int | str] | None = None,
        expire_after: timedelta | float | None = None,
    ) -> Ticket:
        """Which arm to pull now. The same ``id`` again gives the same ticket, and its state.

        ``eligible``: the arms that may be pulled this time, by name or number. ``expire_after``:
        how long this ticket is waited for, if not as long as the campaign's.
        """
        ttl = None if expire_after is None else _microseconds(expire_after)
        return self.do(lambda w: w.ask(id, eligible, ttl), () if id is None else (str(id),))  # type: ignore[no-any-return]

    def ask_many(
        self,
        count: int | None = None,
        *,
        ids: Sequence[str] | None = None,
        eligible: Sequence[int | str] | None = None,
        expire_after: timedelta | float | None = None,
    ) -> list[Ticket]:
        """As many tickets in one turn, or one for each of ``ids``; fewer if the budget ends."""
        ttl = None if expire_after is None else _microseconds(expire_after)
        names: Sequence[str | None] = [None] * (count or 0) if ids is None else ids
        if not names or (count is not None and count != len(names)):
            raise InputError(f"count = {shown(count)}: must be positive, and as many as the ids")

        def act(writer: Writer) -> list[Ticket]:
            found: list[Ticket] = []
            writer.check_ids(names, eligible, ttl)
            for one in names:
                try:
                    found.append(writer.ask(one, eligible, ttl))
                except CampaignError:
                    if not found:
                        raise
                    break
                except TightropeError as error:
                    if not found or isinstance(error, InputError):
                        raise
                    break
            return found

        return self.do(act, [one for one in names if one is not None])  # type: ignore[no-any-return]

    def tell(
        self,
        id: str,
        cost: float | None = None,
        reward: float | None = None,
        penalty: Penalty = None,
        *,
        arm: int | str | None = None,
    ) -> None:
        """What came of a ticket. Telling the same again is harmless.

        ``arm``: the arm that was pulled, where another system acts (``shadow``).
        """
        self.do(lambda w: w.tell(id, cost, reward, penalty, arm), (str(id),))

    def tell_many(self, reports: Iterable[Mapping[str, Any]]) -> list[ReportError]:
        """Many reports in as few turns as possible; returns the errors of those refused.

        A report has the names of ``tell``'s arguments: ``{"id": ..., "cost": ..., ...}``.
        """
        requests = []
        for report in reports:
            unknown = set(report) - {"id", "cost", "reward", "penalty", "arm"}
            if unknown or "id" not in report:
                wrong = sorted(unknown)[0] if unknown else "id is missing"
                raise InputError(f"report {shown(dict(report))}: {wrong!r}: must be as for tell")
            requests.append(Request(_telling(report), (str(report["id"]),)))
        errors = []
        for start in range(0, len(requests), MOST_TOGETHER):
            some = requests[start : start + MOST_TOGETHER]
            try:
                self._do_all(some)
            except ReportError:
                for request in some:
                    if isinstance(request.error, ReportError):
                        errors.append(request.error)
                    elif request.error is not None:
                        raise request.error from None
        return errors

    def void(self, id: str) -> None:
        """Nothing was done for this ticket: its reservation is free again."""
        self.do(lambda w: w.void(id), (str(id),))

    def amend(
        self,
        id: str,
        cost: float | None = None,
        penalty: Mapping[str, float] | None = None,
        *,
        note: str | None = None,
    ) -> None:
        """Other money for a ticket that was told; what was learned from it stays."""
        self.do(lambda w: w.amend(id, cost, penalty, note), (str(id),))

    def amend_many(self, bill: Iterable[Mapping[str, Any]], *, note: str | None = None) -> int:
        """Amend tickets from a bill: rows with ``id``, ``cost`` and ``penalty``. All or none."""
        rows = [dict(row) for row in bill]

        def act(writer: Writer) -> int:
            for row in rows:  # first look, so that nothing is amended if one cannot be
                writer.check_amend(row)
            for row in rows:
                writer.amend(row["id"], row.get("cost"), row.get("penalty"), note)
            return len(rows)

        return int(self.do(act, [str(row.get("id")) for row in rows]))

    def correct(
        self, number: int, cost: float | None = None, reward: float | None = None,
        penalty: Penalty = None, *, id: str | None = None,
    ) -> None:  # fmt: skip
        """Tell a quarantined report, by its number, as it should have been."""
        ticket = self._quarantined_ticket(number) if id is None else id
        self.do(lambda w: w.correct(number, ticket, cost, reward, penalty), (ticket,))

    def discard(self, number: int, *, note: str | None = None) -> None:
        """Close a quarantined report that nobody will correct."""
        self.do(lambda w: w.discard(number, note))

    def pause(self, why: str = "by hand", *, note: str | None = None) -> None:
        """Make no decisions until ``resume``; reports are taken."""
        self.do(lambda w: w.pause(why, note))

    def resume(self) -> None:
        """Decide again."""
        self.do(lambda w: w.resume())

    def close(self) -> None:
        """Make no more decisions, for good; reports are still taken."""
        self.do(lambda w: w.close())

    def pin(self, arm: int | str | None) -> None:
        """Pull this arm until further notice; None lets the policy decide again."""
        self.do(lambda w: w.pin(arm))

    def add_budget(self, amount: float) -> None:
        """So much more budget from here on."""
        self.do(lambda w: w.add_budget(amount))

    def add_arm(self, name: str, **facts: Any) -> int:
        """A new arm; arguments and result as of :meth:`Controller.add_arm`."""
        return int(self.do(lambda w: w.add_arm(name=name, **facts)))

    def retire_arm(self, arm: int | str) -> None:
        """Never pull this arm again; its tickets in flight may still be told."""
        self.do(lambda w: w.retire_arm(arm))

    def reprice(self, arm: int | str, **prices: Any) -> None:
        """Other known prices of an arm; as :meth:`Controller.reprice`."""
        self.do(lambda w: w.reprice(arm=arm, **prices))

    def change(
        self,
        *,
        limits: Mapping[str, Any] | None = None,
        policy: Policy | str | None = None,
        expire_after: timedelta | float | None = None,
        per_day: float | None = None,
    ) -> None:
        """Other limits, another policy, another expiry from here on.

        The new policy learns again from every report in the log; limits keep their names.
        """
        with self._turn_taken:
            core = self.refreshed()
            settings = core.settings
            if expire_after is not None:
                settings = replace(settings, expire_after=_microseconds(expire_after))
            if per_day is not None:
                settings = replace(settings, per_day=_positive(per_day, "per_day"))
            chosen, text = as_policy(policy) if policy is not None else (None, core.policy_text)
            learning = None
            if limits is not None or chosen is not None:
                first = next(self.events(0, 1))
                learning = Relearning(core, limits, chosen, first.body.get("seed", 0))
                learning.follow_log(self.store, self.name)
            if chosen is not None:
                self._policy = core.given = chosen

            def act(writer: Writer) -> None:
                rest = [] if learning is None else writer.read(learning.seq, 10**9)
                changed = core.controller if learning is None else learning.controller
                writer.change(learning, rest, text, settings, digest_of(changed))

            self.do(act)

    def refreshed(self) -> Core:
        """The state after all events that are committed now."""
        with self._turn_taken:
            if self._core is None:
                self._load()
            else:
                self._follow_committed()
            assert self._core is not None
            return self._core

    def status(self) -> dict[str, Any]:
        """Where the campaign stands, in the user's units."""
        from tightrope.live.describing import status_of

        with self._turn_taken:
            return status_of(self.name, self.refreshed())

    def outlook(self, doubt: float = 0.01) -> Outlook:
        """What can be said now about the end; see :meth:`Controller.outlook`."""
        with self._turn_taken:
            return self.refreshed().controller.outlook(doubt)

    def events(self, after: int = 0, count: int | None = None) -> Iterator[Event]:
        """The log, in order, from number ``after`` + 1 on; read in short pieces."""
        left = count
        while left is None or left > 0:
            rows = self.store.read(self.name, after, 1000 if left is None else min(left, 1000))
            if not rows:
                return
            for row in rows:
                yield event_of(row)
            after = rows[-1].seq
            left = None if left is None else left - len(rows)

    def notes(self, forget: Sequence[int] = ()) -> dict[int, str]:
        """Free text by event number; ``forget`` deletes some of it first."""
        return self.store.notes(self.name, forget)

    def ticket(self, id: str) -> Ticket:
        """A ticket and its state, without any change."""
        from tightrope.live.describing import ticket_of

        with self._turn_taken:
            return ticket_of(self.store, self.name, self.refreshed(), id)

    def why(self, id: str) -> Any:
        """Why a ticket's arm was chosen: what was known then."""
        from tightrope.live.describing import why_of

        return why_of(self.store, self.name, self._policy, id)

    def quarantine(self) -> list[dict[str, Any]]:
        """The refused reports that wait to be corrected or discarded."""
        found = []
        with self._turn_taken:
            open_reports = dict(self.refreshed().ledger.quarantine)
        for number, ticket in open_reports.items():
            row = self.store.read(self.name, number - 1, 1)[0]
            body = event_of(row).body
            at = when(row.at).isoformat()
            report = {"number": number, "ticket": ticket, "at": at, "why": body["why"]}
            found.append({**report, "report": body["report"]})
        return found

    def _quarantined_ticket(self, number: int) -> str:
        found = self.refreshed().ledger.quarantine.get(number)
        if found is None:
            raise InputError(f"quarantine = {shown(number)}: is not a kept report of a ticket")
        return found

    def verify(self, progress: Callable[[int], None] | None = None) -> Any:
        """Follow the whole log again, and compare with every snapshot; see ``Verified``."""
        from tightrope.live.verifying import verified

        return verified(self.store, self.name, self._policy, progress)

    def disconnect(self) -> None:
        """Let go of the store. The campaign goes on in other processes, and can be opened again."""
        if self._owned:
            self.store.close()

    def __enter__(self) -> Campaign:
        return self

    def __exit__(self, *error: object) -> None:
        self.disconnect()

    def __repr__(self) -> str:
        return f"Campaign({self.name!r} in {self.store.url!r})"


_campaigns: weakref.WeakSet[Campaign] = weakref.WeakSet()


def _begin_again() -> None:
    """In a forked process: its parent's threads, and what they hold, are not here."""
    for campaign in list(_campaigns):
        campaign._begin()


os.register_at_fork(after_in_child=_begin_again)


def _telling(report: Mapping[str, Any]) -> Callable[[Writer], None]:
    arguments = [report.get(key) for key in ("id", "cost", "reward", "penalty", "arm")]
    return lambda writer: writer.tell(*arguments)  # type: ignore[arg-type]


def unknown_campaign(store: Store, name: str) -> InputError:
    """The error for a name that no campaign has."""
    names = store.names()
    hint = nearest(name, names) if names else "there is none yet"
    return InputError(f"campaign {name!r}: does not exist; {hint}")


def _policy_source(kind: type) -> str:
    module = sys.modules.get(kind.__module__)
    path = getattr(module, "__file__", None)
    if kind.__module__.startswith("tightrope.") or not path:
        return kind.__module__
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@cache
def _digest(kind: type) -> str:
    return hashlib.sha256(f"{source_digest()} {_policy_source(kind)}".encode()).hexdigest()[:16]


def digest_of(controller: Controller) -> str:
    """What the learned state belongs to: the program's sources and the policy's."""
    return _digest(type(controller.policy))


def as_policy(policy: Policy | str) -> tuple[Policy, str]:
    """A policy and the text that it is found by."""
    if isinstance(policy, str):
        return parse_policy(policy), policy
    if not isinstance(policy, Policy):
        raise InputError(f"policy = {shown(policy)}: must be a policy, such as Resolve()")
    return policy, policy.label


def uptime() -> float:
    """Seconds on a clock that nobody sets, and that goes on while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def own_name() -> str:
    """Who writes, if nobody says it: this machine's name and the process."""
    return f"{socket.gethostname()}:{os.getpid()}"


def _known_who(who: str | None) -> str | None:
    """A name as an event can hold it."""
    if who is None or (isinstance(who, str) and 0 < len(who) <= 128 and who.isprintable()):
        return None if who is None else str(who)
    raise InputError(f"who = {shown(who)}: must be 1 to 128 printable characters")


def _positive(value: Any, place: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf"):
        return float(value)
    raise InputError(f"{place} = {shown(value)}: must be a positive number")


def _microseconds(value: timedelta | float) -> int:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if _positive(seconds, "expire_after") > MOST_WAIT:
        raise InputError(f"expire_after = {shown(value)}: must be at most {MOST_WAIT:g} seconds")
    return round(seconds * 1e6)


def _moment(value: datetime | str, place: str) -> int:
    """A date, or its ISO form, in microseconds; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1e6)
    except (ValueError, AttributeError, TypeError):
        allowed = "a date such as 2026-11-01T00:00:00+00:00"
        raise InputError(f"{place} = {shown(value)}: must be {allowed}") from None


def open_campaign(
    store: str | Path | Store,
    name: str,
    *,
    task: Task | Problem | None = None,
    budget: float | None = None,
    policy: Policy | str | None = None,
    seed: int = 0,
    stop: str = "hard",
    expire_after: timedelta | float = 86400.0,
    release: str | None = None,
    starts: datetime | str | None = None,
    ends: datetime | str | None = None,
    per_day: float | None = None,
    shadow: bool = False,
    who: str | None = None,
) -> Campaign:
    """Create a campaign, or go on with the one of this name.

    There are many arguments because all that a campaign keeps to is said here, once.
    ``store``: the path of a SQLite file, or ``postgresql://...``. ``task`` and ``budget`` are
    needed to create it; to go on they may be left out, and have to agree if they are given.
    ``stop``: "hard" reserves each arm's largest cost before it is pulled and never overspends;
    "paper" ends after the first crossing. ``expire_after``: seconds, or a timedelta, after which a
    ticket is not waited for. ``release="even"`` between ``starts`` and ``ends``, and at most
    ``per_day``, hold the budget back. ``shadow``: decide only; another system acts.
    """
    if not isinstance(name, str) or not name or len(name) > 128 or not name.isprintable():
        raise InputError(f"name = {shown(name)}: must be 1 to 128 printable characters")
    opened = open_store(store if isinstance(store, Store) else str(store), create=task is not None)
    owned = opened is not store
    try:
        if not opened.read(name, 0, 1) and opened.saved(name) is None:
            if task is None or budget is None:
                raise unknown_campaign(opened, name)
            settings = _settings(stop, expire_after, release, starts, ends, per_day, shadow)
            chosen, text = as_policy(Resolve() if policy is None else policy)
            _create(opened, name, task, budget, chosen, text, seed, settings, who)
        given = as_policy(policy)[0] if policy is not None else None
        campaign = Campaign(opened, name, policy=given, who=who, owned=owned)
        _require_same(campaign, task, budget, given)
        return campaign
    except BaseException:
        if owned:
            opened.close()
        raise


def _settings(
    stop: str,
    expire_after: timedelta | float,
    release: str | None,
    starts: datetime | str | None,
    ends: datetime | str | None,
    per_day: float | None,
    shadow: bool,
) -> Settings:
    if stop not in STOPS:
        raise InputError(f"stop = {shown(stop)}: must be {', '.join(map(repr, STOPS))}")
    if release not in (None, "even"):
        raise InputError(f"release = {shown(release)}: must be 'even', or be left out")
    if (release is None) != (starts is None) or (release is None) != (ends is None):
        raise InputError(f"release = {shown(release)}: must come with starts and ends")
    first = None if starts is None else _moment(starts, "starts")
    last = None if ends is None else _moment(ends, "ends")
    if first is not None and last is not None and last <= first:
        raise InputError(f"ends = {shown(ends)}: must be after starts = {shown(starts)}")
    return Settings(
        stop=stop,
        expire_after=_microseconds(expire_after),
        starts=first,
        ends=last,
        per_day=None if per_day is None else _positive(per_day, "per_day"),
        shadow=bool(shadow),
    )


def _create(
    store: Store,
    name: str,
    task: Task | Problem,
    budget: float,
    policy: Policy,
    text: str,
    seed: int,
    settings: Settings,
    who: str | None,
) -> None:
    """Write a campaign's first event, unless another process is faster."""
    controller = Controller(task, policy, budget, seed=seed, patience=PATIENCE)
    known = controller.task
    loose = uncapped(known)
    if loose and settings.stop == "hard":
        settings = replace(settings, stop="soft")
        warnings.warn(
            f"campaign {name!r} is soft: it may overspend, because the largest {loose[0]} is not"
            f' known; declare a cap, such as Scales(grow={{"{loose[0]}": 10}})',
            SoftBudgetWarning,
            stacklevel=3,
        )
    core = Core()
    core.controller, core.settings, core.policy_text = controller, settings, text
    core.digest = digest_of(core.controller)
    accounts = [("cost", float(budget))]
    for m, hard in enumerate(known.hard):
        if hard:
            limit = known.limit_kinds[m]
            accounts.append((known.limit_names[m], float(limit.total or limit.number * budget)))
    made = [Account(one, tick_digits(total)) for one, total in accounts]
    moves = [account.ticks(total) for account, (_, total) in zip(made, accounts, strict=True)]
    least = min(one[0] for one in reservations(known, made, settings))
    if settings.per_day is not None and made[0].ticks(settings.per_day) < least:
        what = f"must be at least {made[0].amount(least):g}, which a pull may cost"
        raise InputError(f"per_day = {settings.per_day:g}: {what}")
    body = {
        **core.state(),
        "name": name,
        "budget": float(budget),
        "seed": seed,
        "program": __version__,
        "penalties": known.penalty_count,
        "accounts": [[one, tick_digits(total)] for one, total in accounts],
        "m": moved((total, 0, 0) for total in moves),
    }
    with store.turn(name) as turn:
        if turn.read(0, 1):
            return
        fresh = Core(policy)
        writer = Writer(fresh, START, turn.now(), _known_who(who) or own_name(), turn.find)
        writer.emit("created", None, body)
        turn.append(writer.rows, {})
    last = writer.rows[-1]
    store.save(name, Saved(last.seq, last.hash, fresh.snapshot()))


def _require_same(
    campaign: Campaign, task: Task | Problem | None, budget: float | None, policy: Policy | None
) -> None:
    """Raise if what was given to go on is not what the campaign is about."""
    core = campaign.refreshed()
    controller = core.controller
    what = f"campaign {campaign.name!r} exists with"
    if budget is not None and isinstance(budget, int | float) and isfinite(budget):
        own = controller.budget
        if float(budget) != own:
            first = next(campaign.events(0, 1)).body.get("budget")
            if float(budget) not in (own, first):
                raise InputError(f"budget = {budget!r}: {what} {own!r}; leave it out")
    if task is not None:
        known = task.task
        same = (known.limit_names, set(known.names) <= set(controller.task.names))
        if same != (controller.task.limit_names, True):
            raise InputError(f"task: {what} other arms or limits; leave it out")
    if policy is not None:
        mine = policy.for_task(controller.task)
        if mine.label != controller.policy.label:
            text = controller.policy.label
            raise InputError(f"policy = {policy.label!r}: {what} {text!r}; use change(policy=...)")
