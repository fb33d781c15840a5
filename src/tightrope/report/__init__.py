"""Reports: a table for the terminal, CSV, figures, one self-contained HTML page.

matplotlib and jinja2 come with ``pip install 'tightrope[report]'`` and are imported when used.
"""

from tightrope.report.figures import draw, plot, save
from tightrope.report.page import Chapter, Picture, write_page
from tightrope.report.table import print_rows, table, write_csv

__all__ = [
    "Chapter",
    "Picture",
    "draw",
    "plot",
    "print_rows",
    "save",
    "table",
    "write_csv",
    "write_page",
]
