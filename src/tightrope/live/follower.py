"""Replay a campaign's log: the state after all of it, or up to an event.

Promises kept here:

P7 *Constant cost.* A log is replayed from its last snapshot.
P8 *Fail closed.* An event that cannot be applied, or whose hash does not follow from the one
   before, halts the process and discards the state. So does a log that differs from the one read
   before. A running process halts for good when another version of the program takes over. A
   process that starts continues from an older version and halts if a newer one has taken over.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf

from tightrope.compatibility import is_newer
from tightrope.errors import HaltedError, InputError, nearest
from tightrope.live.core import Core, digest_of
from tightrope.live.events import START, Row
from tightrope.live.kinds import Created, Upgraded
from tightrope.live.log import MANY, events_of
from tightrope.live.stores import Store, Turn
from tightrope.live.vectors import ErasedError
from tightrope.policies.base import Policy
from tightrope.version import __version__


class TakenOverError(HaltedError):
    """Another version of the program took over while this process worked."""


class Follower:
    """The state of a campaign, as far as its log was read here."""

    def __init__(self, store: Store, name: str, policy: Policy | None) -> None:
        """``policy``: needed if its class cannot be found by its name."""
        self.store, self.name, self.policy = store, name, policy
        self.core: Core | None = None  # to be read again
        self.hash = START  # of the last event that was applied
        self.replayed = 0  # events that were applied after the snapshot
        self._began = inf  # the log's last event when it was first read to its end
        self._over: str | None = None  # why this process never reads it again

    @property
    def followed(self) -> int | None:
        """The number of the last event that was followed; None while a snapshot is loaded."""
        core = self.core
        return None if core is None else core.ledger.seq

    def forget(self) -> None:
        """Discard the state: it may hold events that are not in the log."""
        self.core = None

    def load(self, upto: int | None = None) -> Core:
        """The state after all events, or after event ``upto``, from the last snapshot before."""
        if self._over is not None:
            raise HaltedError(self._over)
        saved, head = self.store.saved(self.name, upto), self.store.head(self.name)
        core, seen = Core(self.policy), START
        if saved is not None:
            rows = self.store.read(self.name, saved.seq - 1, 1)  # or the next, if it is archived
            if not rows or (rows[0].seq == saved.seq and rows[0].hash != saved.hash):
                raise HaltedError(
                    f"campaign {self.name!r}: the snapshot of event {saved.seq} belongs to "
                    "another log"
                )
            core, seen = Core.restore(saved.body, self.policy), saved.hash
            if core.ledger.seq != saved.seq:
                raise HaltedError(
                    f"campaign {self.name!r}: the snapshot of event {saved.seq} is damaged"
                )
            require_able(core, saved.seq, inf)
        self._hold(core, seen)
        core = self.follow_committed(upto)
        if core.ledger.seq == 0:
            raise unknown_campaign(self.store, self.name)
        if upto is None:
            self._began = min(self._began, core.ledger.seq)
            if head is not None and head[0] > core.ledger.seq:
                self.forget()
                raise HaltedError(
                    f"campaign {self.name!r}: the log ends at event {core.ledger.seq}, but "
                    f"event {head[0]} was the last; the store is damaged, run: tightrope "
                    "campaign verify"
                )
        self.replayed = core.ledger.seq - (saved.seq if saved is not None else 0)
        return core

    def _hold(self, core: Core, seen: bytes) -> None:
        """Continue from a state, after the event with this hash."""
        core.vectors.find = partial(self.store.vectors, self.name)
        self.core, self.hash = core, seen

    def refreshed(self) -> Core:
        """The state after all committed events."""
        return self.load() if self.core is None else self.follow_committed()

    def follow_committed(self, upto: int | None = None) -> Core:
        """Read to the end of the log, or to event ``upto``, outside of any turn."""
        assert self.core is not None
        while upto is None or self.core.ledger.seq < upto:
            seq = self.core.ledger.seq
            rows = self.store.read(self.name, seq, MANY if upto is None else min(MANY, upto - seq))
            if not rows and upto is None:
                break
            if not rows or rows[0].seq > seq + 1:
                if upto is not None:
                    raise HaltedError(
                        f"campaign {self.name!r}: the events before {upto + 1} are archived"
                    )
                self._skip()
            else:
                self.follow(rows, upto)
                if upto is None and len(rows) < MANY:
                    break
        return self.core

    def _skip(self) -> Core:
        """Continue from a snapshot: the events in between, or their features, are gone."""
        assert self.core is not None
        saved, seq = self.store.saved(self.name), self.core.ledger.seq
        if saved is None or saved.seq <= seq:
            self.forget()
            raise HaltedError(
                f"campaign {self.name!r}: event {seq + 1} or its features are missing"
            )
        core = Core.restore(saved.body, self.policy)
        self._hold(core, saved.hash)
        require_able(core, saved.seq, inf)
        return core

    def current(self, turn: Turn) -> Core:
        """The state after all events of the log, within a turn."""
        core = self.core or self.load()
        seq = core.ledger.seq
        rows = turn.read(max(seq - 1, 0))
        if rows and rows[0].seq > seq:  # that one is archived
            if rows[0].seq > seq + 1:
                core = self._skip()
            rows = [rows[0], *turn.read(core.ledger.seq)]  # the first was applied already
        elif not rows or rows[0].seq != seq or rows[0].hash != self.hash:
            self.forget()
            raise HaltedError(
                f"campaign {self.name!r}: event {seq}, which this process has read, is no "
                "longer in the store, which may be restored from a backup; open the campaign "
                "again"
            )
        if len(rows) > 1:
            self.follow(rows[1:])
        while len(rows) >= MANY:
            rows = turn.read(self.core.ledger.seq)  # type: ignore[union-attr]  # there is one now
            self.follow(rows)
        return self.core  # type: ignore[return-value]

    def follow(self, rows: Sequence[Row], upto: int | None = None) -> None:
        """Apply the next events; if one fails, discard the state.

        If features were erased, continue from a snapshot, except with ``upto``.
        """
        assert self.core is not None
        try:
            for event in events_of(rows, self.hash):
                if event.seq <= self.core.ledger.seq:  # it is in the snapshot
                    continue
                try:
                    self.core.follow(event)
                except ErasedError:
                    if upto is not None:
                        raise
                    self._skip()
                    continue
                self.hash = event.hash
                if isinstance(event.body, Created | Upgraded):
                    require_able(self.core, event.seq, self._began)
        except TakenOverError as error:
            self._over = str(error)
            self.forget()
            raise
        except BaseException:
            self.forget()
            raise


def require_able(core: Core, seq: int, began: float) -> None:
    """Raise if this version of the program must not continue after event ``seq``.

    ``began``: the last event when this process began.
    """
    if core.digest == digest_of(core.controller):
        return
    if is_newer(core.program, __version__):
        raise HaltedError(
            f"event {seq}: version {core.program} of the program took over; this is"
            f" {__version__}, so upgrade it"
        )
    if seq > began:
        raise TakenOverError(
            f"event {seq}: another version of the program took over; restart this process"
        )


def state_before(store: Store, name: str, policy: Policy | None, seq: int) -> Core:
    """The state just before an event."""
    return Follower(store, name, policy).load(seq - 1)


def unknown_campaign(store: Store, name: str) -> InputError:
    """The error for a name that no campaign has."""
    names = store.names()
    hint = nearest(name, names) if names else "there is none yet"
    return InputError(f"campaign {name!r}: does not exist; {hint}")
