"""A self-contained HTML page: no network, no script; light and dark, wide and narrow."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tightrope.files import write_text
from tightrope.names import in_text
from tightrope.report.extra import require
from tightrope.report.figures import draw, legend_marks, svg_text
from tightrope.report.model import Table
from tightrope.report.panels import Panel
from tightrope.report.rows import AnyRow
from tightrope.report.styles import INK, PAPER
from tightrope.report.table import footnotes, rows_table

if TYPE_CHECKING:
    from markupsafe import Markup

TEMPLATE = "page.html.j2"


@dataclass(frozen=True)
class Picture:
    """An SVG document and what it shows."""

    title: str
    svg: str


@dataclass(frozen=True)
class Chapter:
    """The contents of one experiment's section, from top to bottom."""

    title: str
    lead: str
    facts: Sequence[tuple[str, str]]  # what was run: names and values
    legend: Sequence[Picture]  # of all pictures: names and small marks
    pictures: Sequence[Picture]
    notes: Sequence[str]
    rows: Sequence[AnyRow]
    files: Sequence[str] = ()  # beside the page, to link to
    sources: Sequence[tuple[str, str]] = field(default=())  # names and texts, shown on demand


@dataclass(frozen=True)
class Book:
    """Several experiments on one page; a single one gives the book its title and lead."""

    title: str
    lead: str
    facts: Sequence[tuple[str, str]]
    pages: Mapping[str, Chapter]  # by the name to link to
    findings: Table | None = None


def render(page: Chapter) -> str:
    """One experiment as HTML; every text is escaped."""
    return render_book(Book(page.title, page.lead, page.facts, {"experiment": page}))


def render_book(book: Book) -> str:
    """The whole book as HTML; every text is escaped."""
    chapters = [_chapter(name, page) for name, page in book.pages.items()]
    return fill(TEMPLATE, book=book, chapters=chapters, alone=len(chapters) == 1)


def fill(template: str, **facts: Any) -> str:
    """A template of this folder, filled with ``facts``; every text is escaped."""
    require("jinja2")
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(lambda name: files(__package__).joinpath(name).read_text("utf-8")),
        autoescape=True,
        finalize=_seen,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**facts)


def _seen(value: Any) -> Any:
    """A template's value; in text, invisible characters are escaped."""
    from markupsafe import Markup

    plain = isinstance(value, str) and not isinstance(value, Markup)
    return in_text(value, keep="\n\t") if plain else value


def write_page(page: Chapter, path: str | os.PathLike[str]) -> None:
    """Write the page atomically."""
    write_text(path, render(page))


def _chapter(name: str, page: Chapter) -> dict[str, Any]:
    """The template's values for one experiment."""
    return {
        "name": name,
        "page": page,
        "table": rows_table(page.rows),
        "footnotes": footnotes(page.rows),
        "legend": inlined(page.legend, f"{name}-mark"),
        "pictures": inlined(page.pictures, f"{name}-picture"),
    }


def illustrated(panels: Sequence[Panel], **size: Any) -> dict[str, list[tuple[str, Markup]]]:
    """The legend and the pictures of panels, for a template; ``size``: as ``draw`` takes it."""
    marks = [Picture(name, mark) for name, mark in legend_marks(panels).items()]
    pictures = [
        Picture(f"{one.title}: {one.y_label}", svg_text(draw([one], 1, legend=False, **size)))
        for one in panels
    ]
    return {"legend": inlined(marks, "mark"), "pictures": inlined(pictures, "picture")}


def inlined(pictures: Sequence[Picture], prefix: str) -> list[tuple[str, Markup]]:
    """Titles and pictures as HTML elements; ``prefix`` makes their ids unique."""
    from markupsafe import Markup

    return [
        (picture.title, Markup(_element(picture.svg, f"{prefix}{i}-")))
        for i, picture in enumerate(pictures)
    ]


def _element(document: str, prefix: str) -> str:
    """An SVG document as an HTML element, with unique ids and the page's colours."""
    svg = document[document.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    svg = re.sub(r'href="#', f'href="#{prefix}', svg)
    svg = svg.replace("url(#", f"url(#{prefix}")
    svg = svg.replace(INK, "var(--ink)").replace(PAPER, "var(--card)")
    return svg.replace("<svg", '<svg aria-hidden="true"', 1)
