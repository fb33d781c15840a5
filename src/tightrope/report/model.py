"""One model of a table, and how it is written on a terminal and as plain text.

``html`` writes the same model for notebooks, ``parts.html.j2`` on pages.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import IO, TYPE_CHECKING, Any

from tightrope.formats import NOTHING
from tightrope.names import in_table, in_text

if TYPE_CHECKING:
    from rich.table import Table as RichTable

COLOURS = {"good": "green", "bad": "red", "open": "dim"}
HIDDEN = "not shown, too little width: "


@dataclass(frozen=True)
class Cell:
    """A text, escaped, and what stands with it.

    ``value``: the number to sort by; None sorts last. ``tone``: good, bad, open or none. In
    notebooks ``bar``, from 0 to 1, or a sparkline of ``line`` is drawn below the text.
    """

    text: str
    value: float | None = None
    tone: str = ""
    bar: float | None = None
    line: Sequence[float] = ()


@dataclass(frozen=True)
class Column:
    """A heading and a value per row, which ``form`` makes a text; None is shown as a dash.

    ``key``: the number to sort a value by, unless the value is a number itself. ``number``: whether
    to align it to the right, and to sort it by number. ``unit``: stands after each text. ``tones``,
    ``bars``, ``lines``: as in :class:`Cell`, one per row. ``long``: texts are not shortened.
    """

    heading: str
    values: Sequence[Any]
    form: Callable[[Any], str] = str
    key: Callable[[Any], float | None] | None = None
    number: bool = True
    unit: str = ""
    tones: Sequence[str] = ()
    bars: Sequence[float] = ()
    lines: Sequence[Sequence[float]] = ()
    long: bool = False

    @property
    def title(self) -> str:
        """The heading, escaped."""
        return in_table(self.heading)

    @property
    def texts(self) -> list[str]:
        """The cells' texts."""
        return [cell.text for cell in self.cells]

    @cached_property
    def cells(self) -> list[Cell]:
        """The cells, in the order of the values."""
        return [self._cell(row, value) for row, value in enumerate(self.values)]

    def _cell(self, row: int, value: Any) -> Cell:
        text = NOTHING if value is None else self.form(value) + f" {self.unit}" * bool(self.unit)
        sorted_by = self.key(value) if self.key else value
        return Cell(
            text=in_text(text) if self.long else in_table(text),
            value=sorted_by if isinstance(sorted_by, int | float) else None,
            tone=self.tones[row] if self.tones else "",
            bar=self.bars[row] if self.bars else None,
            line=self.lines[row] if self.lines else (),
        )


names = partial(Column, number=False)  # a column of names
texts = partial(Column, number=False, long=True)  # a column of sentences


@dataclass(frozen=True)
class Table:
    """Columns of the same length, with a title, a sentence below it, and notes below the rows.

    ``ends``: whether each row is the last of a section. On a page: ``name`` is its place there,
    ``files`` hold the same numbers, ``meanings`` explain headings, and ``filters`` are the headings
    by which rows can be chosen, with the text that is chosen at first, None for all rows.
    """

    columns: Sequence[Column]
    title: str = ""
    lead: str = ""
    notes: Sequence[str] = ()
    ends: Sequence[bool] = ()
    name: str = ""
    files: Sequence[str] = ()
    meanings: Mapping[str, str] = field(default_factory=dict)
    filters: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def rows(self) -> list[tuple[Cell, ...]]:
        """The cells, row by row."""
        return list(zip(*(column.cells for column in self.columns), strict=True))

    def first(self, count: int) -> Table:
        """The table with its first rows alone."""
        columns = [
            replace(
                column,
                values=column.values[:count],
                tones=column.tones[:count],
                bars=column.bars[:count],
                lines=column.lines[:count],
            )
            for column in self.columns
        ]
        return replace(self, columns=columns, ends=self.ends[:count])

    def without(self, headings: Sequence[str]) -> Table:
        """The table without some columns, and a note that names them."""
        if not headings:
            return self
        columns = [column for column in self.columns if column.heading not in headings]
        return replace(self, columns=columns, notes=[*self.notes, HIDDEN + ", ".join(headings)])


def rich_table(shown: Table) -> RichTable:
    """The table for ``rich``, which takes no text for markup."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

    made = RichTable(
        title=Text(in_text(shown.title)) if shown.title else None,
        caption=Text("\n".join(map(in_text, shown.notes))) if shown.notes else None,
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    for column in shown.columns:
        justify: Any = "right" if column.number else "left"
        made.add_column(Text(column.title), justify=justify, overflow="fold")
    for row, cells in enumerate(shown.rows):
        texts = [Text(cell.text, COLOURS.get(cell.tone, "")) for cell in cells]
        made.add_row(*texts, end_section=bool(shown.ends and shown.ends[row]))
    return made


def print_table(shown: Table, file: IO[str] | None = None, spare: Sequence[str] = ()) -> None:
    """Print a table to standard output or ``file``, in full width unless a terminal limits it.

    While it is too wide for a terminal, or for COLUMNS, the columns with the headings ``spare`` are
    left out, in their order, and a note names them; then lines wrap.
    """
    from rich.console import Console

    console = Console(file=file, highlight=False)
    limited = console.is_terminal or os.environ.get("COLUMNS", "").isdigit()
    for count in range(len(spare) + 1):
        made = rich_table(shown.without(spare[:count]))
        if not limited or _width(made) <= console.width:
            break
    if not limited:
        console = Console(file=file, width=_width(made), highlight=False)
    console.print(made)


def _width(made: Any) -> int:
    from rich.console import Console

    return Console(width=10_000).measure(made).maximum


def plain_text(shown: Table) -> str:
    """The table as plain text in full width, without empty lines around it."""
    from rich.console import Console

    file, made = io.StringIO(), rich_table(shown)
    Console(file=file, width=_width(made), highlight=False, color_system=None).print(made)
    return "\n".join(line.rstrip() for line in file.getvalue().strip("\n").split("\n")).strip("\n")
