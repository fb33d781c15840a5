from __future__ import annotations

import os
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tightrope.errors import InputError
from tightrope.report.figures import draw, legend_marks, svg_text
from tightrope.report.page import Page, Picture, render, write_page
from tightrope.report.panels import metric_panels
from tightrope.report.rows import detailed

VOID = {"meta", "br", "link", "img", "hr", "input"}


class Reader(HTMLParser):
    """Every tag with its attributes, the text, and whether all that opens also closes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def page(one_limit):
    rows = [replace(row, outside_theory=row.budget < 100) for row in detailed(one_limit)]
    panels = metric_panels(one_limit.problem, rows, "reward_rate")
    panels += metric_panels(one_limit.problem, rows, "violation")
    return Page(
        title="A <page> & more",
        lead="What it shows",
        facts=[("Seed", "0")],
        legend=[Picture(name, mark) for name, mark in legend_marks(panels).items()],
        pictures=[Picture(p.y_label, svg_text(draw([p], 1, legend=False))) for p in panels],
        notes=["<script>alert('no')</script>"],
        rows=rows,
        files=["fig1.csv"],
        sources=[("Problem", one_limit.problem.to_toml())],
    )


def test_the_page_parses_and_says_everything(page):
    reader = Reader(render(page))
    assert reader.open == []
    for text in ("A <page> & more", "What it shows", "Seed", "lyon", "limit = 0.8", "δ ≥ c"):
        assert text in reader.text
    assert sum(tag == "tr" for tag, _ in reader.tags) == 1 + len(page.rows)
    assert sum(tag == "svg" for tag, _ in reader.tags) == len(page.pictures) + len(page.legend)


def test_every_text_is_escaped(page):
    html = render(page)
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "A &lt;page&gt; &amp; more" in html


def test_the_page_needs_no_network(page):
    html = render(page)
    for tag, attributes in Reader(html).tags:
        assert tag not in {"script", "link", "img", "iframe"}
        for name in ("src", "href", "xlink:href"):
            value = attributes.get(name)
            assert value is None or not re.match(r"(https?:)?//", value)
    assert not re.search(r"url\((?!#)", html)
    assert "@import" not in html
    assert "<?xml" not in html


def test_ids_are_unique_and_references_resolve(page):
    html = render(page)
    ids = [attributes["id"] for _, attributes in Reader(html).tags if "id" in attributes]
    assert len(ids) == len(set(ids)) > 10
    used = re.findall(r'href="#([^"]+)"', html) + re.findall(r"url\(#([^)]+)\)", html)
    assert set(used) <= set(ids)
    assert used


def test_pictures_follow_light_and_dark(page):
    html = render(page)
    assert "prefers-color-scheme: dark" in html
    svgs = "".join(re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL))
    assert "var(--ink)" in svgs
    assert "#1a1b1e" not in svgs
    assert "#0072b2" in svgs


def test_written_whole_or_not_at_all(page, tmp_path):
    write_page(page, tmp_path / "index.html")
    assert (tmp_path / "index.html").read_text() == render(page)
    with pytest.raises(InputError):
        write_page(page, tmp_path / "absent" / "index.html")
    broken = Page("t", "l", [], [], [Picture("p", "not an svg")], [], page.rows)
    with pytest.raises(ValueError, match="substring"):
        write_page(broken, tmp_path / "broken.html")
    assert os.listdir(tmp_path) == ["index.html"]
