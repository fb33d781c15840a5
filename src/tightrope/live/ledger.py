"""The ledger of a campaign: its money and its tickets, as a fold over the log.

Promises kept here (docs/live.md says them in plain words):

P2 *Conservation.* For every account, budget = spent + reserved + free after every event, in whole
   ticks. Events carry the ticks that they move, so this fold is two additions per account and never
   changes with a version of the policy.
P5 *Expiry.* A ticket is open until the event that closes it; only an ``expired`` event makes it
   late, whatever the clock says.

An account is the budget, or a hard limit. A tick is a power of ten of the account's own size:
amounts below 10^13 ticks at the start, so that sums stay exact whole numbers below 2^53.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from tightrope.errors import InputError
from tightrope.live.events import Event

__all__ = ["DAY", "MOST_TICKS", "Account", "Ledger", "Open", "moved", "tick_digits"]

MOST_TICKS = 2**53
DAY = 86_400_000_000  # microseconds
_new = tuple.__new__  # of a NamedTuple, half the time of its own
START_DIGITS = 12  # a first budget has at least 10^12 ticks, and less than 10^13


def tick_digits(amount: float) -> int:
    """The decimals of a tick for an account that starts with ``amount``: a tick is 10^-digits."""
    return START_DIGITS - math.floor(math.log10(amount))


@dataclass
class Account:
    """The budget or a hard limit, in ticks."""

    name: str
    digits: int  # one tick is 10^-digits of the user's unit
    budget: int = 0
    spent: int = 0
    reserved: int = 0

    def __post_init__(self) -> None:
        self.up, self.down = 10.0 ** max(self.digits, 0), 10.0 ** max(-self.digits, 0)

    @property
    def free(self) -> int:
        """What is neither spent nor reserved; negative after an overrun."""
        return self.budget - self.spent - self.reserved

    def ticks(self, amount: float) -> int:
        """An amount in whole ticks, to the nearest."""
        found = amount * self.up / self.down
        if not -MOST_TICKS < found < MOST_TICKS:  # or infinite
            raise InputError(f"{self.name} = {amount!r}: must be below {self.amount(MOST_TICKS):g}")
        return round(found)

    def ticks_above(self, amount: float) -> int:
        """An amount in whole ticks, rounded up."""
        return max(math.ceil(amount * self.up / self.down), self.ticks(amount))

    def amount(self, ticks: int) -> float:
        """Ticks in the user's unit."""
        return ticks / self.up * self.down


class Open(NamedTuple):
    """A ticket in flight."""

    seq: int  # of its ``asked`` event
    arm: int
    reserved: tuple[int, ...]  # ticks, per account
    asked_at: int
    expires_at: int
    eligible: tuple[int, ...] | None  # as it was asked for
    ttl: int | None  # likewise


@dataclass
class Ledger:
    """What the log says about money and tickets; no statistics, no decisions."""

    accounts: list[Account] = field(default_factory=list)
    tickets: dict[str, Open] = field(default_factory=dict)  # in flight, oldest first
    quarantine: dict[int, str | None] = field(default_factory=dict)  # open reports: seq, ticket
    seq: int = 0
    at: int = 0
    epoch: int = 1
    asked: int = 0
    told: int = 0
    voided: int = 0
    expired: int = 0
    late: int = 0  # of those told
    overruns: int = 0
    refused: int = 0  # reports beyond what the quarantine holds
    reward: float = 0.0
    penalties: list[float] = field(default_factory=list)  # [M]
    paused: str | None = None  # why
    closed: bool = False
    pinned: int | None = None
    day: int = 0  # number of the day that log time is in
    day_start: int = 0  # ticks of the budget that were spent or reserved when it began
    doubtful: list[str] = field(default_factory=list)  # tickets that a restored store lists
    due: list[tuple[int, str]] = field(default_factory=list, compare=False)  # a heap by expiry

    def follow(self, event: Event) -> Open | None:
        """Take an event; returns the ticket in flight that it closed."""
        seq, at, kind, ticket, _, _, body = event
        if kind == "asked":
            self.ask(seq, at, ticket, body)
            return None
        if kind == "told":
            return self.tell(seq, at, ticket, body)
        if kind == "created":
            self.accounts = [Account(*account) for account in body["accounts"]]
            self.penalties = [0.0] * body["penalties"]
        self._move(seq, at, body.get("m"))
        before = None
        if ticket is not None and kind in CLOSING:
            before = self.tickets.pop(ticket, None)
        rule = RULES.get(kind)
        if rule is not None:
            rule(self, event, before)
        self.refused += body.get("refused", 0)
        return before

    def _move(self, seq: int, at: int, moves: Sequence[int] | None) -> None:
        """Go on to an event, and move its money."""
        if at // DAY != self.day:
            self._start_day(at // DAY)
        self.at, self.seq = at, seq
        if moves is None:
            return
        accounts = self.accounts
        if len(accounts) == 1:
            account = accounts[0]
            account.budget += moves[0]
            account.spent += moves[1]
            account.reserved += moves[2]
            return
        place = 0
        for account in accounts:
            account.budget += moves[place]
            account.spent += moves[place + 1]
            account.reserved += moves[place + 2]
            place += 3

    def _start_day(self, day: int) -> None:
        account = self.accounts[0]
        self.day, self.day_start = day, account.spent + account.reserved

    def ask(self, seq: int, at: int, ticket: str | None, body: dict[str, Any]) -> None:
        """Take an ``asked`` event."""
        moves, expires, eligible = body.get("m"), body["x"], body.get("e")
        self._move(seq, at, moves)
        reserved = (0,) * len(self.accounts) if moves is None else tuple(moves[2::3])
        allowed = None if eligible is None else tuple(eligible)
        facts = seq, body["arm"], reserved, at, expires, allowed, body.get("t")
        self.tickets[ticket] = _new(Open, facts)  # type: ignore[index]
        self.asked += 1
        if len(self.due) > 2 * len(self.tickets) + 100:  # forget those that are closed
            self.due = [(one.expires_at, name) for name, one in self.tickets.items()]
            heapify(self.due)
        else:
            heappush(self.due, (expires, ticket))  # type: ignore[misc]

    def first_due(self, now: int) -> str | None:
        """The ticket in flight that expires first, if it is due; of several the smallest id."""
        while self.due and self.due[0][0] <= now:
            expires, ticket = self.due[0]
            one = self.tickets.get(ticket)
            if one is not None and one.expires_at == expires:
                return ticket
            heappop(self.due)
        return None

    def tell(self, seq: int, at: int, ticket: str | None, body: dict[str, Any]) -> Open | None:
        """Take a ``told`` event; returns the ticket in flight that it closed."""
        values, penalties = body["v"], self.penalties
        self._move(seq, at, body.get("m"))
        before = None if ticket is None else self.tickets.pop(ticket, None)
        self.told += 1
        self.reward += values[1]
        if len(body) == 4 and len(values) == 3:  # the usual report: arm, values, settled, moved
            penalties[0] += values[2]
            return before
        for m, penalty in enumerate(body.get("p") or values[2:]):
            penalties[m] += penalty
        was = body.get("was")
        if was is not None:
            if was == "expired":
                self.expired -= 1
                self.late += 1
            elif was == "voided":
                self.voided -= 1
            for number in body.get("q", ()):
                self.quarantine.pop(number, None)
        self.overruns += body.get("over", 0)
        self.refused += body.get("refused", 0)
        return before

    def _void(self, event: Event, before: Open | None) -> None:
        self.voided += 1

    def _expire(self, event: Event, before: Open | None) -> None:
        self.expired += 1

    def _quarantine(self, event: Event, before: Open | None) -> None:
        self.quarantine[event.seq] = event.ticket

    def _discard(self, event: Event, before: Open | None) -> None:
        self.quarantine.pop(event.body["of"], None)

    def _amend(self, event: Event, before: Open | None) -> None:
        for m, change in event.body.get("p", {}).items():
            self.penalties[int(m)] += change

    def _pause(self, event: Event, before: Open | None) -> None:
        self.paused = event.body["why"]

    def _resume(self, event: Event, before: Open | None) -> None:
        self.paused, self.doubtful = None, []

    def _close(self, event: Event, before: Open | None) -> None:
        self.closed = True

    def _pin(self, event: Event, before: Open | None) -> None:
        self.pinned = event.body["arm"]

    def _restore(self, event: Event, before: Open | None) -> None:
        self.epoch, self.paused = event.body["epoch"], "restored from a backup"
        self.doubtful = list(event.body["doubtful"])

    def table(self) -> dict[str, Any]:
        """All of it as plain values, for a snapshot."""
        made = {name: value for name, value in vars(self).items() if name != "due"}
        made["accounts"] = [list(asdict(account).values()) for account in self.accounts]
        made["quarantine"] = [[seq, ticket] for seq, ticket in self.quarantine.items()]
        made["tickets"] = [[ticket, *one] for ticket, one in self.tickets.items()]
        return made

    @classmethod
    def of_table(cls, table: dict[str, Any]) -> Ledger:
        """The ledger that a table is of."""
        made = dict(table)
        made["accounts"] = [Account(*account) for account in table["accounts"]]
        made["quarantine"] = dict(table["quarantine"])
        tickets: dict[str, Open] = {}
        for ticket, seq, arm, reserved, asked_at, expires_at, eligible, ttl in table["tickets"]:
            allowed = None if eligible is None else tuple(eligible)
            tickets[ticket] = Open(seq, arm, tuple(reserved), asked_at, expires_at, allowed, ttl)
        made["tickets"] = tickets
        made["due"] = [(one.expires_at, name) for name, one in tickets.items()]
        heapify(made["due"])
        return cls(**made)


CLOSING = frozenset(["told", "voided", "expired", "quarantined"])  # a ticket, if it is in flight
RULES = {
    "voided": Ledger._void,
    "expired": Ledger._expire,
    "quarantined": Ledger._quarantine,
    "discarded": Ledger._discard,
    "amended": Ledger._amend,
    "paused": Ledger._pause,
    "resumed": Ledger._resume,
    "closed": Ledger._close,
    "pinned": Ledger._pin,
    "restored": Ledger._restore,
}


def moved(triples: Iterable[tuple[int, int, int]]) -> list[int]:
    """The money that an event moves, flat: budget, spent, reserved of each account."""
    return [ticks for triple in triples for ticks in triple]
