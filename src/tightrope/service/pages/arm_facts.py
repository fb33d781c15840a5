"""The text of the pages about the arms: the best one, and a row for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import isnan
from typing import NamedTuple

import numpy as np

from tightrope.formats import NOTHING, Money, count, number, percent
from tightrope.problem import Task
from tightrope.problem.values import Floats
from tightrope.service.pages.curves import Totals, mean_band, shares
from tightrope.service.pages.history import View
from tightrope.service.pages.mixture import VIEWS, best_of, by_features, colours_of, ranking
from tightrope.service.pages.rate_words import RateWords

MOST_ARMS = 24  # in the table
LEAST_SHARE = 0.0005  # of a mixture that is worth a word


class BestArm(NamedTuple):
    """The arm with the largest share of the best mixture."""

    name: str
    note: str


class ArmFacts:
    """One arm; ``share``: of the last pulls, ``means``: of each channel, with its interval."""

    def __init__(
        self,
        view: View,
        k: int,
        share: float,
        means: list[tuple[str, str]],
        money: Callable[[float | None], str],
    ) -> None:
        arm, mixture, known = view.status["arms"][k], best_of(view), view.task.known_outcomes[k]
        share = 0.0 if isnan(share) else share
        self.name, self.retired = arm["arm"], arm["retired"]
        self.colour = str(colours_of(ranking(view)).get(k, "rest"))
        self.pulls, self.in_flight = count(arm["pulls"]), count(arm["in_flight"])
        self.share, self.share_width = percent(share), width(share, 1.0)
        self.best = NOTHING if mixture is None else percent(mixture[1][k])
        self.means = means
        self.price = None if isnan(known[0]) else money(float(known[0]))
        self.pinned = view.status["pinned"] == self.name
        since = dict(view.outlook.changed).get(self.name)
        self.changed = None if since is None else f"since pull {count(since)}"


def width(part: float, whole: float) -> str:
    """A part as the width of a bar, in percent."""
    return f"{100 * min(max(part / whole if whole else 0.0, 0.0), 1.0):.2f}"


def outcome_words(view: View, unit: str) -> list[Callable[[float | None], str]]:
    """How the mean outcome of a pull is written, for each channel."""
    task = view.task

    def plain(value: float | None) -> str:
        return number(value, 3)

    rates = [RateWords(task, m) for m in range(task.penalty_count)]
    return [Money(task.scales.cost, unit), plain, *(r if r.is_share else plain for r in rates)]


@lru_cache(maxsize=VIEWS)
def _recent(view: View) -> list[float]:
    """Each arm's share of the last pulls [K]."""
    totals = Totals(view.points, view.task.arm_count)
    return [float(one) for one in shares(totals, len(view.points) - 1)[0]]


@lru_cache(maxsize=VIEWS)
def arms_of(view: View, unit: str) -> list[ArmFacts]:
    """The rows of the table of arms, the best first."""
    order, recent, words = ranking(view)[:MOST_ARMS], _recent(view), outcome_words(view, unit)
    counts = np.array([view.status["arms"][k]["pulls"] for k in order], float)
    sums = np.array([[(mean or 0.0) for mean in view.means[k]] for k in order]) * counts[:, None]
    rows = zip(order, outcome_texts(view.task, counts, sums, words), strict=True)
    return [ArmFacts(view, k, recent[k], means, words[0]) for k, means in rows]


def outcome_texts(
    task: Task, counts: Floats, sums: Floats, words: Sequence[Callable[[float | None], str]]
) -> list[list[tuple[str, str]]]:
    """The mean outcome of a pull in each row and channel, with its interval, as text.

    ``counts`` [R]: pulls, ``sums`` [R, 2 + M]: their outcomes, ``words``: for each channel.
    """
    scales = np.asarray(task.scales.channels)
    each = np.repeat(counts, len(scales))
    bounds = mean_band(np.minimum((sums / scales).ravel(), each), each)
    lows, highs = ((bound.reshape(sums.shape) * scales).tolist() for bound in bounds)
    found = []
    for pulls, total, low, high in zip(counts.tolist(), sums.tolist(), lows, highs, strict=True):
        cells = zip(words, total, low, high, strict=True)
        found.append(
            [
                (say(one / pulls), f"{say(least)} to {say(most)}") if pulls else (say(None), "")
                for say, one, least, most in cells
            ]
        )
    return found


def best_arm(view: View) -> BestArm:
    """The arm with the largest share of the best mixture, and its shares."""
    mixture = best_of(view)
    if mixture is None:
        none = "varies" if by_features(view) else "none"
        return BestArm(none if view.status["told"] else NOTHING, best_text(view))
    k = ranking(view)[0]
    recent = percent(_recent(view)[k])
    only = mixture[1][k] >= 1.0 - LEAST_SHARE
    best = "the best by itself" if only else f"{percent(mixture[1][k])} of the best mixture"
    return BestArm(_arm_name(view, k), f"{best} · {recent} of recent pulls")


def best_text(view: View) -> str:
    """The best mixture in words."""
    mixture = best_of(view)
    if not view.status["told"]:
        return "no reports yet"
    if by_features(view):
        return "the best arm depends on the features of each request"
    if mixture is None:
        return "no mixture of the arms keeps the limits, by the means so far"
    return mixture_text(view, mixture[1])


def mixture_text(view: View, shares: Sequence[float]) -> str:
    """A mixture in words, the largest shares [K] first."""
    parts = [(share, _arm_name(view, k)) for k, share in enumerate(shares)]
    listed = sorted((one for one in parts if one[0] >= LEAST_SHARE), reverse=True)
    return ", ".join(f"{percent(share)} {name}" for share, name in listed[:4])


def _arm_name(view: View, k: int) -> str:
    """An arm's name; of numbers with theirs, such as bid 0.6."""
    space, name = view.task.space, view.task.names[k]
    if space is None:
        return name
    return ", ".join(map(" ".join, zip(space.ranges, name.split(", "), strict=True)))
