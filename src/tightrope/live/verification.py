"""Replay a campaign's log and compare it with every snapshot.

P6 *Replay.* Money is added up exactly from the first event. The policy learns again from the last
event that carries its state (its creation, a change, another version of the program), and is
compared with every snapshot since: bit for bit, or within rounding if another machine wrote it.
Reads are short, so that a live campaign goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np

from tightrope.errors import HaltedError, PolicyError, TightropeError
from tightrope.live.controller import Controller
from tightrope.live.core import Core
from tightrope.live.events import START, Event, cannot_follow
from tightrope.live.kinds import Archived, Asked, ContextsErased, Stateful
from tightrope.live.ledger import Ledger, Open
from tightrope.live.log import MANY, events_of, rows_of
from tightrope.live.stores import Saved, Store
from tightrope.live.vectors import ErasedError, Vectors
from tightrope.policies.base import Policy

ROUNDING = 1e-9  # relative, of numbers that were learned


@dataclass
class Verified:
    """The result of a verification: what was compared, and the faults."""

    events: int = 0
    first: int = 1  # the first event that is in the store
    learned_from: int = 1  # the event from which the policy's state was replayed
    snapshots: int = 0
    to_the_bit: int = 0  # snapshots with the same learned state, bit for bit
    within_rounding: int = 0
    money_only: int = 0  # snapshots from before ``learned_from``, or of a policy that cannot run
    not_run: str = ""  # why the policy cannot run: then only money and tickets are compared
    erased: int = 0  # requests whose features were erased, so that their digest is not checked
    wrong: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether the log rebuilds every snapshot."""
        return not self.wrong

    def table(self) -> dict[str, Any]:
        """The result as a JSON object."""
        return {"good": self.good, **vars(self)}


def verified(
    store: Store,
    name: str,
    policy: Policy | None = None,
    progress: Callable[[int], None] | None = None,
) -> Verified:
    """Replay a campaign's log, from its first event in the store to the current last one."""
    found = Verified()
    try:
        found.wrong.extend(store.faults())
        learning = Learning(policy, found)
        learning.vectors.find = partial(store.vectors, name)
        _follow(store, name, learning, progress)
    except TightropeError as error:
        found.wrong.append(str(error))
    except Exception as error:  # a damaged store can raise anything
        told = " ".join(str(error).split())[:200] or type(error).__name__
        found.wrong.append(f"event {found.events + 1}: cannot be read ({told})")
    return found


def _follow(
    store: Store, name: str, learning: Learning, progress: Callable[[int], None] | None
) -> None:
    """Replay the log to its end, which must be the end that the store has recorded."""
    found, ledger, seen = learning.found, Ledger(), START
    head, snapshots = store.head(name), _snapshots(store, name)
    first = store.read(name, 0, 1)
    before = first[0].seq - 1 if first else 0  # events that must be archived
    archived = not before
    if before:
        found.first = first[0].seq
        base = snapshots.get(found.first - 1)
        if base is None and snapshots and store.vectors(name, 1, max(snapshots)):
            base = snapshots[min(snapshots)]  # earlier ones were deleted by an erasure
            found.first = base.seq + 1
        if base is None:
            raise HaltedError(f"event {found.first}: is the first, without a snapshot before it")
        ledger, seen, found.events = learning.start_from(base), base.hash, base.seq
    for event in events_of(rows_of(store, name, found.events), seen):
        learning.follow(event, ledger, _closed(event, ledger))
        found.events = event.seq
        archived |= isinstance(event.body, Archived) and event.body.upto == before
        if event.seq in snapshots:
            _compare(snapshots.pop(event.seq), event.hash, ledger, learning, found)
        if head is not None and event.seq == head[0] and event.hash != head[1]:
            found.wrong.append(
                f"event {event.seq}: differs from the event recorded as the last one"
            )
        if event.seq % MANY == 0:
            _check_money(ledger, found)
            if progress is not None:
                progress(found.events)
    if progress is not None:
        progress(found.events)
    if head is not None and head[0] > found.events:
        found.wrong.append(f"the log ends at event {found.events}; event {head[0]} was the last")
    if not archived:
        found.wrong.append(
            f"events up to {before}: are missing, and no event says they are archived"
        )
    found.wrong.extend(learning.wrong)
    if learning.missing > learning.erased:
        found.wrong.append(f"event {learning.missing}: the features of its request are missing")
    late = [seq for seq in snapshots if seq >= found.first]
    found.wrong.extend(f"snapshot {seq}: was not reached" for seq in late if not found.wrong)


def _closed(event: Event, ledger: Ledger) -> Open | None:
    """Apply an event to the ledger; returns the ticket in flight that it closed."""
    try:
        return ledger.follow(event)
    except Exception as error:
        raise cannot_follow(event, error) from error


class Learning:
    """The policy's state along a log, compared with the snapshots on the way.

    The state learned by an earlier version of the program or an earlier policy need not be
    reproducible, so every event that carries the policy's state starts anew.
    """

    def __init__(self, policy: Policy | None, found: Verified) -> None:
        self.policy, self.found, self.core = policy, found, cast(Core | None, None)
        self.compared = 0  # snapshots
        self.wrong: list[str] = []  # since the last event with the policy's state
        self.vectors = Vectors()  # the features of requests outside of the log
        self.missing = self.erased = 0  # the last event whose features are gone; were erased

    def start_from(self, base: Saved) -> Ledger:
        """Start from a snapshot, because the events before it are archived."""
        self.found.learned_from = base.seq
        try:
            self.core = Core.restore(base.body, self.policy)
        except PolicyError as error:
            self.found.not_run = str(error)
            return Ledger.in_snapshot(base.body)
        self.core.vectors = self.vectors
        return self.core.ledger

    def follow(self, event: Event, ledger: Ledger, closed: Open | None) -> None:
        """Apply an event after the ledger."""
        found = self.found
        if isinstance(event.body, Stateful):
            found.learned_from, found.money_only, self.wrong = event.seq, self.compared, []
            found.to_the_bit, found.within_rounding, found.not_run = 0, 0, ""
            self.core = Core(self.policy)
            self.core.vectors = self.vectors
        elif isinstance(event.body, Asked) and ":" in (event.body.features or ""):
            self._check_digest(event.seq, event.body.features or "")
        elif isinstance(event.body, ContextsErased):
            self.erased = max(self.erased, event.body.upto)
        if self.core is not None:
            self.core.ledger = ledger
            try:
                event.body.learn(self.core, event, closed)
            except PolicyError as error:
                self.core, found.not_run = None, str(error)
            except ErasedError:
                self.core = None  # until the next snapshot
            except Exception as error:
                self.core = None
                self.wrong.append(str(cannot_follow(event, error)))

    def _check_digest(self, seq: int, features: str) -> None:
        """Compare the features of a request with their digest."""
        try:
            self.vectors.text(features)
        except ErasedError:
            self.found.erased += 1
            self.missing = seq
        except HaltedError as error:
            self.found.wrong.append(str(error))

    def compare(self, saved: Saved) -> None:
        """Compare with a snapshot."""
        self.compared += 1
        if self.core is None:  # which is already in the faults, except for erased features
            self.found.money_only += 1
            if self.missing and not self.found.not_run and not self.wrong:
                self.start_from(saved)
            return
        try:
            kept = Core.restore(saved.body, self.policy)
        except Exception as error:
            self.wrong.append(f"snapshot {saved.seq}: cannot be read ({error})")
            return
        if kept.about != self.core.about:
            self.wrong.append(f"snapshot {saved.seq}: its policy or settings differ from the log")
            return
        same = _same(kept.controller, self.core.controller)
        if same is None:
            what = "the learned state differs from the replay of the log"
            self.wrong.append(f"snapshot {saved.seq}: {what}")
        elif same:
            self.found.to_the_bit += 1
        else:
            self.found.within_rounding += 1


def _snapshots(store: Store, name: str) -> dict[int, Saved]:
    found: dict[int, Saved] = {}
    upto: int | None = None
    while (saved := store.saved(name, upto)) is not None:
        found[saved.seq] = saved
        upto = saved.seq - 1
    return found


def _check_money(ledger: Ledger, found: Verified) -> None:
    """Check that the reserved money equals the reservations of the tickets in flight."""
    for i, account in enumerate(ledger.accounts):
        held = sum(one.reserved[i] for one in ledger.tickets.values() if one.reserved)
        if held != account.reserved:
            found.wrong.append(
                f"event {ledger.seq}: {account.name}: {account.reserved} ticks are reserved, "
                f"but the tickets in flight reserve {held}"
            )


def _compare(
    saved: Saved, seen: bytes, ledger: Ledger, learning: Learning, found: Verified
) -> None:
    found.snapshots += 1
    if saved.hash != seen:
        found.wrong.append(f"snapshot {saved.seq}: belongs to another log")
        return
    try:
        kept = Ledger.in_snapshot(saved.body)
    except Exception as error:
        found.wrong.append(f"snapshot {saved.seq}: cannot be read ({error})")
        return
    if kept != ledger:
        found.wrong.append(f"snapshot {saved.seq}: its money or tickets differ from the log")
        return
    learning.compare(saved)


def _same(one: Controller, other: Controller) -> bool | None:
    """True if equal bit for bit, False if equal within rounding, None if different."""
    if one == other:
        return True
    if (one.task, one.policy.label, one.in_flight) != (
        other.task,
        other.policy.label,
        other.in_flight,
    ):
        return None
    close = np.allclose(_numbers(one), _numbers(other), rtol=ROUNDING, atol=ROUNDING)
    return False if close else None


def _numbers(controller: Controller) -> list[float]:
    """The learned state as one list."""
    totals = controller._state["totals"]  # of every row: pulls and sums of outcomes
    means = totals[:, 1:] / np.maximum(totals[:, :1], 1.0)
    return [*totals[:, 0], controller.spent, *controller.queues, *means.ravel()]
