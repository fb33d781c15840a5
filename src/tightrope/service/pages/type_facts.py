"""The text of the pages about the types of requests: a row for each, and changes of their mix."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tightrope.formats import NOTHING, count, percent
from tightrope.live.status import StatusType
from tightrope.service.pages.arm_facts import mixture_text, outcome_texts, outcome_words, width
from tightrope.service.pages.history import View
from tightrope.service.pages.mixture import VIEWS, best_by_type, colours_of, ranking, types_of

MOST_TYPES = 24  # in the table
MOST_NAMED = 3  # arms of a type, types in the text about a change


class ArmShare(NamedTuple):
    """An arm's share of the pulls of a type: its colour, and its bar's start and width."""

    name: str
    colour: str
    share: str
    start: str
    width: str


class TypeFacts:
    """One type of requests; ``means``: of each channel, with its interval."""

    def __init__(self, view: View, one: StatusType, means: list[tuple[str, str]]) -> None:
        best = best_by_type(view).get(one["type"])
        self.name, self.asked, self.means = one["type"], count(one["asked"]), means
        self.share, self.recent = percent(one["share"]), percent(one["recent"])
        self.arms = _arm_shares(view, one["pulls"])
        self.best = NOTHING if best is None else mixture_text(view, best)


def _arm_shares(view: View, pulls: Mapping[str, int]) -> list[ArmShare]:
    """The arms with the largest shares of a type's pulls, and the others together."""
    total, colours = sum(pulls.values()), colours_of(ranking(view))
    numbers = {name: k for k, name in enumerate(view.task.names)}
    order = sorted((name for name in pulls if pulls[name]), key=lambda name: -pulls[name])
    parts = [(name, str(colours.get(numbers[name], "rest")), pulls[name]) for name in order]
    if len(parts) > MOST_NAMED + 1:
        rest = sum(part[2] for part in parts[MOST_NAMED:])
        parts = [*parts[:MOST_NAMED], (f"{len(parts) - MOST_NAMED} others", "rest", rest)]
    found, start = list[ArmShare](), 0
    for name, colour, some in parts:
        bar = width(start, total), width(some, total)
        found.append(ArmShare(name, colour, percent(some / total), *bar))
        start += some
    return found


@lru_cache(maxsize=VIEWS)
def type_rows(view: View, unit: str) -> list[TypeFacts]:
    """The rows of the table of types, the most frequent first."""
    types = types_of(view)[:MOST_TYPES]
    if not types:
        return []
    told = np.array([one["told"] for one in types], float)
    sums = np.array(
        [[_cost(view, one), one["reward"], *one["penalties"].values()] for one in types]
    )
    means = outcome_texts(view.task, told, sums, outcome_words(view, unit))
    for row in means if not view.means_by_type else ():
        row[0] = NOTHING, ""  # the policy ignores types, so the costs of a type are unknown
    return [TypeFacts(view, one, row) for one, row in zip(types, means, strict=True)]


def _cost(view: View, one: StatusType) -> float:
    """The reported cost of a type's pulls; 0 if the policy ignores types."""
    means = view.means_by_type.get(one["type"], [])
    pairs = zip(one["pulls"].values(), means, strict=False)
    return sum(pulls * (mean[0] or 0.0) for pulls, mean in pairs)


def mix_text(view: View) -> str:
    """The types whose share has changed most, if the mix of requests has changed; otherwise ""."""
    if not view.status.get("mix_changed"):
        return ""
    moved = sorted(types_of(view), key=lambda one: -abs(one["recent"] - one["share"]))
    named = [(one["type"], percent(one["recent"]), percent(one["share"])) for one in moved]
    parts = [f"{name} {now} ({was} of all requests)" for name, now, was in named[:MOST_NAMED]]
    return f"Of the last requests: {', '.join(parts)}."
