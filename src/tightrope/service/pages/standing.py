"""The headline of a campaign, its state, and its banners."""

from __future__ import annotations

from collections.abc import Sequence

from tightrope.formats import count, counted, percent
from tightrope.service.pages.context_facts import drift_text, mix_text
from tightrope.service.pages.history import View
from tightrope.service.pages.limit_words import TONES, Badge, LimitFacts, is_over

MOST_NAMED = 3  # limits of a headline, arms of a banner
WHY_PAUSED = {
    "overrun": "A report or an amendment was above what was reserved for its ticket. Look at it"
    " below, then resume.",
    "the clock jumped": "The store's clock jumped ahead. Check it, then resume.",
    "restored from a backup": "Tickets that were open in the backup may have been reported since."
    " Check them, then resume.",
}


def state_of(view: View) -> Badge:
    """The state of a campaign."""
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


def promise_of(view: View, limits: Sequence[LimitFacts]) -> Badge:
    """The headline: the worst limit, or all of them if all hold."""
    over = view.status["overruns"]
    if view.status["spent"] > view.status["budget"]:
        return Badge("bad", "Overspent", "More was spent than the budget.")
    if view.status["free"] < 0:
        text = "What is spent and what requests in flight may cost are more than the budget."
        return Badge("bad", "May overspend", text)
    if not limits:
        text = "No limits." if not over else f"No limits. {counted(over, 'overrun')}."
        return Badge("good" if not over else "warn", "Within the budget", text)
    worst = min(limits, key=lambda one: TONES.index(one.standing.tone))
    if len(limits) == 1 or worst.standing.tone != "good":
        return worst.standing
    return Badge("good", "Within all limits", _all_kept(view, limits))


def _all_kept(view: View, limits: Sequence[LimitFacts]) -> str:
    """Several limits that hold, those with the least room first."""
    rows = zip(view.outlook.limits, limits, strict=True)
    near = sorted(rows, key=lambda row: -(row[0].rate or 0.0) / (row[0].limit or 1.0))
    parts = [facts.words.against(one.rate) for one, facts in near[:MOST_NAMED]]
    more = len(limits) - MOST_NAMED
    text = f"{'; '.join(parts)}{f'; {more} more' * (more > 0)}."
    if is_over(view):
        return text
    found = [facts.estimate for one, facts in near if facts.estimate and not one.promised]
    if not found:
        return text
    one = max(view.outlook.limits, key=lambda row: row.estimate or 0.0)
    worst = next(facts.estimate for facts in limits if facts.name == one.name)
    return f"{text} Chance of ending above one of them: {worst}."


def risk_words(view: View) -> str:
    """The risk of the policy, and whether it is proved; "" without one."""
    outlook = view.outlook
    if outlook.risk is None or not outlook.limits:
        return ""
    risk = percent(outlook.risk, None)
    if outlook.aimed:
        return f"aims at a risk of {risk}, not proved"
    if all(one.promised for one in outlook.limits):
        return f"promises a risk of at most {risk}, proved"
    return f"cannot promise a risk of {risk} yet"


def alerts_of(view: View) -> list[Badge]:
    """The banners, the worst first."""
    found = [*_halts(view), *_changes(view), *_reports(view)]
    if mix := mix_text(view):
        found.append(Badge("open", "The mix of requests has changed", mix))
    if drift := drift_text(view):
        found.append(Badge("open", "The requests have changed", drift))
    if not is_over(view):
        if view.outlook.out_of_reach:
            found.append(Badge("warn", "The risk is out of reach", f"{view.outlook.out_of_reach}."))
        found += [Badge("warn", "Check the settings", f"{one}.") for one in view.notices]
    return sorted(found, key=lambda one: TONES.index(one.tone))


def _halts(view: View) -> list[Badge]:
    """The reasons why a campaign does not decide."""
    status, found = view.status, list[Badge]()
    if view.error is not None:
        text = f"{view.error}. The page shows the state before that."
        found.append(Badge("bad", "Halted", text))
    if status["state"] == "paused":
        why = str(status["why"])
        text = WHY_PAUSED.get(why, "No decisions are made; reports are taken.")
        found.append(Badge("warn" if why == "by hand" else "bad", f"Paused: {why}", text))
    return found


def _changes(view: View) -> list[Badge]:
    """Arms that changed, and declarations that turned out wrong."""
    found, changed = list[Badge](), view.outlook.changed
    if changed:
        named = [f"{arm} behaves differently since pull {count(at)}" for arm, at in changed]
        more = f" and {len(named) - MOST_NAMED} more arms" if len(named) > MOST_NAMED else ""
        text = f"{'; '.join(named[:MOST_NAMED])}{more}. The policy has dropped older outcomes."
        found.append(Badge("warn", "Change detected", text))
    for one in view.outlook.refuted:
        found.append(Badge("warn", "A declaration is wrong", f"{one[:1].upper()}{one[1:]}."))
    return found


def _reports(view: View) -> list[Badge]:
    """Reports that need attention."""
    status, found = view.status, list[Badge]()
    if status["overruns"] and status["on_overrun"] == "alert":
        text = "Tickets cost more than was reserved for them. The campaign continues."
        found.append(Badge("warn", counted(status["overruns"], "overrun"), text))
    if status["doubtful"]:
        some = ", ".join(status["doubtful"][:5]) + (" …" if len(status["doubtful"]) > 5 else "")
        found.append(Badge("warn", f"{counted(len(status['doubtful']), 'ticket')} in doubt", some))
    if status["quarantined"]:
        text = (
            "If the ticket was reported before, the first report counts. If it was in flight, it is"
            " charged in full until you correct the report."
        )
        reports = counted(status["quarantined"], "report")
        found.append(Badge("warn", f"{reports} in quarantine", text))
    if status["refused"]:
        text = "The quarantine was full, and these reports are lost. Settle those that are kept."
        found.append(Badge("bad", f"{counted(status['refused'], 'report')} refused", text))
    return found
