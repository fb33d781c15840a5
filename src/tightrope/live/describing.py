"""A campaign in words and tables: its status, a ticket, why an arm was chosen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from tightrope.errors import InputError
from tightrope.live.core import Core, when
from tightrope.live.events import event_of
from tightrope.live.following import state_before
from tightrope.live.kinds import Asked
from tightrope.live.stores import Store
from tightrope.live.writing import Past, Ticket, good_id
from tightrope.policies.base import Policy
from tightrope.problem.laws import shown

__all__ = ["Why", "status_of", "ticket_of", "why_of"]


def status_of(name: str, core: Core) -> dict[str, Any]:
    """Where a campaign stands, in the user's units, as a JSON object has it."""
    ledger, controller = core.ledger, core.controller
    account, task = ledger.accounts[0], core.controller.task
    state = "open"
    if ledger.closed:
        state = "closed"
    elif ledger.paused is not None:
        state = "paused"
    elif core.exhausted:
        state = "exhausted"
    names, settings = task.limit_names, core.settings
    return {
        "name": name,
        "state": state,
        "why": ledger.paused,
        "budget": account.amount(account.budget),
        "spent": account.amount(account.spent),
        "reserved": account.amount(account.reserved),
        "free": account.amount(account.free),
        "in_flight": len(ledger.tickets),
        "asked": ledger.asked,
        "told": ledger.told,
        "voided": ledger.voided,
        "expired": ledger.expired,
        "late": ledger.late,
        "quarantined": len(ledger.quarantine),
        "refused": ledger.refused,
        "overruns": ledger.overruns,
        "reward": ledger.reward,
        "penalties": dict(zip(names, ledger.penalties, strict=True)),
        "limits": {limit: task.limit_text(m) for m, limit in enumerate(names)},
        "hard": {
            one.name: {
                key: one.amount(getattr(one, key))
                for key in ("budget", "spent", "reserved", "free")
            }
            for one in ledger.accounts[1:]
        },
        "stop": settings.stop,
        "shadow": settings.shadow,
        "policy": core.policy_text,
        "pinned": None if ledger.pinned is None else controller.arm_name(ledger.pinned),
        "arms": [
            {
                "arm": arm,
                "pulls": pulls,
                "in_flight": flying,
                "retired": arm in controller.retired,
            }
            for arm, pulls, flying in zip(
                task.names, controller.pulls, controller.in_flight, strict=True
            )
        ],
        "epoch": ledger.epoch,
        "doubtful": list(ledger.doubtful),
        "events": ledger.seq,
        "at": when(ledger.at).isoformat(),
    }


def ticket_of(store: Store, name: str, core: Core, ticket: str) -> Ticket:
    """A ticket and its state."""
    controller, account = core.controller, core.ledger.accounts[0]
    if not good_id(ticket):
        raise InputError(f"ticket = {shown(ticket)}: is unknown")
    one = core.ledger.tickets.get(ticket)
    past = None if one is not None else Past.of_rows(store.read(name, tickets=[ticket]))
    found = one or past
    if found is None:
        raise InputError(f"ticket = {shown(ticket)}: is unknown")
    state = past.state if past is not None else "open"
    reserved = account.amount(found.reserved[0]) if found.reserved else 0.0
    arm = found.arm
    return Ticket(ticket, controller.arm_name(arm), arm, reserved, when(found.expires_at), state)


@dataclass(frozen=True)
class Why:
    """What was known when a ticket's arm was chosen, in the user's units."""

    id: str
    arm: str
    at: datetime
    event: int
    policy: str
    pinned: bool
    among: list[str]  # the arms that could be chosen
    free: float  # of the budget
    arms: list[dict[str, Any]]  # of each: pulls told and in flight, mean outcomes so far

    def table(self) -> dict[str, Any]:
        """As a JSON object has it."""
        return {**vars(self), "at": self.at.isoformat()}


def why_of(store: Store, name: str, policy: Policy | None, ticket: str) -> Why:
    """Follow the log up to the decision, and look."""
    wanted = [ticket] if good_id(ticket) else []
    rows = [row for row in store.read(name, tickets=wanted) if row.kind == "asked"]
    if not rows:
        raise InputError(f"ticket = {shown(ticket)}: is unknown")
    row = rows[0]
    core, body = state_before(store, name, policy, row.seq), cast(Asked, event_of(row).body)
    controller = core.controller
    task, account = controller.task, core.ledger.accounts[0]
    among = range(task.arm_count) if body.allowed is None else body.allowed
    return Why(
        id=ticket,
        arm=controller.arm_name(body.arm),
        at=when(row.at),
        event=row.seq,
        policy=core.policy_text,
        pinned=body.pinned,
        among=[name for name in map(controller.arm_name, among) if name not in controller.retired],
        free=account.amount(account.free),
        arms=[
            {
                "arm": arm,
                "pulls": pulls,
                "in_flight": flying,
                **{
                    channel: None if mean is None else float(mean)
                    for channel, mean in zip(task.channels, means, strict=True)
                },
            }
            for arm, pulls, flying, means in zip(
                task.names, controller.pulls, controller.in_flight, controller.means, strict=True
            )
        ],
    )
