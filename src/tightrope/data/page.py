"""The page about a log: a self-contained HTML file, made from its profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tightrope.data.profile import MOST_ARMS, MOST_CHANNELS, ArmProfile, Profile
from tightrope.names import in_table
from tightrope.report.page import fill
from tightrope.report.table import estimate_texts

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["mean_texts", "profile_page"]

WIDTH, HEIGHT = 168, 40  # of a histogram, in pixels
TEMPLATE = "profile.html.j2"


def mean_texts(found: Profile, place: int) -> list[str]:
    """Every arm's mean of an outcome with half of its 95 % interval, as text."""
    return estimate_texts([one.means[place] for one in found.arms])


def profile_page(found: Profile, title: str) -> str:
    """The page as HTML; every text is escaped."""
    arms = found.arms[:MOST_ARMS]
    means = [mean_texts(found, place) for place in range(len(found.channels))]
    tops = [
        max(scale, *(one.largest[place] for one in found.arms))
        for place, scale in enumerate(found.scales)
    ]
    return fill(
        TEMPLATE,
        title=f"Profile of {in_table(title)}",
        found=found,
        facts=_facts(found),
        arms=[
            {
                "arm": one,
                "cells": [
                    {
                        "channel": channel,
                        "text": means[place][k],
                        "bars": _bars(one, place),
                        "label": _bars_label(one, channel, place),
                    }
                    for place, channel in enumerate(found.channels)
                ],
            }
            for k, one in enumerate(arms)
        ],
        left=len(found.arms) - len(arms),
        tops=tops,
        pairs=_pairs(found),
        correlations=[_correlations(found, one) for one in arms],
        limits=[
            {"limit": one, "rates": [_rate(rate, one.limit) for rate in one.rates[: len(arms)]]}
            for one in found.limits
        ],
    )


def _facts(found: Profile) -> list[tuple[str, str]]:
    feasible = "yes" if found.infeasible is None else "no"
    facts = [
        ("rows", f"{found.rows:,}"),
        ("arms", f"{len(found.arms):,}"),
        *(
            (f"largest {c} (scale)", f"{s:g}")
            for c, s in zip(found.channels, found.scales, strict=True)
        ),
    ]
    if found.limits:
        facts.append(("some mixture keeps the limits", feasible))
    if found.reward_rate is not None:
        facts.append(("its reward per unit of cost", f"{found.reward_rate:.5g}"))
    return [(in_table(name), value) for name, value in facts]


def _bars(one: ArmProfile, place: int) -> Markup:
    """A histogram as SVG, from 0 to the scale; the highest bar is full."""
    from markupsafe import Markup

    counts = one.histograms[place]
    top, step = max(counts) or 1, WIDTH / len(counts)
    drawn = "".join(
        f'<rect x="{i * step:.1f}" y="{HEIGHT - height:.1f}" width="{step - 1:.1f}"'
        f' height="{height:.1f}"/>'
        for i, count in enumerate(counts)
        if (height := max(HEIGHT * count / top, 1.0 if count else 0.0)) > 0.0
    )
    return Markup(
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true">'
        f"{drawn}</svg>"
    )


def _bars_label(one: ArmProfile, channel: str, place: int) -> str:
    return (
        f"{channel} of {one.name}: mean {one.means[place].mean:.4g}, up to {one.largest[place]:.4g}"
    )


def _pairs(found: Profile) -> list[str]:
    """The pairs of outcomes whose correlations are shown."""
    few = found.channels[:MOST_CHANNELS]
    return [f"{one}, {two}" for i, one in enumerate(few) for two in few[i + 1 :]]


def _correlations(found: Profile, one: ArmProfile) -> list[dict[str, Any]]:
    return [
        {
            "text": "–" if value is None else f"{value:+z.2f}",
            "strength": 0 if value is None else round(100 * abs(value)),
            "negative": value is not None and value < 0.0,
        }
        for value in (one.correlations[pair] for pair in _pairs(found))
    ]


def _rate(rate: float, limit: float) -> dict[str, Any]:
    return {"text": f"{rate:.4g}", "tone": "good" if rate <= limit else "bad"}
