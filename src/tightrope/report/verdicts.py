"""Claims with measurements and verdicts: as rows, on the page, in the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tightrope.names import in_text
from tightrope.report.model import Column, Table, names, print_table, texts

HOLDS = "holds"
FAILS = "does not hold at these sizes"
UNKNOWN = "cannot be decided"
TONES = {HOLDS: "good", FAILS: "bad", UNKNOWN: "open"}


@dataclass(frozen=True)
class Verdict:
    """A claim and its verdict. ``source``: where it is made; ``short``: the measured result."""

    claim: str
    source: str
    experiment: str
    measured: str
    short: str
    verdict: str


def findings(verdicts: Sequence[Verdict], title: str, lead: str, file: str) -> Table:
    """The verdicts as a table for the page."""
    sources = [f"{one.source} ({one.experiment})" for one in verdicts]
    columns = [
        texts("Claim", [_unbroken(one.claim) for one in verdicts]),
        texts("Source", sources),
        texts("Measured", [_unbroken(one.measured) for one in verdicts]),
        _verdicts("Verdict", verdicts),
    ]
    return Table(columns, title, lead, name="claims", files=[file])


def print_verdicts(verdicts: Sequence[Verdict], file: object) -> None:
    """Print the claims that fail, and how many have each verdict; ``file`` has all of them."""
    failed = [one for one in verdicts if one.verdict == FAILS]
    if failed:
        columns = [
            texts("from", [one.experiment for one in failed]),
            texts("claim", [one.claim for one in failed]),
            texts("measured", [one.short for one in failed]),
            _verdicts("verdict", failed),
        ]
        print_table(Table(columns))
    counts = Counter(one.verdict for one in verdicts)
    told = "; ".join(f"{one}: {counts[one]}" for one in TONES if counts[one])
    print(in_text(f"{len(verdicts)} claims of the paper ({told}): {file}"))


def _verdicts(heading: str, verdicts: Sequence[Verdict]) -> Column:
    tones = [TONES[one.verdict] for one in verdicts]
    return names(heading, [one.verdict for one in verdicts], tones=tones)


def _unbroken(text: str) -> str:
    """The text without line breaks inside equations and numbers with intervals."""
    for sign in ("=", "±"):
        text = text.replace(f" {sign} ", f"\u00a0{sign}\u00a0")
    return text
