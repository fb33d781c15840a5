"""The text of the pages about the features of requests: what they do, and whether they drift."""

from __future__ import annotations

from functools import lru_cache
from math import inf
from typing import NamedTuple

from tightrope.formats import NOTHING, number, with_reach
from tightrope.live.featured import FeatureEffect
from tightrope.live.status import StatusFeature
from tightrope.service.pages.history import View
from tightrope.service.pages.mixture import VIEWS

MOST_FEATURES = 12  # in the table
MOST_NAMED = 3  # features in the text about a drift, arms of an outcome


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
