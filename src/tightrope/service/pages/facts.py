"""What the pages say about a campaign, in the words and order in which they say it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from math import isfinite, isnan

import numpy as np

from tightrope.formats import Money, age, chance, count, moment, number, percent, span
from tightrope.live.outlook import LimitOutlook
from tightrope.live.status import AccountAmounts, CampaignStatus
from tightrope.problem.mixtures import best_mixture
from tightrope.service.pages.curves import Totals, mean_band, own_colours, rate_band, shares
from tightrope.service.pages.history import Point, View

__all__ = ["Facts", "facts_of"]

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


@dataclass(frozen=True)
class LimitFacts:
    """One limit."""

    index: int
    name: str
    limit: str  # in words
    standing: Badge
    rate: str
    band: str
    bound: str  # on the chance of ending above
    bound_if_safe: str
    projected: str
    between: str
    queue: str
    penalty: str


@dataclass(frozen=True)
class ArmFacts:
    """One arm."""

    name: str
    colour: str
    pulls: str
    in_flight: str
    share: str
    share_width: str
    best: str
    means: list[tuple[str, str]]  # of each channel: the mean, the interval
    price: str | None  # if it is known
    retired: bool
    pinned: bool
    changed: str | None


@dataclass(frozen=True)
class Facts:
    """A campaign."""

    view: View
    money: Money
    state: Badge
    promise: Badge
    alerts: list[Badge]
    limits: list[LimitFacts]
    arms: list[ArmFacts]
    more_arms: int
    channels: list[str]
    spent: str
    budget: str
    reserved: str
    free: str
    share: str  # of the budget that is spent
    spent_width: str  # of a bar, in percent
    reserved_width: str
    pace: str
    end: str
    end_note: str
    end_at: str
    in_flight: str
    oldest: str
    oldest_note: str
    decided: str
    reported: str
    last: str
    last_at: str
    reward: str
    reward_rate: str
    best_rate: str
    best_share: str
    best_number: float | None
    best_text: str
    hard: list[tuple[str, str, str, str]]
    announce: str

    @property
    def status(self) -> CampaignStatus:
        """As a campaign gives it."""
        return self.view.status


def facts_of(view: View, now: float, unit: str = "") -> Facts:
    """All that is said of a campaign at the time ``now``."""
    status, task = view.status, view.task
    money = Money(status["budget"], unit)
    limits = _limits(view)
    state, promise = _state(view), _promise(view, limits)
    mixture = best_of(view)
    pace, end = pace_of(view.points, now)
    spent, budget = status["spent"], status["budget"]
    rate = status["reward"] / spent if spent > 0 else None
    best = None if mixture is None else mixture[0]
    last = datetime.fromisoformat(status["at"]).timestamp()
    oldest, oldest_note = _oldest(view, now)
    shown_end, note = _end(view, end, now)
    return Facts(
        view=view,
        money=money,
        state=state,
        promise=promise,
        alerts=_alerts(view),
        limits=limits,
        arms=_arms(view),
        more_arms=max(task.arm_count - MOST_ARMS, 0),
        channels=list(task.channels),
        spent=money(spent),
        budget=money(budget),
        reserved=money(status["reserved"]),
        free=money(status["free"]),
        share=percent(spent / budget if budget else None),
        spent_width=_width(spent, budget),
        reserved_width=_width(status["reserved"], budget),
        pace=_pace(pace, money),
        end=shown_end,
        end_note=note,
        end_at="" if end is None else moment(end) if isfinite(end) and end < 4e9 else "",
        in_flight=count(status["in_flight"]),
        oldest=oldest,
        oldest_note=oldest_note,
        decided=count(status["asked"]),
        reported=count(status["told"]),
        last=age(last, now),
        last_at=moment(last),
        reward=number(status["reward"], 6),
        reward_rate=number(rate),
        best_rate=number(best),
        best_share=percent(rate / best) if rate is not None and best else "–",
        best_number=best,
        best_text=_best_text(view, mixture),
        hard=[
            (name, money_of(one, unit)(one["spent"]), number(one["budget"], 6),
             _width(one["spent"], one["budget"]))
            for name, one in status["hard"].items()
        ],
        announce=f"{view.name}: {state.word}. {promise.word}. {promise.text}".strip(),
    )  # fmt: skip


def money_of(account: AccountAmounts, unit: str) -> Money:
    """The amounts of an account."""
    return Money(account["budget"])


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
            "overrun": "A report was above what was reserved for it. See it below, then resume.",
            "the clock jumped": "The store's clock jumped ahead. Check it, then resume.",
            "restored from a backup": "Tickets that were open in the backup may have been told"
            " since. Check them, then resume.",
        }.get(str(status["why"]), "No decisions are made; reports are taken.")
        tone = "warn" if status["why"] == "by hand" else "bad"
        found.append(Badge(tone, f"Paused: {status['why']}", why))
    if status["doubtful"]:
        some = ", ".join(status["doubtful"][:5]) + (" …" if len(status["doubtful"]) > 5 else "")
        found.append(Badge("warn", f"{len(status['doubtful'])} tickets in doubt", some))
    if status["quarantined"]:
        plural = "report" if status["quarantined"] == 1 else "reports"
        text = "Their tickets are charged in full until they are corrected or discarded."
        found.append(Badge("warn", f"{count(status['quarantined'])} {plural} in quarantine", text))
    if status["refused"]:
        text = "The quarantine was full: these reports are lost. Settle those that are kept."
        found.append(Badge("bad", f"{count(status['refused'])} reports refused", text))
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


@lru_cache(maxsize=VIEWS)
def _limits(view: View) -> list[LimitFacts]:
    return [_limit(view, m, one) for m, one in enumerate(view.outlook.limits)]


def _limit(view: View, m: int, one: LimitOutlook) -> LimitFacts:
    task, kind = view.task, view.task.limit_kinds[m]
    totals = Totals.of(view.points[-1:], task.arm_count)
    rate = float(totals.rate(task, m)[0])
    low, high = (float(bound[0]) for bound in rate_band(task, totals, m))
    most = number(one.high)
    return LimitFacts(
        index=m,
        name=one.name,
        limit=f"at most {number(one.limit)} {kind.words}",
        standing=limit_standing(one, _is_over(view)),
        rate=number(None if isnan(rate) else rate),
        band=f"{number(low)} to {number(high)}",
        bound="none yet" if one.chance >= 1.0 else f"≤ {chance(one.chance)}",
        bound_if_safe="none yet" if one.chance_if_safe >= 1 else f"≤ {chance(one.chance_if_safe)}",
        projected=number(one.rate),
        between=f"{number(one.low)} to {most}",
        queue=number(view.points[-1].queues[m]) if view.points[-1].queues else "–",
        penalty=number(view.points[-1].penalties[m], 6),
    )


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


@lru_cache(maxsize=VIEWS)
def _arms(view: View) -> list[ArmFacts]:
    task, status, mixture = view.task, view.status, best_of(view)
    scales = task.scales.channels
    pulls = [arm["pulls"] for arm in status["arms"]]
    totals = Totals.of(view.points, task.arm_count)
    recent = shares(totals, len(view.points) - 1)[0]
    order = sorted(range(task.arm_count), key=lambda k: (-pulls[k], k))[:MOST_ARMS]
    shown = sorted(order) if task.arm_count <= MOST_ARMS else order
    own = {k: str(i + 1) for i, k in enumerate(own_colours(pulls))}
    counts = np.array([pulls[k] for k in shown], float)
    sums = np.array([[(mean or 0.0) for mean in view.means[k]] for k in shown]) * counts[:, None]
    each = np.repeat(counts, len(scales))
    low, high = mean_band(np.minimum((sums / scales).ravel(), each), each)
    lows, highs = (bound.reshape(sums.shape) * scales for bound in (low, high))
    changed = dict(view.outlook.changed)
    made = []
    for row, k in enumerate(shown):
        arm = status["arms"][k]
        known = task.known_outcomes[k]
        means = [
            (
                number(view.means[k][channel], 3),
                f"{number(float(lows[row, channel]), 3)} to"
                f" {number(float(highs[row, channel]), 3)}" if pulls[k] else "",
            )
            for channel in range(len(scales))
        ]  # fmt: skip
        share = 0.0 if isnan(recent[k]) else float(recent[k])
        made.append(
            ArmFacts(
                name=arm["arm"],
                colour=own.get(k, "rest"),
                pulls=count(pulls[k]),
                in_flight=count(arm["in_flight"]),
                share=percent(share),
                share_width=_width(share, 1.0),
                best="–" if mixture is None else percent(mixture[1][k]),
                means=means,
                price=None if isnan(known[0]) else number(float(known[0])),
                retired=arm["retired"],
                pinned=status["pinned"] == arm["arm"],
                changed=f"since pull {count(changed[arm['arm']])}"
                if arm["arm"] in changed
                else None,
            )
        )
    return made
