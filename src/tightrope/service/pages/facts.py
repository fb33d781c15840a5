"""What the pages say about a campaign, in the words and order in which they say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from math import isfinite, isnan

import numpy as np

from tightrope.formats import Money, age, chance, count, counted, moment, number, percent, span
from tightrope.live.outlook import LimitOutlook
from tightrope.problem.mixtures import best_mixture
from tightrope.service.pages.curves import Totals, mean_band, own_colours, rate_band, shares
from tightrope.service.pages.history import Point, View

__all__ = ["Facts", "best_of", "pace_of"]

SURE = 0.05  # a chance of breaking a limit that is taken for small
NEAR = 0.02  # above a limit, of it, where a policy that uses all of it may be at any time
MOST_ARMS = 24  # in the table
RECENT, SHORTEST, LONGEST = 0.1, 60.0, 86400.0  # the pace is that of so much of the time, seconds
VIEWS = 64  # whose numbers are kept for the next who asks
TONES = ("bad", "warn", "open", "good", "quiet")  # the worst first


@dataclass(frozen=True)
class Badge:
    """A state in a word, with a tone (one of ``TONES``) and a sentence."""

    tone: str
    word: str
    text: str = ""


class Facts:
    """All that is said of a campaign at the time ``now``, as text."""

    def __init__(self, view: View, now: float, unit: str = "") -> None:
        self.view, self.status = view, view.status
        self.money = Money(self.status["budget"], unit)
        self.limits, self.arms = _limits(view), _arms(view)
        self.more_arms = max(view.task.arm_count - MOST_ARMS, 0)
        self.channels = list(view.task.channels)
        self.state, self.promise = _state(view), _promise(view, self.limits)
        self.alerts = _alerts(view)
        word, promise = self.state.word, self.promise
        self.announce = f"{view.name}: {word}. {promise.word}. {promise.text}".strip()
        self._say_money()
        self._say_times(now)
        self._say_rewards()

    def _say_money(self) -> None:
        status, money = self.status, self.money
        spent, budget = status["spent"], status["budget"]
        self.spent, self.budget = money(spent), money(budget)
        self.reserved, self.free = money(status["reserved"]), money(status["free"])
        self.share = percent(spent / budget if budget else None)  # that is spent
        self.spent_width = _width(spent, budget)
        self.reserved_width = _width(status["reserved"], budget)
        self.hard = [
            (name, Money(one["budget"])(one["spent"]), number(one["budget"], 6),
             _width(one["spent"], one["budget"]))
            for name, one in status["hard"].items()
        ]  # fmt: skip

    def _say_times(self, now: float) -> None:
        view, status = self.view, self.status
        pace, end = pace_of(view.points, now)
        self.pace = _pace(pace, self.money)
        self.end, self.end_note = _end(view, end, now)
        self.end_at = moment(end) if end is not None and isfinite(end) and end < 4e9 else ""
        self.in_flight = count(status["in_flight"])
        self.oldest, self.oldest_note = _oldest(view, now)
        self.decided, self.reported = count(status["asked"]), count(status["told"])
        last = datetime.fromisoformat(status["at"]).timestamp()
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
        self.best_share = percent(rate / best) if rate is not None and best else "–"
        self.best_text = _best_text(self.view, mixture)


def _width(part: float, whole: float) -> str:
    return f"{100 * min(max(part / whole if whole else 0.0, 0.0), 1.0):.2f}"


# States.


def _state(view: View) -> Badge:
    """What a campaign does now."""
    status = view.status
    if view.error is not None:
        return Badge("bad", "Halted", view.error)
    state, why = status["state"], status["why"]
    if state == "paused":
        return Badge("bad" if why != "by hand" else "warn", "Paused", str(why))
    if state == "exhausted":
        return Badge("quiet", "Budget used up")
    if state == "closed":
        return Badge("quiet", "Closed")
    if status["pinned"] is not None:
        return Badge("warn", f"Pinned to {status['pinned']}")
    return Badge("good", "Shadow" if status["shadow"] else "Running")


def limit_standing(one: LimitOutlook, over: bool = False) -> Badge:
    """Whether a limit is kept, and at what bound; its name comes before the text.

    ``over``: nothing more is decided.
    """
    bound = f"ends above its limit with a chance of at most {chance(one.chance)}"
    if one.broken:
        return Badge("bad", "Broken", "has exceeded its limit, whatever comes")
    if one.infeasible and not over:
        need = "" if one.least is None else f"; at least {number(one.least)} is needed"
        text = f"is kept by no mixture of the arms, as far as is known{need}"
        return Badge("bad", "Cannot be kept", text)
    far = None if one.rate is None else one.rate / one.limit - 1.0 if one.limit else 0.0
    if over and far is not None:
        if far > 0:
            return Badge("bad", "Broken", f"ended {percent(far)} above its limit")
        return Badge("good", "Kept", f"ended {percent(-far)} below its limit")
    if one.promised:
        return Badge("good", "Promised", bound)
    if one.chance <= SURE:
        return Badge("good", "Kept", bound)
    if far is None:
        return Badge("open", "No data yet", "has no reports yet")
    side = "above" if far > 0 else "below"
    then = "nothing can be promised yet" if one.chance >= 1.0 else f"it {bound}"
    text = f"is {percent(abs(far))} {side} its limit so far; {then}"
    if far > NEAR:
        return Badge("warn", "Above the limit", text)
    return Badge("open", "At the limit" if far > -NEAR / 2 else "Kept so far", text)


def _is_over(view: View) -> bool:
    """Whether all that will be decided is decided and told."""
    status = view.status
    return status["state"] in ("closed", "exhausted") and not status["in_flight"]


def _promise(view: View, limits: list[LimitFacts]) -> Badge:
    """The state of the promise: that of the limit that is worst."""
    over = view.status["overruns"]
    if view.status["free"] < 0:
        return Badge("bad", "Overspent", "more was spent than the budget")
    if not limits:
        word = "Within budget"
        text = "no limits" if not over else f"no limits; {count(over)} overruns"
        return Badge("good" if not over else "warn", word, text)
    worst = min(limits, key=lambda one: TONES.index(one.standing.tone))
    found = worst.standing
    if len(limits) == 1 or found.tone != "good":
        return Badge(found.tone, found.word, f"{worst.name} {found.text}")
    if _is_over(view):
        return Badge("good", "Kept", "every rate ended below its limit")
    most = max(one.chance for one in view.outlook.limits)
    all_promised = all(one.promised for one in view.outlook.limits)
    word = "Promised" if all_promised else "Kept"
    text = f"each rate ends above its limit with a chance of at most {chance(most)}"
    return Badge("good", word, text)


def _alerts(view: View) -> list[Badge]:
    """What needs a hand, the worst first."""
    status, found = view.status, []
    if view.error is not None:
        found.append(Badge("bad", "Halted", f"{view.error}. What is shown is from before."))
    if status["state"] == "paused":
        why = {
            "overrun": "A report or an amendment was above what was reserved for its ticket. See"
            " it below, then resume.",
            "the clock jumped": "The store's clock jumped ahead. Check it, then resume.",
            "restored from a backup": "Tickets that were open in the backup may have been told"
            " since. Check them, then resume.",
        }.get(str(status["why"]), "No decisions are made; reports are taken.")
        tone = "warn" if status["why"] == "by hand" else "bad"
        found.append(Badge(tone, f"Paused: {status['why']}", why))
    if status["overruns"] and status["on_overrun"] == "alert":
        text = "Tickets cost more than was reserved for them. The campaign goes on."
        found.append(Badge("warn", counted(status["overruns"], "overrun"), text))
    if status["doubtful"]:
        some = ", ".join(status["doubtful"][:5]) + (" …" if len(status["doubtful"]) > 5 else "")
        found.append(Badge("warn", f"{counted(len(status['doubtful']), 'ticket')} in doubt", some))
    if status["quarantined"]:
        text = "A ticket is charged in full until its report is corrected or discarded."
        reports = counted(status["quarantined"], "report")
        found.append(Badge("warn", f"{reports} in quarantine", text))
    if status["refused"]:
        text = "The quarantine was full: these reports are lost. Settle those that are kept."
        found.append(Badge("bad", f"{counted(status['refused'], 'report')} refused", text))
    if view.outlook.out_of_reach and not _is_over(view):
        found.append(Badge("warn", "The risk is out of reach", f"{view.outlook.out_of_reach}."))
    return sorted(found, key=lambda one: TONES.index(one.tone))


# Money and time.


def pace_of(points: tuple[Point, ...], now: float) -> tuple[float | None, float | None]:
    """What is spent per second lately, and when the budget ends if that goes on."""
    last = points[-1]
    window = min(max(RECENT * (last.at - points[0].at), SHORTEST), LONGEST)
    if now - last.at > window:
        return None, None
    first = next(point for point in points if point.at >= last.at - window)
    if first is last and len(points) > 1:
        first = points[-2]
    time, spent = last.at - first.at, last.spent - first.spent
    if time <= 0 or spent <= 0:
        return None, None
    pace = spent / time
    return pace, last.at + max(last.budget - last.spent, 0.0) / pace


def _pace(pace: float | None, money: Money) -> str:
    if pace is None:
        return "–"
    for seconds, name in ((1.0, "second"), (60.0, "minute"), (3600.0, "hour")):
        if pace * seconds >= 10.0 ** (1 - money.decimals):
            return f"{money(pace * seconds)} per {name}"
    return f"{money(pace * 86400.0)} per day"


def _end(view: View, end: float | None, now: float) -> tuple[str, str]:
    """When the budget is used up, and what that rests on."""
    settings, state = view.settings, view.status["state"]
    notes = []
    if settings.ends is not None:
        notes.append(f"released evenly until {moment(settings.ends / 1e6)}")
    if settings.per_day is not None:
        notes.append(f"at most {number(settings.per_day)} per day")
    if state in ("closed", "exhausted"):
        return "over", "; ".join(notes)
    if end is None or state == "paused":
        return "–", "; ".join(notes)
    left = (
        ""
        if view.outlook.pulls_left is None
        else f"about {count(view.outlook.pulls_left)} pulls left"
    )
    return age(max(end, now), now) if end > now else "now", "; ".join([left, *notes]).strip("; ")


def _oldest(view: View, now: float) -> tuple[str, str]:
    if view.oldest is None:
        return "–", "nothing is in flight"
    name, ticket = view.oldest
    end = ticket.expires_at / 1e6
    then = f"expires {age(end, now)}" if end > now else f"due since {span(now - end)}"
    return span(now - ticket.asked_at / 1e6), f"{name}, {then}"


# Limits.


class LimitFacts:
    """One limit."""

    def __init__(self, view: View, m: int, one: LimitOutlook) -> None:
        task, last = view.task, view.points[-1]
        totals = Totals([last], task.arm_count)
        rate = float(totals.rate(task, m)[0])
        low, high = (float(bound[0]) for bound in rate_band(task, totals, m))
        self.index, self.name = m, one.name
        self.limit = f"at most {number(one.limit)} {task.limit_kinds[m].words}"
        self.standing = limit_standing(one, _is_over(view))
        self.rate = number(None if isnan(rate) else rate)
        self.band = f"{number(low)} to {number(high)}"
        self.bound, self.bound_if_safe = _bound(one.chance), _bound(one.chance_if_safe)
        self.estimate = None if one.estimate is None else _estimated(one.estimate, view)
        self.projected = number(one.rate)
        self.between = f"{number(one.low)} to {number(one.high)}"
        self.queue = number(last.queues[m]) if last.queues else "–"
        self.penalty = number(last.penalties[m], 6)


def _bound(found: float) -> str:
    """A bound on the chance of ending above a limit."""
    return "none yet" if found >= 1.0 else f"≤ {chance(found)}"


def _estimated(share: float, view: View) -> str:
    """The share of forward runs that ended above a limit, in words that mark it as an estimate."""
    least = 1.0 / view.outlook.forward
    return f"below {percent(least)}" if share < least else f"about {percent(share)}"


@lru_cache(maxsize=VIEWS)
def _limits(view: View) -> list[LimitFacts]:
    return [LimitFacts(view, m, one) for m, one in enumerate(view.outlook.limits)]


# Arms.


@lru_cache(maxsize=VIEWS)
def best_of(view: View) -> tuple[float, list[float]] | None:
    """The best mixture by the means so far: its reward per unit of cost, shares of pulls [K].

    With w the shares of cost, limit m reads sum_k w_k (Y_km - c_m base_km) / X_k <= 0; all of it is
    shifted to be positive, as the weights sum to 1.
    """
    task, retired = view.task, {a["arm"] for a in view.status["arms"] if a["retired"]}
    own = [
        k
        for k, mean in enumerate(view.means)
        if mean[0] and mean[0] > 0 and task.names[k] not in retired
    ]
    if not own:
        return None
    means = np.array([view.means[k] for k in own], dtype=float)
    cost, reward, penalties = means[:, 0], means[:, 1], means[:, 2:]
    net = np.empty_like(penalties)
    for m, kind in enumerate(task.limit_kinds):
        limit = kind.at(view.status["budget"])
        net[:, m] = (penalties[:, m] - limit.number * limit.base(cost, 1.0, reward)) / cost
    shift = np.maximum(-net.min(axis=0), 0.0) + 1.0 if len(task.limit_kinds) else np.zeros(0)
    found = best_mixture(reward / cost, net + shift, shift)
    if found is None:
        return None
    pulls = np.zeros(task.arm_count)
    chosen = np.array(own)[found.members]
    pulls[chosen] = found.weights / cost[found.members]
    return found.reward, (pulls / pulls.sum()).tolist()


def _best_text(view: View, mixture: tuple[float, list[float]] | None) -> str:
    task = view.task
    if not view.status["told"]:
        return "nothing was reported yet"
    if mixture is None:
        return "no mixture of the arms keeps the limits, by the estimates"
    parts = [(share, task.names[k]) for k, share in enumerate(mixture[1]) if share >= 0.0005]
    parts.sort(reverse=True)
    return ", ".join(f"{percent(share)} {name}" for share, name in parts[:4])


class ArmFacts:
    """One arm; ``share``: of the last pulls, ``bands``: of the means of each channel."""

    def __init__(
        self, view: View, k: int, colour: str, share: float, bands: Sequence[tuple[float, float]]
    ) -> None:
        arm, mixture, known = view.status["arms"][k], best_of(view), view.task.known_outcomes[k]
        share = 0.0 if isnan(share) else share
        self.name, self.colour, self.retired = arm["arm"], colour, arm["retired"]
        self.pulls, self.in_flight = count(arm["pulls"]), count(arm["in_flight"])
        self.share, self.share_width = percent(share), _width(share, 1.0)
        self.best = "–" if mixture is None else percent(mixture[1][k])
        self.means = [  # of each channel: the mean, the interval
            (number(mean, 3), f"{number(low, 3)} to {number(high, 3)}" if arm["pulls"] else "")
            for mean, (low, high) in zip(view.means[k], bands, strict=True)
        ]
        self.price = None if isnan(known[0]) else number(float(known[0]))
        self.pinned = view.status["pinned"] == self.name
        since = dict(view.outlook.changed).get(self.name)
        self.changed = None if since is None else f"since pull {count(since)}"


@lru_cache(maxsize=VIEWS)
def _arms(view: View) -> list[ArmFacts]:
    task, scales = view.task, view.task.scales.channels
    pulls = [arm["pulls"] for arm in view.status["arms"]]
    recent = shares(Totals(view.points, task.arm_count), len(view.points) - 1)[0]
    order = sorted(range(task.arm_count), key=lambda k: (-pulls[k], k))[:MOST_ARMS]
    shown = sorted(order) if task.arm_count <= MOST_ARMS else order
    own = {k: str(i + 1) for i, k in enumerate(own_colours(pulls))}
    counts = np.array([pulls[k] for k in shown], float)
    sums = np.array([[(mean or 0.0) for mean in view.means[k]] for k in shown]) * counts[:, None]
    each = np.repeat(counts, len(scales))
    bounds = mean_band(np.minimum((sums / scales).ravel(), each), each)
    lows, highs = ((bound.reshape(sums.shape) * scales).tolist() for bound in bounds)
    return [
        ArmFacts(view, k, own.get(k, "rest"), float(recent[k]), list(zip(low, high, strict=True)))
        for k, low, high in zip(shown, lows, highs, strict=True)
    ]
