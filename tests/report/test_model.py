"""One table model: what its writers make of the same table."""

from __future__ import annotations

import io
import re

import pytest

from tests.report.test_page import Reader
from tightrope import formats, showing
from tightrope.names import csv_text, in_csv
from tightrope.report.html import block
from tightrope.report.model import Column, Table, names, plain_text, print_table, texts
from tightrope.report.page import fill

LONG = "a sentence of more than sixty characters, which is not shortened in a column of texts"
TABLE = Table(
    [
        names("arm", ["careful", "<b>bold</b>", "x" * 200]),
        Column("rate", [0.5, None, 1234567.0], formats.number, tones=["good", "", "bad"]),
        Column("time", [3.0, 4.0, 5.0], "{:.0f}".format, unit="ns", bars=[0.0, 0.5, 1.0]),
        texts("why", [LONG, "", "two\nlines"]),
    ],
    title="Rates",
    notes=["[red]a note[/]"],
    ends=[False, True, False],
)


def cells(text: str) -> list[list[str]]:
    return [re.split(" {2,}", line.strip()) for line in text.splitlines()]


def test_plain_text_has_every_cell():
    lines = cells(plain_text(TABLE))
    assert ["careful", "0.5", "3 ns", LONG] in lines
    assert ["<b>bold</b>", "–", "4 ns"] in lines
    assert lines[0] == ["Rates"]
    assert lines[-1] == ["[red]a note[/]"]
    assert "1,234,567" in plain_text(TABLE)
    assert r"two\nlines" in plain_text(TABLE)
    assert "x" * 61 not in plain_text(TABLE)


def test_notebooks_and_pages_have_the_same_texts():
    notebook = Reader(block(TABLE, ["a fact"], progress=0.25))
    page = Reader(fill("plan.html.j2", **CONTEXT, tables=[TABLE]))
    for reader in (notebook, page):
        assert reader.open == []
        for text in ("careful", "<b>bold</b>", "–", "4 ns", "1,234,567", r"two\nlines"):
            assert text in reader.text
        assert not any(tag == "b" and "bold" in str(attributes) for tag, attributes in reader.tags)
        kinds = [a.get("class") for tag, a in reader.tags if tag == "td"]
        assert [kinds.count(one) for one in ("number good", "number bad")] == [1, 1]
    assert "width:50.0%" in block(TABLE)


CONTEXT = {
    **dict.fromkeys(("title", "lead", "source"), ""),
    **dict.fromkeys(("facts", "sentences", "legend", "pictures", "notes", "files"), ()),
}


def test_a_narrow_terminal_loses_the_spare_columns_in_their_order(monkeypatch):
    monkeypatch.setenv("COLUMNS", "76")
    text = io.StringIO()
    print_table(TABLE, text, ["why", "time"])
    assert "not shown, too little width: why, time" in " ".join(text.getvalue().split())
    assert "1,234,567" in text.getvalue()
    monkeypatch.setenv("COLUMNS", "300")
    whole = io.StringIO()
    print_table(TABLE, whole, ["why", "time"])
    assert "not shown" not in whole.getvalue()


def test_what_is_sorted_by():
    column = Column("kept", ["a", "bb"], str.upper, len)
    assert [(one.text, one.value) for one in column.cells] == [("A", 1), ("BB", 2)]
    assert [one.value for one in TABLE.columns[1].cells] == [0.5, None, 1234567.0]
    assert [one.value for one in TABLE.columns[0].cells] == [None] * 3


@pytest.mark.parametrize("text", ["=1+1", "+1+cmd", "-1+1", "@sum", "\t=1", "＝1", "-inf", "+a"])
def test_a_formula_gets_an_apostrophe(text):
    assert str(in_csv(text)).startswith("'") or not str(in_csv(text)).startswith(tuple("=+-@\t"))
    assert csv_text([[text]]).lstrip('"')[0] in "'\\"


@pytest.mark.parametrize("text", ["-0.5", "+1e-05", "-12", "0.5", "lyon"])
def test_a_number_as_text_stays_a_number(text):
    assert in_csv(text) == text


def test_what_has_no_form():
    with pytest.raises(TypeError, match="int: cannot be shown in this form"):
        showing.html_of(5)
    with pytest.raises(TypeError, match="int: cannot be shown in this form"):
        showing.write_report(5, "folder")
