"""Styles: one colour per policy in all figures, with distinct markers and lines.

The colours are those of Okabe and Ito, which colour-blind readers can tell apart; markers and lines
differ too, for grey prints. The page swaps ``INK`` and ``PAPER`` in dark mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from tightrope.policies.base import Policy

INK = "#1a1b1e"
PAPER = "#fefefd"
QUIET = "#8d9096"

OTHER_COLOURS = ("#882255", "#44aa99", "#999933", "#7a5195", "#8c564b")  # for policies without one
GRADES = ("#4cb07a", "#26828e", "#3e4989", "#440154")  # viridis, light to dark
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
LINES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (4, 1.4, 1, 1.4)), (0, (1.2, 1.2)))

REFERENCES: dict[str, dict[str, Any]] = {
    "optimum": {"color": "#f0e442", "linewidth": 5.0, "zorder": 1.0},
    "stationary": {"color": INK, "linewidth": 0.9, "zorder": 1.5},
    "limit": {"color": INK, "linewidth": 0.9, "linestyle": LINES[3], "zorder": 1.5},
    "learning": {"color": INK, "linewidth": 0.9, "linestyle": LINES[1], "zorder": 1.5},
}

SETTINGS: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so it is the same everywhere
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.unicode_minus": True,
    "grid.color": QUIET,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.6,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "legend.handlelength": 3.0,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "figure.constrained_layout.h_pad": 0.07,
    "figure.constrained_layout.w_pad": 0.07,
    "svg.fonttype": "path",
    "svg.hashsalt": "tightrope",  # so that the same figure is the same bytes
}


@dataclass(frozen=True)
class Style:
    """A policy's colour, marker and line."""

    colour: str
    marker: str
    line: Any


def styles(labels: Sequence[str]) -> dict[str, Style]:
    """A style for each label: the policy's colour; variants of a policy differ in marker and line.

    >>> from tightrope import LyOn
    >>> styles(["lyoff", "lyon:delta0=15"])["lyon:delta0=15"].colour == LyOn.colour
    True
    """
    found: dict[str, Style] = {}
    names: list[str] = []
    for label in dict.fromkeys(labels):
        name = label.partition(":")[0]
        variant = names.count(name)
        names.append(name)
        colour, place = _colour(name, names)
        marker = MARKERS[(place + 3 * variant) % len(MARKERS)]
        found[label] = Style(colour, marker, LINES[(place + variant) % len(LINES)])
    return found


def graded(count: int, beside: Sequence[Style] = ()) -> list[Style]:
    """Styles for increasing values of a parameter: colours from light to dark.

    ``beside``: styles whose markers are not used. ``count``: at most the number of ``GRADES``.
    """
    places = [round(i * (len(GRADES) - 1) / max(count - 1, 1)) for i in range(count)]
    taken = {style.marker for style in beside}
    markers = [marker for marker in MARKERS if marker not in taken]
    return [
        Style(GRADES[place], markers[i], LINES[i % len(LINES)]) for i, place in enumerate(places)
    ]


def _colour(name: str, names: Sequence[str]) -> tuple[str, int]:
    """A policy's colour and its place in the palette: its own colour, or one from its name."""
    known = Policy.colours
    if name in known:
        return known[name], list(known).index(name)
    taken: dict[str, int] = {}
    for other in dict.fromkeys(names):
        if other not in known:
            place = crc32(other.encode()) % len(OTHER_COLOURS)
            while place in taken.values() and len(taken) < len(OTHER_COLOURS):
                place = (place + 1) % len(OTHER_COLOURS)
            taken[other] = place
    return OTHER_COLOURS[taken[name]], len(known) + taken[name]
