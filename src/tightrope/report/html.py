"""Tables for notebooks: small HTML elements without scripts, in the notebook's colours.

Every text goes through :func:`text`, which escapes markup, line ends and invisible characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from tightrope.names import LONGEST, in_table
from tightrope.report.model import Cell, Column, Table

MOST_NOTE = 1000  # characters of a note
MOST_LINES = 24  # lines of a table
FEWEST_POINTS = 3  # points of a sparkline
WIDTH, HEIGHT = 84, 18  # size of a sparkline, in pixels

STYLE = """
.tightrope{max-width:100%;overflow-x:auto;color:inherit;font-size:13px;line-height:1.35}
.tightrope p{margin:.2em 0 .5em;color:inherit}
.tightrope .quiet{opacity:.7}
.tightrope table{border-collapse:collapse;border:0;margin:.2em 0 .5em;color:inherit;font-size:13px}
.tightrope tr,.tightrope tr:nth-child(even),.tightrope tr:nth-child(odd){background:none}
.tightrope th,.tightrope td{border:0;padding:.2em .8em .2em 0;text-align:left;vertical-align:top;
color:inherit;font-variant-numeric:tabular-nums;white-space:nowrap}
.tightrope th{font-weight:600;border-bottom:1px solid rgba(128,128,128,.6)}
.tightrope tr.first td{border-top:1px solid rgba(128,128,128,.3)}
.tightrope th.number,.tightrope td.number{text-align:right}
.tightrope .bar{display:block;width:84px;height:4px;margin:2px 0 0 auto;border-radius:2px;
background:rgba(128,128,128,.25);overflow:hidden}
.tightrope .wide .bar{width:240px;height:6px;margin:0}
.tightrope .bar i{display:block;height:100%;background:#3f8fd2}
.tightrope .bad{color:#e0533d}.tightrope .good{color:#2f9e62}
.tightrope .bad .bar i{background:#e0533d}.tightrope .good .bar i{background:#2f9e62}
.tightrope svg{display:block;margin-left:auto}
""".replace("\n", "")


def text(value: object, most: int = LONGEST) -> str:
    r"""A text escaped for HTML, on one line, of at most ``most`` characters.

    >>> text("<script>\n\u202e")
    '&lt;script&gt;\\n\\u202e'
    """
    visible = in_table(str(value), most)
    return escape(visible) if visible.isascii() else f"<bdi>{escape(visible)}</bdi>"


def block(
    shown: Table,
    facts: Sequence[str] = (),
    *,
    total: int = 0,
    progress: float | None = None,
    arms: Sequence[str] = (),
) -> str:
    """A title with facts, a lead, a table and its notes as one HTML element, with its style.

    ``total``: the number of rows if the table has only the first of them. ``progress``: a bar below
    the title, from 0 to 1. ``arms``: names of arms, if they have no rows.
    """
    lines = max((len(column.values) for column in shown.columns), default=0)
    left = max(total, lines) - min(lines, MOST_LINES)
    notes = [f"and {left:,} more"] * (left > 0) + list(shown.notes)
    parts = [
        f'<div class="tightrope"><style>{STYLE}</style><p><b>{text(shown.title)}</b>',
        f' <span class="quiet">{" · ".join(map(text, facts))}</span></p>',
        f"<p>{text(shown.lead, MOST_NOTE)}</p>" if shown.lead else "",
        "" if progress is None else f'<p class="wide">{_bar(progress)}</p>',
        _table(shown),
        f'<p class="quiet">Arms: {", ".join(map(text, arms))}</p>' if arms else "",
        *(f'<p class="quiet">{text(note, MOST_NOTE)}</p>' for note in notes),
    ]
    return "".join([*parts, "</div>"])


def _table(shown: Table) -> str:
    heads = [f"<th{_class('number' * c.number)}>{text(c.heading)}</th>" for c in shown.columns]
    rows = []
    for i, cells in enumerate(shown.rows[:MOST_LINES]):
        marked = _class("first" * bool(i and shown.ends and shown.ends[i - 1]))
        told = [_cell(cell, column) for cell, column in zip(cells, shown.columns, strict=True)]
        rows.append(f"<tr{marked}>{''.join(told)}</tr>")
    head, body = "".join(heads), "".join(rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(cell: Cell, column: Column) -> str:
    drawn = "" if cell.bar is None else _bar(cell.bar)
    drawn += _spark(cell.line) if len(cell.line) >= FEWEST_POINTS else ""
    return f"<td{_class('number' * column.number, cell.tone)}>{text(cell.text)}{drawn}</td>"


def _class(*names: str) -> str:
    told = " ".join(filter(None, names))
    return f' class="{told}"' if told else ""


def _bar(share: float) -> str:
    """A bar that is empty at 0 and full at 1."""
    length = float(np.clip(np.nan_to_num(share), 0.0, 1.0))
    return f'<span class="bar" aria-hidden="true"><i style="width:{100 * length:.1f}%"></i></span>'


def _spark(values: Sequence[float]) -> str:
    """A sparkline of the values, scaled to their range, with a dot at the last."""
    heights = np.asarray(values, float)
    low, high = float(heights.min()), float(heights.max())
    scaled = (heights - low) / (high - low) if high > low else np.full(len(heights), 0.5)
    x = np.linspace(3.0, WIDTH - 3.0, len(heights))
    y = (HEIGHT - 3.0) - scaled * (HEIGHT - 6.0)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">'
        f'<polyline points="{points}" fill="none" stroke="#3f8fd2" stroke-width="1.5"/>'
        f'<circle cx="{x[-1]:.1f}" cy="{y[-1]:.1f}" r="2.2" fill="#3f8fd2"/></svg>'
    )
