"""A page of many policies on many problems: targets, verdicts, small multiples, a sortable table.

The page loads nothing from elsewhere. The table is plain HTML; a short script inside the page sorts
it by any column and filters its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tightrope.report.page import Findings, Picture, fill, inlined

__all__ = ["Board", "Cell", "Heading", "Tableau", "render_board"]

TEMPLATE = "board.html.j2"


@dataclass(frozen=True)
class Heading:
    """A column: its name, its meaning, whether it holds numbers, whether it filters rows.

    ``picked``: the value that the filter shows at first; None shows all rows.
    """

    name: str
    meaning: str = ""
    number: bool = True
    filters: bool = False
    picked: str | None = None


@dataclass(frozen=True)
class Cell:
    """A text, the number to sort it by (None sorts last), and a tone: good, bad, open or none."""

    text: str
    value: float | None = None
    tone: str = ""


@dataclass(frozen=True)
class Tableau:
    """A table that can be sorted."""

    name: str  # id of the HTML element
    title: str
    lead: str
    headings: Sequence[Heading]
    rows: Sequence[Sequence[Cell]]

    def choices(self, column: int) -> list[str]:
        """The distinct texts of a column, in order of appearance."""
        return list(dict.fromkeys(row[column].text for row in self.rows))


@dataclass(frozen=True)
class Board:
    """The contents of the page, from top to bottom."""

    title: str
    lead: str
    facts: Sequence[tuple[str, str]]
    findings: Sequence[tuple[str, Findings]]  # by the name to link to
    legend: Sequence[Picture]
    pictures: Sequence[Picture]
    pictures_lead: str
    tables: Sequence[Tableau]
    notes: Sequence[str]
    files: Sequence[str]
    sources: Sequence[tuple[str, str]]


def render_board(board: Board) -> str:
    """The page as HTML; every text is escaped."""
    return fill(
        TEMPLATE,
        board=board,
        legend=inlined(board.legend, "mark"),
        pictures=inlined(board.pictures, "picture"),
    )
