"""Take turns at a campaign's log: catch up, do all waiting requests, append, commit.

Promises kept here:

P1 *Durable.* A request is done after its turn's commit, never before.
P3 *Exactly once.* If a commit fails with an unknown outcome, a new turn checks whether its events
   are in the log; nothing is decided twice.
P7 *Constant cost.* Only tickets in flight are held in memory; opening starts from a snapshot, taken
   every 10,000 events.
P8 *Fail closed.* After a failure the state is discarded and read again before use.
P9 *No leader.* Every process that has opened the campaign is a replica: to act, it takes the turn,
   reads new events, chooses, appends and commits. Threads of one process share a turn: one thread
   does the work of all waiting threads.
"""

from __future__ import annotations

import os
import time
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from tightrope.errors import (
    StoreError,
    TightropeError,
)
from tightrope.live.arguments import known_who, own_name
from tightrope.live.core import digest_of
from tightrope.live.events import Row
from tightrope.live.follower import Follower
from tightrope.live.kinds import Discarded, Paused, Upgraded
from tightrope.live.queue import (
    BrokenError,
    Desk,
    TurnRequest,
    act_all,
    fail,
)
from tightrope.live.stores import Saved, Store, Turn
from tightrope.live.writer import Writer
from tightrope.policies.base import Policy
from tightrope.version import __version__

SNAPSHOT_EVERY = 10_000  # events
LONG_REPLAY = 1000  # events that were read to open a campaign
LONGEST_JUMP = 3600.0  # seconds that the store's clock may run ahead of the process's own
JUMPED = "the clock jumped"  # why a campaign is paused
UPTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
LONGEST_SILENCE = 31 * 86400.0  # seconds between two events that a new process accepts


class TurnTaker:
    """A process's view of a campaign: its state, and turns to write."""

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        policy: Policy | None = None,
        who: str | None = None,
        owned: bool = False,
        opening: Callable[[Follower], None] = lambda follower: None,
    ) -> None:
        """Open an existing campaign. ``owned``: whether ``disconnect`` closes the store.

        ``opening`` is called with the follower of the log before it begins, to watch its progress.
        """
        self.name, self.store = name, store
        self._given_who, self._owned = known_who(who), owned
        self._begin(policy)
        _all.add(self)
        opening(self._follower)
        with self._desk:
            self._follower.load()

    def _begin(self, policy: Policy | None) -> None:
        """Set up the state of one process; a forked process starts anew."""
        self.who = self._given_who or own_name()
        self._desk = Desk(self.name, self._work)
        self._follower = Follower(self.store, self.name, policy)
        self._refused = 0  # refused reports that were not stored, to be counted
        self._clocks: tuple[int, float] | None = None  # the store's and our own, at the last turn

    # Requests.

    def do(
        self, act: Callable[[Writer], Any], tickets: Sequence[str] = (), who: str | None = None
    ) -> Any:
        """Make a request in a turn; ``tickets``: those that it reads; ``who``: its author."""
        request = TurnRequest(act, tickets, who)
        self._desk.perform([request])
        if request.error is not None:
            raise request.error
        return request.result

    def work(self, requests: Sequence[TurnRequest]) -> None:
        """Do requests in one turn, now; for a caller with its own queue.

        Each ends with its own ``result`` or ``error``; all successful ones are committed.
        """
        with self._desk:
            self._work(requests)

    def _work(self, requests: Sequence[TurnRequest]) -> None:
        while requests:  # more than one turn if a request breaks one
            requests = self._turn(requests)

    def _turn(self, batch: Sequence[TurnRequest]) -> Sequence[TurnRequest]:
        """Do a batch in one turn; returns the requests that need another turn after a failure."""
        writer: Writer | None = None
        try:
            with self.store.turn(self.name, self._catch_up) as turn:
                writer = self._writer(turn, batch)
                act_all(batch, writer)
                self._count_refused(writer)
                if writer.rows:
                    turn.append(writer.rows, writer.notes)
                if fresh := writer.core.vectors.fresh:
                    turn.keep(fresh)
                if writer.drop:
                    turn.drop(writer.drop)
        except BaseException as error:
            self._follower.forget()  # it may hold events that were not stored
            return self._end_failed(batch, writer, error)
        self._follower.hash = writer.hash
        if fresh:
            writer.core.vectors.committed()
        for request in batch:
            request.done = True
        self._keep_snapshot(writer)
        return ()

    def _catch_up(self) -> int:
        """Read committed events while others hold the turn, to shorten this process's turn."""
        if self._follower.core is not None:
            with suppress(TightropeError):  # the turn will find out
                return self._follower.follow_committed().ledger.seq
        return 0

    def _end_failed(
        self, batch: Sequence[TurnRequest], writer: Writer | None, error: BaseException
    ) -> Sequence[TurnRequest]:
        """End the requests of a failed turn; returns those that another request broke."""
        if isinstance(error, BrokenError):
            fail([error.request], error.__cause__ or error, self.name)
            left = [request for request in batch if request is not error.request]
            for request in left:
                request.error = None
            return left
        if isinstance(error, StoreError) and writer is not None and writer.rows:
            try:
                if self._is_stored(writer.rows[-1], error):
                    for request in batch:
                        request.done = True
                    return ()
            except StoreError as unknown:
                error = unknown
        fail(batch, error, self.name)
        if not isinstance(error, Exception):
            raise error
        return ()

    def _writer(self, turn: Turn, batch: Sequence[TurnRequest]) -> Writer:
        """A writer at the end of the log, with the past of the tickets that it needs."""
        core = self._follower.current(turn)
        wanted = [one for request in batch for one in request.tickets]
        writer = Writer(core, self._follower.hash, turn, self.who, wanted)
        if core.digest != (own := digest_of(core.controller)):
            core.digest, core.program = own, __version__
            writer.emit(Upgraded(**core.state(), program=core.program))
        self._watch_clock(writer)
        writer.expire()
        return writer

    def _watch_clock(self, writer: Writer) -> None:
        """Pause after a jump of the clock, which would expire tickets and release budget."""
        before, own, now = self._clocks or (None, 0.0), uptime(), writer.clock
        self._clocks = now, own
        last, bound = writer.ledger.at, LONGEST_SILENCE
        if before[0] is not None:
            last, bound = max(before[0], last), LONGEST_JUMP + (own - before[1])
        jumped = (now - last) / 1e6 > bound
        if jumped or writer.ledger.paused == JUMPED:  # log time stands still until then
            writer.now = writer.ledger.at
        if jumped and writer.ledger.paused != JUMPED:
            writer.emit(Paused(JUMPED))

    def _count_refused(self, writer: Writer) -> None:
        """Record the number of refused reports that were not stored, with other events."""
        self._refused += writer.overflow
        if self._refused and writer.rows:
            writer.emit(Discarded(refused=self._refused))
            self._refused = 0

    def _is_stored(self, row: Row, error: StoreError) -> bool:
        """Whether a failed turn was stored after all; a new turn finds out."""
        try:
            with self.store.turn(self.name) as turn:
                found = turn.read(row.seq - 1, 1)
        except StoreError:
            raise StoreError(
                f"{error}; it is unknown whether this was recorded. Repeat it with the same id"
            ) from error
        return bool(found) and found[0].hash == row.hash

    def save_snapshot(self) -> tuple[int, list[int]]:
        """Save the state now; returns its event's number, and those of tickets in flight."""
        with self._desk:
            core = self._follower.refreshed()
            seq, own = core.ledger.seq, self._follower.hash
            self.store.save(self.name, Saved(seq, own, core.snapshot()))
            return seq, [one.seq for one in core.ledger.tickets.values()]

    def _keep_snapshot(self, writer: Writer) -> None:
        if not writer.rows:
            return
        first, last = writer.rows[0].seq, writer.rows[-1]
        due = first // SNAPSHOT_EVERY != (last.seq + 1) // SNAPSHOT_EVERY
        if due or self._follower.replayed > LONG_REPLAY:  # the next process reads less
            self._follower.replayed = 0
            try:
                self.store.save(self.name, Saved(last.seq, last.hash, writer.core.snapshot()))
            except StoreError as error:  # the log is the truth
                warnings.warn(f"no snapshot: {error}", stacklevel=2)


_all: weakref.WeakSet[TurnTaker] = weakref.WeakSet()


def _begin_again() -> None:
    """Reset in a forked process, which lacks its parent's threads and their locks."""
    for one in list(_all):
        one._begin(one._follower.policy)


os.register_at_fork(after_in_child=_begin_again)


def uptime() -> float:
    """Seconds on a monotonic clock that also runs while the machine sleeps."""
    return time.clock_gettime(UPTIME)
