"""A campaign's state: the ledger and the policy. ``choose`` and ``follow`` do no I/O.

Promises kept here:

P8 *Fail closed.* An event is applied before it is stored. If that raises, the campaign halts; a
   state with events that were not stored is discarded.
P10 *Same decisions.* The ``Controller`` makes every decision. With nothing in flight, it equals the
   decision of a simulated run bit for bit.

``choose`` reads the state and returns the arm to pull. It advances the policy's random numbers, so
the state must then follow the event of this decision or be discarded. ``follow`` makes all other
changes. A decision is stored in its event and never recomputed: if another machine's arithmetic
would choose another arm, the arm in the event counts.
"""

from __future__ import annotations

import json
from base64 import b85encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from math import inf, isnan
from numbers import Real
from operator import gt
from types import MappingProxyType
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
from tightrope.live.events import Event, cannot_follow, when
from tightrope.live.featured import FeaturedController
from tightrope.live.kinds import Stateful, Told
from tightrope.live.ledger import (
    DAY,
    Ledger,
    Open,
    caps_of,
    is_price,
    moved,
    reservations,
)
from tightrope.live.spaced import PointController
from tightrope.live.typed import TypedController
from tightrope.live.vectors import FeatureMeans, Vectors
from tightrope.policies.base import Policy
from tightrope.policies.naming import code_of, stored_policy
from tightrope.problem.features import Features, Mixed
from tightrope.problem.values import LARGEST, shown

STOPS = ("hard", "paper", "soft")
ON_OVERRUN = ("pause", "alert")
MOST_PRICES = 1000  # price changes that are kept to check reports of earlier tickets


@dataclass(frozen=True)
class CampaignSettings:
    """The settings of a campaign, besides its task and policy. Times are in microseconds."""

    stop: str = "hard"  # "hard" reserves and never overspends; "paper", "soft": the first crossing
    expire_after: int = DAY  # time until a ticket expires
    starts: int | None = None  # of an even release
    ends: int | None = None
    per_day: float | None = None  # of the budget, at most, in one day of UTC
    shadow: bool = False  # another system decides: nothing is reserved
    quarantine_most: int = 1000  # refused reports that are kept
    on_overrun: str = "pause"  # or "alert": the campaign goes on, and its status shows the overrun

    @cached_property  # it is read with every event
    def reserves(self) -> bool:
        """Whether money is reserved for tickets."""
        return self.stop == "hard" and not self.shadow


class Core:
    """The state of a campaign after the events applied so far."""

    def __init__(self, policy: Policy | None = None) -> None:
        """``policy``: needed if its class cannot be found by its name."""
        self.ledger = Ledger()
        self.settings = CampaignSettings()
        self.controller: Controller = cast(Controller, None)
        self.digest = ""  # of the program that wrote the learned state
        self.program = ""  # its version, if it took over from another
        self.policy_text = ""
        self.code = ""  # the SHA-256 of the policy's code, if it is not tightrope's
        self.given = policy
        self.types: Any = None  # the task's contexts
        # Prices that have changed: the event, the arm, its known outcomes before [2 + M].
        self._past_prices: list[tuple[int, int, list[float | None]]] = []
        self.vectors = Vectors()  # of requests, where they are not in the log
        self.means: FeatureMeans | None = None  # of the requests' features, if the policy uses them

    # Following the log.

    def follow(self, event: Event, chosen: Mapping[str, Any] | None = None) -> None:
        """Apply an event; ``chosen``: ``choose`` has just made this decision, in this context."""
        try:
            closed = self.ledger.follow(event)
            if chosen is not None:  # and has drawn the policy's random numbers
                body: Any = event.body
                self.launch(body.arm, chosen)
            else:
                event.body.learn(self, event, closed)
        except (HaltedError, PolicyError):
            raise
        except Exception as error:
            raise cannot_follow(event, error) from error

    def add_arm(self, facts: Mapping[str, Any]) -> None:
        """Add an arm; see :meth:`Controller.add_arm`."""
        self.controller.add_arm(**facts)
        self._look_at_task()

    def reprice(self, seq: int, prices: Mapping[str, Any]) -> None:
        """Change prices from event ``seq`` on; tickets in flight keep their old prices."""
        controller = self.controller
        arm = controller.given_number(prices["arm"])
        before = [None if isnan(one) else float(one) for one in controller.task.known_outcomes[arm]]
        controller.reprice(**prices)
        self._look_at_task()
        self._past_prices = [*self._past_prices, (seq, arm, before)][-MOST_PRICES:]

    def _price_then(
        self, arm: int, account: int, reserved: Sequence[int], asked: int
    ) -> float | None:
        """The known price when a ticket was created by event ``asked``; None if unchanged."""
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
        """Charge the policy an amount of ticks per account; no arm learns from it."""
        if not any(ticks):
            return
        cost, *rest = (a.amount(t) for a, t in zip(self.ledger.accounts, ticks, strict=True))
        self.controller.charge(cost, dict(zip(self._hard, rest, strict=True)))

    def charge_report(self, values: Sequence[float]) -> None:
        """Charge a report, or a part of it: cost, reward, reported penalties. No arm learns."""
        told = self.controller.task.told
        self.controller.charge(values[0], dict(zip(told, values[2:], strict=True)))

    def launch(self, arm: int, request: Mapping[str, Any]) -> None:
        """Count a decision for a request as in flight; ``request``: see ``in_context``."""
        self.controller.launch(arm, **request)
        if self.means is not None:
            self.means.add(request["context"])

    def void(self, closed: Open) -> None:
        """Cancel the pull of a ticket."""
        featured = isinstance(self.controller, FeaturedController)
        kind = None if featured else self.context_of(closed)
        self.controller.void(closed.arm, **self.in_context(kind))

    def in_context(self, kind: str | None, features: str | None = None) -> dict[str, Any]:
        """The context of a request, as an event has it, as an argument of the controller.

        Empty without contexts, and where the policy does not use the features.
        """
        if features is not None and isinstance(contexts := self.types, Features | Mixed):
            if not self.controller.policy.contextual:
                return {}
            row = contexts.joined(kind, self.vectors.text(features))
            return {"context": row}
        return {} if kind is None else {"context": kind}

    def forget_requests(self) -> None:
        """Forget the latest requests, where they have features that can be erased."""
        if isinstance(self.controller, FeaturedController):
            self.controller.forget_requests()

    def forfeit(self, closed: Open | None) -> None:
        """Charge the reservation of a ticket without a report."""
        if closed is not None:
            self.void(closed)
            self.charge(closed.reserved)

    @property
    def typed(self) -> TypedController | None:
        """The controller, if the task has contexts."""
        return self.controller if isinstance(self.controller, TypedController) else None

    def is_new_type(self, name: str) -> bool:
        """Whether no request of this type was seen."""
        controller = self.typed
        return controller is not None and not controller.knows_type(name)

    def context_of(self, ticket: Open) -> str | None:
        """The type of a ticket's request; None if the task has no contexts.

        A ticket from before the task had contexts counts for one of the types.
        """
        controller = self.typed
        if controller is None or ticket.context is not None:
            return ticket.context
        return controller.types.of_untyped(ticket.seq)

    def take_state(self, body: Stateful) -> None:
        """Continue with the policy's state in an event."""
        self.digest, self.policy_text = body.digest, body.policy
        self.program = body.program or self.program
        self.settings = CampaignSettings(**body.settings)
        self.code = body.code
        self.controller = restored(body.snapshot, self.policy_text, self.code, self.given)
        self._look_at_task()

    def _look_at_task(self) -> None:
        task = self.controller.task
        self.types = task.contexts
        self.vectors.kept = getattr(task.contexts, "erasable", False)
        size = task.feature_columns - 1 if self.controller.policy.contextual else 0
        self.means = (self.means or FeatureMeans(size)) if size > 0 else None
        self._hard = [m for m, hard in enumerate(task.hard) if hard]
        self._reserved = reservations(task, self.ledger.accounts, self.settings.reserves)
        self.reserving = [moved(reserved=one) if any(one) else [] for one in self._reserved]
        self._most = [max(column) for column in zip(*self._reserved, strict=True)]
        self._paced = self.settings.per_day is not None or self.settings.starts is not None
        self._caps = caps_of(task)

    # Choosing.

    def choose(
        self,
        now: int,
        eligible: Sequence[int] | None = None,
        request: Mapping[str, Any] = MappingProxyType({}),
    ) -> tuple[int, tuple[int, ...] | None]:
        """The next decision at log time ``now``; raises if no decision is possible.

        ``request``: see ``in_context``. Returns the arm, and the arms it was chosen from if not
        all.
        """
        ledger, controller = self.ledger, self.controller
        if ledger.closed:
            text = "the campaign is closed; it accepts reports, but makes no decisions"
            raise CampaignError(text, "closed")
        if ledger.paused is not None:
            text = f"the campaign is paused ({ledger.paused}); resume it first"
            raise CampaignError(text, "paused")
        allowed = self._affordable(now, eligible)
        if ledger.pinned is not None:
            arm = ledger.pinned
            if allowed is not None and arm not in allowed:
                raise CampaignError(
                    f"arm {controller.arm_name(arm)!r} is pinned, but is not eligible now"
                )
        else:
            arm = controller.choose(allowed, **request)
        return arm, allowed

    def _affordable(self, now: int, eligible: Sequence[int] | None) -> tuple[int, ...] | None:
        """The arms that can be pulled: None for all; raises if there is none."""
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
        """How much more of the budget can be spent or reserved by now."""
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
        """The error if no arm can be paid for, with the time when that changes."""
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
            count = len(ledger.tickets)
            flying = f"{count} pull{'s' * (count != 1)} in flight; ask again after one is reported"
            rest = ledger.scarce(self._reserved[arm] for arm in self.controller.left).title
            return WaitError(f"the rest of the {rest} is reserved for {flying}")
        return self._exhausted()

    def _exhausted(self) -> ExhaustedError:
        account = self.ledger.scarce(self._reserved[arm] for arm in self.controller.left)
        spent, budget = account.amount(account.spent), account.amount(account.budget)
        return ExhaustedError(f"{account.title} = {budget:g}: {spent:g} is spent; no pull is left")

    @property
    def exhausted(self) -> bool:
        """Whether no pull can be paid for, whatever the pulls in flight cost."""
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
        """Check a report without moving money; raises an ``InputError``.

        A cost, or a penalty with a hard limit, above its largest value is charged in full; the
        policy learns only from the part up to it. The known price is the one when the ticket was
        created: what was ``reserved``, or without a reservation the price at event ``asked``.
        """
        accounts, form = self.ledger.accounts, self.controller.form
        if isinstance(cost, bool):
            raise InputError(f"cost = {cost}: must be a number, an amount of money")
        given = form.in_order(arm, cost, reward, penalty)
        possible, over, kept = list(given), False, None
        for place, most, known, account in self._caps[arm]:
            value = given[place]
            if type(value) is float and value <= most and not known:
                continue
            price = self._price_then(arm, account, reserved, asked) if known else None
            if price is not None and (value is None or is_price(value, price)):
                given[place], possible[place] = price, most
            elif isinstance(value, Real) and most < cast(float, value) < LARGEST:
                possible[place] = most
                if known and is_price(value, most):
                    given[place] = most  # rounding is no overrun
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
        """Whether an amount is above the ticket's reservation or, without one, the largest value.

        ``asked``: the number of the event that created the ticket.
        """
        most = inf
        if self.settings.reserves:
            most = self.ledger.accounts[account].amount(reserved[account]) if reserved else 0.0
        for _, largest, known, place in self._caps[arm] if most == inf else ():
            if place == account:
                price = self._price_then(arm, account, reserved, asked) if known else None
                most = largest if price is None else price
        return amount > most and not is_price(amount, most)

    # Snapshots.

    def snapshot(self) -> bytes:
        """The whole state as bytes."""
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
        if self.means is not None:
            head["means"] = self.means.table()
        return json.dumps(head, sort_keys=True).encode() + b"\n" + self.controller.snapshot()

    @classmethod
    def restore(cls, saved: bytes, policy: Policy | None = None) -> Core:
        """The state in a snapshot."""
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
        made.means = FeatureMeans.of_table(head["means"]) if "means" in head else None
        made.controller = restored(state, made.policy_text, made.code, policy)
        made._look_at_task()
        return made

    @property
    def about(self) -> tuple[str, str, CampaignSettings]:
        """The policy as text, the version of its decisions and the settings."""
        return self.policy_text, self.digest, self.settings

    def state(self) -> dict[str, Any]:
        """The fields of an event that carries the policy's state.

        Where features can be erased, the state is without the latest requests.
        """
        controller = self.controller
        if isinstance(controller, FeaturedController) and controller.contexts.erasable:
            (controller := controller.copy()).forget_requests()
        return {
            "policy": self.policy_text,
            "digest": self.digest,
            "settings": asdict(self.settings),
            "state": b85encode(controller.snapshot()).decode(),
            "code": code_of(type(self.controller.policy), self.policy_text),
        }


def restored(state: bytes, text: str, code: str, policy: Policy | None) -> Controller:
    """A controller from its snapshot; the policy's class is found by its name.

    ``code``: the recorded SHA-256 of the policy's code, or "". ``policy``: used if the class is not
    found or must not run.
    """
    missing = None
    if policy is None or policy.label != text:
        try:
            policy = stored_policy(text, code)
        except PolicyError as error:
            missing = error
    try:
        return PointController.restore(state, policy, background=True)
    except InputError as error:
        raise missing or error from None


def digest_of(controller: Controller) -> str:
    """The program version of the learned state; see ``compatibility``."""
    return decisions_of(type(controller.policy))
