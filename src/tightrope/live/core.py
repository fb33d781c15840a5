"""A campaign's state: the ledger, and the policy that learns. ``choose`` and ``follow`` are pure.

Promises kept here:

P8 *Fail closed.* An event is followed before it is stored. What cannot be followed raises, and the
   campaign halts; a state with events that were not stored is thrown away by its holder.
P10 *Same decisions.* A decision is the ``Controller``'s own: with nothing in flight it is the one
   that a simulated run makes, to the bit.

``choose`` looks at the state and says which arm to pull; a policy's coins are part of the state, so
that it has to be followed by the event it led to, or thrown away. ``follow`` does all the changing.
A decision is in its event and is never derived again: if another machine's arithmetic chose another
arm, the event's arm counts.
"""

from __future__ import annotations

import json
import re
from base64 import b85encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from math import inf, isclose, isnan
from numbers import Real
from operator import gt
from typing import Any, cast

from tightrope.compatibility import decisions_of
from tightrope.errors import (
    CampaignError,
    ExhaustedError,
    HaltedError,
    InputError,
    PolicyError,
    TightropeError,
    WaitError,
)
from tightrope.live.controller import Controller
from tightrope.live.events import Event, when
from tightrope.live.kinds import Stateful, Told
from tightrope.live.ledger import DAY, Account, Ledger, Open, moved
from tightrope.policies.base import Policy
from tightrope.policies.naming import code_of, stored_policy
from tightrope.problem import Task
from tightrope.problem.values import LARGEST, shown

__all__ = [
    "CampaignSettings",
    "Core",
    "digest_of",
    "hard_totals",
    "is_newer",
    "reservations",
    "when",
]  # fmt: skip

STOPS = ("hard", "paper", "soft")
ON_OVERRUN = ("pause", "alert")
MOST_PRICES = 1000  # changes of prices that reports of earlier tickets are judged by


@dataclass(frozen=True)
class CampaignSettings:
    """What a campaign keeps to, besides its task and policy. Times in microseconds."""

    stop: str = "hard"  # "hard" reserves and never overspends; "paper", "soft": the first crossing
    expire_after: int = DAY  # how long a ticket is waited for
    starts: int | None = None  # of an even release
    ends: int | None = None
    per_day: float | None = None  # of the budget, at most, in one day of UTC
    shadow: bool = False  # another system acts: nothing is reserved
    quarantine_most: int = 1000  # refused reports that are kept
    on_overrun: str = "pause"  # or "alert": the campaign goes on, and its status shows the overrun

    @cached_property  # it is looked at with every event
    def reserves(self) -> bool:
        """Whether money is reserved for tickets."""
        return self.stop == "hard" and not self.shadow


class Core:
    """The state of a campaign after the events that it has followed."""

    def __init__(self, policy: Policy | None = None) -> None:
        """``policy``: for one whose class cannot be found by its name."""
        self.ledger = Ledger()
        self.settings = CampaignSettings()
        self.controller: Controller = cast(Controller, None)
        self.digest = ""  # of the program that the learned state belongs to
        self.program = ""  # its version, if it took over from another
        self.policy_text = ""
        self.code = ""  # the SHA-256 of the policy's code, if it is not tightrope's
        self.given = policy
        # Prices that have changed: the event, the arm, its known outcomes before [2 + M].
        self._past_prices: list[tuple[int, int, list[float | None]]] = []

    # Following the log.

    def follow(self, event: Event, chosen: bool = False) -> None:
        """Take an event; ``chosen`` if ``choose`` has just made this decision."""
        try:
            closed = self.ledger.follow(event)
            if chosen:  # and has tossed the policy's coins
                self.controller.launch(event.body.arm)  # type: ignore[attr-defined]
            else:
                event.body.learn(self, event, closed)
        except (HaltedError, PolicyError):
            raise
        except Exception as error:
            raise cannot_follow(event, error) from error

    def add_arm(self, facts: Mapping[str, Any]) -> None:
        """A new arm; as :meth:`Controller.add_arm`."""
        self.controller.add_arm(**facts)
        self._look_at_task()

    def reprice(self, seq: int, prices: Mapping[str, Any]) -> None:
        """Other prices from event ``seq`` on; tickets in flight keep those of their ask."""
        controller = self.controller
        arm = controller.number_of(prices["arm"])
        before = [None if isnan(one) else float(one) for one in controller.task.known_outcomes[arm]]
        controller.reprice(**prices)
        self._look_at_task()
        self._past_prices = [*self._past_prices, (seq, arm, before)][-MOST_PRICES:]

    def _price_then(
        self, arm: int, account: int, reserved: Sequence[int], asked: int
    ) -> float | None:
        """A known price when a ticket was asked for, by event ``asked``; None if it is as now."""
        if self.settings.reserves:
            if not reserved or reserved[account] == self._reserved[arm][account]:
                return None
            return self.ledger.accounts[account].amount(reserved[account])
        place = 0 if account == 0 else 2 + self._hard[account - 1]
        for seq, number, prices in self._past_prices:
            if number == arm and seq > asked > 0:
                return prices[place]
        return None

    def charge(self, ticks: Sequence[int]) -> None:
        """Charge the policy so many ticks per account; no arm learns from it."""
        if not any(ticks):
            return
        cost, *rest = (a.amount(t) for a, t in zip(self.ledger.accounts, ticks, strict=True))
        self.controller.charge(cost, dict(zip(self._hard, rest, strict=True)))

    def forfeit(self, closed: Open | None) -> None:
        """Charge what was reserved for a ticket of which nothing is known."""
        if closed is not None:
            self.controller.void(closed.arm)
            self.charge(closed.reserved)

    def take_state(self, body: Stateful) -> None:
        """Go on with the policy's state that an event carries."""
        self.digest, self.policy_text = body.digest, body.policy
        self.program = body.program or self.program
        self.settings = CampaignSettings(**body.settings)
        self.code = body.code
        self.controller = restored(body.snapshot, self.policy_text, self.code, self.given)
        self._look_at_task()

    def _look_at_task(self) -> None:
        task = self.controller.task
        self._hard = [m for m, hard in enumerate(task.hard) if hard]
        self._reserved = reservations(task, self.ledger.accounts, self.settings)
        self.reserving = [moved(reserved=one) if any(one) else [] for one in self._reserved]
        self._most = [max(column) for column in zip(*self._reserved, strict=True)]
        self._paced = self.settings.per_day is not None or self.settings.starts is not None
        self._caps = _caps(task)

    # Choosing.

    def choose(
        self, now: int, eligible: Sequence[int] | None = None
    ) -> tuple[int, tuple[int, ...] | None]:
        """The next decision at log time ``now``; raises if there is none to be made.

        The arm, and the arms among which it was chosen if not all.
        """
        ledger, controller = self.ledger, self.controller
        if ledger.closed:
            text = "the campaign is closed; it takes reports, but makes no decisions"
            raise CampaignError(text, "closed")
        if ledger.paused is not None:
            text = f"the campaign is paused ({ledger.paused}); resume it first"
            raise CampaignError(text, "paused")
        allowed = self._affordable(now, eligible)
        if ledger.pinned is not None:
            arm = ledger.pinned
            if allowed is not None and arm not in allowed:
                raise CampaignError(
                    f"arm {controller.arm_name(arm)!r} is pinned, but may not be pulled now"
                )
        else:
            arm = controller.choose(allowed)
        return arm, allowed

    def _affordable(self, now: int, eligible: Sequence[int] | None) -> tuple[int, ...] | None:
        """The arms that may be pulled: None for all; raises if there is none."""
        accounts, settings = self.ledger.accounts, self.settings
        if not settings.reserves:
            if any(account.spent > account.budget for account in accounts):
                raise self._exhausted()
            if not self._paced:
                return None if eligible is None else tuple(eligible)
        free = [one.budget - one.spent - one.reserved for one in accounts]
        if self._paced:
            free[0] = min(free[0], self._released(now))
        if eligible is None and not any(map(gt, self._most, free)):
            return None
        left = self.controller.left
        arms = left if eligible is None else [arm for arm in eligible if arm in left]
        if not arms:
            named = [self.controller.arm_name(arm) for arm in eligible or ()]
            raise InputError(f"eligible = {shown(named)}: must name an arm that is not retired")
        fits = tuple(arm for arm in arms if all(map(int.__le__, self._reserved[arm], free)))
        safe = self.controller.needed
        if safe is not None and safe in arms and safe not in fits:
            raise self._nothing_fits(now, [safe])
        if not fits:
            raise self._nothing_fits(now, arms)
        return fits

    def _released(self, now: int) -> int:
        """What may be spent or reserved of the budget by now, beyond what is already."""
        account, settings, ledger = self.ledger.accounts[0], self.settings, self.ledger
        used = account.spent + account.reserved
        room = account.budget - used
        if settings.starts is not None and settings.ends is not None:
            length = settings.ends - settings.starts
            passed = min(max(now - settings.starts, 0), length)
            room = min(room, account.budget * passed // length - used)
        if settings.per_day is not None:
            start = ledger.day_start if now // DAY == ledger.day else used
            room = min(room, account.ticks(settings.per_day) - (used - start))
        return room

    def _nothing_fits(self, now: int, arms: Sequence[int]) -> TightropeError:
        """Why no arm can be paid for, and when that changes."""
        account, ledger, settings = self.ledger.accounts[0], self.ledger, self.settings
        least = min((self._reserved[arm][0] for arm in arms), default=0)
        free = [one.free for one in ledger.accounts]
        if any(all(map(int.__le__, self._reserved[arm], free)) for arm in arms):
            at = DAY * (now // DAY + 1)
            if settings.starts is not None and settings.ends is not None:
                need = account.spent + account.reserved + least
                length = settings.ends - settings.starts
                even = settings.starts + -(-need * length // account.budget)
                if even > now:
                    at = even if settings.per_day is None else min(even, at)
            return WaitError(f"no budget is released before {when(at).isoformat()}", when(at))
        if ledger.tickets and settings.reserves:
            return WaitError(
                f"all of the budget that is left is reserved for {len(ledger.tickets)} pulls in"
                " flight; ask again after one of them is told"
            )
        return self._exhausted()

    def _exhausted(self) -> ExhaustedError:
        left = [self._reserved[arm] for arm in self.controller.left]
        least = [min(column) for column in zip(*left, strict=True)]
        for account, need in zip(self.ledger.accounts, least, strict=True):
            if account.free < need or account.spent > account.budget:
                break
        what = "budget" if account.name == "cost" else f"hard limit {account.name!r}"
        spent, budget = account.amount(account.spent), account.amount(account.budget)
        return ExhaustedError(f"{what} = {budget:g}: {spent:g} is spent; no pull is left")

    @property
    def exhausted(self) -> bool:
        """Whether no pull can be paid for, whatever is told of those in flight."""
        accounts = self.ledger.accounts
        if not self.settings.reserves:
            return any(account.spent > account.budget for account in accounts)
        if self.ledger.tickets:
            return False
        free = [account.free for account in accounts]
        needed = self.controller.needed
        arms = self.controller.left if needed is None else [needed]
        return not any(all(map(int.__le__, self._reserved[arm], free)) for arm in arms)

    # Reports.

    def outcome(
        self,
        arm: int,
        cost: Any,
        reward: Any,
        penalty: Any,
        reserved: Sequence[int] = (),
        asked: int = 0,
    ) -> Told:
        """A report that was checked, which moves no money yet; raises an ``InputError`` otherwise.

        A cost, or a penalty with a hard limit, above what is possible is taken in full; the policy
        learns from the part that is possible. A known price is the one of the ask: what was
        ``reserved``, or where nothing is, the one at event ``asked``.
        """
        accounts, form = self.ledger.accounts, self.controller.form
        given = form.in_order(arm, cost, reward, penalty)
        possible, over, kept = list(given), False, None
        for place, most, known, account in self._caps[arm]:
            value = given[place]
            if type(value) is float and value <= most and not known:
                continue
            price = self._price_then(arm, account, reserved, asked) if known else None
            if price is not None and (value is None or _close(value, price)):
                given[place], possible[place] = price, most
            elif isinstance(value, Real) and most < cast(float, value) < LARGEST:
                possible[place] = most
                if known and _close(value, most):
                    given[place] = most  # the noise of floats is no overrun
                else:
                    over = True
        values = form.checked(arm, possible)
        if possible != given:
            kept = list(values)
            for place, (value, taken) in enumerate(zip(given, possible, strict=True)):
                if value is not taken:
                    values[place] = float(value)
        penalties = None if form.whole else form.all_penalties(arm, values)
        settled = [accounts[0].ticks(values[0])]
        for account, m in enumerate(self._hard, start=1):
            paid = values[2 + m] if penalties is None else penalties[m]
            settled.append(accounts[account].ticks(paid))
        return Told(arm, values, settled, penalties, kept, over=over)

    def overruns(
        self, arm: int, account: int, amount: float, reserved: Sequence[int], asked: int
    ) -> bool:
        """Whether an amount is above what was reserved for a ticket, or else above the possible.

        ``asked``: the number of the event with which the ticket was asked for.
        """
        most = inf
        if self.settings.reserves:
            most = self.ledger.accounts[account].amount(reserved[account]) if reserved else 0.0
        for _, largest, known, place in self._caps[arm] if most == inf else ():
            if place == account:
                price = self._price_then(arm, account, reserved, asked) if known else None
                most = largest if price is None else price
        return amount > most and not _close(amount, most)

    # Snapshots.

    def snapshot(self) -> bytes:
        """All of it as bytes."""
        head: dict[str, Any] = {
            "ledger": self.ledger.table(),
            "settings": asdict(self.settings),
            "digest": self.digest,
            "policy": self.policy_text,
        }
        if self.program:
            head["program"] = self.program
        if code := code_of(type(self.controller.policy), self.policy_text):
            head["code"] = code
        if self._past_prices:
            head["past_prices"] = self._past_prices
        return json.dumps(head, sort_keys=True).encode() + b"\n" + self.controller.snapshot()

    @classmethod
    def restore(cls, saved: bytes, policy: Policy | None = None) -> Core:
        """The state that a snapshot is of."""
        try:
            return cls._restored(saved, policy)
        except TightropeError:
            raise
        except Exception as error:  # a damaged one can raise anything
            told = " ".join(str(error).split()) or type(error).__name__
            raise HaltedError(f"snapshot: is damaged ({told:.200})") from error

    @classmethod
    def _restored(cls, saved: bytes, policy: Policy | None) -> Core:
        made = cls(policy)
        line, _, state = saved.partition(b"\n")
        head = json.loads(line)
        made.ledger = Ledger.of_table(head["ledger"])
        made.settings, made.digest = CampaignSettings(**head["settings"]), head["digest"]
        made.policy_text, made.program = head["policy"], head.get("program", "")
        made._past_prices = [(seq, arm, one) for seq, arm, one in head.get("past_prices", [])]
        made.code = head.get("code", "")
        made.controller = restored(state, made.policy_text, made.code, policy)
        made._look_at_task()
        return made

    def state(self) -> dict[str, Any]:
        """What an event carries that others take the policy's state from."""
        return {
            "policy": self.policy_text,
            "digest": self.digest,
            "settings": asdict(self.settings),
            "state": b85encode(self.controller.snapshot()).decode(),
            "code": code_of(type(self.controller.policy), self.policy_text),
        }


def kept_ledger(saved: bytes) -> Ledger:
    """The ledger in a snapshot, whatever became of the policy."""
    return Ledger.of_table(json.loads(saved.partition(b"\n")[0])["ledger"])


def cannot_follow(event: Event, error: Exception) -> HaltedError:
    """The error for an event that cannot be followed."""
    told = " ".join(str(error).split()) or type(error).__name__
    return HaltedError(f"event {event.seq} ({event.kind}): cannot be followed ({told:.200})")


def restored(state: bytes, text: str, code: str, policy: Policy | None) -> Controller:
    """A controller from its snapshot; the policy's class is looked for by its name.

    ``code``: the SHA-256 of the policy's code, as recorded, or "". ``policy``: in place of one that
    is not found, or that must not be run.
    """
    missing = None
    if policy is None or policy.label != text:
        try:
            policy = stored_policy(text, code)
        except PolicyError as error:
            missing = error
    try:
        return Controller.restore(state, policy, background=True)
    except InputError as error:
        raise missing or error from None


def is_newer(version: str, other: str) -> bool:
    """Whether a version of the program comes after another; unknown ones do not.

    >>> is_newer("0.10.0", "0.9.1"), is_newer("0.2.0", "0.2.0.dev0"), is_newer("", "0.2.0")
    (True, True, False)
    """

    def order(text: str) -> tuple[list[int], bool]:
        number = re.match(r"[\d.]*", text)[0]  # type: ignore[index]  # it always matches
        return [int(one) for one in number.split(".") if one], number == text

    return order(version) > order(other)


def digest_of(controller: Controller) -> str:
    """What the learned state belongs to: see ``compatibility``."""
    return decisions_of(type(controller.policy))


def reservations(
    task: Task, accounts: Sequence[Account], settings: CampaignSettings
) -> list[tuple[int, ...]]:
    """What is reserved for a pull of each arm, in ticks per account [K][accounts]."""
    if not settings.reserves:
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
    """What the hard limits allow in total at a budget, in order."""
    limits = [limit for limit in task.limit_kinds if limit.hard]
    return [float(limit.total or limit.number * budget) for limit in limits]


def _close(value: object, price: float) -> bool:
    """Whether a value is a price, but for the noise of floats."""
    return isinstance(value, Real) and isclose(cast(float, value), price, rel_tol=1e-9)


def _caps(task: Task) -> list[list[tuple[int, float, bool, int]]]:
    """For each arm, the told places whose values may be above what is possible, and that [K].

    Third whether it is a known price, and not only the largest one; last the account.
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
    """Accounts of a task whose largest outcome is not known."""
    grows = cast(Mapping[str, float], task.scales.grow)
    names = ["cost", *(task.limit_names[m] for m, hard in enumerate(task.hard) if hard)]
    return [name for name in names if grows.get(name, 0.0) == inf]


def known_amount(value: object, place: str) -> float:
    """An amount as a finite number that is not negative."""
    if isinstance(value, Real) and not isinstance(value, bool):
        number = cast(float, value)
        if 0.0 <= number <= LARGEST:
            return float(number)
    raise InputError(f"{place} = {shown(value)}: must be a number, at least 0")
