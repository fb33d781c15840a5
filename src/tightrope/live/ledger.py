"""The ledger of a campaign: its money and tickets, computed by a fold over the log.

Promises kept here (explained in docs/live.md):

P2 *Conservation.* For every account, budget = spent + reserved + free after every event, in whole
   ticks. Events carry the ticks that they move, so this fold is two additions per account and never
   changes with a version of the policy.
P5 *Expiry.* A ticket is open until the event that closes it; only an ``expired`` event makes it
   late, not the clock.

An account is the budget, or a hard limit. A tick is a power of ten of the account's own size:
amounts below 10^13 ticks at the start, so that sums stay exact whole numbers below 2^53.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from heapq import heapify, heappop, heappush
from itertools import chain, repeat, zip_longest
from math import inf, isclose, isnan
from numbers import Real
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import astuple

from tightrope.errors import InputError
from tightrope.problem import Task
from tightrope.problem.values import LARGEST, shown

if TYPE_CHECKING:
    from tightrope.live.events import Event

MOST_TICKS = 2**53
DAY = 86_400_000_000  # microseconds
BLOCK = 500  # requests: a change of the mix of types is looked for in the last one or two blocks
MIX_DOUBT = 1e-4
NOTHING = repeat(0)  # for every account
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
    def title(self) -> str:
        """What it is in messages."""
        return "budget" if self.name == "cost" else f"hard limit {self.name!r}"

    @property
    def free(self) -> int:
        """The money neither spent nor reserved; negative after an overrun."""
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


class Open(Struct, gc=False):
    """A ticket in flight."""

    seq: int  # of its ``asked`` event
    arm: int
    reserved: tuple[int, ...]  # ticks, per account
    asked_at: int
    expires_at: int
    eligible: tuple[int, ...] | None  # as it was asked for
    ttl: int | None  # likewise
    state: str = "open"  # of a past one: told, voided, expired, quarantined
    context: str | None = None  # the type of its request
    features: str | None = None  # likewise, or their digest


class TypeCounts(Struct, gc=False):
    """The requests of one type, and what was reported of them."""

    asked: int = 0
    told: int = 0
    reward: float = 0.0
    penalties: list[float] = []  # [M]
    pulls: list[int] = []  # reported, of each arm up to the last one pulled
    block: int = 0  # requests in the last whole block of requests of all types
    recent: int = 0  # requests after that block

    def add(self, other: TypeCounts) -> None:
        """Count the requests of another type as well."""
        for name in ("asked", "told", "reward", "block", "recent"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("penalties", "pulls"):
            pairs = zip_longest(getattr(self, name), getattr(other, name), fillvalue=0)
            setattr(self, name, [one + more for one, more in pairs])


def mix_changed(types: Sequence[TypeCounts]) -> bool:
    """Whether the shares of the types among the last requests differ from those before.

    A chi-square test; the doubt is ``MIX_DOUBT``. At least one block is compared with two others.
    """
    last = [one.block + one.recent for one in types]
    before = [one.asked - many for one, many in zip(types, last, strict=True)]
    many, few, free = sum(before), sum(last), sum(one.asked > 0 for one in types) - 1
    if few < BLOCK or many < 2 * BLOCK or free < 1:
        return False
    total = sum(
        (one * many - other * few) ** 2 / (one + other)
        for one, other in zip(last, before, strict=True)
        if one + other
    )
    # The distribution of the cube root is nearly normal (Wilson and Hilferty, 1931).
    usual = 2.0 / (9.0 * free)
    above = ((total / (many * few) / free) ** (1 / 3) - 1.0 + usual) / math.sqrt(usual)
    return 0.5 * math.erfc(above / math.sqrt(2.0)) < MIX_DOUBT


@dataclass
class Ledger:
    """Money and tickets from the log; no statistics, no decisions."""

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
    late: int = 0  # of reported tickets
    overruns: int = 0
    refused: int = 0  # reports beyond the size of the quarantine
    reward: float = 0.0
    penalties: list[float] = field(default_factory=list)  # [M]
    paused: str | None = None  # why
    closed: bool = False
    pinned: int | None = None
    day: int = 0  # number of the day that log time is in
    day_start: int = 0  # ticks of the budget that were spent or reserved when it began
    doubtful: list[str] = field(default_factory=list)  # uncertain tickets of a restored store
    types: dict[str, TypeCounts] = field(default_factory=dict)  # of requests, by name
    due: list[tuple[int, str]] = field(default_factory=list, compare=False)  # a heap by expiry

    def scarce(self, reserved: Iterable[Sequence[int]]) -> Account:
        """The first account with too little for any arm; ``reserved``: what each arm takes."""
        for account, needs in zip(self.accounts, zip(*reserved, strict=True), strict=True):
            if account.free < min(needs) or account.spent > account.budget:
                break
        return account

    def follow(self, event: Event) -> Open | None:
        """Apply an event; returns the ticket in flight that it closed."""
        body, ticket = event.body, event.ticket
        closed = self.tickets.pop(ticket, None) if body.closes and ticket is not None else None
        body.enter(self, event)
        self.at, self.seq = event.at, event.seq
        if (day := event.at // DAY) != self.day:
            account = self.accounts[0]
            self.day, self.day_start = day, account.spent + account.reserved
        if moves := body.moves:
            place = 0
            for account in self.accounts:
                account.budget += moves[place]
                account.spent += moves[place + 1]
                account.reserved += moves[place + 2]
                place += 3
        return closed

    def open(self, ticket: str, one: Open) -> None:
        """Put a ticket in flight."""
        self.tickets[ticket] = one
        self.asked += 1
        if len(self.due) > 2 * len(self.tickets) + 100:  # forget those that are closed
            self.due = [(one.expires_at, name) for name, one in self.tickets.items()]
            heapify(self.due)
        else:
            heappush(self.due, (one.expires_at, ticket))

    def ask_of_type(self, name: str) -> None:
        """Count the request of the ticket that was just opened."""
        one = self.types.setdefault(name, TypeCounts())
        one.asked += 1
        one.recent += 1
        if self.asked % BLOCK == 0:
            for each in self.types.values():
                each.block, each.recent = each.recent, 0

    def report_of_type(
        self, name: str, arm: int, reward: float, penalties: Sequence[float]
    ) -> None:
        """Count the outcome of a request of a type."""
        one = self.types.setdefault(name, TypeCounts())
        one.told += 1
        one.reward += reward
        one.penalties = one.penalties or [0.0] * len(penalties)
        for m, penalty in enumerate(penalties):
            one.penalties[m] += penalty
        one.pulls += [0] * (arm + 1 - len(one.pulls))
        one.pulls[arm] += 1

    def first_due(self, now: int) -> str | None:
        """The ticket in flight that expires first, if it is due; ties go to the smallest id."""
        while self.due and self.due[0][0] <= now:
            expires, ticket = self.due[0]
            one = self.tickets.get(ticket)
            if one is not None and one.expires_at == expires:
                return ticket
            heappop(self.due)
        return None

    def table(self) -> dict[str, Any]:
        """The ledger as plain values, for a snapshot."""
        made = {name: value for name, value in vars(self).items() if name != "due"}
        made["accounts"] = [list(asdict(account).values()) for account in self.accounts]
        made["quarantine"] = [[seq, ticket] for seq, ticket in self.quarantine.items()]
        made["tickets"] = [
            [ticket, *astuple(one)[:-3], *_given(one.context, one.features)]
            for ticket, one in self.tickets.items()
        ]
        made["types"] = {name: astuple(one) for name, one in self.types.items()}
        if not self.types:
            del made["types"]
        return made

    @classmethod
    def in_snapshot(cls, saved: bytes) -> Ledger:
        """The ledger in a snapshot of a campaign, without the policy."""
        return cls.of_table(json.loads(saved.partition(b"\n")[0])["ledger"])

    @classmethod
    def of_table(cls, table: dict[str, Any]) -> Ledger:
        """The ledger in a table."""
        made = dict(table)
        made["accounts"] = [Account(*account) for account in table["accounts"]]
        made["quarantine"] = dict(table["quarantine"])
        tickets: dict[str, Open] = {}
        for ticket, seq, arm, reserved, asked_at, expires_at, eligible, ttl, *more in table[
            "tickets"
        ]:
            allowed = None if eligible is None else tuple(eligible)
            one = Open(seq, arm, tuple(reserved), asked_at, expires_at, allowed, ttl)
            one.context, one.features = [*more, None, None][:2]
            tickets[ticket] = one
        made["tickets"] = tickets
        made["types"] = {name: TypeCounts(*one) for name, one in table.get("types", {}).items()}
        made["due"] = [(one.expires_at, name) for name, one in tickets.items()]
        heapify(made["due"])
        return cls(**made)


def _given(*values: object) -> list[object]:
    """The values up to the last one that is not None."""
    last = max((at for at, one in enumerate(values, 1) if one is not None), default=0)
    return list(values[:last])


def moved(
    budget: Iterable[int] = NOTHING,
    spent: Iterable[int] = NOTHING,
    reserved: Iterable[int] = NOTHING,
) -> list[int]:
    """The money that an event moves, flat: budget, spent, reserved of each account."""
    return list(chain.from_iterable(zip(budget, spent, reserved, strict=False)))


def reservations(task: Task, accounts: Sequence[Account], reserves: bool) -> list[tuple[int, ...]]:
    """The reservation for a pull of each arm, in ticks per account [K][accounts]."""
    if not reserves:
        return [(0,) * len(accounts)] * task.arm_count
    places = [0, *(2 + m for m, hard in enumerate(task.hard) if hard)]
    grows, found = cast(Mapping[str, float], task.scales.grow), []
    most = [grows.get(task.channels[p], task.scales.channels[p]) for p in places]
    for arm in range(task.arm_count):
        known = task.known_outcomes[arm]
        largest = [
            one if isnan(known[place]) else float(known[place])
            for one, place in zip(most, places, strict=True)
        ]
        found.append(tuple(a.ticks_above(v) for a, v in zip(accounts, largest, strict=True)))
    return found


def hard_totals(task: Task, budget: float) -> list[float]:
    """The totals that the hard limits allow at a budget, in order."""
    limits = [limit for limit in task.limit_kinds if limit.hard]
    return [float(limit.total or limit.number * budget) for limit in limits]


def is_price(value: object, price: float) -> bool:
    """Whether a value equals a price, up to rounding."""
    return isinstance(value, Real) and isclose(cast(float, value), price, rel_tol=1e-9)


def caps_of(task: Task) -> list[list[tuple[int, float, bool, int]]]:
    """For each arm, the reported places whose values have a largest value, and that value [K].

    Also whether it is a known price and not only the largest value, and the account.
    """
    grows = cast(Mapping[str, float], task.scales.grow)
    hard = [m for m, hard in enumerate(task.hard) if hard]
    told_hard = [(2 + i, 2 + m, 1 + hard.index(m)) for i, m in enumerate(task.told) if m in hard]
    scales, found = task.scales.channels, []
    for arm in range(task.arm_count):
        known = task.known_outcomes[arm]
        mine = []
        for told, place, account in [(0, 0, 0), *told_hard]:
            if not isnan(known[place]):
                mine.append((told, float(known[place]), True, account))
            elif task.channels[place] not in grows:
                mine.append((told, scales[place], False, account))
        found.append(mine)
    return found


def uncapped(task: Task) -> list[str]:
    """Accounts of a task whose largest outcome is unknown."""
    grows = cast(Mapping[str, float], task.scales.grow)
    names = ["cost", *(task.limit_names[m] for m, hard in enumerate(task.hard) if hard)]
    return [name for name in names if grows.get(name, 0.0) == inf]


def known_amount(value: object, place: str, allowed: str = "a number, at least 0") -> float:
    """An amount as a finite, non-negative number."""
    if isinstance(value, Real) and not isinstance(value, bool):
        number = cast(float, value)
        if 0.0 <= number <= LARGEST:
            return float(number)
    raise InputError(f"{place} = {shown(value)}: must be {allowed}")
