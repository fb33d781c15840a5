"""Tickets: their ids, the tickets that callers get, and past tickets in the log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec.structs import astuple

from tightrope.live.core import Core
from tightrope.live.events import Row, event_of, new, when
from tightrope.live.kinds import Amended, Asked, Body, Expired, Quarantined, Told, Voided
from tightrope.live.ledger import Open
from tightrope.problem.spaces import Value

OWN_ID = re.compile(r"\d+-\d{8,}")  # epoch and number: the id of a ticket if a client gives none
GOOD_ID = re.compile(r"[\x21-\x7e]{1,128}")


def good_id(ticket: object) -> str | None:
    """An id as plain text; None if it is not valid."""
    return str(ticket) if isinstance(ticket, str) and GOOD_ID.fullmatch(ticket) else None


def id_of(ticket: Any) -> Any:
    """The id of a ticket, here or in a client; anything else unchanged."""
    return getattr(ticket, "id", ticket) if isinstance(ticket, tuple) else ticket


class Ticket(NamedTuple):
    """A decision: pull ``arm``, then report the outcome under ``id``.

    >>> import tempfile
    >>> from tightrope import Task, open_campaign
    >>> task = Task(arms=["mail", "call"], limits={"complaints": "10% per pull"})
    >>> campaign = open_campaign(f"{tempfile.mkdtemp()}/sales.db", "spring", task=task, budget=20)
    >>> ticket = campaign.ask("lead-1")
    >>> ticket.id, ticket.reserved, ticket.state
    ('lead-1', 1.0, 'open')
    >>> campaign.disconnect()
    """

    id: str
    arm: str  # its name
    number: int  # the arm's number, from 0
    reserved: float  # of the budget, until it is reported
    expires_at: datetime
    state: str = "open"  # or told, voided, expired, quarantined
    context: str | None = None  # the type of the request, where the task has contexts
    value: Value | None = None  # the arm's number in an interval; a tuple in a box

    @classmethod
    def of(cls, core: Core, id: str, found: Open) -> Ticket:
        """The ticket with this id, in flight or past."""
        arm = found.arm
        reserved = core.ledger.accounts[0].amount(found.reserved[0]) if found.reserved else 0.0
        task, expires_at = core.controller.task, when(found.expires_at)
        value = None if task.space is None else task.space.value(arm)
        facts = task.names[arm], arm, reserved, expires_at, found.state, found.context, value
        return new(cls, (id, *facts))

    def table(self) -> dict[str, Any]:
        """The ticket as a JSON object."""
        table = {**self._asdict(), "expires_at": self.expires_at.isoformat()}
        return {key: one for key, one in table.items() if one is not None}


class Past(Open, kw_only=True):
    """A ticket, from its events in the log."""

    told: Told | None = None  # the accepted report
    settled: tuple[int, ...] = ()  # ticks spent on it, per account
    incurred: tuple[float, ...] = ()  # its penalties [M]
    refused: tuple[int, ...] = ()  # events of its quarantined reports

    @classmethod
    def of_rows(cls, rows: Sequence[Row]) -> Past | None:
        """A ticket from all its events, in order; None without a decision."""
        past: Past | None = None
        for row in rows:
            event = event_of(row)
            if isinstance(event.body, Asked):
                past = cls(*astuple(event.body.opened(event)))
            elif past is not None:
                past._follow(row.seq, event.body)
        return past

    def _follow(self, seq: int, body: Body) -> None:
        if isinstance(body, Told):
            self.state, self.told, self.arm = "told", body, body.arm
            self.settled, self.incurred = tuple(body.settled), tuple(body.incurred)
        elif isinstance(body, Amended):
            self.settled = tuple(map(int.__add__, self.settled, body.moves[1::3]))
            self.incurred = tuple(
                was + body.shifts.get(m, 0.0) for m, was in enumerate(self.incurred)
            )
        elif isinstance(body, Quarantined):
            self.refused += (seq,)
            if self.state == "open":
                self.state = "quarantined"
        elif isinstance(body, Voided | Expired):
            self.state = body.kind
