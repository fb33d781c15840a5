"""Claims with measurements and verdicts: as rows, on the page, in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tightrope.names import in_text
from tightrope.report.page import Findings
from tightrope.report.table import is_limited

__all__ = ["FAILS", "HOLDS", "UNKNOWN", "Verdict", "findings", "print_verdicts"]

HOLDS = "holds"
FAILS = "does not hold at these sizes"
UNKNOWN = "cannot be told"
TONES = {HOLDS: "good", FAILS: "bad", UNKNOWN: "open"}
COLOURS = {HOLDS: "green", FAILS: "red", UNKNOWN: "dim"}


@dataclass(frozen=True)
class Verdict:
    """A claim and its verdict. ``source``: where it is made; ``short``: the measured result."""

    claim: str
    source: str
    experiment: str
    measured: str
    short: str
    verdict: str


def findings(verdicts: Sequence[Verdict], title: str, lead: str, file: str) -> Findings:
    """The verdicts as a table for the page."""
    return Findings(
        title=title,
        lead=lead,
        headings=("Claim", "Source", "Measured", "Verdict"),
        rows=[
            (
                _unbroken(one.claim),
                f"{one.source} ({one.experiment})",
                _unbroken(one.measured),
                one.verdict,
            )
            for one in verdicts
        ],
        tones=[TONES[one.verdict] for one in verdicts],
        files=[file],
    )


def _unbroken(text: str) -> str:
    """The text without line breaks inside equations and numbers with intervals."""
    for sign in ("=", "±"):
        text = text.replace(f" {sign} ", f"\u00a0{sign}\u00a0")
    return text


def print_verdicts(verdicts: Sequence[Verdict]) -> None:
    """Print a short table to standard output; a pipe gets it in full width."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("from", "claim", "measured", "verdict"):
        shown.add_column(heading, overflow="fold")
    for one in verdicts:
        colour = COLOURS[one.verdict]
        shown.add_row(
            Text(one.experiment),
            Text(in_text(one.claim)),
            Text(in_text(one.short)),
            Text(one.verdict, colour),
        )
    console = Console(highlight=False)
    if not is_limited(console):
        wide = Console(width=10_000).measure(shown).maximum
        console = Console(width=wide, highlight=False)
    console.print(shown)
