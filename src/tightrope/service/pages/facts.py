"""The text of the pages about a campaign."""

from __future__ import annotations

from datetime import datetime
from math import isfinite

from tightrope.formats import NOTHING, Money, age, count, moment, number, percent, span
from tightrope.service.pages.arm_facts import MOST_ARMS, arms_of, best_arm, best_text, width
from tightrope.service.pages.context_facts import (
    MOST_TYPES,
    effect_channels,
    feature_rows,
    type_rows,
)
from tightrope.service.pages.curve_facts import curve_facts
from tightrope.service.pages.curves import pace_of
from tightrope.service.pages.history import View
from tightrope.service.pages.limit_words import limits_of
from tightrope.service.pages.mixture import best_of
from tightrope.service.pages.standing import alerts_of, promise_of, risk_words, state_of


class Facts:
    """The text of a campaign's page at the time ``now``."""

    def __init__(self, view: View, now: float, unit: str = "") -> None:
        self.view, self.status = view, view.status
        self.money = Money(self.status["budget"], unit)
        self.limits, self.arms = limits_of(view, unit), arms_of(view, unit)
        self.curve = curve_facts(view, unit)
        self.more_arms = max(view.task.arm_count - MOST_ARMS, 0)
        self.types = type_rows(view, unit)
        self.more_types = max(len(view.status.get("types", ())) - MOST_TYPES, 0)
        self.features, self.effect_channels = feature_rows(view), effect_channels(view)
        self.more_features = len(view.status.get("features", ())) - len(self.features)
        self.channels = list(view.task.channels)
        self.state, self.promise = state_of(view), promise_of(view, self.limits)
        self.alerts, self.risk, self.best = alerts_of(view), risk_words(view), best_arm(view)
        said = [self.state.word, self.promise.word, *(one.word for one in self.alerts)]
        self.announce = f"{view.name}: {'. '.join(said)}."
        self._say_money()
        self._say_times(now)
        self._say_rewards()

    def _say_money(self) -> None:
        status, money = self.status, self.money
        spent, budget = status["spent"], status["budget"]
        self.spent, self.budget = money(spent), money(budget)
        self.reserved, self.free = money(status["reserved"]), money(status["free"])
        self.share = percent(spent / budget if budget else None)  # that is spent
        self.spent_width = width(spent, budget)
        self.reserved_width = width(status["reserved"], budget)
        self.hard = [
            (name, Money(one["budget"])(one["spent"]), number(one["budget"], 6),
             width(one["spent"], one["budget"]))
            for name, one in status["hard"].items()
        ]  # fmt: skip

    def _say_times(self, now: float) -> None:
        view, status = self.view, self.status
        pace, end = pace_of(view.points, now)
        self.pace = _pace(pace, self.money)
        self.end, self.end_note = _end(view, end, now, self.pace)
        self.end_at = moment(end) if end is not None and isfinite(end) and end < 4e9 else ""
        self.in_flight = count(status["in_flight"])
        self.oldest, self.oldest_note = _oldest(view, now)
        self.decided, self.reported = count(status["asked"]), count(status["told"])
        self.last_time = last = datetime.fromisoformat(status["at"]).timestamp()
        self.last, self.last_at = age(last, now), moment(last)

    def _say_rewards(self) -> None:
        reward, spent, mixture = self.status["reward"], self.status["spent"], best_of(self.view)
        rate = reward / spent if spent > 0 else None
        self.best_number = best = None if mixture is None else mixture[0]
        self.reward, self.reward_rate, self.best_rate = (
            number(reward, 6),
            number(rate),
            number(best),
        )
        self.best_share = percent(rate / best) if rate is not None and best else NOTHING
        self.best_text = best_text(self.view)
        signed = self.money.unit and not self.money.unit.isalpha()
        self.per_cost = f"per {self.money.unit}" if signed else "per unit of cost"


# Money and time.


def _pace(pace: float | None, money: Money) -> str:
    if pace is None:
        return NOTHING
    for seconds, name in ((1.0, "second"), (60.0, "minute"), (3600.0, "hour")):
        if pace * seconds >= 10.0 ** (1 - money.decimals):
            return f"{money(pace * seconds)} per {name}"
    return f"{money(pace * 86400.0)} per day"


def _end(view: View, end: float | None, now: float, pace: str) -> tuple[str, str]:
    """How long the budget lasts, and on what basis."""
    settings, state, notes = view.settings, view.status["state"], list[str]()
    if settings.ends is not None:
        notes.append(f"released evenly until {moment(settings.ends / 1e6)}")
    if settings.per_day is not None:
        notes.append(f"at most {number(settings.per_day)} per day")
    if state in ("closed", "exhausted"):
        return "over", "; ".join(notes)
    if end is None or state == "paused":
        paused = "paused" if state == "paused" else "nothing was spent lately"
        return NOTHING, "; ".join([paused, *notes])
    left = view.outlook.pulls_left
    if left is not None:
        notes.insert(0, f"about {count(left)} pulls")
    lasts = span(round(end - now)) if end > now else "less than a second"
    if end <= now and left is not None:
        lasts = notes.pop(0)
    return lasts, "; ".join([f"at {pace}", *notes])


def _oldest(view: View, now: float) -> tuple[str, str]:
    if view.oldest is None:
        return NOTHING, "no ticket is in flight"
    name, ticket = view.oldest
    end = ticket.expires_at / 1e6
    then = f"expires {age(end, now)}" if end > now else f"due since {span(now - end)}"
    return span(now - ticket.asked_at / 1e6), f"{name}, {then}"
