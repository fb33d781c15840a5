import csv

import pytest

from benchmarks.resolve_charts import CHARTS, DOCS, draw
from benchmarks.rows import print_rows
from tightrope.version import __version__


@pytest.mark.parametrize("name", CHARTS)
def test_charts_are_drawn_from_the_numbers_in_the_documentation(name, tmp_path):
    assert draw(name, tmp_path).read_bytes().startswith(b"\x89PNG")
    assert (DOCS / name).exists()


def test_figures_are_printed_as_rows_with_the_release_that_made_them(capsys):
    print_rows([{"policy": "lyon", "regret": 1 / 3, "growth": None}])
    head, row = csv.reader(capsys.readouterr().out.splitlines())
    assert head == ["policy", "regret", "growth", "release"]
    assert row == ["lyon", "0.333333", "", __version__]
