"""Take turns at a campaign's log: catch up, act for all that wait, append, commit.

Promises kept here:

P1 *Durable.* A request is done after its turn's commit, never before.
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

__all__ = ["TurnTaker"]

SNAPSHOT_EVERY = 10_000  # events
LONG_REPLAY = 1000  # events that were followed to open a campaign
LONGEST_JUMP = 3600.0  # seconds by which a clock may run ahead of the process's own
JUMPED = "the clock jumped"  # why a campaign is paused
UPTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
LONGEST_SILENCE = 31 * 86400.0  # seconds between two events that a new process takes for true


class TurnTaker:
    """A process's part in a campaign: its state as far as it was followed, and turns to write."""

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
        """Go on with a campaign that exists. ``owned``: whether ``disconnect`` closes the store.

        ``opening`` gets what follows the log before it begins, to see how far it is.
        """
        self.name, self.store = name, store
        self._given_who, self._owned = known_who(who), owned
        self._begin(policy)
        _all.add(self)
        opening(self._follower)
        with self._desk:
            self._follower.load()

    def _begin(self, policy: Policy | None) -> None:
        """What belongs to one process; a forked one begins anew."""
        self.who = self._given_who or own_name()
        self._desk = Desk(self.name, self._work)
        self._follower = Follower(self.store, self.name, policy)
        self._refused = 0  # reports that were refused and not kept, to be counted
        self._clocks: tuple[int, float] | None = None  # the store's and our own, at the last turn

    # Doing things.

    def do(self, act: Callable[[Writer], Any], tickets: Sequence[str] = ()) -> Any:
        """Have something done in a turn; ``tickets`` are those that it will look at."""
        request = TurnRequest(act, tickets)
        self._desk.perform([request])
        if request.error is not None:
            raise request.error
        return request.result

    def work(self, requests: Sequence[TurnRequest]) -> None:
        """Have requests done in one turn, now; for a caller that has a queue of its own.

        Each ends with its own ``result`` or ``error``; all that succeeded is committed by then.
        """
        with self._desk:
            self._work(requests)

    def _work(self, requests: Sequence[TurnRequest]) -> None:
        while requests:  # more than one turn if a request breaks one
            requests = self._turn(requests)

    def _turn(self, batch: Sequence[TurnRequest]) -> Sequence[TurnRequest]:
        """Do a batch in one turn; returns those that need another one, because it was broken."""
        writer: Writer | None = None
        try:
            with self.store.turn(self.name, self._catch_up) as turn:
                writer = self._writer(turn, batch)
                act_all(batch, writer)
                self._count_refused(writer)
                if writer.rows:
                    turn.append(writer.rows, writer.notes)
                if writer.drop:
                    turn.drop(writer.drop)
        except BaseException as error:
            self._follower.forget()  # it may hold events that were not stored
            return self._end_failed(batch, writer, error)
        self._follower.hash = writer.hash
        for request in batch:
            request.done = True
        self._keep_snapshot(writer)
        return ()

    def _catch_up(self) -> int:
        """Follow what is committed while others have the turn, so that less is left to do in it."""
        if self._follower.core is not None:
            with suppress(TightropeError):  # the turn will tell
                return self._follower.follow_committed().ledger.seq
        return 0

    def _end_failed(
        self, batch: Sequence[TurnRequest], writer: Writer | None, error: BaseException
    ) -> Sequence[TurnRequest]:
        """End the requests of a turn that failed; returns those that another one broke."""
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
        """A writer at the end of the log that knows the past of the tickets it will meet."""
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
        """Pause after a jump of the clock: it would expire tickets and release budget."""
        before, own, now = self._clocks or (None, 0.0), uptime(), writer.clock
        self._clocks = now, own
        last, bound = writer.ledger.at, LONGEST_SILENCE
        if before[0] is not None:
            last, bound = max(before[0], last), LONGEST_JUMP + (own - before[1])
        jumped = (now - last) / 1e6 > bound
        if jumped or writer.ledger.paused == JUMPED:  # log time stands still until it is resumed
            writer.now = writer.ledger.at
        if jumped and writer.ledger.paused != JUMPED:
            writer.emit(Paused(JUMPED))

    def _count_refused(self, writer: Writer) -> None:
        """Write how many reports were refused without being kept, beside other events."""
        self._refused += writer.overflow
        if self._refused and writer.rows:
            writer.emit(Discarded(refused=self._refused))
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
        if due or self._follower.replayed > LONG_REPLAY:  # the next process need not follow so many
            self._follower.replayed = 0
            try:
                self.store.save(self.name, Saved(last.seq, last.hash, writer.core.snapshot()))
            except StoreError as error:  # the log is the truth
                warnings.warn(f"no snapshot: {error}", stacklevel=2)


_all: weakref.WeakSet[TurnTaker] = weakref.WeakSet()


def _begin_again() -> None:
    """In a forked process: its parent's threads, and what they hold, are not here."""
    for one in list(_all):
        one._begin(one._follower.policy)


os.register_at_fork(after_in_child=_begin_again)


def uptime() -> float:
    """Seconds on a clock that nobody sets, and that goes on while the machine sleeps."""
    return time.clock_gettime(UPTIME)
