"""Follow a campaign's log again and compare it with every snapshot.

P6 *Replay.* Money is added up from the first event, exactly. The policy's state is learned again
from the last event that carries one (its creation, a change, another version of the program), and
compared with every snapshot since: to the bit, or within rounding if another machine's arithmetic
wrote it. Reads are short, so that a live campaign goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tightrope.errors import HaltedError, TightropeError
from tightrope.live.controller import Controller
from tightrope.live.core import STATEFUL, Core
from tightrope.live.events import START, Row, event_of
from tightrope.live.ledger import Ledger
from tightrope.live.stores import Saved, Store
from tightrope.policies.base import Policy

__all__ = ["Verified", "verified"]

ROUNDING = 1e-9  # relative, of numbers that were learned


@dataclass
class Verified:
    """What was compared, and what was wrong."""

    events: int = 0
    first: int = 1  # the first event that is in the store
    learned_from: int = 1  # the event from which the policy's state was followed
    snapshots: int = 0
    to_the_bit: int = 0  # snapshots whose learned state was the same to the bit
    within_rounding: int = 0
    money_only: int = 0  # snapshots from before ``learned_from``
    wrong: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether the log rebuilds every snapshot."""
        return not self.wrong

    def table(self) -> dict[str, Any]:
        """As a JSON object has it."""
        return {"good": self.good, **vars(self)}


def verified(
    store: Store,
    name: str,
    policy: Policy | None = None,
    progress: Callable[[int], None] | None = None,
) -> Verified:
    """Follow a campaign's log, from its first event in the store to the last one now."""
    found = Verified()
    found.learned_from = _last_state(store, name)
    snapshots = _snapshots(store, name)
    ledger, core, seen = Ledger(), None, START
    first = store.read(name, 0, 1)
    if first and first[0].seq > 1:
        base = snapshots.get(first[0].seq - 1)
        if base is None:
            found.wrong.append(f"event {first[0].seq}: is the first, without a snapshot before it")
            return found
        core = Core.restore(base.body, policy)
        ledger, seen, found.first = core.ledger, base.hash, first[0].seq
        found.events, found.learned_from = base.seq, base.seq
    try:
        while rows := store.read(name, found.events, 1000):
            for row in rows:
                if row.seq != found.events + 1:
                    raise HaltedError(f"event {row.seq}: follows {found.events}; one is missing")
                core = _follow(row, seen, ledger, core, found, policy)
                if core is not None:
                    ledger = core.ledger
                seen, found.events = row.hash, row.seq
                _check_money(ledger, row, found)
                if row.seq in snapshots:
                    _compare(snapshots.pop(row.seq), seen, ledger, core, found, policy)
            if progress is not None:
                progress(found.events)
    except TightropeError as error:
        found.wrong.append(str(error))
    late = [seq for seq in snapshots if seq >= found.first]
    found.wrong.extend(f"snapshot {seq}: was not reached" for seq in late if not found.wrong)
    return found


def _follow(
    row: Row, seen: bytes, ledger: Ledger, core: Core | None, found: Verified, policy: Policy | None
) -> Core | None:
    """Follow an event: with the policy from where it is learned, before that the money alone."""
    event = event_of(row, seen)
    if core is None and row.seq == found.learned_from:
        core = Core(policy)
        core.ledger = ledger
    if core is None:
        ledger.follow(event)
        return None
    before = core.controller
    core.follow(event)
    if event.kind == "upgraded" and before is not None and _same(before, core.controller) is None:
        found.wrong.append(f"event {row.seq}: carries another state than the log leads to")
    return core


def _last_state(store: Store, name: str) -> int:
    """The last event of another version: from there on what is learned can be followed."""
    last, after = 1, 0
    while rows := store.read(name, after, 5000):
        after = rows[-1].seq
        last = max([last, *(row.seq for row in rows if row.kind in STATEFUL)])
    return last


def _snapshots(store: Store, name: str) -> dict[int, Saved]:
    found: dict[int, Saved] = {}
    upto: int | None = None
    while (saved := store.saved(name, upto)) is not None:
        found[saved.seq] = saved
        upto = saved.seq - 1
    return found


def _check_money(ledger: Ledger, row: Row, found: Verified) -> None:
    """What is reserved must be what the tickets in flight hold; checked at every 1000th event."""
    if row.seq % 1000:
        return
    for i, account in enumerate(ledger.accounts):
        held = sum(one.reserved[i] for one in ledger.tickets.values() if one.reserved)
        if held != account.reserved:
            found.wrong.append(
                f"event {row.seq}: {account.name}: {account.reserved} ticks are reserved, but"
                f" tickets in flight hold {held}"
            )


def _compare(
    saved: Saved,
    seen: bytes,
    ledger: Ledger,
    core: Core | None,
    found: Verified,
    policy: Policy | None,
) -> None:
    found.snapshots += 1
    if saved.hash != seen:
        found.wrong.append(f"snapshot {saved.seq}: is of another log")
        return
    try:
        kept = Core.restore(saved.body, policy)
    except Exception as error:
        found.wrong.append(f"snapshot {saved.seq}: cannot be read ({error})")
        return
    if kept.ledger != ledger:
        found.wrong.append(f"snapshot {saved.seq}: its money or tickets are not those of the log")
        return
    if core is None:
        found.money_only += 1
        return
    same = _same(kept.controller, core.controller)
    if same is None:
        found.wrong.append(f"snapshot {saved.seq}: what was learned is not what the log leads to")
    elif same:
        found.to_the_bit += 1
    else:
        found.within_rounding += 1


def _same(one: Controller, other: Controller) -> bool | None:
    """True if to the bit, False if within rounding, None if not the same."""
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
    """What was learned, as one list."""
    means = [0.0 if mean is None else mean for row in controller.means for mean in row]
    return [*controller.pulls, controller.spent, *controller.queues, *means]
