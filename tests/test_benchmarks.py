import pytest
from benchmarks.comparison import Row
from benchmarks.page import NoBlockError, write

PAGE = "Mine.\n<!-- begin: a -->\nold\n<!-- end -->\nMine too.\n<!-- begin: b --><!-- end -->\n"


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    return path


def test_blocks_are_replaced_and_the_text_around_them_stays(page):
    write({"a": "new", "b": "| x |"}, page)
    write({"a": "newer"}, page)
    assert page.read_text() == (
        "Mine.\n<!-- begin: a -->\n\nnewer\n\n<!-- end -->\nMine too.\n"
        "<!-- begin: b -->\n\n| x |\n\n<!-- end -->\n"
    )


def test_a_page_without_the_block_is_left_alone(page):
    with pytest.raises(NoBlockError, match="begin: c"):
        write({"a": "new", "c": "new"}, page)
    assert page.read_text() == PAGE


def test_ahead_of_every_one():
    row = Row("steps", 300.0, {"one": 100.0, "two": 200.0})
    assert row.verdict() == "steps: ahead of every one; 1.5 times better than two."


def test_not_ahead_says_of_whom_and_why():
    row = Row("size", 300.0, {"one": 10.0, "two": 400.0}, more_is_better=False, why="Heavy.")
    assert row.verdict() == "size: **not ahead** of one (10), with 300. Heavy."
