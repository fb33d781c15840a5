"""The text of the pages about requests: their types and features, and whether they change."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import inf
from typing import NamedTuple

import numpy as np

from tightrope.formats import NOTHING, count, number, percent, with_reach
from tightrope.live.featured import FeatureEffect
from tightrope.live.status import StatusFeature, StatusType
from tightrope.service.pages.arm_facts import mixture_text, outcome_texts, outcome_words, width
from tightrope.service.pages.history import View
from tightrope.service.pages.mixture import VIEWS, best_by_type, colours_of, ranking, types_of

MOST_TYPES, MOST_FEATURES = 24, 12  # in the tables
MOST_NAMED = 3  # arms of a type or an outcome, types or features in the text about a change


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


class EffectFacts(NamedTuple):
    """What a feature does to an arm's outcome; ``sure``: whether the band leaves out 0."""

    arm: str
    effect: str
    band: str
    sure: bool


class FeatureFacts:
    """One feature; ``effects``: of each outcome that is learned, those of the arms."""

    def __init__(self, view: View, one: StatusFeature, effects: list[FeatureEffect]) -> None:
        self.name, self.drifted = one["feature"], one["drifted"]
        self.first, self.recent = _mean(one["first"]), _mean(one["recent"])
        self.effects = [_arms(view, effects, outcome) for outcome in effect_channels(view)]


def _arms(view: View, effects: list[FeatureEffect], outcome: str) -> list[EffectFacts]:
    """The surest effects on an outcome, in the order of the arms."""
    mine = [one for one in effects if one.outcome == outcome and one.band > 0.0]
    surest = sorted(mine, key=_sure, reverse=True)[:MOST_NAMED]
    return [
        EffectFacts(one.arm, *_with_band(one), _sure(one) > 0.0)
        for one in sorted(surest, key=lambda one: view.task.names.index(one.arm))
    ]


def _with_band(one: FeatureEffect) -> tuple[str, str]:
    """An effect and its band, with two digits of the latter."""
    effect, _, band = with_reach(one.effect, one.band, "+").partition(" ± ")
    return effect, band


def _mean(value: float | None) -> str:
    return NOTHING if value is None else number(value, 3)


def _sure(one: FeatureEffect) -> float:
    """The part of an effect that is beyond its band; negative if the band contains 0."""
    return abs(one.effect) - one.band


def effect_channels(view: View) -> list[str]:
    """The outcomes that are learned of some arm, in order."""
    learned = {one.outcome for one in view.effects}
    return [name for name in view.task.channels if name in learned]


@lru_cache(maxsize=VIEWS)
def feature_rows(view: View) -> list[FeatureFacts]:
    """The rows of the table of features: those that matter most first, and all that drift."""
    scales = dict(zip(view.task.channels, view.task.scales.channels, strict=True))
    found: list[tuple[float, FeatureFacts]] = []
    for one in view.status.get("features", ()):
        mine = [each for each in view.effects if each.feature == one["feature"]]
        size = max((_sure(each) / scales[each.outcome] for each in mine), default=-inf)
        found.append((inf if one["drifted"] else size, FeatureFacts(view, one, mine)))
    return [facts for _, facts in sorted(found, key=lambda pair: -pair[0])][:MOST_FEATURES]


def drift_text(view: View) -> str:
    """The features whose means have drifted most, if one has; otherwise ""."""
    moved = [one for one in view.status.get("features", ()) if one["drifted"]]
    moved.sort(key=lambda one: -abs(one["moved"] or 0.0))
    parts = [
        f"{one['feature']} {_mean(one['recent'])} ({_mean(one['first'])} at first)"
        for one in moved[:MOST_NAMED]
    ]
    return f"Means of the last requests: {', '.join(parts)}." if parts else ""
