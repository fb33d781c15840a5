"""The text of the pages about the types of requests: a row for each, and changes of their mix.

Letters: N points, T types, K arms, M limits.
"""

from __future__ import annotations

from functools import lru_cache
from math import log, sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tightrope.formats import NOTHING, count, moment, percent
from tightrope.service.pages.arm_facts import mixture_text, outcome_texts, outcome_words, width
from tightrope.service.pages.curves import shares
from tightrope.service.pages.history import TypeTotals, View
from tightrope.service.pages.mixture import VIEWS, best_by_type, colours_of, ranking

__all__ = ["MOST_TYPES", "MixChange", "TypeFacts", "mix_change", "types_of"]

MOST_TYPES = 24  # in the table
MOST_NAMED = 3  # arms of a type, types in the text about a change
FEWEST = 100  # reports before and after a change
DOUBT = 1e-4  # chance to see a change where there is none
LEAST_MOVE = 0.1  # share of requests that have another type than before

Floats = npt.NDArray[np.float64]


class ArmShare(NamedTuple):
    """An arm's share of the pulls of a type: its colour, and its bar's start and width."""

    name: str
    colour: str
    share: str
    start: str
    width: str


class TypeFacts:
    """One type of requests; ``recent``: its share of the last pulls."""

    def __init__(self, view: View, found: TypeTotals, x: int, recent: float) -> None:
        pulls, best = found.totals[x, :, 0], best_by_type(view)
        share = float(pulls.sum() / max(found.totals[:, :, 0].sum(), 1.0))
        self.name, self.pulls = found.names[x], count(int(pulls.sum()))
        self.share, self.share_width = percent(share), width(share, 1.0)
        self.recent = percent(0.0 if np.isnan(recent) else recent)
        self.arms = _arm_shares(view, pulls)
        self.best = NOTHING if best is None or x not in best else mixture_text(view, best[x])
        self.means: list[tuple[str, str]] = []  # of each channel: the mean, its interval


def _arm_shares(view: View, pulls: Floats) -> list[ArmShare]:
    """The arms with the largest shares of a type's pulls, and the others together."""
    total, colours = float(pulls.sum()), colours_of(ranking(view))
    if not total:
        return []
    order = [int(k) for k in np.argsort(-pulls, kind="stable") if pulls[k] > 0]
    parts = [(view.task.names[k], str(colours.get(k, "rest")), pulls[k]) for k in order]
    if len(parts) > MOST_NAMED + 1:
        rest = sum(part[2] for part in parts[MOST_NAMED:])
        parts = [*parts[:MOST_NAMED], (f"{len(parts) - MOST_NAMED} others", "rest", rest)]
    found, start = list[ArmShare](), 0.0
    for name, colour, some in parts:
        part = float(some) / total
        found.append(ArmShare(name, colour, percent(part), width(start, 1.0), width(part, 1.0)))
        start += part
    return found


@lru_cache(maxsize=VIEWS)
def types_of(view: View, unit: str) -> list[TypeFacts]:
    """The rows of the table of types, the most frequent first."""
    found = view.types
    if found is None:
        return []
    pulls = found.totals[:, :, 0].sum(axis=1)
    order = [int(x) for x in np.argsort(-pulls, kind="stable")][:MOST_TYPES]
    recent = shares(_type_counts(view), len(view.points) - 1)[0]
    rows = [TypeFacts(view, found, x, float(recent[x])) for x in order]
    sums, words = found.totals[order, :, 1:].sum(axis=1), outcome_words(view, unit)
    for row, means in zip(rows, outcome_texts(view.task, pulls[order], sums, words), strict=True):
        row.means = means
    return rows


# Changes of the mix.


class MixChange(NamedTuple):
    """A change of the mix of types: its time and the types whose share changed most, as text."""

    text: str
    recent: bool  # whether there are fewer reports since then than before


def _type_counts(view: View) -> Floats:
    """The reports of each type at each point [N, T]; earlier points may have fewer types."""
    types = 0 if view.types is None else len(view.types.names)
    found = np.zeros((len(view.points), types))
    for row, point in zip(found, view.points, strict=True):
        row[: len(point.types)] = point.types[:types]
    return found


@lru_cache(maxsize=VIEWS)
def mix_change(view: View) -> MixChange | None:
    """The point that splits the reports into the two most different mixes; None without one.

    The test is the likelihood ratio of two mixes against one. Its chi-square tail is bounded by
    Laurent and Massart (2000), and the doubt is shared by all points.
    """
    before = _type_counts(view)
    after = before[-1] - before
    first, last = before.sum(axis=1), after.sum(axis=1)
    usable = np.flatnonzero((first >= FEWEST) & (last >= FEWEST))
    if not len(usable):
        return None
    gain = 2.0 * (_log_likelihood(before) + _log_likelihood(after))[usable]
    gain -= 2.0 * _log_likelihood(before[-1:])[0]
    at = int(usable[gain.argmax()])
    degrees, doubt = max(np.count_nonzero(before[-1]) - 1, 1), log(len(usable) / DOUBT)
    old, new = before[at] / first[at], after[at] / last[at]
    sure = gain.max() > degrees + 2.0 * sqrt(degrees * doubt) + 2.0 * doubt
    if not sure or np.abs(new - old).sum() / 2.0 < LEAST_MOVE:
        return None
    text = f"Since about {moment(view.points[at].at)}: {_moved(view, old, new)}."
    return MixChange(text, bool(last[at] < first[at]))


def _log_likelihood(counts: Floats) -> Floats:
    """The largest log-likelihood of counts [N, T] of one mix, [N]."""
    total = counts.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.nan_to_num(counts * np.log(counts / total), nan=0.0).sum(axis=1))


def _moved(view: View, old: Floats, new: Floats) -> str:
    """The largest changes of shares in words."""
    assert view.types is not None
    order = np.argsort(-np.abs(new - old), kind="stable")[:MOST_NAMED]
    named = [(view.types.names[x], percent(new[x]), percent(old[x])) for x in order]
    return ", ".join(f"{name} {now} (before {was})" for name, now, was in named)
