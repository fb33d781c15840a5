"""The text of the pages about a limit: its state, what is expected, what is proved."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tightrope.formats import chance, percent
from tightrope.live.outlook import LimitOutlook
from tightrope.service.pages.curves import Totals, rate_band
from tightrope.service.pages.history import View
from tightrope.service.pages.mixture import VIEWS
from tightrope.service.pages.rate_words import RateWords

SURE = 0.05  # a chance of breaking a limit that counts as small
NEAR = 0.02  # share of a limit above it that is usual for a policy that uses all of it
TONES = ("bad", "warn", "open", "good", "quiet")  # the worst first
NO_BOUND = "no bound yet"
EARLY = 30  # reports below which the rate and an estimate mean little


@dataclass(frozen=True)
class Badge:
    """A state in a word or two, with a tone (one of ``TONES``) and sentences."""

    tone: str
    word: str
    text: str = ""


def is_over(view: View) -> bool:
    """Whether the campaign has ended."""
    status = view.status
    return status["state"] in ("closed", "exhausted") and not status["in_flight"]


def chance_words(one: LimitOutlook, forward: int) -> str:
    """The chance of ending above a limit and its basis; "" if unknown."""
    proved = f"Proved: the chance of ending above it is at most {chance(one.chance)}."
    if one.promised:
        return proved
    if one.estimate is not None:
        return f"Chance of ending above it: {estimated(one.estimate, forward)}."
    return proved if one.chance <= SURE else ""


def estimated(share: float, forward: int) -> str:
    """The share of forward runs that end above a limit; none of n is below 3 / n (95 %)."""
    least = min(3.0 / forward, 1.0)
    if share in (0.0, 1.0):
        return f"below {percent(least)}" if not share else f"above {percent(1.0 - least)}"
    return f"about {percent(share)}"


def limit_standing(view: View, one: LimitOutlook, words: RateWords) -> Badge:
    """Whether a limit holds, in a word or two, and how sure that is."""
    over, forward = is_over(view), view.outlook.forward
    above = one.rate is not None and one.rate > one.limit
    total = words.kind.total is not None
    text = f"{words.against(one.rate)}{', projected' * (total and not over)}."
    if one.broken or (over and above):
        ended = "It ended like this." if over else "What is left cannot bring it below the limit."
        return Badge("bad", "Limit broken", f"{text} {ended}")
    if one.infeasible and not over:
        need = "" if one.least is None else f" The least that one can keep is {words(one.least)}."
        return Badge("bad", "Cannot be kept", f"{text} No mixture of the arms keeps it.{need}")
    if one.rate is None:
        return Badge("open", "No reports yet", f"{words.name}: {words.allowed}.")
    if over:
        return Badge("good", "Within the limit", text)
    if view.status["told"] < EARLY and not one.promised:
        more = f"Chances are shown after {EARLY} reports."
        return Badge("open", "Too early to tell", f"{text} {more}")
    return _running(one, f"{text} {chance_words(one, forward)}".strip(), above)


def _running(one: LimitOutlook, text: str, above: bool) -> Badge:
    """The standing of a limit whose outcome is still open."""
    if one.promised:
        return Badge("good", "Within the promise" if above else "Within the limit", text)
    if above and one.rate is not None and one.rate > one.limit * (1.0 + NEAR):
        return Badge("warn", "Above the limit", text)
    likely = one.estimate or 0.0
    if likely > 0.5:
        return Badge("warn", "Likely to end above the limit", text)
    word = "At the limit" if above else "Within the limit"
    return Badge("open" if above or likely > SURE else "good", word, text)


class LimitFacts:
    """One limit, as text."""

    def __init__(self, view: View, m: int, one: LimitOutlook, unit: str = "") -> None:
        task = view.task
        totals = Totals([view.points[-1]], task.arm_count)
        low, high = (float(bound[0]) for bound in rate_band(task, totals, m))
        self.words = words = RateWords(task, m, unit)
        self.index, self.name, self.limit = m, one.name, words.allowed
        self.standing = limit_standing(view, one, words)
        self.running = float(totals.rate(task, m)[0])
        self.rate = words(self.running)
        self.band = f"{words(low)} to {words(high)}"
        self.expected, self.estimate = self._expected(view, one)
        self.bound, self.bound_if_safe = _bound(one.chance), _bound(one.chance_if_safe)
        self.between = f"{words(one.low)} to {words(one.high)}"

    def _expected(self, view: View, one: LimitOutlook) -> tuple[str, str]:
        """The rate at the end with its interval, and the chance of ending above the limit."""
        if is_over(view) or view.status["told"] < EARLY:
            return "", ""
        if one.estimate is None or one.expected is None:
            return self.words(one.rate), ""
        low, middle, high = map(self.words, one.expected)
        text = middle if low == high else f"{middle} ({low} to {high})"
        return text, estimated(one.estimate, view.outlook.forward)


def _bound(found: float) -> str:
    """A bound on the chance of ending above a limit."""
    return NO_BOUND if found >= 1.0 else f"at most {chance(found)}"


@lru_cache(maxsize=VIEWS)
def limits_of(view: View, unit: str) -> list[LimitFacts]:
    """All limits of a campaign."""
    return [LimitFacts(view, m, one, unit) for m, one in enumerate(view.outlook.limits)]
